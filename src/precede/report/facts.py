"""All facts of a report, each part computed by its own module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from precede.engine.arrays import Floats, Integers
from precede.report.compared import comparison_facts
from precede.report.described import data_facts, making_facts, version_facts
from precede.report.first_ranks import first_facts, listed_rows
from precede.report.inside import feature_facts, learning_facts, margin_facts
from precede.report.judged import measured, quality_facts, query_facts
from precede.report.one_list import list_facts
from precede.report.sliced import slice_facts
from precede.report.subject import Subject
from precede.report.summary import summary_facts
from precede.report.trained import training_facts
from precede.report.wording import Words
from precede.report.wrong import wrong_facts

__all__ = ["collect"]


def collect(
    subject: Subject, words: Words, *, train: Subject | None, slices: Any,
    metrics: Sequence[str] | None, level: float, limits: dict[str, int],
) -> dict[str, Any]:  # fmt: skip
    """Compute everything that the report tells."""
    found = [measured(subject, each.returned, metrics) for each in subject.candidates]
    models: list[dict[str, Any]] = []
    for each, result in zip(subject.candidates, found, strict=True):
        models.append({
            "name": each.name,
            "estimator": None if each.model is None else type(each.model).__name__,
            "quality": quality_facts(subject, each.scores, result, metrics, level),
            "making": None if each.model is None else making_facts(each.model),
        })  # fmt: skip
    quality = models[0]["quality"]
    names = [row["metric"] for row in quality["metrics"]]
    facts: dict[str, Any] = {
        "title": "",
        "date": None,
        "words": words.to_dict(),
        "summary": None,
        "quality": quality,
        "models": models,
        "training": training_facts(subject, train, metrics, level),
        "comparison": comparison_facts(subject, found, names, level),
        "first": first_facts(subject, level),
        "list": list_facts(subject, level),
        "documents": listed_rows(subject),
        "slices": slice_facts(subject, found[0], slices, level, words),
        "queries": query_facts(subject, found, limits["max_queries"], named=bool(metrics)),
        "wrong": wrong_facts(subject, found[0], limits["max_wrong"]),
        "features": feature_facts(subject, limits["max_features"], level),
        "margins": margin_facts(subject),
        "learning": learning_facts(subject),
        "data": data_facts(subject, words),
        "ties": _tied(subject, subject.scores),
        "versions": version_facts(),
    }
    facts["summary"] = summary_facts(facts, words)
    return facts


def _tied(subject: Subject, scores: Floats) -> float | None:
    """Share of the pairs of different grades, of one query, whose scores are equal."""
    rows = subject.graded
    if not rows.size:
        return None
    number, grade = subject.query[0][rows], subject.grade[rows]

    def pairs(cell: Integers) -> int:
        """Pairs of rows in the same cell."""
        counts = np.unique(cell, return_counts=True)[1].astype(np.int64)
        return int((counts * (counts - 1) // 2).sum())

    def within(cell: Integers, values: Any) -> Integers:
        """Cells divided by the values of their rows."""
        distinct, at = np.unique(values, return_inverse=True)
        return cell.astype(np.int64) * distinct.size + at

    every = pairs(number) - pairs(within(number, grade))
    tied = within(number, scores[rows])
    tied = np.unique(tied, return_inverse=True)[1]  # small numbers again
    return (pairs(tied) - pairs(within(tied, grade))) / every if every else None
