"""Long lists by cells and by order: compared with all pairs, and CPU with GPU."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from emulated_device import EmulatedDevice, needs_compiler
from precede import BoostedRanker, Hinge, Judgments, Logistic, PairRisk, SquaredHinge
from precede.engine.backend import BACKENDS
from precede.engine.execution import Context
from precede.losses import pair_loss
from precede.risks import by_cell, by_order
from precede.risks.pair_sums import OnePassRisk

# The kernel of the last step on a GPU.
HINGES = ("hinge", "squared_hinge")
LAST_KERNEL = {"logistic": "local_to_rows", **dict.fromkeys(HINGES, "add_row_gradients")}
NAMED = pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge"])
EVERY_LOSS = pytest.mark.parametrize(
    "loss",
    [Logistic(), Hinge(), SquaredHinge(), Hinge("gap"), SquaredHinge("gap"), Hinge(0.3)],
    ids=str,
)


def state_of(made, scores, loss, *, jobs=1, balance="pairs"):
    """Return value, gradient sum, pull and Hessian of the library by row, not normalized."""
    with Context(jobs) as context:
        bound = PairRisk(loss, balance=balance).bind(made, context)
        assert isinstance(bound, OnePassRisk)
        state = bound.state(scores[bound.layout.order])
        value, mass = np.exp([state.log_value, state.log_gradient_sum])
        pull, hessian = (
            bound.layout.to_rows(mass * each) for each in (state.pull, bound.curvature(state))
        )
    return value, mass, pull, hessian


def all_pairs(loss, grade, weight, scores):
    """Return value, slopes as winner and as loser, and Hessian from the matrix of all pairs."""
    loss, at = pair_loss(loss), scores
    if loss.gap:
        at = scores - grade
    margin = at[:, None] - at[None, :]
    pairs = (grade[:, None] > grade[None, :]) * weight[:, None] * weight[None, :]
    with np.errstate(under="ignore"):
        slope, hessian = -pairs * loss.slope(margin), pairs * loss.curvature(margin)
        value = (pairs * loss.value(margin)).sum()
    return value, slope.sum(axis=1), slope.sum(axis=0), hessian.sum(axis=0) + hessian.sum(axis=1)


@NAMED
def test_lists_long_and_short_are_summed_together(loss):
    """With the default thresholds some queries are enumerated, some are not."""
    rng = np.random.default_rng(1)
    qid = np.repeat([0, 1, 2, 3], [40, 900, 5, 1500])
    grade = rng.integers(0, 4, qid.size).astype(float)
    weight = rng.choice([0.5, 1.0, 2.0], qid.size)
    scores = 2 * rng.standard_normal(qid.size)
    made = Judgments(grade, qid, weight=weight)
    level_ranges, depths = (by_cell if loss == "logistic" else by_order)._plan(made.to_layout())
    assert len(level_ranges) >= 2
    assert len(depths) >= 1
    value, _, pull, hessian = state_of(made, scores, loss)
    parts = [all_pairs(loss, *(a[qid == q] for a in (grade, weight, scores))) for q in range(4)]
    assert_allclose(value, sum(part[0] for part in parts), rtol=1e-12)
    wanted = np.concatenate([won - lost for _, won, lost, _ in parts])
    assert_allclose(pull, wanted, rtol=0, atol=1e-13 * np.abs(wanted).sum())
    assert_allclose(hessian, np.concatenate([part[3] for part in parts]), rtol=1e-12)


@NAMED
@pytest.mark.parametrize("levels", [2, 6])
@pytest.mark.parametrize("spread", [1.0, 1e5])
@pytest.mark.usefixtures("tiny_thresholds")
def test_sums_do_not_depend_on_the_number_of_threads(loss, levels, spread, monkeypatch):
    """Chunks have a fixed size, cells are summed in order, and sorts are stable."""
    monkeypatch.setattr(by_cell, "MIN_SHARED_ROWS", 1 << 15)  # large and small nodes
    rng = np.random.default_rng(levels)
    n = 60_000
    qid = np.where(np.arange(n) < 40_000, 0, np.arange(n) // 4000)
    made = Judgments(rng.integers(0, levels, n), qid, weight=rng.choice([0.1, 1.0, 3.0], n))
    scores = spread * rng.standard_normal(n).round(3)
    one = state_of(made, scores, loss)
    for jobs in (2, 5):
        for ours, theirs in zip(state_of(made, scores, loss, jobs=jobs), one, strict=True):
            assert_array_equal(ours, theirs)


@NAMED
def test_the_order_of_the_rows_of_a_long_list_changes_no_bit_of_a_fit(loss):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((4000, 3)).round(2)
    y = (X[:, 0] + rng.standard_normal(4000) > 0).astype(int)
    order = rng.permutation(4000)
    model = BoostedRanker(n_estimators=4, loss=loss)
    expected = model.fit(X, y).predict(X)
    assert_array_equal(model.fit(X[order], y[order]).predict(X), expected)


# -- on a GPU ---------------------------------------------------------------------------------


def assert_same(judgments, scores, loss, balance="pairs"):
    """Compare the states on CPU and emulated GPU; return the device."""
    layout = judgments.to_layout(balance)
    at, device = scores[layout.order], EmulatedDevice()
    risk = PairRisk(loss, balance=balance)
    bound = risk.bind(layout, Context(1, device))
    assert bound.backend.is_gpu
    on_cpu, on_gpu = risk.bind(layout).state(at), bound.state(device.put(at))
    for name in ("log_value", "log_gradient_sum"):
        assert getattr(on_cpu, name) == getattr(on_gpu, name)
    assert_array_equal(device.get(on_gpu.pull), on_cpu.pull)
    assert_array_equal(device.get(on_gpu.cache), on_cpu.cache)
    for kind in ("newton", "bound", "terms", "uniform"):
        weight = bound.pull_of(on_gpu).hessian(kind)
        assert_array_equal(device.get(weight), bound.pull_of(on_cpu).hessian(kind))
    return device


def lists(seed, grades, *, weighted=False, sizes=(900, 20, 2100, 30, 700)):
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(len(sizes)), sizes)
    weight = rng.choice([0.5, 1.0, 3.0, 0.1], qid.size) if weighted else None
    return Judgments(rng.integers(0, grades, qid.size), qid, weight=weight), rng


@needs_compiler
@EVERY_LOSS
@pytest.mark.parametrize("grades", [2, 5, 40])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0])
def test_states_are_equal_to_the_bit(loss, grades, weighted, spread):
    judgments, rng = lists(grades, grades, weighted=weighted)
    scores = np.round(spread * rng.normal(size=len(judgments)), 1)  # with ties, and -0
    device = assert_same(judgments, scores, loss)
    assert {"generic_ranges", LAST_KERNEL[loss.name]} <= {*device.launched}


@needs_compiler
@NAMED
@pytest.mark.parametrize("balance", ["queries", "items"])
def test_balances(loss, balance):
    judgments, rng = lists(3, 3, weighted=True)
    assert_same(judgments, rng.normal(size=len(judgments)), loss, balance)


@needs_compiler
@NAMED
def test_lists_in_order_and_in_the_wrong_order(loss):
    judgments, rng = lists(5, 3)
    for sign in (1.0, -1.0):
        assert_same(judgments, sign * 12 * judgments.grade + rng.normal(size=len(judgments)), loss)
    assert_same(judgments, 3.0 * judgments.grade, loss)  # hinges do not pull


@needs_compiler
@EVERY_LOSS
def test_explicit_pairs_beside_a_long_list(loss):
    rng = np.random.default_rng(2)
    pairs = rng.permuted(np.tile(np.arange(2000), (300, 1)), axis=1)[:, :2]
    given = {"pair_margin": rng.random(300)} if loss.gap else {}
    grade = rng.integers(0, 2, 1800)
    grade = np.concatenate([grade, np.full(200, np.nan)])  # rows that pairs alone know
    judgments = Judgments(grade, pairs=pairs, pair_weight=rng.random(300), **given)
    device = assert_same(judgments, rng.normal(size=2000), loss)
    assert {"add_explicit_pairs", LAST_KERNEL[loss.name]} <= {*device.launched}


@needs_compiler
@NAMED
@pytest.mark.parametrize(
    "given",
    [{"num_leaves": 7}, {"line_search": True}, {"hessian": "bound"}, {"weak_rankers": "stumps"}],
    ids=str,
)
def test_fits_of_one_list(monkeypatch, loss, given):
    device = EmulatedDevice()
    monkeypatch.setitem(BACKENDS, "cuda", lambda _: device)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1500, 4))
    y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=1500), [-1, 1])
    given = {"n_estimators": 3, "loss": loss, **given}
    on_cpu, on_gpu = (BoostedRanker(device=name, **given).fit(X, y) for name in ("cpu", "cuda"))
    assert on_cpu.ensemble_.to_dict() == on_gpu.ensemble_.to_dict()
    assert_array_equal(on_cpu.history_["log_risk"], on_gpu.history_["log_risk"])
    assert LAST_KERNEL[loss] in device.launched
