"""Pair weights of RankBoost+ on a GPU, bit for bit as `precede.risks.pair_weights`.

Weights are stored on the device if they fit, with 8 bytes per pair. Otherwise they are recomputed
in each round from the factors of all previous rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from precede.engine.arrays import Floats
from precede.engine.cuda import Device
from precede.engine.execution import Context
from precede.engine.query_layout import QueryLayout
from precede.risks.pair_weights import RANKERS_PER_PASS, PairWeights, _count_losers, _make_chunks

# Each row stores the values of all rounds as bits of 64-bit words, as in `kernels.cu`.
ROUNDS_PER_WORD = 64


class DevicePairWeights(PairWeights):
    """`PairWeights` on the device, where the values of weak rankers and the pull are too.

    Parameters
    ----------
    layout, context : as for `PairWeights`; without explicit pairs
    kept : bool
        Whether weights are stored, or recomputed whenever they are needed.
    """

    def __init__(self, layout: QueryLayout, context: Context, *, kept: bool):
        assert context.device is not None
        device = self._device = context.device
        self._layout, self._context = layout, context
        self._kept, self._n_rounds = kept, 0
        self._factors: list[list[float]] = []
        count, start = _count_losers(layout)
        chunks, first_chunk = _make_chunks(layout, count, start)
        column_start = np.concatenate([[0], np.cumsum(chunks[:, 3])])
        rows = self._n_rows = layout.n_used_rows
        needed = 8 * (int(column_start[-1]) + (int(start[-1]) if kept else 0)) + 150 * rows
        device.check_room(needed, f"the weights of {int(start[-1]):,} pairs")
        sizes = start[chunks[:, 2]] - start[chunks[:, 1]]
        order = np.argsort(-sizes, kind="stable")  # the longest chunks start first
        put = device.put
        self._n_chunks = len(chunks)
        self._order, self._chunks = put(order), put(chunks.ravel())
        self._column_start, self._count, self._start = put(column_start), put(count), put(start)
        bounds = layout.level_start[layout.query_start]
        self._query = put(np.repeat(np.arange(bounds.size - 1), np.diff(bounds)))
        self._first_chunk = put(first_chunk.astype(np.int64))
        self._weights = device.arrays.empty(int(start[-1]) if kept else 1, np.float64)
        self._columns = device.arrays.empty(int(column_start[-1]), np.float64)
        self._value_bits = device.zeros(0, rows, dtype=np.uint64)
        self._factor_table = device.zeros(4)
        self._row_weights = put(layout.weight), put(layout.loser_weight), 1 / layout.total
        self._row_sums, self._row_ones = device.zeros(rows), device.zeros(rows)
        self.pull: Any = device.zeros(rows)
        self.log_risk, self.tied, self._weight_sum = 0.0, 1.0, 1.0
        self._update_sums(device.zeros(rows, dtype=np.uint8), (1.0, 1.0, 1.0), 2 if kept else 0)

    @classmethod
    def fits(cls, device: Device, layout: QueryLayout, limit: float | None) -> bool:
        """Return whether the weights fit into `limit` bytes; True if it is None."""
        if limit is None:
            return True
        needed = PairWeights.bytes_needed(layout)
        return needed <= min(limit, device.free())

    def _multiply(self, values: Any, correct: float, wrong: float, tied: float) -> None:
        """Multiply the weights and update the sums."""
        if not self._kept:
            self._record_round(values, [tied, wrong, correct, tied])
        self._update_sums(values, (tied, wrong, correct), 3 if self._kept else 0)

    def _record_round(self, values: Any, factors: list[float]) -> None:
        """Record the values and factors of this round."""
        word, bit = divmod(self._n_rounds, ROUNDS_PER_WORD)
        if not bit:
            grown = self._device.zeros(word + 1, self._n_rows, dtype=np.uint64)
            grown[:word] = self._value_bits
            self._value_bits = grown
        self._device.over_rows("plus_remember", self._n_rows, bit, values, self._value_bits[word])
        self._factors.append(factors)
        self._factor_table = self._device.put(np.array(self._factors).ravel())
        self._n_rounds += 1

    def _weight_source(self) -> tuple[Any, ...]:
        """Return the kernel arguments from which weights are read or recomputed."""
        history = self._n_rounds, self._factor_table, self._value_bits, np.int64(self._n_rows)
        return (self._weights, *history, *self._row_weights)

    def _update_sums(self, values: Any, factors: tuple[float, float, float], kept: int) -> None:
        device, chunks = self._device, self._n_chunks
        device.launch(
            "plus_advance", chunks, 256, self._order, self._chunks, self._column_start, self._count,
            self._start, values, *factors, kept, *self._weight_source(), self._row_sums,
            self._row_ones, self._columns,
        )  # fmt: skip
        sums, ties = device.arrays.empty((2, chunks), np.float64)
        device.launch(
            "plus_masses", -(-chunks // 64), 64, chunks, self._chunks, values, self._row_sums,
            self._row_ones, sums, ties,
        )  # fmt: skip
        total, tied = device.exact_sums([sums, ties])
        device.over_rows(
            "plus_pull", self._n_rows, self._query, self._first_chunk, self._chunks,
            self._column_start, self._columns, self._row_sums, float(total), self.pull,
        )  # fmt: skip
        self._weight_sum = total
        self.tied = min(max(tied / total, 0.0), 1.0)

    def ties(self, weak_rankers: Sequence[Any]) -> Floats:
        """Return the share of the weight of the pairs that each weak ranker ties."""
        device, chunks, found = self._device, self._n_chunks, []
        for first in range(0, len(weak_rankers), RANKERS_PER_PASS):
            batch = weak_rankers[first : first + RANKERS_PER_PASS]
            bits = device.arrays.empty(self._n_rows, np.uint64)
            for bit, values in enumerate(batch):
                device.over_rows("plus_remember", self._n_rows, bit, values, bits)
            by_winner = device.arrays.empty((RANKERS_PER_PASS, self._n_rows), np.float64)
            device.launch(
                "plus_ties", chunks, 288, self._order, self._chunks, self._count, self._start,
                bits, int(self._kept), *self._weight_source(), by_winner,
            )  # fmt: skip
            sums = device.zeros(RANKERS_PER_PASS, chunks)
            grid = -(-chunks // 64), RANKERS_PER_PASS
            device.launch(
                "plus_tied", grid, 64, chunks, self._chunks, np.int64(self._n_rows), by_winner, sums
            )
            for j in range(0, len(batch), 2):
                both = device.exact_sums([sums[j], sums[j + 1]])
                found += [each / self._weight_sum for each in both]
        return np.array(found[: len(weak_rankers)])
