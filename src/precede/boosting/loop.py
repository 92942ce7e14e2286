"""The boosting loop that all algorithms share, its history and its stopping rules.

A `Trainer` does one round; the loop applies stopping rules, calls callbacks, evaluates the
monitors, records history and time, and handles Ctrl-C.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, overload

import numpy as np

from precede.boosting.monitors import Monitor
from precede.engine.arrays import Array, Floats
from precede.engine.execution import Context
from precede.engine.frames import pandas_frame
from precede.model import Ensemble
from precede.results import plain
from precede.risks.base import State

if TYPE_CHECKING:
    from pandas import DataFrame

INTERRUPTED, STOPPED_BY_CALLBACK = "interrupted", "stopped by a callback"
# Reasons after which no further stage of a fit is run.
ENDED_BY_USER = frozenset({INTERRUPTED, STOPPED_BY_CALLBACK})
# Reason to stop after a round marked "perfect" in the history.
PERFECT = "one ranker puts every pair in order"
RoundValues = dict[str, float]  # numbers of one round, by column of the history


class History(Sequence[RoundValues]):
    """Record of the rounds, indexed by round or by column name.

    >>> history = History([{"risk": 1.0}, {"risk": 0.5}])
    >>> history["risk"], history[-1]
    (array([1. , 0.5]), {'risk': 0.5})
    """

    def __init__(self, rounds: Iterable[RoundValues] = ()):
        self._rounds = [dict(values) for values in rounds]

    def __len__(self) -> int:
        return len(self._rounds)

    @overload
    def __getitem__(self, key: str) -> Array: ...
    @overload
    def __getitem__(self, key: int) -> RoundValues: ...
    @overload
    def __getitem__(self, key: slice) -> History: ...
    def __getitem__(self, key: str | int | slice) -> Array | RoundValues | History:
        if isinstance(key, str):
            if self._rounds and key not in self._rounds[-1]:
                raise KeyError(f"no column {key!r}; there are {list(self._rounds[-1])}")
            # Rounds of an earlier fit may lack the evaluation sets of a later one.
            return np.array([values.get(key, np.nan) for values in self._rounds])
        return History(self._rounds[key]) if isinstance(key, slice) else self._rounds[key]

    def append(self, **values: float) -> None:
        """Add a round."""
        self._rounds.append(values)

    @property
    def columns(self) -> list[str]:
        """Names of the recorded columns."""
        return list(self._rounds[-1]) if self._rounds else []

    def evals_result(self) -> dict[str, dict[str, list[float]]]:
        """Return columns such as "valid_0 ndcg@10" as LightGBM's nested dictionary."""
        result: dict[str, dict[str, list[float]]] = {}
        for column in self.columns:
            if column.startswith("valid_") and " " in column:
                name, metric = column.split(" ", 1)
                result.setdefault(name, {})[metric] = self[column].tolist()
        return result

    def to_lines(self) -> str:
        """Return JSON lines, one per round; NaN and infinities are text, as in saved models."""
        return "".join(json.dumps(plain(values), allow_nan=False) + "\n" for values in self._rounds)

    def to_frame(self) -> DataFrame:
        """Return a pandas data frame with one row per round, indexed from 1."""
        index = list(range(1, len(self) + 1))
        return pandas_frame(list(self._rounds), index=index).rename_axis("round")

    def __repr__(self) -> str:
        return f"History({len(self)} rounds of {self.columns})"


class Stop:
    """Stopping rule; ``a | b`` stops as soon as one of them does."""

    def reason(self, history: History) -> str | None:
        """Return why to stop now, or None to go on."""
        raise NotImplementedError(f"{type(self).__name__} must define reason(history)")

    def __or__(self, other: Stop) -> Stop:
        return _Either(self, other)


@dataclass(frozen=True)
class _Either(Stop):
    one: Stop
    other: Stop

    def reason(self, history: History) -> str | None:
        return self.one.reason(history) or self.other.reason(history)


@dataclass(frozen=True)
class Rounds(Stop):
    """Stop after a number of rounds."""

    max_rounds: int

    def reason(self, history: History) -> str | None:
        """Return a reason once the number of rounds is reached."""
        return f"{self.max_rounds} rounds" if len(history) >= self.max_rounds else None


@dataclass(frozen=True)
class NoProgress(Stop):
    """Stop when a round lowers the log risk by less than `tol`; never if `tol` is 0."""

    tol: float = 0.0

    def reason(self, history: History) -> str | None:
        """Return a reason if the last round lowered the log risk too little."""
        if self.tol <= 0 or len(history) < 2:
            return None
        decrease = history[-2]["log_risk"] - history[-1]["log_risk"]
        return "no more progress" if decrease < self.tol else None


@dataclass(frozen=True)
class EarlyStopping(Stop):
    """Stop when a column of the history has not improved for `patience` rounds."""

    column: str
    patience: int
    greater_is_better: bool

    def best_round(self, history: History) -> int:
        """Return the number of rounds after which the column was best; the first among ties."""
        if self.column not in history.columns:  # no round of this fit yet
            return len(history)
        values = history[self.column] if self.greater_is_better else -history[self.column]
        if np.isnan(values).all():
            return len(history)
        return int(np.nanargmax(values)) + 1

    def reason(self, history: History) -> str | None:
        """Return a reason if the best round is `patience` or more rounds ago."""
        if not len(history) or len(history) - self.best_round(history) < self.patience:
            return None
        return f"{self.column} has not improved for {self.patience} rounds"


@dataclass(frozen=True)
class Progress:
    """Argument of a callback after `round` rounds; if the callback returns True the fit stops."""

    round: int
    history: History
    ensemble: Ensemble


Callback = Callable[[Progress], object]


@dataclass(frozen=True)
class Round:
    """Record of a finished round.

    Attributes
    ----------
    columns : columns of the history that precede "seconds"
    extra_columns : columns that follow it
    stop_reason : reason why this is the last round; empty if others may follow
    """

    columns: RoundValues
    extra_columns: RoundValues = field(default_factory=dict)
    stop_reason: str = ""


@dataclass(frozen=True)
class Result:
    """Result of the loop: the model, the history, the state of the risk and the reason to stop.

    `scores` are the scores of the training rows under the model, in layout order; None if unknown.
    `state` is None while the fit is under way.
    """

    ensemble: Ensemble
    history: History
    state: State | None
    reason: str
    scores: Floats | None = None


class Trainer:
    """Base class of algorithms, which boost one round at a time; used for one fit.

    `precede.boosting.loop.run_rounds` does the rest: stopping rules, callbacks, evaluation sets,
    history, time, Ctrl-C. Subclasses define `boost_round` and, if needed, `interrupt` and
    `result`.

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

    Examples
    --------
    >>> from precede.boosting.loop import Rounds, run_rounds
    >>> class Halving(Trainer):
    ...     '''The risk halves in every round, until it is small.'''
    ...     def __init__(self):
    ...         self.stop, self.context, self.state = Rounds(100), Context(1), None
    ...         self.ensemble, self.risk = Ensemble([], [], 1), 1.0
    ...     def boost_round(self):
    ...         if self.risk < 0.2:
    ...             return "the risk is small"
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

    def boost_round(self) -> Round | str:
        """Boost one round; if none is possible, return the reason."""
        raise NotImplementedError(f"{type(self).__name__} must define boost_round()")

    def interrupt(self, history: History) -> str:
        """Return to the last finished round after Ctrl-C; return a message about the model."""
        return f"the model has the {len(history)} rounds done so far"

    def result(self, history: History, reason: str) -> Result:
        """Return the result after the last round."""
        return Result(self.ensemble, history, self.state, reason)


def run_rounds(
    trainer: Trainer,
    history: Iterable[RoundValues] = (),
    callbacks: Sequence[Callback] = (),
    *,
    interruptible: bool = True,
) -> Result:
    """Boost until a stopping rule, a callback or the trainer itself ends the fit.

    `history` holds the rounds that the trainer continues from. Ctrl-C ends the loop with a warning
    and keeps the finished rounds; with ``interruptible=False`` it is raised.
    """
    record = History(history)
    try:
        reason = _loop(trainer, record, callbacks)
    except KeyboardInterrupt:
        if not interruptible:
            raise
        reason = INTERRUPTED
        trainer.context.warn(f"interrupted: {trainer.interrupt(record)}")
    return trainer.result(record, reason)


def _loop(trainer: Trainer, history: History, callbacks: Sequence[Callback]) -> str:
    """Boost round by round; return the reason to stop."""
    if len(history) and history[-1].get("perfect"):
        return PERFECT
    while not (reason := trainer.stop.reason(history)):
        began = time.perf_counter()
        done = trainer.boost_round()
        if isinstance(done, str):
            return done
        seconds = time.perf_counter() - began
        metrics: RoundValues = {}
        for monitor in trainer.monitors:
            metrics |= monitor.compute_metrics()
        history.append(**done.columns, seconds=seconds, **done.extra_columns, **metrics)
        if asked_to_stop(callbacks, history, trainer.ensemble):
            return STOPPED_BY_CALLBACK
        if done.stop_reason:
            return done.stop_reason
    return reason


def asked_to_stop(callbacks: Sequence[Callback], history: History, ensemble: Ensemble) -> bool:
    """Call every callback with the round; return whether one of them asked to stop."""
    progress = Progress(len(history), history, ensemble)
    answers = [callback(progress) for callback in callbacks]
    # Comparisons of NumPy numbers are `np.True_`.
    return any(isinstance(answer, bool | np.bool_) and answer for answer in answers)
