"""Margin bounds against their formulas written out, and their sums against listed pairs."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_evaluation as naive
import strategies as some
from precede import Judgments
from precede.bounds import covering_bound, margin_bound, push_risk, sloppy_covering
from precede.margin import _distribution, margin_distribution


@settings(max_examples=200, deadline=None)
@given(some.judged(), some.GRID, st.sampled_from([1.0, 0.3, 7.0]))
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
    assert found._repr_html_().startswith("<table>")


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


@pytest.mark.parametrize("kind", ["closed", "solved", "finite"])
def test_the_rankers_must_be_fixed_before_the_data(kind):
    """A ranker that memorizes a large sample has margin 1 on it, and errs on every new pair."""
    y = np.tile([0.0, 1.0], 5000)
    bound = margin_bound(margin_distribution(y, y), n_rankers=1, theta=0.999, kind=kind)
    assert bound.value < 0.25
    assert any("fixed before the data were seen" in each for each in bound.assumptions)


@pytest.mark.parametrize("made", [0, 1])
def test_scores_that_span_more_than_one_are_refused(made):
    y, s = [0, 0, 1, 1], [3.0, 3.9, 4.0, 4.1]
    pairs = Judgments(pairs=[(1, 0), (3, 2)], n=4)  # small margins, far apart
    margins = margin_distribution(y, s) if not made else _distribution(pairs, np.array(s), 1.0)
    assert margins.span == pytest.approx(1.1)
    for bound in (
        lambda: margin_bound(margins, n_rankers=5, theta=0.1),
        lambda: covering_bound(margins, log_covering=2.0, theta=0.1),
    ):
        with pytest.raises(ValueError, match=r"norm=1 span 1.1, and the bound is for scores in"):
            bound()
    inside = margin_distribution(y, s, norm=1.1)
    assert margin_bound(inside, n_rankers=5, theta=0.1, kind="solved").value > 0


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
