"""The interface between a risk and the boosting loop, and links to class probabilities.

A `Risk` is an objective R(s), a function of the scores. `Risk.bind` ties it to the rows of a
`QueryLayout` and returns a `BoundRisk`. In each round the boosting loop

1. calls `begin_round`, which fixes weights that depend on the current ranking;
2. takes the `State` at the current scores: the risk, the pull and cached intermediate sums;
3. passes `pull_of` (or `factors`) to the search for a weak ranker;
4. chooses the step along the values of that weak ranker from `edge`, `edge_weights`, `curvature`,
   `exact_step` or a line search;
5. calls `end_round` at the new scores.

The *gradient sum* M is the sum over all pairs of ``|dR / d margin|``, ``sum |g' w l'|``. The pull,
the curvature and the weights of pairs are stored divided by M, and R and M as logarithms, so that
no score overflows. Risks that are not sums over pairs define M by the pulls of rows instead, such
as half the sum of their absolute values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize

from precede.engine.arrays import Array, BackendArray, Bytes, Floats, Integers
from precede.engine.backend import CPU, Backend
from precede.engine.compiling import njit
from precede.engine.exact import (
    all_reduce_max,
    all_reduce_sum,
    exact_sum,
    exact_sums,
    log_sum_exps,
    sums_at,
)
from precede.engine.execution import Context
from precede.engine.portable import exp, exp_of, log, log_of
from precede.engine.portable_kernels import fmax, fmin
from precede.engine.pull import PERFECT_EDGE, Factors, Pull
from precede.engine.query_layout import QueryLayout
from precede.losses import PairLoss, Polynomial, Price, Softplus

# Doublings of the step of a line search until the slope changes sign. It never does if the wrongly
# ordered pairs weigh less than rounding.
MAX_DOUBLINGS = 40
MAX_STEP = 1e300
# A loss is taken to have a flat tail, as a hinge has, if its slope is exactly 0 at this multiple of
# ``l(0) / -l'(0)``. Even the tail of a normal distribution has not underflowed by then.
FLAT_TAIL_SCALES = 16.0


@dataclass(frozen=True)
class EdgeWeights:
    """Weights d+, d-, d0 of the pairs that a 0/1 weak ranker orders correctly, wrongly or ties.

    The weight of a pair is its share of the gradient sum, so the three sum to 1.
    """

    correct: float
    wrong: float
    tied: float

    @property
    def edge(self) -> float:
        """``correct - wrong``, minus the slope of the risk over the gradient sum."""
        return self.correct - self.wrong


@dataclass(frozen=True)
class State:
    """A bound risk at some scores; arrays are in the order of the layout.

    `log_value` is log R and `log_gradient_sum` log M. `pull` is ``-dR/ds / M``: over all pairs, the
    contributions of the winners sum to 1 and those of the losers to -1. `cache` holds intermediate
    results that other methods of the same risk reuse.
    """

    scores: Floats
    log_value: float
    log_gradient_sum: float
    pull: Floats
    cache: Any = field(default=None, repr=False)


class Risk:
    """The objective of an algorithm: a function of the scores, not yet bound to any rows.

    Attributes
    ----------
    distributable : bool
        Whether the risk can be minimized on several machines, each of which holds whole queries.
    link : Link or None
        Link from scores to the probabilities of two classes, if there is one.
    """

    distributable: bool = False

    @property
    def link(self) -> Link | None:
        """Link from scores to the probabilities of two classes, if there is one."""
        return None

    @property
    def can_split_queries(self) -> bool:
        """Whether the rows of one query may be distributed over several machines."""
        return False

    def bind(self, layout: QueryLayout, context: Context | None = None) -> BoundRisk:
        """Bind the risk to the rows of a layout."""
        raise NotImplementedError(f"{type(self).__name__} must define bind(layout, context)")


class BoundRisk:
    """A risk bound to the rows of a layout; see the module docstring.

    Subclasses define `state`, and `curvature` and `edge_weights` if they have them. This class does
    not assume a pair loss; `BoundLossRisk` does.
    """

    # Whether the risk may become constant along a direction, as a sum of hinges does.
    has_flat_tail: bool = False
    # Whether the risk has kinks, at which coordinate descent can stall above the minimum.
    is_nonsmooth: bool = False
    # Rate ``-l'(0) / l(0)`` at which the loss of a pair decays.
    decay: float = 1.0
    # The backend of the scores that the risk accepts, and of its pulls: `CPU`, or the GPU of the
    # context if the risk has kernels for these rows. Scores on the CPU are always accepted, and
    # then the CPU computes.
    backend: Backend = CPU
    # Whether `exact_step` and `line_search` accept scores on `backend`; otherwise step rules that
    # call them keep the scores on the CPU.
    steps_on_backend: bool = False
    # A line search gives up where the slope falls below this share of the initial slope; negative:
    # never.
    slope_tolerance: float = -1.0

    def __init__(self, layout: QueryLayout, context: Context | None):
        self.layout = layout
        self.context = context or Context(1)
        queries = layout.query_start.size - 1
        # Over all machines. A shared query is present on each of them and counted once.
        self.n_queries = queries
        if not layout.queries_span_machines:
            self.n_queries = all_reduce_sum(lambda: queries, self.context)
        self._item_weight_total: float | None = None
        self._copies: dict[str, BackendArray] = {}

    def backend_of(self, scores: BackendArray) -> Backend:
        """Return the backend that computes at these scores: the one whose memory they are in."""
        return self.backend if self.backend.holds(scores) else CPU

    def copy_on(self, backend: Backend, name: str, compute: Callable[[], Floats]) -> BackendArray:
        """Return an array that never changes on a backend; a GPU keeps its copy under `name`."""
        if not backend.is_gpu:
            return compute()
        if name not in self._copies:
            self._copies[name] = backend.put(compute())
        return self._copies[name]

    @property
    def line_search_backend(self) -> Backend:
        """The backend of the scores that `exact_step` and `line_search` accept."""
        return self.backend if self.steps_on_backend else CPU

    def begin_round(self, scores: Floats) -> bool:  # noqa: ARG002
        """Fix the weights that depend on the scores at the start of a round, such as rank weights.

        Until the next call the risk is a fixed function of the scores. Returns whether that
        function changed, so that states must be recomputed; by default it never does.
        """
        return False

    def first_state(self, scores: Floats, *, value: bool) -> State:  # noqa: ARG002
        """Return the state at the start of a round; `log_value` may be NaN unless `value`.

        This saves time for risks whose value is expensive.
        """
        return self.state(scores)

    def end_round(self, scores: Floats) -> State:
        """Return the state after a round.

        The next round starts from it, unless `begin_round` returns True; in that case only
        `log_value` is used and `pull` may be empty.
        """
        return self.state(scores)

    def state(self, scores: Floats) -> State:
        """Return risk and pull at these scores, one per row."""
        raise NotImplementedError(f"{type(self).__name__} must define state(scores)")

    def curvature(self, state: State) -> Floats:
        """Return the diagonal of the Hessian, divided by the gradient sum."""
        raise NotImplementedError(f"{type(self).__name__} must define curvature(state)")

    def curvature_bound(self, state: State, factor: float = 2.0) -> Floats:
        """Return a diagonal that bounds the Hessian for a `factor` of 2, over the gradient sum."""
        return factor * self.curvature(state)

    def pair_counts(self) -> Floats:
        """Return the number of terms (pairs) of the risk that each row is part of.

        An item of weight 2 counts as two items. Dividing by them turns the sum of the gradients of
        a row's pairs into their mean, "the average gradient values as the target value for each
        distinct x" (Zheng et al. 2007, section 3).
        """
        return pair_totals(self.layout) / self.layout.weight

    def offset(self, state: State) -> float:  # noqa: ARG002
        """Return the initial constant score; 0 for pairs, which do not depend on it."""
        return 0.0

    def extra_history(self, state: State) -> dict[str, float]:  # noqa: ARG002
        """Return additional entries of `history_` for a round."""
        return {}

    def factors(self, state: State, *, bound: bool = False) -> Factors | None:  # noqa: ARG002
        """Return the sums for a search by largest decrease; None if the risk has no such search.

        `bound` says that the step will be `bound_step` instead of the exact one.
        """
        return None

    def pull_of(self, state: State) -> Pull:
        """Return the pull and the quadratic model for the search for a weak ranker."""

        def curvature(kind: str) -> Floats | None:
            try:
                if kind == "newton":
                    return self.curvature(state)
                return self.curvature_bound(state, 2.0 if kind == "bound" else 1.0)
            except NotImplementedError:
                return None

        layout, backend = self.layout, self.backend_of(state.scores)
        weight = self.copy_on(backend, "weight", lambda: layout.weight)
        query_start = layout.level_start[layout.query_start]
        return Pull(
            state.pull, weight, curvature,
            lambda: self.copy_on(backend, "pair counts", self.pair_counts), query_start,
            self.context, queries_span_machines=layout.queries_span_machines,
            item_total=self._total_item_weight,
        )  # fmt: skip

    def normalized_state(
        self, scores: BackendArray, value: float, gradient_sum: float, pull: BackendArray,
        hessian: BackendArray,
    ) -> State:  # fmt: skip
        """Return the state for a risk, its gradient sum, and sums over pairs by row.

        Pull and Hessian are divided by the gradient sum in place; `State.cache` is the Hessian.
        """
        backend = self.backend_of(scores)
        if gradient_sum <= 0:  # every pair is beyond its margin
            zeros = backend.zeros(pull.size), backend.zeros(pull.size)
            return State(scores, -np.inf, -np.inf, *zeros)
        backend.divide((pull, hessian), gradient_sum, self.context)
        log_value = -np.inf if value <= 0 else log_of(value)
        return State(scores, log_value, log_of(gradient_sum), pull, hessian)

    def _total_item_weight(self) -> float:
        """Return the weight of all rows of all machines, computed once."""
        if self._item_weight_total is None:
            self._item_weight_total = exact_sum(self.layout.weight, self.context)
        return self._item_weight_total

    def edge_weights(self, state: State, values: Bytes) -> EdgeWeights:
        """Return the weights of the pairs ordered correctly, wrongly or tied by values 0 and 1."""
        raise NotImplementedError(f"{type(self).__name__} must define edge_weights(state, values)")

    def log_value(self, scores: Floats) -> float:
        """Return the logarithm of the risk."""
        return self.state(scores).log_value

    def log_mean_loss(self, log_value: float) -> float:
        """Convert the logarithm of the risk to the scale of `history_`; unchanged by default."""
        return log_value

    def edge(self, state: State, values: Array) -> float:
        """Return minus the slope of the risk along a weak ranker, over the gradient sum."""
        return exact_sum(state.pull * values, self.context)

    @property
    def smoothing(self) -> float:
        """Smoothing weight, half a pair; see `smoothed_step`."""
        return default_smoothing(self.layout)

    def least_margin(self, values: Array) -> float:
        """Return the least margin of any term of the risk when scored by the values alone. O(n)."""
        return least_margin(self.layout, values, self.context)

    def has_infinite_minimizer(self, values: Array) -> bool:  # noqa: ARG002
        """Return whether the risk is known to decrease along the values for any step."""
        return False

    def growth_rate(self, state: State) -> float:
        """Return the gradient sum over the risk: ``p·rate`` for ``exp(-rate·m)`` and ``u^p``."""
        return exp_of(state.log_gradient_sum - state.log_value)

    def smoothed_step(
        self, state: State, correct: float, wrong: float, *, width: float = 1.0,
        smoothing: float | None = None,
    ) -> float:  # fmt: skip
        """Return a finite step along a weak ranker with no wrong or no correct pair.

        ``log((d+ + e) / (d- + e)) / ((c + κ) width)``, where d+ or d- is 0 and the smoothing weight
        e, half a pair, is added to both. The loss of a correct pair decays at the rate
        ``c = -l'(0) / l(0)``; that of a wrong pair grows at the rate ``κ = M / R`` with M the
        gradient sum and R the risk; `width` is the range of the values of the weak ranker. For
        ``exp(-m)`` and ``u^p`` it is the closed form ``log((d+ + e) / (d- + e)) / (1 + p)``. The
        step is at most ``log(1 + 1/e) / (c width)`` for any loss and price.
        """
        smoothing = self.smoothing if smoothing is None else smoothing
        logarithm = log_of((correct + smoothing) / (wrong + smoothing))
        size = logarithm / (self.decay + self.growth_rate(state))
        # With subnormal values the quotient would overflow.
        return size / width if abs(size) < MAX_STEP * width else math.copysign(MAX_STEP, size)

    @property
    def final_margin(self) -> float:
        """Least margin after the last step of a fit that ends with every pair in order.

        ``log(1 + 1/e)`` with e the smoothing weight: more than the log ratio of the sizes of two
        classes, so that the intercept (`fit_intercept`) does not outweigh it.
        """
        return log_of(1.0 + 1.0 / self.smoothing)

    def last_step(self, state: State, values: Array, size: float) -> float:
        """Return the last step of a fit, along values that order every pair correctly.

        The risk has its minimum at infinity. The step is at least `size`, and long enough for a
        least margin of `final_margin` even if earlier rounds reversed pairs.
        """
        margin = self.least_margin(math.copysign(1.0, size) * values)
        needed = self.final_margin - min(self.least_margin(state.scores), 0.0)
        reach = needed / margin if needed < MAX_STEP * margin else MAX_STEP
        return math.copysign(max(abs(size), reach), size)

    def exact_step(self, state: State, values: Array) -> tuple[float, bool]:
        """Return the step along `values` that minimizes the risk, and whether it was smoothed.

        By a closed form if the risk has one, otherwise by `line_search`.
        """
        return self.line_search(state, values)

    def line_search(self, state: State, values: Array) -> tuple[float, bool]:
        """Return the result of `brent_line_search`; subclasses may have a faster method."""
        return self.brent_line_search(state, values)

    def brent_line_search(
        self, state: State, values: Array, *, smoothing: float | None = None
    ) -> tuple[float, bool]:
        """Return the step along `values` that minimizes the risk, and whether it was smoothed.

        The step is doubled until the derivative changes sign, and then refined by Brent's method.
        If no pair is ordered wrongly the minimum is at infinity, and the step is `smoothed_step`
        with ``d+ = |edge| / width``; likewise if the wrong pairs weigh so little that no change of
        sign is found.
        """
        edge, width = self.edge(state, values), self.width(values)
        if edge == 0 or width == 0:  # the edge of constant values may be nonzero by rounding
            return 0.0, False
        sign = 1.0 if edge > 0 else -1.0

        def minus_slope(step: float) -> float:
            at = self.state(state.scores + sign * step * values)
            return sign * self.edge(at, values) if at.log_gradient_sum > -np.inf else 0.0

        size = None
        if not self.has_infinite_minimizer(sign * values):
            with np.errstate(over="ignore", invalid="ignore"):  # steep prices may overflow
                size = _find_zero_beyond(
                    minus_slope,
                    1.0 / width,
                    self.slope_tolerance * abs(edge),
                    flat_is_zero=self.has_flat_tail,
                )
        if size is None:
            edge_weights = (edge / width, 0.0) if edge > 0 else (0.0, -edge / width)
            return self.smoothed_step(state, *edge_weights, width=width, smoothing=smoothing), True
        # At kinks the derivative may mislead: shorten the step until the risk does not increase.
        step = sign * size
        for _ in range(60):
            if self.log_value(state.scores + step * values) <= state.log_value:
                return step, False
            step /= 2
        return 0.0, False

    def width(self, values: Array) -> float:
        """Return the range (greatest minus least) of the values of a weak ranker."""
        extremes = all_reduce_max(
            lambda: np.array([values.max(), -float(values.min())], np.float64), self.context
        )
        return float(extremes[0] + extremes[1])

    def to_rows(self, per_row: Floats) -> Floats:
        """Scatter numbers from the order of the layout to the user's rows; 0 for unused rows."""
        rows = np.zeros(self.layout.n_rows)
        rows[self.layout.order] = per_row
        return rows


class BoundLossRisk(BoundRisk):
    """A bound risk with a pair loss and a price.

    With `mean` the price applies to the mean loss of a loser k instead of the sum:
    ``v_k n_k g(u_k / n_k)`` with n_k the weight of the items above k. At scores 0 the pull is then
    that of a linear price, whatever the price.
    """

    def __init__(
        self, layout: QueryLayout, loss: PairLoss, cost: Price, context: Context | None,
        *, mean: bool = False,
    ):  # fmt: skip
        if layout.pair_margin is not None and not loss.gap:
            raise ValueError(
                f"the judgments have a margin for each pair (pair_margin), which {loss!r} does not "
                "use; use QBRank(margin='gap'), or loss=SquaredHinge('gap') or Hinge('gap') where "
                "there is a choice of losses, or leave pair_margin out"
            )
        super().__init__(layout, context)
        self.loss = loss
        self.price = cost
        self.decay, self.has_flat_tail = decay_rate(loss)
        self.is_nonsmooth = loss.smoothed(1.0) is not None
        self.mean = mean and cost.power != 1  # no difference for a linear price
        self._mean_loss_scale: tuple[float, float] | None = None

    def pair_totals(self, state: State) -> BackendArray:
        """Return the total weight of the pairs of each row; see the function `pair_totals`."""
        backend = self.backend_of(state.scores)
        return self.copy_on(backend, "pair totals", lambda: pair_totals(self.layout))

    def has_infinite_minimizer(self, values: Array) -> bool:
        """Return whether the risk decreases along the values for any step. O(n).

        True if the values order no pair wrongly, which is decided by comparing values rather than
        by slopes that may vanish. Losses with a flat tail stop decreasing at a finite step.
        """
        return not self.has_flat_tail and self.least_margin(values) >= 0

    def curvature_bound(self, state: State, factor: float = 2.0) -> Floats:
        """Return a diagonal that bounds the Hessian for a `factor` of 2, over the gradient sum.

        It holds at all scores if the price is linear and the loss has a largest curvature;
        otherwise at these scores. The term ``G(u)`` of a loser has the Hessian
        ``G'' a a' + G' sum_i w_i l''_i e_i e_i'``, where a is the gradient of u and ``e_i`` is 1 at
        the winner i and -1 at the loser. ``(a'x)² <= sum|a_j| · sum|a_j| x_j²`` and sum|a_j| is
        ``2 S`` with ``S = sum w |l'|``, so a diagonal of ``2 G'' S |a_j|`` bounds the first part,
        and 2 for every e_i the second.
        """
        if self.price.power != 1:
            return factor * self.half_curvature_bound(state)
        if self.loss.most_curvature is None:
            return factor * self.curvature(state)
        most = self.loss.most_curvature
        return factor * most * self.pair_totals(state) * exp_of(-state.log_gradient_sum)

    def half_curvature_bound(self, state: State) -> Floats:
        """Return half of `curvature_bound` for a price other than linear."""
        raise NotImplementedError(f"{type(self).__name__} must define half_curvature_bound(state)")

    def log_mean_loss(self, log_value: float) -> float:
        """Convert the logarithm of the risk to that of a mean loss per pair, without overflow.

        The generalized mean ``g⁻¹(sum v_k g(u_k) / sum v_k)`` of the loss sums of the losers,
        divided by its value for a loss of 1 per pair, ``g⁻¹(sum v_k g(n_k) / sum v_k)``, with n_k
        the weight of the items above k; with `mean`,
        ``g⁻¹(sum v_k n_k g(u_k / n_k) / sum v_k n_k)``. For ``g(u) = u`` it is the mean loss of a
        pair; for ``u^p``, the exponential loss and two classes it is ``F_p^(1/p) / (I K^(1/p))`` of
        Rudin (2005).
        """
        if self.price.power == 1:
            return log_value - float(np.log(self.layout.total))
        log_losers, log_unit = self.mean_loss_scale()
        return self.price.log_inverse(log_value - log_losers) - log_unit

    def log_divisors(self) -> Floats:
        """Return the log divisor of the loss sum of each row: log n_k with `mean`, else 0."""
        above = self.layout.weight_above() if self.mean else np.zeros(0)
        log_above = np.zeros(self.layout.n_used_rows)
        log_above[np.flatnonzero(above)] = log(above[above > 0])
        return log_above

    def mean_loss_scale(self) -> tuple[float, float]:
        """Return the logs of the weight of all losers and of the mean for a loss of 1 per pair."""
        if self._mean_loss_scale is None:
            above = self.layout.weight_above()
            losers = above > 0
            log_above = np.log(above[losers])
            log_loser_weight = np.log(self.layout.loser_weight[losers])
            if self.mean:
                log_loser_weight, log_above = log_loser_weight + log_above, np.zeros_like(log_above)
            log_price = self.price.log_value(log_above) + log_loser_weight
            log_losers, log_value = log_sum_exps([log_loser_weight, log_price], self.context)
            self._mean_loss_scale = log_losers, self.price.log_inverse(log_value - log_losers)
        return self._mean_loss_scale


def pair_totals(layout: QueryLayout) -> Floats:
    """Return the total weight of the pairs of each row. O(n + explicit pairs).

    >>> from precede import Judgments
    >>> pair_totals(Judgments.bipartite([1, 0, 0]).to_layout())
    array([1., 1., 2.])
    """
    count = layout.n_graded
    total = np.zeros(layout.n_used_rows)
    if count:
        levels = layout.level_start.size - 1
        level = np.repeat(np.arange(levels), np.diff(layout.level_start))
        weight, loser_weight = layout.weight[:count], layout.loser_weight[:count]
        of_level = layout.loser_weights_of_levels(), layout.weights_of_levels()
        below, above = np.zeros(levels), np.zeros(levels)
        _sums_below_and_above(layout.query_start, *of_level, below, above)
        total[:count] = weight * below[level] + loser_weight * above[level]
    winner, loser = layout.winner, layout.loser
    explicit = layout.pair_weight * layout.weight[winner] * layout.loser_weight[loser]
    for side in (winner, loser):
        total += sums_at(side, explicit, total.size)
    return total


def default_smoothing(layout: QueryLayout) -> float:
    """Return the weight added to d+ and d- to keep a step finite: half a pair.

    Pairs are counted by weight: a row of weight 2 counts as two rows. The alternatives (halting, an
    infinite weight, a large constant) all break the theory (Connamacher et al. 2019, appendix B).
    """
    return 0.5 / layout.pair_count


def bound_step(edge: float, smoothing: float) -> tuple[float, bool]:
    """Return ``log((1 + r) / (1 - r)) / 2`` for an edge r, and whether it was smoothed.

    If all pairs are ordered correctly, or all wrongly, twice the smoothing weight is added to
    numerator and denominator to make the step finite.

    >>> bound_step(0.0, 0.1)
    (0.0, False)
    """
    infinite = abs(edge) >= PERFECT_EDGE
    more = 2 * smoothing if infinite else 0.0
    return 0.5 * log_of((1 + edge + more) / (1 - edge + more)), infinite


def decay_rate(loss: PairLoss) -> tuple[float, bool]:
    """Return the rate ``-l'(0) / l(0)`` of a loss, 1 if undefined, and whether its tail is flat.

    The tail is flat if the loss is constant beyond some margin, as hinges are.

    >>> from precede.losses import Exponential, Hinge
    >>> decay_rate(Exponential()), decay_rate(Hinge(2.0))
    ((1.0, False), (0.5, True))
    """
    value, slope = float(loss.value(np.zeros(1))[0]), float(loss.slope(np.zeros(1))[0])
    if not (value > 0 and slope < 0):
        return 1.0, True
    rate = -slope / value
    if loss.form is not None and loss.form.ends:
        return rate, True
    return rate, not loss.slope(np.array([FLAT_TAIL_SCALES / rate]))[0] < 0


class PairShape(NamedTuple):
    """A loss with compiled kernels.

    Attributes
    ----------
    degree : 0 for the logistic loss, 1 for the hinge and 2 for the squared hinge
    knot : margin from which on a hinge is 0
    gap : whether the margin of a pair is reduced by its difference of grades
    """

    degree: int
    knot: float
    gap: bool


def pair_shape(loss: PairLoss) -> PairShape | None:
    """Return the degree and knot of a loss, or None if it has no kernels.

    >>> from precede.losses import Exponential, Hinge
    >>> pair_shape(Exponential()), pair_shape(Hinge("gap"))
    (None, PairShape(degree=1, knot=0.0, gap=True))
    """
    form = loss.form
    if isinstance(form, Softplus):
        return PairShape(0, 0.0, loss.gap)
    if isinstance(form, Polynomial) and form.degree in {1, 2}:
        return PairShape(form.degree, float(form.knot), loss.gap)
    return None


def least_margin(layout: QueryLayout, scores: Array, context: Context | None = None) -> float:
    """Return the least margin ``s_i - s_k`` of all pairs; `scores` has one for each row. O(n).

    >>> import numpy as np
    >>> from precede import Judgments
    >>> least_margin(Judgments([0, 2, 1]).to_layout(), np.array([0.0, 0.5, 2.0]))
    0.5
    """
    context = context or Context(1)
    if layout.queries_span_machines:
        low, high = level_extrema(layout, scores, context)
        return float((low[1:] - np.maximum.accumulate(high)[:-1]).min())
    pairs = layout.level_start, layout.query_start, layout.winner, layout.loser
    return -float(all_reduce_max(lambda: -_least_margin(*pairs, scores), context))


def level_extrema(layout: QueryLayout, values: Array, context: Context) -> tuple[Floats, Floats]:
    """Return the least and the greatest value of each level, over all machines.

    >>> import numpy as np
    >>> from precede import Judgments
    >>> level_extrema(Judgments([0, 1, 1]).to_layout(), np.array([0.5, 1.0, 3.0]), Context(1))
    (array([0.5, 1. ]), array([0.5, 3. ]))
    """

    def local_extrema() -> Floats:
        levels = [values[first:last] for first, last in pairwise(layout.level_start)]
        # A level may be empty on this machine.
        return np.array([[v.max(initial=-np.inf), -v.min(initial=np.inf)] for v in levels])

    extrema = all_reduce_max(local_extrema, context)
    return -extrema[:, 1], extrema[:, 0].copy()


def cut_into_chunks(
    first: Integers, end: Integers, rows: int | Integers
) -> tuple[Integers, Integers, Integers]:
    """Cut ranges of rows into chunks; return first row, end row and range of each chunk.

    `rows` is the number of rows of a chunk, for each range or for all of them; the last chunk of a
    range may have fewer.

    >>> cut_into_chunks(np.array([0, 5]), np.array([5, 6]), 3)
    (array([0, 3, 5]), array([3, 5, 6]), array([0, 0, 1]))
    """
    n_chunks = -(-(end - first) // rows)
    within = np.repeat(np.arange(first.size), n_chunks)
    number = np.arange(within.size) - (np.cumsum(n_chunks) - n_chunks)[within]
    of_chunk = np.broadcast_to(rows, first.shape)[within]
    start = first[within] + number * of_chunk
    return start, np.minimum(start + of_chunk, end[within]), within


def _find_zero_beyond(
    function: Callable[[float], float], step: float, tolerance: float, *, flat_is_zero: bool = False
) -> float | None:
    """Return the zero of a decreasing function that is positive at 0, or None if not found.

    The search starts at `step`, doubles it, and gives up once the function is at most `tolerance`
    in absolute value. With `flat_is_zero` the first step where it vanishes is a zero.
    """
    for _ in range(MAX_DOUBLINGS):
        value = function(step)
        if value < -1e-15:
            return find_root(function, 0.0, step, 1e-15 * step)
        if abs(value) <= 1e-15 and flat_is_zero:
            return step
        if abs(value) <= tolerance:
            return None
        step *= 2
    return None


def find_root(function: Callable[[float], float], low: float, high: float, xtol: float) -> float:
    """Return the root of a function that changes sign between two points.

    By Brent's method, or by bisection if that does not converge, as near a triple root: the slope
    of a squared hinge to the power of two.

    >>> round(find_root(lambda x: (x - 2.0) ** 3, 0.0, 3.0, 1e-12), 3)
    2.0
    """
    root, search = scipy.optimize.brentq(
        function, low, high, xtol=xtol, full_output=True, disp=False
    )
    return float(
        root if search.converged else scipy.optimize.bisect(function, low, high, xtol=xtol)
    )


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _sums_below_and_above(
    query_start: Integers, losers: Floats, winners: Floats, below: Floats, above: Floats
) -> None:
    """Sum `losers` over the levels below, and `winners` over those above, within each query."""
    for query in range(query_start.size - 1):
        first, last = query_start[query], query_start[query + 1]
        for level in range(first + 1, last):
            below[level] = below[level - 1] + losers[level - 1]
        for level in range(last - 2, first - 1, -1):
            above[level] = above[level + 1] + winners[level + 1]


@njit(cache=True, nogil=True)
def _least_margin(
    level_start: Integers, query_start: Integers, winner: Integers, loser: Integers, scores: Floats
) -> float:
    """Compare the least score of each level with the greatest score of the levels below."""
    least = np.inf
    for query in range(query_start.size - 1):
        highest = -np.inf
        for level in range(query_start[query], query_start[query + 1]):
            low, high = np.inf, -np.inf
            for row in range(level_start[level], level_start[level + 1]):
                low = fmin(low, scores[row])
                high = fmax(high, scores[row])
            least = fmin(least, low - highest)
            highest = fmax(highest, high)
    for pair in range(winner.size):
        least = fmin(least, scores[winner[pair]] - scores[loser[pair]])
    return least


# -- Links from scores to the probabilities of two classes, and their intercepts -----------------


# Newton's method stops when the intercept changes by at most this.
SHIFT_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Link:
    """``P(second class) = 1 / (1 + exp(-scale (s + b)))`` with an intercept b.

    A risk has a link if the scores that minimize its expectation are a constant plus a multiple
    of the log-odds of the second class.

    Parameters
    ----------
    scale : float
        Log-odds per unit of the score: 1 for the logistic loss, 2 for ``exp(-m)``, and p + 1
        for ``exp(-m)`` with the price ``u^p``.
    rate : float or None
        For ``exp(-rate m)``: the intercept solves ``F+ e^(-rate b) = F- e^((scale - rate) b)``
        with F+ the sum of ``e^(-rate s)`` over the second class and F- that of
        ``e^((scale - rate) s)`` over the first. For a linear price it is ``log(F+ / F-) / 2``
        (Rudin & Schapire 2009, corollary 13). None: the intercept makes the mean
        probability equal to the frequency of the second class, as in logistic regression.

    >>> Link(1.0)
    Link(scale=1.0, rate=None)
    """

    scale: float
    rate: float | None = None


# Risks without a link use the intercept of AdaBoost's loss to separate the classes.
ADABOOST = Link(2.0, 1.0)


def probability(decision: Floats, scale: float) -> Floats:
    """Return the probability of the second class from score plus intercept.

    >>> probability(np.array([0.0, np.log(3.0)]), 1.0)
    array([0.5 , 0.75])
    """
    return np.exp(-np.logaddexp(0.0, -scale * decision))


def fit_intercept(link: Link, scores: Floats, layout: QueryLayout, context: Context) -> float:
    """Return the intercept for a list of two classes, given scores in layout order. O(n).

    >>> from precede import Judgments
    >>> layout = Judgments([1, 0, 0, 0]).to_layout()
    >>> at_zero = [fit_intercept(link, np.zeros(4), layout, Context(1))
    ...            for link in (Link(1.0), Link(2.0, 1.0))]
    >>> [round(float(probability(b, scale)), 6) for b, scale in zip(at_zero, (1, 2))]
    [0.25, 0.25]
    """
    middle, end = layout.level_start[1:3]
    weight = layout.weight
    if link.rate is None:
        total = [
            exact_sum(weight[first:last], context) for first, last in ((0, middle), (middle, end))
        ]
        log_odds = log_of(total[1]) - log_of(total[0])
        return _solve_shift(log_odds, link.scale * scores[:end], weight[:end], context) / link.scale
    log_positive = _log_sum_exp(-link.rate * scores[middle:end], weight[middle:end], context)
    negative = (link.scale - link.rate) * scores[:middle]
    return (log_positive - _log_sum_exp(negative, weight[:middle], context)) / link.scale


def _solve_shift(log_odds: float, scores: Floats, weight: Floats, context: Context) -> float:
    """Return the shift at which the weighted mean of ``1 / (1 + exp(-s))`` has given log-odds.

    Newton's method on the log-odds of the mean, which increase by at most 1 per unit of the shift,
    with bisection whenever a step leaves the bracket.
    """
    extremes = all_reduce_max(
        lambda: np.array([scores.max(initial=-np.inf), -scores.min(initial=np.inf)]), context
    )
    low, high = log_odds - float(extremes[0]), log_odds + float(extremes[1])
    shift = low + 0.5 * (high - low)
    for _ in range(100):
        at = scores + shift
        tail = exp(-np.abs(at))
        major = weight / (1.0 + tail)
        minor = major * tail
        total, complement, slope = exact_sums(
            [np.where(at >= 0, major, minor), np.where(at >= 0, minor, major),
             minor / (1.0 + tail)],
            context,
        )  # fmt: skip
        gap = log_odds - log_of(total) + log_of(complement)
        low, high = (shift, high) if gap > 0 else (low, shift)
        previous = shift
        shift += gap * (total / (total + complement)) * complement / max(slope, 1e-300)
        if not low <= shift <= high:
            shift = low + 0.5 * (high - low)
        if abs(shift - previous) <= SHIFT_TOLERANCE:  # the next change would be below rounding
            break
    return shift


def _log_sum_exp(values: Floats, weight: Floats, context: Context) -> float:
    largest = float(all_reduce_max(lambda: values.max(initial=-np.inf), context))
    return largest + log_of(exact_sum(weight * exp(values - largest), context))
