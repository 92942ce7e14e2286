"""Coordinate descent, the trainer of most algorithms.

An algorithm is a `Plan`: a risk, a family of weak rankers, a selection criterion and a step rule.
This module does not depend on the loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from precede.boosting.loop import (
    PERFECT,
    Callback,
    History,
    Result,
    Round,
    Stop,
    Trainer,
    run_rounds,
)
from precede.boosting.monitors import Monitor
from precede.boosting.steps import SmoothedStepWarning, Step, StepRule
from precede.engine.arrays import Array, Flags, Floats
from precede.engine.backend import CPU
from precede.engine.query_layout import TrainingData
from precede.model import Ensemble
from precede.risks.base import Risk, State
from precede.risks.line_search import last_step
from precede.weak_rankers.base import Family, Search, SearchResult, WeakRanker
from precede.weak_rankers.columns import Constant

# Reasons to stop when the search returns None; only an exhaustive search proves the first.
NOTHING_LEFT = "no weak ranker improves the risk"
NOTHING_FOUND = "the search found no weak ranker that improves the risk"
STALLED = "stalled at a kink of the loss"
# Maximum log gradient sum; a larger logarithm is rounded too coarsely to tell pairs apart.
MAX_LOG_SUM = 1e12
# Coordinate descent has stalled at a kink of the loss if a step is at most SHORT_STEP times the
# longest so far although the edge is at least LARGE_EDGE times the largest.
SHORT_STEP, LARGE_EDGE = 0.01, 0.1
# Warn of smoothed (otherwise infinite) steps from this learning rate on.
MIN_RATE_TO_WARN = 0.5


@dataclass(frozen=True)
class Plan:
    """Specification of an algorithm: risk, weak rankers, selection criterion and step rule.

    `select` is "slope" (steepest descent, Rudin & Schapire 2009 eq. 3) or "decrease" (largest
    decrease, their eq. 5). `draw` returns the features allowed in a round, or None for all.
    `nonnegative` allows only weak rankers of positive edge, so that all weights are positive.
    """

    risk: Risk
    weak_rankers: Family
    step: StepRule
    stop: Stop
    select: str = "slope"
    learning_rate: float = 1.0
    draw: Callable[[], Flags | None] = lambda: None
    nonnegative: bool = False
    callbacks: Sequence[Callback] = ()


class CoordinateDescent(Trainer):
    """Trainer that adds one weak ranker a round: chosen by the pull, weighted by the step rule.

    `ensemble` and `history` are the rounds of an earlier fit to continue from.
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
        # The backend of the scores.
        self.backend = self.risk.backend if plan.step.on_any_backend else CPU
        self.search: Search = plan.weak_rankers.start(training.table, training.context)
        self._check_device()
        self.ensemble = Ensemble([], [], training.table.n_features)
        earlier = ensemble or self.ensemble
        if plan.nonnegative:
            self.search = self.search.restrict_to_positive()
            _check_nonnegative(earlier)
        self.scores = self._initial_scores()
        self._warned_of_smoothing = self._warned_of_stall = False
        self._longest_step = self._largest_edge = 0.0
        self._offset = 0.0
        self._allowed_features: Flags | None = None
        self._round_unfinished = False  # whether the scores may contain part of a round
        plan.step.start(self.search, earlier, History(history or ()))
        for weak_ranker, weight in self._replayed(earlier):
            plan.step.replay(self.risk, self.scores, weak_ranker, weight)
            self._append(weak_ranker, weight, weak_ranker.on(training.table))
        self.state = self.risk.state(self.scores)

    def boost_round(self) -> Round | str:
        """Choose a weak ranker and add it to the model."""
        begun = self.risk.begin_round(self.scores, value=self.plan.step.needs_value)
        if begun is not None:
            self.state = begun
        if self.state.log_gradient_sum > MAX_LOG_SUM:
            raise ValueError(
                f"the logarithm of the risk is {self.state.log_gradient_sum:.3g}, too large to "
                "tell its parts from one another; divide sample_weight by its mean, or lower the "
                "price"
            )
        found = self._choose_weak_ranker()
        if found is None:
            exhaustive = self.plan.weak_rankers.exhaustive or self.state.log_gradient_sum == -np.inf
            return NOTHING_LEFT if exhaustive else NOTHING_FOUND
        values = found.weak_ranker.on(self.training.table) if found.values is None else found.values
        step = self._choose_step(found, values)
        self._warn_if_smoothed(step, found)
        if self._is_stalled(step, found):
            return STALLED
        weight = step.size if step.unshrunk else self.plan.learning_rate * step.size
        must_be_positive = self.plan.nonnegative or self.plan.weak_rankers.quadratic
        if must_be_positive and weight <= 0 and not step.unshrunk:
            return NOTHING_LEFT  # the edge was a rounding error
        self._round_unfinished = True
        self._append(found.weak_ranker, weight, values)
        if begun is None:
            self.state = self.risk.state(self.scores)
        else:  # the next round begins with other rank weights and computes the pull
            self.state = State(self.scores, self.risk.log_value(self.scores), np.nan, np.zeros(0))
        self._round_unfinished = False
        return self._record(found, weight, step)

    def result(self, history: History, reason: str) -> Result:
        """Return the result; compute the state if the last round has left it out."""
        if self.state.pull.size < self.scores.size or np.isnan(self.state.log_value):
            self.state = self.risk.state(self.scores)
        scores = self.backend.get(self.scores)
        return Result(self.ensemble, history, self.state, reason, scores)

    def interrupt(self, history: History) -> str:
        """Remove the weak ranker of an unfinished round."""
        if self._round_unfinished or len(self.ensemble) > len(history):
            self.ensemble = self.ensemble.first(len(history))
            self.scores = self._initial_scores()
            for weak_ranker, weight in self._replayed(self.ensemble):
                self._add_to_scores(weak_ranker.on(self.training.table), weight)
            self.state = self.risk.state(self.scores)
        return super().interrupt(history)

    def _replayed(self, ensemble: Ensemble) -> Iterator[tuple[WeakRanker, float]]:
        """Iterate over the rounds of an earlier fit; set the rank weights of the last round."""
        for number, part in enumerate(ensemble.parts(), 1):
            if number == len(ensemble):
                self.risk.begin_round(self.scores, value=False)
            yield part

    def _initial_scores(self) -> Floats:
        """Return the scores before the first round, on the backend of the trainer."""
        given = self.training.init_score
        scores = np.zeros(self.training.table.n_used_rows) if given is None else given.copy()
        scores_on_backend: Floats = self.backend.put(scores)
        return scores_on_backend

    def _check_device(self) -> None:
        """Raise ValueError if the search would not use the GPU of the context."""
        if self.context.backend.is_gpu and not self.search.backend.is_gpu:
            raise ValueError(
                f"device='cuda' is for trees and stumps, and {self.plan.weak_rankers!r} would be "
                "searched on the CPU; use device='cpu'"
            )

    def check_history(self, history: History) -> None:
        """Raise ValueError if the history was recorded on other data."""
        if not len(history):
            return
        recorded, current = history[-1].get("log_risk"), self._log_risk()
        if recorded != current:
            raise ValueError(
                f"after {len(history)} rounds the logarithm of the risk is {current!r} here and "
                f"{recorded!r} in the checkpoint: it was made from other data; remove it or give "
                "another path"
            )

    def _choose_step(self, found: SearchResult, values: Array) -> Step:
        if self._offset != 0:
            return Step(self._offset, unshrunk=True)
        step = self.plan.step.step(self.risk, self.state, found, values)
        if not step.perfect or step.unshrunk:
            return step
        # This is the last round: a shrunk step could be outweighed by the intercept of two classes.
        size = last_step(self.risk, self.state, values, step.size)
        return Step(size, perfect=True, unshrunk=True)

    def _log_risk(self) -> float:
        return self.risk.log_mean_loss(self.state.log_value)

    def _choose_weak_ranker(self) -> SearchResult | None:
        if self.state.log_gradient_sum == -np.inf:  # every pair is beyond its margin
            return None
        allowed = self._allowed_features = self.plan.draw()
        self.search.begin(len(self.ensemble))
        self._offset = self.risk.offset(self.state)
        if self._offset != 0:
            ones = np.ones_like(self.state.scores)
            return SearchResult(Constant(), self.risk.edge(self.state, ones), values=ones)
        found = self._search_best(allowed)
        if found is None and allowed is not None:  # no drawn feature helps
            found = self._search_best(None)
        return found

    def _search_best(self, allowed: Flags | None) -> SearchResult | None:
        if self.plan.select == "decrease":
            factors = self.risk.factors(self.state, bound=self.plan.step.from_edge)
            if factors is None:
                raise ValueError(
                    "select='decrease' is for the exponential loss without a push; "
                    "use select='slope'"
                )
            return self.search.best_decrease(factors, allowed)
        return self.search.best_for(self.risk.pull_of(self.state), allowed)

    def _add_to_scores(self, values: Array, weight: float) -> None:
        self.backend.advance(self.scores, values, weight, self.context)

    def _append(self, weak_ranker: WeakRanker, weight: float, values: Array) -> None:
        self._add_to_scores(values, weight)
        for monitor in self.monitors:
            monitor.advance(weak_ranker, weight)
        self.ensemble.append(weak_ranker, weight)

    def _record(self, found: SearchResult, weight: float, step: Step) -> Round:
        log_risk = self._log_risk()
        columns = {
            "risk": float(np.exp(log_risk)),
            "log_risk": log_risk,
            "edge": found.edge,
            "step": weight,
            "smoothed": step.smoothed,
            "perfect": step.perfect,
        }
        extra = self.risk.extra_history(self.state) | self.plan.step.record(self.risk, self.state)
        return Round(columns, extra, PERFECT if step.perfect else "")

    def _is_stalled(self, step: Step, found: SearchResult) -> bool:
        """Return whether all further rounds would repeat this one; warn once of short steps."""
        shape = self.risk.loss_shape
        if shape is None or not (shape.has_kink and self.plan.step.is_line_minimum):
            return False
        size, edge = abs(step.size), abs(found.edge)
        self._longest_step = max(self._longest_step, size)
        self._largest_edge = max(self._largest_edge, edge)
        stalls = size <= SHORT_STEP * self._longest_step and edge >= LARGE_EDGE * self._largest_edge
        if stalls and not self._warned_of_stall:
            self._warned_of_stall = True
            self.context.warn(
                f"round {len(self.ensemble) + 1}: the loss has a kink, and the risk is least there "
                "along the steepest weak ranker although it may fall along several at once: "
                "coordinate descent can stall above the minimum; use loss='squared_hinge', "
                "'logistic' or losses.SmoothedHinge(0.1), or ConvexRiskRanker(loss='hinge'), "
                "which says how far it is from its minimum",
                ConvergenceWarning,
            )
        return stalls and size == 0 and self._allowed_features is None

    def _warn_if_smoothed(self, step: Step, found: SearchResult) -> None:
        """Warn once of a smoothed step, unless a small learning rate makes it harmless."""
        if self.plan.learning_rate < MIN_RATE_TO_WARN or self._warned_of_smoothing:
            return
        if step.smoothed and self.plan.step.warns_if_smoothed:
            self._warned_of_smoothing = True
            self.training.context.warn(
                f"{found.weak_ranker} orders no pair wrongly but ties some, so its exact step is "
                "infinite; it was made finite by adding half a pair on each side, and is still "
                "large. Use a learning_rate below 0.5, such as 0.1, or step='bound' where the "
                "estimator has it, and check whether the feature gives the answer away (warned "
                "once; history_['smoothed'] marks all such rounds)",
                SmoothedStepWarning,
            )


def run(
    plan: Plan,
    training: TrainingData,
    *,
    ensemble: Ensemble | None = None,
    history: History | None = None,
    monitors: Sequence[Monitor] = (),
    resumed: bool = False,
) -> Result:
    """Boost by coordinate descent until the plan's stopping rule ends it; see `run_rounds`.

    `ensemble` and `history` are continued if given. With ``resumed=True`` raise ValueError unless
    they come from the same data: the risk must agree to the bit.
    """
    trainer = CoordinateDescent(plan, training, ensemble, history, monitors)
    if resumed:
        trainer.check_history(History(history or ()))
    return run_rounds(trainer, history or (), plan.callbacks)


def _check_nonnegative(ensemble: Ensemble) -> None:
    """Raise ValueError if the model to continue from has negative weights."""
    least = min(ensemble.weights, default=0.0)
    if least < 0:
        raise ValueError(
            f"nonnegative=True, but the model to continue from has a weight of {least:g}; set "
            "warm_start=False or nonnegative=False"
        )
