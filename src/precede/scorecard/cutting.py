"""Where to cut a list off, by what mistakes cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from precede.engine.arrays import Array, Floats, Integers
from precede.engine.frames import pandas_frame
from precede.engine.parameters import in_range, upper_tail, whole_number
from precede.judgments import check_column
from precede.scorecard.calibration import is_good

__all__ = ["CutOffs", "cut_offs"]

CELLS = 1 << 22  # of resamples held at a time


@dataclass(frozen=True, eq=False)
class CutOffs:
    """What every cut-off costs, and the cheapest.

    Rows with at least `cut` points are accepted. Costs are means over all rows. Intervals are
    percentiles of bootstrap samples, in each of which the cheapest cut-off is chosen again for
    `cut_interval`.

    Attributes
    ----------
    cut, cost : the cheapest cut-off, and its cost
    cut_interval, cost_interval : intervals of both
    accept_all, reject_all : what it costs to accept or to reject everyone
    level : of the intervals
    cuts, costs, lower, upper, accepted, bad_rate : for every cut-off its cost, the interval of the
        cost, the share of rows accepted, and the share of bad rows among them
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
        """A pandas data frame with a row for each cut-off."""
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
    """Find the cut-off with the lowest cost, with intervals.

    The cost of a cut-off is ``(cost_of_bad · bad rows accepted + cost_of_good · good rows
    rejected) / rows``. Use rows that neither the model nor the scorecard was fitted on: the lowest
    of many costs is a little too low even so. O(n log n + resamples · different points).

    Parameters
    ----------
    points : points, or any score that is higher for better rows
    y : labels of two classes
    cost_of_bad, cost_of_good : of a bad row accepted, and of a good row rejected
    good : the label of good rows; required
    level, resamples, random_state : of the bootstrap

    Examples
    --------
    >>> found = cut_offs([1, 2, 3, 4], [0, 0, 1, 1], good=1, cost_of_bad=5, cost_of_good=1)
    >>> found.cut, found.cost, found.accept_all
    (3.0, 0.0, 2.5)
    """
    goods = is_good(y, good)
    x = check_column(points, "points", goods.size)
    for name, value in (("cost_of_bad", cost_of_bad), ("cost_of_good", cost_of_good)):
        in_range(name, value, 0, np.finfo(float).max)
    tail = upper_tail(level)
    whole_number("resamples", resamples, least=1)
    values, row = np.unique(x, return_inverse=True)
    counts = np.stack([np.bincount(row[~goods], minlength=values.size),
                       np.bincount(row[goods], minlength=values.size)])  # fmt: skip
    price = float(cost_of_bad), float(cost_of_good)
    cuts = np.append(values, np.nextafter(values[-1], np.inf))
    costs = _costs(counts, price)
    best = int(np.argmin(costs))
    drawn, chosen = _bootstrap(counts, price, resamples, check_random_state(random_state))
    ends = [tail, 1 - tail]
    left = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1]
    left = np.append(left, [[0], [0]], axis=1)
    accepted = left.sum(axis=0)
    low, high = np.quantile(cuts[chosen], ends, method="inverted_cdf")
    lower, upper = np.quantile(drawn, ends, axis=0)
    return CutOffs(
        float(cuts[best]), float(costs[best]), (float(low), float(high)),
        (float(lower[best]), float(upper[best])), float(costs[0]), float(costs[-1]), level,
        cuts, costs, lower, upper, accepted / x.size,
        np.divide(left[0], accepted, out=np.zeros(cuts.size), where=accepted > 0),
    )  # fmt: skip


def _costs(counts: Integers, price: tuple[float, float]) -> Array:
    """Cost of every cut-off, the last of which rejects all; of one sample or of several."""
    bad, good = counts[..., 0, :], counts[..., 1, :]
    nothing = np.zeros((*bad.shape[:-1], 1), np.int64)
    accepted = np.concatenate([np.cumsum(bad[..., ::-1], axis=-1)[..., ::-1], nothing], axis=-1)
    rejected = np.concatenate([nothing, np.cumsum(good, axis=-1)], axis=-1)
    rows = counts.sum(axis=(-2, -1))[..., None]
    return (price[0] * accepted + price[1] * rejected) / rows


def _bootstrap(
    counts: Integers, price: tuple[float, float], resamples: int, random: np.random.RandomState
) -> tuple[Floats, Integers]:
    """Costs of all cut-offs in every resample, and the cheapest of each."""
    rows = int(counts.sum())
    share = counts.ravel() / rows
    drawn = []
    step = max(1, CELLS // share.size)
    for first in range(0, resamples, step):
        size = min(step, resamples - first)
        drawn.append(_costs(random.multinomial(rows, share, size).reshape(size, 2, -1), price))
    costs = np.concatenate(drawn)
    return costs, np.argmin(costs, axis=1)
