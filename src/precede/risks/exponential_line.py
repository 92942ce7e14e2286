"""Line search along a weak ranker with values 0 and 1, for exponential loss and price ``u^p``.

Such a weak ranker h splits the winner sum ``A = sum exp(-s_i)`` and the loser sum
``B = sum exp(p s_k)`` of each level in two. Along the line the risk is

    F(step) = sum_l (A0(above l) + A1(above l) exp(-step))^p (B0(l) + B1(l) exp(p step)),

so rows are read only once, for the four sums. With two classes and one query the minimum is at
``log(A1 B0 / (A0 B1)) / (p + 1)``; otherwise log F is convex in the step and a bracketed Newton
method finds the minimum, in O(levels) per iteration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from precede.engine.arrays import Bytes, Floats, Integers
from precede.engine.compiling import INNER
from precede.engine.exact import all_reduce_max, exact_sum, exact_sums, from_fixed_point
from precede.engine.portable import exp, log
from precede.engine.portable_kernels import portable_exp, portable_log1p
from precede.risks.base import EdgeWeights, State

if TYPE_CHECKING:
    from precede.risks.exponential import SeparableRisk

__all__ = ["PushLine"]


# Sums are stored in multiples of 2^-62 of the largest term of a level. If the correct or the wrong
# pairs weigh less than this, the sums are computed again relative to their own largest terms.
MIN_WEIGHT_AT_LEVEL_SCALE = 2.0**-20
MAX_ITERATIONS = 200


class PushLine:
    """The risk along a weak ranker with values 0 and 1, as a function of the step.

    Parameters
    ----------
    risk : SeparableRisk without explicit pairs
    state : State at the scores where the line starts
    values : array of 0 and 1, one for each row
    edge_weights : EdgeWeights of the weak ranker at that state

    Notes
    -----
    O(n) to construct, O(levels) for each step evaluated. The result does not depend on the order
    of the rows or of the queries.
    """

    def __init__(self, risk: SeparableRisk, state: State, values: Bytes, edge_weights: EdgeWeights):
        self._risk = risk
        self._query_start = risk.layout.query_start
        low_weight = min(edge_weights.correct, edge_weights.wrong) < MIN_WEIGHT_AT_LEVEL_SCALE
        self._log_sums = (
            _log_sums_at_own_scale(risk, state, values)
            if low_weight
            else _log_sums_at_level_scale(risk, state, values)
        )
        # Logarithms of A0 and A1 summed over the levels above each level.
        self._above = np.full((2, self._log_sums.shape[1]), -np.inf)
        risk.context.run(
            _sums_above, self._query_start.size - 1, self._query_start, self._log_sums, self._above,
            small=risk.small,
        )  # fmt: skip

    @property
    def has_minimum(self) -> bool:
        """Whether the minimum is finite: one pair is ordered correctly, another one wrongly."""
        sides = all_reduce_max(
            lambda: np.array(_has_correct_and_wrong(self._log_sums, self._query_start)),
            self._risk.query_context,
        )
        return bool(sides.all())

    def argmin(self) -> float:
        """Return the step that minimizes the risk."""
        if self._risk.n_queries == 1 and self._query_start[-1] == 2:
            # Level 0 holds the losers, level 1 the winners.
            (lose0, lose1), (win0, win1) = self._log_sums[2:, 0], self._log_sums[:2, 1]
            step = float(win1 + lose0 - win0 - lose1) / (self._risk.power + 1)
        else:
            step = self._search()
        return step / self._risk.rate

    def _search(self) -> float:
        """Minimize log F by Newton's method inside a shrinking bracket."""
        low, high, step = -np.inf, np.inf, 0.0
        for _ in range(MAX_ITERATIONS):
            slope, curvature = self._derivatives(step)
            if slope == 0:
                break
            if slope < 0:
                low = step
            else:
                high = step
            new_step = step - slope / curvature if curvature > 0 else np.inf * -slope
            # Limit the change: where log F is nearly flat, Newton's step would be far too long.
            max_change = 8.0 / self._risk.power
            new_step = min(max(new_step, step - max_change), step + max_change)
            if not low < new_step < high:
                new_step = 0.5 * (low + high)
            if abs(new_step - step) <= 4e-16 * max(1e-3, abs(step)) or new_step in (low, high):
                break
            step = new_step
        return step

    def _derivatives(self, step: float) -> tuple[float, float]:
        """Return the first and second derivative of ``log F / p`` at a step."""
        power = self._risk.power
        levels = self._log_sums.shape[1]
        log_term, slope, curvature = np.full(levels, -np.inf), np.zeros(levels), np.zeros(levels)
        self._risk.context.run(
            _log_terms_and_derivatives, levels, self._log_sums, self._above, step,
            float(power), log_term, slope, curvature, small=self._risk.small,
        )  # fmt: skip
        share = exp(log_term - all_reduce_max(log_term.max, self._risk.query_context))
        total, slope_sum = exact_sums([share, share * slope], self._risk.query_context)
        mean = slope_sum / total
        total_curvature = exact_sum(
            share * (curvature + power * (slope - mean) ** 2), self._risk.query_context
        )
        return mean, total_curvature / total


def _log_sums_at_level_scale(risk: SeparableRisk, state: State, values: Bytes) -> Floats:
    """Return the logarithms of A0, A1, B0, B1 (rows) by level, from the terms of the state."""
    ones = risk.sums_where_one(state, values)
    cache = state.cache
    logs = np.empty((4, cache.extremes.shape[1]))
    for row, words in enumerate((cache.words - ones, ones)):
        sums = from_fixed_point((words[:, 0::2], words[:, 1::2]))
        logs[[row, row + 2]] = log(sums.T)
    return _add_scales(risk, logs, cache.extremes[[0, 0, 1, 1]])


def _log_sums_at_own_scale(risk: SeparableRisk, state: State, values: Bytes) -> Floats:
    """Return these logarithms from rows, each sum relative to its own largest term."""
    chunks, scores = risk.chunks, risk.rate * state.scores
    extremes = np.empty((chunks.count, 4))
    common = (chunks.start, scores, risk.log_weight, values, risk.power)
    risk.context.run(_extremes_by_value, chunks.count, *common, extremes, small=risk.small)
    level_extremes = risk.max_over_chunks(extremes)
    words = np.zeros((chunks.count, 8), np.int64)
    risk.context.run(
        _sums_by_value, chunks.count, *common, chunks.level, level_extremes, words, small=risk.small
    )
    level_words = risk.sum_over_chunks(words)
    logs = log(from_fixed_point((level_words[:, 0::2], level_words[:, 1::2]))).T
    extremes = np.where(np.isfinite(level_extremes), level_extremes, 0.0).T
    return _add_scales(risk, logs, extremes * np.array([[-1.0], [-1.0], [1.0], [1.0]]))


def _add_scales(risk: SeparableRisk, logs: Floats, extremes: Floats) -> Floats:
    """Add the exponents that the sums are relative to, and the balance of each level."""
    logs[:2] -= extremes[:2]
    logs[2:] += extremes[2:] + risk.log_balance
    return logs


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _extremes_by_value(
    begin: int, end: int, start: Integers, scores: Floats, log_weight: Floats, values: Bytes,
    power: float, extremes: Floats,
) -> None:  # fmt: skip
    """Compute the largest exponents of each chunk: -s where h is 0, 1; p·s where h is 0, 1."""
    weighted = log_weight.size > 0
    for chunk in range(begin, end):
        for index in range(4):
            extremes[chunk, index] = -np.inf
        for row in range(start[chunk], start[chunk + 1]):
            log_w = log_weight[row] if weighted else 0.0
            side = np.int64(values[row])
            extremes[chunk, side] = max(extremes[chunk, side], log_w - scores[row])
            extremes[chunk, 2 + side] = max(extremes[chunk, 2 + side], log_w + power * scores[row])


@njit(cache=True, nogil=True)
def _sums_by_value(
    begin: int, end: int, start: Integers, scores: Floats, log_weight: Floats, values: Bytes,
    power: float, level: Integers, extremes: Floats, words: Integers,
) -> None:  # fmt: skip
    """Sum the four kinds of terms as integers, in multiples of 2^-31 and 2^-62."""
    weighted = log_weight.size > 0
    for chunk in range(begin, end):
        level_extremes = extremes[level[chunk]]
        for row in range(start[chunk], start[chunk + 1]):
            log_w = log_weight[row] if weighted else 0.0
            side = np.int64(values[row])
            winner_term = portable_exp(log_w - scores[row] - level_extremes[side])
            loser_term = portable_exp(log_w + power * scores[row] - level_extremes[2 + side])
            for index, term in ((side, winner_term), (2 + side, loser_term)):
                high = np.int64(term * 2147483648.0)
                words[chunk, 2 * index] += high
                words[chunk, 2 * index + 1] += np.int64((term * 2147483648.0 - high) * 2147483648.0)


@njit(**INNER)
def _logaddexp(a: float, b: float) -> float:
    if a < b:
        a, b = b, a
    if b == -np.inf:
        return a
    return a + portable_log1p(portable_exp(b - a))


@njit(cache=True, nogil=True)
def _sums_above(begin: int, end: int, query_start: Integers, logs: Floats, above: Floats) -> None:
    """Compute the logarithms of the winner sums over the levels above each level."""
    for query in range(begin, end):
        for level in range(query_start[query + 1] - 2, query_start[query] - 1, -1):
            for side in range(2):
                above[side, level] = _logaddexp(above[side, level + 1], logs[side, level + 1])


@njit(cache=True, nogil=True)
def _log_terms_and_derivatives(
    begin: int, end: int, logs: Floats, above: Floats, step: float, power: float, log_term: Floats,
    slope: Floats, curvature: Floats,
) -> None:  # fmt: skip
    """Compute the terms of log F by level, and the derivatives of their logarithms over p."""
    for level in range(begin, end):
        if above[0, level] == -np.inf and above[1, level] == -np.inf:
            continue  # highest level of the query
        winners = _logaddexp(above[0, level], above[1, level] - step)
        losers = _logaddexp(logs[2, level], logs[3, level] + power * step)
        winner_ones = portable_exp(above[1, level] - step - winners)
        loser_ones = portable_exp(logs[3, level] + power * step - losers)
        log_term[level] = power * winners + losers
        slope[level] = loser_ones - winner_ones
        curvature[level] = power * loser_ones * (1.0 - loser_ones) + winner_ones * (
            1.0 - winner_ones
        )


@njit(cache=True, nogil=True)
def _has_correct_and_wrong(logs: Floats, query_start: Integers) -> tuple[bool, bool]:
    """Return whether any pair is ordered correctly (h 1 above 0), and whether any wrongly."""
    correct, wrong = False, False
    for query in range(query_start.size - 1):
        above0, above1 = False, False
        for level in range(query_start[query + 1] - 1, query_start[query] - 1, -1):
            correct |= above1 and logs[2, level] > -np.inf
            wrong |= above0 and logs[3, level] > -np.inf
            above0 |= logs[0, level] > -np.inf
            above1 |= logs[1, level] > -np.inf
    return correct, wrong
