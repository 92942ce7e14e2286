"""Parts and bootstrap samples of a training set that keep together what belongs together.

The smallest thing that is held out or drawn is a *unit*: a query; queries, or rows, that listed
pairs join; a listed pair (a vote) where pairs join nearly everything and nothing has a grade; or a
row where all rows are one list. Units are put in an order that follows from their contents and the
seed alone, so that neither the order of the rows, nor the names of the queries, nor the machines
that hold them decide which units are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from precede.boosting.folds import components
from precede.engine.arrays import Array, Floats, Integers, Keys
from precede.engine.exact import all_gather, all_reduce_max, all_reduce_sum
from precede.engine.hashing import splitmix64
from precede.engine.query_layout import QueryLayout, joined_totals, totals_of_queries
from precede.engine.training_data import TrainingData
from precede.judgments import Judgments

__all__ = ["Sample", "TooFewError", "deal", "pieces_of"]

# Listed pairs that join rows, or queries, into fewer groups than this are cut.
FEWEST = 5


class TooFewError(ValueError):
    """There are too few rows to learn from some of them only."""


class _Units(NamedTuple):
    """Kind of the units, the unit and key of each row, key and rank of each unit, number of all."""

    kind: str
    of_row: Integers
    row_keys: Keys
    keys: Keys
    rank: Integers
    total: int


class Sample:
    """The rows of a training set, or some of them, in units.

    Parameters
    ----------
    training : the rows as they are learned from
    judgments : of the rows in the order of `training`; see `of`
    balance, labeled : as for `Training.prepare`
    seed : int
    queries : with fewer queries than this, rows are the units

    Attributes
    ----------
    kind : "groups" of rows (queries, or what listed pairs join), "votes" or "rows"
    n_units : number of units, of all machines
    keys : a number for every row
    """

    def __init__(
        self, training: TrainingData, judgments: Judgments, *, balance: str, labeled: bool = False,
        seed: int = 0, queries: int = 2,
    ):  # fmt: skip
        self.training, self.judgments = training, judgments
        self._balance, self._labeled, self._seed, self._queries = balance, labeled, seed, queries
        self._known: _Units | None = None

    @property
    def _units(self) -> _Units:
        """The units, numbered when they are first asked for: most samples are only learned from.

        Machines meet here, so all must ask at the same point of the fit, and no lock of a cached
        property may be held.
        """
        if self._known is None:
            self._known = self._numbered()
        return self._known

    @property
    def kind(self) -> str:
        """Kind of the units: "groups" of rows, "votes" or "rows"."""
        return self._units.kind

    @property
    def n_units(self) -> int:
        """Number of units, of all machines."""
        return self._units.total

    @property
    def keys(self) -> Keys:
        """A number for every row."""
        return self._units.row_keys

    @classmethod
    def of(cls, training: TrainingData, judgments: Judgments, **options: Any) -> Sample:
        """The units of a training set and of the judgments that it was prepared from."""
        return cls(training, judgments[training.layout.order], **options)

    @property
    def rows(self) -> Integers:
        """Row of the user's table for each row."""
        return self.training.table.order

    def _numbered(self) -> _Units:
        kind, unit = self._kind_and_unit()
        row_keys = self._keys_of_rows(kind)
        if kind == "votes":
            keys = keys_of_votes(self.judgments, row_keys)
        else:
            keys = np.zeros(int(unit.max(initial=-1)) + 1, np.uint64)
            np.add.at(keys, unit, row_keys)
        keys = splitmix64(keys)
        return _Units(kind, unit, row_keys, keys, *self._ranks(keys))

    def _keys_of_rows(self, kind: str) -> Keys:
        """A number for every row, from all that is known of it and the seed."""
        training, rows = self.training, self.training.layout
        keys = training.table.keys(rows.weight, training.context)
        if training.by_value:
            keys = training.table.keys_by_value(keys)
        keys ^= splitmix64(np.full(1, self._seed, np.uint64))
        for column in (rows.grade, rows.label, training.init_score):
            if column is not None:
                keys = splitmix64(keys ^ np.nan_to_num(column + 0.0, nan=0.5).view(np.uint64))
        queries = all_reduce_sum(lambda: rows.query_start.size - 1, training.context)
        several = kind == "rows" and queries > 1 and not rows.shared
        return splitmix64(rows.keys_by_pairs(keys) if rows.any_listed or several else keys)

    def _kind_and_unit(self) -> tuple[str, Integers]:
        """Kind of the units, and the number of the unit of each row; all machines decide alike."""
        judgments, layout = self.judgments, self.training.layout
        context, every = self.training.context, np.arange(len(self.judgments))
        graded = bool(all_reduce_max(lambda: layout.n_graded > 0, context))
        if layout.any_listed and (judgments.qid is not None or not graded):
            group = components(judgments)
            sizes = np.concatenate(all_gather(lambda: np.bincount(group), context))
            if np.count_nonzero(sizes) >= FEWEST and sizes.max() <= sizes.sum() / 2:
                return "groups", group
            if not graded:
                return "votes", every
        query = judgments._query()
        if all_reduce_sum(lambda: int(query.max(initial=-1)) + 1, context) >= self._queries:
            return "groups", query
        return "rows", every

    def _ranks(self, keys: Keys) -> tuple[Integers, int]:
        """Number of each unit in the order of the keys of all machines, and how many there are."""
        context = self.training.context
        parts = all_gather(lambda: keys, context)
        order = np.argsort(np.concatenate(parts), kind="stable")
        rank = np.empty(order.size, np.int64)
        rank[order] = np.arange(order.size)
        before = sum(part.size for part in parts[: context.rank])
        return rank[before : before + keys.size], order.size

    # -- drawing ---------------------------------------------------------------------------

    def parts(self, count: int, most: int) -> list[tuple[Sample, Sample]]:
        """Hold out one of `count` parts of the units at a time, `most` times.

        A single list is divided grade by grade, so that all parts have the same share of each.
        Returns units to learn from and units held out; parts without a pair to compare are left
        out.
        """
        grade = self.judgments.grade if self.kind == "rows" else None
        # By the keys of this machine: 'auto' and 'cv', which come here, are refused on a cluster.
        part = deal(self._units.keys, count, grade)
        found = [(self.take(part != k), self.take(part == k)) for k in range(most)]
        return [(one, held) for one, held in found if one is not None and held is not None]

    def folds(self, cv: int) -> list[tuple[Sample, Sample]]:
        """Units to learn from and units to hold out, for every fold that has a pair to compare."""
        one = self.kind == "rows" and self.judgments.qid is not None
        if one or self.n_units < cv:
            what = "queries" if one or self.kind == "groups" else self.kind
            raise ValueError(
                f"cv={cv} needs at least as many {what}, and there are "
                f"{1 if one else self.n_units}; lower cv, give a number in place of 'cv', or leave "
                "qid out for one list"
            )
        return self.parts(cv, cv)

    def divided(self, share: float, most_rows: int) -> list[tuple[Sample, Sample]]:
        """Units to fit and units to hold out, about a share of them, on all machines.

        Every part is held out in turn, but with `most_rows` rows or more only one.
        """
        size = max(1, round(share * self.n_units))
        drawn = np.random.default_rng(self._seed).permutation(self.n_units) // size
        rows = all_reduce_sum(lambda: self.training.layout.n_used_rows, self.training.context)
        found = []
        for turn in range(self.n_units // size if rows < most_rows else 1):
            held = drawn[self._units.rank] == turn
            one, other = self.take(~held), self.take(held)
            if one is not None and other is not None:
                found.append((one, other))
        return found

    def bootstrap(self, draw: int) -> tuple[Sample, Sample | None]:
        """Draw as many units as there are, with replacement; `draw` is the seed.

        Returns the sample, and the units that were not drawn, None if they hold no pair. Each copy
        of a query is a separate query, each copy of a row of one list a separate row, and a vote
        drawn twice weighs twice.
        """
        drawn = np.random.RandomState(draw).randint(self.n_units, size=self.n_units)
        times = np.bincount(drawn, minlength=self.n_units)[self._units.rank]
        found = self.take(times)
        if found is None:
            raise TooFewError("a bootstrap sample has no pair; give more data, or leave bags out")
        return found, self.take(times == 0)

    def blocks(self, count: int) -> list[tuple[Integers, QueryLayout]]:
        """Blocks of the units: rows and layout of each block that has a pair."""
        found = []
        for block in range(count):
            rows, made = self._copies(self._units.rank % count == block)
            layout = self._arranged(made)
            if layout.total > 0:
                found.append((rows[layout.order], layout))
        return found

    def take(self, times: Array) -> Sample | None:
        """Repeat each unit `times` times, with the bins of all rows; None if they hold no pair."""
        full = self.training
        rows, made = self._copies(times)
        layout = self._arranged(made)
        if layout.total <= 0 and not (self._labeled and layout.n_used_rows):
            return None
        items = rows[layout.order]
        start = None if full.init_score is None else full.init_score[items]
        training = TrainingData.ordered(
            full.table.block(items), layout, full.context, start, by_value=full.by_value
        )
        return Sample.of(
            training, made, balance=self._balance, labeled=self._labeled, seed=self._seed,
            queries=self._queries,
        )  # fmt: skip

    def _copies(self, times: Array) -> tuple[Integers, Judgments]:
        """Rows of each unit, repeated `times` times, and their judgments."""
        if self.kind == "votes":
            return np.arange(len(self.judgments)), with_votes(self.judgments, times)
        of_row = times[self._units.of_row].astype(np.int64)
        if self.kind == "rows":
            rows = np.repeat(np.arange(of_row.size), of_row)
            return rows, self.judgments[rows]
        most = max(1, int(of_row.max(initial=0)))
        copied = [np.flatnonzero(of_row > number) for number in range(most)]
        return np.concatenate(copied), _stacked([self.judgments[rows] for rows in copied])

    def _arranged(self, judgments: Judgments) -> QueryLayout:
        """The layout of some rows, with the totals of all machines."""
        layout = judgments.to_layout(self._balance, labeled=self._labeled)
        context = self.training.context
        if not context.is_distributed:
            return layout
        parts = all_gather(lambda: (totals_of_queries(judgments), len(judgments)), context)
        total, pair_count = joined_totals([each for each, _ in parts], self._balance)
        return replace(
            layout, total=total, pair_count=pair_count, n_rows=sum(size for _, size in parts),
            listed_elsewhere=self.training.layout.listed_elsewhere,
        )  # fmt: skip


def deal(keys: Keys, count: int, strata: Floats | None = None) -> Integers:
    """Deal out things by their keys to `count` parts of equal size, each stratum as well.

    >>> deal(np.array([7, 3, 9, 1], np.uint64), 2).tolist()
    [0, 1, 1, 0]
    """
    order = np.argsort(keys, kind="stable") if strata is None else np.lexsort((keys, strata))
    part = np.empty(keys.size, np.int64)
    if strata is not None:  # of every `count` neighbors each goes to another part, at random
        order = order[np.lexsort((splitmix64(keys[order]), np.arange(order.size) // count))]
    part[order] = np.arange(order.size) % count
    return part


def pieces_of(judgments: Judgments, keys: Keys, count: int) -> list[tuple[Integers, Judgments]]:
    """Rows and judgments of each of `count` pieces: of votes, of queries, or of a single list.

    `keys` has a number for every row.
    """
    if _only_votes(judgments):
        part = deal(keys_of_votes(judgments, keys), count)
        made = [with_votes(judgments, part == number) for number in range(count)]
        rows = [np.unique(np.concatenate([listed for listed, *_ in _votes(j)])) for j in made]
        return [(inside, each[inside]) for inside, each in zip(rows, made, strict=True)]
    one = judgments.qid is None
    owner = np.arange(len(judgments)) if one else judgments._query()
    kinds, member = np.unique(owner, return_inverse=True)
    sums = np.zeros(kinds.size, np.uint64)
    np.add.at(sums, member, keys)
    part = deal(sums, count, judgments.grade if one else None)[member]
    pieces = [np.flatnonzero(part == number) for number in range(count)]
    return [(rows, judgments[rows]) for rows in pieces]


def _only_votes(judgments: Judgments) -> bool:
    """Whether nothing but listed pairs compares rows, and queries do not part them."""
    listed, query = np.concatenate([pairs for pairs, *_ in _votes(judgments)]), judgments._query()
    graded = judgments._with(pairs=None, pair_weight=None, pair_margin=None).n_pairs > 0
    within = judgments.qid is not None and bool((query[listed[:, 0]] == query[listed[:, 1]]).all())
    return len(listed) > 0 and not graded and not within


def keys_of_votes(judgments: Judgments, keys: Keys) -> Keys:
    """A number for every listed pair and then for every tie, from those of the rows."""
    found = []
    for listed, weight, margin, side in _votes(judgments):
        one, other = (
            splitmix64(keys[rows] + np.uint64(side * k)) for k, rows in enumerate(listed.T)
        )
        own = splitmix64(one + other) ^ weight.view(np.uint64)
        found.append(splitmix64(splitmix64(own) ^ (margin + 0.0).view(np.uint64)))
    return np.concatenate(found)


def with_votes(judgments: Judgments, times: Array) -> Judgments:
    """The judgments with listed pairs, then ties, repeated `times` times by their weights."""
    (pairs, weight, margin, _), (ties, tie_weight, _, _) = _votes(judgments)
    one, other = np.split(times.astype(np.float64), [len(pairs)])
    changes: dict[str, Any] = {}
    if judgments.pairs is not None:
        changes |= {"pairs": pairs[one > 0], "pair_weight": (weight * one)[one > 0]}
    if judgments.pair_margin is not None:
        changes["pair_margin"] = margin[one > 0]
    if judgments.ties is not None:
        changes |= {"ties": ties[other > 0], "tie_weight": (tie_weight * other)[other > 0]}
    return judgments._with(**changes)


def _votes(judgments: Judgments) -> list[tuple[Integers, Floats, Floats, int]]:
    """Rows, weights and margins of the listed pairs and of the ties, whose sides are equal."""
    found = []
    for listed, weight, margin, side in (
        (judgments.pairs, judgments.pair_weight, judgments.pair_margin, 1),
        (judgments.ties, judgments.tie_weight, None, 0),
    ):
        rows = np.zeros((0, 2), np.int64) if listed is None else listed
        ones = np.ones(len(rows))
        found.append(
            (rows, ones if weight is None else weight, ones if margin is None else margin, side)
        )
    return found


def _stacked(parts: Sequence[Judgments]) -> Judgments:
    """One set of judgments after the other; equal names of queries are different queries."""
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
