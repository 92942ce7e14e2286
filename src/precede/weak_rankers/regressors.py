"""Regressors of scikit-learn's kind as families of weak rankers, and what learners share.

A learner is given a pull and a weight for every row and fits ``pull / weight`` by weighted
least squares: the best step under a quadratic model of the risk (Zheng et al. 2007, algorithm
1). `precede.weak_rankers.tree_family` has trees; here is any regressor, as a black box.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from precede.engine.arrays import Array, Flags, Floats
from precede.engine.exact import exact_sum
from precede.engine.execution import Context
from precede.engine.pull import Pull
from precede.engine.table import Table
from precede.weak_rankers.base import Family, Search, SearchResult, WeakRanker, family
from precede.weak_rankers.trees import tree_from_sklearn

__all__ = ["Fitted", "RegressionSearch", "Regressors", "check_targets", "learner"]


TARGETS = ("sum", "average")


class RegressionSearch(Search):
    """Rankers fitted to a quadratic model of the risk by weighted least squares."""

    hessian: str = "newton"
    targets: str = "sum"

    def best(self, pull: Floats, allowed: Flags | None = None) -> SearchResult | None:
        """Fit a ranker to the pull, every row weighing the same."""
        return self.fit(pull, np.ones(pull.size), allowed)

    def best_for(self, pull: Pull, allowed: Flags | None = None) -> SearchResult | None:
        """Fit a ranker to the quadratic model of the risk; None if that does not fall along it."""
        weight, rows = pull.hessian(self.hessian), pull.rows
        if self.targets == "sum":
            return self.fit(pull.values, weight, allowed, rows=rows)
        terms = pull.terms()
        found = self.fit(pull.values / terms, weight / terms, allowed, rows=rows)
        if found is None or found.values is None:
            return None
        # Averages are not the gradient: the risk may rise along a ranker that fits them best. The
        # steps of Zheng et al. are >= 0, and minus a monotone ranker breaks its constraint.
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
        """Fit a ranker to ``pull / weight`` with the weights; None where nothing helps.

        `rows` is how many rows there are, an item of weight 2 being two.
        """
        raise NotImplementedError(f"{type(self).__name__} must define fit(pull, weight)")


def check_targets(targets: str) -> str:
    """Refuse anything but the ways to join the pairs of a row."""
    if targets not in TARGETS:
        raise ValueError(f"targets={targets!r} is unknown; use one of {TARGETS}")
    return targets


class Fitted(WeakRanker):
    """A fitted regressor of scikit-learn's kind: any function of a row, but not plain numbers."""

    name: ClassVar[str] = "regressor"

    def __init__(self, regressor: Any):
        self.regressor = regressor

    def __call__(self, X: Array) -> Floats:
        """What the regressor predicts."""
        return np.asarray(self.regressor.predict(X), np.float64)

    def to_dict(self) -> dict[str, Any]:
        """Refuse: a model file holds plain numbers and executes nothing."""
        raise ValueError(
            f"a fitted {type(self.regressor).__name__} is not plain numbers and cannot be saved; "
            "use weak_rankers='trees' or a DecisionTreeRegressor, or pickle the model at your own "
            "risk"
        )

    def __repr__(self) -> str:
        return f"Fitted({self.regressor!r})"


class Regressors(Family):
    """A regressor of scikit-learn's kind as black box: it must accept `sample_weight`.

    A clone of the regressor is fitted on all rows in every round, which costs whatever
    it costs; a `DecisionTreeRegressor` becomes a `Tree`, anything else a `Fitted`, which
    cannot be saved as JSON. scikit-learn's trees read features as float32: values that
    differ by less are one.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from precede import BoostedRanker
    >>> from precede.datasets import search_results
    >>> sample = search_results(30, features=6, informative=4, per_query=30, random_state=0)
    >>> model = BoostedRanker(weak_rankers=LinearRegression(), n_estimators=5)
    >>> model.fit(sample.X, sample.y, qid=sample.qid).ensemble_.weak_rankers[0]
    Fitted(LinearRegression())
    """

    quadratic = True

    def __init__(self, regressor: Any, *, hessian: str = "newton", targets: str = "sum"):
        if not hasattr(regressor, "fit") or not hasattr(regressor, "predict"):
            raise ValueError(f"{regressor!r} is not a regressor: it lacks fit or predict")
        self.regressor = regressor
        self.hessian = hessian
        self.targets = targets

    def start(self, table: Table, context: Context | None = None) -> Search:  # noqa: ARG002
        """Copy the rows once."""
        return _RegressorSearch(self, table)

    def __repr__(self) -> str:
        return f"Regressors({self.regressor!r})"


def learner(weak_rankers: Any, *, hessian: str = "newton", targets: str = "sum") -> Family:
    """The family of a name, or of a regressor of scikit-learn's kind; a family as it is.

    >>> from sklearn.linear_model import LinearRegression
    >>> learner("stumps"), learner(LinearRegression())
    (Stumps(), Regressors(LinearRegression()))
    """
    if not isinstance(weak_rankers, str | Family) and hasattr(weak_rankers, "fit"):
        return Regressors(weak_rankers, hessian=hessian, targets=targets)
    return family(weak_rankers)


class _RegressorSearch(RegressionSearch):
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
        from sklearn.base import clone  # noqa: PLC0415  (scikit-learn's, for its regressors)

        if allowed is not None and not allowed.all():
            raise ValueError("max_features below 1 is not for regressors; give them a share")
        mean = exact_sum(weight) / (rows or weight.size)
        fitted = clone(self._regressor).fit(self._rows, pull / weight, sample_weight=weight / mean)
        weak_ranker: WeakRanker = Fitted(fitted)
        if type(fitted).__name__ == "DecisionTreeRegressor":
            weak_ranker = tree_from_sklearn(fitted)
        values = weak_ranker(self._rows)
        edge = exact_sum(pull * values)
        return SearchResult(weak_ranker, edge, values=values) if edge > 0 else None
