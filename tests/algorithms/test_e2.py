"""E2 of any ensemble of two-valued rankers: equal to the enumeration of all pairs."""

import math
import warnings

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import naive_algorithms
import strategies as some
from precede import (
    Judgments,
    PairRisk,
    RankBoost,
    RankBoostPlus,
    Stump,
    e2_loss,
    pairs_in_order,
    staged_e2_loss,
)
from precede.algorithms import e2 as module
from precede.boosting.steps import SmoothedStepWarning
from precede.model import Ensemble
from precede.risks.pair_weights import pair_factors
from precede.weak_rankers.columns import Column, Constant, Feature

MODELS = {
    "RB-D": lambda **options: RankBoost(learning_rate=1.0, **options),
    "RB-C": lambda **options: RankBoost(step="bound", learning_rate=1.0, **options),
    "RankBoost+": RankBoostPlus,
    "optimal": lambda **options: RankBoostPlus(search="optimal", **options),
}


def fitted(name, X, made, rounds=8, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmoothedStepWarning)
        return MODELS[name](n_estimators=rounds, n_jobs=1, **options).fit(X, made)


def values_of(model, X):
    rows = np.asarray(X, float)
    return [tuple(ranker(rows).astype(int).tolist()) for ranker in model.ensemble_.weak_rankers]


def some_data(seed=0, n=60, queries=4):
    rng = np.random.default_rng(seed)
    X = np.round(rng.standard_normal((n, 4)), 1)
    y = np.digitize(X[:, 0] + rng.standard_normal(n), [-1.0, 0.0, 1.0]).astype(float)
    return X, Judgments(y, rng.integers(0, queries, n))


# -- the definition, enumerated -----------------------------------------------------------------


@given(st.data())
@settings(max_examples=40)
def test_any_weights_of_any_stumps(data):
    X, made = data.draw(some.problems(most=9))
    rows, balance = np.asarray(X, float), data.draw(st.sampled_from(["pairs", "queries", "items"]))
    stumps = st.builds(
        Stump,
        st.integers(0, rows.shape[1] - 1),
        st.sampled_from([-math.inf, -0.5, 0.5, 1.5]),
        st.integers(0, 1),
    )
    parts = data.draw(st.lists(st.tuples(stumps, st.floats(-3, 3)), max_size=8))
    weak_rankers, weights = [p[0] for p in parts], [p[1] for p in parts]
    ensemble = Ensemble(weak_rankers, weights, rows.shape[1])
    stages = staged_e2_loss(ensemble, rows, made, balance=balance)
    assert stages.shape == (len(parts),)
    for t in range(len(parts)):
        # Stumps that differ are different rankers even where their values are the same.
        eta = {}
        for ranker, weight in parts[: t + 1]:
            eta[ranker] = eta.get(ranker, 0.0) + weight
        columns = [naive_algorithms.over_pairs(made, ranker(rows).astype(int)) for ranker in eta]
        expected = naive_algorithms.f2(
            columns, eta.values(), naive_algorithms.pair_mass(made, balance)
        )
        assert stages[t] == pytest.approx(expected, rel=1e-10)
    last = stages[-1] if parts else 1.0
    assert e2_loss(ensemble, rows, made, balance=balance) == pytest.approx(last, rel=1e-10)


@given(st.data())
@settings(max_examples=40)
def test_independent_rankers_as_in_the_papers_section_5(data):
    X, made = data.draw(some.problems(most=9))
    name = data.draw(st.sampled_from(["RB-D", "RB-C", "RankBoost+"]))
    model = fitted(name, X, made)
    values, weights = values_of(model, X), model.ensemble_.weights
    stages = staged_e2_loss(model, X, made, independent=True)
    for t, found in enumerate(stages, 1):
        expected = naive_algorithms.e2_independent(made, values[:t], weights[:t])
        assert found == pytest.approx(expected, rel=1e-7)
    assert e2_loss(model, X, made, independent=True) == pytest.approx(
        stages[-1] if stages.size else 1.0, rel=1e-9
    )


@pytest.mark.parametrize("name", ["RankBoost+", "optimal"])
@given(problem=some.problems(most=9))
@settings(max_examples=20)
def test_rankboost_plus_reports_this_loss(name, problem):
    X, made = problem
    model = fitted(name, X, made)
    ends = model.history_["parts"].astype(int) if len(model.history_) else []
    for independent in (False, True):
        stages = staged_e2_loss(model, X, made, independent=independent)
        for end, risk in zip(ends, model.history_["risk"], strict=True):
            assert stages[end - 1] == pytest.approx(risk, rel=1e-9)


@given(st.data())
@settings(max_examples=30)
def test_proposition_2_and_e1(data):
    """E2 bounds the pairs out of order with ties counting half, and E1 as well."""
    X, made = data.draw(some.problems(most=9))
    model = fitted(data.draw(st.sampled_from(sorted(MODELS))), X, made)
    scores = model.ensemble_.predict(np.asarray(X, float))
    e1 = PairRisk("exponential").value(made, scores) / made.to_layout("pairs").total
    for independent in (False, True):
        found = e2_loss(model, X, made, independent=independent)
        assert found >= 1 - pairs_in_order(made, scores) - 1e-9
        assert found >= e1 * (1 - 1e-9)


def test_lemma_2_by_hand():
    """C19 lemma 2 (n = 1): 20 pairs right and 5 tied by the first, 1, 16 and 8 of the second."""
    rank = [(1, 0)] * 4 + [(0, 1)] + [(0, 1)] * 4 + [(0, 0)]
    made = Judgments([1] * 5 + [0] * 5)
    ensemble = Ensemble([Column(0), Column(1)], [0.7, -0.4], 2)
    one, two = math.exp(-0.7), math.exp(-0.4)
    # Pairs by what the two rankers do: (right, wrong), (right, tied), (tied, tied), (tied, right).
    expected = 16 * one * two + 4 * one * math.cosh(0.4)
    expected += math.cosh(0.7) * (4 * math.cosh(0.4) + 1 / two)
    assert e2_loss(ensemble, np.array(rank), made) == pytest.approx(expected / 25, rel=1e-14)


def test_equal_vectors_count_once_where_rankers_are_independent():
    """f2 = f3: weights of 1 and 2 on both tie a pair at cosh 1 cosh 2, or at cosh 3."""
    X, made = np.array([[1, 1], [0, 0], [0, 0]]), Judgments([2, 1, 0])
    twice = Ensemble([Column(0), Column(1)], [1.0, 2.0], 2)
    right = 2 * math.exp(-3.0)
    apart = (right + math.cosh(1.0) * math.cosh(2.0)) / 3
    assert e2_loss(twice, X, made) == pytest.approx(apart, rel=1e-14)
    joined = (right + math.cosh(3.0)) / 3
    assert e2_loss(twice, X, made, independent=True) == pytest.approx(joined, rel=1e-14)
    constant = Ensemble([Constant()], [1.0], 2)  # orders nothing
    assert e2_loss(constant, X, made) == pytest.approx(math.cosh(1.0), rel=1e-14)
    assert e2_loss(constant, X, made, independent=True) == 1.0


@given(st.data())
@settings(max_examples=40)
def test_proposition_3_orders_weak_rankers_as_r2_does(data):
    X, made = data.draw(some.problems(most=9, tied=False))  # R2 leaves ties out
    rows = np.asarray(X, float)
    cut, other = (
        Stump(
            data.draw(st.integers(0, rows.shape[1] - 1)),
            data.draw(st.sampled_from([-math.inf, -0.5, 0.5, 1.5])),
            data.draw(st.integers(0, 1)),
        )
        for _ in range(2)
    )
    r2 = [1 - pairs_in_order(made, ranker(rows)) for ranker in (cut, other)]
    found = [
        e2_loss(Ensemble([ranker], [1.0], rows.shape[1]), rows, made) for ranker in (cut, other)
    ]
    # Eq. 40: E2 is a linear function of R2.
    expected = [each * 2 * math.sinh(1.0) + math.exp(-1.0) for each in r2]
    assert_allclose(found, expected, rtol=1e-12)


def test_equation_43():
    """A product of averages over pairs, with rankers of values +1 and -1."""
    X, made = some_data(n=30, queries=1)
    model = fitted("RankBoost+", X, made)
    eta = {}
    for ranker, weight in zip(model.ensemble_.weak_rankers, model.ensemble_.weights, strict=True):
        eta[ranker] = eta.get(ranker, 0.0) + weight
    votes = np.array([2.0 * ranker(X) - 1 for ranker in eta])
    weights = np.array(list(eta.values()))[:, None]
    up, down = np.exp(-weights * votes), np.exp(weights * votes)
    above = np.argwhere(made.grade[:, None] > made.grade)
    terms = [np.prod((up[:, i] + down[:, k]) / 2) for i, k in above]
    assert e2_loss(model, X, made) == pytest.approx(np.mean(terms), rel=1e-12)


def test_dependent_rankers_bring_e2_down_to_e1():
    """Section 3.2: cosh(x / k)^k falls to 1 as a ranker is written as k equal ones."""
    X, made = np.array([[1.0] * 64, [0.0] * 64, [0.0] * 64]), Judgments([2, 1, 0])
    found = [
        e2_loss(Ensemble([Column(j) for j in range(k)], [2.0 / k] * k, 64), X, made)
        for k in (1, 2, 4, 8, 16, 32, 64)
    ]
    e1 = (2 * math.exp(-2.0) + 1) / 3
    assert np.all(np.diff(found) < 0)
    assert e1 < found[-1] < e1 + 0.02


# -- numbers ------------------------------------------------------------------------------------


@given(st.floats(-300, 300), st.floats(-300, 300))
def test_factors_do_not_cancel(before, step):
    wanted = np.logaddexp(before + step, -before - step) - np.logaddexp(before, -before)
    assert math.log(pair_factors(before, step)[2]) == pytest.approx(wanted, abs=1e-12)


def test_weights_that_vanish_come_back(monkeypatch):
    """A pair can weigh less than the smallest number for a while."""
    X, made = np.array([[1], [0], [0]]), Judgments([2, 1, 0])
    there_and_back = Ensemble([Column(0)] * 3, [2000.0, -2000.0, 0.5], 1)
    plain = Ensemble([Column(0)], [0.5], 1)
    expected = e2_loss(plain, X, made)
    assert e2_loss(there_and_back, X, made) == pytest.approx(expected, rel=1e-12)
    assert_allclose(staged_e2_loss(there_and_back, X, made), [math.inf, 1.0, expected], rtol=1e-12)
    back = Ensemble([Column(0)] * 3, [600.0, -600.0, 0.5], 1)
    stages = staged_e2_loss(back, X, made)
    assert_allclose(stages[1:], [1.0, expected], rtol=1e-12)
    assert np.log(stages[0]) == pytest.approx(600 - math.log(6))  # one pair of three is tied
    X, made = some_data()
    model = fitted("RB-D", X, made, rounds=20)
    exact = staged_e2_loss(model, X, made)
    monkeypatch.setattr(module, "MAX_TOTAL_STEP", 1.0)
    assert_allclose(staged_e2_loss(model, X, made), exact, rtol=1e-12)


def test_order_of_rows_and_threads_leave_no_trace():
    X, made = some_data(n=300)
    model = fitted("RB-C", X, made, rounds=30)
    expected = staged_e2_loss(model, X, made, n_jobs=1)
    order = np.random.default_rng(1).permutation(len(X))
    for independent in (False, True):
        expected = staged_e2_loss(model, X, made, n_jobs=1, independent=independent)
        again = staged_e2_loss(model, X[order], made[order], n_jobs=2, independent=independent)
        assert_array_equal(again, expected)


def test_weight_two_is_the_row_twice():
    X, made = some_data()
    weight = np.where(np.arange(len(X)) % 3 == 0, 2.0, 1.0)
    weighted = Judgments(made.grade, made.qid, weight=weight)
    twice = np.repeat(np.arange(len(X)), weight.astype(int))
    model = fitted("RB-C", X, made)
    assert e2_loss(model, X[twice], made[twice]) == pytest.approx(
        e2_loss(model, X, weighted), rel=1e-12
    )


def test_sparse_rows_and_new_rows():
    X, made = some_data()
    other, judged = some_data(seed=5)
    model = fitted("RB-C", X, made)
    dense = e2_loss(model, other, judged)
    assert e2_loss(model, scipy.sparse.csr_array(other), judged) == dense
    expected = naive_algorithms.e2(judged, values_of(model, other), model.ensemble_.weights)
    assert dense == pytest.approx(expected, rel=1e-10)


# -- refusals -----------------------------------------------------------------------------------


def test_refusals(monkeypatch):
    X, made = some_data()
    model = fitted("RB-C", X, made)
    real = RankBoost(weak_rankers="features", n_estimators=3, learning_rate=1.0).fit(X, made)
    with pytest.raises(ValueError, match=r"Feature.* takes the value .*values 0 and 1.*stumps"):
        e2_loss(real, X, made)
    with pytest.raises(ValueError, match="takes the value 3"):
        staged_e2_loss(Ensemble([Column(0)], [1.0], 1), np.full((len(X), 1), 3.0), made)
    with pytest.raises(ValueError, match="takes the value nan"):
        e2_loss(Ensemble([Column(0)], [1.0], 1), np.full((len(X), 1), np.nan), made)
    with pytest.raises(ValueError, match=r"judgments is ndarray.*Judgments\(y, qid\)"):
        e2_loss(model, X, made.grade)
    with pytest.raises(ValueError, match="RankBoost has no ensemble"):
        e2_loss(RankBoost(), X, made)
    with pytest.raises(ValueError, match="X has 59 rows and judgments have 60"):
        e2_loss(model, X[1:], made)
    with pytest.raises(ValueError, match="features"):
        e2_loss(model.ensemble_, X[:, :2], made)
    with pytest.raises(ValueError, match="no pair"):
        e2_loss(model, X, Judgments(np.ones(len(X))))
    monkeypatch.setattr(module, "free_memory", lambda: 1000)
    with pytest.raises(ValueError, match="1e-06 GB are free; use fewer rows"):
        e2_loss(model, X, made)


def test_features_that_are_binary_are_accepted():
    X, made = np.array([[1.0], [0.0], [0.0]]), Judgments([2, 1, 0])
    feature = Feature(0, 0.0, 1.0)
    stump = Ensemble([Stump(0, 0.5)], [1.0], 1)
    assert e2_loss(Ensemble([feature], [1.0], 1), X, made) == e2_loss(stump, X, made)
