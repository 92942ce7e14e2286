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

from precede.inference import check_choice, read_sample
from precede.margin import MARGIN_GRID, MarginDistribution
from precede.margin import margin_distribution as margin_distribution  # noqa: PLC0414  (lives on here)
from precede.metrics import finite_column, to_numbers
from precede.stumps import Stumps
from precede.table import Table

__all__ = [
    "Bound",
    "PushRisk",
    "margin_bound",
    "negatives_needed",
    "push_bound",
    "push_risk",
    "rademacher_bound",
    "stump_supremum",
    "training_bound",
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
    `assumptions`. `needed_samples` is the least sample size at which it would be below 1, other
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

    @property
    def value(self) -> float:
        """The bound: the sum of its terms."""
        return float(sum(self.terms.values()))

    @property
    def vacuous(self) -> bool:
        """True if the bound says nothing: its value is at least 1."""
        return not self.value < 1

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
        plain = {each.name: _plain(getattr(self, each.name)) for each in fields(self)}
        return {**plain, "value": _plain(self.value), "vacuous": self.vacuous}


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
    known = isinstance(margins, MarginDistribution)
    if not known and (m is None or E is None):
        raise ValueError("a bare fraction needs m and E; give both, or a MarginDistribution")
    items = m if m is not None else margins.n_items  # type: ignore[union-attr]
    share = E if E is not None else margins.crucial_share  # type: ignore[union-attr]
    _check_open("delta", delta)
    _check_margin_inputs(items, share, n_rankers, kind)
    fractions = np.atleast_1d(margins.at(grid)) if known else [float(margins)]  # type: ignore
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
    O(n log n). Reference: Rudin, Ranking with a P-norm push (2006), section 3.

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
    (2006), theorem 2 and section 6.

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
      Rudin (2006), theorem 2
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
    quantity, source = f"{risk.p:g}-norm push objective", "Rudin (2006), theorem 2"
    return Bound(quantity, terms, 1 - delta, rests, size, needed, source, details)


def negatives_needed(p: float, epsilon: float) -> float:
    """Return how many times more negatives the power p needs than p = 1, at accuracy ε.

    (4/ε)^{2(p−1)}, as negatives enter theorem 2 through (ε/4)^{2p}·K only; infinite beyond the
    range of floating point. Reference: Rudin, P-norm push (2006), after theorem 2.

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
    rounds, plus = finite_column(values, "values"), kind == "rankboost_plus"
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
    over stumps at the cut points of `precede.table.Bins`, at most 254 a feature, and hence over
    all stumps where a feature has at most 255 distinct values. O(n_draws·n·d). Reference:
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
    `precede.table.Bins`. These are at most 254 a feature, so this is a supremum over binned
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

    def log_failure(epsilon: float) -> float:
        cover = 8 * size / theta**2 * max(math.log(16 / epsilon), 0.0)
        return math.log(2) + cover - samples * (epsilon * share) ** 2 / 8

    return _solve(log_failure, math.log(delta))


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
    """Return the place of the least sum at this size, and the size from which one is below 1."""
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
    labels = finite_column(y, "y")
    return labels, finite_column(scores, "scores", len(labels))


def _check_open(name: str, given: float) -> None:
    if not 0 < given < 1:
        raise ValueError(f"{name}={given!r}; give a number strictly between 0 and 1, such as 0.05")


def _count(number: int) -> str:
    return f"{number:,}" if number < 10**12 else f"{float(number):.2e}"


def _plain(thing: Any) -> Any:
    if isinstance(thing, dict):
        return {name: _plain(number) for name, number in thing.items()}
    thing = list(thing) if isinstance(thing, tuple) else thing
    return "inf" if isinstance(thing, float) and math.isinf(thing) else thing


@njit(cache=True, nogil=True)
def _count_close(positive, negative, norm, theta):
    """For each negative count the positives with (s_i − s_k)/norm ≤ theta; both sorted."""
    close = np.zeros(negative.size, dtype=np.float64)
    reach = 0
    for k in range(negative.size):
        while reach < positive.size and (positive[reach] - negative[k]) / norm <= theta:
            reach += 1
        close[k] = reach
    return close
