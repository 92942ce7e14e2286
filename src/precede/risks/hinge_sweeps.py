"""Hinge and squared hinge risk of long lists: one sort, then sums that move along the scores.

A *split* has losers with sorted scores u and winners with sorted scores, of which the knot of the
hinge is subtracted: v. A loser pays for the winners with v < u, and a winner is pulled by the
losers with u > v:

    sum_{v < u} w (u - v)^j  for every loser,     sum_{u > v} w (u - v)^j  for every winner.

They follow from the moments of the sources passed so far, about the last one,

    M_j = sum_i w_i (a - a_i)^j,     M_j(t) = sum_m C(j, m) (t - a)^(j - m) M_m,

and only positive terms are ever added, so nothing cancels. Both sides are cut into blocks of
``2^BITS`` rows. Each block has moments of its own and a *carry*, the moments of all blocks before
it; a target adds what the two say. So blocks do not wait for each other, and their sums do not
depend on the number of threads, nor on whether a GPU takes them (`precede.risks.device_sweeps`).

A query of several grades is halved, level by level, until few enough pairs are left to enumerate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from precede.engine.arrays import Floats, Integers
from precede.engine.compiling import INNER
from precede.engine.execution import Context, is_small
from precede.engine.query_layout import QueryLayout
from precede.losses import PairLoss, Price
from precede.risks.short_queries import EnumeratedRisk, sizes_of_runs
from precede.risks.sweeps import order_of

__all__ = ["BITS", "HingeRisk", "Splits"]


BITS = 9  # blocks have 2^BITS rows, whatever the number of threads
# Up to so many pairs for each row enumeration is quicker than to sort (measured), and up to the
# second number where a list has more than LONGEST rows, which one thread would enumerate.
MOST_PAIRS, FEW_PAIRS, LONGEST = 100, 16, 8192
DIGITS = 1 << 12  # so many numbers are sorted digit by digit


class HingeRisk(EnumeratedRisk):
    """Hinge or squared hinge with a linear price: long lists by sweeps, what is left enumerated.

    With L grades in a list of n rows O(n log n + n log L) time, and O(n) memory.
    """

    def __init__(
        self, layout: QueryLayout, loss: PairLoss, cost: Price, context: Context | None = None
    ):
        super().__init__(layout, loss, cost, context)
        runs, self._depths = _plan(layout)
        self._set_runs(runs)

    def _sum_graded(self, scores: Floats, pull: Floats, hessian: Floats) -> Floats:
        """Add what is enumerated, then the splits from the innermost to the outermost."""
        sums, before = [super()._sum_graded(scores, pull, hessian)], None
        if self._depths:
            scores = scores + 0.0  # without -0, which would be sorted before 0
        for splits in self._depths:
            before = splits.sort(scores, before, self.context)
            sums.append(self._sweep(splits, *before, pull, hessian))
        return np.concatenate(sums)

    def _sweep(
        self, splits: Splits, order: Integers, ranked: Floats, pull: Floats, hessian: Floats
    ) -> Floats:
        """Add the pairs of splits that have no row in common; gives value and mass by block."""
        blocks, sides = splits.blocks, splits.sides
        moments, carry = np.empty((order.size, 3)), np.zeros((len(blocks), 3))
        sums, small = np.zeros((len(blocks), 2)), is_small("heavy rows", splits.rows)
        weights = self.layout.weight, self.layout.loser_weight
        self.context.run(
            _moments_of_blocks, len(blocks), blocks, order, ranked, self._knot, *weights, moments,
            small=small,
        )  # fmt: skip
        _carry_sides(sides, blocks, ranked, self._knot, moments, carry)
        self.context.run(
            _read_blocks, len(blocks), blocks, sides, order, ranked, splits.bits, self._knot,
            self._degree, moments, carry, *weights, pull, hessian, sums, small=small,
        )  # fmt: skip
        return sums


@dataclass(frozen=True)
class Splits:
    """Splits that have no row in common.

    Attributes
    ----------
    sides : first row, end, first block and end of blocks of the losers of the first split, of its
        winners, of the losers of the second split, ...
    blocks : first row, end and side of every block
    inner : row that divides a side into two that are sorted already; -1 if there is none
    bits : a block has ``2^bits`` rows, or fewer at the end of a side
    """

    sides: Integers
    blocks: Integers
    inner: Integers
    bits: int

    @property
    def rows(self) -> int:
        """How many rows are in a split."""
        return int((self.sides[:, 1] - self.sides[:, 0]).sum())

    def sort(
        self, scores: Floats, before: tuple[Integers, Floats] | None, context: Context
    ) -> tuple[Integers, Floats]:
        """Rows of every side by rising score, equal ones as they stand; and their scores.

        `before` is the answer of the splits inside these.
        """
        order, ranked = np.empty(scores.size, np.int64), np.empty(scores.size)

        def sort(first: int, last: int) -> None:
            for (begin, end), inner in zip(
                self.sides[first:last, :2], self.inner[first:last], strict=True
            ):
                if inner >= 0 and before is not None:
                    _merge(begin, inner, end, *before, order, ranked)
                    continue
                here = scores[begin:end]
                found = order_of(here) if here.size >= DIGITS else np.argsort(here, kind="stable")
                order[begin:end], ranked[begin:end] = found + begin, here[found]

        context.run(sort, len(self.sides), small=is_small("heavy rows", self.rows))
        return order, ranked


def _plan(layout: QueryLayout) -> tuple[Integers, list[Splits]]:
    """Runs of levels to enumerate, and the splits, the innermost ones first."""
    level_start, query_start = layout.level_start, layout.query_start
    open_ = np.column_stack([query_start[:-1], query_start[1:]])
    runs: list[Integers] = []
    depths: list[Integers] = []
    while len(open_):
        rows, pairs = sizes_of_runs(level_start, open_)
        # The rows of a half are sorted in any case.
        few = 0 if depths else FEW_PAIRS
        long = (pairs > MOST_PAIRS * rows) | ((rows > LONGEST) & (pairs > few * rows))
        runs.append(open_[~long])
        bottom, top = open_[long].T
        middle = (bottom + top) // 2
        if middle.size:
            depths.append(level_start[np.column_stack([bottom, middle, top])])
        halves = np.column_stack([bottom, middle, middle, top]).reshape(-1, 2)
        open_ = halves[halves[:, 1] - halves[:, 0] > 1]
    inner, splits = np.zeros((0, 3), np.int64), []
    for split in reversed(depths):
        splits.append(_splits(split, inner))
        inner = split
    return np.concatenate([np.zeros((0, 2), np.int64), *runs]), splits


def _splits(split: Integers, inner: Integers) -> Splits:
    """Sides and blocks of splits (first loser, first winner, end), by rising row."""
    ends = np.column_stack([split[:, 0], split[:, 1], split[:, 1], split[:, 2]]).reshape(-1, 2)
    size = 1 << BITS
    count = -(-(ends[:, 1] - ends[:, 0]) // size)
    last = np.cumsum(count)
    side = np.repeat(np.arange(len(ends)), count)
    low = ends[side, 0] + (np.arange(side.size) - (last - count)[side]) * size
    blocks = np.column_stack([low, np.minimum(low + size, ends[side, 1]), side])
    cut = dict(zip(map(tuple, inner[:, ::2].tolist()), inner[:, 1].tolist(), strict=True))
    middle = [cut.get(tuple(each), -1) for each in ends.tolist()]
    return Splits(np.column_stack([ends, last - count, last]), blocks, np.array(middle), BITS)


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _merge(
    begin: int, middle: int, end: int, from_order: Integers, from_ranked: Floats, order: Integers,
    ranked: Floats,
) -> None:  # fmt: skip
    """Merge two runs of sorted rows; of equal scores those of the first run stand first."""
    one, other = begin, middle
    for at in range(begin, end):
        first = other == end or (one < middle and from_ranked[one] <= from_ranked[other])
        chosen = one if first else other
        order[at], ranked[at] = from_order[chosen], from_ranked[chosen]
        one, other = one + first, other + (not first)


@njit(cache=True, nogil=True)
def _moments_of_blocks(
    begin: int, end: int, blocks: Integers, order: Integers, ranked: Floats, knot: float,
    weight: Floats, loser_weight: Floats, moments: Floats,
) -> None:  # fmt: skip
    """Moments of the rows of a block up to each, about it; losers are counted from the right."""
    for block in range(begin, end):
        low, high = blocks[block, 0], blocks[block, 1]
        winners = blocks[block, 2] % 2 == 1
        zeroth, first, second = 0.0, 0.0, 0.0
        before = ranked[low] - knot if winners else ranked[high - 1]
        for number in range(high - low):
            at = low + number if winners else high - 1 - number
            point = ranked[at] - knot if winners else ranked[at]
            by = point - before if winners else before - point
            second += by * (2.0 * first + by * zeroth)
            first += by * zeroth
            zeroth += weight[order[at]] if winners else loser_weight[order[at]]
            moments[at, 0], moments[at, 1], moments[at, 2] = zeroth, first, second
            before = point


@njit(cache=True, nogil=True)
def _carry_sides(
    sides: Integers, blocks: Integers, ranked: Floats, knot: float, moments: Floats, carry: Floats
) -> None:
    """Moments of all blocks before a block, about the nearest row of the block before it."""
    for side in range(sides.shape[0]):
        winners = side % 2 == 1
        zeroth, first, second, before = 0.0, 0.0, 0.0, 0.0
        for number in range(1, sides[side, 3] - sides[side, 2]):
            if winners:
                block = sides[side, 2] + number
                edge = blocks[block, 0] - 1
                point = ranked[edge] - knot
                by = point - before
            else:
                block = sides[side, 3] - 1 - number
                edge = blocks[block, 1]
                point = ranked[edge]
                by = before - point
            by = by if number > 1 else 0.0
            second += by * (2.0 * first + by * zeroth)
            first += by * zeroth
            zeroth += moments[edge, 0]
            first += moments[edge, 1]
            second += moments[edge, 2]
            carry[block, 0], carry[block, 1], carry[block, 2] = zeroth, first, second
            before = point


@njit(cache=True, nogil=True)
def _read_blocks(
    begin: int, end: int, blocks: Integers, sides: Integers, order: Integers, ranked: Floats,
    bits: int, knot: float, degree: int, moments: Floats, carry: Floats, weight: Floats,
    loser_weight: Floats, pull: Floats, hessian: Floats, sums: Floats,
) -> None:  # fmt: skip
    """Add to pull and curvature of every row; value and mass of the losers of every block."""
    for block in range(begin, end):
        low, high, side = blocks[block, 0], blocks[block, 1], blocks[block, 2]
        winners, other = side % 2 == 1, sides[side ^ 1]
        first, last = other[0], other[1]
        near = _first_beyond(ranked, first, last, ranked[low], winners, knot)
        value, mass = 0.0, 0.0
        for at in range(low, high):
            row, target = order[at], ranked[at] - knot if winners else ranked[at]
            if winners:
                while near < last and not ranked[near] > target:
                    near += 1
                if near == last:
                    break
                number = (near - first) >> bits
                edge, by = first + ((number + 1) << bits), ranked[near] - target
                source, far = near, ranked[edge] - target if edge < last else -1.0
            else:
                while near < last and ranked[near] - knot < target:
                    near += 1
                if near == first:
                    continue
                number = (near - 1 - first) >> bits
                edge, by = first + (number << bits) - 1, target - (ranked[near - 1] - knot)
                source, far = near - 1, target - (ranked[edge] - knot) if edge >= first else -1.0
            zeroth, once, twice = _moved(moments[source], by)
            if far >= 0.0:
                more = _moved(carry[other[2] + number], far)
                zeroth, once, twice = zeroth + more[0], once + more[1], twice + more[2]
            slope = zeroth if degree == 1 else 2.0 * once
            curvature = 0.0 if degree == 1 else 2.0 * zeroth
            own = weight[row] if winners else loser_weight[row]
            hessian[row] += own * curvature
            if winners:
                pull[row] += own * slope
            else:
                pull[row] -= own * slope
                mass += own * slope
                value += own * (once if degree == 1 else twice)
        sums[block, 0], sums[block, 1] = value, mass


@njit(**INNER)
def _first_beyond(
    ranked: Floats, first: int, last: int, score: float, winners: bool, knot: float
) -> int:
    """First loser above a winner less the knot, or first winner that is not below a loser."""
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        before = not ranked[middle] > score - knot if winners else ranked[middle] - knot < score
        if before:
            low = middle + 1
        else:
            high = middle
    return low


@njit(**INNER)
def _moved(moments: Floats, by: float) -> tuple[float, float, float]:
    """Moments about a point further on."""
    zeroth, first, second = moments[0], moments[1], moments[2]
    return zeroth, first + by * zeroth, second + by * (2.0 * first + by * zeroth)
