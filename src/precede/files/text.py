"""Reading text: chunks of whole lines, growing arrays, numbered names and columns of words."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BufferedReader
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from precede.engine.arrays import Array, Bytes, Floats, Integers, Objects
from precede.engine.compiling import njit

CHUNK_BYTES = 1 << 24  # of text, read at a time
NEWLINE = 10


@dataclass(frozen=True, eq=False)
class Lines:
    """Whole lines of a file, each with its newline; errors name the line.

    Attributes
    ----------
    name : name of the file
    first : number of lines before these
    text : the lines, as bytes
    """

    name: str
    first: int
    text: Bytes

    def words(self, spans: Integers) -> list[str]:
        """Return the texts at positions (begin, end); none may contain a newline."""
        packed = _join_words(self.text, spans).tobytes().decode("utf-8", "replace")
        return packed[:-1].split("\n")

    def refuse(self, remedy: str, where: int) -> NoReturn:
        """Raise a ValueError that names the line and the word at a position."""
        line = self.first + int((self.text[:where] == NEWLINE).sum()) + 1
        rest = self.text[where : where + 40].tobytes().decode("utf-8", "replace").split("\n")[0]
        word = (rest.replace(",", " ").split() or [""])[0]
        raise ValueError(f"{self.name}, line {line}: {remedy.format(found=repr(word))}")


def read_lines(stream: BufferedReader, name: str, size: int | None = None) -> Iterator[Lines]:
    r"""Read a file in chunks of whole lines, of about `size` bytes or one longer line.

    A UTF-8 byte order mark at the beginning is removed.

    >>> import io
    >>> stream = io.BufferedReader(io.BytesIO(b"one\ntwo"))
    >>> chunks = list(read_lines(stream, "numbers.txt", size=4))
    >>> [chunk.text.tobytes() for chunk in chunks]
    [b'one\n', b'two\n']
    >>> chunks[1].refuse("{found} is no number", where=0)
    Traceback (most recent call last):
    ValueError: numbers.txt, line 2: 'two' is no number
    """
    size, first, rest = size or CHUNK_BYTES, 0, stream.read(3).removeprefix(b"\xef\xbb\xbf")
    while (read := stream.read(max(size, len(rest)))) or rest:  # doubles until a long line ends
        text = bytearray(rest)
        text += read or b"\n"
        end = text.rfind(b"\n") + 1
        rest = bytes(memoryview(text)[end:])
        if end:
            yield Lines(name, first, np.frombuffer(text, np.uint8)[:end])
            first += text.count(b"\n")


class GrowingArray:
    """A one-dimensional array that grows in place, without a second copy in memory.

    >>> array = GrowingArray(float)
    >>> array.add(np.array([1.0, 2.0]))
    >>> array.add(np.array([3.0]))
    >>> array.trimmed()
    array([1., 2., 3.])
    """

    def __init__(self, dtype: Any):
        self._array: Array = np.empty(0, dtype)
        self.used = 0

    def add(self, values: Array, expected: int = 0) -> None:
        """Append values; if the array must grow, reserve room for `expected` values in all."""
        needed = self.used + values.size
        if needed > self._array.size:
            # No view of the array outlives a call, so moving it is safe.
            self._array.resize(max(needed, expected, int(1.25 * self._array.size)), refcheck=False)
        self._array[self.used : needed] = values
        self.used = needed

    def trimmed(self, size: int | None = None) -> Array:
        """Return the array, resized to `size` or to the part in use, and start an empty one."""
        array, self._array = self._array, np.empty(0, self._array.dtype)
        array.resize(self.used if size is None else size, refcheck=False)
        return array


def object_array(values: Iterable[object]) -> Objects:
    """Return a one-dimensional array of objects, even if these are sequences."""
    listed = list(values)
    array = np.empty(len(listed), object)
    array[:] = listed
    return array


class NumberedNames(Sequence[str]):
    """Consecutive numbers as feature names, formatted on demand.

    A short LETOR file may have millions of features.

    >>> names = NumberedNames(1, 4)
    >>> names[0], list(names), len(names), names == ["1", "2", "3"]
    ('1', ['1', '2', '3'], 3, True)
    """

    def __init__(self, first: int, end: int):
        self._numbers = range(first, end)

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, position: Any) -> Any:
        found = self._numbers[position]
        return str(found) if isinstance(found, int) else NumberedNames(found.start, found.stop)

    def __or__(self, other: NumberedNames) -> NumberedNames:
        """Return the smallest range that contains both."""
        ours, theirs = self._numbers, other._numbers
        return NumberedNames(min(ours.start, theirs.start), max(ours.stop, theirs.stop))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(other) != len(self):
            return False
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        few = len(self) <= 100
        return repr(list(self)) if few else f"['{self[0]}', '{self[1]}', ..., '{self[-1]}']"


# -- files of words between blanks: TREC files, query sizes, weights and pairs -----------------


# Kinds of columns.
NUMBER, TEXT, SKIP = range(3)

NUMBER_PATTERN = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE | re.ASCII
)
MISSING_WORDS = ("na", "nan", "none", "null")  # in any case
_MEANINGS = {**dict.fromkeys(MISSING_WORDS, math.nan), "true": 1.0, "false": 0.0}
# Some texts with other characters are numbers for `float` but not here, such as "1_0" and "inf".
_OTHER_CHARACTER = re.compile(r"[^0-9eE.+\-naNA\n]")


class TextColumns(NamedTuple):
    """Columns of a file: the numbers as one matrix, each text column as a list."""

    numbers: NDArray[np.float64]
    texts: list[list[str]]


def read_text_columns(stream: BufferedReader, path: str, kinds: list[int]) -> TextColumns:
    r"""Read lines with one word per column; `kinds` has `NUMBER`, `TEXT` or `SKIP` for each.

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
            word = words[position].decode("utf-8", "replace")
            number = _parse_number(word)
            if math.isinf(number):
                raise ValueError(f"{path}, line {line}: {word[:40]!r} is not a finite number")
            numbers.append(number)
        for column, position in zip(texts, positions[1], strict=True):
            column.append(words[position].decode("utf-8", "replace"))
    matrix = np.array(numbers, np.float64).reshape(-1, max(1, len(positions[0])))
    return TextColumns(matrix, texts)


def parse_numbers(words: list[str]) -> Floats:
    """Parse numbers, rounded like those of `float`, and words for missing and Boolean values.

    Other words become infinite, as do numbers that are too large.

    >>> parse_numbers(["25", "NA", "-.5", "true", "1_0", "1e999"])
    array([25. ,  nan, -0.5,  1. ,  inf,  inf])
    """
    if not _OTHER_CHARACTER.search("\n".join(words)):
        with contextlib.suppress(ValueError):
            return np.array([*map(float, words)])
    known = {word: _parse_number(word) for word in set(words)}
    return np.array([known[word] for word in words])


def _parse_number(word: str) -> float:
    meaning = _MEANINGS.get((word[1:] if word[:1] in ("+", "-") else word).lower())
    if meaning is not None:
        return meaning
    return float(word) if NUMBER_PATTERN.fullmatch(word) else math.inf


@njit(cache=True, nogil=True)
def _join_words(text: Bytes, spans: Integers) -> Bytes:
    """Concatenate the spans of a text, each followed by a newline."""
    at = len(spans)
    for row in range(len(spans)):
        at += spans[row, 1] - spans[row, 0]
    joined, at = np.empty(at, np.uint8), 0
    for row in range(len(spans)):
        for position in range(spans[row, 0], spans[row, 1]):
            joined[at] = text[position]
            at += 1
        joined[at] = NEWLINE
        at += 1
    return joined
