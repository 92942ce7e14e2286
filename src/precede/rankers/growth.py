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
from typing import Any

import numpy as np
from numba import njit

from precede.engine.arrays import Bytes, Flags, Integers, Rows
from precede.engine.exact import added
from precede.engine.histogram import RowHistograms
from precede.engine.packing import PackedRows
from precede.engine.workers import Workers, is_small
from precede.rankers.splits import Node, Rules, Split, SplitSearch

__all__ = ["Allowed", "Grown", "Growth"]


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
        Gives the same codes of one feature, for all rows.
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
        columns: Callable[[int], Bytes],
        search: SplitSearch,
        workers: Workers,
    ):
        self._histograms, self._columns = histograms, columns
        self._search, self._workers = search, workers
        self.lists = [np.empty(histograms.n_rows, np.int32) for _ in range(2)]
        self._spare: Integers | None = None

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
        used: list[frozenset[int]] = [frozenset()]
        waiting: list[tuple[float, int]] = []
        self._wait(root, 0, waiting)
        while waiting and len(grown.leaves) < num_leaves:
            _, number = heapq.heappop(waiting)
            node, split = grown.leaves[number], grown.leaves[number].split
            assert split is not None
            at, right = len(grown.splits), len(grown.leaves)
            path = used[number] | {split.feature}
            features = None if allowed is None else allowed(at, path)
            side = self._search.left_codes(split)
            children = self._split(node, split, side, features)
            grown.splits.append(split)
            grown.sides.append(side)
            grown.left.append(-1 - number)
            grown.right.append(-1 - right)
            self._link(grown, origin[number], at)
            grown.leaves[number] = children[0]
            grown.leaves.append(children[1])
            origin[number], used[number] = (at, False), path
            origin.append((at, True))
            used.append(path)
            if len(grown.leaves) < num_leaves:
                self._look(children, (number, right))
                self._wait(children[0], number, waiting)
                self._wait(children[1], right, waiting)
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
            self._packed = [np.empty(0, np.int64)] * 2
        return size

    def _root(self, size: int) -> Node:
        features = None if self._allowed is None else self._allowed(-1, frozenset())
        node = Node(0, size, 0, (0, 0), 0, -np.inf, np.inf, features)
        # All rows are in some bin of the first feature.
        end = int(self._histograms.start[1])
        node.sums, node.split = self._workers.remembering(
            lambda: self._sums(0, 0, size), _SplitOfRoot(self._search, self._rules, node, end)
        )
        return node

    def _sums(self, buffer: int, low: int, high: int) -> Integers:
        packed = None if self._numbers.packed is None else self._packed[buffer]
        return self._histograms.sums(self._numbers, self.lists[buffer], packed, low, high)

    def _look(self, children: tuple[Node, Node], numbers: tuple[int, int]) -> None:
        """Find the best splits of two new leaves, of which the left has the node's number."""
        split = [self._may_split(node) for node in children]
        if not any(split):
            return
        leaves = list(zip(numbers, children, split, strict=True))
        if self._rules.count(children[1].sums) < self._rules.count(children[0].sums):
            leaves.reverse()
        smaller = leaves[0][1]
        found = self._workers.remembering(
            lambda: self._sums(smaller.buffer, smaller.low, smaller.high),
            _SplitsOfLeaves(self._search, self._rules, numbers[0], tuple(leaves)),
        )
        for (_, node, _), best in zip(leaves, found, strict=True):
            node.split = best

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

    def _split(
        self, node: Node, split: Split, side: Flags, features: Flags | None
    ) -> tuple[Node, Node]:
        """Move the rows of a node to its children."""
        middle = self._move(node, split, side)
        buffer, depth = 1 - node.buffer, node.depth + 1
        (least, limit), (floor, most) = self._bounds(node, split)
        return (
            Node(node.low, middle, buffer, split.left_sums, depth, least, limit, features),
            Node(middle, node.high, buffer, split.right_sums, depth, floor, most, features),
        )

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

    def _move(self, node: Node, split: Split, side: Flags) -> int:
        """Put the rows that go left before those that go right; gives where these begin."""
        low, size = node.low, node.high - node.low
        rows, out = self.lists[node.buffer], self.lists[1 - node.buffer]
        packed, packed_out = self._packed[node.buffer], self._packed[1 - node.buffer]
        read = self._columns(split.feature), side, rows, packed, out, packed_out
        if self._workers.jobs == 1 or is_small("rows", size):
            # The sums are of the rows of all machines.
            alone = self._workers.alone
            left = (
                self._rules.count(split.left_sums)
                if alone
                else _count_left(low, node.high, *read[:3])
            )
            _scatter(low, node.high, low, low + left, *read)
            return int(low + left)
        counts = self._workers.run(
            lambda first, last: _count_left(low + first, low + last, *read[:3]), size
        )
        before = dict(zip(self._workers.split(size), np.cumsum([0, *counts]), strict=False))
        middle = low + int(sum(counts))

        def scatter(first: int, last: int) -> None:
            left = int(before[first, last])
            _scatter(low + first, low + last, low + left, middle + first - left, *read)

        self._workers.run(scatter, size)
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
        root = replace(self.root, sums=sums, histogram=histogram)
        kept[0] = histogram
        return sums, self.search.best(root, self.rules)


@dataclass(frozen=True)
class _SplitsOfLeaves:
    """The best splits of two new leaves, from the histograms of the smaller one.

    Histograms of leaves that may be split are kept by the numbers of the leaves.
    """

    search: SplitSearch
    rules: Rules
    parent: int
    leaves: tuple[tuple[int, Node, bool], ...]  # the smaller first; whether it may be split

    def __call__(self, parts: Sequence[Integers], kept: dict[Any, Any]) -> list[Split | None]:
        smaller, larger = added(parts), kept.pop(self.parent)
        larger -= smaller
        found: list[Split | None] = []
        for (number, node, wanted), histogram in zip(self.leaves, (smaller, larger), strict=True):
            split = None
            if wanted:
                split = self.search.best(replace(node, histogram=histogram), self.rules)
            if split is not None:
                kept[number] = histogram
            found.append(split)
        return found


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _count_left(low: int, high: int, column: Bytes, left: Flags, rows: Rows) -> int:
    count = 0
    for i in range(low, high):
        count += 1 if left[column[rows[i]]] else 0
    return count


@njit(cache=True, nogil=True)
def _scatter(
    low: int, high: int, to_left: int, to_right: int, column: Bytes, left: Flags,
    rows: Rows, packed: Integers, out: Rows, packed_out: Integers,
) -> None:  # fmt: skip
    """Copy rows and numbers low..high to where the left and the right ones begin."""
    moving = packed.size > 0
    for i in range(low, high):
        row = rows[i]
        side = 1 if left[column[row]] else 0
        to = to_right + (to_left - to_right) * side  # no branch, which nobody could predict
        out[to] = row
        if moving:
            packed_out[to] = packed[i]
        to_left += side
        to_right += 1 - side
