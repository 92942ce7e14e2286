"""The logistic regression of outcomes on scores."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression

from precede.scorecard import fit_log_odds


def sample(n=500, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    score = scale * rng.normal(size=n) + 100 * scale
    return score, rng.random(n) < 1 / (1 + np.exp(-(score / scale - 99)))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
def test_the_fit_maximizes_the_likelihood(scale):
    score, y = sample(scale=scale)
    found = fit_log_odds(score, y)
    z = (score - score.mean()) / score.std()
    other = LogisticRegression(C=1e12, tol=1e-12, max_iter=1000).fit(z[:, None], y)
    assert_allclose(found.slope * score.std(), other.coef_[0, 0], rtol=1e-5)
    assert_allclose(found(score.mean()), other.intercept_[0], rtol=1e-5)
    p = 1 / (1 + np.exp(-found(score)))
    assert_allclose([(y - p).mean(), ((y - p) * z).mean()], 0, atol=1e-9)
    w = p * (1 - p)
    information = np.array([[w.sum(), (w * z).sum()], [(w * z).sum(), (w * z * z).sum()]])
    error = np.sqrt(np.linalg.inv(information)[1, 1])
    assert_allclose(found.slope_error * score.std(), error, rtol=1e-6)


def test_the_order_of_the_rows_does_not_matter():
    score, y = sample()
    order = np.random.default_rng(1).permutation(len(y))
    assert fit_log_odds(score, y) == fit_log_odds(score[order], y[order])


def test_the_good_label_may_be_the_smaller():
    score, y = sample()
    one, other = fit_log_odds(score, y), fit_log_odds(score, y, good=False)
    assert other.slope == pytest.approx(-one.slope)
    assert other.goods == len(y) - one.goods


@pytest.mark.parametrize(
    ("scores", "y", "message"),
    [
        ([1.0, 2.0, 3.0], [0, 1, 1], "separate the two classes"),
        ([1.0, 1.0, 1.0], [0, 1, 1], "separate the two classes"),
        ([1.0, 2.0, np.nan], [0, 1, 0], r"scores\[2\] is nan"),
        ([1.0, 2.0], [0, 1, 0], "scores has 2 values for 3 rows"),
        ([1.0, 2.0, 3.0], [0, 1, 2], "3 different labels"),
        (
            [1.0, 2.0, 3.0],
            ["low", "high", "low"],
            "use good='low' if 'low' stands for the rows that should get more",
        ),
    ],
)
def test_invalid_inputs_are_rejected(scores, y, message):
    with pytest.raises(ValueError, match=message):
        fit_log_odds(scores, y)
