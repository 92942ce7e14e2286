"""Facts about the model: margins, certificates, feature effects and the learning curve."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import ndtri

from precede.engine.arrays import Floats, Integers
from precede.estimator import BaseRanker
from precede.explain.contributions import explain
from precede.margin import margins_of_predictions
from precede.model import Ensemble
from precede.plots import margin_info, pair_info, shape_info
from precede.report.subject import Subject, dense, plain_value, thinned
from precede.report.wording import feature_value, may_be_years

_MARGIN_POINTS = 61
_MAX_CORNERS = 600
_MAX_ROUNDS = 250
_HISTOGRAM_BINS = 30  # of the histogram under a shape function
_MAX_CHARTS = 4
_MAX_PAIRS = 10
# Columns of a history shown elsewhere, different from run to run, or uninformative in a figure.
_NOT_DRAWN = {
    "active", "best_edge", "e1", "feature", "log_risk", "norm", "parts", "perfect",
    "progress_condition", "weak_rankers", "round", "seconds", "smoothed",
}  # fmt: skip
# Columns drawn in one chart.
_CHART_OF = {"lower": "margin", "upper": "margin", "smooth_margin": "margin", "bound": "risk"}


# -- margins ---------------------------------------------------------------------------------


def margin_facts(subject: Subject) -> dict[str, Any] | None:
    """Return the margins of the crucial pairs of these data, and the certificates of the model."""
    model = subject.first.model
    if model is None:
        return None
    facts: dict[str, Any] = {"certificate": _certificate(model), "distribution": None}
    try:
        found = margins_of_predictions(model, subject.scores, subject.judgments)
    except ValueError as error:
        return facts | {"reason": str(error)}
    info = margin_info(found, points=_MARGIN_POINTS)
    return facts | {
        "reason": None,
        "distribution": {
            "pairs": int(found.n_pairs),
            "least": float(found.minimum),
            "not_above_zero": float(found.at(0.0)),
            "norm": float(found.norm),
            "theta": info.theta.tolist(),
            "share": info.shares["margin"].tolist(),
        },
    }


def _certificate(model: BaseRanker) -> list[dict[str, Any]]:
    """Return the guarantees of the fit, which refer to its training rows."""
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
    return [{"what": what, "value": plain_value(float(value))} for what, value in facts]


# -- features --------------------------------------------------------------------------------


def feature_facts(subject: Subject, most: int, level: float) -> dict[str, Any] | None:
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
    kind = "shapes" if _is_additive(model, chosen) else "effects"
    X = subject.X.tocsc() if hasattr(subject.X, "tocsc") else np.asarray(subject.X, np.float64)
    if kind == "shapes":
        curves = [_shape(model, feature, X, level) for feature in chosen]
        pairs = _pairs(model)
    else:
        curves = tree_effects(subject, chosen, level)
        pairs = pair_facts(subject, chosen)
    rows = [
        {"feature": j, "name": subject.names[j], "weight": float(weight[j]), "curve": curve}
        for j, curve in zip(chosen, curves, strict=True)
    ]
    name = next(each.name for each in subject.candidates if each.model is model)
    return {
        "model": name, "kind": kind, "used": int(order.size), "shown": len(rows), "rows": rows,
        "pairs": pairs, "swarm": swarm_facts(subject), "level": level,
    }  # fmt: skip


def _is_additive(model: BaseRanker, features: list[int]) -> bool:
    try:
        for feature in features:
            model.shape_function(feature)
    except ValueError:
        return False
    return True


def _pairs(model: BaseRanker) -> list[dict[str, Any]]:
    """Return the most important functions of two features of a glass-box model, cell by cell."""
    terms = [term for term in getattr(model, "terms_", []) if len(term.features) == 2]
    facts = []
    for term in terms[:_MAX_PAIRS]:
        info = pair_info(model, term.features)
        facts.append(
            {
                "name": term.name,
                "importance": float(term.importance),
                "features": list(info.names),
                "labels": [list(each) for each in info.labels],
                "values": info.values.tolist(),
                "counts": info.counts.tolist(),
            }
        )
    return facts


def _shape(model: BaseRanker, feature: int, X: Any, level: float) -> dict[str, Any] | None:
    """Return the curve and a histogram of the data; None if the numbers are too large to draw."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            info = shape_info(model, feature, X, bins=_HISTOGRAM_BINS)
    except ValueError:
        return None
    wide = float(max(info.x.max(), info.edges[-1])) - float(min(info.x.min(), info.edges[0]))
    if not (np.isfinite(info.y).all() and np.isfinite(info.edges).all() and np.isfinite(wide)):
        return None
    which = thinned(info.x.size, _MAX_CORNERS)
    missing = plain_value(float(info.missing)) if info.missing_share > 0 else None
    reach = None if info.error is None else float(ndtri((1 + level) / 2)) * info.error[which]
    return {
        "x": info.x[which].tolist(),
        "y": info.y[which].tolist(),
        "low": None if reach is None else (info.y[which] - reach).tolist(),
        "high": None if reach is None else (info.y[which] + reach).tolist(),
        "thinned": which.size < info.x.size,
        "offset": float(info.offset),
        "missing": missing,
        "missing_share": float(info.missing_share),
        "edges": info.edges.tolist(),
        "counts": info.counts.tolist(),
        "beyond": int(info.beyond),
        "ticks": [[at, text] for at, text in info.ticks],
    }


# -- learning --------------------------------------------------------------------------------


def learning_facts(subject: Subject) -> dict[str, Any] | None:
    """Return columns of the history: evaluated metrics, the risk, and those of the algorithm."""
    model = subject.model
    if model is None or not len(model.history_):
        return None
    history, rounds = model.history_, len(model.history_)
    charts: dict[str, dict[str, list[Any]]] = {}
    monitored_charts = set()
    which = thinned(rounds, _MAX_ROUNDS)
    for column in history.columns:
        values = _numbers(history[column])
        if column in _NOT_DRAWN or values is None or (rounds > 1 and np.ptp(values) == 0):
            continue
        monitored, _, name = column.partition(" ")
        is_monitored = bool(name) and monitored.startswith("valid_")
        title, line = (name, monitored) if is_monitored else (_CHART_OF.get(column, column), column)
        monitored_charts |= {title} if is_monitored else set()
        charts.setdefault(title, {})[line] = [
            plain_value(value) for value in values[which].tolist()
        ]
    # Evaluated metrics first, then the risk, then the rest in the order of the history.
    last = {"risk": 1, "edge": 3, "step": 4}
    shown = sorted(charts, key=lambda title: 0 if title in monitored_charts else last.get(title, 2))
    return {
        "rounds": rounds,
        "at": (which + 1).tolist(),
        "charts": [{"title": title, "curves": charts[title]} for title in shown[:_MAX_CHARTS]],
        "best": int(model.best_iteration_) if model.best_iteration_ < rounds else None,
        "kept": int(model.n_estimators_),
        "thinned": which.size < rounds,
    }


def _numbers(values: Any) -> np.ndarray | None:
    """Return a column as numbers; None if no number is finite."""
    try:
        numbers = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        return None
    several = numbers.ndim == 1 and np.isfinite(numbers).any()
    return numbers if several and not isinstance(values.flat[0], bool | np.bool_) else None


def log_scale(values: list[Any]) -> bool:
    """Return whether to draw a logarithmic axis: positive numbers over two powers of ten."""
    known = [value for value in values if value is not None]
    return bool(known) and min(known) > 0 and math.log10(max(known) / min(known)) > 2


# -- Effects of features on the score: accumulated local effects, pairs, and Shapley values -------
#
# Accumulated local effects (Apley and Zhu, JRSS B 2020) need no independent features: in each bin
# of a feature its rows are moved from one end of the bin to the other, all else being equal, and
# the mean changes of the score are added up from bin to bin. For a model that is a sum of functions
# of single features they are these functions, at the ends of the bins.


_BINS = 24
_SHOWN_QUANTILES = (0.01, 0.99)  # quantiles between which effects are shown
_PAIR_BINS = 8
_MAX_ROWS = 2000  # maximum number of rows moved between the ends of bins
_MAX_SWARM_ROWS = 300
_MAX_SWARM_FEATURES = 10
_MAX_PAIR_FEATURES = 6
_MAX_PAIR_EFFECTS = 3


def local_effect(
    ensemble: Ensemble, X: Floats, feature: int, cluster: Integers, level: float = 0.95
) -> dict[str, Any] | None:
    """Return the accumulated local effect of a feature with an interval at every bin edge.

    The effect at the end of bin k is A_k = Σ_{l≤k} d_l less its mean over the rows, d_l being the
    mean change in bin l. It is linear in the changes of single rows, so that its variance is the
    sum over clusters (queries, or rows) of their squared influences. The bins are taken as given.
    O(rows · rounds).
    """
    column = X[:, feature]
    present = ~np.isnan(column)
    known = np.flatnonzero(present & _not_extreme(column))
    edges = _edges(column[known], _BINS)
    if edges is None:
        return None
    rows, values = X[known], column[known]
    bins = np.clip(np.searchsorted(edges, values, side="left") - 1, 0, edges.size - 2)
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
    bars, ticks = np.histogram(values, _HISTOGRAM_BINS, (edges[0], edges[-1]))
    return {
        "x": edges.tolist(), "y": middle.tolist(), "low": (middle - reach).tolist(),
        "high": (middle + reach).tolist(), "edges": ticks.tolist(), "counts": bars.tolist(),
        "missing_share": float(np.mean(~present)), "rows": int(known.size),
        "beyond": int(present.sum()) - int(known.size),
    }  # fmt: skip


def _not_extreme(column: Floats) -> Any:
    """Return a mask of the values that are not extreme; long tails would dominate the chart."""
    if not np.isfinite(column).any():
        return np.zeros(column.size, bool)
    low, high = np.nanquantile(column, _SHOWN_QUANTILES, method="inverted_cdf")
    return (column >= low) & (column <= high)


def _edges(values: Floats, bins: int) -> Floats | None:
    """Return edges of bins with about equal numbers of rows; None for fewer than two values."""
    if not values.size or not np.isfinite(values).all():
        return None
    shares = np.linspace(0, 1, bins + 1)
    edges = np.unique(np.quantile(values, shares, method="inverted_cdf"))
    return edges if edges.size > 1 and np.isfinite(edges[-1] - edges[0]) else None


def _error(weight: Floats, residual: Floats, bins: Integers, cluster: Integers) -> Floats:
    """Return the standard error of Σ_l weight[k, l] · Σ_{i in l} residual_i, for every k."""
    known, number = np.unique(cluster, return_inverse=True)
    sums = np.zeros((known.size, weight.shape[1]))
    np.add.at(sums, (number, bins), residual)
    factor = known.size / max(known.size - 1, 1)
    return np.sqrt(factor * np.square(sums @ weight.T).sum(axis=0))


def pair_effect(ensemble: Ensemble, X: Floats, pair: tuple[int, int]) -> dict[str, Any] | None:
    """Return the interaction of two features, cell by cell.

    The second-order accumulated local effect: double differences of the score, averaged over the
    rows of a cell and added up in both directions, less its means along either axis.
    """
    middle = _not_extreme(X[:, pair[0]]) & _not_extreme(X[:, pair[1]])
    known = np.flatnonzero(middle)  # nor is a missing value
    edges = [_edges(X[known, feature], _PAIR_BINS) for feature in pair]
    if edges[0] is None or edges[1] is None:
        return None
    both = [edges[0], edges[1]]
    rows = X[known]
    bins = [np.clip(np.searchsorted(e, rows[:, f], side="left") - 1, 0, e.size - 2)
            for e, f in zip(both, pair, strict=True)]  # fmt: skip
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
    return {"values": cell.tolist(), "counts": counts.tolist(),
            "labels": [_names(e) for e in both],
            "importance": float((np.abs(cell) * share).sum())}  # fmt: skip


def _centered(cell: Floats, counts: Integers) -> Floats:
    """Subtract from the cells their means along either axis, weighted by the rows in them."""
    for _ in range(30):
        for axis in (0, 1):
            weight = counts.sum(axis=axis, keepdims=True)
            mean = (cell * counts).sum(axis=axis, keepdims=True) / np.maximum(weight, 1)
            cell = cell - mean
    return cell


def _names(edges: Floats) -> list[str]:
    years = may_be_years(edges)
    ends = [feature_value(float(f"{edge:.4g}"), years) for edge in edges.tolist()]
    return [f"{a} to {b}" for a, b in pairwise(ends)]


# -- effects shown in a report ---------------------------------------------------------------


def _sample(subject: Subject, most: int) -> tuple[Floats, Integers]:
    """Return evenly spaced rows as an array, and their clusters (queries, or rows)."""
    rows = thinned(subject.scores.size, most)
    return dense(subject.X[rows]), rows if subject.is_one_list else subject.query[0][rows]


def tree_effects(subject: Subject, features: list[int], level: float) -> list[Any]:
    """Return the accumulated local effects of some features on a sample of the rows."""
    assert subject.model is not None
    X, cluster = _sample(subject, _MAX_ROWS)
    ensemble = subject.model.ensemble_
    return [local_effect(ensemble, X, feature, cluster, level) for feature in features]


def pair_facts(subject: Subject, features: list[int]) -> list[dict[str, Any]]:
    """Return the strongest interactions among given features that share a tree."""
    assert subject.model is not None
    ensemble = subject.model.ensemble_
    together = _interacting_pairs(ensemble)
    chosen = features[:_MAX_PAIR_FEATURES]
    pairs = [(a, b) for k, a in enumerate(chosen) for b in chosen[k + 1 :]
             if frozenset((a, b)) in together]  # fmt: skip
    X, _ = _sample(subject, _MAX_ROWS)
    found = []
    for pair in pairs:
        effect = pair_effect(ensemble, X, pair)
        if effect is not None and effect["importance"] > 0:
            names = [subject.names[feature] for feature in pair]
            found.append({"name": " x ".join(names), "features": names, **effect})
    return sorted(found, key=lambda each: -each["importance"])[:_MAX_PAIR_EFFECTS]


def _interacting_pairs(ensemble: Ensemble) -> set[frozenset[int]]:
    """Return the pairs of features that split nodes of the same tree."""
    pairs = set()
    for ranker in ensemble.weak_rankers:
        used = sorted(ranker.importances())
        pairs |= {frozenset((a, b)) for k, a in enumerate(used) for b in used[k + 1 :]}
    return pairs


def swarm_facts(subject: Subject) -> dict[str, Any] | None:
    """Return the centered Shapley values of a sample of the rows, by feature."""
    model = subject.model
    if model is None:
        return None
    X, _ = _sample(subject, _MAX_SWARM_ROWS)
    try:
        explained = explain(model.ensemble_, X, names=subject.names)
    except ValueError:
        return None
    values = explained.contributions - explained.contributions.mean(axis=0)
    if not np.isfinite(values).all():
        return None
    size = np.abs(values).mean(axis=0)
    order = [int(j) for j in np.argsort(-size, kind="stable")[:_MAX_SWARM_FEATURES] if size[j] > 0]
    return {
        "rows": len(X),
        "method": explained.method,
        "features": [
            {"name": subject.names[j], "mean": float(size[j]),
             "values": [float(f"{v:.4g}") for v in values[:, j].tolist()],
             "shade": [plain_value(float(f"{s:.3g}")) for s in _shades(X[:, j]).tolist()]}
            for j in order
        ],
    }  # fmt: skip


def _shades(column: Floats) -> Floats:
    """Return the rank of each value, scaled to [0, 1]; NaN stays NaN."""
    known = column[~np.isnan(column)]
    distinct = np.unique(known)
    below = np.searchsorted(np.sort(known), column, side="left") + np.searchsorted(
        np.sort(known), column, side="right"
    )
    share = below / max(2 * known.size, 1)
    return np.where(np.isnan(column) | (distinct.size < 2), np.nan, share)
