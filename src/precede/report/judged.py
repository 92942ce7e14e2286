"""How good the model is: metrics with intervals, the top of the list, query by query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from precede import inference
from precede.boosting.monitors import pairs_in_order
from precede.metrics import (
    Evaluation,
    Interval,
    default_metrics,
    defined_metrics,
    evaluate,
    list_metrics,
    metric,
)
from precede.report.subject import Subject, plain_value, thinned
from precede.top import Curve, strip, top_of_list

__all__ = ["evaluated", "quality_facts", "query_facts", "top_facts"]

_SHOWN = 10
_FEW_GRADES = 6
_LONG_LIST = 100_000  # rows from which fewer samples are drawn
_MOST_POINTS = 400


def evaluated(subject: Subject, metrics: Sequence[str] | None) -> Evaluation | None:
    """The metrics over queries; None for a single list, or where nothing can be measured."""
    if subject.is_one_list or not subject.graded.size:
        return None
    rows = subject.graded
    weight, qid = subject.judgments.weight, subject.judgments.qid
    target = (subject.grade[rows], qid[rows])  # type: ignore[index]
    weights = None if weight is None else weight[rows]
    wanted = list(metrics or defined_metrics(*target, weights))
    if not wanted:
        return None
    grades, queries = target
    return evaluate(grades, subject.scores[rows], queries, metrics=wanted, sample_weight=weights)


def quality_facts(subject: Subject, result: Evaluation | None, level: float) -> dict[str, Any]:
    """Each metric with its interval, and what it rests on."""
    rows = _over_queries(result, level) if result is not None else _of_a_list(subject, level)
    in_order = pairs_in_order(subject.judgments, subject.scores) if _has_pairs(subject) else None
    return {
        "pairs_in_order": in_order,
        "level": level,
        "metrics": rows,
        "conventions": None if result is None else str(result.policy),
    }


def _has_pairs(subject: Subject) -> bool:
    arrangement = subject.judgments._without_ties().arrange()
    return bool(arrangement.count_graded_pairs() or arrangement.winner.size)


def _over_queries(result: Evaluation, level: float) -> list[dict[str, Any]]:
    rows = []
    for name, mean in result.mean.items():
        low, high, why = _ends(partial(result.interval, name, level))
        rows.append(
            {"metric": name, "value": plain_value(float(mean)), "low": low, "high": high,
             "unit": "query", "units": result.n_queries - result.skipped[name],
             "skipped": result.skipped[name], "no_interval": why}
        )  # fmt: skip
    return rows


def _of_a_list(subject: Subject, level: float) -> list[dict[str, Any]]:
    """The area under the curve and the pair error of a single list, the row being the unit."""
    rows = subject.graded
    if not rows.size or np.ptp(subject.grade[rows]) == 0 or subject.judgments.pairs is not None:
        return []
    y, scores = subject.grade[rows], subject.scores[rows]
    names = list_metrics(np.unique(y).size)
    if subject.judgments.weight is not None:
        found = evaluate(y, scores, metrics=names, sample_weight=subject.judgments.weight[rows])
        why = "the rows are weighted"
        return [_of_rows(name, found.mean[name], (None, None, why), rows.size) for name in names]
    facts = []
    for name in names:
        estimate = inference.of_one_list(name, y, scores)
        if estimate is None:
            value = evaluate(y, scores, metrics=name).mean[name]
            why = "one list has one value and no spread"
            facts.append(_of_rows(name, value, (None, None, why), rows.size))
        else:
            ends = _ends(partial(estimate.interval, level))
            facts.append(_of_rows(name, estimate.value, ends, rows.size))
    return facts


def _of_rows(name: str, value: float, ends: tuple[Any, ...], units: int) -> dict[str, Any]:
    low, high, why = ends
    return {"metric": name, "value": plain_value(float(value)), "low": low, "high": high,
            "unit": "row", "units": units, "skipped": 0, "no_interval": why}  # fmt: skip


def _ends(interval: Callable[[], Interval]) -> tuple[float | None, float | None, str | None]:
    """The ends of an interval, or why there is none."""
    try:
        found = interval()
    except ValueError as error:
        return None, None, str(error)
    return float(found.low), float(found.high), None


# -- the top of the list -----------------------------------------------------------------------


def top_facts(subject: Subject, level: float) -> dict[str, Any] | None:
    """The first ranks: of one list of two classes, or over all queries."""
    rows = subject.graded
    if not rows.size:
        return None
    if not subject.is_one_list:
        return {"kind": "queries", "ranks": _grades_by_rank(subject)}
    first = [_document(subject, row, rank) for rank, row in _first(subject)]
    if np.unique(subject.grade[rows]).size != 2:
        return {"kind": "list", "documents": first}
    y, scores = subject.grade[rows], subject.scores[rows]
    draws = 1000 if rows.size <= _LONG_LIST else 100
    counts = [k for k in (10, 100) if k < rows.size]
    seen = top_of_list(y, scores, count=counts, level=level, draws=draws, random_state=0)
    return {
        "kind": "classes",
        "draws": draws,
        "weights_ignored": subject.judgments.weight is not None,
        "measures": [
            {"measure": name, "value": value, "low": None if ends is None else ends[0],
             "high": None if ends is None else ends[1]}
            for name, value in seen.value.items() for ends in [seen.interval[name]]
        ],
        "positives": int(np.count_nonzero(y == y.max())),
        "curve": _curve(y, scores),
        "strip": _strip(y, scores),
        "documents": first,
    }  # fmt: skip


def _first(subject: Subject) -> list[tuple[int, int]]:
    return list(enumerate(subject.lists[0][:_SHOWN].tolist(), start=1))


def _document(subject: Subject, row: int, rank: int) -> dict[str, Any]:
    return {"rank": rank, "document": subject.document(row), "row": row,
            "grade": subject.grade_name(subject.grade[row].item()),
            "score": float(subject.scores[row])}  # fmt: skip


def _curve(y: Any, scores: Any) -> dict[str, Any]:
    """The left end of the ROC curve in counts, up to where nine positives of ten are found."""
    found = Curve.of(y, scores).positives
    most = int(np.searchsorted(found, 0.9 * found[-1])) + 1
    shown = min(max(most, 10), found.size)
    which = thinned(shown, _MOST_POINTS)
    return {"negatives": (which + 1).tolist(), "positives": found[which].tolist(),
            "all_negatives": int(found.size) - 1, "thinned": which.size < shown}  # fmt: skip


def _strip(y: Any, scores: Any) -> dict[str, Any]:
    """Ranks of the positives among the first rows: as many rows as show the change."""
    where = strip(y, scores)
    shown = int(min(len(y), max(50, 2 * where.size), 400))
    return {"shown": shown, "positives": where[where <= shown].tolist()}


def _grades_by_rank(subject: Subject) -> list[dict[str, Any]]:
    """Which grades stand at each of the first ranks, and which could."""
    values = np.unique(subject.grade[subject.graded])
    few = values.size <= _FEW_GRADES
    lists = [rows for rows in subject.lists if rows.size]
    facts = []
    for rank in range(_SHOWN):
        grades = np.array([subject.grade[rows[rank]] for rows in lists if rows.size > rank])
        if not grades.size:
            break
        best = [-np.partition(-subject.grade[rows], rank)[rank] for rows in lists
                if rows.size > rank]  # fmt: skip
        shares = {str(subject.grade_name(value)): float(np.mean(grades == value))
                  for value in values.tolist()} if few else None  # fmt: skip
        facts.append({"rank": rank + 1, "queries": int(grades.size),
                     "mean_grade": float(grades.mean()), "best_mean_grade": float(np.mean(best)),
                     "shares": shares})  # fmt: skip
    return facts


# -- query by query ----------------------------------------------------------------------------


def query_facts(
    subject: Subject, result: Evaluation | None, metrics: Sequence[str] | None, most: int
) -> dict[str, Any] | None:
    """One row for each query, the worst first, at most so many."""
    if result is None:
        return None
    columns = (
        list(result.mean)
        if metrics
        else [m for m in default_metrics("by_query") if m in result.mean]
    )
    columns = columns or list(result.mean)[:4]
    main = columns[0]
    sign = 1.0 if metric(main).greater_is_better else -1.0
    values = sign * result.per_query[main]
    order = np.argsort(values, kind="stable")  # NaN, for undefined, is last
    # Queries without a graded row are not in the result, so that numbers are found by name.
    lists = [rows for rows in subject.lists if rows.size]
    rows = [
        {"query": plain_value(subject.query[1][int(subject.query[0][lists[query][0]])]),
         "rows": int(lists[query].size), "pairs": _count_pairs(subject.grade[lists[query]]),
         "values": {name: plain_value(float(result.per_query[name][query])) for name in columns},
         "first_grades": [subject.grade_name(g)
                          for g in subject.grade[lists[query][:_SHOWN]].tolist()]}
        for query in order[:most].tolist()
    ]  # fmt: skip
    return {"main": main, "greater_is_better": sign > 0, "columns": columns,
            "count": int(order.size), "shown": len(rows), "rows": rows}  # fmt: skip


def _count_pairs(grades: Any) -> int:
    counts = np.unique(grades, return_counts=True)[1]
    return (int(counts.sum()) ** 2 - int(np.square(counts).sum())) // 2
