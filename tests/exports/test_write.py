"""Exported models give the scores of precede, as their readers read them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import format_readers as read
from exports.readers import run_onnx, run_python
from precede import RankBoost, Stumps, export, load
from precede.datasets import search_results
from precede.weak_rankers.columns import Features

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


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
