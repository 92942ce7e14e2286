"""Parts and bootstrap samples of a training set that keep queries whole.

The smallest thing that is held out or drawn is a *group*: a query, queries (or rows) that listed
pairs join, or a row where all rows are one list. Groups are put in an order that follows from
their contents and the seed alone, so that neither the order of the rows nor the names of the
queries decide which groups are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from precede.boosting.folds import joined
from precede.engine.arrays import Floats, Integers, Keys
from precede.engine.mixing import scattered
from precede.engine.table import Table
from precede.engine.training import Training
from precede.judgments import Judgments

__all__ = ["Part", "Sample", "TooFewError", "deal"]

# Listed pairs that join rows, or queries, into fewer groups than this are cut.
FEWEST = 5


class TooFewError(ValueError):
    """There are too few rows to learn from some of them only."""


@dataclass(frozen=True)
class Part:
    """Rows to learn from, and rows held out with their judgments and scores to start from."""

    training: Training
    table: Table
    judgments: Judgments
    keys: Keys
    init_score: Floats | None


class Sample:
    """The rows of a training set in groups.

    Parameters
    ----------
    training, judgments : the rows as they are learnt from, prepared and as given
    balance, labelled : as for `Training.prepare`
    seed : int

    Attributes
    ----------
    one_list : whether every row is a group of its own
    n_groups : number of groups; rows that nothing is learnt from are in none
    """

    def __init__(
        self, training: Training, judgments: Judgments, *, balance: str, labelled: bool, seed: int
    ):
        self._training, self._judgments = training, judgments
        self._balance, self._labelled = balance, labelled
        order = training.arrangement.order
        self._row = np.full(len(judgments), -1)
        self._row[order] = np.arange(order.size)
        rows = np.sort(order)
        self._row_keys = self._keys_of_rows(seed)
        group = _groups(judgments)
        self.one_list = group is None
        number = rows if group is None else group[rows]
        kinds, member = np.unique(number, return_inverse=True)
        keys = np.zeros(kinds.size, np.uint64)
        np.add.at(keys, member, self._row_keys[rows])
        self._add_pairs(keys, rows, member)
        self._rows, self._member, self._keys = rows, member, scattered(keys)
        self.n_groups = kinds.size

    def _keys_of_rows(self, seed: int) -> Keys:
        """A number for every row, from its codes, weight, grade, label and start, and the seed."""
        training, rows = self._training, self._training.arrangement
        keys = training.table.keys(rows.weight, training.workers)
        keys ^= scattered(np.full(1, seed, np.uint64))
        for column in (rows.grade, rows.label, training.init_score):
            if column is not None:
                keys = scattered(keys ^ np.nan_to_num(column + 0.0, nan=0.5).view(np.uint64))
        found = np.zeros(len(self._judgments), np.uint64)
        found[rows.order] = scattered(keys)
        return found

    def _add_pairs(self, keys: Keys, rows: Integers, member: Integers) -> None:
        """Let listed pairs into the keys of their groups: the same rows may be paired otherwise."""
        pairs = self._judgments.pairs
        if pairs is None or self.one_list:
            return
        group = np.full(len(self._judgments), -1)
        group[rows] = member
        pairs = pairs[group[pairs[:, 0]] >= 0]
        winner, loser = self._row_keys[pairs].T
        np.add.at(keys, group[pairs[:, 0]], scattered(winner * np.uint64(3) + loser))

    def parts(self, count: int, most: int) -> list[Part]:
        """Hold out one of `count` parts of the groups at a time, `most` times.

        A single list is divided grade by grade, so that all parts have the same share of each.
        """
        grade = self._judgments.grade if self.one_list else None
        strata = None if grade is None else grade[self._rows]
        part = deal(self._keys, count, strata)[self._member]
        return [
            self._part(self._rows[part != number], self._rows[part == number])
            for number in range(most)
        ]

    def _part(self, learn: Integers, held: Integers) -> Part:
        start = self._training.init_score
        rows = self._row[held]
        return Part(
            self._training_on(learn, self._judgments[learn]),
            self._training.table.block(rows),
            self._judgments[held],
            self._row_keys[held],
            None if start is None else start[rows],
        )

    def bootstrap(self, draw: int) -> Training:
        """Draw as many groups as there are, with replacement; `draw` is the seed.

        Copies of a query are queries of their own, copies of a row in one list are rows of it.
        """
        generator = np.random.RandomState(draw)
        copies = np.empty(self.n_groups, np.int64)
        drawn = generator.randint(self.n_groups, size=self.n_groups)
        copies[np.argsort(self._keys, kind="stable")] = np.bincount(drawn, minlength=self.n_groups)
        times = copies[self._member]
        if self.one_list:
            rows = np.repeat(self._rows, times)
            return self._training_on(rows, self._judgments[rows])
        copied = [self._rows[times > number] for number in range(times.max())]
        stacked = _stacked([self._judgments[rows] for rows in copied])
        return self._training_on(np.concatenate(copied), stacked)

    def _training_on(self, rows: Integers, judgments: Judgments) -> Training:
        """Some of the rows, with the bins of all of them."""
        arrangement = judgments.arrange(self._balance, labelled=self._labelled)
        if arrangement.total <= 0 and not (self._labelled and arrangement.n_arranged):
            raise TooFewError(
                "too few rows can be compared to leave some of them out (for bags, or to choose by "
                "'auto'); give more data"
            )
        full, items = self._training, self._row[rows[arrangement.order]]
        start = None if full.init_score is None else full.init_score[items]
        return Training.ordered(
            full.table.block(items), arrangement, full.workers, start, by_value=full.by_value
        )


def deal(keys: Keys, count: int, strata: Floats | None = None) -> Integers:
    """Deal out things by their keys to `count` parts of equal size, each stratum as well.

    >>> deal(np.array([7, 3, 9, 1], np.uint64), 2).tolist()
    [0, 1, 1, 0]
    """
    order = np.argsort(keys, kind="stable") if strata is None else np.lexsort((keys, strata))
    part = np.empty(keys.size, np.int64)
    if strata is not None:  # of every `count` neighbours each goes to another part, at random
        order = order[np.lexsort((scattered(keys[order]), np.arange(order.size) // count))]
    part[order] = np.arange(order.size) % count
    return part


def _groups(judgments: Judgments) -> Integers | None:
    """Number the rows by what stays together; None where every row is on its own."""
    found = joined(judgments, FEWEST)
    if found is None and judgments.qid is not None:
        query = judgments._query()
        found = query if query.max(initial=0) > 0 else None
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
