"""Splitting the nodes of trees: partition rows, sum histograms, search them for the best split.

`RowHistograms` holds the codes in row-major order and the layout of histograms, `run_phases` is the
kernel that splits nodes, and `best_split` calls it to search a given histogram.
`precede.engine.tree_rows` calls it for the nodes of a tree.

How a node is split
-------------------
The rows of a node are a range of one of two row lists. They are partitioned into the other list,
in their order, so that both children are ranges again. Only the smaller child is summed, in
O(rows * features). The histogram of the larger child is that of the node minus that of the smaller
child, in O(bins), and exact since all sums are integers::

    source list    ... | a  b  c  d  e  f  g  h | ...
    goes_left            .  .  1  .  1  1  .  .           (by the code of the split's feature)
    other list     ... | c  e  f | a  b  d  g  h | ...
                      low      middle           high

    histograms     smaller child        = sum over rows c, e, f
                   larger child         = node - smaller child    (overwrites that of the node)
    search         best split of either child, from its histogram

The kernel does this in phases, which threads share (see `precede.engine.execution`)::

    NOT_STARTED -> COUNT -> PARTITION -> FILL -> SEARCH -> FINISHED

    phase      one task is       work
    COUNT      a chunk of rows   count the rows that go left (only large nodes on several threads)
    PARTITION  a chunk of rows   copy rows to the ranges of the two children
    FILL       a chunk of rows   add rows of the smaller child to the chunk's block of packed sums;
               in a group of     before these can overflow, flush them to the chunk's wide sums
               features
    SEARCH     a tile of         add up the sums of all chunks (or sum rows without blocks),
               features          subtract them from the node, search both children

No step takes longer with more threads: small nodes are shared by features, so that no sums need to
be added up, large ones by rows as well, so that no row is read by all threads.
All threads stay in the kernel from the first split of a tree to the last.

Gain of a split
---------------
A leaf with total pull P and total weight W (in units of the mean weight of a row) has the value

    v = S(P, alpha) / (W + lambda),   S(P, a) = sign(P) max(|P| - a, 0),

clipped to the bounds that monotone constraints impose, and the leaf score ``2 (P v - alpha |v|) -
(W + lambda) v²``, twice the decrease of the quadratic model of the risk (``P² / (W + lambda)`` for
alpha = 0 and no bounds). The gain of a split is the sum of the children's leaf scores minus that of
the node.

Candidates are compared in a fixed order: by feature, by threshold, missing values on the left
before missing values on the right. A later candidate wins only with a larger gain. Gains are
functions of integer sums, so they have the same bits on any number of threads and machines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from precede.engine.arrays import (
    Bytes,
    Flags,
    Floats,
    Integer,
    Integers,
    Record,
    Records,
    Rows,
    Signs,
)
from precede.engine.compiling import INNER, njit
from precede.engine.execution import Context, threads_for
from precede.engine.histograms import GROUP_SIZE
from precede.engine.portable import fmax, fmin
from precede.engine.quantization import QuantizedRows
from precede.engine.team import (
    JOB,
    STOP,
    TASKS_DONE,
    add,
    add_two,
    claim_task,
    load,
    new_control_block,
    publish,
    store,
)

if TYPE_CHECKING:
    from precede.engine.table import Table


# Gains below this share of the children's leaf scores are rounding errors.
ROUNDING = 2.0**-36
# Words from one feature to the next in a block of packed sums. With 256, the same bin of all
# features would map to the same few cache lines, and most rows of a feature may share a bin:
# filling took 2.5 times as long.
STRIDE = 264
# Fewer rows are summed without blocks: adding up all bins afterwards would take longer.
MIN_BLOCK_ROWS = 200
# c chunks of n rows take time n / c + c ROWS_PER_MERGE / threads: a block is filled by one thread,
# and adding up the bins of all blocks, which other threads have written, as much work as filling
# this many rows, is shared.
ROWS_PER_MERGE = 16384
# Words of four codes whose bins in a block are filled together, so that they stay in the cache of
# first level, for this many rows, which stay in that of the second.
TILE_WORDS, BATCH_ROWS = 6, 256
# Rows whose codes are transposed at a time, so that they stay in the cache.
TRANSPOSED_ROWS = 512
# Nodes with fewer rows are partitioned by one thread.
MIN_SHARED_ROWS = 8192
# Phases of a split, see above.
NOT_STARTED, COUNT, PARTITION, FILL, SEARCH, FINISHED = range(-2, 4)
# How the rows of the smaller child are summed: not at all; from two words per row; from packed
# words without blocks; from packed words in blocks, for rows close together or far apart in memory.
SUM_NONE, SUM_WIDE, SUM_UNPACKED, SUM_DENSE, SUM_SCATTERED = range(-1, 4)
# What the kernel does.
SPLIT_NODE, GROW_TREE = range(2)

# The split of a node. Rows low..high of the list `source` are partitioned at `middle` of the other
# list; their codes are ``column[offset + step * row]``. Rows sum_low..sum_high of the other list
# are then summed as `sum_mode` says; if in blocks, in `n_chunks` chunks and `n_groups` of features.
SPLIT_JOB = np.dtype([
    (name, "i8") for name in (
        "source", "low", "middle", "high", "offset", "step", "sum_mode", "sum_low", "sum_high",
        "n_chunks", "n_groups", "phase",
    )
])  # fmt: skip
# A child (the smaller one first). Input: the slot of its histogram in the pool (-1 for none),
# whether to search it, the two words of its sums and the bounds of its value. Output: its own leaf
# score, its best split (feature -1 if there is none) and its sums as floats.
CHILD = np.dtype([
    (name, "i8") for name in ("histogram", "search", "pull", "weight")
] + [(name, "f8") for name in ("lower", "upper", "leaf_score", "gain")] + [
    (name, "i8") for name in ("feature", "cut", "missing_above", "left_pull", "left_weight")
] + [(name, "f8") for name in ("total_pull", "total_weight", "total_count")])  # fmt: skip
# The best split of a child in one tile of features, with the sum of the two new leaf scores.
CANDIDATE = np.dtype([("score", "f8")] + [
    (name, "i8") for name in ("feature", "cut", "missing_above", "left_pull", "left_weight")
])  # fmt: skip
# Output fields of a `CHILD` before the search.
NOT_SEARCHED = 0.0, 0.0, -1, -1, 0, 0, 0, 0.0, 0.0, 0.0
# `precede.engine.tree_rows.Rules`, a struct of `kernels.cu` too. `plain` is 1 if `reg_alpha` is 0
# and no feature has a monotone constraint: leaf scores are then ``P² / (W + lambda)``.
RULES = np.dtype([
    ("pull_unit", "f8"), ("weight_unit", "f8"), ("count_bits", "i8"), ("reg_lambda", "f8"),
    ("reg_alpha", "f8"), ("cat_smooth", "f8"), ("min_count", "i8"), ("min_weight", "f8"),
    ("min_gain", "f8"), ("plain", "i8"),
], align=True)  # fmt: skip
# A leaf: its range of rows low..high in the list `source`, its sums, its best split (feature -1 if
# there is none), the slot of its histogram, and the split it is a child of.
LEAF = np.dtype([
    (name, "i8") for name in (
        "source", "low", "high", "pull", "weight", "depth", "histogram", "parent", "is_right",
        "feature", "cut", "missing_above", "left_pull", "left_weight",
    )
] + [("gain", "f8")], align=True)  # fmt: skip
# A split: the best split of the leaf it replaced, and its children numbered as in
# `precede.weak_rankers.trees.Tree`. Codes up to `cut` go left; missing values go right, with the
# codes above the cut, if `missing_above` is 1.
SPLIT = np.dtype([
    (name, "i8") for name in (
        "feature", "cut", "missing_above", "pull", "weight", "left_pull", "left_weight", "left",
        "right",
    )
] + [("gain", "f8")], align=True)  # fmt: skip
# The state of a growing tree: numbers of leaves, splits and free slots, limits, the leaf being
# split, `MIN_BLOCK_ROWS`, the number of rows of the table and whether their sums are packed.
TREE = np.dtype([
    (name, "i8") for name in (
        "n_leaves", "n_splits", "n_free", "max_leaves", "max_depth", "leaf", "min_block_rows",
        "n_rows", "packed",
    )
])  # fmt: skip

# Gain, feature, cut, missing_above, and the two words of the sums on the left; feature -1 for none.
SplitFound = tuple[float, int, int, int, int, int]
# Row numbers and packed words (None if rows are wide) of the two lists.
RowLists = tuple[Rows, Integers | None, Rows, Integers | None]
# Codes by row, the same codes as words of four, and pull and weight_count (None if packed).
RowData = tuple[Bytes, NDArray[np.uint32], Integers | None, Integers | None]
# First bin and number of bins of each feature.
Layout = tuple[Integers, Integers]
# Monotone directions of the features, and whether they are categorical.
FeatureTypes = tuple[Signs, Flags]
# Leaves, splits, free slots, offset of each feature's column, and one `TREE`.
TreeArrays = tuple[Records, Records, Integers, Integers, Records]
NO_TREE: TreeArrays = (
    np.zeros(0, LEAF), np.zeros(0, SPLIT), np.zeros(0, np.int64), np.zeros(0, np.int64),
    np.zeros(1, TREE),
)  # fmt: skip
# Empty arguments of the kernel, where no rows are partitioned or summed.
NO_ROWS, NO_BYTES, NO_FLAGS = np.empty(0, np.int32), np.empty(0, np.uint8), np.empty(0, np.bool_)
NO_INTEGERS, NO_SIGNS = np.empty(0, np.int64), np.empty(0, np.int8)
NO_CODES, NO_WORDS = np.empty((0, 0), np.uint8), np.empty((0, 0), np.uint32)
NO_BLOCKS = np.empty((0, 0), np.int64)


def first_bins(n_bins: Integers) -> Integers:
    """Return the first bin of each feature in a histogram, and the total number of bins.

    >>> first_bins(np.array([3, 4]))
    array([ 0,  4, 16])
    """
    # An odd number of cache lines (of four bins) each, for the reason given at STRIDE.
    sizes = GROUP_SIZE * (-(-(n_bins + 1) // GROUP_SIZE) | 1)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


class RowHistograms:
    """Histograms of pull, weight and count over the bins of all features, for sets of rows.

    The codes are copied in row-major order, since the rows of a small node are far apart. They are
    read four at a time.

    Parameters
    ----------
    table : Table whose codes are read
    features : numbers of the features to use
    context : threads that share the work

    Attributes
    ----------
    start : first bin of each feature in a histogram; bin ``start[j] + n_bins[j]`` counts missing
        values, and bins from there to ``start[j + 1]`` stay empty
    n_bins : number of bins of each feature
    size : number of bins of all features
    codes : uint8 array (rows, features), padded to a multiple of four features

    Examples
    --------
    >>> from precede.engine.table import Table
    >>> table = Table.build(np.array([[1.0, 5.0], [3.0, np.nan], [3.0, 6.0]]))
    >>> histograms = RowHistograms(table, np.array([0, 1]), Context(1))
    >>> histograms.codes[:, :2]
    array([[  0,   0],
           [  1, 255],
           [  1,   1]], dtype=uint8)
    >>> histograms.start, histograms.n_bins
    (array([0, 4, 8]), array([2, 2]))
    """

    def __init__(self, table: Table, features: Integers, context: Context):
        self._context = context
        self.n_rows = table.n_used_rows
        self.n_bins = table.bins.n_bins[features]
        self.start = first_bins(self.n_bins)
        self.size = int(self.start[-1])
        words = max(1, -(-features.size // GROUP_SIZE))
        self.codes = np.zeros((self.n_rows, GROUP_SIZE * words), np.uint8)
        # From disk a few columns are read at a time.
        width = GROUP_SIZE * context.jobs if table.streamed else max(1, features.size)
        for first in range(0, features.size, width):
            chunk = features[first : first + width]
            context.map(
                _transpose, self.n_rows, table.codes, chunk, self.codes[:, first:],
                threads=threads_for("cells", self.codes.size),
            )  # fmt: skip
            table.release(chunk)
        self.words = self.codes.view(np.uint32)

    def total(
        self, quantized: QuantizedRows, rows: Rows, packed: Integers | None, count: int
    ) -> tuple[int, int]:
        """Return the two words of the sums of the first `count` rows of a list."""
        if packed is not None:
            sums, threads = np.zeros(2, np.int64), threads_for("rows", count)
            given = packed, quantized.count_bits, sums
            self._context.run(_sum_packed, count, *given, threads=threads)
            return int(sums[0]), int(sums[1])
        assert quantized.pull is not None
        assert quantized.weight_count is not None
        # A list holds every row at most once.
        index = slice(None) if count == self.n_rows else rows[:count]
        return int(quantized.pull[index].sum()), int(quantized.weight_count[index].sum())

    @property
    def layout(self) -> Layout:
        """First bin and number of bins of each feature."""
        return self.start, self.n_bins

    def sum_mode(self, quantized: QuantizedRows, count: int) -> int:
        """Return the fastest way to sum `count` rows, one of `SUM_WIDE` to `SUM_SCATTERED`."""
        if quantized.packed is None:
            return SUM_WIDE
        if count < MIN_BLOCK_ROWS:
            return SUM_UNPACKED
        return SUM_DENSE if 2 * count > self.n_rows else SUM_SCATTERED

    def row_data(self, quantized: QuantizedRows) -> RowData:
        """Return the arrays that the kernel reads to sum rows."""
        return self.codes, self.words, quantized.pull, quantized.weight_count

    def new_chunks(
        self, quantized: QuantizedRows, count: int
    ) -> tuple[Integers | None, Integers | None]:
        """Allocate the packed sums of chunks of rows, which are 0 between calls, and wide sums.

        If rows are wide, both are None.
        """
        if quantized.packed is None:
            return None, None
        blocks = np.zeros((count, STRIDE * self.codes.shape[1]), np.int64)
        return blocks, np.empty((count, 2 * self.size), np.int64)


def best_split(
    histogram: Integers,
    layout: Layout,
    features: tuple[Flags, Signs, Flags],
    sums: tuple[int, int],
    bounds: tuple[float, float],
    rules: Records,
) -> SplitFound:
    """Return the best split of a node with this histogram, these sums and bounds of its value.

    `features` holds which features are allowed, their monotone directions and whether they are
    categorical. O(bins).
    """
    jobs, children = np.zeros(1, SPLIT_JOB), np.zeros(2, CHILD)
    jobs["sum_mode"], jobs["phase"] = SUM_NONE, NOT_STARTED
    children[0] = 0, 1, *sums, *bounds, *NOT_SEARCHED
    children[1]["histogram"] = -1
    lists = NO_ROWS, NO_INTEGERS, NO_ROWS, NO_INTEGERS
    row_data = NO_CODES, NO_WORDS, None, None
    feature_types = feature_types_or_none(rules, features[1], features[2])
    arguments = jobs, children, rules, NO_BYTES, NO_FLAGS, lists, row_data, NO_BLOCKS, NO_BLOCKS
    rest = histogram.reshape(1, -1), layout, features[0], feature_types, *workspace(1, 1), NO_TREE
    run_phases(0, 1, SPLIT_NODE, 1, new_control_block(), *arguments, *rest)
    return found_split(children, 0)


def penalized_values(pulls: Floats, curvatures: Floats, alpha: float, bounds: Floats) -> Floats:
    """Return the values of several leaves, see `penalized_value`."""
    sizes = np.abs(pulls) - alpha
    sizes = np.where(sizes > 0.0, sizes, 0.0)
    sizes, values = np.where(pulls > 0, sizes, -sizes), np.zeros(pulls.size)
    np.divide(sizes, curvatures, out=values, where=curvatures > 0)
    lower, upper = bounds.T
    values = np.where(lower > values, lower, values)
    return np.where(upper < values, upper, values)


def _transpose(low: int, high: int, codes: Bytes, features: Integers, out: Bytes) -> None:
    """Copy columns to rows low..high."""
    for first in range(low, high, TRANSPOSED_ROWS):
        last = min(first + TRANSPOSED_ROWS, high)
        out[first:last, : features.size] = codes[features, first:last].T


def feature_types_or_none(
    rules: Records, directions: Signs, categorical: Flags
) -> FeatureTypes | None:
    """Return directions and categorical flags; None if the plain formula suffices."""
    return None if rules["plain"][0] and not categorical.any() else (directions, categorical)


def workspace(tiles: int, chunks: int) -> tuple[Records, Integers, Integers]:
    """Allocate the working memory of the kernel.

    Returns the best split of each tile and child; for each chunk the number of rows that go left,
    then the number of flushes; and a buffer for the search of a feature in each tile.
    """
    candidates, progress = np.zeros((tiles, 2), CANDIDATE), np.zeros(chunks, np.int64)
    return candidates, progress, np.empty((tiles, 512), np.int64)


def found_split(children: Records, child: int) -> SplitFound:
    """Return the best split of a child."""
    gain, *split = children[child].item()[7:13]
    return gain, *split


assert (GROUP_SIZE, STRIDE) == (4, 264), "the kernels below write these out"


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def count_left(
    low: int, high: int, column: Bytes, offset: int, step: int, goes_left: Flags, rows: Rows
) -> int:
    """Return the number of rows low..high of a list that go left."""
    return _partition_chunk(low, high, low, low, True, column, offset, step, goes_left, rows, None,
                            rows, None)  # fmt: skip


@njit(cache=True, nogil=True)
def _sum_packed(low: int, high: int, packed: Integers, count_bits: int, sums: Integers) -> None:
    """Add the rows low..high of a list to two words as in histograms, which threads share."""
    pull, weight_count = np.int64(0), np.int64(0)
    for i in range(low, high):
        pull += packed[i] >> 38
        rest = packed[i] & 0x3FFFFFFFFF
        weight_count += ((rest >> 12) << count_bits) + (rest & 4095)
    add(sums, 0, pull)
    add(sums, 1, weight_count)


@njit(cache=True, nogil=True)
def partition_rows(
    low: int, high: int, to_left: int, to_right: int, column: Bytes, offset: int, step: int,
    goes_left: Flags, rows: Rows, packed: Integers | None, out: Rows, packed_out: Integers | None,
) -> None:  # fmt: skip
    """Copy rows low..high and their packed words: left ones from `to_left`, others `to_right`."""
    _partition_chunk(low, high, to_left, to_right, False, column, offset, step, goes_left, rows,
                     packed, out, packed_out)  # fmt: skip


@njit(**INNER)
def _partition_chunk(
    low: int, high: int, to_left: int, to_right: int, count_only: bool, column: Bytes, offset: int,
    step: int, goes_left: Flags, rows: Rows, packed: Integers | None, out: Rows,
    packed_out: Integers | None,
) -> int:  # fmt: skip
    """Partition rows low..high (unless `count_only`); return how many go left."""
    at, by, count = np.uint64(offset), np.uint64(step), np.int64(0)
    if count_only:
        for i in range(np.uint64(low), np.uint64(high)):
            count += 1 if goes_left[column[at + by * np.uint64(rows[i])]] else 0
        return count
    next_left, next_right = np.uint64(to_left), np.uint64(to_right)
    for i in range(np.uint64(low), np.uint64(high)):
        row = rows[i]
        left = np.uint64(goes_left[column[at + by * np.uint64(row)]])
        to = next_right + (next_left - next_right) * left  # a branch would be unpredictable
        out[to] = row
        if packed is not None:
            packed_out[to] = packed[i]  # type: ignore[index]
        next_left += left
        next_right += np.uint64(1) - left
    return np.int64(next_left - np.uint64(to_left))


@njit(**INNER)
def _add_to_block(
    words: NDArray[np.uint32], group: tuple[int, int], rows: Rows, first: int, last: int,
    packed: Integers, block: Integers,
) -> None:  # fmt: skip
    """Add the packed words of some rows to the bins of a group of features, tile by tile."""
    # (An unsigned index cannot count from the end, and needs no check.)
    for begin in range(group[0], group[1], TILE_WORDS):
        end = fmin(begin + TILE_WORDS, group[1])
        for i in range(np.uint64(first), np.uint64(last)):
            row, number = np.uint64(rows[i]), packed[i]
            for word in range(np.uint64(begin), np.uint64(end)):
                codes, at = np.uint64(words[row, word]), np.uint64(1056) * word
                block[at + (codes & np.uint64(255))] += number
                block[at + np.uint64(264) + ((codes >> np.uint64(8)) & np.uint64(255))] += number
                block[at + np.uint64(528) + ((codes >> np.uint64(16)) & np.uint64(255))] += number
                block[at + np.uint64(792) + (codes >> np.uint64(24))] += number


@njit(**INNER)
def _add_batches(
    words: NDArray[np.uint32], group: tuple[int, int], rows: Rows, first: int, last: int,
    packed: Integers, copy: bool, block: Integers,
) -> None:  # fmt: skip
    """Add rows in batches, which stay in the cache from one tile of features to the next.

    If the rows are far apart in memory, `copy` them first: a loop that does nothing else lets the
    processor fetch several rows at once.
    """
    copied, positions = words[:0], rows[:0]
    if copy:
        copied = np.empty((BATCH_ROWS, words.shape[1]), np.uint32)
        positions = np.arange(BATCH_ROWS).astype(np.int32)
    zero = first - first  # (a constant has another type, for which all would be compiled again)
    for at in range(first, last, BATCH_ROWS):
        end = fmin(at + BATCH_ROWS, last)
        if not copy:
            _add_to_block(words, group, rows, at, end, packed, block)
            continue
        for i in range(end - at):
            row = np.uint64(rows[at + i])
            for word in range(np.uint64(group[0]), np.uint64(group[1])):
                copied[i, word] = words[row, word]
        _add_to_block(copied, group, positions, zero, end - at, packed[at:end], block)


@njit(**INNER)
def _end_of_block(packed: Integers, first: int, high: int) -> int:
    """Return the end of the longest run of rows from `first` whose packed sums cannot overflow."""
    block = packed[first : first + 4095 if first + 4095 < high else high]
    pull, weight, end = np.int64(0), np.int64(0), block.size
    for i in range(end):
        pull += abs(block[i] >> 38)
        weight += (block[i] >> 12) & 0x3FFFFFF
    while pull >= 1 << 25 or weight >= 1 << 26:  # rarely
        end -= 1
        pull -= abs(block[end] >> 38)
        weight -= (block[end] >> 12) & 0x3FFFFFF
    return first + end


@njit(**INNER)
def _flush_block(j: int, block: Integers, layout: Layout, count_bits: int, sums: Integers) -> None:
    """Add the packed sums of feature j in a block to wide sums, and clear them."""
    size, first = layout[1][j], 2 * layout[0][j]
    packed, bins = block[264 * j : 264 * j + 256], sums[first : first + 2 * size + 2]
    packed[size] = packed[255]  # missing values
    for code in range(size + 1):  # a test for empty bins would be unpredictable
        number = packed[code]
        rest = number & 0x3FFFFFFFFF
        bins[2 * code] += number >> 38
        bins[2 * code + 1] += ((rest >> 12) << count_bits) + (rest & 4095)
    for code in range(256):
        packed[code] = 0


@njit(**INNER)
def _fill_chunk(
    task: int, jobs: Records, rows: Rows, packed: Integers, words: NDArray[np.uint32],
    layout: Layout, count_bits: int, blocks: Integers, chunk_sums: Integers, flushes: Integers,
) -> None:  # fmt: skip
    """Add the rows of a chunk to its block, in a group of features.

    The last rows stay in the block. Writes how often it was flushed to the wide sums to `flushes`;
    that is the same for all groups.
    """
    job, n_flushes, (start, n_bins) = jobs[0], np.int64(0), layout
    number, chunk = task // job.n_chunks, task % job.n_chunks
    block, sums, width = blocks[chunk], chunk_sums[chunk], words.shape[1]
    group = width * number // job.n_groups, width * (number + 1) // job.n_groups
    begin, stop = 4 * group[0], fmin(4 * group[1], n_bins.size)
    count = job.sum_high - job.sum_low
    first = job.sum_low + count * chunk // job.n_chunks
    high = job.sum_low + count * (chunk + 1) // job.n_chunks
    while True:
        end = _end_of_block(packed, first, high)
        scattered = job.sum_mode == SUM_SCATTERED
        _add_batches(words, group, rows, first, end, packed, scattered, block)
        if end == high:
            break
        if n_flushes == 0:
            for i in range(2 * start[begin], 2 * start[stop]):
                sums[i] = 0
        for j in range(begin, stop):
            _flush_block(j, block, layout, count_bits, sums)
        first, n_flushes = end, n_flushes + 1
    flushes[chunk] = n_flushes


@njit(**INNER)
def _merge_chunks(
    j: int, keep_node: bool, jobs: Records, children: Records, blocks: Integers | None,
    chunk_sums: Integers | None, n_flushes: Integers, layout: Layout,
    count_bits: int, pool: Integers,
) -> None:  # fmt: skip
    """Add up the sums of feature j in all chunks to the smaller child's histogram.

    Unless `keep_node`, that is then subtracted from the node, whose histogram becomes the larger
    child's.
    """
    first, end, sums = 2 * layout[0][j], 2 * layout[0][j + 1], pool[children[0].histogram]
    if blocks is not None and jobs[0].sum_mode >= SUM_DENSE:
        for i in range(np.uint64(first), np.uint64(end)):
            sums[i] = 0
        for chunk in range(jobs[0].n_chunks):
            if n_flushes[chunk] > 0:
                wide = chunk_sums[chunk]  # type: ignore[index]
                for i in range(np.uint64(first), np.uint64(end)):
                    sums[i] += wide[i]
            _flush_block(j, blocks[chunk], layout, count_bits, sums)
    if not keep_node:
        larger = pool[children[1].histogram]
        for i in range(np.uint64(first), np.uint64(end)):
            larger[i] -= sums[i]


@njit(cache=True, nogil=True, error_model="numpy")
def penalized_value(
    pull: float, curvature: float, alpha: float, lower: float, upper: float
) -> float:
    """Return the value of a leaf (see the module docstring); `curvature` is W + lambda."""
    return _penalized_value(pull, curvature, alpha, lower, upper)


@njit(**INNER, error_model="numpy")
def _penalized_value(
    pull: float, curvature: float, alpha: float, lower: float, upper: float
) -> float:
    size = fmax(abs(pull) - alpha, 0.0)
    value = (size if pull > 0 else -size) / curvature if curvature > 0 else 0.0
    return fmin(fmax(value, lower), upper)


@njit(**INNER, error_model="numpy")
def _leaf_score(pull: float, curvature: float, alpha: float, value: float) -> float:
    return 2.0 * (pull * value - alpha * abs(value)) - curvature * value * value


@njit(**INNER, error_model="numpy")
def _children_score(
    left: float, left_weight: float, right: float, right_weight: float, alpha: float, child: Record,
    sign: int,
) -> float:  # fmt: skip
    """Return the sum of two leaf scores; -inf if the values violate a monotone constraint."""
    one = _penalized_value(left, left_weight, alpha, child.lower, child.upper)
    other = _penalized_value(right, right_weight, alpha, child.lower, child.upper)
    if (sign > 0 and one > other) or (sign < 0 and one < other):
        return -np.inf
    return (
        _leaf_score(left, left_weight, alpha, one) + _leaf_score(right, right_weight, alpha, other)
    )  # fmt: skip


@njit(**INNER)
def _unpack_sums(
    pull: Integer, weight_count: Integer, rules: Records
) -> tuple[float, float, float]:
    """Return pull, weight and count from the two words of a sum."""
    rule = rules[0]
    count = weight_count & ((np.int64(1) << rule.count_bits) - 1)
    return (
        np.float64(pull) * rule.pull_unit,
        np.float64(weight_count >> rule.count_bits) * rule.weight_unit, np.float64(count),
    )  # fmt: skip


@njit(**INNER, error_model="numpy")
def _sort_categories(bins: Integers, rules: Records, order: Integers) -> int:
    """Sort the categories that occur by increasing smoothed mean pull; return their number."""
    key = np.empty(bins.size // 2)
    count = 0
    for code in range(key.size):
        if bins[2 * code + 1] != 0:
            sums = _unpack_sums(bins[2 * code], bins[2 * code + 1], rules)
            weight = sums[1] + rules[0].cat_smooth
            mean = sums[0] / weight if weight > 0 else 0.0
            i = count
            while i > 0 and key[i - 1] > mean:
                key[i], order[i] = key[i - 1], order[i - 1]
                i -= 1
            key[i], order[i] = mean, code
            count += 1
    return count


@njit(**INNER, error_model="numpy")
def _sorted_bins(bins: Integers, rules: Records, order: Integers) -> Integers:
    """Return the bins of the categories that occur, sorted by `_sort_categories`."""
    count = _sort_categories(bins, rules, order)
    sorted_bins = np.empty(2 * count, np.int64)
    for i in range(count):
        sorted_bins[2 * i], sorted_bins[2 * i + 1] = bins[2 * order[i]], bins[2 * order[i] + 1]
    return sorted_bins


@njit(cache=True, nogil=True, error_model="numpy")
def left_categories(bins: Integers, cut: int, missing_above: int, rules: Records) -> Flags:
    """Return which codes go left; missing values always go right.

    The first ``cut + 1`` categories go left if `missing_above` is 1, the others if it is 0.
    """
    order = np.empty(256, np.int64)
    count = _sort_categories(bins, rules, order)
    left = np.zeros(256, np.bool_)
    for i in range(count):
        left[order[i]] = (i <= cut) == (missing_above == 1)
    return left


# `feature_types` is None if no feature has a monotone constraint or categories: numba then prunes
# all branches under ``is not None`` and compiles half as much. Likewise for packed words.


@njit(**INNER, error_model="numpy")
def _init_search(
    tiles: int, children: Records, rules: Records, feature_types: FeatureTypes | None,
    candidates: Records,
) -> None:  # fmt: skip
    """Set the sums of both children and their leaf scores, which a split must exceed."""
    rule = rules[0]
    for number in range(2):
        child = children[number]
        pull, weight, count = _unpack_sums(child.pull, child.weight, rules)
        child.total_pull, child.total_weight, child.total_count = pull, weight, count
        child.leaf_score = pull * pull / (weight + rule.reg_lambda)
        if feature_types is not None and rule.plain == 0:
            weight += rule.reg_lambda
            value = _penalized_value(pull, weight, rule.reg_alpha, child.lower, child.upper)
            child.leaf_score = _leaf_score(pull, weight, rule.reg_alpha, value)
        for tile in range(tiles):
            candidates[tile, number].feature, candidates[tile, number].score = -1, child.leaf_score


@njit(**INNER, error_model="numpy")
def _best_cut(  # noqa: C901, PLR0912
    j: int, child: Record, pool: Integers, layout: Layout,
    feature_types: FeatureTypes | None, rules: Records, order: Integers, candidate: Record,
) -> None:  # fmt: skip
    """Replace the candidate by the first best cut of feature j, if that has a larger score.

    Missing values are tried left, then right; if none occur, they would go to the side with more
    rows. Each side needs `min_count` rows, `min_weight`, and a positive denominator. Scores may be
    negative: bounds can keep a leaf's value far from its optimum.
    """
    rule, histogram, first, size = rules[0], pool[child.histogram], 2 * layout[0][j], layout[1][j]
    end, categorical, penalty = first + 2 * size, False, rule.reg_lambda
    bins, missing = histogram[first:end], _unpack_sums(histogram[end], histogram[end + 1], rules)
    if feature_types is not None:
        categorical = feature_types[1][j]
        if categorical:
            bins = _sorted_bins(bins, rules, order)
            size, penalty = bins.size // 2, penalty + rule.cat_smooth
    min_count = np.float64(rule.min_count)
    min_weight = fmax(rule.min_weight, 0.0 if penalty > 0.0 else 5e-324)
    pull, word, best = np.int64(0), np.int64(0), candidate.score
    for i in range(size):
        if bins[2 * i + 1] == 0:
            continue
        pull += bins[2 * i]
        word += bins[2 * i + 1]
        below = _unpack_sums(pull, word, rules)
        # The last cut leaves only missing values on the right, which have no direction.
        ordered = below[2] + missing[2] < child.total_count
        for missing_above in range(0 if missing[2] > 0 else 1, 2):
            left, weight, count = below
            if missing_above == 0:
                left, weight, count = left + missing[0], weight + missing[1], count + missing[2]
            right, other = child.total_pull - left, child.total_weight - weight
            if count < min_count or child.total_count - count < min_count:
                continue
            if weight < min_weight or other < min_weight:
                continue
            weight, other = weight + penalty, other + penalty
            score = left * left / weight + right * right / other
            if feature_types is not None and rule.plain == 0:
                sign = feature_types[0][j] if ordered else 0
                score = _children_score(left, weight, right, other, rule.reg_alpha, child, sign)
            if score > best:
                best = score
                candidate.feature, candidate.cut = j, i if ordered else size - 1
                candidate.missing_above = missing_above
                candidate.left_pull, candidate.left_weight = pull, word
                if missing[2] == 0:
                    candidate.missing_above = 1 if 2.0 * below[2] < child.total_count else 0
    if best > candidate.score and candidate.missing_above == 0:
        candidate.left_pull += histogram[end]
        candidate.left_weight += histogram[end + 1]
        if categorical:  # categories up to the cut go right, with the missing values
            candidate.left_pull = child.pull - candidate.left_pull
            candidate.left_weight = child.weight - candidate.left_weight
    candidate.score = best


@njit(**INNER, error_model="numpy")
def _may_improve(
    j: int, child: Record, candidate: Record, pool: Integers, layout: Layout,
    allowed: Flags, feature_types: FeatureTypes | None, rules: Records, sums: Integers,
) -> bool:  # fmt: skip
    """Return False only if no cut of feature j has a larger score than the candidate.

    Few features improve on the best cut so far, so that most are ruled out by this cheap test: the
    plain formula multiplied by both denominators, with a margin for rounding. Without divisions and
    branches the compiler vectorizes it.
    """
    if child.search == 0 or not allowed[j]:
        return False
    if feature_types is not None and (rules[0].plain == 0 or feature_types[1][j]):
        return True
    rule, size, first = rules[0], layout[1][j], 2 * layout[0][j]
    bins, pull, word = pool[child.histogram][first : first + 2 * size + 2], np.int64(0), np.int64(0)
    for i in range(size):
        pull += bins[2 * i]
        word += bins[2 * i + 1]
        sums[i] = pull
        sums[256 + i] = word
    missing = _unpack_sums(bins[2 * size], bins[2 * size + 1], rules)
    pull_unit, weight_unit, count_bits = rule.pull_unit, rule.weight_unit, rule.count_bits
    mask, threshold = (np.int64(1) << count_bits) - 1, candidate.score * (1.0 - 2.0**-40)
    min_count, penalty, hits = rule.min_count, rule.reg_lambda, np.int64(0)
    total_pull, total_weight = child.total_pull, child.total_weight
    total_count = np.int64(child.total_count)
    extra_pull, extra_weight, extra_count = 0.0, 0.0, np.int64(0)
    for _ in range(1 if missing[2] == 0 else 2):  # missing values right, then left
        for i in range(size):
            left = np.float64(sums[i]) * pull_unit + extra_pull
            weight = np.float64(sums[256 + i] >> count_bits) * weight_unit + extra_weight
            right, one, other = total_pull - left, weight + penalty, total_weight - weight + penalty
            count = (sums[256 + i] & mask) + extra_count
            worse = left * left * other + right * right * one <= threshold * (one * other)
            few = (count < min_count) | (total_count - count < min_count)
            hits += np.int64(not (worse | few))
        extra_pull, extra_weight, extra_count = missing[0], missing[1], np.int64(missing[2])
    return hits > 0


@njit(**INNER)
def _sum_unpacked(
    begin: int, end: int, jobs: Records, children: Records, count_bits: int, rows: Rows,
    packed: Integers | None, codes: Bytes, pull: Integers | None, weight_count: Integers | None,
    pool: Integers, layout: Layout,
) -> bool:  # fmt: skip
    """Sum the smaller child over features begin..end without blocks.

    If there are fewer cells than bins, the rows are also subtracted from the larger child one by
    one, rather than bin by bin later. Returns whether they were.
    """
    job, (start, n_bins) = jobs[0], layout
    row_by_row = children[1].histogram >= 0 and (
        (job.sum_high - job.sum_low) * n_bins.size < start[start.size - 1]
    )
    for child in range(2 if row_by_row else 1):
        sums, sign = pool[children[child].histogram], 1 - 2 * child
        if child == 0:
            if row_by_row and children[0].search == 0:
                continue
            for i in range(2 * start[begin], 2 * start[end]):
                sums[i] = 0
        for i in range(job.sum_low, job.sum_high):
            row, one, other = rows[i], np.int64(0), np.int64(0)
            if packed is not None:
                number = packed[i]
                one = sign * (number >> 38)
                other = sign * ((((number & 0x3FFFFFFFFF) >> 12) << count_bits) + (number & 4095))
            if pull is not None:  # (numba would not prune an `else`)
                one, other = sign * pull[row], sign * weight_count[row]  # type: ignore[index]
            for j in range(np.uint64(begin), np.uint64(end)):
                # Missing is 255. (An unsigned index cannot count from the end, and needs no check.)
                code, last = np.int64(codes[row, j]), n_bins[j]
                at = np.uint64(2 * (start[j] + (code if code < last else last)))
                add_two(sums, at, one, other)
    return row_by_row


@njit(**INNER)
def _merge_tiles(tiles: int, children: Records, candidates: Records) -> None:
    """Set the best split of each child to the best of all tiles."""
    for number in range(2):
        child, best = children[number], -np.inf
        for tile in range(tiles if child.search == 1 else 0):
            found = candidates[tile, number]
            if found.feature >= 0 and found.score > best:
                best = found.score
                child.feature, child.cut, child.missing_above = (
                    found.feature, found.cut, found.missing_above
                )  # fmt: skip
                child.left_pull, child.left_weight = found.left_pull, found.left_weight
        child.gain = best - child.leaf_score
        if not child.gain > ROUNDING * abs(best):
            child.gain, child.feature = 0.0, -1


@njit(**INNER)
def _next_phase(
    tiles: int,
    words: NDArray[np.uint32],
    jobs: Records,
    children: Records,
    threads: int,
    control: Integers,
) -> int:
    """Publish the next phase in the control block; return its number of tasks.

    See the drawing at the top of the module.
    """
    job, tasks = jobs[0], np.int64(0)
    job.phase += 1
    rows = job.high - job.low
    if job.phase < FILL and threads > 1 and rows >= MIN_SHARED_ROWS:
        tasks = threads
    elif job.phase == PARTITION and rows > 0:
        tasks = 1
    elif job.phase == FILL and job.sum_mode >= SUM_DENSE:
        job.n_chunks, rows = 1, job.sum_high - job.sum_low
        while job.n_chunks < threads and (
            job.n_chunks * (job.n_chunks + 1) * ROWS_PER_MERGE < rows * threads
        ):
            job.n_chunks += 1
        job.n_groups = fmin(threads // job.n_chunks, words.shape[1])
        job.n_chunks = threads // job.n_groups
        tasks = job.n_chunks * job.n_groups
    elif job.phase == SEARCH and (
        children[0].search == 1 or children[1].search == 1 or job.sum_mode > SUM_NONE
    ):
        tasks = tiles
    if job.phase < FINISHED:
        control[JOB] = job.phase
        publish(control, tasks)
    return tasks


@njit(**INNER)
def _sum_first(count: int, numbers: Integers) -> np.int64:
    """Return the sum of the first `count` numbers."""
    total = np.int64(0)
    for k in range(count):
        total += numbers[k]
    return total


@njit(**INNER)
def _choose_leaf(
    jobs: Records, children: Records, rules: Records, goes_left: Flags,
    tree: TreeArrays,
) -> bool:  # fmt: skip
    """Describe the split of the leaf with the largest gain (the first of equals) in `jobs`.

    Returns False if no leaf is to be split.
    """
    leaves, _, free, offsets, states = tree
    state, job, smaller, larger = states[0], jobs[0], children[0], children[1]
    chosen, gain = np.int64(-1), 0.0
    for k in range(state.n_leaves if state.n_leaves < state.max_leaves else 0):
        if leaves[k].feature >= 0 and (chosen < 0 or leaves[k].gain > gain):
            chosen, gain = k, leaves[k].gain
    if chosen < 0:
        return False
    state.leaf, leaf = chosen, leaves[chosen]
    mask = (np.int64(1) << rules[0].count_bits) - 1
    left, right = leaf.left_weight & mask, (leaf.weight - leaf.left_weight) & mask
    for code in range(255):
        goes_left[code] = code <= leaf.cut
    goes_left[255] = leaf.missing_above == 0
    job.phase, job.source, job.low, job.high = NOT_STARTED, leaf.source, leaf.low, leaf.high
    job.middle, job.offset = leaf.low + left, offsets[leaf.feature]
    min_count = 2 * rules[0].min_count
    deeper = state.n_leaves + 1 < state.max_leaves and (
        state.max_depth <= 0 or leaf.depth + 1 < state.max_depth
    )
    if left <= right:
        job.sum_low, job.sum_high = job.low, job.middle
        smaller.pull, smaller.weight = leaf.left_pull, leaf.left_weight
        larger.pull, larger.weight = leaf.pull - leaf.left_pull, leaf.weight - leaf.left_weight
    else:
        job.sum_low, job.sum_high = job.middle, job.high
        larger.pull, larger.weight = leaf.left_pull, leaf.left_weight
        smaller.pull, smaller.weight = leaf.pull - leaf.left_pull, leaf.weight - leaf.left_weight
    fewer = smaller.weight & mask
    smaller.search = 1 if deeper and fewer >= min_count else 0
    larger.search = 1 if deeper and left + right - fewer >= min_count else 0
    job.sum_mode, smaller.histogram, larger.histogram = SUM_NONE, 0, -1
    state.n_free -= 1
    if smaller.search == 1 or larger.search == 1:
        job.sum_mode = SUM_WIDE
        if state.packed == 1:
            job.sum_mode = SUM_UNPACKED if fewer < state.min_block_rows else (
                SUM_DENSE if 2 * fewer > state.n_rows else SUM_SCATTERED
            )  # fmt: skip
        smaller.histogram, larger.histogram = free[state.n_free], leaf.histogram
    return True


@njit(**INNER)
def _replace_leaf(jobs: Records, children: Records, rules: Records, tree: TreeArrays) -> None:
    """Replace the leaf that was split by its children: the left one gets its number."""
    leaves, splits, free, _, states = tree
    state, job = states[0], jobs[0]
    number, right, at = state.leaf, state.n_leaves, state.n_splits
    leaf, new, split = leaves[number], leaves[right], splits[at]
    split.feature, split.cut, split.missing_above, split.gain = (
        leaf.feature, leaf.cut, leaf.missing_above, leaf.gain
    )  # fmt: skip
    split.pull, split.weight = leaf.pull, leaf.weight
    split.left_pull, split.left_weight = leaf.left_pull, leaf.left_weight
    split.left, split.right = -1 - number, -1 - right
    if at > 0:
        if leaf.is_right == 0:
            splits[leaf.parent].left = at
        else:
            splits[leaf.parent].right = at
    leaf.low, leaf.high, new.low, new.high = job.low, job.middle, job.middle, job.high
    leaf.source, new.source = 1 - job.source, 1 - job.source
    leaf.depth += 1
    new.depth, leaf.parent, new.parent, leaf.is_right, new.is_right = leaf.depth, at, at, 0, 1
    smaller, larger = free[state.n_free], leaf.histogram
    left_is_smaller = job.middle - job.low <= job.high - job.middle
    for k in range(2):
        child, leaf = children[k], leaves[number if left_is_smaller == (k == 0) else right]
        leaf.pull, leaf.weight, leaf.feature = child.pull, child.weight, -1
        leaf.histogram = smaller if k == 0 else larger
        if child.feature >= 0 and child.gain > rules[0].min_gain:
            leaf.gain, leaf.feature, leaf.cut = child.gain, child.feature, child.cut
            leaf.missing_above, leaf.left_pull, leaf.left_weight = (
                child.missing_above, child.left_pull, child.left_weight
            )  # fmt: skip
        else:  # it is not split: free its histogram
            free[state.n_free] = leaf.histogram
            state.n_free += 1
    state.n_leaves += 1
    state.n_splits += 1


# Keep the call tree shallow: numba recompiles inlined callees at every call level.
@njit(cache=True, nogil=True, error_model="numpy")
def run_phases(  # noqa: C901, PLR0912
    low: int, high: int, work: int, tiles: int, control: Integers, jobs: Records,  # noqa: ARG001
    children: Records, rules: Records, column: Bytes, goes_left: Flags, lists: RowLists,
    row_data: RowData, blocks: Integers | None, chunk_sums: Integers | None, pool: Integers,
    layout: Layout, allowed: Flags, feature_types: FeatureTypes | None, candidates: Records,
    progress: Integers, scratch: Integers, tree: TreeArrays,
) -> None:  # fmt: skip
    """Split a node or grow a tree, as `work` says.

    The thread with ``low == 0`` leads; others, from 1 to the number of threads, help until it has
    finished. Arrays of records: `SPLIT_JOB`, `CHILD` (2), `RULES`. `column` has the codes by
    column, `pool` the histograms. `blocks` and `chunk_sums` are the packed and wide sums of each
    chunk, None if rows are wide. `candidates`, `progress` and `scratch` are the result of
    `workspace`.
    """
    job, (codes, words, pull, weight_count), count_bits = jobs[0], row_data, rules[0].count_bits
    idle, finished, tasks, helping = np.int64(0), np.int64(0), np.int64(0), low > 0
    while helping or work == SPLIT_NODE or _choose_leaf(jobs, children, rules, goes_left, tree):
        if not helping:
            _init_search(tiles, children, rules, feature_types, candidates)
        while True:
            if not helping:
                tasks = _next_phase(tiles, words, jobs, children, progress.size, control)
                if job.phase == FINISHED:
                    break
            while not (load(control, STOP) != 0 if helping else load(control, TASKS_DONE) == tasks):
                number, of, finished = claim_task(control, low, finished, idle)
                if number < 0:
                    idle += 1
                    continue
                phase, (rows, packed, out, packed_out) = control[JOB], lists
                if job.source == 1:
                    rows, packed, out, packed_out = out, packed_out, rows, packed
                if phase < FILL:
                    size, left = job.high - job.low, _sum_first(number, progress)
                    first, last = job.low + size * number // of, job.low + size * (number + 1) // of
                    # PARTITION writes the counts of COUNT again: other threads may be reading them.
                    to_left, to_right = job.low + left, job.middle + first - job.low - left
                    progress[number] = _partition_chunk(
                        first, last, to_left, to_right, phase < PARTITION, column, job.offset,
                        job.step, goes_left, rows, packed, out, packed_out)  # fmt: skip
                elif blocks is not None and phase == FILL:
                    _fill_chunk(number, jobs, out, packed_out, words, layout, count_bits, blocks,
                                chunk_sums, progress)  # fmt: skip
                else:  # one feature at a time, so that its bins stay in the cache
                    begin, end = layout[1].size * number // of, layout[1].size * (number + 1) // of
                    keep_node = children[1].histogram < 0
                    if job.sum_mode == SUM_WIDE or job.sum_mode == SUM_UNPACKED:  # noqa: PLR1714  (a tuple would be built)
                        keep_node |= _sum_unpacked(
                            begin, end, jobs, children, count_bits, out, packed_out, codes, pull,
                            weight_count, pool, layout)  # fmt: skip
                    for j in range(begin, end):
                        _merge_chunks(j, keep_node, jobs, children, blocks, chunk_sums, progress,
                                      layout, count_bits, pool)  # fmt: skip
                        for k in range(2):
                            child, best, room = children[k], candidates[number, k], scratch[number]
                            if _may_improve(j, child, best, pool, layout, allowed, feature_types,
                                            rules, room):  # fmt: skip
                                _best_cut(j, child, pool, layout, feature_types, rules, room, best)
                idle, finished = np.int64(0), np.int64(0)  # (a plain 0 has another type)
                add(control, TASKS_DONE, 1)
            if helping:
                return
        _merge_tiles(tiles, children, candidates)
        if work == SPLIT_NODE:
            break
        _replace_leaf(jobs, children, rules, tree)
    store(control, STOP, 1)
