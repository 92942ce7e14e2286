"""Stumps searched on a GPU: all features in every round, the same stump as on the CPU."""

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

    Pulls may come from the CPU; then the values of the stump go back there. No feature is skipped:
    to sum up all of them takes less time there than to find out which ones could win.
    """

    on_device = True

    def __init__(self, table: Table, context: Context, *, signs: Signs | None = None):
        super().__init__(table, context, lazy=False, signs=signs)
        assert context.device is not None
        device = self._device = context.device
        self._there = DeviceColumns(device, table)
        self._known = [
            device.put(self._n_bins.astype(np.int64)), device.put(self._missing.astype(np.uint8)),
        ]  # fmt: skip
        self._ways: Any = None
        self._all = device.put(np.ones(table.n_features, np.uint8))

    def best(self, pull: Floats, allowed: Flags | None = None) -> SearchResult | None:
        """Give the stump of the largest absolute edge, or of the largest if positive_only."""
        device, features = self._device, self._n_bins.size
        sums = self._there.sums(device.put(pull))
        free = self._all if allowed is None else device.put(allowed.astype(np.uint8))
        best = device.arrays.empty((features, 3), np.int64)
        answer = device.arrays.empty(4, np.int64)
        device.launch(
            "stump_search", features, 256, features, *self._known, self._directions(), free, sums,
            best, sums[-1:], answer,
        )  # fmt: skip
        values = self._there.values(answer)
        feature, signed, first, missing = device.get(answer).tolist()
        self.evaluated += features
        if feature < 0:
            return None
        values = values if device.holds(pull) else device.get(values)
        return SearchResult(self._stump(feature, first, missing), signed / SCALE, values=values)

    def _directions(self) -> Any:
        """Signs that the edges of each feature may have, 0 for both."""
        if self._ways is None:
            signs = np.ones(self._n_bins.size) if self._rising else self._signs
            signs = np.zeros(self._n_bins.size) if signs is None else signs
            self._ways = self._device.put(signs.astype(np.int8))
        return self._ways

    def best_decrease(self, factors: Factors, allowed: Flags | None = None) -> SearchResult | None:  # noqa: ARG002
        """Refused: the masses of all pairs are summed on the CPU alone."""
        raise ValueError(
            "select='decrease' is searched on the CPU; use select='slope', or device='cpu'"
        )
