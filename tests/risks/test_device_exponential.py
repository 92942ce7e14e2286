"""The exponential risk on an emulated device: equal bits to the CPU."""

import numpy as np
import pytest

from emulated_device import EmulatedDevice, needs_compiler
from precede import Judgments, PairRisk
from precede.engine.execution import Context
from precede.risks import device_exponential

pytestmark = needs_compiler


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
    np.testing.assert_array_equal(gpu.pull.get(), cpu.pull)
    for name in ("terms", "levels", "words", "extremes"):
        one, other = getattr(cpu.cache, name), getattr(gpu.cache, name)
        np.testing.assert_array_equal(other.get(), one, err_msg=name)
    np.testing.assert_array_equal(risk.curvature(gpu).get(), risk.curvature(cpu))
    for kind in ("newton", "bound", "uniform"):
        weights = risk.pull_of(cpu).hessian(kind), risk.pull_of(gpu).hessian(kind)
        np.testing.assert_array_equal(weights[1].get(), weights[0])
    assert risk.edge_weights(cpu, values) == risk.edge_weights(gpu, device.put(values))
    np.testing.assert_array_equal(
        risk.sums_where_one(cpu, values), risk.sums_where_one(gpu, device.put(values))
    )
    assert risk.exact_step(cpu, values) == risk.exact_step(gpu, device.put(values))


@pytest.mark.parametrize("price", [1, 4, 2.5])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("spread", [0.0, 1.0, 40.0, 700.0])
def test_queries(price, weighted, spread):
    judgments, rng = problem(int(spread), weighted=weighted)
    risk = bound(judgments, price)
    scores = spread * rng.normal(size=risk.layout.n_used_rows)
    assert_same(risk, scores, rng.integers(0, 2, scores.size).astype(np.uint8))


@pytest.mark.parametrize("price", [1, 3])
@pytest.mark.parametrize("grades", [2, 5, 60])
def test_one_list_cut_into_chunks(monkeypatch, price, grades):
    monkeypatch.setattr(device_exponential, "MAX_ROWS_PER_CHUNK", 40)
    judgments, rng = problem(grades, queries=0, grades=grades, rows=700)
    risk = bound(judgments, price)
    scores = rng.normal(size=risk.layout.n_used_rows)
    assert_same(risk, scores, (rng.random(scores.size) < 0.3).astype(np.uint8))


@pytest.mark.parametrize("price", [1, 4])
@pytest.mark.parametrize("balance", ["queries", "items"])
def test_balances(balance, price):
    judgments, rng = problem(3, weighted=True)
    risk = bound(judgments, price, balance=balance)
    scores = rng.normal(size=risk.layout.n_used_rows)
    assert_same(risk, scores, rng.integers(0, 2, scores.size).astype(np.uint8))


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


def test_other_values_are_searched_on_the_cpu():
    judgments, rng = problem(5)
    risk = bound(judgments)
    scores, values = rng.normal(size=(2, risk.layout.n_used_rows))
    device = risk.context.device
    cpu, gpu = risk.state(scores), risk.state(device.put(scores))
    assert risk.exact_step(cpu, values) == risk.exact_step(gpu, device.put(values))
    assert risk.least_margin(values) == risk.least_margin(device.put(values))


def test_explicit_pairs_and_many_levels_stay_on_the_cpu(monkeypatch):
    assert not bound(Judgments(pairs=[(0, 1), (1, 2)], n=3)).backend.is_gpu
    monkeypatch.setattr(device_exponential, "MAX_LEVELS_PER_QUERY", 3)
    assert not bound(problem(6)[0]).backend.is_gpu
