"""Trees grown by several workers, each with its rows on a separate GPU.

Workers communicate as they do without GPUs (`precede.weak_rankers.tree_grower`): the histograms of
the smaller children are reduced and searched on the root, which returns the best splits. Each GPU
partitions and sums the rows of its worker. Sums are integers, so the tree has the same bits as one
grown on a single CPU.
"""

from __future__ import annotations

import numpy as np

from precede.engine.arrays import Flags, Floats, Integers, Rows, Signs
from precede.engine.cuda import DeviceRows
from precede.engine.execution import Context
from precede.engine.histograms.nodes import first_bins
from precede.engine.quantization import QuantizedRows, shared_quantization
from precede.weak_rankers.base import SearchResult
from precede.weak_rankers.device_trees import DeviceTreeSearch
from precede.weak_rankers.splits import Node, SplitSearch
from precede.weak_rankers.tree_family import TreeSearch
from precede.weak_rankers.tree_grower import GrownTree, TreeGrower

__all__ = ["MachineTreeGrower", "MachineTreeSearch"]


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
        rows.fill(0, node.buffer, node.low, node.high)
        sums = np.zeros((int(search.start[-1]), 2), np.int64)
        sums[self._sent_bins] = rows.bins(0, 0, 256 * rows.n_bins.size)[self._device_bins]
        return sums

    def _partition(self, node: Node) -> int:
        assert node.split is not None
        lists, goes_left = (node.buffer, 1 - node.buffer), self._search.left_codes(node.split)
        given = (node.low, node.high), lists, node.split.feature, goes_left
        return node.low + self._device_rows.partition(*given)


class MachineTreeSearch(DeviceTreeSearch):
    """Grows a tree for each pull together with other workers; pulls and values are on the CPU."""

    on_device = False

    def _build_grower(self, monotone: Signs, categorical: Flags) -> None:
        assert self._context.local_device is not None
        self._device = self._context.local_device
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
