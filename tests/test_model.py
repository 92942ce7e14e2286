"""The fitted ensemble: scores, plain data, and files."""

import json
import math
import os
import pickle
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from precede import BoostedRanker, Power, RankBoost, RankWeight, SquaredHinge, Stump, Trees, load
from precede.engine.execution import Context
from precede.model import FORMAT, Ensemble, read_model, write_model
from precede.weak_rankers.columns import Column, Constant, Feature

# Tables of a few rows have rankers without mistakes; what that does is tested elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")

MODELS = Path(__file__).parent / "models"


@st.composite
def ensembles(draw, n_features=3):
    thresholds = st.sampled_from([-math.inf, -1.0, 0.0, 0.1, 0.5, 2.0])
    stump = st.builds(Stump, st.integers(0, n_features - 1), thresholds, missing=st.integers(0, 1))
    other = st.one_of(
        st.builds(Column, st.integers(0, n_features - 1)),
        st.builds(Feature, st.integers(0, n_features - 1), st.just(-1.0), st.just(2.0)),
        st.just(Constant()),
    )
    weak_rankers = draw(st.lists(st.one_of(stump, stump, other), max_size=12))
    weights = draw(
        st.lists(st.floats(-3, 3), min_size=len(weak_rankers), max_size=len(weak_rankers))
    )
    return Ensemble(weak_rankers, weights, n_features)


values = st.sampled_from([-2.0, 0.0, 0.1, 0.3, 0.5, 7.0, math.nan])
some_rows = st.lists(st.lists(values, min_size=3, max_size=3), min_size=1, max_size=8)


# -- scores ----------------------------------------------------------------------------------


@given(ensembles(), some_rows)
def test_scores_are_the_weighted_sum_of_the_rankers(ensemble, rows):
    X = np.array(rows)
    if any(isinstance(ranker, Column) for ranker in ensemble.weak_rankers):
        X = np.nan_to_num(X)
    expected = np.zeros(len(X))
    for ranker, weight in zip(ensemble.weak_rankers, ensemble.weights, strict=True):
        expected += weight * ranker(X)
    assert_allclose(ensemble.predict(X), expected, atol=1e-12)


@given(ensembles(), some_rows)
def test_staged_scores_end_at_the_scores(ensemble, rows):
    X = np.nan_to_num(np.array(rows))
    stages = list(ensemble.staged_predict(X))
    assert len(stages) == len(ensemble)
    for rounds, scores in enumerate(stages, start=1):
        assert_allclose(scores, ensemble.first(rounds).predict(X), atol=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        np.asfortranarray,
        lambda X: X.astype(np.float32),
        scipy.sparse.csr_array,
        lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    ],
    ids=["fortran", "float32", "csr", "strided"],
)
def test_any_layout_gives_the_same_scores(make):
    rng = np.random.default_rng(0)
    X = rng.integers(-3, 4, (5000, 3)).astype(float)
    X[rng.random(X.shape) < 0.1] = math.nan
    weak_rankers = [Stump(j % 3, t, j % 2) for j, t in enumerate([-2.5, -0.5, 0.0, 1.5, -math.inf])]
    ensemble = Ensemble(weak_rankers, [0.1, -0.7, 0.3, 1e-3, 5.0], 3)
    assert_array_equal(ensemble.predict(make(X)), ensemble.predict(X))


def test_any_number_of_threads_gives_the_same_scores():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((20_000, 4))
    weak_rankers = [Stump(int(f), float(t)) for f, t in zip(rng.integers(0, 4, 300), rng.standard_normal(300), strict=True)]  # fmt: skip  # noqa: E501
    ensemble = Ensemble(weak_rankers, list(rng.standard_normal(300)), 4)
    one = ensemble.predict(X)
    for jobs in (2, 5):
        assert_array_equal(ensemble.predict(X, Context(jobs)), one)


def test_scores_do_not_depend_on_the_order_of_the_rounds():
    """Weights of one threshold are added exactly, so that equal models give equal scores."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((50, 1))
    weak_rankers = [Stump(0, float(t)) for t in rng.choice([-1.0, 0.0, 1.0], 200)]
    weights = rng.standard_normal(200)
    order = rng.permutation(200)
    one = Ensemble(weak_rankers, list(weights), 1)
    other = Ensemble([weak_rankers[i] for i in order], list(weights[order]), 1)
    assert_array_equal(one.predict(X), other.predict(X))


def test_rows_may_be_scored_in_parts():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((1000, 2))
    ensemble = Ensemble([Stump(0, 0.0), Stump(1, 0.3)], [1.0, 0.1], 2)
    parts = np.concatenate([ensemble.predict(X[i : i + 77]) for i in range(0, 1000, 77)])
    assert_array_equal(parts, ensemble.predict(X))


def test_an_ensemble_without_rankers_scores_everything_alike():
    assert_array_equal(Ensemble([], [], 2).predict(np.zeros((3, 2))), np.zeros(3))


def test_importances_are_shares_of_the_absolute_weight():
    ensemble = Ensemble([Stump(0, 0.0), Stump(2, 0.0), Stump(0, 1.0)], [1.0, -2.0, 1.0], 3)
    assert_array_equal(ensemble.importances(), [0.5, 0.0, 0.5])
    assert_array_equal(Ensemble([], [], 2).importances(), [0, 0])


# -- plain data ------------------------------------------------------------------------------


@given(ensembles())
def test_an_ensemble_survives_the_trip_through_json(ensemble):
    """Infinite thresholds are spelt out: JSON has no infinity."""
    again = Ensemble.from_dict(json.loads(json.dumps(ensemble.to_dict(), allow_nan=False)))
    assert again.weak_rankers == ensemble.weak_rankers
    assert again.weights == ensemble.weights
    assert again.n_features == ensemble.n_features


@given(ensembles(), some_rows)
def test_an_ensemble_survives_a_pickle_without_its_tables(ensemble, rows):
    X = np.nan_to_num(np.array(rows))
    scores = ensemble.predict(X)
    again = pickle.loads(pickle.dumps(ensemble))
    assert set(vars(again)) == {"weak_rankers", "weights", "n_features"}
    assert_array_equal(again.predict(X), scores)


# -- files -----------------------------------------------------------------------------------


def a_model(rounds=5):
    X = np.array([[0.0, math.nan], [1.0, 2.0], [2.0, 1.0], [3.0, math.nan], [1.0, 5.0], [0.0, 0.0]])
    return X, RankBoost(n_estimators=rounds, learning_rate=0.5).fit(X, [0, 1, 0, 2, 1, 0])


def test_a_fitted_model_survives_the_trip_through_a_file(tmp_path):
    X, model = a_model()
    model.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert type(again) is RankBoost
    assert_array_equal(again.predict(X), model.predict(X))
    assert again.get_params() == model.get_params()
    assert list(again.history_) == list(model.history_)
    assert again.stop_reason_ == model.stop_reason_
    assert again.n_features_in_ == 2
    assert again.best_iteration_ == 5
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "model.json").read_bytes()


def test_a_classifier_survives_the_trip_through_a_file(tmp_path):
    X = np.array([[0.0], [1.0], [2.0], [3.0], [1.5]])
    y = pd.Categorical(["no", "yes", "no", "yes", "yes"], categories=["no", "yes"], ordered=True)
    model = RankBoost(n_estimators=4, learning_rate=0.5).fit(X, y)
    model.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert list(again.classes_) == ["no", "yes"]
    assert again.intercept_ == model.intercept_
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_feature_names_survive_the_trip_through_a_file(tmp_path):
    import pandas as pd

    X = pd.DataFrame({"age": [0.0, 1.0, 2.0, 1.0], "height": [1.0, 0.0, 1.0, 1.0]})
    RankBoost(n_estimators=2).fit(X, [0, 1, 0, 1]).save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert list(again.feature_names_in_) == ["age", "height"]
    with pytest.raises(ValueError, match="feature names"):
        again.predict(X[["height", "age"]])


def test_numbers_of_every_kind_can_be_saved(tmp_path):
    """Metrics of an evaluation set, early stopping, smoothing: all plain JSON."""
    X, _ = a_model()
    y = [0, 1, 0, 2, 1, 0]
    model = RankBoost(
        n_estimators=5, learning_rate=0.5, early_stopping_rounds=2, eval_metric=["ndcg@2", None]
    )
    model.fit(X, y, eval_set=(X, y)).save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert again.evals_result_ == model.evals_result_
    assert again.best_score_ == model.best_score_


def test_a_model_watched_by_a_metric_that_is_not_a_number_can_be_saved(tmp_path):
    """A metric may be undefined on a data set; that is no reason to lose the model."""
    X, _ = a_model()
    y = [0, 1, 0, 2, 1, 0]
    model = RankBoost(
        n_estimators=2, learning_rate=0.5, eval_metric=lambda y, s, q: ("m", math.nan, True)
    )
    model.fit(X, y, eval_set=(X, y)).save(tmp_path / "model.json")
    with pytest.warns(UserWarning, match="could not store eval_metric"):
        again = load(tmp_path / "model.json")
    assert_array_equal(again.predict(X), model.predict(X))


def test_writing_replaces_the_file_at_once_or_not_at_all(tmp_path, monkeypatch):
    """A disk that fills up in the middle leaves the old model and no rubbish."""
    _, model = a_model()
    path = tmp_path / "model.json"
    model.save(path)
    before = path.read_bytes()

    def fail(*_):
        raise OSError("no space left on device")

    for function in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, function, fail)
            with pytest.raises(OSError, match="no space"):
                a_model(3)[1].save(path)
        assert path.read_bytes() == before
        assert [file.name for file in tmp_path.iterdir()] == ["model.json"]


def test_a_model_that_json_cannot_hold_leaves_the_old_file(tmp_path):
    path = tmp_path / "model.json"
    write_model(path, {"format": FORMAT})
    with pytest.raises((ValueError, TypeError)):
        write_model(path, {"format": object()})
    assert read_model(path) == {"format": FORMAT}


def test_a_saved_model_is_an_ordinary_file(tmp_path):
    """Not readable by its owner alone, as temporary files are."""
    path = tmp_path / "model.json"
    (tmp_path / "plain").touch()
    write_model(path, {"format": FORMAT})
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_extra_keys_are_ignored(tmp_path):
    X, model = a_model()
    path = tmp_path / "model.json"
    model.save(path)
    fields = json.loads(path.read_text())
    fields["color"] = "blue"
    fields["model"]["weak_rankers"][0]["mood"] = 3
    fields["parameters"]["of_the_future"] = True
    path.write_text(json.dumps(fields))
    assert_array_equal(load(path).predict(X), model.predict(X))


def test_a_model_of_the_future_says_so(tmp_path):
    write_model(tmp_path / "model.json", {"format": FORMAT + 1})
    with pytest.raises(ValueError, match=rf"format {FORMAT + 1}.*reads formats 1 to {FORMAT}.*Up"):
        load(tmp_path / "model.json")


# -- models of the past ----------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(MODELS.glob("*.json")), ids=lambda path: path.stem)
def test_every_stored_model_opens_and_has_its_stored_scores(path):
    """`rows` and `scores` were put beside the model when it was saved."""
    fields = json.loads(path.read_text())
    X = np.array([[math.nan if x is None else x for x in row] for row in fields["rows"]])
    if fields.get("parameters_left_out"):
        with pytest.warns(UserWarning, match="scores are unaffected"):
            model = load(path)
    else:
        model = load(path)
    assert_array_equal(model.predict(X), fields["scores"])
    if "probabilities" in fields:
        assert_allclose(model.predict_proba(X)[:, 1], fields["probabilities"], rtol=1e-15)


def test_there_is_a_model_of_every_estimator_and_kind_of_ranker():
    """Where there is none, tests/make_models.py writes one from a recipe."""
    saved = [json.loads(path.read_text()) for path in MODELS.glob("*.json")]
    estimators = {fields["estimator"] for fields in saved}
    assert estimators >= {
        "AdaBoostRanker", "BoostedRanker", "ConvexRiskRanker", "MultilabelRanker", "PushRanker",
        "QBRank", "RankBoost", "RankBoostPlus", "SmoothMarginRanker",
    }  # fmt: skip
    kinds = {ranker["kind"] for fields in saved for ranker in fields["model"]["weak_rankers"]}
    assert kinds >= {
        "column",
        "constant",
        "feature",
        "label_constant",
        "label_vote",
        "stump",
        "tree",
    }


def test_there_is_a_model_of_every_format():
    formats = {json.loads(path.read_text())["format"] for path in MODELS.glob("*.json")}
    assert formats == set(range(1, FORMAT + 1))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rank_weight", RankWeight(k=10, blend=0.5)),
        ("rank_weight", RankWeight(gain=[0, 1, 3], discount=None)),
        ("rank_weight", {"k": 5}),
        ("loss", SquaredHinge("gap")),
        ("price", Power(2)),
        ("weak_rankers", Trees(num_leaves=3)),
        ("monotone_constraints", {0: 1, 1: -1}),
    ],
)
def test_parameters_that_are_objects_are_saved_with_a_model(tmp_path, name, value):
    X, y = np.random.RandomState(0).rand(60, 2), np.arange(60) % 3
    model = BoostedRanker(n_estimators=2, min_child_samples=5, **{name: value})
    model.fit(X, y, qid=np.arange(60) // 20).save(tmp_path / "model.json")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = load(tmp_path / "model.json")
    assert getattr(again, name) == value
    assert type(getattr(again, name)) is type(value)
    assert again.fit(X, y, qid=np.arange(60) // 20).ensemble_.weights == model.ensemble_.weights


def test_a_parameter_that_is_a_function_is_left_out_with_a_warning(tmp_path):
    model = BoostedRanker(n_estimators=2, rank_weight=RankWeight(gain=lambda grade: grade))
    X = np.random.RandomState(0).rand(60, 2)
    model.fit(X, np.arange(60) % 3, qid=np.arange(60) // 20).save(tmp_path / "model.json")
    with pytest.warns(UserWarning, match="could not store rank_weight"):
        load(tmp_path / "model.json")
