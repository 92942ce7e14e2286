"""Step rules: the weight of the chosen weak ranker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from precede.boosting.loop import History
from precede.engine.arrays import Array, Floats
from precede.engine.exact import all_reduce_sum, exact_sum
from precede.engine.portable import exp_of, expm1_of
from precede.model import Ensemble
from precede.risks.base import BoundRisk, State
from precede.risks.line_search import (
    bound_step,
    has_infinite_minimizer,
    line_search,
    smoothed_step,
)
from precede.weak_rankers.base import Search, SearchResult, WeakRanker

# `SecantStep` stops where the slope is at most this fraction of the slope at 0, or where the
# relative width of the bracket is at most this, as at a kink.
SLOPE_TOLERANCE = 1e-9
# Maximum number of risk evaluations of `SecantStep`; bisection alone would need about half.
MAX_EVALUATIONS = 100
# Relative rounding error of the risk, and the relative move below which the change of the risk is
# lost in that error.
RISK_ROUNDING = 1e-12
MIN_MOVE = 1e-3


class SmoothedStepWarning(UserWarning):
    """A weak ranker reverses no pair, so its exact step is infinite and was replaced."""


@dataclass(frozen=True)
class Step:
    """Step along a weak ranker."""

    size: float
    smoothed: bool = False  # replaces an infinite step
    perfect: bool = False  # the weak ranker alone orders every pair correctly
    unshrunk: bool = False  # not multiplied by the learning rate


class StepRule:
    """Base class of step rules. A rule may keep state from `start` on, for one fit."""

    # Whether a smoothed step issues a `SmoothedStepWarning`.
    warns_if_smoothed: ClassVar[bool] = True
    # Whether `step` reads the value of the risk at the start of the round.
    needs_value: ClassVar[bool] = True
    # Whether the step minimizes the risk along the weak ranker.
    is_line_minimum: ClassVar[bool] = False
    # Whether `step` accepts scores and values on the backend of the risk, not only on the CPU.
    on_any_backend: ClassVar[bool] = False
    # Whether the step is `bound_step` of the edge; select="decrease" then assumes this step.
    from_edge: ClassVar[bool] = False

    def start(self, search: Search, ensemble: Ensemble, history: History) -> None:
        """Prepare for a fit, which continues an earlier one if `history` is not empty."""

    def replay(
        self, risk: BoundRisk, scores: Floats, weak_ranker: WeakRanker, weight: float
    ) -> None:
        """Replay a round of the earlier fit, given the scores before it."""

    def step(self, risk: BoundRisk, state: State, found: SearchResult, values: Array) -> Step:
        """Return the step along the values of a weak ranker, which are uint8 if they are 0 or 1."""
        raise NotImplementedError(f"{type(self).__name__} must define step(...)")

    def record(self, risk: BoundRisk, state: State) -> dict[str, float]:  # noqa: ARG002
        """Return additional columns of the history, computed after the round."""
        return {}


class ExactStep(StepRule):
    """The step that minimizes the risk along the weak ranker.

    For the exponential loss and values 0 and 1 it is ``log(d+ / d-) / 2`` (Rudin & Schapire 2009,
    eq. 4), where d+ and d- are the weights of the pairs ordered correctly and wrongly. With the
    price ``u^p`` and two classes it is ``log(d+ / d-) / (p + 1)``; with more grades or queries it
    is found from sums by level. If d- is 0 the step would be infinite and is smoothed, see
    `precede.risks.line_search.smoothed_step`. Other losses and values use a line search.
    """

    is_line_minimum = True
    on_any_backend = True

    def step(self, risk: BoundRisk, state: State, found: SearchResult, values: Array) -> Step:  # noqa: ARG002
        """Return the step that minimizes the risk."""
        size, smoothed = risk.exact_step(state, values) or line_search(risk, state, values)
        return _finite_step(risk, size, values) if smoothed else Step(size)


class BoundStep(StepRule):
    """``log((1 + r) / (1 - r)) / 2`` for an edge r, which minimizes an upper bound of the risk.

    For weak rankers with values in [0, 1] and the exponential loss (RB-C of Connamacher et al.
    2019).
    """

    from_edge = True
    on_any_backend = True

    def step(self, risk: BoundRisk, state: State, found: SearchResult, values: Array) -> Step:
        """Compute the step from the edge."""
        if values.dtype != np.uint8 and (values.min() < 0 or values.max() > 1):
            raise ValueError(
                f"step='bound' needs rankers with values in [0, 1], but {found.weak_ranker} has "
                f"values from {float(values.min()):g} to {float(values.max()):g}; use step='exact' "
                "or weak_rankers='features'"
            )
        size, infinite = bound_step(risk.edge(state, values), risk.terms.smoothing)
        return _finite_step(risk, size, values) if infinite else Step(size)


def _finite_step(risk: BoundRisk, size: float, values: Array) -> Step:
    """Mark a step that replaces an infinite one as perfect or as smoothed."""
    perfect = risk.terms.least_margin(np.sign(size) * values) > 0
    return Step(size, not perfect, perfect)


class NormalizedStep(StepRule):
    """Steps of constant length in the norm of the quadratic model.

    ``s_k = length / ||g_k||`` with ``||g||² = sum_i W_i g(x_i)² / n``, unless it raises the risk;
    then the step is 0 (Zheng et al. 2007, appendix: the length is their s²).
    Theorem 1 bounds the risk of such a fit, see `precede.bounds.convergence_bound`; the history
    records the lengths as ``"normalized_step"``. One evaluation of the risk.

    >>> NormalizedStep(0.1)
    NormalizedStep(0.1, hessian='bound')
    """

    on_any_backend = True

    def __init__(self, length: float, *, hessian: str = "bound"):
        if not isinstance(length, int | float | np.number) or not 0 < length < np.inf:
            raise ValueError(f"step_length={length!r} is out of range; use a number above 0")
        self.length = float(length)
        self.hessian = hessian
        self._length_taken = 0.0

    def step(self, risk: BoundRisk, state: State, found: SearchResult, values: Array) -> Step:  # noqa: ARG002
        """Scale the weak ranker to the length."""
        weight = risk.pull_of(state).hessian(self.hessian)
        square = exact_sum(weight * np.square(values, dtype=np.float64), risk.context)
        rows = all_reduce_sum(lambda: values.size, risk.context)
        norm = float(np.sqrt(square / rows) * exp_of(0.5 * state.log_gradient_sum))
        size = self.length / norm
        rises = risk.log_value(state.scores + size * values) > state.log_value
        self._length_taken = 0.0 if rises else self.length
        return Step(0.0 if rises else size, unshrunk=True)

    def record(self, risk: BoundRisk, state: State) -> dict[str, float]:  # noqa: ARG002
        """Return the length of the step."""
        return {"normalized_step": self._length_taken}

    def __repr__(self) -> str:
        return f"NormalizedStep({self.length:g}, hessian={self.hessian!r})"


class QuadraticStep(StepRule):
    """The step 1, for weak rankers fitted to a quadratic model of the risk."""

    needs_value = False
    on_any_backend = True

    def step(self, risk: BoundRisk, state: State, found: SearchResult, values: Array) -> Step:  # noqa: ARG002
        """Return the step 1."""
        return Step(1.0)


class SecantStep(StepRule):
    """The step >= 0 that minimizes the risk along a weak ranker fitted to a quadratic model.

    Such a weak ranker has about the right size, so the search starts at 1. It moves to the minimum
    of the cubic through the values and slopes of the risk at the last two steps, or bisects the
    bracket if that fails, until the slope is at most 1e-9 of the slope at 0. If the risk is flat
    around its minimum, the first minimizer found is returned.

    There is no minimum if the weak ranker reverses no pair and the loss has no minimum either; the
    step is then `smoothed_step`, as in `ExactStep`, and marked as "smoothed" in the history. The
    step never raises the risk.
    """

    # A tree that reverses no pair does not indicate that a feature leaks the target.
    warns_if_smoothed = False
    on_any_backend = True

    def step(self, risk: BoundRisk, state: State, found: SearchResult, values: Array) -> Step:
        """Iterate cubic interpolation and bisection."""
        noise = RISK_ROUNDING * exp_of(state.log_value - state.log_gradient_sum)
        low = current = best = _Probe(0.0, found.edge, 0.0)
        high, moves, size = None, (np.inf, np.inf), 1.0
        for _ in range(MAX_EVALUATIONS):
            previous, current = current, _evaluate(risk, state, values, size)
            best = max(best, current, key=lambda probe: probe.decrease)
            if current.decrease >= -noise and abs(current.descent) <= SLOPE_TOLERANCE * found.edge:
                if current.descent > 0 and high is None and has_infinite_minimizer(risk, values):
                    width = risk.terms.width(values)
                    size = smoothed_step(risk, state, found.edge / width, 0.0, width=width)
                    return Step(size, smoothed=True)
                return Step(current.size if current.decrease >= 0 else best.size)
            if current.descent > 0 and current.decrease >= low.decrease - noise:
                low = current
            else:  # beyond a minimum
                high = current
            if high is not None and high.size - low.size <= SLOPE_TOLERANCE * high.size:
                break
            size = _next_step(previous, current, low, high, moves[0])
            moves = moves[1], abs(size - current.size)
        return Step(best.size)


class _Probe(NamedTuple):
    """A step, the negative slope of the risk at it, and the decrease of the risk.

    Slope and decrease are in units of the gradient sum at the start of the round.
    """

    size: float
    descent: float
    decrease: float


def _evaluate(risk: BoundRisk, state: State, values: Array, size: float) -> _Probe:
    """Evaluate the risk at a step along the values."""
    at = risk.state(state.scores + size * values)
    descent = risk.edge(at, values) * exp_of(at.log_gradient_sum - state.log_gradient_sum)
    decrease = -expm1_of(at.log_value - state.log_value)  # relative to the risk
    return _Probe(size, descent, decrease * exp_of(state.log_value - state.log_gradient_sum))


def _next_step(
    previous: _Probe, current: _Probe, low: _Probe, high: _Probe | None, earlier_move: float
) -> float:
    """Return the minimum of the cubic through the last two probes, if it is in the bracket.

    Otherwise return the middle of the bracket, or a longer step while there is no upper end. Also
    bisect if the move is more than half of `earlier_move`, the one before the last: the cubic steps
    may not converge.
    """
    length = current.size - previous.size
    # Negative slope q(u) = C + B u + A u² at u = (step - previous) / length; its integral is the
    # known decrease.
    quadratic = 0.0
    if abs(length) > MIN_MOVE * current.size:
        gain = current.decrease - previous.decrease
        quadratic = 3.0 * (previous.descent + current.descent) - 6.0 * gain / length
    slope = current.descent - previous.descent - quadratic
    square = slope * slope  # a power would depend on the C library
    discriminant = square - 4.0 * quadratic * previous.descent
    # A negative `length` reverses the direction of u.
    divisor = np.sqrt(discriminant) - np.sign(length) * slope if 0 < discriminant < np.inf else 0.0
    size = previous.size + abs(length) * 2.0 * previous.descent / divisor if divisor > 0 else np.inf
    if high is None:
        return float(min(size, 4.0 * low.size)) if size > low.size else 4.0 * low.size
    inside = low.size < size < high.size and abs(size - current.size) <= 0.5 * earlier_move
    return float(size) if inside else 0.5 * (low.size + high.size)
