"""Exponential loss with a power price on a GPU, bit for bit as `precede.risks.exponential`.

A warp processes a chunk of a level, a thread the levels of a query. Sums over rows are sums of
integers; sums over levels are taken in the same order as on the CPU.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from precede.engine.arrays import Array
from precede.engine.cuda import Device
from precede.engine.execution import Context
from precede.engine.portable import log_of
from precede.engine.query_layout import QueryLayout
from precede.losses import PairLoss, Price
from precede.risks.base import EdgeWeights, State
from precede.risks.exponential import (
    MIN_WEIGHT_AT_LEVEL_SCALE,
    LevelChunks,
    PushLine,
    SeparableCache,
    SeparableRisk,
)

# A single thread processes all levels of a query.
MAX_ROWS_PER_CHUNK, MAX_LEVELS_PER_QUERY = 512, 1024
# Device memory.
BYTES_PER_ROW, BYTES_PER_LEVEL = 64, 160
WARPS_PER_BLOCK = 8


class DeviceSeparableRisk(SeparableRisk):
    """`SeparableRisk` for scores on the device; falls back to the CPU for scores on the CPU.

    Scores must stay on the CPU with explicit pairs or with more than
    MAX_LEVELS_PER_QUERY grades in a query.
    """

    steps_on_backend = True

    def __init__(
        self, layout: QueryLayout, loss: PairLoss, cost: Price, context: Context | None = None,
        *, mean: bool = False,
    ):  # fmt: skip
        super().__init__(layout, loss, cost, context, mean=mean)
        assert self.context.device is not None
        self._device: Device = self.context.device
        levels = np.diff(layout.query_start)
        has_kernels = bool(
            not self.context.is_distributed
            and not layout.has_explicit_pairs
            and not layout.queries_span_machines
            and levels.max(initial=0) <= MAX_LEVELS_PER_QUERY
        )
        if has_kernels:
            self.backend = self.context.backend
            self._copy_to_device()

    def _copy_to_device(self) -> None:
        put, layout = self._device.put, self.layout
        needed = BYTES_PER_ROW * layout.n_used_rows + BYTES_PER_LEVEL * self._level_query.size
        self._device.check_room(needed, "the pulls of all rows")
        chunks = LevelChunks.cut(layout, MAX_ROWS_PER_CHUNK)
        self._device_chunks = chunks.count, put(chunks.start), put(chunks.level)
        self._blocks = -(-chunks.count // WARPS_PER_BLOCK)
        self._counts = layout.query_start.size - 1, self._level_query.size
        self._query_start, self._query_of_level = (
            put(layout.query_start),
            put(self._level_query),
        )
        self._balance = put(self.log_balance)
        self._log_weight = put(self.log_weight if self.log_weight.size else np.zeros(1))

    def _run_on_chunks(self, kernel: str, *arguments: Any) -> None:
        self._device.launch(
            kernel, self._blocks, 32 * WARPS_PER_BLOCK, *self._device_chunks, *arguments
        )

    def _run_on_queries(self, kernel: str, *arguments: Any) -> None:
        queries = self._counts[0]
        self._device.launch(kernel, -(-queries // 64), 64, queries, self._query_start, *arguments)

    # -- states ----------------------------------------------------------------------------

    def state(self, scores: Any) -> State:
        """Return risk and pull, on the device if the scores are."""
        if not self._device.holds(scores):
            return super().state(scores)
        device, rows = self._device, np.int64(self.layout.n_used_rows)
        cache, log_value = self._compute_sums_on_device(scores)
        pull = device.arrays.empty(int(rows), np.float64)
        levels = np.int64(self._counts[1])
        self._run_on_chunks("level_pulls", levels, cache.levels, rows, cache.terms, pull)
        value = float(device.get(log_value)[0])
        log_gradient_sum = value + log_of(self.power * self.rate)
        return State(scores, value, log_gradient_sum, pull, cache)

    def _compute_sums_on_device(self, scores: Any) -> tuple[SeparableCache, Any]:
        """Return terms and sums by level, and the logarithm of the risk, all on the device."""
        device, (queries, levels) = self._device, self._counts
        rows, empty = self.layout.n_used_rows, self._device.arrays.empty
        extremes, words = (
            device.zeros(levels, 2, dtype=np.uint64),
            device.zeros(levels, 4, dtype=np.int64),
        )
        terms, by_level = empty((2, rows), np.float64), empty((6, levels), np.float64)
        extremes_on_device, log_query = empty((2, levels), np.float64), empty(queries, np.float64)
        log_value = empty(1, np.float64)
        parameters = float(self.rate), float(self.power), int(self.log_weight.size > 0)
        inputs = *parameters, scores, self._log_weight, extremes
        self._run_on_chunks("level_ends", *inputs)
        self._run_on_chunks("level_terms", *inputs, np.int64(rows), terms, words)
        self._run_on_queries(
            "query_levels", words, extremes, float(self.power), self._balance, np.int64(levels),
            by_level, extremes_on_device, log_query,
        )  # fmt: skip
        device.launch("log_of_sum", 1, 1024, queries, log_query, log_value)
        device.over_rows(
            "scale_levels", levels, self._query_of_level, log_query, log_value, by_level
        )
        return SeparableCache(terms, by_level, words, np.zeros(0), extremes_on_device), log_value

    def log_value(self, scores: Any) -> float:
        """Return the logarithm of the risk, without computing the pull."""
        if not self._device.holds(scores):
            return super().log_value(scores)
        return float(self._device.get(self._compute_sums_on_device(scores)[1])[0])

    def curvature(self, state: State) -> Any:
        """Return the diagonal of the Hessian over the gradient sum, on the device if scores are."""
        if not self._device.holds(state.scores):
            return super().curvature(state)
        cache, levels, device = state.cache, self._counts[1], self._device
        price_curvature = device.zeros(levels)
        if self.power != 1:
            self._run_on_queries(
                "price_curvatures", np.int64(levels), cache.levels, cache.extremes,
                float(self.power), self._balance, float(state.log_value), device.zeros(levels),
                price_curvature,
            )  # fmt: skip
        return self._hessian(state, price_curvature, self.power)

    def half_curvature_bound(self, state: State) -> Any:
        """Return ``p`` times the pair gradients of each row."""
        if not self._device.holds(state.scores):
            return super().half_curvature_bound(state)
        return self.power * self._hessian(state, self._device.zeros(self._counts[1]), 1.0)

    def _hessian(self, state: State, price_curvature: Any, power: float) -> Any:
        if not self._device.holds(state.scores):
            return super()._hessian(state, price_curvature, power)
        rows, cache = self.layout.n_used_rows, state.cache
        hessian = self._device.arrays.empty(rows, np.float64)
        self._run_on_chunks(
            "level_hessians", np.int64(self._counts[1]), cache.levels, np.int64(rows), cache.terms,
            price_curvature, float(power), float(self.rate), hessian,
        )  # fmt: skip
        return hessian

    # -- steps -----------------------------------------------------------------------------

    def edge_weights(self, state: State, values: Any) -> EdgeWeights:
        """Return the weights of the pairs ordered correctly, wrongly or tied, in O(n)."""
        if not self._device.holds(state.scores):
            return super().edge_weights(state, values)
        queries, levels = self._counts
        correct, wrong = self._device.arrays.empty((2, queries), np.float64)
        self._run_on_queries(
            "query_masses", self._sums_where_one_on_device(state, values), state.cache.words,
            np.int64(levels),
            state.cache.levels, correct, wrong,
        )  # fmt: skip
        correct_sum, wrong_sum = self._device.exact_sums([correct, wrong])
        return EdgeWeights(correct_sum, wrong_sum, max(0.0, 1.0 - correct_sum - wrong_sum))

    def _sums_where_one_on_device(self, state: State, values: Any) -> Any:
        ones = self._device.zeros(self._counts[1], 4, dtype=np.int64)
        rows, values = np.int64(self.layout.n_used_rows), self._device.put(values)
        self._run_on_chunks("split_levels", rows, state.cache.terms, values, ones)
        return ones

    def sums_where_one(self, state: State, values: Any) -> Array:
        """Return the sums by level, as integer words, of the terms of rows with value 1."""
        if not self._device.holds(state.scores):
            return super().sums_where_one(state, values)
        return self._device.get(self._sums_where_one_on_device(state, values))

    def _line(self, state: State, values: Any, edge_weights: EdgeWeights) -> PushLine:
        """Return the line for a search on the CPU, from sums by level computed on the device."""
        if not self._device.holds(state.scores):
            return super()._line(state, values, edge_weights)
        get, cache = self._device.get, state.cache
        if min(edge_weights.correct, edge_weights.wrong) < MIN_WEIGHT_AT_LEVEL_SCALE:
            return super()._line(
                replace(state, scores=get(state.scores)), get(values), edge_weights
            )
        on_cpu = replace(cache, words=get(cache.words), extremes=get(cache.extremes))
        return super()._line(replace(state, cache=on_cpu), values, edge_weights)

    def line_search(self, state: State, values: Any) -> tuple[float, bool]:
        """Search on the CPU."""
        if self._device.holds(state.scores):
            state = super().state(self._device.get(state.scores))
        return super().line_search(state, self._device.get(values))

    def least_margin(self, values: Any) -> float:
        """Return the least margin of any pair when scored by the values alone. O(n)."""
        return super().least_margin(self._device.get(values))
