"""Hinges of long lists on an emulated GPU: the same bits as on the CPU."""

import numpy as np
import pytest

from emulated_device import EmulatedDevice, needs_compiler
from precede import BoostedRanker, Hinge, Judgments, PairRisk, SquaredHinge
from precede.engine.backend import BACKENDS
from precede.engine.execution import Context
from precede.risks import hinge_sweeps

pytestmark = needs_compiler
LOSSES = pytest.mark.parametrize(
    "loss", [Hinge(), SquaredHinge(), Hinge("gap"), SquaredHinge("gap"), Hinge(0.3)], ids=str
)


def assert_same(judgments, scores, loss, balance="pairs"):
    layout = judgments.to_layout(balance)
    at, device = scores[layout.order], EmulatedDevice()
    risk = PairRisk(loss, balance=balance)
    bound = risk.bind(layout, Context(1, device))
    assert bound.backend.is_gpu
    on_cpu, on_gpu = risk.bind(layout).state(at), bound.state(device.put(at))
    assert (on_cpu.log_value, on_cpu.log_gradient_sum) == (
        on_gpu.log_value,
        on_gpu.log_gradient_sum,
    )
    np.testing.assert_array_equal(device.get(on_gpu.pull), on_cpu.pull)
    np.testing.assert_array_equal(device.get(on_gpu.cache), on_cpu.cache)
    for kind in ("newton", "bound", "terms", "uniform"):
        weight = bound.pull_of(on_gpu).hessian(kind)
        np.testing.assert_array_equal(device.get(weight), bound.pull_of(on_cpu).hessian(kind))
    return device


def lists(seed, grades, *, weighted=False, sizes=(900, 20, 2100, 30, 700)):
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(len(sizes)), sizes)
    weight = rng.choice([0.5, 1.0, 3.0, 0.1], qid.size) if weighted else None
    return Judgments(rng.integers(0, grades, qid.size), qid, weight=weight), rng


@LOSSES
@pytest.mark.parametrize("grades", [2, 5, 40])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("spread", [0.0, 1.0, 500.0])
def test_states_are_equal_to_the_bit(loss, grades, weighted, spread):
    judgments, rng = lists(grades, grades, weighted=weighted)
    scores = np.round(spread * rng.normal(size=len(judgments)), 1)  # with ties, and -0
    device = assert_same(judgments, scores, loss)
    assert {"plain_runs", "sweep_read"} <= {*device.launched}


@LOSSES
@pytest.mark.parametrize("bits", [1, 4])
def test_many_chunks(loss, bits, monkeypatch):
    """A side has more chunks than threads that carry moments."""
    monkeypatch.setattr(hinge_sweeps, "CHUNK_BITS", bits)
    judgments, rng = lists(1, 3, weighted=True, sizes=(1500, 40))
    assert_same(judgments, rng.normal(size=len(judgments)), loss)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("balance", ["queries", "items"])
def test_balances(loss, balance):
    judgments, rng = lists(3, 3, weighted=True)
    assert_same(judgments, rng.normal(size=len(judgments)), loss, balance)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_lists_in_order_and_in_the_wrong_order(loss):
    judgments, rng = lists(5, 3)
    for sign in (1.0, -1.0):
        assert_same(judgments, sign * 3 * judgments.grade + rng.normal(size=len(judgments)), loss)
    assert_same(judgments, 3.0 * judgments.grade, loss)  # nothing pulls


@LOSSES
def test_explicit_pairs_beside_a_long_list(loss):
    rng = np.random.default_rng(2)
    pairs = rng.permuted(np.tile(np.arange(2000), (300, 1)), axis=1)[:, :2]
    given = {"pair_margin": rng.random(300)} if loss.gap else {}
    grade = rng.integers(0, 2, 1800)
    grade = np.concatenate([grade, np.full(200, np.nan)])  # rows that pairs alone know
    judgments = Judgments(grade, pairs=pairs, pair_weight=rng.random(300), **given)
    device = assert_same(judgments, rng.normal(size=2000), loss)
    assert {"listed_rows", "sweep_read"} <= {*device.launched}


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("given", [{}, {"line_search": True}, {"hessian": "bound"}], ids=str)
def test_fits_of_one_list(monkeypatch, loss, given):
    device = EmulatedDevice()
    monkeypatch.setitem(BACKENDS, "cuda", lambda _: device)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1500, 4))
    y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=1500), [-1, 1])
    given = {"n_estimators": 3, "num_leaves": 7, "loss": loss, **given}
    on_cpu, on_gpu = (BoostedRanker(device=name, **given).fit(X, y) for name in ("cpu", "cuda"))
    assert on_cpu.ensemble_.to_dict() == on_gpu.ensemble_.to_dict()
    np.testing.assert_array_equal(on_cpu.history_["log_risk"], on_gpu.history_["log_risk"])
    assert "sweep_read" in device.launched
