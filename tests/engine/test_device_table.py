"""Tables binned on an emulated device, compared with those of the CPU."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from emulated_device import DeviceArray, EmulatedDevice, needs_compiler
from precede import Judgments
from precede.engine import device_table
from precede.engine.cuda import DeviceRows
from precede.engine.device_table import DeviceTable
from precede.engine.execution import Context
from precede.engine.table import Table
from precede.engine.training_data import TrainingData

pytestmark = needs_compiler


@pytest.fixture(autouse=True)
def _few_rows(monkeypatch):
    monkeypatch.setattr(device_table, "LARGE_COLUMN_ROWS", 1)


def assert_same(X, *, order=None, max_bins=255, weight=None):
    order = np.arange(len(X)) if order is None else order
    weight = np.ones(order.size) if weight is None else weight
    given = {"order": order, "weight": weight, "max_bins": max_bins}
    context = Context(1, EmulatedDevice())
    assert DeviceTable.takes(X, order, context.backend)
    here = Table.build(X, **given)
    there = DeviceTable.build(X, **given, context=context)
    for one, other in zip(here.bins.cuts, there.bins.cuts, strict=True):
        np.testing.assert_array_equal(one, other)
    for name in ("low", "high", "has_missing", "n_bins"):
        np.testing.assert_array_equal(getattr(here.bins, name), getattr(there.bins, name))
    np.testing.assert_array_equal(here.codes, there.codes)
    assert (here.n_used_rows, here.n_features) == (there.n_used_rows, there.n_features)
    weight = np.full(order.size, 0.5)
    np.testing.assert_array_equal(here.keys(weight, context), there.keys(weight, context))
    old = np.random.default_rng(0).permutation(order.size)
    here, there = here.reorder(old), there.reorder(old)
    np.testing.assert_array_equal(here.codes, there.codes)
    np.testing.assert_array_equal(here.order, there.order)


def columns(dtype, rows=1500, seed=0):
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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", ["C", "F", "strided"])
@pytest.mark.parametrize("max_bins", [2, 9, 255])
@pytest.mark.parametrize("weighted", [False, True])
def test_cuts_and_codes(dtype, layout, max_bins, weighted):
    X, rng = columns(dtype), np.random.default_rng(1)
    X = X[:, ::2] if layout == "strided" else np.array(X, order=layout)
    weight = rng.choice([0.1, 1.0, 40.0], 1200, p=[0.4, 0.5, 0.1]) if weighted else None
    assert_same(X, order=rng.permutation(len(X))[:1200], max_bins=max_bins, weight=weight)


@settings(max_examples=60, deadline=None)
@given(
    arrays.arrays(
        st.sampled_from([np.float32, np.float64]), st.tuples(st.integers(1, 40), st.integers(1, 3)),
        elements=st.floats(-9, 9, width=16) | st.just(np.nan) | st.sampled_from([0.0, -0.0, 1.0]),
    ),
    st.integers(2, 8),
    st.booleans(),
)  # fmt: skip
def test_small_columns(X, max_bins, weighted):
    weight = np.random.default_rng(0).integers(1, 9, len(X)) / 2 if weighted else None
    assert_same(X, max_bins=max_bins, weight=weight)


def test_columns_are_sorted_in_chunks(monkeypatch):
    monkeypatch.setattr(device_table, "MAX_SORTED_BYTES", 3 * 8 * 1500)
    assert_same(columns(np.float64))


def test_device_rows_have_the_codes_of_the_cpu():
    X = columns(np.float32)
    device = EmulatedDevice()
    given = {"order": np.arange(len(X)), "weight": np.ones(len(X)), "max_bins": 255}
    there = DeviceTable.build(X, **given, context=Context(1, device)).reorder(np.arange(len(X)))
    for features in (np.arange(38), np.array([0, 2, 5, 36])):
        flags = np.zeros(features.size, bool)
        rows = [
            DeviceRows(device, table, features, flags.astype(np.int8), flags).codes
            for table in (Table.build(X), there)
        ]
        np.testing.assert_array_equal(*rows)


@pytest.mark.parametrize("layout", ["C", "F", "strided"])
def test_arrays_on_the_device(layout):
    X, device = columns(np.float32), EmulatedDevice()
    X = X[:, ::2] if layout == "strided" else np.array(X, order=layout)
    given = {"order": np.arange(len(X)), "weight": np.ones(len(X))}
    assert DeviceTable.takes(X.view(DeviceArray), given["order"], device)
    there = DeviceTable.build(X.view(DeviceArray), **given, context=Context(1, device))
    np.testing.assert_array_equal(there.codes, Table.build(X).codes)
    np.testing.assert_array_equal(there.X, X)
    assert not device.holds(there.X)


@pytest.mark.parametrize("what", ["objects", "room"])
def test_unsupported_rows_are_binned_on_the_cpu(what):
    X = columns(np.float64)
    X = X.astype(object) if what == "objects" else X
    device = EmulatedDevice(free=1000 if what == "room" else 10**12)
    assert not DeviceTable.takes(X, np.arange(1500), device)


def prepared(device, *, offset=False, categorical=()):
    rng = np.random.default_rng(2)
    X = np.round(columns(np.float64), 1)
    X[:, 1] = rng.integers(0, 9, len(X))
    judgments = Judgments(rng.integers(0, 3, 1500), rng.integers(0, 40, 1500))
    return TrainingData.prepare(
        X, judgments, balance="pairs", max_bins=255, context=Context(1, device),
        init_score=rng.normal(size=1500) if offset else None, categorical=categorical,
    )  # fmt: skip


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("categorical", [(), (1,)])
def test_rows_have_the_same_order(offset, categorical):
    """Categories are binned on the CPU."""
    given = {"offset": offset, "categorical": categorical}
    here, there = prepared(None, **given), prepared(EmulatedDevice(), **given)
    assert isinstance(there.table, DeviceTable)
    assert there.table.bins.categories.keys() == here.table.bins.categories.keys()
    for one, other in zip(here.table.bins.cuts, there.table.bins.cuts, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(here.table.codes, there.table.codes)
    np.testing.assert_array_equal(here.layout.order, there.layout.order)
    np.testing.assert_array_equal(here.table.order, there.table.order)
