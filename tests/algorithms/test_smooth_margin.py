"""Smooth margin ranking and its certificate."""

import json
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning

import naive_evaluation
from precede import (
    Judgments,
    PairRisk,
    RankBoost,
    SmoothMarginRanker,
    Stumps,
    best_margin,
    load,
    margins,
)
from precede.margin import progress_ratio
from test_margin import separable, stumps_of

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# Rudin, Daubechies & Schapire (2004): columns are weak classifiers, rows are examples, an entry
# is 1 where the one is right about the other. AdaBoost cycles at margin 1/3; 3/8 is possible.
CYCLING = np.array([
    [-1, 1, 1, 1, 1, -1, -1, 1],
    [-1, 1, 1, -1, -1, 1, 1, 1],
    [1, -1, 1, 1, 1, -1, 1, 1],
    [1, -1, 1, 1, -1, 1, 1, 1],
    [1, -1, 1, -1, 1, 1, 1, -1],
    [1, 1, -1, 1, 1, 1, 1, -1],
    [1, 1, -1, 1, 1, 1, -1, 1],
    [1, 1, 1, 1, -1, -1, 1, -1],
])  # fmt: skip


def as_pairs(matrix):
    """A pair for each row, of which ranker j makes matrix[row, j]."""
    X = np.vstack([(1 + matrix) / 2, (1 - matrix) / 2])
    rows = np.arange(len(matrix))
    return X, np.repeat([1, 0], len(matrix)), np.concatenate([rows, rows])


@given(separable(), st.booleans())
def test_rounds_are_those_of_the_paper(problem, nonnegative):
    """Rankers and weights over explicit lists of pairs and of stumps."""
    X, made = problem
    model = SmoothMarginRanker(n_estimators=25, tol=1e-9, nonnegative=nonnegative, n_jobs=1)
    model.fit(X, made)
    stumps = stumps_of(X, made, nonnegative)
    values = [stump.values(X) for stump in stumps]
    chosen, steps, smooth = naive_evaluation.smooth_margin(
        made, values, rounds=25, nonnegative=nonnegative
    )
    assert min(model.ensemble_.weights, default=1.0) > 0 or not nonnegative
    history = model.history_
    kept = model.ensemble_
    for t in range(min(len(kept), len(chosen))):
        ranker = kept.weak_rankers[t]
        assert (ranker.feature, ranker.threshold) == (
            stumps[chosen[t]].feature, stumps[chosen[t]].threshold,
        ), t  # fmt: skip
        if steps[t] is not None:
            assert kept.weights[t] == pytest.approx(steps[t], abs=1e-8)
        if t > 0:
            assert history["smooth_margin"][t - 1] == pytest.approx(smooth[t], abs=1e-8)


@given(separable(), st.sampled_from(["stumps", "features", "columns"]), st.booleans())
@settings(max_examples=60)
def test_the_interval_holds_the_best_margin_at_every_round(problem, weak_rankers, nonnegative):
    X, made = problem
    best = best_margin(X, made, weak_rankers=weak_rankers, nonnegative=nonnegative)
    model = SmoothMarginRanker(
        n_estimators=40,
        tol=1e-6,
        weak_rankers=weak_rankers,
        nonnegative=nonnegative,
        n_jobs=1,
    ).fit(X, made)
    if not model.n_estimators_:  # no ranker goes up with the grades
        assert best == 0
        assert model.margin_interval_ == (0.0, 0.0)
        return
    history = model.history_
    assert np.all(history["margin"] <= best + 1e-8)
    assert np.all(history["lower"] <= best + 1e-8)
    assert np.all(history["upper"] >= best - 1e-8)
    assert np.all(history["best_edge"] >= best - 1e-8)
    assert np.all(history["smooth_margin"] <= history["margin"] + 1e-9)
    assert np.all(np.diff(history["lower"]) >= 0)
    assert np.all(np.diff(history["upper"]) <= 0)
    low, high = model.margin_interval_
    assert low - 1e-8 <= best <= high + 1e-8
    assert model.margin_ == pytest.approx(margins(model, X, made).minimum, abs=1e-9)
    if best > 1e-9 and low > 0:
        assert low == model.margin_


@given(separable())
@settings(max_examples=15)
def test_the_interval_closes(problem):
    X, made = problem
    best = best_margin(X, made)
    model = SmoothMarginRanker(n_estimators=3000, tol=0.02, n_jobs=1).fit(X, made)
    low, high = model.margin_interval_
    assert high - low <= 0.02
    assert low - 1e-9 <= best <= high + 1e-9
    assert model.margin_ >= best - 0.02
    assert model.stop_reason_ in (
        "the best margin is known within the tolerance", "one ranker puts every pair in order",
    )  # fmt: skip


def test_theorem_6_rankboost_cycles_and_smooth_margin_ranking_does_not():
    X, y, qid = as_pairs(CYCLING)
    assert best_margin(X, y, qid=qid, weak_rankers="columns") == pytest.approx(3 / 8, abs=1e-9)
    settings = {"weak_rankers": "columns", "n_jobs": 1}
    stuck = RankBoost(n_estimators=3000, learning_rate=1.0, **settings).fit(X, y, qid=qid)
    assert margins(stuck, X, y, qid=qid).minimum == pytest.approx(1 / 3, abs=1e-3)
    features = [ranker.feature for ranker in stuck.ensemble_.weak_rankers]
    assert features[-3:] * 900 == features[-2700:]  # a cycle of three
    model = SmoothMarginRanker(n_estimators=100_000, tol=0.0012, **settings).fit(X, y, qid=qid)
    assert model.margin_ == pytest.approx(3 / 8, abs=1e-3)
    low, high = model.margin_interval_
    assert low <= 3 / 8 <= high <= low + 0.0012


def test_theorem_7_progress_is_as_promised():
    X, y = load_breast_cancer(return_X_y=True)
    model = SmoothMarginRanker(n_estimators=400, tol=1e-9).fit(X[:, :12], y)
    history = model.history_
    smooth, step = history["smooth_margin"], np.abs(history["step"])
    promised = history["progress_condition"].astype(bool)
    assert promised.sum() > 50
    assert not promised[0]
    net, norm = {}, []
    for ranker, weight in zip(model.ensemble_.weak_rankers, model.ensemble_.weights, strict=True):
        net[ranker] = net.get(ranker, 0.0) + weight
        norm.append(sum(map(abs, net.values())))
    for t in np.flatnonzero(promised[: len(norm)]):
        gain = 0.5 * step[t] * (history["best_edge"][t] - smooth[t - 1]) / norm[t]
        assert smooth[t] - smooth[t - 1] >= gain - 1e-12, t


@pytest.mark.parametrize("weak_rankers", ["features", "columns"])
def test_real_rankers_ascend_the_smooth_margin(weak_rankers):
    generator = np.random.default_rng(1)
    X = generator.normal(size=(60, 4))
    y = (X @ [1.0, -2.0, 0.5, 1.0] > 0).astype(int)
    model = SmoothMarginRanker(weak_rankers=weak_rankers, n_estimators=400, tol=1e-9, n_jobs=1).fit(
        X, y
    )
    smooth = model.history_["smooth_margin"]
    positive = np.flatnonzero(smooth > 0)
    assert positive.size > 100
    assert np.all(np.diff(smooth[positive[0] :]) >= -1e-12)
    best = best_margin(X, y, weak_rankers=weak_rankers)
    low, high = model.margin_interval_
    assert low <= best <= high
    assert low > 0.8 * best
    assert not model.history_["progress_condition"].any()


@pytest.mark.parametrize("weak_rankers", ["stumps", "columns"])
def test_equation_10_the_exact_step_is_where_the_smooth_margin_is_largest(weak_rankers):
    """There the edge of the ranker is G, unless the step has turned the sign of its weight."""
    X = np.random.default_rng(0).normal(size=(40, 5))
    X = (X > 0).astype(float) if weak_rankers == "columns" else X
    y = (4.5 * (weak_rankers == "columns") < X @ [3.0, 2.0, 2.0, 1.0, 1.0]).astype(int)
    model = SmoothMarginRanker(
        weak_rankers=weak_rankers, step="exact", n_estimators=60, tol=1e-9, n_jobs=1
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    judgments, net, scores, seen = Judgments(y), {}, np.zeros(len(y)), 0
    history, risk = model.history_, PairRisk("exponential")
    for t, (ranker, weight) in enumerate(model.ensemble_.parts()):
        before = history["smooth_margin"][t - 1] if t else -1.0
        values = np.asarray(ranker(X), float)
        net[ranker] = net.get(ranker, 0.0) + weight
        scores = scores + weight * values
        G = -np.log(risk.value(judgments, scores)) / sum(map(abs, net.values()))
        assert history["smooth_margin"][t] == pytest.approx(G, abs=1e-9)
        if before > 0 and weight * net[ranker] > 0:
            slope = risk.pull(judgments, scores) @ values / risk.value(judgments, scores)
            assert np.sign(weight) * slope == pytest.approx(G, abs=1e-7)
            seen += 1
    assert seen > 10


def test_an_unknown_step_is_refused():
    with pytest.raises(ValueError, match="step='newton' is unknown; use 'approximate' or 'exact'"):
        SmoothMarginRanker(step="newton").fit([[0.0], [1.0]], [0, 1])


def test_one_real_column_that_orders_every_pair():
    """Its step would be infinite; the weights stay finite and the interval closes."""
    X = np.array([[0.0], [0.5], [0.6], [2.0]])
    model = SmoothMarginRanker(weak_rankers="columns", n_estimators=500, tol=1e-6).fit(
        X, [0, 0, 1, 1]
    )
    assert model.margin_ == pytest.approx(0.1)
    assert model.margin_interval_[1] == pytest.approx(0.1, abs=1e-6)
    assert np.isfinite(model.ensemble_.weights).all()


def test_one_stump_that_orders_every_pair():
    model = SmoothMarginRanker().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    assert model.margin_ == 1.0
    assert model.margin_interval_ == pytest.approx((1.0, 1.0))
    assert len(model.history_) == 1


def test_without_a_positive_margin_it_is_rankboost_and_says_so():
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(80, 2)), generator.integers(0, 2, 80)
    X[1] = X[0]
    y[:2] = 0, 1  # not separable by any ranker
    with pytest.warns(
        ConvergenceWarning, match=r"best margin of the weak rankers is at most.*RankBoost"
    ):
        model = SmoothMarginRanker(n_estimators=60).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        twin = RankBoost(n_estimators=60, learning_rate=1.0).fit(X, y)
    assert model.ensemble_.weak_rankers == twin.ensemble_.weak_rankers
    assert model.ensemble_.weights == twin.ensemble_.weights
    assert model.margin_interval_[0] == 0.0
    assert model.margin_ <= 0.0
    assert best_margin(X, y) == 0.0


def test_a_certified_failure_is_called_one():
    """In one warning, which also says that there is no model."""
    with pytest.warns(ConvergenceWarning, match="cannot separate.*has no rounds") as caught:
        model = SmoothMarginRanker(n_estimators=10).fit([[0.0], [0.0], [1.0], [1.0]], [0, 1, 0, 1])
    assert len(caught) == 1
    assert model.margin_interval_ == (0.0, 0.0)
    assert model.margin_ == 0.0
    assert model.n_estimators_ == 0


def test_rounds_go_on_until_the_pairs_are_separated():
    """The best margin is below the tolerance, and so is the interval long before that."""
    X = np.array([(a, total - a) for total in (118, 119, 120) for a in range(total + 1)], float)
    y = (X.sum(axis=1) >= 119).astype(int)
    model = SmoothMarginRanker(tol=0.01).fit(X, y)
    assert 0 < model.margin_ < 1 / 238 < model.margin_interval_[1] < 0.01
    assert len(model.history_) > 1000
    with pytest.warns(ConvergenceWarning, match=r"in 300 rounds.*Raise n_estimators"):
        SmoothMarginRanker(tol=0.01, n_estimators=300).fit(X, y)


def test_the_interval_is_that_of_the_thresholds_that_were_searched():
    X = np.arange(1000.0)[:, None]
    y = (X[:, 0] >= 503).astype(int)
    said = r"no more than 254 quantiles of a feature; weak_rankers=Stumps\(thresholds='all'\)"
    with pytest.warns(ConvergenceWarning, match=said):
        assert SmoothMarginRanker(n_estimators=100).fit(X, y).margin_ <= 0
    model = SmoothMarginRanker(weak_rankers=Stumps(thresholds="all")).fit(X, y)
    assert model.margin_interval_ == pytest.approx((1.0, 1.0))
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, [0, 7, 20, 22, 27]]
    model = SmoothMarginRanker(weak_rankers=Stumps(thresholds="all"), tol=0.008).fit(X, y)
    low, high = model.margin_interval_
    assert low <= 0.0411113 <= high <= low + 0.008
    assert margins(model, X, y).minimum == pytest.approx(low)


def test_too_few_rounds_are_told():
    X, y, qid = as_pairs(CYCLING)
    with pytest.warns(ConvergenceWarning, match="wider than the tolerance 1e-05"):
        SmoothMarginRanker(weak_rankers="columns", n_estimators=30, tol=1e-5).fit(X, y, qid=qid)


def test_broken_files_are_refused(tmp_path):
    X, y, qid = as_pairs(CYCLING)
    model = SmoothMarginRanker(weak_rankers="columns", n_estimators=50).fit(X, y, qid=qid)
    model.save(tmp_path / "model.json")
    fields = json.loads((tmp_path / "model.json").read_text())
    good = {"margin": 0.5, "margin_interval": [0.0, 1.0]}
    for wrong in ({}, {**good, "margin": "much"}, {**good, "margin_interval": [0.0]}, 3):
        (tmp_path / "bad.json").write_text(json.dumps({**fields, "fitted": wrong}))
        with pytest.raises(ValueError, match=r"margin|fitted"):
            load(tmp_path / "bad.json")


def test_a_warm_start_goes_on():
    X, y, qid = as_pairs(CYCLING)
    settings = {"weak_rankers": "columns", "tol": 1e-6, "n_jobs": 1}
    once = SmoothMarginRanker(n_estimators=200, **settings).fit(X, y, qid=qid)
    twice = SmoothMarginRanker(n_estimators=80, warm_start=True, **settings).fit(X, y, qid=qid)
    twice.set_params(n_estimators=200).fit(X, y, qid=qid)
    assert twice.ensemble_.weak_rankers == once.ensemble_.weak_rankers
    assert_allclose(twice.ensemble_.weights, once.ensemble_.weights, rtol=1e-12)
    assert twice.margin_ == pytest.approx(once.margin_, rel=1e-12)
    low, high = twice.margin_interval_
    assert low <= 3 / 8 <= high


@pytest.mark.parametrize(
    "change", [{"nonnegative": True}, {"weak_rankers": "stumps"}, {"max_bins": 4}]
)
def test_a_warm_start_with_other_rankers_is_refused(change):
    """The interval of the last fit holds for the rankers of the last fit alone."""
    X, y, qid = as_pairs(CYCLING)
    model = SmoothMarginRanker(weak_rankers="columns", n_estimators=20, warm_start=True).fit(
        X, y, qid=qid
    )
    with pytest.raises(ValueError, match="interval certified so far would not hold"):
        model.set_params(n_estimators=40, **change).fit(X, y, qid=qid)


def test_non_negative_weights_that_cannot_separate_are_told():
    """The complement of the only stump would be needed: the best margin is 0, and known to be."""
    X, y = np.array([[0.0], [1.0]]), [1, 0]
    with pytest.warns(ConvergenceWarning, match="cannot separate.*has no rounds") as caught:
        model = SmoothMarginRanker(nonnegative=True).fit(X, y)
    assert len(caught) == 1
    assert model.margin_interval_ == (0.0, 0.0)
    assert SmoothMarginRanker().fit(X, y).margin_ == 1.0


def test_lemma_9_steps_become_small_beside_the_norm():
    X, y, qid = as_pairs(CYCLING)
    model = SmoothMarginRanker(weak_rankers="columns", n_estimators=2000, tol=1e-6, n_jobs=1)
    steps = np.abs(model.fit(X, y, qid=qid).history_["step"])
    share = steps / np.cumsum(steps)
    assert share[-500:].max() < 0.003
    assert share[:10].min() > 0.05


def test_the_ratio_is_that_of_the_algorithm():
    """RS09 eq. (9): a round raises G by B·α(r − g)/s, from the history of a fit."""
    X, y = load_breast_cancer(return_X_y=True)
    model = SmoothMarginRanker(n_estimators=300, tol=1e-6, n_jobs=1).fit(X, y)
    history, weights = model.history_, {}
    compared = 0
    for t, (ranker, step) in enumerate(
        zip(model.ensemble_.weak_rankers, model.ensemble_.weights, strict=True)
    ):
        before = weights.get(ranker, 0.0)
        weights[ranker] = before + step
        if t == 0 or before * step < 0 or not history["progress_condition"][t]:
            continue  # a step back makes the norm smaller: more than the paper's progress
        edge, smooth = history["best_edge"][t], history["smooth_margin"][t - 1]
        scores = sum(w * r(X) for r, w in list(weights.items())) - step * ranker(X)
        shift = np.exp(scores[y == 0][:, None] - scores[y == 1][None, :])
        ties = ranker(X)[y == 0][:, None] == ranker(X)[y == 1][None, :]
        tied = float((shift * ties).sum() / shift.sum())
        norm = sum(map(abs, weights.values()))
        gain = history["smooth_margin"][t] - smooth
        expected = progress_ratio(edge, smooth, tied) * abs(step) * (edge - smooth) / norm
        assert gain == pytest.approx(expected, abs=1e-9)
        compared += 1
    assert compared > 30


def test_weights_that_are_copies_give_the_same_model():
    generator = np.random.default_rng(3)
    X = generator.integers(0, 5, (30, 3)).astype(float)
    y = (X.sum(axis=1) > 6).astype(int)
    weight = generator.integers(0, 3, 30)
    settings = {"n_estimators": 60, "tol": 1e-9, "n_jobs": 1}
    one = SmoothMarginRanker(**settings).fit(X, y, sample_weight=weight)
    other = SmoothMarginRanker(**settings).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert_allclose(one.predict(X), other.predict(X), atol=1e-9)


def test_the_progress_bar_shows_the_interval(capsys):
    X, y, qid = as_pairs(CYCLING)
    SmoothMarginRanker(weak_rankers="columns", n_estimators=40, verbose=1).fit(X, y, qid=qid)
    assert "best margin in [0.3" in capsys.readouterr().err.replace("\n", " ")


def test_rankers_that_are_not_searched_exactly_are_refused():
    X, y = [[0.0], [1.0], [2.0]], [0, 0, 1]
    for fit in (
        SmoothMarginRanker(weak_rankers="trees").fit,
        lambda X, y: best_margin(X, y, weak_rankers="trees"),
    ):
        with pytest.raises(ValueError, match="may miss the largest edge"):
            fit(X, y)
    with pytest.raises(ValueError, match="with Judgments"):
        best_margin(X, Judgments(y), qid=[1, 1, 1])


@pytest.mark.parametrize("tol", [0, -1.0, 2.0, "small", None])
def test_a_senseless_tolerance_is_refused(tol):
    with pytest.raises(ValueError, match="tol"):
        SmoothMarginRanker(tol=tol).fit([[0.0], [1.0]], [0, 1])
