"""Rademacher averages against brute force."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_evaluation as naive
from precede.bounds import (
    rademacher_bound,
    stump_supremum,
)
from precede.engine.table import Table
from precede.weak_rankers.stumps import Stumps

values = st.integers(0, 3).map(float) | st.floats(-5, 5) | st.just(math.nan)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_stump_supremum_is_the_best_by_brute_force(data):
    n, d = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 3))
    X = data.draw(st.lists(st.lists(values, min_size=d, max_size=d), min_size=n, max_size=n))
    signs = data.draw(st.lists(st.sampled_from([-1, 1]), min_size=n, max_size=n))
    assert stump_supremum(X, signs) == naive.stump_supremum(X, signs)
    both = stump_supremum(X, [signs, [1] * n])
    assert list(both) == [naive.stump_supremum(X, signs), n]


@pytest.mark.parametrize(
    ("cost", "value", "slope"),
    [
        ("exponential", math.exp, math.exp),
        (
            "logistic",
            lambda x: math.log2(1 + math.exp(x)),
            lambda x: 1 / (1 + math.exp(-x)) / math.log(2),
        ),
        ("hinge", lambda x: max(1 + x, 0), lambda x: 1.0),
    ],
)
def test_rademacher_bound_is_the_sum_of_its_terms(cost, value, slope):
    X = np.random.default_rng(0).normal(size=(401, 2)).round(2)  # below 255 distinct values
    assert max(np.unique(column).size for column in X.T) <= 255
    B, delta = 1.3, 0.1
    bound = rademacher_bound(X, radius=B, cost=cost, delta=delta, n_draws=50, random_state=1)
    signs = 2 * np.random.default_rng(1).integers(2, size=(50, 200), dtype=np.int8) - 1
    sups = [naive.stump_supremum(X[:400], [*row, *-row]) for row in signs[:3]]
    library = stump_supremum(X[:400], np.concatenate([signs, -signs], axis=1))
    assert list(library[:3]) == sups
    average = B * library.mean() / 200
    log = math.log(2 / delta)
    terms = [
        4 * slope(B) * average,
        4 * slope(B) * B * math.sqrt((1 + 2 / 50) * log / 200),
        (value(B) - value(-B)) * math.sqrt(8 * log / 401),
    ]
    assert list(bound.terms.values()) == pytest.approx(terms)
    printed = rademacher_bound(
        X, radius=B, cost=cost, delta=delta, n_draws=50, random_state=1, constants="printed"
    )
    terms = [8 * B * slope(B) * average, math.sqrt(2 * B**2 * math.log(10) / (2 * 400))]
    assert list(printed.terms.values()) == pytest.approx(terms)
    assert any("exact" in sentence for sentence in printed.assumptions)


@pytest.mark.parametrize("distinct", [254, 255])
def test_stump_supremum_is_exact_up_to_255_values_with_missing_ones(distinct):
    rng = np.random.default_rng(distinct)
    X = np.repeat(rng.permutation(distinct), 2)[:, None] / 7
    X = np.vstack([X, [[np.nan]] * 5])
    for _ in range(5):
        signs = rng.choice([-1, 1], size=len(X))
        assert stump_supremum(X, signs) == naive.stump_supremum(X.tolist(), signs.tolist())


def test_stump_supremum_of_many_values_is_over_bins():
    rng = np.random.default_rng(0)
    X, signs = rng.normal(size=(3000, 2)), rng.choice([-1, 1], size=(20, 3000))
    below = np.cumsum(signs[:, np.argsort(X, axis=0)], axis=1)  # draws, rows, features
    every = np.abs(signs.sum(axis=1)[:, None, None] - below).max(axis=(1, 2))
    binned = stump_supremum(X, signs)
    assert (binned <= np.maximum(every, np.abs(signs.sum(axis=1)))).all()
    assert (binned > 0.8 * every).all()


def test_stump_supremum_is_what_the_search_of_the_library_finds():
    rng = np.random.default_rng(1)
    X, signs = rng.integers(0, 9, size=(60, 3)).astype(float), rng.choice([-1.0, 1.0], size=30)
    balanced = np.concatenate([signs, -signs])
    found = Stumps().search(Table.build(X), balanced / 60)
    assert stump_supremum(X, balanced) == pytest.approx(60 * abs(found.edge))
    assert stump_supremum(X, balanced) == abs(balanced @ found.weak_ranker(X))
    assert stump_supremum(X, 1e-200 * balanced) == pytest.approx(60e-200 * abs(found.edge))
    assert stump_supremum(np.ones((4, 1)), [1, -1, 1, -1]) == 0
    assert stump_supremum(X, np.zeros(60)) == 0


def test_rademacher_needed_samples_scales_as_one_over_the_root():
    X = np.random.default_rng(0).normal(size=(200, 3))
    bound = rademacher_bound(X, radius=2.0, cost="hinge", random_state=0)
    assert bound.vacuous
    ratio = bound.needed_samples / 200
    assert bound.value / math.sqrt(ratio) == pytest.approx(1, rel=0.01)
