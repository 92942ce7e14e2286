"""Search for stumps on a GPU: all features in every round, with the same result as on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from precede.engine.arrays import Flags, Floats, Integers, Signs
from precede.engine.backend import Backend
from precede.engine.device_histograms import DeviceColumns
from precede.engine.exact import SCALE
from precede.engine.execution import Context
from precede.engine.histograms import suffix_sums
from precede.engine.pull import Factors
from precede.engine.query_layout import QueryLayout
from precede.engine.table import Table
from precede.weak_rankers.base import Family, SearchResult
from precede.weak_rankers.candidates import PRIME, Candidates, LinearSpan
from precede.weak_rankers.stumps import StumpSearch


class DeviceStumpSearch(StumpSearch):
    """Exact search over all stumps of a table on a device.

    If the pulls are on the CPU, the values of the stump are returned on the CPU. No feature is
    skipped: summing all of them is faster than finding out which ones could win.
    """

    def __init__(self, table: Table, context: Context, *, signs: Signs | None = None):
        super().__init__(table, context, lazy=False, signs=signs)
        device = self._device = self.backend = context.backend
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
        best = device.xp.empty((features, 3), np.int64)
        stump = device.xp.empty(4, np.int64)
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


# -- Candidate stumps of RankBoost+ and their linear span, on a GPU ------------------------------


# Most coordinates of a sketch that a thread block sums in shared memory, and most thread blocks.
MAX_SHARED_WIDTH, MAX_BLOCKS = 6144, 528


class DeviceCandidates(Candidates):
    """Candidate stumps whose edges are summed on a device; pulls and values are on the device."""

    def __init__(self, table: Table, layout: QueryLayout, family: Family, context: Context):
        super().__init__(table, layout, family, context)
        self._device = context.backend
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

    def __init__(self, device: Backend, layout: QueryLayout, max_vectors: int):
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
