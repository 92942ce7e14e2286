"""Prediction of trees on a GPU, with the same bits as on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from precede.engine.cuda import Device
from precede.weak_rankers.base import WeakRanker
from precede.weak_rankers.trees import Tree

__all__ = ["DeviceForest"]

# Bytes of shared memory for the rows of a thread block (so that two fit on a multiprocessor), and
# most and fewest rows of a thread block.
SHARED_BYTES, MAX_BLOCK_ROWS, MIN_BLOCK_ROWS = 100 * 1024, 256, 32
# A node: the threshold of a split or the weighted value of a leaf (feature -1), the split's feature
# and children, and whether missing values go right. As in `kernels.cu`.
NODE = np.dtype([("number", "f8"), ("feature", "i4"), ("left", "i4"), ("right", "i4"),
                 ("missing", "i4")])  # fmt: skip


class DeviceForest:
    """Trees with their weights, laid out for prediction on a device.

    Parameters
    ----------
    device : Device
    weak_rankers, weights : of an ensemble; all weak rankers must be trees without categories
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
        parts = [_nodes(*each, features) for each in zip(trees, weights, strict=True)]
        self._n_features = features.size
        self._features = device.put(features)
        self._start = device.put(np.cumsum([0, *map(len, parts)]))
        self._nodes = device.put(np.concatenate([np.zeros(0, NODE), *parts]).view(np.uint8))

    def scores(self, X: Any) -> Any:
        """Return the scores of the rows of an array on the device, in O(depth) per tree and row."""
        single = X.dtype == np.float32
        X = self._device.arrays.ascontiguousarray(X, np.float32 if single else np.float64)
        row_bytes = X.dtype.itemsize * (self._n_features | 1)  # odd: avoids bank conflicts
        rows = min(MAX_BLOCK_ROWS, SHARED_BYTES // row_bytes // 32 * 32)
        if rows < MIN_BLOCK_ROWS:
            raise ValueError(
                f"the model reads {self._n_features} features, too many for scoring on a GPU; copy "
                "X to the CPU"
            )
        scores = self._device.zeros(X.shape[0])
        if X.shape[0]:
            self._device.launch(
                "score_singles" if single else "score_doubles", -(-X.shape[0] // rows), rows,
                np.int64(X.shape[0]), np.int64(X.shape[1]), X, self._n_features, self._features,
                self._trees, self._start, self._nodes, scores, shared=rows * row_bytes,
            )  # fmt: skip
        return scores


def _nodes(tree: Tree, weight: float, features: Any) -> Any:
    """Return the splits of a tree, then its leaves, as an array of `NODE`."""
    splits = len(tree.split_feature)
    nodes = np.zeros(2 * splits + 1, NODE)
    nodes["feature"] = -1
    nodes["feature"][:splits] = np.searchsorted(features, tree.split_feature)
    nodes["number"][:splits] = tree.threshold
    nodes["number"][splits:] = weight * np.array(tree.value)
    for side in ("left", "right"):
        nodes[side][:splits] = [c if c >= 0 else splits - 1 - c for c in getattr(tree, side)]
    nodes["missing"][:splits] = [not left for left in tree.missing_left]
    return nodes
