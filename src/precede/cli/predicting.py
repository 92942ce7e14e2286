"""Scores and data written for others."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from precede.cli.sources import features_for
from precede.estimator import BaseRanker
from precede.files.streams import STANDARD, writing
from precede.files.tables import (
    Data,
    format_of_name,
    plain_number,
    write,
    write_groups,
    write_pairs,
    write_weights,
)
from precede.files.trec import write_qrels, write_run
from precede.judgments import number_queries

__all__ = ["convert", "predict"]

_STYLES = ("scores", "csv", "tsv", "trec", "json")


def predict(
    model: BaseRanker, data: Data, output: str, *, style: str, tag: str, jobs: int | None
) -> None:
    """Score data with a model and write the scores."""
    if style not in _STYLES:
        raise ValueError(f"--as {style} is unknown; use {', '.join(_STYLES[:-1])}")
    if jobs is not None:
        model.set_params(n_jobs=jobs)
    scores = np.asarray(model.predict(features_for(model, data)), np.float64)
    if scores.ndim == 2 and style != "scores":
        data, scores = _by_label(data, scores, list(getattr(model, "labels_", ())))
    if style == "trec":
        write_run(output, scores, qid=data.qid, docid=data.docid, tag=tag)
        return
    with writing(output) as file:
        for line in _lines(data, scores, style):
            file.write(line.encode())


def _by_label(
    data: Data, scores: NDArray[np.float64], labels: list[str]
) -> tuple[Data, NDArray[np.float64]]:
    """Every item as a query whose documents are its labels."""
    items = [f"row{row}" for row in range(len(data))] if data.docid is None else data.docid
    qid = np.repeat(np.array(items, object), len(labels))
    docid = np.tile(np.array([str(label) for label in labels], object), len(data))
    return Data(np.empty((qid.size, 0)), qid=qid, docid=docid), scores.ravel()


def _lines(data: Data, scores: NDArray[np.float64], style: str) -> Iterator[str]:
    if style == "scores":
        for each in scores.reshape(len(data), -1).tolist():
            yield " ".join(map(plain_number, each)) + "\n"
        return
    columns = {"qid": data.qid, "docid": data.docid}
    known = {name: column.tolist() for name, column in columns.items() if column is not None}
    known |= {"score": scores.tolist(), "rank": _ranks(data, scores)}
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


def _ranks(data: Data, scores: NDArray[np.float64]) -> list[int]:
    """Ranks inside the queries, from 1; equal scores in the order of the rows."""
    query = np.zeros(len(data), np.int64) if data.qid is None else number_queries(data.qid)[0]
    order = np.lexsort((-scores, query))
    first = np.searchsorted(query[order], query[order], side="left")
    ranks = np.empty(len(data), np.int64)
    ranks[order] = np.arange(len(data)) - first + 1
    return ranks.tolist()


def convert(data: Data, output: str, style: str | None, *, query_file: bool) -> list[str]:
    """Write data in a format, and what has no place there beside it; the files written."""
    chosen = style or format_of_name(output) or "letor"
    if chosen == "qrels":
        if data.y is None:
            raise ValueError("qrels hold grades, and the data have none")
        write_qrels(output, data.y, qid=data.qid, docid=data.docid)
        return [output]
    if query_file and data.qid is not None:
        data = data[np.argsort(number_queries(data.qid)[0], kind="stable")]
    beside = {}
    if data.pairs is not None:
        beside[".pairs"] = write_pairs
    if data.weight is not None and chosen == "letor":
        beside[".weight"] = write_weights
    if query_file:
        beside[".query"] = write_groups
    if beside and output == STANDARD:
        raise ValueError(f"{', '.join(beside)} need files next to the data; name a file")
    kept = replace(data, pairs=None, pair_weight=None)
    write(output, replace(kept, weight=None) if chosen == "letor" else kept, format=chosen)
    stem = output.removesuffix(".gz")
    for suffix, writer in beside.items():
        writer(stem + suffix, data)
    return [output, *(stem + suffix for suffix in beside)]
