"""Margins, shapes, importances and learning curves of a model."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from precede import margins

pytestmark = pytest.mark.filterwarnings("ignore::precede.boost.SmoothedStepWarning")


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
        shape, function = row["shape"], model.shape_function(row["feature"])
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
