"""The boosting loop that all algorithms share, scikit-learn's callbacks, and the progress bar.

A `Trainer` does one round; the loop applies stopping rules, calls callbacks, evaluates the
monitors, records history and time, and handles Ctrl-C.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from precede.boosting.coordinate_descent import CoordinateDescent, Plan
from precede.boosting.history import History, Monitor, Progress
from precede.boosting.trainer import PERFECT, Trainer
from precede.engine.arrays import Floats
from precede.engine.parameters import find_auto_parameters
from precede.engine.training_data import TrainingData
from precede.model import Ensemble
from precede.risks.base import State

if TYPE_CHECKING:
    from typing_extensions import Self

    from precede.estimator import BaseRanker, FitContext
    from precede.risks.base import State


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
        metrics: dict[str, float] = {}
        for monitor in trainer.monitors:
            metrics |= monitor.compute_metrics()
        history.append(**done.columns, seconds=seconds, **done.extra_columns, **metrics)
        if asked_to_stop(callbacks, history, trainer.ensemble):
            return "stopped by a callback"
        if done.stop_reason:
            return done.stop_reason
    return trainer.finish(reason)


def asked_to_stop(
    callbacks: Sequence[Callable[[Progress], Any]], history: History, ensemble: Ensemble
) -> bool:
    """Call every callback with the round; return whether one of them asked to stop."""
    progress = Progress(len(history), history, ensemble)
    return any([callback(progress) is True for callback in callbacks])


class CallbackBridge:
    """Adapter from the boosting loop to scikit-learn's callbacks (``model.set_callbacks(...)``).

    The fit is a task and each round one of its subtasks. A callback that returns True at the end of
    a round stops the fit, as a function in ``callbacks=`` does.
    """

    def __init__(self, estimator: BaseRanker, X: Any, y: Any):
        self._estimator = estimator
        self._data = {"X": X, "y": y}
        rounds = (
            None if "n_estimators" in find_auto_parameters(estimator) else estimator.n_estimators
        )
        self._context = estimator._init_callback_context(max_subtasks=rounds)
        self._context.call_on_fit_task_begin(estimator=estimator, **self._data)

    def rounds(self, task: FitContext) -> list[Callable[[Progress], bool]]:
        """Return the callbacks of the boosting loop: one that notifies scikit-learn's, if any."""
        if not getattr(self._estimator, "_skl_callbacks", None):
            return []

        def notify(progress: Progress) -> bool:
            round_ = self._context.subcontext(task_name="round")
            round_.call_on_fit_task_begin(estimator=self._estimator, **self._data)
            return round_.call_on_fit_task_end(
                estimator=self._estimator,
                reconstruction_attributes=lambda: self._fitted(progress, task),
                **self._data,
            )

        return [notify]

    def _fitted(self, progress: Progress, task: FitContext) -> dict[str, Any]:
        """Return the fitted attributes as if the fit had ended with this round."""
        so_far = copy.copy(self._estimator)
        ensemble = progress.ensemble.first(len(progress.ensemble))
        state = cast("State", None)  # unused by estimators that support callbacks
        so_far._set_fitted_attributes(
            Result(ensemble, progress.history[:], state, "under way"), task
        )
        return {name: value for name, value in vars(so_far).items() if name.endswith("_")}

    def end(self) -> None:
        """Report the end of the fit."""
        fitted = {n: v for n, v in vars(self._estimator).items() if n.endswith("_")}
        self._context.call_on_fit_task_end(
            estimator=self._estimator, reconstruction_attributes=lambda: fitted, **self._data
        )


class ProgressBar:
    """Progress bar on stderr with rounds, risk, evaluation metrics and the remaining time.

    A context manager around the loop and one of its callbacks. `rounds` is the total number of
    rounds, of which `done` are from an earlier fit. With ``verbose=0`` nothing is shown.

    >>> with ProgressBar("RankBoost", rounds=10, verbose=0) as bar:
    ...     bar.callbacks([])
    []
    """

    def __init__(self, name: str, *, rounds: int, done: int = 0, verbose: int = 1):
        self._name, self._rounds, self._done, self._verbose = name, rounds, done, verbose
        self._bar: Any = None
        self._task: Any = None

    def callbacks(
        self, others: Sequence[Callable[[Progress], Any]] | None
    ) -> list[Callable[[Progress], Any]]:
        """Return the other callbacks, and the bar if it is shown."""
        return [*(others or ()), *([self] if self._verbose > 0 else [])]

    def __enter__(self) -> Self:
        if self._verbose > 0:
            self._open()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _open(self) -> None:
        from rich import progress  # noqa: PLC0415  (only if shown)
        from rich.console import Console  # noqa: PLC0415

        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.TextColumn("{task.completed}/{task.total}"),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.fields[shown]}", markup=False),
            console=Console(stderr=True, emoji=False),
        )
        self._task = self._bar.add_task(
            self._name, total=self._rounds, completed=self._done, shown=""
        )
        self._bar.start()

    def advance(self) -> None:
        """Advance by one step, for work without rounds."""
        if self._bar is not None:
            self._bar.advance(self._task)

    def __call__(self, progress: Progress) -> None:
        """Show the last round."""
        last = progress.history[-1]
        shown = [f"{name} {last[name]:.4g}" for name in ("risk", "gap") if name in last]
        if "lower" in last:
            shown.append(f"best margin in [{last['lower']:.4f}, {last['upper']:.4f}]")
        shown += [f"{name} {value:.4f}" for name, value in last.items() if " " in name]
        text = "".join(filter(str.isprintable, "  ".join(shown)))  # names may hold escape codes
        self._bar.update(self._task, completed=progress.round, shown=text)
