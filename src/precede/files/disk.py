"""Tables larger than memory: bin codes in a folder, written in blocks and memory-mapped.

::

    train.table/
        table.json    shapes, names, totals; dtype, shape and checksum of every member
        codes.npy     one byte per cell, feature by feature
        order.npy, level_start.npy, grade.npy, cuts.npy, ...

Every member is a plain NumPy file: ``numpy.load(member, mmap_mode="r")`` reads it. The codes are
in the order of the query layout, with the cut points of `Table.build`, so a fit from the folder
equals a fit from memory bit for bit. Memory for writing: one block of rows and a few numbers per
row; for fitting: a few numbers per row and a few columns of codes.
"""

from __future__ import annotations

import ctypes
import io
import json
import math
import mmap
import os
import shutil
import sys
import tempfile
import threading
import zlib
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path
from reprlib import repr as shown
from typing import Any, BinaryIO, ClassVar, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from precede.engine.arrays import Array, Floats
from precede.engine.execution import Context
from precede.engine.frames import column_names, refuse_text_in_blocks
from precede.engine.parameters import check_integer
from precede.engine.query_layout import (
    BALANCES,
    QueryLayout,
    TrainingData,
    check_balance,
    layouts,
    why_no_pair,
)
from precede.engine.table import (
    MAX_BINS,
    MAX_CATEGORIES,
    Bins,
    FeatureBins,
    Table,
    integer_weights,
    mix_codes,
)
from precede.files.streams import flush_folder
from precede.judgments import (
    Judgments,
    column_numbers,
    number_queries,
    numeric_grades,
    sample_weights,
    two_grades,
)

FORMAT = 4
METADATA_FILE = "table.json"
CODES = "codes"
MAX_HEADER_BYTES = 1 << 12  # of a member
CHECKSUM_CHUNK_BYTES = 1 << 20
MEMBER_DTYPES = {
    "order": "<i8",
    "level_start": "<i8",
    "query_start": "<i8",
    "grade": "<f8",
    "weight": "<f8",
    "loser_weight": "<f8",
    "loser_weight_of_items": "<f8",
    "winner": "<i8",
    "loser": "<i8",
    "pair_weight": "<f8",
    "cuts": "<f8",
    "cut_start": "<i8",
    "low": "<f8",
    "high": "<f8",
    "has_missing": "|u1",
    "category_feature": "<i8",
    "category_start": "<i8",
    "categories": "<f8",
}
# An additional member if there are queries and rows that occur only in explicit pairs: the query
# numbers of these rows.
EXPLICIT_PAIR_QUERY = "listed_query"
# Members with one number for each row, which stay memory-mapped.
ROW_MEMBERS = ("order", "grade", "weight", "loser_weight", "loser_weight_of_items")
# Member of the loser weights and name of their total, by balance.
LOSER_WEIGHTS = {
    "pairs": ("weight", "total"),
    "queries": ("loser_weight", "balanced_total"),
    "items": ("loser_weight_of_items", "items_total"),
}


# -- writing ---------------------------------------------------------------------------------


def write_table(
    path: str | os.PathLike[str],
    blocks: Iterable[Sequence[Any]],
    *,
    max_bins: int = MAX_BINS,
    pairs: ArrayLike | None = None,
    pair_weight: ArrayLike | None = None,
    feature_names: Sequence[str] | None = None,
    categorical_features: Sequence[int | str] | None = None,
    n_jobs: int | None = None,
) -> DiskTable:
    """Write blocks of rows as a table of bin codes, holding one block at a time in memory.

    Parameters
    ----------
    path : folder to write; it appears when it is complete and replaces a table of that name
    blocks : iterable of (X, y), (X, y, qid) or (X, y, qid, sample_weight)
        X is an array, data frame or sparse matrix of some rows; a query may be spread over
        several blocks. Each block is read once and then released.
    max_bins : maximum number of bins, as for the estimators that will be fitted
    pairs, pair_weight : as for `fit`; row numbers count from the first row of the first block
    feature_names : names of the columns, if the blocks are not data frames
    categorical_features : numbers or names of the columns that hold categories, as whole numbers
        from 0. Text and columns of a categorical type are refused, because their numbering could
        differ between blocks.
    n_jobs : threads

    Notes
    -----
    The raw values go to a temporary file next to the table (eight or four bytes per cell); then
    each column is read back and binned in O(n log n) time, with exactly the cut points of a fit in
    memory. Memory: one block, and about 200 bytes per row with one thread (each further thread
    adds about 40 bytes per row).

    Examples
    --------
    >>> import numpy as np, os, tempfile
    >>> from precede import RankBoost, write_table
    >>> X, y = np.arange(12.0).reshape(6, 2), np.array([0, 0, 1, 0, 1, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "train.table")
    ...     table = write_table(path, ((X[rows], y[rows]) for rows in np.split(np.arange(6), 3)))
    ...     model = RankBoost(step="bound", n_estimators=3).fit(table)
    >>> table
    DiskTable(6 rows, 2 features, 6 rows compared)
    >>> in_memory = RankBoost(step="bound", n_estimators=3).fit(X, y)
    >>> model.ensemble_.weights == in_memory.ensemble_.weights
    True
    """
    check_integer("max_bins", max_bins, least=2, most=MAX_BINS)
    if not isinstance(blocks, Iterable):
        raise ValueError(f"blocks={blocks!r}: give an iterable of (X, y) or longer tuples")
    if feature_names is not None and (
        isinstance(feature_names, str) or not isinstance(feature_names, Iterable)
    ):
        raise ValueError(f"feature_names={feature_names!r}: give one name for each feature")
    target = Path(path).resolve()
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{path}: the folder {target.parent} does not exist")
    if target.is_dir() and any(target.iterdir()) and not (target / METADATA_FILE).is_file():
        raise ValueError(f"{path} is a folder that holds something else; choose another name")
    temporary = target.parent / f".{target.name}.{os.getpid()}.{threading.get_ident()}"
    try:
        temporary.mkdir()
        with tempfile.TemporaryFile(dir=target.parent) as spooled, Context(n_jobs) as context:
            spool = _Spool(spooled, None if feature_names is None else list(feature_names))
            for block in blocks:
                spool.add(block)
            judgments, classes = spool.target(pairs, pair_weight)
            categorical = column_numbers(categorical_features, spool.names, spool.features)
            _Writer(temporary, spool, context, int(max_bins), categorical).write(judgments, classes)
        _replace_folder(temporary, target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return DiskTable(target, verify=False)


def _replace_folder(temporary: Path, target: Path) -> None:
    """Rename a complete folder to `target`, and only then delete the folder it replaces."""
    flush_folder(temporary)
    if not target.exists():
        os.rename(temporary, target)
    elif _swap_names(temporary, target):
        shutil.rmtree(temporary) if temporary.is_dir() else temporary.unlink()
    else:  # not atomic: for a moment there is no table
        aside = temporary.with_name(f"{temporary.name}.old")
        os.rename(target, aside)
        try:
            os.rename(temporary, target)
        except BaseException:
            os.rename(aside, target)
            raise
        if aside.is_dir():
            shutil.rmtree(aside)
        else:
            aside.unlink()
    flush_folder(target.parent)


def _swap_names(one: Path, other: Path) -> bool:
    """Exchange two names atomically; return False if the system cannot."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    at_fdcwd, rename_exchange = -100, 2
    arguments = at_fdcwd, os.fsencode(one), at_fdcwd, os.fsencode(other), rename_exchange
    return rename is not None and rename(*arguments) == 0


@dataclass(frozen=True, eq=False)
class PaddedBlock:
    """Columns `first`, `first` + 1, ... of a block; its other columns are 0.

    The number of columns of a LETOR file is known only at its end.
    """

    values: Array
    first: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the values."""
        return self.values.shape[0], self.values.shape[1]


class _SpooledBlock(NamedTuple):
    """Position of one block in the temporary file: `width` columns, the first numbered `first`."""

    offset: int
    rows: int
    dtype: np.dtype
    first: int
    width: int


@dataclass
class _Spool:
    """Raw values in a temporary file, and the targets of all blocks in memory."""

    file: Any
    names: list[str] | None
    have_names: bool = False  # whether the blocks have column names
    rows: int = 0
    first: int = 0
    features: int = 0
    blocks: list[_SpooledBlock] = field(default_factory=list)
    grades: list[Floats] = field(default_factory=list)
    labels: list[Array] = field(default_factory=list)
    queries: list[NDArray[np.int64]] = field(default_factory=list)
    weights: list[Floats] = field(default_factory=list)
    query_numbers: dict[Any, int] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.Lock)  # of the file's position

    def add(self, block: Sequence[Any]) -> None:
        """Spool one block of rows; keep its grades, queries and weights."""
        if not isinstance(block, tuple | list) or not 2 <= len(block) <= 4:
            raise ValueError("each block must be (X, y), (X, y, qid) or (X, y, qid, weight)")
        X, y, qid, weight = [*block, None, None][:4]
        first, padded = (X.first, True) if isinstance(X, PaddedBlock) else (0, False)
        X = X.values if isinstance(X, PaddedBlock) else X
        refuse_text_in_blocks(X)
        self._check_names(X)
        values = dense_block(X)
        width, block_number = values.shape[1], len(self.blocks)
        if block_number and not padded and width != self.features:
            raise ValueError(
                f"block {block_number} has {width} features and the first {self.features}"
            )
        if np.isinf(values).any():
            raise ValueError(f"block {block_number} holds infinities; use NaN for missing values")
        self._add_target(y, qid, weight, len(values), block_number)
        self.blocks.append(_SpooledBlock(self.file.tell(), len(values), values.dtype, first, width))
        self.file.write(np.ascontiguousarray(values.T).data)
        self.rows += len(values)
        end = max(self.first + self.features, first + width)
        self.first = min(self.first, first) if block_number else first
        self.features = end - self.first

    def _add_target(self, y: Any, qid: Any, weight: Any, rows: int, block_number: int) -> None:
        grade, label = numeric_grades(y, block_number)
        lengths = {"y": grade.size}
        if block_number and (qid is None) != (not self.queries):
            raise ValueError(f"block {block_number} differs from the first in having a qid or none")
        if block_number and (weight is None) != (not self.weights):
            raise ValueError(
                f"block {block_number} differs from the first in having weights or none"
            )
        if qid is not None:
            block_queries = Judgments(qid=qid)  # checks the identifiers
            names, first_rows = np.unique(block_queries._query(), return_index=True)
            identifiers = names if block_queries.qid is None else block_queries.qid[first_rows]
            known = self.query_numbers
            numbers = [known.setdefault(name, len(known)) for name in identifiers.tolist()]
            self.queries.append(np.array(numbers, np.int64)[block_queries._query()])
            lengths["qid"] = self.queries[-1].size
        if weight is not None:
            name = f"sample_weight of block {block_number}"
            self.weights.append(np.asarray(sample_weights(weight, rows, name)))
        for name, length in lengths.items():
            if length != rows:
                raise ValueError(
                    f"{name} of block {block_number} has {length} values for {rows} rows"
                )
        self.grades.append(grade)
        self.labels.append(np.unique(label))

    def _check_names(self, X: Any) -> None:
        columns = column_names(X)
        if self.blocks and (columns is None) == self.have_names:
            raise ValueError(
                f"block {len(self.blocks)} differs from the first in having column names or none; "
                "give every block as the same kind of table"
            )
        self.have_names = columns is not None
        if columns is None:
            return
        names = [str(name) for name in columns]
        if self.names is not None and names != self.names:
            raise ValueError(
                f"the columns of block {len(self.blocks)} are not those of the first; "
                "give every block the same columns in the same order"
            )
        self.names = names

    def target(
        self, pairs: ArrayLike | None, pair_weight: ArrayLike | None
    ) -> tuple[Judgments, list[Any] | None]:
        """Return the judgments of all rows, and the two classes of a binary target or None."""
        if not self.rows:
            raise ValueError("there are no rows: the blocks are empty")
        if self.names is not None and len(self.names) != self.features:
            raise ValueError(f"{len(self.names)} feature names for {self.features} features")
        query = None
        if self.queries:  # renumber by identifier instead of first occurrence
            query = number_queries(list(self.query_numbers))[0][np.concatenate(self.queries)]
        judgments = Judgments(
            np.concatenate(self.grades),
            query,
            pairs=pairs,
            pair_weight=pair_weight,
            weight=np.concatenate(self.weights) if self.weights else None,
        )
        classes = two_grades(judgments, np.concatenate(self.labels))
        return judgments, None if classes is None else classes.tolist()

    def column(self, feature: int, order: NDArray[np.int64]) -> Floats:
        """Return the raw values of one feature in the order of the layout."""
        column = np.zeros(self.rows)
        start = 0
        for block in self.blocks:
            end, offset = start + block.rows, self.first + feature - block.first
            if 0 <= offset < block.width:
                size = block.rows * block.dtype.itemsize
                with self.lock:
                    self.file.seek(block.offset + offset * size)
                    read = self.file.read(size)
                column[start:end] = np.frombuffer(read, block.dtype)
            start = end
        return column[order]


def dense_block(X: Any) -> Array:
    """Return a block as a dense float64 or float32 array, with NaN for missing values."""
    if scipy.sparse.issparse(X):
        values = X.toarray()
    elif _has_nullable_dtypes(X):
        values = X.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        values = np.asarray(X)
    if values.ndim != 2:
        raise ValueError(f"X of a block has shape {values.shape}; it must have two dimensions")
    if values.dtype not in (np.float64, np.float32):
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"X must be numbers, but {error}") from error
    return values


def _has_nullable_dtypes(X: Any) -> bool:
    """Return whether a pandas data frame has extension dtypes with NA."""
    kinds = getattr(X, "dtypes", ())
    return hasattr(X, "to_numpy") and any(hasattr(kind, "na_value") for kind in kinds)


@dataclass
class _Writer:
    """Bins the spooled columns and writes the members of a table to a folder."""

    folder: Path
    spool: _Spool
    context: Context
    max_bins: int
    categorical: Sequence[int]
    members: dict[str, dict[str, Any]] = field(default_factory=dict)

    def write(self, judgments: Judgments, classes: list[Any] | None) -> None:
        by_balance = dict(zip(BALANCES, layouts(judgments, BALANCES), strict=True))
        layout = by_balance["pairs"]
        if layout.total <= 0:
            raise ValueError(why_no_pair(judgments))
        loser_weight = {
            LOSER_WEIGHTS[name][0]: by_balance[name].loser_weight for name in ("queries", "items")
        }
        totals = {LOSER_WEIGHTS[name][1]: each.total for name, each in by_balance.items()}
        del by_balance
        path = self._path(CODES)
        header = _npy_header("|u1", (self.spool.features, layout.n_used_rows))
        with open(path, "x+b") as file:
            file.write(header)
            bins, keys = self._encode(layout, file)
            layout, old = layout.reorder(keys)
            checksum = self._reorder(old, file, header)
            file.flush()
            os.fsync(file.fileno())
        self._record_member(CODES, "|u1", (self.spool.features, old.size), checksum)
        for name in loser_weight:
            loser_weight[name] = loser_weight[name][old]
        extra: dict[str, Array] = dict(loser_weight)
        explicit = layout.order[layout.n_graded :]
        if judgments.qid is not None and explicit.size:
            extra[EXPLICIT_PAIR_QUERY] = np.unique(
                judgments._query()[explicit], return_inverse=True
            )[1]
        self._write_arrays(layout, extra, bins)
        fields = {
            "format": FORMAT,
            "features": self.spool.features,
            "rows": self.spool.rows,
            "arranged": layout.n_used_rows,
            "max_bins": self.max_bins,
            "names": self.spool.names,
            "classes": classes,
            **totals,
            "pair_count": layout.pair_count,
            "members": self.members,
        }
        with open(self.folder / METADATA_FILE, "xb") as file:
            file.write(_encode_metadata(fields))
            file.flush()
            os.fsync(file.fileno())

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.npy"

    def _record_member(self, name: str, kind: str, shape: tuple[int, ...], checksum: int) -> None:
        self.members[name] = {"kind": kind, "shape": list(shape), "checksum": checksum}

    def _encode(self, layout: QueryLayout, file: BinaryIO) -> tuple[Bins, NDArray[np.uint64]]:
        """Bin every column as `Table.build` does, and write its codes to the file."""
        order, weight = layout.order, integer_weights(layout.weight)
        keys = layout.weight.astype(np.float64).view(np.uint64).copy()
        chosen: list[FeatureBins] = []
        codes = np.empty((self.context.jobs, order.size), np.uint8)

        def bin_columns(low: int, high: int, first: int) -> list[FeatureBins]:
            chunk = []
            for feature in range(first + low, first + high):
                values = self.spool.column(feature, order)
                named = feature in self.categorical
                bins = FeatureBins.choose(
                    values, weight, self.max_bins, feature=feature, categorical=named
                )
                bins.encode(values, codes[feature - first])
                chunk.append(bins)
            return chunk

        for first in range(0, self.spool.features, len(codes)):
            width = min(len(codes), self.spool.features - first)
            chosen += chain(*self.context.map(bin_columns, width, first))
            self.context.run(mix_codes, order.size, codes[:width], keys)
            file.write(codes[:width].data)
        return Bins.of(chosen), keys

    def _reorder(self, old: NDArray[np.int64], file: BinaryIO, header: bytes) -> int:
        """Permute the rows of every column; return the checksum of the file."""
        checksum = zlib.crc32(header)
        for feature in range(self.spool.features):
            file.seek(len(header) + feature * old.size)
            column = np.frombuffer(file.read(old.size), np.uint8)[old]
            checksum = zlib.crc32(column.data, checksum)
            file.seek(len(header) + feature * old.size)
            file.write(column.data)
        return checksum

    def _write_arrays(self, layout: QueryLayout, extra: dict[str, Array], bins: Bins) -> None:
        arrays = {
            name: getattr(layout, name) for name in MEMBER_DTYPES if hasattr(layout, name)
        } | {
            **extra,
            "cuts": np.concatenate(bins.cuts),
            "cut_start": _offsets(bins.cuts),
            "low": bins.low,
            "high": bins.high,
            "has_missing": bins.has_missing,
            "category_feature": np.array([*bins.categories]),
            "category_start": _offsets([*bins.categories.values()]),
            "categories": np.concatenate([np.empty(0), *bins.categories.values()]),
        }
        for name, kind in _member_dtypes(extra).items():
            array = np.ascontiguousarray(arrays[name], dtype=kind)
            header = _npy_header(kind, array.shape)
            with open(self._path(name), "xb") as file:
                file.write(header)
                file.write(array.data)
                file.flush()
                os.fsync(file.fileno())
            checksum = zlib.crc32(array.data, zlib.crc32(header))
            self._record_member(name, kind, array.shape, checksum)


def _member_dtypes(members: Container[str]) -> dict[str, str]:
    """Return the dtypes of all members but the codes."""
    extra = {EXPLICIT_PAIR_QUERY: "<i8"} if EXPLICIT_PAIR_QUERY in members else {}
    return MEMBER_DTYPES | extra


def _offsets(parts: Sequence[Array]) -> NDArray[np.int64]:
    """Return the n + 1 offsets of n concatenated arrays."""
    return np.cumsum([0, *(part.size for part in parts)])


def _split_at(whole: Array, starts: NDArray[np.int64]) -> list[Array] | None:
    """Return copies of the concatenated arrays; None if the offsets are invalid."""
    good = starts.size and starts[0] == 0 and bool((starts[1:] >= starts[:-1]).all())
    if not good or starts[-1] != whole.size:
        return None
    return [whole[a:b].copy() for a, b in pairwise(starts)]


def _all_in_range(values: Array, least: float, end: float) -> bool:
    """Return whether all values are in [least, end)."""
    return bool(((values >= least) & (values < end)).all())


def _npy_header(kind: str, shape: tuple[int, ...]) -> bytes:
    """Return the header of a NumPy file."""
    file = io.BytesIO()
    fields = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, fields)
    return file.getvalue()


def _encode_metadata(fields: dict[str, Any]) -> bytes:
    """Return the metadata as JSON, with the checksum of the text without it."""
    checksum = zlib.crc32(json.dumps(fields, indent=1).encode())
    return json.dumps({**fields, "checksum": checksum}, indent=1).encode() + b"\n"


# -- reading ---------------------------------------------------------------------------------


class DiskTable:
    """A memory-mapped table that `write_table` wrote; pass it to `fit` in place of X.

    Parameters
    ----------
    path : the folder
    verify : bool
        Whether to check the checksums of all members, as the method `verify` does. The JSON
        file and the small members are always checked, and so are the bounds of all indices
        (codes, row numbers, starts of queries and levels), as compiled code does not check them.

    Attributes
    ----------
    n_rows, n_features : of the data that were written
    n_used_rows : number of rows that occur in a pair; the others are not in the table
    max_bins : maximum number of bins of a feature; a fit must use the same
    feature_names : list of str, or None
    classes : the two classes of a binary target in one list, else None
    categorical_features : numbers of the columns that were written as categories

    Notes
    -----
    The table holds bins, not values: only weak rankers made of thresholds can be fitted. Opening
    reads the folder once, in O(n) memory for n rows; the operating system can reclaim the pages
    that a fit has read. Nothing is unpickled. The folder must not be changed while the table is
    in use; `write_table` to the same name replaces the folder and leaves open tables unchanged.

    Examples
    --------
    >>> import numpy as np, os, tempfile
    >>> from precede import DiskTable, write_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "train.table")
    ...     _ = write_table(path, [(np.eye(3), [0, 1, 1])])
    ...     DiskTable(path).bins.cuts[0]
    array([0.5])
    """

    def __init__(self, path: str | os.PathLike[str], *, verify: bool = True):
        self.path = Path(path)
        while True:
            before = _folder_identity(self.path)
            try:
                self._load(verify)
            except (ValueError, OSError):
                if _folder_identity(self.path) == before:
                    raise
            if _folder_identity(self.path) == before:
                return  # otherwise it was replaced while reading: try again

    def _load(self, verify: bool) -> None:
        fields = _read_metadata(self.path)
        try:
            self._open(fields)
            for name in ROW_MEMBERS if verify else ():
                self._check_checksum(name)
            self._check_layout()
            self._check_numbers()
            self._check_codes(verify)
        except (KeyError, TypeError, IndexError, OverflowError) as error:
            raise ValueError(f"{self.path} is not a table of precede: {error}") from error

    def _open(self, fields: dict[str, Any]) -> None:
        self._metadata = fields
        for name in ("rows", "arranged", "features"):
            check_integer(f"{self.path}: {name}", fields[name], least=1)
        check_integer(f"{self.path}: max_bins", fields["max_bins"], least=2, most=MAX_BINS)
        self.n_rows, self.n_used_rows = fields["rows"], fields["arranged"]
        self.n_features, self.max_bins = fields["features"], fields["max_bins"]
        for name in ("total", "balanced_total", "items_total", "pair_count"):
            if not isinstance(fields[name], float) or not 0 < fields[name] < np.inf:
                raise ValueError(f"{self.path}: {name}={fields[name]!r} is not a positive number")
        self._open_names(fields["names"], fields["classes"])
        self._members = {CODES: self._map_member(CODES, "|u1", 2)}
        kinds = _member_dtypes(fields["members"])
        self._members |= {name: self._map_member(name, kind, 1) for name, kind in kinds.items()}
        self._codes = self._members[CODES].array
        self._arrays = {name: self._members[name].array for name in kinds}
        for name in kinds:
            if name not in ROW_MEMBERS:
                self._check_checksum(name)
                self._arrays[name] = self._arrays[name].copy()
        self.bins = self._open_bins()

    def _open_names(self, names: Any, classes: Any) -> None:
        if names is not None and not (
            isinstance(names, list) and all(isinstance(name, str) for name in names)
        ):
            raise ValueError(f"{self.path}: the names of the features are not a list of texts")
        if names is not None and len(names) != self.n_features:
            raise ValueError(f"{self.path}: {len(names)} names for {self.n_features} features")
        self.feature_names = names
        is_pair = isinstance(classes, list) and len(classes) == 2
        if classes is not None and not (
            is_pair and all(isinstance(c, int | float) and -(2**63) <= c < 2**63 for c in classes)
        ):
            raise ValueError(f"{self.path}: its classes are not two numbers")
        self.classes = None if classes is None else np.array(classes)

    def _open_bins(self) -> Bins:
        cuts = _split_at(self._arrays["cuts"], self._arrays["cut_start"])
        sizes = {self._arrays[name].size for name in ("low", "high", "has_missing")}
        if cuts is None or len(cuts) != self.n_features or sizes != {self.n_features}:
            raise ValueError(f"{self.path}: the cuts are not those of {self.n_features} features")
        if max((cut.size for cut in cuts), default=0) >= self.max_bins:
            raise ValueError(f"{self.path}: a feature has more than {self.max_bins} bins")
        missing = self._arrays["has_missing"].astype(bool)
        ends = self._arrays["low"], self._arrays["high"]
        return Bins(tuple(cuts), *ends, missing, self._open_categories(cuts))

    def _open_categories(self, cuts: list[Floats]) -> dict[int, Floats]:
        """Return the categories of each categorical feature, checked."""
        features = self._arrays["category_feature"]
        kept = _split_at(self._arrays["categories"], self._arrays["category_start"])
        valid = kept is not None and len(kept) == features.size
        valid = valid and bool(((features >= 0) & (features < self.n_features)).all())
        if kept is None or not valid or not (np.diff(features) > 0).all():
            raise ValueError(f"{self.path}: the categories are not those of some of its features")
        for feature, each in zip(features.tolist(), kept, strict=True):
            whole = (each == np.floor(each)) & (each >= 0) & (each < MAX_CATEGORIES)
            increasing = bool(whole.all()) and bool((np.diff(each) > 0).all())
            if not increasing or cuts[feature].size != max(each.size - 1, 0):
                raise ValueError(f"{self.path}: the categories of feature {feature} make no sense")
        return dict(zip(features.tolist(), kept, strict=True))

    def _map_member(self, name: str, kind: str, dimensions: int) -> _Member:
        """Map a member; its header and length must agree with the JSON file."""
        entry, path = self._metadata["members"][name], self.path / f"{name}.npy"
        shape = tuple(entry["shape"])
        for length in shape:
            check_integer(f"{self.path}: size of {name}", length, least=0)
        wanted: dict[str, tuple[int, ...]] = {CODES: (self.n_features, self.n_used_rows)}
        wanted |= dict.fromkeys(ROW_MEMBERS, (self.n_used_rows,))
        if entry["kind"] != kind or len(shape) != dimensions or wanted.get(name, shape) != shape:
            raise ValueError(f"{self.path}: {name} is {entry['kind']!r} of shape {shape}")
        if not path.is_file():
            raise ValueError(f"{self.path} is cut short: {path.name} is not there")
        with open(path, "rb") as file:
            begin = _header_length(file, path, np.dtype(kind), shape)
            count = math.prod(shape)
            if os.fstat(file.fileno()).st_size != begin + count * np.dtype(kind).itemsize:
                raise ValueError(f"{path} is cut short or damaged: it has another length")
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return _Member(mapped, begin, np.frombuffer(mapped, kind, count, begin).reshape(shape))

    def verify(self) -> None:
        """Check the checksum of every member; raise a ValueError that names a damaged one."""
        for name in self._members:
            self._check_checksum(name)

    def _check_checksum(self, name: str) -> None:
        member, checksum = self._members[name], 0
        for begin in range(0, len(member.mapped), CHECKSUM_CHUNK_BYTES):
            checksum = zlib.crc32(member.mapped[begin : begin + CHECKSUM_CHUNK_BYTES], checksum)
            member.release(begin, CHECKSUM_CHUNK_BYTES)
        if checksum != self._metadata["members"][name]["checksum"]:
            raise ValueError(f"{self.path} is damaged: {name}.npy has a wrong checksum")

    def _check_layout(self) -> None:
        """Check that starts of queries and levels increase and that pairs are sorted and valid."""
        levels, queries = self._arrays["level_start"], self._arrays["query_start"]
        increasing = all(
            starts.size and starts[0] == 0 and (starts[1:] > starts[:-1]).all()
            for starts in (levels, queries)
        )
        inside = increasing and levels[-1] <= self.n_used_rows and queries[-1] == levels.size - 1
        winner, loser = self._arrays["winner"], self._arrays["loser"]
        inside = inside and winner.size == loser.size == self._arrays["pair_weight"].size
        inside = inside and all(((s >= 0) & (s < self.n_used_rows)).all() for s in (winner, loser))
        same_loser = loser[1:] == loser[:-1]
        is_sorted = (loser[1:] > loser[:-1]) | (same_loser & (winner[1:] > winner[:-1]))
        if not inside or not is_sorted.all() or (winner == loser).any():
            raise ValueError(f"{self.path} is not a table of precede: its runs make no sense")

    def _check_numbers(self) -> None:
        """Check weights, grades, row numbers and cut points."""
        arrays, bins = self._arrays, self.bins
        valid = all(
            _all_in_range(arrays[name], 0.0, np.inf)
            for name in ("loser_weight", "loser_weight_of_items")
        )
        for name in ("weight", "pair_weight"):
            valid = valid and _all_in_range(arrays[name], 0.0, np.inf) and bool(arrays[name].all())
        valid = valid and self._grades_increase()
        explicit = arrays.get(EXPLICIT_PAIR_QUERY)
        rows = self.n_used_rows - int(arrays["level_start"][-1])
        valid = valid and (
            explicit is None or (explicit.size == rows and _all_in_range(explicit, 0, rows))
        )
        valid = valid and _all_in_range(arrays["order"], 0, self.n_rows)
        order = np.sort(arrays["order"])
        valid = valid and bool((order[1:] > order[:-1]).all())
        valid = valid and all(bool((cut[1:] > cut[:-1]).all()) for cut in bins.cuts)
        for cut, low, high in zip(bins.cuts, bins.low, bins.high, strict=True):
            valid = valid and not (abs(low) == np.inf or abs(high) == np.inf or low > high)
            valid = valid and (cut.size == 0 or bool(low <= cut[0] and cut[-1] <= high))
        if not valid or not np.isfinite(arrays["cuts"]).all():
            raise ValueError(f"{self.path} is not a table of precede: its numbers make no sense")

    def _grades_increase(self) -> bool:
        """Return whether grades are equal in a level and increase between levels of a query."""
        levels, queries = self._arrays["level_start"], self._arrays["query_start"]
        # Rows that occur only in explicit pairs come last and have no grade.
        grade = self._arrays["grade"][: levels[-1]]
        increases = grade[1:] > grade[:-1]
        wanted = np.zeros(grade.size, np.int8)  # 0: same level, 1: next level, 2: next query
        wanted[levels[:-1]] = 1
        wanted[levels[queries[:-1]]] = 2
        right = (increases == wanted[1:]) & (increases | (grade[1:] == grade[:-1]))
        return bool(np.isfinite(grade).all() and (right | (wanted[1:] == 2)).all())

    def _check_codes(self, verify: bool) -> None:
        """Check the codes against the bins of their features, and their checksum if `verify`."""
        member, bins = self._members[CODES], self.bins
        checksum = zlib.crc32(member.mapped[: member.begin])
        for feature, column in enumerate(self._codes):
            kept = bins.categories.get(feature)
            limit = bins.cuts[feature].size + 1 if kept is None else kept.size
            missing, highest = bool(bins.has_missing[feature]), -1
            for first in range(0, column.size, CHECKSUM_CHUNK_BYTES):
                part = column[first : first + CHECKSUM_CHUNK_BYTES]
                if verify:
                    checksum = zlib.crc32(part, checksum)
                # Where values may be missing, 255 wraps to 0 and every code c becomes c + 1.
                top = int((part + np.uint8(1)).max()) - 1 if missing else int(part.max())
                highest = max(highest, top)
                member.release(member.begin + feature * column.size + first, CHECKSUM_CHUNK_BYTES)
            if highest >= limit:
                raise ValueError(
                    f"{self.path} is damaged: feature {feature} has the code {highest}, beyond its "
                    f"{limit} bins; write it again"
                )
        if verify and checksum != self._metadata["members"][CODES]["checksum"]:
            raise ValueError(f"{self.path} is damaged: {CODES}.npy has a wrong checksum")

    @property
    def categorical_features(self) -> list[int]:
        """Numbers of the columns whose bins are categories."""
        return list(self.bins.categories)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return self.n_rows, self.n_features

    @property
    def judgments(self) -> Judgments:
        """Judgments of the rows, in the order of the layout."""
        arrays = self._arrays
        first = arrays["level_start"][arrays["query_start"]]
        graded = int(arrays["level_start"][-1])
        query = np.repeat(np.arange(first.size - 1), np.diff(first))
        one_list = graded == 0 and EXPLICIT_PAIR_QUERY not in arrays
        explicit = arrays.get(EXPLICIT_PAIR_QUERY, np.zeros(self.n_used_rows - graded, np.int64))
        pairs = np.stack([arrays["winner"], arrays["loser"]], axis=1)
        return Judgments(
            arrays["grade"],
            None if one_list else np.concatenate([query, first.size - 1 + explicit]),
            pairs=pairs if len(pairs) else None,
            pair_weight=arrays["pair_weight"] if len(pairs) else None,
            weight=arrays["weight"],
        )

    def training(
        self, *, balance: str, max_bins: int, context: Context, categorical: Sequence[int] = ()
    ) -> TrainingData:
        """Return the training data; see `TrainingData.prepare`."""
        written = self.categorical_features
        if sorted(categorical) != written:
            remedy = "write the table again with those of the estimator"
            if written:
                remedy = f"leave it out with rankers that split on categories (trees), or {remedy}"
            raise ValueError(
                f"{self.path} was written with categorical_features={written}, and the estimator "
                f"has {sorted(categorical)}; {remedy}"
            )
        if max_bins != self.max_bins:
            raise ValueError(
                f"{self.path} was written with max_bins={self.max_bins}, and the estimator has "
                f"max_bins={max_bins}; set it to {self.max_bins}, or write the table again"
            )
        check_balance(balance)
        fields, arrays = self._metadata, self._arrays
        parts: dict[str, Any] = {
            name: arrays[name] for name in MEMBER_DTYPES if name in QueryLayout.__dataclass_fields__
        }
        loser_weight, total = LOSER_WEIGHTS[balance]
        parts["loser_weight"] = arrays[loser_weight]
        layout = QueryLayout(
            **parts,
            total=float(fields[total]),
            pair_count=float(fields["pair_count"]),
            n_rows=self.n_rows,
        )
        return TrainingData(_MappedTable(self), layout, context)

    def __getitem__(self, rows: Any) -> Any:
        raise ValueError(
            f"{self!r} holds no rows that could be picked, as cross-validation does; give a number "
            "instead of 'cv', or fit from memory"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return DiskTable, (self.path,)

    def __repr__(self) -> str:
        size = f"{self.n_rows} rows, {self.n_features} features"
        return f"DiskTable({size}, {self.n_used_rows} rows compared)"


class _Member(NamedTuple):
    """A memory-mapped NumPy file: all its bytes, the offset of the values, and the values."""

    mapped: mmap.mmap
    begin: int
    array: Array

    def release(self, begin: int, length: int) -> None:
        """Let the operating system reclaim the pages of some bytes."""
        if hasattr(self.mapped, "madvise"):
            first = begin // mmap.PAGESIZE * mmap.PAGESIZE
            length = min(begin + length, len(self.mapped)) - first
            self.mapped.madvise(mmap.MADV_DONTNEED, first, length)


class _MappedTable(Table):
    """A table with codes in a file; the pages of unused columns are released."""

    streamed: ClassVar[bool] = True

    def __init__(self, table: DiskTable):
        super().__init__(None, table._codes, table.bins, table._arrays["order"])
        self._codes_member, self._path = table._members[CODES], table.path

    def release(self, features: NDArray[np.int64]) -> None:
        for feature in features:
            begin = self._codes_member.begin + int(feature) * self.n_used_rows
            self._codes_member.release(begin, self.n_used_rows)

    def column(self, feature: int) -> Floats:
        raise ValueError(
            f"{self._path} holds bins, not values, so raw feature {feature} cannot be read; use "
            "weak_rankers='stumps' or 'trees' with thresholds of this table, or fit from memory"
        )

    def rows(self) -> Array:
        raise ValueError(
            f"{self._path} holds bins, not values, so raw rows cannot be read; use "
            "weak_rankers='stumps' or 'trees' with thresholds of this table, or fit from memory"
        )

    def reorder(self, old: NDArray[np.int64], context: Context | None = None) -> Table:  # noqa: ARG002
        raise ValueError(f"{self._path} is in its order already")


def _folder_identity(path: Path) -> tuple[int, ...] | None:
    """Return values that change if a folder is replaced; None if it does not exist."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _read_metadata(path: Path) -> dict[str, Any]:
    """Read the JSON file of a table and check its format and checksum."""
    if path.exists() and not (path / METADATA_FILE).is_file():
        raise ValueError(f"{path} is not a table of precede; write_table makes one")
    text = (path / METADATA_FILE).read_bytes()
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {METADATA_FILE} is no JSON ({error})") from error
    if not isinstance(fields, dict) or fields.pop("checksum", None) is None:
        raise ValueError(f"{path} is not a table of precede: {METADATA_FILE} has no checksum")
    if fields.get("format") != FORMAT:
        raise ValueError(
            f"{path} has format {shown(fields.get('format'))}, and this version reads {FORMAT}; "
            "write the table again with write_table (the command line: fit --out-of-core)"
        )
    try:
        signed = _encode_metadata(fields)
    except RecursionError:  # writing may hit the limit where reading did not
        signed = b""
    if signed != text:
        raise ValueError(f"{path} is damaged: {METADATA_FILE} has a wrong checksum; write it again")
    return fields


def _header_length(file: BinaryIO, path: Path, kind: np.dtype, shape: tuple[int, ...]) -> int:
    """Return the length of the header of a NumPy file, which must have this dtype and shape."""
    try:
        version = np.lib.format.read_magic(file)
        if version != (1, 0):
            raise ValueError(f"version {version}")
        read = np.lib.format.read_array_header_1_0(file, max_header_size=MAX_HEADER_BYTES)
    except Exception as error:  # the header is a Python literal, which fails in many ways
        raise ValueError(f"{path} is damaged: {error}") from error
    if read != (shape, False, kind):
        raise ValueError(f"{path} is damaged: it holds {read[2]} of shape {read[0]}")
    return file.tell()
