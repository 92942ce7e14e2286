"""Steps along a weak ranker that minimize a risk; finite steps where the minimum is at infinity."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy.optimize

from precede.engine.arrays import Array
from precede.engine.portable import exp_of, log_of
from precede.engine.pull import PERFECT_EDGE
from precede.risks.base import BoundRisk, State

# Doublings of the step of a line search until the slope changes sign. It never does if the wrongly
# ordered pairs weigh less than rounding.
MAX_DOUBLINGS = 40
MAX_STEP = 1e300
# The line search of a risk of unknown form, which may be undefined for large scores, gives up where
# the slope falls below this share of the initial slope.
SLOPE_TOLERANCE = 1e-12


def line_search(
    risk: BoundRisk, state: State, values: Array, *, smoothing: float | None = None
) -> tuple[float, bool]:
    """Return the step along `values` that minimizes the risk, and whether it was smoothed.

    The step is doubled until the derivative changes sign, and then refined by Brent's method. If no
    pair is ordered wrongly the minimum is at infinity, and the step is `smoothed_step` with
    ``d+ = |edge| / width``; likewise if the wrong pairs weigh so little that no change of sign is
    found.
    """
    if risk.backend.holds(state.scores):
        values = risk.backend.put(values)
    edge, width = risk.edge(state, values), risk.terms.width(values)
    if edge == 0 or width == 0:  # the edge of constant values may be nonzero by rounding
        return 0.0, False
    sign, shape = 1.0 if edge > 0 else -1.0, risk.loss_shape

    def minus_slope(step: float) -> float:
        at = risk.state(state.scores + sign * step * values)
        return sign * risk.edge(at, values) if at.log_gradient_sum > -np.inf else 0.0

    size = None
    if not has_infinite_minimizer(risk, sign * values):
        with np.errstate(over="ignore", invalid="ignore"):  # steep prices may overflow
            size = _find_zero(
                minus_slope,
                1.0 / width,
                SLOPE_TOLERANCE * abs(edge) if shape is None else -1.0,
                flat_is_zero=shape is not None and shape.has_flat_tail,
            )
    if size is None:
        weights = (edge / width, 0.0) if edge > 0 else (0.0, -edge / width)
        return smoothed_step(risk, state, *weights, width=width, smoothing=smoothing), True
    # At kinks the derivative may mislead: shorten the step until the risk does not increase.
    step = sign * size
    for _ in range(60):
        if risk.log_value(state.scores + step * values) <= state.log_value:
            return step, False
        step /= 2
    return 0.0, False


def has_infinite_minimizer(risk: BoundRisk, values: Array) -> bool:
    """Return whether the risk is known to decrease along the values for any step. O(n).

    True if the values order no pair wrongly, which is decided by comparing values rather than by
    slopes that may vanish. Losses with a flat tail stop decreasing at a finite step.
    """
    shape = risk.loss_shape
    return shape is not None and not shape.has_flat_tail and risk.terms.least_margin(values) >= 0


def smoothed_step(
    risk: BoundRisk, state: State, correct: float, wrong: float, *, width: float = 1.0,
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
    smoothing = risk.terms.smoothing if smoothing is None else smoothing
    logarithm = log_of((correct + smoothing) / (wrong + smoothing))
    shape = risk.loss_shape
    decay, growth = (1.0, None) if shape is None else (shape.decay, shape.growth)
    if growth is None:
        growth = exp_of(state.log_gradient_sum - state.log_value)
    size = logarithm / (decay + growth)
    # With subnormal values the quotient would overflow.
    return size / width if abs(size) < MAX_STEP * width else math.copysign(MAX_STEP, size)


def last_step(risk: BoundRisk, state: State, values: Array, size: float) -> float:
    """Return the last step of a fit, along values that order every pair correctly.

    The risk has its minimum at infinity. The step is at least `size`, and long enough for a
    least margin of `PairTerms.final_margin` even if earlier rounds reversed pairs.
    """
    margin = risk.terms.least_margin(math.copysign(1.0, size) * values)
    needed = risk.terms.final_margin - min(risk.terms.least_margin(state.scores), 0.0)
    reach = needed / margin if needed < MAX_STEP * margin else MAX_STEP
    return math.copysign(max(abs(size), reach), size)


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


def _find_zero(
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
