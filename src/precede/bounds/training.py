"""Bounds on the risk of the training sample, round by round."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from precede.bounds.base import (
    Bound,
)
from precede.engine.parameters import check_choice
from precede.judgments import check_column, to_numbers

__all__ = ["convergence_bound", "small_step_bound", "training_bound"]


def training_bound(values: ArrayLike, *, kind: str = "rankboost", given: str = "edges") -> Bound:
    """Bound the training pair error by what the rounds of boosting achieved.

    R̂ ≤ Π Z_t, the product of the rounds' normalizers; and, where each step minimizes its
    normalizer or RankBoost's bound on it, Π Z_t ≤ exp(−½ Σ δ_t²) with the edges δ_t. Always
    true, at any sample size. Reference: Connamacher et al. (2019), theorems 1 and 2, (12), (29).

    Parameters
    ----------
    values : array-like of shape (n_rounds,)
        The edges δ_t in [−1, 1], or the normalizers Z_t ≥ 0.
    kind : {"rankboost", "rankboost_plus"}, default "rankboost"
        Theorem 1 (ties count as wrong) or theorem 2 (ties count half, and the edge counts the
        accumulated weight of a ranker that comes back).
    given : {"edges", "normalizers"}, default "edges"
        What `values` are.

    Examples
    --------
    >>> training_bound([0.9, 0.8, 0.7], given="normalizers").value
    0.504
    """
    check_choice("kind", kind, ("rankboost", "rankboost_plus"))
    check_choice("given", given, ("edges", "normalizers"))
    rounds, plus = check_column(values, "values"), kind == "rankboost_plus"
    low, high = (-1 - 1e-12, 1 + 1e-12) if given == "edges" else (0.0, math.inf)
    if rounds.min() < low or rounds.max() > high:
        found = f"{given} from {rounds.min():g} to {rounds.max():g}"
        raise ValueError(f"{found}; edges lie in [−1, 1] and normalizers are not negative")
    if given == "edges":
        value, name = math.exp(-0.5 * float((rounds**2).sum())), "exp(−½ Σ edge²)"
        step = "Each step minimizes the normalizer of its round, or RankBoost's bound on it."
    else:
        value = math.exp(np.log(rounds).sum()) if rounds.all() else 0.0
        name = "product of the rounds' normalizers"
        step = "Each normalizer is that of the step actually taken, whatever its size."
    kept = "Each binary ranker is one of a fixed set and keeps its accumulated weight."
    rests = (step, kept if plus else "Every step is finite.")
    quantity = f"training pair error (ties {'half' if plus else 'wrong'})"
    source = f"Connamacher et al. (2019), theorem {2 if plus else 1}"
    return Bound(quantity, {name: value}, 1.0, rests, None, None, source, {"rounds": len(rounds)})


def convergence_bound(
    steps: ArrayLike,
    *,
    target_norm: float,
    start_risk: float,
    target_risk: float,
    curvature: float,
    tolerances: ArrayLike = 0.0,
) -> Bound:
    """Bound the risk that boosting by quadratic models has reached after given steps.

    For a convex risk R, normalized steps s̄_i = s_i·‖g_i‖ and any target h̄ in the span,

        R(h_{k+1}) ≤ R(h̄) + ‖h̄‖/(‖h̄‖ + a_k) · max(0, R(h_0) − R(h̄))
            + min_j [ (b_0 − b_{j+1})·(‖h̄‖ + a_j)/(‖h̄‖ + a_k) + b_{j+1} − b_{k+1} ],

    with a_j = s̄_0 + ... + s̄_j and b_j = Σ_{i≥j} (s̄_i·√(2ε_i) + M·s̄_i²/2). Norms are
    ‖g‖² = Σ W_ℓ g(x_ℓ)²/n and, of a sum of rankers, Σ|α_j| for h̄ = Σ α_j g_j/‖g_j‖. O(k).
    Reference: Zheng et al. (2007), theorem 1.

    Parameters
    ----------
    steps : array-like of shape (k + 1,)
        Normalized steps s̄_i ≥ 0: ``model.history_["normalized_step"]`` of a fit with
        `step_length`.
    target_norm, target_risk : float
        ‖h̄‖ (any upper bound) and R(h̄). Where boosting starts from h_0 other than 0, ‖h̄ − h_0‖.
    start_risk : float
        R(h_0).
    curvature : float
        M with R(h + βg) ≤ R(h) + β∇R·g + β²M‖g‖²/2: the number of rows n where W itself is
        above the second derivative of R at all scores (``hessian="bound"`` with a linear price
        and a loss of bounded curvature, logistic or squared hinge).
    tolerances : float or array-like, default 0
        ε_i: the slope of R along the normalized ranker of round i is within √(2ε_i) of the
        steepest. 0 for a learner that fits best, such as a tree of two leaves.

    Examples
    --------
    >>> print(convergence_bound([0.1] * 200, target_norm=2, start_risk=1, target_risk=0.1,
    ...                         curvature=0.5))
    risk after 200 rounds ≤ 0.5682, always
      0.1000  risk of the target
      + 0.0818  excess of the start, over 1 + steps / norm of the target
      + 0.3864  length and inexactness of the steps
      Zheng et al. (2007), theorem 1
    """
    taken = check_column(steps, "steps")
    slack = np.broadcast_to(to_numbers(tolerances, "tolerances"), taken.shape)
    _check_risks(target_norm, start_risk, target_risk, curvature)
    if taken.min() < 0 or not (slack >= 0).all():
        raise ValueError("steps and tolerances must not be negative; give lengths and errors")
    done = np.cumsum(taken)  # a_0 ... a_k
    spent = np.cumsum(taken * np.sqrt(2 * slack) + curvature * taken**2 / 2)  # b_0 − b_{j+1}
    reach = target_norm + done[-1]
    share = target_norm / reach if reach > 0 else 1.0
    ratios = (target_norm + done) / reach if reach > 0 else np.ones_like(done)
    last = float((spent * ratios + spent[-1] - spent).min())
    terms = {
        "risk of the target": float(target_risk),
        "excess of the start, over 1 + steps / norm of the target": share
        * max(0.0, start_risk - target_risk),
        "length and inexactness of the steps": last,
    }
    rests = (
        "The risk is convex, and M bounds its second derivative everywhere.",
        "Multiples of a ranker are rankers; each round's is within its tolerance of the best.",
    )
    details = {"rounds": taken.size, "sum of steps": float(done[-1]), "target norm": target_norm}
    quantity, source = f"risk after {taken.size} rounds", "Zheng et al. (2007), theorem 1"
    return Bound(quantity, terms, 1.0, rests, None, None, source, details, float(start_risk))


def small_step_bound(
    s: float, *, target_norm: float, start_risk: float, target_risk: float, curvature: float
) -> Bound:
    """Bound the risk that small steps of equal normalized length s² reach in the end.

    R(h_{k+1}) ≤ R(h̄) + 2s·√(max(0, R(h_0) − R(h̄))·‖h̄‖·M) + M·s⁴ for all
    k ≥ √(‖h̄‖·max(0, R(h_0) − R(h̄))/M)·s⁻³, if a step that would raise R is left out and
    √(2ε_i) ≤ M·s²/2. Parameters as for `convergence_bound`; `details` has the rounds needed.
    Reference: Zheng et al. (2007), after theorem 1.

    Examples
    --------
    >>> bound = small_step_bound(0.1, target_norm=2, start_risk=1, target_risk=0.1, curvature=0.5)
    >>> print(f"{bound.value:.4f} after {bound.details['rounds needed']} rounds")
    0.2898 after 1899 rounds
    """
    _check_risks(target_norm, start_risk, target_risk, curvature)
    if not 0 < s < math.inf:
        raise ValueError(f"s={s!r} is out of range; give the root of the normalized step, above 0")
    excess = max(0.0, start_risk - target_risk)
    terms = {
        "risk of the target": float(target_risk),
        "2s·√(excess of the start · norm of the target · M)": 2
        * s
        * math.sqrt(excess * target_norm * curvature),
        "M·s⁴": curvature * s**4,
    }
    needed = math.ceil(math.sqrt(target_norm * excess / curvature) / s**3) + 1
    rests = (
        "The risk is convex, and M bounds its second derivative everywhere.",
        "Multiples of a ranker are rankers; every ε_i has √(2ε_i) ≤ M·s²/2.",
        "Every step has the length s², or 0 where s² would raise the risk.",
    )
    source, details = "Zheng et al. (2007), after theorem 1", {"s": s, "rounds needed": needed}
    quantity = f"risk after {needed} rounds and more"
    return Bound(quantity, terms, 1.0, rests, None, None, source, details, float(start_risk))


def _check_risks(norm: float, start: float, target: float, curvature: float) -> None:
    for name, given in (("target_norm", norm), ("start_risk", start), ("target_risk", target)):
        if not 0 <= given < math.inf:
            raise ValueError(f"{name}={given!r} is out of range; give a finite number, 0 or more")
    if not 0 < curvature < math.inf:
        raise ValueError(f"curvature={curvature!r} is out of range; give a number above 0")
