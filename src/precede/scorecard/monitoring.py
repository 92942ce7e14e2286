"""Calibration of scores to log-odds, and the stability of their distribution."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from scipy.special import expit
from scipy.stats import chi2

from precede.engine.arrays import Array, Flags, Floats, Integers, Json, MatrixLike, VectorLike
from precede.engine.exact import exact_sums
from precede.engine.frames import frame_of, is_missing
from precede.engine.parameters import check_integer, check_range
from precede.explain.shapes import bin_labels
from precede.judgments import check_column, check_labels, feature_names, to_numbers
from precede.results import Result

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

    def __call__(self, scores: VectorLike) -> Floats:
        """Return the log-odds of scores."""
        return self.intercept + self.slope * to_numbers(scores, "scores")


def is_good(y: VectorLike, good: object) -> Flags:
    """Return a mask of the rows with the label `good`; raise ValueError if it is not a label."""
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


def fit_log_odds(scores: VectorLike, y: VectorLike, *, good: object = None) -> LogOdds:
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


# -- population stability index: the shift of a distribution since the model was fitted ----------


@dataclass(frozen=True)
class Stability(Result):
    """The population stability index of one variable.

    Attributes
    ----------
    name : name of the variable
    psi : population stability index
    by_chance : index that two samples of one distribution exceed with probability 1 - `level`
    p : p-value of the index under equal distributions
    bins : labels of the bins
    expected, actual : shares of the reference rows and of the current rows in each bin
    """

    name: str
    psi: float
    by_chance: float
    p: float
    bins: tuple[str, ...]
    expected: tuple[float, ...]
    actual: tuple[float, ...]

    def rows(self) -> list[Json]:
        """Return a row for each bin."""
        return [
            {"bin": bin_, "expected": e, "actual": a, "psi": (a - e) * np.log(a / e)}
            for bin_, e, a in zip(self.bins, self.expected, self.actual, strict=True)
        ]

    def __str__(self) -> str:
        moved = "more" if self.psi > self.by_chance else "no more"
        return f"{self.name}: PSI {self.psi:.4f}, {moved} than chance ({self.by_chance:.4f})"


def population_stability(
    reference: MatrixLike, current: MatrixLike, *, bins: int = 10, level: float = 0.95
) -> list[Stability]:
    """Compare the distributions of variables in two data sets.

    ``PSI = sum over bins of (a - e) log(a / e)``, where e and a are the shares of the rows of
    `reference` and `current` in a bin. The bins are quantiles of `reference`, or categories, and
    one bin for missing values. A share is ``(count + 1/2) / (rows + bins / 2)``, so that logarithms
    of empty bins are finite. Under equal distributions PSI / (1/n + 1/m) follows a chi-squared
    distribution with bins - 1 degrees of freedom (Yurdakul 2018): the usual limits 0.1 and 0.25
    raise false alarms in small samples and miss shifts in large ones. O(n log n) per variable.

    Parameters
    ----------
    reference, current : scores, an array of features, or data frames with the same columns
    bins : number of bins of a numeric variable, not counting missing values
    level : confidence level of `by_chance`

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> print(population_stability(rng.normal(size=1000), rng.normal(0.5, size=1000))[0])
    score: PSI 0.2766, more than chance (0.0338)

    References
    ----------
    B. Yurdakul (2018). Statistical properties of population stability index. Western Michigan
    University.
    """
    check_integer("bins", bins, least=2)
    check_range("level", level, 0, 1)
    old, new = _columns(reference), _columns(current)
    if [*old] != [*new]:
        raise ValueError(
            f"the data sets have different columns: {', '.join([*old][:5])} and "
            f"{', '.join([*new][:5])}; give the same columns in the same order"
        )
    return [_compare(name, old[name], new[name], bins, level) for name in old]


def _columns(X: MatrixLike) -> Mapping[str, Array]:
    frame = frame_of(X)
    if frame is not None:
        return {str(name): _column(frame[name].to_list()) for name in frame.columns}
    X = np.asarray(X)
    if X.ndim == 1:
        return {"score": X}
    if X.ndim != 2:
        raise ValueError("give scores or a table of features")
    return dict(zip(feature_names(None, X.shape[1]), X.T, strict=True))


def _column(values: Sequence[object]) -> Array:
    """Return an array of floats with NaN for missing values, or of objects."""
    known = [value for value in values if not is_missing(value)]
    if all(isinstance(value, int | float | np.number) for value in known):
        return np.array([np.nan if is_missing(v) else v for v in values], np.float64)
    column = np.empty(len(values), object)
    column[:] = values
    return column


def _compare(name: str, old: Array, new: Array, bins: int, level: float) -> Stability:
    if not old.size or not new.size:
        raise ValueError("a data set has no rows")
    numeric = all(np.issubdtype(values.dtype, np.number) or values.dtype == bool
                  for values in (old, new))  # fmt: skip
    counted = _count_quantiles(old, new, bins) if numeric else _count_categories(old, new)
    labels, old_counts, new_counts = counted
    half = len(labels) / 2
    e, a = (old_counts + 0.5) / (old.size + half), (new_counts + 0.5) / (new.size + half)
    psi = float(np.sum((a - e) * np.log(a / e)))
    scale = 1 / old.size + 1 / new.size
    freedom = max(1, len(labels) - 1)
    return Stability(
        name, psi, float(scale * chi2.ppf(level, freedom)), float(chi2.sf(psi / scale, freedom)),
        tuple(labels), tuple(e.tolist()), tuple(a.tolist()),
    )  # fmt: skip


def _count_quantiles(old: Array, new: Array, bins: int) -> tuple[list[str], Integers, Integers]:
    """Return labels and both counts of bins between quantiles of the old values."""
    x, z = old.astype(np.float64), new.astype(np.float64)
    known = np.sort(x[~np.isnan(x)])
    cuts: Floats = np.zeros(0)
    if known.size:
        position = np.ceil(np.arange(1, bins) * known.size / bins).astype(int) - 1
        cuts = np.unique(known[position])
        cuts = cuts[cuts < known[-1]]

    def count(values: Floats) -> Integers:
        bin_ = np.where(np.isnan(values), cuts.size + 1, np.searchsorted(cuts, values, "left"))
        return np.bincount(bin_, minlength=cuts.size + 2)

    labels, old_counts, new_counts = bin_labels(cuts, 6), count(x), count(z)
    if old_counts[-1] or new_counts[-1]:
        return labels, old_counts, new_counts
    return labels[:-1], old_counts[:-1], new_counts[:-1]


def _count_categories(old: Array, new: Array) -> tuple[list[str], Integers, Integers]:
    """Return labels and both counts of categories."""
    names = [[_category_name(value) for value in values.tolist()] for values in (old, new)]
    labels = sorted({*names[0], *names[1]})
    bin_of = {label: j for j, label in enumerate(labels)}
    old_counts, new_counts = (
        np.bincount([bin_of[v] for v in values], minlength=len(labels)) for values in names
    )
    return labels, old_counts, new_counts


def _category_name(value: object) -> str:
    """Return the name of a category; whole numbers have one name, whatever their type."""
    if is_missing(value):
        return "missing"
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(cast(float, value)) if whole else value)
