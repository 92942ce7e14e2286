"""Histograms of columns and of pairs of features, compared with sums taken one cell at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import strategies as some
from emulated_device import EmulatedDevice, needs_compiler
from precede.engine import histograms as module
from precede.engine.exact import SCALE, least_tied
from precede.engine.execution import Context
from precede.engine.histograms import (
    GpuHistograms,
    Histograms,
    TripleHistograms,
    best_cuts,
    pair_sums,
    pair_words,
    search_by_bound,
    suffix_sums,
    triple_cover,
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


@needs_compiler
@pytest.mark.parametrize("features", [1, 5, 33])
@pytest.mark.parametrize("min_rows", [1, 500])
def test_sums_on_a_gpu_equal_naive_sums(monkeypatch, features, min_rows):
    monkeypatch.setattr(module, "MIN_BLOCK_ROWS", min_rows)
    rng = np.random.default_rng(features)
    X = rng.integers(0, 9, (700, features)).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    table, pull = Table.build(X), rng.normal(size=700) / 700
    device = EmulatedDevice()
    sums = device.get(GpuHistograms(device, table).sums(device.put(pull))).view(np.int64)
    assert sums[-1] == 0
    found = sums[:-1].reshape(-1, 256)
    integers = np.array([round(each * SCALE) for each in pull.tolist()])
    assert_array_equal(found[:features], naive_sums(table.codes, integers))


@needs_compiler
def test_values_of_a_stump_on_a_gpu():
    X = np.array([[0.0], [1.0], [np.nan], [2.0]])
    device = EmulatedDevice()
    columns = GpuHistograms(device, Table.build(X))
    for missing in (0, 1):
        stump = device.put(np.array([0, 0, 1, missing], np.int64))
        assert device.get(columns.values(stump)).tolist() == [0, 1, missing, 1]


# -- pairs of features -----------------------------------------------------------------------


@pytest.mark.parametrize("count", range(2, 40))
def test_each_pair_is_in_exactly_one_triple(count):
    found = [
        (a, b)
        for triple in triple_cover(count).tolist()
        for a, b in ((triple[0], triple[1]), (triple[0], triple[2]), (triple[1], triple[2]))
        if b < count
    ]
    assert sorted(found) == [(a, b) for a in range(count) for b in range(a + 1, count)]


def test_triple_sums_equal_pair_sums_and_naive_sums():
    generator = np.random.default_rng(0)
    codes = generator.integers(0, 16, (5, 500)).astype(np.uint8)
    words = generator.integers(-(2**50), 2**50, 500)
    triples = triple_cover(5)
    with Context(3) as context:
        sums = TripleHistograms(codes, words, context).sums(triples)
        for t, (a, b, c) in enumerate(triples.tolist()):
            pairs = np.array([[a, b], [a, c], [b, c]] if c < 5 else [[a, b]])
            expected = pair_sums(codes, pairs, 16, words, Context(1))
            assert_array_equal(sums[t, : len(pairs)], expected)
            slow = np.zeros((16, 16), np.int64)
            for row in range(500):
                slow[codes[a, row], codes[b, row]] += words[row]
            assert_array_equal(sums[t, 0], slow)


def test_words_hold_pull_and_weight_of_any_magnitude():
    generator = np.random.default_rng(0)
    for scale in (1e-300, 1.0, 1e300):
        pull, weight = scale * generator.normal(size=1000), scale * generator.random(1000)
        rows = pair_words(pull, weight, Context(1))
        total = rows.words.sum()
        assert abs(rows.pulls(total) - pull.sum()) < 1e-6 * np.abs(pull).sum()
        assert abs(rows.weights(total) - weight.sum()) < 1e-6 * weight.sum()
    assert pair_words(np.zeros(3), np.ones(3), Context(1)) is None
    assert pair_words(np.ones(3), np.zeros(3), Context(1)) is None


def test_sums_do_not_depend_on_threads_or_on_the_order_of_rows():
    generator = np.random.default_rng(0)
    codes = generator.integers(0, 16, (6, 300_000)).astype(np.uint8)
    words = generator.integers(-(2**40), 2**40, 300_000)
    order = generator.permutation(300_000)
    one = TripleHistograms(codes, words, Context(1)).sums(triple_cover(6))
    with Context(4) as context:
        other = TripleHistograms(codes[:, order].copy(), words[order], context)
        other = other.sums(triple_cover(6))
    assert_array_equal(one, other)


@needs_compiler
@pytest.mark.parametrize("features", [1, 2, 4, 7, 9])
@pytest.mark.parametrize("most", [64, 1 << 16])
def test_triple_sums_on_a_gpu(monkeypatch, features, most):
    monkeypatch.setattr(module, "MAX_BLOCK_ROWS", most)
    monkeypatch.setattr(module, "MAX_TRIPLES", 5)
    rng = np.random.default_rng(features)
    codes = rng.integers(0, 16, (features, 500)).astype(np.uint8)
    words = pair_words(rng.normal(size=500), rng.exponential(size=500), Context(1)).words
    triples = triple_cover(features)
    here, there = (
        TripleHistograms(codes, words, context).sums(triples)
        for context in (Context(1), Context(1, EmulatedDevice()))
    )
    assert_array_equal(here, there)


@needs_compiler
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_all_rows_in_one_cell(sign):
    """The largest possible sums, of pulls of one sign."""
    codes, triples = np.zeros((3, 900), np.uint8), triple_cover(3)
    words = pair_words(np.full(900, sign), np.ones(900), Context(1)).words
    here, there = (
        TripleHistograms(codes, words, context).sums(triples)
        for context in (Context(1), Context(1, EmulatedDevice()))
    )
    assert_array_equal(here, there)


@needs_compiler
def test_launches_respect_the_grid_limit(monkeypatch):
    """A grid has at most 65,535 blocks in its second dimension; 631 features would exceed it."""
    device, grids = EmulatedDevice(), []
    monkeypatch.setattr(device, "launch", lambda _, grid, *__: grids.append(grid))
    monkeypatch.setattr(device, "zeros", lambda *shape, dtype: np.zeros((shape[0], 1), dtype))
    triples = np.zeros((65_536, 3), np.int64)
    codes, words = np.zeros((3, 2), np.uint8), np.ones(2, np.int64)
    TripleHistograms(codes, words, Context(1, device)).sums(triples)
    assert sum(high for _, high in grids) == 65_536
    assert max(high for _, high in grids) < 65_536


@needs_compiler
def test_too_little_memory_raises():
    with pytest.raises(ValueError, match=r"all pairs of features would take .* use device='cpu'"):
        TripleHistograms(
            np.zeros((3, 9), np.uint8), np.zeros(9, np.int64), Context(1, EmulatedDevice(free=10))
        )
