"""Weights of pairs that RankBoost+ keeps, because a tie makes them more than a product.

With rankers s of values 0 and 1 and accumulated weights eta_s, a pair weighs
``prod_s omega_s``: ``exp(-eta_s)`` where s orders it rightly, ``exp(eta_s)`` where wrongly,
``cosh(eta_s)`` where s ties it (C19 eq. 23). `PairWeights` keeps one number a pair, query by
query; `DroppedWeights` keeps none and estimates the same sums from random masks.
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
from precede.engine.portable import exp, log
from precede.engine.portable_kernels import portable_exp
from precede.engine.query_layout import QueryLayout

__all__ = ["DroppedWeights", "PairWeights", "free_memory", "pair_factors"]


# A query is cut into pieces of about so many pairs, so that one query of millions of pairs
# keeps every thread busy. Pieces do not depend on the number of threads.
PIECE = 1 << 18
# Rankers whose ties are summed in one pass: eight numbers fill a vector register or two.
ABREAST = 8
# Groups of queries that draw masks of their own.
GROUPS = 16


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


class DroppedWeights:
    """The sums of `PairWeights`, estimated in linear time and memory.

    For one ranker of values r = +1 and -1 and a fair coin sigma,
    ``E[exp(-sigma eta r_i) exp((1 - sigma) eta r_k)]`` is ``exp(-eta)``, ``exp(eta)`` or
    ``cosh(eta)`` as (i above k) is ordered rightly, wrongly or tied. So with a coin for every
    ranker, ``prod_s omega_s`` is the expectation of a product of a number of the winner and
    a number of the loser, and its sums over pairs are products of sums: RankBoost in which
    winners keep a random half of the rankers and losers the other half.

    The estimates of E2, of the (unnormalized) pull and of the ties are unbiased. Coins are
    tossed anew in every round; every mask is used with its complement; queries fall into
    groups with masks of their own.

    Parameters
    ----------
    masks : even number of masks for every group of queries
    seed : of the coins

    Notes
    -----
    O(n · features used · masks) for each `advance`, O(n · masks) for each eight rankers of
    `ties`; 16 bytes of memory for each row and mask.
    """

    def __init__(
        self,
        layout: QueryLayout,
        codes: Bytes,
        context: Context,
        *,
        masks: int,
        seed: int,
    ):
        self._arrangement, self._codes, self._context = layout, codes, context
        self._masks, self._seed, self._round = masks, seed, 0
        queries = layout.query_start.size - 1
        # A pair must see one mask, and a listed pair may join two queries.
        self._groups = 1 if layout.winner.size else max(1, min(GROUPS, queries))
        query_bounds = layout.level_start[layout.query_start]
        self._group = np.zeros(layout.n_used_rows, np.int64)
        if self._groups > 1:
            self._group[:] = np.repeat(np.arange(queries) % self._groups, np.diff(query_bounds))
        self._feature: list[int] = []
        self._first: list[int] = []
        self._eta: list[float] = []
        self._small = is_small("pairs", layout.n_used_rows * masks)
        self._toss()

    @staticmethod
    def bytes_needed(layout: QueryLayout, masks: int, features: int) -> int:
        """Memory of the estimate, before any of it is taken."""
        tables = 8 * 256 * features * GROUPS * (masks // 2 + 1)
        return (24 * masks + 64) * layout.n_used_rows + tables + 40 * layout.winner.size

    def advance(self, feature: int, first: int, *, step: float) -> None:
        """Add `step` to the accumulated weight of the ranker that is 1 from code `first` up."""
        for j, known in enumerate(zip(self._feature, self._first, strict=True)):
            if known == (feature, first):
                self._eta[j] += step
                break
        else:
            self._feature.append(feature)
            self._first.append(first)
            self._eta.append(step)
        self._round += 1
        self._toss()

    def _toss(self) -> None:
        """Draw masks and take the sums."""
        layout, masks = self._arrangement, self._masks
        shape = (masks // 2, layout.n_used_rows)
        kept, total = np.zeros(shape), np.zeros(shape[1])
        used = sorted(set(self._feature))
        if used:
            tables, totals = self._tables(used)
            self._context.run(
                _kept_scores, shape[1], self._codes, np.array(used), self._group, tables, totals,
                kept, total, small=self._small,
            )  # fmt: skip
        # Winners keep what the mask keeps, losers the rest; then the other way round.
        up = np.concatenate([-kept, kept - total])
        down = np.concatenate([total - kept, kept])
        self._sum_up(up, down)

    def _coins(self) -> Integers:
        """Whether a mask keeps a ranker: rankers, groups of queries, masks."""
        generator = np.random.default_rng([self._seed, self._round])
        return generator.integers(0, 2, (len(self._eta), self._groups, self._masks // 2))

    def _tables(self, used: list[int]) -> tuple[Floats, Floats]:
        """Sums of ``eta r`` by code of a feature: of the rankers kept, and of all of them."""
        coins = self._coins()
        tables = np.zeros((self._groups, len(used), self._masks // 2, 256))
        totals = np.zeros((len(used), 256))
        code = np.arange(256)
        for j, (feature, first) in enumerate(zip(self._feature, self._first, strict=True)):
            values = self._eta[j] * np.where((code >= first) & (code < 255), 1.0, -1.0)
            index = used.index(feature)
            totals[index] += values
            tables[:, index] += coins[j][:, :, None] * values
        return tables, totals

    def _sum_up(self, up: Floats, down: Floats) -> None:
        """Take the sums over pairs of ``exp(up of the winner + down of the loser)``."""
        layout, masks = self._arrangement, self._masks
        winner, loser = layout.winner, layout.loser
        weight = layout.pair_weight * layout.weight[winner] * layout.loser_weight[loser]
        listed = log(weight) + up[:, winner] + down[:, loser]
        queries = layout.query_start.size - 1
        scale = np.full((masks, queries), -np.inf)
        self._context.run(
            _scale_terms, queries, layout.level_start[layout.query_start],
            layout.weight, layout.loser_weight, up, down, scale, small=self._small,
        )  # fmt: skip
        shift = max(scale.max(initial=-np.inf), listed.max(initial=-np.inf))
        self._up, self._down, self._factor = up, down, exp(scale - shift)
        row, column = np.zeros(layout.n_used_rows), np.zeros(layout.n_used_rows)
        mass = np.zeros(queries)
        self._context.run(
            _dropped_sums, queries, layout.query_start, layout.level_start, up, down,
            self._factor, row, column, mass, small=self._small,
        )  # fmt: skip
        self._listed = exp(listed - shift).sum(axis=0)
        self._total = exact_sum(mass) + exact_sum(self._listed)
        integers = np.zeros(row.size, np.int64)
        _add_listed(winner, loser, self._listed / self._total, integers)
        self.pull = (row - column) / self._total + integers / SCALE
        self.log_risk = float(shift + np.log(self._total / masks / layout.total))

    def ties(self, weak_rankers: Sequence[Bytes]) -> Floats:
        """Estimated shares of the weight of the pairs that each ranker ties."""
        layout = self._arrangement
        queries = layout.query_start.size - 1
        found = []
        for first in range(0, len(weak_rankers), ABREAST):
            batch = weak_rankers[first : first + ABREAST]
            one = np.zeros((layout.n_used_rows, ABREAST))
            for j, values in enumerate(batch):
                one[:, j] = values
            sums = np.zeros((ABREAST, queries))
            self._context.run(
                _dropped_ties, queries, layout.query_start, layout.level_start, one,
                self._up, self._down, self._factor, sums, small=self._small,
            )  # fmt: skip
            for j, values in enumerate(batch):
                same = values[layout.winner] == values[layout.loser]
                tied = exact_sum(sums[j]) + exact_sum(self._listed[same])
                found.append(tied / self._total)
        return np.array(found)


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


@njit(cache=True, nogil=True)
def _kept_scores(
    low: int, high: int, codes: Bytes, used: Integers, group: Integers, tables: Floats,
    totals: Floats, kept: Floats, total: Floats,
) -> None:  # fmt: skip
    """Add up what the masks keep of every feature, and all of it."""
    for j in range(used.size):
        column = codes[used[j]]
        for row in range(low, high):
            code = column[row]
            total[row] += totals[j, code]
            table = tables[group[row], j]
            for mask in range(kept.shape[0]):
                kept[mask, row] += table[mask, code]


@njit(cache=True, nogil=True)
def _scale_terms(
    low: int, high: int, query_bounds: Integers, weight: Floats, loser_weight: Floats, up: Floats,
    down: Floats,
    scale: Floats,
) -> None:  # fmt: skip
    """Exponentials relative to the largest of each query, times the weights of the rows."""
    for mask in range(up.shape[0]):
        for query in range(low, high):
            bottom, top = query_bounds[query], query_bounds[query + 1]
            most_up = up[mask, bottom:top].max()
            most_down = down[mask, bottom:top].max()
            for row in range(bottom, top):
                up[mask, row] = weight[row] * portable_exp(up[mask, row] - most_up)
                down[mask, row] = loser_weight[row] * portable_exp(down[mask, row] - most_down)
            scale[mask, query] = most_up + most_down


@njit(cache=True, nogil=True)
def _dropped_sums(
    low: int, high: int, query_start: Integers, level_start: Integers, up: Floats, down: Floats,
    factor: Floats, row: Floats, column: Floats, mass: Floats,
) -> None:  # fmt: skip
    for query in range(low, high):
        bottom, top = query_start[query], query_start[query + 1]
        for mask in range(up.shape[0]):
            scale = factor[mask, query]
            below = 0.0
            for level in range(bottom, top):
                here = 0.0
                for item in range(level_start[level], level_start[level + 1]):
                    won = scale * up[mask, item] * below
                    row[item] += won
                    mass[query] += won
                    here += down[mask, item]
                below += here
            above = 0.0
            for level in range(top - 1, bottom - 1, -1):
                here = 0.0
                for item in range(level_start[level], level_start[level + 1]):
                    column[item] += scale * down[mask, item] * above
                    here += up[mask, item]
                above += here


@njit(cache=True, nogil=True)
def _dropped_ties(
    low: int, high: int, query_start: Integers, level_start: Integers, one: Floats, up: Floats,
    down: Floats, factor: Floats, sums: Floats,
) -> None:  # fmt: skip
    above, below, fresh_above, fresh_below = np.empty(8), np.empty(8), np.empty(8), np.empty(8)
    for query in range(low, high):
        bottom, top = query_start[query], query_start[query + 1]
        for mask in range(up.shape[0]):
            scale = factor[mask, query]
            above[:] = 0.0
            below[:] = 0.0
            for level in range(bottom, top):
                fresh_above[:] = 0.0
                fresh_below[:] = 0.0
                for row in range(level_start[level], level_start[level + 1]):
                    win, lose = scale * up[mask, row], down[mask, row]
                    values = one[row]
                    for j in range(8):
                        side = values[j]
                        sums[j, query] += win * (side * above[j] + (1.0 - side) * below[j])
                        fresh_above[j] += lose * side
                        fresh_below[j] += lose * (1.0 - side)
                above += fresh_above
                below += fresh_below
