"""The exponential loss with weights that end at a rank: scores of any distance, any threads."""

import numpy as np
import pytest

import naive_rank_weights
from precede import Judgments, PairRisk
from precede.engine.execution import Context
from precede.losses import pair_loss
from precede.risks.rank_weights import rank_weight
from precede.risks.top_exponential import TopExponentialRisk


def some_queries(spread):
    random = np.random.default_rng(8)
    grade, qid = random.integers(0, 4, 120), np.repeat([0, 1, 2], 40)
    scores = np.round(random.normal(size=120), 1)
    scores[:40] *= spread / (scores[:40].max() - scores[:40].min())
    values = random.integers(0, 2, 120).astype(np.uint8)
    return Judgments(grade, qid, weight=1.0 + random.integers(0, 2, 120)), scores, values


@pytest.mark.parametrize("spread", [10.0, 590.0, 650.0])
def test_one_query_far_apart_leaves_the_others_alone(spread):
    judgments, scores, values = some_queries(spread)
    risk = PairRisk("exponential", rank_weight="ndcg@5")
    bound = risk.bind(judgments)
    assert isinstance(bound, TopExponentialRisk)
    value, mass, pull, curvature = naive_rank_weights.risk(
        judgments, rank_weight("ndcg@5"), scores, pair_loss("exponential")
    )
    state = bound.state(scores[bound.layout.order])
    np.testing.assert_allclose(state.log_value, np.log(value), rtol=1e-12)
    np.testing.assert_allclose(bound.to_rows(state.pull), pull / mass, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        bound.to_rows(bound.curvature(state)), curvature / mass, rtol=1e-9, atol=1e-12
    )
    expected = [0.0, 0.0]
    for i, k, weight in naive_rank_weights.weighted_pairs(judgments, rank_weight("ndcg@5"), scores):
        if values[i] != values[k]:
            expected[values[k]] += weight * np.exp(scores[k] - scores[i])
    edge_weights = bound.edge_weights(state, values[bound.layout.order])
    np.testing.assert_allclose(
        [edge_weights.correct, edge_weights.wrong], np.array(expected) / mass, rtol=1e-9
    )


@pytest.mark.parametrize("spread", [10.0, 650.0])
@pytest.mark.usefixtures("tiny_thresholds")
def test_threads_change_no_bit(spread):
    judgments, scores, values = some_queries(spread)
    found = []
    for jobs in (1, 2, 5):
        with Context(jobs) as context:
            layout = judgments.to_layout()
            bound = PairRisk("exponential", rank_weight="ndcg@5").bind(layout, context)
            state = bound.state(scores[layout.order])
            edge_weights = bound.edge_weights(state, values[layout.order])
            found.append((state.log_value, edge_weights, state.pull, bound.curvature(state)))
    for each in found[1:]:
        assert each[:2] == found[0][:2]
        np.testing.assert_array_equal(each[2:], found[0][2:])
