"""Trees grown on an emulated device, by one machine and by several: the same bits as on the CPU.

Fits on a cluster are in tests/dask/test_devices.py.
"""

import numpy as np
import pytest

from clusters import InProcessSession
from emulated_device import EmulatedDevice, assert_same_fit, needs_compiler
from precede import BoostedRanker, QBRank, Trees
from precede.dask.driver import ClusterContext, SpmdDriver, WorkerSession
from precede.engine import cuda, exact
from precede.engine.table import Table

pytestmark = needs_compiler


def problem(seed, rows=700, features=6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, features))
    X[:, 1] = rng.integers(0, 5, rows)
    y = np.digitize(X[:, 0] + (X[:, 1] == 2) + rng.normal(size=rows), [0, 1, 2])
    X[rng.random((rows, features)) < 0.1] = np.nan
    X[:, 3] = rng.integers(0, 9, rows)
    return X, y, rng.integers(0, 20, rows)


def assert_equal(given, X, y, qid, estimator=BoostedRanker):
    given = {"n_estimators": 3, "num_leaves": 12, "min_child_samples": 5, **given}
    there = assert_same_fit(estimator(**given), ("risk", "log_risk", "edge"), X, y, qid=qid)
    assert len(there.ensemble_) == 3 * given.get("bags", 1)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"num_leaves": 2},
        {"num_leaves": 90, "min_child_samples": 1},
        {"max_depth": 2},
        {"reg_alpha": 0.3, "monotone_constraints": {0: 1, 4: -1}},
        {"interaction_constraints": [[0, 1], [2, 3, 4]]},
        {"categorical_features": [3]},
        {"subsample": 0.5, "random_state": 3},
        {"max_features": 0.5, "max_features_by_split": 0.7, "random_state": 1},
        {"hessian": "terms", "targets": "average"},
        {"hessian": "bound"},
        {"line_search": True},
        {"step_length": 0.1},
        {"loss": "squared_hinge"},
        {"loss": "hinge"},
        {"loss": "hinge", "hessian": "bound", "line_search": True},
        {"loss": "hinge", "rank_weight": "ndcg@10"},
        {"loss": "exponential"},
        {"rank_weight": "ndcg"},
        {"bags": 2, "random_state": 0},
    ],
    ids=str,
)
def test_models_have_the_same_bits(device, given):
    assert_equal(given, *problem(1))
    assert {"partition_rows", "fill_histograms", "search_splits", "leaf_sums"} <= {*device.launched}


@pytest.mark.usefixtures("device")
def test_many_tiles(monkeypatch):
    """Several thread blocks partition and sum the rows of a node."""
    monkeypatch.setattr(cuda, "MIN_FILL_TILE", 1)
    monkeypatch.setattr(cuda, "MAX_FILL_TILE", 70)
    rows = 5 * max(cuda.MOVE_TILE, cuda.LEAF_TILE) // 4
    assert_equal({"num_leaves": 5}, *problem(2, rows, 5))


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("lists", [2, 3, 5])
def test_trees_deeper_than_the_number_of_lists(monkeypatch, lists):
    monkeypatch.setattr(cuda, "LISTS", lists)
    assert_equal({"num_leaves": 60, "min_child_samples": 1}, *problem(8, 300))


def test_few_batches_for_each_tree(device):
    """Nodes are split in batches, rather than one launch for each split."""
    X, y, qid = problem(9, 2000)
    BoostedRanker(n_estimators=5, num_leaves=31, device="cuda").fit(X, y, qid=qid)
    assert device.launched.count("search_splits") <= 5 * 10


def test_pulls_of_logistic_losses_stay_on_the_device(device):
    X, y, qid = problem(3)
    BoostedRanker(n_estimators=2, device="cuda").fit(X, y, qid=qid)
    assert "narrow_logistic_ranges" in device.launched


def test_listed_pairs(device):
    X, *_ = problem(4)
    pairs = np.random.default_rng(0).permutation(700).reshape(-1, 2)
    assert_same_fit(BoostedRanker(n_estimators=3), ("risk",), X, pairs=pairs)
    assert "explicit_pairs" in device.launched
    assert "narrow_logistic_ranges" not in device.launched


@pytest.mark.usefixtures("device")
def test_qbrank_with_labels():
    assert_equal({}, *problem(5), QBRank)


@pytest.mark.usefixtures("device")
def test_families_without_a_device_implementation_raise():
    X, y, qid = problem(6)
    with pytest.raises(ValueError, match="device='cuda' is for trees"):
        BoostedRanker(weak_rankers="features", device="cuda").fit(X, y, qid=qid)


@pytest.mark.usefixtures("device")
def test_warm_starts_and_interruptions():
    X, y, qid = problem(7)
    models = []

    def interrupt(progress):
        if progress.round == 2 and not stopped:
            stopped.append(True)
            raise KeyboardInterrupt

    for name in ("cpu", "cuda"):
        stopped = []
        model = BoostedRanker(n_estimators=4, warm_start=True, device=name, callbacks=[interrupt])
        with pytest.warns(UserWarning, match="interrupted"):
            model.fit(X, y, qid=qid)
        models.append(model.fit(X, y, qid=qid))
    assert models[0].ensemble_.to_dict() == models[1].ensemble_.to_dict()


@pytest.mark.parametrize("rows", [0, 1, 31, 2048, 2049, 5000])
@pytest.mark.parametrize("share", [0.0, 1e-9, 0.3, 0.999, 1.0])
def test_draws(rows, share):
    """The rows sampled on the device are those of the CPU, in their order."""
    device = EmulatedDevice()
    keys = np.random.default_rng(rows).integers(0, 2**64, rows, np.uint64)
    for numbers in ((0, 0, 0), (12345, 7, 2), (2**32 - 1, 999, 0)):
        found = device.draw(device.put(keys), exact.hash_seeds(*numbers), share * 2.0**53)
        chance = exact.hash_keys(keys, *numbers) >> np.uint64(11)
        wanted = np.flatnonzero(chance < share * 2.0**53)
        np.testing.assert_array_equal(device.get(found), wanted)
        assert found.dtype == np.int32


# -- several workers, each with its rows on a GPU ------------------------------------------------


class Lost:
    """A session that fails once, at one of its steps."""

    left = 0

    def __init__(self, here):
        self.here = here

    def start(self, answers=()):
        return self.here.start(answers)

    def resume(self, answer):
        Lost.left -= 1
        if Lost.left == 0:
            raise OSError("gone")
        return self.here.resume(answer)

    def close(self):
        return self.here.close()


@pytest.mark.parametrize("subsample", [1.0, 0.5])
@pytest.mark.parametrize("lost", [0, 5, 12, 15])
@pytest.mark.parametrize("ends", [[100, 101], [0, 0], [1, 2], [150]])
def test_workers_with_few_or_no_rows_and_lost_workers(ends, lost, subsample):
    device, rng = EmulatedDevice(), np.random.default_rng(1)
    rows = rng.normal(size=(150, 35))  # more features than one block of threads takes
    rows[::4, 2] = np.nan
    rows[:, 30] = 1.0
    pull = rng.normal(size=150)
    table = Table.build(rows)
    trees = Trees(num_leaves=9, min_child_samples=2, subsample=subsample, random_state=3)
    alone = trees.search(table, pull)

    def work(block, spec, context):
        context.tree_backend = device
        return trees.start(table.block(block), context).best(pull[block])

    blocks = np.split(np.arange(150), ends)

    def launch(rank):
        return Lost(
            InProcessSession(WorkerSession(work, blocks[rank], None, ClusterContext(rank, 1)))
        )

    Lost.left = lost
    conversation = SpmdDriver(launch, len(blocks), {})
    found = conversation.run()
    assert {"partition_rows", "fill_histograms"} <= {*device.launched}
    assert conversation.lost == (lost > 0)
    assert found.weak_ranker == alone.weak_ranker
    assert found.edge == alone.edge
    assert found.values.tolist() == alone.values[blocks[0]].tolist()
