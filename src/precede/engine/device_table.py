"""A table that is binned on a GPU, with the same cut points and codes as `precede.engine.table`.

Columns are sorted as integers in the order of the floats. One thread per column then finds the cut
points by bisection.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precede.engine.arrays import Bytes, Floats, Integers
from precede.engine.backend import Backend
from precede.engine.execution import Context
from precede.engine.table import (
    LARGE_COLUMN_ROWS,
    MAX_BINS,
    Bins,
    FeatureBins,
    Table,
    check_max_bins,
    integer_weights,
)

# Bytes of columns that are sorted at a time.
MAX_SORTED_BYTES = 1 << 31
# Floats per column that the kernel `cuts_of_*` returns: 256 cut points, their number, the least and
# the greatest value, and the number of values that are not missing.
CUT_FLOATS = 260
# By dtype: the suffix of the kernels' names and the type of the sort keys.
KEY_TYPES = {
    np.dtype(np.float32): ("singles", np.uint32),
    np.dtype(np.float64): ("doubles", np.uint64),
}


class DeviceTable(Table):
    """A table whose codes are on a device; `codes` copies them to the CPU on first access."""

    def __init__(self, device: Backend, X: Any, codes: Any, bins: Bins, order: Integers) -> None:
        self._device, self._device_codes = device, codes
        self.X, self.bins, self.order = X, bins, order
        self._host_codes: Bytes | None = None

    @staticmethod
    def takes(X: Any, order: Integers, device: Backend) -> bool:
        """Return whether the rows `order` of X can be binned on the device and are worth it."""
        dense = isinstance(X, np.ndarray) or device.holds(X)
        if not dense or X.dtype not in KEY_TYPES or order.size < LARGE_COLUMN_ROWS:
            return False
        cells = order.size * X.shape[1]
        sorted_bytes = min(MAX_SORTED_BYTES, cells * (X.itemsize + 8))
        return device.has_room(X.nbytes + 32 * order.size + cells + 3 * sorted_bytes)

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

        See `Table.build`; X must be accepted by `takes`. O(n log n) per feature. Categorical
        features are binned on the CPU.
        """
        check_max_bins(max_bins)
        assert context is not None
        assert order is not None
        device = context.backend
        kind, key_type = KEY_TYPES[X.dtype]
        by_columns = X.flags.f_contiguous and not X.flags.c_contiguous
        values, rows = device.put(X.T if by_columns else X), order.size
        if not values.flags.c_contiguous:
            values = device.xp.ascontiguousarray(values, values.dtype)
        steps = (1, X.shape[0]) if by_columns else (X.shape[1], 1)
        order_on_device = device.put(order)
        codes = device.xp.empty((X.shape[1], rows), np.uint8)
        integers = integer_weights(weight)
        weights = None if integers is None else device.put(integers)
        group = max(1, min(X.shape[1], MAX_SORTED_BYTES // (rows * (X.itemsize + 8))))
        features = []
        for first in range(0, X.shape[1], group):
            count = min(group, X.shape[1] - first)
            keys = device.xp.empty((count, rows), key_type)
            device.launch(
                f"keys_of_{kind}", (-(-rows // 32), -(-count // 32)), (32, 32), np.int64(rows),
                count, values.ravel()[first * steps[1] :], *map(np.int64, steps), order_on_device,
                keys,
            )  # fmt: skip
            cuts = _choose_cuts(device, kind, keys, weights, int(max_bins))
            device.launch(
                f"codes_of_{kind}", (min(-(-rows // 256), 256), count), 256, np.int64(rows), keys,
                cuts, codes[first : first + count],
            )  # fmt: skip
            features += [_feature_bins(each, rows) for each in device.get(cuts)]
        for feature in categorical:
            column, encoded = device.get(X[:, feature])[order], np.empty(rows, np.uint8)
            features[feature] = FeatureBins.choose(
                column, integers, int(max_bins), feature=feature, categorical=True
            )
            features[feature].encode(column, encoded)
            codes[feature] = device.put(encoded)
        return cls(device, X, codes, Bins.of(features), order)

    @property
    def X(self) -> Any:  # noqa: N802
        """The raw values, copied from the device if need be."""
        return self._device.get(self._X)

    @X.setter
    def X(self, X: Any) -> None:  # noqa: N802
        self._X = X

    @property
    def codes(self) -> Bytes:  # type: ignore[override]
        """The codes on the CPU, copied from the device once."""
        if self._host_codes is None:
            self._host_codes = self._device.get(self._device_codes)
        return self._host_codes

    @property
    def n_used_rows(self) -> int:
        """Number of rows in the table."""
        return int(self._device_codes.shape[1])

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self._device_codes.shape[0])

    def codes_on(self, device: Backend, features: Integers) -> Any:  # noqa: ARG002
        """Return the codes of some features on the device, without a copy if they are adjacent."""
        adjacent = features[-1] - features[0] + 1 == features.size
        if adjacent:
            return self._device_codes[int(features[0]) : int(features[-1]) + 1]
        return self._device_codes[self._device.put(features)]

    def keys(self, weight: Floats, context: Context) -> NDArray[np.uint64]:  # noqa: ARG002
        """Return a hash of the codes and the weight of each row."""
        keys = self._device.put(weight.astype(np.float64).view(np.uint64))
        self._device.over_rows(
            "mix_codes", self.n_used_rows, self.n_features, self._device_codes, keys
        )
        return self._device.get(keys)

    def reorder(self, old: Integers) -> Table:
        """Reorder the rows: new row p was row ``old[p]``."""
        old_rows = self._device.put(old)
        self._device_codes = self._device.xp.take(self._device_codes, old_rows, axis=1)
        self._host_codes = None
        self.order = self.order[old]
        return self


def _choose_cuts(device: Backend, kind: str, keys: Any, weight: Any, max_bins: int) -> Any:
    """Return an array (columns, `CUT_FLOATS`) of cut points and statistics of columns of keys."""
    ordered, (count, rows) = keys.copy(), keys.shape
    weights = device.xp.empty((count if weight is not None else 0, rows), np.int64)
    for number, column in enumerate(ordered):
        if weight is None:
            column.sort()
        else:
            by_value = device.xp.argsort(column)
            ordered[number], weights[number] = column[by_value], weight[by_value]
    cuts = device.xp.empty((count, CUT_FLOATS), np.float64)
    device.launch(
        f"cuts_of_{kind}", count, 1, np.int64(rows), count, max_bins, ordered,
        int(weight is not None), weights, cuts,
    )  # fmt: skip
    return cuts


def _feature_bins(found: Floats, rows: int) -> FeatureBins:
    count, low, high, values = found[256:]
    return FeatureBins(found[: int(count)].copy(), float(low), float(high), bool(values < rows))
