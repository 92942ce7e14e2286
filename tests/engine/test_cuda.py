"""The engine on an emulated device, compared with that of the CPU."""

import ast
import re
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.base import clone

from emulated_device import EmulatedDevice, needs_compiler
from naive_trees import quantize
from precede import BoostedRanker, GlassBoxRanker, PushRanker, QBRank, RankBoost, RankBoostPlus
from precede.engine import cuda, portable
from precede.engine.backend import BACKENDS
from precede.engine.cuda import tiles
from precede.engine.exact import exact_sum, exact_sums
from precede.engine.execution import Context
from precede.engine.quantization import QuantizedRows
from precede.engine.table import Table
from precede.engine.tree_rows import Node, Rules

X, Y = np.arange(40.0)[:, None], np.arange(40) % 2
RULES = Rules(1.0, 1.0, 24, 0.0, 0.0, 0.0, 1, 0.0, 0.0)


def gpu_rows(device, table):
    """Return the rows of a table on a device, to grow trees on all features."""
    free = np.zeros(table.n_features, np.int8)
    features = np.arange(table.n_features)
    return cuda.GpuRows(table, features, free, free.astype(bool), Context(1, device))


def test_without_cupy_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    BACKENDS["cuda"].cache_clear()
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
    BACKENDS["cuda"].cache_clear()
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
        node = int(np.flatnonzero(np.array(start) <= tile)[-1])  # as in the kernels
        begin = (tile - start[node]) * size
        assert begin < sizes[node]
        seen[node] += min(size, sizes[node] - begin)
    assert seen == sizes


@needs_compiler
@given(st.lists(st.floats(-1e300, 1e300), max_size=30))
def test_sums(values):
    device, array = EmulatedDevice(), np.array(values, np.float64)
    there = device.put(array)
    assert exact_sums([there], Context(1, device)) == [exact_sum(array)]
    negative = device.put(-array)
    both = device.sums_and_largest([negative, there], absolute=True)
    largest = np.abs(array).max(initial=0.0)
    assert both == [(exact_sum(np.abs(array)), largest), (exact_sum(array), largest)]
    assert device.exact_sums([there, device.put(array[1:])]) == exact_sums([array, array[1:]])


@needs_compiler
def test_arrays_on_the_cpu_are_summed_on_the_cpu():
    device = EmulatedDevice()
    assert exact_sums([np.ones(3)], Context(1, device)) == [3.0]
    assert device.launched == []


@needs_compiler
@example([(2**25 - 65, 2**26 - 1)])
@example([(65 - 2**25, 0)])
@example([(-8191, 16383)] * 4000)
@example([(8191, 16383)] * 4000)
@given(st.lists(st.tuples(st.integers(-(2**12), 2**12), st.integers(0, 2**13)), min_size=1))
def test_two_words_of_32_bits_hold_pull_weight_and_count(rows):
    """The sums of one bin in shared memory."""
    pull, weight = np.array(rows, np.int64).T
    device = EmulatedDevice()
    there = gpu_rows(device, Table.build(np.ones((len(rows), 1))))
    words = device.put((pull << 38) + (weight << 12) + 1)
    quantized = QuantizedRows(words, None, None, 1.0, 1.0, 24, 1.0, 1.0, (0, 0))
    root = Node(0, there.begin_tree(quantized, RULES, None, 2), 0, slot=0)
    expected = pull.sum(), (int(weight.sum()) << 24) + len(rows)
    assert there.total(root) == expected


@needs_compiler
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("features", [1, 32, 45])
def test_histograms_over_several_tiles(monkeypatch, wide, features):
    """Packed sums that would overflow are taken in two passes."""
    monkeypatch.setattr(cuda, "MAX_FILL_TILE", 50)
    monkeypatch.setattr(cuda, "MIN_FILL_TILE", 10)
    rng = np.random.default_rng(features)
    values = rng.normal(size=(333, features))
    values[rng.random(values.shape) < 0.1] = np.nan
    table, device = Table.build(values), EmulatedDevice()
    rows = gpu_rows(device, table)
    pull, weight = rng.normal(size=333), rng.random(333)
    pull[:20] *= 100
    there = device.put(pull), device.put(weight)
    numbers, expected = (
        quantize(*there, Context(1, device), wide=wide),
        quantize(pull, weight, wide=wide),
    )
    assert (numbers.pull_unit, numbers.weight_unit) == (expected.pull_unit, expected.weight_unit)
    drawn = np.flatnonzero(rng.random(333) < 0.6).astype(np.int32)
    rules = replace(RULES, count_bits=expected.count_bits)
    root = Node(0, rows.begin_tree(numbers, rules, drawn, 2), 0, slot=2)
    sums = rows.total(root)
    bits = expected.count_bits
    if wide:
        words = expected.pull, expected.weight_count
    else:
        packed = expected.packed
        words = packed >> 38, (((packed >> 12) & 0x3FFFFFF) << bits) + (packed & 4095)
    assert sums == tuple(int(each[drawn].sum()) for each in words)
    for feature in range(features):
        codes = table.codes[feature][drawn]
        found = rows._bins(2, 256 * feature, 256 * (feature + 1))
        for k in range(2):
            of = [words[k][drawn][codes == code].sum() for code in range(256)]
            np.testing.assert_array_equal(found[:, k], of)


def test_too_little_memory_raises_before_the_fit():
    table = Table.build(np.arange(1000.0)[:, None])
    with pytest.raises(ValueError, match=r"rows of the table would take .* use device='cpu'"):
        gpu_rows(EmulatedDevice(free=1000), table)


def test_the_kernels_have_the_constants_of_the_portable_functions():
    source = Path(cuda.__file__).parent
    text = (source / "kernels.cu").read_text(encoding="utf-8")
    written = {float(each) for each in re.findall(r"\d+\.\d+(?:e[+-]?\d+)?", text)}
    named = [
        portable.SHIFT,
        portable.LOG_2_HIGH,
        portable.LOG_2_LOW,
        portable.SQRT_2,
    ]
    named += [*portable.EXP_COEFFICIENTS, *portable.LOG_COEFFICIENTS, 2.0**-53]
    assert set(named) <= written
    tree = ast.parse((source / "portable.py").read_text(encoding="utf-8"))
    steps = [each for each in tree.body if getattr(each, "name", "") in ("_exp", "_log", "_log1p")]
    assert len(steps) == 3
    for function in steps:
        of = {each.value for each in ast.walk(function) if isinstance(each, ast.Constant)}
        edges = {each for each in of if isinstance(each, float) and each != int(each)}
        assert edges <= written, function.name


@pytest.mark.parametrize("pointer", [0, 7])
def test_copies_wait_for_the_stream_of_the_thread(pointer):
    """A copy on the default stream would not wait for kernels of another stream."""
    done = []
    stream = SimpleNamespace(ptr=pointer, synchronize=lambda: done.append("waited"))
    data = SimpleNamespace(copy_from_host=lambda _, size: done.append(("default", size)))

    def there(array, stream):
        done.append((stream, array.nbytes))

    device = object.__new__(cuda.CudaBackend)
    device.xp = SimpleNamespace(
        ndarray=SimpleNamespace, cuda=SimpleNamespace(get_current_stream=lambda: stream),
        empty=lambda *_: SimpleNamespace(data=data, set=there),
    )  # fmt: skip
    device.put(np.zeros(3))
    assert done == ([(stream, 24), "waited"] if pointer else [("default", 24)])


# -- whole fits ----------------------------------------------------------------------------------


def fitted_on_device(monkeypatch, device, model, given):
    monkeypatch.setitem(BACKENDS, "cuda", lambda _: device)
    return model.set_params(device="cuda").fit(**given)


def problem(kind, rows):
    rng = np.random.default_rng(rows)
    X = rng.normal(size=(rows, 5))
    y = np.digitize(X[:, 0] + rng.normal(size=rows), [0, 1])
    return {
        "queries": {"X": X, "y": y, "qid": np.arange(rows) // 50},
        "one list": {"X": X, "y": y > 0},
        "pairs": {"X": X, "pairs": rng.permutation(rows)[: rows // 2 * 2].reshape(-1, 2)},
    }[kind]


@needs_compiler
@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (BoostedRanker(num_leaves=4), "queries"),
        (BoostedRanker(num_leaves=4), "one list"),
        (BoostedRanker(num_leaves=4, loss="hinge"), "one list"),
        (BoostedRanker(num_leaves=4, loss="squared_hinge"), "pairs"),
        (BoostedRanker(num_leaves=4, rank_weight="ndcg"), "queries"),
        (BoostedRanker(num_leaves=4, loss="exponential", rank_weight="ndcg@10"), "queries"),
        (BoostedRanker(num_leaves=4, targets="average", hessian="bound"), "queries"),
        (BoostedRanker(num_leaves=4, subsample=0.5), "queries"),
        (BoostedRanker(num_leaves=4, subsample=0.5, subsample_by="query"), "queries"),
        (QBRank(num_leaves=4), "queries"),
        (QBRank(num_leaves=4, subsample=0.5), "pairs"),
        (RankBoost(), "queries"),
        (RankBoost(rank_weight="ndcg"), "queries"),
        (PushRanker(price=4), "one list"),
    ],
    ids=str,
)
def test_a_round_copies_only_a_tree_and_a_few_sums(monkeypatch, model, kind):
    """No array with even a byte per row is copied after the data."""
    device, rows, marks = EmulatedDevice(), 5000, []
    model = clone(model).set_params(
        n_estimators=3, callbacks=[lambda _: marks.append((len(device.sent), len(device.fetched)))]
    )
    fitted_on_device(monkeypatch, device, model, problem(kind, rows))
    (sent, fetched), (sent_then, fetched_then) = marks[0], marks[-1]
    assert max(device.sent[:sent]) >= rows
    moved = device.sent[sent:sent_then] + device.fetched[fetched:fetched_then]
    assert 0 < max(moved) < rows
    assert sum(moved) < 2 * 10_000


@needs_compiler
@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (BoostedRanker(), "queries"),
        (BoostedRanker(), "pairs"),
        (BoostedRanker(loss="hinge"), "one list"),
        (BoostedRanker(loss="exponential"), "queries"),
        (BoostedRanker(loss="exponential", rank_weight="ndcg@10"), "queries"),
        (BoostedRanker(rank_weight="ndcg"), "queries"),
        (QBRank(), "queries"),
        (RankBoost(), "queries"),
        (PushRanker(), "one list"),
        (RankBoostPlus(), "queries"),
        (GlassBoxRanker(), "queries"),
    ],
    ids=str,
)
def test_a_fit_that_needs_too_much_memory_raises_before_the_first_round(monkeypatch, model, kind):
    for free in (10, 20_000):
        device, rounds = EmulatedDevice(free=free), []
        model = clone(model).set_params(callbacks=[rounds.append])
        with pytest.raises(ValueError, match=r"would take .* GB on emulated device"):
            fitted_on_device(monkeypatch, device, model, problem(kind, 300))
        assert not rounds
        assert not {"fill_histograms", "stump_fill", "multiply_and_sum"} & {*device.launched}


@needs_compiler
def test_histograms_that_need_too_much_memory_raise_before_the_fit(monkeypatch):
    """The number of leaves is bounded by num_leaves, by the depth and by the rows."""
    slot = 32 * 4096
    given = problem("queries", 600)
    for leaves, parameters in [(100, {}), (128, {"max_depth": 7}), (150, {})]:
        asked = {"num_leaves": leaves if leaves == 100 else 5000, "min_child_samples": 4}
        model = BoostedRanker(n_estimators=1, **asked, **parameters)
        device = EmulatedDevice(free=(128 + 64) * slot - 1)
        with pytest.raises(ValueError, match=f"histograms of {leaves} leaves would take"):
            fitted_on_device(monkeypatch, device, model, given)
        assert "fill_histograms" not in device.launched


@needs_compiler
def test_without_memory_for_speculation_nodes_are_split_one_by_one(monkeypatch):
    """Speculative splits need histograms that the tree may not use."""
    given, asked, searches, models = problem("queries", 400), [], [], []
    for enough in (True, False):
        answer = lambda _, slots, enough=enough: asked.append(slots) or enough  # noqa: E731
        monkeypatch.setattr(cuda.GpuRows, "has_room", answer)
        device = EmulatedDevice()
        model = BoostedRanker(n_estimators=2, num_leaves=16, min_child_samples=2)
        models.append(fitted_on_device(monkeypatch, device, model, given))
        searches.append(device.launched.count("search_splits"))
    assert models[0].ensemble_.to_dict() == models[1].ensemble_.to_dict()
    assert searches[1] > searches[0]
    assert max(asked) > 8


@needs_compiler
def test_room_for_histograms():
    device = EmulatedDevice(free=10 * 32 * 4096)
    rows = gpu_rows(device, Table.build(X))
    assert rows.has_room(10)
    assert not rows.has_room(11)
    rows.histograms = device.zeros(12, 1)
    assert rows.has_room(12)


def test_a_kernel_keeps_the_shared_memory_it_was_allowed():
    """Another thread may have allowed more in the meantime."""
    asked = []
    kernel = SimpleNamespace(max_dynamic_shared_size_bytes=0)
    device = object.__new__(cuda.CudaBackend)
    device._kernels, device._lock = {}, threading.Lock()
    device._module = SimpleNamespace(get_function=lambda name: asked.append(name) or kernel)
    for shared, allowed in ((100, 100), (50, 100), (200, 200), (0, 200)):
        assert device._allow_shared("fill_histograms", shared) is kernel
        assert kernel.max_dynamic_shared_size_bytes == allowed
    assert asked == ["fill_histograms"]
