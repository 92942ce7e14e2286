"""Ranking with a push: errors at the top of the list cost more."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
from sklearn.base import clone

from precede.boosting.callbacks import ProgressBar
from precede.boosting.coordinate_descent import Plan
from precede.boosting.holdout import Resampler, one_error_rule
from precede.boosting.loop import INTERRUPTED, Callback, Result, Stop
from precede.boosting.monitors import monitored_metrics
from precede.boosting.steps import ExactStep
from precede.engine.arrays import Floats, Json, RandomState
from precede.engine.exact import all_reduce_sum, exact_sums
from precede.engine.parameters import check_integer, find_auto_parameters
from precede.engine.query_layout import TrainingData
from precede.estimator import BaseRanker, FitContext, Saved
from precede.judgments import Judgments
from precede.losses import PairLoss, Price, pair_loss, price
from precede.model import number
from precede.results import Result as TableResult
from precede.risks.base import Risk, State
from precede.risks.pair_risk import PairRisk
from precede.weak_rankers.base import Family

if TYPE_CHECKING:
    from typing_extensions import Self

    from precede.risks.lambdarank import Weighting


# A conservative rule of thumb, not from the paper. R05 reports a gain on test rows up to p = 64
# with about 195 negatives (pima, section 5), and with about 33 up to p = 4 but not at p = 8
# (section 6); over thirty splits the gain is less certain (benchmarks/results/rudin2005.md).
LOSERS_FOR_EACH_POWER = 10


class SmallSampleWarning(UserWarning):
    """Too few rows for such a push to generalize."""


@dataclass(frozen=True)
class PriceSearch(TableResult):
    """Held-out results of every price tried.

    Attributes
    ----------
    metric : name of the metric; its sign is reversed if less is better
    prices : the powers tried
    by_fold : array of shape (folds, prices)
    best : the chosen power: the smallest within one standard error of the best, where the error is
        that of the difference, paired by fold (`standard_error` is that of the means)

    Examples
    --------
    >>> import numpy as np
    >>> print(PriceSearch("partial_auc@0.1", (1.0, 4.0), np.array([[0.5, 0.7], [0.6, 0.7]]), 4.0))
    partial_auc@0.1 over 2 folds
      price  mean  standard_error  chosen
      1      0.55            0.05   False
      4       0.7               0    True
    """

    metric: str
    prices: tuple[float, ...]
    by_fold: Floats
    best: float

    @property
    def mean(self) -> Floats:
        """Mean over the folds for each price."""
        return self.by_fold.mean(axis=0)

    @property
    def standard_error(self) -> Floats:
        """Standard error over the folds for each price."""
        return self.by_fold.std(axis=0, ddof=1) / np.sqrt(len(self.by_fold))

    def summary(self) -> str:
        """Return the metric and the number of folds."""
        return f"{self.metric} over {len(self.by_fold)} folds"

    def __repr__(self) -> str:
        return str(self)

    def rows(self) -> list[Json]:
        """Return the table, one dictionary for each price."""
        return [
            {"price": power, "mean": float(mean), "standard_error": float(error),
             "chosen": power == self.best}
            for power, mean, error in zip(self.prices, self.mean, self.standard_error, strict=True)
        ]  # fmt: skip

    @classmethod
    def from_dict(cls, fields: Json) -> PriceSearch:
        """Rebuild the result of `to_dict`; raise ValueError for invalid fields."""
        try:
            by_fold = np.array(fields["by_fold"], np.float64)
            prices = tuple(number(power, "price") for power in fields["prices"])
            metric, best = fields["metric"], number(fields["best"], "best")
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"the model file has no readable search of prices: {error}") from error
        if not isinstance(metric, str):
            raise ValueError("the metric of the search of prices is not a name")
        if by_fold.ndim != 2 or by_fold.shape[1] != len(prices):
            raise ValueError(f"by_fold has shape {by_fold.shape} for {len(prices)} prices")
        return cls(metric, prices, by_fold, best)


def _read_price(value: object, name: str) -> float | str | None:
    """Return a price from a model file; None for a user-defined one, which is not saved."""
    if value is not None:
        price(value if isinstance(value, str) else number(value, name))
    return cast("float | str | None", value)


def _read_search(value: Json | None, name: str) -> PriceSearch | None:  # noqa: ARG001
    return None if value is None else PriceSearch.from_dict(value)


class PushRanker(BaseRanker):
    """Ranking with a p-norm push, or any convex price on any convex pair loss.

    Minimizes ``sum_k g( sum_{i above k} l(f(x_i) - f(x_k)) )``: the cost of a loser k is a convex
    function g, the *price*, of the sum of its pair losses against the items that should rank above
    it. The steeper g, the more losers near the top of the list matter, at the expense of the order
    of the rest.

    Parameters
    ----------
    loss : {"exponential", "logistic", "hinge", "squared_hinge"} or PairLoss
    price : number p >= 1, "exp", Price or "cv"
        ``g(u) = u^p`` (1 is RankBoost, 4 to 16 is a strong push), ``g(u) = exp(u)``, or
        user-defined. "cv" chooses by cross-validation the smallest power within one standard error
        (of the difference over the folds) of the best; see `prices`, `cv` and `cv_metric`.
    scope : {"query", "global"}
        With queries, push at the top of every query, or at the top of one list of all rows, in
        which a row should rank above all rows of a lower grade of any query.
    prices : sequence of numbers
        Powers that "cv" tries.
    cv : int
        Number of folds of "cv". Queries are not split, and the folds of two classes are stratified.
        Explicit pairs without grades are split by the groups of rows that they connect, or pair by
        pair if they connect nearly all rows.
    cv_metric : str, function or None
        Metric of "cv", such as "positives_above_first_negative" or "precision@10". None is
        "partial_auc@0.1" for one list, "ndcg@10" for queries, and "pairs_in_order" for explicit
        pairs alone.
    balance : {"pairs", "queries", "items"}
        "pairs" is the sum above, over all queries. Otherwise the price is that of the mean of the
        pair losses of an item: ``sum_k v_k n_k g( sum_{i above k} l(f(x_i) - f(x_k)) / n_k )`` with
        n_k the number of items above k, and v_k equal for all items of a query, such that
        ``v_k n_k`` sums to 1 in it ("queries") or to its number of items ("items"). At scores 0
        every query has this share of the pull, for every price; with weights, counts are sums of
        weights. ``exp(u)`` of a mean is a weak push: prefer a power.
    rank_weight : None, "gap", "grade_gap", "ndcg", "ndcg@10", "precision@5", RankWeight or dict
        Weights of pairs that depend on the ranking, recomputed from the scores of every round; see
        `RankWeight`. Requires ``price=1``. `history_["risk"]` is that of each round's weights.
    weak_rankers : {"stumps", "features", "columns", "trees"} or Family
        Weak rankers. The paper defines them with values in [0, 1] and scales the features to
        [-1, 1] in its experiments; "features", scaled to [0, 1], has the same scores up to a
        constant, because all slopes change by the same factor.
    monotone_constraints, n_estimators, learning_rate, max_bins, max_features, \
early_stopping_rounds, eval_metric, callbacks, warm_start, random_state, n_jobs, device, verbose
        As for `RankBoost`.

    Attributes
    ----------
    price_ : float or Price
        The price used.
    price_search_ : PriceSearch or None
        Result of "cv", with standard errors.
    effective_losers_ : float
        Effective number of losers in the final risk: ``1 / sum_k share_k²`` for the shares of
        rows with a negative pull.
    history_ : History
        ``history_["risk"]`` is on the scale of a single pair: ``g⁻¹(mean of g(u))`` over the
        losers, divided by its value if every pair loss is 1. For ``u^p``, two classes and the
        exponential loss that is ``F_p^(1/p) / (I K^(1/p))`` with I positives and K negatives. It is
        ``l(0)`` at scores 0, and does not overflow for large p.

    Notes
    -----
    For the exponential loss and powers a round costs O(n) for the pull, O(n) for each feature
    searched, and the step along a stump is ``log(A1 B0 / (A0 B1)) / (p + 1)`` for two classes
    (A and B are the sums of ``exp(-f)`` over positives and ``exp(p f)`` over negatives, split
    by the stump), or a line search on these sums by level. The logistic loss costs about 15 n
    operations more, hinge losses O(n log n), "exp" and other prices two passes. p = 1 with the
    exponential loss is ``RankBoost(select="slope", step="exact")`` to the last bit.

    Theorem 2 of the paper asks for ``(4/ε)^(2(p-1))`` times as many negatives as p = 1 does
    (`precede.bounds.negatives_needed`), which no sample has for a large p. In its experiments
    far fewer sufficed: with about 195 negatives the paper reports a gain on test rows up to
    p = 64 (pima, section 5), with about 33 up to p = 4 only (section 6). There is a
    `SmallSampleWarning` if there are fewer than ten losers for each unit of p; this is a
    conservative rule of thumb, not from the paper.

    References
    ----------
    Rudin, *Ranking with a P-Norm Push*, 2005.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from precede import PushRanker
    >>> from precede.metrics import evaluate
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> for price in (1, 16):  # benign tumors above the first malignant one, on these data
    ...     model = PushRanker(price=price, weak_rankers="features", n_estimators=100)
    ...     scores = model.fit(X[:, :6], y).predict(X[:, :6])
    ...     seen = evaluate(y, scores, metrics="positives_above_first_negative")
    ...     int(seen.mean["positives_above_first_negative"])
    195
    227
    """

    loss: str | PairLoss = "exponential"
    price: float | str | Price = 4
    scope: str = "query"
    prices: Sequence[float] = (1, 2, 4, 8, 16, 64)
    cv: int = 5
    cv_metric: object = None
    balance: str = "pairs"  # as printed
    rank_weight: Weighting = None
    weak_rankers: str | Family = "stumps"
    n_estimators: int | Literal["auto"] = 300
    learning_rate: float = 1.0  # as printed
    max_bins: int = 255
    max_features: float = 1.0
    monotone_constraints: Sequence[int] | Mapping[int | str, int] | None = None
    early_stopping_rounds: int | None = None
    eval_metric: object = None
    callbacks: Sequence[Callback] | None = None
    warm_start: bool = False
    random_state: RandomState = None
    n_jobs: int | None = None
    device: str = "cpu"
    verbose: int = 0

    selectable = ("n_estimators",)
    saved_attributes = MappingProxyType(
        {
            "price_": Saved(_read_price, lambda given: None if isinstance(given, Price) else given),
            "price_search_": Saved(_read_search, lambda search: search and search.to_dict()),
            "effective_losers_": Saved(),
        }
    )

    def risk(self) -> Risk:
        """Return the risk of the loss and of the price in use."""
        cost = self.price_ if self._searches_price else self.price
        return PairRisk(self.loss, cost, balance=self.balance, rank_weight=self.rank_weight)

    def plan(self, stop: Stop) -> Plan:
        """Return the risk, the weak rankers and the step of this algorithm."""
        return Plan(
            risk=self.risk(),
            weak_rankers=self.weak_rankers_to_search(),
            step=ExactStep(),
            stop=stop,
            learning_rate=self.learning_rate,
            draw=self.feature_draw(),
        )

    def judgments_to_learn(self, judgments: Judgments) -> Judgments:
        """Return the judgments, as one query if the scope is global."""
        return judgments.as_one_query() if self.scope == "global" else judgments

    @property
    def _searches_price(self) -> bool:
        return isinstance(self.price, str) and self.price == "cv"

    def before_rounds(self, task: FitContext) -> None:
        """Set the price, by cross-validation if it is "cv"; a continued model keeps its price."""
        if self._searches_price:
            if self._continues:
                return
            if task.training.init_score is not None:
                raise ValueError("price='cv' takes no init_score; give a number as price")
        search = self._search_prices(task) if self._searches_price else None
        self.price_search_ = search
        self.price_: float | str | Price = self.price if search is None else search.best

    def check_parameters(self) -> None:
        """Raise ValueError for an invalid parameter."""
        super().check_parameters()
        pair_loss(self.loss)
        if self.scope not in ("query", "global"):
            raise ValueError(f"scope={self.scope!r} is unknown; use 'query' or 'global'")
        if not self._searches_price:
            price(self.price)
            return
        if find_auto_parameters(self):
            raise ValueError("n_estimators='auto' and price='cv' are both given; use one of them")
        check_integer("cv", self.cv, least=2)
        powers = list(self.prices) if isinstance(self.prices, Sequence | np.ndarray) else []
        if not powers or isinstance(self.prices, str):
            raise ValueError(f"prices={self.prices!r} has nothing to try; give numbers from 1")
        for power in powers:
            price(power)

    # -- choosing the price ----------------------------------------------------------------

    def _search_prices(self, task: FitContext) -> PriceSearch:
        """Fit every price on every fold, and evaluate the held-out rows."""
        X, judgments = task.X, self.judgments_to_learn(task.judgments)
        powers = tuple(sorted({float(power) for power in self.prices}))
        metric = self.cv_metric
        if metric is None and judgments.grade is not None:
            metric = "partial_auc@0.1" if judgments.qid is None else "ndcg@10"
        _ = X[:1]  # raises for a DiskTable, whose rows cannot be selected
        parts = Resampler.of_fit(self, task, seed=self.draw_seed()).folds(self.cv)
        if len(parts) < 2:
            raise ValueError(
                f"fewer than two folds of cv={self.cv} have pairs on both sides; use fewer folds, "
                "or a number as price"
            )
        by_fold, name = np.empty((len(parts), len(powers))), ""
        total = by_fold.size
        with ProgressBar("prices", rounds=total, verbose=self.verbose) as bar:
            for row, (learn, held) in enumerate(parts):
                name, measured = next(iter(monitored_metrics(metric, held.judgments).items()))
                sign = 1.0 if measured.greater_is_better else -1.0
                for column, power in enumerate(powers):
                    trial = self._with_price(power)
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", UserWarning)
                        trial.fit(X[learn.rows], learn.judgments)
                    if trial.stop_reason_ == INTERRUPTED:  # do not choose from an incomplete search
                        raise KeyboardInterrupt
                    by_fold[row, column] = sign * measured.value(trial.predict(X[held.rows]))
                    bar.advance()
        return PriceSearch(name, powers, by_fold, powers[one_error_rule(list(by_fold.T)).chosen])

    def _with_price(self, power: float) -> Self:
        """Return a copy for arrays with a price, without callbacks, output and early stopping."""
        return clone(self).set_params(
            price=power, callbacks=None, verbose=0, warm_start=False,
            early_stopping_rounds=None, eval_metric=None,
            monotone_constraints=self._monotone_constraints(),
        )  # fmt: skip

    # -- number of losers ------------------------------------------------------------------

    def after_rounds(self, result: Result, task: FitContext) -> None:
        """Compute the effective number of losers."""
        if result.state is None:
            return
        context, state = task.training.context, result.state
        if len(result.ensemble) != len(self.ensemble_):  # early stopping has removed rounds
            state = self._state_of_model(task.training)
        share = np.maximum(-context.backend.get(state.pull), 0.0)
        total, squares = exact_sums([share, share**2], context)
        self.effective_losers_ = total**2 / squares if total > 0 else 0.0

    def _state_of_model(self, training: TrainingData) -> State:
        """Return the state of the risk at the scores of the model, under its last rank weights."""
        start, parts = training.init_score, self.ensemble_.parts()
        scores = np.zeros(training.table.n_used_rows) if start is None else start.copy()
        risk = self.risk().bind(training.layout, training.context)
        for place, (weak_ranker, weight) in enumerate(parts, 1):
            if place == len(self.ensemble_):
                risk.begin_round(scores, value=False)
            scores += weight * weak_ranker.on(training.table)
        return risk.state(scores)

    def warn_of_result(self, result: Result, task: FitContext) -> None:
        """Warn of too few losers for the push."""
        super().warn_of_result(result, task)
        training, context = task.training, task.training.context
        above = training.layout.weight_above()
        losers = all_reduce_sum(lambda: int((above > 0).sum()), context)
        power = self._power_in_effect(result, training)
        if power > 1 and losers < LOSERS_FOR_EACH_POWER * power:
            context.warn(
                f"{losers} rows that should rank low are few for price={self.price_!r} (a power "
                f"of {power:.3g}): have {LOSERS_FOR_EACH_POWER} for each unit of the power, or the "
                "top of the list may look different on new data; use a smaller price, or "
                "price='cv'",
                SmallSampleWarning,
            )

    def check_model(self) -> None:
        """Use the parameter `price` if the fitted price was not saved."""
        self.price_ = self.price if self.price_ is None else self.price_

    def _power_in_effect(self, result: Result, training: TrainingData) -> float:
        """Return ``u g'(u) / g(u)`` at the mean payment: p for u^p."""
        cost = price(self.price_)
        if cost.power is not None or not len(result.history):
            return 1.0 if cost.power is None else cost.power
        bound = PairRisk(self.loss, cost, balance=self.balance).bind(
            training.layout, training.context
        )
        risk = np.array([result.history[-1]["log_risk"] + bound.mean_loss_scale()[1]])
        return float(np.exp(risk + cost.log_slope(risk) - cost.log_value(risk))[0])
