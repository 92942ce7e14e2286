"""On a cluster: the model of the local estimator, bit for bit, whoever holds which rows."""

import os
import signal

import numpy as np
import pytest

pytest.importorskip("dask", reason="Dask is not installed")
pytest.importorskip("distributed", reason="Dask's scheduler is not installed")

import dask
import dask.array as da
import dask.dataframe as dd
import pandas as pd
from dask.distributed import Client, LocalCluster

from precede import ConvexRisk, PushRanker, RankBoost, SmoothMargin, load
from precede.boost import SmoothedStepWarning
from precede.dask import DaskConvexRisk, DaskPushRanker, DaskRankBoost, DaskSmoothMargin
from precede.datasets import search_results, two_normals
from precede.dealing import arranged, deal

GRADED = search_results(25, features=7, informative=3, per_query=9, random_state=1)
TWO = two_normals(240, random_state=0)


@pytest.fixture(scope="module")
def clients():
    """Clusters of one, two and four workers in this process."""
    made = {}
    with dask.config.set({"distributed.admin.tick.limit": "1h"}):
        for workers in (1, 2, 4):
            cluster = LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=False, dashboard_address=":0"
            )
            made[workers] = Client(cluster)
        yield made
        for client in made.values():
            client.close()
            client.cluster.close()


def weights(rows, seed=0):
    return np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 2.7], rows)


def shuffled(*arrays, seed=0):
    order = np.random.default_rng(seed).permutation(len(arrays[0]))
    return [array[order] for array in arrays]


def chunked(cut, *arrays):
    """Dask arrays with the same chunks: a number, or sizes."""
    return [da.from_array(a, chunks=(cut, a.shape[1]) if a.ndim == 2 else (cut,)) for a in arrays]


def same(cluster, local):
    assert cluster.ensemble_.rankers == local.ensemble_.rankers
    assert cluster.ensemble_.weights == local.ensemble_.weights
    assert cluster.intercept_ == local.intercept_
    assert cluster.stop_reason_ == local.stop_reason_
    for name in set(local.history_.columns) - {"seconds"}:
        assert np.array_equal(cluster.history_[name], local.history_[name], equal_nan=True), name


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("cut", [37, (1, 100, *[(GRADED.y.size - 101)])])
@pytest.mark.parametrize("balance", ["pairs", "queries"])
def test_scattered_queries(clients, workers, cut, balance):
    X, y, qid = shuffled(GRADED.X, GRADED.y, GRADED.qid)
    weight = weights(y.size)
    settings = {"n_estimators": 8, "balance": balance}
    local = RankBoost(**settings).fit(X, y, qid=qid, sample_weight=weight)
    X, y, qid, weight = chunked(cut, X, y, qid, weight)
    cluster = DaskRankBoost(**settings)
    cluster.fit(X, y, qid=qid, sample_weight=weight, client=clients[workers])
    same(cluster, local)


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_one_list_of_two_classes_is_split(clients, workers, weighted):
    X, y = TWO.X, TWO.y
    weight = weights(y.size) if weighted else None
    local = RankBoost(n_estimators=12).fit(X, y, sample_weight=weight)
    order = np.argsort(y, kind="stable")  # the first partitions hold one class only
    X, y = chunked(31, X[order], y[order])
    if weighted:
        (weight,) = chunked(31, weight[order])
    cluster = DaskRankBoost(n_estimators=12)
    cluster.fit(X, y, sample_weight=weight, client=clients[workers])
    same(cluster, local)
    assert np.array_equal(cluster.classes_, local.classes_)
    assert np.array_equal(cluster.to_local().predict_proba(TWO.X), local.predict_proba(TWO.X))


def test_one_list_is_not_shuffled_and_queries_are_whole(clients):
    parts = [dask.delayed(lambda a, b: (a, b))(TWO.X[j::5], TWO.y[j::5]) for j in range(5)]
    from precede.dealing import partitions

    delayed, _ = partitions(parts, None, None, None)
    dealt = deal(clients[2], delayed, DaskRankBoost())
    blocks = clients[2].gather(dealt.blocks)
    assert [len(block.X) for block in blocks] == [96, 144]  # whole partitions
    assert arranged(blocks[0], dealt.facts).shared

    X, y, qid = chunked(20, *shuffled(GRADED.X, GRADED.y, GRADED.qid))
    delayed, _ = partitions(X, y, qid, None)
    dealt = deal(clients[4], delayed, DaskRankBoost())
    blocks = clients[4].gather(dealt.blocks)
    seen = [set(block.query.tolist()) for block in blocks]
    assert len(blocks) == 4
    assert len(set(dealt.homes)) == 4  # one each
    assert all(not a & b for j, a in enumerate(seen) for b in seen[:j])
    assert max(len(b.X) for b in blocks) < 2 * min(len(b.X) for b in blocks)


ESTIMATORS = {
    "decrease": (DaskRankBoost, RankBoost, {"select": "decrease", "n_estimators": 6}),
    "bound": (DaskRankBoost, RankBoost, {"step": "bound", "n_estimators": 9}),
    "features": (DaskRankBoost, RankBoost, {"rankers": "features", "n_estimators": 4}),
    "drawn": (
        DaskRankBoost,
        RankBoost,
        {"max_features": 0.4, "random_state": 5, "n_estimators": 9},
    ),
    "push": (DaskPushRanker, PushRanker, {"price": 4, "n_estimators": 8}),
    "exp push": (DaskPushRanker, PushRanker, {"price": "exp", "n_estimators": 3}),
    "global push": (DaskPushRanker, PushRanker, {"price": 2, "scope": "global", "n_estimators": 5}),
    "logistic push": (DaskPushRanker, PushRanker, {"loss": "logistic", "n_estimators": 2}),
    "margin": (DaskSmoothMargin, SmoothMargin, {"n_estimators": 12}),
    "ball": (DaskConvexRisk, ConvexRisk, {"tolerance": 0.02, "radius": 1.0}),
    "hinge": (DaskConvexRisk, ConvexRisk, {"tolerance": 0.1, "radius": 1.0, "cost": "hinge"}),
}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.filterwarnings("ignore:.*few for price:UserWarning")
@pytest.mark.filterwarnings("ignore:.*separate:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::precede.boost.SmoothedStepWarning")
def test_all_estimators_on_queries_and_on_one_list(clients, name):
    on_dask, here, settings = ESTIMATORS[name]
    X, y, qid = shuffled(GRADED.X, GRADED.y, GRADED.qid)
    local = here(**settings).fit(X, y, qid=qid)
    arrays = chunked(50, X, y, qid)
    cluster = on_dask(**settings).fit(*arrays[:2], qid=arrays[2], client=clients[2])
    same(cluster, local)
    local = here(**settings).fit(TWO.X, TWO.y)
    cluster = on_dask(**settings).fit(*chunked(70, TWO.X, TWO.y), client=clients[2])
    same(cluster, local)


def test_what_only_some_algorithms_have_is_there(clients):
    X, y = chunked(70, TWO.X, TWO.y)
    settings = {"tolerance": 0.05, "radius": 1.0}
    cluster = DaskConvexRisk(**settings).fit(X, y, client=clients[2])
    assert cluster.gap_ == ConvexRisk(**settings).fit(TWO.X, TWO.y).gap_
    push = DaskPushRanker(price=2, n_estimators=3).fit(X, y, client=clients[2])
    here = PushRanker(price=2, n_estimators=3).fit(TWO.X, TWO.y)
    assert push.effective_losers_ == here.effective_losers_


def test_frames_evaluation_sets_early_stopping_and_callbacks(clients):
    names = list("abcdefg")
    frame = pd.DataFrame(GRADED.X, columns=names).assign(
        y=GRADED.y, q=[f"q{q}" for q in GRADED.qid]
    )
    watched = {"eval_set": (frame[names][:80], frame.y[:80]), "eval_qid": frame.q[:80]}
    settings = {"n_estimators": 60, "early_stopping_rounds": 3, "eval_metric": ["ndcg@5", "map"]}
    shown = []
    local = RankBoost(**settings).fit(frame[names], frame.y, qid=frame.q, **watched)
    table = dd.from_pandas(frame, npartitions=3)
    cluster = DaskRankBoost(
        **settings, callbacks=[lambda p: shown.append((p.round, len(p.ensemble)))]
    )
    cluster.fit(table[names], table.y, qid=table.q, **watched, client=clients[2])
    same(cluster, local)
    assert cluster.evals_result_ == local.evals_result_
    assert cluster.best_iteration_ == local.best_iteration_
    assert list(cluster.feature_names_in_) == names
    assert shown == [(j + 1, j + 1) for j in range(len(local.history_))]
    scores = cluster.predict(table[names])
    assert np.array_equal(scores.compute(), local.predict(frame[names]))

    stopped = DaskRankBoost(n_estimators=9, callbacks=[lambda p: p.round == 4])
    stopped.fit(table[names], table.y, qid=table.q, client=clients[2])
    assert (len(stopped.ensemble_), stopped.stop_reason_) == (4, "a callback said so")


def test_warm_start_progress_saving_and_arrays(clients, tmp_path, capsys):
    X, y = chunked(90, TWO.X, TWO.y)
    model = DaskRankBoost(n_estimators=4, warm_start=True, verbose=1).fit(X, y, client=clients[2])
    model.set_params(n_estimators=9, verbose=0).fit(X, y, client=clients[2])
    same(model, RankBoost(n_estimators=9).fit(TWO.X, TWO.y))
    assert "DaskRankBoost" in capsys.readouterr().err
    model.save(tmp_path / "model.json")
    back = load(tmp_path / "model.json")
    assert type(back) is RankBoost
    assert np.array_equal(model.predict(X).compute(), back.predict(TWO.X))
    assert np.array_equal(model.predict(TWO.X), back.predict(TWO.X))
    with clients[2].as_current():  # the current client is found
        same(DaskRankBoost(n_estimators=3).fit(X, y), RankBoost(n_estimators=3).fit(TWO.X, TWO.y))


def test_a_warning_comes_from_the_client(clients):
    X, y = np.array([[0.0], [1], [1], [1]]), np.array([0, 0, 0, 1])
    with pytest.warns(SmoothedStepWarning) as told:
        DaskRankBoost(n_estimators=2).fit(*chunked(2, X, y), client=clients[2])
    assert len(told) == 1


def test_control_c_keeps_the_rounds_done(clients):
    def interrupt(progress):
        if progress.round == 3:
            raise KeyboardInterrupt

    model = DaskRankBoost(n_estimators=9, callbacks=[interrupt])
    with pytest.warns(UserWarning, match="interrupted"):
        model.fit(*chunked(90, TWO.X, TWO.y), client=clients[2])
    assert model.ensemble_.weights == RankBoost(n_estimators=3).fit(TWO.X, TWO.y).ensemble_.weights


def test_what_makes_no_sense_is_refused(clients):
    X, y, qid = chunked(60, GRADED.X, GRADED.y, GRADED.qid)
    fit = DaskRankBoost().fit
    two = clients[2]
    with pytest.raises(ValueError, match="not on a cluster"):
        fit(GRADED.X, GRADED.y, client=two)
    with pytest.raises(ValueError, match="X is Delayed"):
        fit(dask.delayed(1), GRADED.y, client=two)
    with pytest.raises(ValueError, match="y is missing"):
        fit(X, client=two)
    with pytest.raises(ValueError, match="qid is ndarray"):
        fit(X, y, qid=GRADED.qid, client=two)
    with pytest.raises(ValueError, match="y has 1 partitions and X has"):
        fit(X, da.from_array(GRADED.y[:60], chunks=60), client=two)
    with pytest.raises(ValueError, match="leave y, qid and sample_weight out"):
        fit([dask.delayed(1)], y, client=two)
    with pytest.raises(ValueError, match="partition 0 must be"):
        fit([dask.delayed(1)], client=two)
    with pytest.raises(ValueError, match="infinities"):
        fit(da.full((4, 2), np.inf, chunks=2), da.arange(4, chunks=2), client=two)
    with pytest.raises(ValueError, match="not made of numbers"):
        fit(da.zeros((2, 2), chunks=2), da.from_array(np.array(["a", "b"]), chunks=2), client=two)
    with pytest.raises(ValueError, match="there is no pair to learn from"):
        fit(X, da.zeros(GRADED.y.size, chunks=60), qid=qid, client=two)
    with pytest.raises(ValueError, match="there is no pair to learn from"):
        fit(X, da.zeros(GRADED.y.size, chunks=60), client=two)
    with pytest.raises(ValueError, match="cannot be searched on a cluster"):
        DaskRankBoost(rankers="columns").fit(X, y, client=two)
    with pytest.raises(ValueError, match="give a number instead of 'cv'"):
        DaskConvexRisk(radius="cv").fit(X, y, client=two)
    with pytest.raises(ValueError, match="give a number instead of 'cv'"):
        DaskPushRanker(price="cv").fit(X, y, client=two)
    with pytest.raises(ValueError, match="n_estimators=0"):
        DaskRankBoost(n_estimators=0).fit(X, y, client=two)
    with pytest.raises(ValueError, match="early_stopping_rounds=3 needs an eval_set"):
        DaskRankBoost(early_stopping_rounds=3).fit(X, y, client=two)


def worker_pids(client):
    return client.run(os.getpid)


@pytest.mark.timeout(180)
def test_a_killed_worker_costs_a_recomputation_and_not_the_model():
    """Three processes, one of them killed in the middle of a fit, without a new one."""
    X, y, qid = shuffled(GRADED.X, GRADED.y, GRADED.qid)
    local = RankBoost(n_estimators=25).fit(X, y, qid=qid)
    arrays = chunked(50, X, y, qid)
    with (
        dask.config.set({"distributed.nanny.environ": {"NUMBA_NUM_THREADS": "1"}}),
        LocalCluster(
            n_workers=3, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        pids = worker_pids(client)
        killed = []

        def kill(progress):
            if progress.round == 10:
                pid = next(iter(pids.values()))
                killed.append(pid)
                os.kill(pid, signal.SIGKILL)

        model = DaskRankBoost(n_estimators=25, callbacks=[kill])
        model.fit(*arrays[:2], qid=arrays[2], client=client)
        assert killed
    same(model, local)
