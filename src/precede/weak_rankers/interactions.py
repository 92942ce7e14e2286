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
from precede.engine.compiling import INLINED, interpreted, njit
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
# Of which this many are evaluated at a time, so that they stay in the cache.
TRIPLES_PER_CHUNK = 32
# Gains below this share of the leaf scores are rounding errors.
ROUNDING = 2.0**-36
# Of a search: penalty, smoothing of categories, minimum weight of a leaf and number of its rows.
Rules = tuple[float, float, float, float]


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
            rules = rows.pull_unit, rows.weight_unit / mean, reg_lambda, min_weight
            context.map(
                _fill_strengths, len(batch), batch, sums, grid, rules, strength,
                threads=1 if len(batch) < 64 else None,
            )  # fmt: skip
        for triple, values in zip(batch.tolist(), strength.tolist(), strict=True):
            for (a, b), value in zip(((0, 1), (0, 2), (1, 2)), values, strict=True):
                if triple[b] < n:
                    strengths[int(features[triple[a]]), int(features[triple[b]])] = value
    return dict(sorted(strengths.items()))


def _fill_strengths(
    low: int, high: int, triples: Integers, sums: Integers, grid: Grid, rules: Rules, out: Floats
) -> None:
    """Compute the strengths of the three pairs of each of the triples low..high.

    `rules` are the units of pull and weight, the penalty and the minimum weight of a quadrant.
    """
    pull_unit, weight_unit, penalty, min_weight = rules
    for first in range(low, high, TRIPLES_PER_CHUNK):
        chunk = slice(first, min(first + TRIPLES_PER_CHUNK, high))
        # Triples may lack a third feature; any feature can take its place, its result is unused.
        features = np.minimum(triples[chunk], grid.sizes.size - 1)
        one, other = features[:, [0, 0, 1]], features[:, [1, 2, 2]]
        quadrants, is_cut = _quadrants(sums[chunk], grid, one, other)
        contrast, variance = np.zeros(is_cut.shape), np.zeros(is_cut.shape)
        for sign, words in zip((1.0, -1.0, -1.0, 1.0), quadrants, strict=True):
            weight = (words & 0xFFFFFFFF) * weight_unit
            is_cut &= (weight >= min_weight) & (weight + penalty > 0.0)
            hessian = np.maximum(weight + penalty, 1e-300)
            variance += 1.0 / hessian
            contrast += sign * (words >> 32) * pull_unit / hessian
        strength = np.where(is_cut, contrast * contrast / variance, 0.0)
        out[chunk] = strength.max(axis=(2, 3))


def _quadrants(
    cells: Integers, grid: Grid, one: Integers, other: Integers
) -> tuple[tuple[Integers, ...], Flags]:
    """Return the sums of the four quadrants of every pair of cuts, and which cuts exist.

    The cut of an ordered feature is after a bin, that of a categorical feature selects a bin.
    """
    by_row, by_column = (grid.categorical[each][:, :, None, None] for each in (one, other))
    above = np.where(by_row, cells, cells.cumsum(axis=2))
    first = np.where(by_column, above, above.cumsum(axis=3))
    rows = above.sum(axis=3, keepdims=True)
    left = np.where(by_column, cells, cells.cumsum(axis=3))
    columns = left.sum(axis=2, keepdims=True)
    total = cells.sum(axis=(2, 3), keepdims=True)
    bins = np.arange(SIDE)
    is_cut = (bins[:, None] < grid.sizes[one][:, :, None, None]) & (
        bins < grid.sizes[other][:, :, None, None]
    )
    return (first, rows - first, columns - first, total - rows - columns + first), is_cut


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
        # Each pair is two tables: either of its features may be cut first.
        self._count_tables = _both_ways(self._counts)
        features = np.stack([self._pairs, self._pairs[:, ::-1]], axis=1).reshape(-1, 2)
        self._categorical = self.grid.categorical[features]
        rows, columns = self.grid.sizes[features].T
        missing = self._count_tables[np.arange(rows.size), rows - 1].sum(axis=1)
        self._shapes = np.column_stack([rows, columns, missing])

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
        family, unit = self._family, words.weight_unit / mean
        rules = (
            family.reg_lambda / unit, family.cat_smooth / unit, family.min_child_weight / unit,
            float(max(family.min_child_samples, 1)),
        )  # fmt: skip
        tables, total = _both_ways(sums), int(sums[0].sum())
        pulls, weights = float(total >> 32), float(total & 0xFFFFFFFF)
        uncut = pulls * pulls / (weights + rules[0]) if weights + rules[0] > 0 else 0.0
        scores, cuts = np.full(len(tables), uncut), np.zeros((len(tables), 2), np.int64)
        self._context.map(
            self._find_cuts, len(tables), tables, rules, scores, cuts,
            threads=threads_for("rows", 32 * len(tables)),
        )  # fmt: skip
        best_scores = scores.reshape(-1, 2).max(axis=1)
        gain = best_scores - uncut
        gain[~(gain > ROUNDING * best_scores)] = 0.0
        best = int(np.argmax(gain))
        if not gain[best] > 0:
            return None
        table = 2 * best + int(scores[2 * best + 1] > scores[2 * best])
        leaf = self._leaves(table, tables[table], rules, *cuts[table].tolist())
        leaf = leaf if table == 2 * best else leaf.T
        return self._make_result(best, leaf, sums[best], words, mean, pull)

    def _find_cuts(
        self, low: int, high: int, tables: Integers, rules: Rules, scores: Floats, cuts: Integers
    ) -> None:
        """Find the first cuts of tables low..high."""
        sides, key = np.empty((5, self._width), np.int64), np.empty(self._width)
        _best_first_cuts(
            low, high, tables, self._count_tables, self._shapes, self._categorical, rules, sides,
            key, scores, cuts,
        )  # fmt: skip

    def _leaves(
        self, table: int, words: Integers, rules: Rules, cut: int, missing_first: int
    ) -> Integers:
        """Return the leaf number of each cell of a table, of which the first cut is given."""
        rows, columns, missing = self._shapes[table].tolist()
        by_row, by_column = self._categorical[table].tolist()
        counts, row = self._count_tables[table], np.arange(self._width)
        is_first = row == cut if by_row else row <= cut
        if not by_row:
            heavier = 2 * counts[: self._width][is_first].sum() >= counts[-1].sum()
            is_first[rows - 1] = missing_first or (missing == 0 and heavier)
        leaf = np.zeros((self._width, self._width), np.int64)
        for number, side in ((0, is_first), (2, ~is_first)):
            side_words, side_counts = words[:-1][side].sum(axis=0), counts[:-1][side].sum(axis=0)
            is_left = _left_bins(side_words[:columns], side_counts[:columns], by_column, rules)
            leaf[side, :columns] = np.where(is_left, number, number + 1)
        leaf[rows:] = 0
        return leaf

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


def _both_ways(sums: Integers) -> Integers:
    """Return each table of sums and its transpose, with the sums of the columns as the last row."""
    both = np.stack([sums, sums.swapaxes(1, 2)], axis=1).reshape(-1, *sums.shape[1:])
    return np.concatenate([both, both.sum(axis=1, keepdims=True)], axis=1)


def _left_bins(words: Integers, counts: Integers, categorical: bool, rules: Rules) -> Flags:
    """Return whether each bin is on the left side of the best cut."""
    size, order = words.size, list(range(words.size))
    # (Python is faster with its own numbers.)
    _, position, missing_left = interpreted(_best_cut)(
        words.tolist(), counts.tolist(), size, categorical, rules, order, [0.0] * size
    )  # fmt: skip
    is_left = np.zeros(size, bool)
    is_left[order[: position + 1]] = True
    if position >= 0 and not categorical:
        # If no row is missing, missing values go to the side with more rows.
        heavier = 2 * counts[is_left].sum() >= counts.sum()
        is_left[-1] = missing_left or (counts[-1] == 0 and heavier)
    return is_left


# -- kernels ---------------------------------------------------------------------------------
#
# Sums are integers, words of pull and weight (`PairWords`) and counts of rows, so that they and
# their differences are exact. `rules` are the penalty, the smoothing of categories, the minimum
# weight of a leaf and the minimum number of its rows. The last row, column or bin is for missing
# values.


@njit(**INLINED)
def _best_cut(  # noqa: C901, PLR0912
    words: Integers, counts: Integers, size: int, categorical: bool,
    rules: Rules, order: Integers, key: Floats,
) -> tuple[float, int, int]:  # fmt: skip
    """Return the score of the best cut of some bins, or of the uncut bins if that is better.

    Also return the position in `order` of the last bin on the left side (-1 for no cut), and 1 if
    missing values are on the left side. `order` and `key` are overwritten.
    """
    penalty, smooth, min_weight, min_count = rules
    n_cuts, passes, word, count = size, 1, words[0], counts[0]
    order[0], key[0] = 0, 0.0
    for i in range(1, size):
        order[i] = i
        word += words[i]
        count += counts[i]
    pull, weight, n_rows = float(word >> 32), float(word & 0xFFFFFFFF), float(count)
    best, position, missing_left = 0.0, -1, 0
    if weight + penalty > 0.0:
        best = pull * pull / (weight + penalty)
    if categorical:  # sort by increasing smoothed mean pull
        for i in range(size):
            key[i] = 0.0
            if float(words[i] & 0xFFFFFFFF) + smooth > 0.0:
                key[i] = float(words[i] >> 32) / (float(words[i] & 0xFFFFFFFF) + smooth)
            mean, at = key[i], i
            while at > 0 and key[at - 1] > mean:
                key[at], order[at] = key[at - 1], order[at - 1]
                at -= 1
            key[at], order[at] = mean, i
        penalty += smooth
    else:
        n_cuts = size - 1
        passes = 2 if counts[n_cuts] > 0 else 1  # missing values right, then left
    for missing in range(passes):
        word = words[size - 1] * missing
        count = counts[size - 1] * missing
        for i in range(n_cuts):
            word += words[order[i]]
            count += counts[order[i]]
            left, left_weight, left_rows = float(word >> 32), float(word & 0xFFFFFFFF), float(count)
            right_weight = weight - left_weight
            few = left_rows < min_count or n_rows - left_rows < min_count
            if few or left_weight < min_weight or right_weight < min_weight:
                continue
            score = 0.0
            if left_weight + penalty > 0.0:
                score = left * left / (left_weight + penalty)
            if right_weight + penalty > 0.0:
                score += (pull - left) * (pull - left) / (right_weight + penalty)
            if score > best:
                best, position, missing_left = score, i, missing
    return best, position, missing_left


@njit(cache=True, nogil=True)
def _best_first_cuts(
    low: int, high: int, words: Integers, counts: Integers, shapes: Integers, categorical: Flags,
    rules: Rules, sides: Integers, key: Floats, scores: Floats,
    cuts: Integers,
) -> None:  # fmt: skip
    """Find the best cut of the rows of tables low..high, followed by cuts of the columns.

    The columns are cut on either side of the first cut. Write the score and the first cut: its row,
    and whether missing values are on the first side.
    """
    for t in range(low, high):
        rows, columns, best = shapes[t, 0], shapes[t, 1], scores[t]
        by_row, by_column, missing = categorical[t, 0], categorical[t, 1], shapes[t, 2]
        # The last cut of ordered rows separates missing values from all others.
        n_cuts, passes, keep = rows - 1 if missing > 0 else rows - 2, 2 if missing > 0 else 1, 1
        if by_row:
            n_cuts, passes, keep = rows, 1, 0
        for missing_first in range(passes):
            for j in range(columns):
                sides[0, j] = words[t, rows - 1, j] * missing_first
                sides[1, j] = counts[t, rows - 1, j] * missing_first
            for i in range(n_cuts - missing_first):
                count, total = np.int64(0), np.int64(0)
                for j in range(columns):
                    sides[0, j] = words[t, i, j] + keep * sides[0, j]
                    sides[1, j] = counts[t, i, j] + keep * sides[1, j]
                    sides[2, j] = words[t, words.shape[2], j] - sides[0, j]
                    sides[3, j] = counts[t, words.shape[2], j] - sides[1, j]
                    count += sides[1, j]
                    total += sides[3, j]
                if float(count) < rules[3] or float(total) < rules[3]:
                    continue
                score = 0.0
                for side in range(2):
                    score += _best_cut(
                        sides[2 * side], sides[2 * side + 1], columns, by_column, rules, sides[4],
                        key,
                    )[0]  # fmt: skip
                if score > best:
                    best, cuts[t, 0], cuts[t, 1] = score, i, missing_first
        scores[t] = best
