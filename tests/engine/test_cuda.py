"""What Python does around the kernels of a GPU, beside the engine of the CPU."""

import ast
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from emulated_device import EmulatedDevice, needs_compiler
from precede import BoostedRanker
from precede.engine import cuda
from precede.engine.cuda import open_device, tiles
from precede.engine.exact import exact_sum, exact_sums
from precede.engine.packing import PackedRows, pack_rows
from precede.engine.table import Table
from precede.engine.workers import Workers

X, Y = np.arange(40.0)[:, None], np.arange(40) % 2


def test_without_cupy_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    open_device.cache_clear()
    with pytest.raises(ImportError, match=r"precede\[cuda13\]"):
        BoostedRanker(device="cuda").fit(X, Y)


def test_without_a_gpu_the_error_says_so(monkeypatch):
    class Runtime:
        CUDARuntimeError = OSError

        @staticmethod
        def getDeviceCount():  # noqa: N802
            raise OSError("no CUDA-capable device is detected")

    fake = type("cupy", (), {"cuda": type("cuda", (), {"runtime": Runtime})})
    monkeypatch.setitem(sys.modules, "cupy", fake)
    open_device.cache_clear()
    with pytest.raises(RuntimeError, match=r"finds no GPU.*no CUDA-capable device"):
        BoostedRanker(device="cuda").fit(X, Y)


@pytest.mark.parametrize("name", ["gpu", None, 0])
def test_unknown_devices(name):
    with pytest.raises(ValueError, match="is unknown; use one of"):
        BoostedRanker(device=name).fit(X, Y)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=9), st.integers(1, 9))
def test_tiles_cover_every_range_once(sizes, size):
    start, count = tiles(sizes, size)
    seen = [0] * len(sizes)
    for tile in range(count):
        node = int(np.flatnonzero(np.array(start) <= tile)[-1])  # as the kernels look for it
        begin = (tile - start[node]) * size
        assert begin < sizes[node]
        seen[node] += min(size, sizes[node] - begin)
    assert seen == sizes


@needs_compiler
@given(st.lists(st.floats(-1e300, 1e300), max_size=30))
def test_sums(values):
    device, array = EmulatedDevice(), np.array(values, np.float64)
    there = device.put(array)
    assert exact_sums([there], Workers(1, device)) == [exact_sum(array)]
    negative = device.put(-array)
    both = device.sums_and_largest([negative, there], absolute=True)
    largest = np.abs(array).max(initial=0.0)
    assert both == [(exact_sum(np.abs(array)), largest), (exact_sum(array), largest)]
    assert device.exact_sums([there, device.put(array[1:])]) == exact_sums([array, array[1:]])


@needs_compiler
def test_sums_of_numbers_that_are_here_are_taken_here():
    device = EmulatedDevice()
    assert exact_sums([np.ones(3)], Workers(1, device)) == [3.0]
    assert device.launched == []


@needs_compiler
@example([(2**25 - 65, 2**26 - 1)])
@example([(65 - 2**25, 0)])
@example([(-8191, 16383)] * 4000)
@example([(8191, 16383)] * 4000)
@given(st.lists(st.tuples(st.integers(-(2**12), 2**12), st.integers(0, 2**13)), min_size=1))
def test_words_of_32_bits_tell_pull_weight_and_count(rows):
    """What a block sums in two words of 32 bits, in one bin."""
    pull, weight = np.array(rows, np.int64).T
    device, none = EmulatedDevice(), np.zeros(1, np.int8)
    table = Table.build(np.ones((len(rows), 1)))
    there = cuda.DeviceRows(device, table, np.array([0]), none, none.astype(bool))
    words = device.put((pull << 38) + (weight << 12) + 1)
    rules = cuda.SearchRules((1.0, 1.0, 1), (0.0, 0.0, 0.0), 1, 0.0, True)
    size = there.begin(PackedRows(words, None, None, 1.0, 1.0, 24, 1.0, 1.0, (0, 0)), None, rules)
    expected = pull.sum(), (int(weight.sum()) << 24) + len(rows)
    assert there.sums_of(0, size) == expected


@needs_compiler
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("features", [1, 32, 45])
def test_histograms_over_several_tiles(monkeypatch, wide, features):
    """Packed sums that overflow are taken word by word."""
    monkeypatch.setattr(cuda, "FILLED", 50)
    monkeypatch.setattr(cuda, "FEWEST", 10)
    rng = np.random.default_rng(features)
    values = rng.normal(size=(333, features))
    values[rng.random(values.shape) < 0.1] = np.nan
    table, device = Table.build(values), EmulatedDevice()
    none = np.zeros(features, np.int8)
    chosen = np.arange(features)
    rows = cuda.DeviceRows(device, table, chosen, none, none.astype(bool))
    pull, weight = rng.normal(size=333), rng.random(333)
    pull[:20] *= 100
    numbers = rows.pack(device.put(pull), device.put(weight), wide=wide)
    expected = pack_rows(pull, weight, Workers(1), wide=wide)
    assert (numbers.pull_unit, numbers.weight_unit) == (expected.pull_unit, expected.weight_unit)
    drawn = np.flatnonzero(rng.random(333) < 0.6).astype(np.int32)
    rules = cuda.SearchRules((1.0, 1.0, 1), (0.0, 0.0, 0.0), 1, 0.0, True)
    size = rows.begin(numbers, drawn, rules)
    sums = rows.sums_of(2, size)
    bits = expected.count_bits
    if wide:
        words = expected.pull, expected.weight_count
    else:
        packed = expected.packed
        words = packed >> 38, (((packed >> 12) & 0x3FFFFFF) << bits) + (packed & 4095)
    assert sums == tuple(int(each[drawn].sum()) for each in words)
    for feature in range(features):
        codes = table.codes[feature][drawn]
        found = rows.bins(2, 256 * feature, 256 * (feature + 1))
        for k in range(2):
            of = [words[k][drawn][codes == code].sum() for code in range(256)]
            np.testing.assert_array_equal(found[:, k], of)


def test_what_does_not_fit_is_refused_before_it_starts():
    table = Table.build(np.arange(1000.0)[:, None])
    with pytest.raises(ValueError, match=r"rows of the table would take .* use device='cpu'"):
        cuda.DeviceRows(
            EmulatedDevice(free=1000), table, np.array([0]), np.zeros(1, np.int8), np.zeros(1, bool)
        )


def test_the_kernels_have_the_constants_of_the_portable_functions():
    source = Path(cuda.__file__).parent
    text = (source / "kernels.cu").read_text(encoding="utf-8")
    written = {float(each) for each in re.findall(r"\d+\.\d+(?:e[+-]?\d+)?", text)}
    tree = ast.parse((source / "portable.py").read_text(encoding="utf-8"))
    inner = [each for each in tree.body if isinstance(each, ast.FunctionDef) and "INNER" in
             ast.unparse(each.decorator_list[0] if each.decorator_list else each)]  # fmt: skip
    assert len(inner) == 4
    for function in inner:
        of = [each.value for each in ast.walk(function) if isinstance(each, ast.Constant)]
        assert {each for each in of if isinstance(each, float)} <= written, function.name


@pytest.mark.parametrize("rows", [(3, 9), (3, 5, 9)])
def test_only_the_ends_of_the_rows_of_a_node_count(rows):
    work = cuda.NodeWork(rows, (0, 1), 4, None, (3, 5), (0, 1), (True, False), *cuda.NO_SUMS)
    assert len(work.words()) == cuda.WORDS
    assert work.words()[:5] == [3, 9, 0, 1, 4]
