"""What stands at the top: over queries, the first ranks; of one list, its first rows."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from precede.engine.arrays import Floats
from precede.inference import mean_metric
from precede.report.judged import ends_of
from precede.report.subject import Subject

__all__ = ["first_facts", "listed_rows"]

_SHOWN = 10
_FEW_GRADES = 6


def first_facts(subject: Subject, level: float) -> dict[str, Any] | None:
    """The first ranks of the queries: what is there, what chance gives and what is possible.

    The mean grade of the first k rows, not of rank k alone: an order of the grades has the most of
    it for every k, so that "best possible" is never below what is reached.
    """
    lists = [rows for rows in subject.lists if rows.size]
    if subject.is_one_list or not lists:
        return None
    grades = [subject.grade[rows] for rows in lists]
    depth = min(_SHOWN, max(each.size for each in grades))
    best = _mean_of_first([-np.sort(-each) for each in grades], depth)
    reached = {
        each.name: _mean_of_first(
            [subject.grade[rows] for rows in subject.lists_by(each.scores) if rows.size], depth
        )
        for each in subject.candidates
    }
    first = reached[subject.first.name]
    intervals = [ends_of(partial(mean_metric(column).interval, level))[:2] for column in first.T]
    every = np.concatenate(grades)
    least, most = float(every.min()), float(every.max())
    return {
        "ranks": list(range(1, depth + 1)),
        "models": {name: values.mean(axis=0).tolist() for name, values in reached.items()},
        "low": [None if low is None else max(low, least) for low, _ in intervals],
        "high": [None if high is None else min(high, most) for _, high in intervals],
        "best": best.mean(axis=0).tolist(),
        "chance": float(np.mean([each.mean() for each in grades])),
        "shares": _shares(subject, grades, depth),
    }


def _mean_of_first(grades: list[Floats], depth: int) -> Floats:
    """Mean grade of the first k rows of each query, for k from 1; of all rows of shorter ones."""
    means = np.empty((len(grades), depth))
    for query, each in enumerate(grades):
        sums = np.cumsum(each[:depth])
        reached = np.minimum(np.arange(1, depth + 1), each.size)
        means[query] = sums[reached - 1] / reached
    return means


def _shares(subject: Subject, grades: list[Floats], depth: int) -> list[dict[str, Any]] | None:
    """Which grades stand at each rank, if there are few; how many queries are that long."""
    values = np.unique(subject.grade[subject.graded])
    if values.size > _FEW_GRADES:
        return None
    facts = []
    for rank in range(depth):
        there = np.array([each[rank] for each in grades if each.size > rank])
        shares = {str(subject.grade_name(v)): float(np.mean(there == v)) for v in values.tolist()}
        facts.append({"rank": rank + 1, "queries": int(there.size), "shares": shares})
    return facts


def listed_rows(subject: Subject) -> list[dict[str, Any]]:
    """The first rows of a single list."""
    if not subject.is_one_list or not subject.graded.size:
        return []
    return [
        {"rank": rank, "document": subject.document(row), "row": row,
         "grade": subject.grade_name(subject.grade[row].item()),
         "score": float(subject.scores[row])}
        for rank, row in enumerate(subject.lists[0][:_SHOWN].tolist(), start=1)
    ]  # fmt: skip
