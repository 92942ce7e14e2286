"""Weights by rank against enumeration, for every rule, loss and tie."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import naive_rank_weights
import strategies
from precede import (
    BoostedRanker,
    Judgments,
    PairRisk,
    PushRanker,
    QBRank,
    RankBoost,
    SquaredHinge,
    write_table,
)
from precede.boosting.coordinate_descent import CoordinateDescent
from precede.boosting.loop import History, Rounds
from precede.datasets import search_results
from precede.engine.backend import CPU
from precede.engine.execution import Context
from precede.engine.query_layout import TrainingData
from precede.losses import SmoothedHinge, pair_loss
from precede.risks.lambdarank import RankWeight, RankWeights, rank_weight

RULES = [
    "gap", "grade_gap", "ndcg", "ndcg@1", "ndcg@3", "precision@2",
    RankWeight(blend=0.5), RankWeight("linear", k=2, blend=0.25), RankWeight(blend=1.0),
    RankWeight("linear", "top", 3, by_ideal=False),
    RankWeight(k=2, floor=0.5), RankWeight("linear", blend=0.25, floor=2.0),
]  # fmt: skip
LOSSES = {
    "exponential": "exponential",
    "logistic": "logistic",
    "hinge": "hinge",
    "squared_hinge": "squared_hinge",
    "gap": SquaredHinge("gap"),
}


@st.composite
def graded(draw, most=12):
    judgments = draw(strategies.judgments(kind=draw(st.sampled_from(["graded", "bipartite"])),
                                          most=most))  # fmt: skip
    least = np.nanmin(judgments.grade)
    if least < 0:  # the ideal DCG would be negative
        judgments = Judgments(judgments.grade - least, judgments.qid, weight=judgments.weight)
    return judgments


def form_tied_groups(monkeypatch, max_ties):
    """Rows with one score are a tied group from a smaller number on, in any list."""
    if max_ties is not None:
        monkeypatch.setattr("precede.risks.by_pair.LONG_LIST_ROWS", 0)
        monkeypatch.setattr("precede.risks.by_pair.MAX_ENUMERATED_TIES", max_ties)


@pytest.mark.parametrize("max_ties", [None, 0, 1])
@given(data=st.data(), rule=st.sampled_from(RULES), name=st.sampled_from(sorted(LOSSES)),
       balance=st.sampled_from(["pairs", "queries", "items"]))  # fmt: skip
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sums_equal_enumeration(monkeypatch, max_ties, data, rule, name, balance):
    """With large tied groups and without."""
    form_tied_groups(monkeypatch, max_ties)
    judgments, loss = data.draw(graded()), LOSSES[name]
    wide = data.draw(st.sampled_from([2.0, 150.0, 340.0]))  # the last is beyond exponentials
    scores = data.draw(strategies.scores(len(judgments), wide))
    risk = PairRisk(loss, balance=balance, rank_weight=rule)
    value, mass, pull, curvature = naive_rank_weights.risk(
        judgments, rank_weight(rule), scores, pair_loss(loss), balance=balance, gap=name == "gap"
    )
    assume(mass > 1e-200)
    bound = risk.bind(judgments)
    state = bound.state(scores[bound.layout.order])
    np.testing.assert_allclose(state.log_value, np.log(value), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(state.log_gradient_sum, np.log(mass), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(bound.layout.to_rows(state.pull), pull / mass, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(
        bound.layout.to_rows(bound.curvature(state)), curvature / mass, rtol=1e-9, atol=1e-10
    )


@pytest.mark.parametrize("max_ties", [0, 1, None])
@given(data=st.data(), rule=st.sampled_from(RULES), name=st.sampled_from(sorted(LOSSES)))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_weights_stay_those_of_the_scores_at_which_the_round_began(
    monkeypatch, max_ties, data, rule, name
):
    form_tied_groups(monkeypatch, max_ties)
    judgments, loss = data.draw(graded()), LOSSES[name]
    before, now = (data.draw(strategies.scores(len(judgments), 4.0)) for _ in range(2))
    bound = PairRisk(loss, rank_weight=rule).bind(judgments)
    order = bound.layout.order
    assert bound.begin_round(before[order])
    value, mass, pull, _ = naive_rank_weights.risk(
        judgments, rank_weight(rule), now, pair_loss(loss), ranked_by=before, gap=name == "gap"
    )
    assume(mass > 1e-200)
    state = bound.state(now[order])
    np.testing.assert_allclose(np.exp(state.log_value), value, rtol=1e-9)
    np.testing.assert_allclose(bound.layout.to_rows(state.pull), pull / mass, rtol=1e-9, atol=1e-10)
    pairs = naive_rank_weights.weighted_pairs(judgments, rank_weight(rule), before)
    total = sum(weight for *_, weight in pairs)
    totals = np.zeros(len(judgments))
    for i, k, weight in pairs:
        totals[[i, k]] += weight
    np.testing.assert_allclose(
        bound.layout.to_rows(bound.pair_totals(state)), totals, rtol=1e-9, atol=1e-12 * total
    )


@pytest.mark.parametrize("max_ties", [0, None])
@given(data=st.data(), rule=st.sampled_from(RULES),
       name=st.sampled_from(["exponential", "logistic", "hinge"]))  # fmt: skip
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_masses_equal_enumeration(monkeypatch, max_ties, data, rule, name):
    form_tied_groups(monkeypatch, max_ties)
    judgments = data.draw(graded())
    scores = data.draw(strategies.scores(len(judgments), 4.0))
    ranker = np.array(data.draw(st.lists(st.integers(0, 1), min_size=len(judgments),
                                         max_size=len(judgments))))  # fmt: skip
    loss = pair_loss(name)
    expected = [0.0, 0.0, 0.0]
    for i, k, weight in naive_rank_weights.weighted_pairs(judgments, rank_weight(rule), scores):
        mass = -weight * float(loss.slope(np.array([scores[i] - scores[k]]))[0])
        expected[{1: 0, -1: 1, 0: 2}[int(ranker[i]) - int(ranker[k])]] += mass
    assume(sum(expected) > 1e-200)
    edge_weights = PairRisk(name, rank_weight=rule).edge_weights(judgments, scores, ranker)
    np.testing.assert_allclose(
        [edge_weights.correct, edge_weights.wrong, edge_weights.tied],
        np.array(expected) / sum(expected),
        atol=1e-9,
    )


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("name", sorted(LOSSES))
def test_pull_and_curvature_are_derivatives(rule, name):
    """By central differences, the weights being those of the round."""
    random = np.random.default_rng(7)
    judgments = Judgments(random.integers(0, 4, 24), random.integers(0, 2, 24))
    bound = PairRisk(LOSSES[name], rank_weight=rule).bind(judgments)
    scores = random.normal(size=24)
    bound.begin_round(scores)
    state = bound.state(scores)
    mass, small = np.exp(state.log_gradient_sum), 1e-5
    for place in range(24):
        (up, pull_up), (down, pull_down) = (
            value_and_pull(bound, scores, place, step) for step in (small, -small)
        )
        slope = -(up - down) / (2 * small)
        np.testing.assert_allclose(slope, mass * state.pull[place], 1e-6, 1e-6)
        if name in ("exponential", "logistic"):
            curve = -(pull_up - pull_down) / (2 * small)
            np.testing.assert_allclose(curve, mass * bound.curvature(state)[place], 1e-6, 1e-6)


def value_and_pull(bound, scores, place, step):
    moved = scores.copy()
    moved[place] += step
    state = bound.state(moved)
    return np.exp(state.log_value), np.exp(state.log_gradient_sum) * state.pull[place]


@pytest.mark.parametrize("rule", ["ndcg", "ndcg@10", "precision@10"])
@pytest.mark.parametrize("name", ["exponential", "logistic"])
def test_a_long_list_with_many_grades_and_ties(rule, name):
    random = np.random.default_rng(3)
    judgments = Judgments(random.integers(0, 40, 300) / 8)
    scores = np.round(random.normal(size=300), 1)
    value, mass, pull, _ = naive_rank_weights.risk(
        judgments, rank_weight(rule), scores, pair_loss(name)
    )
    risk = PairRisk(name, rank_weight=rule)
    np.testing.assert_allclose(risk.value(judgments, scores), value, rtol=1e-12)
    np.testing.assert_allclose(risk.pull(judgments, scores), pull, atol=1e-12 * mass)


@pytest.mark.parametrize("k", [1, 3, 10, 64, 65, 200, None])
@pytest.mark.parametrize("digits", [0, 1, 9])
def test_tied_rows_share_the_discounts_of_their_ranks(k, digits):
    """The first ranks are found by insertion or, if they are many, by sorting."""
    random = np.random.default_rng(4)
    layout = Judgments(random.integers(0, 5, 300), np.repeat([0, 1, 2], [90, 200, 10])).to_layout()
    scores = np.round(random.normal(size=layout.n_used_rows), digits)
    rule = RankWeight(k=k)
    weights = RankWeights(rule, layout, balanced=False, context=Context(1))
    found = weights.rank(scores, CPU)
    for begin, end in pairwise(weights.first):
        at, by_rank = scores[begin:end], rule.discounts(end - begin)
        order = np.argsort(-at, kind="stable")
        for value in np.unique(at):
            shared = by_rank[np.flatnonzero(at[order] == value)]
            gaps = np.abs(shared[:, None] - shared[None, :]).sum()
            gap = gaps / max(1, shared.size * (shared.size - 1))
            rows = begin + np.flatnonzero(at == value)
            np.testing.assert_allclose(found.discount[rows], shared.mean(), rtol=1e-13, atol=1e-16)
            np.testing.assert_allclose(found.tied[rows], gap, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("rule", ["ndcg", "ndcg@10", RankWeight(k=10, blend=0.5)], ids=str)
@pytest.mark.parametrize("name", ["exponential", "logistic", "hinge", "squared_hinge"])
@pytest.mark.usefixtures("tiny_thresholds")
def test_threads_and_the_value_alone_give_the_bits_of_the_state(rule, name):
    """A round ends with the value; a fit that goes on from a checkpoint compares it to the bit."""
    random = np.random.default_rng(5)
    grade, qid = random.integers(0, 4, 600), np.minimum(random.integers(0, 5, 600), 3)
    layout = Judgments(grade, qid, weight=random.random(600)).to_layout("items")
    scores = np.round(random.normal(size=600), 2)
    values = random.integers(0, 2, 600).astype(np.uint8)
    found = []
    for jobs in (1, 2, 3):
        with Context(jobs) as context:
            risk = PairRisk(name, balance="items", rank_weight=rule).bind(layout, context)
            risk.begin_round(np.round(scores, 1))
            state = risk.state(scores)
            assert risk.log_value(scores) == state.log_value
            found.append((state, risk.curvature(state), risk.edge_weights(state, values)))
    for state, curvature, edge_weights in found[1:]:
        assert state.log_value == found[0][0].log_value
        np.testing.assert_array_equal(state.pull, found[0][0].pull)
        np.testing.assert_array_equal(curvature, found[0][1])
        assert edge_weights == found[0][2]


def test_in_the_first_round_all_pairs_of_two_grades_weigh_the_same():
    judgments = Judgments([0, 0, 1, 1, 1, 0])
    plain = PairRisk("logistic").pull(judgments, np.zeros(6))
    ranked = PairRisk("logistic", rank_weight="ndcg@2").pull(judgments, np.zeros(6))
    np.testing.assert_allclose(ranked / ranked[2], plain / plain[2], rtol=1e-12)
    assert ranked[2] > 0


def test_lambdarank_by_hand():
    """One exchange of two items: |ΔNDCG| = (3 - 1)(1 - 1/log2(3)) / (3 + 1/log2(3))."""
    judgments = Judgments([2, 1])
    change = (3 - 1) * (1 - 1 / np.log2(3)) / (3 + 1 / np.log2(3))
    value = PairRisk("exponential", rank_weight=RankWeight()).value(judgments, [0.0, 1.0])
    np.testing.assert_allclose(value, change * np.e, rtol=1e-14)
    floor = 0.5 * (3 - 1) / (3 + 1 / np.log2(3))
    value = PairRisk("exponential", rank_weight=RankWeight(floor=0.5)).value(judgments, [0.0, 1.0])
    np.testing.assert_allclose(value, (floor + change) * np.e, rtol=1e-14)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("ndgc", "rank_weight='ndgc' is unknown"),
        ("ndcg@0", "rank_weight='ndcg@0' is unknown"),
        ("gap@3", "rank_weight='gap@3' is unknown"),
        ("precision", "rank_weight='precision' is unknown"),
    ],
)
def test_unknown_names_are_refused(rule, message):
    with pytest.raises(ValueError, match=message):
        rank_weight(rule)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (dict(gain="log"), "gain='log'"),
        (dict(discount="exp"), "discount='exp'"),
        (dict(discount="top"), "needs k"),
        (dict(k=0), "k=0"),
        (dict(blend=1.5), "blend=1.5"),
        (dict(floor=-0.1), "floor=-0.1"),
        (dict(floor=np.inf), "floor=inf"),
        (dict(floor=True), "floor=True"),
        (dict(floor=0.3, discount=None), "discount=None has none"),
    ],
)
def test_parameters_without_a_meaning_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        RankWeight(**fields)


def test_what_does_not_fit_together_is_refused():
    graded = Judgments([0, 1, 2])
    listed = Judgments(pairs=[[0, 1]], n=2)
    for loss, price, rule, judgments, message in [
        ("exponential", 4, "ndcg", graded, "price=1"),
        (SmoothedHinge(), 1, "ndcg", graded, "SmoothedHinge"),
        ("logistic", 1, "ndcg", listed, "listed pairs"),
        ("logistic", 1, "ndcg", Judgments([-3, -1, 0]), "ideal DCG"),
        ("logistic", 1, "ndcg", Judgments([0, 5000]), "finite"),
        ("logistic", 1, RankWeight(gain=lambda g: -g), graded, "falls"),
        ("logistic", 1, RankWeight(gain=[0, 1]), graded, "gain lists 2"),
        ("logistic", 1, RankWeight(discount=lambda r: r), graded, "never rises"),
    ]:
        with pytest.raises(ValueError, match=message):
            PairRisk(loss, price, rank_weight=rule).bind(judgments)


def test_own_gains_and_discounts():
    judgments, scores = Judgments([0, 1, 2, 1]), [0.5, 0.0, -1.0, 2.0]
    by_name = PairRisk("logistic", rank_weight="ndcg@3").value(judgments, scores)
    for rule in (
        RankWeight(gain=[0, 1, 3], k=3),
        RankWeight(gain=lambda g: 2**g - 1, discount=lambda r: 1 / np.log2(1 + r), k=3),
    ):
        value = PairRisk("logistic", rank_weight=rule).value(judgments, scores)
        np.testing.assert_allclose(value, by_name, rtol=1e-14)


# -- fits ------------------------------------------------------------------------------------

FITS = {
    "trees": lambda **more: BoostedRanker(rank_weight="ndcg@5", num_leaves=5, **more),
    "trees with a line search": lambda **more: BoostedRanker(
        rank_weight="ndcg", num_leaves=5, line_search=True, balance="pairs", **more
    ),
    "bound": lambda **more: BoostedRanker(
        rank_weight="gap", num_leaves=5, hessian="bound", targets="average", **more
    ),
    "QBRank": lambda **more: QBRank(rank_weight="ndcg@5", num_leaves=5, **more),
    "stumps": lambda **more: RankBoost(rank_weight="ndcg", **more),
    "stumps for the top": lambda **more: RankBoost(rank_weight="ndcg@5", **more),
    "features": lambda **more: RankBoost(
        rank_weight="precision@5", weak_rankers="features", step="bound", **more
    ),
    "columns": lambda **more: PushRanker(
        rank_weight="ndcg", price=1, weak_rankers="columns", **more
    ),
}


@pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")
@pytest.mark.parametrize("name", sorted(FITS))
def test_fits_have_the_same_bits_for_any_threads_order_checkpoint_and_disk(name, tmp_path):
    sample = search_results(25, features=6, informative=4, per_query=40, random_state=0)
    ranker = FITS[name]
    model = ranker(n_estimators=8).fit(sample.X, sample.y, qid=sample.qid)
    assert len(model.ensemble_) == 8
    assert model.score(sample.X, sample.y, sample.qid) > 0.5
    expected, risk = model.predict(sample.X), model.history_["log_risk"]
    rows = np.random.default_rng(1).permutation(sample.y.size)
    mixed = ranker(n_estimators=8, n_jobs=2)
    mixed.fit(sample.X[rows], sample.y[rows], qid=sample.qid[rows])
    np.testing.assert_array_equal(mixed.predict(sample.X), expected)
    np.testing.assert_array_equal(mixed.history_["log_risk"], risk)
    path = tmp_path / "rounds.json"
    ranker(n_estimators=5).fit(sample.X, sample.y, qid=sample.qid, checkpoint=path)
    resumed = ranker(n_estimators=8).fit(sample.X, sample.y, qid=sample.qid, checkpoint=path)
    np.testing.assert_array_equal(resumed.predict(sample.X), expected)
    np.testing.assert_array_equal(resumed.history_["log_risk"], risk)
    warm = ranker(n_estimators=5).fit(sample.X, sample.y, qid=sample.qid)
    warm.set_params(warm_start=True, n_estimators=8).fit(sample.X, sample.y, qid=sample.qid)
    np.testing.assert_array_equal(warm.predict(sample.X), expected)
    if name in ("columns", "features", "QBRank"):  # read values, or labels, that tables have not
        return
    table = write_table(tmp_path / "table", [(sample.X, sample.y, sample.qid)])
    np.testing.assert_array_equal(ranker(n_estimators=8).fit(table).predict(sample.X), expected)


@pytest.mark.usefixtures("tiny_thresholds")
@pytest.mark.parametrize("one_list", [False, True])
@pytest.mark.parametrize("loss", ["exponential", "logistic", "hinge", "squared_hinge"])
def test_weights_and_real_grades_have_the_same_bits_for_any_threads_order_and_disk(
    loss, one_list, tmp_path
):
    sample = search_results(12, features=4, informative=3, per_query=25, random_state=0)
    random = np.random.default_rng(2)
    y = sample.y + random.integers(0, 30, sample.y.size) / 10
    weight = random.choice([0.0, 0.3, 1.0, 2.7], y.size)
    qid = None if one_list else sample.qid
    rows = random.permutation(y.size)
    for rule in ("ndcg", RankWeight("linear", k=5, blend=0.3), "grade_gap"):
        options = {"loss": loss, "rank_weight": rule, "num_leaves": 4, "n_estimators": 5}
        model = BoostedRanker(**options, n_jobs=1).fit(sample.X, y, qid=qid, sample_weight=weight)
        mixed = BoostedRanker(**options, n_jobs=2).fit(
            sample.X[rows], y[rows], qid=None if one_list else qid[rows], sample_weight=weight[rows]
        )
        table = write_table(tmp_path / f"{str(rule)[:4]}", [(sample.X, y, qid, weight)])
        read = BoostedRanker(**options).fit(table)
        assert len(model.ensemble_) == 5
        for other in (mixed, read):
            assert other.ensemble_.to_dict() == model.ensemble_.to_dict()
            np.testing.assert_array_equal(other.history_["log_risk"], model.history_["log_risk"])


def test_an_interrupted_round_leaves_the_weights_of_the_last_whole_one():
    sample = search_results(12, features=4, informative=3, per_query=20, random_state=0)
    whole = RankBoost(rank_weight="ndcg", n_estimators=3)
    whole.fit(sample.X, sample.y, qid=sample.qid)
    training = TrainingData.prepare(
        sample.X, Judgments(sample.y, sample.qid), balance="pairs", max_bins=255, context=Context(1)
    )
    method = CoordinateDescent(whole.plan(Rounds(9)), training)
    history = History()
    for _ in range(3):
        history.append(**method.boost_round().columns)
    before = method.result(history, "").state
    method._append(
        method.ensemble.weak_rankers[0], 1.0, method.ensemble.weak_rankers[0].on(training.table)
    )
    method._round_unfinished = True
    method.interrupt(history)
    assert method.state.log_value == before.log_value
    np.testing.assert_array_equal(method.state.pull, before.pull)


def test_a_line_search_never_raises_the_risk_of_its_round():
    sample = search_results(12, features=4, informative=3, per_query=20, random_state=0)
    model = BoostedRanker(rank_weight="ndcg@3", line_search=True, num_leaves=4, n_estimators=10)
    training = TrainingData.prepare(
        sample.X, Judgments(sample.y, sample.qid), balance="items", max_bins=255, context=Context(1)
    )
    model.fit(sample.X, sample.y, qid=sample.qid)
    method = CoordinateDescent(model.plan(Rounds(9)), training)
    for _ in range(9):
        method.risk.begin_round(method.scores)
        before = method.risk.state(method.scores).log_value
        method.boost_round()
        assert method.state.log_value <= before


def test_estimators_refuse_what_has_no_weights_by_rank():
    X, y = [[0.0], [1.0], [2.0]], [0, 1, 2]
    for ranker, message in [
        (RankBoost(rank_weight="ndcg", select="decrease"), "select='slope'"),
        (PushRanker(rank_weight="ndcg"), "price=1"),
        (BoostedRanker(rank_weight="dcg"), "rank_weight='dcg' is unknown"),
        (BoostedRanker(rank_weight="ndcg", loss=SmoothedHinge()), "SmoothedHinge"),
    ]:
        with pytest.raises(ValueError, match=message):
            ranker.fit(X, y)


def test_a_fit_without_any_weight_says_so():
    """Grades below 1 are all irrelevant to precision."""
    X, y = [[0.0], [1.0], [2.0]], [0.0, 0.25, 0.5]
    with pytest.warns(UserWarning, match="rank_weight='precision@2' gives any pair a weight"):
        RankBoost(rank_weight="precision@2").fit(X, y)


@pytest.mark.parametrize("rule", ["precision@2", "gap"])
def test_without_any_weight_there_are_no_masses(rule):
    grade = [0.0, 0.0] if rule == "gap" else [1.0, 0.0]  # both are among the first two
    edge_weights = PairRisk("exponential", rank_weight=rule).edge_weights(
        Judgments.graded([*grade, 0.0], [0, 0, 1]), np.zeros(3), [1, 0, 1]
    )
    assert (edge_weights.correct, edge_weights.wrong, edge_weights.tied) == (0, 0, 0)
