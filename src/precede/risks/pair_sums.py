"""Any loss with any price, by two sweeps of pair sums."""

from __future__ import annotations

import numpy as np
from numba import njit

from precede.engine.arrays import Array, Bytes, Floats
from precede.engine.exact import all_reduce_max, exact_sums, log_total, log_totals
from precede.engine.execution import Context, is_small
from precede.engine.query_layout import QueryLayout
from precede.losses import PairLoss, Price, logarithm
from precede.risks.base import BoundLossRisk, EdgeWeights, State
from precede.risks.smooth_line import least_on_points
from precede.risks.sweeps import PairSums

__all__ = ["GeneralRisk"]


BLOCK = 1 << 15


class GeneralRisk(BoundLossRisk):
    """Any loss and any price, by two sweeps of pair sums (see `precede.risks.sweeps`).

    First the inner sums ``u_k``, then the weights ``v_k g'(u_k)`` on the losers, then the
    sums for the winners. All in logarithms, so that ``u^64`` and ``exp(u)`` stay finite.
    """

    def __init__(
        self, layout: QueryLayout, loss: PairLoss, cost: Price, context: Context | None = None,
        *, mean: bool = False,
    ):  # fmt: skip
        super().__init__(layout, loss, cost, context, mean=mean)
        self._small = is_small("exponentials", layout.n_used_rows)
        self._sums = PairSums(layout, loss, self.context)
        with np.errstate(divide="ignore"):
            self._log_weight = np.log(layout.weight)
            self._log_outer = np.log(layout.loser_weight)
        self._log_divisor = self.log_divisors()
        self._heaviest = float(all_reduce_max(lambda: layout.weight.max(initial=0.0), self.context))
        self.share = layout.weight / self._heaviest
        self._log_outer_of_losers = np.where(self._sums.is_loser, self._log_outer, -np.inf)
        self._linear_price_slopes: tuple[Floats, float, Floats] | None = None

    def state(self, scores: Floats) -> State:
        """Risk and pull at these scores."""
        if self._sums.by_levels_only:
            return self._state_of_levels(scores)
        log_loss_sum, log_slope = self._sums.over_winners(
            scores, self._log_weight, ("value", "slope")
        )
        involved = self._sums.is_loser
        log_payment = (log_loss_sum - self._log_divisor)[involved]
        log_price = np.full(scores.size, -np.inf)
        log_price[involved] = self.price.log_value(log_payment) + self._log_divisor[involved]
        log_price_slope = np.full(scores.size, -np.inf)
        log_price_slope[involved] = self.price.log_slope(log_payment)
        log_price_slope += self._log_outer
        (log_won,) = self._sums.over_losers(scores, log_price_slope, ("slope",))
        log_loss, log_win = log_price_slope + log_slope, log_won + self._log_weight
        log_value, log_gradient_sum = log_totals(
            [log_price + self._log_outer, log_loss], self.context
        )
        if log_gradient_sum == -np.inf:  # every pair is beyond its margin: nothing pulls
            return State(scores, log_value, log_gradient_sum, np.zeros(scores.size))
        pull = np.exp(log_win - log_gradient_sum) - np.exp(log_loss - log_gradient_sum)
        return State(scores, log_value, log_gradient_sum, pull, (log_loss_sum, log_price_slope))

    def _state_of_levels(self, scores: Floats) -> State:
        """The same without listed pairs, in plain numbers relative to the largest.

        It spares the logarithms of sums that are turned back at once.
        """
        sums, unit = self._sums, np.log(self._heaviest)
        loss_sum, slope = sums.linear(scores, self.share, ("value", "slope"), winners=True)
        log_price_slope, most, price_slope = self._price_slopes(loss_sum)
        if most == -np.inf:  # nobody pays anything
            return State(scores, -np.inf, -np.inf, np.zeros(scores.size))
        (won,) = sums.linear(scores, price_slope, ("slope",), winners=False)
        mass, costs = self._weigh(price_slope, slope, loss_sum)
        loss = slope
        if self.price.power is not None:  # u^p is its slope times u / p
            log_value = float(logarithm(costs / self.price.power)) + most + unit
        else:
            log_price = self.price.log_value(logarithm(loss_sum) + (unit - self._log_divisor))
            log_price += self._log_divisor + self._log_outer_of_losers
            log_value = log_total(log_price, self.context)
        if mass == 0:  # every pair is beyond its margin: nothing pulls
            return State(scores, log_value, -np.inf, np.zeros(scores.size))
        self.context.run(_pull_of_rows, won.size, won, self.share, loss, mass, small=self._small)
        return State(
            scores, log_value, float(np.log(mass)) + most + unit, won, (None, log_price_slope)
        )

    def _weigh(self, price_slope: Floats, slope: Floats, loss_sum: Floats) -> tuple[float, float]:
        """Sums of ``price_slope·slope``, which replaces the slopes, and ``price_slope·sum``."""
        costs = np.empty_like(loss_sum)
        self.context.run(
            _weighed, price_slope.size, price_slope, slope, loss_sum, costs, small=self._small
        )
        mass, total = exact_sums([slope, costs], self.context)
        return mass, total

    def _price_slopes(self, loss_sum: Floats | None) -> tuple[Floats, float, Floats]:
        """``log v_k g'(u_k)`` of every loser, ``-inf`` elsewhere; its greatest; and relative to it.

        With a linear price they are the same at all scores, and `loss_sum` is not asked for.
        """
        linear = self.price.power == 1
        if linear and self._linear_price_slopes is not None:
            return self._linear_price_slopes
        log_price_slope = (
            self._log_outer_of_losers
            if linear or loss_sum is None
            else self._log_price_slopes(loss_sum)
        )
        most = float(all_reduce_max(lambda: log_price_slope.max(initial=-np.inf), self.context))
        found = (
            log_price_slope,
            most,
            log_price_slope if most == -np.inf else self._exp(log_price_slope, most),
        )
        if linear:
            self._linear_price_slopes = found
        return found

    def _log_price_slopes(self, loss_sum: Floats) -> Floats:
        log_price_slope = np.empty_like(loss_sum)
        unit = np.log(self._heaviest)

        def chunk(first: int, last: int) -> None:
            part = logarithm(loss_sum[first:last]) + (unit - self._log_divisor[first:last])
            log_price_slope[first:last] = (
                self.price.log_slope(part) + self._log_outer_of_losers[first:last]
            )

        self.context.run(chunk, loss_sum.size, small=self._small)
        return log_price_slope

    def _exp(self, values: Floats, most: float) -> Floats:
        result = np.empty_like(values)

        def chunk(first: int, last: int) -> None:
            np.exp(values[first:last] - most, out=result[first:last])

        self.context.run(chunk, values.size, small=self._small)
        return result

    def search_line(self, state: State, values: Array) -> tuple[float, bool]:
        """On a few points that stand for many rows where that is possible and worth it."""
        least = least_on_points(self, state, values)
        return self.line_search(state, values) if least is None else (least, False)

    def curvature(self, state: State) -> Floats:
        """Diagonal of the second derivative over the pair mass, by the same sweeps.

        For a loser ``g''(u) (sum w l')² + g'(u) sum w l''``; for a winner the sum over its
        losers of ``g''(u_k) (w l')² + g'(u_k) w l''``.
        """
        sums = self._sums
        if state.log_gradient_sum == -np.inf:  # every pair is beyond its margin
            return np.zeros(state.scores.size)
        if self.price.power == 1 and sums.by_levels_only:
            return self._curvature_of_levels(state)
        return self._second_derivatives(state, bound=False)

    def half_bound(self, state: State) -> Floats:
        """The same with ``g''(u_k) w |l'| S_k`` for a winner; see `curvature_bound`."""
        if state.log_gradient_sum == -np.inf:
            return np.zeros(state.scores.size)
        return self._second_derivatives(state, bound=True)

    def _second_derivatives(self, state: State, *, bound: bool) -> Floats:
        scores, sums, weight = state.scores, self._sums, self._log_weight
        log_loss_sum, log_slope, log_curvature = sums.over_winners(
            scores, weight, ("value", "slope", "curvature")
        )
        involved = sums.is_loser
        log_price_slope = np.full(scores.size, -np.inf)
        log_price_curvature = np.full(scores.size, -np.inf)
        log_payment = (log_loss_sum - self._log_divisor)[involved]
        log_price_slope[involved] = self.price.log_slope(log_payment)
        log_price_curvature[involved] = self.price.log_curvature(log_payment)
        log_price_slope += self._log_outer
        log_price_curvature += self._log_outer - self._log_divisor
        # ``u^p`` with p < 2 is infinitely curved at 0, where nothing moves it.
        log_price_curvature[log_slope == -np.inf] = -np.inf
        (won_curvature,) = sums.over_losers(scores, log_price_slope, ("curvature",))
        if bound:
            (won,) = sums.over_losers(scores, log_price_curvature + log_slope, ("slope",))
            won += weight
        else:
            won = sums.squared_slopes(scores, log_price_curvature) + 2 * weight
        terms = (
            log_price_slope + log_curvature,
            log_price_curvature + 2 * log_slope,
            won_curvature + weight,
            won,
        )
        return sum((np.exp(term - state.log_gradient_sum) for term in terms), np.zeros(scores.size))

    def _curvature_of_levels(self, state: State) -> Floats:
        """The same with a linear price and without listed pairs, in plain numbers."""
        _, most, price_slope = self._price_slopes(None)
        (lost,) = self._sums.linear(state.scores, self.share, ("curvature",), winners=True)
        (won,) = self._sums.linear(state.scores, price_slope, ("curvature",), winners=False)
        scale = np.exp(most + np.log(self._heaviest) - state.log_gradient_sum)
        return (lost * price_slope + won * self.share) * scale

    def edge_weights(self, state: State, values: Bytes) -> EdgeWeights:
        """Shares of the pair mass ordered rightly, wrongly, not at all."""
        if state.log_gradient_sum == -np.inf:
            return EdgeWeights(0.0, 0.0, 0.0)
        # With a linear price the state of another risk for the same pairs will do.
        log_price_slope = self._log_outer_of_losers if self.price.power == 1 else state.parts[1]
        above = np.where(values == 1, self._log_weight, -np.inf)
        below = np.where(values == 0, self._log_weight, -np.inf)
        (up,) = self._sums.over_winners(state.scores, above, ("slope",))
        (down,) = self._sums.over_winners(state.scores, below, ("slope",))
        mass_up, mass_down = (
            log_price_slope + up - state.log_gradient_sum,
            log_price_slope + down - state.log_gradient_sum,
        )
        right, wrong = exact_sums(
            [np.exp(mass_up[values == 0]), np.exp(mass_down[values == 1])], self.context
        )
        return EdgeWeights(right, wrong, max(0.0, 1.0 - right - wrong))


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _weighed(
    low: int, high: int, price_slope: Floats, slope: Floats, loss_sum: Floats, costs: Floats
) -> None:
    for row in range(low, high):
        slope[row] *= price_slope[row]
        costs[row] = price_slope[row] * loss_sum[row]


@njit(cache=True, nogil=True)
def _pull_of_rows(
    begin: int, end: int, won: Floats, share: Floats, loss: Floats, mass: float,
) -> None:  # fmt: skip
    for row in range(begin, end):
        won[row] = (won[row] * share[row] - loss[row]) / mass
