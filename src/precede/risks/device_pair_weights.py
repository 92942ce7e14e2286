"""Weights of the pairs of RankBoost+ on a GPU, to the bits of `precede.risks.pair_weights`.

Weights are kept there where they fit, 8 bytes for each pair. Otherwise they are made anew in every
round, a few at a time, from what they were multiplied by in all rounds so far: the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from precede.engine.arrays import Floats
from precede.engine.cuda import Device
from precede.engine.execution import Context
from precede.engine.query_layout import QueryLayout
from precede.risks.pair_weights import ABREAST, PairWeights, _pieces, _rows

__all__ = ["DevicePairWeights"]

# Rounds whose values are bits of one word of a row, as in `kernels.cu`.
BITS = 64


class DevicePairWeights(PairWeights):
    """One weight for every pair, on a device. Values of rankers and the pull are there.

    Parameters
    ----------
    layout, workers : as for `PairWeights`; without listed pairs
    kept : bool
        Whether weights are kept, or made anew whenever they are needed.
    """

    def __init__(self, layout: QueryLayout, context: Context, *, kept: bool):
        assert context.device is not None
        device = self._device = context.device
        self._arrangement, self._context = layout, context
        self._kept, self._rounds = kept, 0
        self._factors: list[list[float]] = []
        count, start = _rows(layout)
        pieces, first_piece = _pieces(layout, count, start)
        column_start = np.concatenate([[0], np.cumsum(pieces[:, 3])])
        rows = self._rows = layout.n_used_rows
        needed = 8 * (int(column_start[-1]) + (int(start[-1]) if kept else 0)) + 150 * rows
        device.check_room(needed, f"the weights of {int(start[-1]):,} pairs")
        sizes = start[pieces[:, 2]] - start[pieces[:, 1]]
        order = np.argsort(-sizes, kind="stable")  # the longest pieces begin first
        put = device.put
        self._piece_count = len(pieces)
        self._order, self._pieces = put(order), put(pieces.ravel())
        self._column_start, self._count, self._start = put(column_start), put(count), put(start)
        bounds = layout.level_start[layout.query_start]
        self._query = put(np.repeat(np.arange(bounds.size - 1), np.diff(bounds)))
        self._first_piece = put(first_piece.astype(np.int64))
        self._weights = device.arrays.empty(int(start[-1]) if kept else 1, np.float64)
        self._columns = device.arrays.empty(int(column_start[-1]), np.float64)
        self._bits = device.zeros(0, rows, dtype=np.uint64)
        self._table = device.zeros(4)
        self._of_rows = put(layout.weight), put(layout.loser_weight), 1 / layout.total
        self._row_sums, self._row_ones = device.zeros(rows), device.zeros(rows)
        self.pull: Any = device.zeros(rows)
        self.log_risk, self.tied, self._mass = 0.0, 1.0, 1.0
        self._sum_up(device.zeros(rows, dtype=np.uint8), (1.0, 1.0, 1.0), 2 if kept else 0)

    @classmethod
    def fits(cls, device: Device, layout: QueryLayout, limit: float | None) -> bool:
        """Whether the weights fit into so many bytes, or by default into most of what is free."""
        if limit is None:
            return True
        needed = PairWeights.bytes_needed(layout)
        return needed <= min(limit, device.free())

    def _multiply(self, values: Any, right: float, wrong: float, tied: float) -> None:
        """Multiply the weights and take the sums anew."""
        if not self._kept:
            self._remember(values, [tied, wrong, right, tied])
        self._sum_up(values, (tied, wrong, right), 3 if self._kept else 0)

    def _remember(self, values: Any, factors: list[float]) -> None:
        """Keep what the weights are multiplied by in this round."""
        word, bit = divmod(self._rounds, BITS)
        if not bit:
            more = self._device.zeros(word + 1, self._rows, dtype=np.uint64)
            more[:word] = self._bits
            self._bits = more
        self._device.over_rows("plus_remember", self._rows, bit, values, self._bits[word])
        self._factors.append(factors)
        self._table = self._device.put(np.array(self._factors).ravel())
        self._rounds += 1

    def _source(self) -> tuple[Any, ...]:
        """What weights are read or made from."""
        history = self._rounds, self._table, self._bits, np.int64(self._rows)
        return (self._weights, *history, *self._of_rows)

    def _sum_up(self, values: Any, factors: tuple[float, float, float], kept: int) -> None:
        device, pieces = self._device, self._piece_count
        device.launch(
            "plus_advance", pieces, 256, self._order, self._pieces, self._column_start, self._count,
            self._start, values, *factors, kept, *self._source(), self._row_sums, self._row_ones,
            self._columns,
        )  # fmt: skip
        edge_weights, ties = device.arrays.empty((2, pieces), np.float64)
        device.launch(
            "plus_masses", -(-pieces // 64), 64, pieces, self._pieces, values, self._row_sums,
            self._row_ones, edge_weights, ties,
        )  # fmt: skip
        mass, tied = device.exact_sums([edge_weights, ties])
        device.over_rows(
            "plus_pull", self._rows, self._query, self._first_piece, self._pieces,
            self._column_start, self._columns, self._row_sums, float(mass), self.pull,
        )  # fmt: skip
        self._mass = mass
        self.tied = min(max(tied / mass, 0.0), 1.0)

    def ties(self, weak_rankers: Sequence[Any]) -> Floats:
        """Shares of the weight of the pairs that each ranker ties."""
        device, pieces, found = self._device, self._piece_count, []
        for first in range(0, len(weak_rankers), ABREAST):
            batch = weak_rankers[first : first + ABREAST]
            eight = device.arrays.empty(self._rows, np.uint64)
            for bit, values in enumerate(batch):
                device.over_rows("plus_remember", self._rows, bit, values, eight)
            by_winner = device.arrays.empty((ABREAST, self._rows), np.float64)
            device.launch(
                "plus_ties", pieces, 288, self._order, self._pieces, self._count, self._start,
                eight, int(self._kept), *self._source(), by_winner,
            )  # fmt: skip
            sums = device.zeros(ABREAST, pieces)
            grid = -(-pieces // 64), ABREAST
            device.launch(
                "plus_tied", grid, 64, pieces, self._pieces, np.int64(self._rows), by_winner, sums
            )
            for j in range(0, len(batch), 2):
                both = device.exact_sums([sums[j], sums[j + 1]])
                found += [each / self._mass for each in both]
        return np.array(found[: len(weak_rankers)])
