"""Sums of pulls over the bins of every feature, on a GPU: what `columns` does on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from precede.engine.arrays import Floats
from precede.engine.cuda import GROUP, Device, DeviceRows
from precede.engine.table import Table

__all__ = ["DeviceColumns"]

# Bytes of shared memory of a block, as in `kernels.cu`; blocks that fill histograms (two for each
# of the 132 processors of an H200, four times), and the fewest rows of one.
MEMORY = 3 * GROUP * 257 * 4
FILLING, FEWEST = 1056, 500


class DeviceColumns:
    """The codes of all features of a table on a device, of which pulls are summed over the bins."""

    def __init__(self, device: Device, table: Table):
        none = np.zeros(table.n_features, np.int8)
        chosen = np.arange(table.n_features)
        self._device, self._features = device, table.n_features
        self._rows = DeviceRows(device, table, chosen, none, none.astype(bool))

    def sums(self, pull: Floats) -> Any:
        """Sums of the pulls, as multiples of 2^-61: 256 for each feature, and one that is 0."""
        rows, width = self._rows.n_rows, self._rows.width
        sums = self._device.zeros(width * 256 + 1, dtype=np.uint64)
        size = max(FEWEST, -(-rows * (width // GROUP) // FILLING))
        self._device.launch(
            "stump_fill", (-(-rows // size), width // GROUP), 512, np.int64(rows), np.int64(size),
            width, self._features, self._rows.codes, pull, sums, shared=MEMORY,
        )  # fmt: skip
        return sums

    def values(self, stump: Any) -> Any:
        """Values of a stump: its feature, edge, first code above the threshold, side of missing."""
        rows, values = self._rows, self._device.arrays.empty(self._rows.n_rows, np.uint8)
        self._device.over_rows("stump_values", rows.n_rows, rows.width, rows.codes, stump, values)
        return values
