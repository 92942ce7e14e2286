"""Bounds against their formulas written out, and their sums against listed pairs."""

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import naive_inference as naive
from precede import Judgments, bounds, margin
from precede.bounds import (
    MarginDistribution,
    PushRisk,
    convergence_bound,
    covering_bound,
    margin_bound,
    margin_distribution,
    negatives_needed,
    push_bound,
    push_risk,
    rademacher_bound,
    sloppy_covering,
    small_step_bound,
    stump_supremum,
    training_bound,
)
from precede.engine.table import Table
from precede.rankers.stumps import Stumps

score = st.integers(-3, 3).map(float) | st.floats(-10, 10)
grid = st.integers(-4, 4).map(lambda k: k / 2) | st.floats(-12, 12)


@st.composite
def judged(draw, grades=4, queries=True):
    n = draw(st.integers(2, 16))
    y = draw(st.lists(st.integers(0, grades - 1), min_size=n, max_size=n))
    s = draw(st.lists(score, min_size=n, max_size=n))
    qid = draw(st.none() | st.lists(st.integers(0, 2), min_size=n, max_size=n)) if queries else None
    return y, s, qid


@settings(max_examples=200, deadline=None)
@given(judged(), grid, st.sampled_from([1.0, 0.3, 7.0]))
def test_margins_equal_the_listed_pairs(sample, theta, norm):
    y, s, qid = sample
    listed = naive.margins(y, s, qid, norm)
    if not listed:
        with pytest.raises(ValueError, match="no crucial pair"):
            margin_distribution(y, s, qid=qid, norm=norm)
        return
    found = margin_distribution(y, s, qid=qid, norm=norm)

    assert found.n_pairs == len(listed)
    assert found.minimum == min(listed)
    assert found.at(theta) == sum(m <= theta for m in listed) / len(listed)
    # Exactly on each margin, where rounding would show.
    assert list(found.at(listed)) == [sum(m <= t for m in listed) / len(listed) for t in listed]
    assert found.at(math.inf) == 1.0
    assert math.isclose(found.crucial_share, len(listed) / (len(y) * (len(y) - 1)))


def test_margin_distribution_of_real_grades_and_shapes():
    rng = np.random.default_rng(0)
    y, s = rng.normal(size=300), rng.normal(size=300)
    found = margin_distribution(y, s)
    listed = np.array(naive.margins(y, s))
    shape = found.at(np.array([[0.0, 0.5], [1.0, -3.0]]))
    assert shape.shape == (2, 2)
    assert math.isclose(shape[0, 1], (listed <= 0.5).mean())
    assert isinstance(found.at(0.5), float)
    assert "44850 crucial pairs of 300 items" in str(found)
    assert json.dumps(found.to_dict())
    assert found._repr_html_().startswith("<p>")


def test_margins_of_judgments_and_of_queries_of_any_type():
    y, s = [0, 1, 2, 0, 1, 0], [3.0, 1.0, 2.0, 0.5, 0.7, 0.1]
    ids = [1, "1", 1, "1", 2.5, 2.5]
    expected = margin_distribution(y, s, [0, 1, 0, 1, 2, 2])
    for found in (
        margin_distribution(y, s, ids),
        margin_distribution(Judgments(y, ids), s),
        margin_distribution(Judgments(y, ids, weight=np.ones(6)), s),
    ):
        assert found == expected
        assert found.at([0.0, 0.5]).tolist() == expected.at([0.0, 0.5]).tolist()
    both = [0, 1, 1, 0]
    assert push_risk(Judgments(both), s[:4], p=2) == push_risk(both, s[:4], p=2)


def closed_epsilon(m, E, theta, n, delta):
    log = math.log(n)
    first = 8 * log / theta**2 * math.log(4 * m * E**2 * theta**2 / log)
    return math.sqrt(4 / (m * E**2) * (first + 2 * math.log(2 / delta)))


def test_margin_bound_is_equation_two():
    bound = margin_bound(0.1, 2_000_000, E=0.2, n_rankers=500, theta=0.4, delta=0.01)
    epsilon = closed_epsilon(2_000_000, 0.2, 0.4, 500, 0.01)
    assert list(bound.terms.values()) == [0.1, pytest.approx(epsilon)]
    assert bound.value == pytest.approx(0.1 + epsilon)
    assert bound.confidence == 0.99
    assert not bound.vacuous


def test_equation_two_is_refused_where_its_condition_fails():
    limit = 64 * math.log(500) / (0.2 * 0.4) ** 2
    bad = margin_bound(0.1, int(limit), E=0.2, n_rankers=500, theta=0.4)
    good = margin_bound(0.1, int(limit) + 1, E=0.2, n_rankers=500, theta=0.4)
    assert bad.value == math.inf
    assert bad.vacuous
    assert "no bound" in str(bad)
    assert bad.to_dict()["value"] == "inf"
    assert json.dumps(bad.to_dict())
    assert math.isfinite(good.value)
    assert good.details["condition m"] == pytest.approx(limit)


def test_solved_corollary_four_is_exact_and_never_larger():
    for m, theta in [(10_000, 0.5), (10**6, 0.2), (10**8, 0.05)]:
        solved = margin_bound(0.0, m, E=0.25, n_rankers=300, theta=theta, kind="solved")
        epsilon = solved.value
        failure = math.log(2) + 8 * math.log(300) / theta**2 * math.log(16 / epsilon)
        failure -= m * (epsilon * 0.25) ** 2 / 8
        assert failure == pytest.approx(math.log(0.05), rel=1e-6)
        closed = margin_bound(0.0, m, E=0.25, n_rankers=300, theta=theta)
        assert epsilon <= closed.value


def test_finite_class_is_corollary_five():
    bound = margin_bound(0.2, 5000, E=0.3, n_rankers=40, theta=0.1, delta=0.1, kind="finite")
    epsilon = math.sqrt(8 / 0.3**2 * (math.log(2 * 40) + math.log(10))) / math.sqrt(5000)
    assert bound.value == pytest.approx(0.2 + epsilon)


@pytest.mark.parametrize("theta", [0.1, 0.5, None])
@pytest.mark.parametrize("m", [100, 10**6])
def test_theorem_two_with_lemma_three_is_corollary_four_and_with_a_number_five(m, theta):
    margins = margin_distribution([0, 0, 1, 1], [1.0, 3.0, 2.0, 5.0], norm=4.0)
    given_ = {"m": m, "E": 0.2, "theta": theta, "delta": 0.1}
    cover = covering_bound(margins, log_covering=lambda t, e: sloppy_covering(30, t, e), **given_)
    assert cover.value == margin_bound(margins, n_rankers=30, kind="solved", **given_).value
    fixed = covering_bound(margins, log_covering=math.log(30), **given_)
    finite = margin_bound(margins, n_rankers=30, kind="finite", **given_)
    assert fixed.value == pytest.approx(finite.value, rel=1e-9)
    assert fixed.needed_samples == finite.needed_samples


def test_theorem_two_fails_with_probability_delta_at_its_epsilon():
    """2 N(F, θ/4, ε/8) exp(−m(εE)²/8) = δ, the covering number being a function of both."""

    def balls(theta, epsilon):
        return 3 / theta + 0.2 / epsilon

    bound = covering_bound(0.1, 20_000, E=0.4, log_covering=balls, theta=0.2, delta=0.01)
    epsilon = bound.value - 0.1
    failure = math.log(2) + 3 / 0.05 + 0.2 / (epsilon / 8) - 20_000 * (epsilon * 0.4) ** 2 / 8
    assert failure == pytest.approx(math.log(0.01), rel=1e-6)
    assert bound.details["ln covering number"] == pytest.approx(60 + 1.6 / epsilon)
    assert bound.source == "Rudin, Schapire (2009), theorem 2"
    assert not bound.vacuous
    small = covering_bound(0.1, 50, E=0.4, log_covering=balls, theta=0.2, delta=0.01)
    assert small.vacuous
    at = small.needed_samples
    assert not covering_bound(0.1, at, E=0.4, log_covering=balls, theta=0.2, delta=0.01).vacuous
    before = covering_bound(0.1, at - 1, E=0.4, log_covering=balls, theta=0.2, delta=0.01)
    assert before.vacuous


def test_lemma_three_covers_in_fact():
    """Averages of N rankers come within θ of any convex combination, but for a share ε of x."""
    rng = np.random.default_rng(0)
    theta, epsilon = 0.25, 0.1
    size = math.ceil(math.log(2 / epsilon) / (2 * theta**2))
    values = rng.integers(0, 2, (12, 400))  # 12 rankers on 400 points
    for _ in range(20):
        weights = rng.dirichlet(np.full(12, 0.5))
        drawn = rng.choice(12, (200, size), p=weights)
        apart = np.abs(values[drawn].mean(axis=1) - weights @ values) >= theta
        assert apart.mean(axis=1).min() <= epsilon
    assert sloppy_covering(12, theta, epsilon) <= size * math.log(12)


def test_grid_of_margins_pays_its_union_bound_and_says_so():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    margins = margin_distribution(y, 0.5 + 0.1 * y + 0.02 * rng.normal(size=400))
    bound = margin_bound(margins, 10**7, n_rankers=50, delta=0.05, kind="solved")
    singles = [
        margin_bound(
            margins, 10**7, n_rankers=50, delta=0.05 / 15, theta=2 ** (-k / 2), kind="solved"
        ).value
        for k in range(15)
    ]
    assert bound.value == pytest.approx(min(singles))
    assert any("least of 15 bounds" in sentence for sentence in bound.assumptions)
    assert any("observed" in sentence for sentence in bound.assumptions)
    chosen = margin_bound(margins, n_rankers=50, theta=[0.05, 0.1], kind="finite")
    assert chosen.n_samples == 400
    assert chosen.details["E"] == margins.crucial_share


@pytest.mark.parametrize("kind", ["closed", "solved", "finite"])
@pytest.mark.parametrize("fraction", [0.0, 0.5])
def test_needed_samples_is_where_vacuity_ends(kind, fraction):
    def at(m):
        return margin_bound(fraction, m, E=0.25, n_rankers=100, theta=0.3, kind=kind)

    needed = at(100).needed_samples
    assert at(100).vacuous
    assert f"{needed:,}" in str(at(100))
    assert at(needed - 1).vacuous
    assert not at(needed).vacuous
    assert at(needed).needed_samples == needed


def test_no_sample_size_helps_a_ranking_without_margins():
    bound = margin_bound(1.0, 1000, E=0.25, n_rankers=100, theta=0.3)
    assert bound.needed_samples is None
    assert "no sample size would help" in str(bound)


def test_one_ranker_has_no_complexity_but_the_deviation():
    bound = margin_bound(0.0, 1000, E=0.5, n_rankers=1, theta=0.5)
    assert bound.value == pytest.approx(math.sqrt(4 / 250 * 2 * math.log(40)))


@settings(max_examples=100, deadline=None)
@given(judged(grades=2, queries=False), st.sampled_from([1.0, 2.0, 3.5]), grid)
def test_push_risk_equals_the_double_sum(sample, p, theta):
    y, s, _ = sample
    assume(len(set(y)) == 2)
    found = push_risk(y, s, p=p, theta=theta, norm=2.0)
    assert found.value == pytest.approx(naive.push_risk(y, s, p, theta, 2.0), abs=1e-12)
    assert (found.n_positive, found.n_negative) == (y.count(1), y.count(0))


def test_push_risk_survives_large_powers():
    y, s = [0] * 50 + [1] * 50, list(range(50)) + [25 + v for v in range(50)]
    assert 0 < push_risk(y, s, p=2000).value < 1


@pytest.mark.parametrize("kind", ["finite", "combination"])
@pytest.mark.parametrize("p", [1, 2])
def test_push_bound_is_theorem_two(kind, p):
    risk = PushRisk(0.1, p, 0.3, 20_000_000, 30_000_000)
    bound = push_bound(risk, n_rankers=20, delta=0.02, kind=kind)
    epsilon = list(bound.terms.values())[1]
    cover = 20 if kind == "finite" else (1 + 2 / (epsilon * 0.3 / 8)) ** 20
    failure = (
        2
        * cover
        * (
            math.exp(-2 * (epsilon / 4) ** (2 * p) * 30_000_000)
            + math.exp(-(epsilon**2) / 8 * 20_000_000)
        )
    )
    assert failure == pytest.approx(0.02, rel=1e-4)
    assert bound.value == pytest.approx(0.1 + epsilon)
    assert bound.confidence == 0.98


def test_push_bound_takes_the_best_of_a_grid():
    risks = [PushRisk(v, 1, t, 10**6, 10**6) for v, t in [(0.4, 0.9), (0.1, 0.1), (0.09, 1e-9)]]
    bound = push_bound(risks, n_rankers=30)
    singles = [push_bound(r, n_rankers=30, delta=0.05 / 3).value for r in risks]
    assert bound.value == pytest.approx(min(singles))
    assert bound.details["theta"] == 0.1
    assert any("least of 3 bounds" in sentence for sentence in bound.assumptions)


def test_push_needs_more_negatives_for_larger_powers():
    assert negatives_needed(1, 0.1) == 1.0
    assert negatives_needed(3, 0.5) == pytest.approx(8.0**4)
    assert negatives_needed(400, 1e-3) == math.inf
    # The statement and the theorem agree: with ample positives, a finite class and ε fixed,
    # K(p)/K(1) is exactly this factor.
    needed = {}
    for p in (1, 2, 3):
        low, high = 1.0, 1e30
        for _ in range(60):
            middle = math.sqrt(low * high)
            risk = PushRisk(0.0, p, 0.5, 10**40, middle)
            good = bounds._push_epsilon(risk, 1.0, 10, ("finite", 0.05)) <= 0.5
            low, high = (low, middle) if good else (middle, high)
        needed[p] = high
    assert needed[2] / needed[1] == pytest.approx(negatives_needed(2, 0.5), rel=1e-6)
    assert needed[3] / needed[1] == pytest.approx(negatives_needed(3, 0.5), rel=1e-6)


def test_push_bound_needed_samples_keeps_the_share_of_classes():
    bound = push_bound(PushRisk(0.2, 2, 0.5, 300, 700), n_rankers=5)
    assert bound.vacuous
    size = bound.needed_samples

    def at(n):
        return push_bound(PushRisk(0.2, 2, 0.5, 0.3 * n, 0.7 * n), n_rankers=5)

    assert at(size).value < 1 <= at(size - 1).value + 1e-9
    assert push_bound(PushRisk(1.0, 2, 0.5, 300, 700), n_rankers=5).needed_samples is None


def boost(y, X, rounds, plus):
    """RankBoost, discrete or plus, on all pairs, written as in the paper."""
    pairs = [(i, k) for i in range(len(y)) for k in range(len(y)) if y[i] > y[k]]
    rankers = [(j, t) for j in range(X.shape[1]) for t in np.unique(X[:, j])[:-1]]
    M = np.array([[(X[i, j] > t) * 1 - (X[k, j] > t) for j, t in rankers] for i, k in pairs])
    D = np.full(len(pairs), 1 / len(pairs))
    weight = np.zeros(len(rankers))
    edges, normalisers = [], []
    for _ in range(rounds):
        plus_mass, minus_mass = D @ (M == 1), D @ (M == -1)
        zero_mass = 1 - plus_mass - minus_mass
        delta = minus_mass - plus_mass + (zero_mass * np.tanh(weight) if plus else 0)
        # Theorem 1 asks for finite steps: only rankers that err somewhere are eligible.
        eligible = (plus_mass > 1e-9) & (minus_mass > 1e-9)
        best = int(np.argmax(np.where(eligible, abs(delta), -1)))
        a, b, c, w = plus_mass[best], minus_mass[best], zero_mass[best], weight[best]
        if plus:
            up = a + c * math.exp(-w) / (2 * math.cosh(w))
            down = b + c * math.exp(w) / (2 * math.cosh(w))
        else:
            up, down = a, b
        step = 0.5 * math.log(up / down)
        ties = math.cosh(step + w) / math.cosh(w) if plus else 1.0
        factor = np.where(M[:, best] == 0, ties, np.exp(-step * M[:, best]))
        edges.append(delta[best])
        normalisers.append(float(D @ factor))
        D = D * factor / normalisers[-1]
        weight[best] += step
    margin = M @ weight
    tied = (abs(margin) < 1e-12).mean()
    wrong = (margin < -1e-12).mean()
    return edges, normalisers, wrong + (0.5 * tied if plus else tied)


@pytest.mark.parametrize("kind", ["rankboost", "rankboost_plus"])
@pytest.mark.parametrize("seed", range(5))
def test_training_bounds_hold_on_boosting_as_in_the_paper(kind, seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, size=(14, 3)).astype(float)
    y = (X.sum(axis=1) + 2 * rng.normal(size=14) > 4).astype(int)
    y[:2] = [0, 1]
    edges, normalisers, error = boost(y, X, 12, kind == "rankboost_plus")
    product = training_bound(normalisers, kind=kind, given="normalisers")
    closed = training_bound(edges, kind=kind)
    assert error <= product.value + 1e-12
    assert product.value <= closed.value + 1e-12
    assert product.value == pytest.approx(np.prod(normalisers))
    assert closed.value == pytest.approx(math.exp(-2 * sum((e / 2) ** 2 for e in edges)))
    assert (product.confidence, product.needed_samples) == (1.0, None)
    assert ("half" if kind == "rankboost_plus" else "wrong") in product.quantity


def test_training_bound_of_thousands_of_rounds_does_not_fail():
    assert training_bound(np.full(100_000, 0.5)).value == 0.0
    assert training_bound([0.5, 0.0], given="normalisers").value == 0.0
    assert training_bound([0.0]).vacuous
    assert "no sample size" in str(training_bound([0.0]))


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
    assert stump_supremum(X, balanced) == abs(balanced @ found.ranker(X))
    assert stump_supremum(X, 1e-200 * balanced) == pytest.approx(60e-200 * abs(found.edge))
    assert stump_supremum(np.ones((4, 1)), [1, -1, 1, -1]) == 0
    assert stump_supremum(X, np.zeros(60)) == 0


def test_rademacher_needed_samples_scales_as_one_over_the_root():
    X = np.random.default_rng(0).normal(size=(200, 3))
    bound = rademacher_bound(X, radius=2.0, cost="hinge", random_state=0)
    assert bound.vacuous
    ratio = bound.needed_samples / 200
    assert bound.value / math.sqrt(ratio) == pytest.approx(1, rel=0.01)


@given(
    st.lists(st.sampled_from([0.0, 0.01, 0.2, 1.5]), min_size=1, max_size=8),
    st.sampled_from([0.0, 0.3, 4.0]), st.sampled_from([0.0, 0.5, 2.0]),
    st.sampled_from([0.0, 0.5, 3.0]), st.sampled_from([0.1, 7.0]), st.sampled_from([0.0, 0.02]),
)  # fmt: skip
def test_convergence_bound_is_theorem_one_of_zheng(steps, norm, start, target, curvature, slack):
    k = len(steps) - 1
    a = [sum(steps[: j + 1]) for j in range(k + 1)]
    if norm + a[k] == 0:
        return
    b = [
        sum(s * math.sqrt(2 * slack) + curvature * s**2 / 2 for s in steps[j:])
        for j in range(k + 2)
    ]
    last = min(
        (b[0] - b[j + 1]) * (norm + a[j]) / (norm + a[k]) + b[j + 1] - b[k + 1]
        for j in range(k + 1)
    )
    expected = target + norm / (norm + a[k]) * max(0, start - target) + last
    found = convergence_bound(
        steps, target_norm=norm, start_risk=start, target_risk=target, curvature=curvature,
        tolerances=slack,
    )  # fmt: skip
    assert found.value == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert found.vacuous == (not found.value < start)


def test_small_step_bound_follows_from_theorem_one():
    """At the number of rounds it names, theorem 1 gives no more, with the tolerances allowed."""
    for norm, start, target, curvature, s in [(2, 1, 0.1, 0.5, 0.1), (30, 9, 2, 40, 0.2)]:
        known = dict(
            target_norm=norm, start_risk=start, target_risk=target, curvature=curvature
        )  # fmt: skip
        found = small_step_bound(s, **known)
        steps = np.full(found.details["rounds needed"], s**2)
        slack = (curvature * s**2 / 2) ** 2 / 2
        whole = convergence_bound(steps, tolerances=slack, **known)
        assert whole.value <= found.value
        excess = start - target
        assert found.value == pytest.approx(
            target + 2 * s * math.sqrt(excess * norm * curvature) + curvature * s**4
        )


def test_bounds_are_frozen_print_and_serialise():
    found = [
        margin_bound(0.1, 1000, E=0.2, n_rankers=10, theta=0.4, kind="solved"),
        push_bound(PushRisk(0.1, 2, 0.3, 50, 60), n_rankers=4),
        covering_bound(0.1, 1000, E=0.2, log_covering=3.0, theta=0.4),
        training_bound([0.1, 0.2]),
        rademacher_bound(np.random.default_rng(0).normal(size=(50, 2)), radius=1.0),
    ]
    for bound in found:
        assert json.dumps(bound.to_dict())
        assert bound._repr_html_().startswith("<table>")
        assert bound.assumptions
        assert bound.value == pytest.approx(sum(bound.terms.values()))
        assert bound.vacuous == (bound.value >= 1)
        assert ("vacuous at" in str(bound)) == bound.vacuous
        for name in bound.terms:
            assert name in str(bound)
        with pytest.raises(dataclasses.FrozenInstanceError):
            bound.terms = {}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: margin_distribution([0, 1], [1.0]), "scores has 1 values for 2 rows"),
        (lambda: margin_distribution([0, 1], ["a", "b"]), "scores must be numbers.*'a'"),
        (lambda: margin_distribution(["a", "b"], [1, 2]), "y must be numbers.*'a'"),
        (lambda: margin_distribution([0, 1], [1.0, math.nan]), r"scores\[1\] is nan"),
        (lambda: margin_distribution([0, 1], [1.0, math.inf]), r"scores\[1\] is inf"),
        (lambda: margin_distribution([0, 1], [1, 2], norm=0), "positive"),
        (lambda: margin_distribution([0, 1], [1, 2], qid=[1]), "qid has 1 values for 2 rows"),
        (lambda: margin_distribution([0, 1], [1, 2], qid=[1.0, math.nan]), r"qid\[1\] is nan"),
        (lambda: margin_distribution([0, 1], [1, 2], qid=["a", None]), r"qid\[1\] is None"),
        (
            lambda: margin_distribution(Judgments.preferences([0], [1]), [1, 2]),
            "y lists 1 pairs.*pairs_in_order",
        ),
        (lambda: margin_distribution(Judgments([0, 1]), [1, 2], [1, 1]), "qid is given beside"),
        (lambda: push_risk(Judgments([0, 1], [1, 2]), [1, 2], p=2), "y has queries, but push_risk"),
        (lambda: margin_distribution([0, 1], [1, 2], qid=[1, 2]), "no crucial pair"),
        (lambda: margin_distribution([0, 1], [1, 2]).at(math.nan), "NaN"),
        (lambda: margin_bound(0.1, 100, E=0.2, n_rankers=5), "one theta"),
        (lambda: margin_bound(1.1, 100, E=0.2, n_rankers=5, theta=0.1), r"\[0, 1\]"),
        (lambda: margin_bound(0.1, 100, n_rankers=5, theta=0.1), "needs m and E"),
        (lambda: margin_bound(0.1, 100, E=0.7, n_rankers=5, theta=0.1), "E=0.7"),
        (lambda: margin_bound(0.1, 100, E=0.2, n_rankers=0, theta=0.1), "n_rankers=0"),
        (lambda: margin_bound(0.1, 100, E=0.2, n_rankers=5, theta=2), r"\(0, 1\]"),
        (lambda: margin_bound(0.1, 100, E=0.2, n_rankers=5, theta=0.1, delta=5), "delta=5"),
        (lambda: margin_bound(0.1, 100, E=0.2, n_rankers=5, theta=0.1, kind="x"), "choose one"),
        (lambda: covering_bound(0.1, 100, E=0.2, log_covering=3), "one theta"),
        (lambda: covering_bound(0.1, 100, E=0.7, log_covering=3, theta=0.1), "E=0.7"),
        (lambda: covering_bound(0.1, 100, E=0.2, log_covering=-1, theta=0.1), "at least 0"),
        (
            lambda: covering_bound(0.1, 9, E=0.2, log_covering=lambda *_: math.nan, theta=0.1),
            "log_covering is nan",
        ),
        (lambda: sloppy_covering(0, 0.1, 0.1), "n_rankers=0"),
        (lambda: sloppy_covering(3, 0.0, 0.1), "theta=0.0"),
        (lambda: push_risk([0, 1, 2], [1, 2, 3], p=2), "y has 3"),
        (lambda: push_risk([0, 1], [1, 2], p=0.5), "p=0.5"),
        (lambda: push_bound(PushRisk(0.1, 2, 0.0, 5, 5), n_rankers=3), "θ > 0"),
        (lambda: push_bound([], n_rankers=3), "θ > 0"),
        (lambda: push_bound(PushRisk(0.1, 2, 0.1, 5, 5), n_rankers=0), "n_rankers=0"),
        (
            lambda: push_bound(
                [PushRisk(0.1, 2, 0.1, 5, 5), PushRisk(0.1, 3, 0.2, 5, 5)], n_rankers=3
            ),
            "vary theta only",
        ),
        (lambda: negatives_needed(0, 0.1), "p=0"),
        (lambda: negatives_needed(2, 5), "epsilon=5"),
        (lambda: training_bound([1.5]), r"\[−1, 1\]"),
        (lambda: training_bound([-0.5], given="normalisers"), "not negative"),
        (lambda: training_bound([0.5], kind="x"), "kind='x'; choose one of rankboost, rankboost_"),
        (lambda: training_bound([0.5], given="x"), "given='x'; choose one of edges, normalisers"),
        (lambda: training_bound([]), r"values has shape \(0,\)"),
        (lambda: rademacher_bound([1, 2, 3], radius=1), r"shape \(3,\)"),
        (lambda: rademacher_bound([["a"]] * 4, radius=1), "X must be numbers"),
        (lambda: rademacher_bound(np.ones((9, 1)), radius=0), "radius=0; .* above 0 and below 700"),
        (lambda: rademacher_bound(np.ones((9, 1)), radius=800), "radius=800; .* below 700"),
        (lambda: rademacher_bound(np.ones((9, 1)), radius=1, n_draws=0), "n_draws=0"),
        (
            lambda: rademacher_bound(np.ones((9, 1)), radius=1, cost="x"),
            "cost='x'; choose one of exponential, logistic, hinge",
        ),
        (
            lambda: rademacher_bound(np.ones((9, 1)), radius=1, constants="x"),
            "constants='x'; choose one of proved, printed",
        ),
        (
            lambda: push_bound(PushRisk(0.1, 2, 0.1, 5, 5), n_rankers=3, kind="x"),
            "kind='x'; choose one of combination, finite",
        ),
        (
            lambda: small_step_bound(0, target_norm=1, start_risk=1, target_risk=0, curvature=1),
            "s=0 is out of range",
        ),
        (
            lambda: convergence_bound(
                [-1], target_norm=1, start_risk=1, target_risk=0, curvature=1
            ),
            "must not be negative",
        ),
        (
            lambda: convergence_bound(
                [1], target_norm=-1, start_risk=1, target_risk=0, curvature=1
            ),
            "target_norm=-1 is out of range",
        ),
        (
            lambda: convergence_bound([1], target_norm=1, start_risk=1, target_risk=0, curvature=0),
            "curvature=0 is out of range",
        ),
        (lambda: stump_supremum([[1.0]], [math.nan]), "finite"),
        (lambda: stump_supremum(np.ones((0, 1)), []), "rows must agree"),
        (lambda: stump_supremum([[1.0]], [1, 1]), "rows must agree"),
    ],
)
def test_bad_input_is_refused_with_value_and_remedy(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_kernels_are_plain_python_too():
    rng = np.random.default_rng(0)
    starts, grade, s = np.array([0, 5, 9]), rng.integers(0, 3, 9), rng.normal(size=9)
    s = np.concatenate([np.sort(s[:5]), np.sort(s[5:])])
    cases = {
        "_count_small": (starts, grade, s, 1.5, 0.2),
        "_count_close": (s[:5], s[5:], 1.0, 0.3),
    }
    for name, args in cases.items():
        kernel = getattr(bounds, name, None) or getattr(margin, name)
        plain = getattr(kernel, "py_func", kernel)  # the same where the JIT is switched off
        assert np.array_equal(kernel(*args), plain(*args))
    assert MarginDistribution.__dataclass_params__.frozen
