"""Trees that score rows on a GPU, with the same bits as on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from precede.engine.cuda import Device
from precede.weak_rankers.base import WeakRanker
from precede.weak_rankers.trees import Tree

__all__ = ["DeviceForest"]

# Bytes of shared memory for the rows of a block, of which two are at work on a processor at a
# time; most and fewest rows of a block.
ROOM, MOST_ROWS, FEWEST_ROWS = 100 * 1024, 256, 32
BRANCH = np.dtype([("number", "f8"), ("feature", "i4"), ("left", "i4"), ("right", "i4"),
                   ("missing", "i4")])  # fmt: skip


class DeviceForest:
    """Trees with their weights, laid out for scoring on a device.

    Parameters
    ----------
    device : Device
    rankers, weights : of an ensemble; all rankers must be trees without categories
    """

    def __init__(
        self, device: Device, weak_rankers: Sequence[WeakRanker], weights: Sequence[float]
    ):
        trees = [each for each in weak_rankers if isinstance(each, Tree) and not each.categories]
        if len(trees) < len(weak_rankers):
            raise ValueError(
                "only trees without categories score arrays on a GPU; copy X to the CPU, for "
                "example by X.get()"
            )
        self._device, self._trees = device, len(trees)
        features = np.array(sorted({f for tree in trees for f in tree.features}), np.int64)
        parts = [_branches(*each, features) for each in zip(trees, weights, strict=True)]
        self._used = features.size
        self._features = device.put(features)
        self._start = device.put(np.cumsum([0, *map(len, parts)]))
        self._branches = device.put(np.concatenate([np.zeros(0, BRANCH), *parts]).view(np.uint8))

    def scores(self, X: Any) -> Any:
        """Scores of the rows of an array on the device, one for each: O(depth) for each tree."""
        single = X.dtype == np.float32
        X = self._device.arrays.ascontiguousarray(X, np.float32 if single else np.float64)
        size = X.dtype.itemsize * (self._used | 1)
        rows = min(MOST_ROWS, ROOM // size // 32 * 32)
        if rows < FEWEST_ROWS:
            raise ValueError(
                f"the model reads {self._used} features, too many for scoring on a GPU; copy X to "
                "the CPU"
            )
        scores = self._device.zeros(X.shape[0])
        if X.shape[0]:
            self._device.launch(
                "score_singles" if single else "score_doubles", -(-X.shape[0] // rows), rows,
                np.int64(X.shape[0]), np.int64(X.shape[1]), X, self._used, self._features,
                self._trees, self._start, self._branches, scores, shared=rows * size,
            )  # fmt: skip
        return scores


def _branches(tree: Tree, weight: float, features: Any) -> Any:
    """Splits, then leaves, whose numbers are their values times the weight."""
    splits = len(tree.split_feature)
    made = np.zeros(2 * splits + 1, BRANCH)
    made["feature"] = -1
    made["feature"][:splits] = np.searchsorted(features, tree.split_feature)
    made["number"][:splits] = tree.threshold
    made["number"][splits:] = weight * np.array(tree.value)
    for side in ("left", "right"):
        made[side][:splits] = [c if c >= 0 else splits - 1 - c for c in getattr(tree, side)]
    made["missing"][:splits] = [not left for left in tree.missing_left]
    return made
