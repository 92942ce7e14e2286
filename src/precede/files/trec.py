"""Read and write TREC files: qrels (relevance judgments) and runs (ranked results)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from precede.engine.arrays import Array, Floats, Objects
from precede.files.reading import identifiers
from precede.files.streams import FileName, opened, writing
from precede.files.text import NUMBER, SKIP, TEXT, object_array, read_text_columns
from precede.judgments import check_column, check_labels


@dataclass(frozen=True, eq=False)
class Judged:
    """Grades of the documents of queries, as in a qrels file."""

    qid: Array
    docid: Objects
    grade: Floats


@dataclass(frozen=True, eq=False)
class Run:
    """Scores of the documents of queries, as in a run file."""

    qid: Array
    docid: Objects
    score: Floats


def read_qrels(path: FileName) -> Judged:
    r"""Read lines ``query 0 document grade``.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     name = pathlib.Path(folder, "qrels.txt")
    ...     _ = name.write_text("7 0 a 2\n7 0 b 0\n")
    ...     read_qrels(name).grade
    array([2., 0.])
    """
    (qid, docid), grade = _read(path, [TEXT, SKIP, TEXT, NUMBER], "query 0 document grade")
    judged = Judged(identifiers(qid), object_array(docid), grade)
    _refuse_duplicates(judged.qid, docid, path)
    return judged


def read_run(path: FileName) -> Run:
    """Read lines ``query Q0 document rank score tag``; ranks are ignored.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     name = pathlib.Path(folder, "run.txt")
    ...     write_run(name, [1.5, 2.5], qid=[7, 7], docid=["a", "b"], tag="mine")
    ...     print(name.read_text(), read_run(name).score)
    7 Q0 b 1 2.5 mine
    7 Q0 a 2 1.5 mine
     [2.5 1.5]
    """
    kinds = [TEXT, SKIP, TEXT, SKIP, NUMBER, SKIP]
    (qid, docid), score = _read(path, kinds, "query Q0 document rank score tag")
    run = Run(identifiers(qid), object_array(docid), score)
    _refuse_duplicates(run.qid, docid, path)
    return run


def write_qrels(path: FileName, grade: ArrayLike, *, qid: ArrayLike | None, docid: Any) -> None:
    """Write lines ``query 0 document grade``, in the order of the rows."""
    grades = check_column(grade, "grade", empty=True)
    if (grades != np.floor(grades)).any():
        raise ValueError("a qrels file holds whole grades; these have fractions")
    queries, documents = _check_names(grades.size, qid, docid)
    with writing(path) as file:
        for query, document, each in zip(queries, documents, grades.tolist(), strict=True):
            file.write(f"{query} 0 {document} {each:.0f}\n".encode())


def write_run(
    path: FileName,
    scores: ArrayLike,
    *,
    qid: ArrayLike | None,
    docid: Any,
    tag: str = "precede",
) -> None:
    """Write lines ``query Q0 document rank score tag``, best first inside each query.

    Queries come in the order of their first row; equal scores in the order of the rows.
    """
    values = check_column(scores, "scores", infinite=True, empty=True)
    queries, documents = _check_names(values.size, qid, docid)
    first: dict[str, int] = {}
    number = np.array([first.setdefault(query, len(first)) for query in queries], np.int64)
    rank, last = 0, -1
    with writing(path) as file:
        for row in np.lexsort((-values, number)).tolist():
            rank = rank + 1 if number[row] == last else 1
            last = number[row]
            line = f"{queries[row]} Q0 {documents[row]} {rank} {values[row].item()!r} {tag}\n"
            file.write(line.encode())


def joined(run: Run, judged: Judged) -> tuple[Floats, Floats, Array, dict[str, int]]:
    """Return grades, scores and query ids of all documents of the judged queries, and counts.

    A judged document missing from the run gets the score −inf, which `precede.evaluate` treats as
    not returned; a document without a judgment has grade 0. A judged query without results is
    kept and counts 0 (``trec_eval -c``); queries of the run without a judgment are left out.
    Documents of a query are in descending order of their names, so that ``ties="order"`` is the
    order of trec_eval. The counts are of documents and queries missing on either side.

    >>> run = Run(np.array([1, 1]), np.array(["a", "b"], object), np.array([2.0, 3.0]))
    >>> judged = Judged(np.array([1, 1]), np.array(["b", "c"], object), np.array([1.0, 2.0]))
    >>> joined(run, judged)[:2]
    (array([2., 1., 0.]), array([-inf,   3.,   2.]))
    """
    score = _by_query_and_document(run.qid, run.docid, run.score)
    grade = _by_query_and_document(judged.qid, judged.docid, judged.grade)
    number = {query: at for at, query in enumerate(dict.fromkeys(q for q, _ in grade))}
    unjudged = [key for key in score if key[0] in number and key not in grade]
    keys = sorted([*grade, *unjudged], key=lambda key: key[1].encode(), reverse=True)
    keys.sort(key=lambda key: number[key[0]])
    answered = {query for query, _ in score}
    counts = {
        "judged documents not returned": sum(key not in score for key in grade),
        "returned documents not judged": len(unjudged),
        "queries without results": len(number.keys() - answered),
        "queries not judged": len(answered - number.keys()),
    }
    grades, scores = ([each.get(key, other) for key in keys]
                      for each, other in ((grade, 0.0), (score, -np.inf)))  # fmt: skip
    return np.array(grades), np.array(scores), identifiers([query for query, _ in keys]), counts


def _by_query_and_document(
    qid: Array, docid: Objects, value: Floats
) -> dict[tuple[str, str], float]:
    queries = map(str, qid.tolist())
    return dict(zip(zip(queries, docid.tolist(), strict=True), value.tolist(), strict=True))


def _read(path: FileName, kinds: list[int], wanted: str) -> tuple[list[list[str]], Floats]:
    with opened(path) as stream:
        try:
            cells = read_text_columns(stream, str(path), kinds)
        except ValueError as error:
            raise ValueError(f"{error} (a line is '{wanted}')") from error
    numbers = cells.numbers[:, 0]
    if not numbers.size:
        raise ValueError(f"{path} holds no line of data (a line is '{wanted}')")
    if np.isnan(numbers).any():
        row = int(np.flatnonzero(np.isnan(numbers))[0])
        raise ValueError(f"{path}: the number of entry {row + 1} is missing (nan)")
    return cells.texts, numbers


def _refuse_duplicates(qid: Array, docid: list[str], path: FileName) -> None:
    seen: set[tuple[Any, str]] = set()
    for key in zip(qid.tolist(), docid, strict=True):
        if key in seen:
            raise ValueError(f"{path}: document {key[1]!r} of query {key[0]!r} occurs twice")
        seen.add(key)


def _check_names(n: int, qid: Any, docid: Any) -> tuple[list[str], list[str]]:
    """Return the names of queries and documents; without any, rows are numbered."""
    queries = ["1"] * n
    if qid is not None:
        queries = [str(each) for each in check_labels(qid, "qid", n).tolist()]
    documents = [f"row{row}" for row in range(n)]
    if docid is not None:
        documents = [str(each) for each in check_labels(docid, "docid", n).tolist()]
    for name in (*queries, *documents):
        if not name or len(name.split()) != 1 or name != name.strip():
            raise ValueError(f"{name!r} cannot be written to a TREC file: it has blanks")
    return queries, documents
