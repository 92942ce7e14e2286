"""The rows of the fit next to those that were held out: how much better the model is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from precede.report.judged import measured, quality_facts
from precede.report.subject import Subject, dense, named_models

__all__ = ["training_facts", "training_subject"]


def training_subject(train: Any, models: Any, relevant: float | None = None) -> Subject | None:
    """Read ``train``: (X, y), (X, y, qid), or (X, Judgments)."""
    if train is None:
        return None
    if not isinstance(train, list | tuple) or len(train) not in (2, 3):
        raise ValueError("train must be (X, y) or (X, y, qid), the rows the model was fitted on")
    named = named_models(models)
    if not named:
        raise ValueError("train needs a model to score the training rows; leave train out")
    X, y, *qid = train
    return Subject.of(named, None, X, y, qid=qid[0] if qid else None, relevant=relevant)


def training_facts(
    held_out: Subject, train: Subject | None, metrics: Sequence[str] | None, level: float
) -> dict[str, Any] | None:
    """Metrics on the training rows, and what these share with the rows of the report."""
    if train is None:
        return None
    models = []
    for each in train.candidates:
        found = measured(train, each.scores, metrics)
        quality = quality_facts(train, each.scores, found, metrics, level)
        models.append({"name": each.name, **quality})
    return {
        "rows": int(train.scores.size),
        "queries": None if train.is_one_list else len(train.query[1]),
        "models": models,
        "shared_queries": _shared_queries(held_out, train),
        "shared_rows": _shared_rows(held_out.X, train.X),
    }


def _shared_queries(one: Subject, other: Subject) -> int:
    if one.is_one_list or other.is_one_list:
        return 0
    return len(set(map(str, one.query[1])) & set(map(str, other.query[1])))


def _shared_rows(one: Any, other: Any) -> int:
    """Rows of one table whose features are those of a row of the other."""
    tables = [np.ascontiguousarray(dense(X)) + 0.0 for X in (one, other)]  # -0.0 is 0.0
    known = {row.tobytes() for row in tables[1]}
    return sum(row.tobytes() in known for row in tables[0])
