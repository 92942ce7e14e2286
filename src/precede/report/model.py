"""The model of a report: features and their effects on the score, margins, learning curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

import numpy as np
from markupsafe import Markup
from scipy.special import ndtri

from precede.engine.arrays import Flags, Floats, Integers, MatrixLike
from precede.estimator import BaseRanker
from precede.explain.contributions import explain
from precede.margin import margins_of_predictions
from precede.model import Ensemble
from precede.plots import MarginInfo, PairInfo, ShapeInfo, margin_info, pair_info, shape_info
from precede.plots.drawing import Chart, Dots, Rule
from precede.plots.figures import learning_chart, margin_chart, pair_chart, shape_chart
from precede.report.document import (
    Block,
    Figure,
    Group,
    Heading,
    Html,
    Paragraph,
    Section,
    Table,
    side_by_side,
    unseen,
)
from precede.report.subject import Subject, dense, evenly_spaced
from precede.report.wording import Words, feature_value, may_be_years, number, percent, share

_MARGIN_POINTS = 61
_MAX_CORNERS = 600
_MAX_ROUNDS = 250
_HISTOGRAM_BINS = 30  # of the histogram below a shape function
_MAX_CHARTS = 4
_MAX_PAIRS = 10
# Columns of a history that are shown elsewhere, differ from run to run, or make no useful chart.
_NOT_DRAWN = {
    "active", "best_edge", "e1", "feature", "log_risk", "norm", "parts", "perfect",
    "progress_condition", "weak_rankers", "round", "seconds", "smoothed",
}  # fmt: skip
# Columns drawn in one chart.
_CHART_OF = {"lower": "margin", "upper": "margin", "smooth_margin": "margin", "bound": "risk"}


# -- features --------------------------------------------------------------------------------


@dataclass(frozen=True)
class FeatureRow:
    """A feature, its share of the total weight, and its effect on the score.

    `curve` is None where the values are too large, or too close to each other, to be drawn. It is
    `thinned` if it has fewer corners than the function.
    """

    feature: int
    name: str
    weight: float
    curve: ShapeInfo | None
    thinned: bool

    def figure(self, words: Words, kind: str, level: str, units: str) -> Markup:
        """Return the curve with a caption; the page shows one of these figures at a time."""
        chart = Markup("") if self.curve is None else shape_chart(self.curve).svg()
        return _SHAPE.format(self.name, f"{100 * self.weight:.1f}", chart,
                             self._caption(words, kind, level, units))  # fmt: skip

    def _caption(self, words: Words, kind: str, level: str, units: str) -> Markup:
        curve, items = self.curve, words.items
        if curve is None:
            text = ("The values of this feature are too large, or too close to each other, to be "
                    "drawn.")  # fmt: skip
            return Paragraph(text, "note").html()
        missing = ""
        if curve.missing_share > 0:
            missing = f" Missing in {share(curve.missing_share)}"
        if kind == "shapes":
            band = f" The band is a {level} interval from the fits to resampled data."
            added = f", where {curve.missing:+#.4g} is added" * math.isfinite(curve.missing)
            text = (
                f"What each value adds to the score, counted from the mean over these {items}; the "
                f"grey bars are the {items}.{band if curve.low is not None else ''}"
                f"{f'{missing} of the {items}{added}.' if missing else ''}"
                f"{_beyond(curve, f'{items} lie outside the figure')}"
                f"{' The line is drawn through fewer corners than it has.' * self.thinned}"
            )
        else:
            text = (
                f"Accumulated local effect: how the score changes with this feature, all else "
                f"staying, on average over {curve.counts.sum():,} {items} near each value; counted "
                f"from the mean. The band is a {level} interval over {units}; the grey bars are "
                f"the {items}.{f'{missing}, which are left out.' if missing else ''}"
                f"{_beyond(curve, f'{items} are left out')}"
            )
        return Markup('<figcaption class="screen">{}</figcaption>').format(text)


def _beyond(curve: ShapeInfo, text: str) -> str:
    return f" {curve.beyond:,} extreme {text}." if curve.beyond else ""


_SHAPE = Markup("""\
<figure class="shape"><figcaption><strong>{}</strong> <span class="on-paper">{} %</span>\
</figcaption>{}
{}</figure>
""")
_PICKED = Markup("""\
<li><button type="button" aria-pressed="{}"><span title="{}">{}</span><svg class="bar" \
viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true"><rect width="{}" height="10"/>\
</svg><span class="n">{} %</span></button></li>
""")
_STEPS = Markup("""\
<div class="actions needs-script"><button type="button" data-step="-1">Previous</button>\
<button type="button" data-step="1">Next</button></div>
""")


@dataclass(frozen=True, eq=False)
class PairEffect(PairInfo):
    """What two features add to the score together, with its importance."""

    name: str
    importance: float

    def figure(self) -> Figure:
        """Return the cells with the name and the importance."""
        caption = f"Mean absolute contribution {number(self.importance)}."
        return Figure(pair_chart(self), caption, self.name)


@dataclass(frozen=True)
class SwarmRow:
    """The centered Shapley values of a feature; `shade` is from low (0) to high (1) values."""

    name: str
    mean: float
    values: list[float]
    shade: list[float]


@dataclass(frozen=True)
class Swarm:
    """The Shapley values of a sample of the rows, by feature."""

    rows: int
    method: str
    features: list[SwarmRow]

    def chart(self) -> Chart:
        """Draw swarms of points, a row for each feature, colored by its value."""
        x: list[float] = []
        y: list[float] = []
        shade: list[float] = []
        sizes = [abs(value) for each in self.features for value in each.values]
        spread = max(sizes, default=1.0) or 1.0
        for row, each in enumerate(self.features):
            x += each.values
            y += [row + shift for shift in _shifts(each.values, spread / 60)]
            shade += each.shade
        keys = [('class="swarm-key t0"', "low value"), ('class="swarm-key t4"', "high value")]
        return Chart(
            "Shapley values of the features, a point for each row",
            ("added to the score, against the mean", ""), [Rule(0.0), Dots(x, y, shade)],
            rows=[each.name for each in self.features], keys=keys,
        )  # fmt: skip


def _shifts(values: list[float], width: float) -> list[float]:
    """Return the offsets from the middle of the row that keep points from overlapping."""
    held: dict[int, int] = {}
    shifts = []
    for value in values:
        at = round(value / width)
        count = held.get(at, 0)
        held[at] = count + 1
        shifts.append((count + 1) // 2 * (1 if count % 2 else -1))
    most = max((abs(s) for s in shifts), default=0) or 1
    return [0.42 * s / max(most, 6) for s in shifts]


@dataclass(frozen=True)
class Features:
    """The importance of each feature and its effect on the score.

    `kind` is "shapes" for the functions of an additive model, or "effects" for accumulated local
    effects of others, such as trees.
    """

    model: str
    kind: str
    used: int
    shown: int
    rows: list[FeatureRow]
    pairs: list[PairEffect]
    swarm: Swarm | None
    level: float

    def section(self, words: Words, *, several: bool, by_query: bool) -> Section | None:
        """Return the Shapley values, the effect of each feature, and of pairs of features."""
        if not self.rows:
            return None
        blocks: list[Block] = []
        if self.swarm is not None:
            caption = (f"Shapley values, exact, of {self.swarm.rows:,} {words.items}: each point "
                       "is one, and stands where this feature moves its score, against the mean. "
                       "Colours are low and high values of the feature.")  # fmt: skip
            blocks.append(Figure(self.swarm.chart(), caption, kind="wide"))
        most = ""
        if self.shown < self.used:
            most = f", the {self.shown:,} with most weight are shown"
        blocks.append(Paragraph(f"{self.used:,} features are used{most}. Percentages are shares "
                                "of the total weight of the rankers."))  # fmt: skip
        blocks += [unseen(self._table()), self._curves(words, by_query=by_query)]
        blocks += self._pairs(words) if self.pairs else []
        of_model = f" of {self.model}" if several else ""
        return Section("features", "Features", f"Features{of_model}", blocks)

    def _table(self) -> Table:
        head = ["feature", "share of the total weight", "least it adds", "most it adds"]
        rows = []
        for each in self.rows:
            y = None if each.curve is None else each.curve.y
            ends = [None, None] if y is None else [y.min(), y.max()]
            rows.append([each.name, each.weight, *ends])
        return Table(head, rows)

    def _curves(self, words: Words, *, by_query: bool) -> Group:
        """Return a list of the features, and the figure of the one that is chosen."""
        picked = Markup("").join(
            _PICKED.format("true" if at == 0 else "false", each.name, each.name,
                           f"{100 * each.weight / self.rows[0].weight:.1f}",
                           f"{100 * each.weight:.1f}")
            for at, each in enumerate(self.rows)
        )  # fmt: skip
        units, level = words.queries if by_query else words.items, percent(self.level)
        figures = [each.figure(words, self.kind, level, units) for each in self.rows]
        names = Html(Markup('<ul class="picker">\n{}</ul>').format(picked))
        shapes = Html(Markup("").join([_STEPS, *figures]))
        return Group([Group([names], "screen"), Group([shapes], "shapes")], "two")

    def _pairs(self, words: Words) -> list[Block]:
        strongest = ""
        if self.kind == "effects":
            strongest = (" The strongest of the pairs of the most important features, by "
                         "accumulated local effects.")  # fmt: skip
        rows = [[each.name, each.importance] for each in self.pairs]
        return [
            Heading("Pairs of features"),
            Paragraph("What two features add together, beyond what each adds alone: red raises the "
                      f"score, blue lowers it. Cells that hold no {words.item} are blank; point at "
                      f"one for its bins, its value and its {words.items}.{strongest}"),
            unseen(Table(["pair of features", "mean absolute contribution"], rows)),
            side_by_side(*([each.figure()] for each in self.pairs), kind="pairs"),
        ]  # fmt: skip


def features_of(subject: Subject, most: int, level: float) -> Features | None:
    """Return the importance of each feature and its effect on the score.

    The effects are the shape functions of an additive model, with bands where it has standard
    errors; for other models, such as trees, accumulated local effects and the strongest pairs.
    None if no candidate is a model.
    """
    model = subject.model
    if model is None:
        return None
    weight = np.asarray(model.feature_importances_, np.float64)
    order = np.argsort(-weight, kind="stable")
    order = order[weight[order] > 0]
    chosen = [int(j) for j in order[:most]]
    X = subject.X.tocsc() if hasattr(subject.X, "tocsc") else np.asarray(subject.X, np.float64)
    if _is_additive(model, chosen):
        kind, pairs = "shapes", _term_pairs(model)
        curves = [_shape(model, feature, X, level) for feature in chosen]
    else:
        sample, cluster = _sample(subject, _MAX_ROWS)
        kind, pairs = "effects", pair_effects(model.ensemble_, sample, chosen, subject.names)
        curves = [
            local_effect(model.ensemble_, sample, j, cluster, name=subject.names[j], level=level)
            for j in chosen
        ]
    rows = []
    for j, curve in zip(chosen, curves, strict=True):
        shown = None if curve is None else _thinned(curve)
        is_thinned = curve is not None and curve.x.size > _MAX_CORNERS
        rows.append(FeatureRow(j, subject.names[j], float(weight[j]), shown, is_thinned))
    name = next(each.name for each in subject.candidates if each.model is model)
    swarm = shapley_swarm(subject, model.ensemble_)
    return Features(name, kind, int(order.size), len(rows), rows, pairs, swarm, level)


def _is_additive(model: BaseRanker, features: list[int]) -> bool:
    try:
        for feature in features:
            model.shape_function(feature)
    except ValueError:
        return False
    return True


def _term_pairs(model: BaseRanker) -> list[PairEffect]:
    """Return the most important functions of two features of a glass-box model, cell by cell."""
    terms = [term for term in getattr(model, "terms_", []) if len(term.features) == 2]
    return [
        PairEffect(**vars(pair_info(model, term.features)), name=term.name,
                   importance=float(term.importance))
        for term in terms[:_MAX_PAIRS]
    ]  # fmt: skip


def _shape(model: BaseRanker, feature: int, X: MatrixLike, level: float) -> ShapeInfo | None:
    """Return the curve and a histogram of the data; None if the numbers are too large to draw."""
    reach = float(ndtri((1 + level) / 2))
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            info = shape_info(model, feature, X, bins=_HISTOGRAM_BINS, reach=reach)
    except ValueError:
        return None
    wide = float(max(info.x.max(), info.edges[-1])) - float(min(info.x.min(), info.edges[0]))
    if not (np.isfinite(info.y).all() and np.isfinite(info.edges).all() and np.isfinite(wide)):
        return None
    return info if info.missing_share > 0 else replace(info, missing=math.nan)


def _thinned(info: ShapeInfo) -> ShapeInfo:
    """Return a curve through at most `_MAX_CORNERS` of its corners."""
    which = evenly_spaced(info.x.size, _MAX_CORNERS)
    low, high = (None if end is None else end[which] for end in (info.low, info.high))
    return replace(info, x=info.x[which], y=info.y[which], low=low, high=high)


# -- margins ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Certified:
    """A guarantee of the fit, which refers to its training rows."""

    what: str
    value: float


@dataclass(frozen=True, eq=False)
class Distribution:
    """The margins of the crucial pairs: the share of the pairs with at most each margin theta."""

    pairs: int
    least: float
    not_above_zero: float
    norm: float
    theta: Floats
    share: Floats


@dataclass(frozen=True)
class Margins:
    """The margins on these data, or the reason why there are none, and the guarantees."""

    certificate: list[Certified]
    distribution: Distribution | None
    reason: str | None

    def section(self, words: Words) -> Section | None:
        """Return the distribution of the margins, and the guarantees of the fit."""
        found = self.distribution
        if found is None and not self.certificate:
            return None
        left: Block = Paragraph(f"No margin: {self.reason}.")
        right: list[Block] = []
        if found is not None:
            info = MarginInfo(found.theta, {"margin": found.share}, {"margin": found.least})
            left = Figure(margin_chart(info), _MARGIN_CAPTION)
            rows = [["least margin", found.least], ["sum of the absolute weights", found.norm]]
            right.append(Table([f"on these {words.items}", "value"], rows))
        if self.certificate:
            rows = [[each.what, each.value] for each in self.certificate]
            right.append(Table(["on the rows of the fit", "value"], rows))
        and_certificate = " and certificate" if self.certificate else ""
        blocks = [side_by_side([left], right)]
        return Section("margins", "Margins", f"Margins{and_certificate}", blocks)


_MARGIN_CAPTION = (
    "The margin of a pair is the difference of its scores divided by the sum of the absolute "
    "weights. The line says which share of the pairs has at most each margin; what lies left of 0 "
    "is out of order."
)


def margins_of(subject: Subject) -> Margins | None:
    """Return the margins of the crucial pairs of these data, and the guarantees of the model."""
    model = subject.first.model
    if model is None:
        return None
    certificate = _certificate(model)
    try:
        found = margins_of_predictions(model, subject.scores, subject.judgments)
    except ValueError as error:
        return Margins(certificate, None, str(error))
    info = margin_info(found, points=_MARGIN_POINTS)
    distribution = Distribution(
        int(found.n_pairs), float(found.minimum), float(found.at(0.0)), float(found.norm),
        info.theta, info.shares["margin"],
    )  # fmt: skip
    return Margins(certificate, distribution, None)


def _certificate(model: BaseRanker) -> list[Certified]:
    facts = []
    interval = getattr(model, "margin_interval_", None)
    if interval is not None:
        facts += [
            ("least margin reached", getattr(model, "margin_", interval[0])),
            ("best margin possible: at least", interval[0]),
            ("best margin possible: at most", interval[1]),
        ]
    for name, meaning in {
        "gap_": "the risk is above the least possible by at most",
        "radius_": "radius of the ball: sum of the absolute weights at most",
        "effective_losers_": "rows that the push acts on, effectively",
    }.items():
        if isinstance(getattr(model, name, None), int | float):
            facts.append((meaning, getattr(model, name)))
    return [Certified(what, float(value)) for what, value in facts]


# -- learning --------------------------------------------------------------------------------


@dataclass(frozen=True)
class LearningChart:
    """Columns of the history that are drawn together."""

    title: str
    curves: dict[str, Floats]


@dataclass(frozen=True)
class Learning:
    """Columns of the history by round: evaluated metrics, the risk, those of the algorithm."""

    rounds: int
    at: Integers
    charts: list[LearningChart]
    best: int | None
    kept: int
    thinned: bool

    def section(self) -> Section | None:
        """Return the charts."""
        if not self.charts:
            return None
        rows = [[chart.title, name, float(values[-1])]
                for chart in self.charts for name, values in chart.curves.items()]  # fmt: skip
        mark = "kept" if self.best == self.kept else "best"
        figures = [
            Figure(learning_chart(each.title.replace("_", " "), self.at, each.curves, self.best,
                                  mark))
            for each in self.charts
        ]  # fmt: skip
        blocks: list[Block] = [
            unseen(Table(["column", "line", "after the last round"], rows, "name name n")),
            side_by_side(*([each] for each in figures), kind="small"),
        ]
        if self.thinned:
            drawn = f"{len(self.at):,} of {self.rounds:,} rounds are drawn."
            blocks.append(Paragraph(drawn, "note"))
        return Section("learning", "Learning", "Learning", blocks)


def learning_of(subject: Subject) -> Learning | None:
    """Return the columns of the history of the fit that can be drawn."""
    model = subject.model
    if model is None or not len(model.history_):
        return None
    history, rounds = model.history_, len(model.history_)
    charts: dict[str, dict[str, Floats]] = {}
    monitored_charts = set()
    which = evenly_spaced(rounds, _MAX_ROUNDS)
    for column in history.columns:
        values = _as_numbers(history[column])
        if column in _NOT_DRAWN or values is None or (rounds > 1 and np.ptp(values) == 0):
            continue
        monitored, _, name = column.partition(" ")
        is_monitored = bool(name) and monitored.startswith("valid_")
        title, line = (name, monitored) if is_monitored else (_CHART_OF.get(column, column), column)
        monitored_charts |= {title} if is_monitored else set()
        charts.setdefault(title, {})[line] = values[which]
    # Evaluated metrics first, then the risk, then the rest in the order of the history.
    last = {"risk": 1, "edge": 3, "step": 4}
    shown = sorted(charts, key=lambda title: 0 if title in monitored_charts else last.get(title, 2))
    best = int(model.best_iteration_)
    return Learning(
        rounds, which + 1, [LearningChart(title, charts[title]) for title in shown[:_MAX_CHARTS]],
        best if best < rounds else None, int(model.n_estimators_), which.size < rounds,
    )  # fmt: skip


def _as_numbers(values: MatrixLike) -> Floats | None:
    """Return a column as numbers; None if no number is finite."""
    try:
        numbers = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        return None
    several = numbers.ndim == 1 and np.isfinite(numbers).any()
    return numbers if several and not isinstance(values.flat[0], bool | np.bool_) else None


# -- effects of features on the score: accumulated local effects, pairs, and Shapley values -------
#
# Accumulated local effects (Apley and Zhu, JRSS B 2020) need no independent features: in each bin
# of a feature its rows are moved from one end of the bin to the other, all else being equal, and
# the mean changes of the score are added up from bin to bin. For a model that is a sum of functions
# of single features they are these functions, at the ends of the bins.


_BINS = 24
_SHOWN_QUANTILES = (0.01, 0.99)  # quantiles between which effects are shown
_PAIR_BINS = 8
_MAX_ROWS = 2000  # rows moved between the ends of bins
_MAX_SWARM_ROWS = 300
_MAX_SWARM_FEATURES = 10
_MAX_PAIR_FEATURES = 6
_MAX_PAIR_EFFECTS = 3


def local_effect(
    ensemble: Ensemble, X: Floats, feature: int, cluster: Integers, *,
    name: str = "", level: float = 0.95,
) -> ShapeInfo | None:  # fmt: skip
    """Return the accumulated local effect of a feature with an interval at every bin edge.

    The effect at the end of bin k is A_k = Σ_{l≤k} d_l less its mean over the rows, d_l being the
    mean change in bin l. It is linear in the changes of single rows, so that its variance is the
    sum over clusters (queries, or rows) of their squared influences. The bins are taken as given.
    O(rows · rounds).
    """
    column = X[:, feature]
    present = ~np.isnan(column)
    known = np.flatnonzero(present & _not_extreme(column))
    edges = _bin_edges(column[known], _BINS)
    if edges is None:
        return None
    rows, values = X[known], column[known]
    bins = _bins_of(values, edges)
    ends = []
    for side in (bins, bins + 1):
        moved = rows.copy()
        moved[:, feature] = edges[side]
        ends.append(ensemble.predict(moved))
    change = ends[1] - ends[0]
    counts = np.bincount(bins, minlength=edges.size - 1)
    mean = np.bincount(bins, change, edges.size - 1) / np.maximum(counts, 1)
    effect = np.concatenate([[0.0], np.cumsum(mean)])
    # For the mean, a row lies half way through its bin: d_l counts for all rows of later bins.
    above = (np.cumsum(counts[::-1])[::-1] - counts / 2) / counts.sum()
    weight = np.tril(np.ones((edges.size, edges.size - 1)), -1) - above
    error = _error(weight / np.maximum(counts, 1), change - mean[bins], bins, cluster[known])
    middle = effect - float(above @ mean)
    reach = float(ndtri((1 + level) / 2)) * error
    counted, ticks = np.histogram(values, _HISTOGRAM_BINS, (edges[0], edges[-1]))
    return ShapeInfo(
        name, edges, middle, offset=0.0, missing=math.nan,
        missing_share=float(np.mean(~present)), edges=ticks, counts=counted,
        beyond=int(present.sum()) - int(known.size), low=middle - reach, high=middle + reach,
    )  # fmt: skip


def _not_extreme(column: Floats) -> Flags:
    """Return a mask of the values that are not extreme; long tails would dominate the chart."""
    if not np.isfinite(column).any():
        return np.zeros(column.size, bool)
    low, high = np.nanquantile(column, _SHOWN_QUANTILES, method="inverted_cdf")
    return (column >= low) & (column <= high)


def _bin_edges(values: Floats, bins: int) -> Floats | None:
    """Return edges of bins with about equal numbers of rows; None for fewer than two values."""
    if not values.size or not np.isfinite(values).all():
        return None
    shares = np.linspace(0, 1, bins + 1)
    edges = np.unique(np.quantile(values, shares, method="inverted_cdf"))
    return edges if edges.size > 1 and np.isfinite(edges[-1] - edges[0]) else None


def _bins_of(values: Floats, edges: Floats) -> Integers:
    """Return the bin of each value; the least value is in the first bin."""
    return np.clip(np.searchsorted(edges, values, side="left") - 1, 0, edges.size - 2)


def _error(weight: Floats, residual: Floats, bins: Integers, cluster: Integers) -> Floats:
    """Return the standard error of Σ_l weight[k, l] · Σ_{i in l} residual_i, for every k."""
    known, number = np.unique(cluster, return_inverse=True)
    sums = np.zeros((known.size, weight.shape[1]))
    np.add.at(sums, (number, bins), residual)
    factor = known.size / max(known.size - 1, 1)
    return np.sqrt(factor * np.square(sums @ weight.T).sum(axis=0))


def pair_effect(
    ensemble: Ensemble, X: Floats, pair: tuple[int, int], feature_names: Sequence[str]
) -> PairEffect | None:
    """Return the interaction of two features, cell by cell.

    The second-order accumulated local effect: double differences of the score, averaged over the
    rows of a cell and added up in both directions, less its means along either axis.
    """
    middle = _not_extreme(X[:, pair[0]]) & _not_extreme(X[:, pair[1]])
    known = np.flatnonzero(middle)  # missing values are not in the middle
    edges = [_bin_edges(X[known, feature], _PAIR_BINS) for feature in pair]
    both = [each for each in edges if each is not None]
    if len(both) < 2:
        return None
    rows = X[known]
    bins = [_bins_of(rows[:, f], e) for e, f in zip(both, pair, strict=True)]
    change = np.zeros(known.size)
    for one, other in ((1, 1), (1, 0), (0, 1), (0, 0)):
        moved = rows.copy()
        moved[:, pair[0]] = both[0][bins[0] + one]
        moved[:, pair[1]] = both[1][bins[1] + other]
        change += (1 if one == other else -1) * ensemble.predict(moved)
    shape = (both[0].size - 1, both[1].size - 1)
    counts, sums = np.zeros(shape, np.int64), np.zeros(shape)
    np.add.at(counts, (bins[0], bins[1]), 1)
    np.add.at(sums, (bins[0], bins[1]), change)
    corner = np.zeros((shape[0] + 1, shape[1] + 1))
    corner[1:, 1:] = np.cumsum(np.cumsum(sums / np.maximum(counts, 1), axis=0), axis=1)
    cell = (corner[1:, 1:] + corner[:-1, 1:] + corner[1:, :-1] + corner[:-1, :-1]) / 4
    cell = _centered(cell, counts)
    share = counts / counts.sum()
    importance = float((np.abs(cell) * share).sum())
    names = (feature_names[pair[0]], feature_names[pair[1]])
    labels = (_bin_names(both[0]), _bin_names(both[1]))
    return PairEffect(names, labels, cell, counts, " x ".join(names), importance)


def _centered(cell: Floats, counts: Integers) -> Floats:
    """Subtract from the cells their means along either axis, weighted by the rows in them."""
    for _ in range(30):
        for axis in (0, 1):
            weight = counts.sum(axis=axis, keepdims=True)
            mean = (cell * counts).sum(axis=axis, keepdims=True) / np.maximum(weight, 1)
            cell = cell - mean
    return cell


def _bin_names(edges: Floats) -> list[str]:
    years = may_be_years(edges)
    ends = [feature_value(float(f"{edge:.4g}"), years) for edge in edges.tolist()]
    return [f"{a} to {b}" for a, b in pairwise(ends)]


# -- effects shown in a report ---------------------------------------------------------------


def _sample(subject: Subject, most: int) -> tuple[Floats, Integers]:
    """Return evenly spaced rows as an array, and their clusters (queries, or rows)."""
    rows = evenly_spaced(subject.scores.size, most)
    return dense(subject.X[rows]), rows if subject.is_one_list else subject.query[0][rows]


def pair_effects(
    ensemble: Ensemble, X: Floats, features: list[int], names: Sequence[str]
) -> list[PairEffect]:
    """Return the strongest interactions among given features that share a tree."""
    together = {
        pair
        for each in ensemble.weak_rankers
        for pair in combinations(sorted(each.importances()), 2)
    }
    chosen = combinations(features[:_MAX_PAIR_FEATURES], 2)
    effects = [pair_effect(ensemble, X, pair, names) for pair in chosen
               if (min(pair), max(pair)) in together]  # fmt: skip
    found = [each for each in effects if each is not None and each.importance > 0]
    return sorted(found, key=lambda each: -each.importance)[:_MAX_PAIR_EFFECTS]


def shapley_swarm(subject: Subject, ensemble: Ensemble) -> Swarm | None:
    """Return the centered Shapley values of a sample of the rows, by feature."""
    X, _ = _sample(subject, _MAX_SWARM_ROWS)
    try:
        explained = explain(ensemble, X, names=subject.names)
    except ValueError:
        return None
    values = explained.contributions - explained.contributions.mean(axis=0)
    if not np.isfinite(values).all():
        return None
    size = np.abs(values).mean(axis=0)
    order = [int(j) for j in np.argsort(-size, kind="stable")[:_MAX_SWARM_FEATURES] if size[j] > 0]
    rows = [
        SwarmRow(subject.names[j], float(size[j]),
                 [float(f"{v:.4g}") for v in values[:, j].tolist()],
                 [float(f"{s:.3g}") for s in _shades(X[:, j]).tolist()])
        for j in order
    ]  # fmt: skip
    return Swarm(len(X), explained.method, rows)


def _shades(column: Floats) -> Floats:
    """Return the mean rank of each value, scaled to [0, 1]; NaN if missing or if all are equal."""
    known = np.sort(column[~np.isnan(column)])
    below, up_to = (np.searchsorted(known, column, side) for side in ("left", "right"))
    share = (below + up_to) / max(2 * known.size, 1)
    return np.where(np.isnan(column) | (np.unique(known).size < 2), np.nan, share)
