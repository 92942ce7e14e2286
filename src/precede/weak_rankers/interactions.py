"""Pairwise interactions: detection of interacting features, and pair terms as weak rankers.

Both use a coarse `Grid` of the features and two-dimensional histograms of pull and weight
(`precede.engine.histograms`).

*Detection* (`interaction_strengths`) follows FAST (Lou et al. 2013): for each pair of features,
each pair of cuts divides the rows into four quadrants. With pull P, weight W and
``m = P / (W + lambda)`` in each, the strength is the maximum over all cuts of

    (m00 - m01 - m10 + m11)² / sum 1 / (W + lambda),

for lambda = 0 twice the further decrease of the quadratic model of the risk by the best function of
the four quadrants, compared with the best sum of one function per cut. Remaining main effects
therefore do not count as interactions.

*Fitting* (`PairTerms`): each round takes the pair and the piecewise constant function of four cells
that decrease the quadratic model most. One feature is cut, then the other feature on either side
of that cut. All cuts are evaluated, so that a pure interaction without main effects, which a
greedy first split misses, is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from precede.engine.arrays import Bytes, Flags, Floats, Integers
from precede.engine.compiling import INNER, njit
from precede.engine.exact import all_reduce_sum, exact_sum
from precede.engine.execution import Context, threads_for
from precede.engine.histograms import (
    SIDE,
    Histograms,
    PairWords,
    TripleHistograms,
    pair_sums,
    pair_words,
    triple_cover,
)
from precede.engine.table import MISSING, Table, integer_weights
from precede.weak_rankers.base import Family, SearchResult
from precede.weak_rankers.regressors import RegressionSearch
from precede.weak_rankers.terms import Term

# Triples of features whose histograms are in memory at a time.
TRIPLES_PER_BATCH = 1024
# Gains below this share of the leaf scores are rounding errors.
ROUNDING = 2.0**-36


@dataclass(frozen=True, eq=False)
class Grid:
    """Coarse bins of features, with about equal numbers of rows, for two-dimensional histograms.

    Attributes
    ----------
    features : columns of the table
    cuts : for each feature a subset of the cuts of the table, or its categories
    categorical : whether each feature is categorical
    lookup : array (features, 256), the bin of each code of the table
    sizes : number of bins of each feature; the last bin is for missing values
    codes : array (features, rows), the bin of each row
    """

    features: Integers
    cuts: tuple[tuple[float, ...], ...]
    categorical: Flags
    lookup: Bytes
    sizes: Integers
    codes: Bytes

    @classmethod
    def build(
        cls,
        table: Table,
        features: Integers,
        max_bins: int,
        context: Context,
        weight: Floats | None = None,
    ) -> Grid:
        """Merge bins of a table until each feature has at most `max_bins`, plus one for missing.

        Neighboring bins are merged. Of a categorical feature the `max_bins` heaviest categories
        keep a bin, and the others share that of missing values. `weight` is the weight of each
        row. O(rows) per feature.
        """
        integers = integer_weights(weight, None if weight is None else exact_sum(weight, context))
        rows = np.ones(table.n_used_rows, np.int64) if integers is None else integers
        counts = all_reduce_sum(lambda: Histograms(table, context).sums(rows, features), context)
        cuts: list[tuple[float, ...]] = []
        lookup = np.zeros((features.size, 256), np.uint8)
        categorical = np.array([int(f) in table.bins.categories for f in features], bool)
        for j, feature in enumerate(features.tolist()):
            edges = table.bins.categories[feature] if categorical[j] else table.bins.cuts[feature]
            merge = _keep_heaviest if categorical[j] else _merge_neighbors
            kept, lookup[j] = merge(counts[j], edges, max_bins)
            cuts.append(tuple(kept.tolist()))
        sizes = np.array([
            len(cut) + (1 if is_categorical else 2)
            for cut, is_categorical in zip(cuts, categorical, strict=True)
        ]).astype(np.int64)  # fmt: skip
        no_codes = np.empty((features.size, 0), np.uint8)
        return cls(features, tuple(cuts), categorical, lookup, sizes, no_codes).for_table(table)

    def for_table(self, table: Table) -> Grid:
        """Return this grid for the rows of another table with the same cuts."""
        codes = np.empty((self.features.size, table.n_used_rows), np.uint8)
        for j, feature in enumerate(self.features.tolist()):
            np.take(self.lookup[j], table.codes[feature], out=codes[j])
            table.release(self.features[j : j + 1])
        return replace(self, codes=codes)


def _merge_neighbors(counts: Integers, cuts: Floats, max_bins: int) -> tuple[Floats, Bytes]:
    """Return the kept cuts and the bin of each code; bins are quantiles of the counts."""
    bin_counts = counts[: cuts.size + 1].tolist()
    merged = np.arange(cuts.size + 1)
    if cuts.size + 1 > max_bins:
        total, before, quantile = max(sum(bin_counts), 1), 0, []
        for count in bin_counts:  # the quantile of the middle of each bin
            quantile.append(min((2 * before + count) * max_bins // (2 * total), max_bins - 1))
            before += count
        merged = np.unique(quantile, return_inverse=True)[1]
    kept = cuts[np.flatnonzero(merged[1:] != merged[:-1])]
    lookup = np.full(256, merged[-1], np.uint8)
    lookup[: merged.size] = merged
    lookup[MISSING] = merged[-1] + 1
    return kept, lookup


def _keep_heaviest(counts: Integers, categories: Floats, max_bins: int) -> tuple[Floats, Bytes]:
    """Return the kept categories and the bin of each code."""
    kept = np.sort(np.argsort(-counts[: categories.size], kind="stable")[:max_bins])
    lookup = np.full(256, kept.size, np.uint8)
    lookup[kept] = np.arange(kept.size)
    return categories[kept], lookup


# -- detection -------------------------------------------------------------------------------


def interaction_strengths(
    table: Table,
    pull: Floats,
    weight: Floats,
    features: Integers,
    context: Context,
    *,
    reg_lambda: float = 1.0,
    min_weight: float = 20.0,
    item_weight: Floats | None = None,
) -> dict[tuple[int, int], float]:
    """Return the interaction strength of each pair of features, see the module docstring.

    `reg_lambda` and the minimum weight `min_weight` of a quadrant are in units of the mean weight
    of a row. One addition serves three pairs, so this takes O(rows · features² / 6).

    >>> x = np.array([[0.0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 1]] * 25)
    >>> pull = np.where(x[:, 0] == x[:, 1], 0.01, -0.01)
    >>> found = interaction_strengths(
    ...     Table.build(x), pull, np.ones(100), np.arange(3), Context(1), reg_lambda=0.0
    ... )
    >>> {pair: round(strength, 9) for pair, strength in found.items()}
    {(0, 1): 0.01, (0, 2): 0.0, (1, 2): 0.0}
    """
    grid = Grid.build(table, features, SIDE - 1, context, item_weight)
    rows = pair_words(pull, weight, context)
    n = features.size
    count = all_reduce_sum(lambda: pull.size, context)
    triples = triple_cover(n)
    histograms = None if rows is None else TripleHistograms(grid.codes, rows.words, context)
    strengths: dict[tuple[int, int], float] = {}
    for first in range(0, len(triples), TRIPLES_PER_BATCH):
        batch = triples[first : first + TRIPLES_PER_BATCH]
        strength = np.zeros((len(batch), 3))
        if rows is not None and histograms is not None:
            mean = exact_sum(weight, context) / max(count, 1)
            sums = all_reduce_sum(partial(histograms.sums, batch), context)
            units = rows.pull_unit, rows.weight_unit / mean
            context.run(
                _strengths, len(batch), batch, sums, grid.sizes, grid.categorical, units,
                reg_lambda, min_weight, strength, threads=1 if len(batch) < 64 else None,
            )  # fmt: skip
        for triple, values in zip(batch.tolist(), strength.tolist(), strict=True):
            for (a, b), value in zip(((0, 1), (0, 2), (1, 2)), values, strict=True):
                if triple[b] < n:
                    strengths[int(features[triple[a]]), int(features[triple[b]])] = value
    return dict(sorted(strengths.items()))


# -- fitting ---------------------------------------------------------------------------------


class PairTerms(Family):
    """Piecewise constant functions of two features with four cells, as `Term` weak rankers.

    Parameters
    ----------
    pairs : list of pairs of columns
    bins : int
        Maximum number of bins of a feature.
    hessian, min_child_samples, min_child_weight, reg_lambda, cat_smooth
        As for `Trees`.
    grid : Grid, optional
        Bins to use; by default they are computed from the searched table.

    Notes
    -----
    A round takes one addition per row and pair, and O(bins²) per pair. Sums are integers, so that
    the terms do not depend on threads, machines or the order of rows.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    >>> family = PairTerms([(0, 1)], min_child_samples=1, reg_lambda=0.0)
    >>> found = family.search(Table.build(X), np.array([0.25, -0.25, -0.25, 0.25]))
    >>> found.weak_ranker(X)
    array([ 0.25, -0.25, -0.25,  0.25])
    """

    quadratic = True
    distributable = True
    codes_only = True

    def __init__(
        self,
        pairs: Sequence[tuple[int, int]],
        *,
        bins: int = 32,
        hessian: str = "newton",
        min_child_samples: int = 20,
        min_child_weight: float = 1e-3,
        reg_lambda: float = 0.0,
        cat_smooth: float = 10.0,
        grid: Grid | None = None,
    ):
        self.pairs = [(int(a), int(b)) for a, b in pairs]
        self.bins = bins
        self.hessian = hessian
        self.min_child_samples = min_child_samples
        self.min_child_weight = min_child_weight
        self.reg_lambda = reg_lambda
        self.cat_smooth = cat_smooth
        self.grid = grid

    def start(self, table: Table, context: Context | None = None) -> PairSearch:
        """Prepare to search a table: build the grid and count the rows of each cell."""
        return PairSearch(self, table, context or Context(1))

    def __repr__(self) -> str:
        return f"PairTerms({self.pairs!r}, bins={self.bins})"


class PairSearch(RegressionSearch):
    """Search that fits a term to each pull, on the rows of one table."""

    def __init__(self, family: PairTerms, table: Table, context: Context):
        self._family, self._table, self._context = family, table, context
        self.hessian = family.hessian
        pairs = np.array(family.pairs, np.int64).reshape(-1, 2)
        if family.grid is None:
            self.grid = Grid.build(table, np.unique(pairs), family.bins, context)
        else:
            self.grid = family.grid.for_table(table)
        self._pairs = np.searchsorted(self.grid.features, pairs)
        self._width = int(self.grid.sizes.max(initial=1))
        ones = np.ones(table.n_used_rows, np.int64)
        self._counts = all_reduce_sum(lambda: self._sums(ones), context)

    def _sums(self, words: Integers) -> Integers:
        return pair_sums(self.grid.codes, self._pairs, self._width, words, self._context)

    def fit(
        self,
        pull: Floats,
        weight: Floats,
        allowed: Flags | None = None,  # noqa: ARG002
        *,
        rows: float | None = None,
    ) -> SearchResult | None:
        """Fit a term to ``pull / weight``; return None if no term has a gain."""
        count = all_reduce_sum(lambda: weight.size, self._context)
        mean = exact_sum(weight, self._context) / (rows or max(count, 1))
        words = pair_words(pull, weight, self._context)
        if words is None or not len(self._pairs):
            return None
        sums = all_reduce_sum(lambda: self._sums(words.words), self._context)
        family, grid = self._family, self.grid
        unit = words.weight_unit / mean
        rules = family.reg_lambda / unit, family.cat_smooth / unit, family.min_child_weight / unit
        gain = np.zeros(len(self._pairs))
        leaf = np.zeros(sums.shape, np.int8)
        self._context.run(
            _best_terms, len(self._pairs), self._pairs, sums, self._counts, grid.sizes,
            grid.categorical, rules, max(family.min_child_samples, 1), gain, leaf,
            threads=threads_for("rows", 64 * len(self._pairs)),
        )  # fmt: skip
        best = int(np.argmax(gain))
        if not gain[best] > 0:
            return None
        return self._make_result(best, leaf[best], sums[best], words, mean, pull)

    def _make_result(
        self,
        best: int,
        leaf: Integers,
        sums: Integers,
        words: PairWords,
        mean: float,
        pull: Floats,
    ) -> SearchResult | None:
        """Return the term of pair `best`, whose cells have the leaf numbers `leaf`."""
        a, b = self._pairs[best].tolist()
        grid = self.grid
        leaf_sums = np.zeros(int(leaf.max()) + 1, np.int64)
        np.add.at(leaf_sums, leaf, sums)
        hessian = words.weights(leaf_sums) / mean + self._family.reg_lambda
        value = np.where(hessian > 0, words.pulls(leaf_sums) / np.where(hessian > 0, hessian, 1),
                         0.0) / mean  # fmt: skip
        shape = slice(0, int(grid.sizes[a])), slice(0, int(grid.sizes[b]))
        table = value[leaf]
        values = table[grid.codes[a], grid.codes[b]]
        edge = exact_sum(pull * values, self._context)
        if not edge > 0:
            return None
        term = Term(
            (int(grid.features[a]), int(grid.features[b])),
            (grid.cuts[a], grid.cuts[b]),
            (bool(grid.categorical[a]), bool(grid.categorical[b])),
            tuple(table[shape].ravel().tolist()),
            tuple(self._counts[best][shape].ravel().tolist()),
        )
        return SearchResult(term, edge, values=values)


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _strengths(
    low: int, high: int, triples: Integers, sums: Integers, sizes: Integers, categorical: Flags,
    units: tuple[float, float], penalty: float, min_weight: float, out: Floats,
) -> None:  # fmt: skip
    """Compute the strengths of the three pairs of each of the triples low..high."""
    prefix = np.zeros((16, 16), np.int64)
    for t in range(low, high):
        for p in range(3):
            a, b = triples[t, 1 if p == 2 else 0], triples[t, 1 if p == 0 else 2]
            if b < sizes.size:
                cells = sums[t, p, : sizes[a], : sizes[b]]
                _prefix_sums(cells, categorical[a], categorical[b], prefix)
                out[t, p] = _strength(
                    cells, categorical[a], categorical[b], prefix, units, penalty, min_weight
                )  # fmt: skip


@njit(**INNER)
def _prefix_sums(
    cells: Integers, row_categorical: bool, column_categorical: bool, prefix: Integers
) -> None:
    """Compute the sums of the first quadrant of all cuts; a categorical cut selects one bin."""
    rows, columns = cells.shape
    for i in range(rows):
        for j in range(columns):
            prefix[i, j] = cells[i, j]
    if not column_categorical:
        for i in range(rows):
            for j in range(1, columns):
                prefix[i, j] += prefix[i, j - 1]
    if not row_categorical:
        for i in range(1, rows):
            for j in range(columns):
                prefix[i, j] += prefix[i - 1, j]


@njit(**INNER)
def _sum_first_sides(
    cells: Integers, row_categorical: bool, column_categorical: bool, row_sums: Integers,
    column_sums: Integers,
) -> np.int64:  # fmt: skip
    """Compute the sums of the first side of each cut of rows and of columns; return the total.

    (`sum` and `cumsum` of arrays take a second to compile.)
    """
    total = np.int64(0)
    for i in range(row_sums.size):
        for j in range(column_sums.size):
            row_sums[i] += cells[i, j]
            column_sums[j] += cells[i, j]
            total += cells[i, j]
    if not row_categorical:
        for i in range(1, row_sums.size):
            row_sums[i] += row_sums[i - 1]
    if not column_categorical:
        for j in range(1, column_sums.size):
            column_sums[j] += column_sums[j - 1]
    return total


@njit(**INNER)
def _strength(
    cells: Integers, row_categorical: bool, column_categorical: bool, prefix: Integers,
    units: tuple[float, float], penalty: float, min_weight: float,
) -> float:  # fmt: skip
    """Return the largest strength over all pairs of cuts."""
    (rows, columns), best = cells.shape, 0.0
    row_sums, column_sums = np.zeros(rows, np.int64), np.zeros(columns, np.int64)
    total = _sum_first_sides(cells, row_categorical, column_categorical, row_sums, column_sums)
    for i in range(rows):
        for j in range(columns):
            first = prefix[i, j]
            contrast, variance, too_light = 0.0, 0.0, 0
            for q in range(4):
                quadrant, sign = first, 1.0
                if q == 1:
                    quadrant, sign = row_sums[i] - first, -1.0
                elif q == 2:
                    quadrant, sign = column_sums[j] - first, -1.0
                elif q == 3:
                    quadrant = total - row_sums[i] - column_sums[j] + first
                weight = np.float64(quadrant & 0xFFFFFFFF) * units[1]
                too_light += 1 if weight < min_weight or weight + penalty <= 0.0 else 0
                hessian = max(weight + penalty, 1e-300)
                variance += 1.0 / hessian
                contrast += sign * np.float64(quadrant >> 32) * units[0] / hessian
            if too_light == 0:
                best = max(best, contrast * contrast / variance)
    return best


@njit(**INNER)
def _leaf_score(pull: float, weight: float, penalty: float) -> float:
    return pull * pull / (weight + penalty) if weight + penalty > 0.0 else 0.0


@njit(**INNER)
def _sort_by_mean(
    pulls: Floats, weights: Floats, size: int, smooth: float, order: Integers
) -> None:
    """Sort the bins of a categorical feature by increasing smoothed mean pull."""
    key = np.empty(size)
    for code in range(size):
        weight = weights[code] + smooth
        mean = pulls[code] / weight if weight > 0.0 else 0.0
        i = code
        while i > 0 and key[i - 1] > mean:
            key[i], order[i] = key[i - 1], order[i - 1]
            i -= 1
        key[i], order[i] = mean, code


# The kernels below share these arguments. `cells` and `bins` hold pull, weight and count on their
# first axis; the last row, column or bin is for missing values. `rules` are the penalty, the
# smoothing of categories and the minimum weight of a leaf, `min_count` its minimum row count.


@njit(**INNER)
def _scan_cuts(
    bins: Floats, total: tuple[float, float, float], order: Integers, last: int,
    start: tuple[float, float, float], penalty: float, min_weight: float, min_count: int,
    best: float,
) -> tuple[float, int]:  # fmt: skip
    """Return score and position of the best cut in an order of bins.

    The left side begins with the sums `start`. Return `best` and -1 if no cut exceeds `best`.
    """
    position = -1
    pull, weight, count = start
    for i in range(last):
        code = order[i]
        pull += bins[0, code]
        weight += bins[1, code]
        count += bins[2, code]
        too_few = count < min_count or total[2] - count < min_count
        if too_few or weight < min_weight or total[1] - weight < min_weight:
            continue
        score = _leaf_score(pull, weight, penalty)
        score += _leaf_score(total[0] - pull, total[1] - weight, penalty)
        if score > best:
            best, position = score, i
    return best, position


@njit(**INNER)
def _best_cut(
    bins: Floats, size: int, categorical: bool, rules: tuple[float, float, float], min_count: int,
    order: Integers,
) -> tuple[float, int, bool]:  # fmt: skip
    """Return the score of the best cut of some bins, or of the uncut bins if that is better.

    Also return the position in `order` of the last bin on the left side (-1 for no cut), and
    whether missing values are on the left side. `order` is overwritten.
    """
    penalty, smooth, min_weight = rules
    pull, weight, count = 0.0, 0.0, 0.0
    for i in range(size):
        pull += bins[0, i]
        weight += bins[1, i]
        count += bins[2, i]
        order[i] = i
    total = (pull, weight, count)
    cut_penalty, last = penalty, size - 1
    if categorical:
        _sort_by_mean(bins[0], bins[1], size, smooth, order)
        cut_penalty, last = penalty + smooth, size
    best, position = _scan_cuts(
        bins, total, order, last, (0.0, 0.0, 0.0), cut_penalty, min_weight, min_count,
        _leaf_score(pull, weight, penalty),
    )  # fmt: skip
    missing = (bins[0, size - 1], bins[1, size - 1], bins[2, size - 1])
    if not categorical and missing[2] > 0.0:  # missing values may go left
        score, cut = _scan_cuts(
            bins, total, order, last, missing, cut_penalty, min_weight, min_count, best
        )  # fmt: skip
        if cut >= 0:
            return score, cut, True
    return best, position, False


@njit(**INNER)
def _left_bins(
    bins: Floats, size: int, categorical: bool, rules: tuple[float, float, float], min_count: int
) -> Flags:
    """Return whether each bin is on the left side of the best cut."""
    order = np.empty(size, np.int64)
    _, position, missing_left = _best_cut(bins, size, categorical, rules, min_count, order)
    is_left = np.zeros(size, np.bool_)
    count = 0.0
    for i in range(position + 1):
        is_left[order[i]] = True
        count += bins[2, order[i]]
    if position >= 0 and not categorical:
        # If no row is missing, missing values go to the side with more rows.
        none_missing = bins[2, size - 1] == 0.0
        is_left[size - 1] = missing_left or (none_missing and 2.0 * count >= bins[2].sum())
    return is_left


@njit(**INNER)
def _sum_sides(
    cells: Floats, is_first: Flags, rows: int, columns: int, first: Floats, second: Floats
) -> None:
    """Sum the rows of cells on either side of a cut."""
    first[:], second[:] = 0.0, 0.0
    for i in range(rows):
        target = first if is_first[i] else second
        for k in range(3):
            for j in range(columns):
                target[k, j] += cells[k, i, j]


@njit(**INNER)
def _move_row(row: Floats, reset: bool, total: Floats, first: Floats, second: Floats) -> float:
    """Add a row of cells to the first side, emptied before if `reset`; return its row count."""
    for k in range(3):
        for j in range(total.shape[1]):
            first[k, j] = row[k, j] if reset else first[k, j] + row[k, j]
            second[k, j] = total[k, j] - first[k, j]
    return first[2].sum()


@njit(**INNER)
def _best_first_cut(
    cells: Floats, rows: int, columns: int, row_categorical: bool, column_categorical: bool,
    rules: tuple[float, float, float], min_count: int, best: float, is_first: Flags,
) -> float:  # fmt: skip
    """Return the best score of a cut of the rows, followed by a cut of the columns on each side.

    If it exceeds `best`, write the rows on the first side to `is_first`.
    """
    order = np.empty(columns, np.int64)
    first, second, total = np.zeros((3, columns)), np.zeros((3, columns)), np.zeros((3, columns))
    for i in range(rows):
        total += cells[:, i]
    total_count = total[2].sum()
    missing = cells[:, rows - 1]
    missing_count = missing[2].sum()
    passes = 2 if missing_count > 0.0 and not row_categorical else 1  # missing second, then first
    # The last cut of ordered rows separates missing values from all others.
    cuts = rows if row_categorical else rows - 1 if missing_count > 0.0 else rows - 2
    for missing_first in range(passes):
        first[:] = 0.0
        if missing_first == 1:
            first += missing
        for i in range(cuts - missing_first):
            count = _move_row(cells[:, i], row_categorical, total, first, second)
            if count < min_count or total_count - count < min_count:
                continue
            score = _best_cut(first, columns, column_categorical, rules, min_count, order)[0]
            score += _best_cut(second, columns, column_categorical, rules, min_count, order)[0]
            if score > best:
                best = score
                for r in range(rows):
                    is_first[r] = r == i if row_categorical else r <= i
                if not row_categorical:
                    # If no row is missing, missing values go to the side with more rows.
                    is_first[rows - 1] = missing_first == 1 or (
                        missing_count == 0.0 and 2.0 * count >= total_count
                    )  # fmt: skip
    return best


@njit(cache=True, nogil=True)
def _write_leaves(
    cells: Floats, is_first: Flags, rows: int, columns: int, column_categorical: bool,
    rules: tuple[float, float, float], min_count: int, transposed: bool, leaf: Integers,
) -> None:  # fmt: skip
    """Write the leaf number of each cell."""
    first, second = np.zeros((3, columns)), np.zeros((3, columns))
    _sum_sides(cells, is_first, rows, columns, first, second)
    first_left = _left_bins(first, columns, column_categorical, rules, min_count)
    second_left = _left_bins(second, columns, column_categorical, rules, min_count)
    for i in range(rows):
        for j in range(columns):
            number = (0 if first_left[j] else 1) if is_first[i] else (2 if second_left[j] else 3)
            if transposed:
                leaf[j, i] = number
            else:
                leaf[i, j] = number


@njit(cache=True, nogil=True)
def _best_terms(
    low: int, high: int, pairs: Integers, sums: Integers, counts: Integers, sizes: Integers,
    categorical: Flags, rules: tuple[float, float, float], min_count: int, gain: Floats,
    leaf: Integers,
) -> None:  # fmt: skip
    """Find the best function of four cells of each of the pairs low..high.

    Write its gain and the leaf number of each cell.
    """
    for p in range(low, high):
        a, b = pairs[p, 0], pairs[p, 1]
        rows, columns = sizes[a], sizes[b]
        cells, transposed = np.zeros((3, rows, columns)), np.zeros((3, columns, rows))
        pull, weight = 0.0, 0.0
        # In quantized units, so that all sums and differences are exact.
        for i in range(rows):
            for j in range(columns):
                cells[0, i, j] = np.float64(sums[p, i, j] >> 32)
                cells[1, i, j] = np.float64(sums[p, i, j] & 0xFFFFFFFF)
                cells[2, i, j] = np.float64(counts[p, i, j])
                for k in range(3):
                    transposed[k, j, i] = cells[k, i, j]
                pull += cells[0, i, j]
                weight += cells[1, i, j]
        uncut = _leaf_score(pull, weight, rules[0])
        first_a, first_b = np.zeros(rows, np.bool_), np.zeros(columns, np.bool_)
        by_a = _best_first_cut(
            cells, rows, columns, categorical[a], categorical[b], rules, min_count, uncut, first_a
        )  # fmt: skip
        best = _best_first_cut(
            transposed, columns, rows, categorical[b], categorical[a], rules, min_count, by_a,
            first_b,
        )  # fmt: skip
        if not best - uncut > ROUNDING * best:
            continue
        gain[p] = best - uncut
        if best > by_a:
            _write_leaves(
                transposed, first_b, columns, rows, categorical[a], rules, min_count, True, leaf[p]
            )  # fmt: skip
        else:
            _write_leaves(
                cells, first_a, rows, columns, categorical[b], rules, min_count, False, leaf[p]
            )  # fmt: skip
