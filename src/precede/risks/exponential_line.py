"""Steps along a two-valued ranker for the exponential loss and a price ``u^p``.

A ranker h with values 0 and 1 splits the winners' terms ``A = sum exp(-s_i)`` and the losers'
terms ``B = sum exp(p s_k)`` of every level in two. Along the line the risk is

    F(step) = sum_l (A0(above l) + A1(above l) exp(-step))^p (B0(l) + B1(l) exp(p step)),

so once the four sums are known no item is looked at again. With two classes and one query the
least is at ``log(A1 B0 / (A0 B1)) / (p + 1)``; otherwise log F is convex in the step and a
Newton iteration kept inside a bracket finds the least, at O(levels) an iteration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from precede.engine.arrays import Bytes, Floats, Integers
from precede.engine.compiling import INNER
from precede.engine.exact import all_reduce_max, exact_sum, exact_sums, from_words
from precede.engine.portable import exp, log
from precede.engine.portable_kernels import portable_exp, portable_log1p
from precede.risks.base import EdgeWeights, State

if TYPE_CHECKING:
    from precede.risks.exponential import SeparableRisk

__all__ = ["PushLine"]


# Sums are kept as multiples of 2^-62 of the largest term of a level. Where a side of the
# ranker has less than this share, they are taken anew relative to their own largest term.
FAINT = 2.0**-20
ITERATIONS = 200


class PushLine:
    """The risk along a ranker of values 0 and 1, as a function of the step.

    Parameters
    ----------
    risk : SeparableRisk without listed pairs
    state : State at the scores where the line begins
    values : array of 0 and 1, one for each row
    masses : Masses of the ranker at that state

    Notes
    -----
    O(n) to make, O(levels) for each step looked at. The result does not depend on the order
    of the rows or of the queries.
    """

    def __init__(self, risk: SeparableRisk, state: State, values: Bytes, edge_weights: EdgeWeights):
        self._risk = risk
        self._query_start = risk.layout.query_start
        faint = min(edge_weights.right, edge_weights.wrong) < FAINT
        self._logs = _own_scale(risk, state, values) if faint else _shared(risk, state, values)
        # Logarithms of A0 and A1 above every level, the same for all steps.
        self._above = np.full((2, self._logs.shape[1]), -np.inf)
        risk.context.run(
            _sums_above, self._query_start.size - 1, self._query_start, self._logs, self._above,
            small=risk.small,
        )  # fmt: skip

    @property
    def bounded(self) -> bool:
        """Whether some pair is in order and some other reversed, so that there is a least."""
        sides = all_reduce_max(
            lambda: np.array(_any_pair(self._logs, self._query_start)), self._risk.across
        )
        return bool(sides.all())

    def least(self) -> float:
        """Step at which the risk is least."""
        if self._risk.queries == 1 and self._query_start[-1] == 2:
            # Losers are level 0, winners level 1.
            (lose0, lose1), (win0, win1) = self._logs[2:, 0], self._logs[:2, 1]
            step = float(win1 + lose0 - win0 - lose1) / (self._risk.power + 1)
        else:
            step = self._search()
        return step / self._risk.rate

    def _search(self) -> float:
        """Newton on the derivative of log F, inside a bracket that only shrinks."""
        low, high, step = -np.inf, np.inf, 0.0
        for _ in range(ITERATIONS):
            slope, curvature = self._derivatives(step)
            if slope == 0:
                break
            if slope < 0:
                low = step
            else:
                high = step
            after = step - slope / curvature if curvature > 0 else np.inf * -slope
            # A flat stretch would send Newton far off: no more than 8 / p beyond what is known.
            reach = 8.0 / self._risk.power
            after = min(max(after, step - reach), step + reach)
            if not low < after < high:
                after = 0.5 * (low + high)
            if abs(after - step) <= 4e-16 * max(1e-3, abs(step)) or after in (low, high):
                break
            step = after
        return step

    def _derivatives(self, step: float) -> tuple[float, float]:
        """First and second derivative of ``log F / p`` at a step."""
        power = self._risk.power
        levels = self._logs.shape[1]
        log_term, slope, curvature = np.full(levels, -np.inf), np.zeros(levels), np.zeros(levels)
        self._risk.context.run(
            _along, levels, self._logs, self._above, step, float(power), log_term, slope, curvature,
            small=self._risk.small,
        )  # fmt: skip
        share = exp(log_term - all_reduce_max(log_term.max, self._risk.across))
        total, falling = exact_sums([share, share * slope], self._risk.across)
        mean = falling / total
        total_curvature = exact_sum(
            share * (curvature + power * (slope - mean) ** 2), self._risk.across
        )
        return mean, total_curvature / total


def _shared(risk: SeparableRisk, state: State, values: Bytes) -> Floats:
    """Logarithms of A0, A1, B0, B1 (rows) by level, from the terms of the state."""
    ones = risk.split(state, values)
    parts = state.parts
    logs = np.empty((4, parts.ends.shape[1]))
    for row, words in enumerate((parts.words - ones, ones)):
        sums = from_words((words[:, 0::2], words[:, 1::2]))
        logs[[row, row + 2]] = log(sums.T)
    return _relative_to(risk, logs, parts.ends[[0, 0, 1, 1]])


def _own_scale(risk: SeparableRisk, state: State, values: Bytes) -> Floats:
    """The same, each of the four relative to the largest of its own terms."""
    pieces, margin = risk.pieces, risk.rate * state.scores
    ends = np.empty((pieces.count, 4))
    common = (pieces.start, margin, risk.log_weight, values, risk.power)
    risk.context.run(_split_ends, pieces.count, *common, ends, small=risk.small)
    of_level = risk.greatest_of_levels(ends)
    words = np.zeros((pieces.count, 8), np.int64)
    risk.context.run(
        _split_sums, pieces.count, *common, pieces.level, of_level, words, small=risk.small
    )
    whole = risk.sums_of_levels(words)
    logs = log(from_words((whole[:, 0::2], whole[:, 1::2]))).T
    ends = np.where(np.isfinite(of_level), of_level, 0.0).T
    return _relative_to(risk, logs, ends * np.array([[-1.0], [-1.0], [1.0], [1.0]]))


def _relative_to(risk: SeparableRisk, logs: Floats, ends: Floats) -> Floats:
    """Add what the sums are relative to, and the balance of the levels to the losers."""
    logs[:2] -= ends[:2]
    logs[2:] += ends[2:] + risk.log_balance
    return logs


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _split_ends(
    begin: int, end: int, start: Integers, margin: Floats, log_weight: Floats, values: Bytes,
    power: float, ends: Floats,
) -> None:  # fmt: skip
    """Largest exponents in every piece: -s where h is 0 and 1, p·s where h is 0 and 1."""
    weighted = log_weight.size > 0
    for piece in range(begin, end):
        for column in range(4):
            ends[piece, column] = -np.inf
        for row in range(start[piece], start[piece + 1]):
            extra = log_weight[row] if weighted else 0.0
            side = np.int64(values[row])
            ends[piece, side] = max(ends[piece, side], extra - margin[row])
            ends[piece, 2 + side] = max(ends[piece, 2 + side], extra + power * margin[row])


@njit(cache=True, nogil=True)
def _split_sums(
    begin: int, end: int, start: Integers, margin: Floats, log_weight: Floats, values: Bytes,
    power: float, level: Integers, ends: Floats, words: Integers,
) -> None:  # fmt: skip
    """Sums of the four kinds of terms as integers, multiples of 2^-31 and 2^-62."""
    weighted = log_weight.size > 0
    for piece in range(begin, end):
        of_level = ends[level[piece]]
        for row in range(start[piece], start[piece + 1]):
            extra = log_weight[row] if weighted else 0.0
            side = np.int64(values[row])
            win = portable_exp(extra - margin[row] - of_level[side])
            lose = portable_exp(extra + power * margin[row] - of_level[2 + side])
            for column, term in ((side, win), (2 + side, lose)):
                high = np.int64(term * 2147483648.0)
                words[piece, 2 * column] += high
                words[piece, 2 * column + 1] += np.int64(
                    (term * 2147483648.0 - high) * 2147483648.0
                )


@njit(**INNER)
def _log_sum_of_two(a: float, b: float) -> float:
    if a < b:
        a, b = b, a
    if b == -np.inf:
        return a
    return a + portable_log1p(portable_exp(b - a))


@njit(cache=True, nogil=True)
def _sums_above(begin: int, end: int, query_start: Integers, logs: Floats, above: Floats) -> None:
    """Logarithms of the sums of the winners' terms above every level."""
    for query in range(begin, end):
        for level in range(query_start[query + 1] - 2, query_start[query] - 1, -1):
            for side in range(2):
                above[side, level] = _log_sum_of_two(above[side, level + 1], logs[side, level + 1])


@njit(cache=True, nogil=True)
def _along(
    begin: int, end: int, logs: Floats, above: Floats, step: float, power: float, log_term: Floats,
    slope: Floats, curvature: Floats,
) -> None:  # fmt: skip
    """Terms of log F by level, and the derivatives of their logarithms over p."""
    for level in range(begin, end):
        if above[0, level] == -np.inf and above[1, level] == -np.inf:
            continue  # the highest of a query
        winners = _log_sum_of_two(above[0, level], above[1, level] - step)
        losers = _log_sum_of_two(logs[2, level], logs[3, level] + power * step)
        won = portable_exp(above[1, level] - step - winners)
        lost = portable_exp(logs[3, level] + power * step - losers)
        log_term[level] = power * winners + losers
        slope[level] = lost - won
        curvature[level] = power * lost * (1.0 - lost) + won * (1.0 - won)


@njit(cache=True, nogil=True)
def _any_pair(logs: Floats, query_start: Integers) -> tuple[bool, bool]:
    """Whether any pair is in order (h 1 above 0), and whether any is reversed."""
    right, wrong = False, False
    for query in range(query_start.size - 1):
        above0, above1 = False, False
        for level in range(query_start[query + 1] - 1, query_start[query] - 1, -1):
            right |= above1 and logs[2, level] > -np.inf
            wrong |= above0 and logs[3, level] > -np.inf
            above0 |= logs[0, level] > -np.inf
            above1 |= logs[1, level] > -np.inf
    return right, wrong
