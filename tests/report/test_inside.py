"""Margins, shapes, importances and learning curves of a model."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from precede import GlassBoxRanker, Report, margins

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
