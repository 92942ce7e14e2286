"""Tables larger than memory: binned codes in a folder, written block by block and mapped.

::

    train.table/
        table.json    shapes, names, totals; kind, shape and checksum of every member
        codes.npy     one byte a cell, feature by feature
        order.npy, level_start.npy, grade.npy, cuts.npy, ...

Every member is a plain file of NumPy: ``numpy.load(member, mmap_mode="r")`` reads it. The codes
stand in the order in which the loop wants them, with the cut points that `Table.build` would
have chosen, so a fit from the folder gives the model of a fit from memory, bit for bit. Whoever
writes the table never holds more than a block of rows and some numbers for each row; whoever
fits from it holds some numbers for each row and a few columns of codes.
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
from collections.abc import Iterable, Sequence
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
from precede.engine.frames import refuse_text_in_blocks
from precede.engine.parameters import check_integer
from precede.engine.query_layout import BALANCES, QueryLayout, check_balance, layouts
from precede.engine.table import (
    MAX_BINS,
    MAX_CATEGORIES,
    Bins,
    FeatureBins,
    Table,
    integer_weights,
    mix_codes,
)
from precede.engine.training_data import TrainingData, why_no_pair
from precede.judgments import (
    Judgments,
    column_numbers,
    number_queries,
    numeric_grades,
    sample_weights,
    two_grades,
)

FORMAT = 4
FIELDS = "table.json"
CODES = "codes"
HEADER = 1 << 12  # bytes; no member has a longer header
CHUNK = 1 << 20  # bytes whose checksum is taken at a time
# Kinds of the arrays beside the codes.
KINDS = {
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
# Numbers of the queries of the rows that only listed pairs compare; beside the others in tables
# with queries and such rows.
LISTED_QUERY, LISTED_KIND = "listed_query", "<i8"
# One number for each row; these stay in their files until they are read.
PER_ROW = ("order", "grade", "weight", "loser_weight", "loser_weight_of_items")
# The weights of losers and their total, by balance.
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
    """Write blocks of rows as a table of binned codes, without ever holding all of them.

    Parameters
    ----------
    path : folder to write; it appears when it is complete, and replaces a table of that name
    blocks : iterable of (X, y), (X, y, qid) or (X, y, qid, sample_weight)
        X is an array, data frame or sparse matrix of some rows; a query may be spread over
        several blocks. Each block is read once and then released.
    max_bins : as of the estimators that will be fitted
    pairs, pair_weight : as for `fit`; row numbers count from the first row of the first block
    feature_names : names of the columns, where the blocks are not data frames
    categorical_features : numbers or names of the columns that hold categories, as whole numbers
        from 0. Text and columns of a categorical type are refused, as a block does not know the
        categories of the others: number them in the same way in all blocks.
    n_jobs : threads

    Notes
    -----
    The raw values go to a temporary file next to the table (eight or four bytes a cell); then
    each column is read back, cut and encoded: O(n log n) time for each, exactly the cuts of
    a fit in memory. Memory: one block, and about 200 bytes a row with one thread (each further
    thread adds about 40 bytes a row).

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
    >>> here = RankBoost(step="bound", n_estimators=3).fit(X, y)
    >>> model.ensemble_.weights == here.ensemble_.weights
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
    if target.is_dir() and any(target.iterdir()) and not (target / FIELDS).is_file():
        raise ValueError(f"{path} is a folder that holds something else; choose another name")
    made = target.parent / f".{target.name}.{os.getpid()}.{threading.get_ident()}"
    try:
        made.mkdir()
        with tempfile.TemporaryFile(dir=target.parent) as spooled, Context(n_jobs) as context:
            spool = _Spool(spooled, None if feature_names is None else list(feature_names))
            for block in blocks:
                spool.add(block)
            judgments, classes = spool.target(pairs, pair_weight)
            named = column_numbers(categorical_features, spool.names, spool.features)
            _Writer(made, spool, context, int(max_bins), named).write(judgments, classes)
        _install(made, target)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return DiskTable(target, verify=False)


def _install(made: Path, target: Path) -> None:
    """Give a folder its name; what had that name before goes only when the new one is there."""
    _to_disk(made)
    if not target.exists():
        os.rename(made, target)
    elif _exchanged(made, target):
        shutil.rmtree(made) if made.is_dir() else made.unlink()
    else:  # there is a moment without a table
        aside = made.with_name(f"{made.name}.old")
        os.rename(target, aside)
        try:
            os.rename(made, target)
        except BaseException:
            os.rename(aside, target)
            raise
        if aside.is_dir():
            shutil.rmtree(aside)
        else:
            aside.unlink()
    _to_disk(target.parent)


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two names in one step; False where the system or the disk cannot."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    here, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux
    names = os.fsencode(one), os.fsencode(other)
    return rename is not None and rename(here, names[0], here, names[1], exchange) == 0


def _to_disk(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where the system can tell."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@dataclass(frozen=True, eq=False)
class Padded:
    """Columns `first`, `first` + 1, ... of a block; all others, known when all is read, are 0."""

    values: Array
    first: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns that are written out."""
        return self.values.shape[0], self.values.shape[1]


class _Piece(NamedTuple):
    """Where the values of one block stand, column by column."""

    offset: int
    rows: int
    dtype: np.dtype
    first: int
    width: int


@dataclass
class _Spool:
    """Raw values on disk, block by block and in each block column by column."""

    file: Any
    names: list[str] | None
    rows: int = 0
    first: int = 0
    features: int = 0
    parts: list[_Piece] = field(default_factory=list)
    grades: list[Floats] = field(default_factory=list)
    labels: list[Array] = field(default_factory=list)
    queries: list[NDArray[np.int64]] = field(default_factory=list)
    weights: list[Floats] = field(default_factory=list)
    numbers: dict[Any, int] = field(default_factory=dict)
    turn: Any = field(default_factory=threading.Lock)  # one thread reads at a time

    def add(self, block: Sequence[Any]) -> None:
        """Put one block of rows on disk; keep its grades, queries and weights."""
        if not isinstance(block, tuple | list) or not 2 <= len(block) <= 4:
            raise ValueError("each block must be (X, y), (X, y, qid) or (X, y, qid, weight)")
        X, y, qid, weight = [*block, None, None][:4]
        first, padded = (X.first, True) if isinstance(X, Padded) else (0, False)
        X = X.values if isinstance(X, Padded) else X
        refuse_text_in_blocks(X)
        self._check_names(X)
        values = dense_block(X)
        width, block_number = values.shape[1], len(self.parts)
        if block_number and not padded and width != self.features:
            raise ValueError(
                f"block {block_number} has {width} features and the first {self.features}"
            )
        if np.isinf(values).any():
            raise ValueError(f"block {block_number} holds infinities; use NaN for missing values")
        self._add_target(y, qid, weight, len(values), block_number)
        self.parts.append(_Piece(self.file.tell(), len(values), values.dtype, first, width))
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
            number = Judgments(qid=qid)  # checks the identifiers
            names, inverse = np.unique(number._query(), return_index=True)
            firsts = number.qid[inverse] if number.qid is not None else names
            ours = [self.numbers.setdefault(name, len(self.numbers)) for name in firsts.tolist()]
            self.queries.append(np.array(ours, np.int64)[number._query()])
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
        names = getattr(X, "columns", None)
        if names is None:
            return
        names = [str(name) for name in names]
        if self.names is not None and names != self.names:
            raise ValueError(
                f"the columns of block {len(self.parts)} are not those of the first; "
                "give every block the same columns in the same order"
            )
        self.names = names

    def target(
        self, pairs: ArrayLike | None, pair_weight: ArrayLike | None
    ) -> tuple[Judgments, list[Any] | None]:
        """Everything known about the order of the rows, and the two classes if there are two."""
        if not self.rows:
            raise ValueError("there are no rows: the blocks are empty")
        if self.names is not None and len(self.names) != self.features:
            raise ValueError(f"{len(self.names)} feature names for {self.features} features")
        query = None
        if self.queries:  # numbered as they came; now in the order of their identifiers
            query = number_queries(list(self.numbers))[0][np.concatenate(self.queries)]
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
        """Raw values of one feature in arranged order."""
        column = np.zeros(self.rows)
        start = 0
        for piece in self.parts:
            end, offset = start + piece.rows, self.first + feature - piece.first
            if 0 <= offset < piece.width:
                size = piece.rows * piece.dtype.itemsize
                with self.turn:
                    self.file.seek(piece.offset + offset * size)
                    read = self.file.read(size)
                column[start:end] = np.frombuffer(read, piece.dtype)
            start = end
        return column[order]


def dense_block(X: Any) -> Array:
    """A block as float64 or float32; what a data frame says is missing is NaN."""
    if scipy.sparse.issparse(X):
        values = X.toarray()
    elif _has_nullable(X):
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


def _has_nullable(X: Any) -> bool:
    """Whether a pandas data frame has columns of pandas' own kinds, which know NA."""
    kinds = getattr(X, "dtypes", ())
    return hasattr(X, "to_numpy") and any(hasattr(kind, "na_value") for kind in kinds)


class _Writer:
    def __init__(
        self, folder: Path, spool: _Spool, context: Context, max_bins: int, named: Sequence[int]
    ):
        self.folder, self.spool, self.context, self.max_bins = folder, spool, context, max_bins
        self.named = named  # the columns that hold categories
        self.members: dict[str, dict[str, Any]] = {}

    def write(self, judgments: Judgments, classes: list[Any] | None) -> None:
        arranged = dict(zip(BALANCES, layouts(judgments, BALANCES), strict=True))
        layout = arranged["pairs"]
        if layout.total <= 0:
            raise ValueError(why_no_pair(judgments))
        loser_weight = {
            LOSER_WEIGHTS[name][0]: arranged[name].loser_weight for name in ("queries", "items")
        }
        totals = {LOSER_WEIGHTS[name][1]: each.total for name, each in arranged.items()}
        del arranged
        path = self._path(CODES)
        header = _npy_header("|u1", (self.spool.features, layout.n_used_rows))
        with open(path, "x+b") as file:
            file.write(header)
            bins, keys = self._encode(layout, file)
            layout, old = layout.reorder(keys)
            checksum = self._reorder(old, file, header)
            file.flush()
            os.fsync(file.fileno())
        self._list(CODES, "|u1", (self.spool.features, old.size), checksum)
        for name in loser_weight:
            loser_weight[name] = loser_weight[name][old]
        more: dict[str, Array] = dict(loser_weight)
        listed = layout.order[layout.n_graded :]
        if judgments.qid is not None and listed.size:
            more[LISTED_QUERY] = np.unique(judgments._query()[listed], return_inverse=True)[1]
        self._write_arrays(layout, more, bins)
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
        with open(self.folder / FIELDS, "xb") as file:
            file.write(_signed(fields))
            file.flush()
            os.fsync(file.fileno())

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.npy"

    def _list(self, name: str, kind: str, shape: tuple[int, ...], checksum: int) -> None:
        self.members[name] = {"kind": kind, "shape": list(shape), "checksum": checksum}

    def _encode(self, layout: QueryLayout, file: BinaryIO) -> tuple[Bins, NDArray[np.uint64]]:
        """Bin and encode every column, as `Table.build` does; the codes go to the file."""
        order, weight = layout.order, integer_weights(layout.weight)
        keys = layout.weight.astype(np.float64).view(np.uint64).copy()
        chosen: list[FeatureBins] = []
        group = np.empty((self.context.jobs, order.size), np.uint8)

        def bin_columns(low: int, high: int, first: int) -> list[FeatureBins]:
            found = []
            for feature in range(first + low, first + high):
                values = self.spool.column(feature, order)
                bins = FeatureBins.choose(
                    values, weight, self.max_bins, feature=feature, named=feature in self.named
                )
                bins.encode(values, group[feature - first])
                found.append(bins)
            return found

        for first in range(0, self.spool.features, len(group)):
            width = min(len(group), self.spool.features - first)
            chosen += chain(*self.context.run(bin_columns, width, first))
            self.context.run(mix_codes, order.size, group[:width], keys)
            file.write(group[:width].data)
        return Bins.of(chosen), keys

    def _reorder(self, old: NDArray[np.int64], file: BinaryIO, header: bytes) -> int:
        """Move the rows of every column; returns the checksum of the file."""
        checksum = zlib.crc32(header)
        for feature in range(self.spool.features):
            file.seek(len(header) + feature * old.size)
            column = np.frombuffer(file.read(old.size), np.uint8)[old]
            checksum = zlib.crc32(column.data, checksum)
            file.seek(len(header) + feature * old.size)
            file.write(column.data)
        return checksum

    def _write_arrays(self, layout: QueryLayout, more: dict[str, Array], bins: Bins) -> None:
        named = {name: getattr(layout, name) for name in KINDS if hasattr(layout, name)} | {
            **more,
            "cuts": np.concatenate(bins.cuts),
            "cut_start": _starts(bins.cuts),
            "low": bins.low,
            "high": bins.high,
            "has_missing": bins.has_missing,
            "category_feature": np.array([*bins.categories]),
            "category_start": _starts([*bins.categories.values()]),
            "categories": np.concatenate([np.empty(0), *bins.categories.values()]),
        }
        kinds = KINDS | ({LISTED_QUERY: LISTED_KIND} if LISTED_QUERY in more else {})
        for name, kind in kinds.items():
            array = np.ascontiguousarray(named[name], dtype=kind)
            header = _npy_header(kind, array.shape)
            with open(self._path(name), "xb") as file:
                file.write(header)
                file.write(array.data)
                file.flush()
                os.fsync(file.fileno())
            checksum = zlib.crc32(array.data, zlib.crc32(header))
            self._list(name, kind, array.shape, checksum)


def _starts(parts: Sequence[Array]) -> NDArray[np.int64]:
    """Where each part begins when they stand one after the other, and where the last one ends."""
    return np.cumsum([0, *(part.size for part in parts)])


def _parts(whole: Array, starts: NDArray[np.int64]) -> list[Array] | None:
    """What `_starts` was taken of; None if it cannot have been."""
    good = starts.size and starts[0] == 0 and bool((starts[1:] >= starts[:-1]).all())
    if not good or starts[-1] != whole.size:
        return None
    return [whole[a:b].copy() for a, b in pairwise(starts)]


def _inside(values: Array, least: float, end: float) -> bool:
    """Whether all values are numbers from `least` to below `end`."""
    return bool(((values >= least) & (values < end)).all())


def _npy_header(kind: str, shape: tuple[int, ...]) -> bytes:
    """What a file of NumPy begins with."""
    file = io.BytesIO()
    fields = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, fields)
    return file.getvalue()


def _signed(fields: dict[str, Any]) -> bytes:
    """The text of the JSON file: the fields, and the checksum of the text without it."""
    checksum = zlib.crc32(json.dumps(fields, indent=1).encode())
    return json.dumps({**fields, "checksum": checksum}, indent=1).encode() + b"\n"


# -- reading ---------------------------------------------------------------------------------


class DiskTable:
    """A table that `write_table` wrote, mapped into memory; give it to `fit` in place of X.

    Parameters
    ----------
    path : the folder
    verify : bool
        Whether to compare the checksums of all members, as the method `verify` does. In any
        case the JSON file and the small members are compared with their checksums, and all
        that a fit indexes by (codes, row numbers, starts of queries and levels) with what it
        indexes: compiled code does not check bounds.

    Attributes
    ----------
    n_rows, n_features : of the data that were written
    n_used_rows : rows that take part in a comparison; the others are not in the table
    max_bins : maximum number of bins of a feature; a fit must ask for the same
    feature_names : list of str, or None
    classes : the two classes, if the target was two classes in one list
    categorical_features : numbers of the columns that were written as categories

    Notes
    -----
    The table holds bins and not values: weak rankers made of thresholds can be fitted, others
    are refused. Opening reads the folder once, in O(n) memory for n rows; pages that a fit has
    read belong to the operating system, which takes them back when it needs memory. Nothing is
    unpickled. The folder must not be changed while the table is in use; `write_table` to the
    same name replaces the folder and leaves open tables as they are.

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
            before = _identity(self.path)
            try:
                self._read(verify)
            except (ValueError, OSError):
                if _identity(self.path) == before:
                    raise
            if _identity(self.path) == before:
                return  # otherwise it was replaced meanwhile, and members may be of both

    def _read(self, verify: bool) -> None:
        fields = _read_fields(self.path)
        try:
            self._open(fields)
            for name in PER_ROW if verify else ():
                self._compare(name)
            self._check_runs()
            self._check_numbers()
            self._check_codes(verify)
        except (KeyError, TypeError, IndexError, OverflowError) as error:
            raise ValueError(f"{self.path} is not a table of precede: {error}") from error

    def _open(self, fields: dict[str, Any]) -> None:
        self._fields = fields
        for name in ("rows", "arranged", "features"):
            check_integer(f"{self.path}: {name}", fields[name], least=1)
        check_integer(f"{self.path}: max_bins", fields["max_bins"], least=2, most=MAX_BINS)
        self.n_rows, self.n_used_rows = fields["rows"], fields["arranged"]
        self.n_features, self.max_bins = fields["features"], fields["max_bins"]
        for name in ("total", "balanced_total", "items_total", "pair_count"):
            if not isinstance(fields[name], float) or not 0 < fields[name] < np.inf:
                raise ValueError(f"{self.path}: {name}={fields[name]!r} is not a positive number")
        self._open_names(fields["names"], fields["classes"])
        self._members = {CODES: self._member(CODES, "|u1", 2)}
        kinds = KINDS | ({LISTED_QUERY: LISTED_KIND} if LISTED_QUERY in fields["members"] else {})
        self._members |= {name: self._member(name, kind, 1) for name, kind in kinds.items()}
        self._codes = self._members[CODES].array
        self._arrays = {name: self._members[name].array for name in kinds}
        for name in kinds:
            if name not in PER_ROW:
                self._compare(name)
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
        two = isinstance(classes, list) and len(classes) == 2
        if classes is not None and not (
            two and all(isinstance(c, int | float) and -(2**63) <= c < 2**63 for c in classes)
        ):
            raise ValueError(f"{self.path}: its classes are not two numbers")
        self.classes = None if classes is None else np.array(classes)

    def _open_bins(self) -> Bins:
        cuts = _parts(self._arrays["cuts"], self._arrays["cut_start"])
        sizes = {self._arrays[name].size for name in ("low", "high", "has_missing")}
        if cuts is None or len(cuts) != self.n_features or sizes != {self.n_features}:
            raise ValueError(f"{self.path}: the cuts are not those of {self.n_features} features")
        if max((cut.size for cut in cuts), default=0) >= self.max_bins:
            raise ValueError(f"{self.path}: a feature has more than {self.max_bins} bins")
        missing = self._arrays["has_missing"].astype(bool)
        ends = self._arrays["low"], self._arrays["high"]
        return Bins(tuple(cuts), *ends, missing, self._open_categories(cuts))

    def _open_categories(self, cuts: list[Floats]) -> dict[int, Floats]:
        """Categories by feature, each of them a whole number and as many as there are bins."""
        features = self._arrays["category_feature"]
        kept = _parts(self._arrays["categories"], self._arrays["category_start"])
        good = kept is not None and len(kept) == features.size
        good = good and bool(((features >= 0) & (features < self.n_features)).all())
        if kept is None or not good or not (np.diff(features) > 0).all():
            raise ValueError(f"{self.path}: the categories are not those of some of its features")
        for feature, each in zip(features.tolist(), kept, strict=True):
            whole = (each == np.floor(each)) & (each >= 0) & (each < MAX_CATEGORIES)
            rising = bool(whole.all()) and bool((np.diff(each) > 0).all())
            if not rising or cuts[feature].size != max(each.size - 1, 0):
                raise ValueError(f"{self.path}: the categories of feature {feature} make no sense")
        return dict(zip(features.tolist(), kept, strict=True))

    def _member(self, name: str, kind: str, dimensions: int) -> _Member:
        """Map a member; its header and its length must be those that the JSON file tells."""
        entry, path = self._fields["members"][name], self.path / f"{name}.npy"
        shape = tuple(entry["shape"])
        for length in shape:
            check_integer(f"{self.path}: size of {name}", length, least=0)
        wanted: dict[str, tuple[int, ...]] = {CODES: (self.n_features, self.n_used_rows)}
        wanted |= dict.fromkeys(PER_ROW, (self.n_used_rows,))
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
        """Read every member once and compare its checksum; a ValueError names one that differs."""
        for name in self._members:
            self._compare(name)

    def _compare(self, name: str) -> None:
        member, checksum = self._members[name], 0
        for begin in range(0, len(member.mapped), CHUNK):
            checksum = zlib.crc32(member.mapped[begin : begin + CHUNK], checksum)
            member.release(begin, CHUNK)
        if checksum != self._fields["members"][name]["checksum"]:
            raise ValueError(f"{self.path} is damaged: {name}.npy has a wrong checksum")

    def _check_runs(self) -> None:
        """Queries and levels follow one another; pairs join different rows, sorted."""
        levels, queries = self._arrays["level_start"], self._arrays["query_start"]
        rising = all(
            starts.size and starts[0] == 0 and (starts[1:] > starts[:-1]).all()
            for starts in (levels, queries)
        )
        inside = rising and levels[-1] <= self.n_used_rows and queries[-1] == levels.size - 1
        winner, loser = self._arrays["winner"], self._arrays["loser"]
        inside = inside and winner.size == loser.size == self._arrays["pair_weight"].size
        inside = inside and all(((s >= 0) & (s < self.n_used_rows)).all() for s in (winner, loser))
        by_row = (loser[1:] > loser[:-1]) | (loser[1:] == loser[:-1]) & (winner[1:] > winner[:-1])
        if not inside or not by_row.all() or (winner == loser).any():
            raise ValueError(f"{self.path} is not a table of precede: its runs make no sense")

    def _check_numbers(self) -> None:
        """Weights and grades are numbers, grades agree with the levels, cuts and rows rise."""
        arrays, bins = self._arrays, self.bins
        good = all(
            _inside(arrays[name], 0.0, np.inf) for name in ("loser_weight", "loser_weight_of_items")
        )
        for name in ("weight", "pair_weight"):
            good = good and _inside(arrays[name], 0.0, np.inf) and bool(arrays[name].all())
        good = good and self._grades_rise()
        listed, rows = arrays.get(LISTED_QUERY), self.n_used_rows - int(arrays["level_start"][-1])
        good = good and (listed is None or (listed.size == rows and _inside(listed, 0, rows)))
        good = good and _inside(arrays["order"], 0, self.n_rows)
        order = np.sort(arrays["order"])
        good = good and bool((order[1:] > order[:-1]).all())
        good = good and all(bool((cut[1:] > cut[:-1]).all()) for cut in bins.cuts)
        for cut, low, high in zip(bins.cuts, bins.low, bins.high, strict=True):
            good = good and not (abs(low) == np.inf or abs(high) == np.inf or low > high)
            good = good and (cut.size == 0 or bool(low <= cut[0] and cut[-1] <= high))
        if not good or not np.isfinite(arrays["cuts"]).all():
            raise ValueError(f"{self.path} is not a table of precede: its numbers make no sense")

    def _grades_rise(self) -> bool:
        """Whether grades are equal in a level and rise from level to level of a query."""
        levels, queries = self._arrays["level_start"], self._arrays["query_start"]
        # Rows that only listed pairs know come last and have no grade.
        grade = self._arrays["grade"][: levels[-1]]
        rises = grade[1:] > grade[:-1]
        wanted = np.zeros(grade.size, np.int8)  # 1: rises, 0: stays, 2: another query begins
        wanted[levels[:-1]] = 1
        wanted[levels[queries[:-1]]] = 2
        changes = (rises == wanted[1:]) & (rises | (grade[1:] == grade[:-1]))
        return bool(np.isfinite(grade).all() and (changes | (wanted[1:] == 2)).all())

    def _check_codes(self, verify: bool) -> None:
        """Compare the codes with the bins of their features, in one pass over the file.

        With `verify` the pass takes the checksum as well.
        """
        member, bins = self._members[CODES], self.bins
        checksum = zlib.crc32(member.mapped[: member.begin])
        for feature, column in enumerate(self._codes):
            kept = bins.categories.get(feature)
            limit = bins.cuts[feature].size + 1 if kept is None else kept.size
            missing, highest = bool(bins.has_missing[feature]), -1
            for first in range(0, column.size, CHUNK):
                part = column[first : first + CHUNK]
                if verify:
                    checksum = zlib.crc32(part, checksum)
                # Where values may be missing, 255 wraps to 0 and every code c becomes c + 1.
                top = int((part + np.uint8(1)).max()) - 1 if missing else int(part.max())
                highest = max(highest, top)
                member.release(member.begin + feature * column.size + first, CHUNK)
            if highest >= limit:
                raise ValueError(
                    f"{self.path} is damaged: feature {feature} has the code {highest}, beyond its "
                    f"{limit} bins; write it again"
                )
        if verify and checksum != self._fields["members"][CODES]["checksum"]:
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
        """What is known about the order of the arranged rows."""
        arrays = self._arrays
        first = arrays["level_start"][arrays["query_start"]]
        graded = int(arrays["level_start"][-1])
        query = np.repeat(np.arange(first.size - 1), np.diff(first))
        one_list = graded == 0 and LISTED_QUERY not in arrays
        listed = arrays.get(LISTED_QUERY, np.zeros(self.n_used_rows - graded, np.int64))
        pairs = np.stack([arrays["winner"], arrays["loser"]], axis=1)
        return Judgments(
            arrays["grade"],
            None if one_list else np.concatenate([query, first.size - 1 + listed]),
            pairs=pairs if len(pairs) else None,
            pair_weight=arrays["pair_weight"] if len(pairs) else None,
            weight=arrays["weight"],
        )

    def training(
        self, *, balance: str, max_bins: int, context: Context, categorical: Sequence[int] = ()
    ) -> TrainingData:
        """The data as the loop sees them; see `Training.prepare`."""
        named = self.categorical_features
        if sorted(categorical) != named:
            remedy = "write the table again with those of the estimator"
            if named:
                remedy = f"leave it out with rankers that split on categories (trees), or {remedy}"
            raise ValueError(
                f"{self.path} was written with categorical_features={named}, and the estimator has "
                f"{sorted(categorical)}; {remedy}"
            )
        if max_bins != self.max_bins:
            raise ValueError(
                f"{self.path} was written with max_bins={self.max_bins}, and the estimator has "
                f"max_bins={max_bins}; set it to {self.max_bins}, or write the table again"
            )
        check_balance(balance)
        fields, arrays = self._fields, self._arrays
        parts: dict[str, Any] = {
            name: arrays[name] for name in KINDS if name in QueryLayout.__dataclass_fields__
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
    """A file of NumPy, mapped: all its bytes, where the values begin, and the values."""

    mapped: mmap.mmap
    begin: int
    array: Array

    def release(self, begin: int, length: int) -> None:
        """Give some bytes that have been read back to the operating system."""
        if hasattr(self.mapped, "madvise"):
            first = begin // mmap.PAGESIZE * mmap.PAGESIZE
            length = min(begin + length, len(self.mapped)) - first
            self.mapped.madvise(mmap.MADV_DONTNEED, first, length)


class _MappedTable(Table):
    """Codes in a file; columns that are not in use go back to the operating system."""

    streamed: ClassVar[bool] = True

    def __init__(self, table: DiskTable):
        super().__init__(None, table._codes, table.bins, table._arrays["order"])
        self._file, self._path = table._members[CODES], table.path

    def release(self, features: NDArray[np.int64]) -> None:
        for feature in features:
            self._file.release(self._file.begin + int(feature) * self.n_used_rows, self.n_used_rows)

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

    def reorder(self, old: NDArray[np.int64]) -> Table:  # noqa: ARG002
        raise ValueError(f"{self._path} is in its order already")


def _identity(path: Path) -> tuple[int, ...] | None:
    """What differs between a folder and another one that takes its name; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _read_fields(path: Path) -> dict[str, Any]:
    """The JSON file of a table, checked."""
    if path.exists() and not (path / FIELDS).is_file():
        raise ValueError(f"{path} is not a table of precede; write_table makes one")
    text = (path / FIELDS).read_bytes()
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {FIELDS} is no JSON ({error})") from error
    if not isinstance(fields, dict) or fields.pop("checksum", None) is None:
        raise ValueError(f"{path} is not a table of precede: {FIELDS} has no checksum")
    if fields.get("format") != FORMAT:
        raise ValueError(
            f"{path} has format {shown(fields.get('format'))}, and this version reads {FORMAT}; "
            "write the table again with write_table (the command line: fit --out-of-core)"
        )
    try:
        signed = _signed(fields)
    except RecursionError:  # which begins at another depth than that of reading
        signed = b""
    if signed != text:
        raise ValueError(f"{path} is damaged: {FIELDS} has a wrong checksum; write it again")
    return fields


def _header_length(file: BinaryIO, path: Path, kind: np.dtype, shape: tuple[int, ...]) -> int:
    """Bytes before the values of a file of NumPy, which must be of this kind and shape."""
    try:
        version = np.lib.format.read_magic(file)
        if version != (1, 0):
            raise ValueError(f"version {version}")
        read = np.lib.format.read_array_header_1_0(file, max_header_size=HEADER)
    except Exception as error:  # the header is a Python literal, which fails in many ways
        raise ValueError(f"{path} is damaged: {error}") from error
    if read != (shape, False, kind):
        raise ValueError(f"{path} is damaged: it holds {read[2]} of shape {read[0]}")
    return file.tell()
