"""Words and numbers for reading."""

import numpy as np
import pytest

from precede import RankBoost, Report
from precede.report.wording import Words, feature_value, metric_name, number, p_value


def test_words_follow_the_data_unless_given():
    assert Words.of(None, None, None, one_list=True).items == "rows"
    assert Words.of(None, None, None, one_list=False).items == "documents"
    words = Words.of("borrower", "repaid", "branch", one_list=False)
    assert (words.items, words.queries, words.good) == ("borrowers", "branches", "repaid")


@pytest.mark.parametrize(
    ("value", "text"),
    [(10_000, "10,000"), (2010.0, "2010"), (2500.0, "2,500"), (12345.678, "12,345.7"),
     (0.125, "0.125"), ("red", "red"), (None, "missing"), (-np.inf, "-inf")],
)  # fmt: skip
def test_values_of_features(value, text):
    assert feature_value(value) == text


def test_numbers_are_not_written_in_powers():
    assert number(12345.678) == "12,345.7"
    assert p_value(0.9999) == "p = 1"
    assert metric_name("precision_at_percent@10") == "pairs in order, of the 10 % furthest apart"


def test_columns_of_scored_rows_may_hold_infinities():
    generator = np.random.default_rng(0)
    many = np.where(np.arange(200) < 120, np.inf, generator.normal(size=200))
    X = np.column_stack([np.where(np.arange(200) % 2, np.inf, 1.0), many])
    y = generator.integers(0, 2, 200)
    assert Report(scores={"noise": generator.normal(size=200)}, X=X, y=y).to_html()


def test_only_columns_of_years_have_numbers_without_commas():
    generator = np.random.default_rng(0)
    X = np.column_stack([generator.integers(1950, 2020, 300), generator.integers(0, 4000, 300)])
    push = X[:, 0] - 1985 + 0.02 * (X[:, 1] - 2000)
    y = (push + 30 * generator.normal(size=300) > 0).astype(int)
    model = RankBoost(n_estimators=40, step="bound").fit(X[:100], y[:100])
    report = Report(model, X[100:], y[100:])
    shown = {f["name"]: f["years"] for each in report.facts["wrong"]["queries"][0]["pairs"]
             for f in each["features"]}  # fmt: skip
    assert shown == {"x0": True, "x1": False}
    for pair in report.facts["wrong"]["queries"][0]["pairs"]:
        for f in pair["features"]:
            for side in ("upper_value", "lower_value"):
                text = feature_value(f[side], f["years"])
                assert ("," in text) == (f["name"] == "x1" and f[side] >= 1000)
                assert f'<td class="n">{text}</td>' in report.to_html()
    labels = [row["label"] for row in report.facts["slices"]["rows"] if row["by"] == "x1"]
    assert any("," in label for label in labels)
    assert all("1," not in row["label"] for row in report.facts["slices"]["rows"]
               if row["by"] == "x0")  # fmt: skip
