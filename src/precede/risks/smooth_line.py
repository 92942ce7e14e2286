"""Steps along a two-valued ranker for an analytic loss and a price ``u^p``, on few points.

Inside a short interval of scores a smooth function is its interpolation at a few Chebyshev
points, so a million items that share a grade and a value of the ranker are replaced by some
hundred points with (signed) weights. The line search then looks at points only: after O(n) to
find the weights, a step costs no more for a million rows than for a thousand.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from precede.engine.arrays import Array, Bytes, Floats
from precede.losses import Smooth
from precede.risks.base import State, zero_between
from precede.risks.sweeps import chebyshev, finer

if TYPE_CHECKING:
    from precede.risks.base import BoundLossRisk

__all__ = ["SmoothLine", "least_on_points"]


BLOCK = 1 << 15  # rows whose moments are added in order, whatever the number of threads
MOST_POINTS = 6000  # beyond, the points of the losers cost more than they save
ROWS_FOR_EACH_LEVEL = 5000  # with fewer the items themselves are as quick
DOUBLINGS = 24


@dataclass(frozen=True)
class _Grid:
    """Cells of equal width from an origin, with Chebyshev points in each."""

    origin: float
    width: float
    cells: int
    nodes: int

    def points(self) -> Floats:
        """Scores of the points, cell by cell."""
        at, _ = chebyshev(self.nodes)
        center = self.origin + (np.arange(self.cells) + 0.5) * self.width
        return center[:, None] + self.width / 2 * at[None, :]


class SmoothLine:
    """The slope of the risk along a ranker of values 0 and 1, as a function of the step.

    For one query with few grades and many rows; ask `fits` first. Time O(n) to make, and
    O(points²) for a step. The points stand for the rows to about ten digits.
    """

    def __init__(self, risk: BoundLossRisk, state: State, values: Bytes):
        self._risk, self._values = risk, values
        layout, cost, form = risk.layout, risk.price, risk.loss.form
        assert cost.power is not None
        assert form is not None
        assert form.kind == "smooth"
        scores = state.scores - layout.grade if risk.loss.gap else state.scores
        origin, end = float(scores.min()), float(scores.max())
        coarse = _halved(form)
        cells = int((end - origin) / coarse.width) + 1
        # u^p varies p times as fast as u.
        self._parts = max(1, int(np.ceil(cost.power * coarse.width / 2)))
        self._winners = _Grid(origin, coarse.width, cells, coarse.nodes)
        fine = coarse.width / self._parts
        self._losers = _Grid(origin, fine, cells * self._parts, coarse.nodes)
        self._power = cost.power
        share = layout.weight / layout.weight.max()
        outer_share = layout.loser_weight / layout.loser_weight.max()
        if risk.mean:
            log_share = (1.0 - cost.power) * risk.log_divisors()
            outer_share = outer_share * np.exp(log_share - log_share[layout.level_start[-2] - 1])
        levels = list(pairwise(layout.level_start))
        # Weights of the points that stand for all grades above each level but the top.
        self._above = [self._weights(scores, share, self._winners, run) for run in levels[1:]]
        for level in range(len(self._above) - 2, -1, -1):
            self._above[level] = self._above[level] + self._above[level + 1]
        self._below = [self._weights(scores, outer_share, self._losers, run) for run in levels[:-1]]
        self._still = self._kernels(0.0)[0]

    @staticmethod
    def fits(risk: BoundLossRisk, state: State) -> bool:
        """Whether the line of such a risk is to be had from points, and worth it."""
        layout, form = risk.layout, risk.loss.form
        if form is None or form.kind != "smooth":
            return False
        if risk.price.power is None or layout.any_listed:
            return False
        levels = layout.level_start.size - 1
        if risk.queries != 1 or layout.n_graded < ROWS_FOR_EACH_LEVEL * levels:
            return False
        span = float(np.ptp(state.scores)) + (float(np.ptp(layout.grade)) if risk.loss.gap else 0.0)
        half = _halved(form)
        parts = max(1.0, risk.price.power * half.width / 2)
        return (span / half.width + 1) * half.nodes * parts <= MOST_POINTS

    def least(self) -> float | None:
        """Step at which the risk is least, to about nine digits; None if it is at infinity."""
        at_zero = self._slope(0.0)
        if at_zero == 0:
            return 0.0
        reach = -0.25 if at_zero > 0 else 0.25
        for _ in range(DOUBLINGS):
            here = self._slope(reach)
            if abs(here) <= 1e-14 * abs(at_zero):  # no more than rounding is left to gain
                return None
            if here * at_zero < 0:
                low, high = sorted((0.0, reach))
                return zero_between(self._slope, low, high, 1e-11)
            reach *= 2
        return None

    def _slope(self, step: float) -> float:
        """Derivative of the risk by the step, up to a positive factor."""
        (up, up_slope), (down, down_slope) = self._kernels(step), self._kernels(-step)
        total, loss_sums, slopes = 0.0, [], []
        for above in self._above:
            one, zero = above[1], above[0]
            # Losers where the ranker is 0: winners with 1 move away from them; and the reverse.
            loss_sums.append((_meet(self._still, zero) + _meet(up, one),
                         _meet(self._still, one) + _meet(down, zero)))  # fmt: skip
            slopes.append((_meet(up_slope, one), -_meet(down_slope, zero)))
        most = max(float(each.max()) for pair in loss_sums for each in pair)
        for pair, slope, below in zip(loss_sums, slopes, self._below, strict=True):
            for side in (0, 1):
                price_slope = np.maximum(pair[side] / most, 0.0) ** (self._power - 1)
                total += float((below[side] * price_slope * slope[side]).sum())
        return total

    def _kernels(self, shift: float) -> tuple[Array, Array]:
        """Loss and its slope between cells, for margins enlarged by a shift.

        Entry ``[c - parts·c' + offset, i, j]`` is for point j of the losers' cell c and point i
        of the winners' cell c'.
        """
        winners, losers = self._winners, self._losers
        at, _ = chebyshev(winners.nodes)
        first = -self._parts * (winners.cells - 1)
        apart = (np.arange(first, losers.cells) + 0.5) * losers.width - winners.width / 2
        lose = apart[:, None] + losers.width / 2 * at[None, :]
        margin = winners.width / 2 * at[None, :, None] - lose[:, None, :] + shift
        loss = self._risk.loss
        return (
            _windows(loss.value(margin), winners.cells, losers.cells, self._parts),
            _windows(loss.slope(margin), winners.cells, losers.cells, self._parts),
        )

    def _weights(self, scores: Floats, mass: Floats, grid: _Grid, run: tuple[int, int]) -> Floats:
        """Weights of the points that stand for a level: (ranker 0 and 1, cells, nodes)."""
        first, last = run
        blocks = -(-(last - first) // BLOCK)
        moments = np.zeros((blocks, 2, grid.cells, grid.nodes))
        self._risk.context.run(
            _moments, blocks, scores[first:last], mass[first:last], self._values[first:last],
            grid.origin, grid.width, moments, small=blocks == 1,
        )  # fmt: skip
        _, to_coefficients = chebyshev(grid.nodes)
        return moments.sum(axis=0) @ to_coefficients


def least_on_points(risk: BoundLossRisk, state: State, values: Array) -> float | None:
    """Step along a ranker of values 0 and 1 at which the risk is least, found on points.

    None where points do not fit or find nothing: the line must then be searched on the rows.
    """
    if values.dtype != np.uint8 or not SmoothLine.fits(risk, state):
        return None
    sign = 1.0 if risk.edge(state, values) > 0 else -1.0
    return None if risk.falls_for_ever(sign * values) else SmoothLine(risk, state, values).least()


def _halved(form: Smooth) -> Smooth:
    """Cells of half the width declared; fewer cells mean fewer points, more mean fewer nodes."""
    return finer(form, parts=2)


def _windows(values: Array, winners: int, losers: int, parts: int) -> Array:
    """View by (losers' cell, winners' cell, i, j) of entries that depend on how far apart."""
    step = values.strides[0]
    return np.lib.stride_tricks.as_strided(
        values[parts * (winners - 1) :],
        (losers, winners, *values.shape[1:]),
        (step, -parts * step, *values.strides[1:]),
        writeable=False,
    )


def _meet(kernel: Array, weights: Floats) -> Floats:
    """Sum over the winners' points, for every point of the losers."""
    return np.einsum("lwij,wi->lj", kernel, weights)


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _moments(
    begin: int, end: int, scores: Floats, mass: Floats, values: Bytes, origin: float, width: float,
    moments: Floats,
) -> None:  # fmt: skip
    """Sums of mass times Chebyshev polynomials, by block, value of the ranker and cell."""
    nodes = moments.shape[3]
    cells = moments.shape[2]
    for number in range(begin, end):
        for item in range(number * BLOCK, min((number + 1) * BLOCK, scores.size)):
            position = (scores[item] - origin) / width
            cell = min(int(position), cells - 1)
            x = 2.0 * (position - cell) - 1.0
            row = moments[number, values[item], cell]
            weight = mass[item]
            before, now = 1.0, x
            row[0] += weight
            for a in range(1, nodes):
                row[a] += weight * now
                before, now = now, 2.0 * x * now - before
