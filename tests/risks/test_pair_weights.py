"""Pair weights of RankBoost+."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import naive
import naive_algorithms
import strategies as some
from algorithms.test_rankboost_plus import prepared
from emulated_device import EmulatedDevice, needs_compiler
from precede import Judgments, RankBoostPlus
from precede.engine.backend import BACKENDS
from precede.engine.execution import Context
from precede.risks import pair_weights
from precede.risks.pair_weights import PairWeights


@given(st.data())
@settings(max_examples=25)
def test_weights_ties_and_pull_are_those_of_all_pairs(data):
    X, made = data.draw(some.problems(most=10))
    balance = data.draw(st.sampled_from(["pairs", "queries"]))
    training = prepared(X, made, balance)
    order, pairs = training.layout.order, naive.list_pairs(made)
    weights = PairWeights(training.layout, training.context)
    mass = naive_algorithms.pair_mass(made, balance)
    n, rng = len(made), np.random.default_rng(data.draw(st.integers(0, 1000)))
    weak_rankers = [rng.integers(0, 2, n) for _ in range(11)]
    columns = [naive_algorithms.over_pairs(made, r) for r in weak_rankers]
    eta = np.zeros(11)
    for j, step in ((0, 0.3), (1, -0.7), (0, 0.4), (2, 2.0), (1, 1.1)):
        weights.advance(weak_rankers[j][order].astype(np.uint8), before=eta[j], step=step)
        eta[j] += step
    exact = mass * np.exp(naive_algorithms._exponents(columns, eta, mass.size))
    assert weights.log_risk == pytest.approx(math.log(math.fsum(exact)), abs=1e-12)
    exact /= math.fsum(exact)
    expected = [exact[column == 0].sum() for column in columns]
    assert_allclose(
        weights.ties([r[order].astype(np.uint8) for r in weak_rankers]), expected, atol=1e-13
    )
    assert weights.tied == pytest.approx(expected[1], abs=1e-13)
    pull = np.zeros(n)
    np.add.at(pull, [p.winner for p in pairs], exact)
    np.subtract.at(pull, [p.loser for p in pairs], exact)
    assert_allclose(weights.pull, pull[order], atol=1e-13)
    direction = rng.standard_normal(11)
    bytes_ = [r[order].astype(np.uint8) for r in weak_rankers]
    value, slope = weights.along(bytes_, eta, direction, 0.4)
    before = naive_algorithms.f2(columns, eta, mass)
    assert value == pytest.approx(
        naive_algorithms.f2(columns, eta + 0.4 * direction, mass) / before
    )
    gradient = naive_algorithms.f2_gradient(columns, eta + 0.4 * direction, mass)
    assert slope == pytest.approx(gradient @ direction / before, abs=1e-9)


def test_a_large_step_does_not_overflow_the_sums_of_listed_pairs():
    """Both pairs are ordered wrongly: their weights grow by exp(3) before they are shared."""
    made = Judgments.preferences([0, 0], [1, 2])
    training = prepared(np.array([[0.0], [1.0], [1.0]]), made)
    weights = PairWeights(training.layout, training.context)
    order = training.layout.order
    weights.advance(np.array([0, 1, 1], np.uint8)[order], before=0.0, step=3.0)
    assert_allclose(weights.pull, np.array([1.0, -0.5, -0.5])[order], atol=1e-15)


# -- on a GPU -----------------------------------------------------------------------------------


def judged(seed, rows=260, grades=4, queries=5, weighted=False):
    rng = np.random.default_rng(seed)
    qid = rng.integers(0, queries, rows) if queries else None
    weight = rng.exponential(size=rows) if weighted else None
    return Judgments(rng.integers(0, grades, rows), qid, weight=weight)


@needs_compiler
@pytest.mark.parametrize("limit", [None, 0])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"queries": 40, "weighted": True},
        {"queries": 0, "grades": 2},
        {"queries": 0, "grades": 50, "rows": 150},
        {"rows": 12, "queries": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize("piece", [200, 1 << 18])
def test_sums_on_a_gpu_have_the_same_bits(monkeypatch, limit, given, piece):
    monkeypatch.setattr(pair_weights, "MAX_PAIRS_PER_CHUNK", piece)
    layout = judged(1, **given).to_layout("queries")
    device, rng = EmulatedDevice(), np.random.default_rng(2)
    here = PairWeights(layout, Context(1))
    there = PairWeights(layout, Context(1, device), limit)
    weak_rankers = rng.integers(0, 2, (11, layout.n_used_rows)).astype(np.uint8)
    for step in range(70 if len(weak_rankers[0]) < 20 else 5):  # more than a word has bits
        np.testing.assert_array_equal(there.pull.get(), here.pull)
        assert (here.log_risk, here.tied) == (there.log_risk, there.tied)
        values, before = weak_rankers[step % 3], 0.1 * (step // 3)
        here.advance(values, before=before, step=0.1)
        there.advance(device.put(values), before=before, step=0.1)
    found = there.ties([device.put(each) for each in weak_rankers])
    np.testing.assert_array_equal(found, here.ties(list(weak_rankers)))


@needs_compiler
def test_what_does_not_fit_is_refused():
    context = Context(1, EmulatedDevice(free=1000))
    with pytest.raises(ValueError, match=r"weights of .* pairs would take"):
        PairWeights(judged(3).to_layout("pairs"), context)


@pytest.fixture
def device(monkeypatch):
    device = EmulatedDevice()
    monkeypatch.setitem(BACKENDS, "cuda", lambda _: device)
    return device


def problem(rows=240, features=4):
    rng = np.random.default_rng(5)
    X = rng.integers(0, 6, (rows, features)).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.digitize(np.nan_to_num(X[:, 0] + X[:, 1]) + rng.normal(size=rows), [3, 5, 7])
    return X, y, rng.integers(0, 8, rows)


@needs_compiler
@pytest.mark.parametrize("limit", ["auto", None, 1000])
@pytest.mark.parametrize("queries", [True, False])
def test_models_are_equal_to_the_bit(device, limit, queries):
    X, y, qid = problem()
    given = {"n_estimators": 25, "learning_rate": 0.8}
    qid = qid if queries else None
    here = RankBoostPlus(**given).fit(X, y, qid=qid)
    there = RankBoostPlus(**given, memory_limit=limit, device="cuda").fit(X, y, qid=qid)
    assert here.ensemble_.to_dict() == there.ensemble_.to_dict()
    for column in ("risk", "log_risk", "e1", "edge", "step", "bound", "weak_rankers", "perfect"):
        np.testing.assert_array_equal(here.history_[column], there.history_[column])
    assert {"multiply_and_sum", "tied_weights", "stump_fill"} <= {*device.launched}


@needs_compiler
@pytest.mark.usefixtures("device")
def test_warm_starts_and_columns():
    X, y, qid = problem()
    models = []
    for name in ("cpu", "cuda"):
        model = RankBoostPlus(n_estimators=4, warm_start=True, device=name, weak_rankers="columns")
        binary = (np.nan_to_num(X) > 2).astype(float)
        model.fit(binary, y, qid=qid)
        models.append(model.set_params(n_estimators=7).fit(binary, y, qid=qid))
    assert models[0].ensemble_.to_dict() == models[1].ensemble_.to_dict()


@needs_compiler
@pytest.mark.usefixtures("device")
def test_the_optimal_search_is_refused():
    with pytest.raises(ValueError, match="needs device='cpu'"):
        RankBoostPlus(search="optimal", device="cuda").fit(*problem()[:2])


@needs_compiler
@pytest.mark.usefixtures("device")
def test_listed_pairs_are_refused():
    with pytest.raises(ValueError, match="listed pairs are weighed on the CPU"):
        RankBoostPlus(device="cuda").fit(problem()[0], pairs=[(0, 1), (2, 3)])
