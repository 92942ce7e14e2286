"""Logistic and hinge risks of short queries on a GPU; see `precede.risks.short_queries`.

One block of threads sums one level range. Every sum is taken in the order of the CPU, so gradients
and Hessians have the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from precede.engine.arrays import Floats
from precede.engine.cuda import MAX_SHARED_ROWS, Device
from precede.engine.execution import Context
from precede.engine.portable import log_of
from precede.engine.pull import Pull
from precede.engine.query_layout import QueryLayout
from precede.losses import PairLoss, Price
from precede.risks.base import BoundLossRisk, State
from precede.risks.device_cells import DeviceLevelNodes
from precede.risks.device_sweeps import DeviceLevelSplits
from precede.risks.hinge_sweeps import HingeRisk
from precede.risks.logistic_cells import LogisticRisk
from precede.risks.short_queries import EnumeratedRisk

# Beyond these limits the CPU is used, because one thread takes some sums of a level range, or of
# the explicit pairs of a row.
MAX_RANGE_ROWS = 8192
MAX_PAIRS_PER_ROW = 1 << 16
BYTES_PER_ROW, BYTES_PER_SPLIT_ROW, BYTES_PER_PAIR = 100, 100, 72


@dataclass(frozen=True)
class _ExplicitPairs:
    """Explicit pairs on the GPU, as the kernels `listed_pairs` and `listed_rows` need them."""

    winner: Any
    loser: Any
    weight: Any
    margin: Any
    pairs_of_row: list[Any]


def _max_pairs_per_row(layout: QueryLayout) -> int:
    """Return the largest number of explicit pairs that one row wins or loses."""
    sides = layout.winner, layout.loser
    return max(int(np.bincount(side).max(initial=0)) for side in sides)


class DevicePull(BoundLossRisk):
    """Risk whose pull, item weights and pair counts are on the GPU if the scores are."""

    _device: Device
    _weight: Any  # of every row, on the device
    # Copied when first used; they are the same in every round.
    _device_pair_counts: Any = None
    _totals_on_device: Any = None

    def pull_of(self, state: State) -> Pull:
        """Return the pull, with item weights and pair counts on the device of the scores."""
        pull = super().pull_of(state)
        if not self._device.holds(state.scores):
            return pull
        return replace(pull, item_weight=self._weight, pair_counts=self._pair_counts_on_device)

    def _pair_counts_on_device(self) -> Any:
        if self._device_pair_counts is None:
            self._device_pair_counts = self._device.put(self.pair_counts())
        return self._device_pair_counts

    def pair_totals(self, state: State) -> Floats:
        """Return the total weight of the pairs of every row."""
        if not self._device.holds(state.scores):
            return super().pair_totals(state)
        if self._totals_on_device is None:
            self._totals_on_device = self._device.put(super().pair_totals(state))
        return self._totals_on_device


class DeviceEnumeratedRisk(DevicePull, EnumeratedRisk):
    """Enumerated pairs, summed on the device that holds the scores.

    `on_device` says whether scores may be on the GPU: not with enumerated level ranges of more than
    `MAX_RANGE_ROWS` rows, or rows with more than `MAX_PAIRS_PER_ROW` explicit pairs.
    """

    def __init__(
        self, layout: QueryLayout, loss: PairLoss, cost: Price, context: Context | None = None
    ):
        super().__init__(layout, loss, cost, context)
        assert self.context.device is not None
        self._device = self.context.device
        self.on_device = (
            not layout.queries_span_machines
            and self._max_rows <= MAX_RANGE_ROWS
            and _max_pairs_per_row(layout) <= MAX_PAIRS_PER_ROW
        )
        if self.on_device:
            self._put_on_device()

    def _put_on_device(self) -> None:
        put, layout, rows = self._device.put, self.layout, self.layout.n_used_rows
        needed = BYTES_PER_ROW * rows + BYTES_PER_PAIR * layout.winner.size
        self._device.check_room(needed, "the pulls of all pairs")
        self._weight = put(layout.weight)
        self._range_arrays = put(self._level_ranges), put(layout.level_start)
        self._weights = self._weight, put(layout.loser_weight)
        self._grade = put(layout.grade[: layout.n_graded]) if self.loss.gap else None
        self._shared_rows = min(self._max_rows, MAX_SHARED_ROWS)
        self._scratch = self._device.zeros(4, rows)
        self._winner_twos = self._device.zeros(rows, dtype=np.int32)
        self._range_weights = self._device.zeros(len(self._level_ranges))
        if len(self._level_ranges):
            self._device.launch(
                "pair_weights", -(-len(self._level_ranges) // 128), 128, len(self._level_ranges),
                *self._range_arrays, *self._weights, self._range_weights,
            )  # fmt: skip
        self._explicit_pairs: _ExplicitPairs | None = (
            self._put_explicit_pairs() if layout.winner.size else None
        )

    def _put_explicit_pairs(self) -> _ExplicitPairs:
        """Copy the explicit pairs, and for every row the pairs that it wins and loses."""
        layout, put = self.layout, self._device.put
        margin, rows = layout.pair_margin, np.arange(layout.n_used_rows + 1)
        pairs_of_row = []
        for side in (layout.winner, layout.loser):
            order = np.argsort(side, kind="stable")
            pairs_of_row += [put(np.searchsorted(side[order], rows)), put(order)]
        return _ExplicitPairs(
            put(layout.winner), put(layout.loser), put(self._pair_weight),
            put(np.ones(layout.winner.size) if margin is None else margin), pairs_of_row,
        )  # fmt: skip

    def state(self, scores: Any) -> State:
        """Compute risk, pull and Hessian diagonal on the device of the scores."""
        if not self._device.holds(scores):
            return super().state(scores)
        rows = self.layout.n_used_rows
        pull, hessian = self._device.zeros(rows), self._device.zeros(rows)
        graded_scores = scores if self._grade is None else scores[: self._grade.size] - self._grade
        sums = self._add_graded_on_device(graded_scores, pull, hessian)
        if self._explicit_pairs is not None:
            explicit = self._add_explicit_on_device(self._explicit_pairs, scores, pull, hessian)
            sums = self._device.arrays.concatenate([sums, explicit], axis=1)
        value, gradient_sum = self._device.exact_sums([*sums])
        if gradient_sum <= 0:  # every pair is beyond its margin
            zeros = self._device.zeros(rows), self._device.zeros(rows)
            return State(scores, -np.inf, -np.inf, *zeros)
        self._device.over_rows("divide_by", rows, float(gradient_sum), pull, hessian)
        log_value = log_of(value) if value > 0 else -np.inf
        return State(scores, log_value, log_of(gradient_sum), pull, hessian)

    def _add_graded_on_device(self, scores: Any, pull: Floats, hessian: Any) -> Any:
        """Add the graded pairs to pull and Hessian.

        Returns the values, then the gradient sums, of the level ranges.
        """
        n_ranges, rows = len(self._level_ranges), self.layout.n_used_rows
        sums = self._device.arrays.full((2, n_ranges), np.nan)
        if not n_ranges:
            return sums
        threads = 128 if self._max_rows <= 256 else 256
        if self._degree == 0:
            self._device.launch(
                "narrow_runs", n_ranges, threads, *self._range_arrays, scores, *self._weights,
                self._range_weights, pull, hessian, sums, self._shared_rows, self._scratch,
                self._winner_twos, np.int64(rows), shared=36 * self._shared_rows,
            )  # fmt: skip
        self._device.launch(
            "plain_runs", n_ranges, threads, *self._range_arrays, self._degree, float(self._knot),
            scores, *self._weights, pull, hessian, sums, self._scratch, np.int64(rows),
        )  # fmt: skip
        return sums

    def _add_explicit_on_device(
        self, pairs: _ExplicitPairs, scores: Any, pull: Floats, hessian: Any
    ) -> Any:
        """Add the explicit pairs; return their values, then their gradients."""
        count = pairs.winner.size
        terms = self._device.arrays.empty((3, count), np.float64)
        self._device.over_rows(
            "listed_pairs", count, pairs.winner, pairs.loser, pairs.weight, pairs.margin,
            int(self.loss.gap), self._degree, float(self._knot), scores, terms,
        )  # fmt: skip
        self._device.over_rows(
            "listed_rows", pull.size, np.int64(count), *pairs.pairs_of_row, terms, pull, hessian
        )
        return terms[:2]


class DeviceLogisticRisk(DeviceEnumeratedRisk, LogisticRisk):
    """Logistic risk: short queries by enumeration, long lists by cells."""

    def _put_on_device(self) -> None:
        super()._put_on_device()
        self._nodes = None
        if self._depths:
            self._nodes = DeviceLevelNodes(self._device, self._depths, self._weight)

    def _add_graded_on_device(self, scores: Any, pull: Floats, hessian: Floats) -> Any:
        sums = super()._add_graded_on_device(scores, pull, hessian)
        if self._nodes is None:
            return sums
        node_sums = self._nodes.add_gradients(scores, pull, hessian, self.context)
        return self._device.arrays.concatenate([sums, node_sums], axis=1)


class DeviceHingeRisk(DeviceEnumeratedRisk, HingeRisk):
    """Hinge risks: short queries by enumeration, long lists by scans."""

    def _put_on_device(self) -> None:
        super()._put_on_device()
        self._splits = None
        if self._depths:
            graded = self.layout.n_graded
            self._device.check_room(BYTES_PER_SPLIT_ROW * graded, "the pulls of long lists")
            self._splits = DeviceLevelSplits(self._device, self._depths, graded, *self._weights)

    def _add_graded_on_device(self, scores: Any, pull: Floats, hessian: Floats) -> Any:
        sums = super()._add_graded_on_device(scores, pull, hessian)
        if self._splits is None:
            return sums
        chunk_sums = self._splits.add_gradients(scores, self._degree, self._knot, pull, hessian)
        return self._device.arrays.concatenate([sums, chunk_sums], axis=1)
