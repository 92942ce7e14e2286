"""Read LETOR (SVMlight) files.

Kernels parse the bytes. A number is rounded like Python's `float`: by one exact multiplication
or division where that is possible, else by the algorithm of Eisel and Lemire; the few numbers
that neither decides are parsed by `float` itself. Arrays grow in place, so that the data are in
memory once.

References
----------
W. D. Clinger, *How to read floating point numbers accurately*, PLDI 1990. D. Lemire, *Number
parsing at a gigabyte per second*, Software: Practice and Experience 51 (2021).
"""

from __future__ import annotations

from dataclasses import dataclass
from io import BufferedReader
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from precede.engine.arrays import Bytes, Floats, Integer, Integers
from precede.engine.compiling import INNER, njit
from precede.engine.execution import Context
from precede.files.text import GrowingArray, LineBuffer

MIN_PARALLEL_BYTES = 1 << 20  # shorter texts are parsed by one thread
MAX_FEATURES = 1 << 24  # a larger feature number is rejected as a mistake
MIN_DENSE_SHARE, MAX_DENSE_CELLS = 1 / 3, 1 << 22  # fuller or smaller matrices are dense

_NEWLINE, _SPACE, _TAB, _RETURN, _HASH, _COLON = 10, 32, 9, 13, 35, 58
_MINUS, _PLUS, _POINT, _ZERO, _EQUALS = 45, 43, 46, 48, 61
_EXACT, _INEXACT, _BAD = 0, 1, 2
# Entries of a kernel's `state`: the error and its position; rows, cells and numbers deferred to
# `float` so far; whether lines have a qid, and whether features of a line are out of order.
_STATUS, _POSITION, _N_ROWS, _N_CELLS, _N_INEXACT, _HAS_QID, _UNSORTED = range(7)
# Values of `state[_STATUS]`.
_OK, _NOT_GRADE, _NOT_FEATURE, _NOT_VALUE, _DUPLICATE_FEATURE = range(5)
_NOT_QID, _SOME_QIDS, _FEATURE_TOO_LARGE, _NOT_NUMBER = range(5, 9)

_MESSAGES = {
    _NOT_GRADE: "{found} is not a grade; a line is 'grade qid:1 1:0.5 2:0.1 # docid'",
    _NOT_FEATURE: "{found} is not a feature; write index:value, such as 3:0.5",
    _NOT_VALUE: "{found} is not the value of a feature; write a finite number or nan",
    _DUPLICATE_FEATURE: "a feature is given twice; give each feature once",
    _NOT_QID: "{found} is not a query identifier; write qid: and a whole number, before the "
    "features (CSV files may hold text)",
    _SOME_QIDS: "some lines have a qid and others have none; give every line one, or none",
    _FEATURE_TOO_LARGE: f"{{found}} has a feature number above {MAX_FEATURES - 1}; number features "
    "from 1",
    _NOT_NUMBER: "{found} is not a finite number; write one, or nan where a value is missing",
}


@dataclass(frozen=True, eq=False)
class LetorRows:
    """The contents of a LETOR file: one entry of `grade`, `qid` and `docid` for every row of X.

    `first` is the feature number of column 0 of X: 0 if the file has a feature 0, else 1.
    """

    X: Any
    grade: Floats
    qid: NDArray[np.int64] | None
    docid: NDArray[np.object_] | None
    first: int


def read_letor(
    stream: BufferedReader,
    name: str = "-",
    *,
    line: int = 0,
    size: int = 0,
    sparse: bool | None = None,
    n_jobs: int | None = None,
) -> LetorRows:
    r"""Read lines ``grade qid:1 1:0.5 2:0.1 # docid``; absent features are 0.

    Parameters
    ----------
    stream : a buffered stream of bytes
    name, line : name of the file for error messages, and the number of lines before the stream
    size : bytes in the stream, or 0 if unknown; used to reserve memory
    sparse : whether X is a CSR matrix; None decides by the share of cells present
    n_jobs : threads

    Notes
    -----
    One pass, O(bytes). A value takes 12 bytes during reading and 8 afterwards, besides a buffer
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
    buffer, rows = LineBuffer(stream, name, line), _LetorBuilder(size)
    with Context(n_jobs) as context:
        while buffer.read_lines():
            small, lines = buffer.whole < MIN_PARALLEL_BYTES, 0
            for part in context.run(_parse_lines, buffer.whole, buffer.text, small=small):
                _raise_if_failed(part[0], buffer)
                rows.add(part, buffer)
                lines += part[2].size
            buffer.release(buffer.whole, lines)
    return rows.to_lines(name, sparse)


class _LetorBuilder:
    """Collects the parsed chunks of a LETOR file."""

    def __init__(self, size: int):
        self._size, self._bytes = size, 0
        self._index, self._value = GrowingArray(np.int32), GrowingArray(np.float64)
        self._length, self._grade = GrowingArray(np.int64), GrowingArray(np.float64)
        self._qid, self._docid = GrowingArray(np.int64), GrowingArray(object)
        self._has_qid: bool | None = None
        self._has_docid = False
        self._least, self._most = MAX_FEATURES, 0

    def add(self, part: tuple[Any, ...], buffer: LineBuffer) -> None:
        state, size, grade, qid, length, index, value, positions, inexact = part
        rows, cells = int(state[_N_ROWS]), int(state[_N_CELLS])
        if not rows:
            return
        given = bool(state[_HAS_QID])
        if self._has_qid not in (None, given):
            buffer.refuse(_MESSAGES[_SOME_QIDS], int(positions[0, 0]))
        self._has_qid = given
        _parse_inexact(value, grade, inexact[: state[_N_INEXACT]], buffer)
        if state[_UNSORTED]:
            index, value = _sort_cells(
                index[:cells], value[:cells], length[:rows], positions, buffer
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
        self._docid.add(self._documents(positions[:rows, 1:], buffer))
        if cells:
            self._least = min(self._least, int(index[:cells].min()))
            self._most = max(self._most, int(index[:cells].max()))

    def _documents(self, spans: NDArray[np.int64], buffer: LineBuffer) -> NDArray[np.object_]:
        documents = np.full(len(spans), "", object)
        if spans.any():
            self._has_docid = True
            documents[:] = buffer.words(spans)
        return documents

    def to_lines(self, name: str, sparse: bool | None) -> LetorRows:
        if not self._grade.used:
            raise ValueError(f"{name} holds no line of data")
        rows, cells = self._grade.used, self._value.used
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


def _raise_if_failed(state: NDArray[np.int64], buffer: LineBuffer) -> None:
    """Raise the ValueError for an error that a kernel reported."""
    if state[_STATUS] != _OK:
        buffer.refuse(_MESSAGES[int(state[_STATUS])], int(state[_POSITION]))


def _sort_cells(
    index: NDArray[np.int32],
    value: Floats,
    length: Integers,
    positions: Integers,
    buffer: LineBuffer,
) -> tuple[NDArray[np.int32], Floats]:
    """Sort the cells of every row by feature number; refuse duplicates."""
    row = np.repeat(np.arange(length.size), length)
    order = np.lexsort((index, row))
    index, value = index[order], value[order]
    twice = (np.diff(index) == 0) & (np.diff(row) == 0)
    if twice.any():
        buffer.refuse(_MESSAGES[_DUPLICATE_FEATURE], int(positions[row[np.argmax(twice)], 0]))
    return index, value


def _parse_inexact(
    value: Floats, grade: Floats, inexact: NDArray[np.int64], buffer: LineBuffer
) -> None:
    """Parse the deferred numbers by `float`; position ``~row`` is the grade of a row."""
    for position, begin, end in inexact.tolist():
        number = float(buffer.word(begin, end))
        if not np.isfinite(number):
            buffer.refuse(_MESSAGES[_NOT_NUMBER], begin)
        if position < 0:
            grade[~position] = number
        else:
            value[position] = number


def _powers_of_five() -> NDArray[np.uint64]:
    """Return the 128 leading bits of 5^q, q = -342, ..., 308, rounded down, or up for q < 0."""
    table = []
    for q in range(-342, 309):
        if q >= 0:
            bits = 5**q
            bits = bits << 128 >> bits.bit_length()
        else:
            bits = (1 << (128 + 2 * (5**-q).bit_length())) // 5**-q
            bits = (bits >> (bits.bit_length() - 128)) + 1
        table.append((bits >> 64, bits & (2**64 - 1)))
    return np.array(table, np.uint64)


_POWERS_OF_FIVE = _powers_of_five()
_DOCID = np.frombuffer(b"docid", np.uint8)
_POWERS_OF_TEN = np.array([10.0**power for power in range(23)])
_WORDS = np.array(["nan", "na", "null", "none", "true", "false"], "S8").view(np.uint8).reshape(6, 8)
_MEANINGS = np.array([np.nan, np.nan, np.nan, np.nan, 1.0, 0.0])


# -- kernels: every text ends with a newline, which ends every loop ----------------------------


@njit(cache=True, nogil=True)
def _eisel_lemire(mantissa: np.uint64, exponent: int) -> tuple[int, float]:
    """Return ``mantissa * 10**exponent`` as the nearest double, or `_INEXACT` if undecided."""
    if exponent < -342 or exponent > 308:
        return _INEXACT, 0.0
    zeros, step = np.int64(0), np.uint64(32)
    while step > np.uint64(0):  # shift the leading bit to the top
        if mantissa >> (np.uint64(64) - step) == np.uint64(0):
            mantissa <<= step
            zeros += np.int64(step)
        step >>= np.uint64(1)
    high, low = _multiply_128(mantissa, _POWERS_OF_FIVE[exponent + 342, 0])
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):
        more, _ = _multiply_128(mantissa, _POWERS_OF_FIVE[exponent + 342, 1])
        low += more
        high += np.uint64(low < more)
    if low + np.uint64(1) < np.uint64(3):
        # A tie, or a last bit that the truncated table does not determine.
        return _INEXACT, 0.0
    top = high >> np.uint64(63)
    found = high >> (top + np.uint64(9))
    found = (found + (found & np.uint64(1))) >> np.uint64(1)
    power = ((217706 * exponent) >> 16) + 63 + np.int64(top) - zeros + 1023
    if found == np.uint64(1) << np.uint64(53):
        found >>= np.uint64(1)
        power += 1
    if power <= 0 or power >= 2047:
        return _INEXACT, 0.0
    found &= (np.uint64(1) << np.uint64(52)) - np.uint64(1)
    return _EXACT, np.uint64(found | np.uint64(power) << np.uint64(52)).view(np.float64)


@njit(**INNER)
def _decimal(mantissa: np.uint64, decimals: int) -> tuple[int, float]:
    """Return ``mantissa / 10**decimals`` for a number of at most 19 digits."""
    if mantissa <= np.uint64(1) << np.uint64(53):
        return _EXACT, np.float64(np.int64(mantissa)) / _POWERS_OF_TEN[decimals]
    return _eisel_lemire(mantissa, -decimals)


@njit(**INNER)
def _multiply_128(a: np.uint64, b: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the high and the low 64 bits of the product of two 64-bit numbers."""
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    low = (a & mask) * (b & mask)
    one = (a >> half) * (b & mask) + (low >> half)
    two = (a & mask) * (b >> half) + (one & mask)
    high = (a >> half) * (b >> half) + (one >> half) + (two >> half)
    return high, (two << half) | (low & mask)


@njit(cache=True, nogil=True)
def _parse_number(text: Bytes, at: int) -> tuple[int, float, int]:
    """Parse a number; return its kind (`_EXACT`, ...), its value and the position after it."""
    negative = text[at] == _MINUS
    at += negative or text[at] == _PLUS
    begin = at
    at, mantissa, digits, dropped, lost = _parse_digits(text, at, np.uint64(0), 0)
    seen, exponent = at - begin, dropped
    if text[at] == _POINT:
        begin = at + 1
        at, mantissa, digits, dropped, more = _parse_digits(text, begin, mantissa, digits)
        seen += at - begin
        exponent -= at - begin - dropped
        lost |= more
    if seen == 0:
        return _parse_word(text, at)
    if text[at] | 32 == 101:  # e
        power, at = _parse_exponent(text, at + 1)
        exponent += power
        if power > 99999:
            return _BAD, 0.0, at
    kind, value = _INEXACT if lost else _EXACT, 0.0
    if mantissa > np.uint64(0) and not lost:
        if mantissa <= np.uint64(1) << np.uint64(53) and -22 <= exponent <= 22:
            value = np.float64(mantissa)
            value = (
                value * _POWERS_OF_TEN[exponent]
                if exponent >= 0
                else value / _POWERS_OF_TEN[-exponent]
            )
        else:
            kind, value = _eisel_lemire(mantissa, exponent)
    return kind, -value if negative else value, at


@njit(**INNER)
def _parse_digits(
    text: Bytes, at: int, mantissa: np.uint64, digits: Integer
) -> tuple[int, np.uint64, Integer, int, bool]:
    """Parse digits into a mantissa of at most 19 significant ones.

    Returns the position, the mantissa, its number of digits, the number of digits dropped and
    whether one of these was not 0.
    """
    dropped, lost = 0, False
    digit = np.int64(text[at]) - _ZERO
    while 0 <= digit <= 9:
        if digits < 19:
            mantissa = mantissa * np.uint64(10) + np.uint64(digit)
            digits += mantissa > np.uint64(0)
        else:
            dropped += 1
            lost = lost or bool(digit > 0)
        at += 1
        digit = np.int64(text[at]) - _ZERO
    return at, mantissa, digits, dropped, lost


@njit(cache=True, nogil=True)
def _parse_exponent(text: Bytes, at: int) -> tuple[Integer, int]:
    """Parse the exponent after an e; return more than 99999 if it has no digits."""
    sign = -1 if text[at] == _MINUS else 1
    at += text[at] == _MINUS or text[at] == _PLUS
    power, begin = np.int64(0), at
    while _ZERO <= text[at] <= _ZERO + 9:
        power = min(10 * power + np.int64(text[at]) - _ZERO, np.int64(99999))
        at += 1
    return (sign * power if at > begin else np.int64(100000)), at


@njit(**INNER)
def _parse_word(text: Bytes, at: int) -> tuple[int, float, int]:
    """Parse a word that stands for a number: nan, na, null, none, true, false, in any case."""
    for word in range(_WORDS.shape[0]):
        length = 0
        while _WORDS[word, length] > 0 and text[at + length] | 32 == _WORDS[word, length]:
            length += 1
        after = text[at + length] | 32
        if _WORDS[word, length] == 0 and not 97 <= after <= 122:
            return _EXACT, _MEANINGS[word], at + length
    return _BAD, 0.0, at


@njit(**INNER)
def _is_blank(byte: int) -> bool:
    return byte in (_SPACE, _TAB, _RETURN)


@njit(**INNER)
def _line_end(text: Bytes, at: int) -> int:
    while text[at] != _NEWLINE:
        at += 1
    return at


@njit(cache=True, nogil=True)
def _parse_lines(
    low: int, high: int, text: Bytes
) -> tuple[
    Integers, int, Floats, Integers, Integers, NDArray[np.int32], Floats, Integers, Integers
]:
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
    inexact = np.empty((rows + cells, 3), np.int64)
    at = begin
    while at < end:
        while _is_blank(text[at]):
            at += 1
        if text[at] != _NEWLINE and text[at] != _HASH:
            row, before = state[_N_ROWS], state[_N_CELLS]
            at = _parse_row(text, at, state, grade, qid, index, value, positions[row], inexact)
            if state[_STATUS] != _OK:
                state[_POSITION] = at
                break
            state[_N_ROWS] += 1
            length[row] = state[_N_CELLS] - before
        at = _line_end(text, at) + 1
    return state, end - begin, grade, qid, length, index, value, positions, inexact


@njit(**INNER)
def _parse_row(
    text: Bytes, at: int, state: Integers, grade: Floats, qid: Integers, index: NDArray[np.int32],
    value: Floats, position: Integers, inexact: Integers,
) -> int:  # fmt: skip
    """Parse one line, beginning at its grade; return the position where parsing ended.

    Writes the begin of the line and the span of the document's name to `position`.
    """
    row, first, start, position[0] = state[_N_ROWS], state[_N_CELLS], at, at
    kind, number, at = _parse_number(text, at)
    if kind == _BAD or np.isnan(number) or not (_is_blank(text[at]) or text[at] == _NEWLINE):
        state[_STATUS] = _NOT_GRADE
        return start
    grade[row] = number
    if kind == _INEXACT:
        _defer(inexact, state, ~row, start, at)
    last, has_qid = -1, False
    while True:
        at, last, state[_N_CELLS] = _parse_plain_cells(
            text, at, last, state[_N_CELLS], index, value
        )
        while _is_blank(text[at]):
            at += 1
        start = at
        if text[at] == _NEWLINE or text[at] == _HASH:
            break
        if text[at] == 113 and state[_N_CELLS] == first and not has_qid:  # q
            has_qid = True
            at = _parse_qid(text, at, state, qid)
        else:
            at = _parse_cell(text, at, state, index, value, inexact)
            feature = -1 if state[_STATUS] != _OK else index[state[_N_CELLS] - 1]
            state[_UNSORTED] |= feature <= last
            last = feature
        if state[_STATUS] != _OK:
            return start
    if has_qid != (state[_HAS_QID] > 0) and row > 0:
        state[_STATUS] = _SOME_QIDS
        return start
    state[_HAS_QID] = has_qid
    if text[at] == _HASH:
        at = _parse_docid(text, at + 1, position)
    return at


@njit(**INNER)
def _parse_plain_cells(
    text: Bytes, at: int, last: Integer, cell: int, index: NDArray[np.int32], value: Floats
) -> tuple[int, Integer, int]:
    """Parse cells with increasing feature numbers and short decimal numbers: the fast path.

    Nearly every cell of a real file is of this kind. Stops before the first other cell, which
    the caller parses.
    """
    ten, zero = np.uint64(10), np.uint64(_ZERO)
    while True:
        while text[at] == _SPACE:
            at += 1
        start, feature = at, np.uint64(0)
        digit = np.uint64(text[at]) - zero  # wraps below zero: one comparison is enough
        while digit < ten:
            feature = feature * ten + digit
            at += 1
            digit = np.uint64(text[at]) - zero
        if text[at] != _COLON or not 1 <= at - start <= 7 or np.int64(feature) <= last:
            return start, last, cell
        at += 1
        negative = text[at] == _MINUS
        at += negative
        begin, mantissa = at, np.uint64(0)
        digit = np.uint64(text[at]) - zero
        while digit < ten:
            mantissa = mantissa * ten + digit
            at += 1
            digit = np.uint64(text[at]) - zero
        point, decimals = text[at] == _POINT, 0
        if point:
            at += 1
            fraction = at
            digit = np.uint64(text[at]) - zero
            while digit < ten:
                mantissa = mantissa * ten + digit
                at += 1
                digit = np.uint64(text[at]) - zero
            decimals = at - fraction
        digits = at - begin - point
        if not 1 <= digits <= 19 or (text[at] != _SPACE and text[at] != _NEWLINE):
            return start, last, cell
        kind, number = _decimal(mantissa, decimals)
        if kind != _EXACT:
            return start, last, cell
        last = np.int64(feature)
        index[cell], value[cell] = last, -number if negative else number
        cell += 1


@njit(**INNER)
def _defer(inexact: Integers, state: Integers, position: int, begin: int, end: int) -> None:
    """Record the span of a number to be parsed by Python's `float`."""
    inexact[state[_N_INEXACT], 0], inexact[state[_N_INEXACT], 1], inexact[state[_N_INEXACT], 2] = (
        position,
        begin,
        end,
    )
    state[_N_INEXACT] += 1


@njit(**INNER)
def _parse_cell(
    text: Bytes,
    at: int,
    state: Integers,
    index: NDArray[np.int32],
    value: Floats,
    inexact: Integers,
) -> int:
    """Parse ``index:value``."""
    feature, start = np.int64(0), at
    while _ZERO <= text[at] <= _ZERO + 9:
        feature = min(10 * feature + np.int64(text[at]) - _ZERO, np.int64(MAX_FEATURES))
        at += 1
    if at == start or text[at] != _COLON:
        state[_STATUS] = _NOT_FEATURE
        return at
    if feature >= MAX_FEATURES:
        state[_STATUS] = _FEATURE_TOO_LARGE
        return at
    start = at + 1
    kind, number, at = _parse_number(text, start)
    if kind == _BAD or not (_is_blank(text[at]) or text[at] == _NEWLINE or text[at] == _HASH):
        state[_STATUS] = _NOT_VALUE
        return at
    cell = state[_N_CELLS]
    if kind == _INEXACT:
        _defer(inexact, state, cell, start, at)
    index[cell], value[cell] = feature, number
    state[_N_CELLS] += 1
    return at


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
    blank = _is_blank(text[at]) or text[at] == _NEWLINE or text[at] == _HASH
    if not good or not blank or not 1 <= at - start <= 18:
        state[_STATUS] = _NOT_QID
        return at
    qid[state[_N_ROWS]] = -number if negative else number
    return at


@njit(**INNER)
def _parse_docid(text: Bytes, at: int, position: Integers) -> int:
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
    return at


@njit(cache=True, nogil=True)
def _scatter_cells(
    value: Floats, index: NDArray[np.int32], length: Integers, cells: int, width: int, first: int
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
