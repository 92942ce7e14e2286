"""`BaseRanker`, the base class of all algorithms: parameters, hooks, fit, scores, explanations.

A subclass declares its parameters as annotated attributes and defines `plan`.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Literal, cast

import numpy as np
from sklearn.utils import RegressorTags, Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from precede import explain as explanations  # submodules of both are imported on first use
from precede import plots
from precede.boosting.callbacks import CallbackBridge, Checkpoint, ProgressBar
from precede.boosting.coordinate_descent import CoordinateDescent, Plan
from precede.boosting.loop import (
    INTERRUPTED,
    Callback,
    EarlyStopping,
    History,
    Result,
    Rounds,
    Stop,
    Trainer,
    run_rounds,
)
from precede.boosting.monitors import Monitor, pairs_in_order
from precede.engine.arrays import (
    Array,
    Flags,
    Floats,
    Integers,
    MatrixLike,
    Objects,
    RandomState,
    VectorLike,
)
from precede.engine.backend import on_gpu, open_backend
from precede.engine.compatibility import BaseEstimator, CallbackSupportMixin, with_callbacks
from precede.engine.execution import Context, count_jobs
from precede.engine.frames import row_labels
from precede.engine.parameters import AUTO, check_integer, check_range, find_auto_parameters
from precede.engine.query_layout import TrainingData
from precede.engine.table import MAX_BINS
from precede.estimator.inputs import (
    EvaluationSets,
    check_init_score,
    evaluation_monitors,
    initial_scores,
    read_table,
    read_target,
    training_rows,
    validate_rows,
    warn_of_misuse,
)
from precede.estimator.saving import Saved, model_fields, read_checkpoint
from precede.estimator.signatures import (
    OTHER_ATTRIBUTES,
    Decorated,
    declare_parameters,
    refuse_other_callbacks,
    restore_on_failure,
)
from precede.files.disk import DiskTable
from precede.judgments import (
    Judgments,
    column_numbers,
    columns_in_order,
    qid_or_group,
    warn_of_lost_queries,
)
from precede.model import Ensemble, check_model_name, write_model
from precede.risks.base import Risk
from precede.risks.links import ADABOOST, Link, fit_intercept, probability
from precede.weak_rankers.base import Family, family

if TYPE_CHECKING:  # scikit-learn ships no types
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from typing_extensions import Self, dataclass_transform

    from precede.boosting.selection import Selection
    from precede.engine.query_layout import QueryLayout

    def available_if(check: Callable[[BaseRanker], bool]) -> Callable[[Decorated], Decorated]:
        """Return a decorator for a method that exists if the check succeeds."""
else:
    from sklearn.utils.metaestimators import available_if

    def dataclass_transform(**_: bool) -> Callable[[type], type]:
        """Return a decorator without effect; type checkers read it (`typing` of Python 3.11)."""
        return lambda cls: cls


@dataclass(frozen=True)
class FitContext:
    """Data of one fit, as given and as prepared, with evaluation sets and callbacks.

    `classes` are the two classes of a single list, otherwise None. With a `DiskTable`, `judgments`
    are in the order of its layout. `callback_bridge` calls scikit-learn's callbacks.
    """

    X: MatrixLike
    judgments: Judgments
    classes: Array | None
    training: TrainingData
    monitors: list[Monitor]
    checkpoint: Checkpoint | None = None
    callback_bridge: CallbackBridge | None = None

    @contextmanager
    def callbacks(self, estimator: BaseRanker, done: int = 0) -> Iterator[list[Callback]]:
        """Yield the callbacks of a loop that continues from `done` rounds.

        At the end close the progress bar and write the checkpoint.
        """
        checkpoints = [] if self.checkpoint is None else [self.checkpoint]
        bridged = [] if self.callback_bridge is None else self.callback_bridge.rounds(self)
        name, rounds = type(estimator).__name__, estimator._max_rounds
        try:
            with ProgressBar(name, rounds=rounds, done=done, verbose=estimator.verbose) as bar:
                yield [*bar.callbacks(estimator.callbacks), *checkpoints, *bridged]
        finally:
            for checkpoint in checkpoints:
                checkpoint.finish()


def _two_classes(estimator: BaseRanker) -> bool:
    """Return True after a fit on two classes; otherwise raise AttributeError."""
    check_is_fitted(estimator)
    if estimator.classes_ is None:
        raise AttributeError(
            "classify, predict_proba and decision_function are there after a fit on two classes "
            "without queries or listed pairs"
        )
    return True


def _has_link(estimator: BaseRanker) -> bool:
    """Return True if the fitted loss has probabilities; otherwise raise AttributeError."""
    _two_classes(estimator)
    if estimator.link_ is None:
        raise AttributeError(
            f"this {type(estimator).__name__} has no probabilities: they need a loss whose scores "
            "estimate log-odds, 'logistic' or 'query_cross_entropy' (price='linear'), or "
            "'exponential' (price a number), in RankBoost, BoostedRanker or PushRanker; or turn "
            "the scores of other rows into log-odds with precede.scorecard.fit_log_odds"
        )
    return True


@dataclass_transform(kw_only_default=True, eq_default=False)
class BaseRanker(CallbackSupportMixin, BaseEstimator):
    """Base class of all algorithms, including user-defined ones.

    A subclass defines `plan` and declares its parameters like the fields of a dataclass, as
    annotated attributes with defaults, under the names of scikit-learn and LightGBM. (It may
    define an `__init__` instead.) The methods under "hooks" and the class attributes above them are
    all that subclasses override; docs/extend.md lists them.

    Attributes
    ----------
    ensemble_ : Ensemble
        The fitted model.
    history_ : History
        One entry for each round; ``history_["risk"]`` is a column.
    n_estimators_ : int
        Number of rounds in the model.
    best_iteration_ : int
        Number of rounds at which the evaluation metric was best; all of them without one.
    evals_result_ : dict
        ``evals_result_[set][metric]`` is a list, as in LightGBM.
    feature_importances_, feature_names_in_, n_features_in_
    categories_ : dict
        Categories of the categorical columns of a data frame, by name; see `BoostedRanker`.
    classes_, intercept_, link_
        With two classes: their values, the intercept b such that scores + b above 0 predict the
        second class, and the scale c of its probability ``1 / (1 + exp(-c (score + b)))``. c is
        None if the loss has no probabilities, and b is then that of AdaBoost's loss; see
        `predict_proba`.
    stop_reason_ : str
        Why boosting ended.
    selection_ : Selection or None
        Choice of the parameters that are "auto", with the table of candidates.
    has_queries_ : bool
        Whether the model was fitted on several queries, so that `score` warns without any.
    data_columns_ : dict
        Columns that held label, qid, docid and weight, if ``precede fit`` was given their names.

    Examples
    --------
    Coordinate descent on the logistic loss:

    >>> from precede import BaseRanker, PairRisk, Stumps
    >>> from precede.boosting import ExactStep, Plan
    >>> class LogisticBoost(BaseRanker):
    ...     n_estimators: int = 10
    ...
    ...     def plan(self, stop):
    ...         return Plan(PairRisk("logistic"), Stumps(), ExactStep(), stop)
    >>> from precede.datasets import search_results
    >>> sample = search_results(20, features=4, informative=2, per_query=20, random_state=0)
    >>> model = LogisticBoost().fit(sample.X, sample.y, qid=sample.qid)
    >>> model.score(sample.X, sample.y, sample.qid) > 0.7
    True
    """

    # Defaults of the parameters that this class reads, for subclasses without them.
    weak_rankers: str | Family = "stumps"
    monotone_constraints: Sequence[int] | Mapping[int | str, int] | None = None
    n_estimators: int | Literal["auto"] = 100
    learning_rate: float = 1.0
    balance: str = "pairs"
    max_bins: int = 255
    max_features: float = 1.0
    early_stopping_rounds: int | None = None
    eval_metric: object = None
    callbacks: Sequence[Callback] | None = None
    warm_start: bool = False
    random_state: RandomState = None
    n_jobs: int | None = None
    device: str = "cpu"
    verbose: int = 0
    # Whether a fit can be resumed from the weak rankers and the history of its first rounds.
    resumable: ClassVar[bool] = True
    # Parameters that are random shares; 1 draws everything.
    drawn_shares: ClassVar[tuple[str, ...]] = ("max_features",)
    selectable: ClassVar[tuple[str, ...]] = ()  # parameters that may be "auto"
    # Columns of the history that a resumed fit reads.
    resumes_from: ClassVar[tuple[str, ...]] = ("log_risk",)
    learns_labels: ClassVar[bool] = False  # whether `Judgments.label` is used
    takes_init_score: ClassVar[bool] = True
    # Fitted attributes of the subclass that are saved with the model, and how.
    saved_attributes: ClassVar[Mapping[str, Saved]] = {}

    # Fitted attributes.
    ensemble_: Ensemble
    history_: History
    n_features_in_: int
    feature_names_in_: Objects  # unless the columns have no names
    n_estimators_: int
    best_iteration_: int
    best_score_: float | None
    evals_result_: dict[str, dict[str, list[float]]]
    stop_reason_: str
    classes_: Array | None
    intercept_: float | None
    link_: float | None
    categories_: Mapping[str, list[str | float]] = MappingProxyType({})
    has_queries_: bool = False
    data_columns_: Mapping[str, str] = MappingProxyType({})  # names by role
    n_bags_: int = 1  # number of averaged models
    selection_: Selection | None = None

    def __init_subclass__(cls, **named: object) -> None:
        super().__init_subclass__(**named)
        declare_parameters(cls, BaseRanker)

    if not TYPE_CHECKING:  # otherwise mypy would accept every attribute

        def __getattr__(self, name: str) -> object:
            """Name the counterpart of an attribute of another library in the error."""
            if name not in OTHER_ATTRIBUTES:
                return super().__getattribute__(name)  # raises AttributeError
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}; "
                f"{OTHER_ATTRIBUTES[name]}", name=name, obj=self,
            )  # fmt: skip

    # -- hooks -----------------------------------------------------------------------------

    def plan(self, stop: Stop) -> Plan:
        """Return the specification of the algorithm: risk, weak rankers, step and stopping rule.

        `stop` ends the fit after `n_estimators` rounds or by early stopping; a plan may add
        rules: ``stop | NoProgress(...)``.
        """
        raise NotImplementedError(f"{type(self).__name__} must define plan(stop)")

    def auto_losses(self, layout: QueryLayout) -> Sequence[str]:  # noqa: ARG002
        """Return the losses among which ``loss="auto"`` chooses, in algorithms that allow it."""
        return ()

    def check_parameters(self) -> None:
        """Raise ValueError for an invalid parameter; called at the start of a fit."""
        chosen = find_auto_parameters(self)
        if "n_estimators" not in chosen:
            check_integer("n_estimators", self.n_estimators, least=1)
        elif self.early_stopping_rounds is not None:
            raise ValueError(
                f"n_estimators={AUTO!r} stops by itself; leave early_stopping_rounds out, or give "
                "n_estimators as a number"
            )
        if chosen and self.warm_start:
            raise ValueError(
                f"warm_start=True continues a model, and {chosen[0]}={AUTO!r} would choose "
                f"another; give {chosen[0]} as a number"
            )
        if self.early_stopping_rounds is not None:
            check_integer("early_stopping_rounds", self.early_stopping_rounds, least=1)
        for name in ("learning_rate", "max_features"):
            check_range(name, getattr(self, name), 0.0, 1.0)
        check_integer("max_bins", self.max_bins, least=2, most=MAX_BINS)
        check_integer("verbose", self.verbose, least=0)
        count_jobs(self.n_jobs)
        callbacks = self.callbacks
        if callbacks is not None and not (
            isinstance(callbacks, list | tuple) and all(map(callable, callbacks))
        ):
            raise ValueError(f"callbacks={callbacks!r}: give a list of functions")
        if callbacks:
            refuse_other_callbacks(callbacks)

    def weak_rankers_to_search(self) -> Family:
        """Return the family `weak_rankers`, restricted by `monotone_constraints`."""
        family, constraints = self._given_family(), self._monotone_constraints()
        return family if constraints is None else family.with_monotone_constraints(constraints)

    def feature_draw(self) -> Callable[[], Flags | None]:
        """Return a function that draws the features of a round; None means all."""
        if self.max_features == 1.0:
            return lambda: None
        generator = check_random_state(self.random_state)
        total = self.n_features_in_
        count = max(1, round(self.max_features * total))

        def draw() -> Flags:
            allowed = np.zeros(total, bool)
            allowed[generator.permutation(total)[:count]] = True
            return allowed

        return draw

    def categorical_columns(self, known: Sequence[int] = ()) -> list[int]:
        """Return the categorical columns, by default those of the family of weak rankers.

        `known` are those of a `DiskTable`, used if the family takes categories but lists none.
        """
        family = self._given_family()
        if family.takes_categories and family.categorical_features is None:
            return list(known)
        return column_numbers(family.categorical_features, None, self.n_features_in_)

    def judgments_to_learn(self, judgments: Judgments) -> Judgments:
        """Return the judgments to learn from; by default the given ones."""
        return judgments

    def before_rounds(self, task: FitContext) -> None:
        """Check the training rows, and set fitted attributes that `plan` reads."""

    def trainer(
        self, task: FitContext, stop: Stop, ensemble: Ensemble | None, history: History
    ) -> Trainer:
        """Return the trainer, by default coordinate descent on `plan`, with bagging if set.

        `ensemble` and `history` are the rounds of an earlier fit to continue from.
        """
        if self._n_bags > 1:
            from precede.boosting.bagging import bagged_trainer  # noqa: PLC0415  (rarely needed)

            return bagged_trainer(self, task, stop)
        plan = self.plan(stop)
        for _ in range(len(history)):  # advance the random draws to the end of the last fit
            plan.draw()
        trainer = CoordinateDescent(plan, task.training, ensemble, history, task.monitors)
        if task.checkpoint is not None:
            trainer.check_history(history)
        return trainer

    def boost(self, task: FitContext) -> Result:
        """Run the boosting loop and return its result; an algorithm may run it several times."""
        chosen = self._with_selection()
        stop: Stop = Rounds(chosen._max_rounds)
        if (early_stopping := self._early_stopping(task)) and self.early_stopping_rounds:
            stop = stop | early_stopping
        ensemble, history = chosen._initial_model(task.checkpoint)
        trainer = chosen.trainer(task, stop, ensemble, history)
        with task.callbacks(chosen, len(history)) as callbacks:
            return run_rounds(trainer, history, callbacks)

    def after_rounds(self, result: Result, task: FitContext) -> None:
        """Set fitted attributes of a subclass; those of this class are set already.

        ``result.state`` is None if this is called during a fit, for a callback of scikit-learn.
        """

    def warn_of_result(self, result: Result, task: FitContext) -> None:
        """Warn of a model that falls short of the parameters: by default of one without rounds."""
        if len(result.ensemble) or len(result.history) or result.reason == INTERRUPTED:
            return
        weighing = getattr(self, "rank_weight", None)
        more = "" if weighing is None else (
            f", and whether rank_weight={weighing!r} gives any pair a weight: its gain must "
            "differ between grades ('precision@k' asks which are at least 1)"
        )  # fmt: skip
        task.training.context.warn(
            f"the model has no rounds and scores every row alike ({result.reason}): check "
            "whether the features are constant, or constant within every query, and with trees "
            f"whether min_child_samples leaves them a split{more}"
        )

    def risk(self) -> Risk:
        """Return the risk that is minimized: by default that of `plan`."""
        estimator = copy.copy(self._with_selection())
        estimator.random_state = 0  # do not advance the user's generator
        return estimator.plan(Rounds(1)).risk

    def link(self) -> Link | None:
        """Return the link from scores to probabilities: by default that of the risk."""
        return self.risk().link

    def first_rounds(self, rounds: int) -> Ensemble:
        """Return the model after its first rounds; raise ValueError if there is none."""
        return self.ensemble_.first(rounds * self.n_bags_)

    def why_not_resumable(self) -> str:
        """Return why no checkpoint is possible with these parameters; "" if one is."""
        if not self.resumable:
            return f"{type(self).__name__} cannot be resumed; leave checkpoint out"
        if self._n_bags > 1:
            return f"bags={self._n_bags} cannot be resumed; leave checkpoint out"
        if self.warm_start:
            return "warm_start=True and a checkpoint are both given; use one of them"
        if drawn := self._unseeded_share():
            return (
                f"random_state={self.random_state!r}: with {drawn} below 1 only a number "
                "lets a fit be resumed to an equal model"
            )
        return ""

    def check_model(self) -> None:
        """Raise ValueError if a model that was read from a file is not one of this algorithm."""

    # -- fitting ---------------------------------------------------------------------------

    @with_callbacks
    @restore_on_failure
    def fit(
        self,
        X: MatrixLike,
        y: VectorLike = None,
        *,
        qid: VectorLike = None,
        group: VectorLike = None,
        pairs: VectorLike = None,
        pair_weight: VectorLike = None,
        sample_weight: VectorLike = None,
        init_score: VectorLike = None,
        eval_set: EvaluationSets = None,
        eval_qid: VectorLike = None,
        eval_group: VectorLike = None,
        eval_sample_weight: VectorLike = None,
        eval_init_score: VectorLike = None,
        checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
    ) -> Self:
        """Fit the ranker. If the fit fails, the estimator is unchanged.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n, features), or DiskTable
            NaN means missing; infinities are refused. A `DiskTable` contains the target. Arrays
            on a GPU are not copied if ``device="cuda"``.
        y : array of n grades, or Judgments
            Only the order of grades within a query matters. `Judgments` exclude the other
            arguments for the target.
        qid : array of n query identifiers, in any order; None means one query
        group : sizes of the queries, in the order of the rows (for users of LightGBM)
        pairs : array of shape (m, 2) of rows (winner, loser)
        pair_weight : array of m numbers
        sample_weight : array of n numbers; 2 counts the row twice, 0 leaves it out
        init_score : array of n numbers, the scores that boosting starts from (an offset), such as
            those of another model. `predict` does not include them: add them to its scores
        eval_set : (X, y) or list of (X, y), evaluated after every round
        eval_qid, eval_group : query identifiers or sizes, one array for each evaluation set;
            needed if the training rows have queries and the evaluation sets are not `Judgments`
        eval_sample_weight, eval_init_score : weights and offsets, one array for each evaluation
            set; offsets are needed if the training rows have them
        checkpoint : path or Checkpoint; the rounds are saved during the fit, and a fit that finds
            them resumes from them, to an equal model
        """
        given, offset = (X, y), None
        target = dict(
            qid=qid, group=group, pairs=pairs, pair_weight=pair_weight, sample_weight=sample_weight
        )
        check_init_score(self, X, init_score)
        if isinstance(X, DiskTable):
            judgments, classes = read_table(self, X, reset=not self._continues, y=y, **target)
        else:
            X = self._validated(X, reset=not self._continues, to_fit=True)
            judgments, classes = read_target(self, X.shape[0], y, **target)
            warn_of_misuse(given, X, judgments, qid)
            offset = initial_scores(init_score, X.shape[0], "init_score")
        self.check_parameters()
        saved = self._checkpoint(checkpoint)
        with Context(self.n_jobs, open_backend(self.device)) as context:
            training = training_rows(self, X, judgments, offset, context)
            monitors = evaluation_monitors(
                self, eval_set, training.table.bins, context,
                queries=has_queries(training), offset=offset is not None,
                eval_qid=eval_qid, eval_group=eval_group, eval_sample_weight=eval_sample_weight,
                eval_init_score=eval_init_score,
            )  # fmt: skip
            bridge = CallbackBridge(self, *given)
            self.fit_rows(FitContext(X, judgments, classes, training, monitors, saved, bridge))
        return self

    def fit_rows(self, task: FitContext) -> None:
        """Fit prepared rows: choose "auto" parameters, boost, and set the fitted attributes."""
        self.before_rounds(task)
        self.selection_ = None
        if find_auto_parameters(self):
            from precede.boosting.selection import select  # noqa: PLC0415  (rarely needed)

            self.selection_ = select(self, task)
        result = self.boost(task)
        self.set_fitted_attributes(result, task)
        self.warn_of_result(result, task)
        if task.callback_bridge is not None:
            task.callback_bridge.end()

    @property
    def _continues(self) -> bool:
        """Whether a fit continues the model of the last one."""
        return self.warm_start and hasattr(self, "ensemble_")

    @property
    def _n_bags(self) -> int:
        """Number of models to average."""
        return 1

    @property
    def _feature_names(self) -> list[str] | None:
        """Names of the features; None if they have none."""
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else names.tolist()

    @property
    def _max_rounds(self) -> int:
        """`n_estimators`, where it is a number."""
        return cast(int, self.n_estimators)

    def _validated(self, X: MatrixLike, *, reset: bool, to_fit: bool = False) -> MatrixLike:
        return validate_rows(self, X, reset=reset, to_fit=to_fit)

    def _given_family(self) -> Family:
        """Return the family `weak_rankers`, which may be given by name."""
        return family(self.weak_rankers)

    def _takes_categories(self) -> bool:
        """Whether the weak rankers support categorical columns of data frames."""
        return False

    def _encoded(self, X: MatrixLike, *, reset: bool) -> MatrixLike:  # noqa: ARG002
        """Replace categories of a data frame by numbers, in algorithms that support them."""
        return X

    def _columns(self, given: Sequence[int | str], parameter: str) -> list[int]:
        """Return the column numbers of a parameter with columns by number or by name."""
        return columns_in_order(list(given), self._feature_names, self.n_features_in_, parameter)

    def _monotone_constraints(self) -> Sequence[int] | dict[int, int] | None:
        """Return `monotone_constraints` with column numbers instead of names."""
        given = self.monotone_constraints
        if not isinstance(given, Mapping):
            return given
        columns = self._columns([*given], "monotone_constraints")
        if len(set(columns)) < len(columns):
            raise ValueError(
                f"monotone_constraints={given!r} gives a column twice, by number and by name; "
                "give it once"
            )
        return dict(zip(columns, given.values(), strict=True))

    def _with_selection(self) -> Self:
        """Return the estimator with the selected numbers in place of "auto", if any."""
        if self.selection_ is None or not (names := find_auto_parameters(self)):
            return self
        chosen = copy.copy(self)
        for name in names:
            setattr(chosen, name, self.selection_.parameters[name])
        return chosen

    def draw_seed(self) -> int:
        """Return a seed drawn from `random_state`; 0 without one."""
        if self.random_state is None:
            return 0
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _unseeded_share(self) -> str | None:
        """Return the first parameter whose random draw differs from fit to fit, or None."""
        if isinstance(self.random_state, int | np.integer):
            return None
        return next((name for name in self.drawn_shares if getattr(self, name) < 1), None)

    @property
    def can_resume(self) -> bool:
        """Whether a fit with these parameters takes a `checkpoint`."""
        return not self.why_not_resumable()

    def _checkpoint(self, given: Checkpoint | str | os.PathLike[str] | None) -> Checkpoint | None:
        """Return the checkpoint; raise ValueError if the fit could not be resumed."""
        if given is None:
            return None
        if reason := self.why_not_resumable():
            raise ValueError(reason)
        return given if isinstance(given, Checkpoint) else Checkpoint(given)

    def _initial_model(self, checkpoint: Checkpoint | None) -> tuple[Ensemble | None, History]:
        """Return the model and the history of an earlier fit to continue from."""
        if checkpoint is not None:
            return read_checkpoint(self, checkpoint)
        if not self._continues:
            return None, History()
        if self.n_bags_ > 1 or self._n_bags > 1:
            raise ValueError(
                f"bags={max(self.n_bags_, self._n_bags)}: an average of several models "
                "cannot be continued; set warm_start=False"
            )
        if self._max_rounds < self.n_estimators_:
            raise ValueError(
                f"n_estimators={self.n_estimators} is less than the {self.n_estimators_} rounds "
                "of the model to continue from; raise it or set warm_start=False"
            )
        return self.ensemble_, self.history_[: self.n_estimators_]

    def _early_stopping(self, task: FitContext) -> EarlyStopping | None:
        """Return early stopping on the first metric of the first evaluation set."""
        if not task.monitors:
            return None
        monitor = task.monitors[0]
        metric, function = next(iter(monitor.metrics.items()))
        patience = self.early_stopping_rounds or np.iinfo(np.int64).max
        return EarlyStopping(f"{monitor.name} {metric}", patience, function.greater_is_better)

    def set_fitted_attributes(self, result: Result, task: FitContext) -> None:
        """Set the fitted attributes; no data are stored."""
        self.ensemble_, self.history_ = result.ensemble, result.history
        self.evals_result_, self.stop_reason_ = self.history_.evals_result(), result.reason
        self.n_bags_, self.has_queries_ = self._n_bags, has_queries(task.training)
        self.n_estimators_ = self.best_iteration_ = len(self.history_)
        self.best_score_ = None
        if early_stopping := self._early_stopping(task):
            best = self.best_iteration_ = early_stopping.best_round(self.history_)
            if early_stopping.column in self.history_.columns:
                self.best_score_ = float(self.history_[early_stopping.column][best - 1])
            if self.early_stopping_rounds is not None and best < self.n_estimators_:
                self.ensemble_, self.n_estimators_ = self.first_rounds(best), best
        self._set_classes(result, task)
        self.after_rounds(result, task)

    def _set_classes(self, result: Result, task: FitContext) -> None:
        """Set the classes, the intercept and the link of a single list of two classes."""
        self.classes_ = self.intercept_ = self.link_ = None
        # Without the rows of weight 0 there may be a single class.
        if task.classes is None or task.training.layout.level_start.size != 3:
            return
        table, scores = task.training.table, result.scores
        if scores is None or len(result.ensemble) != len(self.ensemble_):
            start = task.training.init_score
            scores = np.zeros(table.n_used_rows) if start is None else start.copy()
            for weak_ranker, step in self.ensemble_.parts():
                scores += step * weak_ranker.on(table)
        link, layout, context = self.link(), task.training.layout, task.training.context
        self.classes_, self.link_ = task.classes, None if link is None else link.scale
        self.intercept_ = fit_intercept(link or ADABOOST, scores, layout, context)

    # -- scoring ---------------------------------------------------------------------------

    def predict(self, X: MatrixLike, *, num_iteration: int | None = None) -> Floats:
        """Return one score per row; within a query a higher score ranks first.

        With `num_iteration` only that many rounds are used, from the first on. The default is all
        rounds of the model, which after early stopping are those up to the best.

        Trees score an array on a GPU (CuPy, or anything with ``__cuda_array_interface__`` or
        DLPack) on the device, to the same bits and without copies; the scores are a CuPy array.
        """
        check_is_fitted(self)
        device_input = on_gpu(X)
        X = X if device_input else self._validated(X, reset=False)
        model = self.ensemble_
        if num_iteration is not None:
            check_integer("num_iteration", num_iteration, least=1, most=self.n_estimators_)
            model = self.first_rounds(num_iteration)
        if device_input:
            device = open_backend("cuda")
            return model.predict_on_device(device.adopt_matrix(X), device)
        with Context(self.n_jobs) as context:
            return model.predict(X, context)

    def staged_predict(self, X: MatrixLike) -> Iterator[Floats]:
        """Yield the scores after each round of the model."""
        check_is_fitted(self)
        staged = self.ensemble_.staged_predict(self._validated(X, reset=False))
        return islice(staged, self.n_bags_ - 1, None, self.n_bags_)

    def rank(self, X: MatrixLike, qid: VectorLike = None, *, group: VectorLike = None) -> Integers:
        """Return the rank of every row within its query, from 1; equal scores in row order.

        `group`, the sizes of the queries in the order of the rows, may replace `qid`.
        """
        scores = self.predict(X)
        judgments = Judgments(qid=qid_or_group(scores, qid, group), n=scores.size)
        query = judgments._query()
        order = np.lexsort((-scores, query))
        first = np.searchsorted(query[order], query[order], side="left")
        ranks = np.empty(scores.size, np.int64)
        ranks[order] = np.arange(scores.size) - first + 1
        return ranks

    def score(
        self,
        X: MatrixLike,
        y: VectorLike = None,
        qid: VectorLike = None,
        sample_weight: VectorLike = None,
        *,
        group: VectorLike = None,
        pairs: VectorLike = None,
        pair_weight: VectorLike = None,
    ) -> float:
        """Return the share of pairs in the right order, ties counting half.

        1 is perfect and 0.5 is chance. The pairs are those of grades `y` within queries, or
        explicit `pairs` (winner, loser); all arguments are as in `fit`. A model fitted with queries
        warns if it is scored without them: pairs would join rows of different queries. See
        `precede.metrics.make_scorer` for other metrics.
        """
        scores = self.predict(X)
        judgments, _ = read_target(
            self, scores.size, y, qid=qid, group=group, sample_weight=sample_weight, pairs=pairs,
            pair_weight=pair_weight,
        )  # fmt: skip
        warn_of_lost_queries(self, judgments)
        return pairs_in_order(judgments, scores)

    @available_if(_two_classes)
    def decision_function(self, X: MatrixLike) -> Floats:
        """Return the score plus `intercept_`: positive for the second class."""
        return self.predict(X) + float(self.intercept_ or 0.0)

    @available_if(_has_link)
    def predict_proba(self, X: MatrixLike) -> Floats:
        """Return probabilities of the two classes, ``1 / (1 + exp(-c (f + b)))`` for the second.

        c, `link_`, and b, `intercept_`, belong to the loss. For "logistic" and
        "query_cross_entropy" c is 1, and b makes the mean probability of the training rows the
        share of the second class, by weight. For "exponential" with the price ``u^p`` c is p + 1,
        and b is ``log(F+ / F-) / (p + 1)`` with F+ the sum of ``exp(-f)`` over the second class
        and F- that of ``exp(p f)`` over the first: for p = 1 corollary 13 of Rudin & Schapire
        (2009). Other losses and prices have no probabilities and lack this method; their
        intercept, for `classify`, is also that of corollary 13.
        """
        decision, scale = self.decision_function(X), float(self.link_ or 0.0)
        return np.stack([probability(-decision, scale), probability(decision, scale)], axis=1)

    @available_if(_two_classes)
    def classify(self, X: MatrixLike) -> Array:
        """Return the more probable class of every row."""
        assert self.classes_ is not None
        return self.classes_[(self.decision_function(X) > 0).astype(np.int64)]

    @property
    def feature_importances_(self) -> Floats:
        """Share of each feature in the absolute weight of the weak rankers."""
        check_is_fitted(self)
        return self.ensemble_.importances()

    # -- explaining ------------------------------------------------------------------------

    def shape_function(self, feature: int | str) -> explanations.ShapeFunction:
        """Return the effect of one feature on the score; for additive models."""
        check_is_fitted(self)
        names = self._feature_names
        index = explanations.feature_index(feature, names, self.n_features_in_)
        return explanations.shape_function(self.ensemble_, index, names, self.categories_)

    def explain(self, X: MatrixLike, *, background: MatrixLike = None) -> explanations.Explanation:
        """Return the contributions of the features to each score; they add up to it exactly.

        With a `background` (such as a hundred rows of the training set) they are relative to the
        mean score of its rows; see `precede.explain.Explanation`.
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        if background is not None:
            background = self._validated(background, reset=False)
        with Context(self.n_jobs) as context:
            return explanations.explain(
                self.ensemble_, X, names=self._feature_names, background=background,
                context=context,
            )  # fmt: skip

    def explain_pair(self, X: MatrixLike, i: int, k: int) -> explanations.PairExplanation:
        """Explain why row i of X ranks above row k, feature by feature.

        i and k are positions, as for ``X.iloc``; rows of a pandas data frame are shown by their
        index labels.
        """
        check_is_fitted(self)
        labels = row_labels(X)
        X = self._validated(X, reset=False)
        return explanations.explain_pair(
            self.ensemble_, X, i, k, self._feature_names, labels, self.categories_
        )

    # -- plotting --------------------------------------------------------------------------

    def plot_shapes(
        self, X: MatrixLike = None, *, features: Sequence[int | str] | None = None, top: int = 6
    ) -> Figure:
        """Plot shape functions, the most important features first; for additive models.

        Parameters
        ----------
        X : data to show below the curves, optional
        features : names or numbers; the default is the `top` most important features

        Returns the matplotlib Figure. `precede.plots.shape_info` has the numbers.

        >>> import matplotlib
        >>> matplotlib.use("agg")
        >>> from precede import RankBoost
        >>> from precede.datasets import two_normals
        >>> sample = two_normals(100, features=3, random_state=0)
        >>> model = RankBoost(step="bound", n_estimators=50).fit(sample.X, sample.y)
        >>> len(model.plot_shapes(sample.X, top=2).axes)
        2
        """
        check_is_fitted(self)
        check_integer("top", top, least=1)
        if features is None:
            weight = self.feature_importances_
            order = np.argsort(-weight, kind="stable")[:top]
            features = [int(each) for each in order if weight[each] > 0]
        return plots.draw_shapes([plots.shape_info(self, each, X) for each in features])

    def plot_importance(
        self, X: MatrixLike = None, *, top: int = 15, ax: Axes | None = None
    ) -> Axes:
        """Plot feature importances; see `precede.plots.importance_info` for the two kinds.

        For axes of an existing figure, ``layout="constrained"`` makes room for long names.
        """
        check_is_fitted(self)
        return plots.draw_importances(plots.importance_info(self, X, top=top), ax)

    def plot_history(self, columns: Sequence[str] | None = None, *, ax: Axes | None = None) -> Axes:
        """Plot the evaluation metrics, or else the training risk, round by round."""
        check_is_fitted(self)
        return plots.draw_learning(plots.learning_info(self, columns), ax)

    # -- saving ----------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as JSON, atomically; `precede.load` reads it back."""
        check_is_fitted(self)
        check_model_name(path)
        write_model(path, model_fields(self))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "ensemble_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "ranker"
        if hasattr(self, "ensemble_"):  # partial dependence requires it
            tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags


def has_queries(training: TrainingData) -> bool:
    """Whether grades are compared within several queries, not in one list."""
    return training.layout.query_start.size > 2
