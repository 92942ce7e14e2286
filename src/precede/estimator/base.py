"""`BaseRanker`, the base class of all algorithms: parameters, hooks and `fit`.

A subclass assigns its parameters in `__init__` and defines `plan`. `FittedRanker` has the methods
of fitted models.
"""

from __future__ import annotations

import copy
import difflib
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import RegressorTags, check_random_state

from precede.boosting.coordinate_descent import CoordinateDescent, Plan
from precede.boosting.history import EarlyStopping, History, Monitor, Progress, Rounds, Stop
from precede.boosting.loop import INTERRUPTED, CallbackBridge, ProgressBar, Result, run_rounds
from precede.boosting.monitors import check_metric_names, monitored_metrics
from precede.boosting.trainer import Trainer
from precede.engine.arrays import Array, Floats
from precede.engine.compatibility import CallbackSupportMixin, with_callbacks
from precede.engine.cuda import open_device
from precede.engine.execution import Context, count_jobs
from precede.engine.parameters import AUTO, check_integer, check_range, find_auto_parameters
from precede.engine.table import MAX_BINS, Bins, Table
from precede.engine.training_data import TrainingData
from precede.estimator.inputs import (
    evaluation_sets,
    initial_scores,
    one_for_each,
    warn_of_misuse,
)
from precede.estimator.saving import (
    SavedRanker,
    described_parameters,
    evals_result,
    read_history,
    required_field,
)
from precede.files.disk import DiskTable
from precede.judgments import (
    Judgments,
    column_numbers,
    columns_in_order,
    one_graded_list,
)
from precede.model import Ensemble
from precede.risks.base import ADABOOST, Link, fit_intercept
from precede.weak_rankers.base import Family, WeakRanker, family

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

if TYPE_CHECKING:
    from typing_extensions import Self

    from precede.boosting.checkpoint import Checkpoint
    from precede.boosting.selection import Selection

_PARAMETER = "it is a parameter of the estimator: give it when the estimator is made"
# Arguments of `fit` in other libraries, and their counterparts.
ELSEWHERE = {
    "callbacks": _PARAMETER,
    "categorical_feature": "BoostedRanker has the parameter categorical_features",
    "early_stopping_rounds": _PARAMETER,
    "eval_at": "cut-offs are part of a metric: eval_metric=['ndcg@5', 'ndcg@10'] of the estimator",
    "eval_metric": _PARAMETER,
    "eval_names": "evaluation sets are called valid_0, valid_1, ... in evals_result_",
    "eval_sample_weight": "give eval_set=(X, Judgments(y, qid, weight=...))",
    "init_score": "this estimator has no offset",
    "feature_name": "give X as a data frame, whose columns have names",
    "base_margin": "it is called init_score here",
    "group_id": "queries are given as qid, or by their sizes as group",
    "groups": "queries are given as qid, or by their sizes as group",
    "init_model": "set warm_start=True and fit again to continue from a model",
    "sample_weight_eval_set": "it is called eval_sample_weight here",
    "verbose": _PARAMETER,
}
# Names of the parameters in LightGBM, XGBoost and CatBoost.
OTHER_NAMES = {
    "n_estimators": "iterations n_iter num_boost_round num_iterations num_rounds num_trees",
    "learning_rate": "eta shrinkage_rate",
    "num_leaves": "max_leaf_nodes max_leaves",
    "max_depth": "depth",
    "min_child_samples": "min_data_in_leaf min_samples_leaf",
    "min_split_gain": "gamma min_gain_to_split",
    "reg_lambda": "l2_leaf_reg l2_regularization lambda_l2",
    "reg_alpha": "lambda_l1",
    "subsample": "bagging_fraction",
    "max_features": "colsample_bytree feature_fraction rsm",
    "max_features_by_split": "colsample_bynode feature_fraction_bynode",
    "max_bins": "border_count max_bin",
    "categorical_features": "cat_features categorical_feature",
    "monotone_constraints": "monotonic_cst",
    "loss": "loss_function objective",
    "eval_metric": "metric",
    "early_stopping_rounds": "early_stopping_round n_iter_no_change",
    "random_state": "random_seed seed",
    "n_jobs": "nthread num_threads thread_count",
    "verbose": "verbosity",
}

# Parameters of these libraries without a counterpart, and what to use instead.
WITHOUT_COUNTERPART = {
    "bagging_freq": "with subsample rows are drawn for every tree",
    "boosting": "",
    "boosting_type": "",
    "booster": "",
    "bootstrap_type": "subsample draws rows without replacement",
    "label_gain": "gains of grades belong to rank_weight=RankWeight(gain=...)",
    "lambdarank_truncation_level": "weights that end at rank 10 are rank_weight='ndcg@10'",
    "subsample_for_bin": "",
    "subsample_freq": "with subsample rows are drawn for every tree",
    "tree_method": "",
}


def restore_on_failure(fit: Decorated) -> Decorated:
    """Decorate `fit` to restore the previous fitted attributes if it raises."""

    @wraps(fit)
    def wrapped(self: BaseRanker, *arguments: Any, **named: Any) -> Any:
        for name in sorted(named.keys() & ELSEWHERE.keys() - signature(fit).parameters.keys()):
            if name == "callbacks" and isinstance(named[name], list | tuple):
                _refuse_other_callbacks(named[name])
            raise TypeError(f"fit has no argument {name}; {ELSEWHERE[name]}")
        before = {name: value for name, value in vars(self).items() if name.endswith("_")}
        try:
            return fit(self, *arguments, **named)
        except BaseException:
            for name in [name for name in vars(self) if name.endswith("_")]:
                delattr(self, name)
            self.__dict__.update(before)
            raise

    return cast(Decorated, wrapped)


def unknown_parameter(estimator: str, name: str, known: Iterable[str]) -> str:
    """Return the error message for an unknown parameter, with a suggestion.

    >>> unknown_parameter("RankBoost", "eta", ["learning_rate", "step"])
    "RankBoost has no parameter 'eta'; it is called learning_rate here"
    >>> unknown_parameter("RankBoost", "learningrate", ["learning_rate", "step"])
    "RankBoost has no parameter 'learningrate'; did you mean learning_rate?"
    >>> unknown_parameter("BoostedRanker", "subsample_for_bin", ["subsample_by"])
    "BoostedRanker has no parameter 'subsample_for_bin'; leave it out"
    >>> unknown_parameter("RankBoost", "x", ["learning_rate", "step"])
    "RankBoost has no parameter 'x'; it has learning_rate, step"
    """
    known = list(known)
    here = [own for own in known if name in OTHER_NAMES.get(own, "").split()]
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    remedy = f"it has {', '.join(known)}"
    if name in WITHOUT_COUNTERPART:
        instead = WITHOUT_COUNTERPART[name]
        has = any(own in instead for own in known if own in ("rank_weight", "subsample"))
        remedy = f"leave it out: {instead}" if has else "leave it out"
    elif here:
        remedy = f"it is called {here[0]} here"
    elif close:
        remedy = f"did you mean {close[0]}?"
    return f"{estimator} has no parameter {name!r}; {remedy}"


def _refuse_other_callbacks(callbacks: Iterable[Any]) -> None:
    """Raise ValueError for callbacks of other libraries."""
    for callback in callbacks:
        library = type(callback).__module__.split(".")[0]
        if library in ("catboost", "lightgbm", "xgboost"):
            raise ValueError(
                f"callbacks holds {type(callback).__name__} of {library}, which is not a "
                "callback for precede: use early_stopping_rounds to stop early, verbose=1 to see "
                "progress, evals_result_ for what was recorded, or a function of a Progress"
            )


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

    def round_callbacks(self) -> list[Callable[[Progress], Any]]:
        """Return functions that forward a round to scikit-learn's callbacks."""
        return [] if self.callback_bridge is None else self.callback_bridge.rounds(self)


class BaseRanker(CallbackSupportMixin, SavedRanker):
    """Base class of all algorithms, including user-defined ones.

    A subclass assigns its parameters in `__init__`, by the names of scikit-learn and LightGBM,
    and defines `plan`. The other hooks have defaults: `check_parameters` validates the parameters,
    `feature_draw` restricts the features of a round, `judgments_to_learn` transforms the target,
    `learns_labels` allows `Judgments.label`, `resumable` and `resumes_from` tell whether a fit can
    be resumed and from which columns of the history, and `drawn_shares` names the parameters that
    make a fit depend on `random_state`.

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
    >>> from precede.boosting import LineSearch, Plan
    >>> class LogisticBoost(BaseRanker):
    ...     def __init__(self, *, n_estimators=10):
    ...         self.n_estimators = n_estimators
    ...
    ...     def plan(self, stop):
    ...         return Plan(PairRisk("logistic"), Stumps(), LineSearch(), stop)
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
    device: str = "cpu"
    verbose: int = 0
    # Whether a fit can be resumed from the weak rankers and the history of its first rounds.
    resumable: bool = True
    # Parameters that are random shares; 1 draws everything.
    drawn_shares: tuple[str, ...] = ("max_features",)
    selectable: tuple[str, ...] = ()  # parameters that may be "auto"
    # Columns of the history that a resumed fit reads.
    resumes_from: tuple[str, ...] = ("log_risk",)
    learns_labels: bool = False  # whether `Judgments.label` is used
    takes_init_score: bool = True
    _warns_of_no_rounds: bool = True

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        if "__init__" in vars(cls):
            _explain_names(cls)

    def plan(self, stop: Stop) -> Plan:
        """Return the specification of the algorithm: risk, weak rankers, step and stopping rule.

        `stop` ends the fit after `n_estimators` rounds or by early stopping; a plan may add
        rules: ``stop | NoProgress(...)``.
        """
        raise NotImplementedError(f"{type(self).__name__} must define plan(stop)")

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
        given = X, y
        continued = self.warm_start and hasattr(self, "ensemble_")
        target = dict(
            qid=qid, group=group, pairs=pairs, pair_weight=pair_weight, sample_weight=sample_weight
        )
        source: Callable[..., TrainingData]
        known: Sequence[int] = ()  # categorical columns of a DiskTable
        self._check_offset(X, init_score)
        if isinstance(X, DiskTable):
            judgments, classes = self._open_table(X, reset=not continued, y=y, **target)
            source, known = X.training, X.categorical_features
        else:
            X = self._validated(X, reset=not continued, to_fit=True)
            judgments, classes = self._target(X.shape[0], y, **target)
            warn_of_misuse(given, X, judgments, qid)
            source = partial(
                self._prepare,
                X,
                self.judgments_to_learn(judgments),
                initial_scores(init_score, X.shape[0], "init_score"),
            )
        self.check_parameters()
        saved = self._checkpoint(checkpoint)
        with Context(self.n_jobs, open_device(self.device)) as context:
            training = source(
                balance=self.balance,
                max_bins=self.max_bins,
                context=context,
                categorical=self.categorical_columns(known),
            )
            monitors = self._monitors(
                eval_set, eval_qid, eval_group, training.table.bins, context,
                queries=has_queries(training), weights=eval_sample_weight, starts=eval_init_score,
                offset=init_score is not None,
            )  # fmt: skip
            callback_bridge = CallbackBridge(self, *given)
            task = FitContext(X, judgments, classes, training, monitors, saved, callback_bridge)
            result = self._boost(task)
        self._set_fitted_attributes(result, task)
        callback_bridge.end()
        return self

    def _prepare(
        self, X: Any, judgments: Judgments, init_score: Floats | None, **more: Any
    ) -> TrainingData:
        """Return the training data; see `TrainingData.prepare`."""
        from precede.weak_rankers.regressors import learner  # noqa: PLC0415  (slow)

        chosen = getattr(self, "weak_rankers", None)
        by_value = chosen is not None and not learner(chosen).codes_only
        if self.warm_start and hasattr(self, "ensemble_"):  # weak rankers of any family
            by_value |= not all(
                _reads_codes(weak_ranker) for weak_ranker in self.ensemble_.weak_rankers
            )
        return TrainingData.prepare(
            X, judgments, labeled=self.learns_labels, init_score=init_score, by_value=by_value,
            **more,
        )  # fmt: skip

    def _check_offset(self, X: Any, init_score: ArrayLike | None) -> None:
        """Raise ValueError if init_score would be ignored."""
        if init_score is None:
            return
        if not self.takes_init_score:
            raise ValueError(f"{type(self).__name__} takes no init_score; leave it out")
        if isinstance(X, DiskTable):
            raise ValueError("init_score with a DiskTable is not supported; fit from memory")

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

    def _forget_categories(self, *, reset: bool) -> None:
        """Drop the categories of an earlier data frame; those of a DiskTable are numbers."""
        if reset:
            self.__dict__.pop("categories_", None)
        elif self.categories_:
            name = next(iter(self.categories_))
            raise ValueError(
                f"the model to continue from looks up the categories of {name!r} in data frames in "
                "memory; continue with such a frame, or set warm_start=False"
            )

    def judgments_to_learn(self, judgments: Judgments) -> Judgments:
        """Return the judgments to learn from; by default the given ones."""
        return judgments

    def _boost(self, task: FitContext) -> Result:
        """Choose the parameters that are "auto", then boost."""
        self.selection_ = None
        if not find_auto_parameters(self):
            return self._boost_once(task)
        from precede.boosting.selection import select  # noqa: PLC0415  (not in every fit)

        self.selection_ = select(self, task, self._seed())
        if self.verbose > 0:
            print(self.selection_.summary(), file=sys.stderr)
        chosen = copy.copy(self)
        for name in find_auto_parameters(self):
            setattr(chosen, name, self.selection_.parameters[name])
        return chosen._boost_once(task)

    def _seed(self) -> int:
        """Return the seed for drawing queries; 0 without a random_state."""
        if self.random_state is None:
            return 0
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _boost_once(self, task: FitContext) -> Result:
        """Boost, continuing from a checkpoint or the last fit if there is one."""
        stop: Stop = Rounds(self.n_estimators)
        early_stopping = self._early_stopping(task)
        if early_stopping is not None and self.early_stopping_rounds is not None:
            stop = stop | early_stopping
        ensemble, history = self._initial_model(task.checkpoint)
        return self._run_rounds(self._trainer(task, stop, ensemble, history), task, history)

    def _trainer(
        self, task: FitContext, stop: Stop, ensemble: Ensemble | None, history: History
    ) -> Trainer:
        """Return the trainer: by default coordinate descent on `plan`, bagged if asked for."""
        if self._n_bags > 1:
            return self._bagged_trainer(task, stop)
        plan = self.plan(stop)
        for _ in range(len(history)):  # advance the random draws to the end of the last fit
            plan.draw()
        monitors = [monitor for monitor, _ in task.monitors]
        trainer = CoordinateDescent(plan, task.training, ensemble, history, monitors)
        if task.checkpoint is not None:
            trainer.check_history(history)
        return trainer

    def _bagged_trainer(self, task: FitContext, stop: Stop) -> Trainer:
        """Return a trainer of `_n_bags` models, each on a bootstrap sample of the queries."""
        from precede.boosting.resampling import Resampler  # noqa: PLC0415
        from precede.boosting.trainer import Bagged  # noqa: PLC0415  (not in every fit)

        seeds = np.random.RandomState(self._seed()).randint(2**31 - 1, size=(self._n_bags, 2))
        judgments = self.judgments_to_learn(task.judgments)
        sample = Resampler.of(
            task.training, judgments, balance=self.balance, labeled=self.learns_labels
        )
        bags = []
        for draw, seed in seeds.tolist():
            single = copy.copy(self)
            single._n_bags, single.random_state = 1, seed
            drawn = sample.bootstrap(draw)[0].training
            bag_task = replace(task, training=drawn, monitors=[], checkpoint=None)
            bags.append(single._trainer(bag_task, stop, None, History()))
        return Bagged(bags, stop, [monitor for monitor, _ in task.monitors])

    def _run_rounds(self, trainer: Trainer, task: FitContext, history: History) -> Result:
        """Run the loop with callbacks, progress bar and checkpoint."""
        name, done = type(self).__name__, len(history)
        saved = [] if task.checkpoint is None else [task.checkpoint]
        try:
            with ProgressBar(
                name, rounds=self.n_estimators, done=done, verbose=self.verbose
            ) as bar:
                callbacks: list[Callable[[Progress], Any]]
                callbacks = [*bar.callbacks(self.callbacks), *saved, *task.round_callbacks()]
                result = run_rounds(trainer, history, callbacks)
        finally:
            for checkpoint in saved:
                checkpoint.finish()
        if self._warns_of_no_rounds and not len(result.ensemble) and result.reason != INTERRUPTED:
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
        return result

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
        from precede.boosting.checkpoint import Checkpoint  # noqa: PLC0415  (not in every fit)

        return given if isinstance(given, Checkpoint) else Checkpoint(given)

    def _initial_model(
        self, checkpoint: Checkpoint | None = None
    ) -> tuple[Ensemble | None, History]:
        """Return the model and the history of an earlier fit to continue from."""
        if checkpoint is not None:
            fields = checkpoint.begin(type(self).__name__, described_parameters(self))
            if fields is None:
                return None, History()
            ensemble = Ensemble.from_dict(required_field(fields, "model", dict))
            history = read_history(required_field(fields, "history", list))
            if len(ensemble) != len(history) or ensemble.n_features != self.n_features_in_:
                raise ValueError(
                    f"{checkpoint.path} holds {len(ensemble)} rankers of {ensemble.n_features} "
                    f"features and {len(history)} rounds, so it is not a checkpoint of this fit"
                )
            _check_rounds(history, self.resumes_from, checkpoint)
            return ensemble.first(self.n_estimators), history[: self.n_estimators]
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

    def _set_fitted_attributes(self, result: Result, task: FitContext) -> None:
        """Set the fitted attributes; no data are stored."""
        history, early_stopping = result.history, self._early_stopping(task)
        self.n_bags_ = int(self._n_bags)
        rounds = len(result.ensemble) // self.n_bags_
        best = (
            early_stopping.best_round(history)
            if early_stopping is not None and len(history)
            else rounds
        )
        stopped_early = self.early_stopping_rounds is not None and early_stopping is not None
        kept = best * self.n_bags_ if stopped_early else len(result.ensemble)
        self.ensemble_ = result.ensemble.first(kept)
        self.history_ = history
        self.n_estimators_ = len(self.ensemble_) // self.n_bags_
        self.best_iteration_ = best
        seen = (
            early_stopping is not None and rounds > 0 and early_stopping.column in history.columns
        )
        self.best_score_ = (
            float(history[early_stopping.column][best - 1]) if early_stopping and seen else None
        )
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

    def _link(self) -> Link | None:
        """Return the link of the minimized risk."""
        planned = copy.copy(self)
        planned.random_state = 0  # do not advance the user's generator
        for name in find_auto_parameters(self):
            setattr(planned, name, cast("Selection", self.selection_).parameters[name])
        return planned.plan(Rounds(1)).risk.link

    def _intercept(self, link: Link, training: TrainingData, scores: Floats | None = None) -> float:
        """Return the intercept of a link; `scores` are those of the model, if known."""
        table, start = training.table, training.init_score
        if scores is None:
            scores = np.zeros(table.n_used_rows) if start is None else start.copy()
            for weak_ranker, step in self.ensemble_.parts():
                scores += step * weak_ranker.on(table)
        return fit_intercept(link, scores, training.layout, training.context)

    # -- checks ----------------------------------------------------------------------------

    def _open_table(
        self, table: DiskTable, *, reset: bool, **target: Any
    ) -> tuple[Judgments, Array | None]:
        """Return judgments and classes of a DiskTable, after checks as for arrays."""
        if chosen := find_auto_parameters(self):
            raise ValueError(
                f"{chosen[0]}={AUTO!r} holds out rows, which a DiskTable does not allow; give a "
                "number, such as one chosen on a sample in memory (selection_)"
            )
        if self._n_bags > 1:
            raise ValueError(f"bags={self._n_bags} draws rows, which a DiskTable does not allow")
        given = [name for name, value in target.items() if value is not None]
        if given:
            raise ValueError(
                f"{', '.join(given)} given with a DiskTable, which holds the target already; "
                "leave them out, or write them into the table"
            )
        if not reset and table.n_features != self.n_features_in_:
            raise ValueError(
                f"{table} cannot continue a model of {self.n_features_in_} features; fit again"
            )
        self._forget_categories(reset=reset)
        self.n_features_in_ = table.n_features
        if table.feature_names is not None:
            self.feature_names_in_ = np.array(table.feature_names, object)
        elif reset and hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        judgments = table.judgments
        if self.judgments_to_learn(judgments) is not judgments:
            raise ValueError(
                f"{self!r} does not learn the target as it is in the table; write the table as it "
                "should be learned (for a single list, without qid)"
            )
        return judgments, table.classes

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
        _refuse_other_callbacks(callbacks or ())

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

    # -- evaluation sets -------------------------------------------------------------------

    def _monitors(
        self,
        eval_set: Any,
        eval_qid: Any,
        eval_group: Any,
        bins: Bins,
        context: Context,
        *,
        queries: bool,
        weights: Any = None,
        starts: Any = None,
        offset: bool = False,
    ) -> list[tuple[Monitor, dict[str, bool]]]:
        """Bin the evaluation sets by the cuts of the training rows, and prepare metrics.

        `queries` and `offset`: whether the training rows have several queries, and an init_score.
        """
        check_metric_names(self.eval_metric)
        if eval_set is None:
            if self.early_stopping_rounds is not None:
                raise ValueError(
                    f"early_stopping_rounds={self.early_stopping_rounds} needs an eval_set to "
                    "monitor; pass eval_set=(X, y)"
                )
            return []
        if offset != (starts is not None):
            raise ValueError(
                "init_score and eval_init_score belong together: give offsets for the training "
                "rows and for every evaluation set, or none"
            )
        sets = evaluation_sets(eval_set)
        qids = one_for_each(eval_qid, len(sets), "eval_qid")
        groups = one_for_each(eval_group, len(sets), "eval_group")
        weighted = one_for_each(weights, len(sets), "eval_sample_weight")
        begun = one_for_each(starts, len(sets), "eval_init_score")
        given = zip(sets, qids, groups, weighted, begun, strict=True)
        monitors = []
        for index, ((raw, y), qid, group, weight, start) in enumerate(given):
            X = self._validated(raw, reset=False)
            judgments, _ = self._target(X.shape[0], y, qid=qid, group=group, sample_weight=weight)
            if queries and one_graded_list(judgments):
                raise ValueError(
                    f"evaluation set {index} has no queries, but the training rows have: its rows "
                    "would be compared across queries; pass eval_qid or eval_group (of a single "
                    "query eval_group=[rows])"
                )
            metrics, better = monitored_metrics(self.eval_metric, judgments)
            table = Table.like(
                X.tocsc() if scipy.sparse.issparse(X) else X,
                bins,
                context=context,
            )
            at = initial_scores(start, X.shape[0], "eval_init_score")
            monitors.append((Monitor(f"valid_{index}", table, metrics, at, judgments), better))
        return monitors

    def _early_stopping(self, task: FitContext) -> EarlyStopping | None:
        """Return early stopping on the first metric of the first evaluation set."""
        if not task.monitors:
            return None
        monitor, better = task.monitors[0]
        metric = next(iter(monitor.metrics))
        patience = self.early_stopping_rounds or np.iinfo(np.int64).max
        return EarlyStopping(f"{monitor.name} {metric}", int(patience), better[metric])

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


def _reads_codes(weak_ranker: WeakRanker) -> bool:
    """Whether a weak ranker is a function of binned features, as stumps and trees are."""
    known = weak_ranker.as_stump() or weak_ranker.as_tree() or weak_ranker.as_term()
    return weak_ranker.is_constant or known is not None


def has_queries(training: TrainingData) -> bool:
    """Whether grades are compared within several queries, not in one list."""
    return training.layout.query_start.size > 2


def _explain_names(cls: type) -> None:
    """Wrap `__init__` to suggest a parameter if an unknown one is given."""
    made = vars(cls)["__init__"]
    parameters = list(signature(made).parameters.values())[1:]
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return
    known = [each.name for each in parameters]

    @wraps(made)
    def explained(self: Any, *arguments: Any, **named: Any) -> None:
        for name in named.keys() - known:
            raise TypeError(unknown_parameter(type(self).__name__, name, known))
        made(self, *arguments, **named)

    cls.__init__ = explained  # type: ignore[misc]


def _check_rounds(history: History, columns: tuple[str, ...], checkpoint: Checkpoint) -> None:
    """Raise ValueError if rounds of a checkpoint lack columns needed to resume."""
    for done, values in enumerate(history, 1):
        for name in columns:
            if not isinstance(values.get(name), int | float):
                raise ValueError(
                    f"{checkpoint.path}: round {done} has no number {name!r}, which is needed "
                    "to go on; the file was changed, so remove it or give another path"
                )
