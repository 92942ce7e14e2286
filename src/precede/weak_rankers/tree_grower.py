"""Best-first growth of a tree, with constraints on its splits.

The rows of each node are a range of one of two lists of row numbers. How a node is split, the gain
of a split and the order in which ties are broken are described in `precede.engine.tree_histograms`.
Large nodes are parallelized over rows, smaller ones over features. On several machines each has the
lists of its own rows; the machines' histograms of the smaller child are combined on one machine,
which keeps the histograms of all leaves and returns the best splits.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precede.engine.arrays import Bytes, Flags, Floats, Integers, Rows, Signs
from precede.engine.exact import sum_parts
from precede.engine.execution import Context, is_small
from precede.engine.quantization import QuantizedRows
from precede.engine.tree_histograms import (
    LEAF,
    RULES,
    SPLIT,
    SUM_NONE,
    NodeSplitter,
    RowHistograms,
    SplitFound,
    best_split,
    count_left,
    left_categories,
    partition_rows,
    penalized_value,
    penalized_values,
)

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
    min_gain : gain that a split must exceed
    min_count, min_weight : minimum number of rows and minimum weight of a child
    cat_smooth : pseudo-rows of mean weight and zero pull added to each category before sorting,
        and to `reg_lambda` when categorical splits are scored
    """

    pull_unit: float
    weight_unit: float
    count_bits: int
    reg_lambda: float
    reg_alpha: float
    min_gain: float
    min_count: int
    min_weight: float
    cat_smooth: float

    @property
    def units(self) -> tuple[float, float, int]:
        """Units by which the kernels convert quantized sums."""
        return self.pull_unit, self.weight_unit, self.count_bits

    def record(self, plain: bool) -> NDArray[Any]:
        """Return the rules, and the flag `plain`, as `precede.engine.tree_histograms.RULES`."""
        penalties = self.reg_lambda, self.reg_alpha, self.cat_smooth
        limits = self.min_count, self.min_weight, self.min_gain
        return np.array([(*self.units, *penalties, *limits, plain)], RULES)

    def count(self, sums: tuple[int, int]) -> int:
        """Return the number of rows encoded in quantized sums."""
        return sums[1] & ((1 << self.count_bits) - 1)

    def may_split(self, sums: tuple[int, int]) -> bool:
        """Whether a node with these sums has enough rows for two children."""
        return self.count(sums) >= 2 * max(self.min_count, 1)


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


@dataclass(slots=True)
class Node:
    """A node of the growing tree, with its best split.

    Attributes
    ----------
    low, high, source : its rows are ``low..high`` of the row list number `source`
    sums : quantized sums of pull, and of weight and count
    depth : number of splits above
    lower, upper : bounds of all leaf values below, from monotone constraints
    features : whether each feature may be split on; None for all
    path : features of the splits above
    key : identifier of the node, by which its histogram is stored
    split : best split; None if there is none, or if it was not searched
    """

    low: int
    high: int
    source: int
    sums: tuple[int, int]
    depth: int
    lower: float
    upper: float
    features: Flags | None
    path: frozenset[int] = frozenset()
    key: int = 0
    split: Split | None = None


class SplitSearch:
    """Search of histograms for the best split of a node.

    Parameters
    ----------
    start, n_bins : layout of the histograms, see `precede.engine.tree_histograms.RowHistograms`
    monotone : monotone constraint of each feature: -1, 0 or 1
    categorical : whether each feature is categorical

    Attributes
    ----------
    unconstrained : whether no feature is categorical or has a monotone constraint
    all_features : mask that allows all features
    """

    def __init__(
        self,
        start: Integers,
        n_bins: Integers,
        monotone: Signs,
        categorical: Flags,
    ):
        self.start, self.n_bins = start, n_bins
        self.monotone, self.categorical = monotone, categorical
        self.all_features = np.ones(n_bins.size, np.bool_)
        self._has_monotone = bool(monotone.any())
        self.unconstrained = not self._has_monotone and not categorical.any()

    def record(self, rules: Rules) -> NDArray[Any]:
        """Return the rules as a structured array for the kernels."""
        return rules.record(rules.reg_alpha == 0 and not self._has_monotone)

    def best(self, histogram: Integers, node: Node, rules: Rules) -> Split | None:
        """Return the split with the largest gain, or None if the rules allow none. O(bins)."""
        allowed = self.all_features if node.features is None else node.features
        found = best_split(
            histogram, (self.start, self.n_bins), (allowed, self.monotone, self.categorical),
            node.sums, (node.lower, node.upper), self.record(rules),
        )  # fmt: skip
        return self.make_split(found, histogram, node, rules)

    def make_split(
        self, found: SplitFound, histogram: Integers, node: Node, rules: Rules
    ) -> Split | None:
        """Convert the result of a kernel to a `Split`; None if its gain is too small."""
        gain, feature, cut, missing_above, pull, weight_count = found
        if feature < 0 or not gain > rules.min_gain:
            return None
        left = pull, weight_count
        right = node.sums[0] - left[0], node.sums[1] - left[1]
        if not self.categorical[feature]:
            return Split(gain, feature, cut, missing_above, left, right)
        first = self.start[feature]
        bins = histogram[first : first + self.n_bins[feature]]
        codes = left_categories(bins.ravel(), cut, missing_above, self.record(rules))
        return Split(gain, feature, cut, missing_above, left, right, codes)

    def left_codes(self, split: Split) -> Flags:
        """Return whether each of the 256 codes goes left; code 255 is for missing values."""
        if split.categories is not None:
            return split.categories
        codes: Flags = LEFT_CODES[split.missing_above, split.cut]
        return codes

    def monotone_sign(self, split: Split) -> int:
        """Return the monotone constraint of a split; 0 if only missing values go right."""
        if not self._has_monotone:
            return 0
        only_missing_right = split.cut + 1 == self.n_bins[split.feature]
        return 0 if only_missing_right else int(self.monotone[split.feature])

    def node_value(self, sums: tuple[int, int], rules: Rules, lower: float, upper: float) -> float:
        """Return the value of a node with these quantized sums, as a leaf."""
        pull = sums[0] * rules.pull_unit
        weight = (sums[1] >> rules.count_bits) * rules.weight_unit
        return leaf_value(pull, weight, rules, lower, upper)


def leaf_values(pulls: Floats, weights: Floats, rules: Rules, bounds: Floats) -> Floats:
    """Return the values of many leaves (see `leaf_value`); `bounds` has shape (leaves, 2).

    >>> rules = Rules(1.0, 1.0, 8, 1.0, 0.5, 0.0, 1, 0.0, 10.0)
    >>> leaf_values(np.array([2.5]), np.array([3.0]), rules, np.array([[-0.25, 0.25]]))
    array([0.25])
    """
    return penalized_values(pulls, weights + rules.reg_lambda, rules.reg_alpha, bounds)


def leaf_value(pull: float, weight: float, rules: Rules, lower: float, upper: float) -> float:
    """Return the penalized value of a leaf; `weight` is in units of the mean weight of a row.

    >>> rules = Rules(1.0, 1.0, 8, 1.0, 0.5, 0.0, 1, 0.0, 10.0)
    >>> leaf_value(2.5, 3.0, rules, -0.25, 0.25)
    0.25
    """
    return float(penalized_value(pull, weight + rules.reg_lambda, rules.reg_alpha, lower, upper))


# -- Growth of one tree, best leaf first ---------------------------------------------------------

# Nodes with at least MIN_CELLS_ROW_PARALLEL cells (rows times features) are parallelized over rows;
# smaller ones over features, by threads that start at the first node with MIN_CELLS_PARALLEL cells.
MIN_CELLS_ROW_PARALLEL, MIN_CELLS_PARALLEL = 1 << 23, 1 << 17
# Function (number of the parent's split or -1, features of the splits above) -> mask of the
# features that a node may be split on.
AllowedFeatures = Callable[[int, frozenset[int]], Flags | None]


@dataclass(frozen=True)
class GrownTree:
    """The structure of a tree, without leaf values.

    Attributes
    ----------
    splits : array of `precede.engine.tree_histograms.SPLIT`, in the order in which they were
        made; children are numbered as in `precede.weak_rankers.trees.Tree`
    leaves : array of `precede.engine.tree_histograms.LEAF`
    bounds : lower and upper bound of each leaf's value
    categories : for each categorical split, by its number, whether each of the 256 codes goes left
    """

    splits: NDArray[Any] = field(default_factory=lambda: np.zeros(0, SPLIT))
    leaves: NDArray[Any] = field(default_factory=lambda: np.zeros(0, LEAF))
    bounds: Floats = field(default_factory=lambda: np.zeros((0, 2)))
    categories: dict[int, Flags] = field(default_factory=dict)

    @cached_property
    def left_codes(self) -> Flags:
        """Whether each of the 256 codes goes left, for each split; 255 is for missing values."""
        left_codes: Flags = LEFT_CODES[self.splits["missing_above"], self.splits["cut"]]
        for number, codes in self.categories.items():
            left_codes[number] = codes
        return left_codes

    @cached_property
    def leaf_ranges(self) -> tuple[Rows, Integers, Integers]:
        """Leaves in the order of their rows, with the end and the list number of each range."""
        order = self.leaves["low"].argsort(kind="stable")
        return order.astype(np.int32), self.leaves["high"][order], self.leaves["source"][order]


@dataclass
class PartialTree:
    """A tree during growth; children are numbered as in `GrownTree`."""

    leaves: list[Node]
    splits: list[Split] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)

    def to_grown_tree(self) -> GrownTree:
        """Convert to arrays."""
        splits, leaves = np.zeros(len(self.splits), SPLIT), np.zeros(len(self.leaves), LEAF)
        for name in ("feature", "cut", "missing_above", "gain"):
            splits[name] = [getattr(split, name) for split in self.splits]
        splits["left"], splits["right"] = self.left, self.right
        for k, leaf in enumerate(self.leaves):
            leaves[k]["source"], leaves[k]["low"], leaves[k]["high"] = (
                leaf.source, leaf.low, leaf.high
            )  # fmt: skip
            leaves[k]["pull"], leaves[k]["weight"] = leaf.sums
            leaves[k]["depth"] = leaf.depth
        bounds = np.array([(leaf.lower, leaf.upper) for leaf in self.leaves])
        categories = {
            k: split.categories
            for k, split in enumerate(self.splits)
            if split.categories is not None
        }
        return GrownTree(splits, leaves, bounds, categories)


class TreeGrower:
    """Best-first growth of trees on the rows of one table.

    Parameters
    ----------
    histograms : RowHistograms
        Row-major codes and their histograms.
    columns : tuple
        Flat array of codes, offset of each feature in it, and step from one row to the next.
    search : SplitSearch
        Search for the best split of a node.
    context : Context
        Threads and machines.

    Attributes
    ----------
    row_lists : two lists of row numbers; the leaves of the last tree are ranges of them
    """

    def __init__(
        self,
        histograms: RowHistograms,
        columns: tuple[Bytes, Integers, int],
        search: SplitSearch,
        context: Context,
    ):
        self._histograms, self._columns = histograms, columns
        self._search, self._context = search, context
        self.row_lists = [np.empty(histograms.n_rows, np.int32) for _ in range(2)]
        self._splitter = NodeSplitter(
            histograms, self.row_lists, columns, search.monotone, search.categorical, context
        )
        self._packed_buffer: Integers | None = None
        self._packed_lists: list[Integers | None] = [None, None]
        self._histogram_slots: dict[int, int] = {}  # by the keys of the leaves that have a split

    def grow(
        self,
        quantized: QuantizedRows,
        rules: Rules,
        num_leaves: int,
        max_depth: int,
        *,
        rows: Rows | None = None,
        allowed: AllowedFeatures | None = None,
    ) -> GrownTree:
        """Split the leaf with the largest gain until `num_leaves` is reached or no split is left.

        `rows` are the numbers of the rows to grow on, all by default; `allowed` returns the
        features that a node may be split on. O(rows · features · depth) at most, half of it for
        balanced splits.
        """
        self._quantized, self._rules, self._max_depth = quantized, rules, max_depth
        self._allowed = allowed
        size = self._start_tree(rows, num_leaves)
        try:
            root = self._make_root(size)
            simple = allowed is None and self._search.unconstrained
            local = not self._context.is_distributed
            if simple and local and root.split is not None and not self._is_row_parallel(root):
                return self._grow_in_kernel(root, num_leaves)
            return self._grow_best_first(root, num_leaves)
        finally:
            self._stop_helpers()

    def _grow_best_first(self, root: Node, num_leaves: int) -> GrownTree:
        partial = PartialTree([root])
        parents: list[tuple[int, bool]] = [(-1, False)]  # split above each leaf, is right child
        heap: list[tuple[float, int]] = []
        self._push(root, 0, heap)
        while heap and len(partial.leaves) < num_leaves:
            _, number = heapq.heappop(heap)
            more_splits = len(partial.leaves) + 1 < num_leaves
            children = self._split_leaf(partial.leaves[number], len(partial.splits), more_splits)
            self._replace_leaf(partial, parents, number, children, heap)
        return partial.to_grown_tree()

    def _replace_leaf(
        self,
        partial: PartialTree,
        parents: list[tuple[int, bool]],
        number: int,
        children: tuple[Node, Node],
        heap: list[tuple[float, int]],
    ) -> None:
        """Replace a leaf by a split; the left child takes its number, the right child a new one."""
        split = partial.leaves[number].split
        assert split is not None
        new_split, new_leaf = len(partial.splits), len(partial.leaves)
        partial.splits.append(split)
        partial.left.append(-1 - number)
        partial.right.append(-1 - new_leaf)
        self._link_parent(partial, parents[number], new_split)
        partial.leaves[number] = children[0]
        partial.leaves.append(children[1])
        parents[number] = (new_split, False)
        parents.append((new_split, True))
        self._push(children[0], number, heap)
        self._push(children[1], new_leaf, heap)

    def _grow_in_kernel(self, root: Node, num_leaves: int) -> GrownTree:
        """Grow the tree in one kernel call; requires that all nodes have the same constraints."""
        split = root.split
        assert split is not None
        leaf = (
            root.source, root.low, root.high, *root.sums, 0, self._histogram_slots[root.key], -1, 0,
            split.feature, split.cut, split.missing_above, *split.left_sums, split.gain,
        )  # fmt: skip
        leaves, splits = self._splitter.grow_tree(leaf, num_leaves, self._max_depth)
        return GrownTree(splits, leaves, np.full((leaves.size, 2), (-np.inf, np.inf)))

    # -- steps -----------------------------------------------------------------------------

    def _start_tree(self, rows: Rows | None, num_leaves: int) -> int:
        """Fill the first row list and its packed words; return the number of rows."""
        packed = self._quantized.packed
        if rows is None:
            size = self.row_lists[0].size
            self.row_lists[0][:] = np.arange(size, dtype=np.int32)
        else:
            size = rows.size
            self.row_lists[0][:size] = rows
        if packed is not None:
            if self._packed_buffer is None:
                self._packed_buffer = np.empty(self.row_lists[0].size, np.int64)
            self._packed_lists = [packed if rows is None else packed[rows], self._packed_buffer]
        else:
            self._packed_lists = [None, None]
        self._next_key = 1
        self._histogram_slots.clear()
        if not self._context.is_distributed:
            # Only leaves large enough to be split keep their histograms, and leaves are disjoint.
            max_histograms = size // (2 * max(self._rules.min_count, 1)) + 3
            self._histograms.reserve(min(num_leaves + 1, max_histograms))
            record = self._search.record(self._rules)
            self._splitter.begin_tree(self._quantized, self._packed_lists, record)
        return size

    def _make_root(self, size: int) -> Node:
        features = None if self._allowed is None else self._allowed(-1, frozenset())
        node = Node(0, size, 0, (0, 0), 0, -np.inf, np.inf, features)
        if self._context.is_distributed:
            end = int(self._search.start[1])  # the bins of one feature hold all rows
            combine = _CombineRoot(self._search, self._rules, node, end)
            node.sums, node.split = self._context.reduce_on_root(
                lambda: self._sum_histogram(node), combine
            )
            return node
        quantized = self._quantized
        lists = self.row_lists[0], self._packed_lists[0]
        node.sums = self._histograms.total(quantized, *lists, size)
        if not self._rules.may_split(node.sums):
            return node
        slot = self._histograms.take()
        histogram = self._histograms.histogram(slot)
        if self._is_row_parallel(node):
            self._sum_histogram(node, histogram)
            node.split = self._search.best(histogram, node, self._rules)
        else:
            self._start_helpers(node)
            sum_mode = self._histograms.sum_mode(quantized, size)
            # No rows to partition; the root is passed as the smaller child.
            children = (
                (slot, True, node.sums, (node.lower, node.upper)),
                (-1, False, (0, 0), (0.0, 0.0)),
            )
            allowed = self._search.all_features if features is None else features
            job = 1, 0, 0, 0, sum_mode, 0, size
            found, _ = self._splitter.split_node(job, children, 0, LEFT_CODES[0, 0], allowed)
            node.split = self._search.make_split(found, histogram, node, self._rules)
        if node.split is not None:
            self._histogram_slots[node.key] = slot
        return node

    def _n_cells(self, node: Node) -> int:
        return (node.high - node.low) * self._histograms.codes.shape[1]

    def _is_row_parallel(self, node: Node) -> bool:
        """Whether a node is parallelized over rows rather than over features."""
        return self._context.jobs > 1 and self._n_cells(node) >= MIN_CELLS_ROW_PARALLEL

    def _start_helpers(self, node: Node) -> None:
        """Start helper threads, which serve this node and all later ones, if it is large enough."""
        if self._n_cells(node) >= MIN_CELLS_PARALLEL:
            self._splitter.start_helpers()

    def _stop_helpers(self) -> None:
        """Dismiss the helper threads."""
        self._splitter.stop_helpers()

    def _sum_histogram(self, node: Node, out: Integers | None = None) -> Integers:
        lists = self.row_lists[node.source], self._packed_lists[node.source]
        return self._histograms.sums(self._quantized, *lists, node.low, node.high, out)

    def _split_leaf(self, node: Node, number: int, more_splits: bool) -> tuple[Node, Node]:
        """Apply split `number`; search the children too if `more_splits` may follow."""
        children = self._make_children(node, number)
        smaller, larger = children if self._left_is_smaller(children) else children[::-1]
        may_split = self._may_split(smaller), self._may_split(larger)
        to_search = more_splits and may_split[0], more_splits and may_split[1]
        if not self._context.is_distributed and not self._is_row_parallel(node):
            self._split_by_features(node, children, (smaller, larger), to_search)
        else:
            self._stop_helpers()
            self._split_by_rows(node, children, (smaller, larger), to_search)
        return children

    def _make_children(self, node: Node, number: int) -> tuple[Node, Node]:
        """Create the children of a leaf.

        If distributed, the boundary between their rows is not known before `_partition`.
        """
        split = node.split
        assert split is not None
        path, features = node.path, None
        if self._allowed is not None:
            path = path | {split.feature}
            features = self._allowed(number, path)
        bounds = self._child_bounds(node, split)
        middle = node.low + self._rules.count(split.left_sums)
        target, depth, key = 1 - node.source, node.depth + 1, self._next_key
        self._next_key += 2
        return (
            Node(node.low, middle, target, split.left_sums, depth, *bounds[0], features, path, key),
            Node(middle, node.high, target, split.right_sums, depth, *bounds[1], features, path,
                 key + 1),
        )  # fmt: skip

    def _split_by_features(
        self,
        node: Node,
        children: tuple[Node, Node],
        by_size: tuple[Node, Node],
        to_search: tuple[bool, bool],
    ) -> None:
        """Partition, sum and search a node in one kernel, parallel over features."""
        self._start_helpers(node)
        split, smaller, pool = node.split, by_size[0], self._histograms
        assert split is not None
        slots = pool.take(), self._histogram_slots.pop(node.key)
        rows_to_sum, histograms = (SUM_NONE, 0, 0), (0, -1)
        if any(to_search):
            sum_mode = pool.sum_mode(self._quantized, smaller.high - smaller.low)
            rows_to_sum, histograms = (sum_mode, smaller.low, smaller.high), slots
        job = node.source, node.low, children[0].high, node.high, *rows_to_sum
        child_jobs = [
            (histogram, search, child.sums, (child.lower, child.upper))
            for histogram, search, child in zip(histograms, to_search, by_size, strict=True)
        ]
        allowed = self._search.all_features if smaller.features is None else smaller.features
        left_codes = self._search.left_codes(split)
        found = self._splitter.split_node(job, child_jobs, split.feature, left_codes, allowed)
        for child, slot, best in zip(by_size, slots, found, strict=True):
            histogram = pool.histogram(slot)
            child.split = self._search.make_split(best, histogram, child, self._rules)
            self._keep_or_release(child, slot)

    def _split_by_rows(
        self,
        node: Node,
        children: tuple[Node, Node],
        by_size: tuple[Node, Node],
        to_search: tuple[bool, bool],
    ) -> None:
        """Partition, sum and search a node, parallel over rows: of threads or of machines."""
        children[0].high = children[1].low = self._partition(node)
        smaller, larger = by_size
        if self._context.is_distributed:
            if any(to_search):
                combine = _CombineChildren(self._search, self._rules, node.key, by_size, to_search)
                found = self._context.reduce_on_root(lambda: self._sum_histogram(smaller), combine)
                smaller.split, larger.split = found
            return
        pool = self._histograms
        slots = pool.take(), self._histogram_slots.pop(node.key)
        if any(to_search):
            histograms = pool.histogram(slots[0]), pool.histogram(slots[1])
            self._sum_histogram(smaller, histograms[0])
            histograms[1].__isub__(histograms[0])
            search = _FindSplits(self._search, self._rules, by_size, to_search, histograms)
            smaller.split, larger.split = chain(*self._context.run(search, 2))
        for child, slot in zip(by_size, slots, strict=True):
            self._keep_or_release(child, slot)

    def _keep_or_release(self, leaf: Node, slot: int) -> None:
        """Keep the histogram of a leaf that has a split; release that of any other leaf."""
        if leaf.split is None:
            self._histograms.release(slot)
        else:
            self._histogram_slots[leaf.key] = slot

    def _source_and_target(self, node: Node) -> tuple[Rows, Integers | None, Rows, Integers | None]:
        """Return the row list of a node and its packed words, then the other list and its words."""
        lists, packed, source = self.row_lists, self._packed_lists, node.source
        return lists[source], packed[source], lists[1 - source], packed[1 - source]

    def _left_is_smaller(self, children: tuple[Node, Node]) -> bool:
        """Whether the left child has no more rows than the right one, over all machines."""
        left, right = (self._rules.count(child.sums) for child in children)
        return left <= right

    def _push(self, node: Node, number: int, heap: list[tuple[float, int]]) -> None:
        if node.split is not None:
            heapq.heappush(heap, (-node.split.gain, number))

    def _may_split(self, node: Node) -> bool:
        deep = self._max_depth > 0 and node.depth >= self._max_depth
        return not deep and self._rules.may_split(node.sums)

    def _link_parent(self, partial: PartialTree, parent: tuple[int, bool], number: int) -> None:
        """Make split `number` the child of the split above."""
        above, is_right = parent
        if above >= 0:
            (partial.right if is_right else partial.left)[above] = number

    def _child_bounds(
        self, node: Node, split: Split
    ) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return the bounds of the leaf values below each child.

        A split on a monotone feature bounds the leaves of both sides by the midpoint of its
        children's values, so that later splits below cannot violate the constraint.
        """
        sign = self._search.monotone_sign(split)
        if sign == 0:
            return (node.lower, node.upper), (node.lower, node.upper)
        midpoint = 0.5 * sum(
            self._search.node_value(sums, self._rules, node.lower, node.upper)
            for sums in (split.left_sums, split.right_sums)
        )
        if sign > 0:
            return (node.lower, midpoint), (midpoint, node.upper)
        return (midpoint, node.upper), (node.lower, midpoint)

    def _partition(self, node: Node) -> int:
        """Partition the rows of a node stably; return the position of the first right row."""
        assert node.split is not None
        low, size = node.low, node.high - node.low
        lists = self._source_and_target(node)
        column, offsets, step = self._columns
        left_codes = self._search.left_codes(node.split)
        offset = int(offsets[node.split.feature])
        source: tuple[Any, ...] = column, offset, step, left_codes, lists[0]
        small = is_small("rows", size)
        counts = self._context.run(
            lambda first, last: count_left(low + first, low + last, *source), size, small=small
        )
        chunks = self._context.split(size) if len(counts) > 1 else [(0, size)]
        left_before = dict(zip(chunks, np.cumsum([0, *counts]), strict=False))
        middle = low + int(sum(counts))

        def move(first: int, last: int) -> None:
            left = int(left_before[first, last])
            targets = low + left, middle + first - left
            given = low + first, low + last, *targets, *source, *lists[1:]
            partition_rows(*given)

        self._context.run(move, size, small=small)
        return middle


@dataclass(frozen=True)
class _CombineRoot:
    """Sum the machines' histograms of the root node; return its sums and its best split."""

    search: SplitSearch
    rules: Rules
    root: Node
    end: int  # end of the bins of the first feature

    def __call__(
        self, histograms: Sequence[Integers], leaf_histograms: dict[Any, Any]
    ) -> tuple[tuple[int, int], Split | None]:
        histogram = sum_parts(histograms)
        pull, weight_count = histogram[: self.end].sum(axis=0)
        sums = int(pull), int(weight_count)
        leaf_histograms.clear()
        if not self.rules.may_split(sums):
            return sums, None
        leaf_histograms[self.root.key] = histogram
        return sums, self.search.best(histogram, replace(self.root, sums=sums), self.rules)


@dataclass(frozen=True)
class _FindSplits:
    """Search the histograms of two new leaves, the smaller first."""

    search: SplitSearch
    rules: Rules
    leaves: tuple[Node, Node]
    to_search: tuple[bool, bool]
    histograms: tuple[Integers, Integers]

    def __call__(self, low: int, high: int) -> list[Split | None]:
        return [
            self.search.best(self.histograms[i], self.leaves[i], self.rules)
            if self.to_search[i] else None
            for i in range(low, high)
        ]  # fmt: skip


@dataclass(frozen=True)
class _CombineChildren:
    """Sum the machines' histograms of the smaller child; return the best splits of both children.

    The histograms of leaves that have a split are kept under the keys of the leaves.
    """

    search: SplitSearch
    rules: Rules
    parent: int
    leaves: tuple[Node, Node]  # the smaller first
    to_search: tuple[bool, bool]

    def __call__(
        self, histograms: Sequence[Integers], leaf_histograms: dict[int, Integers]
    ) -> list[Split | None]:
        smaller, larger = sum_parts(histograms), leaf_histograms.pop(self.parent)
        larger -= smaller
        both = smaller, larger
        found = _FindSplits(self.search, self.rules, self.leaves, self.to_search, both)(0, 2)
        for node, split, histogram in zip(self.leaves, found, both, strict=True):
            if split is not None:
                leaf_histograms[node.key] = histogram
        return found
