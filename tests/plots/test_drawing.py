"""Charts: ticks that are read at a glance, nothing off the paper, SVG and matplotlib alike."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from precede import RankBoost, Report
from precede.plots.drawing import (
    Band,
    Blocks,
    Cells,
    Chart,
    Dots,
    Foot,
    Line,
    Ranges,
    Rule,
    Segments,
    tick_labels,
    ticks,
)  # fmt: skip

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3, 4), (1e-9, 2e-9), (0, 1e12), (5, 5)])
def test_ticks_are_round_and_inside(low, high):
    found = ticks(low, high)
    assert 1 <= len(found) <= 12
    assert all(low - 1e-9 * abs(low) <= tick <= high * (1 + 1e-9) for tick in found)


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([0.0, 10_000.0], ["0", "10,000"]),
        ([1990.0, 2000.0], ["1990", "2000"]),
        ([1000.0, 2000.0], ["1,000", "2,000"]),  # no year of the first
        ([0.0, 0.05, 0.1], ["0.00", "0.05", "0.10"]),
        ([0.0, 5e6], ["0", "5 M"]),
        ([1e-7, 2e-7], ["1e-07", "2e-07"]),
        ([-0.5, 0.0], ["-0.5", "0.0"]),
    ],
)
def test_labels_are_read_at_a_glance(values, labels):
    assert tick_labels(values) == labels


@pytest.mark.parametrize("power", range(-12, 13))
def test_labels_tell_ticks_apart(power):
    at = ticks(0.0, 10.0**power)
    assert len(set(tick_labels(at))) == len(at)


LAYERS = [
    Line([0, 1, 2], [3, 1, 2], "a long name of a model that was fitted on Tuesday.json"),
    Line([0, 2], [1, 1], "another long name of a model that was fitted on Monday.json", 1),
    Band([0, 1, 2], [2, 0, 1], [4, 2, 3]),
    Foot([0, 1, 2], [3, 5]),
    Rule(1.5, "best: 1"),
]
CHARTS = [
    Chart("lines", ("some label", "another label"), LAYERS),
    Chart("log", ("x", "y"), [Line([1, 2], [1e-5, 1e5])], log=True),
    Chart(
        "ranges", ("difference in a metric; right of 0: the first of the two models leads", ""),
        [Ranges([0, 1], [0.1, 0.2], [0.0, None], [0.2, None]), Rule(0.0)],
        rows=["documents in a query above 24, up to 38", "NumberOfTime60-89DaysPastDueNotWorse"],
    ),
    Chart(
        "cells", ("x", "y"),
        [Cells(np.array([[1.0, -1.0]]), np.array([[3, 2]]), (["a"], ["b", "c"]))],
    ),
    Chart("dots", ("x", ""), [Dots([1, 2, 3], [0, 0, 0], [0.0, float("nan"), 1.0])], rows=["a"]),
    Chart(
        "blocks", ("x", "y"), [Blocks([(0, 1, 0, 1)], [-0.5], ["tip"], "signed")],
        x_ticks=[(0.1, "from 0.12345 to 0.23456"), (0.5, "from 0.23456 to 0.34567"),
                 (0.9, "from 0.34567 to 1000")],
    ),
    Chart(
        "steps", ("x", "y"),
        [Line([1, 2, 3], [1, 3, 3], f"p = {k}", stepped=True, depth=k / 2) for k in range(3)],
    ),
    Chart("strips", ("rank", ""), [Segments([1, 5], [-0.4] * 2, [0.4] * 2, depth=0.5)], rows=["a"]),
]  # fmt: skip


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.title)
def test_nothing_is_off_the_paper(chart):
    drawn = ElementTree.fromstring(chart.svg())
    _, _, width, height = map(float, drawn.get("viewBox").split())
    spans = []
    for text in drawn.iter("text"):
        wide = 6.6 * len(text.text or "")
        x, y, anchor = float(text.get("x")), float(text.get("y")), text.get("text-anchor")
        left = x - {"start": 0.0, "middle": wide / 2, "end": wide}[anchor]
        assert left >= -1, text.text
        assert left + wide <= width + 1, text.text
        assert 0 <= y <= height
        spans.append((y, left, left + wide, text.text))
    for y, left, right, _ in spans:  # no two texts of a line cover each other
        for other in spans:
            if other[0] == y and other[1] > left:
                assert other[1] >= right - 1
    numbers = re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", chart.svg())
    assert all(-1 <= float(a) <= width + 1 and -1 <= float(b) <= height + 1 for a, b in numbers)


def test_an_empty_chart_is_nothing():
    assert Chart("t", ("x", "y"), []).svg() == ""


def test_names_are_text():
    drawn = Chart("<t>", ("<x>", "<y>"), [Line([0, 1], [0, 1], "<a>"), Line([0], [1], "&")]).svg()
    texts = [text.text for text in ElementTree.fromstring(drawn).iter("text")]
    assert {"<x>", "<y>", "<a>", "&"} <= set(texts)


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.title)
def test_the_same_layers_go_onto_axes(chart):
    plt = pytest.importorskip("matplotlib.pyplot")
    figure, ax = plt.subplots()
    assert chart.onto(ax) is ax
    assert ax.get_xlabel() == chart.labels[0]
    assert ax.has_data()
    if chart.rows:
        told = [text.get_text().replace("\n", " ") for text in ax.get_yticklabels()]
        assert told == list(chart.rows)
    plt.close(figure)


def test_steps_and_depths_are_the_same_on_paper_and_on_axes():
    plt = pytest.importorskip("matplotlib.pyplot")
    lines = [Line([0, 1], [0, 1], f"{k}", stepped=True, depth=k / 2) for k in range(3)]
    chart = Chart("steps", ("", ""), lines, (0, 1), (0, 1))
    paths = [
        path for path in ElementTree.fromstring(chart.svg()).iter("path")
        if path.get("class") == "line s0" and "H" in path.get("d")
    ]  # fmt: skip
    opacity = [float(path.get("stroke-opacity")) for path in paths]
    assert opacity == sorted(opacity)
    assert len(set(opacity)) == 3
    assert all(re.fullmatch(r"M[\d. ]+H[\d.]+V[\d.]+", path.get("d")) for path in paths)
    ax = chart.onto()
    assert [line.get_drawstyle() for line in ax.lines] == ["steps-post"] * 3
    brightness = [sum(line.get_color()[:3]) for line in ax.lines]
    assert brightness == sorted(brightness, reverse=True)
    plt.close(ax.figure)


def test_extreme_values_can_be_drawn():
    X = np.array([[-1.7e308], [0.0], [5e-324], [1.7e308]])
    model = RankBoost(n_estimators=2, step="bound").fit(X, [0, 1, 1, 1])
    report = Report(model, X, [0, 1, 1, 1])
    assert report.facts["features"]["rows"][0]["curve"] is None
    assert "too large, or too close" in report.to_html()
    page = Report(model, X / 1e8, [0, 1, 1, 1]).to_html()
    assert 'class="shape"' in page
    assert "nan" not in re.sub(r"<script.*?</script>", "", page, flags=re.S).lower()
