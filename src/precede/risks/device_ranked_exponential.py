"""The exponential loss with weights by rank on a GPU, to the bits of the CPU.

See `precede.risks.top_exponential` and `precede.risks.rank_weights`. A block of threads has a
query. Sums are taken in the order of the CPU: where weights end at a rank, a thread sums a level
and another one walks through the levels; otherwise a thread has a grade and walks through the rows
in ranking order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from precede.engine.arrays import Floats
from precede.engine.portable import log_of
from precede.risks.base import EdgeWeights, State
from precede.risks.device_ranks import THREADS, DeviceRanks, DeviceWeights
from precede.risks.rank_weights import RankedExponentialRisk
from precede.risks.top_exponential import TopExponentialRisk


@dataclass(frozen=True)
class _Sums:
    """Behind a state on the device: terms of all rows, and the sums over pairs.

    `found` are the sums of rows as winners and as losers, relative to exp(`lift`) of the query:
    where weights end at a rank those of the rows above and of queries that are far apart only.
    `by_level` are then the sums of the others, by level. `totals` are those of queries by side.
    """

    weights: DeviceWeights
    terms: Any
    far: Any
    by_level: Any
    found: Any
    totals: Any
    lift: Any


class _DeviceExponential(DeviceRanks, RankedExponentialRisk):
    """The risk on a device, wherever the scores are there; on the CPU otherwise."""

    steps_on_backend = True

    def _meet_on_device(self, sums: _Sums, values: Any, *, losers: bool) -> None:
        """Sums over pairs, apart from queries whose scores are far apart."""
        raise NotImplementedError

    def _spread_on_device(self, sums: _Sums, log_value: float, *, curved: bool) -> Any:
        """The pull, or if `curved` the curvature, over the pair mass."""
        raise NotImplementedError

    def _masses_on_device(self, sums: _Sums, values: Any, log_value: float) -> Any:
        """Masses of pairs in order and reversed, of rows or of queries."""
        raise NotImplementedError

    def state(self, scores: Any) -> State:
        """Risk and pull at these scores, where the scores are."""
        if not self._device.holds(scores):
            return super().state(scores)
        sums, log_value = self._sums_on_device(scores)
        if log_value == -np.inf:  # no pair has any weight
            nothing = self._device.zeros(self.layout.n_used_rows)
            return State(scores, -np.inf, -np.inf, nothing, sums)
        pull = self._spread_on_device(sums, log_value, curved=False)
        return State(scores, log_value, log_value + log_of(self.rate), pull, sums)

    def log_value(self, scores: Any) -> float:
        """Logarithm of the risk, without the pull."""
        if not self._device.holds(scores):
            return super().log_value(scores)
        return self._sums_on_device(scores, losers=False)[1]

    def _sums_on_device(
        self, scores: Any, weights: DeviceWeights | None = None, values: Any = None, *,
        losers: bool = True,
    ) -> tuple[_Sums, float]:  # fmt: skip
        """Sums over pairs and the logarithm of the risk; with `values`, over pairs they split."""
        device, empty, (queries, graded) = self._device, self._device.arrays.empty, self._sizes
        sums = _Sums(
            self._weights_at(scores) if weights is None else weights,
            empty((2, int(graded)), np.float64), empty(queries, np.uint8),
            empty((4, self._level_gain.size), np.float64), empty((2, int(graded)), np.float64),
            empty((queries, 2), np.float64), empty(queries, np.float64),
        )  # fmt: skip
        known, log_query = sums.weights, empty(queries, np.float64)
        device.launch(
            "ranked_terms", queries, THREADS, self._first, graded, float(self.rate), scores,
            *self._side_weights, sums.terms, sums.far,
        )  # fmt: skip
        self._meet_on_device(sums, values, losers=losers)
        device.launch(
            "far_meet", queries, THREADS, *self._level_bounds, self._level_of, graded,
            float(self.rate), float(self.weights.flat), scores, known.scores, self._gain,
            known.discount, known.tied, known.plain, known.factor, *self._side_weights,
            int(values is not None), known.group if values is None else values, sums.far,
            sums.found, sums.totals, sums.lift, log_query,
        )  # fmt: skip
        if values is not None:  # sums of sides: nobody asks for their logarithm
            return sums, np.nan
        log_value = empty(1, np.float64)
        device.launch("log_of_sum", 1, 1024, queries, log_query, log_value)
        return sums, float(device.get(log_value)[0])

    def curvature(self, state: State) -> Floats:
        """Diagonal of the second derivative over the pair mass: the masses of a row's pairs."""
        if not self._device.holds(state.scores):
            return super().curvature(state)
        if state.log_value == -np.inf:
            return self._device.zeros(self.layout.n_used_rows)
        return self._spread_on_device(state.cache, state.log_value, curved=True)

    def edge_weights(self, state: State, values: Any) -> EdgeWeights:
        """Shares of the pair mass ordered rightly, wrongly, not at all."""
        if not self._device.holds(state.scores):
            return super().edge_weights(state, values)
        if state.log_value == -np.inf:
            return EdgeWeights(0.0, 0.0, 0.0)
        values = self._device.put(values)
        sums, _ = self._sums_on_device(state.scores, state.cache.weights, values, losers=False)
        parts = self._masses_on_device(sums, values, state.log_value)
        right, wrong = self._device.exact_sums([*parts])
        return EdgeWeights(right, wrong, max(0.0, 1.0 - right - wrong))

    def line_search(self, state: State, values: Any) -> tuple[float, bool]:
        """As on the CPU, and there, with the weights of this round."""
        if self._device.holds(state.scores):
            get, kept = self._device.get, self._round
            if self._round_on_device is not None:
                self._round = self.weights.at(get(self._round_on_device.scores))
            try:
                return super().line_search(super().state(get(state.scores)), get(values))
            finally:
                self._round = kept
        return super().line_search(state, values)

    def least_margin(self, values: Any) -> float:
        """Least margin that the values alone give to any term of the risk: O(n)."""
        return super().least_margin(self._device.get(values))


class DeviceTopExponentialRisk(_DeviceExponential, TopExponentialRisk):
    """Weights that end at a rank."""

    def _meet_on_device(self, sums: _Sums, values: Any, *, losers: bool) -> None:  # noqa: ARG002
        known, (queries, graded) = sums.weights, self._sizes
        levels = self._level_gain.size
        self._device.launch(
            "top_meet", queries, THREADS, *self._level_bounds, self._level_of, graded,
            np.int64(levels), self._level_gain, known.group, known.edge, known.discount, known.tied,
            known.scores, known.plain, known.factor, sums.terms, int(values is not None),
            known.group if values is None else values, self._device.zeros(levels, 8), sums.by_level,
            sums.found, sums.totals,
        )  # fmt: skip

    def _spread_on_device(self, sums: _Sums, log_value: float, *, curved: bool) -> Any:
        out, (queries, graded) = self._device.zeros(self.layout.n_used_rows), self._sizes
        rate, sign = (float(self.rate), 1.0) if curved else (1.0, -1.0)
        self._device.launch(
            "top_spread", queries, THREADS, self._first, self._level_of, graded,
            np.int64(self._level_gain.size), sums.weights.group, sums.far, sums.terms,
            sums.by_level, sums.found, sums.lift, log_value, rate, sign, out,
        )  # fmt: skip
        return out

    def _masses_on_device(self, sums: _Sums, values: Any, log_value: float) -> Any:  # noqa: ARG002
        queries = self._sizes[0]
        parts = self._device.arrays.empty((2, queries), np.float64)
        self._device.over_rows("top_masses", queries, sums.totals, sums.lift, log_value, *parts)
        return parts


class DeviceRankedExponentialRisk(_DeviceExponential):
    """Weights of all ranks, for queries of no more than `FEW` grades."""

    needs_order = True

    def _meet_on_device(self, sums: _Sums, values: Any, *, losers: bool) -> None:
        known, met = sums.weights, self._device.arrays.empty((4, sums.terms.shape[1]), np.float64)
        self._sum_pairs_by_grade(
            known, (known.plain, known.factor), [*sums.terms], values, met, sums.found, sums.totals,
            losers=losers,
        )  # fmt: skip

    def _spread_on_device(self, sums: _Sums, log_value: float, *, curved: bool) -> Any:
        out, (queries, graded) = self._device.zeros(self.layout.n_used_rows), self._sizes
        self._device.launch(
            "ranked_spread", queries, THREADS, self._first, graded, sums.found, sums.lift,
            log_value, float(self.rate), int(curved), out,
        )  # fmt: skip
        return out

    def _masses_on_device(self, sums: _Sums, values: Any, log_value: float) -> Any:
        queries, graded = self._sizes
        parts = self._device.arrays.empty((2, int(graded)), np.float64)
        self._device.launch(
            "ranked_masses", queries, THREADS, self._first, graded, sums.found, values, sums.lift,
            log_value, *parts,
        )  # fmt: skip
        return parts
