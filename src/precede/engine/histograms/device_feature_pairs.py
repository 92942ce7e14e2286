"""Sums over the cells of pairs of features on a GPU: the integers of `feature_pairs`."""

from __future__ import annotations

import numpy as np

from precede.engine.arrays import Bytes, Integers
from precede.engine.cuda import Device
from precede.engine.histograms.feature_pairs import SIDE

__all__ = ["DeviceTriples"]

# Most rows of a block, which clears and folds 4096 cells as well.
MOST_ROWS = 1 << 16


class DeviceTriples:
    """Codes and words of all rows on a device, of which triples are summed.

    Parameters
    ----------
    device : Device
    codes : array (features, rows) of numbers below 16
    words : one integer for each row; see `precede.engine.histograms.feature_pairs.PairWords`
    """

    def __init__(self, device: Device, codes: Bytes, words: Integers):
        device.check_room(codes.size + 8 * words.size, "the codes of all pairs of features")
        self._device, self._features = device, codes.shape[0]
        self._codes, self._words = device.put(codes), device.put(words)

    def sums(self, triples: Integers) -> Integers:
        """As `precede.engine.histograms.feature_pairs.triple_sums`."""
        device, rows = self._device, self._words.size
        sums = device.zeros(len(triples), 3, SIDE, SIDE, dtype=np.int64)
        if len(triples) and rows:
            device.launch(
                "triple_fill", (-(-rows // MOST_ROWS), len(triples)), 512, np.int64(rows),
                np.int64(MOST_ROWS), self._features, self._codes, device.put(triples),
                self._words, sums,
            )  # fmt: skip
        return device.get(sums)
