"""The exponential loss with a power as price: linear time, no pair is ever listed.

Sums that cross the boundaries of runs, threads or machines are sums of integers (see
`precede.engine.exact`): they do not depend on the order or the number of the parts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from precede.engine.arrays import Array, Bytes, Floats, Integers
from precede.engine.compiling import INNER
from precede.engine.exact import (
    SCALE,
    all_reduce_all,
    all_reduce_max,
    all_reduce_sum,
    exact_sums,
    log_total,
    sums_at,
    to_integers,
)
from precede.engine.execution import Context, is_small
from precede.engine.portable import exp, expm1_of, log, log_of
from precede.engine.portable_kernels import fmax, fmin, portable_exp, portable_log, portable_log1p
from precede.engine.pull import decreases
from precede.engine.query_layout import QueryLayout
from precede.losses import PairLoss, Price
from precede.risks.base import BoundLossRisk, EdgeWeights, State, bound_step
from precede.risks.exponential_line import PushLine
from precede.risks.pieces import Pieces

__all__ = ["Factors", "SeparableParts", "SeparableRisk"]

# Rows whose terms are made and summed at a time: they and their scores stay in the cache.
AT_A_TIME = 4096


@dataclass(frozen=True)
class SeparableParts:
    """Sums by level behind a `State` of `SeparableRisk`.

    Attributes
    ----------
    terms : ``weight·exp(-s)`` (row 0, as winner) and ``weight·exp(p·s)`` (row 1, as loser) of
        every graded row, relative to the largest of its level
    levels : six numbers for every level: the sums of the two terms (rows 0 and 1); the share
        of the pair mass that the level has as winners and as losers (2 and 3); and how the
        losers below are mixed (4 and 5): a share x of the losers below level l is
        ``levels[4, l]·x(below l-1) + levels[5, l]·x(level l-1)``
    words : the integers behind rows 0 and 1 of `levels`
    pair_mass : share of the pair mass of every listed pair
    ends : least ``s - log(weight)`` and greatest ``p·s + log(weight)`` of every level, to which
        the terms are relative
    """

    terms: Floats
    levels: Floats
    words: Integers
    pair_mass: Floats
    ends: Floats


class SeparableRisk(BoundLossRisk):
    """Exponential loss, price ``u^p``: O(n) time, no pair is ever listed.

    Inside a query let ``a_i = exp(-s_i)`` and ``b_k = exp(s_k)``. With ``A(l)`` the sum of a
    over the grades above level l, a loser of level l pays ``u_k = b_k A(l)``, so

        R = sum_l A(l)^p · sum_{k in l} b_k^p.

    Winner and loser masses follow from the same sums by level. With `mean` a loser of level l has
    the weight ``n(l)^(1-p)`` in addition. Listed pairs are added one by one, for p = 1 (for other
    prices `GeneralRisk` adds the two before the price is taken).
    """

    def __init__(
        self, layout: QueryLayout, loss: PairLoss, cost: Price, context: Context | None = None,
        *, mean: bool = False,
    ):  # fmt: skip
        super().__init__(layout, loss, cost, context, mean=mean)
        if loss.form is None or loss.form.kind != "separable" or cost.power is None:
            raise ValueError("SeparableRisk needs a separable loss and a power as price")
        self.rate = loss.form.rate
        self.power = cost.power
        self.pieces = Pieces.cut(layout)
        self.small = is_small("exponentials", layout.n_graded)
        weight = layout.weight[: layout.n_graded]
        # Weights join the exponents: a light item with a large term loses no digit to a
        # heavy one with a small term.
        even = all_reduce_all(lambda: bool((weight == 1.0).all()), self.context)
        self.log_weight = np.zeros(0) if even else log(weight)
        levels = np.diff(layout.query_start)
        self._level_query = np.repeat(np.arange(levels.size), levels)
        # What every level is weighed by as losers; levels are shared in an unbalanced list only.
        self.log_balance = np.zeros(self._level_query.size)
        # Sums over queries cross machines, unless all of them know the same query.
        self.across = None if layout.shared else self.context
        if not layout.shared:
            first = layout.level_start[:-1]
            of_query = first[layout.query_start[:-1]]
            share = layout.loser_weight[of_query] / layout.weight[of_query]
            if (share != 1).any():  # without a balance there is no logarithm to compile
                self.log_balance = log(share)[self._level_query]
            if self.mean:
                self.log_balance += (1.0 - self.power) * self.log_divisors()[first]
        pair_weight = layout.pair_weight * layout.weight[layout.winner]
        self._log_pair = log(pair_weight * layout.loser_weight[layout.loser])

    def state(self, scores: Floats) -> State:
        """Risk and pull at these scores, in two passes over the rows."""
        parts, log_value = self._parts(self._margin(scores))
        pull = np.empty(self.layout.n_used_rows)
        pull[self.layout.n_graded :] = 0.0
        pieces = self.pieces
        self.context.run(
            _pull_of_pieces, pieces.count, pieces.start, pieces.level, parts.terms, parts.levels,
            pull, small=self.small,
        )  # fmt: skip
        if parts.pair_mass.size:
            integers = np.zeros(pull.size, np.int64)
            mass = to_integers(parts.pair_mass)
            np.add.at(integers, self.layout.winner, mass)
            np.subtract.at(integers, self.layout.loser, mass)
            pull += integers / SCALE
        log_gradient_sum = log_value + log_of(self.power * self.rate)
        return State(scores, log_value, log_gradient_sum, pull, parts)

    def growth(self, state: State) -> float:  # noqa: ARG002
        """Pair mass over risk, which is the same at all scores."""
        return self.power * self.rate

    def log_value(self, scores: Floats) -> float:
        """Logarithm of the risk, without the pull."""
        return self._parts(self._margin(scores))[1]

    def _margin(self, scores: Floats) -> Floats:
        return scores if self.rate == 1 else self.rate * scores

    def curvature(self, state: State) -> Floats:
        """Diagonal of the second derivative over the pair mass: O(n).

        An item has ``winner mass + p · loser mass`` (for p = 1 the sum of its pair masses) and,
        since a loser pays for all of its winners together,
        ``p (p - 1) a_i² sum_{l below} A(l)^(p-2) sum_{k in l} b_k^p``.
        """
        parts, query_start = state.parts, self.layout.query_start
        price_curvature = np.zeros(parts.levels.shape[1])
        if self.power != 1:
            self.context.run(
                _price_curvatures_of_queries, query_start.size - 1, query_start, parts.levels,
                *parts.ends, self.power, self.log_balance, state.log_value, price_curvature,
                small=self.small,
            )  # fmt: skip
        return self._hessian(state, price_curvature, self.power)

    def half_bound(self, state: State) -> Floats:
        """``p`` times the pair masses of every row: here ``G'' S`` is ``(p - 1) G'``."""
        return self.power * self._hessian(state, np.zeros(state.parts.levels.shape[1]), 1.0)

    def _hessian(self, state: State, price_curvature: Floats, power: float) -> Floats:
        """Winner mass and `power` times the loser mass of every row, and what the price adds."""
        parts, pieces = state.parts, self.pieces
        hessian = np.zeros(self.layout.n_used_rows)
        self.context.run(
            _hessian_of_pieces, pieces.count, pieces.start, pieces.level, parts.terms, parts.levels,
            price_curvature, power, hessian, small=self.small,
        )  # fmt: skip
        for side in (self.layout.winner, self.layout.loser):
            hessian += sums_at(side, parts.pair_mass, hessian.size)
        return self.rate * hessian

    def edge_weights(self, state: State, values: Bytes) -> EdgeWeights:
        """Shares of the pair mass ordered rightly, wrongly, not at all: O(n)."""
        parts = state.parts
        right, wrong = self._query_masses(parts, self.split(state, values))
        if parts.pair_mass.size:
            winner, loser = self.layout.winner, self.layout.loser
            listed = values[winner].astype(np.int8) - values[loser]
            right = np.append(right, parts.pair_mass[listed > 0])
            wrong = np.append(wrong, parts.pair_mass[listed < 0])
        in_order, reversed_ = exact_sums([right, wrong], self.across, few=True)
        return EdgeWeights(in_order, reversed_, max(0.0, 1.0 - in_order - reversed_))

    def split(self, state: State, values: Bytes) -> Array:
        """Sums of the terms over the rows where a ranker is 1, by level, as integers."""
        pieces = self.pieces
        words = np.zeros((pieces.count, 4), np.int64)
        self.context.run(
            _split_of_pieces, pieces.count, pieces.start, state.parts.terms, values, words,
            small=self.small,
        )  # fmt: skip
        return self.sums_of_levels(words)

    def sums_of_levels(self, by_piece: Array) -> Array:
        """Integers summed over the pieces of every level, whoever holds them."""
        sums = self.pieces.by_level(np.add, by_piece, 0)
        return all_reduce_sum(lambda: sums, self.context) if self.layout.shared else sums

    def greatest_of_levels(self, by_piece: Floats) -> Floats:
        """Greatest over the pieces of every level, whoever holds them."""
        most = self.pieces.by_level(np.maximum, by_piece, -np.inf)
        return all_reduce_max(lambda: most, self.context) if self.layout.shared else most

    def factors(self, state: State, *, bound: bool = False) -> Factors | None:
        """The masses behind the pull; with a push there is no search by largest decrease."""
        return Factors(self, state, bound=bound) if self.power == 1 else None

    def exact_step(self, state: State, values: Array) -> tuple[float, bool]:
        """For values 0 and 1 a closed form, or a search on the masses of levels."""
        if values.dtype != np.uint8:
            return self.search_line(state, values)
        edge_weights = self.edge_weights(state, values)
        right, wrong = edge_weights.right, edge_weights.wrong
        if self.power > 1:
            line = self._line(state, values, edge_weights)
            if line.bounded:
                return line.least(), False
            right, wrong = (right, 0.0) if right > wrong else (0.0, wrong)
        if min(right, wrong) > 0:
            return log_of(right / wrong) / (1 + self.power) / self.rate, False
        return self.smoothed_step(state, right, wrong), True

    def _line(self, state: State, values: Bytes, edge_weights: EdgeWeights) -> PushLine:
        return PushLine(self, state, values, edge_weights)

    def _query_masses(self, parts: SeparableParts, words: Integers) -> tuple[Floats, Floats]:
        queries = self.layout.query_start.size - 1
        right, wrong = np.zeros(queries), np.zeros(queries)
        self.context.run(
            _masses_of_queries, queries, self.layout.query_start, words, parts.words - words,
            parts.levels, right, wrong, small=self.small,
        )  # fmt: skip
        return right, wrong

    def _parts(self, margin: Floats) -> tuple[SeparableParts, float]:
        pieces, run, power = self.pieces, self.context.run, self.power
        ends_of_pieces = np.zeros((pieces.count, 2))
        find, weights = (
            (_weighted_ends_of_pieces, [self.log_weight])
            if self.log_weight.size
            else (_ends_of_pieces, [])
        )
        run(
            find, pieces.count, pieces.start, margin, power, ends_of_pieces, *weights,
            small=self.small,
        )  # fmt: skip
        ends = self.greatest_of_levels(ends_of_pieces)
        low, high = -ends[:, 0], np.ascontiguousarray(ends[:, 1])
        graded = self.layout.n_graded
        terms = np.empty((2, graded))
        words = np.zeros((pieces.count, 4), np.int64)
        run(
            _terms_of_pieces, pieces.count, pieces.start, pieces.level, margin, self.log_weight,
            power, low, high, terms, words, small=self.small,
        )  # fmt: skip
        words = self.sums_of_levels(words)
        queries = self.layout.query_start.size - 1
        levels = np.zeros((6, low.size))
        log_query = np.zeros(queries)
        run(
            _levels_of_queries, queries, self.layout.query_start, words, low, high, power,
            self.log_balance, levels, np.empty(low.size), log_query, small=self.small,
        )  # fmt: skip
        log_all, log_pair = log_query, self._log_pair
        if log_pair.size:
            winner, loser = self.layout.winner, self.layout.loser
            log_pair = log_pair - (margin[winner] - margin[loser])
            log_all = np.append(log_query, log_pair)
        log_value = log_total(log_all, self.across)
        levels[2:4] *= exp(log_query - log_value)[self._level_query]
        ends = np.stack([low, high])
        parts = SeparableParts(terms, levels, words, exp(log_pair - log_value), ends)
        return parts, log_value


class Factors:
    """Masses by level and pair, from which a family finds the largest decrease (RS09 eq. 5).

    Attributes
    ----------
    level_start, query_start : the runs of the layout
    terms, levels, pair_mass : see `SeparableParts`
    pairs : rows of the winners (row 0) and losers (row 1) of the listed pairs
    smoothing : the smoothing mass of a step that would be infinite
    bound : whether the step will be that of the upper bound instead of the exact one
    """

    def __init__(self, risk: SeparableRisk, state: State, *, bound: bool = False):
        self.bound = bound
        self._risk, self._state = risk, state
        self.level_start = risk.layout.level_start
        self.query_start = risk.layout.query_start
        self.pairs = np.stack([risk.layout.winner, risk.layout.loser])
        self.terms = state.parts.terms
        self.levels = state.parts.levels
        self.pair_mass = state.parts.pair_mass
        self.smoothing = risk.smoothing

    def decrease(self, values: Array) -> tuple[float, float]:
        """Edge of a ranker, and the share by which its step lowers the risk."""
        if values.dtype == np.uint8:
            edge_weights = self._risk.edge_weights(self._state, values)
            share = decreases(
                edge_weights.right, edge_weights.wrong, self.smoothing, bound=self.bound
            )
            return edge_weights.edge, float(share)
        edge = self._risk.edge(self._state, values)
        if edge == 0:
            return 0.0, 0.0
        if self.bound:  # which is for values from 0 to 1: their edges are at most 1
            step, _ = bound_step(min(max(edge, -1.0), 1.0), self.smoothing)
        else:
            step, _ = self._risk.line_search(self._state, values)
        after = self._risk.log_value(self._state.scores + step * values)
        return edge, -expm1_of(after - self._state.log_value)


# -- kernels ---------------------------------------------------------------------------------
#
# A number x in [-1, 1] as a high and a low word, multiples of 2^-31 and of 2^-62: see
# `precede.engine.exact`.


@njit(cache=True, nogil=True)
def _ends_of_pieces(
    low: int, high: int, start: Integers, margin: Floats, power: float, ends: Floats
) -> None:
    """Greatest of -s and of p·s in every piece."""
    for piece in range(low, high):
        least, most = np.inf, -np.inf
        for row in range(start[piece], start[piece + 1]):
            least = fmin(least, margin[row])
            most = fmax(most, margin[row])
        ends[piece, 0] = -least
        ends[piece, 1] = most * power


@njit(cache=True, nogil=True)
def _weighted_ends_of_pieces(
    low: int, high: int, start: Integers, margin: Floats, power: float, ends: Floats,
    log_weight: Floats,
) -> None:  # fmt: skip
    """Greatest of log(weight·exp(-s)) and of log(weight·exp(p·s)) in every piece."""
    for piece in range(low, high):
        least, most = np.inf, -np.inf
        for row in range(start[piece], start[piece + 1]):
            least = fmin(least, margin[row] - log_weight[row])
            most = fmax(most, power * margin[row] + log_weight[row])
        ends[piece, 0] = -least
        ends[piece, 1] = most


@njit(cache=True, nogil=True, error_model="numpy")
def _terms_of_pieces(
    first: int, last: int, start: Integers, level: Integers, margin: Floats, log_weight: Floats,
    power: float, low: Floats, high: Floats, terms: Floats, words: Integers,
) -> None:  # fmt: skip
    """Terms of the pieces first..last and their sums; the rows of a turn stay in the cache."""
    weighted = log_weight.size > 0
    while first < last:
        stop = first + 1
        while stop < last and start[stop + 1] - start[first] <= AT_A_TIME:
            stop += 1
        begin, end = start[first], start[stop]
        for piece in range(first, stop):
            least, most = low[level[piece]], high[level[piece]]
            for row in range(start[piece], start[piece + 1]):
                terms[0, row] = least - margin[row]
                terms[1, row] = power * margin[row] - most
        if weighted:
            for row in range(begin, end):
                terms[0, row] += log_weight[row]
                terms[1, row] += log_weight[row]
        _exps(terms[0, begin:end])
        if power == 1.0 and not weighted:
            _complements(first, stop, start, level, low, high, terms)
        else:
            _exps(terms[1, begin:end])
        _sums_of_pieces(first, stop, start, terms, words)
        first = stop


@njit(**INNER, error_model="numpy")
def _complements(
    first: int, last: int, start: Integers, level: Integers, low: Floats, high: Floats,
    terms: Floats,
) -> None:  # fmt: skip
    """Loser terms from winner terms: their product is the same for a whole level.

    That saves half of the exponentials, unless the product is too small to divide by. The
    choice is made level by level, so that it does not depend on who works on which.
    """
    for piece in range(first, last):
        begin, end = start[piece], start[piece + 1]
        product = portable_exp(low[level[piece]] - high[level[piece]])
        if product > 1e-280:
            for row in range(begin, end):
                terms[1, row] = fmin(product / terms[0, row], 1.0)
        else:
            _exps(terms[1, begin:end])


@njit(**INNER)
def _sums_of_pieces(first: int, last: int, start: Integers, terms: Floats, words: Integers) -> None:
    """Sums of winner and loser terms, as integers.

    Adding and subtracting 1.5·2^21 rounds a term to a multiple of 2^-31, 1.5·2^-10 what is
    left to a multiple of 2^-62. Sums of up to 2^21 such multiples are exact, so their order
    does not matter; it is twice as fast as turning every term into integers.
    """
    for piece in range(first, last):
        win, win_rest, lose, lose_rest = 0.0, 0.0, 0.0, 0.0
        for row in range(start[piece], start[piece + 1]):
            up, down = terms[0, row], terms[1, row]
            coarse_up, coarse_down = (up + 3145728.0) - 3145728.0, (down + 3145728.0) - 3145728.0
            win += coarse_up
            win_rest += ((up - coarse_up) + 0.00146484375) - 0.00146484375
            lose += coarse_down
            lose_rest += ((down - coarse_down) + 0.00146484375) - 0.00146484375
        words[piece, 0], words[piece, 1] = np.int64(win * 2.0**31), np.int64(win_rest * 2.0**62)
        words[piece, 2], words[piece, 3] = np.int64(lose * 2.0**31), np.int64(lose_rest * 2.0**62)


@njit(**INNER)
def _sum_of_level(words: Integers, level: int, column: int) -> float:
    return words[level, column] * 2.0**-31 + words[level, column + 1] * 2.0**-62


@njit(**INNER)
def _log_add(a: float, b: float) -> float:
    if a < b:
        a, b = b, a
    if b == -np.inf:
        return a
    return a + portable_log1p(portable_exp(b - a))


@njit(**INNER)
def _logs(values: Floats, out: Floats) -> None:
    for row in range(values.size):
        out[row] = portable_log(values[row])


@njit(**INNER)
def _exps(values: Floats) -> None:
    for row in range(values.size):
        values[row] = portable_exp(values[row])


@njit(cache=True, nogil=True, error_model="numpy")
def _levels_of_queries(
    begin: int, end: int, query_start: Integers, words: Integers, low: Floats, high: Floats,
    power: float, log_balance: Floats, by_level: Floats, log_winners: Floats, log_query: Floats,
) -> None:  # fmt: skip
    """Masses of the levels as shares of their query, whose logarithm goes to log_query.

    Rows of by_level: winner_sum, loser_sum, winner_mass, loser_mass, carry, fresh. Logarithms
    before the loop over queries and exponentials after it are taken several at a time.
    `log_winners` is room for a number for each level.
    """
    first, last = query_start[begin], query_start[end]
    log_winner = log_winners[first:last]
    for level in range(first, last):
        by_level[0, level] = _sum_of_level(words, level, 0)
        by_level[1, level] = _sum_of_level(words, level, 2)
    _logs(by_level[0, first:last], log_winner)
    _logs(by_level[1, first:last], by_level[4, first:last])
    for level in range(first, last):
        log_winner[level - first] -= low[level]
        by_level[3, level] = 0.0
    for query in range(begin, end):
        bottom, top = query_start[query], query_start[query + 1]
        log_query[query] = _levels_of_query(
            bottom, top, log_winner[bottom - first : top - first], high, power, log_balance,
            by_level,
        )  # fmt: skip
    for row in range(2, 6):
        _exps(by_level[row, first:last])


@njit(**INNER)
def _levels_of_query(
    bottom: int, top: int, log_winner: Floats, high: Floats, power: float, log_balance: Floats,
    by_level: Floats,
) -> float:  # fmt: skip
    """Logarithms of rows 2 to 5 of by_level, whose row 4 has logarithms of the sums of losers."""
    above = -np.inf  # log of a summed over the levels above
    if power != 1.0:
        for level in range(top - 1, bottom - 1, -1):
            by_level[3, level] = above
            above = _log_add(above, log_winner[level - bottom])
    below, total = -np.inf, -np.inf  # b times the price's slope, over the levels below; all pairs
    log_carry, log_fresh = -np.inf, -np.inf
    for level in range(bottom, top):
        log_loser = by_level[4, level] + high[level] + log_balance[level]
        by_level[4, level], by_level[5, level] = log_carry, log_fresh
        by_level[2, level] = log_winner[level - bottom] + below
        total = _log_add(total, by_level[2, level])
        log_sloped_loser = log_loser
        if power == 1.0:
            # Both ways at once: the processor works on several sums at a time.
            mirror = top - 1 - (level - bottom)
            by_level[3, mirror] += above
            by_level[3, level] += log_loser
            if level < top - 1:
                above = _log_add(above, log_winner[mirror - bottom])
        else:
            log_sloped_loser += (power - 1.0) * by_level[3, level]
            by_level[3, level] = power * by_level[3, level] + log_loser
        if level < top - 1:
            grown = _log_add(below, log_sloped_loser)
            log_carry, log_fresh = below - grown, log_sloped_loser - grown
            below = grown
    for level in range(bottom, top):
        by_level[2, level] -= total
        by_level[3, level] -= total
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _pull_of_pieces(
    first: int, last: int, start: Integers, level: Integers, terms: Floats, levels: Floats,
    pull: Floats,
) -> None:  # fmt: skip
    for piece in range(first, last):
        here = level[piece]
        up, down = levels[2, here] / levels[0, here], levels[3, here] / levels[1, here]
        for row in range(start[piece], start[piece + 1]):
            pull[row] = terms[0, row] * up - terms[1, row] * down


@njit(cache=True, nogil=True)
def _price_curvatures_of_queries(
    begin: int, end: int, query_start: Integers, by_level: Floats, low: Floats, high: Floats,
    power: float, log_balance: Floats, log_value: float, price_curvature: Floats,
) -> None:  # fmt: skip
    """``(p - 1) a² C / R`` of every level: a and C summed over it and over the losers below.

    What its winners add to the second derivative because the price is curved. Never above p - 1:
    a loser pays at least what it owes to one level.
    """
    for query in range(begin, end):
        bottom, top = query_start[query], query_start[query + 1]
        above = np.full(top - bottom + 1, -np.inf)  # log of a summed over the levels above
        for j in range(top - bottom - 1, -1, -1):
            log_winner = portable_log(by_level[0, bottom + j]) - low[bottom + j]
            above[j] = _log_add(above[j + 1], log_winner)
        below = -np.inf
        for j in range(top - bottom):
            level = bottom + j
            log_winner = portable_log(by_level[0, level]) - low[level]
            price_curvature[level] = (power - 1.0) * portable_exp(
                2.0 * log_winner + below - log_value
            )
            if j < top - bottom - 1:
                log_loser = portable_log(by_level[1, level]) + high[level] + log_balance[level]
                below = _log_add(below, log_loser + (power - 2.0) * above[j + 1])


@njit(cache=True, nogil=True)
def _hessian_of_pieces(
    first: int, last: int, start: Integers, level: Integers, terms: Floats, levels: Floats,
    price_curvature: Floats, power: float, hessian: Floats,
) -> None:  # fmt: skip
    for piece in range(first, last):
        here = level[piece]
        up, down = levels[2, here] / levels[0, here], levels[3, here] / levels[1, here]
        quadratic = price_curvature[here] / (levels[0, here] * levels[0, here])
        for row in range(start[piece], start[piece + 1]):
            hessian[row] = (
                terms[0, row] * (up + quadratic * terms[0, row]) + power * down * terms[1, row]
            )


@njit(cache=True, nogil=True)
def _split_of_pieces(
    first: int, last: int, start: Integers, terms: Floats, values: Bytes, words: Integers
) -> None:
    """The same sums over the rows where the ranker is 1; see `_sums_of_pieces`."""
    for piece in range(first, last):
        win, win_rest, lose, lose_rest = 0.0, 0.0, 0.0, 0.0
        for row in range(start[piece], start[piece + 1]):
            up, down = terms[0, row] * values[row], terms[1, row] * values[row]
            coarse_up, coarse_down = (up + 3145728.0) - 3145728.0, (down + 3145728.0) - 3145728.0
            win += coarse_up
            win_rest += ((up - coarse_up) + 0.00146484375) - 0.00146484375
            lose += coarse_down
            lose_rest += ((down - coarse_down) + 0.00146484375) - 0.00146484375
        words[piece, 0], words[piece, 1] = np.int64(win * 2.0**31), np.int64(win_rest * 2.0**62)
        words[piece, 2], words[piece, 3] = np.int64(lose * 2.0**31), np.int64(lose_rest * 2.0**62)


@njit(cache=True, nogil=True, error_model="numpy")
def _masses_of_queries(
    begin: int, end: int, query_start: Integers, ones: Integers, zeros: Integers, levels: Floats,
    right: Floats, wrong: Floats,
) -> None:  # fmt: skip
    """Masses of the pairs (ranker 1 above 0) and (0 above 1) in every query.

    The part where the ranker is 0 is the difference of integers: no digit is lost when
    almost everything is on one side.
    """
    winner_mass, carry, fresh = levels[2], levels[4], levels[5]
    for query in range(begin, end):
        bottom, top = query_start[query], query_start[query + 1]
        low_zero, low_one = 0.0, 0.0  # shares of the losers below where the ranker is 0, 1
        in_order, reversed_ = 0.0, 0.0
        for level in range(bottom, top):
            if level > bottom:
                one = _sum_of_level(ones, level - 1, 2)
                zero = _sum_of_level(zeros, level - 1, 2)
                low_one = carry[level] * low_one + fresh[level] * one / (one + zero)
                low_zero = carry[level] * low_zero + fresh[level] * zero / (one + zero)
            one = _sum_of_level(ones, level, 0)
            zero = _sum_of_level(zeros, level, 0)
            in_order += winner_mass[level] * one / (one + zero) * low_zero
            reversed_ += winner_mass[level] * zero / (one + zero) * low_one
        right[query] = in_order
        wrong[query] = reversed_
