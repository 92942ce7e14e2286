"""Terms of a glass-box model: tables of one or two features, scored by look-up.

A term is a step function of one feature (a *curve*) or of two (a *pair*). It is made of plain
numbers and says for each cell how many training rows are behind it.
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
from precede.engine.table import MISSING, MOST_CATEGORIES, Bins, Table
from precede.weak_rankers.base import WeakRanker
from precede.weak_rankers.trees import MOST_FEATURES, MOST_ROWS, listed, numbers_of

__all__ = ["Term", "TermTables", "bins_of_codes", "joined_cuts", "spread"]

_numbers = partial(numbers_of, what="term")
# A file that asks for more cells than this means harm, or has another mistake.
MOST_CELLS = 1 << 24


@dataclass(frozen=True)
class Term(WeakRanker):
    """A step function of one or two features, as a table.

    The value of a row is found by the bin of each of its features. Bin b of an ordered feature
    holds the values above ``cuts[b - 1]`` and up to ``cuts[b]``; bin b of a feature of categories
    holds the category ``cuts[b]``. The last bin of every feature is for missing values, and for
    categories that are not listed.

    Attributes
    ----------
    features : one column or two
    cuts : for each feature its thresholds, or its categories, in rising order
    categorical : for each feature whether `cuts` are categories
    values : value of each cell; of two features row by row, the second feature changing fastest
    counts : number of training rows in each cell
    errors : standard error of each value, or empty
    shares : share of the weight of the training rows in each cell; empty for equal weights

    Notes
    -----
    O(log cuts) for a row.

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
        set_(
            self, "cuts", tuple(_numbers(each, float, "cuts") for each in listed(self.cuts, "term"))
        )
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
        if not all(0 <= feature <= MOST_FEATURES for feature in self.features):
            raise ValueError("a term names a feature that is negative or too large")
        if len(set(self.features)) < len(self.features):
            raise ValueError(f"a term names feature {self.features[0]} twice")
        for cuts, named in zip(self.cuts, self.categorical, strict=True):
            _check_cuts(cuts, named)
        cells = math.prod(self.shape)
        if cells > MOST_CELLS:
            raise ValueError(f"a term has {cells} cells, more than {MOST_CELLS}")
        if {len(self.values), len(self.counts)} != {cells} or len(self.errors) not in (0, cells):
            raise ValueError(f"a term of {cells} cells needs a value and a count for each")
        if not all(map(math.isfinite, [*self.values, *self.errors])):
            raise ValueError("a term has a value that is not finite")
        if not all(0 <= count <= MOST_ROWS for count in self.counts):
            raise ValueError("a cell of a term holds an impossible number of rows")
        if len(self.shares) not in (0, cells) or not all(0 <= share <= 1 for share in self.shares):
            raise ValueError("a cell of a term holds an impossible share of the weight of the rows")

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of bins of each feature, the last one for missing values."""
        parts = zip(self.cuts, self.categorical, strict=True)
        return tuple(len(cuts) + (1 if named else 2) for cuts, named in parts)

    @cached_property
    def table(self) -> Floats:
        """The values as an array with one axis for each feature."""
        return np.array(self.values).reshape(self.shape)

    @cached_property
    def count(self) -> Integers:
        """The numbers of rows as an array with one axis for each feature."""
        return np.array(self.counts, np.int64).reshape(self.shape)

    @property
    def cell_weight(self) -> Floats:
        """Weight of the training rows in each cell, in any unit."""
        weight = np.array(self.shares or self.counts, np.float64)
        return weight.reshape(self.shape)

    @property
    def importance(self) -> float:
        """Mean absolute value over the training rows, by their weights."""
        weights = self.shares or self.counts
        total = math.fsum(weights)
        if total == 0:
            return 0.0
        parts = zip(self.values, weights, strict=True)
        return math.fsum(abs(value) * (weight / total) for value, weight in parts)

    def check_features(self, n_features: int) -> None:
        """Raise ValueError if it reads a feature that is not one of so many."""
        if max(self.features, default=0) >= n_features:
            raise ValueError(
                f"a {self.name} uses feature {max(self.features)}, but there are {n_features}"
            )

    def importances(self) -> dict[int, float]:
        """`importance`, the same part of it for each feature."""
        return dict.fromkeys(self.features, self.importance / len(self.features))

    def as_term(self) -> Term:
        """Itself."""
        return self

    def with_values(self, values: Array) -> Term:
        """The same cells with other values, whose errors are not known."""
        return replace(self, values=tuple(np.ravel(values).tolist()), errors=())

    def bins(self, axis: int, x: Array) -> Integers:
        """Bin of each value of one of the features."""
        return _bins(np.asarray(x, np.float64), np.array(self.cuts[axis]), self.categorical[axis])

    def __call__(self, X: Any) -> Floats:
        """Value of each row."""
        columns = [X[:, feature] for feature in self.features]
        if scipy.sparse.issparse(X):
            columns = [X[:, [feature]].toarray()[:, 0] for feature in self.features]
        return self.table[tuple(self.bins(axis, x) for axis, x in enumerate(columns))]

    def on(self, table: Table) -> Floats:
        """Value of each row, from the codes where the cuts are among those of the table."""
        lookups = []
        for axis, feature in enumerate(self.features):
            lookup = bins_of_codes(self.cuts[axis], self.categorical[axis], table.bins, feature)
            if lookup is None:
                return self(table.rows())
            lookups.append(lookup[table.codes[feature]])
            table.release(np.array([feature]))
        return self.table[tuple(lookups)]

    def __str__(self) -> str:
        which = " and ".join(map(str, self.features))
        return f"Term({' x '.join(map(str, self.shape))} cells of features {which})"


def bins_of_codes(cuts: Sequence[float], named: bool, bins: Bins, feature: int) -> Integers | None:
    """Bin of a term for each of the 256 codes of a table; None where a bin would be divided.

    >>> bins = Bins((np.array([1.0, 2.0, 3.0]),), np.zeros(1), np.ones(1), np.zeros(1, bool))
    >>> bins_of_codes((2.0,), False, bins, 0)[[0, 1, 2, 3, 255]]
    array([0, 0, 1, 1, 2])
    """
    own = np.array(cuts, np.float64)
    if named:
        if feature not in bins.categories:
            return None
        codes = np.full(256, own.size, np.int64)
        kept = bins.categories[feature]
        if not np.isin(own, kept).all():
            return None
        found = np.searchsorted(own, kept)
        known = np.isin(kept, own)
        codes[: kept.size][known] = found[known]
        return codes
    grid = bins.cuts[feature]
    if feature in bins.categories or not np.isin(own, grid).all():
        return None
    codes = np.full(256, own.size, np.int64)
    codes[1 : grid.size + 1] = np.searchsorted(own, grid, side="right")
    codes[0] = 0
    codes[MISSING] = own.size + 1
    return codes


def joined_cuts(terms: Sequence[Term]) -> tuple[tuple[float, ...], ...]:
    """All cuts of terms of the same features."""
    return tuple(
        tuple(np.unique(np.concatenate([np.array(term.cuts[axis]) for term in terms])).tolist())
        for axis in range(len(terms[0].features))
    )


def spread(term: Term, cuts: tuple[tuple[float, ...], ...]) -> Floats:
    """The table of a term on finer cuts."""
    maps = [
        _map_of(np.array(own), named, np.array(grid))
        for own, named, grid in zip(term.cuts, term.categorical, cuts, strict=True)
    ]
    return term.table[np.ix_(*maps)]


def _bins(x: Floats, cuts: Floats, named: bool) -> Integers:
    if named:
        x = np.floor(x)  # as trees read categories
        at = np.minimum(np.searchsorted(cuts, x), max(cuts.size - 1, 0))
        same = cuts[at] == x if cuts.size else np.zeros(x.shape, bool)
        return np.where(same, at, cuts.size)
    return np.where(np.isnan(x), cuts.size + 1, np.searchsorted(cuts, x, side="left"))


def _check_cuts(cuts: tuple[float, ...], named: bool) -> None:
    if any(one >= other for one, other in pairwise(cuts)):
        raise ValueError("the cuts of a term must rise")
    if not all(map(math.isfinite, cuts)):
        raise ValueError("a term has a cut that is not finite")
    if named and not all(0 <= each < MOST_CATEGORIES and each == int(each) for each in cuts):
        raise ValueError("the categories of a term must be whole numbers from 0")


# -- many terms at once ----------------------------------------------------------------------


class TermTables:
    """Terms with their weights, laid out for scoring many rows.

    Every feature in use is looked up once among the cuts of all terms; each term then costs one
    look-up. O(features · log cuts + terms) for a row, whatever the number of rounds.

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
        # A feature may be ordered in one term and categories in another: two columns then.
        keys = sorted({(feature, named) for feature, _, named in axes})
        grids = {key: np.unique(np.array([cut for f, cuts, n in axes if (f, n) == key
                                          for cut in cuts])) for key in keys}  # fmt: skip
        column = {key: j for j, key in enumerate(keys)}
        self._feature = np.array([feature for feature, _ in keys], np.int64)
        self._named = np.array([named for _, named in keys], np.bool_)
        self._grid_start = _starts([grids[key].size for key in keys])
        self._grid = np.concatenate([*(grids[key] for key in keys), np.zeros(0)])
        self._column = np.full((len(terms), 2), -1, np.int64)
        self._map_start = np.zeros((len(terms), 2), np.int64)
        maps: list[Integers] = []
        size = 0
        for number, term in enumerate(terms):
            for axis, key in enumerate(zip(term.features, term.categorical, strict=True)):
                stride = term.shape[1] if axis == 0 and len(term.shape) == 2 else 1
                own = stride * _map_of(np.array(term.cuts[axis]), key[1], grids[key])
                self._column[number, axis], self._map_start[number, axis] = column[key], size
                maps.append(own)
                size += own.size
        self._map = np.concatenate([*maps, np.zeros(0, np.int64)])
        self._value_start = _starts([len(term.values) for term in terms])
        parts = zip(terms, weights, strict=True)
        self._value = np.concatenate([*(w * np.array(t.values) for t, w in parts), np.zeros(0)])

    def add_to(self, scores: Floats, X: Array, context: Context | None = None) -> None:
        """Add the weighted terms to the scores, in their order."""
        (context or Context(1)).run(
            _score_rows, X.shape[0], X, self._feature, self._named, self._grid_start, self._grid,
            self._column, self._map_start, self._map, self._value_start, self._value, scores,
            small=is_small("heavy rows", X.shape[0]),
        )  # fmt: skip


def _starts(sizes: Sequence[int]) -> Integers:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _map_of(own: Floats, named: bool, grid: Floats) -> Integers:
    """Bin of a term for every interval between the cuts of all: between them, and missing."""
    if named:
        return np.append(np.where(np.isin(grid, own), np.searchsorted(own, grid), own.size),
                         own.size).astype(np.int64)  # fmt: skip
    inside = np.searchsorted(own, grid, side="right")
    return np.concatenate([[0], inside, [own.size + 1]]).astype(np.int64)


# -- kernels ---------------------------------------------------------------------------------


@njit(**INNER)
def _bin(x: float, named: bool, grid: Floats, begin: int, count: int) -> int:
    """How many cuts lie below x, one more than cuts if missing; or the number of a category."""
    if np.isnan(x):
        return count if named else count + 1
    if named:
        x = np.floor(x)  # as trees read categories
    below, left = 0, count
    while left > 0:
        half = (left + 1) // 2
        below += half * (x > grid[begin + below + half - 1])
        left -= half
    if named and (below == count or grid[begin + below] != x):
        return count
    return below


@njit(cache=True, nogil=True)
def _score_rows(
    low: int, high: int, X: Array, feature: Integers, named: Array, grid_start: Integers,
    grid: Floats, column: Integers, map_start: Integers, bin_of: Integers, value_start: Integers,
    value: Floats, scores: Floats,
) -> None:  # fmt: skip
    """Add every term, block of rows by block of rows."""
    bins = np.empty((feature.size, 256), np.int64)
    for first in range(low, high, 256):
        size = min(256, high - first)
        for j in range(feature.size):
            begin, count = grid_start[j], grid_start[j + 1] - grid_start[j]
            for i in range(size):
                x = np.float64(X[first + i, feature[j]])
                bins[j, i] = _bin(x, named[j], grid, begin, count)
        for t in range(column.shape[0]):
            one, other = bins[column[t, 0]], bins[max(column[t, 1], 0)]
            start, second = map_start[t, 0], map_start[t, 1]
            if column[t, 1] < 0:
                for i in range(size):
                    scores[first + i] += value[value_start[t] + bin_of[start + one[i]]]
            else:
                for i in range(size):
                    cell = bin_of[start + one[i]] + bin_of[second + other[i]]
                    scores[first + i] += value[value_start[t] + cell]
