"""Smooth margin ranking, its certificate, and margins, against enumeration and programmes."""

import json
import math
import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import naive
import naive_margin
import strategies as some
from precede import (
    Judgments,
    RankBoost,
    SmoothMargin,
    Stump,
    Stumps,
    best_margin,
    load,
    margins,
)
from precede.margin import least_margin, progress_ratio, smooth_step, weight_norm
from precede.model import Ensemble
from precede.rankers.columns import Constant

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


@st.composite
def separable(draw, most=9):
    """A table of few values, grades that follow a sum of stumps, queries or pairs, weights."""
    n, count = draw(st.integers(3, most)), draw(st.integers(1, 3))
    X = np.array(draw(st.lists(st.integers(0, 4), min_size=n * count, max_size=n * count)))
    X = X.reshape(n, count).astype(float)
    score = np.zeros(n)
    for _ in range(draw(st.integers(1, 4))):
        feature, cut = draw(st.integers(0, count - 1)), draw(st.integers(0, 3)) + 0.5
        score += draw(st.sampled_from([-2, -1, 1, 2])) * (X[:, feature] > cut)
    fields = {"grade": score, "n": n}
    if draw(st.booleans()):
        fields["qid"] = draw(some.query_ids(n))
    if draw(st.booleans()):
        fields["weight"] = draw(st.lists(st.sampled_from([0.25, 1, 2]), min_size=n, max_size=n))
    if draw(st.booleans()):  # a few pairs instead of grades
        i, k = np.nonzero(score[:, None] > score[None, :])
        fields |= {"pairs": np.stack([i, k], axis=1)[:6], "grade": None}
    made = Judgments(**fields)
    assume(naive.list_pairs(made))
    return X, made


def stumps_of(X, made):
    rows = sorted({row for pair in naive.list_pairs(made) for row in (pair.winner, pair.loser)})
    return naive.candidates(X[rows])


# -- the linear programme --------------------------------------------------------------------


@given(separable())
def test_the_best_margin_is_that_of_all_pairs_and_all_stumps(problem):
    X, made = problem
    expected = naive_margin.best_margin(made, [stump.values(X) for stump in stumps_of(X, made)])
    assert best_margin(X, made) == pytest.approx(expected, abs=1e-8)
    assert expected > 0


@given(some.problems(most=8, tied=False), st.booleans())
def test_the_best_margin_of_anything(problem, nonnegative):
    X, made = problem
    values = [stump.values(X) for stump in stumps_of(X, made)]
    expected = naive_margin.best_margin(made, values, nonnegative=nonnegative)
    assert best_margin(X, made, nonnegative=nonnegative) == pytest.approx(expected, abs=1e-8)


@given(separable(), st.sampled_from(["features", "columns"]))
def test_the_best_margin_of_real_rankers(problem, rankers):
    X, made = problem
    rows = sorted({row for pair in naive.list_pairs(made) for row in (pair.winner, pair.loser)})
    columns = X.T
    if rankers == "features":
        low, high = X[rows].min(axis=0), X[rows].max(axis=0)
        columns = [(c - a) / (b - a) if b > a else 0 * c for c, a, b in zip(X.T, low, high)]  # noqa: B905
        columns = np.clip(columns, 0, 1)
    expected = naive_margin.best_margin(made, columns)
    assert best_margin(X, made, rankers=rankers) == pytest.approx(expected, abs=1e-8)


def test_too_large_a_programme_is_refused():
    X = np.arange(30_000.0)[:, None]
    with pytest.raises(ValueError, match=r"30000 rows and pairs are too many.*SmoothMargin"):
        best_margin(X, (X[:, 0] > 10).astype(int))


# -- the algorithm ---------------------------------------------------------------------------


@given(separable(), st.booleans())
def test_rounds_are_those_of_the_paper(problem, nonnegative):
    """Rankers and weights over explicit lists of pairs and of stumps."""
    X, made = problem
    model = SmoothMargin(n_estimators=25, tolerance=1e-9, nonnegative=nonnegative, n_jobs=1)
    model.fit(X, made)
    stumps = stumps_of(X, made)
    values = [stump.values(X) for stump in stumps]
    chosen, steps, smooth = naive_margin.smooth_margin(
        made, values, rounds=25, nonnegative=nonnegative
    )
    assert min(model.ensemble_.weights, default=1.0) > 0 or not nonnegative
    history = model.history_
    kept = model.ensemble_
    for t in range(min(len(kept), len(chosen))):
        ranker = kept.rankers[t]
        assert (ranker.feature, ranker.threshold) == (
            stumps[chosen[t]].feature, stumps[chosen[t]].threshold,
        ), t  # fmt: skip
        if steps[t] is not None:
            assert kept.weights[t] == pytest.approx(steps[t], abs=1e-8)
        if t > 0:
            assert history["smooth_margin"][t - 1] == pytest.approx(smooth[t], abs=1e-8)


@given(separable(), st.sampled_from(["stumps", "features", "columns"]), st.booleans())
@settings(max_examples=60)
def test_the_interval_holds_the_best_margin_at_every_round(problem, rankers, nonnegative):
    X, made = problem
    best = best_margin(X, made, rankers=rankers, nonnegative=nonnegative)
    model = SmoothMargin(
        n_estimators=40, tolerance=1e-6, rankers=rankers, nonnegative=nonnegative, n_jobs=1
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
    model = SmoothMargin(n_estimators=3000, tolerance=0.02, n_jobs=1).fit(X, made)
    low, high = model.margin_interval_
    assert high - low <= 0.02
    assert low - 1e-9 <= best <= high + 1e-9
    assert model.margin_ >= best - 0.02
    assert model.stop_reason_ in (
        "the best margin is known within the tolerance", "one ranker puts every pair in order",
    )  # fmt: skip


def test_theorem_6_rankboost_cycles_and_smooth_margin_ranking_does_not():
    X, y, qid = as_pairs(CYCLING)
    assert best_margin(X, y, qid=qid, rankers="columns") == pytest.approx(3 / 8, abs=1e-9)
    settings = {"rankers": "columns", "n_jobs": 1}
    stuck = RankBoost(n_estimators=3000, **settings).fit(X, y, qid=qid)
    assert margins(stuck, X, y, qid=qid).minimum == pytest.approx(1 / 3, abs=1e-3)
    features = [ranker.feature for ranker in stuck.ensemble_.rankers]
    assert features[-3:] * 900 == features[-2700:]  # a cycle of three
    model = SmoothMargin(n_estimators=100_000, tolerance=0.0012, **settings).fit(X, y, qid=qid)
    assert model.margin_ == pytest.approx(3 / 8, abs=1e-3)
    low, high = model.margin_interval_
    assert low <= 3 / 8 <= high <= low + 0.0012


def test_theorem_7_progress_is_as_promised():
    X, y = load_breast_cancer(return_X_y=True)
    model = SmoothMargin(n_estimators=400, tolerance=1e-9).fit(X[:, :12], y)
    history = model.history_
    smooth, step = history["smooth_margin"], np.abs(history["step"])
    promised = history["progress_condition"].astype(bool)
    assert promised.sum() > 50
    assert not promised[0]
    net, norm = {}, []
    for ranker, weight in zip(model.ensemble_.rankers, model.ensemble_.weights, strict=True):
        net[ranker] = net.get(ranker, 0.0) + weight
        norm.append(sum(map(abs, net.values())))
    for t in np.flatnonzero(promised[: len(norm)]):
        gain = 0.5 * step[t] * (history["best_edge"][t] - smooth[t - 1]) / norm[t]
        assert smooth[t] - smooth[t - 1] >= gain - 1e-12, t


@pytest.mark.parametrize("rankers", ["features", "columns"])
def test_real_rankers_ascend_the_smooth_margin(rankers):
    generator = np.random.default_rng(1)
    X = generator.normal(size=(60, 4))
    y = (X @ [1.0, -2.0, 0.5, 1.0] > 0).astype(int)
    model = SmoothMargin(rankers=rankers, n_estimators=400, tolerance=1e-9, n_jobs=1).fit(X, y)
    smooth = model.history_["smooth_margin"]
    positive = np.flatnonzero(smooth > 0)
    assert positive.size > 100
    assert np.all(np.diff(smooth[positive[0] :]) >= -1e-12)
    best = best_margin(X, y, rankers=rankers)
    low, high = model.margin_interval_
    assert low <= best <= high
    assert low > 0.8 * best
    assert not model.history_["progress_condition"].any()


def test_one_real_column_that_orders_every_pair():
    """Its step would be infinite; the weights stay finite and the interval closes."""
    X = np.array([[0.0], [0.5], [0.6], [2.0]])
    model = SmoothMargin(rankers="columns", n_estimators=500, tolerance=1e-6).fit(X, [0, 0, 1, 1])
    assert model.margin_ == pytest.approx(0.1)
    assert model.margin_interval_[1] == pytest.approx(0.1, abs=1e-6)
    assert np.isfinite(model.ensemble_.weights).all()


def test_one_stump_that_orders_every_pair():
    model = SmoothMargin().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    assert model.margin_ == 1.0
    assert model.margin_interval_ == pytest.approx((1.0, 1.0))
    assert len(model.history_) == 1


# -- data that cannot be separated -----------------------------------------------------------


@pytest.mark.filterwarnings("default")
def test_without_a_positive_margin_it_is_rankboost_and_says_so():
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(80, 2)), generator.integers(0, 2, 80)
    X[1] = X[0]
    y[:2] = 0, 1  # not separable by any ranker
    with pytest.warns(ConvergenceWarning, match=r"best margin possible is at most.*RankBoost"):
        model = SmoothMargin(n_estimators=60).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        twin = RankBoost(n_estimators=60).fit(X, y)
    assert model.ensemble_.rankers == twin.ensemble_.rankers
    assert model.ensemble_.weights == twin.ensemble_.weights
    assert model.margin_interval_[0] == 0.0
    assert model.margin_ <= 0.0
    assert best_margin(X, y) == 0.0


@pytest.mark.filterwarnings("default")
def test_a_certified_failure_is_called_one():
    with pytest.warns(ConvergenceWarning, match="cannot separate"):
        model = SmoothMargin(n_estimators=10).fit([[0.0], [0.0], [1.0], [1.0]], [0, 1, 0, 1])
    assert model.margin_interval_ == (0.0, 0.0)
    assert model.margin_ == 0.0
    assert model.n_estimators_ == 0


@pytest.mark.filterwarnings("default")
def test_too_few_rounds_are_told():
    X, y, qid = as_pairs(CYCLING)
    with pytest.warns(ConvergenceWarning, match="wider than the tolerance 1e-05"):
        SmoothMargin(rankers="columns", n_estimators=30, tolerance=1e-5).fit(X, y, qid=qid)


# -- the estimator ---------------------------------------------------------------------------


@parametrize_with_checks(
    [SmoothMargin(n_estimators=20), SmoothMargin(n_estimators=5, rankers="features")]
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_scikit_learn(estimator, check):
    check(estimator)


def test_saved_and_loaded(tmp_path):
    X, y, qid = as_pairs(CYCLING)
    model = SmoothMargin(rankers="columns", n_estimators=50).fit(X, y, qid=qid)
    model.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert again.margin_ == model.margin_
    assert again.margin_interval_ == model.margin_interval_
    assert list(again.history_) == list(model.history_)
    fields = json.loads((tmp_path / "model.json").read_text())
    for wrong in ({}, {"margin": "much", "lower": 0.0, "upper": 1.0}, 3):
        (tmp_path / "bad.json").write_text(json.dumps({**fields, "certificate": wrong}))
        with pytest.raises(ValueError, match=r"margin|certificate"):
            load(tmp_path / "bad.json")


def test_a_warm_start_goes_on():
    X, y, qid = as_pairs(CYCLING)
    settings = {"rankers": "columns", "tolerance": 1e-6, "n_jobs": 1}
    once = SmoothMargin(n_estimators=200, **settings).fit(X, y, qid=qid)
    twice = SmoothMargin(n_estimators=80, warm_start=True, **settings).fit(X, y, qid=qid)
    twice.set_params(n_estimators=200).fit(X, y, qid=qid)
    assert twice.ensemble_.rankers == once.ensemble_.rankers
    assert_allclose(twice.ensemble_.weights, once.ensemble_.weights, rtol=1e-12)
    assert twice.margin_ == pytest.approx(once.margin_, rel=1e-12)
    low, high = twice.margin_interval_
    assert low <= 3 / 8 <= high


@pytest.mark.parametrize("change", [{"nonnegative": True}, {"rankers": "stumps"}, {"max_bins": 4}])
def test_a_warm_start_with_other_rankers_is_refused(change):
    """The interval of the last fit holds for the rankers of the last fit alone."""
    X, y, qid = as_pairs(CYCLING)
    model = SmoothMargin(rankers="columns", n_estimators=20, warm_start=True).fit(X, y, qid=qid)
    with pytest.raises(ValueError, match="interval certified so far would not hold"):
        model.set_params(n_estimators=40, **change).fit(X, y, qid=qid)


@pytest.mark.filterwarnings("default")
def test_non_negative_weights_that_cannot_separate_are_told():
    """The complement of the only stump would be needed: the best margin is 0, and known to be."""
    X, y = np.array([[0.0], [1.0]]), [1, 0]
    with pytest.warns(ConvergenceWarning, match="cannot separate"):
        model = SmoothMargin(nonnegative=True).fit(X, y)
    assert model.margin_interval_ == (0.0, 0.0)
    assert SmoothMargin().fit(X, y).margin_ == 1.0


# -- lemma 20 --------------------------------------------------------------------------------


@given(st.floats(0.001, 0.999), st.floats(0, 0.999), st.floats(0, 0.999))
@settings(max_examples=300)
def test_lemma_20_a_step_keeps_more_than_half_of_its_promise(edge, smooth, tied):
    """B > 1/2 where d0 < 2/3 (1 - r)(1 - r²); the margin and the tied are shares of their most."""
    smooth, tied = smooth * edge, tied * 2 / 3 * (1 - edge) * (1 - edge**2)
    found = naive_margin.progress_ratio(edge, smooth, tied)
    assert found > 0.5
    assert progress_ratio(edge, smooth, tied) == pytest.approx(float(found), abs=1e-8)


@given(st.floats(0.05, 0.95), st.floats(0.01, 0.95), st.floats(0, 0.999))
def test_lemmas_21_to_24_the_step_as_a_function_of_the_smooth_margin(edge, smooth, tied):
    """The chain that leads to lemma 20; derivatives by g from the formulas of lemma 21."""
    smooth, tied = smooth * edge, tied * 2 / 3 * (1 - edge) * (1 - edge**2)
    right, wrong = (1 + edge - tied) / 2, (1 - edge - tied) / 2

    def step(g):
        return smooth_step(right, wrong, tied, g)

    def tau(alpha):
        return right * math.exp(-alpha) + wrong * math.exp(alpha) + tied

    at, near = step(smooth), 1e-6
    slope = -tau(at) / ((1 - smooth**2) * tau(at) - tied)
    assert wrong * math.exp(at) - right * math.exp(-at) == pytest.approx(-smooth * tau(at))  # (11)
    assert step(edge) == pytest.approx(0, abs=1e-12)  # 21 (i)
    assert slope < 0  # 21 (ii)
    assert (step(smooth + near) - step(smooth - near)) / (2 * near) == pytest.approx(
        slope, rel=1e-4
    )
    assert -smooth * tau(at) * slope >= 0  # 21 (iv)
    assert 1 - edge <= tied + math.sqrt((1 - tied) ** 2 - edge**2) + 1e-15  # 21 (v)
    assert tied < 2 / 3 * (1 - smooth**2) * tau(at)  # 21 (vi), as its proof has it
    gamma = -math.log(tau(at)) / at
    assert smooth < gamma < edge  # 22 (ii), (iv)
    assert (gamma - smooth) * -slope / at > 0  # 22 (iii)
    assert 0 < (gamma - smooth) / (edge - smooth) < 1  # 23 (i)
    assert (edge - smooth) / at * -slope < 1  # 24


def test_lemma_9_steps_become_small_beside_the_norm():
    X, y, qid = as_pairs(CYCLING)
    model = SmoothMargin(rankers="columns", n_estimators=2000, tolerance=1e-6, n_jobs=1)
    steps = np.abs(model.fit(X, y, qid=qid).history_["step"])
    share = steps / np.cumsum(steps)
    assert share[-500:].max() < 0.003
    assert share[:10].min() > 0.05


def test_lemma_20_needs_its_condition():
    """With most pairs tied a step may bring less than half: the condition is no formality."""
    edge, smooth, tied = 0.29, 0.01, 0.7099
    assert tied > 2 / 3 * (1 - edge) * (1 - edge**2)
    assert progress_ratio(edge, smooth, tied) == pytest.approx(
        float(naive_margin.progress_ratio(edge, smooth, tied)), abs=1e-10
    )
    assert progress_ratio(edge, smooth, tied) < 0.4


def test_the_ratio_is_that_of_the_algorithm():
    """RS09 eq. (9): a round raises G by B·α(r − g)/s, from the history of a fit."""
    X, y = load_breast_cancer(return_X_y=True)
    model = SmoothMargin(n_estimators=300, tolerance=1e-6, n_jobs=1).fit(X, y)
    history, weights = model.history_, {}
    compared = 0
    for t, (ranker, step) in enumerate(
        zip(model.ensemble_.rankers, model.ensemble_.weights, strict=True)
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


def test_a_ratio_outside_its_range_is_refused():
    for wrong in [(0.0, 0.0, 0.1), (0.5, 0.5, 0.1), (0.5, -0.1, 0.1), (0.5, 0.1, 0.5)]:
        with pytest.raises(ValueError, match="give 0 <= smooth < edge < 1"):
            progress_ratio(*wrong)


def test_weights_that_are_copies_give_the_same_model():
    generator = np.random.default_rng(3)
    X = generator.integers(0, 5, (30, 3)).astype(float)
    y = (X.sum(axis=1) > 6).astype(int)
    weight = generator.integers(0, 3, 30)
    settings = {"n_estimators": 60, "tolerance": 1e-9, "n_jobs": 1}
    one = SmoothMargin(**settings).fit(X, y, sample_weight=weight)
    other = SmoothMargin(**settings).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert_allclose(one.predict(X), other.predict(X), atol=1e-9)


def test_the_progress_bar_shows_the_interval(capsys):
    X, y, qid = as_pairs(CYCLING)
    SmoothMargin(rankers="columns", n_estimators=40, verbose=1).fit(X, y, qid=qid)
    assert "best margin in [0.3" in capsys.readouterr().err.replace("\n", " ")


def test_rankers_that_are_not_searched_exactly_are_refused():
    X, y = [[0.0], [1.0], [2.0]], [0, 0, 1]
    for fit in (SmoothMargin(rankers="trees").fit, lambda X, y: best_margin(X, y, rankers="trees")):
        with pytest.raises(ValueError, match="may miss the largest edge"):
            fit(X, y)
    with pytest.raises(ValueError, match="beside Judgments"):
        best_margin(X, Judgments(y), qid=[1, 1, 1])


@pytest.mark.parametrize("tolerance", [0, -1.0, 2.0, "small", None])
def test_a_senseless_tolerance_is_refused(tolerance):
    with pytest.raises(ValueError, match="tolerance"):
        SmoothMargin(tolerance=tolerance).fit([[0.0], [1.0]], [0, 1])


# -- margins of any model --------------------------------------------------------------------


@given(some.problems(most=10, tied=False))
@pytest.mark.filterwarnings("ignore::precede.boost.SmoothedStepWarning")
def test_the_distribution_of_margins_is_that_of_a_list(problem):
    X, made = problem
    model = RankBoost(n_estimators=6, step="bound").fit(X, made)
    assume(len(model.ensemble_))
    net = {}
    for ranker, weight in zip(model.ensemble_.rankers, model.ensemble_.weights, strict=True):
        net[ranker] = net.get(ranker, 0.0) + weight
    norm = sum(map(abs, net.values()))
    assume(norm > 1e-9)
    scores = model.predict(X)
    graded = Judgments(made.grade, made.qid, weight=made.weight, n=len(made))
    listed = Judgments(pairs=made.pairs, pair_weight=made.pair_weight, weight=made.weight,
                       n=len(made))  # fmt: skip
    # A pair listed twice is one; one that is graded and listed is two.
    expected = [
        scores[i] - scores[k]
        for part in (graded, listed)
        for i, k in {(pair.winner, pair.loser) for pair in naive.list_pairs(part)}
    ]
    found = margins(model, X, made)
    expected = np.array(expected) / norm
    assert found.n_pairs == expected.size
    assert found.norm == pytest.approx(norm)
    assert found.minimum == pytest.approx(expected.min(), abs=1e-12)
    for theta in (-0.4, 0.011, 0.3, 2.0):
        assert found.at(theta) == pytest.approx(np.mean(expected <= theta))


@given(some.judgments(most=12), st.data())
def test_the_least_margin_is_that_of_a_list(made, data):
    scores = data.draw(some.scores(len(made)))
    arrangement = made.arrange()
    expected = min(scores[p.winner] - scores[p.loser] for p in naive.list_pairs(made))
    assert least_margin(arrangement, scores[arrangement.order]) == expected


def test_the_norm_counts_a_ranker_once_and_the_constant_not_at_all():
    stumps = [Stump(0, 0.5), Stump(1, 0.5), Stump(0, 0.5), Stump(0, 0.5, missing=1), Constant()]
    ensemble = Ensemble(stumps, [2.0, -1.0, -0.5, 0.25, 9.0], n_features=2)
    assert weight_norm(ensemble) == 1.5 + 1.0 + 0.25


def test_margins_say_what_is_wrong():
    X, y = [[0.0], [1.0], [2.0]], [0, 0, 1]
    model = RankBoost(n_estimators=2).fit(X, y)
    with pytest.raises(ValueError, match="beside Judgments"):
        margins(model, X, Judgments(y), qid=[1, 1, 1])
    with pytest.raises(ValueError, match="X has 3 rows and y has 2"):
        margins(model, X, y[:2])
    with pytest.raises(ValueError, match="no crucial pair"):
        margins(model, X, [1, 1, 1])
    tied = RankBoost(n_estimators=2).fit([[0.0], [0.0]], [0, 1])
    with pytest.raises(ValueError, match="no ranker"):
        margins(tied, [[0.0], [0.0]], [0, 1])


@pytest.mark.parametrize("jobs", [1, 2])
def test_threads_and_laziness_leave_no_trace(jobs, tiny_thresholds):
    X, y = load_breast_cancer(return_X_y=True)
    first = SmoothMargin(n_estimators=70, n_jobs=1, rankers=Stumps(lazy=False)).fit(X, y)
    other = SmoothMargin(n_estimators=70, n_jobs=jobs).fit(X[::-1], y[::-1])
    assert first.ensemble_.weights == other.ensemble_.weights
    assert first.margin_interval_ == other.margin_interval_
