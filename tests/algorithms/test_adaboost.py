"""AdaBoost, and that it and RankBoost are one (RS09 section 5)."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score

import naive
import naive_algorithms
import strategies as some
from precede import (
    AdaBoostRanker,
    Features,
    Judgments,
    PairRisk,
    PointRisk,
    RankBoost,
    Stumps,
    load,
)
from precede.inference import ranking_risk
from precede.weak_rankers.columns import Constant
from precede.weak_rankers.stumps import Stump

PIMA = Path(__file__).parents[3] / "shared" / "data" / "pima"
# Few stumps, so that both algorithms come to their limits; no two classes are separable by them.
COARSE = {"max_bins": 4, "n_jobs": 1}
ROUNDS = 4000

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


def wdbc():
    X, y = load_breast_cancer(return_X_y=True)
    return X[:, [1, 4, 8]], y


def pima():
    file = next(PIMA.glob("*.csv"), None) or next(PIMA.iterdir())
    table = np.genfromtxt(file, delimiter=",")
    return table[:, [1, 5, 7]], table[:, -1].astype(int)


REAL = [
    pytest.param(wdbc, id="wdbc"),
    pytest.param(
        pima,
        id="pima",
        marks=[
            pytest.mark.shared,
            pytest.mark.skipif(not PIMA.exists(), reason="pima does not lie beside the repository"),
        ],
    ),
]


@pytest.fixture(scope="module", params=REAL)
def both(request):
    """X, y as 1 and -1, AdaBoost and RankBoost in their limits."""
    X, y = request.param()
    ada = AdaBoostRanker(n_estimators=ROUNDS, **COARSE).fit(X, y)
    rank = RankBoost(n_estimators=ROUNDS, learning_rate=1.0, **COARSE).fit(X, y)
    return X, np.where(y == 1, 1, -1), ada, rank


# -- section 5 -------------------------------------------------------------------------------


def losses(y, F):
    """F+, F- of RS09: the exponential losses of the two classes."""
    return np.exp(-F[y == 1]).sum(), np.exp(F[y == -1]).sum()


def test_the_data_are_not_separable(both):
    X, y, ada, rank = both
    assert 0.6 < ada.score(X, y) < 0.995
    assert rank.score(X, y) < 0.995


def test_corollary_11_the_skew_vanishes(both):
    X, y, ada, _ = both
    plus, minus = losses(y, ada.decision_function(X))
    assert ada.f_skew_ == pytest.approx(plus - minus, abs=1e-6)
    assert abs(ada.f_skew_) < 1e-5 * (plus + minus)
    assert np.abs(ada.history_["f_skew"][:20]).max() > 100 * abs(ada.f_skew_)


def test_theorem_10_adaboost_minimizes_the_loss_of_rankboost(both):
    X, y, ada, rank = both
    plus, minus = losses(y, ada.decision_function(X))
    pairs = (y == 1).sum() * (y == -1).sum()
    assert plus * minus / pairs == pytest.approx(rank.history_["risk"][-1], rel=1e-8)


def test_theorem_12_the_same_area_under_the_curve(both):
    X, y, ada, rank = both
    # Rows that no stump tells apart tie in both; others have scores of their own in the limit.
    ada_scores, rank_scores = np.round(ada.predict(X), 6), np.round(rank.predict(X), 6)
    assert roc_auc_score(y, ada_scores) == pytest.approx(roc_auc_score(y, rank_scores), abs=1e-12)
    assert_allclose(ada_scores - ada_scores[0], rank_scores - rank_scores[0], atol=1e-3)


def test_corollary_13_rankboost_with_its_intercept_minimizes_the_loss_of_adaboost(both):
    X, y, ada, rank = both
    plus, minus = losses(y, rank.decision_function(X))
    assert plus == pytest.approx(minus, rel=1e-9)
    assert (plus + minus) / len(y) == pytest.approx(ada.history_["risk"][-1], rel=1e-8)


def test_theorem_14_the_same_misclassification(both):
    X, y, ada, rank = both
    assert np.abs(ada.decision_function(X)).min() > 1e-4  # nobody on the boundary
    assert np.array_equal(ada.classify(X), rank.classify(X))
    assert ada.history_["error"][-1] == pytest.approx(np.mean(ada.classify(X) != (y == 1)))
    assert_allclose(ada.predict_proba(X), rank.predict_proba(X), atol=1e-3)


@given(st.data())
def test_equation_13_bounds_the_misranked_pairs_ties_being_errors(data):
    """The paper's 1 - AUC counts a tie as an error; that of `auc` counts half."""
    y = np.repeat([1, 0], data.draw(st.tuples(st.integers(2, 6), st.integers(2, 6))))
    numbers = st.sampled_from([-1.0, 0.0, 0.5, 1.0])
    scores = np.array(data.draw(st.lists(numbers, min_size=y.size, max_size=y.size)))
    plus, minus = scores[y == 1][:, None], scores[y == 0]
    share = float((plus <= minus).mean())
    found = ranking_risk(y, scores, ties="wrong", pairs="comparable").value
    assert found == pytest.approx(share)
    assert share <= PairRisk("exponential").value(Judgments(y), scores) / minus.size / plus.size
    half = 0.5 * float((plus == minus).mean())
    assert share == pytest.approx(1 - roc_auc_score(y, scores) + half)


@given(st.data())
def test_equations_14_and_15_one_loss_is_the_product_of_the_parts_of_the_other(data):
    """F~ = F+ F-; (F+ + F-)² - skew² = 4 F~."""
    sizes = data.draw(st.tuples(st.integers(1, 6), st.integers(1, 6)))
    y = np.repeat([1, 0], sizes)
    numbers = st.floats(-4, 4).map(lambda x: round(x, 2))
    scores = np.array(data.draw(st.lists(numbers, min_size=y.size, max_size=y.size)))
    plus, minus = np.exp(-scores[y == 1]).sum(), np.exp(scores[y == 0]).sum()
    ranking = PairRisk("exponential").value(Judgments(y), scores)
    assert ranking == pytest.approx(plus * minus)
    assert (plus + minus) ** 2 - (plus - minus) ** 2 == pytest.approx(4 * ranking)


def test_without_the_constant_the_skew_stays():
    X, y = wdbc()
    ada = AdaBoostRanker(n_estimators=ROUNDS, constant=False, weak_rankers="columns", n_jobs=1)
    X = np.where(np.median(X, axis=0) * 1.2 < X, 1.0, -1.0)
    ada.fit(X, y)
    assert abs(ada.f_skew_) > 1
    ada.set_params(constant=True).fit(X, y)
    assert abs(ada.f_skew_) < 1e-5


# -- the algorithm ---------------------------------------------------------------------------


@given(some.problems(kind="bipartite", most=10), st.booleans())
def test_rounds_are_those_of_the_paper(problem, constant):
    X, made = problem
    weight = naive.item_weights(made)
    y = np.where(made.grade == made.grade.max(), 1, -1)
    rows = [i for i, w in enumerate(weight) if w > 0]
    stumps = naive.candidates(X[rows])
    classifiers = [[2 * v - 1 for v in stump.values(X)] for stump in stumps]
    classifiers += [[1] * len(y)] if constant else []
    model = AdaBoostRanker(n_estimators=8, constant=constant, n_jobs=1).fit(X, made)
    chosen, steps, F = naive_algorithms.adaboost(y, classifiers, weight, rounds=8)
    for t in range(min(len(chosen), len(model.ensemble_))):
        ranker, step = model.ensemble_.weak_rankers[t], model.ensemble_.weights[t]
        if chosen[t] == len(stumps):
            assert ranker == Constant()
            assert step == pytest.approx(steps[t], abs=1e-9)
        else:
            stump = stumps[chosen[t]]
            assert ranker == Stump(stump.feature, stump.threshold, stump.missing)
            assert step == pytest.approx(2 * steps[t], abs=1e-9)
    if len(chosen) == len(model.ensemble_):
        assert_allclose(model.decision_function(X), F, atol=1e-8)
        signed = [w * math.exp(-s * f) for w, s, f in zip(weight, y, F, strict=True)]
        plus = math.fsum(v for v, s in zip(signed, y, strict=True) if s > 0)
        assert model.f_skew_ == pytest.approx(2 * plus - math.fsum(signed), abs=1e-7)
        if chosen:
            risk = model.history_["risk"][-1]
            assert risk == pytest.approx(math.fsum(signed) / sum(weight))


def test_real_values_take_a_line_search():
    X, y = load_breast_cancer(return_X_y=True)
    for weak_rankers in ("features", "columns", Stumps() | Features()):
        model = AdaBoostRanker(weak_rankers=weak_rankers, n_estimators=30).fit(
            X[:, :5] / X.max(), y
        )
        assert np.all(np.diff(model.history_["log_risk"]) <= 1e-12)
        assert model.score(X[:, :5] / X.max(), y) > 0.9


def test_a_classifier_without_a_mistake_ends_it():
    model = AdaBoostRanker().fit([[0.0], [1.0], [2.0]], [0, 0, 1])
    assert model.n_estimators_ == 1
    assert list(model.classify([[0.0], [1.0], [2.0]])) == [0, 0, 1]
    assert np.isfinite(model.intercept_)


# -- the estimator ---------------------------------------------------------------------------


@pytest.mark.parametrize("fields", [{"qid": [1, 1, 2, 2]}, {"pairs": [(3, 0)]}, {}])
def test_other_targets_are_refused(fields):
    y = [0, 1, 0, 1] if fields else [0, 1, 2, 1]
    with pytest.raises(ValueError, match="two classes in one list"):
        AdaBoostRanker().fit([[0.0], [1.0], [2.0], [3.0]], y, **fields)
    with pytest.raises(ValueError, match="two classes in one list"):
        PointRisk().value(Judgments(y, **fields), [0.0] * 4)


def test_saved_and_loaded(tmp_path):
    X, y = wdbc()
    named = pd.Categorical.from_codes((y == 1).astype(int), ["yes", "no"], ordered=True)
    model = AdaBoostRanker(n_estimators=30).fit(X, named)
    model.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    assert np.array_equal(again.classify(X), model.classify(X))
    assert again.f_skew_ == model.f_skew_
    assert set(again.classify(X)) == {"yes", "no"}


def test_early_stopping_keeps_the_intercept_of_the_rounds_kept():
    X, y = wdbc()
    model = AdaBoostRanker(n_estimators=200, early_stopping_rounds=5)
    model.fit(X[::2], y[::2], eval_set=(X[1::2], y[1::2]))
    assert model.n_estimators_ < len(model.history_)
    short = AdaBoostRanker(n_estimators=model.n_estimators_).fit(X[::2], y[::2])
    assert model.intercept_ == short.intercept_
    assert model.f_skew_ == short.f_skew_


def test_a_warm_start_without_stumps_keeps_the_constant_of_earlier_votes():
    X, y = load_breast_cancer(return_X_y=True)
    model = AdaBoostRanker(n_estimators=5, warm_start=True).fit(X, y)
    votes = model.intercept_
    model.set_params(weak_rankers="features", n_estimators=6).fit(X, y)
    assert model.intercept_ == votes != 0
    risk = np.exp(-np.where(y == 1, 1, -1) * model.decision_function(X)).mean()
    assert risk == pytest.approx(model.history_["risk"][-1])


def test_some_features_in_a_round_and_always_the_constant():
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(200, 3)), generator.random(200) < 0.1
    model = AdaBoostRanker(n_estimators=60, max_features=0.4, random_state=0).fit(X, y)
    assert model.ensemble_.weak_rankers[0] == Constant()  # before all else, that most are negative
    assert {r.feature for r in model.ensemble_.weak_rankers if r != Constant()} == {0, 1, 2}


@pytest.mark.parametrize("constant", [1, "yes", None])
def test_a_senseless_constant_is_refused(constant):
    with pytest.raises(ValueError, match="constant="):
        AdaBoostRanker(constant=constant).fit([[0.0], [1.0]], [0, 1])
