"""Write LETOR, CSV, TSV and parquet files, and the side files of LightGBM and CatBoost.

Files are written atomically, and only what `precede.files.read` reads back unchanged.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse

from precede.engine.arrays import Array, VectorLike
from precede.files.arrow import BLANKS, pyarrow
from precede.files.data import Data, Roles, quoted
from precede.files.letor import MAX_FEATURES
from precede.files.reading import DELIMITERS, check_format, format_of_name, read_header, repeated
from precede.files.streams import FileName, writing
from precede.files.text import NumberedNames, object_array
from precede.judgments import check_column, check_labels, number_queries


def write(path: FileName, data: Data, *, format: str | None = None) -> None:
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
    check_format(format)
    format_name = format or format_of_name(path) or "letor"
    data = _checked(data, format_name)
    with writing(path) as file:
        if format_name == "letor":
            for text in _letor_lines(data):
                file.write(text.encode())
        elif format_name == "parquet":
            _write_parquet(file, data)
        else:
            _write_table(file, data, DELIMITERS[format_name])


def write_groups(path: FileName, data: Data) -> None:
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


def write_pairs(path: FileName, data: Data) -> None:
    """Write the explicit pairs in CatBoost's format: winner, loser and weight."""
    if data.pairs is None:
        raise ValueError("the data have no listed pairs")
    weight = np.ones(len(data.pairs)) if data.pair_weight is None else data.pair_weight
    with writing(path) as file:
        for (winner, loser), each in zip(data.pairs.tolist(), weight.tolist(), strict=True):
            file.write(f"{winner}\t{loser}\t{plain_number(each)}\n".encode())


def write_weights(path: FileName, data: Data) -> None:
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
    twice = [] if isinstance(names, NumberedNames) else repeated(names)
    if twice:
        raise ValueError(f"{quoted(twice)} is the name of two features; rename one")
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
        _check_header(made, DELIMITERS.get(format_name))
    return made


def _queries_of_rows(qid: VectorLike, rows: int, format_name: str) -> Array | None:
    """Return query identifiers as integers, or as texts that stay distinct in a file."""
    if qid is None:
        return None
    number, distinct = number_queries(qid, rows)
    whole = all(isinstance(each, int | np.integer) for each in distinct.tolist())
    if whole and all(abs(int(each)) < 10**18 for each in distinct.tolist()):
        return np.array([int(each) for each in distinct.tolist()], np.int64)[number]
    texts = [format_cell(each) for each in distinct.tolist()]
    if format_name != "letor":
        _check_texts(texts, "qid", format_name)
    if len(set(texts)) < len(texts):
        raise ValueError(f"qid: {quoted(repeated(texts))} stands for two queries; rename one")
    return object_array(texts)[number]


def _documents(docid: VectorLike, rows: int, format_name: str) -> Array | None:
    if docid is None:
        return None
    texts = [format_cell(each) for each in check_labels(docid, "docid", rows).tolist()]
    if format_name != "letor":
        _check_texts([text for text in texts if text], "docid", format_name)
    return object_array(texts)


def _check_texts(texts: list[str], name: str, format_name: str) -> None:
    """Refuse identifiers that change when read back, as blanks around them are stripped."""
    for text in texts:
        changed = text != text.strip(BLANKS) or "\n" in text or "\r" in text
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
        read_back, _ = read_header(line.getvalue().encode(), "the header", delimiter, header=True)
        if read_back != header:
            wrong = [name for name in names if name not in read_back]
            raise ValueError(f"the feature name {quoted(wrong)} does not come back; rename it")
    special = [name for name in names if usual.find([name]) or usual.feature_columns([name], {})[1]]
    found = {} if special else usual.find(header)
    special = special or [name for name in found.values() if name in names]
    if special:
        raise ValueError(
            f"a feature is called {quoted(special)}, which means something else in a file; "
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
        raise ValueError(f"a feature is called {quoted(sorted(clash))} too; rename it")
    return present


def _write_table(file: BinaryIO, data: Data, delimiter: str) -> None:
    columns = _columns(data)
    text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
    out = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    out.writerow([*columns, *data.feature_names])
    lists = [column.tolist() for column in columns.values()]
    for row in range(len(data)):
        cells = [format_cell(values[row]) for values in lists]
        X = data.X[row].toarray()[0] if scipy.sparse.issparse(data.X) else data.X[row]
        out.writerow([*cells, *map(format_cell, X.tolist())])
    text.detach()


def format_cell(value: object) -> str:
    """Return a value as the text of a cell; NaN is an empty cell."""
    if not isinstance(value, float):
        return str(value)
    return "" if value != value else plain_number(value)  # noqa: PLR0124  (NaN)


def _write_parquet(file: BinaryIO, data: Data) -> None:
    X = data.X.toarray() if scipy.sparse.issparse(data.X) else data.X
    features = {str(name): X[:, c] for c, name in enumerate(data.feature_names)}
    table = pyarrow("parquet").table({**_columns(data), **features})
    pyarrow("parquet", "pyarrow.parquet").write_table(table, file)
