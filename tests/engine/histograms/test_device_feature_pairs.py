"""Histograms of pairs of features on an emulated device, compared with those of the CPU."""

import numpy as np
import pytest

from emulated_device import EmulatedDevice, needs_compiler
from precede import GlassBoxRanker
from precede.engine import device_histograms
from precede.engine.backend import BACKENDS
from precede.engine.device_histograms import DeviceTriples
from precede.engine.execution import Context
from precede.engine.histograms import pair_words, triple_cover, triple_sums
from precede.engine.table import Table
from precede.weak_rankers.interactions import interaction_strengths

pytestmark = needs_compiler


@pytest.mark.parametrize("features", [1, 2, 4, 7, 9])
@pytest.mark.parametrize("most", [64, 1 << 16])
def test_sums(monkeypatch, features, most):
    monkeypatch.setattr(device_histograms, "MAX_BLOCK_ROWS", most)
    monkeypatch.setattr(device_histograms, "MAX_TRIPLES", 5)
    rng = np.random.default_rng(features)
    codes = rng.integers(0, 16, (features, 500)).astype(np.uint8)
    words = pair_words(rng.normal(size=500), rng.exponential(size=500), Context(1)).words
    triples = triple_cover(features)
    found = DeviceTriples(EmulatedDevice(), codes, words).sums(triples)
    np.testing.assert_array_equal(found, triple_sums(codes, triples, words, Context(1)))


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_all_rows_in_one_cell(sign):
    """The largest possible sums, of pulls of one sign."""
    codes, triples = np.zeros((3, 900), np.uint8), triple_cover(3)
    words = pair_words(np.full(900, sign), np.ones(900), Context(1)).words
    found = DeviceTriples(EmulatedDevice(), codes, words).sums(triples)
    np.testing.assert_array_equal(found, triple_sums(codes, triples, words, Context(1)))


def test_strengths():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 30, (400, 5)).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    table, pull, weight = Table.build(X), rng.normal(size=400), rng.random(400)
    found = [
        interaction_strengths(table, pull, weight, np.arange(5), context)
        for context in (Context(1), Context(1, EmulatedDevice()))
    ]
    assert found[0] == found[1]
    nothing = interaction_strengths(
        table, 0 * pull, weight, np.arange(5), Context(1, EmulatedDevice())
    )
    assert set(nothing.values()) == {0.0}


def test_launches_respect_the_grid_limit(monkeypatch):
    """A grid has at most 65,535 blocks in its second dimension; 631 features would exceed it."""
    device, grids = EmulatedDevice(), []
    monkeypatch.setattr(device, "launch", lambda _, grid, *__: grids.append(grid))
    monkeypatch.setattr(device, "zeros", lambda *shape, dtype: np.zeros((shape[0], 1), dtype))
    triples = np.zeros((65_536, 3), np.int64)
    DeviceTriples(device, np.zeros((3, 2), np.uint8), np.ones(2, np.int64)).sums(triples)
    assert sum(high for _, high in grids) == 65_536
    assert max(high for _, high in grids) < 65_536


def test_too_little_memory_raises():
    with pytest.raises(ValueError, match=r"all pairs of features would take .* use device='cpu'"):
        DeviceTriples(EmulatedDevice(free=10), np.zeros((3, 9), np.uint8), np.zeros(9, np.int64))


@pytest.mark.parametrize("loss", ["logistic", "exponential"])
def test_glass_box_models_have_the_same_bits(monkeypatch, loss):
    device = EmulatedDevice()
    monkeypatch.setitem(BACKENDS, "cuda", lambda _: device)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(600, 4))
    X[rng.random(X.shape) < 0.05] = np.nan
    y = np.nan_to_num(X[:, 0] + 2 * np.sign(X[:, 1] * X[:, 2])) + rng.normal(size=600) > 0
    given = {"interactions": 2, "n_estimators": 5, "pair_estimators": 4, "loss": loss}
    qid = rng.integers(0, 30, 600)
    here, there = (
        GlassBoxRanker(**given, device=name).fit(X, y, qid=qid) for name in ("cpu", "cuda")
    )
    assert here.ensemble_.to_dict() == there.ensemble_.to_dict()
    assert here.pair_strengths_ == there.pair_strengths_
    assert {"triple_fill", "fill"} <= {*device.launched}
