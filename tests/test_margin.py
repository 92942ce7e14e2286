"""Smooth margin ranking, its certificate, and margins, against enumeration and programmes."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer

import naive
import naive_evaluation
import strategies as some
from precede import Judgments, RankBoost, SmoothMarginRanker, Stump, Stumps, best_margin, margins
from precede.margin import least_margin, progress_ratio, smooth_step, weight_norm
from precede.model import Ensemble
from precede.weak_rankers.columns import Constant

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


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


def stumps_of(X, made, one_way=False):
    rows = sorted({row for pair in naive.list_pairs(made) for row in (pair.winner, pair.loser)})
    return naive.candidates(X[rows], one_way=one_way)


# -- the linear programme --------------------------------------------------------------------


@given(separable())
def test_the_best_margin_is_that_of_all_pairs_and_all_stumps(problem):
    X, made = problem
    expected = naive_evaluation.best_margin(made, [stump.values(X) for stump in stumps_of(X, made)])
    assert best_margin(X, made) == pytest.approx(expected, abs=1e-8)
    assert expected > 0


@given(some.problems(most=8, tied=False), st.booleans())
def test_the_best_margin_of_anything(problem, nonnegative):
    X, made = problem
    values = [stump.values(X) for stump in stumps_of(X, made, nonnegative)]
    expected = naive_evaluation.best_margin(made, values, nonnegative=nonnegative)
    assert best_margin(X, made, nonnegative=nonnegative) == pytest.approx(expected, abs=1e-8)


@given(separable(), st.sampled_from(["features", "columns"]))
def test_the_best_margin_of_real_rankers(problem, weak_rankers):
    X, made = problem
    rows = sorted({row for pair in naive.list_pairs(made) for row in (pair.winner, pair.loser)})
    columns = X.T
    if weak_rankers == "features":
        low, high = X[rows].min(axis=0), X[rows].max(axis=0)
        columns = [(c - a) / (b - a) if b > a else 0 * c for c, a, b in zip(X.T, low, high)]  # noqa: B905
        columns = np.clip(columns, 0, 1)
    expected = naive_evaluation.best_margin(made, columns)
    assert best_margin(X, made, weak_rankers=weak_rankers) == pytest.approx(expected, abs=1e-8)


def test_the_best_margin_of_all_thresholds_is_not_that_of_quantiles():
    X = np.arange(1000.0)[:, None]
    y = (X[:, 0] >= 503).astype(int)
    assert best_margin(X, y) == 0.0
    assert best_margin(X, y, weak_rankers=Stumps(thresholds="all")) == 1.0
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, [0, 7, 20, 22, 27]]
    assert best_margin(X, y) == pytest.approx(0.040172, abs=1e-6)
    assert best_margin(X, y, weak_rankers=Stumps(thresholds="all")) == pytest.approx(
        0.041111, abs=1e-6
    )


def test_the_best_margin_of_all_thresholds_is_that_of_a_list():
    rng = np.random.default_rng(3)
    X = rng.permutation(600).reshape(300, 2).astype(float) // 1.3
    score = X @ [1.0, 2.0]
    pairs = [(i, k) for i, k in rng.integers(0, 300, (70, 2)) if score[i] > score[k]]
    made = Judgments(pairs=pairs, n=300)
    rows = np.unique(pairs)
    stumps = [1.0 * (column > t) for column in X.T for t in np.unique(column[rows])[:-1]]
    expected = naive_evaluation.best_margin(made, stumps)
    assert best_margin(X, made, weak_rankers=Stumps(thresholds="all")) == pytest.approx(expected)
    assert best_margin(X, made, weak_rankers=Stumps(thresholds="all"), max_bins=4) == pytest.approx(
        expected
    )
    assert best_margin(X, made, max_bins=4) < 0.9 * expected


def test_too_large_a_programme_is_refused():
    X = np.arange(30_000.0)[:, None]
    with pytest.raises(ValueError, match=r"30000 rows and pairs are too many.*SmoothMarginRanker"):
        best_margin(X, (X[:, 0] > 10).astype(int))


# -- lemma 20 --------------------------------------------------------------------------------


@given(st.floats(0.001, 0.999), st.floats(0, 0.999), st.floats(0, 0.999))
@settings(max_examples=300)
def test_lemma_20_a_step_keeps_more_than_half_of_its_promise(edge, smooth, tied):
    """B > 1/2 where d0 < 2/3 (1 - r)(1 - r²); the margin and the tied are shares of their most."""
    smooth, tied = smooth * edge, tied * 2 / 3 * (1 - edge) * (1 - edge**2)
    found = naive_evaluation.progress_ratio(edge, smooth, tied)
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


def test_lemma_20_has_no_bound_without_its_condition():
    ratios = [progress_ratio(0.25, 0.0, 0.75 - 2 * wrong) for wrong in (1e-3, 1e-6, 1e-9, 1e-12)]
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[-1] < 0.09


def test_lemma_20_needs_its_condition():
    """With most pairs tied a step may bring less than half: the condition is no formality."""
    edge, smooth, tied = 0.29, 0.01, 0.7099
    assert tied > 2 / 3 * (1 - edge) * (1 - edge**2)
    assert progress_ratio(edge, smooth, tied) == pytest.approx(
        float(naive_evaluation.progress_ratio(edge, smooth, tied)), abs=1e-10
    )
    assert progress_ratio(edge, smooth, tied) < 0.4


def test_a_ratio_outside_its_range_is_refused():
    for wrong in [(0.0, 0.0, 0.1), (0.5, 0.5, 0.1), (0.5, -0.1, 0.1), (0.5, 0.1, 0.5)]:
        with pytest.raises(ValueError, match="give 0 <= smooth < edge < 1"):
            progress_ratio(*wrong)


# -- margins of any model --------------------------------------------------------------------


@given(some.problems(most=10, tied=False))
@pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")
def test_the_distribution_of_margins_is_that_of_a_list(problem):
    X, made = problem
    model = RankBoost(n_estimators=6, step="bound", learning_rate=1.0).fit(X, made)
    assume(len(model.ensemble_))
    net = {}
    for ranker, weight in zip(model.ensemble_.weak_rankers, model.ensemble_.weights, strict=True):
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
    layout = made.to_layout()
    expected = min(scores[p.winner] - scores[p.loser] for p in naive.list_pairs(made))
    assert least_margin(layout, scores[layout.order]) == expected


def test_the_norm_counts_a_ranker_once_and_the_constant_not_at_all():
    stumps = [Stump(0, 0.5), Stump(1, 0.5), Stump(0, 0.5), Stump(0, 0.5, missing=1), Constant()]
    ensemble = Ensemble(stumps, [2.0, -1.0, -0.5, 0.25, 9.0], n_features=2)
    assert weight_norm(ensemble) == 1.5 + 1.0 + 0.25


def test_margins_say_what_is_wrong():
    X, y = [[0.0], [1.0], [2.0]], [0, 0, 1]
    model = RankBoost(n_estimators=2, learning_rate=1.0).fit(X, y)
    with pytest.raises(ValueError, match="with Judgments"):
        margins(model, X, Judgments(y), qid=[1, 1, 1])
    with pytest.raises(ValueError, match="y has 2 values and X has 3 rows"):
        margins(model, X, y[:2])
    with pytest.raises(ValueError, match="no crucial pair"):
        margins(model, X, [1, 1, 1])
    with pytest.warns(UserWarning, match="the model has no rounds"):
        tied = RankBoost(n_estimators=2, learning_rate=1.0).fit([[0.0], [0.0]], [0, 1])
    with pytest.raises(ValueError, match="no ranker"):
        margins(tied, [[0.0], [0.0]], [0, 1])


@pytest.mark.parametrize("jobs", [1, 2])
def test_threads_and_laziness_leave_no_trace(jobs, tiny_thresholds):
    X, y = load_breast_cancer(return_X_y=True)
    first = SmoothMarginRanker(n_estimators=70, n_jobs=1, weak_rankers=Stumps(lazy=False)).fit(X, y)
    other = SmoothMarginRanker(n_estimators=70, n_jobs=jobs).fit(X[::-1], y[::-1])
    assert first.ensemble_.weights == other.ensemble_.weights
    assert first.margin_interval_ == other.margin_interval_


@pytest.mark.parametrize(("right", "wrong"), [(0.7, 0.0), (0.0, 0.7)])
def test_the_smooth_step_is_infinite_where_nothing_holds_it_back(right, wrong):
    assert smooth_step(right, wrong, 0.3, smooth=0) == math.copysign(math.inf, right - wrong)
