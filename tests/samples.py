"""Small problems and models for tests of several modules."""

import numpy as np
import pandas as pd

from precede import Columns, RankBoost, Stumps
from precede.datasets import search_results

CONFIGURATIONS = [
    RankBoost(n_estimators=5),
    RankBoost(n_estimators=5, step="bound", learning_rate=0.1, balance="queries"),
    RankBoost(n_estimators=5, select="decrease"),
    RankBoost(n_estimators=5, weak_rankers="features"),
    RankBoost(n_estimators=5, max_features=0.5, random_state=0, max_bins=10),
    RankBoost(n_estimators=5, weak_rankers=Stumps() | Columns(), n_jobs=1),
]


X6, Y6, Q6 = np.arange(12.0).reshape(6, 2), [0, 1, 0, 1, 2, 2], [0, 0, 0, 1, 1, 1]


def data(n=240, queries=8, seed=0):
    """Graded rows in queries that stand mixed."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.standard_normal((n, 4)), 2)
    y = np.digitize(X[:, 0] - X[:, 1] + 0.7 * rng.standard_normal(n), [-1.0, 0.0, 1.0])
    return X, y, rng.integers(0, queries, n)


def two_classes(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = np.round(rng.standard_normal((n, 3)), 2)
    return X, (X[:, 0] + 0.5 * X[:, 1] + 0.8 * rng.standard_normal(n) > 0).astype(int)


def with_categories(n=400, queries=20, seed=0):
    """Data whose columns 1 and 3 are categories: a few, some missing, and many, most of them rare.

    Also weights, and rows as they may come later, with categories that the data do not have.
    """
    rng = np.random.default_rng(seed)
    X = np.round(rng.standard_normal((n, 4)), 1)
    X[:, 1] = rng.integers(0, 6, n)
    X[:, 3] = np.minimum(rng.zipf(1.6, n), 40) * 3
    y = np.digitize(X[:, 0] + np.isin(X[:, 1], [1, 4]) - np.isin(X[:, 3], [3, 12]), [-0.5, 0.5])
    X[rng.random((n, 4)) < 0.1] = np.nan
    later = X[::3].copy()
    later[:, [1, 3]] += rng.choice([0, 1, 1000], (len(later), 2))
    return X, y, rng.integers(0, queries, n), rng.choice([0.0, 0.5, 1.0, 2.7], n), later


def splits_on_categories(model):
    """Whether a tree or a term of the model reads a feature as categories."""
    return any(
        any(getattr(ranker, "categories", ())) or any(getattr(ranker, "categorical", ()))
        for ranker in model.ensemble_.weak_rankers
    )


def same_model(one, other):
    assert one.ensemble_.weak_rankers == other.ensemble_.weak_rankers
    assert one.ensemble_.weights == other.ensemble_.weights


def halves():
    X, y, qid = data(400, 20)
    train = qid < 12
    return (X[train], y[train], qid[train]), (X[~train], y[~train], qid[~train])


def some_queries(seed=0):
    return search_results(20, features=5, informative=3, per_query=12, random_state=seed)


# -- votes on pairs of items ---------------------------------------------------------------------


def simulated_votes(n=8, m=3000, seed=0, nu=0.6, voters=100):
    rng = np.random.default_rng(seed)
    theta = np.linspace(1.2, -1.2, n)
    a = rng.integers(0, n, m)
    b = (a + rng.integers(1, n, m)) % n
    d = theta[a] - theta[b]
    chance = np.stack([np.exp(d / 2), np.exp(-d / 2), np.full(m, nu)], axis=1)
    chance /= chance.sum(axis=1, keepdims=True)
    outcome = (rng.random(m)[:, None] > chance.cumsum(axis=1)).sum(axis=1)
    names = np.array([f"item {i}" for i in range(n)])
    return pd.DataFrame({"a": names[a], "b": names[b], "voter": rng.integers(0, voters, m),
                         "outcome": np.array(["a", "b", "tie"])[outcome]})  # fmt: skip


def votes_with_length(m=3000, seed=0):
    """The stronger an item, the longer its answers; length alone wins votes as well."""
    rng = np.random.default_rng(seed)
    theta = np.linspace(0.8, -0.8, 6)
    a = rng.integers(0, 6, m)
    b = (a + rng.integers(1, 6, m)) % 6
    x = rng.uniform(0, 4, (2, m)) + np.stack([theta[a], theta[b]])
    effect = 1.5 * np.tanh(x - 2)
    d = theta[a] - theta[b] + effect[0] - effect[1]
    won = rng.random(m) < 1 / (1 + np.exp(-d))
    names = np.array([f"item {i}" for i in range(6)])
    return theta, pd.DataFrame({"a": names[a], "b": names[b], "outcome": np.where(won, "a", "b"),
                                "length_a": x[0], "length_b": x[1]})  # fmt: skip
