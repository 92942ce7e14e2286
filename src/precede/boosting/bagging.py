"""Bagging: the average of several models, each fitted to a bootstrap sample of the queries.

All bags are boosted in lockstep, so that stopping rules, callbacks and evaluation sets see the
averaged model. That model is an ordinary ensemble: each round adds one weak ranker per bag, with
its weight divided by the number of bags.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from precede.boosting.history import History, Monitor, Stop
from precede.boosting.trainer import Round, Trainer
from precede.model import Ensemble
from precede.weak_rankers.columns import Constant

__all__ = ["Bagged"]


class Bagged(Trainer):
    """Trainer that averages the scores of several trainers.

    A bag that cannot be improved further adds a constant of weight 0 while the others go on, so
    that every round adds the same number of weak rankers.
    """

    def __init__(self, bags: Sequence[Trainer], stop: Stop, monitors: Sequence[Monitor] = ()):
        self._bags, self.stop, self.monitors = bags, stop, monitors
        self.context = bags[0].context
        self.state = bags[0].state
        self.ensemble = Ensemble([], [], bags[0].ensemble.n_features)
        self._last: list[Round | None] = [None] * len(bags)
        self._over: set[int] = set()

    def boost_round(self) -> Round | None:
        """Boost one round in every bag that can still be improved."""
        for number, bag in enumerate(self._bags):
            if number in self._over:
                continue
            done = bag.boost_round()
            if done is None or done.last:
                self._over.add(number)
            if done is not None:
                self._last[number] = done
        done_rounds = len(self.ensemble) // len(self._bags)
        grown = [len(bag.ensemble) > done_rounds for bag in self._bags]
        if not any(grown):
            self.exhausted = self._bags[0].exhausted or "no bag can be improved further"
            return None
        for bag, has_one in zip(self._bags, grown, strict=True):
            last = bag.ensemble
            weak_ranker, weight = (last.weak_rankers[-1], last.weights[-1]) if has_one else (
                Constant(), 0.0
            )  # fmt: skip
            share = weight / len(self._bags)
            self.ensemble.append(weak_ranker, share)
            for monitor in self.monitors if has_one else ():
                monitor.advance(weak_ranker, share)
        return Round(*self._recorded())

    def _recorded(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the means over the bags of the columns that their last rounds recorded."""
        rounds = [each for each in self._last if each is not None]
        columns = _means([each.columns for each in rounds])
        columns |= {"log_risk": float(np.log(columns["risk"])) if columns["risk"] > 0 else -np.inf}
        columns |= {"smoothed": any(each.columns["smoothed"] for each in rounds), "perfect": False}
        return columns, _means([each.more for each in rounds])

    def interrupt(self, history: History) -> str:
        """Return to the last round that every bag has finished."""
        for bag in self._bags:
            bag.interrupt(history)
        self.ensemble = self.ensemble.first(len(history) * len(self._bags))
        return super().interrupt(history)


def _means(rounds: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the mean of every column that all rounds have."""
    names = [name for name in rounds[0] if all(name in each for each in rounds)]
    return {name: float(np.mean([each[name] for each in rounds])) for name in names}
