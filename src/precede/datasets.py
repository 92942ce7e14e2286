"""Synthetic problems with known answers, for tests, benchmarks and first steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr
from scipy.stats import norm

from precede.engine.arrays import Array, Floats, Integers
from precede.judgments import Judgments, check_column

__all__ = [
    "Sample",
    "bayes_ranking_risk",
    "bradley_terry",
    "excess_ranking_risk",
    "search_results",
    "two_normals",
    "uniform_regression",
]


SLICE = 1024  # rows of a matrix of pairs in memory at a time


@dataclass(frozen=True)
class Sample:
    """Features, grades and queries, and the true scores.

    `truth` is the score that generated the data; `best` is the share of pairs that the best
    possible ranking puts in order in expectation (None where it is unknown).
    """

    X: Array  # float64, or float32 where that is enough
    y: Integers
    qid: Integers | None
    truth: Floats
    best: float | None = None


def two_normals(
    n: int, *, separation: float = 1.0, features: int = 5, random_state: Any = None
) -> Sample:
    """Draw two classes whose first feature is normal with means 0 and `separation`.

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
    """Draw graded search results shaped like the MSLR collections.

    Query sizes are lognormal around `per_query`; grades 0 to 4 hold 52, 32, 13, 2 and 1 % of
    the rows; a quarter of the features are normal, a quarter heavy-tailed, a quarter counts
    and a quarter mostly zero. The hidden score is additive in `informative` features, plus
    a shift of each query and noise. An additive model is thus correctly specified, unlike for real
    collections.

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
    """Draw two classes with ``P(Y = 1 | x) = eta(x)`` uniform on [0, 1]: Bayes ranking risk 1/12.

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


def bayes_ranking_risk(truth: ArrayLike, spread: ArrayLike | None = None) -> float:
    """Return L* = E min(ρ₊(X, X'), ρ₋(X, X')), the least ranking risk (CLV05 proposition 1).

    ρ₊ and ρ₋ are the chances that the first of two items has the larger and the smaller label.
    The mean is over all ordered pairs of different items. O(n²) in memory-bounded slices.

    Parameters
    ----------
    truth : array-like of shape (n,) or (n, k)
        ``P(Y = 1 | x)`` of two classes (example 1); the probabilities of k ordered classes, the
        lowest first; or, with `spread`, the regression function m(x) (example 2).
    spread : array-like of shape (n,), optional
        σ(x) of the regression model ``Y = m(X) + σ(X)·ε`` with standard normal ε, for which
        L* = E Φ(−|m(X) − m(X')| / √(σ²(X) + σ²(X'))).

    Examples
    --------
    >>> bayes_ranking_risk([0.25, 0.75])
    0.0625
    >>> bayes_ranking_risk([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
    0.0
    >>> round(bayes_ranking_risk([0.0, 1.0], spread=[0.6, 0.8]), 4)
    0.1587
    """
    size, chances = _order_chances(truth, spread)
    total = []
    for first in range(0, size, SLICE):
        least = np.minimum(*chances(slice(first, first + SLICE)))
        total.append(float(least.sum() - np.trace(least, first)))
    return math.fsum(total) / (size * (size - 1))


def excess_ranking_risk(
    scores: ArrayLike, truth: ArrayLike, spread: ArrayLike | None = None
) -> float:
    """Return L(s) − L* = E |ρ₊ − ρ₋| 1[s orders the two items against ρ₊ − ρ₋] (CLV05).

    For two classes |ρ₊ − ρ₋| is |η(X) − η(X')| (example 1), in the regression model
    |2Φ(Δ(X, X')) − 1| (section 5). Over all ordered pairs of a sample, ties of the scores
    counting half: exact given the truth, whatever the labels turned out to be. With more than two
    classes the best rule need not come from scores, and no score may have excess 0.
    O(n²) in memory-bounded slices.

    Parameters
    ----------
    scores : array-like of shape (n,)
    truth, spread
        As for `bayes_ranking_risk`.

    Examples
    --------
    >>> import numpy as np
    >>> excess_ranking_risk(np.array([1.0, 0.0]), np.array([0.25, 0.75]))
    0.5
    >>> round(excess_ranking_risk([1.0, 0.0], [0.0, 1.0], spread=[0.6, 0.8]), 4)
    0.6827
    """
    size, chances = _order_chances(truth, spread)
    scores = check_column(scores, "scores", size, infinite=True)
    total = []
    for first in range(0, size, SLICE):
        rows = slice(first, first + SLICE)
        above, below = chances(rows)
        agree = np.sign(above - below) * np.sign(scores[rows, None] - scores[None, :])
        total.append(float((np.abs(above - below) * (0.5 - 0.5 * agree)).sum()))
    return math.fsum(total) / (size * (size - 1))


def _order_chances(
    truth: ArrayLike, spread: ArrayLike | None
) -> tuple[int, Callable[[slice], tuple[Floats, Floats]]]:
    """Return the number of items, and a function of ρ₊ and ρ₋ of some of them against all."""
    known = np.asarray(truth, np.float64)
    if known.shape[:1] < (2,):
        raise ValueError(f"truth has shape {known.shape}; give at least two items")
    if known.ndim == 2:
        if spread is not None or not (known >= 0).all() or abs(known.sum(1) - 1).max() > 1e-9:
            raise ValueError(
                "truth of shape (n, k) holds class probabilities: give rows of at least 0 that sum "
                "to 1, and no spread"
            )
        lower = np.cumsum(known, axis=1) - known  # the chance of a lower class

        def of_classes(rows: slice) -> tuple[Floats, Floats]:
            return np.einsum("ic,kc->ik", known[rows], lower), np.einsum(
                "ic,kc->ik", lower[rows], known
            )

        return len(known), of_classes
    known = check_column(truth, "truth")
    if spread is None:
        if known.min() < 0 or known.max() > 1:
            raise ValueError("truth holds numbers outside [0, 1]; give P(Y = 1 | x), or a spread")

        def of_two(rows: slice) -> tuple[Floats, Floats]:
            one, other = known[rows, None], known[None, :]
            return one * (1 - other), other * (1 - one)

        return known.size, of_two
    noise = check_column(spread, "spread", known.size)
    if noise.min() < 0:
        raise ValueError(f"spread holds {noise.min():g}; give standard deviations, at least 0")

    def of_regression(rows: slice) -> tuple[Floats, Floats]:
        gap = known[rows, None] - known[None, :]
        width = np.hypot(noise[rows, None], noise[None, :])
        away = np.divide(gap, width, out=np.copysign(np.inf, gap), where=width > 0)
        away[(width == 0) & (gap == 0)] = np.nan  # equal labels for certain
        return np.nan_to_num(ndtr(away)), np.nan_to_num(ndtr(-away))

    return known.size, of_regression


def bradley_terry(
    items: int, comparisons: int, *, features: int = 8, random_state: Any = None
) -> tuple[Floats, Judgments]:
    """Draw pairwise preferences: item i beats k with probability ``1 / (1 + exp(t_k - t_i))``.

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
