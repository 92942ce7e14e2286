"""Scores, ranks and importances of a fitted ranker."""

import pickle
import warnings

import numpy as np
import pytest
import sklearn
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import strategies as some
from precede import (
    BoostedRanker,
    ConvexRiskRanker,
    GlassBoxRanker,
    Judgments,
    MultilabelRanker,
    PushRanker,
    QBRank,
    RankBoost,
    RankBoostPlus,
    Report,
    SmoothMarginRanker,
    load,
    pairs_in_order,
)
from precede.engine import execution
from precede.metrics import make_scorer
from samples import X6, data, some_queries, two_classes

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")

LOST = "fitted with queries and is scored without.*Judgments"


def test_a_model_of_queries_warns_when_it_is_scored_without(tmp_path):
    X, y, qid = data()
    model = RankBoost(n_estimators=2).fit(X, y, qid=qid)
    assert model.has_queries_
    model.save(tmp_path / "model.json")
    for each in (model, pickle.loads(pickle.dumps(model)), load(tmp_path / "model.json")):
        execution.WARNED.clear()
        each.score(X, y, qid)
        each.score(X, Judgments(y, qid))
        each.score(X, Judgments(pairs=[(0, 1)], n=len(y)))
        with pytest.warns(UserWarning, match=LOST) as caught:
            each.score(X, y)
        assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match=LOST):
        Report(model, X, y)
    model.fit(X, y)  # without queries
    assert not model.has_queries_
    assert model.score(X, y) > 0.5


def test_the_warning_is_shown_once_for_a_line():
    X, y, qid = data()
    model = RankBoost(n_estimators=2).fit(X, y, qid=qid)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            model.score(X, y)
            RankBoost(n_estimators=1).fit(X, y, qid=qid).score(X, y)
        grid = {"n_estimators": [1, 2]}
        GridSearchCV(RankBoost(), grid, cv=GroupKFold(4)).fit(X, y, groups=qid, qid=qid)
    assert len(caught) == 3  # two lines, and the search with its eight scores
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(UserWarning, match=LOST):
                model.score(X, y)


def test_cross_validation_that_loses_the_queries_warns():
    X, y, qid = data()
    for scoring in (None, make_scorer("ndcg@10")):
        execution.WARNED.clear()
        with pytest.warns(UserWarning, match=LOST):
            cross_val_score(
                RankBoost(n_estimators=2), X, y, groups=qid, cv=GroupKFold(2), scoring=scoring,
                params={"qid": qid},
            )  # fmt: skip
    pipe = make_pipeline(StandardScaler(), RankBoost(n_estimators=2))
    pipe.fit(X, y, rankboost__qid=qid)
    with pytest.warns(UserWarning, match=LOST):
        make_scorer("map")(pipe, X, y)


def test_ranks_count_from_one_inside_each_query():
    X, y, qid = data()
    model = RankBoost(n_estimators=10).fit(X, y, qid=qid)
    scores, ranks = model.predict(X), model.rank(X, qid)
    for query in np.unique(qid):
        rows = np.flatnonzero(qid == query)
        by_rank = rows[np.argsort(ranks[rows])]
        assert sorted(ranks[rows]) == list(range(1, rows.size + 1))
        assert np.all(np.diff(scores[by_rank]) <= 0)
        tied = np.diff(scores[by_rank]) == 0
        assert np.all(np.diff(by_rank)[tied] > 0)  # equal scores in the order of the rows


def test_ranks_without_queries_are_those_of_one_query():
    X, y = two_classes()
    model = RankBoost(n_estimators=3).fit(X, y)
    assert_array_equal(model.rank(X), model.rank(X, ["one"] * len(y)))


def test_staged_scores_end_at_the_scores():
    X, y, qid = data()
    model = RankBoost(n_estimators=9).fit(X, y, qid=qid)
    stages = list(model.staged_predict(X))
    assert len(stages) == 9
    assert_allclose(stages[-1], model.predict(X), atol=1e-12)


def test_importances_sum_to_one_and_name_what_matters():
    X, y, qid = data()
    model = RankBoost(n_estimators=20).fit(X, y, qid=qid)
    assert model.feature_importances_.sum() == pytest.approx(1)
    assert set(np.argsort(model.feature_importances_)[-2:]) == {0, 1}


def test_a_model_that_is_not_fitted_says_so():
    for method in ("predict", "staged_predict", "rank"):
        with pytest.raises(sklearn.exceptions.NotFittedError):
            getattr(RankBoost(), method)(X6)
    for method in ("predict_proba", "decision_function"):  # there after a fit on two classes
        with pytest.raises(AttributeError) as caught:
            getattr(RankBoost(), method)
        assert isinstance(caught.value.__cause__, sklearn.exceptions.NotFittedError)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        RankBoost().save("nowhere.json")


@given(some.judgments())
def test_the_share_of_pairs_in_order_is_a_share(made):
    """To the last bit: a reversed order used to give a little less than 0."""
    if made.grade is None or made.to_layout().total <= 0:
        return
    for scores in (np.nan_to_num(made.grade), -np.nan_to_num(made.grade)):
        assert 0 <= pairs_in_order(made, scores) <= 1


def test_a_reversed_order_scores_no_less_than_0():
    found = []
    for n in range(2, 60):
        y = np.arange(n) % 4
        found += [pairs_in_order(Judgments(y), sign * y) for sign in (-1.0, 1.0)]
    assert min(found) >= 0
    assert max(found) <= 1


def test_predictions_of_the_first_rounds():
    sample = some_queries()
    X, y, qid = sample.X, sample.y, sample.qid
    for make in (RankBoost, BoostedRanker, RankBoostPlus):
        model = make(n_estimators=4).fit(X, y, qid=qid)
        for rounds, staged in enumerate(model.staged_predict(X), 1):
            assert_allclose(model.predict(X, num_iteration=rounds), staged, atol=1e-12)
        assert_array_equal(model.predict(X, num_iteration=model.n_estimators_), model.predict(X))
        for wrong in (0, model.n_estimators_ + 1, -1, 2.5):
            with pytest.raises(ValueError, match="num_iteration"):
                model.predict(X, num_iteration=wrong)
    with pytest.raises(ValueError, match="changes the weights of earlier ones"):
        ConvexRiskRanker().fit(X, y, qid=qid).predict(X, num_iteration=1)
    two = MultilabelRanker(n_estimators=3).fit(X, np.stack([y > 0, y > 1], axis=1))
    assert_allclose(two.predict(X, num_iteration=1), next(iter(two.staged_predict(X))))


def test_listed_pairs_are_scored():
    X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]
    model = RankBoost(n_estimators=2, step="bound").fit(X, y)
    scores = model.predict(X)
    pairs = [(3, 0), (2, 1), (1, 3)]
    gaps = np.array([scores[i] - scores[k] for i, k in pairs])
    assert model.score(X, pairs=pairs) == np.mean((np.sign(gaps) + 1) / 2)
    weighted = model.score(X, pairs=pairs, pair_weight=[1, 2, 3])
    assert_allclose(weighted, np.average((np.sign(gaps) + 1) / 2, weights=[1, 2, 3]))
    with pytest.raises(ValueError, match="give grades, Judgments or pairs"):
        model.score(X)


CHANCES = np.array([0.01, 0.03, 0.1, 0.25, 0.6])


def _rare_positives():
    """Two classes, with the share of positives of every value of a feature as in CHANCES."""
    x = np.repeat(np.arange(5), [400, 400, 200, 100, 50])
    y = np.concatenate([np.arange(n) < n * c for n, c in zip(np.bincount(x), CHANCES, strict=True)])
    return np.stack([x, np.zeros(x.size)], axis=1).astype(float), y.astype(int)


@pytest.mark.parametrize(
    "model",
    [
        BoostedRanker(n_estimators=200),
        BoostedRanker(n_estimators=200, loss="query_cross_entropy"),
        GlassBoxRanker(n_estimators=200, learning_rate=0.1, interactions=0, validation_fraction=0),
        RankBoost(n_estimators=200),
        SmoothMarginRanker(n_estimators=200),
        ConvexRiskRanker(loss="logistic", radius=40.0),
        PushRanker(price=1, loss="logistic", n_estimators=200),
        PushRanker(price=2, n_estimators=200),
        PushRanker(price=4, n_estimators=200),
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_probabilities_follow_the_link_of_the_loss(model):
    """They are the shares of positives; the link of AdaBoost for all losses missed them by .2."""
    X, y = _rare_positives()
    model.fit(X, y)
    assert_allclose(model.predict_proba([[j, 0] for j in range(5)])[:, 1], CHANCES, atol=0.01)
    if model.link_ == 1:
        assert model.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean())


def test_weights_count_in_the_mean_probability():
    X, y = _rare_positives()
    weight = np.where(y == 1, 3.0, 0.5)
    model = BoostedRanker(n_estimators=10).fit(X, y, sample_weight=weight)
    mean = np.average(model.predict_proba(X)[:, 1], weights=weight)
    assert mean == pytest.approx(np.average(y, weights=weight))


@pytest.mark.parametrize(
    "model",
    [BoostedRanker(n_estimators=2, loss="hinge"), BoostedRanker(n_estimators=2, loss="softmax"),
     PushRanker(n_estimators=2, price="exp"), QBRank(n_estimators=2),
     PushRanker(n_estimators=2, price=2, loss="logistic")],
    ids=repr,
)  # fmt: skip
def test_losses_without_log_odds_have_no_probabilities(model, tmp_path):
    X, y = _rare_positives()
    model.fit(X, y)
    assert list(model.classes_) == [0, 1]
    assert model.link_ is None
    with pytest.raises(AttributeError) as caught:
        model.predict_proba(X)
    assert "a loss whose scores estimate log-odds, 'logistic'" in str(caught.value.__cause__)
    model.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert not hasattr(again, "predict_proba")
    # The loss of AdaBoost is least at the intercept: its derivative by a shift is 0.
    decision = again.decision_function(X)
    assert_allclose(np.exp(-decision[y == 1]).sum(), np.exp(decision[y == 0]).sum())
    assert_array_equal(again.classify(X), (decision > 0).astype(int))


def test_metrics_of_scikit_learn_take_losses_without_probabilities():
    X, y = _rare_positives()
    cv = KFold(3, shuffle=True, random_state=0)
    for model in (QBRank(n_estimators=5), BoostedRanker(n_estimators=5, loss="hinge")):
        assert cross_val_score(model, X, y, scoring="roc_auc", cv=cv).min() > 0.6


def test_a_saved_model_carries_its_link(tmp_path):
    X, y = _rare_positives()
    for model in (BoostedRanker(n_estimators=3), PushRanker(n_estimators=3, price=3)):
        model.fit(X, y).save(tmp_path / "model.json")
        again = load(tmp_path / "model.json")
        assert again.link_ == model.link_
        assert_array_equal(again.predict_proba(X), model.predict_proba(X))
