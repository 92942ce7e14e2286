"""The charts of reports: one engine, readable ticks, all names whole."""

import re

import numpy as np
import pytest

from precede import RankBoost, Report
from precede.report.figures import figures_of

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


def texts(svg):
    return re.findall(r"<text[^>]*>([^<]*)", svg)


def test_years_have_no_comma_and_large_numbers_no_power():
    generator = np.random.default_rng(0)
    X = np.stack([generator.integers(1985, 2015, 300), generator.integers(0, 50_000, 300)], axis=1)
    y = (X[:, 0] - 2000 + (X[:, 1] - 25_000) / 2500 > 0).astype(int)
    model = RankBoost(n_estimators=20, step="bound").fit(X.astype(float), y)
    report = Report(model, X.astype(float), y)
    by_name = {
        row["name"]: texts(chart)
        for row, chart in zip(
            report.facts["features"]["rows"], figures_of(report.facts)["curves"], strict=True
        )
    }
    assert "2000" in by_name["x0"]
    assert "20,000" in by_name["x1"]
    assert not any("e+" in text for text in by_name["x0"] + by_name["x1"])


def test_the_first_chart_has_every_model_and_both_limits(ranked, search):
    X, y, qid = search
    report = Report({"new.json": ranked[0], "old.json": ranked[0]}, X, y, qid=qid)
    shown = texts(figures_of(report.facts)["main"])
    assert {"random order", "best possible", "new.json", "old.json"} <= set(shown)


def test_every_chart_has_a_name_for_those_who_do_not_see_it(ranked, two_classes):
    for report in (ranked[1], two_classes[3]):
        found = figures_of(report.facts)
        charts = [found["main"], found["swarm"], *found["curves"], *found["learning"]]
        for chart in filter(None, charts):
            assert re.match(r'<svg viewBox="[^"]+" role="img" aria-label="[^"]+">', chart)
