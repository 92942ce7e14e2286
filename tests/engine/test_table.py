"""Binned columns: cut points, codes, histograms."""

import math

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.testing import assert_array_equal

import naive
import strategies as some
from emulated_device import DeviceArray, EmulatedDevice, needs_compiler
from precede import Judgments
from precede.engine import table as table_module
from precede.engine.exact import to_integers
from precede.engine.execution import Context
from precede.engine.histograms import Histograms
from precede.engine.query_layout import TrainingData
from precede.engine.table import LARGE_COLUMN_ROWS, MISSING, Table, choose_cuts

FEW_ROWS = st.integers(1, 12).flatmap(some.tables)


# -- cut points ------------------------------------------------------------------------------


@given(FEW_ROWS)
def test_few_distinct_values_are_cut_between_each_two_neighbors(X):
    table = Table.build(X)
    for feature in range(X.shape[1]):
        assert list(table.bins.cuts[feature]) == naive.exact_cuts(X[:, feature])


@given(FEW_ROWS)
def test_a_code_is_the_number_of_cuts_below_the_value(X):
    table = Table.build(X)
    for feature, cuts in enumerate(table.bins.cuts):
        codes = [
            MISSING if math.isnan(x) else sum(float(x) > cut for cut in cuts) for x in X[:, feature]
        ]
        assert_array_equal(table.codes[feature], codes)


@given(FEW_ROWS)
def test_extremes_and_missing_values_are_recorded(X):
    bins = Table.build(X).bins
    for feature in range(X.shape[1]):
        column = X[:, feature]
        present = column[~np.isnan(column)].astype(float)
        assert bins.has_missing[feature] == (present.size < column.size)
        assert_array_equal(bins.low[feature], present.min() if present.size else math.nan)
        assert_array_equal(bins.high[feature], present.max() if present.size else math.nan)
        assert bins.n_bins[feature] == len(bins.cuts[feature]) + 1


@pytest.mark.parametrize("max_bins", [2, 3, 16, 255])
@pytest.mark.parametrize("weighted", [False, True])
def test_many_distinct_values_are_cut_into_bins_of_about_equal_weight(max_bins, weighted):
    rng = np.random.default_rng(max_bins)
    X = rng.standard_normal((5000, 1))
    weight = rng.choice([1.0, 2.0, 5.0], 5000) if weighted else np.ones(5000)
    table = Table.build(X, weight=weight, max_bins=max_bins)
    held = np.bincount(table.codes[0], weight)
    assert held.size == max_bins
    assert held.max() <= 1.1 * weight.sum() / max_bins + weight.max()
    assert held.min() >= 0.7 * weight.sum() / max_bins


def test_a_value_heavier_than_a_bin_has_a_bin_to_itself():
    """Half of the rows are 0: one bin for them, the others for the rest."""
    rng = np.random.default_rng(0)
    column = np.where(rng.random(4000) < 0.5, 0.0, rng.standard_normal(4000))
    table = Table.build(column[:, None], max_bins=16)
    code = table.codes[0][column == 0][0]
    assert set(column[table.codes[0] == code]) == {0.0}
    others = np.bincount(table.codes[0][column != 0], minlength=16)
    assert (others > 0).sum() >= 13


@pytest.mark.parametrize("distinct", [254, 255, 256, 257])
def test_the_last_column_that_is_exact_has_255_values(distinct):
    table = Table.build(np.arange(distinct, dtype=float)[:, None])
    assert table.bins.n_bins[0] == min(distinct, 255)
    assert table.codes[0].max() == min(distinct, 255) - 1
    assert table.codes[0].max() < MISSING


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("max_bins", [20, 64])
def test_weight_two_cuts_as_the_row_twice_does(seed, max_bins):
    """In columns of many values, one of them with a value that half of the rows have."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((900, 2))
    X[:, 1] = np.where(rng.random(900) < 0.5, 0.0, np.round(X[:, 1], 3))
    copies = rng.integers(1, 3, 900)
    weighted = Table.build(X, weight=copies.astype(float), max_bins=max_bins)
    repeated = Table.build(np.repeat(X, copies, axis=0), max_bins=max_bins)
    for one, other in zip(weighted.bins.cuts, repeated.bins.cuts, strict=True):
        assert_array_equal(one, other)


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_cuts_do_not_depend_on_the_unit_of_the_weights(scale):
    rng = np.random.default_rng(2)
    X, weight = rng.standard_normal((500, 1)), rng.random(500) + 0.1
    one, other = (Table.build(X, weight=w, max_bins=10) for w in (weight, weight * scale))
    assert_array_equal(one.bins.cuts[0], other.bins.cuts[0])


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (1.0, np.nextafter(1.0, 2.0)),
        (1.0 + 2.0**-52, 1.0 + 2.0**-51),  # halfway rounds to the upper one
        (-1e308, 1e308),
        (-1.7e308, 1.7e308),
        (0.0, 5e-324),
        (-5e-324, 5e-324),
        (1e308, np.nextafter(1e308, np.inf)),
    ],
)
def test_a_cut_lies_between_its_neighbors_however_near_or_far(low, high):
    table = Table.build(np.array([[low], [high]]))
    (cut,) = table.bins.cuts[0]
    assert low <= cut < high
    assert_array_equal(table.codes[0], [0, 1])


NEAR_ONE = st.integers(-30, 30).map(lambda k: 1.0 + k * 2.0**-52)
SIMPLE = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.1, math.inf, -math.inf, math.nan, 1e300, 5e-324])
SINGLE = st.floats(width=32)


@given(st.data(), st.sampled_from([np.float32, np.float64]), st.integers(2, 12), st.booleans())
def test_cuts_of_long_columns_are_those_of_sorted_values(data, dtype, max_bins, weighted):
    """Radix-sorted, then by insertion; columns of any length, so that examples may be short."""
    cells = data.draw(st.sampled_from([SIMPLE, SINGLE, st.floats(), NEAR_ONE, NEAR_ONE | SIMPLE]))
    with np.errstate(over="ignore"):
        values = np.array(data.draw(st.lists(cells, max_size=60))).astype(dtype)
    weights = np.ones(values.size, np.int64)
    if weighted:
        heavy = st.sampled_from([1, 2, 3, 1000, 2**40])
        weights = np.array([data.draw(heavy) for _ in weights], np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_module, "LARGE_COLUMN_ROWS", 1)
        cuts, ends = choose_cuts(values, weights if weighted else None, max_bins)
    expected = np.array(naive.quantile_cuts(values, weights, max_bins))
    assert cuts.tobytes() == expected.astype(np.float64).tobytes()
    present = values[~np.isnan(values)].astype(float)
    assert ends[2] == (present.size < values.size)
    assert_array_equal(ends[0], present.min() if present.size else math.nan)
    assert_array_equal(ends[1], present.max() if present.size else math.nan)
    assert not present.size or (str(ends[0]) != "-0.0" and str(ends[1]) != "-0.0")


def test_a_column_of_infinities_is_cut_without_a_warning():
    cuts, ends = choose_cuts(np.array([np.inf, -np.inf]), None, 2)
    assert (cuts.tolist(), ends) == ([-np.inf], (-np.inf, np.inf, False))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["normal", "few", "clustered", "missing"])
def test_long_and_short_columns_are_sorted_alike(kind, dtype, weighted, monkeypatch):
    """`clustered` has equal leading digits but for one value: falls back to np.sort."""
    rng = np.random.default_rng(5)
    values = rng.normal(0, 1, LARGE_COLUMN_ROWS)
    if kind == "few":
        values = values.round(1)
    if kind == "clustered":
        values = 1 + 1e-13 * values
        values[7] = -1e30
    if kind == "missing":
        values[rng.random(values.size) < 0.3] = math.nan
    values = values.astype(dtype)
    weight = rng.integers(1, 9, values.size) if weighted else None
    found = choose_cuts(values, weight, 255)
    monkeypatch.setattr(table_module, "LARGE_COLUMN_ROWS", values.size + 1)
    expected = choose_cuts(values, weight, 255)
    assert found[0].tobytes() == expected[0].tobytes()
    assert found[1] == expected[1]
    done = table_module._radix_sort(values, np.ones(1, np.int64)) is not None
    assert done == (kind != "clustered" or dtype == np.float32)


def test_minus_zero_is_zero():
    assert Table.build(np.array([[0.0], [-0.0]])).bins.n_bins[0] == 1
    for column in ([0.0, -0.0, math.inf], [-0.0, 0.0, math.inf]):
        assert str(Table.build(np.array([column]).T).bins.cuts[0][0]) == "0.0"


@pytest.mark.parametrize("max_bins", [1, 256, 2.5, True, -3])
def test_a_number_of_bins_out_of_range_is_refused(max_bins):
    with pytest.raises(ValueError, match=rf"max_bins={max_bins!r}.*use 2 to 255"):
        Table.build(np.zeros((2, 1)), max_bins=max_bins)


# -- memory layouts --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        np.asfortranarray,
        lambda X: X.astype(np.float32),
        scipy.sparse.csc_array,
        scipy.sparse.csr_array,
        lambda X: np.repeat(X, 2, axis=0)[::2],
    ],
    ids=["fortran", "float32", "csc", "csr", "strided"],
)
def test_any_memory_layout_gives_the_same_codes(make):
    rng = np.random.default_rng(3)
    X = rng.integers(0, 5, (70, 11)).astype(float)
    X[rng.random(X.shape) < 0.1] = math.nan
    order = rng.permutation(70)[:50]
    one, other = Table.build(X, order=order), Table.build(make(X), order=order)
    assert_array_equal(one.codes, other.codes)
    assert_array_equal(one.column(4), other.column(4))
    assert_array_equal(one.rows(), other.rows())


def test_any_number_of_threads_gives_the_same_table(tiny_thresholds):
    rng = np.random.default_rng(4)
    X, weight = rng.standard_normal((500, 9)), rng.random(500)
    tables = []
    for jobs in (1, 2, 5):
        with Context(jobs) as context:
            tables.append(Table.build(X, weight=weight, max_bins=30, context=context))
            keys = tables[-1].keys(weight, context)
            assert_array_equal(keys, tables[0].keys(weight, Context(1)))
    for table in tables[1:]:
        assert_array_equal(table.codes, tables[0].codes)


@given(FEW_ROWS, st.data())
def test_other_rows_are_binned_by_the_cuts_already_chosen(X, data):
    table = Table.build(X)
    order = np.array(data.draw(st.permutations(range(len(X)))))
    like = Table.like(X[order], table.bins)
    assert_array_equal(like.codes, table.codes[:, order])
    assert like.bins is table.bins


# -- histograms ------------------------------------------------------------------------------


@given(FEW_ROWS, st.data())
def test_a_histogram_is_the_sum_of_the_pull_over_each_bin(X, data):
    table = Table.build(X)
    pull = data.draw(some.pulls(len(X)))
    histogram = table.histogram(pull)
    assert histogram.shape == (X.shape[1], 256)
    for feature in range(X.shape[1]):
        expected = np.bincount(table.codes[feature], pull, minlength=256)
        assert np.abs(histogram[feature] - expected).max() < 1e-15


@given(st.data())
def test_histograms_of_chunks_add_up_to_the_same_bits(data):
    """For any assignment of rows to chunks and any order."""
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    table = Table.build(rng.standard_normal((60, 3)), max_bins=7)
    pull = rng.standard_normal(60) / 60
    integers = to_integers(pull)
    owner = rng.integers(0, data.draw(st.integers(1, 6)), 60)
    parts = [
        Histograms(table.block(owner == block)).sums(integers[owner == block])
        for block in rng.permutation(np.unique(owner))
    ]
    assert_array_equal(sum(parts), Histograms(table).sums(integers))


def test_integers_keep_sixty_binary_digits():
    assert to_integers(np.array([0.5, -1.0, 2.0**-61, 2.0**-63])).tolist() == [
        2**60, -(2**61), 1, 0,
    ]  # fmt: skip


def test_reordering_moves_codes_and_rows_together():
    X = np.array([[3.0], [1.0], [2.0]])
    table = Table.build(X).reorder(np.array([2, 0, 1]))
    assert_array_equal(table.codes[0], [1, 2, 0])
    assert_array_equal(table.column(0), [2, 3, 1])
    assert_array_equal(table.rows(), X[[2, 0, 1]])


def test_features_of_a_block_are_contiguous():
    table = Table.build(np.arange(12.0).reshape(6, 2))
    block = table.block(np.array([4, 0, 2]))
    assert block.codes.flags.c_contiguous
    assert_array_equal(block.codes, table.codes[:, [4, 0, 2]])


def test_small_tables_are_built_by_numpy_and_large_ones_by_kernels(request):
    random = np.random.default_rng(0)
    X = np.round(random.normal(size=(500, 5)), 1)
    X[random.random(X.shape) < 0.1] = np.nan
    order, weight = random.permutation(500)[:300], random.random(300)
    small = Table.build(X, order=order)
    request.getfixturevalue("tiny_thresholds")
    with Context(2) as context:
        large = Table.build(X, order=order, context=context)
        assert_array_equal(large.codes, small.codes)
        assert_array_equal(large.keys(weight, context), small_keys(small, weight))


def small_keys(table, weight):
    """Return the keys of the rows, computed with Python integers."""
    keys = [int(bits) for bits in weight.view(np.uint64)]
    for column in table.codes.tolist():
        for row, code in enumerate(column):
            mixed = (keys[row] ^ code) * 0x9E3779B97F4A7C15 % 2**64
            keys[row] = mixed ^ (mixed >> 29)
    return np.array(keys, np.uint64)


def test_keys_of_small_and_large_tables_are_equal():
    table = Table.build(np.random.default_rng(1).normal(size=(40, 3)))
    weight = np.linspace(0.5, 2.0, 40)
    assert_array_equal(table.keys(weight, Context(1)), small_keys(table, weight))


# -- on a GPU --------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _small_tables_are_binned_on_a_gpu(monkeypatch):
    monkeypatch.setattr(table_module, "MIN_GPU_ROWS", 1)


def assert_same_on_gpu(X, *, order=None, max_bins=255, weight=None):
    order = np.arange(len(X)) if order is None else order
    weight = np.ones(order.size) if weight is None else weight
    given = {"order": order, "weight": weight, "max_bins": max_bins}
    context = Context(1, EmulatedDevice())
    here, there = Table.build(X, **given), Table.build(X, **given, context=context)
    assert "codes_of_" in " ".join(context.backend.launched)
    for one, other in zip(here.bins.cuts, there.bins.cuts, strict=True):
        assert_array_equal(one, other)
    for name in ("low", "high", "has_missing", "n_bins"):
        assert_array_equal(getattr(here.bins, name), getattr(there.bins, name))
    assert_array_equal(here.codes, there.codes)
    assert (here.n_used_rows, here.n_features) == (there.n_used_rows, there.n_features)
    weight = np.full(order.size, 0.5)
    assert_array_equal(here.keys(weight, context), there.keys(weight, context))
    old = np.random.default_rng(0).permutation(order.size)
    here, there = here.reorder(old), there.reorder(old)
    assert_array_equal(here.codes, there.codes)
    assert_array_equal(here.order, there.order)


def all_kinds_of_columns(dtype, rows=1500, seed=0):
    """Return columns of all kinds: continuous, few values, heavy ties, missing, constant, wide."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 38))
    X[:, 1] = rng.integers(-2, 3, rows)
    X[:, 2] = np.where(rng.random(rows) < 0.7, 0.0, X[:, 2])
    X[:, 3] = np.nan
    X[:, 4] = 7.0
    X[:, 5] = rng.choice([-0.0, 0.0, 1.0], rows)
    X[:, 6] = np.exp(30 * X[:, 6])
    X[:, 7] = rng.integers(0, 255, rows)
    X[:, 8] = rng.integers(0, 256, rows)
    X[:, 9] = rng.integers(0, 257, rows)
    X[:, 10] = np.where(rng.random(rows) < 0.1, rng.integers(0, 9, rows), X[:, 10])
    X[rng.random(X.shape) < 0.05] = np.nan
    return X.astype(dtype)


@needs_compiler
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", ["C", "F", "strided"])
@pytest.mark.parametrize("max_bins", [2, 9, 255])
@pytest.mark.parametrize("weighted", [False, True])
def test_cuts_and_codes_of_a_gpu(dtype, layout, max_bins, weighted):
    X, rng = all_kinds_of_columns(dtype), np.random.default_rng(1)
    X = X[:, ::2] if layout == "strided" else np.array(X, order=layout)
    weight = rng.choice([0.1, 1.0, 40.0], 1200, p=[0.4, 0.5, 0.1]) if weighted else None
    assert_same_on_gpu(X, order=rng.permutation(len(X))[:1200], max_bins=max_bins, weight=weight)


@needs_compiler
@settings(max_examples=60, deadline=None)
@given(
    arrays.arrays(
        st.sampled_from([np.float32, np.float64]), st.tuples(st.integers(1, 40), st.integers(1, 3)),
        elements=st.floats(-9, 9, width=16) | st.just(np.nan) | st.sampled_from([0.0, -0.0, 1.0]),
    ),
    st.integers(2, 8),
    st.booleans(),
)  # fmt: skip
def test_small_columns_on_a_gpu(X, max_bins, weighted):
    weight = np.random.default_rng(0).integers(1, 9, len(X)) / 2 if weighted else None
    assert_same_on_gpu(X, max_bins=max_bins, weight=weight)


@needs_compiler
def test_columns_are_sorted_in_chunks_on_a_gpu(monkeypatch):
    monkeypatch.setattr(table_module, "MAX_SORTED_BYTES", 3 * 8 * 1500)
    assert_same_on_gpu(all_kinds_of_columns(np.float64))


@needs_compiler
def test_codes_by_row_on_a_gpu():
    X = all_kinds_of_columns(np.float32)
    device = EmulatedDevice()
    given = {"order": np.arange(len(X)), "weight": np.ones(len(X)), "max_bins": 255}
    there = Table.build(X, **given, context=Context(1, device)).reorder(np.arange(len(X)))
    for features in (np.arange(38), np.array([0, 2, 5, 36])):
        tables = Table.build(X), there
        rows = [table.codes_by_row(device, features).get() for table in tables]
        assert_array_equal(*rows)
        assert_array_equal(rows[0][:, : features.size], there.codes[features].T)


@needs_compiler
@pytest.mark.parametrize("layout", ["C", "F", "strided"])
def test_arrays_on_a_gpu(layout):
    X, device = all_kinds_of_columns(np.float32), EmulatedDevice()
    X = X[:, ::2] if layout == "strided" else np.array(X, order=layout)
    given = {"order": np.arange(len(X)), "weight": np.ones(len(X))}
    there = Table.build(X.view(DeviceArray), **given, context=Context(1, device))
    assert device.launched
    assert_array_equal(there.codes, Table.build(X).codes)
    assert_array_equal(there.X, X)
    assert not device.holds(there.X)


@pytest.mark.parametrize("what", ["integers", "room"])
def test_unsupported_rows_are_binned_on_the_cpu(what):
    X = all_kinds_of_columns(np.float64)
    X = np.nan_to_num(X).clip(-9, 9).astype(np.int64) if what == "integers" else X
    device = EmulatedDevice(free=1000 if what == "room" else 10**12)
    table = Table.build(X, context=Context(1, device))
    assert not device.launched
    assert_array_equal(table.codes, Table.build(X).codes)


def prepared(device, *, offset=False, categorical=()):
    rng = np.random.default_rng(2)
    X = np.round(all_kinds_of_columns(np.float64), 1)
    X[:, 1] = rng.integers(0, 9, len(X))
    judgments = Judgments(rng.integers(0, 3, 1500), rng.integers(0, 40, 1500))
    return TrainingData.prepare(
        X, judgments, balance="pairs", max_bins=255, context=Context(1, device),
        init_score=rng.normal(size=1500) if offset else None, categorical=categorical,
    )  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("categorical", [(), (1,)])
def test_rows_have_the_same_order_on_a_gpu(offset, categorical):
    """Categories are binned on the CPU."""
    given, device = {"offset": offset, "categorical": categorical}, EmulatedDevice()
    here, there = prepared(None, **given), prepared(device, **given)
    assert "codes_of_doubles" in device.launched
    assert there.table.bins.categories.keys() == here.table.bins.categories.keys()
    for one, other in zip(here.table.bins.cuts, there.table.bins.cuts, strict=True):
        assert_array_equal(one, other)
    assert_array_equal(here.table.codes, there.table.codes)
    assert_array_equal(here.layout.order, there.layout.order)
    assert_array_equal(here.table.order, there.table.order)
