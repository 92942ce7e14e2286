"""What trees do to the rows of a node: move them, sum them up and search the sums for a split.

`RowHistograms` has the sums of sets of rows over the bins of all features: pull, Hessian and count
at once, from codes that stand row by row. `Divider` moves the rows of a node, sums up its smaller
child and searches both children. It shares the features between threads, which stay in one kernel
from the first division of a tree to the last (see `precede.engine.thread_team`). `best_split`
searches
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

from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from precede.engine.arrays import Bytes, Flags, Floats, Integer, Integers, Rows, Signs
from precede.engine.compiling import INNER
from precede.engine.execution import Context, is_small
from precede.engine.histograms.columns import ABREAST
from precede.engine.portable_kernels import fmax, fmin
from precede.engine.quantization import QuantizedRows
from precede.engine.thread_team import add, add_two, give_way, load, new_control_block, store

if TYPE_CHECKING:
    from precede.engine.table import Table

__all__ = [
    "ROUNDING",
    "NodeSplitter",
    "RowHistograms",
    "best_split",
    "count_left",
    "first_bins",
    "left_categories",
    "penalized_value",
    "penalized_values",
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
# Codes of so many rows are copied at a time.
ROWS_AT_ONCE = 512
# The phase of a division that has not begun; see `_next_phase`.
BEFORE = -2
# How rows are added up: two words for each, packed ones unpacked, packed ones in blocks, packed
# ones that lie apart; or there is nothing to add up.
NONE, WIDE, FEW, DENSE, SCATTERED = range(-1, 4)

# What the kernel needs to know of a division. Rows low..high of one of the two lists (`source`) go
# before or after `middle` of the other; their codes are ``column[offset + step * row]``. Rows
# first..last of the other list are summed up in the form `form`. The kernel counts in `flushed` how
# often blocks have been flushed, and in `phase` how far it is.
DIVISION = np.dtype([
    (name, "i8") for name in (
        "source", "low", "middle", "high", "offset", "step", "form", "first", "last", "flushed",
        "phase",
    )
])  # fmt: skip
# Of the smaller child and of the larger one: the number of its histogram (that of the larger one
# is the node's, from which the smaller one's is subtracted; -1 for none), whether to search it, its
# sums and the bounds of its value; and what is found: the worth of the child itself, its best
# split, a feature of -1 if there is none, and its sums as `_read` has them.
CHILD = np.dtype([
    (name, "i8") for name in ("histogram", "search", "pull", "weight")
] + [(name, "f8") for name in ("least", "most", "worth", "gain")] + [
    (name, "i8") for name in ("feature", "cut", "way", "left_pull", "left_weight")
] + [(name, "f8") for name in ("own_pull", "own_weight", "own_count")])  # fmt: skip
# What one part of the features has found for a child.
FOUND = np.dtype([("worth", "f8")] + [
    (name, "i8") for name in ("feature", "cut", "way", "left_pull", "left_weight")
])  # fmt: skip
# What is found of a child before it is searched.
NOTHING = 0.0, 0.0, -1, -1, 0, 0, 0, 0.0, 0.0, 0.0
# What a split must respect, see `precede.weak_rankers.splits.Rules`; `plain` is 1 where no penalty
# on
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
# `precede.weak_rankers.trees.Tree`.
SPLIT = np.dtype([
    (name, "i8") for name in (
        "feature", "cut", "way", "pull", "weight", "left_pull", "left_weight", "left", "right",
    )
] + [("gain", "f8")], align=True)  # fmt: skip
# Of a tree: how many leaves, splits and free histograms there are, most leaves, greatest depth, the
# leaf at hand, `FEW_ROWS`, all rows, and whether their numbers are packed.
TREE = np.dtype([
    (name, "i8") for name in (
        "leaves", "splits", "free", "most", "depth", "leaf", "few", "rows", "packed",
    )
])  # fmt: skip

# Gain, feature, cut, way, and the two words of the sums on the left; a feature of -1 for none.
SplitFound = tuple[float, int, int, int, int, int]
# Rows and their packed numbers in the two lists (None where they are wide); codes of rows, four of
# them at once, pulls and weights with counts (both None where they are packed).
Lists = tuple[Rows, Integers | None, Rows, Integers | None]
Reading = tuple[Bytes, NDArray[np.uint32], Integers | None, Integers | None]
# Directions of the features, and whether they are categories.
Kinds = tuple[Signs, Flags]
# Leaves, splits, numbers of free histograms, where the column of each feature begins, and `TREE`.
Growing = tuple[NDArray[Any], NDArray[Any], Integers, Integers, NDArray[Any]]
NO_TREE: Growing = (
    np.zeros(0, LEAF), np.zeros(0, SPLIT), np.zeros(0, np.int64), np.zeros(0, np.int64),
    np.zeros(1, TREE),
)  # fmt: skip
# What a call of the kernel is for.
DIVIDE, HELP, GROW = range(3)
# What the kernel is given where there is nothing to move or to sum.
NO_ROWS, NO_BYTES, NO_FLAGS = np.empty(0, np.int32), np.empty(0, np.uint8), np.empty(0, np.bool_)
NO_INTEGERS, NO_SIGNS = np.empty(0, np.int64), np.empty(0, np.int8)
NO_CODES, NO_WORDS = np.empty((0, 0), np.uint8), np.empty((0, 0), np.uint32)
NO_BLOCKS = np.empty((0, 0), np.int64)


def first_bins(n_bins: Integers) -> Integers:
    """First bin of each feature in a histogram, and the end of all; see `RowHistograms`.

    >>> first_bins(np.array([3, 4]))
    array([ 0,  4, 16])
    """
    # An odd number of cache lines (of four bins) each, for the reason given at STRIDE.
    sizes = ABREAST * (-(-(n_bins + 1) // ABREAST) | 1)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


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
    >>> from precede.engine.quantization import quantize_rows
    >>> from precede.engine.table import Table
    >>> table, context = Table.build(np.array([[1.0], [3.0], [3.0], [np.nan]])), Context(1)
    >>> histograms = RowHistograms(table, np.array([0]), context)
    >>> numbers = quantize_rows(np.array([0.5, 0.25, -0.25, -0.5]), np.ones(4), context)
    >>> rows = np.arange(4, dtype=np.int32)
    >>> sums = histograms.sums(numbers, rows, numbers.packed, 0, 4)
    >>> sums[:3, 0] * numbers.pull_unit, sums[:3, 1] & 7
    (array([ 0.5,  0. , -0.5]), array([1, 2, 1]))
    """

    def __init__(self, table: Table, features: Integers, context: Context):
        self._context = context
        self.n_rows = table.n_used_rows
        self.n_bins = table.bins.n_bins[features]
        self.start = first_bins(self.n_bins)
        self.size = int(self.start[-1])
        words = max(1, -(-features.size // ABREAST))
        self.codes = np.zeros((self.n_rows, ABREAST * words), np.uint8)
        # From disk a few columns are read at a time.
        width = ABREAST * context.jobs if table.streamed else max(1, features.size)
        for first in range(0, features.size, width):
            part = features[first : first + width]
            context.run(
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
        numbers: QuantizedRows,
        rows: Rows,
        packed: Integers | None,
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
            kept = self._blocks and numbers.packed is not None
            block = self._blocks.pop() if kept else self.new_blocks(numbers, 1)
            task, rules = np.zeros(1, DIVISION), np.zeros(1, RULES)
            children = np.zeros(2, CHILD)
            rules["count_bits"] = numbers.count_bits
            task["form"], children["histogram"] = self.form(numbers, last - first), (0, -1)
            task["first"], task["last"], task["phase"] = low + first, low + last, BEFORE
            lists, read = (rows, packed, rows, packed), self.read(numbers)
            given = lists, read, block, sums, self.layout, NO_FLAGS, None
            _alone(task, children, rules, *given)
            if block is not None:
                self._blocks.append(block)
            return sums

        small = is_small("cells", (high - low) * self.codes.shape[1])
        for other in self._context.run(part, high - low, small=small)[1:]:
            total += other
            self._parts.append(other)
        return total

    def total(
        self, numbers: QuantizedRows, rows: Rows, packed: Integers | None, count: int
    ) -> tuple[int, int]:
        """The two words of the sums of the first rows of a list."""
        if packed is not None:
            return _total_of_packed(count, packed, numbers.count_bits)
        assert numbers.pull is not None
        assert numbers.weight_count is not None
        # No list has a row twice.
        here = slice(None) if count == self.n_rows else rows[:count]
        return int(numbers.pull[here].sum()), int(numbers.weight_count[here].sum())

    @property
    def layout(self) -> tuple[Integers, Integers]:
        """Where the bins of each feature begin, and how many there are."""
        return self.start, self.n_bins

    def form(self, numbers: QuantizedRows, count: int) -> int:
        """How so many rows are best summed up."""
        if numbers.packed is None:
            return WIDE
        if count < FEW_ROWS:
            return FEW
        # Rows that lie far apart are copied side by side first, several at a time.
        return DENSE if 2 * count > self.n_rows else SCATTERED

    def read(self, numbers: QuantizedRows) -> Reading:
        """What the kernel reads to sum up rows."""
        return self.codes, self.words, numbers.pull, numbers.weight_count

    def new_blocks(self, numbers: QuantizedRows, count: int) -> Integers | None:
        """Memory for packed sums, which are 0 between calls of the kernel; None for wide ones."""
        return None if numbers.packed is None else np.zeros((count, self._block_size), np.int64)


class NodeSplitter:
    """Divides the nodes of trees: moves rows, sums up the smaller child, searches both children.

    Parameters
    ----------
    histograms : RowHistograms
    lists : two lists of row numbers; rows are moved from one to the other
    columns : codes by column as one array, where those of each feature begin, and the step from
        one row to the next
    directions, categorical : of each feature, see `precede.weak_rankers.splits.SplitSearch`
    context : Context
    """

    def __init__(
        self,
        histograms: RowHistograms,
        lists: list[Rows],
        columns: tuple[Bytes, Integers, int],
        directions: Signs,
        categorical: Flags,
        context: Context,
    ):
        self._histograms, self._lists, self._context = histograms, lists, context
        self._column, offsets, self._step = columns
        self._offsets, self._all_offsets = offsets.tolist(), offsets
        self._directions, self._categorical = directions, categorical
        self._task, self._side = np.zeros(1, DIVISION), np.zeros(256, np.bool_)
        self._children = np.zeros(2, CHILD)
        self._allowed = np.zeros(directions.size, np.bool_)
        self._post = new_control_block()
        self._blocks: Integers | None = None
        self._given: tuple[Any, ...] = ()
        self._helpers: list[Future[Any]] = []

    def begin(
        self, numbers: QuantizedRows, packed: list[Integers | None], rules: NDArray[Any]
    ) -> None:
        """Begin a tree; `packed` holds the packed numbers of the two lists, `rules` is `RULES`."""
        if (self._blocks is None) != (numbers.packed is None):
            self._blocks = self._histograms.new_blocks(numbers, self._context.jobs)
        self._numbers, self._packed, self._rules = numbers, packed, rules
        self._given = self._arguments(1)

    def _arguments(self, threads: int) -> tuple[Any, ...]:
        """All that the kernel is given by a number of threads, but for whether it helps."""
        (one, other), (packed_one, packed_other) = self._lists, self._packed
        tiles = min(threads, self._histograms.words.shape[1])
        return (
            tiles, self._post, self._task, self._children, self._rules, self._column, self._side,
            (one, packed_one, other, packed_other), self._histograms.read(self._numbers),
            None if self._blocks is None else self._blocks[:threads], self._histograms.pool,
            self._histograms.layout, self._allowed,
            _kinds(self._rules, self._directions, self._categorical), *_room(tiles, threads),
        )  # fmt: skip

    def join(self) -> None:
        """Have the other threads help until `leave` is called."""
        if not self._helpers and self._context.jobs > 1:
            self._post = new_control_block()  # nobody who is late comes into the work of others
            self._given = self._arguments(self._context.jobs)
            try:
                self._helpers = self._context.start(_work, HELP, *self._given, NO_TREE)
            except BaseException:  # those that were started would wait for work for ever
                self._post[16] = 1
                raise

    def leave(self) -> None:
        """Send the other threads away."""
        if self._helpers:
            self._post[16] = 1
            self._helpers = []
            self._given = self._arguments(1)

    def divide(
        self,
        division: tuple[int, ...],
        children: Sequence[tuple[int, bool, tuple[int, int], tuple[float, float]]],
        feature: int,
        side: Flags,
        allowed: Flags,
    ) -> tuple[SplitFound, SplitFound]:
        """Divide a node; gives the best splits of the smaller and of the larger child.

        `division` has the entries of `DIVISION` but for ``offset`` and ``step``, which are those
        of the feature, and ``flushed``; `children` has histogram, whether to search, sums and
        bounds of each child. `side` says which codes go left, `allowed` which features the children
        may be split on. O(rows of the node + features * rows of the smaller child + bins).
        """
        at = self._offsets[feature], self._step
        self._task[0] = *division[:4], *at, *division[4:], 0, BEFORE
        for child, (histogram, search, sums, bounds) in enumerate(children):
            self._children[child] = histogram, search, *sums, *bounds, *NOTHING
        self._side[:] = side
        self._allowed[:] = allowed
        given = DIVIDE, *self._given, NO_TREE
        _work(*given)
        return _split_of(self._children, 0), _split_of(self._children, 1)

    def grow(
        self, root: tuple[Any, ...], num_leaves: int, max_depth: int
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Divide leaves, the one with the largest gain first, until there are enough.

        `root` has the entries of `LEAF`. The children may be split on all features, by thresholds
        and without directions. Gives the leaves and the splits.
        """
        leaves, splits = np.zeros(num_leaves, LEAF), np.zeros(num_leaves - 1, SPLIT)
        leaves[0] = root
        free, count = self._histograms.free()
        rows, packed = self._histograms.n_rows, self._blocks is not None
        tally = np.array([(1, 0, count, num_leaves, max_depth, 0, FEW_ROWS, rows, packed)], TREE)
        self._task["step"] = self._step
        self._children["least"], self._children["most"] = -np.inf, np.inf
        self._allowed[:] = True
        given = GROW, *self._given, (leaves, splits, free, self._all_offsets, tally)
        _work(*given)
        return leaves[: tally["leaves"][0]], splits[: tally["splits"][0]]


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
    task, children = np.zeros(1, DIVISION), np.zeros(2, CHILD)
    task["form"], task["phase"] = NONE, BEFORE
    children[0] = 0, 1, *sums, *bounds, *NOTHING
    children[1]["histogram"] = -1
    lists = NO_ROWS, NO_INTEGERS, NO_ROWS, NO_INTEGERS
    read = NO_CODES, NO_WORDS, None, None
    kinds = _kinds(rules, features[1], features[2])
    given = lists, read, NO_BLOCKS, histogram, layout, features[0], kinds
    return _alone(task, children, rules, *given)


def penalized_values(pulls: Floats, curvatures: Floats, alpha: float, bounds: Floats) -> Floats:
    """Values of some leaves, each as `penalized_value` has it."""
    sizes = np.abs(pulls) - alpha
    sizes = np.where(sizes > 0.0, sizes, 0.0)
    sizes, values = np.where(pulls > 0, sizes, -sizes), np.zeros(pulls.size)
    np.divide(sizes, curvatures, out=values, where=curvatures > 0)
    least, most = bounds.T
    values = np.where(least > values, least, values)
    return np.where(most < values, most, values)


def _alone(
    task: NDArray[Any],
    children: NDArray[Any],
    rules: NDArray[Any],
    lists: Lists,
    read: Reading,
    blocks: Integers | None,
    histogram: Integers,
    *features: Any,
) -> SplitFound:
    """Have one thread sum up rows, or search, without moving any."""
    given = task, children, rules, NO_BYTES, NO_FLAGS, lists, read, blocks
    room = *features, *_room(1, 1), NO_TREE
    _work(DIVIDE, 1, new_control_block(), *given, histogram.reshape(1, -1), *room)
    return _split_of(children, 0)


def _by_rows(low: int, high: int, codes: Bytes, features: Integers, out: Bytes) -> None:
    """Copy columns to rows, so many rows at a time that they stay in the processor's cache."""
    for first in range(low, high, ROWS_AT_ONCE):
        last = min(first + ROWS_AT_ONCE, high)
        out[first:last, : features.size] = codes[features, first:last].T


def _kinds(rules: NDArray[Any], directions: Signs, categorical: Flags) -> Kinds | None:
    """What the search needs to know of the features; None where the simple formula will do."""
    return None if rules["plain"][0] and not categorical.any() else (directions, categorical)


def _room(tiles: int, parts: int) -> tuple[NDArray[Any], Integers, Integers]:
    """Where every part of the features writes what it found for the two children.

    Also where the rows of every part that have gone left, or been added up, are counted; and memory
    to search a feature.
    """
    found, filled = np.zeros((tiles, 2), FOUND), np.zeros(parts, np.int64)
    return found, filled, np.empty((tiles, 512), np.int64)


def _split_of(children: NDArray[Any], child: int) -> SplitFound:
    """The best split that was found of a child."""
    gain, *split = children[child].item()[7:13]
    return gain, *split


assert (ABREAST, STRIDE, ROUNDING) == (4, 264, 2.0**-36), "the kernels below write these out"
assert (NONE, WIDE, FEW, DENSE, SCATTERED) == (-1, 0, 1, 2, 3), "and these"
assert (DIVIDE, HELP, GROW, BEFORE) == (0, 1, 2, -2), "and these"


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def count_left(
    low: int, high: int, column: Bytes, offset: int, step: int, side: Flags, rows: Rows
) -> int:
    """Number of rows low..high of a list that go left."""
    return _move_rows(low, high, low, low, True, column, offset, step, side, rows, None, rows, None)


@njit(cache=True, nogil=True)
def _total_of_packed(high: int, packed: Integers, count_bits: int) -> tuple[int, int]:
    """The two words of the sums of the first rows of a list, as in histograms."""
    one, other = np.int64(0), np.int64(0)
    for i in range(high):
        one += packed[i] >> 38
        rest = packed[i] & 0x3FFFFFFFFF
        other += ((rest >> 12) << count_bits) + (rest & 4095)
    return one, other


@njit(cache=True, nogil=True)
def scatter(
    low: int, high: int, to_left: int, to_right: int, column: Bytes, offset: int, step: int,
    side: Flags, rows: Rows, packed: Integers | None, out: Rows, packed_out: Integers | None,
) -> None:  # fmt: skip
    """Copy rows and packed numbers low..high to where the left and the right ones begin."""
    _move_rows(low, high, to_left, to_right, False, column, offset, step, side, rows, packed, out,
               packed_out)  # fmt: skip


@njit(**INNER)
def _move_rows(
    low: int, high: int, to_left: int, to_right: int, counting: bool, column: Bytes, offset: int,
    step: int, side: Flags, rows: Rows, packed: Integers | None, out: Rows,
    packed_out: Integers | None,
) -> int:  # fmt: skip
    """Copy rows low..high as `scatter` does, or only count; gives how many go left."""
    at, by, count = np.uint64(offset), np.uint64(step), np.int64(0)
    if counting:
        for i in range(np.uint64(low), np.uint64(high)):
            count += 1 if side[column[at + by * np.uint64(rows[i])]] else 0
        return count
    first, second = np.uint64(to_left), np.uint64(to_right)
    for i in range(np.uint64(low), np.uint64(high)):
        row = rows[i]
        left = np.uint64(side[column[at + by * np.uint64(row)]])
        to = second + (first - second) * left  # no branch, which nobody could predict
        out[to] = row
        if packed is not None:
            packed_out[to] = packed[i]  # type: ignore[index]
        first += left
        second += np.uint64(1) - left
    return np.int64(first - np.uint64(to_left))


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
    near, numbers = np.empty((32, words.shape[1]), np.uint32), np.empty(32, np.int32)
    none = first - first  # (a constant would be another type, for which all is compiled again)
    for i in range(32):
        numbers[i] = i
    for at in range(first, last, 32):
        count = 32 if at + 32 < last else last - at
        for i in range(count):
            row = np.uint64(rows[at + i])
            for word in range(np.uint64(words.shape[1])):
                near[i, word] = words[row, word]
        _add_rows(near, numbers, none, count, packed[at : at + count], block)


@njit(**INNER)
def _end_of_block(packed: Integers, first: int, high: int) -> int:
    """End of the longest block of rows whose sums fit into packed words."""
    block = packed[first : first + 4095 if first + 4095 < high else high]
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
def _complete(
    j: int, done: bool, task: NDArray[Any], children: NDArray[Any], blocks: Integers | None,
    layout: tuple[Integers, Integers], count_bits: int, pool: Integers,
) -> None:  # fmt: skip
    """Add the packed sums of a feature in all blocks to the wide ones, and clear them.

    The first of a node are written rather than added. Unless it is `done`, or too early, they are
    taken off the sums of the node, which become those of the larger child.
    """
    start, size, sums = layout[0], layout[1][j], pool[children[0].histogram]
    if blocks is not None and task[0].form >= 2:
        bins = sums[2 * start[j] : 2 * start[j + 1]]
        if task[0].flushed == 0:
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
    if not done:
        fmax = pool[children[1].histogram]
        for i in range(np.uint64(2 * start[j]), np.uint64(2 * start[j + 1])):
            fmax[i] -= sums[i]


@njit(**INNER)
def _fill_block(
    part: int, parts: int, task: NDArray[Any], rows: Rows, packed: Integers,
    words: NDArray[np.uint32], blocks: Integers, filled: Integers,
) -> None:  # fmt: skip
    """Fill a block with rows of one of several parts of the rows, until it or the part is full.

    `filled` counts those of each part that have been added.
    """
    division = task[0]
    count = division.last - division.first
    first = division.first + count * part // parts + filled[part]
    end = _end_of_block(packed, first, division.first + count * (part + 1) // parts)
    if division.form == 2:
        _add_rows(words, rows, first, end, packed, blocks[part])
    else:
        _add_scattered_rows(words, rows, first, end, packed, blocks[part])
    filled[part] += end - first


@njit(cache=True, nogil=True, error_model="numpy")
def penalized_value(
    pull: float, curvature: float, alpha: float, least: float, most: float
) -> float:
    """Value of a leaf by the formula above; `curvature` is W + lambda."""
    return _penalized_value(pull, curvature, alpha, least, most)


@njit(**INNER, error_model="numpy")
def _penalized_value(
    pull: float, curvature: float, alpha: float, least: float, most: float
) -> float:
    size = fmax(abs(pull) - alpha, 0.0)
    value = (size if pull > 0 else -size) / curvature if curvature > 0 else 0.0
    return fmin(fmax(value, least), most)


@njit(**INNER, error_model="numpy")
def _worth(pull: float, curvature: float, alpha: float, value: float) -> float:
    return 2.0 * (pull * value - alpha * abs(value)) - curvature * value * value


@njit(**INNER, error_model="numpy")
def _pair_worth(
    left: float, left_weight: float, right: float, right_weight: float, alpha: float, child: Any,
    sign: int,
) -> float:  # fmt: skip
    """Worth of two children; -inf if they are against the direction of the feature."""
    one = _penalized_value(left, left_weight, alpha, child.least, child.most)
    other = _penalized_value(right, right_weight, alpha, child.least, child.most)
    if (sign > 0 and one > other) or (sign < 0 and one < other):
        return -np.inf
    return _worth(left, left_weight, alpha, one) + _worth(right, right_weight, alpha, other)


@njit(**INNER)
def _read(pull: Integer, weight_count: Integer, rules: NDArray[Any]) -> tuple[float, float, float]:
    """Pull, weight and count behind the two words of a sum."""
    rule = rules[0]
    count = weight_count & ((np.int64(1) << rule.count_bits) - 1)
    return (
        np.float64(pull) * rule.pull_unit,
        np.float64(weight_count >> rule.count_bits) * rule.weight_unit, np.float64(count),
    )  # fmt: skip


@njit(**INNER, error_model="numpy")
def _sorted_categories(bins: Integers, rules: NDArray[Any], order: Integers) -> int:
    """Categories that occur, by rising smoothed mean of the pull; gives their number."""
    key = np.empty(bins.size // 2)
    count = 0
    for code in range(key.size):
        if bins[2 * code + 1] != 0:
            numbers = _read(bins[2 * code], bins[2 * code + 1], rules)
            weight = numbers[1] + rules[0].smooth
            mean = numbers[0] / weight if weight > 0 else 0.0
            i = count
            while i > 0 and key[i - 1] > mean:
                key[i], order[i] = key[i - 1], order[i - 1]
                i -= 1
            key[i], order[i] = mean, code
            count += 1
    return count


@njit(**INNER, error_model="numpy")
def _in_order(bins: Integers, rules: NDArray[Any], order: Integers) -> Integers:
    """Bins of the categories that occur, in the order of `_sorted_categories`."""
    count = _sorted_categories(bins, rules, order)
    sorted_bins = np.empty(2 * count, np.int64)
    for i in range(count):
        sorted_bins[2 * i], sorted_bins[2 * i + 1] = bins[2 * order[i]], bins[2 * order[i] + 1]
    return sorted_bins


@njit(cache=True, nogil=True, error_model="numpy")
def left_categories(bins: Integers, cut: int, way: int, rules: NDArray[Any]) -> Flags:
    """Which codes go left: the first ``cut + 1`` categories (way 1), or the others (way 0)."""
    order = np.empty(256, np.int64)
    count = _sorted_categories(bins, rules, order)
    left = np.zeros(256, np.bool_)
    for i in range(count):
        left[order[i]] = (i <= cut) == (way == 1)
    return left


# Where features have neither directions nor categories, `kinds` is None: numba leaves out what
# stands under ``is not None`` then, and compiles half as much. The same goes for packed numbers.


@njit(**INNER, error_model="numpy")
def _begin_search(
    tiles: int, children: NDArray[Any], rules: NDArray[Any], kinds: Kinds | None,
    found: NDArray[Any],
) -> None:  # fmt: skip
    """Write down the sums of both children and their worth, which a split must exceed."""
    rule = rules[0]
    for number in range(2):
        child = children[number]
        pull, weight, count = _read(child.pull, child.weight, rules)
        child.own_pull, child.own_weight, child.own_count = pull, weight, count
        child.worth = pull * pull / (weight + rule.penalty)
        if kinds is not None and rule.plain == 0:
            weight += rule.penalty
            value = _penalized_value(pull, weight, rule.alpha, child.least, child.most)
            child.worth = _worth(pull, weight, rule.alpha, value)
        for tile in range(tiles):
            found[tile, number].feature, found[tile, number].worth = -1, child.worth


@njit(**INNER, error_model="numpy")
def _best_cut(  # noqa: C901, PLR0912
    j: int, child: Any, pool: Integers, layout: tuple[Integers, Integers], kinds: Kinds | None,
    rules: NDArray[Any], order: Integers, found: Any,
) -> None:  # fmt: skip
    """Write down the first best cut of one feature, if its worth exceeds what was found before.

    Missing values go left, then right, if there are any; otherwise where more rows go. Of the
    children of a cut none may have too few rows, too little weight, or neither weight nor penalty.
    Their worth may be negative: bounds can keep a leaf far from its mean.
    """
    rule, histogram, first, size = rules[0], pool[child.histogram], 2 * layout[0][j], layout[1][j]
    beyond, grouped, penalty = first + 2 * size, False, rule.penalty
    bins, missing = histogram[first:beyond], _read(histogram[beyond], histogram[beyond + 1], rules)
    if kinds is not None:
        grouped = kinds[1][j]
        if grouped:
            bins = _in_order(bins, rules, order)
            size, penalty = bins.size // 2, penalty + rule.smooth
    least = np.float64(rule.min_count) if rule.min_count > 1 else 1.0
    lightest = fmax(rule.min_weight, 0.0 if penalty > 0.0 else 5e-324)
    pull, word, best = np.int64(0), np.int64(0), found.worth
    for i in range(size):
        if bins[2 * i + 1] == 0:
            continue
        pull += bins[2 * i]
        word += bins[2 * i + 1]
        here = _read(pull, word, rules)
        # The last cut leaves missing values alone on the right, which have no direction.
        ordered = here[2] + missing[2] < child.own_count
        for way in range(0 if missing[2] > 0 else 1, 2):
            left, weight, count = here
            if way == 0:
                left, weight, count = left + missing[0], weight + missing[1], count + missing[2]
            right, other = child.own_pull - left, child.own_weight - weight
            if count < least or child.own_count - count < least:
                continue
            if weight < lightest or other < lightest:
                continue
            weight, other = weight + penalty, other + penalty
            worth = left * left / weight + right * right / other
            if kinds is not None and rule.plain == 0:
                sign = kinds[0][j] if ordered else 0
                worth = _pair_worth(left, weight, right, other, rule.alpha, child, sign)
            if worth > best:
                best = worth
                found.feature, found.cut, found.way = j, i if ordered else size - 1, way
                found.left_pull, found.left_weight = pull, word
                if missing[2] == 0:
                    found.way = 1 if 2.0 * here[2] < child.own_count else 0
    if best > found.worth and found.way == 0:
        found.left_pull += histogram[beyond]
        found.left_weight += histogram[beyond + 1]
        if grouped:  # the others go left, and these right
            found.left_pull = child.pull - found.left_pull
            found.left_weight = child.weight - found.left_weight
    found.worth = best


@njit(**INNER, error_model="numpy")
def _may_exceed(
    j: int, child: Any, found: Any, pool: Integers, layout: tuple[Integers, Integers],
    allowed: Flags, kinds: Kinds | None, rules: NDArray[Any], sums: Integers,
) -> bool:  # fmt: skip
    """Whether a cut of a feature might be worth more than what was found; no means that none is.

    The comparison of the plain formula, multiplied by both denominators and with some room for
    rounding: without divisions and branches the processor takes several bins at once. Few features
    have a cut that is worth more than the best one so far.
    """
    if child.search == 0 or not allowed[j]:
        return False
    if kinds is not None and (rules[0].plain == 0 or kinds[1][j]):
        return True
    rule, size, first = rules[0], layout[1][j], 2 * layout[0][j]
    bins, pull, word = pool[child.histogram][first : first + 2 * size + 2], np.int64(0), np.int64(0)
    for i in range(size):
        pull += bins[2 * i]
        word += bins[2 * i + 1]
        sums[i] = pull
        sums[256 + i] = word
    missing = _read(bins[2 * size], bins[2 * size + 1], rules)
    pull_unit, weight_unit, count_bits = rule.pull_unit, rule.weight_unit, rule.count_bits
    mask, enough = (np.int64(1) << count_bits) - 1, found.worth * (1.0 - 2.0**-40)
    least, penalty, hits = fmax(rule.min_count, np.int64(1)), rule.penalty, np.int64(0)
    own_pull, own_weight, own_count = child.own_pull, child.own_weight, np.int64(child.own_count)
    more, heavier, count_more = 0.0, 0.0, np.int64(0)
    for _ in range(1 if missing[2] == 0 else 2):  # missing values right, then left
        for i in range(size):
            left = np.float64(sums[i]) * pull_unit + more
            weight = np.float64(sums[256 + i] >> count_bits) * weight_unit + heavier
            right, one, other = own_pull - left, weight + penalty, own_weight - weight + penalty
            count = (sums[256 + i] & mask) + count_more
            none = left * left * other + right * right * one <= enough * (one * other)
            few = (count < least) | (own_count - count < least)
            hits += np.int64(not (none | few))
        more, heavier, count_more = missing[0], missing[1], np.int64(missing[2])
    return hits > 0


@njit(**INNER)
def _features_of(tile: int, tiles: int, features: int) -> tuple[int, int]:
    """The first feature of a tile and the first of the next: whole words of four."""
    words = -(-features // 4)
    end = 4 * (words * (tile + 1) // tiles)
    return 4 * (words * tile // tiles), end if end < features else features


@njit(**INNER)
def _sum_unpacked(
    begin: int, end: int, task: NDArray[Any], children: NDArray[Any], count_bits: int, rows: Rows,
    packed: Integers | None, codes: Bytes, pull: Integers | None, weight_count: Integers | None,
    pool: Integers, layout: tuple[Integers, Integers],
) -> bool:  # fmt: skip
    """Sum up the smaller child without blocks, over some features.

    Few rows are taken off the larger child at once, one by one, rather than by going through all
    its bins later; gives whether they were.
    """
    here, (start, n_bins) = task[0], layout
    one_by_one = children[1].histogram >= 0 and (
        (here.last - here.first) * n_bins.size < start[start.size - 1]
    )
    for child in range(2 if one_by_one else 1):
        sums, sign = pool[children[child].histogram], 1 - 2 * child
        if child == 0:
            if one_by_one and children[0].search == 0:
                continue
            for i in range(2 * start[begin], 2 * start[end]):
                sums[i] = 0
        for i in range(here.first, here.last):
            row, one, other = rows[i], np.int64(0), np.int64(0)
            if packed is not None:
                number = packed[i]
                one = sign * (number >> 38)
                other = sign * ((((number & 0x3FFFFFFFFF) >> 12) << count_bits) + (number & 4095))
            if pull is not None:  # (an `else` would not be left out)
                one, other = sign * pull[row], sign * weight_count[row]  # type: ignore[index]
            for j in range(np.uint64(begin), np.uint64(end)):
                # Missing is 255. (An unsigned index cannot count from the end, and needs no check.)
                code, last = np.int64(codes[row, j]), n_bins[j]
                at = np.uint64(2 * (start[j] + (code if code < last else last)))
                add_two(sums, at, one, other)
    return one_by_one


@njit(**INNER)
def _best_of_tiles(tiles: int, children: NDArray[Any], found: NDArray[Any]) -> None:
    """Write down the best split of each child and its sums on the left."""
    for number in range(2):
        child, best = children[number], -np.inf
        for tile in range(tiles if child.search == 1 else 0):
            here = found[tile, number]
            if here.feature >= 0 and here.worth > best:
                best = here.worth
                child.feature, child.cut, child.way = here.feature, here.cut, here.way
                child.left_pull, child.left_weight = here.left_pull, here.left_weight
        child.gain = best - child.worth
        if not child.gain > 2.0**-36 * abs(best):
            child.gain, child.feature = 0.0, -1


@njit(**INNER)
def _next_phase(  # noqa: C901
    tiles: int, task: NDArray[Any], children: NDArray[Any], filled: Integers, post: Integers
) -> int:
    """Go on to the next phase and publish it (`crew`); gives how many tasks it has.

    -1 counts the rows that go left, where there are many, 0 moves rows, 1 fills blocks and 2
    flushes them, until all rows are in them; 3 does the rest, and then it is over.
    """
    here, parts, tasks = task[0], filled.size, np.int64(0)
    left = here.last - here.first
    if here.phase == 0:
        here.flushed = 0
        for part in range(parts):
            filled[part] = 0
    for part in range(parts):
        left -= filled[part]
    if here.phase < 1 or here.phase == 3:
        here.phase += 1
    elif here.form < 2 or (here.phase == 1 and left == 0):
        here.phase = 3
    else:
        here.flushed += here.phase - 1
        here.phase = 3 - here.phase
    if here.phase < 1:
        rows = here.high - here.low
        if parts > 1 and rows >= 8192:
            tasks = parts
        elif rows > 0 and here.phase == 0:
            tasks = 1
    elif here.phase == 1:
        tasks = parts if here.form >= 2 else 0
    elif children[0].search == 1 or children[1].search == 1 or here.form >= 0:
        tasks = tiles
    if here.phase < 4:
        store(post, 8, 0)
        post[24] = here.phase
        store(post, 0, ((((load(post, 0) >> 32) + 1) & 0x7FFFFFFF) << 32) | (tasks << 16))
    return tasks


@njit(**INNER)
def _take_task(post: Integers, idle: int) -> tuple[int, int]:
    """Number of a task of the phase and how many there are; -1 if all are taken (`crew`).

    `idle` says how often in a row there was none.
    """
    word = load(post, 0)
    if (word & 0xFFFF) < ((word >> 16) & 0xFFFF):
        word = add(post, 0, 1)
        if (word & 0xFFFF) < ((word >> 16) & 0xFFFF):
            return word & 0xFFFF, (word >> 16) & 0xFFFF
    if idle > 1000:
        give_way()
    return -1, 0


@njit(**INNER)
def _set_task(
    task: NDArray[Any], children: NDArray[Any], rules: NDArray[Any], side: Flags, tree: Growing
) -> bool:
    """Choose the leaf with the largest gain, the first of equals; no if none is to be split.

    Describes its division.
    """
    leaves, _, free, offsets, tallies = tree
    tally, here, fmin, fmax = tallies[0], task[0], children[0], children[1]
    chosen, gain = np.int64(-1), 0.0
    for k in range(tally.leaves if tally.leaves < tally.most else 0):
        if leaves[k].feature >= 0 and (chosen < 0 or leaves[k].gain > gain):
            chosen, gain = k, leaves[k].gain
    if chosen < 0:
        return False
    tally.leaf, leaf = chosen, leaves[chosen]
    mask = (np.int64(1) << rules[0].count_bits) - 1
    left, right = leaf.left_weight & mask, (leaf.weight - leaf.left_weight) & mask
    for code in range(255):
        side[code] = code <= leaf.cut
    side[255] = leaf.way == 0
    here.phase, here.source, here.low, here.high = -2, leaf.source, leaf.low, leaf.high
    here.middle, here.offset = leaf.low + left, offsets[leaf.feature]
    least = 2 * rules[0].min_count if rules[0].min_count > 1 else 2
    further = tally.leaves + 1 < tally.most and (tally.depth <= 0 or leaf.depth + 1 < tally.depth)
    if left <= right:
        here.first, here.last = here.low, here.middle
        fmin.pull, fmin.weight = leaf.left_pull, leaf.left_weight
        fmax.pull, fmax.weight = leaf.pull - leaf.left_pull, leaf.weight - leaf.left_weight
    else:
        here.first, here.last = here.middle, here.high
        fmax.pull, fmax.weight = leaf.left_pull, leaf.left_weight
        fmin.pull, fmin.weight = leaf.pull - leaf.left_pull, leaf.weight - leaf.left_weight
    fewer = fmin.weight & mask
    fmin.search = 1 if further and fewer >= least else 0
    fmax.search = 1 if further and left + right - fewer >= least else 0
    here.form, fmin.histogram, fmax.histogram = -1, 0, -1
    tally.free -= 1
    if fmin.search == 1 or fmax.search == 1:
        here.form = 0
        if tally.packed == 1:
            here.form = 1 if fewer < tally.few else (2 if 2 * fewer > tally.rows else 3)
        fmin.histogram, fmax.histogram = free[tally.free], leaf.histogram
    return True


@njit(**INNER)
def _split_leaf(
    task: NDArray[Any], children: NDArray[Any], rules: NDArray[Any], tree: Growing
) -> None:
    """Replace the leaf at hand by its children, whose best splits are known."""
    leaves, splits, free, _, tallies = tree
    tally, here = tallies[0], task[0]
    number, right, at = tally.leaf, tally.leaves, tally.splits
    leaf, new, split = leaves[number], leaves[right], splits[at]
    split.feature, split.cut, split.way, split.gain = leaf.feature, leaf.cut, leaf.way, leaf.gain
    split.pull, split.weight = leaf.pull, leaf.weight
    split.left_pull, split.left_weight = leaf.left_pull, leaf.left_weight
    split.left, split.right = -1 - number, -1 - right
    if at > 0:  # the split above leads here
        if leaf.side == 0:
            splits[leaf.split].left = at
        else:
            splits[leaf.split].right = at
    leaf.low, leaf.high, new.low, new.high = here.low, here.middle, here.middle, here.high
    leaf.source, new.source = 1 - here.source, 1 - here.source
    leaf.depth += 1
    new.depth, leaf.split, new.split, leaf.side, new.side = leaf.depth, at, at, 0, 1
    fmin, fmax = free[tally.free], leaf.histogram
    # Where the smaller child is summed up is where its rows begin.
    left = here.middle - here.low <= here.high - here.middle
    for k in range(2):
        child, leaf = children[k], leaves[number if left == (k == 0) else right]
        leaf.pull, leaf.weight, leaf.feature = child.pull, child.weight, -1
        leaf.histogram = fmin if k == 0 else fmax
        if child.feature >= 0 and child.gain > rules[0].min_gain:
            leaf.gain, leaf.feature, leaf.cut = child.gain, child.feature, child.cut
            leaf.way, leaf.left_pull, leaf.left_weight = (
                child.way, child.left_pull, child.left_weight
            )  # fmt: skip
        else:  # its histogram is free
            free[tally.free] = leaf.histogram
            tally.free += 1
    tally.leaves += 1
    tally.splits += 1


# Every level of calls is compiled again with all below it: so what it calls calls little.
@njit(cache=True, nogil=True, error_model="numpy")
def _work(  # noqa: C901, PLR0912
    role: int, tiles: int, post: Integers, task: NDArray[Any], children: NDArray[Any],
    rules: NDArray[Any], column: Bytes, side: Flags, lists: Lists, read: Reading,
    blocks: Integers | None, pool: Integers, layout: tuple[Integers, Integers], allowed: Flags,
    kinds: Kinds | None, found: NDArray[Any], filled: Integers, integers: Integers, tree: Growing,
) -> None:  # fmt: skip
    """Divide a node (role 0), help until it is time to leave (1), or grow a tree (2)."""
    here, (codes, words, pull, weight_count), count_bits = task[0], read, rules[0].count_bits
    idle, tasks, helping = np.int64(0), np.int64(0), role == 1
    while role != 2 or _set_task(task, children, rules, side, tree):
        if not helping:
            _begin_search(tiles, children, rules, kinds, found)
        while True:
            if not helping:
                tasks = _next_phase(tiles, task, children, filled, post)
                if here.phase == 4:
                    break
            while not (load(post, 16) != 0 if helping else load(post, 8) == tasks):
                number, of = _take_task(post, idle)
                if number < 0:
                    idle += 1
                    continue
                rows, packed, out, packed_out = lists
                if here.source == 1:  # where rows are moved from
                    rows, packed, out, packed_out = out, packed_out, rows, packed
                phase = post[24]
                if phase < 1:
                    size, left = here.high - here.low, np.int64(0)
                    for before in range(number):
                        left += filled[before]
                    low, high = size * number // of, size * (number + 1) // of
                    # Counts (phase -1), then the same numbers again, which others may be reading.
                    filled[number] = _move_rows(
                        here.low + low, here.low + high, here.low + left, here.middle + low - left,
                        phase < 0, column, here.offset, here.step, side, rows, packed, out,
                        packed_out)  # fmt: skip
                elif blocks is not None and phase == 1:
                    _fill_block(number, of, task, out, packed_out, words, blocks, filled)
                else:  # feature by feature: its bins are near the processor then
                    begin, end = _features_of(number, of, layout[1].size)
                    done = phase == 2 or children[1].histogram < 0  # with the larger child
                    if here.form == 0 or here.form == 1:  # noqa: PLR1714  (a tuple would be built)
                        done |= _sum_unpacked(begin, end, task, children, count_bits, out,
                                              packed_out, codes, pull, weight_count, pool,
                                              layout)  # fmt: skip
                    for j in range(begin, end):
                        _complete(j, done, task, children, blocks, layout, count_bits, pool)
                        for k in range(2 if phase == 3 else 0):
                            child, best, room = children[k], found[number, k], integers[number]
                            if _may_exceed(j, child, best, pool, layout, allowed, kinds, rules,
                                           room):  # fmt: skip
                                _best_cut(j, child, pool, layout, kinds, rules, room, best)
                idle = np.int64(0)  # (the type of a plain 0 takes more rounds to find)
                add(post, 8, 1)
            if helping:
                return
        _best_of_tiles(tiles, children, found)
        if role != 2:
            return
        _split_leaf(task, children, rules, tree)
