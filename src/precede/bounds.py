"""Generalisation bounds with every term shown, and what it would take to make them speak.

A bound here is a sum of named terms, the confidence with which it holds, the assumptions it
rests on, and two plain statements: whether it is vacuous (at least 1), and from which sample
size it would not be, other things equal. Nothing lists a pair.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from html import escape
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike
from scipy.special import ndtr

from precede.engine.arrays import Floats
from precede.engine.parameters import check_choice
from precede.engine.table import Table
from precede.judgments import check_column, read_sample, to_numbers
from precede.losses import PairLoss, pair_loss, value_at_zero
from precede.margin import MARGIN_GRID, MarginDistribution
from precede.margin import margin_distribution as margin_distribution  # noqa: PLC0414  (lives on here)
from precede.model import plain
from precede.rankers.stumps import Stumps

__all__ = [
    "Bound",
    "PushRisk",
    "bernstein_bound",
    "consistent_radius",
    "convergence_bound",
    "covering_bound",
    "fast_rate_bound",
    "margin_bound",
    "negatives_needed",
    "noise_constant",
    "projection_variance_bound",
    "psi_inverse",
    "psi_transform",
    "push_bound",
    "push_risk",
    "rademacher_bound",
    "sloppy_covering",
    "small_step_bound",
    "stump_supremum",
    "training_bound",
    "vc_bound",
]

MARGIN_KINDS = {"closed": "equation (2)", "solved": "corollary 4", "finite": "corollary 5"}
FIXED_CLASS = "The class of ranking functions was fixed before the data were seen."
CONVEX_CLASS = "Scores are convex combinations of binary rankers from a set of the given size."
COMBINED_CLASS = (
    "Scores combine rankers within [−1, 1], with absolute weights summing to 1 at most."
)
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


@dataclass(frozen=True)
class Bound:
    """An upper bound as a sum of named terms, with what it rests on.

    `value` is the sum of `terms`; it holds with probability `confidence` (1: always) under the
    `assumptions`. From `trivial` on (1, or the risk of doing nothing) it is vacuous.
    `needed_samples` is the least sample size at which it would be below 1, other
    things equal: None if no size would do, or none matters. `details` are the numbers used.

    Examples
    --------
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
        """True if the bound says nothing: its value is at least 1, or at least `trivial`."""
        return not self.value < self.trivial

    def __str__(self) -> str:
        held = "always" if self.confidence == 1 else f"with confidence {self.confidence:g}"
        lines = [f"{self.quantity} ≤ {self.value:.4f}, {held}"]
        for number, name in zip(self.terms.values(), self.terms, strict=True):
            lines.append(f"  {'+ ' if len(lines) > 1 else ''}{number:.4f}  {name}")
        if self.vacuous:
            size = self.needed_samples
            cure = "no sample size would help" if size is None else f"not so from {_count(size)} on"
            at = "" if self.n_samples is None else f" at {_count(self.n_samples)} samples"
            lines.append(f"  vacuous{at}: {cure}")
        return "\n".join([*lines, f"  {self.source}"])

    def _repr_html_(self) -> str:
        rows: dict[str, Any] = {**self.terms, "sum": self.value, "confidence": self.confidence}
        rows |= {"vacuous": self.vacuous, "needed samples": self.needed_samples}
        cells = [f"<tr><th>{escape(k)}</th><td>{escape(str(v))}</td></tr>" for k, v in rows.items()]
        listed = "".join(f"<li>{escape(sentence)}</li>" for sentence in self.assumptions)
        caption = f"<caption>{escape(self.quantity)} ({escape(self.source)})</caption>"
        return f"<table>{caption}{''.join(cells)}</table><ul>{listed}</ul>"

    def to_dict(self) -> dict[str, Any]:
        """Return numbers, words and lists only; infinities become the text "inf"."""
        facts = {each.name: plain(getattr(self, each.name)) for each in fields(self)}
        return {**facts, "value": plain(self.value), "vacuous": self.vacuous}


def margin_bound(
    margins: MarginDistribution | float,
    m: int | None = None,
    *,
    E: float | None = None,
    n_rankers: int,
    theta: float | Sequence[float] | None = None,
    delta: float = 0.05,
    kind: str = "closed",
) -> Bound:
    """Bound the misranking probability by the share of small margins plus a complexity term.

    P{misrank} ≤ P_S{margin ≤ θ} + ε with probability 1 − δ, where for convex combinations of
    binary rankers from a set H, if m·θ² ≥ 64 ln|H|/E² (else the bound is infinite),
    ε = √( 4/(mE²) · [ (8 ln|H|/θ²)·ln(4mE²θ²/ln|H|) + 2 ln(2/δ) ] ). O(n log n) for each θ.
    Reference: Rudin, Schapire, JMLR 10 (2009), theorem 2, corollaries 4 and 5, equation (2).

    Parameters
    ----------
    margins : MarginDistribution or float
        The margins; or the fraction P_S{margin ≤ θ} itself, with `m`, `E` and one `theta`.
    m, E : int and float, optional
        Training items, and the probability that an ordered pair is crucial, at most ½; by
        default those of `margins` (the paper allows the observed share for the expected one).
    n_rankers : int
        Size of H, a ranker and its complement counting twice if weights may be negative; for
        "finite" the number of ranking functions.
    theta : float or sequence of float, optional
        Margin, or a grid chosen *before* seeing the data, by default 15 values from 1 down to
        2⁻⁷: each holds at δ divided by their number, and the least bound is returned.
    delta : float, default 0.05
        Chance that the bound fails.
    kind : {"closed", "solved", "finite"}, default "closed"
        Equation (2); corollary 4 itself solved for ε, never larger and without the condition
        on m; or corollary 5 for a finite class, ε = √(8(ln 2|F| + ln 1/δ)/m)/E.

    Examples
    --------
    >>> print(margin_bound(0.02, 1_000_000, E=0.25, n_rankers=1000, theta=0.3))
    misranking probability ≤ 0.5842, with confidence 0.95
      0.0200  share of crucial pairs with margin ≤ 0.3
      + 0.5642  complexity of 1000 rankers, convexly combined
      Rudin, Schapire (2009), equation (2)
    """
    grid = _margin_grid(margins, theta)
    fractions, items, share = _margin_sample(margins, grid, m, E)
    _check_open("delta", delta)
    _check_margin_inputs(items, share, n_rankers, kind)
    each, size = delta / len(grid), math.log(n_rankers)

    def epsilons(samples: float) -> list[float]:
        return [_margin_epsilon(samples, share, size, (one, each), kind) for one in grid]

    best, needed = _least(fractions, epsilons, items)
    details = {"theta": grid[best], "E": share, "m": items, "n_rankers": n_rankers}
    details |= {"thetas tried": len(grid), "delta for each": each}
    details |= {"condition m": 64 * size / (share * grid[best]) ** 2} if kind == "closed" else {}
    epsilon = epsilons(items)[best]
    what = "functions" if kind == "finite" else "rankers, convexly combined"
    what += " (m·θ² < 64 ln|H|/E²: no bound)" if math.isinf(epsilon) else ""
    empirical = f"share of crucial pairs with margin ≤ {grid[best]:.4g}"
    terms = {empirical: float(fractions[best]), f"complexity of {n_rankers} {what}": epsilon}
    source = f"Rudin, Schapire (2009), {MARGIN_KINDS[kind]}"
    rests = _margin_assumptions(kind, len(grid), E is None)
    found = ("misranking probability", terms, 1 - delta, rests, int(items), needed, source)
    return Bound(*found, details)


def covering_bound(
    margins: MarginDistribution | float,
    m: int | None = None,
    *,
    E: float | None = None,
    log_covering: Callable[[float, float], float] | float,
    theta: float | Sequence[float] | None = None,
    delta: float = 0.05,
) -> Bound:
    """Bound the misranking probability for any class whose covering number is known.

    With probability at least 1 − 2N(F, θ/4, ε/8)·exp(−m(εE)²/8), every f in F with values in
    [0, 1] has P{misrank} ≤ P_S{margin ≤ θ} + ε; the least ε with failure at most δ is found
    numerically. N(F, θ, ε) is the size of the smallest set G such that for every f in F and every
    distribution of x some g in G has P{|f(x) − g(x)| ≥ θ} ≤ ε (a *sloppy* cover). An L∞ covering
    number at radius θ is an upper bound on it. O(n log n) for each θ. Reference: Rudin, Schapire,
    JMLR 10 (2009), definition 1, theorem 2 and corollary 5.

    Parameters
    ----------
    margins, m, E, theta, delta
        As for `margin_bound`.
    log_covering : function of (theta, epsilon), or float
        ln N(F, θ, ε), or an upper bound on it, which must not rise with ε; a number if it depends
        on neither. The function is called with θ/4 and ε/8. `sloppy_covering` is the one for
        convex combinations of binary rankers.

    Examples
    --------
    Scores that combine 10 rankers with values in [0, 1], with non-negative weights that sum to 1:
    (1 + 2/r)^10 balls of radius r cover them in L∞.

    >>> balls = lambda theta, epsilon: 10 * math.log1p(2 / theta)
    >>> print(covering_bound(0.02, 100_000, E=0.25, log_covering=balls, theta=0.3))
    misranking probability ≤ 0.2373, with confidence 0.95
      0.0200  share of crucial pairs with margin ≤ 0.3
      + 0.2173  covering number, ln N = 33.2
      Rudin, Schapire (2009), theorem 2
    """
    grid = _margin_grid(margins, theta)
    fractions, items, share = _margin_sample(margins, grid, m, E)
    _check_open("delta", delta)
    _check_margin_inputs(items, share, 1, "solved")
    cover = log_covering if callable(log_covering) else lambda theta, epsilon: float(log_covering)  # noqa: ARG005
    each = delta / len(grid)

    def epsilons(samples: float) -> list[float]:
        return [_covering_epsilon(samples, share, cover, (one, each)) for one in grid]

    best, needed = _least(fractions, epsilons, items)
    epsilon = epsilons(items)[best]
    size = _log_cover(cover, grid[best] / 4, epsilon / 8)
    details = {"theta": grid[best], "E": share, "m": items, "ln covering number": size}
    details |= {"thetas tried": len(grid), "delta for each": each}
    empirical = f"share of crucial pairs with margin ≤ {grid[best]:.4g}"
    terms = {empirical: float(fractions[best]), f"covering number, ln N = {size:.4g}": epsilon}
    rests = (
        *_margin_assumptions("finite", len(grid), E is None),
        "The covering number given is that of the class, or an upper bound on it.",
    )
    source = "Rudin, Schapire (2009), theorem 2"
    found = ("misranking probability", terms, 1 - delta, rests, int(items), needed, source)
    return Bound(*found, details)


def sloppy_covering(n_rankers: int, theta: float, epsilon: float) -> float:
    """Bound ln N(F, θ, ε) for convex combinations of binary rankers from a set of this size.

    ln|H|·ln(2/ε)/(2θ²): averages of ln(2/ε)/(2θ²) rankers are a cover (like the paper, this does
    not round their number up). With it `covering_bound` is corollary 4. O(1). Reference: Rudin,
    Schapire, JMLR 10 (2009), lemma 3.

    Parameters
    ----------
    n_rankers, theta, epsilon : int and two floats
        Size of H, and the two radii, both positive.

    Examples
    --------
    >>> round(sloppy_covering(1000, theta=0.1, epsilon=0.05), 1)
    1274.1
    """
    if n_rankers < 1 or not theta > 0 or not epsilon > 0:
        given = f"n_rankers={n_rankers!r}, theta={theta!r}, epsilon={epsilon!r}"
        raise ValueError(f"{given}; give at least one ranker and positive radii")
    # Beyond ε = 2 the logarithm is negative, but one function is needed even then.
    return math.log(n_rankers) * max(math.log(2 / epsilon), 0.0) / (2 * theta**2)


def _log_cover(cover: Callable[[float, float], float], theta: float, epsilon: float) -> float:
    size = float(cover(theta, epsilon))
    if not size >= 0:
        raise ValueError(
            f"log_covering is {size!r} at θ = {theta:g} and ε = {epsilon:g}; give the natural "
            "logarithm of a covering number, which is at least 0"
        )
    return size


def _covering_epsilon(
    samples: float,
    share: float,
    cover: Callable[[float, float], float],
    asked: tuple[float, float],
) -> float:
    """Least ε at which theorem 2 fails with probability at most delta; asked: theta, delta."""
    theta, delta = asked

    def log_failure(epsilon: float) -> float:
        size = _log_cover(cover, theta / 4, epsilon / 8)
        return math.log(2) + size - samples * (epsilon * share) ** 2 / 8

    return _solve(log_failure, math.log(delta))


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

    R = (1/K · Σ_k (1/I · Σ_i 1[(s_i − s_k)/norm ≤ θ])^p)^(1/p); large p looks at the top only.
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
    labels, values = _labelled(read_sample(y, one_list="push_risk")[0], scores)
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
    _check_open("delta", delta)
    check_choice("kind", kind, ("combination", "finite"))
    if n_rankers < 1:
        raise ValueError(f"n_rankers={n_rankers!r}; give at least one ranker")
    first, each = tried[0], delta / len(tried)
    size = first.n_positive + first.n_negative

    def epsilons(samples: float) -> list[float]:
        return [_push_epsilon(one, samples / size, n_rankers, (kind, each)) for one in tried]

    best, needed = _least([one.value for one in tried], epsilons, size)
    risk, epsilon = tried[best], epsilons(size)[best]
    details = {"theta": risk.theta, "p": risk.p, "n_positive": risk.n_positive}
    details |= {"n_negative": risk.n_negative, "n_rankers": n_rankers}
    details["negatives relative to p = 1"] = negatives_needed(risk.p, min(epsilon, 4.0))
    what = "functions" if kind == "finite" else "rankers, combined"
    empirical = f"empirical objective with margin {risk.theta:.4g}"
    terms = {empirical: risk.value, f"complexity of {n_rankers} {what}": epsilon}
    rests = (
        "Positives are independent draws from one distribution, negatives from another.",
        FIXED_CLASS if kind == "finite" else COMBINED_CLASS,
        _grid_sentence(len(tried)),
    )
    quantity, source = f"{risk.p:g}-norm push objective", "Rudin (2005), theorem 2"
    return Bound(quantity, terms, 1 - delta, rests, size, needed, source, details)


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


def training_bound(values: ArrayLike, *, kind: str = "rankboost", given: str = "edges") -> Bound:
    """Bound the training pair error by what the rounds of boosting achieved.

    R̂ ≤ Π Z_t, the product of the rounds' normalisers; and, where each step minimises its
    normaliser or RankBoost's bound on it, Π Z_t ≤ exp(−½ Σ δ_t²) with the edges δ_t. Always
    true, at any sample size. Reference: Connamacher et al. (2019), theorems 1 and 2, (12), (29).

    Parameters
    ----------
    values : array-like of shape (n_rounds,)
        The edges δ_t in [−1, 1], or the normalisers Z_t ≥ 0.
    kind : {"rankboost", "rankboost_plus"}, default "rankboost"
        Theorem 1 (ties count as wrong) or theorem 2 (ties count half, and the edge counts the
        accumulated weight of a ranker that comes back).
    given : {"edges", "normalisers"}, default "edges"
        What `values` are.

    Examples
    --------
    >>> training_bound([0.9, 0.8, 0.7], given="normalisers").value
    0.504
    """
    check_choice("kind", kind, ("rankboost", "rankboost_plus"))
    check_choice("given", given, ("edges", "normalisers"))
    rounds, plus = check_column(values, "values"), kind == "rankboost_plus"
    low, high = (-1 - 1e-12, 1 + 1e-12) if given == "edges" else (0.0, math.inf)
    if rounds.min() < low or rounds.max() > high:
        found = f"{given} from {rounds.min():g} to {rounds.max():g}"
        raise ValueError(f"{found}; edges lie in [−1, 1] and normalisers are not negative")
    if given == "edges":
        value, name = math.exp(-0.5 * float((rounds**2).sum())), "exp(−½ Σ edge²)"
        step = "Each step minimises the normaliser of its round, or RankBoost's bound on it."
    else:
        value = math.exp(np.log(rounds).sum()) if rounds.all() else 0.0
        name = "product of the rounds' normalisers"
        step = "Each normaliser is that of the step actually taken, whatever its size."
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

    For a convex risk R, normalised steps s̄_i = s_i·‖g_i‖ and any target h̄ in the span,

        R(h_{k+1}) ≤ R(h̄) + ‖h̄‖/(‖h̄‖ + a_k) · max(0, R(h_0) − R(h̄))
            + min_j [ (b_0 − b_{j+1})·(‖h̄‖ + a_j)/(‖h̄‖ + a_k) + b_{j+1} − b_{k+1} ],

    with a_j = s̄_0 + ... + s̄_j and b_j = Σ_{i≥j} (s̄_i·√(2ε_i) + M·s̄_i²/2). Norms are
    ‖g‖² = Σ W_ℓ g(x_ℓ)²/n and, of a sum of rankers, Σ|α_j| for h̄ = Σ α_j g_j/‖g_j‖. O(k).
    Reference: Zheng et al. (2007), theorem 1.

    Parameters
    ----------
    steps : array-like of shape (k + 1,)
        Normalised steps s̄_i ≥ 0: ``model.history_["normalized_step"]`` of a fit with
        `step_length`.
    target_norm, target_risk : float
        ‖h̄‖ (any upper bound) and R(h̄). Where boosting starts from h_0 other than 0, ‖h̄ − h_0‖.
    start_risk : float
        R(h_0).
    curvature : float
        M with R(h + βg) ≤ R(h) + β∇R·g + β²M‖g‖²/2: the number of rows n where W itself is
        above the second derivative of R (``hessian="bound"``).
    tolerances : float or array-like, default 0
        ε_i: the slope of R along the normalised ranker of round i is within √(2ε_i) of the
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
    """Bound the risk that small steps of equal normalised length s² reach in the end.

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
        raise ValueError(f"s={s!r} is out of range; give the root of the normalised step, above 0")
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
    """Bound the excess convex risk of the minimiser over combinations of stumps.

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
    _check_open("delta", delta)
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
        "The model minimises the empirical convex risk over combinations of stumps whose "
        "absolute weights sum to at most the radius.",
        "The thresholds, at most 254 a feature, count as fixed before the data were seen, unless "
        "the feature has at most 255 distinct values.",
        "At other sample sizes the Rademacher average shrinks as one over their square root.",
        *(["The estimated Rademacher average is exact."] if constants == "printed" else []),
    )
    needed = _smallest(lambda samples: sum(terms(samples).values()) < 1)
    source = f"Clémençon, Lugosi, Vayatis (2005), proposition 3, constants {constants}"
    details = {"rademacher average": average, "radius": radius, "n_draws": n_draws}
    found = (f"excess convex risk ({cost})", terms(size), 1 - delta, rests, size, needed, source)
    return Bound(*found, details)


def stump_supremum(X: ArrayLike, signs: ArrayLike) -> Any:
    """Return the largest |Σ_i signs_i · h(x_i)| over the stumps h = 1[x_j > t] and the constant 1.

    Found by `precede.Stumps`: missing values on either side, thresholds at the cut points of
    `precede.engine.table.Bins`. These are at most 254 a feature, so this is a supremum over binned
    stumps, and over all of them where a feature has at most 255 distinct values. The sums are
    exact for signs of −1 and 1. O(d·n·(log n + draws)).

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
    best = np.abs(rows.sum(axis=1))
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


def _margin_grid(margins: Any, theta: Any) -> tuple[float, ...]:
    grid = MARGIN_GRID if theta is None else tuple(float(one) for one in np.atleast_1d(theta))
    if not isinstance(margins, MarginDistribution):
        if len(grid) != 1 or theta is None:
            raise ValueError("a bare fraction belongs to one theta; give it, or a distribution")
        if not 0 <= margins <= 1:
            raise ValueError(f"fraction {margins!r}; give a share of pairs in [0, 1]")
    if not grid or not all(0 < one <= 1 for one in grid):
        raise ValueError(f"theta={theta!r}; give margins in (0, 1], as scores lie in [0, 1]")
    return grid


def _margin_sample(
    margins: Any, grid: tuple[float, ...], m: int | None, E: float | None
) -> tuple[Any, int, float]:
    """Shares of small margins, number of items, share of crucial pairs: given or observed."""
    known = isinstance(margins, MarginDistribution)
    if not known and (m is None or E is None):
        raise ValueError("a bare fraction needs m and E; give both, or a MarginDistribution")
    fractions = np.atleast_1d(margins.at(grid)) if known else [float(margins)]
    items = m if m is not None else margins.n_items
    return fractions, items, E if E is not None else margins.crucial_share


def _check_margin_inputs(items: float, share: float, n_rankers: int, kind: str) -> None:
    check_choice("kind", kind, tuple(MARGIN_KINDS))
    if items < 2 or not 0 < share <= 0.5 or n_rankers < 1:
        given = f"m={items!r}, E={share!r}, n_rankers={n_rankers!r}"
        raise ValueError(f"{given}; give m of at least 2, E in (0, ½], and at least one ranker")


def _margin_epsilon(
    samples: float, share: float, size: float, asked: tuple[float, float], kind: str
) -> float:
    """Complexity term for log class size `size` at (theta, delta); infinite where it fails."""
    theta, delta = asked
    if kind == "finite":
        return math.sqrt(8 * (math.log(2) + size - math.log(delta)) / samples) / share
    if kind == "closed":
        if samples * theta**2 < 64 * size / share**2:
            return math.inf
        ratio = math.log(4 * samples * (share * theta) ** 2 / size) if size else 0.0
        inside = 8 * size / theta**2 * ratio + 2 * math.log(2 / delta)
        return math.sqrt(4 / samples * inside) / share

    def cover(radius: float, epsilon: float) -> float:  # lemma 3
        return size * max(math.log(2 / epsilon), 0.0) / (2 * radius**2)

    return _covering_epsilon(samples, share, cover, asked)


def _push_epsilon(risk: PushRisk, scale: float, n_rankers: int, asked: tuple[str, float]) -> float:
    kind, delta = asked

    def log_failure(epsilon: float) -> float:
        cover = math.log(n_rankers)
        if kind == "combination":
            cover = n_rankers * math.log1p(16 / (epsilon * risk.theta))
        power = 2 * risk.p * math.log(epsilon / 4) + math.log(2 * scale * risk.n_negative)
        negatives = -math.exp(min(power, 700.0))
        positives = -(epsilon**2) / 8 * scale * risk.n_positive
        return math.log(2) + cover + float(np.logaddexp(negatives, positives))

    return _solve(log_failure, math.log(delta))


def _solve(log_failure: Callable[[float], float], target: float) -> float:
    """Return the least ε at which a falling function is at most the target."""
    low, high = math.log(1e-12), math.log(1e12)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if log_failure(math.exp(middle)) <= target else (middle, high)
    return math.exp(high)


def _least(empirical: Any, epsilons: Callable[[float], Any], size: float) -> tuple[int, Any]:
    """Return the index of the least sum at this size, and the size from which one is below 1."""
    needed = None
    if min(empirical) < 1:
        needed = _smallest(lambda samples: np.add(empirical, epsilons(samples)).min() < 1)
    return int(np.argmin(np.add(empirical, epsilons(size)))), needed


def _smallest(good: Callable[[float], bool]) -> int | None:
    """Return the least sample size from which `good` holds; None if none up to 1e300 does."""
    high = 2.0
    while not good(high):
        high *= 2
        if high > 1e300:
            return None
    low = high / 2
    while high - low > max(1.0, 1e-12 * high):
        middle = math.floor((low + high) / 2)
        low, high = (low, middle) if good(middle) else (middle, high)
    return math.ceil(high)


def _margin_assumptions(kind: str, tried: int, observed: bool) -> tuple[str, ...]:
    share = "The share of crucial pairs observed stands for the expected one."
    return (
        "Items are independent draws from one distribution, and which pairs are crucial is "
        "determined by the items; with queries, the query is part of the item.",
        FIXED_CLASS if kind == "finite" else CONVEX_CLASS,
        *([share] if observed else []),
        _grid_sentence(tried),
    )


def _grid_sentence(tried: int) -> str:
    several = f"The least of {tried} bounds is taken, one for each margin of a grid fixed before "
    several += "the data were seen, each with the chance of failure divided by their number."
    return "The margin was chosen before the data were seen." if tried == 1 else several


def _labelled(y: ArrayLike, scores: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    labels = check_column(y, "y")
    return labels, check_column(scores, "scores", len(labels))


def _check_open(name: str, given: float) -> None:
    if not 0 < given < 1:
        raise ValueError(f"{name}={given!r}; give a number strictly between 0 and 1, such as 0.05")


def _count(number: int) -> str:
    return f"{number:,}" if number < 10**12 else f"{float(number):.2e}"


# -- Clémençon, Lugosi & Vayatis (2005) --------------------------------------------------------


def vc_bound(
    n: int,
    *,
    vc_dimension: int,
    delta: float = 0.05,
    constant: float | None = None,
    excess: bool = False,
) -> Bound:
    """Bound the largest deviation of the empirical ranking risk over a class of ranking rules.

    sup |L_n(r) − L(r)| ≤ c·√(V/n) + √(ln(1/δ)/(n − 1)) with probability 1 − δ (proposition 2), c a
    universal constant that the paper does not name. Without one the first term is
    2·√(2 ln(2S)/⌊n/2⌋), where S = (e⌊n/2⌋/V)^V bounds the number of rules on ⌊n/2⌋ pairs: the same
    expectation by symmetrisation, Sauer's lemma and Massart's, for √(ln n) more. Reference:
    Clémençon, Lugosi, Vayatis (2005), section 3, proposition 2 and inequality (2).

    Parameters
    ----------
    n, vc_dimension : int
        Items; dimension V of the class of rules r(x, x').
    delta : float, default 0.05
        Chance that the bound fails.
    constant : float, optional
        c of the printed form. The bound is as true as this number.
    excess : bool, default False
        Bound L(r_n) − inf L(r), the excess risk of the empirical minimiser over the best of the
        class, instead: twice the deviation.

    Examples
    --------
    >>> print(vc_bound(10_000, vc_dimension=3, excess=True))
    excess ranking risk over the class ≤ 0.4421, with confidence 0.95
      0.4075  expected deviation of a class of dimension 3
      + 0.0346  deviation of its supremum
      Clémençon, Lugosi, Vayatis (2005), proposition 2, (2)
    """
    _check_class(n, vc_dimension, delta)
    _check_constant(constant, optional=True)
    factor = 2 if excess else 1

    def terms(samples: float) -> dict[str, float]:
        half = max(samples // 2, 1)
        if constant is None:
            behaviours = min(
                half * math.log(2), vc_dimension * (1 + math.log(max(half / vc_dimension, 1)))
            )
            expected = 2 * math.sqrt(2 * (math.log(2) + behaviours) / half)
        else:
            expected = constant * math.sqrt(vc_dimension / samples)
        deviation = math.sqrt(math.log(1 / delta) / (samples - 1))
        name = f"expected deviation of a class of dimension {vc_dimension}"
        return {name: factor * expected, "deviation of its supremum": factor * deviation}

    rests = (
        "Items are independent draws from one distribution.",
        "The class of ranking rules has the given VC dimension.",
        *_given_constant("c", constant),
        *(["The rule minimises the empirical ranking risk over the class."] if excess else []),
    )
    needed = _smallest(lambda samples: sum(terms(samples).values()) < 1)
    what = "excess ranking risk over the class" if excess else "deviation of the ranking risk"
    source = f"Clémençon, Lugosi, Vayatis (2005), proposition 2{', (2)' if excess else ''}"
    return Bound(what, terms(n), 1 - delta, rests, n, needed, source, {"V": vc_dimension})


def bernstein_bound(
    n: int,
    *,
    variance: float,
    kind: str = "projection",
    delta: float = 0.05,
    pair_variance: float = 0.25,
) -> Bound:
    """Bound |L_n − L| for one fixed ranking rule by the variance of the projection.

    Hoeffding's decomposition is L_n − L = 2T_n + W_n. T_n is a mean of n independent terms of
    variance s² = Var(P{Z·r(X, X') < 0 | X, Y}); by Bernstein's inequality, with probability
    1 − δ/2, |2T_n| is at most the t with n·t² = ln(4/δ)·(8s² + 4t/3). W_n is degenerate with
    variance 2(σ² − 2s²)/(n(n − 1)), and Chebyshev's inequality takes the other δ/2. Reference:
    Clémençon, Lugosi, Vayatis (2005), section 2 and equation (1).

    The paper cites theorem 4.1.13 of de la Peña and Giné for (1) with σ² replaced by the variance
    of the conditional expectation, whose constants it does not give. Replaced literally (1) would
    be false: L_n has variance 4s²/n in the limit, and ⌊n/2⌋/(2s²) would stand for 2s²/n.

    Parameters
    ----------
    n : int
        Items.
    variance : float
        s² for "projection", at most `pair_variance`/2; σ² = L(1 − L) for "pairs". True values: an
        estimate such as n·std_error²/4 of `ranking_risk` makes the bound an approximation.
    kind : {"projection", "pairs"}, default "projection"
        As above; or equation (1), ⌊n/2⌋·t² = ln(2/δ)·(2σ² + 2t/3), which uses ⌊n/2⌋ pairs only.
    delta : float, default 0.05
        Chance that the bound fails.
    pair_variance : float, default 0.25
        σ² (or a bound) for the degenerate part of "projection".

    Examples
    --------
    >>> print(bernstein_bound(2000, variance=0.01))
    deviation of the ranking risk ≤ 0.0169, with confidence 0.95
      0.0132  variance of the projection
      + 0.0015  range of the projection
      + 0.0021  degenerate part
      de la Peña, Giné (1999), by Clémençon, Lugosi, Vayatis (2005), section 2
    >>> round(bernstein_bound(2000, variance=0.25, kind="pairs").value, 4)
    0.0442
    """
    check_choice("kind", kind, ("projection", "pairs"))
    _check_open("delta", delta)
    most = 0.25 if kind == "pairs" else pair_variance / 2
    if n < 2 or not 0 <= variance <= most or not 0 < pair_variance <= 0.25:
        raise ValueError(
            f"n={n!r}, variance={variance!r}, pair_variance={pair_variance!r}; give n of at least "
            "2, a pair_variance in (0, ¼], and a variance from 0 to ¼, or for the projection to "
            "half of pair_variance"
        )

    def terms(samples: float) -> dict[str, float]:
        if kind == "pairs":
            blocks, log = max(samples // 2, 1), math.log(2 / delta)
            spread, whole = _bernstein_terms(blocks, log, 2 * variance, 2 / 3)
            return {"variance of a pair": spread, "range of a pair": whole - spread}
        spread, whole = _bernstein_terms(samples, math.log(4 / delta), 8 * variance, 4 / 3)
        rest = 4 * (pair_variance - 2 * variance) / (samples * (samples - 1) * delta)
        return {
            "variance of the projection": spread,
            "range of the projection": whole - spread,
            "degenerate part": math.sqrt(rest),
        }

    rests = (
        "Items are independent draws from one distribution.",
        "The ranking rule was fixed before the data were seen.",
        "The variance is the true one, not an estimate.",
    )
    needed = _smallest(lambda samples: sum(terms(samples).values()) < 1)
    source = "Clémençon, Lugosi, Vayatis (2005), equation (1)"
    if kind == "projection":
        source = "de la Peña, Giné (1999), by Clémençon, Lugosi, Vayatis (2005), section 2"
    found = ("deviation of the ranking risk", terms(n), 1 - delta, rests, n, needed, source)
    return Bound(*found, {"variance": variance, "pair variance": pair_variance})


def fast_rate_bound(
    n: int,
    *,
    vc_dimension: int,
    alpha: float,
    constant: float,
    delta: float = 0.05,
    density: float | None = None,
) -> Bound:
    """Bound the excess risk of the empirical minimiser under a noise condition: the fast rates.

    L(r_n) − L* ≤ C·(V ln(n/δ)/n)^{1/(2−α)} with probability 1 − δ, if the class holds the optimal
    rule and Var(h_r) ≤ c·Λ(r)^α for all its rules (theorem 1; `projection_variance_bound` and
    `noise_constant` say when). With a density B of η(X), two classes and α = 1 − ε it is
    C·B/ε·(V ln(n/δ)/n)^{1/(1+ε)} (corollary 2). Reference: Clémençon, Lugosi, Vayatis (2005).

    Parameters
    ----------
    n, vc_dimension : int
        Items; dimension V of the class of rules.
    alpha : float in [0, 1]
        Exponent of the noise condition: 0 is no condition and the rate √(ln n/n), 1 the rate
        ln n/n. Below 1 for corollary 2.
    constant : float
        C. The paper proves that there is one, without a number, and calls it universal although
        it depends on c. With 1 the value shows the rate; it is a bound only for a C that holds.
    delta : float, default 0.05
        Chance that the bound fails.
    density : float of at least 1, optional
        Largest density of η(X) on [0, 1]: corollary 2 instead of theorem 1.

    Examples
    --------
    >>> print(fast_rate_bound(10_000, vc_dimension=2, alpha=1.0, constant=1.0))
    excess ranking risk, in units of C = 1 ≤ 0.0024, with confidence 0.95
      0.0024  C · (V ln(n/δ)/n)^1
      Clémençon, Lugosi, Vayatis (2005), theorem 1
    >>> fast_rate_bound(10_000, vc_dimension=2, alpha=0.0, constant=1.0).needed_samples
    11
    """
    _check_class(n, vc_dimension, delta)
    _check_constant(constant)
    if not 0 <= alpha <= 1 or (density is not None and (alpha == 1 or not density >= 1)):
        raise ValueError(
            f"alpha={alpha!r}, density={density!r}; give α in [0, 1], and with a density (at least "
            "1 on [0, 1]) α below 1"
        )
    power, factor = 1 / (2 - alpha), constant
    name, source = f"C · (V ln(n/δ)/n)^{power:.4g}", "theorem 1"
    if density is not None:
        factor *= density / (1 - alpha)
        name = f"C · B/ε · (V ln(n/δ)/n)^{power:.4g}, B = {density:g}, ε = {1 - alpha:g}"
        source = "corollary 2"

    def term(samples: float) -> float:
        return factor * (vc_dimension * math.log(samples / delta) / samples) ** power

    noise = f"For every rule of the class Var(h_r) ≤ c·Λ(r)^α with α = {alpha:g}."
    if density is not None:
        noise = f"There are two classes, and η(X) has a density of at most {density:g}."
    rests = (
        "Items are independent draws from one distribution.",
        "The class of ranking rules has the given VC dimension and holds the optimal rule.",
        "The rule minimises the empirical ranking risk over the class.",
        noise,
        *_given_constant("C", constant),
    )
    what = f"excess ranking risk, in units of C = {constant:g}"
    source = f"Clémençon, Lugosi, Vayatis (2005), {source}"
    needed = _smallest(lambda samples: term(samples) < 1)
    details = {"V": vc_dimension, "alpha": alpha, "exponent": power, "constant": constant}
    return Bound(what, {name: term(n)}, 1 - delta, rests, n, needed, source, details)


def projection_variance_bound(
    excess: float, *, c: float, alpha: float, model: str = "bipartite", constants: str = "proved"
) -> Bound:
    """Bound the variance of the projection by the excess risk, from the noise condition.

    Two classes (proposition 4): if E|η(x) − η(X')|^{−α} ≤ c for all x, Var(h_s) ≤ c·Λ(s)^α.
    Regression Y = m(X) + σ(X)·ε with normal ε and Δ = (m − m')/√(σ² + σ'²) (proposition 5): if
    E|Δ(x, X')|^{−α} ≤ c for all x, Var(h_s) ≤ (1 + c)/(2Φ(1) − 1)^α·Λ(s)^α. Always true.
    Reference: Clémençon, Lugosi, Vayatis (2005), section 5.

    Proposition 5 is printed with the factor 2Φ(c) − 1, which is false: it vanishes with the noise,
    and the variance does not (a test has an example). Its proof bounds EΦ(|Δ|^{−α}), and what the
    argument of proposition 4 needs is E(2Φ(|Δ|) − 1)^{−α}; as 2Φ(u) − 1 ≥ (2Φ(1) − 1)·min(u, 1) by
    concavity, that is at most (1 + c)/(2Φ(1) − 1)^α.

    Parameters
    ----------
    excess : float in [0, 1]
        Λ(s) = L(s) − L*.
    c, alpha : float
        Constant, positive, and exponent in [0, 1] of the noise condition; see `noise_constant`.
    model : {"bipartite", "regression"}, default "bipartite"
    constants : {"proved", "printed"}, default "proved"
        For the regression model, the factor above or that of the paper.

    Examples
    --------
    >>> projection_variance_bound(0.01, c=2.0, alpha=0.5).value
    0.2
    """
    check_choice("model", model, ("bipartite", "regression"))
    check_choice("constants", constants, ("proved", "printed"))
    if not 0 <= excess <= 1 or not 0 <= alpha <= 1 or not 0 < c < math.inf:
        raise ValueError(
            f"excess={excess!r}, c={c!r}, alpha={alpha!r}; give an excess and α in [0, 1], c > 0"
        )
    factor, name, source = c, "c · Λ^α", "proposition 4"
    if model == "regression":
        factor, name = (1 + c) / float(2 * ndtr(1.0) - 1) ** alpha, "(1 + c)/(2Φ(1) − 1)^α · Λ^α"
        source = f"proposition 5, constants {constants}"
        if constants == "printed":
            factor, name = float(2 * ndtr(c) - 1), "(2Φ(c) − 1) · Λ^α"
    between = "η(x) − η(X')" if model == "bipartite" else "Δ(x, X')"
    rests = (f"For all x, E|{between}|^−{alpha:g} ≤ {c:g}.",)
    source = f"Clémençon, Lugosi, Vayatis (2005), {source}"
    terms, details = {name: factor * excess**alpha}, {"c": c, "alpha": alpha, "excess": excess}
    return Bound("variance of the projection", terms, 1.0, rests, None, None, source, details)


def noise_constant(alpha: float, *, density: float, spread: float | None = None) -> float:
    """Return a c for which the noise condition holds, from a bounded density.

    Two classes: if η(X) has a density of at most B, E|η(x) − η(X')|^{−α} ≤ (2B)^α/(1 − α), since
    mass within 1/(2B) of η(x) is the worst there is; corollary 2 prints the larger 2B/(1 − α).
    Regression: if m(X) has a density of at most B and σ(x) ≤ S, E|Δ(x, X')|^{−α} ≤
    (2√2·S·B)^α/(1 − α), so that the condition holds for every α < 1 (corollary 3).
    Reference: Clémençon, Lugosi, Vayatis (2005), corollaries 2 and 3.

    Parameters
    ----------
    alpha : float in [0, 1)
    density : float
        Largest density B of η(X), or of m(X).
    spread : float, optional
        Largest standard deviation S of the noise: the regression model.

    Examples
    --------
    >>> noise_constant(0.5, density=2.0)
    4.0
    """
    if not 0 <= alpha < 1 or not density > 0 or (spread is not None and not spread > 0):
        raise ValueError(
            f"alpha={alpha!r}, density={density!r}, spread={spread!r}; give α in [0, 1), and a "
            "positive density and spread"
        )
    reach = 2 * density * (1 if spread is None else math.sqrt(2) * spread)
    return reach**alpha / (1 - alpha)


def psi_transform(x: ArrayLike, loss: str | PairLoss = "exponential") -> Any:
    """Return ψ(x), which carries the excess ranking risk to the excess convex risk.

    ψ(L(f) − L*) ≤ A(f) − A*, where ψ(x) = H⁻((1+x)/2) − H((1+x)/2), H(ρ) = inf_a ρφ(−a) + (1−ρ)φ(a)
    and H⁻ is the same infimum over a·(2ρ − 1) ≤ 0. The cost is φ(−m) = loss(m)/loss(0), convex, so
    that H⁻ = 1 and ψ is convex as it stands. In closed form 1 − √(1 − x²) (exponential),
    1 − H₂((1+x)/2) with the binary entropy (logistic), |x| (hinge); numerically for any other
    loss, to about 1e-12. References: Clémençon, Lugosi, Vayatis (2005), section 4; Bartlett,
    Jordan, McAuliffe (2006), theorem 3.

    Parameters
    ----------
    x : array-like of numbers in [−1, 1]
    loss : {"exponential", "logistic", "hinge", "squared_hinge"} or PairLoss

    Examples
    --------
    >>> psi_transform([0.0, 0.6, 1.0])
    array([0. , 0.2, 1. ])
    >>> round(psi_transform(0.5, "squared_hinge"), 6)
    0.25
    """
    chosen, given = pair_loss(loss), to_numbers(x, "x")
    scale = value_at_zero(chosen)
    if not (np.abs(given) <= 1).all():
        raise ValueError(f"x={x!r}; ψ is defined on [−1, 1], where differences of risks lie")
    size = np.abs(given)
    psi = chosen.psi(size)
    if psi is None:
        least = [_least_conditional_cost(chosen, (1 + one) / 2) for one in size.ravel()]
        psi = np.maximum(1 - np.reshape(least, size.shape) / scale, 0.0)
    return float(psi) if psi.ndim == 0 else psi


def psi_inverse(y: ArrayLike, loss: str | PairLoss = "exponential") -> Any:
    """Return the largest excess ranking risk that an excess convex risk allows, at most 1.

    L(f) − L* ≤ ψ⁻¹(A(f) − A*), the largest x in [0, 1] with ψ(x) ≤ y, by bisection of
    `psi_transform`; both risks are means over all ordered pairs. Reference: Clémençon, Lugosi,
    Vayatis (2005), section 4.

    Parameters
    ----------
    y : array-like of non-negative numbers
    loss : as for `psi_transform`

    Examples
    --------
    >>> round(psi_inverse(0.2), 6), psi_inverse(0.2, "hinge")
    (0.6, 0.2)
    """
    given = to_numbers(y, "y")
    if not (given >= 0).all():
        raise ValueError(f"y={y!r}; an excess risk is not negative")
    low, high = np.zeros(given.shape), np.ones(given.shape)
    low = np.where(psi_transform(high, loss) <= given, 1.0, low)
    while True:
        middle = (low + high) / 2
        if ((middle == low) | (middle == high)).all():
            return float(low) if low.ndim == 0 else low
        below = psi_transform(middle, loss) <= given
        low, high = np.where(below, middle, low), np.where(below, high, middle)


def consistent_radius(n: int, loss: str | PairLoss = "exponential", *, power: float = 0.4) -> float:
    """Return the radius B with B²·φ'(B) = n^power: a sequence that corollary 1 allows.

    Over a class F_B that is rich (inf A over F_B tends to A*) the minimiser of the convex risk is
    consistent if B → ∞ and B²φ'(B)/√n → 0; here the latter is n^{power − ½}. The cost is
    φ(−m) = loss(m)/loss(0). Reference: Clémençon, Lugosi, Vayatis (2005), corollary 1.

    Parameters
    ----------
    n : int
        Items.
    loss : {"exponential", "logistic", "hinge", "squared_hinge"} or PairLoss
    power : float in (0, ½)

    Examples
    --------
    >>> [round(consistent_radius(n), 2) for n in (100, 10_000, 1_000_000)]
    [1.31, 2.15, 3.2]
    """
    chosen = pair_loss(loss)
    scale = value_at_zero(chosen)
    if n < 1 or not 0 < power < 0.5:
        raise ValueError(f"n={n!r}, power={power!r}; give n of at least 1 and a power in (0, ½)")

    def condition(radius: float) -> float:
        return -(radius**2) * float(chosen.slope(np.array([-radius]))[0]) / scale

    low, high, target = 0.0, 1.0, float(n) ** power
    while condition(high) < target:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if condition(middle) <= target else (low, middle)
    return low


def _least_conditional_cost(loss: PairLoss, rho: float) -> float:
    """Least ρ·l(a) + (1 − ρ)·l(−a) over a ≥ 0, for ρ of at least ½; convex in a."""

    def mixed(of: Callable[[Any], Any], a: float, sign: float) -> float:
        with np.errstate(over="ignore"):
            right, wrong = (float(of(np.array([m]))[0]) for m in (a, -a))
        return rho * right + (sign * (1 - rho) * wrong if rho < 1 else 0.0)

    low, high = 0.0, 1.0
    while mixed(loss.slope, high, -1.0) < 0 and high < 2.0**20:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high and high - low > 1e-15 * high:
        falls = mixed(loss.slope, middle, -1.0) < 0
        low, high = (middle, high) if falls else (low, middle)
    return min(mixed(loss.value, a, 1.0) for a in (0.0, low, high))


def _bernstein_terms(size: float, log: float, variance: float, reach: float) -> tuple[float, float]:
    """Solve size·t² = log·(variance + reach·t): the root without a range, and the root."""
    spread, drift = math.sqrt(log * variance / size), log * reach / size
    return spread, drift / 2 + math.sqrt(drift**2 / 4 + spread**2)


def _check_class(n: int, vc_dimension: int, delta: float) -> None:
    _check_open("delta", delta)
    if n < 2 or vc_dimension < 1:
        raise ValueError(f"n={n!r}, vc_dimension={vc_dimension!r}; give at least 2 and 1")


def _check_constant(constant: float | None, *, optional: bool = False) -> None:
    if constant is None and optional:
        return
    if constant is None or not 0 < constant < math.inf:
        raise ValueError(f"constant={constant!r}; give a positive number")


def _given_constant(name: str, constant: float | None) -> tuple[str, ...]:
    if constant is None:
        return ()
    return (f"The paper's constant {name}, which it does not name, is at most {constant:g}.",)


@njit(cache=True, nogil=True)
def _count_close(positive: Floats, negative: Floats, norm: float, theta: float) -> Floats:
    """For each negative count the positives with (s_i − s_k)/norm ≤ theta; both sorted."""
    close = np.zeros(negative.size, dtype=np.float64)
    reach = 0
    for k in range(negative.size):
        while reach < positive.size and (positive[reach] - negative[k]) / norm <= theta:
            reach += 1
        close[k] = reach
    return close
