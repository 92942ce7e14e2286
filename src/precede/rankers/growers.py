"""Regression learners as families of weak rankers: LightGBM's trees, or any regressor.

A learner is given a pull and a weight for every row and fits ``pull / weight`` by weighted
least squares: the best step under a quadratic model of the risk (Zheng et al. 2007, algorithm
1). LightGBM bins the rows once and is handed gradients through its public interface for custom
objectives; the trees it grows become ours (`precede.rankers.trees`).
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import replace
from inspect import signature
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from numba import njit
from numpy.typing import NDArray

from precede.engine.exact import exact_sum
from precede.engine.parameters import in_range, whole_number
from precede.engine.pull import HESSIANS, Pull
from precede.engine.table import Table
from precede.engine.workers import Workers, is_small, threads_for_openmp
from precede.judgments import column_numbers
from precede.rankers.base import Family, Found, Ranker, Search, family
from precede.rankers.trees import MOST_CATEGORIES, Tree, tree_from_lightgbm, tree_from_sklearn

__all__ = [
    "TREE_PARAMETERS",
    "Fitted",
    "RegressionSearch",
    "Regressors",
    "TreeSearch",
    "Trees",
    "check_targets",
    "check_tree_parameters",
    "learner",
]

Floats = NDArray[np.float64]

# Gradients are rounded to this many steps up to the largest: float32 holds them exactly, and
# sums of up to 2^29 of them are exact in double precision, in any order.
GRID = 2.0**23
TARGETS = ("sum", "average")
# A round in which the rows or features drawn allow no split is tried again so many times.
TRIES = 8


# -- growing ---------------------------------------------------------------------------------


class Trees(Family):
    """Regression trees of a given number of leaves, grown by LightGBM.

    A round fits a tree to ``target_i = pull_i / weight_i`` by weighted least squares, with
    ``weight_i`` the curvature of the risk (or a bound of it) where the algorithm has one and
    the item weight 1 otherwise; the algorithm then chooses the step.

    Parameters
    ----------
    hessian : {"newton", "bound", "terms", "uniform"}
        Weights: the diagonal of the second derivative of the risk, a bound of it, half of the
        bound, or the item weights (see `precede.engine.pull.Pull.hessian`).
    targets : {"sum", "average"}
        Whether the pairs of a row add up, so that a row of many pairs weighs much, or are
        averaged, so that all rows weigh the same (see `precede.risks.score_risk.terms_of`).
    num_leaves : int
        Most leaves of a tree; trees grow leaf by leaf, the best split first.
    max_depth : int
        Most splits on a way down; -1 for any number.
    min_child_samples : int
        Least number of rows in a leaf. LightGBM estimates it: a child has the share of its
        parent's rows that it has of its parent's weight.
    min_child_weight : float
        Least sum of weights in a leaf, in units of the mean weight of a row.
    reg_lambda : float
        Penalty on the values of leaves, in units of the mean weight of a row: a leaf has the
        value ``sum pull / (sum weight + reg_lambda · mean weight)``. An item of weight 2 counts
        as two rows.
    subsample, max_features : float in (0, 1]
        Shares of the rows and of the features drawn anew for each tree.
    categorical_features : list of int, optional
        Columns of whole numbers from 0 that name categories; in `BoostedRanker` and `QBRank`
        also by name.
    monotone_constraints : list of -1, 0 and 1, one for each feature, optional
        Scores must fall (-1) or rise (1) with a feature.
    max_bins : int
        Most bins of a feature.
    random_state : int
        For `subsample` and `max_features`.
    lightgbm : dict, optional
        Further parameters of LightGBM's tree learner, passed on as they are.

    Notes
    -----
    LightGBM's bins and `min_child_samples` count rows, not weights; beyond that an item of
    weight 2 is two items. In splits by more than four categories LightGBM adds `cat_l2` (10) to
    `reg_lambda`, in the same unit.
    Gradients are rounded to 2^-23 of the largest before LightGBM adds them up, so that its
    sums are exact: the trees do not depend on the number of threads or the order of the rows.
    In a process that was forked they are grown by one thread. Memory is LightGBM's: about one
    byte a cell beside our own, and a copy of X while binning.

    Examples
    --------
    >>> from precede import RankBoost, Trees
    >>> from precede.datasets import search_results
    >>> sample = search_results(30, features=6, informative=4, per_query=30, random_state=0)
    >>> model = RankBoost(rankers=Trees(num_leaves=4), n_estimators=3, learning_rate=0.3)
    >>> model.fit(sample.X, sample.y, qid=sample.qid).ensemble_.rankers[0].n_leaves
    4
    """

    name = "trees"
    quadratic = True
    takes_categories = True

    def __init__(
        self,
        *,
        hessian: str = "newton",
        targets: str = "sum",
        num_leaves: int = 31,
        max_depth: int = -1,
        min_child_samples: int = 20,
        min_child_weight: float = 1e-3,
        reg_lambda: float = 0.0,
        subsample: float = 1.0,
        max_features: float = 1.0,
        categorical_features: Any = None,
        monotone_constraints: Any = None,
        max_bins: int = 255,
        random_state: int = 0,
        lightgbm: dict[str, Any] | None = None,
    ):
        self.hessian = hessian
        self.targets = targets
        self.num_leaves = num_leaves
        self.max_depth = max_depth
        self.min_child_samples = min_child_samples
        self.min_child_weight = min_child_weight
        self.reg_lambda = reg_lambda
        self.subsample = subsample
        self.max_features = max_features
        self.categorical_features = categorical_features
        self.monotone_constraints = monotone_constraints
        self.max_bins = max_bins
        self.random_state = random_state
        self.lightgbm = lightgbm

    def search(self, table: Table, pull: Floats) -> Found | None:
        """Grow one tree for one pull."""
        return self.start(table).best(pull)

    def start(self, table: Table, workers: Workers | None = None) -> TreeSearch:
        """Bin the rows of the table."""
        check_tree_parameters(self)
        return TreeSearch(self, table, workers or Workers(1))

    def __or__(self, other: Family) -> Any:
        raise ValueError(
            "trees cannot be joined with other families: their values, and so their edges, have "
            "no common scale"
        )

    def with_categories(self, columns: list[int] | None) -> Trees:
        """The same trees with other columns of categories."""
        made = copy(self)
        made.categorical_features = columns
        return made

    def __repr__(self) -> str:
        given = [f"{k}={v!r}" for k, v in self.__dict__.items() if v != _DEFAULTS.get(k)]
        return f"Trees({', '.join(given)})"

    def parameters(self, n_features: int, threads: int) -> dict[str, Any]:
        """The parameters that LightGBM is given."""
        constraints = _constraints(self.monotone_constraints, n_features)
        return {
            "objective": "none",
            "metric": "None",
            "verbosity": -1,
            "num_threads": threads,
            "learning_rate": 1.0,
            "boost_from_average": False,
            "deterministic": True,
            "force_row_wise": True,
            "feature_pre_filter": False,
            "min_data_in_bin": 1,
            "num_leaves": self.num_leaves,
            "max_depth": self.max_depth,
            # LightGBM estimates counts from weights; no leaf is empty anyway.
            "min_data_in_leaf": self.min_child_samples if self.min_child_samples > 1 else 0,
            "min_sum_hessian_in_leaf": self.min_child_weight,
            "lambda_l2": self.reg_lambda,
            "min_gain_to_split": 1e-12,  # what is less is rounding
            "bagging_fraction": self.subsample,
            "bagging_freq": int(self.subsample < 1),
            "feature_fraction": self.max_features,
            "max_bin": self.max_bins,
            "data_random_seed": 1,
            "bagging_seed": self.random_state,
            "feature_fraction_seed": self.random_state,
            "extra_seed": self.random_state,
            **({} if constraints is None else {"monotone_constraints": constraints}),
            **(self.lightgbm or {}),
        }


_DEFAULTS = {name: each.default for name, each in signature(Trees).parameters.items()}
# What estimators that grow trees have as parameters of their own: all but the seed, which they
# draw, and what is handed on to LightGBM.
TREE_PARAMETERS = tuple(name for name in _DEFAULTS if name not in ("random_state", "lightgbm"))


def check_tree_parameters(given: Any) -> None:
    """Refuse parameters of trees, those of `Trees` or of an estimator, that make no sense."""
    if given.hessian not in HESSIANS:
        raise ValueError(f"hessian={given.hessian!r} is unknown; use one of {HESSIANS}")
    check_targets(given.targets)
    whole_number("num_leaves", given.num_leaves, least=2, most=131072)
    whole_number("min_child_samples", given.min_child_samples, least=0)
    if given.max_depth != -1:
        whole_number("max_depth", given.max_depth, least=1)
    in_range("subsample", given.subsample, 0.0, 1.0)
    for name in ("min_child_weight", "reg_lambda"):
        if not 0 <= getattr(given, name) < float("inf"):
            raise ValueError(f"{name}={getattr(given, name)!r} is out of range; use 0 or more")


def _constraints(given: Any, n_features: int) -> list[int] | None:
    if given is None:
        return None
    signs = [int(sign) for sign in given]
    if len(signs) != n_features or any(sign not in (-1, 0, 1) for sign in signs):
        raise ValueError(
            f"monotone_constraints={given!r}: give -1, 0 or 1 for each of the {n_features} features"
        )
    return signs


class RegressionSearch(Search):
    """Rankers fitted to a quadratic model of the risk by weighted least squares."""

    hessian: str = "newton"
    targets: str = "sum"

    def best(self, pull: Floats, allowed: NDArray[np.bool_] | None = None) -> Found | None:
        """Fit a ranker to the pull, every row weighing the same."""
        return self.fit(pull, np.ones(pull.size), allowed)

    def best_for(self, pull: Pull, allowed: NDArray[np.bool_] | None = None) -> Found | None:
        """Fit a ranker to the quadratic model of the risk."""
        weight, rows = pull.hessian(self.hessian), pull.rows
        if self.targets == "sum":
            return self.fit(pull.values, weight, allowed, rows=rows)
        terms = pull.terms()
        found = self.fit(pull.values / terms, weight / terms, allowed, rows=rows)
        if found is None or found.values is None:
            return None
        edge = pull.edge(found.values)
        return replace(found, edge=edge) if edge != 0 else None

    def fit(
        self,
        pull: Floats,
        weight: Floats,
        allowed: NDArray[np.bool_] | None = None,
        *,
        rows: float | None = None,
    ) -> Found | None:
        """Fit a ranker to ``pull / weight`` with the weights; None where nothing helps.

        `rows` is how many rows there are, an item of weight 2 being two.
        """
        raise NotImplementedError(f"{type(self).__name__} must define fit(pull, weight)")


class TreeSearch(RegressionSearch):
    """LightGBM on one table: a tree a round, its output read from consecutive score vectors."""

    def __init__(self, family: Trees, table: Table, workers: Workers):
        import lightgbm  # noqa: PLC0415  (only for those who grow trees)

        self._family, self._table, self._workers = family, table, workers
        self.hessian, self.targets = family.hessian, check_targets(family.targets)
        small = is_small("grown cells", table.codes.size)
        threads = 1 if small else threads_for_openmp(workers.jobs)
        parameters = family.parameters(table.n_features, threads)
        data = lightgbm.Dataset(
            _rows_of(table),
            label=np.zeros(table.n_places),
            categorical_feature=self._categories(),
            params=parameters,
        )
        self._booster = lightgbm.Booster(parameters, data)
        self._scores = np.zeros(table.n_places)
        self._grown = 0
        self._sampled = family.subsample < 1 or family.max_features < 1

    def _categories(self) -> list[int]:
        bins = self._table.bins
        features = column_numbers(self._family.categorical_features, None, bins.n_features)
        for feature in features:
            if bins.low[feature] < 0 or bins.high[feature] >= MOST_CATEGORIES:
                raise ValueError(
                    f"column {feature} is a categorical feature with values from "
                    f"{bins.low[feature]:g} to {bins.high[feature]:g}; number its categories "
                    "0, 1, 2, ... (NaN is missing)"
                )
        return features

    def fit(
        self,
        pull: Floats,
        weight: Floats,
        allowed: NDArray[np.bool_] | None = None,
        *,
        rows: float | None = None,
    ) -> Found | None:
        """Grow a tree for ``pull / weight``; None where no split helps."""
        if allowed is not None and not allowed.all():
            raise ValueError(
                "max_features below 1 is for trees to draw; pass rankers=Trees(max_features=...)"
            )
        mean = exact_sum(weight, self._workers) / (rows or max(weight.size, 1))
        if not mean > 0:
            return None
        gradient, unit = _on_grid(pull, -1.0, self._workers)
        hessian, largest = _on_grid(weight, mean, self._workers)
        hessian *= np.float32(largest)  # a power of two: back to rows of mean weight, exactly
        before = self._booster.current_iteration()
        for _ in range(TRIES if self._sampled else 1):
            self._booster.update(fobj=lambda *_: (gradient, hessian))
            if self._booster.current_iteration() > before:
                break
        else:
            return None
        return self._read(pull, unit / mean)

    def _read(self, pull: Floats, unit: float) -> Found | None:
        """The last tree, its values on the training rows, and its edge."""
        last = self._booster.current_iteration() - 1
        dump = self._booster.dump_model(start_iteration=last, num_iteration=1)
        grown = tree_from_lightgbm(dump["tree_info"][0]["tree_structure"])
        scores: list[Floats] = []

        def look(seen: Floats, _: Any) -> tuple[str, float, bool]:
            scores.append(seen)
            return "seen", 0.0, True

        self._booster.eval_train(look)
        tree = _scaled(grown, unit)
        if tree.n_leaves == 1:
            return None
        rising = np.argsort(grown.value, kind="stable")
        values = np.empty(pull.size)
        edges = np.empty(pull.size)
        self._workers.run(
            _nearest_leaves, pull.size, scores[0], self._scores,
            _bounds_between(np.array(grown.value)[rising]), np.array(tree.value)[rising], pull,
            values, edges, small=is_small("rows", pull.size),
        )  # fmt: skip
        edge = exact_sum(edges, self._workers)
        return Found(tree, edge, values=values) if edge != 0 else None


def check_targets(targets: str) -> str:
    """Refuse anything but the ways to join the pairs of a row."""
    if targets not in TARGETS:
        raise ValueError(f"targets={targets!r} is unknown; use one of {TARGETS}")
    return targets


def _rows_of(table: Table) -> Any:
    """Rows in the order of the places; sparse ones stay sparse."""
    if table.X is None:  # a table on disk says what it has not
        return table.rows()
    if scipy.sparse.issparse(table.X):
        return table.X.tocsr()[table.order]
    rows = table.X[table.order]
    return np.ascontiguousarray(rows)


def _on_grid(
    values: Floats, divisor: float, workers: Workers
) -> tuple[NDArray[np.float32], float]:  # fmt: skip
    """Values over a divisor and a power of two, rounded so that sums of them are exact."""
    small = is_small("rows", values.size)
    largest = max(workers.run(_largest_size, values.size, values, small=small)) / abs(divisor)
    if largest == 0:
        return np.zeros(values.size, np.float32), 1.0
    exponent = math.frexp(largest)[1]
    # In two factors: of the smallest numbers the inverse is beyond the range of floats.
    half = exponent // 2
    factors = math.ldexp(1.0, -half), math.ldexp(1.0, half - exponent)
    grid = np.empty(values.size, np.float32)
    workers.run(_round_to_grid, values.size, values, divisor, *factors, GRID, grid, small=small)
    return grid, math.ldexp(1.0, exponent)


def _bounds_between(rising: Floats) -> Floats:
    """Middles between neighbours, and infinities up to one less than a power of two."""
    size = 1 << (rising.size - 1).bit_length()
    middle = 0.5 * (rising[1:] + rising[:-1])
    return np.concatenate([middle, np.full(size - rising.size, np.inf)])


def _scaled(tree: Tree, unit: float) -> Tree:
    """The tree with its values in other units."""
    fields = {name: getattr(tree, name) for name in tree.__dataclass_fields__ if name != "name"}
    return Tree(**{**fields, "value": tuple(unit * value for value in tree.value)})


# -- any regressor ---------------------------------------------------------------------------


class Fitted(Ranker):
    """A fitted regressor of scikit-learn's kind: any function of a row, but not plain numbers."""

    name: ClassVar[str] = "regressor"

    def __init__(self, regressor: Any):
        self.regressor = regressor

    def __call__(self, X: NDArray) -> Floats:
        """What the regressor predicts."""
        return np.asarray(self.regressor.predict(X), np.float64)

    def to_dict(self) -> dict[str, Any]:
        """Refuse: a model file holds plain numbers and executes nothing."""
        raise ValueError(
            f"a fitted {type(self.regressor).__name__} is not plain numbers and cannot be saved; "
            "use rankers='trees' or a DecisionTreeRegressor, or pickle the model at your own risk"
        )

    def __repr__(self) -> str:
        return f"Fitted({self.regressor!r})"


class Regressors(Family):
    """A regressor of scikit-learn's kind as black box: it must accept `sample_weight`.

    The regressor is cloned and fitted anew on all rows in every round, which costs whatever
    it costs; a `DecisionTreeRegressor` becomes a `Tree`, anything else a `Fitted`, which
    cannot be saved as JSON. scikit-learn's trees read features as float32: values that
    differ by less are one.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from precede import BoostedRanker
    >>> from precede.datasets import search_results
    >>> sample = search_results(30, features=6, informative=4, per_query=30, random_state=0)
    >>> model = BoostedRanker(rankers=LinearRegression(), n_estimators=5)
    >>> model.fit(sample.X, sample.y, qid=sample.qid).ensemble_.rankers[0]
    Fitted(LinearRegression())
    """

    quadratic = True

    def __init__(self, regressor: Any, *, hessian: str = "newton", targets: str = "sum"):
        if not hasattr(regressor, "fit") or not hasattr(regressor, "predict"):
            raise ValueError(f"{regressor!r} is no regressor: it lacks fit or predict")
        self.regressor = regressor
        self.hessian = hessian
        self.targets = targets

    def search(self, table: Table, pull: Floats) -> Found | None:
        """Fit the regressor once."""
        return self.start(table).best(pull)

    def start(self, table: Table, workers: Workers | None = None) -> Search:  # noqa: ARG002
        """Copy the rows once."""
        return _RegressorSearch(self, table)

    def __repr__(self) -> str:
        return f"Regressors({self.regressor!r})"


def learner(rankers: Any, *, hessian: str = "newton", targets: str = "sum") -> Family:
    """The family of a name, or of a regressor of scikit-learn's kind; a family as it is.

    >>> from sklearn.linear_model import LinearRegression
    >>> learner("stumps"), learner(LinearRegression())
    (Stumps(), Regressors(LinearRegression()))
    """
    if not isinstance(rankers, str | Family) and hasattr(rankers, "fit"):
        return Regressors(rankers, hessian=hessian, targets=targets)
    return family(rankers)


class _RegressorSearch(RegressionSearch):
    def __init__(self, family: Regressors, table: Table):
        self._regressor = family.regressor
        self.hessian, self.targets = family.hessian, check_targets(family.targets)
        self._rows = np.asarray(table.rows())

    def fit(
        self,
        pull: Floats,
        weight: Floats,
        allowed: NDArray[np.bool_] | None = None,
        *,
        rows: float | None = None,
    ) -> Found | None:
        from sklearn.base import clone  # noqa: PLC0415  (scikit-learn's, for its regressors)

        if allowed is not None and not allowed.all():
            raise ValueError("max_features below 1 is not for regressors; give them a share")
        mean = exact_sum(weight) / (rows or weight.size)
        fitted = clone(self._regressor).fit(self._rows, pull / weight, sample_weight=weight / mean)
        ranker: Ranker = Fitted(fitted)
        if type(fitted).__name__ == "DecisionTreeRegressor":
            ranker = tree_from_sklearn(fitted)
        values = ranker(self._rows)
        edge = exact_sum(pull * values)
        return Found(ranker, edge, values=values) if edge > 0 else None


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _nearest_leaves(begin, end, now, before, bounds, ours, pull, values, edges):
    """Which leaf every row fell into, from what it added to the score.

    Adding to a score rounds, so the nearest value is the one; `before` becomes `now`. The
    bounds between neighbours are halved without a branch: nobody could predict it.
    """
    for place in range(begin, end):
        added = now[place] - before[place]
        before[place] = now[place]
        leaf = 0
        half = (bounds.size + 1) // 2
        while half > 0:
            leaf += half * (added > bounds[leaf + half - 1])
            half //= 2
        values[place] = ours[leaf]
        edges[place] = pull[place] * ours[leaf]


@njit(cache=True, nogil=True)
def _largest_size(low, high, values):
    largest = 0.0
    for place in range(low, high):
        largest = max(largest, abs(values[place]))
    return largest


@njit(cache=True, nogil=True)
def _round_to_grid(low, high, values, divisor, one, other, steps, grid):
    for place in range(low, high):
        scaled = values[place] / divisor * one * other
        grid[place] = np.float32(np.rint(scaled * steps) / steps)
