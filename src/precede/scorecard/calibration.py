"""Calibration of ranking scores to log-odds by a logistic regression with one slope."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from precede.engine.arrays import Flags, Floats
from precede.engine.exact import exact_sums
from precede.judgments import check_column, check_labels, to_numbers

MAX_NEWTON_STEPS = 100
# With a larger slope (per standard deviation of the scores) the classes are nearly separated.
MAX_STANDARDIZED_SLOPE = 1e4


@dataclass(frozen=True)
class LogOdds:
    """``log(P(good) / P(bad)) = intercept + slope * score``.

    Attributes
    ----------
    intercept, slope : coefficients
    slope_error : standard error of the slope
    rows, goods : number of rows, and of good rows, in the fit
    """

    intercept: float
    slope: float
    slope_error: float
    rows: int
    goods: int

    def __call__(self, scores: Any) -> Floats:
        """Return the log-odds of scores."""
        return self.intercept + self.slope * to_numbers(scores, "scores")


def is_good(y: Any, good: Any) -> Flags:
    """Return which rows have the label `good`; raise ValueError if it is None or not a label."""
    labels = check_labels(y, "y")
    classes = np.unique(labels).tolist()
    if len(classes) != 2:
        raise ValueError(f"y has {len(classes)} different labels; a scorecard needs two")
    if good is None:
        low, high = classes
        raise ValueError(
            f"y has the labels {low!r} and {high!r}, and good is not given: use good={high!r} if "
            f"{high!r} stands for the rows that should get more points, such as loans repaid, or "
            f"good={low!r} if {high!r} stands for the others, such as defaults"
        )
    if good not in classes:
        raise ValueError(f"good={good!r} is not a label of y; its labels are {classes}")
    return labels == good


def fit_log_odds(scores: Any, y: Any, *, good: Any = None) -> LogOdds:
    """Fit a logistic regression of the outcome on a score, by maximum likelihood.

    The scale of a ranking score depends on the loss and the number of rounds. A regression with a
    single slope converts it to log-odds and keeps the order. Use held-out rows. Newton's method:
    O(n) for each of about ten steps.

    Parameters
    ----------
    scores : scores of the rows
    y : labels of two classes
    good : label of the good rows; for numbers by default the larger, which a ranker ranks first

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> score = rng.normal(size=20000)
    >>> y = rng.random(20000) < 1 / (1 + np.exp(-(1 + 2 * score)))
    >>> fitted = fit_log_odds(score, y)
    >>> round(fitted.intercept, 1), round(fitted.slope, 1)
    (1.0, 2.0)
    """
    classes = np.unique(check_labels(y, "y")).tolist()
    if good is None and not any(isinstance(each, str) for each in classes):
        good = classes[-1]
    goods = is_good(y, good)
    s = check_column(scores, "scores", goods.size)
    low, high = s[goods], s[~goods]
    if low.min() >= high.max() or low.max() <= high.min():
        raise ValueError(
            "the scores separate the two classes, so their odds cannot be estimated (or all scores "
            "are equal); give more rows, not those of the fit"
        )
    mean, deviation = _moments(s)
    intercept, slope, error = _newton((s - mean) / deviation, goods)
    if abs(slope) > MAX_STANDARDIZED_SLOPE:
        raise ValueError("the scores almost separate the two classes; give more rows")
    slope, error = slope / deviation, error / deviation
    return LogOdds(intercept - slope * mean, slope, error, goods.size, int(goods.sum()))


def _moments(s: Floats) -> tuple[float, float]:
    mean = exact_sums([s])[0] / s.size
    deviation = math.sqrt(exact_sums([(s - mean) ** 2])[0] / s.size)
    return mean, deviation


def _newton(z: Floats, goods: Flags) -> tuple[float, float, float]:
    """Return intercept, slope and the slope's standard error for standardized scores.

    The negative log-likelihood is convex; steps that would increase it are halved.
    """
    sign = np.where(goods, 1.0, -1.0)
    share = goods.mean()
    a, b = math.log(share / (1 - share)), 0.0

    def loss(a: float, b: float) -> float:
        return exact_sums([np.logaddexp(0.0, -sign * (a + b * z))])[0]

    value = loss(a, b)
    determinant = haa = 1.0
    for _ in range(MAX_NEWTON_STEPS):
        p = expit(a + b * z)
        w = p * (1 - p)
        r = goods - p
        ga, gb, haa, hab, hbb = exact_sums([r, r * z, w, w * z, w * z * z])
        determinant = haa * hbb - hab * hab
        if not determinant > 0:
            break
        da, db = (hbb * ga - hab * gb) / determinant, (haa * gb - hab * ga) / determinant
        size = 1.0
        while loss(a + size * da, b + size * db) > value and size > 1e-10:
            size /= 2
        a, b = a + size * da, b + size * db
        before, value = value, loss(a, b)
        if before - value <= 1e-15 * before and size * (abs(da) + abs(db)) < 1e-10:
            break
    error = math.sqrt(haa / determinant) if determinant > 0 else math.inf
    return a, b, error
