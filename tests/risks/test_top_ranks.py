"""Weights that end at a rank, against those of a list that is sorted."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from precede import Judgments, PairRisk
from precede.engine.execution import Context
from precede.risks.rank_weights import RankWeight, RankWeights


@given(st.data(), st.integers(1, 6), st.sampled_from(["log", "top", lambda r: 1.0 / r**2]))
@settings(max_examples=60)
def test_discounts_are_those_of_a_sorted_list(data, k, discount):
    judgments = data.draw(strategies.judgments(kind="graded"))
    scores = data.draw(strategies.scores(len(judgments), 3.0))
    layout = judgments.to_layout()
    at = np.round(scores[layout.order])  # ties
    rule = RankWeight("linear", discount, k, by_ideal=False)
    by_sort = RankWeights(rule, layout, balanced=False, context=Context(1))
    by_sort.top = None
    expected = by_sort.at(at)
    found = RankWeights(rule, layout, balanced=False, context=Context(1)).at(at)
    np.testing.assert_allclose(found.discount, expected.discount, rtol=1e-14)
    np.testing.assert_allclose(found.tied, expected.tied, rtol=1e-14)
    first = by_sort.first
    for query, (begin, end) in enumerate(pairwise(first)):
        kth = np.sort(at[begin:end])[::-1][: min(k, end - begin)][-1]
        np.testing.assert_array_equal(
            found.top.group[begin:end], 2 * (at[begin:end] > kth) + (at[begin:end] == kth)
        )
        assert found.top.count[query] == (at[begin:end] > kth).sum()


@given(st.data(), st.sampled_from(["pairs", "queries"]))
@settings(max_examples=40)
def test_weights_of_pairs_are_those_of_a_sorted_list(data, balance):
    judgments = data.draw(strategies.judgments(kind="graded"))
    layout = judgments.to_layout(balance)
    scores = np.round(data.draw(strategies.scores(len(judgments), 3.0)))[layout.order]
    rule = RankWeight("linear", k=2, blend=0.5, by_ideal=False)
    weights = RankWeights(rule, layout, balanced=balance != "pairs", context=Context(1))
    found = weights.pair_weights(weights.at(scores))
    weights.top = None
    expected = weights.pair_weights(weights.at(scores))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13 * expected.max(initial=0))


@pytest.mark.parametrize("digits", [0, 1, 6])
@pytest.mark.parametrize("name", ["exponential", "logistic"])
def test_pulls_are_those_of_a_sorted_list(monkeypatch, digits, name):
    """Lists in which few, many or all rows are tied at the last rank that counts."""
    random = np.random.default_rng(6)
    judgments = Judgments(random.integers(0, 3, 400), np.repeat([0, 1, 2, 3], 100))
    scores = np.round(random.normal(size=400), digits)
    scores[:100] = 1.0
    risk = PairRisk(name, rank_weight=RankWeight(k=7, blend=0.25))
    quick = risk.pull(judgments, scores)
    monkeypatch.setattr("precede.risks.rank_weights.DEEPEST", 0)
    np.testing.assert_allclose(
        quick, risk.pull(judgments, scores), rtol=1e-11, atol=1e-13 * quick.max()
    )
