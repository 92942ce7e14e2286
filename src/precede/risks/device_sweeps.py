"""Hinge risks of long lists on a GPU: the sums of `hinge_sweeps`, in the same order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from precede.engine.arrays import Floats
from precede.engine.backend import Backend
from precede.risks.hinge_sweeps import CHUNK_BITS, LevelSplits

assert CHUNK_BITS <= 9, "kernels have no room for longer blocks"
THREADS = 128  # of the block that handles a chunk, or the carry of a side
CHUNKS_PER_BLOCK = 32  # chunks whose moments one block of threads computes, one thread each


class DeviceLevelSplits:
    """Splits of all depths on a GPU.

    Parameters
    ----------
    device : Backend
    depths : splits of each depth, innermost first
    rows : number of graded rows
    weight, loser_weight : of every row as a winner and as a loser, on the GPU
    """

    def __init__(
        self, device: Backend, depths: Sequence[LevelSplits], rows: int, weight: Any,
        loser_weight: Any,
    ):  # fmt: skip
        self._device, self._rows, self._weights = device, rows, (weight, loser_weight)
        self._depths = []
        for splits in depths:
            # Rows between the sides are numbered too, so that sorting leaves them in place.
            bounds = np.unique(splits.sides[:, :2])
            side = np.searchsorted(bounds, np.arange(rows), side="right")
            side = side.astype(np.min_scalar_type(bounds.size))
            arrays = tuple(map(device.put, (side, splits.sides, splits.chunks)))
            self._depths.append((*arrays, splits.chunk_bits))

    def add_gradients(
        self, scores: Any, degree: int, knot: float, pull: Floats, hessian: Any
    ) -> Any:
        """Add gradient and Hessian of all rows; return values and gradient sums of the chunks."""
        device, argsort = self._device, self._device.xp.argsort
        keys = device.xp.empty(self._rows, np.uint64)
        device.over_rows("sweep_keys", self._rows, scores, keys)
        by_score, sums = argsort(keys), []
        for side, sides, chunks, chunk_bits in self._depths:
            order = by_score[argsort(side[by_score])]
            shape = chunk_bits, float(knot), degree
            sums.append(self._add_splits(order, sides, chunks, scores, shape, pull, hessian))
        return device.xp.concatenate(sums, axis=1)

    def _add_splits(
        self, order: Any, sides: Any, chunks: Any, scores: Any, shape: tuple[int, float, int],
        pull: Floats, hessian: Any,
    ) -> Any:  # fmt: skip
        device, empty = self._device, self._device.xp.empty
        n_chunks, knot = len(chunks), shape[1]
        sorted_scores, weight = empty((2, self._rows), np.float64)
        moments, carry = empty((self._rows, 3), np.float64), empty((n_chunks, 3), np.float64)
        sums = empty((2, n_chunks), np.float64)
        device.launch(
            "sweep_rows", n_chunks, THREADS, chunks, order, scores, *self._weights, sorted_scores,
            weight,
        )  # fmt: skip
        device.launch(
            "sweep_moments", -(-n_chunks // CHUNKS_PER_BLOCK), CHUNKS_PER_BLOCK, n_chunks, chunks,
            sorted_scores, weight, knot, moments,
        )  # fmt: skip
        device.launch(
            "sweep_carry", len(sides), THREADS, sides, chunks, sorted_scores, knot, moments, carry
        )
        device.launch(
            "sweep_read", n_chunks, THREADS, sides, chunks, order, sorted_scores, weight, *shape,
            moments, carry, pull, hessian, sums,
        )  # fmt: skip
        return sums
