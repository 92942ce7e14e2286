"""Synthetic problems have the answers they promise."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from precede.datasets import (
    bradley_terry,
    excess_ranking_risk,
    search_results,
    two_normals,
    uniform_regression,
)

MAKE = {
    "two_normals": lambda seed: two_normals(50, random_state=seed),
    "search_results": lambda seed: search_results(5, features=8, random_state=seed),
    "uniform_regression": lambda seed: uniform_regression(50, random_state=seed),
}


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_equal_seeds_give_equal_samples_and_others_do_not(make):
    one, same, other = make(0), make(0), make(1)
    np.testing.assert_array_equal(one.X, same.X)
    np.testing.assert_array_equal(one.y, same.y)
    assert one.X.shape != other.X.shape or not np.array_equal(one.X, other.X)


@pytest.mark.parametrize("make", [two_normals, uniform_regression])
def test_the_best_share_of_pairs_is_that_of_the_truth(make):
    sample = make(40_000, random_state=0)
    assert roc_auc_score(sample.y, sample.truth) == pytest.approx(sample.best, abs=0.01)


def test_grades_of_search_results_have_their_shares():
    sample = search_results(400, features=8, random_state=0)
    shares = np.bincount(sample.y) / sample.y.size
    np.testing.assert_allclose(shares, [0.52, 0.32, 0.13, 0.02, 0.01], atol=1e-3)
    assert np.bincount(sample.qid).min() >= 2


def test_the_excess_risk_is_that_of_all_pairs():
    rng = np.random.default_rng(0)
    eta, scores = rng.random(30), rng.integers(0, 5, 30)
    total = 0.0
    for i in range(30):
        for k in range(30):
            gap = eta[i] - eta[k]
            order = np.sign(scores[i] - scores[k]) * np.sign(gap)
            total += abs(gap) * (1 - order) / 2
    assert excess_ranking_risk(scores, eta) == pytest.approx(total / (30 * 29))
    assert excess_ranking_risk(eta, eta) == 0.0


def test_stronger_items_win_more_often():
    X, judgments = bradley_terry(20, 4000, features=1, random_state=0)
    assert (judgments.pairs[:, 0] != judgments.pairs[:, 1]).all()
    assert X.shape == (20, 1)
    wins = np.bincount(judgments.pairs[:, 0], minlength=20)
    games = wins + np.bincount(judgments.pairs[:, 1], minlength=20)
    # The strength is a multiple of tanh of the one feature.
    assert abs(np.corrcoef(np.tanh(X[:, 0]), wins / games)[0, 1]) > 0.7
