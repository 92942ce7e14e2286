"""Folds: queries and chains of pairs stay whole, classes keep their proportions."""

import numpy as np
import pytest

from precede import Judgments
from precede.boosting.holdout import folds


def held_out(judgments, cv):
    parts = list(folds(judgments, cv, random_state=0))
    for train, test in parts:
        assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(len(judgments)))
    every = np.concatenate([test for _, test in parts])
    assert np.array_equal(np.sort(every), np.arange(len(judgments)))
    return [test for _, test in parts]


def test_queries_stay_whole():
    qid = np.repeat(np.arange(7), [3, 1, 4, 2, 5, 2, 3])
    parts = held_out(Judgments(np.arange(qid.size) % 2, qid), 3)
    queries = [set(qid[part]) for part in parts]
    assert all(not one & other for k, one in enumerate(queries) for other in queries[:k])


def test_classes_keep_their_proportions():
    grade = np.repeat([0, 1], [40, 10])
    assert [int(grade[part].sum()) for part in held_out(Judgments(grade), 5)] == [2] * 5


def test_rare_classes_and_rows_without_a_grade_are_dealt_all_the_same():
    held_out(Judgments([0.0, 1.0, np.nan, 0.0, np.nan, 2.0]), 3)


def test_chains_of_listed_pairs_stay_together():
    pairs = [(0, 1), (1, 2), (3, 4), (5, 6), (6, 7), (8, 9)]
    parts = held_out(Judgments(pairs=pairs, n=10), 2)
    where = {row: k for k, part in enumerate(parts) for row in part}
    assert all(where[i] == where[k] for i, k in pairs)


def test_pairs_that_join_everything_are_cut():
    pairs = [(k, k + 1) for k in range(11)]
    assert sorted(map(len, held_out(Judgments(pairs=pairs, n=12), 3))) == [4, 4, 4]


@pytest.mark.parametrize("qid", [["a", "a", "b", "b"], ["a"] * 4])
def test_fewer_queries_than_folds_are_refused(qid):
    with pytest.raises(ValueError, match="cv=3 needs at least as many queries"):
        list(folds(Judgments([0, 1, 0, 1], qid), 3))
