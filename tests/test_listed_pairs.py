"""Listed pairs and ties: what is learned from them, and how rankings of them are judged."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import naive
import naive_evaluation
import strategies as some
from precede import (
    BoostedRanker,
    ConvexRiskRanker,
    Judgments,
    PushRanker,
    QBRank,
    RankBoost,
    RankBoostPlus,
    SmoothMarginRanker,
    best_margin,
    margins,
    pairs_in_order,
)
from precede.boosting.holdout import folds
from precede.datasets import bradley_terry
from precede.inference import auc, compare, ranking_risk
from precede.metrics import Evaluator, evaluate

CLOSE = {"rel": 1e-9, "abs": 1e-12}
VOTES = [(0, 1), (0, 2), (3, 1), (2, 3), (3, 4), (4, 0), (2, 5), (5, 1)]
SCORES = [5.0, 0.0, 3.0, 2.0, 1.0, 4.0]

LEARNERS = {
    "RankBoost": lambda: RankBoost(n_estimators=8, learning_rate=1.0),
    "PushRanker": lambda: PushRanker(price=2, n_estimators=4, learning_rate=1.0),
    "RankBoostPlus": lambda: RankBoostPlus(n_estimators=8),
    "ConvexRiskRanker": lambda: ConvexRiskRanker(radius=1.0),
    "BoostedRanker": lambda: BoostedRanker(n_estimators=4, min_child_samples=2),
    "QBRank": lambda: QBRank(n_estimators=4, min_child_samples=2, margin=1.0),
}
EVERY_LEARNER = pytest.mark.parametrize("make", LEARNERS.values(), ids=LEARNERS)


def votes_with_ties(n=40, m=200, seed=0):
    X, made = bradley_terry(n, m, features=3, random_state=seed)
    rng = np.random.default_rng(seed)
    weight = rng.uniform(0.5, 2.0, m)
    return X, Judgments(
        pairs=made.pairs[:-40], pair_weight=weight[:-40],
        ties=made.pairs[-40:], tie_weight=weight[-40:], n=n,
    )  # fmt: skip


# -- ties in training ------------------------------------------------------------------------


@EVERY_LEARNER
@pytest.mark.filterwarnings("ignore")
def test_a_tie_is_half_a_pair_in_each_direction(make):
    X, made = votes_with_ties()
    halves = np.concatenate([made.ties, made.ties[:, ::-1]])
    listed = Judgments(
        pairs=np.concatenate([made.pairs, halves]),
        pair_weight=np.concatenate([made.pair_weight, np.tile(made.tie_weight / 2, 2)]),
        n=len(X),
    )
    found, expected = make().fit(X, made).predict(X), make().fit(X, listed).predict(X)
    assert_array_equal(found, expected)
    without = make().fit(X, made._without_ties()).predict(X)
    assert not np.array_equal(found, without)


def test_a_tie_counts_once_where_pairs_are_counted():
    """The smoothing rule adds half a pair: a tie must not count as the two pairs it is kept as."""
    one = Judgments(pairs=[(0, 1)], ties=[(1, 2), (2, 1), (1, 2)], tie_weight=[0.1] * 3, n=3)
    assert one.to_layout().pair_count == 2
    assert one.to_layout().total == pytest.approx(1.3)
    assert repr(one) == "Judgments(3 rows, no query, 1 pair, 3 ties)"
    assert one.n_pairs == 1


@given(some.judgments(with_pair=False))
def test_the_pair_count_is_that_of_enumeration(made):
    assert made.to_layout().pair_count == pytest.approx(naive.pair_count(made), rel=1e-13)


def test_ties_draw_scores_together():
    X = np.arange(4.0)[:, None]
    pairs = [(3, 0), (3, 1), (2, 0), (2, 1)]
    apart = [(3, 2), (1, 0)]
    learner = QBRank(margin=1.0, n_estimators=30, min_child_samples=1)
    free = learner.fit(X, Judgments(pairs=pairs + apart, n=4)).predict(X)
    tied = learner.fit(X, Judgments(pairs=pairs + apart, ties=apart * 9, n=4)).predict(X)
    assert tied[3] - tied[2] < 0.5 * (free[3] - free[2])
    assert tied[2] > tied[1]


def test_ties_are_sliced_copied_and_pickled():
    made = Judgments(pairs=[(0, 1)], ties=[(1, 2), (0, 3)], tie_weight=[2.0, 3.0], n=4)
    some_rows = made[[2, 1, 1]]
    assert sorted(map(tuple, some_rows.ties.tolist())) == [(1, 0), (2, 0)]
    assert some_rows.tie_weight.tolist() == [2.0, 2.0]
    again = pickle.loads(pickle.dumps(made.as_one_query()))
    assert again.ties.tolist() == made.ties.tolist()
    assert Judgments.preferences([0], [1], ties=[(2, 5)]).shape == (6,)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Judgments(ties=[(0, 9)], n=3), r"ties\[0, 1\] is 9.*from 0 to 2"),
        (lambda: Judgments(ties=[(1, 1)], n=3), r"ties\[0\] is \(1, 1\).*compared with itself"),
        (lambda: Judgments(ties=[0, 1], n=3), r"ties has shape \(2,\).*\(one, other\)"),
        (lambda: Judgments(tie_weight=[1], n=3), "tie_weight is given without ties"),
        (lambda: Judgments(ties=[(0, 1)], tie_weight=[1, 2], n=3), "2 values for 1 ties.*per tie"),
        (lambda: Judgments(ties=[(0, 1)], tie_weight=[-1], n=3), r"tie_weight\[0\] is -1"),
    ],
)
def test_ties_that_make_no_sense_are_refused(make, told):
    with pytest.raises(ValueError, match=told):
        make()


def test_a_tie_has_no_margin():
    X, made = votes_with_ties()
    model = RankBoost(n_estimators=2, learning_rate=1.0).fit(X, made)
    for call in (
        lambda: SmoothMarginRanker().fit(X, made),
        lambda: best_margin(X, made),
        lambda: margins(model, X, made),
    ):
        with pytest.raises(ValueError, match=r"hold 40 ties, and a tie has no margin.*Rank"):
            call()


# -- metrics ---------------------------------------------------------------------------------


def test_judged_ties_are_not_scored():
    made = Judgments(pairs=VOTES, ties=[(0, 3), (1, 2)], n=6)
    assert pairs_in_order(made, SCORES) == 0.75
    assert evaluate(made, SCORES).mean == {"pairwise_accuracy": 0.75, "pair_error": 0.25}
    model = RankBoost(n_estimators=3, learning_rate=1.0).fit(np.array(SCORES)[:, None], made)
    assert model.score(np.array(SCORES)[:, None], made) == pairs_in_order(
        made, model.predict(np.array(SCORES)[:, None])
    )


@st.composite
def within_queries(draw):
    """Graded and listed pairs within queries, with scores."""
    made = draw(some.judgments(kind=draw(st.sampled_from(["pairs", "mixed"]))))
    if made.grade is not None:
        made = made._with(grade=np.nan_to_num(made.grade))
    query = made._query()
    inside = query[made.pairs[:, 0]] == query[made.pairs[:, 1]]
    own = None if made.pair_weight is None else made.pair_weight[inside]
    made = made._with(pairs=made.pairs[inside], pair_weight=own, ties=None, tie_weight=None)
    assume(len(made.pairs))
    assume(naive.list_pairs(made))
    return made, draw(some.scores(len(made)))


def shares(made, scores, ties):
    """For each query the weight of its pairs that is in order and that of all its pairs."""
    weight, query, found = naive.item_weights(made), made._query(), {}
    for pair in naive.list_pairs(made):
        i, k, mass = pair.winner, pair.loser, pair.inner * weight[pair.loser]
        equal = {"worst": 0.0, "average": 0.5, "order": float(i < k)}[ties]
        good = equal if scores[i] == scores[k] else float(scores[i] > scores[k])
        right, total = found.get(int(query[k]), (0.0, 0.0))
        found[int(query[k])] = right + mass * good, total + mass
    return found


@given(within_queries(), st.sampled_from(["worst", "average", "order"]))
def test_accuracy_of_graded_and_listed_pairs_is_that_of_enumeration(sample, ties):
    made, scores = sample
    expected = shares(made, scores, ties)
    result = evaluate(made, scores, metrics=["pairwise_accuracy", "pair_error"], ties=ties)
    right, wrong = result.per_query["pairwise_accuracy"], result.per_query["pair_error"]
    for query, value in enumerate(right):
        if query in expected:
            assert value == pytest.approx(expected[query][0] / expected[query][1], **CLOSE)
            assert wrong[query] == pytest.approx(1 - value, **CLOSE)
        else:
            assert math.isnan(value)
    pooled = sum(a for a, _ in expected.values()) / sum(b for _, b in expected.values())
    assert result.pooled["pairwise_accuracy"] == pytest.approx(pooled, **CLOSE)
    if ties == "average":
        assert pooled == pytest.approx(pairs_in_order(made, scores), **CLOSE)


def test_the_order_of_the_list_leaves_no_trace():
    rng = np.random.default_rng(0)
    pairs, weight = rng.permuted(np.tile(np.arange(30), (300, 1)), axis=1)[:, :2], rng.random(300)
    other, scores = rng.permutation(300), rng.normal(size=30)
    one = evaluate(Judgments(pairs=pairs, pair_weight=weight, n=30), scores)
    two = evaluate(Judgments(pairs=pairs[other], pair_weight=weight[other], n=30), scores)
    assert one.mean == two.mean


def test_pairs_of_an_evaluation_set_are_watched():
    X, made = votes_with_ties()
    monitored = RankBoost(n_estimators=5, eval_metric="pair_error", learning_rate=1.0).fit(
        X, made, eval_set=(X, made)
    )
    last = monitored.evals_result_["valid_0"]["pair_error"][-1]
    assert last == pytest.approx(Evaluator(made, metrics="pair_error").value(monitored.predict(X)))


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda y: evaluate(y, SCORES, metrics="ndcg@10"), "ndcg@10 reads grades.*8 listed pairs"),
        (lambda y: evaluate(y._with(qid=[0, 0, 0, 1, 1, 1]), SCORES),
         r"pairs\[2\] joins the queries 1 and 0.*leave qid out"),
        (lambda y: ranking_risk(y._with(qid=[0, 0, 0, 1, 1, 1]), SCORES), r"pairs\[2\] joins"),
        (lambda y: ranking_risk(y._with(grade=[0, 1, 2, 0, 1, 2]), SCORES), "grades and listed"),
        (lambda y: ranking_risk(y._with(weight=[1, 1, 1, 1, 1, 2]), SCORES), "item weights"),
        (lambda y: ranking_risk(y, SCORES[:5]), "scores has 5 values for 6 rows"),
        (lambda y: ranking_risk(y, SCORES, [1] * 6), "qid is given with"),
        (lambda y: ranking_risk(y, SCORES, pairs="pooled"), "pooled pairs need qid"),
        (lambda y: ranking_risk(y, SCORES, method="bootstrap"), "share items.*qid or groups"),
        (lambda y: ranking_risk(y, SCORES, method="bernstein"), "share items.*qid or groups"),
        (lambda y: ranking_risk(y, SCORES, groups=[1, 2]), "2 values for 8 listed pairs"),
        (lambda y: ranking_risk(y._with(qid=[1] * 6), SCORES, groups=[1] * 8), "with y.qid"),
        (lambda y: ranking_risk([0, 1], [1, 2], groups=[1]), "groups are of listed pairs"),
        (lambda y: ranking_risk(y._with(pair_weight=[0] * 8), SCORES), "no listed pair has a pos"),
        (lambda y: compare(y, SCORES, SCORES, metric="auc"), "needs qid"),
        (lambda y: auc(y, SCORES), "lists 8 pairs"),
        (lambda y: auc(Judgments([0, 1] * 3, ties=[(0, 1)]), SCORES), "lists 1 ties"),
    ],
)  # fmt: skip
def test_what_listed_pairs_cannot_answer_is_refused(call, told):
    with pytest.raises(ValueError, match=told):
        call(Judgments(pairs=VOTES, n=6))


# -- standard errors -------------------------------------------------------------------------


@st.composite
def vote_lists(draw):
    """Pairs and ties of few items, with weights, and two vectors of scores."""
    n = draw(st.integers(3, 7))
    end = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda p: p[0] != p[1])
    vote = st.tuples(end, st.sampled_from([1.0, 1.0, 0.5, 2.0]), st.integers(0, 3))
    listed = draw(st.lists(vote, min_size=3, max_size=14))
    votes = sorted(((i, k, w, kind == 0) for (i, k), w, kind in listed), key=lambda v: v[3])
    assume(not all(tied for *_, tied in votes))
    a, b = (draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)) for _ in range(2))
    pairs = [vote for vote in votes if not vote[3]]
    ties = [vote for vote in votes if vote[3]]
    made = Judgments(
        pairs=[vote[:2] for vote in pairs], pair_weight=[vote[2] for vote in pairs],
        ties=[vote[:2] for vote in ties], tie_weight=[vote[2] for vote in ties], n=n,
    )  # fmt: skip
    return votes, made, a, b


@settings(max_examples=150, deadline=None)
@given(vote_lists(), st.sampled_from(["half", "wrong"]), st.sampled_from(["all", "comparable"]))
def test_the_error_over_items_is_the_sum_over_pairs_that_share_one(sample, ties, pairs):
    votes, made, a, b = sample
    tie = 0.5 if ties == "half" else 1.0
    estimate = ranking_risk(made, a, ties=ties, pairs=pairs)
    expected = naive_evaluation.listed_risk(votes, a, tie, pairs)
    assert estimate.value == pytest.approx(expected, **CLOSE)
    counted = [vote for vote in votes if pairs == "all" or not vote[3]]
    assert estimate.n_pairs == len(counted)
    assert estimate.n_items == len({row for vote in counted for row in vote[:2]})
    if not estimate.reason:
        error = naive_evaluation.listed_error(votes, a, tie, pairs)
        assert estimate.std_error == pytest.approx(error, **CLOSE)
        assert estimate.value in estimate.interval()
    if pairs == "comparable":
        result = compare(made, a, b, metric="pair_error")
        values = [naive_evaluation.listed_risk(votes, s, 0.5, pairs) for s in (a, b)]
        assert result.difference == pytest.approx(values[0] - values[1], **CLOSE)
        if not result.reason:
            error = naive_evaluation.listed_error(votes, a, 0.5, pairs, b)
            assert result.std_error == pytest.approx(error, **CLOSE)


@settings(max_examples=80, deadline=None)
@given(vote_lists(), st.data())
def test_groups_are_units_of_a_ratio(sample, data):
    votes, made, a, b = sample
    drawn = st.lists(st.sampled_from("uvw"), min_size=len(votes), max_size=len(votes))
    group = data.draw(drawn)
    estimate = ranking_risk(made, a, groups=group)
    assert estimate.value == pytest.approx(naive_evaluation.listed_risk(votes, a, 0.5, "all"))
    assert estimate.n_queries == len(set(group))
    if estimate.reason:
        return
    blocks = [[v for v, g in zip(votes, group, strict=True) if g == u] for u in sorted(set(group))]

    def value(some_blocks):
        inside = [vote for block in some_blocks for vote in block]
        return naive_evaluation.listed_risk(inside, a, 0.5, "all")

    assert estimate.std_error == pytest.approx(naive_evaluation.jackknife(value, blocks), **CLOSE)
    assert f"{len(blocks)} groups" in str(estimate)
    assert compare(made, a, b, groups=group).unit == "group"


def test_queries_of_listed_pairs_are_the_queries_of_grades():
    """The same pairs, once as two grades and once as a list."""
    rng = np.random.default_rng(1)
    y, qid = rng.integers(0, 2, 80), np.repeat(np.arange(10), 8)
    a, b = rng.normal(size=(2, 80)) + y
    graded = Judgments(y, qid)
    listed = Judgments(qid=qid, pairs=[p for q in range(10) for p in graded.pairs_of(q)])
    for pairs in ("comparable", "pooled"):
        one, two = (ranking_risk(made, a, pairs=pairs) for made in (graded, listed))
        assert two.value == pytest.approx(one.value)
        assert two.std_error == pytest.approx(one.std_error)
        assert (two.n_pairs, two.n_queries) == (one.n_pairs, one.n_queries)
    for metric in ("pair_error", "pooled_pair_error", "pairwise_accuracy"):
        for method in ("asymptotic", "randomization"):
            one, two = (
                compare(made, a, b, metric=metric, method=method, random_state=0)
                for made in (graded, listed)
            )
            assert two.p_value == pytest.approx(one.p_value)
            assert two.std_error == pytest.approx(one.std_error)
    bootstrap = ranking_risk(listed, a, pairs="pooled", method="bootstrap", random_state=0)
    assert bootstrap.value in bootstrap.interval()


def test_randomization_of_items_finds_a_better_ranker():
    X, made = bradley_terry(60, 900, features=1, random_state=0)
    truth = RankBoost(n_estimators=30, learning_rate=1.0).fit(X, made).predict(X)
    noise = np.random.default_rng(0).normal(size=60)
    options = {"metric": "pair_error", "method": "randomization", "random_state": 0}
    assert compare(made, truth, noise, **options).p_value < 0.01
    assert compare(made, truth, truth, **options).p_value == 1.0


# -- folds -----------------------------------------------------------------------------------


def kept_pairs(made, parts):
    return [sum(made[rows].n_pairs for rows in part) for part in parts]


def test_folds_keep_listed_pairs_whole_where_components_allow():
    """Twenty items that are compared only among their four: no pair is lost."""
    rng = np.random.default_rng(0)
    blocks = np.arange(20).reshape(5, 4)
    pairs = np.concatenate([rng.permuted(np.tile(b, (12, 1)), axis=1)[:, :2] for b in blocks])
    made = Judgments(pairs=pairs, ties=[(0, 1), (4, 5)], n=20)
    parts = list(folds(made, 5, random_state=0))
    assert kept_pairs(made, parts) == [len(pairs)] * 5
    assert_array_equal(np.sort(np.concatenate([test for _, test in parts])), np.arange(20))


def test_one_component_is_cut():
    _, made = bradley_terry(60, 900, features=1, random_state=0)
    parts = list(folds(made, 3, random_state=0))
    assert_array_equal(np.sort(np.concatenate([test for _, test in parts])), np.arange(60))
    assert all(min(made[train].n_pairs, made[test].n_pairs) > 0 for train, test in parts)


@pytest.mark.parametrize("metric", [None, "pair_error"])
@pytest.mark.filterwarnings("ignore")
def test_a_price_is_chosen_on_listed_pairs(metric):
    X, made = votes_with_ties(60, 600)
    model = PushRanker(
        price="cv",
        prices=(1, 2, 4),
        cv=3,
        cv_metric=metric,
        n_estimators=4,
        random_state=0,
        learning_rate=1.0,
    ).fit(X, made)
    assert model.price_ in (1.0, 2.0, 4.0)
    assert model.price_search_.metric == (metric or "pairs_in_order")
    assert np.isfinite(model.price_search_.by_fold).all()
    same = PushRanker(price=model.price_, n_estimators=4, random_state=0, learning_rate=1.0)
    assert_allclose(model.predict(X), same.fit(X, made).predict(X))
