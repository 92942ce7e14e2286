"""Read and write LETOR, CSV, TSV and parquet files, and the side files of LightGBM and CatBoost.

`read` returns a `Data`: features, their names, and judgments. The format is taken from the suffix
or the first bytes of a file, gzip is detected, and ``-`` is standard input. `write` is the inverse
and atomic. TREC's qrels and runs are in `precede.files.trec`.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from precede.engine.arrays import Array
from precede.engine.execution import warn_caller
from precede.engine.parameters import Argument, ParameterError, ParameterWarning, pluralize
from precede.files.arrow import delimited_blocks, parquet_batches
from precede.files.letor import MAX_FEATURES, read_letor
from precede.files.streams import STANDARD, opened, size_of, writing
from precede.files.text import NUMBER, GrowingArray, NumberedNames, read_text_columns
from precede.judgments import Judgments, check_column, check_labels, number_queries

Name = str | os.PathLike[str]

FORMATS = ("letor", "csv", "tsv", "parquet")
_SUFFIXES = {
    ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".pq": "parquet",
    ".letor": "letor", ".svm": "letor", ".svmlight": "letor", ".libsvm": "letor",
}  # fmt: skip
# Names that pandas gives to the index of a data frame in files.
_INDEX = re.compile(r"|__index_level_[0-9]+__|Unnamed: 0(\.[0-9]+)*")
# Names of columns that are, or may be, the query; lower case, letters only.
_QUERY_WORDS = frozenset({"qid", "queryid", "query"})
_POSSIBLE_QUERY_WORDS = frozenset({"group", "groupid", "listid", "searchid", "sessionid", "srchid"})
_BLANKS = " \t\r"  # stripped by the readers of CSV and TSV files
_DELIMITERS = {"csv": ",", "tsv": "\t"}
_FRAMES: tuple[Literal["pandas", "polars", "pyarrow"], ...] = ("pandas", "polars", "pyarrow")


@dataclass(frozen=True)
class Roles:
    """Which columns of a table are not features.

    Parameters
    ----------
    label, qid, docid, weight : names of columns
        None takes the column with one of the usual names (see `USUAL`). Without such a column for
        the query, one called "query", or "qid" or "query_id" in another spelling, is used with a
        warning; one that may be the query ("group", "session_id") stays a feature, with a warning.
    drop : columns to leave out
    features : the only columns to use as features
    labels : columns of 0 and 1, if items have several labels to rank
    keep_index : whether to keep the index of a data frame (``__index_level_0__`` in parquet, a
        first column without a name or ``Unnamed: 0`` in CSV), which is otherwise left out with a
        warning unless another parameter names it
    remembered : pairs of a role and the name of its column when a model was fitted; used if the
        table has that column

    Examples
    --------
    >>> Roles(label="clicks").find(["clicks", "qid", "price"])
    {'label': 'clicks', 'qid': 'qid'}
    >>> Roles().find(["rel", "query", "price"])
    {'label': 'rel', 'qid': 'query'}
    """

    label: str | None = None
    qid: str | None = None
    docid: str | None = None
    weight: str | None = None
    drop: tuple[str, ...] = ()
    features: tuple[str, ...] | None = None
    labels: tuple[str, ...] = ()
    keep_index: bool = False
    remembered: tuple[tuple[str, str], ...] = ()

    USUAL = {  # noqa: RUF012  (a constant)
        "label": ("grade", "label", "relevance", "rel", "y"),
        "qid": ("qid", "query_id"),
        "docid": ("docid", "docno", "doc_id"),
        "weight": ("weight", "sample_weight"),
    }

    def find(self, names: Sequence[str], where: str = "the table") -> dict[str, str]:
        """Return the column of every role that the table has."""
        for wanted in (*self.drop, *(self.features or ()), *self.labels):
            if wanted not in names:
                raise ValueError(f"{where} has no column {wanted!r}; it has {_quoted(names)}")
        found: dict[str, str] = {}
        kept = [name for name in names if name not in (*self.drop, *self.labels)]
        for role, usual in self.USUAL.items():
            given = getattr(self, role)
            if given is None:
                given = next((n for r, n in self.remembered if r == role and n in kept), None)
            candidates = [name for name in usual if name in kept] if given is None else [given]
            if given is not None and given not in names:
                raise ValueError(
                    f"{where} has no column {given!r} for {role}; it has {_quoted(names)}"
                )
            if len(candidates) > 1:
                raise ValueError(
                    f"columns {_quoted(candidates)} of {where} could all be the {role}; "
                    f"name one, and drop the others if they are no features"
                )
            if role == "qid" and not candidates and not self.remembered:
                candidates = self._columns_named(names, _QUERY_WORDS)
                candidates = candidates if len(candidates) == 1 else []
            if candidates:
                found[role] = candidates[0]
        if len(set(found.values())) < len(found):
            raise ValueError(f"{where}: one column cannot have two roles ({found})")
        return found

    def query_warning(
        self, path: Name, names: Sequence[str], found: dict[str, str]
    ) -> ParameterWarning | None:
        """Return a warning if the query was guessed or another column may be it, else None."""
        if self.qid is not None or self.features is not None or self.remembered:
            return None
        taken = found.get("qid")
        if taken is not None and taken not in self.USUAL["qid"]:
            return ParameterWarning(
                f"{path}: column {taken!r} is taken for the query; say so with ",
                Argument("qid", taken),
                ", or rename it if it is a feature",
            )
        alike = [] if taken else self._columns_named(names, _QUERY_WORDS | _POSSIBLE_QUERY_WORDS)
        if not alike:
            return None
        return ParameterWarning(
            f"{path}: column {_quoted(alike)} is read as a feature, and all rows as one list; if "
            "it says which rows belong together, use ",
            Argument("qid", alike[0]),
            ", otherwise rename it",
        )

    def _columns_named(self, names: Sequence[str], words: frozenset[str]) -> list[str]:
        """Return the columns without another role whose names are among the words."""
        others = {self.label, self.docid, self.weight, *self.drop, *self.labels}
        return [
            name for name in names
            if name not in others and re.sub("[^a-z]", "", name.lower()) in words
        ]  # fmt: skip

    def feature_columns(
        self, names: Sequence[str], found: dict[str, str], *, unnamed: bool = False
    ) -> tuple[list[str], list[str]]:
        """Return the names of the features and of index columns that are left out.

        `unnamed` says that the first column has no name in the file.
        """
        if self.features is not None:
            return [*self.features, *self.labels], []
        others = {*found.values(), *self.drop}
        features = [name for name in names if name not in others]
        if self.keep_index:
            return features, []
        index = {name for name in features if _INDEX.fullmatch(name)}
        index |= {names[0]} if unnamed else set()
        index -= {*others, *self.labels}
        left_out = [name for name in features if name in index]
        return [name for name in features if name not in index], left_out


@dataclass(frozen=True, eq=False)
class Data:
    """Rows to rank: features, their names, and judgments.

    Attributes
    ----------
    X : array or CSR matrix of shape (n, features); NaN is missing
    y : grades, or None
    qid : query identifiers, whole numbers or text, or None for a single list
    docid : names of the documents, or None
    weight, pairs, pair_weight : as in `Judgments`, or None
    feature_names : one name for each column; for a LETOR file the feature numbers
    labels, label_names : a column of 0 and 1 for each label, if items have several
    zeros : whether an absent feature is 0 (LETOR) or an error (tables)

    Examples
    --------
    >>> import io, sys
    >>> data = Data(np.array([[0.5], [1.5]]), y=np.array([0.0, 1.0]), feature_names=["price"])
    >>> data
    Data(2 rows, 1 feature, 1 pair)
    >>> data.judgments.n_pairs
    1
    """

    X: Any
    y: NDArray[np.float64] | None = None
    qid: Array | None = None
    docid: Array | None = None
    weight: NDArray[np.float64] | None = None
    pairs: NDArray[np.int64] | None = None
    pair_weight: NDArray[np.float64] | None = None
    feature_names: Sequence[str] = field(default_factory=list)
    labels: NDArray[np.float64] | None = None
    label_names: Sequence[str] = ()
    zeros: bool = False

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def __repr__(self) -> str:
        parts = [pluralize(len(self), "row"), pluralize(self.X.shape[1], "feature")]
        if self.qid is not None:
            parts.append(pluralize(np.unique(number_queries(self.qid)[0]).size, "query"))
        if self.y is not None or self.pairs is not None:
            parts.append(pluralize(self.judgments.n_pairs, "pair"))
        return f"Data({', '.join(parts)})"

    @property
    def judgments(self) -> Judgments:
        """Judgments of the rows, for `fit` and the metrics."""
        if self.y is None and self.pairs is None:
            raise ParameterError(
                "the data have no grades and no pairs; name the column that holds the grades (",
                Argument("label", in_python="label=..."),
                ") or give a file of pairs",
            )
        return Judgments(
            self.y, self.qid, pairs=self.pairs, pair_weight=self.pair_weight,
            weight=self.weight, n=len(self),
        )  # fmt: skip

    def __getitem__(self, rows: Any) -> Data:
        """Return some of the rows; a pair is kept if both its rows are."""
        index = np.arange(len(self))[rows]
        judgments = Judgments(
            self.y, self.qid, pairs=self.pairs, pair_weight=self.pair_weight,
            weight=self.weight, n=len(self),
        )[index]  # fmt: skip
        return replace(
            self, X=self.X[index], y=judgments.grade, qid=judgments.qid, weight=judgments.weight,
            pairs=judgments.pairs, pair_weight=judgments.pair_weight,
            docid=None if self.docid is None else self.docid[index],
            labels=None if self.labels is None else self.labels[index],
        )  # fmt: skip

    def with_features(self, names: Sequence[str]) -> Data:
        """Return the columns with these names, in this order.

        An absent column is 0 in data from a LETOR file, which leaves zeros out, and an error in
        data from a table.
        """
        names = [str(name) for name in names]
        if len(names) == len(self.feature_names) and names == list(self.feature_names):
            return self
        column_of = {name: column for column, name in enumerate(self.feature_names)}
        missing = [name for name in names if name not in column_of]
        if missing and not (self.zeros and len(missing) < len(names)):
            raise ValueError(
                f"the data have no column {_quoted(missing)}, which the model knows; "
                f"they have {_quoted(self.feature_names)}"
            )
        moves = [(column_of[name], new) for new, name in enumerate(names) if name in column_of]
        old, new = (list(each) for each in zip(*moves, strict=True))
        if scipy.sparse.issparse(self.X):
            chosen = scipy.sparse.csr_matrix(
                (np.ones(len(new)), (old, new)), shape=(self.X.shape[1], len(names))
            )
            return replace(self, X=(self.X @ chosen).tocsr(), feature_names=names)
        X = np.zeros((len(self), len(names)))
        X[:, new] = self.X[:, old]
        return replace(self, X=X, feature_names=names)

    def frame(self) -> Any:
        """Return the features as a data frame of pandas, polars or pyarrow, if one is installed."""
        X = self.X.toarray() if scipy.sparse.issparse(self.X) else self.X
        return _frame({name: X[:, c] for c, name in enumerate(self.feature_names)})


# -- reading -----------------------------------------------------------------------------------


def read(
    path: Name,
    *,
    format: str | None = None,
    roles: Roles | None = None,
    header: bool = True,
    groups: Name | None = None,
    weights: Name | None = None,
    pairs: Name | None = None,
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
        format_name = format_of(format, path, stream)
        if format_name == "letor":
            data = _read_letor(stream, path, n_jobs)
        elif format_name == "parquet":
            data = concatenate_blocks(parquet_blocks(stream, path, roles), str(path))
        else:
            columns = DelimitedFormat(format_name, roles, header).read_header(stream, str(path))
            data = concatenate_blocks(columns.blocks(stream), str(path))
    if roles.labels:
        data = _with_labels(data, roles.labels, str(path))
    return _with_side_files(data, path, groups, weights, pairs)


def read_numbers(path: Name, what: str, *, columns: tuple[int, ...] = (1,)) -> NDArray[np.float64]:
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


def read_groups(path: Name, rows: int) -> NDArray[np.int64]:
    """Return the query number of each row from a file of query sizes (LightGBM, XGBoost)."""
    sizes = read_sizes(path)
    if sizes.sum() != rows:
        raise ValueError(
            f"the sizes in {path} add up to {sizes.sum()}, but the data have {rows} rows"
        )
    return np.repeat(np.arange(sizes.size), sizes)


def read_sizes(path: Name) -> NDArray[np.int64]:
    """Read the sizes of queries, one on a line; their sum must be less than 2^53."""
    sizes = read_numbers(path, "sizes of queries")[:, 0]
    too_large = sizes.max(initial=0) >= 2**53 or sizes.sum() >= 2**53
    if too_large or (sizes < 0).any() or (sizes != np.floor(sizes)).any():
        raise ValueError(
            f"{path}: sizes of queries are whole numbers from 0, less than 2^53 in all"
        )
    return sizes.astype(np.int64)


def read_pairs(path: Name, rows: int) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
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
    return _objects(same[text] for text in texts)


def format_of_name(path: Name) -> str | None:
    """Return the format indicated by the suffix of a file, or None.

    >>> format_of_name("train.csv.gz"), format_of_name("train.txt")
    ('csv', None)
    """
    name = Path(path)
    suffix = Path(name.stem).suffix if name.suffix == ".gz" else name.suffix
    return _SUFFIXES.get(suffix.lower())


def format_of(format: str | None, path: Name, stream: io.BufferedReader) -> str:
    """Return the given format, or the one detected from the name or the first bytes."""
    if format is not None and format not in FORMATS:
        raise ParameterError(Argument("format", format), f" is unknown; use {_quoted(FORMATS)}")
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
    for format_name, delimiter in (("tsv", b"\t"), ("csv", b",")):
        if delimiter in lines[0]:
            return format_name
    _refuse_delimiter(lines[0].decode("utf-8", "replace"), path)
    raise ValueError(f"{path} is of no known format; say which one it is: {_quoted(FORMATS)}")


def _refuse_json(beginning: bytes, path: Name) -> None:
    """Refuse JSON, such as a model given in place of data."""
    if not re.match(rb"\s*(\{\s*\"|\[\s*[\[{])", beginning):
        return
    if b'"precede"' in beginning:
        raise ValueError(f"{path} is a model, not data; where both are given, the model is first")
    raise ValueError(
        f"{path} is JSON, which is not read as data; rewrite it, for example by pandas: "
        f"read_json({str(path)!r}).to_csv('out.csv', index=False)"
    )


def _read_letor(stream: io.BufferedReader, path: Name, n_jobs: int | None) -> Data:
    lines = read_letor(stream, str(path), size=size_of(path), n_jobs=n_jobs)
    names = NumberedNames(lines.first, lines.first + lines.X.shape[1])
    return Data(
        lines.X, y=lines.grade, qid=lines.qid, docid=lines.docid, feature_names=names, zeros=True
    )


@dataclass(frozen=True)
class DelimitedFormat:
    r"""Options for reading a delimited file: format, roles of the columns, header or none.

    >>> stream = io.BufferedReader(io.BytesIO(b"label,price\n1,2.5\n"))
    >>> next(DelimitedFormat("csv", Roles(), header=True).read_header(stream, "-").blocks(stream)).X
    array([[2.5]])
    """

    format: str
    roles: Roles
    header: bool

    def read_header(self, stream: io.BufferedReader, path: str) -> Columns:
        """Read the header and find the role of each column."""
        delimiter = _DELIMITERS[self.format]
        first = stream.readline()
        names, unnamed = _header(first, path, delimiter, self.header)
        found = self.roles.find(names, path)
        features, index = self.roles.feature_columns(names, found, unnamed=unnamed)
        _warn_of_index(path, index)
        _warn_of_query(self.roles.query_warning(path, names, found))
        if not features:
            raise ValueError(f"{path} has no column of features; it has {_quoted(names)}")
        return Columns(path, delimiter, names, found, features, b"" if self.header else first)


@dataclass(frozen=True)
class Columns:
    """Columns of one delimited file: all names, roles (`found`: role to name) and features.

    `prefix` holds the bytes of data that were read together with the header.
    """

    path: str
    delimiter: str
    names: list[str]
    found: dict[str, str]
    features: list[str]
    prefix: bytes

    def blocks(self, stream: io.BufferedReader, size: int | None = None) -> Iterator[RowBlock]:
        """Yield the rows of a stream in blocks of about `size` bytes."""
        texts = [self.found[role] for role in ("qid", "docid") if role in self.found]
        roles = [self.found[role] for role in ("label", "weight") if role in self.found]
        width = len(self.features)
        numbers = [*self.features, *(name for name in roles if name not in self.features)]
        for block in delimited_blocks(
            stream, self.path, self.delimiter, self.names,
            numbers=numbers, texts=texts, size=size, prefix=self.prefix,
            roles={name: role for role, name in self.found.items()},
        ):  # fmt: skip
            by_name: dict[str, Array] = dict(block.texts)
            by_name |= {name: block.numbers[:, numbers.index(name)].copy() for name in roles}
            X = block.numbers if width == len(numbers) else block.numbers[:, :width].copy()
            columns = {role: by_name[name] for role, name in self.found.items()}
            yield RowBlock(block.first_row, X, columns, self.features)


class RowBlock(NamedTuple):
    """Some rows of a table: features, and columns by role, with identifiers as text."""

    first_row: int
    X: NDArray[np.float64]
    columns: dict[str, Array]
    features: list[str]

    def data(self, path: str) -> Data:
        """Return a `Data`; identifiers stay text, as other blocks may have non-numeric ones."""
        columns = self.columns
        for role in ("label", "weight"):
            missing = np.flatnonzero(~np.isfinite(columns.get(role, np.zeros(0))))
            if missing.size:
                raise ValueError(
                    f"{path}: the {role} of row {self.first_row + missing[0] + 1} is missing or "
                    "infinite; give a number, or leave the row out"
                )
        missing = np.flatnonzero(columns.get("qid", np.zeros(0, object)) == "")
        if missing.size:
            row = self.first_row + missing[0] + 1
            raise ValueError(f"{path}: row {row} has no qid; give it one")
        return Data(
            self.X, y=columns.get("label"), qid=columns.get("qid"), docid=columns.get("docid"),
            weight=columns.get("weight"), feature_names=self.features,
        )  # fmt: skip


def concatenate_blocks(parts: Iterator[RowBlock], path: str) -> Data:
    """Concatenate all blocks of a table in arrays that grow in place."""
    arrays: dict[str, GrowingArray] = {}
    data = None
    for part in parts:
        data = part.data(path)
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


def _header(line: bytes, path: str, delimiter: str, header: bool) -> tuple[list[str], bool]:
    """Return the names of the columns, and whether the first one has no name in the file."""
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
    twice = sorted({name for name in names if names.count(name) > 1}) if len(names) < 9999 else []
    if len(set(names)) < len(names):
        raise ValueError(f"{path}, line 1 names {_quoted(twice) or 'a column'} twice; rename one")
    return names, not cells[0].strip()


def _refuse_delimiter(line: str, path: Name) -> None:
    """Raise a ValueError that names the delimiter if it is a wrong one."""
    for delimiter, what in ((";", "semicolons"), ("|", "vertical bars"), ("\t", "tabs")):
        if line.count(delimiter) > 0:
            remedy = "name it .tsv or give the format tsv" if delimiter == "\t" else (
                f"rewrite it with commas, for example by pandas: "
                f"read_csv({str(path)!r}, sep={delimiter!r}).to_csv('out.csv', index=False), with "
                "decimal=',' in read_csv if numbers are written 0,5"
            )  # fmt: skip
            raise ValueError(f"{path}: columns are separated by {what}; {remedy}")


def _warn_of_index(path: str, index: list[str]) -> None:
    """Warn that columns that look like the index of a data frame were left out."""
    if index:
        warning = ParameterWarning(
            f"{path}: {_quoted(index)} looks like the index of a data frame and is left out; ",
            Argument("keep_index", True),
            " makes it a feature",
        )
        warn_caller(warning)


def _warn_of_query(warning: ParameterWarning | None) -> None:
    """Emit the warning of `Roles.query_warning`, if any."""
    if warning is not None:
        warn_caller(warning)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def parquet_blocks(
    stream: io.BufferedReader, path: Name, roles: Roles, *, blocks: bool = False
) -> Iterator[RowBlock]:
    """Read a parquet file in blocks by pyarrow, or as a whole by another installed library."""
    # Compressed files and pipes cannot be read by position, so they are read into memory.
    source = Path(path) if size_of(path) else io.BytesIO(stream.read())
    first_row = 0
    for frame in _parquet_frames(source, str(path), blocks):
        part = _frame_part(frame, roles, str(path), first_row)
        yield part
        first_row += len(part.X)


def _parquet_frames(source: Any, path: str, blocks: bool) -> Iterator[Any]:
    others = [name for name in ("polars", "pandas") if find_spec(name) is not None]
    if find_spec("pyarrow") is not None or blocks:
        yield from parquet_batches(source, path)
    elif others:
        try:
            yield import_module(others[0]).read_parquet(source)
        except Exception as error:  # each library raises its own types
            raise ValueError(f"{path} is not a parquet file: {error}") from error
    else:
        raise ImportError(
            "parquet files need pyarrow, polars or pandas; pip install 'precede[files]'"
        )


def _frame_part(frame: Any, roles: Roles, path: str, first_row: int = 0) -> RowBlock:
    import narwhals as nw  # noqa: PLC0415  (needed for frames only)

    table = nw.from_native(frame, eager_only=True)
    found = roles.find(table.columns, path)
    features, index = roles.feature_columns(table.columns, found)
    if first_row == 0:
        _warn_of_index(path, index)
        _warn_of_query(roles.query_warning(path, table.columns, found))
    if not features or not len(table):
        raise ValueError(f"{path} has no {'rows' if features else 'column of features'}")
    for name in (*features, *(found[role] for role in ("label", "weight") if role in found)):
        if not (table.schema[name].is_numeric() or table.schema[name] == nw.Boolean):
            raise ValueError(
                f"{path}, column {name!r} holds {table.schema[name]}, not numbers; encode it as "
                "numbers or drop it"
            )
    X = np.empty((len(table), len(features)))
    for column, name in enumerate(features):
        X[:, column] = table[name].cast(nw.Float64).to_numpy()
    columns = {
        role: table[name].cast(nw.Float64).to_numpy().astype(np.float64)
        if role in ("label", "weight")
        else _objects("" if value is None else str(value) for value in table[name].to_list())
        for role, name in found.items()
    }
    return RowBlock(first_row, X, columns, features)


def _objects(values: Iterable[Any]) -> NDArray[np.object_]:
    values = list(values)
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _with_labels(data: Data, names: tuple[str, ...], path: str) -> Data:
    """Move columns from the features to the labels."""
    labels = data.with_features(names).X
    others = [name for name in data.feature_names if name not in names]
    if not others:
        raise ValueError(f"{path} has no column of features apart from the labels")
    return replace(data.with_features(others), labels=labels, label_names=names)


def _with_side_files(
    data: Data, path: Name, groups: Name | None, weights: Name | None, pairs: Name | None
) -> Data:
    """Add queries, weights and pairs from side files."""
    if groups is not None and data.qid is not None:
        raise ValueError(f"{path} has query identifiers of its own; leave out {groups}")
    if data.qid is None:
        groups = side_file(groups, path, ".query", ".group")
    if weights is not None and data.weight is not None:
        raise ValueError(f"{path} has weights of its own; leave out {weights}")
    if data.weight is None:
        weights = side_file(weights, path, ".weight")
    pairs = side_file(pairs, path, ".pairs")
    if groups is not None:
        data = replace(data, qid=read_groups(groups, len(data)))
    if weights is not None:
        weight = read_numbers(weights, "weights")[:, 0]
        if weight.size != len(data):
            raise ValueError(f"{weights} has {weight.size} lines and {path} {len(data)} rows")
        data = replace(data, weight=weight)
    if pairs is not None:
        explicit, pair_weight = read_pairs(pairs, len(data))
        data = replace(data, pairs=explicit, pair_weight=pair_weight)
    return data


def side_file(given: Name | None, path: Name, *suffixes: str) -> Name | None:
    """Return the side file given, or an existing file named like the data plus a suffix."""
    if given is not None:
        return given
    if str(path) == STANDARD:
        return None
    name = Path(path)
    names = [name, name.with_suffix("")] if name.suffix == ".gz" else [name]
    candidates = (Path(f"{each}{suffix}") for suffix in suffixes for each in names)
    return next((each for each in candidates if each.is_file()), None)


# -- writing -----------------------------------------------------------------------------------


def write(path: Name, data: Data, *, format: str | None = None) -> None:
    """Write data to a file; reading it back returns equal bits.

    Data that could not be read back raise a ValueError: columns of different lengths, duplicate
    names, names with another meaning in a file ("qid"), identifiers that the format changes.

    Parameters
    ----------
    path : name of the file, compressed if it ends in ``.gz``; ``-`` is standard output
    data : `Data` to write; pairs, and for LETOR weights, need separate files (`write_pairs`,
        `write_weights`). Features without names are called 1, 2, ...
    format : "letor", "csv", "tsv" or "parquet"; None goes by the suffix, with LETOR as default

    Notes
    -----
    LETOR identifies queries and features by whole numbers. Other query identifiers are numbered
    from 1 in order of first occurrence, and features in the order of the columns unless all their
    names are numbers. In all formats identifiers are read back as integers if each is a whole
    number of at most 18 digits, and as text otherwise.
    """
    format_name = format or format_of_name(path) or "letor"
    if format_name not in FORMATS:
        raise ParameterError(Argument("format", format), f" is unknown; use {_quoted(FORMATS)}")
    data = _checked(data, format_name)
    with writing(path) as file:
        if format_name == "letor":
            for text in _letor_lines(data):
                file.write(text.encode())
        elif format_name == "parquet":
            _write_parquet(file, data)
        else:
            _write_table(file, data, _DELIMITERS[format_name])


def write_groups(path: Name, data: Data) -> None:
    """Write the sizes of the queries, one on a line; their rows must be consecutive."""
    if data.qid is None:
        sizes = [len(data)]
    else:
        number = number_queries(data.qid)[0]
        starts = np.flatnonzero(np.diff(number, prepend=-1))
        if np.unique(number[starts]).size < starts.size:
            raise ValueError("the rows of a query are not consecutive; sort the data by query")
        sizes = np.diff(starts, append=number.size).tolist()
    with writing(path) as file:
        file.write("".join(f"{size}\n" for size in sizes).encode())


def write_pairs(path: Name, data: Data) -> None:
    """Write the explicit pairs in CatBoost's format: winner, loser and weight."""
    if data.pairs is None:
        raise ValueError("the data have no listed pairs")
    weight = np.ones(len(data.pairs)) if data.pair_weight is None else data.pair_weight
    with writing(path) as file:
        for (winner, loser), each in zip(data.pairs.tolist(), weight.tolist(), strict=True):
            file.write(f"{winner}\t{loser}\t{plain_number(each)}\n".encode())


def write_weights(path: Name, data: Data) -> None:
    """Write one weight on a line."""
    if data.weight is None:
        raise ValueError("the data have no weights")
    weight = check_column(data.weight, "weight", len(data))
    with writing(path) as file:
        file.write("".join(f"{plain_number(each)}\n" for each in weight.tolist()).encode())


def plain_number(value: float) -> str:
    """Return the shortest text that reads back as the same number.

    >>> plain_number(3.0), plain_number(0.1), plain_number(-0.0), plain_number(float("nan"))
    ('3', '0.1', '-0.0', 'nan')
    """
    text = repr(value)
    return text[:-2] if text.endswith(".0") and text != "-0.0" else text


def _checked(data: Data, format_name: str) -> Data:
    """Return the data in the types to write; raise a ValueError if they would not read back."""
    X: Any = data.X.tocsr(copy=True) if scipy.sparse.issparse(data.X) else np.asarray(data.X)
    if scipy.sparse.issparse(X):
        X.sum_duplicates()
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"X has shape {X.shape}; a file needs rows, each with a feature or more")
    if X.dtype.kind not in "biuf":
        raise ValueError(f"X holds {X.dtype}, not numbers; encode it first")
    X = X.astype(np.float64, copy=False)
    if format_name != "parquet" and np.isinf(X.data if scipy.sparse.issparse(X) else X).any():
        raise ValueError(
            f"X holds infinities, which {format_name} files cannot; use NaN, or parquet"
        )
    if data.pairs is not None or data.labels is not None:
        raise ValueError(
            f"a {format_name} file cannot hold pairs or several labels; write pairs separately "
            "with write_pairs and labels as features (Roles(labels=...) reads them), the rest "
            "without"
        )
    rows, columns = X.shape
    names = data.feature_names
    if not isinstance(names, NumberedNames):
        names = [str(name) for name in names] or [str(column + 1) for column in range(columns)]
    if len(names) != columns:
        raise ValueError(f"{len(names)} feature names for {columns} columns; name every column")
    twice = [] if isinstance(names, NumberedNames) else _repeated(names)
    if twice:
        raise ValueError(f"{_quoted(twice)} is the name of two features; rename one")
    made = Data(
        X, feature_names=names, zeros=data.zeros,
        y=None if data.y is None else check_column(data.y, "y", rows),
        weight=None if data.weight is None else check_column(data.weight, "weight", rows),
        qid=_queries_of_rows(data.qid, rows, format_name),
        docid=_documents(data.docid, rows, format_name),
    )  # fmt: skip
    if format_name == "letor":
        _check_letor(made)
    else:
        _check_header(made, _DELIMITERS.get(format_name))
    return made


def _repeated(names: Sequence[str]) -> list[str]:
    return sorted(name for name, times in Counter(names).items() if times > 1)


def _queries_of_rows(qid: Any, rows: int, format_name: str) -> Array | None:
    """Return query identifiers as integers, or as texts that stay distinct in a file."""
    if qid is None:
        return None
    number, distinct = number_queries(qid, rows)
    whole = all(isinstance(each, int | np.integer) for each in distinct.tolist())
    if whole and all(abs(int(each)) < 10**18 for each in distinct.tolist()):
        return np.array([int(each) for each in distinct.tolist()], np.int64)[number]
    texts = [_cell(each) for each in distinct.tolist()]
    if format_name != "letor":
        _check_texts(texts, "qid", format_name)
    if len(set(texts)) < len(texts):
        raise ValueError(f"qid: {_quoted(_repeated(texts))} stands for two queries; rename one")
    return _objects(texts)[number]


def _documents(docid: Any, rows: int, format_name: str) -> Array | None:
    if docid is None:
        return None
    texts = [_cell(each) for each in check_labels(docid, "docid", rows).tolist()]
    if format_name != "letor":
        _check_texts([text for text in texts if text], "docid", format_name)
    return _objects(texts)


def _check_texts(texts: list[str], name: str, format_name: str) -> None:
    """Refuse identifiers that change when read back, as blanks around them are stripped."""
    for text in texts:
        changed = text != text.strip(_BLANKS) or "\n" in text or "\r" in text
        if not text or (changed and format_name != "parquet"):
            remedy = "change it" if format_name == "parquet" else "change it, or write parquet"
            raise ValueError(
                f"{name} {text!r} is empty, or has line breaks or blanks around it, which are lost "
                f"in a {format_name} file; {remedy}"
            )


def _check_header(data: Data, delimiter: str | None) -> None:
    """Refuse feature names that would be read back as a role, an index or another name."""
    roles = {"grade": "label", "qid": "qid", "docid": "docid", "weight": "weight"}
    columns, names = _columns(data), list(data.feature_names)
    header, usual = [*columns, *names], Roles()
    if delimiter is not None:
        for name in names:
            if name != name.strip() or not name or "\n" in name or "\r" in name:
                raise ValueError(
                    f"the feature name {name!r} is empty, or has blanks around it or line breaks, "
                    "which do not come back; rename it"
                )
        line = io.StringIO(newline="")
        csv.writer(line, delimiter=delimiter, lineterminator="\n").writerow(header)
        read_back, _ = _header(line.getvalue().encode(), "the header", delimiter, header=True)
        if read_back != header:
            wrong = [name for name in names if name not in read_back]
            raise ValueError(f"the feature name {_quoted(wrong)} does not come back; rename it")
    special = [name for name in names if usual.find([name]) or usual.feature_columns([name], {})[1]]
    found = {} if special else usual.find(header)
    special = special or [name for name in found.values() if name in names]
    if special:
        raise ValueError(
            f"a feature is called {_quoted(special)}, which means something else in a file; "
            "rename it"
        )
    assert found == {roles[name]: name for name in columns}


def _check_letor(data: Data) -> None:
    if data.y is None:
        raise ValueError("a LETOR file needs grades, and the data have none; write CSV instead")
    if data.weight is not None:
        raise ValueError(
            "a LETOR file cannot hold weights; write them separately with write_weights, and the "
            "rest without them"
        )
    for text in () if data.docid is None else data.docid.tolist():
        if len(text.split()) > 1 or text != text.strip():
            raise ValueError(f"docid {text!r} holds blanks; a LETOR file has room for one word")


def _letor_lines(data: Data) -> Iterator[str]:
    assert data.y is not None
    qid, numbers = _whole_numbers(data.qid), _feature_numbers(data.feature_names)
    marks = [f" {number}:" for number in numbers]
    sparse = scipy.sparse.issparse(data.X)
    cells: Iterable[tuple[int, float]]
    # Write the smallest and the largest feature number, so that empty end columns are read back.
    ends = sorted({numbers.index(min(numbers)), numbers.index(max(numbers))}) if sparse else []
    ends = [column for column in ends if not (data.X.indices == column).any()]
    for row, grade in enumerate(data.y.tolist()):
        query = "" if qid is None else f" qid:{qid[row]}"
        if sparse:
            part = slice(*data.X.indptr[row : row + 2])
            cells = zip(data.X.indices[part].tolist(), data.X.data[part].tolist(), strict=True)
            cells = [*cells, *((column, 0.0) for column in ends if row == 0)]
        else:
            cells = enumerate(data.X[row].tolist())
        values = "".join([marks[column] + plain_number(value) for column, value in cells])
        comment = "" if data.docid is None else f" # {_comment(data.docid[row])}"
        yield f"{plain_number(grade)}{query}{values}{comment}\n"


def _comment(docid: str) -> str:
    """Return the comment for a document; a name that begins with "docid=" needs a prefix."""
    return f"docid = {docid}" if docid.startswith("docid=") else docid


def _feature_numbers(names: Sequence[str]) -> list[int]:
    """Return the feature numbers: the names if all are numbers, else 1, 2, ..."""
    if all(re.fullmatch("0|[1-9][0-9]{0,7}", name) for name in names):
        numbers = [int(name) for name in names]
        if max(numbers) < MAX_FEATURES:
            return numbers
    return list(range(1, len(names) + 1))


def _whole_numbers(qid: Array | None) -> list[int] | None:
    if qid is None or qid.dtype.kind in "iu":
        return None if qid is None else qid.tolist()
    seen: dict[Any, int] = {}
    return [seen.setdefault(query, len(seen) + 1) for query in qid.tolist()]


def _columns(data: Data) -> dict[str, Any]:
    """Return the columns before the features of a table, by their usual names."""
    columns = {"grade": data.y, "qid": data.qid, "docid": data.docid, "weight": data.weight}
    present = {name: column for name, column in columns.items() if column is not None}
    clash = set(present) & set(data.feature_names)
    if clash:
        raise ValueError(f"a feature is called {_quoted(sorted(clash))} too; rename it")
    return present


def _write_table(file: BinaryIO, data: Data, delimiter: str) -> None:
    columns = _columns(data)
    text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
    out = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    out.writerow([*columns, *data.feature_names])
    lists = [column.tolist() for column in columns.values()]
    for row in range(len(data)):
        cells = [_cell(values[row]) for values in lists]
        X = data.X[row].toarray()[0] if scipy.sparse.issparse(data.X) else data.X[row]
        out.writerow([*cells, *map(_cell, X.tolist())])
    text.detach()


def _cell(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return "" if value != value else plain_number(value)  # noqa: PLR0124  (NaN)


def _write_parquet(file: BinaryIO, data: Data) -> None:
    import narwhals as nw  # noqa: PLC0415  (needed for frames only)

    X = data.X.toarray() if scipy.sparse.issparse(data.X) else data.X
    columns = _columns(data)
    features = {str(name): X[:, c] for c, name in enumerate(data.feature_names)}
    content = io.BytesIO()
    nw.from_native(_frame({**columns, **features}), eager_only=True).write_parquet(content)
    file.write(content.getbuffer())


def _frame(columns: dict[str, Any]) -> Any:
    """Return a data frame of the first installed library."""
    import narwhals as nw  # noqa: PLC0415  (needed for frames only)

    for library in _FRAMES:
        if find_spec(library) is not None:
            texts = {n: c.tolist() if c.dtype.kind == "O" else c for n, c in columns.items()}
            return nw.from_dict(texts, backend=library).to_native()
    raise ImportError(f"a data frame needs {', '.join(_FRAMES)}; install one of them")


def _quoted(names: Sequence[Any]) -> str:
    shown = ", ".join(repr(str(name)) for name in names[:8])
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")
