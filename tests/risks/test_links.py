"""Links: probabilities of two classes from the scores of a risk, and their intercepts."""

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import expit

from precede import Judgments, Logistic, PairLoss, PairRisk
from precede.engine.execution import Context
from precede.risks.links import Link, fit_intercept, probability
from precede.risks.listwise import ListRisk
from precede.risks.mixture import QuadraticMixture


class Tempered(PairLoss):
    """``log(1 + exp(-3 m))``."""

    log_odds = 3.0

    def value(self, margin):
        return np.logaddexp(0.0, -3.0 * margin)

    def slope(self, margin):
        return -3.0 * expit(-3.0 * margin)


class Changed(Logistic):
    """Another function than that of its base class, and so without its log-odds."""

    def value(self, margin):
        return np.maximum(1 - margin, 0.0)


@pytest.mark.parametrize(
    ("risk", "link"),
    [
        (PairRisk("exponential"), Link(2.0, 1.0)),
        (PairRisk("exponential", 4), Link(5.0, 1.0)),
        (PairRisk("exponential", "exp"), None),
        (PairRisk("logistic"), Link(1.0)),
        (PairRisk("logistic", rank_weight="ndcg"), Link(1.0)),
        (PairRisk("logistic", 2), None),
        (PairRisk("hinge"), None),
        (PairRisk("squared_hinge"), None),
        (PairRisk(Tempered()), Link(3.0)),
        (PairRisk(Changed()), None),
        (ListRisk("query_cross_entropy"), Link(1.0)),
        (ListRisk("softmax"), None),
        (ListRisk("query_rmse"), None),
        (QuadraticMixture(1.0, 0.5, "pairs"), None),
    ],
    ids=repr,
)
def test_a_risk_declares_its_link(risk, link):
    assert risk.link == link


@pytest.mark.parametrize(
    "risk", [PairRisk("exponential"), PairRisk("exponential", 3), PairRisk("logistic"),
             PairRisk(Tempered()), ListRisk("query_cross_entropy")], ids=repr,
)  # fmt: skip
def test_the_least_risk_is_at_the_true_probabilities(risk):
    """Four kinds of rows, each in the proportion of its probability: scores without a model."""
    chances, rows = np.array([0.1, 0.3, 0.6, 0.8]), 10
    kind = np.repeat(np.arange(4), rows)
    y = np.concatenate([np.arange(rows) < chance * rows for chance in chances]).astype(float)
    arranged = Judgments(y).to_layout()
    bound = risk.bind(arranged)

    def value(scores):
        return bound.log_value(np.append(scores, 0.0)[kind][arranged.order])

    precise = {"xatol": 1e-10, "fatol": 1e-15, "maxiter": 4000}
    found = scipy.optimize.minimize(value, np.zeros(3), method="Nelder-Mead", options=precise)
    scores = np.append(found.x, 0.0)
    b = fit_intercept(risk.link, scores[kind][arranged.order], arranged, Context(1))
    assert_allclose(probability(scores + b, risk.link.scale), chances, atol=1e-5)


@given(
    st.lists(st.tuples(st.booleans(), st.floats(-30, 30), st.sampled_from([0.5, 1.0, 2.0])),
             min_size=2, max_size=20),
    st.sampled_from([1.0, 3.0]), st.floats(1, 8),
)  # fmt: skip
def test_the_intercept_solves_its_equation(rows, scale, power):
    positive = np.array([row[0] for row in rows])
    scores, weight = np.array([row[1] for row in rows]), np.array([row[2] for row in rows])
    if positive.all() or not positive.any():
        return
    arranged = Judgments(positive, weight=weight).to_layout()
    at = scores[arranged.order]
    b = fit_intercept(Link(scale), at, arranged, Context(1))
    mean = np.average(expit(scale * (scores + b)), weights=weight)
    assert mean == pytest.approx(np.average(positive, weights=weight), rel=1e-9)
    b = fit_intercept(Link(1 + power, 1.0), at, arranged, Context(1))
    plus = (weight * np.exp(-(scores + b)))[positive].sum()
    minus = (weight * np.exp(power * (scores + b)))[~positive].sum()
    assert plus == pytest.approx(minus, rel=1e-9)


def test_probabilities_of_extreme_scores():
    assert_allclose(probability(np.array([-1e6, 0.0, 1e6]), 2.0), [0.0, 0.5, 1.0])
