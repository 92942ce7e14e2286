"""Files read a block at a time, for tables that memory does not hold (see `precede.files.disk`)."""

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

from precede.files.disk import DiskTable, Padded, write_table
from precede.files.letor import MOST_FEATURES, Lines, read_letor
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
    categorical_features: Sequence[int | str] | None = None,
    n_jobs: int | None = None,
    **reading: Any,
) -> tuple[DiskTable, Data]:
    r"""Write the rows of a file as a table on disk, without ever holding all of them.

    Parameters
    ----------
    target : where to write the table
    path : a LETOR, CSV, TSV or parquet file
    max_bins, categorical_features, n_jobs : as for `write_table`
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
    DiskTable(2 rows, 2 features, 2 rows compared)
    """
    # How many features a LETOR file has is known at its end only. `write_table` puts the raw
    # values into a temporary file in any case, and can leave the columns that a block lacks out
    # of it, so the text is parsed once.
    blocks = _blocks(path, n_jobs=n_jobs, padded=True, **reading)
    first = next(blocks)
    names = first.feature_names

    def rows() -> Iterator[tuple[Any, ...]]:
        nonlocal names
        for each in chain([first], blocks):
            if isinstance(names, Numbered) and isinstance(each.feature_names, Numbered):
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
    size : bytes of text of a block; 16 MiB of LETOR, 1 MiB and more of CSV and TSV, of which no
        line may be longer; parquet files are read in blocks of 4 million cells
    format, roles, header, groups, weights, n_jobs : as for `precede.files.read`
    pairs : refused, also if there is a file of pairs: they may join rows of any blocks

    Notes
    -----
    O(bytes) time. A LETOR file is read twice, as how many features it has is known at its end
    only (`table_of_file` reads it once). A block takes some times `size` of memory; sizes of
    queries and weights that stand in files of their own take eight bytes a row.

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
    """Carry out `read_blocks`; if `padded`, the X of LETOR files are `Padded`."""
    if side_file(pairs, path, ".pairs") is not None:
        raise ValueError(
            f"{path} comes with listed pairs, which may join rows of any blocks; read it as a "
            "whole, or call write_table with pairs"
        )
    with opened(path) as stream:
        known = format_of(format, path, stream)
    if known == "letor":
        blocks = (_padded if padded else _letor)(path, size or BLOCK, n_jobs)
    elif known == "parquet":
        blocks = _parquet(path, roles or Roles())
    else:
        blocks = _cells(path, size, Layout(known, roles or Roles(), header))
    yield from _with_sides(blocks, path, groups, weights)


def _lines(path: Name, size: int, n_jobs: int | None) -> Iterator[tuple[Lines, int, int]]:
    """Blocks of a LETOR file, and the first and the end of the features known so far."""
    before = rows = last = 0
    first = MOST_FEATURES
    with opened(path) as stream:
        while lines := stream.readlines(size):
            if any(line.split() and line.lstrip()[:1] != b"#" for line in lines):
                text: Any = io.BufferedReader(io.BytesIO(b"".join(lines)))
                part = read_letor(text, str(path), line=before, n_jobs=n_jobs)
                first, last = min(first, part.first), max(last, part.first + part.X.shape[1])
                rows = max(rows, part.grade.size)
                if rows * (last - first) > MOST_CELLS:
                    raise ValueError(
                        f"{path} has {last - first} features, too many for blocks without gaps; "
                        "read it as a whole, which leaves zeros out"
                    )
                yield part, first, last
            before += len(lines)
    if not rows:
        raise ValueError(f"{path} holds no line of data")


def _padded(path: Name, size: int, n_jobs: int | None) -> Iterator[Data]:
    """Blocks of a LETOR file, each with the features that it has."""
    for part, _, _ in _lines(path, size, n_jobs):
        X = part.X.toarray() if scipy.sparse.issparse(part.X) else part.X
        names = Numbered(part.first, part.first + X.shape[1])
        yield Data(Padded(X, part.first), y=part.grade, qid=part.qid, feature_names=names,
                   zeros=True)  # fmt: skip


def _letor(path: Name, size: int, n_jobs: int | None) -> Iterator[Data]:
    """Blocks of a LETOR file, all with the features of the whole file."""
    first, last = [(first, last) for _, first, last in _lines(path, size, n_jobs)][-1]
    names = Numbered(first, last)
    for data in _padded(path, size, n_jobs):
        X = np.zeros((len(data), last - first))
        begin = data.X.first - first
        X[:, begin : begin + data.X.shape[1]] = data.X.values
        yield replace(data, X=X, feature_names=names)


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
    known_rows: dict[str, int] = {}  # how many rows the files know of
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
        here = np.arange(rows, rows + len(block))
        rows += len(block)
        for name, known in known_rows.items():
            if known < rows:
                raise ValueError(f"{path} has more rows than the file of its {name} covers")
        parts: dict[str, Any] = {name: column(here) for name, column in columns.items()}
        yield replace(block, **parts)
    for name, known in known_rows.items():
        if known != rows:
            raise ValueError(f"{path} has {rows} rows, and the file of its {name} {known}")
