"""Estimators on a Dask cluster; models are equal to those of the local estimators, bit for bit.

Each worker gets one block of rows and runs the boosting loop on it (see `precede.dask.driver`).
Per round, workers send one histogram and receive one stump (for a tree, one histogram and one
split per split), besides a few numbers; scores never leave the workers. A query is never split. A
single list is split for the exponential loss, which needs only sums by grade.

Dask is imported by the first fit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import check_random_state

from precede.algorithms.boosted import BoostedRanker, QBRank
from precede.algorithms.convex_risk import ConvexRiskRanker
from precede.algorithms.glass_box import GlassBoxRanker
from precede.algorithms.push import PushRanker
from precede.algorithms.rankboost import RankBoost
from precede.algorithms.smooth_margin import SmoothMarginRanker
from precede.boosting.callbacks import Checkpoint, ProgressBar, fitted_attributes
from precede.boosting.loop import History, Progress, asked_to_stop
from precede.boosting.monitors import Monitor, MonitoredMetric, Scoring
from precede.dask.blocks import (
    GlobalTotals,
    RowBlock,
    ScatteredRows,
    block_layout,
    partitions,
    scatter,
)
from precede.dask.driver import ClusterContext, Session, SpmdDriver, WorkerSession
from precede.engine.arrays import Array, Floats, Json, MatrixLike, VectorLike
from precede.engine.backend import check_device, open_backend_of_worker
from precede.engine.execution import Context, count_jobs
from precede.engine.parameters import find_auto_parameters
from precede.engine.query_layout import TrainingData
from precede.engine.table import Bins, Table
from precede.estimator import BaseRanker, FitContext, described_parameters, restore_on_failure
from precede.estimator.inputs import evaluation_monitors, forget_categories
from precede.judgments import Judgments
from precede.losses import PairLoss, Price
from precede.model import Ensemble
from precede.risks.pair_risk import PairRisk
from precede.weak_rankers.base import WeakRanker
from precede.weak_rankers.regressors import learner
from precede.weak_rankers.tree_grower import Trees

if TYPE_CHECKING:
    from distributed import Client, Future
    from typing_extensions import Self

MonitorUpdate = Callable[[Monitor], object]  # a call of one of its methods
EvaluationSets = tuple[MatrixLike, VectorLike, VectorLike]  # eval_set, eval_qid and eval_group


# -- estimators ------------------------------------------------------------------------------


class _DaskRanker(BaseRanker):
    """Base class that fits a local estimator (`_local_class`) on a Dask cluster."""

    _local_class: ClassVar[type[BaseRanker]]
    _supports_pairs: ClassVar[bool] = True  # whether it learns from explicit pairs
    _splits_lists: ClassVar[bool] = True  # whether a list may be split if the risk allows it
    _grows_on_gpu: ClassVar[bool] = True  # whether trees can be grown on GPUs

    @restore_on_failure
    def fit(  # type: ignore[override]  # no group or init_score on a cluster
        self,
        X: MatrixLike,
        y: VectorLike = None,
        *,
        qid: VectorLike = None,
        sample_weight: VectorLike = None,
        pairs: ArrayLike | None = None,
        pair_weight: ArrayLike | None = None,
        eval_set: object = None,
        eval_qid: object = None,
        eval_group: object = None,
        checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
        client: Client | None = None,
    ) -> Self:
        """Learn to rank from rows on the workers of a cluster.

        Parameters
        ----------
        X : dask DataFrame, dask array, or list of delayed partitions
            A delayed partition is (X, y), (X, y, qid) or (X, y, qid, sample_weight).
        y, qid, sample_weight : dask Series or arrays with the partitions of X
            Grades, query identifiers and weights. A query may span partitions.
        pairs : array of shape (m, 2), optional
            Rows (winner, loser), numbered over all partitions. Queries that are connected by pairs
            are placed on one worker, as are all rows if there are no queries. With pairs, y is
            optional.
        pair_weight : array of shape (m,), optional
        eval_set : (X, y) or list of (X, y), optional
            Loaded into the memory of the client, which evaluates it after every round.
        eval_qid, eval_group : as for the local estimator
        checkpoint : path or Checkpoint, optional
            The client writes rounds to this file. A later fit resumes from it, on a cluster or
            locally, and yields an equal model.
        client : dask.distributed.Client, optional
            Defaults to the current client, or to a temporary local cluster.
        """
        saved = self._checkpoint(checkpoint)
        self._check_pairs(pairs, pair_weight)
        if not self.warm_start:
            for name in ("n_features_in_", "feature_names_in_"):  # of an earlier fit
                self.__dict__.pop(name, None)
        with _client_or_default(client) as cluster:
            self._check_distributable()
            delayed = partitions(X, y, qid, sample_weight, graded=pairs is None)
            with (
                scatter(cluster, delayed, self, pairs, pair_weight) as scattered,
                Context(self.n_jobs) as context,
            ):
                eval_sets, qids, groups = _in_client_memory((eval_set, eval_qid, eval_group))
                monitors = evaluation_monitors(
                    self, eval_sets, scattered.bins, context, queries=scattered.has_queries,
                    eval_qid=qids, eval_group=groups,
                )  # fmt: skip
                fitted = self._fit_on_workers(cluster, scattered, monitors, saved)
        self.__dict__.update(fitted, has_queries_=scattered.has_queries)
        return self

    def _check_pairs(self, pairs: ArrayLike | None, pair_weight: ArrayLike | None) -> None:
        """Raise ValueError for explicit pairs that are not supported or not in memory."""
        if pairs is None:
            if pair_weight is not None:
                raise ValueError("pair_weight is given without pairs; give both, or leave it out")
            return
        if _is_dask_collection(pairs) or _is_dask_collection(pair_weight):
            raise ValueError("pairs and pair_weight are collections of dask; compute() them first")
        if not self._supports_pairs:
            raise ValueError(
                f"{type(self).__name__} does not learn from listed pairs; give grades, or use "
                f"{self._local_class.__name__}"
            )

    def _check_distributable(self) -> None:
        """Raise ValueError for parameters that are not supported on a cluster."""
        self.check_parameters()
        if not learner(self.weak_rankers).distributable:
            raise ValueError(
                f"weak_rankers={self.weak_rankers!r} cannot be searched on a cluster; use "
                "'stumps', 'features' or 'trees' (or set distributable = True on a family of your "
                "own whose search adds up over all machines)"
            )
        self._check_device()
        if chosen := find_auto_parameters(self):
            raise ValueError(
                f"{chosen[0]}='auto' holds out rows, which is not done on a cluster; give a "
                f"number, such as {self._local_class.__name__} chooses on a sample (selection_)"
            )
        if self._n_bags > 1:
            raise ValueError(f"bags={self._n_bags} draws rows, which is not done on a cluster")
        given = self.get_params(deep=False).values()
        if any(isinstance(each, str) and each == "cv" for each in given):
            raise ValueError(
                f"{type(self).__name__} cannot cross-validate on a cluster; give a number instead "
                f"of 'cv', which {self._local_class.__name__} finds on a sample"
            )
        if getattr(self, "_skl_callbacks", None):
            raise ValueError(
                "callbacks set by set_callbacks cannot follow a fit on a cluster; use the "
                "parameter callbacks instead"
            )

    def _check_device(self) -> None:
        """Raise ValueError if the device is unknown or would not be used."""
        check_device(self.device)
        used = self._grows_on_gpu and isinstance(learner(self.weak_rankers), Trees)
        if self.device != "cpu" and not used:
            raise ValueError(
                f"device={self.device!r} on a cluster is for trees; use device='cpu', or "
                f"{self._local_class.__name__} on one machine"
            )

    def take_features(self, count: int, names: list[str] | None) -> None:
        """Set the number and names of the features; on a warm start, compare them instead."""
        known = getattr(self, "feature_names_in_", None)
        continues = self.warm_start and hasattr(self, "ensemble_")
        forget_categories(self, reset=not continues)
        if not continues:
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

    def can_split_list(self) -> bool:
        """Return whether a list may be split between workers; refuse undistributable risks."""
        fresh = clone(self.to_local())
        fresh.__dict__.update(self._features())
        risk = fresh.risk()
        if not risk.distributable:
            raise ValueError(f"{risk!r} cannot be minimized on a cluster; use PairRisk")
        by_slope = getattr(self, "select", "slope") == "slope"
        return self._splits_lists and risk.can_split_queries and by_slope

    def _features(self) -> dict[str, object]:
        """Return the attributes that `take_features` sets."""
        names = ("n_features_in_", "feature_names_in_")
        return {name: vars(self)[name] for name in names if name in vars(self)}

    def _fit_on_workers(
        self,
        client: Client,
        scattered: ScatteredRows,
        monitors: list[Monitor],
        saved: Checkpoint | None,
    ) -> dict[str, object]:
        """Run the local fit on all workers in lockstep; return the fitted attributes."""
        model = self.to_local()
        rounds = None if saved is None else _SavedRounds.read(saved, model)
        if not self.warm_start:
            model = clone(model)
        if model.random_state is None and model._unseeded_share():
            model.random_state = check_random_state(None).randint(2**31)  # on all workers
        spec = _FitSpec(
            model=model.set_params(callbacks=None, verbose=0),
            bins=scattered.bins,
            totals=scattered.totals,
            classes=scattered.classes,
            monitored=[
                (each.name, {name: m.greater_is_better for name, m in each.metrics.items()})
                for each in monitors
            ],
            features=self._features(),
            n_jobs=self.n_jobs,
            report_rounds=bool(self.callbacks) or self.verbose > 0 or saved is not None,
            rounds=rounds,
        )
        done = len(getattr(self, "history_", ())) if self.warm_start else 0
        if rounds is not None:
            done = rounds.count
        name = type(self).__name__
        with ProgressBar(name, rounds=self._max_rounds, done=done, verbose=self.verbose) as bar:
            callbacks: list[Callable[[Progress], object]] = list(bar.callbacks(self.callbacks))
            if saved is not None:
                callbacks.append(saved)
            on_client = _ClientServices(monitors, callbacks)
            services: dict[str, Callable[..., object]] = {
                "compute_metrics": on_client.compute_metrics,
                "report": on_client.report,
            }
            launch = _SessionLauncher(client, scattered, spec)
            driver = SpmdDriver(launch, len(scattered.blocks), services, launch.why_lost)
            try:
                return cast("dict[str, object]", driver.run())
            finally:
                if saved is not None:
                    saved.finish()

    def predict(self, X: MatrixLike, *, num_iteration: int | None = None) -> VectorLike:
        """Return the score of every row: a dask array for a dask collection, else an array."""
        if not _is_dask_collection(X):
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
        """Return the model as a local estimator."""
        local = self._local_class(**self.get_params(deep=False))
        local.__dict__.update(fitted_attributes(self))
        return local

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the model as a local estimator, to be loaded by `precede.load`."""
        self.to_local().save(path)


def _is_dask_collection(X: object) -> bool:
    """Whether X is a dask collection."""
    return hasattr(X, "__dask_graph__")


def _scores(X: MatrixLike, model: BaseRanker) -> Floats:
    """Return the scores of a partition, which may be empty."""
    return model.predict(X) if X.shape[0] else np.zeros(0)


class DaskRankBoost(_DaskRanker, RankBoost):
    """`RankBoost` on a Dask cluster.

    It has the parameters and attributes of `RankBoost`; `n_jobs` is the number of threads per
    worker.

    Notes
    -----
    The model is equal to the local one, bit for bit, for any number of workers and any
    partitions. Without queries and with ``select="slope"`` no rows are shuffled. A round takes
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

    _local_class = RankBoost


class DaskPushRanker(_DaskRanker, PushRanker):
    """`PushRanker` on a Dask cluster; see `DaskRankBoost`. ``price="cv"`` is refused.

    A single list is split between workers for the exponential loss with a power as price; otherwise
    it is placed on one worker.
    """

    _local_class = PushRanker


class DaskSmoothMarginRanker(_DaskRanker, SmoothMarginRanker):
    """`SmoothMarginRanker` on a Dask cluster; see `DaskRankBoost`."""

    _local_class = SmoothMarginRanker


class DaskConvexRiskRanker(_DaskRanker, ConvexRiskRanker):
    """`ConvexRiskRanker` on a Dask cluster; see `DaskRankBoost`. ``radius="cv"`` is refused.

    A single list is split between workers for the exponential loss; otherwise it is placed on one
    worker.
    """

    _local_class = ConvexRiskRanker


class DaskBoostedRanker(_DaskRanker, BoostedRanker):
    """`BoostedRanker` on a Dask cluster; see `DaskRankBoost`.

    Trees, stumps and features are supported; scikit-learn regressors and user-defined risks are
    not. A single list is split between workers for the exponential loss with a power as price and
    ``balance="pairs"``; otherwise it is placed on one worker. With ``device="cuda"`` every worker
    grows trees on its GPU.

    Notes
    -----
    For each split, every worker sends the histogram of the smaller child, 16 bytes per bin, and
    receives the best splits of both children; a tree takes about ten more messages of a few
    numbers. The client stores the histograms of the leaves of one tree.

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

    _local_class = BoostedRanker


class DaskGlassBoxRanker(_DaskRanker, GlassBoxRanker):
    """`GlassBoxRanker` on a Dask cluster; see `DaskBoostedRanker`.

    Shape functions, the search for interactions, held-out trials and bootstrap samples are computed
    on the workers, which exchange integer histograms. A single list is placed on one worker.
    Explicit pairs and user-defined risks are not supported.

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

    _local_class = GlassBoxRanker
    _supports_pairs = _splits_lists = _grows_on_gpu = False


class DaskQBRank(_DaskRanker, QBRank):
    """`QBRank` on a Dask cluster; see `DaskBoostedRanker`.

    A single list is placed on one worker.
    """

    _local_class = QBRank


class PairObjective:
    """A pair risk as a custom objective of LightGBM's rankers, also of its Dask interface.

    Calling it returns the gradient and the diagonal of the Hessian of `PairRisk(loss, price)` with
    respect to the scores: O(n) for the exponential loss, see `PairRisk` for others. Rows of a group
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
        """Return gradient and Hessian for LightGBM."""
        qid = np.repeat(np.arange(len(group)), group)
        judgments = Judgments.graded(y, qid, weight=weight)
        bound = PairRisk(self.loss, self.price, balance=self.balance).bind(judgments)
        state = bound.state(np.asarray(scores, np.float64)[bound.layout.order])
        if state.log_gradient_sum == -np.inf:
            return np.zeros(y.size), np.zeros(y.size)
        gradient_sum, to_rows = np.exp(state.log_gradient_sum), bound.layout.to_rows
        curvature = bound.curvature(state)
        return -gradient_sum * to_rows(state.pull), gradient_sum * to_rows(curvature)


# -- in the client process -------------------------------------------------------------------


class _ClientServices:
    """Services of the client process: evaluate monitors and call the user's callbacks."""

    def __init__(self, monitors: list[Monitor], callbacks: list[Callable[[Progress], object]]):
        self._monitors, self._callbacks = monitors, callbacks
        self._history, self._ensemble = History(), Ensemble([], [], 1)

    def compute_metrics(self, argument: tuple[int, list[MonitorUpdate]]) -> dict[str, float]:
        """Update the scores of an evaluation set and return its metrics."""
        number, updates = argument
        for update in updates:
            update(self._monitors[number])
        return self._monitors[number].compute_metrics()

    def report(
        self, argument: tuple[list[Json], Ensemble | None, tuple[WeakRanker, float] | None]
    ) -> bool:
        """Append a round to history and ensemble; return whether a callback asks to stop."""
        records, ensemble, last = argument
        for record in records:
            self._history.append(**record)
        if ensemble is not None:
            self._ensemble = ensemble
        elif last is not None:
            self._ensemble.append(*last)
        return asked_to_stop(self._callbacks, self._history, self._ensemble)


class _SessionLauncher:
    """Launch the session of a block on its worker, or on another one if that is lost."""

    def __init__(self, client: Client, scattered: ScatteredRows, spec: _FitSpec):
        self._client, self._scattered, self._spec = client, scattered, spec
        self._futures: dict[int, Future[WorkerSession]] = {}

    def __call__(self, rank: int) -> Session:
        future = self._client.submit(
            _worker_session, self._scattered.blocks[rank], self._spec, rank, actor=True, pure=False,
            workers=[self._scattered.workers[rank]], allow_other_workers=True,
        )  # fmt: skip
        self._futures[rank] = future  # keeps the actor alive
        with self._client.as_current():  # used by the actor proxy
            return cast("Session", future.result())

    def why_lost(self) -> str:
        """Return why no worker can be reached; "" while the client is connected."""
        if self._client.status == "running":
            return ""
        return (
            f"the connection to the scheduler is lost (the client is {self._client.status}); fit "
            "again on a cluster that is up, from a checkpoint if there is one"
        )


def _worker_session(block: RowBlock, spec: _FitSpec, rank: int) -> WorkerSession:
    from distributed import get_worker  # noqa: PLC0415  (on a worker)

    threads = get_worker().state.nthreads if spec.n_jobs is None else count_jobs(spec.n_jobs)
    return WorkerSession(_fit_block, block, spec, ClusterContext(rank, threads))


@contextmanager
def _client_or_default(client: Client | None) -> Iterator[Client]:
    """Yield the given client, the current one, or a temporary one with a local cluster."""
    try:
        from distributed import Client, default_client  # noqa: PLC0415  (only on clusters)
    except ImportError as error:
        raise ImportError(
            "precede.dask needs Dask; install it with pip install 'precede[dask]'"
        ) from error
    if client is not None:
        if client.asynchronous:
            raise ValueError(
                "the client is asynchronous, and fit waits for its answers; give one made with "
                "asynchronous=False"
            )
        yield client
        return
    try:
        current = default_client()
    except ValueError:  # no current client
        with Client(dashboard_address=":0", direct_to_workers=True) as temporary:
            yield temporary
        return
    yield current


# -- on the workers --------------------------------------------------------------------------


@dataclass(frozen=True)
class _FitSpec:
    """Arguments of the fit that are the same on all workers."""

    model: BaseRanker
    bins: Bins
    totals: GlobalTotals
    classes: Array | None
    monitored: list[tuple[str, dict[str, bool]]]  # names of sets; metrics: is greater better?
    features: dict[str, object]  # fitted attributes
    n_jobs: int | None
    report_rounds: bool  # whether the client needs every round
    rounds: _SavedRounds | None = None  # of a checkpoint


def _fit_block(
    block: RowBlock, spec: _FitSpec, context: ClusterContext
) -> dict[str, object] | None:
    """Fit the local estimator on one block; return the fitted attributes on the first worker."""
    model = clone(spec.model)
    if model.warm_start:
        model.__dict__.update(fitted_attributes(spec.model))
    model.__dict__.update(spec.features)
    model.callbacks = [_Reporter(context)] if spec.report_rounds else None
    model.n_jobs = context.jobs
    context.tree_backend = open_backend_of_worker(model.device, context.rank)
    training = _training_data(block, spec, context)
    monitors = [
        cast(Monitor, _RemoteMonitor(context, number, name, metrics))
        for number, (name, metrics) in enumerate(spec.monitored)
    ]
    judgments = block.judgments()
    task = FitContext(None, judgments, spec.classes, training, monitors, spec.rounds)
    model.fit_rows(task)
    return None if context.rank else fitted_attributes(model)


def _training_data(block: RowBlock, spec: _FitSpec, context: ClusterContext) -> TrainingData:
    layout = block_layout(block, spec.totals)
    table = Table.like(block.X, spec.bins, order=layout.order, context=context)
    codes_only = learner(spec.model.weak_rankers).codes_only
    training = TrainingData.ordered(table, layout, context, by_value=not codes_only)
    resumed = spec.model.warm_start or (spec.rounds is not None and spec.rounds.count > 0)
    if not resumed and codes_only:
        training.table.X = None  # all thresholds are cuts, so the codes suffice
    return training


class _SavedRounds(Checkpoint):
    """Rounds of a checkpoint read by the client; workers do not write checkpoints."""

    def __init__(self, path: Path, fields: Json | None):
        super().__init__(path)
        self._fields = fields

    @classmethod
    def read(cls, saved: Checkpoint, model: BaseRanker) -> _SavedRounds:
        """Read the checkpoint file for a model, with the checks of a local fit."""
        return cls(saved.path, saved.begin(type(model).__name__, described_parameters(model)))

    @property
    def count(self) -> int:
        """Number of rounds."""
        history = None if self._fields is None else self._fields.get("history")
        return len(history) if isinstance(history, list) else 0

    def begin(self, estimator: str, parameters: Json) -> Json | None:  # noqa: ARG002
        """Return the contents of the checkpoint file."""
        return self._fields

    def __call__(self, progress: Progress) -> None:
        """Do nothing: the client writes the checkpoint."""


class _Reporter:
    """Callback that sends every round to the client."""

    def __init__(self, context: ClusterContext):
        self._context = context
        self._rounds = 0
        self._weights: list[float] = []

    def __call__(self, progress: Progress) -> bool:
        """Send the last round and weak ranker, or the whole ensemble if earlier weights changed."""
        records = list(progress.history)[self._rounds :]
        weights = progress.ensemble.weights
        ensemble, last = None, None
        if self._rounds and weights[:-1] == self._weights:
            last = (progress.ensemble.weak_rankers[-1], weights[-1])
        else:
            ensemble = progress.ensemble.first(len(weights))
        self._rounds, self._weights = len(progress.history), list(weights)
        return bool(self._context.call_service("report", (records, ensemble, last)))


def _not_on_worker(scores: Floats) -> float:
    """Raise: the metrics are computed by the client."""
    raise NotImplementedError("metrics of evaluation sets are computed by the client")


class _RemoteMonitor:
    """Proxy of a client-side `Monitor`; updates are sent with the next `compute_metrics`."""

    def __init__(self, context: ClusterContext, number: int, name: str, metrics: dict[str, bool]):
        self.name = name
        self.metrics = {
            each: MonitoredMetric(_not_on_worker, greater) for each, greater in metrics.items()
        }
        self._context, self._number = context, number
        self._updates: list[MonitorUpdate] = []

    def advance(self, weak_ranker: WeakRanker, weight: float) -> None:
        """See `Monitor.advance`."""
        self._updates.append(methodcaller("advance", weak_ranker, weight))

    def shrink(self, factor: float) -> None:
        """See `Monitor.shrink`."""
        self._updates.append(methodcaller("shrink", factor))

    def restart(self, model: Scoring) -> None:
        """See `Monitor.restart`."""
        self._updates = [methodcaller("restart", model)]

    def compute_metrics(self) -> dict[str, float]:
        """Return the metrics; see `Monitor.compute_metrics`."""
        updates, self._updates = self._updates, []
        found = self._context.call_service("compute_metrics", (self._number, updates))
        return cast("dict[str, float]", found)


def _in_client_memory(eval_data: EvaluationSets) -> EvaluationSets:
    """Compute evaluation sets given as dask collections."""
    import dask  # noqa: PLC0415  (only on clusters)

    return dask.compute(*eval_data)
