"""Pairs summed on an emulated GPU: which ones, and the same bits as on the CPU."""

import numpy as np
import pytest

from emulated_device import EmulatedDevice, needs_compiler
from precede import Hinge, Judgments, PairRisk, SquaredHinge
from precede.engine.execution import Context
from precede.risks import device_pairs

pytestmark = needs_compiler
GRADES, QUERIES = np.arange(60) % 3, np.arange(60) // 20


def bound(judgments, loss="logistic"):
    return PairRisk(loss).bind(judgments, Context(1, EmulatedDevice()))


def test_queries_are_summed_on_the_device():
    assert bound(Judgments(np.arange(4000) % 2)).on_device  # by cells
    assert bound(Judgments(GRADES, QUERIES)).on_device
    for loss in ("hinge", "squared_hinge"):
        assert bound(Judgments(GRADES, QUERIES), loss).on_device
        assert bound(Judgments(np.arange(20_000) % 2), loss).on_device  # by sweeps
        assert not bound(Judgments(np.arange(20_000) < 3), loss).on_device  # one level range


def test_other_pairs_are_not(monkeypatch):
    listed = Judgments(pairs=[(0, 1), (1, 2), (0, 2)], n=3)
    assert bound(listed).on_device
    monkeypatch.setattr(device_pairs, "MAX_PAIRS_PER_ROW", 1)
    assert not bound(listed).on_device
    monkeypatch.setattr(device_pairs, "MAX_RANGE_ROWS", 10)
    assert not bound(Judgments(GRADES, QUERIES)).on_device


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
    risk = bound(judgments, loss)
    device, scores = risk.context.device, spread * rng.normal(size=risk.layout.n_used_rows)
    on_cpu, on_gpu = risk.state(scores), risk.state(device.put(scores))
    assert (on_cpu.log_value, on_cpu.log_gradient_sum) == (
        on_gpu.log_value,
        on_gpu.log_gradient_sum,
    )
    np.testing.assert_array_equal(on_cpu.pull, on_gpu.pull.get())
    np.testing.assert_array_equal(on_cpu.cache, on_gpu.cache.get())
    assert "listed_rows" in device.launched


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge", Hinge("gap")], ids=str)
@pytest.mark.parametrize("spread", [1.0, 300.0])
def test_states_on_cpu_and_device(loss, spread):
    risk = bound(Judgments(GRADES, QUERIES), loss)
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


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_pairs_beyond_all_margins_have_no_gradient(loss):
    risk = bound(Judgments([1, 0]), loss)
    state = risk.state(risk.context.device.put(np.array([0.0, 5.0])))
    assert state.log_value == -np.inf
    assert not state.pull.any()


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
    assert risk.bind(judgments, Context(1, EmulatedDevice())).on_device
    with pytest.raises(ValueError, match=r"the pulls of .* would take .* use device='cpu'"):
        risk.bind(judgments, Context(1, EmulatedDevice(free=free)))
