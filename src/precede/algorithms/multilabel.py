"""AdaBoost.MH and AdaBoost.MR: ranking and classification with several labels per item."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from reprlib import repr as shown
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, NoReturn, cast

import numpy as np
import scipy.sparse
from sklearn.utils import Tags
from sklearn.utils.validation import assert_all_finite, check_is_fitted

from precede.algorithms.adaboost import VoteStep
from precede.boosting.callbacks import CallbackBridge
from precede.boosting.coordinate_descent import Plan
from precede.boosting.loop import Callback, Result, Stop
from precede.boosting.monitors import pairs_in_order
from precede.boosting.steps import ExactStep, Step, StepRule
from precede.engine.arrays import (
    Array,
    Bytes,
    Flags,
    Floats,
    Integers,
    Keys,
    MatrixLike,
    Signs,
    VectorLike,
)
from precede.engine.compatibility import with_callbacks
from precede.engine.compiling import njit
from precede.engine.exact import (
    SCALE,
    TIE_UNITS,
    least_tied,
    least_tied_kernel,
    log_sum_exp,
    to_integers,
)
from precede.engine.execution import Context, threads_for
from precede.engine.histograms import BINS, Histograms
from precede.engine.parameters import check_bool, check_integer
from precede.engine.portable import fmax, log
from precede.engine.query_layout import TrainingData
from precede.engine.table import Table
from precede.estimator import BaseRanker, FitContext, Saved, restore_on_failure
from precede.judgments import Judgments, sample_weights
from precede.model import Ensemble
from precede.risks.base import BoundRisk, State
from precede.risks.pair_risk import PairRisk
from precede.risks.pointwise import PointRisk
from precede.weak_rankers.base import Family, Search, SearchResult, WeakRanker
from precede.weak_rankers.stumps import Stump, stump_from_code

if TYPE_CHECKING:
    from typing_extensions import Self


# Maximum number of sums over bins and labels in memory at a time.
MAX_SUMS_AT_ONCE = 1 << 22


def _read_labels(labels: list[str | float], name: str) -> Array:
    """Return the names of labels from a model file."""
    named = isinstance(labels, list) and all(isinstance(each, str | int | float) for each in labels)
    if not named:
        raise ValueError(f"the {name} of the model are not a list of names")
    return np.array(labels)


class MultilabelRanker(BaseRanker):
    """Score the labels of every item: AdaBoost.MR ranks them, AdaBoost.MH classifies them.

    An item with a set of labels becomes one row for each label, and a weak ranker is a function
    of item and label: a stump of the item that votes 1 or -1, times a vote for each label. MH
    minimizes ``sum over items and labels of exp(-y f(x, l))``, y = 1 for labels the item has and
    -1 for others. MR minimizes ``exp(-(f(x, l) - f(x, m)))`` over pairs of a label l that the
    item has and a label m that it does not have.

    Parameters
    ----------
    method : {"MR", "MH"}
    across : bool
        For MR: compare the labels that items have with the labels that *any* item lacks, as in
        section 5.1 of Rudin & Schapire (2009), instead of within each item. MH and MR are then
        related as AdaBoost and RankBoost are: both minimize the loss of the other.
    balance : {"items", "pairs"}
        For MR within items: whether every item weighs the same, as in Schapire & Singer, or every
        pair does.
    n_estimators, learning_rate, max_bins, callbacks, warm_start, n_jobs, verbose
        As for `RankBoost`.

    Attributes
    ----------
    labels_ : array
        Names of the labels: columns of a data frame, classes, or numbers.
    intercept_ : float
        `classify` returns the labels whose score exceeds ``-intercept_``: 0 for MH, and for MR the
        shift ``log(F+ / F-) / 2`` that minimizes the loss of MH (corollary 13) over all items,
        including those without a pair. MR within items does not compare items, so it classifies
        less well.
    history_ : History

    Notes
    -----
    `predict` returns a matrix of scores, one row for each item and one column for each label;
    `rank` the rank of each label of an item, 1 being the first; `score` the share of pairs of
    present and absent labels in order; `classify` a 0/1 matrix.

    A round costs O(items · labels) for each feature: the best vote of every label does not depend
    on the other labels, so the best of 2^labels votes is found exactly. The vote of a label whose
    edge is 0 is 1.

    References
    ----------
    Schapire & Singer, *Improved Boosting Algorithms Using Confidence-rated Predictions*, 1999.
    Rudin & Schapire, JMLR 10 (2009), section 5.1.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from precede import MultilabelRanker
    >>> X, Y = make_multilabel_classification(200, n_features=5, n_classes=4, random_state=0)
    >>> model = MultilabelRanker(method="MR", n_estimators=100).fit(X[:150], Y[:150])
    >>> model.predict(X[150:]).shape
    (50, 4)
    >>> model.rank(X[150:152]).tolist()                # rank of each label; 1 ranks first
    [[4, 2, 1, 3], [2, 1, 3, 4]]
    """

    method: str = "MR"
    across: bool = False
    balance: str = "items"  # as in Schapire & Singer
    n_estimators: int = 300
    learning_rate: float = 1.0
    max_bins: int = 255
    callbacks: Sequence[Callback] | None = None
    warm_start: bool = False
    n_jobs: int | None = None
    verbose: int = 0

    resumable = False
    takes_init_score = False
    saved_attributes = MappingProxyType({"labels_": Saved(_read_labels), "intercept_": Saved()})

    # -- fitting ---------------------------------------------------------------------------

    @with_callbacks
    @restore_on_failure
    def fit(  # type: ignore[override]  # labels have no queries, pairs or evaluation sets
        self, X: MatrixLike, y: VectorLike = None, *, sample_weight: VectorLike = None
    ) -> Self:
        """Learn to score labels.

        Parameters
        ----------
        X : array or data frame of shape (items, features); NaN means missing
        y : 0/1 matrix, data frame or sparse matrix of shape (items, labels)
            A single column is the class of every item, and each class is a label.
        sample_weight : array with a number for each item; 2 counts it twice, 0 leaves it out
        """
        given = X, y
        X = self._validated(X, reset=not self._continues, to_fit=True)
        matrix, labels = label_matrix(y, X.shape[0])
        self.check_parameters()
        if self._continues and not np.array_equal(labels, np.asarray(self.labels_)):
            raise ValueError("Y has other labels than the fit before; set warm_start=False")
        weight = sample_weights(1.0 if sample_weight is None else sample_weight, X.shape[0])
        assert weight is not None
        judgments = self._rows(matrix, weight)
        self.labels_: Array = labels  # before the first round, because callbacks may predict
        with Context(self.n_jobs) as context:
            training = _prepare(X, judgments, weight, self.max_bins, context)
            bridge = CallbackBridge(self, *given)
            self.fit_rows(_LabelTask(
                X, judgments, None, training, [], callback_bridge=bridge,
                matrix=matrix, weight=weight,
            ))  # fmt: skip
        return self

    def _rows(self, matrix: Array, weight: Floats) -> Judgments:
        """Return judgments with one row per item and label, and with weights."""
        items, labels = matrix.shape
        if not weight.any():
            raise ValueError("there is nothing to learn from: every sample weight is zero")
        grade = matrix.ravel()
        within_items = self.method == "MR" and not self.across
        if within_items:
            # The weight of a pair is the product of the weights of its rows.
            pairs = matrix.sum(axis=1) * (labels - matrix.sum(axis=1))
            shared = np.maximum(pairs, 1) if self.balance == "items" else 1.0
            weight = np.sqrt(weight / shared)
        made = Judgments(
            grade, np.repeat(np.arange(items), labels) if within_items else None,
            weight=np.repeat(weight, labels),
        )  # fmt: skip
        if made.to_layout().total <= 0:
            raise ValueError(
                "there is nothing to compare: no item of positive weight has some of the labels "
                "but not all of them"
                if within_items
                else "there is nothing to tell apart: every item has all labels, or none of them"
            )
        return made

    def plan(self, stop: Stop) -> Plan:
        """Return the risk, the weak rankers and the step of this algorithm."""
        pointwise = self.method == "MH"
        return Plan(
            risk=PointRisk() if pointwise else PairRisk("exponential"),
            weak_rankers=_LabelVotes(),
            step=VoteStep() if pointwise else _PairStep(),
            stop=stop,
            learning_rate=self.learning_rate,
        )

    def check_parameters(self) -> None:
        """Raise ValueError for an invalid parameter."""
        super().check_parameters()
        if self.method not in ("MR", "MH"):
            raise ValueError(f"method={self.method!r} is unknown; use 'MR' or 'MH'")
        if self.balance not in ("items", "pairs"):
            raise ValueError(f"balance={self.balance!r} is unknown; use 'items' or 'pairs'")
        check_bool("across", self.across)

    def after_rounds(self, result: Result, task: FitContext) -> None:  # noqa: ARG002
        """Set the intercept: 0, or that of corollary 13."""
        self.intercept_ = 0.0
        if self.method == "MR":
            self.intercept_ = 0.5 * self._log_mass_ratio(cast(_LabelTask, task))

    def _log_mass_ratio(self, task: _LabelTask) -> float:
        """Return ``log(F+ / F-)`` over all items of positive weight, with or without pairs."""
        kept = task.weight > 0
        X, log_weight = task.X[kept], log(task.weight[kept])
        plus, minus = [], []
        with Context(self.n_jobs) as context:
            for has, (model, shift) in zip(task.matrix[kept].T == 1, self._models(), strict=True):
                scores = model.predict(X, context) + shift
                plus.append(log_sum_exp((log_weight - scores)[has]))
                minus.append(log_sum_exp((log_weight + scores)[~has]))
        return log_sum_exp(np.array(plus)) - log_sum_exp(np.array(minus))

    # -- scoring ---------------------------------------------------------------------------

    def predict(self, X: MatrixLike, *, num_iteration: int | None = None) -> Floats:
        """Return the scores of the labels, one row per item; after `num_iteration` rounds."""
        check_is_fitted(self)
        if num_iteration is not None:
            check_integer("num_iteration", num_iteration, least=1, most=self.n_estimators_)
            return next(islice(self.staged_predict(X), num_iteration - 1, None))
        X = self._validated(X, reset=False)
        scores = np.empty((X.shape[0], len(self.labels_)))
        with Context(self.n_jobs) as context:
            for label, (model, shift) in enumerate(self._models()):
                scores[:, label] = model.predict(X, context) + shift
        return scores

    def staged_predict(self, X: MatrixLike) -> Iterator[Floats]:
        """Yield the scores of the labels after each round."""
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        scores = np.zeros((X.shape[0], len(self.labels_)))
        for weak_ranker, weight in self.ensemble_.parts():
            assert isinstance(weak_ranker, _LabelVoter)
            scores = scores + weight * np.outer(weak_ranker(X), weak_ranker.signs)
            yield scores

    def rank(self, X: MatrixLike, qid: VectorLike = None, *, group: VectorLike = None) -> Integers:
        """Return the rank of every label of an item, from 1; ties in the order of labels."""
        for name, value in (("qid", qid), ("group", group)):
            if value is not None:
                raise ValueError(
                    f"MultilabelRanker ranks the labels of each item; leave {name} out"
                )
        scores = self.predict(X)
        order = np.argsort(-scores, axis=1, kind="stable")
        ranks = np.empty(scores.shape, np.int64)
        np.put_along_axis(ranks, order, np.arange(1, scores.shape[1] + 1)[None, :], axis=1)
        return ranks

    def score(  # type: ignore[override]
        self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike = None
    ) -> float:
        """Return the share of (present, absent) label pairs in order; ties count half."""
        scores = self.predict(X)
        matrix, labels = label_matrix(y, scores.shape[0], known=self.labels_)
        if len(labels) != scores.shape[1]:
            raise ValueError(f"y has {len(labels)} labels, the model {scores.shape[1]}")
        items = np.arange(scores.shape[0])
        weight = sample_weights(sample_weight, items.size)
        rows = None if weight is None else np.repeat(np.sqrt(weight), len(labels))
        judgments = Judgments(matrix.ravel(), np.repeat(items, len(labels)), weight=rows)
        return pairs_in_order(judgments, scores.ravel())

    def classify(self, X: MatrixLike) -> Integers:
        """Return the labels of every item as a 0/1 matrix."""
        return (self.predict(X) + float(self.intercept_ or 0.0) > 0).astype(np.int64)

    @property
    def explain(self) -> NoReturn:
        """Raise: explanations need one score per row."""
        raise AttributeError("MultilabelRanker has no explanations: it has a score for each label")

    explain_pair = shape_function = explain

    def _models(self) -> Iterator[tuple[Ensemble, float]]:
        """Yield the scoring function of each label: a sum of stumps, and a constant."""
        rounds = list(self.ensemble_.parts())
        stumps: list[WeakRanker] = [r.stump for r, _ in rounds if isinstance(r, _LabelVoter)]
        signed = np.array([w * r.signs for r, w in rounds if isinstance(r, _LabelVoter)])
        signed = signed.reshape(len(stumps), len(self.labels_))
        for label in range(len(self.labels_)):
            weights = signed[:, label]
            yield (
                Ensemble(stumps, (2 * weights).tolist(), self.n_features_in_),
                -math.fsum(weights),
            )

    # -- saving and tags -------------------------------------------------------------------

    def check_model(self) -> None:
        """Raise ValueError unless every weak ranker votes for all labels."""
        count = len(self.labels_)
        for weak_ranker in self.ensemble_.weak_rankers:
            if not isinstance(weak_ranker, _LabelVoter) or len(weak_ranker.votes) != count:
                raise ValueError(f"{shown(weak_ranker)} does not vote for {count} labels")

    def _validated(self, X: MatrixLike, *, reset: bool, to_fit: bool = False) -> Array:
        if scipy.sparse.issparse(X):
            raise TypeError("MultilabelRanker takes no sparse X; pass X.toarray()")
        return super()._validated(X, reset=reset, to_fit=to_fit)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "ranker"  # whether fitted or not
        tags.target_tags.multi_output = True
        tags.input_tags.sparse = False
        return tags


def label_matrix(Y: VectorLike, items: int, known: Array | None = None) -> tuple[Floats, Array]:
    """Return Y as a matrix of 0 and 1, and the names of its columns.

    >>> label_matrix(["b", "a"], items=2)
    (array([[0., 1.],
           [1., 0.]]), array(['a', 'b'], dtype='<U1'))
    """
    if Y is None:
        raise ValueError("requires y to be passed, but the target y is None; give a 0/1 matrix")
    if isinstance(Y, Judgments):
        raise ValueError(
            "y is a Judgments, which orders items, and MultilabelRanker orders the labels of an "
            "item; give a 0/1 matrix of shape (items, labels), or use RankBoost"
        )
    names = getattr(Y, "columns", None)
    matrix = Y.toarray() if scipy.sparse.issparse(Y) else np.asarray(Y)
    if matrix.dtype.kind == "f":
        assert_all_finite(matrix, input_name="y")
    if matrix.shape[:1] != (items,) or matrix.ndim > 2:
        raise ValueError(
            f"Y has shape {matrix.shape} and X has {items} rows; give one row for each"
        )
    if matrix.ndim == 1 or matrix.shape[1] == 1:
        classes = matrix.ravel()
        if classes.dtype.kind == "O":
            classes = classes.astype(str)
        labels = np.unique(classes) if known is None else known
        unknown = np.setdiff1d(classes, labels)
        if unknown.size:
            raise ValueError(f"Y has class {unknown[0]!r}, which the model does not know")
        return (classes[:, None] == labels[None, :]).astype(np.float64), labels
    wrong = ~np.isin(matrix, (0, 1))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise ValueError(
            f"Y[{row}, {column}] is {matrix[row, column]!r}; use 1 for labels that an item has and "
            "0 for others, or a single column of classes"
        )
    labels = np.arange(matrix.shape[1]) if names is None else np.array([str(n) for n in names])
    return matrix.astype(np.float64), labels


# -- rows of items and labels ----------------------------------------------------------------


@dataclass(frozen=True)
class _LabelTask(FitContext):
    """Fit context with labels and weights of all items, whether compared or not."""

    matrix: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    weight: Floats = field(default_factory=lambda: np.zeros(0))


class _LabelTable:
    """Table with one row per item and label; the features are stored once per item."""

    def __init__(self, items: Table, item: Integers, label: Integers, weight: Floats, labels: int):
        self.items, self.item, self.label, self.weight = items, item, label, weight
        self.labels = labels

    @property
    def n_used_rows(self) -> int:
        return int(self.item.size)

    @property
    def n_features(self) -> int:
        return self.items.n_features

    def keys(self, weight: Floats, context: Context) -> Keys:  # noqa: ARG002
        """Return sort keys by the contents of items and labels."""
        of_items = self.items.keys(self.weight, context)
        return of_items[self.item] * np.uint64(self.labels) + self.label.astype(np.uint64)

    def reorder(self, old: Integers, context: Context | None = None) -> _LabelTable:  # noqa: ARG002
        """Return the table with its rows in another order."""
        return _LabelTable(self.items, self.item[old], self.label[old], self.weight, self.labels)


def _prepare(
    X: MatrixLike, judgments: Judgments, weight: Floats, max_bins: int, context: Context
) -> TrainingData:
    """Return the training data like `TrainingData.prepare`, binning every item once."""
    layout = judgments.to_layout()
    labels = len(judgments) // weight.size
    kept = np.unique(layout.order // labels)
    weight = weight[kept]
    items = Table.build(X, order=kept, weight=weight, max_bins=max_bins, context=context)
    item = np.searchsorted(kept, layout.order // labels)
    label = layout.order % labels
    # A _LabelTable has the part of the interface of Table that is used.
    stand_in = cast(Table, _LabelTable(items, item, label, weight, labels))
    training = TrainingData.ordered(stand_in, layout, context)
    if judgments.qid is not None:  # count the pairs of an item with its weight
        layout, table = training.layout, cast(_LabelTable, training.table)
        sizes = np.diff(layout.level_start).reshape(-1, 2).prod(axis=1)
        first = table.item[layout.level_start[layout.query_start[:-1]]]
        count = max(float(sizes.sum()), math.fsum(sizes * weight[first]))
        training = replace(training, layout=replace(layout, pair_count=count))
    return training


class _LabelVoter(WeakRanker):
    """Weak ranker of items and labels: ``h(x, l) = v(x) · vote of l``."""

    votes: str

    def __post_init__(self) -> None:
        if not isinstance(self.votes, str) or set(self.votes) - {"+", "-"}:
            raise ValueError(f"votes={shown(self.votes)} must be made of + and -")
        _ = self.stump  # validates the fields

    @property
    def stump(self) -> Stump:
        """Stump h with v = ``2 h - 1``."""
        raise NotImplementedError(f"{type(self).__name__} must define stump")

    @property
    def signs(self) -> Signs:
        """Votes of the labels, 1 or -1."""
        return np.array([1 if vote == "+" else -1 for vote in self.votes], np.int8)

    def __call__(self, X: Array) -> Signs:
        """Return v(x) for every item."""
        return 2 * self.stump(X).astype(np.int8) - 1

    def on(self, table: Table | _LabelTable) -> Signs:
        """Return h(x, l) for every row of a table of items and labels."""
        if not isinstance(table, _LabelTable):
            raise ValueError(f"a ranker of kind {self.name!r} is for MultilabelRanker alone")
        voted = 2 * self.stump.on(table.items).astype(np.int8) - 1
        return voted[table.item] * self.signs[table.label]


@dataclass(frozen=True)
class LabelVote(_LabelVoter):
    """``h(x, l) = v(x) · vote of l``, where v is 1 above the threshold and -1 below.

    `votes` has a "+" or "-" for each label. Missing values are above if `missing` is 1.

    >>> LabelVote(0, 0.5, 0, "+-").signs
    array([ 1, -1], dtype=int8)
    """

    feature: int
    threshold: float
    missing: int
    votes: str

    name: ClassVar[str] = "label_vote"

    @property
    def stump(self) -> Stump:
        """Stump h with v = ``2 h - 1``."""
        return Stump(self.feature, self.threshold, self.missing)


@dataclass(frozen=True)
class LabelConstant(_LabelVoter):
    """``h(x, l) = vote of l``, independent of the item.

    >>> LabelConstant("+-")(np.zeros((2, 1)))
    array([1, 1], dtype=int8)
    """

    votes: str

    name: ClassVar[str] = "label_constant"

    @property
    def stump(self) -> Stump:
        """Stump that is 1 everywhere."""
        return Stump(0, -np.inf, 1)


class _LabelVotes(Family):
    """All stumps with the best votes for the labels, and constant votes."""

    def start(self, table: Table | _LabelTable, context: Context | None = None) -> Search:
        return _LabelSearch(cast(_LabelTable, table), context or Context(1))


class _LabelSearch(Search):
    def __init__(self, table: _LabelTable, context: Context):
        self._table, self._context = table, context
        items = table.items
        self._cells = np.zeros((items.n_used_rows, table.labels), np.int64)
        self._n_bins = items.bins.n_bins
        self._missing = items.bins.has_missing & ~np.isnan(items.bins.low)
        self._histograms = Histograms(items, context)

    def best(self, pull: Floats, allowed: Flags | None = None) -> SearchResult | None:  # noqa: ARG002
        """Return the stump and the votes of the largest edge, which is positive."""
        table, items = self._table, self._table.items
        self._cells[table.item, table.label] = to_integers(pull)
        total = self._cells.sum(axis=0)
        best = self._best_of_features(total)
        constant = int(np.abs(total).sum())
        best_edge = max(int(best[:, 0].max(initial=0)), constant)
        min_edge = least_tied(best_edge)
        if best_edge <= TIE_UNITS:
            return None
        if constant >= min_edge:
            return SearchResult(LabelConstant(_votes(total)), constant / SCALE)
        feature = int(np.argmax(best[:, 0] >= min_edge))
        first, side = int(best[feature, 1]), int(best[feature, 2])
        threshold = stump_from_code(items.bins, feature, first).threshold
        edges = _edges_of(items.codes[feature], first, side, self._cells)
        edge = float(np.abs(edges).sum()) / SCALE
        return SearchResult(LabelVote(feature, threshold, side, _votes(edges)), edge)

    def _best_of_features(self, total: Integers) -> Integers:
        """Return edge, first code above the threshold and missing side of each feature's best."""
        features = self._table.items.n_features
        best = np.zeros((features, 3), np.int64)
        threads = threads_for("cells", features * self._cells.size)
        width = max(self._context.jobs, MAX_SUMS_AT_ONCE // (BINS * self._table.labels))
        for first in range(0, features, width):
            part = np.arange(first, min(first + width, features))
            self._context.run(
                _best_label_votes, part.size, self._histograms.sums(self._cells, part),
                self._n_bins[part], self._missing[part], total, best[part[0] : part[-1] + 1],
                threads=threads,
            )  # fmt: skip
        return best


def _votes(edges: Integers) -> str:
    """Return the sign of every edge; 0 and rounding errors count as positive."""
    total = int(np.abs(edges).sum())
    return "".join("+" if edge >= least_tied(total) - total else "-" for edge in edges)


class _PairStep(StepRule):
    """Exact step for pairs and votes of 1 and -1: half of that for values 1 and 0."""

    def step(self, risk: BoundRisk, state: State, found: SearchResult, values: Array) -> Step:
        """Return half the step along ``(1 + h) / 2``."""
        step = ExactStep().step(risk, state, found, (values > 0).astype(np.uint8))
        return Step(step.size / 2, step.smoothed, step.perfect)


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _best_label_votes(
    low: int, high: int, histograms: Integers, n_bins: Integers, missing: Flags, total: Integers,
    best: Integers,
) -> None:  # fmt: skip
    """Write edge, first code above the threshold and missing side of each feature's best.

    The first among ties is taken.
    """
    above, edges = total.copy(), np.empty(512, np.int64)
    for feature in range(low, high):
        most, missing_sums = np.int64(0), histograms[feature, 255]
        for label in range(total.size):
            above[label] = total[label] - missing_sums[label]
        for first in range(n_bins[feature]):
            # Missing values below the threshold, or above; every vote divides the rows.
            n_sides = (1 if first > 0 else 0) + (1 if missing[feature] else 0)
            for side in range(2):
                edge = np.int64(0)  # sum over labels of |pull above - pull below|
                for label in range(total.size if side < n_sides else 0):
                    up = above[label] + side * missing_sums[label]
                    edge += abs(up - (total[label] - up))
                edges[2 * first + side] = edge
                most = fmax(most, edge)
            for label in range(total.size):
                above[label] -= histograms[feature, first, label]
        least = fmax(least_tied_kernel(most), 1)
        for cell in range(2 * n_bins[feature] - 1, -1, -1):
            if edges[cell] >= least:
                best[feature, 0] = edges[cell]
                best[feature, 1], best[feature, 2] = cell // 2, cell % 2


@njit(cache=True, nogil=True)
def _edges_of(column: Bytes, first: int, side: int, cells: Integers) -> Integers:
    """Return the edge of one vote for each label."""
    edges = np.zeros(cells.shape[1], np.int64)
    for item in range(cells.shape[0]):
        code = column[item]
        up = side == 1 if code == 255 else code >= first
        for label in range(cells.shape[1]):
            edges[label] += cells[item, label] if up else -cells[item, label]
    return edges
