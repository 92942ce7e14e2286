"""Losses of lists against plain formulas, pairs and differences."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import naive
import strategies
from precede import BoostedRanker, Judgments, load, write_table
from precede.datasets import search_results
from precede.risks.listwise import LISTWISE, ListRisk
from precede.risks.score_risk import risk_of


def lists(judgments, balance):
    """Rows, weights and the weight of every query that has a pair."""
    ids = [0] * len(judgments) if judgments.qid is None else list(judgments.qid)
    weight, loser_weight = naive.item_weights(judgments), naive.loser_weights(judgments, balance)
    members, total = {}, {}
    for pair in naive.list_pairs(judgments):
        members.setdefault(ids[pair.loser], set()).update((pair.winner, pair.loser))
        total[ids[pair.loser]] = (
            total.get(ids[pair.loser], 0.0) + pair.inner * loser_weight[pair.loser]
        )
    for query, rows in members.items():
        yield sorted(rows), [weight[row] for row in sorted(rows)], total[query]


def cross_entropy(grades, scores, weights, kind):
    phi = [w * (math.exp(g) if kind == "softmax" else 2.0**g - 0.5)
           for g, w in zip(grades, weights, strict=True)]  # fmt: skip
    mass = [w * math.exp(s) for s, w in zip(scores, weights, strict=True)]
    return -math.fsum(
        p / math.fsum(phi) * math.log(m / math.fsum(mass)) for p, m in zip(phi, mass, strict=True)
    )


def squares(grades, scores, weights, kind):
    """Over pairs: sum of w_i w_k ((g_i - s_i) - (g_k - s_k))² over half the square of sum w."""
    errors = [g - s for g, s in zip(grades, scores, strict=True)]
    every = [(w * v, (a - b) ** 2) for w, a in zip(weights, errors, strict=True)
             for v, b in zip(weights, errors, strict=True)]  # fmt: skip
    return math.fsum(w * square for w, square in every) / (2 * math.fsum(w for w, _ in every))


def log_loss(grades, scores, weights, kind):
    """The least mean log loss over all shifts, found by halving."""
    total = math.fsum(weights)

    def chance(at):
        return 1 / (1 + math.exp(-at)) if at >= 0 else math.exp(at) / (1 + math.exp(at))

    low, high = -100.0, 100.0
    while high - low > 1e-13:
        shift = (low + high) / 2
        above = math.fsum(
            w * (chance(s + shift) - g) for g, s, w in zip(grades, scores, weights, strict=True)
        )
        low, high = (low, shift) if above > 0 else (shift, high)
    return math.fsum(
        w / total * (math.log1p(math.exp(s + shift)) - g * (s + shift))
        for g, s, w in zip(grades, scores, weights, strict=True)
    )


VALUE_OF = {"query_rmse": squares, "query_cross_entropy": log_loss}


@given(st.data(), st.sampled_from(LISTWISE), st.sampled_from(["pairs", "queries", "items"]))
@settings(max_examples=100)
def test_values_and_derivatives(data, kind, balance):
    judgments = data.draw(strategies.judgments(kind="graded"))
    least = min(np.nanmin(judgments.grade), 0.0)
    grade = judgments.grade - least
    if kind == "query_cross_entropy":
        grade = grade / max(np.nanmax(grade), 1.0)
    judgments = Judgments(grade, judgments.qid, weight=judgments.weight)
    scores = data.draw(strategies.scores(len(judgments), 4.0))
    one = VALUE_OF.get(kind, cross_entropy)

    def naive_value(at):
        return math.fsum(
            total * one(judgments.grade[rows].tolist(), [at[row] for row in rows], weights, kind)
            for rows, weights, total in lists(judgments, balance)
        )

    bound = ListRisk(kind, balance=balance).bind(judgments.to_layout(balance))
    at = scores[bound.layout.order]
    state = bound.state(at)
    value = naive_value(scores)
    assume(value > 1e-6)
    np.testing.assert_allclose(np.exp(state.log_value), value, rtol=1e-9)
    mass, small = np.exp(state.log_gradient_sum), 1e-5
    curvature = bound.curvature(state)
    for place, row in enumerate(bound.layout.order):
        moved = [scores + small * sign * (np.arange(scores.size) == row) for sign in (1, -1)]
        slope = (naive_value(moved[0]) - naive_value(moved[1])) / (2 * small)
        np.testing.assert_allclose(-slope, mass * state.pull[place], rtol=1e-5, atol=1e-6 * value)
        up, down = (bound.state(each[bound.layout.order]) for each in moved)
        curve = (
            np.exp(up.log_gradient_sum) * up.pull[place]
            - np.exp(down.log_gradient_sum) * down.pull[place]
        )
        np.testing.assert_allclose(
            -curve / (2 * small), mass * curvature[place], rtol=1e-5, atol=1e-6 * (value + mass)
        )


def long_value(kind, grades, scores, weights):
    """The loss of one list in decimal numbers, the best shift found by Newton's method."""
    total = sum(weights)
    if kind in ("softmax", "xendcg"):
        phi = [w * (g.exp() if kind == "softmax" else 2**g - Decimal("0.5"))
               for g, w in zip(grades, weights, strict=True)]  # fmt: skip
        mass = [w * s.exp() for s, w in zip(scores, weights, strict=True)]
        return -sum(p / sum(phi) * (m / sum(mass)).ln() for p, m in zip(phi, mass, strict=True))
    if kind == "query_rmse":
        errors = [g - s for g, s in zip(grades, scores, strict=True)]
        mean = sum(w * e for w, e in zip(weights, errors, strict=True)) / total
        return sum(w * (e - mean) ** 2 for w, e in zip(weights, errors, strict=True)) / total
    shift = Decimal(0)
    for _ in range(60):
        chance = [1 / (1 + (-s - shift).exp()) for s in scores]
        over = sum(w * (c - g) for w, c, g in zip(weights, chance, grades, strict=True))
        slope = sum(w * c * (1 - c) for w, c in zip(weights, chance, strict=True))
        shift -= max(min(over / slope, Decimal(1)), Decimal(-1))
    return sum(
        w / total * ((1 + (s + shift).exp()).ln() - g * (s + shift))
        for g, s, w in zip(grades, scores, weights, strict=True)
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", LISTWISE)
def test_derivatives_to_the_last_digits(kind, seed):
    """By differences of numbers of fifty digits."""
    random = np.random.default_rng(seed)
    grades = np.array([0.0, 0.25, 0.5, 0.75, 1.0]) * (1 if kind == "query_cross_entropy" else 4)
    scores, weights = random.normal(size=5) * 2, random.choice([0.5, 1.0, 2.7], 5)
    bound = ListRisk(kind).bind(Judgments(grades, weight=weights).to_layout("queries"))
    state = bound.state(scores[bound.layout.order])
    mass, curvature = np.exp(state.log_gradient_sum), bound.curvature(state)
    with localcontext() as context:
        context.prec = 50
        small = Decimal(10) ** -12
        known = [[Decimal(float(x)) for x in each] for each in (grades, scores, weights)]
        value = long_value(kind, *known)
        assert np.exp(state.log_value) == pytest.approx(float(value), rel=1e-13)
        for place, row in enumerate(bound.layout.order):
            up, down = (
                long_value(
                    kind, known[0],
                    [s + sign * small * (k == row) for k, s in enumerate(known[1])], known[2],
                )
                for sign in (1, -1)
            )  # fmt: skip
            slope, curve = (up - down) / (2 * small), (up - 2 * value + down) / small**2
            assert -mass * state.pull[place] == pytest.approx(float(slope), rel=1e-11, abs=1e-14)
            assert mass * curvature[place] == pytest.approx(float(curve), rel=1e-11)


@pytest.mark.parametrize("kind", LISTWISE)
def test_large_scores_overflow_nothing(kind):
    bound = ListRisk(kind).bind(Judgments([0, 0.5, 1]).to_layout("queries"))
    for scores in ([1e4, -1e4, 0.0], [-1e4, 0.0, 1e4], [1e300, 1e300, 1e300], [0.0, 1e4, 1e4]):
        state = bound.state(np.array(scores))
        assert not np.isnan(state.log_value)
        assert np.isfinite(state.pull).all()
        assert np.isfinite(bound.curvature(state)).all()


def test_a_constant_in_the_scores_of_a_list_changes_no_cross_entropy():
    generator = np.random.default_rng(0)
    judgments = Judgments(generator.integers(0, 2, 40), np.repeat([0, 1], 20))
    bound = ListRisk("query_cross_entropy").bind(judgments.to_layout("queries"))
    scores = generator.normal(size=40)
    one, other = bound.state(scores), bound.state(scores + np.repeat([7.0, -20.0], 20))
    np.testing.assert_allclose(one.log_value, other.log_value, rtol=1e-12)
    np.testing.assert_allclose(one.pull, other.pull, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(one.pull[:20].sum(), 0, atol=1e-14)


@pytest.mark.parametrize("labels", [(0, 1), (-1, 1), (False, True), (3, 7)])
def test_cross_entropy_of_one_list_of_two_classes_is_logistic_regression(labels):
    """Its best line is that of scikit-learn, whatever the classes are called."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(400, 1))
    y = (X[:, 0] + generator.logistic(size=400) > 1).astype(int)
    model = BoostedRanker(
        loss="query_cross_entropy", weak_rankers="features", n_estimators=1, learning_rate=1.0
    ).fit(X, np.array(labels)[y])
    ranks = LogisticRegression(C=1e9, tol=1e-12)
    slope = ranks.fit(X, y).coef_[0, 0]
    line = model.predict(X)
    found = np.polyfit(X[:, 0], line, 1)[0]
    np.testing.assert_allclose(found, slope, rtol=1e-4)


@pytest.mark.parametrize("kind", LISTWISE)
def test_fits_are_saved_resumed_read_from_disk_and_the_same_for_any_threads_and_order(
    kind, tmp_path
):
    sample = search_results(25, features=6, informative=4, per_query=40, random_state=0)
    data = sample.X, sample.y / 4 if kind == "query_cross_entropy" else sample.y

    def ranker(rounds=8, **more):
        return BoostedRanker(loss=kind, n_estimators=rounds, num_leaves=5, **more)

    model = ranker().fit(*data, qid=sample.qid)
    assert model.history_["risk"][-1] < model.history_["risk"][0]
    expected = model.predict(sample.X)
    model.save(tmp_path / "model.json")
    np.testing.assert_array_equal(load(tmp_path / "model.json").predict(sample.X), expected)
    ranker(5).fit(*data, qid=sample.qid, checkpoint=tmp_path / "rounds.json")
    resumed = ranker().fit(*data, qid=sample.qid, checkpoint=tmp_path / "rounds.json")
    np.testing.assert_array_equal(resumed.predict(sample.X), expected)
    rows = np.random.default_rng(1).permutation(sample.y.size)
    mixed = ranker(n_jobs=2).fit(sample.X[rows], data[1][rows], qid=sample.qid[rows])
    np.testing.assert_array_equal(mixed.predict(sample.X), expected)
    table = write_table(tmp_path / "table", [(*data, sample.qid)])
    read = ranker().fit(table)
    np.testing.assert_array_equal(read.predict(sample.X), expected)


def test_what_does_not_fit_is_refused():
    for kind in LISTWISE:
        with pytest.raises(ValueError, match="rank_weight='ndcg' weighs pairs"):
            risk_of(kind, "linear", balance="items", rank_weight="ndcg")
        with pytest.raises(ValueError, match="price=4"):
            risk_of(kind, 4, balance="items")
        with pytest.raises(ValueError, match="listed pairs"):
            ListRisk(kind).bind(Judgments(pairs=[[0, 1]], n=2).to_layout())
    with pytest.raises(ValueError, match="grade of -1"):
        ListRisk("xendcg").bind(Judgments([-1, 1]).to_layout())
    for grades in ([-1, 0, 1], [0, 1, 2]):
        with pytest.raises(ValueError, match="grades from 0 to 1, but there is a grade of"):
            ListRisk("query_cross_entropy").bind(Judgments(grades).to_layout())
    with pytest.raises(ValueError, match="'listnet' is unknown"):
        ListRisk("listnet")
