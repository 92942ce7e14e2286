"""Stumps and exponential losses on a device beside those of the CPU: the same bits."""

import numpy as np
import pytest

from emulated_device import assert_same_fit
from precede import Judgments, PairRisk, PushRanker, RankBoost
from precede.engine.execution import Context


def problem(seed, rows=20_000, features=40, queries=300):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, features))
    X[:, 1] = rng.integers(0, 3, rows)
    y = np.digitize(X[:, 0] + X[:, 1] + rng.normal(size=rows), [0, 1, 2])
    X[rng.random((rows, features)) < 0.1] = np.nan
    X[:, -1] = X[:, 0]  # ties
    return X, y, rng.integers(0, queries, rows)


def assert_equal(X, y, qid, estimator=RankBoost, sample_weight=None, **given):
    given = {"n_estimators": 20, "learning_rate": 0.4, **given}
    columns = ("risk", "log_risk", "edge", "step", "smoothed", "perfect")
    assert_same_fit(estimator(**given), columns, X, y, qid=qid, sample_weight=sample_weight)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"learning_rate": 1.0},
        {"step": "bound"},
        {"nonnegative": True},
        {"monotone_constraints": {0: -1, 2: 1}},
        {"max_features": 0.4, "random_state": 2},
        {"balance": "queries"},
        {"max_bins": 7},
        {"rank_weight": "ndcg"},
        {"rank_weight": "ndcg@10"},
        {"rank_weight": {"k": 5, "blend": 0.5}, "step": "bound"},
    ],
    ids=str,
)
def test_models_are_equal_to_the_bit(given):
    assert_equal(*problem(1), **given)


@pytest.mark.parametrize("price", [1, 4, 16])
@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_push(price, loss):
    X, y, qid = problem(2, 3000)
    assert_equal(X, y, qid, PushRanker, price=price, loss=loss, n_estimators=5)
    assert_equal(X, y > 1, None, PushRanker, price=price, loss=loss, n_estimators=5)


def test_large_tables_and_weights():
    X, y, qid = problem(3, 300_000, 70, 2000)
    weight = np.random.default_rng(0).exponential(size=y.size)
    assert_equal(X, y, qid)
    assert_equal(X, y, qid, sample_weight=weight)
    assert_equal(X, y > 1, None)


@pytest.mark.parametrize("price", [1, 4, 2.5])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("spread", [0.0, 1.0, 40.0, 700.0])
@pytest.mark.parametrize("queries", [0, 5000])
def test_states(device, price, weighted, spread, queries):
    rng, rows = np.random.default_rng(0), 100_000
    judgments = Judgments(
        rng.integers(0, 5, rows), rng.integers(0, queries, rows) if queries else None,
        weight=rng.choice([0.5, 1.0, 3.0, 1e-9], rows) if weighted else None,
    )  # fmt: skip
    layout = judgments.to_layout("pairs")
    risk = PairRisk("exponential", price).bind(layout, Context(1, device))
    scores = spread * rng.normal(size=layout.n_used_rows)
    values = rng.integers(0, 2, scores.size).astype(np.uint8)
    here, there = risk.state(scores), risk.state(device.put(scores))
    assert (here.log_value, here.log_gradient_sum) == (there.log_value, there.log_gradient_sum)
    np.testing.assert_array_equal(there.pull.get(), here.pull)
    np.testing.assert_array_equal(risk.curvature(there).get(), risk.curvature(here))
    assert risk.edge_weights(here, values) == risk.edge_weights(there, device.put(values))
    assert risk.exact_step(here, values) == risk.exact_step(there, device.put(values))
