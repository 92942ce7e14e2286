"""Pairs of features on a device beside those of the CPU: the same integers."""

import numpy as np

from precede import GlassBoxRanker
from precede.engine.execution import Context
from precede.engine.table import Table
from precede.weak_rankers.interactions import interaction_strengths


def test_strengths(device):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150_000, 41))
    X[rng.random(X.shape) < 0.1] = np.nan
    table = Table.build(X)
    pull, weight = rng.normal(size=len(X)), rng.random(len(X))
    found = [
        interaction_strengths(table, pull, weight, np.arange(41), context)
        for context in (Context(None), Context(None, device))
    ]
    assert found[0] == found[1]


def test_glass_boxes_are_equal_to_the_bit():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20_000, 6))
    X[rng.random(X.shape) < 0.05] = np.nan
    y = np.nan_to_num(X[:, 0] + 2 * np.sign(X[:, 1] * X[:, 2])) + rng.normal(size=20_000) > 0
    given, qid = {"interactions": 3, "n_estimators": 20}, rng.permutation(20_000) // 50
    here, there = (
        GlassBoxRanker(**given, device=name).fit(X, y, qid=qid) for name in ("cpu", "cuda")
    )
    assert here.ensemble_.to_dict() == there.ensemble_.to_dict()
    assert here.pair_strengths_ == there.pair_strengths_
