"""Candidate weak rankers with values 0 and 1 without duplicates, and their linear span.

RankBoost+ compares weak rankers as vectors over pairs, ``h(winner) - h(loser)``. Two of them are
equal if and only if their difference is constant on every connected component of the comparability
graph. Duplicates and linear combinations are therefore detected from vectors over items; vectors
over pairs are never formed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from precede.engine.arrays import BackendArray, Bytes, Floats, Integers
from precede.engine.backend import CPU, Backend
from precede.engine.compiling import INNER, njit
from precede.engine.exact import SCALE, to_integers
from precede.engine.execution import Context
from precede.engine.histograms import GpuHistograms, Histograms, suffix_sums
from precede.engine.query_layout import QueryLayout
from precede.engine.table import Table
from precede.weak_rankers.base import Family, WeakRanker
from precede.weak_rankers.columns import Column, Columns, refuse_missing
from precede.weak_rankers.stumps import Stump, Stumps, stump_from_code

# Linear independence is tested in the field of integers modulo this prime: no tolerance is needed.
PRIME = (1 << 31) - 1
# A random sketch of m vectors has m + m / 8 + EXTRA_COORDINATES coordinates, which makes it very
# unlikely that the residual of an independent vector is zero in all of them.
EXTRA_COORDINATES = 64
# On a GPU: maximum number of coordinates of a sketch that a thread block sums in shared memory, and
# maximum number of thread blocks.
MAX_SHARED_WIDTH, MAX_BLOCKS = 6144, 528


class Candidates:
    """Binary weak rankers of a table: every threshold of every feature, or the columns themselves.

    Missing values count as lower than all others (C19 section 5). Candidates that order no pair are
    dropped. Of candidates that are equal or opposite over pairs, the first is kept: lowest feature,
    then lowest threshold. With a GPU, pulls and values are arrays on the device.

    Attributes
    ----------
    feature, first : arrays of int
        A candidate is 1 where the code of the feature is at least `first`.

    Notes
    -----
    Duplicates are found by hashing: a random linear function of the vector over pairs, of 128
    bits, is computed for all thresholds of a feature at once from histograms in O(n). Two
    different candidates collide with probability about 2^-127. `edges` is O(n) per feature.
    """

    def __init__(self, table: Table, layout: QueryLayout, family: Family, context: Context):
        self._table, self._histograms = table, Histograms(table, context)
        self._uses_columns = isinstance(family, Columns)
        if not self._uses_columns and not isinstance(family, Stumps):
            raise ValueError(
                f"weak_rankers={family!r}: RankBoostPlus needs rankers of values 0 and 1; use "
                "'stumps' or 'columns'"
            )
        if family.thresholds == "all":
            raise ValueError(
                f"weak_rankers={family!r}: RankBoostPlus has the thresholds of bins; use 'stumps'"
            )
        if self._uses_columns:
            _check_columns(table)
        self.feature, self.first = self._all_thresholds()
        self._drop_duplicates(layout)
        self._backend = context.backend
        if self._backend.is_gpu:
            self._gpu_histograms = GpuHistograms(self._backend, table)

    def __len__(self) -> int:
        return int(self.feature.size)

    def weak_ranker(self, number: int) -> WeakRanker:
        """Return a candidate as a weak ranker."""
        feature, first = int(self.feature[number]), int(self.first[number])
        if self._uses_columns:
            return Column(feature)
        return stump_from_code(self._table.bins, feature, first)

    def number(self, weak_ranker: WeakRanker) -> int:
        """Return the number of the candidate that equals a weak ranker; -1 if there is none."""
        feature, first = weak_ranker.only_feature, 1
        if isinstance(weak_ranker, Stump) and not self._uses_columns:
            first = weak_ranker.first_code(self._table)
        equal_codes = np.flatnonzero((self.feature == feature) & (self.first == first)).tolist()
        return next((j for j in equal_codes if self.weak_ranker(j) == weak_ranker), -1)

    def values(self, number: int) -> BackendArray:
        """Return the value of a candidate for each row."""
        if self._backend.is_gpu:
            stump = np.array([self.feature[number], 0, self.first[number], 0], np.int64)
            return self._gpu_histograms.values(self._backend.put(stump))
        codes = self._table.codes[self.feature[number]]
        return ((codes >= self.first[number]) & (codes < 255)).astype(np.uint8)

    def edges(self, pull: BackendArray) -> Floats:
        """Return ``sum_i pull_i h(x_i)`` of every candidate, independent of row order."""
        if self._backend.is_gpu:
            sums = self._backend.get(self._gpu_histograms.sums(pull)).view(np.int64)
            return suffix_sums(sums[:-1].reshape(-1, 256))[self.feature, self.first] / SCALE
        return self._sums(to_integers(pull)) / SCALE

    def _all_thresholds(self) -> tuple[Integers, Integers]:
        """Return feature and first code of every threshold, including missing against present."""
        bins = self._table.bins
        thresholds = [
            (feature, first)
            for feature, n_bins in enumerate(bins.n_bins)
            for first in range(0 if bins.has_missing[feature] else 1, n_bins)
        ]
        feature, first = np.array(thresholds, np.int64).reshape(-1, 2).T
        return feature, first

    def _sums(self, integers: Integers) -> Integers:
        """Return the sum of integers, modulo 2^64, over the rows where each candidate is 1."""
        return suffix_sums(self._histograms.sums(integers))[self.feature, self.first]

    def _drop_duplicates(self, layout: QueryLayout) -> None:
        """Keep the first of candidates that are equal or opposite over pairs."""
        component = layout.components()
        generator = np.random.default_rng(20190812)
        halves = []
        for _ in range(2):
            numbers = generator.integers(-(2**63), 2**63 - 1, component.size, dtype=np.int64)
            # Sums of 0 in every component make the hash invariant to constants on components.
            total = np.zeros(int(component.max()) + 1, np.int64)
            np.add.at(total, component, numbers)
            numbers[np.unique(component, return_index=True)[1]] -= total
            halves.append(self._sums(numbers))
        keys = np.stack(halves, axis=1)
        # The opposite of a weak ranker has the negated key.
        negative = (keys[:, 0] < 0) | ((keys[:, 0] == 0) & (keys[:, 1] < 0))
        keys[negative] = -keys[negative]
        first = np.sort(np.unique(keys, axis=0, return_index=True)[1])
        first = first[(keys[first] != 0).any(axis=1)]
        self.feature, self.first = self.feature[first], self.first[first]


def _check_columns(table: Table) -> None:
    refuse_missing(table)
    for feature in range(table.n_features):
        column = table.column(feature)
        other = column[(column != 0) & (column != 1)]
        if other.size:
            raise ValueError(
                f"column {feature} holds {other[0]:g}; rankers given as columns must be 0 or 1 "
                "in every row (use weak_rankers='stumps' for other features)"
            )


class LinearSpan:
    """Linear span, modulo a prime, of the weak rankers added so far, as vectors over pairs.

    A weak ranker is represented by its values on items minus the value of the first item of the
    connected component: this vector is zero if and only if the weak ranker ties every pair.
    Gaussian elimination runs in the field of integers modulo 2^31 - 1, so no tolerance is needed.
    If there are many more items than vectors, it runs on a sparse random sketch, in which every
    item contributes to eight coordinates.

    Parameters
    ----------
    layout : QueryLayout
    max_vectors : int
        Maximum number of vectors.
    backend : Backend
        Backend of the values passed to `vector`.

    Notes
    -----
    O(n + vectors · coordinates) per membership test. Vectors that are independent over the
    rationals can be dependent modulo the prime, with probability about 10^-9.
    """

    def __init__(self, layout: QueryLayout, max_vectors: int, backend: Backend = CPU):
        self._backend = backend
        component = layout.components()
        first = np.unique(component, return_index=True)[1]
        self._reference = first[component]
        self._backend_reference = backend.put(self._reference)
        self.width = self.width_needed(component.size, max_vectors)
        self._sketched = self.width < component.size
        self._rows = np.zeros((min(16, max_vectors), self.width), np.uint32)
        self._pivots = np.zeros(max_vectors, np.int64)
        self.size = 0

    @staticmethod
    def width_needed(rows: int, max_vectors: int) -> int:
        """Return the number of coordinates of a vector."""
        return min(rows, max_vectors + max_vectors // 8 + EXTRA_COORDINATES)

    @staticmethod
    def bytes_needed(rows: int, max_vectors: int) -> int:
        """Return the memory of `max_vectors` vectors in bytes."""
        return 4 * max_vectors * LinearSpan.width_needed(rows, max_vectors)

    def centered(self, values: Bytes) -> Floats:
        """Return values minus the value of the first item of the component."""
        floats = values.astype(np.float64)
        return floats - floats[self._reference]

    def vector(self, values: BackendArray) -> Integers:
        """Return the coordinates of a weak ranker with these values."""
        if self._backend.is_gpu and self._sketched:
            return self._sketch_on_gpu(values)
        values = self._backend.get(values)
        coordinates = np.zeros(self.width, np.int64)
        _sketch(values, self._reference, self._sketched, coordinates)
        return coordinates

    def _sketch_on_gpu(self, values: BackendArray) -> Integers:
        coordinates = self._backend.zeros(self.width, dtype=np.int64)
        in_shared = self.width <= MAX_SHARED_WIDTH
        self._backend.launch(
            "sketch", min(-(-values.size // 256), MAX_BLOCKS), 256, np.int64(values.size), values,
            self._backend_reference, self.width, int(in_shared), coordinates,
            shared=8 * self.width if in_shared else 0,
        )  # fmt: skip
        residues: Integers = self._backend.get(coordinates) % PRIME
        return residues

    def residual(self, vector: Integers) -> Integers:
        """Return the residual of a vector after elimination; zero if it is in the span."""
        residual = vector.copy()
        _eliminate(residual, self._rows, self._pivots[: self.size])
        return residual

    def add(self, residual: Integers) -> tuple[Integers, int]:
        """Add a nonzero residual to the basis; return it scaled to a pivot of 1, and the pivot."""
        pivot = int(np.flatnonzero(residual)[0])
        row = residual * pow(int(residual[pivot]), -1, PRIME) % PRIME
        if self.size == len(self._rows):
            extra_rows = min(2 * self.size, self._pivots.size) - self.size
            self._rows = np.concatenate([self._rows, np.zeros((extra_rows, self.width), np.uint32)])
        self._rows[self.size] = row
        self._pivots[self.size] = pivot
        self.size += 1
        return row, pivot


# -- kernels ---------------------------------------------------------------------------------


@njit(**INNER)
def _splitmix64(number: int) -> np.uint64:
    """Return a pseudo-random 64-bit number."""
    z = np.uint64(number) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x632BE59BD9B4E019)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(cache=True, nogil=True)
def _sketch(values: Bytes, reference: Integers, sketched: bool, coordinates: Integers) -> None:
    """Compute the coordinates, or a sketch, of ``values - values[reference]`` modulo the prime."""
    width = np.uint64(coordinates.size)
    for row in range(values.size):
        value = np.int64(values[row]) - np.int64(values[reference[row]])
        if value == 0:
            continue
        if not sketched:
            coordinates[row] = value
            continue
        for j in range(8):
            hashed = _splitmix64(8 * row + j)
            bucket = np.int64((hashed >> np.uint64(32)) % width)
            factor = np.int64(hashed & np.uint64(0x7FFFFFFF))
            coordinates[bucket] += value * factor
    for k in range(coordinates.size):  # sums of 2^32 terms of 31 bits fit in 63 bits
        coordinates[k] %= PRIME


@njit(cache=True, nogil=True)
def _eliminate(vector: Integers, rows: NDArray[np.uint32], pivots: Integers) -> None:
    """Subtract multiples of `rows` so that `vector` is 0 at their pivots, in place."""
    for j in range(pivots.size):
        factor = vector[pivots[j]]
        if factor != 0:
            row = rows[j]
            for k in range(vector.size):
                vector[k] = (vector[k] - factor * np.int64(row[k])) % PRIME
