"""The loop over rounds that every algorithm shares.

What happens in a round is a `Trainer`; here are the stopping rules, the callbacks, the evaluation
sets, the history, the time and Ctrl-C.
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

__all__ = ["INTERRUPTED", "Result", "asked_to_stop", "drive", "run"]

INTERRUPTED = "interrupted"


@dataclass
class Result:
    """What the loop returns: the model, the history, the last state and why it ended.

    `scores` are those that the first `n_scored` rankers of the model give to the training rows,
    where the method knows them.
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
    """Boost by coordinate descent until the plan says stop; see `drive`.

    `ensemble` and `history` are continued if given. With ``resumed=True`` they must be of these
    very data: the risk is compared to the bit.
    """
    method = CoordinateDescent(plan, training, ensemble, history, monitors)
    if resumed:
        method.check_history(History(history or ()))
    return drive(method, history, plan.callbacks)


def drive(
    method: Trainer,
    history: Iterable[dict[str, Any]] | None = None,
    callbacks: Sequence[Callable[[Progress], Any]] = (),
    *,
    interruptible: bool = True,
) -> Result:
    """Do round after round until a rule, a callback or the method itself says stop.

    `history` is that of the rounds that the method continues from. Ctrl-C ends the loop with a
    warning and keeps the whole rounds done so far; with ``interruptible=False`` it is raised.
    """
    record = History(history or ())
    try:
        reason = _rounds(method, record, callbacks)
    except KeyboardInterrupt:
        if not interruptible:
            raise
        reason = INTERRUPTED
        method.context.warn(f"interrupted: {method.interrupt(record)}")
    state, scores, count = method.last_state(), method.last_scores(), len(method.ensemble)
    return Result(method.ensemble, record, state, reason, scores, count)


def _rounds(
    method: Trainer, history: History, callbacks: Sequence[Callable[[Progress], Any]]
) -> str:
    """Do the rounds; gives the reason to end."""
    if len(history) and history[-1].get("perfect"):
        return PERFECT
    while not (reason := method.stop.reason(history)):
        began = time.perf_counter()
        done = method.advance()
        if done is None:
            return method.exhausted
        seconds = time.perf_counter() - began
        seen: dict[str, float] = {}
        for monitor in method.monitors:
            seen |= monitor.look()
        history.append(**done.columns, seconds=seconds, **done.more, **seen)
        if asked_to_stop(callbacks, history, method.ensemble):
            return "a callback said so"
        if done.last:
            return done.last
    return method.finish(reason)


def asked_to_stop(
    callbacks: Sequence[Callable[[Progress], Any]], history: History, ensemble: Ensemble
) -> bool:
    """Show every callback the round; all of them see it, whatever the first one says."""
    progress = Progress(len(history), history, ensemble)
    return any([callback(progress) is True for callback in callbacks])
