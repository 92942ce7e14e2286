"""Models that ONNX Runtime reads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from exports.readers import FOUR, SINGLE_ROWS, close, fitted, only, run_onnx, tree_models
from precede import Stump
from precede.exports.onnx_graph import onnx_bytes
from precede.exports.parts import Parts
from precede.model import Ensemble
from precede.rankers.columns import Column, Constant, Feature
from test_model import ensembles

pytestmark = pytest.mark.filterwarnings("ignore::precede.boost.SmoothedStepWarning")


@settings(max_examples=20)
@given(ensembles(), st.booleans(), SINGLE_ROWS)
def test_onnx_predicts_the_same(ensemble, stumps_only, rows):
    pytest.importorskip("onnx")
    ensemble = only(ensemble, (Stump, Constant)) if stumps_only else ensemble
    X = np.array(rows)
    X = np.nan_to_num(X) if any(isinstance(r, Column) for r in ensemble.rankers) else X
    parts = Parts.of(fitted(ensemble))
    close(run_onnx(onnx_bytes(parts), X.astype(np.float32)), ensemble.predict(X), ensemble)
    exact = run_onnx(onnx_bytes(parts, dtype="float64"), X)
    assert_allclose(exact, ensemble.predict(X), rtol=1e-13, atol=1e-12)


def test_onnx_scales_features_of_any_range():
    pytest.importorskip("onnx")
    ensemble = Ensemble(
        [Feature(0, 1.6e9, 1.6e9 + 100), Feature(1, -1.7e308, 1.7e308)], [2.0, 1.0], 2
    )
    X = np.array([[1.6e9 + 25, 0.0], [np.nan, 1e308], [0.0, np.nan], [2e9, -1.7e308]])
    got = run_onnx(onnx_bytes(Parts.of(fitted(ensemble)), dtype="float64"), X)
    assert_allclose(got, ensemble.predict(X), rtol=1e-12, atol=1e-15)


def test_onnx_knows_two_types():
    pytest.importorskip("onnx")
    with pytest.raises(ValueError, match="dtype='float16' is unknown"):
        onnx_bytes(Parts.of(fitted(Ensemble([], [], 1))), dtype="float16")


@settings(max_examples=20)
@given(tree_models(), FOUR)
def test_trees_in_onnx(ensemble, rows):
    pytest.importorskip("onnx")
    X, parts = np.array(rows), Parts.of(fitted(ensemble))
    close(run_onnx(onnx_bytes(parts), X.astype(np.float32)), ensemble.predict(X), ensemble)
    exact = run_onnx(onnx_bytes(parts, dtype="float64"), X)
    assert_allclose(exact, ensemble.predict(X), rtol=1e-13, atol=1e-12)
