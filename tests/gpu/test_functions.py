"""Sums and functions of a device beside those of the CPU: the same bits."""

import numpy as np
import pytest

from precede.engine import portable
from precede.engine.exact import exact_sum
from precede.engine.execution import Context


def arguments():
    rng = np.random.default_rng(0)
    bits = rng.integers(-(2**63), 2**63, 1_000_000, dtype=np.int64).view(np.float64)
    plain = np.concatenate([rng.uniform(-760, 720, 500_000), rng.normal(size=500_000)])
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, 1.0, 5e-324, 2.0**-1022, 709.79, -745.14]
    sizes = np.exp(rng.uniform(-745, 709, 500_000))
    return np.concatenate([bits, plain, sizes, 1 + 1e-6 * plain, edges])


@pytest.mark.parametrize("name", ["exp", "log", "log1p"])
def test_functions_have_the_bits_of_the_cpu(device, name):
    values = arguments()
    out = device.zeros(values.size)
    number = ["exp", "log", "log1p"].index(name)
    device.over_rows("portable_functions", values.size, number, device.put(values), out)
    found = device.get(out).view(np.int64)
    expected = getattr(portable, name)(values)
    same = (found == expected.view(np.int64)) | np.isnan(expected) & np.isnan(
        found.view(np.float64)
    )
    assert same.all(), values[~same][:5]


@pytest.mark.parametrize("size", [0, 1, 31, 1000, 1_000_003])
@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e300])
def test_exact_sums(device, size, scale):
    rng = np.random.default_rng(size)
    values = rng.normal(size=size) * scale
    assert device.exact_sums([device.put(values)]) == [exact_sum(values)]
    largest = np.abs(values).max(initial=0.0)
    both = device.sums_and_largest([device.put(-values), device.put(values)], absolute=True)
    assert both == [(exact_sum(np.abs(values)), largest), (exact_sum(values), largest)]


def test_advance(device):
    rng = np.random.default_rng(1)
    scores, values = rng.normal(size=(2, 10_000))
    there = device.put(scores)
    device.advance(there, values, 0.1, Context(1, device))
    np.testing.assert_array_equal(device.get(there), scores + 0.1 * values)
