"""Tables larger than memory: binned codes in a file, written block by block and mapped.

::

    magic | codes, feature by feature, one byte a cell | other arrays | footer (JSON) | its
    checksum and length | magic

The codes stand in the order in which the loop wants them, with the cut points that
`Table.build` would have chosen, so a fit from the file gives the model of a fit from memory,
bit for bit. Whoever writes the file never holds more than a block of rows and some numbers
for each row; whoever fits from it holds some numbers for each row and a few columns of codes.
"""

from __future__ import annotations

import json
import mmap
import os
import tempfile
import threading
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from precede.engine.arrangement import Arrangement, check_balance
from precede.engine.frames import refuse_text
from precede.engine.parameters import whole_number
from precede.engine.table import (
    MAX_BINS,
    Bins,
    Table,
    choose_cuts,
    encode,
    integer_weights,
    mix_codes,
)
from precede.engine.training import Training, why_no_pair
from precede.engine.workers import Workers
from precede.judgments import Judgments, number_queries, numeric_grades, sample_weights, two_grades

__all__ = ["DiskTable", "dense_block", "write_table"]

Floats = NDArray[np.float64]

MAGIC = b"precede\x01"
FORMAT = 2  # 2 adds the weights of losers where items are balanced
PAGE = 4096
TAIL = 4 + 8 + len(MAGIC)  # checksum and length of the footer, magic
# Kinds of the arrays beside the codes.
KINDS = {
    "order": "<i8",
    "level_start": "<i8",
    "query_start": "<i8",
    "grade": "<f8",
    "weight": "<f8",
    "outer": "<f8",
    "outer_of_items": "<f8",
    "winner": "<i8",
    "loser": "<i8",
    "pair_weight": "<f8",
    "cuts": "<f8",
    "cut_start": "<i8",
    "low": "<f8",
    "high": "<f8",
    "has_missing": "|u1",
}
# One number for each place; these stay in the file until they are read.
PER_PLACE = ("order", "grade", "weight", "outer", "outer_of_items")
# The weights of losers and their total, by balance.
OUTER = {
    "pairs": ("weight", "total"),
    "queries": ("outer", "balanced_total"),
    "items": ("outer_of_items", "items_total"),
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
    n_jobs: int | None = None,
) -> DiskTable:
    """Write blocks of rows as a table of binned codes, without ever holding all of them.

    Parameters
    ----------
    path : where to write; the file appears when it is whole
    blocks : iterable of (X, y), (X, y, qid) or (X, y, qid, sample_weight)
        X is an array, data frame or sparse matrix of some rows; a query may be spread over
        several blocks. Each block is read once and forgotten.
    max_bins : as of the estimators that will be fitted
    pairs, pair_weight : as for `fit`; row numbers count from the first row of the first block
    feature_names : names of the columns, where the blocks are not data frames
    n_jobs : threads

    Notes
    -----
    The raw values go to a temporary file beside the table (eight or four bytes a cell); then
    each column is read back, cut and encoded: O(n log n) time for each, exactly the cuts of
    a fit in memory. Memory: one block, and some 220 bytes a row with one thread (each thread
    more adds about 40 bytes a row).

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
    DiskTable(6 rows, 2 features, 6 places)
    >>> here = RankBoost(step="bound", n_estimators=3).fit(X, y)
    >>> model.ensemble_.weights == here.ensemble_.weights
    True
    """
    whole_number("max_bins", max_bins, least=2, most=MAX_BINS)
    if not isinstance(blocks, Iterable):
        raise ValueError(f"blocks={blocks!r}: give an iterable of (X, y) or longer tuples")
    if feature_names is not None and (
        isinstance(feature_names, str) or not isinstance(feature_names, Iterable)
    ):
        raise ValueError(f"feature_names={feature_names!r}: give one name for each feature")
    target = Path(path).resolve()
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{path}: the folder {target.parent} does not exist")
    temporary = target.parent / f".{target.name}.{os.getpid()}.{threading.get_ident()}"
    try:
        with (
            tempfile.TemporaryFile(dir=target.parent) as spooled,
            open(temporary, "xb") as file,
            Workers(n_jobs) as workers,
        ):
            spool = _Spool(spooled, None if feature_names is None else list(feature_names))
            for block in blocks:
                spool.add(block)
            judgments, classes = spool.target(pairs, pair_weight)
            _Writer(file, spool, workers, int(max_bins)).write(judgments, classes)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return DiskTable(target, verify=False)


@dataclass
class _Spool:
    """Raw values on disk, block by block and in each block column by column."""

    file: Any
    names: list[str] | None
    rows: int = 0
    features: int = 0
    parts: list[tuple[int, int, np.dtype]] = field(default_factory=list)  # offset, rows, dtype
    grades: list[Floats] = field(default_factory=list)
    labels: list[NDArray] = field(default_factory=list)
    queries: list[NDArray] = field(default_factory=list)
    weights: list[Floats] = field(default_factory=list)
    numbers: dict[Any, int] = field(default_factory=dict)
    turn: Any = field(default_factory=threading.Lock)  # one thread reads at a time

    def add(self, block: Sequence[Any]) -> None:
        """Put one block of rows on disk; keep its grades, queries and weights."""
        if not isinstance(block, tuple | list) or not 2 <= len(block) <= 4:
            raise ValueError("each block must be (X, y), (X, y, qid) or (X, y, qid, weight)")
        X, y, qid, weight = [*block, None, None][:4]
        refuse_text(X)
        self._check_names(X)
        values = dense_block(X)
        place = len(self.parts)
        if not self.parts:
            self.features = values.shape[1]
        if values.shape[1] != self.features:
            raise ValueError(
                f"block {place} has {values.shape[1]} features and the first {self.features}"
            )
        if np.isinf(values).any():
            raise ValueError(f"block {place} holds infinities; use NaN for missing values")
        self._add_target(y, qid, weight, len(values), place)
        self.parts.append((self.file.tell(), len(values), values.dtype))
        self.file.write(np.ascontiguousarray(values.T).data)
        self.rows += len(values)

    def _add_target(self, y: Any, qid: Any, weight: Any, rows: int, place: int) -> None:
        grade, label = numeric_grades(y, place)
        lengths = {"y": grade.size}
        if place and (qid is None) != (not self.queries):
            raise ValueError(f"block {place} differs from the first in having a qid or none")
        if place and (weight is None) != (not self.weights):
            raise ValueError(f"block {place} differs from the first in having weights or none")
        if qid is not None:
            number = Judgments(qid=qid)  # checks the identifiers
            names, inverse = np.unique(number._query(), return_index=True)
            firsts = number.qid[inverse] if number.qid is not None else names
            ours = [self.numbers.setdefault(name, len(self.numbers)) for name in firsts.tolist()]
            self.queries.append(np.array(ours, np.int64)[number._query()])
            lengths["qid"] = self.queries[-1].size
        if weight is not None:
            name = f"sample_weight of block {place}"
            self.weights.append(np.asarray(sample_weights(weight, rows, name)))
        for name, length in lengths.items():
            if length != rows:
                raise ValueError(f"{name} of block {place} has {length} values for {rows} rows")
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
    ) -> tuple[Judgments, list | None]:
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

    def column(self, feature: int, order: NDArray) -> Floats:
        """Raw values of one feature in the order of the places."""
        column = np.empty(self.rows)
        first = 0
        for offset, rows, dtype in self.parts:
            size = rows * dtype.itemsize
            with self.turn:
                self.file.seek(offset + feature * size)
                read = self.file.read(size)
            column[first : first + rows] = np.frombuffer(read, dtype)
            first += rows
        return column[order]


def dense_block(X: Any) -> NDArray:
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
    def __init__(self, file: BinaryIO, spool: _Spool, workers: Workers, max_bins: int):
        self.file, self.spool, self.workers, self.max_bins = file, spool, workers, max_bins
        self.checksums: dict[str, int] = {}
        self.arrays: dict[str, tuple[tuple[int, ...], int]] = {}  # shape, offset

    def write(self, judgments: Judgments, classes: list | None) -> None:
        arrangement = judgments.arrange()
        if arrangement.total <= 0:
            raise ValueError(why_no_pair(judgments))
        outer, totals = {}, {}
        for balance in ("queries", "items"):  # one at a time: an arrangement is large
            (name, total), balanced = OUTER[balance], judgments.arrange(balance)
            outer[name], totals[total] = balanced.outer, balanced.total
        del balanced
        self.file.write(MAGIC.ljust(PAGE, b"\0"))
        cuts, ends, keys = self._encode(arrangement)
        arrangement, old = arrangement.reorder(keys)
        columns = self._reorder(old)
        for name in outer:
            outer[name] = outer[name][old]
        self._write_arrays(arrangement, outer, cuts, ends)
        self._write_footer(
            features=self.spool.features,
            rows=self.spool.rows,
            places=arrangement.n_places,
            max_bins=self.max_bins,
            names=self.spool.names,
            classes=classes,
            total=arrangement.total,
            **totals,
            pair_count=arrangement.pair_count,
            columns=columns,
        )

    def _encode(self, arrangement: Arrangement) -> tuple[list[Floats], list[tuple], NDArray]:
        """Cut and encode every column, as `Table.build` does; the codes go to the file."""
        order, weight = arrangement.order, integer_weights(arrangement.weight)
        keys = arrangement.weight.astype(np.float64).view(np.uint64).copy()
        cuts: list[Floats] = []
        ends: list[tuple[float, float, bool]] = []
        group = np.empty((self.workers.jobs, order.size), np.uint8)

        def bin_columns(low: int, high: int, first: int) -> list[tuple[Floats, tuple]]:
            found = []
            for feature in range(first + low, first + high):
                values = self.spool.column(feature, order)
                cut, end = choose_cuts(values, weight, self.max_bins)
                encode(values, cut, group[feature - first])
                found.append((cut, end))
            return found

        for first in range(0, self.spool.features, len(group)):
            width = min(len(group), self.spool.features - first)
            parts = self.workers.run(bin_columns, width, first)
            for cut, end in (pair for part in parts for pair in part):
                cuts.append(cut)
                ends.append(end)
            self.workers.run(mix_codes, order.size, group[:width], keys)
            self.file.write(group[:width].data)
        return cuts, ends, keys

    def _reorder(self, old: NDArray) -> list[int]:
        """Move the places of every column; returns the checksums of the columns."""
        checksums = []
        with open(self.file.name, "r+b") as file:
            self.file.flush()
            for feature in range(self.spool.features):
                file.seek(PAGE + feature * old.size)
                column = np.frombuffer(file.read(old.size), np.uint8)[old]
                checksums.append(zlib.crc32(column.data))
                file.seek(PAGE + feature * old.size)
                file.write(column.data)
        return checksums

    def _write_arrays(
        self,
        arrangement: Arrangement,
        outer: dict[str, Floats],
        cuts: list[Floats],
        ends: list[tuple],
    ) -> None:
        low, high, missing = (np.array(column) for column in zip(*ends, strict=True))
        start = np.concatenate([[0], np.cumsum([cut.size for cut in cuts])])
        named = {
            name: getattr(arrangement, name) for name in KINDS if hasattr(arrangement, name)
        } | {
            **outer,
            "cuts": np.concatenate(cuts),
            "cut_start": start,
            "low": low,
            "high": high,
            "has_missing": missing,
        }
        for name, kind in KINDS.items():
            array = np.ascontiguousarray(named[name], dtype=kind)
            self.file.write(b"\0" * (-self.file.tell() % PAGE))
            self.arrays[name] = (array.shape, self.file.tell())
            self.checksums[name] = zlib.crc32(array.data)
            self.file.write(array.data)

    def _write_footer(self, **fields: Any) -> None:
        arrays = {
            name: {"shape": list(shape), "offset": offset, "checksum": self.checksums[name]}
            for name, (shape, offset) in self.arrays.items()
        }
        text = json.dumps({"format": FORMAT, **fields, "arrays": arrays}).encode()
        self.file.write(text)
        self.file.write(zlib.crc32(text).to_bytes(4, "little") + len(text).to_bytes(8, "little"))
        self.file.write(MAGIC)


# -- reading ---------------------------------------------------------------------------------


class DiskTable:
    """A table that `write_table` wrote, mapped into memory; give it to `fit` in place of X.

    Parameters
    ----------
    path : the file
    verify : bool
        Whether to read the whole file once and compare its checksums. A file that was cut
        short is refused in any case.

    Attributes
    ----------
    n_rows, n_features : of the data that were written
    n_places : rows that take part in a comparison; the others are not in the file
    max_bins : most bins a feature was cut into; a fit must ask for the same
    feature_names : list of str, or None
    classes : the two classes, if the target was two classes in one list

    Notes
    -----
    The file holds bins and not values: weak rankers made of thresholds can be fitted, others
    are refused. Opening costs one reading of the file; pages that a fit has read belong to
    the operating system, which takes them back when it needs memory.

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
        with open(self.path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            fields = _read_footer(file, size, self.path)
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            self._open(fields, size)
            if verify:
                self._verify(fields)
            self._check_runs()
            self._check_numbers()
        except (KeyError, TypeError, IndexError, OverflowError) as error:
            raise ValueError(f"{self.path} is not a table of precede: {error}") from error

    def _open(self, fields: dict[str, Any], size: int) -> None:
        for name in ("rows", "places", "features", "max_bins"):
            whole_number(f"{self.path}: {name}", fields[name], least=1)
        self.n_rows, self.n_places = fields["rows"], fields["places"]
        self.n_features, self.max_bins = fields["features"], fields["max_bins"]
        names, classes = fields["names"], fields["classes"]
        if names is not None and len(names) != self.n_features:
            raise ValueError(f"{self.path}: {len(names)} names for {self.n_features} features")
        if not all(isinstance(name, str) for name in names or ()):
            raise ValueError(f"{self.path}: the names of the features are not all text")
        self.feature_names = None if names is None else list(names)
        two = isinstance(classes, list) and len(classes) == 2
        if classes is not None and not (two and all(isinstance(c, int | float) for c in classes)):
            raise ValueError(f"{self.path}: its classes are not two numbers")
        self.classes = None if classes is None else np.array(classes)
        self._fields = fields
        if PAGE + self.n_features * self.n_places > size:
            raise ValueError(f"{self.path} is cut short")
        codes = np.frombuffer(self._map, np.uint8, self.n_features * self.n_places, PAGE)
        self._codes = codes.reshape(self.n_features, self.n_places)
        self._arrays = {name: self._array(name, kind, size) for name, kind in KINDS.items()}
        start = self._arrays["cut_start"]
        of_features = [self._arrays[name].size for name in ("low", "high", "has_missing")]
        whole = start.size == self.n_features + 1 and set(of_features) == {self.n_features}
        whole = whole and len(fields["columns"]) == self.n_features
        rising = whole and start[0] == 0 and bool((np.diff(start) >= 0).all())
        if not rising or start[-1] != self._arrays["cuts"].size:
            raise ValueError(f"{self.path}: the cuts are not those of {self.n_features} features")
        for name in ("total", "balanced_total", "items_total", "pair_count"):
            if not isinstance(fields[name], float) or not 0 < fields[name] < np.inf:
                raise ValueError(f"{self.path}: {name}={fields[name]!r} is no positive number")
        cuts = tuple(
            self._arrays["cuts"][start[f] : start[f + 1]].copy() for f in range(self.n_features)
        )
        if max((cut.size for cut in cuts), default=0) >= MAX_BINS:
            raise ValueError(f"{self.path}: a feature has more than {MAX_BINS} bins")
        missing = self._arrays["has_missing"].astype(bool)
        self.bins = Bins(cuts, self._arrays["low"], self._arrays["high"], missing)

    def _array(self, name: str, kind: str, size: int) -> NDArray:
        entry = self._fields["arrays"][name]
        (count,), offset = entry["shape"], entry["offset"]
        whole_number(f"{self.path}: size of {name}", count, least=0)
        whole_number(f"{self.path}: offset of {name}", offset, least=PAGE)
        if offset + count * np.dtype(kind).itemsize > size:
            raise ValueError(f"{self.path} is cut short: {name} is not there")
        if name in PER_PLACE and count != self.n_places:
            raise ValueError(f"{self.path}: {name} has {count} values for {self.n_places} places")
        array = np.frombuffer(self._map, kind, count, offset)
        return array if name in PER_PLACE else array.copy()

    def _verify(self, fields: dict[str, Any]) -> None:
        """Compare the checksums, a column at a time."""
        table = _MappedTable(self)
        for feature, checksum in enumerate(fields["columns"]):
            if zlib.crc32(self._codes[feature].data) != checksum:
                raise ValueError(f"{self.path} is damaged: feature {feature} has a wrong checksum")
            table.release(np.array([feature]))
        spans = [(0, len(MAGIC)), (PAGE, PAGE + self._codes.size)]
        for name, array in self._arrays.items():
            if zlib.crc32(array.data) != fields["arrays"][name]["checksum"]:
                raise ValueError(f"{self.path} is damaged: {name} has a wrong checksum")
            offset = fields["arrays"][name]["offset"]
            spans.append((offset, offset + array.nbytes))
        self._check_gaps(sorted(spans))

    def _check_gaps(self, spans: list[tuple[int, int]]) -> None:
        """Between the parts there are zeros and nothing else."""
        size = len(self._map)
        footer = int.from_bytes(self._map[size - TAIL + 4 : size - len(MAGIC)], "little")
        ends, begins = [end for _, end in spans], [begin for begin, _ in spans[1:]]
        for end, begin in zip(ends, [*begins, size - TAIL - footer], strict=True):
            if any(self._map[end:begin]):
                raise ValueError(f"{self.path} is damaged: what should be zeros at {end} is not")

    def _check_runs(self) -> None:
        """Compiled code relies on these numbers; nothing in a file may lead it astray."""
        levels, queries = self._arrays["level_start"], self._arrays["query_start"]
        rising = all(
            starts.size and starts[0] == 0 and (np.diff(starts) > 0).all()
            for starts in (levels, queries)
        )
        inside = rising and levels[-1] <= self.n_places and queries[-1] == levels.size - 1
        sides = [self._arrays[name] for name in ("winner", "loser")]
        inside = inside and sides[0].size == sides[1].size == self._arrays["pair_weight"].size
        if not inside or any(((s < 0) | (s >= self.n_places)).any() for s in sides):
            raise ValueError(f"{self.path} is not a table of precede: its runs make no sense")

    def _check_numbers(self) -> None:
        """Weights and grades are numbers, cuts rise, rows are there."""
        arrays = self._arrays
        weights = [arrays[name] for name in ("weight", "outer", "outer_of_items", "pair_weight")]
        good = all((each >= 0).all() and (each < np.inf).all() for each in weights)
        # Places that only listed pairs know come last and have no grade.
        graded = int(arrays["level_start"][-1])
        good = good and bool(np.isfinite(arrays["grade"][:graded]).all())
        good = good and bool(((arrays["order"] >= 0) & (arrays["order"] < self.n_rows)).all())
        good = good and all(bool((np.diff(cut) > 0).all()) for cut in self.bins.cuts)
        if not good or not np.isfinite(arrays["cuts"]).all():
            raise ValueError(f"{self.path} is not a table of precede: its numbers make no sense")

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return self.n_rows, self.n_features

    @property
    def judgments(self) -> Judgments:
        """What is known about the order of the places (rows without a pair are not there)."""
        arrays = self._arrays
        first = arrays["level_start"][arrays["query_start"]]
        alone = self.n_places - int(arrays["level_start"][-1])
        query = np.repeat(np.arange(first.size - 1), np.diff(first))
        pairs = np.stack([arrays["winner"], arrays["loser"]], axis=1)
        return Judgments(
            arrays["grade"],
            np.concatenate([query, first.size - 1 + np.arange(alone)]),
            pairs=pairs if len(pairs) else None,
            pair_weight=arrays["pair_weight"] if len(pairs) else None,
            weight=arrays["weight"],
        )

    def training(self, *, balance: str, max_bins: int, workers: Workers) -> Training:
        """The data as the loop sees them; see `Training.prepare`."""
        if max_bins != self.max_bins:
            raise ValueError(
                f"{self.path} was written with max_bins={self.max_bins}, and the estimator has "
                f"max_bins={max_bins}; set it to {self.max_bins}, or write the table again"
            )
        check_balance(balance)
        fields, arrays = self._fields, self._arrays
        parts = {name: arrays[name] for name in KINDS if name in Arrangement.__dataclass_fields__}
        outer, total = OUTER[balance]
        parts["outer"] = arrays[outer]
        arrangement = Arrangement(
            **parts,
            total=float(fields[total]),
            pair_count=float(fields["pair_count"]),
            n_rows=self.n_rows,
        )
        return Training(_MappedTable(self), arrangement, workers)

    def __getitem__(self, rows: Any) -> Any:
        raise ValueError(
            f"{self!r} holds no rows that could be picked, as cross-validation does; give a number "
            "instead of 'cv', or fit from memory"
        )

    def __reduce__(self) -> tuple:
        return DiskTable, (self.path,)

    def __repr__(self) -> str:
        return f"DiskTable({self.n_rows} rows, {self.n_features} features, {self.n_places} places)"


class _MappedTable(Table):
    """Codes in a file; columns that are not in use go back to the operating system."""

    streamed: ClassVar[bool] = True

    def __init__(self, table: DiskTable):
        super().__init__(None, table._codes, table.bins, table._arrays["order"])
        self._map, self._path = table._map, table.path

    def release(self, features: NDArray[np.int64]) -> None:
        if not hasattr(self._map, "madvise"):
            return
        for feature in features:
            begin = PAGE + int(feature) * self.n_places
            first = begin // PAGE * PAGE
            self._map.madvise(mmap.MADV_DONTNEED, first, begin + self.n_places - first)

    def column(self, feature: int) -> Floats:
        raise ValueError(
            f"{self._path} holds bins, not values, so raw feature {feature} cannot be read; use "
            "rankers='stumps' with thresholds of this table, or fit from memory"
        )

    def rows(self) -> NDArray:
        raise ValueError(
            f"{self._path} holds bins, not values, so raw rows cannot be read; use "
            "rankers='stumps', or fit from memory"
        )

    def reorder(self, old: NDArray) -> Table:  # noqa: ARG002
        raise ValueError(f"{self._path} is in its order already")


def _read_footer(file: BinaryIO, size: int, path: Path) -> dict[str, Any]:
    """The JSON at the end of the file, checked."""
    file.seek(0)
    if size < PAGE + TAIL or file.read(len(MAGIC)) != MAGIC:
        raise ValueError(f"{path} is not a table of precede; write_table makes one")
    file.seek(size - TAIL)
    tail = file.read(TAIL)
    checksum = int.from_bytes(tail[:4], "little")
    length = int.from_bytes(tail[4:12], "little")
    if tail[12:] != MAGIC or length > size - TAIL - PAGE:
        raise ValueError(f"{path} is cut short or damaged: its end is not there; write it again")
    file.seek(size - TAIL - length)
    text = file.read(length)
    if zlib.crc32(text) != checksum:
        raise ValueError(f"{path} is damaged: its footer has a wrong checksum; write it again")
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a table of precede: {error}") from error
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        raise ValueError(f"{path} has another format than {FORMAT}; upgrade precede to read it")
    return fields
