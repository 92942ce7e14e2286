"""Hinge risks of long lists by order: compared with all pairs, and CPU with GPU."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import naive
import strategies as some
from emulated_device import EmulatedDevice, needs_compiler
from precede import BoostedRanker, Hinge, Judgments, PairRisk, SquaredHinge
from precede.engine.backend import BACKENDS
from precede.engine.execution import Context
from precede.risks import by_order
from precede.risks.by_order import _plan
from precede.risks.pair_sums import OnePassRisk

LOSSES = ["hinge", "hinge with margin 0", "hinge with gaps", "squared hinge",
          "squared hinge with gaps"]  # fmt: skip


@pytest.fixture(params=[1, 3, 9], ids=lambda bits: f"chunks of {2**bits}")
def all_swept(monkeypatch, request):
    """Enumerate no graded pair, however short the query."""
    monkeypatch.setattr(by_order, "MAX_PAIRS_PER_ROW", 0)
    monkeypatch.setattr(by_order, "CHUNK_BITS", request.param)
    monkeypatch.setattr(by_order, "MIN_RADIX_ROWS", 8)


def state_of(made, scores, loss, *, jobs=1, balance="pairs"):
    """Return value, gradient sum, pull and Hessian of the library by row, not normalized."""
    with Context(jobs) as context:
        bound = PairRisk(loss, balance=balance).bind(made, context)
        assert isinstance(bound, OnePassRisk)
        state = bound.state(scores[bound.layout.order])
        value, mass = np.exp([state.log_value, state.log_gradient_sum])
        pull, hessian = (
            bound.to_rows(mass * each) for each in (state.pull, bound.curvature(state))
        )
    return value, mass, pull, hessian


def all_pairs(loss, grade, weight, scores):
    """Return value, slopes as winner and as loser, and Hessian from the matrix of all pairs."""
    margin = scores[:, None] - scores[None, :]
    if loss.gap:
        margin = (scores - grade)[:, None] - (scores - grade)[None, :]
    pairs = (grade[:, None] > grade[None, :]) * weight[:, None] * weight[None, :]
    slope, hessian = -pairs * loss.slope(margin), pairs * loss.curvature(margin)
    value = (pairs * loss.value(margin)).sum()
    return value, slope.sum(axis=1), slope.sum(axis=0), hessian.sum(axis=0) + hessian.sum(axis=1)


@pytest.mark.usefixtures("all_swept")
@pytest.mark.parametrize("name", LOSSES)
def test_sums_by_scans_equal_enumeration(name):
    """All kinds of judgments, compared with decimal arithmetic."""
    loss, twin, gap = some.LOSSES[name]

    @given(some.judgments(margins=gap), st.data())
    @settings(max_examples=50)
    def check(made, data):
        balance = data.draw(st.sampled_from(["pairs", "queries"]))
        spread = data.draw(st.sampled_from([1.0, 8.0, 2048.0]))
        scores = data.draw(some.scores(len(made), spread=spread))
        price = naive.power_price(1)
        expected = naive.risk(made, scores, twin, price, gap=gap, balance=balance)
        value, mass, pull, hessian = state_of(made, scores, loss, jobs=2, balance=balance)
        assert_allclose([value, mass], [float(expected.value), float(expected.mass)], rtol=1e-12)
        if mass == 0:  # nothing pulls
            assert not pull.any()
            return
        assert_allclose(pull, [float(p) for p in expected.pull], rtol=0, atol=1e-12 * mass)
        wanted = [float(c) for c in expected.curvature]
        assert_allclose(hessian, wanted, rtol=1e-12, atol=1e-13 * mass)

    check()


@pytest.mark.parametrize(
    "loss", [Hinge(), Hinge(0.3), SquaredHinge(), SquaredHinge("gap")], ids=str
)
@pytest.mark.parametrize("spread", [0.0, 0.1, 1.0, 40.0, 1e5])
@pytest.mark.parametrize("levels", [2, 3, 7])
def test_every_row_of_a_long_list_keeps_its_digits(loss, levels, spread, monkeypatch):
    """Relative errors are small also for rows far from all others."""
    monkeypatch.setattr(by_order, "MAX_PAIRS_PER_ROW", 0)
    rng = np.random.default_rng(levels)
    n = 2500
    grade = rng.integers(0, levels, n).astype(float)
    weight = rng.choice([1e-3, 0.5, 1.0, 3.0], n)
    scores = spread * rng.standard_normal(n)
    value, mass, pull, hessian = state_of(Judgments(grade, weight=weight), scores, loss)
    expected, won, lost, hessians = all_pairs(loss, grade, weight, scores)
    assert_allclose(value, expected, rtol=1e-12)
    assert_allclose(mass, won.sum(), rtol=1e-12)
    assert_allclose(pull, won - lost, rtol=0, atol=2e-12 * max(won.max(), lost.max()))
    assert_allclose(hessian, hessians, rtol=1e-12)


@pytest.mark.parametrize("loss", [Hinge(), Hinge(0.3), SquaredHinge()], ids=str)
def test_pairs_on_the_kink_are_counted_on_neither_side(loss):
    """With decimal fractions, both rows of a pair agree whether the margin is below the knot."""
    rng = np.random.default_rng(0)
    made = Judgments(rng.integers(0, 2, 3000))
    scores = rng.integers(-30, 30, 3000) / 10
    assert _plan(made.to_layout())[1]
    _, mass, pull, hessian = state_of(made, scores, loss)
    assert abs(pull.sum()) < 1e-10 * mass
    winners = np.asarray(made.grade) == 1
    assert_allclose(hessian[winners].sum(), hessian[~winners].sum(), rtol=1e-12)


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()], ids=str)
def test_lists_long_and_short_are_summed_together(loss):
    """With the default thresholds some queries are enumerated, some are not."""
    rng = np.random.default_rng(1)
    qid = np.repeat([0, 1, 2, 3], [40, 900, 5, 1500])
    grade = rng.integers(0, 4, qid.size).astype(float)
    weight = rng.choice([0.5, 1.0, 2.0], qid.size)
    scores = 2 * rng.standard_normal(qid.size)
    made = Judgments(grade, qid, weight=weight)
    level_ranges, depths = _plan(made.to_layout())
    assert len(level_ranges) >= 2
    assert len(depths) >= 2
    value, _, pull, hessian = state_of(made, scores, loss)
    parts = [all_pairs(loss, *(a[qid == q] for a in (grade, weight, scores))) for q in range(4)]
    assert_allclose(value, sum(part[0] for part in parts), rtol=1e-12)
    wanted = np.concatenate([won - lost for _, won, lost, _ in parts])
    assert_allclose(pull, wanted, rtol=0, atol=1e-13 * np.abs(wanted).sum())
    assert_allclose(hessian, np.concatenate([part[3] for part in parts]), rtol=1e-12)


@given(st.data())
@settings(max_examples=60)
def test_every_pair_is_in_one_split_or_range(data):
    sizes = data.draw(st.lists(st.integers(1, 400), min_size=2, max_size=40))
    levels = np.repeat(np.arange(len(sizes)), sizes)
    qid = (levels >= data.draw(st.integers(1, len(sizes)))).astype(int)
    layout = Judgments(levels.astype(float), qid).to_layout()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(by_order, "MAX_PAIRS_PER_ROW", data.draw(st.sampled_from([0, 20, 300])))
        patch.setattr(by_order, "LONG_LIST_ROWS", data.draw(st.sampled_from([0, 500, 8192])))
        level_ranges, depths = _plan(layout)
    start = layout.level_start
    count = 0
    for bottom, top in level_ranges:
        of_levels = np.diff(start[bottom : top + 1])
        count += (of_levels.sum() ** 2 - (of_levels**2).sum()) // 2
    for splits in depths:
        size = np.diff(splits.sides[:, :2])[:, 0]
        count += (size[::2] * size[1::2]).sum()
        rows = np.concatenate([np.arange(*each) for each in splits.sides[:, :2]])
        assert np.unique(rows).size == rows.size == splits.rows  # no row is twice in one depth
        assert_array_equal(
            np.concatenate([np.arange(*each) for each in splits.chunks[:, :2]]), rows
        )
    assert count == layout.count_graded_pairs()


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("levels", [2, 6])
@pytest.mark.usefixtures("tiny_thresholds")
def test_sums_by_scans_do_not_depend_on_the_number_of_threads(loss, levels):
    """Chunks have a fixed size and sorts are stable."""
    rng = np.random.default_rng(levels)
    n = 40_000
    qid = np.where(np.arange(n) < 30_000, 0, np.arange(n) // 2000)
    made = Judgments(rng.integers(0, levels, n), qid, weight=rng.choice([0.1, 1.0, 3.0], n))
    scores = rng.standard_normal(n).round(3)
    one = state_of(made, scores, loss)
    for jobs in (2, 5):
        for ours, theirs in zip(state_of(made, scores, loss, jobs=jobs), one, strict=True):
            assert_array_equal(ours, theirs)


@pytest.mark.usefixtures("all_swept")
def test_merged_orders_are_those_of_a_stable_sort():
    """Sides of outer splits are merged from the sides of inner splits; -0 equals 0."""
    rng = np.random.default_rng(0)
    made = Judgments(rng.integers(0, 9, 700), np.arange(700) // 350).to_layout()
    scores = rng.integers(-3, 4, made.n_used_rows) / 2 + 0.0
    before = None
    for splits in _plan(made)[1]:
        before = splits.sort(scores, before, Context(1))
        for begin, end in splits.sides[:, :2]:
            expected = begin + np.argsort(scores[begin:end], kind="stable")
            assert_array_equal(before[0][begin:end], expected)
            assert_array_equal(before[1][begin:end], scores[expected])


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_zeros_of_both_signs_are_equal(loss):
    rng = np.random.default_rng(3)
    made = Judgments(np.arange(600) % 2, weight=rng.random(600))
    scores = rng.integers(-1, 2, 600).astype(float)
    signed = np.where((scores == 0) & (rng.random(600) < 0.5), -0.0, scores)
    for ours, theirs in zip(
        state_of(made, signed, loss), state_of(made, scores, loss), strict=True
    ):
        assert_array_equal(ours, theirs)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_order_of_the_rows_of_a_long_list_changes_no_bit_of_a_fit(loss):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((4000, 3)).round(2)
    y = (X[:, 0] + rng.standard_normal(4000) > 0).astype(int)
    order = rng.permutation(4000)
    model = BoostedRanker(n_estimators=4, loss=loss)
    expected = model.fit(X, y).predict(X)
    assert_array_equal(model.fit(X[order], y[order]).predict(X), expected)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_list_in_order_does_not_pull(loss):
    grade = np.arange(3000) % 2
    value, mass, pull, hessian = state_of(Judgments(grade), 5.0 * grade, loss)
    assert value == mass == 0
    assert not pull.any()
    assert not hessian.any()


def test_few_winners_of_a_long_list_are_enumerated():
    made = Judgments(np.arange(20_000) < 3).to_layout()
    level_ranges, depths = _plan(made)
    assert len(level_ranges) == 1
    assert not depths
    level_ranges, depths = _plan(Judgments(np.arange(20_000) < 60).to_layout())
    assert not len(level_ranges)
    assert len(depths) == 1


def test_a_rare_grade_does_not_leave_a_long_range_to_be_enumerated():
    """A device enumerates only short level ranges; halves are sorted anyway."""
    grade = np.repeat([0, 1, 2, 3], [20_000, 10, 1_000, 1_000])
    level_ranges, depths = _plan(Judgments(grade).to_layout())
    assert not len(level_ranges)
    assert len(depths) == 2


# -- on a GPU ---------------------------------------------------------------------------------

EVERY_LOSS = pytest.mark.parametrize(
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
@pytest.mark.parametrize("spread", [0.0, 1.0, 500.0])
def test_states_are_equal_to_the_bit(loss, grades, weighted, spread):
    judgments, rng = lists(grades, grades, weighted=weighted)
    scores = np.round(spread * rng.normal(size=len(judgments)), 1)  # with ties, and -0
    device = assert_same(judgments, scores, loss)
    assert {"plain_runs", "sweep_read"} <= {*device.launched}


@needs_compiler
@EVERY_LOSS
@pytest.mark.parametrize("bits", [1, 4])
def test_many_chunks(loss, bits, monkeypatch):
    """A side has more chunks than threads that carry moments."""
    monkeypatch.setattr(by_order, "CHUNK_BITS", bits)
    judgments, rng = lists(1, 3, weighted=True, sizes=(1500, 40))
    assert_same(judgments, rng.normal(size=len(judgments)), loss)


@needs_compiler
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("balance", ["queries", "items"])
def test_balances(loss, balance):
    judgments, rng = lists(3, 3, weighted=True)
    assert_same(judgments, rng.normal(size=len(judgments)), loss, balance)


@needs_compiler
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_lists_in_order_and_in_the_wrong_order(loss):
    judgments, rng = lists(5, 3)
    for sign in (1.0, -1.0):
        assert_same(judgments, sign * 3 * judgments.grade + rng.normal(size=len(judgments)), loss)
    assert_same(judgments, 3.0 * judgments.grade, loss)  # nothing pulls


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
    assert {"listed_rows", "sweep_read"} <= {*device.launched}


@needs_compiler
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
    assert_array_equal(on_cpu.history_["log_risk"], on_gpu.history_["log_risk"])
    assert "sweep_read" in device.launched
