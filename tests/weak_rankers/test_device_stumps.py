"""Search for stumps on an emulated device: the same bits as on the CPU."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulated_device import EmulatedDevice, needs_compiler
from precede import PushRanker, RankBoost, Stumps
from precede.engine import device_histograms
from precede.engine.backend import BACKENDS
from precede.engine.execution import Context
from precede.engine.table import Table

pytestmark = needs_compiler


@pytest.fixture
def device(monkeypatch):
    device = EmulatedDevice()
    monkeypatch.setitem(BACKENDS, "cuda", lambda _: device)
    return device


def problem(seed, rows=300, features=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, features))
    X[:, 1] = rng.integers(0, 3, rows)
    X[:, -1] = X[:, 0]  # ties
    y = np.digitize(X[:, 0] + X[:, 1] + rng.normal(size=rows), [0, 1, 2])
    X[rng.random((rows, features)) < 0.1] = np.nan
    return X, y, rng.integers(0, 12, rows)


def assert_equal(given, X, y, qid, estimator=RankBoost, sample_weight=None):
    given = {"n_estimators": 6, "learning_rate": 0.4, **given}
    here, there = (
        estimator(**given, device=name).fit(X, y, qid=qid, sample_weight=sample_weight)
        for name in ("cpu", "cuda")
    )
    assert here.ensemble_.to_dict() == there.ensemble_.to_dict()
    assert len(here.ensemble_) == 6
    for column in ("risk", "log_risk", "edge", "step", "smoothed", "perfect"):
        np.testing.assert_array_equal(here.history_[column], there.history_[column])
    return there


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"step": "bound"},
        {"nonnegative": True},
        {"monotone_constraints": {0: -1, 2: 1}},
        {"max_features": 0.4, "random_state": 2},
        {"balance": "queries"},
        {"max_bins": 7},
        {"rank_weight": "ndcg"},
    ],
    ids=str,
)
def test_models_have_the_same_bits(device, given):
    assert_equal(given, *problem(1))
    assert {"stump_fill", "stump_search", "stump_values"} <= {*device.launched}
    assert ("level_pulls" in device.launched) == ("rank_weight" not in given)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("price", [1, 4])
@pytest.mark.parametrize("queries", [False, True])
def test_push(price, queries):
    X, y, qid = problem(2)
    rest = (y, qid) if queries else (y > 1, None)
    there = assert_equal({"price": price}, X, *rest, PushRanker)
    here = PushRanker(price=price, n_estimators=6, learning_rate=0.4).fit(X, rest[0], qid=rest[1])
    assert here.effective_losers_ == there.effective_losers_


@pytest.mark.usefixtures("device")
def test_other_losses():
    X, y, qid = problem(3, 120)
    assert_equal({"loss": "logistic", "price": 1}, X, y, qid, PushRanker)


@pytest.mark.usefixtures("device")
def test_weights_one_list_and_many_features():
    X, y, _ = problem(4, 250, 40)
    weight = np.random.default_rng(0).exponential(size=y.size)
    assert_equal({}, X, y, None, sample_weight=weight)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("estimator", [RankBoost, PushRanker])
def test_trees_by_exact_steps(estimator):
    assert_equal({"weak_rankers": "trees"}, *problem(7), estimator)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("estimator", [RankBoost, PushRanker])
def test_perfect_weak_rankers(estimator):
    X, y, _ = problem(8)
    X[:, 0] = 2 * (y > 1)
    models = [estimator(device=name).fit(X, y > 1) for name in ("cpu", "cuda")]
    assert models[0].ensemble_.to_dict() == models[1].ensemble_.to_dict()
    assert models[1].history_["perfect"][-1]


@pytest.mark.usefixtures("device")
def test_early_stops():
    X, y, qid = problem(9)
    given = {"eval_set": (X[:150], y[:150]), "eval_qid": qid[:150]}
    models = [
        RankBoost(early_stopping_rounds=2, device=name).fit(X, y, qid=qid, **given)
        for name in ("cpu", "cuda")
    ]
    assert models[0].ensemble_.to_dict() == models[1].ensemble_.to_dict()


@pytest.mark.usefixtures("device")
def test_warm_starts():
    X, y, qid = problem(5)
    models = []
    for name in ("cpu", "cuda"):
        model = RankBoost(n_estimators=3, warm_start=True, device=name).fit(X, y, qid=qid)
        models.append(model.set_params(n_estimators=6).fit(X, y, qid=qid))
    assert models[0].ensemble_.to_dict() == models[1].ensemble_.to_dict()


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"weak_rankers": "features"}, r"is for trees and stumps.*use device='cpu'"),
        ({"select": "decrease"}, r"use select='slope', or device='cpu'"),
    ],
)
def test_searches_of_the_cpu_only_raise(given, match):
    with pytest.raises(ValueError, match=match):
        RankBoost(**given, device="cuda").fit(*problem(6)[:2])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_searches_with_ties(data):
    """Few distinct pulls, so that many edges tie, and columns repeated with the sign changed."""
    rows, features = data.draw(st.integers(2, 40)), data.draw(st.integers(1, 6))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    X = rng.integers(0, data.draw(st.integers(1, 5)), (rows, features)).astype(float)
    X[rng.random(X.shape) < data.draw(st.sampled_from([0.0, 0.2, 1.0]))] = np.nan
    X[:, -1] = -X[:, 0]
    pull = rng.choice([-1.0, 0.0, 1.0], rows) / rows
    if data.draw(st.booleans()):
        pull += rng.normal(size=rows) * 2.0**-58
    allowed = rng.random(features) < 0.7 if data.draw(st.booleans()) else None
    signs = data.draw(
        st.sampled_from([None, [int(each) for each in rng.integers(-1, 2, features)]])
    )
    positive_only = signs is None and data.draw(st.booleans())
    table, device = Table.build(X), EmulatedDevice()
    found = []
    for context in (Context(1), Context(1, device)):
        search = Stumps(monotone_constraints=signs).start(table, context)
        search = search.restrict_to_positive() if positive_only else search
        found.append([search.best(each, allowed) for each in (pull, -pull, pull[::-1].copy())])
    assert found[0] == found[1]
    for one, other in zip(*found, strict=True):
        if one is not None:
            np.testing.assert_array_equal(other.values, one.weak_ranker.on(table))


@pytest.mark.parametrize("rows", [4100, 9000])
def test_carries_between_words(monkeypatch, rows):
    """More rows per block than words of 20 bits hold, and pulls with all bits set."""
    monkeypatch.setattr(device_histograms, "TARGET_BLOCKS", 1)
    rng = np.random.default_rng(rows)
    table = Table.build(rng.integers(0, 2, (rows, 2)).astype(float))
    pull = np.full(rows, (2.0**50 - 1) / 2.0**61)
    pull[::3] *= -1
    found = [
        Stumps().start(table, w).best(pull) for w in (Context(1), Context(1, EmulatedDevice()))
    ]
    assert found[0] == found[1]
