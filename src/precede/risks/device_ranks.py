"""Pairs weighted by rank on a GPU: `ranked_pairs` and `top_ranks` in parallel, to the same bits.

A block of threads has a query. The rank of a row is the number of rows above it, which are
counted. Where weights do not end at a rank, as those of "ndcg@10" do, and queries of more than
`FEW` grades are balanced or their weights blended, the CPU finds the weight of every query.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from precede.engine.arrays import Floats
from precede.engine.portable import log_of
from precede.engine.query_layout import QueryLayout
from precede.losses import PairLoss, Price
from precede.risks.base import State
from precede.risks.device_pairs import DevicePull
from precede.risks.rank_weights import FEW, RankWeightedRisk, RankWeights, RoundWeights
from precede.risks.ranked_pairs import CROWD, RankedPairsRisk

__all__ = ["DeviceRankedPairsRisk", "DeviceRanks", "DeviceWeights"]

# Rows of the longest query: every row is compared with all others.
LONGEST = 8192
# Bytes of a row: what is known of it, ranks, terms and sums.
OF_ROW = 200
# Threads that have a query; and those of `grade_meet`, one for each way, grade and kind of sum.
THREADS, GRADE_THREADS = 128, 64
assert FEW <= GRADE_THREADS // 4, "kernels have no room for more grades"


@dataclass(frozen=True)
class DeviceWeights:
    """What `RoundWeights` and `TopWeights` hold, on the device.

    `order` and `ends` are empty where weights end at a rank, and where nothing needs them.
    """

    scores: Any
    discount: Any
    tied: Any
    plain: Any
    factor: Any
    group: Any
    edge: Any
    order: Any
    ends: Any


class DeviceRanks(DevicePull, RankWeightedRisk):
    """A risk whose ranks and weights are on a device, wherever the scores are there.

    `on_device` says whether scores may be there: if queries have no more than `LONGEST` rows and,
    where a round needs their order, no more than `FEW` grades.
    """

    # Whether a round needs the rows in ranking order.
    needs_order = False

    def __init__(self, layout: QueryLayout, loss: PairLoss, cost: Price, weights: RankWeights):
        super().__init__(layout, loss, cost, weights)
        assert self.context.device is not None
        self._device = self.context.device
        self._round_on_device: DeviceWeights | None = None
        self._few = int(np.diff(layout.query_start).max(initial=0)) <= FEW
        self.on_device = bool(
            not self.context.is_distributed
            and (weights.top is None or weights.top.pieces.single)
            and int(np.diff(weights.first).max(initial=0)) <= LONGEST
            and layout.n_graded
            and (self._few or not self.needs_order)
        )
        if self.on_device:
            self._put_on_device()

    def _put_on_device(self) -> None:
        put, layout, weights = self._device.put, self.layout, self.weights
        self._device.check_room(OF_ROW * layout.n_graded, "the pulls of all pairs")
        by_rank = weights.by_rank if weights.top is None else weights.top.by_rank
        self._weight = put(layout.weight)
        self._sides = self._weight, put(layout.loser_weight)
        self._levels = put(layout.query_start), put(layout.level_start)
        rows = np.diff(layout.level_start)
        self._level_of = put(np.repeat(np.arange(rows.size), rows))
        self._first, self._by_rank = put(weights.first), put(by_rank)
        self._gain, self._level_gain = put(weights.gain), put(weights.level_gain)
        self._scales = put(weights.scale), put(weights.plain_totals)
        self._counts = weights.first.size - 1, np.int64(layout.n_graded)

    # -- weights ---------------------------------------------------------------------------

    def begin_round(self, scores: Any) -> bool:
        """Rank the items by these scores and keep the weights until the next round."""
        if not self._device.holds(scores):
            return super().begin_round(scores)
        self._round_on_device = self._ranked(scores)
        return True

    def _at(self, scores: Any) -> DeviceWeights:
        return self._ranked(scores) if self._round_on_device is None else self._round_on_device

    def _ranked(self, scores: Any) -> DeviceWeights:
        """Weights of a round that begins at these scores; see `RankWeights.at`."""
        device, empty, ranked = self._device, self._device.arrays.empty, self.weights
        queries, graded = self._counts
        kept, blend = scores[:graded].copy(), float(ranked.rule.blend)
        discount, tied = empty(int(graded), np.float64), empty(int(graded), np.float64)
        plain, factor = empty(queries, np.float64), empty(queries, np.float64)
        total = ranked.top is None and (ranked.balanced or blend > 0)
        ordered = graded if self.needs_order or (total and self._few) else 0
        order, ends = empty(int(ordered), np.int64), empty(int(ordered), np.int64)
        found = DeviceWeights(
            kept, discount, tied, plain, factor, empty(int(graded), np.uint8),
            empty((queries, 2), np.float64), order, ends,
        )  # fmt: skip
        device.launch(
            "top_ranks", queries, THREADS, self._first, kept, self._by_rank, self._by_rank.size,
            found.group, found.edge, discount, tied,
        )  # fmt: skip
        if ordered:
            device.launch("ranked_order", queries, THREADS, self._first, kept, order, ends)
        if not total:
            device.launch(
                "weights_of_queries", -(-queries // 64), 64, queries, *self._levels,
                self._level_gain, found.group, found.edge, discount, tied, kept, *self._scales,
                *self._sides, blend, int(ranked.balanced), plain, factor,
            )  # fmt: skip
        elif self._few:
            self._weigh(found, blend)
        else:
            here = ranked.at(device.get(kept))
            plain[:], factor[:] = device.put(here.plain), device.put(here.factor)
        return found

    def _weigh(self, weights: DeviceWeights, blend: float) -> None:
        """Weights of queries where they do not end at a rank, by the weight of all pairs."""
        queries, graded = self._counts
        met, found = self._device.zeros(4, int(graded)), self._device.zeros(2, int(graded))
        totals, scale = self._device.zeros(queries, 2), self._scales[0]
        rule = self._device.zeros(queries), scale
        self._meet_grades(weights, rule, self._sides, None, met, found, totals, losers=False)
        self._device.launch(
            "weights_from_totals", -(-queries // 64), 64, queries, totals, *self._scales, blend,
            int(self.weights.balanced), weights.plain, weights.factor,
        )  # fmt: skip

    def _meet_grades(
        self, weights: DeviceWeights, rule: tuple[Any, Any], terms: Any, values: Any, met: Any,
        found: Any, totals: Any, *, losers: bool,
    ) -> None:  # fmt: skip
        """Sums over pairs of every row and query; see `RankWeights.meet`."""
        queries, graded = self._counts
        sides = weights.group if values is None else values
        self._device.launch(
            "grade_meet", queries, GRADE_THREADS, self._levels[0], self._first, graded,
            weights.order, weights.ends, self._level_of, self._level_gain, weights.discount,
            weights.tied, float(self.weights.flat), *rule, *terms, int(values is not None), sides,
            int(losers), met, found, totals,
        )  # fmt: skip

    def totals(self, state: State) -> Floats:
        """Weight of the pairs that every row takes part in, in this round."""
        if not self._device.holds(state.scores):
            return super().totals(state)
        found = np.zeros(self.layout.n_used_rows)
        weights = self.weights.at(self._device.get(self._at(state.scores).scores))
        found[: self.layout.n_graded] = self.weights.pair_weights(weights)
        return self._device.put(found)


class DeviceRankedPairsRisk(DeviceRanks, RankedPairsRisk):
    """Logistic and hinge losses on a device, where the scores are there.

    Rounds that begin with a crowd of equal scores in a long list, such as the first one, are
    summed on the CPU.
    """

    def _put_on_device(self) -> None:
        super()._put_on_device()
        graded = self.layout.n_graded
        self._grade = self._device.put(self.layout.grade[:graded]) if self.loss.gap else None
        self._scratch, self._turns = self._device.zeros(2, graded), self._device.zeros(4, graded)

    def begin_round(self, scores: Any) -> bool:
        """Rank the items by these scores and keep the weights until the next round."""
        begun = super().begin_round(scores)
        if self._device.holds(scores):
            self._round = self._weights_of_crowds(scores)
        return begun

    def _weights_of_crowds(self, scores: Any) -> RoundWeights | None:
        """Weights of a round that begins at these scores; None if they have no crowds."""
        if not self._long or not self._sparse:
            return None
        # Counted on the device, so that rounds without crowds copy one number for each query.
        discounted = self._device.arrays.cumsum(self._at(scores).discount > 0, dtype=np.int64)
        counts = np.diff(self._device.get(discounted[self._first[1:] - 1]), prepend=0)
        if counts[self._long].max() <= CROWD:
            return None
        weights = self.weights.at(self._device.get(scores))
        return weights if self._crowds(weights, weights.scores) else None

    def _summed_here(self, scores: Any) -> bool:
        """Whether scores that are on the device are summed on the CPU."""
        known = self._weights_of_crowds(scores) if self._round_on_device is None else self._round
        return known is not None

    def log_value(self, scores: Any) -> float:
        """Logarithm of the risk, without the pull."""
        if not self._device.holds(scores):
            return super().log_value(scores)
        if self._summed_here(scores):
            return super().log_value(self._device.get(scores))
        unused = self._device.zeros(1)
        value, _ = self._sums_on_device(scores, unused, unused, value=True, slopes=False)
        return log_of(value) if value > 0 else -np.inf

    def first_state(self, scores: Any, *, value: bool) -> State:
        """Risk, pull and curvature at these scores, where the scores are."""
        if not self._device.holds(scores):
            return super().first_state(scores, value=value)
        if self._summed_here(scores):
            state = super().first_state(self._device.get(scores), value=value)
            there = self._device.put(state.pull), self._device.put(state.parts)
            return State(scores, state.log_value, state.log_gradient_sum, *there)
        rows = self.layout.n_used_rows
        pull, hessian = self._device.zeros(rows), self._device.zeros(rows)
        total, mass = self._sums_on_device(scores, pull, hessian, value=value, slopes=True)
        if mass <= 0:  # every pair is beyond its margin: nothing pulls
            nothing = self._device.zeros(rows), self._device.zeros(rows)
            return State(scores, -np.inf, -np.inf, *nothing)
        self._device.over_rows("divide_by", rows, float(mass), pull, hessian)
        log_value = np.nan if not value else log_of(total) if total > 0 else -np.inf
        return State(scores, log_value, log_of(mass), pull, hessian)

    def _sums_on_device(
        self, scores: Any, pull: Floats, hessian: Any, *, value: bool, slopes: bool
    ) -> list[float]:
        """Value and mass of all queries; `pull` and `hessian` get those of the rows."""
        graded, weights = self.layout.n_graded, self._at(scores)
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
