"""Pairs weighted by rank on an emulated GPU: the same bits as on the CPU."""

import numpy as np
import pytest

from emulated_device import EmulatedDevice, needs_compiler
from precede import BoostedRanker, Judgments, PairRisk, RankWeight
from precede.engine.backend import BACKENDS
from precede.engine.execution import Context
from precede.risks import device_ranks, ranked_pairs

pytestmark = needs_compiler


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
            one = on_cpu.first_state(end, value=value)
            other = on_gpu.first_state(device.put(end), value=value)
            np.testing.assert_array_equal(one.log_value, other.log_value)
            assert one.log_gradient_sum == other.log_gradient_sum
            np.testing.assert_array_equal(one.pull, other.pull.get())
            np.testing.assert_array_equal(one.cache, other.cache.get())
        assert on_cpu.log_value(end) == on_gpu.log_value(device.put(end))
        for kind in ("newton", "bound", "terms", "uniform"):
            weight = on_gpu.pull_of(other).hessian(kind)
            np.testing.assert_array_equal(device.get(weight), on_cpu.pull_of(one).hessian(kind))


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge"])
@pytest.mark.parametrize(
    "rule", ["ndcg@10", "precision@5", RankWeight(k=4, blend=0.3), "ndcg", "gap"]
)
@pytest.mark.parametrize("balance", ["items", "pairs"])
@pytest.mark.parametrize("spread", [0.0, 1.0, 60.0])
def test_states_are_equal_to_the_bit(loss, rule, balance, spread):
    judgments, rng = problem(1)
    scores = np.round(spread * rng.normal(size=len(judgments)), 1)  # with ties
    later = scores + rng.normal(size=scores.size)
    assert_same(judgments, rule, scores, later, loss=loss, balance=balance)


@pytest.mark.parametrize("grades", [2, 30])
def test_weights_of_items(grades):
    judgments, rng = problem(2, weighted=True, grades=grades)
    scores = rng.normal(size=len(judgments))
    assert_same(judgments, "ndcg@10", scores, np.round(scores))


def test_pairs_far_in_order():
    judgments, rng = problem(3)
    scores = 17 * np.asarray(judgments.grade) + 0.1 * rng.normal(size=len(judgments))
    assert_same(judgments, "ndcg@5", scores, -scores)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_large_tied_groups(monkeypatch, loss):
    monkeypatch.setattr(ranked_pairs, "LONG_LIST_ROWS", 20)
    for module in (ranked_pairs, device_ranks):
        monkeypatch.setattr(module, "MAX_ENUMERATED_TIES", 3)
    judgments, rng = problem(5)
    scores = np.round(rng.normal(size=len(judgments)))
    assert_same(judgments, "ndcg@5", 0 * scores, scores, loss=loss)
    assert_same(judgments, "ndcg@5", scores, rng.normal(size=scores.size), loss=loss)
    assert_same(judgments, "ndcg@5", rng.normal(size=scores.size), scores, loss=loss)


def test_what_stays_on_the_cpu(monkeypatch):
    judgments, _ = problem(4)
    device = EmulatedDevice()
    assert bound(judgments, "ndcg@10", device=device).backend.is_gpu
    monkeypatch.setattr(device_ranks, "MAX_QUERY_ROWS", 10)
    assert not bound(judgments, "ndcg@10", device=device).backend.is_gpu


@pytest.mark.parametrize("given", [{}, {"line_search": True}, {"hessian": "bound"}])
def test_fits(monkeypatch, given):
    device = EmulatedDevice()
    monkeypatch.setitem(BACKENDS, "cuda", lambda _: device)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, 4))
    y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=500), [0, 1, 2])
    given = {"n_estimators": 3, "num_leaves": 7, "rank_weight": "ndcg@10", **given}
    on_cpu, on_gpu = (
        BoostedRanker(**given, device=name).fit(X, y, qid=np.arange(500) // 20)
        for name in ("cpu", "cuda")
    )
    assert on_cpu.ensemble_.to_dict() == on_gpu.ensemble_.to_dict()
    np.testing.assert_array_equal(on_cpu.history_["log_risk"], on_gpu.history_["log_risk"])
    assert "ranked_pairs" in device.launched
