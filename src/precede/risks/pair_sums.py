"""Risk for any loss and any price, from the sums over pairs of `precede.risks.sweeps`."""

from __future__ import annotations

import numpy as np

from precede.engine.arrays import Array, Bytes, Floats
from precede.engine.compiling import njit
from precede.engine.exact import all_reduce_max, exact_sums, log_sum_exp, log_sum_exps
from precede.engine.execution import Context, is_small
from precede.engine.query_layout import QueryLayout
from precede.losses import PairLoss, Price, logarithm
from precede.risks.base import BoundLossRisk, EdgeWeights, State
from precede.risks.smooth_line import chebyshev_line_search
from precede.risks.sweeps import PairSums


class GeneralRisk(BoundLossRisk):
    """Risk for any loss and any price.

    A first pass over the pairs computes the loss sum ``u_k`` of each loser, a second one the
    gradients of the winners from the loser weights ``v_k g'(u_k)``. All are stored as logarithms,
    so that ``u^64`` and ``exp(u)`` stay finite.
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
            self._log_loser_weight = np.log(layout.loser_weight)
        self._log_divisor = self.log_divisors()
        self._max_weight = float(
            all_reduce_max(lambda: layout.weight.max(initial=0.0), self.context)
        )
        self.relative_weight = layout.weight / self._max_weight
        self._log_weight_of_losers = np.where(self._sums.is_loser, self._log_loser_weight, -np.inf)
        self._linear_price_slopes: tuple[Floats, float, Floats] | None = None

    def state(self, scores: Floats) -> State:
        """Return risk and pull at these scores."""
        if self._sums.has_plain_sums:
            return self._state_without_explicit_pairs(scores)
        log_loss_sum, log_slope = self._sums.over_winners(
            scores, self._log_weight, ("value", "slope")
        )
        is_loser = self._sums.is_loser
        log_mean_loss = (log_loss_sum - self._log_divisor)[is_loser]
        log_price = np.full(scores.size, -np.inf)
        log_price[is_loser] = self.price.log_value(log_mean_loss) + self._log_divisor[is_loser]
        log_price_slope = np.full(scores.size, -np.inf)
        log_price_slope[is_loser] = self.price.log_slope(log_mean_loss)
        log_price_slope += self._log_loser_weight
        (log_winner_slope,) = self._sums.over_losers(scores, log_price_slope, ("slope",))
        log_losers, log_winners = log_price_slope + log_slope, log_winner_slope + self._log_weight
        log_value, log_gradient_sum = log_sum_exps(
            [log_price + self._log_loser_weight, log_losers], self.context
        )
        if log_gradient_sum == -np.inf:  # every pair is beyond its margin
            return State(scores, log_value, log_gradient_sum, np.zeros(scores.size))
        pull = np.exp(log_winners - log_gradient_sum) - np.exp(log_losers - log_gradient_sum)
        return State(scores, log_value, log_gradient_sum, pull, (log_loss_sum, log_price_slope))

    def _state_without_explicit_pairs(self, scores: Floats) -> State:
        """Return the state without explicit pairs; faster, because it needs fewer logarithms.

        Weights and price slopes are divided by their maxima instead.
        """
        sums, log_max_weight = self._sums, np.log(self._max_weight)
        loss_sum, slope = sums.plain_sums(
            scores, self.relative_weight, ("value", "slope"), winners=True
        )
        log_price_slope, log_max, price_slope = self._price_slopes(loss_sum)
        if log_max == -np.inf:  # all price slopes are 0
            return State(scores, -np.inf, -np.inf, np.zeros(scores.size))
        (pull,) = sums.plain_sums(scores, price_slope, ("slope",), winners=False)
        gradient_sum, priced_sum = self._weighted_sums(price_slope, slope, loss_sum)
        losers = slope  # multiplied by the price slopes in place
        if self.price.power is not None:  # u^p = g'(u) u / p
            log_value = float(logarithm(priced_sum / self.price.power)) + log_max + log_max_weight
        else:
            log_price = self.price.log_value(
                logarithm(loss_sum) + (log_max_weight - self._log_divisor)
            )
            log_price += self._log_divisor + self._log_weight_of_losers
            log_value = log_sum_exp(log_price, self.context)
        if gradient_sum == 0:  # every pair is beyond its margin
            return State(scores, log_value, -np.inf, np.zeros(scores.size))
        self.context.run(
            _pull_of_rows, pull.size, pull, self.relative_weight, losers, gradient_sum,
            small=self._small,
        )  # fmt: skip
        log_gradient_sum = float(np.log(gradient_sum)) + log_max + log_max_weight
        return State(scores, log_value, log_gradient_sum, pull, (None, log_price_slope))

    def _weighted_sums(
        self, price_slope: Floats, slope: Floats, loss_sum: Floats
    ) -> tuple[float, float]:
        """Return the sums of ``price_slope·slope`` (written to `slope`) and ``price_slope·u``."""
        priced_sum = np.empty_like(loss_sum)
        self.context.run(
            _weight_rows, price_slope.size, price_slope, slope, loss_sum, priced_sum,
            small=self._small,
        )  # fmt: skip
        gradient_sum, total = exact_sums([slope, priced_sum], self.context)
        return gradient_sum, total

    def _price_slopes(self, loss_sum: Floats | None) -> tuple[Floats, float, Floats]:
        """Return ``log v_k g'(u_k)`` (-inf if not a loser), its maximum, and exp of the difference.

        With a linear price they do not depend on the scores, and `loss_sum` is ignored.
        """
        linear = self.price.power == 1
        if linear and self._linear_price_slopes is not None:
            return self._linear_price_slopes
        log_price_slope = (
            self._log_weight_of_losers
            if linear or loss_sum is None
            else self._log_price_slopes(loss_sum)
        )
        log_max = float(all_reduce_max(lambda: log_price_slope.max(initial=-np.inf), self.context))
        found = (
            log_price_slope,
            log_max,
            log_price_slope if log_max == -np.inf else self._exp_over_max(log_price_slope, log_max),
        )
        if linear:
            self._linear_price_slopes = found
        return found

    def _log_price_slopes(self, loss_sum: Floats) -> Floats:
        log_price_slope = np.empty_like(loss_sum)
        log_max_weight = np.log(self._max_weight)

        def chunk(first: int, last: int) -> None:
            log_loss = logarithm(loss_sum[first:last])
            log_loss = log_loss + (log_max_weight - self._log_divisor[first:last])
            log_price_slope[first:last] = (
                self.price.log_slope(log_loss) + self._log_weight_of_losers[first:last]
            )

        self.context.run(chunk, loss_sum.size, small=self._small)
        return log_price_slope

    def _exp_over_max(self, values: Floats, log_max: float) -> Floats:
        result = np.empty_like(values)

        def chunk(first: int, last: int) -> None:
            np.exp(values[first:last] - log_max, out=result[first:last])

        self.context.run(chunk, values.size, small=self._small)
        return result

    def line_search(self, state: State, values: Array) -> tuple[float, bool]:
        """Return the step and whether it was smoothed, by interpolation if that is faster."""
        least = chebyshev_line_search(self, state, values)
        return self.brent_line_search(state, values) if least is None else (least, False)

    def curvature(self, state: State) -> Floats:
        """Return the diagonal of the Hessian over the gradient sum.

        For a loser ``g''(u) (sum w l')² + g'(u) sum w l''``; for a winner the sum over its
        losers of ``g''(u_k) (w l')² + g'(u_k) w l''``.
        """
        sums = self._sums
        if state.log_gradient_sum == -np.inf:  # every pair is beyond its margin
            return np.zeros(state.scores.size)
        if self.price.power == 1 and sums.has_plain_sums:
            return self._curvature_without_explicit_pairs(state)
        return self._second_derivatives(state, bound=False)

    def half_curvature_bound(self, state: State) -> Floats:
        """Return `curvature` with ``g''(u_k) w |l'| S_k`` for a winner; see `curvature_bound`."""
        if state.log_gradient_sum == -np.inf:
            return np.zeros(state.scores.size)
        return self._second_derivatives(state, bound=True)

    def _second_derivatives(self, state: State, *, bound: bool) -> Floats:
        scores, sums, weight = state.scores, self._sums, self._log_weight
        log_loss_sum, log_slope, log_curvature = sums.over_winners(
            scores, weight, ("value", "slope", "curvature")
        )
        is_loser = sums.is_loser
        log_price_slope = np.full(scores.size, -np.inf)
        log_price_curvature = np.full(scores.size, -np.inf)
        log_mean_loss = (log_loss_sum - self._log_divisor)[is_loser]
        log_price_slope[is_loser] = self.price.log_slope(log_mean_loss)
        log_price_curvature[is_loser] = self.price.log_curvature(log_mean_loss)
        log_price_slope += self._log_loser_weight
        log_price_curvature += self._log_loser_weight - self._log_divisor
        # ``u^p`` with p < 2 has infinite curvature at 0; ignore it if u has slope 0.
        log_price_curvature[log_slope == -np.inf] = -np.inf
        (winner_curvature,) = sums.over_losers(scores, log_price_slope, ("curvature",))
        if bound:
            (winner_price_curvature,) = sums.over_losers(
                scores, log_price_curvature + log_slope, ("slope",)
            )
            winner_price_curvature += weight
        else:
            winner_price_curvature = sums.squared_slopes(scores, log_price_curvature) + 2 * weight
        terms = (
            log_price_slope + log_curvature,
            log_price_curvature + 2 * log_slope,
            winner_curvature + weight,
            winner_price_curvature,
        )
        return sum((np.exp(term - state.log_gradient_sum) for term in terms), np.zeros(scores.size))

    def _curvature_without_explicit_pairs(self, state: State) -> Floats:
        """Return the curvature for a linear price without explicit pairs."""
        _, log_max, price_slope = self._price_slopes(None)
        (loser_curvature,) = self._sums.plain_sums(
            state.scores, self.relative_weight, ("curvature",), winners=True
        )
        (winner_curvature,) = self._sums.plain_sums(
            state.scores, price_slope, ("curvature",), winners=False
        )
        scale = np.exp(log_max + np.log(self._max_weight) - state.log_gradient_sum)
        return (loser_curvature * price_slope + winner_curvature * self.relative_weight) * scale

    def edge_weights(self, state: State, values: Bytes) -> EdgeWeights:
        """Return the weights of the pairs ordered correctly, wrongly or tied."""
        if state.log_gradient_sum == -np.inf:
            return EdgeWeights(0.0, 0.0, 0.0)
        # With a linear price `state` may come from another risk with the same pairs.
        log_price_slope = self._log_weight_of_losers if self.price.power == 1 else state.cache[1]
        log_weight_of_ones = np.where(values == 1, self._log_weight, -np.inf)
        log_weight_of_zeros = np.where(values == 0, self._log_weight, -np.inf)
        (log_slope_ones,) = self._sums.over_winners(state.scores, log_weight_of_ones, ("slope",))
        (log_slope_zeros,) = self._sums.over_winners(state.scores, log_weight_of_zeros, ("slope",))
        log_correct, log_wrong = (
            log_price_slope + log_slope_ones - state.log_gradient_sum,
            log_price_slope + log_slope_zeros - state.log_gradient_sum,
        )
        correct, wrong = exact_sums(
            [np.exp(log_correct[values == 0]), np.exp(log_wrong[values == 1])], self.context
        )
        return EdgeWeights(correct, wrong, max(0.0, 1.0 - correct - wrong))


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _weight_rows(
    low: int, high: int, price_slope: Floats, slope: Floats, loss_sum: Floats, priced_sum: Floats
) -> None:
    """Multiply `slope` by the price slopes in place, and `loss_sum` into `priced_sum`."""
    for row in range(low, high):
        slope[row] *= price_slope[row]
        priced_sum[row] = price_slope[row] * loss_sum[row]


@njit(cache=True, nogil=True)
def _pull_of_rows(
    begin: int, end: int, winners: Floats, relative_weight: Floats, losers: Floats,
    gradient_sum: float,
) -> None:  # fmt: skip
    """Replace the unweighted gradients of the rows as `winners` by their pulls."""
    for row in range(begin, end):
        winners[row] = (winners[row] * relative_weight[row] - losers[row]) / gradient_sum
