"""Exported models give the scores of precede, as their readers read them."""

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose, assert_array_equal

import format_readers as read
from exports.readers import (
    FOUR,
    booster_of,
    close,
    compiled,
    fitted,
    run_onnx,
    run_python,
    tree_models,
)
from precede import RankBoost, Stump, Stumps, export, load
from precede.datasets import search_results
from precede.exports.onnx_graph import onnx_bytes
from precede.exports.parts import Parts
from precede.exports.search_engines import ranklib_text, solr_text, xgboost_dump_text
from precede.exports.source import c_text, python_text
from precede.exports.xgboost_model import xgboost_text
from precede.model import Ensemble
from precede.weak_rankers.columns import Features
from precede.weak_rankers.trees import Tree

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


# -- trees -----------------------------------------------------------------------------------


@settings(max_examples=25)
@given(tree_models(), FOUR)
def test_trees_in_every_format_of_trees(ensemble, rows):
    X, parts = np.array(rows), Parts.of(fitted(ensemble))
    X = np.where(np.abs(X) < 1e-4, 0.0, X)
    filled, expected = np.nan_to_num(X), ensemble.predict(X)
    as_zero = ensemble.predict(filled)
    close(read.ranklib(ranklib_text(parts, missing="zero"), X), as_zero, ensemble)
    dump = xgboost_dump_text(parts, missing="zero")
    close(read.xgboost_dump(dump, X, parts.names, missing=False), as_zero, ensemble)
    close(read.xgboost_dump(dump, X, parts.names, missing=True), expected, ensemble)
    if all(abs(r.threshold) > 1e-4 for r in ensemble.weak_rankers if isinstance(r, Stump)):
        close(read.solr(solr_text(parts), X), expected, ensemble)
    xgboost, booster = booster_of(xgboost_text(parts))
    data = xgboost.DMatrix(X, feature_names=list(parts.names))
    close(booster.predict(data), expected, ensemble)


def test_a_split_that_tells_missing_values_from_all_others(tmp_path):
    """Its threshold is infinite; single precision has a largest number."""
    pytest.importorskip("onnx")
    tree = Tree(
        (0, 1), (np.inf, 0.5), (False, True), (1, -2), (-1, -3), (0.1, -0.2, 0.7), (3, 1, 2), (1, 1)
    )
    ensemble = Ensemble([tree], [1.0], 2)
    X = np.array([[np.nan, 0.0], [-1e30, 0.0], [1e30, 1.0], [0.0, np.nan], [3e38, 2.0]])
    parts, expected = Parts.of(fitted(ensemble)), ensemble.predict(X)
    assert_array_equal(expected, [0.1, -0.2, 0.7, -0.2, 0.7])
    dump = xgboost_dump_text(parts, missing="zero")
    close(read.xgboost_dump(dump, X, parts.names, missing=True), expected, ensemble)
    close(read.ranklib(ranklib_text(parts, missing="zero"), X), tree(np.nan_to_num(X)), ensemble)
    close(read.solr(solr_text(parts), X), expected, ensemble)
    xgboost, booster = booster_of(xgboost_text(parts))
    data = xgboost.DMatrix(X, feature_names=list(parts.names))
    close(booster.predict(data), expected, ensemble)
    written = run_python(python_text(fitted(ensemble)))["scores"](X.tolist())
    assert_array_equal(written, expected)
    assert_array_equal(compiled(c_text(fitted(ensemble)), tmp_path)(X), expected)
    close(run_onnx(onnx_bytes(parts), X.astype(np.float32)), expected, ensemble)


CATEGORICAL = Tree(
    (1, 0, 1), (0.0, 0.5, 0.0), (False, True, False), (1, -1, -3), (2, -2, -4),
    (0.1, -0.2, 0.3, 0.7), (3, 1, 2, 5), (1.0, 1.0, 1.0), ((0, 40), (), (3, 33)),
)  # fmt: skip


@pytest.mark.parametrize(
    "write", [ranklib_text, xgboost_dump_text, solr_text, xgboost_text, onnx_bytes]
)
def test_splits_by_category_are_refused_elsewhere(write):
    pytest.importorskip("onnx")
    with pytest.raises(ValueError, match="cannot hold splits by category"):
        write(Parts.of(fitted(Ensemble([CATEGORICAL], [1.0], 2))))


# -- the door --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    sample = search_results(20, features=5, informative=3, per_query=12, random_state=0)
    X = np.abs(sample.X)
    X[::7, 2] = np.nan
    return RankBoost(n_estimators=40).fit(X, sample.y, qid=sample.qid), X


@pytest.mark.parametrize("format_", ["json", "onnx", "xgboost", "solr", "python", "c"])
def test_every_format_is_written_whole(model, format_, tmp_path):
    if format_ == "onnx":
        pytest.importorskip("onnx")
    path = tmp_path / "model"
    path.write_text("old")
    export(model[0], path, format_)
    assert path.stat().st_size > 300
    assert [each.name for each in tmp_path.iterdir()] == ["model"]  # no half-written file is left


def test_real_scores_through_files(model, tmp_path):
    model, X = model
    expected = model.predict(X)
    export(model, tmp_path / "a.json", "json")
    assert_array_equal(load(tmp_path / "a.json").predict(X), expected)
    export(model, tmp_path / "a.py", "python")
    module = run_python((tmp_path / "a.py").read_text())
    assert_array_equal(module["scores"](X.tolist()), expected)
    export(model, tmp_path / "a.solr", "solr", name="mine")
    assert_allclose(read.solr((tmp_path / "a.solr").read_text(), X), expected, atol=1e-6)
    pytest.importorskip("onnx")
    export(model, tmp_path / "a.onnx", "onnx", dtype="float32")
    got = run_onnx((tmp_path / "a.onnx").read_bytes(), X.astype(np.float32))
    assert_allclose(got, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("format_", "options", "message"),
    [
        ("pmml", {}, "format='pmml' is unknown; use one of c, elasticsearch, json"),
        ("json", {"missing": "zero"}, "format='json' has no option 'missing'; it has none"),
        ("onnx", {"name": "a"}, "format='onnx' has no option 'name'; it has dtype"),
        ("ranklib", {"missing": "maybe"}, "missing='maybe' is unknown"),
    ],
)
def test_what_makes_no_sense_is_refused(model, tmp_path, format_, options, message):
    with pytest.raises(ValueError, match=message):
        export(model[0], tmp_path / "a", format_, **options)
    assert not list(tmp_path.iterdir())


def test_an_unfitted_model_is_refused(tmp_path):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        export(RankBoost(), tmp_path / "a", "python")


def test_a_folder_that_is_not_there(model, tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        export(model[0], tmp_path / "no" / "a", "python")


def test_features_and_stumps_together_through_onnx(tmp_path):
    pytest.importorskip("onnx")
    sample = search_results(20, features=5, informative=3, per_query=12, random_state=1)
    model = RankBoost(weak_rankers=Stumps() | Features(), n_estimators=30)
    model.fit(sample.X, sample.y, qid=sample.qid)
    export(model, tmp_path / "a.onnx", "onnx")
    got = run_onnx((tmp_path / "a.onnx").read_bytes(), sample.X.astype(np.float32))
    assert_allclose(got, model.predict(sample.X), rtol=1e-6, atol=1e-6)


def test_the_suffix_determines_the_format_where_it_can(tmp_path):
    model = RankBoost(n_estimators=2).fit([[0.0], [1.0], [2.0]], [0, 0, 1])
    for name, format_ in [("m.py", "python"), ("m.C", "c"), ("m.onnx", "onnx"), ("m.sql", "sql")]:
        export(model, tmp_path / name)
        export(model, tmp_path / "same", format_)
        assert (tmp_path / name).read_bytes() == (tmp_path / "same").read_bytes()
    for name in ("m.json", "m.txt", "m"):  # JSON may be ours, XGBoost's or Solr's
        with pytest.raises(ValueError, match=f"{name}: the suffix does not determine the format"):
            export(model, tmp_path / name)
