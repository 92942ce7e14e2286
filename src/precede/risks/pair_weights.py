"""Weights of pairs that RankBoost+ keeps, because a tie makes them more than a product.

With rankers s of values 0 and 1 and accumulated weights eta_s, a pair weighs
``prod_s omega_s``: ``exp(-eta_s)`` where s orders it rightly, ``exp(eta_s)`` where wrongly,
``cosh(eta_s)`` where s ties it (C19 eq. 23). `PairWeights` keeps one number a pair, query by
query.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from numba import njit

from precede.engine.arrays import Bytes, Floats, Integers
from precede.engine.compiling import INNER
from precede.engine.exact import SCALE, exact_sum
from precede.engine.execution import Context, is_small
from precede.engine.portable import exp
from precede.engine.portable_kernels import portable_exp
from precede.engine.query_layout import QueryLayout

__all__ = ["PairWeights", "free_memory", "pair_factors"]


# A query is cut into pieces of about so many pairs, so that one query of millions of pairs
# keeps every thread busy. Pieces do not depend on the number of threads.
PIECE = 1 << 18
# Rankers whose ties are summed in one pass: eight numbers fill a vector register or two.
ABREAST = 8


def free_memory() -> int:
    """Bytes that this process may still take; 4 GiB where the system does not tell.

    >>> free_memory() > 0
    True
    """
    known = []
    with contextlib.suppress(OSError, ValueError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        known += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")]
    if not known and hasattr(os, "sysconf"):
        with contextlib.suppress(OSError, ValueError):
            known.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with contextlib.suppress(OSError, ValueError):  # a container may be allowed less
        most = int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii"))
        known.append(most - int(Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii")))
    return max(1, min(known, default=4 << 30))


def pair_factors(before: float, step: float) -> Floats:
    """What a step multiplies the weights of right, wrong and tied pairs by (C19 eq. 25).

    The last, ``cosh(before + step) / cosh(before)``, is written so that nothing cancels.

    >>> pair_factors(0.0, 0.0)
    array([1., 1., 1.])
    """
    ahead, far = (step if before >= 0 else -step), 2 * abs(before)
    right, wrong, one, other, apart = exp(np.array([-step, step, ahead, -ahead - far, -far]))
    return np.array([right, wrong, (one + other) / (1 + apart)])


class PairWeights:
    """One weight for every pair, in blocks by query.

    ::

        grades of a query     0 0 0 | 1 1 | 2
        weights of row 3      w w w                  its losers are the rows below its level
        weights of row 4      w w w
        weights of row 5      w w w   w w

    The weights of all rows that win stand one after the other. A round multiplies every
    weight by one of four numbers and takes row and column sums: one pass over memory.

    Attributes
    ----------
    pull : what the weights pull every row up; the pull of the winners of all pairs sums to 1
    log_risk : logarithm of E2, the mean of ``prod_s omega_s`` over pairs
    tied : share of the weight of the pairs that the last ranker ties

    Notes
    -----
    Eight bytes a pair; O(pairs) for each `advance`, and for each eight rankers of `ties`.
    Sums inside a piece have a fixed order, sums over pieces are sums of integers.
    """

    def __init__(self, layout: QueryLayout, context: Context):
        self._arrangement, self._context = layout, context
        self._count, self._start = _rows(layout)
        self._weights = np.empty(int(self._start[-1]))
        self._pieces, self._first_piece = _pieces(layout, self._count, self._start)
        self._column_start = np.concatenate([[0], np.cumsum(self._pieces[:, 3])])
        self._columns = np.empty(int(self._column_start[-1]))
        self._small = is_small("pairs", self._weights.size)
        listed = layout.pair_weight * layout.weight[layout.winner]
        self._listed = listed * layout.loser_weight[layout.loser] / layout.total
        self.pull = np.zeros(layout.n_used_rows)
        self.log_risk = 0.0
        self.tied = 1.0
        self._mass = 1.0  # what the weights sum to; the next factors bring it back to 1
        self._run(
            _fill, self._pieces, self._count, self._start, layout.weight, layout.loser_weight,
            1 / layout.total, self._weights,
        )  # fmt: skip
        self._multiply(np.zeros(layout.n_used_rows, np.uint8), 1.0, 1.0, 1.0)

    @staticmethod
    def bytes_needed(layout: QueryLayout) -> int:
        """Memory of the weights and of what goes with them, before any of it is taken."""
        graded = layout.count_graded_pairs()
        # Sums by column of the pieces are at most a sixteenth of the pairs: see `_pieces`.
        pairs = 8 * graded + 8 * graded // 16 + 40 * layout.winner.size
        return pairs + 8 * (7 + ABREAST) * layout.n_used_rows

    def advance(self, values: Bytes, *, before: float, step: float) -> None:
        """Add `step` to the accumulated weight `before` of a ranker (C19 eqs. 25 and 26)."""
        factors = pair_factors(before, step) / self._mass
        self._multiply(values, *factors.tolist())
        self.log_risk += float(np.log(self._mass))

    def _multiply(self, values: Bytes, right: float, wrong: float, tied: float) -> None:
        """Multiply the weights and take the sums anew."""
        layout, pieces = self._arrangement, self._pieces
        row = np.zeros(layout.n_used_rows)
        column = np.zeros(layout.n_used_rows)
        sums = np.zeros((2, len(pieces)))
        one = values.astype(np.float64)
        # What the weight of a pair is multiplied by, by the value of the winner (0 or 1).
        by_loser = np.stack([np.where(values, wrong, tied), np.where(values, tied, right)])
        self._run(
            _advance, pieces, self._column_start, self._count, self._start, values, one, by_loser,
            self._weights, row, self._columns, sums,
        )  # fmt: skip
        self._context.run(
            _add_columns, self._first_piece.size - 1, self._first_piece, pieces,
            self._column_start, self._columns, column, small=self._small,
        )  # fmt: skip
        mass, ties = exact_sum(sums[0]), exact_sum(sums[1])
        listed_pull = np.zeros(row.size)
        if self._listed.size:
            above, below = values[layout.winner], values[layout.loser]
            self._listed *= np.where(above == below, tied, np.where(above > below, right, wrong))
            mass += exact_sum(self._listed)
            ties += exact_sum(self._listed[above == below])
            integers = np.zeros(row.size, np.int64)
            # Shares, not weights: after a large step the weights themselves could overflow.
            _add_listed(layout.winner, layout.loser, self._listed / mass, integers)
            listed_pull = integers / SCALE
        self._mass = mass
        self.pull = (row - column) / mass + listed_pull
        self.tied = min(max(ties / mass, 0.0), 1.0)

    def ties(self, weak_rankers: Sequence[Bytes]) -> Floats:
        """Shares of the weight of the pairs that each ranker ties: a product by blocks."""
        found = []
        for first in range(0, len(weak_rankers), ABREAST):
            batch = weak_rankers[first : first + ABREAST]
            one = np.zeros((self._arrangement.n_used_rows, ABREAST))
            for j, values in enumerate(batch):
                one[:, j] = values
            sums = np.zeros((ABREAST, len(self._pieces)))
            self._run(_ties, self._pieces, self._count, self._start, one, self._weights, sums)
            for j, values in enumerate(batch):
                same = values[self._arrangement.winner] == values[self._arrangement.loser]
                found.append((exact_sum(sums[j]) + exact_sum(self._listed[same])) / self._mass)
        return np.array(found)

    def along(
        self, weak_rankers: Sequence[Bytes], before: Floats, direction: Floats, step: float
    ) -> tuple[float, float]:
        """Factor by which E2 changes ``step`` along a direction of weights, and its slope."""
        after = before + step * direction
        table = np.array([
            step * direction,
            _log_cosh(after) - _log_cosh(before),
            direction,
            direction * np.tanh(after),
        ])  # fmt: skip
        values = np.stack(weak_rankers, axis=1)
        sums = np.zeros((2, len(self._pieces)))
        self._run(_line, self._pieces, self._count, self._start, values, table, self._weights, sums)
        listed = np.zeros((2, self._listed.size))
        _line_of_listed(
            self._arrangement.winner, self._arrangement.loser, values, table, self._listed, listed
        )
        factor, slope = (exact_sum(a) + exact_sum(b) for a, b in zip(sums, listed, strict=True))
        return factor / self._mass, slope / self._mass

    def _run(self, kernel: object, *arguments: object) -> None:
        self._context.run(kernel, len(self._pieces), *arguments, small=self._small)  # type: ignore[arg-type]


def _log_cosh(x: Floats) -> Floats:
    return np.logaddexp(x, -x) - np.log(2.0)


def _rows(layout: QueryLayout) -> tuple[Integers, Integers]:
    """How many losers every row has below it, and where its row of weights starts."""
    level_start, query_start = layout.level_start, layout.query_start
    first_level = np.repeat(query_start[:-1], np.diff(query_start))
    below = level_start[:-1] - level_start[first_level]
    count = np.zeros(layout.n_used_rows, np.int64)
    count[: layout.n_graded] = np.repeat(below, np.diff(level_start))
    return count, np.concatenate([[0], np.cumsum(count)])


def _pieces(layout: QueryLayout, count: Integers, start: Integers) -> tuple[Integers, Integers]:
    """Cut queries into pieces: first row of the query, winners from and to, most losers.

    Gives also the first piece of every query, and the end.
    """
    query_bounds = layout.level_start[layout.query_start]
    bottom, top = query_bounds[:-1], query_bounds[1:]
    # The lowest level wins nothing; the highest row has the most losers.
    low = layout.level_start[layout.query_start[:-1] + 1]
    whole = np.stack([bottom, low, top, count[top - 1]], axis=1).reshape(-1, 4)
    # Every piece has sums by column of its own: they must stay few beside the pairs.
    size = np.maximum(PIECE, 16 * whole[:, 3])
    large = start[top] - start[bottom] > size
    if not large.any():
        return whole, np.arange(bottom.size + 1)
    parts = [whole[q : q + 1] for q in range(bottom.size)]
    for query in np.flatnonzero(large):
        first, cut, end, _ = whole[query].tolist()
        cuts = [cut]
        while cut < end:
            cut = int(np.searchsorted(start[: end + 1], start[cut] + size[query]))
            cuts.append(min(cut, end))
        parts[query] = np.array([(first, a, b, count[b - 1]) for a, b in pairwise(cuts)])
    first_piece = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    return np.concatenate(parts), first_piece


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _fill(
    low: int, high: int, pieces: Integers, count: Integers, start: Integers, weight: Floats,
    loser_weight: Floats, share: float, weights: Floats,
) -> None:  # fmt: skip
    for piece in range(low, high):
        bottom, begin, end = pieces[piece, 0], pieces[piece, 1], pieces[piece, 2]
        for item in range(begin, end):
            row = weights[start[item] : start[item] + count[item]]
            for k in range(row.size):
                row[k] = weight[item] * loser_weight[bottom + k] * share


@njit(cache=True, nogil=True)
def _advance(
    low: int, high: int, pieces: Integers, column_start: Integers, count: Integers, start: Integers,
    values: Bytes, one: Floats, by_loser: Floats, weights: Floats, row_sums: Floats,
    columns: Floats, sums: Floats,
) -> None:  # fmt: skip
    """Multiply the weights of the pieces and take the sums of rows, columns and ties."""
    for piece in range(low, high):
        bottom, begin, end = pieces[piece, 0], pieces[piece, 1], pieces[piece, 2]
        column = columns[column_start[piece] : column_start[piece + 1]]
        column[:] = 0.0
        mass, ties = 0.0, 0.0
        for item in range(begin, end):
            losers = count[item]
            row = weights[start[item] : start[item] + losers]
            factor = by_loser[values[item], bottom : bottom + losers]
            for k in range(losers):
                row[k] *= factor[k]
            for k in range(losers):
                column[k] += row[k]
            total = _sum(row)
            above = _sum_of_products(row, one[bottom : bottom + losers])
            row_sums[item] = total
            mass += total
            ties += above if values[item] == 1 else total - above
        sums[0, piece] = mass
        sums[1, piece] = ties


@njit(**INNER)
def _sum(row: Floats) -> float:
    """Four sums side by side: additions to one of them would wait for each other."""
    one, two, three, four = 0.0, 0.0, 0.0, 0.0
    whole = row.size - row.size % 4
    for k in range(0, whole, 4):
        one += row[k]
        two += row[k + 1]
        three += row[k + 2]
        four += row[k + 3]
    for k in range(whole, row.size):
        one += row[k]
    return (one + two) + (three + four)


@njit(**INNER)
def _sum_of_products(row: Floats, other: Floats) -> float:
    one, two, three, four = 0.0, 0.0, 0.0, 0.0
    whole = row.size - row.size % 4
    for k in range(0, whole, 4):
        one += row[k] * other[k]
        two += row[k + 1] * other[k + 1]
        three += row[k + 2] * other[k + 2]
        four += row[k + 3] * other[k + 3]
    for k in range(whole, row.size):
        one += row[k] * other[k]
    return (one + two) + (three + four)


@njit(cache=True, nogil=True)
def _add_columns(
    low: int, high: int, first_piece: Integers, pieces: Integers, column_start: Integers,
    columns: Floats, column_sums: Floats,
) -> None:  # fmt: skip
    """Add up the columns of the pieces of each query, in their order."""
    for query in range(low, high):
        for piece in range(first_piece[query], first_piece[query + 1]):
            bottom = pieces[piece, 0]
            column = columns[column_start[piece] : column_start[piece + 1]]
            for k in range(column.size):
                column_sums[bottom + k] += column[k]


@njit(cache=True, nogil=True)
def _add_listed(winner: Integers, loser: Integers, mass: Floats, integers: Integers) -> None:
    """Sums of listed pairs as integers: no order of the list changes a bit."""
    for pair in range(winner.size):
        whole = np.int64(np.rint(mass[pair] * 2305843009213693952.0))
        integers[winner[pair]] += whole
        integers[loser[pair]] -= whole


@njit(cache=True, nogil=True)
def _ties(
    low: int, high: int, pieces: Integers, count: Integers, start: Integers, one: Floats,
    weights: Floats, sums: Floats,
) -> None:  # fmt: skip
    """Weights of the tied pairs of eight rankers: a block of weights times eight columns."""
    above = np.empty(8)
    for piece in range(low, high):
        bottom, begin, end = pieces[piece, 0], pieces[piece, 1], pieces[piece, 2]
        tied = np.zeros(8)
        for item in range(begin, end):
            row = weights[start[item] : start[item] + count[item]]
            above[:] = 0.0
            total = 0.0
            for k in range(row.size):
                weight = row[k]
                total += weight
                values = one[bottom + k]
                for j in range(8):
                    above[j] += weight * values[j]
            values = one[item]
            for j in range(8):
                tied[j] += values[j] * above[j] + (1.0 - values[j]) * (total - above[j])
        for j in range(8):
            sums[j, piece] = tied[j]


@njit(**INNER)
def _line_of_pair(above: Bytes, below: Bytes, table: Floats) -> tuple[float, float]:
    """Exponent and slope of one pair along a direction; table: see `PairWeights.along`."""
    exponent, slope = 0.0, 0.0
    for s in range(table.shape[1]):
        if above[s] == below[s]:
            exponent += table[1, s]
            slope += table[3, s]
        elif above[s] > below[s]:
            exponent -= table[0, s]
            slope -= table[2, s]
        else:
            exponent += table[0, s]
            slope += table[2, s]
    return exponent, slope


@njit(cache=True, nogil=True)
def _line(
    low: int, high: int, pieces: Integers, count: Integers, start: Integers, values: Bytes,
    table: Floats, weights: Floats, sums: Floats,
) -> None:  # fmt: skip
    for piece in range(low, high):
        bottom, begin, end = pieces[piece, 0], pieces[piece, 1], pieces[piece, 2]
        total, falling = 0.0, 0.0
        for item in range(begin, end):
            row = weights[start[item] : start[item] + count[item]]
            for k in range(row.size):
                exponent, slope = _line_of_pair(values[item], values[bottom + k], table)
                mass = row[k] * portable_exp(exponent)
                total += mass
                falling += mass * slope
        sums[0, piece] = total
        sums[1, piece] = falling


@njit(cache=True, nogil=True)
def _line_of_listed(
    winner: Integers, loser: Integers, values: Bytes, table: Floats, weights: Floats, sums: Floats
) -> None:
    for pair in range(winner.size):
        exponent, slope = _line_of_pair(values[winner[pair]], values[loser[pair]], table)
        sums[0, pair] = weights[pair] * portable_exp(exponent)
        sums[1, pair] = sums[0, pair] * slope
