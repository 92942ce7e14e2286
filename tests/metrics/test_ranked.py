"""Sums over ranked lists: large lists, ties, and pairs counted one by one."""

import math
from itertools import pairwise, permutations

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precede.metrics import Evaluator, evaluate, ranked
from precede.metrics.ranked import weigh_pairs


def test_precision_at_percent_of_a_large_query_lists_no_pairs():
    # Ten thousand million pairs; a list of them would need 80 GB.
    rng = np.random.default_rng(6)
    n = 300 if numba.config.DISABLE_JIT else 150_000
    y = rng.normal(size=n)
    judge = Evaluator(y, metrics=["precision_at_percent@10", "pair_error"])
    result = judge.evaluate(y + rng.normal(size=n)).mean
    assert 0.9 < result["precision_at_percent@10"] < 1.0
    # Correlation 1/√2: the share of discordant pairs tends to arccos(1/√2)/π = 1/4.
    assert result["pair_error"] == pytest.approx(0.25, abs=2 / math.sqrt(n))
    assert judge.evaluate(y).mean == {"precision_at_percent@10": 1.0, "pair_error": 0.0}


@pytest.mark.parametrize("decimals", [0, 3])
def test_spearman_is_that_of_scipy_and_has_intervals(decimals):
    from scipy.stats import spearmanr

    random = np.random.default_rng(5)
    y, qid = random.normal(size=600).round(decimals), np.repeat(np.arange(20), 30)
    scores = (y + random.normal(size=600)).round(decimals)
    found = evaluate(y, scores, qid, metrics="spearman")
    expected = [spearmanr(y[qid == q], scores[qid == q]).statistic for q in range(20)]
    np.testing.assert_allclose(found.per_query["spearman"], expected, rtol=1e-12)
    assert found.mean["spearman"] in found.interval("spearman")
    assert evaluate([1, 2, 3], [7, 7, 7], metrics="spearman").mean["spearman"] == 0
    with pytest.raises(ValueError, match="spearman is undefined"):
        evaluate([1, 1], [1, 2], metrics="spearman")


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 3), st.integers(0, 4)), min_size=2),
    st.integers(0, 30),
)
def test_weights_of_pairs_are_those_of_the_pairs_one_by_one(rows, cut):
    columns = [np.array(column, float) for column in zip(*rows, strict=True)]
    starts = np.unique([0, min(cut, len(rows)), len(rows)])
    scores, grades, weights = columns
    ranks = np.empty(len(rows), int)
    for first, last in pairwise(starts):
        ranks[first:last] = np.unique(grades[first:last], return_inverse=True)[1]
    found = weigh_pairs(scores, starts, ranks, weights)
    for query, (first, last) in enumerate(pairwise(starts)):
        sums = [0.0, 0.0]
        for i, k in permutations(range(first, last), 2):
            if grades[i] > grades[k] and scores[i] != scores[k]:
                sums[int(scores[i] < scores[k])] += weights[i] * weights[k]
        assert [found[0][query], found[1][query]] == sums  # small integers: exact


def test_many_items_are_sorted_as_few_are(monkeypatch):
    """Queries of up to 200 items by counting, longer ones by NumPy, few items all at once."""
    starts = np.array([0, 1, 30, 330, 400])
    scores = np.round(np.random.default_rng(0).normal(size=400), 1)
    by_hand = [
        row
        for begin, end in pairwise(starts)
        for row in sorted(range(begin, end), key=lambda i: (-scores[i], i))
    ]
    np.testing.assert_array_equal(ranked._descending(scores, starts), by_hand)
    monkeypatch.setattr(ranked, "MIN_KERNEL_ITEMS", 0)
    np.testing.assert_array_equal(ranked._descending(scores, starts), by_hand)
