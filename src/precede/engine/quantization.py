"""Gradients and Hessians of rows as integers, so that histograms of them are exact.

A tree is grown from sums of the pull and of its weight (the Hessian) over sets of rows. Both
become integers first: sums of integers do not depend on the order of the rows, on threads or on
machines, and the histogram of a node minus that of one child is exactly that of the other.

*Packed*: all three numbers of a row in one 64-bit word, so that a cell costs one addition::

    bit 63 ........ 38 37 ........ 12 11 ....... 0
        pull, signed   weight         rows

A word holds the sum of some thousand rows before a part overflows (`BLOCK`); histograms are
therefore filled in blocks and added to wide ones. Numbers are rounded to about 1/8192 of their
mean.

*Wide*: one word for the pull, rounded to 2^-60 of the total, one for weight and count. Used
where it is no slower (small tables), and where some numbers are so much larger than the mean
that they do not fit into a packed word.

The histograms of both have two words for each bin: the sum of the pulls, and
``weight << count_bits | count``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit

from precede.engine.arrays import Floats, Integers
from precede.engine.exact import all_reduce_sum, exact_sums, largest_of
from precede.engine.execution import Context, is_small

__all__ = [
    "BLOCK",
    "Quantization",
    "QuantizedRows",
    "factors",
    "plan_quantization",
    "quantize_rows",
    "shared_quantization",
]


# Most rows in a packed sum; kernels here and in `histogram` write the layout out.
BLOCK = 4095
COUNT_BITS, WEIGHT_BITS, PULL_BITS = 12, 26, 26
assert (BLOCK, COUNT_BITS, COUNT_BITS + WEIGHT_BITS) == (4095, 12, 38), "kernels differ"
# Packed pulls have a mean size between 2^12 and 2^13, weights between 2^13 and 2^14, so that
# a block of mean rows fits; rows beyond these sizes do not leave room for others.
MEAN_PULL, MEAN_WEIGHT = 13, 14
MOST_PULL, MOST_WEIGHT = 2.0**23, 2.0**24


@dataclass(frozen=True)
class QuantizedRows:
    """The integers of all rows.

    Attributes
    ----------
    packed : one word for each row, or None where numbers are wide
    pull, weight_count : the two words of each row, or None where they are packed
    pull_unit, weight_unit : what a 1 stands for in histograms
    count_bits : by how many bits weights are shifted in the second word of a bin
    total, total_weight : sums of the absolute pulls and of the weights of all rows
    exact_bits : of the powers of two by which pulls and weights are multiplied to be summed as
        wide integers
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


def quantize_rows(
    pull: Floats, weight: Floats, context: Context, *, wide: bool = False
) -> QuantizedRows | None:
    """Turn pulls and weights into integers; None if all pulls or all weights are 0.

    `wide` asks for wide numbers. O(n). On several machines the units are those of all rows.

    >>> import numpy as np
    >>> rows = quantize_rows(np.array([0.5, -0.25]), np.ones(2), Context(1), wide=True)
    >>> rows.pull * rows.pull_unit, rows.weight_count & (2**rows.count_bits - 1)
    (array([ 0.5 , -0.25]), array([1, 1]))
    """
    plan = shared_quantization(pull, weight, context, wide=wide)
    if plan is None:
        return None
    bits = *factors(plan.pull_bits), *factors(plan.weight_bits)
    first, second = np.empty(pull.size, np.int64), np.empty(pull.size * plan.wide, np.int64)
    small = is_small("rows", pull.size)
    if plan.wide:
        context.run(_widen, pull.size, pull, *bits[:2], first, small=small)
        context.run(_widen, pull.size, weight, *bits[2:], second, small=small)
        second <<= plan.count_bits
        second += 1
    else:
        context.run(_pack, pull.size, pull, weight, *bits, first, small=small)
    return plan.rows(first, second)


def shared_quantization(
    pull: Floats, weight: Floats, context: Context, *, wide: bool
) -> Quantization | None:
    """How all machines turn their rows into integers; None if all pulls or all weights are 0."""
    count = all_reduce_sum(lambda: pull.size, context)
    largest = largest_of([pull, weight], context)
    totals = exact_sums([np.abs(pull), weight], context, largest=largest)
    return plan_quantization(count, totals, largest, wide=wide)


@dataclass(frozen=True)
class Quantization:
    """By which powers of two pulls and weights are multiplied, and whether they get a word each.

    The other attributes are those of `PackedRows`.
    """

    wide: bool
    pull_bits: int
    weight_bits: int
    count_bits: int
    total: float
    total_weight: float
    exact_bits: tuple[int, int]

    def rows(self, first: Integers, second: Integers) -> QuantizedRows:
        """The integers of all rows: packed words, or pulls and weights with counts."""
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
    count: int, totals: Sequence[float], largest: Sequence[float], *, wide: bool
) -> Quantization | None:
    """How to turn rows into integers; None if all pulls or all weights are 0.

    `totals` are the sums of the absolute pulls and of the weights, `largest` the largest of each.
    """
    total, total_weight = totals
    if not (total > 0 and total_weight > 0):
        return None
    count_bits = count.bit_length()
    of_mean = math.frexp(total / count)[1], math.frexp(total_weight / count)[1]
    pull_bits = MEAN_PULL - of_mean[0]
    weight_bits = min(MEAN_WEIGHT, 62 - 2 * count_bits) - of_mean[1]
    fits = math.ldexp(largest[0], pull_bits) < MOST_PULL
    fits = fits and math.ldexp(largest[1], weight_bits) < MOST_WEIGHT
    exact_bits = 60 - math.frexp(total)[1], 61 - math.frexp(total_weight)[1]
    wide = wide or not fits
    if wide:
        pull_bits = exact_bits[0]
        weight_bits = 62 - count_bits - math.frexp(total_weight)[1]
    return Quantization(wide, pull_bits, weight_bits, count_bits, total, total_weight, exact_bits)


def factors(bits: int) -> tuple[float, float]:
    """2^bits in two factors: of the smallest numbers the inverse is beyond the range of floats.

    >>> factors(3)
    (2.0, 4.0)
    """
    half = bits // 2
    return math.ldexp(1.0, half), math.ldexp(1.0, bits - half)


def _widen(low: int, high: int, values: Floats, one: float, other: float, out: Integers) -> None:
    """Write values low..high as integers, so many at once that they stay in the cache."""
    for first in range(low, high, BLOCK):
        here = slice(first, min(first + BLOCK, high))
        scaled = values[here] * one
        scaled *= other
        out[here] = np.rint(scaled, out=scaled)


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _pack(
    low: int, high: int, pull: Floats, weight: Floats, one: float, other: float, weight_one: float,
    weight_other: float, packed: Integers,
) -> None:  # fmt: skip
    # An index that counts from 0 needs no check, and the processor takes several rows at once.
    pull, weight, packed = pull[low:high], weight[low:high], packed[low:high]
    for row in range(pull.size):
        first = np.int64(np.rint(pull[row] * one * other))
        second = np.int64(np.rint(weight[row] * weight_one * weight_other))
        packed[row] = (first << 38) + (second << 12) + 1
