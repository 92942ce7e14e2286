"""What results have in common: plain data, a data frame, and a table as text and as HTML."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from precede.engine.arrays import Json
from precede.engine.frames import pandas_frame

if TYPE_CHECKING:
    import pandas as pd


class Result:
    """Base class of results, which are frozen dataclasses.

    A subclass with a table defines `rows`, and `summary` for the text above it. `_cells` formats
    the table; `__str__` and the display in notebooks show both. A subclass whose text is not a
    table defines `__str__`.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Counts(Result):
    ...     numbers: tuple[int, ...]
    ...     def summary(self):
    ...         return f"{len(self.numbers)} counts"
    ...     def rows(self):
    ...         return [{"name": f"n{j}", "count": n} for j, n in enumerate(self.numbers)]
    >>> print(Counts((3, 14)))
    2 counts
      name  count
      n0        3
      n1       14
    >>> Counts((3,)).to_dict()
    {'numbers': [3]}
    """

    def to_dict(self) -> Json:
        """Return plain numbers, text and lists: the fields that `repr` shows."""
        named = [each.name for each in fields(self) if each.repr]  # type: ignore[arg-type]
        return {name: plain(getattr(self, name)) for name in named}

    def summary(self) -> str:
        """Return the text above the table."""
        return ""

    def rows(self) -> list[Json]:
        """Return the table, one dictionary per row; by default one row of all fields."""
        return [self.to_dict()]

    def to_frame(self) -> pd.DataFrame:
        """Return the table as a pandas data frame."""
        return pandas_frame(self.rows())

    def _cells(self) -> list[list[str]]:
        """Return the head of the table and its rows as text."""
        rows = self.rows()
        head = [[str(name) for name in row] for row in rows[:1]]
        return [*head, *([shown(value) for value in row.values()] for row in rows)]

    def __str__(self) -> str:
        lines = text_table(self._cells())
        return "\n".join([*filter(None, [self.summary()]), *(f"  {line}" for line in lines)])

    def _repr_html_(self) -> str:
        return html_table(self._cells(), self.summary())


def shown(value: object) -> str:
    """Return a cell of a table: numbers with four significant digits, "-" where there is none.

    >>> shown(0.123456), shown(12), shown("text"), shown(None)
    ('0.1235', '12', 'text', '-')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def text_table(cells: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table: the first column to the left, all others to the right."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in cells
    ]


def html_table(cells: Sequence[Sequence[str]], caption: str = "") -> str:
    """Return a table, whose first row is its head, as HTML.

    >>> html_table([["a"], ["<2"]], "Title")
    '<table><caption>Title</caption><tr><th>a</th></tr><tr><td>&lt;2</td></tr></table>'
    """
    lines = []
    for number, row in enumerate(cells):
        tag = "td" if number else "th"
        lines.append("".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row))
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table>{f'<caption>{escape(caption)}</caption>' if caption else ''}{body}</table>"


def plain(value: Any, *, spell: bool = True) -> Any:
    """Convert NumPy scalars, infinities and NaN to types that JSON has.

    With ``spell=False`` NaN and infinities become None, and objects of other types text.

    >>> import numpy as np
    >>> plain({"a": np.int64(1), "b": [float("inf")]})
    {'a': 1, 'b': ['inf']}
    >>> plain([float("nan"), 1j], spell=False)
    [None, '1j']
    """
    if isinstance(value, dict):
        return {str(name): plain(each, spell=spell) for name, each in value.items()}
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(each, spell=spell) for each in value]
    if isinstance(value, np.datetime64):
        return str(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value) if spell else None  # "inf", "-inf" or "nan"
    known = value is None or isinstance(value, str | int | float)
    return value if spell or known else str(value)
