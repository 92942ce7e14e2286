"""Read LETOR (SVMlight) files.

Kernels parse the bytes. A number is rounded like Python's `float`: by one exact multiplication or
division where that is possible (Clinger, *How to read floating point numbers accurately*, PLDI
1990); all other words are left to `parse_numbers`. Arrays grow in place, so that the data are in
memory once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from typing import Any

import numpy as np
import scipy.sparse

from precede.engine.arrays import Bytes, Floats, Integers, Objects, Rows
from precede.engine.compiling import INNER, njit
from precede.engine.execution import Context
from precede.files.text import (
    NUMBER_PATTERN,
    GrowingArray,
    Lines,
    NumberedNames,
    parse_numbers,
    read_lines,
)

MIN_PARALLEL_BYTES = 1 << 20  # shorter texts are parsed by one thread
MAX_FEATURES = 1 << 24  # a larger feature number is rejected as a mistake
MIN_DENSE_SHARE, MAX_DENSE_CELLS = 1 / 3, 1 << 22  # fuller or smaller matrices are dense

_NEWLINE, _SPACE, _TAB, _RETURN, _HASH, _COLON = 10, 32, 9, 13, 35, 58
_MINUS, _POINT, _ZERO, _EQUALS, _Q = 45, 46, 48, 61, 113
# Entries of a kernel's `state`: the error and its position; rows, cells and words left to
# `parse_numbers` so far; whether lines have a qid, and whether features of a line are out of order.
_ERROR, _POSITION, _N_ROWS, _N_CELLS, _N_WORDS, _HAS_QID, _UNSORTED = range(7)
# Values of `state[_ERROR]`.
_NO_ERROR, _NOT_GRADE, _NOT_FEATURE, _NOT_QID, _SOME_QIDS, _FEATURE_TOO_LARGE = range(6)

_MESSAGES = (
    "",
    "{found} is not a grade; a line is 'grade qid:1 1:0.5 2:0.1 # docid'",
    "{found} is not a feature; write index:value, such as 3:0.5",
    "{found} is not a query identifier; write qid: and a whole number, before the features (CSV "
    "files may hold text)",
    "some lines have a qid and others have none; give every line one, or none",
    f"{{found}} has a feature number above {MAX_FEATURES - 1}; number features from 1",
)
_NOT_VALUE = "{found} is not the value of a feature; write a finite number or nan"
_NOT_FINITE = "{found} is not a finite number; write one, or nan where a value is missing"
_DUPLICATE_FEATURE = "a feature is given twice; give each feature once"


@dataclass(frozen=True, eq=False)
class LetorRows:
    """The contents of a LETOR file: one entry of `grade`, `qid` and `docid` for every row of X.

    `first` is the feature number of column 0 of X: 0 if the file has a feature 0, else 1.
    """

    X: Any
    grade: Floats
    qid: Integers | None
    docid: Objects | None
    first: int

    @property
    def names(self) -> NumberedNames:
        """Numbers of the features, as text."""
        return NumberedNames(self.first, self.first + self.X.shape[1])


def read_letor(
    stream: BufferedReader,
    name: str = "-",
    *,
    size: int = 0,
    chunk: int | None = None,
    sparse: bool | None = None,
    n_jobs: int | None = None,
) -> LetorRows:
    r"""Read lines ``grade qid:1 1:0.5 2:0.1 # docid``; absent features are 0.

    Parameters
    ----------
    stream : a buffered stream of bytes
    name : name of the file for error messages
    size : bytes in the stream, or 0 if unknown; used to reserve memory
    chunk : bytes to read at a time
    sparse : whether X is a CSR matrix; None decides by the share of cells present
    n_jobs : threads

    Notes
    -----
    One pass, O(bytes). A value takes 12 bytes during reading and 8 afterwards, besides a chunk
    of text: at most about 1.6 times the memory of a dense result (measured).

    Examples
    --------
    >>> import io
    >>> text = b"2 qid:7 1:0.5 3:1e1 # a\n0 qid:7 2:-1 # b\n"
    >>> lines = read_letor(io.BufferedReader(io.BytesIO(text)))
    >>> lines.X
    array([[ 0.5,  0. , 10. ],
           [ 0. , -1. ,  0. ]])
    >>> lines.grade, lines.qid, lines.docid
    (array([2., 0.]), array([7, 7]), array(['a', 'b'], dtype=object))
    """
    rows = _LetorBuilder(size)
    with Context(n_jobs) as context:
        for lines in read_lines(stream, name, chunk):
            rows.parse(lines, context)
    if not rows.count:
        raise ValueError(f"{name} holds no line of data")
    return rows.build(name, sparse)


def letor_blocks(
    stream: BufferedReader, name: str, chunk: int | None = None, n_jobs: int | None = None
) -> Iterator[LetorRows]:
    """Read a LETOR file as `read_letor` does, in blocks of about `chunk` bytes of text."""
    for lines in read_lines(stream, name, chunk):
        rows = _LetorBuilder(lines.text.size)
        with Context(n_jobs) as context:
            rows.parse(lines, context)
        if rows.count:
            yield rows.build(name)


class _LetorBuilder:
    """Collects the parsed chunks of a LETOR file of `size` bytes, or 0 if unknown."""

    def __init__(self, size: int):
        self._size, self._bytes = size, 0
        self._index, self._value = GrowingArray(np.int32), GrowingArray(np.float64)
        self._length, self._grade = GrowingArray(np.int64), GrowingArray(np.float64)
        self._qid, self._docid = GrowingArray(np.int64), GrowingArray(object)
        self._has_qid: bool | None = None
        self._has_docid = False
        self._least, self._most = MAX_FEATURES, 0

    @property
    def count(self) -> int:
        """Number of rows."""
        return self._grade.used

    def parse(self, lines: Lines, context: Context) -> None:
        size = lines.text.size
        threads = 1 if size < MIN_PARALLEL_BYTES else None
        for part in context.map(_parse_lines, size, lines.text, threads=threads):
            self._add(part, lines)

    def _add(self, part: tuple[Any, ...], lines: Lines) -> None:
        state, size, grade, qid, length, index, value, positions, words = part
        rows, cells, given = int(state[_N_ROWS]), int(state[_N_CELLS]), bool(state[_HAS_QID])
        if rows and self._has_qid not in (None, given):
            lines.refuse(_MESSAGES[_SOME_QIDS], int(positions[0, 0]))
        _parse_words(words[: state[_N_WORDS]], value, grade, lines)
        if state[_ERROR] != _NO_ERROR:
            lines.refuse(_MESSAGES[state[_ERROR]], int(state[_POSITION]))
        if not rows:
            return
        self._has_qid = given
        if state[_UNSORTED]:
            index, value = _sort_cells(
                index[:cells], value[:cells], length[:rows], positions, lines
            )
        self._bytes += int(size)
        # Extrapolate with a margin of 2 %, so that later chunks fit without moving the array.
        expected = int(1.02 * (self._value.used + cells) * self._size / self._bytes)
        self._value.add(value[:cells], expected)
        self._index.add(index[:cells], expected)
        self._length.add(length[:rows])
        self._grade.add(grade[:rows])
        if given:
            self._qid.add(qid[:rows])
        self._docid.add(self._documents(positions[:rows, 1:], lines))
        if cells:
            self._least = min(self._least, int(index[:cells].min()))
            self._most = max(self._most, int(index[:cells].max()))

    def _documents(self, spans: Integers, lines: Lines) -> Objects:
        documents = np.full(len(spans), "", object)
        if spans.any():
            self._has_docid = True
            documents[:] = lines.words(spans)
        return documents

    def build(self, name: str, sparse: bool | None = None) -> LetorRows:
        rows, cells = self.count, self._value.used
        first = 0 if cells and self._least == 0 else 1
        width = max(1, self._most + 1 - first)
        if sparse is None:
            full = rows * width
            sparse = cells < MIN_DENSE_SHARE * full and full > MAX_DENSE_CELLS
        elif not sparse and rows * width > 1 << 40:
            raise ValueError(f"{name} has {rows} rows and {width} columns; read it as sparse")
        X = self._sparse(rows, width, first) if sparse else self._dense(rows, width, first)
        return LetorRows(
            X,
            self._grade.trimmed(),
            self._qid.trimmed() if self._has_qid else None,
            self._docid.trimmed() if self._has_docid else None,
            first,
        )

    def _sparse(self, rows: int, width: int, first: int) -> Any:
        index = self._index.trimmed()
        index -= np.int32(first)
        start = np.concatenate([[0], np.cumsum(self._length.trimmed())])
        return scipy.sparse.csr_matrix((self._value.trimmed(), index, start), shape=(rows, width))

    def _dense(self, rows: int, width: int, first: int) -> Floats:
        cells = self._value.used
        value = self._value.trimmed(rows * width)
        if cells < rows * width:
            _scatter_cells(
                value, self._index.trimmed(), self._length.trimmed(), cells, width, first
            )
        return value.reshape(rows, width)


def _sort_cells(
    index: Rows, value: Floats, length: Integers, positions: Integers, lines: Lines
) -> tuple[Rows, Floats]:
    """Sort the cells of every row by feature number; refuse duplicates."""
    row = np.repeat(np.arange(length.size), length)
    order = np.lexsort((index, row))
    index, value = index[order], value[order]
    twice = (np.diff(index) == 0) & (np.diff(row) == 0)
    if twice.any():
        lines.refuse(_DUPLICATE_FEATURE, int(positions[row[np.argmax(twice)], 0]))
    return index, value


def _parse_words(words: Integers, value: Floats, grade: Floats, lines: Lines) -> None:
    """Parse the numbers that kernels leave to Python; see `_leave_word` for their columns."""
    if not len(words):
        return
    position, texts = words[:, 0], lines.words(words[:, 2:])
    numbers, of_cell = parse_numbers(texts), position >= 0
    wrong = np.isinf(numbers) | (np.isnan(numbers) & ~of_cell)
    if wrong.any():
        first = int(wrong.argmax())
        if NUMBER_PATTERN.fullmatch(texts[first]):
            lines.refuse(_NOT_FINITE, int(words[first, 2]))
        remedy = _NOT_VALUE if of_cell[first] else _MESSAGES[_NOT_GRADE]
        lines.refuse(remedy, int(words[first, 1]))
    value[position[of_cell]] = numbers[of_cell]
    grade[~position[~of_cell]] = numbers[~of_cell]


_DOCID = np.frombuffer(b"docid", np.uint8)
_SPLIT = 2.0**27 + 1.0  # splits a double into two halves of 26 bits
_ZIV = 2.0**-45  # bound of the relative error of a correction
_POWERS_OF_TEN = np.array([10.0**power for power in range(23)])  # all that are exact


# -- kernels: every text ends with a newline, which ends every loop ----------------------------


@njit(**INNER)
def _is_blank(byte: int) -> bool:
    return byte in (_SPACE, _TAB, _RETURN)


@njit(**INNER)
def _ends_word(byte: int) -> bool:
    return byte in (_SPACE, _NEWLINE, _TAB, _RETURN, _HASH)


@njit(**INNER)
def _line_end(text: Bytes, at: int) -> int:
    while text[at] != _NEWLINE:
        at += 1
    return at


@njit(**INNER)
def _parse_digits(text: Bytes, at: int, number: np.uint64) -> tuple[int, np.uint64]:
    """Append digits to a number; return the position after them and the number modulo 2^64."""
    digit = np.uint64(text[at]) - np.uint64(_ZERO)  # wraps below zero: one comparison is enough
    while digit < np.uint64(10):
        number = number * np.uint64(10) + digit
        at += 1
        digit = np.uint64(text[at]) - np.uint64(_ZERO)
    return at, number


@njit(**INNER)
def _parse_number(text: Bytes, at: int) -> tuple[bool, float, int]:
    """Parse a decimal number without exponent; return whether it is known, the number, and its end.

    It is not known, and left to Python, if it has too many digits or decimals, or if its rounding
    is not certain.
    """
    negative = text[at] == _MINUS
    at += negative
    begin = at
    at, mantissa = _parse_digits(text, at, np.uint64(0))
    digits, decimals = at - begin, 0
    if text[at] == _POINT:
        begin = at + 1
        at, mantissa = _parse_digits(text, begin, mantissa)
        decimals = at - begin
        digits += decimals
    if 1 <= digits <= 19 and decimals < _POWERS_OF_TEN.size and _ends_word(text[at]):
        known, number = _divide(mantissa, decimals)
        return known, -number if negative else number, at
    while not _ends_word(text[at]):
        at += 1
    return False, 0.0, at


@njit(**INNER)
def _divide(mantissa: np.uint64, decimals: int) -> tuple[bool, float]:
    """Divide by a power of ten; return whether the result is certainly rounded correctly."""
    divisor = _POWERS_OF_TEN[decimals]
    if mantissa <= np.uint64(1) << np.uint64(53):
        return True, np.float64(np.int64(mantissa)) / divisor
    return _divide_long(mantissa, divisor)


@njit(**INNER)
def _divide_long(mantissa: np.uint64, divisor: float) -> tuple[bool, float]:
    """Divide a mantissa of two doubles by one; return whether the rounding is certain.

    The remainder is computed exactly, from products of halves (Dekker). The rounding is certain
    if corrections that are a little smaller and a little larger give the same number (Ziv).
    """
    high = np.float64(mantissa)
    low = np.float64(np.int64(mantissa - np.uint64(high)))
    quotient = high / divisor
    upper, divisor_upper = quotient * _SPLIT, divisor * _SPLIT
    upper, divisor_upper = upper - (upper - quotient), divisor_upper - (divisor_upper - divisor)
    lower, divisor_lower = quotient - upper, divisor - divisor_upper
    product = quotient * divisor
    error = upper * divisor_upper - product + upper * divisor_lower + lower * divisor_upper
    rest = (high - product - (error + lower * divisor_lower) + low) / divisor
    number = quotient + rest * (1.0 - _ZIV)
    return number == quotient + rest * (1.0 + _ZIV), number


@njit(cache=True, nogil=True)
def _parse_lines(
    low: int, high: int, text: Bytes
) -> tuple[Integers, int, Floats, Integers, Integers, Rows, Floats, Integers, Integers]:
    """Parse the lines that begin in ``text[low:high]``."""
    begin = low if low == 0 else _line_end(text, low - 1) + 1
    end = begin if begin >= high else _line_end(text, high - 1) + 1
    rows, cells = 0, 0
    for at in range(begin, end):
        rows += text[at] == _NEWLINE
        cells += text[at] == _COLON
    state = np.zeros(7, np.int64)
    grade, qid = np.empty(rows), np.zeros(rows, np.int64)
    length, positions = np.empty(rows, np.int64), np.zeros((rows, 3), np.int64)
    index, value = np.empty(cells, np.int32), np.empty(cells)
    words = np.empty((rows + cells, 4), np.int64)
    at = begin
    while at < end:
        while _is_blank(text[at]):
            at += 1
        if text[at] != _NEWLINE and text[at] != _HASH:
            row, before = state[_N_ROWS], state[_N_CELLS]
            at = _parse_row(text, at, state, grade, qid, index, value, positions[row], words)
            if state[_ERROR] != _NO_ERROR:
                state[_POSITION] = at
                break
            state[_N_ROWS] += 1
            length[row] = state[_N_CELLS] - before
        at = _line_end(text, at) + 1
    return state, end - begin, grade, qid, length, index, value, positions, words


@njit(**INNER)
def _parse_row(
    text: Bytes, at: int, state: Integers, grade: Floats, qid: Integers, index: Rows,
    value: Floats, position: Integers, words: Integers,
) -> int:  # fmt: skip
    """Parse one line, beginning at its grade; return the position where parsing ended.

    Writes the begin of the line and the span of the document's name to `position`.
    """
    row, start, position[0] = state[_N_ROWS], at, at
    known, grade[row], at = _parse_number(text, at)
    if text[at] == _HASH:
        state[_ERROR] = _NOT_GRADE
        return start
    if not known:
        _leave_word(words, state, ~row, start, start, at)
    while _is_blank(text[at]):
        at += 1
    has_qid, start = text[at] == _Q, at
    if has_qid:
        at = _parse_qid(text, at, state, qid)
        if state[_ERROR] != _NO_ERROR:
            return start
    at = _parse_cells(text, at, state, index, value, words)
    if state[_ERROR] != _NO_ERROR:
        return at
    if row > 0 and has_qid != (state[_HAS_QID] > 0):
        state[_ERROR] = _SOME_QIDS
        return start
    state[_HAS_QID] = has_qid
    if text[at] == _HASH:
        _parse_docid(text, at + 1, position)
    return at


@njit(**INNER)
def _parse_cells(
    text: Bytes, at: int, state: Integers, index: Rows, value: Floats, words: Integers
) -> int:
    """Parse the cells ``index:value`` of a line; return the position of its end or of an error."""
    cell, last, unsorted = state[_N_CELLS], np.int64(-1), False
    while True:
        while _is_blank(text[at]):
            at += 1
        if text[at] == _NEWLINE or text[at] == _HASH:
            break
        start = at
        at, feature = _parse_digits(text, at, np.uint64(0))
        if at == start or text[at] != _COLON:
            state[_ERROR] = _NOT_FEATURE
            return start
        if feature >= np.uint64(MAX_FEATURES) or at - start > 19:
            state[_ERROR] = _FEATURE_TOO_LARGE
            return start
        begin = at + 1
        known, value[cell], at = _parse_number(text, begin)
        if not known:
            _leave_word(words, state, cell, start, begin, at)
        index[cell] = feature
        unsorted |= np.int64(feature) <= last
        last = np.int64(feature)
        cell += 1
    state[_N_CELLS] = cell
    state[_UNSORTED] |= unsorted
    return at


@njit(**INNER)
def _leave_word(
    words: Integers, state: Integers, position: int, start: int, begin: int, end: int
) -> None:
    """Leave a number to Python: its cell, or ``~row`` for a grade; start of word, number, end."""
    entry = words[state[_N_WORDS]]
    entry[0], entry[1], entry[2], entry[3] = position, start, begin, end
    state[_N_WORDS] += 1


@njit(**INNER)
def _parse_qid(text: Bytes, at: int, state: Integers, qid: Integers) -> int:
    """Parse ``qid:`` and a whole number of at most 18 digits."""
    good = text[at + 1] == 105 and text[at + 2] == 100 and text[at + 3] == _COLON  # i, d
    at += 4 if good else 1
    negative = good and text[at] == _MINUS
    at += negative
    number, start = np.int64(0), at
    while good and _ZERO <= text[at] <= _ZERO + 9 and at - start <= 18:
        number = 10 * number + (np.int64(text[at]) - _ZERO)
        at += 1
    if not good or not _ends_word(text[at]) or not 1 <= at - start <= 18:
        state[_ERROR] = _NOT_QID
        return at
    qid[state[_N_ROWS]] = -number if negative else number
    return at


@njit(**INNER)
def _parse_docid(text: Bytes, at: int, position: Integers) -> None:
    """Find the word after ``docid =`` if a comment begins so, else its first word."""
    for turn in range(2):
        while _is_blank(text[at]):
            at += 1
        begin = at
        while not (_is_blank(text[at]) or text[at] == _NEWLINE or text[at] == _EQUALS):
            at += 1
        named, after = at - begin == _DOCID.size, at
        for letter in range(_DOCID.size if named else 0):
            named &= text[begin + letter] == _DOCID[letter]
        while named and _is_blank(text[after]):
            after += 1
        if turn == 0 and named and text[after] == _EQUALS:
            at = after + 1
            continue
        while not (_is_blank(text[at]) or text[at] == _NEWLINE):
            at += 1
        position[1], position[2] = begin, at
        break


@njit(cache=True, nogil=True)
def _scatter_cells(
    value: Floats, index: Rows, length: Integers, cells: int, width: int, first: int
) -> None:
    """Expand the cells of all rows to dense rows, in place, from the last cell to the first.

    Rows and columns are in order, so the new position of a cell is at or after its old one,
    and no cell is overwritten before it has moved.
    """
    at = cells - 1
    for row in range(length.size - 1, -1, -1):
        position = (row + 1) * width - 1
        for _ in range(length[row]):
            target = row * width + index[at] - first
            moved = value[at]
            while position > target:
                value[position] = 0.0
                position -= 1
            value[position] = moved
            position -= 1
            at -= 1
        while position >= row * width:
            value[position] = 0.0
            position -= 1
