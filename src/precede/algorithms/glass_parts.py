"""Parts of the rows of a fit: held-out parts, blocks of them, bootstrap samples.

Queries stay whole where there are enough of them. What is drawn depends on the order of the
queries and of the rows in the arrangement alone, and not on the machines that hold them: each has
whole queries, and all number them alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from precede.engine.arrangement import Arrangement, joined_totals, totals_of_queries
from precede.engine.arrays import Floats, Integers
from precede.engine.exact import gathered, sum_of
from precede.engine.training import Training
from precede.judgments import Judgments
from precede.risks.score_risk import arranged_judgments

__all__ = ["Share"]

# With fewer queries than this, rows are held out and drawn instead of queries.
FEWEST_QUERIES = 10
# With fewer rows than this, all parts of the rows take turns in being held out.
MANY_ROWS = 50_000


@dataclass(frozen=True)
class Share:
    """Rows to fit, or some of them.

    Attributes
    ----------
    training : the rows that this machine holds
    balance : of the risk
    names : number of each query of the arrangement, rising; the same on all machines
    """

    training: Training
    balance: str
    names: Integers

    @classmethod
    def whole(cls, training: Training, balance: str, judgments: Judgments | None = None) -> Share:
        """All rows; of a cluster, `judgments` have the numbers of the queries."""
        arrangement = training.arrangement
        names = np.arange(arrangement.query_start.size - 1)
        if not training.workers.alone and judgments is not None and judgments.qid is not None:
            first = arrangement.level_start[arrangement.query_start[:-1]]
            names = np.asarray(judgments.qid)[arrangement.order[first]].astype(np.int64)
        return cls(training, balance, names)

    def groups(self) -> tuple[Integers, int]:
        """Number of the query of each row, or of the row where there are few queries.

        And how many such numbers there are. Rows that only listed pairs know are one each.
        """
        arrangement = self.training.arrangement
        first = arrangement.level_start[arrangement.query_start]
        sizes, graded = np.diff(first), int(first[-1])
        names, all_sizes = _in_order(gathered(lambda: (self.names, sizes), self.training.workers))
        here = np.searchsorted(names, self.names)
        total = names.size
        group = np.repeat(here, sizes)
        if total < FEWEST_QUERIES:
            start = np.concatenate([[0], np.cumsum(all_sizes)])
            group = np.repeat(start[here] - first[:-1], sizes) + np.arange(graded)
            total = int(start[-1])
        alone = arrangement.n_arranged - graded
        return np.concatenate([group, np.arange(alone) + total]).astype(np.int64), total + alone

    def divided(self, share: float, seed: int) -> list[tuple[Share, Share]]:
        """Rows to fit and rows to hold out; with few rows every part is held out in turn."""
        if share == 0:
            return []
        group, count = self.groups()
        size = max(1, round(share * count))
        drawn = np.random.default_rng(seed).permutation(count) // size
        rows = sum_of(lambda: self.training.arrangement.n_arranged, self.training.workers)
        parts = []
        for turn in range(count // size if rows < MANY_ROWS else 1):
            held = drawn[group] == turn
            one, other = (self.part(np.flatnonzero(side)) for side in (~held, held))
            if one is not None and other is not None:
                parts.append((one, other))
        return parts

    def part(self, rows: Integers, weight: Floats | None = None) -> Share | None:
        """Some rows, perhaps with other weights; None if they hold no pair."""
        training = self.training
        arrangement = self._arranged(rows, weight)
        if arrangement.total <= 0:
            return None
        query = np.repeat(np.arange(self.names.size), self._sizes())
        first = arrangement.level_start[arrangement.query_start[:-1]]
        names = self.names[query[rows[arrangement.order[first]]]]
        chosen, start = rows[arrangement.order], training.init_score
        made = Training.ordered(
            training.table.block(chosen), arrangement, training.workers,
            None if start is None else start[chosen], by_value=training.by_value,
        )  # fmt: skip
        return Share(made, self.balance, names)

    def resampled(self, generator: np.random.Generator) -> tuple[Share, Share | None]:
        """A bootstrap sample of the queries, or of the rows: weights drawn from Poisson's law.

        And the rows that are not in it; None if they hold no pair.
        """
        weight = self.training.arrangement.weight
        group, count = self.groups()
        while True:  # a sample without any pair is possible, but rare
            times = generator.poisson(1.0, count)[group]
            found = self.part(np.flatnonzero(times > 0), weight * times)
            if found is not None:
                return found, self.part(np.flatnonzero(times == 0))

    def blocks(self, count: int) -> list[tuple[Integers, Arrangement]]:
        """The rows divided into blocks: rows, and the arrangement of each block that has a pair."""
        group, _ = self.groups()
        found = []
        for block in range(count):
            rows = np.flatnonzero(group % count == block)
            arrangement = self._arranged(rows)
            if arrangement.total > 0:
                found.append((rows[arrangement.order], arrangement))
        return found

    def _sizes(self) -> Integers:
        arrangement = self.training.arrangement
        return np.diff(arrangement.level_start[arrangement.query_start])

    def _arranged(self, items: Integers, weight: Floats | None = None) -> Arrangement:
        """The arrangement of some rows, with the totals of all machines."""
        judgments = arranged_judgments(self.training.arrangement)
        if weight is not None:
            judgments = judgments._with(weight=weight)
        judgments = judgments[items]
        arrangement = judgments.arrange(self.balance)
        workers = self.training.workers
        if workers.alone:
            return arrangement
        parts = gathered(lambda: (totals_of_queries(judgments), items.size), workers)
        total, pair_count = joined_totals([each for each, _ in parts], self.balance)
        rows = sum(size for _, size in parts)
        return replace(arrangement, total=total, pair_count=pair_count, n_rows=rows)


def _in_order(parts: Sequence[tuple[Integers, Integers]]) -> tuple[Integers, Integers]:
    """Numbers of queries of all machines, rising, and the sizes of these queries."""
    names, sizes = (np.concatenate(each) for each in zip(*parts, strict=True))
    order = np.argsort(names, kind="stable")
    return names[order], sizes[order]
