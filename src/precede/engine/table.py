"""Binned features, the input of the search for weak rankers.

A `Bins` holds the cut points of every feature, chosen once. A `Table` holds the rows of one data
set in the order of a `QueryLayout`, one byte per cell, column by column: code c of a feature means
that the value exceeds exactly c cut points, 255 that it is missing.

A GPU bins large columns itself: it sorts them as integers in the order of the floats, and one
thread per column finds the cut points by bisection. Cut points and codes are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import ClassVar, TypeVar

import numpy as np
import scipy.sparse

from precede.engine.arrays import (
    Array,
    BackendArray,
    Bytes,
    Flags,
    Floats,
    Integer,
    Integers,
    Keys,
    MatrixLike,
)
from precede.engine.backend import CPU, Backend
from precede.engine.compiling import INNER, njit
from precede.engine.exact import SCALE, exact_sum, splitmix64, to_integers
from precede.engine.execution import Context, threads_for
from precede.engine.histograms import GPU_GROUP, Histograms
from precede.engine.portable import fmin

Result = TypeVar("Result")
# Minimum and maximum of a column, and whether it has missing values.
ColumnRange = tuple[float, float, bool]

MISSING = 255
MAX_BINS = 255
# Categories are numbered below this; larger numbers are rejected as a mistake or a malicious file.
MAX_CATEGORIES = 1 << 24
# Bytes of the columns that are copied for binning at a time: a cache line of a row of X.
CACHE_LINE_BYTES = 64
# Columns of at least this many rows are radix-sorted; shorter ones do not pay for compiling it.
LARGE_COLUMN_ROWS = 1 << 16
# Distinct values are counted among this many of the smallest first; `max_bins` of them are enough.
DISTINCT_PROBE_ROWS = 1 << 12
# Bits per digit and number of digits of the radix sort: all bits of single precision.
DIGIT_BITS, N_DIGITS = 11, 3
DIGIT_MASK = (1 << DIGIT_BITS) - 1
# Fewest rows that are binned on a GPU, and bytes of columns that are sorted there at a time.
MIN_GPU_ROWS, MAX_SORTED_BYTES = 1 << 16, 1 << 31
# Floats per column that the kernel `cuts_of_*` returns: 256 cut points, their number, the least and
# the greatest value, and the number of values that are not missing.
CUT_FLOATS = 260
# By dtype: the suffix of the names of kernels and the type of the sort keys.
KEY_TYPES = {
    np.dtype(np.float32): ("singles", np.uint32),
    np.dtype(np.float64): ("doubles", np.uint64),
}


@dataclass(frozen=True, eq=False)
class FeatureBins:
    """Bins of one feature; see `Bins`. `categories` is None for a numerical feature."""

    cuts: Floats
    low: float
    high: float
    has_missing: bool
    categories: Floats | None = None

    @classmethod
    def choose(
        cls, values: Array, weight: Integers | None, max_bins: int, *, feature: int,
        categorical: bool,
    ) -> FeatureBins:  # fmt: skip
        """Choose the bins of a column of numbers or, if `categorical`, of categories.

        `weight` is one integer per value, None for equal weights; equal values may also be passed
        once, with the sum of their weights. Errors name the column `feature`. O(n log n).

        >>> column = np.array([4.0, 1, 4, np.nan])
        >>> FeatureBins.choose(column, None, 255, feature=0, categorical=False)
        FeatureBins(cuts=array([2.5]), low=1.0, high=4.0, has_missing=True, categories=None)
        """
        if not categorical:
            cuts, extent = choose_cuts(values, weight, max_bins)
            return cls(cuts, *extent)
        kept, extent = choose_categories(values, weight, max_bins, feature)
        return cls(kept[:-1] / 2 + kept[1:] / 2, *extent, kept)

    def encode(self, values: Array, codes: Bytes) -> None:
        """Write the code of each value into `codes`."""
        if self.categories is None:
            encode(values, self.cuts, codes)
        else:
            encode_categories(values, self.categories, codes)


@dataclass(frozen=True)
class Bins:
    """Cut points of every feature.

    A column with at most `max_bins` distinct values gets one bin for each. Other columns get bins
    of about equal weight, with a separate bin for each value heavier than a bin. A cut lies halfway
    between two values of the data.

    Attributes
    ----------
    cuts : one increasing array of at most 254 numbers per feature
    low, high : minimum and maximum of each feature (NaN if all values are missing)
    has_missing : whether a feature has missing values, or categories without a separate bin
    categories : for categorical features, the categories with a separate bin in increasing order;
        code c is the c-th of these, and 255 any other
    """

    cuts: tuple[Floats, ...]
    low: Floats
    high: Floats
    has_missing: Flags
    categories: Mapping[int, Floats] = field(default_factory=dict)

    @classmethod
    def of(cls, features: Sequence[FeatureBins]) -> Bins:
        """Combine the bins of all features."""
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
        """Number of bins of each feature, without the one for missing values."""
        return np.array([cut.size + 1 for cut in self.cuts], np.int64)

    def encode(self, feature: int, values: Floats, codes: Bytes) -> None:
        """Write the code of each value of a feature into `codes`."""
        extent = self.low[feature], self.high[feature], self.has_missing[feature]
        kept = self.categories.get(feature)
        FeatureBins(self.cuts[feature], *extent, kept).encode(values, codes)


class Table:
    """Rows of one data set as binned columns.

    Attributes
    ----------
    codes : uint8 array (features, rows), each feature contiguous; codes on a GPU are copied when
        they are first read
    bins : cut points the codes refer to
    order : row of `X` for each row of the table
    X : raw values, for weak rankers that do not use bins; not copied unless they are on a GPU
    streamed : whether the codes are on disk, so that few columns should be in use at a time
    """

    streamed: ClassVar[bool] = False

    def __init__(
        self,
        X: MatrixLike,
        codes: BackendArray,
        bins: Bins,
        order: Integers,
        backend: Backend = CPU,
    ) -> None:
        self.X, self.bins, self.order = X, bins, order
        self._backend, self._stored_codes = backend, codes
        self._codes: Bytes | None = None if backend.is_gpu else codes

    @classmethod
    def build(
        cls,
        X: MatrixLike,
        *,
        order: Integers | None = None,
        weight: Floats | None = None,
        max_bins: int = MAX_BINS,
        categorical: Sequence[int] = (),
        context: Context | None = None,
    ) -> Table:
        """Choose cut points from the rows `order` of X and bin those rows.

        `weight` is one number per row; `categorical` are the indices of the categorical features.
        O(n log n) time for each feature, memory for the codes and a few columns. Large tables of
        floats are binned on the GPU of the context, if it has one.

        >>> import numpy as np
        >>> table = Table.build(np.array([[1.0], [np.nan], [3.0], [1.0]]))
        >>> table.bins.cuts[0], table.codes
        (array([2.]), array([[  0, 255,   1,   0]], dtype=uint8))
        """
        check_max_bins(max_bins)
        context = context or Context(1)
        backend = context.backend
        order = np.arange(X.shape[0]) if order is None else order
        integers = integer_weights(weight)
        if backend.is_gpu and _fits_gpu(backend, X, order):
            columns, codes = _bin_on_gpu(backend, X, order, integers, int(max_bins), categorical)
            return cls(X, codes, Bins.of(columns), order, backend)
        X = backend.get(X)
        codes = np.empty((X.shape[1], order.size), np.uint8)

        def bin_column(values: Array, feature: int) -> FeatureBins:
            chosen = FeatureBins.choose(
                values, integers, int(max_bins), feature=feature,
                categorical=feature in categorical,
            )  # fmt: skip
            chosen.encode(values, codes[feature])
            return chosen

        return cls(X, codes, Bins.of(_map_columns(X, order, context, bin_column)), order)

    @classmethod
    def like(
        cls,
        X: MatrixLike,
        bins: Bins,
        *,
        order: Integers | None = None,
        context: Context | None = None,
    ) -> Table:
        """Bin other rows by existing cut points. O(n log bins) for each feature."""
        order = np.arange(X.shape[0]) if order is None else order
        codes = np.empty((X.shape[1], order.size), np.uint8)

        def bin_column(values: Array, feature: int) -> None:
            bins.encode(feature, values, codes[feature])

        _map_columns(X, order, context or Context(1), bin_column)
        return cls(X, codes, bins, order)

    @property
    def X(self) -> MatrixLike:  # noqa: N802
        """The raw values, copied from the GPU if need be."""
        return self._backend.get(self._X)

    @X.setter
    def X(self, X: MatrixLike) -> None:  # noqa: N802
        self._X = X

    @property
    def codes(self) -> Bytes:
        """The codes in main memory."""
        if self._codes is None:
            self._codes = self._backend.get(self._stored_codes)
        return self._codes

    @property
    def n_used_rows(self) -> int:
        """Number of rows in the table."""
        return int(self._stored_codes.shape[1])

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self._stored_codes.shape[0])

    def histogram(self, pull: Floats) -> Floats:
        """Return the sum of the pull over each bin of each feature, for weak rankers of users.

        The shape is (features, 256); column 255 holds the missing values. O(n) for each feature.
        """
        return Histograms(self).sums(to_integers(pull)) / SCALE

    def codes_on(self, backend: Backend, features: Integers) -> BackendArray:
        """Return the codes of some features on a backend, without a copy if possible."""
        if features[-1] - features[0] + 1 == features.size:  # a slice is not copied
            columns: slice | BackendArray = slice(int(features[0]), int(features[-1]) + 1)
        else:
            columns = self._backend.put(features)
        return backend.put(self._stored_codes[columns])

    def codes_by_row(self, backend: Backend, features: Integers) -> BackendArray:
        """Return the codes of some features on a GPU, row by row.

        The number of columns is a multiple of `GPU_GROUP`, of which there is at least one.
        """
        rows, width = self.n_used_rows, GPU_GROUP * max(1, -(-features.size // GPU_GROUP))
        codes = backend.zeros(rows, width, dtype=np.uint8)
        for first in range(0, features.size if rows else 0, GPU_GROUP):
            group = features[first : first + GPU_GROUP]
            columns = self.codes_on(backend, group)
            self.release(group)
            backend.launch(
                "transpose_codes", (-(-rows // GPU_GROUP), 1), (GPU_GROUP, GPU_GROUP),
                np.int64(rows), group.size, width, columns, codes.ravel()[first:],
            )  # fmt: skip
        return codes

    def release(self, features: Integers) -> None:
        """Allow the codes of these features to be dropped from memory."""

    def column(self, feature: int) -> Floats:
        """Return the raw values of one feature, in the order of the table."""
        column = np.empty((1, self.order.size))  # float64, whatever X is
        _copy_columns(self.X, self.order, feature, column, 0, self.order.size)
        return column[0]

    def rows(self) -> Array:
        """Return a copy of the raw rows, in the order of the table."""
        rows = self.X[self.order]
        return rows.toarray() if scipy.sparse.issparse(rows) else rows

    def keys(self, weight: Floats, context: Context) -> Keys:
        """Hash the codes and the weight of each row.

        Rows are sorted by these keys inside each level, so that sums do not depend on the order of
        the user's rows.
        """
        backend = self._backend
        keys: Keys = weight.astype(np.float64).view(np.uint64).copy()
        if backend.is_gpu:
            keys = backend.put(keys)
            backend.over_rows(
                "mix_codes", self.n_used_rows, self.n_features, self._stored_codes, keys
            )
            return backend.get(keys)
        if threads_for("cells", self.codes.size) == 1:
            for column in self.codes:  # like `mix_codes`, without compiling it
                mixed = (keys ^ column) * np.uint64(0x9E3779B97F4A7C15)
                keys = mixed ^ (mixed >> np.uint64(29))
            return keys
        context.run(
            mix_codes,
            self.n_used_rows,
            self.codes,
            keys,
            threads=threads_for("cells", self.codes.size),
        )
        return keys

    def keys_by_value(self, keys: Keys) -> Keys:
        """Hash the raw feature values into the keys. O(n) for each feature."""
        for feature in range(self.n_features):
            values = self.column(feature) + 0.0
            values[np.isnan(values)] = np.nan  # NaNs may differ in their bits
            keys = splitmix64(keys ^ values.view(np.uint64))
        return keys

    def reorder(self, old: Integers, context: Context | None = None) -> Table:
        """Reorder the rows in place: new row p was row ``old[p]``."""
        if self._backend.is_gpu:
            xp, order = self._backend.xp, self._backend.put(old)
            self._stored_codes, self._codes = xp.take(self._stored_codes, order, axis=1), None
        else:

            def reorder_columns(low: int, high: int) -> None:
                for column in self.codes[low:high]:
                    column[:] = column[old]

            threads = threads_for("cells", self.codes.size)
            (context or Context(1)).map(reorder_columns, self.n_features, threads=threads)
        self.order = self.order[old]
        return self

    def block(self, rows: Array | slice) -> Table:
        """Return a table of the selected rows, each feature contiguous."""
        codes = self.codes[:, rows]
        if not isinstance(rows, slice):  # indexing by an array returns Fortran order
            codes = np.ascontiguousarray(codes)
        return Table(self.X, codes, self.bins, self.order[rows])


def check_max_bins(max_bins: int) -> None:
    """Raise ValueError if `max_bins` is out of range."""
    if not isinstance(max_bins, Integral) or not 2 <= max_bins <= MAX_BINS:
        raise ValueError(f"max_bins={max_bins!r} is out of range; use 2 to {MAX_BINS}")


def integer_weights(weight: Floats | None, total: float | None = None) -> Integers | None:
    """Convert weights to integers, so that sums over equal values do not depend on their order.

    None stands for equal weights. `total` is the sum over all machines, if rows are distributed.
    """
    if weight is None or (total is None and bool((weight == weight[:1]).all())):
        return None
    # A total of 2^53 leaves room for products with the number of bins.
    exponent = int(np.frexp(exact_sum(weight) if total is None else total)[1])
    return np.rint(np.ldexp(weight, 53 - exponent)).astype(np.int64)


def _map_columns(
    X: MatrixLike,
    order: Integers,
    context: Context,
    bin_column: Callable[[Array, int], Result],
) -> list[Result]:
    """Return ``bin_column(values, feature)`` for each column of the rows `order`.

    Columns are copied in groups that fill a cache line of X.
    """
    width = max(1, CACHE_LINE_BYTES // X.dtype.itemsize)
    threads = threads_for("cells", width * order.size)
    buffer = np.empty((width, order.size), X.dtype)
    results: list[Result] = []
    for first in range(0, X.shape[1], width):
        group = buffer[: min(width, X.shape[1] - first)]
        context.map(
            lambda low, high, f=first, g=group: _copy_columns(X, order, f, g, low, high),
            order.size,
            threads=1 if scipy.sparse.issparse(X) else threads,
        )
        by_thread = context.map(
            lambda low, high, f=first, g=group: [bin_column(g[j], f + j) for j in range(low, high)],
            len(group),
            threads=threads,
        )
        results += [each for of_thread in by_thread for each in of_thread]
    return results


def _copy_columns(
    X: MatrixLike, order: Integers, first: int, out: Array, low: int, high: int
) -> None:
    """Copy columns first, first + 1, ... of X, rows ``order[low:high]``, into the rows of out."""
    if scipy.sparse.issparse(X):
        for j in range(len(out)):
            out[j, low:high] = X[:, [first + j]].toarray()[order[low:high], 0]
    elif threads_for("rows", order.size) == 1:  # not worth compiling the kernel
        out[:, low:high] = X[order[low:high], first : first + len(out)].T
    else:
        _copy_columns_dense(X, order, first, out, low, high)


def choose_cuts(
    values: Array, weight: Integers | None, max_bins: int
) -> tuple[Floats, ColumnRange]:
    """Return the cut points of one column, and its range."""
    ordered, ordered_weight = _sort_column(values, weight)
    missing = ordered.size < values.size
    if ordered.size == 0:
        return np.zeros(0), (np.nan, np.nan, missing)
    cuts = _cut_points(ordered, ordered_weight, max_bins)
    # Adding 0 turns -0 into 0; otherwise the result would depend on the order of the rows.
    return cuts, (float(ordered[0]) + 0.0, float(ordered[-1]) + 0.0, missing)


def _cut_points(ordered: Array, weight: Integers, max_bins: int) -> Floats:
    """Return cuts between all distinct values or, if too many, between bins of equal weight."""
    head = ordered[:DISTINCT_PROBE_ROWS]
    many = bool(np.count_nonzero(head[1:] != head[:-1]) >= max_bins)
    if not many:
        ends = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
        many = ends.size >= max_bins
    if many:
        ends = np.empty(max_bins - 1, np.int64)
        if weight.size == 1:
            count = _bin_ends_unweighted(ordered, max_bins, ends)
        else:
            count = _bin_ends_weighted(ordered, weight, int(weight.sum()), max_bins, ends)
        ends = ends[:count]
    below, above = ordered[ends - 1].astype(np.float64), ordered[ends].astype(np.float64)
    with np.errstate(invalid="ignore"):  # between two infinities
        cuts = below / 2 + above / 2
    between = (below <= cuts) & (cuts < above)
    return np.where(between, cuts, below + 0.0)  # 0, not -0, whichever came first


def choose_categories(
    values: Floats, weight: Integers | None, max_bins: int, feature: int
) -> tuple[Floats, ColumnRange]:
    """Return the ``max_bins - 1`` heaviest categories of a column in increasing order.

    Also returns their range, where other categories count as missing.

    >>> choose_categories(np.array([3.0, 7, 7, 5, 5, np.nan]), None, 3, 0)
    (array([5., 7.]), (5.0, 7.0, True))
    """
    present = values[~np.isnan(values)].astype(np.float64)
    if present.size and not (
        present.min() >= 0
        and present.max() < MAX_CATEGORIES
        and (present == np.floor(present)).all()
    ):
        raise ValueError(
            f"column {feature} is a categorical feature with values from {present.min():g} to "
            f"{present.max():g}; number its categories 0, 1, 2, ... (NaN is missing)"
        )
    present_weight = None if weight is None else weight[~np.isnan(values)]
    distinct, index = np.unique(present + 0.0, return_inverse=True)  # -0 becomes 0
    total = np.zeros(distinct.size, np.int64)
    np.add.at(total, index, 1 if present_weight is None else present_weight)
    kept = np.sort(distinct[np.argsort(-total, kind="stable")[: max_bins - 1]])
    other = present.size < values.size or distinct.size > kept.size
    low, high = (float(kept[0]), float(kept[-1])) if kept.size else (np.nan, np.nan)
    return kept, (low, high, other)


def encode_categories(values: Floats, kept: Floats, codes: Bytes) -> None:
    """Write the index of each value in the categories `kept`, 255 if not found.

    Values are rounded down to an integer, as in trees.

    >>> codes = np.empty(3, np.uint8)
    >>> encode_categories(np.array([7.0, np.nan, 6.0]), np.array([5.0, 7.0]), codes)
    >>> codes
    array([  1, 255, 255], dtype=uint8)
    """
    if not kept.size:
        codes[:] = MISSING
        return
    whole = np.floor(values)
    index = np.minimum(np.searchsorted(kept, whole), kept.size - 1)
    codes[:] = np.where(kept[index] == whole, index, MISSING)


def _sort_column(values: Array, weight: Integers | None) -> tuple[Array, Integers]:
    """Return the non-missing values in increasing order, and their weights ([1] if all equal)."""
    if values.size >= LARGE_COLUMN_ROWS and values.dtype in (np.float32, np.float64):
        found = _radix_sort(values, np.ones(1, np.int64) if weight is None else weight)
        if found is not None:
            return found
    present = values.size - int(np.isnan(values).sum())
    if weight is None:
        return np.sort(values)[:present], np.ones(1, np.int64)  # NaN comes last
    by_value = np.argsort(values, kind="stable")[:present]
    return values[by_value], weight[by_value]


def _radix_sort(values: Array, weight: Integers) -> tuple[Array, Integers] | None:
    """Radix-sort floats and drop NaNs; return them and their weights. O(n) for each digit.

    Doubles are sorted by their leading digits, then by insertion. Return None if that took too long
    and the values are not sorted.
    """
    unsigned = np.dtype(f"u{values.itemsize}")
    sign_bit = np.uint64(1) << np.uint64(8 * values.itemsize - 1)
    infinity = np.full(1, np.inf, values.dtype).view(unsigned)[0]
    n_weights = values.size if weight.size > 1 else 1
    keys, weights = np.empty((2, values.size), unsigned), np.ones((2, n_weights), np.int64)
    limits = np.array([sign_bit, np.uint64(infinity), ~np.uint64(0), np.uint64(0)])
    bits = np.ascontiguousarray(values).view(unsigned)
    count = _float_order_keys(bits, weight, limits, keys[0], weights[0])
    keys, weights = keys[:, :count], weights[:, : count if n_weights > 1 else 1]
    at, low, width = 0, limits[2], int(limits[3] - limits[2]).bit_length() if count else 0
    shift = max(0, width - N_DIGITS * DIGIT_BITS)
    counts = np.zeros((N_DIGITS, 1 << DIGIT_BITS), np.int64)
    _count_digits(keys[at], low, np.uint64(shift), counts)
    for digit, of_digit in enumerate(counts):
        if of_digit.max() < count:
            next_slot = np.cumsum(of_digit) - of_digit
            _sort_by_digit(
                keys[at], weights[at], low, np.uint64(shift + digit * DIGIT_BITS), next_slot,
                keys[1 - at], weights[1 - at],
            )  # fmt: skip
            at = 1 - at
    if shift and not _insertion_sort(keys[at], weights[at]):
        return None
    ordered, sign = keys[at], unsigned.type(sign_bit)
    first_positive = np.searchsorted(ordered, sign)
    np.negative(ordered[:first_positive], out=ordered[:first_positive])  # modulo twice the sign bit
    ordered[first_positive:] -= sign
    return ordered.view(values.dtype), weights[at]


def encode(values: Array, cuts: Floats, codes: Bytes) -> None:
    """Write the code of each value: the number of cuts below it, 255 if it is missing.

    >>> codes = np.empty(3, np.uint8)
    >>> encode(np.array([0.0, np.nan, 9.0]), np.array([2.0, 4.0]), codes)
    >>> codes
    array([  0, 255,   2], dtype=uint8)
    """
    # Padded by infinities to 256 cuts, so that the binary search has a fixed number of steps.
    _encode(values, np.append(cuts, np.full(256 - cuts.size, np.inf)), codes)


# -- binning on a GPU ------------------------------------------------------------------------


def _fits_gpu(backend: Backend, X: MatrixLike, order: Integers) -> bool:
    """Return whether the rows `order` of X can be binned on a GPU and are worth it."""
    dense = isinstance(X, np.ndarray) or backend.holds(X)
    if not dense or X.dtype not in KEY_TYPES or order.size < MIN_GPU_ROWS:
        return False
    cells = order.size * X.shape[1]
    sorted_bytes = min(MAX_SORTED_BYTES, cells * (X.itemsize + 8))
    return backend.has_room(X.nbytes + 32 * order.size + cells + 3 * sorted_bytes)


def _bin_on_gpu(
    backend: Backend,
    X: MatrixLike,
    order: Integers,
    weight: Integers | None,
    max_bins: int,
    categorical: Sequence[int],
) -> tuple[list[FeatureBins], BackendArray]:
    """Return the bins of every feature and the codes; categories are binned on the CPU."""
    kind, key_type = KEY_TYPES[X.dtype]
    by_columns = X.flags.f_contiguous and not X.flags.c_contiguous
    values, rows = backend.put(X.T if by_columns else X), order.size
    if not values.flags.c_contiguous:
        values = backend.xp.ascontiguousarray(values, values.dtype)
    steps = (1, X.shape[0]) if by_columns else (X.shape[1], 1)
    gpu_order, gpu_weight = backend.put(order), None if weight is None else backend.put(weight)
    codes = backend.empty(X.shape[1], rows, dtype=np.uint8)
    group = max(1, min(X.shape[1], MAX_SORTED_BYTES // (rows * (X.itemsize + 8))))
    features = []
    for first in range(0, X.shape[1], group):
        count = min(group, X.shape[1] - first)
        keys = backend.empty(count, rows, dtype=key_type)
        backend.launch(
            f"keys_of_{kind}", (-(-rows // 32), -(-count // 32)), (32, 32), np.int64(rows),
            count, values.ravel()[first * steps[1] :], *map(np.int64, steps), gpu_order, keys,
        )  # fmt: skip
        cuts = _choose_cuts_on_gpu(backend, kind, keys, gpu_weight, max_bins)
        backend.launch(
            f"codes_of_{kind}", (min(-(-rows // 256), 256), count), 256, np.int64(rows), keys,
            cuts, codes[first : first + count],
        )  # fmt: skip
        for found in backend.get(cuts):
            cut_count, low, high, present = found[256:].tolist()
            features.append(FeatureBins(found[: int(cut_count)].copy(), low, high, present < rows))
    for feature in categorical:
        column, encoded = backend.get(X[:, feature])[order], np.empty(rows, np.uint8)
        features[feature] = FeatureBins.choose(
            column, weight, max_bins, feature=feature, categorical=True
        )
        features[feature].encode(column, encoded)
        codes[feature] = backend.put(encoded)
    return features, codes


def _choose_cuts_on_gpu(
    backend: Backend, kind: str, keys: BackendArray, weight: BackendArray | None, max_bins: int
) -> BackendArray:
    """Return an array (columns, `CUT_FLOATS`) of cut points and statistics of columns of keys."""
    ordered, (count, rows) = keys.copy(), keys.shape
    weights = backend.empty(count if weight is not None else 0, rows, dtype=np.int64)
    for number, column in enumerate(ordered):
        if weight is None:
            column.sort()
        else:
            by_value = backend.xp.argsort(column)
            ordered[number], weights[number] = column[by_value], weight[by_value]
    cuts = backend.empty(count, CUT_FLOATS)
    backend.launch(
        f"cuts_of_{kind}", count, 1, np.int64(rows), count, max_bins, ordered,
        int(weight is not None), weights, cuts,
    )  # fmt: skip
    return cuts


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _copy_columns_dense(
    X: Array, order: Integers, first: int, out: Array, low: int, high: int
) -> None:
    """Copy 64 rows at a time, so that a cache line read for one column serves the next."""
    for begin in range(low, high, 64):
        end = fmin(begin + 64, high)
        for j in range(out.shape[0]):
            for row in range(begin, end):
                out[j, row] = X[order[row], first + j]


@njit(cache=True, nogil=True)
def _float_order_keys(
    bits: Array, weight: Integers, limits: Keys, keys: Array, weights: Integers
) -> int:
    """Write integers in the order of the floats, and their weights; return their number.

    Floats are stored as sign and magnitude. -0 and 0 get the same key; NaNs are dropped. `limits`
    are the sign bit, the magnitude of infinity, and the minimum and maximum of the keys.
    """
    sign_bit, infinity, low, high = limits[0], limits[1], limits[2], limits[3]
    count = np.int64(0)
    for i in range(bits.size):
        magnitude = np.uint64(bits[i]) & (sign_bit - np.uint64(1))
        key = sign_bit - magnitude if np.uint64(bits[i]) & sign_bit else sign_bit + magnitude
        keys[count] = key
        if weights.size > 1:
            weights[count] = weight[i]
        if magnitude <= infinity:
            count += 1
            low, high = key if key < low else low, key if key > high else high
    limits[2], limits[3] = low, high
    return count


@njit(cache=True, nogil=True)
def _count_digits(keys: Array, low: np.uint64, shift: np.uint64, counts: Integers) -> None:
    """Count the keys by each digit of their differences from the lowest."""
    for i in range(keys.size):
        digits = (np.uint64(keys[i]) - low) >> shift
        for digit in range(N_DIGITS):
            counts[digit, digits & np.uint64(DIGIT_MASK)] += 1
            digits >>= np.uint64(DIGIT_BITS)


@njit(cache=True, nogil=True)
def _sort_by_digit(
    keys: Array, weights: Integers, low: np.uint64, shift: np.uint64, next_slot: Integers,
    sorted_keys: Array, sorted_weights: Integers,
) -> None:  # fmt: skip
    """Sort keys and their weights by a digit; the order of equal digits is kept."""
    for i in range(keys.size):
        bucket = ((np.uint64(keys[i]) - low) >> shift) & np.uint64(DIGIT_MASK)
        slot = next_slot[bucket]
        sorted_keys[slot] = keys[i]
        if weights.size > 1:
            sorted_weights[slot] = weights[i]
        next_slot[bucket] = slot + 1


@njit(cache=True, nogil=True)
def _insertion_sort(keys: Array, weights: Integers) -> bool:
    """Sort nearly sorted keys by insertion; return False after too many moves."""
    moves, last = np.int64(0), weights.size - 1
    for i in range(1, keys.size):
        key, weight, at = keys[i], weights[fmin(i, last)], i
        while at > 0 and keys[at - 1] > key and moves < 4 * keys.size:
            keys[at] = keys[at - 1]
            if last > 0:
                weights[at] = weights[at - 1]
            at -= 1
            moves += 1
        keys[at] = key
        if last > 0:
            weights[at] = weight
    return moves < 4 * keys.size


@njit(cache=True, nogil=True)
def _bin_ends_unweighted(ordered: Array, max_bins: int, ends: Integers) -> int:
    """Write the ends of bins with about equal numbers of values; return the number of ends.

    ::

        values   a a a b c c c c c c c c d e e f ...
        bins     [ a b ] [ c, heavier than a bin ] [ d e f ...
    """
    count, left, bins = 0, ordered.size, max_bins
    i = np.int64(0)  # for a plain 0 numba would compile the callees once more
    while count < ends.size:
        end = _bin_end(ordered, i, left, bins, max_bins)
        if end == ordered.size:
            break
        ends[count] = end
        count += 1
        left -= end - i
        bins -= 1
        i = end
    return count


@njit(cache=True, nogil=True)
def _bin_ends_weighted(
    ordered: Array, weight: Integers, total: int, max_bins: int, ends: Integers
) -> int:
    """Like `_bin_ends_unweighted`, with bins of about equal weight."""
    count, left, bins = 0, total, max_bins
    i, bin_weight = np.int64(0), np.int64(0)
    while i < ordered.size and count < ends.size:
        value = ordered[i]
        while i < ordered.size and ordered[i] == value:
            bin_weight += weight[i]
            i += 1
        if i == ordered.size:
            break
        full = bin_weight * bins >= left
        if not full:  # a next value heavier than a bin gets a separate bin
            ahead = np.int64(0)
            j = i
            while j < ordered.size and ordered[j] == ordered[i] and ahead * max_bins < total:
                ahead += weight[j]
                j += 1
            full = ahead * max_bins >= total
        if full:
            ends[count] = i
            count += 1
            left -= bin_weight
            bins -= 1
            bin_weight = np.int64(0)
    return count


@njit(**INNER)
def _bin_end(ordered: Array, first: int, left: int, bins: int, max_bins: int) -> int:
    """Return the end of the bin that starts at `first`, for values of equal weight.

    The bin is full with the value at `target`, unless a value heavier than a bin comes first. Such
    a value occurs at least `heavy` times, so probing every `heavy`-th position finds it.
    """
    target = first + (left - 1) // bins
    heavy = (ordered.size - 1) // max_bins + 1
    position: int = first
    while position < target:
        position = fmin(position + heavy, target)
        start = _binary_search(ordered, ordered[position], first, position, np.int64(0))
        far = start + heavy - 1
        if start > first and far < ordered.size and ordered[far] == ordered[start]:
            return start
    return _binary_search(ordered, ordered[target], target, ordered.size, np.int64(1))


@njit(**INNER)
def _binary_search(ordered: Array, value: float, low: int, high: int, right: Integer) -> int:
    """Return the first position in low..high whose element is >= value, or > value if `right`.

    `right` is 0 or 1; for booleans numba would compile it twice.
    """
    while low < high:
        middle = (low + high) // 2
        if ordered[middle] < value or (right != 0 and ordered[middle] == value):
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def _encode(values: Array, cuts: Floats, codes: Bytes) -> None:
    """Count the cuts below each value, by a branch-free binary search.

    Unrolled by hand: a loop over the eight steps is five times slower.
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
def mix_codes(low: int, high: int, codes: Bytes, keys: Keys) -> None:
    """Hash the codes of the rows low..high into their keys, feature by feature."""
    for feature in range(codes.shape[0]):
        column = codes[feature]
        for row in range(low, high):
            mixed = (keys[row] ^ np.uint64(column[row])) * np.uint64(0x9E3779B97F4A7C15)
            keys[row] = mixed ^ (mixed >> np.uint64(29))
