"""Sums of integers over the bins of a table.

`Histograms.sums` maps codes, rows and integers to the sums of all bins, which is all that a search
for stumps needs of the rows. Sums of integers have the same bits in any order
(`precede.engine.exact`), so histograms of chunks of rows, of threads and of machines can be added.

`best_cuts` finds the threshold with the largest edge in each histogram. `search_by_bound` fills and
searches histograms in one kernel on one thread: on small tables separate calls would cost more than
the sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from precede.engine.arrays import BackendArray, Bytes, Flags, Floats, Integer, Integers
from precede.engine.backend import Backend
from precede.engine.compiling import INNER, njit
from precede.engine.exact import exact_sum, least_tied_kernel
from precede.engine.execution import Context, threads_for
from precede.engine.portable import fmax
from precede.engine.quantization import pack, power_factors

if TYPE_CHECKING:
    from precede.engine.table import Table


# Codes are bytes; the last, 255, stands for missing values.
BINS = 256
# Features whose histograms are filled in one pass, so that each integer is read once for all of
# them and consecutive additions go to different bins, which do not wait for each other.
GROUP_SIZE = 4
# On a GPU: features that a thread block sums, and bytes of shared memory for their sums; as in
# `kernels.cu`.
GPU_GROUP = 32
GPU_SHARED_BYTES = 3 * GPU_GROUP * 257 * 4
# Thread blocks to aim for (four times two for each of the 132 multiprocessors of an H200), and the
# fewest rows of one.
TARGET_BLOCKS, MIN_BLOCK_ROWS = 1056, 500


class Histograms:
    """Histograms over all rows of a table, filled by the threads of this machine.

    Parameters
    ----------
    table : Table whose codes are read
    context : threads that share the work

    Examples
    --------
    >>> import numpy as np
    >>> from precede.engine.table import Table
    >>> histograms = Histograms(Table.build(np.array([[1.0], [np.nan], [3.0], [1.0]])))
    >>> histograms.sums(np.array([1, 10, 100, 1000]))[0, [0, 1, 255]]
    array([1001,  100,   10])
    """

    def __init__(self, table: Table, context: Context | None = None):
        self._table, self._context = table, context or Context(1)

    def sums(
        self,
        integers: Integers,
        features: Integers | None = None,
        *,
        rows: Integers | None = None,
    ) -> Integers:
        """Sum integers over the bins of each feature, modulo 2^64, in O(rows) per feature.

        Parameters
        ----------
        integers : one for each row of the table, or an array (rows, k) for k sums at once
        features : numbers of the features; all by default
        rows : numbers of the rows; all by default

        Returns
        -------
        array of shape (features, 256), or (features, 256, k); entry 255 is for missing values
        """
        table, run = self._table, self._context.run
        features = np.arange(table.n_features) if features is None else features
        numbers = integers if rows is None else integers[rows]
        threads = min(self._context.jobs, threads_for("cells", features.size * numbers.size))
        sums = np.zeros((features.size, BINS, *integers.shape[1:]), np.int64)
        # From disk a few columns are read at a time.
        width = GROUP_SIZE * self._context.jobs if table.streamed else max(1, features.size)
        for first in range(0, features.size, width):
            chunk, out = features[first : first + width], sums[first : first + width]
            columns = chunk, table.codes
            if rows is not None:
                columns = np.arange(chunk.size), table.codes[np.ix_(chunk, rows)]
            if integers.ndim == 1:
                groups = -(-chunk.size // GROUP_SIZE)
                # Rows are split as well, so that all threads do the same amount of work.
                parts = threads // math.gcd(groups, threads)
                sums_of_parts = np.empty((parts - 1, *out.shape), np.int64)
                given = parts, *columns, numbers, out, sums_of_parts
                run(_fill_groups, groups * parts, *given, threads=threads)
                for sums_of_part in sums_of_parts:
                    out += sums_of_part
            else:
                run(_fill_many, chunk.size, *columns, numbers, out, threads=threads)
            table.release(chunk)
        return sums


class GpuHistograms:
    """Histograms of the pull over all rows of a table on a GPU, and values of stumps."""

    def __init__(self, backend: Backend, table: Table):
        features = np.arange(table.n_features)
        self._backend, self._features, self._n_rows = backend, features.size, table.n_used_rows
        self._width = GPU_GROUP * max(1, -(-features.size // GPU_GROUP))
        backend.check_room(self._n_rows * (2 * self._width + 64), "the rows of the table")
        self._codes = table.codes_by_row(backend, features)

    def sums(self, pull: BackendArray) -> BackendArray:
        """Sum the pull over bins, in units of 2^-61: 256 sums per feature, then a single 0."""
        rows, groups = self._n_rows, self._width // GPU_GROUP
        sums = self._backend.zeros(self._width * 256 + 1, dtype=np.uint64)
        size = max(MIN_BLOCK_ROWS, -(-rows * groups // TARGET_BLOCKS))
        self._backend.launch(
            "stump_fill", (-(-rows // size), groups), 512, np.int64(rows), np.int64(size),
            self._width, self._features, self._codes, pull, sums, shared=GPU_SHARED_BYTES,
        )  # fmt: skip
        return sums

    def values(self, stump: BackendArray) -> BackendArray:
        """Return the values of a stump for all rows.

        `stump` holds feature, edge, first code above the threshold and value of missing values.
        """
        values = self._backend.empty(self._n_rows, dtype=np.uint8)
        self._backend.over_rows(
            "stump_values", self._n_rows, self._width, self._codes, stump, values
        )
        return values


def suffix_sums(histograms: Integers) -> Integers:
    """Return suffix sums of histograms (features, 256): of the codes from each one up to 254.

    Missing values (255) are left out, and the last entry is 0.

    >>> import numpy as np
    >>> suffix_sums(np.ones((1, 256), np.int64))[0, [0, 254, 255]]
    array([255,   1,   0])
    """
    sums = np.zeros_like(histograms)
    sums[:, :-1] = histograms[:, -2::-1].cumsum(axis=1)[:, ::-1]
    return sums


assert (BINS, GROUP_SIZE) == (256, 4), "the kernels below write these numbers out"


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _fill(
    low: int, high: int, codes: Bytes, features: Integers, integers: Integers, histogram: Integers
) -> None:
    """Add the integers of the rows low..high to the histograms of up to four features."""
    begin, end = np.uint64(low), np.uint64(high)  # (cannot count from the end of an array)
    if features.size == 4:
        first, second, third, fourth = features[0], features[1], features[2], features[3]
        for row in range(begin, end):
            number = integers[row]
            histogram[0, codes[first, row]] += number
            histogram[1, codes[second, row]] += number
            histogram[2, codes[third, row]] += number
            histogram[3, codes[fourth, row]] += number
        return
    for j in range(features.size):
        for row in range(begin, end):
            histogram[j, codes[features[j], row]] += integers[row]


@njit(cache=True, nogil=True)
def _fill_groups(
    low: int, high: int, parts: int, features: Integers, codes: Bytes, integers: Integers,
    first_sums: Integers, other_sums: Integers,
) -> None:  # fmt: skip
    """Fill histograms of groups of four features, each over one of several parts of the rows.

    Only the tasks ``part * groups + group`` in the range low..high are done. The first part of the
    rows is summed in `first_sums`, the others in `other_sums`.
    """
    groups = (features.size + 3) // 4
    for part in range(low // groups, (high + groups - 1) // groups):
        begin, end = integers.size * part // parts, integers.size * (part + 1) // parts
        sums = first_sums if part == 0 else other_sums[part - 1]
        first, last = max(low - part * groups, 0), min(high - part * groups, groups)
        for feature in range(4 * first, min(4 * last, features.size)):
            for code in range(256):
                sums[feature, code] = 0
        for at in range(begin, end, 65536):  # integers that stay in the cache for all groups
            for group in range(first, last):
                members = slice(4 * group, 4 * (group + 1))
                until = min(at + 65536, end)
                _fill(at, until, codes, features[members], integers, sums[members])


@njit(cache=True, nogil=True)
def _fill_many(
    low: int, high: int, features: Integers, codes: Bytes, integers: Integers, histograms: Integers
) -> None:
    """Fill the histograms of features low..high with several integers per row."""
    for j in range(low, high):
        column, sums = codes[features[j]], histograms[j]
        for row in range(integers.shape[0]):
            cell = sums[column[row]]
            for k in range(integers.shape[1]):
                cell[k] += integers[row, k]


@njit(cache=True, nogil=True)
def _find_cut(
    sums: Integers, bins: int, missing: bool, positive_only: bool, least: Integer, best: Integers
) -> None:
    """Write edge, first code above the cut and side of missing values of the best cut to `best`.

    ::

        code        0    1    2    3  ...  255 (missing)
        first = 2             [ 1    1  ... ]      missing below (0) or above (1)
        edge        sum over the codes from `first` up

    The best cut is the first whose absolute edge (edge, if `positive_only`) is at least `least`;
    if `least` is negative, the first that ties with the feature's best. If `positive_only`, the
    last cut (``first = bins``) has only the missing values above it: "is missing". Its edge is the
    negated edge of "is present", so that absolute edges need only one of the two.
    """
    total = np.int64(0)
    for code in range(bins):
        total += sums[code]
    # fmax(edge, sign * edge) is the edge if `positive_only`, its absolute value otherwise.
    sign = np.int64(1 if positive_only else -1)
    if least < 0:
        most = fmax(0, fmax(total, sign * total)) if missing else np.int64(0)
        edge = total
        for first in range(1, bins):
            edge -= sums[first - 1]
            other = edge + sums[255]
            most = fmax(most, fmax(edge, sign * edge))
            most = fmax(most, fmax(other, sign * other))
        if positive_only and missing:
            most = fmax(most, sums[255])
        least = least_tied_kernel(most)
    if positive_only:  # skip non-positive edges
        least = fmax(least, 1)
    best[0], best[1], best[2] = 0, 0, 0
    edge = total
    for first in range(bins):
        other = edge + sums[255]
        if (first > 0 or missing) and fmax(edge, sign * edge) >= least:
            best[0], best[1], best[2] = edge, first, 0
            return
        if missing and first > 0 and fmax(other, sign * other) >= least:
            best[0], best[1], best[2] = other, first, 1
            return
        edge -= sums[first]
    if positive_only and missing and sums[255] >= least:
        best[0], best[1], best[2] = sums[255], bins, 1


@njit(cache=True, nogil=True)
def best_cuts(
    sums: Integers, n_bins: Integers, missing: Flags, positive_only: bool, least: int
) -> Integers:
    """Return an array (features, 3) of the best cut of each feature, see `_find_cut`."""
    best = np.zeros((sums.shape[0], 3), np.int64)
    for j in range(sums.shape[0]):
        _find_cut(sums[j], n_bins[j], missing[j], positive_only, least, best[j])
    return best


@njit(cache=True, nogil=True)
def search_by_bound(
    codes: Bytes, integers: Integers, n_bins: Integers, missing: Flags, bound: Integers,
    order: Integers, best: Integers, slack: Integers, positive_only: bool, histogram: Integers,
) -> tuple[Integer, int]:  # fmt: skip
    """Evaluate features by decreasing bound, in `order`, while a remaining one could win or tie.

    Writes the best cuts to `best` and a slack of 0; returns the largest absolute edge and the
    number of features evaluated. `histogram` is working memory for four histograms.
    """
    most, count = np.int64(0), 0
    while count < order.size and bound[order[count]] >= least_tied_kernel(most):
        batch = order[count : count + 4]
        for j in range(batch.size):
            for code in range(256):
                histogram[j, code] = 0
        _fill(0, integers.size, codes, batch, integers, histogram)
        for j in range(batch.size):
            feature = batch[j]
            _find_cut(
                histogram[j], n_bins[feature], missing[feature], positive_only, -1, best[feature]
            )
            slack[feature] = 0
            most = fmax(most, abs(best[feature, 0]))
        count += batch.size
    return most, count


# -- Histograms of pairs of features -------------------------------------------------------------
#
# The pull and the weight of a row are the two halves of one 64-bit word, so that a cell costs one
# addition (`pair_words`). Both are rounded to 2^-30 of their total, so that no sum overflows, and
# sums have the same bits on any number of threads and machines and for any order of the rows.
#
# The search for interactions needs a histogram of every pair of features. `triple_cover` assigns
# every pair to exactly one triple of features (Bose 1939): the histogram of a triple, of 16 x 16 x
# 16 cells, costs one addition per row and contains those of three pairs.


# Bins of each feature in the histogram of a triple; kernels write it out.
SIDE = 16
# A total of 2^30 leaves headroom for rounding.
TOTAL_BITS = 30
# On a GPU: most rows of a thread block, which also clears and folds 4096 cells; and most triples of
# a launch (a grid has at most 65,535 thread blocks in the second dimension).
MAX_BLOCK_ROWS, MAX_TRIPLES = 1 << 16, 1 << 15


@dataclass(frozen=True)
class PairWords:
    """Pull and weight of each row in one word, ``pull << 32 | weight``, and their units."""

    words: Integers
    pull_unit: float
    weight_unit: float

    def pulls(self, sums: Integers) -> Floats:
        """Return the sums of pulls contained in sums of words."""
        return np.asarray(sums >> 32, np.float64) * self.pull_unit

    def weights(self, sums: Integers) -> Floats:
        """Return the sums of weights contained in sums of words."""
        return np.asarray(sums & 0xFFFFFFFF, np.float64) * self.weight_unit


def pair_words(pull: Floats, weight: Floats, context: Context) -> PairWords | None:
    """Quantize pulls and weights; return None if all pulls or all weights are 0. O(rows).

    >>> import numpy as np
    >>> rows = pair_words(np.array([0.5, -0.25]), np.ones(2), Context(1))
    >>> total = rows.words.sum()
    >>> float(rows.pulls(total)), float(rows.weights(total))
    (0.25, 2.0)
    """
    total, total_weight = exact_sum(np.abs(pull), context), exact_sum(weight, context)
    if not (total > 0 and total_weight > 0):
        return None
    bits = TOTAL_BITS - math.frexp(total)[1], TOTAL_BITS - math.frexp(total_weight)[1]
    words = np.empty(pull.size, np.int64)
    context.run(
        pack, pull.size, pull, weight, *power_factors(bits[0]), *power_factors(bits[1]), 32, 0, 0,
        words, threads=threads_for("rows", pull.size),
    )  # fmt: skip
    return PairWords(words, math.ldexp(1.0, -bits[0]), math.ldexp(1.0, -bits[1]))


def pair_sums(
    codes: Bytes, pairs: Integers, width: int, words: Integers, context: Context
) -> Integers:
    """Sum words over the cells of pairs of features, in O(rows) per pair.

    Parameters
    ----------
    codes : array (features, rows) of codes below `width`
    pairs : array (pairs, 2) of numbers of features
    width : number of bins of every feature
    words : one integer for each row

    Returns
    -------
    array (pairs, width, width)

    Examples
    --------
    >>> import numpy as np
    >>> codes = np.array([[0, 1, 1], [0, 0, 1]], np.uint8)
    >>> pair_sums(codes, np.array([[0, 1]]), 2, np.array([1, 10, 100]), Context(1))[0]
    array([[  1,   0],
           [ 10, 100]])
    """
    sums = np.zeros((len(pairs), width * width), np.int64)
    threads = threads_for("cells", len(pairs) * words.size)
    context.run(_fill_pairs, len(pairs), pairs, codes, width, words, sums, threads=threads)
    return sums.reshape(len(pairs), width, width)


def triple_cover(count: int) -> Integers:
    """Return triples of the numbers below `count` that contain each pair of them exactly once.

    A triple whose third number is `count` stands for a single pair. Bose's construction: for the
    numbers (x, i) with x modulo 2t + 1 and i modulo 3, the triples {(x, 0), (x, 1), (x, 2)} and
    {(x, i), (y, i), ((x + y) / 2, i + 1)}. O(count²).

    >>> triple_cover(4).tolist()
    [[0, 3, 4], [0, 1, 4], [0, 2, 4], [1, 2, 3]]
    """
    t = max(0, -(-(count - 3) // 6))
    q = 2 * t + 1
    x, y = np.triu_indices(q, 1)
    middle = (x + y) * (t + 1) % q
    found = [np.stack([np.arange(q) + i * q for i in range(3)], axis=1)]
    for i in range(3):
        found.append(np.stack([x + i * q, y + i * q, middle + (i + 1) % 3 * q], axis=1))
    triples = np.sort(np.minimum(np.concatenate(found), count), axis=1)
    return triples[triples[:, 1] < count].astype(np.int64)


class TripleHistograms:
    """Sums of words over the cells of triples of features, on the backend of the context.

    Parameters
    ----------
    codes : array (features, rows) of codes below 16
    words : one integer for each row; see `PairWords`
    context : Context
    """

    def __init__(self, codes: Bytes, words: Integers, context: Context):
        self._backend, self._context = context.backend, context
        features, self._n_rows = codes.shape
        triples = min(features * (features + 6) // 6, MAX_TRIPLES)
        needed = codes.size + 8 * words.size + 24 * SIDE * SIDE * triples
        self._backend.check_room(needed, "the codes of all pairs of features")
        self._codes, self._words = self._backend.put(codes), self._backend.put(words)

    def sums(self, triples: Integers) -> Integers:
        """Sum the words over the cells of the three pairs of each triple, in O(rows) per triple.

        Returns an array (triples, 3, 16, 16) for the pairs (first, second), (first, third) and
        (second, third).
        """
        if self._backend.is_gpu:
            starts = range(0, max(len(triples), 1), MAX_TRIPLES)
            parts = [self._gpu_sums(triples[first : first + MAX_TRIPLES]) for first in starts]
            return np.concatenate(parts)
        sums = np.zeros((len(triples), 3, SIDE, SIDE), np.int64)
        self._context.run(
            _fill_triples, len(triples), triples, self._codes, self._words, sums,
            threads=threads_for("cells", len(triples) * self._n_rows),
        )  # fmt: skip
        return sums

    def _gpu_sums(self, triples: Integers) -> Integers:
        backend, rows = self._backend, self._n_rows
        sums = backend.zeros(len(triples), 3, SIDE, SIDE, dtype=np.int64)
        if len(triples) and rows:
            backend.launch(
                "triple_fill", (-(-rows // MAX_BLOCK_ROWS), len(triples)), 512, np.int64(rows),
                np.int64(MAX_BLOCK_ROWS), len(self._codes), self._codes, backend.put(triples),
                self._words, sums,
            )  # fmt: skip
        return backend.get(sums)


assert SIDE == 16, "the kernels below write it out"


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _fill_pairs(
    low: int, high: int, pairs: Integers, codes: Bytes, width: int, words: Integers, sums: Integers
) -> None:
    for p in range(low, high):
        one, other, cells = codes[pairs[p, 0]], codes[pairs[p, 1]], sums[p]
        for row in range(words.size):
            cells[np.int64(one[row]) * width + np.int64(other[row])] += words[row]


@njit(cache=True, nogil=True)
def _fill_triples(
    low: int, high: int, triples: Integers, codes: Bytes, words: Integers, sums: Integers
) -> None:
    """Fill two triples at a time, whose additions do not depend on each other."""
    zeros = np.zeros(words.size, np.uint8)
    cells = np.zeros((2, 4096), np.int64)
    one, other = cells[0], cells[1]
    for t in range(low, high, 2):
        u = min(t + 1, high - 1)
        a, b = codes[triples[t, 0]], codes[triples[t, 1]]
        c = codes[triples[t, 2]] if triples[t, 2] < codes.shape[0] else zeros
        d, e = codes[triples[u, 0]], codes[triples[u, 1]]
        f = codes[triples[u, 2]] if triples[u, 2] < codes.shape[0] else zeros
        cells[:] = 0
        for row in range(words.size):
            word = words[row]
            at = (np.int64(a[row]) << 8) | (np.int64(b[row]) << 4) | np.int64(c[row])
            one[at & 4095] += word
            at = (np.int64(d[row]) << 8) | (np.int64(e[row]) << 4) | np.int64(f[row])
            other[at & 4095] += word
        _fold(one, sums[t])
        if u > t:
            _fold(other, sums[u])


@njit(**INNER)
def _fold(cells: Integers, sums: Integers) -> None:
    """Sum the histogram of a triple to those of its three pairs."""
    for i in range(16):
        for j in range(16):
            for k in range(16):
                word = cells[256 * i + 16 * j + k]
                sums[0, i, j] += word
                sums[1, i, k] += word
                sums[2, j, k] += word
