"""Rows sorted by query and relevance level, so that every query and every level is a slice.

`TrainingData` has a table of the features in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph

from precede.engine.arrays import Array, Floats, Integers, Keys, MatrixLike
from precede.engine.compiling import njit
from precede.engine.exact import HIGH, SCALE, splitmix64, sums_at, to_integers
from precede.engine.execution import Context
from precede.engine.table import Table

if TYPE_CHECKING:
    from precede.judgments import Judgments


BALANCES = ("pairs", "queries", "items")
# Number of times that the keys of a row and of its partners are hashed together: a pull depends
# on the partners of a row and on their partners.
PAIR_HASH_ROUNDS = 3


@dataclass(frozen=True)
class QueryLayout:
    """Rows that occur in at least one pair, sorted by query and grade.

    ::

        row          0   1   2 | 3   4 | 5   6   7 | 8 ...
        grade        0   0   0 | 1   1 | 0   0   0 | 2 ...
        query        first query       | second query
        level_start  0           3       5           8
        query_start  0                   2                   (in levels)

    All row numbers refer to this order; ``order[row]`` is the row in the user's table. Rows
    without a pair (a query with one grade, weight 0, ...) are left out.

    Attributes
    ----------
    order : row of the user's table for each row of the layout
    level_start : first row of each level (graded rows of one query and grade), and the end
    query_start : first level of each query, and the end
    grade, weight : one number per row; rows that occur only in explicit pairs have grade NaN
    loser_weight : weight of a row as a loser: its item weight times the balance of its query
    winner, loser, pair_weight : rows and weights of the explicit pairs; a tie is stored in both
        directions, each with half its weight
    pair_margin : margins of the explicit pairs; None if not given
    total : sum of the weights of all pairs
    pair_count : the larger of the total weight and the number of pairs, so that weights that
        count repeated rows raise it and weights scaled below 1 do not lower it
    n_rows : number of rows of the user's table
    label : one number per row, NaN if missing; None unless requested and given
    level_weight : total weight of each level over all machines; None unless levels are
        distributed over several machines
    has_remote_explicit_pairs : whether other machines have explicit pairs
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
    has_remote_explicit_pairs: bool = False

    @property
    def has_explicit_pairs(self) -> bool:
        """Whether any machine has explicit pairs."""
        return self.has_remote_explicit_pairs or self.winner.size > 0

    @property
    def queries_span_machines(self) -> bool:
        """Whether levels are distributed over several machines."""
        return self.level_weight is not None

    @property
    def n_used_rows(self) -> int:
        """Number of rows that occur in a pair."""
        return int(self.order.size)

    @property
    def n_queries(self) -> int:
        """Number of queries, on this machine."""
        return self.query_start.size - 1

    @property
    def query_rows(self) -> Integers:
        """First row of each query, and the end of the graded rows."""
        return self.level_start[self.query_start]

    @property
    def n_graded(self) -> int:
        """Number of rows in levels; the remaining rows occur in explicit pairs only."""
        return int(self.level_start[-1])

    def query_of_row(self) -> Integers:
        """Return the number of the query of each graded row."""
        return np.repeat(np.arange(self.n_queries), np.diff(self.query_rows))

    def level_of_row(self) -> Integers:
        """Return the number of the level of each graded row."""
        return np.repeat(np.arange(self.level_start.size - 1), np.diff(self.level_start))

    def to_rows(self, values: Floats) -> Floats:
        """Return numbers in the order of the layout in that of the user's rows; 0 if unused."""
        rows = np.zeros(self.n_rows)
        rows[self.order] = values
        return rows

    def explicit_pair_margins(self, scores: Floats, *, gap: bool) -> Floats:
        """Return the margins of the explicit pairs; with `gap`, less the required margin (1)."""
        margin = scores[self.winner] - scores[self.loser]
        if not gap:
            return margin
        return margin - (1.0 if self.pair_margin is None else self.pair_margin)

    def sum_explicit_shares(self, shares: Floats) -> Floats:
        """Return the sum of the explicit pairs that each row wins, less of those that it loses.

        `shares` has one number per pair, of sum at most 1. The order of the pairs does not matter.
        """
        integers, share = np.zeros(self.n_used_rows, np.int64), to_integers(shares)
        np.add.at(integers, self.winner, share)
        np.subtract.at(integers, self.loser, share)
        return integers / SCALE

    def count_graded_pairs(self) -> int:
        """Count the pairs implied by the grades."""
        return _count_pairs(self.level_start, self.query_start)

    def weight_above(self) -> Floats:
        """Return the total weight of the winners over each row. O(n + explicit pairs)."""
        above = np.zeros(self.n_used_rows)
        if self.n_graded:
            by_level = _weights_of_higher_levels(self.weights_of_levels(), self.query_start)
            above[: self.n_graded] = np.repeat(by_level, np.diff(self.level_start))
        explicit = self.pair_weight * self.weight[self.winner]
        return above + sums_at(self.loser, explicit, self.n_used_rows)

    def weights_of_levels(self) -> Floats:
        """Return the total weight of each level over all machines, for any row order. O(n)."""
        if self.level_weight is not None:
            return self.level_weight
        return _segment_sums(self.weight, self.level_start)

    def loser_weights_of_levels(self) -> Floats:
        """Return the total loser weight of each level over all machines."""
        if self.level_weight is not None:  # distributed levels have balance "pairs"
            return self.level_weight
        return _segment_sums(self.loser_weight, self.level_start)

    def components(self) -> Integers:
        """Return the connected component of each row in the graph of pairs."""
        ungraded = np.arange(self.n_used_rows - self.n_graded) + self.n_queries
        node = np.concatenate([self.query_of_row(), ungraded]).astype(np.int64)
        count = int(node.max(initial=-1)) + 1
        edges = scipy.sparse.coo_array(
            (np.ones(self.winner.size), (node[self.winner], node[self.loser])), (count, count)
        )
        component = scipy.sparse.csgraph.connected_components(edges, directed=False)[1][node]
        return component.astype(np.int64)

    def keys_by_pairs(self, keys: Keys) -> Keys:
        """Hash grades, queries and explicit pairs into the keys of the rows.

        Rows that are equal except for their pairs then differ. O(n + explicit pairs).
        """
        keys = splitmix64(keys ^ np.nan_to_num(self.grade + 0.0, nan=0.5).view(np.uint64))
        first = self.query_rows
        pair_key = splitmix64(self.pair_weight.view(np.uint64))
        if self.pair_margin is not None:
            pair_key = splitmix64(pair_key + (self.pair_margin + 0.0).view(np.uint64))
        for _ in range(PAIR_HASH_ROUNDS):
            mixed = keys.copy()
            sums = np.add.reduceat(keys[: self.n_graded], first[:-1]) if self.n_graded else keys[:0]
            mixed[: self.n_graded] += np.repeat(splitmix64(sums), np.diff(first))
            for one, other in ((self.winner, self.loser), (self.loser, self.winner)):
                np.add.at(mixed, one, splitmix64(keys[other] ^ pair_key))
                mixed = splitmix64(mixed)
            keys = mixed
        return keys

    def reorder(self, key: Keys, context: Context | None = None) -> tuple[QueryLayout, Integers]:
        """Sort the rows of each level by `key`; return the layout and each row's old position.

        Sums over a query then do not depend on the order of the user's rows. The sort runs on the
        threads or the GPU of `context`.
        """
        context = context or Context(1)
        if self.has_explicit_pairs:
            key = self.keys_by_pairs(key)
        level = self.level_of_row()
        level = np.concatenate([level, np.full(self.n_used_rows - self.n_graded, level.size)])
        old = context.backend.sort_levels(key, level, context)
        winner, loser = self.winner, self.loser
        if winner.size:
            new = np.empty_like(old)
            new[old] = np.arange(old.size)
            winner, loser = new[winner], new[loser]
        keys = (winner, loser) if self.pair_margin is None else (self.pair_margin, winner, loser)
        by_row = np.lexsort(keys)
        # Rows stay in their levels, so grades do not change, nor do weights if all are equal.
        uniform = self.n_graded == self.n_used_rows and bool((self.weight == self.weight[:1]).all())
        layout = replace(
            self,
            order=self.order[old],
            weight=self.weight if uniform else self.weight[old],
            loser_weight=self.loser_weight if uniform else self.loser_weight[old],
            label=None if self.label is None else self.label[old],
            winner=winner[by_row],
            loser=loser[by_row],
            pair_weight=self.pair_weight[by_row],
            pair_margin=None if self.pair_margin is None else self.pair_margin[by_row],
        )
        return layout, old


@dataclass(frozen=True)
class TrainingData:
    """A binned table and a query layout of the same rows, in the same order."""

    table: Table
    layout: QueryLayout
    context: Context
    init_score: Floats | None = None  # initial score of each row; None means 0
    by_value: bool = False  # whether weak rankers read raw feature values, not only bin codes

    @classmethod
    def prepare(
        cls,
        X: MatrixLike,
        judgments: Judgments,
        *,
        balance: str,
        max_bins: int,
        context: Context,
        categorical: Sequence[int] = (),
        labeled: bool = False,
        init_score: Floats | None = None,
        by_value: bool = False,
    ) -> TrainingData:
        """Lay out and bin the rows, then sort each level by the content of its rows.

        Rows without a pair (and, if `labeled`, without a label) are left out. For the other
        parameters see `Table.build` and `QueryLayout`.
        """
        layout = judgments.to_layout(balance, labeled=labeled)
        if layout.total <= 0 and not (labeled and layout.n_used_rows):
            raise ValueError(why_no_pair(judgments))
        order, weight = layout.order, layout.weight
        table = Table.build(
            X, order=order, weight=weight, max_bins=max_bins, categorical=categorical,
            context=context,
        )  # fmt: skip
        start = None if init_score is None else init_score[layout.order]
        return cls.ordered(table, layout, context, start, by_value=by_value)

    @classmethod
    def ordered(
        cls,
        table: Table,
        layout: QueryLayout,
        context: Context,
        init_score: Floats | None = None,
        *,
        by_value: bool = False,
    ) -> TrainingData:
        """Sort the rows of each level by content, so that the user's order does not matter."""
        keys = table.keys(layout.weight, context)
        if by_value:
            keys = table.keys_by_value(keys)
        # Rows that differ only in their label or initial score need different keys too.
        if layout.label is not None:
            keys ^= np.nan_to_num(layout.label, nan=0.5).view(np.uint64) * np.uint64(3)
        if init_score is not None:
            keys ^= (init_score + 0.0).view(np.uint64) * np.uint64(5)
        layout, old = layout.reorder(keys, context)
        start = None if init_score is None else init_score[old]
        return cls(table.reorder(old, context), layout, context, start, by_value)


def why_no_pair(judgments: Judgments) -> str:
    """Return the error message for judgments without a pair."""
    if judgments.weight is not None and not judgments.weight.any():
        return "there is no pair to learn from: every sample weight is zero"
    if judgments.grade is None:
        return "there is no pair to learn from: no pair has a positive weight"
    distinct = np.unique(judgments.grade[~np.isnan(judgments.grade)])
    if distinct.size == 1:
        return (
            f"there is no pair to learn from: y has only one class, {distinct[0]:g}; "
            "ranking needs at least two grades"
        )
    return (
        "there is no pair to learn from: no query holds two rows of different grades and "
        "positive weight; check that qid groups the rows you mean to compare"
    )


class QueryTotals(NamedTuple):
    """Total pair weight and item weight of each query, and the number of pairs."""

    pairs: Floats
    items: Floats
    n_pairs: int


def layouts(
    judgments: Judgments, balances: Sequence[str], labeled: bool = False
) -> list[QueryLayout]:
    """Build one layout per balance; `labeled` adds the rows that have a label but no pair."""
    return _build_layouts(judgments, balances, labeled)[0]


def query_totals(judgments: Judgments) -> QueryTotals:
    """Return the totals by query, which `merge_query_totals` merges over several data sets.

    >>> from precede import Judgments
    >>> query_totals(Judgments([0, 1, 1], pairs=[(0, 1)])).n_pairs
    3
    """
    return _build_layouts(judgments, ("pairs",), labeled=False)[1]


def merge_query_totals(parts: Sequence[QueryTotals], balance: str) -> tuple[float, float]:
    """Return `total` and `pair_count` of the layout of all parts; no query is in two parts.

    >>> from precede import Judgments
    >>> parts = [query_totals(Judgments(y)) for y in ([0, 1, 1], [0, 1])]
    >>> merge_query_totals(parts, "pairs"), merge_query_totals(parts, "items")
    ((3.0, 3.0), (5.0, 3.0))
    """
    totals, items = (
        np.concatenate([getattr(p, name) for p in parts]) for name in ("pairs", "items")
    )
    totals, items = totals[totals > 0], items[totals > 0]
    balanced = {"pairs": totals, "queries": totals * (1.0 / totals), "items": items}[balance]
    pairs = float(sum(part.n_pairs for part in parts))
    return math.fsum(balanced), max(math.fsum(totals), pairs)


def _build_layouts(
    judgments: Judgments, balances: Sequence[str], labeled: bool
) -> tuple[list[QueryLayout], QueryTotals]:
    """Return the layouts (see `layouts`) and the totals by query."""
    n = len(judgments)
    query = judgments._query()
    weight = np.ones(n) if judgments.weight is None else judgments.weight
    winner, loser, pair_weight, pair_margin, n_explicit = _merge_pairs(judgments, weight)
    order, level_start, query_start = _sort_into_levels(judgments, query, weight)

    without_level = np.zeros(n, bool)
    without_level[winner] = without_level[loser] = True
    without_level[order] = False
    ungraded, label = np.flatnonzero(without_level), None
    if labeled and judgments.label is not None:
        label = judgments.label
        without_level |= ~np.isnan(label) & (weight > 0)
        without_level[order] = False
    order = np.concatenate([order, np.flatnonzero(without_level)])
    layout_row = np.full(n, -1)
    layout_row[order] = np.arange(order.size)

    explicit = pair_weight * weight[winner] * weight[loser]
    # Sum in increasing order so the result does not depend on row order.
    ascending = np.lexsort((explicit, query[loser]))
    query_total = _pair_weight_by_query(
        order, level_start, query_start, weight, query
    ) + np.bincount(
        query[loser][ascending], explicit[ascending], minlength=int(query.max(initial=0)) + 1
    )
    items = _item_weight_by_query(order, level_start, query_start, weight, query, ungraded)
    pair_count = _count_pairs(level_start, query_start) + n_explicit
    grade = np.full(n, np.nan) if judgments.grade is None else judgments.grade
    layout = QueryLayout(
        order=order,
        level_start=level_start,
        query_start=query_start,
        grade=np.where(np.arange(order.size) < level_start[-1], grade[order], np.nan),
        weight=weight[order],
        loser_weight=weight[order],
        winner=layout_row[winner],
        loser=layout_row[loser],
        pair_weight=pair_weight,
        total=math.fsum(query_total),
        pair_count=max(math.fsum(query_total), float(pair_count)),
        n_rows=n,
        label=None if label is None else label[order],
        pair_margin=pair_margin,
    )
    query_of_row = query[order]
    balanced = [_apply_balance(layout, each, query_of_row, query_total, items) for each in balances]
    return balanced, QueryTotals(query_total, items, pair_count)


def _apply_balance(
    layout: QueryLayout,
    balance: str,
    query: Integers,
    query_total: Floats,
    items: Floats,
) -> QueryLayout:
    """Set `loser_weight` and `total` so that queries are weighted as `balance` says."""
    if balance == "pairs":
        return layout
    share = np.divide(1.0, query_total, out=np.ones_like(query_total), where=query_total > 0)
    loser_weight, total = layout.weight * share[query], query_total * share
    if balance == "items":
        loser_weight, total = loser_weight * items[query], np.where(query_total > 0, items, 0.0)
    return replace(layout, loser_weight=loser_weight, total=math.fsum(total))


def _count_pairs(level_start: Integers, query_start: Integers) -> int:
    sizes = np.diff(level_start)
    below = np.concatenate([[0], np.cumsum(sizes)])
    first_level = np.repeat(query_start[:-1], np.diff(query_start))
    losers = below[:-1] - below[first_level]
    return int(sizes @ losers)


def _sort_into_levels(
    judgments: Judgments, query: Integers, weight: Floats
) -> tuple[Integers, Integers, Integers]:
    """Sort graded rows by (query, grade) and drop queries with a single grade.

    Returns `order`, `level_start` and `query_start` of a `QueryLayout`.
    """
    empty = np.zeros(1, np.int64)
    if judgments.grade is None:
        return np.zeros(0, np.int64), empty, empty
    grade = judgments.grade
    rows = np.flatnonzero(~np.isnan(grade) & (weight > 0))
    # Sort rows of equal grade by weight, so that sums of weights do not depend on row order.
    keys: list[Array] = [] if judgments.weight is None else [weight[rows]]
    keys.append(_as_bytes_if_small(grade[rows]))
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


def _as_bytes_if_small(grade: Floats) -> Array:
    """Convert grades to uint8 if that is lossless: bytes are sorted many times as fast."""
    if grade.size and grade.min() >= 0 and grade.max() <= 255:
        short = grade.astype(np.uint8)
        if (short == grade).all():
            return short
    return grade


def _merge_pairs(
    judgments: Judgments, weight: Floats
) -> tuple[Integers, Integers, Floats, Floats | None, int]:
    """Merge equal explicit pairs by summing their weights; drop those of weight 0.

    Pairs of the same rows with different margins stay separate. A tie is half a pair in each
    direction, with a margin of 1. Returns winners, losers, weights, margins, and the number of
    distinct pairs and ties.
    """
    pairs, pair_weight, pair_margin = _positive_pairs(
        judgments.pairs, judgments.pair_weight, weight, judgments.pair_margin
    )
    ties, tie_weight, tie_margin = _positive_pairs(judgments.ties, judgments.tie_weight, weight)
    winner, loser = np.concatenate([pairs, ties, ties[:, ::-1]]).T
    pair_weight = np.concatenate([pair_weight, tie_weight / 2, tie_weight / 2])
    margin = np.concatenate([pair_margin, tie_margin, tie_margin])
    # Sum equal pairs in increasing order of weight, so that the order of the list does not matter.
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
    merged_margin = None if judgments.pair_margin is None else margin[start]
    return winner[start], loser[start], merged, merged_margin, count


def _positive_pairs(
    pairs: Integers | None, pair_weight: Floats | None, weight: Floats, margin: Floats | None = None
) -> tuple[Integers, Floats, Floats]:
    """Return the pairs with positive pair weight and item weights, their weights and margins."""
    if pairs is None:
        return np.zeros((0, 2), np.int64), np.zeros(0), np.zeros(0)
    pair_weight = np.ones(len(pairs)) if pair_weight is None else pair_weight
    margin = np.ones(len(pairs)) if margin is None else margin
    kept = (pair_weight > 0) & (weight[pairs] > 0).all(axis=1)
    return pairs[kept], pair_weight[kept], margin[kept]


def _pair_weight_by_query(
    order: Integers, level_start: Integers, query_start: Integers, weight: Floats, query: Integers
) -> Floats:
    """Return the total weight of the graded pairs of each query, by query number."""
    totals = np.zeros(int(query.max(initial=0)) + 1)
    if level_start.size > 1:
        graded = order[: level_start[-1]]
        number = query[graded[level_start[query_start[:-1]]]]
        totals[number] = _graded_pair_weights(weight[graded], level_start, query_start)
    return totals


def _graded_pair_weights(weight: Floats, level_start: Integers, query_start: Integers) -> Floats:
    """Sum winner weight times loser weight over the graded pairs of each query."""
    totals = np.zeros(query_start.size - 1)
    if (weight == 1.0).all():  # the usual case; avoids compiling a kernel
        size, first = np.diff(level_start), level_start[query_start]
        below = level_start[:-1] - np.repeat(first[:-1], np.diff(query_start))
        np.add.at(totals, np.repeat(np.arange(totals.size), np.diff(query_start)), size * below)
    else:
        _sum_pair_weights(weight, level_start, query_start, totals)
    return totals


def _item_weight_by_query(
    order: Integers, level_start: Integers, query_start: Integers, weight: Floats,
    query: Integers, ungraded: Integers,
) -> Floats:  # fmt: skip
    """Return the total weight of the graded and ungraded items of each query."""
    ascending = ungraded[np.lexsort((weight[ungraded], query[ungraded]))]
    items = np.zeros(int(query.max(initial=0)) + 1)
    np.add.at(items, query[ascending], weight[ascending])
    if level_start.size > 1:
        graded = order[: level_start[-1]]
        first = level_start[query_start]
        items[query[graded[first[:-1]]]] += _segment_sums(weight[graded], first)
    return items


def _segment_sums(values: Floats, start: Integers) -> Floats:
    """Return the sum of each segment ``values[start[i] : start[i + 1]]``, independent of order.

    Values are added as integers: multiples of 2^-62 of a power of two above the largest.
    """
    if (values == 1.0).all():  # the usual case; avoids compiling a kernel
        return np.diff(start).astype(np.float64)
    sums = np.zeros(start.size - 1)
    _sum_segments(values, start, sums)
    return sums


def check_balance(balance: str) -> str:
    """Raise ValueError unless `balance` is one of `BALANCES`."""
    if balance not in BALANCES:
        raise ValueError(f"balance={balance!r} is unknown; use 'pairs', 'queries' or 'items'")
    return balance


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _sum_pair_weights(
    weight: Floats, level_start: Integers, query_start: Integers, totals: Floats
) -> None:
    """See `_graded_pair_weights`."""
    for query in range(query_start.size - 1):
        below = 0.0
        for level in range(query_start[query], query_start[query + 1]):
            level_weight = 0.0
            for row in range(level_start[level], level_start[level + 1]):
                level_weight += weight[row]
            totals[query] += level_weight * below
            below += level_weight


@njit(cache=True, nogil=True)
def _sum_segments(values: Floats, start: Integers, sums: Floats) -> None:
    """See `_segment_sums`."""
    for segment in range(start.size - 1):
        largest = 0.0
        for row in range(start[segment], start[segment + 1]):
            largest = max(largest, abs(values[row]))
        if largest == 0.0:
            continue
        unit = 2.0 ** np.ceil(np.log2(largest) + 1.0)
        high, low = np.int64(0), np.int64(0)
        for row in range(start[segment], start[segment + 1]):
            scaled = values[row] / unit * HIGH
            whole = np.floor(scaled)
            high += np.int64(whole)
            low += np.int64((scaled - whole) * HIGH)
        sums[segment] = (high * 2.0**-31 + low * 2.0**-62) * unit


@njit(cache=True, nogil=True)
def _weights_of_higher_levels(weight: Floats, query_start: Integers) -> Floats:
    """Return the total weight of the higher levels of the same query, for each level."""
    above = np.zeros(weight.size)
    for query in range(query_start.size - 1):
        for level in range(query_start[query + 1] - 2, query_start[query] - 1, -1):
            above[level] = above[level + 1] + weight[level + 1]
    return above
