"""Files read a block at a time, for tables that memory does not hold (see `precede.files.disk`)."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from precede.files.disk import DiskTable, write_table
from precede.files.letor import read_letor
from precede.files.pages import Numbered
from precede.files.streams import opened
from precede.files.tables import (
    Data,
    Layout,
    Roles,
    format_of,
    parquet_parts,
    read_numbers,
    read_sizes,
    side_file,
)

__all__ = ["read_blocks", "table_of_file"]

Name = str | os.PathLike[str]

# Bytes of text of a LETOR file read at a time.
BLOCK = 1 << 24
# A block of more numbers than this is refused.
MOST_CELLS = 1 << 30


def table_of_file(
    target: Name,
    path: Name,
    *,
    max_bins: int = 255,
    n_jobs: int | None = None,
    **reading: Any,
) -> tuple[DiskTable, Data]:
    r"""Write the rows of a file as a table on disk, without ever holding all of them.

    Parameters
    ----------
    target : where to write the table
    path : a LETOR, CSV, TSV or parquet file
    max_bins, n_jobs : as for `write_table`
    reading : as for `read_blocks`

    Returns
    -------
    The table, and data without rows that know the names of the features.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     name = pathlib.Path(folder, "train.txt")
    ...     _ = name.write_text("1 qid:3 1:0.5\n0 qid:3 2:2\n")
    ...     table_of_file(pathlib.Path(folder, "train.table"), name)[0]
    DiskTable(2 rows, 2 features, 2 places)
    """
    blocks = read_blocks(path, n_jobs=n_jobs, **reading)
    first = next(blocks)
    rows = ((each.X, each.y, each.qid, each.weight) for each in chain([first], blocks))
    table = write_table(target, rows, max_bins=max_bins, n_jobs=n_jobs)
    return table, replace(first, X=first.X[:0], y=None, qid=None, docid=None, weight=None)


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
    size : bytes of text of a block; 16 MiB of LETOR, 1 MiB and more of CSV and TSV, of which no
        line may be longer; parquet files are read in blocks of 4 million cells
    format, roles, header, groups, weights, n_jobs : as for `precede.files.read`
    pairs : refused, also where they stand beside the file: they join rows of any blocks

    Notes
    -----
    O(bytes) time. A LETOR file is read twice: how many features it has is known at its end
    only. A block takes some times `size` of memory; sizes of queries and weights that stand in
    files of their own take eight bytes a row.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     name = pathlib.Path(folder, "train.txt")
    ...     _ = name.write_text("1 qid:3 1:0.5\n0 qid:3 2:2\n")
    ...     [block.X.tolist() for block in read_blocks(name, size=10)]
    [[[0.5, 0.0]], [[0.0, 2.0]]]
    """
    if side_file(pairs, path, ".pairs") is not None:
        raise ValueError(
            f"{path} comes with listed pairs, which may join rows of any blocks; read it as a "
            "whole, or call write_table with pairs"
        )
    with opened(path) as stream:
        known = format_of(format, path, stream)
    if known == "letor":
        blocks = _letor(path, size or BLOCK, n_jobs)
    elif known == "parquet":
        blocks = _parquet(path, roles or Roles())
    else:
        blocks = _cells(path, size, Layout(known, roles or Roles(), header))
    yield from _with_sides(blocks, path, groups, weights)


def _letor(path: Name, size: int, n_jobs: int | None) -> Iterator[Data]:
    def parsed() -> Iterator[Any]:
        with opened(path) as stream:
            while lines := stream.readlines(size):
                text = b"".join(lines)
                if any(line.split() and line.lstrip()[:1] != b"#" for line in lines):
                    part: Any = io.BufferedReader(io.BytesIO(text))
                    yield read_letor(part, str(path), n_jobs=n_jobs)

    ends = [(lines.first, lines.first + lines.X.shape[1]) for lines in parsed()]
    if not ends:
        raise ValueError(f"{path} holds no line of data")
    first, last = min(low for low, _ in ends), max(high for _, high in ends)
    names = Numbered(first, last)
    for lines in parsed():
        if lines.grade.size * (last - first) > MOST_CELLS:
            raise ValueError(
                f"{path} has {last - first} features, too many for blocks without gaps; read it as "
                "a whole, which leaves zeros out"
            )
        X = np.zeros((lines.grade.size, last - first))
        part = lines.X.toarray() if scipy.sparse.issparse(lines.X) else lines.X
        X[:, lines.first - first : lines.first - first + part.shape[1]] = part
        yield Data(X, y=lines.grade, qid=lines.qid, feature_names=names, zeros=True)


def _cells(path: Name, size: int | None, layout: Layout) -> Iterator[Data]:
    with opened(path) as stream:
        for part in layout.named(stream, str(path)).parts(stream, size):
            yield replace(part.data(str(path)), docid=None)


def _parquet(path: Name, roles: Roles) -> Iterator[Data]:
    with opened(path) as stream:
        for part in parquet_parts(stream, path, roles, blocks=True):
            yield replace(part.data(str(path)), docid=None)


def _with_sides(
    blocks: Iterator[Data], path: Name, groups: Name | None, weights: Name | None
) -> Iterator[Data]:
    """Add queries and weights that stand in files of their own."""
    first = next(blocks, None)
    if first is None:
        raise ValueError(f"{path} holds no line of data")
    told: dict[str, int] = {}  # how many rows the files know of
    columns: dict[str, Callable[[NDArray[np.int64]], Any]] = {}
    if first.qid is None and (name := side_file(groups, path, ".query", ".group")) is not None:
        ends = np.cumsum(read_sizes(name))
        told["qid"] = int(ends[-1])
        columns["qid"] = partial(np.searchsorted, ends, side="right")
    if first.weight is None and (name := side_file(weights, path, ".weight")) is not None:
        weight = read_numbers(name, "weights")[:, 0].copy()
        told["weight"] = weight.size
        columns["weight"] = weight.take
    rows = 0
    for block in chain([first], blocks):
        here = np.arange(rows, rows + len(block))
        rows += len(block)
        for name, known in told.items():
            if known < rows:
                raise ValueError(f"{path} has more rows than the file of its {name} tells of")
        parts: dict[str, Any] = {name: column(here) for name, column in columns.items()}
        yield replace(block, **parts)
    for name, known in told.items():
        if known != rows:
            raise ValueError(f"{path} has {rows} rows, and the file of its {name} {known}")
