"""What the engine does on a GPU: sums, pulls and the rows of trees, with the bits of the CPU.

`open_device` is the only way in. CuPy is imported there and nowhere else, and the kernels, which
are in `kernels.cu`, are compiled at the first use on a machine (CuPy keeps them on disk).

`Device` has arrays and sums, `DeviceRows` what `precede.engine.histograms.nodes` does on the CPU:
it moves the rows of nodes, sums them up and searches the sums, many nodes at a time. The codes of a
table are copied to the device once; of a round only the best splits, the sums of the leaves and a
few totals come back.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from precede.engine.arrays import Array, Flags, Floats, Integers, Keys, Rows, Signs
from precede.engine.exact import from_words
from precede.engine.quantization import Quantization, QuantizedRows, factors, plan_quantization

if TYPE_CHECKING:
    from precede.engine.table import Table

__all__ = [
    "DEVICES",
    "LISTS",
    "Batch",
    "Device",
    "DeviceRows",
    "NodeWork",
    "SearchRules",
    "device_of_machine",
    "on_gpu",
    "open_device",
    "tiles",
]

DEVICES = ("cpu", "cuda")
# The number of CUDA in `__dlpack_device__`.
DLPACK_CUDA = 2
# Rows that one block of threads moves, sums into histograms (at most), and sums up in leaves;
# features of one block; and bytes of shared memory that a block needs for their histograms. As in
# `kernels.cu`.
MOVED, FILLED, OF_LEAF = 2048, 4000, 4096
GROUP = 32
FILL_MEMORY = 2 * GROUP * 257 * 4
# A run of so many rows is kept in shared memory while its pairs are summed.
HELD = 1024
# Lists of rows: a node moves its rows to the list of the next depth, so that those of all nodes
# above stay as they are. Below a depth of LISTS - 2 the last two take turns.
LISTS = 18
# Fewest histograms for which there is room.
SLOTS = 64
# Rows of which a warp draws some, as in `kernels.cu`.
DRAWN = 2048
# Blocks that clear the histogram of a node, as in `kernels.cu`.
CLEARING = 20
# Histograms of few rows are filled by about so many blocks, of no fewer rows than this.
FILLING, FEWEST = 1188, 250
# Blocks of 256 threads in kernels that go through all rows.
MOST_BLOCKS = 1056


@lru_cache
def open_device(name: Any, number: int | None = None) -> Device | None:  # noqa: ARG001  (the key)
    """The device of this name; None for the CPU.

    A process that uses several GPUs opens each by its number, since kernels are loaded for one.

    >>> open_device("cpu") is None
    True
    """
    if name not in DEVICES:
        raise ValueError(f"device={name!r} is unknown; use one of {DEVICES}")
    return None if name == "cpu" else Device()


def device_of_machine(name: Any, rank: int) -> Device | None:
    """The device of one of several machines, which becomes the current one of this thread.

    Machines whose process sees several GPUs take them in turn, by their rank.

    >>> device_of_machine("cpu", 3) is None
    True
    """
    device = open_device(name)
    if device is None:
        return None
    number = rank % device.count
    device.use(number)
    return open_device(name, number)


def on_gpu(value: Any) -> bool:
    """Whether an array is in the memory of a GPU, as CuPy's arrays and tensors of PyTorch may be.

    >>> on_gpu(np.zeros(3))
    False
    """
    if isinstance(value, np.ndarray):
        return False
    if hasattr(value, "__cuda_array_interface__"):
        return True
    where = getattr(value, "__dlpack_device__", None)
    return where is not None and where()[0] == DLPACK_CUDA


class Device:
    """A GPU, its memory and its kernels; see `open_device`."""

    def __init__(self) -> None:
        try:
            import cupy  # noqa: PLC0415  (only for those who have a GPU)
        except ImportError as error:
            raise ImportError(
                "device='cuda' needs CuPy, which is not installed: pip install 'precede[cuda13]', "
                "or 'precede[cuda12]' where the driver is of CUDA 12; or use device='cpu'"
            ) from error
        self.arrays = cupy
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
    def name(self) -> str:
        """What the GPU is called."""
        of = self.arrays.cuda.runtime.getDeviceProperties(self.arrays.cuda.runtime.getDevice())
        return str(of["name"].decode())

    @property
    def count(self) -> int:
        """How many GPUs this process sees."""
        return int(self.arrays.cuda.runtime.getDeviceCount())

    def use(self, number: int) -> None:
        """Let this thread use one of them from now on."""
        self.arrays.cuda.Device(number).use()

    def launch(self, kernel: str, grid: Any, block: Any, *arguments: Any, shared: int = 0) -> None:
        """Start a kernel; whole numbers are passed as 32 bits unless they are NumPy's."""
        function, most = self._kernels.get(kernel, (None, 0))
        if function is None or shared > most:
            function = self._allow(kernel, shared)
        given = tuple([np.int32(each) if type(each) is int else each for each in arguments])
        grid, block = (each if type(each) is tuple else (each,) for each in (grid, block))
        function(grid, block, given, shared_mem=shared)

    def _allow(self, kernel: str, shared: int) -> Any:
        """The kernel, which may use so much shared memory from now on, in any thread."""
        with self._lock:
            function, most = self._kernels.get(kernel, (None, 0))
            if function is None or shared > most:
                function = function or self._module.get_function(kernel)
                function.max_dynamic_shared_size_bytes = shared
                self._kernels[kernel] = function, shared
            return function

    def over_rows(self, kernel: str, count: int, *arguments: Any) -> None:
        """Start a kernel whose threads share ``range(count)``, its first argument."""
        if count:
            self.launch(
                kernel, min(-(-count // 256), MOST_BLOCKS), 256, np.int64(count), *arguments
            )

    # -- arrays ----------------------------------------------------------------------------

    def holds(self, array: Any) -> bool:
        """Whether an array is in the memory of the device."""
        return isinstance(array, self.arrays.ndarray)

    def put(self, array: Any) -> Any:
        """An array on the device; as it is if it is there already."""
        if self.holds(array):
            return array
        array = np.ascontiguousarray(array)
        there = self.arrays.empty(array.shape, array.dtype)
        stream = self.arrays.cuda.get_current_stream()
        if stream.ptr:  # a copy that waits for the default stream would not wait for this one
            there.set(array, stream=stream)
            stream.synchronize()
        elif array.nbytes:  # what CuPy does to copy an array takes several times as long
            there.data.copy_from_host(array.ctypes.data, array.nbytes)
        return there

    def adopt(self, value: Any) -> Any:
        """An array of anybody's on the device, without a copy; see `on_gpu`."""
        if hasattr(value, "__cuda_array_interface__") or self.holds(value):
            return self.arrays.asarray(value)
        return self.arrays.from_dlpack(value)

    def adopt_matrix(self, array: Any) -> Any:
        """The same of a matrix of numbers; anything else is refused."""
        found = self.adopt(array)
        if found.ndim != 2 or found.dtype.kind not in "fiub":
            raise ValueError(
                f"X is an array of shape {found.shape} and type {found.dtype} on a GPU; give a "
                "matrix of numbers"
            )
        return found

    def get(self, array: Any) -> Array:
        """A NumPy array of the same numbers."""
        return array.get() if self.holds(array) else array

    def zeros(self, *shape: int, dtype: Any = np.float64) -> Any:
        """Zeros on the device."""
        return self.arrays.zeros(shape, dtype)

    def check_room(self, needed: int, what: str) -> None:
        """Refuse what would not fit into the memory that is free."""
        if not self.has_room(needed):
            raise ValueError(
                f"{what} would take {needed / 1e9:.1f} GB on {self.name}, which has "
                f"{self.free() / 1e9:.1f} GB left; use device='cpu', or fewer leaves or rows"
            )

    def has_room(self, needed: int) -> bool:
        """Whether so many bytes are free."""
        return needed <= self.free()

    def free(self) -> int:
        """Bytes of memory that are free."""
        free = self.arrays.cuda.runtime.memGetInfo()[0]
        return int(free + self.arrays.get_default_memory_pool().free_bytes())

    def lexsort(self, key: Array, run: Integers) -> Integers:
        """Rows by rising `run` and, inside a run, by `key`; equal ones as they were."""
        by_key = self.arrays.argsort(self.put(key))
        by_run = self.arrays.argsort(self.put(run.astype(np.uint32))[by_key])
        return self.get(by_key[by_run])

    # -- sums ------------------------------------------------------------------------------

    def exact_sums(self, arrays: Sequence[Any]) -> list[float]:
        """Several sums, as `precede.engine.exact.exact_sums` takes them."""
        if len(arrays) == 2 and arrays[0].size == arrays[1].size:
            return [total for total, _ in self.sums_and_largest(arrays)]
        return [self.sums_and_largest([each])[0][0] for each in arrays]

    def sums_and_largest(
        self, arrays: Sequence[Any], *, absolute: bool = False
    ) -> list[tuple[float, float]]:
        """The exact sums of one or two arrays of the same size, and their largest sizes.

        With `absolute`, the sizes of the first one are summed.
        """
        found, count = self.zeros(len(arrays), 3, dtype=np.uint64), arrays[0].size
        if count:
            grid = min(-(-count // 256), MOST_BLOCKS), len(arrays)
            given = arrays[0], arrays[-1], found
            self.launch("largest", grid, 256, np.int64(count), *given)
            self.launch("words_of", grid, 256, np.int64(count), int(absolute), *given)
        answer = []
        for words in self.get(found):
            largest = float(words[:1].view(np.float64)[0])
            total = largest
            if 0 < largest < math.inf:
                total = float(from_words(words[1:].view(np.int64), math.frexp(largest)[1]))
            answer.append((total, largest))
        return answer

    def advance(self, scores: Any, values: Any, weight: float) -> None:
        """Add ``weight·values`` to the scores."""
        values = self.put(values)
        if values.dtype == np.uint8:
            self.over_rows("advance_by_bytes", scores.size, scores, values, float(weight))
            return
        values = values.astype(np.float64, copy=False)
        self.over_rows("advance", scores.size, scores, values, float(weight))

    def draw(self, keys: Keys, more: Keys, share: float) -> Any:
        """Numbers of the rows whose keys, mixed with `more`, are below a share of 2^53."""
        if not keys.size:
            return self.zeros(0, dtype=np.int32)
        pieces, given = -(-keys.size // DRAWN), (np.int64(keys.size), keys, self.put(more), share)
        counts, rows = self.zeros(pieces, dtype=np.int64), self.zeros(1, dtype=np.int32)
        self.launch("draw", pieces, 32, *given, 0, counts, rows)
        ends = np.cumsum(self.get(counts))
        rows = self.arrays.empty(int(ends[-1]), np.int32)
        if rows.size:
            self.launch("draw", pieces, 32, *given, 1, self.put(np.r_[0, ends[:-1]]), rows)
        return rows

    def function(self, name: str, values: Any) -> Any:
        """``exp``, ``log`` or ``log1p`` of every number, see `precede.engine.portable`."""
        values, out = self.put(values), self.zeros(values.size)
        which = ("exp", "log", "log1p").index(name)
        self.over_rows("functions", values.size, which, values, out)
        return out


_NO_GPU = (
    "device='cuda': CuPy finds no GPU ({}); check whether nvidia-smi shows one and whether the "
    "extra (cuda12 or cuda13) fits its driver, or use device='cpu'"
)


@dataclass(frozen=True)
class SearchRules:
    """Constraints of a split search, in units of histograms; see `precede.weak_rankers.splits`."""

    units: tuple[float, float, int]
    penalties: tuple[float, float, float]
    min_count: int
    min_weight: float
    plain: bool

    def packed(self) -> Array:
        """The `Rules` of the kernels."""
        (pull_unit, weight_unit, count_bits), (penalty, alpha, smooth) = self.units, self.penalties
        numbers = np.array([pull_unit, weight_unit, penalty, alpha, smooth, self.min_weight])
        whole = np.array([count_bits, max(self.min_count, 1), self.plain], np.int64)
        return np.concatenate([numbers.view(np.uint8), whole.view(np.uint8)])


@dataclass(frozen=True)
class NodeWork:
    """What is to be done to a node: the rows to move, the child to sum up, and what to search.

    Attributes
    ----------
    rows : bounds of its rows; only the first and the last count, not those of children in between
    lists : numbers of the lists that they are in and are moved to
    feature, side : of the split, and which of the 256 codes go left; None to move nothing
    smaller : where the rows of the smaller child begin and end
    slots : numbers of the histograms of the smaller child and of the node, which becomes that of
        the larger child
    wanted : whether to search the smaller child, and the larger one
    sums : the two words of the sums of each of them
    bounds : of the values below each of them
    allowed : features that may be split on; None for all
    """

    rows: tuple[int, ...]
    lists: tuple[int, int]
    feature: int
    side: Flags | None
    smaller: tuple[int, int]
    slots: tuple[int, int]
    wanted: tuple[bool, bool]
    sums: tuple[tuple[int, int], tuple[int, int]]
    bounds: tuple[tuple[float, float], tuple[float, float]]
    allowed: Flags | None = None

    def words(self) -> list[int]:
        """The `Work` of the kernels."""
        (one, one_weight), (other, other_weight) = self.sums
        wanted = self.wanted[0] + 2 * self.wanted[1]
        ends = self.rows[0], self.rows[-1]
        return [
            *ends, *self.lists, self.feature, *self.smaller, *self.slots, wanted,
            one, other, one_weight, other_weight, 0, 0, 0, 0, 0, 0,
        ]  # fmt: skip


# Sums and bounds of children that are not searched.
NO_SUMS = ((0, 0), (0, 0)), ((0.0, 0.0), (0.0, 0.0))
# Words of a `Work` of the kernels, and which of them counts the rows moved to the left.
WORDS, LEFTS = 20, 14


def tiles(sizes: Sequence[int], size: int) -> tuple[list[int], int]:
    """Number of the first tile of each range of rows, and of all tiles; an empty range has none.

    >>> tiles([5, 0, 3], 4)
    ([0, 2, 2], 3)
    """
    start, count = [], 0
    for each in sizes:
        start.append(count)
        count -= -each // size
    return start, count


class Batch:
    """Work on several nodes, copied to the device in one piece.

    Attributes
    ----------
    work, bounds, sides, allowed : what the kernels read; `allowed` is None where all features are
    first_to_move, first_to_fill : the first tile of each node; see `tiles`
    tiles_to_move, tiles_to_fill : how many there are
    filled : rows of a tile to fill; `groups` of features are filled by blocks of their own
    """

    def __init__(self, device: Device, nodes: Sequence[NodeWork], groups: int):
        self.count = count = len(nodes)
        moved = [0 if each.side is None else each.rows[-1] - each.rows[0] for each in nodes]
        to_move, self.tiles_to_move = tiles(moved, MOVED)
        filled = [each.smaller[1] - each.smaller[0] for each in nodes]
        self.filled = min(FILLED, max(FEWEST, sum(filled) * groups // FILLING + 1))
        to_fill, self.tiles_to_fill = tiles(filled, self.filled)
        restricted = [each.allowed for each in nodes if each.allowed is not None]
        flags = sum(map(len, restricted))
        sizes = WORDS * count, 4 * count, count, count, 32 * count, -(-flags // 8)
        ends = [*accumulate(sizes)]
        whole = np.zeros(ends[-1], np.int64)
        whole[: ends[0]] = [word for each in nodes for word in each.words()]
        whole[ends[0] : ends[1]].view(np.float64)[:] = [
            end for each in nodes for bound in each.bounds for end in bound
        ]
        whole[ends[1] : ends[3]] = to_move + to_fill
        flag = whole[ends[3] :].view(np.bool_)
        for number, each in enumerate(nodes):
            if each.side is not None:
                flag[256 * number : 256 * number + 256] = each.side
        if restricted:
            flag[256 * count : 256 * count + flags] = np.concatenate(restricted)
        there = device.put(whole)
        self.work, self.bounds, self.first_to_move, self.first_to_fill, self.sides, allowed = (
            there[end - size : end] for size, end in zip(sizes, ends, strict=True)
        )
        self.allowed = allowed if restricted else None


class DeviceRows:
    """The rows of a table on a device: their codes, lists of them, and histograms of sets of them.

    Parameters
    ----------
    device : Device
    table : Table whose codes are copied
    features : numbers of the features to look at
    monotone, categorical : of these features; see `precede.weak_rankers.splits.SplitSearch`

    Attributes
    ----------
    n_bins : number of bins of each feature
    lists : array (`LISTS`, rows) of row numbers, in which nodes are ranges
    histograms : array (slots, features, 256, 2); grows when a slot beyond its end is asked for
    """

    def __init__(
        self, device: Device, table: Table, features: Integers, monotone: Signs, categorical: Flags
    ):
        self._device, self.n_rows = device, table.n_used_rows
        self.n_bins = table.bins.n_bins[features]
        self._groups = max(1, -(-features.size // GROUP))
        self.width = GROUP * self._groups
        device.check_room(self.n_rows * (2 * self.width + 4 * LISTS + 64), "the rows of the table")
        self.codes = device.zeros(self.n_rows, self.width, dtype=np.uint8)
        for first in range(0, features.size, GROUP):
            self._copy(table, features[first : first + GROUP], first)
        self.lists = device.zeros(LISTS, self.n_rows, dtype=np.int32)
        self.histograms = device.zeros(0, self.width, 256, 2, dtype=np.int64)
        # What the search reads of the features.
        self._known = [
            device.put(self.n_bins.astype(np.int64)), device.put(monotone.astype(np.int8)),
            device.put(categorical.astype(np.uint8)), device.put(np.ones(features.size, np.uint8)),
        ]  # fmt: skip

    def _copy(self, table: Table, features: Integers, to: int) -> None:
        """Copy some columns to rows of the device."""
        columns = table.codes_on(self._device, features)
        table.release(features)
        tile = -(-self.n_rows // GROUP), 1
        if self.n_rows:
            self._device.launch(
                "by_rows", tile, (GROUP, GROUP), np.int64(self.n_rows), features.size, self.width,
                columns, self.codes.ravel()[to:],
            )  # fmt: skip

    # -- one tree --------------------------------------------------------------------------

    def pack(self, pull: Floats, weight: Floats, *, wide: bool) -> QuantizedRows | None:
        """Turn pulls and weights into integers, as `precede.engine.quantization.pack_rows`."""
        sums = self._device.sums_and_largest([pull, weight], absolute=True)
        (total, largest), (total_weight, heaviest) = sums
        plan = plan_quantization(pull.size, (total, total_weight), (largest, heaviest), wide=wide)
        return None if plan is None else self.pack_by(plan, pull, weight)

    def pack_by(self, plan: Quantization, pull: Floats, weight: Floats) -> QuantizedRows:
        """The same by a plan that is known."""
        first = self._device.arrays.empty(pull.size, np.int64)
        second = self._device.arrays.empty(pull.size if plan.wide else 0, np.int64)
        self._device.over_rows(
            "pack", pull.size, int(plan.wide), plan.count_bits, pull, weight,
            *factors(plan.pull_bits), *factors(plan.weight_bits), first, second,
        )  # fmt: skip
        return plan.rows(first, second)

    def begin(self, numbers: QuantizedRows, rows: Rows | None, rules: SearchRules | None) -> int:
        """Fill the first list of rows; gives their number. Without rules nothing is searched."""
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

    def sums_of(self, slot: int, size: int) -> tuple[int, int]:
        """Sum up the first rows of the first list; the sums of all of them."""
        self.sum_up(slot, 0, 0, size)
        pull, weight_count = self.bins(slot, 0, 256).sum(axis=0)
        return int(pull), int(weight_count)

    def sum_up(self, slot: int, where: int, low: int, high: int) -> None:
        """Make the histogram of the rows low..high of a list."""
        work = NodeWork(
            (0, 0), (where, where), 0, None, (low, high), (slot, slot), (False, False), *NO_SUMS
        )
        self._make_room(slot)
        batch = Batch(self._device, [work], self._groups)
        self._move(batch)
        self._fill(batch)

    def move(self, rows: tuple[int, int], lists: tuple[int, int], feature: int, side: Flags) -> int:
        """Move the rows of a node to another list, left ones first; gives how many go left."""
        work = NodeWork(rows, lists, feature, side, (0, 0), (0, 0), (False, False), *NO_SUMS)
        self._make_room(0)  # which is cleared
        batch = Batch(self._device, [work], self._groups)
        self._move(batch)
        return int(self._device.get(batch.work[LEFTS : LEFTS + 1])[0])

    def bins(self, slot: int, low: int, high: int) -> Integers:
        """Bins low..high of a histogram, counted over all features, 256 for each."""
        return self._device.get(self.histograms[slot].reshape(-1, 2)[low:high])

    def divide(self, nodes: Sequence[NodeWork]) -> list[Any]:
        """Do what is to be done to nodes; gives what was found for the children of each.

        Of each child gain, feature, cut, way and the two words of the sums on the left, as
        `precede.engine.histograms.nodes.Divider`.
        """
        self._make_room(max(each.slots[0] for each in nodes))
        batch = Batch(self._device, nodes, self._groups)
        self._move(batch)
        self._fill(batch)
        return self._search(batch)

    def search(self, node: NodeWork) -> Any:
        """Search the histogram of one node, as if it were the smaller child."""
        return self._search(Batch(self._device, [node], self._groups))[0][0]

    def check_leaves(self, leaves: int) -> None:
        """Refuse trees of so many leaves if their histograms would not fit."""
        size = SLOTS
        while size < leaves:
            size *= 2
        before = size // 2 if size > SLOTS else 0  # they are copied when more are needed
        needed = (size + before) * self._slot_bytes
        self._device.check_room(needed, f"the histograms of {leaves} leaves")

    def has_room(self, slots: int) -> bool:
        """Whether there are, or may be, so many histograms."""
        have = len(self.histograms)
        return slots <= have or self._device.has_room(max(2 * have, slots) * self._slot_bytes)

    @property
    def _slot_bytes(self) -> int:
        return self.width * 4096

    def _make_room(self, slot: int) -> None:
        """Let there be a histogram of this number."""
        have = len(self.histograms)
        if slot >= have:
            size = max(2 * have, slot + 1, SLOTS)
            self._device.check_room(size * self._slot_bytes, f"the histograms of {size} leaves")
            more = self._device.arrays.empty((size, self.width, 256, 2), np.int64)
            more[:have] = self.histograms
            self.histograms = more

    def _move(self, batch: Batch) -> None:
        """Move rows, and clear the histograms that are filled next."""
        self._device.launch(
            "move", batch.tiles_to_move + CLEARING * batch.count, 512, batch.work,
            batch.first_to_move, batch.count, batch.tiles_to_move, self.width, self.codes,
            batch.sides, self.lists, np.int64(self.n_rows), self.histograms,
        )  # fmt: skip

    def _fill(self, batch: Batch) -> None:
        if batch.tiles_to_fill:
            self._device.launch(
                "fill", (batch.tiles_to_fill, self._groups), 512, batch.work, batch.first_to_fill,
                batch.count, batch.filled, self.width, self.n_bins.size, int(self._wide),
                self._count_bits, self.codes, *self._words, self.lists, np.int64(self.n_rows),
                self.histograms, shared=FILL_MEMORY,
            )  # fmt: skip

    def _search(self, batch: Batch) -> list[Any]:
        features, children = self.n_bins.size, 2 * batch.count
        n_bins, monotone, categorical, free = self._known
        found = self._device.arrays.empty((children * features, 6), np.int64)
        best = self._device.arrays.empty((children, 6), np.int64)
        allowed, step = (free, 0) if batch.allowed is None else (batch.allowed, features)
        self._device.launch(
            "search", (features, batch.count, 2), 256, batch.work, self.width, n_bins, allowed,
            step, monotone, categorical, batch.bounds, self._rules, self.histograms, found, best,
        )  # fmt: skip
        answer = self._device.get(best)
        gains = answer.view(np.float64)[:, 0].tolist()
        each = [(gain, *rest) for gain, (_, *rest) in zip(gains, answer.tolist(), strict=True)]
        return list(zip(each[::2], each[1::2], strict=True))

    # -- its leaves ------------------------------------------------------------------------

    def leaf_sums(
        self, leaves: Integers, pull: Floats, weight: Floats, bits: tuple[int, int]
    ) -> Integers:
        """Exact sums of pull and weight over leaves: rows (low, high, list) of `leaves`."""
        start, count = tiles((leaves[:, 1] - leaves[:, 0]).tolist(), OF_LEAF)
        sums = self._device.zeros(len(leaves), 2, dtype=np.int64)
        if count:
            self._device.launch(
                "leaf_sums", count, 256, self._device.put(leaves),
                self._device.put(np.array(start)), len(leaves), self.lists, np.int64(self.n_rows),
                pull, weight, *factors(bits[0]), *factors(bits[1]), sums,
            )  # fmt: skip
        return self._device.get(sums)

    def leaf_values(self, leaves: Integers, value: Floats) -> Any:
        """Values of all rows, which are in the lists as the leaves are."""
        start, count = tiles((leaves[:, 1] - leaves[:, 0]).tolist(), OF_LEAF)
        values = self._device.arrays.empty(self.n_rows, np.float64)
        if count:
            self._device.launch(
                "leaf_values", count, 256, self._device.put(leaves),
                self._device.put(np.array(start)), len(leaves), self.lists,
                np.int64(self.n_rows), self._device.put(value), values,
            )  # fmt: skip
        return values

    def walk(self, feature: Integers, sides: Flags, child: Integers, value: Floats) -> Any:
        """Values of all rows by a tree, whether they were among those it was grown on or not."""
        values = self._device.arrays.empty(self.n_rows, np.float64)
        put = self._device.put
        self._device.over_rows(
            "walk", self.n_rows, self.width, self.codes, put(feature), put(sides.view(np.uint8)),
            put(child), feature.size, put(value), values,
        )  # fmt: skip
        return values
