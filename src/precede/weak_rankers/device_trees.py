"""Trees grown on a GPU: Python chooses which nodes to split; the GPU partitions and sums rows.

The trees have the same bits as those of `precede.weak_rankers.tree_family`. Growth is best-first,
so that the leaves to split are known only one after another, but the split of a leaf does not
depend on the other leaves. Nodes that are likely to be split are therefore split speculatively, in
one batch, so that a tree takes only a few calls of the device.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from precede.engine.arrays import Flags, Floats, Integers, Rows, Signs
from precede.engine.cuda import LISTS, DeviceRows, NodeWork, SearchRules
from precede.engine.exact import all_reduce_sum, hash_seeds
from precede.engine.execution import Context
from precede.engine.pull import Pull
from precede.engine.quantization import QuantizedRows, shared_quantization
from precede.engine.tree_histograms import first_bins
from precede.weak_rankers.base import SearchResult
from precede.weak_rankers.tree_family import TreeSearch
from precede.weak_rankers.tree_grower import (
    AllowedFeatures,
    GrownTree,
    Node,
    PartialTree,
    Rules,
    SplitSearch,
    TreeGrower,
)

# Nodes that are split in one batch: most, and fewest unless there is only one split left.
MAX_BATCH, MIN_BATCH = 128, 8


@dataclass(frozen=True)
class _DeviceHistogram:
    """A histogram on the device, whose bins are fetched on access."""

    rows: DeviceRows
    number: int

    def __getitem__(self, bins: slice) -> Integers:
        return self.rows.bins(self.number, int(bins.start), int(bins.stop))


class DeviceTreeGrower(TreeGrower):
    """Grows trees on the rows of a device.

    Parameters
    ----------
    rows : DeviceRows
    search : SplitSearch, which interprets the splits found by the device
    plain : whether no feature has a monotone constraint
    """

    def __init__(self, rows: DeviceRows, search: SplitSearch, *, plain: bool):
        self._device_rows, self._search, self._plain = rows, search, plain
        # By the key of a leaf: its children (left, right) if it was split speculatively, and the
        # slot of its histogram if it may be split.
        self._children: dict[int, tuple[Node, Node]] = {}
        self._slot_of: dict[int, int] = {}
        self._free: list[int] = []
        self._slots = 0

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
        """Grow a tree best-first, see `TreeGrower.grow`."""
        self._rules, self._max_depth, self._allowed = rules, max_depth, allowed
        penalties = rules.reg_lambda, rules.reg_alpha, rules.cat_smooth
        search_rules = SearchRules(
            rules.units, penalties, rules.min_count, rules.min_weight,
            self._plain and rules.reg_alpha == 0,
        )  # fmt: skip
        root = self._search_root(self._device_rows.begin_tree(quantized, rows, search_rules))
        partial = PartialTree([root])
        # The split above each leaf, and whether the leaf is its right child.
        parents: list[tuple[int, bool]] = [(-1, False)]
        heap: list[tuple[float, int]] = []
        self._push(root, 0, heap)
        while heap and len(partial.leaves) < num_leaves:
            node = partial.leaves[heap[0][1]]
            if node.key not in self._children:
                self._split_likely(partial, heap, num_leaves - len(partial.leaves))
            _, number = heapq.heappop(heap)
            self._replace_leaf(partial, parents, number, self._children.pop(node.key), heap)
        return partial.to_grown_tree()

    def _search_root(self, size: int) -> Node:
        features = None if self._allowed is None else self._allowed(-1, frozenset())
        node = Node(0, size, 0, (0, 0), 0, -np.inf, np.inf, features)
        self._next_key = 1
        self._children.clear()
        self._free, self._slot_of = [*range(self._slots)], {}
        slot = self._take_slot()
        node.sums = self._device_rows.fill_root(slot, size)
        if self._may_split(node):
            work = NodeWork(
                (0, 0), (0, 0), 0, None, (0, 0), (slot, slot), (True, False), (node.sums,) * 2,
                ((node.lower, node.upper),) * 2, features,
            )  # fmt: skip
            self._set_split(node, self._device_rows.search(work), slot)
        return node

    def _take_slot(self) -> int:
        """Take a free slot of the pool of histograms."""
        if not self._free:
            self._free.append(self._slots)
            self._slots += 1
        return self._free.pop()

    def _set_split(self, node: Node, found: Any, slot: int) -> None:
        """Set the best split of a leaf; free the slot of its histogram if there is none."""
        histogram: Any = _DeviceHistogram(self._device_rows, slot)
        node.split = self._search.make_split(found, histogram, node, self._rules)
        if node.split is None:
            self._free.append(slot)
        else:
            self._slot_of[node.key] = slot

    def _split_likely(self, partial: PartialTree, heap: list[tuple[float, int]], left: int) -> None:
        """Split the next leaf and, in the same batch, nodes that are likely to be split later.

        These are the nodes with the largest gains among the other leaves and the children of
        speculatively split leaves, limited by the number of splits `left`.
        """
        at = len(partial.splits)
        chosen = [partial.leaves[heap[0][1]]]
        if self._allowed is None:  # otherwise the allowed features depend on the split's number
            nodes = [partial.leaves[number] for _, number in heap[1:]]
            nodes += [
                child for children in self._children.values() for child in children
                if child.split is not None and child.depth + 3 < LISTS
            ]  # fmt: skip
            likely = [node for node in nodes if node.key not in self._children]
            count = min(max(left - len(self._children), MIN_BATCH), MAX_BATCH)
            chosen += heapq.nsmallest(count - 1 if left > 1 else 0, likely, key=_negative_gain)
        if not self._device_rows.has_room(self._slots + len(chosen) - len(self._free)):
            chosen = chosen[:1]
        by_size = [self._smaller_first(self._add_children(node, at)) for node in chosen]
        batch = [self._node_work(*each, left > 1) for each in zip(chosen, by_size, strict=True)]
        found = self._device_rows.split_nodes(batch)
        for children, work, splits in zip(by_size, batch, found, strict=True):
            for child, slot, split in zip(children, work.slots, splits, strict=True):
                self._set_split(child, split, slot)

    def _add_children(self, node: Node, at: int) -> tuple[Node, Node]:
        """Return the children of a leaf, which are also kept in `_children`."""
        split = node.split
        assert split is not None
        path, features = node.path, None
        if self._allowed is not None:
            path = path | {split.feature}
            features = self._allowed(at, path)
        bounds, depth = self._child_bounds(node, split), node.depth + 1
        middle = node.low + self._rules.count(split.left_sums)
        to = depth if depth < LISTS - 2 else LISTS - 2 + depth % 2
        key, self._next_key = self._next_key, self._next_key + 2
        left, right = split.left_sums, split.right_sums
        self._children[node.key] = (
            Node(node.low, middle, to, left, depth, *bounds[0], features, path, key),
            Node(middle, node.high, to, right, depth, *bounds[1], features, path, key + 1),
        )
        return self._children[node.key]

    def _smaller_first(self, children: tuple[Node, Node]) -> tuple[Node, Node]:
        """Return the children by size; the left one first if they are equal."""
        left, right = children
        return (right, left) if right.high - right.low < left.high - left.low else children

    def _node_work(self, node: Node, by_size: tuple[Node, Node], further: bool) -> NodeWork:
        """Return the work that splits a leaf; children are searched only if `further`."""
        assert node.split is not None
        smaller, larger = by_size
        search = further and self._may_split(smaller), further and self._may_split(larger)
        return NodeWork(
            (node.low, node.high), (node.source, smaller.source),
            node.split.feature, self._search.left_codes(node.split),
            (smaller.low, smaller.high) if any(search) else (0, 0),
            (self._take_slot(), self._slot_of.pop(node.key)), search, (smaller.sums, larger.sums),
            ((smaller.lower, smaller.upper), (larger.lower, larger.upper)), smaller.features,
        )  # fmt: skip


def _negative_gain(node: Node) -> float:
    assert node.split is not None
    return -node.split.gain


class DeviceTreeSearch(TreeSearch):
    """Grows a tree for each pull, on the rows of one table on a device.

    If the pulls are on the CPU, the values of the tree are returned on the CPU.
    """

    def _build_grower(self, monotone: Signs, categorical: Flags) -> None:
        self.backend = self._device = self._context.backend
        self._device_rows = DeviceRows(
            self._device, self._table, self._features, monotone, categorical
        )
        self._device_rows.check_leaves(self._max_leaves())
        start = 256 * np.arange(self._features.size)
        search = SplitSearch(start, self._device_rows.n_bins, monotone, categorical)
        self._grower = DeviceTreeGrower(self._device_rows, search, plain=not monotone.any())

    def _max_leaves(self) -> int:
        """Return an upper bound on the leaves of a tree."""
        family, rows = self._family, self._table.n_used_rows
        by_depth = 2**family.max_depth if 0 < family.max_depth < 32 else family.num_leaves
        by_rows = rows // max(family.min_child_samples, 1)
        return max(1, min(family.num_leaves, by_depth, by_rows))

    def _prepare_sampling(self, pull: Pull | None) -> None:
        super()._prepare_sampling(pull)
        if self._row_keys is not None:  # rows are drawn on the device
            self._row_keys = self._device.put(self._row_keys)

    def _draw_rows(self, attempt: int) -> Rows | None:
        if self._row_keys is None:
            return None
        seeds = hash_seeds(self._family.random_state, self._round, attempt)
        return self._device.draw(self._row_keys, seeds, self._family.subsample * 2.0**53)

    def fit(
        self, pull: Floats, weight: Any, allowed: Flags | None = None, *, rows: float | None = None
    ) -> SearchResult | None:
        """Grow a tree for ``pull / weight``; return None if no split has a gain."""
        given = self._device.put(pull), self._device.put(weight)
        found = super().fit(*given, allowed, rows=rows)
        if found is None or self._device.holds(pull):
            return found
        return replace(found, values=self._device.get(found.values))

    def _quantize(self, pull: Floats, weight: Any) -> QuantizedRows | None:
        return self._device_rows.quantize(pull, weight, wide=self._wide)

    def _leaf_sums(
        self, grown: GrownTree, quantized: QuantizedRows, pull: Floats, weight: Floats
    ) -> tuple[Floats, Floats]:
        bits = quantized.exact_bits
        given = _leaf_ranges(grown), pull, weight, bits
        sums = all_reduce_sum(lambda: self._device_rows.leaf_sums(*given), self._context)
        return np.ldexp(sums[:, 0], -bits[0]), np.ldexp(sums[:, 1], -bits[1])

    def _row_values(self, grown: GrownTree, value: Floats, sampled: bool) -> Floats:
        if not sampled:
            return self._device_rows.leaf_values(_leaf_ranges(grown), value)
        splits = grown.splits
        child = np.array([splits["left"], splits["right"]])
        return self._device_rows.walk(splits["feature"].copy(), grown.left_codes, child, value)


def _leaf_ranges(grown: GrownTree) -> Integers:
    """Return an array (leaves, 3): the range of each leaf's rows and the number of its list."""
    return np.stack([grown.leaves[name] for name in ("low", "high", "source")], axis=1)


# -- Trees grown by several workers, each with its rows on a separate GPU ------------------------
#
# Workers communicate as they do without GPUs (`precede.weak_rankers.tree_grower`): the histograms
# of the smaller children are reduced and searched on the root, which returns the best splits. Each
# GPU partitions and sums the rows of its worker. Sums are integers, so the tree has the same bits
# as one grown on a single CPU.


class MachineTreeGrower(TreeGrower):
    """Grows trees on distributed rows; those of this worker are on a device.

    Parameters
    ----------
    rows : DeviceRows
    search : SplitSearch, used on the root
    context : Context
    """

    def __init__(self, rows: DeviceRows, search: SplitSearch, context: Context):
        self._device_rows, self._search, self._context = rows, search, context
        # Histograms on the device have 256 bins per feature, the last for missing values. In the
        # histograms that are sent, missing values follow the last bin in use.
        code, n_bins = np.arange(256), rows.n_bins[:, None]
        used = (code < n_bins) | (code == 255)
        self._device_bins = np.flatnonzero(used)
        self._sent_bins = (search.start[:-1, None] + np.minimum(code, n_bins))[used]

    def _start_tree(self, rows: Rows | None, num_leaves: int) -> int:  # noqa: ARG002
        self._next_key = 1
        return self._device_rows.begin_tree(self._quantized, rows, None)

    def _stop_helpers(self) -> None:
        """Do nothing: there are no helper threads."""

    def _sum_histogram(self, node: Node, out: Integers | None = None) -> Integers:
        assert out is None
        rows, search = self._device_rows, self._search
        rows.fill(0, node.source, node.low, node.high)
        sums = np.zeros((int(search.start[-1]), 2), np.int64)
        sums[self._sent_bins] = rows.bins(0, 0, 256 * rows.n_bins.size)[self._device_bins]
        return sums

    def _partition(self, node: Node) -> int:
        assert node.split is not None
        lists, goes_left = (node.source, 1 - node.source), self._search.left_codes(node.split)
        given = (node.low, node.high), lists, node.split.feature, goes_left
        return node.low + self._device_rows.partition(*given)


class MachineTreeSearch(DeviceTreeSearch):
    """Grows a tree for each pull together with other workers; pulls and values are on the CPU."""

    def _build_grower(self, monotone: Signs, categorical: Flags) -> None:
        self._device = self._context.tree_backend
        self._device_rows = DeviceRows(
            self._device, self._table, self._features, monotone, categorical
        )
        n_bins = self._device_rows.n_bins
        search = SplitSearch(first_bins(n_bins), n_bins, monotone, categorical)
        self._grower = MachineTreeGrower(self._device_rows, search, self._context)

    def fit(
        self,
        pull: Floats,
        weight: Floats,
        allowed: Flags | None = None,
        *,
        rows: float | None = None,
    ) -> SearchResult | None:
        """Grow a tree for ``pull / weight``; return None if no split has a gain."""
        return TreeSearch.fit(self, pull, weight, allowed, rows=rows)

    def _quantize(self, pull: Floats, weight: Floats) -> QuantizedRows | None:
        plan = shared_quantization(pull, weight, self._context, wide=self._wide)
        if plan is None:
            return None
        self._pull_and_weight = self._device.put(pull), self._device.put(weight)
        return self._device_rows.quantize_by(plan, *self._pull_and_weight)

    def _leaf_sums(
        self,
        grown: GrownTree,
        quantized: QuantizedRows,
        pull: Floats,  # noqa: ARG002
        weight: Floats,  # noqa: ARG002
    ) -> tuple[Floats, Floats]:
        return super()._leaf_sums(grown, quantized, *self._pull_and_weight)

    def _row_values(self, grown: GrownTree, value: Floats, sampled: bool) -> Floats:
        return self._device.get(super()._row_values(grown, value, sampled))
