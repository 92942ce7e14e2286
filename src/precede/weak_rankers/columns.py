"""Weak rankers that are linear in one feature, and the constant weak ranker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from precede.engine.arrays import Array, Flags, Floats, Integers
from precede.engine.compiling import njit
from precede.engine.exact import (
    SCALE,
    TIE_OF_DECREASES,
    all_reduce_max,
    all_reduce_sum,
    first_tied,
    to_integers,
)
from precede.engine.execution import Context, threads_for
from precede.engine.pull import Factors
from precede.engine.table import Table
from precede.weak_rankers.base import (
    Family,
    Search,
    SearchResult,
    WeakRanker,
    first_tied_result,
)


class LinearWeakRanker(WeakRanker):
    """A weak ranker that is linear in one feature: `Feature` (clipped to a range) or `Column`."""

    feature: int

    @property
    def ends(self) -> tuple[float, float] | None:
        """Range to which the feature is clipped; None if it is not clipped."""
        return None

    def at(self, x: Floats) -> Floats:
        """Return the value for each value of the feature."""
        return x

    def __call__(self, X: Array) -> Floats:
        """Return the value of each row."""
        return self.at(X[:, self.feature].astype(np.float64))


@dataclass(frozen=True)
class Feature(LinearWeakRanker):
    """``h(x) = (x[feature] - low) / (high - low)``, clipped to [0, 1]; 0 where x is NaN.

    >>> import numpy as np
    >>> Feature(0, low=2.0, high=4.0)(np.array([[3.0], [9.0], [np.nan]]))
    array([0.5, 1. , 0. ])
    """

    feature: int
    low: float
    high: float

    name: ClassVar[str] = "feature"

    def __post_init__(self) -> None:
        if not -np.inf < self.low < self.high < np.inf:
            raise ValueError(
                f"a feature needs a finite range, not {self.low} to {self.high}; low must be less "
                "than high"
            )

    @property
    def ends(self) -> tuple[float, float]:
        """Feature values at which the weak ranker is 0 and 1."""
        return self.low, self.high

    def on(self, table: Table) -> Floats:
        """Scale the raw column of a table."""
        return self.at(table.column(self.feature))

    def at(self, x: Floats) -> Floats:
        """Scale values of the feature."""
        low, high = self.low, self.high
        column = np.clip(x, low, high)
        if high - low == np.inf:  # the difference overflows: halve all three
            column, low, high = column / 2, low / 2, high / 2
        scaled = (column - low) / (high - low)
        return np.where(np.isnan(scaled), 0.0, scaled)


@dataclass(frozen=True)
class Column(LinearWeakRanker):
    """``h(x) = x[feature]``: a raw column of X.

    >>> import numpy as np
    >>> Column(1)(np.array([[5.0, 1.0], [5.0, -2.0]]))
    array([ 1., -2.])
    """

    feature: int

    name: ClassVar[str] = "column"

    def on(self, table: Table) -> Array:
        """Return the raw column, as uint8 if its values are 0 and 1."""
        return _as_uint8_if_binary(table.column(self.feature))


@dataclass(frozen=True)
class Constant(WeakRanker):
    """``h(x) = 1`` for every row: the classifier that AdaBoost needs (Rudin & Schapire 2009).

    >>> import numpy as np
    >>> Constant()(np.zeros((2, 3)))
    array([1., 1.])
    """

    name: ClassVar[str] = "constant"
    is_constant: ClassVar[bool] = True
    codes_only: ClassVar[bool] = True

    def __call__(self, X: Array) -> Floats:
        """Return ones."""
        return np.ones(X.shape[0])

    def on(self, table: Table) -> Floats:
        """Return ones."""
        return np.ones(table.n_used_rows)


def refuse_missing(table: Table) -> None:
    """Raise ValueError if a column has missing values."""
    missing = np.flatnonzero(table.bins.has_missing)
    if missing.size:
        raise ValueError(
            f"column {missing[0]} has missing values; rankers given as columns must have a value "
            "for every row (use weak_rankers='stumps' for features with missing values)"
        )


def _as_uint8_if_binary(values: Array) -> Array:
    """Return values as uint8 if they are all 0 or 1, which enables closed-form steps."""
    is_binary = not np.any((values != 0) & (values != 1))
    return values.astype(np.uint8) if is_binary else values


class _ColumnSearch(Search):
    """Search among real-valued columns: one exact dot product with the pull per column."""

    def __init__(
        self,
        weak_rankers: Sequence[WeakRanker],
        values: list[Array],
        features: Array,
        context: Context,
    ):
        self._weak_rankers = weak_rankers
        self._features = features
        self._context = context
        self._positive_only = False
        self._values = np.array(values) if values else np.zeros((0, 0))
        # Scale columns to [-1, 1] by powers of two, so that products can be summed as integers.
        largest = all_reduce_max(lambda: np.abs(self._values).max(axis=1, initial=0.0), context)
        self._exponents = np.frexp(largest)[1]
        self._scaled = np.ldexp(self._values, -self._exponents[:, None])

    def restrict_to_positive(self) -> Search:
        """Search only columns with a positive edge."""
        self._positive_only = True
        return self

    def best(self, pull: Floats, allowed: Flags | None = None) -> SearchResult | None:
        """Return the column with the largest absolute edge, or the largest edge if restricted."""
        products = all_reduce_sum(lambda: self._products(pull), self._context)
        edges = np.ldexp(products / SCALE, self._exponents)
        if allowed is not None:
            edges[~allowed[self._features]] = 0.0
        criterion = edges if self._positive_only else np.abs(edges)
        if criterion.max(initial=0.0) <= 0:
            return None
        chosen = first_tied(criterion)
        return SearchResult(self._weak_rankers[chosen], float(edges[chosen]))

    def _products(self, pull: Floats) -> Integers:
        products = np.zeros(len(self._weak_rankers), np.int64)
        self._context.run(
            _dot_products, products.size, self._scaled, pull, products,
            threads=threads_for("cells", self._values.size),
        )  # fmt: skip
        return products

    def best_decrease(self, factors: Factors, allowed: Flags | None = None) -> SearchResult | None:
        """Return the column with the largest decrease: one exact line search per column."""
        results = []
        is_binary = ~all_reduce_max(
            lambda: ((self._values != 0) & (self._values != 1)).any(axis=1), self._context
        )
        for feature, weak_ranker, values, use_uint8 in zip(
            self._features, self._weak_rankers, self._values, is_binary, strict=True
        ):
            if allowed is not None and not allowed[feature]:
                continue
            on_table = values.astype(np.uint8) if use_uint8 else values
            result = SearchResult(weak_ranker, *factors.decrease(on_table))
            if result.edge > 0 or not self._positive_only:
                results.append(result)
        return first_tied_result(results, lambda each: each.decrease, TIE_OF_DECREASES)


class Features(Family):
    """Features scaled to [0, 1] by their range in the training rows.

    Missing values count as the lowest value. O(n) per feature and round; 8 bytes of memory per
    cell.
    """

    name = "features"
    exhaustive = True
    distributable = True

    def start(self, table: Table, context: Context | None = None) -> Search:
        """Return a search over the features, which are scaled once."""
        low, high = table.bins.low, table.bins.high
        usable = np.flatnonzero(high > low)
        weak_rankers = [Feature(int(f), float(low[f]), float(high[f])) for f in usable]
        values = [weak_ranker.on(table) for weak_ranker in weak_rankers]
        return _ColumnSearch(weak_rankers, values, usable, context or Context(1))


class Columns(Family):
    """Raw columns of X as weak rankers, binary or real.

    O(n) per column and round; 8 bytes of memory per cell.
    """

    name = "columns"
    exhaustive = True

    def start(self, table: Table, context: Context | None = None) -> Search:
        """Return a search over the columns, which are read once."""
        refuse_missing(table)
        usable = np.flatnonzero(table.bins.high > table.bins.low)  # constants order no pair
        weak_rankers = [Column(int(f)) for f in usable]
        values = [table.column(int(f)) for f in usable]
        return _ColumnSearch(weak_rankers, values, usable, context or Context(1))


class Constants(Family):
    """The constant weak ranker, which orders no pair but shifts the scores of a classifier."""

    name = "constant"
    exhaustive = True

    def start(self, table: Table, context: Context | None = None) -> Search:  # noqa: ARG002
        """Return a search, which uses no feature and ignores which ones are allowed."""
        return _ConstantSearch()


class _ConstantSearch(Search):
    def best(self, pull: Floats, allowed: Flags | None = None) -> SearchResult | None:  # noqa: ARG002
        """Return the constant unless the pulls sum to 0."""
        edge = float(to_integers(pull).sum()) / SCALE
        # The pulls of a pair risk sum to 0, up to rounding.
        return SearchResult(Constant(), edge) if abs(edge) > 1e-12 else None


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _dot_products(low: int, high: int, values: Floats, pull: Floats, products: Integers) -> None:
    """Compute dot products of pull and values in integers, independent of row order."""
    for j in range(low, high):
        total = np.int64(0)
        for row in range(pull.size):
            total += np.int64(np.rint(pull[row] * values[j, row] * SCALE))
        products[j] = total
