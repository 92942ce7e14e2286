"""Enumerated pairs with weights by rank; test_lambdarank.py checks their sums."""

import numpy as np
import pytest

import naive_rank_weights
from emulated_device import EmulatedDevice, needs_compiler
from precede import BoostedRanker, Judgments, PairLoss, PairRisk, PushRanker, RankBoost, RankWeight
from precede.engine.backend import BACKENDS
from precede.engine.execution import Context
from precede.losses import Separable, pair_loss
from precede.risks import ranked_pairs
from precede.risks.lambdarank import rank_weight
from precede.risks.line_search import line_search


@pytest.mark.parametrize("margin", [5.0, 36.0, 60.0, 200.0])
def test_losses_of_pairs_far_in_order_keep_their_digits(margin):
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
    pairs = ranked_pairs._sum_subgroups

    def counted(start, *arguments):
        counts.append(n * (start.size - 1))
        return pairs(start, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranked_pairs, "_sum_subgroups", counted)
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
    pairs = ranked_pairs._sum_subgroups
    monkeypatch.setattr(ranked_pairs, "MAX_PAIRS_PER_CALL", 30_000)
    monkeypatch.setattr(
        ranked_pairs,
        "_sum_subgroups",
        lambda start, *rest: (calls.append(start.size), pairs(start, *rest)),
    )
    parts = bound.state(scores)
    assert 1 < max(calls) <= 11
    assert parts.log_value == whole.log_value
    np.testing.assert_array_equal(parts.pull, whole.pull)


def test_a_tied_group_with_as_many_values_is_refused(monkeypatch):
    monkeypatch.setattr(ranked_pairs, "MAX_PAIRS_PER_ROW", 1000)
    rng = np.random.default_rng(0)
    bound = PairRisk("logistic", rank_weight="ndcg@10").bind(Judgments(rng.integers(0, 3, 3000)))
    bound.begin_round(np.zeros(3000))
    with pytest.raises(
        ValueError, match=r"3000 rows that have equal scores .* rankers of few values"
    ):
        bound.state(rng.normal(size=3000))


# -- on a GPU -----------------------------------------------------------------------------------


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
    monkeypatch.setattr(ranked_pairs, "LONG_LIST_ROWS", 20)
    monkeypatch.setattr(ranked_pairs, "MAX_ENUMERATED_TIES", 3)
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
    monkeypatch.setattr(ranked_pairs, "MAX_QUERY_ROWS", 10)
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
    assert "ranked_pairs" in device.launched
