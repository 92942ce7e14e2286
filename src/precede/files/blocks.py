"""Read files in blocks of rows, for data larger than memory (see `precede.files.disk`)."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from precede.files.disk import DiskTable, PaddedBlock, write_table
from precede.files.letor import MAX_FEATURES, LetorRows, read_letor
from precede.files.streams import opened
from precede.files.tables import (
    Data,
    DelimitedFormat,
    Roles,
    format_of,
    parquet_blocks,
    read_numbers,
    read_sizes,
    side_file,
)
from precede.files.text import NumberedNames

Name = str | os.PathLike[str]

LETOR_BLOCK_BYTES = 1 << 24  # of text, read at a time
MAX_BLOCK_CELLS = 1 << 30


def write_table_of_file(
    target: Name,
    path: Name,
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
    # The number of features of a LETOR file is known only at its end. `write_table` spools the
    # raw values anyway and fills in columns that a block lacks, so the text is parsed once.
    blocks = _blocks(path, n_jobs=n_jobs, padded=True, **reading)
    first = next(blocks)
    names = first.feature_names

    def rows() -> Iterator[tuple[Any, ...]]:
        nonlocal names
        for each in chain([first], blocks):
            if isinstance(names, NumberedNames) and isinstance(each.feature_names, NumberedNames):
                names = names | each.feature_names
            yield each.X, each.y, each.qid, each.weight

    table = write_table(
        target, rows(), max_bins=max_bins, categorical_features=categorical_features, n_jobs=n_jobs
    )
    known = Data(np.empty((0, len(names))), feature_names=names, zeros=first.zeros)
    return table, known


def read_blocks(
    path: Name,
    *,
    size: int | None = None,
    format: str | None = None,
    roles: Roles | None = None,
    header: bool = True,
    groups: Name | None = None,
    weights: Name | None = None,
    pairs: Name | None = None,
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
    ...     [block.X.tolist() for block in read_blocks(name, size=10)]
    [[[0.5, 0.0]], [[0.0, 2.0]]]
    """
    return _blocks(
        path, padded=False, size=size, n_jobs=n_jobs, groups=groups, weights=weights,
        pairs=pairs, format=format, roles=roles, header=header,
    )  # fmt: skip


def _blocks(
    path: Name, *, padded: bool, size: int | None = None, n_jobs: int | None = None,
    groups: Name | None = None, weights: Name | None = None, pairs: Name | None = None,
    format: str | None = None, roles: Roles | None = None, header: bool = True,
) -> Iterator[Data]:  # fmt: skip
    """Yield the blocks of a file; if `padded`, X of a LETOR file is a `PaddedBlock`."""
    if side_file(pairs, path, ".pairs") is not None:
        raise ValueError(
            f"{path} comes with listed pairs, which may join rows of any blocks; read it as a "
            "whole, or call write_table with pairs"
        )
    with opened(path) as stream:
        known = format_of(format, path, stream)
    if known == "letor":
        blocks = (_padded_letor if padded else _whole_letor)(
            path, size or LETOR_BLOCK_BYTES, n_jobs
        )
    elif known == "parquet":
        blocks = _parquet(path, roles or Roles())
    else:
        blocks = _delimited(path, size, DelimitedFormat(known, roles or Roles(), header))
    yield from _with_side_files(blocks, path, groups, weights)


def _letor_chunks(
    path: Name, size: int, n_jobs: int | None
) -> Iterator[tuple[LetorRows, int, int]]:
    """Yield blocks of a LETOR file, with the range of the feature numbers found so far."""
    lines_before = rows = last = 0
    first = MAX_FEATURES
    with opened(path) as stream:
        while lines := stream.readlines(size):
            if any(line.split() and line.lstrip()[:1] != b"#" for line in lines):
                text: Any = io.BufferedReader(io.BytesIO(b"".join(lines)))
                part = read_letor(text, str(path), line=lines_before, n_jobs=n_jobs)
                first, last = min(first, part.first), max(last, part.first + part.X.shape[1])
                rows = max(rows, part.grade.size)
                if rows * (last - first) > MAX_BLOCK_CELLS:
                    raise ValueError(
                        f"{path} has {last - first} features, too many for blocks without gaps; "
                        "read it as a whole, which leaves zeros out"
                    )
                yield part, first, last
            lines_before += len(lines)
    if not rows:
        raise ValueError(f"{path} holds no line of data")


def _padded_letor(path: Name, size: int, n_jobs: int | None) -> Iterator[Data]:
    """Yield blocks of a LETOR file, each with the features that occur in it."""
    for part, _, _ in _letor_chunks(path, size, n_jobs):
        X = part.X.toarray() if scipy.sparse.issparse(part.X) else part.X
        names = NumberedNames(part.first, part.first + X.shape[1])
        yield Data(PaddedBlock(X, part.first), y=part.grade, qid=part.qid, feature_names=names,
                   zeros=True)  # fmt: skip


def _whole_letor(path: Name, size: int, n_jobs: int | None) -> Iterator[Data]:
    """Yield blocks of a LETOR file, all with the features of the whole file."""
    first, last = [(first, last) for _, first, last in _letor_chunks(path, size, n_jobs)][-1]
    names = NumberedNames(first, last)
    for data in _padded_letor(path, size, n_jobs):
        X = np.zeros((len(data), last - first))
        begin = data.X.first - first
        X[:, begin : begin + data.X.shape[1]] = data.X.values
        yield replace(data, X=X, feature_names=names)


def _delimited(path: Name, size: int | None, layout: DelimitedFormat) -> Iterator[Data]:
    with opened(path) as stream:
        for part in layout.read_header(stream, str(path)).blocks(stream, size):
            yield replace(part.data(str(path)), docid=None)


def _parquet(path: Name, roles: Roles) -> Iterator[Data]:
    with opened(path) as stream:
        for part in parquet_blocks(stream, path, roles, blocks=True):
            yield replace(part.data(str(path)), docid=None)


def _with_side_files(
    blocks: Iterator[Data], path: Name, groups: Name | None, weights: Name | None
) -> Iterator[Data]:
    """Add queries and weights from side files."""
    first = next(blocks, None)
    if first is None:
        raise ValueError(f"{path} holds no line of data")
    known_rows: dict[str, int] = {}  # rows that each side file covers
    columns: dict[str, Callable[[NDArray[np.int64]], Any]] = {}
    if first.qid is None and (name := side_file(groups, path, ".query", ".group")) is not None:
        ends = np.cumsum(read_sizes(name))
        known_rows["qid"] = int(ends[-1])
        columns["qid"] = partial(np.searchsorted, ends, side="right")
    if first.weight is None and (name := side_file(weights, path, ".weight")) is not None:
        weight = read_numbers(name, "weights")[:, 0].copy()
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
