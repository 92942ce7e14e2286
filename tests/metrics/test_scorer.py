"""Metrics as scorers of scikit-learn."""

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    cross_validate,
)

from precede import (
    Judgments,
    RankBoost,
)
from precede.metrics import Metric, evaluate, make_scorer


def data(n=240, queries=8, seed=0):
    """Graded rows in queries that stand mixed."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.standard_normal((n, 4)), 2)
    y = np.digitize(X[:, 0] - X[:, 1] + 0.7 * rng.standard_normal(n), [-1.0, 0.0, 1.0])
    return X, y, rng.integers(0, queries, n)


def test_scorers_get_the_queries_by_metadata_routing():
    X, y, qid = data()
    scorer = make_scorer("ndcg@5")
    with sklearn.config_context(enable_metadata_routing=True):
        model = RankBoost(n_estimators=5).set_fit_request(qid=True)
        search = GridSearchCV(model, {"n_estimators": [1, 10]}, cv=GroupKFold(4), scoring=scorer)
        search.fit(X, y, qid=qid, groups=qid)
        several = {"ndcg": scorer, "errors": make_scorer("pair_error")}
        found = cross_validate(
            model, X, y, cv=GroupKFold(4), scoring=several, params={"qid": qid, "groups": qid}
        )
    train, test = next(GroupKFold(4).split(X, y, qid))
    scores = RankBoost(n_estimators=10).fit(X[train], y[train], qid=qid[train]).predict(X[test])
    expected = evaluate(y[test], scores, qid[test], metrics="ndcg@5").mean["ndcg@5"]
    assert search.cv_results_["split0_test_score"][1] == expected
    scores = RankBoost(n_estimators=5).fit(X[train], y[train], qid=qid[train]).predict(X[test])
    expected = evaluate(y[test], scores, qid[test], metrics="pair_error").mean["pair_error"]
    assert found["test_errors"][0] == -expected
    with sklearn.config_context(enable_metadata_routing=True):
        weighted = make_scorer("auc").set_score_request(qid="query", sample_weight=True)
        asked = weighted.get_metadata_routing().score.requests
    assert asked == {"qid": "query", "sample_weight": True}


def test_scorers_take_judgments_metrics_and_functions():
    X, y, qid = data()
    model, made = RankBoost(n_estimators=5).fit(X, y, qid=qid), Judgments(y, qid)
    scores, weight = model.predict(X), np.linspace(0.5, 2, len(y))

    def spread(y, scores, qid):
        return "spread", float(np.ptp(scores)) + y[0] + qid[0], False

    expected = evaluate(y, scores, qid, metrics="map@3", relevant=2, sample_weight=weight)
    scorer = make_scorer(Metric("map", 3), relevant=2)
    assert repr(scorer) == "make_scorer('map@3', relevant=2)"
    assert scorer(model, X, y, qid, weight) == expected.mean["map@3"]
    assert scorer(model, X, made, sample_weight=weight) == expected.mean["map@3"]
    assert make_scorer(spread)(model, X, made) == -spread(y, scores, qid)[1]
    search = GridSearchCV(
        RankBoost(), {"n_estimators": [1, 8]}, cv=GroupKFold(3), scoring=make_scorer("ndcg")
    )
    assert clone(search).fit(X, made, groups=qid).best_params_ == {"n_estimators": 8}
    assert make_scorer("auc")(model, X, Judgments(y, qid)) > 0.5
    for wrong, told in (
        (lambda: make_scorer("ndgc"), "did you mean ndcg"),
        (lambda: make_scorer(3), "metric=3: give a name"),
        (lambda: make_scorer("map", relevent=2), "unknown option relevent"),
        (lambda: make_scorer(spread, relevant=2), "relevant given with a function"),
    ):
        with pytest.raises(ValueError, match=told):
            wrong()
    with pytest.raises(TypeError, match=r"not group; .* give qid"):
        make_scorer("map").set_score_request(group=True)
