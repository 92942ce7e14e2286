"""Coordinate descent with every loss and price."""

import numpy as np
import pytest

import strategies as some
from boosting.test_loop import GRADES, NOISY, plan, prepare
from precede import Judgments, PairRisk
from precede.boosting.coordinate_descent import run


@pytest.mark.parametrize("price", [1, 4])
@pytest.mark.filterwarnings("ignore:.*stall above:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("loss", [loss for loss in some.LOSSES if loss != "hinge with margin 0"])
def test_every_loss_and_price_can_be_boosted(loss, price):
    """By line search; the risk never rises."""
    risk = PairRisk(some.LOSSES[loss][0], price)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2))
    made = Judgments(np.digitize(X[:, 0] + rng.standard_normal(40), [-1, 1]))
    result = run(plan(4, risk=risk), prepare(X, made))
    assert len(result.ensemble) == 4
    assert np.all(np.diff([0.0, *result.history["log_risk"]][1:]) <= 1e-12)


def test_hinge_boosting_ends_where_every_pair_is_beyond_its_margin():
    """The risk is 0 and its logarithm minus infinity: no NaN, and a reason."""
    risk = PairRisk("squared_hinge")
    result = run(plan(50, risk=risk), prepare([[0.0], [1.0]], Judgments([0, 1])))
    assert result.reason == "no weak ranker improves the risk"
    assert result.history["risk"][-1] == pytest.approx(0.0, abs=1e-20)


def test_decrease_is_for_the_exponential_loss_without_a_push():
    for risk in (PairRisk("logistic"), PairRisk("exponential", 4)):
        with pytest.raises(ValueError, match=r"select='decrease'.*use select='slope'"):
            run(plan(risk=risk, select="decrease"), prepare(NOISY, GRADES))
