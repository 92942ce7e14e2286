"""The exponential loss with weights by rank that end at rank k: linear time, no sort."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from precede.engine.arrays import Bytes, Floats, Integers
from precede.engine.compiling import njit
from precede.engine.exact import exact_sums, log_sum_exp
from precede.engine.portable import exp, exp_inplace, log, log_of
from precede.engine.query_layout import QueryLayout
from precede.losses import PairLoss, Price
from precede.risks.base import EdgeWeights, State
from precede.risks.rank_weights import (
    WIDEST,
    RankedExponentialRisk,
    RankWeights,
    RoundWeights,
    sums_of_queries,
)
from precede.risks.top_ranks import TopRanks, TopSums, TopWeights


@dataclass(frozen=True)
class _Parts:
    """Behind a state: terms of all rows as winner and as loser, and the sums over pairs.

    `far` are the queries whose scores are too far apart for plain exponentials; `far_sums` are
    those of their rows, relative to exp(`lift`) of the query.
    """

    weights: RoundWeights
    terms: Floats
    sums: TopSums
    log_query: Floats
    far: Integers
    far_sums: Floats
    lift: Floats


class TopExponentialRisk(RankedExponentialRisk):
    """Exponential loss, weights that end at a rank: O(n)."""

    def __init__(self, layout: QueryLayout, loss: PairLoss, cost: Price, weights: RankWeights):
        super().__init__(layout, loss, cost, weights)
        assert weights.top is not None
        self._ranks: TopRanks = weights.top
        self._piece_query = self._ranks.level_query[self._ranks.pieces.level]
        self._first_piece = self._ranks.pieces.first[layout.query_start[:-1]]

    def state(self, scores: Floats) -> State:
        """Risk and pull at these scores."""
        parts = self._parts(self.at(scores), scores)
        log_value = log_sum_exp(parts.log_query, self.context)
        pull = np.zeros(self.layout.n_used_rows)
        if log_value == -np.inf:  # no pair has any weight
            return State(scores, -np.inf, -np.inf, pull, parts)
        self._spread(parts, exp(parts.lift - log_value), -1.0, pull)
        return State(scores, log_value, log_value + log_of(self.rate), pull, parts)

    def log_value(self, scores: Floats) -> float:
        """Logarithm of the risk, without the pull."""
        return log_sum_exp(self._parts(self.at(scores), scores).log_query, self.context)

    def curvature(self, state: State) -> Floats:
        """Diagonal of the second derivative over the pair mass: the masses of a row's pairs."""
        hessian = np.zeros(self.layout.n_used_rows)
        if state.log_value > -np.inf:
            scale = self.rate * exp(state.cache.lift - state.log_value)
            self._spread(state.cache, scale, 1.0, hessian)
        return hessian

    def edge_weights(self, state: State, values: Bytes) -> EdgeWeights:
        """Shares of the pair mass ordered rightly, wrongly, not at all."""
        if state.log_value == -np.inf:  # no pair has any weight
            return EdgeWeights(0.0, 0.0, 0.0)
        parts: _Parts = state.cache
        by_side = self._meet(parts.weights, parts.terms, values).totals
        lift = np.zeros(len(by_side))
        if parts.far.size:
            up, down = np.zeros((2, self.layout.n_graded))
            self._meet_far_apart(parts.weights, parts.far, state.scores, values, up, down, lift)
            for side in (0, 1):
                of_side = np.where(values[: up.size] == side, up, 0.0)
                by_side[parts.far, side] = sums_of_queries(of_side, self.weights.first)[parts.far]
        by_side *= exp(lift - state.log_value)[:, None]
        right, wrong = exact_sums([by_side[:, 1], by_side[:, 0]], self.context)
        return EdgeWeights(right, wrong, max(0.0, 1.0 - right - wrong))

    def _rows(self, query: int) -> slice:
        return slice(self.weights.first[query], self.weights.first[query + 1])

    def _spread(self, parts: _Parts, scale: Floats, sign: float, out: Floats) -> None:
        """Sums of every row as winner plus, times `sign`, as loser; `scale` is that of queries."""
        top, (winner, loser) = _top_of(parts.weights), parts.terms
        self._ranks.spread(top, parts.sums, winner, loser, sign, scale, out)
        for query in parts.far:
            rows = self._rows(query)
            up, down = parts.far_sums[:, rows]
            out[rows] = scale[query] * (up + sign * down)

    def _parts(self, weights: RoundWeights, scores: Floats) -> _Parts:
        """Terms of all rows and their sums over pairs."""
        ranks, pieces = self._ranks, self._ranks.pieces
        middle, far = self._ends(scores)
        terms = np.empty((2, self.layout.n_graded))
        self.context.run(
            lambda first, last: self._fill(first, last, scores, middle, terms), pieces.count,
            small=ranks.small,
        )  # fmt: skip
        sums = self._meet(weights, terms)
        total, lift = sums.totals[:, 0], np.zeros(middle.size)
        far_sums = np.zeros((2, self.layout.n_graded if far.size else 0))
        if far.size:
            up, down = far_sums
            self._meet_far_apart(weights, far, scores, None, up, down, lift)
            total[far] = sums_of_queries(up, self.weights.first)[far]
        return _Parts(weights, terms, sums, log(total) + lift, far, far_sums, lift)

    def _ends(self, scores: Floats) -> tuple[Floats, Integers]:
        """Middle of the margins of every query, and the queries whose margins are far apart."""
        ends = np.empty((2, self._piece_query.size))
        self.context.run(
            _ends_of_pieces, self._piece_query.size, self._ranks.pieces.start, scores, ends,
            small=self._ranks.small,
        )  # fmt: skip
        if not self._first_piece.size:
            return np.zeros(0), np.zeros(0, np.int64)
        low = self.rate * np.minimum.reduceat(ends[0], self._first_piece)
        high = self.rate * np.maximum.reduceat(ends[1], self._first_piece)
        return 0.5 * (low + high), np.flatnonzero(high - low > WIDEST)

    def _fill(self, first: int, last: int, scores: Floats, middle: Floats, terms: Floats) -> None:
        """Terms of some pieces; exponentials of one array are taken several at a time."""
        start = self._ranks.pieces.start
        rows = slice(start[first], start[last])
        winner, loser = terms[:, rows]
        _center(first, last, start, self._piece_query, scores, self.rate, middle, terms[1])
        exp_inplace(loser)
        np.divide(self.layout.weight[rows], loser, out=winner)
        loser *= self.layout.loser_weight[rows]

    def _meet(self, weights: RoundWeights, terms: Floats, apart: Bytes | None = None) -> TopSums:
        return self._ranks.meet(
            _top_of(weights), weights.scores, (weights.plain, weights.factor), *terms, apart=apart
        )


def _top_of(weights: RoundWeights) -> TopWeights:
    assert weights.top is not None
    return weights.top


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _ends_of_pieces(first: int, last: int, start: Integers, scores: Floats, ends: Floats) -> None:
    for piece in range(first, last):
        least, most = np.inf, -np.inf
        for row in range(start[piece], start[piece + 1]):
            least = min(least, scores[row])
            most = max(most, scores[row])
        ends[0, piece], ends[1, piece] = least, most


@njit(cache=True, nogil=True)
def _center(
    first: int, last: int, start: Integers, piece_query: Integers, scores: Floats, rate: float,
    middle: Floats, out: Floats,
) -> None:  # fmt: skip
    """Margins less the middle of their query, no further from it than exponentials allow."""
    for piece in range(first, last):
        center = middle[piece_query[piece]]
        for row in range(start[piece], start[piece + 1]):
            out[row] = min(max(rate * scores[row] - center, -300.0), 300.0)
