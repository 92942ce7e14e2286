"""Features as binned columns: what the search for weak rankers reads.

A `Bins` holds the cut points of every feature, chosen once; a `Table` holds the rows of one
data set in the order of a layout, one byte a cell, column by column. Code c of a
feature means that the value exceeds exactly c cut points; 255 means missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse
from numba import njit
from numpy.typing import NDArray

from precede.engine.arrays import Array, Bytes, Flags, Floats, Integer, Integers
from precede.engine.compiling import INNER
from precede.engine.exact import SCALE, exact_sum, to_integers
from precede.engine.execution import Context, is_small
from precede.engine.hashing import splitmix64
from precede.engine.histograms.columns import Histograms
from precede.engine.portable_kernels import fmin

if TYPE_CHECKING:
    from precede.engine.cuda import Device

__all__ = [
    "MISSING",
    "MOST_CATEGORIES",
    "Bins",
    "FeatureBins",
    "Table",
    "check_max_bins",
    "choose_categories",
    "choose_cuts",
    "encode",
    "encode_categories",
    "integer_weights",
    "mix_codes",
]

# Least and greatest value of a column, and whether some are missing.
Ends = tuple[float, float, bool]

MISSING = 255
MAX_BINS = 255
# Larger numbers of categories are mistakes, or files that mean harm.
MOST_CATEGORIES = 1 << 24
# Bytes of a row copied at a time while binning: one cache line.
LINE = 64
# Columns of so many rows are sorted digit by digit, which for fewer would not pay for compiling.
MANY_ROWS = 1 << 16
# Columns with many distinct values are recognized by their least ones.
SOME = 1 << 12
# Bits of a digit, and how many digits are sorted by: all bits of single precision.
DIGIT, DIGITS = 11, 3


@dataclass(frozen=True, eq=False)
class FeatureBins:
    """The bins of one feature; see `Bins` for the attributes.

    `categories` is None if the values are numbers.
    """

    cuts: Floats
    low: float
    high: float
    has_missing: bool
    categories: Floats | None = None

    @classmethod
    def choose(
        cls, values: Array, weight: Integers | None, max_bins: int, *, feature: int, named: bool
    ) -> FeatureBins:
        """Choose the bins of a column of numbers or, if `named`, of categories.

        `weight` is one integer for each value, None for equal weights; equal values may also be
        given once, with the sum of their weights. O(n log n).

        >>> FeatureBins.choose(np.array([4.0, 1, 4, np.nan]), None, 255, feature=0, named=False)
        FeatureBins(cuts=array([2.5]), low=1.0, high=4.0, has_missing=True, categories=None)
        """
        if not named:
            cuts, ends = choose_cuts(values, weight, max_bins)
            return cls(cuts, *ends)
        kept, ends = choose_categories(values, weight, max_bins, feature)
        return cls(kept[:-1] / 2 + kept[1:] / 2, *ends, kept)

    def encode(self, values: Array, codes: Bytes) -> None:
        """Write the code of every value."""
        if self.categories is None:
            encode(values, self.cuts, codes)
        else:
            encode_categories(values, self.categories, codes)


@dataclass(frozen=True)
class Bins:
    """Cut points of every feature.

    A column with at most `max_bins` distinct values is represented exactly: there is a cut
    between each two neighbors. Other columns are cut so that the bins hold about equal
    weight; a value that is heavier than a bin has a bin to itself. A cut lies halfway
    between two values of the data, so that new values in between fall to the nearer side.

    Attributes
    ----------
    cuts : one increasing array of at most 254 numbers per feature
    low, high : least and greatest value of each feature (NaN where there is none)
    has_missing : whether a feature had missing values, or categories without a bin of their own
    categories : for features that are categories, those that have a bin of their own, in rising
        order; code c is category c of these, and 255 any other
    """

    cuts: tuple[Floats, ...]
    low: Floats
    high: Floats
    has_missing: Flags
    categories: Mapping[int, Floats] = field(default_factory=dict)

    @classmethod
    def of(cls, features: Sequence[FeatureBins]) -> Bins:
        """The bins of all features, in their order."""
        return cls(
            tuple(each.cuts for each in features),
            np.array([each.low for each in features]),
            np.array([each.high for each in features]),
            np.array([each.has_missing for each in features], np.bool_),
            {j: each.categories for j, each in enumerate(features) if each.categories is not None},
        )

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.cuts)

    @property
    def n_bins(self) -> Integers:
        """Number of bins of finite values of each feature."""
        return np.array([cut.size + 1 for cut in self.cuts], np.int64)

    def encode(self, feature: int, values: Floats, codes: Bytes) -> None:
        """Write the code of every value of a feature."""
        ends = self.low[feature], self.high[feature], self.has_missing[feature]
        kept = self.categories.get(feature)
        FeatureBins(self.cuts[feature], *ends, kept).encode(values, codes)


class Table:
    """Rows of one data set as binned columns.

    Attributes
    ----------
    codes : uint8 array (features, rows), each feature contiguous
    bins : the cut points the codes refer to
    order : row of `X` for each arranged row
    X : the raw values, not copied, for rankers that are not made of bins
    streamed : whether the codes are on disk, so that few columns should be in use at a time
    """

    streamed: ClassVar[bool] = False

    def __init__(self, X: Any, codes: Bytes, bins: Bins, order: Integers) -> None:
        self.X = X
        self.codes = codes
        self.bins = bins
        self.order = order

    @classmethod
    def build(
        cls,
        X: Any,
        *,
        order: Integers | None = None,
        weight: Floats | None = None,
        max_bins: int = MAX_BINS,
        categorical: Sequence[int] = (),
        context: Context | None = None,
    ) -> Table:
        """Choose cut points from the rows `order` of X and bin those rows.

        `weight` is one number per row; `categorical` are the numbers of the features whose
        values are categories. O(n log n) time for each feature, memory for the
        codes and a few columns.

        >>> import numpy as np
        >>> table = Table.build(np.array([[1.0], [np.nan], [3.0], [1.0]]))
        >>> table.bins.cuts[0], table.codes
        (array([2.]), array([[  0, 255,   1,   0]], dtype=uint8))
        """
        check_max_bins(max_bins)
        order = np.arange(X.shape[0]) if order is None else order
        integers = integer_weights(weight)
        codes = np.empty((X.shape[1], order.size), np.uint8)

        def bin_column(values: Array, feature: int) -> FeatureBins:
            chosen = FeatureBins.choose(
                values, integers, int(max_bins), feature=feature, named=feature in categorical
            )
            chosen.encode(values, codes[feature])
            return chosen

        bins = Bins.of(_for_columns(X, order, context or Context(1), bin_column))
        return cls(X, codes, bins, order)

    @classmethod
    def like(
        cls, X: Any, bins: Bins, *, order: Integers | None = None, context: Context | None = None
    ) -> Table:
        """Bin other rows by cut points already chosen: O(n log bins) for each feature."""
        order = np.arange(X.shape[0]) if order is None else order
        codes = np.empty((X.shape[1], order.size), np.uint8)

        def bin_column(values: Array, feature: int) -> None:
            bins.encode(feature, values, codes[feature])

        _for_columns(X, order, context or Context(1), bin_column)
        return cls(X, codes, bins, order)

    @property
    def n_used_rows(self) -> int:
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

    def integer_histogram(self, integers: Integers) -> Integers:
        """Sum integers over every bin of every feature: O(n) for each."""
        return Histograms(self).sums(integers)

    def codes_on(self, device: Device, features: Integers) -> Any:
        """Codes of some features in the memory of a device."""
        near = features[-1] - features[0] + 1 == features.size  # then nothing is copied here
        return device.put(self.codes[slice(features[0], features[-1] + 1) if near else features])

    def release(self, features: Integers) -> None:
        """Say that the codes of these features are not needed for a while."""

    def column(self, feature: int) -> Floats:
        """Raw values of one feature, in arranged order."""
        column = np.empty((1, self.order.size))  # float64, whatever X is
        _gather(self.X, self.order, feature, column, 0, self.order.size)
        return column[0]

    def rows(self) -> Array:
        """Raw rows in arranged order: a copy, for rankers that know nothing of bins."""
        rows = self.X[self.order]
        return rows.toarray() if scipy.sparse.issparse(rows) else rows

    def keys(self, weight: Floats, context: Context) -> NDArray[np.uint64]:
        """Give every row a number that depends on its codes and weight alone.

        Rows are sorted by it inside each level, so that the order of the user's rows
        leaves no trace in any sum.
        """
        keys = weight.astype(np.float64).view(np.uint64).copy()
        if is_small("cells", self.codes.size):
            for column in self.codes:  # as `mix_codes` does, which need not be compiled for this
                mixed = (keys ^ column) * np.uint64(0x9E3779B97F4A7C15)
                keys = mixed ^ (mixed >> np.uint64(29))
            return keys
        context.run(
            mix_codes, self.n_used_rows, self.codes, keys, small=is_small("rows", self.n_used_rows)
        )
        return keys

    def keys_by_value(self, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Keys that depend on the values of the features as well: O(n) for each."""
        for feature in range(self.n_features):
            values = self.column(feature) + 0.0
            values[np.isnan(values)] = np.nan  # whose bits may differ
            keys = splitmix64(keys ^ values.view(np.uint64))
        return keys

    def reorder(self, old: Integers) -> Table:
        """Reorder the rows, in place: new row p was row ``old[p]``."""
        for feature in range(self.n_features):
            self.codes[feature] = self.codes[feature][old]
        self.order = self.order[old]
        return self

    def block(self, rows: Array | slice) -> Table:
        """Some of the rows as a table of their own, each feature contiguous."""
        codes = self.codes[:, rows]
        if not isinstance(rows, slice):  # rows that are picked come in Fortran order
            codes = np.ascontiguousarray(codes)
        return Table(self.X, codes, self.bins, self.order[rows])


def check_max_bins(max_bins: int) -> None:
    """Refuse what is no number of bins."""
    if not isinstance(max_bins, Integral) or not 2 <= max_bins <= MAX_BINS:
        raise ValueError(f"max_bins={max_bins!r} is out of range; use 2 to {MAX_BINS}")


def integer_weights(weight: Floats | None, total: float | None = None) -> Integers | None:
    """Weights as integers, so that sums over equal values do not depend on their order.

    None stands for equal weights. `total` is their sum, if others have weights as well.
    """
    if weight is None or (total is None and bool((weight == weight[:1]).all())):
        return None
    # A total of 2^53 leaves room for the products with the number of bins.
    exponent = int(np.frexp(exact_sum(weight) if total is None else total)[1])
    return np.rint(np.ldexp(weight, 53 - exponent)).astype(np.int64)


def _for_columns(
    X: Any,
    order: Integers,
    context: Context,
    bin_column: Callable[[Array, int], Any],
) -> list[Any]:
    """Call ``bin_column(values, feature)`` for every column, in arranged order.

    A few columns are copied at a time, as many as fill a cache line of X.
    """
    small = is_small("rows", order.size)
    group = max(1, LINE // X.dtype.itemsize)
    columns = np.empty((group, order.size), X.dtype)
    found: list[Any] = []
    for first in range(0, X.shape[1], group):
        part = columns[: min(group, X.shape[1] - first)]
        context.run(
            lambda low, high, f=first, p=part: _gather(X, order, f, p, low, high),
            order.size,
            small=small or scipy.sparse.issparse(X),
        )
        parts = context.run(
            lambda low, high, f=first, p=part: [bin_column(p[j], f + j) for j in range(low, high)],
            len(part),
            small=small,
        )
        found += [each for answers in parts for each in answers]
    return found


def _gather(X: Any, order: Integers, first: int, out: Array, low: int, high: int) -> None:
    """Copy columns first, first+1, ... of X, rows ``order[low:high]``, into the rows of out."""
    if scipy.sparse.issparse(X):
        for j in range(len(out)):
            out[j, low:high] = X[:, [first + j]].toarray()[order[low:high], 0]
    elif is_small("rows", high - low):
        out[:, low:high] = X[order[low:high], first : first + len(out)].T
    else:
        _gather_dense(X, order, first, out, low, high)


def choose_cuts(values: Array, weight: Integers | None, max_bins: int) -> tuple[Floats, Ends]:
    """Cut points of one column, with its least and greatest value and whether some miss."""
    ordered, heavy = _sorted(values, weight)
    missing = ordered.size < values.size
    if ordered.size == 0:
        return np.zeros(0), (np.nan, np.nan, missing)
    cut = _cut_points(ordered, heavy, max_bins)
    # Adding 0 turns -0 into 0: equal values, but the order of the rows would show.
    return cut, (float(ordered[0]) + 0.0, float(ordered[-1]) + 0.0, missing)


def _cut_points(ordered: Array, weight: Integers, max_bins: int) -> Floats:
    """Cuts between distinct values, or bins of about equal weight if there are too many."""
    head = ordered[:SOME]
    many = bool(np.count_nonzero(head[1:] != head[:-1]) >= max_bins)
    if not many:
        ends = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
        many = ends.size >= max_bins
    if many:
        ends = np.empty(max_bins - 1, np.int64)
        if weight.size == 1:
            count = _ends_of_even_bins(ordered, max_bins, ends)
        else:
            count = _ends_of_heavy_bins(ordered, weight, int(weight.sum()), max_bins, ends)
        ends = ends[:count]
    below, above = ordered[ends - 1].astype(np.float64), ordered[ends].astype(np.float64)
    with np.errstate(invalid="ignore"):  # between two infinities
        cuts = below / 2 + above / 2
    between = (below <= cuts) & (cuts < above)
    return np.where(between, cuts, below + 0.0)  # 0, not -0, whichever came first


def choose_categories(
    values: Floats, weight: Integers | None, max_bins: int, feature: int
) -> tuple[Floats, Ends]:
    """The heaviest categories of a column, one fewer than bins, in rising order.

    With the least and the greatest of them, and whether a value is missing or any other category.

    >>> choose_categories(np.array([3.0, 7, 7, 5, 5, np.nan]), None, 3, 0)
    (array([5., 7.]), (5.0, 7.0, True))
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
    kept = np.sort(distinct[np.argsort(-total, kind="stable")[: max_bins - 1]])
    other = found.size < values.size or distinct.size > kept.size
    low, high = (float(kept[0]), float(kept[-1])) if kept.size else (np.nan, np.nan)
    return kept, (low, high, other)


def encode_categories(values: Floats, kept: Floats, codes: Bytes) -> None:
    """Write the number of every value among the categories that are kept; 255 for any other.

    A value between whole numbers is the category below it, as trees read it.

    >>> codes = np.empty(3, np.uint8)
    >>> encode_categories(np.array([7.0, np.nan, 6.0]), np.array([5.0, 7.0]), codes)
    >>> codes
    array([  1, 255, 255], dtype=uint8)
    """
    if not kept.size:
        codes[:] = MISSING
        return
    whole = np.floor(values)
    number = np.minimum(np.searchsorted(kept, whole), kept.size - 1)
    codes[:] = np.where(kept[number] == whole, number, MISSING)


def _sorted(values: Array, weight: Integers | None) -> tuple[Array, Integers]:
    """Values that are not missing in rising order, and their weights (1 stands for all)."""
    if values.size >= MANY_ROWS and values.dtype in (np.float32, np.float64):
        unsigned = np.uint32 if values.dtype == np.float32 else np.uint64
        bits = np.ascontiguousarray(values).view(unsigned)
        heavy = np.ones(1, np.int64) if weight is None else weight
        infinity = np.full(1, np.inf, values.dtype).view(unsigned)[0]
        keys, heavy, done = _sort_by_digits(bits, np.uint64(infinity), heavy)
        if done:
            return keys.view(values.dtype), heavy
    finite = values.size - int(np.isnan(values).sum())
    if weight is None:
        return np.sort(values)[:finite], np.ones(1, np.int64)  # missing values come last
    by_value = np.argsort(values, kind="stable")[:finite]
    return values[by_value], weight[by_value]


def encode(values: Array, cuts: Floats, codes: Bytes) -> None:
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
def _gather_dense(X: Array, order: Integers, first: int, out: Array, low: int, high: int) -> None:
    """Sixty-four rows at a time, so that a cache line read for one column serves the next."""
    for block in range(low, high, 64):
        end = fmin(block + 64, high)
        for j in range(out.shape[0]):
            for row in range(block, end):
                out[j, row] = X[order[row], first + j]


@njit(cache=True, nogil=True)
def _sort_by_digits(
    bits: Array, infinity: np.uint64, weight: Integers
) -> tuple[Array, Integers, bool]:
    """Sort floats, given as their bits, and leave out those that are missing: O(n) for a digit.

    Numbers of double precision are sorted by their leading digits, then by insertion. If that
    takes too long the last answer is False, and the others are of no use.
    """
    keys, heavy, low, high = _to_keys(bits, infinity, weight)
    if keys.size == 0:
        return keys, heavy, True
    spare, other = np.empty_like(keys), np.empty_like(heavy)
    length = 0
    while length < 64 and (high - low) >> np.uint64(length) != 0:
        length += 1
    shift = np.uint64(max(0, length - DIGITS * DIGIT))
    last = np.uint64((1 << DIGIT) - 1)
    sizes = np.zeros((DIGITS, 1 << DIGIT), np.int64)
    for i in range(keys.size):
        key = (np.uint64(keys[i]) - low) >> shift
        for digit in range(DIGITS):
            sizes[digit, (key >> np.uint64(digit * DIGIT)) & last] += 1
    for digit in range(DIGITS):
        if sizes[digit].max() == keys.size:
            continue
        at = np.cumsum(sizes[digit]) - sizes[digit]
        right = shift + np.uint64(digit * DIGIT)
        for i in range(keys.size):
            bucket = ((np.uint64(keys[i]) - low) >> right) & last
            spare[at[bucket]] = keys[i]
            if heavy.size > 1:
                other[at[bucket]] = heavy[i]
            at[bucket] += 1
        keys, spare = spare, keys
        heavy, other = other, heavy
    done = shift == 0 or _insert(keys, heavy)
    sign = np.uint64(1) << np.uint64(8 * keys.itemsize - 1)
    for i in range(keys.size):
        key = np.uint64(keys[i])
        keys[i] = key - sign if key >= sign else (sign - key) + sign
    return keys, heavy, done


@njit(**INNER)
def _to_keys(
    bits: Array, infinity: np.uint64, weight: Integers
) -> tuple[Array, Integers, np.uint64, np.uint64]:
    """Integers in the order of the floats, their weights, and the least and the greatest.

    A float is a sign and a size. -0 and 0 become one; missing values are left out.
    """
    even = weight.size == 1
    keys = np.empty_like(bits)
    heavy = np.ones(1 if even else bits.size, np.int64)
    sign = np.uint64(1) << np.uint64(8 * bits.itemsize - 1)
    count, low, high = 0, ~np.uint64(0), np.uint64(0)
    for i in range(bits.size):
        size = np.uint64(bits[i]) & (sign - np.uint64(1))
        key = sign - size if np.uint64(bits[i]) & sign else sign + size
        keys[count] = key
        if not even:
            heavy[count] = weight[i]
        if size <= infinity:
            count += 1
            low, high = min(low, key), max(high, key)
    return keys[:count], heavy if even else heavy[:count], low, high


@njit(**INNER)
def _insert(keys: Array, heavy: Integers) -> bool:
    """Sort by insertion what is nearly sorted; False if it is not."""
    moves, most = 0, 4 * keys.size
    for i in range(1, keys.size):
        key, weight, at = keys[i], heavy[min(i, heavy.size - 1)], i
        while at > 0 and keys[at - 1] > key and moves < most:
            keys[at] = keys[at - 1]
            if heavy.size > 1:
                heavy[at] = heavy[at - 1]
            at -= 1
            moves += 1
        keys[at] = key
        if heavy.size > 1:
            heavy[at] = weight
    return moves < most


@njit(cache=True, nogil=True)
def _ends_of_even_bins(ordered: Array, max_bins: int, ends: Integers) -> int:
    """Where bins end that hold about the same number of values; gives how many do.

    ::

        values   a a a b c c c c c c c c d e e f ...
        bins     [ a b ] [ c, heavier than a bin ] [ d e f ...
    """
    count, left, bins = 0, ordered.size, max_bins
    i = np.int64(0)  # numba would compile what it calls for a plain 0 as well
    while count < ends.size:
        end = _end_of_bin(ordered, i, left, bins, max_bins)
        if end == ordered.size:
            break
        ends[count] = end
        count += 1
        left -= end - i
        bins -= 1
        i = end
    return count


@njit(cache=True, nogil=True)
def _ends_of_heavy_bins(
    ordered: Array, weight: Integers, total: int, max_bins: int, ends: Integers
) -> int:
    """The same of values that differ in weight."""
    count, left, bins = 0, total, max_bins
    i, here = np.int64(0), np.int64(0)
    while i < ordered.size and count < ends.size:
        value = ordered[i]
        while i < ordered.size and ordered[i] == value:
            here += weight[i]
            i += 1
        if i == ordered.size:
            break
        full = here * bins >= left
        if not full:  # a heavy value next starts a bin of its own
            ahead = np.int64(0)
            j = i
            while j < ordered.size and ordered[j] == ordered[i] and ahead * max_bins < total:
                ahead += weight[j]
                j += 1
            full = ahead * max_bins >= total
        if full:
            ends[count] = i
            count += 1
            left -= here
            bins -= 1
            here = np.int64(0)
    return count


@njit(**INNER)
def _end_of_bin(ordered: Array, first: int, left: int, bins: int, max_bins: int) -> int:
    """Where the bin that starts at `first` ends, of values of equal weight.

    It is full with the value at `target`, unless a heavy value comes before: one that is there
    `heavy` times and so meets one of the positions that are looked at.
    """
    target = first + (left - 1) // bins
    heavy = (ordered.size - 1) // max_bins + 1
    position = first
    while position < target:
        position = fmin(position + heavy, target)
        start = _first_beyond(ordered, ordered[position], first, position, np.int64(0))
        far = start + heavy - 1
        if start > first and far < ordered.size and ordered[far] == ordered[start]:
            return start
    return _first_beyond(ordered, ordered[target], target, ordered.size, np.int64(1))


@njit(**INNER)
def _first_beyond(ordered: Array, value: float, low: int, high: int, equal: Integer) -> int:
    """First position from `low` on with more than the value, or as much unless `equal`; or `high`.

    `equal` is 0 or 1: for True and False numba would compile it twice.
    """
    while low < high:
        middle = (low + high) // 2
        if ordered[middle] < value or (equal != 0 and ordered[middle] == value):
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def _encode(values: Array, cuts: Floats, codes: Bytes) -> None:
    """Number of cuts below each value, by a binary search without a branch or a loop.

    A loop over the eight steps is five times slower: the processor cannot see its end.
    """
    for row in range(values.size):
        value = values[row]
        below = 128 * (value > cuts[127])
        below += 64 * (value > cuts[below + 63])
        below += 32 * (value > cuts[below + 31])
        below += 16 * (value > cuts[below + 15])
        below += 8 * (value > cuts[below + 7])
        below += 4 * (value > cuts[below + 3])
        below += 2 * (value > cuts[below + 1])
        below += value > cuts[below]
        codes[row] = below if value == value else 255  # noqa: PLR0124  (false for NaN)


@njit(cache=True, nogil=True)
def mix_codes(low: int, high: int, codes: Bytes, keys: NDArray[np.uint64]) -> None:
    """Let the codes of the rows low..high, feature by feature, into their keys."""
    for feature in range(codes.shape[0]):
        column = codes[feature]
        for row in range(low, high):
            mixed = (keys[row] ^ np.uint64(column[row])) * np.uint64(0x9E3779B97F4A7C15)
            keys[row] = mixed ^ (mixed >> np.uint64(29))
