"""Features and columns as weak rankers, and the constant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit

from precede.engine.arrays import Array, Flags, Floats, Integers
from precede.engine.exact import SCALE, all_reduce_max, all_reduce_sum, to_integers
from precede.engine.execution import Context, is_small
from precede.engine.pull import Factors
from precede.engine.table import Table
from precede.engine.ties import TIE_OF_DECREASES, first_tied
from precede.weak_rankers.base import (
    Family,
    Search,
    SearchResult,
    WeakRanker,
    _first_of_the_best,
    _Stateless,
)

__all__ = ["Column", "Columns", "Constant", "Constants", "Feature", "Features", "Line"]


class Line(WeakRanker):
    """A straight line of one feature: `Feature`, which has two ends, or `Column`, without ends."""

    feature: int

    @property
    def ends(self) -> tuple[float, float] | None:
        """Where the line begins to rise and where it stops; None if it rises everywhere."""
        return None

    def at(self, x: Floats) -> Floats:
        """Value for each value of the feature."""
        return x

    def as_linear(self) -> Line:
        """Itself."""
        return self

    def __call__(self, X: Array) -> Floats:
        """Value of each row."""
        return self.at(X[:, self.feature].astype(np.float64))


@dataclass(frozen=True)
class Feature(Line):
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
        """Where the line is 0 and where it is 1."""
        return self.low, self.high

    def on(self, table: Table) -> Floats:
        """Scale the raw column of a table."""
        return self.at(table.column(self.feature))

    def at(self, x: Floats) -> Floats:
        """Scale values of the feature."""
        low, high = self.low, self.high
        column = np.clip(x, low, high)
        if high - low == np.inf:  # a range larger than the largest number, in halves
            column, low, high = column / 2, low / 2, high / 2
        scaled = (column - low) / (high - low)
        return np.where(np.isnan(scaled), 0.0, scaled)


@dataclass(frozen=True)
class Column(Line):
    """``h(x) = x[feature]``: a column of X that is a weak ranker as it stands.

    >>> import numpy as np
    >>> Column(1)(np.array([[5.0, 1.0], [5.0, -2.0]]))
    array([ 1., -2.])
    """

    feature: int

    name: ClassVar[str] = "column"

    def on(self, table: Table) -> Array:
        """Return the raw column; as uint8 where it holds nothing but 0 and 1."""
        return _as_binary(table.column(self.feature))


@dataclass(frozen=True)
class Constant(WeakRanker):
    """``h(x) = 1`` for every row: the classifier that AdaBoost needs (Rudin & Schapire 2009).

    >>> import numpy as np
    >>> Constant()(np.zeros((2, 3)))
    array([1., 1.])
    """

    name: ClassVar[str] = "constant"
    is_constant: ClassVar[bool] = True

    def __call__(self, X: Array) -> Floats:
        """Return ones."""
        return np.ones(X.shape[0])

    def on(self, table: Table) -> Floats:
        """Return ones."""
        return np.ones(table.n_used_rows)


def _as_binary(values: Array) -> Array:
    """Values as uint8 where they are nothing but 0 and 1, which tells the loop so."""
    binary = not np.any((values != 0) & (values != 1))
    return values.astype(np.uint8) if binary else values


class _FeatureFree(_Stateless):
    """For a family that uses no feature: it does not matter which are allowed."""

    def best(self, pull: Floats, allowed: Flags | None = None) -> SearchResult | None:  # noqa: ARG002
        return self._family.search(self._table, pull)


class _Columnwise(Search):
    """Search among real-valued columns: one exact dot product with the pull for each."""

    def __init__(
        self,
        weak_rankers: Sequence[WeakRanker],
        values: list[Array],
        features: Array,
        context: Context,
    ):
        self._rankers = weak_rankers
        self._features = features
        self._context = context
        self._rising = False
        self._values = np.array(values) if values else np.zeros((0, 0))
        # Powers of two bring every column into [-1, 1], so that products add as integers.
        largest = all_reduce_max(lambda: np.abs(self._values).max(axis=1, initial=0.0), context)
        self._exponent = np.frexp(largest)[1]
        self._scaled = np.ldexp(self._values, -self._exponent[:, None])

    def restrict_to_positive(self) -> Search:
        """Search only the columns of a positive edge."""
        self._rising = True
        return self

    def best(self, pull: Floats, allowed: Flags | None = None) -> SearchResult | None:
        """Give the column of the largest absolute edge, or of the largest if rising."""
        products = all_reduce_sum(lambda: self._products(pull), self._context)
        edges = np.ldexp(products / SCALE, self._exponent)
        if allowed is not None:
            edges[~allowed[self._features]] = 0.0
        steep = edges if self._rising else np.abs(edges)
        if steep.max(initial=0.0) <= 0:
            return None
        chosen = first_tied(steep)
        return SearchResult(self._rankers[chosen], float(edges[chosen]))

    def _products(self, pull: Floats) -> Integers:
        products = np.zeros(len(self._rankers), np.int64)
        self._context.run(
            _dot_products, products.size, self._scaled, pull, products,
            small=is_small("cells", self._values.size),
        )  # fmt: skip
        return products

    def best_decrease(self, factors: Factors, allowed: Flags | None = None) -> SearchResult | None:
        """Give the column that lowers the risk most: one exact line search for each."""
        found = []
        binary = ~all_reduce_max(
            lambda: ((self._values != 0) & (self._values != 1)).any(axis=1), self._context
        )
        for feature, weak_ranker, values, small in zip(
            self._features, self._rankers, self._values, binary, strict=True
        ):
            if allowed is not None and not allowed[feature]:
                continue
            on_table = values.astype(np.uint8) if small else values
            candidate = SearchResult(weak_ranker, *factors.decrease(on_table))
            if candidate.edge > 0 or not self._rising:
                found.append(candidate)
        return _first_of_the_best(found, lambda each: each.decrease, TIE_OF_DECREASES)


class Features(Family):
    """The features themselves, scaled to [0, 1] by the range of the training rows.

    Missing values count as the lowest. O(n) for each feature and round; eight bytes a cell
    of memory.
    """

    name = "features"
    exhaustive = True
    distributable = True

    def start(self, table: Table, context: Context | None = None) -> Search:
        """Scale every feature once."""
        low, high = table.bins.low, table.bins.high
        usable = np.flatnonzero(high > low)
        weak_rankers = [Feature(int(f), float(low[f]), float(high[f])) for f in usable]
        values = [weak_ranker.on(table) for weak_ranker in weak_rankers]
        return _Columnwise(weak_rankers, values, usable, context or Context(1))


class Columns(Family):
    """Columns of X as weak rankers, exactly as they stand; binary or real.

    O(n) for each column and round; eight bytes a cell of memory.
    """

    name = "columns"
    exhaustive = True

    def start(self, table: Table, context: Context | None = None) -> Search:
        """Read every column once."""
        absent = np.flatnonzero(table.bins.has_missing)
        if absent.size:
            raise ValueError(
                f"column {absent[0]} has missing values; rankers given as columns must have a "
                "value for every row (use weak_rankers='stumps' for features with missing values)"
            )
        usable = np.flatnonzero(table.bins.high > table.bins.low)  # a constant orders nothing
        weak_rankers = [Column(int(f)) for f in usable]
        values = [table.column(int(f)) for f in usable]
        return _Columnwise(weak_rankers, values, usable, context or Context(1))


class Constants(Family):
    """The constant ranker alone; orders nothing, but shifts a classifier."""

    name = "constant"
    exhaustive = True

    def search(self, table: Table, pull: Floats) -> SearchResult | None:  # noqa: ARG002
        """Give the constant, if the pulls do not cancel."""
        edge = float(to_integers(pull).sum()) / SCALE
        # A pair risk pulls as much up as down: what is left over is rounding.
        return SearchResult(Constant(), edge) if abs(edge) > 1e-12 else None

    def start(self, table: Table, context: Context | None = None) -> Search:  # noqa: ARG002
        """Prepare to search; no choice of features leaves the constant out."""
        return _FeatureFree(self, table)


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _dot_products(low: int, high: int, values: Floats, pull: Floats, products: Integers) -> None:
    """Sums of pull·value as integers, so that no order of rows changes a bit."""
    for j in range(low, high):
        total = np.int64(0)
        for row in range(pull.size):
            total += np.int64(np.rint(pull[row] * values[j, row] * 2305843009213693952.0))
        products[j] = total
