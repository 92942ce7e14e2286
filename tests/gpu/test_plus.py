"""RankBoost+ on a device beside that of the CPU: the same bits."""

import numpy as np
import pytest

from precede import RankBoostPlus


def problem(seed, rows, features=12, queries=100):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, features))
    X[:, 1] = rng.integers(0, 3, rows)
    y = np.digitize(X[:, 0] + X[:, 1] + rng.normal(size=rows), [0, 1, 2])
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, y, rng.integers(0, queries, rows) if queries else None


@pytest.mark.parametrize("queries", [0, 7, 200])
@pytest.mark.parametrize("limit", ["auto", 1000])
def test_models_are_equal_to_the_bit(queries, limit):
    X, y, qid = problem(queries, 5000, queries=queries)
    here = RankBoostPlus(n_estimators=30).fit(X, y, qid=qid)
    there = RankBoostPlus(n_estimators=30, memory_limit=limit, device="cuda").fit(X, y, qid=qid)
    assert here.ensemble_.to_dict() == there.ensemble_.to_dict()
    for column in ("risk", "log_risk", "e1", "edge", "step", "bound", "weak_rankers", "perfect"):
        np.testing.assert_array_equal(here.history_[column], there.history_[column])


def test_many_rounds_made_anew():
    """More rounds than a word has bits, and rankers that are taken again."""
    X, y, qid = problem(3, 600, 2, queries=6)
    X = np.round(X)
    models = [
        RankBoostPlus(n_estimators=150, memory_limit=limit, device=device).fit(X, y, qid=qid)
        for limit, device in (("auto", "cpu"), ("auto", "cuda"), (10, "cuda"))
    ]
    found = [model.ensemble_.to_dict() for model in models]
    assert found[0] == found[1] == found[2]
