"""RankBoost on two classes: its intercept, probabilities and score; its random features."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.metrics import roc_auc_score

from precede import AdaBoostRanker, PushRanker, RankBoost, RankBoostPlus, SmoothMarginRanker
from samples import data, same_model, two_classes

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


@pytest.mark.parametrize("names", [(0, 1), (-1, 1), ("low", "high"), (False, True), (2.5, 7.5)])
@pytest.mark.parametrize("weighted", [False, True])
def test_with_the_intercept_the_skew_vanishes(names, weighted):
    """RS09 corollary 13: sum of e^-(f+b) over positives = sum of e^(f+b) over negatives."""
    X, y = two_classes()
    weight = np.random.default_rng(0).choice([0.0, 1.0, 2.0], y.size) if weighted else None
    labels = np.array(names)[y]
    if isinstance(names[0], str):
        labels = pd.Categorical(labels, categories=names, ordered=True)
    model = RankBoost(n_estimators=20, learning_rate=1.0).fit(X, labels, sample_weight=weight)
    assert list(model.classes_) == list(names)
    decision = model.decision_function(X)
    assert_array_equal(decision, model.predict(X) + model.intercept_)
    weight = np.ones(y.size) if weight is None else weight
    positive = (weight * np.exp(-decision))[y == 1].sum()
    negative = (weight * np.exp(decision))[y == 0].sum()
    assert positive == pytest.approx(negative, rel=1e-12)


def test_probabilities_are_logistic_in_twice_the_decision():
    X, y = two_classes()
    model = RankBoost(n_estimators=20, learning_rate=1.0).fit(X, y)
    proba = model.predict_proba(X)
    assert_allclose(proba[:, 1], 1 / (1 + np.exp(-2 * model.decision_function(X))), rtol=1e-12)
    assert_allclose(proba.sum(axis=1), 1)
    assert roc_auc_score(y, proba[:, 1]) == pytest.approx(model.score(X, y), abs=1e-3)


@pytest.mark.parametrize("fit", [
    lambda X, y: RankBoost(n_estimators=2, learning_rate=1.0).fit(X, y, qid=np.zeros(y.size)),
    lambda X, y: RankBoost(n_estimators=2, learning_rate=1.0).fit(X, y + np.arange(y.size) % 3),
    lambda X, y: RankBoost(n_estimators=2, learning_rate=1.0).fit(X, pairs=[(0, 1)]),
])  # fmt: skip
def test_there_are_probabilities_for_two_classes_only(fit):
    model = fit(*two_classes())
    assert not hasattr(model, "predict_proba")
    assert not hasattr(model, "decision_function")
    with pytest.raises(AttributeError) as caught:
        model.predict_proba(np.zeros((1, 3)))
    assert "after a fit on two classes" in str(caught.value.__cause__)


def test_the_score_is_the_area_under_the_roc_curve():
    X, y = load_breast_cancer(return_X_y=True)
    model = RankBoost(n_estimators=5, learning_rate=1.0).fit(X[::2], y[::2])
    weight = np.random.default_rng(0).random(y[1::2].size)
    scores = model.predict(X[1::2])
    assert model.score(X[1::2], y[1::2]) == pytest.approx(roc_auc_score(y[1::2], scores), abs=1e-12)
    assert model.score(X[1::2], y[1::2], sample_weight=weight) == pytest.approx(
        roc_auc_score(y[1::2], scores, sample_weight=weight), abs=1e-12
    )


def test_a_share_of_the_features_is_drawn_every_round():
    X, y, qid = data()
    one, same, other = (
        RankBoost(n_estimators=30, max_features=0.25, random_state=seed, learning_rate=1.0).fit(
            X, y, qid=qid
        )
        for seed in (0, 0, 1)
    )
    same_model(one, same)
    assert one.ensemble_.weak_rankers != other.ensemble_.weak_rankers
    assert len({ranker.feature for ranker in one.ensemble_.weak_rankers}) == 4


def test_a_share_of_the_features_is_drawn_for_the_largest_decrease_too():
    """With one feature in four allowed, the best one cannot be chosen every time."""
    X, y, qid = data()
    model = RankBoost(
        n_estimators=30, select="decrease", max_features=0.25, random_state=0, learning_rate=1.0
    )
    model.fit(X, y, qid=qid)
    free = RankBoost(n_estimators=30, select="decrease", learning_rate=1.0).fit(X, y, qid=qid)
    assert model.ensemble_.weak_rankers != free.ensemble_.weak_rankers


SEPARATING = [
    RankBoost(),
    RankBoost(learning_rate=1.0),
    RankBoost(step="bound"),
    RankBoost(weak_rankers="features"),
    RankBoost(max_features=0.5, random_state=0),
    PushRanker(),
    PushRanker(price=16, learning_rate=0.02),
    PushRanker(loss="logistic", price=1),
    RankBoostPlus(),
    RankBoostPlus(learning_rate=0.1),
    SmoothMarginRanker(),
    AdaBoostRanker(learning_rate=0.1),
]


@pytest.mark.filterwarnings("ignore::precede.algorithms.push.SmallSampleWarning")
@pytest.mark.parametrize("model", SEPARATING, ids=repr)
@pytest.mark.parametrize(("n", "positives"), [(12, 1), (12, 11), (150, 50), (150, 2), (2, 1)])
def test_a_stump_that_separates_two_classes_classifies_every_row(model, n, positives):
    """At any learning rate and any share of positives: no round follows the one that separates."""
    rng = np.random.default_rng(n)
    x = np.sort(rng.integers(0, 50, n))
    y = np.arange(n) >= n - positives
    X = np.stack([x + 60.0 * y, rng.random(n)], axis=1)
    model.fit(X, y)
    assert model.score(X, y) == 1
    assert_array_equal(model.classify(X), y)


def test_iris_class_zero_is_classified_at_the_default_rate():
    X, y = load_iris(return_X_y=True)
    for model in (RankBoost(), PushRanker()):
        assert_array_equal(model.fit(X, y == 0).classify(X), y == 0)
        assert model.stop_reason_ == "one ranker puts every pair in order"


def test_the_last_step_makes_up_for_what_earlier_rounds_reversed():
    """The perfect feature is drawn late; scores of the first rounds are against it."""
    y = np.repeat([0, 1], 20)
    X = np.stack([y, *np.random.default_rng(0).random((9, 40))], axis=1)
    late = 0
    for seed in range(20):
        model = RankBoost(max_features=0.1, random_state=seed).fit(X, y)
        late += len(model.ensemble_) > 1 and model.history_["perfect"][-1]
        assert model.score(X, y) == 1
    assert late > 10
