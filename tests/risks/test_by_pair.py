"""Sums over pairs by enumeration: plain pairs of short queries, and weights by rank.

The sums with weights by rank are compared with enumeration in test_lambdarank.py.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_rank_weights
import strategies
from emulated_device import EmulatedDevice, needs_compiler
from precede import (
    BoostedRanker,
    Hinge,
    Judgments,
    Linear,
    PairLoss,
    PairRisk,
    PushRanker,
    RankBoost,
    RankWeight,
    SquaredHinge,
)
from precede.engine.backend import BACKENDS
from precede.engine.execution import Context
from precede.losses import Separable, pair_loss
from precede.risks import by_pair
from precede.risks.lambdarank import rank_weight
from precede.risks.line_search import line_search
from precede.risks.pair_sums import OnePassRisk, TwoPassRisk


@given(st.data(), st.sampled_from(["logistic", "hinge", "squared_hinge", "gap"]),
       st.sampled_from(["pairs", "queries"]))  # fmt: skip
@settings(max_examples=200)
def test_enumerated_sums_equal_the_general_ones(data, name, balance):
    judgments = data.draw(strategies.judgments())
    loss = SquaredHinge("gap") if name == "gap" else name
    spread = data.draw(st.sampled_from([1.0, 8.0, 150.0]))
    layout = judgments.to_layout(balance)
    if not layout.n_used_rows:
        return
    scores = data.draw(strategies.scores(layout.n_used_rows, spread=spread))
    quick = PairRisk(loss).bind(layout)
    plain_ = TwoPassRisk(layout, pair_loss(loss), Linear())
    assert isinstance(quick, OnePassRisk)
    ours, theirs = quick.state(scores), plain_.state(scores)
    for field in ("log_value", "log_gradient_sum", "pull"):
        np.testing.assert_allclose(
            getattr(ours, field), getattr(theirs, field), rtol=1e-9, atol=1e-10
        )
    np.testing.assert_allclose(
        quick.curvature(ours), plain_.curvature(theirs), rtol=1e-7, atol=1e-9
    )


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge"])
def test_other_prices_use_the_general_sums(loss):
    assert isinstance(PairRisk(loss, 2).bind(Judgments([0, 1])), TwoPassRisk)


@pytest.mark.parametrize("margin", [5.0, 20.0, 30.0, 36.0, 37.5, 60.0, 79.0, 200.0])
@pytest.mark.parametrize("grades", [[0, 1], [0, 0, 1, 1, 2]])
def test_losses_of_pairs_far_in_order_keep_their_digits(grades, margin):
    """Beyond a margin of 37, ``1 + exp(-m)`` rounds to 1."""
    judgments = Judgments(grades)
    scores = margin * np.array(grades, float)
    gaps = [scores[i] - scores[k] for i, a in enumerate(grades) for k, b in enumerate(grades)
            if a > b]  # fmt: skip
    layout = judgments.to_layout()
    state = PairRisk("logistic").bind(layout).state(scores[layout.order])
    expected = np.log(np.sum(np.log1p(np.exp(-np.array(gaps)))))
    np.testing.assert_allclose(state.log_value, expected, rtol=1e-9)


# -- weights by rank ------------------------------------------------------------------------------


@pytest.mark.parametrize("margin", [5.0, 36.0, 60.0, 200.0])
def test_weighted_losses_of_pairs_far_in_order_keep_their_digits(margin):
    judgments = Judgments([0, 1])
    risk = PairRisk("logistic", rank_weight="grade_gap")
    bound = risk.bind(judgments)
    log_value = bound.state(np.array([0.0, margin])).log_value
    np.testing.assert_allclose(log_value, np.log(np.log1p(np.exp(-margin))), rtol=1e-12)


def test_plain_pairs_alone_are_the_risk_without_ranks():
    random = np.random.default_rng(0)
    judgments = Judgments(random.integers(0, 4, 200), random.integers(0, 7, 200))
    scores = random.normal(size=200)
    for loss in ("logistic", "hinge", "squared_hinge", "exponential"):
        for balance in ("queries", "items"):
            plain = PairRisk(loss, balance=balance)
            blended = PairRisk(loss, balance=balance, rank_weight=RankWeight(blend=1.0))
            np.testing.assert_allclose(
                blended.pull(judgments, scores), plain.pull(judgments, scores), rtol=1e-9, atol=1e-9
            )


def test_a_list_with_too_many_pairs_is_refused_unless_cut_off():
    judgments = Judgments(np.repeat([0, 1], 250_000))
    for loss in ("logistic", "exponential"):
        with pytest.raises(ValueError, match="use a cut-off such as 'ndcg@10'"):
            PairRisk(loss, rank_weight="ndcg").bind(judgments)
    logistic, exponential = (
        PairRisk(loss, rank_weight="ndcg@10").bind(judgments)
        for loss in ("logistic", "exponential")
    )
    scores = np.random.default_rng(0).normal(size=500_000)
    equal = np.zeros(500_000)  # where both losses have the slope of a pair, but for a factor
    logistic.begin_round(scores)
    exponential.begin_round(scores)
    np.testing.assert_allclose(
        logistic.state(equal).pull, exponential.state(equal).pull, rtol=1e-9, atol=1e-15
    )


# -- exponential losses --------------------------------------------------------------------------


def some_queries(spread):
    """Three queries, of which the first has scores at a distance of `spread`."""
    random = np.random.default_rng(8)
    grade, qid = random.integers(0, 4, 120), np.repeat([0, 1, 2], 40)
    scores = np.round(random.normal(size=120), 1)
    scores[:40] *= spread / (scores[:40].max() - scores[:40].min())
    values = random.integers(0, 2, 120).astype(np.uint8)
    return Judgments(grade, qid, weight=1.0 + random.integers(0, 2, 120)), scores, values


@pytest.mark.parametrize("rule", ["ndcg@5", "ndcg", RankWeight(k=5, blend=0.3)], ids=str)
@pytest.mark.parametrize("spread", [10.0, 590.0, 650.0])
def test_one_query_far_apart_leaves_the_others_alone(spread, rule):
    judgments, scores, values = some_queries(spread)
    rule = rank_weight(rule)
    bound = PairRisk("exponential", rank_weight=rule).bind(judgments)
    value, mass, pull, curvature = naive_rank_weights.risk(
        judgments, rule, scores, pair_loss("exponential")
    )
    state = bound.state(scores[bound.layout.order])
    np.testing.assert_allclose(state.log_value, np.log(value), rtol=1e-12)
    np.testing.assert_allclose(bound.layout.to_rows(state.pull), pull / mass, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        bound.layout.to_rows(bound.curvature(state)), curvature / mass, rtol=1e-9, atol=1e-12
    )
    expected = [0.0, 0.0]
    for i, k, weight in naive_rank_weights.weighted_pairs(judgments, rule, scores):
        if values[i] != values[k]:
            expected[values[k]] += weight * np.exp(scores[k] - scores[i])
    edge_weights = bound.edge_weights(state, values[bound.layout.order])
    np.testing.assert_allclose(
        [edge_weights.correct, edge_weights.wrong], np.array(expected) / mass, rtol=1e-9
    )


@pytest.mark.parametrize("distance", [700.0, 5e3, 1e6])
@pytest.mark.parametrize("rule", ["ndcg@2", "precision@2", "gap"])
def test_exponentials_beyond_floats(distance, rule):
    """A risk like exp(±distance), also where a pair without a weight is worse than all others."""
    judgments = Judgments([0, 1, 1, 2, 2])
    for scores in np.array([[3, 0, 0, 0, 0], [0, 1, 1, 2, 3], [0, -1, 5, 4, 1], [5, 4, 4, 2, 0.5]]):
        bound = PairRisk("exponential", rank_weight=rule).bind(judgments)
        at = distance * scores
        state = bound.state(at[bound.layout.order])
        pairs = naive_rank_weights.weighted_pairs(judgments, rank_weight(rule), at)
        logs = [np.log(weight) + at[k] - at[i] for i, k, weight in pairs if weight > 0]
        np.testing.assert_allclose(state.log_value, np.logaddexp.reduce(logs), rtol=1e-12)
        assert bound.log_value(state.scores) == state.log_value
        np.testing.assert_allclose(np.abs(state.pull).sum() / 2, 1.0, atol=0.5)
        values = (scores > 1).astype(np.uint8)[bound.layout.order]
        edge_weights = bound.edge_weights(state, values)
        np.testing.assert_allclose(edge_weights.edge, bound.edge(state, values), atol=1e-9)


class Slow(PairLoss):
    """``exp(-0.25 m)``."""

    form = Separable(0.25)

    def value(self, margin):
        return np.exp(-0.25 * margin)

    def slope(self, margin):
        return -0.25 * np.exp(-0.25 * margin)

    def curvature(self, margin):
        return 0.0625 * np.exp(-0.25 * margin)


def test_exponential_losses_of_any_rate_and_their_exact_steps():
    judgments, scores, values = some_queries(20.0)
    bound = PairRisk(Slow(), rank_weight="ndcg@5").bind(judgments)
    value, mass, pull, curvature = naive_rank_weights.risk(
        judgments, rank_weight("ndcg@5"), scores, Slow()
    )
    at, values = scores[bound.layout.order], values[bound.layout.order]
    bound.begin_round(at)
    state = bound.state(at)
    np.testing.assert_allclose(state.log_value, np.log(value), rtol=1e-12)
    growth = np.exp(state.log_gradient_sum - state.log_value)
    np.testing.assert_allclose(growth, 0.25, rtol=1e-12)
    np.testing.assert_allclose(bound.layout.to_rows(state.pull), pull / mass, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        bound.layout.to_rows(bound.curvature(state)), curvature / mass, rtol=1e-9, atol=1e-12
    )
    step, smoothed = bound.exact_step(state, values)
    assert not smoothed
    np.testing.assert_allclose(step, line_search(bound, state, values)[0], rtol=1e-9)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_the_first_round_of_a_long_list_is_linear(loss):
    """All scores are equal: pairs are summed by the values of the tree, not one by one."""
    rng = np.random.default_rng(0)
    n = 200_000
    X = np.round(rng.normal(size=(n, 2)), 1)
    y = np.digitize(X[:, 0] + rng.normal(size=n), [1.0, 2.0])
    counts = []
    pairs = by_pair._sum_subgroups

    def counted(start, *arguments):
        counts.append(n * (start.size - 1))
        return pairs(start, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(by_pair, "_sum_subgroups", counted)
        model = BoostedRanker(
            loss=loss, rank_weight="ndcg@10", n_estimators=2, num_leaves=4, min_child_samples=1000
        ).fit(X, y)
    assert model.n_estimators_ == 2
    # The state before the first round, and at both ends of each; at most four values of a tree.
    assert 0 < sum(counts) <= n * 5 * 4


def test_a_tied_group_can_be_interrupted(monkeypatch):
    """Calls are limited to one or two seconds."""
    rng = np.random.default_rng(0)
    judgments, calls = Judgments(rng.integers(0, 3, 3000)), []
    bound = PairRisk("logistic", rank_weight="ndcg@10").bind(judgments)
    bound.begin_round(np.zeros(3000))
    scores = np.round(rng.normal(size=3000), 1)
    whole = bound.state(scores)
    pairs = by_pair._sum_subgroups
    monkeypatch.setattr(by_pair, "MAX_PAIRS_PER_CALL", 30_000)
    monkeypatch.setattr(
        by_pair,
        "_sum_subgroups",
        lambda start, *rest: (calls.append(start.size), pairs(start, *rest)),
    )
    parts = bound.state(scores)
    assert 1 < max(calls) <= 11
    assert parts.log_value == whole.log_value
    np.testing.assert_array_equal(parts.pull, whole.pull)


def test_a_tied_group_with_as_many_values_is_refused(monkeypatch):
    monkeypatch.setattr(by_pair, "MAX_SUBGROUPS", 1000)
    rng = np.random.default_rng(0)
    bound = PairRisk("logistic", rank_weight="ndcg@10").bind(Judgments(rng.integers(0, 3, 3000)))
    bound.begin_round(np.zeros(3000))
    with pytest.raises(
        ValueError, match=r"3000 rows that have equal scores .* rankers of few values"
    ):
        bound.state(rng.normal(size=3000))


# -- on a GPU: weights by rank --------------------------------------------------------------------


def problem(seed, *, weighted=False, grades=4, longest=60):
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(25), rng.integers(1, longest, 25))
    weight = rng.choice([0.0, 0.5, 1.0, 3.0], qid.size) if weighted else None
    return Judgments(rng.integers(0, grades, qid.size), qid, weight=weight), rng


def bound(judgments, rule, loss="logistic", balance="items", device=None):
    layout = judgments.to_layout(balance)
    risk = PairRisk(loss, balance=balance, rank_weight=rule)
    return risk.bind(layout, Context(1, device))


def assert_same(judgments, rule, scores, later, **given):
    """Compare the states of a round at the scores where it begins, and at later ones."""
    device = EmulatedDevice()
    on_cpu, on_gpu = bound(judgments, rule, **given), bound(judgments, rule, device=device, **given)
    assert on_gpu.backend.is_gpu
    order = on_cpu.layout.order
    for start in (scores, later):
        at, end = scores[order], start[order]
        for risk, put in ((on_cpu, np.asarray), (on_gpu, device.put)):
            assert risk.begin_round(put(at))
        for value in (False, True):
            one = on_cpu._compute_state(end, value=value)
            other = on_gpu._compute_state(device.put(end), value=value)
            np.testing.assert_array_equal(one.log_value, other.log_value)
            assert one.log_gradient_sum == other.log_gradient_sum
            np.testing.assert_array_equal(one.pull, other.pull.get())
            np.testing.assert_array_equal(one.cache, other.cache.get())
        assert on_cpu.log_value(end) == on_gpu.log_value(device.put(end))
        for kind in ("newton", "bound", "terms", "uniform"):
            weight = on_gpu.pull_of(other).hessian(kind)
            np.testing.assert_array_equal(device.get(weight), on_cpu.pull_of(one).hessian(kind))
        values = (np.arange(at.size) % 3 == 0).astype(np.uint8)
        assert on_cpu.edge_weights(one, values) == on_gpu.edge_weights(other, device.put(values))
        np.testing.assert_array_equal(
            device.get(on_gpu.pair_totals(other)), on_cpu.pair_totals(one)
        )


@needs_compiler
@pytest.mark.parametrize("loss", ["exponential", "logistic", "hinge", "squared_hinge", Slow()])
@pytest.mark.parametrize(
    "rule", ["ndcg@10", "precision@5", RankWeight(k=4, blend=0.3), "ndcg", "gap"]
)
@pytest.mark.parametrize("balance", ["items", "pairs"])
@pytest.mark.parametrize("spread", [0.0, 1.0, 60.0, 400.0])
def test_states_are_equal_to_the_bit(loss, rule, balance, spread):
    judgments, rng = problem(1)
    scores = np.round(spread * rng.normal(size=len(judgments)), 1)  # with ties
    later = scores + rng.normal(size=scores.size)
    assert_same(judgments, rule, scores, later, loss=loss, balance=balance)


@needs_compiler
@pytest.mark.parametrize("grades", [2, 30])
def test_weights_of_items(grades):
    judgments, rng = problem(2, weighted=True, grades=grades)
    scores = rng.normal(size=len(judgments))
    assert_same(judgments, "ndcg@10", scores, np.round(scores))


@needs_compiler
def test_pairs_far_in_order():
    judgments, rng = problem(3)
    scores = 17 * np.asarray(judgments.grade) + 0.1 * rng.normal(size=len(judgments))
    assert_same(judgments, "ndcg@5", scores, -scores)


@needs_compiler
@pytest.mark.parametrize("loss", ["exponential", "logistic", "squared_hinge"])
def test_large_tied_groups(monkeypatch, loss):
    monkeypatch.setattr(by_pair, "LONG_LIST_ROWS", 20)
    monkeypatch.setattr(by_pair, "MAX_ENUMERATED_TIES", 3)
    judgments, rng = problem(5)
    scores = np.round(rng.normal(size=len(judgments)))
    assert_same(judgments, "ndcg@5", 0 * scores, scores, loss=loss)
    assert_same(judgments, "ndcg@5", scores, rng.normal(size=scores.size), loss=loss)
    assert_same(judgments, "ndcg@5", rng.normal(size=scores.size), scores, loss=loss)


@needs_compiler
def test_what_stays_on_the_cpu(monkeypatch):
    judgments, _ = problem(4)
    device = EmulatedDevice()
    assert bound(judgments, "ndcg@10", device=device).backend.is_gpu
    monkeypatch.setattr(by_pair, "MAX_GPU_ROWS", 10)
    assert not bound(judgments, "ndcg@10", device=device).backend.is_gpu


FITS = [
    (BoostedRanker, {"num_leaves": 7}),
    (BoostedRanker, {"num_leaves": 7, "line_search": True}),
    (BoostedRanker, {"num_leaves": 7, "hessian": "bound"}),
    (BoostedRanker, {"num_leaves": 7, "loss": "exponential", "line_search": True}),
    (BoostedRanker, {"num_leaves": 7, "loss": "exponential", "balance": "pairs"}),
    (RankBoost, {}),
    (RankBoost, {"step": "bound"}),
    (PushRanker, {"price": 1}),
]


@needs_compiler
@pytest.mark.parametrize(("estimator", "given"), FITS, ids=str)
@pytest.mark.parametrize("rule", ["ndcg@10", {"blend": 0.5}], ids=str)
def test_fits(monkeypatch, estimator, given, rule):
    device = EmulatedDevice()
    monkeypatch.setitem(BACKENDS, "cuda", lambda _: device)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, 4))
    y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=500), [0, 1, 2])
    given = {"n_estimators": 3, "learning_rate": 0.4, "rank_weight": rule, **given}
    on_cpu, on_gpu = (
        estimator(**given, device=name).fit(X, y, qid=np.arange(500) // 20)
        for name in ("cpu", "cuda")
    )
    assert on_cpu.ensemble_.to_dict() == on_gpu.ensemble_.to_dict()
    for column in ("log_risk", "edge", "step"):
        np.testing.assert_array_equal(on_cpu.history_[column], on_gpu.history_[column])
    assert "sum_ranked_queries" in device.launched


# -- on a GPU: plain pairs ------------------------------------------------------------------------

GRADES, QUERIES = np.arange(60) % 3, np.arange(60) // 20


def bind_plain(judgments, loss="logistic"):
    return PairRisk(loss).bind(judgments, Context(1, EmulatedDevice()))


@needs_compiler
def test_queries_are_summed_on_the_device():
    assert bind_plain(Judgments(np.arange(4000) % 2)).backend.is_gpu  # by cells
    assert bind_plain(Judgments(GRADES, QUERIES)).backend.is_gpu
    for loss in ("hinge", "squared_hinge"):
        assert bind_plain(Judgments(GRADES, QUERIES), loss).backend.is_gpu
        assert bind_plain(Judgments(np.arange(20_000) % 2), loss).backend.is_gpu  # by order
        assert not bind_plain(
            Judgments(np.arange(20_000) < 3), loss
        ).backend.is_gpu  # one level range


@needs_compiler
def test_other_pairs_are_not(monkeypatch):
    listed = Judgments(pairs=[(0, 1), (1, 2), (0, 2)], n=3)
    assert bind_plain(listed).backend.is_gpu
    monkeypatch.setattr(by_pair, "MAX_PAIRS_PER_ROW", 1)
    assert not bind_plain(listed).backend.is_gpu
    monkeypatch.setattr(by_pair, "MAX_GPU_ROWS", 10)
    assert not bind_plain(Judgments(GRADES, QUERIES)).backend.is_gpu


@needs_compiler
@pytest.mark.parametrize(
    "loss", ["logistic", "hinge", "squared_hinge", Hinge("gap"), SquaredHinge("gap")], ids=str
)
@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("spread", [1.0, 300.0])
def test_explicit_pairs(loss, graded, asked, spread):
    """With and without grades; rows win and lose any number of explicit pairs."""
    rng = np.random.default_rng(0)
    pairs = rng.permuted(np.tile(np.arange(60), (200, 1)), axis=1)[:, :2]
    pairs[:50, 0] = 7
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    given = {"pair_weight": rng.random(len(pairs)), "weight": rng.integers(1, 4, 60)}
    if asked and isinstance(loss, Hinge):
        given["pair_margin"] = rng.random(len(pairs))
    judgments = Judgments(GRADES if graded else None, pairs=pairs, n=60, **given)
    risk = bind_plain(judgments, loss)
    device, scores = risk.context.device, spread * rng.normal(size=risk.layout.n_used_rows)
    on_cpu, on_gpu = risk.state(scores), risk.state(device.put(scores))
    assert (on_cpu.log_value, on_cpu.log_gradient_sum) == (
        on_gpu.log_value,
        on_gpu.log_gradient_sum,
    )
    np.testing.assert_array_equal(on_cpu.pull, on_gpu.pull.get())
    np.testing.assert_array_equal(on_cpu.cache, on_gpu.cache.get())
    assert "add_explicit_pairs" in device.launched


@needs_compiler
@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge", Hinge("gap")], ids=str)
@pytest.mark.parametrize("spread", [1.0, 300.0])
def test_states_on_cpu_and_device(loss, spread):
    risk = bind_plain(Judgments(GRADES, QUERIES), loss)
    device, scores = risk.context.device, spread * np.random.default_rng(0).normal(size=60)
    on_cpu, on_gpu = risk.state(scores), risk.state(device.put(scores))
    assert not device.holds(on_cpu.pull)
    assert device.holds(on_gpu.pull)
    assert on_cpu.log_value == on_gpu.log_value
    np.testing.assert_array_equal(on_cpu.pull, on_gpu.pull.get())
    np.testing.assert_array_equal(on_cpu.cache, on_gpu.cache.get())
    for kind in ("newton", "bound", "terms", "uniform"):
        weight = risk.pull_of(on_gpu).hessian(kind)
        np.testing.assert_array_equal(device.get(weight), risk.pull_of(on_cpu).hessian(kind))


@needs_compiler
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_pairs_beyond_all_margins_have_no_gradient(loss):
    risk = bind_plain(Judgments([1, 0]), loss)
    state = risk.state(risk.context.device.put(np.array([0.0, 5.0])))
    assert state.log_value == -np.inf
    assert not state.pull.any()


@needs_compiler
@pytest.mark.parametrize(
    ("judgments", "given", "free"),
    [
        (Judgments(GRADES, QUERIES), {"loss": "logistic"}, 5_000),
        (Judgments(pairs=[(0, k) for k in range(1, 999)], n=999), {"loss": "logistic"}, 150_000),
        (Judgments(np.arange(20_000) % 2), {"loss": "hinge"}, 1_999_999),
        (Judgments(GRADES, QUERIES), {"loss": "exponential"}, 3_000),
        (Judgments(GRADES, QUERIES), {"loss": "exponential", "rank_weight": "ndcg"}, 10_000),
        (Judgments(GRADES, QUERIES), {"loss": "hinge", "rank_weight": "ndcg@10"}, 10_000),
    ],
)
def test_pulls_that_would_not_fit_are_refused(judgments, given, free):
    risk = PairRisk(**given)
    assert risk.bind(judgments, Context(1, EmulatedDevice())).backend.is_gpu
    with pytest.raises(ValueError, match=r"the pulls of .* would take .* use device='cpu'"):
        risk.bind(judgments, Context(1, EmulatedDevice(free=free)))
