"""Sums over the cells of pairs of features on a GPU: the integers of `feature_pairs`."""

from __future__ import annotations

import numpy as np

from precede.engine.arrays import Bytes, Integers
from precede.engine.cuda import Device
from precede.engine.histograms.feature_pairs import SIDE

__all__ = ["DeviceTriples"]

# Most rows of a block, which clears and folds 4096 cells as well; and most triples that are summed
# at a time (a grid has no more than 65,535 blocks in the second direction).
MOST_ROWS, MOST_TRIPLES = 1 << 16, 1 << 15


class DeviceTriples:
    """Codes and words of all rows on a device, of which triples are summed.

    Parameters
    ----------
    device : Device
    codes : array (features, rows) of numbers below 16
    words : one integer for each row; see `precede.engine.histograms.feature_pairs.PairWords`
    """

    def __init__(self, device: Device, codes: Bytes, words: Integers):
        triples = min(codes.shape[0] * (codes.shape[0] + 6) // 6, MOST_TRIPLES)
        needed = codes.size + 8 * words.size + 24 * SIDE * SIDE * triples
        device.check_room(needed, "the codes of all pairs of features")
        self._device, self._features = device, codes.shape[0]
        self._codes, self._words = device.put(codes), device.put(words)

    def sums(self, triples: Integers) -> Integers:
        """As `precede.engine.histograms.feature_pairs.triple_sums`."""
        first = range(0, max(len(triples), 1), MOST_TRIPLES)
        found = [self._some(triples[each : each + MOST_TRIPLES]) for each in first]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _some(self, triples: Integers) -> Integers:
        device, rows = self._device, self._words.size
        sums = device.zeros(len(triples), 3, SIDE, SIDE, dtype=np.int64)
        if len(triples) and rows:
            device.launch(
                "triple_fill", (-(-rows // MOST_ROWS), len(triples)), 512, np.int64(rows),
                np.int64(MOST_ROWS), self._features, self._codes, device.put(triples),
                self._words, sums,
            )  # fmt: skip
        return device.get(sums)
