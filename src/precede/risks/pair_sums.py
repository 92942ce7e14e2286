"""Risks of a pair loss and a price: sums over pairs in one pass for built-in losses, else in two.

Each strategy has its own file: `by_level` for the exponential loss, `by_cell` for smooth
losses, `by_order` for hinges and splines, tiles of pairs for other losses (`splits`), and
enumeration of the pairs of short queries (`by_pair`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from precede.engine.arrays import Array, BackendArray, Bytes, Flags, Floats, Integers
from precede.engine.compiling import njit
from precede.engine.exact import all_reduce_max, exact_sums, log_sum_exp, log_sum_exps, sums_at
from precede.engine.execution import Context, threads_for
from precede.engine.query_layout import QueryLayout
from precede.losses import PairLoss, Polynomial, Price, Separable, Smooth, Spline, logarithm
from precede.risks.base import BoundLossRisk, EdgeWeights, State, pair_shape
from precede.risks.by_cell import CellSums, SmoothSums, chebyshev_line_search
from precede.risks.by_level import LogLevelSums, exponent
from precede.risks.by_order import OrderSums, SplineSums
from precede.risks.by_pair import GpuRangeSums, RangeSums
from precede.risks.splits import SplitSums, kernel_of


class OnePassRisk(BoundLossRisk):
    """Logistic, hinge or squared hinge loss with a linear price; see `PairShape`.

    Value, gradient and Hessian diagonal are computed together, which `State.cache` holds, divided
    by the gradient sum as the pull is. The pairs of short queries are enumerated, long lists are
    summed by cell or by order. A GPU is used unless it has no kernels for a range of levels.
    """

    def __init__(
        self, layout: QueryLayout, loss: PairLoss, cost: Price, context: Context | None = None
    ):
        super().__init__(layout, loss, cost, context)
        shape = pair_shape(loss)
        assert shape is not None
        self._long_lists: CellSums | OrderSums
        if shape.degree:
            self._long_lists = OrderSums(layout, shape, self.context)
        else:
            self._long_lists = CellSums(layout, self.context)
        ranges = self._long_lists.level_ranges
        self._ranges = RangeSums(layout, shape, ranges, self.context)
        if self.context.backend.is_gpu and GpuRangeSums.has_kernels(layout, ranges):
            self.backend = self.context.backend
            self._gpu_ranges = GpuRangeSums(layout, shape, ranges, self.context)
            self._long_lists.copy_to(self.backend)
        self._two_passes: TwoPassRisk | None = None

    def state(self, scores: BackendArray) -> State:
        """Compute risk, pull and Hessian diagonal at these scores in one pass."""
        layout, backend = self.layout, self._backend_of(scores)
        ranges = self._gpu_ranges if backend.is_gpu else self._ranges
        pull = backend.zero_rows(layout.n_used_rows, self.context)
        hessian = backend.zero_rows(layout.n_used_rows, self.context)
        at = scores[: layout.n_graded]
        if self.loss.gap:
            at = at - self._copy_on(backend, "grade", lambda: layout.grade[: layout.n_graded])
        sums = [ranges.add_level_ranges(at, pull, hessian)]
        sums += self._long_lists.add_gradients(backend, at, pull, hessian)
        if layout.winner.size:
            sums.append(ranges.add_explicit_pairs(scores, pull, hessian))
        totals = backend.xp.concatenate(sums, axis=1) if len(sums) > 1 else sums[0]
        value, gradient_sum = exact_sums([*totals], self.context)
        return self._normalized_state(scores, value, gradient_sum, pull, hessian)

    def curvature(self, state: State) -> BackendArray:
        """Return the Hessian diagonal over the gradient sum, computed with the state."""
        return state.cache

    def edge_weights(self, state: State, values: Bytes) -> EdgeWeights:
        """Return the weights of the pairs ordered correctly, wrongly or tied by values 0 and 1."""
        if self._two_passes is None:
            self._two_passes = TwoPassRisk(self.layout, self.loss, self.price, self.context)
        return self._two_passes.edge_weights(state, values)

    def exact_step(self, state: State, values: Array) -> tuple[float, bool] | None:
        """Return the step from a search on Chebyshev points, where it applies and is faster."""
        return chebyshev_line_search(self, state, values)


class TwoPassRisk(BoundLossRisk):
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
        self._threads = threads_for("exponentials", layout.n_used_rows)
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
            threads=self._threads,
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
            threads=self._threads,
        )  # fmt: skip
        gradient_sum, total = exact_sums([slope, priced_sum], self.context)
        return gradient_sum, total

    def _price_slopes(self, loss_sum: Floats | None) -> tuple[Floats, float, Floats]:
        """Return ``log v_k g'(u_k)`` (-inf if not a loser), the maximum, and exp of the difference.

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
        price_slope = log_price_slope
        if log_max > -np.inf:
            price_slope = self._exp_over_max(log_price_slope, log_max)
        if linear:
            self._linear_price_slopes = log_price_slope, log_max, price_slope
        return log_price_slope, log_max, price_slope

    def _log_price_slopes(self, loss_sum: Floats) -> Floats:
        log_price_slope = np.empty_like(loss_sum)
        log_max_weight = np.log(self._max_weight)

        def chunk(first: int, last: int) -> None:
            log_loss = logarithm(loss_sum[first:last])
            log_loss = log_loss + (log_max_weight - self._log_divisor[first:last])
            log_price_slope[first:last] = (
                self.price.log_slope(log_loss) + self._log_weight_of_losers[first:last]
            )

        self.context.map(chunk, loss_sum.size, threads=self._threads)
        return log_price_slope

    def _exp_over_max(self, values: Floats, log_max: float) -> Floats:
        result = np.empty_like(values)

        def chunk(first: int, last: int) -> None:
            np.exp(values[first:last] - log_max, out=result[first:last])

        self.context.map(chunk, values.size, threads=self._threads)
        return result

    def exact_step(self, state: State, values: Array) -> tuple[float, bool] | None:
        """Return the step from a search on Chebyshev points, where it applies and is faster."""
        return chebyshev_line_search(self, state, values)

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

    def _half_curvature_bound(self, state: State) -> Floats:
        """Return `curvature` with ``g''(u_k) w |l'| S_k`` for a winner; see `_curvature_bound`."""
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


# -- sums over winners and losers ------------------------------------------------------------


class PairSums:
    """Sums over the pairs of a layout for one loss.

    They are logarithms, because weights and prices may be extremely large or small. The kernels K
    (see `precede.risks.splits`) are named ``"value"`` (l), ``"slope"`` (-l'), ``"curvature"`` (l'')
    and ``"square"`` (l'²); all are non-negative.
    """

    def __init__(self, layout: QueryLayout, loss: PairLoss, context: Context | None = None):
        self.layout = layout
        self.loss = loss
        self.context = context or Context(1)
        self.is_loser = _find_losers(layout)
        # The same on all machines, which must take part in the same reductions.
        self._any_graded = bool(all_reduce_max(lambda: layout.n_graded > 0, self.context))
        self._graded: LogLevelSums | SplitSums
        if isinstance(loss.form, Separable):
            self._graded = LogLevelSums(layout, loss.form)
        elif isinstance(loss.form, Polynomial | Spline):
            self._graded = SplineSums(layout, loss, self.context)
        elif isinstance(loss.form, Smooth):
            self._graded = SmoothSums(layout, loss, self.context)
        else:
            self._graded = SplitSums(layout, loss, self.context)

    def over_winners(
        self, scores: Floats, log_source: Floats, kernels: Sequence[str]
    ) -> list[Floats]:
        """Return ``log sum_{i above k} exp(log_source_i) K(s_i - s_k)`` for every row k."""
        return self._sum_pairs(scores, log_source, kernels, winners=True)

    def over_losers(
        self, scores: Floats, log_source: Floats, kernels: Sequence[str]
    ) -> list[Floats]:
        """Return ``log sum_{k below i} exp(log_source_k) K(s_i - s_k)`` for every row i."""
        return self._sum_pairs(scores, log_source, kernels, winners=False)

    @property
    def has_plain_sums(self) -> bool:
        """Whether `plain_sums` is available: no explicit pair and no separable loss."""
        return not self.layout.has_explicit_pairs and isinstance(self._graded, SplitSums)

    def plain_sums(
        self, scores: Floats, source: Floats, kernels: Sequence[str], *, winners: bool
    ) -> Floats:
        """Return the sums, not logarithms, for sources up to about 1; only if `has_plain_sums`."""
        assert isinstance(self._graded, SplitSums)
        if self.loss.gap:
            scores = scores - self.layout.grade
        return self._graded.plain_sums(scores, source, kernels, winners=winners)

    def squared_slopes(self, scores: Floats, log_source: Floats) -> Floats:
        """Return ``log sum_k exp(log_source_k) (d u_k / d s_i)²``, where u_k sums the losses of k.

        For a pair that is both graded and explicit the two slopes are added before squaring.
        """
        largest = all_reduce_max(lambda: log_source.max(initial=-np.inf), self.context)
        if largest == -np.inf:  # linear price
            return np.full(scores.size, -np.inf)
        graded = self._graded_sums(scores, log_source, ("square",), winners=False)[0]
        winner, loser, weight = self.layout.winner, self.layout.loser, self.layout.pair_weight
        if not winner.size:
            return graded
        grade = self.layout.grade
        ungraded = np.full(self.layout.n_used_rows - self.layout.n_graded, -1)
        query = np.concatenate([self.layout.query_of_row(), ungraded])
        is_graded = (query[winner] == query[loser]) & (query[winner] >= 0)
        is_graded &= grade[winner] > grade[loser]
        if self.loss.gap:
            # A pair that is graded and explicit, or explicit several times (in adjacent entries),
            # has several margins and slopes.
            is_first = np.ones(winner.size, bool)
            is_first[1:] = (np.diff(winner) != 0) | (np.diff(loser) != 0)
            start = np.flatnonzero(is_first)
            explicit_slope = weight * self.loss.slope(self._explicit_margin(scores))
            explicit_slope = np.add.reduceat(explicit_slope, start)
            winner, loser, is_graded = winner[start], loser[start], is_graded[start]
            margin = scores[winner] - scores[loser] - (grade[winner] - grade[loser])
            graded_slope = self.loss.slope(margin)
            # Rows without a grade have no margin in grades.
            graded_slope = np.where(is_graded, graded_slope, 0.0)
            square = explicit_slope**2 + 2 * explicit_slope * graded_slope
        else:
            square = weight**2 + 2 * is_graded * weight
            square = square * self.loss.slope(self._explicit_margin(scores)) ** 2
        explicit = _scatter_log(logarithm(square) + log_source[loser], winner, graded.size)
        return np.logaddexp(graded, explicit)

    def _sum_pairs(
        self, scores: Floats, log_source: Floats, kernels: Sequence[str], *, winners: bool
    ) -> list[Floats]:
        sums = self._graded_sums(scores, log_source, kernels, winners=winners)
        winner, loser, weight = self.layout.winner, self.layout.loser, self.layout.pair_weight
        if not winner.size:
            return sums
        source, target = (winner, loser) if winners else (loser, winner)
        margin = self._explicit_margin(scores)
        for j, name in enumerate(kernels):
            term = self._log_kernel(name, margin) + logarithm(weight) + log_source[source]
            sums[j] = np.logaddexp(sums[j], _scatter_log(term, target, scores.size))
        return sums

    def _graded_sums(
        self, scores: Floats, log_source: Floats, kernels: Sequence[str], *, winners: bool
    ) -> list[Floats]:
        n_graded = self.layout.n_graded
        sums = [np.full(scores.size, -np.inf) for _ in kernels]
        if self._any_graded:
            graded_scores = scores[:n_graded]
            if self.loss.gap:
                graded_scores = graded_scores - self.layout.grade[:n_graded]
            graded_sums = self._graded.sums(
                graded_scores, log_source[:n_graded], kernels, winners=winners
            )
            for result, graded in zip(sums, graded_sums, strict=True):
                result[:n_graded] = graded
        return sums

    def _explicit_margin(self, scores: Floats) -> Floats:
        return self.layout.explicit_pair_margins(scores, gap=self.loss.gap)

    def _log_kernel(self, name: str, margin: Floats) -> Floats:
        if isinstance(self.loss.form, Separable):
            # The logarithm itself, because margins may be beyond the range of exp.
            rate, constant = exponent(self.loss.form, name)
            return constant - rate * margin
        return logarithm(kernel_of(self.loss, name)(margin))


def _find_losers(layout: QueryLayout) -> Flags:
    """Return which rows are the loser of some pair."""
    loses = np.zeros(layout.n_used_rows, bool)
    loses[: layout.n_graded] = True
    for level in layout.query_start[1:] - 1:
        loses[layout.level_start[level] : layout.level_start[level + 1]] = False
    loses[layout.loser] = True
    return loses


def _scatter_log(log_values: Floats, target: Integers, size: int) -> Floats:
    """Return the logarithm of the sum of ``exp(log_values)`` for each target."""
    largest = np.full(size, -np.inf)
    np.maximum.at(largest, target, log_values)
    base = np.where(np.isfinite(largest), largest, 0.0)
    total = sums_at(target, np.exp(log_values - base[target]), size)
    return logarithm(total) + base


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
