"""The scikit-learn interface: its checks, its tools, fits."""

import inspect
import warnings
from dataclasses import replace
from typing import ClassVar

import joblib
import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    cross_validate,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import naive
from precede import (
    AdaBoostRanker,
    BaseRanker,
    BoostedRanker,
    ConvexRiskRanker,
    Judgments,
    MultilabelRanker,
    PushRanker,
    RankBoost,
    RankBoostPlus,
    SmoothMarginRanker,
    pairs_in_order,
)
from precede.boosting.coordinate_descent import CoordinateDescent
from samples import X6, Y6, data, halves, same_model, some_queries, two_classes

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


def test_grid_search_over_queries_by_metadata_routing():
    X, y, qid = data()
    with sklearn.config_context(enable_metadata_routing=True):
        model = RankBoost(n_estimators=5).set_fit_request(qid=True).set_score_request(qid=True)
        search = GridSearchCV(model, {"n_estimators": [1, 10]}, cv=GroupKFold(4))
        search.fit(X, y, qid=qid, groups=qid)
    assert search.best_params_ == {"n_estimators": 10}
    expected = RankBoost(n_estimators=10).fit(X, y, qid=qid)
    same_model(search.best_estimator_, expected)
    train, test = next(GroupKFold(4).split(X, y, qid))
    first = RankBoost(n_estimators=10).fit(X[train], y[train], qid=qid[train])
    assert search.cv_results_["split0_test_score"][1] == pytest.approx(
        naive.share_in_order(Judgments(y[test], qid[test]), first.predict(X[test]))
    )


@pytest.mark.parametrize("kind", ["graded", "pairs", "mixed"])
def test_grid_search_with_judgments_as_the_target(kind):
    """Judgments are sliced by the folds, pairs and all."""
    X, y, qid = data()
    rng = np.random.default_rng(1)
    pairs = rng.integers(0, len(y), (900, 2))
    pairs = pairs[y[pairs[:, 0]] > y[pairs[:, 1]]]
    made = Judgments(
        None if kind == "pairs" else y, None if kind == "pairs" else qid,
        pairs=None if kind == "graded" else pairs, n=len(y),
    )  # fmt: skip
    search = GridSearchCV(RankBoost(), {"n_estimators": [1, 8]}, cv=KFold(3))
    search.fit(X, made)
    assert search.best_params_ == {"n_estimators": 8}
    train, test = next(KFold(3).split(X))
    first = RankBoost(n_estimators=8).fit(X[train], made[train])
    assert search.cv_results_["split0_test_score"][1] == pytest.approx(
        naive.share_in_order(made[test], first.predict(X[test]))
    )


def test_grid_search_over_groups_with_judgments():
    X, y, qid = data()
    search = GridSearchCV(
        RankBoost(n_estimators=4), {"learning_rate": [0.1, 1.0]}, cv=GroupKFold(3)
    )
    search.fit(X, Judgments(y, qid), groups=qid)
    assert search.best_score_ > 0.75


def test_cross_validation_with_judgments():
    X, y, qid = data()
    scores = cross_validate(
        RankBoost(n_estimators=10), X, Judgments(y, qid), cv=GroupKFold(4), groups=qid
    )
    assert scores["test_score"].shape == (4,)
    assert scores["test_score"].min() > 0.7


def test_training_and_test_halves_of_judgments():
    X, y, qid = data()
    halves = train_test_split(X, Judgments(y, qid), random_state=0)
    assert [len(half) for half in halves] == [180, 60, 180, 60]
    assert RankBoost(n_estimators=10).fit(halves[0], halves[2]).score(halves[1], halves[3]) > 0.7


def test_a_pipeline_ranks():
    """Scaling changes no ranking of stumps."""
    X, y = two_classes()
    pipe = make_pipeline(StandardScaler(), RankBoost(n_estimators=10)).fit(X, y)
    plain = RankBoost(n_estimators=10).fit(X, y)
    assert_array_equal(pipe.predict(X), plain.predict(X))
    assert pipe.score(X, y) == plain.score(X, y)


def test_a_pipeline_routes_queries():
    X, y, qid = data()
    with sklearn.config_context(enable_metadata_routing=True):
        ranker = RankBoost(n_estimators=5).set_fit_request(qid=True)
        pipe = make_pipeline(StandardScaler(), ranker).fit(X, y, qid=qid)
    same = RankBoost(n_estimators=5).fit(StandardScaler().fit_transform(X), y, qid=qid)
    same_model(pipe[-1], same)


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_models_may_be_fitted_side_by_side(backend):
    X, y, qid = data(120)
    jobs = [joblib.delayed(RankBoost(n_estimators=n).fit)(X, y, qid=qid) for n in (3, 6)]
    models = joblib.Parallel(n_jobs=2, backend=backend)(jobs)
    for n, model in zip((3, 6), models, strict=True):
        same_model(model, RankBoost(n_estimators=n).fit(X, y, qid=qid))


def test_a_constructor_only_assigns():
    """scikit-learn's rule, for every parameter."""
    marks = {name: object() for name in inspect.signature(RankBoost).parameters}
    assert RankBoost(**marks).get_params(deep=False) == marks


class Declared(RankBoost):
    more: int = 1
    n_estimators: int = 7
    resumable: ClassVar[bool] = False
    plain = "no annotation"


def test_parameters_are_declared_as_those_of_a_dataclass():
    """First those of the class; a new default leaves a parameter at its place."""
    inherited = list(inspect.signature(RankBoost).parameters)
    assert list(inspect.signature(Declared).parameters) == ["more", *inherited]
    assert (Declared().more, Declared().n_estimators, RankBoost().n_estimators) == (1, 7, 300)
    assert clone(Declared(more=2, step="bound")).get_params()["more"] == 2
    assert repr(Declared(more=2)) == "Declared(more=2)"
    with pytest.raises(TypeError, match="Declared has no parameter 'plain'; it has more"):
        Declared(plain=2)
    with pytest.raises(TypeError, match="positional"):
        Declared(2)


def test_an_evaluation_set_is_looked_at_after_every_round():
    (X, y, qid), (X2, y2, qid2) = halves()
    model = RankBoost(n_estimators=12).fit(X, y, qid=qid, eval_set=(X2, y2), eval_qid=qid2)
    seen = model.evals_result_["valid_0"]["pairs_in_order"]
    made = Judgments(y2, qid2)
    expected = [pairs_in_order(made, scores) for scores in model.staged_predict(X2)]
    assert_allclose(seen, expected, atol=1e-12)
    assert model.best_iteration_ == int(np.argmax(seen)) + 1
    assert model.best_score_ == max(seen)
    assert len(model.ensemble_) == 12  # nothing is cut off without early stopping
    assert_array_equal(model.history_["valid_0 pairs_in_order"], seen)


def test_early_stopping_keeps_the_best_round():
    (X, y, qid), (X2, y2, qid2) = halves()
    options = {"qid": qid, "eval_set": [(X2, y2)], "eval_qid": [qid2]}
    whole = RankBoost(n_estimators=200).fit(X, y, **options)
    model = RankBoost(n_estimators=200, early_stopping_rounds=5).fit(X, y, **options)
    seen = model.evals_result_["valid_0"]["pairs_in_order"]
    best = int(np.argmax(seen)) + 1
    assert len(seen) == best + 5 < 200
    assert len(model.ensemble_) == model.n_estimators_ == model.best_iteration_ == best
    assert model.ensemble_.weights == whole.ensemble_.weights[:best]
    assert "has not improved for 5 rounds" in model.stop_reason_


def test_an_evaluation_set_changes_nothing_in_the_model():
    (X, y, qid), (X2, y2, qid2) = halves()
    monitored = RankBoost(n_estimators=9).fit(X, y, qid=qid, eval_set=(X2, y2), eval_qid=qid2)
    same_model(monitored, RankBoost(n_estimators=9).fit(X, y, qid=qid))


def test_a_warm_start_needs_the_same_features_and_no_fewer_rounds():
    model = RankBoost(n_estimators=3, warm_start=True).fit(X6, Y6)
    with pytest.raises(ValueError, match="n_estimators=2 is less than the 3 rounds"):
        model.set_params(n_estimators=2).fit(X6, Y6)
    with pytest.raises(ValueError, match="X has 1 features, but RankBoost is expecting 2"):
        model.set_params(n_estimators=4).fit(X6[:, :1], Y6)


def test_a_failed_fit_leaves_the_last_model_alone():
    X, y = two_classes()
    model = RankBoost(n_estimators=3).fit(X, y)
    scores = model.predict(X)
    for bad in ({"y": [1] * y.size}, {"y": y, "pairs": [(0, 0)]}):
        with pytest.raises(ValueError, match=r"class|precede itself"):
            model.fit(X, **bad)
    assert_array_equal(model.predict(X), scores)


def all_estimators():
    """One of each with two rounds, and a target it can learn from."""
    import precede
    from precede.estimator import BaseRanker

    things = [getattr(precede, name) for name in precede.__all__]
    kinds = [thing for thing in things if isinstance(thing, type) and issubclass(thing, BaseRanker)]
    assert len(kinds) >= 9
    return [kind(n_estimators=2) for kind in kinds if kind is not BaseRanker]


@pytest.mark.filterwarnings("ignore::UserWarning")  # of rounds that are few
@pytest.mark.parametrize("model", all_estimators(), ids=lambda model: type(model).__name__)
def test_a_fit_that_fails_leaves_the_estimator_as_it_was(model):
    """Without a model it is still not fitted; a model that was there is there, to the bit."""
    X, y = two_classes()

    def fails():
        # After the table was looked at, which sets the number of features.
        with pytest.raises(ValueError, match=r"y|Y"):
            model.fit(X[:, :1], y[:5])
        with pytest.raises(ValueError, match="n_estimators"):
            model.set_params(n_estimators=0).fit(X[:, :1], y)
        model.set_params(n_estimators=2)

    before = dict(vars(model))
    fails()
    assert vars(model) == before
    with pytest.raises(sklearn.exceptions.NotFittedError):
        model.predict(X[:, :1])
    model.fit(X, y)
    scores, fitted = model.predict(X), dict(vars(model))
    fails()
    assert vars(model).keys() == fitted.keys()
    assert all(vars(model)[name] is fitted[name] for name in fitted if name.endswith("_"))
    assert_array_equal(model.predict(X), scores)
    with pytest.raises(ValueError, match="features"):  # and not those of the failed fit
        model.predict(X[:, :1])


def test_a_fit_that_fails_in_the_middle_leaves_the_last_model():
    X, y = two_classes()
    model = RankBoost(n_estimators=3, warm_start=True).fit(X, y)
    scores = model.predict(X)

    def fail(progress):
        if progress.round == 5:
            raise RuntimeError("in round five")

    with pytest.raises(RuntimeError, match="round five"):
        model.set_params(n_estimators=8, callbacks=[fail]).fit(X, y)
    assert len(model.ensemble_) == model.n_estimators_ == 3
    assert_array_equal(model.predict(X), scores)


def test_global_state_is_left_alone():
    """Neither the random state of NumPy nor the warning filters nor numba's threads change."""
    import numba

    before = np.random.get_state()[1].tolist(), numba.get_num_threads(), list(warnings.filters)  # noqa: NPY002
    X, y = two_classes()
    RankBoost(n_estimators=3, max_features=0.5, random_state=0, n_jobs=2).fit(X, y).predict(X)
    after = np.random.get_state()[1].tolist(), numba.get_num_threads(), list(warnings.filters)  # noqa: NPY002
    assert after == before


@pytest.mark.parametrize("model", [
    RankBoost(), RankBoost(weak_rankers="features"), PushRanker(price=1), BoostedRanker(),
    RankBoostPlus(), AdaBoostRanker(), ConvexRiskRanker(), MultilabelRanker(),
], ids=repr)  # fmt: skip
def test_a_model_without_rounds_says_so(model):
    with pytest.warns(UserWarning, match="no rounds and.*the features are constant") as caught:
        model.fit(np.ones((8, 2)), [0, 1] * 4)
    assert caught[0].filename == __file__
    assert model.n_estimators_ == 0


def test_a_model_without_rounds_on_features_that_vary_says_so_too():
    X = np.repeat(np.arange(4.0), 2)[:, None]  # the same within each query
    with pytest.warns(UserWarning, match="no rounds.*constant within every query"):
        RankBoost().fit(X, [0, 1] * 4, qid=np.repeat(range(4), 2))


def test_an_algorithm_without_a_plan_says_what_it_lacks():
    class Empty(BaseRanker):
        pass

    with pytest.raises(NotImplementedError, match=r"Empty must define plan\(stop\)"):
        Empty().fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize(
    "make",
    [
        lambda rounds: RankBoost(n_estimators=rounds, learning_rate=0.3),
        lambda rounds: PushRanker(price=2, n_estimators=rounds, learning_rate=0.3),
        lambda rounds: BoostedRanker(n_estimators=rounds, num_leaves=4, min_child_samples=5),
    ],
    ids=["RankBoost", "PushRanker", "BoostedRanker"],
)
def test_a_fit_goes_on_from_the_scores_of_another_model(make):
    sample, other = some_queries(), some_queries(1)
    X, y, qid = sample.X, sample.y, sample.qid
    whole, first = make(9).fit(X, y, qid=qid), make(5).fit(X, y, qid=qid)
    start = first.predict(X)
    rest = make(4).fit(
        X, y, qid=qid, init_score=start, eval_set=(other.X, other.y), eval_qid=other.qid,
        eval_init_score=first.predict(other.X),
    )  # fmt: skip
    assert_allclose(start + rest.predict(X), whole.predict(X), rtol=0, atol=1e-9)
    assert_allclose(rest.history_["log_risk"], whole.history_["log_risk"][5:], atol=1e-9)
    # The offset counts on evaluation sets as well, and rows may come in any order.
    monitored = pairs_in_order(Judgments(other.y, other.qid), whole.predict(other.X))
    assert_allclose(rest.evals_result_["valid_0"]["pairs_in_order"][-1], monitored, atol=1e-12)
    mixed = np.random.default_rng(0).permutation(len(y))
    again = make(4).fit(X[mixed], y[mixed], qid=qid[mixed], init_score=start[mixed])
    assert_array_equal(again.predict(X), rest.predict(X))


def test_offsets_that_would_be_ignored_are_refused(tmp_path):
    X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]
    with pytest.raises(ValueError, match="SmoothMarginRanker takes no init_score"):
        SmoothMarginRanker().fit(X, y, init_score=[0, 0, 0, 1])
    with pytest.raises(ValueError, match="init_score has 2 values for 4 rows"):
        RankBoost().fit(X, y, init_score=[0, 1])
    with pytest.raises(ValueError, match="belong together"):
        RankBoost(step="bound").fit(X, y, init_score=[0, 0, 0, 1], eval_set=(X, y))
    with pytest.raises(ValueError, match="belong together"):
        RankBoost(step="bound").fit(X, y, eval_set=(X, y), eval_init_score=[0, 0, 0, 1])
    with pytest.raises(ValueError, match="price='cv' takes no init_score"):
        PushRanker(price="cv").fit(X, y, init_score=[0, 0, 0, 1])


def test_weights_of_evaluation_rows_count():
    sample = some_queries()
    X, y, qid = sample.X, sample.y, sample.qid
    weight = np.random.default_rng(0).uniform(0.1, 3, len(y))
    model = RankBoost(n_estimators=3, learning_rate=0.3)
    model.fit(X, y, qid=qid, eval_set=(X, y), eval_qid=qid, eval_sample_weight=weight)
    wanted = pairs_in_order(Judgments(y, qid, weight=weight), model.predict(X))
    plain = pairs_in_order(Judgments(y, qid), model.predict(X))
    assert_allclose(model.evals_result_["valid_0"]["pairs_in_order"][-1], wanted, atol=1e-12)
    assert abs(wanted - plain) > 1e-4


@pytest.mark.parametrize("kind", [RankBoost, BoostedRanker, PushRanker])
def test_the_intercept_comes_from_the_scores_of_the_fit(kind, monkeypatch):
    """They are what the rankers give to the rows, to the bit, offsets included."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = X[:, 0] + rng.normal(size=300) > 0
    given = {"init_score": rng.normal(size=300)} if kind.takes_init_score else {}
    one = kind(n_estimators=15).fit(X, y, **given)
    result = CoordinateDescent.result
    monkeypatch.setattr(
        CoordinateDescent, "result", lambda *given: replace(result(*given), scores=None)
    )
    other = kind(n_estimators=15).fit(X, y, **given)
    assert one.intercept_ == other.intercept_


def test_the_intercept_after_early_stopping_is_that_of_the_rounds_that_are_kept():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.random(200) < 0.5
    stopped = BoostedRanker(n_estimators=60, early_stopping_rounds=3, learning_rate=0.5)
    stopped.fit(X[:100], y[:100], eval_set=(X[100:], y[100:]))
    assert 0 < stopped.n_estimators_ < len(stopped.history_)
    fewer = BoostedRanker(n_estimators=stopped.n_estimators_, learning_rate=0.5)
    assert stopped.intercept_ == fewer.fit(X[:100], y[:100]).intercept_


@pytest.mark.parametrize("name", ["early_stopping", "log_evaluation"])
def test_callbacks_of_lightgbm_are_explained_where_lightgbm_takes_them(name):
    lightgbm = pytest.importorskip("lightgbm")
    given = [getattr(lightgbm, name)(5)]
    X, y = np.arange(8.0)[:, None], [0, 1] * 4
    told = "of lightgbm, which is not a callback.*early_stopping_rounds.*verbose=1"
    with pytest.raises(ValueError, match=told):
        RankBoost(n_estimators=1).fit(X, y, callbacks=given)
    with pytest.raises(ValueError, match=told):
        RankBoost(n_estimators=1, callbacks=given).fit(X, y)
    with pytest.raises(TypeError, match="fit has no argument callbacks; it is a parameter of"):
        RankBoost(n_estimators=1).fit(X, y, callbacks=[print])


def test_a_constructor_that_takes_any_name_is_left_alone():
    class Open(RankBoost):
        def __init__(self, **named):
            super().__init__(n_estimators=1)
            self.named = named

    assert Open(zzz=3).named == {"zzz": 3}
