"""Synthetic problems with known answers, for tests, benchmarks and first steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm

from precede.engine.arrays import Array, Floats, Integers
from precede.judgments import Judgments, check_column

__all__ = [
    "Sample",
    "bradley_terry",
    "excess_ranking_risk",
    "search_results",
    "two_normals",
    "uniform_regression",
]


@dataclass(frozen=True)
class Sample:
    """Features, grades and queries, and what is known about the truth.

    `truth` is the score that generated the data; `best` is the share of pairs that the best
    possible ranking puts in order in the long run (None where it is not known).
    """

    X: Array  # float64, or float32 where that is enough
    y: Integers
    qid: Integers | None
    truth: Floats
    best: float | None = None


def two_normals(
    n: int, *, separation: float = 1.0, features: int = 5, random_state: Any = None
) -> Sample:
    """Two classes whose first feature is normal with means 0 and `separation`.

    The best area under the curve is ``Phi(separation / sqrt(2))``, reached by ranking by the
    first feature; the other features are noise.

    >>> sample = two_normals(1000, separation=2.0, random_state=0)
    >>> round(sample.best, 4)
    0.9214
    """
    generator = np.random.default_rng(random_state)
    y = (generator.random(n) < 0.5).astype(np.int64)
    X = generator.standard_normal((n, features))
    X[:, 0] += separation * y
    return Sample(X, y, None, X[:, 0].copy(), float(norm.cdf(separation / np.sqrt(2))))


def search_results(
    queries: int,
    *,
    features: int = 136,
    per_query: float = 120.0,
    informative: int = 40,
    random_state: Any = None,
) -> Sample:
    """Graded search results shaped like the MSLR collections.

    Query sizes are lognormal around `per_query`; grades 0 to 4 hold 52, 32, 13, 2 and 1 % of
    the rows; a quarter of the features are normal, a quarter heavy-tailed, a quarter counts
    and a quarter mostly zero. The hidden score is additive in `informative` features, plus
    a shift of each query and noise; so an additive model is right for it, which says nothing
    about real collections.

    >>> sample = search_results(20, features=8, informative=4, random_state=0)
    >>> sample.X.shape[1], sorted(set(sample.y.tolist()))
    (8, [0, 1, 2, 3, 4])
    """
    generator = np.random.default_rng(random_state)
    length = generator.lognormal(np.log(per_query) - 0.18, 0.6, queries)
    sizes = np.maximum(length.astype(np.int64), 2)
    qid = np.repeat(np.arange(queries), sizes)
    X = generator.standard_normal((qid.size, features), dtype=np.float32)
    X[:, 1::4] = np.exp(X[:, 1::4])
    X[:, 2::4] = np.floor(np.exp(1.5 * X[:, 2::4]))
    X[:, 3::4] = np.where(X[:, 3::4] > 0.5, X[:, 3::4], 0.0)
    truth = np.zeros(qid.size)
    for feature in range(min(informative, features)):
        column = X[:, feature].astype(np.float64)
        truth += 0.35 * generator.standard_normal() * np.tanh(column - np.median(column))
    noise = generator.standard_normal(qid.size) + 0.5 * generator.standard_normal(queries)[qid]
    cuts = np.quantile(truth + noise, [0.52, 0.84, 0.97, 0.99])
    return Sample(X, np.searchsorted(cuts, truth + noise), qid, truth)


def uniform_regression(n: int, *, features: int = 2, random_state: Any = None) -> Sample:
    """Two classes with ``P(Y = 1 | x) = eta(x)`` uniform on [0, 1]: Bayes ranking risk 1/12.

    ``eta`` is a zigzag of the first feature, so no monotone score is right; the other
    features are noise. By CLV05 (example 1) the least ranking risk is
    ``Var(Y) - E|eta(X) - eta(X')| / 2 = 1/4 - 1/6``. `truth` is eta; `best` is the share of
    the positive-negative pairs that ranking by eta puts in order, 5/6.

    >>> sample = uniform_regression(1000, random_state=0)
    >>> round(sample.best, 4)
    0.8333
    """
    generator = np.random.default_rng(random_state)
    X = generator.random((n, features))
    eta = np.abs(2 * ((1.5 * X[:, 0]) % 1.0) - 1)
    y = (generator.random(n) < eta).astype(np.int64)
    return Sample(X, y, None, eta, 5 / 6)


def excess_ranking_risk(scores: Floats, eta: Floats) -> float:
    """``L(s) - L* = E |eta(X) - eta(X')| 1[s orders the two against eta]`` (CLV05 example 1).

    Over all ordered pairs of a sample, ties counting half: exact given eta, whatever the
    labels turned out to be. O(n²) in memory-bounded slices.

    >>> import numpy as np
    >>> excess_ranking_risk(np.array([1.0, 0.0]), np.array([0.25, 0.75]))
    0.5
    """
    eta = check_column(eta, "eta")
    scores = check_column(scores, "scores", eta.size, infinite=True)
    total = 0.0
    for first in range(0, len(eta), 1024):
        rows = slice(first, first + 1024)
        gap = eta[rows, None] - eta[None, :]
        agree = np.sign(scores[rows, None] - scores[None, :]) * np.sign(gap)
        total += float((np.abs(gap) * (0.5 - 0.5 * agree)).sum())
    return total / (len(eta) * (len(eta) - 1))


def bradley_terry(
    items: int, comparisons: int, *, features: int = 8, random_state: Any = None
) -> tuple[Floats, Judgments]:
    """Pairwise human preferences: item i beats k with probability ``1 / (1 + exp(t_k - t_i))``.

    The strengths t are additive in the features.

    >>> X, judgments = bradley_terry(30, 200, random_state=0)
    >>> X.shape, judgments
    ((30, 8), Judgments(30 rows, no query, 200 pairs))
    """
    generator = np.random.default_rng(random_state)
    X = generator.standard_normal((items, features))
    strength = np.tanh(X) @ generator.normal(0.0, 1.5, features)
    first = generator.integers(0, items, comparisons)
    second = (first + generator.integers(1, items, comparisons)) % items
    wins = generator.random(comparisons) < 1 / (1 + np.exp(strength[second] - strength[first]))
    better, worse = np.where(wins, first, second), np.where(wins, second, first)
    return X, Judgments.preferences(better, worse, n=items)
