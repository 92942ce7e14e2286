"""Growing one tree: leaf by leaf, the best split first.

The rows of a node stand side by side in a list of row numbers, in their old order. A split moves
them to another list, left child first, and sums the histogram of the smaller child; that of the
larger child is the node's less the smaller one's, exactly, since both are sums of integers. Threads
share the rows of large nodes, and the features of the others. On several machines each holds the
lists of its own rows. The histograms of the smaller children travel to whoever combines them, who
keeps those of all leaves and sends back the best splits.
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

from precede.engine.arrays import Bytes, Flags, Floats, Integers, Rows
from precede.engine.exact import added
from precede.engine.execution import Context, is_small
from precede.engine.histograms.nodes import (
    LEAF,
    NONE,
    SPLIT,
    NodeSplitter,
    RowHistograms,
    count_left,
    scatter,
)
from precede.engine.quantization import QuantizedRows
from precede.weak_rankers.splits import SIDES, Node, Rules, Split, SplitSearch

__all__ = ["Allowed", "Draft", "GrownTree", "TreeGrower"]


# Of nodes of so many cells each thread takes some rows, of smaller ones some features; for trees on
# so few cells no other thread is woken.
SHARED_CELLS, TINY_CELLS = 1 << 23, 1 << 17
# Which features a node may be split on: of the number of the split whose child it is (or -1), and
# of the features on the way down to it.
Allowed = Callable[[int, frozenset[int]], Flags | None]


@dataclass(frozen=True)
class GrownTree:
    """A tree without values.

    Attributes
    ----------
    splits : array of `histograms.nodes.SPLIT`, in the order in which they were made; children
        are numbered as in `precede.weak_rankers.trees.Tree`: a split by its number, leaf k as
        ``-1 - k``
    leaves : array of `precede.engine.histograms.nodes.LEAF`
    bounds : least and greatest value of every leaf
    categories : of splits by categories, by their number: which of the 256 codes go left
    """

    splits: NDArray[Any] = field(default_factory=lambda: np.zeros(0, SPLIT))
    leaves: NDArray[Any] = field(default_factory=lambda: np.zeros(0, LEAF))
    bounds: Floats = field(default_factory=lambda: np.zeros((0, 2)))
    categories: dict[int, Flags] = field(default_factory=dict)

    @cached_property
    def sides(self) -> Flags:
        """Which of the 256 codes go left, for every split; 255 is for missing values."""
        sides: Flags = SIDES[self.splits["way"], self.splits["cut"]]
        for number, codes in self.categories.items():
            sides[number] = codes
        return sides

    @cached_property
    def ranges(self) -> tuple[Rows, Integers, Integers]:
        """Leaves as their rows stand in the lists, where those of each end, and in which list."""
        order = self.leaves["low"].argsort(kind="stable")
        return order.astype(np.int32), self.leaves["high"][order], self.leaves["source"][order]


@dataclass
class Draft:
    """A tree that is being grown node by node; see `Grown`."""

    leaves: list[Node]
    splits: list[Split] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)

    def finish(self) -> GrownTree:
        """The same as arrays."""
        splits, leaves = np.zeros(len(self.splits), SPLIT), np.zeros(len(self.leaves), LEAF)
        for name in ("feature", "cut", "way", "gain"):
            splits[name] = [getattr(split, name) for split in self.splits]
        splits["left"], splits["right"] = self.left, self.right
        for k, leaf in enumerate(self.leaves):
            leaves[k]["source"], leaves[k]["low"], leaves[k]["high"] = (
                leaf.buffer, leaf.low, leaf.high
            )  # fmt: skip
            leaves[k]["pull"], leaves[k]["weight"] = leaf.sums
            leaves[k]["depth"] = leaf.depth
        bounds = np.array([(leaf.least, leaf.most) for leaf in self.leaves])
        kept = {k: s.categories for k, s in enumerate(self.splits) if s.categories is not None}
        return GrownTree(splits, leaves, bounds, kept)


class TreeGrower:
    """Grows trees on the rows of one table.

    Parameters
    ----------
    histograms : RowHistograms
        The codes by row, and sums over them.
    columns : tuple
        The codes by column as one array, where those of each feature begin, and the step from one
        row to the next.
    search : SplitSearch
        Finds the best split of a node.
    context : Context
        Threads, and the other machines.

    Attributes
    ----------
    lists : the two lists of row numbers, in which the leaves of the last tree are ranges
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
        self.lists = [np.empty(histograms.n_rows, np.int32) for _ in range(2)]
        self._divider = NodeSplitter(
            histograms, self.lists, columns, search.monotone, search.categorical, context
        )
        self._spare: Integers | None = None
        self._packed: list[Integers | None] = [None, None]
        self._kept: dict[int, int] = {}  # histograms of leaves that may be split

    def grow(
        self,
        numbers: QuantizedRows,
        rules: Rules,
        num_leaves: int,
        max_depth: int,
        *,
        rows: Rows | None = None,
        allowed: Allowed | None = None,
    ) -> GrownTree:
        """Split the leaf with the largest gain until there are enough leaves or no gain is left.

        `rows` are the numbers of the rows to grow on; all by default. `allowed` says which
        features a node may be split on. O(rows · features · depth) at most; half of it where the
        halves of every split are equal.
        """
        self._numbers, self._rules, self._max_depth = numbers, rules, max_depth
        self._allowed = allowed
        size = self._start(rows, num_leaves)
        try:
            root = self._root(size)
            simple = allowed is None and self._search.ordinary and not self._context.is_distributed
            if simple and root.split is not None and not self._shared_by_rows(root):
                return self._grow_at_once(root, num_leaves)
            return self._grow(root, num_leaves)
        finally:
            self._leave()

    def _grow(self, root: Node, num_leaves: int) -> GrownTree:
        draft = Draft([root])
        origin: list[tuple[int, bool]] = [(-1, False)]  # the split above each leaf, and its side
        waiting: list[tuple[float, int]] = []
        self._wait(root, 0, waiting)
        while waiting and len(draft.leaves) < num_leaves:
            _, number = heapq.heappop(waiting)
            further = len(draft.leaves) + 1 < num_leaves
            children = self._divide(draft.leaves[number], len(draft.splits), further)
            self._replace(draft, origin, number, children, waiting)
        return draft.finish()

    def _replace(
        self,
        draft: Draft,
        origin: list[tuple[int, bool]],
        number: int,
        children: tuple[Node, Node],
        waiting: list[tuple[float, int]],
    ) -> None:
        """Make a leaf a split: its first child gets its number, the second a new one."""
        split, at, beyond = draft.leaves[number].split, len(draft.splits), len(draft.leaves)
        assert split is not None
        draft.splits.append(split)
        draft.left.append(-1 - number)
        draft.right.append(-1 - beyond)
        self._link(draft, origin[number], at)
        draft.leaves[number] = children[0]
        draft.leaves.append(children[1])
        origin[number] = (at, False)
        origin.append((at, True))
        self._wait(children[0], number, waiting)
        self._wait(children[1], beyond, waiting)

    def _grow_at_once(self, root: Node, num_leaves: int) -> GrownTree:
        """The same in one call of a kernel, where all nodes may be split alike."""
        split = root.split
        assert split is not None
        leaf = (
            root.buffer, root.low, root.high, *root.sums, 0, self._kept[root.key], -1, 0,
            split.feature, split.cut, split.way, *split.left_sums, split.gain,
        )  # fmt: skip
        leaves, splits = self._divider.grow(leaf, num_leaves, self._max_depth)
        return GrownTree(splits, leaves, np.full((leaves.size, 2), (-np.inf, np.inf)))

    # -- steps -----------------------------------------------------------------------------

    def _start(self, rows: Rows | None, num_leaves: int) -> int:
        """Fill the first list of rows, and of their packed numbers; gives their number."""
        packed = self._numbers.packed
        if rows is None:
            size = self.lists[0].size
            self.lists[0][:] = np.arange(size, dtype=np.int32)
        else:
            size = rows.size
            self.lists[0][:size] = rows
        if packed is not None:
            if self._spare is None:
                self._spare = np.empty(self.lists[0].size, np.int64)
            self._packed = [packed if rows is None else packed[rows], self._spare]
        else:
            self._packed = [None, None]
        self._keys = 1
        self._kept.clear()
        if not self._context.is_distributed:
            # Leaves that may be split, which keep their histograms, have no row in common.
            most = size // (2 * max(self._rules.min_count, 1)) + 3
            self._histograms.reserve(min(num_leaves + 1, most))
            record = self._search.record(self._rules)
            self._divider.begin(self._numbers, self._packed, record)
        return size

    def _root(self, size: int) -> Node:
        features = None if self._allowed is None else self._allowed(-1, frozenset())
        node = Node(0, size, 0, (0, 0), 0, -np.inf, np.inf, features)
        if self._context.is_distributed:
            # All rows are in some bin of the first feature.
            end = int(self._search.start[1])
            combine = _SplitOfRoot(self._search, self._rules, node, end)
            node.sums, node.split = self._context.reduce_on_root(lambda: self._sums(node), combine)
            return node
        numbers = self._numbers
        node.sums = self._histograms.total(numbers, self.lists[0], self._packed[0], size)
        if not self._rules.may_split(node.sums):
            return node
        number = self._histograms.take()
        histogram = self._histograms.histogram(number)
        if self._shared_by_rows(node):
            self._sums(node, histogram)
            node.split = self._search.best(histogram, node, self._rules)
        else:
            self._share_features(node)
            form = self._histograms.form(numbers, size)
            children = (
                (number, True, node.sums, (node.least, node.most)), (-1, False, (0, 0), (0.0, 0.0))
            )  # fmt: skip
            allowed = self._search.all if features is None else features
            division = 1, 0, 0, 0, form, 0, size
            found, _ = self._divider.divide(division, children, 0, SIDES[0, 0], allowed)
            node.split = self._search.split(found, histogram, node, self._rules)
        if node.split is not None:
            self._kept[node.key] = number
        return node

    def _cells(self, node: Node) -> int:
        return (node.high - node.low) * self._histograms.codes.shape[1]

    def _shared_by_rows(self, node: Node) -> bool:
        """Whether threads share the rows of a node rather than the features."""
        return self._context.jobs > 1 and self._cells(node) >= SHARED_CELLS

    def _share_features(self, node: Node) -> None:
        """Have other threads help with a node, and with all that come after it."""
        if self._cells(node) >= TINY_CELLS:
            self._divider.join()

    def _leave(self) -> None:
        """Let other threads that help with nodes go."""
        self._divider.leave()

    def _sums(self, node: Node, out: Integers | None = None) -> Integers:
        lists = self.lists[node.buffer], self._packed[node.buffer]
        return self._histograms.sums(self._numbers, *lists, node.low, node.high, out)

    def _divide(self, node: Node, at: int, further: bool) -> tuple[Node, Node]:
        """Move the rows of a leaf to its children and, if asked to, find their best splits."""
        children = self._make_children(node, at)
        smaller, larger = children if self._first_is_smaller(children) else children[::-1]
        wanted = further and self._may_split(smaller), further and self._may_split(larger)
        if not self._context.is_distributed and not self._shared_by_rows(node):
            self._divide_by_features(node, children, (smaller, larger), wanted)
        else:
            self._leave()
            self._divide_by_rows(node, children, (smaller, larger), wanted)
        return children

    def _make_children(self, node: Node, at: int) -> tuple[Node, Node]:
        """The children of a leaf; of several machines none knows yet which rows they have."""
        split = node.split
        assert split is not None
        path, features = node.path, None
        if self._allowed is not None:
            path = path | {split.feature}
            features = self._allowed(at, path)
        bounds = self._bounds(node, split)
        middle = node.low + self._rules.count(split.left_sums)
        to, depth, key = 1 - node.buffer, node.depth + 1, self._keys
        self._keys += 2
        return (
            Node(node.low, middle, to, split.left_sums, depth, *bounds[0], features, path, key),
            Node(middle, node.high, to, split.right_sums, depth, *bounds[1], features, path,
                 key + 1),
        )  # fmt: skip

    def _divide_by_features(
        self,
        node: Node,
        children: tuple[Node, Node],
        by_size: tuple[Node, Node],
        wanted: tuple[bool, bool],
    ) -> None:
        """Every thread takes some features."""
        self._share_features(node)
        split, smaller, pool = node.split, by_size[0], self._histograms
        assert split is not None
        numbers = pool.take(), self._kept.pop(node.key)
        summing, histograms = (NONE, 0, 0), (0, -1)
        if any(wanted):
            form = pool.form(self._numbers, smaller.high - smaller.low)
            summing, histograms = (form, smaller.low, smaller.high), numbers
        division = node.buffer, node.low, children[0].high, node.high, *summing
        given = [
            (histogram, search, child.sums, (child.least, child.most))
            for histogram, search, child in zip(histograms, wanted, by_size, strict=True)
        ]
        allowed = self._search.all if smaller.features is None else smaller.features
        side = self._search.left_codes(split)
        found = self._divider.divide(division, given, split.feature, side, allowed)
        for child, number, best in zip(by_size, numbers, found, strict=True):
            child.split = self._search.split(best, pool.histogram(number), child, self._rules)
            self._keep_histogram(child, number)

    def _divide_by_rows(
        self,
        node: Node,
        children: tuple[Node, Node],
        by_size: tuple[Node, Node],
        wanted: tuple[bool, bool],
    ) -> None:
        """Every thread, or machine, takes some rows."""
        children[0].high = children[1].low = self._move(node)
        smaller, larger = by_size
        if self._context.is_distributed:
            if any(wanted):
                combine = _SplitsOfLeaves(self._search, self._rules, node.key, by_size, wanted)
                found = self._context.reduce_on_root(lambda: self._sums(smaller), combine)
                smaller.split, larger.split = found
            return
        pool = self._histograms
        numbers = pool.take(), self._kept.pop(node.key)
        if any(wanted):
            histograms = pool.histogram(numbers[0]), pool.histogram(numbers[1])
            self._sums(smaller, histograms[0])
            histograms[1].__isub__(histograms[0])
            search = _Searching(self._search, self._rules, by_size, wanted, histograms)
            smaller.split, larger.split = chain(*self._context.run(search, 2))
        for child, number in zip(by_size, numbers, strict=True):
            self._keep_histogram(child, number)

    def _keep_histogram(self, leaf: Node, number: int) -> None:
        """Keep the histogram of a leaf that may be split, and let that of any other go."""
        if leaf.split is None:
            self._histograms.release(number)
        else:
            self._kept[leaf.key] = number

    def _lists(self, node: Node) -> tuple[Rows, Integers | None, Rows, Integers | None]:
        """Rows and their packed numbers, where they are and where they are moved to."""
        one, other = node.buffer, 1 - node.buffer
        return self.lists[one], self._packed[one], self.lists[other], self._packed[other]

    def _first_is_smaller(self, children: tuple[Node, Node]) -> bool:
        """Whether the first of two children has no more rows than the second, of all machines."""
        one, other = (self._rules.count(child.sums) for child in children)
        return one <= other

    def _wait(self, node: Node, number: int, waiting: list[tuple[float, int]]) -> None:
        if node.split is not None:
            heapq.heappush(waiting, (-node.split.gain, number))

    def _may_split(self, node: Node) -> bool:
        deep = self._max_depth > 0 and node.depth >= self._max_depth
        return not deep and self._rules.may_split(node.sums)

    def _link(self, draft: Draft, origin: tuple[int, bool], at: int) -> None:
        """Let the split above a leaf lead to the split that replaces it."""
        above, right = origin
        if above >= 0:
            (draft.right if right else draft.left)[above] = at

    def _bounds(self, node: Node, split: Split) -> tuple[tuple[float, float], tuple[float, float]]:
        """Bounds of the values below each child.

        A split of a feature with a direction puts a bound halfway between the values of its
        children, which all leaves on either side respect: whatever else is split below, no leaf
        on the left can pass one on the right.
        """
        sign = self._search.direction_of(split)
        if sign == 0:
            return (node.least, node.most), (node.least, node.most)
        between = 0.5 * sum(
            self._search.value_of(sums, self._rules, node.least, node.most)
            for sums in (split.left_sums, split.right_sums)
        )
        if sign > 0:
            return (node.least, between), (between, node.most)
        return (between, node.most), (node.least, between)

    def _move(self, node: Node) -> int:
        """Put the rows that go left before those that go right; gives where these begin."""
        assert node.split is not None
        low, size = node.low, node.high - node.low
        lists = self._lists(node)
        column, offsets, step = self._columns
        side = self._search.left_codes(node.split)
        offset = int(offsets[node.split.feature])
        read: tuple[Any, ...] = column, offset, step, side, lists[0]
        small = is_small("rows", size)
        counts = self._context.run(
            lambda first, last: count_left(low + first, low + last, *read), size, small=small
        )
        parts = self._context.split(size) if len(counts) > 1 else [(0, size)]
        before = dict(zip(parts, np.cumsum([0, *counts]), strict=False))
        middle = low + int(sum(counts))

        def move(first: int, last: int) -> None:
            left = int(before[first, last])
            to = low + left, middle + first - left
            given = low + first, low + last, *to, *read, *lists[1:]
            scatter(*given)

        self._context.run(move, size, small=small)
        return middle


@dataclass(frozen=True)
class _SplitOfRoot:
    """The sums of the root and its best split, from the histograms of all machines."""

    search: SplitSearch
    rules: Rules
    root: Node
    end: int  # of the bins of the first feature

    def __call__(
        self, parts: Sequence[Integers], kept: dict[Any, Any]
    ) -> tuple[tuple[int, int], Split | None]:
        histogram = added(parts)
        pull, weight_count = histogram[: self.end].sum(axis=0)
        sums = int(pull), int(weight_count)
        kept.clear()
        if not self.rules.may_split(sums):
            return sums, None
        kept[self.root.key] = histogram
        return sums, self.search.best(histogram, replace(self.root, sums=sums), self.rules)


@dataclass(frozen=True)
class _Searching:
    """Searches the histograms of two new leaves, the smaller first."""

    search: SplitSearch
    rules: Rules
    leaves: tuple[Node, Node]
    wanted: tuple[bool, bool]  # whether they may be split
    histograms: tuple[Integers, Integers]

    def __call__(self, low: int, high: int) -> list[Split | None]:
        return [
            self.search.best(self.histograms[i], self.leaves[i], self.rules)
            if self.wanted[i] else None
            for i in range(low, high)
        ]  # fmt: skip


@dataclass(frozen=True)
class _SplitsOfLeaves:
    """The best splits of two new leaves, from the histograms of the smaller one on all machines.

    Histograms of leaves that may be split are kept by the keys of the leaves.
    """

    search: SplitSearch
    rules: Rules
    parent: int
    leaves: tuple[Node, Node]  # the smaller first
    wanted: tuple[bool, bool]

    def __call__(self, parts: Sequence[Integers], kept: dict[int, Integers]) -> list[Split | None]:
        smaller, larger = added(parts), kept.pop(self.parent)
        larger -= smaller
        histograms = smaller, larger
        found = _Searching(self.search, self.rules, self.leaves, self.wanted, histograms)(0, 2)
        for node, split, histogram in zip(self.leaves, found, histograms, strict=True):
            if split is not None:
                kept[node.key] = histogram
        return found
