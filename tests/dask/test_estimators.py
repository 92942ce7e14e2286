"""Models on a cluster equal those of the local estimators, for any distribution of rows."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

pytest.importorskip("dask", reason="Dask is not installed")
pytest.importorskip("distributed", reason="Dask's scheduler is not installed")

import dask
import dask.array as da
import dask.dataframe as dd
import pandas as pd
from dask.distributed import Client, LocalCluster

from clusters import GRADED, PATIENCE, PATIENT, TWO, chunked, shuffled
from precede import (
    BoostedRanker,
    Checkpoint,
    ConvexRiskRanker,
    Family,
    GlassBoxRanker,
    Judgments,
    PushRanker,
    QBRank,
    RankBoost,
    RankWeight,
    ScoreRisk,
    SearchResult,
    SmoothMarginRanker,
    Stump,
    Stumps,
    Trees,
    load,
    pairs_in_order,
)
from precede.boosting.steps import SmoothedStepWarning
from precede.dask.estimators import (
    DaskBoostedRanker,
    DaskConvexRiskRanker,
    DaskGlassBoxRanker,
    DaskPushRanker,
    DaskQBRank,
    DaskRankBoost,
    DaskSmoothMarginRanker,
    PairObjective,
)
from precede.engine.compatibility import has_callbacks
from precede.engine.exact import exact_sums
from precede.risks.pointwise import PointRisk
from precede.weak_rankers import tree_grower
from precede.weak_rankers.base import Search
from precede.weak_rankers.stumps import StumpSearch
from samples import splits_on_categories, with_categories


def weights(rows, seed=0):
    return np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 2.7], rows)


def same(cluster, local):
    assert cluster.ensemble_.weak_rankers == local.ensemble_.weak_rankers
    assert cluster.ensemble_.weights == local.ensemble_.weights
    assert cluster.intercept_ == local.intercept_
    assert cluster.stop_reason_ == local.stop_reason_
    for name in set(local.history_.columns) - {"seconds"}:
        assert np.array_equal(cluster.history_[name], local.history_[name], equal_nan=True), name


DASK = {
    each._local_class: each
    for each in (
        DaskBoostedRanker, DaskConvexRiskRanker, DaskGlassBoxRanker, DaskPushRanker, DaskQBRank,
        DaskRankBoost, DaskSmoothMarginRanker,
    )
}  # fmt: skip


def on_dask(model, **more):
    """Return the estimator on a cluster with the parameters of a local one."""
    return DASK[type(model)](**{**model.get_params(deep=False), **more})


def on_rows(cut, X, y, qid=None, sample_weight=None):
    """Return arguments of fit: dask arrays with the same chunks."""
    given = {"X": X, "y": y, "qid": qid, "sample_weight": sample_weight}
    given = {name: values for name, values in given.items() if values is not None}
    return dict(zip(given, chunked(cut, *given.values()), strict=True))


def interrupt(progress):
    """Act as Ctrl-C in the third round."""
    if progress.round == 3:
        raise KeyboardInterrupt


def fit_both(client, model, cut, *rows, **more):
    """Fit a model on a cluster and locally; compare and return both."""
    local = clone(model).fit(rows[0], rows[1], **dict(zip(NAMES, rows[2:], strict=False)), **more)
    cluster = on_dask(model).fit(**on_rows(cut, *rows), **more, client=client)
    same(cluster, local)
    return cluster, local


NAMES = ("qid", "sample_weight")
UNEVEN = (1, 2, 100, 3, 60, GRADED.y.size - 166)
SMALL = {"num_leaves": 5, "min_child_samples": 3}


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("cut", [37, (1, 100, *[(GRADED.y.size - 101)])])
@pytest.mark.parametrize("balance", ["pairs", "queries", "items"])
def test_scattered_queries(clients, workers, cut, balance):
    rows = *shuffled(GRADED.X, GRADED.y, GRADED.qid), weights(GRADED.y.size)
    fit_both(clients[workers], RankBoost(n_estimators=8, balance=balance), cut, *rows)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("balance", ["pairs", "items"])
@pytest.mark.parametrize(
    "model",
    [
        RankBoost(rank_weight="ndcg"),
        RankBoost(rank_weight="ndcg@3"),
        PushRanker(rank_weight="ndcg@3", loss="logistic", price=1),
    ],
    ids=str,
)
def test_weights_by_rank(clients, workers, balance, model):
    rows = *shuffled(GRADED.X, GRADED.y, GRADED.qid), weights(GRADED.y.size)
    model = clone(model).set_params(n_estimators=4, balance=balance)
    fit_both(clients[workers], model, 37, *rows)


LISTS = [
    *({"loss": loss} for loss in ("softmax", "xendcg", "query_rmse", "query_cross_entropy")),
    {"rank_weight": "ndcg@3"},
    {"rank_weight": RankWeight("linear", blend=0.5), "loss": "exponential"},
    {"rank_weight": "grade_gap", "loss": "squared_hinge", "hessian": "bound"},
    {"rank_weight": "precision@2", "loss": "hinge", "line_search": True},
]


@pytest.mark.parametrize("options", LISTS, ids=str)
def test_trees_for_losses_of_lists_and_weights_by_rank(clients, options):
    """With real-valued grades and weights, some of them 0."""
    X, y, qid = shuffled(GRADED.X, GRADED.y, GRADED.qid)
    y = y + np.random.default_rng(1).integers(0, 10, y.size) / 10
    if options.get("loss") == "query_cross_entropy":  # takes chances only
        y = y / 5
    model = BoostedRanker(n_estimators=4, **SMALL, **options)
    _, local = fit_both(clients[2], model, UNEVEN, X, y, qid, weights(y.size))
    assert len(local.ensemble_) == 4


@pytest.mark.parametrize(
    "model",
    [
        RankBoost(n_estimators=3, rank_weight="ndcg"),
        BoostedRanker(
            n_estimators=3, loss="exponential", balance="pairs", rank_weight="ndcg", **SMALL
        ),
    ],
    ids=["stumps", "trees"],
)
def test_weights_by_rank_keep_one_list_whole(clients, model):
    """Without them the list of an exponential loss over pairs is divided between workers."""
    fit_both(clients[2], model, 70, TWO.X, TWO.y)


class Signs(Family):
    """A user-defined family: is a feature positive?"""

    distributable = True

    def start(self, table, context=None):
        return SignSearch(table, context)


class SignSearch(Search):
    def __init__(self, table, context):
        self.weak_rankers = [Stump(feature, 0.0) for feature in range(table.n_features)]
        self.values = [ranker(table.rows()) for ranker in self.weak_rankers]
        self.context = context

    def best(self, pull, allowed=None):
        edges = exact_sums([pull * values for values in self.values], self.context)
        best = int(np.argmax(np.abs(edges)))
        return SearchResult(self.weak_rankers[best], edges[best]) if edges[best] else None


class LocalSigns(Signs):
    """Defines its own search, so that `distributable` is not inherited."""

    def start(self, table, context=None):
        return SignSearch(table, None)


@pytest.mark.parametrize("weak_rankers", [Signs(), Signs() | Stumps()])
@pytest.mark.parametrize("one_list", [False, True])
def test_a_user_defined_family(clients, weak_rankers, one_list):
    X, qid = GRADED.X - np.median(GRADED.X, axis=0), None if one_list else GRADED.qid
    model = RankBoost(weak_rankers=weak_rankers, n_estimators=6)
    fit_both(clients[2], model, 37, X, GRADED.y, qid)


def test_families_that_are_not_distributable_are_refused(clients):
    X, y = chunked(60, GRADED.X, GRADED.y)
    for weak_rankers in (LocalSigns(), Signs() | LocalSigns()):
        with pytest.raises(ValueError, match="set distributable = True on a family of your own"):
            DaskRankBoost(weak_rankers=weak_rankers).fit(X, y, client=clients[2])


def test_risks_that_are_not_distributable_are_refused(clients):
    class PointwiseBoost(RankBoost):
        def risk(self):
            return PointRisk()

    class Pointwise(DaskRankBoost):
        _local_class = PointwiseBoost

    X, y = chunked(60, GRADED.X, GRADED.y)
    with pytest.raises(ValueError, match="cannot be minimized on a cluster"):
        Pointwise().fit(X, y, client=clients[2])


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_one_list_of_two_classes_is_split(clients, workers, weighted):
    order = np.argsort(TWO.y, kind="stable")  # the first partitions hold one class only
    weight = weights(TWO.y.size)[order] if weighted else None
    rows = TWO.X[order], TWO.y[order], None, weight
    cluster, local = fit_both(clients[workers], RankBoost(n_estimators=12), 31, *rows)
    assert np.array_equal(cluster.classes_, local.classes_)
    assert np.array_equal(cluster.to_local().predict_proba(TWO.X), local.predict_proba(TWO.X))


ESTIMATORS = [
    RankBoost(select="decrease", n_estimators=6),
    RankBoost(step="bound", n_estimators=9),
    RankBoost(nonnegative=True, n_estimators=9),
    RankBoost(weak_rankers="features", n_estimators=4),
    RankBoost(max_features=0.4, random_state=5, n_estimators=9),
    PushRanker(price=4, n_estimators=8),
    PushRanker(price="exp", n_estimators=3),
    PushRanker(price=4, balance="queries", n_estimators=5),
    PushRanker(price=2, scope="global", n_estimators=5),
    PushRanker(loss="logistic", n_estimators=2),
    SmoothMarginRanker(n_estimators=12),
    ConvexRiskRanker(tol=0.02, radius=1.0),
    ConvexRiskRanker(tol=0.1, radius=1.0, loss="hinge"),
]


@pytest.mark.parametrize("model", ESTIMATORS, ids=str)
@pytest.mark.filterwarnings("ignore:.*few for price:UserWarning")
@pytest.mark.filterwarnings("ignore:.*separate:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::precede.boosting.steps.SmoothedStepWarning")
def test_all_estimators_on_queries_and_on_one_list(clients, model):
    fit_both(clients[2], model, 50, *shuffled(GRADED.X, GRADED.y, GRADED.qid))
    fit_both(clients[2], model, 70, TWO.X, TWO.y)


@pytest.mark.filterwarnings("ignore:.*few for price:UserWarning")
@pytest.mark.filterwarnings("ignore::precede.boosting.steps.SmoothedStepWarning")
@pytest.mark.parametrize(
    "model",
    [
        PushRanker(loss="logistic", price=1),
        PushRanker(price=4, weak_rankers="features"),
        RankBoost(select="decrease", weak_rankers="features"),
    ],
    ids=str,
)
def test_smoothed_steps(clients, model):
    """Columns that are 1 for a few rows of one grade reverse no pair, on any machine."""
    qid, y = np.repeat(np.arange(6), 4), np.tile([0, 1, 1, 2], 6)
    X = np.stack([(y == 2) & (qid % 2 == 0), (y == 0) & (qid > 2), qid % 3 == 1], axis=1) * 1.0
    model = clone(model).set_params(n_estimators=4)
    _, local = fit_both(clients[2], model, 5, X, y, qid)
    assert local.history_["smoothed"].any()


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize(
    "model",
    [
        PushRanker(price=4, n_estimators=4),
        SmoothMarginRanker(n_estimators=9),
        ConvexRiskRanker(tol=0.05, radius=1.0),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:.*few for price:UserWarning")
@pytest.mark.filterwarnings("ignore:.*separate:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::precede.boosting.steps.SmoothedStepWarning")
def test_other_estimators_on_any_workers_and_partitions(clients, model, workers):
    """With weights, some of them 0; queries scattered, and one list, split."""
    X, y, qid = shuffled(GRADED.X, GRADED.y, GRADED.qid, seed=workers)
    weight = weights(y.size)
    for cut in (60, UNEVEN):
        fit_both(clients[workers], model, cut, X, y, qid, weight)
    two = (y > np.median(y)).astype(int)
    fit_both(clients[workers], model, UNEVEN, X, two, None, weight)


WITH_TREES = [
    BoostedRanker(n_estimators=5, **SMALL),
    BoostedRanker(n_estimators=4, line_search=True, **SMALL),
    BoostedRanker(n_estimators=4, price=2, **SMALL),
    BoostedRanker(n_estimators=4, step_length=0.1, hessian="bound", **SMALL),
    BoostedRanker(n_estimators=5, subsample=0.5, max_features=0.6, random_state=3, **SMALL),
    BoostedRanker(n_estimators=5, subsample=0.5, subsample_by="query", random_state=3, **SMALL),
    BoostedRanker(
        n_estimators=5, reg_alpha=0.1, min_split_gain=1e-4, min_child_weight=2.0,
        monotone_constraints={0: 1, 1: -1}, **SMALL,
    ),
    BoostedRanker(
        n_estimators=4, loss="exponential", price=2, balance="pairs", targets="average", **SMALL
    ),
    BoostedRanker(
        n_estimators=4, loss="exponential", balance="pairs", hessian="bound", subsample=0.6,
        subsample_by="query", random_state=0, **SMALL,
    ),
    BoostedRanker(n_estimators=3, loss="hinge", **SMALL),
    QBRank(n_estimators=4, **SMALL),
    RankBoost(n_estimators=4, weak_rankers=Trees(**SMALL)),
]  # fmt: skip


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("model", WITH_TREES, ids=str)
def test_trees_on_any_workers_and_partitions(clients, monkeypatch, model, workers):
    """With weights, some of them 0; queries scattered, and one list, split where it may be."""
    monkeypatch.setattr(tree_grower, "MAX_WIDE_CELLS", 1000 if workers == 2 else 1 << 19)
    X, y, qid = shuffled(GRADED.X, GRADED.y, GRADED.qid, seed=workers)
    X[::5, 2] = np.nan
    weight = weights(y.size)
    _, local = fit_both(clients[workers], model, UNEVEN, X, y, qid, weight)
    assert local.ensemble_.weak_rankers[0].n_leaves > 2
    two = (y > np.median(y)).astype(int)
    order = np.argsort(two, kind="stable")  # the first partitions hold one class only
    fit_both(clients[workers], model, 60, X[order], two[order], None, weight[order])


def test_trees_with_frames_evaluation_sets_early_stopping_and_callbacks(clients):
    names = list("abcdefg")
    frame = pd.DataFrame(GRADED.X, columns=names).assign(y=GRADED.y, q=GRADED.qid)
    monitored = {"eval_set": (frame[names][:80], frame.y[:80]), "eval_qid": frame.q[:80]}
    settings = {"n_estimators": 40, "early_stopping_rounds": 2, "learning_rate": 0.6, **SMALL}
    settings |= {"monotone_constraints": {"b": 1}, "interaction_constraints": [["a", "b"], ["c"]]}
    local = BoostedRanker(**settings).fit(frame[names], frame.y, qid=frame.q, **monitored)
    assert len(local.ensemble_) < 40
    table = dd.from_pandas(frame, npartitions=3)
    shown = []
    cluster = DaskBoostedRanker(
        **settings, callbacks=[lambda p: shown.append(p.ensemble.weak_rankers[-1].n_leaves)]
    )
    cluster.fit(table[names], table.y, qid=table.q, **monitored, client=clients[2])
    same(cluster, local)
    assert cluster.evals_result_ == local.evals_result_
    assert len(shown) == len(local.history_)
    scores = cluster.predict(table[names])
    assert np.array_equal(scores.compute(), local.predict(frame[names]))


def test_trees_go_on_after_a_fit_and_after_control_c(clients, tmp_path):
    X, y, qid = chunked(60, GRADED.X, GRADED.y, GRADED.qid)
    data = {"X": X, "y": y, "qid": qid, "client": clients[2]}
    settings = {"subsample": 0.7, "random_state": 0, **SMALL}
    local = BoostedRanker(n_estimators=7, **settings).fit(GRADED.X, GRADED.y, qid=GRADED.qid)
    model = DaskBoostedRanker(n_estimators=3, warm_start=True, **settings).fit(**data)
    same(model.set_params(n_estimators=7).fit(**data), local)
    model.save(tmp_path / "model.json")
    assert load(tmp_path / "model.json").ensemble_.weak_rankers == local.ensemble_.weak_rankers

    stopped = DaskBoostedRanker(n_estimators=7, callbacks=[interrupt], **settings)
    with pytest.warns(UserWarning, match="interrupted"):
        stopped.fit(**data)
    assert stopped.ensemble_.weak_rankers == local.ensemble_.weak_rankers[:3]


def test_trees_that_cannot_be_grown_on_a_cluster_are_refused(clients):
    X, y, qid = chunked(60, GRADED.X, GRADED.y, GRADED.qid)
    data = {"X": X, "y": y, "qid": qid, "client": clients[2]}
    with pytest.raises(ValueError, match="cannot be searched on a cluster"):
        DaskBoostedRanker(weak_rankers=LinearRegression()).fit(**data)
    with pytest.raises(ValueError, match="num_leaves=1"):
        DaskQBRank(num_leaves=1).fit(**data)

    class Squares(ScoreRisk):
        pass

    with pytest.raises(ValueError, match="cannot be minimized on a cluster"):
        DaskBoostedRanker(loss=Squares()).fit(**data)


FEW_BINS = {"max_bins": 9}
NAMED = [
    BoostedRanker(n_estimators=5, categorical_features=[1, 3], **SMALL, **FEW_BINS),
    BoostedRanker(
        n_estimators=4, categorical_features=[1, 3], loss="exponential", balance="pairs",
        subsample=0.7, random_state=0, **SMALL, **FEW_BINS,
    ),
    QBRank(n_estimators=4, categorical_features=[1, 3], **SMALL, **FEW_BINS),
    RankBoost(
        n_estimators=4, weak_rankers=Trees(categorical_features=[3], **SMALL), **FEW_BINS
    ),
    GlassBoxRanker(
        n_estimators=4, pair_estimators=4, interactions=[(0, 3)], categorical_features=[1, 3],
        validation_fraction=0, **FEW_BINS,
    ),
]  # fmt: skip


@pytest.mark.parametrize("model", NAMED, ids=str)
def test_categories_on_a_cluster_are_those_in_memory(clients, model):
    """Some missing, most without a separate bin, weighted; new categories in prediction."""
    X, y, qid, weight, later = with_categories()
    for rows in ((X, y, qid, weight), (X, (y > 0).astype(int), None, weight)):
        cluster, local = fit_both(clients[2], model, (1, 99, 150, y.size - 250), *rows)
        assert splits_on_categories(local)
        assert np.array_equal(cluster.predict(later), local.predict(later))


def test_categories_of_frames_on_a_cluster(clients):
    """By name, as numbers; with new categories in the evaluation set, and a warm start."""
    X, y, qid, _, later = with_categories()
    names = list("abcd")
    frame = pd.DataFrame(X, columns=names).assign(y=y, q=qid)
    monitored = {
        "eval_set": (pd.DataFrame(later, columns=names), y[::3]),
        "eval_qid": qid[::3],
    }
    settings = {"categorical_features": ["b", "d"], **SMALL}
    local = BoostedRanker(n_estimators=5, **settings).fit(frame[names], y, qid=qid, **monitored)
    table = dd.from_pandas(frame, npartitions=3)
    data = {"X": table[names], "y": table.y, "qid": table.q, "client": clients[2]}
    cluster = DaskBoostedRanker(n_estimators=5, **settings).fit(**data, **monitored)
    same(cluster, local)
    assert cluster.evals_result_ == local.evals_result_
    cluster = DaskBoostedRanker(n_estimators=2, warm_start=True, **settings).fit(**data)
    cluster.set_params(n_estimators=5).fit(**data)
    assert cluster.ensemble_.weak_rankers == local.ensemble_.weak_rankers


def test_categories_that_cannot_be_used_on_a_cluster_are_refused(clients):
    X, y, _, _, _ = with_categories()
    arrays = chunked(100, X, y)
    cases = [
        ({"categorical_features": [0]}, "column 0 is a categorical feature with values from -"),
        ({"categorical_features": [4]}, "names column 4, but there are 4"),
        ({"categorical_features": ["b"]}, "X has no column names"),
        ({"categorical_features": [1], "monotone_constraints": {1: 1}}, "column 1 has categories"),
        ({"categorical_features": [1], "weak_rankers": "stumps"}, "is for trees"),
    ]
    for options, message in cases:
        with pytest.raises(ValueError, match=message):
            DaskBoostedRanker(**options).fit(*arrays, client=clients[2])
    colors = np.array(["a", "b", "c"])[np.arange(y.size) % 3]
    frame = pd.DataFrame({"size": X[:, 0], "color": pd.Categorical(colors)})
    with pytest.raises(ValueError, match=r"'color' are not numbers; number .* in all blocks"):
        DaskBoostedRanker().fit([dask.delayed((frame, y))], client=clients[2])
    model = BoostedRanker(n_estimators=2, warm_start=True, **SMALL).fit(frame, y)
    cluster = DaskBoostedRanker(**model.get_params(deep=False))
    cluster.__dict__.update({name: each for name, each in vars(model).items() if name[-1] == "_"})
    parts = [dask.delayed((X[:, :2], y))]
    with pytest.raises(ValueError, match="categories of 'color' in data frames"):
        cluster.set_params(n_estimators=4).fit(parts, client=clients[2])
    assert not cluster.set_params(warm_start=False).fit(parts, client=clients[2]).categories_


RESUMED = [
    RankBoost(n_estimators=9),
    SmoothMarginRanker(n_estimators=9),
    BoostedRanker(n_estimators=7, subsample=0.7, random_state=0, **SMALL),
]


@pytest.mark.filterwarnings("ignore:.*separate:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("model", RESUMED, ids=str)
def test_a_checkpoint_is_resumed_on_the_cluster_and_locally(clients, tmp_path, model):
    X, y = chunked(60, TWO.X, TWO.y)
    local = clone(model).fit(TWO.X, TWO.y)
    cluster = on_dask(model)
    rounds = []

    def stop(progress):
        rounds.append(progress.round)
        return progress.round == 4

    saved = Checkpoint(tmp_path / "fit.json", every=3)
    cluster.set_params(callbacks=[stop]).fit(X, y, checkpoint=saved, client=clients[2])
    assert len(cluster.ensemble_) == 4
    resumed_locally = clone(model).fit(TWO.X, TWO.y, checkpoint=saved.path)
    same(resumed_locally, local)
    saved.path.unlink()
    clone(model).set_params(callbacks=[lambda p: p.round == 5]).fit(
        TWO.X, TWO.y, checkpoint=saved.path
    )
    rounds.clear()
    cluster.set_params(callbacks=[lambda p: rounds.append(p.round)])
    same(cluster.fit(X, y, checkpoint=saved.path, client=clients[4]), local)
    assert rounds == [*range(6, len(local.history_) + 1)]  # and not the first five again
    with pytest.raises(ValueError, match="it was made from other data"):
        cluster.fit(X + 0.01, 1 - y, checkpoint=saved.path, client=clients[2])


def test_invalid_checkpoints_are_refused(clients, tmp_path):
    X, y = chunked(60, TWO.X, TWO.y)
    path = tmp_path / "fit.json"
    with pytest.raises(ValueError, match="cannot be resumed; leave checkpoint out"):
        DaskConvexRiskRanker().fit(X, y, checkpoint=path, client=clients[2])
    with pytest.raises(ValueError, match="warm_start=True and a checkpoint"):
        DaskRankBoost(warm_start=True).fit(X, y, checkpoint=path, client=clients[2])
    DaskRankBoost(n_estimators=2).fit(X, y, checkpoint=path, client=clients[2])
    with pytest.raises(ValueError, match="was made with step='exact'"):
        DaskRankBoost(n_estimators=4, step="bound").fit(X, y, checkpoint=path, client=clients[2])


def test_an_interrupted_fit_on_a_cluster_leaves_its_last_round(clients, tmp_path):
    X, y = chunked(90, TWO.X, TWO.y)
    path = tmp_path / "fit.json"
    with pytest.warns(UserWarning, match="interrupted"):
        DaskRankBoost(n_estimators=9, callbacks=[interrupt]).fit(
            X, y, checkpoint=path, client=clients[2]
        )
    resumed = DaskRankBoost(n_estimators=9).fit(X, y, checkpoint=path, client=clients[2])
    same(resumed, RankBoost(n_estimators=9).fit(TWO.X, TWO.y))


WITH_PAIRS = [
    RankBoost(n_estimators=6),
    RankBoost(n_estimators=4, select="decrease", balance="queries"),
    PushRanker(n_estimators=4, price=4),
    PushRanker(n_estimators=3, loss="logistic", price=2),
    ConvexRiskRanker(tol=0.1, radius=1.0),
    BoostedRanker(n_estimators=4, **SMALL),
    BoostedRanker(n_estimators=3, price=2, **SMALL),
    QBRank(n_estimators=3, **SMALL),
]


@pytest.mark.parametrize("model", WITH_PAIRS, ids=str)
@pytest.mark.filterwarnings("ignore:.*few for price:UserWarning")
@pytest.mark.filterwarnings("ignore:.*separate:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::precede.boosting.steps.SmoothedStepWarning")
@pytest.mark.parametrize("some", ["everywhere", "on one machine", "and few grades"])
def test_explicit_pairs(clients, model, some):
    """Within and between queries; some workers have no explicit pair, or only explicit pairs."""
    X, y, qid = shuffled(GRADED.X, GRADED.y, GRADED.qid)
    y = np.where((qid > 3) if some == "and few grades" else (qid % 5 == 1), 1, y)
    rng = np.random.default_rng(0)
    near = qid // 4  # pairs join neighbors, so that there are some blocks
    pairs = rng.integers(0, y.size, (4000, 2))
    pairs = pairs[(pairs[:, 0] != pairs[:, 1]) & (near[pairs[:, 0]] == near[pairs[:, 1]])][:150]
    if some == "on one machine":
        pairs = pairs[near[pairs[:, 0]] == 1]
    explicit = {"pairs": pairs, "pair_weight": weights(len(pairs), seed=1)}
    for workers in (1, 4):
        fit_both(clients[workers], model, UNEVEN, X, y, qid, weights(y.size), **explicit)


def test_explicit_pairs_without_queries_or_grades(clients):
    X = GRADED.X
    pairs = np.random.default_rng(0).integers(0, len(X), (90, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    for model in (RankBoost(n_estimators=4), BoostedRanker(n_estimators=4)):
        fit_both(clients[2], model, 50, X, None, pairs=pairs)
    model, pairs = RankBoost(n_estimators=4), [[3, 4], [5, 3]]
    cluster, _ = fit_both(clients[2], model, 70, TWO.X, TWO.y, pairs=pairs)
    assert cluster.classes_ is None


def test_invalid_explicit_pairs_are_refused(clients):
    X, y = chunked(70, TWO.X, TWO.y)
    fit = DaskRankBoost().fit
    with pytest.raises(ValueError, match="pair_weight is given without pairs"):
        fit(X, y, pair_weight=[1.0], client=clients[2])
    with pytest.raises(ValueError, match=r"compute\(\) them first"):
        fit(X, y, pairs=da.zeros((2, 2)), client=clients[2])
    with pytest.raises(ValueError, match="240"):
        fit(X, y, pairs=[[0, 240]], client=clients[2])


def test_what_only_some_algorithms_have_is_there(clients):
    model = ConvexRiskRanker(tol=0.05, radius=1.0)
    cluster, local = fit_both(clients[2], model, 70, TWO.X, TWO.y)
    assert cluster.gap_ == local.gap_
    monitored = {"eval_set": (TWO.X[:60], 1 - TWO.y[:60])}  # the first round is best
    for patience, also in ((None, {}), (2, monitored)):
        model = PushRanker(price=2, n_estimators=3, early_stopping_rounds=patience)
        cluster, local = fit_both(clients[2], model, 70, TWO.X, TWO.y, **also)
        assert len(local.ensemble_) == (3 if patience is None else 1)
        assert cluster.effective_losers_ == local.effective_losers_


def test_frames_evaluation_sets_early_stopping_and_callbacks(clients):
    names = list("abcdefg")
    frame = pd.DataFrame(GRADED.X, columns=names).assign(
        y=GRADED.y, q=[f"q{q}" for q in GRADED.qid]
    )
    monitored = {"eval_set": (frame[names][:80], frame.y[:80]), "eval_qid": frame.q[:80]}
    settings = {"n_estimators": 60, "early_stopping_rounds": 3, "eval_metric": ["ndcg@5", "map"]}
    shown = []
    local = RankBoost(**settings).fit(frame[names], frame.y, qid=frame.q, **monitored)
    table = dd.from_pandas(frame, npartitions=3)
    cluster = DaskRankBoost(
        **settings, callbacks=[lambda p: shown.append((p.round, len(p.ensemble)))]
    )
    cluster.fit(table[names], table.y, qid=table.q, **monitored, client=clients[2])
    same(cluster, local)
    assert cluster.evals_result_ == local.evals_result_
    assert cluster.best_iteration_ == local.best_iteration_
    assert list(cluster.feature_names_in_) == names
    assert shown == [(j + 1, j + 1) for j in range(len(local.history_))]
    scores = cluster.predict(table[names])
    assert np.array_equal(scores.compute(), local.predict(frame[names]))

    stopped = DaskRankBoost(n_estimators=9, callbacks=[lambda p: p.round == 4])
    stopped.fit(table[names], table.y, qid=table.q, client=clients[2])
    assert (len(stopped.ensemble_), stopped.stop_reason_) == (4, "stopped by a callback")


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
    def press(progress):
        if progress.round == 3:
            signal.raise_signal(signal.SIGINT)

    local = RankBoost(n_estimators=3).fit(TWO.X, TWO.y)
    for callback in (interrupt, press):
        model = DaskRankBoost(n_estimators=9, callbacks=[callback])
        with pytest.warns(UserWarning, match="interrupted"):
            model.fit(*chunked(90, TWO.X, TWO.y), client=clients[2])
        assert model.ensemble_.weights == local.ensemble_.weights


def test_invalid_input_is_refused(clients):
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
        DaskRankBoost(weak_rankers="columns").fit(X, y, client=two)
    with pytest.raises(ValueError, match="give a number instead of 'cv'"):
        DaskConvexRiskRanker(radius="cv").fit(X, y, client=two)
    with pytest.raises(ValueError, match="give a number instead of 'cv'"):
        DaskPushRanker(price="cv").fit(X, y, client=two)
    with pytest.raises(ValueError, match="n_estimators=0"):
        DaskRankBoost(n_estimators=0).fit(X, y, client=two)
    with pytest.raises(ValueError, match="early_stopping_rounds=3 needs an evaluation set"):
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
    with pytest.raises(ValueError, match="not those of the model to continue from"):
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


def test_unknown_chunk_sizes_and_sparse_blocks(clients):
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
    """Number of data, actors and threads of this package on the workers."""
    ours = [each for each in threading.enumerate() if each.name.startswith("precede")]
    seen = client.run(lambda dask_worker: len(dask_worker.data) + len(dask_worker.state.actors))
    return sum(seen.values()) + len(ours)


def wait_until_nothing_is_held(client):
    end = time.monotonic() + PATIENCE
    while held(client) and time.monotonic() < end:
        time.sleep(0.05)
    assert held(client) == 0


def test_no_data_stays_on_the_workers(clients):
    """However the fit ends, and while its exception, which refers to all frames, is alive."""
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
        if search._context.rank == 1:
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


def test_unsupported_grades_callbacks_and_clients_are_refused(clients):
    X, y = chunked(60, TWO.X, TWO.y)
    grades = pd.Categorical(TWO.y, categories=[1, 0], ordered=True)
    with pytest.raises(ValueError, match="ordered categorical, and other blocks"):
        DaskRankBoost().fit([dask.delayed((TWO.X, grades))], client=clients[2])
    if has_callbacks:
        from sklearn.callback import ProgressBar

        model = DaskRankBoost().set_callbacks(ProgressBar())
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


@pytest.mark.parametrize(
    "here",
    [
        RankBoost(n_estimators=25),
        BoostedRanker(n_estimators=14, subsample=0.8, random_state=0, **SMALL),
    ],
    ids=str,
)
def test_a_killed_worker_does_not_change_the_model(here):
    """Three processes, one of which is killed during a fit and not restarted."""
    X, y, qid = shuffled(GRADED.X, GRADED.y, GRADED.qid)
    local = clone(here).fit(X, y, qid=qid)
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

        model = on_dask(here, callbacks=[kill])
        model.fit(*arrays[:2], qid=arrays[2], client=client)
        assert killed
    same(model, local)


@pytest.mark.parametrize("direct", [False, True])
def test_a_killed_scheduler_ends_the_fit_within_seconds(direct, tmp_path):
    X, y, qid = shuffled(GRADED.X, GRADED.y, GRADED.qid)
    arrays, known = chunked(50, X, y, qid), tmp_path / "scheduler.json"
    run = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0"]
    more = ["--no-dashboard", "--scheduler-file", str(known)]
    scheduler = subprocess.Popen(
        [*run, *more], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    run = [sys.executable, "-m", "distributed.cli.dask_worker", "--no-nanny", "--nthreads", "1"]
    worker = subprocess.Popen([*run, *more], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    when = []

    def kill(progress):
        if progress.round == 3:
            when.append(time.monotonic())
            scheduler.kill()
            scheduler.wait()

    try:
        deadline = time.monotonic() + PATIENCE
        while not known.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        with dask.config.set(PATIENT):
            client = Client(scheduler_file=str(known), direct_to_workers=direct)
            client.wait_for_workers(1, timeout=PATIENCE)
            model = DaskRankBoost(n_estimators=10**6, callbacks=[kill])
            with pytest.raises(RuntimeError, match="connection to the scheduler is lost"):
                model.fit(*arrays[:2], qid=arrays[2], client=client)
            assert time.monotonic() - when[0] < 20
            client.close(timeout=1)
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()


FEW_ROUNDS = {"n_estimators": 6, "pair_estimators": 6, "min_child_samples": 3, "pair_bins": 8}
GLASS = {
    "trials": {"interactions": 2},
    "bags": {"interactions": [(0, 1)], "bags": 2, "random_state": 3, "validation_fraction": 0},
    "monitored bags": {
        "interactions": [(0, 1)],
        "bags": 2,
        "loss": "query_rmse",
        "learning_rate": 1.0,
        "n_estimators": 12,
    },
    "few terms": {"interactions": 2, "max_terms": 2, "validation_fraction": 0},
    "cyclic": {"interactions": 1, "selection": "cyclic", "heredity": "weak", "loss": "exponential"},
}


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("name", GLASS)
def test_glass_boxes_on_any_workers_and_partitions(clients, name, workers):
    X, y, qid = shuffled(GRADED.X, GRADED.y, GRADED.qid, seed=workers)
    X[::5, 2] = np.nan
    model = GlassBoxRanker(**{**FEW_ROUNDS, **GLASS[name]})
    cluster, local = fit_both(clients[workers], model, UNEVEN, X, y, qid, weights(y.size))
    pairs = any(len(term.features) == 2 for term in local.terms_)
    assert pairs or name in ("trials", "cyclic", "monitored bags")
    assert cluster.pair_strengths_ == local.pair_strengths_
    assert cluster.dropped_pairs_ == local.dropped_pairs_
    assert cluster.sparsity_cost_ == local.sparsity_cost_
    assert cluster.cyclic_ == local.cyclic_


def test_a_glass_box_of_one_list_and_of_few_queries(clients):
    X, y, qid = shuffled(GRADED.X, GRADED.y, GRADED.qid)
    model = GlassBoxRanker(interactions=2, **FEW_ROUNDS)
    fit_both(clients[2], model, UNEVEN, X, y)
    few = np.isin(qid, np.unique(qid)[:5])
    fit_both(clients[4], model, 20, X[few], y[few], qid[few])


@pytest.mark.parametrize("grouped", [False, True])
def test_glass_boxes_of_two_classes_by_log_loss(clients, grouped):
    X, y, qid = shuffled(GRADED.X, (GRADED.y > 1).astype(int), GRADED.qid)
    options = {"interactions": [(0, 1)], "loss": "query_cross_entropy", "bags": 2, **FEW_ROUNDS}
    fit_both(clients[2], GlassBoxRanker(**options), UNEVEN, X, y, qid if grouped else None)


def test_a_glass_box_monitors_an_evaluation_set(clients):
    X, y, qid = shuffled(GRADED.X, GRADED.y, GRADED.qid)
    options = {"interactions": [(0, 1)], "validation_fraction": 0, **FEW_ROUNDS}
    model = GlassBoxRanker(early_stopping_rounds=3, **options)
    monitored = {"eval_set": (X[:60], y[:60]), "eval_qid": qid[:60]}
    cluster, local = fit_both(clients[2], model, UNEVEN, X, y, qid, **monitored)
    assert cluster.evals_result_ == local.evals_result_


def test_unsupported_options_of_glass_boxes_are_refused(clients):
    X, y = chunked(UNEVEN, GRADED.X, GRADED.y)
    with pytest.raises(ValueError, match="column 9"):
        DaskGlassBoxRanker(interactions=[(0, 9)]).fit(X, y, client=clients[1])
    with pytest.raises(ValueError, match="pairs"):
        DaskGlassBoxRanker().fit(X, y, pairs=[(0, 1)], client=clients[1])
