"""On a cluster: the model of the local estimator, bit for bit, whoever holds which rows."""

import os
import signal
import threading
import time

import numpy as np
import pytest
import scipy.sparse
import sklearn.callback

pytest.importorskip("dask", reason="Dask is not installed")
pytest.importorskip("distributed", reason="Dask's scheduler is not installed")

import dask
import dask.array as da
import dask.dataframe as dd
import pandas as pd
from dask.distributed import Client, LocalCluster

from clusters import GRADED, PATIENCE, PATIENT, TWO, chunked, shuffled
from precede import (
    ConvexRisk,
    Family,
    Found,
    Judgments,
    PushRanker,
    RankBoost,
    SmoothMargin,
    Stump,
    Stumps,
    load,
    pairs_in_order,
)
from precede.boosting.steps import SmoothedStepWarning
from precede.dask.estimators import (
    DaskConvexRisk,
    DaskPushRanker,
    DaskRankBoost,
    DaskSmoothMargin,
    PairObjective,
)
from precede.engine.exact import exact_sums
from precede.rankers.base import Search
from precede.rankers.stumps import StumpSearch
from precede.risks.pointwise import PointRisk


def weights(rows, seed=0):
    return np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 2.7], rows)


def same(cluster, local):
    assert cluster.ensemble_.rankers == local.ensemble_.rankers
    assert cluster.ensemble_.weights == local.ensemble_.weights
    assert cluster.intercept_ == local.intercept_
    assert cluster.stop_reason_ == local.stop_reason_
    for name in set(local.history_.columns) - {"seconds"}:
        assert np.array_equal(cluster.history_[name], local.history_[name], equal_nan=True), name


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("cut", [37, (1, 100, *[(GRADED.y.size - 101)])])
@pytest.mark.parametrize("balance", ["pairs", "queries", "items"])
def test_scattered_queries(clients, workers, cut, balance):
    X, y, qid = shuffled(GRADED.X, GRADED.y, GRADED.qid)
    weight = weights(y.size)
    settings = {"n_estimators": 8, "balance": balance}
    local = RankBoost(**settings).fit(X, y, qid=qid, sample_weight=weight)
    X, y, qid, weight = chunked(cut, X, y, qid, weight)
    cluster = DaskRankBoost(**settings)
    cluster.fit(X, y, qid=qid, sample_weight=weight, client=clients[workers])
    same(cluster, local)


class Signs(Family):
    """A family as a user writes it: is a feature positive?"""

    distributable = True

    def start(self, table, workers=None):
        return SignSearch(table, workers)


class SignSearch(Search):
    def __init__(self, table, workers):
        self.rankers = [Stump(feature, 0.0) for feature in range(table.n_features)]
        self.values = [ranker(table.rows()) for ranker in self.rankers]
        self.workers = workers

    def best(self, pull, allowed=None):
        edges = exact_sums([pull * values for values in self.values], self.workers)
        best = int(np.argmax(np.abs(edges)))
        return Found(self.rankers[best], edges[best]) if edges[best] else None


class SignsAtHome(Signs):
    """Writes its own search, and makes no promise about it."""

    def start(self, table, workers=None):
        return SignSearch(table, None)


@pytest.mark.parametrize("rankers", [Signs(), Signs() | Stumps()])
@pytest.mark.parametrize("one_list", [False, True])
def test_a_family_of_ones_own(clients, rankers, one_list):
    X, y = GRADED.X - np.median(GRADED.X, axis=0), GRADED.y
    qid = None if one_list else GRADED.qid
    local = RankBoost(rankers=rankers, n_estimators=6).fit(X, y, qid=qid)
    X, y = chunked(37, X, y)
    qid = None if one_list else chunked(37, GRADED.qid)[0]
    cluster = DaskRankBoost(rankers=rankers, n_estimators=6)
    same(cluster.fit(X, y, qid=qid, client=clients[2]), local)


def test_a_family_is_asked_whether_it_may_be_spread(clients):
    X, y = chunked(60, GRADED.X, GRADED.y)
    for rankers in (SignsAtHome(), Signs() | SignsAtHome()):
        with pytest.raises(ValueError, match="set distributable = True on a family of your own"):
            DaskRankBoost(rankers=rankers).fit(X, y, client=clients[2])


def test_a_risk_is_asked_whether_it_may_be_spread(clients):
    class Pointwise(DaskRankBoost):
        def _risk(self):
            return PointRisk()

    X, y = chunked(60, GRADED.X, GRADED.y)
    with pytest.raises(ValueError, match="cannot be minimised on a cluster"):
        Pointwise().fit(X, y, client=clients[2])


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


ESTIMATORS = {
    "decrease": (DaskRankBoost, RankBoost, {"select": "decrease", "n_estimators": 6}),
    "bound": (DaskRankBoost, RankBoost, {"step": "bound", "n_estimators": 9}),
    "nonnegative": (DaskRankBoost, RankBoost, {"nonnegative": True, "n_estimators": 9}),
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
    "hinge": (DaskConvexRisk, ConvexRisk, {"tolerance": 0.1, "radius": 1.0, "loss": "hinge"}),
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


@pytest.mark.filterwarnings("ignore:.*few for price:UserWarning")
@pytest.mark.filterwarnings("ignore::precede.boost.SmoothedStepWarning")
@pytest.mark.parametrize(
    ("on_dask", "here", "settings"),
    [
        (DaskPushRanker, PushRanker, {"loss": "logistic", "price": 1}),
        (DaskPushRanker, PushRanker, {"price": 4, "rankers": "features"}),
        (DaskRankBoost, RankBoost, {"select": "decrease", "rankers": "features"}),
    ],
)
def test_smoothed_steps(clients, on_dask, here, settings):
    """Columns that are 1 for a few rows of one grade reverse no pair, on any machine."""
    qid, y = np.repeat(np.arange(6), 4), np.tile([0, 1, 1, 2], 6)
    X = np.stack([(y == 2) & (qid % 2 == 0), (y == 0) & (qid > 2), qid % 3 == 1], axis=1) * 1.0
    local = here(n_estimators=4, **settings).fit(X, y, qid=qid)
    assert local.history_["smoothed"].any()
    arrays = chunked(5, X, y, qid)
    same(
        on_dask(n_estimators=4, **settings).fit(*arrays[:2], qid=arrays[2], client=clients[2]),
        local,
    )


OTHERS = {
    "push": (DaskPushRanker, PushRanker, {"price": 4, "n_estimators": 4}),
    "margin": (DaskSmoothMargin, SmoothMargin, {"n_estimators": 9}),
    "ball": (DaskConvexRisk, ConvexRisk, {"tolerance": 0.05, "radius": 1.0}),
}
UNEVEN = (1, 2, 100, 3, 60, GRADED.y.size - 166)


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.filterwarnings("ignore:.*few for price:UserWarning")
@pytest.mark.filterwarnings("ignore:.*separate:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::precede.boost.SmoothedStepWarning")
def test_other_estimators_on_any_workers_and_partitions(clients, name, workers):
    """With weights, some of them 0; queries scattered, and one list, split."""
    on_dask, here, settings = OTHERS[name]
    X, y, qid = shuffled(GRADED.X, GRADED.y, GRADED.qid, seed=workers)
    weight = weights(y.size)
    local = here(**settings).fit(X, y, qid=qid, sample_weight=weight)
    for cut in (60, UNEVEN):
        names = ("X", "y", "qid", "sample_weight")
        arrays = dict(zip(names, chunked(cut, X, y, qid, weight), strict=True))
        same(on_dask(**settings).fit(**arrays, client=clients[workers]), local)
    two = (y > np.median(y)).astype(int)
    local = here(**settings).fit(X, two, sample_weight=weight)
    arrays = chunked(UNEVEN, X, two, weight)
    cluster = on_dask(**settings).fit(*arrays[:2], sample_weight=arrays[2], client=clients[workers])
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
    ranker = DaskRankBoost(n_estimators=2, learning_rate=1.0)
    with pytest.warns(SmoothedStepWarning) as told:
        ranker.fit(*chunked(2, X, y), client=clients[2])
    assert len(told) == 1


def test_control_c_keeps_the_rounds_done(clients):
    def interrupt(progress):
        if progress.round == 3:
            raise KeyboardInterrupt

    def press(progress):
        if progress.round == 3:
            signal.raise_signal(signal.SIGINT)

    local = RankBoost(n_estimators=3).fit(TWO.X, TWO.y)
    for callback in (interrupt, press):
        model = DaskRankBoost(n_estimators=9, callbacks=[callback])
        with pytest.warns(UserWarning, match="interrupted"):
            model.fit(*chunked(90, TWO.X, TWO.y), client=clients[2])
        assert model.ensemble_.weights == local.ensemble_.weights


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


def frames(rows=None):
    frame = pd.DataFrame(GRADED.X, columns=list("abcdefg"))
    return (frame if rows is None else frame[rows]), GRADED.y[rows], GRADED.qid[rows]


def test_columns_named_by_numbers_are_not_names(clients):
    frame, target = pd.DataFrame(TWO.X), pd.Series(TWO.y)
    X, y = dd.from_pandas(frame, npartitions=2), dd.from_pandas(target, npartitions=2)
    model = DaskRankBoost(n_estimators=2).fit(X, y, eval_set=(frame, target), client=clients[2])
    assert not hasattr(model, "feature_names_in_")
    assert np.array_equal(model.predict(frame), model.predict(X).compute())  # and no warning
    mixed = frame.rename(columns={0: "a"})
    with pytest.raises(TypeError, match="some columns of X are named by text and some are not"):
        DaskRankBoost().fit(dd.from_pandas(mixed, npartitions=2), y, client=clients[2])


def test_columns_in_another_order_are_refused(clients):
    X, y, qid = frames(slice(None))
    parts = [dask.delayed(part) for part in (frames(slice(99)), (X[99:], y[99:], qid[99:]))]
    model = DaskRankBoost(n_estimators=2, warm_start=True).fit(parts, client=clients[2])
    assert list(model.feature_names_in_) == list("abcdefg")
    turned = dask.delayed((X[X.columns[::-1]][99:], y[99:], qid[99:]))
    with pytest.raises(ValueError, match="partitions differ in the names of the columns"):
        DaskRankBoost().fit([parts[0], turned], client=clients[2])
    model.set_params(n_estimators=4)
    with pytest.raises(ValueError, match="not those of the model to go on with"):
        model.fit([turned], client=clients[2])
    with pytest.raises(ValueError, match="partitions differ in having weights or none"):
        model.fit([parts[0], dask.delayed((X, y, qid, np.ones(y.size)))], client=clients[2])


def test_empty_partitions_and_missing_values_of_frames(clients):
    X, y, qid = frames(slice(None))
    rows = np.arange(y.size)
    X = X.assign(a=pd.array(np.where(rows % 7, rows % 5, 0), "Int64"))
    X.loc[rows % 7 == 0, "a"] = pd.NA
    X.loc[rows < 120, "b"] = np.nan
    table = dd.from_pandas(X.assign(y=y, q=[f"q{q}" for q in qid], row=rows), npartitions=5)
    table = table[table.row > 100]  # two partitions are empty now
    cluster = DaskRankBoost(n_estimators=5).fit(
        table[list(X)], table.y, qid=table.q, client=clients[4]
    )
    local = RankBoost(n_estimators=5).fit(X[101:], y[101:], qid=qid[101:])
    same(cluster, local)
    assert np.array_equal(cluster.predict(table[list(X)]).compute(), local.predict(X[101:]))
    with pytest.raises(ValueError, match="there are no rows"):
        DaskRankBoost().fit(table[table.row < 0][list(X)], table.y, client=clients[2])


def test_sizes_nobody_knows_and_sparse_blocks(clients):
    X, y, qid = GRADED.X.copy(), GRADED.y, GRADED.qid
    X[X < 0.2] = 0
    local = RankBoost(n_estimators=4).fit(X, y, qid=qid)
    frame = dd.from_pandas(pd.DataFrame(X).assign(y=y, q=qid), npartitions=3)
    unknown = frame[list(range(7))].to_dask_array()
    assert np.isnan(unknown.shape[0])
    cluster = DaskRankBoost(n_estimators=4)
    cluster.fit(unknown, frame.y.to_dask_array(), qid=frame.q, client=clients[2])
    same(cluster, local)
    assert np.array_equal(cluster.predict(unknown).compute(), local.predict(X))
    arrays = chunked(50, X, y, qid)
    sparse = arrays[0].map_blocks(scipy.sparse.csr_matrix)
    same(cluster.fit(sparse, arrays[1], qid=arrays[2], client=clients[2]), local)


def held(client):
    """What workers hold of anybody: data, actors, and threads of ours."""
    ours = [each for each in threading.enumerate() if each.name.startswith("precede")]
    seen = client.run(lambda dask_worker: len(dask_worker.data) + len(dask_worker.state.actors))
    return sum(seen.values()) + len(ours)


def wait_until_nothing_is_held(client):
    end = time.monotonic() + PATIENCE
    while held(client) and time.monotonic() < end:
        time.sleep(0.05)
    assert held(client) == 0


def test_nothing_stays_on_the_workers(clients):
    """Whatever the end: also while the exception, which knows all frames, is alive."""
    X, y, qid = chunked(60, GRADED.X, GRADED.y, GRADED.qid)
    data = {"X": X, "y": y, "qid": qid, "client": clients[2]}
    wait_until_nothing_is_held(clients[2])
    DaskRankBoost(n_estimators=3).fit(**data)
    wait_until_nothing_is_held(clients[2])

    def fail(progress):
        if progress.round == 2:
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        DaskRankBoost(callbacks=[fail]).fit(**data)
    wait_until_nothing_is_held(clients[2])
    assert caught.value.__traceback__ is not None
    with pytest.raises(ValueError, match="no pair to learn from") as caught:
        DaskRankBoost().fit(X, da.zeros_like(y), qid=qid, client=clients[2])
    wait_until_nothing_is_held(clients[2])
    assert caught.value.__traceback__ is not None


def test_an_error_on_one_worker_is_raised_and_the_others_end(clients, monkeypatch):
    real = StumpSearch._histograms
    calls = []

    def histograms(search, features):
        if search._workers.rank == 1:
            calls.append(features)
            if len(calls) == 3:
                raise MemoryError("no room")
        return real(search, features)

    monkeypatch.setattr(StumpSearch, "_histograms", histograms)
    X, y, qid = chunked(60, GRADED.X, GRADED.y, GRADED.qid)
    with pytest.raises(MemoryError, match="no room"):
        DaskRankBoost().fit(X, y, qid=qid, client=clients[4])
    assert len(calls) == 3
    wait_until_nothing_is_held(clients[4])


def test_two_fits_at_once(clients):
    found = {}

    def fit(price):
        X, y = chunked(50 + price, TWO.X, TWO.y)
        model = DaskPushRanker(price=price, n_estimators=6)
        found[price] = model.fit(X, y, client=clients[2])

    threads = [threading.Thread(target=fit, args=(price,)) for price in (1, 2, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    for price in (1, 2, 4):
        same(found[price], PushRanker(price=price, n_estimators=6).fit(TWO.X, TWO.y))


def test_what_cannot_be_followed_is_refused(clients):
    X, y = chunked(60, TWO.X, TWO.y)
    grades = pd.Categorical(TWO.y, categories=[1, 0], ordered=True)
    with pytest.raises(ValueError, match="ordered categorical, and other blocks"):
        DaskRankBoost().fit([dask.delayed((TWO.X, grades))], client=clients[2])
    model = DaskRankBoost().set_callbacks(sklearn.callback.ProgressBar())
    with pytest.raises(ValueError, match="set_callbacks cannot follow a fit on a cluster"):
        model.fit(X, y, client=clients[2])

    class Asynchronous:
        asynchronous = True

    with pytest.raises(ValueError, match="the client is asynchronous"):
        DaskRankBoost().fit(X, y, client=Asynchronous())


@pytest.mark.filterwarnings("ignore:Parameter:UserWarning")
def test_lightgbm_takes_the_objective_on_dask(clients):
    """On one worker, where its trees are those of the local interface."""
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    order = np.argsort(GRADED.qid, kind="stable")
    X, y, qid = GRADED.X[order], GRADED.y[order], GRADED.qid[order]
    group = np.unique(qid, return_counts=True)[1]
    settings = {"objective": PairObjective(loss="logistic"), "n_estimators": 3, "verbose": -1}
    local = lightgbm.LGBMRanker(**settings, n_jobs=1).fit(X, y, group=group)
    arrays = chunked(y.size, X, y)
    (sizes,) = chunked(group.size, group)
    cluster = lightgbm.DaskLGBMRanker(**settings, client=clients[1]).fit(*arrays, group=sizes)
    scores = cluster.predict(arrays[0]).compute()
    assert np.allclose(scores, local.predict(X))
    assert pairs_in_order(Judgments.graded(y, qid), scores) > 0.6


def worker_pids(client):
    return client.run(os.getpid)


def test_a_killed_worker_costs_a_recomputation_and_not_the_model():
    """Three processes, one of them killed in the middle of a fit, without a new one."""
    X, y, qid = shuffled(GRADED.X, GRADED.y, GRADED.qid)
    local = RankBoost(n_estimators=25).fit(X, y, qid=qid)
    arrays = chunked(50, X, y, qid)
    with (
        dask.config.set({**PATIENT, "distributed.nanny.environ": {"NUMBA_NUM_THREADS": "1"}}),
        LocalCluster(
            n_workers=3, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        pids = worker_pids(client)
        killed = []

        def kill(progress):
            if progress.round == 10 and not killed:
                pid = next(iter(pids.values()))
                killed.append(pid)
                os.kill(pid, signal.SIGKILL)

        model = DaskRankBoost(n_estimators=25, callbacks=[kill])
        model.fit(*arrays[:2], qid=arrays[2], client=client)
        assert killed
    same(model, local)
