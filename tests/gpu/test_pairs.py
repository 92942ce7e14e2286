"""Pulls on a device beside those of the CPU: the same bits."""

import numpy as np
import pytest

from precede import Hinge, Judgments, PairRisk, RankWeight, SquaredHinge
from precede.engine.execution import Context

GAPS = [Hinge("gap"), SquaredHinge("gap")]
LOSSES = pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge", *GAPS], ids=str)


def problem(seed, queries=40, *, longest=60, weighted=False, grades=5):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, min(longest, 130), queries)
    sizes[:3] = longest  # beyond some hundred rows by cells or by sweeps
    qid = np.repeat(np.arange(queries), sizes)
    y = rng.integers(0, grades, qid.size)
    weight = rng.choice([0.5, 1.0, 3.0, 0.1], qid.size) if weighted else None
    return Judgments(y, qid, weight=weight), rng


def states(judgments, loss, scores, device, balance="pairs", rank_weight=None):
    layout = judgments.to_layout(balance)
    at = scores[layout.order]
    risk = PairRisk(loss, balance=balance, rank_weight=rank_weight)
    here = risk.bind(layout).state(at)
    bound = risk.bind(layout, Context(1, device))
    assert bound.backend.is_gpu
    return here, bound.state(device.put(at))


@LOSSES
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("spread", [0.0, 1.0, 10.0, 60.0, 500.0])
@pytest.mark.parametrize("longest", [8, 130, 700])
def test_states_are_equal_to_the_bit(device, loss, weighted, spread, longest):
    judgments, rng = problem(3, 60, longest=longest, weighted=weighted)
    scores = spread * rng.normal(size=len(judgments))
    here, there = states(judgments, loss, scores, device)
    assert (here.log_value, here.log_gradient_sum) == (there.log_value, there.log_gradient_sum)
    np.testing.assert_array_equal(device.get(there.pull), here.pull)
    np.testing.assert_array_equal(device.get(there.cache), here.cache)


def test_pairs_far_in_order(device):
    """Their losses are sums of logarithms of numbers close to 1."""
    judgments, rng = problem(5)
    scores = 25.0 * np.asarray(judgments.grade) + rng.normal(size=len(judgments))
    scores *= 70 / np.ptp(scores)
    here, there = states(judgments, "logistic", scores, device)
    assert here.log_value == there.log_value
    np.testing.assert_array_equal(device.get(there.pull), here.pull)


def test_a_list_with_many_losers_and_few_winners(device):
    rng = np.random.default_rng(0)
    y = np.zeros(6000)
    y[:2] = 1
    here, there = states(Judgments(y), "logistic", rng.normal(size=6000), device)
    assert here.log_value == there.log_value
    np.testing.assert_array_equal(device.get(there.pull), here.pull)


@LOSSES
@pytest.mark.parametrize("balance", ["pairs", "queries", "items"])
def test_balances(device, loss, balance):
    judgments, rng = problem(7, longest=900, weighted=True)
    here, there = states(judgments, loss, rng.normal(size=len(judgments)), device, balance)
    assert here.log_value == there.log_value
    np.testing.assert_array_equal(device.get(there.cache), here.cache)


@LOSSES
@pytest.mark.parametrize("spread", [0.0, 1.0, 20.0])
@pytest.mark.parametrize(
    ("rows", "grades"), [(3_000, 2), (200_000, 2), (200_000, 5), (200_000, 90)]
)
def test_one_list(device, loss, rows, grades, spread):
    """By cells or by sweeps: many blocks of rows, groups of grades, and groups within them."""
    rng = np.random.default_rng(rows + grades)
    judgments = Judgments(rng.integers(0, grades, rows))
    scores = np.round(spread * rng.normal(size=rows), 3)  # with ties, and -0
    here, there = states(judgments, loss, scores, device)
    assert (here.log_value, here.log_gradient_sum) == (there.log_value, there.log_gradient_sum)
    np.testing.assert_array_equal(device.get(there.pull), here.pull)
    np.testing.assert_array_equal(device.get(there.cache), here.cache)


def test_blocks_of_rows_grow_with_the_cells(device):
    rng = np.random.default_rng(0)
    rows = 4_000_000
    scores = rng.uniform(0.0, 900.0, rows)
    here, there = states(Judgments(rng.integers(0, 2, rows)), "logistic", scores, device)
    assert here.log_value == there.log_value
    np.testing.assert_array_equal(device.get(there.pull), here.pull)


@pytest.mark.parametrize("loss", ["exponential", "logistic", "hinge", "squared_hinge"])
@pytest.mark.parametrize(
    "rank_weight",
    ["ndcg@10", RankWeight(k=4, blend=0.3), RankWeight(k=4, floor=0.3), "ndcg", "gap"],
)
@pytest.mark.parametrize("balance", ["items", "pairs"])
@pytest.mark.parametrize("spread", [0.0, 1.0, 500.0])
@pytest.mark.parametrize(("longest", "grades"), [(300, 5), (8000, 14)])
def test_weights_by_rank(device, loss, rank_weight, balance, spread, longest, grades):
    judgments, rng = problem(8, 200, longest=longest, weighted=longest == 300, grades=grades)
    scores = np.round(spread * rng.normal(size=len(judgments)), 1)
    here, there = states(judgments, loss, scores, device, balance, rank_weight)
    assert (here.log_value, here.log_gradient_sum) == (there.log_value, there.log_gradient_sum)
    np.testing.assert_array_equal(device.get(there.pull), here.pull)
    np.testing.assert_array_equal(device.get(there.cache), here.cache)


@LOSSES
@pytest.mark.parametrize("graded", [False, True])
def test_listed_pairs(device, loss, graded):
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 3000, (50_000, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    grade = rng.integers(0, 3, 3000) if graded else None
    qid = np.arange(3000) // 60 if graded else None
    if graded:
        pairs = pairs[qid[pairs[:, 0]] == qid[pairs[:, 1]]]
    given = {"pair_margin": rng.random(len(pairs))} if loss in GAPS else {}
    given["pair_weight"] = rng.random(len(pairs))
    judgments = Judgments(grade, qid, pairs=pairs, n=3000, **given)
    here, there = states(judgments, loss, rng.normal(size=3000), device)
    assert (here.log_value, here.log_gradient_sum) == (there.log_value, there.log_gradient_sum)
    np.testing.assert_array_equal(device.get(there.pull), here.pull)
    np.testing.assert_array_equal(device.get(there.cache), here.cache)
