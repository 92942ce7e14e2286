"""Shapley's values of trees against their definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from naive_explain import expected_value, leaf_value, mixed, shapley
from precede.decomposition import Nodes
from precede.engine.execution import Context
from precede.explain.shapley import Paths

FEATURES = 4
CELLS = st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0, float("nan")])
CATEGORIES = st.sets(st.integers(0, 3), max_size=3)  # none: the split is by threshold
ROWS = st.lists(st.lists(CELLS, min_size=FEATURES, max_size=FEATURES), min_size=1, max_size=4)


@st.composite
def trees(draw, most_splits=7):
    """Trees grown at random, the same feature often twice on a way, some covers 0."""
    columns = {name: [] for name in ("feature", "threshold", "left", "right", "missing_left",
                                     "value", "cover", "categories")}  # fmt: skip

    def leaf(cover):
        for name, cell in (("feature", -1), ("threshold", 0.0), ("left", 0), ("right", 0),
                           ("missing_left", False), ("value", draw(st.floats(-3, 3))),
                           ("cover", cover), ("categories", ())):  # fmt: skip
            columns[name].append(cell)
        return len(columns["feature"]) - 1

    leaves = [leaf(draw(st.integers(1, 30)))]
    for _ in range(draw(st.integers(0, most_splits))):
        node = leaves.pop(draw(st.integers(0, len(leaves) - 1)))
        goes_left = draw(st.integers(0, columns["cover"][node]))
        columns["feature"][node] = draw(st.integers(0, FEATURES - 1))
        columns["threshold"][node] = draw(st.sampled_from([-0.5, 0.0, 0.5, 1.5]))
        columns["missing_left"][node] = draw(st.booleans())
        if columns["feature"][node] == FEATURES - 1:
            columns["categories"][node] = tuple(sorted(draw(CATEGORIES)))
        columns["left"][node] = leaf(goes_left)
        columns["right"][node] = leaf(columns["cover"][node] - goes_left)
        leaves += [columns["left"][node], columns["right"][node]]
    sets = tuple(columns.pop("categories"))
    return Nodes(**{name: np.array(cells) for name, cells in columns.items()}, categories=sets)


@given(trees(), ROWS)
def test_values_along_the_training_rows_are_those_of_the_definition(nodes, rows):
    X = np.array(rows)
    paths = Paths([(nodes, 2.0)], use_cover=True)
    got = paths.values(X, None, Context(1))
    for row, given_ in zip(X, got, strict=True):
        expected = shapley(lambda known, row=row: expected_value(nodes, row, known), FEATURES)
        assert_allclose(given_, 2 * expected, atol=1e-12)
    assert paths.expectation() == pytest.approx(2 * expected_value(nodes, X[0], set()), abs=1e-12)


@given(trees(), ROWS, ROWS)
def test_values_against_a_background_are_those_of_the_definition(nodes, rows, others):
    X, Z = np.array(rows), np.array(others)
    got = Paths([(nodes, 1.0)], use_cover=False).values(X, Z, Context(1))
    for row, given_ in zip(X, got, strict=True):

        def worth(known, row=row):
            return np.mean([leaf_value(nodes, mixed(row, z, known)) for z in Z])

        assert_allclose(given_, shapley(worth, FEATURES), atol=1e-12)


def chain(depth):
    """A tree that asks of feature d whether it is above 0 at depth d."""
    size = 2 * depth + 1
    nodes = Nodes(
        np.full(size, -1), np.zeros(size), np.zeros(size, int), np.zeros(size, int),
        np.zeros(size, bool), np.arange(size) * 0.1, np.ones(size),
    )  # fmt: skip
    for d in range(depth):
        nodes.feature[2 * d], nodes.left[2 * d], nodes.right[2 * d] = d, 2 * d + 1, 2 * d + 2
    for node in range(size - 2, -1, -1):
        if nodes.feature[node] >= 0:
            nodes.cover[node] = nodes.cover[nodes.left[node]] + nodes.cover[nodes.right[node]]
    return nodes


def test_a_deep_tree_keeps_its_digits():
    """Sixty features on one way: weights of sets as small as 1/118264581564861424."""
    nodes, rng = chain(60), np.random.default_rng(0)
    X = rng.choice([-1.0, 1.0, np.nan], (20, 60), p=[0.02, 0.97, 0.01])
    X[0] = 1.0
    paths = Paths([(nodes, 1.0)], use_cover=True)
    got = paths.values(X, None, Context(1))
    values = [leaf_value(nodes, row) for row in X]
    assert_allclose(got.sum(axis=1) + paths.expectation(), values, rtol=1e-13)


def test_threads_leave_no_trace():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((3000, 8))
    paths = Paths([(chain(8), 0.3), (chain(5), -1.0)], use_cover=True)
    with Context(3) as context:
        assert_array_equal(paths.values(X, None, context), paths.values(X, None, Context(1)))


def test_no_tree_at_all():
    got = Paths([], use_cover=True).values(np.zeros((2, 3)), None, Context(1))
    assert_array_equal(got, np.zeros((2, 3)))
