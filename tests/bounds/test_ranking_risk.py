"""Bounds of Clémençon, Lugosi & Vayatis (2005): formulas, simulations, and what is misprinted."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import ndtr

import naive_evaluation as naive
from precede import Exponential, Hinge, Logistic, PairLoss, SquaredHinge
from precede.bounds import (
    bernstein_bound,
    consistent_radius,
    fast_rate_bound,
    noise_constant,
    projection_variance_bound,
    psi_inverse,
    psi_transform,
    rademacher_bound,
    stump_supremum,
    vc_bound,
)
from precede.datasets import bayes_ranking_risk, excess_ranking_risk
from precede.engine.table import Table
from precede.losses import SmoothedHinge
from precede.weak_rankers.stumps import Stumps

# -- proposition 2 ---------------------------------------------------------------------------


def test_vc_bound_is_proposition_two():
    """P{sup > c√(V/n) + t} = exp(−(n − 1)t²), solved for t."""
    bound = vc_bound(500, vc_dimension=7, delta=0.01, constant=3.0)
    t = math.sqrt(math.log(100) / 499)
    assert list(bound.terms.values()) == pytest.approx([3 * math.sqrt(7 / 500), t])
    assert math.exp(-499 * t**2) == pytest.approx(0.01)
    assert bound.confidence == 0.99
    assert any("constant c" in sentence for sentence in bound.assumptions)
    assert vc_bound(500, vc_dimension=7, constant=3.0, excess=True).value == pytest.approx(
        2 * vc_bound(500, vc_dimension=7, constant=3.0).value
    )


@pytest.mark.parametrize("constant", [None, 2.0])
def test_vc_bound_says_from_which_size_it_speaks(constant):
    def at(n):
        return vc_bound(n, vc_dimension=5, constant=constant, excess=True)

    needed = at(10).needed_samples
    assert at(10).vacuous
    assert at(needed - 1).vacuous
    assert not at(needed).vacuous


def test_the_supremum_stays_within_the_vc_bound():
    """Scores −|x − t| for all t: dimension 1. sup |L_n − L| by simulation, L by a fine grid."""
    rng, n, cuts = np.random.default_rng(0), 60, np.linspace(0, 1, 41)

    def risks(x, wins):
        score = -np.abs(x[:, None] - cuts)
        wrong = np.sign(score[:, None, :] - score[None, :, :]) * np.sign(wins)[:, :, None]
        return (0.5 - 0.5 * wrong)[wins != 0].sum(axis=0) / (len(x) * (len(x) - 1))

    grid = (np.arange(400) + 0.5) / 400
    eta = 1 - np.abs(2 * grid - 1)
    right = eta[:, None] * (1 - eta)
    order = np.sign(-np.abs(grid[:, None] - cuts)[:, None] + np.abs(grid[:, None] - cuts)[None])
    truth = right[:, :, None] * (0.5 - 0.5 * order) + right.T[:, :, None] * (0.5 + 0.5 * order)
    truth = truth.mean(axis=(0, 1))
    worst = []
    for _ in range(60):
        x = rng.random(n)
        y = (rng.random(n) < 1 - np.abs(2 * x - 1)).astype(int)
        worst.append(np.abs(risks(x, y[:, None] - y) - truth).max())
    bound = vc_bound(n, vc_dimension=1, delta=0.05).value
    assert np.mean(np.array(worst) > bound) <= 0.05
    # and the printed form holds with a modest constant
    assert np.mean(np.array(worst) > vc_bound(n, vc_dimension=1, constant=1.0).value) <= 0.05


# -- Bernstein -------------------------------------------------------------------------------


def test_bernstein_bounds_solve_their_inequalities():
    t = bernstein_bound(301, variance=0.2, kind="pairs", delta=0.1).value
    assert 2 * math.exp(-150 * t**2 / (2 * 0.2 + 2 * t / 3)) == pytest.approx(0.1)
    bound = bernstein_bound(301, variance=0.03, delta=0.1, pair_variance=0.16)
    spread, reach, rest = bound.terms.values()
    t = spread + reach
    assert 2 * math.exp(-301 * (t / 2) ** 2 / (2 * 0.03 + 2 * (t / 2) / 3)) == pytest.approx(0.05)
    assert spread == pytest.approx(2 * math.sqrt(2 * 0.03 * math.log(40) / 301))
    assert 2 * (0.16 - 0.06) / (301 * 300) / rest**2 == pytest.approx(0.05)


def test_the_variance_of_the_projection_gives_the_smaller_bound():
    """A rule with risk 0.2 whose errors hardly depend on the item."""
    by_pairs = bernstein_bound(20_000, variance=0.16, kind="pairs").value
    by_items = bernstein_bound(20_000, variance=0.002, pair_variance=0.16).value
    assert by_items < by_pairs / 3


def test_bernstein_with_the_projection_holds_by_simulation():
    """y = x + noise, scores x: L, s² and σ² from a large sample; failures at most δ."""
    rng = np.random.default_rng(0)

    def kernel(n):
        x = rng.random(n)
        y = x + 0.5 * rng.standard_normal(n)
        return (np.sign(x[:, None] - x) * np.sign(y[:, None] - y) < 0).astype(float)

    big = kernel(3000)
    truth = big.sum() / (3000 * 2999)
    s2 = (big.sum(axis=1) / 2999).var()
    bound = bernstein_bound(80, variance=s2, pair_variance=truth * (1 - truth), delta=0.2).value
    off = [abs(kernel(80).sum() / (80 * 79) - truth) for _ in range(300)]
    assert np.mean(np.array(off) > bound) <= 0.2
    assert bound < 12 * np.std(off)


def test_equation_one_with_the_variance_literally_replaced_is_false():
    """√n(L_n − L) is normal with variance 4s² in the limit; at 3 deviations (1) would not hold."""
    z = 3.0  # t = 2sz/√n, so that ⌊n/2⌋t²/(2s² + 2t/3) tends to z²
    assert 2 * ndtr(-z) > 2 * math.exp(-(z**2))
    assert 2 * ndtr(-z) < 2 * math.exp(-(z**2) / 2)  # with 8s², as here


# -- fast rates ------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_fast_rate_is_theorem_one(alpha):
    bound = fast_rate_bound(5000, vc_dimension=4, alpha=alpha, constant=2.5, delta=0.1)
    expected = 2.5 * (4 * math.log(5000 / 0.1) / 5000) ** (1 / (2 - alpha))
    assert bound.value == pytest.approx(expected)
    assert bound.details["exponent"] == 1 / (2 - alpha)
    assert any("constant C" in sentence for sentence in bound.assumptions)
    assert any("holds the optimal rule" in sentence for sentence in bound.assumptions)


def test_corollary_two_has_its_factor():
    bound = fast_rate_bound(5000, vc_dimension=1, alpha=0.9, constant=1.0, density=3.0)
    expected = 3.0 / 0.1 * (math.log(5000 / 0.05) / 5000) ** (1 / 1.1)
    assert bound.value == pytest.approx(expected)
    assert bound.source.endswith("corollary 2")


def test_fast_rate_says_from_which_size_it_speaks():
    def at(n):
        return fast_rate_bound(n, vc_dimension=50, alpha=0.3, constant=4.0)

    needed = at(20).needed_samples
    assert at(20).vacuous
    assert at(needed - 1).vacuous
    assert not at(needed).vacuous


def uniform_grid(size=1500):
    return (np.arange(size) + 0.5) / size


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.6, 0.9])
def test_proposition_four_holds(alpha):
    """η(X) uniform (density 1), scores −|x − t| or reversals: Var(h) ≤ c Λ^α on a grid."""
    x = uniform_grid(600)
    eta = 1 - np.abs(2 * x - 1)
    gap = eta[:, None] - eta
    c = noise_constant(alpha, density=1.0)
    for score in (-np.abs(x - 0.45), -np.abs(x - 0.3), x, -eta, np.where(x < 0.5, -eta, eta)):
        wrong = (np.sign(score[:, None] - score) * np.sign(gap) < 0).astype(float)
        excess = (np.abs(gap) * wrong).mean()
        # E(q | x, y): q is 1 where only the score errs and -1 where only the optimal rule does.
        q1 = (wrong * np.sign(gap) * (1 - eta)).mean(axis=1)
        q0 = (wrong * -np.sign(gap) * eta).mean(axis=1)
        mean = (eta * q1 + (1 - eta) * q0).mean()
        variance = (eta * q1**2 + (1 - eta) * q0**2).mean() - mean**2
        assert mean == pytest.approx(excess, abs=1e-12)
        assert variance <= projection_variance_bound(excess, c=c, alpha=alpha).value


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("density", [1.0, 2.0])
def test_noise_constant_of_two_classes(alpha, density):
    """η uniform on an interval of length 1/B: the center is worst, and the constant is reached."""
    middle = 2 * density * quad(lambda u: u**-alpha, 0, 0.5 / density)[0]
    c = noise_constant(alpha, density=density)
    assert c == pytest.approx(middle, rel=1e-4)
    assert c <= 2 * density / (1 - alpha)  # as printed in corollary 2


def regression(width, alpha):
    """m(X) uniform on [0, width], noise of deviation 1, lower half reversed.

    Excess risk, two numbers between which Var(h) lies, and c.
    """
    m = width * uniform_grid()
    delta = (m[:, None] - m) / math.sqrt(2)
    low = m < width / 2
    wrong = low[:, None] & low
    np.fill_diagonal(wrong, False)
    gain = 2 * ndtr(np.abs(delta)) - 1
    excess = (gain * wrong).mean()
    at_least = (gain * wrong).mean(axis=1).var()  # of the projection on x alone
    at_most = (wrong.mean(axis=1) ** 2).mean()  # the first step of the paper's proof
    return excess, (at_least, at_most), noise_constant(alpha, density=1 / width, spread=1.0)


@pytest.mark.parametrize("width", [10.0, 1e3, 1e5])
@pytest.mark.parametrize("alpha", [0.2, 0.5, 0.9])
def test_proposition_five_holds_with_the_proved_factor(width, alpha):
    excess, (_, variance), c = regression(width, alpha)
    assert variance <= projection_variance_bound(excess, c=c, alpha=alpha, model="regression").value


def test_proposition_five_is_false_as_printed():
    excess, (variance, _), c = regression(1e5, 0.5)
    printed = projection_variance_bound(
        excess, c=c, alpha=0.5, model="regression", constants="printed"
    )
    assert printed.value == pytest.approx((2 * ndtr(c) - 1) * math.sqrt(excess))
    assert variance > 2 * printed.value


def test_noise_constant_of_regression_is_corollary_three():
    """Finite for every α < 1, and above the mean of |Δ|^−α at the worst place, the middle."""
    m = (np.arange(200_000) + 0.5) / 200_000 * 4
    for alpha in (0.2, 0.9):
        c = noise_constant(alpha, density=0.25, spread=0.7)
        assert np.mean(np.abs((m - 2) / (0.7 * math.sqrt(2))) ** -alpha) <= c


# -- ψ ---------------------------------------------------------------------------------------


class Same(PairLoss):
    """A loss without its name, so that ψ is found numerically."""

    def __init__(self, loss, factor=1.0):
        self.loss, self.factor = loss, factor

    def value(self, margin):
        return self.factor * self.loss.value(margin)

    def slope(self, margin):
        return self.factor * self.loss.slope(margin)


@pytest.mark.parametrize("loss", [Exponential(), Logistic(), Hinge(), Hinge(0.5)], ids=repr)
@settings(max_examples=40, deadline=None)
@given(x=st.floats(-1, 1))
def test_closed_and_numerical_psi_agree(loss, x):
    # exp: 1 - sqrt(1 - x²) is infinitely steep at 1, where half of the digits are lost.
    same = pytest.approx(psi_transform(x, loss), abs=1e-9 if abs(x) < 1 - 1e-9 else 1e-7)
    assert psi_transform(x, Same(loss, 3.0)) == same


def test_psi_as_in_the_literature():
    x = np.linspace(-1, 1, 21)
    assert psi_transform(x, "exponential") == pytest.approx(1 - np.sqrt(1 - x**2))
    assert psi_transform(x, "hinge") == pytest.approx(np.abs(x))
    assert psi_transform(x, SquaredHinge(3.0)) == pytest.approx(x**2, abs=1e-9)
    rho = (1 + x[1:-1]) / 2
    entropy = -rho * np.log2(rho) - (1 - rho) * np.log2(1 - rho)
    assert psi_transform(x, "logistic")[1:-1] == pytest.approx(1 - entropy)
    assert psi_transform(x, "logistic")[[0, -1]] == pytest.approx([1, 1])


@pytest.mark.parametrize("loss", ["exponential", "logistic", "hinge", SmoothedHinge(0.5)], ids=repr)
def test_psi_inverse_turns_psi_round(loss):
    x = np.linspace(0, 1, 11)
    assert psi_inverse(psi_transform(x, loss), loss) == pytest.approx(x, abs=1e-6)
    assert psi_inverse(7.0, loss) == 1.0
    assert (np.diff(psi_transform(x, loss), 2) >= -1e-9).all()  # convex


class Kinked(PairLoss):
    """Kink at margin 0: ψ is 0 up to 1/3."""

    def value(self, margin):
        return np.where(margin < 0, 1 - margin, np.maximum(1 - margin / 2, 0.0))

    def slope(self, margin):
        return np.where(margin < 0, -1.0, np.where(margin < 2, -0.5, 0.0))


def test_psi_of_a_loss_that_is_not_calibrated_does_not_promise_too_much():
    assert psi_transform(0.3, Kinked()) == 0.0
    assert psi_inverse(0.0, Kinked()) == pytest.approx(1 / 3)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=5),
    st.lists(st.floats(-3, 3), min_size=5, max_size=5),
    st.sampled_from(["exponential", "logistic", "hinge", "squared_hinge"]),
)
def test_psi_bounds_the_excess_ranking_risk(chances, scores, name):
    """For pairs with chances (ρ₊, ρ₋) of either order and any f: ψ(L − L*) ≤ A − A*."""
    cost = {
        "exponential": np.exp,
        "logistic": lambda x: np.logaddexp(0, x) / np.log(2),
        "hinge": lambda x: np.maximum(1 + x, 0),
        "squared_hinge": lambda x: np.maximum(1 + x, 0) ** 2,
    }[name]
    up = np.array([p * (1 - t) for p, t in chances])  # a tie in the labels with chance t
    down = np.array([(1 - p) * (1 - t) for p, t in chances])
    f = np.array(scores[: len(chances)])
    tied = 1 - up - down
    excess = np.where(f > 0, down, up) - np.minimum(up, down)
    share = np.where(up + down > 0, up / np.maximum(up + down, 1e-300), 0.5)
    psi = psi_transform(2 * share - 1, name)
    least = (up + down) * (1 - np.atleast_1d(psi)) + tied
    convex = up * cost(-f) + down * cost(f) + tied - least
    assert psi_transform(float(np.clip(excess.mean(), 0, 1)), name) <= convex.mean() + 1e-9


# -- corollary 1 -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "slope"),
    [
        ("exponential", np.exp),
        ("logistic", lambda b: 1 / (1 + np.exp(-b)) / np.log(2)),
        ("hinge", lambda b: 1.0),
        (SquaredHinge(2.0), lambda b: (2 + b) / 2),
    ],
)
def test_consistent_radius_satisfies_corollary_one(loss, slope):
    sizes = [10, 1000, 10**6, 10**12]
    radii = [consistent_radius(n, loss) for n in sizes]
    kept = [b**2 * slope(b) / math.sqrt(n) for b, n in zip(radii, sizes, strict=True)]
    assert kept == pytest.approx([n**-0.1 for n in sizes], rel=1e-6)
    assert (np.diff(radii) > 0).all()


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: vc_bound(1, vc_dimension=1), "n=1"),
        (lambda: vc_bound(10, vc_dimension=1, constant=-1), "constant=-1"),
        (lambda: bernstein_bound(10, variance=0.2), "half of pair_variance"),
        (lambda: bernstein_bound(10, variance=0.1, kind="all"), "kind='all'"),
        (lambda: fast_rate_bound(10, vc_dimension=1, alpha=2, constant=1), "alpha=2"),
        (lambda: fast_rate_bound(10, vc_dimension=1, alpha=1, constant=1, density=1), "below 1"),
        (lambda: projection_variance_bound(2.0, c=1, alpha=1), "excess=2.0"),
        (lambda: noise_constant(1.0, density=1), "alpha=1.0"),
        (lambda: psi_transform(2.0), "x=2.0"),
        (lambda: psi_transform(0.5, Hinge("gap")), "different margins"),
        (lambda: psi_inverse(-1.0), "y=-1.0"),
        (lambda: consistent_radius(10, power=0.5), "power=0.5"),
    ],
)
def test_senseless_input_is_named(call, told):
    with pytest.raises(ValueError, match=told):
        call()


# -- example 1 -------------------------------------------------------------------------------


def test_bayes_risk_and_excess_of_two_classes_are_those_of_example_one():
    """Proposition 1 and example 1 by listing all pairs of a distribution on 60 equal points."""
    rng = np.random.default_rng(0)
    eta, scores = rng.random(60), rng.integers(0, 9, 60).astype(float)
    up, down = eta[:, None] * (1 - eta), (1 - eta)[:, None] * eta  # ρ₊ and ρ₋
    bayes = np.minimum(up, down).mean()
    p = eta.mean()
    assert bayes == pytest.approx(p * (1 - p) - 0.5 * np.abs(eta[:, None] - eta).mean())
    # r(x, x') = 1 iff s(x) ≥ s(x'): an error with the chance of the other order.
    risk = np.where(scores[:, None] >= scores, down, up).mean()
    assert risk >= bayes
    ordered = 60 * 60 / (60 * 59)  # the function leaves out pairs of a point with itself
    assert (risk - bayes) * ordered == pytest.approx(excess_ranking_risk(scores, eta))
    above = scores[:, None] > scores
    area = ((above + 0.5 * (scores[:, None] == scores)) * up).mean() / (p * (1 - p))
    assert area == pytest.approx(1 - risk / (2 * p * (1 - p)))


# -- L* and excess risk beyond two classes ---------------------------------------------------------


def listed_risks(scores, chances):
    """L* and L(s) over all ordered pairs; chances(i, k) are those of a larger, a smaller label."""
    size, best, risk = len(scores), [], []
    for i in range(size):
        for k in set(range(size)) - {i}:
            above, below = chances(i, k)
            best.append(min(above, below))
            ordered = (scores[i] > scores[k]) - (scores[i] < scores[k])
            risk.append({1: below, -1: above, 0: (above + below) / 2}[ordered])
    return math.fsum(best) / len(best), math.fsum(risk) / len(risk)


@given(st.data())
def test_proposition_one_for_any_number_of_ordered_classes(data):
    size, count = data.draw(st.integers(2, 6)), data.draw(st.integers(2, 4))
    weights = st.lists(st.integers(0, 5), min_size=count, max_size=count).filter(any)
    table = [
        [w / sum(row) for w in row]
        for row in data.draw(st.lists(weights, min_size=size, max_size=size))
    ]
    scores = data.draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))

    def chances(i, k):
        pairs = [(a, b) for a in range(count) for b in range(count)]
        above = sum(table[i][a] * table[k][b] for a, b in pairs if a > b)
        return above, sum(table[i][a] * table[k][b] for a, b in pairs if a < b)

    best, risk = listed_risks(scores, chances)
    assert bayes_ranking_risk(table) == pytest.approx(best, abs=1e-12)
    assert excess_ranking_risk(scores, table) == pytest.approx(risk - best, abs=1e-12)
    if count == 2:
        eta = [row[1] for row in table]
        assert bayes_ranking_risk(eta) == pytest.approx(best, abs=1e-12)
        assert excess_ranking_risk(scores, eta) == pytest.approx(risk - best, abs=1e-12)


@given(st.data())
def test_best_and_excess_risk_of_the_regression_model(data):
    size = data.draw(st.integers(2, 6))
    some_numbers = st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=size, max_size=size)
    mean, spread, scores = (data.draw(some_numbers) for _ in range(3))

    def chances(i, k):
        width = math.hypot(spread[i], spread[k])
        if width == 0:
            return float(mean[i] > mean[k]), float(mean[i] < mean[k])
        above = 0.5 * math.erfc(-(mean[i] - mean[k]) / width / math.sqrt(2))
        return above, 1 - above

    best, risk = listed_risks(scores, chances)
    assert bayes_ranking_risk(mean, spread) == pytest.approx(best, abs=1e-12)
    assert excess_ranking_risk(scores, mean, spread) == pytest.approx(risk - best, abs=1e-12)


def test_truth_that_is_none_is_refused():
    for wrong in ([[0.5, 0.6], [1, 0]], [[1.5, -0.5], [1, 0]], [0.5, 1.2], [0.5]):
        with pytest.raises(ValueError, match="truth"):
            bayes_ranking_risk(wrong)
    with pytest.raises(ValueError, match="spread holds -1"):
        bayes_ranking_risk([0.0, 1.0], [1.0, -1.0])


# -- Rademacher averages ----------------------------------------------------------------------


values = st.integers(0, 3).map(float) | st.floats(-5, 5) | st.just(math.nan)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_stump_supremum_is_the_best_by_brute_force(data):
    n, d = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 3))
    X = data.draw(st.lists(st.lists(values, min_size=d, max_size=d), min_size=n, max_size=n))
    signs = data.draw(st.lists(st.sampled_from([-1, 1]), min_size=n, max_size=n))
    assert stump_supremum(X, signs) == naive.stump_supremum(X, signs)
    both = stump_supremum(X, [signs, [1] * n])
    assert list(both) == [naive.stump_supremum(X, signs), n]


@pytest.mark.parametrize(
    ("cost", "value", "slope"),
    [
        ("exponential", math.exp, math.exp),
        (
            "logistic",
            lambda x: math.log2(1 + math.exp(x)),
            lambda x: 1 / (1 + math.exp(-x)) / math.log(2),
        ),
        ("hinge", lambda x: max(1 + x, 0), lambda x: 1.0),
    ],
)
def test_rademacher_bound_is_the_sum_of_its_terms(cost, value, slope):
    X = np.random.default_rng(0).normal(size=(401, 2)).round(2)  # below 255 distinct values
    assert max(np.unique(column).size for column in X.T) <= 255
    B, delta = 1.3, 0.1
    bound = rademacher_bound(X, radius=B, cost=cost, delta=delta, n_draws=50, random_state=1)
    signs = 2 * np.random.default_rng(1).integers(2, size=(50, 200), dtype=np.int8) - 1
    sups = [naive.stump_supremum(X[:400], [*row, *-row]) for row in signs[:3]]
    library = stump_supremum(X[:400], np.concatenate([signs, -signs], axis=1))
    assert list(library[:3]) == sups
    average = B * library.mean() / 200
    log = math.log(2 / delta)
    terms = [
        4 * slope(B) * average,
        4 * slope(B) * B * math.sqrt((1 + 2 / 50) * log / 200),
        (value(B) - value(-B)) * math.sqrt(8 * log / 401),
    ]
    assert list(bound.terms.values()) == pytest.approx(terms)
    printed = rademacher_bound(
        X, radius=B, cost=cost, delta=delta, n_draws=50, random_state=1, constants="printed"
    )
    terms = [8 * B * slope(B) * average, math.sqrt(2 * B**2 * math.log(10) / (2 * 400))]
    assert list(printed.terms.values()) == pytest.approx(terms)
    assert any("exact" in sentence for sentence in printed.assumptions)


@pytest.mark.parametrize("distinct", [254, 255])
def test_stump_supremum_is_exact_up_to_255_values_with_missing_ones(distinct):
    rng = np.random.default_rng(distinct)
    X = np.repeat(rng.permutation(distinct), 2)[:, None] / 7
    X = np.vstack([X, [[np.nan]] * 5])
    for _ in range(5):
        signs = rng.choice([-1, 1], size=len(X))
        assert stump_supremum(X, signs) == naive.stump_supremum(X.tolist(), signs.tolist())


def test_stump_supremum_of_many_values_is_over_bins():
    rng = np.random.default_rng(0)
    X, signs = rng.normal(size=(3000, 2)), rng.choice([-1, 1], size=(20, 3000))
    below = np.cumsum(signs[:, np.argsort(X, axis=0)], axis=1)  # draws, rows, features
    every = np.abs(signs.sum(axis=1)[:, None, None] - below).max(axis=(1, 2))
    binned = stump_supremum(X, signs)
    assert (binned <= np.maximum(every, np.abs(signs.sum(axis=1)))).all()
    assert (binned > 0.8 * every).all()


def test_stump_supremum_is_what_the_search_of_the_library_finds():
    rng = np.random.default_rng(1)
    X, signs = rng.integers(0, 9, size=(60, 3)).astype(float), rng.choice([-1.0, 1.0], size=30)
    balanced = np.concatenate([signs, -signs])
    found = Stumps().search(Table.build(X), balanced / 60)
    assert stump_supremum(X, balanced) == pytest.approx(60 * abs(found.edge))
    assert stump_supremum(X, balanced) == abs(balanced @ found.weak_ranker(X))
    assert stump_supremum(X, 1e-200 * balanced) == pytest.approx(60e-200 * abs(found.edge))
    assert stump_supremum(np.ones((4, 1)), [1, -1, 1, -1]) == 0
    assert stump_supremum(X, np.zeros(60)) == 0


def test_rademacher_needed_samples_scales_as_one_over_the_root():
    X = np.random.default_rng(0).normal(size=(200, 3))
    bound = rademacher_bound(X, radius=2.0, cost="hinge", random_state=0)
    assert bound.vacuous
    ratio = bound.needed_samples / 200
    assert bound.value / math.sqrt(ratio) == pytest.approx(1, rel=0.01)
