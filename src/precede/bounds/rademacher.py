"""The bound by Rademacher averages (Clémençon, Lugosi & Vayatis 2005, proposition 3)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from precede.bounds.base import (
    Bound,
    check_open,
    smallest,
)
from precede.engine.parameters import check_choice
from precede.engine.table import Table
from precede.judgments import to_numbers
from precede.weak_rankers.stumps import Stumps

__all__ = ["rademacher_bound", "stump_supremum"]

# The three costs of the paper: value φ(x) and slope φ'(x), both increasing.
COSTS: dict[str, tuple[Callable[[float], float], Callable[[float], float]]] = {
    "exponential": (math.exp, math.exp),
    "logistic": (
        lambda x: (max(x, 0.0) + math.log1p(math.exp(-abs(x)))) / math.log(2),
        lambda x: 0.5 * (1 + math.tanh(x / 2)) / math.log(2),
    ),
    "hinge": (lambda x: max(1 + x, 0.0), lambda x: float(x > -1)),
}
LARGEST_RADIUS = 700  # e^x is finite up to 709


def rademacher_bound(
    X: ArrayLike,
    *,
    radius: float,
    cost: str = "exponential",
    delta: float = 0.05,
    constants: str = "proved",
    n_draws: int = 200,
    random_state: Any = None,
) -> Bound:
    """Bound the excess convex risk of the minimizer over combinations of stumps.

    A(f_n) − inf A ≤ 4φ'(B)·R_n + (φ(B) − φ(−B))·√(8 ln(1/δ)/n) for f = Σ w_j (h_j(x) − h_j(x'))
    with Σ|w_j| ≤ B; R_n = B·E sup_h |Σ_{i ≤ n/2} σ_i (h(X_i) − h(X_{n/2+i}))| / ⌊n/2⌋ is the
    Rademacher average, estimated with random signs by the library's own search: the supremum is
    over stumps at the cut points of `precede.engine.table.Bins`, at most 254 a feature, and hence
    over all stumps where a feature has at most 255 distinct values. O(n_draws·n·d). Reference:
    Clémençon, Lugosi, Vayatis (2005), proposition 3, printed as 8Bφ'(B)·R_n +
    √(2B² ln(1/δ)/(2(n − 1))). Its proof takes B for the range of the cost, which is φ(B), the
    deviation once where two are needed, and B both in R_n and before it; the default carries
    the same argument through, and "printed" gives the formula of the paper.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Features, missing values on either side of a threshold. Rows are independent.
    radius : float
        B, the sum of the absolute weights, below 700 so that e^B is finite.
    cost : {"exponential", "logistic", "hinge"}, default "exponential"
        φ(x) = e^x, log₂(1 + e^x), or (1 + x)₊.
    delta : float, default 0.05
        Chance that the bound fails; half of it pays for estimating R_n.
    constants : {"proved", "printed"}, default "proved"
        See above; "printed" takes the estimate of R_n as exact.
    n_draws, random_state : int, and None, int or numpy.random.Generator
        Vectors of random signs, and where they come from.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(2000, 3))
    >>> print(rademacher_bound(X, radius=1.0, cost="hinge", random_state=0))
    excess convex risk (hinge) ≤ 0.6757, with confidence 0.95
      0.1886  4 · slope of the cost · estimated Rademacher average
      + 0.2442  estimating the Rademacher average
      + 0.2429  deviation
      Clémençon, Lugosi, Vayatis (2005), proposition 3, constants proved
    """
    table = to_numbers(X, "X")
    if table.ndim != 2 or len(table) < 4 or not table.shape[1]:
        raise ValueError(f"X has shape {table.shape}; give at least 4 rows and one column")
    check_choice("cost", cost, tuple(COSTS))
    check_choice("constants", constants, ("proved", "printed"))
    if not 0 < radius < LARGEST_RADIUS:
        raise ValueError(f"radius={radius!r}; give a number above 0 and below {LARGEST_RADIUS}")
    if n_draws < 1:
        raise ValueError(f"n_draws={n_draws!r}; give at least one vector of random signs")
    check_open("delta", delta)
    size, half = len(table), len(table) // 2
    coins = np.random.default_rng(random_state).integers(2, size=(n_draws, half), dtype=np.int8)
    signs = 2 * coins - 1
    suprema = stump_supremum(table[: 2 * half], np.concatenate([signs, -signs], axis=1))
    average = radius * float(np.mean(suprema)) / half

    def terms(samples: float) -> dict[str, float]:
        shrunk, facts = average * math.sqrt(size / samples), (radius, cost, constants)
        return _excess_terms(shrunk, facts, samples=samples, delta=delta, n_draws=n_draws)

    rests = (
        "Items are independent draws from one distribution.",
        "The model minimizes the empirical convex risk over combinations of stumps whose "
        "absolute weights sum to at most the radius.",
        "The thresholds, at most 254 a feature, count as fixed before the data were seen, unless "
        "the feature has at most 255 distinct values.",
        "At other sample sizes the Rademacher average shrinks as one over their square root.",
        *(["The estimated Rademacher average is exact."] if constants == "printed" else []),
    )
    needed = smallest(lambda samples: sum(terms(samples).values()) < 1)
    source = f"Clémençon, Lugosi, Vayatis (2005), proposition 3, constants {constants}"
    details = {"rademacher average": average, "radius": radius, "n_draws": n_draws}
    found = (f"excess convex risk ({cost})", terms(size), 1 - delta, rests, size, needed, source)
    return Bound(*found, details)


def stump_supremum(X: ArrayLike, signs: ArrayLike) -> Any:
    """Return the largest |Σ_i signs_i · h(x_i)| over the stumps h = 1[x_j > t] and the constant 1.

    Found by `precede.Stumps`: missing values on either side, "is missing" among the stumps,
    thresholds at the cut points of `precede.engine.table.Bins`. These are at most 254 a feature,
    so this is a supremum over binned stumps, and over all of them where a feature has at most 255
    distinct values. The sums are exact for signs of −1 and 1. O(d·n·(log n + draws)).

    Parameters
    ----------
    X, signs : array-like of shape (n, d), array-like of shape (n,) or (n_draws, n)
        Features; one vector of signs (any finite numbers), or several.

    Examples
    --------
    >>> stump_supremum([[1.0], [2.0], [3.0], [4.0]], [1, 1, -1, -1])
    2.0
    """
    table = np.ascontiguousarray(to_numbers(X, "X"))
    rows = np.atleast_2d(to_numbers(signs, "signs"))
    if table.ndim != 2 or not table.size or rows.shape[1:] != table.shape[:1]:
        raise ValueError(f"X has shape {table.shape} and signs {np.shape(signs)}; rows must agree")
    if not np.isfinite(rows).all():
        raise ValueError("signs hold NaN or infinity; give finite numbers, such as −1 and 1")
    search = Stumps(lazy=False).start(Table.build(table))
    best = np.maximum(np.abs(rows.sum(axis=1)), np.abs(rows @ np.isnan(table)).max(axis=1))
    for draw, row in enumerate(rows):
        # The search wants sums within [−1, 1]; a power of two takes nothing from the signs.
        scale = 2.0 ** math.ceil(math.log2(max(float(np.abs(row).sum()), 1e-300)))
        found = search.best(row / scale)
        best[draw] = max(best[draw], abs(found.edge) * scale if found else 0.0)
    return float(best[0]) if np.ndim(signs) == 1 else best


def _excess_terms(
    average: float, facts: tuple[float, str, str], *, samples: float, delta: float, n_draws: int
) -> dict[str, float]:
    radius, cost, constants = facts
    value, slope = COSTS[cost]
    if constants == "printed":
        deviation = math.sqrt(2 * radius**2 * math.log(1 / delta) / (2 * max(samples - 1, 1)))
        name = "8 · radius · slope of the cost · estimated Rademacher average"
        return {name: 8 * radius * slope(radius) * average, "deviation": deviation}
    log, half = math.log(2 / delta), max(samples // 2, 1)
    # McDiarmid: an item moves the average by B/⌊n/2⌋, one sign of one draw by 2B/(⌊n/2⌋·draws).
    error = radius * math.sqrt((1 + 2 / n_draws) * log / half)
    return {
        "4 · slope of the cost · estimated Rademacher average": 4 * slope(radius) * average,
        "estimating the Rademacher average": 4 * slope(radius) * error,
        "deviation": (value(radius) - value(-radius)) * math.sqrt(8 * log / samples),
    }
