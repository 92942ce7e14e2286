"""Additive models: tabulation, averaging and purification."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from precede.engine.execution import Context
from precede.engine.table import Table
from precede.weak_rankers.columns import Constant
from precede.weak_rankers.interactions import PairTerms
from precede.weak_rankers.stumps import Stump
from precede.weak_rankers.terms import AdditiveModel, Term, average_models, purify, tabulate
from precede.weak_rankers.tree_grower import Trees


def sample(seed, rows=120):
    generator = np.random.default_rng(seed)
    X = np.column_stack([
        generator.normal(size=rows), generator.integers(0, 5, rows), generator.integers(0, 3, rows),
    ]).astype(float)  # fmt: skip
    X[generator.random(X.shape) < 0.1] = np.nan
    return X, generator


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_tabulated_scores_equal_those_of_the_weak_rankers(seed):
    X, generator = sample(seed)
    table = Table.build(X, categorical=[2])
    single = Trees(interaction_constraints=[[0], [1], [2]], num_leaves=4, min_child_samples=2)
    weak_rankers = [(Constant(), 0.5)]
    for weight in (1.0, 0.25):
        pull = generator.normal(size=len(X)) / len(X)
        weak_rankers.append((single.search(table, pull).weak_ranker, weight))
        pairs = PairTerms([(0, 1), (1, 2)], min_child_samples=2)
        weak_rankers.append((pairs.search(table, pull).weak_ranker, weight))
    made = tabulate(weak_rankers, table, Context(1))
    scores = sum(weight * ranker(X) for ranker, weight in weak_rankers)
    assert_allclose(made.on(table), scores, atol=1e-14)
    for key, term in made.terms.items():
        assert sum(term.counts) == len(X)
        cells = [term.bins(axis, X[:, feature]) for axis, feature in enumerate(key)]
        slow = np.zeros(term.shape, int)
        np.add.at(slow, tuple(cells), 1)
        assert_array_equal(term.count, slow)
        assert_array_equal(term.on(table), term(X))


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.booleans())
def test_purified_pairs_have_no_main_effect_and_scores_stay(seed, weighted):
    X, generator = sample(seed)
    table = Table.build(X, categorical=[2])
    weight = generator.random(len(X)) if weighted else np.ones(len(X))
    cuts = (tuple(table.bins.cuts[0][[10, 40]]), tuple(table.bins.cuts[1]))
    cells = 4 * (len(cuts[1]) + 2)
    pair = Term((0, 1), cuts, (False, False), tuple(generator.normal(size=cells)), (0,) * cells)
    named = Term((1, 2), (cuts[1], (0.0, 2.0)), (False, True),
                 tuple(generator.normal(size=3 * (len(cuts[1]) + 2))),
                 (0,) * (3 * (len(cuts[1]) + 2)))  # fmt: skip
    model = AdditiveModel({(0, 1): pair, (1, 2): named}, 0.5)
    pure = purify(model, table, weight, Context(1))
    assert_allclose(pure.on(table), model.on(table), atol=1e-12)
    unseen = np.column_stack([generator.normal(size=50), generator.integers(-1, 9, (50, 2))])
    before = 0.5 + pair(unseen) + named(unseen)
    after = pure.constant + sum(term(unseen) for term in pure.terms.values())
    assert_allclose(after, before, atol=1e-12)
    for key, term in pure.terms.items():
        cells = [term.bins(axis, X[:, feature]) for axis, feature in enumerate(key)]
        share = np.zeros(term.shape)
        np.add.at(share, tuple(cells), weight / weight.sum())
        assert abs((share * term.table).sum()) < 1e-12
        if len(key) == 2:
            for axis in (0, 1):
                assert_allclose((share * term.table).sum(axis=axis), 0, atol=1e-10)


def test_features_without_a_curve_keep_their_main_effects():
    X, generator = sample(0)
    table = Table.build(X)
    pair = Term((0, 1), ((0.0,), (1.5,)), (False, False), tuple(generator.normal(size=9)), (0,) * 9)
    cuts = (float(table.bins.cuts[0][50]),), (float(table.bins.cuts[1][1]),)
    pair = Term((0, 1), cuts, (False, False), pair.values, pair.counts)
    model = AdditiveModel({(0, 1): pair})
    pure = purify(model, table, np.ones(len(X)), Context(1), curves=frozenset({1}))
    assert set(pure.terms) == {(1,), (0, 1)}
    assert_allclose(pure.on(table), model.on(table), atol=1e-12)


def test_means_over_models_have_standard_errors():
    X = np.arange(10.0)[:, None]
    table = Table.build(X)
    curves = [
        AdditiveModel({(0,): Term((0,), ((cut,),), (False,), (0.0, 2.0, 0.0), (0,) * 3)}, 1.0)
        for cut in (2.5, 4.5)
    ]
    mean = average_models(curves, table, Context(1))
    term = mean.terms[0,]
    assert term.cuts == ((2.5, 4.5),)
    assert term.values == (0.0, 1.0, 2.0, 0.0)
    assert_allclose(term.errors, [0, np.sqrt(2), 0, 0])
    assert term.counts == (3, 2, 5, 0)
    assert mean.constant == 1.0


def test_only_functions_of_one_or_two_features_become_tables():
    table = Table.build(np.arange(10.0)[:, None])
    with pytest.raises(ValueError, match="nor a term"):
        tabulate([(Stump(0, 2.0), 1.0)], table, Context(1))
