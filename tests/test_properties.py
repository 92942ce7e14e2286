"""Laws that whole fitted models obey, whatever the data."""

import math
import re
import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import naive
import strategies as some
from precede import (
    BoostedRanker,
    Columns,
    Constants,
    ConvexRiskRanker,
    GlassBoxRanker,
    Judgments,
    PushRanker,
    QBRank,
    RankBoost,
    RankBoostPlus,
    SmoothMarginRanker,
    Stumps,
    load,
    pairs_in_order,
)
from precede.boosting.steps import SmoothedStepWarning
from samples import same_model

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")

# (select, step) of RB-D, RB-C and RankBoost.
ALGORITHMS = {
    "RB-D": ("slope", "exact"),
    "RB-C": ("slope", "bound"),
    "RankBoost": ("decrease", "exact"),
    "RankBoost with conservative steps": ("decrease", "bound"),
}
EVERY_ALGORITHM = pytest.mark.parametrize("algorithm", ALGORITHMS)


def boost(algorithm, X, made, rounds=12, **options):
    select, step = ALGORITHMS[algorithm]
    model = RankBoost(
        select=select, step=step, n_estimators=rounds, n_jobs=1, **{"learning_rate": 1.0} | options
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmoothedStepWarning)
        return model.fit(X, made)


def some_data(seed=0, n=300, features=6, queries=12, missing=0.05):
    """Graded rows in queries, with ties, missing values and weights."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.standard_normal((n, features)), 1)
    signal = X[:, 0] + 0.5 * (X[:, 1] > 0) - 0.5 * X[:, 2] ** 2 + 0.5 * rng.standard_normal(n)
    grade = np.digitize(signal, [-1, 0, 1]).astype(float)
    X[rng.random(X.shape) < missing] = math.nan
    return X, Judgments(grade, rng.integers(0, queries, n), weight=rng.choice([1.0, 1.0, 2.5], n))


# -- the papers, transcribed -----------------------------------------------------------------


@EVERY_ALGORITHM
@pytest.mark.parametrize("learning_rate", [1.0, 0.3])
@given(st.data())
@settings(max_examples=12)
def test_rounds_are_those_of_the_papers(algorithm, learning_rate, data):
    """Rankers, weights, risk and smoothing over explicit lists of pairs and of stumps."""
    X, made = data.draw(some.problems(most=9))
    balance = data.draw(st.sampled_from(["pairs", "queries", "items"]))
    nonnegative = data.draw(st.booleans())
    select, step = ALGORITHMS[algorithm]
    options = {"learning_rate": learning_rate, "balance": balance}
    model = boost(algorithm, X, made, 10, nonnegative=nonnegative, **options)
    rows = sorted({row for pair in naive.list_pairs(made) for row in (pair.winner, pair.loser)})
    stumps = naive.candidates(X[rows], one_way=nonnegative)
    expected = naive.rankboost(
        made, [stump.values(X) for stump in stumps], rounds=10, select=select, step=step,
        positive_only=nonnegative, tie=1e-9 if select == "decrease" else 2.0**-40, **options,
    )  # fmt: skip
    assert min(model.ensemble_.weights, default=1.0) > 0 or not nonnegative
    # Edges of 1e-15 are what rounding leaves of 0: a round on one of them is no difference.
    ours = [
        naive.Candidate(r.feature, r.threshold, r.missing) for r in model.ensemble_.weak_rankers
    ]
    theirs = [stumps[chosen] for chosen in expected.chosen]
    rounds = min(len(ours), len(theirs))
    for t in range(rounds):
        assert ours[t] == theirs[t], f"round {t}"
        assert model.ensemble_.weights[t] == pytest.approx(expected.weights[t], abs=1e-9), t
        assert model.history_["log_risk"][t] == pytest.approx(expected.log_risk[t], abs=1e-9), t
        assert model.history_["smoothed"][t] == expected.smoothed[t], t
    # (Of a decrease, the square of an edge, half of the digits are left.)
    least = 1e-7 if select == "decrease" else 1e-12
    assert np.all(np.abs(model.history_["edge"][rounds:]) < least)
    assert np.all(np.abs(expected.weights[rounds:]) < 1e-12)


# -- non-negative weights --------------------------------------------------------------------


@EVERY_ALGORITHM
@pytest.mark.parametrize("weak_rankers", ["stumps", "columns", "features"])
def test_a_set_closed_under_complements_has_no_need_of_negative_weights(algorithm, weak_rankers):
    """With 1 - h beside every h, non-negative weights give the scores of free ones."""
    X, made = some_data(missing=0.0)
    X = (X > 0).astype(float)
    closed = np.hstack([X, 1 - X])
    free = boost(algorithm, X, made, 30, weak_rankers=weak_rankers)
    bound = boost(algorithm, closed, made, 30, weak_rankers=weak_rankers, nonnegative=True)
    assert min(free.ensemble_.weights) < 0 < min(bound.ensemble_.weights)
    assert_allclose(free.history_["log_risk"], bound.history_["log_risk"], atol=1e-9)


@EVERY_ALGORITHM
@pytest.mark.parametrize("weak_rankers", ["stumps", "columns", "features"])
def test_scores_of_non_negative_weights_rise_with_every_feature(algorithm, weak_rankers):
    X, made = some_data(missing=0.0)
    X = np.clip(X / 8 + 0.5, 0, 1)  # step="bound" needs columns within [0, 1]
    model = boost(algorithm, X, made, 30, weak_rankers=weak_rankers, nonnegative=True)
    assert model.predict(X).std() > 0
    for feature in range(X.shape[1]):
        moved = X.copy()
        moved[:, feature] += 0.05
        assert np.all(model.predict(moved) >= model.predict(X) - 1e-12)


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("select", ["slope", "decrease"])
def test_the_restricted_search_is_lazy_and_threaded_without_a_trace(jobs, select, tiny_thresholds):
    X, made = some_data()
    options = {"nonnegative": True, "n_estimators": 60, "learning_rate": 0.3, "select": select}
    plain = RankBoost(weak_rankers=Stumps(lazy=False), n_jobs=1, **options).fit(X, made)
    same_model(plain, RankBoost(n_jobs=jobs, **options).fit(X, made))


def test_non_negative_weights_are_saved_and_never_continue_negative_ones(tmp_path):
    X, made = some_data()
    model = RankBoost(n_estimators=20, nonnegative=True, learning_rate=1.0).fit(X, made)
    model.save(tmp_path / "model.json")
    assert load(tmp_path / "model.json").nonnegative is True
    free = RankBoost(n_estimators=20, warm_start=True, learning_rate=1.0).fit(X, made)
    with pytest.raises(ValueError, match=r"nonnegative=True, but .* has a weight of -"):
        free.set_params(n_estimators=30, nonnegative=True).fit(X, made)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"nonnegative": "yes"}, "nonnegative='yes'; use True or False"),
        (
            {"nonnegative": True, "weak_rankers": "trees"},
            "cannot be restricted to non-negative weights",
        ),
        (
            {"nonnegative": True, "weak_rankers": Constants()},
            "cannot be restricted to non-negative",
        ),
    ],
)
def test_what_cannot_be_restricted_to_non_negative_weights_is_refused(options, words):
    X, made = some_data(n=60)
    with pytest.raises(ValueError, match=words):
        RankBoost(n_estimators=3, **options).fit(X, made)


# -- what must not matter --------------------------------------------------------------------


COARSE = {"n_estimators": 4, "max_bins": 4}  # many rows have equal codes and different values
FEW = {"n_estimators": 4, "min_child_samples": 2}
ESTIMATORS = {
    "stumps": RankBoost(n_estimators=4),
    "shortened steps": RankBoost(n_estimators=9, learning_rate=0.3, balance="queries"),
    "conservative steps": RankBoost(n_estimators=4, step="bound", balance="items"),
    "largest decrease": RankBoost(n_estimators=4, select="decrease"),
    "features": RankBoost(weak_rankers="features", **COARSE),
    "trees": BoostedRanker(**FEW),
    "trees of drawn rows": BoostedRanker(subsample=0.6, random_state=0, **FEW),
    "logistic features": BoostedRanker(weak_rankers="features", **COARSE),
    "logistic columns": BoostedRanker(weak_rankers="columns", **COARSE),
    "exp price": BoostedRanker(weak_rankers="features", loss="exponential", price="exp", **COARSE),
    "price 4": BoostedRanker(price=4, **FEW),
    "hinge": BoostedRanker(loss="hinge", **FEW),
    "QBRank": QBRank(**FEW),
    "QBRank of features": QBRank(weak_rankers="features", **COARSE),
    "push": PushRanker(n_estimators=4),
    "exp push": PushRanker(weak_rankers="features", price="exp", **COARSE),
    "logistic push": PushRanker(loss="logistic", n_estimators=4),
    "ball": ConvexRiskRanker(radius=2.0, n_estimators=9),
    "ball of columns": ConvexRiskRanker(
        radius=2.0, loss="logistic", weak_rankers="columns", **COARSE
    ),
    "plus": RankBoostPlus(n_estimators=4),
    "optimal plus": RankBoostPlus(search="optimal", n_estimators=4),
    "smooth margin": SmoothMarginRanker(n_estimators=4),
    "glass box": GlassBoxRanker(interactions=1, pair_estimators=3, **FEW),
    "bagged glass box": GlassBoxRanker(interactions=1, pair_estimators=3, bags=2, **FEW),
    "bags": BoostedRanker(bags=3, random_state=0, **FEW),
    "auto": BoostedRanker(**FEW | {"n_estimators": "auto"}, learning_rate=0.5),
    "price of folds": PushRanker(price="cv", prices=(1, 4), cv=2, n_estimators=3),
    "radius of folds": ConvexRiskRanker(radius="cv", radii=(1, 4), cv=2, n_estimators=3),
}


@st.composite
def rows_and_other_rows(draw):
    """Rows, and the same ones in another order, with other orders of pairs and names of queries.

    Grades, listed pairs or both, in one list or in queries; pairs may join queries. Few different
    rows, so that many are told apart by their pairs alone, or many; some with missing values.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["g", "gq", "p", "qp", "gqp", "qpx", "gqpx", "gp"]))
    n = draw(st.sampled_from([12, 60, 150]))
    X = rng.integers(0, draw(st.sampled_from([2, 4, 1000])), (n, 3)) / 7
    X[rng.random(X.shape) < draw(st.sampled_from([0.0, 0.0, 0.0, 0.1]))] = math.nan
    qid = rng.integers(0, 7, n) if "q" in kind else None
    given = {"weight": rng.gamma(2, size=n) if draw(st.booleans()) else None, "n": n}
    if "p" in kind:
        pairs = rng.integers(0, n, (3 * n, 2))
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        if "q" in kind and "x" not in kind:
            pairs = pairs[qid[pairs[:, 0]] == qid[pairs[:, 1]]]
        given |= {"pairs": pairs, "pair_weight": rng.gamma(1, size=len(pairs))}
    made = Judgments(rng.integers(0, 3, n).astype(float) if "g" in kind else None, qid, **given)
    assume(made.to_layout().total > 0)
    order = rng.permutation(n)
    other = made[order]
    if qid is not None:
        other = other._with(qid=rng.permutation(1000)[qid[order]])
    if other.pairs is not None:
        turned = rng.permutation(len(other.pairs))
        other = other._with(pairs=other.pairs[turned], pair_weight=other.pair_weight[turned])
    return X, made, X[order], other


@pytest.mark.parametrize("name", ESTIMATORS)
@given(rows_and_other_rows())
@settings(max_examples=15, deadline=None)
def test_neither_names_nor_the_order_of_rows_and_pairs_leave_a_trace(name, problem):
    X, made, other_X, other = problem
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            one = clone(ESTIMATORS[name]).fit(X, made)
        except ValueError as error:  # this estimator does not learn from such rows
            with pytest.raises(ValueError, match=re.escape(str(error)[:20])):
                clone(ESTIMATORS[name]).fit(other_X, other)
            return
        two = clone(ESTIMATORS[name]).fit(other_X, other)
    same_model(one, two)
    assert_array_equal(one.history_["log_risk"], two.history_["log_risk"])


@EVERY_ALGORITHM
@pytest.mark.parametrize("kind", ["graded", "pairs", "mixed"])
def test_any_number_of_threads_gives_the_same_model(algorithm, kind, tiny_thresholds):
    """One, two and five threads, with pieces of sixteen rows: equal bits."""
    X, made = some_data(n=400)
    rng = np.random.default_rng(4)
    pairs = rng.integers(0, 400, (300, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    made = Judgments(
        None if kind == "pairs" else made.grade, made.qid, weight=made.weight,
        pairs=None if kind == "graded" else pairs,
    )  # fmt: skip
    models = [boost(algorithm, X, made, 25, learning_rate=0.5).set_params(n_jobs=1)]
    for jobs in (2, 5):
        model = RankBoost(
            select=ALGORITHMS[algorithm][0], step=ALGORITHMS[algorithm][1], n_estimators=25,
            learning_rate=0.5, n_jobs=jobs,
        )  # fmt: skip
        models.append(model.fit(X, made))
    for model in models[1:]:
        same_model(model, models[0])
        assert_array_equal(model.predict(X), models[0].predict(X))
        assert_array_equal(model.history_["log_risk"], models[0].history_["log_risk"])


@pytest.mark.parametrize("learning_rate", [1.0, 0.1, 0.03])
@pytest.mark.parametrize("step", ["exact", "bound"])
def test_lazy_search_gives_the_model_of_full_search(step, learning_rate):
    """150 rounds, to the bit."""
    X, made = some_data(features=15)
    models = [
        RankBoost(
            weak_rankers=Stumps(lazy=lazy), step=step, learning_rate=learning_rate, n_estimators=150
        ).fit(X, made)
        for lazy in (True, False)
    ]
    same_model(*models)


@EVERY_ALGORITHM
@given(some.problems(weighted=False), st.data())
@settings(max_examples=12)
def test_weight_two_is_the_row_twice_and_weight_zero_its_absence(algorithm, problem, data):
    X, made = problem
    size = len(made)
    copies = np.array(data.draw(st.lists(st.integers(0, 2), min_size=size, max_size=size)))
    rows = np.repeat(np.arange(size), copies)
    weighted = made._with(weight=copies)
    assume(naive.list_pairs(weighted))
    one, other = boost(algorithm, X, weighted, 6), boost(algorithm, X[rows], made[rows], 6)
    assert_same_model(one, other)


def assert_same_model(one, other, tolerance=1e-9):
    """Same stumps and weights up to rounding, as long as edges are more than rounding."""
    edges = zip(one.history_["edge"], other.history_["edge"], strict=False)
    for t, (ours, theirs) in enumerate(edges):
        if max(abs(ours), abs(theirs)) < 1e-9:
            return
        assert one.ensemble_.weak_rankers[t] == other.ensemble_.weak_rankers[t], f"round {t}"
        difference = one.ensemble_.weights[t] - other.ensemble_.weights[t]
        assert abs(difference) < tolerance, f"round {t}"


@EVERY_ALGORITHM
@pytest.mark.parametrize("balance", ["pairs", "queries", "items"])
def test_grades_give_the_model_of_the_list_of_their_pairs(algorithm, balance):
    X, made = some_data(n=60, queries=4)
    pairs = [(p.winner, p.loser) for p in naive.list_pairs(made)]
    listed = Judgments(qid=made.qid, pairs=pairs, weight=made.weight)
    graded = boost(algorithm, X, made, 20, balance=balance)
    assert_same_model(graded, boost(algorithm, X, listed, 20, balance=balance))
    assert len(graded.ensemble_) == 20


@EVERY_ALGORITHM
@pytest.mark.parametrize("name", ["cube", "exp", "ranks", "scaled"])
def test_an_increasing_map_of_a_feature_leaves_the_training_scores_unchanged(algorithm, name):
    """Stumps see the order of the values and nothing else."""
    X, made = some_data(missing=0.02)
    column = X[:, 0]
    ranks = np.searchsorted(np.unique(column), column).astype(float)
    ranks[np.isnan(column)] = math.nan
    mapped = X.copy()
    mapped[:, 0] = {
        "cube": column**3,
        "exp": np.exp(column),
        "ranks": ranks,
        "scaled": 1e-200 * column,
    }[name]
    one, other = boost(algorithm, X, made, 30), boost(algorithm, mapped, made, 30)
    assert one.ensemble_.weights == other.ensemble_.weights
    assert_array_equal(one.predict(X), other.predict(mapped))


def test_a_decreasing_map_of_a_feature_leaves_the_training_order_unchanged():
    """A stump and its complement order the same pairs, with the opposite weight."""
    X, made = some_data(missing=0.0)
    one = boost("RB-D", X, made, 30)
    other = boost("RB-D", X * [-1, 1, 1, 1, 1, 1], made, 30)
    assert pairs_in_order(made, one.predict(X)) == pytest.approx(
        pairs_in_order(made, other.predict(X * [-1, 1, 1, 1, 1, 1])), abs=1e-12
    )
    assert_allclose(np.abs(one.ensemble_.weights), np.abs(other.ensemble_.weights), atol=1e-9)


# -- what must hold --------------------------------------------------------------------------


@EVERY_ALGORITHM
@pytest.mark.parametrize("learning_rate", [1.0, 0.5, 0.1])
@given(some.problems())
@settings(max_examples=12)
def test_the_risk_never_rises(algorithm, learning_rate, problem):
    """From the first round on; the risk of no ranker at all is 1."""
    X, made = problem
    model = boost(algorithm, X, made, learning_rate=learning_rate)
    log_risk = np.concatenate([[0.0], model.history_["log_risk"]])
    assert np.all(np.diff(log_risk) <= 1e-12)


@EVERY_ALGORITHM
@given(some.problems())
@settings(max_examples=12)
def test_recorded_risk_is_the_risk_of_the_training_scores(algorithm, problem):
    X, made = problem
    model = boost(algorithm, X, made, 6)
    scores = model.predict(X)
    twin = naive.risk(made, scores, naive.exponential(), naive.power_price(1))
    expected = twin.log_value - math.log(naive.total_weight(made))
    if len(model.history_):
        assert model.history_["log_risk"][-1] == pytest.approx(expected, abs=1e-10)
        assert model.history_["risk"][-1] == pytest.approx(math.exp(expected), rel=1e-10)


@EVERY_ALGORITHM
@given(some.problems())
@settings(max_examples=12)
def test_share_of_pairs_not_in_order_is_below_the_product_of_normalizers(algorithm, problem):
    """R1 <= product of Z_t (C19 eq. 12), ties counting as mistakes."""
    X, made = problem
    model = boost(algorithm, X, made)
    scores = model.predict(X)
    weight = naive.item_weights(made)
    edge_weights = [(p, p.inner * weight[p.loser]) for p in naive.list_pairs(made)]
    wrong = math.fsum(m for p, m in edge_weights if scores[p.winner] <= scores[p.loser])
    bound = math.exp(model.history_["log_risk"][-1]) if len(model.history_) else 1.0
    assert wrong / math.fsum(m for _, m in edge_weights) <= bound + 1e-12


def test_normalizers_multiply_to_the_risk():
    """Each round of RB-D multiplies the risk by Z = d0 + 2 sqrt(d+ d-)."""
    X, made = some_data(n=80, queries=5)
    model = boost("RB-D", X, made, 15)
    stumps = [[*ranker(X)] for ranker in model.ensemble_.weak_rankers]
    scores = np.zeros(len(made))
    for t, values in enumerate(stumps):
        right, wrong, tied = naive.edge_weights(
            made, scores, values, naive.exponential(), naive.power_price(1)
        )
        before = model.history_["log_risk"][t - 1] if t else 0.0
        fall = math.log(tied + 2 * math.sqrt(right * wrong))
        assert model.history_["log_risk"][t] - before == pytest.approx(fall, abs=1e-10)
        assert model.history_["edge"][t] == pytest.approx(right - wrong, abs=1e-12)
        scores += model.ensemble_.weights[t] * np.array(values)


@given(some.judgments(), st.data())
@settings(max_examples=60)
def test_share_of_pairs_in_order_is_that_of_enumeration(made, data):
    scores = data.draw(some.scores(len(made)))
    assert pairs_in_order(made, scores) == pytest.approx(
        naive.share_in_order(made, scores), abs=1e-12
    )


# -- real-valued rankers ---------------------------------------------------------------------


@pytest.mark.parametrize("weak_rankers", ["features", "columns"])
def test_real_rankers_end_each_exact_step_where_the_slope_vanishes(weak_rankers):
    X, made = some_data(missing=0.0)
    model = boost("RB-D", X, made, 8, weak_rankers=weak_rankers)
    scores = np.zeros(len(made))
    for ranker, weight in zip(model.ensemble_.weak_rankers, model.ensemble_.weights, strict=True):
        values = ranker(X)
        scores += weight * values
        twin = naive_pull(made, scores)
        assert abs(twin @ values) < 1e-9


def naive_pull(made, scores):
    """Exponential pull in floats, over the mass."""
    pull = np.zeros(len(made))
    weight = naive.item_weights(made)
    total = 0.0
    for p in naive.list_pairs(made):
        mass = p.inner * weight[p.loser] * math.exp(scores[p.loser] - scores[p.winner])
        pull[p.winner] += mass
        pull[p.loser] -= mass
        total += mass
    return pull / total


def test_columns_of_zeros_and_ones_are_the_stumps_on_them():
    """Same choices and weights, by closed form instead of line search."""
    rng = np.random.default_rng(5)
    X = rng.integers(0, 2, (60, 7)).astype(float)
    made = Judgments(rng.integers(0, 3, 60), rng.integers(0, 4, 60))
    stumps = boost("RB-D", X, made, 15)
    columns = boost("RB-D", X, made, 15, weak_rankers="columns")
    assert [r.feature for r in columns.ensemble_.weak_rankers] == [
        r.feature for r in stumps.ensemble_.weak_rankers
    ]
    assert columns.ensemble_.weights == stumps.ensemble_.weights


def test_a_union_of_families_takes_the_best_of_either():
    """With a column that is the answer, the union needs it and nothing else."""
    X, made = some_data(missing=0.0)
    joined = boost("RB-D", X, made, 10, weak_rankers=Stumps() | Columns())
    alone = [boost("RB-D", X, made, 1, weak_rankers=family) for family in ("stumps", "columns")]
    best = max(abs(model.history_["edge"][0]) for model in alone)
    assert abs(joined.history_["edge"][0]) == pytest.approx(best)


# -- saving and going on ---------------------------------------------------------------------


@pytest.mark.parametrize("weak_rankers", ["stumps", "features", "columns"])
@given(some.problems())
@settings(max_examples=10)
def test_save_load_predict_gives_equal_bits(weak_rankers, tmp_path_factory, problem):
    X, made = problem
    if weak_rankers == "columns":
        X = np.nan_to_num(X)
    model = boost("RB-D", X, made, 6, weak_rankers=weak_rankers)
    path = tmp_path_factory.mktemp("models") / "model.json"
    model.save(path)
    again = load(path)
    assert_array_equal(again.predict(X), model.predict(X))
    assert again.ensemble_.weak_rankers == model.ensemble_.weak_rankers
    assert again.get_params() == model.get_params()


@EVERY_ALGORITHM
@pytest.mark.parametrize("learning_rate", [1.0, 0.1])
def test_warm_start_gives_the_model_of_one_longer_fit(algorithm, learning_rate):
    X, made = some_data()
    select, step = ALGORITHMS[algorithm]
    options = {"select": select, "step": step, "learning_rate": learning_rate}
    whole = RankBoost(n_estimators=60, **options).fit(X, made)
    parts = RankBoost(n_estimators=7, warm_start=True, **options).fit(X, made)
    for rounds in (8, 31, 60):
        parts.set_params(n_estimators=rounds).fit(X, made)
        assert len(parts.history_) == rounds
    same_model(parts, whole)
    for column in ("risk", "log_risk", "edge", "step", "smoothed"):
        assert_array_equal(parts.history_[column], whole.history_[column])
