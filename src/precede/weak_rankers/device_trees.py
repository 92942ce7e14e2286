"""Trees grown on a GPU: what is decided is decided here, what is done to rows is done there.

The tree is that of `precede.weak_rankers.tree_family`, bit for bit. The best leaf is split first,
so which
leaves are split is known only one after another; but what becomes of a leaf does not depend on the
others. Nodes that are likely to be split are therefore divided together, before their turn, and
the device is asked a few times for each tree.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from precede.engine.arrays import Flags, Floats, Integers, Rows, Signs
from precede.engine.cuda import LISTS, DeviceRows, NodeWork, SearchRules
from precede.engine.exact import all_reduce_sum
from precede.engine.hashing import hash_seeds
from precede.engine.pull import Pull
from precede.engine.quantization import QuantizedRows
from precede.weak_rankers.base import SearchResult
from precede.weak_rankers.splits import Node, Rules, SplitSearch
from precede.weak_rankers.tree_family import TreeSearch
from precede.weak_rankers.tree_grower import Allowed, Draft, GrownTree, TreeGrower

__all__ = ["DeviceTreeGrower", "DeviceTreeSearch"]

# Nodes that are divided together: most, and fewest unless there is only one split left.
MOST_TOGETHER, FEWEST_TOGETHER = 128, 8


@dataclass(frozen=True)
class _Slot:
    """A histogram on the device, of which bins are fetched when somebody looks at them."""

    rows: DeviceRows
    number: int

    def __getitem__(self, bins: slice) -> Integers:
        return self.rows.bins(self.number, int(bins.start), int(bins.stop))


class DeviceTreeGrower(TreeGrower):
    """Grows trees on the rows of a device.

    Parameters
    ----------
    rows : DeviceRows
    search : SplitSearch, which turns what the device finds into splits
    plain : whether no feature has a direction
    """

    def __init__(self, rows: DeviceRows, search: SplitSearch, *, plain: bool):
        self._device_rows, self._search, self._plain = rows, search, plain
        # Children of leaves that were divided before their turn, the left one first; and histograms
        # of leaves that may be split. Both by the key of the leaf.
        self._children: dict[int, tuple[Node, Node]] = {}
        self._slot_of: dict[int, int] = {}
        self._free: list[int] = []
        self._slots = 0

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
        """Split the leaf with the largest gain until there are enough leaves or no gain is left."""
        self._rules, self._max_depth, self._allowed = rules, max_depth, allowed
        penalties = rules.reg_lambda, rules.reg_alpha, rules.cat_smooth
        limits = SearchRules(
            rules.units, penalties, rules.min_count, rules.min_weight,
            self._plain and rules.reg_alpha == 0,
        )  # fmt: skip
        root = self._search_root(self._device_rows.begin(numbers, rows, limits))
        draft = Draft([root])
        origin: list[tuple[int, bool]] = [(-1, False)]  # the split above each leaf, and its side
        waiting: list[tuple[float, int]] = []
        self._wait(root, 0, waiting)
        while waiting and len(draft.leaves) < num_leaves:
            node = draft.leaves[waiting[0][1]]
            if node.key not in self._children:
                self._divide_likely(draft, waiting, num_leaves - len(draft.leaves))
            _, number = heapq.heappop(waiting)
            self._replace(draft, origin, number, self._children.pop(node.key), waiting)
        return draft.finish()

    def _search_root(self, size: int) -> Node:
        features = None if self._allowed is None else self._allowed(-1, frozenset())
        node = Node(0, size, 0, (0, 0), 0, -np.inf, np.inf, features)
        self._keys = 1
        self._children.clear()
        self._free, self._slot_of = [*range(self._slots)], {}
        slot = self._take()
        node.sums = self._device_rows.sums_of(slot, size)
        if self._may_split(node):
            work = NodeWork(
                (0, 0), (0, 0), 0, None, (0, 0), (slot, slot), (True, False), (node.sums,) * 2,
                ((node.least, node.most),) * 2, features,
            )  # fmt: skip
            self._keep(node, self._device_rows.search(work), slot)
        return node

    def _take(self) -> int:
        """Number of a histogram that nobody needs."""
        if not self._free:
            self._free.append(self._slots)
            self._slots += 1
        return self._free.pop()

    def _keep(self, node: Node, found: Any, slot: int) -> None:
        """Keep the split of a leaf and its histogram, if it has one."""
        histogram: Any = _Slot(self._device_rows, slot)
        node.split = self._search.split(found, histogram, node, self._rules)
        if node.split is None:
            self._free.append(slot)
        else:
            self._slot_of[node.key] = slot

    def _divide_likely(self, draft: Draft, waiting: list[tuple[float, int]], left: int) -> None:
        """Divide the leaf that is split next, and nodes that are likely to be split as well.

        These are other leaves, and children of leaves that were divided before their turn: those
        of the largest gains, so many as there may still be splits (`left`).
        """
        at = len(draft.splits)
        chosen = [draft.leaves[waiting[0][1]]]
        if self._allowed is None:  # else what a node may be split on depends on its number
            open_ = [draft.leaves[number] for _, number in waiting[1:]]
            open_ += [
                child for children in self._children.values() for child in children
                if child.split is not None and child.depth + 3 < LISTS
            ]  # fmt: skip
            likely = [node for node in open_ if node.key not in self._children]
            count = min(max(left - len(self._children), FEWEST_TOGETHER), MOST_TOGETHER)
            chosen += heapq.nsmallest(count - 1 if left > 1 else 0, likely, key=_by_gain)
        if not self._device_rows.has_room(self._slots + len(chosen) - len(self._free)):
            chosen = chosen[:1]
        nodes = [self._smaller_first(self._children_of(node, at)) for node in chosen]
        batch = [self._work(*each, left > 1) for each in zip(chosen, nodes, strict=True)]
        found = self._device_rows.divide(batch)
        for children, work, splits in zip(nodes, batch, found, strict=True):
            for child, slot, split in zip(children, work.slots, splits, strict=True):
                self._keep(child, split, slot)

    def _children_of(self, node: Node, at: int) -> tuple[Node, Node]:
        split = node.split
        assert split is not None
        path, features = node.path, None
        if self._allowed is not None:
            path = path | {split.feature}
            features = self._allowed(at, path)
        bounds, depth = self._bounds(node, split), node.depth + 1
        middle = node.low + self._rules.count(split.left_sums)
        to = depth if depth < LISTS - 2 else LISTS - 2 + depth % 2
        key, self._keys = self._keys, self._keys + 2
        left, right = split.left_sums, split.right_sums
        self._children[node.key] = (
            Node(node.low, middle, to, left, depth, *bounds[0], features, path, key),
            Node(middle, node.high, to, right, depth, *bounds[1], features, path, key + 1),
        )
        return self._children[node.key]

    def _smaller_first(self, children: tuple[Node, Node]) -> tuple[Node, Node]:
        """The child with fewer rows first."""
        left, right = children
        return (right, left) if right.high - right.low < left.high - left.low else children

    def _work(self, node: Node, by_size: tuple[Node, Node], further: bool) -> NodeWork:
        """What is to be done to a leaf that is divided."""
        assert node.split is not None
        smaller, larger = by_size
        wanted = further and self._may_split(smaller), further and self._may_split(larger)
        return NodeWork(
            (node.low, node.high), (node.buffer, smaller.buffer),
            node.split.feature, self._search.left_codes(node.split),
            (smaller.low, smaller.high) if any(wanted) else (0, 0),
            (self._take(), self._slot_of.pop(node.key)), wanted, (smaller.sums, larger.sums),
            ((smaller.least, smaller.most), (larger.least, larger.most)), smaller.features,
        )  # fmt: skip


def _by_gain(node: Node) -> float:
    """The largest gain first."""
    assert node.split is not None
    return -node.split.gain


class DeviceTreeSearch(TreeSearch):
    """Grows a tree for every pull, on the rows of one table on a device.

    Pulls may come from the CPU; then the values of the tree go back there.
    """

    on_device = True

    def _prepare(self, monotone: Signs, categorical: Flags) -> None:
        assert self._context.device is not None
        self._device = self._context.device
        self._on_device = DeviceRows(
            self._device, self._table, self._features, monotone, categorical
        )
        self._on_device.check_leaves(self._most_leaves())
        start = 256 * np.arange(self._features.size)
        search = SplitSearch(start, self._on_device.n_bins, monotone, categorical)
        self._growth = DeviceTreeGrower(self._on_device, search, plain=not monotone.any())

    def _most_leaves(self) -> int:
        """Leaves that a tree has at most."""
        family, rows = self._family, self._table.n_used_rows
        by_depth = 2**family.max_depth if 0 < family.max_depth < 32 else family.num_leaves
        by_rows = rows // max(family.min_child_samples, 1)
        return max(1, min(family.num_leaves, by_depth, by_rows))

    def _prepare_draws(self, pull: Pull | None) -> None:
        super()._prepare_draws(pull)
        if self._keys is not None:  # rows are drawn where they are needed
            self._keys = self._device.put(self._keys)

    def _draw_rows(self, attempt: int) -> Rows | None:
        if self._keys is None:
            return None
        more = hash_seeds(self._family.random_state, self._round, attempt)
        return self._device.draw(self._keys, more, self._family.subsample * 2.0**53)

    def fit(
        self, pull: Floats, weight: Any, allowed: Flags | None = None, *, rows: float | None = None
    ) -> SearchResult | None:
        """Grow a tree for ``pull / weight``; None where no split helps."""
        given = self._device.put(pull), self._device.put(weight)
        found = super().fit(*given, allowed, rows=rows)
        if found is None or self._device.holds(pull):
            return found
        return replace(found, values=self._device.get(found.values))

    def _packed(self, pull: Floats, weight: Any) -> QuantizedRows | None:
        return self._on_device.pack(pull, weight, wide=self._wide)

    def _sums_of_leaves(
        self, grown: GrownTree, numbers: QuantizedRows, pull: Floats, weight: Floats
    ) -> tuple[Floats, Floats]:
        bits = numbers.exact_bits
        given = _ranges(grown), pull, weight, bits
        sums = all_reduce_sum(lambda: self._on_device.leaf_sums(*given), self._context)
        return np.ldexp(sums[:, 0], -bits[0]), np.ldexp(sums[:, 1], -bits[1])

    def _values_of_rows(self, grown: GrownTree, value: Floats, sampled: bool) -> Floats:
        if not sampled:
            return self._on_device.leaf_values(_ranges(grown), value)
        splits = grown.splits
        child = np.array([splits["left"], splits["right"]])
        return self._on_device.walk(splits["feature"].copy(), grown.sides, child, value)


def _ranges(grown: GrownTree) -> Integers:
    """Where the rows of each leaf begin and end, and in which list."""
    return np.stack([grown.leaves[name] for name in ("low", "high", "source")], axis=1)
