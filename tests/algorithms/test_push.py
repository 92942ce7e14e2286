"""Ranking with a push, against enumeration and against the paper's own algorithm."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning

import naive
import naive_algorithms
import strategies as some
from precede import Columns, Judgments, PairRisk, Power, Price, PushRanker, RankBoost, load
from precede.algorithms.push import PriceSearch, SmallSampleWarning
from precede.boosting.holdout import one_error_rule
from precede.boosting.steps import ExactStep, SmoothedStepWarning
from precede.bounds import push_risk
from precede.losses import SmoothedHinge
from precede.metrics import evaluate


class Quadratic(Price):
    def value(self, loss_sum):
        return loss_sum + loss_sum**2

    def slope(self, loss_sum):
        return 1 + 2 * loss_sum


def wdbc():
    X, y = load_breast_cancer(return_X_y=True)
    return X[:, :6], 1 - y


def fit(model, *given_to_fit, **also):
    """Fit, taking no notice of steps made finite or of samples that are small on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmoothedStepWarning)
        warnings.simplefilter("ignore", SmallSampleWarning)
        return model.fit(*given_to_fit, **also)


# -- theorem 1 -------------------------------------------------------------------------------

PRICES = {1: naive_algorithms.power(1), 2: naive_algorithms.power(2), 8: naive_algorithms.power(8),
          "exp": naive_algorithms.EXP, Quadratic(): naive_algorithms.QUADRATIC}  # fmt: skip


@given(st.data())
def test_theorem_1_the_objective_bounds_the_top(data):
    """K g(R_max / K) <= R_{g,1} <= R_{g,l} and R_{g,1} <= K g(R_max), for losses above 1[m <= 0].

    R_max counts the positives that are not above the highest negative; R_{g,1} is enumerated,
    and for powers also what `push_risk` gives.
    """
    sizes = data.draw(st.tuples(st.integers(1, 6), st.integers(1, 6)))
    y = np.repeat([1, 0], sizes)
    scores = np.array(
        data.draw(st.lists(st.integers(-3, 3), min_size=y.size, max_size=y.size)), float
    )
    price = data.draw(st.sampled_from(list(PRICES)))
    loss = data.draw(st.sampled_from(["exponential", "hinge", "squared_hinge"]))
    positives, negatives = sizes
    g = PRICES[price][0]
    below = [(scores[y == 1] <= s).sum() for s in scores[y == 0]]
    top = evaluate(y, scores, metrics="positives_above_first_negative").mean
    most = positives - top["positives_above_first_negative"]
    assert most == max(below)
    indicator = sum(g(int(count)) for count in below)
    if isinstance(price, int):
        risk = push_risk(y, scores, p=price).value
        assert negatives * (positives * risk) ** price == pytest.approx(indicator)
    objective = PairRisk(loss, price).value(Judgments(y), scores)
    nearly = 1 + 1e-12
    assert negatives * g(most / negatives) <= indicator * nearly
    assert indicator <= min(objective, negatives * g(most)) * nearly


def test_theorem_1_needs_a_loss_above_the_indicator():
    """The logistic loss with the natural logarithm is ln 2 at a tie; divided by it, it bounds."""
    y, scores = np.array([1, 0]), np.zeros(2)
    value = PairRisk("logistic", 1).value(Judgments(y), scores)
    assert value < 1.0 == push_risk(y, scores, p=1).value <= value / np.log(2) * (1 + 1e-12)


# -- whole fits ------------------------------------------------------------------------------


def binary_problem(seed, queries=False):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (36, 5)).astype(float)
    y = (X @ [1.0, 0.6, -0.5, 0.2, 0.0] + rng.normal(0, 1.5, 36) > 0.6).astype(int)
    if not queries:
        return X, Judgments(y)
    grade = y + (rng.random(36) < 0.3)
    return X, Judgments(grade, qid=np.repeat([0, 1, 2], 12), weight=rng.uniform(0.5, 2, 36))


@pytest.mark.parametrize("queries", [False, True])
@pytest.mark.parametrize("loss", ["exponential", "logistic", "squared_hinge"])
@pytest.mark.parametrize("price", [1, 2, 4, 16, 64, "exp", Quadratic()], ids=str)
def test_a_fit_is_the_algorithm_of_the_paper(price, loss, queries):
    X, made = binary_problem(3, queries)
    twin_price = {"exp": naive_algorithms.EXP}.get(price, naive_algorithms.QUADRATIC)
    if not isinstance(price, str | Price):
        twin_price = naive_algorithms.power(price)
    chosen, steps, objectives = naive_algorithms.convex_push(
        made, X.T.tolist(), rounds=5, loss=getattr(naive_algorithms, loss.upper()), price=twin_price
    )
    model = fit(
        PushRanker(
            price=price, loss=loss, weak_rankers="columns", n_estimators=5, learning_rate=1.0
        ),
        X,
        made,
    )
    assert [ranker.feature for ranker in model.ensemble_.weak_rankers] == chosen
    assert_allclose(model.ensemble_.weights, steps, rtol=1e-6, atol=1e-8)
    total = PairRisk(loss, price).value(made, model.predict(X))
    assert total == pytest.approx(objectives[-1], rel=1e-9)


@pytest.mark.parametrize("balance", ["queries", "items"])
@pytest.mark.parametrize("price", [4, "exp"])
def test_a_balanced_fit_charges_for_means(price, balance):
    """The recorded risk is the mean payment of enumeration, and 1 at scores 0."""
    X, made = binary_problem(3, queries=True)
    twin_price = naive_algorithms.EXP if price == "exp" else naive_algorithms.power(price)
    chosen, steps, objectives = naive_algorithms.convex_push(
        made,
        X.T.tolist(),
        rounds=5,
        loss=naive_algorithms.EXPONENTIAL,
        price=twin_price,
        balance=balance,
    )
    model = PushRanker(
        price=price, balance=balance, weak_rankers="columns", n_estimators=5, learning_rate=1.0
    )
    model = fit(model, X, made)
    assert [ranker.feature for ranker in model.ensemble_.weak_rankers] == chosen
    assert_allclose(model.ensemble_.weights, steps, rtol=1e-6, atol=1e-8)
    mean = np.array(objectives) / naive.total_weight(made, balance)
    expected = np.log(mean) if price == "exp" else mean ** (1 / price)
    assert_allclose(model.history_["risk"], expected, rtol=1e-9)


@pytest.mark.parametrize("loss", ["exponential", "logistic", "hinge", "squared_hinge"])
@pytest.mark.parametrize("price", [2, 64, "exp"])
def test_the_objective_never_rises(loss, price):
    X, y = wdbc()
    model = fit(
        PushRanker(price=price, loss=loss, n_estimators=12, learning_rate=1.0), X[:150], y[:150]
    )
    assert (np.diff(model.history_["log_risk"]) <= 1e-12).all()


@pytest.mark.parametrize("p", [1, 4, 64])
def test_features_from_minus_one_to_one_rank_as_those_from_zero_to_one(p):
    """The paper's experiments take [-1, 1]: every slope doubles, every step halves."""
    X, y = wdbc()
    low, high = X.min(axis=0), X.max(axis=0)
    symmetric = 2 * (X - low) / (high - low) - 1
    one = fit(
        PushRanker(price=p, weak_rankers="features", n_estimators=40, learning_rate=1.0), X, y
    ).predict(X)
    other = fit(
        PushRanker(price=p, weak_rankers="columns", n_estimators=40, learning_rate=1.0),
        symmetric,
        y,
    )
    difference = other.predict(symmetric) - one
    assert_allclose(difference, difference[0], atol=1e-6)


def test_price_one_is_rankboost():
    X, y = wdbc()
    push = PushRanker(price=1, n_estimators=60, learning_rate=1.0).fit(X, y)
    plain = RankBoost(select="slope", step="exact", n_estimators=60, learning_rate=1.0).fit(X, y)
    assert push.ensemble_.weak_rankers == plain.ensemble_.weak_rankers
    assert push.ensemble_.weights == plain.ensemble_.weights
    assert_array_equal(push.history_["risk"], plain.history_["risk"])


@pytest.mark.parametrize("p", [1, 2, 8, 64])
def test_the_recorded_risk_is_that_of_the_paper(p):
    """F_p^(1/p) / (I K^(1/p)), R05 section 4."""
    X, y = wdbc()
    X, y = X[::4], y[::4]
    model = fit(PushRanker(price=p, n_estimators=7, learning_rate=0.5), X, y)
    scores = model.predict(X)
    loss_sum = np.exp(scores[y == 0]) * np.exp(-scores[y == 1]).sum()
    expected = np.mean(loss_sum**p) ** (1 / p) / (y == 1).sum()
    assert model.history_["risk"][-1] == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("price", ["exp", Quadratic()], ids=str)
def test_the_recorded_risk_of_other_prices_is_their_mean_payment(price):
    X, y = wdbc()
    X, y = X[::8], y[::8]
    model = fit(PushRanker(price=price, n_estimators=4, learning_rate=0.5), X, y)
    scores = model.predict(X)
    loss_sum = np.exp(scores[y == 0]) * np.exp(-scores[y == 1]).sum()
    if price == "exp":
        mean = np.log(np.mean(np.exp(loss_sum)))
    else:
        mean = -0.5 + np.sqrt(0.25 + np.mean(loss_sum + loss_sum**2))
    assert model.history_["risk"][-1] == pytest.approx(mean / (y == 1).sum(), rel=1e-9)


def test_a_price_of_a_thousand_stays_finite():
    X, y = wdbc()
    model = fit(PushRanker(price=1000, n_estimators=200, learning_rate=1.0), X, y)
    for column in ("risk", "log_risk", "edge", "step"):
        assert np.isfinite(model.history_[column]).all()
    assert np.isfinite(model.predict(X)).all()
    assert model.history_["risk"][-1] < 0.95


@pytest.mark.slow
def test_a_hundred_thousand_rounds_stay_finite():
    X, y = wdbc()
    model = fit(PushRanker(price=1000, n_estimators=100_000, learning_rate=1.0), X[::4], y[::4])
    for column in ("risk", "log_risk", "edge", "step"):
        assert np.isfinite(model.history_[column]).all()
    assert (np.diff(model.history_["log_risk"]) <= 1e-12).all()


def test_separable_data_for_thousands_of_rounds():
    X, y = np.arange(20.0)[:, None], (np.arange(20) >= 10).astype(int)
    X = np.hstack([X, (np.arange(20.0) % 7)[:, None]])
    model = fit(PushRanker(price=16, n_estimators=3000, learning_rate=1.0), X, y)
    assert model.stop_reason_ == "one ranker puts every pair in order"
    X = np.array([[0, 1], [1, 0], [0, 0], [0, 0.0]])
    model = fit(
        PushRanker(price=16, weak_rankers="columns", n_estimators=3000, learning_rate=1.0),
        X,
        [1, 1, 0, 0],
    )
    assert np.isfinite(model.predict(X)).all()
    assert model.history_["smoothed"].all()


def test_a_larger_price_cleans_the_top():
    """What the push is for, on the data that it was fitted to."""
    X, malignant = wdbc()
    y, top = 1 - malignant, {}
    for p in (1, 16):
        model = fit(
            PushRanker(price=p, weak_rankers="features", n_estimators=100, learning_rate=1.0), X, y
        )
        seen = evaluate(y, model.predict(X), metrics=["positives_above_first_negative"])
        top[p] = seen.mean["positives_above_first_negative"]
    assert top[16] > top[1] + 10


# -- judgments of other kinds ----------------------------------------------------------------


@pytest.mark.parametrize("price", [4, "exp"])
@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_listed_pairs_are_pushed_too(price, loss):
    X, _ = binary_problem(5)
    pairs = np.array([(i, k) for i in range(18) for k in range(18, 36) if (i + k) % 3])
    made = Judgments.preferences(pairs[:, 0], pairs[:, 1], n=36)
    model = fit(
        PushRanker(
            price=price, loss=loss, weak_rankers="columns", n_estimators=4, learning_rate=1.0
        ),
        X,
        made,
    )
    twin = naive_algorithms.EXP if price == "exp" else naive_algorithms.power(price)
    chosen, _, objectives = naive_algorithms.convex_push(
        made, X.T.tolist(), rounds=4, loss=getattr(naive_algorithms, loss.upper()), price=twin
    )
    assert [ranker.feature for ranker in model.ensemble_.weak_rankers] == chosen
    value = PairRisk(loss, price).value(made, model.predict(X))
    assert value == pytest.approx(objectives[-1], rel=1e-8)


def test_global_scope_makes_one_list_of_all_queries():
    X, y = wdbc()
    qid = np.arange(len(y)) % 7
    inside = fit(PushRanker(price=8, n_estimators=9, learning_rate=1.0), X, y, qid=qid)
    across = fit(
        PushRanker(price=8, n_estimators=9, scope="global", learning_rate=1.0), X, y, qid=qid
    )
    one = fit(PushRanker(price=8, n_estimators=9, learning_rate=1.0), X, y)
    assert_array_equal(across.predict(X), one.predict(X))
    assert (inside.predict(X) != one.predict(X)).any()


@given(some.problems(), st.sampled_from([2, 8, "exp"]), st.randoms(use_true_random=False))
def test_rows_in_any_order_and_any_threads_give_the_same_model(problem, price, random):
    X, made = problem
    order = list(range(len(made)))
    random.shuffle(order)
    settings = {"price": price, "n_estimators": 4, "weak_rankers": "stumps"}
    one = fit(PushRanker(**settings, n_jobs=1), X, made)
    other = fit(PushRanker(**settings, n_jobs=2), np.asarray(X)[order], made[order])
    assert one.ensemble_.weak_rankers == other.ensemble_.weak_rankers
    assert one.ensemble_.weights == other.ensemble_.weights


def test_pieces_and_threads_leave_no_trace(tiny_thresholds):
    X, y = wdbc()
    qid = np.arange(len(y)) % 5
    settings = {"price": 64, "n_estimators": 15}
    one = fit(PushRanker(**settings, n_jobs=1), X, y, qid=qid)
    other = fit(PushRanker(**settings, n_jobs=3), X, y, qid=qid)
    assert_array_equal(one.predict(X), other.predict(X))


# -- choosing the price ----------------------------------------------------------------------


def test_the_price_is_chosen_by_cross_validation():
    X, y = wdbc()
    settings = {
        "learning_rate": 1.0,
        "n_estimators": 15,
        "prices": (1, 4, 64),
        "cv": 4,
        "random_state": 0,
    }
    model = fit(PushRanker(price="cv", **settings), X, y)
    search = model.price_search_
    assert isinstance(search, PriceSearch)
    assert search.by_fold.shape == (4, 3)
    assert model.price_ == search.best
    assert search.metric == "partial_auc@0.1"
    best = search.mean.argmax()
    behind = search.by_fold[:, best] - search.by_fold[:, search.prices.index(search.best)]
    assert behind.mean() <= behind.std(ddof=1) / 2 + 1e-12
    same = fit(PushRanker(price=search.best, n_estimators=15, learning_rate=1.0), X, y)
    assert_array_equal(model.predict(X), same.predict(X))
    assert "standard_error" in repr(search)
    assert "chosen" in repr(search)


def test_a_search_of_prices_keeps_the_names_of_columns():
    X, y = wdbc()
    frame = pd.DataFrame(X, columns=[*"abcdef"])
    settings = {"price": "cv", "prices": (1, 4), "cv": 3, "n_estimators": 4, "random_state": 0}
    named = fit(PushRanker(monotone_constraints={"b": 1}, **settings), frame, y)
    numbered = fit(PushRanker(monotone_constraints={1: 1}, **settings), X, y)
    assert_array_equal(named.price_search_.by_fold, numbered.price_search_.by_fold)


@pytest.mark.parametrize("rounds_before", range(24))
def test_ctrl_c_during_the_search_of_prices_is_raised(monkeypatch, rounds_before):
    """Two prices, three folds, four rounds each: at any of them, no price is chosen."""
    X, y = wdbc()
    model = PushRanker(price="cv", prices=(1, 4), cv=3, n_estimators=4, learning_rate=1.0)
    step, seen = ExactStep.step, []

    def interrupted(self, *given):
        seen.append(given)
        if len(seen) > rounds_before:
            raise KeyboardInterrupt
        return step(self, *given)

    monkeypatch.setattr(ExactStep, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fit(model, X[:90], y[:90])
    assert not hasattr(model, "price_")


def test_the_least_of_equally_good_prices_is_taken():
    by_price = np.array([[0.5, 0.5, 0.6], [0.80, 0.83, 0.81], [0.82, 0.81, 0.83]])
    assert one_error_rule(list(by_price)).chosen == 1
    assert one_error_rule(list(by_price[[0, 2]])).chosen == 1


def test_cross_validation_keeps_queries_whole_and_takes_any_metric():
    X, y = wdbc()
    qid = np.arange(len(y)) // 40
    settings = {
        "learning_rate": 1.0,
        "n_estimators": 5,
        "prices": (1, 8),
        "cv": 3,
        "random_state": 1,
    }
    assert fit(PushRanker(price="cv", **settings), X, y, qid=qid).price_search_.metric == "ndcg@10"
    named = PushRanker(price="cv", cv_metric="pair_error", **settings)
    assert (fit(named, X, y).price_search_.by_fold <= 0).all()
    across = PushRanker(price="cv", scope="global", **settings)
    assert fit(across, X, y, qid=qid).price_search_.metric == "partial_auc@0.1"


def test_going_on_keeps_the_price():
    X, y = wdbc()
    settings = {"learning_rate": 1.0, "price": "cv", "prices": (1, 8), "cv": 3, "random_state": 0}
    model = fit(PushRanker(**settings, n_estimators=4, warm_start=True), X, y)
    chosen = model.price_
    fit(model.set_params(n_estimators=8), X, y)
    assert model.price_ == chosen
    whole = fit(PushRanker(price=chosen, n_estimators=8, learning_rate=1.0), X, y)
    assert_array_equal(model.predict(X), whole.predict(X))


@pytest.mark.parametrize(
    ("price", "few"), [(1, False), (2, False), (4, True), ("exp", True), (Quadratic(), False)]
)
def test_a_push_with_too_few_rows_is_said(price, few):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 2
    model = PushRanker(price=price, n_estimators=3, weak_rankers="features", learning_rate=1.0)
    with warnings.catch_warnings(record=True) as given_out:
        warnings.simplefilter("always")
        model.fit(X, y)
    said = [str(w.message) for w in given_out if w.category is SmallSampleWarning]
    assert len(said) == few
    assert not few or said[0].startswith("30 rows that should rank low are few for price=")


def test_no_push_no_warning():
    X, y = wdbc()
    model = PushRanker(price=1, n_estimators=3, learning_rate=1.0).fit(X, y)
    assert model.effective_losers_ > 50


@pytest.mark.parametrize("rank_weight", [None, "ndcg@10"])
def test_effective_losers_are_those_of_the_rounds_kept(rank_weight):
    X, y = wdbc()
    settings = {"price": 2 if rank_weight is None else 1, "rank_weight": rank_weight}
    stopped = PushRanker(n_estimators=100, early_stopping_rounds=3, **settings)
    fit(stopped, X[::2], y[::2], eval_set=(X[1::2], y[1::2]))
    rounds = stopped.n_estimators_
    assert 1 < rounds < len(stopped.history_)
    kept = fit(PushRanker(n_estimators=rounds, **settings), X[::2], y[::2])
    assert stopped.effective_losers_ == kept.effective_losers_


# -- saving and refusing ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"price": 0.5}, "0.5"),
        ({"effective_losers": "x"}, "effective_losers"),
        ({"price_search": {"prices": [1]}}, "search of prices"),
        (
            {"price_search": {"prices": [1], "by_fold": [[1, 2]], "best": 1, "metric": "m"}},
            "shape",
        ),
    ],
)
def test_a_broken_file_is_refused(tmp_path, change, said):
    X, y = wdbc()
    path = tmp_path / "model.json"
    fit(PushRanker(n_estimators=2, learning_rate=1.0), X, y).save(path)
    fields = json.loads(path.read_text())
    fields["fitted"] |= change
    path.write_text(json.dumps(fields))
    with pytest.raises(ValueError, match=said):
        load(path)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"price": 0.5}, "0.5.*1 or more"),
        ({"price": "steep"}, "price='steep' is unknown"),
        ({"price": True}, "price=True"),
        ({"loss": "cauchy"}, "loss='cauchy'"),
        ({"scope": "all"}, "scope='all' is unknown; use 'query' or 'global'"),
        ({"price": "cv", "prices": ()}, "nothing to try"),
        ({"price": "cv", "prices": "1"}, "nothing to try"),
        ({"price": "cv", "prices": (1, 0)}, "0.* 1 or more"),
        ({"price": "cv", "cv": 1}, "cv=1"),
        ({"price": "cv", "cv_metric": "nonsense"}, "nonsense"),
    ],
)
def test_bad_parameters_are_named(settings, said):
    X, y = wdbc()
    with pytest.raises(ValueError, match=said):
        fit(PushRanker(n_estimators=2, **settings), X, y)


def test_too_few_pairs_to_cross_validate():
    with pytest.raises(ValueError, match="fewer than two folds of cv=2"):
        fit(PushRanker(price="cv", cv=2), np.arange(4.0)[:, None], [1, 0, 0, 0])


def test_a_price_of_ones_own_is_used_and_its_absence_from_the_file_is_said(tmp_path):
    X, y = wdbc()
    model = fit(PushRanker(price=Quadratic(), n_estimators=3, learning_rate=1.0), X, y)
    assert isinstance(model.price_, Quadratic)
    model.save(tmp_path / "model.json")
    with pytest.warns(UserWarning, match="could not store price"):
        back = load(tmp_path / "model.json")
    assert_array_equal(back.predict(X), model.predict(X))


def test_power_objects_are_powers():
    X, y = wdbc()
    one, other = (
        fit(PushRanker(price=p, n_estimators=4, learning_rate=1.0), X, y) for p in (8, Power(8))
    )
    assert_array_equal(one.predict(X), other.predict(X))


def test_columns_of_values_beyond_one():
    """Real-valued rankers go through the line search; scale does not matter."""
    X, y = wdbc()
    one = fit(PushRanker(weak_rankers=Columns(), n_estimators=5, learning_rate=1.0), X / 100, y)
    other = fit(PushRanker(weak_rankers=Columns(), n_estimators=5, learning_rate=1.0), X / 50, y)
    assert_allclose(one.predict(X / 100), other.predict(X / 50), rtol=1e-5)


# -- kinks -----------------------------------------------------------------------------------


def test_a_line_whose_slope_leaves_zero_as_a_cube_is_searched():
    """Beyond the last margin a squared hinge to the power of two leaves its least as x⁴ does."""
    X, y = [[0.0, 1], [0, 1], [1, 1], [2, 0]], [1, 0, 1, 0]
    model = PushRanker(price=2, loss="squared_hinge", learning_rate=1.0, n_estimators=4)
    assert (np.diff(fit(model, X, y).history_["log_risk"]) <= 0).all()


@given(
    some.problems(),
    st.sampled_from(["hinge", "squared_hinge"]),
    st.sampled_from([1, 2, 3, 8, "exp"]),
    st.sampled_from([0.3, 1.0]),
)
def test_hinges_with_a_price_are_minimized_on_every_line(problem, loss, price, rate):
    X, made = problem
    model = PushRanker(price=price, loss=loss, learning_rate=rate, n_estimators=6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = fit(model, X, made)
    assert (np.diff(model.history_["log_risk"]) <= 1e-9).all()


@pytest.mark.parametrize("rate", [1.0, 0.1])
def test_coordinate_descent_that_stalls_at_a_kink_is_said(rate):
    """No stump alone lowers the risk below 1/3 of a pair, all together make it 0."""
    X, y = [[0.0, 0], [1, 1], [3, 2], [0, 3], [3, 1]], [0, 0, 0, 1, 1]
    model = PushRanker(price=1, loss="hinge", learning_rate=rate, n_estimators=300)
    with pytest.warns(
        ConvergenceWarning, match="stall above the minimum; use loss='squared_hinge'"
    ):
        fit(model, X, y)
    rounded = fit(clone(model).set_params(loss=SmoothedHinge(0.1), n_estimators=3000), X, y)
    hinge = PairRisk("hinge")
    values = [hinge.value(Judgments(y), each.predict(X)) for each in (model, rounded)]
    assert values[1] < 0.1
    assert values[0] > 1.5
    if rate == 1:
        assert model.stop_reason_ == "stalled at a kink of the loss"
        assert len(model.history_) < 300


@pytest.mark.parametrize("loss", ["exponential", "logistic", "squared_hinge"])
def test_losses_without_a_kink_never_stall(loss):
    X, y = wdbc()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        fit(PushRanker(price=1, loss=loss, learning_rate=1.0, n_estimators=60), X, y)


def test_weights_too_large_for_an_exponential_price_are_refused():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y, qid = (X[:, 0] + rng.normal(size=40) > 0).astype(int), np.repeat(np.arange(4), 10)
    weight = np.where(np.arange(40) % 3 == 0, 1e100, 1.0)
    with pytest.raises(ValueError, match=r"logarithm of the risk is .*divide sample_weight"):
        PushRanker(price="exp", n_estimators=3).fit(X, y, qid=qid, sample_weight=weight)
