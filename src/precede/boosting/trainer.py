"""Interface between an algorithm and the boosting loop: one round, and its record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from precede.boosting.history import History, Monitor, Stop
from precede.engine.arrays import Floats
from precede.engine.execution import Context
from precede.model import Ensemble
from precede.risks.base import State

__all__ = ["PERFECT", "Round", "Trainer"]

# Reason to stop after a round marked "perfect" in the history.
PERFECT = "one ranker puts every pair in order"


@dataclass(frozen=True)
class Round:
    """Record of a finished round.

    Attributes
    ----------
    columns : columns of the history that precede "seconds"
    more : columns that follow it
    last : reason why this is the last round; empty if others may follow
    """

    columns: dict[str, Any]
    more: dict[str, Any] = field(default_factory=dict)
    last: str = ""


class Trainer:
    """Base class of algorithms as the loop sees them: boosts one round at a time.

    `precede.boosting.loop.run_rounds` does the rest: stopping rules, callbacks, evaluation sets,
    history, time, Ctrl-C. Subclasses define `boost_round` and, if needed, `interrupt` and
    `finish`. An instance serves one fit.

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
