"""Margins, shapes, effects of features, and learning curves."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

from precede import BoostedRanker, GlassBoxRanker, RankBoost, Report, margins
from precede.report.model import local_effect, pair_effect

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


def test_margins_shapes_and_importances_are_those_of_the_model(ranked, search):
    X, y, qid = search
    model, report = ranked
    found = margins(model, X, y, qid=qid)
    told = report.facts["margins"]["distribution"]
    assert (told["pairs"], told["least"], told["norm"]) == (
        found.n_pairs, found.minimum, found.norm)  # fmt: skip
    assert told["not_above_zero"] == found.at(0.0)
    features = report.facts["features"]
    weights = model.feature_importances_
    assert [row["weight"] for row in features["rows"]] == sorted(weights[weights > 0])[::-1]
    for row in features["rows"]:
        shape, function = row["curve"], model.shape_function(row["feature"])
        middle = [(a + b) / 2 for a, b in zip(shape["x"][::2], shape["x"][1::2], strict=True)]
        assert_allclose(function(middle), np.array(shape["y"][::2]) + shape["offset"], atol=1e-12)
        assert sum(shape["counts"]) + shape["beyond"] == np.sum(~np.isnan(X[:, row["feature"]]))


def test_learning_curves_are_the_history(ranked):
    model, report = ranked
    learning = report.facts["learning"]
    charts = {chart["title"]: chart["curves"] for chart in learning["charts"]}
    assert charts["risk"]["risk"] == model.history_["risk"].tolist()
    assert charts["pairs_in_order"]["valid_0"] == model.evals_result_["valid_0"]["pairs_in_order"]
    assert learning["charts"][0]["title"] == "pairs_in_order"
    assert "seconds" not in charts


def test_pairs_and_edits_of_a_glass_box_are_shown():
    generator = np.random.default_rng(0)
    X = generator.uniform(-1, 1, (400, 3))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    model = GlassBoxRanker(interactions=[(0, 1)], n_estimators=5, pair_estimators=20)
    model.fit(X, y).set_value((0, 1), (0, 0), 0.5, X=X, y=y)
    report = Report(model, X, y)
    [pair] = report.facts["features"]["pairs"]
    assert pair["name"] == "x0 x x1"
    assert sum(map(sum, pair["counts"])) == 400
    [edit] = report.facts["models"][0]["making"]["edits"]
    assert edit["term"] == "x0 x x1"
    assert edit["after"] == model.score(X, y)
    html, text = report.to_html(), report.to_markdown()
    assert "Pairs of features" in html
    assert html.count("<rect x=") >= 100
    assert "edited by hand" in html
    assert "x0 x x1" in text
    assert "edited by hand" in text


NAMES = ["x0", "x1", "x2"]


def naive_effect(predict, X, feature, edges):
    """Bin by bin, row by row."""
    sums = [0.0]
    counts = []
    for low, high in pairwise(edges):
        least = -np.inf if low == edges[0] else low
        rows = [x for x in X if least < x[feature] <= high]
        changes = []
        for x in rows:
            ends = np.array([x, x])
            ends[:, feature] = low, high
            changes.append(np.diff(predict(ends))[0])
        counts.append(len(rows))
        sums.append(sums[-1] + (np.mean(changes) if rows else 0.0))
    middle = (np.array(sums[:-1]) + np.array(sums[1:])) / 2
    return np.array(sums) - np.average(middle, weights=counts)


@pytest.fixture(scope="module")
def trees():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(600, 3))
    X[:, 2] = X[:, 0] + 0.3 * X[:, 2]  # depends on the first
    y = (X[:, 0] * X[:, 1] + X[:, 0] + 0.3 * generator.normal(size=600) > 0).astype(int)
    return BoostedRanker(n_estimators=15, num_leaves=6, min_child_samples=5).fit(X, y), X, y


def test_effects_are_those_of_the_loop(trees):
    model, X, _ = trees
    for feature in range(3):
        found = local_effect(model.ensemble_, X, feature, np.arange(600))
        low, high = np.quantile(X[:, feature], [0.01, 0.99], method="inverted_cdf")
        inside = X[(X[:, feature] >= low) & (X[:, feature] <= high)]
        naive = naive_effect(model.predict, inside, feature, found.x)
        np.testing.assert_allclose(found.y, naive, atol=1e-10)
        assert found.counts.sum() == len(inside)


def test_the_effects_of_a_sum_are_its_terms():
    """For stumps the effect at the ends of bins differs by what the shape function does."""
    generator = np.random.default_rng(1)
    X = generator.normal(size=(500, 2))
    X[:, 1] += X[:, 0]
    model = RankBoost(n_estimators=10, step="bound").fit(X, (X.sum(axis=1) > 0).astype(int))
    for feature in range(2):
        found = local_effect(model.ensemble_, X, feature, np.arange(500))
        shape = model.shape_function(feature)(found.x)
        np.testing.assert_allclose(np.diff(found.y), np.diff(shape), atol=1e-10)
        # Nothing but the rows that are there decides, so that the interval is a point.
        np.testing.assert_allclose(found.low, found.high, atol=1e-10)


def test_intervals_are_as_wide_as_resampling_says(trees):
    model, X, _ = trees
    cluster = np.arange(600) // 3
    found = local_effect(model.ensemble_, X, 0, cluster)
    width = found.high - found.low
    edges, ensemble = found.x, model.ensemble_
    inside = np.flatnonzero((X[:, 0] >= edges[0]) & (X[:, 0] <= edges[-1]))
    bins = np.clip(np.searchsorted(edges, X[inside, 0], side="left") - 1, 0, edges.size - 2)
    ends = []
    for side in (bins, bins + 1):
        moved = X[inside].copy()
        moved[:, 0] = edges[side]
        ends.append(ensemble.predict(moved))
    change, generator = ends[1] - ends[0], np.random.default_rng(0)
    curves = []
    for _ in range(300):
        times = np.bincount(generator.integers(200, size=200), minlength=200)[cluster[inside]]
        counts = np.bincount(bins, times, edges.size - 1)
        sums = np.concatenate([[0.0], np.cumsum(np.bincount(bins, times * change) / counts)])
        middle = (sums[:-1] + sums[1:]) / 2
        fixed = np.bincount(bins, minlength=edges.size - 1)
        curves.append(sums - np.average(middle, weights=fixed))
    wanted = 2 * 1.96 * np.std(curves, axis=0)
    assert np.median(width / wanted) == pytest.approx(1, abs=0.2)


def test_a_product_is_the_strongest_pair(trees):
    model, X, y = trees
    report = Report(model, X, y)
    features = report.facts["features"]
    assert features["kind"] == "effects"
    assert set(features["pairs"][0]["names"]) == {"x0", "x1"}
    together = pair_effect(model.ensemble_, X, (0, 1), NAMES)
    values, counts = together.values, together.counts
    # x0 * x1: positive where both have the same sign.
    assert values[0, 0] > 0 < values[-1, -1]
    assert values[0, -1] < 0 > values[-1, 0]
    for axis in (0, 1):  # pure: no effect of one feature is left
        np.testing.assert_allclose((values * counts).sum(axis=axis), 0, atol=1e-6)
    page = report.to_html()
    assert "Accumulated local effect" in page
    assert "use explain(X) instead" not in page
    assert "Pairs of features" in page


def test_a_sum_has_no_pair():
    generator = np.random.default_rng(1)
    X = generator.normal(size=(300, 2))
    model = RankBoost(n_estimators=10, step="bound").fit(X, (X.sum(axis=1) > 0).astype(int))
    assert np.abs(pair_effect(model.ensemble_, X, (0, 1), NAMES).values).max() < 1e-12


def test_the_swarm_shows_exact_values(trees):
    model, X, y = trees
    swarm = Report(model, X, y).facts["features"]["swarm"]
    rows = np.unique(np.round(np.linspace(0, 599, 300)).astype(int))
    values = model.explain(X[rows]).contributions
    values = values - values.mean(axis=0)
    assert swarm["rows"] == 300
    for each in swarm["features"]:
        j = int(each["name"][1:])
        np.testing.assert_allclose(each["values"], values[:, j], rtol=1e-3, atol=1e-9)
        order = np.argsort(X[rows, j])
        assert (np.diff(np.array(each["shade"])[order]) >= 0).all()


def test_missing_and_constant_columns():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 3))
    X[::3, 0], X[:, 1] = np.nan, 5.0
    y = (np.nan_to_num(X[:, 0]) > 0).astype(int)
    model = BoostedRanker(n_estimators=5, num_leaves=4, min_child_samples=5).fit(X, y)
    found = local_effect(model.ensemble_, X, 0, np.arange(200))
    assert found.missing_share == pytest.approx(67 / 200)
    assert local_effect(model.ensemble_, X, 1, np.arange(200)) is None
    assert pair_effect(model.ensemble_, X, (0, 1), NAMES) is None
    assert "which are left out" in Report(model, X, y).to_html()
