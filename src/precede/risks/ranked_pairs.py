"""Logistic and squared hinge risk with weights by rank: every pair once, none stored.

As in `precede.risks.short_queries` the losers of a winner are the rows before its level, and
the inner loops run over neighbours. Where ranks beyond k weigh nothing, a winner beyond them
meets the losers within them only: O(k) instead of all.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from precede.engine.arrangement import Arrangement
from precede.engine.arrays import Bytes, Floats, Integer, Integers
from precede.engine.compiling import INNER
from precede.engine.exact import exact_sums, sum_of
from precede.losses import PairLoss, Price
from precede.risks.base import Masses, State
from precede.risks.rank_weights import RankWeightedRisk, RankWeights, RoundWeights

__all__ = ["RankedPairsRisk"]

# With more pairs for each row than this a fit would hardly end.
MOST_PAIRS = 50_000
# Logistic losses of a query are computed from exponentials if its scores are no further apart.
NARROW = 80.0


class RankedPairsRisk(RankWeightedRisk):
    """Logistic or squared hinge loss, linear price, weights by rank: O(pairs), O(n) memory.

    `State.parts` holds the curvature, divided by the mass as the pull is.
    """

    def __init__(self, arrangement: Arrangement, loss: PairLoss, cost: Price, weights: RankWeights):
        super().__init__(arrangement, loss, cost, weights)
        if loss.pair_kernel not in ("logistic", "squared_hinge"):
            raise ValueError(
                f"rank_weight={weights.rule!r} is for the exponential, the logistic and the "
                f"squared hinge loss, not for {loss!r}; use one of them, or rank_weight=None"
            )
        self._logistic = loss.pair_kernel == "logistic"
        self._knot = 0.0 if self._logistic else loss.form.knot  # type: ignore[union-attr]
        rule = weights.rule
        # Pairs of two rows without a discount have no weight.
        self._sparse = rule.k is not None and rule.blend == 0 and rule.discount is not None
        if not self._sparse:
            self._refuse_many_pairs()

    def _refuse_many_pairs(self) -> None:
        arrangement = self.arrangement
        count = np.array([arrangement.count_graded_pairs(), arrangement.n_arranged], np.float64)
        pairs, rows = sum_of(lambda: count, self.workers)
        if pairs > MOST_PAIRS * rows:
            raise ValueError(
                f"rank_weight={self.weights.rule!r} with {self.loss!r} goes through all "
                f"{pairs:.3g} pairs in every round; use loss='exponential', which lists none, "
                "or a cut-off such as 'ndcg@10' without a blend"
            )

    def state(self, scores: Floats) -> State:
        """Risk, pull and curvature at these scores, in one pass."""
        arrangement = self.arrangement
        pull, hessian = np.zeros(arrangement.n_arranged), np.zeros(arrangement.n_arranged)
        weights = self.at(scores)
        sums = self._sums(weights, scores, arrangement.weight, arrangement.outer, pull, hessian)
        value, mass = exact_sums([sums[:, 0], sums[:, 1]], self.workers)
        if mass <= 0:  # every pair is beyond its margin: nothing pulls
            return State(scores, -np.inf, -np.inf, np.zeros_like(pull), np.zeros_like(hessian))
        log_value = float(np.log(value)) if value > 0 else -np.inf
        return State(scores, log_value, float(np.log(mass)), pull / mass, hessian / mass)

    def _sums(
        self, weights: RoundWeights, scores: Floats, winner: Floats, loser: Floats,
        pull: Floats, hessian: Floats,
    ) -> Floats:  # fmt: skip
        """Value and mass of every query; pull and curvature are added to the arrays."""
        arrangement, ranked = self.arrangement, self.weights
        at = scores[: arrangement.n_graded]
        if self.loss.gap:
            at = at - arrangement.grade[: arrangement.n_graded]
        queries = ranked.first.size - 1
        sums = np.zeros((queries, 2))
        self.workers.run(
            _pairs_of_queries, queries, arrangement.level_start, arrangement.query_start,
            int(np.diff(ranked.first).max(initial=0)), self._logistic, self._knot, self._sparse,
            at, weights.scores, ranked.gain, weights.discount, weights.tied, weights.plain,
            weights.factor, ranked.flat, winner, loser, pull, hessian, sums, small=ranked.small,
        )  # fmt: skip
        return sums

    def curvature(self, state: State) -> Floats:
        """Diagonal of the second derivative over the pair mass: known with the state."""
        hessian: Floats = state.parts
        return hessian

    def masses(self, state: State, values: Bytes) -> Masses:
        """Shares of the pair mass ordered rightly, wrongly, not at all."""
        arrangement, weights = self.arrangement, self.at(state.scores)
        if state.log_mass == -np.inf:
            return Masses(0.0, 0.0, 0.0)
        unused = np.zeros((2, arrangement.n_arranged))
        found = []
        for above in (1, 0):
            winner = np.where(values == above, arrangement.weight, 0.0)
            loser = np.where(values == above, 0.0, arrangement.outer)
            sums = self._sums(weights, state.scores, winner, loser, *unused)
            found.append(sums[:, 1] * np.exp(-state.log_mass))
        right, wrong = exact_sums(found, self.workers)
        return Masses(right, wrong, max(0.0, 1.0 - right - wrong))


# -- kernels ---------------------------------------------------------------------------------
#
# Rows of `items`: what a loop over losers reads, for all rows of a query or for those with a
# discount only. Rows of `work`: what it writes.

_AT, _RANKED, _GAIN, _DISCOUNT, _SHARE, _DOWN, _CURVE = range(7)
_WEIGHT, _SLOPE, _CURVATURE, _LOSS = range(4)


@njit(cache=True, nogil=True)
def _pairs_of_queries(
    low: int, high: int, level_start: Integers, query_start: Integers, longest: int,
    logistic: bool, knot: float, sparse: bool, scores: Floats, ranked: Floats, gain: Floats,
    discount: Floats, tied: Floats, plain: Floats, factor: Floats, flat: float, weight: Floats,
    outer: Floats, pull: Floats, hessian: Floats, sums: Floats,
) -> None:  # fmt: skip
    """Value and mass of every query into `sums`; pull and curvature of its rows."""
    every, top = np.empty((7, longest)), np.empty((7, longest))
    where = np.empty(longest, np.int64)
    work = np.empty((4, longest))
    for query in range(low, high):
        bottom, summit = query_start[query], query_start[query + 1]
        first, last = level_start[bottom], level_start[summit]
        here = scores[first:last]
        wide = here.max() - here.min()
        middle = 0.5 * (here.max() + here.min())
        narrow = logistic and wide < NARROW
        every[_AT, : last - first] = np.exp(here - middle) if narrow else here
        chosen = _gather(first, last, sparse, ranked, gain, discount, outer, every, top, where)
        kind = 0 if narrow else 1 if logistic else 2
        pair_factor, pair_plain = factor[query], plain[query]
        value, of_pairs, losing = 0.0, 0.0, 0
        for level in range(bottom + 1, summit):
            losers = level_start[level] - first
            while losing < chosen and where[losing] < losers:
                losing += 1
            for row in range(level_start[level], level_start[level + 1]):
                own = weight[row]
                if own == 0.0:
                    continue
                few = sparse and discount[row] == 0.0
                items, count = (top, losing) if few else (every, losers)
                met = _weigh(
                    items, count, ranked[row], gain[row], discount[row], tied[row],
                    flat, own * pair_plain, own * pair_factor, work[_WEIGHT],
                )  # fmt: skip
                of_pairs += met
                up, curved, loss = _meet(items, count, every[_AT, row - first], kind, knot, work)
                value += loss
                pull[row] += up
                hessian[row] += curved
        for j in range(chosen):
            every[_DOWN, where[j]] += top[_DOWN, j]
            every[_CURVE, where[j]] += top[_CURVE, j]
        mass = 0.0
        for k in range(last - first):
            mass += every[_DOWN, k]
            pull[first + k] -= every[_DOWN, k]
            hessian[first + k] += every[_CURVE, k]
        if narrow and value < 1e-6 * of_pairs:
            value = _small_losses(
                every, level_start, bottom, summit, tied, flat, pair_plain, pair_factor, weight,
                work[_WEIGHT],
            )  # fmt: skip
        sums[query, 0], sums[query, 1] = value, mass


@njit(**INNER)
def _gather(
    first: Integer, last: Integer, sparse: bool, ranked: Floats, gain: Floats, discount: Floats,
    outer: Floats, every: Floats, top: Floats, where: Integers,
) -> int:  # fmt: skip
    """Copy what loops over losers read; gives how many rows have a discount, if asked for."""
    chosen = 0
    for row in range(first, last):
        k = row - first
        every[_RANKED, k] = ranked[row]
        every[_GAIN, k] = gain[row]
        every[_DISCOUNT, k] = discount[row]
        every[_SHARE, k] = outer[row]
        every[_DOWN, k] = 0.0
        every[_CURVE, k] = 0.0
        if sparse and discount[row] > 0.0:
            top[:, chosen] = every[:, k]
            where[chosen] = k
            chosen += 1
    return chosen


@njit(cache=True, nogil=True)
def _weigh(
    items: Floats, count: Integer, ranked: float, gain: float, discount: float, tied: float,
    flat: float, plain: float, factor: float, weight: Floats,
) -> float:  # fmt: skip
    """Weights of the pairs of a winner and its losers; gives their sum."""
    scores, gains, discounts, share = (
        items[_RANKED], items[_GAIN], items[_DISCOUNT], items[_SHARE],
    )  # fmt: skip
    for k in range(count):
        apart = abs(discount - discounts[k]) + flat
        apart += tied if scores[k] == ranked else 0.0
        weight[k] = share[k] * (plain + factor * (gain - gains[k]) * apart)
    return _total(weight, count)


@njit(**INNER)
def _meet(
    items: Floats, count: Integer, at: float, kind: int, knot: float, work: Floats
) -> tuple[float, float, float]:
    """Pull, curvature and loss of a winner; those of its losers are added to theirs."""
    weight, slope, curvature, loss = work[_WEIGHT], work[_SLOPE], work[_CURVATURE], work[_LOSS]
    if kind == 0:
        _narrow_terms(items[_AT], count, at, slope, curvature, loss)
    elif kind == 1:
        _wide_terms(items[_AT], count, at, slope, curvature, loss)
    else:
        _hinge_terms(items[_AT], count, knot - at, slope, curvature, loss)
    down, curve = items[_DOWN], items[_CURVE]
    for k in range(count):
        slope[k] *= weight[k]
        down[k] += slope[k]
    for k in range(count):
        curvature[k] *= weight[k]
        curve[k] += curvature[k]
    for k in range(count):
        loss[k] *= weight[k]
    return _total(slope, count), _total(curvature, count), _total(loss, count)


@njit(**INNER)
def _narrow_terms(
    at: Floats, count: Integer, own: float, slope: Floats, curvature: Floats, loss: Floats
) -> None:
    """Logistic losses; `at` and `own` are exponentials of scores."""
    inverse = 1.0 / own
    for k in range(count):
        odds = 1.0 + at[k] * inverse
        right = np.divide(1.0, odds)  # chance of the right order
        loss[k] = odds
        slope[k] = at[k] * inverse * right
        curvature[k] = at[k] * inverse * right * right
    _logarithms(loss, count)


@njit(**INNER)
def _logarithms(values: Floats, count: Integer) -> None:
    """Replace numbers from 1 by their logarithms."""
    for k in range(count):
        values[k] = np.log(values[k])


@njit(**INNER)
def _wide_terms(
    at: Floats, count: Integer, own: float, slope: Floats, curvature: Floats, loss: Floats
) -> None:
    """Logistic losses of scores too far apart for plain exponentials."""
    for k in range(count):
        margin = own - at[k]
        small = np.exp(-abs(margin))
        slope[k] = (small if margin > 0 else 1.0) / (1.0 + small)
        curvature[k] = small / ((1.0 + small) * (1.0 + small))
        loss[k] = np.log1p(small) + max(-margin, 0.0)


@njit(**INNER)
def _hinge_terms(
    at: Floats, count: Integer, reach: float, slope: Floats, curvature: Floats, loss: Floats
) -> None:
    """Squared hinges."""
    for k in range(count):
        short = reach + at[k]
        slope[k] = 2.0 * short if short > 0.0 else 0.0
    for k in range(count):
        curvature[k] = 2.0 if slope[k] > 0.0 else 0.0
    for k in range(count):
        loss[k] = 0.25 * slope[k] * slope[k]


@njit(**INNER)
def _small_losses(
    every: Floats, level_start: Integers, bottom: Integer, summit: Integer, tied: Floats,
    flat: float, plain: float, factor: float, weight: Floats, work: Floats,
) -> float:  # fmt: skip
    """Logistic losses of a query whose pairs are all far in order.

    There ``1 + exp(-m)`` loses the digits of the exponential, or all of it.
    """
    first, value = level_start[bottom], 0.0
    for level in range(bottom + 1, summit):
        losers = level_start[level] - first
        for row in range(level_start[level], level_start[level + 1]):
            i = row - first
            _weigh(
                every, losers, every[_RANKED, i], every[_GAIN, i], every[_DISCOUNT, i],
                tied[row], flat, weight[row] * plain, weight[row] * factor, work,
            )  # fmt: skip
            for k in range(losers):
                value += work[k] * np.log1p(every[_AT, k] / every[_AT, i])
    return value


@njit(cache=True, nogil=True)
def _total(values: Floats, count: Integer) -> float:
    """Sum in eight strands, which do not wait for each other."""
    a, b, c, d, e, f, g, h = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    whole = count - count % 8
    for k in range(0, whole, 8):
        a += values[k]
        b += values[k + 1]
        c += values[k + 2]
        d += values[k + 3]
        e += values[k + 4]
        f += values[k + 5]
        g += values[k + 6]
        h += values[k + 7]
    for k in range(whole, count):
        a += values[k]
    return ((a + b) + (c + d)) + ((e + f) + (g + h))
