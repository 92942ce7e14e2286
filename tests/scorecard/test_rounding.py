"""Counts of pairs that change their order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive_scorecard as naive
from precede.scorecard import order_changes

FEW = st.sampled_from([0.0, 0.25, 0.5, 1.0, -1.5, 3.0])


@given(st.lists(st.tuples(FEW, st.integers(-2, 2), st.integers(0, 2)), max_size=25), st.booleans())
def test_counts_equal_those_of_a_loop_over_pairs(rows, labeled):
    before, after, y = (
        (np.array(each) for each in zip(*rows, strict=True)) if rows else ([], [], [])
    )
    found = order_changes(before, after, y if labeled else None)
    assert (found.pairs, found.reversed, found.tied, found.split) == naive.order_changes(
        before, after, y if labeled else None
    )
    assert found.changed == found.reversed + found.tied + found.split


def test_many_rows_are_counted_at_once():
    rng = np.random.default_rng(0)
    score = rng.normal(size=200_000)
    found = order_changes(score, np.round(score, 1))
    assert found.pairs == 200_000 * 199_999 // 2
    assert found.reversed == found.split == 0
    _, counts = np.unique(np.round(score, 1), return_counts=True)
    assert found.tied == (counts * (counts - 1) // 2).sum()
    assert "pairs (2." in str(found)


def test_invalid_scores_are_rejected():
    with pytest.raises(ValueError, match="after has 2 values for 1 rows"):
        order_changes([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match=r"before\[0\] is nan"):
        order_changes([np.nan], [1.0])
    with pytest.raises(ValueError, match="2 labels for 1 rows"):
        order_changes([1.0], [1.0], [0, 1])
