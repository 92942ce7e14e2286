"""The exponential loss with weights by rank on an emulated device: the bits of the CPU."""

import numpy as np
import pytest

from emulated_device import EmulatedDevice, needs_compiler
from precede import BoostedRanker, Judgments, PairRisk, PushRanker, RankBoost, RankWeight
from precede.engine.backend import BACKENDS
from precede.engine.execution import Context
from precede.risks import device_ranks
from precede.risks.device_ranked_exponential import (
    DeviceRankedExponentialRisk,
    DeviceTopExponentialRisk,
)

pytestmark = needs_compiler

RULES = [
    "ndcg@10", "precision@5", RankWeight(k=4, blend=0.3), RankWeight("linear", k=1),
    "ndcg", "gap", RankWeight("linear", blend=0.4), RankWeight(k=100),
]  # fmt: skip


def problem(seed, *, weighted=False, grades=4, longest=60):
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(25), rng.integers(1, longest, 25))
    weight = rng.choice([0.5, 1.0, 3.0, 0.1], qid.size) if weighted else None
    return Judgments(rng.integers(0, grades, qid.size), qid, weight=weight), rng


def assert_same(judgments, rule, scores, later, values, *, balance="items", rate=1.0):
    """States of a round that begins at some scores, there and at later ones."""
    device, layout = EmulatedDevice(), judgments.to_layout(balance)
    risk = PairRisk("exponential", balance=balance, rank_weight=rule)
    here, there = risk.bind(layout), risk.bind(layout, Context(1, device))
    assert there.backend.is_gpu
    kinds = DeviceTopExponentialRisk, DeviceRankedExponentialRisk
    assert type(there) is kinds[there.weights.top is None]
    here.rate = there.rate = rate
    order = layout.order
    at, values = device.put(scores[order]), values[order].astype(np.uint8)
    for end in (scores[order], later[order]):
        # Outside of rounds first: the ranks are those of the scores.
        for _ in range(2):
            one, other = here.state(end), there.state(device.put(end))
            assert (one.log_value, one.log_gradient_sum) == (
                other.log_value,
                other.log_gradient_sum,
            )
            assert device.holds(other.pull)
            np.testing.assert_array_equal(other.pull.get(), one.pull)
            np.testing.assert_array_equal(there.curvature(other).get(), here.curvature(one))
            assert here.log_value(end) == there.log_value(device.put(end))
            assert here.edge_weights(one, values) == there.edge_weights(other, device.put(values))
            steps = here.exact_step(one, values), there.exact_step(other, device.put(values))
            assert steps[0] == steps[1]
            for kind in ("newton", "bound", "terms", "uniform"):
                weight = there.pull_of(other).hessian(kind)
                np.testing.assert_array_equal(device.get(weight), here.pull_of(one).hessian(kind))
            assert here.begin_round(scores[order])
            assert there.begin_round(at)
    np.testing.assert_array_equal(there.pair_totals(other).get(), here.pair_totals(one))


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("balance", ["items", "pairs"])
@pytest.mark.parametrize("spread", [0.0, 1.0, 400.0])
def test_states_are_equal_to_the_bit(rule, balance, spread):
    """With ties, with none of them, and with scores that are too far apart for exponentials."""
    judgments, rng = problem(1, longest=40)
    scores = np.round(spread * rng.normal(size=len(judgments)), 1)
    later = scores + rng.normal(size=scores.size)
    values = rng.integers(0, 2, scores.size)
    assert_same(judgments, rule, scores, later, values, balance=balance)


@pytest.mark.parametrize("rule", ["ndcg@10", "ndcg"])
@pytest.mark.parametrize("grades", [2, 14])
@pytest.mark.parametrize("rate", [1.0, 0.3])
def test_weights_of_items(rule, grades, rate):
    judgments, rng = problem(2, weighted=True, grades=grades)
    scores = rng.normal(size=len(judgments))
    values = rng.random(scores.size) < 0.1
    assert_same(judgments, rule, scores, np.round(scores), values, rate=rate)


def test_more_grades_than_sums_by_grade():
    judgments, rng = problem(3, grades=60, longest=90)
    scores = rng.normal(size=len(judgments))
    assert_same(judgments, "ndcg@7", scores, -scores, scores > 0)
    device = EmulatedDevice()
    risk = PairRisk("exponential", balance="items", rank_weight="ndcg")
    assert not risk.bind(judgments.to_layout("items"), Context(1, device)).backend.is_gpu


@pytest.mark.parametrize("rule", ["ndcg@10", "gap"])
def test_rankers_without_mistakes(rule):
    judgments, _ = problem(4, grades=2)
    grade = np.asarray(judgments.grade)
    for values in (grade, 1 - grade, np.ones(grade.size)):
        assert_same(judgments, rule, np.zeros(grade.size), 3.0 * grade, values)


def test_pairs_without_any_weight():
    """Equal gains: nothing pulls."""
    judgments, rng = problem(5)
    for rule in (RankWeight(lambda grade: 0.0 * grade, k=3), RankWeight(lambda grade: 0.0 * grade)):
        given = {"balance": "items", "rank_weight": rule}
        device, layout = EmulatedDevice(), judgments.to_layout("items")
        there = PairRisk("exponential", **given).bind(layout, Context(1, device))
        state = there.state(device.put(rng.normal(size=len(judgments))))
        assert (state.log_value, state.log_gradient_sum) == (-np.inf, -np.inf)
        assert not state.pull.any()
        assert not there.curvature(state).any()


@pytest.mark.parametrize("rule", ["ndcg@10", "ndcg"])
def test_a_line_is_searched_on_the_cpu(rule):
    judgments, rng = problem(6, longest=20)
    layout, device = judgments.to_layout("items"), EmulatedDevice()
    risk = PairRisk("exponential", balance="items", rank_weight=rule)
    here, there = risk.bind(layout), risk.bind(layout, Context(1, device))
    scores, values = rng.normal(size=(2, layout.n_used_rows))
    here.begin_round(scores)
    there.begin_round(device.put(scores))
    found = there.line_search(there.state(device.put(scores)), device.put(values))
    assert found == here.line_search(here.state(scores), values)
    assert there.exact_step(there.state(device.put(scores)), device.put(values)) == found
    good = device.put(layout.grade)
    assert there.least_margin(good) == here.least_margin(layout.grade) == 1


def test_what_stays_on_the_cpu(monkeypatch):
    judgments, _ = problem(7)
    risk = PairRisk("exponential", rank_weight="ndcg@10")
    assert risk.bind(judgments, Context(1, EmulatedDevice())).backend.is_gpu
    monkeypatch.setattr(device_ranks, "MAX_QUERY_ROWS", 10)
    bound = risk.bind(judgments, Context(1, EmulatedDevice()))
    assert not bound.backend.is_gpu
    state = bound.state(np.zeros(bound.layout.n_used_rows))
    assert bound.curvature(state).any()
    assert bound.begin_round(state.scores)
    values = (bound.layout.grade > 1).astype(np.uint8)
    plain = risk.bind(judgments)
    plain.begin_round(state.scores)
    assert bound.edge_weights(state, values) == plain.edge_weights(
        plain.state(state.scores), values
    )
    assert bound.log_value(state.scores) == state.log_value
    assert bound.line_search(state, values) == plain.line_search(state, values)


FITS = [
    (BoostedRanker, {"loss": "exponential", "num_leaves": 7}),
    (BoostedRanker, {"loss": "exponential", "num_leaves": 7, "line_search": True}),
    (BoostedRanker, {"loss": "exponential", "num_leaves": 7, "balance": "pairs"}),
    (RankBoost, {}),
    (RankBoost, {"step": "bound", "learning_rate": 1.0}),
    (PushRanker, {"price": 1}),
]


@pytest.mark.parametrize(("estimator", "given"), FITS, ids=str)
@pytest.mark.parametrize("rule", ["ndcg@10", "ndcg", {"k": 5, "blend": 0.5}], ids=str)
def test_fits(monkeypatch, estimator, given, rule):
    device = EmulatedDevice()
    monkeypatch.setitem(BACKENDS, "cuda", lambda _: device)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, 4))
    y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=500), [0, 1, 2])
    given = {"n_estimators": 3, "learning_rate": 0.4, "rank_weight": rule, **given}
    here, there = (
        estimator(**given, device=name).fit(X, y, qid=np.arange(500) // 20)
        for name in ("cpu", "cuda")
    )
    assert here.ensemble_.to_dict() == there.ensemble_.to_dict()
    for column in ("log_risk", "edge", "step"):
        np.testing.assert_array_equal(here.history_[column], there.history_[column])
    assert ("grade_meet" if rule == "ndcg" else "top_meet") in device.launched
