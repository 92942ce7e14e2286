"""QBRank: algorithm 2 as printed, and what is left without pairs or without labels."""

import warnings

import lightgbm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import naive_trees
import strategies
from algorithms.test_boosted import SAMPLE, half_labeled
from precede import BoostedRanker, Judgments, PairRisk, PushRanker, QBRank, SquaredHinge, Trees
from precede.boosting.loop import Rounds
from precede.datasets import search_results
from precede.weak_rankers.base import SearchResult
from precede.weak_rankers.columns import Constant


@st.composite
def labeled(draw, margins=False):
    judgments = draw(strategies.judgments(with_pair=False, margins=margins))
    label = draw(
        st.lists(
            st.sampled_from([np.nan, 0.0, 1.0, 2.5, -3.0]),
            min_size=len(judgments),
            max_size=len(judgments),
        )
    )
    return judgments._with(label=np.array(label))


@given(st.data(), st.sampled_from([0.3, 0.5, 0.8]), st.sampled_from(["gap", 1.0, 0.2]),
       st.integers(0, 2**32 - 1))  # fmt: skip
@settings(max_examples=60)
def test_algorithm_2_is_the_printed_loop(data, weight, margin, seed):
    """Targets ±max(0, h(y) − h(x) + τ) with weight w, l − h(z) with 1 − w, averaged by row."""
    judgments = data.draw(labeled(margins=margin == "gap"))
    X = np.random.default_rng(seed).integers(0, 5, (len(judgments), 2)).astype(float)
    options = {"weight": weight, "margin": margin}
    if naive_trees.mixture(judgments, np.zeros(len(X)), **options)[3] == [0.0] * len(X):
        return
    model = QBRank(
        weak_rankers=naive_trees.Stump(), n_estimators=5, learning_rate=0.5, line_search=False,
        **options,
    ).fit(X, judgments)  # fmt: skip
    parts = model.ensemble_.weak_rankers
    begun = parts[:1] == [Constant()]  # the initial guess is a round
    # A ranker along which the risk does not fall, such as a constant, ends our fit; the printed
    # loop adds it all the same.
    rounds = min(4, len(parts) - begun)
    expected = naive_trees.qbrank(
        X, judgments, naive_trees.Stump(), shrinkage=0.5, rounds=rounds, search=False, **options
    )
    np.testing.assert_allclose(
        model.ensemble_.first(rounds + begun).predict(X), expected, rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("kind", ["grades", "listed pairs", "both"])
@pytest.mark.parametrize("with_labels", [True, False])
def test_algorithm_2_with_the_line_search_is_the_printed_loop(kind, with_labels):
    rng = np.random.default_rng(3)
    n = 40
    X = rng.integers(0, 3, (n, 3)).astype(float)  # large sides: no stump is without mistakes
    grade, label = rng.integers(0, 4, n).astype(float), X[:, 0] + rng.normal(0, 1, n)
    pairs = rng.integers(0, n, (60, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    listed = (
        {} if kind == "grades" else {"pairs": pairs, "pair_weight": rng.uniform(0.5, 2, len(pairs))}
    )
    judgments = Judgments(
        None if kind == "listed pairs" else np.where(rng.random(n) < 0.7, grade, np.nan),
        rng.integers(0, 4, n), weight=rng.integers(1, 4, n), n=n, **listed,
        label=np.where(rng.random(n) < 0.6, label, np.nan) if with_labels else None,
    )  # fmt: skip
    options = {"weight": 0.4, "margin": "gap"}
    expected = naive_trees.qbrank(
        X, judgments, naive_trees.Stump(), shrinkage=0.3, rounds=8, search=True, **options
    )
    model = QBRank(
        weak_rankers=naive_trees.Stump(),
        learning_rate=0.3,
        n_estimators=8 + with_labels,
        **options,
    ).fit(X, judgments)
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-8, atol=1e-8)


@given(st.data(), st.sampled_from([0.3, 1.0]), st.sampled_from(["gap", 0.2]),
       st.sampled_from([0.01, 1.0, 30.0]), st.integers(0, 2**32 - 1))  # fmt: skip
@settings(max_examples=150)
def test_the_step_is_the_least_point_of_the_risk_on_the_line(data, weight, margin, scale, seed):
    """The shipped rule along any ranker, however large its values, against every parabola."""
    judgments = data.draw(labeled(margins=margin == "gap"))
    options = {"weight": weight, "margin": margin}
    plan = QBRank(**options, weak_rankers=naive_trees.Stump()).plan(Rounds(1))
    try:
        risk = plan.risk.bind(judgments.to_layout("pairs", labeled=True))
    except ValueError:  # nothing to learn from
        return
    order, rng = risk.layout.order, np.random.default_rng(seed)
    h, g = rng.normal(0, 1, (2, len(judgments)))
    g = scale * (np.round(g) if data.draw(st.booleans()) else g)
    state = risk.state(h[order])
    edge = risk.edge(state, g[order])
    if edge < 0:
        g, edge = -g, -edge
    if edge < 1e-6:
        return
    step = plan.step.step(risk, state, SearchResult(Constant(), edge), g[order])
    assert not step.smoothed
    best = naive_trees.line_search(judgments, h, g, **options)
    at, least = (risk.state((h + s * g)[order]) for s in (step.size, best))
    assert at.log_value == pytest.approx(least.log_value, rel=1e-9, abs=1e-9) or (
        max(np.exp(at.log_value - state.log_value), np.exp(least.log_value - state.log_value))
        < 1e-15
    )
    further = risk.state((h + (best + 1e-3 / scale) * g)[order])
    if further.log_value > least.log_value + 1e-9:  # one least point
        assert step.size == pytest.approx(best, rel=1e-5)


def test_full_steps_are_not_capped():
    model = QBRank(learning_rate=1.0, n_estimators=100).fit(SAMPLE.X, SAMPLE.y, qid=SAMPLE.qid)
    assert max(model.ensemble_.weights) > 8
    assert np.unique(model.ensemble_.weights).size == model.n_estimators_
    assert (np.diff(model.history_["risk"]) < 0).all()


def test_without_labels_the_bound_is_the_same_fit():
    """Targets half as large and weights twice as large: the same trees, twice the steps."""
    found = [
        QBRank(hessian=hessian, n_estimators=8).fit(SAMPLE.X, SAMPLE.y, qid=SAMPLE.qid)
        for hessian in ("terms", "bound")
    ]
    np.testing.assert_allclose(*(model.predict(SAMPLE.X) for model in found), rtol=0, atol=1e-7)


def test_without_pairs_it_is_gradient_boosted_trees():
    """The same trees as LightGBM's regression with the same step.

    Values are so few that every one has a bin of its own in both; otherwise bins differ.
    """
    shape = {"num_leaves": 8, "min_child_samples": 5}
    X, label = np.clip(SAMPLE.X, -3, 3).round(1).astype(float), SAMPLE.truth
    assert max(np.unique(column).size for column in X.T) < 255
    ours = QBRank(n_estimators=31, learning_rate=0.1, line_search=False, weight=0.0, **shape).fit(
        X, Judgments(label=label)
    )
    data = lightgbm.Dataset(X, label=label, params={"verbosity": -1, "min_data_in_bin": 1})
    settings_ = {
        "objective": "regression", "num_leaves": 8, "min_data_in_leaf": 5, "verbosity": -1,
        "learning_rate": 0.1,
    }  # fmt: skip
    theirs = lightgbm.train(settings_, data, 30)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=0, atol=1e-5 * label.std())
    assert ours.ensemble_.weights[0] == pytest.approx(label.mean())


def test_without_labels_it_is_preference_learning():
    with_labels = Judgments(SAMPLE.y, SAMPLE.qid, label=np.full(len(SAMPLE.y), np.nan))
    for y in (SAMPLE.y, with_labels):
        model = QBRank(n_estimators=20)
        model.fit(SAMPLE.X, y, **({} if isinstance(y, Judgments) else {"qid": SAMPLE.qid}))
        risk = PairRisk(SquaredHinge("gap")).bind(Judgments(SAMPLE.y, SAMPLE.qid))
        scores = model.predict(SAMPLE.X)[risk.layout.order]
        # w/2 times the squared hinges, over w times the number of pairs
        mean = np.exp(risk.log_value(scores)) / risk.layout.total / 2
        assert model.history_["risk"][-1] == pytest.approx(mean)
        assert model.ensemble_.weak_rankers[0].name == "tree"


def test_rows_may_have_both_either_or_neither():
    both = half_labeled()
    model = QBRank(n_estimators=20).fit(SAMPLE.X, both)
    rows = np.concatenate([np.arange(len(both)), [0, 1]])
    neither = Judgments(
        np.append(both.grade, [np.nan, np.nan]),
        np.append(both.qid, [99, 99]),
        label=np.append(both.label, [np.nan, np.nan]),
    )
    again = QBRank(n_estimators=20).fit(SAMPLE.X[rows], neither)
    assert again.ensemble_.weak_rankers == model.ensemble_.weak_rankers
    assert again.ensemble_.weights == model.ensemble_.weights


def test_nothing_to_learn_from_is_said():
    X = SAMPLE.X[:6]
    with pytest.raises(ValueError, match=r"weight=0 leaves nothing .* no labels"):
        QBRank(weight=0.0).fit(X, [0, 1] * 3)
    with pytest.raises(ValueError, match=r"weight=1 leaves nothing .* no pairs"):
        QBRank(weight=1.0).fit(X, Judgments(label=np.arange(6.0)))
    with pytest.raises(ValueError, match="no pair to learn from"):
        QBRank().fit(X, Judgments(np.ones(6), label=np.full(6, np.nan)))
    with pytest.raises(ValueError, match="weight=2"):
        QBRank(weight=2.0).fit(X, [0, 1] * 3)
    with pytest.raises(ValueError, match="margin='wide'"):
        QBRank(margin="wide").fit(X, [0, 1] * 3)


def test_drawn_rows_after_the_constant_are_those_of_one_longer_fit():
    """The constant of the labels is a round of its own."""
    sample = search_results(20, features=5, informative=3, per_query=15, random_state=0)
    known = sample.qid < 10
    both = Judgments(
        np.where(known, sample.y, np.nan), sample.qid, label=np.where(known, np.nan, sample.y)
    )
    settings = {"subsample": 0.5, "random_state": 0, "min_child_samples": 5}
    whole = QBRank(n_estimators=6, **settings).fit(sample.X, both)
    assert whole.ensemble_.weak_rankers[0].is_constant
    model = QBRank(n_estimators=3, warm_start=True, **settings).fit(sample.X, both)
    model.set_params(n_estimators=6).fit(sample.X, both)
    assert model.ensemble_.weak_rankers == whole.ensemble_.weak_rankers
    assert model.ensemble_.weights == whole.ensemble_.weights


def test_scores_rise_with_a_feature_that_they_must_rise_with():
    """The tree that fits the averages best has a negative edge here, and was subtracted."""
    X = np.array([[0.0], [3], [1], [3], [2], [2], [3], [2], [1], [3], [3], [1]])
    y, qid = [1, 0, 1, 2, 1, 1, 0, 0, 2, 1, 1, 0], [0, 0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 1]
    model = QBRank(monotone_constraints=[1], num_leaves=2, min_child_samples=1, n_estimators=4)
    with pytest.warns(UserWarning, match="the search found no weak ranker that improves the risk"):
        model.fit(X, y, qid=qid)
    assert (np.diff(model.predict(np.arange(4.0)[:, None])) >= 0).all()


TREES = {"num_leaves": 4, "min_child_samples": 1, "reg_lambda": 0.0}
AVERAGES = Trees(**TREES, targets="average", monotone_constraints=[1, -1])
MONOTONE = [
    QBRank(**TREES, monotone_constraints=[1, -1]),
    QBRank(**TREES, monotone_constraints=[1, -1], learning_rate=1.0, hessian="newton"),
    QBRank(**TREES, monotone_constraints=[1, -1], step_length=0.1),
    BoostedRanker(**TREES, monotone_constraints=[1, -1], targets="average", line_search=True),
    BoostedRanker(**TREES, monotone_constraints=[1, -1], targets="average"),
    PushRanker(price=1, weak_rankers=AVERAGES),
    PushRanker(price=2, weak_rankers=AVERAGES, loss="logistic"),
]


@given(st.data(), st.sampled_from(MONOTONE), st.integers(0, 2**32 - 1))
@settings(max_examples=100)
def test_no_step_along_a_monotone_tree_goes_backwards(data, estimator, seed):
    rng = np.random.default_rng(seed)
    n = data.draw(st.integers(6, 16))
    X = rng.integers(0, 4, (n, 2)).astype(float)
    y, qid = rng.integers(0, 3, n), rng.integers(0, data.draw(st.integers(1, 2)), n)
    if Judgments(y, qid).n_pairs == 0:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = clone(estimator).set_params(n_estimators=4).fit(X, y, qid=qid)
    assert all(weight >= 0 for weight in model.ensemble_.weights)
    grid = np.array([[a, b] for a in range(4) for b in range(4)], float)
    scores = model.predict(grid).reshape(4, 4)
    assert (np.diff(scores, axis=0) >= 0).all()
    assert (np.diff(scores, axis=1) <= 0).all()
