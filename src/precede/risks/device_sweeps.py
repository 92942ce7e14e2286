"""Hinge risks of long lists on a GPU: the sums of `hinge_sweeps`, block by block, in its order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from precede.engine.arrays import Floats
from precede.engine.cuda import Device
from precede.risks.hinge_sweeps import BITS, Splits

__all__ = ["DeviceSweeps"]

assert BITS <= 9, "kernels have no room for longer blocks"
# Threads that sum a block, or carry the moments of a side; and those that have a block each.
THREADS, OF_BLOCKS = 128, 32


class DeviceSweeps:
    """The splits of all depths on a device.

    Parameters
    ----------
    device : Device
    depths : the splits of each depth, the innermost ones first
    rows : how many rows are in levels
    weight, loser_weight : of every row as a winner and as a loser, on the device
    """

    def __init__(
        self, device: Device, depths: Sequence[Splits], rows: int, weight: Any, loser_weight: Any
    ):
        self._device, self._rows, self._weights = device, rows, (weight, loser_weight)
        self._depths = []
        for splits in depths:
            # Rows are sorted by side, those outside of all sides as well: they stay where they are.
            bounds = np.unique(splits.sides[:, :2])
            side = np.searchsorted(bounds, np.arange(rows), side="right")
            side = side.astype(np.min_scalar_type(bounds.size))
            there = tuple(map(device.put, (side, splits.sides, splits.blocks)))
            self._depths.append((*there, splits.bits))

    def add_to(self, scores: Any, degree: int, knot: float, pull: Floats, hessian: Any) -> Any:
        """Add gradient and Hessian of all rows; gives values and masses of the blocks."""
        device, sort = self._device, self._device.arrays.argsort
        keys = device.arrays.empty(self._rows, np.uint64)
        device.over_rows("sweep_keys", self._rows, scores, keys)
        by_score, found = sort(keys), []
        for side, sides, blocks, bits in self._depths:
            order = by_score[sort(side[by_score])]
            shape = bits, float(knot), degree
            found.append(self._sweep(order, sides, blocks, scores, shape, pull, hessian))
        return device.arrays.concatenate(found, axis=1)

    def _sweep(
        self, order: Any, sides: Any, blocks: Any, scores: Any, shape: tuple[int, float, int],
        pull: Floats, hessian: Any,
    ) -> Any:  # fmt: skip
        device, empty, count, knot = self._device, self._device.arrays.empty, len(blocks), shape[1]
        ranked, share = empty((2, self._rows), np.float64)
        moments, carry = empty((self._rows, 3), np.float64), empty((count, 3), np.float64)
        sums = empty((2, count), np.float64)
        device.launch(
            "sweep_rows", count, THREADS, blocks, order, scores, *self._weights, ranked, share
        )
        device.launch(
            "sweep_moments", -(-count // OF_BLOCKS), OF_BLOCKS, count, blocks, ranked, share, knot,
            moments,
        )  # fmt: skip
        device.launch(
            "sweep_carry", len(sides), THREADS, sides, blocks, ranked, knot, moments, carry
        )
        device.launch(
            "sweep_read", count, THREADS, sides, blocks, order, ranked, share, *shape,
            moments, carry, pull, hessian, sums,
        )  # fmt: skip
        return sums
