"""Models to export, and readers of what was written."""

import ctypes
import math
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from explain.test_contributions import as_tree
from explain.test_shapley import trees
from precede import Stump
from precede.exports.base import ExportedModel
from precede.exports.write import export_content
from precede.model import Ensemble
from precede.weak_rankers.columns import Constant, Feature


def written(ensemble, format_, names=None, *, categories=None, **options):
    """What `export` writes of an ensemble."""
    names = names or [f"x{j}" for j in range(ensemble.n_features)]
    model = ExportedModel(ensemble.decomposition, tuple(names), "a model", "", categories or {})
    return export_content(model, format_, **options)


def only(ensemble, kinds):
    kept = [(r, w) for r, w in zip(ensemble.weak_rankers, ensemble.weights, strict=True)
            if isinstance(r, kinds)]  # fmt: skip
    return Ensemble([r for r, _ in kept], [w for _, w in kept], ensemble.n_features)


def close(scores, expected, ensemble):
    """Equal to a millionth of the largest sum there can be."""
    largest = max(1.0, sum(map(abs, ensemble.weights)))
    assert_allclose(scores, expected, rtol=0, atol=1e-6 * largest)


SINGLES = st.floats(-3, 3, width=32) | st.sampled_from([0.0, -0.0, 0.5, 2.0, math.nan])


SINGLE_ROWS = st.lists(st.lists(SINGLES, min_size=3, max_size=3), min_size=1, max_size=6)


FINITE = st.floats(-3, 3)
THRESHOLDS = FINITE | st.sampled_from([-math.inf, math.inf])


@st.composite
def stump_models(draw, thresholds=THRESHOLDS):
    """Ensembles of stumps with thresholds that float32 has not."""
    stumps = st.builds(Stump, st.integers(0, 2), thresholds, missing=st.integers(0, 1))
    weak_rankers = draw(st.lists(stumps, max_size=12))
    weights = draw(
        st.lists(st.floats(-3, 3), min_size=len(weak_rankers), max_size=len(weak_rankers))
    )
    return Ensemble(weak_rankers, weights, 3)


def booster_of(text):
    xgboost = pytest.importorskip("xgboost")
    booster = xgboost.Booster()
    booster.load_model(bytearray(text.encode()))
    return xgboost, booster


def in_single(tree):
    """A dump with its numbers in single precision; texts of one number may differ."""
    if isinstance(tree, list):
        return [in_single(each) for each in tree]
    if isinstance(tree, dict):
        return {name: in_single(value) for name, value in tree.items()}
    return np.float32(tree) if isinstance(tree, float) else tree


def run_onnx(content, X):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (score,) = session.run(["score"], {"X": X})
    assert score.shape == (len(X),)
    return score


def run_python(text):
    module = {}
    exec(compile(text, "exported.py", "exec"), module)
    return module


def compiled(text, folder, name="precede_score"):
    (folder / "model.c").write_text(text, encoding="utf-8")
    subprocess.run(
        ["gcc", "-std=c99", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-pedantic",
         "-shared", "-fPIC", "model.c", "-o", "model.so", "-lm"],
        cwd=folder, check=True, capture_output=True, text=True,
    )  # fmt: skip
    function = getattr(ctypes.CDLL(str(folder / "model.so")), name)
    function.restype, function.argtypes = ctypes.c_double, [ctypes.POINTER(ctypes.c_double)]

    def scores(X):
        pointer = ctypes.POINTER(ctypes.c_double)
        return [function(np.ascontiguousarray(row).ctypes.data_as(pointer)) for row in X]

    return scores


MIXED = Ensemble(
    [
        *(Stump(0, t, missing=1) for t in (0.1, 0.7, 0.3)),
        Stump(2, -math.inf), Stump(1, -0.2), Feature(1, -1.0, 2.0), Feature(2, -1.7e308, 1.7e308),
        Constant(), Stump(1, 0.0), Stump(0, 0.7), Stump(2, math.inf, missing=1),
    ],
    [0.1, 0.2, -0.7, 0.05, 1.3, 0.9, 3.0, 0.01, 1e-17, 0.3, 0.7],
    3,
)  # fmt: skip


@st.composite
def tree_models(draw, *, categories=False):
    """Ensembles of trees and stumps of four features."""
    grown = draw(st.lists(trees(), max_size=3))
    if not categories:
        grown = [replace(nodes, categories=()) for nodes in grown]
    stumps = draw(stump_models())
    weights = [0.5 - 0.3 * j for j in range(len(grown))]
    return Ensemble([*map(as_tree, grown), *stumps.weak_rankers], [*weights, *stumps.weights], 4)


FOUR = st.lists(st.lists(SINGLES, min_size=4, max_size=4), min_size=1, max_size=5)
