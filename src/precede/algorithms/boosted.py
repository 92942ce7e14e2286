"""General boosting with a regression learner as black box (Zheng et al. 2007, algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from sklearn.utils import check_random_state

from precede.boosting.coordinate_descent import Plan
from precede.boosting.loop import Progress, Stop
from precede.boosting.selection import LEAF_COUNTS
from precede.boosting.steps import ExactStep, NormalizedStep, QuadraticStep, SecantStep, StepRule
from precede.engine.arrays import Flags
from precede.engine.frames import category_codes, category_columns
from precede.engine.parameters import check_integer, find_auto_parameters
from precede.estimator import BaseRanker
from precede.judgments import column_numbers, columns_in_order
from precede.losses import PairLoss, Price
from precede.risks.base import Risk
from precede.risks.score_risk import ScoreRisk, risk_of
from precede.weak_rankers.base import Family
from precede.weak_rankers.regressors import learner
from precede.weak_rankers.tree_grower import TREE_PARAMETERS, Trees, check_tree_parameters

if TYPE_CHECKING:
    from precede.risks.lambdarank import Weighting


class TreeLearner:
    """Base of estimators that grow trees: the learner, its parameters and their checks."""

    # Parameters, with the values they have where a subclass does not declare them.
    weak_rankers: Any = "trees"
    hessian: str = "newton"
    targets: str = "sum"
    line_search: bool = False
    step_length: float | None = None
    learning_rate: float
    num_leaves: Any
    max_depth: int = -1
    reg_alpha: float = 0.0
    min_split_gain: float = 0.0
    subsample: float = 1.0
    subsample_by: str = "row"
    max_features: float = 1.0
    max_features_by_split: float = 1.0
    categorical_features: Any
    monotone_constraints: Any
    interaction_constraints: Any = None
    random_state: Any
    n_features_in_: int
    categories_: Mapping[str, list[Any]]
    feature_draw: Callable[[], Callable[[], Flags | None]]
    drawn_shares: ClassVar[tuple[str, ...]] = ("subsample", "max_features", "max_features_by_split")
    selectable: ClassVar[tuple[str, ...]] = ()

    def check_parameters(self) -> None:
        """Raise ValueError for an invalid parameter."""
        super().check_parameters()  # type: ignore[misc]
        if self._max_leaves() is not self.num_leaves and self.weak_rankers != "trees":
            raise ValueError(
                f"num_leaves='auto' is for weak_rankers='trees', not for "
                f"weak_rankers={self.weak_rankers!r}; give "
                "a number"
            )
        check_tree_parameters(self, self._max_leaves())
        for name in ("categorical_features", "monotone_constraints"):
            given = getattr(self, name)
            if given is not None and np.size(given) and not self._given_family().takes_categories:
                raise ValueError(
                    f"{name}={given!r} is for trees, and weak_rankers={self.weak_rankers!r} would "
                    "ignore it; "
                    f"use weak_rankers='trees', or leave {name} out"
                )
        if self.step_length is not None:
            NormalizedStep(self.step_length)  # validates the length
            if not self._given_family().quadratic:
                raise ValueError(
                    f"step_length={self.step_length!r} is for rankers fitted by least squares; use "
                    "weak_rankers='trees' or a regressor, or leave step_length out"
                )

    def _max_leaves(self) -> Any:
        """Return `num_leaves`, or the largest candidate if it is "auto"."""
        return LEAF_COUNTS[-1] if "num_leaves" in find_auto_parameters(self) else self.num_leaves

    @property
    def _draws_randomly(self) -> bool:
        return min(self.subsample, self.max_features, self.max_features_by_split) < 1

    def _learner(self) -> tuple[Family, bool]:
        """Return the family, and whether it fits a quadratic model of the risk."""
        if self.weak_rankers == "trees":
            return self._trees(), True
        chosen = self._given_family()
        if isinstance(chosen, Trees):
            chosen = replace(chosen, categorical_features=self._category_numbers())
        return chosen, chosen.quadratic

    def _given_family(self) -> Family:
        """Return the family given by name, as a regressor, or directly."""
        return learner(self.weak_rankers, hessian=self.hessian, targets=self.targets)

    def _categorical(self) -> Any:
        """Return `categorical_features` of the estimator or of its family."""
        given = self._given_family().categorical_features
        return self.categorical_features if given is None else given

    def categorical_columns(self, known: Sequence[int] = ()) -> list[int]:
        """Return the categorical columns; `known` if none are given."""
        if not self._learner()[0].takes_categories:
            return []
        return list(known) if self._categorical() is None and known else self._category_numbers()

    def _category_numbers(self) -> list[int]:
        """Return the categorical columns, given or found in a data frame."""
        names = getattr(self, "feature_names_in_", None)
        given = column_numbers(self._categorical(), names, self.n_features_in_)
        return sorted({*given, *column_numbers([*self.categories_], names, self.n_features_in_)})

    def _takes_categories(self) -> bool:
        """Whether the weak rankers take categories."""
        return self._given_family().takes_categories

    def _encoded(self, X: Any, *, reset: bool) -> Any:
        """Replace the categories of a data frame by the numbers used in the fit."""
        if not self._takes_categories():
            return X
        if reset:
            self.__dict__.pop("categories_", None)
            columns = list(getattr(X, "columns", ()))
            given = column_numbers(self._categorical(), columns, len(columns)) if columns else ()
            found = category_columns(X, {columns[number] for number in given})
            if found:
                self.categories_ = found
        return category_codes(X, dict(self.categories_))

    def _trees(self) -> Trees:
        seed = 0
        if self.random_state is not None or self._draws_randomly:
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        given = {name: getattr(self, name) for name in TREE_PARAMETERS}
        given["num_leaves"] = self._max_leaves()
        given["categorical_features"] = self._category_numbers()
        given["monotone_constraints"] = self._directions()
        given["interaction_constraints"] = self._interactions()
        return Trees(**given, random_state=seed)

    def _directions(self) -> Any:
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

    def _interactions(self) -> Any:
        """Return `interaction_constraints` with column numbers instead of names."""
        given = self.interaction_constraints
        groups = (Sequence, set, frozenset)
        if isinstance(given, str) or not isinstance(given, groups):
            return given
        return [
            self._columns([*group], "interaction_constraints")
            if isinstance(group, groups) and not isinstance(group, str)
            else group
            for group in given
        ]

    def _columns(self, given: list[Any], parameter: str) -> list[int]:
        names = getattr(self, "feature_names_in_", None)
        return columns_in_order(given, names, self.n_features_in_, parameter)

    def _plan_with(self, risk: Risk, stop: Stop) -> Plan:
        weak_rankers, quadratic = self._learner()
        step: StepRule = ExactStep()
        if quadratic:
            step = SecantStep() if self.line_search else QuadraticStep()
        if self.step_length is not None:
            step = NormalizedStep(self.step_length, hessian=self.hessian)
        return Plan(
            risk=risk,
            weak_rankers=weak_rankers,
            step=step,
            stop=stop,
            learning_rate=self.learning_rate,
            draw=(lambda: None) if quadratic else self.feature_draw(),
        )


class BaggedTrees(TreeLearner, BaseRanker):
    """Base of estimators whose weak rankers are trees, with "auto" sizes and bagging."""

    balance: str = "items"  # no other was ahead in benchmarks/results/quality.md
    rank_weight: Weighting = None
    weak_rankers: Any = "trees"
    hessian: str = "newton"
    targets: str = "sum"
    n_estimators: int | Literal["auto"] = 200
    learning_rate: float = 0.05
    line_search: bool = False
    step_length: float | None = None
    num_leaves: int | Literal["auto"] = 31
    max_depth: int = -1
    min_child_samples: int = 20
    min_child_weight: float = 1e-3
    reg_lambda: float = 5.0  # none from 0 to 320 was ahead in benchmarks/results/quality.md
    reg_alpha: float = 0.0
    min_split_gain: float = 0.0
    categorical_features: Sequence[int | str] | None = None
    cat_smooth: float = 10.0
    max_bins: int = 255
    subsample: float = 1.0
    subsample_by: str = "row"
    max_features: float = 1.0
    max_features_by_split: float = 1.0
    bags: int = 1
    monotone_constraints: Sequence[int] | Mapping[int | str, int] | None = None
    interaction_constraints: Sequence[Sequence[int | str]] | None = None
    early_stopping_rounds: int | None = None
    eval_metric: Any = None
    callbacks: Sequence[Callable[[Progress], Any]] | None = None
    warm_start: bool = False
    random_state: Any = None
    n_jobs: int | None = None
    device: str = "cpu"
    verbose: int = 0

    selectable = ("n_estimators", "num_leaves")

    @property
    def _n_bags(self) -> Any:
        return self.bags

    @_n_bags.setter
    def _n_bags(self, number: int) -> None:
        self.bags = number

    def check_parameters(self) -> None:
        """Raise ValueError for an invalid parameter."""
        super().check_parameters()
        check_integer("bags", self.bags, least=1)
        if self.bags > 1 and self.warm_start:
            raise ValueError(f"bags={self.bags} cannot continue from a model; set warm_start=False")


class BoostedRanker(BaggedTrees):
    """Boosted regression trees for any risk of the scores.

    Minimizes ``R(s) = sum_k v_k g( sum_{i above k} w_ik l(s_i - s_k) )``, or a risk of your
    own, by algorithm 1 of Zheng et al.: each round a tree is fitted to ``pull_i / W_i`` with
    weights ``W_i`` by least squares, where W is the diagonal of the second derivative of R or
    a bound of it; the step, 1 or found by a search on R itself, is shortened by the learning
    rate.

    Parameters
    ----------
    loss : {"logistic", "exponential", "squared_hinge", "hinge"}, PairLoss, or {"softmax", \
"xendcg", "query_rmse", "query_cross_entropy"}, or ScoreRisk
        The pair loss l; or a loss of whole lists (`precede.risks.listwise.ListRisk`), of which
        `balance` says how queries weigh; or a risk written by hand, with `price` and `balance`
        unused.
    price : number p for ``u^p``, "linear", "exp" or Price
        The price g that a loser pays; above "linear" it pushes the highest losers down.
    balance : {"items", "queries", "pairs"}
        Whether every item weighs the same (a query as much as it has items), or every query,
        or every pair.
    rank_weight : None, "gap", "grade_gap", "ndcg", "ndcg@10", "precision@5", RankWeight or dict
        Weights of pairs that follow the ranking, recomputed from the scores of every round; see
        `RankWeight`. Pair losses with a
        linear price only. `history_["risk"]` is that of each round's weights.
    weak_rankers : {"trees", "stumps", "features", "columns"}, Family or regressor
        The learner. Any scikit-learn regressor with `sample_weight` will do; it is slower
        and only a `DecisionTreeRegressor` can be saved.
    hessian : {"newton", "bound", "terms", "uniform"}
        W: the diagonal of the second derivative, a bound of the whole matrix, half of that
        bound (the diagonal of every pair's own second derivative at its largest), or the item
        weights (Friedman's gradient boosting). The bound holds at all scores for a linear price and
        a loss of bounded curvature (logistic, squared hinge), otherwise at the scores of the round.
    targets : {"sum", "average"}
        Whether the pairs of a row add up or are averaged. With averages the fit ends where the
        risk does not fall along the tree that fits them best.
    n_estimators : int or "auto"
        Number of rounds.
    learning_rate : float in (0, 1]
        Every step is multiplied by it.
    line_search : bool
        Search for the step >= 0 of the least true risk, which then never rises; otherwise the step
        is 1, which costs some four evaluations of the risk a round less.
    step_length : float, optional
        If given, every tree is added with this length, ``||g||² = sum W_i g(x_i)² / n``, and not at
        all where it would raise the risk, instead of a line search and a learning rate: the
        normalized small steps for which theorem 1 of Zheng et al. bounds the risk
        (`precede.bounds.convergence_bound`, with ``hessian="bound"``, ``targets="sum"``, a linear
        price and a loss of bounded curvature).
    num_leaves : int or "auto"
        Number of leaves of a tree. "auto", here or for `n_estimators`, chooses on queries that are
        held out, among 2, 4, 8, 16 and 31 leaves and up to 2000 rounds, the smallest model within
        one standard error of the best; then all rows are fitted with it. `selection_` has the
        table. The first `eval_metric` is monitored, on the first `eval_set` if there is one.
        Larger trees are tried first, and smaller ones pruned if they cannot catch up; docs/trees.md
        has the rule.
    max_depth, min_child_samples, min_child_weight, reg_lambda, reg_alpha, \
min_split_gain
        The shape of a tree; see `Trees`.
    categorical_features : list of column numbers or names, optional
        Columns that hold categories: whole numbers from 0, or text in a data frame. Columns of a
        categorical type (pandas "category", polars Categorical or Enum) need not be named. The
        categories of a data frame are kept with the model (`categories_`), which looks up those
        of later frames by their values; one that the fit has not seen counts as missing.
    cat_smooth : float
        Smoothing of the order of categories; see `Trees`.
    subsample, max_features : float in (0, 1]
        Shares of the rows and of the features redrawn for every tree.
    subsample_by : {"row", "query"}
        Whether `subsample` draws rows or whole queries.
    max_features_by_split : float in (0, 1]
        Share of the features redrawn for every split.
    bags : int
        Fit this many models, each to a bootstrap sample of the queries (of the rows of a single
        list, of explicit pairs without grades), and average them. They are stored as one ensemble,
        in every round one tree of each; time, memory and size of the model grow with their number.
    monotone_constraints : list of -1, 0 and 1, or dict of column to -1 or 1, optional
        Scores must fall (-1) or rise (1) with a feature; columns by number or name.
    interaction_constraints : list of lists of columns, optional
        Groups of features, by number or name, that may occur together on a path of a tree; those
        in no group form one more group.
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
    A round costs one tree (see `Trees`) and one evaluation of the risk (some five with a line
    search): O(n) for the exponential loss; for the others the number of pairs in short
    queries, O(n log n) or about 15 n in long ones. The number of threads and the order of the
    rows do not change the model.

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
    0.81
    """

    loss: str | PairLoss | ScoreRisk = "logistic"
    price: str | float | Price = "linear"

    def plan(self, stop: Stop) -> Plan:
        """Return the risk, the weak rankers and the step of this algorithm."""
        risk = risk_of(self.loss, self.price, balance=self.balance, rank_weight=self.rank_weight)
        return self._plan_with(risk, stop)
