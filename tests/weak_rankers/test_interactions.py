"""Interaction strengths and pair terms, compared with a naive search."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import naive_trees
from emulated_device import EmulatedDevice, assert_same_fit, needs_compiler
from precede import GlassBoxRanker
from precede.engine.execution import Context
from precede.engine.table import Table
from precede.weak_rankers.interactions import Grid, PairTerms, interaction_strengths

VALUES = st.sampled_from([0.0, 1.0, 2.0, 3.0, math.nan])


@st.composite
def problems(draw, categorical=True):
    rows = draw(st.integers(4, 24))
    X = np.array(draw(st.lists(st.lists(VALUES, min_size=2, max_size=2), min_size=rows,
                               max_size=rows)))  # fmt: skip
    whole = st.lists(st.integers(-8, 8), min_size=rows, max_size=rows)
    pull = np.array(draw(whole)) / 64
    weight = np.array(draw(st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=rows,
                                    max_size=rows)))  # fmt: skip
    named = [f for f in (0, 1) if categorical and draw(st.booleans())]
    return Table.build(X, categorical=named), pull, weight


def naive_rows(grid, pull, weight):
    mean = weight.mean()
    return [
        (int(a), int(b), p, w / mean)
        for a, b, p, w in zip(*grid.codes, pull.tolist(), weight.tolist(), strict=True)
    ]


@settings(max_examples=60)
@given(problems(), st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 2.0]))
def test_strengths_equal_those_of_a_naive_search(problem, penalty, least):
    table, pull, weight = problem
    context = Context(1)
    found = interaction_strengths(
        table, pull, weight, np.arange(2), context, reg_lambda=penalty, min_weight=least
    )
    grid = Grid.build(table, np.arange(2), 15, context)
    slow = naive_trees.strength(
        naive_rows(grid, pull, weight), grid.sizes.tolist(), grid.categorical.tolist(), penalty,
        least,
    )  # fmt: skip
    assert_allclose(found[0, 1], slow if np.abs(pull).any() else 0.0, rtol=1e-5, atol=1e-12)


@settings(max_examples=60)
@given(problems(categorical=False), st.sampled_from([0.0, 1.0]), st.sampled_from([1, 3]))
def test_a_pair_term_has_the_gain_of_the_naive_search(problem, penalty, least):
    table, pull, weight = problem
    family = PairTerms([(0, 1)], reg_lambda=penalty, min_child_samples=least, min_child_weight=0)
    search = family.start(table)
    found = search.fit(pull, weight)
    slow = naive_trees.best_gain(
        naive_rows(search.grid, pull, weight), search.grid.sizes.tolist(), penalty, least
    )
    if found is None:
        assert slow < 1e-6
        return
    mean = weight.mean()
    leaves = {}
    for value, p, w in zip(found.values.tolist(), pull, weight, strict=True):
        leaf = leaves.setdefault(value, [0.0, 0.0])
        leaf[0] += p
        leaf[1] += w / mean
    gain = sum(p * p / (w + penalty) for p, w in leaves.values())
    gain -= naive_trees.worth([(0, 0, pull.sum(), weight.sum() / mean)], penalty)
    # Leaves of equal value are merged here; with a penalty that scores higher than two leaves.
    if penalty == 0 or len(leaves) == 4:
        assert_allclose(gain, slow, rtol=1e-4, atol=1e-6)
    assert_array_equal(found.weak_ranker.on(table), found.values)


def test_an_interaction_without_main_effects_is_found_in_one_round():
    generator = np.random.default_rng(0)
    X = generator.uniform(-1, 1, (2000, 3))
    pull = np.where(X[:, 0] * X[:, 2] > 0, 1.0, -1.0) / 2000
    found = PairTerms([(0, 1), (1, 2), (0, 2)]).search(Table.build(X), pull)
    assert found.weak_ranker.features == (0, 2)
    assert np.mean(np.sign(found.values) == np.sign(pull)) > 0.9


def test_nothing_depends_on_threads_or_on_the_order_of_rows():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(60_000, 5)).round(2)
    pull = (generator.normal(size=60_000) + np.sign(X[:, 1] * X[:, 3])) / 60_000
    weight = generator.random(60_000)
    order = generator.permutation(60_000)
    told = []
    for rows, jobs in ((np.arange(60_000), 1), (order, 3)):
        with Context(jobs) as context:
            table = Table.build(X[rows])
            strengths = interaction_strengths(
                table, pull[rows], weight[rows], np.arange(5), context, item_weight=weight[rows]
            )
            search = PairTerms([(0, 1), (1, 3)]).start(table, context)
            told.append((strengths, search.fit(pull[rows], weight[rows]).weak_ranker))
    assert told[0] == told[1]
    assert max(told[0][0], key=told[0][0].get) == (1, 3)


def test_a_grid_keeps_heavy_categories_and_the_others_join_missing_values():
    X = np.array([[0.0], [1], [1], [2], [2], [2], [3], [np.nan]])
    grid = Grid.build(Table.build(X, categorical=[0]), np.array([0]), 2, Context(1))
    assert grid.cuts == ((1.0, 2.0),)
    assert_array_equal(grid.codes[0], [2, 0, 0, 1, 1, 1, 2, 2])


def test_without_a_pull_nothing_is_found():
    X = np.arange(16.0).reshape(8, 2)
    assert PairTerms([(0, 1)]).search(Table.build(X), np.zeros(8)) is None


@needs_compiler
def test_strengths_on_a_gpu():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 30, (400, 5)).astype(float)
    X[rng.random(X.shape) < 0.1] = math.nan
    table, pull, weight = Table.build(X), rng.normal(size=400), rng.random(400)
    found = [
        interaction_strengths(table, pull, weight, np.arange(5), context)
        for context in (Context(1), Context(1, EmulatedDevice()))
    ]
    assert found[0] == found[1]
    nothing = interaction_strengths(
        table, 0 * pull, weight, np.arange(5), Context(1, EmulatedDevice())
    )
    assert set(nothing.values()) == {0.0}


@pytest.mark.parametrize("loss", ["logistic", "exponential"])
def test_glass_boxes_have_the_same_bits_on_a_gpu(device, loss):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(600, 4))
    X[rng.random(X.shape) < 0.05] = np.nan
    y = np.nan_to_num(X[:, 0] + 2 * np.sign(X[:, 1] * X[:, 2])) + rng.normal(size=600) > 0
    given = {"interactions": 2, "n_estimators": 5, "pair_estimators": 4, "loss": loss}
    qid = rng.integers(0, 30, 600)
    here, model = GlassBoxRanker(**given).fit(X, y, qid=qid), GlassBoxRanker(**given)
    assert here.pair_strengths_ == assert_same_fit(model, [], X, y, qid=qid).pair_strengths_
    assert {"triple_fill", "fill_histograms"} <= {*device.launched}
