"""Links from scores to the probabilities of two classes, and their intercepts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from precede.engine.arrays import Floats
from precede.engine.exact import all_reduce_max, exact_sum, exact_sums
from precede.engine.execution import Context
from precede.engine.portable import exp, log_of
from precede.engine.query_layout import QueryLayout

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
