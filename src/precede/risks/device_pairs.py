"""Logistic and squared hinge risk of many short queries on a GPU: `short_queries` in parallel.

A block of threads has a query. Each sum is taken in the order of the CPU, so that pull and
curvature have the same bits.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from precede.engine.arrangement import Arrangement
from precede.engine.arrays import Floats
from precede.engine.cuda import HELD, Device
from precede.engine.pull import Pull
from precede.engine.workers import Workers
from precede.losses import PairLoss, Price
from precede.risks.base import BoundLossRisk, State
from precede.risks.device_cells import DeviceNodes
from precede.risks.logistic_cells import LogisticRisk
from precede.risks.short_queries import EnumeratedRisk

__all__ = ["DeviceEnumeratedRisk", "DeviceLogisticRisk", "PullThere"]

# Longer runs are summed on the CPU: some sums of a run are taken by a single thread.
LONGEST = 8192


class PullThere(BoundLossRisk):
    """A risk whose pull a search on a device is shown: what goes with it is there as well."""

    _device: Device
    _weight: Any  # of every row, on the device

    def pull_of(self, state: State) -> Pull:
        """What a search is shown, with item weights and terms where the scores are."""
        pull = super().pull_of(state)
        if not self._device.holds(state.scores):
            return pull
        terms = pull.terms
        return replace(pull, item_weight=self._weight, terms=lambda: self._device.put(terms()))

    def totals(self, state: State) -> Floats:
        """Total weight of the pairs that every row takes part in."""
        totals = super().totals(state)
        return self._device.put(totals) if self._device.holds(state.scores) else totals


class DeviceEnumeratedRisk(PullThere, EnumeratedRisk):
    """Pairs enumerated on a device, wherever the scores are there; on the CPU otherwise.

    `on_device` says whether scores may be there: not with listed pairs, and not with runs of more
    than `LONGEST` rows that are enumerated.
    """

    def __init__(
        self, arrangement: Arrangement, loss: PairLoss, cost: Price, workers: Workers | None = None
    ):
        super().__init__(arrangement, loss, cost, workers)
        assert self.workers.device is not None
        self._device = self.workers.device
        self.on_device = (
            not arrangement.winner.size and not arrangement.shared and self._longest <= LONGEST
        )
        if self.on_device:
            self._put_on_device()

    def _put_on_device(self) -> None:
        put, arrangement, rows = self._device.put, self.arrangement, self.arrangement.n_arranged
        self._weight = put(arrangement.weight)
        self._read = put(self._runs), put(arrangement.level_start)
        self._weights = self._weight, put(arrangement.outer)
        self._grade = put(arrangement.grade[: arrangement.n_graded]) if self.loss.gap else None
        self._held = min(self._longest, HELD)
        self._scratch = self._device.zeros(4, rows)
        self._twos = self._device.zeros(rows, dtype=np.int32)
        self._totals = self._device.zeros(len(self._runs))
        if not len(self._runs):
            return
        self._device.launch(
            "pair_weights", -(-len(self._runs) // 128), 128, len(self._runs), *self._read,
            *self._weights, self._totals,
        )  # fmt: skip

    def state(self, scores: Any) -> State:
        """Risk, pull and curvature at these scores, where the scores are."""
        if not self._device.holds(scores):
            return super().state(scores)
        rows = self.arrangement.n_arranged
        pull, hessian = self._device.zeros(rows), self._device.zeros(rows)
        at = scores if self._grade is None else scores[: self._grade.size] - self._grade
        value, mass = self._device.exact_sums([*self._sum_on_device(at, pull, hessian)])
        if mass <= 0:  # every pair is beyond its margin: nothing pulls
            nothing = self._device.zeros(rows), self._device.zeros(rows)
            return State(scores, -np.inf, -np.inf, *nothing)
        self._device.over_rows("divide_by", rows, float(mass), pull, hessian)
        log_value = float(np.log(value)) if value > 0 else -np.inf
        return State(scores, log_value, float(np.log(mass)), pull, hessian)

    def _sum_on_device(self, at: Any, pull: Floats, hessian: Any) -> Any:
        """Add all pairs to pull and curvature; gives values and masses of the runs."""
        runs, rows = len(self._runs), self.arrangement.n_arranged
        sums = self._device.arrays.full((2, runs), np.nan)
        if not runs:
            return sums
        threads = 128 if self._longest <= 256 else 256
        if self._logistic:
            self._device.launch(
                "narrow_runs", runs, threads, *self._read, at, *self._weights, self._totals, pull,
                hessian, sums, self._held, self._scratch, self._twos, np.int64(rows),
                shared=36 * self._held,
            )  # fmt: skip
        self._device.launch(
            "plain_runs", runs, threads, *self._read, int(self._logistic), float(self._knot), at,
            *self._weights, pull, hessian, sums, self._scratch, np.int64(rows),
        )  # fmt: skip
        return sums


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
        found = self._nodes.add_to(at, pull, hessian, self.workers)
        return self._device.arrays.concatenate([sums, found], axis=1)
