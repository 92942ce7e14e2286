"""Candidates of RankBoost+ and their span, on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from precede.engine.arrays import Floats, Integers
from precede.engine.cuda import Device
from precede.engine.exact import SCALE
from precede.engine.execution import Context
from precede.engine.histograms.columns import sums_from
from precede.engine.histograms.device_columns import DeviceColumns
from precede.engine.query_layout import QueryLayout
from precede.engine.table import Table
from precede.weak_rankers.base import Family
from precede.weak_rankers.candidates import PRIME, Candidates, Span

__all__ = ["DeviceCandidates", "DeviceSpan"]

# Coordinates that a block sums up in shared memory, and most blocks that do so.
FEW, BLOCKS = 6144, 528


class DeviceCandidates(Candidates):
    """Candidates whose edges are summed on a device; values are there, and so are pulls."""

    def __init__(self, table: Table, layout: QueryLayout, family: Family, context: Context):
        super().__init__(table, layout, family, context)
        assert context.device is not None
        self._device = context.device
        self._there = DeviceColumns(self._device, table)

    def values(self, number: int) -> Any:
        """Values of a candidate, one for each row."""
        feature, first = self.feature[number], self.first[number]
        return self._there.values(self._device.put(np.array([feature, 0, first, 0], np.int64)))

    def edges(self, pull: Floats) -> Floats:
        """``sum_i pull_i h(x_i)`` of every candidate."""
        sums = self._device.get(self._there.sums(pull)).view(np.int64)[:-1].reshape(-1, 256)
        return sums_from(sums)[self.feature, self.first] / SCALE


class DeviceSpan(Span):
    """The span of rankers whose values are on a device."""

    def __init__(self, device: Device, layout: QueryLayout, most: int):
        super().__init__(layout, most)
        self._device, self._reference_on_device = device, device.put(self._reference)

    def vector(self, values: Any) -> Integers:
        """Represent a ranker by its coordinates."""
        if not self._sketched:
            return super().vector(self._device.get(values))
        coordinates = self._device.zeros(self.width, dtype=np.int64)
        few = self.width <= FEW
        self._device.launch(
            "sketch", min(-(-values.size // 256), BLOCKS), 256, np.int64(values.size), values,
            self._reference_on_device, self.width, int(few), coordinates,
            shared=8 * self.width if few else 0,
        )  # fmt: skip
        found: Integers = self._device.get(coordinates) % PRIME
        return found
