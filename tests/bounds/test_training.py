"""Bounds on training against boosting as the papers print it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precede.bounds import (
    convergence_bound,
    small_step_bound,
    training_bound,
)


def boost(y, X, rounds, plus):
    """RankBoost, discrete or plus, on all pairs, written as in the paper."""
    pairs = [(i, k) for i in range(len(y)) for k in range(len(y)) if y[i] > y[k]]
    weak_rankers = [(j, t) for j in range(X.shape[1]) for t in np.unique(X[:, j])[:-1]]
    M = np.array([[(X[i, j] > t) * 1 - (X[k, j] > t) for j, t in weak_rankers] for i, k in pairs])
    D = np.full(len(pairs), 1 / len(pairs))
    weight = np.zeros(len(weak_rankers))
    edges, normalizers = [], []
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
        normalizers.append(float(D @ factor))
        D = D * factor / normalizers[-1]
        weight[best] += step
    margin = M @ weight
    tied = (abs(margin) < 1e-12).mean()
    wrong = (margin < -1e-12).mean()
    return edges, normalizers, wrong + (0.5 * tied if plus else tied)


@pytest.mark.parametrize("kind", ["rankboost", "rankboost_plus"])
@pytest.mark.parametrize("seed", range(5))
def test_training_bounds_hold_on_boosting_as_in_the_paper(kind, seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, size=(14, 3)).astype(float)
    y = (X.sum(axis=1) + 2 * rng.normal(size=14) > 4).astype(int)
    y[:2] = [0, 1]
    edges, normalizers, error = boost(y, X, 12, kind == "rankboost_plus")
    product = training_bound(normalizers, kind=kind, given="normalizers")
    closed = training_bound(edges, kind=kind)
    assert error <= product.value + 1e-12
    assert product.value <= closed.value + 1e-12
    assert product.value == pytest.approx(np.prod(normalizers))
    assert closed.value == pytest.approx(math.exp(-2 * sum((e / 2) ** 2 for e in edges)))
    assert (product.confidence, product.needed_samples) == (1.0, None)
    assert ("half" if kind == "rankboost_plus" else "wrong") in product.quantity


def test_training_bound_of_thousands_of_rounds_does_not_fail():
    assert training_bound(np.full(100_000, 0.5)).value == 0.0
    assert training_bound([0.5, 0.0], given="normalizers").value == 0.0
    assert training_bound([0.0]).vacuous
    assert "no sample size" in str(training_bound([0.0]))


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
