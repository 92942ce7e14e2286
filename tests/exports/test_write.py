"""Exported models give the scores of precede, as their readers read them."""

import ctypes
import json
import math
import shutil
import subprocess
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import format_readers as read
from explain.test_contributions import as_tree
from explain.test_shapley import trees
from precede import RankBoost, Ranker, Stump, Stumps, export, load
from precede.datasets import search_results
from precede.exports.onnx_graph import onnx_bytes
from precede.exports.parts import Parts, above, as_single, at_most
from precede.exports.search_engines import ranklib_text, solr_text, xgboost_dump_text
from precede.exports.source import c_text, python_text
from precede.exports.xgboost_model import xgboost_text
from precede.model import Ensemble
from precede.rankers.columns import Column, Constant, Feature, Features
from precede.rankers.trees import Tree
from test_model import ensembles, some_rows

pytestmark = pytest.mark.filterwarnings("ignore::precede.boost.SmoothedStepWarning")


def fitted(ensemble, names=None):
    """As much of a fitted model as an export looks at."""
    model = SimpleNamespace(ensemble_=ensemble)
    if names is not None:
        model.feature_names_in_ = np.array(names, object)
    return model


def only(ensemble, kinds):
    kept = [(r, w) for r, w in zip(ensemble.rankers, ensemble.weights, strict=True)
            if isinstance(r, kinds)]  # fmt: skip
    return Ensemble([r for r, _ in kept], [w for _, w in kept], ensemble.n_features)


def close(scores, expected, ensemble):
    """Equal to a millionth of the largest sum there can be."""
    largest = max(1.0, sum(map(abs, ensemble.weights)))
    assert_allclose(scores, expected, rtol=0, atol=1e-6 * largest)


SINGLES = st.floats(-3, 3, width=32) | st.sampled_from([0.0, -0.0, 0.5, 2.0, math.nan])
SINGLE_ROWS = st.lists(st.lists(SINGLES, min_size=3, max_size=3), min_size=1, max_size=6)


THRESHOLDS = st.floats(-3, 3)


@st.composite
def stump_models(draw, thresholds=THRESHOLDS):
    """Ensembles of stumps with thresholds that float32 has not."""
    stumps = st.builds(Stump, st.integers(0, 2), thresholds, missing=st.integers(0, 1))
    rankers = draw(st.lists(stumps, max_size=12))
    weights = draw(st.lists(st.floats(-3, 3), min_size=len(rankers), max_size=len(rankers)))
    return Ensemble(rankers, weights, 3)


@st.composite
def agreeable_models(draw, agreeable):
    """Ensembles of stumps; agreeable ones send missing values where zeros go."""
    ensemble = draw(stump_models())
    if agreeable:
        rankers = [Stump(r.feature, r.threshold, int(r.threshold < 0)) for r in ensemble.rankers]
        return Ensemble(rankers, ensemble.weights, 3)
    return ensemble


# -- single precision ------------------------------------------------------------------------


@given(st.floats(-1e300, 1e300), st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_rounded_thresholds_keep_every_float32_on_its_side(threshold, x):
    assert (np.float32(x) <= at_most(threshold)) == (x <= threshold) or abs(threshold) > 3.4e38
    x = float(np.float32(threshold)) if abs(threshold) < 3e38 else x  # the value next to it
    for value in (np.float32(x), np.nextafter(np.float32(x), np.float32(np.inf))):
        if abs(threshold) < 3.4e38:
            assert (value <= at_most(threshold)) == (float(value) <= threshold)
            if not 0 < value < 1.2e-38:
                assert (value < above(threshold)) == (float(value) <= threshold)


@given(st.floats(-1e38, 1e38))
def test_short_numbers_are_the_same_in_single_precision(value):
    assert np.float32(as_single(value)) == np.float32(value)
    assert len(f"{as_single(value):.17g}".rstrip("0")) <= 24


@given(stump_models(), SINGLE_ROWS)
def test_stumps_as_trees_give_the_same_scores(ensemble, rows):
    """Two trees a feature at most, each with a way down no longer than a search by halves."""
    X = np.array(rows)
    trees = Parts.of(fitted(ensemble)).trees
    assert len(trees) <= 6
    total = np.zeros(len(X))
    for nodes in trees:
        for row, x in enumerate(X):
            node = 0
            while nodes.feature[node] >= 0:
                value = x[nodes.feature[node]]
                left = (
                    nodes.missing_left[node] if np.isnan(value) else value <= nodes.threshold[node]
                )
                node = nodes.left[node] if left else nodes.right[node]
            total[row] += nodes.value[node]
    assert_allclose(total, ensemble.predict(X), atol=1e-12)


# -- search engines --------------------------------------------------------------------------


@given(stump_models(), SINGLE_ROWS)
def test_ranklib_without_missing_values(ensemble, rows):
    X = np.nan_to_num(np.array(rows))
    text = ranklib_text(Parts.of(fitted(ensemble)), missing="zero")
    close(read.ranklib(text, X), ensemble.predict(X), ensemble)


@given(st.booleans().flatmap(agreeable_models), SINGLE_ROWS)
def test_readers_that_take_0_for_missing_get_what_agrees_with_it(ensemble, rows):
    """A stump that sends missing values elsewhere than 0 is refused; without one all is well."""
    X, parts = np.array(rows), Parts.of(fitted(ensemble))
    readers = {
        ranklib_text: read.ranklib,
        xgboost_dump_text: lambda text, X: read.xgboost_dump(text, X, parts.names, missing=False),
    }
    elsewhere = [r for r in ensemble.rankers if r.missing != (r.threshold < 0)]
    for write, reader in readers.items():
        if elsewhere:
            with pytest.raises(ValueError, match="takes them for 0"):
                write(parts)
        else:
            close(reader(write(parts), X), ensemble.predict(X), ensemble)


@given(stump_models(), SINGLE_ROWS)
def test_the_dump_of_xgboost(ensemble, rows):
    X, parts = np.array(rows), Parts.of(fitted(ensemble))
    text = xgboost_dump_text(parts, missing="zero")
    scores = read.xgboost_dump(text, X, parts.names, missing=True)
    close(scores, ensemble.predict(X), ensemble)


@given(stump_models(), SINGLE_ROWS)
def test_solr_keeps_missing_values(ensemble, rows):
    X = np.array(rows)
    # Below 1e-6 in size, adding 1e-6 in single precision reaches not every number.
    X = np.where(np.abs(X) < 1e-4, 0.0, X)
    ensemble = Ensemble(
        [Stump(r.feature, r.threshold if abs(r.threshold) > 1e-4 else 0.0, r.missing)
         for r in ensemble.rankers], ensemble.weights, 3,
    )  # fmt: skip
    parts = Parts.of(fitted(ensemble, ["a", "b", "c"]))
    close(read.solr(solr_text(parts), X), ensemble.predict(X), ensemble)
    filled = np.nan_to_num(X)
    old = solr_text(parts, missing="zero", name="mine")
    assert "missing" not in old
    assert json.loads(old)["name"] == "mine"
    close(read.solr(old, filled), ensemble.predict(filled), ensemble)


def test_solr_reads_thresholds_back_exactly():
    """Including those next to the values of the data: whole numbers, tenths, millions."""
    for value in (0.0, 1.0, 0.1, -7.0, 12345.0, 1e7, 0.001, 31.5, -0.25):
        stump = Ensemble([Stump(0, value)], [1.0], 1)
        text = solr_text(Parts.of(fitted(stump)))
        x = np.float32(value)
        near = np.array(
            [x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(-np.inf))]
        )
        assert_array_equal(read.solr(text, near[:, None]), stump.predict(near[:, None]))


def test_solr_holds_columns_as_a_linear_model():
    ensemble = Ensemble([Column(0), Column(2), Column(0)], [0.5, -2.0, 0.25], 3)
    X = np.array([[1.0, 9.0, 3.0], [-2.0, 9.0, 0.5]])
    text = solr_text(Parts.of(fitted(ensemble)))
    assert json.loads(text)["params"]["weights"] == {"x0": 0.75, "x2": -2.0}
    assert_allclose(read.solr(text, X[:, [0, 2]]), ensemble.predict(X))


@pytest.mark.parametrize("write", [ranklib_text, xgboost_dump_text, solr_text, xgboost_text])
def test_formats_of_trees_refuse_lines(write):
    ensemble = Ensemble([Stump(0, 0.0), Feature(1, 0.0, 1.0)], [1.0, 1.0], 2)
    with pytest.raises(ValueError, match="straight lines; use format='onnx'"):
        write(Parts.of(fitted(ensemble)))


def test_what_is_refused_is_named():
    parts = Parts.of(fitted(Ensemble([Stump(1, -0.5)], [1.0], 2), ["title", "age"]))
    with pytest.raises(ValueError, match=r"missing values of 'age' as below -0\.5, but RankLib"):
        ranklib_text(parts)
    parts = Parts.of(fitted(Ensemble([Stump(1, 2.0, missing=1)], [1.0], 2), ["title", "age"]))
    with pytest.raises(ValueError, match="'age' as above 2, but the plugin takes them for 0"):
        xgboost_dump_text(parts)


def test_a_model_of_constants_and_of_nothing():
    for ensemble in (Ensemble([Constant()], [0.5], 2), Ensemble([], [], 2)):
        parts, X = Parts.of(fitted(ensemble)), np.zeros((3, 2))
        expected = ensemble.predict(X)
        assert_allclose(read.ranklib(ranklib_text(parts), X), expected)
        assert_allclose(read.solr(solr_text(parts), X), expected)
        names = parts.names
        assert_allclose(
            read.xgboost_dump(xgboost_dump_text(parts), X, names, missing=True), expected
        )


def test_names_are_written_harmlessly():
    names = ["a<b & c", "two\nlines */ '\"\\"]
    ensemble = Ensemble([Stump(0, 0.5), Stump(1, 0.5)], [1.0, 2.0], 2)
    X = np.array([[1.0, 0.0], [1.0, 1.0]])
    parts = Parts.of(fitted(ensemble, names))
    assert_allclose(read.ranklib(ranklib_text(parts), X), [1.0, 3.0])
    assert_allclose(read.solr(solr_text(parts), X), [1.0, 3.0])
    module = run_python(python_text(fitted(ensemble, names)))
    assert module["NAMES"] == names
    assert module["scores"](X.tolist()) == [1.0, 3.0]


# -- XGBoost itself --------------------------------------------------------------------------


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


@settings(max_examples=20)
@given(stump_models(st.floats(-3, 3) | st.just(-math.inf)), SINGLE_ROWS)
def test_xgboost_predicts_the_same(ensemble, rows):
    X, parts = np.array(rows), Parts.of(fitted(ensemble, ["a", "b", "c"]))
    xgboost, booster = booster_of(xgboost_text(parts))
    data = xgboost.DMatrix(X, feature_names=["a", "b", "c"])
    close(booster.predict(data), ensemble.predict(X), ensemble)
    # What it dumps, and what it saves again, is what we write.
    dumped = [json.loads(tree) for tree in booster.get_dump(dump_format="json")]
    assert in_single(dumped) == in_single(json.loads(xgboost_dump_text(parts, missing="zero")))
    again = xgboost.Booster()
    again.load_model(booster.save_raw("json"))
    assert_array_equal(again.predict(data), booster.predict(data))


# -- ONNX ------------------------------------------------------------------------------------


def run_onnx(content, X):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (score,) = session.run(["score"], {"X": X})
    assert score.shape == (len(X),)
    return score


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


# -- Python and C ----------------------------------------------------------------------------


def run_python(text):
    module = {}
    exec(compile(text, "exported.py", "exec"), module)
    return module


@given(ensembles(), some_rows)
def test_the_python_module_gives_the_same_bits(ensemble, rows):
    X = np.array(rows)
    X = np.nan_to_num(X) if any(isinstance(r, Column) for r in ensemble.rankers) else X
    module = run_python(python_text(fitted(ensemble)))
    asked = [[None if np.isnan(x) else x for x in row] for row in X.tolist()]
    assert_array_equal(module["scores"](asked), ensemble.predict(X))
    assert_array_equal(module["scores"](X.tolist()), ensemble.predict(X))
    with pytest.raises(ValueError, match="a row has 3 numbers, not 1"):
        module["score"]([0.0])


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
        Constant(), Stump(1, 0.0), Stump(0, 0.7),
    ],
    [0.1, 0.2, -0.7, 0.05, 1.3, 0.9, 3.0, 0.01, 1e-17, 0.3],
    3,
)  # fmt: skip


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize(
    "ensemble",
    [MIXED, Ensemble([], [], 3), Ensemble([Constant()], [0.5], 3), only(MIXED, Stump),
     Ensemble([Column(2), Stump(0, 0.5)], [0.3, 0.1], 3)],
    ids=["mixed", "empty", "constant", "stumps", "column"],
)  # fmt: skip
def test_the_c_function_gives_the_same_bits(ensemble, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.choice([-1.5, -0.2, 0.0, 0.1, 0.3, 0.5, 0.7, 9.0, np.nan], (200, 3))
    X = np.nan_to_num(X) if any(isinstance(r, Column) for r in ensemble.rankers) else X
    scores = compiled(c_text(fitted(ensemble, ["a */", "b\\", "c"]), name="mine"), tmp_path, "mine")
    assert_array_equal(scores(X), ensemble.predict(X))


def test_names_of_functions_in_c():
    for name in ("1st", "a b", "ä", ""):
        with pytest.raises(ValueError, match="is no name of a function"):
            c_text(fitted(MIXED), name=name)


@dataclass(frozen=True)
class Odd(Ranker):
    feature: int

    name: ClassVar[str] = "odd"

    def __call__(self, X):
        return X[:, self.feature] % 2


def test_rankers_of_strangers_are_refused():
    model = fitted(Ensemble([Odd(0)], [1.0], 1))
    for write in (python_text, c_text, Parts.of):
        with pytest.raises(ValueError, match="a ranker of kind 'odd' cannot be exported"):
            write(model)


# -- trees -----------------------------------------------------------------------------------


@st.composite
def tree_models(draw, *, categories=False):
    """Ensembles of trees and stumps of four features."""
    grown = draw(st.lists(trees(), max_size=3))
    if not categories:
        grown = [replace(nodes, categories=()) for nodes in grown]
    stumps = draw(stump_models())
    weights = [0.5 - 0.3 * j for j in range(len(grown))]
    return Ensemble([*map(as_tree, grown), *stumps.rankers], [*weights, *stumps.weights], 4)


FOUR = st.lists(st.lists(SINGLES, min_size=4, max_size=4), min_size=1, max_size=5)


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
    if all(abs(r.threshold) > 1e-4 for r in ensemble.rankers if isinstance(r, Stump)):
        close(read.solr(solr_text(parts), X), expected, ensemble)
    xgboost, booster = booster_of(xgboost_text(parts))
    data = xgboost.DMatrix(X, feature_names=list(parts.names))
    close(booster.predict(data), expected, ensemble)


@settings(max_examples=20)
@given(tree_models(), FOUR)
def test_trees_in_onnx(ensemble, rows):
    pytest.importorskip("onnx")
    X, parts = np.array(rows), Parts.of(fitted(ensemble))
    close(run_onnx(onnx_bytes(parts), X.astype(np.float32)), ensemble.predict(X), ensemble)
    exact = run_onnx(onnx_bytes(parts, dtype="float64"), X)
    assert_allclose(exact, ensemble.predict(X), rtol=1e-13, atol=1e-12)


@given(tree_models(categories=True), FOUR)
def test_trees_in_python_with_categories(ensemble, rows):
    X = np.array(rows)
    module = run_python(python_text(fitted(ensemble)))
    assert_array_equal(module["scores"](X.tolist()), ensemble.predict(X))


CATEGORICAL = Tree(
    (1, 0, 1), (0.0, 0.5, 0.0), (False, True, False), (1, -1, -3), (2, -2, -4),
    (0.1, -0.2, 0.3, 0.7), (3, 1, 2, 5), (1.0, 1.0, 1.0), ((0, 40), (), (3, 33)),
)  # fmt: skip


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_trees_in_c_with_categories(tmp_path):
    rankers = [CATEGORICAL, Stump(0, 0.2), CATEGORICAL, Constant()]
    ensemble = Ensemble(rankers, [0.3, 1.0, 2.0, 0.1], 2)
    values = [-1.0, 0.0, 0.5, 0.6, 3.0, 3.9, 33.0, 40.0, 41.0, 1e300, np.nan]
    X = np.array([[a, b] for a in values for b in values])
    scores = compiled(c_text(fitted(ensemble)), tmp_path)
    assert_array_equal(scores(X), ensemble.predict(X))
    assert len(set(ensemble.predict(X))) > 4


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
        ("pmml", {}, "format='pmml' is unknown; use one of c, json"),
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
    model = RankBoost(rankers=Stumps() | Features(), n_estimators=30)
    model.fit(sample.X, sample.y, qid=sample.qid)
    export(model, tmp_path / "a.onnx", "onnx")
    got = run_onnx((tmp_path / "a.onnx").read_bytes(), sample.X.astype(np.float32))
    assert_allclose(got, model.predict(sample.X), rtol=1e-6, atol=1e-6)
