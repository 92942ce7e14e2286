"""The engine on a GPU: arrays, exact sums and the rows of trees, with the same bits as on the CPU.

This is the only module that imports CuPy; `precede.engine.backend.open_backend` opens it. The
kernels, in `kernels.cu`, are compiled at the first use on a machine; CuPy caches them on disk.

`CudaBackend` offers arrays and sums. `DeviceRows` is the counterpart of
`precede.engine.tree_histograms`: it partitions the rows of nodes, sums histograms and searches
them, for many nodes at a time. The codes of a table are copied to the device once; in each round
only the best splits, the sums of the leaves and a few totals are copied back.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from precede.engine.arrays import Array, Flags, Floats, Integers, Keys, Rows, Signs
from precede.engine.backend import Backend, Grid
from precede.engine.exact import from_fixed_point
from precede.engine.execution import Context
from precede.engine.histograms import GPU_GROUP
from precede.engine.quantization import (
    Quantization,
    QuantizedRows,
    plan_quantization,
    power_factors,
)

if TYPE_CHECKING:
    from precede.engine.table import Table


# Rows of a tile, which one thread block partitions, sums into histograms (at most), or sums in
# leaves; as in `kernels.cu`.
PARTITION_TILE, MAX_FILL_TILE, LEAF_TILE = 2048, 4000, 4096
# Bytes of shared memory for the histograms of a thread block; as in `kernels.cu`.
FILL_SHARED_BYTES = 2 * GPU_GROUP * 257 * 4
# Row lists: the rows of a node are partitioned into the list of the next depth, so that the ranges
# of all nodes above stay valid. Below a depth of LISTS - 2 the last two lists alternate.
LISTS = 18
# Fewest slots of the pool of histograms.
MIN_SLOTS = 64
# Rows from which one warp draws a subsample, as in `kernels.cu`.
DRAW_TILE = 2048
# Thread blocks that clear the histogram of a node, as in `kernels.cu`.
CLEARING_BLOCKS = 20
# Thread blocks to aim for when histograms of few rows are filled, and the fewest rows of one.
TARGET_FILL_BLOCKS, MIN_FILL_TILE = 1188, 250
# Most thread blocks (of 256 threads) of kernels that loop over all rows.
MAX_BLOCKS = 1056


class CudaBackend(Backend):
    """A GPU, its memory and its kernels."""

    is_gpu = True

    def __init__(self) -> None:
        try:
            import cupy  # noqa: PLC0415  (optional)
        except ImportError as error:
            raise ImportError(
                "device='cuda' needs CuPy, which is not installed: pip install 'precede[cuda13]', "
                "or 'precede[cuda12]' where the driver is of CUDA 12; or use device='cpu'"
            ) from error
        self.xp = cupy
        try:
            count = cupy.cuda.runtime.getDeviceCount()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise RuntimeError(_NO_GPU.format(error)) from error
        if not count:
            raise RuntimeError(_NO_GPU.format("none is visible"))
        source = Path(__file__).with_name("kernels.cu").read_text(encoding="utf-8")
        self._module = cupy.RawModule(code=source, options=("-fmad=false",))
        self._kernels: dict[str, tuple[Any, int]] = {}
        self._lock = threading.Lock()

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name of the GPU."""
        runtime = self.xp.cuda.runtime
        return str(runtime.getDeviceProperties(runtime.getDevice())["name"].decode())

    @property
    def count(self) -> int:  # type: ignore[override]
        """Number of GPUs visible to this process."""
        return int(self.xp.cuda.runtime.getDeviceCount())

    def use(self, number: int) -> None:
        """Make GPU `number` current for this thread."""
        self.xp.cuda.Device(number).use()

    def launch(
        self, kernel: str, grid: Grid, block: Grid, *arguments: Any, shared: int = 0
    ) -> None:
        """Launch a kernel; Python integers are passed as 32 bits, NumPy's with their own size."""
        function, allowed = self._kernels.get(kernel, (None, 0))
        if function is None or shared > allowed:
            function = self._allow_shared(kernel, shared)
        given = tuple([np.int32(each) if type(each) is int else each for each in arguments])
        sizes = [each if type(each) is tuple else (each,) for each in (grid, block)]
        function(*sizes, given, shared_mem=shared)

    def _allow_shared(self, kernel: str, shared: int) -> Any:
        """Return the kernel after allowing it, in all threads, `shared` bytes of shared memory."""
        with self._lock:
            function, allowed = self._kernels.get(kernel, (None, 0))
            if function is None or shared > allowed:
                function = function or self._module.get_function(kernel)
                function.max_dynamic_shared_size_bytes = shared
                self._kernels[kernel] = function, shared
            return function

    def over_rows(self, kernel: str, count: int, *arguments: Any) -> None:
        """Launch a kernel whose threads share ``range(count)``; `count` is its first argument."""
        if count:
            grid = min(-(-count // 256), MAX_BLOCKS)
            self.launch(kernel, grid, 256, np.int64(count), *arguments)

    # -- arrays ----------------------------------------------------------------------------

    def put(self, array: Any) -> Any:
        """Copy an array to the device, unless it is on the device."""
        if self.holds(array):
            return array
        array = np.ascontiguousarray(array)
        copy = self.xp.empty(array.shape, array.dtype)
        stream = self.xp.cuda.get_current_stream()
        if stream.ptr:  # a copy on the default stream would not wait for this stream
            copy.set(array, stream=stream)
            stream.synchronize()
        elif array.nbytes:  # several times faster than CuPy's own copy
            copy.data.copy_from_host(array.ctypes.data, array.nbytes)
        return copy

    def adopt(self, value: Any) -> Any:
        """Wrap a foreign GPU array (CUDA array interface or DLPack) without copying."""
        if hasattr(value, "__cuda_array_interface__") or self.holds(value):
            return self.xp.asarray(value)
        return self.xp.from_dlpack(value)

    def get(self, array: Any) -> Array:
        """Return a NumPy array, copied from the device if need be."""
        return array.get() if self.holds(array) else array

    def check_room(self, needed: int, what: str) -> None:
        """Raise ValueError if `needed` bytes of memory are not free."""
        if not self.has_room(needed):
            raise ValueError(
                f"{what} would take {needed / 1e9:.1f} GB on {self.name}, which has "
                f"{self.free() / 1e9:.1f} GB left; use device='cpu', or fewer leaves or rows"
            )

    def has_room(self, needed: int) -> bool:
        """Return whether `needed` bytes of memory are free."""
        return needed <= self.free()

    def free(self) -> int:
        """Return the free memory in bytes."""
        free = self.xp.cuda.runtime.memGetInfo()[0]
        return int(free + self.xp.get_default_memory_pool().free_bytes())

    def lexsort(self, key: Array, run: Integers) -> Integers:
        """Return a stable sort of the rows by `run`, then by `key`."""
        by_key = self.xp.argsort(self.put(key))
        by_run = self.xp.argsort(self.put(run.astype(np.uint32))[by_key])
        return self.get(by_key[by_run])

    # -- sums ------------------------------------------------------------------------------

    def exact_sums(self, arrays: Sequence[Any]) -> list[float]:
        """Return the exact sum of each array, with the bits of `precede.engine.exact`."""
        if len(arrays) == 2 and arrays[0].size == arrays[1].size:
            return [total for total, _ in self.sums_and_largest(arrays)]
        return [self.sums_and_largest([each])[0][0] for each in arrays]

    def sums_and_largest(
        self, arrays: Sequence[Any], *, absolute: bool = False
    ) -> list[tuple[float, float]]:
        """Return the exact sum and the largest absolute value of one or two arrays of equal size.

        With `absolute`, the absolute values of the first array are summed.
        """
        found, count = self.zeros(len(arrays), 3, dtype=np.uint64), arrays[0].size
        if count:
            grid = min(-(-count // 256), MAX_BLOCKS), len(arrays)
            given = arrays[0], arrays[-1], found
            self.launch("largest", grid, 256, np.int64(count), *given)
            self.launch("words_of", grid, 256, np.int64(count), int(absolute), *given)
        sums = []
        for words in self.get(found):
            largest = float(words[:1].view(np.float64)[0])
            total = largest
            if 0 < largest < math.inf:
                total = float(from_fixed_point(words[1:].view(np.int64), math.frexp(largest)[1]))
            sums.append((total, largest))
        return sums

    def advance(self, scores: Any, values: Any, weight: float, context: Context) -> None:  # noqa: ARG002
        """Add ``weight * values`` to the scores in place."""
        values = self.put(values)
        if values.dtype == np.uint8:
            self.over_rows("advance_by_bytes", scores.size, scores, values, float(weight))
            return
        values = values.astype(np.float64, copy=False)
        self.over_rows("advance", scores.size, scores, values, float(weight))

    def divide(self, arrays: tuple[Any, Any], divisor: float, context: Context) -> None:  # noqa: ARG002
        """Divide two arrays of equal size by a number in place."""
        self.over_rows("divide_by", arrays[0].size, float(divisor), *arrays)

    def draw(self, keys: Keys, seeds: Keys, threshold: float) -> Any:
        """Return the rows whose keys, hashed with `seeds` to 53 bits, are below the threshold."""
        if not keys.size:
            return self.zeros(0, dtype=np.int32)
        n_tiles = -(-keys.size // DRAW_TILE)
        given = np.int64(keys.size), keys, self.put(seeds), threshold
        counts, rows = self.zeros(n_tiles, dtype=np.int64), self.zeros(1, dtype=np.int32)
        self.launch("draw", n_tiles, 32, *given, 0, counts, rows)
        ends = np.cumsum(self.get(counts))
        rows = self.xp.empty(int(ends[-1]), np.int32)
        if rows.size:
            self.launch("draw", n_tiles, 32, *given, 1, self.put(np.r_[0, ends[:-1]]), rows)
        return rows

    def function(self, name: str, values: Any) -> Any:
        """Return ``exp``, ``log`` or ``log1p`` of each value; see `precede.engine.portable`."""
        values, out = self.put(values), self.zeros(values.size)
        which = ("exp", "log", "log1p").index(name)
        self.over_rows("functions", values.size, which, values, out)
        return out

    @property
    def arrays(self) -> Any:
        """The array namespace, under its former name."""
        return self.xp


Device = CudaBackend

_NO_GPU = (
    "device='cuda': CuPy finds no GPU ({}); check whether nvidia-smi shows one and whether the "
    "extra (cuda12 or cuda13) fits its driver, or use device='cpu'"
)


@dataclass(frozen=True)
class SearchRules:
    """Constraints on splits; see `precede.weak_rankers.tree_grower.Rules`.

    Attributes
    ----------
    units : pull_unit, weight_unit and count_bits of the histograms
    penalties : reg_lambda, reg_alpha and cat_smooth
    min_count, min_weight : least number of rows and least weight of a child
    plain : whether reg_alpha is 0 and no feature has a monotone constraint
    """

    units: tuple[float, float, int]
    penalties: tuple[float, float, float]
    min_count: int
    min_weight: float
    plain: bool

    def packed(self) -> Array:
        """Return the bytes of the struct `Rules` of the kernels."""
        (pull_unit, weight_unit, count_bits), (penalty, alpha, smooth) = self.units, self.penalties
        floats = np.array([pull_unit, weight_unit, penalty, alpha, smooth, self.min_weight])
        integers = np.array([count_bits, max(self.min_count, 1), self.plain], np.int64)
        return np.concatenate([floats.view(np.uint8), integers.view(np.uint8)])


@dataclass(frozen=True)
class NodeWork:
    """The split of one node: rows to partition, child to sum and children to search.

    Of two children the smaller one comes first.

    Attributes
    ----------
    rows : range of the node's rows; only the first and the last entry are used
    lists : numbers of the lists that hold its rows and receive them
    feature : that the node is split on
    goes_left : whether rows of each of the 256 codes go left; None to partition nothing
    smaller : range of the rows of the smaller child
    slots : of the histograms of the smaller child and of the node, which becomes the larger child's
    search : whether to search each child
    sums : the two words of the sums of each child
    bounds : of the values below each child
    allowed : features that may be split on; None for all
    """

    rows: tuple[int, ...]
    lists: tuple[int, int]
    feature: int
    goes_left: Flags | None
    smaller: tuple[int, int]
    slots: tuple[int, int]
    search: tuple[bool, bool]
    sums: tuple[tuple[int, int], tuple[int, int]]
    bounds: tuple[tuple[float, float], tuple[float, float]]
    allowed: Flags | None = None

    def words(self) -> list[int]:
        """Return the words of the struct `Work` of the kernels."""
        (one, one_weight), (other, other_weight) = self.sums
        search = self.search[0] + 2 * self.search[1]
        ends = self.rows[0], self.rows[-1]
        return [
            *ends, *self.lists, self.feature, *self.smaller, *self.slots, search,
            one, other, one_weight, other_weight, 0, 0, 0, 0, 0, 0,
        ]  # fmt: skip


# Sums and bounds of children that are not searched.
NO_SUMS = ((0, 0), (0, 0)), ((0.0, 0.0), (0.0, 0.0))
# Number of words of a `Work`, and the one in which the kernels count the rows that go left.
WORK_WORDS, LEFT_COUNT = 20, 14


def tiles(sizes: Sequence[int], size: int) -> tuple[list[int], int]:
    """Cut ranges of rows into tiles; return each range's first tile and the number of tiles.

    >>> tiles([5, 0, 3], 4)
    ([0, 2, 2], 3)
    """
    start, count = [], 0
    for each in sizes:
        start.append(count)
        count -= -each // size
    return start, count


class Batch:
    """The splits of several nodes, copied to the device as one array.

    Attributes
    ----------
    work, bounds, goes_left, allowed : arguments of the kernels; `allowed` is None for all features
    first_to_move, first_to_fill : the first tile of each node; see `tiles`
    tiles_to_move, tiles_to_fill : number of tiles to partition and to sum
    fill_tile : rows of a tile to sum; each of `groups` of features has its own thread block
    """

    def __init__(self, device: Backend, nodes: Sequence[NodeWork], groups: int):
        self.count = count = len(nodes)
        moved = [0 if each.goes_left is None else each.rows[-1] - each.rows[0] for each in nodes]
        to_move, self.tiles_to_move = tiles(moved, PARTITION_TILE)
        filled = [each.smaller[1] - each.smaller[0] for each in nodes]
        wanted = sum(filled) * groups // TARGET_FILL_BLOCKS + 1
        self.fill_tile = min(MAX_FILL_TILE, max(MIN_FILL_TILE, wanted))
        to_fill, self.tiles_to_fill = tiles(filled, self.fill_tile)
        restricted = [each.allowed for each in nodes if each.allowed is not None]
        flags = sum(map(len, restricted))
        sizes = WORK_WORDS * count, 4 * count, count, count, 32 * count, -(-flags // 8)
        ends = [*accumulate(sizes)]
        whole = np.zeros(ends[-1], np.int64)
        whole[: ends[0]] = [word for each in nodes for word in each.words()]
        whole[ends[0] : ends[1]].view(np.float64)[:] = [
            end for each in nodes for bound in each.bounds for end in bound
        ]
        whole[ends[1] : ends[3]] = to_move + to_fill
        flag = whole[ends[3] :].view(np.bool_)
        for number, each in enumerate(nodes):
            if each.goes_left is not None:
                flag[256 * number : 256 * number + 256] = each.goes_left
        if restricted:
            flag[256 * count : 256 * count + flags] = np.concatenate(restricted)
        whole = device.put(whole)
        self.work, self.bounds, self.first_to_move, self.first_to_fill, self.goes_left, allowed = (
            whole[end - size : end] for size, end in zip(sizes, ends, strict=True)
        )
        self.allowed = allowed if restricted else None


class DeviceRows:
    """The rows of a table on a device: their codes, row lists, and a pool of histograms.

    Parameters
    ----------
    device : Backend
    table : Table whose codes are copied
    features : numbers of the features to use
    monotone, categorical : of these features; see `precede.weak_rankers.tree_grower.SplitSearch`

    Attributes
    ----------
    n_bins : number of bins of each feature
    lists : array (`LISTS`, rows) of row numbers, in which nodes are ranges
    histograms : array (slots, features, 256, 2); grows on demand
    """

    def __init__(
        self,
        device: Backend,
        table: Table,
        features: Integers,
        monotone: Signs,
        categorical: Flags,
    ):
        self._device, self.n_rows = device, table.n_used_rows
        self.n_bins = table.bins.n_bins[features]
        self._groups = max(1, -(-features.size // GPU_GROUP))
        self.width = GPU_GROUP * self._groups
        device.check_room(self.n_rows * (2 * self.width + 4 * LISTS + 64), "the rows of the table")
        self.codes = table.codes_by_row(device, features)
        self.lists = device.zeros(LISTS, self.n_rows, dtype=np.int32)
        self.histograms = device.zeros(0, self.width, 256, 2, dtype=np.int64)
        # Arguments of the search: bins, directions, categorical flags, and all features allowed.
        self._feature_data = [
            device.put(self.n_bins.astype(np.int64)), device.put(monotone.astype(np.int8)),
            device.put(categorical.astype(np.uint8)), device.put(np.ones(features.size, np.uint8)),
        ]  # fmt: skip

    # -- one tree --------------------------------------------------------------------------

    def quantize(self, pull: Floats, weight: Floats, *, wide: bool) -> QuantizedRows | None:
        """Quantize pulls and weights; see `precede.engine.quantization.quantize_rows`."""
        sums = self._device.sums_and_largest([pull, weight], absolute=True)
        (total, largest), (total_weight, heaviest) = sums
        plan = plan_quantization(pull.size, (total, total_weight), (largest, heaviest), wide=wide)
        return None if plan is None else self.quantize_by(plan, pull, weight)

    def quantize_by(self, plan: Quantization, pull: Floats, weight: Floats) -> QuantizedRows:
        """Quantize pulls and weights by a given plan."""
        first = self._device.xp.empty(pull.size, np.int64)
        second = self._device.xp.empty(pull.size if plan.wide else 0, np.int64)
        self._device.over_rows(
            "pack", pull.size, int(plan.wide), plan.count_bits, pull, weight,
            *power_factors(plan.pull_bits), *power_factors(plan.weight_bits), first, second,
        )  # fmt: skip
        return plan.rows(first, second)

    def begin_tree(
        self, numbers: QuantizedRows, rows: Rows | None, rules: SearchRules | None
    ) -> int:
        """Fill the first row list (all rows if None) and return its size.

        `rules` may be None if nothing is to be searched.
        """
        if rules is not None:
            self._rules = self._device.put(rules.packed())
        self._wide = numbers.packed is None
        self._words = [numbers.pull, numbers.weight_count] if self._wide else [numbers.packed] * 2
        self._count_bits = numbers.count_bits
        if rows is None:
            self._device.over_rows("count_up", self.n_rows, self.lists[0])
            return self.n_rows
        self.lists[0][: rows.size] = self._device.put(rows)
        return rows.size

    def fill_root(self, slot: int, size: int) -> tuple[int, int]:
        """Sum the histogram of the first `size` rows of the first list; return their sums."""
        self.fill(slot, 0, 0, size)
        pull, weight_count = self.bins(slot, 0, 256).sum(axis=0)
        return int(pull), int(weight_count)

    def fill(self, slot: int, number: int, low: int, high: int) -> None:
        """Sum the histogram of rows low..high of list `number`."""
        work = NodeWork(
            (0, 0), (number, number), 0, None, (low, high), (slot, slot), (False, False), *NO_SUMS
        )
        self._ensure_slot(slot)
        batch = Batch(self._device, [work], self._groups)
        self._partition(batch)
        self._fill(batch)

    def partition(
        self, rows: tuple[int, int], lists: tuple[int, int], feature: int, goes_left: Flags
    ) -> int:
        """Partition the rows of a node into another list; return how many go left."""
        work = NodeWork(rows, lists, feature, goes_left, (0, 0), (0, 0), (False, False), *NO_SUMS)
        self._ensure_slot(0)  # the kernel clears it
        batch = Batch(self._device, [work], self._groups)
        self._partition(batch)
        return int(self._device.get(batch.work[LEFT_COUNT : LEFT_COUNT + 1])[0])

    def bins(self, slot: int, low: int, high: int) -> Integers:
        """Return bins low..high of a histogram, which has 256 bins for each feature."""
        return self._device.get(self.histograms[slot].reshape(-1, 2)[low:high])

    def split_nodes(self, nodes: Sequence[NodeWork]) -> list[Any]:
        """Split a batch of nodes; return the best splits of the two children of each.

        A split is a `precede.engine.tree_histograms.SplitFound`.
        """
        self._ensure_slot(max(each.slots[0] for each in nodes))
        batch = Batch(self._device, nodes, self._groups)
        self._partition(batch)
        self._fill(batch)
        return self._search(batch)

    def search(self, node: NodeWork) -> Any:
        """Return the best split of one node, given as the smaller child."""
        return self._search(Batch(self._device, [node], self._groups))[0][0]

    def check_leaves(self, leaves: int) -> None:
        """Raise ValueError if the histograms of a tree with this many leaves do not fit."""
        size = MIN_SLOTS
        while size < leaves:
            size *= 2
        before = size // 2 if size > MIN_SLOTS else 0  # the old pool is copied when it grows
        needed = (size + before) * self._slot_bytes
        self._device.check_room(needed, f"the histograms of {leaves} leaves")

    def has_room(self, slots: int) -> bool:
        """Return whether the pool has, or can grow to, this many slots."""
        have = len(self.histograms)
        return slots <= have or self._device.has_room(max(2 * have, slots) * self._slot_bytes)

    @property
    def _slot_bytes(self) -> int:
        return self.width * 4096

    def _ensure_slot(self, slot: int) -> None:
        """Grow the pool so that slot `slot` exists."""
        have = len(self.histograms)
        if slot >= have:
            size = max(2 * have, slot + 1, MIN_SLOTS)
            self._device.check_room(size * self._slot_bytes, f"the histograms of {size} leaves")
            pool = self._device.xp.empty((size, self.width, 256, 2), np.int64)
            pool[:have] = self.histograms
            self.histograms = pool

    def _partition(self, batch: Batch) -> None:
        """Partition rows, and clear the histograms that are filled next."""
        self._device.launch(
            "move", batch.tiles_to_move + CLEARING_BLOCKS * batch.count, 512, batch.work,
            batch.first_to_move, batch.count, batch.tiles_to_move, self.width, self.codes,
            batch.goes_left, self.lists, np.int64(self.n_rows), self.histograms,
        )  # fmt: skip

    def _fill(self, batch: Batch) -> None:
        """Sum the histograms of the smaller children."""
        if batch.tiles_to_fill:
            self._device.launch(
                "fill", (batch.tiles_to_fill, self._groups), 512, batch.work, batch.first_to_fill,
                batch.count, batch.fill_tile, self.width, self.n_bins.size, int(self._wide),
                self._count_bits, self.codes, *self._words, self.lists, np.int64(self.n_rows),
                self.histograms, shared=FILL_SHARED_BYTES,
            )  # fmt: skip

    def _search(self, batch: Batch) -> list[Any]:
        """Subtract the smaller children from the nodes and search both children of each."""
        features, children = self.n_bins.size, 2 * batch.count
        n_bins, monotone, categorical, every = self._feature_data
        found = self._device.xp.empty((children * features, 6), np.int64)
        best = self._device.xp.empty((children, 6), np.int64)
        allowed, step = (every, 0) if batch.allowed is None else (batch.allowed, features)
        self._device.launch(
            "search", (features, batch.count, 2), 256, batch.work, self.width, n_bins, allowed,
            step, monotone, categorical, batch.bounds, self._rules, self.histograms, found, best,
        )  # fmt: skip
        words = self._device.get(best)
        gains = words.view(np.float64)[:, 0].tolist()
        splits = [(gain, *rest) for gain, (_, *rest) in zip(gains, words.tolist(), strict=True)]
        return list(zip(splits[::2], splits[1::2], strict=True))

    # -- leaves ----------------------------------------------------------------------------

    def leaf_sums(
        self, leaves: Integers, pull: Floats, weight: Floats, bits: tuple[int, int]
    ) -> Integers:
        """Return exact sums of pull and weight over leaves, given as (low, high, list)."""
        start, count = tiles((leaves[:, 1] - leaves[:, 0]).tolist(), LEAF_TILE)
        sums = self._device.zeros(len(leaves), 2, dtype=np.int64)
        if count:
            self._device.launch(
                "leaf_sums", count, 256, self._device.put(leaves),
                self._device.put(np.array(start)), len(leaves), self.lists, np.int64(self.n_rows),
                pull, weight, *power_factors(bits[0]), *power_factors(bits[1]), sums,
            )  # fmt: skip
        return self._device.get(sums)

    def leaf_values(self, leaves: Integers, value: Floats) -> Any:
        """Return the values of all rows from the ranges of the leaves, see `leaf_sums`."""
        start, count = tiles((leaves[:, 1] - leaves[:, 0]).tolist(), LEAF_TILE)
        values = self._device.xp.empty(self.n_rows, np.float64)
        if count:
            self._device.launch(
                "leaf_values", count, 256, self._device.put(leaves),
                self._device.put(np.array(start)), len(leaves), self.lists,
                np.int64(self.n_rows), self._device.put(value), values,
            )  # fmt: skip
        return values

    def walk(self, feature: Integers, goes_left: Flags, child: Integers, value: Floats) -> Any:
        """Return the values of all rows, including those the tree was not grown on."""
        values = self._device.xp.empty(self.n_rows, np.float64)
        put = self._device.put
        self._device.over_rows(
            "walk", self.n_rows, self.width, self.codes, put(feature),
            put(goes_left.view(np.uint8)), put(child), feature.size, put(value), values,
        )  # fmt: skip
        return values
