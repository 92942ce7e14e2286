"""Metrics with intervals, and paired comparisons, as rows of tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from precede import inference
from precede.boosting.monitors import pairs_in_order
from precede.cli.sources import FitContext
from precede.cli.talk import say
from precede.engine.parameters import upper_tail
from precede.judgments import Judgments
from precede.metrics import Evaluation, Interval, defined_metrics, evaluate, list_metrics, metric
from precede.metrics.registry import with_relevant

__all__ = [
    "about_intervals",
    "by_query",
    "compared",
    "evaluated",
    "narrow",
    "requirements",
    "unmet",
]


def evaluated(
    task: FitContext,
    metrics: Sequence[str] | None,
    *,
    level: float,
    preset: str | None,
    relevant: float | None = None,
) -> tuple[list[dict[str, Any]], Evaluation | None]:
    """One row for each metric: value, interval, and how many queries it rests on."""
    if task.y is None:
        return [_listed_pairs(task, level)], None
    if task.qid is None:
        return [_of_a_list(task, name, level) for name in _for_a_list(task, metrics)], None
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


def _for_a_list(task: FitContext, metrics: Sequence[str] | None) -> list[str]:
    if metrics:
        return [str(metric(name)) for name in metrics]
    return [*list_metrics(np.unique(task.y).size)]


def _of_a_list(task: FitContext, name: str, level: float) -> dict[str, Any]:
    """A metric of a single list: with an interval over items where theory has one."""
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


def _listed_pairs(task: FitContext, level: float) -> dict[str, Any]:
    """Share of the listed pairs in order, with an interval where theory has one."""
    judgments, pairs = _judgments(task), "comparable" if task.qid is None else "pooled"
    value = pairs_in_order(judgments, task.scores[0])

    def interval(_: str, each: float) -> Interval:
        return inference.ranking_risk(judgments, task.scores[0], pairs=pairs).interval(each)

    low, high = _ends(interval, "pair_error", level)
    ends = {"low": None if high is None else 1 - high, "high": None if low is None else 1 - low}
    return {"metric": "pairs_in_order", "value": value, **ends, "pairs": judgments.n_pairs}


def _judgments(task: FitContext) -> Judgments:
    if task.data is None:
        raise ValueError("there are no grades to judge by")
    return task.data.judgments


def _ends(
    interval: Callable[..., Interval], name: str, level: float
) -> tuple[float | None, float | None]:
    """The interval, or nothing where the data support none."""
    upper_tail(level)  # refuses what is no level
    try:
        found = interval(name, level)
    except ValueError:
        return None, None
    return found.low, found.high


def about_intervals(rows: list[dict[str, Any]], level: float) -> str:
    """Say what the intervals of `evaluated` are, or why there are none."""
    if any(row["low"] is not None for row in rows):
        return f"{100 * level:g} % intervals over queries"
    single = all(row["queries"] == 1 for row in rows)
    why = "a single query counts" if single else "the values of the queries do not differ"
    return f"no intervals, because {why}"


def by_query(result: Evaluation) -> list[dict[str, Any]]:
    """One row for each query, one column for each metric."""
    return [
        {"qid": query, **{name: values[row].item() for name, values in result.per_query.items()}}
        for row, query in enumerate(result.queries.tolist())
    ]


def compared(
    task: FitContext, metrics: Sequence[str], *, level: float, method: str, seed: int
) -> list[dict[str, Any]]:
    """One row for each metric: both values, the paired difference, its interval and p value."""
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
    """The rows of `compared` in columns that fit on a terminal."""
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
    """Values that metrics must reach, from ``ndcg@10=0.4``; `relevant` as in `with_relevant`.

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


def unmet(rows: list[dict[str, Any]], wanted: dict[str, float]) -> list[str]:
    """What was not reached, in words."""
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
