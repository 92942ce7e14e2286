"""Cut-offs that minimize the cost of wrong decisions, and changes of order by rounding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.utils import check_random_state

from precede.engine.arrays import Floats, Integers, Json, RandomState, VectorLike
from precede.engine.parameters import check_integer, check_range, upper_tail
from precede.judgments import check_column, check_labels
from precede.metrics.ranked import weigh_pairs
from precede.results import Result
from precede.scorecard.monitoring import is_good

MAX_RESAMPLED_COUNTS = 1 << 22  # in memory at a time


@dataclass(frozen=True, eq=False)
class CutOffs(Result):
    """Costs of all cut-offs, and the cut-off with the lowest cost.

    Rows with at least `cut` points are accepted. Costs are means over all rows. Intervals are
    bootstrap percentile intervals; for `cut_interval` the best cut-off of each sample is found.

    Attributes
    ----------
    cut, cost : best cut-off and its cost
    cut_interval, cost_interval : confidence intervals of both
    accept_all, reject_all : cost of accepting or rejecting all rows
    level : confidence level
    cuts, costs, lower, upper : all cut-offs, their costs and the confidence intervals of the costs
    accepted, bad_rate : share of rows accepted by each cut-off, and of bad rows among them
    """

    cut: float
    cost: float
    cut_interval: tuple[float, float]
    cost_interval: tuple[float, float]
    accept_all: float
    reject_all: float
    level: float
    cuts: Floats
    costs: Floats
    lower: Floats
    upper: Floats
    accepted: Floats
    bad_rate: Floats

    def rows(self) -> list[Json]:
        """Return a row for each cut-off."""
        columns = {
            "cut": self.cuts, "cost": self.costs, "lower": self.lower, "upper": self.upper,
            "accepted": self.accepted, "bad_rate": self.bad_rate,
        }  # fmt: skip
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def __str__(self) -> str:
        low, high = self.cut_interval
        return (
            f"accept from {self.cut:g} points ({self.level:.0%} interval {low:g} to {high:g}): "
            f"cost {self.cost:.4g} per row ({self.cost_interval[0]:.4g} to "
            f"{self.cost_interval[1]:.4g}); accepting all costs {self.accept_all:.4g}, rejecting "
            f"all {self.reject_all:.4g}"
        )


def cut_offs(
    points: VectorLike,
    y: VectorLike,
    *,
    cost_of_bad: float,
    cost_of_good: float,
    good: object = None,
    level: float = 0.95,
    resamples: int = 1000,
    random_state: RandomState = 0,
) -> CutOffs:
    """Find the cut-off with the lowest cost, with bootstrap confidence intervals.

    The cost of a cut-off is ``(cost_of_bad · bad rows accepted + cost_of_good · good rows
    rejected) / rows``. Use rows that neither the model nor the scorecard was fitted on; even then
    the minimum of many costs is slightly optimistic. O(n log n + resamples · distinct points).

    Parameters
    ----------
    points : points, or any score that is higher for better rows
    y : labels of two classes
    cost_of_bad, cost_of_good : cost of an accepted bad row and of a rejected good row
    good : label of the good rows; required
    level : confidence level
    resamples, random_state : number of bootstrap samples, and seed

    Examples
    --------
    >>> found = cut_offs([1, 2, 3, 4], [0, 0, 1, 1], good=1, cost_of_bad=5, cost_of_good=1)
    >>> found.cut, found.cost, found.accept_all
    (3.0, 0.0, 2.5)
    """
    goods = is_good(y, good)
    x = check_column(points, "points", goods.size)
    for name, value in (("cost_of_bad", cost_of_bad), ("cost_of_good", cost_of_good)):
        check_range(name, value, 0, np.finfo(float).max)
    tail = upper_tail(level)
    check_integer("resamples", resamples, least=1)
    values, position = np.unique(x, return_inverse=True)
    counts = np.stack([np.bincount(position[~goods], minlength=values.size),
                       np.bincount(position[goods], minlength=values.size)])  # fmt: skip
    unit_costs = float(cost_of_bad), float(cost_of_good)
    cuts = np.append(values, np.nextafter(values[-1], np.inf))
    costs = _costs(counts, unit_costs)
    best = int(np.argmin(costs))
    random = check_random_state(random_state)
    sampled_costs, sampled_best = _bootstrap(counts, unit_costs, resamples, random)
    tails = [tail, 1 - tail]
    accepted_counts = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1]
    accepted_counts = np.append(accepted_counts, [[0], [0]], axis=1)
    accepted = accepted_counts.sum(axis=0)
    low, high = np.quantile(cuts[sampled_best], tails, method="inverted_cdf")
    lower, upper = np.quantile(sampled_costs, tails, axis=0)
    return CutOffs(
        float(cuts[best]), float(costs[best]), (float(low), float(high)),
        (float(lower[best]), float(upper[best])), float(costs[0]), float(costs[-1]), level,
        cuts, costs, lower, upper, accepted / x.size,
        np.divide(accepted_counts[0], accepted, out=np.zeros(cuts.size), where=accepted > 0),
    )  # fmt: skip


def _costs(counts: Integers, unit_costs: tuple[float, float]) -> Floats:
    """Return the cost of each cut-off, the last of which rejects all, for one or more samples.

    `counts` has shape (..., 2, values): bad and good rows with each number of points.
    """
    bad, good = counts[..., 0, :], counts[..., 1, :]
    zero = np.zeros((*bad.shape[:-1], 1), np.int64)
    bad_accepted = np.concatenate([np.cumsum(bad[..., ::-1], axis=-1)[..., ::-1], zero], axis=-1)
    good_rejected = np.concatenate([zero, np.cumsum(good, axis=-1)], axis=-1)
    rows = counts.sum(axis=(-2, -1))[..., None]
    return (unit_costs[0] * bad_accepted + unit_costs[1] * good_rejected) / rows


def _bootstrap(
    counts: Integers, unit_costs: tuple[float, float], resamples: int, random: np.random.RandomState
) -> tuple[Floats, Integers]:
    """Return the costs of all cut-offs in each bootstrap sample, and the best cut-off of each."""
    rows = int(counts.sum())
    probability = counts.ravel() / rows
    batches = []
    step = max(1, MAX_RESAMPLED_COUNTS // probability.size)
    for first in range(0, resamples, step):
        size = min(step, resamples - first)
        sampled = random.multinomial(rows, probability, size).reshape(size, 2, -1)
        batches.append(_costs(sampled, unit_costs))
    costs = np.concatenate(batches)
    return costs, np.argmin(costs, axis=1)


# -- changes of order between two scores: pairs reversed, tied and split -------------------------


@dataclass(frozen=True)
class OrderChanges(Result):
    """Number of pairs of rows whose order differs between two scores.

    Attributes
    ----------
    pairs : number of pairs (with different labels, if labels were given)
    reversed : pairs in opposite orders
    tied : ordered pairs that became tied
    split : tied pairs that became ordered
    """

    pairs: int
    reversed: int
    tied: int
    split: int

    @property
    def changed(self) -> int:
        """Number of pairs whose order changed in any way."""
        return self.reversed + self.tied + self.split

    def __str__(self) -> str:
        share = self.changed / self.pairs if self.pairs else 0.0
        return (
            f"{self.changed:,} of {self.pairs:,} pairs ({share:.2%}) change order: "
            f"{self.reversed:,} reversed, {self.tied:,} tied, {self.split:,} split"
        )


def order_changes(
    before: VectorLike, after: VectorLike, y: VectorLike | None = None
) -> OrderChanges:
    """Count the pairs of rows whose order differs between two scores, exactly.

    With labels `y` only pairs with different labels are counted. O(n log n) per label.

    Examples
    --------
    >>> order_changes([1.4, 1.3, 0.2, 0.2], [1, 1, 0, 1])
    OrderChanges(pairs=6, reversed=0, tied=3, split=1)
    """
    old = check_column(before, "before", infinite=True, empty=True)
    new = check_column(after, "after", old.size, infinite=True, empty=True)
    total = _changes(old, new)
    if y is not None:
        labels = check_labels(y, "y", old.size)
        for label in np.unique(labels):
            total = total - _changes(old[labels == label], new[labels == label])
    return OrderChanges(*map(int, total))


def _changes(old: Floats, new: Floats) -> Integers:
    """Return the number of all pairs, and of reversed, tied and split pairs."""
    old_rank, new_rank = (np.unique(each, return_inverse=True)[1] for each in (old, new))
    both = old_rank * (new_rank.max(initial=0) + 1) + new_rank
    pairs = old.size * (old.size - 1) // 2
    ties = _count_ties(old_rank)
    one_query, ones = np.array([0, old.size]), np.ones(old.size)
    kept, reversed_ = weigh_pairs(new_rank.astype(np.float64), one_query, old_rank, ones)
    tied = pairs - ties - int(kept[0]) - int(reversed_[0])
    return np.array([pairs, int(reversed_[0]), tied, ties - _count_ties(both)])


def _count_ties(values: Integers) -> int:
    """Return the number of pairs of equal values."""
    _, counts = np.unique(values, return_counts=True)
    return int((counts * (counts - 1) // 2).sum())
