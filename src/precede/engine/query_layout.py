"""Rows sorted into queries and levels, so that equal grades are slices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
from numba import njit

from precede.engine.arrays import Array, Floats, Integers, Keys
from precede.engine.exact import sums_at
from precede.engine.hashing import splitmix64

if TYPE_CHECKING:
    from precede.engine.cuda import Device
    from precede.judgments import Judgments

__all__ = [
    "QueryLayout",
    "QueryTotals",
    "check_balance",
    "joined_totals",
    "layouts",
    "totals_of_queries",
]

BALANCES = ("pairs", "queries", "items")
# A pull depends on the rows that a row is paired with, and on those that these are paired with.
STEPS_OF_PAIRS = 3


@dataclass(frozen=True)
class QueryLayout:
    """Rows that take part in comparisons, sorted so that equal grades are slices.

    ::

        row          0   1   2 | 3   4 | 5   6   7 | 8 ...
        grade        0   0   0 | 1   1 | 0   0   0 | 2 ...
        query        first query       | second query
        level_start  0           3       5           8
        query_start  0                   2                   (in levels)

    Rows are counted in this order, *arranged*; ``order[row]`` is the row in the user's table.
    Rows with no pair at all (one grade in their query, weight 0, ...) are left out.

    Attributes
    ----------
    order : row of the user's table for each arranged row
    level_start : first row of each level, and the end; levels hold graded rows only
    query_start : first level of each query, and the end
    grade, weight : one number per row; rows that only listed pairs know have grade NaN
    loser_weight : weight of a row as a loser: its item weight times the balance of its query
    winner, loser, pair_weight : the listed pairs, as rows; a tie stands there in both
        directions, with half its weight
    pair_margin : the margins of the listed pairs, None where none are given
    total : the sum of the weights of all pairs
    pair_count : how many pairs there are: by weight, but no fewer than by number, so that
        weights that say how often a row stands there count and weights scaled down do not
    n_rows : number of rows of the user's table
    label : one number per row, NaN where there is none; None unless asked for and given
    level_weight : sums of the weights of every level; where other machines hold some of the
        rows of the levels, of all of them (None where nobody does)
    listed_elsewhere : whether other machines have listed pairs
    """

    order: Integers
    level_start: Integers
    query_start: Integers
    grade: Floats
    weight: Floats
    loser_weight: Floats
    winner: Integers
    loser: Integers
    pair_weight: Floats
    total: float
    pair_count: float
    n_rows: int
    label: Floats | None = None
    level_weight: Floats | None = None
    pair_margin: Floats | None = None
    listed_elsewhere: bool = False

    @property
    def any_listed(self) -> bool:
        """Whether there are listed pairs, on any machine."""
        return self.listed_elsewhere or self.winner.size > 0

    @property
    def shared(self) -> bool:
        """Whether other machines hold some of the rows of the levels."""
        return self.level_weight is not None

    @property
    def n_used_rows(self) -> int:
        """How many rows take part in a comparison."""
        return int(self.order.size)

    @property
    def n_graded(self) -> int:
        """How many rows are in levels; the others are known from listed pairs only."""
        return int(self.level_start[-1])

    def listed_margin(self, scores: Floats, *, gap: bool) -> Floats:
        """Margins of the listed pairs; with `gap` less what each asks for, 1 unless it says."""
        margin = scores[self.winner] - scores[self.loser]
        if not gap:
            return margin
        return margin - (1.0 if self.pair_margin is None else self.pair_margin)

    def count_graded_pairs(self) -> int:
        """Count the pairs of the grades, with Python's unbounded integers."""
        return _sum_of_pairs(self.level_start, self.query_start)

    def weight_above(self) -> Floats:
        """Weight of all that should rank above each row: O(n) and the listed pairs."""
        above = np.zeros(self.n_used_rows)
        if self.n_graded:
            of_level = _sums_above(self.weights_of_levels(), self.query_start)
            above[: self.n_graded] = np.repeat(of_level, np.diff(self.level_start))
        listed = self.pair_weight * self.weight[self.winner]
        return above + sums_at(self.loser, listed, self.n_used_rows)

    def weights_of_levels(self) -> Floats:
        """Sum of the weights of every level, of all machines.

        In an order that the rows have no say in: O(n).
        """
        if self.level_weight is not None:
            return self.level_weight
        return _of_runs(self.weight, self.level_start)

    def loser_weights_of_levels(self) -> Floats:
        """The same for the weights of losers (a list that machines share has no balance)."""
        if self.level_weight is not None:
            return self.level_weight
        return _of_runs(self.loser_weight, self.level_start)

    def blocks(self, rows: int) -> list[Integers]:
        """Cut the rows into blocks of about `rows`; no comparison crosses two blocks.

        A query is never split, and queries that listed pairs join stay together, so a block
        may be larger than asked. Sums over blocks add up to the sums over all.
        """
        if rows < 1:
            raise ValueError(f"rows={rows} is not a block size; use 1 or more")
        part = self.components()
        order = np.argsort(part, kind="stable")
        ends = np.cumsum(np.bincount(part))
        cuts, begin = [], 0
        for end in ends[:-1]:
            if end - begin >= rows:
                cuts.append(int(end))
                begin = int(end)
        return [np.sort(block) for block in np.split(order, cuts)]

    def components(self) -> Integers:
        """Number the rows by connected component: joined by a chain of comparisons."""
        first = self.level_start[self.query_start]
        group = np.repeat(np.arange(first.size - 1), np.diff(first))
        alone = np.arange(self.n_used_rows - self.n_graded) + first.size - 1
        group = np.concatenate([group, alone]).astype(np.int64)
        count = int(group.max(initial=-1)) + 1
        joined = scipy.sparse.coo_array(
            (np.ones(self.winner.size), (group[self.winner], group[self.loser])), (count, count)
        )
        part = scipy.sparse.csgraph.connected_components(joined, directed=False)[1][group]
        return part.astype(np.int64)

    def keys_by_pairs(self, keys: Keys) -> Keys:
        """Keys of rows that depend on their grades, their queries and the listed pairs as well.

        Rows that are equal otherwise may be paired differently. O(n + listed pairs).
        """
        keys = splitmix64(keys ^ np.nan_to_num(self.grade + 0.0, nan=0.5).view(np.uint64))
        first = self.level_start[self.query_start]
        of_pair = splitmix64(self.pair_weight.view(np.uint64))
        if self.pair_margin is not None:
            of_pair = splitmix64(of_pair + (self.pair_margin + 0.0).view(np.uint64))
        for _ in range(STEPS_OF_PAIRS):
            found = keys.copy()
            sums = np.add.reduceat(keys[: self.n_graded], first[:-1]) if self.n_graded else keys[:0]
            found[: self.n_graded] += np.repeat(splitmix64(sums), np.diff(first))
            for one, other in ((self.winner, self.loser), (self.loser, self.winner)):
                np.add.at(found, one, splitmix64(keys[other] ^ of_pair))
                found = splitmix64(found)
            keys = found
        return keys

    def reorder(self, key: Keys, device: Device | None = None) -> tuple[QueryLayout, Integers]:
        """Sort the rows inside each level by `key`; returns also where each row was before.

        The sums over a query then do not depend on the order of the user's rows. The device, if
        there is one, sorts.
        """
        if self.any_listed:
            key = self.keys_by_pairs(key)
        run = np.repeat(np.arange(self.level_start.size - 1), np.diff(self.level_start))
        run = np.concatenate([run, np.full(self.n_used_rows - self.n_graded, run.size)])
        old = np.lexsort((key, run)) if device is None else device.lexsort(key, run)
        winner, loser = self.winner, self.loser
        if winner.size:
            new = np.empty_like(old)
            new[old] = np.arange(old.size)
            winner, loser = new[winner], new[loser]
        keys = (winner, loser) if self.pair_margin is None else (self.pair_margin, winner, loser)
        by_row = np.lexsort(keys)
        # Grades stay as they are; equal weights too, unless rows of several queries are exchanged.
        even = self.n_graded == self.n_used_rows and bool((self.weight == self.weight[:1]).all())
        layout = replace(
            self,
            order=self.order[old],
            weight=self.weight if even else self.weight[old],
            loser_weight=self.loser_weight if even else self.loser_weight[old],
            label=None if self.label is None else self.label[old],
            winner=winner[by_row],
            loser=loser[by_row],
            pair_weight=self.pair_weight[by_row],
            pair_margin=None if self.pair_margin is None else self.pair_margin[by_row],
        )
        return layout, old


class QueryTotals(NamedTuple):
    """Weights of the pairs and of the items of every query, and the number of all pairs."""

    pairs: Floats
    items: Floats
    n_pairs: int


def layouts(
    judgments: Judgments, balances: Sequence[str], labeled: bool = False
) -> list[QueryLayout]:
    """Arrange the rows once for several balances; only `outer` and `total` differ."""
    return _lay_out_all(judgments, balances, labeled)[0]


def totals_of_queries(judgments: Judgments) -> QueryTotals:
    """What the totals of a layout are made of, so that those of blocks can be joined.

    >>> from precede import Judgments
    >>> totals_of_queries(Judgments([0, 1, 1], pairs=[(0, 1)])).n_pairs
    3
    """
    return _lay_out_all(judgments, ("pairs",), labeled=False)[1]


def joined_totals(parts: Sequence[QueryTotals], balance: str) -> tuple[float, float]:
    """`total` and `pair_count` of the layout of all parts, which hold different queries.

    >>> from precede import Judgments
    >>> parts = [totals_of_queries(Judgments(y)) for y in ([0, 1, 1], [0, 1])]
    >>> joined_totals(parts, "pairs"), joined_totals(parts, "items")
    ((3.0, 3.0), (5.0, 3.0))
    """
    totals, items = (
        np.concatenate([getattr(p, name) for p in parts]) for name in ("pairs", "items")
    )
    totals, items = totals[totals > 0], items[totals > 0]
    balanced = {"pairs": totals, "queries": totals * (1.0 / totals), "items": items}[balance]
    pairs = float(sum(part.n_pairs for part in parts))
    return math.fsum(balanced), max(math.fsum(totals), pairs)


def _lay_out_all(
    judgments: Judgments, balances: Sequence[str], labeled: bool
) -> tuple[list[QueryLayout], QueryTotals]:
    n = len(judgments)
    query = judgments._query()
    weight = np.ones(n) if judgments.weight is None else judgments.weight
    winner, loser, pair_weight, pair_margin, listed_count = _merged_pairs(judgments, weight)
    order, level_start, query_start = _sorted_levels(judgments, query, weight)

    without_level = np.zeros(n, bool)
    without_level[winner] = without_level[loser] = True
    without_level[order] = False
    alone, label = np.flatnonzero(without_level), None
    if labeled and judgments.label is not None:
        label = judgments.label
        without_level |= ~np.isnan(label) & (weight > 0)
        without_level[order] = False
    order = np.concatenate([order, np.flatnonzero(without_level)])
    arranged_row = np.full(n, -1)
    arranged_row[order] = np.arange(order.size)

    listed = pair_weight * weight[winner] * weight[loser]
    # From the lightest up, so that the order of the rows leaves no trace in the sum.
    rising = np.lexsort((listed, query[loser]))
    query_total = _query_totals(order, level_start, query_start, weight, query) + np.bincount(
        query[loser][rising], listed[rising], minlength=int(query.max(initial=0)) + 1
    )
    items = _query_items(order, level_start, query_start, weight, query, alone)
    pair_count = _sum_of_pairs(level_start, query_start) + listed_count
    grade = np.full(n, np.nan) if judgments.grade is None else judgments.grade
    arranged = QueryLayout(
        order=order,
        level_start=level_start,
        query_start=query_start,
        grade=np.where(np.arange(order.size) < level_start[-1], grade[order], np.nan),
        weight=weight[order],
        loser_weight=weight[order],
        winner=arranged_row[winner],
        loser=arranged_row[loser],
        pair_weight=pair_weight,
        total=math.fsum(query_total),
        pair_count=max(math.fsum(query_total), float(pair_count)),
        n_rows=n,
        label=None if label is None else label[order],
        pair_margin=pair_margin,
    )
    query_of_row = query[order]
    found = [_balanced(arranged, each, query_of_row, query_total, items) for each in balances]
    return found, QueryTotals(query_total, items, pair_count)


def _balanced(
    arranged: QueryLayout,
    balance: str,
    query: Integers,
    query_total: Floats,
    items: Floats,
) -> QueryLayout:
    """Weigh the losers so that queries of different lengths count as `balance` says."""
    if balance == "pairs":
        return arranged
    share = np.divide(1.0, query_total, out=np.ones_like(query_total), where=query_total > 0)
    loser_weight, total = arranged.weight * share[query], query_total * share
    if balance == "items":
        loser_weight, total = loser_weight * items[query], np.where(query_total > 0, items, 0.0)
    return replace(arranged, loser_weight=loser_weight, total=math.fsum(total))


def _sum_of_pairs(level_start: Integers, query_start: Integers) -> int:
    sizes = np.diff(level_start)
    below = np.concatenate([[0], np.cumsum(sizes)])
    first_level = np.repeat(query_start[:-1], np.diff(query_start))
    losers = below[:-1] - below[first_level]
    return int(sizes @ losers)


def _sorted_levels(
    judgments: Judgments, query: Integers, weight: Floats
) -> tuple[Integers, Integers, Integers]:
    """Sort graded rows by (query, grade), drop queries of one grade, and mark the runs."""
    empty = np.zeros(1, np.int64)
    if judgments.grade is None:
        return np.zeros(0, np.int64), empty, empty
    grade = judgments.grade
    rows = np.flatnonzero(~np.isnan(grade) & (weight > 0))
    # Equal grades by rising weight, so that sums of weights do not depend on the rows' order.
    keys: list[Array] = [] if judgments.weight is None else [weight[rows]]
    keys.append(_short(grade[rows]))
    if judgments.qid is not None:
        keys.append(query[rows])
    rows = rows[np.lexsort(keys)]
    query, grade = query[rows], grade[rows]
    new_query = np.ones(rows.size, bool)
    new_query[1:] = query[1:] != query[:-1]
    new_level = new_query.copy()
    new_level[1:] |= grade[1:] != grade[:-1]

    levels_of = np.bincount(query[new_level], minlength=int(query.max(initial=-1)) + 1)
    kept = levels_of[query] > 1
    rows, new_query, new_level = rows[kept], new_query[kept], new_level[kept]
    level_start = np.append(np.flatnonzero(new_level), rows.size)
    query_start = np.append(np.flatnonzero(new_query[new_level]), level_start.size - 1)
    return rows, level_start.astype(np.int64), query_start.astype(np.int64)


def _short(grade: Floats) -> Array:
    """Grades as bytes if they are small whole numbers, which are sorted many times as fast."""
    if grade.size and grade.min() >= 0 and grade.max() <= 255:
        short = grade.astype(np.uint8)
        if (short == grade).all():
            return short
    return grade


def _merged_pairs(
    judgments: Judgments, weight: Floats
) -> tuple[Integers, Integers, Floats, Floats | None, int]:
    """Give the listed pairs once each, sorted, with summed weights and without zeros.

    Pairs of the same rows with different margins stay apart. A tie is half a pair in each
    direction, with a margin of 1. The last number counts the different pairs and ties.
    """
    pairs, pair_weight, pair_margin = _counting(
        judgments.pairs, judgments.pair_weight, weight, judgments.pair_margin
    )
    ties, tie_weight, tie_margin = _counting(judgments.ties, judgments.tie_weight, weight)
    winner, loser = np.concatenate([pairs, ties, ties[:, ::-1]]).T
    pair_weight = np.concatenate([pair_weight, tie_weight / 2, tie_weight / 2])
    margin = np.concatenate([pair_margin, tie_margin, tie_margin])
    # Equal pairs are summed from the lightest, so that the order of the list does not matter.
    order = np.lexsort((pair_weight, margin, winner, loser))
    winner, loser = winner[order], loser[order]
    pair_weight, margin = pair_weight[order], margin[order]
    first = np.ones(winner.size, bool)
    first[1:] = (np.diff(winner) != 0) | (np.diff(loser) != 0) | (np.diff(margin) != 0)
    start = np.flatnonzero(first)
    merged = np.add.reduceat(pair_weight, start) if start.size else pair_weight
    count = start.size
    if len(ties):
        count = np.unique(np.column_stack([pairs, pair_margin]), axis=0).shape[0]
        count += np.unique(np.sort(ties, axis=1) @ [weight.size, 1]).size
    asked = None if judgments.pair_margin is None else margin[start]
    return winner[start], loser[start], merged, asked, count


def _counting(
    pairs: Integers | None, own: Floats | None, weight: Floats, margin: Floats | None = None
) -> tuple[Integers, Floats, Floats]:
    """Pairs whose own weight and item weights are positive, with their weights and margins."""
    if pairs is None:
        return np.zeros((0, 2), np.int64), np.zeros(0), np.zeros(0)
    own = np.ones(len(pairs)) if own is None else own
    margin = np.ones(len(pairs)) if margin is None else margin
    kept = (own > 0) & (weight[pairs] > 0).all(axis=1)
    return pairs[kept], own[kept], margin[kept]


def _query_totals(
    order: Integers, level_start: Integers, query_start: Integers, weight: Floats, query: Integers
) -> Floats:
    """Sum the weights of the graded pairs of each query: winners times all losers below."""
    totals = np.zeros(int(query.max(initial=0)) + 1)
    if level_start.size > 1:
        graded = order[: level_start[-1]]
        number = query[graded[level_start[query_start[:-1]]]]
        totals[number] = _graded_totals(weight[graded], level_start, query_start)
    return totals


def _graded_totals(weight: Floats, level_start: Integers, query_start: Integers) -> Floats:
    """Weights of winners times those of all losers below, summed over the pairs of queries."""
    totals = np.zeros(query_start.size - 1)
    if (weight == 1.0).all():  # the usual case; nothing to compile
        size, first = np.diff(level_start), level_start[query_start]
        below = level_start[:-1] - np.repeat(first[:-1], np.diff(query_start))
        np.add.at(totals, np.repeat(np.arange(totals.size), np.diff(query_start)), size * below)
    else:
        _weighted_totals(weight, level_start, query_start, totals)
    return totals


def _query_items(
    order: Integers, level_start: Integers, query_start: Integers, weight: Floats,
    query: Integers, alone: Integers,
) -> Floats:  # fmt: skip
    """Sum the weights of the items of each query: graded ones, and those in listed pairs only."""
    rising = alone[np.lexsort((weight[alone], query[alone]))]
    items = np.zeros(int(query.max(initial=0)) + 1)
    np.add.at(items, query[rising], weight[rising])
    if level_start.size > 1:
        graded = order[: level_start[-1]]
        first = level_start[query_start]
        items[query[graded[first[:-1]]]] += _of_runs(weight[graded], first)
    return items


def _of_runs(values: Floats, start: Integers) -> Floats:
    """Sums over runs, each as multiples of 2^-62 of a power of two above its largest."""
    if (values == 1.0).all():  # the usual case; nothing to compile
        return np.diff(start).astype(np.float64)
    sums = np.zeros(start.size - 1)
    _sums_of_runs(values, start, sums)
    return sums


def check_balance(balance: str) -> str:
    """Refuse anything but the ways to weigh queries of different lengths."""
    if balance not in BALANCES:
        raise ValueError(f"balance={balance!r} is unknown; use 'pairs', 'queries' or 'items'")
    return balance


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _weighted_totals(
    weight: Floats, level_start: Integers, query_start: Integers, totals: Floats
) -> None:
    for query in range(query_start.size - 1):
        below = 0.0
        for level in range(query_start[query], query_start[query + 1]):
            here = 0.0
            for row in range(level_start[level], level_start[level + 1]):
                here += weight[row]
            totals[query] += here * below
            below += here


@njit(cache=True, nogil=True)
def _sums_of_runs(values: Floats, start: Integers, sums: Floats) -> None:
    """See `_of_runs`."""
    for run in range(start.size - 1):
        largest = 0.0
        for row in range(start[run], start[run + 1]):
            largest = max(largest, abs(values[row]))
        if largest == 0.0:
            continue
        unit = 2.0 ** np.ceil(np.log2(largest) + 1.0)
        high, low = np.int64(0), np.int64(0)
        for row in range(start[run], start[run + 1]):
            scaled = values[row] / unit * 2147483648.0
            whole = np.floor(scaled)
            high += np.int64(whole)
            low += np.int64((scaled - whole) * 2147483648.0)
        sums[run] = (high * 2.0**-31 + low * 2.0**-62) * unit


@njit(cache=True, nogil=True)
def _sums_above(weight: Floats, query_start: Integers) -> Floats:
    """Sum of the weights of the levels above each level of the same query."""
    above = np.zeros(weight.size)
    for query in range(query_start.size - 1):
        for level in range(query_start[query + 1] - 2, query_start[query] - 1, -1):
            above[level] = above[level + 1] + weight[level + 1]
    return above
