"""Why documents stand where they stand, as rows of tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from precede.cli.sources import features_for
from precede.estimator import BaseRanker
from precede.explain import PairExplanation
from precede.files import Data

__all__ = ["documents", "of_query", "pair"]


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


def documents(model: BaseRanker, data: Data, top: int) -> list[dict[str, Any]]:
    """The documents of a query, best first, each with what contributes most to its score."""
    told = model.explain(features_for(model, data))
    rows = []
    for rank, row in enumerate(np.argsort(-told.scores, kind="stable").tolist()):
        each = told.contributions[row]
        order = np.argsort(-np.abs(each), kind="stable")[:top]
        found = {"rank": rank + 1, "document": name_of_row(data, row)}
        if data.y is not None:
            found["grade"] = float(data.y[row])
        why = {told.names[j]: float(each[j]) for j in order if each[j] != 0}
        rows.append({**found, "score": float(told.scores[row]), "baseline": told.baseline,
                     "contributions": why})  # fmt: skip
    return rows


def pair(model: BaseRanker, data: Data, upper: str, lower: str) -> PairExplanation:
    """Why one document stands above another of the same data."""
    X = features_for(model, data)
    return model.explain_pair(X, _row_of(data, upper), _row_of(data, lower))


def name_of_row(data: Data, row: int) -> str:
    """The name of a document, or the number of its row where it has none."""
    return str(row) if data.docid is None else str(data.docid[row])


def _row_of(data: Data, name: str) -> int:
    if data.docid is not None:
        found: NDArray = np.flatnonzero(data.docid == name)
        if found.size > 1:
            raise ValueError(f"document {name!r} is there {found.size} times; name its query")
        if found.size == 1:
            return int(found[0])
    if not name.isdecimal() or int(name) >= len(data):
        known = "the rows are numbered from 0" if data.docid is None else "look at the names"
        raise ValueError(f"there is no document {name!r}; {known}")
    return int(name)
