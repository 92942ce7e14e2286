"""Methods of fitted rankers: scores, ranks, explanations, plots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from precede import explain as explanations  # whose modules are loaded when used
from precede.boosting.history import History
from precede.boosting.monitors import pairs_in_order
from precede.engine.arrays import Array, Floats
from precede.engine.cuda import on_gpu, open_device
from precede.engine.execution import Context
from precede.engine.frames import row_labels
from precede.engine.parameters import check_integer
from precede.estimator.inputs import Inputs
from precede.judgments import Judgments, qid_or_group, warn_of_lost_queries
from precede.model import Ensemble
from precede.risks.base import probability

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

if TYPE_CHECKING:  # scikit-learn ships no types
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from precede.boosting.selection import Selection

    def available_if(check: Callable[[Any], bool]) -> Callable[[Decorated], Decorated]:
        """Return a decorator for a method that exists if the check succeeds."""
else:
    from sklearn.utils.metaestimators import available_if


def _two_classes(estimator: FittedRanker) -> bool:
    """Return True after a fit on two classes; otherwise raise AttributeError."""
    check_is_fitted(estimator)
    if estimator.classes_ is None:
        raise AttributeError(
            "classify, predict_proba and decision_function are there after a fit on two classes "
            "without queries or listed pairs"
        )
    return True


def _has_link(estimator: FittedRanker) -> bool:
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


# Attributes of LightGBM, XGBoost and CatBoost, and their counterparts.
_OTHER_ATTRIBUTES = {
    "booster_": "the fitted model is ensemble_",
    "dump_model": "save(path) writes JSON",
    "feature_name_": "the names are feature_names_in_",
    "feature_names_": "the names are feature_names_in_",
    "get_booster": "the fitted model is ensemble_",
    "n_features_": "the number is n_features_in_",
    "n_iter_": "the number of rounds is n_estimators_",
    "num_trees": "the number of rounds is n_estimators_",
    "save_model": "save(path) writes the model, and precede.load reads it",
}


class FittedRanker(Inputs):
    """Methods of fitted rankers, independent of the algorithm; see `BaseRanker`."""

    # Fitted attributes.
    ensemble_: Ensemble
    history_: History
    n_features_in_: int
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
    n_jobs: int | None = None

    if not TYPE_CHECKING:  # otherwise mypy would accept every attribute

        def __getattr__(self, name: str) -> Any:
            """Explain the counterpart of an attribute of another library."""
            if name not in _OTHER_ATTRIBUTES:
                return super().__getattribute__(name)  # raises AttributeError
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}; "
                f"{_OTHER_ATTRIBUTES[name]}", name=name, obj=self,
            )  # fmt: skip

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
            device = open_device("cuda")
            assert device is not None
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
        judgments, _ = self._target(
            scores.size, y, qid=qid, group=group, sample_weight=sample_weight, pairs=pairs,
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
        from precede import plots  # noqa: PLC0415  (slow)

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
        from precede import plots  # noqa: PLC0415  (slow)

        check_is_fitted(self)
        return plots.draw_importances(plots.importance_info(self, X, top=top), ax)

    def plot_history(self, columns: Sequence[str] | None = None, *, ax: Axes | None = None) -> Axes:
        """Plot the evaluation metrics, or else the training risk, round by round."""
        from precede import plots  # noqa: PLC0415  (slow)

        check_is_fitted(self)
        return plots.draw_learning(plots.learning_info(self, columns), ax)
