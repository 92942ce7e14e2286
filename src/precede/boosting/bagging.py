"""Bagging: the average of models that are boosted on bootstrap samples of the queries."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from precede.boosting.holdout import Resampler
from precede.boosting.loop import History, Round, RoundValues, Stop, Trainer
from precede.boosting.monitors import Monitor
from precede.model import Ensemble
from precede.weak_rankers.columns import Constant

if TYPE_CHECKING:
    from precede.estimator import BaseRanker, FitContext


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
        self._reason = "no bag can be improved further"

    def boost_round(self) -> Round | str:
        """Boost one round in every bag that can still be improved."""
        for number, bag in enumerate(self._bags):
            if number in self._finished:
                continue
            done = bag.boost_round()
            if isinstance(done, str) or done.stop_reason:
                self._finished.add(number)
            if not isinstance(done, str):
                self._last_rounds[number] = done
            elif number == 0:
                self._reason = done
        n_rounds = len(self.ensemble) // len(self._bags)
        improved = [len(bag.ensemble) > n_rounds for bag in self._bags]
        if not any(improved):
            return self._reason
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

    def _mean_columns(self) -> tuple[RoundValues, RoundValues]:
        """Return both kinds of columns of a `Round`, averaged over the last rounds of the bags."""
        rounds = [each for each in self._last_rounds if each is not None]
        columns = _means([each.columns for each in rounds])
        columns |= {"log_risk": float(np.log(columns["risk"])) if columns["risk"] > 0 else -np.inf}
        columns |= {"smoothed": any(each.columns["smoothed"] for each in rounds), "perfect": False}
        return columns, _means([each.extra_columns for each in rounds])

    def interrupt(self, history: History) -> str:
        """Return to the last round that all bags finished."""
        for bag in self._bags:
            bag.interrupt(history)
        self.ensemble = self.ensemble.first(len(history) * len(self._bags))
        return super().interrupt(history)


def bagged_trainer(estimator: BaseRanker, task: FitContext, stop: Stop) -> Bagged:
    """Return a trainer of `bags` models, each on a bootstrap sample of the queries."""
    random = np.random.RandomState(estimator.draw_seed())
    seeds = random.randint(2**31 - 1, size=(estimator._n_bags, 2))
    sample = Resampler.of_fit(estimator, task)
    bags = []
    for draw, seed in seeds.tolist():
        single = copy.copy(estimator).set_params(bags=1, random_state=seed)
        drawn = sample.bootstrap(draw)[0].training
        bag_task = replace(task, training=drawn, monitors=[], checkpoint=None)
        bags.append(single.trainer(bag_task, stop, None, History()))
    return Bagged(bags, stop, task.monitors)


def _means(rounds: Sequence[RoundValues]) -> RoundValues:
    """Return the mean of every column that all rounds have."""
    names = [name for name in rounds[0] if all(name in each for each in rounds)]
    return {name: float(np.mean([each[name] for each in rounds])) for name in names}
