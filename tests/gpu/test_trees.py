"""Models fitted on a device beside those of the CPU: the same bits."""

import numpy as np
import pytest

from emulated_device import assert_same_fit
from precede import BoostedRanker, QBRank
from precede.engine import exact


def problem(seed, rows=3000, features=7, *, queries=60, missing=True):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, features))
    X[:, 1] = rng.integers(0, 4, rows)
    X[:, 2] = rng.choice([0.0, 0.0, 0.0, 1.5], rows)
    X[:, 3] = rng.integers(0, 9, rows)
    y = np.digitize(
        X[:, 0] + (X[:, 1] == 2) + 0.3 * (X[:, 3] % 3) + rng.normal(size=rows), [0, 1, 2]
    )
    if missing:
        X[rng.random((rows, features)) < 0.1] = np.nan
        X[:, 3] = rng.integers(0, 9, rows)
    return X, y, rng.integers(0, queries, rows)


def assert_equal(X, y, qid, estimator=BoostedRanker, sample_weight=None, **given):
    model = estimator(**{"n_estimators": 8, "num_leaves": 15, **given})
    columns = ("risk", "log_risk", "edge", "step")
    there = assert_same_fit(model, columns, X, y, qid=qid, sample_weight=sample_weight)
    assert len(there.ensemble_) > 0
    return there


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"num_leaves": 2},
        {"num_leaves": 255, "min_child_samples": 1},
        {"max_depth": 3},
        {"reg_alpha": 0.3},
        {"reg_lambda": 0.0, "min_child_weight": 0.0, "min_child_samples": 1},
        {"monotone_constraints": {0: 1, 4: -1}},
        {"interaction_constraints": [[0, 1], [2, 3, 4]]},
        {"categorical_features": [3]},
        {"categorical_features": [1, 3], "reg_alpha": 0.1, "cat_smooth": 0.0},
        {"subsample": 0.5, "random_state": 3},
        {"subsample": 0.5, "subsample_by": "query", "random_state": 3},
        {"max_features": 0.5, "max_features_by_split": 0.7, "random_state": 1},
        {"hessian": "bound"},
        {"hessian": "uniform"},
        {"hessian": "terms", "targets": "average"},
        {"line_search": True},
        {"step_length": 0.1},
        {"min_split_gain": 1e-3},
        {"loss": "squared_hinge"},
        {"loss": "exponential"},
        {"loss": "exponential", "rank_weight": "ndcg@10"},
        {"loss": "exponential", "rank_weight": "ndcg", "line_search": True},
        {"loss": "exponential", "rank_weight": {"k": 5, "blend": 0.5}, "balance": "pairs"},
        {"loss": "softmax"},
        {"loss": "hinge"},
        {"loss": "hinge", "hessian": "bound", "line_search": True},
        {"loss": "hinge", "rank_weight": "ndcg@10"},
        {"price": 2},
        {"rank_weight": "ndcg"},
        {"balance": "queries"},
        {"bags": 2, "random_state": 0},
        {"max_bins": 16},
    ],
    ids=str,
)
def test_models_are_equal_to_the_bit(given):
    X, y, qid = problem(1)
    assert_equal(X, y, qid, **given)


def test_packed_numbers():
    """Tables of more than half a million cells; heavy rows do not fit into packed sums."""
    X, y, qid = problem(2, 120_000, 9, queries=2000)
    rng = np.random.default_rng(0)
    for weight in (None, rng.exponential(size=y.size), 10.0 ** rng.uniform(-6, 0, y.size)):
        assert_equal(X, y, qid, sample_weight=weight, n_estimators=4, num_leaves=31)


def test_blocks_whose_packed_sums_would_overflow():
    """Rows with the largest numbers stand together."""
    X, y, qid = problem(4, 100_000, 8, queries=400)
    weight = np.where(qid < 10, 100.0, 1.0)
    assert_equal(X, y, qid, sample_weight=weight, n_estimators=4, balance="pairs")


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge"])
def test_one_list(loss):
    X, y, _ = problem(5, 40_000)
    assert_equal(X, y > 1, None, n_estimators=4, loss=loss)


def test_offsets_warm_starts_and_many_features():
    X, y, qid = problem(6, 4000, 70)
    start = np.random.default_rng(0).normal(size=y.size)
    models = []
    for device in ("cpu", "cuda"):
        model = BoostedRanker(n_estimators=3, warm_start=True, device=device)
        model.fit(X, y, qid=qid, init_score=start)
        models.append(model.set_params(n_estimators=6).fit(X, y, qid=qid, init_score=start))
    assert models[0].ensemble_.to_dict() == models[1].ensemble_.to_dict()


def test_qbrank_and_labels():
    X, y, qid = problem(7)
    assert_equal(X, y, qid, QBRank, n_estimators=4)


def test_automatic_choice():
    X, y, qid = problem(8, 1500)
    assert_equal(X, y, qid, n_estimators="auto", num_leaves=4, learning_rate=0.3)


def test_what_does_not_fit_is_refused_before_it_starts(device, monkeypatch):
    nothing = -(10**13)  # whatever CuPy keeps for later is less
    monkeypatch.setattr(device.xp.cuda.runtime, "memGetInfo", lambda: (nothing, 0))
    X, y, qid = problem(9)
    with pytest.raises(ValueError, match="GB"):
        BoostedRanker(device="cuda").fit(X, y, qid=qid)


def test_other_families_are_refused():
    X, y, qid = problem(10, missing=False)
    with pytest.raises(ValueError, match="device='cuda' is for trees"):
        BoostedRanker(weak_rankers="features", device="cuda").fit(X, y, qid=qid)


@pytest.mark.parametrize("rows", [1, 2049, 1_000_003])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_draws(device, rows, share):
    """The rows that the CPU draws, in their order."""
    keys = np.random.default_rng(rows).integers(0, 2**64, rows, np.uint64)
    numbers = 12345, 7, 2
    found = device.draw(device.put(keys), exact.hash_seeds(*numbers), share * 2.0**53)
    chance = exact.hash_keys(keys, *numbers) >> np.uint64(11)
    np.testing.assert_array_equal(device.get(found), np.flatnonzero(chance < share * 2.0**53))
