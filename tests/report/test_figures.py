"""The charts of reports: readable ticks, all names whole, a text for those who do not see them."""

import re

import numpy as np
import pytest

from precede import RankBoost, Report

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


def charts(report):
    """Charts of the page by their text alternative."""
    return {
        name: re.findall(r"<text[^>]*>([^<]*)", inside)
        for name, inside in re.findall(r'<svg [^>]*aria-label="([^"]+)">(.*?)</svg>',
                                       report.to_html(), re.DOTALL)
    }  # fmt: skip


def test_years_have_no_comma_and_large_numbers_no_power():
    generator = np.random.default_rng(0)
    X = np.stack([generator.integers(1985, 2015, 300), generator.integers(0, 50_000, 300)], axis=1)
    y = (X[:, 0] - 2000 + (X[:, 1] - 25_000) / 2500 > 0).astype(int)
    model = RankBoost(n_estimators=20, step="bound").fit(X.astype(float), y)
    shown = charts(Report(model, X.astype(float), y))
    first, second = (shown[f"what x{j} adds to the score"] for j in range(2))
    assert "2000" in first
    assert "20,000" in second
    assert not any("e+" in text for text in first + second)


def test_the_first_chart_has_every_model_and_both_limits(ranked, search):
    X, y, qid = search
    report = Report({"new.json": ranked[0], "old.json": ranked[0]}, X, y, qid=qid)
    shown = charts(report)["mean grade of the first documents of a query"]
    assert {"random order", "best possible", "new.json", "old.json"} <= set(shown)
