"""Cut-offs, and counts of pairs that change their order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import naive_scorecard as naive
from precede.scorecard import cut_offs, order_changes


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=15))
def test_costs_are_those_of_the_definition(rows):
    points, goods = [p for p, _ in rows], [g for _, g in rows]
    goods[:2] = [True, False]
    found = cut_offs(points, goods, good=1, cost_of_bad=5, cost_of_good=2, resamples=5)
    expected = naive.costs(points, goods, 5, 2)
    assert_allclose(found.costs, expected)
    assert found.cost == pytest.approx(min(expected))
    assert (found.accept_all, found.reject_all) == (found.costs[0], found.costs[-1])
    for cut, accepted, rate in zip(found.cuts, found.accepted, found.bad_rate, strict=True):
        kept = [g for p, g in zip(points, goods, strict=True) if p >= cut]
        assert accepted == len(kept) / len(points)
        assert rate == (pytest.approx(kept.count(False) / len(kept)) if kept else 0)


def test_intervals_cover_the_cost():
    """Coverage of the cost of a fixed cut-off, over samples of a known population."""
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(200):
        points = rng.integers(0, 10, 300)
        goods = rng.random(300) < points / 10
        found = cut_offs(points, goods, good=1, cost_of_bad=1, cost_of_good=1, resamples=200)
        at = np.searchsorted(found.cuts, 5)
        truth = (sum(1 - p / 10 for p in range(5, 10)) + sum(p / 10 for p in range(5))) / 10
        inside += found.lower[at] <= truth <= found.upper[at]
    assert 0.90 < inside / 200 < 0.99


def test_the_bootstrap_is_reproducible():
    rng = np.random.default_rng(1)
    points = rng.integers(0, 50, 2000)
    goods = rng.random(2000) < points / 50
    first, second = (
        cut_offs(points, goods, good=1, cost_of_bad=3, cost_of_good=1) for _ in range(2)
    )
    assert str(first) == str(second)
    low, high = first.cut_interval
    assert low <= first.cut <= high
    assert low < 37.5 < high or abs(first.cut - 37.5) < 5  # where 3 (1 - p) = p
    assert first.to_frame().shape == (51, 6)
    shuffled = rng.permutation(2000)
    assert str(
        cut_offs(points[shuffled], goods[shuffled], good=1, cost_of_bad=3, cost_of_good=1)
    ) == str(first)


@pytest.mark.parametrize(
    ("points", "y", "options", "message"),
    [
        ([1, 2], [0, 0], {}, "y has 1 different labels"),
        ([1], [0, 1], {}, "points has 1 values for 2 rows"),
        ([1, np.inf], [0, 1], {}, r"points\[1\] is inf"),
        ([1, 2], [0, 1], {"cost_of_bad": -1}, "cost_of_bad=-1 is out of range"),
        ([1, 2], [0, 1], {"good": 7}, r"good=7 is not a label of y; its labels are \[0, 1\]"),
        ([1, 2], [0, 1], {"resamples": 0}, "resamples=0"),
    ],
)
def test_invalid_inputs_of_cut_offs_are_rejected(points, y, options, message):
    with pytest.raises(ValueError, match=message):
        cut_offs(points, y, **{"good": 1, "cost_of_bad": 1, "cost_of_good": 1} | options)


# -- changes of the order ---------------------------------------------------------------------


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
