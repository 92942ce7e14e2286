"""Quantized gradients: pulls and Hessians of rows as integers, so that histograms are exact.

A tree is grown from sums of the pull and of its weight (the Hessian) over sets of rows. Sums of
integers do not depend on the order of the rows, on threads or on machines, and the histogram of a
node minus that of one child is exactly that of the other.

*Packed*: pull, weight and count of a row in one 64-bit word, so that a cell costs one addition::

    bit 63 ........ 38 37 ........ 12 11 ....... 0
        pull, signed   weight         count

The fields have room for the sums of a few thousand rows (`MAX_BLOCK_ROWS`), so rows are summed in
blocks, which are then added (*flushed*) to wide sums. Rounding is to about 1/8192 of the mean.

*Wide*: one word for the pull, rounded to 2^-60 of the total, and one for weight and count. Used for
small tables, where it is as fast, and if a row is too far above the mean for a packed word.

Histograms of both kinds have two words per bin: the sum of the pulls, and
``weight << count_bits | count``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from precede.engine.arrays import BackendArray, Floats, Integers
from precede.engine.backend import Backend
from precede.engine.compiling import njit
from precede.engine.exact import all_reduce_abs_max, all_reduce_sum, exact_sums
from precede.engine.execution import Context, threads_for

# Maximum rows in a packed sum. The kernels here and in `tree_histograms` spell out the layout.
MAX_BLOCK_ROWS = 4095
COUNT_BITS, WEIGHT_BITS, PULL_BITS = 12, 26, 26
assert (MAX_BLOCK_ROWS, COUNT_BITS, COUNT_BITS + WEIGHT_BITS) == (4095, 12, 38), "kernels differ"
# Shifts of pull and weight in a packed word, and the count of a row; see `pack`.
PACKED = COUNT_BITS + WEIGHT_BITS, COUNT_BITS, 1
# The mean packed pull is between 2^12 and 2^13, the mean weight between 2^13 and 2^14, so that
# a block of average rows fits.
MEAN_PULL_BITS, MEAN_WEIGHT_BITS = 13, 14
# If a row has a larger packed pull or weight, wide words are used.
MAX_PULL, MAX_WEIGHT = 2.0**23, 2.0**24


@dataclass(frozen=True)
class QuantizedRows:
    """Quantized pulls and weights of all rows.

    Attributes
    ----------
    packed : the packed word of each row; None if rows are wide
    pull, weight_count : the two wide words of each row; None if rows are packed
    pull_unit, weight_unit : value of an integer 1 in histograms
    count_bits : bits of the count in the second word of a bin
    total, total_weight : sums of the absolute pulls and of the weights over all rows
    exact_bits : exponents of the powers of two that scale pulls and weights to wide integers
    """

    packed: Integers | None
    pull: Integers | None
    weight_count: Integers | None
    pull_unit: float
    weight_unit: float
    count_bits: int
    total: float
    total_weight: float
    exact_bits: tuple[int, int]


@dataclass(frozen=True)
class Quantization:
    """Parameters of the quantization, see `QuantizedRows`.

    Pulls are multiplied by ``2**pull_bits``, weights by ``2**weight_bits``, and rounded.
    """

    wide: bool
    pull_bits: int
    weight_bits: int
    count_bits: int
    total: float
    total_weight: float
    exact_bits: tuple[int, int]

    def apply(
        self, pull: BackendArray, weight: BackendArray, backend: Backend, context: Context
    ) -> QuantizedRows:
        """Quantize the pulls and weights of the rows of this machine, where they are. O(rows)."""
        scale = *power_factors(self.pull_bits), *power_factors(self.weight_bits)
        first = backend.empty(pull.size, dtype=np.int64)
        second = backend.empty(pull.size * self.wide, dtype=np.int64)
        if backend.is_gpu:
            given = int(self.wide), self.count_bits, pull, weight, *scale, first, second
            backend.over_rows("pack", pull.size, *given)
        elif self.wide:
            threads = threads_for("rows", pull.size)
            context.map(_widen, pull.size, pull, *scale[:2], first, threads=threads)
            context.map(_widen, pull.size, weight, *scale[2:], second, threads=threads)
            second <<= self.count_bits
            second += 1
        else:
            threads = threads_for("rows", pull.size)
            context.run(pack, pull.size, pull, weight, *scale, *PACKED, first, threads=threads)
        return QuantizedRows(
            packed=None if self.wide else first,
            pull=first if self.wide else None,
            weight_count=second if self.wide else None,
            pull_unit=math.ldexp(1.0, -self.pull_bits),
            weight_unit=math.ldexp(1.0, -self.weight_bits),
            count_bits=self.count_bits,
            total=self.total,
            total_weight=self.total_weight,
            exact_bits=self.exact_bits,
        )


def plan_quantization(
    pull: BackendArray, weight: BackendArray, context: Context, *, wide: bool = False
) -> Quantization | None:
    """Return the quantization of the rows of all machines; None if all pulls or weights are 0.

    `wide` requests wide words.

    >>> from precede.engine.backend import CPU
    >>> pull, weight, context = np.array([0.5, -0.25]), np.ones(2), Context(1)
    >>> plan = plan_quantization(pull, weight, context, wide=True)
    >>> rows = plan.apply(pull, weight, CPU, context)
    >>> rows.pull * rows.pull_unit, rows.weight_count & (2**rows.count_bits - 1)
    (array([ 0.5 , -0.25]), array([1, 1]))
    """
    backend = context.backend
    count = all_reduce_sum(lambda: pull.size, context)
    if backend.is_gpu and backend.holds(pull):
        sums = backend.sums_and_largest([pull, weight], absolute=True)
        (total, largest), (total_weight, largest_weight) = sums
    else:
        largest, largest_weight = tops = all_reduce_abs_max([pull, weight], context)
        total, total_weight = exact_sums([pull, weight], context, largest=tops, absolute=True)
    if not (total > 0 and total_weight > 0):
        return None
    count_bits = count.bit_length()
    mean_exponents = math.frexp(total / count)[1], math.frexp(total_weight / count)[1]
    pull_bits = MEAN_PULL_BITS - mean_exponents[0]
    weight_bits = min(MEAN_WEIGHT_BITS, 62 - 2 * count_bits) - mean_exponents[1]
    fits = math.ldexp(largest, pull_bits) < MAX_PULL
    fits = fits and math.ldexp(largest_weight, weight_bits) < MAX_WEIGHT
    exact_bits = 60 - math.frexp(total)[1], 61 - math.frexp(total_weight)[1]
    wide = wide or not fits
    if wide:
        pull_bits = exact_bits[0]
        weight_bits = 62 - count_bits - math.frexp(total_weight)[1]
    return Quantization(wide, pull_bits, weight_bits, count_bits, total, total_weight, exact_bits)


def power_factors(bits: int) -> tuple[float, float]:
    """Return two factors of ``2**bits``, which itself may exceed the range of floats.

    >>> power_factors(3)
    (2.0, 4.0)
    """
    half = bits // 2
    return math.ldexp(1.0, half), math.ldexp(1.0, bits - half)


def _widen(low: int, high: int, values: Floats, one: float, other: float, out: Integers) -> None:
    """Write ``values * one * other``, rounded, for rows low..high in chunks that fit in a cache."""
    for first in range(low, high, MAX_BLOCK_ROWS):
        chunk = slice(first, min(first + MAX_BLOCK_ROWS, high))
        scaled = values[chunk] * one
        scaled *= other
        out[chunk] = np.rint(scaled, out=scaled)


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def pack(
    low: int, high: int, pull: Floats, weight: Floats, one: float, other: float, weight_one: float,
    weight_other: float, pull_shift: int, weight_shift: int, count: int, packed: Integers,
) -> None:  # fmt: skip
    """Write ``pull << pull_shift | weight << weight_shift | count`` for rows low..high.

    Pulls and weights are multiplied by two factors each, see `power_factors`, and rounded.
    """
    # An index that counts from 0 needs no bounds check, so that the loop is vectorized.
    pull, weight, packed = pull[low:high], weight[low:high], packed[low:high]
    for row in range(pull.size):
        first = np.int64(np.rint(pull[row] * one * other))
        second = np.int64(np.rint(weight[row] * weight_one * weight_other))
        packed[row] = (first << pull_shift) + (second << weight_shift) + count
