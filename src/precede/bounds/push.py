"""The bound of the p-norm push (Rudin 2005, section 3)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from precede.bounds.base import (
    FIXED_CLASS,
    Bound,
    check_open,
    grid_sentence,
    least_bound,
    least_epsilon,
)
from precede.engine.arrays import Floats
from precede.engine.compiling import njit
from precede.engine.parameters import check_choice
from precede.judgments import check_column, read_sample

COMBINED_CLASS = (
    "Scores combine rankers within [−1, 1] that were fixed before the data were seen, with "
    "absolute weights summing to 1 at most."
)


@dataclass(frozen=True)
class PushRisk:
    """The p-norm objective with margin θ on a sample of two classes, and the class sizes.

    Examples
    --------
    >>> print(f"{push_risk([0, 0, 0, 1, 1], [1, 2, 4, 3, 5], p=4).value:.4f}")
    0.3799
    """

    value: float
    p: float
    theta: float
    n_positive: int
    n_negative: int


def push_risk(
    y: ArrayLike, scores: ArrayLike, *, p: float, theta: float = 0.0, norm: float = 1.0
) -> PushRisk:
    """Compute the empirical p-norm push objective with margin.

    R = (1/K · Σ_k (1/I · Σ_i 1[(s_i − s_k)/norm ≤ θ])^p)^(1/p); large p weighs the top only.
    O(n log n). Reference: Rudin, Ranking with a P-Norm Push (2005), section 3.

    Parameters
    ----------
    y, scores : array-like of shape (n,)
        Labels with exactly two values, the larger being the positive class; finite scores.
    p, theta, norm : float
        Power, at least 1; margin, on the scale of scores divided by norm.

    Examples
    --------
    >>> push_risk([0, 0, 1, 1], [1, 3, 2, 4], p=1).value
    0.25
    """
    labels = check_column(read_sample(y, one_list="push_risk")[0], "y")
    values = check_column(scores, "scores", len(labels))
    grades = np.unique(labels)
    if len(grades) != 2:
        raise ValueError(f"push_risk needs two classes, y has {len(grades)}; give two grades")
    if not p >= 1 or not norm > 0:
        raise ValueError(f"p={p!r}, norm={norm!r}; give p of at least 1 and a positive norm")
    positive = np.sort(values[labels == grades[1]])
    negative = np.sort(values[labels == grades[0]])
    shares = _count_close(positive, negative, norm, theta) / len(positive)
    top = shares.max()
    # Scaling by the largest share keeps shares^p from vanishing for p = 64 and beyond.
    value = float(top * ((shares / top) ** p).mean() ** (1 / p)) if top else 0.0
    return PushRisk(value, float(p), float(theta), len(positive), len(negative))


def push_bound(
    risks: PushRisk | Iterable[PushRisk],
    *,
    n_rankers: int,
    delta: float = 0.05,
    kind: str = "combination",
) -> Bound:
    """Bound the true p-norm objective by the empirical one with margin θ.

    With probability at least 1 − 2N(F, εθ/8)·[exp(−2(ε/4)^{2p}K) + exp(−ε²I/8)], every f in F
    has R(f) ≤ R_S(f, θ) + ε; the least ε with failure at most δ is found numerically. (The
    proof bounds a supremum over negatives by McDiarmid's inequality for each; the inequality of
    Dvoretzky, Kiefer, Wolfowitz and Massart gives it with the same constant.) Reference: Rudin
    (2005), theorem 2 and section 6.

    Parameters
    ----------
    risks : PushRisk or iterable of PushRisk
        Empirical objective at one margin, or at several chosen *before* seeing the data: then
        each holds at δ divided by their number and the least bound is returned.
    n_rankers : int
        Dimension d of the combination, or size of the finite class.
    delta : float, default 0.05
        Chance that the bound fails.
    kind : {"combination", "finite"}, default "combination"
        Combinations of d rankers with values in [−1, 1] and absolute weights summing to at
        most 1, whose L∞ covering number at radius r is at most (1 + 2/r)^d; or a finite class.

    Examples
    --------
    >>> risk = PushRisk(value=0.05, p=1, theta=0.2, n_positive=500_000, n_negative=500_000)
    >>> print(push_bound(risk, n_rankers=50))
    1-norm push objective ≤ 0.1251, with confidence 0.95
      0.0500  empirical objective with margin 0.2
      + 0.0751  complexity of 50 rankers, combined
      Rudin (2005), theorem 2
    """
    tried = [risks] if isinstance(risks, PushRisk) else list(risks)
    if not tried or any(one.theta <= 0 for one in tried):
        raise ValueError("push_bound needs margins θ > 0; call push_risk with theta=0.1, say")
    if len({(one.p, one.n_positive, one.n_negative) for one in tried}) > 1:
        raise ValueError("the risks differ in p or in class sizes; vary theta only")
    check_open("delta", delta)
    check_choice("kind", kind, ("combination", "finite"))
    if n_rankers < 1:
        raise ValueError(f"n_rankers={n_rankers!r}; give at least one ranker")
    first, each = tried[0], delta / len(tried)
    size = first.n_positive + first.n_negative

    def epsilons(samples: float) -> list[float]:
        return [_push_epsilon(one, samples / size, n_rankers, kind, each) for one in tried]

    best, needed = least_bound([one.value for one in tried], epsilons, size)
    risk, epsilon = tried[best], epsilons(size)[best]
    details = {"theta": risk.theta, "p": risk.p, "n_positive": risk.n_positive}
    details |= {"n_negative": risk.n_negative, "n_rankers": n_rankers}
    details["negatives relative to p = 1"] = negatives_needed(risk.p, min(epsilon, 4.0))
    what = "functions" if kind == "finite" else "rankers, combined"
    empirical = f"empirical objective with margin {risk.theta:.4g}"
    terms = {empirical: risk.value, f"complexity of {n_rankers} {what}": epsilon}
    assumptions = (
        "Positives are independent draws from one distribution, negatives from another.",
        FIXED_CLASS if kind == "finite" else COMBINED_CLASS,
        grid_sentence(len(tried)),
    )
    quantity, source = f"{risk.p:g}-norm push objective", "Rudin (2005), theorem 2"
    return Bound(quantity, terms, 1 - delta, assumptions, size, needed, source, details)


def negatives_needed(p: float, epsilon: float) -> float:
    """Return how many times more negatives the power p needs than p = 1, at accuracy ε.

    (4/ε)^{2(p−1)}, as negatives enter theorem 2 through (ε/4)^{2p}·K only; infinite beyond the
    range of floating point. Reference: Rudin, P-Norm Push (2005), after theorem 2.

    Parameters
    ----------
    p, epsilon : float
        Power, at least 1, and accuracy, in (0, 4].

    Examples
    --------
    >>> [negatives_needed(p, 0.4) for p in (1, 2, 4)]
    [1.0, 100.0, 1000000.0]
    """
    if not p >= 1 or not 0 < epsilon <= 4:
        raise ValueError(f"p={p!r}, epsilon={epsilon!r}; give p of at least 1 and ε in (0, 4]")
    try:
        return (4 / epsilon) ** (2 * (p - 1))
    except OverflowError:
        return math.inf


def _push_epsilon(risk: PushRisk, scale: float, n_rankers: int, kind: str, delta: float) -> float:
    """Return the least ε at which theorem 2 fails with probability at most delta."""

    def log_failure(epsilon: float) -> float:
        cover = math.log(n_rankers)
        if kind == "combination":
            cover = n_rankers * math.log1p(16 / (epsilon * risk.theta))
        power = 2 * risk.p * math.log(epsilon / 4) + math.log(2 * scale * risk.n_negative)
        negatives = -math.exp(min(power, 700.0))
        positives = -(epsilon**2) / 8 * scale * risk.n_positive
        return math.log(2) + cover + float(np.logaddexp(negatives, positives))

    return least_epsilon(log_failure, math.log(delta))


@njit(cache=True, nogil=True)
def _count_close(positive: Floats, negative: Floats, norm: float, theta: float) -> Floats:
    """Count, for each negative, the positives with (s_i − s_k)/norm ≤ theta; both sorted."""
    close = np.zeros(negative.size, dtype=np.float64)
    reach = 0
    for k in range(negative.size):
        while reach < positive.size and (positive[reach] - negative[k]) / norm <= theta:
            reach += 1
        close[k] = reach
    return close
