"""Read CSV, TSV and parquet files by pyarrow, a block of rows at a time.

pyarrow splits the text into cells and parses the numbers (rounded like Python's `float`). This
module defines the words for missing values and the errors, which name file, row and column.
"""

from __future__ import annotations

import os
from codecs import getincrementaldecoder
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from io import BufferedReader
from typing import Any, NamedTuple, NoReturn

import numpy as np

from precede.engine.arrays import Floats, Objects
from precede.engine.parameters import Argument, ParameterError
from precede.files.text import MISSING_WORDS, NUMBER_PATTERN, object_array

MIN_BLOCK_BYTES = 1 << 20  # of text, read at a time
BLOCK_CELLS = 1 << 22  # of a parquet file, read at a time
BLANKS = " \t\r"  # stripped from the cells of CSV and TSV files


class Block(NamedTuple):
    """Some rows of a table: a matrix of the numeric columns, and the text columns."""

    first_row: int
    numbers: Floats
    texts: dict[str, Objects]


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
    prefix: bytes = b"",
) -> Iterator[Block]:
    r"""Read a CSV or TSV file in blocks.

    Parameters
    ----------
    stream : bytes after the header
    path : name of the file for error messages
    delimiter, names : separator of the cells, and the name of every column
    numbers, texts : columns to read as numbers (NaN is missing) and as stripped text; the other
        columns are skipped
    roles : role ("label", "weight", ...) of columns by name, for error messages
    size : bytes of text in a block; no line may be longer
    prefix : beginning of the text, if it was read from the stream before

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
    csv = pyarrow(path, "pyarrow.csv")
    # Tables with many columns have long lines.
    size = size or MIN_BLOCK_BYTES + 64 * sum(len(name) + 1 for name in names)
    rows = _RowErrors(path, delimiter, len(names), roles or {})
    text = _StreamWithEndMark(prefix, stream, rows)
    first_row = 0
    try:
        reader = csv.open_csv(
            text,
            # Only with one thread does arrow report the number of an invalid row.
            csv.ReadOptions(use_threads=False, block_size=size, column_names=list(names)),
            csv.ParseOptions(
                delimiter=delimiter, newlines_in_values=True, invalid_row_handler=rows.refuse
            ),
            csv.ConvertOptions(
                column_types=dict.fromkeys(names, "string"), include_columns=[*numbers, *texts],
                null_values=[""], strings_can_be_null=True,
            ),
        )  # fmt: skip
        with reader:  # closing it ends the threads of pyarrow
            for batch in reader:
                if batch.num_rows:
                    yield _block(batch, rows, first_row, numbers, texts)
                first_row += batch.num_rows
    except pyarrow(path).ArrowInvalid as error:
        if text.failure is None:
            rows.explain(error, size)
    if text.failure is not None:
        raise text.failure
    if not rows.ended:
        raise ValueError(f"{path}: a quotation mark is never closed")


def parquet_names(source: Any, path: str) -> list[str]:
    """Return the names of the columns of a parquet file (a path, or a stream)."""
    parquet = pyarrow(path, "pyarrow.parquet")
    try:
        with parquet.ParquetFile(source) as file:
            names: list[str] = file.schema_arrow.names
            return names
    except Exception as error:  # pyarrow raises many types
        raise ValueError(f"{path} is not a parquet file: {error}") from error


def parquet_blocks(
    source: Any, path: str, *, numbers: Sequence[str], texts: Sequence[str]
) -> Iterator[Block]:
    """Read columns of a parquet file as `delimited_blocks` does, about `BLOCK_CELLS` at a time."""
    import narwhals as nw  # noqa: PLC0415  (needed for frames only)

    first_row = 0
    for batch in _parquet_batches(source, path, [*numbers, *texts]):
        table = nw.from_native(batch, eager_only=True)
        matrix = np.empty((len(table), len(numbers)))
        for index, name in enumerate(numbers):
            kind = table.schema[name]
            if not (kind.is_numeric() or kind == nw.Boolean):
                raise ValueError(
                    f"{path}, column {name!r} holds {kind}, not numbers; encode it as numbers or "
                    "drop it"
                )
            matrix[:, index] = table[name].cast(nw.Float64).to_numpy()
        columns = {
            name: object_array("" if each is None else str(each) for each in table[name].to_list())
            for name in texts
        }
        yield Block(first_row, matrix, columns)
        first_row += len(table)


def _parquet_batches(source: Any, path: str, names: list[str]) -> Iterator[Any]:
    """Yield the rows of a parquet file as arrow tables."""
    parquet, table = pyarrow(path, "pyarrow.parquet"), pyarrow(path).Table
    rows = max(1, min(1 << 16, BLOCK_CELLS // len(names)))
    try:
        with parquet.ParquetFile(source) as file:
            for batch in file.iter_batches(rows, columns=names):
                if batch.num_rows:
                    yield table.from_batches([batch])
    except Exception as error:
        raise ValueError(f"{path} is not a parquet file: {error}") from error


def pyarrow(path: str, module: str = "pyarrow") -> Any:
    """Return a module of pyarrow; raise ImportError if it is not installed."""
    if find_spec("pyarrow") is None:
        raise ImportError(
            f"{path}: CSV, TSV and parquet files are read by pyarrow; pip install 'precede[files]'"
        )
    return import_module(module)


class _StreamWithEndMark:
    """A UTF-8 stream with a marker line appended, which an unclosed quotation mark swallows.

    Reading ends at an error, which is kept in `failure`. It is not raised, because pyarrow reads in
    its own threads: the exception could be freed in such a thread, and with it, by way of its
    traceback, the CSV reader, which then waits forever for that thread to end.
    """

    closed = False
    failure: Exception | None = None

    def __init__(self, prefix: bytes, stream: BufferedReader, rows: _RowErrors):
        self._prefix, self._stream, self._path = prefix, stream, rows.path
        self._mark, self._waiting = f"\n{rows.mark}\n".encode(), b""
        self._decoder = getincrementaldecoder("utf-8")()
        self._line = 1 if prefix else 2

    def read(self, size: int) -> bytes:
        if not self._waiting and self.failure is None:
            try:
                self._waiting = self._read_whole_characters(size)
            except Exception as error:
                self.failure, self._mark = error, b""
            if not self._waiting:
                self._waiting, self._mark = self._mark, b""
        part, self._waiting = self._waiting[:size], self._waiting[size:]
        return part

    def _read_whole_characters(self, size: int) -> bytes:
        """Read some UTF-8 text, b"" at the end; refuse other encodings, which arrow may not."""
        text, part = "", b"more"
        while part and not text:
            part, self._prefix = self._prefix or self._stream.read(size), b""
            try:
                text = self._decoder.decode(part, final=not part)
            except UnicodeDecodeError as error:
                line = self._line + part.count(b"\n", 0, error.start)
                raise ValueError(
                    f"{self._path}, line {line} holds bytes that are not UTF-8; save the file as "
                    "UTF-8"
                ) from error
            self._line += part.count(b"\n")
        return text.encode()

    def close(self) -> None:
        self.closed = True


class _RowErrors:
    """Handler of invalid rows of one file, and its error messages."""

    def __init__(self, path: str, delimiter: str, width: int, roles: Mapping[str, str]):
        self.path, self.roles, self.ended = path, roles, False
        self.word = os.urandom(8).hex()  # occurs in no file
        # A line with a wrong number of cells, which arrow passes to `refuse`.
        self.mark = self.word if width > 1 else f"{self.word}{delimiter}{self.word}"
        self._skipped = 0
        self._wrong: Any = None

    def refuse(self, row: Any) -> str:
        """Return "skip" or "error" for a line with too few or too many cells."""
        if row.text == self.mark:
            self.ended = True
        elif row.text.strip():
            self._wrong = row
            return "error"
        self._skipped += 1
        return "skip"

    def explain(self, error: Exception, size: int) -> NoReturn:
        """Raise a ValueError that explains an error of arrow."""
        message = str(error)
        if self._wrong is not None:
            row = self._wrong
            self._refuse_open_quote(row.number - self._skipped, row.text, error)
            few = row.actual_columns < row.expected_columns
            raise ValueError(
                f"{self.path}, row {row.number - self._skipped}: the line has "
                f"{'fewer' if few else 'more'} cells than there are columns, {row.actual_columns} "
                f"for {row.expected_columns}; quote a delimiter inside a text"
            ) from error
        if "straddling" in message:
            raise ValueError(
                f"{self.path}: a line is longer than {size} bytes, or a quotation mark is never "
                "closed"
            ) from error
        raise ValueError(f"{self.path} cannot be read: {message[:300]}") from error

    def refuse_number(self, row: int, name: str, text: str) -> NoReturn:
        self._refuse_open_quote(row + 1, text)
        found = text if len(text) <= 40 else f"{text[:40]}..."
        problem = f"{self.path}, row {row + 1}, column {name!r}: {found!r} is not a finite number; "
        remedies = {
            "label": "labels are numbers, of which a larger one ranks higher: encode them, such as "
            "0 for 'bad' and 1 for 'good'",
            "weight": "weights are numbers: 2 counts a row twice, 0 leaves it out",
        }
        role = self.roles.get(name, "")
        if role in remedies:
            raise ValueError(problem + remedies[role])
        raise ParameterError(
            f"{problem}leave the column out (",
            Argument("drop", name, f"drop=[{name!r}]"),
            "), encode it as numbers, or leave the cell empty if the value is missing",
        )

    def _refuse_open_quote(self, row: int, text: str, error: Exception | None = None) -> None:
        """Refuse a row that contains the end marker, as its quotation mark is not closed."""
        if self.word in text:
            raise ValueError(f"{self.path}, row {row}: a quotation mark is never closed") from error


def _block(
    batch: Any, rows: _RowErrors, first_row: int, numbers: Sequence[str], texts: Sequence[str]
) -> Block:
    matrix = np.empty((batch.num_rows, len(numbers)))
    for index, name in enumerate(numbers):
        matrix[:, index] = _numbers(batch.column(index), rows, first_row, name)
    columns = {name: _texts(batch.column(len(numbers) + index)) for index, name in enumerate(texts)}
    return Block(first_row, matrix, columns)


def _numbers(column: Any, rows: _RowErrors, first_row: int, name: str) -> Floats:
    import pyarrow as pa  # noqa: PLC0415  (optional)
    import pyarrow.compute as pc  # noqa: PLC0415

    try:
        values = pc.cast(column, pa.float64())
    except pa.ArrowInvalid:  # blanks and words are rare: convert this column only
        column = _normalize_cells(column)
        try:
            values = pc.cast(column, pa.float64())
        except pa.ArrowInvalid:
            for row, text in enumerate(column.to_pylist()):
                if text is not None and not NUMBER_PATTERN.fullmatch(text):
                    rows.refuse_number(first_row + row, name, text)
            raise
    found = values.to_numpy(zero_copy_only=False)
    infinite = np.isinf(found)
    if infinite.any():
        row = int(infinite.argmax())
        rows.refuse_number(first_row + row, name, column[row].as_py())
    return found


def _normalize_cells(column: Any) -> Any:
    """Strip blanks; replace words for missing values by null, true by 1 and false by 0."""
    import pyarrow as pa  # noqa: PLC0415  (optional)
    import pyarrow.compute as pc  # noqa: PLC0415

    text = pc.ascii_trim(column, BLANKS)
    word = pc.ascii_lower(text)
    for values, meaning in ((("", *MISSING_WORDS), None), (("true",), "1"), (("false",), "0")):
        known = pc.fill_null(pc.is_in(word, pa.array(values)), False)
        text = pc.if_else(known, pa.scalar(meaning, pa.string()), text)
    return text


def _texts(column: Any) -> Objects:
    """Return stripped texts as an object array in which equal texts share one object."""
    import pyarrow.compute as pc  # noqa: PLC0415  (optional)

    coded = pc.ascii_trim(pc.fill_null(column, ""), BLANKS).dictionary_encode()
    return object_array(coded.dictionary.to_pylist())[coded.indices.to_numpy()]
