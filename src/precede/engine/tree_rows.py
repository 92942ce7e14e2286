"""The rows of a table while trees are grown on them, and what is known of the nodes.

A `Node` is a range of one of several lists of row numbers. `TreeRows` partitions the rows of nodes,
sums their histograms and searches these for the best splits: `CpuRows` in the kernel described in
`precede.engine.tree_histograms`, `precede.engine.cuda.GpuRows` in the kernels of `kernels.cu`.
`precede.weak_rankers.tree_grower` chooses the nodes to split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from precede.engine import tree_histograms
from precede.engine.arrays import BackendArray, Flags, Floats, Integers, Records, Rows, Signs
from precede.engine.backend import CPU, Backend
from precede.engine.compiling import njit
from precede.engine.execution import Context, threads_for
from precede.engine.kernels import predict_codes
from precede.engine.quantization import QuantizedRows, power_factors
from precede.engine.team import STOP, add, new_control_block
from precede.engine.tree_histograms import (
    CHILD,
    GROW_TREE,
    LEAF,
    NO_TREE,
    NOT_SEARCHED,
    NOT_STARTED,
    RULES,
    SPLIT,
    SPLIT_JOB,
    SPLIT_NODE,
    SUM_NONE,
    TREE,
    RowHistograms,
    SplitFound,
    TreeArrays,
    best_split,
    count_left,
    feature_types_or_none,
    found_split,
    left_categories,
    partition_rows,
    run_phases,
    workspace,
)

if TYPE_CHECKING:
    from precede.engine.table import Table


# Cells (rows times features) of a node that pay for one helper thread. With fewer, waiting for it
# takes longer than the work that it saves.
MIN_CELLS_PARALLEL = 1 << 17
# -- nodes, splits and rules -------------------------------------------------------------------

# LEFT_CODES[missing_above, cut, code]: whether a bin code goes left. Codes up to the cut do;
# missing values (code 255) do if missing_above is 0.
_CODES = np.arange(256)
LEFT_CODES = np.broadcast_to(_CODES[:, None] >= _CODES, (2, 256, 256)).copy()
LEFT_CODES[0, :, 255], LEFT_CODES[1, :, 255] = True, False


@dataclass(frozen=True)
class Rules:
    """Penalties and limits of splits, and the units of the quantized histograms.

    Attributes
    ----------
    pull_unit, weight_unit : value of one quantization step; weights are in units of the mean
        weight of a row
    count_bits : number of low bits that hold the row count, see `precede.engine.quantization`
    reg_lambda, reg_alpha : L2 and L1 penalties on leaf values
    cat_smooth : pseudo-rows of mean weight and zero pull added to each category before sorting,
        and to `reg_lambda` when categorical splits are scored
    min_count, min_weight : minimum number of rows and minimum weight of a child
    min_gain : gain that a split must exceed
    """

    pull_unit: float
    weight_unit: float
    count_bits: int
    reg_lambda: float
    reg_alpha: float
    cat_smooth: float
    min_count: int
    min_weight: float
    min_gain: float

    def record(self, *, monotone: bool) -> Records:
        """Return the rules for the kernels; `monotone`: whether a feature has a constraint."""
        values = (getattr(self, each.name) for each in fields(self))  # `astuple` copies deeply
        return np.array([(*values, self.reg_alpha == 0 and not monotone)], RULES)

    def count(self, sums: tuple[int, int]) -> int:
        """Return the number of rows encoded in quantized sums."""
        return sums[1] & ((1 << self.count_bits) - 1)

    def may_split(self, sums: tuple[int, int]) -> bool:
        """Whether a node with these sums has enough rows for two children."""
        return self.count(sums) >= 2 * self.min_count

    def smaller_first(self, children: tuple[Node, Node]) -> tuple[Node, Node]:
        """Return the children by their rows on all machines; the left one first on a tie."""
        left, right = children
        return (right, left) if self.count(right.sums) < self.count(left.sums) else children


@dataclass(frozen=True, slots=True)
class Split:
    """A split of a node.

    Attributes
    ----------
    gain : leaf scores of the two children minus that of the node
    feature : column of the codes
    cut : largest code that goes left; for a categorical split, a position in the sorted categories
    missing_above : 0 if missing values go to the side of the codes up to `cut`, 1 otherwise
    left_sums, right_sums : quantized sums (pull, weight and count) of the children
    categories : for a categorical split, whether each of the 256 codes goes left
    """

    gain: float
    feature: int
    cut: int
    missing_above: int
    left_sums: tuple[int, int]
    right_sums: tuple[int, int]
    categories: Flags | None = None

    @property
    def left_codes(self) -> Flags:
        """Whether each of the 256 codes goes left; code 255 is for missing values."""
        if self.categories is not None:
            return self.categories
        codes: Flags = LEFT_CODES[self.missing_above, self.cut]
        return codes


@dataclass(slots=True, eq=False)
class Node:
    """A node of a growing tree.

    Attributes
    ----------
    low, high, source : its rows are ``low..high`` of the row list number `source`
    sums : quantized sums of pull, and of weight and count
    depth : number of splits above
    bounds : bounds of all leaf values below, from monotone constraints
    features : whether each feature may be split on; None for all
    path : features of the splits above
    key : number of the node, by which machines identify it
    slot : of its histogram in the pool
    search : whether its best split is wanted
    split : its best split; None if there is none, or if it was not searched
    children : left and right child, if it has been split
    """

    low: int
    high: int
    source: int
    sums: tuple[int, int] = (0, 0)
    depth: int = 0
    bounds: tuple[float, float] = (-np.inf, np.inf)
    features: Flags | None = None
    path: frozenset[int] = frozenset()
    key: int = 0
    slot: int = -1
    search: bool = False
    split: Split | None = None
    children: tuple[Node, Node] | None = None

    @property
    def chosen(self) -> tuple[Split, tuple[Node, Node]]:
        """The split and the children of a node that is split."""
        assert self.split is not None
        assert self.children is not None
        return self.split, self.children


# Instead of the second child, where there is one leaf only.
NO_NODE = Node(0, 0, 0, bounds=(0.0, 0.0))


class SplitSearch:
    """Search of histograms for the best split of a node.

    Parameters
    ----------
    start, n_bins : layout of the histograms, see `RowHistograms`
    monotone : monotone constraint of each feature: -1, 0 or 1
    categorical : whether each feature is categorical

    Attributes
    ----------
    is_monotone : whether a feature has a monotone constraint
    unconstrained : whether no feature is categorical or has a monotone constraint
    all_features : mask that allows all features
    """

    def __init__(self, start: Integers, n_bins: Integers, monotone: Signs, categorical: Flags):
        self.start, self.n_bins = start, n_bins
        self.monotone, self.categorical = monotone, categorical
        self.all_features = np.ones(n_bins.size, np.bool_)
        self.is_monotone = bool(monotone.any())
        self.unconstrained = not self.is_monotone and not categorical.any()

    def record(self, rules: Rules) -> Records:
        """Return the rules as an array of `RULES` for the kernels."""
        return rules.record(monotone=self.is_monotone)

    def find(self, histogram: Integers, node: Node, rules: Rules) -> None:
        """Set the best split of a node with this histogram, if it is to be searched. O(bins)."""
        if not node.search:
            return
        allowed = self.all_features if node.features is None else node.features
        found = best_split(
            histogram, (self.start, self.n_bins), (allowed, self.monotone, self.categorical),
            node.sums, node.bounds, self.record(rules),
        )  # fmt: skip
        self.set_split(node, found, rules, partial(self.bins, histogram))

    def bins(self, histogram: Integers, feature: int) -> Integers:
        """Return the bins of a feature in a histogram, without that of missing values."""
        first = self.start[feature]
        return histogram[first : first + self.n_bins[feature]]

    def set_split(
        self, node: Node, found: SplitFound, rules: Rules, bins_of: Callable[[int], Integers]
    ) -> None:
        """Set the split that a kernel has found, unless its gain is too small.

        `bins_of` returns the bins of a feature in the histogram of the node.
        """
        gain, feature, cut, missing_above, *left = found
        if feature < 0 or not gain > rules.min_gain:
            return
        right = node.sums[0] - left[0], node.sums[1] - left[1]
        codes = None
        if self.categorical[feature]:
            bins = bins_of(feature).ravel()
            codes = left_categories(bins, cut, missing_above, self.record(rules))
        node.split = Split(gain, feature, cut, missing_above, (left[0], left[1]), right, codes)

    def monotone_sign(self, split: Split) -> int:
        """Return the monotone constraint of a split; 0 if only missing values go right."""
        if not self.is_monotone:
            return 0
        only_missing_right = split.cut + 1 == self.n_bins[split.feature]
        return 0 if only_missing_right else int(self.monotone[split.feature])


def find_splits(
    low: int,
    high: int,
    search: SplitSearch,
    rules: Rules,
    leaves: Sequence[Node],
    histograms: Sequence[Integers],
) -> None:
    """Set the best splits of the leaves number low..high, from their histograms."""
    for leaf, histogram in zip(leaves[low:high], histograms[low:high], strict=True):
        search.find(histogram, leaf, rules)


# -- the rows of a table ------------------------------------------------------------------------


class TreeRows:
    """The rows of a table, on which trees are grown, on a backend.

    `CpuRows` is for the CPU, `precede.engine.cuda.GpuRows` for a GPU.

    Attributes
    ----------
    backend : where codes, row lists and histograms are
    search : the search for splits, with the layout of the histograms
    n_lists : number of row lists; a split partitions the rows of a node into another list
    max_batch : most nodes that are split at once
    """

    backend: Backend
    search: SplitSearch
    n_lists: int = 2
    max_batch: int = 1

    def begin_tree(
        self, quantized: QuantizedRows, rules: Rules, rows: Rows | None, num_leaves: int
    ) -> int:
        """Fill the first row list with these rows, all by default; return their number."""
        raise NotImplementedError

    def total(self, root: Node) -> tuple[int, int]:
        """Return the quantized sums of all rows of a tree."""
        raise NotImplementedError

    def search_root(self, root: Node) -> None:
        """Set the best split of the root of a tree."""
        raise NotImplementedError

    def grow(
        self,
        root: Node,  # noqa: ARG002
        num_leaves: int,  # noqa: ARG002
        max_depth: int,  # noqa: ARG002
    ) -> tuple[Records, Records] | None:
        """Grow a whole tree without constraints; return arrays of `LEAF` and `SPLIT`.

        Return None if the tree is to be grown node by node.
        """
        return None

    def split_nodes(self, nodes: Sequence[Node]) -> None:
        """Partition the rows of nodes between their children; set the splits of the children.

        The slot of the larger child is that of the node.
        """
        raise NotImplementedError

    def histogram(self, node: Node) -> Integers:
        """Return the histogram of the rows of a node on this machine, in the layout of `search`."""
        raise NotImplementedError

    def partition(self, node: Node) -> int:
        """Partition the rows of a node between its children; return the end of the left ones."""
        raise NotImplementedError

    def has_room(self, slots: int) -> bool:  # noqa: ARG002
        """Return whether this many histograms fit into memory."""
        return True

    def check_room(self, leaves: int) -> None:
        """Raise ValueError if the histograms of a tree of this many leaves do not fit."""

    def leaf_sums(
        self,
        leaves: Records,
        pull: BackendArray,
        weight: BackendArray,
        bits: tuple[int, int],
    ) -> Integers:
        """Return exact sums of pull and weight over the rows of each `LEAF` on this machine.

        `bits` are the exponents of the powers of two by which they are scaled.
        """
        raise NotImplementedError

    def leaf_values(self, leaves: Records, value: Floats) -> BackendArray:
        """Return the leaf values of all rows, if the tree was grown on all rows."""
        raise NotImplementedError

    def predict(self, splits: Records, left_codes: Flags, value: Floats) -> BackendArray:
        """Return the leaf values of all rows, found by descending the tree."""
        raise NotImplementedError


class CpuRows(TreeRows):
    """Rows on the CPU; `precede.engine.tree_histograms` describes how nodes are split.

    Helper threads join at the first node with at least `MIN_CELLS_PARALLEL` cells, one for each
    multiple of them, and stay in the kernel until the tree is grown.

    Parameters
    ----------
    table : Table whose codes are read
    features : numbers of the features to use
    monotone, categorical : of these features, see `SplitSearch`
    context : threads and machines

    Attributes
    ----------
    lists : two lists of row numbers; the leaves of the last tree are ranges of them
    """

    backend = CPU

    def __init__(
        self, table: Table, features: Integers, monotone: Signs, categorical: Flags,
        context: Context,
    ):  # fmt: skip
        self._context = context
        self.histograms = RowHistograms(table, features, context)
        self.search = SplitSearch(*self.histograms.layout, monotone, categorical)
        # Codes by column as one array, the offset of each column, and the step between rows.
        codes, offsets, self._step = table.codes, features * table.codes.shape[1], 1
        if table.streamed:
            codes, offsets = self.histograms.codes, np.arange(features.size)
            self._step = codes.shape[1]
        self._column, self._offsets = codes.reshape(-1), offsets
        self.lists = [np.empty(self.histograms.n_rows, np.int32) for _ in range(2)]
        self._packed: list[Integers | None] = [None, None]  # packed words in the order of the lists
        self._packed_buffer: Integers | None = None
        self._pool = np.empty((0, 2 * self.histograms.size), np.int64)
        self._jobs, self._goes_left = np.zeros(1, SPLIT_JOB), np.zeros(256, np.bool_)
        self._children = np.zeros(2, CHILD)
        self._allowed = np.zeros(features.size, np.bool_)
        self._control = new_control_block(context.jobs)
        # Packed and wide sums of the chunks of rows that threads sum.
        self._chunks: tuple[Integers | None, Integers | None] = (None, None)

    def begin_tree(
        self, quantized: QuantizedRows, rules: Rules, rows: Rows | None, num_leaves: int
    ) -> int:
        """Fill the first row list with these rows, all by default; return their number."""
        size = self.lists[0].size if rows is None else rows.size
        threads = threads_for("rows", size)
        if rows is None and min(threads, self._context.jobs) > 1:
            self._context.run(_number_rows, size, self.lists[0], threads=threads)
        else:
            self.lists[0][:size] = np.arange(size, dtype=np.int32) if rows is None else rows
        self._quantized, self._rules = quantized, rules
        packed = quantized.packed
        self._packed = [None, None]
        if packed is not None:
            if self._packed_buffer is None:
                self._packed_buffer = np.empty(self.lists[0].size, np.int64)
            self._packed = [packed if rows is None else packed[rows], self._packed_buffer]
        count = 1  # on several machines the histograms of leaves are kept by one of them
        if not self._context.is_distributed:
            # Only leaves large enough to be split keep their histograms, and leaves are disjoint.
            count = min(num_leaves + 1, size // (2 * rules.min_count) + 3)
        if len(self._pool) < count:  # unused slots take no memory
            self._pool = np.empty((count, 2 * self.histograms.size), np.int64)
        if (self._chunks[0] is None) != (packed is None):
            self._chunks = self.histograms.new_chunks(quantized, self._context.jobs)
        self._record = self.search.record(rules)
        return size

    def _run_kernel(self, work: int, cells: int, tree: TreeArrays) -> None:
        """Run the kernel with as many threads as a node of so many cells keeps busy."""
        (one, other), (packed_one, packed_other) = self.lists, self._packed
        threads = min(self._context.jobs, 1 + cells // max(1, MIN_CELLS_PARALLEL))
        tiles = min(threads, self.histograms.n_bins.size)
        blocks, sums = self._chunks
        self._control[STOP] = 0
        self._context.run(
            run_phases, threads, work, tiles, self._control, self._jobs, self._children,
            self._record, self._column, self._goes_left, (one, packed_one, other, packed_other),
            self.histograms.row_data(self._quantized),
            None if blocks is None else blocks[:threads], None if sums is None else sums[:threads],
            self._pool, self.histograms.layout, self._allowed,
            feature_types_or_none(self._record, self.search.monotone, self.search.categorical),
            *workspace(tiles, threads), tree,
        )  # fmt: skip

    # -- splits ----------------------------------------------------------------------------

    def total(self, root: Node) -> tuple[int, int]:
        """Return the quantized sums of all rows of a tree."""
        return self.histograms.total(self._quantized, self.lists[0], self._packed[0], root.high)

    def search_root(self, root: Node) -> None:
        """Set the best split of the root of a tree."""
        self._sum_rows(root, root.slot)

    def _sum_rows(self, node: Node, slot: int) -> None:
        """Sum the histogram of a node into a slot; set its best split if it is to be searched."""
        # No rows to partition: the node is passed as a smaller child. The kernel looks for the rows
        # of children in the other list than `source`.
        sum_mode = self.histograms.sum_mode(self._quantized, node.high - node.low)
        column = int(self._offsets[0]), self._step
        job = 1 - node.source, 0, 0, 0, *column, sum_mode, node.low, node.high
        self._split_node(job, (node, NO_NODE), (slot, -1), LEFT_CODES[0, 0])

    def split_nodes(self, nodes: Sequence[Node]) -> None:
        """Partition the rows of nodes between their children; set the splits of the children."""
        for node in nodes:
            split, children = node.chosen
            leaves = self._rules.smaller_first(children)
            to_sum, slots = (SUM_NONE, 0, 0), (0, -1)
            if leaves[0].search or leaves[1].search:
                low, high = leaves[0].low, leaves[0].high
                to_sum = self.histograms.sum_mode(self._quantized, high - low), low, high
                slots = leaves[0].slot, leaves[1].slot
            column = int(self._offsets[split.feature]), self._step
            job = node.source, node.low, children[0].high, node.high, *column, *to_sum
            self._split_node(job, leaves, slots, split.left_codes)

    def _split_node(
        self,
        job: tuple[int, ...],
        leaves: tuple[Node, Node],
        slots: tuple[int, int],
        goes_left: Flags,
    ) -> None:
        """Partition, sum and search a node in one call of the kernel.

        `job` are the entries of a `SPLIT_JOB`, `leaves` the smaller and the larger child. O(rows
        of the node + features * rows of the smaller child + bins).
        """
        self._jobs[0] = *job, 0, 0, NOT_STARTED
        for k, (leaf, slot) in enumerate(zip(leaves, slots, strict=True)):
            self._children[k] = slot, leaf.search, *leaf.sums, *leaf.bounds, *NOT_SEARCHED
        self._goes_left[:] = goes_left
        features = leaves[0].features
        self._allowed[:] = True if features is None else features
        cells = max(job[3] - job[1], job[8] - job[7]) * self.histograms.codes.shape[1]
        self._run_kernel(SPLIT_NODE, cells, NO_TREE)
        for k, leaf in enumerate(leaves):
            bins_of = partial(self.search.bins, self._pool[slots[k]].reshape(-1, 2))
            self.search.set_split(leaf, found_split(self._children, k), self._rules, bins_of)

    def histogram(self, node: Node) -> Integers:
        """Return the histogram of the rows of a node on this machine."""
        self._sum_rows(Node(node.low, node.high, node.source), 0)
        return self._pool[0].reshape(-1, 2).copy()

    def partition(self, node: Node) -> int:
        """Partition the rows of a node stably; return the position of the first right row."""
        split, low, size = node.chosen[0], node.low, node.high - node.low
        source, target = node.source, 1 - node.source
        column = self._column, int(self._offsets[split.feature]), self._step, split.left_codes
        rows, threads = self.lists[source], threads_for("rows", size)
        counts = self._context.map(
            lambda first, last: count_left(low + first, low + last, *column, rows), size,
            threads=threads,
        )  # fmt: skip
        chunks = self._context.split(size, threads) or [(0, 0)]
        left_before = dict(zip(chunks, np.cumsum([0, *counts]), strict=False))
        middle = low + int(sum(counts))

        def move(first: int, last: int) -> None:
            left = int(left_before[first, last])
            targets = low + left, middle + first - left
            partition_rows(
                low + first, low + last, *targets, *column, rows, self._packed[source],
                self.lists[target], self._packed[target],
            )  # fmt: skip

        self._context.map(move, size, threads=threads)
        return middle

    def grow(self, root: Node, num_leaves: int, max_depth: int) -> tuple[Records, Records] | None:
        """Grow a tree best-first in one call of the kernel.

        Return None if a feature is categorical or has a monotone constraint.
        """
        split = root.split
        if split is None or not self.search.unconstrained:
            return None
        leaves, splits = np.zeros(num_leaves, LEAF), np.zeros(num_leaves - 1, SPLIT)
        leaves[0] = (
            root.source, root.low, root.high, *root.sums, 0, root.slot, -1, 0,
            split.feature, split.cut, split.missing_above, *split.left_sums, split.gain,
        )  # fmt: skip
        free = np.zeros(len(self._pool), np.int64)
        free[:-1] = [slot for slot in range(len(free) - 1, -1, -1) if slot != root.slot]
        rows, packed = self.histograms.n_rows, self._chunks[0] is not None
        limits = num_leaves, max_depth, 0, tree_histograms.MIN_BLOCK_ROWS, rows, packed
        state = np.array([(1, 0, free.size - 1, *limits)], TREE)
        self._jobs["step"] = self._step
        self._children["lower"], self._children["upper"] = -np.inf, np.inf
        self._allowed[:] = True
        cells = (root.high - root.low) * self.histograms.codes.shape[1]
        self._run_kernel(GROW_TREE, cells, (leaves, splits, free, self._offsets, state))
        return leaves[: state["n_leaves"][0]], splits[: state["n_splits"][0]]

    # -- leaves ----------------------------------------------------------------------------

    def leaf_sums(
        self, leaves: Records, pull: Floats, weight: Floats, bits: tuple[int, int]
    ) -> Integers:
        """Return exact sums of pull and weight over the rows of each `LEAF` on this machine."""
        ranges = _leaf_ranges(leaves)
        size = int(ranges[1].max())  # the last leaf may have no row on this machine
        powers = *power_factors(bits[0]), *power_factors(bits[1])
        sums, threads = np.zeros(2 * leaves.size, np.int64), threads_for("rows", size)
        given = *ranges, *self.lists, pull, weight, *powers, sums
        self._context.run(_sum_leaves, size, *given, threads=threads)
        return sums.reshape(-1, 2)

    def leaf_values(self, leaves: Records, value: Floats) -> Floats:
        """Return the leaf values of all rows, if the tree was grown on all rows."""
        values = np.empty(self.histograms.n_rows)
        given = *_leaf_ranges(leaves), *self.lists, value, values
        threads = threads_for("rows", values.size)
        self._context.run(_fill_leaf_values, values.size, *given, threads=threads)
        return values

    def predict(self, splits: Records, left_codes: Flags, value: Floats) -> Floats:
        """Return the leaf values of all rows, found by descending the tree."""
        values = np.empty(self.histograms.n_rows)
        feature, child = splits["feature"].copy(), np.array([splits["left"], splits["right"]])
        self._context.run(
            predict_codes, values.size, self.histograms.codes.T, feature, left_codes, child,
            value, values, threads=threads_for("heavy rows", values.size),
        )  # fmt: skip
        return values


def _leaf_ranges(leaves: Records) -> tuple[Rows, Integers, Integers]:
    """Return leaves in the order of their rows, and the end and the list of each range."""
    order = leaves["low"].argsort(kind="stable")
    return order.astype(np.int32), leaves["high"][order], leaves["source"][order]


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _number_rows(low: int, high: int, rows: Rows) -> None:
    """Fill the positions low..high of a list with their numbers."""
    for i in range(low, high):
        rows[i] = i


@njit(cache=True, nogil=True)
def _sum_leaves(
    low: int, high: int, leaves: Rows, ends: Integers, source: Integers, rows0: Rows, rows1: Rows,
    pull: Floats, weight: Floats, pull_one: float, pull_other: float, weight_one: float,
    weight_other: float, sums: Integers,
) -> None:  # fmt: skip
    """Add pull and weight of the rows at positions low..high to ``sums[2 k]``, ``sums[2 k + 1]``.

    ``leaves[k]`` has the positions from ``ends[k - 1]`` to ``ends[k]`` of the row list number
    ``source[k]`` (`rows0` or `rows1`). For the factors see `power_factors`.
    """
    start = low
    for k in range(leaves.size):
        rows = rows0 if source[k] == 0 else rows1
        sum_pull, sum_weight = np.int64(0), np.int64(0)
        end = ends[k] if ends[k] < high else high
        for i in range(np.uint64(start), np.uint64(end if end > start else start)):
            row = np.uint64(rows[i])
            sum_pull += np.int64(np.rint(pull[row] * pull_one * pull_other))
            sum_weight += np.int64(np.rint(weight[row] * weight_one * weight_other))
        if end > start:
            add(sums, 2 * leaves[k], sum_pull)
            add(sums, 2 * leaves[k] + 1, sum_weight)
        start = end if end > start else start


@njit(cache=True, nogil=True)
def _fill_leaf_values(
    low: int, high: int, leaves: Rows, ends: Integers, source: Integers, rows0: Rows, rows1: Rows,
    value: Floats, values: Floats,
) -> None:  # fmt: skip
    """Write the leaf values of the rows at positions low..high; see `_sum_leaves`."""
    start = low
    for k in range(leaves.size):
        rows, leaf_value = rows0 if source[k] == 0 else rows1, value[leaves[k]]
        end = ends[k] if ends[k] < high else high
        for i in range(np.uint64(start), np.uint64(end if end > start else start)):
            values[np.uint64(rows[i])] = leaf_value
        start = end if end > start else start
