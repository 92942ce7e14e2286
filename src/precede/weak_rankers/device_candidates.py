"""Candidate stumps of RankBoost+ and their linear span, on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from precede.engine.arrays import Floats, Integers
from precede.engine.cuda import Device
from precede.engine.exact import SCALE
from precede.engine.execution import Context
from precede.engine.histograms.columns import suffix_sums
from precede.engine.histograms.device_columns import DeviceColumns
from precede.engine.query_layout import QueryLayout
from precede.engine.table import Table
from precede.weak_rankers.base import Family
from precede.weak_rankers.candidates import PRIME, Candidates, LinearSpan

__all__ = ["DeviceCandidates", "DeviceSpan"]

# Most coordinates of a sketch that a thread block sums in shared memory, and most thread blocks.
MAX_SHARED_WIDTH, MAX_BLOCKS = 6144, 528


class DeviceCandidates(Candidates):
    """Candidate stumps whose edges are summed on a device; pulls and values are on the device."""

    def __init__(self, table: Table, layout: QueryLayout, family: Family, context: Context):
        super().__init__(table, layout, family, context)
        assert context.device is not None
        self._device = context.device
        self._device_columns = DeviceColumns(self._device, table)

    def values(self, number: int) -> Any:
        """Return the values of a candidate for all rows."""
        feature, first = self.feature[number], self.first[number]
        return self._device_columns.values(
            self._device.put(np.array([feature, 0, first, 0], np.int64))
        )

    def edges(self, pull: Floats) -> Floats:
        """Return ``sum_i pull_i h(x_i)`` of every candidate."""
        sums = (
            self._device.get(self._device_columns.sums(pull)).view(np.int64)[:-1].reshape(-1, 256)
        )
        return suffix_sums(sums)[self.feature, self.first] / SCALE


class DeviceSpan(LinearSpan):
    """The linear span of weak rankers whose values are on a device."""

    def __init__(self, device: Device, layout: QueryLayout, max_vectors: int):
        super().__init__(layout, max_vectors)
        self._device, self._reference_on_device = device, device.put(self._reference)

    def vector(self, values: Any) -> Integers:
        """Return the coordinates of a weak ranker."""
        if not self._sketched:
            return super().vector(self._device.get(values))
        coordinates = self._device.zeros(self.width, dtype=np.int64)
        in_shared = self.width <= MAX_SHARED_WIDTH
        self._device.launch(
            "sketch", min(-(-values.size // 256), MAX_BLOCKS), 256, np.int64(values.size), values,
            self._reference_on_device, self.width, int(in_shared), coordinates,
            shared=8 * self.width if in_shared else 0,
        )  # fmt: skip
        residues: Integers = self._device.get(coordinates) % PRIME
        return residues
