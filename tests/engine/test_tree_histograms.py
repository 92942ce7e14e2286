"""Histograms of nodes, compared with sums taken one cell at a time.

Splits are compared with those of a naive grower in `weak_rankers/test_tree_grower.py`.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import strategies as some
from naive_trees import quantize
from precede.engine import tree_histograms
from precede.engine import tree_rows as tree_rows_module
from precede.engine.execution import Context
from precede.engine.table import Table
from precede.engine.tree_histograms import RowHistograms, count_left, partition_rows
from precede.engine.tree_rows import CpuRows, Node, Rules

TABLES = st.integers(1, 12).flatmap(some.tables)


def sums_of_rows(table, features, rows, pulls, weights, count_bits):
    """Return pull, and weight and count, of every bin of every feature, one cell at a time."""
    sums = []
    for feature in features:
        codes = [*range(table.bins.n_bins[feature]), 255]
        here = {code: [0, 0] for code in codes}
        for row in rows:
            cell = here[table.codes[feature, row]]
            cell[0] += pulls[row]
            cell[1] += (weights[row] << count_bits) + 1
        sums += [here[code] for code in codes]
    return np.array(sums)


def bins_of(histograms):
    """Return the bins in use of all features; that of missing values is the last of each."""
    return np.concatenate([
        first + np.arange(bins + 1)
        for first, bins in zip(histograms.start[:-1], histograms.n_bins, strict=True)
    ])  # fmt: skip


def cpu_rows(table, features, context):
    free = np.zeros(features.size, np.int8)
    return CpuRows(table, features, free, free.astype(bool), context)


def histogram(tree_rows, numbers, rows, low, high):
    """Return the histogram of the rows ``rows[low:high]``."""
    rules = Rules(1.0, 1.0, numbers.count_bits, 0.0, 0.0, 0.0, 1, 0.0, 0.0)
    tree_rows.begin_tree(numbers, rules, rows, 2)
    return tree_rows.histogram(Node(low, high, 0))


@pytest.mark.parametrize("jobs", [1, 3])
def test_wide_and_packed_rounds_alternate(jobs, monkeypatch):
    """Rank weights may need packed numbers in one round and wide ones in the next."""
    rng = np.random.default_rng(0)
    table, rows = Table.build(rng.normal(size=(500, 3))), np.arange(500, dtype=np.int32)
    pull, weight = rng.integers(-9, 10, 500).astype(float), rng.integers(1, 5, 500).astype(float)
    monkeypatch.setattr(tree_rows_module, "MIN_CELLS_PARALLEL", 0)
    monkeypatch.setattr(tree_histograms, "MIN_BLOCK_ROWS", 0)
    for order in ((False, True, False), (True, False, True)):
        with Context(jobs) as context:
            tree_rows = cpu_rows(table, np.arange(3), context)
            for wide in order:
                numbers = quantize(pull, weight, Context(1), wide=wide)
                found = histogram(tree_rows, numbers, rows, 0, 500)
                alone = cpu_rows(table, np.arange(3), Context(1))
                assert_array_equal(found, histogram(alone, numbers, rows, 0, 500))


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("form", ["wide", "packed", "few rows"])
@given(X=TABLES, seed=st.integers(0, 2**32 - 1))
def test_histograms_of_rows_are_those_of_one_cell_at_a_time(form, jobs, X, seed):
    wide = form == "wide"
    rng = np.random.default_rng(seed)
    table = Table.build(X)
    n = table.n_used_rows
    features = rng.permutation(table.n_features)[: rng.integers(1, table.n_features + 1)]
    numbers = quantize(
        rng.normal(size=n) * 10 ** rng.uniform(0, 2, n), rng.random(n) + 0.1, Context(1), wide=wide
    )
    if wide:
        pulls, weights = numbers.pull.tolist(), numbers.weight_count >> numbers.count_bits
    else:
        pulls, weights = (numbers.packed >> 38).tolist(), (numbers.packed >> 12) & (2**26 - 1)
    rows = rng.permutation(n).astype(np.int32)
    low, high = np.sort(rng.integers(0, n + 1, 2)).tolist()
    with pytest.MonkeyPatch.context() as patch, Context(jobs) as context:
        patch.setattr(tree_rows_module, "MIN_CELLS_PARALLEL", 0)
        patch.setattr(tree_histograms, "MIN_BLOCK_ROWS", 10**6 if form == "few rows" else 0)
        tree_rows = cpu_rows(table, features, context)
        bins = bins_of(tree_rows.histograms)
        for _ in range(3):  # nothing is left of an earlier sum
            found = histogram(tree_rows, numbers, rows, low, high)
            if not (wide or form == "few rows"):
                assert not np.delete(found, bins, axis=0).any()
            assert_array_equal(
                found[bins],
                sums_of_rows(
                    table, features, rows[low:high].tolist(), pulls, weights.tolist(),
                    numbers.count_bits,
                ),
            )  # fmt: skip
    codes = tree_rows.histograms.codes
    assert_array_equal(codes[:, : features.size], table.codes[features].T)


@pytest.mark.parametrize("jobs", [1, 2, 5])
@pytest.mark.parametrize("share", [1.0, 0.4], ids=["dense", "scattered"])
@pytest.mark.parametrize("spread", [0.0, 6.0], ids=["even", "uneven"])
def test_histograms_of_many_rows_in_chunks_and_blocks(jobs, share, spread):
    """A chunk has more rows than a block; the largest numbers fill it before its rows do."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 30))
    X[:, 3], X[:, 7] = np.nan, rng.integers(0, 3, 40_000)
    X[rng.random(40_000) < 0.3, 5] = np.nan
    table, features = Table.build(X), np.array([7, 3, 5, *range(10, 30)])
    pull = rng.normal(size=40_000) * np.exp(spread * (rng.random(40_000) < 0.001))
    numbers = quantize(pull, rng.random(40_000), Context(1))
    assert numbers.packed is not None
    rows = np.flatnonzero(rng.random(40_000) < share).astype(np.int32)
    with Context(jobs) as context:
        tree_rows = cpu_rows(table, features, context)
        found = histogram(tree_rows, numbers, rows, 7, rows.size - 9)
    layout, some_rows = tree_rows.histograms, rows[7:-9]
    packed = numbers.packed[some_rows]
    words = packed >> 38, (((packed >> 12) & (2**26 - 1)) << numbers.count_bits) + 1
    for j, feature in enumerate(features):
        codes = np.minimum(table.codes[feature, some_rows], layout.n_bins[j])
        for word in range(2):
            expected = np.zeros(layout.n_bins[j] + 1, np.int64)
            np.add.at(expected, codes, words[word])
            begin = layout.start[j]
            assert_array_equal(found[begin : begin + expected.size, word], expected)


def test_a_table_on_disk_is_transposed_in_chunks():
    rng = np.random.default_rng(0)
    table = Table.build(rng.normal(size=(40, 11)).round(1))
    released = []

    class Streamed(Table):
        streamed = True

        def release(self, features):
            released.append(features.tolist())

    streamed = Streamed(table.X, table.codes, table.bins, table.order)
    features = np.array([9, 2, 0, 4, 5, 10, 1])
    with Context(1) as context:
        found = RowHistograms(streamed, features, context)
        expected = RowHistograms(table, features, context)
    assert_array_equal(found.codes, expected.codes)
    assert released == [[9, 2, 0, 4], [5, 10, 1]]


@given(
    st.lists(st.integers(0, 255), min_size=1, max_size=30),
    st.sampled_from([(0, 1), (1, 3)]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_partitioned_rows_keep_their_order(codes, layout, packed, seed):
    rng = np.random.default_rng(seed)
    (offset, step), n = layout, len(codes)
    column = np.zeros(offset + step * n, np.uint8)
    column[offset::step][:n] = codes
    side, rows = rng.random(256) < 0.5, rng.permutation(n).astype(np.int32)
    numbers = rng.integers(-99, 99, n) if packed else None
    out, numbers_out = np.full(n, -1, np.int32), np.full(n, 100) if packed else None
    low, high = np.sort(rng.integers(0, n + 1, 2)).tolist()
    here = rows[low:high].tolist()
    goes_left = [bool(side[codes[row]]) for row in here]
    count = count_left(low, high, column, offset, step, side, rows)
    assert count == sum(goes_left)
    partition_rows(
        low, high, low, low + count, column, offset, step, side, rows, numbers, out, numbers_out
    )
    order = sorted(range(high - low), key=lambda i: not goes_left[i])
    assert out.tolist() == [-1] * low + [here[i] for i in order] + [-1] * (n - high)
    if packed:
        assert numbers_out[low:high].tolist() == [numbers[low + i] for i in order]
