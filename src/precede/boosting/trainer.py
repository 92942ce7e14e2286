"""What a training method tells the loop: how to do one round, and what to record of it."""

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

# Why no round follows one whose ranker makes no mistake; the history then says "perfect".
PERFECT = "one ranker puts every pair in order"


@dataclass(frozen=True)
class Round:
    """What is recorded of a round that was done.

    Attributes
    ----------
    columns : what the history holds, by name, before the seconds that the round took
    more : the columns that follow them
    last : why no round can follow this one; empty if one can
    """

    columns: dict[str, Any]
    more: dict[str, Any] = field(default_factory=dict)
    last: str = ""


class Trainer:
    """What happens in a round of training; `precede.boosting.loop.drive` does everything else.

    That is: stopping rules, callbacks, evaluation sets, the history, the time, Ctrl-C.
    Subclasses write `advance`, and `interrupt` and `finish` where the defaults do not do. A
    method serves one fit.

    Attributes
    ----------
    stop : Stop
        The rule that ends the fit; it is asked before every round.
    context : Context
        Where warnings are given.
    monitors : sequence of Monitor
        Evaluation sets. The method moves their scores together with its own; the loop looks at
        their metrics after the round.
    state : State
        The risk at the scores after the last round.
    ensemble : Ensemble
        The model after the last round.
    exhausted : str
        Why `advance` did nothing, once it has returned None.

    Examples
    --------
    >>> from precede.boosting.history import Rounds
    >>> from precede.boosting.loop import drive
    >>> class Halving(Trainer):
    ...     '''The risk halves in every round, until it is small.'''
    ...     def __init__(self):
    ...         self.stop, self.context, self.state = Rounds(100), Context(1), None
    ...         self.ensemble, self.risk = Ensemble([], [], 1), 1.0
    ...     def advance(self):
    ...         if self.risk < 0.2:
    ...             self.exhausted = "the risk is small"
    ...             return None
    ...         self.risk /= 2
    ...         return Round({"risk": self.risk})
    >>> result = drive(Halving())
    >>> result.history["risk"], result.reason
    (array([0.5  , 0.25 , 0.125]), 'the risk is small')
    """

    stop: Stop
    context: Context
    monitors: Sequence[Monitor] = ()
    state: State
    ensemble: Ensemble
    exhausted: str = ""

    def advance(self) -> Round | None:
        """Do one round; None, with the reason in `exhausted`, if there is nothing to do."""
        raise NotImplementedError(f"{type(self).__name__} must define advance()")

    def last_state(self) -> State:
        """The risk and its pull at the scores after the last round."""
        return self.state

    def last_scores(self) -> Floats | None:
        """Scores that the model gives to the training rows, as arranged; None if unknown."""
        return None

    def finish(self, reason: str) -> str:
        """Do what is left to do when a rule has ended the fit; give the reason to report."""
        return reason

    def interrupt(self, history: History) -> str:
        """Go back to the last whole round after Ctrl-C; say what is left of the model."""
        return f"the model has the {len(history)} rounds done so far"
