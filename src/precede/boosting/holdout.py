"""Held-out rows: folds and bootstrap samples of queries, and statistics of held-out values.

All selection on held-out rows uses this module: ``"auto"`` and ``"cv"``, the pairs of a
`GlassBoxRanker`, and the candidates of `precede.tune`. Folds and samples keep queries and compared
rows together; standard errors are paired by held-out unit.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph

from precede.engine.arrays import Array, Floats, Integers, Keys
from precede.engine.exact import all_gather, all_reduce_max, all_reduce_sum, exact_sum, splitmix64
from precede.engine.execution import Context
from precede.engine.query_layout import QueryLayout, TrainingData, merge_query_totals, query_totals
from precede.files.disk import DiskTable
from precede.judgments import Judgments

if TYPE_CHECKING:
    from precede.estimator import BaseRanker, FitContext

# A learning curve ends if it has not improved in the last third of the rounds, PATIENCE at least.
PATIENCE = 50
# Connected groups are units only if there are at least this many.
MIN_GROUPS = 5


class TooFewError(ValueError):
    """Too few rows to hold some of them out."""


# -- units -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Units:
    """Units that are held out or drawn as a whole.

    They are queries; groups of queries or rows that are connected by explicit pairs; single
    explicit pairs and ties (votes), if they connect nearly all rows and there are no grades; or the
    rows of a single list.

    Attributes
    ----------
    kind : "groups" (queries, or groups connected by explicit pairs), "votes" or "rows"
    judgments : judgments of the rows
    of_row : unit of each row; of votes, which have two rows, it is not used
    keys : hash of each unit
    """

    kind: str
    judgments: Judgments
    of_row: Integers
    keys: Keys

    @classmethod
    def of(
        cls,
        judgments: Judgments,
        row_keys: Callable[[str], Keys],
        *,
        layout: QueryLayout | None = None,
        context: Context | None = None,
        min_queries: int = 2,
    ) -> Units:
        """Return the units of judgments; with fewer than `min_queries` queries they are rows.

        `row_keys` returns the hash of every row for units of a kind.
        """
        layout, context = layout or judgments.to_layout(), context or Context(1)
        kind, of_row = _find_units(judgments, layout, context, min_queries)
        keys = row_keys(kind)
        if kind == "votes":
            keys = _vote_keys(judgments, keys)
        else:
            sums = np.zeros(int(of_row.max(initial=-1)) + 1, np.uint64)
            np.add.at(sums, of_row, keys)
            keys = sums
        return cls(kind, judgments, of_row, splitmix64(keys))

    def folds(self, count: int) -> Integers:
        """Return the fold of each unit; rows of a single list are stratified by grade.

        >>> units = Units.of(Judgments([1, 0, 1, 0]), lambda kind: np.arange(4).astype(np.uint64))
        >>> units.kind, units.folds(2).tolist()
        ('rows', [0, 0, 1, 1])
        """
        return assign_folds(self.keys, count, self.judgments.grade if self.kind == "rows" else None)

    def repeat(self, times: Array) -> tuple[Integers, Judgments]:
        """Return the rows of each unit, repeated `times` times, and their judgments.

        Copies of a query are separate queries, copies of a row of a single list separate rows, and
        a vote drawn twice weighs twice.
        """
        if self.kind == "votes":
            return np.arange(len(self.judgments)), _repeat_votes(self.judgments, times)
        copies = times[self.of_row].astype(np.int64)
        if self.kind == "rows":
            rows = np.repeat(np.arange(copies.size), copies)
            return rows, self.judgments[rows]
        max_copies = max(1, int(copies.max(initial=0)))
        copied = [np.flatnonzero(copies > number) for number in range(max_copies)]
        return np.concatenate(copied), _concatenate([self.judgments[rows] for rows in copied])

    def check_folds(self, cv: int, total: int) -> None:
        """Raise ValueError unless `total` units on all machines are enough for `cv` folds."""
        one = self.kind == "rows" and self.judgments.qid is not None
        if one or total < cv:
            what = "queries" if one or self.kind == "groups" else self.kind
            raise ValueError(
                f"cv={cv} needs at least as many {what}, and there are {1 if one else total}; "
                "lower cv, give a number in place of 'cv', or leave qid out for one list"
            )


def folds(judgments: Judgments, cv: int, random_state: int = 0) -> list[tuple[Integers, Integers]]:
    """Return training and held-out rows, `cv` times; O(n log n).

    Queries, and rows that are connected by explicit pairs, stay whole where possible (see
    `Units`). The folds of a single list are stratified by grade.

    >>> from precede import Judgments
    >>> judgments = Judgments([1, 0, 1, 0], qid=["a", "a", "b", "b"])
    >>> sorted(held_out.tolist() for _, held_out in folds(judgments, 2))
    [[0, 1], [2, 3]]
    """
    random = np.random.default_rng(random_state)
    keys = random.integers(0, 2**64, len(judgments), dtype=np.uint64)
    units = Units.of(judgments, lambda kind: keys)  # noqa: ARG005
    units.check_folds(cv, units.keys.size)
    fold = units.folds(cv)[units.of_row] if units.kind != "votes" else assign_folds(keys, cv)
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(cv)]


def components(judgments: Judgments) -> Integers:
    """Return the connected component of each row, joined by queries, explicit pairs and ties.

    >>> components(Judgments(pairs=[(0, 3), (1, 2)], n=5)).tolist()
    [0, 1, 1, 0, 2]
    """
    node = np.arange(len(judgments)) if judgments.qid is None else judgments._query()
    given = [pairs for pairs in (judgments.pairs, judgments.ties) if pairs is not None]
    one, other = node[np.concatenate([np.zeros((0, 2), np.int64), *given])].T
    count = int(node.max(initial=-1)) + 1
    graph = scipy.sparse.coo_array((np.ones(one.size), (one, other)), (count, count))
    labels = scipy.sparse.csgraph.connected_components(graph, directed=False)[1] if count else node
    return labels[node].astype(np.int64)


def _find_units(
    judgments: Judgments, layout: QueryLayout, context: Context, min_queries: int
) -> tuple[str, Integers]:
    """Return the kind of the units and the unit of each row; the same kind on all machines."""
    every = np.arange(len(judgments))
    graded = bool(all_reduce_max(lambda: layout.n_graded > 0, context))
    if layout.has_explicit_pairs and (judgments.qid is not None or not graded):
        group = components(judgments)
        sizes = np.concatenate(all_gather(lambda: np.bincount(group), context))
        if np.count_nonzero(sizes) >= MIN_GROUPS and sizes.max() <= sizes.sum() / 2:
            return "groups", group
        if not graded:
            return "votes", every
    query = judgments._query()
    if all_reduce_sum(lambda: int(query.max(initial=-1)) + 1, context) >= min_queries:
        return "groups", query
    return "rows", every


def assign_folds(keys: Keys, count: int, strata: Floats | None = None) -> Integers:
    """Assign items to `count` folds of equal size by their hashes, within strata if given.

    >>> assign_folds(np.array([7, 3, 9, 1], np.uint64), 2).tolist()
    [0, 1, 1, 0]
    """
    order = np.argsort(keys, kind="stable") if strata is None else np.lexsort((keys, strata))
    fold = np.empty(keys.size, np.int64)
    if strata is not None:  # shuffle each batch of `count` neighbors
        order = order[np.lexsort((splitmix64(keys[order]), np.arange(order.size) // count))]
    fold[order] = np.arange(order.size) % count
    return fold


def _vote_keys(judgments: Judgments, keys: Keys) -> Keys:
    """Return a hash for every explicit pair and then every tie, from the hashes of the rows."""
    found = []
    for votes in _votes(judgments):
        one, other = (
            splitmix64(keys[rows] + np.uint64(votes.is_ordered * k))
            for k, rows in enumerate(votes.rows.T)
        )
        own = splitmix64(one + other) ^ votes.weight.view(np.uint64)
        found.append(splitmix64(splitmix64(own) ^ (votes.margin + 0.0).view(np.uint64)))
    return np.concatenate(found)


def _repeat_votes(judgments: Judgments, times: Array) -> Judgments:
    """Multiply the weights of explicit pairs, then ties, by `times`; drop zeros."""
    pairs, ties = _votes(judgments)
    pair_times, tie_times = np.split(times.astype(np.float64), [len(pairs.rows)])
    made = judgments
    if judgments.pairs is not None:
        kept = pair_times > 0
        margin = None if judgments.pair_margin is None else pairs.margin[kept]
        weight = (pairs.weight * pair_times)[kept]
        made = made._with(pairs=pairs.rows[kept], pair_weight=weight, pair_margin=margin)
    if judgments.ties is not None:
        kept = tie_times > 0
        made = made._with(ties=ties.rows[kept], tie_weight=(ties.weight * tie_times)[kept])
    return made


class _Votes(NamedTuple):
    """Explicit pairs (ordered) or ties."""

    rows: Integers
    weight: Floats
    margin: Floats
    is_ordered: bool


def _votes(judgments: Judgments) -> tuple[_Votes, _Votes]:
    """Return the explicit pairs and the ties."""

    def listed(
        given: Integers | None, weight: Floats | None, margin: Floats | None, is_ordered: bool
    ) -> _Votes:
        rows = np.zeros((0, 2), np.int64) if given is None else given
        ones = np.ones(len(rows))
        return _Votes(
            rows, ones if weight is None else weight, ones if margin is None else margin, is_ordered
        )

    pairs = listed(judgments.pairs, judgments.pair_weight, judgments.pair_margin, True)
    return pairs, listed(judgments.ties, judgments.tie_weight, None, False)


def _concatenate(parts: Sequence[Judgments]) -> Judgments:
    """Concatenate judgments; equal query names in different parts are different queries."""
    sizes = [len(part) for part in parts]
    first = np.concatenate([[0], np.cumsum(sizes)])

    def column(name: str) -> Floats | None:
        given = [getattr(part, name) for part in parts]
        return None if given[0] is None else np.concatenate(given)

    def listed(name: str) -> Integers | None:
        given = [getattr(part, name) for part in parts]
        if given[0] is None:
            return None
        return np.concatenate([each + low for each, low in zip(given, first[:-1], strict=True)])

    qid = None
    if parts[0].qid is not None:
        numbers = [part._query() for part in parts]
        ends = np.cumsum([0, *(each.max(initial=-1) + 1 for each in numbers)])
        qid = np.concatenate([each + low for each, low in zip(numbers, ends[:-1], strict=True)])
    return Judgments(
        column("grade"), qid, pairs=listed("pairs"), pair_weight=column("pair_weight"),
        pair_margin=column("pair_margin"), ties=listed("ties"), tie_weight=column("tie_weight"),
        weight=column("weight"), label=column("label"), n=int(first[-1]),
    )  # fmt: skip


# -- parts of a training set -------------------------------------------------------------------


class _Numbering(NamedTuple):
    """Units of a training set, with the rank of each by hash and the number on all machines."""

    units: Units
    rank: Integers
    total: int


class Resampler:
    """Draw folds and bootstrap samples from a training set.

    Units are ordered by hashes of their contents and the seed, so that a draw does not depend on
    the order of rows, the names of queries, or their distribution over machines.

    Parameters
    ----------
    training : TrainingData
    judgments : the judgments that it was prepared from
    balance, labeled : as for `TrainingData.prepare`
    seed : int
    min_queries : with fewer queries than this, rows are the units
    in_layout_order : whether `judgments` are in the order of the training rows
    """

    def __init__(
        self, training: TrainingData, judgments: Judgments, *, balance: str, labeled: bool = False,
        seed: int = 0, min_queries: int = 2, in_layout_order: bool = False,
    ):  # fmt: skip
        self.training, self._balance, self._labeled = training, balance, labeled
        self._seed, self._min_queries = seed, min_queries
        self.judgments = judgments if in_layout_order else judgments[training.layout.order]
        self._numbering: _Numbering | None = None

    @classmethod
    def of_fit(
        cls, estimator: BaseRanker, task: FitContext, *, seed: int = 0, min_queries: int = 2
    ) -> Resampler:
        """Return the resampler of the rows that an estimator is fitted to."""
        return cls(
            task.training, estimator.judgments_to_learn(task.judgments), balance=estimator.balance,
            labeled=estimator.learns_labels, seed=seed, min_queries=min_queries,
            in_layout_order=isinstance(task.X, DiskTable),
        )  # fmt: skip

    @property
    def rows(self) -> Integers:
        """Row number in the user's table for each row."""
        return self.training.table.order

    @property
    def units(self) -> Units:
        """Units of this machine."""
        return self._number_units().units

    @property
    def n_units(self) -> int:
        """Number of units on all machines."""
        return self._number_units().total

    def _number_units(self) -> _Numbering:
        """Find and rank the units on first use, on all machines at the same point of the fit.

        This is not a `cached_property`, which may hold a lock while machines wait for each other.
        """
        if self._numbering is None:
            training = self.training
            units = Units.of(
                self.judgments, self._hash_rows, layout=training.layout, context=training.context,
                min_queries=self._min_queries,
            )  # fmt: skip
            self._numbering = _Numbering(units, *self._ranks(units.keys))
        return self._numbering

    def _hash_rows(self, kind: str) -> Keys:
        """Hash every row, from its features, weight, judgments and the seed."""
        training, rows = self.training, self.training.layout
        keys = training.table.keys(rows.weight, training.context)
        if training.by_value:
            keys = training.table.keys_by_value(keys)
        keys ^= splitmix64(np.full(1, self._seed, np.uint64))
        for column in (rows.grade, rows.label, training.init_score):
            if column is not None:
                keys = splitmix64(keys ^ np.nan_to_num(column + 0.0, nan=0.5).view(np.uint64))
        queries = all_reduce_sum(lambda: rows.query_start.size - 1, training.context)
        has_several_queries = kind == "rows" and queries > 1 and not rows.queries_span_machines
        return splitmix64(
            rows.keys_by_pairs(keys) if rows.has_explicit_pairs or has_several_queries else keys
        )

    def _ranks(self, keys: Keys) -> tuple[Integers, int]:
        """Return the rank of each unit by hash over all machines, and the number of units."""
        context = self.training.context
        parts = all_gather(lambda: keys, context)
        order = np.argsort(np.concatenate(parts), kind="stable")
        rank = np.empty(order.size, np.int64)
        rank[order] = np.arange(order.size)
        before = sum(part.size for part in parts[: context.rank])
        return rank[before : before + keys.size], order.size

    # -- drawing ---------------------------------------------------------------------------

    def fold_splits(self, n_folds: int, n_splits: int) -> list[tuple[Resampler, Resampler]]:
        """Split the units into `n_folds` folds; return training and held-out units of `n_splits`.

        Splits without a pair are left out.
        """
        # These are all units: 'auto' and 'cv' are refused on a cluster.
        fold = self.units.folds(n_folds)
        found = [
            (self.repeat_units(fold != k), self.repeat_units(fold == k)) for k in range(n_splits)
        ]
        return [(one, held) for one, held in found if one is not None and held is not None]

    def folds(self, cv: int) -> list[tuple[Resampler, Resampler]]:
        """Return training and held-out units for every fold that has a pair to compare."""
        self.units.check_folds(cv, self.n_units)
        return self.fold_splits(cv, cv)

    def holdout_splits(self, share: float, max_rows: int) -> list[tuple[Resampler, Resampler]]:
        """Return training and held-out units on all machines, about `share` of them held out.

        Every part is held out in turn; only the first if there are `max_rows` rows or more.
        """
        size = max(1, round(share * self.n_units))
        drawn = np.random.default_rng(self._seed).permutation(self.n_units) // size
        rows = all_reduce_sum(lambda: self.training.layout.n_used_rows, self.training.context)
        found = []
        for turn in range(self.n_units // size if rows < max_rows else 1):
            held = drawn[self._number_units().rank] == turn
            one, other = self.repeat_units(~held), self.repeat_units(held)
            if one is not None and other is not None:
                found.append((one, other))
        return found

    def bootstrap(self, draw: int) -> tuple[Resampler, Resampler | None]:
        """Return a bootstrap sample with seed `draw`, and the units that were not drawn.

        The latter is None without a pair to compare.
        """
        drawn = np.random.RandomState(draw).randint(self.n_units, size=self.n_units)
        times = np.bincount(drawn, minlength=self.n_units)[self._number_units().rank]
        found = self.repeat_units(times)
        if found is None:
            raise TooFewError("a bootstrap sample has no pair; give more data, or leave bags out")
        return found, self.repeat_units(times == 0)

    def blocks(self, count: int) -> list[tuple[Integers, QueryLayout]]:
        """Partition the units; return rows and layout of each block that has a pair."""
        found = []
        for block in range(count):
            rows, made = self.units.repeat(self._number_units().rank % count == block)
            layout = self._make_layout(made)
            if layout.total > 0:
                found.append((rows[layout.order], layout))
        return found

    def repeat_units(self, times: Array) -> Resampler | None:
        """Repeat each unit `times` times, keeping the bins; None without a pair to compare."""
        full = self.training
        rows, made = self.units.repeat(times)
        layout = self._make_layout(made)
        if layout.total <= 0 and not (self._labeled and layout.n_used_rows):
            return None
        items = rows[layout.order]
        start = None if full.init_score is None else full.init_score[items]
        training = TrainingData.ordered(
            full.table.block(items), layout, full.context, start, by_value=full.by_value
        )
        return Resampler(
            training, made, balance=self._balance, labeled=self._labeled, seed=self._seed,
            min_queries=self._min_queries,
        )  # fmt: skip

    def _make_layout(self, judgments: Judgments) -> QueryLayout:
        """Return the layout of some rows, with the totals over all machines."""
        layout = judgments.to_layout(self._balance, labeled=self._labeled)
        context = self.training.context
        if not context.is_distributed:
            return layout
        parts = all_gather(lambda: (query_totals(judgments), len(judgments)), context)
        total, pair_count = merge_query_totals([each for each, _ in parts], self._balance)
        return replace(
            layout, total=total, pair_count=pair_count, n_rows=sum(size for _, size in parts),
            has_remote_explicit_pairs=self.training.layout.has_remote_explicit_pairs,
        )  # fmt: skip


# -- statistics of held-out values -------------------------------------------------------------


def weighted_mean(values: Floats, weight: Floats) -> float:
    """Return the weighted mean, independent of the order of the units.

    >>> weighted_mean(np.array([1.0, 4.0]), np.array([2.0, 1.0]))
    2.0
    """
    return exact_sum(weight * values) / exact_sum(weight)


def mean_and_error(values: Floats, weight: Floats | None = None) -> tuple[float, float]:
    """Return the weighted mean of held-out values and its standard error; 0 for one value.

    For differences of two candidates on the same units this is the paired standard error.

    >>> mean_and_error(np.array([1.0, 3.0]))
    (2.0, 1.0)
    """
    weight = np.ones(values.size) if weight is None else weight
    mean = weighted_mean(values, weight)
    if values.size < 2:
        return mean, 0.0
    variance = exact_sum((weight * (values - mean)) ** 2) / (values.size - 1)
    return mean, float(np.sqrt(variance * values.size)) / exact_sum(weight)


def is_within_error(behind: float, error: float) -> bool:
    """Whether a difference is at most an error, up to rounding.

    Rounding matters because the two are equal if only one unit differs.

    >>> is_within_error(0.1 + 0.2, 0.3)
    True
    """
    return behind <= error * (1.0 + 1e-9)


@dataclass(frozen=True)
class OneErrorRule:
    """Choice of the first candidate within one standard error of the best.

    Attributes
    ----------
    best, chosen : numbers of the candidates
    differences : of each candidate, the mean difference to the best (negative is worse) and its
        standard error, paired by unit
    """

    best: int
    chosen: int
    differences: list[tuple[float, float]]


def one_error_rule(values: Sequence[Floats], weight: Floats | None = None) -> OneErrorRule:
    """Choose among candidates, simplest first, given the values of each on the same units.

    >>> one_error_rule([np.array([1.0, 2.9]), np.array([2.0, 3.0]), np.array([1.0, 1.0])]).chosen
    1
    """
    best = int(np.argmax([mean_and_error(each, weight)[0] for each in values]))
    differences = [mean_and_error(each - values[best], weight) for each in values]
    within = (is_within_error(-mean, error) for mean, error in differences)
    return OneErrorRule(best, list(within).index(True), differences)


def align_curves(curves: Sequence[Sequence[float] | Floats]) -> Floats:
    """Return learning curves as rows of one array, extended by their last values.

    >>> align_curves([[1.0, 2.0], [3.0]]).tolist()
    [[1.0, 2.0], [3.0, 3.0]]
    """
    longest = max(map(len, curves))
    return np.array([[*each, *[each[-1]] * (longest - len(each))] for each in curves])


@dataclass(frozen=True)
class LearningCurve:
    """Held-out learning curve: values of the units (columns) after `rounds` rounds (rows).

    `weight` are the weights of the units; `ended` is why the curve was cut short, or empty.
    """

    rounds: Sequence[int]
    values: Floats
    weight: Floats
    ended: str = ""

    @cached_property
    def best(self) -> tuple[int, float]:
        """The row with the best mean, the first among ties, and that mean."""
        means = [weighted_mean(row, self.weight) for row in self.values]
        row = int(np.argmax(means))
        return row, means[row]


class CurveRecorder:
    """Record the learning curve of one size and decide when to stop.

    `incumbent` is the best curve of the larger sizes.
    """

    def __init__(self, weight: Floats, max_rounds: int, incumbent: LearningCurve | None = None):
        self._weight, self._max_rounds, self._incumbent = weight, max_rounds, incumbent
        self._rounds: list[int] = []
        self._values: list[Floats] = []
        self._best_means: list[float] = []  # best mean so far, at every evaluation
        self._best = 0  # evaluation of the best mean

    @property
    def best_mean(self) -> float:
        """Best mean so far."""
        return self._best_means[-1]

    def add(self, done: int, values: Floats) -> None:
        """Record the values after `done` rounds."""
        mean = weighted_mean(values, self._weight)
        if not self._best_means or mean > self._best_means[-1]:
            self._best = len(self._best_means)
        self._best_means.append(max([mean, *self._best_means[-1:]]))
        self._rounds.append(done)
        self._values.append(values)

    def is_over(self) -> bool:
        """Whether the curve stopped improving or is pruned."""
        done = self._rounds[-1]
        if done - self._rounds[self._best] >= max(PATIENCE, done // 3):
            return True
        return self._incumbent is not None and self._is_pruned(done, self._incumbent)

    def _is_pruned(self, done: int, incumbent: LearningCurve) -> bool:
        """Whether the extrapolated curve stays two standard errors below the incumbent."""
        best = incumbent.best[0]
        if done < max(4 * PATIENCE, incumbent.rounds[best]):
            return False
        last, before = self._gain(done), self._gain(done // 2)
        factor = min(last / before, 1.0) if before > 0 else 1.0
        expected_gain = 0.0
        while done < self._max_rounds:
            last *= factor
            expected_gain, done = expected_gain + last, 2 * done
        behind, error = mean_and_error(
            incumbent.values[best] - self._values[self._best], self._weight
        )
        return not is_within_error(behind - expected_gain, 2.0 * error)

    def _gain(self, done: int) -> float:
        """Return the gain of the best mean in the second half of the first `done` rounds."""
        first, last = (bisect_right(self._rounds, each) - 1 for each in (done // 2, done))
        return self._best_means[last] - self._best_means[first]

    def curve(self) -> LearningCurve:
        """Return the learning curve."""
        rounds = self._rounds[: len(self._values)]  # Ctrl-C may leave one more
        return LearningCurve(rounds, np.array(self._values), self._weight)


def fewest_rounds(curve: LearningCurve) -> tuple[int, int]:
    """Return the row of the best mean, and the first of the rows up to it within one error."""
    best = fewest = curve.best[0]
    while fewest > 0:
        behind, error = mean_and_error(curve.values[best] - curve.values[fewest - 1], curve.weight)
        if not is_within_error(behind, error):
            break
        fewest -= 1
    return best, fewest
