"""The scikit-learn face: parameters, validation, fit, predict, score, save.

`BaseRanker` is the base of every algorithm. A subclass assigns its parameters in `__init__`
and says in `plan` what the loop should do; everything else is here.
"""

from __future__ import annotations

import copy
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, wraps
from inspect import signature
from itertools import islice
from reprlib import repr as shown
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import RegressorTags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from precede.boosting.bagging import Bagged
from precede.boosting.callbacks import Listeners
from precede.boosting.checkpoint import Checkpoint
from precede.boosting.coordinate_descent import CoordinateDescent, Plan
from precede.boosting.history import History, Monitor, Progress, Rounds, Stop, Worsening
from precede.boosting.loop import INTERRUPTED, Result, drive
from precede.boosting.method import Method
from precede.boosting.monitors import check_metric_names, monitored_metrics, pairs_in_order
from precede.boosting.progress import ProgressBar
from precede.boosting.resampling import Sample
from precede.boosting.selection import AUTO, Selection, asked, select
from precede.engine.arrays import Array, Floats
from precede.engine.compatibility import CallbackSupportMixin, with_callbacks
from precede.engine.exact import exact_sum, greatest_of
from precede.engine.frames import check_categories, refuse_text, row_labels
from precede.engine.parameters import in_range, whole_number
from precede.engine.table import MAX_BINS, Bins, Table
from precede.engine.training import Training
from precede.engine.workers import Workers, count_jobs
from precede.explain.contributions import (
    Explanation,
    PairExplanation,
    ShapeFunction,
    explain,
    explain_pair,
    feature_index,
    shape_function,
)
from precede.files.disk import DiskTable
from precede.judgments import (
    Judgments,
    check_column,
    column_numbers,
    columns_in_order,
    judgments_to_fit,
    one_graded_list,
    warn_of_lost_queries,
)
from precede.losses import (
    Exp,
    Exponential,
    Hinge,
    Linear,
    Logistic,
    Power,
    SmoothedHinge,
    SquaredHinge,
)
from precede.model import FORMAT, Ensemble, number, plain, read_model, spelled, write_model
from precede.rankers.base import Family, family, family_name
from precede.rankers.growers import Trees
from precede.rankers.stumps import Stumps
from precede.risks.rank_weights import RankWeight

__all__ = ["BaseRanker", "Task", "load", "parameters_of", "whole_or_not_at_all"]

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

if TYPE_CHECKING:  # scikit-learn ships no types; what it decorates keeps its own
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from typing_extensions import Self

    def available_if(check: Callable[[Any], bool]) -> Callable[[Decorated], Decorated]: ...
else:
    from sklearn.utils.metaestimators import available_if


def _two_classes(estimator: BaseRanker) -> bool:
    """Whether the estimator was fitted on two classes; says so if it was not.

    Before a fit nobody knows, so the methods are not there yet.
    """
    check_is_fitted(estimator)
    if estimator.classes_ is None:
        raise AttributeError(
            "classify, predict_proba and decision_function are there after a fit on two classes "
            "without queries or listed pairs"
        )
    return True


_PARAMETER = "it is a parameter of the estimator: give it when the estimator is made"
# Arguments that the fit of other libraries has, and what to use here.
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
    "groups": "queries are given as qid, or by their sizes as group",
    "init_model": "set warm_start=True and fit again to go on with a model",
    "verbose": _PARAMETER,
}


def whole_or_not_at_all(fit: Decorated) -> Decorated:
    """Make a fit that fails leave what was fitted before, be it a model or nothing."""

    @wraps(fit)
    def kept(self: BaseRanker, *arguments: Any, **named: Any) -> Any:
        for name in named.keys() & ELSEWHERE.keys() - signature(fit).parameters.keys():
            raise TypeError(f"fit has no argument {name}; {ELSEWHERE[name]}")
        before = {name: value for name, value in vars(self).items() if name.endswith("_")}
        try:
            return fit(self, *arguments, **named)
        except BaseException:
            for name in [name for name in vars(self) if name.endswith("_")]:
                delattr(self, name)
            self.__dict__.update(before)
            raise

    return cast(Decorated, kept)


@dataclass(frozen=True)
class Task:
    """What one fit works on: the data as given and as prepared, and the evaluation sets.

    `classes` are the two classes, if there are two and one list; `monitors` come with a
    dictionary that says for each metric whether greater is better; `checkpoint` is where
    rounds are written, if anywhere. Of a `DiskTable` the judgments are those of its arranged rows.
    `listeners` are scikit-learn's callbacks.
    """

    X: Any
    judgments: Judgments
    classes: Array | None
    training: Training
    monitors: list[tuple[Monitor, dict[str, bool]]]
    checkpoint: Checkpoint | None = None
    listeners: Listeners | None = None

    def listening(self) -> list[Callable[[Progress], Any]]:
        """Functions to call after every round, for callbacks of scikit-learn's kind."""
        return [] if self.listeners is None else self.listeners.rounds(self)


# Hooks of `BaseRanker` by the names they had before they were public.
_FORMER_HOOKS = {
    "_plan": "plan",
    "_check_parameters": "check_parameters",
    "_feature_draw": "feature_draw",
    "_judgments_to_learn": "judgments_to_learn",
    "_learns_labels": "learns_labels",
    "_resumable": "resumable",
    "_resumes_from": "resumes_from",
}


class BaseRanker(CallbackSupportMixin, BaseEstimator):
    """What all rankers share: the base class of every algorithm, and of one of your own.

    A subclass assigns its parameters in `__init__`, by the names of scikit-learn and LightGBM,
    and defines `plan`. The other hooks have defaults: `check_parameters` refuses values that
    make no sense, `feature_draw` says which features a round may use, `judgments_to_learn`
    changes what is learnt from, `learns_labels` lets `Judgments.label` in, `resumable` and
    `resumes_from` say whether and from which columns of the history a fit can be resumed, and
    `drawn_shares` which parameters make a fit depend on `random_state`.

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
        Categories of the columns of a data frame that hold some, by name; see `BoostedRanker`.
    classes_, intercept_
        With two classes: their values, and the shift that makes a classifier.
    stop_reason_ : str
        Why boosting ended.
    selection_ : Selection or None
        What was chosen where a parameter is "auto", and the table it was chosen from.
    has_queries_ : bool
        Whether the model was fitted on several queries, so that `score` warns without any.
    data_columns_ : dict
        Columns that held label, qid, docid and weight, where ``precede fit`` was told their names.

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

    # Parameters that the base reads. A subclass assigns those that it has in __init__; for
    # the others these values stand.
    rankers: Any = "stumps"
    monotone_constraints: Any = None
    n_estimators: Any = 100  # a number, or "auto" where it is selectable
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
    verbose: int = 0
    # Whether a fit can go on from the rankers and the history of its first rounds.
    resumable: bool = True
    # Parameters that are shares of something that is drawn at random, 1 being all of it.
    drawn_shares: tuple[str, ...] = ("max_features",)
    categories_: Mapping[str, list[Any]] = MappingProxyType({})  # of columns of categories
    has_queries_: bool = False  # also of models saved before this was kept
    data_columns_: Mapping[str, str] = MappingProxyType({})  # by role, of a file that was fitted
    _averaged: Any = 1  # number of models to average, side by side
    n_averaged_: int = 1  # number of models that the last fit averaged
    selectable: tuple[str, ...] = ()  # parameters that may be "auto"
    selection_: Selection | None = None  # of the last fit
    # Columns of the history that a resumed fit reads.
    resumes_from: tuple[str, ...] = ("log_risk",)
    learns_labels: bool = False  # from Judgments.label, as well as from the order
    takes_init_score: bool = True  # whether rounds may start from given scores
    _warns_of_no_rounds: bool = True

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        _name_hooks(cls)

    def plan(self, stop: Stop) -> Plan:
        """Return what the loop should do: a risk, a family, a step rule and when to stop.

        `stop` ends the fit after `n_estimators` rounds, or early where that is asked for; a plan
        may add rules of its own, ``stop | NoProgress(...)``.
        """
        raise NotImplementedError(f"{type(self).__name__} must define plan(stop)")

    # -- fitting ---------------------------------------------------------------------------

    @with_callbacks
    @whole_or_not_at_all
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
        """Learn to rank. A fit that fails leaves the estimator as it was.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n, features), or DiskTable
            NaN means missing; infinities are refused. With a `DiskTable` everything about
            the order of the rows is in the table.
        y : array of n grades, or Judgments
            Only the order of grades inside a query matters. With a `Judgments` nothing else
            about the order may be given.
        qid : array of n query identifiers, in any order; absent means one query
        group : sizes of the queries, in the order of the rows (for users of LightGBM)
        pairs : array of shape (m, 2) of rows (winner, loser)
        pair_weight : array of m numbers
        sample_weight : array of n numbers; 2 is the row twice, 0 its absence
        init_score : array of n numbers, the scores that boosting starts from (an offset), such as
            those of another model. `predict` does not include them: add them to its scores
        eval_set : (X, y) or list of (X, y), evaluated after every round
        eval_qid, eval_group : query identifiers or sizes, one array for each evaluation set;
            needed if the training rows have queries and the evaluation sets are no `Judgments`
        eval_sample_weight, eval_init_score : weights and offsets, one array for each evaluation
            set; offsets are needed if the training rows have them
        checkpoint : path or Checkpoint; rounds are written there while the fit goes on, and a
            fit that finds them there goes on from them, to an equal model
        """
        given = X, y
        going_on = self.warm_start and hasattr(self, "ensemble_")
        target = dict(
            qid=qid, group=group, pairs=pairs, pair_weight=pair_weight, sample_weight=sample_weight
        )
        source: Callable[..., Training]
        if init_score is not None:
            self._check_offset(X)
        if isinstance(X, DiskTable):
            judgments, classes = self._open_table(X, reset=not going_on, y=y, **target)
            source = X.training
        else:
            X = self._validated(X, reset=not going_on, to_fit=True)
            judgments, classes = self._target(X.shape[0], y, **target)
            source = partial(
                Training.prepare,
                X,
                self.judgments_to_learn(judgments),
                labelled=self.learns_labels,
                init_score=_offset(init_score, X.shape[0], "init_score"),
            )
        self.check_parameters()
        saved = self._checkpoint(checkpoint)
        with Workers(self.n_jobs) as workers:
            training = source(
                balance=self.balance,
                max_bins=self.max_bins,
                workers=workers,
                categorical=self.categorical_columns(),
            )
            monitors = self._monitors(
                eval_set, eval_qid, eval_group, training.table.bins, workers,
                queries=has_queries(training), weights=eval_sample_weight, starts=eval_init_score,
                offset=init_score is not None,
            )  # fmt: skip
            listeners = Listeners(self, *given)
            task = Task(X, judgments, classes, training, monitors, saved, listeners)
            result = self._boost(task)
        self._keep(result, task)
        listeners.end()
        return self

    def _check_offset(self, X: Any) -> None:
        """Refuse init_score where it would be ignored."""
        if not self.takes_init_score:
            raise ValueError(f"{type(self).__name__} takes no init_score; leave it out")
        if isinstance(X, DiskTable):
            raise ValueError("init_score with a DiskTable is not supported; fit from memory")

    def categorical_columns(self) -> list[int]:
        """Numbers of the columns whose values are categories; those of the family by default."""
        rankers = getattr(self, "rankers", None)
        given = None if rankers is None else family(rankers).categorical_features
        return column_numbers(given, None, self.n_features_in_)

    def judgments_to_learn(self, judgments: Judgments) -> Judgments:
        """Return what to learn from, made of what was given; the default is just that."""
        return judgments

    def _boost(self, task: Task) -> Result:
        """Choose what is "auto", and run the loop with it."""
        self.selection_ = None
        if not asked(self):
            return self._run(task)
        self.selection_ = select(self, task, self._seed())
        if self.verbose > 0:
            print(self.selection_.summary(), file=sys.stderr)
        chosen = copy.copy(self)
        for name in asked(self):
            setattr(chosen, name, self.selection_.parameters[name])
        return chosen._run(task)

    def _seed(self) -> int:
        """A number for draws of queries: the same in every fit where no random_state is given."""
        if self.random_state is None:
            return 0
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _run(self, task: Task) -> Result:
        """Run the loop, continuing the last fit if asked to."""
        stop: Stop = Rounds(self.n_estimators)
        worsening = self._worsening(task)
        if worsening is not None and self.early_stopping_rounds is not None:
            stop = stop | worsening
        ensemble, history = self._before(task.checkpoint)
        return self._drive(self._method(task, stop, ensemble, history), task, history)

    def _method(
        self, task: Task, stop: Stop, ensemble: Ensemble | None, history: History
    ) -> Method:
        """What happens in a round: coordinate descent by `plan`, unless an algorithm says else."""
        if self._averaged > 1:
            return self._bagged(task, stop)
        plan = self.plan(stop)
        for _ in range(len(history)):  # random draws go on where the last fit ended
            plan.draw()
        monitors = [monitor for monitor, _ in task.monitors]
        method = CoordinateDescent(plan, task.training, ensemble, history, monitors)
        if task.checkpoint is not None:
            method.check_history(history)
        return method

    def _bagged(self, task: Task, stop: Stop) -> Method:
        """As many fits side by side as there are bags, each on queries drawn for it."""
        seeds = np.random.RandomState(self._seed()).randint(2**31 - 1, size=(self._averaged, 2))
        judgments = self.judgments_to_learn(task.judgments)
        sample = Sample(
            task.training, judgments, balance=self.balance, labelled=self.learns_labels, seed=0
        )
        bags = []
        for draw, seed in seeds.tolist():
            one = copy.copy(self)
            one._averaged, one.random_state = 1, seed
            own = replace(task, training=sample.bootstrap(draw), monitors=[], checkpoint=None)
            bags.append(one._method(own, stop, None, History()))
        return Bagged(bags, stop, [monitor for monitor, _ in task.monitors])

    def _drive(self, method: Method, task: Task, history: History) -> Result:
        """Run the loop in sight of the user: callbacks, progress bar, checkpoint."""
        name, done = type(self).__name__, len(history)
        saved = [] if task.checkpoint is None else [task.checkpoint]
        try:
            with ProgressBar(
                name, rounds=self.n_estimators, done=done, verbose=self.verbose
            ) as bar:
                callbacks: list[Callable[[Progress], Any]]
                callbacks = [*bar.callbacks(self.callbacks), *saved, *task.listening()]
                result = drive(method, history, callbacks)
        finally:
            for checkpoint in saved:
                checkpoint.finish()
        if self._warns_of_no_rounds and not len(result.ensemble) and result.reason != INTERRUPTED:
            task.training.workers.warn(
                f"the model has no rounds and scores every row alike ({result.reason}): look "
                "whether the features are constant, or constant within every query, and with trees "
                "whether min_child_samples leaves them a split"
            )
        return result

    @property
    def can_resume(self) -> bool:
        """Whether a fit with these parameters takes a `checkpoint`."""
        again = self._drawn_anew() is None and self._averaged == 1
        return self.resumable and not self.warm_start and again

    def _drawn_anew(self) -> str | None:
        """Name of a share that is drawn differently in every fit, if there is one."""
        if isinstance(self.random_state, int | np.integer):
            return None
        return next((name for name in self.drawn_shares if getattr(self, name) < 1), None)

    def _checkpoint(self, given: Checkpoint | str | os.PathLike[str] | None) -> Checkpoint | None:
        """Where rounds are written, if anywhere; what cannot be resumed is refused."""
        if given is None:
            return None
        if not self.resumable:
            raise ValueError(f"{type(self).__name__} cannot be resumed; leave checkpoint out")
        if self._averaged > 1:
            raise ValueError(f"bags={self._averaged} cannot be resumed; leave checkpoint out")
        if self.warm_start:
            raise ValueError("warm_start=True and a checkpoint are both given; use one of them")
        if drawn := self._drawn_anew():
            raise ValueError(
                f"random_state={self.random_state!r}: with {drawn} below 1 only a number "
                "lets a fit be resumed to an equal model"
            )
        return given if isinstance(given, Checkpoint) else Checkpoint(given)

    def _before(self, checkpoint: Checkpoint | None = None) -> tuple[Ensemble | None, History]:
        """Rounds of an earlier fit to go on from."""
        if checkpoint is not None:
            fields = checkpoint.begin(type(self).__name__, plain(parameters_of(self)))
            if fields is None:
                return None, History()
            ensemble = Ensemble.from_dict(_part(fields, "model", dict))
            history = _history(_part(fields, "history", list))
            if len(ensemble) != len(history) or ensemble.n_features != self.n_features_in_:
                raise ValueError(
                    f"{checkpoint.path} holds {len(ensemble)} rankers of {ensemble.n_features} "
                    f"features and {len(history)} rounds, which is no checkpoint of this fit"
                )
            _check_rounds(history, self.resumes_from, checkpoint)
            return ensemble.first(self.n_estimators), history[: self.n_estimators]
        if not self.warm_start or not hasattr(self, "ensemble_"):
            return None, History()
        if self.n_averaged_ > 1 or self._averaged > 1:
            raise ValueError(
                f"bags={max(self.n_averaged_, self._averaged)}: averages of several models cannot "
                "be gone on with; set warm_start=False"
            )
        if self.n_estimators < len(self.ensemble_):
            raise ValueError(
                f"n_estimators={self.n_estimators} is less than the {len(self.ensemble_)} rounds "
                "of the model to go on with; raise it or set warm_start=False"
            )
        return self.ensemble_, self.history_[: len(self.ensemble_)]

    def _keep(self, result: Result, task: Task) -> None:
        """Store what was learnt; data are not kept."""
        history, worsening = result.history, self._worsening(task)
        self.n_averaged_ = int(self._averaged)
        rounds = len(result.ensemble) // self.n_averaged_
        best = worsening.best_round(history) if worsening is not None and len(history) else rounds
        stopped_early = self.early_stopping_rounds is not None and worsening is not None
        kept = best * self.n_averaged_ if stopped_early else len(result.ensemble)
        self.ensemble_ = result.ensemble.first(kept)
        self.history_ = history
        self.n_estimators_ = len(self.ensemble_) // self.n_averaged_
        self.best_iteration_ = best
        seen = worsening is not None and rounds > 0 and worsening.column in history.columns
        self.best_score_ = (
            float(history[worsening.column][best - 1]) if worsening and seen else None
        )
        self.evals_result_ = _evals_result(history)
        self.stop_reason_ = result.reason
        self.has_queries_ = has_queries(task.training)
        # Rows of weight 0 may leave a single class among those that were compared.
        two = task.classes is not None and task.training.arrangement.level_start.size == 3
        self.classes_ = task.classes if two else None
        self.intercept_ = self._intercept(task.training) if two else None

    def _intercept(self, training: Training) -> float:
        """``log(F+ / F-) / 2``: with it the ranker minimises AdaBoost's loss (RS09 cor. 13)."""
        table, start = training.table, training.init_score
        scores = np.zeros(table.n_arranged) if start is None else start.copy()
        for ranker, step in zip(self.ensemble_.rankers, self.ensemble_.weights, strict=True):
            scores += step * ranker.on(table)
        middle, end = training.arrangement.level_start[1:3]
        weight, workers = training.arrangement.weight, training.workers
        log_positive = _log_sum_exp(-scores[middle:end], weight[middle:end], workers)
        return 0.5 * (log_positive - _log_sum_exp(scores[:middle], weight[:middle], workers))

    # -- scoring ---------------------------------------------------------------------------

    def predict(self, X: Any, *, num_iteration: int | None = None) -> Floats:
        """Return one score per row; within a query a higher score ranks first.

        `num_iteration` uses only the first so many rounds. The default is all rounds of the model,
        which after early stopping are those up to the best.
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        model = self.ensemble_
        if num_iteration is not None:
            whole_number("num_iteration", num_iteration, least=1, most=self.n_estimators_)
            model = self._after(num_iteration)
        with Workers(self.n_jobs) as workers:
            return model.predict(X, workers)

    def _after(self, rounds: int) -> Ensemble:
        """The model after some of its rounds."""
        return self.ensemble_.first(rounds * self.n_averaged_)

    def staged_predict(self, X: Any) -> Iterator[Floats]:
        """Scores after each round of the model."""
        check_is_fitted(self)
        staged = self.ensemble_.staged_predict(self._validated(X, reset=False))
        return islice(staged, self.n_averaged_ - 1, None, self.n_averaged_)

    def rank(self, X: Any, qid: ArrayLike | None = None) -> NDArray[np.int64]:
        """Rank of every row inside its query: 1 ranks first; equal scores in row order."""
        scores = self.predict(X)
        judgments = Judgments(qid=qid, n=scores.size)
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
        pairs: ArrayLike | None = None,
        pair_weight: ArrayLike | None = None,
    ) -> float:
        """Return the share of pairs in the right order, ties counting half.

        1 is perfect and 0.5 is chance. The pairs are those of grades `y` within queries, or listed
        `pairs` (winner, loser) as in `fit`. A model that was fitted with queries warns if it is
        scored without them: pairs would join rows of different queries. See
        `precede.metrics.make_scorer` for other metrics.
        """
        scores = self.predict(X)
        judgments, _ = self._target(
            scores.size, y, qid=qid, sample_weight=sample_weight, pairs=pairs,
            pair_weight=pair_weight,
        )  # fmt: skip
        warn_of_lost_queries(self, judgments)
        return pairs_in_order(judgments, scores)

    @available_if(_two_classes)
    def decision_function(self, X: Any) -> Floats:
        """Score plus intercept: positive for the second class."""
        return self.predict(X) + float(self.intercept_ or 0.0)

    @available_if(_two_classes)
    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the two classes, ``1 / (1 + exp(-2 (f + b)))`` for the second."""
        doubled = 2 * self.decision_function(X)
        log_positive, log_negative = -np.logaddexp(0, -doubled), -np.logaddexp(0, doubled)
        return np.exp(np.stack([log_negative, log_positive], axis=1))

    @available_if(_two_classes)
    def classify(self, X: Any) -> Array:
        """The likelier of the two classes for every row."""
        assert self.classes_ is not None
        return self.classes_[(self.decision_function(X) > 0).astype(np.int64)]

    @property
    def feature_importances_(self) -> Floats:
        """Share of the absolute weight of the rankers that each feature carries."""
        check_is_fitted(self)
        return self.ensemble_.importances()

    # -- explaining ------------------------------------------------------------------------

    def shape_function(self, feature: int | str) -> ShapeFunction:
        """What one feature, by number or name, adds to the score; for additive models."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        return shape_function(
            self.ensemble_, feature_index(feature, names, self.n_features_in_), names
        )

    def explain(self, X: Any, *, background: Any = None) -> Explanation:
        """Contributions of the features to each score, which they add up to exactly.

        With a `background` (rows to compare with, such as a hundred of the training set) they
        count from the mean score of its rows; see `precede.explain.Explanation`.
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        if background is not None:
            background = self._validated(background, reset=False)
        names = getattr(self, "feature_names_in_", None)
        with Workers(self.n_jobs) as workers:
            return explain(self.ensemble_, X, names=names, background=background, workers=workers)

    def explain_pair(self, X: Any, i: int, k: int) -> PairExplanation:
        """Explain why row i of X ranks above row k, feature by feature.

        i and k are positions, as for ``X.iloc``; the rows of a pandas data frame with an index of
        its own are shown by their labels.
        """
        check_is_fitted(self)
        labels = row_labels(X)
        X = self._validated(X, reset=False)
        names = getattr(self, "feature_names_in_", None)
        return explain_pair(self.ensemble_, X, i, k, names, labels)

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
        from precede import plots  # noqa: PLC0415  (only for those who draw)

        check_is_fitted(self)
        whole_number("top", top, least=1)
        if features is None:
            weight = self.feature_importances_
            order = np.argsort(-weight, kind="stable")[:top]
            features = [int(each) for each in order if weight[each] > 0]
        return plots.draw_shapes([plots.shape_info(self, each, X) for each in features])

    def plot_importance(self, X: Any = None, *, top: int = 15, ax: Axes | None = None) -> Axes:
        """Plot feature importances; see `precede.plots.importance_info` for the two kinds."""
        from precede import plots  # noqa: PLC0415  (only for those who draw)

        check_is_fitted(self)
        return plots.draw_importances(plots.importance_info(self, X, top=top), ax)

    def plot_history(self, columns: Sequence[str] | None = None, *, ax: Axes | None = None) -> Axes:
        """Plot the evaluation metrics, or else the training risk, round by round."""
        from precede import plots  # noqa: PLC0415  (only for those who draw)

        check_is_fitted(self)
        return plots.draw_learning(plots.learning_info(self, columns), ax)

    # -- saving ----------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as JSON, atomically; `precede.load` reads it back."""
        check_is_fitted(self)
        write_model(path, self._to_dict())

    def _to_dict(self) -> dict[str, Any]:
        import precede  # noqa: PLC0415  (the version, once the package is complete)

        names = getattr(self, "feature_names_in_", None)
        classes = None if self.classes_ is None else np.asarray(self.classes_).tolist()
        return {
            "format": FORMAT,
            "precede": precede.__version__,
            "estimator": type(self).__name__,
            "missing": "NaN; a stump sends it to the side named in its 'missing'",
            "features": None if names is None else [str(name) for name in names],
            **({"categories": self.categories_} if self.categories_ else {}),
            **({"queries": True} if self.has_queries_ else {}),
            **({} if self.selection_ is None else {"selection": self.selection_.to_dict()}),
            **({"data_columns": dict(self.data_columns_)} if self.data_columns_ else {}),
            **parameters_of(self),
            "classes": classes,
            "intercept": self.intercept_,
            "best_iteration": self.best_iteration_,
            "best_score": self.best_score_,
            "stop_reason": self.stop_reason_,
            "model": self.ensemble_.to_dict(),
            "history": list(self.history_),
        }

    def _restore(self, fields: dict[str, Any]) -> None:
        """Take fitted attributes from what `_to_dict` gave."""
        self.ensemble_ = Ensemble.from_dict(_part(fields, "model", dict))
        self.n_features_in_ = self.ensemble_.n_features
        names = fields.get("features")
        if names is not None:
            if not isinstance(names, list) or len(names) != self.n_features_in_:
                raise ValueError(f"the model needs {self.n_features_in_} feature names")
            if not all(isinstance(name, str) for name in names):
                raise ValueError("the feature names of the model are not all text")
            self.feature_names_in_ = np.array(names, object)
        if "categories" in fields:
            self.categories_ = check_categories(fields["categories"], names)
        self.has_queries_ = fields.get("queries", False) is True
        if "selection" in fields:
            self.selection_ = Selection.from_dict(fields["selection"])
        if "data_columns" in fields:
            columns = _part(fields, "data_columns", dict)
            if not all(isinstance(name, str) for name in columns.values()):
                raise ValueError("the data columns of the model are not all text")
            self.data_columns_ = columns
        self.history_ = _history(_part(fields, "history", list))
        self.n_averaged_ = int(self._averaged)
        self.n_estimators_ = len(self.ensemble_) // self.n_averaged_
        self.best_iteration_ = _part(fields, "best_iteration", int)
        score = fields.get("best_score")
        self.best_score_ = None if score is None else spelled(score, "best_score")
        self.evals_result_ = _evals_result(self.history_)
        self.stop_reason_ = str(fields.get("stop_reason", ""))
        classes, intercept = fields.get("classes"), fields.get("intercept")
        two = isinstance(classes, list) and len(classes) == 2
        if classes is not None and not (
            two and all(isinstance(c, str | int | float) for c in classes)
        ):
            raise ValueError(f"classes={shown(classes)} are not two classes")
        self.classes_ = None if classes is None else np.array(classes)
        self.intercept_ = None if intercept is None else number(intercept, "intercept")
        if (self.classes_ is None) != (self.intercept_ is None):
            raise ValueError("the model needs both classes and intercept, or neither")

    # -- checks ----------------------------------------------------------------------------

    def _validated(self, X: Any, *, reset: bool, to_fit: bool = False) -> Any:
        X = self._encoded(X, reset=reset)
        refuse_text(X)
        return validate_data(
            self,
            X,
            reset=reset,
            accept_sparse=["csc"] if to_fit else ["csr"],
            dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan",
            ensure_min_samples=2 if to_fit else 1,
        )

    def _encoded(self, X: Any, *, reset: bool) -> Any:  # noqa: ARG002
        """Replace categories by numbers; for algorithms that know what to do with them."""
        return X

    def _open_table(
        self, table: DiskTable, *, reset: bool, **target: Any
    ) -> tuple[Judgments, Array | None]:
        """Take what `_validated` and `_target` give for arrays from a table on disk."""
        if chosen := asked(self):
            raise ValueError(
                f"{chosen[0]}={AUTO!r} holds out rows, which a DiskTable does not allow; give a "
                "number, such as one chosen on a sample in memory (selection_)"
            )
        if self._averaged > 1:
            raise ValueError(f"bags={self._averaged} draws rows, which a DiskTable does not allow")
        given = [name for name, value in target.items() if value is not None]
        if given:
            raise ValueError(
                f"{', '.join(given)} given beside a DiskTable, which holds the target already; "
                "leave them out, or write them into the table"
            )
        if not reset and table.n_features != self.n_features_in_:
            raise ValueError(
                f"{table} goes on from a model of {self.n_features_in_} features; fit again"
            )
        self.n_features_in_ = table.n_features
        if table.feature_names is not None:
            self.feature_names_in_ = np.array(table.feature_names, object)
        elif reset and hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        judgments = table.judgments
        if self.judgments_to_learn(judgments) is not judgments:
            raise ValueError(
                f"{self!r} sees the target otherwise than it is written in the table; write the "
                "table as it should be learnt (for one list without qid)"
            )
        return judgments, table.classes

    def _target(self, n: int, y: Any, **target: Any) -> tuple[Judgments, Array | None]:
        """Do as `judgments_to_fit`, which may not be called without a target."""
        if y is None and target.get("pairs") is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None; "
                "give grades, Judgments or pairs"
            )
        return judgments_to_fit(n, y, **target)

    def check_parameters(self) -> None:
        """Raise ValueError for a parameter that makes no sense; called at the start of a fit."""
        chosen = asked(self)
        if "n_estimators" not in chosen:
            whole_number("n_estimators", self.n_estimators, least=1)
        elif self.early_stopping_rounds is not None:
            raise ValueError(
                f"n_estimators={AUTO!r} stops by itself; leave early_stopping_rounds out, or give "
                "n_estimators as a number"
            )
        if chosen and self.warm_start:
            raise ValueError(
                f"warm_start=True goes on with a model, and {chosen[0]}={AUTO!r} would choose "
                f"another; give {chosen[0]} as a number"
            )
        if self.early_stopping_rounds is not None:
            whole_number("early_stopping_rounds", self.early_stopping_rounds, least=1)
        for name in ("learning_rate", "max_features"):
            in_range(name, getattr(self, name), 0.0, 1.0)
        whole_number("max_bins", self.max_bins, least=2, most=MAX_BINS)
        whole_number("verbose", self.verbose, least=0)
        count_jobs(self.n_jobs)
        callbacks = self.callbacks
        if callbacks is not None and not (
            isinstance(callbacks, list | tuple) and all(map(callable, callbacks))
        ):
            raise ValueError(f"callbacks={callbacks!r}: give a list of functions")
        for callback in callbacks or ():
            library = type(callback).__module__.split(".")[0]
            if library in ("catboost", "lightgbm", "xgboost"):
                raise ValueError(
                    f"callbacks holds {type(callback).__name__} of {library}, which is no callback "
                    "for this library: use early_stopping_rounds to stop early, verbose=1 to see "
                    "progress, evals_result_ for what was recorded, or a function of a Progress"
                )

    def rankers_to_search(self) -> Family:
        """Return the family of `rankers`, under `monotone_constraints` where they are given."""
        chosen = family(self.rankers)
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
        return chosen.with_directions(given)

    def feature_draw(self) -> Callable[[], NDArray[np.bool_] | None]:
        """Return a function that says which features a round may use: all, or a random share."""
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
        workers: Workers,
        *,
        queries: bool,
        weights: Any = None,
        starts: Any = None,
        offset: bool = False,
    ) -> list[tuple[Monitor, dict[str, bool]]]:
        """Bin the evaluation sets by the cuts of the training rows, and prepare metrics.

        `queries` says whether the training rows have several queries, `offset` whether they have
        scores to start from.
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
        sets = _evaluation_sets(eval_set)
        qids = _one_for_each(eval_qid, len(sets), "eval_qid")
        groups = _one_for_each(eval_group, len(sets), "eval_group")
        weighted = _one_for_each(weights, len(sets), "eval_sample_weight")
        begun = _one_for_each(starts, len(sets), "eval_init_score")
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
                workers=workers,
            )
            at = _offset(start, X.shape[0], "eval_init_score")
            monitors.append((Monitor(f"valid_{index}", table, metrics, at, judgments), better))
        return monitors

    def _worsening(self, task: Task) -> Worsening | None:
        """Monitor the first metric of the first evaluation set."""
        if not task.monitors:
            return None
        monitor, better = task.monitors[0]
        metric = next(iter(monitor.metrics))
        patience = self.early_stopping_rounds or np.iinfo(np.int64).max
        return Worsening(f"{monitor.name} {metric}", int(patience), better[metric])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "ensemble_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "ranker"
        if hasattr(self, "ensemble_"):  # a real score per row: partial dependence asks for this
            tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags


def has_queries(training: Training) -> bool:
    """Whether grades were compared inside several queries, rather than in one list."""
    return training.arrangement.query_start.size > 2


def _name_hooks(cls: type) -> None:
    """Give a class its hooks by both names, the former and the public one."""
    for former, hook in _FORMER_HOOKS.items():
        if former in vars(cls) and hook not in vars(cls):
            setattr(cls, hook, vars(cls)[former])
        else:
            setattr(cls, former, getattr(cls, hook))


_name_hooks(BaseRanker)


def load(path: str | os.PathLike[str]) -> BaseRanker:
    """Read a model that `save` wrote; nothing in the file is executed.

    >>> import tempfile, os
    >>> from precede import RankBoost, load
    >>> model = RankBoost(n_estimators=5).fit([[0.0], [1.0], [2.0]], [0, 0, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(os.path.join(folder, "model.json"))
    ...     load(os.path.join(folder, "model.json")).predict([[2.0]]) == model.predict([[2.0]])
    array([ True])
    """
    import precede  # noqa: PLC0415  (its list of algorithms, complete only by now)

    fields = read_model(path)
    name = fields.get("estimator")
    if isinstance(name, str) and name in precede.__all__:
        getattr(precede, name)  # imports the module that defines it
    known = {cls.__name__: cls for cls in _subclasses(BaseRanker) if cls.__name__[0] != "_"}
    if not isinstance(name, str) or name not in known:
        raise ValueError(
            f"{path} holds an estimator {shown(name)} that is not known here; import the module "
            f"that defines it first (known: {', '.join(sorted(known))})"
        )
    estimator = known[name]()
    try:
        _fill(estimator, fields)
    except ValueError as error:
        raise ValueError(f"{path} is not a usable model: {error}") from error
    left_out = fields.get("parameters_left_out")
    if left_out:
        warnings.warn(
            f"{path} could not hold {', '.join(left_out)}; scores are unaffected, but "
            "set them before fitting again",
            stacklevel=2,
        )
    return estimator


def _fill(estimator: BaseRanker, fields: dict[str, Any]) -> None:
    """Give an estimator the parameters and the model of a file."""
    accepted = estimator.get_params(deep=False)
    parameters = _part(fields, "parameters", dict)
    for key, value in parameters.items():
        if not _is_plain(value):
            raise ValueError(f"the parameter {shown(key)} is {shown(value)}")
    read = {key: _released(value) for key, value in parameters.items() if key in accepted}
    estimator.set_params(**read)
    count_jobs(estimator.n_jobs)
    whole_number("bags", estimator._averaged, least=1)
    estimator._restore(fields)
    left_out = fields.get("parameters_left_out") or []
    if not isinstance(left_out, list) or not all(isinstance(name, str) for name in left_out):
        raise ValueError("the parameters left out of the model are not a list of names")


# -- small checks ----------------------------------------------------------------------------


def _subclasses(cls: type[BaseRanker]) -> Iterator[type[BaseRanker]]:
    for child in cls.__subclasses__():
        yield child
        yield from _subclasses(child)


def _part(fields: dict[str, Any], name: str, kind: type) -> Any:
    value = fields.get(name)
    if not isinstance(value, kind):
        raise ValueError(f"the model file has no {name!r}, or it is not a {kind.__name__}")
    return value


def parameters_of(estimator: BaseRanker) -> dict[str, Any]:
    """Parameters of an estimator that JSON can hold, and the names of those that it cannot.

    >>> parameters_of(BaseRanker())
    {'parameters': {}, 'parameters_left_out': []}
    """
    parameters = estimator.get_params(deep=False)
    named = {name: _named(value) for name, value in parameters.items()}
    held = {name: plain(value) for name, value in named.items() if _is_plain(value)}
    return {
        "parameters": held,
        "parameters_left_out": [name for name in parameters if name not in held],
    }


# Classes of parameters that are saved by their arguments; loading makes nothing else.
SAVED = {
    cls.__name__: cls
    for cls in (
        RankWeight, Exponential, Logistic, Hinge, SquaredHinge, SmoothedHinge, Linear, Power, Exp,
        Stumps, Trees,
    )
}  # fmt: skip


def _named(value: Any) -> Any:
    """A parameter as JSON can hold it, where it can; `_released` gives it back.

    A family of rankers by its name, where the name says it all; objects of known classes by their
    arguments; a dict whose keys are not all text as a list.

    >>> _named({0: 1})
    {'$items': [[0, 1]]}
    """
    if isinstance(value, dict) and not all(isinstance(k, str) and k[:1] != "$" for k in value):
        return {"$items": [[key, each] for key, each in value.items()]}
    name = family_name(value)
    cls = type(value)
    if name or SAVED.get(cls.__name__) is not cls:
        return name or value
    names = signature(cls).parameters
    if not vars(value).keys() >= names.keys():
        return value
    arguments = {each: getattr(value, each) for each in names}
    if not _is_plain(arguments) or cls(**arguments) != value:
        return value
    return {"$class": cls.__name__, "arguments": arguments}


def _released(value: Any) -> Any:
    """A parameter of a model file, as `_named` wrote it.

    >>> _released(_named(RankWeight(k=10, blend=0.5)))
    RankWeight(gain='exp', discount='log', k=10, blend=0.5, by_ideal=True)
    """
    if not isinstance(value, dict) or not {"$items", "$class"} & value.keys():
        return value
    try:
        if "$items" in value:
            return {_spelled_key(key): each for key, each in value["$items"]}
        return SAVED[value["$class"]](**value["arguments"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the parameter {shown(value)} cannot be read") from error


def _spelled_key(key: Any) -> Any:
    if not isinstance(key, str | int | float):
        raise TypeError(f"{key!r} is no column")
    return key


def _is_plain(value: Any, depth: int = 8) -> bool:
    if isinstance(value, dict):
        named = all(isinstance(name, str) for name in value)
        return named and _is_plain([*value.values()], depth)
    if isinstance(value, list | tuple):
        return depth > 0 and all(_is_plain(each, depth - 1) for each in value)
    return value is None or isinstance(value, str | int | float | bool | np.number | np.bool_)


def _history(rounds: list[Any]) -> History:
    """History from a model file, numbers that JSON has not read back."""
    if not all(isinstance(each, dict) for each in rounds):
        raise ValueError("the history of the model is not a list of rounds")
    return History({name: _spelled(value) for name, value in each.items()} for each in rounds)


def _check_rounds(history: History, columns: tuple[str, ...], checkpoint: Checkpoint) -> None:
    """Refuse a checkpoint whose rounds lack what the fit goes on from."""
    for done, values in enumerate(history, 1):
        for name in columns:
            if not isinstance(values.get(name), int | float):
                raise ValueError(
                    f"{checkpoint.path}: round {done} has no number {name!r}, which is needed "
                    "to go on; the file was changed, so remove it or give another path"
                )


def _spelled(value: Any) -> Any:
    """A number of `history_`, as `plain` spelled it."""
    if value is None or isinstance(value, int | float):
        return value
    return spelled(value, "a value in the history of the model")


def _evaluation_sets(eval_set: Any) -> list[tuple[Any, Any]]:
    """List of (X, y), from one or several."""
    sets = [eval_set] if isinstance(eval_set, tuple) else eval_set
    if not isinstance(sets, list) or not all(
        isinstance(each, tuple | list) and len(each) == 2 for each in sets
    ):
        raise ValueError("eval_set must be (X, y) or a list of such pairs")
    return [(X, y) for X, y in sets]


def _one_for_each(values: Any, count: int, name: str) -> list[Any]:
    """List with one entry for each evaluation set."""
    if values is None:
        return [None] * count
    listed = list(values) if isinstance(values, list | tuple) else [values]
    if count == 1 and (len(listed) != 1 or np.ndim(listed[0]) == 0):
        listed = [values]
    if len(listed) != count:
        raise ValueError(f"{name} has {len(listed)} arrays for {count} evaluation sets")
    return listed


def _offset(values: Any, rows: int, name: str) -> Floats | None:
    """Scores to start from, one per row; None where nothing is given."""
    return None if values is None else check_column(values, name, rows)


def _log_sum_exp(values: Floats, weight: Floats, workers: Workers) -> float:
    largest = float(greatest_of(lambda: values.max(initial=-np.inf), workers))
    return largest + float(np.log(exact_sum(weight * np.exp(values - largest), workers)))


def _evals_result(history: History) -> dict[str, dict[str, list[float]]]:
    """History columns "valid_0 ndcg@10" as LightGBM's nested dictionary."""
    result: dict[str, dict[str, list[float]]] = {}
    for column in history.columns:
        if column.startswith("valid_") and " " in column:
            name, metric = column.split(" ", 1)
            result.setdefault(name, {})[metric] = history[column].tolist()
    return result
