"""Features as binned columns: what the search for weak rankers reads.

A `Bins` holds the cut points of every feature, chosen once; a `Table` holds the rows of one
data set in the order of an arrangement, one byte a cell, column by column. Code c of a
feature means that the value exceeds exactly c cut points; 255 means missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from numba import njit
from numpy.typing import NDArray

from precede.engine.exact import SCALE, exact_sum, to_integers
from precede.engine.histogram import Histograms
from precede.engine.workers import Workers, is_small

__all__ = [
    "MISSING",
    "MOST_CATEGORIES",
    "Bins",
    "Table",
    "choose_categories",
    "choose_cuts",
    "encode",
    "encode_categories",
    "integer_weights",
    "mix_codes",
]

Floats = NDArray[np.float64]

MISSING = 255
MAX_BINS = 255
# Larger numbers of categories are mistakes, or files that mean harm.
MOST_CATEGORIES = 1 << 24
# Bytes of a row copied at a time while binning: one cache line.
LINE = 64


@dataclass(frozen=True)
class Bins:
    """Cut points of every feature.

    A column with at most `max_bins` distinct values is represented exactly: there is a cut
    between each two neighbours. Other columns are cut so that the bins hold about equal
    weight; a value that is heavier than a bin has a bin to itself. A cut lies halfway
    between two values of the data, so that new values in between fall to the nearer side.

    Attributes
    ----------
    cuts : one increasing array of at most 254 numbers per feature
    low, high : least and greatest value of each feature (NaN where there is none)
    has_missing : whether a feature had missing values
    categories : for features that are categories, those that have a bin of their own, in rising
        order; code c is category c of these, and 255 any other
    """

    cuts: tuple[Floats, ...]
    low: Floats
    high: Floats
    has_missing: NDArray[np.bool_]
    categories: Mapping[int, Floats] = field(default_factory=dict)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.cuts)

    @property
    def n_bins(self) -> NDArray[np.int64]:
        """Number of bins of finite values of each feature."""
        return np.array([cut.size + 1 for cut in self.cuts], np.int64)

    def encode(self, feature: int, values: Floats, codes: NDArray[np.uint8]) -> None:
        """Write the code of every value of a feature."""
        if feature in self.categories:
            encode_categories(values, self.categories[feature], codes)
        else:
            encode(values, self.cuts[feature], codes)


class Table:
    """Rows of one data set as binned columns.

    Attributes
    ----------
    codes : uint8 array (features, places), each feature contiguous
    bins : the cut points the codes refer to
    order : row of `X` for each place
    X : the raw values, not copied, for rankers that are not made of bins
    streamed : whether the codes are on disk, so that few columns should be in use at a time
    """

    streamed: ClassVar[bool] = False

    def __init__(self, X: Any, codes: NDArray[np.uint8], bins: Bins, order: NDArray):
        self.X = X
        self.codes = codes
        self.bins = bins
        self.order = order

    @classmethod
    def build(
        cls,
        X: Any,
        *,
        order: NDArray | None = None,
        weight: Floats | None = None,
        max_bins: int = MAX_BINS,
        categorical: Sequence[int] = (),
        workers: Workers | None = None,
    ) -> Table:
        """Choose cut points from the rows `order` of X and bin those rows.

        `weight` is one number per place; `categorical` are the numbers of the features whose
        values are categories. O(n log n) time for each feature, memory for the
        codes and a few columns.

        >>> import numpy as np
        >>> table = Table.build(np.array([[1.0], [np.nan], [3.0], [1.0]]))
        >>> table.bins.cuts[0], table.codes
        (array([2.]), array([[  0, 255,   1,   0]], dtype=uint8))
        """
        if not isinstance(max_bins, Integral) or not 2 <= max_bins <= MAX_BINS:
            raise ValueError(f"max_bins={max_bins!r} is out of range; use 2 to {MAX_BINS}")
        order = np.arange(X.shape[0]) if order is None else order
        integers = integer_weights(weight)
        codes = np.empty((X.shape[1], order.size), np.uint8)
        cuts: list[Floats] = []
        ends: list[tuple[float, float, bool]] = []
        categories: dict[int, Floats] = {}

        def bin_column(values: Floats, feature: int) -> tuple[Floats, tuple[float, float, bool]]:
            if feature in categorical:
                kept = choose_categories(values, integers, int(max_bins), feature)
                categories[feature] = kept
                encode_categories(values, kept, codes[feature])
                ends = (kept[0], kept[-1]) if kept.size else (np.nan, np.nan)
                missing = bool((codes[feature] == MISSING).any())
                return kept[:-1] / 2 + kept[1:] / 2, (float(ends[0]), float(ends[1]), missing)
            cut, end = choose_cuts(values, integers, int(max_bins))
            encode(values, cut, codes[feature])
            return cut, end

        pool = workers or Workers(1)
        for first, columns in _column_groups(X, order, pool):
            found = pool.run(
                lambda low, high, c=columns, f=first: [
                    bin_column(c[j], f + j) for j in range(low, high)
                ],
                len(columns),
                small=is_small("rows", order.size),
            )
            for cut, end in (pair for part in found for pair in part):
                cuts.append(cut)
                ends.append(end)
        low, high, missing = (np.array(column) for column in zip(*ends, strict=True))
        bins = Bins(tuple(cuts), low, high, missing.astype(bool), categories)
        return cls(X, codes, bins, order)

    @classmethod
    def like(
        cls, X: Any, bins: Bins, *, order: NDArray | None = None, workers: Workers | None = None
    ) -> Table:
        """Bin other rows by cut points already chosen: O(n log bins) for each feature."""
        order = np.arange(X.shape[0]) if order is None else order
        codes = np.empty((X.shape[1], order.size), np.uint8)
        for first, columns in _column_groups(X, order, workers or Workers(1)):
            for j, values in enumerate(columns):
                bins.encode(first + j, values, codes[first + j])
        return cls(X, codes, bins, order)

    @property
    def n_places(self) -> int:
        """Number of rows in the table."""
        return int(self.codes.shape[1])

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.codes.shape[0])

    def histogram(self, pull: Floats) -> Floats:
        """Sum the pull over every bin of every feature: shape (features, 256).

        Column 255 holds the missing values. This is the only thing a search over bins needs
        of the data; it is a sum, so it may be taken over blocks of rows in any order and
        added up, to the same bits.
        """
        return self.integer_histogram(to_integers(pull)) / SCALE

    def integer_histogram(
        self, integers: NDArray[np.int64], features: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """Sum integers over every bin of every feature, or of some: O(n) for each."""
        return Histograms(self).sums(integers, features)

    def release(self, features: NDArray[np.int64]) -> None:
        """Say that the codes of these features are not needed for a while."""

    def column(self, feature: int) -> Floats:
        """Raw values of one feature, in the order of the places."""
        column = np.empty((1, self.order.size))  # float64, whatever X is
        _gather(self.X, self.order, feature, column, 0, self.order.size)
        return column[0]

    def rows(self) -> NDArray:
        """Raw rows in the order of the places: a copy, for rankers that know nothing of bins."""
        rows = self.X[self.order]
        return rows.toarray() if scipy.sparse.issparse(rows) else rows

    def keys(self, weight: Floats, workers: Workers) -> NDArray[np.uint64]:
        """Give every place a number that depends on its codes and weight alone.

        Places are sorted by it inside each level, so that the order of the user's rows
        leaves no trace in any sum.
        """
        keys = weight.astype(np.float64).view(np.uint64).copy()
        workers.run(
            mix_codes, self.n_places, self.codes, keys, small=is_small("rows", self.n_places)
        )
        return keys

    def reorder(self, old: NDArray) -> Table:
        """Move the places, in place: new place p was place ``old[p]``."""
        for feature in range(self.n_features):
            self.codes[feature] = self.codes[feature][old]
        self.order = self.order[old]
        return self

    def block(self, places: NDArray | slice) -> Table:
        """Some of the places as a table of their own."""
        return Table(self.X, self.codes[:, places], self.bins, self.order[places])


def integer_weights(weight: Floats | None, total: float | None = None) -> NDArray[np.int64] | None:
    """Weights as integers, so that sums over equal values do not depend on their order.

    None stands for equal weights. `total` is their sum, if others have weights as well.
    """
    if weight is None or (total is None and bool((weight == weight[:1]).all())):
        return None
    # A total of 2^53 leaves room for the products with the number of bins.
    exponent = int(np.frexp(exact_sum(weight) if total is None else total)[1])
    return np.rint(np.ldexp(weight, 53 - exponent)).astype(np.int64)


def _column_groups(X: Any, order: NDArray, workers: Workers) -> Iterator[tuple[int, NDArray]]:
    """A few columns at a time as contiguous rows, in the order of the places."""
    group = max(1, LINE // X.dtype.itemsize)
    columns = np.empty((group, order.size), X.dtype)
    for first in range(0, X.shape[1], group):
        width = min(group, X.shape[1] - first)
        part = columns[:width]
        workers.run(
            lambda low, high, f=first, p=part: _gather(X, order, f, p, low, high),
            order.size,
            small=is_small("rows", order.size) or scipy.sparse.issparse(X),
        )
        yield first, part


def _gather(X: Any, order: NDArray, first: int, out: NDArray, low: int, high: int) -> None:
    """Copy columns first, first+1, ... of X, rows ``order[low:high]``, into the rows of out."""
    if scipy.sparse.issparse(X):
        for j in range(len(out)):
            out[j, low:high] = X[:, [first + j]].toarray()[order[low:high], 0]
    else:
        _gather_dense(X, order, first, out, low, high)


def choose_cuts(
    values: Floats, weight: NDArray[np.int64] | None, max_bins: int
) -> tuple[Floats, tuple[float, float, bool]]:
    """Cut points of one column, with its least and greatest value and whether some miss."""
    if weight is None:
        ordered = np.sort(values)  # missing values come last
        heavy = np.ones(1, np.int64)
    else:
        by_value = np.argsort(values, kind="stable")
        ordered, heavy = values[by_value], weight[by_value]
    finite = ordered.size - int(np.isnan(values).sum())
    missing = finite < ordered.size
    if finite == 0:
        return np.zeros(0), (np.nan, np.nan, missing)
    cut = _cut_points(ordered[:finite], heavy, max_bins)
    # Adding 0 turns -0 into 0: equal values, but the order of the rows would show.
    return cut, (float(ordered[0]) + 0.0, float(ordered[finite - 1]) + 0.0, missing)


def choose_categories(
    values: Floats, weight: NDArray[np.int64] | None, max_bins: int, feature: int
) -> Floats:
    """The heaviest categories of a column, one fewer than bins, in rising order.

    >>> choose_categories(np.array([3.0, 7, 7, 5, 5, np.nan]), None, 3, 0)
    array([5., 7.])
    """
    found = values[~np.isnan(values)].astype(np.float64)
    if found.size and not (
        found.min() >= 0 and found.max() < MOST_CATEGORIES and (found == np.floor(found)).all()
    ):
        raise ValueError(
            f"column {feature} is a categorical feature with values from {found.min():g} to "
            f"{found.max():g}; number its categories 0, 1, 2, ... (NaN is missing)"
        )
    heavy = None if weight is None else weight[~np.isnan(values)]
    distinct, number = np.unique(found + 0.0, return_inverse=True)  # -0 is 0
    total = np.zeros(distinct.size, np.int64)
    np.add.at(total, number, 1 if heavy is None else heavy)
    return np.sort(distinct[np.argsort(-total, kind="stable")[: max_bins - 1]])


def encode_categories(values: Floats, kept: Floats, codes: NDArray[np.uint8]) -> None:
    """Write the number of every value among the categories that are kept; 255 for any other.

    >>> codes = np.empty(3, np.uint8)
    >>> encode_categories(np.array([7.0, np.nan, 6.0]), np.array([5.0, 7.0]), codes)
    >>> codes
    array([  1, 255, 255], dtype=uint8)
    """
    if not kept.size:
        codes[:] = MISSING
        return
    number = np.minimum(np.searchsorted(kept, values), kept.size - 1)
    codes[:] = np.where(kept[number] == values, number, MISSING)


def encode(values: Floats, cuts: Floats, codes: NDArray[np.uint8]) -> None:
    """Write the code of every value: how many cuts lie below it; 255 if it is missing.

    >>> codes = np.empty(3, np.uint8)
    >>> encode(np.array([0.0, np.nan, 9.0]), np.array([2.0, 4.0]), codes)
    >>> codes
    array([  0, 255,   2], dtype=uint8)
    """
    # Infinities after the cuts, so that the search needs no end.
    _encode(values, np.append(cuts, np.full(256 - cuts.size, np.inf)), codes)


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _gather_dense(X, order, first, out, low, high):
    """Sixty-four rows at a time, so that a cache line read for one column serves the next."""
    for block in range(low, high, 64):
        end = min(block + 64, high)
        for j in range(out.shape[0]):
            for place in range(block, end):
                out[j, place] = X[order[place], first + j]


@njit(cache=True, nogil=True)
def _cut_points(ordered, weight, max_bins):
    """Cuts between distinct values, or bins of about equal weight if there are too many.

    ::

        values   a a a b c c c c c c c c d e e f ...
        bins     [ a b ] [ c, heavier than a bin ] [ d e f ...
    """
    even = weight.size == 1
    distinct, total = 1, np.int64(0)
    for i in range(ordered.size):
        total += 1 if even else weight[i]
        if i > 0 and ordered[i] != ordered[i - 1]:
            distinct += 1
    cuts = np.empty(min(distinct, max_bins) - 1)
    count = 0
    left, bins, here = total, max_bins, np.int64(0)
    i = 0
    while i < ordered.size and count < cuts.size:
        value = ordered[i]
        while i < ordered.size and ordered[i] == value:
            here += 1 if even else weight[i]
            i += 1
        if i == ordered.size:
            break
        full = distinct <= max_bins or here * bins >= left
        if not full:  # a heavy value next starts a bin of its own
            ahead, j = np.int64(0), i
            while j < ordered.size and ordered[j] == ordered[i] and ahead * max_bins < total:
                ahead += 1 if even else weight[j]
                j += 1
            full = ahead * max_bins >= total
        if full:
            cut = np.float64(value) / 2 + np.float64(ordered[i]) / 2
            if not value <= cut < ordered[i]:
                cut = value
            cuts[count] = cut
            count += 1
            left -= here
            bins -= 1
            here = np.int64(0)
    return cuts[:count].copy()


@njit(cache=True, nogil=True)
def _encode(values, cuts, codes):
    """Number of cuts below each value, by a binary search without a branch or a loop.

    A loop over the eight steps is five times slower: the processor cannot see its end.
    """
    for place in range(values.size):
        value = values[place]
        below = 128 * (value > cuts[127])
        below += 64 * (value > cuts[below + 63])
        below += 32 * (value > cuts[below + 31])
        below += 16 * (value > cuts[below + 15])
        below += 8 * (value > cuts[below + 7])
        below += 4 * (value > cuts[below + 3])
        below += 2 * (value > cuts[below + 1])
        below += value > cuts[below]
        codes[place] = below if value == value else 255  # noqa: PLR0124  (false for NaN)


@njit(cache=True, nogil=True)
def mix_codes(low, high, codes, keys):
    """Let the codes of the places low..high, feature by feature, into their keys."""
    for feature in range(codes.shape[0]):
        column = codes[feature]
        for place in range(low, high):
            mixed = (keys[place] ^ np.uint64(column[place])) * np.uint64(0x9E3779B97F4A7C15)
            keys[place] = mixed ^ (mixed >> np.uint64(29))
