"""The pull that passes from a risk to a search, and its quadratic model."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from precede import Judgments
from precede.risks.pair_risk import PairRisk
from rankers.test_trees import SAMPLE


def test_terms_are_half_of_the_bound():
    for loss in ("logistic", "squared_hinge", "exponential"):
        risk = PairRisk(loss).bind(Judgments(SAMPLE.y, SAMPLE.qid))
        state = risk.state(np.linspace(0, 1, risk.arrangement.n_arranged))
        bound, terms = (risk.pull_of(state).hessian(hessian) for hessian in ("bound", "terms"))
        np.testing.assert_array_equal(terms, bound / 2)


@given(st.data(), st.sampled_from(["logistic", "squared_hinge"]))
@settings(max_examples=60)
def test_the_bound_lies_above_the_second_derivative(data, loss):
    """``R(s + g) <= R(s) - pull·g + sum W g² / 2`` for any g, with the global bound."""
    judgments = data.draw(strategies.judgments(most=8))
    arrangement = judgments.arrange()
    if not arrangement.n_arranged:
        return
    risk = PairRisk(loss).bind(arrangement)
    state = risk.state(data.draw(strategies.scores(arrangement.n_arranged, spread=3.0)))
    if state.log_mass == -np.inf:
        return
    move = data.draw(strategies.scores(arrangement.n_arranged, spread=3.0))
    weight = risk.pull_of(state).hessian("bound")
    after = np.exp(risk.log_value(state.scores + move) - state.log_mass)
    before = np.exp(state.log_value - state.log_mass)
    most = before - state.pull @ move + 0.5 * (weight * move**2).sum()
    assert after <= most * (1 + 1e-9) + 1e-9
