"""Boosting of regression trees or any regressor, and QBRank (Zheng et al. 2007)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal, cast

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state

from precede.boosting.coordinate_descent import Plan
from precede.boosting.loop import Callback, Stop
from precede.boosting.selection import LEAF_COUNTS
from precede.boosting.steps import ExactStep, NormalizedStep, QuadraticStep, SecantStep, StepRule
from precede.engine.arrays import MatrixLike, RandomState
from precede.engine.exact import all_reduce_sum
from precede.engine.frames import category_codes, category_columns, column_names
from precede.engine.parameters import check_integer, find_auto_parameters
from precede.estimator import BaseRanker
from precede.judgments import column_numbers
from precede.losses import PairLoss, Price, SquaredHinge, price
from precede.risks.base import Risk
from precede.risks.mixture import QuadraticMixture
from precede.risks.score_risk import ScoreRisk, risk_of
from precede.weak_rankers.base import Family
from precede.weak_rankers.regressors import learner
from precede.weak_rankers.tree_grower import TREE_PARAMETERS, Trees, check_tree_parameters

if TYPE_CHECKING:
    from precede.engine.query_layout import QueryLayout
    from precede.estimator import FitContext
    from precede.risks.lambdarank import Weighting


# By default a tree has one leaf per ROWS_PER_LEAF rows, within these limits. Of 4, 8, 16 and 31
# leaves on subsets of real sets, 8 ranked better than more for up to 10,000 rows, and as well as 31
# for 28,000; on synthetic sets of 35,000 and 235,000 rows with less noise 31 ranked better.
ROWS_PER_LEAF, LEAST_LEAVES, MOST_LEAVES = 1000, 8, 31


class TreeRanker(BaseRanker):
    """Base of estimators that grow trees: their common parameters and the family of trees."""

    balance: str = "items"  # no other was ahead in benchmarks/results/quality.md
    hessian: str = "newton"
    n_estimators: int | Literal["auto"] = 200
    learning_rate: float = 0.05
    num_leaves: int | Literal["auto"] | None = 31  # None only in `BaggedTrees`
    min_child_samples: int = 20
    min_child_weight: float = 1e-3
    reg_lambda: float = 5.0
    categorical_features: Sequence[int | str] | None = None
    cat_smooth: float = 10.0
    max_bins: int = 255
    bags: int = 1
    monotone_constraints: Sequence[int] | Mapping[int | str, int] | None = None
    early_stopping_rounds: int | None = None
    eval_metric: object = None
    callbacks: Sequence[Callback] | None = None
    random_state: RandomState = None
    n_jobs: int | None = None
    device: str = "cpu"
    verbose: int = 0

    def check_parameters(self) -> None:
        """Raise ValueError for an invalid parameter."""
        super().check_parameters()
        check_tree_parameters(self._trees_as_given(), self._max_leaves())
        check_integer("bags", self.bags, least=1)

    def categorical_columns(self, known: Sequence[int] = ()) -> list[int]:
        """Return the categorical columns; `known` if none are given."""
        if not self._takes_categories():
            return []
        return list(known) if self._categorical() is None and known else self._category_numbers()

    def _takes_categories(self) -> bool:
        return True

    def _categorical(self) -> Sequence[int | str] | None:
        """Return the categorical columns as passed by the user."""
        return self.categorical_features

    def _category_numbers(self) -> list[int]:
        """Return the categorical columns, given or found in a data frame."""
        names = self._feature_names
        given = column_numbers(self._categorical(), names, self.n_features_in_)
        return sorted({*given, *column_numbers([*self.categories_], names, self.n_features_in_)})

    def _encoded(self, X: MatrixLike, *, reset: bool) -> MatrixLike:
        """Replace the categories of a data frame by the numbers used in the fit."""
        if not self._takes_categories():
            return X
        if reset:
            self.__dict__.pop("categories_", None)
            columns = column_names(X) or []
            given = column_numbers(self._categorical(), columns, len(columns)) if columns else ()
            found = category_columns(X, {columns[number] for number in given})
            if found:
                self.categories_ = found
        return category_codes(X, dict(self.categories_))

    def _max_leaves(self) -> int:
        """Return `num_leaves`, or the largest candidate if it is "auto"."""
        auto = "num_leaves" in find_auto_parameters(self)
        return LEAF_COUNTS[-1] if auto else cast(int, self.num_leaves)

    def _trees_as_given(self) -> Trees:
        """Return the family of trees of the parameters; columns by name are not converted."""
        given = {name: getattr(self, name) for name in TREE_PARAMETERS if hasattr(self, name)}
        return Trees(**given | {"num_leaves": self._max_leaves()})

    def _trees(self) -> Trees:
        """Return the family of trees, with the numbers of columns and a seed."""
        trees = self._trees_as_given()
        trees.categorical_features = self._category_numbers()
        trees.monotone_constraints = self._monotone_constraints()
        draws = any(getattr(self, name) < 1 for name in self.drawn_shares)
        if self.random_state is not None or draws:
            trees.random_state = int(check_random_state(self.random_state).randint(2**31 - 1))
        return trees


class BaggedTrees(TreeRanker):
    """Base of estimators that boost trees or other regressors, with "auto" sizes and bagging."""

    rank_weight: Weighting = None
    weak_rankers: str | Family | RegressorMixin = "trees"
    targets: str = "sum"
    line_search: bool = False
    step_length: float | None = None
    max_depth: int = -1
    reg_alpha: float = 0.0
    min_split_gain: float = 0.0
    subsample: float = 1.0
    subsample_by: str = "row"
    max_features: float = 1.0
    max_features_by_split: float = 1.0
    interaction_constraints: Sequence[Sequence[int | str]] | None = None
    time_limit: float | None = None
    warm_start: bool = False

    drawn_shares = ("subsample", "max_features", "max_features_by_split")
    selectable: ClassVar[tuple[str, ...]] = ("n_estimators", "num_leaves")
    _leaves_by_rows = MOST_LEAVES  # until a fit knows its rows

    @property
    def _n_bags(self) -> int:
        return self.bags

    def check_parameters(self) -> None:
        """Raise ValueError for an invalid parameter."""
        super().check_parameters()
        if "num_leaves" in find_auto_parameters(self) and self.weak_rankers != "trees":
            raise ValueError(
                f"num_leaves='auto' is for weak_rankers='trees', not for "
                f"weak_rankers={self.weak_rankers!r}; give a number"
            )
        for name in ("categorical_features", "monotone_constraints"):
            given = getattr(self, name)
            if given is not None and np.size(given) and not self._takes_categories():
                raise ValueError(
                    f"{name}={given!r} is for trees, and weak_rankers={self.weak_rankers!r} would "
                    f"ignore it; use weak_rankers='trees', or leave {name} out"
                )
        if self.step_length is not None:
            NormalizedStep(self.step_length)  # validates the length
            if not self._given_family().quadratic:
                raise ValueError(
                    f"step_length={self.step_length!r} is for rankers fitted by least squares; use "
                    "weak_rankers='trees' or a regressor, or leave step_length out"
                )
        if self.bags > 1 and self.warm_start:
            raise ValueError(f"bags={self.bags} cannot continue from a model; set warm_start=False")
        if self.time_limit is not None:
            self._check_time_limit()

    def _max_leaves(self) -> int:
        """Return the number of leaves for the rows if `num_leaves` is None."""
        return self._leaves_by_rows if self.num_leaves is None else super()._max_leaves()

    def before_rounds(self, task: FitContext) -> None:
        """Set the number of leaves that fits the number of rows."""
        training = task.training
        rows = all_reduce_sum(lambda: training.layout.n_used_rows, training.context)
        self._leaves_by_rows = min(max(int(rows) // ROWS_PER_LEAF, LEAST_LEAVES), MOST_LEAVES)

    def _check_time_limit(self) -> None:
        """Raise ValueError unless the time limit is positive and there is something to choose."""
        limit = self.time_limit
        number = isinstance(limit, int | float | np.number) and not isinstance(limit, bool)
        if not number or not cast(float, limit) > 0:
            raise ValueError(f"time_limit={limit!r} is not a number of seconds above 0")
        if not find_auto_parameters(self):
            choices = " or ".join(f"{name}='auto'" for name in self.selectable)
            raise ValueError(
                f"time_limit={limit!r} limits the choice of 'auto', and no parameter is 'auto'; "
                f"use {choices}, or leave time_limit out"
            )

    def plan(self, stop: Stop) -> Plan:
        """Return the risk, the weak rankers and the step of this algorithm."""
        weak_rankers = self.weak_rankers_to_search()
        step: StepRule = ExactStep()
        if weak_rankers.quadratic:
            step = SecantStep() if self.line_search else QuadraticStep()
        if self.step_length is not None:
            step = NormalizedStep(self.step_length, hessian=self.hessian)
        return Plan(
            risk=self.risk(),
            weak_rankers=weak_rankers,
            step=step,
            stop=stop,
            learning_rate=self.learning_rate,
            draw=(lambda: None) if weak_rankers.quadratic else self.feature_draw(),
        )

    def weak_rankers_to_search(self) -> Family:
        """Return the family `weak_rankers` with the parameters of trees that apply."""
        if self.weak_rankers == "trees":
            trees = self._trees()
            trees.interaction_constraints = self._interaction_constraints()
            return trees
        chosen = self._given_family()
        if isinstance(chosen, Trees):
            chosen = replace(chosen, categorical_features=self._category_numbers())
        return chosen

    def _given_family(self) -> Family:
        """Return the family, which may be given by name or as a regressor."""
        return learner(self.weak_rankers, hessian=self.hessian, targets=self.targets)

    def _takes_categories(self) -> bool:
        return self._given_family().takes_categories

    def _categorical(self) -> Sequence[int | str] | None:
        given = self._given_family().categorical_features
        return self.categorical_features if given is None else given

    def _interaction_constraints(self) -> list[list[int]] | None:
        """Return `interaction_constraints` with column numbers instead of names."""
        given = self.interaction_constraints
        groups = (Sequence, set, frozenset)
        if isinstance(given, str) or not isinstance(given, groups):
            return cast(None, given)  # or what `Trees` refuses
        return [
            self._columns([*group], "interaction_constraints")
            if isinstance(group, groups) and not isinstance(group, str)
            else cast("list[int]", group)
            for group in given
        ]


class BoostedRanker(BaggedTrees):
    """Boosted regression trees for any risk of the scores.

    Minimizes ``R(s) = sum_k v_k g( sum_{i above k} w_ik l(s_i - s_k) )``, or a user-defined risk,
    by algorithm 1 of Zheng et al.: each round a tree is fitted to ``pull_i / W_i`` with weights
    ``W_i`` by least squares, where W is the diagonal of the second derivative of R or a bound of
    it; the step, 1 or found by a line search on R, is multiplied by the learning rate.

    Parameters
    ----------
    loss : {"logistic", "exponential", "squared_hinge", "hinge"}, PairLoss, or {"softmax", \
"xendcg", "query_rmse", "query_cross_entropy"}, or ScoreRisk, or "auto"
        The pair loss l; or a listwise loss (`precede.risks.listwise.ListRisk`), for which `balance`
        sets the weights of queries; or a user-defined risk, without `price` and `balance`. "auto"
        chooses "logistic" or "query_rmse" on held-out queries, see `num_leaves`; explicit pairs,
        prices above linear and `rank_weight` leave "logistic".
    price : number p for ``u^p``, "linear", "exp" or Price
        The price g of a loser; prices steeper than "linear" push the highest losers down.
    balance : {"items", "queries", "pairs"}
        Whether every item weighs the same (a query as much as it has items), or every query,
        or every pair.
    rank_weight : None, "gap", "grade_gap", "ndcg", "ndcg@10", "precision@5", RankWeight or dict
        Weights of pairs that depend on the ranking, recomputed from the scores of every round; see
        `RankWeight`. Requires a pair loss with a linear price. `history_["risk"]` is that of each
        round's weights.
    weak_rankers : {"trees", "stumps", "features", "columns"}, Family or regressor
        The weak learner. Any scikit-learn regressor with `sample_weight` is accepted, but is
        slower, and only a `DecisionTreeRegressor` can be saved.
    hessian : {"newton", "bound", "terms", "uniform"}
        W: the diagonal of the second derivative, a bound of the whole matrix, half of that
        bound (the diagonal of every pair's own second derivative at its largest), or the item
        weights (Friedman's gradient boosting). The bound holds at all scores for a linear price and
        a loss of bounded curvature (logistic, squared hinge), otherwise at the scores of the round.
    targets : {"sum", "average"}
        Whether the gradients of the pairs of a row are summed or averaged. With averages the fit
        ends when the risk does not decrease along the tree that fits them best.
    n_estimators : int or "auto"
        Number of rounds.
    learning_rate : float in (0, 1]
        Every step is multiplied by it.
    line_search : bool
        Search for the step >= 0 that minimizes the risk, which then never increases; otherwise the
        step is 1, which saves about four evaluations of the risk per round.
    step_length : float, optional
        If given, replaces the line search and the learning rate: every tree is scaled to this
        length, ``||g||² = sum W_i g(x_i)² / n``, or skipped if it would increase the risk. For such
        normalized steps theorem 1 of Zheng et al. bounds the risk
        (`precede.bounds.convergence_bound`, with ``hessian="bound"``, ``targets="sum"``, a linear
        price and a loss of bounded curvature).
    num_leaves : int, "auto" or None
        Number of leaves of a tree. With None it is the number of rows divided by 1,000, at least 8
        and at most 31. "auto", here or for `n_estimators` or `loss`, chooses on held-out queries,
        among 2, 4, 8, 16 and 31 leaves, up to 2000 rounds and the losses "logistic" and
        "query_rmse", the smallest model within one standard error of the best; all rows are then
        fitted with it. `selection_` has the table. The metric is the first `eval_metric`, on the
        first `eval_set` if there is one. Larger trees are tried first, and smaller ones pruned if
        they cannot catch up; docs/trees.md has the rule.
    time_limit : float, optional
        Seconds after which "auto" chooses among what it has tried. The fit with the choice
        follows. The choice then depends on the speed of the machine.
    max_depth, min_child_samples, min_child_weight, reg_lambda, reg_alpha, \
min_split_gain
        Limits of the growth of a tree; see `Trees`.
    categorical_features : list of column numbers or names, optional
        Columns that hold categories: whole numbers from 0, or text in a data frame. Columns of a
        categorical type (pandas "category", polars Categorical or Enum) need not be listed. The
        categories of a data frame are stored with the model (`categories_`), and those of later
        frames are matched by value; a category that the fit has not seen counts as missing.
    cat_smooth : float
        Smoothing of the order of categories; see `Trees`.
    subsample, max_features : float in (0, 1]
        Shares of the rows and of the features, drawn anew for every tree.
    subsample_by : {"row", "query"}
        Whether `subsample` draws rows or whole queries.
    max_features_by_split : float in (0, 1]
        Share of the features, drawn anew for every split.
    bags : int
        Fit this many models, each to a bootstrap sample of the queries (of the rows of a single
        list, of explicit pairs without grades), and average them. They are stored as one ensemble
        with one tree of each model per round; time, memory and size of the ensemble are
        proportional to their number.
    monotone_constraints : list of -1, 0 and 1, or dict of column to -1 or 1, optional
        Scores must decrease (-1) or increase (1) with a feature; columns by number or name.
    interaction_constraints : list of lists of columns, optional
        Groups of features, by number or name, that may occur together on a path of a tree; the
        features in no group form one more group.
    random_state : int or RandomState, optional
        For `subsample` and `max_features` below 1, for `bags`, and for the rows held out by "auto"
        (the same in every fit if None); everything else is deterministic.
    device : {"cpu", "cuda"}
        Device on which trees are grown; the model is the same to the bit. "cuda" needs an NVIDIA
        GPU and the extra ``precede[cuda13]`` or ``precede[cuda12]``. Large tables are binned and
        most pulls computed on the device too; docs/gpu.md has the exceptions.
    max_bins, early_stopping_rounds, eval_metric, callbacks, warm_start, n_jobs, verbose
        As for `RankBoost`. A warm start makes the same draws as one longer fit if
        `random_state` is an integer.

    Notes
    -----
    A round costs one tree (see `Trees`) and one evaluation of the risk (about five with a line
    search): O(n) for the exponential loss; for the others O(pairs) for short queries, O(n log n) or
    about 15 n operations for long ones. The number of threads and the order of the rows do not
    affect the model.

    References
    ----------
    Zheng, Zha, Zhang, Chapelle, Chen & Sun, *A General Boosting Method and its Application to
    Learning Ranking Functions for Web Search*, NIPS 2007, section 2.

    Examples
    --------
    >>> from precede import BoostedRanker
    >>> from precede.datasets import search_results
    >>> sample = search_results(60, features=8, informative=6, per_query=40, random_state=0)
    >>> model = BoostedRanker(n_estimators=50).fit(sample.X, sample.y, qid=sample.qid)
    >>> round(model.score(sample.X, sample.y, sample.qid), 2)  # share of the pairs in order
    0.67
    """

    loss: str | PairLoss | ScoreRisk = "logistic"
    price: str | float | Price = "linear"
    num_leaves: int | Literal["auto"] | None = None
    reg_lambda: float = 40.0  # at 200 rounds ahead of 5 and 20 on subsets of four real sets

    selectable = (*BaggedTrees.selectable, "loss")

    def auto_losses(self, layout: QueryLayout) -> Sequence[str]:
        """Return the loss of pairs, and that of lists unless there are pairs to list or weigh."""
        lists = self.rank_weight is None and price(self.price).power == 1
        return ("logistic", "query_rmse") if lists and not layout.winner.size else ("logistic",)

    def risk(self) -> Risk:
        """Return the risk of the loss, the price and the weights of pairs."""
        loss = self._with_selection().loss
        return risk_of(loss, self.price, balance=self.balance, rank_weight=self.rank_weight)


class QBRank(BaggedTrees):
    """Boosted trees that learn from preferences and from absolute labels together.

    Minimizes, over pairs x above y and over labeled rows z with label l,

        R(h) = w/2 · sum max(0, h(y) - h(x) + margin)² + (1 - w)/2 · sum (l - h(z))².

    Without labels this is preference learning, without pairs gradient boosting of trees. Rows may
    have grades or pairs, a label, both or neither: ``Judgments(grade=, qid=, pairs=, label=)``.
    With labels the first round adds their mean as a constant.

    Parameters
    ----------
    weight : float in [0, 1]
        w: 1 uses the pairs alone, 0 the labels alone.
    margin : "gap" or number
        The margin that a winner should have: "gap" is the difference of the grades, and for
        explicit pairs their `pair_margin` (see `Judgments`) or 1; or a number for all pairs.
    balance : {"pairs", "queries", "items"}
        Whether every pair weighs the same (the paper), or every query, or every item: a query then
        weighs as much as it has items.
    rank_weight : None, "gap", "grade_gap", "ndcg", "ndcg@10", "precision@5", RankWeight or dict
        Weights of pairs that depend on the ranking, recomputed from the scores of every round; see
        `RankWeight`. `history_["risk"]` is that of each round's weights.
    weak_rankers : "trees", Family or regressor
        The weak learner; see `BoostedRanker`.
    hessian : {"terms", "bound", "newton", "uniform"}
        Weights of the rows. "terms" is algorithm 2 of the paper: every pair counts ``w``, so that
        a violated pair has targets ``±max(0, h(y) - h(x) + margin)``. "bound" counts ``2 w``, the
        paper's bound ``diag(2, 2)`` of the second derivative ``w [[1, -1], [-1, 1]]``, which
        halves those targets relative to the labels'. "newton" counts ``w`` for the pairs within
        the margin only. A label counts ``1 - w`` in all three. On pairs alone "terms" and "bound"
        are the same fit up to the line search's tolerance; with labels neither ranks
        significantly better on MQ2008 (benchmarks/results/zheng2007.md).
    targets : {"average", "sum"}
        Whether the gradients of the pairs of a row are averaged, as in the paper, or summed. With
        averages the fit ends when R does not decrease along the tree that fits them best.
    learning_rate : float in (0, 1]
        The paper's shrinkage.
    line_search : bool
        Search for the step >= 0 that minimizes R, which then never increases; otherwise it is 1.
    step_length : float, optional
        Normalized length of all steps, which replaces the learning rate; see `BoostedRanker`.
    num_leaves, max_depth, min_child_samples, min_child_weight, reg_lambda, reg_alpha, \
min_split_gain, subsample, subsample_by, max_features, max_features_by_split, \
categorical_features, cat_smooth, monotone_constraints, interaction_constraints
        Limits of the growth of a tree; see `Trees` and `BoostedRanker`.
    n_estimators, bags, max_bins, early_stopping_rounds, eval_metric, callbacks, warm_start, \
random_state, n_jobs, device, verbose
        As for `BoostedRanker`.

    Notes
    -----
    A round costs one tree (see `Trees`) and about five evaluations of R, each O(pairs) for short
    queries and O(n log n) for long ones; pairs of graded rows are never stored.

    References
    ----------
    Zheng, Zha, Zhang, Chapelle, Chen & Sun, *A General Boosting Method and its Application to
    Learning Ranking Functions for Web Search*, NIPS 2007, section 3, algorithm 2.

    Examples
    --------
    Grades for one half of the queries, labels for the other:

    >>> import numpy as np
    >>> from precede import Judgments, QBRank
    >>> from precede.datasets import search_results
    >>> sample = search_results(60, features=8, informative=6, per_query=40, random_state=0)
    >>> known = sample.qid < 30
    >>> both = Judgments(np.where(known, sample.y, np.nan), sample.qid,
    ...                  label=np.where(known, np.nan, sample.y))
    >>> model = QBRank(n_estimators=60).fit(sample.X, both)
    >>> round(model.score(sample.X, sample.y, sample.qid), 2)
    0.8
    """

    weight: float = 0.5
    margin: float | str = "gap"
    balance: str = "pairs"  # as printed
    hessian: str = "terms"
    targets: str = "average"
    n_estimators: int | Literal["auto"] = 300
    line_search: bool = True
    num_leaves: int | Literal["auto"] = 20
    reg_lambda: float = 0.0  # the paper's trees have no penalty

    learns_labels = True

    def check_parameters(self) -> None:
        """Raise ValueError for an invalid parameter."""
        super().check_parameters()
        number = isinstance(self.weight, int | float | np.number)
        if not number or isinstance(self.weight, bool) or not 0 <= self.weight <= 1:
            raise ValueError(f"weight={self.weight!r} is out of range; use a number from 0 to 1")
        SquaredHinge(self.margin)  # validates the margin

    def risk(self) -> Risk:
        """Return the mixture of the risks of pairs and of labels."""
        return QuadraticMixture(self.margin, float(self.weight), self.balance, self.rank_weight)
