"""Formats of trees: Elasticsearch, the plugins, RankLib, Solr and XGBoost, as they are read."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import format_readers as read
from exports.readers import (
    FINITE,
    FOUR,
    SINGLE_ROWS,
    booster_of,
    close,
    compiled,
    in_single,
    run_onnx,
    run_python,
    stump_models,
    tree_models,
    written,
)
from precede import BoostedRanker, RankBoost, Stump, export
from precede.exports.base import above, as_single, at_most
from precede.model import Ensemble
from precede.weak_rankers.columns import Column, Constant, Feature
from precede.weak_rankers.trees import Tree

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")

TWO = Ensemble([Stump(0, 1.0)], [1.0], 2)
CATEGORICAL = Tree(
    (1, 0, 1), (0.0, 0.5, 0.0), (False, True, False), (1, -1, -3), (2, -2, -4),
    (0.1, -0.2, 0.3, 0.7), (3, 1, 2, 5), (1.0, 1.0, 1.0), ((0, 40), (), (3, 33)),
)  # fmt: skip


def names_of(ensemble):
    return [f"x{j}" for j in range(ensemble.n_features)]


def queries(names):
    return {name: {"match": {name: "{{query}}"}} for name in names}


def in_elasticsearch(ensemble, X):
    """Scores of queries; a query that does not match leaves nothing."""
    names = names_of(ensemble)
    text = written(ensemble, "elasticsearch", features=queries(names))
    rows = [dict(zip(names, row, strict=True)) for row in np.asarray(X).tolist()]
    known = [{name: x for name, x in row.items() if not math.isnan(x)} for row in rows]
    return read.elasticsearch(text, known)


def in_plugin(ensemble, type_, X):
    """Scores of a model of the search plugins, which take missing values for 0."""
    text = written(ensemble, "ltr-model", name="mine", type=type_, missing="zero")
    model = json.loads(text)["model"]
    assert (model["name"], model["model"]["type"]) == ("mine", f"model/{type_}")
    definition = model["model"]["definition"]
    if type_ == "ranklib":
        return read.ranklib(definition, X)
    return read.xgboost_dump(definition, X, names_of(ensemble), missing=False)


def check(ensemble, X):
    """All formats of trees give the scores of `predict`, those without NaN with 0 instead."""
    filled, expected = np.nan_to_num(X), ensemble.predict(X)
    as_zero = ensemble.predict(filled)
    close(in_elasticsearch(ensemble, X), expected, ensemble)
    close(read.ranklib(written(ensemble, "ranklib", missing="zero"), X), as_zero, ensemble)
    for type_ in ("xgboost+json", "ranklib"):
        close(in_plugin(ensemble, type_, X), as_zero, ensemble)
    dump, names = written(ensemble, "xgboost-dump", missing="zero"), names_of(ensemble)
    close(read.xgboost_dump(dump, X, names, missing=False), as_zero, ensemble)
    close(read.xgboost_dump(dump, X, names, missing=True), expected, ensemble)
    xgboost, booster = booster_of(written(ensemble, "xgboost"))
    data = xgboost.DMatrix(X, feature_names=names)
    close(booster.predict(data), expected, ensemble)
    # What XGBoost dumps, and what it saves again, is what we write.
    dumped = [json.loads(tree) for tree in booster.get_dump(dump_format="json")]
    assert in_single(dumped) == in_single(json.loads(dump))
    again = xgboost.Booster()
    again.load_model(booster.save_raw("json"))
    assert_array_equal(again.predict(data), booster.predict(data))
    if all(abs(r.threshold) > 1e-4 for r in ensemble.weak_rankers if isinstance(r, Stump)):
        close(read.solr(written(ensemble, "solr"), X), expected, ensemble)
        old = written(ensemble, "solr", missing="zero", name="mine")
        assert '"missing"' not in old
        close(read.solr(old, filled), as_zero, ensemble)


@settings(max_examples=50)
@given(tree_models(), FOUR)
def test_trees_and_stumps_in_every_format_of_trees(ensemble, rows):
    assert len(ensemble.decomposition.nodes_of_stumps()) <= 6  # at most two for a feature
    X = np.array(rows)
    # Below 1e-6 in size, adding 1e-6 in single precision does not reach every number.
    check(ensemble, np.where(np.abs(X) < 1e-4, 0.0, X))


def test_a_split_that_tells_missing_values_from_all_others(tmp_path):
    """Its threshold is infinite; single precision has a largest number."""
    pytest.importorskip("onnx")
    tree = Tree(
        (0, 1), (np.inf, 0.5), (False, True), (1, -2), (-1, -3), (0.1, -0.2, 0.7), (3, 1, 2), (1, 1)
    )
    ensemble = Ensemble([tree], [1.0], 2)
    X = np.array([[np.nan, 0.0], [-1e30, 0.0], [1e30, 1.0], [0.0, np.nan], [3e38, 2.0]])
    expected = ensemble.predict(X)
    assert_array_equal(expected, [0.1, -0.2, 0.7, -0.2, 0.7])
    check(ensemble, X)
    assert_array_equal(run_python(written(ensemble, "python"))["scores"](X.tolist()), expected)
    assert_array_equal(compiled(written(ensemble, "c"), tmp_path)(X), expected)
    close(run_onnx(written(ensemble, "onnx"), X.astype(np.float32)), expected, ensemble)


def test_a_model_of_constants_and_of_nothing():
    for ensemble in (Ensemble([Constant()], [0.5], 2), Ensemble([], [], 2)):
        check(ensemble, np.zeros((3, 2)))


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


@given(stump_models(FINITE), SINGLE_ROWS)
def test_thresholds_are_not_rounded_for_elasticsearch(ensemble, rows):
    at = [[r.threshold] * 3 for r in ensemble.weak_rankers]
    next_ = [[np.nextafter(r.threshold, np.inf)] * 3 for r in ensemble.weak_rankers]
    X = np.array([*rows, *at, *next_])
    close(in_elasticsearch(ensemble, X), ensemble.predict(X), ensemble)


def test_solr_reads_thresholds_back_exactly():
    """Including those next to the values of the data: whole numbers, tenths, millions."""
    for value in (0.0, 1.0, 0.1, -7.0, 12345.0, 1e7, 0.001, 31.5, -0.25):
        stump = Ensemble([Stump(0, value)], [1.0], 1)
        x = np.float32(value)
        near = np.array(
            [x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(-np.inf))]
        )
        found = read.solr(written(stump, "solr"), near[:, None])
        assert_array_equal(found, stump.predict(near[:, None]))


# -- what a format cannot hold ---------------------------------------------------------------


@st.composite
def agreeable_models(draw, agreeable):
    """Ensembles of stumps; agreeable ones send missing values where zeros go."""
    ensemble = draw(stump_models())
    if agreeable:
        weak_rankers = [
            Stump(r.feature, r.threshold, int(r.threshold < 0)) for r in ensemble.weak_rankers
        ]
        return Ensemble(weak_rankers, ensemble.weights, 3)
    return ensemble


@given(st.booleans().flatmap(agreeable_models), SINGLE_ROWS)
def test_readers_that_take_0_for_missing_get_what_agrees_with_it(ensemble, rows):
    """A stump that sends missing values elsewhere than 0 is refused; without one all is well."""
    if any(r.missing != (r.threshold < 0) for r in ensemble.weak_rankers):
        for format_, options in [("ranklib", {}), ("xgboost-dump", {}), ("ltr-model", {}),
                                 ("ltr-model", {"type": "ranklib"})]:  # fmt: skip
            with pytest.raises(ValueError, match="takes them for 0"):
                written(ensemble, format_, **options)
    else:
        X, names = np.array(rows), names_of(ensemble)
        dump = written(ensemble, "xgboost-dump")
        for scores in (
            read.ranklib(written(ensemble, "ranklib"), X),
            read.xgboost_dump(dump, X, names, missing=False),
        ):
            close(scores, ensemble.predict(X), ensemble)


OPTIONS = {"elasticsearch": {"features": queries(["x0", "x1"])}}


@pytest.mark.parametrize("format_", ["ranklib", "xgboost-dump", "solr", "xgboost", "elasticsearch",
                                     "ltr-model", "onnx"])  # fmt: skip
def test_lines_and_splits_by_category_are_refused(format_):
    options = OPTIONS.get(format_, {})
    if format_ != "onnx":
        lines = Ensemble([Stump(0, 0.0), Feature(1, 0.0, 1.0)], [1.0, 1.0], 2)
        with pytest.raises(ValueError, match=r"holds trees only.*lines; use format='onnx'"):
            written(lines, format_, **options)
    with pytest.raises(ValueError, match="cannot hold splits by category"):
        written(Ensemble([CATEGORICAL], [1.0], 2), format_, **options)


def test_what_is_refused_is_named():
    names = ["title", "age"]
    with pytest.raises(ValueError, match=r"missing values of 'age' as below -0\.5, but RankLib"):
        written(Ensemble([Stump(1, -0.5)], [1.0], 2), "ranklib", names)
    with pytest.raises(ValueError, match="'age' as above 2, but the plugin takes them for 0"):
        written(Ensemble([Stump(1, 2.0, missing=1)], [1.0], 2), "xgboost-dump", names)
    with pytest.raises(ValueError, match="type='onnx' is unknown"):
        written(TWO, "ltr-model", type="onnx", missing="zero")


def test_columns_are_a_linear_model_of_solr_and_the_plugins():
    ensemble = Ensemble([Column(0), Column(2), Column(0)], [0.5, -2.0, 0.25], 3)
    X = np.array([[1.0, 9.0, 3.0], [-2.0, 9.0, 0.5]])
    text = written(ensemble, "solr")
    assert json.loads(text)["params"]["weights"] == {"x0": 0.75, "x2": -2.0}
    assert_allclose(read.solr(text, X[:, [0, 2]]), ensemble.predict(X))
    model = json.loads(written(ensemble, "ltr-model"))["model"]["model"]
    assert model == {"type": "model/linear", "definition": '{"x0": 0.75, "x2": -2.0}'}


def test_names_are_written_harmlessly():
    names = ["a<b & c", "two\nlines */ '\"\\"]
    ensemble = Ensemble([Stump(0, 0.5), Stump(1, 0.5)], [1.0, 2.0], 2)
    X = np.array([[1.0, 0.0], [1.0, 1.0]])
    assert_allclose(read.ranklib(written(ensemble, "ranklib", names), X), [1.0, 3.0])
    assert_allclose(read.solr(written(ensemble, "solr", names), X), [1.0, 3.0])
    module = run_python(written(ensemble, "python", names))
    assert module["NAMES"] == names
    assert module["scores"](X.tolist()) == [1.0, 3.0]


# -- features --------------------------------------------------------------------------------


def test_the_extractors_are_the_queries_given():
    given_ = {"age": {"script_score": {"query": {"match_all": {}}}}, "title": {"match": {"a": "b"}}}
    body = json.loads(written(TWO, "elasticsearch", ["title", "age"], features=given_))
    assert body["input"] == {"field_names": ["title", "age"]}
    assert body["model_type"] == "tree_ensemble"
    config = body["inference_config"]["learning_to_rank"]
    assert config["feature_extractors"] == [
        {"query_extractor": {"feature_name": name, "query": given_[name]}}
        for name in ("title", "age")
    ]


@pytest.mark.parametrize("format_", ["elasticsearch", "ltr-features", "solr-features"])
@pytest.mark.parametrize(
    ("features", "message"),
    [
        (None, "give features=, a dict with .* for each feature of the model: title, age"),
        ({"title": {"match": {}}}, "features= has no entry for 'age'"),
        ({"title": {"a": 1}, "age": {"a": 1}, "x": {}}, "'x', which is not a feature of the model"),
        ({"title": 3, "age": {"match": {}}}, "'title' is 3"),
    ],
)
def test_features_that_do_not_fit_are_refused(format_, features, message):
    with pytest.raises(ValueError, match=message):
        written(TWO, format_, ["title", "age"], features=features)


def test_feature_sets_name_the_parameters_of_their_templates():
    given_ = {
        "c": {"match_all": {}},
        "a": {"match": {"title": "{{words}} {{ words }} {{user.name}}"}},
        "b": {"terms": {"tag": "{{#toJson}}tags{{/toJson}}"}},
    }
    ensemble = Ensemble([Stump(0, 1.0)], [1.0], 3)
    text = written(ensemble, "ltr-features", ["a", "b", "c"], features=given_)
    features = json.loads(text)["featureset"]["features"]
    assert [each["name"] for each in features] == ["a", "b", "c"]
    assert [each["params"] for each in features] == [["words", "user"], ["tags"], []]
    assert features[2]["template"] == {"match_all": {}}
    assert {each["template_language"] for each in features} == {"mustache"}


def test_features_of_solr(tmp_path):
    model = RankBoost(n_estimators=2).fit([[0.0, 1, 2], [1.0, 3, 2], [2.0, 2, 2]], [0, 0, 1])
    features = {
        "x0": "{!edismax qf=title}${query}",
        "x1": {"field": "popularity"},
        "x2": {"class": "org.apache.solr.ltr.feature.OriginalScoreFeature", "params": {}},
    }
    for missing, absent in (("refuse", {"defaultValue": "NaN"}), ("zero", {})):
        path = tmp_path / missing
        export(model, path, "solr-features", features=features, store="mine", missing=missing)
        first, second, third = json.loads(path.read_text())
        assert first == {
            "store": "mine", "name": "x0", "class": "org.apache.solr.ltr.feature.SolrFeature",
            "params": {"q": "{!edismax qf=title}${query}"},
        }  # fmt: skip
        assert second["class"].endswith(".FieldValueFeature")
        assert second["params"] == {"field": "popularity"} | absent
        assert third["name"] == "x2"
    export(model, tmp_path / "model", "solr", store="mine")
    made = json.loads((tmp_path / "model").read_text())
    assert made["store"] == "mine"
    assert [each["name"] for each in made["features"]] == ["x0", "x1", "x2"]


def test_queries_of_solr_are_refused_where_a_missing_value_is_not_a_zero(tmp_path):
    X = np.array([[np.nan, -1.0, 1.0, 2.0]] * 2).T  # a missing value is best, 0 is not
    model = BoostedRanker(n_estimators=2, num_leaves=4, min_child_samples=1).fit(X, [3, 0, 1, 2])
    assert {f for tree in model.ensemble_.weak_rankers for f in tree.features} == {0}
    query, field = "{!edismax qf=title}${query}", {"field": "popularity"}
    full = {"class": "org.apache.solr.ltr.feature.SolrFeature", "params": {"q": query}}
    for feature in (query, full):
        features = {"x0": feature, "x1": field}
        with pytest.raises(ValueError, match=r"missing values of 'x0'.*query that does not match"):
            export(model, tmp_path / "a", "solr-features", features=features)
        assert not (tmp_path / "a").exists()
        export(model, tmp_path / "zero", "solr-features", features=features, missing="zero")
    export(model, tmp_path / "b", "solr-features", features={"x0": field, "x1": query})
    assert (tmp_path / "b").exists()
