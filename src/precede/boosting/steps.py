"""Step rules: how far to go along the ranker that was chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from precede.boosting.history import (
    History,
)
from precede.engine.arrays import Array, Floats
from precede.engine.exact import all_reduce_sum, exact_sum
from precede.engine.portable import exp_of, expm1_of
from precede.model import Ensemble
from precede.risks.base import BoundRisk, State, bound_step, smoothing_mass
from precede.weak_rankers.base import Search, SearchResult, WeakRanker

__all__ = [
    "BoundStep",
    "ExactStep",
    "LineSearch",
    "NormalizedStep",
    "QuadraticStep",
    "SecantStep",
    "SmoothedStepWarning",
    "Step",
    "StepRule",
]


# `SecantStep` ends where the slope is at most this share of the slope at 0, or between two steps
# that are apart by this share of themselves, as on a kink.
FLAT = 1e-9
# Most evaluations of the risk; halving alone would take about half of them.
EVALUATIONS = 100
# Relative rounding error of the risk, and the share of a step below which a move changes the risk
# too little to tell it from that error.
ROUNDING = 1e-12
SHORT = 1e-3


class SmoothedStepWarning(UserWarning):
    """A ranker made no mistake, so the exact step was infinite and has been made finite."""


@dataclass(frozen=True)
class Step:
    """A step along a ranker; `perfect` when that ranker alone puts every pair in order."""

    size: float
    smoothed: bool = False
    perfect: bool = False
    whole: bool = False  # taken as it is, without the learning rate


class StepRule:
    """How far to go along the ranker that was chosen.

    A rule that needs to know more than a round may keep it between `start` and the last
    `seen`; such a rule serves one fit.
    """

    # Whether the user is told of a step that was smoothed.
    warns: ClassVar[bool] = True
    # Whether `step` may ask for the value of the risk where the round begins.
    needs_value: ClassVar[bool] = True
    # Whether the risk is least on the whole line at the step, as far as it can be found.
    least_on_line: ClassVar[bool] = False
    # Whether the step is `bound_step` of the edge, by which select="decrease" then compares.
    from_edge: ClassVar[bool] = False
    # Whether `step` takes states and values that are on a device, of any risk.
    on_device: ClassVar[bool] = False

    def start(self, search: Search, ensemble: Ensemble, history: History) -> None:
        """Called once before the first round, with the rounds of an earlier fit."""

    def again(
        self, risk: BoundRisk, scores: Floats, weak_ranker: WeakRanker, weight: float
    ) -> None:
        """Called after `start` for each of those rounds, with the scores before it."""

    def step(self, risk: BoundRisk, state: State, found: SearchResult, values: Array) -> Step:
        """Give the step; `values` are those of the ranker, uint8 when they are 0 and 1."""
        raise NotImplementedError(f"{type(self).__name__} must define step(...)")

    def seen(self, risk: BoundRisk, state: State) -> dict[str, Any]:  # noqa: ARG002
        """What else the history should hold of a round, at the scores after it."""
        return {}


class ExactStep(StepRule):
    """The step at which the risk is least along the ranker.

    For the exponential loss and values 0 and 1 it is ``log(d+ / d-) / 2`` (RS09 eq. 4), where
    d+ and d- are the masses of the pairs in order and reversed; with the price ``u^p`` and two
    classes it is ``log(d+ / d-) / (p + 1)``, with grades or queries a search on the masses of
    levels. When d- is 0 the step would be infinite; it is smoothed as
    ``log((d+ + e) / (d- + e)) / (p + 1)`` with e half the mass of a pair (see
    `BoundRisk.smoothed_step` for other losses and prices). Anything else is a line search.
    """

    least_on_line = True

    def step(self, risk: BoundRisk, state: State, found: SearchResult, values: Array) -> Step:  # noqa: ARG002
        """Closed form where there is one, a search on masses or on the line otherwise."""
        size, smoothed = risk.exact_step(state, values)
        return _finite(risk, size, values) if smoothed else Step(size)


class BoundStep(StepRule):
    """``log((1 + r) / (1 - r)) / 2`` for an edge r: least of an upper bound (C19's RB-C).

    Valid for rankers with values in [0, 1] and the exponential loss.
    """

    from_edge = True
    on_device = True

    def step(self, risk: BoundRisk, state: State, found: SearchResult, values: Array) -> Step:
        """Take the step from the edge alone."""
        if values.dtype != np.uint8 and (values.min() < 0 or values.max() > 1):
            raise ValueError(
                f"step='bound' needs rankers with values in [0, 1], but {found.weak_ranker} has "
                f"values from {float(values.min()):g} to {float(values.max()):g}; use step='exact' "
                "or weak_rankers='features'"
            )
        size, infinite = bound_step(risk.edge(state, values), smoothing_mass(risk.layout))
        return _finite(risk, size, values) if infinite else Step(size)


class LineSearch(StepRule):
    """The least risk along the ranker, by a search on the derivative; any risk, any values."""

    least_on_line = True

    def step(self, risk: BoundRisk, state: State, found: SearchResult, values: Array) -> Step:  # noqa: ARG002
        """Search the line: on a few points that stand for many rows, or on all rows."""
        size, smoothed = risk.search_line(state, values)
        return _finite(risk, size, values) if smoothed else Step(size)


def _finite(risk: BoundRisk, size: float, values: Array) -> Step:
    """A step that would be infinite: of a perfect ranker, or smoothed."""
    # The values alone put every pair in order, without a tie.
    perfect = risk.least_margin(np.sign(size) * values) > 0
    return Step(size, not perfect, perfect)


class NormalizedStep(StepRule):
    """Steps of one small length in the norm of the quadratic model, or none at all.

    ``s_k = length / ||g_k||`` with ``||g||² = sum_i W_i g(x_i)² / n``, taken where it does not
    raise the risk; otherwise the step is 0 (Zheng et al. 2007, appendix: the length is their
    s²). Theorem 1 bounds the risk along such a run, see `precede.bounds.convergence_bound`; the
    history holds the lengths taken as ``"normalized_step"``. One evaluation of the risk.

    >>> NormalizedStep(0.1)
    NormalizedStep(0.1, hessian='bound')
    """

    on_device = True

    def __init__(self, length: float, *, hessian: str = "bound"):
        if not isinstance(length, int | float | np.number) or not 0 < length < np.inf:
            raise ValueError(f"step_length={length!r} is out of range; use a number above 0")
        self.length = float(length)
        self.hessian = hessian
        self._taken = 0.0

    def step(self, risk: BoundRisk, state: State, found: SearchResult, values: Array) -> Step:  # noqa: ARG002
        """Scale the ranker to the length."""
        weight = risk.pull_of(state).hessian(self.hessian)
        square = exact_sum(weight * np.square(values, dtype=np.float64), risk.context)
        rows = all_reduce_sum(lambda: values.size, risk.context)
        norm = float(np.sqrt(square / rows) * exp_of(0.5 * state.log_gradient_sum))
        size = self.length / norm
        rises = risk.log_value(state.scores + size * values) > state.log_value
        self._taken = 0.0 if rises else self.length
        return Step(0.0 if rises else size, whole=True)

    def seen(self, risk: BoundRisk, state: State) -> dict[str, Any]:  # noqa: ARG002
        """The length of the step that was taken."""
        return {"normalized_step": self._taken}

    def __repr__(self) -> str:
        return f"NormalizedStep({self.length:g}, hessian={self.hessian!r})"


class QuadraticStep(StepRule):
    """The step 1: the ranker was fitted to a quadratic model of the risk and is the step."""

    needs_value = False
    on_device = True

    def step(self, risk: BoundRisk, state: State, found: SearchResult, values: Array) -> Step:  # noqa: ARG002
        """Take the step as it is."""
        return Step(1.0)


class SecantStep(StepRule):
    """The step >= 0 of the least risk along a ranker fitted to a quadratic model.

    Such a ranker is of about the right size, so the search begins at 1. It goes to the least
    point of the cubic through the values and slopes of the risk at the last two steps, or to the
    middle between a step before the least point and one beyond it where the cubic does not help,
    until the slope is at most a billionth of what it was at 0. Where many steps are the best,
    because the risk is flat between them, it is the first one that the search finds.

    There is no best step where the ranker reverses no pair and the loss falls for ever; it is then
    `BoundRisk.smoothed_step`, as in a `LineSearch`, and marked as "smoothed" in the history. The
    step never raises the risk.
    """

    warns = False  # a tree that reverses no pair does not mean that a feature gives the answer away
    on_device = True

    def step(self, risk: BoundRisk, state: State, found: SearchResult, values: Array) -> Step:
        """Follow the least points of cubics."""
        noise = ROUNDING * exp_of(state.log_value - state.log_gradient_sum)
        low = here = best = _Probe(0.0, found.edge, 0.0)
        high, moves, size = None, (np.inf, np.inf), 1.0
        for _ in range(EVALUATIONS):
            before, here = here, _probe(risk, state, values, size)
            best = max(best, here, key=lambda probe: probe.gained)
            if here.gained >= -noise and abs(here.fall) <= FLAT * found.edge:
                if here.fall > 0 and high is None and _falls_for_ever(risk, values):
                    return _smoothed(risk, state, found.edge, values)
                return Step(here.size if here.gained >= 0 else best.size)
            if here.fall > 0 and here.gained >= low.gained - noise:
                low = here
            else:  # beyond the least point, or beyond one of several
                high = here
            if high is not None and high.size - low.size <= FLAT * high.size:
                break
            size = _next_step(before, here, low, high, moves[0])
            moves = moves[1], abs(size - here.size)
        return Step(best.size)


class _Probe(NamedTuple):
    """A step, minus the slope of the risk there, and by how much the risk has fallen.

    Both are in units of the mass where the round begins.
    """

    size: float
    fall: float
    gained: float


def _probe(risk: BoundRisk, state: State, values: Array, size: float) -> _Probe:
    """Evaluate the risk at a step along the values."""
    at = risk.state(state.scores + size * values)
    fall = risk.edge(at, values) * exp_of(at.log_gradient_sum - state.log_gradient_sum)
    share = -expm1_of(at.log_value - state.log_value)  # of the risk
    return _Probe(size, fall, share * exp_of(state.log_value - state.log_gradient_sum))


def _next_step(
    before: _Probe, here: _Probe, low: _Probe, high: _Probe | None, move: float
) -> float:
    """Least point of the cubic through the last two probes, if it is where the least risk is.

    Otherwise the middle of the bracket, or further ahead. Moves that are not at most half of the
    one before the last, `move`, do not converge.
    """
    length = here.size - before.size
    # The fall is q(u) = C + B u + A u² at u = (step - before) / length, and its integral is known.
    quadratic = 0.0
    if abs(length) > SHORT * here.size:
        quadratic = 3.0 * (before.fall + here.fall) - 6.0 * (here.gained - before.gained) / length
    slope = here.fall - before.fall - quadratic
    square = slope * slope  # a power would depend on the C library
    root = square - 4.0 * quadratic * before.fall
    # The falls run against the steps where `length` is negative.
    under = np.sqrt(root) - np.sign(length) * slope if 0 < root < np.inf else 0.0
    size = before.size + abs(length) * 2.0 * before.fall / under if under > 0 else np.inf
    if high is None:
        return float(min(size, 4.0 * low.size)) if size > low.size else 4.0 * low.size
    inside = low.size < size < high.size and abs(size - here.size) <= 0.5 * move
    return float(size) if inside else 0.5 * (low.size + high.size)


def _falls_for_ever(risk: BoundRisk, values: Array) -> bool:
    """Whether the risk has no least point along the values."""
    device = risk.context.device
    if device is not None and device.holds(values):
        values = device.get(values)
    return risk.falls_for_ever(values)


def _smoothed(risk: BoundRisk, state: State, edge: float, values: Array) -> Step:
    """The finite step for a ranker that reverses no pair."""
    width = risk.width(values)
    return Step(risk.smoothed_step(state, edge / width, 0.0, width=width), smoothed=True)
