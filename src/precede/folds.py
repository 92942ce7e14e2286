"""Cross-validation that understands queries and classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

from precede.judgments import Judgments

__all__ = ["folds"]


def folds(
    judgments: Judgments, cv: int, random_state: Any = None
) -> Iterator[tuple[NDArray, NDArray]]:
    """Rows to learn from and rows to hold out, `cv` times; O(n log n).

    Queries stay whole. Without queries the classes keep their proportions, as long as there
    are few of them. A listed pair with a row on each side is in neither part.

    >>> from precede import Judgments
    >>> judgments = Judgments([1, 0, 1, 0], qid=["a", "a", "b", "b"])
    >>> sorted(held_out.tolist() for _, held_out in folds(judgments, 2, random_state=0))
    [[0, 1], [2, 3]]
    """
    rows = np.arange(len(judgments))
    queries = 0 if judgments.qid is None else np.unique(judgments._query()).size
    if queries == 1 or (judgments.qid is not None and queries < cv):
        raise ValueError(
            f"cv={cv} needs at least as many queries, and there are {queries}; lower cv, give a "
            "number in place of 'cv', or leave qid out for one list"
        )
    if judgments.qid is not None:
        yield from GroupKFold(cv, shuffle=True, random_state=random_state).split(
            rows, groups=judgments._query()
        )
        return
    # Rows without a grade are a class of their own; so are the values of a real-valued grade
    # as long as they are few.
    grade = (
        np.zeros(rows.size)
        if judgments.grade is None
        else np.nan_to_num(judgments.grade, nan=np.inf)
    )
    kinds, kind, count = np.unique(grade, return_inverse=True, return_counts=True)
    splitter = StratifiedKFold if kinds.size <= 10 and count.min() >= cv else KFold
    yield from splitter(cv, shuffle=True, random_state=random_state).split(rows, kind)
