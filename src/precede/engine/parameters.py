"""Checks of parameters: each error names the parameter, its value and the remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

AUTO = "auto"  # value of a parameter that `fit` chooses


class Selectable(Protocol):
    """An estimator with parameters that `fit` can choose."""

    @property
    def selectable(self) -> tuple[str, ...]:
        """Names of the parameters that may be "auto"."""
        ...


def find_auto_parameters(estimator: Selectable) -> list[str]:
    """Return the names of the parameters set to "auto".

    >>> from precede import BoostedRanker
    >>> find_auto_parameters(BoostedRanker(n_estimators="auto"))
    ['n_estimators']
    """
    given = ((name, getattr(estimator, name)) for name in estimator.selectable)
    return [name for name, value in given if isinstance(value, str) and value == AUTO]


def pluralize(number: int, noun: str) -> str:
    """Return a count with its noun in the singular or plural.

    >>> pluralize(1, "round"), pluralize(20, "round"), pluralize(2, "query")
    ('1 round', '20 rounds', '2 queries')
    """
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


@dataclass(frozen=True)
class Argument:
    """An argument that a message speaks of, such as ``format='letor'``.

    Messages name the arguments of Python functions; the command line, which has options instead,
    writes the name and the value in its own way (see `render`). `in_python` replaces the usual
    ``name=value`` in Python, for arguments without a value or with alternatives.

    >>> print(Argument("format", "letor"), Argument("label", in_python="label=..."))
    format='letor' label=...
    """

    name: str
    value: object = None
    in_python: str | None = None

    def __str__(self) -> str:
        return self.in_python or f"{self.name}={self.value!r}"


class ParameterMessage(Exception):  # noqa: N818  (a base of errors and of warnings)
    """A message composed of text and arguments."""

    def __init__(self, *parts: str | Argument) -> None:
        super().__init__(*parts)
        self.parts = parts

    def __str__(self) -> str:
        return self.render(str)

    def render(self, argument: Callable[[Argument], str]) -> str:
        """Return the message, with its arguments written by a function."""
        return "".join(part if isinstance(part, str) else argument(part) for part in self.parts)


class ParameterError(ParameterMessage, ValueError):
    """A ValueError about arguments, or whose remedy is an argument.

    >>> error = ParameterError(Argument("format", "xls"), " is unknown; use 'csv'")
    >>> print(error)
    format='xls' is unknown; use 'csv'
    >>> error.render(lambda argument: f"--{argument.name} {argument.value}")
    "--format xls is unknown; use 'csv'"
    """


class ParameterWarning(ParameterMessage, UserWarning):
    """A UserWarning whose remedy is an argument."""


def check_integer(name: str, value: object, *, least: int, most: int | None = None) -> None:
    """Raise ValueError unless `value` is an integer from `least` to `most`."""
    if (
        not isinstance(value, int | np.integer)
        or isinstance(value, bool)
        or value < least
        or (most is not None and value > most)
    ):
        upto = "" if most is None else f" to {most}"
        raise ParameterError(
            Argument(name, value), f" is out of range; use a whole number from {least}{upto}"
        )


def check_range(name: str, value: object, low: float, high: float) -> None:
    """Raise ValueError unless `value` is a number above `low` and at most `high`."""
    if (
        not isinstance(value, int | float | np.integer | np.floating)
        or isinstance(value, bool)
        or not low < value <= high
    ):
        raise ParameterError(
            Argument(name, value), f" is out of range; use more than {low:g}, up to {high:g}"
        )


def check_bool(name: str, value: object) -> None:
    """Raise ValueError unless `value` is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ParameterError(Argument(name, value), "; use True or False")


def check_choice(name: str, given: object, choices: Iterable[str]) -> None:
    """Raise ValueError unless `given` is one of the choices."""
    if given not in (allowed := tuple(choices)):
        raise ParameterError(Argument(name, given), f"; choose one of {', '.join(allowed)}")


def upper_tail(level: object) -> float:
    """Return the tail probability on each side of an interval of this confidence level.

    >>> round(upper_tail(0.95), 3)
    0.025
    """
    if not isinstance(level, int | float | np.floating) or not 0 < level < 1:
        given = Argument("level", level)
        raise ParameterError(given, "; give a number strictly between 0 and 1, such as 0.95")
    return float(1 - level) / 2
