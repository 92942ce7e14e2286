"""Pair weights of RankBoost+."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import naive
import naive_algorithms
import strategies as some
from algorithms.test_rankboost_plus import prepared
from precede import Judgments
from precede.risks.pair_weights import PairWeights


@given(st.data())
@settings(max_examples=25)
def test_weights_ties_and_pull_are_those_of_all_pairs(data):
    X, made = data.draw(some.problems(most=10))
    balance = data.draw(st.sampled_from(["pairs", "queries"]))
    training = prepared(X, made, balance)
    order, pairs = training.layout.order, naive.list_pairs(made)
    weights = PairWeights(training.layout, training.context)
    mass = naive_algorithms.pair_mass(made, balance)
    n, rng = len(made), np.random.default_rng(data.draw(st.integers(0, 1000)))
    weak_rankers = [rng.integers(0, 2, n) for _ in range(11)]
    columns = [naive_algorithms.over_pairs(made, r) for r in weak_rankers]
    eta = np.zeros(11)
    for j, step in ((0, 0.3), (1, -0.7), (0, 0.4), (2, 2.0), (1, 1.1)):
        weights.advance(weak_rankers[j][order].astype(np.uint8), before=eta[j], step=step)
        eta[j] += step
    exact = mass * np.exp(naive_algorithms._exponents(columns, eta, mass.size))
    assert weights.log_risk == pytest.approx(math.log(math.fsum(exact)), abs=1e-12)
    exact /= math.fsum(exact)
    expected = [exact[column == 0].sum() for column in columns]
    assert_allclose(
        weights.ties([r[order].astype(np.uint8) for r in weak_rankers]), expected, atol=1e-13
    )
    assert weights.tied == pytest.approx(expected[1], abs=1e-13)
    pull = np.zeros(n)
    np.add.at(pull, [p.winner for p in pairs], exact)
    np.subtract.at(pull, [p.loser for p in pairs], exact)
    assert_allclose(weights.pull, pull[order], atol=1e-13)
    direction = rng.standard_normal(11)
    bytes_ = [r[order].astype(np.uint8) for r in weak_rankers]
    value, slope = weights.along(bytes_, eta, direction, 0.4)
    before = naive_algorithms.f2(columns, eta, mass)
    assert value == pytest.approx(
        naive_algorithms.f2(columns, eta + 0.4 * direction, mass) / before
    )
    gradient = naive_algorithms.f2_gradient(columns, eta + 0.4 * direction, mass)
    assert slope == pytest.approx(gradient @ direction / before, abs=1e-9)


def test_a_large_step_does_not_overflow_the_sums_of_listed_pairs():
    """Both pairs are ordered wrongly: their weights grow by exp(3) before they are shared."""
    made = Judgments.preferences([0, 0], [1, 2])
    training = prepared(np.array([[0.0], [1.0], [1.0]]), made)
    weights = PairWeights(training.layout, training.context)
    order = training.layout.order
    weights.advance(np.array([0, 1, 1], np.uint8)[order], before=0.0, step=3.0)
    assert_allclose(weights.pull, np.array([1.0, -0.5, -0.5])[order], atol=1e-15)
