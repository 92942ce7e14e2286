"""Requests to search engines, read as the engines read them."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose, assert_array_equal

import format_readers as read
from exports.readers import FINITE, FOUR, SINGLE_ROWS, close, fitted, stump_models, tree_models
from precede import BoostedRanker, RankBoost, Stump, export
from precede.exports.parts import Parts
from precede.exports.search_engines import (
    elasticsearch_text,
    ltr_features_text,
    ltr_model_text,
    solr_features_text,
)
from precede.model import Ensemble
from precede.weak_rankers.columns import Column, Feature
from precede.weak_rankers.trees import Tree

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


def queries(parts):
    return {name: {"match": {name: "{{query}}"}} for name in parts.names}


def documents(X, names):
    """Scores of queries; a query that does not match leaves nothing."""
    return [
        {name: x for name, x in zip(names, row, strict=True) if not math.isnan(x)}
        for row in np.asarray(X).tolist()
    ]


@settings(max_examples=50)
@given(tree_models(), FOUR)
def test_elasticsearch_keeps_missing_values_and_double_precision(ensemble, rows):
    X, parts = np.array(rows), Parts.of(fitted(ensemble))
    text = elasticsearch_text(parts, features=queries(parts))
    got = read.elasticsearch(text, documents(X, parts.names))
    assert_allclose(got, ensemble.predict(X), rtol=1e-6, atol=1e-6)


@given(stump_models(FINITE), SINGLE_ROWS)
def test_thresholds_are_not_rounded_for_elasticsearch(ensemble, rows):
    at = [[r.threshold] * 3 for r in ensemble.weak_rankers]
    above = [[np.nextafter(r.threshold, np.inf)] * 3 for r in ensemble.weak_rankers]
    X, parts = np.array([*rows, *at, *above]), Parts.of(fitted(ensemble))
    text = elasticsearch_text(parts, features=queries(parts))
    close(read.elasticsearch(text, documents(X, parts.names)), ensemble.predict(X), ensemble)


def test_a_split_that_tells_missing_values_from_all_others():
    tree = Tree((0,), (np.inf,), (False,), (-1,), (-2,), (0.5, -0.25), (3, 1), (1.0,))
    parts = Parts.of(fitted(Ensemble([tree], [1.0], 1)))
    text = elasticsearch_text(parts, features=queries(parts))
    assert_array_equal(read.elasticsearch(text, [{"x0": 1e300}, {}]), [0.5, -0.25])


def test_the_extractors_are_the_queries_given():
    parts = Parts.of(fitted(Ensemble([Stump(0, 1.0)], [1.0], 2), ["title", "age"]))
    given_ = {"age": {"script_score": {"query": {"match_all": {}}}}, "title": {"match": {"a": "b"}}}
    body = json.loads(elasticsearch_text(parts, features=given_))
    assert body["input"] == {"field_names": ["title", "age"]}
    assert body["model_type"] == "tree_ensemble"
    config = body["inference_config"]["learning_to_rank"]
    assert config["feature_extractors"] == [
        {"query_extractor": {"feature_name": name, "query": given_[name]}}
        for name in ("title", "age")
    ]


@pytest.mark.parametrize("write", [elasticsearch_text, ltr_features_text, solr_features_text])
@pytest.mark.parametrize(
    ("features", "message"),
    [
        (None, "give features=, a dict with .* for each feature of the model: title, age"),
        ({"title": {"match": {}}}, "features= has no entry for 'age'"),
        ({"title": {"a": 1}, "age": {"a": 1}, "x": {}}, "'x', which is not a feature of the model"),
        ({"title": 3, "age": {"match": {}}}, "'title' is 3"),
    ],
)
def test_features_that_do_not_fit_are_refused(write, features, message):
    parts = Parts.of(fitted(Ensemble([Stump(0, 1.0)], [1.0], 2), ["title", "age"]))
    with pytest.raises(ValueError, match=message):
        write(parts, features=features)


def test_what_elasticsearch_cannot_compute_is_refused():
    lines = Parts.of(fitted(Ensemble([Feature(0, 0.0, 1.0)], [1.0], 1)))
    with pytest.raises(ValueError, match="Elasticsearch holds trees only"):
        elasticsearch_text(lines, features=queries(lines))
    tree = Tree((0,), (0.0,), (False,), (-1,), (-2,), (1.0, 2.0), (1, 1), (1.0,), ((0, 2),))
    named = Parts.of(fitted(Ensemble([tree], [1.0], 1)))
    with pytest.raises(ValueError, match="Elasticsearch cannot hold splits by category"):
        elasticsearch_text(named, features=queries(named))


# -- plugins ---------------------------------------------------------------------------------


@given(stump_models(), SINGLE_ROWS)
def test_models_of_the_plugins(ensemble, rows):
    X, parts = np.nan_to_num(np.array(rows)), Parts.of(fitted(ensemble))
    for type_ in ("xgboost+json", "ranklib"):
        body = json.loads(ltr_model_text(parts, name="mine", type=type_, missing="zero"))
        assert body["model"]["name"] == "mine"
        model = body["model"]["model"]
        assert model["type"] == f"model/{type_}"
        if type_ == "ranklib":
            got = read.ranklib(model["definition"], X)
        else:
            got = read.xgboost_dump(model["definition"], X, parts.names, missing=False)
        close(got, ensemble.predict(X), ensemble)


def test_the_plugins_refuse_missing_values_that_are_not_zeros():
    parts = Parts.of(fitted(Ensemble([Stump(0, -0.5)], [1.0], 1)))
    for type_ in ("xgboost+json", "ranklib"):
        with pytest.raises(ValueError, match="takes them for 0"):
            ltr_model_text(parts, type=type_)
    with pytest.raises(ValueError, match="type='onnx' is unknown"):
        ltr_model_text(parts, type="onnx")


def test_columns_are_a_linear_model_of_the_plugins():
    parts = Parts.of(fitted(Ensemble([Column(1), Column(0)], [0.5, -1.0], 2), ["a", "b"]))
    model = json.loads(ltr_model_text(parts))["model"]["model"]
    assert model == {"type": "model/linear", "definition": '{"b": 0.5, "a": -1.0}'}


def test_feature_sets_name_the_parameters_of_their_templates():
    parts = Parts.of(fitted(Ensemble([Stump(0, 1.0)], [1.0], 3), ["a", "b", "c"]))
    text = ltr_features_text(
        parts,
        features={
            "c": {"match_all": {}},
            "a": {"match": {"title": "{{words}} {{ words }} {{user.name}}"}},
            "b": {"terms": {"tag": "{{#toJson}}tags{{/toJson}}"}},
        },
    )
    features = json.loads(text)["featureset"]["features"]
    assert [each["name"] for each in features] == ["a", "b", "c"]
    assert [each["params"] for each in features] == [["words", "user"], ["tags"], []]
    assert features[2]["template"] == {"match_all": {}}
    assert {each["template_language"] for each in features} == {"mustache"}


# -- Solr ------------------------------------------------------------------------------------


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
    written = json.loads((tmp_path / "model").read_text())
    assert written["store"] == "mine"
    assert [each["name"] for each in written["features"]] == ["x0", "x1", "x2"]


def test_queries_of_solr_are_refused_where_a_missing_value_is_not_a_zero(tmp_path):
    X = np.array([[np.nan, -1.0, 1.0, 2.0]] * 2).T  # a missing value is best, 0 is not
    model = BoostedRanker(n_estimators=2, num_leaves=4, min_child_samples=1).fit(X, [3, 0, 1, 2])
    used = {int(f) for nodes in Parts.of(model).trees for f in nodes.feature if f >= 0}
    assert used == {0}
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


def test_requests_are_exported(tmp_path):
    model = RankBoost(n_estimators=2).fit([[0.0], [1.0], [2.0]], [0, 0, 1])
    for format_ in ("elasticsearch", "ltr-features"):
        export(model, tmp_path / format_, format_, features={"x0": {"match": {"a": "{{q}}"}}})
    export(model, tmp_path / "ltr-model", "ltr-model", name="m")
    assert json.loads((tmp_path / "ltr-model").read_text())["model"]["name"] == "m"
