"""What all bounds have in common, and what they refuse."""

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precede import Judgments, margin
from precede.bounds import (
    PushRisk,
    convergence_bound,
    covering_bound,
    margin_bound,
    negatives_needed,
    push,
    push_bound,
    push_risk,
    rademacher_bound,
    sloppy_covering,
    small_step_bound,
    stump_supremum,
    training_bound,
)
from precede.engine.compiling import interpreted
from precede.margin import MarginDistribution, margin_distribution


def test_bounds_are_frozen_print_and_serialize():
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
        (lambda: margin_distribution(Judgments([0, 1]), [1, 2], [1, 1]), "qid is given with"),
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
        (lambda: training_bound([-0.5], given="normalizers"), "not negative"),
        (lambda: training_bound([0.5], kind="x"), "kind='x'; choose one of rankboost, rankboost_"),
        (lambda: training_bound([0.5], given="x"), "given='x'; choose one of edges, normalizers"),
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


def test_kernels_are_plain_python_too(monkeypatch):
    rng = np.random.default_rng(0)
    starts, grade, s = np.array([0, 5, 9]), rng.integers(0, 3, 9), rng.normal(size=9)
    s = np.concatenate([np.sort(s[:5]), np.sort(s[5:])])
    counted = starts, grade, s, 1.5, 0.2
    close = s[:5], s[5:], 1.0, 0.3
    compiled = margin._count_small(*counted, np.zeros(4, np.int64)), push._count_close(*close)
    for name in ("add_to_fenwick_tree", "sum_of_fenwick_tree"):  # only kernels can call these
        monkeypatch.setattr(margin, name, interpreted(getattr(margin, name)))
    plain = interpreted(margin._count_small)(*counted, np.zeros(4, np.int64))
    assert np.array_equal(compiled[0], plain)
    assert np.array_equal(compiled[1], interpreted(push._count_close)(*close))
    assert MarginDistribution.__dataclass_params__.frozen


# -- bounds on training -----------------------------------------------------------------------


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
