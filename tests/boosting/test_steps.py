"""Steps of rankers that make no mistake: finite, flagged, and chosen by what they achieve."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import naive
import naive_algorithms
import strategies as some
from precede import Columns, Features, Judgments, PairRisk, PointRisk, PushRanker, Stump, Stumps
from precede.algorithms.adaboost import VoteStep
from precede.algorithms.smooth_margin import SmoothMarginStep
from precede.boosting.steps import BoundStep, ExactStep, SmoothedStepWarning
from precede.engine.table import Table
from precede.losses import PairLoss
from precede.risks.base import LossShape
from precede.weak_rankers.base import TIE_OF_DECREASES, SearchResult

# Losses that fall for ever, and losses that are flat beyond some margin.
ENDLESS = [
    "exponential", "exponential without a form", "separable with rate 2", "logistic",
    "hyperbolic without a form", "hyperbolic, smooth",
]  # fmt: skip
ENDING = sorted(set(some.LOSSES) - set(ENDLESS))


class Quadratic(PairLoss):
    """A hinge that does not say so: a half parabola, then a straight line."""

    def value(self, margin):
        return np.where(margin > 0, np.maximum(1 - margin, 0) ** 2 / 2, 0.5 - margin)

    def slope(self, margin):
        return -np.clip(1 - margin, 0, 1)


class Probit(PairLoss):
    """-log of the normal distribution function: a tail much thinner than exponential."""

    def value(self, margin):
        from scipy.stats import norm

        return -norm.logcdf(margin)

    def slope(self, margin):
        from scipy.stats import norm

        return -np.exp(norm.logpdf(margin) - norm.logcdf(margin))


@st.composite
def lines(draw):
    """Judgments, scores and a ranker, which often follows the grades or almost does."""
    made = draw(some.judgments(most=9))
    n = len(made)
    most = draw(st.sampled_from([1, 1, 6]))
    values = np.array(draw(st.lists(st.integers(0, most), min_size=n, max_size=n)))
    if made.grade is not None and draw(st.integers(0, 3)):
        rank = np.argsort(np.argsort(np.nan_to_num(made.grade), kind="stable"))
        values = np.sort(values)[rank] * draw(st.sampled_from([1, -1]))
        if made.pairs is None and draw(st.booleans()):  # equal grades, equal values
            values = np.array([values[np.nan_to_num(made.grade) == g].min()
                               for g in np.nan_to_num(made.grade)])  # fmt: skip
    values = values - values.min() if most == 1 else values / 4 - 0.5
    return made, draw(some.scores(n, spread=2.0)), values.astype(np.uint8 if most == 1 else float)


def step_along(rule, made, scores, values, loss, price, balance="pairs"):
    bound = PairRisk(loss, price, balance=balance).bind(made)
    order = bound.layout.order
    state, at = bound.state(np.asarray(scores, float)[order]), np.asarray(values)[order]
    found = SearchResult(Stump(0, 0.5), bound.edge(state, at))
    return rule.step(bound, state, found, at), bound, state, at


# -- the rule --------------------------------------------------------------------------------


@pytest.mark.parametrize("price", ["1", "4", "16", "exp", "custom"])
@pytest.mark.parametrize("loss", ENDLESS)
@given(lines(), st.sampled_from(["pairs", "queries"]))
@settings(max_examples=25)
def test_steps_are_smoothed_where_no_pair_is_reversed_and_exact_elsewhere(
    loss, price, situation, balance
):
    made, scores, values = situation
    ours, twin, gap = some.LOSSES[loss]
    our_price, twin_price = some.PRICES[price]
    wanted = naive_algorithms.smoothed_step(
        made, scores, values, twin, twin_price, gap=gap, balance=balance
    )
    step, bound, state, at = step_along(ExactStep(), made, scores, values, ours, our_price, balance)
    if wanted is None:
        assert not step.smoothed or np.ptp(at) == 0 or abs(bound.edge(state, at)) < 1e-12
        assert not step.perfect
        after = bound.state(state.scores + step.size * at)
        assert abs(bound.edge(after, at)) < 1e-8
        return
    if abs(bound.edge(state, at)) < 1e-12:  # what rounding leaves of masses such as 1e-48
        return
    assert step.size == pytest.approx(wanted, rel=1e-8, abs=1e-12)
    assert step.perfect == naive.orders_all(naive.list_pairs(made), np.asarray(values, float))
    assert step.smoothed != step.perfect
    most = math.log(1 + 2 * naive.pair_count(made)) / LossShape.of(ours).decay / np.ptp(at)
    assert abs(step.size) <= most * (1 + 1e-12)


@pytest.mark.parametrize("loss", ENDING)
@given(lines())
@settings(max_examples=15)
def test_losses_that_end_have_a_least_and_need_no_smoothing(loss, situation):
    made, scores, values = situation
    ours, twin, gap = some.LOSSES[loss]
    step, _, state, at = step_along(ExactStep(), made, scores, values, ours, 1)
    assume(np.ptp(at) > 0 and state.log_gradient_sum > -np.inf)
    assert not step.smoothed
    assert not step.perfect
    after = naive.risk(
        made, scores + step.size * values, twin, naive.power_price(1), gap=gap
    ).value  # fmt: skip
    assert float(after) <= math.exp(state.log_value) * (1 + 1e-9)


def test_a_loss_need_not_say_that_it_ends():
    """A hinge without a form ends; a normal tail does not, although it underflows early."""
    shape = LossShape.of(Quadratic())
    assert (shape.decay, shape.has_flat_tail) == (2.0, True)
    assert not LossShape.of(Probit()).has_flat_tail
    made, values = Judgments([1, 0, 0]), np.array([1, 0, 0], np.uint8)
    step, bound, state, at = step_along(ExactStep(), made, np.zeros(3), values, Quadratic(), 1)
    assert not step.smoothed
    assert bound.state(state.scores + step.size * at).log_gradient_sum == -np.inf
    assert step_along(ExactStep(), made, np.zeros(3), values, Probit(), 1)[0].perfect


@pytest.mark.parametrize("price", [1, 4])
def test_the_rule_is_the_closed_form_for_real_copies_of_two_values(price):
    """Values 0 and 1 take the closed form, 2 and 5 a third of it by the line search."""
    made = Judgments([2, 2, 1, 0, 0])
    values, scores = np.array([1, 0, 0, 0, 0], np.uint8), np.array([0, 1, -1, 0.5, 0])
    closed, *_ = step_along(ExactStep(), made, scores, values, "exponential", price)
    assert closed.smoothed
    for loss in ("exponential", some.PlainExponential()):
        wide, *_ = step_along(ExactStep(), made, scores, 2.0 + 3 * values, loss, price)
        assert wide.smoothed
        assert wide.size == pytest.approx(closed.size / 3, rel=1e-12)


def test_a_root_on_the_first_point_looked_at_is_a_root():
    """Equal numbers of pairs of values 2 and -1: the slope is exactly 0 at a round step."""
    made = Judgments.preferences([0, 2], [1, 3])
    scores = np.array([0.0, 1.0, 1.0, 0.0])
    values = np.array([0.5, 0.0, 0.0, 0.5])  # least where both margins are 0: a step of 2
    step, *_ = step_along(ExactStep(), made, scores, values, "logistic", 1)
    assert step.size == pytest.approx(2.0, abs=1e-12)
    assert not step.smoothed


def test_mistakes_of_almost_no_mass_are_mistakes():
    """A reversed pair of margin 80 weighs 1e-35, and the least is where its loss has come back."""
    made = Judgments.preferences([0, 2, 4], [1, 3, 5])
    scores = np.array([0.0, 0, 80, 0, 0, 0])
    values = np.array([1, 0, 0, 1, 0, 0], np.uint8)
    step, bound, state, at = step_along(ExactStep(), made, scores, values, "logistic", 1)
    assert not step.smoothed
    assert step.size == pytest.approx(40, abs=6)  # below 1e-15 of the risk nothing can be told
    assert abs(bound.edge(bound.state(state.scores + step.size * at), at)) < 1e-14


# -- perfect rankers -------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [ExactStep(), BoundStep()])
def test_a_tie_of_almost_no_mass_is_a_tie(rule):
    """The second pair is far in order and weighs 1e-26; the ranker does not order it."""
    made = Judgments.preferences([0, 2], [1, 3])
    scores, values = np.array([0.0, 0, 60, 0]), np.array([1, 0, 0, 0], np.uint8)
    step, *_ = step_along(rule, made, scores, values, "exponential", 1)
    assert step.smoothed
    assert not step.perfect
    assert step.size == pytest.approx(0.5 * math.log(5))


def test_a_wrong_row_of_almost_no_mass_is_wrong():
    bound = PointRisk().bind(Judgments([0, 0, 1]))
    state = bound.state(np.array([0.0, -800, 0]))
    votes = np.array([-1.0, 1, 1])
    step = VoteStep().step(bound, state, SearchResult(Stump(0, 0.5), 1.0), votes)
    assert step.smoothed
    assert not step.perfect
    right = VoteStep().step(bound, state, SearchResult(Stump(0, 0.5), 1.0), np.array([-1.0, -1, 1]))
    assert right.perfect
    half = VoteStep().step(
        bound, state, SearchResult(Stump(0, 0.5), 1.0), np.array([-0.5, -0.5, 0.5])
    )
    assert half.perfect
    assert half.size == pytest.approx(2 * right.size)


def test_smooth_margins_step_along_a_perfect_ranker_is_finite():
    made = Judgments([1, 0, 0])
    bound = PairRisk("exponential").bind(made)
    state, values = bound.state(np.zeros(3)), np.array([1, 0, 0], np.uint8)
    at = values[bound.layout.order]
    step, _ = SmoothMarginStep()._closed_form_step(
        bound, state, 0.5, SearchResult(Stump(0, 0.5), 1.0), at
    )
    assert step.perfect
    assert step.size == pytest.approx(0.5 * math.log(5))


# -- whole fits ------------------------------------------------------------------------------

OPTIONS = [
    {"loss": "logistic", "price": 1},
    {"loss": "logistic", "price": 4},
    {"price": "exp"},
    {"price": 4},
    {"loss": "logistic", "price": 1, "weak_rankers": "features"},
]


def fit(X, y, rounds=8, weight=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = PushRanker(n_estimators=rounds, n_jobs=1, learning_rate=1.0, **options)
        return model.fit(X, y, sample_weight=weight)


def small_problem(seed):
    rng = np.random.default_rng(seed)
    n = rng.integers(4, 13)
    y = rng.integers(0, 2, n)
    y[:2] = [0, 1]
    return rng.integers(0, 3, (n, 3)).astype(float), y


def test_a_stump_that_reverses_no_pair_takes_a_short_step():
    X = [[0, 1], [1, 1], [1, 1], [1, 1], [1, 1], [1, 1], [0, 1], [1, 0]]
    model = PushRanker(price=1, loss="logistic", n_estimators=4, learning_rate=1.0)
    with pytest.warns(SmoothedStepWarning, match="ties some"):
        model.fit(X, [1, 1, 1, 0, 0, 0, 0, 0])
    assert np.abs(model.history_["step"]).max() < 2
    assert model.history_["smoothed"][0]


def test_a_stump_that_orders_every_pair_ends_the_fit():
    """With e = 1/6, half of one of three pairs, the last step is log(1 + 1/e)."""
    model = fit([[0], [0], [0], [1]], [1, 1, 1, 0], price=1, loss="logistic")
    assert model.history_["step"] == pytest.approx([-math.log(7)])
    assert model.history_["perfect"][0]
    assert model.stop_reason_ == "one ranker puts every pair in order"


@pytest.mark.parametrize("options", OPTIONS)
def test_no_step_of_small_problems_is_long(options):
    flagged = 0
    for seed in range(40):
        history = fit(*small_problem(seed), **options).history_
        if len(history):
            assert np.abs(history["step"]).max() < 8, seed
            flagged += (history["smoothed"] | history["perfect"]).sum()
    assert flagged > 10


@pytest.mark.parametrize("options", OPTIONS)
def test_weights_take_the_steps_of_repeated_rows(options):
    flagged = 0
    for seed in range(15):
        X, y = small_problem(seed)
        weight = np.random.default_rng(seed).integers(1, 4, y.size)
        one = fit(X, y, weight=weight, rounds=5, **options)
        other = fit(np.repeat(X, weight, axis=0), np.repeat(y, weight), rounds=5, **options)
        rounds = min(len(one.history_), len(other.history_))
        if not rounds:
            continue
        assert one.ensemble_.weak_rankers[:rounds] == other.ensemble_.weak_rankers[:rounds], seed
        for name in ("step", "smoothed", "perfect"):
            ours, theirs = one.history_[name][:rounds], other.history_[name][:rounds]
            assert ours == pytest.approx(theirs, rel=1e-8, abs=1e-12), (seed, name)
        flagged += one.history_["smoothed"].sum()
    assert flagged > 3


# -- the largest decrease --------------------------------------------------------------------


def find(family, X, made, scores):
    bound = PairRisk("exponential").bind(made)
    order = bound.layout.order
    state = bound.state(np.asarray(scores, float)[order])
    return family.start(Table.build(X, order=order)).best_decrease(bound.factors(state))


@pytest.mark.parametrize("family", [Stumps(), Columns(), Features(), Columns() | Stumps()])
def test_a_ranker_without_mistakes_is_worth_what_its_smoothed_step_achieves(family):
    """d+ = .5, d- = 0 would be worth .5 with an infinite step; with e = 1/20 it is worth .349.

    d+ = .9, d- = .1 is worth .4.
    """
    made = Judgments.preferences(range(0, 20, 2), range(1, 20, 2), n=20)
    cautious, bold = np.zeros(20), np.zeros(20)
    cautious[0:10:2] = 1
    bold[0:18:2] = 1
    bold[19] = 1
    X = np.stack([cautious, bold], axis=1)
    found = find(family, X, made, np.zeros(20))
    assert found.weak_ranker.feature == 1
    assert found.decrease == pytest.approx(0.4)
    alone = find(family, X[:, :1], made, np.zeros(20))
    assert alone.decrease == pytest.approx(0.5 * (1 - math.sqrt(1 / 11)))


@pytest.mark.parametrize("family", [Columns(), Features()])
def test_multiples_of_a_column_tie_and_the_first_wins(family):
    """Their decreases are equal but for rounding."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        made, column = Judgments(rng.integers(0, 3, 14)), rng.standard_normal(14)
        X = np.stack([column, 3 * column, 0.7 * column, -column / 3], axis=1)
        assert find(family, X, made, rng.standard_normal(14)).weak_ranker.feature == 0, seed


def decrease_along(made, scores, values):
    """1 - R(s + step h) / R(s), for the step that the library documents."""
    loss, price = naive_algorithms.EXPONENTIAL, naive_algorithms.power(1)
    step = naive_algorithms.smoothed_step(
        made, scores, values, naive.exponential(), naive.power_price(1)
    )
    if step is None:
        if abs(naive_algorithms.slope_along(made, scores, values, loss, price)) < 1e-12:
            return 0.0
        step = naive_algorithms.least_along(made, scores, values, loss, price)
    before = naive_algorithms.objective(made, scores, loss, price)
    moved = [s + step * v for s, v in zip(scores, values, strict=True)]
    return 1 - naive_algorithms.objective(made, moved, loss, price) / before


@given(st.data())
@settings(max_examples=60)
def test_the_best_column_is_the_one_whose_step_lowers_the_risk_most(data):
    made, scores, values = data.draw(lines())
    n = len(made)
    raw = st.lists(st.integers(0, 3), min_size=n, max_size=n)
    X = np.stack([values, *(np.array(data.draw(raw)) / 2 for _ in range(2))], axis=1)
    found = find(Columns(), X.astype(float), made, scores)
    worth = [decrease_along(made, scores, column) for column in X.T]
    if max(worth) < 1e-9:
        assert found is None or found.decrease < 1e-8
        return
    ours = found.weak_ranker.feature
    assert found.decrease == pytest.approx(worth[ours], abs=1e-9)
    assert worth[ours] >= max(worth) - 1e-8
    if all(w < max(worth) - 1e-7 or w >= max(worth) * (1 - 1e-13) for w in worth):
        assert ours == naive.first_of_the_best(worth, TIE_OF_DECREASES)
