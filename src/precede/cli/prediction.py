"""Commands that use a model or data: predict, explain, export and convert."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

import precede
from precede.cli.console import printable, say, write_json, write_rows
from precede.cli.options import AsJson, DataFile, Jobs, ModelFile, Output, Reading

if TYPE_CHECKING:
    from precede.engine.arrays import Floats, Integers, Json
    from precede.estimator import BaseRanker
    from precede.explain import PairExplanation
    from precede.files import Data


# -- predict -----------------------------------------------------------------------------------


def predict(
    model: ModelFile,
    data: DataFile,
    *,
    output: Output = "-",
    style: Annotated[
        str,
        typer.Option("--as", help="scores (one per line), csv, tsv, or trec (a run)."),
    ] = "scores",
    tag: Annotated[str, typer.Option("--tag", help="Name of a TREC run.")] = "precede",
    jobs: Jobs = None,
    as_json: AsJson = False,
    reading: Reading,
) -> None:
    """Score every row of DATA; within a query, a higher score ranks first."""
    import numpy as np

    from precede.cli.sources import features_for, read_for
    from precede.files.streams import writing

    fitted, rows = read_for(model, data, reading)
    style = "json" if as_json else style
    if style not in ("scores", "csv", "tsv", "trec", "json"):
        raise ValueError(f"--as {style} is unknown; use scores, csv, tsv, trec")
    if jobs is not None:
        fitted.set_params(n_jobs=jobs)
    scores = np.asarray(fitted.predict(features_for(fitted, rows)), np.float64)
    if scores.ndim == 2 and style != "scores":
        rows, scores = _by_label(rows, scores, getattr(fitted, "labels_", ()))
    if style == "trec":
        precede.files.write_run(output, scores, qid=rows.qid, docid=rows.docid, tag=tag)
        return
    lines = _score_lines(scores) if style == "scores" else _row_lines(rows, scores, style)
    with writing(output) as file:
        for line in lines:
            file.write(line.encode())


def _by_label(data: Data, scores: Floats, labels: Sequence[object]) -> tuple[Data, Floats]:
    """Return every item as a query whose documents are its labels."""
    import numpy as np

    items = [f"row{row}" for row in range(len(data))] if data.docid is None else data.docid
    qid = np.repeat(np.array(items, object), len(labels))
    docid = np.tile(np.array([str(label) for label in labels], object), len(data))
    named = precede.files.Data(np.empty((qid.size, 0)), qid=qid, docid=docid)
    return named, scores.ravel()


def _score_lines(scores: Floats) -> Iterator[str]:
    from precede.files.writing import plain_number

    for each in scores.reshape(len(scores), -1).tolist():
        yield " ".join(map(plain_number, each)) + "\n"


def _row_lines(data: Data, scores: Floats, style: str) -> Iterator[str]:
    """Yield a row for each document, with its score and rank, as CSV, TSV or JSON."""
    columns = {"qid": data.qid, "docid": data.docid, "score": scores, "rank": _ranks(data, scores)}
    known = {name: column.tolist() for name, column in columns.items() if column is not None}
    out = io.StringIO()
    table = csv.writer(out, delimiter="\t" if style == "tsv" else ",", lineterminator="\n")
    if style != "json":
        table.writerow(known)
    for row in zip(*known.values(), strict=True):
        if style == "json":
            out.write(json.dumps(dict(zip(known, row, strict=True)), ensure_ascii=False) + "\n")
        else:
            table.writerow(row)
        yield out.getvalue()
        out.seek(0)
        out.truncate()


def _ranks(data: Data, scores: Floats) -> Integers:
    """Return the ranks within queries, from 1; equal scores in the order of the rows."""
    import numpy as np

    from precede.judgments import number_queries

    query = np.zeros(len(data), np.int64) if data.qid is None else number_queries(data.qid)[0]
    order = np.lexsort((-scores, query))
    first = np.searchsorted(query[order], query[order], side="left")
    ranks = np.empty(len(data), np.int64)
    ranks[order] = np.arange(len(data)) - first + 1
    return ranks


# -- explain -----------------------------------------------------------------------------------


def explain(
    model: ModelFile,
    data: DataFile,
    *,
    query: Annotated[
        str | None, typer.Option("--query", help="Query to explain; default: the first.")
    ] = None,
    pair: Annotated[
        tuple[str, str] | None,
        typer.Option("--pair", help="Explain why the first document ranks above the second."),
    ] = None,
    shape: Annotated[
        str | None,
        typer.Option("--shape", metavar="NAME", help="Print the shape function of one feature."),
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="Features shown per document.")] = 5,
    most: Annotated[
        int | None,
        typer.Option(
            "--rows", min=1, help="Documents shown; default: all of a query, 10 of a single list."
        ),
    ] = None,
    as_json: AsJson = False,
    reading: Reading,
) -> None:
    """Explain the ranking, feature by feature."""
    from precede.cli.sources import features_for

    fitted = precede.load(model)
    if not hasattr(fitted, "explain"):
        raise ValueError(f"{type(fitted).__name__} has no explanations")
    if shape is not None:
        function = fitted.shape_function(shape)
        write_json(function.to_dict()) if as_json else print(printable(str(function), lines=True))
        return
    rows = _rows_of_query(reading.with_roles_of(fitted).read(data), query)
    if pair is not None:
        upper, lower = (_row_of(rows, name) for name in pair)
        _write_pair(fitted.explain_pair(features_for(fitted, rows), upper, lower), pair, as_json)
        return
    limit = most or (10 if rows.qid is None else len(rows))
    if limit < len(rows):
        say(f"the first {limit} of {len(rows)} rows; --rows N shows more or fewer")
    found = _explained_documents(fitted, rows, top, limit)
    if not as_json:
        for row in found:
            parts = row["contributions"].items()
            row["contributions"] = ", ".join(f"{name} {value:+.3g}" for name, value in parts)
    write_rows(found, as_json=as_json)


def _rows_of_query(data: Data, query: str | None) -> Data:
    """Return the rows of one query; all rows where the data are a single list."""
    import numpy as np

    if data.qid is None:
        if query is not None:
            raise ValueError(f"there is no query {query!r}: the data are a single list")
        return data
    names = np.array([str(each) for each in data.qid.tolist()], object)
    rows = np.flatnonzero(names == (names[0] if query is None else query))
    if not rows.size:
        some = ", ".join(dict.fromkeys(names[:2000].tolist()))[:100]
        raise ValueError(f"there is no query {query!r}; there are {some}, ...")
    return data[rows]


def _explained_documents(model: BaseRanker, data: Data, top: int, limit: int) -> list[Json]:
    """Return the first documents, best first, each with its largest contributions."""
    import numpy as np

    from precede.cli.sources import features_for

    explained = model.explain(features_for(model, data))
    rows = []
    for rank, row in enumerate(np.argsort(-explained.scores, kind="stable")[:limit].tolist()):
        each = explained.contributions[row]
        largest = np.argsort(-np.abs(each), kind="stable")[:top]
        document = str(row) if data.docid is None else str(data.docid[row])
        found: Json = {"rank": rank + 1, "document": document}
        if data.y is not None:
            found["grade"] = float(data.y[row])
        why = {explained.names[j]: float(each[j]) for j in largest if each[j] != 0}
        rows.append({**found, "score": float(explained.scores[row]), "baseline": explained.baseline,
                     "contributions": why})  # fmt: skip
    return rows


def _write_pair(explained: PairExplanation, pair: tuple[str, str], as_json: bool) -> None:
    """Write the contributions to the difference of two documents."""
    upper, lower = pair
    if as_json:
        write_json({"documents": pair, **explained.to_dict()})
        return
    gap = explained.difference
    side = "above" if gap > 0 else "below" if gap < 0 else "level with"
    scores = f"{explained.scores[0]:.4g} against {explained.scores[1]:.4g}"
    say(f"{upper} ranks {side} {lower}: {scores}, a difference of {gap:.4g}")
    columns = explained.names, explained.values.tolist(), explained.contributions.tolist()
    rows = [
        {"feature": name, f"in {upper}": values[0], f"in {lower}": values[1], "contribution": each}
        for name, values, each in zip(*columns, strict=True)
    ]
    write_rows(rows, as_json=False)


def _row_of(data: Data, name: str) -> int:
    """Return the row of a document, by its name or number."""
    if data.docid is not None:
        found = [row for row, docid in enumerate(data.docid) if docid == name]
        if len(found) > 1:
            raise ValueError(f"document {name!r} occurs {len(found)} times; give its query")
        if found:
            return found[0]
    if not name.isdecimal() or int(name) >= len(data):
        known = "the rows are numbered from 0" if data.docid is None else "look at the names"
        raise ValueError(f"there is no document {name!r}; {known}")
    return int(name)


# -- export and convert ------------------------------------------------------------------------


def export(
    model: ModelFile,
    output: Annotated[str, typer.Argument(metavar="FILE", help="Output file.")],
    *,
    format: Annotated[
        str | None,
        typer.Option(
            "--to",
            help="json, onnx, xgboost, xgboost-dump, elasticsearch, ltr-features, ltr-model, "
            "ranklib, solr, solr-features, sql, python or c; default: detected from .onnx, .sql, "
            ".py and .c.",
        ),
    ] = None,
    dialect: Annotated[
        str | None,
        typer.Option(
            "--dialect",
            help="For sql: ansi, duckdb, mariadb, mysql, postgresql or sqlite; default: ansi.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", "-s", metavar="NAME=VALUE", help="An option of the format; repeatable."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Export a model for serving; refused if its scores would differ."""
    from precede.cli.fitting import parse_parameters
    from precede.exports.write import format_of

    chosen = format or format_of(output)
    options = parse_parameters(settings, dialect=dialect)
    precede.export(precede.load(model), output, chosen, **options)
    if output != "-":
        say(f"written to {output}")
        if as_json:
            write_json({"model": model, "format": chosen, "file": output})


def convert(
    data: DataFile,
    output: Annotated[
        str, typer.Argument(metavar="FILE", help="Output file; - is standard output.")
    ],
    *,
    style: Annotated[
        str | None,
        typer.Option(
            "--to", help="letor, csv, tsv, parquet or qrels; default: detected from FILE."
        ),
    ] = None,
    query_file: Annotated[
        bool, typer.Option("--query-file", help="Sort by query and write FILE.query (LightGBM).")
    ] = False,
    as_json: AsJson = False,
    reading: Reading,
) -> None:
    """Convert DATA to another format; pairs and weights go to separate files if necessary."""
    from precede.files.data import quoted
    from precede.files.reading import FORMATS, format_of_name

    formats = [*FORMATS, "qrels"]
    if style is not None and style not in formats:
        raise ValueError(f"--to {style} is unknown; use {quoted(formats)}")
    rows = reading.read(data)
    chosen = style or format_of_name(output) or "letor"
    if chosen == "qrels":
        if rows.y is None:
            raise ValueError("qrels hold grades, and the data have none")
        precede.files.write_qrels(output, rows.y, qid=rows.qid, docid=rows.docid)
        written = [output]
    else:
        written = _write_with_side_files(rows, output, chosen, query_file=query_file)
    for name in written:
        say(f"written to {name}")
    if as_json and output != "-":
        write_json({"files": written})


def _write_with_side_files(data: Data, output: str, format: str, *, query_file: bool) -> list[str]:
    """Write data in a format, with side files if needed, and return the paths written."""
    import numpy as np

    from precede.files import write, write_groups, write_pairs, write_weights
    from precede.judgments import number_queries

    if query_file and data.qid is not None:
        data = data[np.argsort(number_queries(data.qid)[0], kind="stable")]
    beside = {}
    if data.pairs is not None:
        beside[".pairs"] = write_pairs
    if data.weight is not None and format == "letor":
        beside[".weight"] = write_weights
    if query_file:
        beside[".query"] = write_groups
    if beside and output == "-":
        raise ValueError(f"{', '.join(beside)} need files next to the data; name a file")
    kept = replace(data, pairs=None, pair_weight=None)
    write(output, replace(kept, weight=None) if format == "letor" else kept, format=format)
    stem = output.removesuffix(".gz")
    for suffix, write_beside in beside.items():
        write_beside(stem + suffix, data)
    return [output, *(stem + suffix for suffix in beside)]
