"""Cross-validation folds that keep queries whole and class proportions equal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph

from precede.engine.arrays import Integers
from precede.judgments import Judgments

__all__ = ["components", "folds", "joined"]


def folds(
    judgments: Judgments, cv: int, random_state: Any = None
) -> Iterator[tuple[Integers, Integers]]:
    """Yield training and held-out rows, `cv` times; O(n log n).

    Queries stay whole. Without queries the folds are stratified by grade if there are few grades.
    Queries (or rows, without queries and grades) that are connected by explicit pairs and ties
    stay together too, if they form `cv` or more components, none with more than half of the
    compared rows. Otherwise pairs are cut: a pair with one row on each side is in neither part,
    so that 1/cv² of the pairs are held out at a time.

    >>> from precede import Judgments
    >>> judgments = Judgments([1, 0, 1, 0], qid=["a", "a", "b", "b"])
    >>> sorted(held_out.tolist() for _, held_out in folds(judgments, 2, random_state=0))
    [[0, 1], [2, 3]]
    """
    from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold  # noqa: PLC0415  (slow)

    rows = np.arange(len(judgments))
    queries = 0 if judgments.qid is None else np.unique(judgments._query()).size
    if queries == 1 or (judgments.qid is not None and queries < cv):
        raise ValueError(
            f"cv={cv} needs at least as many queries, and there are {queries}; lower cv, give a "
            "number in place of 'cv', or leave qid out for one list"
        )
    groups = joined(judgments, cv)
    if groups is None and judgments.qid is not None:
        groups = judgments._query()
    if groups is not None:
        splitter = GroupKFold(cv, shuffle=True, random_state=random_state)
        yield from splitter.split(rows, groups=groups)
        return
    # Stratify by grade; rows without a grade are one stratum.
    grade = (
        np.zeros(rows.size)
        if judgments.grade is None
        else np.nan_to_num(judgments.grade, nan=np.inf)
    )
    strata, stratum, count = np.unique(grade, return_inverse=True, return_counts=True)
    kfold = StratifiedKFold if strata.size <= 10 and count.min() >= cv else KFold
    yield from kfold(cv, shuffle=True, random_state=random_state).split(rows, stratum)


def components(judgments: Judgments) -> Integers:
    """Return the connected component of each row, joined by queries, explicit pairs and ties.

    >>> components(Judgments(pairs=[(0, 3), (1, 2)], n=5)).tolist()
    [0, 1, 1, 0, 2]
    """
    node = np.arange(len(judgments)) if judgments.qid is None else judgments._query()
    given = [pairs for pairs in (judgments.pairs, judgments.ties) if pairs is not None]
    one, other = node[np.concatenate([np.zeros((0, 2), np.int64), *given])].T
    count = int(node.max(initial=-1)) + 1
    graph = scipy.sparse.coo_array((np.ones(one.size), (one, other)), (count, count))
    labels = scipy.sparse.csgraph.connected_components(graph, directed=False)[1] if count else node
    return labels[node].astype(np.int64)


def joined(judgments: Judgments, cv: int) -> Integers | None:
    """Return the components joined by explicit pairs and ties; None if unusable as folds."""
    given = [pairs for pairs in (judgments.pairs, judgments.ties) if pairs is not None]
    if not given or (judgments.qid is None and judgments.grade is not None):
        return None
    listed, group = np.concatenate(given), components(judgments)
    compared = np.unique(listed) if judgments.qid is None else np.arange(len(judgments))
    sizes = np.bincount(group[compared], minlength=1)
    enough = np.count_nonzero(sizes) >= cv and sizes.max() <= compared.size / 2
    return group if enough else None
