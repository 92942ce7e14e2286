"""Curves of one list against scikit-learn's and the obvious loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ks_2samp
from sklearn.metrics import precision_recall_curve, roc_curve

from precede import AdaBoostRanker, Report
from precede.plots import calibration_info
from precede.report.one_list import Thresholds

lists = st.lists(st.tuples(st.booleans(), st.integers(-3, 3)), min_size=2, max_size=40).filter(
    lambda rows: len({positive for positive, _ in rows}) == 2
)


def split(rows):
    return np.array([p for p, _ in rows]), np.array([s for _, s in rows], np.float64)


@given(lists)
def test_curves_are_those_of_scikit_learn(rows):
    positive, scores = split(rows)
    found = Thresholds.of(positive, scores)
    fall_out, recall, _ = roc_curve(positive, scores, drop_intermediate=False)
    np.testing.assert_allclose(found.fall_out, fall_out)
    np.testing.assert_allclose(found.recall, recall)
    precision, recall, _ = precision_recall_curve(positive, scores)
    np.testing.assert_allclose(found.precision[1:], precision[:-1][::-1])
    np.testing.assert_allclose(found.recall[1:], recall[:-1][::-1])
    assert found.separation() == pytest.approx(
        ks_2samp(scores[positive], scores[~positive]).statistic
    )


@given(lists)
def test_gains_never_exceed_the_best_possible(rows):
    positive, scores = split(rows)
    for found, share in (
        (Thresholds.of(positive, scores), positive.mean()),
        (Thresholds.of(positive, scores).reverse(), 1 - positive.mean()),
    ):
        depth = np.linspace(0, 1, 21)
        best = np.minimum(depth / share, 1)
        assert (found.gain(depth) <= best + 1e-12).all()


@given(lists)
def test_from_below_negatives_are_found(rows):
    positive, scores = split(rows)
    turned, below = Thresholds.of(positive, scores).reverse(), Thresholds.of(~positive, -scores)
    np.testing.assert_array_equal(turned.positives, below.positives)
    np.testing.assert_array_equal(turned.negatives, below.negatives)


def test_facts_of_a_list():
    generator = np.random.default_rng(0)
    y = (generator.random(800) < 0.2).astype(int)
    scores = y + generator.normal(size=800)
    found = Report(scores={"a": scores, "b": -scores}, y=y).facts["list"]
    assert not found["below"]
    order = np.argsort(-scores)
    for row in found["depths"]:
        inside = y[order[: row["rows"]]]
        assert row["gain"] == pytest.approx(inside.sum() / y.sum(), abs=2 / y.sum())
        assert row["low"] <= row["gain"] <= row["high"]
        assert row["lift"] == pytest.approx(row["gain"] / row["depth"])
        assert row["gain"] <= row["best"] + 1e-12
    assert list(found["roc"]["curves"]) == ["a", "b"]
    for name in ("roc", "precision_recall", "gains"):
        curve = found[name]
        assert (np.array(curve["low"]) <= np.array(curve["high"])).all()
    at, low, high = (np.array(found["roc"][k]) for k in ("grid", "low", "high"))
    curve = Thresholds.of(y == 1, scores).roc(at)
    assert ((low <= curve + 1e-9) & (curve <= high + 1e-9)).mean() > 0.9


def test_intervals_of_the_roc_curve_cover():
    """At one false positive rate, 95 % intervals of 40 samples hold the truth nearly always."""
    covered = 0
    for seed in range(40):
        generator = np.random.default_rng(seed)
        y = np.repeat([0, 1], 150)
        scores = generator.normal(size=300) + y
        roc = Report(scores={"a": scores}, y=y).facts["list"]["roc"]
        at = int(np.argmin(np.abs(np.array(roc["grid"]) - 0.3)))
        from scipy.stats import norm

        truth = 1 - norm.cdf(norm.ppf(1 - roc["grid"][at]) - 1)
        covered += roc["low"][at] <= truth <= roc["high"][at]
    assert covered >= 34


def test_where_most_are_good_the_others_are_found_from_below():
    y = np.array([1] * 90 + [0] * 10)
    scores = np.concatenate([np.arange(90.0) + 10, np.arange(10.0)])
    report = Report(scores={"a": scores}, y=y, item="borrower", good="repaid")
    found = report.facts["list"]
    assert found["below"]
    ten = next(row for row in found["depths"] if row["depth"] == 0.1)
    assert ten["gain"] == ten["best"] == 1
    page = report.to_html()
    assert "not repaid" in page
    assert "from the bottom" in page


def test_probabilities_are_calibrated_against_what_happened():
    generator = np.random.default_rng(1)
    X = generator.normal(size=(400, 2))
    y = (X[:, 0] + generator.normal(size=400) > 0).astype(int)
    model = AdaBoostRanker(n_estimators=10).fit(X, y)
    report = Report(model, X, y, scores={"chances": y * 0.5 + 0.25 * generator.random(400)})
    told = report.facts["list"]["calibration"]
    assert list(told) == ["AdaBoostRanker", "chances"]
    info = calibration_info(y, model.predict_proba(X))
    np.testing.assert_allclose(told["AdaBoostRanker"]["share"], info.share)
    assert told["AdaBoostRanker"]["brier"] == pytest.approx(info.brier)
    assert "Calibration" in report.to_html()
    raw = Report(scores={"raw": X[:, 0]}, y=y)
    assert raw.facts["list"]["calibration"] == {}
    assert "<h3>Calibration</h3>" not in raw.to_html()


def test_precision_at_a_depth_of_the_table_is_not_told_again():
    """Of 1,000 rows the first 1 % are 10: their share of positives is precision@10."""
    generator = np.random.default_rng(2)
    scores = generator.normal(size=1000)
    y = (scores + generator.normal(size=1000) > 1.5).astype(int)
    found = Report(scores={"a": scores}, y=y).facts["list"]
    [first] = [each for each in found["depths"] if each["rows"] == 10]
    assert first["share"] == y[np.argsort(-scores)[:10]].mean()
    assert not {"precision@10", "precision@100"} & {each["measure"] for each in found["top"]}
    found = Report(scores={"a": scores[:990]}, y=y[:990]).facts["list"]
    assert "precision@100" in {each["measure"] for each in found["top"]}
    found = Report(scores={"a": scores}, y=1 - y).facts["list"]  # counted from the bottom
    assert "precision@10" in {each["measure"] for each in found["top"]}
