"""Long lists by cells on a device, here an emulated one, beside the CPU: the same bits."""

import numpy as np
import pytest

from emulated_device import EmulatedDevice, needs_compiler
from precede import BoostedRanker, Judgments, PairRisk
from precede.engine.execution import Context
from precede.estimator import base

pytestmark = needs_compiler


def assert_same(judgments, scores, balance="pairs", device=None):
    layout = judgments.to_layout(balance)
    at, device = scores[layout.order], device or EmulatedDevice()
    risk = PairRisk("logistic", balance=balance)
    bound = risk.bind(layout, Context(1, device))
    assert bound.on_device
    here, there = risk.bind(layout).state(at), bound.state(device.put(at))
    assert (here.log_value, here.log_gradient_sum) == (there.log_value, there.log_gradient_sum)
    np.testing.assert_array_equal(device.get(there.pull), here.pull)
    np.testing.assert_array_equal(device.get(there.cache), here.cache)
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
    """A list with gaps between its cells is left to the CPU, and the others are not."""
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
    device, known = EmulatedDevice(), base.open_device
    monkeypatch.setattr(base, "open_device", lambda name: device if name == "cuda" else known(name))
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1500, 4))
    y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=1500) > 0
    here, there = (
        BoostedRanker(n_estimators=3, num_leaves=7, device=name, **given).fit(X, y)
        for name in ("cpu", "cuda")
    )
    assert here.ensemble_.to_dict() == there.ensemble_.to_dict()
    assert "cell_read" in device.launched
