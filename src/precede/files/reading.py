"""Read LETOR, CSV, TSV and parquet files, as a whole or in blocks, and their side files.

The format is taken from the suffix or the first bytes of a file, gzip is detected, and ``-`` is
standard input. Query sizes, weights and pairs are read from the side files of LightGBM, XGBoost
and CatBoost.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from precede.engine.arrays import Array, Floats, Integers
from precede.engine.execution import warn_caller
from precede.engine.parameters import Argument, ParameterError, ParameterWarning
from precede.files.arrow import Block, delimited_blocks, parquet_blocks, parquet_names
from precede.files.data import Data, Roles, quoted
from precede.files.disk import DiskTable, PaddedBlock, write_table
from precede.files.letor import LetorRows, letor_blocks, read_letor
from precede.files.streams import STANDARD, FileName, opened, size_of, suffix_of
from precede.files.text import NUMBER, GrowingArray, object_array, read_text_columns

# Suffixes of the formats; ".gz" may follow.
FORMATS = {
    "letor": (".letor", ".svm", ".svmlight", ".libsvm"),
    "csv": (".csv",),
    "tsv": (".tsv",),
    "parquet": (".parquet", ".pq"),
}
DELIMITERS = {"csv": ",", "tsv": "\t"}
MAX_BLOCK_CELLS = 1 << 30


# -- whole files and blocks --------------------------------------------------------------------


def read(
    path: FileName,
    *,
    format: str | None = None,
    roles: Roles | None = None,
    header: bool = True,
    groups: FileName | None = None,
    weights: FileName | None = None,
    pairs: FileName | None = None,
    n_jobs: int | None = None,
) -> Data:
    r"""Read rows to rank from a file.

    Parameters
    ----------
    path : name of a file, plain or gzip; ``-`` is standard input
    format : "letor", "csv", "tsv" or "parquet"; None detects it by the name or the first bytes
    roles : which columns of a table are not features
    header : whether the first line of a CSV or TSV file names the columns; without one they
        are called 1, 2, ...
    groups : file with the size of each query on a line (LightGBM's ``.query``, XGBoost's
        ``.group``); None takes ``path.query`` or ``path.group`` if the data have no qid
    weights : file with one weight on a line; None takes ``path.weight`` if it exists
    pairs : file of lines ``winner loser weight``, rows from 0 and the weight optional
        (CatBoost); None takes ``path.pairs`` if it exists
    n_jobs : threads for LETOR files

    Notes
    -----
    O(bytes) time. Reading a LETOR file of a gigabyte takes a few seconds on one core and about
    1.6 times the memory of its result (``benchmarks/results/readers.md``).

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     name = pathlib.Path(folder, "train.txt")
    ...     _ = name.write_text("1 qid:3 1:0.5 # a\n0 qid:3 2:2 # b\n")
    ...     read(name)
    Data(2 rows, 2 features, 1 query, 1 pair)
    """
    roles = roles or Roles()
    with opened(path) as stream:
        format_name = _format_of(format, path, stream)
        if format_name == "letor":
            rows = read_letor(stream, str(path), size=size_of(path), n_jobs=n_jobs)
            data = _letor_data(rows)
        else:
            data = _concatenate(_table_blocks(stream, path, format_name, roles, header), path)
    if roles.labels:
        data = _with_labels(data, roles.labels, str(path))
    groups, weights = _side_files(data, path, groups, weights)
    if groups is not None:
        data = replace(data, qid=read_groups(groups, len(data)))
    if weights is not None:
        weight = read_numbers(weights, "weights")[:, 0]
        if weight.size != len(data):
            raise ValueError(f"{weights} has {weight.size} lines and {path} {len(data)} rows")
        data = replace(data, weight=weight)
    if (pairs := _side_file(pairs, path, ".pairs")) is not None:
        explicit, pair_weight = read_pairs(pairs, len(data))
        data = replace(data, pairs=explicit, pair_weight=pair_weight)
    return data


def read_blocks(
    path: FileName,
    *,
    size: int | None = None,
    format: str | None = None,
    roles: Roles | None = None,
    header: bool = True,
    groups: FileName | None = None,
    weights: FileName | None = None,
    pairs: FileName | None = None,
    n_jobs: int | None = None,
) -> Iterator[Data]:
    r"""Read a file as `precede.files.read` does, a block of rows at a time.

    Parameters
    ----------
    path : name of a file, plain or gzip; not standard input
    size : bytes of text in a block; by default 16 MiB for LETOR, and at least 1 MiB for CSV and
        TSV, whose lines may not be longer; parquet files are read in blocks of 4 million cells
    format, roles, header, groups, weights, n_jobs : as for `precede.files.read`
    pairs : refused, as is a file of pairs beside the data: a pair may join rows of two blocks

    Notes
    -----
    O(bytes) time. A LETOR file is read twice, as its number of features is known only at its
    end. A block takes a small multiple of `size` in memory; query sizes and weights in side files
    take eight bytes a row.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     name = pathlib.Path(folder, "train.txt")
    ...     _ = name.write_text("1 qid:3 1:0.5\n0 qid:3 2:2\n")
    ...     [block.X.tolist() for block in read_blocks(name, size=14)]
    [[[0.5, 0.0]], [[0.0, 2.0]]]
    """
    return _blocks(
        path, padded=False, size=size, format=format, roles=roles, header=header, groups=groups,
        weights=weights, pairs=pairs, n_jobs=n_jobs,
    )  # fmt: skip


def write_table_of_file(
    target: FileName,
    path: FileName,
    *,
    max_bins: int = 255,
    categorical_features: Sequence[int | str] | None = None,
    n_jobs: int | None = None,
    **reading: Any,
) -> tuple[DiskTable, Data]:
    r"""Write the rows of a file as a table on disk, holding one block of them in memory.

    Parameters
    ----------
    target : where to write the table
    path : a LETOR, CSV, TSV or parquet file
    max_bins, categorical_features, n_jobs : as for `write_table`
    reading : as for `read_blocks`

    Returns
    -------
    The table, and a `Data` without rows that has the names of the features.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     name = pathlib.Path(folder, "train.txt")
    ...     _ = name.write_text("1 qid:3 1:0.5\n0 qid:3 2:2\n")
    ...     write_table_of_file(pathlib.Path(folder, "train.table"), name)[0]
    DiskTable(2 rows, 2 features, 2 rows compared)
    """
    last: Any = None

    def rows() -> Iterator[tuple[Any, ...]]:
        nonlocal last
        for last in _blocks(path, padded=True, n_jobs=n_jobs, **reading):
            yield last.X, last.y, last.qid, last.weight

    table = write_table(
        target, rows(), max_bins=max_bins, categorical_features=categorical_features, n_jobs=n_jobs
    )
    names = last.feature_names
    return table, Data(np.empty((0, len(names))), feature_names=names, zeros=last.zeros)


def _blocks(
    path: FileName, *, padded: bool, size: int | None = None, format: str | None = None,
    roles: Roles | None = None, header: bool = True, groups: FileName | None = None,
    weights: FileName | None = None, pairs: FileName | None = None, n_jobs: int | None = None,
) -> Iterator[Data]:  # fmt: skip
    """Yield the blocks of a file; if `padded`, those of a LETOR file as `_padded_letor` does."""
    if _side_file(pairs, path, ".pairs") is not None:
        raise ValueError(
            f"{path} comes with listed pairs, which may join rows of any blocks; read it as a "
            "whole, or call write_table with pairs"
        )
    with opened(path) as stream:
        format_name = _format_of(format, path, stream)
        if format_name == "letor":
            blocks = (_padded_letor if padded else _whole_letor)(stream, path, size, n_jobs)
        else:
            tables = _table_blocks(stream, path, format_name, roles or Roles(), header, size)
            blocks = (replace(each, docid=None) for each in tables)
        yield from _blocks_with_side_files(blocks, path, groups, weights)


def _blocks_with_side_files(
    blocks: Iterator[Data], path: FileName, groups: FileName | None, weights: FileName | None
) -> Iterator[Data]:
    """Add queries and weights from side files."""
    first = next(blocks, None)
    if first is None:
        raise ValueError(f"{path} holds no line of data")
    groups, weights = _side_files(first, path, groups, weights)
    known_rows: dict[str, int] = {}  # rows that each side file covers
    columns: dict[str, Callable[[Integers], Any]] = {}
    if groups is not None:
        ends = np.cumsum(_read_sizes(groups))
        known_rows["qid"] = int(ends[-1])
        columns["qid"] = partial(np.searchsorted, ends, side="right")
    if weights is not None:
        weight = read_numbers(weights, "weights")[:, 0].copy()
        known_rows["weight"] = weight.size
        columns["weight"] = weight.take
    rows = 0
    for block in chain([first], blocks):
        row_numbers = np.arange(rows, rows + len(block))
        rows += len(block)
        for name, known in known_rows.items():
            if known < rows:
                raise ValueError(f"{path} has more rows than the file of its {name} covers")
        parts: dict[str, Any] = {name: column(row_numbers) for name, column in columns.items()}
        yield replace(block, **parts)
    for name, known in known_rows.items():
        if known != rows:
            raise ValueError(f"{path} has {rows} rows, and the file of its {name} {known}")


# -- formats -----------------------------------------------------------------------------------


def format_of_name(path: FileName) -> str | None:
    """Return the format indicated by the suffix of a file, or None.

    >>> format_of_name("train.csv.gz"), format_of_name("train.txt")
    ('csv', None)
    """
    suffix = suffix_of(path)
    return next((name for name, suffixes in FORMATS.items() if suffix in suffixes), None)


def check_format(format: str | None) -> None:
    """Raise ValueError unless a format is known or None."""
    if format is not None and format not in FORMATS:
        known = quoted([*FORMATS])
        raise ParameterError(Argument("format", format), f" is unknown; use {known}")


def _format_of(format: str | None, path: FileName, stream: io.BufferedReader) -> str:
    """Return the given format, or the one detected from the name or the first bytes."""
    check_format(format)
    format_name = format or format_of_name(path)
    if format_name is not None:
        return format_name
    beginning = stream.peek(1 << 16)
    _refuse_json(beginning, path)
    if beginning.startswith(b"PAR1"):
        return "parquet"
    lines = [line for line in beginning.splitlines() if line.split() and line.lstrip()[:1] != b"#"]
    if not lines:
        raise ValueError(f"{path} holds no line of data")
    if any(re.match(rb"\s*\S+\s+(qid|[0-9]+):", line) for line in lines[:5]):
        return "letor"
    for format_name in ("tsv", "csv"):
        if DELIMITERS[format_name].encode() in lines[0]:
            return format_name
    _refuse_delimiter(lines[0].decode("utf-8", "replace"), path)
    raise ValueError(f"{path} is of no known format; say which one it is: {quoted([*FORMATS])}")


def _refuse_json(beginning: bytes, path: FileName) -> None:
    """Refuse JSON, such as a model given in place of data."""
    if not re.match(rb"\s*(\{\s*\"|\[\s*[\[{])", beginning):
        return
    if b'"precede"' in beginning:
        raise ValueError(f"{path} is a model, not data; where both are given, the model is first")
    raise ValueError(
        f"{path} is JSON, which is not read as data; rewrite it, for example by pandas: "
        f"read_json({str(path)!r}).to_csv('out.csv', index=False)"
    )


# -- LETOR -------------------------------------------------------------------------------------


def _letor_data(rows: LetorRows) -> Data:
    return Data(
        rows.X, y=rows.grade, qid=rows.qid, docid=rows.docid, feature_names=rows.names, zeros=True
    )


def _padded_letor(
    stream: io.BufferedReader, path: FileName, size: int | None, n_jobs: int | None
) -> Iterator[Data]:
    """Yield blocks of a LETOR file as `PaddedBlock`s, with the names of the features so far.

    `write_table` spools the values of a file anyway and fills in the columns that a block lacks,
    so the text is parsed once.
    """
    names, rows = None, 0
    for part in letor_blocks(stream, str(path), size, n_jobs):
        names = part.names if names is None else names | part.names
        rows = max(rows, part.grade.size)
        if rows * len(names) > MAX_BLOCK_CELLS:
            raise ValueError(
                f"{path} has {len(names)} features, too many for blocks without gaps; read it as a "
                "whole, which leaves zeros out"
            )
        X = part.X.toarray() if scipy.sparse.issparse(part.X) else part.X
        yield replace(
            _letor_data(part), X=PaddedBlock(X, part.first), docid=None, feature_names=names
        )


def _whole_letor(
    stream: io.BufferedReader, path: FileName, size: int | None, n_jobs: int | None
) -> Iterator[Data]:
    """Yield blocks of a LETOR file, all with the features of the whole file."""
    if str(path) == STANDARD:
        raise ValueError(
            f"{path}: standard input cannot be read in blocks, because a LETOR file is read twice; "
            "save it as a file, or read it as a whole"
        )
    names: Sequence[str] = ()
    with opened(path) as again:
        for data in _padded_letor(again, path, size, n_jobs):
            names = data.feature_names
    for data in _padded_letor(stream, path, size, n_jobs):
        X = np.zeros((len(data), len(names)))
        begin = data.X.first - int(names[0])
        X[:, begin : begin + data.X.shape[1]] = data.X.values
        yield replace(data, X=X, feature_names=names)


# -- tables ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Columns:
    """Columns to read from a table: the name of the column of each role, and the features."""

    path: str
    found: dict[str, str]
    features: list[str]

    @classmethod
    def choose(
        cls, names: list[str], roles: Roles, path: str, *, unnamed: bool = False
    ) -> _Columns:
        """Find the role of each column, with warnings about those that are unclear."""
        found = roles.find(names, path)
        features, index = roles.feature_columns(names, found, unnamed=unnamed)
        if index:
            warning = ParameterWarning(
                f"{path}: {quoted(index)} looks like the index of a data frame and is left out; ",
                Argument("keep_index", True),
                " makes it a feature",
            )
            warn_caller(warning)
        if (query_warning := roles.query_warning(path, names, found)) is not None:
            warn_caller(query_warning)
        if not features:
            raise ValueError(f"{path} has no column of features; it has {quoted(names)}")
        return cls(path, found, features)

    @property
    def numbers(self) -> list[str]:
        """The features, then other columns of numbers."""
        others = [self.found[role] for role in ("label", "weight") if role in self.found]
        return [*self.features, *(name for name in others if name not in self.features)]

    @property
    def texts(self) -> list[str]:
        """The columns of identifiers."""
        return [self.found[role] for role in ("qid", "docid") if role in self.found]

    def data(self, block: Block) -> Data:
        """Return a block as `Data`; identifiers stay text until all blocks are known."""
        numbers, row = block.numbers, block.first_row + 1
        columns: dict[str, Array] = {}
        for role, name in self.found.items():
            if role in ("qid", "docid"):
                columns[role] = block.texts[name]
                continue
            columns[role] = numbers[:, self.numbers.index(name)].copy()
            wrong = np.flatnonzero(~np.isfinite(columns[role]))
            if wrong.size:
                raise ValueError(
                    f"{self.path}: the {role} of row {row + wrong[0]} is missing or infinite; "
                    "give a number, or leave the row out"
                )
        wrong = np.flatnonzero(columns.get("qid", np.zeros(0, object)) == "")
        if wrong.size:
            raise ValueError(f"{self.path}: row {row + wrong[0]} has no qid; give it one")
        width = len(self.features)
        return Data(
            numbers if numbers.shape[1] == width else numbers[:, :width].copy(),
            y=columns.get("label"), qid=columns.get("qid"), docid=columns.get("docid"),
            weight=columns.get("weight"), feature_names=self.features,
        )  # fmt: skip


def _table_blocks(
    stream: io.BufferedReader, path: FileName, format_name: str, roles: Roles, header: bool,
    size: int | None = None,
) -> Iterator[Data]:  # fmt: skip
    """Yield the rows of a CSV, TSV or parquet file in blocks, with identifiers as text."""
    name = str(path)
    if format_name == "parquet":
        # Compressed files and pipes cannot be read by position, so they are read into memory.
        source = Path(path) if size_of(path) else io.BytesIO(stream.read())
        columns = _Columns.choose(parquet_names(source, name), roles, name)
        blocks = parquet_blocks(source, name, numbers=columns.numbers, texts=columns.texts)
    else:
        delimiter, first = DELIMITERS[format_name], stream.readline()
        names, unnamed = read_header(first, name, delimiter, header)
        columns = _Columns.choose(names, roles, name, unnamed=unnamed)
        blocks = delimited_blocks(
            stream, name, delimiter, names, numbers=columns.numbers, texts=columns.texts, size=size,
            prefix=b"" if header else first,
            roles={name: role for role, name in columns.found.items()},
        )  # fmt: skip
    yield from map(columns.data, blocks)


def _concatenate(parts: Iterator[Data], path: FileName) -> Data:
    """Concatenate all blocks of a table in arrays that grow in place."""
    arrays: dict[str, GrowingArray] = {}
    data = None
    for data in parts:
        for name in ("X", "y", "qid", "docid", "weight"):
            values = getattr(data, name)
            if values is not None:
                arrays.setdefault(name, GrowingArray(values.dtype)).add(values.ravel())
    if data is None:
        raise ValueError(f"{path} holds no line of data")
    whole: dict[str, Any] = {name: array.trimmed() for name, array in arrays.items()}
    whole["X"] = whole["X"].reshape(-1, data.X.shape[1])
    if "qid" in whole:
        whole["qid"] = identifiers(whole["qid"].tolist())
    return replace(data, **whole)


def read_header(line: bytes, path: str, delimiter: str, header: bool) -> tuple[list[str], bool]:
    """Return the column names, and whether the first line leaves the first column unnamed."""
    text = line.decode("utf-8-sig", "replace").strip("\r\n")
    try:
        cells = next(csv.reader([text], delimiter=delimiter, strict=True), [])
    except csv.Error as error:
        raise ValueError(f"{path}, line 1 cannot be read: {error}") from error
    if not any(cell.strip() for cell in cells):
        raise ValueError(f"{path}, line 1 is empty; it should name the columns")
    if len(cells) == 1:
        _refuse_delimiter(text, path)
    if not header:
        return [str(column + 1) for column in range(len(cells))], False
    if all(_is_number(cell) for cell in cells):
        raise ParameterError(
            f"{path}, line 1 holds numbers only; add a header with column names, or read the file "
            "without one (",
            Argument("header", False),
            "), with columns named 1, 2, ...",
        )
    names = [cell.strip() or f"column {c + 1}" for c, cell in enumerate(cells)]
    if twice := repeated(names):
        raise ValueError(f"{path}, line 1 names {quoted(twice)} twice; rename one")
    return names, not cells[0].strip()


def _refuse_delimiter(line: str, path: FileName) -> None:
    """Raise a ValueError if the columns are separated by an unsupported delimiter."""
    for delimiter, what in ((";", "semicolons"), ("|", "vertical bars"), ("\t", "tabs")):
        if line.count(delimiter) > 0:
            remedy = "name it .tsv or give the format tsv" if delimiter == "\t" else (
                f"rewrite it with commas, for example by pandas: "
                f"read_csv({str(path)!r}, sep={delimiter!r}).to_csv('out.csv', index=False), with "
                "decimal=',' in read_csv if numbers are written 0,5"
            )  # fmt: skip
            raise ValueError(f"{path}: columns are separated by {what}; {remedy}")


def repeated(names: Sequence[str]) -> list[str]:
    """Return the names that occur more than once, sorted."""
    return sorted(name for name, times in Counter(names).items() if times > 1)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _with_labels(data: Data, names: tuple[str, ...], path: str) -> Data:
    """Move columns from the features to the labels."""
    labels = data.with_features(names).X
    others = [name for name in data.feature_names if name not in names]
    if not others:
        raise ValueError(f"{path} has no column of features apart from the labels")
    return replace(data.with_features(others), labels=labels, label_names=names)


# -- side files --------------------------------------------------------------------------------


def _side_files(
    data: Data, path: FileName, groups: FileName | None, weights: FileName | None
) -> tuple[FileName | None, FileName | None]:
    """Return the side files of query sizes and weights, given or found beside the data."""
    if groups is not None and data.qid is not None:
        raise ValueError(f"{path} has query identifiers of its own; leave out {groups}")
    if weights is not None and data.weight is not None:
        raise ValueError(f"{path} has weights of its own; leave out {weights}")
    return (
        _side_file(groups, path, ".query", ".group") if data.qid is None else None,
        _side_file(weights, path, ".weight") if data.weight is None else None,
    )


def _side_file(given: FileName | None, path: FileName, *suffixes: str) -> FileName | None:
    """Return the side file given, or an existing file named like the data plus a suffix."""
    if given is not None:
        return given
    if str(path) == STANDARD:
        return None
    name = Path(path)
    names = [name, name.with_suffix("")] if name.suffix.lower() == ".gz" else [name]
    candidates = (Path(f"{each}{suffix}") for suffix in suffixes for each in names)
    return next((each for each in candidates if each.is_file()), None)


def read_numbers(path: FileName, what: str, *, columns: tuple[int, ...] = (1,)) -> Floats:
    r"""Read lines of numbers; `columns` are the permitted numbers of columns.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     name = pathlib.Path(folder, "scores.txt")
    ...     _ = name.write_text("0.5\n-1\n")
    ...     read_numbers(name, "scores")
    array([[ 0.5],
           [-1. ]])
    """
    with opened(path) as stream:
        first = stream.peek(1 << 16).lstrip().split(b"\n")[0]
        width = len(first.split())
        if width not in columns:
            wanted = " or ".join(map(str, columns))
            raise ValueError(
                f"{path}, line 1: {what} are lines of {wanted} numbers, this one has {width} words"
            )
        numbers = read_text_columns(stream, str(path), [NUMBER] * width).numbers
    if np.isnan(numbers).any():
        row = int(np.flatnonzero(np.isnan(numbers).any(axis=1))[0])
        raise ValueError(f"{path}: entry {row + 1} of {what} is missing; give a number on each")
    return numbers


def read_groups(path: FileName, rows: int) -> Integers:
    """Return the query number of each row from a file of query sizes (LightGBM, XGBoost)."""
    sizes = _read_sizes(path)
    if sizes.sum() != rows:
        raise ValueError(
            f"the sizes in {path} add up to {sizes.sum()}, but the data have {rows} rows"
        )
    return np.repeat(np.arange(sizes.size), sizes)


def _read_sizes(path: FileName) -> Integers:
    """Read the sizes of queries, one on a line; their sum must be less than 2^53."""
    sizes = read_numbers(path, "sizes of queries")[:, 0]
    too_large = sizes.max(initial=0) >= 2**53 or sizes.sum() >= 2**53
    if too_large or (sizes < 0).any() or (sizes != np.floor(sizes)).any():
        raise ValueError(
            f"{path}: sizes of queries are whole numbers from 0, less than 2^53 in all"
        )
    return sizes.astype(np.int64)


def read_pairs(path: FileName, rows: int) -> tuple[Integers, Floats | None]:
    """Read pairs of rows (winner, loser), and their weights if present (CatBoost)."""
    numbers = read_numbers(path, "pairs", columns=(2, 3))
    whole = numbers[:, :2]
    bad = (whole != np.floor(whole)) | (whole < 0) | (whole >= rows)
    if bad.any():
        row = int(np.flatnonzero(bad.any(axis=1))[0])
        raise ValueError(
            f"{path}: pair {row + 1} names row {whole[row][bad[row]][0]:g}; rows are numbered "
            f"0 to {rows - 1}"
        )
    return whole.astype(np.int64), numbers[:, 2].copy() if numbers.shape[1] == 3 else None


def identifiers(texts: list[str]) -> Array:
    """Return identifiers as integers if all are written as such, else as text.

    >>> identifiers(["7", "12"]), identifiers(["7", "q12"])
    (array([ 7, 12]), array(['7', 'q12'], dtype=object))
    """
    distinct = set(texts)
    if all(re.fullmatch(r"0|-?[1-9][0-9]{0,17}", text) for text in distinct):
        return np.array([int(text) for text in texts], np.int64)
    same = {text: text for text in distinct}  # one object for all rows of a query
    return object_array(same[text] for text in texts)
