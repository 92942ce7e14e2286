"""Long lists by cells on an emulated GPU: the same bits as on the CPU."""

import numpy as np
import pytest

from emulated_device import EmulatedDevice, needs_compiler
from precede import BoostedRanker, Judgments, PairRisk
from precede.engine.backend import BACKENDS
from precede.engine.execution import Context

pytestmark = needs_compiler


def assert_same(judgments, scores, balance="pairs", device=None):
    layout = judgments.to_layout(balance)
    at, device = scores[layout.order], device or EmulatedDevice()
    risk = PairRisk("logistic", balance=balance)
    bound = risk.bind(layout, Context(1, device))
    assert bound.backend.is_gpu
    on_cpu, on_gpu = risk.bind(layout).state(at), bound.state(device.put(at))
    assert (on_cpu.log_value, on_cpu.log_gradient_sum) == (
        on_gpu.log_value,
        on_gpu.log_gradient_sum,
    )
    np.testing.assert_array_equal(device.get(on_gpu.pull), on_cpu.pull)
    np.testing.assert_array_equal(device.get(on_gpu.cache), on_cpu.cache)
    return device


def lists(seed, grades, *, weighted=False, sizes=(900, 20, 2100, 30, 700)):
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(len(sizes)), sizes)
    weight = rng.choice([0.5, 1.0, 3.0, 0.1], qid.size) if weighted else None
    return Judgments(rng.integers(0, grades, qid.size), qid, weight=weight), rng


@pytest.mark.parametrize("grades", [2, 5, 40])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0])
def test_states_are_equal_to_the_bit(grades, weighted, spread):
    judgments, rng = lists(grades, grades, weighted=weighted)
    scores = spread * rng.normal(size=len(judgments))
    device = assert_same(judgments, np.round(scores, 1))  # with ties
    assert "cell_read" in device.launched


@pytest.mark.parametrize("balance", ["queries", "items"])
def test_balances(balance):
    judgments, rng = lists(3, 3, weighted=True)
    assert_same(judgments, rng.normal(size=len(judgments)), balance)


@pytest.mark.parametrize("far", [100.0, 5000.0])
def test_scores_far_apart(far):
    """Only lists with gaps between their cells are summed on the CPU."""
    judgments, rng = lists(4, 4)
    scores = rng.normal(size=len(judgments))
    scores[3] = -far
    device = assert_same(judgments, scores)
    assert "cell_read" in device.launched


def test_no_list_for_the_device():
    judgments, rng = lists(6, 3, sizes=(800, 700))
    device = assert_same(judgments, 1e5 * rng.normal(size=len(judgments)))
    assert "cell_read" not in device.launched


def test_lists_in_order_and_in_the_wrong_order():
    judgments, rng = lists(5, 3)
    for sign in (1.0, -1.0):
        assert_same(judgments, sign * 12 * judgments.grade + rng.normal(size=len(judgments)))


def test_one_list_of_several_blocks():
    rng = np.random.default_rng(0)
    judgments = Judgments(rng.random(50_000) < 0.4)
    assert_same(judgments, rng.normal(size=50_000))


@pytest.mark.parametrize("given", [{}, {"line_search": True}, {"hessian": "bound"}])
def test_fits_of_one_list(monkeypatch, given):
    device = EmulatedDevice()
    monkeypatch.setitem(BACKENDS, "cuda", lambda _: device)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1500, 4))
    y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=1500) > 0
    on_cpu, on_gpu = (
        BoostedRanker(n_estimators=3, num_leaves=7, device=name, **given).fit(X, y)
        for name in ("cpu", "cuda")
    )
    assert on_cpu.ensemble_.to_dict() == on_gpu.ensemble_.to_dict()
    assert "cell_read" in device.launched
