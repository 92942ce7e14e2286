"""Figures of fitted models and rankings.

``..._info`` functions compute a result, ``draw_...`` functions draw it. The latter take and return
matplotlib's Axes and need ``pip install "precede[plots]"``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from precede.engine.arrays import Array, Floats, Integers, Json, MatrixLike, VectorLike
from precede.engine.frames import take_rows
from precede.judgments import feature_names, grades_of, to_numbers
from precede.metrics import evaluate, metric
from precede.plots.drawing import (
    Band,
    Blocks,
    Cells,
    Chart,
    Cross,
    Foot,
    Layer,
    Line,
    Rule,
    new_axes,
    side_by_side,
)  # fmt: skip
from precede.results import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from precede.estimator import BaseRanker
    from precede.explain.shapes import ShapeFunction
    from precede.inference import RankComparison
    from precede.margin import MarginDistribution


# Differences of numbers up to LARGE do not overflow, nor do sums of the two ends of a bin.
LARGEST = float(np.finfo(np.float64).max)
LARGE = LARGEST / 4
_MAX_TICKS = 12  # names of categories or bins on an axis


class _Info:
    """A result to be drawn: a frozen dataclass that turns into plain data."""

    def to_dict(self) -> Json:
        """Return plain lists and numbers."""
        return plain({each.name: getattr(self, each.name) for each in fields(self)})  # type: ignore[arg-type]


# -- shape functions -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ShapeInfo(_Info):
    """A shape function over the range of the data, and a histogram of the data.

    `x` and `y` are the corners of the line, a jump being two corners of the same x; the mean over
    the data, if there are any, is subtracted from `y` and kept in `offset`. `edges` and `counts`
    are a histogram of the values inside the range, `beyond` is the number of values outside,
    `missing` the contribution of missing values and `missing_share` their share. `low` and `high`
    are the ends of a band around `y`, where the model has standard errors. `ticks` are positions
    and names of categories that were text.
    """

    name: str
    x: Floats
    y: Floats
    offset: float
    missing: float
    missing_share: float
    edges: Floats
    counts: Integers
    beyond: int
    low: Floats | None = None
    high: Floats | None = None
    ticks: Sequence[tuple[float, str]] = ()


def shape_info(
    model: BaseRanker, feature: int | str, X: MatrixLike = None, *, within: float = 0.98,
    bins: int = 40, reach: float = 1.0,
) -> ShapeInfo:  # fmt: skip
    """Compute the shape function of a feature of a fitted model, to be drawn over data.

    Parameters
    ----------
    model : fitted ranker that is a sum of functions of single features
    feature : name or number
    X : the data to show, optional; the line then covers the middle `within` of the values
    within : share of the values to show, in (0, 1]; long tails make the rest unreadable
    bins : number of bins of the histogram
    reach : distance of the ends of the band from the line, in standard errors

    Examples
    --------
    >>> from precede import RankBoost
    >>> X = [[0.0], [1.0], [2.0], [3.0]]
    >>> model = RankBoost(n_estimators=1, step="bound").fit(X, [0, 1, 0, 1])
    >>> info = shape_info(model, 0, X, within=1.0, bins=3)
    >>> info.x.tolist(), info.counts.tolist()
    ([0.0, 0.5, 0.5, 3.0], [1, 1, 2])
    """
    if not 0 < within <= 1:
        raise ValueError(f"within={within!r} is out of range; use more than 0, up to 1")
    shape: ShapeFunction = model.shape_function(feature)
    named = model.categories_.get(shape.name, ())
    if model.categories_ and hasattr(X, "columns"):  # texts become the codes of the fit
        X = model._validated(X, reset=False)
    column = _column(X, shape.feature)
    present = column[~np.isnan(column)]
    # The width of the range may overflow; a quarter of it does not.
    values = present if present.size else shape.breakpoints
    unit = 4.0 if np.abs(values).max(initial=0.0) > LARGE else 1.0
    low, high = _shown(present / unit, shape.breakpoints / unit, within, LARGEST / unit)
    if named:
        low, high = -0.5, len(named) - 0.5
    x, y = _corners(shape, unit * low, unit * high)
    added = shape(column)
    offset = _mean(added) if column.size and np.isfinite(added).all() else 0.0
    inside = present[(present / unit >= low) & (present / unit <= high)]
    counts, edges = np.histogram(inside / unit, bins, (low, high))
    edges = unit * edges
    share = 1 - present.size / column.size if column.size else 0.0
    missing = shape.missing - offset
    beyond = present.size - inside.size
    low_end = high_end = None
    if shape.errors is not None:
        middle = x[::2] / 2 + x[1::2] / 2
        error = np.repeat(shape.errors[np.searchsorted(shape.breakpoints, middle)], 2)
        low_end, high_end = (y - offset - reach * error, y - offset + reach * error)
    ticks = [(float(number), str(text)) for number, text in enumerate(named)]
    return ShapeInfo(
        shape.name, x, y - offset, offset, missing, share, edges, counts, beyond,
        low_end, high_end, ticks,
    )  # fmt: skip


def _shown(present: Floats, breakpoints: Floats, within: float, most: float) -> tuple[float, float]:
    """Return the least and largest value to show, within -most and most."""
    if present.size:
        low, high = np.quantile(present, [(1 - within) / 2, (1 + within) / 2])
    elif breakpoints.size:
        pad = 0.1 * (float(np.ptp(breakpoints)) or 1.0)
        low, high = breakpoints[0] - pad, breakpoints[-1] + pad
    else:
        low, high = 0.0, 1.0
    if low == high:
        pad = max(0.5, abs(low) * 2.0**-40)
        low, high = low - pad, high + pad
    return max(float(low), -most), min(float(high), most)


def _mean(values: Floats) -> float:
    """Return the mean, without overflow of the sum."""
    scale = 2.0 ** int(values.size).bit_length()
    return scale * float(np.mean(values / scale))


def _column(X: MatrixLike, feature: int) -> Floats:
    """Return one column of an array, a sparse matrix or a data frame; empty without data."""
    if X is None:
        return np.zeros(0)
    if scipy.sparse.issparse(X):
        return X.tocsc()[:, [feature]].toarray().ravel().astype(np.float64)
    return np.asarray(X, np.float64)[:, feature]


def _corners(shape: ShapeFunction, low: float, high: float) -> tuple[Floats, Floats]:
    """Return the corners of the line from low to high; breakpoints belong to the left piece."""
    inner = shape.breakpoints[(shape.breakpoints > low) & (shape.breakpoints < high)]
    left, right = np.concatenate([[low], inner]), np.concatenate([inner, [high]])
    middle = left / 2 + right / 2
    piece = np.searchsorted(shape.breakpoints, middle, side="left")
    value, slope, reference = (a[piece] for a in (shape.values, shape.slopes, shape.references))
    x = np.stack([left, right], axis=1)
    away = x / 2 - reference[:, None] / 2  # halves do not overflow
    y = value[:, None] + 2 * slope[:, None] * away
    return x.ravel(), y.ravel()


def draw_shape(info: ShapeInfo, ax: Axes | None = None) -> Axes:
    """Draw a shape function as a line, the data as bars below it, missing values as a cross.

    The band is that of `shape_info`, by default one standard error to either side.

    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from precede import RankBoost
    >>> model = RankBoost(n_estimators=1, step="bound").fit([[0.0], [1.0], [2.0]], [0, 1, 0])
    >>> draw_shape(shape_info(model, 0)).get_xlabel()
    'x0'
    """
    return shape_chart(info).onto(ax)


def shape_chart(info: ShapeInfo) -> Chart:
    """Return the chart of a shape function or of another effect of a feature."""
    layers: list[Layer] = [Foot(info.edges, info.counts)] if info.counts.sum() else []
    layers.append(Rule(0.0, upright=False))
    if info.low is not None and info.high is not None:
        layers.append(Band(info.x, info.low, info.high, gid="error"))
    layers.append(Line(info.x, info.y, marked=len(info.x) <= 4, gid="shape"))
    if info.missing_share > 0 and math.isfinite(info.missing):
        label = f"missing ({100 * info.missing_share:.0f} %)"
        layers.append(Cross(float(info.x[-1]), info.missing, label))
    labels = (info.name, "contribution to the score")
    title = f"what {info.name} adds to the score"
    return Chart(title, labels, layers, x_ticks=_few(info.ticks))


def _few(ticks: Sequence[tuple[float, str]]) -> Sequence[tuple[float, str]]:
    """Return evenly spaced ticks, at most `_MAX_TICKS`."""
    return ticks[:: max(1, -(-len(ticks) // _MAX_TICKS))]


def draw_shapes(infos: Sequence[ShapeInfo], columns: int = 3) -> Figure:
    """Draw several shape functions in one figure, with one scale for all of them."""
    if not infos:
        raise ValueError("there is no shape function to draw: the model uses no feature")
    return side_by_side([shape_chart(info) for info in infos], columns)


# -- functions of two features ---------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PairInfo(_Info):
    """A function of two features, cell by cell.

    `labels` describe the bins of the first and of the second feature; ``values[a, b]`` is the
    value of the function in bins a and b and ``counts[a, b]`` the number of training rows. Bins
    without a row, such as those of missing values where none are missing, are left out.
    """

    names: tuple[str, str]
    labels: tuple[list[str], list[str]]
    values: Floats
    counts: Integers


def pair_info(model: BaseRanker, pair: Any) -> PairInfo:
    """Read a function of two features from a fitted glass-box model.

    `pair` is two features, by number or name, or the name of the term.

    >>> import numpy as np
    >>> from precede import GlassBoxRanker
    >>> X = np.random.default_rng(0).integers(0, 2, (200, 2)).astype(float)
    >>> model = GlassBoxRanker(interactions=[(0, 1)]).fit(X, X[:, 0] == X[:, 1])
    >>> info = pair_info(model, (0, 1))
    >>> info.labels[0], info.values.shape, int(info.counts.sum())
    (['up to 0.5', 'above 0.5'], (2, 2), 200)
    """
    surface: Any = model.shape_function(pair)
    seen = [surface.counts.sum(axis=1 - axis) > 0 for axis in (0, 1)]
    labels = [
        [label for label, rows in zip(surface.labels(axis), seen[axis], strict=True) if rows]
        for axis in (0, 1)
    ]
    which = np.ix_(*seen)
    return PairInfo(
        surface.names, (labels[0], labels[1]), surface.values[which], surface.counts[which]
    )


def draw_pair(info: PairInfo, ax: Axes | None = None) -> Axes:
    """Draw a function of two features as a heat map; cells without a row are blank.

    If there are few cells, their numbers of rows are written into them; otherwise cells of few
    rows are paler.

    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> info = PairInfo(("a", "b"), (["0", "1"], ["0", "1"]), np.eye(2), np.full((2, 2), 3))
    >>> draw_pair(info).get_ylabel()
    'b'
    """
    return pair_chart(info).onto(ax)


def pair_chart(info: PairInfo) -> Chart:
    """Return the chart of a function of two features."""
    across, up = (_few([(k + 0.5, name) for k, name in enumerate(names)]) for names in info.labels)
    title = f"what {info.names[0]} and {info.names[1]} add to the score together"
    cells = Cells(info.values, info.counts, info.labels)
    return Chart(title, info.names, [cells], x_ticks=across, y_ticks=up)


# -- importances -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ImportanceInfo(_Info):
    """Features by importance, the largest first; `measure` describes the number."""

    names: tuple[str, ...]
    values: Floats
    measure: str


def importance_info(model: BaseRanker, X: MatrixLike = None, *, top: int = 15) -> ImportanceInfo:
    """Compute which features matter most.

    Without X, the share of the weight of the rankers, as in `feature_importances_`. With X, the
    mean absolute contribution to the scores of its rows, with at most a hundred of them, evenly
    spaced, as the background; this also accounts for how often a feature matters.

    >>> from precede import RankBoost
    >>> model = RankBoost(n_estimators=3).fit([[0.0, 0], [1, 1], [2, 5]], [0, 1, 1])
    >>> importance_info(model).names
    ('x0',)
    """
    names = getattr(model, "feature_names_in_", None)
    names = feature_names(names, model.n_features_in_)
    if X is None:
        values, measure = model.feature_importances_, "share of the total weight"
    else:
        rows = X.tocsr() if scipy.sparse.issparse(X) else X
        n_rows = rows.shape[0] if hasattr(rows, "shape") else len(rows)
        chosen = np.unique(np.linspace(0, n_rows - 1, 100).astype(int))
        explained = model.explain(rows, background=take_rows(rows, chosen))
        values, measure = explained.importances(), "mean absolute contribution"
    order = np.argsort(-values, kind="stable")[:top]
    order = order[values[order] > 0]
    return ImportanceInfo(tuple(str(names[j]) for j in order), values[order], measure)


def draw_importances(info: ImportanceInfo, ax: Axes | None = None) -> Axes:
    """Draw one bar for each feature, the most important on top."""
    boxes = [(0.0, value, row - 0.35, row + 0.35) for row, value in enumerate(info.values.tolist())]
    bars = Blocks(boxes, info.values, info.names, "bar")
    chart = Chart("importances", (info.measure, ""), [bars], rows=info.names)
    return chart.onto(ax, chart.rows_height())


# -- learning curves -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LearningInfo(_Info):
    """Columns of the history of a fit, and the best round (None if all rounds were kept)."""

    rounds: Integers
    curves: dict[str, Floats]
    best: int | None


def learning_info(model: BaseRanker, columns: Sequence[str] | None = None) -> LearningInfo:
    """Read learning curves from the history of a fitted model.

    Without `columns`: the metrics evaluated on `eval_set`, or the risk if there are none.

    >>> from precede import RankBoost
    >>> model = RankBoost(n_estimators=2, step="bound").fit([[0.0], [1], [2]], [0, 1, 0])
    >>> list(learning_info(model).curves)
    ['risk']
    """
    history = model.history_
    evaluated = [name for name in history.columns if name.startswith("valid_")]
    wanted = list(columns) if columns is not None else evaluated or ["risk"]
    absent = [name for name in wanted if name not in history.columns]
    if absent:
        raise ValueError(f"there is no column {absent[0]!r}; there are {history.columns}")
    curves = {name: np.asarray(history[name], np.float64) for name in wanted}
    best = model.best_iteration_ if model.best_iteration_ < len(history) else None
    return LearningInfo(np.arange(1, len(history) + 1), curves, best)


def draw_learning(info: LearningInfo, ax: Axes | None = None) -> Axes:
    """Draw learning curves over the rounds, and mark the best round."""
    label = next(iter(info.curves)) if len(info.curves) == 1 else ""
    return learning_chart(label, info.rounds, info.curves, info.best).onto(ax)


def learning_chart(
    label: str, rounds: Integers, curves: Mapping[str, Floats], best: int | None,
    best_name: str = "best",
) -> Chart:  # fmt: skip
    """Return the chart of columns of a history; the axis is logarithmic for a wide range."""
    layers: list[Layer] = [
        Line(rounds, values, name, k) for k, (name, values) in enumerate(curves.items())
    ]
    if best is not None:
        layers.append(Rule(best, f"{best_name}: {best}"))
    values = np.concatenate([*curves.values()])
    values = values[np.isfinite(values)]
    log = values.size > 0 and values.min() > 0 and values.max() > 100 * values.min()
    title = f"{label or 'columns'} round by round"
    return Chart(title, ("round", label), layers, log=bool(log))


# -- margins ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MarginInfo(_Info):
    """Share of the crucial pairs with a margin of at most theta, ranking by ranking."""

    theta: Floats
    shares: dict[str, Floats]
    minimum: dict[str, float]


def margin_info(
    distributions: MarginDistribution | Mapping[str, MarginDistribution], *, points: int = 200
) -> MarginInfo:
    """Evaluate margin distributions on an evenly spaced grid from the least to the largest margin.

    `distributions` is a result of `precede.margins`, or several of them by name. O(n log n)
    for each point.

    >>> from precede.margin import margin_distribution
    >>> info = margin_info(margin_distribution([0, 1, 1], [0.0, 0.25, 1.0]), points=4)
    >>> info.theta.tolist(), info.shares["margin"].tolist()
    ([0.25, 0.5, 0.75, 1.0], [0.5, 0.5, 0.5, 1.0])
    """
    named = distributions if isinstance(distributions, Mapping) else {"margin": distributions}
    low = min(each.minimum for each in named.values())
    high = max(_largest(each) for each in named.values())
    theta = np.linspace(low, high, points)
    return MarginInfo(
        theta,
        {name: each.at(theta) for name, each in named.items()},
        {name: each.minimum for name, each in named.items()},
    )


def _largest(distribution: MarginDistribution) -> float:
    """Return the largest margin, by bisection for the point where the share reaches 1."""
    low, reach = distribution.minimum, max(abs(distribution.minimum), 1e-3)
    while distribution.at(low + reach) < 1:
        reach *= 2
    first, last = 0.0, 1.0  # shares of the reach
    for _ in range(20):
        middle = (first + last) / 2
        if distribution.at(low + middle * reach) == 1:
            last = middle
        else:
            first = middle
    return low + last * reach


def draw_margins(info: MarginInfo, ax: Axes | None = None) -> Axes:
    """Draw the cumulative distribution of the margins; left of 0 are the pairs out of order."""
    return margin_chart(info).onto(ax)


def margin_chart(info: MarginInfo) -> Chart:
    """Return the chart of distributions of margins."""
    lines = [
        Line(info.theta, share, f"{name}, least {info.minimum[name]:.3g}", k)
        for k, (name, share) in enumerate(info.shares.items())
    ]
    title = "share of the pairs with a margin of at most each value"
    labels = ("margin θ", "share of pairs with margin ≤ θ")
    return Chart(title, labels, [*lines, Rule(0.0)], y_limits=(0, 1.02), percent=(False, True))


# -- precision at K% -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PrecisionInfo(_Info):
    """A precision for each percentage K, ranking by ranking; mean over the queries."""

    percent: Floats
    values: dict[str, Floats]
    measure: str


def precision_info(
    y: VectorLike,
    scores: ArrayLike | Mapping[str, ArrayLike],
    qid: VectorLike = None,
    *,
    percent: Sequence[float] = tuple(range(5, 101, 5)),
    measure: str = "precision_at_percent",
) -> PrecisionInfo:
    """Compute precision at K% for many K.

    `measure` is "precision_at_percent", the share in order among the K% of pairs whose scores
    differ most (Zheng et al. 2007), or "precision" or "recall", of the first K% of the items.

    >>> info = precision_info([1, 0, 1, 0], [4.0, 3.0, 2.0, 1.0], percent=[25, 50, 100],
    ...                       measure="precision")
    >>> info.values["scores"].tolist()
    [1.0, 0.5, 0.5]
    """
    if measure not in ("precision_at_percent", "precision", "recall"):
        raise ValueError(
            f"measure={measure!r} is unknown; use 'precision_at_percent', 'precision' or 'recall'"
        )
    sign = "" if measure == "precision_at_percent" else "%"
    wanted = [metric(f"{measure}@{k}{sign}") for k in percent]
    named = scores if isinstance(scores, Mapping) else {"scores": scores}
    values = {}
    for name, each in named.items():
        mean = evaluate(y, each, qid, metrics=wanted).mean
        values[name] = np.array([mean[str(one)] for one in wanted])
    return PrecisionInfo(np.array(percent, np.float64), values, measure)


def draw_precision(info: PrecisionInfo, ax: Axes | None = None) -> Axes:
    """Draw precision over K, one line for each ranking."""
    unit = "pairs" if info.measure == "precision_at_percent" else "items"
    layers = [
        Line(info.percent, values, name, k, marked=True)
        for k, (name, values) in enumerate(info.values.items())
    ]
    labels = (f"K, % of the {unit}", info.measure.replace("_", " "))
    return Chart("precision", labels, layers).onto(ax)


# -- calibration -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CalibrationInfo(_Info):
    """Predicted probability against the share of positives, in groups of about equal size.

    `low` and `high` are Wilson's 95 % interval of the share; `error` is the mean absolute
    difference between the two, each group counting by its size; `brier` the mean squared
    error of the probabilities.
    """

    predicted: Floats
    share: Floats
    low: Floats
    high: Floats
    count: Integers
    error: float
    brier: float


def calibration_info(y: ArrayLike, probability: ArrayLike, *, groups: int = 10) -> CalibrationInfo:
    """Compare the probabilities of a two-class model with the observed classes.

    Rows are sorted by probability and cut into groups of about equal size; rows of equal
    probability stay together. `y` holds two classes, of which the greater is the positive
    (of text, the last category of an ordered categorical).

    >>> info = calibration_info([0, 0, 1, 1], [0.1, 0.1, 0.6, 0.6], groups=2)
    >>> info.share.tolist(), round(info.error, 3)
    ([0.0, 1.0], 0.25)
    """
    classes, positive = np.unique(grades_of(y)[0], return_inverse=True)
    p = to_numbers(probability, "probability")
    p = p[:, -1] if p.ndim == 2 else p
    if classes.size != 2 or p.shape != positive.shape:
        raise ValueError(
            f"calibration needs two classes and a probability for each row, not {classes.size} "
            f"classes and shapes {positive.shape} and {p.shape}"
        )
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("a probability is not between 0 and 1; pass what predict_proba returns")
    if groups < 1:
        raise ValueError(f"groups={groups!r} is out of range; use a whole number from 1")
    cuts = np.unique(np.quantile(p, np.linspace(0, 1, groups + 1)[1:-1], method="lower"))
    group = np.unique(np.searchsorted(cuts, p, side="left"), return_inverse=True)[1]
    count = np.bincount(group)
    predicted = np.bincount(group, p) / count
    share = np.bincount(group, positive) / count
    low, high = _wilson(share, count)
    error = float(np.average(np.abs(predicted - share), weights=count))
    brier = float(np.mean((p - positive) ** 2))
    return CalibrationInfo(predicted, share, low, high, count, error, brier)


def _wilson(share: Floats, count: Array) -> tuple[Floats, Floats]:
    """Return Wilson's interval of a share at 95 %."""
    z = 1.959963984540054
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    reach = z * np.sqrt(share * (1 - share) / count + z**2 / (4 * count**2)) / (1 + z**2 / count)
    return np.maximum(middle - reach, 0), np.minimum(middle + reach, 1)


def draw_calibration(info: CalibrationInfo, ax: Axes | None = None) -> Axes:
    """Draw the share of positives over the predicted probability; ideal is the diagonal."""
    chart = calibration_chart({"": info}, "share of positives")
    heading = f"mean difference {info.error:.3f}, Brier score {info.brier:.3f}"
    return replace(chart, heading=heading).onto(ax)


def calibration_chart(infos: Mapping[str, CalibrationInfo], label: str) -> Chart:
    """Return the chart of the calibration of several models, by name."""
    layers: list[Layer] = [Line([0, 1], [0, 1], "as predicted" if any(infos) else "", -1)]
    for k, (name, info) in enumerate(infos.items()):
        layers.append(Band(info.predicted, info.low, info.high, k))
        layers.append(Line(info.predicted, info.share, name, k, marked=True))
    labels = ("predicted probability", label)
    return Chart("calibration", labels, layers, (0, 1), (0, 1), percent=(True, True))


# -- comparisons -----------------------------------------------------------------------------


def draw_critical_difference(comparison: RankComparison, ax: Axes | None = None) -> Axes:
    """Draw average ranks on an axis, with bars under rankers that do not differ significantly.

    Parameters
    ----------
    comparison : RankComparison
        What `precede.inference.friedman` returns.
    ax : matplotlib Axes, optional

    References
    ----------
    Demšar, *Statistical Comparisons of Classifiers over Multiple Data Sets*, JMLR 2006,
    section 3.2.2.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from precede.inference import friedman
    >>> table = [[0.71, 0.69, 0.60], [0.55, 0.56, 0.48], [0.80, 0.77, 0.61]]
    >>> ax = draw_critical_difference(friedman(table, names=["a", "b", "c"]))
    >>> [text.get_text().strip() for text in ax.texts if text.get_gid() == "name"]
    ['a  1.33', 'b  1.67', 'c  3.00']
    """
    names, ranks = comparison.names, comparison.average_ranks
    last, reach = len(names), comparison.critical_difference
    depth = 0.6 + 0.45 * len(comparison.groups)
    ax = new_axes(1.4 + 0.3 * last) if ax is None else ax
    _draw_rank_axis(ax, last)
    _draw_rank_names(ax, names, ranks, depth)
    for row, group in enumerate(comparison.groups):
        inside = [rank for name, rank in zip(names, ranks, strict=True) if name in group]
        ax.hlines(-0.35 - 0.45 * row, min(inside) - 0.04, max(inside) + 0.04, color="C0", lw=4)
    ax.hlines(1.3, 1, 1 + reach, color="C3", lw=2)
    ax.vlines([1, 1 + reach], 1.15, 1.45, color="C3", lw=1)
    ax.text(1, 1.5, f"critical difference {reach:.2f}", color="C3", va="bottom", gid="reach")
    ax.set(xlim=(1 - 1.6, max(last, 1 + reach) + 1.6), ylim=(-depth - 0.7 * ((last + 1) // 2), 2.4))
    ax.axis("off")
    return ax


def _draw_rank_axis(ax: Axes, last: int) -> None:
    """Draw an axis of ranks from 1 to the last, at height 0."""
    ax.hlines(0, 1, last, color="0.2", lw=1)
    ax.vlines(range(1, last + 1), 0, 0.15, color="0.2", lw=1)
    for rank in range(1, last + 1):
        ax.text(rank, 0.3, f"{rank}", color="0.2", ha="center", va="bottom", gid="tick")


def _draw_rank_names(
    ax: Axes, names: Sequence[str], ranks: Sequence[float] | Array, depth: float
) -> None:
    """Draw names with ranks, the better half on the left, and lines from them to the axis."""
    last, half = len(names), (len(names) + 1) // 2
    for k, (name, rank) in enumerate(zip(names, ranks, strict=True)):
        left = k < half
        row, edge = -depth - 0.7 * (k if left else last - 1 - k), 0.75 if left else last + 0.25
        ax.vlines(rank, row, 0, color="0.2", lw=0.8)
        ax.hlines(row, rank, edge, color="0.2", lw=0.8)
        side = "right" if left else "left"
        text = f" {name}  {rank:.2f} "
        ax.text(edge, row, text, color="0.2", ha=side, va="center", gid="name")
