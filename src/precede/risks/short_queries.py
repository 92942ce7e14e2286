"""Logistic and hinge risks of many short queries: every pair once, nothing twice.

For lists of up to some hundred items it is quicker to go through the pairs, without storing one,
than to sort or to interpolate. Value, pull and curvature come from the same pass. The items
of a query stand by rising grade, so the losers of a winner are the rows before its level:
the inner loop runs over neighbors and the processor takes several at a time.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from precede.engine.arrays import Bytes, Floats, Integers
from precede.engine.compiling import INNER
from precede.engine.exact import exact_sums, sums_at
from precede.engine.execution import Context, is_small
from precede.engine.portable import log_of
from precede.engine.portable_kernels import fmax, fmin, portable_exp, portable_log, portable_log1p
from precede.engine.query_layout import QueryLayout
from precede.losses import PairLoss, Price
from precede.risks.base import BoundLossRisk, EdgeWeights, State
from precede.risks.pair_sums import GeneralRisk

__all__ = ["DEGREES", "EnumeratedRisk", "sizes_of_runs"]


# The losses that are enumerated: 0 for the logistic loss, or the degree of a hinge.
DEGREES = {"logistic": 0, "hinge": 1, "squared_hinge": 2}


class EnumeratedRisk(BoundLossRisk):
    """Logistic, hinge or squared hinge loss, linear price: O(pairs) time, O(n) memory.

    `State.parts` holds the curvature, divided by the mass as the pull is.
    """

    def __init__(
        self, layout: QueryLayout, loss: PairLoss, cost: Price, context: Context | None = None
    ):
        super().__init__(layout, loss, cost, context)
        assert loss.pair_kernel is not None
        self._degree = DEGREES[loss.pair_kernel]
        self._knot = loss.form.knot if self._degree else 0.0  # type: ignore[union-attr]
        winner, loser = layout.winner, layout.loser
        self._pair_weight = layout.pair_weight * layout.weight[winner] * layout.loser_weight[loser]
        self._general: GeneralRisk | None = None
        query_start = layout.query_start
        self._set_runs(np.column_stack([query_start[:-1], query_start[1:]]))

    def _set_runs(self, runs: Integers) -> None:
        """Enumerate the pairs of runs of levels, each from its first level to its end."""
        ends = self.layout.level_start[runs]
        sizes = ends[:, 1] - ends[:, 0]
        self._runs, self._longest = runs, int(sizes.max(initial=0))
        self._small = is_small("heavy rows", int(sizes.sum()))

    def state(self, scores: Floats) -> State:
        """Risk, pull and curvature at these scores, in one pass."""
        layout = self.layout
        pull, hessian = np.zeros(layout.n_used_rows), np.zeros(layout.n_used_rows)
        at = scores[: layout.n_graded]
        if self.loss.gap:
            at = at - layout.grade[: layout.n_graded]
        sums = self._sum_graded(at, pull, hessian)
        listed = self._listed(scores, pull, hessian)
        terms = np.ascontiguousarray(sums.T)
        if listed[0].size:
            terms = np.concatenate([terms, listed], axis=1)
        value, mass = exact_sums([*terms], self.context)
        if mass <= 0:  # every pair is beyond its margin: nothing pulls
            return State(scores, -np.inf, -np.inf, np.zeros_like(pull), np.zeros_like(hessian))
        log_value = log_of(value) if value > 0 else -np.inf
        self.context.run(_divide, pull.size, mass, pull, hessian, small=is_small("rows", pull.size))
        return State(scores, log_value, log_of(mass), pull, hessian)

    def _sum_graded(self, scores: Floats, pull: Floats, hessian: Floats) -> Floats:
        """Add the pairs of the grades to pull and curvature; gives value and mass of each run."""
        layout, sums = self.layout, np.full((len(self._runs), 2), np.nan)
        known = (scores, layout.weight, layout.loser_weight, pull, hessian)
        if self._degree == 0:
            given = self._runs, layout.level_start, *known, sums

            def narrow(low: int, high: int) -> None:
                # For what losers gather from winners (slope, curvature, loss) and exponentials.
                _narrow_runs(low, high, np.empty((4, self._longest)), *given)

            self.context.run(narrow, len(sums), small=self._small)
            far = np.flatnonzero(sums[:, 0] < 0)
            if far.size:
                losses = np.empty(far.size)
                self.context.run(
                    _small_losses, far.size, self._runs[far], layout.level_start,
                    self._longest, *known[:3], losses, small=self._small,
                )  # fmt: skip
                sums[far, 0] = losses
        left = np.flatnonzero(np.isnan(sums[:, 1]))  # all, or those too far apart
        if left.size:
            found = np.empty((left.size, 2))
            self.context.run(
                _plain_runs, left.size, self._runs[left], layout.level_start, self._longest,
                self._degree, self._knot, *known, found, small=self._small,
            )  # fmt: skip
            sums[left] = found
        return sums

    def _listed(self, scores: Floats, pull: Floats, hessian: Floats) -> tuple[Floats, Floats]:
        """Add the listed pairs; gives their values and masses."""
        winner, loser, weight = self.layout.winner, self.layout.loser, self._pair_weight
        if not winner.size:
            return np.zeros(0), np.zeros(0)
        margin = self.layout.listed_margin(scores, gap=self.loss.gap)
        value, mass, curve = np.empty((3, winner.size))
        self.context.run(
            _listed_pairs, winner.size, self._degree, self._knot, margin, weight, value, mass,
            curve, small=is_small("exponentials", winner.size),
        )  # fmt: skip
        for side, sign in ((winner, 1.0), (loser, -1.0)):
            pull += sign * sums_at(side, mass, pull.size)
            hessian += sums_at(side, curve, hessian.size)
        return value, mass

    def curvature(self, state: State) -> Floats:
        """Diagonal of the second derivative over the pair mass: known with the state."""
        return state.parts

    def edge_weights(self, state: State, values: Bytes) -> EdgeWeights:
        """Shares of the pair mass ordered rightly, wrongly, not at all."""
        if self._general is None:
            self._general = GeneralRisk(self.layout, self.loss, self.price, self.context)
        return self._general.edge_weights(state, values)


def sizes_of_runs(level_start: Integers, runs: Integers) -> tuple[Floats, Floats]:
    """Rows and pairs of runs of levels (first, end) that do not overlap, by rising level."""
    start = level_start.astype(np.float64)
    first, end = start[runs[:, 0]], start[runs[:, 1]]
    # Of n rows in levels of n_l there are (n² - sum n_l²) / 2 pairs.
    squares = np.concatenate([[0.0], np.cumsum(np.diff(start) ** 2)])
    within = squares[runs[:, 1]] - squares[runs[:, 0]]
    return end - first, ((end - first) ** 2 - within) / 2


def _divide(low: int, high: int, mass: float, pull: Floats, hessian: Floats) -> None:
    pull[low:high] /= mass
    hessian[low:high] /= mass


# -- kernels ---------------------------------------------------------------------------------
#
# Hinges: short loops over few arrays each; the compiler then takes several pairs at a time,
# which it does not dare in one long loop, nor with a division that could raise.


@njit(cache=True, nogil=True)
def _narrow_runs(
    low: int, high: int, gathered: Floats, runs: Integers, level_start: Integers, scores: Floats,
    weight: Floats, loser_weight: Floats, pull: Floats, hessian: Floats, sums: Floats,
) -> None:  # fmt: skip
    """Logistic value and mass of every run of levels into `sums`; pull and curvature of its rows.

    Runs whose scores are too far apart for plain exponentials are left alone. The value of a run
    whose pairs are all far in order is -1: see `_small_losses`. (Memory is given: numba would
    compile how to take it.)
    """
    at = gathered[3]
    for run in range(low, high):
        bottom, top = runs[run, 0], runs[run, 1]
        first, last = level_start[bottom], level_start[top]
        size = last - first
        share = loser_weight[first:last]
        least, most = scores[first], scores[first]
        for row in range(first, last):
            least, most = fmin(least, scores[row]), fmax(most, scores[row])
        wide, middle = most - least, 0.5 * (most + least)
        if not wide < 80.0:
            continue
        here = scores[first:last]
        for k in range(size):  # alone, so that the processor takes several at a time
            at[k] = portable_exp(here[k] - middle)
        for k in range(size):
            gathered[0, k] = 0.0
            gathered[1, k] = 0.0
            gathered[2, k] = 1.0
        value, pairs = _narrow_query(at, wide, level_start, bottom, top, weight, share, gathered,
                                     pull, hessian)  # fmt: skip
        sums[run, 1] = _settle(share, gathered, pull[first:last], hessian[first:last])
        sums[run, 0] = -1.0 if value < 1e-6 * pairs else value


@njit(cache=True, nogil=True)
def _plain_runs(
    low: int, high: int, runs: Integers, level_start: Integers, longest: int, degree: int,
    knot: float, scores: Floats, weight: Floats, loser_weight: Floats, pull: Floats,
    hessian: Floats,
    sums: Floats,
) -> None:  # fmt: skip
    """The same of hinges, or of logistic losses at any distance."""
    gathered, terms = np.empty((3, longest)), np.empty((2, longest))
    for run in range(low, high):
        bottom, top = runs[run, 0], runs[run, 1]
        first, last = level_start[bottom], level_start[top]
        here, share = scores[first:last], loser_weight[first:last]
        for k in range(last - first):
            gathered[0, k] = 0.0
            gathered[1, k] = 0.0
            gathered[2, k] = 0.0
        sums[run, 0] = _plain_query(here, degree, knot, level_start, bottom, top, weight, share,
                                    gathered, terms, pull, hessian)  # fmt: skip
        sums[run, 1] = _settle(share, gathered, pull[first:last], hessian[first:last])


@njit(**INNER)
def _settle(share: Floats, gathered: Floats, pull: Floats, hessian: Floats) -> float:
    """Give the losers of a run what they gathered; returns the mass."""
    mass = 0.0
    for k in range(share.size):
        mass += share[k] * gathered[0, k]
        pull[k] -= share[k] * gathered[0, k]
        hessian[k] += share[k] * gathered[1, k]
    return mass


@njit(cache=True, nogil=True)
def _small_losses(
    low: int, high: int, runs: Integers, level_start: Integers, longest: int, scores: Floats,
    weight: Floats, loser_weight: Floats, losses: Floats,
) -> None:  # fmt: skip
    """Logistic losses of runs whose pairs are all far in order.

    There ``1 + exp(-m)`` loses the digits of the exponential, or all of it.
    """
    at = np.empty(longest)
    for run in range(low, high):
        bottom, top = runs[run, 0], runs[run, 1]
        first, last = level_start[bottom], level_start[top]
        least, most = scores[first], scores[first]
        for row in range(first, last):
            least, most = fmin(least, scores[row]), fmax(most, scores[row])
        for row in range(first, last):
            at[row - first] = portable_exp(scores[row] - 0.5 * (most + least))
        value = 0.0
        for level in range(bottom + 1, top):
            for row in range(level_start[level], level_start[level + 1]):
                loss = 0.0
                for k in range(level_start[level] - first):
                    loss += loser_weight[first + k] * portable_log1p(at[k] / at[row - first])
                value += weight[row] * loss
        losses[run] = value


@njit(**INNER)
def _narrow_query(
    at: Floats, wide: float, level_start: Integers, bottom: int, top: int, weight: Floats,
    share: Floats, gathered: Floats, pull: Floats, hessian: Floats,
) -> tuple[float, float]:  # fmt: skip
    """Logistic pairs of a query; `at` are exponentials, so two pairs cost one division.

    ``log(1 + exp(-m))`` of many winners is the logarithm of a product: `most` of them stay
    within the range of a float. Winners of the same weight go two by two. Gives the value, and the
    weight of all pairs.
    """
    first, end = level_start[bottom], level_start[top]
    most = np.int64(690.0 / (wide + 0.7)) - 1
    none = np.int64(0)  # (of a plain 0 numba would find the type in more rounds)
    value, waiting = 0.0, none
    pairs, of_losers, losers = 0.0, 0.0, none
    level, row = bottom, level_start[bottom + 1]
    while True:
        own = weight[row] if row < end else 0.0
        if waiting >= most or (waiting > 0 and own != weight[row - 1]):
            value += weight[row - 1] * _logs(gathered[2], share, end - first)
            waiting = none
        if row == end:
            return value, pairs
        if row == level_start[level + 1]:
            level += 1
            for k in range(losers, row - first):
                of_losers += share[k]
            losers = row - first
        two = row + 1 < level_start[level + 1] and weight[row + 1] == own
        other = at[row + 1 - first] if two else np.inf
        up, curved, other_up, other_curved = _two_winners(
            at, losers, at[row - first], other, own, share, gathered
        )
        pairs += own * of_losers
        pull[row] += own * up
        hessian[row] += own * curved
        if two:
            pairs += own * of_losers
            pull[row + 1] += own * other_up
            hessian[row + 1] += own * other_curved
        row += 1 + two
        waiting += 1 + two


@njit(**INNER)
def _logs(product: Floats, share: Floats, count: int) -> float:
    """Sum of share·log(product), and products of nothing for what comes next."""
    total = 0.0
    for k in range(count):  # alone, so that the processor takes several at a time
        product[k] = portable_log(product[k])
    for k in range(count):
        total += share[k] * product[k]
        product[k] = 1.0
    return total


@njit(**INNER)
def _two_winners(
    at: Floats, losers: int, one_at: float, other_at: float, own: float, share: Floats,
    gathered: Floats,
) -> tuple[float, float, float, float]:  # fmt: skip
    """Two winners of one weight and their losers; the second is not there if at infinity."""
    down, curve, product = gathered[0], gathered[1], gathered[2]
    one, other = 1.0 / one_at, 1.0 / other_at
    up, curved, other_up, other_curved = 0.0, 0.0, 0.0, 0.0
    for k in range(losers):
        wrong, other_wrong = at[k] * one, at[k] * other
        odds, other_odds = 1.0 + wrong, 1.0 + other_wrong
        both = odds * other_odds
        product[k] *= both
        inverse = np.divide(1.0, both)
        right, other_right = inverse * other_odds, inverse * odds  # chances of the right order
        wrong, other_wrong = wrong * right, other_wrong * other_right
        curvature, other_curvature = wrong * right, other_wrong * other_right
        down[k] += own * (wrong + other_wrong)
        curve[k] += own * (curvature + other_curvature)
        up += share[k] * wrong
        curved += share[k] * curvature
        other_up += share[k] * other_wrong
        other_curved += share[k] * other_curvature
    return up, curved, other_up, other_curved


@njit(**INNER)
def _plain_query(
    at: Floats, degree: int, knot: float, level_start: Integers, bottom: int, top: int,
    weight: Floats, share: Floats, gathered: Floats, terms: Floats, pull: Floats, hessian: Floats,
) -> float:  # fmt: skip
    """Hinge pairs of a query, or logistic ones too far apart for plain exponentials."""
    first = level_start[bottom]
    down, curve, loss = gathered[0], gathered[1], gathered[2]
    for level in range(bottom + 1, top):
        losers = level_start[level] - first
        for row in range(level_start[level], level_start[level + 1]):
            own, own_at = weight[row], at[row - first]
            if degree == 1:  # straight
                _hinge_pairs(at, losers, knot - own_at, own, down, loss, terms)
                pull[row] += own * _weighted_total(terms[0], share, losers)
                continue
            if degree == 0:
                _wide_pairs(at, losers, own_at, own, down, curve, loss, terms)
            else:
                _squared_pairs(at, losers, knot - own_at, own, down, curve, loss, terms)
            pull[row] += own * _weighted_total(terms[0], share, losers)
            hessian[row] += own * _weighted_total(terms[1], share, losers)
    return _weighted_total(loss, share, level_start[top] - first)


@njit(**INNER)
def _hinge_pairs(
    at: Floats, losers: int, reach: float, own: float, down: Floats, loss: Floats, terms: Floats
) -> None:
    slope, lacking = terms[0], terms[1]
    for k in range(losers):
        short = reach + at[k]
        lacking[k] = short if short > 0.0 else 0.0
    for k in range(losers):
        slope[k] = 1.0 if lacking[k] > 0.0 else 0.0
    for k in range(losers):
        loss[k] += own * lacking[k]
    for k in range(losers):
        down[k] += own * slope[k]


@njit(**INNER)
def _squared_pairs(
    at: Floats, losers: int, reach: float, own: float, down: Floats, curve: Floats, loss: Floats,
    terms: Floats,
) -> None:  # fmt: skip
    slope, curvature = terms[0], terms[1]
    for k in range(losers):
        short = 2.0 * (reach + at[k])
        slope[k] = short if short > 0.0 else 0.0
    for k in range(losers):
        curvature[k] = 2.0 if slope[k] > 0.0 else 0.0
    for k in range(losers):
        loss[k] += 0.25 * own * slope[k] * slope[k]
    for k in range(losers):
        down[k] += own * slope[k]
    for k in range(losers):
        curve[k] += own * curvature[k]


@njit(**INNER)
def _wide_pairs(
    at: Floats, losers: int, own_at: float, own: float, down: Floats, curve: Floats,
    loss: Floats, terms: Floats,
) -> None:  # fmt: skip
    for k in range(losers):
        margin = own_at - at[k]
        small = portable_exp(-abs(margin))
        chance = (small if margin > 0 else 1.0) / (1.0 + small)
        curvature = small / ((1.0 + small) * (1.0 + small))
        loss[k] += own * (portable_log1p(small) + fmax(-margin, 0.0))
        down[k] += own * chance
        curve[k] += own * curvature
        terms[0, k], terms[1, k] = chance, curvature


@njit(cache=True, nogil=True)
def _listed_pairs(
    low: int, high: int, degree: int, knot: float, margin: Floats, weight: Floats,
    value: Floats, mass: Floats, curve: Floats,
) -> None:  # fmt: skip
    """Loss, slope and curvature of listed pairs, by their weights."""
    for pair in range(low, high):
        here = margin[pair]
        if degree == 0:
            small = portable_exp(-abs(here))
            chance = (small if here > 0 else 1.0) / (1.0 + small)
            curvature = small / ((1.0 + small) * (1.0 + small))
            loss = portable_log1p(small) + fmax(-here, 0.0)
        else:
            lacking, within = fmax(knot - here, 0.0), 1.0 if here < knot else 0.0
            loss = lacking if degree == 1 else lacking * lacking
            chance = within if degree == 1 else 2.0 * lacking
            curvature = 0.0 if degree == 1 else 2.0 * within
        value[pair] = weight[pair] * loss
        mass[pair] = weight[pair] * chance
        curve[pair] = weight[pair] * curvature


@njit(**INNER)
def _weighted_total(values: Floats, share: Floats, count: int) -> float:
    """Sum of share·value in eight strands, which do not wait for each other."""
    a, b, c, d, e, f, g, h = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    whole = count - count % 8
    for k in range(0, whole, 8):
        a += share[k] * values[k]
        b += share[k + 1] * values[k + 1]
        c += share[k + 2] * values[k + 2]
        d += share[k + 3] * values[k + 3]
        e += share[k + 4] * values[k + 4]
        f += share[k + 5] * values[k + 5]
        g += share[k + 6] * values[k + 6]
        h += share[k + 7] * values[k + 7]
    for k in range(whole, count):
        a += share[k] * values[k]
    return ((a + b) + (c + d)) + ((e + f) + (g + h))
