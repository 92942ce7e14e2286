"""Risks of any loss by sums over pairs: long queries, and losses without a form."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import strategies as some
from precede import Hinge, Judgments, PairRisk


@pytest.mark.parametrize("price", [1, 4])
@pytest.mark.parametrize(("levels", "width"), [(2, 6.0), (5, 30.0), (40, 3.0)])
def test_logistic_risk_of_a_large_query(price, levels, width):
    """Splits of thousands of rows go through Chebyshev moments: 1e-12 against all pairs."""
    rng = np.random.default_rng(levels)
    n = 2500
    grade = rng.integers(0, levels, n).astype(float)
    scores = width * rng.standard_normal(n) / 2
    weight = rng.choice([0.5, 1.0, 3.0], n)
    made = Judgments(grade, weight=weight)
    margin = scores[:, None] - scores[None, :]
    above = (grade[:, None] > grade[None, :]) * weight[:, None]
    loss_sum = (above * np.logaddexp(0, -margin)).sum(axis=0, where=above > 0)
    price_slope = (
        weight * price * np.where(loss_sum > 0, loss_sum, 1) ** (price - 1) * (loss_sum > 0)
    )
    force = above * np.exp(-np.logaddexp(0, margin)) * price_slope[None, :]
    risk = PairRisk("logistic", price)
    assert_allclose(risk.value(made, scores), (weight * loss_sum**price).sum(), rtol=1e-12)
    expected = force.sum(axis=1) - force.sum(axis=0)
    assert_allclose(risk.pull(made, scores), expected, atol=1e-12 * force.sum())


def test_a_loss_without_a_form_is_summed_in_tiles(monkeypatch):
    """Many tiles of a few rows give what one tile gives."""
    from precede.risks import sweeps as sums

    rng = np.random.default_rng(0)
    made = Judgments(rng.integers(0, 3, 60), qid=rng.integers(0, 2, 60))
    scores = rng.integers(-20, 20, 60) / 8
    risk = PairRisk(some.Hyperbolic(), 2)
    whole = risk.pull(made, scores)
    monkeypatch.setattr(sums, "TILE_ROWS", 7)
    assert_allclose(risk.pull(made, scores), whole, rtol=1e-13)


@pytest.mark.parametrize("rows", [300, 20_000])
def test_pairs_on_the_kink_of_a_hinge_count_for_both_rows_or_neither(rows):
    """Decimal fractions: sums over winners and over losers compare the same rounded numbers."""
    rng = np.random.default_rng(0)
    made = Judgments(rng.integers(0, 2, rows))
    risk = PairRisk(Hinge(), 2).bind(made)
    pull = risk.state(rng.integers(-30, 30, rows) / 10).pull
    assert abs(pull.sum()) < 1e-11
