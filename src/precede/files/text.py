"""Reading text: buffers of whole lines, growing arrays, numbered names and columns of words."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Sequence
from io import BufferedReader
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from precede.engine.arrays import Array, Bytes, Floats, Integers
from precede.engine.compiling import njit

BUFFER_BYTES = 1 << 24  # initial size of the buffer of a stream
NEWLINE = 10


class LineBuffer:
    r"""A buffer that reads whole lines of a stream, with errors that name the line.

    ``text`` ends with a newline; an incomplete last line stays in the buffer until the next call
    of `read_lines`. ::

        0                     whole     _filled     len(_buffer)
        | whole lines: `text` | partial | free      |

    >>> import io
    >>> buffer = LineBuffer(io.BufferedReader(io.BytesIO(b"one\ntwo")), "numbers.txt")
    >>> buffer.read_lines(), buffer.text.tobytes()
    (True, b'one\ntwo\n')
    >>> buffer.refuse("{found} is no number", where=4)
    Traceback (most recent call last):
    ValueError: numbers.txt, line 2: 'two' is no number
    """

    def __init__(self, stream: BufferedReader, name: str, line: int = 0):
        self._stream, self._name, self._line = stream, name, line
        self._buffer, self._filled, self._mark_checked = bytearray(), 0, line > 0
        self.whole, self.ended = 0, False

    @property
    def text(self) -> NDArray[np.uint8]:
        """The whole lines, as bytes."""
        return np.frombuffer(self._buffer, np.uint8)[: self.whole]

    def read_lines(self) -> bool:
        """Read until the buffer is full or the stream ends; return False if no line is left."""
        while not self.ended:
            if self._filled + 1 >= len(self._buffer):
                # Keep one byte for a final newline; a line longer than the buffer doubles it.
                longer = bytearray(max(BUFFER_BYTES, 2 * len(self._buffer)))
                longer[: self._filled] = self._buffer[: self._filled]
                self._buffer = longer
            with memoryview(self._buffer) as view:
                count = self._stream.readinto(view[self._filled : -1])
            self._filled += count
            self.ended = count == 0
            self._skip_byte_order_mark()
            if self._filled + 1 < len(self._buffer) and not self.ended:
                continue
            if self.ended and self._filled and self._buffer[self._filled - 1] != NEWLINE:
                self._buffer[self._filled] = NEWLINE
                self._filled += 1
            self.whole = self._buffer.rfind(b"\n", 0, self._filled) + 1
            if self.whole:
                return True
        return False

    def _skip_byte_order_mark(self) -> None:
        """Remove a UTF-8 byte order mark from the beginning of the stream."""
        if not self._mark_checked and (self._filled >= 3 or self.ended):
            self._mark_checked = True
            if self._buffer.startswith(b"\xef\xbb\xbf"):
                self._buffer[: self._filled - 3] = self._buffer[3 : self._filled]
                self._filled -= 3

    def release(self, used: int, lines: int) -> None:
        """Discard the first `used` bytes, which hold `lines` lines."""
        self._line += lines
        self._buffer[: self._filled - used] = self._buffer[used : self._filled]
        self._filled -= used
        self.whole = 0

    def word(self, begin: int, end: int) -> str:
        """Return the text between two positions."""
        return self._buffer[begin:end].decode("utf-8", "replace")

    def words(self, spans: NDArray[np.int64]) -> list[str]:
        """Return the texts at positions (begin, end); none may contain a newline."""
        packed = _join_words(self.text, spans).tobytes().decode("utf-8", "replace")
        return packed[:-1].split("\n")

    def refuse(self, remedy: str, where: int) -> NoReturn:
        """Raise a ValueError that names the line and the word at a position."""
        line = self._line + self._buffer.count(b"\n", 0, where) + 1
        rest = self._buffer[where : where + 40].decode("utf-8", "replace").split("\n")[0]
        word = (rest.replace(",", " ").split() or [""])[0]
        raise ValueError(f"{self._name}, line {line}: {remedy.format(found=repr(word))}")


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


class NumberedNames(Sequence[str]):
    """Feature names that are consecutive numbers, as text made on demand.

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


# -- kernels ---------------------------------------------------------------------------------


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


# -- Columns of files of whitespace-separated words: TREC files, query sizes, weights and pairs --


# Kinds of columns.
NUMBER, TEXT, SKIP = range(3)

NUMBER_PATTERN = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE | re.ASCII
)
_MEANINGS = {**dict.fromkeys(("na", "nan", "none", "null"), math.nan), "true": 1.0, "false": 0.0}
_BEYOND_NUMBERS = re.compile(r"[^0-9eE.+\-naNA\n]")


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
    """Parse numbers as `float` rounds them, and words for missing and true values.

    What is no number becomes infinite, as are numbers that are too large.

    >>> parse_numbers(["25", "NA", "-.5", "true", "1_0", "1e999"])
    array([25. ,  nan, -0.5,  1. ,  inf,  inf])
    """
    if not _BEYOND_NUMBERS.search("\n".join(words)):
        with contextlib.suppress(ValueError):
            return np.array([*map(float, words)])
    known = {word: _parse_number(word) for word in set(words)}
    return np.array([known[word] for word in words])


def _parse_number(word: str) -> float:
    meaning = _MEANINGS.get((word[1:] if word[:1] in ("+", "-") else word).lower())
    if meaning is not None:
        return meaning
    return float(word) if NUMBER_PATTERN.fullmatch(word) else math.inf
