"""What trees do to the rows of a node: move them, sum them up and search the sums for a split.

`RowHistograms` has the sums of sets of rows over the bins of all features: pull, Hessian and count
at once, from codes that stand row by row. `best_splits` searches such histograms. `divide` moves,
sums and searches in one call: threads that take turns to call several kernels wait for each other
longer than they work. All of them are one kernel, which is compiled once.

A leaf with pulls P and weights W in total (W in rows of mean weight) has the value

    v = S(P, alpha) / (W + lambda),   S(P, a) = sign(P) max(|P| - a, 0),

clipped to the bounds that monotone constraints have left, and the worth ``2 (P v - alpha |v|) -
(W + lambda) v²``, twice what it takes off the quadratic model of the risk (for alpha = 0 and no
bounds ``P² / (W + lambda)``). The gain of a split is the worth of the two children less that of
the node.

Candidates are compared in one order: by feature, by threshold, with missing values on the left
before missing values on the right. A later one must have a greater gain to be chosen. Gains are
functions of integer sums, so they have the same bits on any number of threads and machines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from precede.engine.arrays import Bytes, Flags, Floats, Integer, Integers, Rows, Signs
from precede.engine.compiling import INNER
from precede.engine.histogram import ABREAST
from precede.engine.packing import PackedRows
from precede.engine.workers import Workers, is_small

if TYPE_CHECKING:
    from precede.engine.table import Table

__all__ = [
    "ROUNDING",
    "RowHistograms",
    "best_splits",
    "count_left",
    "divide",
    "left_categories",
    "penalised_value",
    "scatter",
]


# Gains below this share of the worth of the children are rounding.
ROUNDING = 2.0**-36
# Words from one feature to the next where packed sums are made. With 256 the same bin of all
# features would fall into the same few lines of the cache, and most rows of a feature may share a
# bin: filling took 2.5 times as long.
STRIDE = 264
# Packed numbers of so few rows are added up unpacked: to go through all bins afterwards would take
# longer.
FEW_ROWS = 200
# How rows are added up: two words for each, packed ones unpacked, packed ones in blocks, packed
# ones that lie apart; or there is nothing to add up.
NONE, WIDE, FEW, DENSE, SCATTERED = range(-1, 4)

# Gain, feature, cut, way, and the two words of the sums on the left; a feature of -1 for none.
SplitFound = tuple[float, int, int, int, int, int]
# What the kernel is given where there is nothing to move or to sum.
NO_ROWS, NO_BYTES, NO_FLAGS = np.empty(0, np.int32), np.empty(0, np.uint8), np.empty(0, np.bool_)
NO_INTEGERS, NO_HISTOGRAM = np.empty(0, np.int64), np.empty((0, 2), np.int64)
NO_CODES, NO_WORDS = np.empty((0, 0), np.uint8), np.empty((0, 0), np.uint32)
NO_MOVE: tuple[Any, ...] = (0, 0, 0, 0, 0), NO_BYTES, NO_FLAGS, NO_ROWS, NO_INTEGERS
NO_SEARCH: tuple[Any, ...] = (
    (False, False), np.empty(0, np.bool_), np.empty(0, np.int8), np.empty(0, np.bool_), True,
    ((0, 0), (0, 0)), ((0.0, 0.0), (0.0, 0.0)), (1.0, 1.0, 1), (0.0, 0.0, 0.0), 0, 0.0,
)  # fmt: skip


class RowHistograms:
    """Sums of pull, weight and count over the bins of all features, for sets of rows.

    The codes are copied row by row, since trees look at ever smaller sets of rows. Four of them
    are read at once.

    Parameters
    ----------
    table : Table whose codes are read
    features : numbers of the features to look at
    workers : threads to share the work between

    Attributes
    ----------
    start : first bin of each feature in a histogram; its last bin, ``start[j] + n_bins[j]``, is
        for missing values, and bins from there to ``start[j + 1]`` stay empty
    n_bins : number of bins of each feature
    size : number of bins of all features
    codes : uint8 array (rows, features), filled up to a multiple of four features

    Examples
    --------
    >>> import numpy as np
    >>> from precede.engine.packing import pack_rows
    >>> from precede.engine.table import Table
    >>> table, workers = Table.build(np.array([[1.0], [3.0], [3.0], [np.nan]])), Workers(1)
    >>> histograms = RowHistograms(table, np.array([0]), workers)
    >>> numbers = pack_rows(np.array([0.5, 0.25, -0.25, -0.5]), np.ones(4), workers)
    >>> rows = np.arange(4, dtype=np.int32)
    >>> sums = histograms.sums(numbers, rows, numbers.packed, 0, 4)
    >>> sums[:3, 0] * numbers.pull_unit, sums[:3, 1] & 7
    (array([ 0.5,  0. , -0.5]), array([1, 2, 1]))
    """

    def __init__(self, table: Table, features: Integers, workers: Workers):
        self._workers = workers
        self.n_rows = table.n_arranged
        self.n_bins = table.bins.n_bins[features]
        # An odd number of cache lines (of four bins) each, for the reason given at STRIDE.
        sizes = ABREAST * (-(-(self.n_bins + 1) // ABREAST) | 1)
        self.start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.size = int(self.start[-1])
        words = max(1, -(-features.size // ABREAST))
        self.codes = np.zeros((self.n_rows, ABREAST * words), np.uint8)
        # From disk a few columns are read at a time.
        width = ABREAST * workers.jobs if table.streamed else max(1, features.size)
        for first in range(0, features.size, width):
            part = features[first : first + width]
            workers.run(
                _by_rows, self.n_rows, table.codes, part, self.codes[:, first:],
                small=is_small("cells", self.codes.size),
            )  # fmt: skip
            table.release(part)
        self._words = self.codes.view(np.uint32)
        self._block_size = ABREAST * words * STRIDE
        # Packed sums, all 0 between calls, and histograms: new memory takes longer than the sums.
        self._blocks: list[Integers] = []
        self._free: list[Integers] = []

    def sums(
        self, numbers: PackedRows, rows: Rows, packed: Integers, low: int, high: int
    ) -> Integers:
        """Histogram of the rows ``rows[low:high]``: O(features) for each of them.

        `packed` holds their packed numbers, in the order of `rows`. Returns an array (bins, 2):
        the sum of the pulls, and ``weight << count_bits | count``.
        """
        read = self.start, self.n_bins

        def part(first: int, last: int) -> Integers:
            block, sums = self.take_block(numbers), self.take()
            summing = *self.summing(numbers, low + first, low + last), block, sums
            given = *NO_MOVE, rows, packed, *summing, NO_HISTOGRAM, *read, *NO_SEARCH
            _work(*given)
            self.release_block(block)
            return sums

        small = is_small("cells", (high - low) * self.codes.shape[1])
        parts = self._workers.run(part, high - low, small=small)
        total = parts[0]
        for other in parts[1:]:
            total += other
            self.release(other)
        return total

    def summing(self, numbers: PackedRows, low: int, high: int) -> tuple[Any, ...]:
        """What `divide` needs to sum up rows low..high of a list."""
        if numbers.packed is None:
            form = WIDE
        elif high - low < FEW_ROWS:
            form = FEW
        else:
            # Rows that lie far apart are copied side by side first, several at a time.
            form = DENSE if 2 * (high - low) > self.n_rows else SCATTERED
        words = numbers.pull, numbers.weight_count
        given = (NO_INTEGERS if each is None else each for each in words)
        return (form, low, high, numbers.count_bits), self.codes, self._words, *given

    def take(self) -> Integers:
        """Memory for a histogram, which `divide` or `sums` clears; see `release`."""
        try:
            return self._free.pop()
        except IndexError:
            return np.empty((self.size, 2), np.int64)

    def release(self, sums: Integers) -> None:
        """Take back a histogram that nobody needs any more."""
        self._free.append(sums)

    def take_block(self, numbers: PackedRows) -> Integers:
        """Memory for packed sums, one for each thread at work; see `release_block`."""
        if numbers.packed is None:
            return NO_INTEGERS
        try:
            return self._blocks.pop()
        except IndexError:
            return np.zeros(self._block_size, np.int64)

    def release_block(self, block: Integers) -> None:
        """Take back what `take_block` gave."""
        if block.size:
            self._blocks.append(block)


def best_splits(
    smaller: Integers, larger: Integers, start: Integers, n_bins: Integers, search: tuple[Any, ...]
) -> tuple[SplitFound, SplitFound]:
    """Search two histograms, of which the second is that of a node, less the first.

    `search` is described at `divide`. O(bins).
    """
    summing = (NONE, 0, 0, 1), NO_CODES, NO_WORDS, NO_INTEGERS, NO_INTEGERS, NO_INTEGERS
    lists = NO_ROWS, NO_INTEGERS
    given = *NO_MOVE, *lists, *summing, smaller, larger, start, n_bins, *search
    return _work(*given)


def divide(
    move: tuple[Any, ...],
    summing: tuple[Any, ...],
    block: Integers,
    smaller: Integers,
    larger: Integers,
    layout: tuple[Integers, Integers],
    search: tuple[Any, ...],
) -> tuple[SplitFound, SplitFound]:
    """Move the rows of a node, sum up the smaller child, and find the best splits of both.

    Parameters
    ----------
    move : (low, middle, high, offset, step), column, side, and rows and packed numbers before and
        after: rows low..high go before or after `middle`, as `side` says of their codes, which
        are ``column[offset + step * row]``
    summing : what `RowHistograms.summing` gives for the smaller child
    block, smaller : memory of `RowHistograms` for packed sums and for the smaller child
    larger : histogram of the node, which becomes that of the larger child
    layout : `start` and `n_bins` of `RowHistograms`
    search : which of the two (smaller, larger) to search; features that may be split on; their
        directions; whether they are categories; whether penalties and constraints are those of
        the simple formula; sums and bounds of the two; and of `precede.rankers.splits.Rules` the
        units, the penalties, the least count and the least weight

    O(rows of the node + features * rows of the smaller child + bins).
    """
    given = *move, *summing, block, smaller, larger, *layout, *search
    return _work(*given)


assert (ABREAST, STRIDE, ROUNDING) == (4, 264, 2.0**-36), "the kernels below write these out"
assert (NONE, WIDE, FEW, DENSE, SCATTERED) == (-1, 0, 1, 2, 3), "and these"


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _by_rows(low: int, high: int, codes: Bytes, features: Integers, out: Bytes) -> None:
    """Copy columns to rows, 64 rows at a time."""
    for first in range(low, high, 64):
        last = min(first + 64, high)
        for j in range(features.size):
            column = codes[features[j]]
            for row in range(first, last):
                out[row, j] = column[row]


@njit(cache=True, nogil=True)
def count_left(
    low: int, high: int, column: Bytes, offset: int, step: int, side: Flags, rows: Rows
) -> int:
    """Number of rows low..high of a list that go left."""
    count = 0
    for i in range(low, high):
        count += 1 if side[column[offset + step * rows[i]]] else 0
    return count


@njit(cache=True, nogil=True)
def scatter(
    low: int, high: int, to_left: int, to_right: int, column: Bytes, offset: int, step: int,
    side: Flags, rows: Rows, packed: Integers, out: Rows, packed_out: Integers,
) -> None:  # fmt: skip
    """Copy rows and numbers low..high to where the left and the right ones begin."""
    moving = packed.size > 0
    for i in range(low, high):
        row = rows[i]
        left = 1 if side[column[offset + step * row]] else 0
        to = to_right + (to_left - to_right) * left  # no branch, which nobody could predict
        out[to] = row
        if moving:
            packed_out[to] = packed[i]
        to_left += left
        to_right += 1 - left


@njit(**INNER)
def _fill_wide(
    codes: Bytes, rows: Rows, low: int, high: int, pull: Integers, weight_count: Integers,
    start: Integers, n_bins: Integers, sums: Integers,
) -> None:  # fmt: skip
    """Histograms of two words for each row."""
    for i in range(low, high):
        row = rows[i]
        one, other = pull[row], weight_count[row]
        for j in range(n_bins.size):
            # Missing is 255. (An unsigned index cannot count from the end, and needs no check.)
            at = np.uint64(start[j] + min(np.int64(codes[row, j]), n_bins[j]))
            sums[at, 0] += one
            sums[at, 1] += other


@njit(**INNER)
def _fill_few(
    codes: Bytes, rows: Rows, low: int, high: int, packed: Integers, start: Integers,
    n_bins: Integers, count_bits: int, sums: Integers,
) -> None:  # fmt: skip
    """Histograms of packed numbers, unpacked row by row."""
    for i in range(low, high):
        row, number = rows[i], packed[i]
        one = number >> 38
        other = (((number & 0x3FFFFFFFFF) >> 12) << count_bits) + (number & 4095)
        for j in range(n_bins.size):
            # Missing is 255. (An unsigned index cannot count from the end, and needs no check.)
            at = np.uint64(start[j] + min(np.int64(codes[row, j]), n_bins[j]))
            sums[at, 0] += one
            sums[at, 1] += other


@njit(**INNER)
def _add_rows(
    words: NDArray[np.uint32], rows: Rows, first: int, last: int, packed: Integers,
    block: Integers,
) -> None:  # fmt: skip
    """Add the number of every row to its bin of every feature."""
    for i in range(first, last):
        row, number = rows[i], packed[i]
        for word in range(words.shape[1]):
            codes, at = words[row, word], 1056 * word
            block[at + (codes & 255)] += number
            block[at + 264 + ((codes >> 8) & 255)] += number
            block[at + 528 + ((codes >> 16) & 255)] += number
            block[at + 792 + (codes >> 24)] += number


@njit(**INNER)
def _add_scattered_rows(
    words: NDArray[np.uint32], rows: Rows, first: int, last: int, packed: Integers,
    block: Integers,
) -> None:  # fmt: skip
    """The same for rows that lie apart: 32 at a time are copied side by side first.

    The processor fetches several rows at once if they are only copied.
    """
    near = np.empty((32, words.shape[1]), np.uint32)
    for begin in range(first, last, 32):
        end = min(begin + 32, last)
        for i in range(begin, end):
            row = rows[i]
            for word in range(words.shape[1]):
                near[i - begin, word] = words[row, word]
        for i in range(begin, end):
            number = packed[i]
            for word in range(words.shape[1]):
                codes, at = near[i - begin, word], 1056 * word
                block[at + (codes & 255)] += number
                block[at + 264 + ((codes >> 8) & 255)] += number
                block[at + 528 + ((codes >> 16) & 255)] += number
                block[at + 792 + (codes >> 24)] += number


@njit(**INNER)
def _end_of_block(packed: Integers, first: int, high: int) -> int:
    """End of the longest block of rows whose sums fit into packed words."""
    last = min(first + 4095, high)
    pull, weight = np.int64(0), np.int64(0)
    for i in range(first, last):
        pull += abs(packed[i] >> 38)
        weight += (packed[i] >> 12) & 0x3FFFFFF
        if pull >= 1 << 25 or weight >= 1 << 26:
            return i
    return last


@njit(**INNER)
def _flush(
    block: Integers, start: Integers, n_bins: Integers, count_bits: int, sums: Integers
) -> None:
    """Add the packed sums of a block to the wide ones, and clear them."""
    for j in range(n_bins.size):
        bins, packed = sums[start[j] : start[j] + n_bins[j] + 1], block[264 * j : 264 * j + 256]
        packed[n_bins[j]] = packed[255]  # missing values
        for code in range(n_bins[j] + 1):  # no branch, which nobody could predict
            number = packed[code]
            rest = number & 0x3FFFFFFFFF
            bins[code, 0] += number >> 38
            bins[code, 1] += ((rest >> 12) << count_bits) + (rest & 4095)
    block[:] = 0


@njit(**INNER)
def _fill_packed(
    dense: bool, words: NDArray[np.uint32], rows: Rows, low: int, high: int, packed: Integers,
    start: Integers, n_bins: Integers, count_bits: int, block: Integers, sums: Integers,
) -> None:  # fmt: skip
    """Histograms of packed numbers, in blocks of rows whose sums fit into a word."""
    first = low
    while first < high:
        last = _end_of_block(packed, first, high)
        if dense:
            _add_rows(words, rows, first, last, packed, block)
        else:
            _add_scattered_rows(words, rows, first, last, packed, block)
        _flush(block, start, n_bins, count_bits, sums)
        first = last


@njit(cache=True, nogil=True, error_model="numpy")
def penalised_value(
    pull: float, curvature: float, alpha: float, least: float, most: float
) -> float:
    """Value of a leaf by the formula above; `curvature` is W + lambda."""
    size = max(abs(pull) - alpha, 0.0)
    value = (size if pull > 0 else -size) / curvature if curvature > 0 else 0.0
    return min(max(value, least), most)


@njit(**INNER, error_model="numpy")
def _worth(pull: float, curvature: float, alpha: float, value: float) -> float:
    return 2.0 * (pull * value - alpha * abs(value)) - curvature * value * value


@njit(**INNER, error_model="numpy")
def _pair_worth(
    left: float, left_weight: float, right: float, right_weight: float, alpha: float,
    bounds: tuple[float, float], sign: int,
) -> float:  # fmt: skip
    """Worth of two children; -inf if they are against the direction of the feature."""
    one = penalised_value(left, left_weight, alpha, bounds[0], bounds[1])
    other = penalised_value(right, right_weight, alpha, bounds[0], bounds[1])
    if (sign > 0 and one > other) or (sign < 0 and one < other):
        return -np.inf
    return _worth(left, left_weight, alpha, one) + _worth(right, right_weight, alpha, other)


@njit(cache=True, nogil=True, error_model="numpy")
def _scores(
    pulls: Floats, weights: Floats, parent: tuple[float, float, float],
    shift: tuple[float, float, float], plain: bool, penalty: float, alpha: float,
    bounds: tuple[float, float], sign: int, ordered: int, scores: Floats,
) -> float:  # fmt: skip
    """Worth of the children of some cuts; gives the greatest, -inf if there is none.

    A worth may be negative: bounds can keep a leaf far from its mean.
    `pulls` and `weights` are left of the cuts; `shift` (those of missing values) is added. The
    first `ordered` cuts have values on both sides; beyond them missing values are alone on the
    right, and have no direction.
    """
    pull, total, more, heavier = parent[0], parent[1], shift[0], shift[1]
    if plain:  # the processor takes several cuts at a time
        for i in range(pulls.size):
            left, weight = pulls[i] + more, weights[i] + heavier
            right, other = pull - left, total - weight
            scores[i] = left * left / (weight + penalty) + right * right / (other + penalty)
    else:
        for i in range(pulls.size):
            left, weight = pulls[i] + more, weights[i] + heavier
            scores[i] = _pair_worth(
                left, weight + penalty, pull - left, total - weight + penalty, alpha, bounds,
                sign if i < ordered else 0,
            )  # fmt: skip
    # In four strands, which do not wait for each other.
    a, b, c, d = -np.inf, -np.inf, -np.inf, -np.inf
    whole = pulls.size - pulls.size % 4
    for i in range(0, whole, 4):
        a = scores[i] if scores[i] > a else a
        b = scores[i + 1] if scores[i + 1] > b else b
        c = scores[i + 2] if scores[i + 2] > c else c
        d = scores[i + 3] if scores[i + 3] > d else d
    for i in range(whole, pulls.size):
        a = scores[i] if scores[i] > a else a
    a = b if b > a else a
    c = d if d > c else c
    return c if c > a else a


@njit(**INNER, error_model="numpy")
def _range(
    weights: Floats, counts: Integers, parent: tuple[float, float, float],
    shift: tuple[float, float, float], penalty: float, min_count: int, min_weight: float,
) -> tuple[int, int]:  # fmt: skip
    """The cuts that leave enough rows and weight on both sides: both grow from left to right.

    No side may have neither weight nor penalty.
    """
    low, high = 0, weights.size
    lightest = max(min_weight, 0.0 if penalty > 0.0 else 5e-324)
    while low < high and (counts[low] + shift[2] < min_count or weights[low] + shift[1] < lightest):
        low += 1
    while low < high and (
        parent[2] - (counts[high - 1] + shift[2]) < min_count
        or parent[1] - (weights[high - 1] + shift[1]) < lightest
    ):
        high -= 1
    return low, high


@njit(cache=True, nogil=True)
def _read(
    pull: Integer, weight_count: Integer, units: tuple[float, float, int]
) -> tuple[float, float, float]:
    """Pull, weight and count behind the two words of a sum."""
    count = weight_count & ((np.int64(1) << units[2]) - 1)
    return (
        np.float64(pull) * units[0], np.float64(weight_count >> units[2]) * units[1],
        np.float64(count),
    )  # fmt: skip


@njit(**INNER)
def _cumulate(
    bins: Integers, units: tuple[float, float, int], pulls: Floats,
    weights: Floats, counts: Integers, last: Integers,
) -> int:  # fmt: skip
    """Sums up to every bin that is not empty; gives their number.

    The last cut, which leaves missing values alone, is after the last bin of all.
    """
    pull, weight_count, kept = np.int64(0), np.int64(0), np.uint64(0)
    pull_unit, weight_unit, count_bits = units
    mask = (np.int64(1) << count_bits) - 1
    for i in range(bins.shape[0]):
        here = bins[i, 1]
        if here != 0:
            pull += bins[i, 0]
            weight_count += here
            pulls[kept] = np.float64(pull) * pull_unit
            weights[kept] = np.float64(weight_count >> count_bits) * weight_unit
            counts[kept] = weight_count & mask
            last[kept] = i
            kept += np.uint64(1)
    count = int(kept)
    if count > 0:
        last[count - 1] = bins.shape[0] - 1
    return count


@njit(**INNER, error_model="numpy")
def _sorted_categories(
    bins: Integers, units: tuple[float, float, int], smooth: float, order: Integers
) -> int:
    """Categories that occur, by rising smoothed mean of the pull; gives their number."""
    key = np.empty(bins.shape[0])
    count = 0
    for code in range(bins.shape[0]):
        if bins[code, 1] != 0:
            numbers = _read(bins[code, 0], bins[code, 1], units)
            weight = numbers[1] + smooth
            mean = numbers[0] / weight if weight > 0 else 0.0
            i = count
            while i > 0 and key[i - 1] > mean:
                key[i], order[i] = key[i - 1], order[i - 1]
                i -= 1
            key[i], order[i] = mean, code
            count += 1
    return count


@njit(**INNER, error_model="numpy")
def _in_order(
    bins: Integers, units: tuple[float, float, int], smooth: float, order: Integers
) -> Integers:
    """Bins of the categories that occur, in the order of `_sorted_categories`."""
    sorted_bins = np.empty((_sorted_categories(bins, units, smooth, order), 2), np.int64)
    for i in range(sorted_bins.shape[0]):
        sorted_bins[i, 0], sorted_bins[i, 1] = bins[order[i], 0], bins[order[i], 1]
    return sorted_bins


@njit(cache=True, nogil=True, error_model="numpy")
def left_categories(
    bins: Integers, cut: int, way: int, units: tuple[float, float, int], smooth: float
) -> Flags:
    """Which codes go left: the first ``cut + 1`` categories (way 1), or the others (way 0)."""
    order = np.empty(256, np.int64)
    count = _sorted_categories(bins, units, smooth, order)
    left = np.zeros(256, np.bool_)
    for i in range(count):
        left[order[i]] = (i <= cut) == (way == 1)
    return left


@njit(**INNER, error_model="numpy")
def _best_cut(
    bins: Integers, missing: tuple[float, float, float], parent: tuple[float, float, float],
    best: float, plain: bool, penalty: float, alpha: float, bounds: tuple[float, float], sign: int,
    units: tuple[float, float, int], min_count: int, min_weight: float, work: Floats,
    counts: Integers, last: Integers,
) -> tuple[float, int, int]:  # fmt: skip
    """Worth, cut and way of the first best cut of one feature; `best` if none is better.

    Missing values go right (scores in work[2]), then left (work[3]), if there are any.
    """
    kept = _cumulate(bins, units, work[0], work[1], counts, last)
    pulls, weights, counts = work[0, :kept], work[1, :kept], counts[:kept]
    shift = 0.0, 0.0, 0.0
    top, from_left, to_left, from_right, to_right = -np.inf, 0, 0, 0, 0
    for side in range(1 if missing[2] == 0 else 2):
        if side == 1:
            shift, from_right, to_right = missing, from_left, to_left
        low, high = _range(weights, counts, parent, shift, penalty, min_count, min_weight)
        found = _scores(pulls[low:high], weights[low:high], parent, shift, plain, penalty, alpha,
                        bounds, sign, kept - 1 - low, work[2 + side, low:high])  # fmt: skip
        top = found if found > top else top
        from_left, to_left = low, high
    if missing[2] == 0:
        from_left, to_left, from_right, to_right = 0, 0, from_left, to_left
    if not top > best:
        return best, -1, 0
    for i in range(kept):
        if from_left <= i < to_left and work[3, i] == top:
            return top, last[i], 0
        if from_right <= i < to_right and work[2, i] == top:
            if missing[2] == 0:  # missing values go where more rows go
                return top, last[i], 1 if 2.0 * counts[i] < parent[2] else 0
            return top, last[i], 1
    return best, -1, 0


@njit(**INNER)
def _sums_up_to(bins: Integers, cut: int) -> tuple[Integer, Integer]:
    pull, weight_count = np.int64(0), np.int64(0)
    for i in range(cut + 1):
        pull += bins[i, 0]
        weight_count += bins[i, 1]
    return pull, weight_count


@njit(**INNER, error_model="numpy")
def _best_split(
    histogram: Integers, start: Integers, n_bins: Integers, features: Flags, monotone: Signs,
    categorical: Flags, plain: bool, sums: tuple[int, int], bounds: tuple[float, float],
    units: tuple[float, float, int], penalties: tuple[float, float, float], min_count: int,
    min_weight: float,
) -> tuple[float, int, int, int, int, int]:  # fmt: skip
    """Gain, feature, cut, way and sums on the left of the best split; a feature of -1 for none."""
    penalty, alpha, smooth = penalties
    parent = _read(sums[0], sums[1], units)
    own = parent[0] * parent[0] / (parent[1] + penalty)
    if not plain:
        value = penalised_value(parent[0], parent[1] + penalty, alpha, bounds[0], bounds[1])
        own = _worth(parent[0], parent[1] + penalty, alpha, value)
    work = np.empty((4, 256))
    counts, last = np.empty(256, np.int64), np.empty(256, np.int64)
    order = np.empty(256, np.int64)
    best, chosen, cut, way = own, -1, -1, 0
    for j in range(n_bins.size):
        if features[j]:
            beyond, more = start[j] + n_bins[j], penalty
            bins = histogram[start[j] : beyond]
            if categorical[j]:
                bins = _in_order(bins, units, smooth, order)
                more = penalty + smooth
            missing = _read(histogram[beyond, 0], histogram[beyond, 1], units)
            top, at, side = _best_cut(
                bins, missing, parent, best, plain, more, alpha, bounds, monotone[j], units,
                max(min_count, 1), min_weight, work, counts, last,
            )  # fmt: skip
            if at >= 0:
                best, chosen, cut, way = top, j, at, side
    if chosen < 0 or not best - own > 2.0**-36 * abs(best):
        return 0.0, -1, -1, 0, 0, 0
    beyond = start[chosen] + n_bins[chosen]
    bins = histogram[start[chosen] : beyond]
    if categorical[chosen]:
        bins = _in_order(bins, units, smooth, order)
    pull, weight_count = _sums_up_to(bins, cut)
    if way == 0:  # missing values
        pull, weight_count = pull + histogram[beyond, 0], weight_count + histogram[beyond, 1]
    if categorical[chosen] and way == 0:  # the others go left, and these right
        pull, weight_count = sums[0] - pull, sums[1] - weight_count
    return best - own, chosen, cut, way, pull, weight_count


@njit(cache=True, nogil=True, error_model="numpy")
def _work(
    move: tuple[int, int, int, int, int], column: Bytes, side: Flags, rows: Rows, packed: Integers,
    out: Rows, packed_out: Integers,
    fill: tuple[int, int, int, int], codes: Bytes, words: NDArray[np.uint32], pull: Integers,
    weight_count: Integers, block: Integers, smaller: Integers,
    larger: Integers, start: Integers, n_bins: Integers,
    wanted: tuple[bool, bool], features: Flags, monotone: Signs, categorical: Flags, plain: bool,
    sums: tuple[tuple[int, int], tuple[int, int]],
    bounds: tuple[tuple[float, float], tuple[float, float]], units: tuple[float, float, int],
    penalties: tuple[float, float, float], min_count: int, min_weight: float,
) -> tuple[SplitFound, SplitFound]:  # fmt: skip
    """See `divide`."""
    low, middle, high, offset, step = move
    scatter(low, high, low, middle, column, offset, step, side, rows, packed, out, packed_out)
    form, first, last, count_bits = fill
    if form >= 0:
        smaller[:] = 0
    if form == 0:
        _fill_wide(codes, out, first, last, pull, weight_count, start, n_bins, smaller)
    elif form == 1:
        _fill_few(codes, out, first, last, packed_out, start, n_bins, count_bits, smaller)
    elif form >= 2:
        _fill_packed(
            form == 2,
            words,
            out,
            first,
            last,
            packed_out,
            start,
            n_bins,
            count_bits,
            block,
            smaller,
        )
    for i in range(larger.shape[0]):
        larger[i, 0] -= smaller[i, 0]
        larger[i, 1] -= smaller[i, 1]
    found = other = (0.0, -1, -1, 0, 0, 0)
    for child in range(2):
        if wanted[child]:
            best = _best_split(
                larger if child else smaller, start, n_bins, features, monotone, categorical,
                plain, sums[child], bounds[child], units, penalties, min_count, min_weight,
            )  # fmt: skip
            found, other = (found, best) if child else (best, other)
    return found, other
