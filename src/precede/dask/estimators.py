"""The estimators on a Dask cluster: the model of the local ones, bit for bit.

Rows are scattered in blocks, one for each worker, and every worker runs the loop on its block
(see `precede.dask.driver`). Per round there travel one histogram up and one stump down (for
a tree, a histogram and a split for every split) and some numbers of eight bytes; scores never leave
the workers. A query is never split; a single list is, where the loss is exponential, because then
its sums by grade are all that is needed.

Dask is imported when something is fitted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import check_random_state

from precede.algorithms.boosted import BoostedRanker
from precede.algorithms.convex_risk import ConvexRiskRanker
from precede.algorithms.glass_box import GlassBoxRanker
from precede.algorithms.push import PushRanker
from precede.algorithms.qbrank import QBRank
from precede.algorithms.rankboost import RankBoost
from precede.algorithms.smooth_margin import SmoothMarginRanker
from precede.boosting.checkpoint import Checkpoint
from precede.boosting.history import History, Monitor, Progress, Scoring
from precede.boosting.loop import asked_to_stop
from precede.boosting.progress import ProgressBar
from precede.dask.blocks import GlobalTotals, Listed, Rows, Scattered, arranged, partitions, scatter
from precede.dask.driver import ClusterContext, SpmdDriver, WorkerSession
from precede.engine.arrays import Array, Floats
from precede.engine.cuda import DEVICES, device_of_machine
from precede.engine.execution import Context, count_jobs
from precede.engine.parameters import asked
from precede.engine.table import Bins, Table
from precede.engine.training_data import TrainingData
from precede.estimator import BaseRanker, FitContext, described_parameters, restore_on_failure
from precede.judgments import Judgments
from precede.losses import PairLoss, Price
from precede.model import Ensemble
from precede.risks.base import Risk
from precede.risks.mixture import QuadraticMixture
from precede.risks.pair_risk import PairRisk
from precede.risks.score_risk import risk_of
from precede.weak_rankers.base import Family, WeakRanker
from precede.weak_rankers.regressors import learner

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "DaskBoostedRanker",
    "DaskConvexRiskRanker",
    "DaskGlassBoxRanker",
    "DaskPushRanker",
    "DaskQBRank",
    "DaskRankBoost",
    "DaskSmoothMarginRanker",
    "PairObjective",
]


# -- estimators ------------------------------------------------------------------------------


class _OnDask(BaseRanker):
    """What the estimators here add to those they are named after."""

    _local: type[BaseRanker]
    # Whether a fit without a seed draws as no fit before it.
    _draws_anew: bool = True
    # Whether listed pairs can be learned from.
    _takes_pairs: bool = True
    # Whether nothing is searched but the family `weak_rankers`.
    _only_family: bool = True

    @restore_on_failure
    def fit(  # type: ignore[override]  # no pairs, groups or checkpoints on a cluster
        self,
        X: Any,
        y: Any = None,
        *,
        qid: Any = None,
        sample_weight: Any = None,
        pairs: ArrayLike | None = None,
        pair_weight: ArrayLike | None = None,
        eval_set: Any = None,
        eval_qid: Any = None,
        eval_group: Any = None,
        checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
        client: Any = None,
    ) -> Self:
        """Learn to rank from rows on the workers of a cluster.

        Parameters
        ----------
        X : dask DataFrame, dask array, or list of delayed partitions
            A delayed partition gives (X, y), (X, y, qid) or (X, y, qid, sample_weight).
        y, qid, sample_weight : dask Series or arrays with the partitions of X
            Numbers, identifiers and numbers. The rows of a query may be in any partitions.
        pairs : array of shape (m, 2) of rows (winner, loser), in the memory of the client
            Rows are counted from the first of the first partition. Queries that pairs join stay
            on one worker, and so do all rows if there are no queries. With pairs y may be absent.
        pair_weight : array of m numbers
        eval_set : (X, y) or list of (X, y), looked at after every round by the client, and so
            brought into its memory
        eval_qid, eval_group : as for the local estimator
        checkpoint : path or Checkpoint; the client writes rounds there, and a fit that finds them
            goes on from them, on a cluster or locally, to an equal model
        client : dask.distributed.Client, optional
            Otherwise the current one, or a cluster on this machine for the time of the fit.
        """
        saved = self._checkpoint(checkpoint)
        listed = _listed(pairs, pair_weight)
        if listed is not None and not self._takes_pairs:
            raise ValueError(
                f"{type(self).__name__} does not learn from listed pairs; give grades, or use "
                f"{self._local.__name__}"
            )
        with _client(client) as leader:
            self._check_distributable()
            delayed = partitions(X, y, qid, sample_weight, graded=listed is None)
            with (
                scatter(leader, delayed, self, listed) as scattered,
                Context(self.n_jobs) as context,
            ):
                sets, qids, groups = _computed((eval_set, eval_qid, eval_group))
                monitors = self._monitors(
                    sets, qids, groups, scattered.bins, context, queries=scattered.has_queries
                )
                fitted = self._converse(leader, scattered, monitors, saved)
        self.__dict__.update(fitted, has_queries_=scattered.has_queries)
        return self

    def _check_distributable(self) -> None:
        """Refuse what cannot be fitted on a cluster."""
        self.check_parameters()
        _check_family(self.weak_rankers)
        self._check_device()
        if chosen := asked(self):
            raise ValueError(
                f"{chosen[0]}='auto' holds out rows, which is not done on a cluster; give a "
                f"number, such as {self._local.__name__} chooses on a sample (selection_)"
            )
        if self._averaged > 1:
            raise ValueError(f"bags={self._averaged} draws rows, which is not done on a cluster")
        if self._needs_rows():
            raise ValueError(
                f"{type(self).__name__} cannot cross-validate on a cluster; give a number instead "
                f"of 'cv', which {self._local.__name__} finds on a sample"
            )
        if not self._risk().distributable:
            raise ValueError(f"{self._risk()!r} cannot be minimized on a cluster; use PairRisk")
        if getattr(self, "_skl_callbacks", None):
            raise ValueError(
                "callbacks set by set_callbacks cannot follow a fit on a cluster; use the "
                "parameter callbacks instead"
            )

    def _check_device(self) -> None:
        """Refuse a device that is unknown or would not be used."""
        if self.device not in DEVICES:
            raise ValueError(f"device={self.device!r} is unknown; use one of {DEVICES}")
        used = self._only_family and learner(self.weak_rankers).on_own_devices
        if self.device != "cpu" and not used:
            raise ValueError(
                f"device={self.device!r} on a cluster is for trees; use device='cpu', or "
                f"{self._local.__name__} on one machine"
            )

    def _take_features(self, count: int, names: list[str] | None) -> None:
        """Remember number and names of the features, or compare them with the last fit's."""
        known = getattr(self, "feature_names_in_", None)
        going_on = self.warm_start and hasattr(self, "ensemble_")
        self._forget_categories(reset=not going_on)
        if not going_on:
            self.n_features_in_ = count
            self.__dict__.pop("feature_names_in_", None)
            if names is not None:
                self.feature_names_in_ = np.array(names, object)
        elif count != self.n_features_in_:
            raise ValueError(
                f"the model to continue from has {self.n_features_in_} features, and X has {count}"
            )
        elif names is not None and known is not None and names != list(known):
            raise ValueError(
                "the columns of X are not those of the model to continue from, in their order: "
                f"{', '.join(known[:5])}, ..."
            )

    def _converse(
        self,
        client: Any,
        scattered: Scattered,
        monitors: list[tuple[Monitor, dict[str, bool]]],
        saved: Checkpoint | None,
    ) -> dict[str, Any]:
        model = self.to_local()
        rounds = None if saved is None else _SavedRounds.read(saved, model)
        if not self.warm_start:
            model = clone(model)
        seeded = "random_state" in model.get_params(deep=False) and self._draws_anew
        if seeded and model.random_state is None:
            model.random_state = check_random_state(None).randint(2**31)  # the same for all
        monitored = [(each.name, list(each.metrics), better) for each, better in monitors]
        spec = _Spec(
            model.set_params(callbacks=None, verbose=0),
            scattered.bins,
            scattered.facts,
            scattered.classes,
            monitored,
            self.n_features_in_,
            getattr(self, "feature_names_in_", None),
            self.n_jobs,
            bool(self.callbacks) or self.verbose > 0 or saved is not None,
            rounds,
        )
        done = len(getattr(self, "history_", ())) if self.warm_start else 0
        if rounds is not None:
            done = rounds.count
        name = type(self).__name__
        with ProgressBar(name, rounds=self.n_estimators, done=done, verbose=self.verbose) as bar:
            callbacks: list[Callable[..., Any]] = list(bar.callbacks(self.callbacks))
            if saved is not None:
                callbacks.append(saved)
            leader = _Leader([each for each, _ in monitors], callbacks)
            services: dict[str, Callable[[Any], Any]] = {
                "look": leader.look,
                "report": leader.report,
            }
            launch = _Launcher(client, scattered, spec)
            try:
                return SpmdDriver(launch, len(scattered.blocks), services, launch.why_lost).run()
            finally:
                if saved is not None:
                    saved.finish()

    def _needs_rows(self) -> bool:
        """Whether rows would have to be picked, as for cross-validation."""
        return False

    def _risk(self) -> Risk:
        """What is minimized."""
        return PairRisk("exponential", balance=self.balance)

    def _splits_a_list(self) -> bool:
        """Whether a single list may be scattered over several workers."""
        return self._risk().splits_a_list

    def predict(self, X: Any, *, num_iteration: int | None = None) -> Any:
        """Score every row: a dask array for dask collections, where they are; else an array."""
        if not _on_cluster(X):
            return super().predict(X, num_iteration=num_iteration)
        if num_iteration is not None:
            raise ValueError("num_iteration is for rows in memory; use to_local().predict")
        import dask.array as da  # noqa: PLC0415  (only on clusters)

        model = self.to_local().set_params(n_jobs=1)
        if hasattr(X, "map_partitions"):
            return X.map_partitions(_scores, model, meta=np.zeros(0))
        chunks, X = X.chunks[:1], X.rechunk({1: -1})
        return da.map_blocks(_scores, X, model, dtype=np.float64, drop_axis=1, chunks=chunks)

    def to_local(self) -> BaseRanker:
        """The same model as an estimator that knows nothing of clusters."""
        local = self._local(**self.get_params(deep=False))
        fitted = {name: each for name, each in vars(self).items() if name.endswith("_")}
        local.__dict__.update(fitted)
        return local

    def save(self, path: Any) -> None:
        """Write the model as the local estimator writes it; `precede.load` reads it back."""
        self.to_local().save(path)


def _on_cluster(X: Any) -> bool:
    """Whether something is a collection of dask."""
    return hasattr(X, "__dask_graph__")


def _scores(X: Any, model: BaseRanker) -> Floats:
    """Scores of one partition, which may be empty."""
    return model.predict(X) if X.shape[0] else np.zeros(0)


class DaskRankBoost(_OnDask, RankBoost):
    """`RankBoost` on a Dask cluster.

    Parameters and attributes are those of `RankBoost`; `n_jobs` are threads of each worker.

    Notes
    -----
    The model is equal to the local one, bit for bit, for any number of workers and any
    partitions. Without queries and with ``select="slope"`` nothing is shuffled. A round costs
    four messages between the client and each worker, and one more with callbacks or a progress
    bar.

    Examples
    --------
    >>> import dask.array as da
    >>> from dask.distributed import Client
    >>> from precede import RankBoost
    >>> from precede.dask import DaskRankBoost
    >>> from precede.datasets import two_normals
    >>> sample = two_normals(200, random_state=0)
    >>> X, y = (da.from_array(part, chunks=70) for part in (sample.X, sample.y))
    >>> with Client(processes=False, n_workers=2, dashboard_address=":0") as client:
    ...     model = DaskRankBoost(n_estimators=9).fit(X, y, client=client)
    >>> here = RankBoost(n_estimators=9).fit(sample.X, sample.y)
    >>> model.to_local().ensemble_.weights == here.ensemble_.weights
    True
    """

    _local = RankBoost

    def _splits_a_list(self) -> bool:
        return super()._splits_a_list() and self.select == "slope"

    def _risk(self) -> Risk:
        return PairRisk("exponential", balance=self.balance, rank_weight=self.rank_weight)


class DaskPushRanker(_OnDask, PushRanker):
    """`PushRanker` on a Dask cluster; see `DaskRankBoost`. ``price="cv"`` is refused.

    A single list is split between workers for the exponential loss and powers as price; it
    stays whole on one worker otherwise.
    """

    _local = PushRanker

    def _needs_rows(self) -> bool:
        return isinstance(self.price, str) and self.price == "cv"

    def _risk(self) -> Risk:
        return PairRisk(self.loss, self.price, balance=self.balance, rank_weight=self.rank_weight)


class DaskSmoothMarginRanker(_OnDask, SmoothMarginRanker):
    """`SmoothMarginRanker` on a Dask cluster; see `DaskRankBoost`."""

    _local = SmoothMarginRanker


class DaskConvexRiskRanker(_OnDask, ConvexRiskRanker):
    """`ConvexRiskRanker` on a Dask cluster; see `DaskRankBoost`. ``radius="cv"`` is refused.

    A single list is split between workers for the exponential loss; it stays whole on one
    worker otherwise.
    """

    _local = ConvexRiskRanker

    def _needs_rows(self) -> bool:
        return isinstance(self.radius, str)

    def _risk(self) -> Risk:
        return PairRisk(self._chosen_loss(), balance=self.balance)


class DaskBoostedRanker(_OnDask, BoostedRanker):
    """`BoostedRanker` on a Dask cluster; see `DaskRankBoost`.

    Trees, stumps and features are distributed; a regressor of scikit-learn's kind or a risk of
    your own is refused. A single list is split between workers for the exponential loss, powers
    as price and ``balance="pairs"``; it stays whole on one worker otherwise. With
    ``device="cuda"`` every worker grows trees on the GPU that it sees.

    Notes
    -----
    A split costs one message with the histogram of the smaller child from each worker, 16 bytes
    for each bin, and the best splits of both children back; a tree costs some ten messages of a
    few numbers more. The client keeps the histograms of the leaves of one tree.

    Examples
    --------
    >>> import dask.array as da
    >>> from dask.distributed import Client
    >>> from precede import BoostedRanker
    >>> from precede.dask import DaskBoostedRanker
    >>> from precede.datasets import search_results
    >>> sample = search_results(20, features=5, informative=3, per_query=20, random_state=0)
    >>> X, y, qid = (da.from_array(part, chunks=150) for part in (sample.X, sample.y, sample.qid))
    >>> with Client(processes=False, n_workers=2, dashboard_address=":0") as client:
    ...     model = DaskBoostedRanker(n_estimators=4).fit(X, y, qid=qid, client=client)
    >>> here = BoostedRanker(n_estimators=4).fit(sample.X, sample.y, qid=sample.qid)
    >>> model.ensemble_.weak_rankers == here.ensemble_.weak_rankers
    True
    """

    _local = BoostedRanker

    def _risk(self) -> Risk:
        return risk_of(self.loss, self.price, balance=self.balance, rank_weight=self.rank_weight)


class DaskGlassBoxRanker(_OnDask, GlassBoxRanker):
    """`GlassBoxRanker` on a Dask cluster; see `DaskBoostedRanker`.

    Curves, the search for pairs, trials on held-out queries and bootstrap samples run where the
    rows are; histograms of integers travel. A single list stays whole on one worker. Listed pairs
    and a risk of your own are refused.

    Examples
    --------
    >>> import dask.array as da
    >>> from dask.distributed import Client
    >>> from precede import GlassBoxRanker
    >>> from precede.dask import DaskGlassBoxRanker
    >>> from precede.datasets import search_results
    >>> sample = search_results(20, features=3, informative=2, per_query=10, random_state=0)
    >>> X, y, qid = (da.from_array(part, chunks=90) for part in (sample.X, sample.y, sample.qid))
    >>> options = {"n_estimators": 3, "pair_estimators": 2, "interactions": [(0, 1)]}
    >>> with Client(processes=False, n_workers=2, dashboard_address=":0") as client:
    ...     model = DaskGlassBoxRanker(**options).fit(X, y, qid=qid, client=client)
    >>> here = GlassBoxRanker(**options).fit(sample.X, sample.y, qid=sample.qid)
    >>> model.ensemble_.weak_rankers == here.ensemble_.weak_rankers
    True
    """

    _local = GlassBoxRanker
    _draws_anew = False
    _takes_pairs = False
    _only_family = False

    def _check_distributable(self) -> None:
        for name in ("n_features_in_", "feature_names_in_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        super()._check_distributable()

    def _take_features(self, count: int, names: list[str] | None) -> None:
        super()._take_features(count, names)
        self._pairs()  # refuses columns that are not there

    def _splits_a_list(self) -> bool:
        return False

    def _risk(self) -> Risk:
        return risk_of(self.loss, self.price, balance=self.balance)


class DaskQBRank(_OnDask, QBRank):
    """`QBRank` on a Dask cluster; see `DaskBoostedRanker`.

    A single list stays whole on one worker.
    """

    _local = QBRank

    def _risk(self) -> Risk:
        return QuadraticMixture(self.margin, float(self.weight), self.balance)


class PairObjective:
    """A pair risk as a custom objective of LightGBM's rankers, also of its Dask interface.

    Gives LightGBM the negative pull and the curvature of `PairRisk(loss, price)` at its scores,
    query by query: O(n) for the exponential loss, see `PairRisk` for others. Rows of a group
    must be consecutive, as LightGBM requires.

    Parameters
    ----------
    loss, price, balance : as for `PairRisk`

    Examples
    --------
    >>> import numpy as np
    >>> gradient, curvature = PairObjective()(
    ...     np.array([1, 0, 0]), np.zeros(3), None, np.array([3])
    ... )
    >>> gradient, curvature
    (array([-2.,  1.,  1.]), array([2., 1., 1.]))
    """

    def __init__(
        self,
        loss: str | PairLoss = "exponential",
        price: str | float | Price = "linear",
        balance: str = "pairs",
    ):
        self.loss, self.price, self.balance = loss, price, balance

    def __call__(
        self, y: Array, scores: Array, weight: Array | None, group: Array
    ) -> tuple[Array, Array]:
        """Gradient and curvature, as LightGBM asks for them."""
        qid = np.repeat(np.arange(len(group)), group)
        judgments = Judgments.graded(y, qid, weight=weight)
        bound = PairRisk(self.loss, self.price, balance=self.balance).bind(judgments)
        state = bound.state(np.asarray(scores, np.float64)[bound.layout.order])
        if state.log_gradient_sum == -np.inf:
            return np.zeros(y.size), np.zeros(y.size)
        mass = np.exp(state.log_gradient_sum)
        return -mass * bound.to_rows(state.pull), mass * bound.to_rows(bound.curvature(state))


def _listed(pairs: ArrayLike | None, weight: ArrayLike | None) -> Listed | None:
    if pairs is None:
        if weight is not None:
            raise ValueError("pair_weight is given without pairs; give both, or leave it out")
        return None
    if _on_cluster(pairs) or _on_cluster(weight):
        raise ValueError("pairs and pair_weight are collections of dask; compute() them first")
    return Listed(pairs, weight)


def _check_family(weak_rankers: str | Family) -> None:
    """Refuse a family whose search may not be spread over machines; see `Family`."""
    weak = learner(weak_rankers)
    if not weak.distributable:
        raise ValueError(
            f"weak_rankers={weak_rankers!r} cannot be searched on a cluster; use 'stumps', "
            "'features' or "
            "'trees' (or set distributable = True on a family of your own whose search adds up "
            "over all machines)"
        )


# -- the client's side -----------------------------------------------------------------------


class _Leader:
    """What only the client can do: look at evaluation sets, call the user's functions."""

    def __init__(self, monitors: list[Monitor], callbacks: list[Callable[[Progress], Any]]):
        self._monitors, self._callbacks = monitors, callbacks
        self._history, self._ensemble = History(), Ensemble([], [], 1)

    def look(self, given: tuple[int, list[tuple[Any, ...]]]) -> dict[str, float]:
        """Move the scores of an evaluation set as a worker says, and look at its metrics."""
        number, moves = given
        for what, *arguments in moves:
            getattr(self._monitors[number], what)(*arguments)
        return self._monitors[number].look()

    def report(
        self,
        given: tuple[list[dict[str, Any]], Ensemble | None, tuple[Any, ...] | None],
    ) -> bool:
        """Show a round to the callbacks; whether one of them says stop."""
        records, ensemble, added_ = given
        for record in records:
            self._history.append(**record)
        if ensemble is not None:
            self._ensemble = ensemble
        elif added_ is not None:
            self._ensemble.append(*added_)
        return asked_to_stop(self._callbacks, self._history, self._ensemble)


class _Launcher:
    """Puts the station of a block on a worker, and on another if that one is lost."""

    def __init__(self, client: Any, scattered: Scattered, spec: _Spec):
        self._client, self._scattered, self._spec = client, scattered, spec
        self._kept: dict[int, Any] = {}

    def __call__(self, rank: int) -> Any:
        future = self._client.submit(
            _station, self._scattered.blocks[rank], self._spec, rank, actor=True, pure=False,
            workers=[self._scattered.homes[rank]], allow_other_workers=True,
        )  # fmt: skip
        self._kept[rank] = future  # the actor lives as long as its future
        with self._client.as_current():  # whose way to the workers the actor takes
            return future.result()

    def why_lost(self) -> str:
        """Why no worker can be reached any more; "" while the scheduler is there."""
        if self._client.status == "running":
            return ""
        return (
            f"the connection to the scheduler is lost (the client is {self._client.status}); fit "
            "again on a cluster that is up, from a checkpoint if there is one"
        )


def _station(block: Rows, spec: _Spec, rank: int) -> WorkerSession:
    from distributed import get_worker  # noqa: PLC0415  (on a worker)

    threads = get_worker().state.nthreads if spec.n_jobs is None else count_jobs(spec.n_jobs)
    return WorkerSession(_fit_block, block, spec, ClusterContext(rank, threads))


@contextmanager
def _client(given: Any) -> Iterator[Any]:
    """The client to work with: the one given, the current one, or one for the time being."""
    try:
        from distributed import Client, default_client  # noqa: PLC0415  (only on clusters)
    except ImportError as error:
        raise ImportError(
            "precede.dask needs Dask; install it with pip install 'precede[dask]'"
        ) from error
    if given is not None:
        if given.asynchronous:
            raise ValueError(
                "the client is asynchronous, and fit waits for its answers; give one made with "
                "asynchronous=False"
            )
        yield given
        return
    try:
        current = default_client()
    except ValueError:  # there is none
        with Client(dashboard_address=":0", direct_to_workers=True) as made:
            yield made
        return
    yield current


# -- the workers' side -----------------------------------------------------------------------


@dataclass(frozen=True)
class _Spec:
    """What every worker is told: the estimator, the cuts, the facts, what is monitored."""

    model: BaseRanker
    bins: Bins
    facts: GlobalTotals
    classes: Array | None
    monitored: list[tuple[str, list[str], dict[str, bool]]]
    n_features: int
    names: Array | None
    n_jobs: int | None
    reported: bool  # whether somebody at the client looks at every round
    rounds: _SavedRounds | None = None  # of a checkpoint


def _fit_block(block: Rows, spec: _Spec, context: ClusterContext) -> dict[str, Any] | None:
    """Run the fit of the local estimator on one block, in step with the others."""
    model = clone(spec.model)
    if model.warm_start:
        model.__dict__.update(
            {name: each for name, each in vars(spec.model).items() if name.endswith("_")}
        )
    model.n_features_in_ = spec.n_features
    if spec.names is not None:
        model.feature_names_in_ = spec.names
    model.callbacks = [_Reporter(context)] if spec.reported else None
    model.n_jobs = context.jobs
    context.own_device = device_of_machine(model.device, context.rank)
    training = _training(block, spec, context)
    monitors = [
        (cast(Monitor, _RemoteMonitor(context, number, name, metrics)), better)
        for number, (name, metrics, better) in enumerate(spec.monitored)
    ]
    judgments = block.judgments()
    task = FitContext(None, judgments, spec.classes, training, monitors, spec.rounds)
    model._keep(model._boost(task), task)
    if context.rank > 0:
        return None
    return {name: each for name, each in vars(model).items() if name.endswith("_")}


def _training(block: Rows, spec: _Spec, context: ClusterContext) -> TrainingData:
    layout = arranged(block, spec.facts)
    table = Table.like(block.X, spec.bins, order=layout.order, context=context)
    codes_only = learner(spec.model.weak_rankers).codes_only
    training = TrainingData.ordered(table, layout, context, by_value=not codes_only)
    resumed = spec.model.warm_start or (spec.rounds is not None and spec.rounds.count > 0)
    if not resumed and codes_only:
        training.table.X = None  # thresholds of this fit are cuts: codes tell all
    return training


class _SavedRounds(Checkpoint):
    """Rounds of a checkpoint that the client has read; on the workers nothing is written."""

    def __init__(self, path: Path, fields: dict[str, Any] | None):
        super().__init__(path)
        self._fields = fields

    @classmethod
    def read(cls, saved: Checkpoint, model: BaseRanker) -> _SavedRounds:
        """What the file of a checkpoint holds for this model, checked as in a local fit."""
        return cls(saved.path, saved.begin(type(model).__name__, described_parameters(model)))

    @property
    def count(self) -> int:
        """Number of rounds."""
        history = None if self._fields is None else self._fields.get("history")
        return len(history) if isinstance(history, list) else 0

    def begin(self, estimator: str, parameters: dict[str, Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """What the client has read."""
        return self._fields

    def __call__(self, progress: Progress) -> None:
        """Leave the writing to the client."""


class _Reporter:
    """A callback that shows every round to the client."""

    def __init__(self, context: ClusterContext):
        self._context = context
        self._rounds = 0
        self._weights: list[float] = []

    def __call__(self, progress: Progress) -> bool:
        """Send what is new: the last round, the last ranker, or all where others changed."""
        records = list(progress.history)[self._rounds :]
        weights = progress.ensemble.weights
        whole, added_ = None, None
        if self._rounds and weights[:-1] == self._weights:
            added_ = (progress.ensemble.weak_rankers[-1], weights[-1])
        else:
            whole = progress.ensemble.first(len(weights))
        self._rounds, self._weights = len(progress.history), list(weights)
        return self._context.serve("report", (records, whole, added_))


class _RemoteMonitor:
    """An evaluation set that the client holds."""

    def __init__(self, context: ClusterContext, number: int, name: str, metrics: list[str]):
        self.name = name
        self.metrics = dict.fromkeys(metrics)
        self._context, self._number = context, number
        self._moves: list[tuple[Any, ...]] = []

    def advance(self, ranker: WeakRanker, weight: float) -> None:
        """Add one ranker to the scores, before they are looked at."""
        self._moves.append(("advance", ranker, weight))

    def shrink(self, factor: float) -> None:
        """Multiply the scores, before they are looked at."""
        self._moves.append(("shrink", factor))

    def restart(self, model: Scoring) -> None:
        """Begin at the scores of a model, before they are looked at."""
        self._moves = [("restart", model)]

    def look(self) -> dict[str, float]:
        """Values of the metrics, from the client."""
        moves, self._moves = self._moves, []
        return self._context.serve("look", (self._number, moves))


def _computed(given: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    """Evaluation sets in the memory of the client."""
    import dask  # noqa: PLC0415  (only on clusters)

    return dask.compute(*given)
