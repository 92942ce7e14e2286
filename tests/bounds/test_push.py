"""The bound of the p-norm push against its formula, and its sum against the listed pairs."""

import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import naive_evaluation as naive
import strategies as some
from precede.bounds import PushRisk, negatives_needed, push, push_bound, push_risk


@settings(max_examples=100, deadline=None)
@given(some.judged(grades=2, queries=False), st.sampled_from([1.0, 2.0, 3.5]), some.GRID)
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
            good = push._push_epsilon(risk, 1.0, 10, "finite", 0.05) <= 0.5
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
