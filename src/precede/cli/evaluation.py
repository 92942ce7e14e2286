"""Work of the commands evaluate, compare, predict, convert, explain and report."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precede import inference
from precede.boosting.monitors import pairs_in_order
from precede.cli.console import say
from precede.cli.inputs import EvaluationTask, features_for, file_names, read_candidates
from precede.cli.options import Reading
from precede.engine.arrays import Integers
from precede.engine.parameters import upper_tail
from precede.estimator import BaseRanker
from precede.explain.contributions import PairExplanation
from precede.files.data import Data
from precede.files.reading import format_of_name
from precede.files.streams import STANDARD, suffix_of, writing
from precede.files.trec import write_qrels, write_run
from precede.files.writing import plain_number, write, write_groups, write_pairs, write_weights
from precede.judgments import Judgments, number_queries
from precede.metrics import Evaluation, Interval, defined_metrics, evaluate, list_metrics, metric
from precede.metrics.registry import with_relevant
from precede.model import write_file
from precede.report.report import STYLES, Report


def metric_rows(
    task: EvaluationTask,
    metrics: Sequence[str] | None,
    *,
    level: float,
    preset: str | None,
    relevant: float | None = None,
) -> tuple[list[dict[str, Any]], Evaluation | None]:
    """Return a row for each metric: value, interval, and the number of queries."""
    if task.y is None:
        return [_explicit_pair_metric(task, level)], None
    if task.qid is None:
        return [
            _single_list_metric(task, name, level)
            for name in _single_list_metric_names(task, metrics)
        ], None
    if not Judgments(task.y, task.qid).n_pairs:
        say("note: no query has rows of different grades, so every order is as good as any other; "
            "check the labels")  # fmt: skip
    absent = bool(np.isneginf(task.scores[0]).any())
    usual = defined_metrics(task.y, task.qid, task.weight, relevant, absent=absent)
    wanted = list(metrics or usual)
    wanted = wanted or [*list_metrics(3)]  # which then say what is wrong
    policy = {} if relevant is None else {"relevant": relevant}
    result = evaluate(
        task.y, task.scores[0], task.qid, metrics=wanted, sample_weight=task.weight, preset=preset,
        **policy,
    )  # fmt: skip
    rows = []
    for name, mean in result.mean.items():
        low, high = _ends(result.interval, name, level)
        used = result.n_queries - result.skipped[name]
        rows.append(
            {"metric": name, "value": mean, "low": low, "high": high, "queries": used,
             "skipped": result.skipped[name]}
        )  # fmt: skip
    return rows, result


def _single_list_metric_names(task: EvaluationTask, metrics: Sequence[str] | None) -> list[str]:
    if metrics:
        return [str(metric(name)) for name in metrics]
    return [*list_metrics(np.unique(task.y).size)]


def _single_list_metric(task: EvaluationTask, name: str, level: float) -> dict[str, Any]:
    """Evaluate a metric of a single list, with an interval over items where one is known."""
    estimate = None
    if task.weight is None:
        estimate = inference.of_one_list(name, task.y, task.scores[0])
    if estimate is not None:
        low, high = _ends(lambda _, each: estimate.interval(each), name, level)
        value = estimate.value
    else:
        value = evaluate(task.y, task.scores[0], metrics=name, sample_weight=task.weight).mean[name]
        low = high = None
    items = 0 if task.y is None else len(task.y)
    return {"metric": name, "value": value, "low": low, "high": high, "items": items}


def _explicit_pair_metric(task: EvaluationTask, level: float) -> dict[str, Any]:
    """Return the share of explicit pairs in order, with an interval where one is known."""
    judgments, pairs = _judgments(task), "comparable" if task.qid is None else "pooled"
    value = pairs_in_order(judgments, task.scores[0])

    def interval(_: str, each: float) -> Interval:
        return inference.ranking_risk(judgments, task.scores[0], pairs=pairs).interval(each)

    low, high = _ends(interval, "pair_error", level)
    ends = {"low": None if high is None else 1 - high, "high": None if low is None else 1 - low}
    return {"metric": "pairs_in_order", "value": value, **ends, "pairs": judgments.n_pairs}


def _judgments(task: EvaluationTask) -> Judgments:
    if task.data is None:
        raise ValueError("there are no grades to judge by")
    return task.data.judgments


def _ends(
    interval: Callable[..., Interval], name: str, level: float
) -> tuple[float | None, float | None]:
    """Return the ends of the interval; None where the data do not support one."""
    upper_tail(level)  # raises ValueError unless it is a level
    try:
        found = interval(name, level)
    except ValueError:
        return None, None
    return found.low, found.high


def about_intervals(rows: list[dict[str, Any]], level: float) -> str:
    """Describe the intervals of `metric_rows`, or why they are missing."""
    if any(row["low"] is not None for row in rows):
        return f"{100 * level:g} % intervals over queries"
    single = all(row["queries"] == 1 for row in rows)
    why = "a single query counts" if single else "the values of the queries do not differ"
    return f"no intervals, because {why}"


def query_rows(result: Evaluation) -> list[dict[str, Any]]:
    """Return a row for each query, with a column for each metric."""
    return [
        {"qid": query, **{name: values[row].item() for name, values in result.per_query.items()}}
        for row, query in enumerate(result.queries.tolist())
    ]


def comparison_rows(
    task: EvaluationTask, metrics: Sequence[str], *, level: float, method: str, seed: int
) -> list[dict[str, Any]]:
    """Return a row for each metric: both values, the paired difference, interval and p value."""
    target, qid = (_judgments(task), None) if task.y is None else (task.y, task.qid)
    if task.weight is not None and task.y is not None:
        say("note: weights are ignored in comparisons")
    first, second = task.scores
    rows: list[dict[str, Any]] = []
    for name in metrics:
        result = inference.compare(
            target, first, second, qid, metric=name, method=method, random_state=seed
        )
        low, high = _ends(lambda _, each, r=result: r.interval(each), name, level)
        rows.append(
            {"metric": name, "a": result.value_a, "b": result.value_b,
             "difference": result.difference, "low": low, "high": high,
             "p_value": result.p_value, "units": result.n_units, "unit": result.unit,
             "convention": result.convention}
        )  # fmt: skip
    if len(rows) > 1 and all(row["p_value"] is not None for row in rows):
        for row, p_value in zip(rows, inference.holm([r["p_value"] for r in rows]), strict=True):
            row["p_holm"] = float(p_value)
    return rows


def narrow(rows: list[dict[str, Any]], level: float) -> list[dict[str, Any]]:
    """Return the rows of `comparison_rows` in columns that fit on a terminal."""
    found = []
    for row in rows:
        ends = row["low"], row["high"]
        interval = "" if None in ends else f"[{ends[0]:+.4f}, {ends[1]:+.4f}]"
        half = ", ties half" if row["convention"].endswith("half") else ""
        values = {"metric": row["metric"] + half, "a": row["a"], "b": row["b"],
                  "a - b": f"{row['difference']:+.4f}",
                  f"{100 * level:g} % interval": interval}  # fmt: skip
        for name, key in (("p", "p_value"), ("Holm p", "p_holm")):
            if key in row:
                values[name] = "" if row[key] is None else f"{row[key]:.2g}"
        found.append(values)
    return found


def requirements(words: Sequence[str] | None, relevant: float | None = None) -> dict[str, float]:
    """Parse values that metrics must reach, ``ndcg@10=0.4``; `relevant` as in `with_relevant`.

    >>> requirements(["ndcg@10=0.4"])
    {'ndcg@10': 0.4}
    """
    found = {}
    for word in words or ():
        name, sign, value = word.rpartition("=")
        try:
            found[with_relevant([metric(name)], relevant)[0]] = float(value)
        except ValueError as error:
            raise ValueError(f"{word!r} is not METRIC=VALUE, such as ndcg@10=0.4") from error
        if not sign:
            raise ValueError(f"{word!r} is not METRIC=VALUE, such as ndcg@10=0.4")
    return found


def unmet_requirements(rows: list[dict[str, Any]], wanted: dict[str, float]) -> list[str]:
    """Describe the requirements that were not met."""
    value = {row["metric"]: row["value"] for row in rows}
    messages = []
    for name, least in wanted.items():
        greater = metric(name).greater_is_better
        if name not in value:
            raise ValueError(f"{name} was not evaluated; ask for it with --metric {name}")
        if value[name] < least if greater else value[name] > least:
            messages.append(
                f"{name} is {value[name]:.4f}, {'below' if greater else 'above'} {least:g}"
            )
    return messages


# -- Predictions and converted data --------------------------------------------------------------


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
    """Return every item as a query whose documents are its labels."""
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
    """Return the ranks within queries, from 1; equal scores in the order of the rows."""
    query = np.zeros(len(data), np.int64) if data.qid is None else number_queries(data.qid)[0]
    order = np.lexsort((-scores, query))
    first = np.searchsorted(query[order], query[order], side="left")
    ranks = np.empty(len(data), np.int64)
    ranks[order] = np.arange(len(data)) - first + 1
    return ranks.tolist()


def convert(data: Data, output: str, style: str | None, *, query_file: bool) -> list[str]:
    """Write data in a format, with side files if needed, and return the paths written."""
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


# -- Explanations of the ranks of documents, as rows of tables -----------------------------------


def rows_of_query(data: Data, query: str | None) -> Data:
    """Return the rows of one query; all rows where the data are a single list."""
    if data.qid is None:
        if query is not None:
            raise ValueError(f"there is no query {query!r}: the data are a single list")
        return data
    names = np.array([str(each) for each in data.qid.tolist()], object)
    chosen = names[0] if query is None else query
    rows = np.flatnonzero(names == chosen)
    if not rows.size:
        some = ", ".join(dict.fromkeys(names[:2000].tolist()))[:100]
        raise ValueError(f"there is no query {query!r}; there are {some}, ...")
    return data[rows]


def explained_documents(
    model: BaseRanker, data: Data, top: int, most: int | None = None
) -> list[dict[str, Any]]:
    """Return the first `most` documents, best first, each with its largest contributions."""
    _check(model)
    explained = model.explain(features_for(model, data))
    rows = []
    for rank, row in enumerate(np.argsort(-explained.scores, kind="stable")[:most].tolist()):
        each = explained.contributions[row]
        order = np.argsort(-np.abs(each), kind="stable")[:top]
        found = {"rank": rank + 1, "document": name_of_row(data, row)}
        if data.y is not None:
            found["grade"] = float(data.y[row])
        why = {explained.names[j]: float(each[j]) for j in order if each[j] != 0}
        rows.append({**found, "score": float(explained.scores[row]), "baseline": explained.baseline,
                     "contributions": why})  # fmt: skip
    return rows


def explain_documents(model: BaseRanker, data: Data, upper: str, lower: str) -> PairExplanation:
    """Explain why one document ranks above another of the same data."""
    _check(model)
    X = features_for(model, data)
    return model.explain_pair(X, _row_of(data, upper), _row_of(data, lower))


def describe_pair(explained: PairExplanation, upper: str, lower: str) -> str:
    """Say which of two documents ranks above the other, and by how much."""
    side = (
        "above"
        if explained.difference > 0
        else "below"
        if explained.difference < 0
        else "level with"
    )
    scores = f"{explained.scores[0]:.4g} against {explained.scores[1]:.4g}"
    return f"{upper} ranks {side} {lower}: {scores}, a difference of {explained.difference:.4g}"


def contribution_rows(explained: PairExplanation, upper: str, lower: str) -> list[dict[str, Any]]:
    """Return a row for each feature that matters: both values, and the contribution."""
    listed = zip(
        explained.names, explained.values.tolist(), explained.contributions.tolist(), strict=True
    )
    return [
        {"feature": name, f"in {upper}": values[0], f"in {lower}": values[1], "contribution": each}
        for name, values, each in listed
    ]


def name_of_row(data: Data, row: int) -> str:
    """Return the name of a document, or the number of its row if it has none."""
    return str(row) if data.docid is None else str(data.docid[row])


def _check(model: BaseRanker) -> None:
    if not hasattr(model, "explain"):
        raise ValueError(f"{type(model).__name__} has no explanations")


def _row_of(data: Data, name: str) -> int:
    if data.docid is not None:
        found: Integers = np.flatnonzero(data.docid == name)
        if found.size > 1:
            raise ValueError(f"document {name!r} occurs {found.size} times; give its query")
        if found.size == 1:
            return int(found[0])
    if not name.isdecimal() or int(name) >= len(data):
        known = "the rows are numbered from 0" if data.docid is None else "look at the names"
        raise ValueError(f"there is no document {name!r}; {known}")
    return int(name)


# -- Reports, written as pages, Markdown or JSON -------------------------------------------------


def report_format(output: str, style: str | None) -> str:
    """Return the format of a report: as given, by the suffix of the file, or else a page.

    >>> report_format("report.md", None), report_format("-", None), report_format("-", "json")
    ('markdown', 'html', 'json')
    """
    suffix = suffix_of(output)
    if style is None and suffix and suffix not in STYLES:
        raise ValueError(
            f"{output}: reports are written as .html, .md or .json; name such a file, or give --as"
        )
    chosen = style or STYLES.get(suffix, "html")
    if chosen not in STYLES.values():
        raise ValueError(f"{chosen!r} is not a format of reports; use html, markdown or json")
    if STYLES.get(suffix, chosen) != chosen:
        raise ValueError(
            f"{output}: --as {chosen} does not go with {suffix}; leave --as out, or name another "
            "file"
        )
    return chosen


def make_report(sources: list[str], path: str, train: str | None, reading: Reading,
         **options: Any) -> Report:  # fmt: skip
    """Make the report of models, scores and runs on some data; it is about the first."""
    models, scores, task = read_candidates(sources, path, reading)
    data = task.data
    first = next(iter(models.values()), None)
    if data is None:
        return Report(scores=scores, y=task.y, qid=task.qid, **options)
    if first is None:
        return Report(scores=scores, y=data.judgments, docid=data.docid, **options)
    fitted_on = None
    if train is not None:
        rows = reading.with_roles_of(first).read(train, beside=False)
        fitted_on = (features_for(first, rows), rows.judgments)
    order = list(dict.fromkeys(file_names(sources)))
    return Report(models, features_for(first, data), data.judgments, scores=scores, order=order,
                  train=fitted_on, docid=data.docid, **options)  # fmt: skip


def write_report(report: Report, output: str, style: str) -> None:
    """Write a report to a file or to standard output."""
    made: dict[str, Callable[[], str | None]] = {
        "html": report.to_html,
        "json": report.to_json,
        "markdown": report.to_markdown,
    }
    write_file(output, (made[style]() or "").encode("utf-8"))
