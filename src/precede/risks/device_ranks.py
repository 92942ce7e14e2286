"""LambdaRank weights on a GPU: `ranked_pairs` and `top_ranks`, with the same bits.

One block of threads handles one query. The rank of a row is found by counting the rows above it.
The CPU computes the weight of every query if there is no cut-off, queries have more than
`MAX_SUMMED_GRADES` grades, and weights are balanced or blended.
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
from precede.risks.rank_weights import (
    MAX_SUMMED_GRADES,
    RankWeightedRisk,
    RankWeights,
    RoundWeights,
)
from precede.risks.ranked_pairs import MAX_ENUMERATED_TIES, RankedPairsRisk

MAX_QUERY_ROWS = 8192  # every row is compared with all others
BYTES_PER_ROW = 200
# Threads per query, and per query of `grade_meet`: one per direction, grade and kind of sum.
THREADS, GRADE_THREADS = 128, 64
assert MAX_SUMMED_GRADES <= GRADE_THREADS // 4, "kernels have no room for more grades"


@dataclass(frozen=True)
class DeviceWeights:
    """`RoundWeights` and `TopWeights` on the GPU.

    `order` and `ends` are empty with a cut-off, and where they are not needed.
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


class DeviceRanks(RankWeightedRisk):
    """Risk whose ranks and weights are on the GPU if the scores are.

    Scores may be on the GPU if queries have at most `MAX_QUERY_ROWS` rows
    and, where a round needs the ranking order, at most `MAX_SUMMED_GRADES` grades.
    """

    # Whether a round needs the rows in ranking order.
    needs_order = False

    def __init__(self, layout: QueryLayout, loss: PairLoss, cost: Price, weights: RankWeights):
        super().__init__(layout, loss, cost, weights)
        assert self.context.device is not None
        self._device = self.context.device
        self._round_on_device: DeviceWeights | None = None
        self._has_few_grades = int(np.diff(layout.query_start).max(initial=0)) <= MAX_SUMMED_GRADES
        has_kernels = bool(
            not self.context.is_distributed
            and (weights.top is None or weights.top.pieces.single)
            and int(np.diff(weights.first).max(initial=0)) <= MAX_QUERY_ROWS
            and layout.n_graded
            and (self._has_few_grades or not self.needs_order)
        )
        if has_kernels:
            self.backend = self.context.backend
            self._put_on_device()

    def _put_on_device(self) -> None:
        put, layout, weights = self._device.put, self.layout, self.weights
        self._device.check_room(BYTES_PER_ROW * layout.n_graded, "the pulls of all pairs")
        by_rank = weights.by_rank if weights.top is None else weights.top.by_rank
        self._side_weights = put(layout.weight), put(layout.loser_weight)
        self._level_bounds = put(layout.query_start), put(layout.level_start)
        rows = np.diff(layout.level_start)
        self._level_of = put(np.repeat(np.arange(rows.size), rows))
        self._first, self._by_rank = put(weights.first), put(by_rank)
        self._gain, self._level_gain = put(weights.gain), put(weights.level_gain)
        self._scales = put(weights.scale), put(weights.plain_totals)
        self._sizes = weights.first.size - 1, np.int64(layout.n_graded)

    # -- weights ---------------------------------------------------------------------------

    def begin_round(self, scores: Any) -> bool:
        """Rank the items by these scores and fix the weights until the next round."""
        if not self._device.holds(scores):
            return super().begin_round(scores)
        self._round_on_device = self._rank(scores)
        return True

    def _weights_at(self, scores: Any) -> DeviceWeights:
        return self._rank(scores) if self._round_on_device is None else self._round_on_device

    def _rank(self, scores: Any) -> DeviceWeights:
        """Return the weights of a round that begins at these scores; see `RankWeights.at`."""
        device, empty, rules = self._device, self._device.arrays.empty, self.weights
        n_queries, n_graded = self._sizes
        rank_scores, blend = scores[:n_graded].copy(), float(rules.rule.blend)
        discount, tied = empty(int(n_graded), np.float64), empty(int(n_graded), np.float64)
        plain, factor = empty(n_queries, np.float64), empty(n_queries, np.float64)
        needs_totals = rules.top is None and (rules.balanced or blend > 0)
        n_ordered = n_graded if self.needs_order or (needs_totals and self._has_few_grades) else 0
        order, ends = empty(int(n_ordered), np.int64), empty(int(n_ordered), np.int64)
        weights = DeviceWeights(
            rank_scores, discount, tied, plain, factor, empty(int(n_graded), np.uint8),
            empty((n_queries, 2), np.float64), order, ends,
        )  # fmt: skip
        device.launch(
            "top_ranks", n_queries, THREADS, self._first, rank_scores, self._by_rank,
            self._by_rank.size, weights.group, weights.edge, discount, tied,
        )  # fmt: skip
        if n_ordered:
            device.launch("ranked_order", n_queries, THREADS, self._first, rank_scores, order, ends)
        if not needs_totals:
            device.launch(
                "weights_of_queries", -(-n_queries // 64), 64, n_queries, *self._level_bounds,
                self._level_gain, weights.group, weights.edge, discount, tied, rank_scores,
                *self._scales, *self._side_weights, blend, int(rules.balanced), plain, factor,
            )  # fmt: skip
        elif self._has_few_grades:
            self._scale_weights(weights, blend)
        else:
            cpu_weights = rules.at(device.get(rank_scores))
            plain[:], factor[:] = device.put(cpu_weights.plain), device.put(cpu_weights.factor)
        return weights

    def _scale_weights(self, weights: DeviceWeights, blend: float) -> None:
        """Scale the weights of queries without a cut-off by the weight of all their pairs."""
        n_queries, n_graded = self._sizes
        sums, row_sums = self._device.zeros(4, int(n_graded)), self._device.zeros(2, int(n_graded))
        totals, scale = self._device.zeros(n_queries, 2), self._scales[0]
        rule = self._device.zeros(n_queries), scale
        self._sum_pairs_by_grade(
            weights, rule, self._side_weights, None, sums, row_sums, totals, losers=False
        )
        self._device.launch(
            "weights_from_totals", -(-n_queries // 64), 64, n_queries, totals, *self._scales, blend,
            int(self.weights.balanced), weights.plain, weights.factor,
        )  # fmt: skip

    def _sum_pairs_by_grade(
        self, weights: DeviceWeights, rule: tuple[Any, Any], terms: Any, values: Any, sums: Any,
        row_sums: Any, totals: Any, *, losers: bool,
    ) -> None:  # fmt: skip
        """Sum over the pairs of every row and query; see `RankWeights.sum_pairs`."""
        n_queries, n_graded = self._sizes
        sides = weights.group if values is None else values
        self._device.launch(
            "grade_meet", n_queries, GRADE_THREADS, self._level_bounds[0], self._first, n_graded,
            weights.order, weights.ends, self._level_of, self._level_gain, weights.discount,
            weights.tied, float(self.weights.flat), *rule, *terms, int(values is not None), sides,
            int(losers), sums, row_sums, totals,
        )  # fmt: skip

    def pair_totals(self, state: State) -> Floats:
        """Return the total weight of the pairs of every row in this round."""
        if not self._device.holds(state.scores):
            return super().pair_totals(state)
        totals = np.zeros(self.layout.n_used_rows)
        weights = self.weights.at(self._device.get(self._weights_at(state.scores).scores))
        totals[: self.layout.n_graded] = self.weights.pair_weights(weights)
        return self._device.put(totals)


class DeviceRankedPairsRisk(DeviceRanks, RankedPairsRisk):
    """Logistic and hinge losses, summed on the device that holds the scores.

    Rounds that begin with a large tied group in a long list, such as the first one, are summed on
    the CPU.
    """

    def _put_on_device(self) -> None:
        super()._put_on_device()
        n_graded = self.layout.n_graded
        self._grade = self._device.put(self.layout.grade[:n_graded]) if self.loss.gap else None
        self._scratch = self._device.zeros(2, n_graded)
        self._partial_sums = self._device.zeros(4, n_graded)

    def begin_round(self, scores: Any) -> bool:
        """Rank the items by these scores and fix the weights until the next round."""
        begun = super().begin_round(scores)
        if self._device.holds(scores):
            self._round = self._weights_with_ties(scores)
        return begun

    def _weights_with_ties(self, scores: Any) -> RoundWeights | None:
        """Return the weights of a round with large tied groups; None if it has none."""
        if not self._long_queries or not self._sparse:
            return None
        # Counted on the GPU, so that rounds without tied groups copy one number per query.
        discounted = self._device.arrays.cumsum(
            self._weights_at(scores).discount > 0, dtype=np.int64
        )
        counts = np.diff(self._device.get(discounted[self._first[1:] - 1]), prepend=0)
        if counts[self._long_queries].max() <= MAX_ENUMERATED_TIES:
            return None
        weights = self.weights.at(self._device.get(scores))
        return weights if self._tied_subgroups(weights, weights.scores) else None

    def _needs_cpu(self, scores: Any) -> bool:
        """Return whether scores that are on the GPU have to be summed on the CPU."""
        weights = self._weights_with_ties(scores) if self._round_on_device is None else self._round
        return weights is not None

    def log_value(self, scores: Any) -> float:
        """Return the logarithm of the risk."""
        if not self._device.holds(scores):
            return super().log_value(scores)
        if self._needs_cpu(scores):
            return super().log_value(self._device.get(scores))
        unused = self._device.zeros(1)
        value, _ = self._sums_on_device(scores, unused, unused, value=True, slopes=False)
        return log_of(value) if value > 0 else -np.inf

    def first_state(self, scores: Any, *, value: bool) -> State:
        """Compute risk, pull and Hessian diagonal on the device of the scores."""
        if not self._device.holds(scores):
            return super().first_state(scores, value=value)
        if self._needs_cpu(scores):
            state = super().first_state(self._device.get(scores), value=value)
            gradients = self._device.put(state.pull), self._device.put(state.cache)
            return State(scores, state.log_value, state.log_gradient_sum, *gradients)
        rows = self.layout.n_used_rows
        pull, hessian = self._device.zeros(rows), self._device.zeros(rows)
        total, gradient_sum = self._sums_on_device(scores, pull, hessian, value=value, slopes=True)
        if gradient_sum <= 0:  # every pair is beyond its margin
            zeros = self._device.zeros(rows), self._device.zeros(rows)
            return State(scores, -np.inf, -np.inf, *zeros)
        self._device.over_rows("divide_by", rows, float(gradient_sum), pull, hessian)
        log_value = np.nan if not value else log_of(total) if total > 0 else -np.inf
        return State(scores, log_value, log_of(gradient_sum), pull, hessian)

    def _sums_on_device(
        self, scores: Any, pull: Floats, hessian: Any, *, value: bool, slopes: bool
    ) -> list[float]:
        """Return value and gradient sum; with `slopes` fill `pull` and `hessian`."""
        n_graded, weights = self.layout.n_graded, self._weights_at(scores)
        graded_scores = scores[:n_graded]
        if self._grade is not None:
            graded_scores = graded_scores - self._grade
        n_queries = self.weights.first.size - 1
        sums = self._device.arrays.empty((2, n_queries), np.float64)
        self._device.launch(
            "ranked_pairs", n_queries, THREADS, *self._level_bounds, np.int64(n_graded),
            self._degree, float(self._knot), int(self._sparse), float(self.weights.flat),
            graded_scores, weights.scores, self._gain, weights.discount, weights.tied,
            *self._side_weights, weights.plain, weights.factor, int(value), int(slopes),
            self._scratch, self._partial_sums, pull, hessian, sums,
        )  # fmt: skip
        return self._device.exact_sums([*sums])
