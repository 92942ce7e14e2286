"""The exponential loss with a power as price on a GPU, to the bits of `precede.risks.exponential`.

A warp of threads has a piece of a level, and a thread the levels of a query. Sums over rows are
sums of integers; what is summed over levels is summed in the order of the CPU.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from precede.engine.arrays import Array, Floats
from precede.engine.cuda import Device
from precede.engine.execution import Context
from precede.engine.portable import log_of
from precede.engine.pull import Pull
from precede.engine.query_layout import QueryLayout
from precede.losses import PairLoss, Price
from precede.risks.base import EdgeWeights, State
from precede.risks.exponential import SeparableParts, SeparableRisk
from precede.risks.exponential_line import FAINT, PushLine
from precede.risks.pieces import Pieces

__all__ = ["DeviceSeparableRisk"]

# Rows of a piece; and most levels of a query, which a single thread goes through.
PIECE, MOST_LEVELS = 512, 1024
# Bytes of a row, and of a level.
OF_ROW, OF_LEVEL = 64, 160
# Warps of a block.
WARPS = 8


class DeviceSeparableRisk(SeparableRisk):
    """The risk on a device, wherever the scores are there; on the CPU otherwise.

    `on_device` says whether scores may be there: not with listed pairs, and not where queries
    have very many grades.
    """

    steps_on_device = True

    def __init__(
        self, layout: QueryLayout, loss: PairLoss, cost: Price, context: Context | None = None,
        *, mean: bool = False,
    ):  # fmt: skip
        super().__init__(layout, loss, cost, context, mean=mean)
        assert self.context.device is not None
        self._device: Device = self.context.device
        levels = np.diff(layout.query_start)
        self.on_device = bool(
            not self.context.is_distributed
            and not layout.any_listed
            and not layout.shared
            and levels.max(initial=0) <= MOST_LEVELS
        )
        if self.on_device:
            self._put_on_device()

    def _put_on_device(self) -> None:
        put, layout = self._device.put, self.layout
        needed = OF_ROW * layout.n_used_rows + OF_LEVEL * self._level_query.size
        self._device.check_room(needed, "the pulls of all rows")
        pieces = Pieces.cut(layout, PIECE)
        self._pieces = pieces.count, put(pieces.start), put(pieces.level)
        self._blocks = -(-pieces.count // WARPS)
        self._counts = layout.query_start.size - 1, self._level_query.size
        self._query_start, self._query_of_level = (
            put(layout.query_start),
            put(self._level_query),
        )
        self._balance, self._weight = put(self.log_balance), put(layout.weight)
        self._log_weight = put(self.log_weight if self.log_weight.size else np.zeros(1))

    def _over_pieces(self, kernel: str, *arguments: Any) -> None:
        self._device.launch(kernel, self._blocks, 32 * WARPS, *self._pieces, *arguments)

    def _over_queries(self, kernel: str, *arguments: Any) -> None:
        queries = self._counts[0]
        self._device.launch(kernel, -(-queries // 64), 64, queries, self._query_start, *arguments)

    # -- states ----------------------------------------------------------------------------

    def state(self, scores: Any) -> State:
        """Risk and pull at these scores, where the scores are."""
        if not self._device.holds(scores):
            return super().state(scores)
        device, rows = self._device, np.int64(self.layout.n_used_rows)
        parts, log_value = self._parts_on_device(scores)
        pull = device.arrays.empty(int(rows), np.float64)
        levels = np.int64(self._counts[1])
        self._over_pieces("level_pulls", levels, parts.levels, rows, parts.terms, pull)
        value = float(device.get(log_value)[0])
        log_gradient_sum = value + log_of(self.power * self.rate)
        return State(scores, value, log_gradient_sum, pull, parts)

    def _parts_on_device(self, scores: Any) -> tuple[SeparableParts, Any]:
        """Terms and sums by level, and the logarithm of the risk, all on the device."""
        device, (queries, levels) = self._device, self._counts
        rows, empty = self.layout.n_used_rows, self._device.arrays.empty
        ends, words = (
            device.zeros(levels, 2, dtype=np.uint64),
            device.zeros(levels, 4, dtype=np.int64),
        )
        terms, by_level = empty((2, rows), np.float64), empty((6, levels), np.float64)
        ends_on_device, log_query = empty((2, levels), np.float64), empty(queries, np.float64)
        log_value = empty(1, np.float64)
        rule = float(self.rate), float(self.power), int(self.log_weight.size > 0)
        read = *rule, scores, self._log_weight, ends
        self._over_pieces("level_ends", *read)
        self._over_pieces("level_terms", *read, np.int64(rows), terms, words)
        self._over_queries(
            "query_levels", words, ends, float(self.power), self._balance, np.int64(levels),
            by_level, ends_on_device, log_query,
        )  # fmt: skip
        device.launch("log_of_sum", 1, 1024, queries, log_query, log_value)
        device.over_rows(
            "scale_levels", levels, self._query_of_level, log_query, log_value, by_level
        )
        return SeparableParts(terms, by_level, words, np.zeros(0), ends_on_device), log_value

    def log_value(self, scores: Any) -> float:
        """Logarithm of the risk, without the pull."""
        if not self._device.holds(scores):
            return super().log_value(scores)
        return float(self._device.get(self._parts_on_device(scores)[1])[0])

    def curvature(self, state: State) -> Any:
        """Diagonal of the second derivative over the pair mass, where the scores are."""
        if not self._device.holds(state.scores):
            return super().curvature(state)
        parts, levels, device = state.parts, self._counts[1], self._device
        price_curvature = device.zeros(levels)
        if self.power != 1:
            self._over_queries(
                "price_curvatures", np.int64(levels), parts.levels, parts.ends, float(self.power),
                self._balance, float(state.log_value), device.zeros(levels), price_curvature,
            )  # fmt: skip
        return self._hessian(state, price_curvature, self.power)

    def half_bound(self, state: State) -> Any:
        """``p`` times the pair masses of every row."""
        if not self._device.holds(state.scores):
            return super().half_bound(state)
        return self.power * self._hessian(state, self._device.zeros(self._counts[1]), 1.0)

    def _hessian(self, state: State, price_curvature: Any, power: float) -> Any:
        if not self._device.holds(state.scores):
            return super()._hessian(state, price_curvature, power)
        rows, parts = self.layout.n_used_rows, state.parts
        hessian = self._device.arrays.empty(rows, np.float64)
        self._over_pieces(
            "level_hessians", np.int64(self._counts[1]), parts.levels, np.int64(rows), parts.terms,
            price_curvature, float(power), float(self.rate), hessian,
        )  # fmt: skip
        return hessian

    def pull_of(self, state: State) -> Pull:
        """What a search is shown, with item weights and terms where the scores are."""
        pull = super().pull_of(state)
        if not self._device.holds(state.scores):
            return pull
        terms = pull.terms
        return replace(pull, item_weight=self._weight, terms=lambda: self._device.put(terms()))

    # -- steps -----------------------------------------------------------------------------

    def edge_weights(self, state: State, values: Any) -> EdgeWeights:
        """Shares of the pair mass ordered rightly, wrongly, not at all: O(n)."""
        if not self._device.holds(state.scores):
            return super().edge_weights(state, values)
        queries, levels = self._counts
        right, wrong = self._device.arrays.empty((2, queries), np.float64)
        self._over_queries(
            "query_masses", self._split_on_device(state, values), state.parts.words,
            np.int64(levels),
            state.parts.levels, right, wrong,
        )  # fmt: skip
        in_order, reversed_ = self._device.exact_sums([right, wrong])
        return EdgeWeights(in_order, reversed_, max(0.0, 1.0 - in_order - reversed_))

    def _split_on_device(self, state: State, values: Any) -> Any:
        ones = self._device.zeros(self._counts[1], 4, dtype=np.int64)
        rows, values = np.int64(self.layout.n_used_rows), self._device.put(values)
        self._over_pieces("split_levels", rows, state.parts.terms, values, ones)
        return ones

    def split(self, state: State, values: Any) -> Array:
        """Sums of the terms over the rows where a ranker is 1, by level, as integers."""
        if not self._device.holds(state.scores):
            return super().split(state, values)
        return self._device.get(self._split_on_device(state, values))

    def _line(self, state: State, values: Any, edge_weights: EdgeWeights) -> PushLine:
        """The sums of levels are searched on the CPU; faint ones are taken from the rows there."""
        if not self._device.holds(state.scores):
            return super()._line(state, values, edge_weights)
        get, parts = self._device.get, state.parts
        if min(edge_weights.right, edge_weights.wrong) < FAINT:
            return super()._line(
                replace(state, scores=get(state.scores)), get(values), edge_weights
            )
        here = replace(parts, words=get(parts.words), ends=get(parts.ends))
        return super()._line(replace(state, parts=here), values, edge_weights)

    def search_line(self, state: State, values: Any) -> tuple[float, bool]:
        """As on the CPU, and there."""
        if self._device.holds(state.scores):
            state = super().state(self._device.get(state.scores))
        return super().search_line(state, self._device.get(values))

    def least_margin(self, values: Any) -> float:
        """Least margin that the values alone give to any term of the risk: O(n)."""
        return super().least_margin(self._device.get(values))

    def totals(self, state: State) -> Floats:
        """Total weight of the pairs that every row takes part in."""
        totals = super().totals(state)
        return self._device.put(totals) if self._device.holds(state.scores) else totals
