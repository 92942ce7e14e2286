"""The loop that every algorithm shares: pull, search, step, until a rule says stop.

An algorithm is a `Plan`: a risk, a family of rankers, a way to choose among them, a rule for
the step. Nothing here knows of scikit-learn, and nothing here knows which loss it minimises.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from precede.boosting.history import (
    History,
    Monitor,
    Progress,
    Stop,
)
from precede.boosting.steps import (
    SmoothedStepWarning,
    Step,
    StepRule,
)
from precede.engine.training import Training
from precede.model import Ensemble
from precede.rankers.base import Family, Found, Search
from precede.rankers.columns import Constant
from precede.risks.base import State
from precede.risks.pair_risk import PairRisk

__all__ = ["Plan", "Result", "advance", "run"]

Floats = NDArray[np.float64]

# Below this many places a second thread costs more than it brings.
SMALL = 1 << 16
# Why a fit ends when the search comes back with nothing: only an exhaustive one can be sure.
NOTHING_LEFT = "no weak ranker improves the risk"
NOTHING_FOUND = "the search found no weak ranker that improves the risk"


# -- what is trained on ----------------------------------------------------------------------


# -- steps -----------------------------------------------------------------------------------


# -- history, progress, stopping -------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """An algorithm: what to minimise, with which rankers, chosen how, by which step.

    `select` is "slope" (steepest descent, RS09 eq. 3) or "decrease" (largest decrease,
    RS09 eq. 5). `draw` gives the features allowed in a round, or None for all. `nonnegative`
    allows only rankers of a positive edge, so that every step and every weight is positive.
    """

    risk: PairRisk
    rankers: Family
    step: StepRule
    stop: Stop
    select: str = "slope"
    learning_rate: float = 1.0
    draw: Callable[[], NDArray[np.bool_] | None] = lambda: None
    nonnegative: bool = False
    callbacks: Sequence[Callable[[Progress], Any]] = ()


@dataclass
class Result:
    """What the loop leaves: the model, the story, the last state and why it ended."""

    ensemble: Ensemble
    history: History
    state: State
    reason: str


# -- the loop --------------------------------------------------------------------------------


def run(
    plan: Plan,
    training: Training,
    *,
    ensemble: Ensemble | None = None,
    history: History | None = None,
    monitors: Sequence[Monitor] = (),
    resumed: bool = False,
) -> Result:
    """Boost until the plan says stop; `ensemble` and `history` are continued if given.

    With ``resumed=True`` they must be of these very data: the risk is compared to the bit.
    Ctrl-C ends the loop and keeps the rounds done so far.
    """
    loop = _Loop(plan, training, ensemble, history, monitors)
    if resumed:
        loop.check_history()
    try:
        for _ in loop:
            pass
    except KeyboardInterrupt:
        loop.interrupt()
    return Result(loop.ensemble, loop.history, loop.state, loop.reason)


class _Loop:
    def __init__(
        self,
        plan: Plan,
        training: Training,
        ensemble: Ensemble | None,
        history: History | None,
        monitors: Sequence[Monitor],
    ):
        self.plan, self.training, self.monitors = plan, training, monitors
        self.risk = plan.risk.bind(training.arrangement, training.workers)
        self.search: Search = plan.rankers.start(training.table, training.workers)
        if plan.nonnegative:
            self.search = self.search.rising()
            _check_nonnegative(ensemble)
        self.ensemble = Ensemble([], [], training.table.n_features)
        self.history = History(history or ())
        self.scores = np.zeros(training.table.n_places)
        self.reason = ""
        self._warned = False
        plan.step.start(self.search, ensemble or self.ensemble, self.history)
        for ranker, weight in zip(*_parts(ensemble), strict=True):
            plan.step.again(self.risk, self.scores, ranker, weight)
            self._add(ranker, weight, ranker.on(training.table))
        self.state = self.risk.state(self.scores)

    def __iter__(self) -> Iterator[None]:
        if len(self.history) and self.history[-1].get("perfect"):
            self.reason = "one ranker puts every pair in order"
            return
        while not self._stopped():
            began = time.perf_counter()
            found = self._choose()
            if found is None:
                sure = self.plan.rankers.exhaustive or self.state.log_mass == -np.inf
                self.reason = NOTHING_LEFT if sure else NOTHING_FOUND
                return
            values = found.values
            if values is None:
                values = found.ranker.on(self.training.table)
            step = self._step(found, values)
            self._warn(step, found)
            weight = step.size if step.whole else self.plan.learning_rate * step.size
            if self.plan.nonnegative and weight <= 0:  # the edge was nothing but rounding
                self.reason = NOTHING_LEFT
                return
            self._add(found.ranker, weight, values)
            self.state = self.risk.state(self.scores)
            self._record(found, weight, step, time.perf_counter() - began)
            yield
            if self._told_to_stop():
                self.reason = "a callback said so"
                return
            if step.perfect:
                self.reason = "one ranker puts every pair in order"
                return

    def _step(self, found: Found, values: NDArray) -> Step:
        if not self.state.scores.any() and (offset := self.risk.offset(self.state)) != 0:
            return Step(offset, whole=True)
        return self.plan.step.step(self.risk, self.state, found, values)

    def check_history(self) -> None:
        """Refuse a history that is not the one of these data."""
        if not len(self.history):
            return
        was, now = self.history[-1].get("log_risk"), self._log_risk()
        if was != now:
            raise ValueError(
                f"after {len(self.history)} rounds the logarithm of the risk is {now!r} here and "
                f"{was!r} in the checkpoint: it was made from other data; remove it or give "
                "another path"
            )

    def _log_risk(self) -> float:
        return self.risk.log_mean_payment(self.state.log_value)

    def interrupt(self) -> None:
        """Keep whole rounds only."""
        rounds = len(self.history)
        self.ensemble = self.ensemble.first(rounds)
        self.reason = "interrupted"
        self.training.workers.warn(f"interrupted: the model has the {rounds} rounds done so far")

    def _stopped(self) -> bool:
        self.reason = self.plan.stop.reason(self.history) or ""
        return bool(self.reason)

    def _told_to_stop(self) -> bool:
        """Show every callback the round; all of them see it, whatever the first one says."""
        progress = Progress(len(self.history), self.history, self.ensemble)
        return any([callback(progress) is True for callback in self.plan.callbacks])

    def _choose(self) -> Found | None:
        if self.state.log_mass == -np.inf:  # every pair is beyond its margin
            return None
        allowed = self.plan.draw()
        if (offset := self._offset()) is not None:
            return offset
        found = self._best(allowed)
        if found is None and allowed is not None:  # none of those drawn is of any use
            found = self._best(None)
        return found

    def _offset(self) -> Found | None:
        """The constant, as the first ranker of all, where the risk asks for one."""
        if self.state.scores.any() or self.risk.offset(self.state) == 0:
            return None
        ones = np.ones(self.state.scores.size)
        return Found(Constant(), self.risk.edge(self.state, ones), values=ones)

    def _best(self, allowed: NDArray[np.bool_] | None) -> Found | None:
        if self.plan.select == "decrease":
            factors = self.risk.factors(self.state)
            if factors is None:
                raise ValueError(
                    "select='decrease' is for the exponential loss without a push; "
                    "use select='slope'"
                )
            return self.search.best_decrease(factors, allowed)
        return self.search.best_for(self.risk.pull_of(self.state), allowed)

    def _add(self, ranker: Any, weight: float, values: NDArray) -> None:
        self.training.workers.run(
            advance, self.scores.size, self.scores, values, weight, small=self.scores.size < SMALL
        )
        for monitor in self.monitors:
            monitor.advance(ranker, weight)
        self.ensemble.append(ranker, weight)

    def _record(self, found: Found, weight: float, step: Step, seconds: float) -> None:
        log_risk = self._log_risk()
        seen: dict[str, float] = {}
        for monitor in self.monitors:
            seen |= monitor.look()
        self.history.append(
            risk=float(np.exp(log_risk)),
            log_risk=log_risk,
            edge=found.edge,
            step=weight,
            smoothed=step.smoothed,
            perfect=step.perfect,
            seconds=seconds,
            **self.plan.step.seen(self.risk, self.state),
            **seen,
        )

    def _warn(self, step: Step, found: Found) -> None:
        if step.smoothed and self.plan.step.warns and not self._warned:
            self._warned = True
            self.training.workers.warn(
                f"{found.ranker} orders no pair wrongly but ties some, so its exact step is "
                "infinite; it was made finite by half a pair on each side (said once; see "
                "history_['smoothed'])",
                SmoothedStepWarning,
            )


def _check_nonnegative(ensemble: Ensemble | None) -> None:
    """Refuse to continue a model with negative weights under the promise of none."""
    least = min(_parts(ensemble)[1], default=0.0)
    if least < 0:
        raise ValueError(
            f"nonnegative=True, but the model to go on with has a weight of {least:g}; set "
            "warm_start=False or nonnegative=False"
        )


def _parts(ensemble: Ensemble | None) -> tuple[list, list]:
    return ([], []) if ensemble is None else (ensemble.rankers, ensemble.weights)


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def advance(low, high, scores, values, weight):
    """Add ``weight·values`` to the scores of the places low..high."""
    for place in range(low, high):
        scores[place] += weight * values[place]
