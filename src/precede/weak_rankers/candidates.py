"""All rankers of values 0 and 1 that a table offers, without duplicates, and their span.

As vectors over pairs, ``h(winner) - h(loser)``, two rankers are equal when their difference
is constant on every connected component of the comparability graph. So both questions that
RankBoost+ asks (is this candidate another one again, is it a linear combination of others)
are answered on items, and no vector over pairs is ever made.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from precede.engine.arrays import Bytes, Floats, Integers
from precede.engine.compiling import INNER
from precede.engine.exact import SCALE, to_integers
from precede.engine.execution import Context
from precede.engine.histograms.columns import Histograms, sums_from
from precede.engine.query_layout import QueryLayout
from precede.engine.table import Table
from precede.weak_rankers.base import Family, WeakRanker
from precede.weak_rankers.columns import Column, Columns
from precede.weak_rankers.stumps import Stump, Stumps

__all__ = ["Candidates", "Span"]


# Independence is decided in the field of this many numbers: exact, without a tolerance.
PRIME = (1 << 31) - 1
# Coordinates of a random sketch beyond the number of vectors, besides an eighth of them: an
# independent vector is hidden only if all that is left of it happens to be zero.
SPARE = 64


class Candidates:
    """Binary rankers of a table: every threshold of every feature, or the columns themselves.

    Missing values count as lower than all others (C19 section 5). Candidates that order no
    pair are left out, and of those that are equal over pairs, or opposite, the first stays:
    lowest feature, then lowest threshold.

    Attributes
    ----------
    feature, first : a candidate is 1 where the code of the feature is at least `first`

    Notes
    -----
    Duplicates are found by a random linear function of 128 bits of the vector over pairs,
    computed for all thresholds at once from histograms, O(n) a feature; two different
    candidates are taken for one with a chance of about 2^-127. `edges` costs O(n) a feature.
    """

    def __init__(self, table: Table, layout: QueryLayout, family: Family, context: Context):
        self._table, self._histograms = table, Histograms(table, context)
        self._columns = isinstance(family, Columns)
        if not self._columns and not isinstance(family, Stumps):
            raise ValueError(
                f"weak_rankers={family!r}: RankBoostPlus needs rankers of values 0 and 1; use "
                "'stumps' or 'columns'"
            )
        if family.thresholds == "all":
            raise ValueError(
                f"weak_rankers={family!r}: RankBoostPlus has the thresholds of bins; use 'stumps'"
            )
        if self._columns:
            _check_columns(table)
        self.feature, self.first = self._listed()
        self._keep_different(layout)

    def __len__(self) -> int:
        return int(self.feature.size)

    def weak_ranker(self, number: int) -> WeakRanker:
        """Candidate of this number, as a weak ranker."""
        feature, first = int(self.feature[number]), int(self.first[number])
        if self._columns:
            return Column(feature)
        threshold = self._table.bins.cuts[feature][first - 1] if first > 0 else -np.inf
        return Stump(feature, float(threshold))

    def number(self, weak_ranker: WeakRanker) -> int:
        """Number of a ranker that `ranker` gave; -1 for another one."""
        feature, first = -1 if weak_ranker.only_feature is None else weak_ranker.only_feature, 1
        if isinstance(weak_ranker, Stump) and not self._columns:
            cuts = self._table.bins.cuts[feature]
            first = int(np.searchsorted(cuts, weak_ranker.threshold, side="right"))
        found = np.flatnonzero((self.feature == feature) & (self.first == first))
        return (
            int(found[0]) if found.size and self.weak_ranker(int(found[0])) == weak_ranker else -1
        )

    def values(self, number: int) -> Bytes:
        """Values of a candidate, one for each row."""
        codes = self._table.codes[self.feature[number]]
        return ((codes >= self.first[number]) & (codes < 255)).astype(np.uint8)

    def edges(self, pull: Floats) -> Floats:
        """``sum_i pull_i h(x_i)`` of every candidate; the same bits in any order of rows."""
        return self._sums(to_integers(pull)) / SCALE

    def _listed(self) -> tuple[Integers, Integers]:
        """Every threshold, also the one between missing and present."""
        table = self._table
        feature, first = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for f, bins in enumerate(table.bins.n_bins):
            lowest = 0 if table.bins.has_missing[f] else 1
            codes = np.arange(lowest, bins)
            feature.append(np.full(codes.size, f))
            first.append(codes)
        return np.concatenate(feature), np.concatenate(first)

    def _sums(self, integers: Integers) -> Integers:
        """Sum integers, modulo 2^64, over the rows where each candidate is 1."""
        return sums_from(self._histograms.sums(integers))[self.feature, self.first]

    def _keep_different(self, layout: QueryLayout) -> None:
        component = layout.components()
        generator = np.random.default_rng(20190812)
        halves = []
        for _ in range(2):
            numbers = generator.integers(-(2**63), 2**63 - 1, component.size, dtype=np.int64)
            # Numbers that add up to 0 in every component do not see what is constant there.
            total = np.zeros(int(component.max()) + 1, np.int64)
            np.add.at(total, component, numbers)
            numbers[np.unique(component, return_index=True)[1]] -= total
            halves.append(self._sums(numbers))
        keys = np.stack(halves, axis=1)
        # The opposite ranker has the opposite key.
        turned = (keys[:, 0] < 0) | ((keys[:, 0] == 0) & (keys[:, 1] < 0))
        keys[turned] = -keys[turned]
        first = np.sort(np.unique(keys, axis=0, return_index=True)[1])
        first = first[(keys[first] != 0).any(axis=1)]
        self.feature, self.first = self.feature[first], self.first[first]


def _check_columns(table: Table) -> None:
    absent = np.flatnonzero(table.bins.has_missing)
    if absent.size:
        raise ValueError(
            f"column {absent[0]} has missing values; rankers given as columns must have a value "
            "for every row (use weak_rankers='stumps' for features with missing values)"
        )
    for feature in range(table.n_features):
        column = table.column(feature)
        other = column[(column != 0) & (column != 1)]
        if other.size:
            raise ValueError(
                f"column {feature} holds {other[0]:g}; rankers given as columns must be 0 or 1 "
                "in every row (use weak_rankers='stumps' for other features)"
            )


class Span:
    """Which vectors over pairs are linear combinations of those added so far.

    A ranker is represented by its values on items, less the value of the first item of the
    component: this is zero exactly when the ranker ties every pair. Elimination runs in the
    field of integers modulo 2^31 - 1, so there is no tolerance; when there are more items
    than vectors to come, on a sparse random sketch (eight coordinates for every item).

    Parameters
    ----------
    layout : the rows
    most : number of vectors that may be added

    Notes
    -----
    O(n + vectors · coordinates) for each question. Vectors can be independent over the
    rationals and dependent modulo the prime; for given vectors the chance is about 10^-9.
    """

    def __init__(self, layout: QueryLayout, most: int):
        component = layout.components()
        first = np.unique(component, return_index=True)[1]
        self._reference = first[component]
        self.width = self.width_needed(component.size, most)
        self._sketched = self.width < component.size
        self._rows = np.zeros((min(16, most), self.width), np.uint32)
        self._pivots = np.zeros(most, np.int64)
        self.size = 0

    @staticmethod
    def width_needed(rows: int, most: int) -> int:
        """Number of coordinates of a vector."""
        return min(rows, most + most // 8 + SPARE)

    @staticmethod
    def bytes_needed(rows: int, most: int) -> int:
        """Memory of so many vectors."""
        return 4 * most * Span.width_needed(rows, most)

    def centered(self, values: Bytes) -> Floats:
        """Values of a ranker less that of the first item of the component."""
        plain = values.astype(np.float64)
        return plain - plain[self._reference]

    def vector(self, values: Bytes) -> Integers:
        """Represent a ranker by its coordinates."""
        coordinates = np.zeros(self.width, np.int64)
        _sketch(values, self._reference, self._sketched, coordinates)
        return coordinates

    def rest(self, vector: Integers) -> Integers:
        """What the vectors added so far leave of another; zero if it is in their span."""
        rest = vector.copy()
        _eliminate(rest, self._rows, self._pivots[: self.size])
        return rest

    def add(self, rest: Integers) -> tuple[Integers, int]:
        """Add what `rest` gave, if it is not zero; returns it scaled, and its pivot."""
        pivot = int(np.flatnonzero(rest)[0])
        row = rest * pow(int(rest[pivot]), -1, PRIME) % PRIME
        if self.size == len(self._rows):
            more = min(2 * self.size, self._pivots.size) - self.size
            self._rows = np.concatenate([self._rows, np.zeros((more, self.width), np.uint32)])
        self._rows[self.size] = row
        self._pivots[self.size] = pivot
        self.size += 1
        return row, pivot


assert PRIME == 2147483647, "the kernels below write the prime as 2147483647"


# -- kernels ---------------------------------------------------------------------------------


@njit(**INNER)
def _mixed(number: int) -> np.uint64:
    """A pseudo-random number of 64 bits."""
    z = np.uint64(number) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x632BE59BD9B4E019)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(cache=True, nogil=True)
def _sketch(values: Bytes, reference: Integers, sketched: bool, coordinates: Integers) -> None:
    width = np.uint64(coordinates.size)
    for row in range(values.size):
        value = np.int64(values[row]) - np.int64(values[reference[row]])
        if value == 0:
            continue
        if not sketched:
            coordinates[row] = value
            continue
        for j in range(8):
            mixed = _mixed(8 * row + j)
            bucket = np.int64((mixed >> np.uint64(32)) % width)
            factor = np.int64(mixed & np.uint64(0x7FFFFFFF))
            coordinates[bucket] += value * factor
    for k in range(coordinates.size):  # sums of 2^32 terms would still fit
        coordinates[k] %= 2147483647


@njit(cache=True, nogil=True)
def _eliminate(vector: Integers, rows: NDArray[np.uint32], pivots: Integers) -> None:
    for j in range(pivots.size):
        factor = vector[pivots[j]]
        if factor != 0:
            row = rows[j]
            for k in range(vector.size):
                vector[k] = (vector[k] - factor * np.int64(row[k])) % 2147483647
