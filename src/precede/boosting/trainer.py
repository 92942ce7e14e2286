"""Trainers: the interface between an algorithm and the boosting loop, and bagging."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from precede.boosting.history import History, Monitor, Stop
from precede.engine.arrays import Floats
from precede.engine.execution import Context
from precede.model import Ensemble
from precede.risks.base import State
from precede.weak_rankers.columns import Constant

if TYPE_CHECKING:
    from precede.estimator import BaseRanker, FitContext

# Reason to stop after a round marked "perfect" in the history.
PERFECT = "one ranker puts every pair in order"


@dataclass(frozen=True)
class Round:
    """Record of a finished round.

    Attributes
    ----------
    columns : columns of the history that precede "seconds"
    extra_columns : columns that follow it
    stop_reason : reason why this is the last round; empty if others may follow
    """

    columns: dict[str, Any]
    extra_columns: dict[str, Any] = field(default_factory=dict)
    stop_reason: str = ""


class Trainer:
    """Base class of algorithms, which boost one round at a time.

    `precede.boosting.loop.run_rounds` does the rest: stopping rules, callbacks, evaluation sets,
    history, time, Ctrl-C. Subclasses define `boost_round` and, if needed, `interrupt` and
    `finish`. An instance is used for one fit.

    Attributes
    ----------
    stop : Stop
        Stopping rule, evaluated before every round.
    context : Context
        Threads and workers of the fit; issues warnings.
    monitors : sequence of Monitor
        Evaluation sets. The trainer updates their scores; the loop evaluates their metrics after
        every round.
    state : State
        Risk after the last round.
    ensemble : Ensemble
        Model after the last round.
    exhausted : str
        Reason why `boost_round` returned None.

    Examples
    --------
    >>> from precede.boosting.history import Rounds
    >>> from precede.boosting.loop import run_rounds
    >>> class Halving(Trainer):
    ...     '''The risk halves in every round, until it is small.'''
    ...     def __init__(self):
    ...         self.stop, self.context, self.state = Rounds(100), Context(1), None
    ...         self.ensemble, self.risk = Ensemble([], [], 1), 1.0
    ...     def boost_round(self):
    ...         if self.risk < 0.2:
    ...             self.exhausted = "the risk is small"
    ...             return None
    ...         self.risk /= 2
    ...         return Round({"risk": self.risk})
    >>> result = run_rounds(Halving())
    >>> result.history["risk"], result.reason
    (array([0.5  , 0.25 , 0.125]), 'the risk is small')
    """

    stop: Stop
    context: Context
    monitors: Sequence[Monitor] = ()
    state: State
    ensemble: Ensemble
    exhausted: str = ""

    def boost_round(self) -> Round | None:
        """Boost one round; return None, with the reason in `exhausted`, if none is possible."""
        raise NotImplementedError(f"{type(self).__name__} must define boost_round()")

    def last_state(self) -> State:
        """Return the risk and its pull after the last round."""
        return self.state

    def last_scores(self) -> Floats | None:
        """Return the scores of the training rows in layout order; None if unknown."""
        return None

    def finish(self, reason: str) -> str:
        """Finish the fit after a stopping rule ended it; return the reason to report."""
        return reason

    def interrupt(self, history: History) -> str:
        """Return to the last finished round after Ctrl-C; return a message about the model."""
        return f"the model has the {len(history)} rounds done so far"


class Bagged(Trainer):
    """Average of several trainers (bags), each fitted to a bootstrap sample of the queries.

    All bags are boosted in lockstep, so that stopping rules, callbacks and evaluation sets see the
    averaged model. Each round adds one weak ranker per bag, with its weight divided by the number
    of bags; a bag that cannot be improved further adds a constant of weight 0.
    """

    def __init__(self, bags: Sequence[Trainer], stop: Stop, monitors: Sequence[Monitor] = ()):
        self._bags, self.stop, self.monitors = bags, stop, monitors
        self.context = bags[0].context
        self.state = bags[0].state
        self.ensemble = Ensemble([], [], bags[0].ensemble.n_features)
        self._last_rounds: list[Round | None] = [None] * len(bags)
        self._finished: set[int] = set()

    def boost_round(self) -> Round | None:
        """Boost one round in every bag that can still be improved."""
        for number, bag in enumerate(self._bags):
            if number in self._finished:
                continue
            done = bag.boost_round()
            if done is None or done.stop_reason:
                self._finished.add(number)
            if done is not None:
                self._last_rounds[number] = done
        n_rounds = len(self.ensemble) // len(self._bags)
        improved = [len(bag.ensemble) > n_rounds for bag in self._bags]
        if not any(improved):
            self.exhausted = self._bags[0].exhausted or "no bag can be improved further"
            return None
        for bag, is_improved in zip(self._bags, improved, strict=True):
            model = bag.ensemble
            weak_ranker, weight = (
                (model.weak_rankers[-1], model.weights[-1]) if is_improved else (Constant(), 0.0)
            )
            share = weight / len(self._bags)
            self.ensemble.append(weak_ranker, share)
            for monitor in self.monitors if is_improved else ():
                monitor.advance(weak_ranker, share)
        return Round(*self._mean_columns())

    def _mean_columns(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the two fields of a `Round` with columns, averaged over the last rounds."""
        rounds = [each for each in self._last_rounds if each is not None]
        columns = _means([each.columns for each in rounds])
        columns |= {"log_risk": float(np.log(columns["risk"])) if columns["risk"] > 0 else -np.inf}
        columns |= {"smoothed": any(each.columns["smoothed"] for each in rounds), "perfect": False}
        return columns, _means([each.extra_columns for each in rounds])

    def interrupt(self, history: History) -> str:
        """Return to the last round that every bag has finished."""
        for bag in self._bags:
            bag.interrupt(history)
        self.ensemble = self.ensemble.first(len(history) * len(self._bags))
        return super().interrupt(history)


def bagged_trainer(estimator: BaseRanker, task: FitContext, stop: Stop) -> Bagged:
    """Return a trainer of `_n_bags` models, each on a bootstrap sample of the queries."""
    from precede.boosting.resampling import Resampler  # noqa: PLC0415  (not in every fit)

    seeds = np.random.RandomState(estimator._seed()).randint(2**31 - 1, size=(estimator._n_bags, 2))
    judgments = estimator.judgments_to_learn(task.judgments)
    sample = Resampler.of(
        task.training, judgments, balance=estimator.balance, labeled=estimator.learns_labels
    )
    bags = []
    for draw, seed in seeds.tolist():
        single = copy.copy(estimator)
        single._n_bags, single.random_state = 1, seed
        drawn = sample.bootstrap(draw)[0].training
        bag_task = replace(task, training=drawn, monitors=[], checkpoint=None)
        bags.append(single._trainer(bag_task, stop, None, History()))
    return Bagged(bags, stop, [monitor for monitor, _ in task.monitors])


def _means(rounds: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the mean of every column that all rounds have."""
    names = [name for name in rounds[0] if all(name in each for each in rounds)]
    return {name: float(np.mean([each[name] for each in rounds])) for name in names}
