"""Pair weights on an emulated device, stored or recomputed: equal bits to the CPU."""

import numpy as np
import pytest

from emulated_device import EmulatedDevice, needs_compiler
from precede import Judgments, RankBoostPlus
from precede.engine.backend import BACKENDS
from precede.engine.execution import Context
from precede.risks import pair_weights
from precede.risks.device_pair_weights import DevicePairWeights
from precede.risks.pair_weights import PairWeights

pytestmark = needs_compiler


def judged(seed, rows=260, grades=4, queries=5, weighted=False):
    rng = np.random.default_rng(seed)
    qid = rng.integers(0, queries, rows) if queries else None
    weight = rng.exponential(size=rows) if weighted else None
    return Judgments(rng.integers(0, grades, rows), qid, weight=weight)


@pytest.mark.parametrize("kept", [True, False])
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
def test_sums(monkeypatch, kept, given, piece):
    monkeypatch.setattr(pair_weights, "MAX_PAIRS_PER_CHUNK", piece)
    layout = judged(1, **given).to_layout("queries")
    device, rng = EmulatedDevice(), np.random.default_rng(2)
    here = PairWeights(layout, Context(1))
    there = DevicePairWeights(layout, Context(1, device), kept=kept)
    weak_rankers = rng.integers(0, 2, (11, layout.n_used_rows)).astype(np.uint8)
    for step in range(70 if len(weak_rankers[0]) < 20 else 5):  # more than a word has bits
        np.testing.assert_array_equal(there.pull.get(), here.pull)
        assert (here.log_risk, here.tied) == (there.log_risk, there.tied)
        values, before = weak_rankers[step % 3], 0.1 * (step // 3)
        here.advance(values, before=before, step=0.1)
        there.advance(device.put(values), before=before, step=0.1)
    found = there.ties([device.put(each) for each in weak_rankers])
    np.testing.assert_array_equal(found, here.ties(list(weak_rankers)))


def test_what_does_not_fit_is_refused():
    layout = judged(3).to_layout("pairs")
    context = Context(1, EmulatedDevice(free=1000))
    assert not DevicePairWeights.fits(context.device, layout, 10**9)
    with pytest.raises(ValueError, match=r"weights of .* pairs would take"):
        DevicePairWeights(layout, context, kept=True)


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
    assert {"plus_advance", "plus_ties", "stump_fill"} <= {*device.launched}


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


@pytest.mark.usefixtures("device")
def test_the_optimal_search_is_refused():
    with pytest.raises(ValueError, match="needs device='cpu'"):
        RankBoostPlus(search="optimal", device="cuda").fit(*problem()[:2])


@pytest.mark.usefixtures("device")
def test_listed_pairs_are_refused():
    with pytest.raises(ValueError, match="listed pairs are weighed on the CPU"):
        RankBoostPlus(device="cuda").fit(problem()[0], pairs=[(0, 1), (2, 3)])
