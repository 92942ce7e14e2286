"""Histograms of pairs of features on a GPU, with the same integers as `feature_pairs`."""

from __future__ import annotations

import numpy as np

from precede.engine.arrays import Bytes, Integers
from precede.engine.cuda import Device
from precede.engine.histograms.feature_pairs import SIDE

__all__ = ["DeviceTriples"]

# Most rows of a thread block, which also clears and folds 4096 cells; and most triples of a launch
# (a grid has at most 65,535 thread blocks in the second dimension).
MAX_BLOCK_ROWS, MAX_TRIPLES = 1 << 16, 1 << 15


class DeviceTriples:
    """Codes and words of all rows on a device, for the histograms of triples of features.

    Parameters
    ----------
    device : Device
    codes : array (features, rows) of codes below 16
    words : one integer for each row; see `precede.engine.histograms.feature_pairs.PairWords`
    """

    def __init__(self, device: Device, codes: Bytes, words: Integers):
        triples = min(codes.shape[0] * (codes.shape[0] + 6) // 6, MAX_TRIPLES)
        needed = codes.size + 8 * words.size + 24 * SIDE * SIDE * triples
        device.check_room(needed, "the codes of all pairs of features")
        self._device, self._features = device, codes.shape[0]
        self._codes, self._words = device.put(codes), device.put(words)

    def sums(self, triples: Integers) -> Integers:
        """Return `precede.engine.histograms.feature_pairs.triple_sums` of the triples."""
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
