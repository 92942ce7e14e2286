"""Growing one tree: leaf by leaf, the best split first.

The rows of a node stand side by side in a list of row numbers, in their old order. A split moves
them to another list, left child first, and sums the histogram of the smaller child; that of the
larger child is the node's less the smaller one's, exactly, since both are sums of integers. On
several machines each holds the lists of its own rows. The histograms of the smaller children travel
to whoever combines them, who keeps those of all leaves and sends back the best splits.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np

from precede.engine.arrays import Bytes, Flags, Integers, Rows
from precede.engine.exact import added
from precede.engine.nodes import NO_INTEGERS, RowHistograms, count_left, divide, scatter
from precede.engine.packing import PackedRows
from precede.engine.workers import Workers, is_small
from precede.rankers.splits import Node, Rules, Split, SplitSearch

__all__ = ["Allowed", "Grown", "Growth"]


# Nodes of so many cells are shared between threads; of smaller ones each thread takes several;
# the smallest are not worth waking another thread.
SHARED_CELLS, TINY_CELLS = 1 << 23, 1 << 18
# Which features a node may be split on: of the number of the split whose child it is (or -1), and
# of the features on the way down to it.
Allowed = Callable[[int, frozenset[int]], Flags | None]


@dataclass
class Grown:
    """A tree without values: its splits in the order in which they were made, and its leaves.

    `sides` says which of the 256 codes go left. Children are numbered as in
    `precede.rankers.trees.Tree`: a split by its number, leaf k as ``-1 - k``.
    """

    splits: list[Split] = field(default_factory=list)
    sides: list[Flags] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    leaves: list[Node] = field(default_factory=list)


class Growth:
    """Grows trees on the rows of one table.

    Parameters
    ----------
    histograms : RowHistograms
        The codes by row, and sums over them.
    columns : function of a number of a feature
        Says where its codes are: an array, the position of the first and the step to the next.
    search : SplitSearch
        Finds the best split of a node.
    workers : Workers
        Threads, and the other machines.

    Attributes
    ----------
    lists : the two lists of row numbers, in which the leaves of the last tree are ranges
    """

    def __init__(
        self,
        histograms: RowHistograms,
        columns: Callable[[int], tuple[Bytes, int, int]],
        search: SplitSearch,
        workers: Workers,
    ):
        self._histograms, self._columns = histograms, columns
        self._search, self._workers = search, workers
        self.lists = [np.empty(histograms.n_rows, np.int32) for _ in range(2)]
        self._spare: Integers | None = None
        self._kept: dict[int, Integers] = {}

    def grow(
        self,
        numbers: PackedRows,
        rules: Rules,
        num_leaves: int,
        max_depth: int,
        *,
        rows: Rows | None = None,
        allowed: Allowed | None = None,
    ) -> Grown:
        """Split the leaf with the largest gain until there are enough leaves or no gain is left.

        `rows` are the numbers of the rows to grow on; all by default. `allowed` says which
        features a node may be split on. O(rows · features · depth) at most; half of it where the
        halves of every split are equal.
        """
        self._numbers, self._rules, self._max_depth = numbers, rules, max_depth
        self._allowed = allowed
        root = self._root(self._start(rows))
        grown = Grown(leaves=[root])
        origin: list[tuple[int, bool]] = [(-1, False)]  # the split above each leaf, and its side
        waiting: list[tuple[float, int]] = []
        self._wait(root, 0, waiting)
        while waiting and len(grown.leaves) < num_leaves:
            _, number = waiting[0]
            node = grown.leaves[number]
            if node.children is None:
                self._divide_first(grown, waiting, num_leaves - len(grown.leaves))
            heapq.heappop(waiting)
            assert node.split is not None
            assert node.side is not None
            assert node.children is not None
            at, right = len(grown.splits), len(grown.leaves)
            grown.splits.append(node.split)
            grown.sides.append(node.side)
            grown.left.append(-1 - number)
            grown.right.append(-1 - right)
            self._link(grown, origin[number], at)
            grown.leaves[number] = node.children[0]
            grown.leaves.append(node.children[1])
            origin[number] = (at, False)
            origin.append((at, True))
            self._wait(node.children[0], number, waiting)
            self._wait(node.children[1], right, waiting)
        return grown

    # -- steps -----------------------------------------------------------------------------

    def _start(self, rows: Rows | None) -> int:
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
            self._packed = [NO_INTEGERS] * 2
        return size

    def _root(self, size: int) -> Node:
        features = None if self._allowed is None else self._allowed(-1, frozenset())
        node = Node(0, size, 0, (0, 0), 0, -np.inf, np.inf, features)
        self._keys = 1
        while self._kept:
            self._histograms.release(self._kept.popitem()[1])
        # All rows are in some bin of the first feature.
        end = int(self._histograms.start[1])
        node.sums, node.split = self._combined(
            lambda: self._sums(node), _SplitOfRoot(self._search, self._rules, node, end)
        )
        return node

    def _sums(self, node: Node) -> Integers:
        lists = self.lists[node.buffer], self._packed[node.buffer]
        return self._histograms.sums(self._numbers, *lists, node.low, node.high)

    def _combined(
        self,
        part: Callable[[], Integers],
        combine: Callable[[Sequence[Integers], dict[int, Integers]], Any],
    ) -> Any:
        """Combine the histograms of all machines with those that are kept."""
        if self._workers.alone:
            return combine([part()], self._kept)
        return self._workers.remembering(part, combine)

    def _divide_first(self, grown: Grown, waiting: list[tuple[float, int]], left: int) -> None:
        """Divide the leaf that is split next; `left` is how many splits there may still be.

        A large one is shared between threads. Of smaller ones each thread takes some: all whose
        gains are so large that they are likely to be split as well. What becomes of a leaf does
        not depend on other leaves, so the tree is the same.
        """
        first, at = grown.leaves[waiting[0][1]], len(grown.splits)
        size, jobs = self._cells(first), self._workers.jobs
        if not self._workers.alone or (jobs > 1 and size >= SHARED_CELLS):
            self._make_children(first, at)
            self._divide(first, left > 1)
            return
        several = jobs > 1 and self._allowed is None and size >= TINY_CELLS
        nodes = []
        for order, (_, number) in enumerate(
            heapq.nsmallest((left + 1) // 2 if several else 1, waiting)
        ):
            node = grown.leaves[number]
            if order == 0 or (
                several and node.children is None and self._cells(node) < SHARED_CELLS
            ):
                self._make_children(node, at)
                nodes.append((node, left - order > 1))
        self._divide_alone(nodes)

    def _cells(self, node: Node) -> int:
        return (node.high - node.low) * self._histograms.codes.shape[1]

    def _make_children(self, node: Node, at: int) -> None:
        """Give a node its children; where the rows of the second begin is known later."""
        split = node.split
        assert split is not None
        path = node.path | {split.feature}
        features = None if self._allowed is None else self._allowed(at, path)
        left, right = (
            Node(node.low, node.high, 1 - node.buffer, sums, node.depth + 1, *bound, features, path)
            for sums, bound in zip(
                (split.left_sums, split.right_sums), self._bounds(node, split), strict=True
            )
        )
        left.key, right.key = self._keys, self._keys + 1
        self._keys += 2
        node.children = left, right
        node.side = self._search.left_codes(split)

    def _divide(self, node: Node, further: bool) -> None:
        """Move the rows of a leaf to its children and, if asked to, find their best splits."""
        assert node.children is not None
        left, right = node.children
        left.high = right.low = self._move(node)
        smaller, larger = self._by_size(node)
        wanted = further and self._may_split(smaller), further and self._may_split(larger)
        if any(wanted):
            leaves = smaller, larger
            run = self._workers.run if self._workers.alone else None
            smaller.split, larger.split = self._combined(
                lambda: self._sums(smaller),
                _SplitsOfLeaves(self._search, self._rules, node.key, leaves, wanted, run),
            )

    def _divide_alone(self, nodes: list[tuple[Node, bool]]) -> None:
        """The same for several leaves, each by one thread in one call."""
        calls = [self._call(node, further) for node, further in nodes]
        shares = _shares(nodes, self._workers.jobs)
        found: list[Any] = [None] * len(nodes)

        def work(low: int, high: int) -> None:
            block = self._histograms.take_block(self._numbers)
            for number in chain(*shares[low:high]):
                move, summing, *rest = calls[number]
                found[number] = divide(move, summing, block, *rest)
            self._histograms.release_block(block)

        self._workers.run(work, len(shares))
        for (node, _), call, splits in zip(nodes, calls, found, strict=True):
            both = zip(self._by_size(node), call[2:4], splits, strict=True)
            for child, sums, split in both:
                child.split = self._search.split(split, sums, child, self._rules)
                if child.split is None:
                    self._histograms.release(sums)
                else:
                    self._kept[child.key] = sums

    def _call(self, node: Node, further: bool) -> tuple[Any, ...]:
        """What `divide` needs to divide a leaf, but for the memory of the thread."""
        assert node.children is not None
        assert node.split is not None
        left, right = node.children
        left.high = right.low = middle = node.low + self._rules.count(left.sums)
        smaller, larger = self._by_size(node)
        wanted = further and self._may_split(smaller), further and self._may_split(larger)
        low, high = (smaller.low, smaller.high) if any(wanted) else (0, 0)
        column, offset, step = self._columns(node.split.feature)
        return (
            ((node.low, middle, node.high, offset, step), column, node.side, *self._lists(node)),
            self._histograms.summing(self._numbers, low, high), self._histograms.take(),
            self._kept.pop(node.key), (self._search.start, self._search.n_bins),
            self._search.searching(smaller, larger, wanted, self._rules),
        )  # fmt: skip

    def _lists(self, node: Node) -> tuple[Rows, Integers, Rows, Integers]:
        """Rows and their packed numbers, where they are and where they are moved to."""
        one, other = node.buffer, 1 - node.buffer
        return self.lists[one], self._packed[one], self.lists[other], self._packed[other]

    def _by_size(self, node: Node) -> tuple[Node, Node]:
        """The children, the one with fewer rows first."""
        assert node.children is not None
        left, right = node.children
        smaller = self._rules.count(right.sums) < self._rules.count(left.sums)
        return (right, left) if smaller else (left, right)

    def _wait(self, node: Node, number: int, waiting: list[tuple[float, int]]) -> None:
        if node.split is not None:
            heapq.heappush(waiting, (-node.split.gain, number))

    def _may_split(self, node: Node) -> bool:
        deep = self._max_depth > 0 and node.depth >= self._max_depth
        return not deep and self._rules.may_split(node.sums)

    def _link(self, grown: Grown, origin: tuple[int, bool], at: int) -> None:
        """Let the split above a leaf lead to the split that takes its place."""
        above, right = origin
        if above >= 0:
            (grown.right if right else grown.left)[above] = at

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
        read: tuple[Any, ...] = *self._columns(node.split.feature), node.side, lists[0]
        small = is_small("rows", size)
        counts = self._workers.run(
            lambda first, last: count_left(low + first, low + last, *read), size, small=small
        )
        parts = self._workers.split(size) if len(counts) > 1 else [(0, size)]
        before = dict(zip(parts, np.cumsum([0, *counts]), strict=False))
        middle = low + int(sum(counts))

        def move(first: int, last: int) -> None:
            left = int(before[first, last])
            to = low + left, middle + first - left
            given = low + first, low + last, *to, *read, *lists[1:]
            scatter(*given)

        self._workers.run(move, size, small=small)
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
class _SplitsOfLeaves:
    """The best splits of two new leaves, from the histograms of the smaller one.

    Histograms of leaves that may be split are kept by the keys of the leaves.
    """

    search: SplitSearch
    rules: Rules
    parent: int
    leaves: tuple[Node, Node]  # the smaller first
    wanted: tuple[bool, bool]  # whether they may be split
    run: Callable[..., Any] | None  # shares work between threads

    def __call__(self, parts: Sequence[Integers], kept: dict[int, Integers]) -> list[Split | None]:
        smaller, larger = added(parts), kept.pop(self.parent)
        larger -= smaller

        def best(low: int, high: int) -> list[Split | None]:
            return [
                self.search.best((smaller, larger)[i], self.leaves[i], self.rules)
                if self.wanted[i] else None
                for i in range(low, high)
            ]  # fmt: skip

        found = best(0, 2) if self.run is None else [*chain(*self.run(best, 2))]
        for node, split, histogram in zip(self.leaves, found, (smaller, larger), strict=True):
            if split is not None:
                kept[node.key] = histogram
        return found


def _shares(nodes: list[tuple[Node, bool]], jobs: int) -> list[list[int]]:
    """Deal the numbers of nodes out to threads, so that all have about as many rows."""
    shares: list[list[int]] = [[] for _ in range(min(jobs, len(nodes)))]
    rows = [0] * len(shares)
    sizes = [node.high - node.low for node, _ in nodes]
    for number in sorted(range(len(nodes)), key=lambda each: -sizes[each]):
        least = rows.index(min(rows))
        shares[least].append(number)
        rows[least] += sizes[number] + 1000  # a search takes as long as some rows
    return shares
