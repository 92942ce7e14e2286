"""What all bounds have in common, and what they refuse."""

import dataclasses
import json
import math

import numpy as np
import pytest

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


def test_kernels_are_plain_python_too():
    rng = np.random.default_rng(0)
    starts, grade, s = np.array([0, 5, 9]), rng.integers(0, 3, 9), rng.normal(size=9)
    s = np.concatenate([np.sort(s[:5]), np.sort(s[5:])])
    cases = [
        (margin._count_small, (starts, grade, s, 1.5, 0.2, np.zeros(4, np.int64))),
        (push._count_close, (s[:5], s[5:], 1.0, 0.3)),
    ]
    for kernel, args in cases:
        plain = getattr(kernel, "py_func", kernel)  # the same where the JIT is switched off
        assert np.array_equal(kernel(*args), plain(*args))
    assert MarginDistribution.__dataclass_params__.frozen
