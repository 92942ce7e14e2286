"""Histograms of pulls on an emulated device."""

import numpy as np
import pytest

from emulated_device import EmulatedDevice, needs_compiler
from precede.engine import device_histograms
from precede.engine.device_histograms import DeviceColumns
from precede.engine.exact import SCALE
from precede.engine.table import Table

pytestmark = needs_compiler


@pytest.mark.parametrize("features", [1, 5, 33])
@pytest.mark.parametrize("min_rows", [1, 500])
def test_sums_equal_naive_sums(monkeypatch, features, min_rows):
    monkeypatch.setattr(device_histograms, "MIN_BLOCK_ROWS", min_rows)
    rng = np.random.default_rng(features)
    X = rng.integers(0, 9, (700, features)).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    table, pull = Table.build(X), rng.normal(size=700) / 700
    device = EmulatedDevice()
    sums = device.get(DeviceColumns(device, table).sums(device.put(pull))).view(np.int64)
    assert sums[-1] == 0
    found = sums[:-1].reshape(-1, 256)
    expected = np.zeros((features, 256), np.int64)
    for feature in range(features):
        for row, code in enumerate(table.codes[feature]):
            expected[feature, code] += round(float(pull[row]) * SCALE)
    np.testing.assert_array_equal(found[:features], expected)


def test_values_of_a_stump():
    X = np.array([[0.0], [1.0], [np.nan], [2.0]])
    device = EmulatedDevice()
    columns = DeviceColumns(device, Table.build(X))
    for missing in (0, 1):
        stump = device.put(np.array([0, 0, 1, missing], np.int64))
        assert device.get(columns.values(stump)).tolist() == [0, 1, missing, 1]
