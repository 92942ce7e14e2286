"""Interactions of two features: which pairs have one, and terms of a pair as weak rankers.

Both work on a coarse `Grid` of the features and on two-dimensional histograms of the pull and of
its weight (`precede.engine.histograms.feature_pairs`).

*Detection* (`interaction_strengths`) is the idea of FAST (Lou et al. 2013): for every pair of
features and every pair of cuts the rows fall into four quadrants. With pull P, weight W and
``m = P / (W + lambda)`` in each, the strength is

    (m00 - m01 - m10 + m11)² / sum 1 / (W + lambda),

for lambda = 0 twice what the best function of the four quadrants takes off the quadratic model of
the risk beyond the best sum of two functions of one cut each. What main effects have left over
therefore does not count.

*Fitting* (`PairTerms`): every round takes the pair and the function of four cells that lower the
quadratic model of the risk most: one feature is cut, then the other on either side of the cut. All
cuts are tried, so that an interaction without main effects, which no greedy first split sees, is
found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numba import njit

from precede.engine.arrays import Bytes, Flags, Floats, Integers
from precede.engine.compiling import INNER
from precede.engine.exact import all_reduce_sum, exact_sum
from precede.engine.execution import Context, is_small
from precede.engine.histograms.columns import Histograms
from precede.engine.histograms.device_feature_pairs import DeviceTriples
from precede.engine.histograms.feature_pairs import (
    SIDE,
    PairWords,
    pair_sums,
    pair_words,
    triple_cover,
    triple_sums,
)
from precede.engine.table import MISSING, Table, integer_weights
from precede.weak_rankers.base import Family, SearchResult
from precede.weak_rankers.regressors import RegressionSearch
from precede.weak_rankers.terms import Term

__all__ = ["Grid", "PairTerms", "interaction_strengths"]

# Triples of features whose histograms are in memory at a time.
BATCH = 1024
# Gains below this share of the worth of the cells are rounding.
ROUNDING = 2.0**-36


@dataclass(frozen=True, eq=False)
class Grid:
    """Features in few bins of about equal numbers of rows, for pairs of them.

    Attributes
    ----------
    features : the columns of the table
    cuts : for each of them its cuts, some of those of the table, or its categories
    categorical : whether they are categories
    lookup : array (features, 256), the bin of each code of the table
    sizes : number of bins of each feature, of which the last is for missing values
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
        most: int,
        context: Context,
        weight: Floats | None = None,
    ) -> Grid:
        """Join neighboring bins of a table until each feature has at most `most` and missing.

        Of categories the `most` heaviest keep a bin, and the others join missing values.
        `weight` is one number for each row. O(rows) for each feature.
        """
        whole = integer_weights(weight, None if weight is None else exact_sum(weight, context))
        rows = np.ones(table.n_used_rows, np.int64) if whole is None else whole
        counts = all_reduce_sum(lambda: Histograms(table, context).sums(rows, features), context)
        cuts: list[tuple[float, ...]] = []
        lookup = np.zeros((features.size, 256), np.uint8)
        named = np.array([int(feature) in table.bins.categories for feature in features], bool)
        for j, feature in enumerate(features.tolist()):
            edges = table.bins.categories[feature] if named[j] else table.bins.cuts[feature]
            join = _heaviest if named[j] else _neighbors
            kept, lookup[j] = join(counts[j], edges, most)
            cuts.append(tuple(kept.tolist()))
        sizes = np.array([len(cut) + (1 if n else 2) for cut, n in zip(cuts, named, strict=True)])
        none = np.empty((features.size, 0), np.uint8)
        return cls(features, tuple(cuts), named, lookup, sizes.astype(np.int64), none).of(table)

    def of(self, table: Table) -> Grid:
        """The same bins for the rows of another table that has the same cuts."""
        codes = np.empty((self.features.size, table.n_used_rows), np.uint8)
        for j, feature in enumerate(self.features.tolist()):
            np.take(self.lookup[j], table.codes[feature], out=codes[j])
            table.release(self.features[j : j + 1])
        return replace(self, codes=codes)


def _neighbors(counts: Integers, cuts: Floats, most: int) -> tuple[Floats, Bytes]:
    """Cuts that are kept, and the bin of each code."""
    inside = [int(count) for count in counts[: cuts.size + 1]]
    number = np.arange(cuts.size + 1)
    if cuts.size + 1 > most:
        total, before, middle = max(sum(inside), 1), 0, []
        for count in inside:
            middle.append(min((2 * before + count) * most // (2 * total), most - 1))
            before += count
        number = np.unique(middle, return_inverse=True)[1]
    kept = cuts[np.flatnonzero(number[1:] != number[:-1])]
    lookup = np.full(256, number[-1], np.uint8)
    lookup[: number.size] = number
    lookup[MISSING] = number[-1] + 1
    return kept, lookup


def _heaviest(counts: Integers, categories: Floats, most: int) -> tuple[Floats, Bytes]:
    """Categories that are kept, and the bin of each code."""
    order = np.argsort(-counts[: categories.size], kind="stable")[:most]
    chosen = np.sort(order)
    lookup = np.full(256, chosen.size, np.uint8)
    lookup[chosen] = np.arange(chosen.size)
    return categories[chosen], lookup


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
    """Strength of the interaction of every pair of features; see above.

    `reg_lambda` and `min_weight`, the least weight of a quadrant, are in rows of mean weight. One
    addition for a row and three pairs: O(rows · features² / 6).

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
    fill = None if rows is None else _filling(grid, rows, context)
    found: dict[tuple[int, int], float] = {}
    for first in range(0, len(triples), BATCH):
        part = triples[first : first + BATCH]
        strength = np.zeros((len(part), 3))
        if rows is not None and fill is not None:
            mean = exact_sum(weight, context) / max(count, 1)
            sums = all_reduce_sum(partial(fill, part), context)
            units = rows.pull_unit, rows.weight_unit / mean
            context.run(
                _strengths, len(part), part, sums, grid.sizes, grid.categorical, units, reg_lambda,
                min_weight, strength, small=len(part) < 64,
            )  # fmt: skip
        for triple, values in zip(part.tolist(), strength.tolist(), strict=True):
            for (a, b), value in zip(((0, 1), (0, 2), (1, 2)), values, strict=True):
                if triple[b] < n:
                    found[int(features[triple[a]]), int(features[triple[b]])] = value
    return dict(sorted(found.items()))


def _filling(grid: Grid, rows: PairWords, context: Context) -> Callable[[Integers], Integers]:
    """Function that sums the words over the cells of triples."""
    if context.device is not None:
        return DeviceTriples(context.device, grid.codes, rows.words).sums
    return lambda triples: triple_sums(grid.codes, triples, rows.words, context)


# -- fitting ---------------------------------------------------------------------------------


class PairTerms(Family):
    """Functions of four cells of a pair of features, as `Term` rankers.

    Parameters
    ----------
    pairs : list of pairs of columns
    bins : int
        Most bins of a feature.
    hessian, min_child_samples, min_child_weight, reg_lambda, cat_smooth
        As for `Trees`.
    grid : Grid, optional
        The bins to use, instead of those chosen from the table that is searched.

    Notes
    -----
    A round takes one addition for each row and pair, and O(bins²) for a pair. Sums are sums of
    integers: the terms do not depend on threads, machines or the order of rows.

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
        """Join the bins of the table to a grid, and count the rows of each cell."""
        return PairSearch(self, table, context or Context(1))

    def __repr__(self) -> str:
        return f"PairTerms({self.pairs!r}, bins={self.bins})"


class PairSearch(RegressionSearch):
    """Fits a term to every pull, on the rows of one table."""

    def __init__(self, family: PairTerms, table: Table, context: Context):
        self._family, self._table, self._context = family, table, context
        self.hessian = family.hessian
        pairs = np.array(family.pairs, np.int64).reshape(-1, 2)
        if family.grid is None:
            self.grid = Grid.build(table, np.unique(pairs), family.bins, context)
        else:
            self.grid = family.grid.of(table)
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
        """Fit a term to ``pull / weight``; None where nothing helps."""
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
            small=is_small("rows", 64 * len(self._pairs)),
        )  # fmt: skip
        best = int(np.argmax(gain))
        if not gain[best] > 0:
            return None
        return self._found(best, leaf[best], sums[best], words, mean, pull)

    def _found(
        self,
        best: int,
        leaf: Integers,
        sums: Integers,
        words: PairWords,
        mean: float,
        pull: Floats,
    ) -> SearchResult | None:
        one, other = self._pairs[best].tolist()
        grid = self.grid
        total = np.zeros(int(leaf.max()) + 1, np.int64)
        np.add.at(total, leaf, sums)
        curvature = words.weights(total) / mean + self._family.reg_lambda
        value = np.where(curvature > 0, words.pulls(total) / np.where(curvature > 0, curvature, 1),
                         0.0) / mean  # fmt: skip
        shape = slice(0, int(grid.sizes[one])), slice(0, int(grid.sizes[other]))
        table = value[leaf]
        values = table[grid.codes[one], grid.codes[other]]
        edge = exact_sum(pull * values, self._context)
        if not edge > 0:
            return None
        term = Term(
            (int(grid.features[one]), int(grid.features[other])),
            (grid.cuts[one], grid.cuts[other]),
            (bool(grid.categorical[one]), bool(grid.categorical[other])),
            tuple(table[shape].ravel().tolist()),
            tuple(self._counts[best][shape].ravel().tolist()),
        )
        return SearchResult(term, edge, values=values)


# -- kernels ---------------------------------------------------------------------------------

assert ROUNDING == 2.0**-36, "kernels write it out"


@njit(cache=True, nogil=True)
def _strengths(
    low: int, high: int, triples: Integers, sums: Integers, sizes: Integers, named: Flags,
    units: tuple[float, float], penalty: float, least: float, out: Floats,
) -> None:  # fmt: skip
    """Strengths of the three pairs of triples low..high."""
    corner = np.zeros((16, 16), np.int64)
    for t in range(low, high):
        for p in range(3):
            a, b = triples[t, 1 if p == 2 else 0], triples[t, 1 if p == 0 else 2]
            if b < sizes.size:
                cells = sums[t, p, : sizes[a], : sizes[b]]
                _corners(cells, named[a], named[b], corner)
                out[t, p] = _strength(cells, named[a], named[b], corner, units, penalty, least)


@njit(**INNER)
def _corners(cells: Integers, row_named: bool, column_named: bool, corner: Integers) -> None:
    """Sums over the rows and columns on one side of all cuts; a category is a side of its own."""
    rows, columns = cells.shape
    for i in range(rows):
        for j in range(columns):
            corner[i, j] = cells[i, j]
    if not column_named:
        for i in range(rows):
            for j in range(1, columns):
                corner[i, j] += corner[i, j - 1]
    if not row_named:
        for i in range(1, rows):
            for j in range(columns):
                corner[i, j] += corner[i - 1, j]


@njit(**INNER)
def _strength(
    cells: Integers, row_named: bool, column_named: bool, corner: Integers,
    units: tuple[float, float], penalty: float, least: float,
) -> float:  # fmt: skip
    """The strongest contrast of the four quadrants of all cuts of a pair."""
    rows, columns = cells.shape
    above, beside = cells.sum(axis=1), cells.sum(axis=0)  # sums over one side of the cuts alone
    total = above.sum()
    if not row_named:
        above = above.cumsum()
    if not column_named:
        beside = beside.cumsum()
    best = 0.0
    for i in range(rows):
        for j in range(columns):
            inner = corner[i, j]
            contrast, spread, light = 0.0, 0.0, 0
            for q in range(4):
                part, sign = inner, 1.0
                if q == 1:
                    part, sign = above[i] - inner, -1.0
                elif q == 2:
                    part, sign = beside[j] - inner, -1.0
                elif q == 3:
                    part = total - above[i] - beside[j] + inner
                weight = np.float64(part & 0xFFFFFFFF) * units[1]
                light += 1 if weight < least or weight + penalty <= 0.0 else 0
                spread += 1.0 / max(weight + penalty, 1e-300)
                contrast += sign * np.float64(part >> 32) * units[0] / max(weight + penalty, 1e-300)
            if light == 0:
                best = max(best, contrast * contrast / spread)
    return best


@njit(**INNER)
def _worth(pull: float, weight: float, penalty: float) -> float:
    return pull * pull / (weight + penalty) if weight + penalty > 0.0 else 0.0


@njit(**INNER)
def _by_mean(pulls: Floats, weights: Floats, size: int, smooth: float, order: Integers) -> None:
    """Bins of categories by rising smoothed mean of the pull."""
    key = np.empty(size)
    for code in range(size):
        weight = weights[code] + smooth
        mean = pulls[code] / weight if weight > 0.0 else 0.0
        i = code
        while i > 0 and key[i - 1] > mean:
            key[i], order[i] = key[i - 1], order[i - 1]
            i -= 1
        key[i], order[i] = mean, code


@njit(**INNER)
def _division(
    numbers: Floats, total: tuple[float, float, float], order: Integers, last: int,
    start: tuple[float, float, float], penalty: float, lightest: float, least: int, best: float,
) -> tuple[float, int]:  # fmt: skip
    """Worth and position of the best cut in an order of bins; `best` and -1 if none is better."""
    at = -1
    pull, weight, count = start
    for i in range(last):
        code = order[i]
        pull += numbers[0, code]
        weight += numbers[1, code]
        count += numbers[2, code]
        few = count < least or total[2] - count < least
        if few or weight < lightest or total[1] - weight < lightest:
            continue
        worth = _worth(pull, weight, penalty)
        worth += _worth(total[0] - pull, total[1] - weight, penalty)
        if worth > best:
            best, at = worth, i
    return best, at


@njit(**INNER)
def _cut_half(
    numbers: Floats, size: int, named: bool, rules: tuple[float, float, float], least: int,
    order: Integers,
) -> tuple[float, int, bool]:  # fmt: skip
    """Worth of the best division of the bins of a half in two, or of the half undivided.

    `numbers` are pull, weight and count of each bin, the last one for missing values. Gives also
    how many bins of the order are on one side (less 1), and whether missing values are.
    """
    penalty, smooth, lightest = rules
    pull, weight, count = 0.0, 0.0, 0.0
    for i in range(size):
        pull += numbers[0, i]
        weight += numbers[1, i]
        count += numbers[2, i]
        order[i] = i
    total = (pull, weight, count)
    more, last = penalty, size - 1
    if named:
        _by_mean(numbers[0], numbers[1], size, smooth, order)
        more, last = penalty + smooth, size
    best, at = _division(
        numbers, total, order, last, (0.0, 0.0, 0.0), more, lightest, least,
        _worth(pull, weight, penalty),
    )  # fmt: skip
    gap = (numbers[0, size - 1], numbers[1, size - 1], numbers[2, size - 1])
    if not named and gap[2] > 0.0:  # missing values may go with the lower side
        top, cut = _division(
            numbers, total, order, last, gap, more, lightest, least, best
        )  # fmt: skip
        if cut >= 0:
            return top, cut, True
    return best, at, False


@njit(**INNER)
def _side_of_half(
    numbers: Floats, size: int, named: bool, rules: tuple[float, float, float], least: int
) -> Flags:
    """Which bins are on one side of the best division of a half."""
    order = np.empty(size, np.int64)
    _, at, with_missing = _cut_half(numbers, size, named, rules, least, order)
    side = np.zeros(size, np.bool_)
    count = 0.0
    for i in range(at + 1):
        side[order[i]] = True
        count += numbers[2, order[i]]
    if at >= 0 and not named:
        # Where no value is missing they go to the side with more rows.
        absent = numbers[2, size - 1] == 0.0
        side[size - 1] = with_missing or (absent and 2.0 * count >= numbers[2].sum())
    return side


@njit(**INNER)
def _halves(
    numbers: Floats, side: Flags, rows: int, columns: int, one: Floats, other: Floats
) -> None:
    """Sums over the rows of an array of cells on either side."""
    one[:], other[:] = 0.0, 0.0
    for i in range(rows):
        into = one if side[i] else other
        for k in range(3):
            for j in range(columns):
                into[k, j] += numbers[k, i, j]


@njit(**INNER)
def _take_row(row: Floats, alone: bool, total: Floats, one: Floats, other: Floats) -> float:
    """Add a row of cells to one side, or let it be that side alone; gives the side's count."""
    for k in range(3):
        for j in range(total.shape[1]):
            one[k, j] = row[k, j] if alone else one[k, j] + row[k, j]
            other[k, j] = total[k, j] - one[k, j]
    return one[2].sum()


@njit(**INNER)
def _best_root(
    numbers: Floats, rows: int, columns: int, row_named: bool, column_named: bool,
    rules: tuple[float, float, float], least: int, best: float, chosen: Flags,
) -> float:  # fmt: skip
    """Worth of the best division by rows first and by columns on either side then."""
    order = np.empty(columns, np.int64)
    one, other, total = np.zeros((3, columns)), np.zeros((3, columns)), np.zeros((3, columns))
    for i in range(rows):
        total += numbers[:, i]
    many = total[2].sum()
    gap = numbers[:, rows - 1]
    missing = gap[2].sum()
    ways = 2 if missing > 0.0 and not row_named else 1
    # The last cut of ordered rows is the one between missing values and all others.
    cuts = rows if row_named else rows - 1 if missing > 0.0 else rows - 2
    for way in range(ways):
        one[:] = 0.0
        if way == 1:
            one += gap
        for i in range(cuts - way):
            count = _take_row(numbers[:, i], row_named, total, one, other)
            if count < least or many - count < least:
                continue
            worth = _cut_half(one, columns, column_named, rules, least, order)[0]
            worth += _cut_half(other, columns, column_named, rules, least, order)[0]
            if worth > best:
                best = worth
                for r in range(rows):
                    chosen[r] = r == i if row_named else r <= i
                if not row_named:
                    # Where no value is missing they go to the side with more rows.
                    chosen[rows - 1] = way == 1 or (missing == 0.0 and 2.0 * count >= many)
    return best


@njit(cache=True, nogil=True)
def _mark(
    numbers: Floats, side: Flags, rows: int, columns: int, column_named: bool,
    rules: tuple[float, float, float], least: int, turned: bool, leaf: Integers,
) -> None:  # fmt: skip
    """Write the leaf of each cell."""
    one, other = np.zeros((3, columns)), np.zeros((3, columns))
    _halves(numbers, side, rows, columns, one, other)
    left = _side_of_half(one, columns, column_named, rules, least)
    right = _side_of_half(other, columns, column_named, rules, least)
    for i in range(rows):
        for j in range(columns):
            number = (0 if left[j] else 1) if side[i] else (2 if right[j] else 3)
            if turned:
                leaf[j, i] = number
            else:
                leaf[i, j] = number


@njit(cache=True, nogil=True)
def _best_terms(
    low: int, high: int, pairs: Integers, sums: Integers, counts: Integers, sizes: Integers,
    named: Flags, rules: tuple[float, float, float], least: int, gain: Floats, leaf: Integers,
) -> None:  # fmt: skip
    """Gain and cells of the best function of four cells of pairs low..high."""
    for p in range(low, high):
        a, b = pairs[p, 0], pairs[p, 1]
        rows, columns = sizes[a], sizes[b]
        numbers, turned = np.zeros((3, rows, columns)), np.zeros((3, columns, rows))
        pull, weight = 0.0, 0.0
        # In whole units, so that all sums and differences are exact.
        for i in range(rows):
            for j in range(columns):
                numbers[0, i, j] = np.float64(sums[p, i, j] >> 32)
                numbers[1, i, j] = np.float64(sums[p, i, j] & 0xFFFFFFFF)
                numbers[2, i, j] = np.float64(counts[p, i, j])
                for k in range(3):
                    turned[k, j, i] = numbers[k, i, j]
                pull += numbers[0, i, j]
                weight += numbers[1, i, j]
        own = _worth(pull, weight, rules[0])
        first, second = np.zeros(rows, np.bool_), np.zeros(columns, np.bool_)
        best = _best_root(numbers, rows, columns, named[a], named[b], rules, least, own, first)
        top = _best_root(turned, columns, rows, named[b], named[a], rules, least, best, second)
        if not top - own > 2.0**-36 * top:
            continue
        gain[p] = top - own
        if top > best:
            _mark(turned, second, columns, rows, named[a], rules, least, True, leaf[p])
        else:
            _mark(numbers, first, rows, columns, named[b], rules, least, False, leaf[p])
