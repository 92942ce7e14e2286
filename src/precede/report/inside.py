"""What is inside the model: margins and certificates, features, how it was learned."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import ndtri

from precede.estimator import BaseRanker
from precede.margin import margins_of_predictions
from precede.plots import margin_info, pair_info, shape_info
from precede.report.effects import pair_facts, swarm_facts, tree_effects
from precede.report.subject import Subject, plain_value, thinned

__all__ = ["feature_facts", "learning_facts", "log_scale", "margin_facts"]

_MARGIN_POINTS = 61
_MOST_CORNERS = 600
_MOST_ROUNDS = 250
_BARS = 30  # of the histogram under a shape function
_MOST_CHARTS = 4
_MOST_PAIRS = 10
# Columns of a history that are told elsewhere, differ from run to run or say little in a figure.
_NOT_DRAWN = {
    "active", "best_edge", "e1", "feature", "log_risk", "norm", "parts", "perfect",
    "progress_condition", "weak_rankers", "round", "seconds", "smoothed",
}  # fmt: skip
# Columns that are read together.
_CHART_OF = {"lower": "margin", "upper": "margin", "smooth_margin": "margin", "bound": "risk"}


# -- margins ---------------------------------------------------------------------------------


def margin_facts(subject: Subject) -> dict[str, Any] | None:
    """Margins of the crucial pairs of these data, and what the model certifies."""
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
    """What the fit proved or measured about itself, on the rows it was fitted on."""
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
    """Importances, and what each feature does to the score.

    For models that are sums of functions of one feature, these functions, with bands where the
    model has standard errors; for others, such as trees, accumulated local effects and the
    strongest pairs. None if no candidate is a model.
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
    """The most important functions of two features of a glass-box model, cell by cell."""
    terms = [term for term in getattr(model, "terms_", []) if len(term.features) == 2]
    facts = []
    for term in terms[:_MOST_PAIRS]:
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
    """The line and the data below it; None where the numbers are too large for a figure."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            info = shape_info(model, feature, X, bins=_BARS)
    except ValueError:
        return None
    wide = float(max(info.x.max(), info.edges[-1])) - float(min(info.x.min(), info.edges[0]))
    if not (np.isfinite(info.y).all() and np.isfinite(info.edges).all() and np.isfinite(wide)):
        return None
    which = thinned(info.x.size, _MOST_CORNERS)
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
    """Columns of the history: the risk, what was evaluated, and what the algorithm records."""
    model = subject.model
    if model is None or not len(model.history_):
        return None
    history, rounds = model.history_, len(model.history_)
    charts: dict[str, dict[str, list[Any]]] = {}
    monitored_charts = set()
    which = thinned(rounds, _MOST_ROUNDS)
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
    # What was evaluated first, then the risk, then the rest; otherwise as in the history.
    last = {"risk": 1, "edge": 3, "step": 4}
    shown = sorted(charts, key=lambda title: 0 if title in monitored_charts else last.get(title, 2))
    return {
        "rounds": rounds,
        "at": (which + 1).tolist(),
        "charts": [{"title": title, "curves": charts[title]} for title in shown[:_MOST_CHARTS]],
        "best": int(model.best_iteration_) if model.best_iteration_ < rounds else None,
        "kept": int(model.n_estimators_),
        "thinned": which.size < rounds,
    }


def _numbers(values: Any) -> np.ndarray | None:
    """A column as numbers with something finite in it, or nothing."""
    try:
        numbers = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        return None
    several = numbers.ndim == 1 and np.isfinite(numbers).any()
    return numbers if several and not isinstance(values.flat[0], bool | np.bool_) else None


def log_scale(values: list[Any]) -> bool:
    """Whether a logarithmic axis shows more: positive numbers over two powers of ten."""
    known = [value for value in values if value is not None]
    return bool(known) and min(known) > 0 and math.log10(max(known) / min(known)) > 2
