"""A stream of text as pages of whole lines, arrays that grow as they are read, and their names."""

from __future__ import annotations

from collections.abc import Sequence
from io import BufferedReader
from typing import Any, NoReturn

import numpy as np
from numba import njit
from numpy.typing import NDArray

from precede.engine.arrays import Array, Bytes, Integers

CHUNK = 1 << 24  # bytes read at a time
NEWLINE = 10


class Pages:
    r"""A stream as successive buffers of whole lines, and the words for what is wrong there.

    ``text`` ends with a newline; what follows it in the buffer waits for the next turn.

    >>> import io
    >>> pages = Pages(io.BufferedReader(io.BytesIO(b"one\ntwo")), "numbers.txt")
    >>> pages.fill(), pages.text.tobytes()
    (True, b'one\ntwo\n')
    >>> pages.refuse("{found} is no number", where=4)
    Traceback (most recent call last):
    ValueError: numbers.txt, line 2: 'two' is no number
    """

    def __init__(self, stream: BufferedReader, name: str, line: int = 0):
        self._stream, self._name, self._line = stream, name, line
        self._buffer, self._filled, self._begun = bytearray(), 0, line > 0
        self.whole, self.ended = 0, False

    @property
    def text(self) -> NDArray[np.uint8]:
        """The whole lines, as bytes."""
        return np.frombuffer(self._buffer, np.uint8)[: self.whole]

    def fill(self) -> bool:
        """Read until there is a whole line; False when nothing is left."""
        while not self.ended:
            if self._filled + 1 >= len(self._buffer):
                # One byte is kept for a last newline; a longer line gets a larger buffer.
                longer = bytearray(max(CHUNK, 2 * len(self._buffer)))
                longer[: self._filled] = self._buffer[: self._filled]
                self._buffer = longer
            with memoryview(self._buffer) as view:
                count = self._stream.readinto(view[self._filled : -1])
            self._filled += count
            self.ended = count == 0
            self._pass_over_mark()
            if self._filled + 1 < len(self._buffer) and not self.ended:
                continue
            if self.ended and self._filled and self._buffer[self._filled - 1] != NEWLINE:
                self._buffer[self._filled] = NEWLINE
                self._filled += 1
            self.whole = self._buffer.rfind(b"\n", 0, self._filled) + 1
            if self.whole:
                return True
        return False

    def _pass_over_mark(self) -> None:
        """Some programs begin a file with the byte order mark of UTF-8."""
        if not self._begun and (self._filled >= 3 or self.ended):
            self._begun = True
            if self._buffer.startswith(b"\xef\xbb\xbf"):
                self._buffer[: self._filled - 3] = self._buffer[3 : self._filled]
                self._filled -= 3

    def release(self, used: int, lines: int) -> None:
        """Forget the first bytes, which have been read, and how many lines they were."""
        self._line += lines
        self._buffer[: self._filled - used] = self._buffer[used : self._filled]
        self._filled -= used
        self.whole = 0

    def word(self, begin: int, end: int) -> str:
        """What stands between two positions."""
        return self._buffer[begin:end].decode("utf-8", "replace")

    def words(self, spans: NDArray[np.int64]) -> list[str]:
        """Texts at positions (begin, end), none of which holds a newline."""
        packed = _joined(self.text, spans).tobytes().decode("utf-8", "replace")
        return packed[:-1].split("\n")

    def refuse(self, remedy: str, where: int) -> NoReturn:
        """Raise the error for a position in the buffer."""
        line = self._line + self._buffer.count(b"\n", 0, where) + 1
        rest = self._buffer[where : where + 40].decode("utf-8", "replace").split("\n")[0]
        word = (rest.replace(",", " ").split() or [""])[0]
        raise ValueError(f"{self._name}, line {line}: {remedy.format(found=repr(word))}")


class Growing:
    """A one-dimensional array that grows in place, so that it stands in memory once.

    >>> array = Growing(float)
    >>> array.add(np.array([1.0, 2.0]))
    >>> array.add(np.array([3.0]))
    >>> array.trimmed()
    array([1., 2., 3.])
    """

    def __init__(self, dtype: Any):
        self._array: Array = np.empty(0, dtype)
        self.used = 0

    def add(self, values: Array, expected: int = 0) -> None:
        """Append, making room for `expected` values in all where there is none."""
        needed = self.used + values.size
        if needed > self._array.size:
            # No view of the array outlives a call, so that moving it is safe.
            self._array.resize(max(needed, expected, int(1.25 * self._array.size)), refcheck=False)
        self._array[self.used : needed] = values
        self.used = needed

    def trimmed(self, size: int | None = None) -> Array:
        """The array at the size that is used, or another; it is given away."""
        array, self._array = self._array, np.empty(0, self._array.dtype)
        array.resize(self.used if size is None else size, refcheck=False)
        return array


class Numbered(Sequence[str]):
    """Names that are numbers, written when they are asked for: a short file may have millions.

    >>> names = Numbered(1, 4)
    >>> names[0], list(names), len(names), names == ["1", "2", "3"]
    ('1', ['1', '2', '3'], 3, True)
    """

    def __init__(self, first: int, end: int):
        self._numbers = range(first, end)

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, position: Any) -> Any:
        found = self._numbers[position]
        return str(found) if isinstance(found, int) else Numbered(found.start, found.stop)

    def __or__(self, other: Numbered) -> Numbered:
        """All numbers from the least of both to the greatest."""
        ours, theirs = self._numbers, other._numbers
        return Numbered(min(ours.start, theirs.start), max(ours.stop, theirs.stop))

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
def _joined(text: Bytes, spans: Integers) -> Bytes:
    """Words one after the other, a newline after each; none of them holds a newline."""
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
