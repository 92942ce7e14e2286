"""CSV, TSV and parquet by pyarrow, a block of rows at a time.

pyarrow splits the text into cells and reads the numbers (rounded as Python's `float` rounds
them). What is ours: which words mean that a value is missing, and errors that name the file, the
row and the column.
"""

from __future__ import annotations

import os
import re
from codecs import getincrementaldecoder
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from io import BufferedReader
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from precede.engine.arrays import Floats

# Bytes of text, and cells of a parquet file, read at a time.
BLOCK = 1 << 20
CELLS = 1 << 22
# Words for a value that is not there, in any case; so is a cell without a word.
MISSING = ("", "na", "nan", "none", "null")
_BLANKS = " \t\r"
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)


class Block(NamedTuple):
    """Some rows of a table: their numbers as a matrix, and their columns of text."""

    before: int  # rows that came before
    numbers: Floats
    texts: dict[str, NDArray[np.object_]]


def delimited_blocks(
    stream: BufferedReader,
    path: str,
    delimiter: str,
    names: Sequence[str],
    *,
    numbers: Sequence[str],
    texts: Sequence[str],
    roles: Mapping[str, str] | None = None,
    size: int | None = None,
    begun: bytes = b"",
) -> Iterator[Block]:
    r"""Read a CSV or TSV file in blocks.

    Parameters
    ----------
    stream : bytes after the header
    path : how errors call the file
    delimiter, names : what separates the cells, and the name of every column
    numbers, texts : columns to read as numbers (NaN is missing) and as text without the blanks
        around it; the other columns are skipped
    roles : columns that are labels or weights, by name, for messages
    size : bytes of text of a block; no line may be longer
    begun : the beginning of the text, where it is no longer in the stream

    Examples
    --------
    >>> import io
    >>> stream = io.BufferedReader(io.BytesIO(b'a,1.5,\n"b,c", -2 ,3\n'))
    >>> names = ["name", "x", "y"]
    >>> (block,) = delimited_blocks(stream, "-", ",", names, numbers=["x", "y"], texts=["name"])
    >>> block.numbers, block.texts
    (array([[ 1.5,  nan],
           [-2. ,  3. ]]), {'name': array(['a', 'b,c'], dtype=object)})
    """
    csv = _pyarrow(path, "pyarrow.csv")
    # The names are long where the lines are long.
    size = size or BLOCK + 64 * sum(len(name) + 1 for name in names)
    rows = _Rows(path, delimiter, len(names), roles or {})
    before = 0
    try:
        reader = csv.open_csv(
            _Marked(begun, stream, rows),
            # One thread: only then does arrow tell which row is wrong.
            csv.ReadOptions(use_threads=False, block_size=size, column_names=list(names)),
            csv.ParseOptions(
                delimiter=delimiter, newlines_in_values=True, invalid_row_handler=rows.refuse
            ),
            csv.ConvertOptions(
                column_types=dict.fromkeys(names, "string"), include_columns=[*numbers, *texts],
                null_values=[""], strings_can_be_null=True,
            ),
        )  # fmt: skip
        for batch in reader:
            if batch.num_rows:
                yield _block(batch, rows, before, numbers, texts)
            before += batch.num_rows
    except _pyarrow(path, "pyarrow").ArrowInvalid as error:
        rows.explain(error, size)
    if not rows.ended:
        raise ValueError(f"{path}: a quotation mark is never closed")


def parquet_batches(source: Any, path: str) -> Iterator[Any]:
    """Read some rows of a parquet file at a time, as arrow tables."""
    arrow = _pyarrow(path, "pyarrow")
    parquet = _pyarrow(path, "pyarrow.parquet")
    try:
        with parquet.ParquetFile(source) as file:
            width = max(1, len(file.schema_arrow.names))
            for batch in file.iter_batches(max(1, min(1 << 16, CELLS // width))):
                if batch.num_rows:
                    yield arrow.Table.from_batches([batch])
    except Exception as error:  # arrow has many kinds
        raise ValueError(f"{path} is not a parquet file: {error}") from error


def _pyarrow(path: str, module: str) -> Any:
    if find_spec("pyarrow") is None:
        raise ImportError(
            f"{path}: CSV, TSV and parquet files are read by pyarrow; pip install 'precede[files]'"
        )
    from importlib import import_module  # noqa: PLC0415

    return import_module(module)


class _Marked:
    """A stream of UTF-8 that ends in a line of its own, which an open quotation mark hides."""

    closed = False

    def __init__(self, begun: bytes, stream: BufferedReader, rows: _Rows):
        self._begun, self._stream, self._path = begun, stream, rows.path
        self._mark, self._waiting = f"\n{rows.mark}\n".encode(), b""
        self._decoder = getincrementaldecoder("utf-8")()
        self._line = 1 if begun else 2

    def read(self, size: int) -> bytes:
        if not self._waiting:
            self._waiting, self._begun = self._begun or self._stream.read(size), b""
            self._check(self._waiting)
            if not self._waiting:
                self._waiting, self._mark = self._mark, b""
        part, self._waiting = self._waiting[:size], self._waiting[size:]
        return part

    def _check(self, part: bytes) -> None:
        """Refuse other encodings here, where the line is known (arrow checks some only)."""
        try:
            self._decoder.decode(part, final=not part)
        except UnicodeDecodeError as error:
            line = self._line + part.count(b"\n", 0, error.start)
            raise ValueError(
                f"{self._path}, line {line} holds bytes that are not UTF-8; save the file as UTF-8"
            ) from error
        self._line += part.count(b"\n")

    def close(self) -> None:
        self.closed = True


class _Rows:
    """What the lines of one file are, and the words for what is wrong with them."""

    def __init__(self, path: str, delimiter: str, width: int, roles: Mapping[str, str]):
        self.path, self.roles, self.ended = path, roles, False
        self.word = os.urandom(8).hex()  # that no file holds
        # A line of the wrong length, which arrow hands to `refuse`.
        self.mark = self.word if width > 1 else f"{self.word}{delimiter}{self.word}"
        self._passed = 0
        self._wrong: Any = None

    def refuse(self, row: Any) -> str:
        """Say what to do with a line of too few or too many cells."""
        if row.text == self.mark:
            self.ended = True
        elif row.text.strip():
            self._wrong = row
            return "error"
        self._passed += 1
        return "skip"

    def explain(self, error: Exception, size: int) -> NoReturn:
        """Raise what arrow refused in our words."""
        message = str(error)
        if self._wrong is not None:
            row = self._wrong
            self._refuse_open(row.number - self._passed, row.text, error)
            few = row.actual_columns < row.expected_columns
            raise ValueError(
                f"{self.path}, row {row.number - self._passed}: the line has "
                f"{'fewer' if few else 'more'} cells than there are columns, {row.actual_columns} "
                f"for {row.expected_columns}; quote a delimiter inside a text"
            ) from error
        if "straddling" in message:
            raise ValueError(
                f"{self.path}: a line is longer than {size} bytes, or a quotation mark is never "
                "closed"
            ) from error
        raise ValueError(f"{self.path} cannot be read: {message[:300]}") from error

    def not_a_number(self, row: int, name: str, text: str) -> NoReturn:
        self._refuse_open(row + 1, text)
        found = text if len(text) <= 40 else f"{text[:40]}..."
        remedy = {
            "label": "labels are numbers, of which a larger one ranks higher: encode them, such as "
            "0 for 'bad' and 1 for 'good'",
            "weight": "weights are numbers: 2 counts a row twice, 0 leaves it out",
        }.get(
            self.roles.get(name, ""),
            "leave the column out, encode it as numbers, or leave the cell empty if the value is "
            "missing",
        )
        raise ValueError(
            f"{self.path}, row {row + 1}, column {name!r}: {found!r} is not a finite number; "
            f"{remedy}"
        )

    def _refuse_open(self, row: int, text: str, error: Exception | None = None) -> None:
        """Refuse a row that holds the mark after the last line."""
        if self.word in text:
            raise ValueError(f"{self.path}, row {row}: a quotation mark is never closed") from error


def _block(
    batch: Any, rows: _Rows, before: int, numbers: Sequence[str], texts: Sequence[str]
) -> Block:
    matrix = np.empty((batch.num_rows, len(numbers)))
    for index, name in enumerate(numbers):
        matrix[:, index] = _numbers(batch.column(index), rows, before, name)
    columns = {name: _texts(batch.column(len(numbers) + index)) for index, name in enumerate(texts)}
    return Block(before, matrix, columns)


def _numbers(column: Any, rows: _Rows, before: int, name: str) -> Floats:
    import pyarrow as pa  # noqa: PLC0415  (only for such files)
    import pyarrow.compute as pc  # noqa: PLC0415

    try:
        values = pc.cast(column, pa.float64())
    except pa.ArrowInvalid:  # blanks and words are rare: a second look at this column alone
        column = _plain(column)
        try:
            values = pc.cast(column, pa.float64())
        except pa.ArrowInvalid:
            for row, text in enumerate(column.to_pylist()):
                if text is not None and not _NUMBER.fullmatch(text):
                    rows.not_a_number(before + row, name, text)
            raise
    found = values.to_numpy(zero_copy_only=False)
    infinite = np.isinf(found)
    if infinite.any():
        row = int(infinite.argmax())
        rows.not_a_number(before + row, name, column[row].as_py())
    return found


def _plain(column: Any) -> Any:
    """Numbers without blanks around them; nothing where one is missing, 1 and 0 for truth."""
    import pyarrow as pa  # noqa: PLC0415  (only for such files)
    import pyarrow.compute as pc  # noqa: PLC0415

    text = pc.ascii_trim(column, _BLANKS)
    word = pc.ascii_lower(text)
    for values, meaning in ((MISSING, None), (("true",), "1"), (("false",), "0")):
        known = pc.fill_null(pc.is_in(word, pa.array(values)), False)
        text = pc.if_else(known, pa.scalar(meaning, pa.string()), text)
    return text


def _texts(column: Any) -> NDArray[np.object_]:
    """Texts as objects, of which equal ones are one: a query has many rows."""
    import pyarrow.compute as pc  # noqa: PLC0415  (only for such files)

    coded = pc.ascii_trim(pc.fill_null(column, ""), _BLANKS).dictionary_encode()
    distinct = np.empty(len(coded.dictionary), object)
    distinct[:] = coded.dictionary.to_pylist()
    return distinct[coded.indices.to_numpy()]
