"""A table that is binned on a GPU, with the cut points and codes of `precede.engine.table`.

The columns are sorted on the device as integers that have the order of the numbers, and one thread
for each goes through the bins, by bisection.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precede.engine.arrays import Bytes, Floats, Integers
from precede.engine.cuda import Device
from precede.engine.execution import Context
from precede.engine.table import (
    MANY_ROWS,
    MAX_BINS,
    Bins,
    FeatureBins,
    Table,
    check_max_bins,
    integer_weights,
)

__all__ = ["DeviceTable"]

# Bytes of columns that are sorted at a time.
SORTED = 1 << 31
# Numbers that the kernels give for a column: cuts, how many, least, greatest, and values.
NUMBERS = 260
KINDS = {np.dtype(np.float32): ("singles", np.uint32), np.dtype(np.float64): ("doubles", np.uint64)}


class DeviceTable(Table):
    """A table whose codes are on a device; a copy comes here when `codes` is asked for."""

    def __init__(self, device: Device, X: Any, there: Any, bins: Bins, order: Integers) -> None:
        self._device, self._there = device, there
        self.X, self.bins, self.order = X, bins, order
        self._here: Bytes | None = None

    @staticmethod
    def takes(X: Any, order: Integers, device: Device) -> bool:
        """Whether a device can bin the rows: many dense ones."""
        known = isinstance(X, np.ndarray) or device.holds(X)
        if not known or X.dtype not in KINDS or order.size < MANY_ROWS:
            return False
        cells = order.size * X.shape[1]
        sorted_at_once = min(SORTED, cells * (X.itemsize + 8))
        return device.has_room(X.nbytes + 32 * order.size + cells + 3 * sorted_at_once)

    @classmethod
    def build(
        cls,
        X: Any,
        *,
        order: Integers | None = None,
        weight: Floats | None = None,
        max_bins: int = MAX_BINS,
        categorical: Sequence[int] = (),
        context: Context | None = None,
    ) -> DeviceTable:
        """Choose cut points from the rows `order` of X and bin those rows, on the device.

        As `Table.build`, for what `takes` says: O(n log n) for each feature. Categories are
        counted on the CPU.
        """
        check_max_bins(max_bins)
        assert context is not None
        assert order is not None
        device = context.device
        assert device is not None
        kind, whole = KINDS[X.dtype]
        by_columns = X.flags.f_contiguous and not X.flags.c_contiguous
        there, rows = device.put(X.T if by_columns else X), order.size
        if not there.flags.c_contiguous:
            there = device.arrays.ascontiguousarray(there, there.dtype)
        steps = (1, X.shape[0]) if by_columns else (X.shape[1], 1)
        order_on_device = device.put(order)
        codes = device.arrays.empty((X.shape[1], rows), np.uint8)
        integers = integer_weights(weight)
        heavy = None if integers is None else device.put(integers)
        group = max(1, min(X.shape[1], SORTED // (rows * (X.itemsize + 8))))
        features = []
        for first in range(0, X.shape[1], group):
            count = min(group, X.shape[1] - first)
            keys = device.arrays.empty((count, rows), whole)
            device.launch(
                f"keys_of_{kind}", (-(-rows // 32), -(-count // 32)), (32, 32), np.int64(rows),
                count, there.ravel()[first * steps[1] :], *map(np.int64, steps), order_on_device,
                keys,
            )  # fmt: skip
            cuts = _cuts(device, kind, keys, heavy, int(max_bins))
            device.launch(
                f"codes_of_{kind}", (min(-(-rows // 256), 256), count), 256, np.int64(rows), keys,
                cuts, codes[first : first + count],
            )  # fmt: skip
            features += [_feature_bins(each, rows) for each in device.get(cuts)]
        for feature in categorical:
            values, here = device.get(X[:, feature])[order], np.empty(rows, np.uint8)
            features[feature] = FeatureBins.choose(
                values, integers, int(max_bins), feature=feature, named=True
            )
            features[feature].encode(values, here)
            codes[feature] = device.put(here)
        return cls(device, X, codes, Bins.of(features), order)

    @property
    def X(self) -> Any:  # noqa: N802
        """The raw values, copied from the device if they are there."""
        return self._device.get(self._X)

    @X.setter
    def X(self, X: Any) -> None:  # noqa: N802
        self._X = X

    @property
    def codes(self) -> Bytes:  # type: ignore[override]
        """The codes, copied from the device once."""
        if self._here is None:
            self._here = self._device.get(self._there)
        return self._here

    @property
    def n_used_rows(self) -> int:
        """Number of rows in the table."""
        return int(self._there.shape[1])

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self._there.shape[0])

    def codes_on(self, device: Device, features: Integers) -> Any:  # noqa: ARG002
        """Codes of some features on the device, where they are."""
        near = features[-1] - features[0] + 1 == features.size
        if near:
            return self._there[int(features[0]) : int(features[-1]) + 1]
        return self._there[self._device.put(features)]

    def keys(self, weight: Floats, context: Context) -> NDArray[np.uint64]:  # noqa: ARG002
        """Give every row a number that depends on its codes and weight alone."""
        keys = self._device.put(weight.astype(np.float64).view(np.uint64))
        self._device.over_rows("mix_codes", self.n_used_rows, self.n_features, self._there, keys)
        return self._device.get(keys)

    def reorder(self, old: Integers) -> Table:
        """Reorder the rows: new row p was row ``old[p]``."""
        self._there = self._device.arrays.take(self._there, self._device.put(old), axis=1)
        self._here = None
        self.order = self.order[old]
        return self


def _cuts(device: Device, kind: str, keys: Any, weight: Any, max_bins: int) -> Any:
    """Cut points of columns of keys, and what is known of their ends."""
    ordered, (count, rows) = keys.copy(), keys.shape
    weights = device.arrays.empty((count if weight is not None else 0, rows), np.int64)
    for number, column in enumerate(ordered):
        if weight is None:
            column.sort()
        else:
            by_value = device.arrays.argsort(column)
            ordered[number], weights[number] = column[by_value], weight[by_value]
    cuts = device.arrays.empty((count, NUMBERS), np.float64)
    device.launch(
        f"cuts_of_{kind}", count, 1, np.int64(rows), count, max_bins, ordered,
        int(weight is not None), weights, cuts,
    )  # fmt: skip
    return cuts


def _feature_bins(found: Floats, rows: int) -> FeatureBins:
    count, low, high, values = found[256:]
    return FeatureBins(found[: int(count)].copy(), float(low), float(high), bool(values < rows))
