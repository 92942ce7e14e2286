"""Logistic risk by cells of the score axis, compared with all pairs; a line search on points."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import naive
import strategies as some
from emulated_device import needs_compiler
from precede import Judgments, PairRisk
from precede.risks import by_cell
from precede.risks.base import State
from precede.risks.by_cell import ChebyshevLine, _plan
from precede.risks.line_search import line_search
from risks.test_long_lists import all_pairs, assert_same, lists, state_of


@pytest.fixture
def all_by_cells(monkeypatch):
    """Enumerate no graded pair, however short the query."""
    monkeypatch.setattr(by_cell, "PAIRS_PER_ROW", 0)
    monkeypatch.setattr(by_cell, "PAIRS_PER_SIDE", 0)


@pytest.mark.parametrize("groups", ["two", "many"])
@pytest.mark.parametrize("threads", ["between nodes", "inside nodes"])
def test_sums_by_cells_equal_enumeration(groups, threads, all_by_cells, monkeypatch):
    """All kinds of judgments, compared with decimal arithmetic; two groups, or one per grade."""
    monkeypatch.setattr(by_cell, "ROWS_PER_GROUP", 1 if groups == "many" else 2048)
    monkeypatch.setattr(by_cell, "MIN_SHARED_ROWS", 1 if threads == "inside nodes" else 1 << 16)

    @given(some.judgments(), st.data())
    @settings(max_examples=60)
    def check(made, data):
        balance = data.draw(st.sampled_from(["pairs", "queries"]))
        spread = data.draw(st.sampled_from([1.0, 8.0, 64.0, 2000.0]))
        scores = data.draw(some.scores(len(made), spread=spread))
        twin, price = some.LOSSES["logistic"][1], naive.power_price(1)
        expected = naive.risk(made, scores, twin, price, balance=balance)
        if expected.mass < naive.Decimal("1e-290"):
            return
        value, mass, pull, hessian = state_of(made, scores, "logistic", jobs=2, balance=balance)
        assert_allclose([value, mass], [float(expected.value), float(expected.mass)], rtol=1e-12)
        assert_allclose(pull, [float(p) for p in expected.pull], rtol=0, atol=1e-12 * mass)
        wanted = [float(c) for c in expected.curvature]
        assert_allclose(hessian, wanted, rtol=1e-12, atol=1e-13 * mass)

    check()


@pytest.mark.parametrize("spread", [0.0, 0.1, 1.0, 5.0, 40.0, 300.0, 1e3, 1e5, 1e300])
@pytest.mark.parametrize("levels", [2, 3, 7])
def test_every_row_of_a_long_list_keeps_its_digits(levels, spread, all_by_cells):
    """Relative errors are small also for rows far from all others, with sums of 1e-200."""
    rng = np.random.default_rng(levels)
    n = 1200
    grade = rng.integers(0, levels, n).astype(float)
    weight = rng.choice([1e-3, 0.5, 1.0, 3.0], n)
    scores = spread * rng.standard_normal(n)
    value, mass, pull, hessian = state_of(Judgments(grade, weight=weight), scores, "logistic")
    expected, won, lost, hessians = all_pairs("logistic", grade, weight, scores)
    assert_allclose(value, expected, rtol=1e-12)
    assert_allclose(mass, won.sum(), rtol=1e-12)
    larger = np.maximum(won, lost)
    usual = larger > 1e-280
    short = (pull - (won - lost))[usual] / larger[usual]
    assert_allclose(short, 0.0, atol=2e-13)
    usual = hessians > 1e-280
    assert_allclose(hessian[usual], hessians[usual], rtol=2e-13)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("apart", [2.0, 3.0, 20.0, 36.5, 40.0, 300.0])
def test_classes_far_apart_keep_the_digits_of_their_losses(apart, sign, all_by_cells):
    """In order all sums are about exp(-m); reversed only the curvature is, and the value -m."""
    rng = np.random.default_rng(0)
    grade = np.repeat([0.0, 1.0], 300)
    scores = sign * apart * grade + 0.3 * rng.standard_normal(600)
    found = state_of(Judgments(grade), scores, "logistic")
    value, won, lost, hessians = all_pairs("logistic", grade, np.ones(600), scores)
    for ours, theirs in zip(found, (value, won.sum(), won - lost, hessians), strict=True):
        assert_allclose(ours, theirs, rtol=1e-13)


@given(st.data())
@settings(max_examples=60)
def test_every_pair_is_in_one_node_or_range(data):
    sizes = data.draw(st.lists(st.integers(1, 400), min_size=2, max_size=40))
    levels = np.repeat(np.arange(len(sizes)), sizes)
    qid = (levels >= data.draw(st.integers(1, len(sizes)))).astype(int)
    layout = Judgments(levels.astype(float), qid).to_layout()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(by_cell, "PAIRS_PER_SIDE", data.draw(st.sampled_from([0, 100, 10_000])))
        patch.setattr(by_cell, "ROWS_PER_GROUP", data.draw(st.sampled_from([10, 300, 2048])))
        level_ranges, depths = _plan(layout)
    start = layout.level_start
    count = sum(_count(start[bottom : top + 1]) for bottom, top in level_ranges)
    for nodes in depths:
        ends = zip(nodes.start, nodes.start[1:], strict=False)
        bounds = [nodes.bounds[first:last] for first, last in ends]
        count += sum(_count(each) for each in bounds)
        rows = np.concatenate([np.arange(each[0], each[-1]) for each in bounds])
        assert np.unique(rows).size == rows.size  # nodes of one depth share no row
    assert count == layout.count_graded_pairs()


def _count(bounds):
    return int((np.diff(bounds) * (bounds[:-1] - bounds[0])).sum())


def test_a_node_has_the_same_bits_whether_threads_share_it_or_not(monkeypatch):
    rng = np.random.default_rng(0)
    made = Judgments(rng.integers(0, 3, 40_000))
    scores = 3 * rng.standard_normal(40_000)
    monkeypatch.setattr(by_cell, "MIN_SHARED_ROWS", 1)
    shared = state_of(made, scores, "logistic", jobs=2)
    monkeypatch.setattr(by_cell, "MIN_SHARED_ROWS", 1 << 20)
    for ours, theirs in zip(state_of(made, scores, "logistic", jobs=2), shared, strict=True):
        assert_array_equal(ours, theirs)


@pytest.mark.parametrize("jobs", [1, 2])
def test_many_grades_and_scores_far_apart_take_bounded_memory(jobs, monkeypatch):
    """With this many cells for 19 groups the node is halved recursively."""
    rng = np.random.default_rng(4)
    n = 40_000
    grade = rng.integers(0, 19, n).astype(float)
    scores = 1e6 * rng.random(n)
    monkeypatch.setattr(by_cell, "MIN_SHARED_ROWS", 1 if jobs == 2 else 1 << 16)
    _, _, pull, hessian = state_of(Judgments(grade), scores, "logistic", jobs=jobs)
    some_rows = np.arange(0, n, 400)
    margin = scores[some_rows][:, None] - scores[None, :]
    above = grade[some_rows][:, None] > grade[None, :]
    below = grade[some_rows][:, None] < grade[None, :]
    won = (above * np.exp(-np.logaddexp(0, margin))).sum(axis=1)
    lost = (below * np.exp(-np.logaddexp(0, -margin))).sum(axis=1)
    curve = np.exp(-np.logaddexp(0, margin) - np.logaddexp(0, -margin))
    assert_allclose(pull[some_rows], won - lost, rtol=0, atol=1e-13 * n)
    assert_allclose(
        hessian[some_rows], ((above | below) * curve).sum(axis=1), rtol=1e-12, atol=1e-280
    )


def test_equal_scores_and_one_class():
    """All margins are 0; a list with one class has no pair."""
    n = 3000
    grade = np.arange(n) % 3 == 0
    pairs = 1000 * 2000
    value, mass, pull, hessian = state_of(
        Judgments(grade.astype(float)), np.full(n, -7.3), "logistic"
    )
    assert_allclose([value, mass], [pairs * np.log(2), pairs / 2], rtol=1e-13)
    assert_allclose(pull, np.where(grade, 1000.0, -500.0), rtol=1e-13)
    assert_allclose(hessian, np.where(grade, 500.0, 250.0), rtol=1e-13)
    bound = PairRisk("logistic").bind(Judgments(np.ones(n)))
    assert bound.state(np.zeros(0)).log_gradient_sum == -np.inf


def test_edge_weights_on_a_long_list():
    rng = np.random.default_rng(3)
    grade = rng.integers(0, 3, 1500).astype(float)
    scores, values = rng.standard_normal(1500), rng.integers(0, 2, 1500)
    found = PairRisk("logistic").edge_weights(Judgments(grade), scores, values)
    margin = scores[:, None] - scores[None, :]
    mass = (grade[:, None] > grade[None, :]) / (1 + np.exp(margin))
    ahead = values[:, None] - values[None, :]
    expected = [mass[ahead == a].sum() / mass.sum() for a in (1, -1, 0)]
    assert_allclose([found.correct, found.wrong, found.tied], expected, rtol=1e-10)


# -- on a GPU ---------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("far", [100.0, 5000.0])
def test_scores_far_apart(far):
    """Only lists with gaps between their cells are summed on the CPU."""
    judgments, rng = lists(4, 4)
    scores = rng.normal(size=len(judgments))
    scores[3] = -far
    device = assert_same(judgments, scores, "logistic")
    assert "local_to_rows" in device.launched


@needs_compiler
def test_no_list_for_the_device():
    judgments, rng = lists(6, 3, sizes=(800, 700))
    device = assert_same(judgments, 1e5 * rng.normal(size=len(judgments)), "logistic")
    assert "local_to_rows" not in device.launched


@needs_compiler
def test_one_list_of_several_blocks():
    rng = np.random.default_rng(0)
    judgments = Judgments(rng.random(50_000) < 0.4)
    assert_same(judgments, rng.normal(size=50_000), "logistic")


# -- line search on points ---------------------------------------------------------------------


def many_rows(levels, weighted, rows=30_000):
    rng = np.random.default_rng(levels)
    scores = rng.normal(0, 1.5, rows)
    grade = np.digitize(scores + rng.normal(0, 2, rows), [0.5, 1.5, 3.0][: levels - 1])
    weight = rng.uniform(0.1, 3, rows) if weighted else None
    values = (0.5 * scores + rng.normal(0, 1, rows) > 0).astype(np.uint8)
    return Judgments(grade, weight=weight), scores, values


@pytest.mark.parametrize("levels", [2, 4])
@pytest.mark.parametrize("power", [1, 4, 16])
@pytest.mark.parametrize(
    ("weighted", "balance"), [(False, "pairs"), (True, "pairs"), (True, "items")]
)
def test_the_step_on_points_is_that_on_rows(levels, power, weighted, balance):
    made, scores, values = many_rows(levels, weighted)
    bound = PairRisk("logistic", power, balance=balance).bind(made)
    order = bound.layout.order
    state, at = bound.state(scores[order]), values[order]
    assert ChebyshevLine.applies(bound, state.scores)
    step = ChebyshevLine(bound, state.scores, at).minimize()
    expected, smoothed = line_search(bound, state, at)
    assert not smoothed
    assert step == pytest.approx(expected, abs=1e-9)


def test_points_apply_to_one_large_query_and_smooth_losses_only():
    made, scores, _ = many_rows(2, False, rows=12_000)
    several = Judgments(made.grade, qid=np.arange(12_000) % 3)
    listed = Judgments(made.grade, pairs=[(0, 1)])
    for loss, price, judged, fits in [
        ("logistic", 4, made, True),
        ("logistic", "exp", made, False),
        ("logistic", 1e6, made, False),
        ("hinge", 4, made, False),
        ("logistic", 4, several, False),
        ("logistic", 4, listed, False),
    ]:
        bound = PairRisk(loss, price).bind(judged)
        state = State(scores[bound.layout.order], 0.0, 0.0, scores)
        assert ChebyshevLine.applies(bound, state.scores) == fits, (loss, price)


def test_no_reversed_pair_no_minimum_on_points():
    """The weak ranker is 1 for some winners and no loser: the minimum is at infinity."""
    made, scores, _ = many_rows(2, False)
    bound = PairRisk("logistic", 1).bind(made)
    order = bound.layout.order
    values = ((made.grade == 1) & (scores > 0)).astype(np.uint8)[order]
    state = bound.state(scores[order])
    step = ChebyshevLine(bound, state.scores, values).minimize()
    assert step is None
