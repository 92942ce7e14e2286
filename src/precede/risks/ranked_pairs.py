"""Logistic and hinge risks with weights by rank: every pair once, none stored.

As in `precede.risks.short_queries` the losers of a winner are the rows before its level, its
winners those after it, and the inner loops run over neighbors. With a cut-off at rank k only rows
within the first k ranks have a discount, and only their pairs are enumerated: O(k) pairs per row.

Tied rows share their ranks. In the first round all rows are tied, so all of them have a discount,
and enumerating their pairs would take quadratic time. Such a large group of tied rows (a *crowd*)
is summed by *classes*: rows of the crowd whose scores are also equal at the scores where the risk
is evaluated. All pairs of a class with one row have the same margin, and their weights
``G_i - G_k`` are summed level by level. This takes O(n) for each class, and there are at most as
many classes as the last weak ranker has values.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from precede.engine.arrays import Bytes, Flags, Floats, Integer, Integers
from precede.engine.compiling import INNER
from precede.engine.exact import all_reduce_sum, exact_sums
from precede.engine.portable import exp_of, log_of
from precede.engine.portable_kernels import portable_exp, portable_log1p
from precede.engine.query_layout import QueryLayout
from precede.losses import PairLoss, Price
from precede.risks.base import EdgeWeights, State
from precede.risks.rank_weights import RankWeightedRisk, RankWeights, RoundWeights
from precede.risks.short_queries import DEGREES

__all__ = ["RankedPairsRisk"]

# With more pairs for each row than this a fit would hardly end.
MOST_PAIRS = 50_000
# In lists of more rows than LONG, more rows than CROWD that share a rank with a weight are a crowd.
LONG, CROWD = 1024, 64
# Pairs of classes and rows in one call, which then takes a second or two.
CALL = 1 << 27
# Logistic losses of a query are computed from exponentials if its scores are no further apart.
NARROW = 80.0


class RankedPairsRisk(RankWeightedRisk):
    """Logistic, hinge or squared hinge loss, linear price, weights by rank: O(pairs), O(n) memory.

    `State.parts` holds the curvature, divided by the mass as the pull is.
    """

    def __init__(self, layout: QueryLayout, loss: PairLoss, cost: Price, weights: RankWeights):
        super().__init__(layout, loss, cost, weights)
        if loss.pair_kernel not in DEGREES:
            raise ValueError(
                f"rank_weight={weights.rule!r} is for the exponential, the logistic and the two "
                f"hinge losses, not for {loss!r}; use one of them, or rank_weight=None"
            )
        self._degree = DEGREES[loss.pair_kernel]
        self._knot = loss.form.knot if self._degree else 0.0  # type: ignore[union-attr]
        self._longest = int(np.diff(weights.first).max(initial=0))
        self._long = np.flatnonzero(np.diff(weights.first) > LONG).tolist()
        rule = weights.rule
        # Pairs of two rows without a discount have no weight.
        self._sparse = rule.k is not None and rule.blend == 0 and rule.discount is not None
        if not self._sparse:
            self._refuse_many_pairs()

    def _refuse_many_pairs(self) -> None:
        layout = self.layout
        count = np.array([layout.count_graded_pairs(), layout.n_used_rows], np.float64)
        pairs, rows = all_reduce_sum(lambda: count, self.context)
        if pairs > MOST_PAIRS * rows:
            raise ValueError(
                f"rank_weight={self.weights.rule!r} with {self.loss!r} goes through all "
                f"{pairs:.3g} pairs in every round; use loss='exponential', which lists none, "
                "or a cut-off such as 'ndcg@10' without a blend"
            )

    def log_value(self, scores: Floats) -> float:
        """Logarithm of the risk, without the pull."""
        layout, unused = self.layout, np.zeros(0)
        sums = self._sums(
            self.at(scores), scores, layout.weight, layout.loser_weight, unused, unused
        )
        (value,) = exact_sums([sums[:, 0]], self.context)
        return log_of(value) if value > 0 else -np.inf

    def state(self, scores: Floats) -> State:
        """Risk, pull and curvature at these scores, in one pass."""
        return self.first_state(scores, value=True)

    def first_state(self, scores: Floats, *, value: bool) -> State:
        """The same; most of the time goes into the logarithms of the value."""
        layout = self.layout
        pull, hessian = np.zeros(layout.n_used_rows), np.zeros(layout.n_used_rows)
        sums = self._sums(
            self.at(scores), scores, layout.weight, layout.loser_weight, pull, hessian,
            value=value,
        )  # fmt: skip
        total, mass = exact_sums([sums[:, 0], sums[:, 1]], self.context)
        if mass <= 0:  # every pair is beyond its margin: nothing pulls
            return State(scores, -np.inf, -np.inf, np.zeros_like(pull), np.zeros_like(hessian))
        log_value = np.nan if not value else log_of(total) if total > 0 else -np.inf
        return State(scores, log_value, log_of(mass), pull / mass, hessian / mass)

    def _sums(
        self, weights: RoundWeights, scores: Floats, winner: Floats, loser: Floats,
        pull: Floats, hessian: Floats, *, value: bool = True,
    ) -> Floats:  # fmt: skip
        """Value and mass of every query; pull and curvature are added to the arrays, if any."""
        layout, ranked = self.layout, self.weights
        at = scores[: layout.n_graded]
        if self.loss.gap:
            at = at - layout.grade[: layout.n_graded]
        queries = ranked.first.size - 1
        sums = np.zeros((queries, 2))
        alone, crowds = None, self._crowds(weights, at)
        if crowds:
            alone = weights.discount > 0
            alone[np.concatenate([rows for each in crowds.values() for rows in each])] = False
        self.context.run(
            _pairs_of_queries, queries, layout.level_start, layout.query_start,
            self._longest, self._degree, self._knot, self._sparse, at, weights.scores,
            ranked.gain, weights.discount, weights.tied, weights.plain, weights.factor, ranked.flat,
            winner, loser, value, alone, pull, hessian, sums, small=ranked.small,
        )  # fmt: skip
        if alone is not None:
            sides, slopes = (winner, loser, alone), (pull, hessian)
            self._sum_crowds(crowds, weights, at, sides, slopes, sums)
        return sums

    def _sum_crowds(
        self, crowds: dict[int, list[Integers]], weights: RoundWeights, at: Floats,
        sides: tuple[Floats, Floats, Flags], slopes: tuple[Floats, Floats], sums: Floats,
    ) -> None:  # fmt: skip
        """Add the pairs of crowds; some of them in each call, so that Ctrl-C can end it.

        `sides` are the weights of rows as winners and losers, and whether they are in no crowd.
        """
        ranked, layout = self.weights, self.layout
        for query, classes in crowds.items():
            bottom, top = layout.query_start[query : query + 2]
            size = ranked.first[query + 1] - ranked.first[query]
            for part in np.array_split(np.arange(len(classes)), 1 + len(classes) * size // CALL):
                rows = [classes[each] for each in part]
                _meet_classes(
                    np.cumsum([0, *map(len, rows)]), np.concatenate(rows), bottom, top,
                    layout.level_start, self._degree, self._knot, at, weights.scores,
                    ranked.gain, weights.discount, weights.tied, weights.factor[query], *sides,
                    *slopes, sums[query],
                )  # fmt: skip

    def _crowds(self, weights: RoundWeights, at: Floats) -> dict[int, list[Integers]]:
        """Classes of the rows that share a discount with many, at these scores, by query."""
        found = {query: self._classes(query, weights, at) for query in self._long if self._sparse}
        most = max(map(len, found.values()), default=0)
        if most > MOST_PAIRS:
            raise ValueError(
                f"rank_weight={self.weights.rule!r} with {self.loss!r} goes through all pairs of "
                f"{most} rows that have equal scores where a round begins and different ones after "
                "it; use rankers of few values, such as trees, or loss='exponential', which lists "
                "no pair"
            )
        return {query: classes for query, classes in found.items() if classes}

    def _classes(self, query: int, weights: RoundWeights, at: Floats) -> list[Integers]:
        """Rows of every class of a query."""
        low, high = self.weights.first[query : query + 2]
        rows = low + np.flatnonzero(weights.discount[low:high] > 0)
        if rows.size <= CROWD:
            return []
        rows = rows[np.lexsort((at[rows], weights.scores[rows]))]
        shared = np.split(rows, 1 + np.flatnonzero(np.diff(weights.scores[rows])))
        return [
            rows
            for crowd in shared
            if crowd.size > CROWD
            for rows in np.split(crowd, 1 + np.flatnonzero(np.diff(at[crowd])))
        ]

    def curvature(self, state: State) -> Floats:
        """Diagonal of the second derivative over the pair mass: known with the state."""
        hessian: Floats = state.parts
        return hessian

    def edge_weights(self, state: State, values: Bytes) -> EdgeWeights:
        """Shares of the pair mass ordered rightly, wrongly, not at all."""
        layout, weights = self.layout, self.at(state.scores)
        if state.log_gradient_sum == -np.inf:
            return EdgeWeights(0.0, 0.0, 0.0)
        unused = np.zeros((2, layout.n_used_rows))
        found = []
        for above in (1, 0):
            winner = np.where(values == above, layout.weight, 0.0)
            loser = np.where(values == above, 0.0, layout.loser_weight)
            sums = self._sums(weights, state.scores, winner, loser, *unused)
            found.append(sums[:, 1] * exp_of(-state.log_gradient_sum))
        right, wrong = exact_sums(found, self.context)
        return EdgeWeights(right, wrong, max(0.0, 1.0 - right - wrong))


# -- kernels ---------------------------------------------------------------------------------
#
# Rows of `items`: what loops over the rows of a query read, then what they add to. Rows of `work`:
# what they leave for one another. Loops are short and over few arrays each: the compiler then takes
# several pairs at a time, which it does not dare in one long loop, nor with a division that could
# raise.

_AT, _INVERSE, _RANKED, _GAIN, _DISCOUNT, _TIED, _LOSE, _WIN, _ALONE, _DOWN, _UP, _CURVE = range(12)
_WEIGHT, _SLOPE, _CURVATURE, _LOSS = range(4)
# Logistic losses of margins that are all far in order, where ``1 + exp(-m)`` loses the digits of
# the exponential; of margins that are close together; of any; hinges; and squared hinges.
_SMALL, _NARROW, _WIDE, _HINGE, _SQUARED = range(5)


@njit(cache=True, nogil=True)
def _pairs_of_queries(
    low: int, high: int, level_start: Integers, query_start: Integers, longest: int,
    degree: int, knot: float, sparse: bool, scores: Floats, ranked: Floats, gain: Floats,
    discount: Floats, tied: Floats, plain: Floats, factor: Floats, flat: float, weight: Floats,
    loser_weight: Floats, valued: bool, alone: Flags | None, pull: Floats, hessian: Floats,
    sums: Floats,
) -> None:  # fmt: skip
    """Value and mass of every query into `sums`; pull and curvature of its rows, if wanted.

    `alone` are the rows with a discount that are in no crowd; None where there are no crowds.
    """
    items, work = np.empty((12, longest)), np.empty((4, longest))
    slopes = pull.size > 0
    for query in range(low, high):
        bottom, top = query_start[query], query_start[query + 1]
        first, last = level_start[bottom], level_start[top]
        items[_RANKED, : last - first] = ranked[first:last]
        items[_GAIN, : last - first] = gain[first:last]
        items[_DISCOUNT, : last - first] = discount[first:last]
        items[_TIED, : last - first] = tied[first:last]
        items[_LOSE, : last - first] = loser_weight[first:last]
        items[_WIN, : last - first] = weight[first:last]
        items[_DOWN:, : last - first] = 0.0
        kind = _read_scores(scores, first, last, degree, items)
        share, by_rank = plain[query], factor[query]
        some = sparse and _is_sparse(items[_DISCOUNT, : last - first])
        for k in range(last - first):
            items[_ALONE, k] = 1.0 if items[_DISCOUNT, k] > 0.0 else 0.0
            if alone is not None and not alone[first + k] and items[_ALONE, k] > 0.0:
                items[_ALONE, k], some = 0.0, True
        value, weighed = _meet_all(
            level_start, bottom, top, some, kind, slopes, valued, share, by_rank, flat, knot, items,
            work,
        )  # fmt: skip
        if kind == _NARROW and valued and value < 1e-6 * weighed:
            value, _ = _meet_all(
                level_start, bottom, top, some, _SMALL, False, True, share, by_rank, flat, knot,
                items, work,
            )  # fmt: skip
        sums[query, 0] = value
        if slopes:
            sums[query, 1] = _settle(first, last, items, pull, hessian)


@njit(**INNER)
def _read_scores(scores: Floats, first: Integer, last: Integer, degree: int, items: Floats) -> int:
    """Scores of a query, or their exponentials if they are close together; gives the kind."""
    least, most = scores[first], scores[first]
    for row in range(first, last):
        least, most = min(least, scores[row]), max(most, scores[row])
    if degree > 0 or most - least >= NARROW:
        items[_AT, : last - first] = scores[first:last]
        return _WIDE + degree
    middle = 0.5 * (most + least)
    for row in range(first, last):
        items[_AT, row - first] = portable_exp(scores[row] - middle)
    for k in range(last - first):
        items[_INVERSE, k] = np.divide(1.0, items[_AT, k])
    return _NARROW


@njit(**INNER)
def _is_sparse(discount: Floats) -> bool:
    """Whether less than half of the rows have a discount."""
    count = 0
    for each in discount:
        count += each > 0.0
    return 2 * count < discount.size


@njit(**INNER)
def _settle(first: Integer, last: Integer, items: Floats, pull: Floats, hessian: Floats) -> float:
    """Give the rows of a query what they gathered; returns the mass."""
    mass = 0.0
    for k in range(last - first):
        mass += items[_DOWN, k]
        pull[first + k] += items[_UP, k] - items[_DOWN, k]
        hessian[first + k] += items[_CURVE, k]
    return mass


@njit(**INNER)
def _meet_all(
    level_start: Integers, bottom: Integer, top: Integer, sparse: bool, kind: int, slopes: bool,
    valued: bool, plain: float, factor: float, flat: float, knot: float, items: Floats,
    work: Floats,
) -> tuple[float, float]:  # fmt: skip
    """Value of a query and the weight of its pairs.

    If `sparse`, rows that have a discount and are in no crowd meet all others, as winners and as
    losers; a pair of two of them is met by its winner. Otherwise all winners meet their losers.
    """
    first, size = level_start[bottom], level_start[top] - level_start[bottom]
    value, weighed = 0.0, 0.0
    for level in range(bottom, top):
        low, high = level_start[level] - first, level_start[level + 1] - first
        for i in range(low, high):
            if sparse and items[_ALONE, i] == 0.0:
                continue
            own = items[_WIN, i]
            if own > 0.0 and low > 0:
                loss, weight = _meet(
                    i, 0, low, 1.0, own, kind, slopes, valued, plain, factor, flat, knot, items,
                    work,
                )  # fmt: skip
                value, weighed = value + loss, weighed + weight
            own = items[_LOSE, i]
            if sparse and own > 0.0 and high < size:
                loss, weight = _meet(
                    i, high, size, -1.0, own, kind, slopes, valued, plain, factor, flat, knot,
                    items, work,
                )  # fmt: skip
                value, weighed = value + loss, weighed + weight
    return value, weighed


@njit(**INNER)
def _meet(
    i: Integer, low: Integer, high: Integer, sign: float, own: float, kind: int, slopes: bool,
    valued: bool, plain: float, factor: float, flat: float, knot: float, items: Floats,
    work: Floats,
) -> tuple[float, float]:  # fmt: skip
    """Meet the rows low..high, which lose against row i (sign 1) or win: loss and weight."""
    count = high - low
    weight, slope, curvature, loss = work[_WEIGHT], work[_SLOPE], work[_CURVATURE], work[_LOSS]
    share = items[_LOSE if sign > 0.0 else _WIN, low:high]
    _weigh(
        items[_RANKED, low:high], items[_GAIN, low:high], items[_DISCOUNT, low:high], share,
        items[_RANKED, i], items[_GAIN, i], items[_DISCOUNT, i], items[_TIED, i], flat,
        own * plain, sign * own * factor, weight,
    )  # fmt: skip
    if sign < 0.0:
        _leave_out(items[_ALONE, low:high], weight)
    if kind <= _NARROW:
        base = items[_INVERSE if sign > 0.0 else _AT, i]
        at = items[_AT if sign > 0.0 else _INVERSE, low:high]
        if slopes:
            _narrow_slopes(at, base, weight, slope, curvature)
        if valued:
            _narrow_losses(at, base, weight, kind, loss)
    elif kind == _WIDE:
        _wide_terms(items[_AT, low:high], items[_AT, i], sign, weight, slope, curvature, loss)
    elif kind == _HINGE:
        at = items[_AT, low:high]
        _hinge_terms(at, items[_AT, i], sign, knot, weight, slope, curvature, loss)
    else:
        at = items[_AT, low:high]
        _squared_terms(at, items[_AT, i], sign, knot, weight, slope, curvature, loss)
    if slopes:
        _add_each(slope, items[_DOWN if sign > 0.0 else _UP, low:high])
        _add_each(curvature, items[_CURVE, low:high])
        items[_UP if sign > 0.0 else _DOWN, i] += _total(slope, count)
        items[_CURVE, i] += _total(curvature, count)
    if not valued:
        return 0.0, 0.0
    return _total(loss, count), _total(weight, count)


@njit(**INNER)
def _leave_out(alone: Floats, weight: Floats) -> None:
    """Leave out rows that meet their losers themselves."""
    for k in range(alone.size):
        weight[k] = 0.0 if alone[k] > 0.0 else weight[k]


@njit(cache=True, nogil=True)
def _meet_classes(
    start: Integers, members: Integers, bottom: int, top: int, level_start: Integers, degree: int,
    knot: float, scores: Floats, ranked: Floats, gain: Floats, discount: Floats, tied: Floats,
    factor: float, winner: Floats, loser: Floats, alone: Flags, pull: Floats, hessian: Floats,
    total: Floats,
) -> None:  # fmt: skip
    """Pairs of some classes of a query: value and mass into `total`, slopes into the rest.

    As winners the rows of a class meet all rows that do not meet them themselves, as losers
    those without a discount. Rows of `sums`: of the class by level, then slopes and curvatures
    of those that it meets; then the same with gaps of gains.
    """
    gains, sums = gain[level_start[bottom:top]], np.empty((3, top - bottom))
    for each in range(2 * (start.size - 1)):
        role = 1.0 - 2.0 * (each % 2)
        rows = members[start[each // 2] : start[each // 2 + 1]]
        share, other = (winner, loser) if role > 0.0 else (loser, winner)
        sums[:] = 0.0
        _sum_levels(rows, level_start, bottom, share, sums[0])
        _sum_gaps(gains, sums[0], -role)
        for level in range(bottom, top):
            if sums[0, level - bottom] > 0.0:
                _meet_level(
                    rows[0], level_start[level], level_start[level + 1], role, degree, knot, scores,
                    ranked, discount, tied, factor, other, alone, pull, hessian,
                    sums[:, level - bottom], total,
                )  # fmt: skip
        if pull.size:
            _sum_gaps(gains, sums[1], role)
            _sum_gaps(gains, sums[2], role)
            _give_levels(rows, level_start, bottom, share, role, sums, pull, hessian)


@njit(**INNER)
def _meet_level(
    one: Integer, first: Integer, last: Integer, role: float, degree: int, knot: float,
    scores: Floats, ranked: Floats, discount: Floats, tied: Floats, factor: float, other: Floats,
    alone: Flags, pull: Floats, hessian: Floats, sums: Floats, total: Floats,
) -> None:  # fmt: skip
    """The rows first..last of a level meet a class, of which `one` is a row."""
    value, slopes, curvatures = 0.0, 0.0, 0.0
    for k in range(first, last):
        if alone[k] or (role < 0.0 and discount[k] > 0.0):
            continue
        apart = abs(discount[one] - discount[k]) + (tied[one] if ranked[one] == ranked[k] else 0.0)
        weight = other[k] * factor * apart
        margin = role * (scores[one] - scores[k])
        loss, slope, curvature = _loss_of_pair(margin, degree, knot)
        value += weight * loss
        slopes += weight * slope
        curvatures += weight * curvature
        if pull.size:
            pull[k] -= role * sums[0] * (weight * slope)
            hessian[k] += sums[0] * (weight * curvature)
    total[0] += sums[0] * value
    total[1] += sums[0] * slopes
    sums[1], sums[2] = slopes, curvatures


@njit(**INNER)
def _sum_levels(
    rows: Integers, level_start: Integers, bottom: Integer, share: Floats, sums: Floats
) -> None:
    """Sums of the rows of a class by level."""
    level = bottom
    for row in rows:
        while row >= level_start[level + 1]:
            level += 1
        sums[level - bottom] += share[row]


@njit(**INNER)
def _give_levels(
    rows: Integers, level_start: Integers, bottom: Integer, share: Floats, role: float,
    sums: Floats, pull: Floats, hessian: Floats,
) -> None:  # fmt: skip
    """Add the slopes and curvatures with those that a class met to its rows."""
    level = bottom
    for row in rows:
        while row >= level_start[level + 1]:
            level += 1
        pull[row] += role * share[row] * sums[1, level - bottom]
        hessian[row] += share[row] * sums[2, level - bottom]


@njit(**INNER)
def _sum_gaps(gain: Floats, sums: Floats, way: float) -> None:
    """Replace sums x of levels by ``sum_j |G_l - G_j| x_j`` over lower levels j (way 1), or higher.

    Nothing is subtracted but gains, so no digit is lost.
    """
    total, gap = 0.0, 0.0
    for j in range(gain.size):
        here = j if way > 0.0 else gain.size - 1 - j
        if j > 0:
            gap += abs(gain[here] - gain[here - 1 if way > 0.0 else here + 1]) * total
        total += sums[here]
        sums[here] = gap


@njit(**INNER)
def _loss_of_pair(margin: float, degree: int, knot: float) -> tuple[float, float, float]:
    """Loss, minus its slope and its curvature."""
    if degree == 0:
        small = portable_exp(-abs(margin))
        slope = (small if margin > 0.0 else 1.0) / (1.0 + small)
        curvature = small / ((1.0 + small) * (1.0 + small))
        return portable_log1p(small) + (0.0 if margin > 0.0 else -margin), slope, curvature
    short = knot - margin
    if short <= 0.0:
        return 0.0, 0.0, 0.0
    return (short, 1.0, 0.0) if degree == 1 else (short * short, 2.0 * short, 2.0)


@njit(**INNER)
def _add_each(values: Floats, to: Floats) -> None:
    for k in range(to.size):
        to[k] += values[k]


@njit(**INNER)
def _weigh(
    scores: Floats, gains: Floats, discounts: Floats, share: Floats, ranked: float, gain: float,
    discount: float, tied: float, flat: float, plain: float, factor: float, weight: Floats,
) -> None:  # fmt: skip
    """Weights of the pairs of a row and others."""
    for k in range(share.size):
        apart = abs(discount - discounts[k]) + flat
        weight[k] = apart + (tied if scores[k] == ranked else 0.0)
    for k in range(share.size):
        weight[k] = share[k] * (plain + factor * (gain - gains[k]) * weight[k])


@njit(**INNER)
def _narrow_slopes(
    at: Floats, base: float, weight: Floats, slope: Floats, curvature: Floats
) -> None:
    """Logistic losses; the product of `at` and `base` is exp(-m) for a margin m."""
    for k in range(at.size):
        wrong = at[k] * base
        right = np.divide(1.0, 1.0 + wrong)  # chance of the right order
        slope[k] = weight[k] * (wrong * right)
        curvature[k] = slope[k] * right


@njit(**INNER)
def _narrow_losses(at: Floats, base: float, weight: Floats, kind: int, loss: Floats) -> None:
    if kind == _SMALL:
        for k in range(at.size):
            loss[k] = weight[k] * portable_log1p(at[k] * base)
        return
    for k in range(at.size):
        loss[k] = 1.0 + at[k] * base
    for k in range(at.size):
        loss[k] = weight[k] * _logarithm(loss[k])


@njit(**INNER)
def _logarithm(x: float) -> float:
    """Logarithm of a number from 1 that is no infinity, several of which are taken at a time.

    ``x = 2^n (1 + f)`` with 1 + f near 1, and ``log(1 + f) = 2 atanh(s)`` for ``s = f / (2 + f)``,
    whose series in s² is short for |s| < 0.172.
    """
    bits = np.float64(x).view(np.int64)
    # Bits of sqrt(1/2): what is above it belongs to the next power of two.
    exponent = (bits - 4604544271217802189) >> 52
    f = np.int64(bits - (exponent << 52)).view(np.float64) - 1.0
    # A number below 2^51 added to the bits of 1.5 · 2^52 is added to the float as well.
    n = np.int64(exponent + 4843621399236968448).view(np.float64) - 6755399441055744.0
    s = np.divide(f, 2.0 + f)
    z = s * s
    square, fourth = z * z, (z * z) * (z * z)
    # In pairs of pairs, which do not wait for each other.
    first = (1 / 3 + z * (1 / 5)) + square * (1 / 7 + z * (1 / 9))
    second = (1 / 11 + z * (1 / 13)) + square * (1 / 15 + z * (1 / 17))
    series = first + fourth * (second + fourth * (1 / 19 + z * (1 / 21)))
    return n * 0.6931471805599453 + 2.0 * (s + s * (z * series))


@njit(**INNER)
def _wide_terms(
    at: Floats, own: float, sign: float, weight: Floats, slope: Floats, curvature: Floats,
    loss: Floats,
) -> None:  # fmt: skip
    """Logistic losses of scores too far apart for plain exponentials."""
    for k in range(at.size):
        margin = sign * (own - at[k])
        small = portable_exp(-abs(margin))
        slope[k] = weight[k] * ((small if margin > 0 else 1.0) / (1.0 + small))
        curvature[k] = weight[k] * (small / ((1.0 + small) * (1.0 + small)))
        loss[k] = weight[k] * (portable_log1p(small) + max(-margin, 0.0))


@njit(**INNER)
def _hinge_terms(
    at: Floats, own: float, sign: float, knot: float, weight: Floats, slope: Floats,
    curvature: Floats, loss: Floats,
) -> None:  # fmt: skip
    """Hinges."""
    for k in range(at.size):
        short = knot - sign * (own - at[k])
        loss[k] = short if short > 0.0 else 0.0
    for k in range(at.size):
        slope[k] = weight[k] if loss[k] > 0.0 else 0.0
    for k in range(at.size):
        loss[k] *= weight[k]
        curvature[k] = 0.0


@njit(**INNER)
def _squared_terms(
    at: Floats, own: float, sign: float, knot: float, weight: Floats, slope: Floats,
    curvature: Floats, loss: Floats,
) -> None:  # fmt: skip
    """Squared hinges."""
    for k in range(at.size):
        short = knot - sign * (own - at[k])
        slope[k] = 2.0 * short if short > 0.0 else 0.0
    for k in range(at.size):
        loss[k] = weight[k] * (0.25 * slope[k] * slope[k])
        curvature[k] = 2.0 * weight[k] if slope[k] > 0.0 else 0.0
    for k in range(at.size):
        slope[k] *= weight[k]


@njit(**INNER)
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
