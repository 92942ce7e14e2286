"""Floating-point accidents that must not happen, each at the edge where it would."""

import math
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import naive
from precede import Judgments, Logistic, PairRisk, RankBoost
from precede.boosting.steps import SmoothedStepWarning
from precede.engine.exact import exact_sum
from precede.engine.execution import Context


def quiet_fit(model, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmoothedStepWarning)
        return model.fit(*arguments, **options)


# -- long runs -------------------------------------------------------------------------------

SEPARABLE = np.array([[0, 0], [1, 0], [0, 1], [1, 1], [2, 1], [1, 2]], float)
ITS_GRADES = [0, 1, 1, 2, 3, 3]  # the sum of the columns orders every pair


@pytest.mark.parametrize(
    ("algorithm", "rounds"),
    [
        ({"select": "slope", "step": "exact"}, 20_000),
        ({"select": "slope", "step": "bound"}, 20_000),
        ({"select": "decrease", "step": "exact"}, 3_000),
    ],
    ids=["RB-D", "RB-C", "RankBoost"],
)
def test_thousands_of_rounds_on_separable_data_stay_finite(algorithm, rounds):
    """The risk falls towards 0 and the scores grow without bound: no overflow, no NaN."""
    model = RankBoost(n_estimators=rounds, n_jobs=1, learning_rate=1.0, **algorithm)
    quiet_fit(model, SEPARABLE, ITS_GRADES)
    scores = model.predict(SEPARABLE)
    assert len(model.ensemble_) == rounds
    assert np.isfinite(scores).all()
    for column in ("risk", "log_risk", "edge", "step"):
        assert np.isfinite(model.history_[column]).all()
    assert np.all(np.diff(model.history_["log_risk"]) <= 1e-9)
    assert model.score(SEPARABLE, ITS_GRADES) == 1.0
    # The recorded risk is that of the final scores, however small.
    bound = PairRisk("exponential").bind(Judgments(ITS_GRADES))
    log_value = bound.log_value(scores[bound.layout.order]) - math.log(bound.layout.total)
    assert model.history_["log_risk"][-1] == pytest.approx(log_value, rel=1e-9)
    assert log_value < -50


# -- extreme scores, powers, weights -----------------------------------------------------------


@pytest.mark.parametrize("price", [1, 2, 64, 1000])
@pytest.mark.parametrize("top", [1e5, 1e3, 700.0])
def test_exponential_risk_of_extreme_scores(price, top):
    """log R is of the order of a hundred million; the pull is a share and stays exact."""
    scores = np.array([-top, top, top - 1, -top + 0.5, 0.0, top])
    made = Judgments([2, 0, 1, 0, 1, 2])
    bound = PairRisk("exponential", price).bind(made)
    state = bound.state(scores[bound.layout.order])
    twin = naive.risk(made, scores, naive.exponential(), naive.power_price(price))
    assert state.log_value == pytest.approx(twin.log_value, rel=1e-14)
    tolerance = 1e-13 * price * top  # rounding of p·s in the exponent
    assert_allclose(
        bound.layout.to_rows(state.pull), twin.normalized_pull, atol=min(tolerance, 1e-6)
    )


@pytest.mark.parametrize("top", [30.0, 745.0, 1e5])
@pytest.mark.parametrize("price", [1, 16])
def test_logistic_risk_of_extreme_scores(price, top):
    scores = np.array([-top, top, top - 1, -top + 0.5, 0.0, top])
    made = Judgments([2, 0, 1, 0, 1, 2])
    bound = PairRisk("logistic", price).bind(made)
    state = bound.state(scores[bound.layout.order])
    twin = naive.risk(made, scores, naive.LOGISTIC, naive.power_price(price))
    assert state.log_value == pytest.approx(twin.log_value, rel=1e-13)
    assert_allclose(bound.layout.to_rows(state.pull), twin.normalized_pull, atol=1e-12)


@pytest.mark.parametrize("p", [64, 1000])
def test_a_steep_push_pulls_at_the_highest_loser(p):
    """u^p leaves nothing but the worst: its pull is -1, that of the other losers 0."""
    scores = np.array([0.0, 0.0, 3.0, 1.0, -2.0])
    made = Judgments([1, 1, 0, 0, 0])
    bound = PairRisk("exponential", p).bind(made)
    pull = bound.layout.to_rows(bound.state(scores[bound.layout.order]).pull)
    assert_allclose(pull, [0.5, 0.5, -1, 0, 0], atol=1e-12)


@pytest.mark.parametrize("ratio", [1e-3, 1e-9, 1e-15, 1e-30, 1e-99])
@pytest.mark.parametrize("light", ["winner", "loser"])
def test_weights_of_any_ratio_keep_their_digits(ratio, light):
    """A level whose rows are all light is as exact as any other."""
    own = {"winner": [1, 1, ratio, ratio / 3], "loser": [ratio, ratio / 3, 1, 1]}[light]
    made = Judgments([0, 0, 1, 1], weight=own)
    scores = np.array([0.0, 1.0, 0.5, 2.0])
    bound = PairRisk("exponential").bind(made)
    state = bound.state(scores[bound.layout.order])
    twin = naive.risk(made, scores, naive.exponential(), naive.power_price(1))
    assert state.log_value == pytest.approx(twin.log_value, rel=1e-13)
    assert_allclose(bound.layout.to_rows(state.pull), twin.normalized_pull, atol=1e-12)


@pytest.mark.parametrize("ratio", [1e-12, 1e-30, 1e-99])
def test_a_light_query_beside_a_heavy_one_keeps_its_pull(ratio):
    """Balanced queries weigh the same, however light their rows are."""
    made = Judgments([0, 1, 1, 0, 1, 1], qid=[0] * 3 + [1] * 3, weight=[1] * 3 + [ratio] * 3)
    pull = PairRisk("exponential", balance="queries").pull(made, np.zeros(6))
    assert_allclose(pull, [-1, 0.5, 0.5, -1, 0.5, 0.5], rtol=1e-12)


@pytest.mark.parametrize(
    ("unit", "step"),
    [(1e-100, "bound"), (1e-50, "bound"), (1e50, "bound"), (1e100, "bound"), (1 / 40, "exact")],
)
def test_the_unit_of_the_weights_does_not_matter(unit, step):
    """Products of two weights go far, but only their ratios mean anything."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 2)), rng.integers(0, 3, 40)
    model = RankBoost(n_estimators=10, step=step, learning_rate=1.0)
    plain = quiet_fit(clone(model), X, y)
    other = quiet_fit(clone(model), X, y, sample_weight=np.full(40, unit))
    assert other.ensemble_.weak_rankers == plain.ensemble_.weak_rankers
    assert_allclose(other.ensemble_.weights, plain.ensemble_.weights, rtol=1e-9)


@pytest.mark.parametrize("extreme", [5e-324, 1e-200, 1e101, 1e300])
def test_weights_whose_products_could_not_be_held_are_refused(extreme):
    with pytest.raises(ValueError, match=r"weight\[0\].*rescale the weights"):
        RankBoost().fit([[0.0], [1.0]], [0, 1], sample_weight=[extreme, 1.0])


@pytest.mark.parametrize("weight", [1e-100, 1e100])
def test_one_row_of_extreme_weight(weight):
    """Beside it nothing counts; without weight it does not count. The model is finite."""
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((50, 3)), rng.integers(0, 2, 50)
    own = np.ones(50)
    own[7] = weight
    model = quiet_fit(
        RankBoost(n_estimators=10, n_jobs=1, learning_rate=1.0), X, y, sample_weight=own
    )
    assert np.isfinite(model.predict(X)).all()
    assert np.isfinite(model.history_["log_risk"]).all()


# -- extreme features --------------------------------------------------------------------------


NEIGHBOURS = [
    (1.0, math.nextafter(1.0, 2.0)),
    (1.0 + 2.0**-52, 1.0 + 2.0**-51),
    (-1.0, math.nextafter(-1.0, 0.0)),
    (0.0, 5e-324),
    (-5e-324, 0.0),
    (1e308, math.nextafter(1e308, math.inf)),
    (-1e308, 1e308),
    (-1.7976931348623157e308, 1.7976931348623157e308),
]


@pytest.mark.parametrize(("low", "high"), NEIGHBOURS)
@pytest.mark.parametrize("weak_rankers", ["stumps", "features"])
def test_two_neighboring_or_opposite_floats_can_be_ranked(low, high, weak_rankers):
    X = np.array([[low], [high], [low], [high]])
    model = quiet_fit(
        RankBoost(weak_rankers=weak_rankers, n_estimators=1, learning_rate=1.0), X, [0, 1, 0, 1]
    )
    scores = model.predict(X)
    assert np.isfinite(scores).all()
    assert scores[1] == scores[3] > scores[0] == scores[2]


def test_adjacent_float32_values_are_told_apart_in_every_way():
    """A cut halfway between them is no float32: comparing in float32 would lose it."""
    step = np.finfo(np.float32).eps
    X = np.array([[1 + step], [1 + 2 * step], [1 + 3 * step], [1 + 4 * step]], np.float32)
    y = [0, 1, 0, 1]
    model = quiet_fit(RankBoost(n_estimators=8, learning_rate=1.0), X, y)
    scores = model.predict(X)
    assert len(set(scores)) == 4
    assert_array_equal(list(model.staged_predict(X))[-1] > 0, scores > 0)
    assert_allclose(list(model.staged_predict(X))[-1], scores, atol=1e-12)
    same = quiet_fit(RankBoost(n_estimators=8, learning_rate=1.0), X.astype(float), y)
    assert same.ensemble_.weak_rankers == model.ensemble_.weak_rankers
    assert_array_equal(same.predict(X.astype(float)), scores)


# -- one large query ---------------------------------------------------------------------------

MILLION = 1_000_000


@pytest.fixture(scope="module")
def large():
    rng = np.random.default_rng(2)
    grade = rng.integers(0, 5, MILLION).astype(float)
    return grade, 2 * rng.standard_normal(MILLION) + 0.3 * grade


def test_exponential_pull_of_a_million_rows(large):
    """Winner mass minus loser mass, from sums by grade taken with `math.fsum`."""
    grade, scores = large
    made = Judgments(grade)
    with Context(2) as context:
        bound = PairRisk("exponential").bind(made.to_layout(), context)
        state = bound.state(scores[bound.layout.order])
    up = [math.fsum(np.exp(-scores[grade == g])) for g in range(5)]
    down = [math.fsum(np.exp(scores[grade == g])) for g in range(5)]
    total = math.fsum(up[i] * down[k] for i in range(5) for k in range(i))
    assert state.log_value == pytest.approx(math.log(total), rel=1e-14)
    rows = np.arange(0, MILLION, 9973)
    below = np.array([math.fsum(down[:g]) for g in range(5)])[grade[rows].astype(int)]
    above = np.array([math.fsum(up[g + 1 :]) for g in range(5)])[grade[rows].astype(int)]
    expected = (np.exp(-scores[rows]) * below - np.exp(scores[rows]) * above) / total
    pull = bound.layout.to_rows(state.pull)
    assert_allclose(pull[rows], expected, rtol=1e-11, atol=1e-13 * np.abs(expected).max())
    assert abs(exact_sum(pull)) < 1e-12


def test_logistic_pull_of_a_million_rows(large):
    """4e11 pairs; a few rows are checked against all others."""
    grade, scores = large
    with Context(2) as context:
        bound = PairRisk("logistic").bind(Judgments(grade).to_layout(), context)
        state = bound.state(scores[bound.layout.order])
    pull = bound.layout.to_rows(state.pull) * np.exp(state.log_gradient_sum)
    logistic = Logistic()
    for row in range(0, MILLION, 199_999):
        won = -logistic.slope(scores[row] - scores[grade < grade[row]])
        lost = -logistic.slope(scores[grade > grade[row]] - scores[row])
        expected = math.fsum(won) - math.fsum(lost)
        assert pull[row] == pytest.approx(expected, rel=1e-11, abs=1e-13 * (won.sum() + lost.sum()))
    assert abs(state.pull.sum()) < 1e-12


def test_a_million_rows_in_pieces_and_threads_give_the_same_bits(large, monkeypatch):
    """Levels of 200,000 rows are cut into chunks; neither their size nor the threads matter."""
    from precede.risks import by_level

    grade, scores = large
    layout = Judgments(grade).to_layout()
    at = scores[layout.order]
    states = []
    default = by_level.MAX_ROWS_PER_CHUNK
    for jobs, size in ((1, default), (2, default), (3, 1000), (1, MILLION)):
        monkeypatch.setattr(by_level, "MAX_ROWS_PER_CHUNK", size)
        with Context(jobs) as context:
            states.append(PairRisk("exponential").bind(layout, context).state(at))
    for state in states[1:]:
        assert state.log_value == states[0].log_value
        assert_array_equal(state.pull, states[0].pull)


# -- exact sums --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], 0.0),
        ([0.0, -0.0], 0.0),
        ([5e-324], 5e-324),
        ([1e308, -1e308], 0.0),
        ([1.7e308], 1.7e308),
        ([-1.5], -1.5),
        ([1.0, 1e-9, -1.0], 1e-9),
    ],
)
def test_exact_sum_at_the_ends_of_the_range(values, expected):
    assert exact_sum(np.array(values, float)) == pytest.approx(expected, rel=1e-9)
