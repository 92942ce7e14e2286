"""Terms of a generalized additive model: shape functions of one or two features.

A `Term` is a piecewise constant function of one feature (a *curve*) or of two (a *pair*), stored
as a table of plain numbers with the number of training rows of each cell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from numba import njit

from precede.engine.arrays import Array, Floats, Integers
from precede.engine.compiling import INNER
from precede.engine.execution import Context, is_small
from precede.engine.table import MAX_CATEGORIES, MISSING, Bins, Table
from precede.weak_rankers.base import WeakRanker
from precede.weak_rankers.trees import MAX_FEATURES, MAX_ROWS, as_numbers, as_tuple

__all__ = ["Term", "TermTables", "bins_of_codes", "merged_cuts", "refined_table"]

_numbers = partial(as_numbers, what="term")
# Larger tables are rejected as a mistake or a malicious model file.
MAX_CELLS = 1 << 24


@dataclass(frozen=True)
class Term(WeakRanker):
    """A shape function: a piecewise constant function of one or two features.

    Bin b of a numeric feature has the values above ``cuts[b - 1]`` and up to ``cuts[b]``; bin b of
    a categorical feature has the category ``cuts[b]``. The last bin of each feature is for missing
    values and for categories not in `cuts`. Prediction takes O(log cuts) per row.

    Attributes
    ----------
    features : one or two columns
    cuts : thresholds, or categories, of each feature in increasing order
    categorical : whether each feature is categorical
    values : value of each cell; for two features in row-major order
    counts : number of training rows in each cell
    errors : standard error of each value, or empty
    shares : share of the total weight of the training rows in each cell; empty for equal weights

    Examples
    --------
    >>> import numpy as np
    >>> curve = Term((0,), ((1.5,),), (False,), (10.0, 20.0, 0.0), (3, 4, 0))
    >>> curve(np.array([[1.0], [2.0], [np.nan]]))
    array([10., 20.,  0.])
    >>> cells = (1, -1, 0, -1, 1, 0, 0, 0, 0)
    >>> pair = Term((0, 1), ((0.0,), (0.0,)), (False, False), cells, (1,) * 9)
    >>> pair(np.array([[-1.0, 1.0], [1.0, 1.0]]))
    array([-1.,  1.])
    """

    features: tuple[int, ...]
    cuts: tuple[tuple[float, ...], ...]
    categorical: tuple[bool, ...]
    values: tuple[float, ...]
    counts: tuple[int, ...]
    errors: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()

    name: ClassVar[str] = "term"
    checks_fields: ClassVar[bool] = True

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "features", _numbers(self.features, int, "features"))
        cuts = tuple(_numbers(each, float, "cuts") for each in as_tuple(self.cuts, "term"))
        set_(self, "cuts", cuts)
        flags = _numbers(self.categorical, int, "categorical")
        set_(self, "categorical", tuple(bool(flag) for flag in flags))
        set_(self, "values", _numbers(self.values, float, "values"))
        set_(self, "counts", _numbers(self.counts, int, "counts"))
        set_(self, "errors", _numbers(self.errors, float, "errors"))
        set_(self, "shares", _numbers(self.shares, float, "shares"))
        self._check()

    def _check(self) -> None:
        if not (len(self.features) == len(self.cuts) == len(self.categorical)) or len(
            self.features
        ) not in (1, 2):
            raise ValueError("a term has one feature or two, each with cuts of its own")
        if not all(0 <= feature <= MAX_FEATURES for feature in self.features):
            raise ValueError("a term names a feature that is negative or too large")
        if len(set(self.features)) < len(self.features):
            raise ValueError(f"a term names feature {self.features[0]} twice")
        for cuts, categorical in zip(self.cuts, self.categorical, strict=True):
            _check_cuts(cuts, categorical)
        cells = math.prod(self.shape)
        if cells > MAX_CELLS:
            raise ValueError(f"a term has {cells} cells, more than {MAX_CELLS}")
        if {len(self.values), len(self.counts)} != {cells} or len(self.errors) not in (0, cells):
            raise ValueError(f"a term of {cells} cells needs a value and a count for each")
        if not all(map(math.isfinite, [*self.values, *self.errors])):
            raise ValueError("a term has a value that is not finite")
        if not all(0 <= count <= MAX_ROWS for count in self.counts):
            raise ValueError("a cell of a term holds an impossible number of rows")
        if len(self.shares) not in (0, cells) or not all(0 <= share <= 1 for share in self.shares):
            raise ValueError("a cell of a term holds an impossible share of the weight of the rows")

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of bins of each feature, including the one for missing values."""
        axes = zip(self.cuts, self.categorical, strict=True)
        return tuple(len(cuts) + (1 if categorical else 2) for cuts, categorical in axes)

    @cached_property
    def table(self) -> Floats:
        """Values as an array with one axis per feature."""
        return np.array(self.values).reshape(self.shape)

    @cached_property
    def count(self) -> Integers:
        """Row counts as an array with one axis per feature."""
        return np.array(self.counts, np.int64).reshape(self.shape)

    @property
    def cell_weight(self) -> Floats:
        """Weight of the training rows in each cell, up to a constant factor."""
        weight = np.array(self.shares or self.counts, np.float64)
        return weight.reshape(self.shape)

    @property
    def importance(self) -> float:
        """Weighted mean of the absolute value over the training rows."""
        weights = self.shares or self.counts
        total = math.fsum(weights)
        if total == 0:
            return 0.0
        cells = zip(self.values, weights, strict=True)
        return math.fsum(abs(value) * (weight / total) for value, weight in cells)

    def check_features(self, n_features: int) -> None:
        """Raise ValueError if the term uses a feature beyond `n_features`."""
        if max(self.features, default=0) >= n_features:
            raise ValueError(
                f"a {self.name} uses feature {max(self.features)}, but there are {n_features}"
            )

    def importances(self) -> dict[int, float]:
        """Return `importance`, divided equally among the features."""
        return dict.fromkeys(self.features, self.importance / len(self.features))

    def as_term(self) -> Term:
        """Return the term itself."""
        return self

    def with_values(self, values: Array) -> Term:
        """Return a copy with other values and without standard errors."""
        return replace(self, values=tuple(np.ravel(values).tolist()), errors=())

    def bins(self, axis: int, x: Array) -> Integers:
        """Return the bin of each value of feature number `axis`."""
        return _bins(np.asarray(x, np.float64), np.array(self.cuts[axis]), self.categorical[axis])

    def __call__(self, X: Any) -> Floats:
        """Return the value of each row."""
        columns = [X[:, feature] for feature in self.features]
        if scipy.sparse.issparse(X):
            columns = [X[:, [feature]].toarray()[:, 0] for feature in self.features]
        return self.table[tuple(self.bins(axis, x) for axis, x in enumerate(columns))]

    def on(self, table: Table) -> Floats:
        """Return the value of each row of a table; reads its codes if the cuts allow it."""
        cells = []
        for axis, feature in enumerate(self.features):
            lookup = bins_of_codes(self.cuts[axis], self.categorical[axis], table.bins, feature)
            if lookup is None:
                return self(table.rows())
            cells.append(lookup[table.codes[feature]])
            table.release(np.array([feature]))
        return self.table[tuple(cells)]

    def __str__(self) -> str:
        which = " and ".join(map(str, self.features))
        return f"Term({' x '.join(map(str, self.shape))} cells of features {which})"


def bins_of_codes(
    cuts: Sequence[float], categorical: bool, bins: Bins, feature: int
) -> Integers | None:
    """Return the bin of a term for each of the 256 codes of a table.

    Returns None if a cut of the term lies inside a bin of the table.

    >>> bins = Bins((np.array([1.0, 2.0, 3.0]),), np.zeros(1), np.ones(1), np.zeros(1, bool))
    >>> bins_of_codes((2.0,), False, bins, 0)[[0, 1, 2, 3, 255]]
    array([0, 0, 1, 1, 2])
    """
    term_cuts = np.array(cuts, np.float64)
    if categorical:
        if feature not in bins.categories:
            return None
        lookup = np.full(256, term_cuts.size, np.int64)
        binned = bins.categories[feature]
        if not np.isin(term_cuts, binned).all():
            return None
        position = np.searchsorted(term_cuts, binned)
        in_term = np.isin(binned, term_cuts)
        lookup[: binned.size][in_term] = position[in_term]
        return lookup
    table_cuts = bins.cuts[feature]
    if feature in bins.categories or not np.isin(term_cuts, table_cuts).all():
        return None
    lookup = np.full(256, term_cuts.size, np.int64)
    lookup[1 : table_cuts.size + 1] = np.searchsorted(term_cuts, table_cuts, side="right")
    lookup[0] = 0
    lookup[MISSING] = term_cuts.size + 1
    return lookup


def merged_cuts(terms: Sequence[Term]) -> tuple[tuple[float, ...], ...]:
    """Return the union of the cuts of terms of the same features."""
    return tuple(
        tuple(np.unique(np.concatenate([np.array(term.cuts[axis]) for term in terms])).tolist())
        for axis in range(len(terms[0].features))
    )


def refined_table(term: Term, cuts: tuple[tuple[float, ...], ...]) -> Floats:
    """Return the table of a term on a finer grid of cuts."""
    maps = [
        _bin_map(np.array(term_cuts), categorical, np.array(grid))
        for term_cuts, categorical, grid in zip(term.cuts, term.categorical, cuts, strict=True)
    ]
    return term.table[np.ix_(*maps)]


def _bins(x: Floats, cuts: Floats, categorical: bool) -> Integers:
    if categorical:
        x = np.floor(x)  # as trees read categories
        position = np.minimum(np.searchsorted(cuts, x), max(cuts.size - 1, 0))
        found = cuts[position] == x if cuts.size else np.zeros(x.shape, bool)
        return np.where(found, position, cuts.size)
    return np.where(np.isnan(x), cuts.size + 1, np.searchsorted(cuts, x, side="left"))


def _check_cuts(cuts: tuple[float, ...], categorical: bool) -> None:
    if any(one >= other for one, other in pairwise(cuts)):
        raise ValueError("the cuts of a term must rise")
    if not all(map(math.isfinite, cuts)):
        raise ValueError("a term has a cut that is not finite")
    if categorical and not all(0 <= cut < MAX_CATEGORIES and cut == int(cut) for cut in cuts):
        raise ValueError("the categories of a term must be whole numbers from 0")


# -- many terms ------------------------------------------------------------------------------


class TermTables:
    """Weighted terms, laid out for scoring many rows.

    The interval of each feature's value in the merged cuts of all terms is found once; each term
    then takes one lookup::

        value -> interval of the merged grid -> bin of the term (via `_map`) -> cell value

    O(features · log cuts + terms) per row.

    >>> import numpy as np
    >>> curve = Term((0,), ((1.5,),), (False,), (10.0, 20.0, 0.0), (3, 4, 0))
    >>> scores = np.zeros(2)
    >>> TermTables([curve, curve], [1.0, 0.5]).add_to(scores, np.array([[1.0], [2.0]]))
    >>> scores
    array([15., 30.])
    """

    def __init__(self, terms: Sequence[Term], weights: Sequence[float]):
        axes = [(f, c, n) for t in terms for f, c, n in zip(t.features, t.cuts, t.categorical,
                                                            strict=True)]  # fmt: skip
        self.features = sorted({feature for feature, _, _ in axes})
        # A feature that is numeric in one term and categorical in another takes two columns.
        keys = sorted({(feature, categorical) for feature, _, categorical in axes})
        grids = {key: np.unique(np.array([cut for f, cuts, n in axes if (f, n) == key
                                          for cut in cuts])) for key in keys}  # fmt: skip
        column = {key: j for j, key in enumerate(keys)}
        self._feature = np.array([feature for feature, _ in keys], np.int64)
        self._categorical = np.array([categorical for _, categorical in keys], np.bool_)
        self._grid_start = _starts([grids[key].size for key in keys])
        self._grid = np.concatenate([*(grids[key] for key in keys), np.zeros(0)])
        self._column = np.full((len(terms), 2), -1, np.int64)
        self._map_start = np.zeros((len(terms), 2), np.int64)
        maps: list[Integers] = []
        size = 0
        for number, term in enumerate(terms):
            for axis, key in enumerate(zip(term.features, term.categorical, strict=True)):
                stride = term.shape[1] if axis == 0 and len(term.shape) == 2 else 1
                offsets = stride * _bin_map(np.array(term.cuts[axis]), key[1], grids[key])
                self._column[number, axis], self._map_start[number, axis] = column[key], size
                maps.append(offsets)
                size += offsets.size
        self._map = np.concatenate([*maps, np.zeros(0, np.int64)])
        self._value_start = _starts([len(term.values) for term in terms])
        weighted = zip(terms, weights, strict=True)
        self._value = np.concatenate([*(w * np.array(t.values) for t, w in weighted), np.zeros(0)])

    def add_to(self, scores: Floats, X: Array, context: Context | None = None) -> None:
        """Add the weighted values of the terms to the scores, term by term."""
        (context or Context(1)).run(
            _score_rows, X.shape[0], X, self._feature, self._categorical, self._grid_start,
            self._grid, self._column, self._map_start, self._map, self._value_start, self._value,
            scores, small=is_small("heavy rows", X.shape[0]),
        )  # fmt: skip


def _starts(sizes: Sequence[int]) -> Integers:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _bin_map(cuts: Floats, categorical: bool, grid: Floats) -> Integers:
    """Return the bin of a term for each interval (or category) of a finer grid, and missing."""
    if categorical:
        known = np.where(np.isin(grid, cuts), np.searchsorted(cuts, grid), cuts.size)
        return np.append(known, cuts.size).astype(np.int64)
    intervals = np.searchsorted(cuts, grid, side="right")
    return np.concatenate([[0], intervals, [cuts.size + 1]]).astype(np.int64)


# -- kernels ---------------------------------------------------------------------------------


@njit(**INNER)
def _bin(x: float, categorical: bool, grid: Floats, begin: int, count: int) -> int:
    """Return the bin of x among the cuts (or categories) ``grid[begin : begin + count]``."""
    if np.isnan(x):
        return count if categorical else count + 1
    if categorical:
        x = np.floor(x)  # as trees read categories
    below, remaining = 0, count
    while remaining > 0:  # branch-free binary search for the number of cuts below x
        half = (remaining + 1) // 2
        below += half * (x > grid[begin + below + half - 1])
        remaining -= half
    if categorical and (below == count or grid[begin + below] != x):
        return count
    return below


@njit(cache=True, nogil=True)
def _score_rows(
    low: int, high: int, X: Array, feature: Integers, categorical: Array, grid_start: Integers,
    grid: Floats, column: Integers, map_start: Integers, bin_of: Integers, value_start: Integers,
    value: Floats, scores: Floats,
) -> None:  # fmt: skip
    """Score blocks of 256 rows, term by term."""
    bins = np.empty((feature.size, 256), np.int64)
    for first in range(low, high, 256):
        size = min(256, high - first)
        for j in range(feature.size):
            begin, count = grid_start[j], grid_start[j + 1] - grid_start[j]
            for i in range(size):
                x = np.float64(X[first + i, feature[j]])
                bins[j, i] = _bin(x, categorical[j], grid, begin, count)
        for t in range(column.shape[0]):
            bins0, bins1 = bins[column[t, 0]], bins[max(column[t, 1], 0)]
            map0, map1 = map_start[t, 0], map_start[t, 1]
            if column[t, 1] < 0:
                for i in range(size):
                    scores[first + i] += value[value_start[t] + bin_of[map0 + bins0[i]]]
            else:
                for i in range(size):
                    cell = bin_of[map0 + bins0[i]] + bin_of[map1 + bins1[i]]
                    scores[first + i] += value[value_start[t] + cell]
