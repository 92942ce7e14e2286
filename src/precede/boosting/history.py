"""History of the rounds, stopping rules, and monitored evaluation sets."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, overload

import numpy as np

from precede.engine.arrays import Array, Floats
from precede.engine.frames import pandas_frame
from precede.engine.table import Table
from precede.judgments import Judgments
from precede.model import Ensemble, plain
from precede.weak_rankers.base import WeakRanker


class History(Sequence[dict[str, Any]]):
    """Record of the rounds, indexed by round or by column name.

    >>> history = History([{"risk": 1.0}, {"risk": 0.5}])
    >>> history["risk"], history[-1]
    (array([1. , 0.5]), {'risk': 0.5})
    """

    def __init__(self, rounds: Iterable[dict[str, Any]] = ()):
        self._rounds = [dict(values) for values in rounds]

    def __len__(self) -> int:
        return len(self._rounds)

    @overload
    def __getitem__(self, key: str) -> Array: ...
    @overload
    def __getitem__(self, key: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, key: slice) -> History: ...
    def __getitem__(self, key: str | int | slice) -> Array | dict[str, Any] | History:
        if isinstance(key, str):
            if self._rounds and key not in self._rounds[-1]:
                raise KeyError(f"no column {key!r}; there are {list(self._rounds[-1])}")
            # Rounds of an earlier fit may lack the evaluation sets of a later one.
            return np.array([values.get(key, np.nan) for values in self._rounds])
        return History(self._rounds[key]) if isinstance(key, slice) else self._rounds[key]

    def append(self, **values: Any) -> None:
        """Add a round."""
        self._rounds.append(values)

    @property
    def columns(self) -> list[str]:
        """Names of the recorded columns."""
        return list(self._rounds[-1]) if self._rounds else []

    def to_lines(self) -> str:
        """Return JSON lines, one per round; NaN and infinities are text, as in saved models."""
        return "".join(json.dumps(plain(values), allow_nan=False) + "\n" for values in self._rounds)

    def to_frame(self) -> Any:
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


class Scoring(Protocol):
    """Model that scores the rows of a table."""

    def on(self, table: Table) -> Floats:
        """Return the score of each row."""
        ...


@dataclass
class Monitor:
    """Evaluation set whose metrics are computed after every round.

    `metrics` are functions of the scores by name; `judgments` allow callers to compute others.
    """

    name: str
    table: Table
    metrics: dict[str, Callable[[Floats], float]]
    init_score: Floats | None = None
    judgments: Judgments | None = None
    scores: Floats = field(init=False)

    def __post_init__(self) -> None:
        given = self.init_score
        self.scores = np.zeros(self.table.n_used_rows) if given is None else given.copy()

    def advance(self, weak_ranker: WeakRanker, weight: float) -> None:
        """Add one weak ranker to the scores."""
        self.scores += weight * weak_ranker.on(self.table)

    def shrink(self, factor: float) -> None:
        """Multiply the scores by `factor`."""
        self.scores *= factor

    def restart(self, model: Scoring) -> None:
        """Reset the scores to those of a model plus `init_score`."""
        self.scores = model.on(self.table)
        if self.init_score is not None:
            self.scores += self.init_score

    def compute_metrics(self) -> dict[str, float]:
        """Return the values of the metrics, keyed by "<name> <metric>"."""
        return {
            f"{self.name} {metric}": float(value(self.scores))
            for metric, value in self.metrics.items()
        }


@dataclass(frozen=True)
class Progress:
    """Argument of a callback after `round` rounds; if the callback returns True the fit stops."""

    round: int
    history: History
    ensemble: Ensemble
