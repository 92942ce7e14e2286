"""Enumerated pairs with weights by rank; test_rank_weights.py checks their sums."""

import numpy as np
import pytest

from precede import BoostedRanker, Judgments, PairRisk
from precede.risks import ranked_pairs
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


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_the_first_round_of_a_long_list_is_linear(loss):
    """All scores are equal: pairs are summed by the values of the tree, not one by one."""
    rng = np.random.default_rng(0)
    n = 200_000
    X = np.round(rng.normal(size=(n, 2)), 1)
    y = np.digitize(X[:, 0] + rng.normal(size=n), [1.0, 2.0])
    counts = []
    pairs = ranked_pairs._sum_subgroups

    def counted(start, *arguments):
        counts.append(n * (start.size - 1))
        return pairs(start, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranked_pairs, "_sum_subgroups", counted)
        model = BoostedRanker(
            loss=loss, rank_weight="ndcg@10", n_estimators=2, num_leaves=4, min_child_samples=1000
        ).fit(X, y)
    assert model.n_estimators_ == 2
    # The state before the first round, and at both ends of each; at most four values of a tree.
    assert 0 < sum(counts) <= n * 5 * 4


def test_a_tied_group_can_be_interrupted(monkeypatch):
    """Calls are limited to one or two seconds."""
    rng = np.random.default_rng(0)
    judgments, calls = Judgments(rng.integers(0, 3, 3000)), []
    bound = PairRisk("logistic", rank_weight="ndcg@10").bind(judgments)
    bound.begin_round(np.zeros(3000))
    scores = np.round(rng.normal(size=3000), 1)
    whole = bound.state(scores)
    pairs = ranked_pairs._sum_subgroups
    monkeypatch.setattr(ranked_pairs, "MAX_PAIRS_PER_CALL", 30_000)
    monkeypatch.setattr(
        ranked_pairs,
        "_sum_subgroups",
        lambda start, *rest: (calls.append(start.size), pairs(start, *rest)),
    )
    parts = bound.state(scores)
    assert 1 < max(calls) <= 11
    assert parts.log_value == whole.log_value
    np.testing.assert_array_equal(parts.pull, whole.pull)


def test_a_tied_group_with_as_many_values_is_refused(monkeypatch):
    monkeypatch.setattr(ranked_pairs, "MAX_PAIRS_PER_ROW", 1000)
    rng = np.random.default_rng(0)
    bound = PairRisk("logistic", rank_weight="ndcg@10").bind(Judgments(rng.integers(0, 3, 3000)))
    bound.begin_round(np.zeros(3000))
    with pytest.raises(
        ValueError, match=r"3000 rows that have equal scores .* rankers of few values"
    ):
        bound.state(rng.normal(size=3000))
