"""Histograms of pulls over all rows of a table on a GPU, the counterpart of `histograms`."""

from __future__ import annotations

from typing import Any

import numpy as np

from precede.engine.arrays import Bytes, Floats, Integers
from precede.engine.backend import Backend
from precede.engine.cuda import GROUP, DeviceRows
from precede.engine.histograms import SIDE
from precede.engine.table import Table

# Shared memory of a thread block in bytes, as in `kernels.cu`.
SHARED_BYTES = 3 * GROUP * 257 * 4
# Thread blocks to aim for (four times two for each of the 132 multiprocessors of an H200), and the
# fewest rows of one.
TARGET_BLOCKS, MIN_BLOCK_ROWS = 1056, 500


class DeviceColumns:
    """The codes of all features of a table on a device, for summing pulls over bins."""

    def __init__(self, device: Backend, table: Table):
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
        rows, values = self._rows, self._device.xp.empty(self._rows.n_rows, np.uint8)
        self._device.over_rows("stump_values", rows.n_rows, rows.width, rows.codes, stump, values)
        return values


# -- Histograms of pairs of features on a GPU, with the same integers as `feature_pairs` ---------


# Most rows of a thread block, which also clears and folds 4096 cells; and most triples of a launch
# (a grid has at most 65,535 thread blocks in the second dimension).
MAX_BLOCK_ROWS, MAX_TRIPLES = 1 << 16, 1 << 15


class DeviceTriples:
    """Codes and words of all rows on a device, for the histograms of triples of features.

    Parameters
    ----------
    device : Backend
    codes : array (features, rows) of codes below 16
    words : one integer for each row; see `precede.engine.histograms.PairWords`
    """

    def __init__(self, device: Backend, codes: Bytes, words: Integers):
        triples = min(codes.shape[0] * (codes.shape[0] + 6) // 6, MAX_TRIPLES)
        needed = codes.size + 8 * words.size + 24 * SIDE * SIDE * triples
        device.check_room(needed, "the codes of all pairs of features")
        self._device, self._features = device, codes.shape[0]
        self._codes, self._words = device.put(codes), device.put(words)

    def sums(self, triples: Integers) -> Integers:
        """Return `precede.engine.histograms.triple_sums` of the triples."""
        first = range(0, max(len(triples), 1), MAX_TRIPLES)
        sums = [self._chunk_sums(triples[each : each + MAX_TRIPLES]) for each in first]
        return sums[0] if len(sums) == 1 else np.concatenate(sums)

    def _chunk_sums(self, triples: Integers) -> Integers:
        device, rows = self._device, self._words.size
        sums = device.zeros(len(triples), 3, SIDE, SIDE, dtype=np.int64)
        if len(triples) and rows:
            device.launch(
                "triple_fill", (-(-rows // MAX_BLOCK_ROWS), len(triples)), 512, np.int64(rows),
                np.int64(MAX_BLOCK_ROWS), self._features, self._codes, device.put(triples),
                self._words, sums,
            )  # fmt: skip
        return device.get(sums)
