"""Models that ONNX Runtime reads."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from exports.readers import FOUR, SINGLE_ROWS, close, only, run_onnx, tree_models, written
from precede import Stump
from precede.model import Ensemble
from precede.weak_rankers.columns import Column, Constant, Feature
from test_model import ensembles

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


@settings(max_examples=20)
@given(ensembles(), st.booleans(), SINGLE_ROWS)
def test_onnx_predicts_the_same(ensemble, stumps_only, rows):
    pytest.importorskip("onnx")
    ensemble = only(ensemble, (Stump, Constant)) if stumps_only else ensemble
    X = np.array(rows)
    X = np.nan_to_num(X) if any(isinstance(r, Column) for r in ensemble.weak_rankers) else X
    close(run_onnx(written(ensemble, "onnx"), X.astype(np.float32)), ensemble.predict(X), ensemble)
    exact = run_onnx(written(ensemble, "onnx", dtype="float64"), X)
    assert_allclose(exact, ensemble.predict(X), rtol=1e-13, atol=1e-12)


def test_onnx_scales_features_of_any_range():
    pytest.importorskip("onnx")
    ensemble = Ensemble(
        [Feature(0, 1.6e9, 1.6e9 + 100), Feature(1, -1.7e308, 1.7e308)], [2.0, 1.0], 2
    )
    X = np.array([[1.6e9 + 25, 0.0], [np.nan, 1e308], [0.0, np.nan], [2e9, -1.7e308]])
    got = run_onnx(written(ensemble, "onnx", dtype="float64"), X)
    assert_allclose(got, ensemble.predict(X), rtol=1e-12, atol=1e-15)


def test_onnx_knows_two_types():
    pytest.importorskip("onnx")
    with pytest.raises(ValueError, match="dtype='float16' is unknown"):
        written(Ensemble([], [], 1), "onnx", dtype="float16")


@settings(max_examples=20)
@given(tree_models(), FOUR)
def test_trees_in_onnx(ensemble, rows):
    pytest.importorskip("onnx")
    X = np.array(rows)
    close(run_onnx(written(ensemble, "onnx"), X.astype(np.float32)), ensemble.predict(X), ensemble)
    exact = run_onnx(written(ensemble, "onnx", dtype="float64"), X)
    assert_allclose(exact, ensemble.predict(X), rtol=1e-13, atol=1e-12)


@pytest.mark.parametrize(
    ("dtype", "kind", "learning", "ir", "operator"),
    [
        ("float32", "tensor(float)", 3, 8, "TreeEnsembleRegressor"),
        ("float64", "tensor(double)", 5, 9, "TreeEnsemble"),
    ],
)
def test_operators_and_types_are_those_of_the_page(dtype, kind, learning, ir, operator):
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    content = written(Ensemble([Stump(0, 0.5)], [1.0], 2), "onnx", dtype=dtype)
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (given_,), (score,) = session.get_inputs(), session.get_outputs()
    assert (given_.name, given_.type, given_.shape) == ("X", kind, ["rows", 2])
    assert (score.name, score.type, score.shape) == ("score", kind, ["rows"])
    model = onnx.load_from_string(content)
    assert {each.domain: each.version for each in model.opset_import} == {
        "": 17, "ai.onnx.ml": learning,
    }  # fmt: skip
    assert model.ir_version == ir
    assert operator in [node.op_type for node in model.graph.node]
    page = (Path(__file__).parents[2] / "docs" / "export.md").read_text(encoding="utf-8")
    assert f"ai.onnx 17, ai.onnx.ml {learning} (`{operator}`)" in page
