"""Trees on several workers, each with an emulated device, are equal to those of one CPU."""

import sys

import numpy as np
import pytest

pytest.importorskip("dask", reason="Dask is not installed")
pytest.importorskip("distributed", reason="Dask's scheduler is not installed")

from clusters import chunked
from emulated_device import EmulatedDevice, needs_compiler
from precede import BoostedRanker, QBRank, RankBoost, Trees
from precede.dask.estimators import (
    DaskBoostedRanker,
    DaskGlassBoxRanker,
    DaskPushRanker,
    DaskQBRank,
    DaskRankBoost,
)
from precede.engine import backend
from precede.weak_rankers import tree_grower
from samples import splits_on_categories, with_categories

SMALL = {"num_leaves": 7, "min_child_samples": 3}
ROUNDS = {"n_estimators": 3, **SMALL}


@pytest.fixture
def device(monkeypatch):
    """One device for all workers; the GIL serializes their launches."""
    device = EmulatedDevice()
    monkeypatch.setitem(backend.BACKENDS, "cuda", lambda _: device)
    return device


X, Y, QID, WEIGHT, _ = with_categories(300, 18)
UNEVEN = (3, 160, 137)


def assert_equal(client, on_dask, local):
    here = local.fit(X, Y, qid=QID, sample_weight=WEIGHT)
    assert here.ensemble_.weak_rankers[0].n_leaves > 2
    rows, grades, queries, weights = chunked(UNEVEN, X, Y, QID, WEIGHT)
    there = on_dask(**{**local.get_params(deep=False), "device": "cuda"})
    there.fit(rows, grades, qid=queries, sample_weight=weights, client=client)
    assert there.ensemble_.to_dict() == here.ensemble_.to_dict()
    for column in ("risk", "log_risk", "edge"):
        np.testing.assert_array_equal(there.history_[column], here.history_[column])
    return here


@needs_compiler
@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"num_leaves": 40, "min_child_samples": 1},
        {"subsample": 0.6, "random_state": 3},
        {"subsample": 0.6, "subsample_by": "query", "max_features": 0.7, "random_state": 3},
        {"monotone_constraints": {0: 1, 2: -1}, "reg_alpha": 0.1},
        {"interaction_constraints": [[0, 1], [2]], "max_depth": 3},
        {"categorical_features": [1, 3]},
        {"loss": "exponential", "price": 2, "balance": "pairs"},
        {"line_search": True},
    ],
    ids=str,
)
def test_models_are_equal_to_the_bit(clients, device, monkeypatch, given, workers):
    # On two workers numbers are packed.
    monkeypatch.setattr(tree_grower, "MAX_WIDE_CELLS", 1000 if workers == 2 else 1 << 19)
    local = BoostedRanker(**{**ROUNDS, **given})
    here = assert_equal(clients[workers], DaskBoostedRanker, local)
    assert splits_on_categories(here) == ("categorical_features" in given)
    assert {"partition_rows", "fill_histograms", "leaf_sums"} <= {*device.launched}
    assert "search_splits" not in device.launched


@needs_compiler
@pytest.mark.usefixtures("device")
def test_other_estimators_that_grow_trees(clients):
    assert_equal(clients[2], DaskQBRank, QBRank(**ROUNDS))
    assert_equal(clients[2], DaskRankBoost, RankBoost(n_estimators=3, weak_rankers=Trees(**SMALL)))


@needs_compiler
@pytest.mark.usefixtures("device")
def test_going_on_after_a_fit(clients):
    arrays = chunked(UNEVEN, X, Y, QID)
    given = {**SMALL, "subsample": 0.7, "random_state": 0}
    here = BoostedRanker(n_estimators=4, **given).fit(X, Y, qid=QID)
    there = DaskBoostedRanker(n_estimators=2, warm_start=True, device="cuda", **given)
    there.fit(*arrays[:2], qid=arrays[2], client=clients[2])
    there.set_params(n_estimators=4).fit(*arrays[:2], qid=arrays[2], client=clients[2])
    assert there.ensemble_.to_dict() == here.ensemble_.to_dict()


@needs_compiler
def test_machines_of_one_process_take_its_gpus_in_turn(monkeypatch):
    opened = []

    def open_device(number):
        opened.append(number)
        return device

    device = EmulatedDevice()
    device.count = 2
    monkeypatch.setitem(backend.BACKENDS, "cuda", open_device)
    assert all(backend.open_backend_of_worker("cuda", rank) is device for rank in range(3))
    assert device.used == [0, 1, 0]
    assert opened == [None, 0, None, 1, None, 0]


def test_without_cupy_a_worker_says_what_to_install(clients, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    backend.BACKENDS["cuda"].cache_clear()
    arrays = chunked(UNEVEN, X, Y, QID)
    with pytest.raises(ImportError, match="precede\\[cuda13\\]"):
        DaskBoostedRanker(device="cuda").fit(*arrays[:2], qid=arrays[2], client=clients[2])


@pytest.mark.parametrize(
    "model",
    [
        DaskRankBoost(device="cuda"),
        DaskPushRanker(device="cuda"),
        DaskBoostedRanker(weak_rankers="features", device="cuda"),
        DaskGlassBoxRanker(device="cuda"),
    ],
    ids=str,
)
def test_what_would_not_be_done_on_a_device_is_refused(clients, model):
    arrays = chunked(UNEVEN, X, Y, QID)
    with pytest.raises(ValueError, match="on a cluster is for trees; use device='cpu', or"):
        model.fit(*arrays[:2], qid=arrays[2], client=clients[2])


def test_unknown_devices_are_refused(clients):
    arrays = chunked(UNEVEN, X, Y, QID)
    with pytest.raises(ValueError, match="device='tpu' is unknown"):
        DaskBoostedRanker(device="tpu").fit(*arrays[:2], qid=arrays[2], client=clients[2])
