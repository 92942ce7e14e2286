"""What the data are, and how the model was made."""

from __future__ import annotations

import platform
import re
from importlib import metadata
from typing import Any

import numpy as np
import scipy.sparse

from precede.engine.arrays import Array, Flags, Integers
from precede.judgments import Judgments
from precede.report.subject import Subject, plain_value

__all__ = ["data_facts", "making_facts"]

_MOST_NAMES = 10  # shown of a long list; its length is told
_MOST_GRADES = 12
_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")


def data_facts(subject: Subject) -> dict[str, Any]:
    """Rows, features, queries, grades, pairs, missing values, and what looks wrong."""
    judgments = subject.judgments
    missing, constant = _columns(subject.X)
    rows, features = subject.X.shape
    cells = rows * features
    return {
        "rows": rows,
        "features": features,
        "queries": _queries(subject),
        "classes": None
        if subject.classes is None
        else [plain_value(each) for each in subject.classes.tolist()],
        "grades": _grades(subject),
        "pairs": judgments.n_pairs,
        "listed_pairs": 0 if judgments.pairs is None else len(judgments.pairs),
        "weighted": judgments.weight is not None or judgments.pair_weight is not None,
        "missing_cells": int(missing.sum()),
        "missing_share": float(missing.sum() / cells) if cells else 0.0,
        "missing": [
            {"name": subject.names[j], "rows": int(missing[j]), "share": float(missing[j] / rows)}
            for j in np.argsort(-missing, kind="stable")[:_MOST_NAMES]
            if missing[j]
        ],
        "features_with_missing": int(np.count_nonzero(missing)),
        "warnings": _warnings(subject, missing, constant),
    }


def _columns(X: Any) -> tuple[Integers, Flags]:
    """How many values of each column are missing, and whether it has one value throughout."""
    rows, features = X.shape
    if not scipy.sparse.issparse(X):
        missing = np.isnan(X).sum(axis=0)
        same = np.fmin.reduce(X, axis=0) == np.fmax.reduce(X, axis=0)
        return missing, same & (missing == 0)
    X = X.tocsc()
    missing, constant = np.zeros(features, np.int64), np.zeros(features, bool)
    for j in range(features):
        held = X.data[X.indptr[j] : X.indptr[j + 1]]
        values = held if held.size == rows else np.append(held, 0.0)
        missing[j] = np.isnan(held).sum()
        constant[j] = not missing[j] and values.min() == values.max()
    return missing, constant


def _queries(subject: Subject) -> dict[str, Any] | None:
    if subject.is_one_list:
        return None
    sizes = np.bincount(subject.query[0])
    return {
        "count": int(sizes.size),
        "least_rows": int(sizes.min()),
        "median_rows": float(np.median(sizes)),
        "most_rows": int(sizes.max()),
    }


def _grades(subject: Subject) -> dict[str, Any] | None:
    """How many rows each grade has, or where grades lie if there are many of them."""
    grade = subject.judgments.grade
    if grade is None:
        return None
    known = grade[~np.isnan(grade)]
    values, counts = np.unique(known, return_counts=True)
    facts: dict[str, Any] = {"distinct": int(values.size), "counts": None}
    if values.size <= _MOST_GRADES:
        facts["counts"] = [
            {"grade": subject.grade_name(value), "rows": int(count), "share": float(share)}
            for value, count, share in zip(
                values.tolist(), counts, counts / known.size, strict=True
            )
        ]
    else:
        low, middle, high = np.quantile(known, [0.0, 0.5, 1.0]).tolist()
        facts |= {"least": low, "median": middle, "most": high}
    return facts


def _warnings(subject: Subject, missing: Integers, constant: Flags) -> list[dict[str, Any]]:
    """What a reader should know before the numbers; each with its count and some names."""
    judgments, rows = subject.judgments, subject.scores.size
    names = np.array(subject.names, object)
    found = [
        ("without a pair to compare", "query", _without_pair(subject)),
        ("with one value throughout", "column", names[constant].tolist()),
        ("without any value", "column", names[missing == rows].tolist()),
    ]
    if judgments.grade is not None:
        ungraded = np.flatnonzero(np.isnan(judgments.grade))
        for listed in (judgments.pairs, judgments.ties):
            ungraded = ungraded if listed is None else np.setdiff1d(ungraded, listed)
        found.append(("without a grade, left out", "row", _documents(subject, ungraded)))
    if judgments.weight is not None:
        absent = np.flatnonzero(judgments.weight == 0)
        found.append(("of weight 0, left out", "row", _documents(subject, absent)))
    facts = [
        {"text": f"{_noun(noun, len(which))} {text}", "count": len(which),
         "names": [str(each) for each in which[:_MOST_NAMES]]}
        for text, noun, which in found
        if which
    ]  # fmt: skip
    if judgments.n_pairs == 0:
        text = "no pair at all: no two rows that may be compared differ in grade"
        facts.insert(0, {"text": text, "count": 0, "names": []})
    return facts


def _documents(subject: Subject, rows: Array) -> list[str]:
    return [subject.document(row) for row in rows.tolist()]


def _noun(noun: str, count: int) -> str:
    plural = "queries" if noun == "query" else f"{noun}s"
    return noun if count == 1 else plural


def _without_pair(subject: Subject) -> list[Any]:
    if subject.is_one_list:
        return []
    number, ids = subject.query
    paired = np.zeros(len(ids), bool)
    for query, rows in enumerate(subject.lists):
        paired[query] = rows.size > 0 and bool(np.ptp(subject.grade[rows]) > 0)
    listed = subject.judgments.pairs
    if listed is not None:
        paired[number[listed.ravel()]] = True
    return [ids[query] for query in np.flatnonzero(~paired)]


def making_facts(subject: Subject, date: str | None) -> dict[str, Any]:
    """Parameters, seed, versions and how the fit ended."""
    import precede  # noqa: PLC0415  (the version, once the package is complete)

    model = subject.model
    parameters = {name: _plain(value) for name, value in model.get_params(deep=False).items()}
    used = int(np.count_nonzero(model.feature_importances_))
    return {
        "estimator": type(model).__name__,
        "parameters": parameters,
        "seed": parameters.get("random_state"),
        "rounds": int(model.n_estimators_),
        "best_iteration": int(model.best_iteration_),
        "best_score": plain_value(model.best_score_),
        "stop_reason": str(model.stop_reason_),
        "features_used": used,
        "features_known": int(model.n_features_in_),
        "intercept": plain_value(model.intercept_),
        "edits": [_edit(each) for each in getattr(model, "edits_", [])],
        "versions": {"precede": precede.__version__, "python": platform.python_version()}
        | {name: metadata.version(name) for name in _PACKAGES},
        "date": date,
    }


def _edit(edit: dict[str, Any]) -> dict[str, Any]:
    """A change made by hand: what was done to which term, and what it cost."""
    known = ("term", "edit", "rows", "score_before", "score_after")
    rest = [f"{name} {_plain(value)}" for name, value in edit.items() if name not in known]
    return {
        "term": str(edit.get("term")),
        "what": ", ".join([str(edit.get("edit")), *rest]),
        "before": plain_value(edit.get("score_before")),
        "after": plain_value(edit.get("score_after")),
    }


def _plain(value: Any) -> Any:
    """A parameter for JSON; where objects live in memory is nobody's business."""
    if isinstance(value, Judgments):
        return repr(value)
    if value is None or isinstance(value, bool | int | float | str | np.generic):
        return plain_value(value)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if callable(value) and hasattr(value, "__qualname__"):
        return str(value.__qualname__)
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))
