"""Histograms of pairs of features.

The pull and the weight of a row are the two halves of one 64-bit word, so that a cell costs one
addition (`pair_words`). Both are rounded to 2^-30 of their total, so that no sum overflows, and
sums have the same bits on any number of threads and machines and for any order of the rows.

The search for interactions needs a histogram of every pair of features. `triple_cover` assigns
every pair to exactly one triple of features (Bose 1939): the histogram of a triple, of 16 x 16 x 16
cells, costs one addition per row and contains those of three pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from precede.engine.arrays import Bytes, Floats, Integers
from precede.engine.compiling import INNER
from precede.engine.exact import exact_sum
from precede.engine.execution import Context, is_small
from precede.engine.quantization import power_factors

__all__ = ["SIDE", "PairWords", "pair_sums", "pair_words", "triple_cover", "triple_sums"]

# Bins of each feature in the histogram of a triple; kernels write it out.
SIDE = 16
# A total of 2^30 leaves headroom for rounding.
TOTAL_BITS = 30


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
        _pack, pull.size, pull, weight, *power_factors(bits[0]), *power_factors(bits[1]), words,
        small=is_small("rows", pull.size),
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
    small = is_small("cells", len(pairs) * words.size)
    context.run(_fill_pairs, len(pairs), pairs, codes, width, words, sums, small=small)
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


def triple_sums(codes: Bytes, triples: Integers, words: Integers, context: Context) -> Integers:
    """Sum words over the cells of the three pairs of each triple, in O(rows) per triple.

    `codes` is an array (features, rows) of codes below 16. Returns an array (triples, 3, 16, 16)
    for the pairs (first, second), (first, third) and (second, third).
    """
    sums = np.zeros((len(triples), 3, SIDE, SIDE), np.int64)
    small = is_small("cells", len(triples) * words.size)
    context.run(_fill_triples, len(triples), triples, codes, words, sums, small=small)
    return sums


assert SIDE == 16, "the kernels below write it out"


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _pack(
    low: int, high: int, pull: Floats, weight: Floats, one: float, other: float, weight_one: float,
    weight_other: float, words: Integers,
) -> None:  # fmt: skip
    for row in range(low, high):
        first = np.int64(np.rint(pull[row] * one * other))
        second = np.int64(np.rint(weight[row] * weight_one * weight_other))
        words[row] = (first << 32) + second


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
