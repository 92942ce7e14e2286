"""The pull and the quadratic model of a risk."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
import strategies
from precede import Judgments
from precede.risks.pair_risk import PairRisk
from weak_rankers.test_trees import SAMPLE


def test_terms_are_half_of_the_bound():
    for loss, price in [("logistic", 1), ("squared_hinge", 1), ("exponential", 1), ("logistic", 2)]:
        risk = PairRisk(loss, price).bind(Judgments(SAMPLE.y, SAMPLE.qid))
        state = risk.state(np.linspace(0, 1, risk.layout.n_used_rows))
        bound, terms = (risk.pull_of(state).hessian(hessian) for hessian in ("bound", "terms"))
        np.testing.assert_array_equal(terms, bound / 2)


@given(st.data(), st.sampled_from(["logistic", "squared_hinge"]))
@settings(max_examples=60)
def test_the_bound_lies_above_the_second_derivative(data, loss):
    """``R(s + g) <= R(s) - pull·g + sum W g² / 2`` for any g, with the global bound."""
    judgments = data.draw(strategies.judgments(most=8))
    layout = judgments.to_layout()
    if not layout.n_used_rows:
        return
    risk = PairRisk(loss).bind(layout)
    state = risk.state(data.draw(strategies.scores(layout.n_used_rows, spread=3.0)))
    if state.log_gradient_sum == -np.inf:
        return
    move = data.draw(strategies.scores(layout.n_used_rows, spread=3.0))
    weight = risk.pull_of(state).hessian("bound")
    after = np.exp(risk.log_value(state.scores + move) - state.log_gradient_sum)
    before = np.exp(state.log_value - state.log_gradient_sum)
    most = before - state.pull @ move + 0.5 * (weight * move**2).sum()
    assert after <= most * (1 + 1e-9) + 1e-9


def full_hessian(judgments, scores, loss, price, gap, balance):
    """Return the full Hessian of the risk, computed loser by loser."""
    loser_weight, above = (
        naive.loser_weights(judgments, balance),
        naive.divisors(judgments, balance),
    )
    by_loser, hessian = {}, np.zeros((len(judgments), len(judgments)))
    for pair in naive.list_pairs(judgments):
        by_loser.setdefault(pair.loser, []).append(pair)
    with naive.decimal.localcontext(naive.DIGITS):
        for k, pairs in by_loser.items():
            terms = np.zeros((3, len(pairs)), object)
            for j, pair in enumerate(pairs):
                margin = naive.Decimal(scores[pair.winner]) - naive.Decimal(scores[k])
                margin -= naive.Decimal(gap and pair.gap)
                terms[:, j] = [naive.Decimal(pair.inner) * part(margin) for part in loss]
            _, slope, curvature = naive.divided(price, naive.Decimal(above[k]))
            g1, g2 = (
                float(loser_weight[k] * float(part(terms[0].sum()))) for part in (slope, curvature)
            )
            gradient = np.zeros(len(judgments))
            for pair, first, second in zip(pairs, *terms[1:].astype(float), strict=True):
                gradient[pair.winner] += first
                gradient[k] -= first
                rows = np.ix_([pair.winner, k], [pair.winner, k])
                hessian[rows] += g1 * second * np.array([[1, -1], [-1, 1]])
            hessian += g2 * np.outer(gradient, gradient)
    return hessian


@pytest.mark.parametrize("loss", list(strategies.LOSSES))
@pytest.mark.parametrize("price", ["1", "2", "16", "exp", "custom"])
def test_the_bound_minus_the_hessian_is_positive_semidefinite(loss, price):
    """Also for prices above linear, where twice the diagonal is not a bound."""

    @given(
        strategies.judgments(most=8, margins=strategies.LOSSES[loss][2]),
        st.sampled_from(["pairs", "queries"]),
        st.data(),
    )
    @settings(max_examples=20)
    def check(judgments, balance, data):
        scores = data.draw(strategies.scores(len(judgments), spread=1.0))
        ours, twin, gap = strategies.LOSSES[loss]
        our_price, twin_price = strategies.PRICES[price]
        risk = PairRisk(ours, our_price, balance=balance).bind(judgments)
        state = risk.state(scores[risk.layout.order])
        if state.log_gradient_sum == -np.inf:
            return
        weight = risk.layout.to_rows(risk.pull_of(state).hessian("bound")) * np.exp(
            state.log_gradient_sum
        )
        hessian = full_hessian(judgments, scores, twin, twin_price, gap, balance)
        least = np.linalg.eigvalsh(np.diag(weight) - hessian)[0]
        assert least >= -1e-9 * np.abs(hessian).max()

    check()
