"""Histograms of pulls over all rows of a table on a GPU, the counterpart of `columns`."""

from __future__ import annotations

from typing import Any

import numpy as np

from precede.engine.arrays import Floats
from precede.engine.cuda import GROUP, Device, DeviceRows
from precede.engine.table import Table

__all__ = ["DeviceColumns"]

# Shared memory of a thread block in bytes, as in `kernels.cu`.
SHARED_BYTES = 3 * GROUP * 257 * 4
# Thread blocks to aim for (four times two for each of the 132 multiprocessors of an H200), and the
# fewest rows of one.
TARGET_BLOCKS, MIN_BLOCK_ROWS = 1056, 500


class DeviceColumns:
    """The codes of all features of a table on a device, for summing pulls over bins."""

    def __init__(self, device: Device, table: Table):
        monotone = np.zeros(table.n_features, np.int8)
        features = np.arange(table.n_features)
        self._device, self._features = device, table.n_features
        self._rows = DeviceRows(device, table, features, monotone, monotone.astype(bool))

    def sums(self, pull: Floats) -> Any:
        """Sum the pulls over bins, in units of 2^-61: 256 sums per feature, then a single 0."""
        rows, width = self._rows.n_rows, self._rows.width
        sums = self._device.zeros(width * 256 + 1, dtype=np.uint64)
        size = max(MIN_BLOCK_ROWS, -(-rows * (width // GROUP) // TARGET_BLOCKS))
        self._device.launch(
            "stump_fill", (-(-rows // size), width // GROUP), 512, np.int64(rows), np.int64(size),
            width, self._features, self._rows.codes, pull, sums, shared=SHARED_BYTES,
        )  # fmt: skip
        return sums

    def values(self, stump: Any) -> Any:
        """Return the values of a stump for all rows.

        `stump` holds feature, edge, first code above the threshold and value of missing values.
        """
        rows, values = self._rows, self._device.arrays.empty(self._rows.n_rows, np.uint8)
        self._device.over_rows("stump_values", rows.n_rows, rows.width, rows.codes, stump, values)
        return values
