"""Columns of files of whitespace-separated words: TREC files, query sizes, weights and pairs."""

from __future__ import annotations

import math
from io import BufferedReader
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Kinds of columns.
NUMBER, TEXT, SKIP = range(3)

_MEANINGS = {
    **dict.fromkeys((b"na", b"nan", b"none", b"null"), math.nan), b"true": 1.0, b"false": 0.0
}  # fmt: skip


class TextColumns(NamedTuple):
    """Columns of a file: the numbers as one matrix, each text column as a list."""

    numbers: NDArray[np.float64]
    texts: list[list[str]]


def read_text_columns(stream: BufferedReader, path: str, kinds: list[int]) -> TextColumns:
    r"""Read lines of as many words as there are `kinds`: `NUMBER`, `TEXT` or `SKIP`.

    Blank lines are skipped. One pass, O(bytes).

    >>> import io
    >>> stream = io.BufferedReader(io.BytesIO(b"a  1.5\n\n\tb -2\n"))
    >>> read_text_columns(stream, "-", [TEXT, NUMBER])
    TextColumns(numbers=array([[ 1.5],
           [-2. ]]), texts=[['a', 'b']])
    """
    width = len(kinds)
    positions = [
        [position for position in range(width) if kinds[position] == kind]
        for kind in (NUMBER, TEXT)
    ]
    numbers: list[float] = []
    texts: list[list[str]] = [[] for _ in positions[1]]
    for line, content in enumerate(stream, start=1):
        words = (content.removeprefix(b"\xef\xbb\xbf") if line == 1 else content).split()
        if not words:
            continue
        if len(words) != width:
            more = "fewer" if len(words) < width else "more"
            raise ValueError(
                f"{path}, line {line}: the line has {more} words than there are columns, "
                f"{len(words)} for {width}"
            )
        for position in positions[0]:
            number = _parse_number(words[position])
            if number is None:
                found = words[position][:40].decode("utf-8", "replace")
                raise ValueError(f"{path}, line {line}: {found!r} is not a finite number")
            numbers.append(number)
        for column, position in zip(texts, positions[1], strict=True):
            column.append(words[position].decode("utf-8", "replace"))
    matrix = np.array(numbers, np.float64).reshape(-1, max(1, len(positions[0])))
    return TextColumns(matrix, texts)


def _parse_number(word: bytes) -> float | None:
    """Parse a number like `float`, but refuse underscores; None if it is not finite."""
    meaning = _MEANINGS.get(word.lower())
    if meaning is not None:
        return meaning
    try:
        value = float(word)
    except ValueError:
        return None
    return value if math.isfinite(value) and b"_" not in word else None
