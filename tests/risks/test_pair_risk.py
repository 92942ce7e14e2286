"""Risk, pull, curvature and edge weights, compared with a naive implementation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import naive
import strategies as some
from precede import Exp, Judgments, PairRisk
from precede.judgments import number_queries
from precede.risks.by_level import SeparableRisk
from precede.risks.line_search import line_search
from precede.risks.pair_sums import OnePassRisk, TwoPassRisk

EVERY_LOSS = pytest.mark.parametrize("loss", some.LOSSES)
EVERY_PRICE = pytest.mark.parametrize("price", some.PRICES)
# One loss of each form, for the laws that do not need every one.
EVERY_FORM = pytest.mark.parametrize(
    "loss",
    ["exponential", "logistic", "hinge with gaps", "spline", "hyperbolic without a form"],
)


def relative(price):
    """Sums of exponentials of exponentials keep fewer digits."""
    return 1e-10 if price == "exp" else 1e-12


def spread(price):
    """Exp has to stay within what ``exp(exp(2·spread))`` leaves of the digits."""
    return 2.0 if price == "exp" else 8.0


@st.composite
def situations(draw, price, kind=None, loss="exponential"):
    made = draw(some.judgments(kind=kind, margins=some.LOSSES[loss][2]))
    balance = draw(st.sampled_from(["pairs", "queries", "items"]))
    return made, draw(some.scores(len(made), spread=spread(price))), balance


def at(made, scores, balance, loss, price):
    """State of the library and of the naive implementation at the same scores."""
    ours, twin, gap = some.LOSSES[loss]
    our_price, twin_price = some.PRICES[price]
    bound = PairRisk(ours, our_price, balance=balance).bind(made)
    state = bound.state(scores[bound.layout.order])
    return bound, state, naive.risk(made, scores, twin, twin_price, gap=gap, balance=balance)


def assert_same_state(bound, state, expected, tolerance):
    logs = np.array([state.log_value, state.log_gradient_sum])
    wanted = np.array([expected.log_value, naive_log(expected.mass)])
    # A logarithm of a thousand has the rounding of a thousand.
    assert_allclose(logs, wanted, rtol=tolerance / 100, atol=tolerance)
    assert_allclose(
        bound.layout.to_rows(state.pull), expected.normalized_pull, rtol=0, atol=tolerance
    )


def naive_log(number):
    with naive.decimal.localcontext(naive.DIGITS):
        return float(number.ln()) if number > 0 else -math.inf


# -- value and pull --------------------------------------------------------------------------


@EVERY_LOSS
@EVERY_PRICE
def test_value_and_pull_are_those_of_enumeration(loss, price):
    """Every loss, price, form, balance and kind of judgments."""

    @given(situations(price, loss=loss))
    @settings(max_examples=12)
    def check(situation):
        made, scores, balance = situation
        bound, state, expected = at(made, scores, balance, loss, price)
        assert_same_state(bound, state, expected, relative(price))

    check()


@pytest.mark.parametrize("price", [1, 4, 16, "exp"])
def test_balanced_queries_have_equal_shares_of_the_pull_at_scores_0(price):
    """Two queries of 25 rows, with 5 and 20 positives."""
    made = Judgments(np.repeat([1, 0, 1, 0], [5, 20, 20, 5]), qid=np.repeat([0, 1], 25))
    pull = PairRisk("exponential", price, balance="queries").pull(made, np.zeros(50))
    first, second = np.maximum(pull, 0).reshape(2, 25).sum(axis=1)
    assert first == pytest.approx(second, rel=1e-12)


@EVERY_FORM
@EVERY_PRICE
def test_a_balanced_price_leaves_the_pull_at_scores_0_as_it_is(loss, price):
    """For any grades, weights and explicit pairs, it is that of a linear price."""
    ours, _, gap = some.LOSSES[loss]
    if gap:  # pairs that ask for different margins do not lose the same at scores 0
        ours = "hinge"

    @given(some.judgments(), st.sampled_from(["queries", "items"]))
    @settings(max_examples=12)
    def check(made, balance):
        pulls = []
        for one in (some.PRICES[price][0], 1):
            bound = PairRisk(ours, one, balance=balance).bind(made)
            pulls.append(bound.state(np.zeros(bound.layout.n_used_rows)).pull)
        assert_allclose(pulls[0], pulls[1], atol=1e-12)

    check()


@given(situations("1"))
def test_value_and_pull_of_pair_risk_are_not_normalized(situation):
    """`PairRisk` returns R and -dR/ds, one number per row."""
    made, scores, balance = situation
    risk = PairRisk("exponential", balance=balance)
    expected = naive.risk(made, scores, naive.exponential(), naive.power_price(1), balance=balance)
    mass = float(expected.mass)
    assert_allclose(risk.value(made, scores), float(expected.value), rtol=1e-12)
    assert_allclose(risk.pull(made, scores), [float(p) for p in expected.pull], atol=1e-12 * mass)


def test_a_price_between_linear_and_square_has_a_curvature_where_nothing_is_lost():
    """``u^1.5`` is infinitely curved at 0, but the second row is beyond its margin of the first."""
    found = PairRisk("squared_hinge", 1.5).curvature(Judgments([1, 0, 0]), [5.0, 0.0, 6.0])
    assert_allclose(found, [12.0, 0.0, 12.0])


@EVERY_LOSS
@pytest.mark.parametrize("price", ["1", "4", "custom"])
def test_curvature_is_that_of_enumeration(loss, price):
    """The diagonal of the second derivative, pairs that are both graded and listed included."""

    @given(situations(price, loss=loss))
    @settings(max_examples=12)
    def check(situation):
        made, scores, balance = situation
        bound, state, expected = at(made, scores, balance, loss, price)
        if state.log_gradient_sum == -np.inf:
            return
        found = bound.layout.to_rows(bound.curvature(state))
        wanted = expected.normalized_curvature
        assert_allclose(found, wanted, rtol=10 * relative(price), atol=relative(price))

    check()


@EVERY_LOSS
@pytest.mark.parametrize("price", ["1", "4"])
def test_masses_are_those_of_enumeration(loss, price):
    """Weights of the pairs ordered correctly, wrongly and tied by a ranker of 0s and 1s."""

    @given(situations(price, loss=loss), st.data())
    @settings(max_examples=10)
    def check(situation, data):
        made, scores, balance = situation
        size = len(made)
        ranker = np.array(data.draw(st.lists(st.integers(0, 1), min_size=size, max_size=size)))
        ours, twin, gap = some.LOSSES[loss]
        our_price, twin_price = some.PRICES[price]
        found = PairRisk(ours, our_price, balance=balance).edge_weights(made, scores, ranker)
        wanted = naive.edge_weights(
            made, scores, ranker, twin, twin_price, gap=gap, balance=balance
        )
        assert_allclose([found.correct, found.wrong, found.tied], wanted, atol=1e-12)
        assert_allclose(found.edge, wanted[0] - wanted[1], atol=1e-12)

    check()


@given(some.judgments(), st.data())
def test_mass_of_reversed_pairs_is_exactly_zero_where_there_are_none(made, data):
    """The exact step tests whether d- is 0, so rounding must not make it positive."""
    pairs = naive.list_pairs(made)
    scores = data.draw(some.scores(len(made)))
    size = len(made)
    ranker = np.array(data.draw(st.lists(st.integers(0, 1), min_size=size, max_size=size)))
    found = PairRisk("exponential").edge_weights(made, scores, ranker)
    assert (found.correct == 0) == all(ranker[p.winner] <= ranker[p.loser] for p in pairs)
    assert (found.wrong == 0) == all(ranker[p.winner] >= ranker[p.loser] for p in pairs)


@pytest.mark.parametrize("loss", ["exponential", "logistic", "squared hinge with gaps"])
@pytest.mark.parametrize("price", ["1", "4"])
@given(st.data())
@settings(max_examples=20)
def test_pull_is_minus_the_finite_difference_of_the_value(loss, price, data):
    """Central differences of log R, so that no scale enters."""
    made, scores, balance = data.draw(situations("exp"))
    bound = PairRisk(some.LOSSES[loss][0], some.PRICES[price][0], balance=balance).bind(made)
    state = bound.state(scores[bound.layout.order])
    if state.log_gradient_sum == -np.inf:
        return
    step = 1e-5
    for place in range(state.pull.size):
        moved = np.tile(state.scores, (2, 1))
        moved[:, place] += [step, -step]
        high, low = (bound.log_value(row) for row in moved)
        difference = np.exp(high - state.log_gradient_sum) - np.exp(low - state.log_gradient_sum)
        scale = np.exp(
            state.log_value - state.log_gradient_sum
        )  # rounding of R, in units of the mass
        assert_allclose(-difference / (2 * step), state.pull[place], atol=1e-7 * (1 + scale))


# -- laws ------------------------------------------------------------------------------------


@EVERY_FORM
@pytest.mark.parametrize("price", ["1", "4"])
@given(st.data())
@settings(max_examples=10)
def test_a_constant_added_to_every_score_of_a_query_changes_nothing(loss, price, data):
    made, scores, balance = data.draw(situations(price, data.draw(st.sampled_from(some.KINDS[:2]))))
    query = np.zeros(len(made)) if made.qid is None else number_queries(made.qid)[0]
    shifted = scores + 16.0 * query - 32.0
    risk = PairRisk(some.LOSSES[loss][0], some.PRICES[price][0], balance=balance)
    bound = risk.bind(made)
    one, other = (bound.state(s[bound.layout.order]) for s in (scores, shifted))
    assert_allclose(one.log_value, other.log_value, atol=2e-12, rtol=1e-14)
    assert_allclose(one.pull, other.pull, atol=2e-12)


@EVERY_FORM
@pytest.mark.parametrize("price", ["1", "16"])
@given(st.data())
@settings(max_examples=10)
def test_pulls_sum_to_zero_in_every_query(loss, price, data):
    made, scores, balance = data.draw(situations(price, "graded"))
    risk = PairRisk(some.LOSSES[loss][0], some.PRICES[price][0], balance=balance)
    bound = risk.bind(made)
    pull = bound.layout.to_rows(bound.state(scores[bound.layout.order]).pull)
    query = np.zeros(len(made)) if made.qid is None else number_queries(made.qid)[0]
    for one in np.unique(query):
        assert abs(pull[query == one].sum()) < 1e-13


@given(situations("1"))
def test_pull_of_the_winners_sums_to_one(situation):
    """The pull is normalized: half the sum of its absolute values is at most 1."""
    made, scores, balance = situation
    bound = PairRisk("exponential", balance=balance).bind(made)
    pull = bound.state(scores[bound.layout.order]).pull
    assert np.abs(pull).sum() <= 2 + 1e-12


@EVERY_FORM
@pytest.mark.parametrize("price", ["1", "4", "exp"])
@given(st.data())
@settings(max_examples=10)
def test_permuting_rows_permutes_the_pull(loss, price, data):
    made, scores, balance = data.draw(situations(price))
    order = np.array(data.draw(st.permutations(range(len(made)))))
    risk = PairRisk(some.LOSSES[loss][0], some.PRICES[price][0], balance=balance)
    before, after = (
        bound.layout.to_rows(bound.state(values[bound.layout.order]).pull)
        for bound, values in ((risk.bind(made), scores), (risk.bind(made[order]), scores[order]))
    )
    assert_allclose(after, before[order], atol=relative(price))


@EVERY_FORM
@pytest.mark.parametrize("price", ["1", "4", "exp"])
@given(st.data())
@settings(max_examples=10)
def test_weight_two_is_the_row_twice_and_weight_zero_its_absence(loss, price, data):
    """Winners as well as losers, listed pairs as well as graded ones."""
    made, scores, _ = data.draw(situations(price))
    size = len(made)
    copies = np.array(data.draw(st.lists(st.integers(0, 2), min_size=size, max_size=size)))
    own = np.ones(size) if made.weight is None else made.weight
    weighted = made._with(weight=own * copies)
    rows = np.repeat(np.arange(size), copies)
    if not naive.list_pairs(weighted):
        return
    risk = PairRisk(some.LOSSES[loss][0], some.PRICES[price][0])
    one, other = risk.bind(weighted), risk.bind(made[rows])
    state = one.state(scores[one.layout.order])
    repeated = other.state(scores[rows][other.layout.order])
    assert_allclose(state.log_value, repeated.log_value, atol=relative(price), rtol=1e-13)
    summed = np.bincount(rows, other.layout.to_rows(repeated.pull), minlength=size)
    assert_allclose(one.layout.to_rows(state.pull), summed, atol=relative(price))


@EVERY_FORM
@pytest.mark.parametrize("price", ["1", "4", "exp"])
@given(st.data())
@settings(max_examples=10)
def test_grades_and_the_list_of_their_pairs_give_the_same_risk(loss, price, data):
    ours, _, gap = some.LOSSES[loss]
    if gap:
        return  # listed pairs ask for a margin of 1, not for a gap
    made, scores, balance = data.draw(situations(price, "graded"))
    pairs = naive.list_pairs(Judgments(made.grade, made.qid))
    listed = Judgments(
        qid=made.qid, pairs=[(p.winner, p.loser) for p in pairs], weight=made.weight, n=len(made)
    )
    risk = PairRisk(ours, some.PRICES[price][0], balance=balance)
    one, other = risk.bind(made), risk.bind(listed)
    state = one.state(scores[one.layout.order])
    same = other.state(scores[other.layout.order])
    assert_allclose(state.log_value, same.log_value, atol=relative(price), rtol=1e-13)
    assert_allclose(
        one.layout.to_rows(state.pull), other.layout.to_rows(same.pull), atol=relative(price)
    )


# -- line search -----------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["exponential", "logistic", "squared hinge"])
@pytest.mark.parametrize("price", [1, 4])
@given(st.data())
@settings(max_examples=15)
def test_line_search_ends_where_the_slope_vanishes(loss, price, data):
    """The edge along the line is 0 at the step, unless the search says it was smoothed."""
    made, scores, balance = data.draw(situations("exp"))
    size = len(made)
    raw = data.draw(st.lists(st.integers(-8, 8), min_size=size, max_size=size))
    bound = PairRisk(some.LOSSES[loss][0], price, balance=balance).bind(made)
    values = np.array(raw)[bound.layout.order] / 8.0
    state = bound.state(scores[bound.layout.order])
    if (
        np.ptp(values) == 0
        or state.log_gradient_sum == -np.inf
        or abs(bound.edge(state, values)) < 1e-9
    ):
        return
    step, smoothed = line_search(bound, state, values, smoothing=0.01)
    after = bound.state(state.scores + step * values)
    assert after.log_value <= state.log_value
    assert np.sign(step) == np.sign(bound.edge(state, values))
    if not smoothed and after.log_gradient_sum > -np.inf:
        assert abs(bound.edge(after, values)) < 1e-9


@given(some.judgments(), st.data())
def test_line_search_over_binary_values_is_the_closed_form(made, data):
    """log(d+ / d-) / 2, and with smoothing e log((d+ + e) / (d- + e)) / 2."""
    size = len(made)
    ranker = np.array(data.draw(st.lists(st.integers(0, 1), min_size=size, max_size=size)))
    bound = PairRisk("exponential").bind(made)
    values = ranker[bound.layout.order].astype(np.uint8)
    state = bound.state(data.draw(some.scores(size, spread=2.0))[bound.layout.order])
    edge_weights = bound.edge_weights(state, values)
    if abs(edge_weights.edge) < 1e-9:
        return
    smoothing = 0.0 if min(edge_weights.correct, edge_weights.wrong) > 0 else 0.02
    step, smoothed = line_search(bound, state, values.astype(float), smoothing=0.02)
    assert smoothed == (smoothing > 0)
    wanted = 0.5 * math.log((edge_weights.correct + smoothing) / (edge_weights.wrong + smoothing))
    assert step == pytest.approx(wanted, rel=1e-9)


def test_line_search_goes_as_far_as_the_least_risk():
    """Three pairs in order by 0.01, one reversed by 0.01, one in order by 1: 50 log 3 = 54.9."""
    made = Judgments.preferences([0, 2, 4, 6, 8], [1, 3, 5, 7, 9])
    bound = PairRisk("exponential").bind(made)
    values = np.array([0.01, 0, 0.01, 0, 0.01, 0, 0, 0.01, 1, 0])[bound.layout.order]
    step, smoothed = line_search(bound, bound.state(np.zeros(10)), values, smoothing=0.1)
    assert step == pytest.approx(50 * math.log(3), rel=1e-9)
    assert not smoothed


@pytest.mark.parametrize("loss", ["hinge", "hinge with gaps", "squared hinge"])
def test_line_search_never_raises_the_risk_even_from_kink_to_kink(loss):
    """After a step a hinge has many pairs on its kink, where rounding decides the slope."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 6)) > 0
    bound = PairRisk(some.LOSSES[loss][0]).bind(Judgments(rng.integers(0, 3, 40)))
    scores = np.zeros(40)
    for t in range(30):
        values = X[bound.layout.order, t % 6].astype(float)
        state = bound.state(scores)
        if state.log_gradient_sum == -np.inf or bound.edge(state, values) == 0:
            continue
        step, _ = line_search(bound, state, values, smoothing=0.01)
        scores = scores + step * values
        assert bound.log_value(scores) <= state.log_value + 1e-12


# -- words -----------------------------------------------------------------------------------


def test_rows_without_a_pair_feel_no_pull():
    """Alone in its query, of weight 0, without a grade: three rows that nothing pulls."""
    made = Judgments([1, 0, 1, 1, math.nan], qid=["a", "a", "b", "a", "a"], weight=[1, 1, 1, 0, 1])
    assert_array_equal(PairRisk("exponential").pull(made, np.zeros(5)), [1.0, -1.0, 0, 0, 0])


def test_binding_chooses_linear_time_for_exponential_loss_and_powers():
    made = Judgments([1, 0])
    assert isinstance(PairRisk("exponential", 64).bind(made), SeparableRisk)
    assert isinstance(PairRisk("exponential", Exp()).bind(made), TwoPassRisk)
    assert isinstance(PairRisk("logistic").bind(made), OnePassRisk)
    assert isinstance(PairRisk("logistic", 2).bind(made), TwoPassRisk)
    assert isinstance(PairRisk("hinge").bind(made), OnePassRisk)
    assert isinstance(PairRisk("squared_hinge").bind(made), OnePassRisk)
    assert isinstance(PairRisk("hinge", 2).bind(made), TwoPassRisk)


@pytest.mark.parametrize(
    ("scores", "told"),
    [([0.0], r"1 values for 2 rows"), ([0.0, math.nan], r"scores\[1\] is nan.*finite")],
)
def test_bad_scores_are_told(scores, told):
    with pytest.raises(ValueError, match=told):
        PairRisk("exponential").value(Judgments([1, 0]), scores)


def test_a_risk_prints_as_it_is_written():
    assert repr(PairRisk("logistic", 4)) == "PairRisk('logistic', 4, balance='pairs')"


def test_curvature_with_gaps_where_one_pair_is_graded_and_listed_and_another_only_listed():
    """Row 2 has no grade, so the pair (0, 2) has no gap: it must not spoil the pair (0, 1)."""
    made = Judgments([1.0, 0.0, math.nan], pairs=[(0, 1), (0, 2)])
    found = PairRisk(some.LOSSES["squared hinge with gaps"][0], 4).curvature(made, np.zeros(3))
    expected = naive.risk(
        made, np.zeros(3), naive.hinge(2, some.ZERO), naive.power_price(4), gap=True
    )
    assert_allclose(found, [float(c) for c in expected.curvature], rtol=1e-12)


@pytest.mark.parametrize("loss", ["exponential", "logistic", "squared hinge with gaps"])
def test_curvature_where_a_pair_is_graded_and_listed(loss):
    """Its two losses are added before the square is taken: (1 + 3)² and not 1 + 9."""
    ours, twin, gap = some.LOSSES[loss]
    made = Judgments([1, 0, 0], pairs=[(0, 1)], pair_weight=[3.0])
    scores = np.array([0.0, 0.25, -0.5])
    expected = naive.risk(made, scores, twin, naive.power_price(4), gap=gap)
    found = PairRisk(ours, 4).curvature(made, scores)
    assert_allclose(found, [float(c) for c in expected.curvature], rtol=1e-11)


def test_a_risk_beyond_the_range_of_floats_is_infinite():
    """The row that is in no pair is not pulled."""
    made, scores = Judgments.preferences([0], [1], n=3), np.array([-4.0, 4.0, 0.0])
    risk = PairRisk("exponential", "exp")
    assert risk.value(made, scores) == np.inf
    assert risk.pull(made, scores).tolist() == [np.inf, -np.inf, 0.0]
