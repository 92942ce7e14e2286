"""Hinge risks of long lists by order, compared with all pairs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import naive
import strategies as some
from emulated_device import needs_compiler
from precede import Hinge, Judgments, SquaredHinge
from precede.engine.execution import Context
from precede.risks import by_order
from precede.risks.by_order import _plan
from risks.test_long_lists import all_pairs, assert_same, lists, state_of

LOSSES = ["hinge", "hinge with margin 0", "hinge with gaps", "squared hinge",
          "squared hinge with gaps"]  # fmt: skip


@pytest.fixture(params=[1, 3, 9], ids=lambda bits: f"chunks of {2**bits}")
def all_swept(monkeypatch, request):
    """Enumerate no graded pair, however short the query."""
    monkeypatch.setattr(by_order, "MAX_PAIRS_PER_ROW", 0)
    monkeypatch.setattr(by_order, "CHUNK_BITS", request.param)
    monkeypatch.setattr(by_order, "MIN_RADIX_ROWS", 8)


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


@needs_compiler
@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge("gap")], ids=str)
@pytest.mark.parametrize("bits", [1, 4])
def test_many_chunks_on_a_gpu(loss, bits, monkeypatch):
    """A side has more chunks than threads that carry moments."""
    monkeypatch.setattr(by_order, "CHUNK_BITS", bits)
    judgments, rng = lists(1, 3, weighted=True, sizes=(1500, 40))
    assert_same(judgments, rng.normal(size=len(judgments)), loss)
