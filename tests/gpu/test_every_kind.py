"""A small fit of every kind on a device beside the CPU; compute-sanitizer runs these as well.

compute-sanitizer --tool racecheck python -m pytest tests/gpu/test_every_kind.py
"""

import numpy as np
import pytest
from sklearn.base import clone

from precede import (
    BoostedRanker,
    GlassBoxRanker,
    Judgments,
    PushRanker,
    QBRank,
    RankBoost,
    RankBoostPlus,
    RankWeight,
)

TREES = {"n_estimators": 2, "num_leaves": 6, "min_child_samples": 5}


def data(kind):
    rng = np.random.default_rng(0)
    rows = 900
    X = rng.normal(size=(rows, 5))
    X[:, 1] = rng.integers(0, 4, rows)
    X[rng.random(X.shape) < 0.05] = np.nan
    y = np.digitize(np.nan_to_num(X[:, 0]) + rng.normal(size=rows), [0, 1])
    qid, label = rng.integers(0, 30, rows), np.where(rng.random(rows) < 0.5, y, np.nan)
    return {
        "queries": {"X": X, "y": y, "qid": qid},
        "one list": {"X": X, "y": y > 0},
        "pairs": {"X": X, "pairs": rng.permutation(rows).reshape(-1, 2)},
        "labels": {"X": X, "y": Judgments(y, qid, label=label)},
    }[kind]


KINDS = [
    *[
        (BoostedRanker(**TREES, loss=loss), kind)
        for loss in ("logistic", "hinge", "squared_hinge", "exponential")
        for kind in ("queries", "one list", "pairs")
    ],
    *[
        (BoostedRanker(**TREES, loss=loss, rank_weight=weight), "queries")
        for loss in ("logistic", "hinge", "exponential")
        for weight in ("ndcg@10", "ndcg", RankWeight(k=4, blend=0.3))
    ],
    (BoostedRanker(**TREES, subsample=0.5, random_state=0), "queries"),
    (BoostedRanker(**TREES, categorical_features=[4], monotone_constraints={0: 1}), "queries"),
    (BoostedRanker(**TREES, subsample=0.5, subsample_by="query", random_state=0), "queries"),
    (BoostedRanker(**TREES, targets="average", hessian="bound", line_search=True), "queries"),
    *[(QBRank(**TREES), kind) for kind in ("queries", "one list", "pairs", "labels")],
    (QBRank(**TREES, rank_weight="ndcg@10"), "labels"),
    (QBRank(**TREES, step_length=0.1), "labels"),
    (RankBoost(n_estimators=3), "queries"),
    (RankBoost(n_estimators=3, rank_weight="ndcg@10"), "queries"),
    (RankBoost(n_estimators=3, rank_weight="ndcg"), "queries"),
    (PushRanker(n_estimators=3, price=4), "queries"),
    (PushRanker(n_estimators=3, price=4, balance="items"), "queries"),
    (PushRanker(n_estimators=3, price=4), "one list"),
    (RankBoostPlus(n_estimators=3), "queries"),
    (GlassBoxRanker(n_estimators=3, pair_estimators=2, interactions=1), "queries"),
]


@pytest.mark.parametrize(("model", "kind"), KINDS, ids=str)
def test_models_are_equal_to_the_bit(model, kind):
    given = data(kind)
    if getattr(model, "categorical_features", None):
        given["X"] = np.column_stack([given["X"][:, :4], np.arange(900) % 7])
    fitted = [clone(model).set_params(device=name).fit(**given) for name in ("cpu", "cuda")]
    assert fitted[0].ensemble_.to_dict() == fitted[1].ensemble_.to_dict()
    assert len(fitted[0].ensemble_) > 0
