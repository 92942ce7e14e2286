"""A bound as a sum of named terms, and what it would take to make it speak.

A `Bound` holds the confidence with which it holds, the assumptions it rests on, and two plain
statements: whether it is vacuous (at least 1), and from which sample size it would not be, other
things equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from html import escape
from typing import Any

import numpy as np

from precede.model import plain

__all__ = ["FIXED_CLASS", "Bound", "check_open", "grid_sentence", "least", "smallest", "solve"]

FIXED_CLASS = "The class of ranking functions was fixed before the data were seen."


@dataclass(frozen=True)
class Bound:
    """An upper bound as a sum of named terms, with what it rests on.

    `value` is the sum of `terms`; it holds with probability `confidence` (1: always) under the
    `assumptions`. From `trivial` on (1, or the risk of doing nothing) it is vacuous.
    `needed_samples` is the least sample size at which it would be below 1, other
    things equal: None if no size would do, or none matters. `details` are the numbers used.

    Examples
    --------
    >>> from precede.bounds import training_bound
    >>> print(training_bound([0.5, 0.4, 0.3]))
    training pair error (ties wrong) ≤ 0.7788, always
      0.7788  exp(−½ Σ edge²)
      Connamacher et al. (2019), theorem 1
    """

    quantity: str
    terms: dict[str, float]
    confidence: float
    assumptions: tuple[str, ...]
    n_samples: int | None
    needed_samples: int | None
    source: str
    details: dict[str, float] = field(default_factory=dict)
    trivial: float = 1.0

    @property
    def value(self) -> float:
        """The bound: the sum of its terms."""
        return float(sum(self.terms.values()))

    @property
    def vacuous(self) -> bool:
        """True if the bound says nothing: its value is at least 1, or at least `trivial`."""
        return not self.value < self.trivial

    def __str__(self) -> str:
        held = "always" if self.confidence == 1 else f"with confidence {self.confidence:g}"
        lines = [f"{self.quantity} ≤ {self.value:.4f}, {held}"]
        for number, name in zip(self.terms.values(), self.terms, strict=True):
            lines.append(f"  {'+ ' if len(lines) > 1 else ''}{number:.4f}  {name}")
        if self.vacuous:
            size = self.needed_samples
            cure = "no sample size would help" if size is None else f"not so from {_count(size)} on"
            at = "" if self.n_samples is None else f" at {_count(self.n_samples)} samples"
            lines.append(f"  vacuous{at}: {cure}")
        return "\n".join([*lines, f"  {self.source}"])

    def _repr_html_(self) -> str:
        rows: dict[str, Any] = {**self.terms, "sum": self.value, "confidence": self.confidence}
        rows |= {"vacuous": self.vacuous, "needed samples": self.needed_samples}
        cells = [f"<tr><th>{escape(k)}</th><td>{escape(str(v))}</td></tr>" for k, v in rows.items()]
        listed = "".join(f"<li>{escape(sentence)}</li>" for sentence in self.assumptions)
        caption = f"<caption>{escape(self.quantity)} ({escape(self.source)})</caption>"
        return f"<table>{caption}{''.join(cells)}</table><ul>{listed}</ul>"

    def to_dict(self) -> dict[str, Any]:
        """Return numbers, words and lists only; infinities become the text "inf"."""
        facts = {each.name: plain(getattr(self, each.name)) for each in fields(self)}
        return {**facts, "value": plain(self.value), "vacuous": self.vacuous}


def solve(log_failure: Callable[[float], float], target: float) -> float:
    """Return the least ε at which a falling function is at most the target."""
    low, high = math.log(1e-12), math.log(1e12)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if log_failure(math.exp(middle)) <= target else (middle, high)
    return math.exp(high)


def least(empirical: Any, epsilons: Callable[[float], Any], size: float) -> tuple[int, Any]:
    """Return the index of the least sum at this size, and the size from which one is below 1."""
    needed = None
    if min(empirical) < 1:
        needed = smallest(lambda samples: np.add(empirical, epsilons(samples)).min() < 1)
    return int(np.argmin(np.add(empirical, epsilons(size)))), needed


def smallest(good: Callable[[float], bool]) -> int | None:
    """Return the least sample size from which `good` holds; None if none up to 1e300 does."""
    high = 2.0
    while not good(high):
        high *= 2
        if high > 1e300:
            return None
    low = high / 2
    while high - low > max(1.0, 1e-12 * high):
        middle = math.floor((low + high) / 2)
        low, high = (low, middle) if good(middle) else (middle, high)
    return math.ceil(high)


def grid_sentence(tried: int) -> str:
    """Say how the margin was chosen."""
    several = f"The least of {tried} bounds is taken, one for each margin of a grid fixed before "
    several += "the data were seen, each with the chance of failure divided by their number."
    return "The margin was chosen before the data were seen." if tried == 1 else several


def check_open(name: str, given: float) -> None:
    """Raise ValueError unless a number is between 0 and 1."""
    if not 0 < given < 1:
        raise ValueError(f"{name}={given!r}; give a number strictly between 0 and 1, such as 0.05")


def _count(number: int) -> str:
    return f"{number:,}" if number < 10**12 else f"{float(number):.2e}"
