"""Margin bounds of Rudin & Schapire (2009), section 3, by covering numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from precede.bounds.base import (
    FIXED_CLASS,
    Bound,
    check_open,
    grid_sentence,
    least_bound,
    least_epsilon,
)
from precede.engine.arrays import Floats
from precede.engine.parameters import check_choice
from precede.margin import MARGIN_GRID, MarginDistribution
from precede.margin import margin_distribution as margin_distribution  # noqa: PLC0414  (re-exported)

MARGIN_KINDS = {"closed": "equation (2)", "solved": "corollary 4", "finite": "corollary 5"}
CONVEX_CLASS = (
    "Scores are convex combinations of binary rankers from a set of the given size, which was "
    "fixed before the data were seen: rankers that were made from the data, such as stumps at "
    "their quantiles or trees, do not count as one of so many."
)
IN_RANGE = "Scores lie in [0, 1], up to a constant."
ROUNDING = 1e-9  # tolerance for the range of scores, which are rounded


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
    ε = √( 4/(mE²) · [ (8 ln|H|/θ²)·ln(4mE²θ²/ln|H|) + 2 ln(2/δ) ] ). H is fixed before the data
    are seen, and the scores lie in [0, 1] up to a constant. O(n log n) for each θ.
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
        "finite" the number of ranking functions. The set must be fixed before the data are seen.
        Thresholds at quantiles or distinct values of the sample, and trees, are not: for stumps,
        bin by a grid chosen beforehand and count its thresholds. (A ranker that memorizes the
        sample would be a set of one.)
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
    check_open("delta", delta)
    _check_margin_inputs(items, share, n_rankers, kind)
    each, size = delta / len(grid), math.log(n_rankers)

    def epsilons(samples: float) -> list[float]:
        return [_margin_epsilon(samples, share, size, one, each, kind) for one in grid]

    best, needed = least_bound(fractions, epsilons, items)
    details = {"theta": grid[best], "E": share, "m": items, "n_rankers": n_rankers}
    details |= {"thetas tried": len(grid), "delta for each": each}
    details |= {"condition m": 64 * size / (share * grid[best]) ** 2} if kind == "closed" else {}
    epsilon = epsilons(items)[best]
    what = "functions" if kind == "finite" else "rankers, convexly combined"
    what += " (m·θ² < 64 ln|H|/E²: no bound)" if math.isinf(epsilon) else ""
    empirical = f"share of crucial pairs with margin ≤ {grid[best]:.4g}"
    terms = {empirical: float(fractions[best]), f"complexity of {n_rankers} {what}": epsilon}
    assumptions = _margin_assumptions(kind, len(grid), E is None)
    return Bound(
        "misranking probability", terms, 1 - delta, assumptions, int(items), needed,
        f"Rudin, Schapire (2009), {MARGIN_KINDS[kind]}", details,
    )  # fmt: skip


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
    check_open("delta", delta)
    _check_margin_inputs(items, share, 1, "solved")
    cover = log_covering if callable(log_covering) else lambda theta, epsilon: float(log_covering)  # noqa: ARG005
    each = delta / len(grid)

    def epsilons(samples: float) -> list[float]:
        return [_covering_epsilon(samples, share, cover, one, each) for one in grid]

    best, needed = least_bound(fractions, epsilons, items)
    epsilon = epsilons(items)[best]
    size = _log_cover(cover, grid[best] / 4, epsilon / 8)
    details = {"theta": grid[best], "E": share, "m": items, "ln covering number": size}
    details |= {"thetas tried": len(grid), "delta for each": each}
    empirical = f"share of crucial pairs with margin ≤ {grid[best]:.4g}"
    terms = {empirical: float(fractions[best]), f"covering number, ln N = {size:.4g}": epsilon}
    assumptions = (
        *_margin_assumptions("finite", len(grid), E is None),
        "The covering number given is that of the class, or an upper bound on it.",
    )
    return Bound(
        "misranking probability", terms, 1 - delta, assumptions, int(items), needed,
        "Rudin, Schapire (2009), theorem 2", details,
    )  # fmt: skip


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
    samples: float, share: float, cover: Callable[[float, float], float], theta: float, delta: float
) -> float:
    """Return the least ε at which theorem 2 fails with probability at most delta."""

    def log_failure(epsilon: float) -> float:
        size = _log_cover(cover, theta / 4, epsilon / 8)
        return math.log(2) + size - samples * (epsilon * share) ** 2 / 8

    return least_epsilon(log_failure, math.log(delta))


def _margin_grid(
    margins: MarginDistribution | float, theta: float | Sequence[float] | None
) -> tuple[float, ...]:
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
    margins: MarginDistribution | float, grid: tuple[float, ...], m: int | None, E: float | None
) -> tuple[Floats, int, float]:
    """Return shares of small margins, number of items and share of crucial pairs."""
    if not isinstance(margins, MarginDistribution):
        if m is None or E is None:
            raise ValueError("a bare fraction needs m and E; give both, or a MarginDistribution")
        return np.array([float(margins)]), m, E
    if margins.span > 1 + ROUNDING:
        raise ValueError(
            f"scores divided by norm={margins.norm:g} span {margins.span:.4g}, and the bound is "
            "for scores in [0, 1]; give the sum of absolute weights times the range of the rankers "
            "as norm"
        )
    items = margins.n_items if m is None else m
    return margins.at(grid), items, margins.crucial_share if E is None else E


def _check_margin_inputs(items: float, share: float, n_rankers: int, kind: str) -> None:
    check_choice("kind", kind, tuple(MARGIN_KINDS))
    if items < 2 or not 0 < share <= 0.5 or n_rankers < 1:
        given = f"m={items!r}, E={share!r}, n_rankers={n_rankers!r}"
        raise ValueError(f"{given}; give m of at least 2, E in (0, ½], and at least one ranker")


def _margin_epsilon(
    samples: float, share: float, size: float, theta: float, delta: float, kind: str
) -> float:
    """Return the complexity term for the logarithm `size` of the class size; it may be infinite."""
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

    return _covering_epsilon(samples, share, cover, theta, delta)


def _margin_assumptions(kind: str, tried: int, observed: bool) -> tuple[str, ...]:
    share = "The share of crucial pairs observed stands for the expected one."
    return (
        "Items are independent draws from one distribution, and which pairs are crucial is "
        "determined by the items; with queries, the query is part of the item.",
        *((FIXED_CLASS, IN_RANGE) if kind == "finite" else (CONVEX_CLASS,)),
        *([share] if observed else []),
        grid_sentence(tried),
    )
