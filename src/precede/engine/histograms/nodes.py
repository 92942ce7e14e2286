"""What trees do to the rows of a node: move them, sum them up and search the sums for a split.

`RowHistograms` has the sums of sets of rows over the bins of all features: pull, Hessian and count
at once, from codes that stand row by row. `Divider` moves the rows of a node, sums up its smaller
child and searches both children. It shares the features between threads, which stay in one kernel
from the first division of a tree to the last (see `precede.engine.crew`). `best_split` searches
histograms that came from elsewhere. All of them are one kernel, which is compiled once.

A leaf with pulls P and weights W in total (W in rows of mean weight) has the value

    v = S(P, alpha) / (W + lambda),   S(P, a) = sign(P) max(|P| - a, 0),

clipped to the bounds that monotone constraints have left, and the worth ``2 (P v - alpha |v|) -
(W + lambda) v²``, twice what it takes off the quadratic model of the risk (for alpha = 0 and no
bounds ``P² / (W + lambda)``). The gain of a split is the worth of the two children less that of
the node.

Candidates are compared in one order: by feature, by threshold, with missing values on the left
before missing values on the right. A later one must have a greater gain to be chosen. Gains are
functions of integer sums, so they have the same bits on any number of threads and machines.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from precede.engine.arrays import Bytes, Flags, Floats, Integer, Integers, Rows, Signs
from precede.engine.compiling import INNER
from precede.engine.crew import add, add_two, give_way, load, new_post, store
from precede.engine.histograms.columns import ABREAST
from precede.engine.packing import PackedRows
from precede.engine.workers import Workers, is_small

if TYPE_CHECKING:
    from precede.engine.table import Table

__all__ = [
    "ROUNDING",
    "Divider",
    "RowHistograms",
    "best_split",
    "count_left",
    "left_categories",
    "penalised_value",
    "penalised_values",
    "scatter",
]


# Gains below this share of the worth of the children are rounding.
ROUNDING = 2.0**-36
# Words from one feature to the next where packed sums are made. With 256 the same bin of all
# features would fall into the same few lines of the cache, and most rows of a feature may share a
# bin: filling took 2.5 times as long.
STRIDE = 264
# Packed numbers of so few rows are added up unpacked: to go through all bins afterwards would take
# longer.
FEW_ROWS = 200
# How rows are added up: two words for each, packed ones unpacked, packed ones in blocks, packed
# ones that lie apart; or there is nothing to add up.
NONE, WIDE, FEW, DENSE, SCATTERED = range(-1, 4)

# What the kernel needs to know of a division. Rows low..high of one of the two lists (`source`) go
# before or after `middle` of the other; their codes are ``column[offset + step * row]``. Rows
# first..last of the other list are summed up in the form `form`. `smaller` and `larger` number
# histograms, the second that of the node, from which the first is subtracted; -1 for none. Then
# which of the two children to search, their sums and the bounds of their values.
DIVISION = np.dtype(
    [
        (name, "i8")
        for name in (
            "source", "low", "middle", "high", "offset", "step", "form", "first", "last",
            "smaller", "larger", "search_smaller", "search_larger",
            "smaller_pull", "smaller_weight", "larger_pull", "larger_weight",
        )
    ]
    + [
        (name, "f8")
        for name in ("smaller_least", "smaller_most", "larger_least", "larger_most")
    ]
)  # fmt: skip
# What a split must respect, see `precede.rankers.splits.Rules`; `plain` is 1 where no penalty on
# the size and no direction stands against the simple formula.
RULES = np.dtype([
    ("pull_unit", "f8"), ("weight_unit", "f8"), ("count_bits", "i8"), ("penalty", "f8"),
    ("alpha", "f8"), ("smooth", "f8"), ("min_count", "i8"), ("min_weight", "f8"),
    ("min_gain", "f8"), ("plain", "i8"),
], align=True)  # fmt: skip
# Of a leaf: its rows in one of the two lists, its sums, and its best split; a feature of -1 if it
# has none. `histogram` is the number of its histogram, `split` and `side` the split above it.
LEAF = np.dtype([
    (name, "i8") for name in (
        "source", "low", "high", "pull", "weight", "depth", "histogram", "split", "side",
        "feature", "cut", "way", "left_pull", "left_weight",
    )
] + [("gain", "f8")], align=True)  # fmt: skip
# Of a split: what was found of the leaf that it divided, and its children as in
# `precede.rankers.trees.Tree`.
SPLIT = np.dtype([
    (name, "i8") for name in (
        "feature", "cut", "way", "pull", "weight", "left_pull", "left_weight", "left", "right",
    )
] + [("gain", "f8")], align=True)  # fmt: skip

# Gain, feature, cut, way, and the two words of the sums on the left; a feature of -1 for none.
SplitFound = tuple[float, int, int, int, int, int]
NO_SPLIT: SplitFound = (0.0, -1, -1, 0, 0, 0)
# Rows and their packed numbers in the two lists; codes of rows, four of them at once, pulls,
# weights and counts, and memory for packed sums.
Lists = tuple[Rows, Integers, Rows, Integers]
Reading = tuple[Bytes, NDArray[np.uint32], Integers, Integers, Integers]
Answer = tuple[Floats, Integers, Integers, Integers]
# Leaves, splits, numbers of free histograms, where the column of each feature begins, and: how many
# leaves, splits and free histograms there are, most leaves, greatest depth, the leaf at hand, and
# `FEW_ROWS`.
Growing = tuple[NDArray[Any], NDArray[Any], Integers, Integers, Integers]
NO_TREE: Growing = (
    np.zeros(0, LEAF), np.zeros(0, SPLIT), np.zeros(0, np.int64), np.zeros(0, np.int64),
    np.zeros(7, np.int64),
)  # fmt: skip
# What a call of the kernel is for.
DIVIDE, HELP, GROW = range(3)
# What the kernel is given where there is nothing to move or to sum.
NO_ROWS, NO_BYTES, NO_FLAGS = np.empty(0, np.int32), np.empty(0, np.uint8), np.empty(0, np.bool_)
NO_INTEGERS, NO_SIGNS = np.empty(0, np.int64), np.empty(0, np.int8)
NO_CODES, NO_WORDS = np.empty((0, 0), np.uint8), np.empty((0, 0), np.uint32)
NO_BLOCKS = np.empty((0, 0), np.int64)


class RowHistograms:
    """Sums of pull, weight and count over the bins of all features, for sets of rows.

    The codes are copied row by row, since trees look at ever smaller sets of rows. Four of them
    are read at once.

    Parameters
    ----------
    table : Table whose codes are read
    features : numbers of the features to look at
    workers : threads to share the work between

    Attributes
    ----------
    start : first bin of each feature in a histogram; its last bin, ``start[j] + n_bins[j]``, is
        for missing values, and bins from there to ``start[j + 1]`` stay empty
    n_bins : number of bins of each feature
    size : number of bins of all features
    codes : uint8 array (rows, features), filled up to a multiple of four features

    Examples
    --------
    >>> import numpy as np
    >>> from precede.engine.packing import pack_rows
    >>> from precede.engine.table import Table
    >>> table, workers = Table.build(np.array([[1.0], [3.0], [3.0], [np.nan]])), Workers(1)
    >>> histograms = RowHistograms(table, np.array([0]), workers)
    >>> numbers = pack_rows(np.array([0.5, 0.25, -0.25, -0.5]), np.ones(4), workers)
    >>> rows = np.arange(4, dtype=np.int32)
    >>> sums = histograms.sums(numbers, rows, numbers.packed, 0, 4)
    >>> sums[:3, 0] * numbers.pull_unit, sums[:3, 1] & 7
    (array([ 0.5,  0. , -0.5]), array([1, 2, 1]))
    """

    def __init__(self, table: Table, features: Integers, workers: Workers):
        self._workers = workers
        self.n_rows = table.n_arranged
        self.n_bins = table.bins.n_bins[features]
        # An odd number of cache lines (of four bins) each, for the reason given at STRIDE.
        sizes = ABREAST * (-(-(self.n_bins + 1) // ABREAST) | 1)
        self.start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.size = int(self.start[-1])
        words = max(1, -(-features.size // ABREAST))
        self.codes = np.zeros((self.n_rows, ABREAST * words), np.uint8)
        # From disk a few columns are read at a time.
        width = ABREAST * workers.jobs if table.streamed else max(1, features.size)
        for first in range(0, features.size, width):
            part = features[first : first + width]
            workers.run(
                _by_rows, self.n_rows, table.codes, part, self.codes[:, first:],
                small=is_small("cells", self.codes.size),
            )  # fmt: skip
            table.release(part)
        self.words = self.codes.view(np.uint32)
        self._block_size = ABREAST * words * STRIDE
        # Packed sums and histograms are kept: new memory takes longer than the sums.
        self._blocks: list[Integers] = []
        self._parts: list[Integers] = []
        self.pool = np.empty((0, 2 * self.size), np.int64)
        self._free: list[int] = []

    def reserve(self, count: int) -> None:
        """Have `count` histograms in the pool, none of them taken; unused ones take no memory."""
        if len(self.pool) < count:
            self.pool = np.empty((count, 2 * self.size), np.int64)
        self._free = [*range(len(self.pool))[::-1]]

    def take(self) -> int:
        """Number of a histogram of the pool, which `Divider` or `sums` fills; see `release`."""
        return self._free.pop()

    def histogram(self, number: int) -> Integers:
        """A histogram of the pool as an array (bins, 2)."""
        return self.pool[number].reshape(-1, 2)

    def free(self) -> tuple[Integers, int]:
        """Numbers of the histograms that nobody has taken, with room for all, and how many."""
        free = np.zeros(len(self.pool), np.int64)
        free[: len(self._free)] = self._free
        return free, len(self._free)

    def release(self, number: int) -> None:
        """Take back a histogram that nobody needs any more."""
        self._free.append(number)

    def sums(
        self,
        numbers: PackedRows,
        rows: Rows,
        packed: Integers,
        low: int,
        high: int,
        out: Integers | None = None,
    ) -> Integers:
        """Histogram of the rows ``rows[low:high]``: O(features) for each of them.

        `packed` holds their packed numbers, in the order of `rows`. Returns an array (bins, 2):
        the sum of the pulls, and ``weight << count_bits | count``.
        """
        total = np.empty((self.size, 2), np.int64) if out is None else out

        def part(first: int, last: int) -> Integers:
            sums = total
            if first:
                sums = self._parts.pop() if self._parts else np.empty_like(total)
            block = self._blocks.pop() if self._blocks else self.new_blocks(numbers, 1)
            task, rules = np.zeros(1, DIVISION), np.zeros(1, RULES)
            rules["count_bits"] = numbers.count_bits
            task["form"], task["larger"] = self.form(numbers, last - first), -1
            task["first"], task["last"] = low + first, low + last
            lists = rows, packed, rows, packed
            features = NO_FLAGS, NO_SIGNS, NO_FLAGS
            _alone(task, rules, lists, self.read(numbers, block), sums, self.layout, features)
            self._blocks.append(block)
            return sums

        small = is_small("cells", (high - low) * self.codes.shape[1])
        for other in self._workers.run(part, high - low, small=small)[1:]:
            total += other
            self._parts.append(other)
        return total

    def total(self, numbers: PackedRows, rows: Rows, packed: Integers, count: int) -> Any:
        """The two words of the sums of the first rows of a list."""
        _, _, pull, weight_count, _ = self.read(numbers, NO_BLOCKS)
        return _total_of_rows(count, rows, packed, pull, weight_count, numbers.count_bits)

    @property
    def layout(self) -> tuple[Integers, Integers]:
        """Where the bins of each feature begin, and how many there are."""
        return self.start, self.n_bins

    def form(self, numbers: PackedRows, count: int) -> int:
        """How so many rows are best summed up."""
        if numbers.packed is None:
            return WIDE
        if count < FEW_ROWS:
            return FEW
        # Rows that lie far apart are copied side by side first, several at a time.
        return DENSE if 2 * count > self.n_rows else SCATTERED

    def read(self, numbers: PackedRows, block: Integers) -> tuple[Any, ...]:
        """What the kernel reads to sum up rows."""
        words = (numbers.pull, numbers.weight_count)
        given = (NO_INTEGERS if each is None else each for each in words)
        return self.codes, self.words, *given, block

    def new_blocks(self, numbers: PackedRows, count: int) -> Integers:
        """Memory for packed sums, which are 0 between calls of the kernel."""
        return np.zeros((count, 0 if numbers.packed is None else self._block_size), np.int64)


class Divider:
    """Divides the nodes of trees: moves rows, sums up the smaller child, searches both children.

    Parameters
    ----------
    histograms : RowHistograms
    lists : two lists of row numbers; rows are moved from one to the other
    columns : codes by column as one array, where those of each feature begin, and the step from
        one row to the next
    directions, categorical : of each feature, see `precede.rankers.splits.SplitSearch`
    workers : Workers
    """

    def __init__(
        self,
        histograms: RowHistograms,
        lists: list[Rows],
        columns: tuple[Bytes, Integers, int],
        directions: Signs,
        categorical: Flags,
        workers: Workers,
    ):
        self._histograms, self._lists, self._workers = histograms, lists, workers
        self._column, offsets, self._step = columns
        self._offsets, self._all_offsets = offsets.tolist(), offsets
        self._directions, self._categorical = directions, categorical
        self._task, self._side = np.zeros(1, DIVISION), np.zeros(256, np.bool_)
        self._allowed = np.zeros(directions.size, np.bool_)
        self._post = new_post()
        self._blocks: Integers | None = None
        self._given: tuple[Any, ...] = ()
        self._helpers: list[Future[Any]] = []

    def begin(self, numbers: PackedRows, packed: list[Integers], rules: NDArray[Any]) -> None:
        """Begin a tree; `packed` holds the packed numbers of the two lists, `rules` is `RULES`."""
        if self._blocks is None or (self._blocks.size == 0) != (numbers.packed is None):
            self._blocks = self._histograms.new_blocks(numbers, self._workers.jobs)
        self._numbers, self._packed, self._rules = numbers, packed, rules
        self._given = self._arguments(1)

    def _arguments(self, threads: int) -> tuple[Any, ...]:
        """All that the kernel is given by a number of threads, but for whether it helps."""
        (one, other), (packed_one, packed_other) = self._lists, self._packed
        assert self._blocks is not None
        tiles = min(threads, self._histograms.words.shape[1])
        return (
            tiles, self._post, self._task, self._rules, self._column, self._side,
            (one, packed_one, other, packed_other),
            self._histograms.read(self._numbers, self._blocks[:threads]), self._histograms.pool,
            self._histograms.layout, (self._allowed, self._directions, self._categorical),
            _answer(tiles, threads),
        )  # fmt: skip

    def join(self) -> None:
        """Have the other threads help until `leave` is called."""
        if not self._helpers and self._workers.jobs > 1:
            self._post = new_post()  # nobody who is late comes into the work of others
            self._given = self._arguments(self._workers.jobs)
            self._helpers = self._workers.start(_work, HELP, *self._given, NO_TREE)

    def leave(self) -> None:
        """Send the other threads away."""
        if self._helpers:
            self._post[16] = 1
            self._helpers = []
            self._given = self._arguments(1)

    def divide(
        self, division: tuple[Any, ...], feature: int, side: Flags, allowed: Flags
    ) -> tuple[SplitFound, SplitFound]:
        """Divide a node; gives the best splits of the smaller and of the larger child.

        `division` has the entries of `DIVISION` but for ``offset`` and ``step``, which are those
        of the feature; `side` says which of its codes go left, `allowed` which features the
        children may be split on. O(rows of the node + features * rows of the smaller child +
        bins).
        """
        at = self._offsets[feature], self._step
        self._task[0] = *division[:4], *at, *division[4:]
        self._side[:] = side
        self._allowed[:] = allowed
        given = DIVIDE, *self._given, NO_TREE
        return _work(*given)

    def grow(self, root: tuple[Any, ...], num_leaves: int, max_depth: int) -> Growing:
        """Divide leaves, the one with the largest gain first, until there are enough.

        `root` has the entries of `LEAF`. The children may be split on all features, by thresholds
        and without directions. Gives the leaves and splits, and how many there are.
        """
        leaves, splits = np.zeros(num_leaves, LEAF), np.zeros(num_leaves - 1, SPLIT)
        leaves[0] = root
        free, count = self._histograms.free()
        counts = np.array([1, 0, count, num_leaves, max_depth, 0, FEW_ROWS])
        self._task[0] = (0,) * 17 + (-np.inf, np.inf) * 2
        self._task["step"] = self._step
        self._allowed[:] = True
        tree = leaves, splits, free, self._all_offsets, counts
        given = GROW, *self._given, tree
        _work(*given)
        return tree


def best_split(
    histogram: Integers,
    layout: tuple[Integers, Integers],
    features: tuple[Flags, Signs, Flags],
    sums: tuple[int, int],
    bounds: tuple[float, float],
    rules: NDArray[Any],
) -> SplitFound:
    """Best split of a node with a histogram, sums and bounds of its values.

    `features` says which may be split on, and has their directions and whether they are
    categories. O(bins).
    """
    task = np.zeros(1, DIVISION)
    task["form"] = task["larger"] = -1
    task["search_smaller"] = 1
    for name, value in zip(("pull", "weight", "least", "most"), (*sums, *bounds), strict=True):
        task[f"smaller_{name}"] = value
    lists = NO_ROWS, NO_INTEGERS, NO_ROWS, NO_INTEGERS
    read = NO_CODES, NO_WORDS, NO_INTEGERS, NO_INTEGERS, NO_BLOCKS
    return _alone(task, rules, lists, read, histogram, layout, features)


def _alone(
    task: NDArray[Any],
    rules: NDArray[Any],
    lists: tuple[Any, ...],
    read: tuple[Any, ...],
    histogram: Integers,
    layout: tuple[Integers, Integers],
    features: tuple[Flags, Signs, Flags],
) -> SplitFound:
    """Have one thread sum up rows, or search, without moving any."""
    pool = histogram.reshape(1, -1)
    given = task, rules, NO_BYTES, NO_FLAGS, lists, read, pool, layout, features
    return _work(DIVIDE, 1, new_post(), *given, _answer(1, 1), NO_TREE)[0]


def _answer(tiles: int, parts: int) -> Answer:
    """Where the best split of every part of the features is written, for two children.

    Last is the worth of the children themselves. Then how many rows of every part have been added
    up, and whether blocks have been flushed.
    """
    splits = np.zeros((tiles + 1, 2)), np.zeros((tiles, 2, 3), np.int64)
    return *splits, np.zeros(parts, np.int64), np.zeros(1, np.int64)


assert (ABREAST, STRIDE, ROUNDING) == (4, 264, 2.0**-36), "the kernels below write these out"
assert (NONE, WIDE, FEW, DENSE, SCATTERED) == (-1, 0, 1, 2, 3), "and these"
assert (DIVIDE, HELP, GROW) == (0, 1, 2), "and these"


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _by_rows(low: int, high: int, codes: Bytes, features: Integers, out: Bytes) -> None:
    """Copy columns to rows, 64 rows at a time."""
    for first in range(low, high, 64):
        last = min(first + 64, high)
        for j in range(features.size):
            column = codes[features[j]]
            for row in range(first, last):
                out[row, j] = column[row]


@njit(cache=True, nogil=True)
def count_left(
    low: int, high: int, column: Bytes, offset: int, step: int, side: Flags, rows: Rows
) -> int:
    """Number of rows low..high of a list that go left."""
    count, at, by = 0, np.uint64(offset), np.uint64(step)
    for i in range(np.uint64(low), np.uint64(high)):
        count += 1 if side[column[at + by * np.uint64(rows[i])]] else 0
    return count


@njit(cache=True, nogil=True)
def _total_of_rows(
    high: int, rows: Rows, packed: Integers, pull: Integers, weight_count: Integers,
    count_bits: int,
) -> tuple[int, int]:  # fmt: skip
    """The two words of the sums of the first rows of a list, as in histograms."""
    one, other = np.int64(0), np.int64(0)
    for i in range(high):
        if packed.size > 0:
            one += packed[i] >> 38
            rest = packed[i] & 0x3FFFFFFFFF
            other += ((rest >> 12) << count_bits) + (rest & 4095)
        else:
            one += pull[rows[i]]
            other += weight_count[rows[i]]
    return one, other


@njit(cache=True, nogil=True)
def scatter(
    low: int, high: int, to_left: int, to_right: int, column: Bytes, offset: int, step: int,
    side: Flags, rows: Rows, packed: Integers, out: Rows, packed_out: Integers,
) -> None:  # fmt: skip
    """Copy rows and numbers low..high to where the left and the right ones begin."""
    moving, at, by = packed.size > 0, np.uint64(offset), np.uint64(step)
    first, second = np.uint64(to_left), np.uint64(to_right)
    for i in range(np.uint64(low), np.uint64(high)):
        row = rows[i]
        left = np.uint64(side[column[at + by * np.uint64(row)]])
        to = second + (first - second) * left  # no branch, which nobody could predict
        out[to] = row
        if moving:
            packed_out[to] = packed[i]
        first += left
        second += np.uint64(1) - left


@njit(**INNER)
def _fill_wide(
    codes: Bytes, rows: Rows, low: int, high: int, pull: Integers, weight_count: Integers,
    packed: Integers, count_bits: int, from_feature: int, to_feature: int, start: Integers,
    n_bins: Integers, sign: int, sums: Integers,
) -> None:  # fmt: skip
    """Add two words for each row to its bins, or take them off; packed numbers are unpacked."""
    for i in range(low, high):
        row = rows[i]
        if packed.size > 0:
            number = packed[i]
            one = number >> 38
            other = (((number & 0x3FFFFFFFFF) >> 12) << count_bits) + (number & 4095)
        else:
            one, other = pull[row], weight_count[row]
        one, other = sign * one, sign * other
        for j in range(np.uint64(from_feature), np.uint64(to_feature)):
            # Missing is 255. (An unsigned index cannot count from the end, and needs no check.)
            at = np.uint64(2 * (start[j] + min(np.int64(codes[row, j]), n_bins[j])))
            add_two(sums, at, one, other)


@njit(**INNER)
def _add_rows(
    words: NDArray[np.uint32], rows: Rows, first: int, last: int, packed: Integers,
    block: Integers,
) -> None:  # fmt: skip
    """Add the number of every row to its bin of every feature."""
    # (An unsigned index cannot count from the end, and needs no check.)
    for i in range(np.uint64(first), np.uint64(last)):
        row, number = np.uint64(rows[i]), packed[i]
        for word in range(np.uint64(words.shape[1])):
            codes, at = np.uint64(words[row, word]), np.uint64(1056) * word
            block[at + (codes & np.uint64(255))] += number
            block[at + np.uint64(264) + ((codes >> np.uint64(8)) & np.uint64(255))] += number
            block[at + np.uint64(528) + ((codes >> np.uint64(16)) & np.uint64(255))] += number
            block[at + np.uint64(792) + (codes >> np.uint64(24))] += number


@njit(**INNER)
def _add_scattered_rows(
    words: NDArray[np.uint32], rows: Rows, first: int, last: int, packed: Integers,
    block: Integers,
) -> None:  # fmt: skip
    """The same for rows that lie apart: 32 at a time are copied side by side first.

    The processor fetches several rows at once if they are only copied.
    """
    near, numbers = np.empty((32, words.shape[1]), np.uint32), np.arange(32).astype(np.int32)
    for at in range(first, last, 32):
        count = min(32, last - at)
        for i in range(count):
            row = np.uint64(rows[at + i])
            for word in range(np.uint64(words.shape[1])):
                near[i, word] = words[row, word]
        _add_rows(near, numbers, 0, count, packed[at : at + count], block)


@njit(**INNER)
def _end_of_block(packed: Integers, first: int, high: int) -> int:
    """End of the longest block of rows whose sums fit into packed words."""
    block = packed[first : min(first + 4095, high)]
    pull, weight, end = np.int64(0), np.int64(0), block.size
    for i in range(end):
        pull += abs(block[i] >> 38)
        weight += (block[i] >> 12) & 0x3FFFFFF
    while pull >= 1 << 25 or weight >= 1 << 26:  # seldom
        end -= 1
        pull -= abs(block[end] >> 38)
        weight -= (block[end] >> 12) & 0x3FFFFFF
    return first + end


@njit(**INNER)
def _flush(
    j: int, first: bool, blocks: Integers, start: Integers, n_bins: Integers, count_bits: int,
    sums: Integers,
) -> None:  # fmt: skip
    """Add the packed sums of a feature in all blocks to the wide ones, and clear them.

    The first of a node are written rather than added.
    """
    bins, size = sums[2 * start[j] : 2 * start[j + 1]], n_bins[j]
    if first:
        for i in range(bins.size):
            bins[i] = 0
    for block in range(blocks.shape[0]):
        packed = blocks[block, 264 * j : 264 * j + 256]
        packed[size] = packed[255]  # missing values
        for code in range(size + 1):  # no branch, which nobody could predict
            number = packed[code]
            rest = number & 0x3FFFFFFFFF
            bins[2 * code] += number >> 38
            bins[2 * code + 1] += ((rest >> 12) << count_bits) + (rest & 4095)
        for code in range(256):
            packed[code] = 0


@njit(**INNER)
def _subtract(first: int, last: int, smaller: Integers, larger: Integers) -> None:
    """Take the bins of the smaller child off those of the node."""
    one, other = smaller[2 * first : 2 * last], larger[2 * first : 2 * last]
    for i in range(other.size):
        other[i] -= one[i]


@njit(**INNER)
def _fill_block(
    part: int, parts: int, task: NDArray[Any], rows: Rows, packed: Integers, read: Reading,
    filled: Integers,
) -> None:  # fmt: skip
    """Fill a block with rows of one of several parts of the rows, until it or the part is full.

    `filled` counts those of each part that have been added.
    """
    division, words, blocks = task[0], read[1], read[4]
    count = division.last - division.first
    first = division.first + count * part // parts + filled[part]
    end = _end_of_block(packed, first, division.first + count * (part + 1) // parts)
    if division.form == 2:
        _add_rows(words, rows, first, end, packed, blocks[part])
    else:
        _add_scattered_rows(words, rows, first, end, packed, blocks[part])
    filled[part] += end - first


@njit(cache=True, nogil=True, error_model="numpy")
def penalised_value(
    pull: float, curvature: float, alpha: float, least: float, most: float
) -> float:
    """Value of a leaf by the formula above; `curvature` is W + lambda."""
    size = max(abs(pull) - alpha, 0.0)
    value = (size if pull > 0 else -size) / curvature if curvature > 0 else 0.0
    return min(max(value, least), most)


@njit(cache=True, nogil=True, error_model="numpy")
def penalised_values(pulls: Floats, curvatures: Floats, alpha: float, bounds: Floats) -> Floats:
    """The same of some leaves."""
    values = np.empty(pulls.size)
    for k in range(pulls.size):
        values[k] = penalised_value(pulls[k], curvatures[k], alpha, bounds[k, 0], bounds[k, 1])
    return values


@njit(**INNER, error_model="numpy")
def _worth(pull: float, curvature: float, alpha: float, value: float) -> float:
    return 2.0 * (pull * value - alpha * abs(value)) - curvature * value * value


@njit(**INNER, error_model="numpy")
def _pair_worth(
    left: float, left_weight: float, right: float, right_weight: float, alpha: float,
    bounds: tuple[float, float], sign: int,
) -> float:  # fmt: skip
    """Worth of two children; -inf if they are against the direction of the feature."""
    one = penalised_value(left, left_weight, alpha, bounds[0], bounds[1])
    other = penalised_value(right, right_weight, alpha, bounds[0], bounds[1])
    if (sign > 0 and one > other) or (sign < 0 and one < other):
        return -np.inf
    return _worth(left, left_weight, alpha, one) + _worth(right, right_weight, alpha, other)


@njit(cache=True, nogil=True)
def _read(
    pull: Integer, weight_count: Integer, units: tuple[float, float, int]
) -> tuple[float, float, float]:
    """Pull, weight and count behind the two words of a sum."""
    count = weight_count & ((np.int64(1) << units[2]) - 1)
    return (
        np.float64(pull) * units[0], np.float64(weight_count >> units[2]) * units[1],
        np.float64(count),
    )  # fmt: skip


@njit(**INNER, error_model="numpy")
def _sorted_categories(
    bins: Integers, units: tuple[float, float, int], smooth: float, order: Integers
) -> int:
    """Categories that occur, by rising smoothed mean of the pull; gives their number."""
    key = np.empty(bins.size // 2)
    count = 0
    for code in range(key.size):
        if bins[2 * code + 1] != 0:
            numbers = _read(bins[2 * code], bins[2 * code + 1], units)
            weight = numbers[1] + smooth
            mean = numbers[0] / weight if weight > 0 else 0.0
            i = count
            while i > 0 and key[i - 1] > mean:
                key[i], order[i] = key[i - 1], order[i - 1]
                i -= 1
            key[i], order[i] = mean, code
            count += 1
    return count


@njit(**INNER, error_model="numpy")
def _in_order(
    bins: Integers, units: tuple[float, float, int], smooth: float, order: Integers
) -> Integers:
    """Bins of the categories that occur, in the order of `_sorted_categories`."""
    count = _sorted_categories(bins, units, smooth, order)
    sorted_bins = np.empty(2 * count, np.int64)
    for i in range(count):
        sorted_bins[2 * i], sorted_bins[2 * i + 1] = bins[2 * order[i]], bins[2 * order[i] + 1]
    return sorted_bins


@njit(cache=True, nogil=True, error_model="numpy")
def left_categories(
    bins: Integers, cut: int, way: int, units: tuple[float, float, int], smooth: float
) -> Flags:
    """Which codes go left: the first ``cut + 1`` categories (way 1), or the others (way 0)."""
    order = np.empty(256, np.int64)
    count = _sorted_categories(bins, units, smooth, order)
    left = np.zeros(256, np.bool_)
    for i in range(count):
        left[order[i]] = (i <= cut) == (way == 1)
    return left


@njit(**INNER, error_model="numpy")
def _children_worth(
    left: tuple[float, float, float], parent: tuple[float, float, float], penalty: float,
    bounds: tuple[float, float], sign: int, rules: NDArray[Any],
) -> float:  # fmt: skip
    """Worth of the children of a cut; -inf if one of them has too few rows or too little weight.

    It may be negative: bounds can keep a leaf far from its mean. No child may have neither weight
    nor penalty.
    """
    rule = rules[0]
    pull, weight, count = left
    other_pull, other = parent[0] - pull, parent[1] - weight
    least = np.float64(max(rule.min_count, 1))
    lightest = max(rule.min_weight, 0.0 if penalty > 0.0 else 5e-324)
    if min(count, parent[2] - count) < least or min(weight, other) < lightest:
        return -np.inf
    if rule.plain == 1:
        return pull * pull / (weight + penalty) + other_pull * other_pull / (other + penalty)
    return _pair_worth(
        pull, weight + penalty, other_pull, other + penalty, rule.alpha, bounds, sign
    )


@njit(**INNER, error_model="numpy")
def _best_cut(
    histogram: Integers, first: int, size: int, missing: tuple[float, float, float],
    parent: tuple[float, float, float], best: float, penalty: float, bounds: tuple[float, float],
    sign: int, rules: NDArray[Any],
) -> tuple[float, int, int]:  # fmt: skip
    """Worth, cut and way of the first best cut of one feature; a cut of -1 if none exceeds `best`.

    Missing values go left, then right, if there are any; otherwise where more rows go.
    """
    units = rules[0].pull_unit, rules[0].weight_unit, rules[0].count_bits
    pull, word, cut, way = np.int64(0), np.int64(0), -1, 0
    bins = histogram[2 * first : 2 * (first + size)]
    for i in range(size):
        if bins[2 * i + 1] == 0:
            continue
        pull += bins[2 * i]
        word += bins[2 * i + 1]
        here = _read(pull, word, units)
        # The last cut leaves missing values alone on the right, which have no direction.
        ordered = here[2] + missing[2] < parent[2]
        for side in range(0 if missing[2] > 0 else 1, 2):
            left = here
            if side == 0:
                left = (here[0] + missing[0], here[1] + missing[1], here[2] + missing[2])
            worth = _children_worth(left, parent, penalty, bounds, sign if ordered else 0, rules)
            if worth > best:
                best, cut, way = worth, i if ordered else size - 1, side
                if missing[2] == 0:
                    way = 1 if 2.0 * here[2] < parent[2] else 0
    return best, cut, way


@njit(**INNER, error_model="numpy")
def _may_exceed(
    histogram: Integers, first: int, size: int, missing: tuple[float, float, float],
    parent: tuple[float, float, float], best: float, rules: NDArray[Any], sums: Integers,
) -> bool:  # fmt: skip
    """Whether a cut of a feature might be worth more than `best`; no means that none is.

    The comparison of the plain formula, multiplied by both denominators and with some room for
    rounding: without divisions and branches the processor takes several bins at once. Few features
    have a cut that is worth more than the best one so far.
    """
    pull, word, rule = np.int64(0), np.int64(0), rules[0]
    pull_unit, weight_unit, count_bits = rule.pull_unit, rule.weight_unit, rule.count_bits
    bins, pulls, words = histogram[2 * first : 2 * (first + size)], sums[0, :size], sums[1, :size]
    for i in range(size):
        pull += bins[2 * i]
        word += bins[2 * i + 1]
        pulls[i] = pull
        words[i] = word
    mask, enough = (np.int64(1) << count_bits) - 1, best * (1.0 - 2.0**-40)
    least, penalty, hits = max(rule.min_count, 1), rule.penalty, 0
    more, heavier, count_more = 0.0, 0.0, 0
    for _ in range(1 if missing[2] == 0 else 2):  # missing values right, then left
        for i in range(size):
            left = np.float64(pulls[i]) * pull_unit + more
            weight = np.float64(words[i] >> count_bits) * weight_unit + heavier
            right, one, other = parent[0] - left, weight + penalty, parent[1] - weight + penalty
            count = (words[i] & mask) + count_more
            none = left * left * other + right * right * one <= enough * (one * other)
            few = count < least or np.int64(parent[2]) - count < least
            hits += 0 if none or few else 1
        more, heavier, count_more = missing[0], missing[1], np.int64(missing[2])
    return hits > 0


@njit(**INNER)
def _sums_up_to(bins: Integers, cut: int) -> tuple[Integer, Integer]:
    pull, weight_count = np.int64(0), np.int64(0)
    for i in range(cut + 1):
        pull += bins[2 * i]
        weight_count += bins[2 * i + 1]
    return pull, weight_count


@njit(**INNER, error_model="numpy")
def _own_worth(sums: tuple[int, int], bounds: tuple[float, float], rules: NDArray[Any]) -> float:
    """Worth of a node that is not split."""
    rule = rules[0]
    pull, weight, _ = _read(sums[0], sums[1], (rule.pull_unit, rule.weight_unit, rule.count_bits))
    if rule.plain == 1:
        return pull * pull / (weight + rule.penalty)
    value = penalised_value(pull, weight + rule.penalty, rule.alpha, bounds[0], bounds[1])
    return _worth(pull, weight + rule.penalty, rule.alpha, value)


@njit(**INNER, error_model="numpy")
def _search_feature(
    j: int, histogram: Integers, layout: tuple[Integers, Integers], sign: int, categorical: bool,
    sums: tuple[int, int], bounds: tuple[float, float], rules: NDArray[Any], best: float,
    integers: Integers,
) -> tuple[float, int, int]:  # fmt: skip
    """Worth, cut and way of the best split on a feature; a cut of -1 if none exceeds `best`."""
    start, n_bins = layout
    units = rules[0].pull_unit, rules[0].weight_unit, rules[0].count_bits
    first, size, penalty = start[j], n_bins[j], rules[0].penalty
    beyond = 2 * (first + size)
    missing = _read(histogram[beyond], histogram[beyond + 1], units)
    parent = _read(sums[0], sums[1], units)
    if categorical:
        smooth = rules[0].smooth
        histogram = _in_order(histogram[2 * first : beyond], units, smooth, integers[0])
        first, size, penalty = np.int64(0), np.int64(histogram.size // 2), penalty + smooth
    elif rules[0].plain == 1 and not _may_exceed(
        histogram, first, size, missing, parent, best, rules, integers
    ):
        return best, -1, 0
    return _best_cut(
        histogram, first, size, missing, parent, best, penalty, bounds, sign, rules
    )  # fmt: skip


@njit(**INNER)
def _features_of(tile: int, tiles: int, features: int) -> tuple[int, int]:
    """The first feature of a tile and the first of the next: whole words of four."""
    words = -(-features // 4)
    return 4 * (words * tile // tiles), min(4 * (words * (tile + 1) // tiles), features)


@njit(**INNER)
def _sum_unpacked(
    begin: int, end: int, task: NDArray[Any], rules: NDArray[Any], rows: Rows, packed: Integers,
    read: Reading, layout: tuple[Integers, Integers], smaller: Integers, larger: Integers,
) -> bool:  # fmt: skip
    """Sum up the smaller child without blocks, over some features.

    Few rows are taken off the larger child at once, one by one, rather than by going through all
    its bins later; gives whether they were.
    """
    division, (start, n_bins), (codes, _, pull, weight_count, _) = task[0], layout, read
    one_by_one = division.larger >= 0 and (
        (division.last - division.first) * n_bins.size < start[-1]
    )
    needed = division.search_smaller == 1 or not one_by_one
    if needed:
        smaller[2 * start[begin] : 2 * start[end]] = 0
    for sign in range(1, -3 if one_by_one else -1, -2):
        if sign < 0 or needed:
            _fill_wide(codes, rows, division.first, division.last, pull, weight_count, packed,
                       rules[0].count_bits, begin, end, start, n_bins, sign,
                       smaller if sign > 0 else larger)  # fmt: skip
    return one_by_one


@njit(**INNER, error_model="numpy")
def _finish(
    tile: int, tiles: int, task: NDArray[Any], rules: NDArray[Any], rows: Rows, packed: Integers,
    read: Reading, pool: Integers, layout: tuple[Integers, Integers],
    features: tuple[Flags, Signs, Flags], answer: Answer,
) -> None:  # fmt: skip
    """Have the histograms of both children ready and search them, over some features.

    Feature by feature: its bins are near the processor then.
    """
    division, (start, n_bins), (allowed, signs, categorical) = task[0], layout, features
    begin, end = _features_of(tile, tiles, n_bins.size)
    count_bits, form = rules[0].count_bits, division.form
    smaller, larger = pool[division.smaller], pool[max(division.larger, 0)]
    one_by_one = form in (0, 1) and _sum_unpacked(
        begin, end, task, rules, rows, packed, read, layout, smaller, larger
    )
    wanted = division.search_smaller, division.search_larger
    sums = ((division.smaller_pull, division.smaller_weight),
            (division.larger_pull, division.larger_weight))  # fmt: skip
    bounds = ((division.smaller_least, division.smaller_most),
              (division.larger_least, division.larger_most))  # fmt: skip
    worth, found, _, flushed = answer
    for child in range(2):
        found[tile, child, 0] = -1
        worth[tile, child] = _own_worth(sums[child], bounds[child], rules)
        worth[tiles, child] = worth[tile, child]  # the same of all tiles
    integers = np.empty((2, 256), np.int64)
    for j in range(begin, end):
        if form >= 2:
            _flush(j, flushed[0] == 0, read[4], start, n_bins, count_bits, smaller)
        if division.larger >= 0 and not one_by_one:
            _subtract(start[j], start[j + 1], smaller, larger)
        for child in range(2):
            if wanted[child] == 1 and allowed[j]:
                top, cut, way = _search_feature(
                    j, larger if child else smaller, layout, signs[j], categorical[j], sums[child],
                    bounds[child], rules, worth[tile, child], integers,
                )  # fmt: skip
                if cut >= 0:
                    worth[tile, child] = top
                    found[tile, child, 0] = j
                    found[tile, child, 1], found[tile, child, 2] = cut, way


@njit(**INNER, error_model="numpy")
def _best_of_tiles(
    child: int, tiles: int, task: NDArray[Any], rules: NDArray[Any], pool: Integers,
    layout: tuple[Integers, Integers], categorical: Flags, answer: Answer,
) -> SplitFound:  # fmt: skip
    """Gain, feature, cut, way and sums on the left of the best split; a feature of -1 for none."""
    (start, n_bins), (worth, found, _, _), rule, here = layout, answer, rules[0], task[0]
    number = here.larger if child else here.smaller
    if (here.search_larger if child else here.search_smaller) == 0:
        return NO_SPLIT
    best, own, chosen, cut, way = -np.inf, worth[tiles, child], -1, -1, 0
    for tile in range(tiles):
        if found[tile, child, 0] >= 0 and worth[tile, child] > best:
            best, chosen = worth[tile, child], found[tile, child, 0]
            cut, way = found[tile, child, 1], found[tile, child, 2]
    if chosen < 0 or not best - own > 2.0**-36 * abs(best):
        return NO_SPLIT
    histogram, beyond = pool[number], 2 * (start[chosen] + n_bins[chosen])
    bins = histogram[2 * start[chosen] : beyond]
    if categorical[chosen]:
        units = rule.pull_unit, rule.weight_unit, rule.count_bits
        bins = _in_order(bins, units, rule.smooth, np.empty(256, np.int64))
    pull, weight_count = _sums_up_to(bins, cut)
    if way == 0:  # missing values
        pull, weight_count = pull + histogram[beyond], weight_count + histogram[beyond + 1]
    if categorical[chosen] and way == 0:  # the others go left, and these right
        pull = (here.larger_pull if child else here.smaller_pull) - pull
        weight_count = (here.larger_weight if child else here.smaller_weight) - weight_count
    return best - own, chosen, cut, way, pull, weight_count


@njit(**INNER)
def _flush_some(
    tile: int, tiles: int, task: NDArray[Any], rules: NDArray[Any], read: Reading, pool: Integers,
    layout: tuple[Integers, Integers], flushed: int,
) -> None:  # fmt: skip
    """Flush the blocks of some features."""
    start, n_bins = layout
    begin, end = _features_of(tile, tiles, n_bins.size)
    for j in range(begin, end):
        _flush(j, flushed == 0, read[4], start, n_bins, rules[0].count_bits, pool[task[0].smaller])


@njit(**INNER)
def _move_some(
    part: int, parts: int, counting: bool, task: NDArray[Any], column: Bytes, side: Flags,
    rows: Rows, packed: Integers, out: Rows, packed_out: Integers, counts: Integers,
) -> None:  # fmt: skip
    """Move one of several parts of the rows, or count those that go left."""
    here = task[0]
    size = here.high - here.low
    low, high = here.low + size * part // parts, here.low + size * (part + 1) // parts
    if counting:
        counts[part] = count_left(low, high, column, here.offset, here.step, side, rows)
        return
    left = np.int64(0)
    for before in range(part):
        left += counts[before]
    scatter(low, high, here.low + left, here.middle + low - here.low - left, column, here.offset,
            here.step, side, rows, packed, out, packed_out)  # fmt: skip


@njit(**INNER)
def _tasks_of(phase: int, tiles: int, task: NDArray[Any], read: Reading) -> int:
    """How many tasks a phase has.

    -1 counts the rows that go left, where there are many, 0 moves rows, 1 fills blocks, 2 flushes
    them, and 3 does the rest.
    """
    division, parts = task[0], read[4].shape[0]
    if phase < 1:
        rows = division.high - division.low
        several = parts > 1 and rows >= 8192
        return parts if several else min(rows, phase + 1)
    if phase == 1:
        return parts if division.form >= 2 else 0
    searching = division.search_smaller == 1 or division.search_larger == 1
    return tiles if searching or division.form >= 0 else 0


@njit(**INNER)
def _next_phase(phase: int, task: NDArray[Any], filled: Integers, flushed: Integers) -> int:
    """What comes after a phase: blocks are filled and flushed until all rows are in them."""
    if phase < 0:
        return 0
    if phase == 0:
        filled[:] = 0
        flushed[0] = 0
        return 1
    left = task[0].last - task[0].first
    for count in filled:
        left -= count
    if phase == 3:
        return 4
    if task[0].form < 2 or (phase == 1 and left == 0):
        return 3
    flushed[0] += 1 if phase == 2 else 0
    return 2 if phase == 1 else 1


@njit(**INNER)
def _take_task(post: Integers) -> tuple[int, int]:
    """Number of a task of the phase and how many there are; -1 if all are taken (`crew`)."""
    word = load(post, 0)
    if (word & 0xFFFF) < ((word >> 16) & 0xFFFF):
        word = add(post, 0, 1)
        if (word & 0xFFFF) < ((word >> 16) & 0xFFFF):
            return word & 0xFFFF, (word >> 16) & 0xFFFF
    return -1, 0


@njit(**INNER)
def _is_over(helping: bool, post: Integers, tasks: int) -> bool:
    """Whether a helper is to leave, or all tasks of the leader's phase are done."""
    return load(post, 16) != 0 if helping else load(post, 8) == tasks


@njit(**INNER)
def _next_leaf(counts: Integers, leaves: NDArray[Any]) -> bool:
    """Choose the leaf with the largest gain, the first of equals; no if none is to be split."""
    counts[5] = -1
    if counts[0] < counts[3]:
        for k in range(counts[0]):
            best = counts[5]
            if leaves[k].feature >= 0 and (best < 0 or leaves[k].gain > leaves[best].gain):
                counts[5] = k
    return counts[5] >= 0


@njit(**INNER)
def _set_task(
    task: NDArray[Any], rules: NDArray[Any], side: Flags, rows: int, packed: bool, tree: Growing
) -> None:
    """Describe the division of the leaf at hand."""
    leaves, _, free, offsets, counts = tree
    here, leaf, rule = task[0], leaves[counts[5]], rules[0]
    mask = (np.int64(1) << rule.count_bits) - 1
    left = leaf.left_weight & mask
    right = (leaf.weight - leaf.left_weight) & mask
    for code in range(255):
        side[code] = code <= leaf.cut
    side[255] = leaf.way == 0
    here.source, here.low, here.high, here.middle = (
        leaf.source,
        leaf.low,
        leaf.high,
        leaf.low + left,
    )
    here.offset = offsets[leaf.feature]
    first = left <= right  # whether the left child is the smaller one
    fewer, more = min(left, right), max(left, right)
    further = counts[0] + 1 < counts[3] and (counts[4] <= 0 or leaf.depth + 1 < counts[4])
    here.search_smaller = 1 if further and fewer >= 2 * max(rule.min_count, 1) else 0
    here.search_larger = 1 if further and more >= 2 * max(rule.min_count, 1) else 0
    here.form, here.smaller, here.larger = -1, 0, -1
    counts[2] -= 1
    if here.search_smaller == 1 or here.search_larger == 1:
        here.form = (
            0 if not packed else (1 if fewer < counts[6] else (2 if 2 * fewer > rows else 3))
        )
        here.first = here.low if first else here.middle
        here.last = here.first + fewer
        here.smaller, here.larger = free[counts[2]], leaf.histogram
    pull, weight = leaf.pull - leaf.left_pull, leaf.weight - leaf.left_weight
    here.smaller_pull, here.smaller_weight = leaf.left_pull, leaf.left_weight
    here.larger_pull, here.larger_weight = pull, weight
    if not first:
        here.smaller_pull, here.smaller_weight = pull, weight
        here.larger_pull, here.larger_weight = leaf.left_pull, leaf.left_weight


@njit(**INNER)
def _set_leaf(
    leaf: Any, task: NDArray[Any], smaller: bool, number: int, best: SplitFound,
    rules: NDArray[Any], tree: Growing,
) -> None:  # fmt: skip
    """Describe a child, the smaller or the larger one; without a split its histogram is free."""
    here, free, counts = task[0], tree[2], tree[4]
    leaf.pull = here.smaller_pull if smaller else here.larger_pull
    leaf.weight = here.smaller_weight if smaller else here.larger_weight
    gain, feature, cut, way, pull, weight = best
    leaf.histogram, leaf.feature = number, -1
    if feature >= 0 and gain > rules[0].min_gain:
        leaf.gain, leaf.feature, leaf.cut, leaf.way = gain, feature, cut, way
        leaf.left_pull, leaf.left_weight = pull, weight
    else:
        free[counts[2]] = number
        counts[2] += 1


@njit(**INNER)
def _split_leaf(
    task: NDArray[Any], rules: NDArray[Any], best: SplitFound, other: SplitFound, tree: Growing
) -> None:
    """Replace the leaf at hand by its children, whose best splits are known."""
    leaves, splits, free, _, counts = tree
    number, right, at = counts[5], counts[0], counts[1]
    leaf, new, split, here = leaves[number], leaves[right], splits[at], task[0]
    split.feature, split.cut, split.way, split.gain = leaf.feature, leaf.cut, leaf.way, leaf.gain
    split.pull, split.weight = leaf.pull, leaf.weight
    split.left_pull, split.left_weight = leaf.left_pull, leaf.left_weight
    split.left, split.right = -1 - number, -1 - right
    if at > 0:  # the split above leads here
        if leaf.side == 0:
            splits[leaf.split].left = at
        else:
            splits[leaf.split].right = at
    smaller, larger = free[counts[2]], leaf.histogram
    first = leaf.left_pull == here.smaller_pull and leaf.left_weight == here.smaller_weight
    leaf.low, leaf.high, new.low, new.high = here.low, here.middle, here.middle, here.high
    leaf.source, new.source = 1 - here.source, 1 - here.source
    leaf.depth += 1
    new.depth, leaf.split, new.split, leaf.side, new.side = leaf.depth, at, at, 0, 1
    if first:
        _set_leaf(leaf, task, True, smaller, best, rules, tree)
        _set_leaf(new, task, False, larger, other, rules, tree)
    else:
        _set_leaf(new, task, True, smaller, best, rules, tree)
        _set_leaf(leaf, task, False, larger, other, rules, tree)
    counts[0] += 1
    counts[1] += 1


# One function rather than two: every level of calls is compiled again with all below it.
@njit(cache=True, nogil=True, error_model="numpy")
def _work(  # noqa: C901, PLR0912
    role: int, tiles: int, post: Integers, task: NDArray[Any], rules: NDArray[Any],
    column: Bytes, side: Flags, lists: Lists, read: Reading, pool: Integers,
    layout: tuple[Integers, Integers], features: tuple[Flags, Signs, Flags], answer: Answer,
    tree: Growing,
) -> tuple[SplitFound, SplitFound]:  # fmt: skip
    """Divide a node (role 0), help until it is time to leave (1), or grow a tree (2)."""
    here, idle, helping = task[0], 0, role == 1
    best = other = NO_SPLIT
    dividing = role != 2 or _next_leaf(tree[4], tree[0])
    while dividing:
        if role == 2:
            _set_task(task, rules, side, read[0].shape[0], lists[1].size > 0, tree)
        phase, tasks = -1, 0
        while phase < 4:
            if not helping:
                tasks = _tasks_of(phase, tiles, task, read)
                store(post, 8, 0)
                post[24] = phase
                store(post, 0, ((((load(post, 0) >> 32) + 1) & 0x7FFFFFFF) << 32) | (tasks << 16))
            while not _is_over(helping, post, tasks):
                number, of = _take_task(post)
                if number < 0:
                    idle += 1
                    if idle > 1000:
                        give_way()
                    continue
                rows, packed, out, packed_out = lists
                if here.source == 1:  # where rows are moved from
                    rows, packed, out, packed_out = out, packed_out, rows, packed
                if post[24] < 1:
                    _move_some(number, of, post[24] < 0, task, column, side, rows, packed, out,
                               packed_out, answer[2])  # fmt: skip
                elif post[24] == 1:
                    _fill_block(number, of, task, out, packed_out, read, answer[2])
                elif post[24] == 2:
                    _flush_some(number, of, task, rules, read, pool, layout, answer[3][0])
                else:
                    _finish(number, of, task, rules, out, packed_out, read, pool, layout, features,
                            answer)  # fmt: skip
                idle = 0
                add(post, 8, 1)
            phase = _next_phase(phase, task, answer[2], answer[3]) if not helping else 4
        for child in range(0 if helping else 2):  # (two calls would be compiled twice)
            best, other = (
                other, _best_of_tiles(child, tiles, task, rules, pool, layout, features[2], answer)
            )  # fmt: skip
        dividing = role == 2
        if role == 2:
            _split_leaf(task, rules, best, other, tree)
            dividing = _next_leaf(tree[4], tree[0])
    return best, other
