"""Sums that do not depend on the order or the number of their parts.

Floating-point sums change with their order. Here every term is first cut into integers, and
integers add up to the same bits in any order, on any number of threads or machines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = [
    "added",
    "exact_sum",
    "exact_sums",
    "from_limbs",
    "greatest",
    "limbs_of",
    "log_total",
    "log_totals",
]

Floats = NDArray[np.float64]

# Below this many values a second thread costs more than it brings.
SMALL = 1 << 16
# Scales for which a machine sums few values before it knows that of all.
SCALES = 8


def exact_sum(values: Floats, workers: Any = None) -> float:
    """Sum as integers, so that no order, block or thread count changes a bit.

    Values are divided by a power of two above the largest and cut into two integers of 31
    bits each; integers add exactly. The error is at most 2^-62 of the largest value for
    each term. O(n). With `workers` the values of all machines are summed (`Workers.together`).

    >>> import numpy as np
    >>> exact_sum(np.array([0.1] * 10))
    1.0
    """
    return exact_sums([values], workers)[0]


def exact_sums(arrays: Sequence[Floats], workers: Any = None, *, few: bool = False) -> list[float]:
    """Several sums, each as `exact_sum` takes it.

    Where machines meet, `few` says that they have few values each, so that summing them for
    several scales is cheaper than to ask the others for the scale.
    """
    if workers is None or workers.alone:
        return [_sum_in_parts(each, workers) for each in arrays]
    if few:
        largest, sums = workers.together(
            lambda: [_at_several_scales(each) for each in arrays], _at_the_scale_of_all
        )
        return _sums_below(arrays, largest, workers) if sums is None else sums
    largest = workers.together(lambda: np.array([_top(each) for each in arrays]), greatest)
    return _sums_below(arrays, largest, workers)


def _top(values: Floats) -> float:
    return float(np.abs(values).max(initial=0.0))


def _at_several_scales(values: Floats) -> tuple[float, list[tuple[int, int]]]:
    """Largest absolute value, and the integers behind the sum for its scale and those above."""
    top = _top(values)
    if not 0 < top < np.inf:
        return top, []
    exponent = math.frexp(top)[1]
    return top, [limbs_of(values, exponent + more) for more in range(SCALES)]


def _at_the_scale_of_all(
    parts: Sequence[Sequence[tuple[float, list[tuple[int, int]]]]],
) -> tuple[Floats, list[float] | None]:
    """Largest values, and the sums: None if a machine has not summed for the scale of all."""
    largest = np.array([greatest([top for top, _ in of]) for of in zip(*parts, strict=True)])
    sums = []
    for most, of in zip(largest, zip(*parts, strict=True), strict=True):
        if not 0 < most < np.inf:
            sums.append(float(most))
            continue
        exponent = math.frexp(most)[1]
        total = np.zeros(2, np.int64)
        for top, limbs in of:
            above = exponent - math.frexp(top)[1]
            if top > 0 and above >= SCALES:
                return largest, None
            total += limbs[above] if top > 0 else 0
        sums.append(float(from_limbs(total, exponent)))
    return largest, sums


def _sum_in_parts(values: Floats, workers: Any) -> float:
    """The sum of one array, every thread adding up a part of it."""
    if workers is None or workers.jobs == 1 or values.size < SMALL:
        return float(_exact_sum(values))
    largest = max(workers.run(_largest, values.size, values))
    if largest in (0, np.inf):
        return float(_exact_sum(values))
    exponent = math.frexp(largest)[1]
    parts = workers.run(lambda low, high: _limbs_of(values[low:high], exponent), values.size)
    return float(from_limbs(np.array(parts, np.int64).sum(axis=0), exponent))


def _sums_below(arrays: Sequence[Floats], largest: Floats, workers: Any) -> list[float]:
    """Sums of values whose largest are known."""
    finite = (largest > 0) & np.isfinite(largest)
    if not finite.any():
        return [float(each) for each in largest]
    exponent = np.frexp(np.where(finite, largest, 1.0))[1]
    limbs = workers.together(
        lambda: np.array(
            [
                limbs_of(each, e) if known else (0, 0)
                for each, e, known in zip(arrays, exponent, finite, strict=True)
            ],
            np.int64,
        ),
        added,
    )
    sums = from_limbs(limbs.T, exponent)
    return [float(each) for each in np.where(finite, sums, largest)]


def limbs_of(values: Floats, exponent: int) -> tuple[int, int]:
    """Sum of values up to 2^exponent as two integers that add up with those of others."""
    return _limbs_of(values, int(exponent))


def from_limbs(limbs: Any, exponent: Any) -> Any:
    """Sum behind two integers of `limbs_of`.

    >>> import numpy as np
    >>> float(from_limbs(limbs_of(np.array([0.25, 1.5]), 1), 1))
    1.75
    """
    high, low = limbs
    return np.ldexp(high * 2.0**-31 + low * 2.0**-62, exponent)


def log_total(log_values: Floats, workers: Any = None) -> float:
    """Logarithm of a sum of exponentials; the order of the terms does not matter."""
    return log_totals([log_values], workers)[0]


def log_totals(arrays: Sequence[Floats], workers: Any = None) -> list[float]:
    """Logarithms of several sums of exponentials."""
    if workers is None or workers.alone:
        return [_log_total(each) for each in arrays]
    largest = workers.together(
        lambda: np.array([each.max(initial=-np.inf) for each in arrays]), greatest
    )
    finite = np.isfinite(largest)
    base = np.where(finite, largest, 0.0)
    terms = [np.exp(each - low) for each, low in zip(arrays, base, strict=True)]
    # The largest of the terms, wherever it is, is 1.
    sums = _sums_below(terms, finite.astype(np.float64), workers)
    return [
        float(top) + float(np.log(each)) if known else float(top)
        for top, each, known in zip(largest, sums, finite, strict=True)
    ]


def _log_total(log_values: Floats) -> float:
    largest = float(log_values.max(initial=-np.inf))
    if not np.isfinite(largest):
        return largest
    return largest + float(np.log(_exact_sum(np.exp(log_values - largest))))


def added(parts: Sequence[Any]) -> Any:
    """Sum of the parts."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def greatest(parts: Sequence[Any]) -> Any:
    """Greatest of the parts, element by element."""
    most = parts[0]
    for part in parts[1:]:
        most = np.maximum(most, part)
    return most


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _exact_sum(values):
    largest = 0.0
    for value in values:
        if not np.isfinite(value):
            return abs(value)
        largest = max(largest, abs(value))
    if largest == 0:
        return 0.0
    exponent = math.frexp(largest)[1]
    high, low = _limbs_of(values, exponent)
    return math.ldexp(high * 2.0**-31 + low * 2.0**-62, exponent)


@njit(cache=True, nogil=True)
def _largest(low, high, values):
    """Largest absolute value; infinity where one is not a number."""
    largest = 0.0
    for place in range(low, high):
        size = abs(values[place])
        if not size < np.inf:
            return np.inf
        largest = max(largest, size)
    return largest


@njit(cache=True, nogil=True)
def _limbs_of(values, exponent):
    """Sum of two integers of 31 bits for every value, as shares of a power of two."""
    # In two factors: of the smallest numbers the inverse is beyond the range of floats.
    half = exponent // 2
    one, other = math.ldexp(1.0, -half), math.ldexp(1.0, half - exponent)
    high, low = np.int64(0), np.int64(0)
    for value in values:
        scaled = value * one * other * 2147483648.0
        whole = np.floor(scaled)
        high += np.int64(whole)
        low += np.int64((scaled - whole) * 2147483648.0)
    return high, low
