"""Features, columns and the constant: values and search, compared with brute force."""

import math

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal

import naive
from precede import Columns, Constants, Features, SearchResult
from precede.engine.exact import TIE
from precede.engine.table import Table
from precede.weak_rankers.columns import Column, Constant, Feature
from weak_rankers.test_base import searches


def test_a_feature_is_scaled_and_clipped_and_missing_is_lowest():
    X = np.array([[2.0], [3.0], [4.0], [9.0], [math.nan]])
    assert_array_equal(Feature(0, 2.0, 4.0)(X), [0, 0.5, 1, 1, 0])


def test_a_feature_that_spans_all_numbers_is_scaled_without_overflow():
    X = np.array([[-1e308], [0.0], [1e308]])
    assert_allclose(Feature(0, -1e308, 1e308)(X), [0, 0.5, 1])


def test_values_far_beyond_a_feature_are_clipped_without_overflow():
    X = np.array([[-1.7e308], [-1e308], [-0.9e308], [1.7e308]])
    assert_allclose(Feature(0, -1e308, -0.8e308)(X), [0, 0, 0.5, 1])


@pytest.mark.parametrize("ends", [(1.0, 1.0), (2.0, 1.0), (-np.inf, 0.0), (0.0, np.inf)])
def test_a_feature_without_a_range_is_refused(ends):
    with pytest.raises(ValueError, match="a feature needs a finite range"):
        Feature(0, *ends)


def test_a_binary_column_is_uint8():
    """uint8 enables closed-form steps."""
    table = Table.build(np.array([[0.0, 0.5], [1.0, 1.0]]))
    assert Column(0).on(table).dtype == np.uint8
    assert Column(1).on(table).dtype == np.float64


@given(searches())
def test_the_best_feature_is_the_best_by_brute_force(search):
    X, pull = search
    low, high = (
        [f([x for x in X[:, j] if not math.isnan(x)], default=0.0) for j in range(X.shape[1])]
        for f in (min, max)
    )
    usable = [j for j in range(X.shape[1]) if high[j] > low[j]]
    weak_rankers = [Feature(j, float(low[j]), float(high[j])) for j in usable]
    edges = [naive.edge(pull, ranker(X)) for ranker in weak_rankers]
    chosen = naive.first_of_the_best([abs(e) if abs(e) > 1e-14 else 0.0 for e in edges], TIE)
    found = Features().search(Table.build(X), pull)
    if chosen is None:
        assert found is None or abs(found.edge) < 1e-14
    else:
        assert found.weak_ranker == weak_rankers[chosen]
        assert found.edge == pytest.approx(edges[chosen], abs=1e-14)


@given(searches())
def test_the_best_column_is_the_best_by_brute_force(search):
    X, pull = np.nan_to_num(search[0]), search[1]
    edges = [naive.edge(pull, X[:, j].astype(float)) for j in range(X.shape[1])]
    scale = np.abs(X).max(axis=0).astype(float)
    worth = [abs(e) if abs(e) > 1e-13 * s else 0.0 for e, s in zip(edges, scale, strict=True)]
    chosen = naive.first_of_the_best(worth, TIE)
    found = Columns().search(Table.build(X), pull)
    if chosen is None:
        assert found is None or abs(found.edge) <= 1e-13 * scale.max()
    else:
        assert found.weak_ranker == Column(chosen)
        assert found.edge == pytest.approx(edges[chosen], rel=1e-12)


@pytest.mark.parametrize("value", [3.5, 1.0, -1e30])
def test_a_constant_column_is_never_chosen(value):
    """Pulls sum to 0 up to rounding, and a large constant times rounding is not an edge."""
    pull = np.array([1.0, -1 / 3, -1 / 3, -1 / 3])
    table = Table.build(np.full((4, 1), value))
    assert Columns().search(table, pull) is None
    assert Features().search(table, pull) is None


def test_huge_columns_are_searched_without_overflow():
    X = np.array([[1.7e308], [-1.7e308]])
    found = Columns().search(Table.build(X), np.array([0.5, -0.5]))
    assert found.weak_ranker == Column(0)
    assert found.edge == pytest.approx(1.7e308)


def test_columns_with_missing_values_are_refused():
    table = Table.build(np.array([[0.0, math.nan], [1.0, 2.0]]))
    with pytest.raises(ValueError, match=r"column 1 has missing values.*weak_rankers='stumps'"):
        Columns().start(table)


def test_the_constant_is_found_only_where_the_pulls_do_not_cancel():
    table = Table.build(np.zeros((2, 1)))
    assert Constants().search(table, np.array([0.5, -0.5])) is None
    assert Constants().search(table, np.array([0.5, -0.25])) == SearchResult(Constant(), 0.25)
