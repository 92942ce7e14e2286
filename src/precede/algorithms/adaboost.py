"""AdaBoost with the constant classifier: a classifier and a ranker from one fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import MappingProxyType
from typing import Literal

import numpy as np
from sklearn.utils import ClassifierTags, Tags

from precede.boosting.coordinate_descent import Plan
from precede.boosting.loop import Callback, History, Result, Stop, Trainer
from precede.boosting.steps import ExactStep, Step, StepRule
from precede.engine.arrays import Array, RandomState
from precede.engine.exact import exact_sum
from precede.engine.parameters import check_bool
from precede.engine.portable import log_of
from precede.estimator import BaseRanker, FitContext, Saved
from precede.model import Ensemble
from precede.risks.base import BoundRisk, State
from precede.risks.pointwise import PointRisk
from precede.weak_rankers.base import Family, SearchResult, family
from precede.weak_rankers.stumps import SignedStumps, as_signed_stump, as_stump, signed_stumps


class AdaBoostRanker(BaseRanker):
    """AdaBoost; with the constant classifier it also ranks as RankBoost does.

    Minimizes the sum over rows of ``exp(-y F(x))`` with y = 1 for the second class and -1 for
    the first, and ``F = sum_t step_t h_t``. Stumps vote 1 or -1. With the constant ``h = 1``
    among the weak classifiers, the *F-skew* ``sum over y = 1 of exp(-F) - sum over y = -1 of
    exp(F)`` tends to 0 (corollary 11), and then F minimizes RankBoost's loss as well and
    reaches the same area under the ROC curve (theorems 10 and 12). Conversely RankBoost with
    its `intercept_` minimizes this loss and makes the same classification errors (corollary 13,
    theorem 14).

    Parameters
    ----------
    constant : bool
        Whether the constant is a weak classifier.
    weak_rankers : {"stumps", "features", "columns"} or Family
        Weak classifiers. Stumps become votes of 1 and -1; other weak rankers keep their values.
    n_estimators, learning_rate, max_bins, max_features, early_stopping_rounds, eval_metric,
    callbacks, warm_start, random_state, n_jobs, verbose
        As for `RankBoost`.

    Attributes
    ----------
    f_skew_ : float
        ``F+ - F-`` of the model on the training rows.
    intercept_ : float
        `decision_function` is `predict` plus this.
    classes_ : array of the two classes
    history_ : History
        ``["risk"]`` is the mean of ``exp(-y F(x))``; ``["f_skew"]``, ``["error"]`` (share of the
        training rows on the wrong side of 0).

    Notes
    -----
    *Ranking:* `predict` scores, `rank`, `score` (the area under the curve). *Classification:*
    `decision_function`, `predict_proba` (``1 / (1 + exp(-2 F))``) and `classify`, which
    returns the classes.

    A vote ``2 h - 1`` is stored as its stump h with twice the weight, and ``-1`` times the weight
    is added to `intercept_`, so the model is explained and exported like that of any other ranker.
    The rows must be one list of two classes. A round costs O(n) for each feature.

    References
    ----------
    Freund & Schapire, *A Decision-Theoretic Generalization of On-line Learning*, 1997. Rudin &
    Schapire, JMLR 10 (2009), section 5.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from precede import AdaBoostRanker
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = AdaBoostRanker(n_estimators=50).fit(X[::2], y[::2])
    >>> round(model.score(X[1::2], y[1::2]), 2)             # as a ranker: area under the curve
    0.99
    >>> round(float((model.classify(X[1::2]) == y[1::2]).mean()), 2)        # as a classifier
    0.95
    """

    constant: bool = True
    weak_rankers: str | Family = "stumps"
    n_estimators: int | Literal["auto"] = 300
    learning_rate: float = 1.0
    max_bins: int = 255
    max_features: float = 1.0
    early_stopping_rounds: int | None = None
    eval_metric: object = None
    callbacks: Sequence[Callback] | None = None
    warm_start: bool = False
    random_state: RandomState = None
    n_jobs: int | None = None
    verbose: int = 0

    resumes_from = ("log_risk", "f_skew")
    takes_init_score = False
    selectable = ("n_estimators",)
    saved_attributes = MappingProxyType({"f_skew_": Saved()})

    def plan(self, stop: Stop) -> Plan:
        """Return the risk, the weak rankers and the step of this algorithm."""
        return Plan(
            risk=PointRisk(),
            weak_rankers=signed_stumps(family(self.weak_rankers), constant=self.constant),
            step=VoteStep(),
            stop=stop,
            learning_rate=self.learning_rate,
            draw=self.feature_draw(),
        )

    def check_parameters(self) -> None:
        """Raise ValueError for an invalid parameter."""
        super().check_parameters()
        check_bool("constant", self.constant)

    def before_rounds(self, task: FitContext) -> None:
        """Raise ValueError unless there are two classes in one list."""
        if task.classes is None:
            raise ValueError(
                "AdaBoostRanker learns from two classes in one list; for grades, queries or listed "
                "pairs use RankBoost"
            )

    def trainer(
        self, task: FitContext, stop: Stop, ensemble: Ensemble | None, history: History
    ) -> Trainer:
        """Return coordinate descent; the stumps of an earlier model become votes again."""
        votes = signed_stumps(family(self.weak_rankers), constant=False)
        if ensemble and not task.checkpoint and self._has_votes(votes):
            parts = [as_signed_stump(*part) for part in ensemble.parts()]
            signed, weights = [vote for vote, _ in parts], [weight for _, weight in parts]
            ensemble = Ensemble(signed, weights, ensemble.n_features)
        return super().trainer(task, stop, ensemble, history)

    def _has_votes(self, searched: Family) -> bool:
        """Return whether stumps are votes: those searched, or earlier ones with an intercept."""
        return SignedStumps() in searched.members or bool(self.intercept_)

    def after_rounds(self, result: Result, task: FitContext) -> None:  # noqa: ARG002
        """Convert votes ``a (2 h - 1)`` to ``2 a`` times the stump h, and -a in the intercept."""
        parts = [as_stump(*part) for part in self.ensemble_.parts()]
        stumps, weights = [stump for stump, _, _ in parts], [weight for _, weight, _ in parts]
        self.ensemble_ = Ensemble(stumps, weights, self.n_features_in_)
        self.intercept_ = -math.fsum(constant for _, _, constant in parts)
        rounds = self.n_estimators_
        self.f_skew_ = float(self.history_["f_skew"][rounds - 1]) if rounds else _skew(task)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags = ClassifierTags(multi_class=False)
        return tags


def _skew(task: FitContext) -> float:
    """Return the F-skew of a model without rounds."""
    risk = PointRisk().bind(task.training.layout)
    return risk.skew(risk.state(np.zeros(task.training.table.n_used_rows)))


class VoteStep(StepRule):
    """``log(d+ / d-) / 2`` from the weights of the rows that a vote gets right and wrong.

    For a classifier without errors the step would be infinite; half a row on either side keeps it
    finite. For values other than 1 and -1 the step is found by a line search.
    """

    def step(self, risk: BoundRisk, state: State, found: SearchResult, values: Array) -> Step:
        """Return the closed form for votes, otherwise the step of a line search."""
        if not np.all(np.abs(values.astype(np.float64)) == 1):
            return ExactStep().step(risk, state, found, values)
        voted = state.pull * values
        right, wrong = exact_sum(voted[voted > 0]), -exact_sum(voted[voted < 0])
        smoothing = risk.terms.smoothing if min(right, wrong) == 0 else 0.0
        size = 0.5 * log_of((right + smoothing) / (wrong + smoothing))
        # The weight of a misclassified row may be lost in rounding.
        perfect = smoothing > 0 and risk.terms.least_margin(np.sign(size) * values) > 0
        return Step(size, smoothing > 0 and not perfect, perfect)
