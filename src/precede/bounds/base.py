"""`Bound`, a sum of named terms, and bounds on the training risk of boosting.

A `Bound` has a confidence, its assumptions, whether it is vacuous (at least 1), and the sample
size at which it becomes non-vacuous, other things equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape

import numpy as np
from numpy.typing import ArrayLike

from precede.engine.arrays import Floats, Json
from precede.engine.parameters import check_choice
from precede.judgments import check_column, to_numbers
from precede.results import Result, plain

FIXED_CLASS = "The class of ranking functions was fixed before the data were seen."


@dataclass(frozen=True)
class Bound(Result):
    """An upper bound as a sum of named terms, with its assumptions.

    `value` is the sum of `terms`; it holds with probability `confidence` (1: always) under the
    `assumptions`. It is vacuous if it is at least `trivial`: 1, or the risk of doing nothing.
    `needed_samples` is the least sample size at which it would be below 1, other things equal;
    None if there is no such size, or if the bound does not depend on it. `details` are the numbers
    used.

    Examples
    --------
    >>> from precede.bounds import training_bound
    >>> print(training_bound([0.5, 0.4, 0.3]))
    training pair error (ties wrong) ≤ 0.7788, always
      0.7788  exp(−½ Σ edge²)
      Connamacher et al. (2019), theorem 1
    """

    quantity: str
    terms: dict[str, float]
    confidence: float
    assumptions: tuple[str, ...]
    n_samples: int | None
    needed_samples: int | None
    source: str
    details: dict[str, float] = field(default_factory=dict)
    trivial: float = 1.0

    @property
    def value(self) -> float:
        """The bound: the sum of its terms."""
        return float(sum(self.terms.values()))

    @property
    def vacuous(self) -> bool:
        """True if the value is at least 1, or at least `trivial`."""
        return not self.value < self.trivial

    def summary(self) -> str:
        """Return the value and its confidence."""
        held = "always" if self.confidence == 1 else f"with confidence {self.confidence:g}"
        return f"{self.quantity} ≤ {self.value:.4f}, {held}"

    def rows(self) -> list[Json]:
        """Return the terms."""
        return [{"term": name, "value": number} for name, number in self.terms.items()]

    def __str__(self) -> str:
        lines = [self.summary()]
        for name, number in self.terms.items():
            lines.append(f"  {'+ ' if len(lines) > 1 else ''}{number:.4f}  {name}")
        if self.vacuous:
            size = self.needed_samples
            cure = "no sample size would help" if size is None else f"not so from {_count(size)} on"
            at = "" if self.n_samples is None else f" at {_count(self.n_samples)} samples"
            lines.append(f"  vacuous{at}: {cure}")
        return "\n".join([*lines, f"  {self.source}"])

    def _repr_html_(self) -> str:
        listed = "".join(f"<li>{escape(each)}</li>" for each in (*self.assumptions, self.source))
        return f"{super()._repr_html_()}<ul>{listed}</ul>"

    def to_dict(self) -> Json:
        """Return numbers, text and lists only; infinities become the text "inf"."""
        return {**super().to_dict(), "value": plain(self.value), "vacuous": self.vacuous}


def least_epsilon(log_failure: Callable[[float], float], target: float) -> float:
    """Return the least ε at which a decreasing function is at most the target, by bisection."""
    low, high = math.log(1e-12), math.log(1e12)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if log_failure(math.exp(middle)) <= target else (middle, high)
    return math.exp(high)


def least_bound(
    empirical: Floats | list[float], epsilons: Callable[[float], list[float]], size: float
) -> tuple[int, int | None]:
    """Return the index of the least sum at this size, and the size from which one is below 1."""
    needed = None
    if min(empirical) < 1:
        needed = needed_size(lambda samples: np.add(empirical, epsilons(samples)).min() < 1)
    return int(np.argmin(np.add(empirical, epsilons(size)))), needed


def needed_size(condition: Callable[[float], bool]) -> int | None:
    """Return the least sample size from which a condition holds; None if none up to 1e300 does."""
    high = 2.0
    while not condition(high):
        high *= 2
        if high > 1e300:
            return None
    low = high / 2
    while high - low > max(1.0, 1e-12 * high):
        middle = math.floor((low + high) / 2)
        low, high = (low, middle) if condition(middle) else (middle, high)
    return math.ceil(high)


def grid_sentence(tried: int) -> str:
    """Describe how the margin was chosen."""
    if tried == 1:
        return "The margin was chosen before the data were seen."
    return (
        f"The least of {tried} bounds is taken, one for each margin of a grid fixed before the "
        "data were seen, each with the chance of failure divided by their number."
    )


def check_open(name: str, given: float) -> None:
    """Raise ValueError unless a number is between 0 and 1."""
    if not 0 < given < 1:
        raise ValueError(f"{name}={given!r}; give a number strictly between 0 and 1, such as 0.05")


def _count(number: int) -> str:
    return f"{number:,}" if number < 10**12 else f"{float(number):.2e}"


# -- bounds on the training risk -----------------------------------------------------------------


def training_bound(values: ArrayLike, *, kind: str = "rankboost", given: str = "edges") -> Bound:
    """Bound the training pair error by the normalizers and edges of the rounds of boosting.

    R̂ ≤ Π Z_t, the product of the rounds' normalizers; and, where each step minimizes its
    normalizer or RankBoost's bound on it, Π Z_t ≤ exp(−½ Σ δ_t²) with the edges δ_t. Always
    true, at any sample size. Reference: Connamacher et al. (2019), theorems 1 and 2, (12), (29).

    Parameters
    ----------
    values : array-like of shape (n_rounds,)
        The edges δ_t in [−1, 1], or the normalizers Z_t ≥ 0.
    kind : {"rankboost", "rankboost_plus"}, default "rankboost"
        Theorem 1 (ties count as wrong) or theorem 2 (ties count half, and the edge counts the
        accumulated weight of a ranker that is chosen again).
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
    assumptions = (step, kept if plus else "Every step is finite.")
    quantity = f"training pair error (ties {'half' if plus else 'wrong'})"
    source = f"Connamacher et al. (2019), theorem {2 if plus else 1}"
    return Bound(
        quantity, {name: value}, 1.0, assumptions, None, None, source, {"rounds": len(rounds)}
    )


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
        "excess of the start, over 1 + steps / norm of the target": (
            share * max(0.0, start_risk - target_risk)
        ),
        "length and inexactness of the steps": last,
    }
    assumptions = (
        "The risk is convex, and M bounds its second derivative everywhere.",
        "Multiples of a ranker are rankers; each round's is within its tolerance of the best.",
    )
    details = {"rounds": taken.size, "sum of steps": float(done[-1]), "target norm": target_norm}
    quantity, source = f"risk after {taken.size} rounds", "Zheng et al. (2007), theorem 1"
    return Bound(quantity, terms, 1.0, assumptions, None, None, source, details, float(start_risk))


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
        "2s·√(excess of the start · norm of the target · M)": (
            2 * s * math.sqrt(excess * target_norm * curvature)
        ),
        "M·s⁴": curvature * s**4,
    }
    needed = math.ceil(math.sqrt(target_norm * excess / curvature) / s**3) + 1
    assumptions = (
        "The risk is convex, and M bounds its second derivative everywhere.",
        "Multiples of a ranker are rankers; every ε_i has √(2ε_i) ≤ M·s²/2.",
        "Every step has the length s², or 0 where s² would raise the risk.",
    )
    source, details = "Zheng et al. (2007), after theorem 1", {"s": s, "rounds needed": needed}
    quantity = f"risk after {needed} rounds and more"
    return Bound(quantity, terms, 1.0, assumptions, None, None, source, details, float(start_risk))


def _check_risks(norm: float, start: float, target: float, curvature: float) -> None:
    for name, given in (("target_norm", norm), ("start_risk", start), ("target_risk", target)):
        if not 0 <= given < math.inf:
            raise ValueError(f"{name}={given!r} is out of range; give a finite number, 0 or more")
    if not 0 < curvature < math.inf:
        raise ValueError(f"curvature={curvature!r} is out of range; give a number above 0")
