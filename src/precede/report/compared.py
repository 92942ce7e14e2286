"""Several rankings side by side: paired differences with intervals, queries won and lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from precede import inference
from precede.metrics import metric
from precede.report.judged import IN_ORDER, Measured, ends_of, is_better_high
from precede.report.subject import Subject, plain_value

__all__ = ["comparison_facts"]


def comparison_facts(
    subject: Subject, found: Sequence[Measured | None], names: Sequence[str], level: float
) -> dict[str, Any] | None:
    """The first candidate against each of the others; differences are first minus other.

    The p values of the main metric are adjusted for the number of others by Holm's rule.
    """
    others = subject.candidates[1:]
    if not others or not names:
        return None
    rows = []
    for at, other in enumerate(others, start=1):
        differences = [_difference(subject, name, at, level) for name in names]
        rows.append({"name": other.name, **_won_and_lost(found, at), "differences": differences})
    known = [row for row in rows if row["differences"][0]["p_value"] is not None]
    adjusted = inference.holm([row["differences"][0]["p_value"] for row in known])
    for row in rows:
        row["adjusted"] = None
    for row, p in zip(known, adjusted.tolist(), strict=True):
        row["adjusted"] = p
    return {"first": subject.first.name, "main": names[0], "level": level, "rows": rows,
            "better_high": is_better_high(names[0])}  # fmt: skip


def _difference(subject: Subject, name: str, at: int, level: float) -> dict[str, Any]:
    facts: dict[str, Any] = {"metric": name, "difference": None, "low": None, "high": None,
                             "p_value": None, "reason": None}  # fmt: skip
    if subject.judgments.weight is not None:
        return facts | {"reason": "the rows are weighted"}
    flipped, rows = name == IN_ORDER, subject.graded
    target: Any = subject.grade[rows]
    qid = subject.judgments.qid
    wanted: Any = metric("pair_error" if flipped else name)
    if subject.is_listed:
        wanted = "pair_error" if qid is None else "pooled_pair_error"
        rows, target, qid = np.arange(subject.scores.size), subject.judgments, None
    elif qid is not None and wanted.name == "auc":  # that of `evaluate`, not of all pairs of grades
        wanted = replace(wanted, relevant=1 if wanted.relevant is None else wanted.relevant)
    try:
        result = inference.compare(
            target, subject.first.returned[rows], subject.candidates[at].returned[rows],
            None if qid is None else qid[rows], metric=wanted, random_state=0,
        )  # fmt: skip
    except ValueError as error:
        return facts | {"reason": str(error)}
    low, high, why = ends_of(partial(result.interval, level))
    sign = -1.0 if flipped else 1.0
    ends: Any = sorted(sign * end for end in (low, high) if end is not None) or [None, None]
    return facts | {
        "difference": plain_value(sign * result.difference + 0.0), "low": ends[0], "high": ends[1],
        "p_value": result.p_value, "reason": why, "units": result.n_units, "unit": result.unit,
    }  # fmt: skip


def _won_and_lost(found: Sequence[Measured | None], at: int) -> dict[str, Any]:
    """Queries in which the first candidate is better, worse or equal by the main metric."""
    first, other = found[0], found[at]
    if first is None or other is None:
        return {"won": None, "lost": None, "tied": None}
    sign = 1.0 if is_better_high(first.main) else -1.0
    gap = sign * (first.values(first.main) - other.values(first.main))
    gap = gap[~np.isnan(gap)]
    return {
        "won": int((gap > 0).sum()),
        "lost": int((gap < 0).sum()),
        "tied": int((gap == 0).sum()),
    }
