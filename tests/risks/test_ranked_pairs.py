"""Enumerated pairs with weights by rank; compared with enumeration in test_rank_weights.py."""

import numpy as np
import pytest

from precede import Judgments, PairRisk
from precede.risks.rank_weights import RankWeight
from precede.risks.ranked_pairs import RankedPairsRisk


@pytest.mark.parametrize("margin", [5.0, 36.0, 60.0, 200.0])
def test_losses_of_pairs_far_in_order_keep_their_digits(margin):
    judgments = Judgments([0, 1])
    risk = PairRisk("logistic", rank_weight="grade_gap")
    bound = risk.bind(judgments)
    log_value = bound.state(np.array([0.0, margin])).log_value
    np.testing.assert_allclose(log_value, np.log(np.log1p(np.exp(-margin))), rtol=1e-12)


def test_plain_pairs_alone_are_the_risk_without_ranks():
    random = np.random.default_rng(0)
    judgments = Judgments(random.integers(0, 4, 200), random.integers(0, 7, 200))
    scores = random.normal(size=200)
    for loss in ("logistic", "hinge", "squared_hinge", "exponential"):
        for balance in ("queries", "items"):
            plain = PairRisk(loss, balance=balance)
            blended = PairRisk(loss, balance=balance, rank_weight=RankWeight(blend=1.0))
            np.testing.assert_allclose(
                blended.pull(judgments, scores), plain.pull(judgments, scores), rtol=1e-9, atol=1e-9
            )


def test_a_list_with_too_many_pairs_is_refused_unless_cut_off():
    judgments = Judgments(np.repeat([0, 1], 250_000))
    with pytest.raises(ValueError, match="loss='exponential'"):
        PairRisk("logistic", rank_weight="ndcg").bind(judgments)
    bound = PairRisk("logistic", rank_weight="ndcg@10").bind(judgments)
    assert isinstance(bound, RankedPairsRisk)
    scores = np.random.default_rng(0).normal(size=500_000)
    exponential = PairRisk("exponential", rank_weight="ndcg@10").bind(judgments)
    ones = np.zeros(500_000)  # where both losses have the slope of a pair, but for a factor
    bound.begin_round(scores)
    exponential.begin_round(scores)
    np.testing.assert_allclose(
        bound.state(ones).pull, exponential.state(ones).pull, rtol=1e-9, atol=1e-15
    )
