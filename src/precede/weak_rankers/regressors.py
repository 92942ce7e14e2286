"""Weak rankers fitted by weighted least squares, and scikit-learn regressors as weak rankers.

Each round fits ``pull / weight`` with weights `weight`, the diagonal of a quadratic model of the
risk, so that the natural step is 1 (Zheng et al. 2007, algorithm 1). This module has the base class
of such searches and the family of scikit-learn regressors, used as black boxes; trees are in
`precede.weak_rankers.tree_grower`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Protocol

import numpy as np

from precede.engine.arrays import Array, Flags, Floats, Json
from precede.engine.exact import exact_sum
from precede.engine.execution import Context
from precede.engine.pull import Pull
from precede.engine.table import Table
from precede.weak_rankers.base import Family, Search, SearchResult, WeakRanker, family
from precede.weak_rankers.trees import tree_from_sklearn

TARGETS = ("sum", "average")


class Regressor(Protocol):
    """A scikit-learn regressor that accepts `sample_weight`."""

    def fit(self, X: Array, y: Floats, sample_weight: Floats) -> Regressor:
        """Fit to weighted targets."""

    def predict(self, X: Array) -> Floats:
        """Return the value of each row."""


class RegressionSearch(Search):
    """Search that fits weak rankers to a quadratic model of the risk by weighted least squares."""

    hessian: str = "newton"
    targets: str = "sum"

    def best(self, pull: Floats, allowed: Flags | None = None) -> SearchResult | None:
        """Fit a weak ranker to the pull, with equal weights."""
        return self.fit(pull, np.ones(pull.size), allowed)

    def best_for(self, pull: Pull, allowed: Flags | None = None) -> SearchResult | None:
        """Fit a weak ranker to the quadratic model; None if the risk does not decrease along it."""
        weight, rows = pull.hessian(self.hessian), pull.n_items
        if self.targets == "sum":
            return self.fit(pull.values, weight, allowed, rows=rows)
        pair_counts = pull.pair_counts()
        found = self.fit(pull.values / pair_counts, weight / pair_counts, allowed, rows=rows)
        if found is None or found.values is None:
            return None
        # Averages are not the gradient: the risk may increase along the weak ranker that fits them
        # best. Steps are >= 0 (Zheng et al.): a negative one would violate monotone constraints.
        edge = pull.edge(found.values)
        return replace(found, edge=edge) if edge > 0 else None

    def fit(
        self,
        pull: Floats,
        weight: Floats,
        allowed: Flags | None = None,
        *,
        rows: float | None = None,
    ) -> SearchResult | None:
        """Fit a weak ranker to ``pull / weight`` with these weights; None if its edge is <= 0.

        `rows` is the total item weight; the number of rows by default.
        """
        raise NotImplementedError(f"{type(self).__name__} must define fit(pull, weight)")


def check_targets(targets: str) -> str:
    """Return `targets`; raise ValueError if it is unknown."""
    if targets not in TARGETS:
        raise ValueError(f"targets={targets!r} is unknown; use one of {TARGETS}")
    return targets


class FittedRegressor(WeakRanker):
    """A fitted scikit-learn regressor as a weak ranker; cannot be saved as JSON."""

    name: ClassVar[str] = "regressor"

    def __init__(self, regressor: Regressor):
        self.regressor = regressor

    def __call__(self, X: Array) -> Floats:
        """Return the predictions of the regressor."""
        return np.asarray(self.regressor.predict(X), np.float64)

    def to_dict(self) -> Json:
        """Raise ValueError: model files hold plain numbers and execute no code."""
        raise ValueError(
            f"a fitted {type(self.regressor).__name__} is not plain numbers and cannot be saved; "
            "use weak_rankers='trees' or a DecisionTreeRegressor, or pickle the model at your own "
            "risk"
        )

    def __repr__(self) -> str:
        return f"FittedRegressor({self.regressor!r})"


class Regressors(Family):
    """A scikit-learn regressor that accepts `sample_weight`, as a black box.

    A clone of the regressor is fitted to all rows in every round. A `DecisionTreeRegressor`
    becomes a `Tree`, any other regressor a `FittedRegressor`, which cannot be saved as JSON.
    scikit-learn's trees round features to float32, so values that are closer are not
    distinguished.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from precede import BoostedRanker
    >>> from precede.datasets import search_results
    >>> sample = search_results(30, features=6, informative=4, per_query=30, random_state=0)
    >>> model = BoostedRanker(weak_rankers=LinearRegression(), n_estimators=5)
    >>> model.fit(sample.X, sample.y, qid=sample.qid).ensemble_.weak_rankers[0]
    FittedRegressor(LinearRegression())
    """

    quadratic = True

    def __init__(self, regressor: Regressor, *, hessian: str = "newton", targets: str = "sum"):
        if not hasattr(regressor, "fit") or not hasattr(regressor, "predict"):
            raise ValueError(f"{regressor!r} is not a regressor: it lacks fit or predict")
        self.regressor = regressor
        self.hessian = hessian
        self.targets = targets

    def start(self, table: Table, context: Context | None = None) -> Search:  # noqa: ARG002
        """Return a search that fits one clone per round; the rows are copied once."""
        return _RegressorSearch(self, table)

    def __repr__(self) -> str:
        return f"Regressors({self.regressor!r})"


def learner(
    weak_rankers: str | Family | Regressor, *, hessian: str = "newton", targets: str = "sum"
) -> Family:
    """Return the family of a name or a scikit-learn regressor; return a `Family` unchanged.

    >>> from sklearn.linear_model import LinearRegression
    >>> learner("stumps"), learner(LinearRegression())
    (Stumps(), Regressors(LinearRegression()))
    """
    if not isinstance(weak_rankers, str | Family) and hasattr(weak_rankers, "fit"):
        return Regressors(weak_rankers, hessian=hessian, targets=targets)
    return family(weak_rankers)


class _RegressorSearch(RegressionSearch):
    """Search that fits a clone of a scikit-learn regressor."""

    def __init__(self, family: Regressors, table: Table):
        self._regressor = family.regressor
        self.hessian, self.targets = family.hessian, check_targets(family.targets)
        self._rows = np.asarray(table.rows())

    def fit(
        self,
        pull: Floats,
        weight: Floats,
        allowed: Flags | None = None,
        *,
        rows: float | None = None,
    ) -> SearchResult | None:
        from sklearn.base import clone  # noqa: PLC0415  (slow import)

        if allowed is not None and not allowed.all():
            raise ValueError("max_features below 1 is not for regressors; give them a share")
        mean = exact_sum(weight) / (rows or weight.size)
        fitted = clone(self._regressor).fit(self._rows, pull / weight, sample_weight=weight / mean)
        weak_ranker: WeakRanker = FittedRegressor(fitted)
        if type(fitted).__name__ == "DecisionTreeRegressor":
            weak_ranker = tree_from_sklearn(fitted)
        values = weak_ranker(self._rows)
        edge = exact_sum(pull * values)
        return SearchResult(weak_ranker, edge, values=values) if edge > 0 else None
