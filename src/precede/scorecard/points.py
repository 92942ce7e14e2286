"""Cut-offs that minimize the cost of wrong decisions, and what rounding to points changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from precede.engine.arrays import Array, Floats, Integers
from precede.engine.compiling import njit
from precede.engine.frames import pandas_frame
from precede.engine.parameters import check_integer, check_range, upper_tail
from precede.judgments import check_column, check_labels
from precede.scorecard.monitoring import is_good

MAX_RESAMPLED_COUNTS = 1 << 22  # in memory at a time


@dataclass(frozen=True, eq=False)
class CutOffs:
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

    def to_frame(self) -> Any:
        """Return a pandas data frame with one row per cut-off."""
        return pandas_frame({
            "cut": self.cuts, "cost": self.costs, "lower": self.lower, "upper": self.upper,
            "accepted": self.accepted, "bad_rate": self.bad_rate,
        })  # fmt: skip

    def __str__(self) -> str:
        low, high = self.cut_interval
        return (
            f"accept from {self.cut:g} points ({self.level:.0%} interval {low:g} to {high:g}): "
            f"cost {self.cost:.4g} per row ({self.cost_interval[0]:.4g} to "
            f"{self.cost_interval[1]:.4g}); accepting all costs {self.accept_all:.4g}, rejecting "
            f"all {self.reject_all:.4g}"
        )


def cut_offs(
    points: Any,
    y: Any,
    *,
    cost_of_bad: float,
    cost_of_good: float,
    good: Any = None,
    level: float = 0.95,
    resamples: int = 1000,
    random_state: Any = 0,
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


def _costs(counts: Integers, unit_costs: tuple[float, float]) -> Array:
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


# -- Changes of order between two scores, counted in O(n log n): pairs reversed, tied and split --


@dataclass(frozen=True)
class OrderChanges:
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


def order_changes(before: Any, after: Any, y: Any = None) -> OrderChanges:
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
    order = np.lexsort((new, old))
    _, group = np.unique(old[order], return_inverse=True)
    _, rank = np.unique(new[order], return_inverse=True)
    size = int(rank.max(initial=0)) + 1
    counts = np.zeros(3, np.int64)
    _count(group.astype(np.int64), rank.astype(np.int64), np.zeros(size + 1, np.int64), counts)
    return np.concatenate([[old.size * (old.size - 1) // 2], counts])


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _count(group: Integers, rank: Integers, tree: Integers, counts: Integers) -> None:
    """Count reversed, tied and split pairs.

    Rows are sorted by the old score (equal ones have the same `group`), then by the new one, whose
    rank is `rank`. `tree` is a Fenwick tree of the ranks of the rows of lower groups.
    """
    first = 0
    while first < group.size:
        last = first
        while last < group.size and group[last] == group[first]:
            last += 1
        for row in range(first, last):
            at_most = 0  # rows of lower groups whose rank is at most that of this row
            k = rank[row] + 1
            while k > 0:
                at_most += tree[k]
                k -= k & -k
            below = 0
            k = rank[row]
            while k > 0:
                below += tree[k]
                k -= k & -k
            counts[0] += first - at_most
            counts[1] += at_most - below
        first_tied = first
        for row in range(first, last):  # rows of a group are sorted by rank
            if rank[row] != rank[first_tied]:
                first_tied = row
            counts[2] += first_tied - first
        for row in range(first, last):
            k = rank[row] + 1
            while k < tree.size:
                tree[k] += 1
                k += k & -k
        first = last
