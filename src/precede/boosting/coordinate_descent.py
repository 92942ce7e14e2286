"""Coordinate descent: pull, search, step. What a round of most algorithms does.

An algorithm is a `Plan`: a risk, a family of rankers, a way to choose among them, a rule for
the step. Nothing here knows which loss it minimizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from precede.boosting.history import History, Monitor, Progress, Stop
from precede.boosting.steps import SmoothedStepWarning, Step, StepRule
from precede.boosting.trainer import PERFECT, Round, Trainer
from precede.engine.arrays import Array, Flags, Floats
from precede.engine.exact import all_reduce_all
from precede.engine.execution import is_small
from precede.engine.training_data import TrainingData
from precede.model import Ensemble
from precede.risks.base import Risk, State
from precede.weak_rankers.base import Family, Search, SearchResult, WeakRanker
from precede.weak_rankers.columns import Constant

__all__ = ["NOTHING_LEFT", "CoordinateDescent", "Plan", "advance"]


# Why a fit ends when the search comes back with nothing: only an exhaustive one can be sure.
NOTHING_LEFT = "no weak ranker improves the risk"
NOTHING_FOUND = "the search found no weak ranker that improves the risk"
STALLED = "stalled at a kink of the loss"
# Beyond this, logarithms of masses are too coarse for the masses to add up.
MOST_LOG = 1e12


# So many rows are added at once: the products of more would leave the processor's cache.
ROWS_AT_ONCE = 1 << 14
# A loss with kinks has stalled if a step is at most SHORT_STEP of the longest so far although the
# edge of its ranker is at least LARGE_EDGE of the largest: the next steps end at the same kink.
SHORT_STEP, LARGE_EDGE = 0.01, 0.1
# From this learning rate on a step that should be infinite is worth a warning.
FULL_STEP = 0.5


@dataclass(frozen=True)
class Plan:
    """An algorithm: what to minimize, with which rankers, chosen how, by which step.

    `select` is "slope" (steepest descent, RS09 eq. 3) or "decrease" (largest decrease,
    RS09 eq. 5). `draw` gives the features allowed in a round, or None for all. `nonnegative`
    allows only rankers of a positive edge, so that every step and every weight is positive.
    """

    risk: Risk
    weak_rankers: Family
    step: StepRule
    stop: Stop
    select: str = "slope"
    learning_rate: float = 1.0
    draw: Callable[[], Flags | None] = lambda: None
    nonnegative: bool = False
    callbacks: Sequence[Callable[[Progress], Any]] = ()


class CoordinateDescent(Trainer):
    """Every round one ranker is chosen by the pull and added with a step along it.

    `ensemble` and `history` are rounds of an earlier fit to continue from.
    """

    def __init__(
        self,
        plan: Plan,
        training: TrainingData,
        ensemble: Ensemble | None = None,
        history: History | None = None,
        monitors: Sequence[Monitor] = (),
    ):
        self.plan, self.training, self.monitors = plan, training, monitors
        self.stop, self.context = plan.stop, training.context
        self.risk = plan.risk.bind(training.layout, training.context)
        self.search: Search = plan.weak_rankers.start(training.table, training.context)
        self._check_device()
        if plan.nonnegative:
            self.search = self.search.restrict_to_positive()
            _check_nonnegative(ensemble)
        self.ensemble = Ensemble([], [], training.table.n_features)
        self.scores = self._start()
        self._warned = self._stalled = False
        self._longest = self._steepest = 0.0
        self._offset = 0.0
        self._drawn: Flags | None = None  # features that the round may use
        self._moving = False  # whether a round has been begun to be added to the scores
        plan.step.start(self.search, ensemble or self.ensemble, History(history or ()))
        for weak_ranker, weight in zip(*_parts(ensemble), strict=True):
            self.risk.begin_round(self.scores)
            plan.step.again(self.risk, self.scores, weak_ranker, weight)
            self._add(weak_ranker, weight, weak_ranker.on(training.table))
        self.state = self.risk.state(self.scores)

    def advance(self) -> Round | None:
        """Choose a ranker and add it."""
        if self.risk.begin_round(self.scores):
            self.state = self.risk.first_state(self.scores, value=self.plan.step.needs_value)
        if self.state.log_gradient_sum > MOST_LOG:
            raise ValueError(
                f"the logarithm of the risk is {self.state.log_gradient_sum:.3g}, too large to "
                "tell its "
                "parts from one another; divide sample_weight by its mean, or lower the price"
            )
        found = self._choose()
        if found is None:
            sure = self.plan.weak_rankers.exhaustive or self.state.log_gradient_sum == -np.inf
            self.exhausted = NOTHING_LEFT if sure else NOTHING_FOUND
            return None
        values = found.values
        if values is None:
            values = found.weak_ranker.on(self.training.table)
        step = self._step(found, values)
        self._warn(step, found)
        if self._stalls(step, found):
            self.exhausted = STALLED
            return None
        weight = step.size if step.whole else self.plan.learning_rate * step.size
        forward = self.plan.nonnegative or self.plan.weak_rankers.quadratic
        if forward and weight <= 0 and not step.whole:
            self.exhausted = NOTHING_LEFT  # the edge was nothing but rounding
            return None
        self._moving = True
        self._add(found.weak_ranker, weight, values)
        self.state = self.risk.end_round(self.scores)
        self._moving = False
        return self._round(found, weight, step)

    def last_state(self) -> State:
        """The state after the last round, of which a risk may know a part only."""
        if self.state.pull.size < self.scores.size or np.isnan(self.state.log_value):
            self.state = self.risk.state(self.scores)
        return self.state

    def last_scores(self) -> Floats:
        """Scores after the last round, with those that the rows started from."""
        device = self.context.device
        return self.scores if device is None else device.get(self.scores)

    def interrupt(self, history: History) -> str:
        """Leave out a ranker whose round was not finished."""
        if self._moving or len(self.ensemble) > len(history):
            self.ensemble = self.ensemble.first(len(history))
            self.scores = self._start()
            for weak_ranker, weight in zip(*_parts(self.ensemble), strict=True):
                self.risk.begin_round(self.scores)
                self._move(weak_ranker.on(self.training.table), weight)
            self.state = self.risk.state(self.scores)
        return super().interrupt(history)

    def _start(self) -> Floats:
        """Scores before the first round."""
        given = self.training.init_score
        scores = np.zeros(self.training.table.n_used_rows) if given is None else given.copy()
        device = self.context.device
        stepping = self.plan.step.on_device or self.risk.steps_on_device
        stays = device is not None and self.risk.on_device and stepping
        return device.put(scores) if device is not None and stays else scores

    def _check_device(self) -> None:
        """Refuse a device that would not be used."""
        if self.context.device is not None and not self.search.on_device:
            raise ValueError(
                f"device='cuda' is for trees and stumps, and {self.plan.weak_rankers!r} would be "
                "searched on the CPU; use device='cpu'"
            )

    def check_history(self, history: History) -> None:
        """Refuse a history that is not the one of these data."""
        if not len(history):
            return
        was, now = history[-1].get("log_risk"), self._log_risk()
        if was != now:
            raise ValueError(
                f"after {len(history)} rounds the logarithm of the risk is {now!r} here and "
                f"{was!r} in the checkpoint: it was made from other data; remove it or give "
                "another path"
            )

    def _step(self, found: SearchResult, values: Array) -> Step:
        if self._offset != 0:
            return Step(self._offset, whole=True)
        step = self.plan.step.step(self.risk, self.state, found, values)
        if not step.perfect or step.whole:
            return step
        # No round follows: shortened, it would be outweighed by the intercept of two classes.
        size = self.risk.last_step(self.state, values, step.size)
        return Step(size, perfect=True, whole=True)

    def _log_risk(self) -> float:
        return self.risk.log_mean_payment(self.state.log_value)

    def _choose(self) -> SearchResult | None:
        if self.state.log_gradient_sum == -np.inf:  # every pair is beyond its margin
            return None
        allowed = self._drawn = self.plan.draw()
        self.search.begin(len(self.ensemble))
        self._offset = self._find_offset()
        if self._offset != 0:
            ones = np.ones_like(self.state.scores)
            return SearchResult(Constant(), self.risk.edge(self.state, ones), values=ones)
        found = self._best(allowed)
        if found is None and allowed is not None:  # none of those drawn is of any use
            found = self._best(None)
        return found

    def _find_offset(self) -> float:
        """What the risk asks to add to all scores before the first ranker, while all are 0."""
        offset = self.risk.offset(self.state)
        if offset == 0:
            return 0.0
        still = all_reduce_all(lambda: not self.state.scores.any(), self.context)
        return offset if still else 0.0

    def _best(self, allowed: Flags | None) -> SearchResult | None:
        if self.plan.select == "decrease":
            factors = self.risk.factors(self.state, bound=self.plan.step.from_edge)
            if factors is None:
                raise ValueError(
                    "select='decrease' is for the exponential loss without a push; "
                    "use select='slope'"
                )
            return self.search.best_decrease(factors, allowed)
        return self.search.best_for(self.risk.pull_of(self.state), allowed)

    def _move(self, values: Array, weight: float) -> None:
        device = self.context.device
        if device is not None and device.holds(self.scores):
            device.advance(self.scores, values, weight)
            return
        self.context.run(
            advance,
            self.scores.size,
            self.scores,
            values,
            weight,
            small=is_small("rows", self.scores.size),
        )

    def _add(self, weak_ranker: WeakRanker, weight: float, values: Array) -> None:
        self._move(values, weight)
        for monitor in self.monitors:
            monitor.advance(weak_ranker, weight)
        self.ensemble.append(weak_ranker, weight)

    def _round(self, found: SearchResult, weight: float, step: Step) -> Round:
        log_risk = self._log_risk()
        columns = {
            "risk": float(np.exp(log_risk)),
            "log_risk": log_risk,
            "edge": found.edge,
            "step": weight,
            "smoothed": step.smoothed,
            "perfect": step.perfect,
        }
        more = self.risk.observed(self.state) | self.plan.step.seen(self.risk, self.state)
        return Round(columns, more, PERFECT if step.perfect else "")

    def _stalls(self, step: Step, found: SearchResult) -> bool:
        """Whether every further round would repeat this one; warns of steps that end at a kink."""
        if not (self.risk.kinked and self.plan.step.least_on_line):
            return False
        size, edge = abs(step.size), abs(found.edge)
        self._longest, self._steepest = max(self._longest, size), max(self._steepest, edge)
        stalls = size <= SHORT_STEP * self._longest and edge >= LARGE_EDGE * self._steepest
        if stalls and not self._stalled:
            self._stalled = True
            self.context.warn(
                f"round {len(self.ensemble) + 1}: the loss has a kink, and the risk is least there "
                "along the steepest weak ranker although it may fall along several at once: "
                "coordinate descent can stall above the minimum; use loss='squared_hinge', "
                "'logistic' or losses.SmoothedHinge(0.1), or ConvexRiskRanker(loss='hinge'), "
                "which says "
                "how far it is from its minimum",
                ConvergenceWarning,
            )
        return stalls and size == 0 and self._drawn is None

    def _warn(self, step: Step, found: SearchResult) -> None:
        """Warn of a full step that would be infinite; shrunk ones do no harm and are recorded."""
        if self.plan.learning_rate < FULL_STEP or self._warned:
            return
        if step.smoothed and self.plan.step.warns:
            self._warned = True
            self.training.context.warn(
                f"{found.weak_ranker} orders no pair wrongly but ties some, so its exact step is "
                "infinite; it was made finite by adding half a pair on each side, and is still "
                "large. Use a learning_rate below 0.5, such as 0.1, or step='bound' where the "
                "estimator has it, and check whether the feature gives the answer away (warned "
                "once; history_['smoothed'] marks all such rounds)",
                SmoothedStepWarning,
            )


def _check_nonnegative(ensemble: Ensemble | None) -> None:
    """Refuse to continue a model with negative weights under the promise of none."""
    least = min(_parts(ensemble)[1], default=0.0)
    if least < 0:
        raise ValueError(
            f"nonnegative=True, but the model to continue from has a weight of {least:g}; set "
            "warm_start=False or nonnegative=False"
        )


def _parts(ensemble: Ensemble | None) -> tuple[list[WeakRanker], list[float]]:
    return ([], []) if ensemble is None else (ensemble.weak_rankers, ensemble.weights)


def advance(low: int, high: int, scores: Floats, values: Array, weight: float) -> None:
    """Add ``weight·values`` to the scores of the rows low..high."""
    for first in range(low, high, ROWS_AT_ONCE):
        here = slice(first, min(first + ROWS_AT_ONCE, high))
        scores[here] += np.multiply(values[here], weight, dtype=np.float64)
