"""Sums that do not depend on the order or the number of their parts.

Floating-point sums change with their order. Here every term is first cut into integers, and
integers add up to the same bits in any order, on any number of threads or machines.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["exact_sum", "log_total"]

Floats = NDArray[np.float64]


def exact_sum(values: Floats) -> float:
    """Sum as integers, so that no order, block or thread count changes a bit.

    Values are divided by a power of two above the largest and cut into two integers of 31
    bits each; integers add exactly. The error is at most 2^-62 of the largest value for
    each term. O(n).

    >>> import numpy as np
    >>> exact_sum(np.array([0.1] * 10))
    1.0
    """
    return float(_exact_sum(values))


def log_total(log_values: Floats) -> float:
    """Logarithm of a sum of exponentials; the order of the terms does not matter."""
    largest = float(log_values.max(initial=-np.inf))
    if largest == -np.inf:
        return largest
    return largest + float(np.log(exact_sum(np.exp(log_values - largest))))


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _exact_sum(values):
    """Sum of two integers of 31 bits for every value, as shares of a power of two."""
    largest = 0.0
    for value in values:
        if not np.isfinite(value):
            return abs(value)
        largest = max(largest, abs(value))
    if largest == 0:
        return 0.0
    exponent = math.frexp(largest)[1]
    # In two factors: of the smallest numbers the inverse is beyond the range of floats.
    half = exponent // 2
    one, other = math.ldexp(1.0, -half), math.ldexp(1.0, half - exponent)
    high, low = np.int64(0), np.int64(0)
    for value in values:
        scaled = value * one * other * 2147483648.0
        whole = np.floor(scaled)
        high += np.int64(whole)
        low += np.int64((scaled - whole) * 2147483648.0)
    return math.ldexp(high * 2.0**-31 + low * 2.0**-62, exponent)
