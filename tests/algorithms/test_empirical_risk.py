"""Exact minimization of the empirical ranking risk against every member and every pair."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import naive_evaluation as naive
from precede import Judgments, Stump, minimize_ranking_risk
from precede.inference import ranking_risk
from precede.weak_rankers.columns import Column

number = st.sampled_from([0.0, 1.0, 2.0, -1.5]) | st.floats(-5, 5)
feature = number | st.just(np.nan)


@st.composite
def problems(draw, values):
    n, d = draw(st.integers(2, 9)), draw(st.integers(1, 3))
    X = draw(st.lists(st.lists(values, min_size=d, max_size=d), min_size=n, max_size=n))
    y = draw(st.lists(st.integers(0, 3) | st.just(np.nan), min_size=n, max_size=n))
    qid = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    row = st.integers(0, n - 1)
    pairs = draw(st.lists(st.tuples(row, row).filter(lambda p: p[0] != p[1]), max_size=4))
    judgments = Judgments(y, qid, pairs=pairs if pairs else None)
    assume(any(naive.least_errors(X, y, qid, pairs, [[0.0] * n], False)[3:]))
    return np.array(X, float), y, qid, pairs, judgments


def check(found, expected, sample):
    least, count, members, pairs = expected
    X, y, qid, listed, _ = sample
    assert found.n_pairs == pairs
    assert (found.n_members, found.n_minimizers) == (members, count)
    assert found.pair_error == least / (2 * pairs)
    # The score that was returned does have that risk.
    assert naive.least_errors(X, y, qid, listed, [found.predict(X)], False)[0] == least


@settings(max_examples=150, deadline=None)
@given(problems(feature), st.booleans())
def test_the_best_stump_is_the_best_of_all_listed(sample, reverse):
    X, y, qid, pairs, judgments = sample
    members = naive.all_stumps(X, reverse) or [[0.0] * len(y)]
    expected = naive.least_errors(X, y, qid, pairs, members, reverse)
    if not naive.all_stumps(X):
        expected = (expected[0], 1, 1, expected[3])
    check(minimize_ranking_risk(X, judgments, reverse=reverse), expected, sample)


@settings(max_examples=100, deadline=None)
@given(problems(number), st.booleans())
def test_the_best_column_is_the_best_of_all_listed(sample, reverse):
    X, y, qid, pairs, judgments = sample
    expected = naive.least_errors(X, y, qid, pairs, X.T.tolist(), reverse)
    for weak_rankers in ("columns", [lambda X, j=j: X[:, j] for j in range(X.shape[1])]):
        check(
            minimize_ranking_risk(X, judgments, weak_rankers=weak_rankers, reverse=reverse),
            expected,
            sample,
        )


def test_the_risk_is_the_u_statistic_of_the_score():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 3)), rng.integers(0, 4, 80)
    for weak_rankers in ("stumps", "columns"):
        found = minimize_ranking_risk(X, y, weak_rankers=weak_rankers)
        assert found.risk == pytest.approx(ranking_risk(y, found.predict(X)).value)
        within = ranking_risk(y, found.predict(X), pairs="comparable").value
        assert found.pair_error == pytest.approx(within)


def test_ties_go_to_the_first_member_and_are_counted():
    X, y = [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]], [0, 1, 1]
    found = minimize_ranking_risk(X, y)
    assert (found.weak_ranker, found.sign) == (Stump(0, 0.5), 1)
    assert (found.n_minimizers, found.n_members) == (2, 8)
    turned = minimize_ranking_risk(X, [1, 0, 0], weak_rankers="columns")
    assert (turned.weak_ranker, turned.sign, turned.n_minimizers) == (Column(0), -1, 2)


def test_missing_values_against_present_ones_are_a_stump_in_either_direction():
    X = [[np.nan], [np.nan], [1.0], [2.0]]
    for y, stump in [([1, 1, 0, 0], Stump(0, np.inf, 1)), ([0, 0, 1, 1], Stump(0, -np.inf))]:
        found = minimize_ranking_risk(X, y, reverse=False)
        assert (found.pair_error, found.weak_ranker, found.n_members) == (0.0, stump, 4)
        both = minimize_ranking_risk(X, y)
        assert (both.pair_error, both.weak_ranker, both.n_members) == (0.0, Stump(0, -np.inf), 6)


def test_the_rule_puts_ties_above():
    found = minimize_ranking_risk([[0.0], [1.0]], [0, 1])
    assert found.rule([[1.0], [0.0], [1.0]], [[0.0], [1.0], [1.0]]).tolist() == [1, -1, 1]


def test_thresholds_are_not_binned():
    """More distinct values than any histogram of 255 bins can tell apart."""
    X = np.arange(2000.0)[:, None]
    y = (np.arange(2000) > 1234).astype(int)
    found = minimize_ranking_risk(X, y)
    assert (found.weak_ranker, found.risk) == (Stump(0, 1234.5), 0.0)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"y": [1, 1, 1]}, "no pair to order"),
        ({"y": [0, 1]}, "y has 2 values and X has 3 rows"),
        ({"y": [0, 1, 1], "weak_rankers": "trees"}, "weak_rankers='trees'"),
        ({"y": [0, 1, 1], "weak_rankers": []}, r"weak_rankers=\[\]"),
        ({"y": [0, 1, 1], "weak_rankers": [lambda X: X[:1]]}, "score 0 .*1 values for 3 rows"),
        ({"y": Judgments([0, 1, 1], weight=[1, 2, 1])}, "has a weight"),
        ({"y": Judgments([0, 1, 1]), "qid": [1, 1, 1]}, "with Judgments"),
    ],
)
def test_what_cannot_be_minimized_is_refused(arguments, told):
    with pytest.raises(ValueError, match=told):
        minimize_ranking_risk([[0.0], [1.0], [2.0]], **arguments)
