"""Logistic and hinge risks of many short queries on a GPU: `short_queries` in parallel.

A block of threads has a query. Each sum is taken in the order of the CPU, so that pull and
curvature have the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from precede.engine.arrays import Floats
from precede.engine.cuda import HELD, Device
from precede.engine.execution import Context
from precede.engine.portable import log_of
from precede.engine.pull import Pull
from precede.engine.query_layout import QueryLayout
from precede.losses import PairLoss, Price
from precede.risks.base import BoundLossRisk, State
from precede.risks.device_cells import DeviceNodes
from precede.risks.device_sweeps import DeviceSweeps
from precede.risks.hinge_sweeps import HingeRisk
from precede.risks.logistic_cells import LogisticRisk
from precede.risks.short_queries import EnumeratedRisk

__all__ = ["DeviceEnumeratedRisk", "DeviceHingeRisk", "DeviceLogisticRisk", "DevicePull"]

# Longer runs are summed on the CPU: some sums of a run are taken by a single thread.
LONGEST = 8192
# Bytes of a row, of a row of a long list that is swept, and of a listed pair.
OF_ROW, OF_SWEPT_ROW, OF_PAIR = 100, 100, 72
# So are listed pairs if a single row has more of them.
MOST_LISTED = 1 << 16


@dataclass(frozen=True)
class _Listed:
    """Listed pairs on a device; see the kernels `listed_pairs` and `listed_rows`."""

    winner: Any
    loser: Any
    weight: Any
    asked: Any
    by_row: list[Any]


def _most_of_a_row(layout: QueryLayout) -> int:
    """Most listed pairs that a single row wins or loses."""
    sides = layout.winner, layout.loser
    return max(int(np.bincount(side).max(initial=0)) for side in sides)


class DevicePull(BoundLossRisk):
    """A risk whose pull a search on a device is shown: what goes with it is there as well."""

    _device: Device
    _weight: Any  # of every row, on the device
    # Copied when they are first asked for; they are the same in every round.
    _device_terms: Any = None
    _totals_on_device: Any = None

    def pull_of(self, state: State) -> Pull:
        """What a search is shown, with item weights and terms where the scores are."""
        pull = super().pull_of(state)
        if not self._device.holds(state.scores):
            return pull
        return replace(pull, item_weight=self._weight, terms=self._terms_on_device)

    def _terms_on_device(self) -> Any:
        if self._device_terms is None:
            self._device_terms = self._device.put(self.terms())
        return self._device_terms

    def totals(self, state: State) -> Floats:
        """Total weight of the pairs that every row takes part in."""
        if not self._device.holds(state.scores):
            return super().totals(state)
        if self._totals_on_device is None:
            self._totals_on_device = self._device.put(super().totals(state))
        return self._totals_on_device


class DeviceEnumeratedRisk(DevicePull, EnumeratedRisk):
    """Pairs enumerated on a device, wherever the scores are there; on the CPU otherwise.

    `on_device` says whether scores may be there: not with runs of more than `LONGEST` rows that are
    enumerated, or rows with more than `MOST_LISTED` listed pairs.
    """

    def __init__(
        self, layout: QueryLayout, loss: PairLoss, cost: Price, context: Context | None = None
    ):
        super().__init__(layout, loss, cost, context)
        assert self.context.device is not None
        self._device = self.context.device
        self.on_device = (
            not layout.shared and self._longest <= LONGEST and _most_of_a_row(layout) <= MOST_LISTED
        )
        if self.on_device:
            self._put_on_device()

    def _put_on_device(self) -> None:
        put, layout, rows = self._device.put, self.layout, self.layout.n_used_rows
        needed = OF_ROW * rows + OF_PAIR * layout.winner.size
        self._device.check_room(needed, "the pulls of all pairs")
        self._weight = put(layout.weight)
        self._read = put(self._runs), put(layout.level_start)
        self._weights = self._weight, put(layout.loser_weight)
        self._grade = put(layout.grade[: layout.n_graded]) if self.loss.gap else None
        self._held = min(self._longest, HELD)
        self._scratch = self._device.zeros(4, rows)
        self._twos = self._device.zeros(rows, dtype=np.int32)
        self._totals = self._device.zeros(len(self._runs))
        if len(self._runs):
            self._device.launch(
                "pair_weights", -(-len(self._runs) // 128), 128, len(self._runs), *self._read,
                *self._weights, self._totals,
            )  # fmt: skip
        self._pairs: _Listed | None = self._put_listed() if layout.winner.size else None

    def _put_listed(self) -> _Listed:
        """Listed pairs, and for every row the numbers of those that it wins and loses."""
        layout, put = self.layout, self._device.put
        asked, rows = layout.pair_margin, np.arange(layout.n_used_rows + 1)
        by_row = []
        for side in (layout.winner, layout.loser):
            order = np.argsort(side, kind="stable")
            by_row += [put(np.searchsorted(side[order], rows)), put(order)]
        return _Listed(
            put(layout.winner), put(layout.loser), put(self._pair_weight),
            put(np.ones(layout.winner.size) if asked is None else asked), by_row,
        )  # fmt: skip

    def state(self, scores: Any) -> State:
        """Risk, pull and curvature at these scores, where the scores are."""
        if not self._device.holds(scores):
            return super().state(scores)
        rows = self.layout.n_used_rows
        pull, hessian = self._device.zeros(rows), self._device.zeros(rows)
        at = scores if self._grade is None else scores[: self._grade.size] - self._grade
        sums = self._sum_on_device(at, pull, hessian)
        if self._pairs is not None:
            listed = self._sum_listed(self._pairs, scores, pull, hessian)
            sums = self._device.arrays.concatenate([sums, listed], axis=1)
        value, mass = self._device.exact_sums([*sums])
        if mass <= 0:  # every pair is beyond its margin: nothing pulls
            nothing = self._device.zeros(rows), self._device.zeros(rows)
            return State(scores, -np.inf, -np.inf, *nothing)
        self._device.over_rows("divide_by", rows, float(mass), pull, hessian)
        log_value = log_of(value) if value > 0 else -np.inf
        return State(scores, log_value, log_of(mass), pull, hessian)

    def _sum_on_device(self, at: Any, pull: Floats, hessian: Any) -> Any:
        """Add all pairs to pull and curvature; gives values and masses of the runs."""
        runs, rows = len(self._runs), self.layout.n_used_rows
        sums = self._device.arrays.full((2, runs), np.nan)
        if not runs:
            return sums
        threads = 128 if self._longest <= 256 else 256
        if self._degree == 0:
            self._device.launch(
                "narrow_runs", runs, threads, *self._read, at, *self._weights, self._totals, pull,
                hessian, sums, self._held, self._scratch, self._twos, np.int64(rows),
                shared=36 * self._held,
            )  # fmt: skip
        self._device.launch(
            "plain_runs", runs, threads, *self._read, self._degree, float(self._knot), at,
            *self._weights, pull, hessian, sums, self._scratch, np.int64(rows),
        )  # fmt: skip
        return sums

    def _sum_listed(self, pairs: _Listed, scores: Any, pull: Floats, hessian: Any) -> Any:
        """Add the listed pairs; gives their values and masses."""
        count = pairs.winner.size
        terms = self._device.arrays.empty((3, count), np.float64)
        self._device.over_rows(
            "listed_pairs", count, pairs.winner, pairs.loser, pairs.weight, pairs.asked,
            int(self.loss.gap), self._degree, float(self._knot), scores, terms,
        )  # fmt: skip
        self._device.over_rows(
            "listed_rows", pull.size, np.int64(count), *pairs.by_row, terms, pull, hessian
        )
        return terms[:2]


class DeviceLogisticRisk(DeviceEnumeratedRisk, LogisticRisk):
    """The logistic risk: pairs that are enumerated, and long lists by cells."""

    def _put_on_device(self) -> None:
        super()._put_on_device()
        self._nodes = None
        if self._depths:
            self._nodes = DeviceNodes(self._device, self._depths, self._weight)

    def _sum_on_device(self, at: Any, pull: Floats, hessian: Floats) -> Any:
        sums = super()._sum_on_device(at, pull, hessian)
        if self._nodes is None:
            return sums
        found = self._nodes.add_to(at, pull, hessian, self.context)
        return self._device.arrays.concatenate([sums, found], axis=1)


class DeviceHingeRisk(DeviceEnumeratedRisk, HingeRisk):
    """The hinge risks: pairs that are enumerated, and long lists by sweeps."""

    def _put_on_device(self) -> None:
        super()._put_on_device()
        self._sweeps = None
        if self._depths:
            graded = self.layout.n_graded
            self._device.check_room(OF_SWEPT_ROW * graded, "the pulls of long lists")
            self._sweeps = DeviceSweeps(self._device, self._depths, graded, *self._weights)

    def _sum_on_device(self, at: Any, pull: Floats, hessian: Floats) -> Any:
        sums = super()._sum_on_device(at, pull, hessian)
        if self._sweeps is None:
            return sums
        found = self._sweeps.add_to(at, self._degree, self._knot, pull, hessian)
        return self._device.arrays.concatenate([sums, found], axis=1)
