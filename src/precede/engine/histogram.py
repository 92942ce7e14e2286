"""Sums of integers over the bins of a table: the only kernels that read all codes of a column.

`Histograms.sums` is the interface: codes, rows and integers in, sums for every bin out. A search
for weak rankers needs nothing else of the rows, so a backend on another device would have to
implement this class and nothing more. Integers add up to the same bits in any order
(`precede.engine.exact`), so histograms of blocks of rows, of threads and of machines may be added.

`RowHistograms` has the histograms of sets of rows that trees are grown from: pull, Hessian and
count at once, from codes that stand row by row.

`best_cuts` finds in the histograms the threshold with the largest edge. `search_in_turn` is the
same search on one thread, filling and looking in one kernel: on small tables the calls would
cost more than the sums.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit
from numpy.typing import NDArray

from precede.engine.arrays import Bytes, Flags, Integer, Integers
from precede.engine.packing import PackedRows
from precede.engine.workers import Workers, is_small

if TYPE_CHECKING:
    from precede.engine.table import Table

__all__ = [
    "ABREAST",
    "BINS",
    "Histograms",
    "RowHistograms",
    "best_cuts",
    "search_in_turn",
    "sums_from",
]


# Bytes are bytes; the last, 255, is that of missing values.
BINS = 256
# Features whose histograms are filled together, so that an integer is read once for all of them
# and additions to one bin do not wait for each other.
ABREAST = 4
# Words from one feature to the next where packed sums are made. With 256 the same bin of all
# features would fall into the same few lines of the cache, and most rows of a feature may share a
# bin: filling took 2.5 times as long.
STRIDE = 264
# Packed numbers of so few rows are added up unpacked: to go through all bins afterwards would take
# longer.
FEW_ROWS = 1024


class Histograms:
    """Histograms of a table, filled by the threads of this machine.

    Parameters
    ----------
    table : Table whose codes are read
    workers : threads to share the work between

    Examples
    --------
    >>> import numpy as np
    >>> from precede.engine.table import Table
    >>> histograms = Histograms(Table.build(np.array([[1.0], [np.nan], [3.0], [1.0]])))
    >>> histograms.sums(np.array([1, 10, 100, 1000]))[0, [0, 1, 255]]
    array([1001,  100,   10])
    """

    def __init__(self, table: Table, workers: Workers | None = None):
        self._table, self._workers = table, workers or Workers(1)

    def sums(
        self,
        integers: Integers,
        features: Integers | None = None,
        *,
        rows: Integers | None = None,
    ) -> Integers:
        """Sum integers over every bin of every feature: O(n) for each, modulo 2^64.

        Parameters
        ----------
        integers : one for each row of the table, or an array (rows, k) for k sums at once
        features : numbers of the features wanted; all by default
        rows : numbers of the rows to sum over; all by default

        Returns
        -------
        array of shape (features, 256), or (features, 256, k); entry 255 is for missing values
        """
        table, run = self._table, self._workers.run
        features = np.arange(table.n_features) if features is None else features
        numbers = integers if rows is None else integers[rows]
        small = is_small("cells", table.n_features * numbers.size)
        sums = np.zeros((features.size, BINS, *integers.shape[1:]), np.int64)
        # From disk a few columns are read at a time.
        width = ABREAST * self._workers.jobs if table.streamed else max(1, features.size)
        for first in range(0, features.size, width):
            part, out = features[first : first + width], sums[first : first + width]
            read = part, table.codes
            if rows is not None:
                read = np.arange(part.size), table.codes[np.ix_(part, rows)]
            if integers.ndim == 1:
                run(_fill_groups, -(-part.size // ABREAST), *read, numbers, out, small=small)
            else:
                run(_fill_many, part.size, *read, numbers, out, small=small)
            table.release(part)
        return sums


def sums_from(histograms: Integers) -> Integers:
    """Sums over the codes from each one up, without missing values: (features, 255).

    >>> import numpy as np
    >>> sums_from(np.ones((1, 256), np.int64))[0, [0, 253, 254]]
    array([255,   2,   1])
    """
    return histograms[:, : BINS - 1][:, ::-1].cumsum(axis=1)[:, ::-1]


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
        self._block = np.zeros(ABREAST * words * STRIDE, np.int64)

    def sums(
        self,
        numbers: PackedRows,
        rows: NDArray[np.int32],
        packed: Integers | None,
        low: int,
        high: int,
    ) -> Integers:
        """Histogram of the rows ``rows[low:high]``: O(features) for each of them.

        `packed` holds their packed numbers, in the order of `rows`. Returns an array (bins, 2):
        the sum of the pulls, and ``weight << count_bits | count``.
        """
        amount = (high - low) * self.codes.shape[1]
        if is_small("cells", amount) or self._workers.jobs == 1:
            return self._sums(numbers, rows, packed, low, high, self._block)
        parts = self._workers.run(
            lambda first, last: self._sums(
                numbers, rows, packed, low + first, low + last, np.zeros_like(self._block)
            ),
            high - low,
        )
        total = parts[0]
        for part in parts[1:]:
            total += part
        return total

    def _sums(
        self,
        numbers: PackedRows,
        rows: NDArray[np.int32],
        packed: Integers | None,
        low: int,
        high: int,
        block: Integers,
    ) -> Integers:
        sums = np.zeros((self.size, 2), np.int64)
        if packed is None:
            assert numbers.pull is not None
            assert numbers.weight_count is not None
            _fill_wide(
                self.codes, rows, low, high, numbers.pull, numbers.weight_count, self.start,
                self.n_bins, sums,
            )  # fmt: skip
        elif high - low < FEW_ROWS:
            _fill_few(
                self.codes, rows, low, high, packed, self.start, self.n_bins, numbers.count_bits,
                sums,
            )  # fmt: skip
        else:
            # Rows that lie far apart are copied side by side first, several at a time.
            dense = 2 * (high - low) > self.n_rows
            _fill_packed(
                self._words, rows, low, high, packed, dense, self.start, self.n_bins,
                numbers.count_bits, block, sums,
            )  # fmt: skip
        return sums


assert (BINS, ABREAST, STRIDE) == (256, 4, 264), "the kernels below write these numbers out"


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _fill(codes: Bytes, features: Integers, integers: Integers, histogram: Integers) -> None:
    """Histograms of the integers over the bins of up to four features."""
    histogram[:] = 0
    if features.size == 4:
        one, two, three, four = histogram[0], histogram[1], histogram[2], histogram[3]
        first, second = codes[features[0]], codes[features[1]]
        third, fourth = codes[features[2]], codes[features[3]]
        for row in range(integers.size):
            number = integers[row]
            one[first[row]] += number
            two[second[row]] += number
            three[third[row]] += number
            four[fourth[row]] += number
    else:
        for j in range(features.size):
            sums, column = histogram[j], codes[features[j]]
            for row in range(integers.size):
                sums[column[row]] += integers[row]


@njit(cache=True, nogil=True)
def _fill_groups(
    low: int, high: int, features: Integers, codes: Bytes, integers: Integers, histograms: Integers
) -> None:
    """Histograms of the features, four abreast: groups low..high."""
    for group in range(low, high):
        here = slice(4 * group, 4 * (group + 1))
        _fill(codes, features[here], integers, histograms[here])


@njit(cache=True, nogil=True)
def _fill_many(
    low: int, high: int, features: Integers, codes: Bytes, integers: Integers, histograms: Integers
) -> None:
    """Histograms of several integers for each row; features low..high."""
    for j in range(low, high):
        column, sums = codes[features[j]], histograms[j]
        for row in range(integers.shape[0]):
            here = sums[column[row]]
            for k in range(integers.shape[1]):
                here[k] += integers[row, k]


@njit(cache=True, nogil=True)
def _least_tied(most: Integer) -> Integer:
    """See `precede.engine.ties.least_tied`."""
    return most - (most >> 40) - 256


@njit(cache=True, nogil=True)
def _worth(edge: Integer, rising: bool) -> Integer:
    """What the search compares: the edge itself if rising, else its size."""
    return edge if rising else abs(edge)


@njit(cache=True, nogil=True)
def _pick(
    sums: Integers, bins: int, missing: bool, rising: bool, least: Integer, best: Integers
) -> None:
    """Best cut of one feature from its histogram.

    ::

        code        0    1    2    3  ...  255 (missing)
        first = 2             [ 1    1  ... ]      missing below (0) or above (1)
        edge        sum over the codes from `first` up

    Gives the first cut whose absolute edge (if `rising`, whose edge) is at least `least`; if
    that is negative, the first of those that tie with the feature's best.
    """
    total = np.int64(0)
    for code in range(bins):
        total += sums[code]
    if least < 0:
        most = np.int64(0)
        edge = total
        for first in range(bins):
            most = max(most, _worth(edge, rising)) if first > 0 or missing else most
            most = max(most, _worth(edge + sums[255], rising)) if first > 0 else most
            edge -= sums[first]
        least = _least_tied(most)
    if rising:  # an edge of 0 or below is no reason to step forward
        least = max(least, np.int64(1))
    best[0], best[1], best[2] = 0, 0, 0
    edge = total
    for first in range(bins):
        if (first > 0 or missing) and _worth(edge, rising) >= least:
            best[0], best[1], best[2] = edge, first, 0
            return
        if missing and first > 0 and _worth(edge + sums[255], rising) >= least:
            best[0], best[1], best[2] = edge + sums[255], first, 1
            return
        edge -= sums[first]


@njit(cache=True, nogil=True)
def best_cuts(
    sums: Integers, n_bins: Integers, missing: Flags, rising: bool, least: int
) -> Integers:
    """Edge, first code above the cut and side of the missing of each feature's best: `_pick`."""
    best = np.zeros((sums.shape[0], 3), np.int64)
    for j in range(sums.shape[0]):
        _pick(sums[j], n_bins[j], missing[j], rising, least, best[j])
    return best


@njit(cache=True, nogil=True)
def search_in_turn(
    codes: Bytes, integers: Integers, n_bins: Integers, missing: Flags, bound: Integers,
    order: Integers, best: Integers, slack: Integers, rising: bool,
) -> tuple[Integer, int]:  # fmt: skip
    """Look at features in order, by falling bound, while one that is left could win or tie.

    Leaves what was found in `best` and a slack of 0; returns the largest edge, and how many
    features were looked at.
    """
    most, count = np.int64(0), 0
    histogram = np.empty((4, 256), np.int64)
    while count < order.size and bound[order[count]] >= _least_tied(most):
        batch = order[count : count + 4]
        _fill(codes, batch, integers, histogram)
        for j in range(batch.size):
            feature = batch[j]
            _pick(histogram[j], n_bins[feature], missing[feature], rising, -1, best[feature])
            slack[feature] = 0
            most = max(most, abs(best[feature, 0]))
        count += batch.size
    return most, count


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
def _fill_wide(
    codes: Bytes, rows: NDArray[np.int32], low: int, high: int, pull: Integers,
    weight_count: Integers, start: Integers, n_bins: Integers, sums: Integers,
) -> None:  # fmt: skip
    """Histograms of two words for each row."""
    for i in range(low, high):
        row = rows[i]
        one, other = pull[row], weight_count[row]
        for j in range(n_bins.size):
            at = start[j] + min(np.int64(codes[row, j]), n_bins[j])  # missing is 255
            sums[at, 0] += one
            sums[at, 1] += other


@njit(cache=True, nogil=True)
def _fill_few(
    codes: Bytes, rows: NDArray[np.int32], low: int, high: int, packed: Integers, start: Integers,
    n_bins: Integers, count_bits: int, sums: Integers,
) -> None:  # fmt: skip
    """Histograms of packed numbers, unpacked row by row."""
    for i in range(low, high):
        row, number = rows[i], packed[i]
        one = number >> 38
        other = (((number & 0x3FFFFFFFFF) >> 12) << count_bits) + (number & 4095)
        for j in range(n_bins.size):
            at = start[j] + min(np.int64(codes[row, j]), n_bins[j])  # missing is 255
            sums[at, 0] += one
            sums[at, 1] += other


@njit(cache=True, nogil=True)
def _fill_packed(
    words: NDArray[np.uint32], rows: NDArray[np.int32], low: int, high: int, packed: Integers,
    dense: bool, start: Integers, n_bins: Integers, count_bits: int, block: Integers,
    sums: Integers,
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


@njit(cache=True, nogil=True)
def _add_rows(
    words: NDArray[np.uint32], rows: NDArray[np.int32], first: int, last: int, packed: Integers,
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


@njit(cache=True, nogil=True)
def _add_scattered_rows(
    words: NDArray[np.uint32], rows: NDArray[np.int32], first: int, last: int, packed: Integers,
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _flush(
    block: Integers, start: Integers, n_bins: Integers, count_bits: int, sums: Integers
) -> None:
    """Add the packed sums of a block to the wide ones, and clear them."""
    for j in range(n_bins.size):
        for code in range(n_bins[j] + 1):
            at = 264 * j + (code if code < n_bins[j] else 255)
            number = block[at]
            if number != 0:
                sums[start[j] + code, 0] += number >> 38
                rest = number & 0x3FFFFFFFFF
                sums[start[j] + code, 1] += ((rest >> 12) << count_bits) + (rest & 4095)
                block[at] = 0
    block[264 * n_bins.size :] = 0  # features that fill the last word up
