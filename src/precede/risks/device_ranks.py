"""Pairs weighted by rank on a GPU: `ranked_pairs` and `top_ranks` in parallel, to the same bits.

A block of threads has a query. The rank of a row is the number of rows above it, which are
counted. Where weights do not end at a rank, as those of "ndcg@10" do, and queries are balanced, the
CPU finds the weight of every query.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from precede.engine.arrangement import Arrangement
from precede.engine.arrays import Floats
from precede.losses import PairLoss, Price
from precede.risks.base import State
from precede.risks.device_pairs import PullThere
from precede.risks.rank_weights import RankWeights
from precede.risks.ranked_pairs import RankedPairsRisk

__all__ = ["DeviceRankedPairsRisk"]

# Rows of the longest query: every row is compared with all others.
LONGEST = 8192
# Threads that have a query.
THREADS = 128


@dataclass(frozen=True)
class _WeightsThere:
    """What `RoundWeights` holds, on the device."""

    scores: Any
    discount: Any
    tied: Any
    plain: Any
    factor: Any


class DeviceRankedPairsRisk(PullThere, RankedPairsRisk):
    """The risk on a device, wherever the scores are there; on the CPU otherwise.

    `on_device` says whether scores may be there: if queries have no more than `LONGEST` rows.
    """

    def __init__(self, arrangement: Arrangement, loss: PairLoss, cost: Price, weights: RankWeights):
        super().__init__(arrangement, loss, cost, weights)
        assert self.workers.device is not None
        self._device = self.workers.device
        self._round_there: _WeightsThere | None = None
        self.on_device = bool(
            self.workers.alone
            and (weights.top is None or weights.top.pieces.single)
            and self._longest <= LONGEST
            and arrangement.n_graded
        )
        if self.on_device:
            self._put_on_device()

    def _put_on_device(self) -> None:
        put, arrangement, weights = self._device.put, self.arrangement, self.weights
        by_rank = weights.by_rank if weights.top is None else weights.top.by_rank
        graded = arrangement.n_graded
        self._weight = put(arrangement.weight)
        self._sides = self._weight, put(arrangement.outer)
        self._levels = put(arrangement.query_start), put(arrangement.level_start)
        self._first, self._by_rank = put(weights.first), put(by_rank)
        self._gain, self._level_gain = put(weights.gain), put(weights.level_gain)
        self._scales = put(weights.scale), put(weights.plain_totals)
        self._grade = put(arrangement.grade[:graded]) if self.loss.gap else None
        self._scratch, self._turns = self._device.zeros(2, graded), self._device.zeros(4, graded)

    # -- weights ---------------------------------------------------------------------------

    def begin_round(self, scores: Any) -> bool:
        """Rank the items by these scores and keep the weights until the next round."""
        if not self._device.holds(scores):
            return super().begin_round(scores)
        self._round_there = self._ranked(scores)
        return True

    def _at(self, scores: Any) -> _WeightsThere:
        return self._ranked(scores) if self._round_there is None else self._round_there

    def _ranked(self, scores: Any) -> _WeightsThere:
        """Weights of a round that begins at these scores; see `RankWeights.at`."""
        device, empty, ranked = self._device, self._device.arrays.empty, self.weights
        graded, queries = self.arrangement.n_graded, ranked.first.size - 1
        kept = scores[:graded].copy()
        group, edge = empty(graded, np.uint8), empty((queries, 2), np.float64)
        discount, tied = empty(graded, np.float64), empty(graded, np.float64)
        plain, factor = empty(queries, np.float64), empty(queries, np.float64)
        device.launch(
            "top_ranks", queries, THREADS, self._first, kept, self._by_rank, self._by_rank.size,
            group, edge, discount, tied,
        )  # fmt: skip
        if ranked.top is None and (ranked.balanced or ranked.rule.blend):
            here = ranked.at(device.get(kept))
            plain, factor = device.put(here.plain), device.put(here.factor)
            return _WeightsThere(kept, discount, tied, plain, factor)
        device.launch(
            "weights_of_queries", -(-queries // 64), 64, queries, *self._levels, self._level_gain,
            group, edge, discount, tied, kept, *self._scales, *self._sides,
            float(ranked.rule.blend), int(ranked.balanced), plain, factor,
        )  # fmt: skip
        return _WeightsThere(kept, discount, tied, plain, factor)

    def totals(self, state: State) -> Floats:
        """Weight of the pairs that every row takes part in, in this round."""
        if not self._device.holds(state.scores):
            return super().totals(state)
        found = np.zeros(self.arrangement.n_arranged)
        weights = self.weights.at(self._device.get(self._at(state.scores).scores))
        found[: self.arrangement.n_graded] = self.weights.pair_weights(weights)
        return self._device.put(found)

    # -- states ----------------------------------------------------------------------------

    def log_value(self, scores: Any) -> float:
        """Logarithm of the risk, without the pull."""
        if not self._device.holds(scores):
            return super().log_value(scores)
        unused = self._device.zeros(1)
        value, _ = self._sums_there(scores, unused, unused, value=True, slopes=False)
        return float(np.log(value)) if value > 0 else -np.inf

    def first_state(self, scores: Any, *, value: bool) -> State:
        """Risk, pull and curvature at these scores, where the scores are."""
        if not self._device.holds(scores):
            return super().first_state(scores, value=value)
        rows = self.arrangement.n_arranged
        pull, hessian = self._device.zeros(rows), self._device.zeros(rows)
        total, mass = self._sums_there(scores, pull, hessian, value=value, slopes=True)
        if mass <= 0:  # every pair is beyond its margin: nothing pulls
            nothing = self._device.zeros(rows), self._device.zeros(rows)
            return State(scores, -np.inf, -np.inf, *nothing)
        self._device.over_rows("divide_by", rows, float(mass), pull, hessian)
        log_value = np.nan if not value else float(np.log(total)) if total > 0 else -np.inf
        return State(scores, log_value, float(np.log(mass)), pull, hessian)

    def _sums_there(
        self, scores: Any, pull: Floats, hessian: Any, *, value: bool, slopes: bool
    ) -> list[float]:
        """Value and mass of all queries; `pull` and `hessian` get those of the rows."""
        graded, weights = self.arrangement.n_graded, self._at(scores)
        at = scores[:graded] if self._grade is None else scores[:graded] - self._grade
        queries = self.weights.first.size - 1
        sums = self._device.arrays.empty((2, queries), np.float64)
        self._device.launch(
            "ranked_pairs", queries, THREADS, *self._levels, np.int64(graded), self._degree,
            float(self._knot), int(self._sparse), float(self.weights.flat), at, weights.scores,
            self._gain, weights.discount, weights.tied, *self._sides, weights.plain, weights.factor,
            int(value), int(slopes), self._scratch, self._turns, pull, hessian, sums,
        )  # fmt: skip
        return self._device.exact_sums([*sums])
