"""RankBoost+: equal to the paper over explicit pairs, its theorems, and its manners."""

import math
import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer

import naive
import naive_algorithms
import strategies as some
from precede import Judgments, RankBoost, RankBoostPlus, pairs_in_order
from precede.engine.execution import Context
from precede.engine.query_layout import TrainingData
from precede.engine.table import Table
from precede.weak_rankers.candidates import Candidates
from precede.weak_rankers.columns import Columns


def fitted(X, made, rounds=10, **options):
    return RankBoostPlus(n_estimators=rounds, n_jobs=1, **options).fit(X, made)


def same_bits(one, other):
    assert one.ensemble_.weak_rankers == other.ensemble_.weak_rankers
    assert one.ensemble_.weights == other.ensemble_.weights
    assert_array_equal(one.history_["risk"], other.history_["risk"])


def candidate(ranker):
    return naive.Candidate(ranker.feature, ranker.threshold, ranker.missing)


def some_data(seed=0, n=120, queries=6):
    rng = np.random.default_rng(seed)
    X = np.round(rng.standard_normal((n, 5)), 1)
    y = np.digitize(X[:, 0] - X[:, 1] ** 2 + rng.standard_normal(n), [-1.0, 0.0, 1.0])
    X[rng.random(X.shape) < 0.05] = math.nan
    return X, y.astype(float), rng.integers(0, queries, n)


# -- the paper, transcribed -------------------------------------------------------------------


@pytest.mark.parametrize("learning_rate", [1.0, 0.3])
@given(st.data())
@settings(max_examples=25)
def test_efficient_is_algorithm_2(learning_rate, data):
    X, made = data.draw(some.problems(most=9))
    balance = data.draw(st.sampled_from(["pairs", "queries"]))
    model = fitted(X, made, 12, learning_rate=learning_rate, balance=balance)
    stumps, values = naive_algorithms.stumps(X, made)
    entered = list(dict.fromkeys(stumps.index(candidate(r)) for r in model.ensemble_.weak_rankers))
    # The permutation of line 15: ours first, then the others.
    order = entered + [j for j in range(len(stumps)) if j not in entered]
    expected = naive_algorithms.algorithm_2(
        made, values, rounds=12, order=order, learning_rate=learning_rate, balance=balance
    )
    compare(model, stumps, expected)


def compare(model, stumps, expected):
    history = model.history_
    for t, (chosen, slope) in enumerate(zip(expected.chosen, expected.slopes, strict=True)):
        if abs(slope) < 1e-9:  # what is left is rounding
            break
        assert candidate(model.ensemble_.weak_rankers[t]) == stumps[chosen], t
        assert model.ensemble_.weights[t] == pytest.approx(expected.steps[t], abs=1e-9), t
        assert history["edge"][t] == pytest.approx(-slope, abs=1e-10), t
        assert history["risk"][t] == pytest.approx(expected.risk[t], rel=1e-9), t
    else:
        left = np.abs(history["edge"][len(expected.chosen) :])
        assert left.size == 0 or left.max() < 1e-9


@given(st.integers(0, 10**6), st.sampled_from(["efficient", "optimal"]))
@settings(max_examples=20)
def test_both_searches_are_algorithm_1_where_candidates_are_independent(seed, search):
    rng = np.random.default_rng(seed)
    n, count = 12, 4
    X = rng.integers(0, 2, (n, count)).astype(float)
    made = Judgments.graded(rng.integers(0, 4, n).astype(float))
    assume(made.n_pairs)
    values = [X[:, j].astype(int).tolist() for j in range(count)]
    columns = [naive_algorithms.over_pairs(made, v) for v in values]
    assume(naive_algorithms.rank(columns) == count)
    model = fitted(X, made, 15, weak_rankers="columns", search=search)
    expected = naive_algorithms.algorithm_1(made, values, rounds=15)
    for t, (chosen, slope) in enumerate(zip(expected.chosen, expected.slopes, strict=True)):
        if abs(slope) < 1e-9:
            break
        assert model.ensemble_.weak_rankers[t].feature == chosen, t
        assert model.ensemble_.weights[t] == pytest.approx(expected.steps[t], abs=1e-9), t
        assert model.history_["risk"][t] == pytest.approx(expected.risk[t], rel=1e-9), t


@given(st.data())
@settings(max_examples=25)
def test_optimal_looks_along_combinations_too(data):
    X, made = data.draw(some.problems(most=8))
    model = fitted(X, made, 10, search="optimal")
    _, values = naive_algorithms.stumps(X, made)
    expected = naive_algorithms.optimal(made, values, rounds=10)
    for t, slope in enumerate(expected.slopes):
        if abs(slope) < 1e-6:  # the line search of the twin stops about there
            break
        assert model.history_["edge"][t] == pytest.approx(-slope, abs=1e-6), t
        assert model.history_["risk"][t] == pytest.approx(expected.risk[t], rel=1e-6), t
        assert bool(np.isnan(model.history_["bound"][t])) == any(expected.combined[: t + 1]), t


def test_optimal_takes_combinations():
    """More columns than items: steps along combinations are taken, and E2 falls."""
    rng = np.random.default_rng(0)
    seen = 0
    for _ in range(30):
        made = Judgments.graded(np.append([0.0, 1.0], rng.integers(0, 3, 4)))
        X = rng.integers(0, 2, (6, 12)).astype(float)
        model = fitted(X, made, 30, weak_rankers="columns", search="optimal")
        combined = np.isnan(model.history_["bound"])
        seen += combined.any()
        assert np.all(np.diff(model.history_["log_risk"]) <= 1e-12)
        assert len(list(model.staged_predict(X))) == len(model.history_) == model.n_estimators_
        assert_allclose(list(model.staged_predict(X))[-1], model.predict(X), atol=1e-12)
    assert seen >= 5


# -- theorems ---------------------------------------------------------------------------------


@given(st.data())
@settings(max_examples=25)
def test_e2_never_rises_and_theorem_2_holds_every_round(data):
    X, made = data.draw(some.problems(most=10))
    model = fitted(X, made, 40)
    if not len(model.history_):
        return
    risk, bound = model.history_["risk"], model.history_["bound"]
    assert np.all(np.diff(model.history_["log_risk"], prepend=0.0) <= 1e-12)
    assert np.all(risk <= bound * (1 + 1e-9))
    edge = model.history_["edge"]
    if not model.history_[-1]["perfect"]:
        assert_allclose(risk, np.cumprod(np.sqrt(1 - edge**2)), rtol=1e-9)
    for scores, most in zip(model.staged_predict(X), bound, strict=True):
        # R2: share of the pairs reversed, ties counting half (proposition 2, theorem 2).
        assert 1 - pairs_in_order(made, scores) <= most + 1e-9


@given(st.data())
@settings(max_examples=12)
def test_it_converges_to_the_least_of_f2(data):
    """Theorem 3, against SciPy over all rankers that are independent of each other."""
    X, made = data.draw(some.problems(most=8))
    model = fitted(X, made, 3000)
    _, values = naive_algorithms.stumps(X, made)
    columns = [naive_algorithms.over_pairs(made, v) for v in values]
    assume(columns)
    mass = naive_algorithms.pair_mass(made)
    stumps = naive_algorithms.stumps(X, made)[0]
    inside = list(dict.fromkeys(stumps.index(candidate(r)) for r in model.ensemble_.weak_rankers))
    rest = [j for j in range(len(columns)) if j not in inside]
    inside += naive_algorithms.select_independent_subset(columns, rest, inside, rest)
    least, where = naive_algorithms.least_f2([columns[j] for j in inside], mass)
    found = model.history_["risk"][-1] if len(model.history_) else 1.0
    if len(model.history_) and model.history_[-1]["perfect"]:
        assert found < 1.0
    elif np.abs(where).max() < 6:  # a least at infinity is approached for ever
        assert found == pytest.approx(least, rel=1e-9)


@given(some.problems(most=10))
@settings(max_examples=20)
def test_e1_and_e2_are_what_they_say(problem):
    X, made = problem
    model = fitted(X, made, 8)
    mass = naive_algorithms.pair_mass(made)
    eta, columns = {}, {}
    for t, (ranker, step) in enumerate(
        zip(model.ensemble_.weak_rankers, model.ensemble_.weights, strict=True)
    ):
        values = [int(v) for v in ranker(np.asarray(X, float))]
        columns[ranker] = naive_algorithms.over_pairs(made, values)
        eta[ranker] = eta.get(ranker, 0.0) + step
        weights = np.array(list(eta.values()))
        over = np.array([columns[r] for r in eta])
        assert model.history_["risk"][t] == pytest.approx(
            naive_algorithms.f2(list(over), weights, mass), rel=1e-9
        )
        assert model.history_["e1"][t] == pytest.approx(
            math.fsum(mass * np.exp(-weights @ over)), rel=1e-9
        )


def test_one_round_costs_what_corollary_1_says():
    X, y, qid = some_data()
    model = fitted(X, Judgments(y, qid), 1)
    error = 1 - pairs_in_order(Judgments(y, qid), model.predict(X))
    assert model.history_["risk"][0] == pytest.approx(2 * math.sqrt(error * (1 - error)), rel=1e-12)


# -- weights of pairs -------------------------------------------------------------------------


def prepared(X, made, balance="pairs"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TrainingData.prepare(
            np.asarray(X, float), made, balance=balance, max_bins=255, context=Context(2)
        )


# -- what must not matter ---------------------------------------------------------------------


@pytest.mark.usefixtures("tiny_thresholds")
@pytest.mark.parametrize("options", [{}, {"search": "optimal"}])
def test_the_number_of_threads_leaves_no_trace(options):
    X, y, qid = some_data()
    rng = np.random.default_rng(0)
    pairs = np.stack([rng.integers(0, 60, 40), rng.integers(60, 120, 40)], axis=1)
    for made in (Judgments(y, qid), Judgments(y, qid, pairs=pairs), Judgments(y)):
        models = [
            RankBoostPlus(n_estimators=8, n_jobs=jobs, **options).fit(X, made) for jobs in (1, 2, 3)
        ]
        same_bits(models[0], models[1])
        same_bits(models[0], models[2])


def test_pieces_of_a_query_change_nothing_but_rounding(monkeypatch):
    X, y, _ = some_data()
    whole = fitted(X, Judgments(y), 20)
    monkeypatch.setattr("precede.risks.pair_weights.MAX_PAIRS_PER_CHUNK", 50)
    cut = fitted(X, Judgments(y), 20)
    assert cut.ensemble_.weak_rankers == whole.ensemble_.weak_rankers
    assert_allclose(cut.ensemble_.weights, whole.ensemble_.weights, rtol=1e-10)


def test_grades_and_the_list_of_their_pairs_are_the_same():
    X, y, qid = some_data()
    made = Judgments(y, qid)
    pairs = [(p.winner, p.loser) for p in naive.list_pairs(made)]
    graded = fitted(X, made, 20)
    listed = fitted(X, Judgments(pairs=pairs, n=len(y)), 20)
    assert listed.ensemble_.weak_rankers == graded.ensemble_.weak_rankers
    assert_allclose(listed.ensemble_.weights, graded.ensemble_.weights, rtol=1e-10)


@pytest.mark.parametrize("search", ["efficient", "optimal"])
def test_bounds_only_save_work(search, monkeypatch):
    """With no bound ever trusted, the choice is the same."""
    X, y, qid = some_data(n=200)
    lazy = fitted(X, Judgments(y, qid), 60, search=search)
    monkeypatch.setattr(
        "precede.algorithms.rankboost_plus._E2Trainer._update_tie_bounds",
        lambda self, *_: (self._used.low.fill(0.0), self._used.high.fill(1.0)),
    )
    same_bits(lazy, fitted(X, Judgments(y, qid), 60, search=search))


@pytest.mark.parametrize("options", [{}, {"search": "optimal"}])
def test_warm_start_is_one_longer_fit(options):
    X, y, qid = some_data()
    long = RankBoostPlus(n_estimators=30, **options).fit(X, y, qid=qid)
    short = RankBoostPlus(n_estimators=12, warm_start=True, **options).fit(X, y, qid=qid)
    same_bits(long, short.set_params(n_estimators=30).fit(X, y, qid=qid))
    with pytest.raises(ValueError, match="less than the 30 rounds"):
        short.set_params(n_estimators=5).fit(X, y, qid=qid)
    if not options:
        with pytest.raises(ValueError, match="do not offer"):
            short.set_params(n_estimators=40).fit(X * 3.7 + 1, y, qid=qid)


def test_a_checkpoint_is_resumed(tmp_path):
    X, y, qid = some_data()
    long = RankBoostPlus(n_estimators=20).fit(X, y, qid=qid)
    path = tmp_path / "rounds.json"
    RankBoostPlus(n_estimators=8).fit(X, y, qid=qid, checkpoint=path)
    again = RankBoostPlus(n_estimators=20).fit(X, y, qid=qid, checkpoint=path)
    same_bits(long, again)
    with pytest.raises(ValueError, match="other data"):
        RankBoostPlus(n_estimators=20).fit(X, y[::-1], qid=qid, checkpoint=path)


def test_what_cannot_be_resumed_is_refused(tmp_path):
    X, y, qid = some_data()
    with pytest.raises(ValueError, match="cannot be resumed"):
        RankBoostPlus(search="optimal").fit(X, y, qid=qid, checkpoint=tmp_path / "a")


# -- manners ----------------------------------------------------------------------------------


def test_early_stopping_keeps_the_best():
    X, y, qid = some_data(n=300, queries=12)
    other = some_data(seed=1, n=300, queries=12)
    model = RankBoostPlus(n_estimators=200, early_stopping_rounds=10)
    model.fit(X, y, qid=qid, eval_set=(other[0], other[1]), eval_qid=other[2])
    seen = model.history_["valid_0 pairs_in_order"]
    assert len(model.history_) < 200
    assert model.n_estimators_ == model.best_iteration_ == int(np.argmax(seen)) + 1
    judgments = Judgments(other[1], other[2])
    assert pairs_in_order(judgments, model.predict(other[0])) == pytest.approx(seen.max())


def test_two_classes_give_a_classifier():
    X, y = load_breast_cancer(return_X_y=True)
    model = RankBoostPlus(n_estimators=40).fit(X, y)
    assert ((model.decision_function(X) > 0) == y).mean() > 0.95
    assert not hasattr(model, "predict_proba")  # the minimum of E2 is not at the log-odds


def test_learning_rate_shortens_steps():
    X, y, qid = some_data()
    full = fitted(X, Judgments(y, qid), 1)
    half = fitted(X, Judgments(y, qid), 1, learning_rate=0.5)
    assert half.ensemble_.weights[0] == pytest.approx(0.5 * full.ensemble_.weights[0])
    assert 1 > half.history_["risk"][0] > full.history_["risk"][0]
    assert np.isnan(half.history_["bound"][0])  # the theorem is about full steps


# -- degenerate data --------------------------------------------------------------------------


@pytest.mark.parametrize("search", ["efficient", "optimal"])
def test_a_perfect_ranker_ends_the_fit(search):
    X = np.array([[0.0, 1], [1, 0], [2, 1], [3, 0]])
    model = fitted(X, Judgments.graded([0.0, 0, 1, 1]), 50, search=search)
    assert len(model.ensemble_) == 1
    assert model.stop_reason_ == "one ranker puts every pair in order"
    assert np.isfinite(model.ensemble_.weights[0])
    assert model.ensemble_.weights[0] == pytest.approx(math.log(9))  # 1 + 2 pairs
    again = model.set_params(warm_start=True, n_estimators=60).fit(X, [0, 0, 1, 1])
    assert len(again.ensemble_) == 1


@pytest.mark.parametrize("search", ["efficient", "optimal"])
@pytest.mark.parametrize("third", [0.0, 1.0], ids=["tied", "reversed"])
def test_a_ranker_that_misses_a_pair_of_almost_no_weight_is_not_perfect(search, third):
    X = np.array([[1.0], [0.0], [third], [third]])
    made = Judgments(pairs=[(0, 1), (2, 3)], pair_weight=[1.0, 1e-17], n=4)
    model = RankBoostPlus(n_estimators=5, search=search).fit(X, made)
    assert not model.history_["perfect"].any()
    assert model.stop_reason_ != "one ranker puts every pair in order"


def test_no_mistake_but_ties_has_a_finite_step_without_a_warning():
    """C19 lemma 2: h1 ties 5 n² pairs, reverses none; here the step needs no smoothing."""
    n = 3
    grade = np.repeat([1.0, 0.0], 5 * n)
    h1 = (np.arange(10 * n) < 4 * n).astype(float)
    h2 = ((np.arange(10 * n) >= 4 * n) & (np.arange(10 * n) < 9 * n)).astype(float)
    model = fitted(np.stack([h1, h2], axis=1), Judgments.graded(grade), 400, weak_rankers="columns")
    assert model.ensemble_.weights[0] == pytest.approx(0.5 * math.log((0.8 + 0.1) / 0.1))
    error = 1 - pairs_in_order(Judgments.graded(grade), model.predict(np.stack([h1, h2], axis=1)))
    assert error <= model.history_["risk"][-1] <= model.history_["bound"][-1]


def test_separable_data_for_thousands_of_rounds():
    """E2 tends to 0 where a majority of the rankers is right on every pair."""
    rng = np.random.default_rng(0)
    truth = np.arange(12)
    X = np.stack([truth + rng.permutation(12) * 0.15 for _ in range(9)], axis=1)
    model = fitted(X, Judgments.graded(truth.astype(float)), 5000)
    assert len(model.history_) == 5000 or abs(model.history_["edge"][-1]) < 1e-6
    for column in ("risk", "log_risk", "e1", "edge", "step", "bound"):
        assert np.isfinite(model.history_[column]).all()
    assert np.all(np.diff(model.history_["log_risk"]) <= 1e-12)
    order = pairs_in_order(Judgments.graded(truth.astype(float)), model.predict(X))
    assert order == pytest.approx(1.0)


def test_e2_can_fall_below_the_smallest_number():
    """Five columns, each right on four fifths of the pairs: only the logarithm goes on."""
    pairs = [(2 * q, 2 * q + 1) for q in range(5)]
    X = np.zeros((10, 5))
    for q, (winner, loser) in enumerate(pairs):
        X[winner] = 1
        X[winner, q], X[loser, q] = 0, 1
    made = Judgments(pairs=pairs, n=10)
    model = fitted(X, made, 4000, weak_rankers="columns")
    assert model.history_["log_risk"][-1] < -1000
    assert np.isfinite(model.history_["log_risk"]).all()
    assert pairs_in_order(made, model.predict(X)) == pytest.approx(1.0)


def test_constant_features_give_an_empty_model():
    with pytest.warns(UserWarning, match="the model has no rounds"):
        model = fitted(np.ones((6, 2)), Judgments.graded([0.0, 1, 0, 1, 2, 0]))
    assert len(model.ensemble_) == 0
    assert model.stop_reason_ == "no weak ranker improves the risk"
    assert_array_equal(model.predict(np.ones((3, 2))), np.zeros(3))
    assert list(model.staged_predict(np.ones((3, 2)))) == []


def test_missing_values_stand_below_all_others():
    X = np.array([[math.nan], [1.0], [math.nan], [2.0], [math.nan], [1.5]])
    model = fitted(X, Judgments.graded([0.0, 1, 0, 1, 1, 1]), 5)
    assert model.ensemble_.weak_rankers[0].threshold == -math.inf
    assert {ranker.missing for ranker in model.ensemble_.weak_rankers} == {0}


def test_refusals():
    X, y, qid = some_data()
    bad = {
        "search": ("best", "use 'efficient' or 'optimal'"),
        "memory_limit": ("4 GB", "number of bytes"),
        "weak_rankers": ("features", "'stumps' or 'columns'"),
    }
    for name, (value, said) in bad.items():
        with pytest.raises(ValueError, match=said):
            RankBoostPlus(**{name: value}).fit(X, y, qid=qid)
    with pytest.raises(ValueError, match="missing values"):
        RankBoostPlus(weak_rankers="columns").fit(X, y, qid=qid)
    with pytest.raises(ValueError, match="column 0 holds"):
        RankBoostPlus(weak_rankers="columns").fit(np.nan_to_num(X), y, qid=qid)
    with pytest.raises(ValueError, match="memory_limit=0"):
        RankBoostPlus(memory_limit=0).fit(X, y, qid=qid)


# -- memory -----------------------------------------------------------------------------------


def test_memory_is_predicted_and_refused_before_it_is_taken():
    n = 200_000  # ten thousand million pairs
    X = np.random.default_rng(0).standard_normal((n, 2)).astype(np.float32)
    y = (np.arange(n) % 2).astype(float)
    tracemalloc.start()
    refused = RankBoostPlus(memory_limit=1e9)
    with pytest.raises(ValueError, match=r"10,000,000,000 pairs and needs about 85.*or RankBoost"):
        refused.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e8
    assert not hasattr(refused, "memory_")


def test_the_prediction_of_memory_is_about_right():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6000, 3)).astype(np.float32)
    qid = np.repeat(np.arange(4), 1500)
    y = rng.integers(0, 3, 6000)
    model = RankBoostPlus(n_estimators=12, n_jobs=1)
    model.fit(X, y, qid=qid)  # compiles
    tracemalloc.start()
    model.fit(X, y, qid=qid)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.5 * peak < model.memory_ < 2 * peak


def test_automatic_limit_follows_the_free_memory(monkeypatch):
    X, y, qid = some_data()
    monkeypatch.setattr("precede.algorithms.rankboost_plus.free_memory", lambda: 1000)
    with pytest.raises(ValueError, match="memory_limit='auto'"):
        RankBoostPlus().fit(X, y, qid=qid)
    assert RankBoostPlus(memory_limit=None, n_estimators=2).fit(X, y, qid=qid).n_estimators_ == 2


def test_ties_decide_between_rankboost_plus_and_rankboost():
    """Used again, a ranker moves less than RB-C would move it (C19 section 3.4)."""
    X = np.array([[1.0], [1], [0], [0], [1], [0]])
    made = Judgments.graded([2.0, 1, 1, 0, 0, 0])
    plus = fitted(X, made, 5, weak_rankers="columns")
    bound = RankBoost(step="bound", weak_rankers="columns", n_estimators=5, learning_rate=1.0).fit(
        X, made
    )
    assert len(plus.ensemble_) == 1  # its minimum is reached in one step
    assert bound.ensemble_.weights[0] == pytest.approx(plus.ensemble_.weights[0])
    assert sum(bound.ensemble_.weights) > 1.05 * plus.ensemble_.weights[0]


def test_columns_and_stumps_on_binary_data_agree():
    X, y, qid = some_data()
    binary = (np.nan_to_num(X) > 0).astype(float)
    columns = fitted(binary, Judgments(y, qid), 20, weak_rankers="columns")
    stumps = fitted(binary, Judgments(y, qid), 20)
    # Rows of equal codes are ordered by value for columns only: sums round differently.
    np.testing.assert_allclose(columns.ensemble_.weights, stumps.ensemble_.weights, rtol=1e-9)
    table = Table.build(binary)
    training = TrainingData(table, Judgments(y, qid).to_layout(), Context(1))
    with pytest.raises(ValueError, match="holds 2"):
        Candidates(Table.build(binary * 2), training.layout, Columns(), Context(1))
