"""Search for stumps on a GPU: all features in every round, with the same result as on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from precede.engine.arrays import Flags, Floats, Signs
from precede.engine.exact import SCALE
from precede.engine.execution import Context
from precede.engine.histograms.device_columns import DeviceColumns
from precede.engine.pull import Factors
from precede.engine.table import Table
from precede.weak_rankers.base import SearchResult
from precede.weak_rankers.stumps import StumpSearch

__all__ = ["DeviceStumpSearch"]


class DeviceStumpSearch(StumpSearch):
    """Exact search over all stumps of a table on a device.

    If the pulls are on the CPU, the values of the stump are returned on the CPU. No feature is
    skipped: summing all of them is faster than finding out which ones could win.
    """

    on_device = True

    def __init__(self, table: Table, context: Context, *, signs: Signs | None = None):
        super().__init__(table, context, lazy=False, signs=signs)
        assert context.device is not None
        device = self._device = context.device
        self._device_columns = DeviceColumns(device, table)
        self._feature_data = [
            device.put(self._n_bins.astype(np.int64)), device.put(self._missing.astype(np.uint8)),
        ]  # fmt: skip
        self._device_signs: Any = None
        self._all = device.put(np.ones(table.n_features, np.uint8))

    def best(self, pull: Floats, allowed: Flags | None = None) -> SearchResult | None:
        """Return the stump with the largest absolute edge (largest edge, if positive_only)."""
        device, features = self._device, self._n_bins.size
        sums = self._device_columns.sums(device.put(pull))
        flags = self._all if allowed is None else device.put(allowed.astype(np.uint8))
        best = device.arrays.empty((features, 3), np.int64)
        stump = device.arrays.empty(4, np.int64)
        device.launch(
            "stump_search", features, 256, features, *self._feature_data, self._allowed_signs(),
            flags, sums, best, sums[-1:], stump,
        )  # fmt: skip
        values = self._device_columns.values(stump)
        feature, signed, first, missing = device.get(stump).tolist()
        self.evaluated += features
        if feature < 0:
            return None
        values = values if device.holds(pull) else device.get(values)
        return SearchResult(self._stump(feature, first, missing), signed / SCALE, values=values)

    def _allowed_signs(self) -> Any:
        """Return the sign that edges of each feature must have, 0 for either."""
        if self._device_signs is None:
            signs = np.ones(self._n_bins.size) if self._positive_only else self._signs
            signs = np.zeros(self._n_bins.size) if signs is None else signs
            self._device_signs = self._device.put(signs.astype(np.int8))
        return self._device_signs

    def best_decrease(self, factors: Factors, allowed: Flags | None = None) -> SearchResult | None:  # noqa: ARG002
        """Raise ValueError: pair masses are summed on the CPU only."""
        raise ValueError(
            "select='decrease' is searched on the CPU; use select='slope', or device='cpu'"
        )
