"""`BaseRanker`, the base class of all algorithms: parameters, hooks, fit, scores, explanations.

A subclass declares its parameters as annotated attributes and defines `plan`.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, Signature, get_annotations, signature
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import RegressorTags, check_random_state
from sklearn.utils.validation import check_is_fitted

from precede import explain as explanations  # modules of both are loaded when used
from precede import plots
from precede.boosting.callbacks import CallbackBridge, Checkpoint, ProgressBar
from precede.boosting.coordinate_descent import CoordinateDescent, Plan
from precede.boosting.loop import (
    INTERRUPTED,
    EarlyStopping,
    History,
    Progress,
    Result,
    Rounds,
    Stop,
    Trainer,
    run_rounds,
)
from precede.boosting.monitors import Monitor, pairs_in_order
from precede.engine.arrays import Array, Floats, Objects
from precede.engine.backend import on_gpu, open_backend
from precede.engine.compatibility import BaseEstimator, CallbackSupportMixin, with_callbacks
from precede.engine.execution import Context, count_jobs
from precede.engine.frames import row_labels
from precede.engine.parameters import AUTO, check_integer, check_range, find_auto_parameters
from precede.engine.query_layout import TrainingData
from precede.engine.table import MAX_BINS
from precede.estimator.inputs import (
    check_offset,
    evaluation_monitors,
    initial_scores,
    read_table,
    read_target,
    validate_rows,
    warn_of_misuse,
)
from precede.estimator.other_libraries import (
    OTHER_ATTRIBUTES,
    refuse_fit_arguments,
    refuse_other_callbacks,
    unknown_parameter,
)
from precede.estimator.saving import evals_result, model_fields, read_checkpoint, restore_model
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

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

if TYPE_CHECKING:  # scikit-learn ships no types
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from typing_extensions import Self, dataclass_transform

    from precede.boosting.selection import Selection

    def available_if(check: Callable[[Any], bool]) -> Callable[[Decorated], Decorated]:
        """Return a decorator for a method that exists if the check succeeds."""
else:
    from sklearn.utils.metaestimators import available_if

    def dataclass_transform(**_: bool) -> Callable[[type], type]:
        """Return a decorator without effect; type checkers read it (`typing` of Python 3.11)."""
        return lambda cls: cls


def restore_on_failure(fit: Decorated) -> Decorated:
    """Decorate `fit` to restore the previous fitted attributes if it raises."""

    @wraps(fit)
    def wrapped(self: BaseRanker, *arguments: Any, **named: Any) -> Any:
        refuse_fit_arguments(named, signature(fit).parameters)
        before = {name: value for name, value in vars(self).items() if name.endswith("_")}
        try:
            return fit(self, *arguments, **named)
        except BaseException:
            for name in [name for name in vars(self) if name.endswith("_")]:
                delattr(self, name)
            self.__dict__.update(before)
            raise

    return cast(Decorated, wrapped)


@dataclass(frozen=True)
class FitContext:
    """Data of one fit, as given and as prepared, with evaluation sets and callbacks.

    `classes` are the two classes of a single list, otherwise None. Each monitor comes with a
    dictionary from metrics to whether greater is better. With a `DiskTable`, `judgments` are in
    the order of its layout. `callback_bridge` serves scikit-learn's callbacks.
    """

    X: Any
    judgments: Judgments
    classes: Array | None
    training: TrainingData
    monitors: list[tuple[Monitor, dict[str, bool]]]
    checkpoint: Checkpoint | None = None
    callback_bridge: CallbackBridge | None = None

    @contextmanager
    def callbacks(
        self, estimator: BaseRanker, done: int = 0
    ) -> Iterator[list[Callable[[Progress], Any]]]:
        """Yield callbacks of a loop that continues from `done` rounds; close bar and checkpoint."""
        saved = [] if self.checkpoint is None else [self.checkpoint]
        bridged = [] if self.callback_bridge is None else self.callback_bridge.rounds(self)
        name, rounds, verbose = type(estimator).__name__, estimator.n_estimators, estimator.verbose
        try:
            with ProgressBar(name, rounds=rounds, done=done, verbose=verbose) as bar:
                yield [*bar.callbacks(estimator.callbacks), *saved, *bridged]
        finally:
            for checkpoint in saved:
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


def _declared_parameters(cls: type[BaseRanker]) -> dict[str, Parameter]:
    """Return the parameters that a class and its bases declare: first those of the class."""
    found: dict[str, Parameter] = {}
    for base in reversed(cls.__mro__[: cls.__mro__.index(BaseRanker)]):
        kinds = get_annotations(base) if issubclass(base, BaseRanker) else {}
        own = {
            name: Parameter(name, Parameter.KEYWORD_ONLY, default=vars(base)[name], annotation=kind)
            for name, kind in kinds.items()
            if name in vars(base) and "ClassVar" not in str(kind)
        }
        found = {name: each for name, each in own.items() if name not in found} | found | own
    return found


def _make_init(parameters: dict[str, Parameter]) -> Callable[..., None]:
    """Return an `__init__` that assigns parameters, with the signature that scikit-learn reads."""
    defaults = {name: each.default for name, each in parameters.items()}

    def init(self: BaseRanker, **given: Any) -> None:
        for name in given.keys() - defaults.keys():
            raise TypeError(unknown_parameter(type(self).__name__, name, defaults))
        self.__dict__.update(defaults | given)

    named_self = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    init.__signature__ = Signature([named_self, *parameters.values()])  # type: ignore[attr-defined]
    return init


@dataclass_transform(kw_only_default=True, eq_default=False)
class BaseRanker(CallbackSupportMixin, BaseEstimator):
    """Base class of all algorithms, including user-defined ones.

    A subclass declares its parameters as those of a dataclass, by annotated attributes with
    defaults, uses the names of scikit-learn and LightGBM, and defines `plan`. (It may also assign
    them in an `__init__` of its own.) The other hooks have defaults: `check_parameters` validates
    the parameters, `feature_draw` restricts the features of a round, `judgments_to_learn`
    transforms the target, `learns_labels` allows `Judgments.label`, `resumable` and `resumes_from`
    tell whether a fit can be resumed and from which columns of the history, and `drawn_shares`
    names the parameters that make a fit depend on `random_state`.

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
    weak_rankers: Any = "stumps"
    monotone_constraints: Any = None
    n_estimators: Any = 100  # a number, or "auto" if selectable
    learning_rate: float = 1.0
    balance: str = "pairs"
    max_bins: int = 255
    max_features: float = 1.0
    early_stopping_rounds: int | None = None
    eval_metric: Any = None
    callbacks: Sequence[Callable[[Progress], Any]] | None = None
    warm_start: bool = False
    random_state: Any = None
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
    _n_bags: Any = 1  # number of models to average

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
    categories_: Mapping[str, list[Any]] = MappingProxyType({})
    has_queries_: bool = False
    data_columns_: Mapping[str, str] = MappingProxyType({})  # names by role
    n_bags_: int = 1  # number of averaged models
    selection_: Selection | None = None

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        parameters = _declared_parameters(cls)
        if "__init__" not in vars(cls) and parameters.keys() & vars(cls).keys():
            cls.__init__ = _make_init(parameters)  # type: ignore[method-assign]

    if not TYPE_CHECKING:  # otherwise mypy would accept every attribute

        def __getattr__(self, name: str) -> Any:
            """Explain the counterpart of an attribute of another library."""
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
        refuse_other_callbacks(callbacks or ())

    def weak_rankers_to_search(self) -> Family:
        """Return the family `weak_rankers`, restricted by `monotone_constraints`."""
        chosen = family(self.weak_rankers)
        given = self.monotone_constraints
        if given is None:
            return chosen
        if isinstance(given, Mapping):
            names = getattr(self, "feature_names_in_", None)
            columns = columns_in_order([*given], names, self.n_features_in_, "monotone_constraints")
            if len(set(columns)) < len(columns):
                raise ValueError(
                    f"monotone_constraints={given!r} gives a column twice; give it once"
                )
            given = dict(zip(columns, given.values(), strict=True))
        return chosen.with_monotone_constraints(given)

    def feature_draw(self) -> Callable[[], NDArray[np.bool_] | None]:
        """Return a function that draws the features of a round; None means all."""
        if self.max_features == 1.0:
            return lambda: None
        generator = check_random_state(self.random_state)
        total = self.n_features_in_
        count = max(1, round(self.max_features * total))

        def draw() -> NDArray[np.bool_]:
            allowed = np.zeros(total, bool)
            allowed[generator.permutation(total)[:count]] = True
            return allowed

        return draw

    def categorical_columns(self, known: Sequence[int] = ()) -> list[int]:
        """Return the categorical columns, by default those of the family of weak rankers.

        `known` are those of a `DiskTable`, used if the family takes categories but names none.
        """
        if getattr(self, "weak_rankers", None) is None:
            return []
        chosen = family(self.weak_rankers)
        if chosen.takes_categories and chosen.categorical_features is None:
            return list(known)
        return column_numbers(chosen.categorical_features, None, self.n_features_in_)

    def judgments_to_learn(self, judgments: Judgments) -> Judgments:
        """Return the judgments to learn from; by default the given ones."""
        return judgments

    def _takes_categories(self) -> bool:
        """Whether the weak rankers take categories."""
        return False

    def _encoded(self, X: Any, *, reset: bool) -> Any:  # noqa: ARG002
        """Replace categories by numbers; for algorithms that take categories."""
        return X

    # -- fitting ---------------------------------------------------------------------------

    @with_callbacks
    @restore_on_failure
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        pairs: ArrayLike | None = None,
        pair_weight: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        init_score: ArrayLike | None = None,
        eval_set: Any = None,
        eval_qid: Any = None,
        eval_group: Any = None,
        eval_sample_weight: Any = None,
        eval_init_score: Any = None,
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
        reset = not (self.warm_start and hasattr(self, "ensemble_"))
        target = dict(
            qid=qid, group=group, pairs=pairs, pair_weight=pair_weight, sample_weight=sample_weight
        )
        check_offset(self, X, init_score)
        if isinstance(X, DiskTable):
            judgments, classes = read_table(self, X, reset=reset, y=y, **target)
        else:
            X = self._validated(X, reset=reset, to_fit=True)
            judgments, classes = read_target(self, X.shape[0], y, **target)
            warn_of_misuse(given, X, judgments, qid)
            offset = initial_scores(init_score, X.shape[0], "init_score")
        self.check_parameters()
        saved = self._checkpoint(checkpoint)
        with Context(self.n_jobs, open_backend(self.device)) as context:
            training = self._prepare(X, judgments, offset, context)
            monitors = evaluation_monitors(
                self, eval_set, training.table.bins, context,
                queries=has_queries(training), offset=offset is not None,
                eval_qid=eval_qid, eval_group=eval_group, eval_sample_weight=eval_sample_weight,
                eval_init_score=eval_init_score,
            )  # fmt: skip
            callback_bridge = CallbackBridge(self, *given)
            task = FitContext(X, judgments, classes, training, monitors, saved, callback_bridge)
            result = self._boost(task)
        self._set_fitted_attributes(result, task)
        callback_bridge.end()
        return self

    def _validated(self, X: Any, *, reset: bool, to_fit: bool = False) -> Any:
        return validate_rows(self, X, reset=reset, to_fit=to_fit)

    def _prepare(
        self, X: Any, judgments: Judgments, init_score: Floats | None, context: Context
    ) -> TrainingData:
        """Return the training data, with the table of the rows binned or read from disk."""
        on_disk = isinstance(X, DiskTable)
        options: dict[str, Any] = dict(
            balance=self.balance, max_bins=self.max_bins, context=context,
            categorical=self.categorical_columns(X.categorical_features if on_disk else ()),
        )  # fmt: skip
        if on_disk:
            return X.training(**options)
        from precede.weak_rankers.regressors import learner  # noqa: PLC0415  (slow)

        chosen = getattr(self, "weak_rankers", None)
        by_value = chosen is not None and not learner(chosen).codes_only
        if self.warm_start and hasattr(self, "ensemble_"):  # weak rankers of any family
            by_value |= not all(
                weak_ranker.codes_only for weak_ranker in self.ensemble_.weak_rankers
            )
        return TrainingData.prepare(
            X, self.judgments_to_learn(judgments), labeled=self.learns_labels,
            init_score=init_score, by_value=by_value, **options,
        )  # fmt: skip

    def _boost(self, task: FitContext) -> Result:
        """Choose the parameters that are "auto", build the trainer and run the boosting loop."""
        self.selection_ = None
        if find_auto_parameters(self):
            from precede.boosting.selection import select  # noqa: PLC0415  (not in every fit)

            self.selection_ = select(self, task, self._seed())
        chosen = self._with_selection()
        stop: Stop = Rounds(chosen.n_estimators)
        early_stopping = self._early_stopping(task)
        if early_stopping is not None and self.early_stopping_rounds is not None:
            stop = stop | early_stopping
        ensemble, history = chosen._initial_model(task.checkpoint)
        trainer = chosen._trainer(task, stop, ensemble, history)
        with task.callbacks(chosen, len(history)) as callbacks:
            result = run_rounds(trainer, history, callbacks)
        self._warn_of_no_rounds(result, task.training.context)
        return result

    def _with_selection(self) -> Self:
        """Return the estimator with chosen numbers instead of "auto"; itself if it has none."""
        if not (names := find_auto_parameters(self)):
            return self
        chosen = copy.copy(self)
        for name in names:
            setattr(chosen, name, cast("Selection", self.selection_).parameters[name])
        return chosen

    def _seed(self) -> int:
        """Return the seed for drawing queries; 0 without a random_state."""
        if self.random_state is None:
            return 0
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _trainer(
        self, task: FitContext, stop: Stop, ensemble: Ensemble | None, history: History
    ) -> Trainer:
        """Return the trainer: by default coordinate descent on `plan`, bagged if asked for."""
        if self._n_bags > 1:
            from precede.boosting.bagging import bagged_trainer  # noqa: PLC0415  (not in every fit)

            return bagged_trainer(self, task, stop)
        plan = self.plan(stop)
        for _ in range(len(history)):  # advance the random draws to the end of the last fit
            plan.draw()
        monitors = [monitor for monitor, _ in task.monitors]
        trainer = CoordinateDescent(plan, task.training, ensemble, history, monitors)
        if task.checkpoint is not None:
            trainer.check_history(history)
        return trainer

    def _warn_of_no_rounds(self, result: Result, context: Context) -> None:
        """Warn if the loop ended without rounds."""
        if len(result.ensemble) or result.reason == INTERRUPTED:
            return
        weighing = getattr(self, "rank_weight", None)
        more = "" if weighing is None else (
            f", and whether rank_weight={weighing!r} gives any pair a weight: its gain must "
            "differ between grades ('precision@k' asks which are at least 1)"
        )  # fmt: skip
        context.warn(
            f"the model has no rounds and scores every row alike ({result.reason}): check "
            "whether the features are constant, or constant within every query, and with trees "
            f"whether min_child_samples leaves them a split{more}"
        )

    @property
    def can_resume(self) -> bool:
        """Whether a fit with these parameters takes a `checkpoint`."""
        again = self._unseeded_share() is None and self._n_bags == 1
        return self.resumable and not self.warm_start and again

    def _unseeded_share(self) -> str | None:
        """Return a parameter whose random draw differs from fit to fit, or None."""
        if isinstance(self.random_state, int | np.integer):
            return None
        return next((name for name in self.drawn_shares if getattr(self, name) < 1), None)

    def _checkpoint(self, given: Checkpoint | str | os.PathLike[str] | None) -> Checkpoint | None:
        """Return the checkpoint; raise ValueError if the fit could not be resumed."""
        if given is None:
            return None
        if not self.resumable:
            raise ValueError(f"{type(self).__name__} cannot be resumed; leave checkpoint out")
        if self._n_bags > 1:
            raise ValueError(f"bags={self._n_bags} cannot be resumed; leave checkpoint out")
        if self.warm_start:
            raise ValueError("warm_start=True and a checkpoint are both given; use one of them")
        if drawn := self._unseeded_share():
            raise ValueError(
                f"random_state={self.random_state!r}: with {drawn} below 1 only a number "
                "lets a fit be resumed to an equal model"
            )
        return given if isinstance(given, Checkpoint) else Checkpoint(given)

    def _initial_model(
        self, checkpoint: Checkpoint | None = None
    ) -> tuple[Ensemble | None, History]:
        """Return the model and the history of an earlier fit to continue from."""
        if checkpoint is not None:
            return read_checkpoint(self, checkpoint)
        if not self.warm_start or not hasattr(self, "ensemble_"):
            return None, History()
        if self.n_bags_ > 1 or self._n_bags > 1:
            raise ValueError(
                f"bags={max(self.n_bags_, self._n_bags)}: an average of several models "
                "cannot be continued; set warm_start=False"
            )
        if self.n_estimators < len(self.ensemble_):
            raise ValueError(
                f"n_estimators={self.n_estimators} is less than the {len(self.ensemble_)} rounds "
                "of the model to continue from; raise it or set warm_start=False"
            )
        return self.ensemble_, self.history_[: len(self.ensemble_)]

    def _early_stopping(self, task: FitContext) -> EarlyStopping | None:
        """Return early stopping on the first metric of the first evaluation set."""
        if not task.monitors:
            return None
        monitor, better = task.monitors[0]
        metric = next(iter(monitor.metrics))
        patience = self.early_stopping_rounds or np.iinfo(np.int64).max
        return EarlyStopping(f"{monitor.name} {metric}", int(patience), better[metric])

    def _set_fitted_attributes(self, result: Result, task: FitContext) -> None:
        """Set the fitted attributes; no data are stored."""
        history, early_stopping = result.history, self._early_stopping(task)
        self.n_bags_ = int(self._n_bags)
        best = rounds = len(result.ensemble) // self.n_bags_
        kept, self.best_score_ = len(result.ensemble), None
        if early_stopping is not None:
            best = early_stopping.best_round(history) if len(history) else rounds
            if rounds > 0 and early_stopping.column in history.columns:
                self.best_score_ = float(history[early_stopping.column][best - 1])
            if self.early_stopping_rounds is not None:
                kept = best * self.n_bags_
        self.ensemble_ = result.ensemble.first(kept)
        self.history_ = history
        self.n_estimators_ = len(self.ensemble_) // self.n_bags_
        self.best_iteration_ = best
        self.evals_result_ = evals_result(history)
        self.stop_reason_ = result.reason
        self.has_queries_ = has_queries(task.training)
        # Without the rows of weight 0 there may be a single class.
        two = task.classes is not None and task.training.layout.level_start.size == 3
        self.classes_ = task.classes if two else None
        known = result.scores if result.n_scored == len(self.ensemble_) else None
        link = self._link() if two else None
        self.link_ = None if link is None else link.scale
        self.intercept_ = self._intercept(link or ADABOOST, task.training, known) if two else None

    def _risk(self) -> Risk:
        """Return the minimized risk."""
        planned = copy.copy(self._with_selection())
        planned.random_state = 0  # do not advance the user's generator
        return planned.plan(Rounds(1)).risk

    def _link(self) -> Link | None:
        """Return the link of the minimized risk."""
        return self._risk().link

    def _intercept(self, link: Link, training: TrainingData, scores: Floats | None = None) -> float:
        """Return the intercept of a link; `scores` are those of the model, if known."""
        table, start = training.table, training.init_score
        if scores is None:
            scores = np.zeros(table.n_used_rows) if start is None else start.copy()
            for weak_ranker, step in self.ensemble_.parts():
                scores += step * weak_ranker.on(table)
        return fit_intercept(link, scores, training.layout, training.context)

    # -- scoring ---------------------------------------------------------------------------

    def predict(self, X: Any, *, num_iteration: int | None = None) -> Floats:
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
            model = self._truncated(num_iteration)
        if device_input:
            device = open_backend("cuda")
            return model.predict_on_device(device.adopt_matrix(X), device)
        with Context(self.n_jobs) as context:
            return model.predict(X, context)

    def _truncated(self, rounds: int) -> Ensemble:
        """Return the model of the first `rounds` rounds."""
        return self.ensemble_.first(rounds * self.n_bags_)

    def staged_predict(self, X: Any) -> Iterator[Floats]:
        """Yield the scores after each round of the model."""
        check_is_fitted(self)
        staged = self.ensemble_.staged_predict(self._validated(X, reset=False))
        return islice(staged, self.n_bags_ - 1, None, self.n_bags_)

    def rank(
        self, X: Any, qid: ArrayLike | None = None, *, group: ArrayLike | None = None
    ) -> NDArray[np.int64]:
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
        X: Any,
        y: Any = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        group: ArrayLike | None = None,
        pairs: ArrayLike | None = None,
        pair_weight: ArrayLike | None = None,
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
    def decision_function(self, X: Any) -> Floats:
        """Return the score plus `intercept_`: positive for the second class."""
        return self.predict(X) + float(self.intercept_ or 0.0)

    @available_if(_has_link)
    def predict_proba(self, X: Any) -> Floats:
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
    def classify(self, X: Any) -> Array:
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
        names = getattr(self, "feature_names_in_", None)
        index = explanations.feature_index(feature, names, self.n_features_in_)
        return explanations.shape_function(self.ensemble_, index, names, self.categories_)

    def explain(self, X: Any, *, background: Any = None) -> explanations.Explanation:
        """Return the contributions of the features to each score; they add up to it exactly.

        With a `background` (such as a hundred rows of the training set) they are relative to the
        mean score of its rows; see `precede.explain.Explanation`.
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        if background is not None:
            background = self._validated(background, reset=False)
        names = getattr(self, "feature_names_in_", None)
        with Context(self.n_jobs) as context:
            return explanations.explain(
                self.ensemble_, X, names=names, background=background, context=context
            )

    def explain_pair(self, X: Any, i: int, k: int) -> explanations.PairExplanation:
        """Explain why row i of X ranks above row k, feature by feature.

        i and k are positions, as for ``X.iloc``; rows of a pandas data frame are shown by their
        index labels.
        """
        check_is_fitted(self)
        labels = row_labels(X)
        X = self._validated(X, reset=False)
        names = getattr(self, "feature_names_in_", None)
        return explanations.explain_pair(self.ensemble_, X, i, k, names, labels, self.categories_)

    # -- plotting --------------------------------------------------------------------------

    def plot_shapes(
        self, X: Any = None, *, features: Sequence[int | str] | None = None, top: int = 6
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

    def plot_importance(self, X: Any = None, *, top: int = 15, ax: Axes | None = None) -> Axes:
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
        write_model(path, self._to_dict())

    def _to_dict(self) -> dict[str, Any]:
        """Return the fields of the model file; a subclass adds those of its own attributes."""
        return model_fields(self)

    def _restore(self, fields: dict[str, Any]) -> None:
        """Set the fitted attributes from the result of `_to_dict`."""
        restore_model(self, fields)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "ensemble_")

    def __sklearn_tags__(self) -> Any:
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
