"""The engine on a GPU: arrays, exact sums and the rows of trees, with the same bits as on the CPU.

This is the only module that imports CuPy; `precede.engine.backend.open_backend` opens it. The
kernels, in `kernels.cu`, are compiled at the first use on a machine; CuPy caches them on disk.

`CudaBackend` offers arrays and sums. `GpuRows` grows trees: it partitions the rows of nodes, sums
histograms and searches them, for many nodes at a time. The codes of a table are copied to the GPU
once; in each round only the best splits, the sums of the leaves and a few totals are copied back.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from precede.engine.arrays import (
    Array,
    BackendArray,
    Flags,
    Floats,
    Integers,
    Keys,
    Records,
    Signs,
)
from precede.engine.backend import Backend, Grid
from precede.engine.exact import from_fixed_point
from precede.engine.execution import Context
from precede.engine.histograms import GPU_GROUP
from precede.engine.quantization import QuantizedRows, power_factors
from precede.engine.tree_histograms import SplitFound, first_bins
from precede.engine.tree_rows import Node, Rules, SplitSearch, TreeRows

if TYPE_CHECKING:
    from precede.engine.table import Table


# Rows of a tile, the work of one thread block, when rows are partitioned, histograms are filled (at
# most), or leaves are summed; as in `kernels.cu`.
MOVE_TILE, MAX_FILL_TILE, LEAF_TILE = 2048, 4000, 4096
# Bytes of shared memory for the histograms of a thread block; as in `kernels.cu`.
FILL_SHARED_BYTES = 2 * GPU_GROUP * 257 * 4
# Row lists: the rows of a node are partitioned into the list of the next depth, so that the ranges
# of all nodes above stay valid. Below a depth of LISTS - 2 the last two lists alternate.
LISTS = 18
# Most nodes that are split in one batch.
MAX_BATCH = 128
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


class Kernel(Protocol):
    """A compiled kernel of CuPy."""

    max_dynamic_shared_size_bytes: int

    def __call__(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        arguments: tuple[object, ...],
        *,
        shared_mem: int,
    ) -> None:
        """Launch the kernel."""


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
        self._kernels: dict[str, tuple[Kernel, int]] = {}
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
        self, kernel: str, grid: Grid, block: Grid, *arguments: object, shared: int = 0
    ) -> None:
        """Launch a kernel; Python integers are passed as 32 bits, NumPy's with their own size."""
        function, allowed = self._kernels.get(kernel, (None, 0))
        if function is None or shared > allowed:
            function = self._allow_shared(kernel, shared)
        sized = tuple([np.int32(each) if type(each) is int else each for each in arguments])
        blocks, threads = (each if isinstance(each, tuple) else (each,) for each in (grid, block))
        function(blocks, threads, sized, shared_mem=shared)

    def _allow_shared(self, kernel: str, shared: int) -> Kernel:
        """Return the kernel after allowing it, in all threads, `shared` bytes of shared memory."""
        with self._lock:
            function, allowed = self._kernels.get(kernel, (None, 0))
            if function is None or shared > allowed:
                function = function or self._module.get_function(kernel)
                function.max_dynamic_shared_size_bytes = shared
                self._kernels[kernel] = function, shared
            return function

    def over_rows(self, kernel: str, count: int, *arguments: object) -> None:
        """Launch a kernel whose threads share ``range(count)``; `count` is its first argument."""
        if count:
            grid = min(-(-count // 256), MAX_BLOCKS)
            self.launch(kernel, grid, 256, np.int64(count), *arguments)

    # -- arrays ----------------------------------------------------------------------------

    def put(self, array: BackendArray) -> BackendArray:
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

    def adopt(self, value: BackendArray) -> BackendArray:
        """Wrap a foreign GPU array (CUDA array interface or DLPack) without copying."""
        if hasattr(value, "__cuda_array_interface__") or self.holds(value):
            return self.xp.asarray(value)
        return self.xp.from_dlpack(value)

    def get(self, array: BackendArray) -> Array:
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

    def sort_levels(
        self,
        key: Array,
        level: Integers,
        context: Context,  # noqa: ARG002
    ) -> Integers:
        """Return a stable sort by `key` of the rows of each level, whose levels increase."""
        by_key = self.xp.argsort(self.put(key))
        by_level = self.xp.argsort(self.put(level.astype(np.uint32))[by_key])
        return self.get(by_key[by_level])

    # -- sums ------------------------------------------------------------------------------

    def exact_sums(self, arrays: Sequence[BackendArray]) -> list[float]:
        """Return the exact sum of each array, with the bits of `precede.engine.exact`."""
        if len(arrays) == 2 and arrays[0].size == arrays[1].size:
            return [total for total, _ in self.sums_and_largest(arrays)]
        return [self.sums_and_largest([each])[0][0] for each in arrays]

    def sums_and_largest(
        self, arrays: Sequence[BackendArray], *, absolute: bool = False
    ) -> list[tuple[float, float]]:
        """Return the exact sum and the largest absolute value of one or two arrays of equal size.

        With `absolute`, the absolute values of the first array are summed.
        """
        words, count = self.zeros(len(arrays), 3, dtype=np.uint64), arrays[0].size
        if count:
            grid = min(-(-count // 256), MAX_BLOCKS), len(arrays)
            both = arrays[0], arrays[-1], words
            self.launch("largest_absolute", grid, 256, np.int64(count), *both)
            self.launch("fixed_point_sums", grid, 256, np.int64(count), int(absolute), *both)
        sums = []
        for words_of_array in self.get(words):
            largest = float(words_of_array[:1].view(np.float64)[0])
            total = largest
            if 0 < largest < math.inf:
                sum_words = words_of_array[1:].view(np.int64)
                total = float(from_fixed_point(sum_words, math.frexp(largest)[1]))
            sums.append((total, largest))
        return sums

    def advance(
        self,
        scores: BackendArray,
        values: BackendArray,
        weight: float,
        context: Context,  # noqa: ARG002
    ) -> None:
        """Add ``weight * values`` to the scores in place."""
        values = self.put(values)
        if values.dtype == np.uint8:
            self.over_rows("advance_by_bytes", scores.size, scores, values, float(weight))
            return
        values = values.astype(np.float64, copy=False)
        self.over_rows("advance", scores.size, scores, values, float(weight))

    def divide(
        self,
        arrays: tuple[BackendArray, BackendArray],
        divisor: float,
        context: Context,  # noqa: ARG002
    ) -> None:
        """Divide two arrays of equal size by a number in place."""
        self.over_rows("divide", arrays[0].size, float(divisor), *arrays)

    def draw(self, keys: Keys, seeds: Keys, threshold: float) -> BackendArray:
        """Return the rows whose keys, hashed with `seeds` to 53 bits, are below the threshold."""
        if not keys.size:
            return self.zeros(0, dtype=np.int32)
        n_tiles = -(-keys.size // DRAW_TILE)
        inputs = np.int64(keys.size), keys, self.put(seeds), threshold
        counts, rows = self.zeros(n_tiles, dtype=np.int64), self.zeros(1, dtype=np.int32)
        self.launch("draw_rows", n_tiles, 32, *inputs, 0, counts, rows)
        ends = np.cumsum(self.get(counts))
        rows = self.xp.empty(int(ends[-1]), np.int32)
        if rows.size:
            self.launch("draw_rows", n_tiles, 32, *inputs, 1, self.put(np.r_[0, ends[:-1]]), rows)
        return rows


_NO_GPU = (
    "device='cuda': CuPy finds no GPU ({}); check whether nvidia-smi shows one and whether the "
    "extra (cuda12 or cuda13) fits its driver, or use device='cpu'"
)


class Work(NamedTuple):
    """A node to split: the struct `Work` of the kernels.

    Of two children the smaller one comes first.

    Attributes
    ----------
    low, high : range of the rows to partition
    source, target : numbers of the lists that hold these rows and receive them
    feature : that the node is split on
    sum_low, sum_high : range of the rows to sum, in the list `target`
    slot, parent : slots of the histograms of the smaller child and of the node, whose histogram
        becomes that of the larger child
    search : bit 0: search the smaller child; bit 1: the larger one
    pull, other_pull, weight, other_weight : the two words of the sums of each child
    """

    low: int = 0
    high: int = 0
    source: int = 0
    target: int = 0
    feature: int = 0
    sum_low: int = 0
    sum_high: int = 0
    slot: int = 0
    parent: int = 0
    search: int = 0
    pull: int = 0
    other_pull: int = 0
    weight: int = 0
    other_weight: int = 0


# Words of a `Work` with the counters of the kernels; the first counts the rows that go left.
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
    """Work on several nodes, copied to the GPU as one array.

    Parameters
    ----------
    backend : Backend
    works : the `Work` of each node
    groups : number of groups of features, each summed by a separate thread block
    left_codes : for each node to partition, whether rows of each of the 256 codes go left
    bounds : for each node to search, bounds of the leaf values below each child
    allowed : for each node to search, the features that may be split on; None for all

    Attributes
    ----------
    work, bounds, left_codes, allowed : arguments of the kernels
    first_to_move, first_to_fill : the first tile of each node; see `tiles`
    tiles_to_move, tiles_to_fill : number of tiles to partition and to sum
    fill_tile : rows of a tile to sum
    """

    def __init__(
        self,
        backend: Backend,
        works: Sequence[Work],
        groups: int,
        left_codes: Sequence[Flags] = (),
        bounds: Sequence[tuple[float, float]] = (),
        allowed: Sequence[Flags] = (),
    ):
        self.count = count = len(works)
        to_move, self.tiles_to_move = tiles([each.high - each.low for each in works], MOVE_TILE)
        sizes = [each.sum_high - each.sum_low for each in works]
        wanted = sum(sizes) * groups // TARGET_FILL_BLOCKS + 1
        self.fill_tile = min(MAX_FILL_TILE, max(MIN_FILL_TILE, wanted))
        to_fill, self.tiles_to_fill = tiles(sizes, self.fill_tile)
        work = np.zeros((count, WORK_WORDS), np.int64)
        work[:, : len(Work._fields)] = works
        parts: list[Array] = [
            work, np.array(to_move), np.array(to_fill), np.array(bounds, np.float64),
            np.array(left_codes, np.bool_), np.array(allowed, np.bool_),
        ]  # fmt: skip
        words = [-(-each.nbytes // 8) for each in parts]
        ends = [*accumulate(words)]
        whole = np.zeros(8 * ends[-1], np.uint8)
        for part, size, end in zip(parts, words, ends, strict=True):
            first = 8 * (end - size)
            whole[first : first + part.nbytes] = part.reshape(-1).view(np.uint8)
        whole = backend.put(whole.view(np.int64))
        self.work, self.first_to_move, self.first_to_fill, self.bounds, self.left_codes, flags = (
            whole[end - size : end] for size, end in zip(words, ends, strict=True)
        )
        self.allowed = flags if len(allowed) else None


class GpuRows(TreeRows):
    """Rows on a GPU: their codes, row lists, and a pool of histograms.

    Parameters
    ----------
    table : Table whose codes are copied
    features : numbers of the features to use
    monotone, categorical : of these features; see `precede.engine.tree_rows.SplitSearch`
    context : Context whose `tree_backend` is the GPU

    Attributes
    ----------
    lists : array (`LISTS`, rows) of row numbers, in which nodes are ranges
    histograms : array (slots, features, 256, 2); grows on demand
    """

    max_batch = MAX_BATCH

    def __init__(
        self, table: Table, features: Integers, monotone: Signs, categorical: Flags,
        context: Context,
    ):  # fmt: skip
        self.backend = backend = context.tree_backend
        self.n_rows, self.n_lists = table.n_used_rows, LISTS
        n_bins = table.bins.n_bins[features]
        self.search = SplitSearch(first_bins(n_bins), n_bins, monotone, categorical)
        self._groups = max(1, -(-features.size // GPU_GROUP))
        self.width = GPU_GROUP * self._groups
        backend.check_room(self.n_rows * (2 * self.width + 4 * LISTS + 64), "the rows of the table")
        self.codes = table.codes_by_row(backend, features)
        self.lists = backend.zeros(LISTS, self.n_rows, dtype=np.int32)
        self.histograms = backend.zeros(0, self.width, 256, 2, dtype=np.int64)
        # Arguments of the search: bins, directions, categorical flags, and all features allowed.
        self._feature_data = [
            backend.put(n_bins.astype(np.int64)), backend.put(monotone.astype(np.int8)),
            backend.put(categorical.astype(np.uint8)),
            backend.put(np.ones(features.size, np.uint8)),
        ]  # fmt: skip

    def begin_tree(
        self,
        quantized: QuantizedRows,
        rules: Rules,
        rows: BackendArray | None,
        num_leaves: int,  # noqa: ARG002
    ) -> int:
        """Fill the first row list with these rows, all by default; return their number."""
        self._rules = rules
        self._record = self.backend.put(self.search.record(rules).view(np.uint8))
        self._wide = quantized.packed is None
        self._words = [quantized.packed] * 2
        if self._wide:
            self._words = [quantized.pull, quantized.weight_count]
        if rows is None:
            self.backend.over_rows("row_numbers", self.n_rows, self.lists[0])
            return self.n_rows
        self.lists[0][: rows.size] = self.backend.put(rows)
        return int(rows.size)

    # -- splits ----------------------------------------------------------------------------

    def total(self, root: Node) -> tuple[int, int]:
        """Return the quantized sums of all rows of a tree; the histogram is in the root's slot."""
        self._sum_rows(root, root.slot)
        pull, weight_count = self._bins(root.slot, 0, 256).sum(axis=0)
        return int(pull), int(weight_count)

    def search_root(self, root: Node) -> None:
        """Set the best split of the root of a tree."""
        (pull, weight), slot = root.sums, root.slot
        work = Work(slot=slot, parent=slot, search=1, pull=pull, weight=weight)
        allowed = () if root.features is None else [root.features]
        batch = Batch(self.backend, [work], self._groups, bounds=[root.bounds] * 2, allowed=allowed)
        self._set_split(root, self._search(batch)[0])

    def split_nodes(self, nodes: Sequence[Node]) -> None:
        """Partition the rows of nodes between their children; set the splits of the children."""
        works, leaves = [], []
        for node in nodes:
            split, children = node.chosen
            smaller, larger = self._rules.smaller_first(children)
            search = smaller.search + 2 * larger.search
            works.append(Work(
                node.low, node.high, node.source, smaller.source, split.feature,
                smaller.low if search else 0, smaller.high if search else 0,
                smaller.slot, larger.slot, search, smaller.sums[0], larger.sums[0],
                smaller.sums[1], larger.sums[1],
            ))  # fmt: skip
            leaves += [smaller, larger]
        self._ensure_slot(max(work.slot for work in works))
        batch = Batch(
            self.backend, works, self._groups, [node.chosen[0].left_codes for node in nodes],
            [leaf.bounds for leaf in leaves],
            [leaf.features for leaf in leaves[::2] if leaf.features is not None],
        )  # fmt: skip
        self._partition(batch)
        self._fill(batch)
        for leaf, found in zip(leaves, self._search(batch), strict=True):
            self._set_split(leaf, found)

    def _set_split(self, node: Node, found: SplitFound) -> None:
        n_bins = self.search.n_bins

        def bins_of(feature: int) -> Integers:
            return self._bins(node.slot, 256 * feature, 256 * feature + int(n_bins[feature]))

        self.search.set_split(node, found, self._rules, bins_of)

    def _bins(self, slot: int, low: int, high: int) -> Integers:
        """Return bins low..high of a histogram, which has 256 bins for each feature."""
        return self.backend.get(self.histograms[slot].reshape(-1, 2)[low:high])

    def _sum_rows(self, node: Node, slot: int) -> None:
        """Sum the histogram of the rows of a node."""
        work = Work(target=node.source, sum_low=node.low, sum_high=node.high, slot=slot)
        self._ensure_slot(slot)
        batch = Batch(self.backend, [work], self._groups)
        self._partition(batch)  # clears the histogram
        self._fill(batch)

    def histogram(self, node: Node) -> Integers:
        """Return the histogram of the rows of a node on this machine, in the layout of `search`."""
        self._sum_rows(node, 0)
        start, n_bins = self.search.start, self.search.n_bins
        # On the GPU a feature has 256 bins, the last for missing values, which follow the last bin
        # in use in the result.
        code = np.arange(256)
        used = (code < n_bins[:, None]) | (code == 255)
        sums = np.zeros((int(start[-1]), 2), np.int64)
        target = (start[:-1, None] + np.minimum(code, n_bins[:, None]))[used]
        sums[target] = self._bins(0, 0, 256 * n_bins.size)[np.flatnonzero(used)]
        return sums

    def partition(self, node: Node) -> int:
        """Partition the rows of a node between its children; return the end of the left ones."""
        split, (left, _) = node.chosen
        work = Work(node.low, node.high, node.source, left.source, split.feature)
        self._ensure_slot(0)  # the kernel clears it
        batch = Batch(self.backend, [work], self._groups, [split.left_codes])
        self._partition(batch)
        return node.low + int(self.backend.get(batch.work[LEFT_COUNT : LEFT_COUNT + 1])[0])

    def check_room(self, leaves: int) -> None:
        """Raise ValueError if the histograms of a tree of this many leaves do not fit."""
        size = MIN_SLOTS
        while size < leaves:
            size *= 2
        before = size // 2 if size > MIN_SLOTS else 0  # the old pool is copied when it grows
        needed = (size + before) * self._slot_bytes
        self.backend.check_room(needed, f"the histograms of {leaves} leaves")

    def has_room(self, slots: int) -> bool:
        """Return whether the pool has, or can grow to, this many slots."""
        have = len(self.histograms)
        return slots <= have or self.backend.has_room(max(2 * have, slots) * self._slot_bytes)

    @property
    def _slot_bytes(self) -> int:
        return self.width * 4096

    def _ensure_slot(self, slot: int) -> None:
        """Grow the pool so that slot `slot` exists."""
        have = len(self.histograms)
        if slot >= have:
            size = max(2 * have, slot + 1, MIN_SLOTS)
            self.backend.check_room(size * self._slot_bytes, f"the histograms of {size} leaves")
            pool = self.backend.empty(size, self.width, 256, 2, dtype=np.int64)
            pool[:have] = self.histograms
            self.histograms = pool

    def _partition(self, batch: Batch) -> None:
        """Partition rows, and clear the histograms that are filled next."""
        self.backend.launch(
            "partition_rows", batch.tiles_to_move + CLEARING_BLOCKS * batch.count, 512, batch.work,
            batch.first_to_move, batch.count, batch.tiles_to_move, self.width, self.codes,
            batch.left_codes, self.lists, np.int64(self.n_rows), self.histograms,
        )  # fmt: skip

    def _fill(self, batch: Batch) -> None:
        """Sum the histograms of the smaller children."""
        if batch.tiles_to_fill:
            self.backend.launch(
                "fill_histograms", (batch.tiles_to_fill, self._groups), 512, batch.work,
                batch.first_to_fill, batch.count, batch.fill_tile, self.width,
                self.search.n_bins.size, int(self._wide), self._rules.count_bits, self.codes,
                *self._words, self.lists, np.int64(self.n_rows), self.histograms,
                shared=FILL_SHARED_BYTES,
            )  # fmt: skip

    def _search(self, batch: Batch) -> list[SplitFound]:
        """Subtract the smaller children from the nodes; return the best splits of the children.

        Those of the smaller and of the larger child of the first node come first.
        """
        features, children = self.search.n_bins.size, 2 * batch.count
        n_bins, monotone, categorical, every = self._feature_data
        found = self.backend.empty(children * features, 6, dtype=np.int64)
        best = self.backend.empty(children, 6, dtype=np.int64)
        allowed, step = (every, 0) if batch.allowed is None else (batch.allowed, features)
        self.backend.launch(
            "search_splits", (features, batch.count, 2), 256, batch.work, self.width, n_bins,
            allowed, step, monotone, categorical, batch.bounds, self._record, self.histograms,
            found, best,
        )  # fmt: skip
        words = self.backend.get(best)
        gains = words.view(np.float64)[:, 0].tolist()
        return [(gain, *rest) for gain, (_, *rest) in zip(gains, words.tolist(), strict=True)]

    # -- leaves ----------------------------------------------------------------------------

    def leaf_sums(
        self, leaves: Records, pull: BackendArray, weight: BackendArray, bits: tuple[int, int]
    ) -> Integers:
        """Return exact sums of pull and weight over the rows of each `LEAF` on this machine."""
        sums = self.backend.zeros(leaves.size, 2, dtype=np.int64)
        powers = *power_factors(bits[0]), *power_factors(bits[1])
        self._over_leaves("leaf_sums", leaves, pull, weight, *powers, sums)
        return self.backend.get(sums)

    def leaf_values(self, leaves: Records, value: Floats) -> BackendArray:
        """Return the leaf values of all rows, if the tree was grown on all rows."""
        values = self.backend.empty(self.n_rows)
        self._over_leaves("leaf_values", leaves, self.backend.put(value), values)
        return values

    def _over_leaves(self, kernel: str, leaves: Records, *arguments: object) -> None:
        """Launch a kernel over tiles of the rows of leaves."""
        ranges = np.stack([leaves[name] for name in ("low", "high", "source")], axis=1)
        start, count = tiles((leaves["high"] - leaves["low"]).tolist(), LEAF_TILE)
        if count:
            put = self.backend.put
            self.backend.launch(
                kernel, count, 256, put(ranges), put(np.array(start)), leaves.size, self.lists,
                np.int64(self.n_rows), *arguments,
            )  # fmt: skip

    def predict(self, splits: Records, left_codes: Flags, value: Floats) -> BackendArray:
        """Return the leaf values of all rows, found by descending the tree."""
        values, put = self.backend.empty(self.n_rows), self.backend.put
        child = np.array([splits["left"], splits["right"]])
        self.backend.over_rows(
            "predict_codes", self.n_rows, self.width, self.codes, put(splits["feature"].copy()),
            put(left_codes.view(np.uint8)), put(child), splits.size, put(value), values,
        )  # fmt: skip
        return values
