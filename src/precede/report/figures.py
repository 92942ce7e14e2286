"""Charts of a report, drawn from its facts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from markupsafe import Markup

from precede.plots.drawing import (
    Band,
    Blocks,
    Cells,
    Chart,
    Cross,
    Dots,
    Foot,
    Layer,
    Line,
    Ranges,
    Rule,
)
from precede.report.model import log_scale
from precede.report.wording import is_share, metric_name

_MAX_RANGES = 12


def figures_of(facts: dict[str, Any]) -> dict[str, Any]:
    """Return every chart as SVG, by name; an empty text where there is nothing to draw."""
    features, learning, margins = facts["features"], facts["learning"], facts["margins"]
    found, first, words = facts["list"], facts["first"], facts["words"]
    return {
        "main": _main(facts),
        "shares": _shares(first, words) if first and first["shares"] else "",
        "list": _list_charts(found, words) if found else {},
        "compared": _compared(facts["comparison"]) if facts["comparison"] else "",
        "slices": _slices(facts["slices"]) if facts["slices"] else "",
        "margins": _margins(margins["distribution"]) if margins and margins["distribution"] else "",
        "curves": [_curve(row) for row in features["rows"]] if features else [],
        "pairs": [_pair(pair) for pair in features["pairs"]] if features else [],
        "swarm": _swarm(features["swarm"]) if features and features["swarm"] else "",
        "learning": [_learning(c, learning) for c in learning["charts"]] if learning else [],
    }


# -- the first screen ------------------------------------------------------------------------


def _main(facts: dict[str, Any]) -> Markup:
    """Return the chart of the first screen: the top of queries or of a list, or else the pairs."""
    words = facts["words"]
    if facts["first"]:
        return _first_chart(facts["first"], words)
    return _gains(facts["list"], words) if facts["list"] else _in_order(facts["models"])


def _in_order(models: list[dict[str, Any]]) -> Markup:
    """Draw the share of the pairs in order, by model, with its interval; chance is a half."""
    rows = [(model["name"], row) for model in models for row in model["quality"]["metrics"]
            if row["metric"] == "pairs_in_order"]  # fmt: skip
    if not rows:
        return Markup("")
    layer = Ranges(range(len(rows)), [row["value"] for _, row in rows],
                   [row["low"] for _, row in rows], [row["high"] for _, row in rows])  # fmt: skip
    title = "share of the pairs in order, with intervals"
    return Chart(title, ("share of the pairs in order", ""), [Rule(0.5), layer],
                 rows=[name for name, _ in rows], percent=(True, False)).svg()  # fmt: skip


def _first_chart(first: dict[str, Any], words: dict[str, str]) -> Markup:
    """Draw the mean grade of the first k rows: the models, the best order and chance."""
    at = first["ranks"]
    layers: list[Layer] = []
    if None not in first["low"]:
        layers.append(Band(at, first["low"], first["high"]))
    ends = [at[0], at[-1]]
    layers.append(Line(ends, [first["chance"]] * 2, "random order", -1))
    layers.append(Line(at, first["best"], "best possible", -2))
    layers += [Line(at, means, name, k, marked=len(at) < 20)
               for k, (name, means) in enumerate(first["models"].items())]  # fmt: skip
    title = f"mean grade of the first {words['items']} of a {words['query']}"
    labels = (f"k, number of {words['items']} from the top", "mean grade of the first k")
    return Chart(title, labels, layers, x_ticks=[(k, str(k)) for k in at]).svg()


def _gains(found: dict[str, Any], words: dict[str, str]) -> Markup:
    """Draw the share of the rarer class found in the first, or the last, part of the list."""
    gains, share = found["gains"], found["share"]
    rare = 1 - share if found["below"] else share
    layers: list[Layer] = [
        Band(gains["grid"], gains["low"], gains["high"]),
        Line([0, 1], [0, 1], "random order", -1),
        Line([0, rare, 1], [0, 1, 1], "best possible", -2),
        *_lines(gains),
    ]
    good = words["good"] or str(found["good"])
    name, end = (f"not {good}", "bottom") if found["below"] else (good, "top")
    title = f"share of the {words['items']} that are {name} found from the {end}"
    labels = (f"share of the {words['items']}, from the {end}", f"share of all {name} among them")
    return Chart(title, labels, layers, (0, 1), (0, 1), percent=(True, True)).svg()


def _lines(found: dict[str, Any]) -> list[Line]:
    return [Line(curve["x"], curve["y"], name, k)
            for k, (name, curve) in enumerate(found["curves"].items())]  # fmt: skip


# -- how good --------------------------------------------------------------------------------


def _shares(first: dict[str, Any], words: dict[str, str]) -> Markup:
    """Draw stacked shares of the grades at each rank, the best grade darkest and lowest."""
    ranks = first["shares"]
    grades = list(ranks[0]["shares"])[::-1]
    boxes, values, tips = [], [], []
    for each in ranks:
        foot = 0.0
        for number, grade in enumerate(grades):
            share = each["shares"][grade]
            if share > 0:
                boxes.append((each["rank"] - 0.4, each["rank"] + 0.4, foot, foot + share))
                values.append(_shade(number, len(grades)))
                tips.append(f"rank {each['rank']}: {share:.0%} grade {grade}")
            foot += share
    keys = [(f'class="grade" fill-opacity="{_shade(k, len(grades)):.2f}"', f"grade {grade}")
            for k, grade in enumerate(grades)]  # fmt: skip
    title = f"share of each grade at each rank, over {words['queries']}"
    ticks = [(each["rank"], str(each["rank"])) for each in ranks]
    return Chart(
        title, ("rank", f"share of the {words['queries']}"), [Blocks(boxes, values, tips)],
        (0.5, len(ranks) + 0.5), (0, 1), percent=(False, True), x_ticks=ticks, keys=keys,
    ).svg()  # fmt: skip


def _shade(number: int, count: int) -> float:
    """Return the opacity of a grade: the best is opaque, the worst pale."""
    return 1.0 if count < 2 else 0.12 + 0.88 * (1 - number / (count - 1)) ** 1.3


def _list_charts(found: dict[str, Any], words: dict[str, str]) -> dict[str, Any]:
    good = words["good"] or str(found["good"])
    charts: dict[str, Any] = {}
    roc = found["roc"]
    layers: list[Layer] = [Band(roc["grid"], roc["low"], roc["high"]),
                           Line([0, 1], [0, 1], "random order", -1), *_lines(roc)]  # fmt: skip
    labels = ("share of the others above", f"share of the {good} above")
    charts["roc"] = Chart("ROC curve", labels, layers, (0, 1), (0, 1), percent=(True, True)).svg()
    curve = found["precision_recall"]
    layers = [Band(curve["grid"], curve["low"], curve["high"]),
              Line([0, 1], [found["share"]] * 2, "random order", -1), *_lines(curve)]  # fmt: skip
    labels = (f"recall: share of the {good} above", f"precision: share {good} of those above")
    low = min(found["share"], *curve["low"], *(min(c["y"]) for c in curve["curves"].values()))
    limits = (0.0 if low < 0.6 else math.floor(20 * low) / 20, 1.0)
    title = "precision-recall curve"
    charts["precision_recall"] = Chart(
        title, labels, layers, (0, 1), limits, percent=(True, True)
    ).svg()
    charts["strip"] = "" if found["below"] else _strip(found["strip"])
    charts["calibration"] = _calibration(found["calibration"], good) if found["calibration"] else ""
    return charts


def _strip(found: dict[str, Any]) -> Markup:
    """Draw the top of the list from left to right: a box for each positive."""
    boxes = [(rank - 0.5, rank + 0.5, 0.0, 1.0) for rank in found["positives"]]
    if not boxes:
        return Markup("")
    layer = Blocks(boxes, [1.0] * len(boxes), [f"rank {r}" for r in found["positives"]], "bar")
    title = "ranks of the positives at the top of the list"
    return Chart(title, ("rank in the list", ""), [layer], (0.5, found["ranks"] + 0.5),
                 rows=("",)).svg()  # fmt: skip


def _calibration(found: dict[str, Any], good: str) -> Markup:
    layers: list[Layer] = [Line([0, 1], [0, 1], "as predicted", -1)]
    for k, (name, info) in enumerate(found.items()):
        layers.append(Band(info["predicted"], info["low"], info["high"], k))
        layers.append(Line(info["predicted"], info["share"], name, k, marked=True))
    labels = ("predicted probability", f"share {good}")
    return Chart("calibration", labels, layers, (0, 1), (0, 1), percent=(True, True)).svg()


def _compared(compared: dict[str, Any]) -> Markup:
    """Draw the differences of the main metric with their intervals."""
    rows = [row for row in compared["rows"] if row["differences"][0]["difference"] is not None]
    if not rows:
        return Markup("")
    main = [row["differences"][0] for row in rows]
    layer = _ranges(compared["main"], [(d["difference"], d["low"], d["high"]) for d in main])
    label = _in_points(f"difference in {metric_name(compared['main'])}", compared["main"])
    title = f"{label}, {compared['first']} minus the other"
    names = [f"against {row['name']}" for row in rows]
    return Chart(title, (label, ""), [Rule(0.0), layer], rows=names).svg()


def _ranges(name: str, rows: list[tuple[Any, Any, Any]]) -> Ranges:
    """Return a layer of differences with their intervals; of percentages, in points."""
    scale = 100.0 if is_share(name) else 1.0
    ends = [[None if end is None else scale * end for end in row[1:]] for row in rows]
    middle = [scale * row[0] for row in rows]
    return Ranges(range(len(rows)), middle, [low for low, _ in ends], [high for _, high in ends])


def _in_points(text: str, name: str) -> str:
    return f"{text}, points" if is_share(name) else text


def _slices(slices: dict[str, Any]) -> Markup:
    """Draw the slices that differ most from the rest, the least p value first."""
    rows = sorted(slices["rows"], key=lambda row: row["p_value"])[:_MAX_RANGES]
    rows.sort(key=lambda row: row["difference"])
    ends = [(r["difference"], r["difference_low"], r["difference_high"]) for r in rows]
    layer = _ranges(slices["metric"], ends)
    names = [f"{row['by']} {row['label']}" for row in rows]
    what = f"{metric_name(slices['metric'])} in the slice minus the rest"
    label = _in_points(what, slices["metric"])
    return Chart(label, (label, ""), [Rule(0.0), layer], rows=names).svg()


def _margins(found: dict[str, Any]) -> Markup:
    zeros = [0.0] * len(found["theta"])
    at, share = found["theta"], found["share"]
    layers: list[Layer] = [Band(at, zeros, share), Line(at, share), Rule(0.0)]
    title = "share of the pairs with a margin of at most each value"
    return Chart(title, ("margin", "share of the pairs"), layers, y_limits=(0, 1),
                 percent=(False, True)).svg()  # fmt: skip


# -- features --------------------------------------------------------------------------------


def _curve(row: dict[str, Any]) -> Markup:
    """Draw a shape function or an accumulated local effect over the data."""
    curve = row["curve"]
    if curve is None:
        return Markup("")
    layers: list[Layer] = []
    if sum(curve["counts"]):
        layers.append(Foot(curve["edges"], curve["counts"]))
    layers.append(Rule(0.0, upright=False))
    if curve["low"] is not None:
        layers.append(Band(curve["x"], curve["low"], curve["high"]))
    layers.append(Line(curve["x"], curve["y"], marked=len(curve["x"]) <= 4))
    if curve.get("missing") is not None:
        layers.append(Cross(curve["x"][-1], curve["missing"], "missing"))
    title = f"what {row['name']} adds to the score"
    ticks = [(at, text) for at, text in curve.get("ticks", ())]
    return Chart(title, (row["name"], "added to the score"), layers, x_ticks=ticks).svg()


def _pair(pair: dict[str, Any]) -> Markup:
    """Draw a cell for each pair of bins; cells without a row are left out."""
    labels, (one, other) = pair["labels"], pair["features"]
    cells = Cells(np.array(pair["values"]), np.array(pair["counts"]), labels)
    return Chart(
        f"what {one} and {other} add to the score together", (one, other), [cells],
        (0, len(labels[0])), (0, len(labels[1])),
        x_ticks=_bin_ticks(labels[0], 3), y_ticks=_bin_ticks(labels[1], 5),
    ).svg()  # fmt: skip


def _bin_ticks(labels: list[str], most: int) -> list[tuple[float, str]]:
    """Return the names of some bins, evenly spaced."""
    if len(labels) <= most:
        return [(k + 0.5, name) for k, name in enumerate(labels)]
    which = np.unique(np.round(np.linspace(0, len(labels) - 1, most)).astype(int)).tolist()
    return [(k + 0.5, labels[k]) for k in which]


def _swarm(swarm: dict[str, Any]) -> Markup:
    """Draw Shapley values as swarms of points, a row for each feature, colored by its value."""
    x: list[float] = []
    y: list[float] = []
    shade: list[float] = []
    spread = max((abs(v) for each in swarm["features"] for v in each["values"]), default=1.0) or 1.0
    for row, each in enumerate(swarm["features"]):
        x += each["values"]
        y += [row + shift for shift in _shifts(each["values"], spread / 60)]
        shade += [math.nan if s is None else s for s in each["shade"]]
    keys = [('class="swarm-key t0"', "low value"), ('class="swarm-key t4"', "high value")]
    title = "Shapley values of the features, a point for each row"
    names = [each["name"] for each in swarm["features"]]
    return Chart(title, ("added to the score, against the mean", ""),
                 [Rule(0.0), Dots(x, y, shade)], rows=names, keys=keys).svg()  # fmt: skip


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


def _learning(chart: dict[str, Any], learning: dict[str, Any]) -> Markup:
    lines: list[Layer] = []
    for k, (name, values) in enumerate(chart["curves"].items()):
        known = [(a, v) for a, v in zip(learning["at"], values, strict=True) if v is not None]
        lines.append(Line([a for a, _ in known], [v for _, v in known], name, k))
    best = learning["best"]
    name = "kept" if best == learning["kept"] else "best"
    marks = [] if best is None else [Rule(float(best), f"{name}: {best}")]
    log = log_scale([value for values in chart["curves"].values() for value in values])
    title = f"{chart['title']} round by round"
    return Chart(
        title, ("round", chart["title"].replace("_", " ")), [*marks, *lines], log=log
    ).svg()
