"""Histograms of columns, compared with sums taken one cell at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import strategies as some
from precede.engine.exact import least_tied
from precede.engine.execution import Context
from precede.engine.histograms import (
    Histograms,
    best_cuts,
    search_by_bound,
    suffix_sums,
)
from precede.engine.table import Table

TABLES = st.integers(1, 12).flatmap(some.tables)


def naive_sums(codes, integers):
    sums = np.zeros((len(codes), 256, *integers.shape[1:]), np.int64)
    for feature, column in enumerate(codes):
        for row, code in enumerate(column):
            sums[feature, code] += integers[row]
    return sums


@given(TABLES, st.integers(0, 2**32 - 1))
def test_sums_equal_naive_sums(X, seed):
    rng = np.random.default_rng(seed)
    table = Table.build(X)
    rows, features = table.n_used_rows, rng.permutation(table.n_features)
    some_rows = np.flatnonzero(rng.random(rows) < 0.5)
    for shape in ((rows,), (rows, 3)):
        integers = rng.integers(-(2**55), 2**55, shape)
        expected = naive_sums(table.codes, integers)
        histograms = Histograms(table)
        assert_array_equal(histograms.sums(integers), expected)
        assert_array_equal(histograms.sums(integers, features), expected[features])
        assert_array_equal(
            histograms.sums(integers, features, rows=some_rows),
            naive_sums(table.codes[features][:, some_rows], integers[some_rows]),
        )


@pytest.mark.parametrize("features", [1, 3, 4, 5, 9])
@pytest.mark.parametrize("shape", [(60,), (60, 2)])
def test_threads_and_streaming_change_nothing(features, shape, tiny_thresholds):
    rng = np.random.default_rng(features)
    table = Table.build(rng.normal(size=(60, features)).round(1))
    integers = rng.integers(-1000, 1000, shape)
    released = []

    class Streamed(Table):
        streamed = True

        def release(self, features):
            released.extend(features.tolist())

    with Context(3) as context:
        shared = Histograms(table, context).sums(integers)
        streamed = Streamed(table.X, table.codes, table.bins, table.order)
        assert_array_equal(Histograms(streamed, context).sums(integers), shared)
    assert_array_equal(shared, naive_sums(table.codes, integers))
    assert released == list(range(features))


def test_suffix_sums_exclude_missing_values():
    sums = np.random.default_rng(0).integers(-9, 9, (2, 256))
    expected = [[row[code:255].sum() for code in range(256)] for row in sums]
    assert_array_equal(suffix_sums(sums), expected)


@given(TABLES, st.integers(0, 2**32 - 1), st.booleans())
def test_a_search_by_bound_equals_a_search_of_histograms(X, seed, positive_only):
    rng = np.random.default_rng(seed)
    table = Table.build(X)
    integers = rng.integers(-(2**40), 2**40, table.n_used_rows)
    bins, missing = table.bins.n_bins, table.bins.has_missing
    expected = best_cuts(Histograms(table).sums(integers), bins, missing, positive_only, -1)
    best = np.zeros((table.n_features, 3), np.int64)
    slack = np.full(table.n_features, 1 << 62)
    most, count = search_by_bound(
        table.codes, integers, bins, missing, slack.copy(), rng.permutation(table.n_features), best,
        slack, positive_only, np.empty((4, 256), np.int64),
    )  # fmt: skip
    assert count == table.n_features
    assert not slack.any()
    assert_array_equal(best, expected)
    assert most == np.abs(expected[:, 0]).max()


def test_the_first_of_tied_cuts_is_chosen():
    histogram = np.zeros((1, 256), np.int64)
    histogram[0, :4] = [0, -5, 5, 2**60]  # from code 1 up, 2 up and 3 up: 2^60, + 5, + 0
    edge, first, side = best_cuts(histogram, np.array([4]), np.array([False]), False, -1)[0]
    assert (edge, first, side) == (2**60, 1, 0)
    assert least_tied(2**60 + 5) <= edge
