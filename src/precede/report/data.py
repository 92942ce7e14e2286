"""Facts about the data of a report, the fit, and the overlap with the training rows."""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from importlib import metadata
from typing import Any

import numpy as np
import scipy.sparse

from precede.engine.arrays import Array, Flags, Integers
from precede.estimator import BaseRanker
from precede.judgments import Judgments
from precede.report.quality import measured, quality_facts
from precede.report.subject import Subject, dense, named_models, plain_value
from precede.report.wording import Words, plural

_MAX_NAMES = 10  # entries shown of a long list, besides its length
_MAX_GRADES = 12
_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")


def data_facts(subject: Subject, words: Words) -> dict[str, Any]:
    """Return counts of rows, features, queries, grades, pairs and missing values, with warnings."""
    judgments = subject.judgments
    X = np.zeros((subject.scores.size, 0)) if subject.X is None else subject.X
    missing, constant = _columns(X)
    rows, features = X.shape
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
            for j in np.argsort(-missing, kind="stable")[:_MAX_NAMES]
            if missing[j]
        ],
        "features_with_missing": int(np.count_nonzero(missing)),
        "warnings": _warnings(subject, missing, constant, words),
    }


def _columns(X: Any) -> tuple[Integers, Flags]:
    """Return the number of missing values of each column, and whether it is constant."""
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
    """Return the number of rows of each grade, or quantiles if there are many grades."""
    grade = subject.judgments.grade
    if grade is None:
        return None
    known = grade[~np.isnan(grade)]
    values, counts = np.unique(known, return_counts=True)
    facts: dict[str, Any] = {"distinct": int(values.size), "counts": None}
    if values.size <= _MAX_GRADES:
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


def _warnings(
    subject: Subject, missing: Integers, constant: Flags, words: Words
) -> list[dict[str, Any]]:
    """Return warnings about the data, each with a count and some examples."""
    judgments, rows = subject.judgments, subject.scores.size
    names = np.array(subject.names, object)
    found = [
        ("without a pair to compare", words.query, _without_pair(subject)),
        ("with one value throughout", "column", names[constant].tolist()),
        ("without any value", "column", names[missing == rows].tolist()),
    ]
    if judgments.grade is not None:
        ungraded = np.flatnonzero(np.isnan(judgments.grade))
        for listed in (judgments.pairs, judgments.ties):
            ungraded = ungraded if listed is None else np.setdiff1d(ungraded, listed)
        found.append(("without a grade, left out", words.item, _documents(subject, ungraded)))
    if judgments.weight is not None:
        absent = np.flatnonzero(judgments.weight == 0)
        found.append(("of weight 0, left out", words.item, _documents(subject, absent)))
    facts = [
        {"text": f"{noun if len(which) == 1 else plural(noun)} {text}", "count": len(which),
         "names": [str(each) for each in which[:_MAX_NAMES]]}
        for text, noun, which in found
        if which
    ]  # fmt: skip
    if judgments.n_pairs == 0:
        text = f"no pair at all: no two {words.items} that may be compared differ in grade"
        facts.insert(0, {"text": text, "count": 0, "names": []})
    return facts


def _documents(subject: Subject, rows: Array) -> list[str]:
    return [subject.document(row) for row in rows.tolist()]


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


def version_facts() -> dict[str, str]:
    """Return the versions of the libraries that made the report."""
    import precede  # noqa: PLC0415  (the version, once the package is complete)

    versions = {"precede": precede.__version__, "python": platform.python_version()}
    return versions | {name: metadata.version(name) for name in _PACKAGES}


def fit_facts(model: BaseRanker) -> dict[str, Any]:
    """Return parameters, seed, rounds and the reason why the fit stopped."""
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
        "link": plain_value(model.link_),
        "edits": [_edit(each) for each in getattr(model, "edits_", [])],
    }


def _edit(edit: dict[str, Any]) -> dict[str, Any]:
    """Return a manual edit of a term, with the scores before and after it."""
    known = ("term", "edit", "rows", "score_before", "score_after")
    rest = [f"{name} {_plain(value)}" for name, value in edit.items() if name not in known]
    return {
        "term": str(edit.get("term")),
        "what": ", ".join([str(edit.get("edit")), *rest]),
        "before": plain_value(edit.get("score_before")),
        "after": plain_value(edit.get("score_after")),
    }


def _plain(value: Any) -> Any:
    """Return a parameter for JSON, without memory addresses in its repr."""
    if isinstance(value, Judgments):
        return repr(value)
    if value is None or isinstance(value, bool | int | float | str | np.generic):
        return plain_value(value)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if callable(value) and hasattr(value, "__qualname__"):
        return str(value.__qualname__)
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


# -- Training rows compared with held-out rows ---------------------------------------------------


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
    """Return metrics on the training rows, and the queries and rows shared with the report."""
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
    """Count the rows of one table whose features equal those of a row of the other."""
    tables = [np.ascontiguousarray(dense(X)) + 0.0 for X in (one, other)]  # -0.0 is 0.0
    known = {row.tobytes() for row in tables[1]}
    return sum(row.tobytes() in known for row in tables[0])
