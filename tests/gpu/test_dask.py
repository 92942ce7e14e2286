"""Several machines that grow trees together on the GPU, beside one CPU: the same bits."""

import numpy as np
import pytest

from clusters import PATIENT, InProcessSession, chunked
from precede import BoostedRanker, QBRank, Trees
from precede.dask.driver import ClusterContext, SpmdDriver, WorkerSession
from precede.engine.backend import open_backend_of_worker
from precede.engine.table import Table


def problem(rows, features, queries):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, features))
    X[:, 3] = rng.integers(0, 9, rows)
    y = np.digitize(X[:, 0] + 0.3 * (X[:, 3] % 3) + rng.normal(size=rows), [0, 1, 2])
    X[:, :3][rng.random((rows, 3)) < 0.1] = np.nan
    return X, y, rng.integers(0, queries, rows), rng.choice([0.5, 1.0, 2.7], rows)


@pytest.mark.parametrize("ends", [[11_000], [5, 5, 6_000]])
@pytest.mark.parametrize("rows", [12_000, 30_000], ids=["wide", "packed"])
def test_a_tree_of_several_machines(rows, ends):
    """Blocks of any size: some have few rows, or none."""
    X, y, _, weight = problem(rows, 40, 9)
    pull = (y - y.mean()) * weight
    table, trees = Table.build(X), Trees(num_leaves=31, min_child_samples=5)
    alone = trees.search(table, pull)

    def work(block, spec, context):
        context.tree_backend = open_backend_of_worker("cuda", context.rank)
        return trees.start(table.block(block), context).best(pull[block])

    blocks = np.split(np.arange(rows), ends)

    def launch(rank):
        return InProcessSession(WorkerSession(work, blocks[rank], None, ClusterContext(rank, 1)))

    found = SpmdDriver(launch, len(blocks), {}).run()
    assert found.weak_ranker == alone.weak_ranker
    assert found.weak_ranker.n_leaves == 31
    assert found.edge == alone.edge
    np.testing.assert_array_equal(found.values, alone.values[blocks[0]])


@pytest.fixture(scope="module")
def client():
    dask = pytest.importorskip("dask", reason="Dask is not installed")
    distributed = pytest.importorskip("distributed", reason="Dask's scheduler is not installed")
    with (
        dask.config.set(PATIENT),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as made,
    ):
        yield made


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (BoostedRanker, {}),
        (BoostedRanker, {"subsample": 0.5, "random_state": 1}),
        (BoostedRanker, {"categorical_features": [3], "monotone_constraints": {0: 1}}),
        (QBRank, {}),
    ],
    ids=str,
)
def test_models_of_a_cluster(client, kind, given):
    from precede.dask import DaskBoostedRanker, DaskQBRank

    X, y, qid, weight = problem(20_000, 7, 400)
    given = {"n_estimators": 3, "num_leaves": 15, **given}
    here = kind(**given).fit(X, y, qid=qid, sample_weight=weight)
    on_dask = {BoostedRanker: DaskBoostedRanker, QBRank: DaskQBRank}[kind]
    X, y, qid, weight = chunked((50, 12_000, 7_950), X, y, qid, weight)
    there = on_dask(**given, device="cuda")
    there.fit(X, y, qid=qid, sample_weight=weight, client=client)
    assert there.ensemble_.to_dict() == here.ensemble_.to_dict()
    for column in ("risk", "log_risk", "edge"):
        np.testing.assert_array_equal(there.history_[column], here.history_[column])
