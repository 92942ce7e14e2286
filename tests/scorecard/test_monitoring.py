"""The logistic regression of outcomes on scores, and population stability."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression

import naive_scorecard as naive
from precede.scorecard import fit_log_odds, population_stability


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
def test_invalid_scores_and_outcomes_are_rejected(scores, y, message):
    with pytest.raises(ValueError, match=message):
        fit_log_odds(scores, y)


# -- population stability ---------------------------------------------------------------------


NAMES = st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=12)
NUMBERS = st.lists(st.sampled_from([0.0, 1.0, 2.0, 2.5, np.nan]), min_size=1, max_size=12)


@given(NAMES, NAMES)
def test_categories_are_bins(one, other):
    (found,) = population_stability(pd.DataFrame({"x": one}), pd.DataFrame({"x": other}))
    names = [["missing" if v is None else v for v in each] for each in (one, other)]
    assert found.psi == pytest.approx(naive.stability(*names))


@given(NUMBERS, NUMBERS)
def test_numbers_fall_into_bins_of_the_reference(one, other):
    (found,) = population_stability(np.array(one), np.array(other), bins=100)
    known = sorted({x for x in one if not np.isnan(x)})

    def label(x):
        # With so many quantiles every value of the reference but the last is the end of a bin.
        return "missing" if np.isnan(x) else sum(x > cut for cut in known[:-1])

    expected, actual = [label(x) for x in one], [label(x) for x in other]
    everything = [
        *range(max(1, len(known))),
        *(["missing"] if "missing" in expected + actual else []),
    ]
    half, psi = len(everything) / 2, 0.0
    for each in everything:
        e = (expected.count(each) + 0.5) / (len(one) + half)
        a = (actual.count(each) + 0.5) / (len(other) + half)
        psi += (a - e) * np.log(a / e)
    assert found.psi == pytest.approx(psi)
    assert len(found.bins) == len(everything)
    assert sum(found.expected) == pytest.approx(1)
    assert found.to_frame()["psi"].sum() == pytest.approx(found.psi)


def test_whole_numbers_are_one_category_whatever_their_type():
    integers = np.array([[1], [2], [3]] * 20)
    mixed = np.array([[1.0], [np.float32(2)], ["3"]] * 20, object)
    (found,) = population_stability(integers, mixed)
    assert found.bins == ("1", "2", "3")
    assert found.psi == 0


def test_chance_is_not_reported_as_a_shift():
    """Samples of one distribution exceed the limit with the nominal probability."""
    rng = np.random.default_rng(0)
    found = [
        population_stability(rng.normal(size=400), rng.normal(size=300))[0] for _ in range(300)
    ]
    above = np.mean([each.psi > each.by_chance for each in found])
    assert 0.02 < above < 0.10
    assert 0.02 < np.mean([each.p < 0.05 for each in found]) < 0.10


def test_frames_of_several_columns():
    one = {"a": [1.0, 2.0, 3.0, 4.0], "b": ["x", "y", "x", "x"]}
    other = {"a": [9.0, 9.0, 9.0, None], "b": ["x", "y", "x", "z"]}
    for frame in (pd.DataFrame, pl.DataFrame):
        a, b = population_stability(frame(one), frame(other), bins=2)
        assert (a.name, a.bins) == ("a", ("up to 2", "above 2", "missing"))
        assert (b.name, b.bins) == ("b", ("x", "y", "z"))
    assert str(a).startswith("a: PSI ")


def test_incomparable_tables_are_rejected():
    with pytest.raises(ValueError, match="different columns: a and b"):
        population_stability(pd.DataFrame({"a": [1]}), pd.DataFrame({"b": [1]}))
    with pytest.raises(ValueError, match="no rows"):
        population_stability([], [1.0])
    with pytest.raises(ValueError, match="bins=1 is out of range"):
        population_stability([1.0], [1.0], bins=1)
    with pytest.raises(ValueError, match="scores or a table"):
        population_stability(np.zeros((1, 1, 1)), np.zeros((1, 1, 1)))
