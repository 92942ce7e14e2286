"""Bounds of Clémençon, Lugosi & Vayatis (2005) on ranking risk, convex risk and their excess."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from precede.bounds.base import (
    Bound,
    check_open,
    needed_size,
)
from precede.engine.arrays import Floats, RandomState, VectorLike
from precede.engine.parameters import check_choice
from precede.engine.table import Table
from precede.judgments import to_numbers
from precede.losses import PairLoss, pair_loss, value_at_zero
from precede.weak_rankers.stumps import Stumps


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
    expectation by symmetrization, Sauer's lemma and Massart's, for √(ln n) more. Reference:
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
        Bound L(r_n) − inf L(r), the excess risk of the empirical minimizer over the best of the
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
    if constant is not None:
        _check_constant(constant)
    factor = 2 if excess else 1

    def terms(samples: float) -> dict[str, float]:
        half = max(samples // 2, 1)
        if constant is None:
            behaviors = min(
                half * math.log(2), vc_dimension * (1 + math.log(max(half / vc_dimension, 1)))
            )
            expected = 2 * math.sqrt(2 * (math.log(2) + behaviors) / half)
        else:
            expected = constant * math.sqrt(vc_dimension / samples)
        deviation = math.sqrt(math.log(1 / delta) / (samples - 1))
        name = f"expected deviation of a class of dimension {vc_dimension}"
        return {name: factor * expected, "deviation of its supremum": factor * deviation}

    assumptions = (
        "Items are independent draws from one distribution.",
        "The class of ranking rules has the given VC dimension.",
        *_given_constant("c", constant),
        *(["The rule minimizes the empirical ranking risk over the class."] if excess else []),
    )
    needed = needed_size(lambda samples: sum(terms(samples).values()) < 1)
    what = "excess ranking risk over the class" if excess else "deviation of the ranking risk"
    source = f"Clémençon, Lugosi, Vayatis (2005), proposition 2{', (2)' if excess else ''}"
    return Bound(what, terms(n), 1 - delta, assumptions, n, needed, source, {"V": vc_dimension})


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
    check_open("delta", delta)
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

    assumptions = (
        "Items are independent draws from one distribution.",
        "The ranking rule was fixed before the data were seen.",
        "The variance is the true one, not an estimate.",
    )
    needed = needed_size(lambda samples: sum(terms(samples).values()) < 1)
    source = "Clémençon, Lugosi, Vayatis (2005), equation (1)"
    if kind == "projection":
        source = "de la Peña, Giné (1999), by Clémençon, Lugosi, Vayatis (2005), section 2"
    details = {"variance": variance, "pair variance": pair_variance}
    what = "deviation of the ranking risk"
    return Bound(what, terms(n), 1 - delta, assumptions, n, needed, source, details)


def fast_rate_bound(
    n: int,
    *,
    vc_dimension: int,
    alpha: float,
    constant: float,
    delta: float = 0.05,
    density: float | None = None,
) -> Bound:
    """Bound the excess risk of the empirical minimizer under a noise condition: the fast rates.

    L(r_n) − L* ≤ C·(V ln(n/δ)/n)^{1/(2−α)} with probability 1 − δ, if the class holds the optimal
    rule and Var(h_r) ≤ c·Λ(r)^α for all its rules (theorem 1; `projection_variance_bound` and
    `noise_constant` give conditions). With a density B of η(X), two classes and α = 1 − ε it is
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
    assumptions = (
        "Items are independent draws from one distribution.",
        "The class of ranking rules has the given VC dimension and holds the optimal rule.",
        "The rule minimizes the empirical ranking risk over the class.",
        noise,
        *_given_constant("C", constant),
    )
    what = f"excess ranking risk, in units of C = {constant:g}"
    source = f"Clémençon, Lugosi, Vayatis (2005), {source}"
    needed = needed_size(lambda samples: term(samples) < 1)
    details = {"V": vc_dimension, "alpha": alpha, "exponent": power, "constant": constant}
    return Bound(what, {name: term(n)}, 1 - delta, assumptions, n, needed, source, details)


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
    assumptions = (f"For all x, E|{between}|^−{alpha:g} ≤ {c:g}.",)
    source = f"Clémençon, Lugosi, Vayatis (2005), {source}"
    terms, details = {name: factor * excess**alpha}, {"c": c, "alpha": alpha, "excess": excess}
    return Bound("variance of the projection", terms, 1.0, assumptions, None, None, source, details)


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


def psi_transform(x: ArrayLike, loss: str | PairLoss = "exponential") -> VectorLike:
    """Return ψ(x), which carries the excess ranking risk to the excess convex risk.

    ψ(L(f) − L*) ≤ A(f) − A*, where ψ(x) = H⁻((1+x)/2) − H((1+x)/2), H(ρ) = inf_a ρφ(−a) + (1−ρ)φ(a)
    and H⁻ is the same infimum over a·(2ρ − 1) ≤ 0. The cost is φ(−m) = loss(m)/loss(0), convex, so
    that H⁻ = 1 and ψ is already convex. In closed form 1 − √(1 − x²) (exponential),
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


def psi_inverse(y: ArrayLike, loss: str | PairLoss = "exponential") -> VectorLike:
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

    Over a class F_B that is rich (inf A over F_B tends to A*) the minimizer of the convex risk is
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
    """Return the least ρ·l(a) + (1 − ρ)·l(−a) over a ≥ 0, for ρ of at least ½; convex in a."""

    def mixed(of: Callable[[Floats], Floats], a: float, sign: float) -> float:
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
    check_open("delta", delta)
    if n < 2 or vc_dimension < 1:
        raise ValueError(f"n={n!r}, vc_dimension={vc_dimension!r}; give at least 2 and 1")


def _check_constant(constant: float | None) -> None:
    if constant is None or not 0 < constant < math.inf:
        raise ValueError(f"constant={constant!r}; give a positive number")


def _given_constant(name: str, constant: float | None) -> tuple[str, ...]:
    if constant is None:
        return ()
    return (f"The paper's constant {name}, which it does not name, is at most {constant:g}.",)


# -- the bound by Rademacher averages (Clémençon, Lugosi & Vayatis 2005, proposition 3) ----------


COSTS = ("exponential", "logistic", "hinge")
LARGEST_RADIUS = 700  # e^x is finite up to 709


def rademacher_bound(
    X: ArrayLike,
    *,
    radius: float,
    cost: str = "exponential",
    delta: float = 0.05,
    constants: str = "proved",
    n_draws: int = 200,
    random_state: RandomState = None,
) -> Bound:
    """Bound the excess convex risk of the minimizer over combinations of stumps.

    A(f_n) − inf A ≤ 4φ'(B)·R_n + (φ(B) − φ(−B))·√(8 ln(1/δ)/n) for f = Σ w_j (h_j(x) − h_j(x'))
    with Σ|w_j| ≤ B; R_n = B·E sup_h |Σ_{i ≤ n/2} σ_i (h(X_i) − h(X_{n/2+i}))| / ⌊n/2⌋ is the
    Rademacher average, estimated with random signs by `precede.Stumps`: the supremum is
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
        Number of vectors of random signs, and their seed.

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
    check_choice("cost", cost, COSTS)
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
        return _excess_terms(
            average * math.sqrt(size / samples), radius, cost, constants,
            samples=samples, delta=delta, n_draws=n_draws,
        )  # fmt: skip

    assumptions = (
        "Items are independent draws from one distribution.",
        "The model minimizes the empirical convex risk over combinations of stumps whose "
        "absolute weights sum to at most the radius.",
        "The thresholds, at most 254 a feature, count as fixed before the data were seen, unless "
        "the feature has at most 255 distinct values.",
        "At other sample sizes the Rademacher average shrinks as one over their square root.",
        *(["The estimated Rademacher average is exact."] if constants == "printed" else []),
    )
    needed = needed_size(lambda samples: sum(terms(samples).values()) < 1)
    source = f"Clémençon, Lugosi, Vayatis (2005), proposition 3, constants {constants}"
    details = {"rademacher average": average, "radius": radius, "n_draws": n_draws}
    what = f"excess convex risk ({cost})"
    return Bound(what, terms(size), 1 - delta, assumptions, size, needed, source, details)


def stump_supremum(X: ArrayLike, signs: ArrayLike) -> VectorLike:
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
        # The search needs sums within [−1, 1]; scaling by a power of two is exact.
        scale = 2.0 ** math.ceil(math.log2(max(float(np.abs(row).sum()), 1e-300)))
        found = search.best(row / scale)
        best[draw] = max(best[draw], abs(found.edge) * scale if found else 0.0)
    return float(best[0]) if np.ndim(signs) == 1 else best


def _excess_terms(
    average: float, radius: float, cost: str, constants: str, *, samples: float, delta: float,
    n_draws: int,
) -> dict[str, float]:  # fmt: skip
    """Return the terms of `rademacher_bound`, given the Rademacher average at this sample size."""
    loss = pair_loss(cost)
    scale = value_at_zero(loss)
    slope = -float(loss.slope(np.array([-radius]))[0]) / scale  # φ(−m) = loss(m)/loss(0)
    rise = float(np.ptp(loss.value(np.array([-radius, radius])))) / scale
    if constants == "printed":
        deviation = math.sqrt(2 * radius**2 * math.log(1 / delta) / (2 * max(samples - 1, 1)))
        name = "8 · radius · slope of the cost · estimated Rademacher average"
        return {name: 8 * radius * slope * average, "deviation": deviation}
    log, half = math.log(2 / delta), max(samples // 2, 1)
    # McDiarmid: an item moves the average by B/⌊n/2⌋, one sign of one draw by 2B/(⌊n/2⌋·draws).
    error = radius * math.sqrt((1 + 2 / n_draws) * log / half)
    return {
        "4 · slope of the cost · estimated Rademacher average": 4 * slope * average,
        "estimating the Rademacher average": 4 * slope * error,
        "deviation": rise * math.sqrt(8 * log / samples),
    }
