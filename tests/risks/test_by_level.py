"""The exponential risk by level: in linear time, along a line, and on a GPU."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import naive
import strategies as some
from emulated_device import EmulatedDevice, needs_compiler
from precede import Judgments, PairRisk
from precede.engine.execution import Context
from precede.judgments import number_queries
from precede.risks import by_level
from precede.risks.by_level import LevelChunks, SeparableRisk
from precede.risks.line_search import line_search
from risks.test_pair_risk import assert_same_state, at, situations


@pytest.mark.parametrize("kind", some.KINDS)
@given(st.data())
@settings(max_examples=40)
def test_exponential_risk_of_every_kind_of_judgments(kind, data):
    made, scores, balance = data.draw(situations("1", kind))
    bound, state, expected = at(made, scores, balance, "exponential", "1")
    assert isinstance(bound, SeparableRisk)
    assert_same_state(bound, state, expected, 1e-12)


@given(situations("1"), st.sampled_from(["text", "numbers", "reversed"]))
def test_renaming_queries_changes_no_bit_of_the_exponential_risk(situation, how):
    """Queries are summed in the order of their names; the sums do not depend on it."""
    made, scores, balance = situation
    if made.qid is None:
        return
    number = number_queries(made.qid)[0]
    names = {
        "text": np.array([f"{(q * 7919) % 101:03d}" for q in number]),
        "numbers": 1000 - 3 * number,
        "reversed": -number,
    }[how]
    renamed = made._with(qid=names)
    risk = PairRisk("exponential", balance=balance)
    assert risk.value(renamed, scores) == risk.value(made, scores)
    assert_array_equal(risk.pull(renamed, scores), risk.pull(made, scores))


def test_a_loser_whose_winners_have_no_weight_adds_no_risk():
    """exp(0) is 1, but a loser without a winner is not a term of the risk."""
    made = Judgments([1, 0, 1, 0], qid=[0, 0, 1, 1], weight=[0, 1, 1, 1])
    assert PairRisk("exponential", "exp").value(made, np.zeros(4)) == pytest.approx(math.e)


# -- chunks -----------------------------------------------------------------------------------


def test_chunks_cover_every_level_in_order():
    layout = Judgments([0] * 7 + [1] * 2 + [2] * 3).to_layout()
    chunks = LevelChunks.cut(layout, 3)
    assert chunks.start.tolist() == [0, 3, 6, 7, 9, 12]
    assert chunks.level.tolist() == [0, 0, 0, 1, 2]
    assert chunks.first.tolist() == [0, 3, 4, 5]
    assert (chunks.count, chunks.single) == (5, False)
    sums = np.add.reduceat(np.arange(12), chunks.start[:-1])[:, None]
    assert chunks.by_level(np.add, sums, 0).ravel().tolist() == [21, 15, 30]


def test_short_levels_are_one_chunk_each():
    chunks = LevelChunks.cut(Judgments([0, 1, 1, 2]).to_layout())
    assert chunks.single
    by_chunk = np.arange(3)[:, None]
    assert chunks.by_level(np.add, by_chunk, 0) is by_chunk


# -- along a line -----------------------------------------------------------------------------


@st.composite
def lines(draw):
    """Judgments without explicit pairs, scores, a 0/1 ranker with a finite minimum, a power."""
    made = draw(some.judgments(kind=draw(st.sampled_from(["bipartite", "graded"]))))
    n = len(made)
    values = np.array(draw(st.lists(st.sampled_from([0, 1]), min_size=n, max_size=n)), np.uint8)
    kinds = {int(values[p.winner]) - int(values[p.loser]) for p in naive.list_pairs(made)}
    assume({1, -1} <= kinds)
    power = draw(st.sampled_from([2, 4, 16, 64]))
    return made, draw(some.scores(n, spread=4.0)), values, power


def step_of(made, scores, values, power, balance="pairs"):
    bound = PairRisk("exponential", power, balance=balance).bind(made)
    order = bound.layout.order
    state, at = bound.state(np.asarray(scores)[order]), values[order]
    step, smoothed = bound.exact_step(state, at) or line_search(bound, state, at)
    assert not smoothed
    return bound, state, at, step


@given(lines(), st.sampled_from(["pairs", "queries"]))
def test_the_step_minimizes_the_risk_along_the_line(situation, balance):
    made, scores, values, power = situation
    bound, state, at, step = step_of(made, scores, values, power, balance)
    here = bound.log_value(state.scores + step * at)
    for other in (step - 1e-4, step + 1e-4, 0.0):
        assert here <= bound.log_value(state.scores + other * at) + 1e-13
    after = bound.state(state.scores + step * at)
    assert abs(bound.edge(after, at)) < 1e-11


@given(st.data())
def test_with_two_classes_the_step_is_in_closed_form(data):
    n = data.draw(st.integers(4, 12))
    y = np.array(
        [1, 1, 0, 0, *data.draw(st.lists(st.integers(0, 1), min_size=n - 4, max_size=n - 4))]
    )
    scores = np.array(data.draw(some.scores(n, spread=2.0)))
    values = np.array(
        [1, 0, 1, 0, *data.draw(st.lists(st.integers(0, 1), min_size=n - 4, max_size=n - 4))],
        np.uint8,
    )
    power = data.draw(st.sampled_from([1.5, 2, 8, 64, 1000]))
    step = step_of(Judgments.bipartite(y), scores, values, power)[3]
    A = [np.logaddexp.reduce(-scores[(y == 1) & (values == h)]) for h in (0, 1)]
    B = [np.logaddexp.reduce(power * scores[(y == 0) & (values == h)]) for h in (0, 1)]
    assert step == pytest.approx((A[1] + B[0] - A[0] - B[1]) / (power + 1), rel=1e-12, abs=1e-13)


def test_a_tiny_sum_is_not_taken_for_an_empty_one():
    """At p = 1000 a loser 2 below the top has a term of exp(-2000)."""
    y, scores = np.array([1, 1, 0, 0]), np.array([1.0, 0.0, 2.0, 0.0])
    values = np.array([1, 0, 0, 1], np.uint8)
    step = step_of(Judgments.bipartite(y), scores, values, 1000)[3]
    assert step == pytest.approx((-1.0 + 2000.0 - 0.0 - 0.0) / 1001, rel=1e-12)


# -- on a GPU ---------------------------------------------------------------------------------


def problem(seed, *, queries=7, grades=4, rows=150, weighted=False):
    rng = np.random.default_rng(seed)
    qid = rng.integers(0, queries, rows) if queries else None
    weight = rng.choice([0.5, 1.0, 3.0, 1e-9], rows) if weighted else None
    return Judgments(rng.integers(0, grades, rows), qid, weight=weight), rng


def bound(judgments, price=1, balance="pairs"):
    risk = PairRisk("exponential", price, balance=balance)
    return risk.bind(judgments.to_layout(balance), Context(1, EmulatedDevice()))


def assert_same(risk, scores, values):
    device = risk.context.device
    assert risk.backend.is_gpu
    cpu, gpu = risk.state(scores), risk.state(device.put(scores))
    assert device.holds(gpu.pull)
    assert (cpu.log_value, cpu.log_gradient_sum) == (gpu.log_value, gpu.log_gradient_sum)
    assert risk.log_value(device.put(scores)) == cpu.log_value
    assert_array_equal(gpu.pull.get(), cpu.pull)
    for name in ("terms", "levels", "words", "extremes"):
        one, other = getattr(cpu.cache, name), getattr(gpu.cache, name)
        assert_array_equal(other.get(), one, err_msg=name)
    assert_array_equal(risk.curvature(gpu).get(), risk.curvature(cpu))
    for kind in ("newton", "bound", "uniform"):
        weights = risk.pull_of(cpu).hessian(kind), risk.pull_of(gpu).hessian(kind)
        assert_array_equal(weights[1].get(), weights[0])
    assert risk.edge_weights(cpu, values) == risk.edge_weights(gpu, device.put(values))
    assert risk.exact_step(cpu, values) == risk.exact_step(gpu, device.put(values))


@needs_compiler
@pytest.mark.parametrize("price", [1, 4, 2.5])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("spread", [0.0, 1.0, 40.0, 700.0])
def test_queries(price, weighted, spread):
    judgments, rng = problem(int(spread), weighted=weighted)
    risk = bound(judgments, price)
    scores = spread * rng.normal(size=risk.layout.n_used_rows)
    assert_same(risk, scores, rng.integers(0, 2, scores.size).astype(np.uint8))


@needs_compiler
@pytest.mark.parametrize("price", [1, 3])
@pytest.mark.parametrize("grades", [2, 5, 60])
def test_one_list_cut_into_chunks(monkeypatch, price, grades):
    monkeypatch.setattr(by_level, "GPU_CHUNK_ROWS", 40)
    judgments, rng = problem(grades, queries=0, grades=grades, rows=700)
    risk = bound(judgments, price)
    scores = rng.normal(size=risk.layout.n_used_rows)
    assert_same(risk, scores, (rng.random(scores.size) < 0.3).astype(np.uint8))


@needs_compiler
@pytest.mark.parametrize("price", [1, 4])
@pytest.mark.parametrize("balance", ["queries", "items"])
def test_balances(balance, price):
    judgments, rng = problem(3, weighted=True)
    risk = bound(judgments, price, balance=balance)
    scores = rng.normal(size=risk.layout.n_used_rows)
    assert_same(risk, scores, rng.integers(0, 2, scores.size).astype(np.uint8))


@needs_compiler
@pytest.mark.parametrize("price", [1, 4])
def test_weak_rankers_without_wrong_pairs_or_with_tiny_sums(price):
    """Smoothed steps, and sums of terms of very different magnitude."""
    judgments, _ = problem(4, queries=3, grades=2)
    risk = bound(judgments, price)
    good = (risk.layout.grade > 0).astype(np.uint8)
    assert_same(risk, np.zeros(good.size), good)
    assert_same(risk, 12.0 * good, 1 - good)
    mixed = good.copy()
    mixed[np.flatnonzero(good)[0]] = 0
    assert_same(risk, 30.0 * good, mixed)


@needs_compiler
def test_other_values_are_searched_on_the_cpu():
    judgments, rng = problem(5)
    risk = bound(judgments)
    scores, values = rng.normal(size=(2, risk.layout.n_used_rows))
    device = risk.context.device
    cpu, gpu = risk.state(scores), risk.state(device.put(scores))
    assert risk.exact_step(cpu, values) == risk.exact_step(gpu, device.put(values))
    assert risk.terms.least_margin(values) == risk.terms.least_margin(device.put(values))


@needs_compiler
def test_explicit_pairs_and_many_levels_stay_on_the_cpu(monkeypatch):
    assert not bound(Judgments(pairs=[(0, 1), (1, 2)], n=3)).backend.is_gpu
    monkeypatch.setattr(by_level, "MAX_LEVELS_PER_QUERY", 3)
    assert not bound(problem(6)[0]).backend.is_gpu
