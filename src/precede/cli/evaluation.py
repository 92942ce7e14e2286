"""Commands that judge rankings: evaluate, compare and report, and the list of the metrics."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer

import precede
from precede.cli.console import NOT_REACHED, say, write_json, write_rows
from precede.cli.options import (
    AsJson,
    DataFile,
    Level,
    Metrics,
    Output,
    Reading,
    Relevant,
    Seed,
    Source,
)

if TYPE_CHECKING:
    from precede.cli.sources import Task
    from precede.engine.arrays import Json
    from precede.metrics import Evaluation, Interval
    from precede.report.report import Report


def metrics(*, as_json: AsJson = False) -> None:
    """List the metrics, how to write them and whether larger or smaller is better."""
    rows = [
        {"metric": each.name, "what": each.meaning, "written": each.written.format(each.name),
         "better": "greater" if each.greater_is_better else "less", "default": each.default or ""}
        for each in precede.metrics.REGISTRY.values()
    ]  # fmt: skip
    if as_json or not sys.stdout.isatty():
        write_rows(rows, as_json=as_json)
        return
    for row in rows:
        default = f"; default {row['default']}" if row["default"] else ""
        print(fill(f"{row['metric']}: {row['what']}", 80))
        print(fill(f"written {row['written']}; {row['better']} is better{default}", 80,
                   initial_indent="  ", subsequent_indent="    "))  # fmt: skip


# -- evaluate ----------------------------------------------------------------------------------


def evaluate(
    source: Source,
    data: DataFile,
    *,
    metric: Metrics = None,
    relevant: Relevant = None,
    level: Level = 0.95,
    preset: Annotated[
        str | None,
        typer.Option("--preset", help="Use the conventions of lightgbm, sklearn or trec."),
    ] = None,
    by_query: Annotated[bool, typer.Option("--by-query", help="Print one row per query.")] = False,
    at_least: Annotated[
        list[str] | None,
        typer.Option("--at-least", metavar="METRIC=VALUE", help="Exit with code 5 if not reached."),
    ] = None,
    as_json: AsJson = False,
    reading: Reading,
) -> None:
    """Evaluate a model, scores or a run on DATA (or qrels), with confidence intervals."""
    from precede.cli.sources import read_task
    from precede.engine.parameters import upper_tail
    from precede.metrics.registry import with_relevant

    wanted = _requirements(at_least, relevant)
    task = read_task([source], data, reading)
    upper_tail(level)  # raises ValueError unless it is a level
    named = with_relevant(metric or (), relevant)
    asked = [*named, *(name for name in wanted if name not in named)] if metric else None
    result = None
    if task.data.y is None:
        rows = [_explicit_pair_metric(task, level)]
    elif task.data.qid is None:
        rows = _single_list_metrics(task, asked, level)
    else:
        result = _evaluate_queries(task, asked, preset, relevant)
        rows = [_with_value(row) for row in result.rows(level)]
    if not by_query:
        write_rows(rows, as_json=as_json, title=f"{source} on {data}")
    elif result is None:
        raise ValueError("the data are a single list; there is no query to show")
    else:
        write_rows(_query_rows(result), as_json=as_json)
    if result is not None:
        about = "" if by_query else f"{_describe_intervals(rows, level)}; "
        say(f"{about}{result.policy}")
    missed = _unmet_requirements(rows, wanted)
    for message in missed:
        say(message)
    if missed:
        raise typer.Exit(NOT_REACHED)


def _evaluate_queries(
    task: Task, asked: Sequence[str] | None, preset: str | None, relevant: float | None
) -> Evaluation:
    """Compute the metrics asked for, or those that are defined for the data."""
    import numpy as np

    data, scores = task.data, task.scores[0]
    assert data.y is not None
    if not data.judgments.n_pairs:
        say("note: no query has rows of different grades, so every order is as good as any other; "
            "check the labels")  # fmt: skip
    absent = bool(np.isneginf(scores).any())
    usual = precede.metrics.defined_metrics(data.y, data.qid, data.weight, relevant, absent=absent)
    # Metrics that are not defined say what is wrong.
    wanted = list(asked or usual or precede.metrics.list_metrics(3))
    policy = {} if relevant is None else {"relevant": relevant}
    return precede.evaluate(
        data.y, scores, data.qid, metrics=wanted, sample_weight=data.weight, preset=preset, **policy
    )


def _with_value(row: Json) -> Json:
    """Return a row of an `Evaluation` with "value" for the mean."""
    return {"value" if name == "mean" else name: each for name, each in row.items()}


def _single_list_metrics(task: Task, asked: Sequence[str] | None, level: float) -> list[Json]:
    """Evaluate metrics of a single list, with intervals over items where they are known."""
    import numpy as np

    y, weight, scores = task.data.y, task.data.weight, task.scores[0]
    assert y is not None
    names = [str(precede.metrics.metric(name)) for name in asked or ()]
    rows = []
    for name in names or precede.metrics.list_metrics(np.unique(y).size):
        estimate = precede.inference.of_one_list(name, y, scores) if weight is None else None
        if estimate is not None:
            value, (low, high) = estimate.value, _ends(estimate.interval, level)
        else:
            result = precede.evaluate(y, scores, metrics=name, sample_weight=weight)
            value, (low, high) = result.mean[name], (None, None)
        rows.append({"metric": name, "value": value, "low": low, "high": high, "items": len(y)})
    return rows


def _explicit_pair_metric(task: Task, level: float) -> Json:
    """Return the share of explicit pairs in order, with an interval where one is known."""
    judgments, scores = task.data.judgments, task.scores[0]
    pairs = "comparable" if task.data.qid is None else "pooled"
    value = precede.pairs_in_order(judgments, scores)

    def interval(level: float) -> Interval:
        return precede.inference.ranking_risk(judgments, scores, pairs=pairs).interval(level)

    low, high = _ends(interval, level)
    ends = {"low": None if high is None else 1 - high, "high": None if low is None else 1 - low}
    return {"metric": "pairs_in_order", "value": value, **ends, "pairs": judgments.n_pairs}


def _ends(
    interval: Callable[[float], Interval], level: float
) -> tuple[float, float] | tuple[None, None]:
    """Return the ends of an interval; None where the data do not support one."""
    try:
        found = interval(level)
    except ValueError:
        return None, None
    return found.low, found.high


def _describe_intervals(rows: Sequence[Json], level: float) -> str:
    """Describe the intervals of metrics over queries, or why they are missing."""
    if not all(math.isnan(row["low"]) for row in rows):
        return f"{100 * level:g} % intervals over queries"
    single = all(row["queries"] == 1 for row in rows)
    why = "a single query counts" if single else "the values of the queries do not differ"
    return f"no intervals, because {why}"


def _query_rows(result: Evaluation) -> list[Json]:
    """Return a row for each query, with a column for each metric."""
    return [
        {"qid": query, **{name: values[row].item() for name, values in result.per_query.items()}}
        for row, query in enumerate(result.queries.tolist())
    ]


def _requirements(words: Sequence[str] | None, relevant: float | None) -> dict[str, float]:
    """Parse values that metrics must reach, ``ndcg@10=0.4``; `relevant` as in `with_relevant`."""
    from precede.metrics.registry import with_relevant

    found = {}
    for word in words or ():
        name, _, value = word.rpartition("=")
        try:
            found[with_relevant([precede.metrics.metric(name)], relevant)[0]] = float(value)
        except ValueError as error:
            raise ValueError(f"{word!r} is not METRIC=VALUE, such as ndcg@10=0.4") from error
    return found


def _unmet_requirements(rows: Sequence[Json], wanted: Mapping[str, float]) -> list[str]:
    """Describe the requirements that were not met."""
    value = {row["metric"]: row["value"] for row in rows}
    messages = []
    for name, least in wanted.items():
        greater = precede.metrics.metric(name).greater_is_better
        if name not in value:
            raise ValueError(f"{name} was not evaluated; ask for it with --metric {name}")
        if value[name] < least if greater else value[name] > least:
            messages.append(
                f"{name} is {value[name]:.4f}, {'below' if greater else 'above'} {least:g}"
            )
    return messages


# -- compare -----------------------------------------------------------------------------------


def compare(
    a: Source,
    b: Source,
    data: DataFile,
    *,
    metric: Metrics = None,
    relevant: Relevant = None,
    level: Level = 0.95,
    method: Annotated[
        str, typer.Option("--method", help="asymptotic or randomization.")
    ] = "asymptotic",
    seed: Seed = 0,
    as_json: AsJson = False,
    reading: Reading,
) -> None:
    """Compare two models, files of scores or runs on the same DATA (or qrels), paired."""
    from precede.cli.sources import read_task
    from precede.engine.parameters import upper_tail
    from precede.metrics.registry import with_relevant

    task = read_task([a, b], data, reading)
    upper_tail(level)  # raises ValueError unless it is a level
    graded_queries = task.data.qid is not None and task.data.y is not None
    usual = precede.metrics.default_metrics("compare")
    names = metric or (usual if graded_queries else precede.metrics.list_metrics(3))
    rows = _comparison_rows(task, with_relevant(names, relevant), level, method, seed)
    drawn = narrow_rows(rows, level)
    write_rows(rows, as_json=as_json, title=f"{a} (a) and {b} (b)", drawn=drawn)
    units = f"{rows[0]['units']} {precede.inference.PLURALS[rows[0]['unit']]}"
    say(f"difference is a minus b; {100 * level:g} % intervals, paired over {units}")


def _comparison_rows(
    task: Task, metrics: Sequence[str], level: float, method: str, seed: int
) -> list[Json]:
    """Return a row for each metric: both values, the paired difference, interval and p value."""
    data = task.data
    if data.weight is not None and data.y is not None:
        say("note: weights are ignored in comparisons")
    first, second = task.scores
    target, qid = (data.judgments, None) if data.y is None else (data.y, data.qid)
    rows: list[Json] = []
    for name in metrics:
        result = precede.compare(
            target, first, second, qid, metric=name, method=method, random_state=seed
        )
        low, high = _ends(result.interval, level)
        rows.append(
            {"metric": name, "a": result.value_a, "b": result.value_b,
             "difference": result.difference, "low": low, "high": high,
             "p_value": result.p_value, "units": result.n_units, "unit": result.unit,
             "convention": result.convention}
        )  # fmt: skip
    if len(rows) > 1 and all(row["p_value"] is not None for row in rows):
        adjusted = precede.inference.holm([row["p_value"] for row in rows])
        for row, p_value in zip(rows, adjusted.tolist(), strict=True):
            row["p_holm"] = p_value
    return rows


def narrow_rows(rows: Sequence[Json], level: float) -> list[Json]:
    """Return the rows of a comparison in columns that fit on a terminal."""
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


# -- report ------------------------------------------------------------------------------------


def report(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL... DATA",
            help="Models, files of scores or TREC runs, the main one first, then the DATA (or "
            "qrels) to evaluate them on.",
        ),
    ],
    *,
    output: Output = "report.html",
    style: Annotated[
        str | None,
        typer.Option("--as", help="html, markdown or json; default: detected from FILE."),
    ] = None,
    train: Annotated[
        str | None,
        typer.Option("--train", metavar="FILE", help="Training data, for comparison with DATA."),
    ] = None,
    slices: Annotated[
        list[str] | None,
        typer.Option("--slice", metavar="COLUMN", help="Slice DATA by this column; repeatable."),
    ] = None,
    item: Annotated[str | None, typer.Option("--item", help="Word for a row: borrower.")] = None,
    good: Annotated[
        str | None, typer.Option("--good", help="Word for those that should rank first: repaid.")
    ] = None,
    query: Annotated[str | None, typer.Option("--query", help="Word for a query.")] = None,
    metric: Metrics = None,
    relevant: Relevant = None,
    level: Level = 0.95,
    title: Annotated[str | None, typer.Option("--title", help="Title of the page.")] = None,
    date: Annotated[
        str | None, typer.Option("--date", help="Date to print; default: none.")
    ] = None,
    as_json: AsJson = False,
    reading: Reading,
) -> None:
    """Write a report: how good models are, which is better, where they err and why.

    precede report model.json test.txt -o report.html

    precede report new.json old.json test.txt --train train.txt -o report.md
    """
    from precede.files.streams import require_folder
    from precede.model import write_file

    *sources, path = files
    if not sources:
        raise ValueError(f"report needs a model and data, and got {path!r} alone; name both")
    chosen = report_format(output, "json" if as_json and output == "-" else style)
    require_folder(output)
    made = _make_report(
        sources, path, train, reading, slices=slices, item=item, good=good, query=query,
        metrics=metric, relevant=relevant, level=level, title=title, date=date,
    )  # fmt: skip
    formats: dict[str, Callable[[], str | None]] = {
        "html": made.to_html,
        "json": made.to_json,
        "markdown": made.to_markdown,
    }
    write_file(output, (formats[chosen]() or "").encode("utf-8"))
    if output != "-":
        say(f"written to {output}: {made!r}")
        if as_json:
            write_json({"model": sources[0], "data": path, "format": chosen, "file": output})


def _make_report(
    sources: Sequence[str], path: str, train: str | None, reading: Reading, **options: Any
) -> Report:
    """Make the report of models, scores and runs on some data; it is about the first."""
    from precede.cli.sources import features_for, file_names, read_candidates

    models, scores, data = read_candidates(sources, path, reading)
    order = list(dict.fromkeys(file_names(sources)))
    if not models:
        return precede.Report(
            scores=scores, y=data.judgments, order=order, docid=data.docid, **options
        )
    first = next(iter(models.values()))
    fitted_on = None
    if train is not None:
        rows = reading.with_roles_of(first).read(train, beside=False)
        fitted_on = (features_for(first, rows), rows.judgments)
    return precede.Report(
        models, features_for(first, data), data.judgments, scores=scores, order=order,
        train=fitted_on, docid=data.docid, **options,
    )  # fmt: skip


def report_format(output: str, style: str | None) -> str:
    """Return the format of a report: as given, by the suffix of the file, or else a page.

    >>> report_format("report.md", None), report_format("-", None), report_format("-", "json")
    ('markdown', 'html', 'json')
    """
    from precede.files.streams import suffix_of
    from precede.report.report import STYLES

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
