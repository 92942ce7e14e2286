"""Line search along a two-valued weak ranker for an analytic loss and a price ``u^p``.

Within a cell of the score axis a smooth function is determined by its values at a few Chebyshev
points, so a million rows that share a grade and a value of the weak ranker are replaced by a few
hundred points with (signed) weights. After O(n) to compute the weights, a step of the search
evaluates only points: its cost does not depend on the number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from precede.engine.arrays import Array, Bytes, Floats
from precede.engine.compiling import njit
from precede.losses import Smooth
from precede.risks.base import State, find_root
from precede.risks.sweeps import chebyshev, refine_cells

if TYPE_CHECKING:
    from precede.risks.base import BoundLossRisk


CHUNK_ROWS = 1 << 15  # does not depend on the number of threads, so that sums do not either
MAX_POINTS = 6000  # with more points of the losers, searching the rows is faster
MIN_ROWS_PER_LEVEL = 5000  # with fewer, searching the rows is as fast
MAX_DOUBLINGS = 24


@dataclass(frozen=True)
class _Grid:
    """Cells of equal width from an origin, with Chebyshev points in each."""

    origin: float
    width: float
    cells: int
    nodes: int

    def points(self) -> Floats:
        """Return the scores of the points, by cell."""
        at, _ = chebyshev(self.nodes)
        center = self.origin + (np.arange(self.cells) + 0.5) * self.width
        return center[:, None] + self.width / 2 * at[None, :]


class ChebyshevLineSearch:
    """Slope of the risk along a weak ranker of values 0 and 1, as a function of the step.

    For one query with few grades and many rows; check `applies` first. O(n) time to build and
    O(points²) per step. The points reproduce the sums over rows to about ten digits.
    """

    def __init__(self, risk: BoundLossRisk, state: State, values: Bytes):
        self._risk, self._values = risk, values
        layout, cost, form = risk.layout, risk.price, risk.loss.form
        assert cost.power is not None
        assert form is not None
        assert form.kind == "smooth"
        scores = state.scores - layout.grade if risk.loss.gap else state.scores
        origin, end = float(scores.min()), float(scores.max())
        coarse = _halve_cells(form)
        cells = int((end - origin) / coarse.width) + 1
        # u^p varies p times as fast as u, so the losers need finer cells.
        self._refinement = max(1, int(np.ceil(cost.power * coarse.width / 2)))
        self._winners = _Grid(origin, coarse.width, cells, coarse.nodes)
        fine_width = coarse.width / self._refinement
        self._losers = _Grid(origin, fine_width, cells * self._refinement, coarse.nodes)
        self._power = cost.power
        weight = layout.weight / layout.weight.max()
        loser_weight = layout.loser_weight / layout.loser_weight.max()
        if risk.mean:
            log_factor = (1.0 - cost.power) * risk.log_divisors()
            loser_weight = loser_weight * np.exp(
                log_factor - log_factor[layout.level_start[-2] - 1]
            )
        levels = list(pairwise(layout.level_start))
        # Cumulated from the top: the winners of a level are all levels above it.
        self._winner_weights = [
            self._point_weights(scores, weight, self._winners, rows) for rows in levels[1:]
        ]
        for level in range(len(self._winner_weights) - 2, -1, -1):
            self._winner_weights[level] = (
                self._winner_weights[level] + self._winner_weights[level + 1]
            )
        self._loser_weights = [
            self._point_weights(scores, loser_weight, self._losers, rows) for rows in levels[:-1]
        ]
        self._unshifted = self._shifted_kernels(0.0)[0]

    @staticmethod
    def applies(risk: BoundLossRisk, state: State) -> bool:
        """Return whether the Chebyshev line search applies and is faster."""
        layout, form = risk.layout, risk.loss.form
        if form is None or form.kind != "smooth":
            return False
        if risk.price.power is None or layout.has_explicit_pairs:
            return False
        levels = layout.level_start.size - 1
        if risk.n_queries != 1 or layout.n_graded < MIN_ROWS_PER_LEVEL * levels:
            return False
        span = float(np.ptp(state.scores)) + (float(np.ptp(layout.grade)) if risk.loss.gap else 0.0)
        coarse = _halve_cells(form)
        refinement = max(1.0, risk.price.power * coarse.width / 2)
        return (span / coarse.width + 1) * coarse.nodes * refinement <= MAX_POINTS

    def minimize(self) -> float | None:
        """Return the step that minimizes the risk, to about nine digits; None if infinite."""
        at_zero = self._slope(0.0)
        if at_zero == 0:
            return 0.0
        step = -0.25 if at_zero > 0 else 0.25
        for _ in range(MAX_DOUBLINGS):
            slope = self._slope(step)
            if abs(slope) <= 1e-14 * abs(at_zero):  # only rounding errors are left
                return None
            if slope * at_zero < 0:
                low, high = sorted((0.0, step))
                return find_root(self._slope, low, high, 1e-11)
            step *= 2
        return None

    def _slope(self, step: float) -> float:
        """Return the derivative of the risk by the step, up to a positive factor."""
        (up, up_slope), (down, down_slope) = (
            self._shifted_kernels(step),
            self._shifted_kernels(-step),
        )
        total, loss_sums, slopes = 0.0, [], []
        for weights in self._winner_weights:
            ones, zeros = weights[1], weights[0]
            # For losers with value 0 the winners with value 1 move up; for losers with value 1
            # the winners with value 0 move down.
            loss_sums.append((_apply(self._unshifted, zeros) + _apply(up, ones),
                         _apply(self._unshifted, ones) + _apply(down, zeros)))  # fmt: skip
            slopes.append((_apply(up_slope, ones), -_apply(down_slope, zeros)))
        largest = max(float(sums.max()) for pair in loss_sums for sums in pair)
        for pair, slope, weights_below in zip(loss_sums, slopes, self._loser_weights, strict=True):
            for value in (0, 1):
                price_slope = np.maximum(pair[value] / largest, 0.0) ** (self._power - 1)
                total += float((weights_below[value] * price_slope * slope[value]).sum())
        return total

    def _shifted_kernels(self, shift: float) -> tuple[Array, Array]:
        """Return the loss and its slope between cells, for margins increased by `shift`.

        Entry ``[l, w, i, j]``: point i of the winners' cell w and point j of the losers' cell l.
        """
        winners, losers = self._winners, self._losers
        points, _ = chebyshev(winners.nodes)
        first_distance = -self._refinement * (winners.cells - 1)
        offset = (np.arange(first_distance, losers.cells) + 0.5) * losers.width - winners.width / 2
        loser_position = offset[:, None] + losers.width / 2 * points[None, :]
        margin = winners.width / 2 * points[None, :, None] - loser_position[:, None, :] + shift
        loss = self._risk.loss
        return (
            _toeplitz_view(loss.value(margin), winners.cells, losers.cells, self._refinement),
            _toeplitz_view(loss.slope(margin), winners.cells, losers.cells, self._refinement),
        )

    def _point_weights(
        self, scores: Floats, weight: Floats, grid: _Grid, rows: tuple[int, int]
    ) -> Floats:
        """Return the weights of the points of a level, of shape (ranker values, cells, nodes)."""
        first, last = rows
        n_chunks = -(-(last - first) // CHUNK_ROWS)
        moments = np.zeros((n_chunks, 2, grid.cells, grid.nodes))
        self._risk.context.run(
            _moments, n_chunks, scores[first:last], weight[first:last], self._values[first:last],
            grid.origin, grid.width, moments, small=n_chunks == 1,
        )  # fmt: skip
        _, to_coefficients = chebyshev(grid.nodes)
        return moments.sum(axis=0) @ to_coefficients


def chebyshev_line_search(risk: BoundLossRisk, state: State, values: Array) -> float | None:
    """Return the step along a weak ranker of values 0 and 1 that minimizes the risk.

    None where the method does not apply or finds no minimum; the rows must then be searched.
    """
    if values.dtype != np.uint8 or not ChebyshevLineSearch.applies(risk, state):
        return None
    sign = 1.0 if risk.edge(state, values) > 0 else -1.0
    if risk.has_infinite_minimizer(sign * values):
        return None
    return ChebyshevLineSearch(risk, state, values).minimize()


def _halve_cells(form: Smooth) -> Smooth:
    """Halve the cell width; fewer cells need fewer points, more cells fewer nodes each."""
    return refine_cells(form, parts=2)


def _toeplitz_view(values: Array, winner_cells: int, loser_cells: int, refinement: int) -> Array:
    """View entries that depend on the distance of two cells by (loser cell, winner cell, i, j).

    All pairs of cells at one distance share a matrix, as in a Toeplitz matrix.
    """
    step = values.strides[0]
    return np.lib.stride_tricks.as_strided(
        values[refinement * (winner_cells - 1) :],
        (loser_cells, winner_cells, *values.shape[1:]),
        (step, -refinement * step, *values.strides[1:]),
        writeable=False,
    )


def _apply(kernel: Array, weights: Floats) -> Floats:
    """Sum over the winners' points for every point of the losers."""
    return np.einsum("lwij,wi->lj", kernel, weights)


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _moments(
    begin: int, end: int, scores: Floats, weights: Floats, values: Bytes, origin: float,
    width: float, moments: Floats,
) -> None:  # fmt: skip
    """Sum weight times Chebyshev polynomials by chunk, value of the weak ranker and cell."""
    nodes = moments.shape[3]
    cells = moments.shape[2]
    for chunk in range(begin, end):
        for row in range(chunk * CHUNK_ROWS, min((chunk + 1) * CHUNK_ROWS, scores.size)):
            position = (scores[row] - origin) / width
            cell = min(int(position), cells - 1)
            x = 2.0 * (position - cell) - 1.0
            cell_moments = moments[chunk, values[row], cell]
            weight = weights[row]
            previous, current = 1.0, x
            cell_moments[0] += weight
            for a in range(1, nodes):
                cell_moments[a] += weight * current
                previous, current = current, 2.0 * x * current - previous
