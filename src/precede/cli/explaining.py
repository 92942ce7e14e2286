"""Why documents stand where they stand, as rows of tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from precede.cli.sources import features_for
from precede.engine.arrays import Integers
from precede.estimator import BaseRanker
from precede.explain.contributions import PairExplanation
from precede.files.tables import Data

__all__ = ["documents", "in_words", "of_query", "pair", "terms"]


def of_query(data: Data, query: str | None) -> Data:
    """The rows of one query; all rows where the data are a single list."""
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


def documents(
    model: BaseRanker, data: Data, top: int, most: int | None = None
) -> list[dict[str, Any]]:
    """The first `most` documents, best first, each with what contributes most to its score."""
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


def pair(model: BaseRanker, data: Data, upper: str, lower: str) -> PairExplanation:
    """Why one document ranks above another of the same data."""
    _check(model)
    X = features_for(model, data)
    return model.explain_pair(X, _row_of(data, upper), _row_of(data, lower))


def in_words(explained: PairExplanation, upper: str, lower: str) -> str:
    """Which of two documents ranks above the other, and by how much."""
    side = (
        "above"
        if explained.difference > 0
        else "below"
        if explained.difference < 0
        else "level with"
    )
    scores = f"{explained.scores[0]:.4g} against {explained.scores[1]:.4g}"
    return f"{upper} ranks {side} {lower}: {scores}, a difference of {explained.difference:.4g}"


def terms(explained: PairExplanation, upper: str, lower: str) -> list[dict[str, Any]]:
    """One row for each feature that matters: its values in both, and what that is worth."""
    listed = zip(
        explained.names, explained.values.tolist(), explained.contributions.tolist(), strict=True
    )
    return [
        {"feature": name, f"in {upper}": values[0], f"in {lower}": values[1], "contribution": each}
        for name, values, each in listed
    ]


def name_of_row(data: Data, row: int) -> str:
    """The name of a document, or the number of its row where it has none."""
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
