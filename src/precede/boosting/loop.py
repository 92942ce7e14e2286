"""The boosting loop that all algorithms share.

A `Trainer` does one round; the loop applies stopping rules, calls callbacks, evaluates the
monitors, records history and time, and handles Ctrl-C.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from precede.boosting.coordinate_descent import CoordinateDescent, Plan
from precede.boosting.history import History, Monitor, Progress
from precede.boosting.trainer import PERFECT, Trainer
from precede.engine.arrays import Floats
from precede.engine.training_data import TrainingData
from precede.model import Ensemble
from precede.risks.base import State

__all__ = ["INTERRUPTED", "Result", "asked_to_stop", "run", "run_rounds"]

INTERRUPTED = "interrupted"


@dataclass
class Result:
    """Result of the loop: the model, the history, the last state and the reason to stop.

    `scores` are the scores of the training rows under the first `n_scored` weak rankers of the
    model; None if the trainer does not know them.
    """

    ensemble: Ensemble
    history: History
    state: State
    reason: str
    scores: Floats | None = None
    n_scored: int = 0


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

    `ensemble` and `history` are continued if given. With ``resumed=True`` they must come from the
    same data: the risk is compared to the bit.
    """
    trainer = CoordinateDescent(plan, training, ensemble, history, monitors)
    if resumed:
        trainer.check_history(History(history or ()))
    return run_rounds(trainer, history, plan.callbacks)


def run_rounds(
    trainer: Trainer,
    history: Iterable[dict[str, Any]] | None = None,
    callbacks: Sequence[Callable[[Progress], Any]] = (),
    *,
    interruptible: bool = True,
) -> Result:
    """Boost until a stopping rule, a callback or the trainer itself ends the fit.

    `history` holds the rounds that the trainer continues from. Ctrl-C ends the loop with a warning
    and keeps the finished rounds; with ``interruptible=False`` it is raised.
    """
    record = History(history or ())
    try:
        reason = _loop(trainer, record, callbacks)
    except KeyboardInterrupt:
        if not interruptible:
            raise
        reason = INTERRUPTED
        trainer.context.warn(f"interrupted: {trainer.interrupt(record)}")
    state, scores, count = trainer.last_state(), trainer.last_scores(), len(trainer.ensemble)
    return Result(trainer.ensemble, record, state, reason, scores, count)


def _loop(
    trainer: Trainer, history: History, callbacks: Sequence[Callable[[Progress], Any]]
) -> str:
    """Boost round by round; return the reason to stop."""
    if len(history) and history[-1].get("perfect"):
        return PERFECT
    while not (reason := trainer.stop.reason(history)):
        began = time.perf_counter()
        done = trainer.boost_round()
        if done is None:
            return trainer.exhausted
        seconds = time.perf_counter() - began
        seen: dict[str, float] = {}
        for monitor in trainer.monitors:
            seen |= monitor.compute_metrics()
        history.append(**done.columns, seconds=seconds, **done.more, **seen)
        if asked_to_stop(callbacks, history, trainer.ensemble):
            return "stopped by a callback"
        if done.last:
            return done.last
    return trainer.finish(reason)


def asked_to_stop(
    callbacks: Sequence[Callable[[Progress], Any]], history: History, ensemble: Ensemble
) -> bool:
    """Call every callback with the round; return whether one of them asked to stop."""
    progress = Progress(len(history), history, ensemble)
    return any([callback(progress) is True for callback in callbacks])
