"""Hypothesis strategies: judgments, scores and tables, with all that makes them awkward."""

import math

import numpy as np
from hypothesis import strategies as st

import naive
from precede import Exponential, Hinge, Judgments, Logistic, PairLoss, Price, SquaredHinge
from precede.losses import Polynomial, Separable, Smooth, Spline

# -- losses and prices, each with its twin in decimals -----------------------------------------


class Hyperbolic(PairLoss):
    """l(m) = sqrt(1 + m²) - m, written so that nothing cancels; no form."""

    name = ""

    def value(self, margin):
        root = np.sqrt(1 + margin**2)
        return np.where(margin > 0, 1 / (root + np.abs(margin)), root - margin)

    def slope(self, margin):
        root = np.sqrt(1 + margin**2)
        return np.where(margin > 0, -1 / (root * (root + np.abs(margin))), margin / root - 1)

    def curvature(self, margin):
        return (1 + margin**2) ** -1.5


class SmoothHyperbolic(Hyperbolic):
    """The same with a form: its singularities are at distance 1, so cells are narrow."""

    form = Smooth(width=0.25, nodes=14)


class Steep(PairLoss):
    """l(m) = exp(-2 m): separable with a rate of its own."""

    form = Separable(2.0)

    def value(self, margin):
        return np.exp(-2 * margin)

    def slope(self, margin):
        return -2 * np.exp(-2 * margin)

    def curvature(self, margin):
        return 4 * np.exp(-2 * margin)


class Cubic(PairLoss):
    """l(m) = (1/2 - m)_+³: a polynomial of another degree and knot."""

    form = Polynomial(knot=0.5, degree=3)

    def value(self, margin):
        return np.maximum(0.5 - margin, 0) ** 3

    def slope(self, margin):
        return -3 * np.maximum(0.5 - margin, 0) ** 2

    def curvature(self, margin):
        return 6 * np.maximum(0.5 - margin, 0)


class Bent(PairLoss):
    """l(m) = (1 - m)_+ + 2 (-m)_+²: two powers with two knots."""

    form = Spline(((1.0, 1.0, 1), (2.0, 0.0, 2)))

    def value(self, margin):
        return np.maximum(1 - margin, 0) + 2 * np.maximum(-margin, 0) ** 2

    def slope(self, margin):
        return np.where(margin < 1, -1.0, 0.0) - 4 * np.maximum(-margin, 0)

    def curvature(self, margin):
        return np.where(margin < 0, 4.0, 0.0)


class PlainExponential(PairLoss):
    """exp(-m) that does not say that it is separable."""

    def value(self, margin):
        return np.exp(-margin)

    def slope(self, margin):
        return -np.exp(-margin)

    def curvature(self, margin):
        return np.exp(-margin)


class Quadratic(Price):
    """g(u) = u + u²."""

    def value(self, loss_sum):
        return loss_sum + loss_sum**2

    def slope(self, loss_sum):
        return 1 + 2 * loss_sum

    def curvature(self, loss_sum):
        return np.full_like(loss_sum, 2.0)


HALF = naive.Decimal("0.5")
ZERO = naive.Decimal(0)

BENT = tuple(
    lambda m, one=one, other=other: one(m) + 2 * other(m)
    for one, other in zip(naive.hinge(1), naive.hinge(2, ZERO), strict=True)
)

# name: (loss, its twin, whether the margin asked for is the gap of the grades)
LOSSES = {
    "exponential": (Exponential(), naive.exponential(), False),
    "exponential without a form": (PlainExponential(), naive.exponential(), False),
    "separable with rate 2": (Steep(), naive.exponential(2), False),
    "logistic": (Logistic(), naive.LOGISTIC, False),
    "hinge": (Hinge(), naive.hinge(1), False),
    "hinge with margin 0": (Hinge(0.0), naive.hinge(1, ZERO), False),
    "hinge with gaps": (Hinge("gap"), naive.hinge(1, ZERO), True),
    "squared hinge": (SquaredHinge(), naive.hinge(2), False),
    "squared hinge with gaps": (SquaredHinge("gap"), naive.hinge(2, ZERO), True),
    "cubic hinge": (Cubic(), naive.hinge(3, HALF), False),
    "spline": (Bent(), BENT, False),
    "hyperbolic without a form": (Hyperbolic(), naive.HYPERBOLIC, False),
    "hyperbolic, smooth": (SmoothHyperbolic(), naive.HYPERBOLIC, False),
}

PRICES = {
    "1": (1, naive.power_price(1)),
    "2": (2, naive.power_price(2)),
    "4": (4, naive.power_price(4)),
    "16": (16, naive.power_price(16)),
    "64": (64, naive.power_price(64)),
    "exp": ("exp", naive.EXP_PRICE),
    "custom": (Quadratic(), naive.QUADRATIC_PRICE),
}

# -- judgments -------------------------------------------------------------------------------

KINDS = ("graded", "bipartite", "pairs", "mixed")

grades = st.one_of(
    st.integers(0, 4).map(float),
    st.integers(0, 1).map(float),
    st.sampled_from([-2.5, -1.0, 0.0, 0.25, 7.0]),
)
weights = st.sampled_from([0.0, 0.5, 1.0, 1.0, 1.0, 2.0, 3.75, 1e-3])


@st.composite
def query_ids(draw, n):
    """Identifiers of one, some or many queries, of one type or several, in any order."""
    most = draw(st.sampled_from([1, 2, 3, n]))
    number = draw(st.lists(st.integers(0, max(most - 1, 0)), min_size=n, max_size=n))
    kind = draw(st.sampled_from(["int", "str", "negative", "mixed", "float"]))
    if kind == "int":
        return np.array(number) * 7
    if kind == "negative":
        return np.array(number) - 1000
    if kind == "str":
        return np.array([f"query {q}" for q in number])
    if kind == "float":
        return np.array(number) + 0.5
    return np.array([str(q) if q % 2 else q for q in number], object)


@st.composite
def listed_pairs(draw, n):
    """A few pairs of rows, repeated and contradicting ones included."""
    pair = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda p: p[0] != p[1])
    return np.array(draw(st.lists(pair, min_size=1, max_size=12)))


@st.composite
def weighted_pairs(draw, n, name, weight):
    """Listed pairs under a name, with or without weights under another."""
    pairs = draw(listed_pairs(n))
    if not draw(st.booleans()):
        return {name: pairs}
    return {name: pairs, weight: draw(st.lists(weights, min_size=len(pairs), max_size=len(pairs)))}


@st.composite
def judgments(draw, kind=None, most=12, weighted=None, with_pair=True, tied=None, margins=False):
    """Judgments of 2 to `most` rows; with at least one pair of positive weight if asked.

    `tied` says whether listed pairs come with ties; None leaves it to chance.
    With `margins` listed pairs may have margins of their own.
    """
    kind = kind or draw(st.sampled_from(KINDS))
    n = draw(st.integers(2, most))
    fields = {"n": n}
    if kind == "bipartite":
        fields["grade"] = draw(st.lists(st.sampled_from([0.0, 1.0]), min_size=n, max_size=n))
        fields["grade"][:2] = [1.0, 0.0]
    elif kind != "pairs":
        level = st.one_of(grades, grades, st.just(math.nan)) if draw(st.booleans()) else grades
        fields["grade"] = draw(st.lists(level, min_size=n, max_size=n))
    if kind != "bipartite" and draw(st.booleans()):
        fields["qid"] = draw(query_ids(n))
    if kind in ("pairs", "mixed"):
        fields |= draw(weighted_pairs(n, "pairs", "pair_weight"))
        if margins and draw(st.booleans()):
            count, asked = len(fields["pairs"]), st.sampled_from([0.0, 0.25, 1.0, 3.0])
            fields["pair_margin"] = draw(st.lists(asked, min_size=count, max_size=count))
        if draw(st.booleans()) if tied is None else tied:
            fields |= draw(weighted_pairs(n, "ties", "tie_weight"))
    if draw(st.booleans()) if weighted is None else weighted:
        fields["weight"] = draw(st.lists(weights, min_size=n, max_size=n))
    made = Judgments(**fields)
    if with_pair and not naive.list_pairs(naive.without_ties(made)):
        fields |= {"weight": None, "pair_weight": None, "qid": None}
        if kind != "pairs":
            fields["grade"][:2] = [1.0, 0.0]
        made = Judgments(**fields)
    return made


# -- scores ----------------------------------------------------------------------------------
#
# Multiples of powers of two: differences are exact, so that a pair on the kink of a hinge is
# on the kink for the library and for the twin alike.


@st.composite
def scores(draw, n, spread=8.0):
    """One score a row: tied, spread or far apart."""
    kind = draw(st.sampled_from(["tied", "spread", "equal", "clusters"]))
    if kind == "equal":
        return np.full(n, draw(st.integers(-4, 4)) / 4)
    if kind == "tied":
        return np.array(draw(st.lists(st.integers(-2, 2), min_size=n, max_size=n))) * (spread / 8)
    if kind == "clusters":
        ends = st.sampled_from([-spread, -spread + 2**-10, spread, spread - 2**-10])
        return np.array(draw(st.lists(ends, min_size=n, max_size=n)))
    step = spread / 1024
    return np.array(draw(st.lists(st.integers(-1024, 1024), min_size=n, max_size=n))) * step


# -- tables ----------------------------------------------------------------------------------

COLUMNS = ("ties", "floats", "integers", "constant", "missing", "some missing", "binary")


@st.composite
def columns(draw, n):
    kind = draw(st.sampled_from(COLUMNS))
    if kind == "constant":
        return [draw(st.sampled_from([0.0, 3.5, -1e30]))] * n
    if kind == "missing":
        return [math.nan] * n
    values = {
        "ties": st.sampled_from([0.0, 0.5, 1.0]),
        "floats": st.floats(-1e6, 1e6, allow_nan=False).map(lambda x: float(np.float32(x))),
        "integers": st.integers(-20, 20).map(float),
        "some missing": st.sampled_from([0.0, 1.0, 2.0, 5.0, math.nan, math.nan]),
        "binary": st.sampled_from([0.0, 1.0]),
    }[kind]
    return draw(st.lists(values, min_size=n, max_size=n))


@st.composite
def tables(draw, n, most=4, dtype=None):
    """A table of n rows with awkward columns, float64 or float32, C or Fortran order."""
    count = draw(st.integers(1, most))
    X = np.array([draw(columns(n)) for _ in range(count)]).T
    if n > 3 and draw(st.booleans()):  # rows that stumps cannot tell apart
        X[n // 2] = X[0]
    dtype = dtype or draw(st.sampled_from([np.float64, np.float64, np.float32]))
    order = draw(st.sampled_from("CF"))
    return np.asarray(X, dtype=dtype, order=order)


@st.composite
def problems(draw, kind=None, most=10, weighted=None, tied=None):
    """A table and judgments of the same rows."""
    made = draw(judgments(kind=kind, most=most, weighted=weighted, tied=tied))
    return draw(tables(len(made))), made


@st.composite
def pulls(draw, n):
    """Numbers that sum to 0 and whose positive part sums to 1, as pulls do."""
    raw = np.array(draw(st.lists(st.integers(-50, 50), min_size=n, max_size=n)), float)
    raw -= raw.mean()
    total = raw[raw > 0].sum()
    return raw / total if total > 0 else raw


GRID = st.integers(-4, 4).map(lambda k: k / 2) | st.floats(-12, 12)


@st.composite
def judged(draw, grades=4, queries=True):
    """Grades, scores of which some are equal, and queries or None."""
    n = draw(st.integers(2, 16))
    score = st.integers(-3, 3).map(float) | st.floats(-10, 10)
    y = draw(st.lists(st.integers(0, grades - 1), min_size=n, max_size=n))
    s = draw(st.lists(score, min_size=n, max_size=n))
    qid = draw(st.none() | st.lists(st.integers(0, 2), min_size=n, max_size=n)) if queries else None
    return y, s, qid
