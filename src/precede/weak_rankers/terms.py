"""Terms of a generalized additive model: shape functions of one or two features.

A `Term` is a piecewise constant function of one feature (a *curve*) or of two (a *pair*), stored
as a table of plain numbers with the number of training rows of each cell. `TermTables` scores many
rows. `tabulate` sums all weak rankers of the same features to one term of an `AdditiveModel`,
`average_models` averages several models, and `purify` moves the main effects from the pairs to the
curves: the functional ANOVA decomposition with respect to the distribution of the training rows
(Hooker 2007; Lengerich et al. 2020).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import ClassVar

import numpy as np
import scipy.sparse

from precede.engine.arrays import Array, Floats, Integers, MatrixLike
from precede.engine.compiling import INNER, njit
from precede.engine.exact import all_reduce_max, all_reduce_min, all_reduce_sum, exact_sum
from precede.engine.execution import Context, threads_for
from precede.engine.histograms import Histograms, pair_sums
from precede.engine.table import MAX_CATEGORIES, MISSING, Bins, Table, integer_weights
from precede.weak_rankers.base import WeakRanker
from precede.weak_rankers.trees import MAX_FEATURES, MAX_ROWS, Forest, Tree, as_numbers, as_tuple

_numbers = partial(as_numbers, what="term")
# Larger tables are rejected as a mistake or a malicious model file.
MAX_CELLS = 1 << 24


@dataclass(frozen=True)
class Term(WeakRanker):
    """A shape function: a piecewise constant function of one or two features.

    Bin b of a numeric feature has the values above ``cuts[b - 1]`` and up to ``cuts[b]``; bin b of
    a categorical feature has the category ``cuts[b]``. The last bin of each feature is for missing
    values and for categories not in `cuts`. Prediction takes O(log cuts) per row.

    Attributes
    ----------
    features : one or two columns
    cuts : thresholds, or categories, of each feature in increasing order
    categorical : whether each feature is categorical
    values : value of each cell; for two features in row-major order
    counts : number of training rows in each cell
    errors : standard error of each value, or empty
    shares : share of the total weight of the training rows in each cell; empty for equal weights

    Examples
    --------
    >>> import numpy as np
    >>> curve = Term((0,), ((1.5,),), (False,), (10.0, 20.0, 0.0), (3, 4, 0))
    >>> curve(np.array([[1.0], [2.0], [np.nan]]))
    array([10., 20.,  0.])
    >>> cells = (1, -1, 0, -1, 1, 0, 0, 0, 0)
    >>> pair = Term((0, 1), ((0.0,), (0.0,)), (False, False), cells, (1,) * 9)
    >>> pair(np.array([[-1.0, 1.0], [1.0, 1.0]]))
    array([-1.,  1.])
    """

    features: tuple[int, ...]
    cuts: tuple[tuple[float, ...], ...]
    categorical: tuple[bool, ...]
    values: tuple[float, ...]
    counts: tuple[int, ...]
    errors: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()

    name: ClassVar[str] = "term"
    codes_only: ClassVar[bool] = True
    checks_fields: ClassVar[bool] = True

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "features", _numbers(self.features, int, "features"))
        cuts = tuple(_numbers(each, float, "cuts") for each in as_tuple(self.cuts, "term"))
        set_(self, "cuts", cuts)
        flags = _numbers(self.categorical, int, "categorical")
        set_(self, "categorical", tuple(bool(flag) for flag in flags))
        set_(self, "values", _numbers(self.values, float, "values"))
        set_(self, "counts", _numbers(self.counts, int, "counts"))
        set_(self, "errors", _numbers(self.errors, float, "errors"))
        set_(self, "shares", _numbers(self.shares, float, "shares"))
        self._check()

    def _check(self) -> None:
        if not (len(self.features) == len(self.cuts) == len(self.categorical)) or len(
            self.features
        ) not in (1, 2):
            raise ValueError("a term has one feature or two, each with cuts of its own")
        if not all(0 <= feature <= MAX_FEATURES for feature in self.features):
            raise ValueError("a term names a feature that is negative or too large")
        if len(set(self.features)) < len(self.features):
            raise ValueError(f"a term names feature {self.features[0]} twice")
        for cuts, categorical in zip(self.cuts, self.categorical, strict=True):
            _check_cuts(cuts, categorical)
        cells = math.prod(self.shape)
        if cells > MAX_CELLS:
            raise ValueError(f"a term has {cells} cells, more than {MAX_CELLS}")
        if {len(self.values), len(self.counts)} != {cells} or len(self.errors) not in (0, cells):
            raise ValueError(f"a term of {cells} cells needs a value and a count for each")
        if not all(map(math.isfinite, [*self.values, *self.errors])):
            raise ValueError("a term has a value that is not finite")
        if not all(0 <= count <= MAX_ROWS for count in self.counts):
            raise ValueError("a cell of a term holds an impossible number of rows")
        if len(self.shares) not in (0, cells) or not all(0 <= share <= 1 for share in self.shares):
            raise ValueError("a cell of a term holds an impossible share of the weight of the rows")

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of bins of each feature, including the one for missing values."""
        axes = zip(self.cuts, self.categorical, strict=True)
        return tuple(len(cuts) + (1 if categorical else 2) for cuts, categorical in axes)

    @cached_property
    def table(self) -> Floats:
        """Values as an array with one axis per feature."""
        return np.array(self.values).reshape(self.shape)

    @cached_property
    def count(self) -> Integers:
        """Row counts as an array with one axis per feature."""
        return np.array(self.counts, np.int64).reshape(self.shape)

    @property
    def cell_weight(self) -> Floats:
        """Weight of the training rows in each cell, up to a constant factor."""
        weight = np.array(self.shares or self.counts, np.float64)
        return weight.reshape(self.shape)

    @property
    def importance(self) -> float:
        """Weighted mean of the absolute value over the training rows."""
        weights = self.shares or self.counts
        total = math.fsum(weights)
        if total == 0:
            return 0.0
        cells = zip(self.values, weights, strict=True)
        return math.fsum(abs(value) * (weight / total) for value, weight in cells)

    def check_features(self, n_features: int) -> None:
        """Raise ValueError if the term uses a feature beyond `n_features`."""
        if max(self.features, default=0) >= n_features:
            raise ValueError(
                f"a {self.name} uses feature {max(self.features)}, but there are {n_features}"
            )

    def importances(self) -> dict[int, float]:
        """Return `importance`, divided equally among the features."""
        return dict.fromkeys(self.features, self.importance / len(self.features))

    def with_values(self, values: Array) -> Term:
        """Return a copy with other values and without standard errors."""
        return replace(self, values=tuple(np.ravel(values).tolist()), errors=())

    def bins(self, axis: int, x: Array) -> Integers:
        """Return the bin of each value of feature number `axis`."""
        x, cuts = np.asarray(x, np.float64), np.array(self.cuts[axis])
        if self.categorical[axis]:
            x = np.floor(x)  # as trees do
            position = np.minimum(np.searchsorted(cuts, x), max(cuts.size - 1, 0))
            found = cuts[position] == x if cuts.size else np.zeros(x.shape, bool)
            return np.where(found, position, cuts.size)
        return np.where(np.isnan(x), cuts.size + 1, np.searchsorted(cuts, x, side="left"))

    def cells(self, X: MatrixLike) -> tuple[Integers, ...]:
        """Return the bin of each row along each axis of `table`."""
        columns = [X[:, feature] for feature in self.features]
        if scipy.sparse.issparse(X):
            columns = [X[:, [feature]].toarray()[:, 0] for feature in self.features]
        return tuple(self.bins(axis, x) for axis, x in enumerate(columns))

    def __call__(self, X: MatrixLike) -> Floats:
        """Return the value of each row."""
        return self.table[self.cells(X)]

    def on(self, table: Table) -> Floats:
        """Return the value of each row of a table; reads its codes if the cuts allow it."""
        cells = []
        for axis, feature in enumerate(self.features):
            lookup = bins_of_codes(self.cuts[axis], self.categorical[axis], table.bins, feature)
            if lookup is None:
                return self(table.rows())
            cells.append(lookup[table.codes[feature]])
            table.release(np.array([feature]))
        return self.table[tuple(cells)]

    def __str__(self) -> str:
        features = " and ".join(map(str, self.features))
        return f"Term({' x '.join(map(str, self.shape))} cells of features {features})"


def bins_of_codes(
    cuts: Sequence[float], categorical: bool, bins: Bins, feature: int
) -> Integers | None:
    """Return the bin of a term for each of the 256 codes of a table.

    Return None if the codes do not determine the bin, as when a cut lies inside a bin of the table.

    >>> bins = Bins((np.array([1.0, 2.0, 3.0]),), np.zeros(1), np.ones(1), np.zeros(1, bool))
    >>> bins_of_codes((2.0,), False, bins, 0)[[0, 1, 2, 3, 255]]
    array([0, 0, 1, 1, 2])
    """
    if categorical != (feature in bins.categories):
        return None
    term_cuts = np.array(cuts, np.float64)
    table_cuts = bins.categories[feature] if categorical else bins.cuts[feature]
    if not np.isin(term_cuts, table_cuts).all():
        return None
    bin_of_code = _bin_map(term_cuts, categorical, table_cuts)
    lookup = np.full(256, term_cuts.size, np.int64)
    lookup[: bin_of_code.size - 1] = bin_of_code[:-1]
    lookup[MISSING] = bin_of_code[-1]
    return lookup


def merged_cuts(terms: Sequence[Term]) -> tuple[tuple[float, ...], ...]:
    """Return the union of the cuts of terms of the same features."""
    return tuple(
        tuple(np.unique(np.concatenate([np.array(term.cuts[axis]) for term in terms])).tolist())
        for axis in range(len(terms[0].features))
    )


def refined_table(term: Term, cuts: tuple[tuple[float, ...], ...]) -> Floats:
    """Return the table of a term on a finer grid of cuts."""
    maps = [
        _bin_map(np.array(term_cuts), categorical, np.array(grid))
        for term_cuts, categorical, grid in zip(term.cuts, term.categorical, cuts, strict=True)
    ]
    return term.table[np.ix_(*maps)]


def _check_cuts(cuts: tuple[float, ...], categorical: bool) -> None:
    if any(one >= other for one, other in pairwise(cuts)):
        raise ValueError("the cuts of a term must rise")
    if not all(map(math.isfinite, cuts)):
        raise ValueError("a term has a cut that is not finite")
    if categorical and not all(0 <= cut < MAX_CATEGORIES and cut == int(cut) for cut in cuts):
        raise ValueError("the categories of a term must be whole numbers from 0")


# -- many terms ------------------------------------------------------------------------------


class TermTables:
    """Weighted terms, laid out for scoring many rows.

    The interval of each value between the merged cuts of all terms is found once; each term then
    takes one lookup::

        value -> interval of the merged grid -> bin of the term (via `_map`) -> cell value

    O(features · log cuts + terms) per row.

    >>> import numpy as np
    >>> curve = Term((0,), ((1.5,),), (False,), (10.0, 20.0, 0.0), (3, 4, 0))
    >>> scores = np.zeros(2)
    >>> TermTables([curve, curve], [1.0, 0.5]).add_to(scores, np.array([[1.0], [2.0]]))
    >>> scores
    array([15., 30.])
    """

    def __init__(self, terms: Sequence[Term], weights: Sequence[float]):
        self.features = sorted({feature for term in terms for feature in term.features})
        # A feature that is numeric in one term and categorical in another takes two columns.
        cuts_of: dict[tuple[int, bool], set[float]] = {}
        for term in terms:
            axes = zip(term.features, term.categorical, term.cuts, strict=True)
            for feature, categorical, cuts in axes:
                cuts_of.setdefault((feature, categorical), set()).update(cuts)
        keys = sorted(cuts_of)
        grids = {key: np.array(sorted(cuts_of[key])) for key in keys}
        column = {key: j for j, key in enumerate(keys)}
        self._feature = np.array([feature for feature, _ in keys], np.int64)
        self._categorical = np.array([categorical for _, categorical in keys], np.bool_)
        self._grid_start = _starts([grids[key].size for key in keys])
        self._grid = np.concatenate([*(grids[key] for key in keys), np.zeros(0)])
        self._column = np.full((len(terms), 2), -1, np.int64)
        self._map_start = np.zeros((len(terms), 2), np.int64)
        maps: list[Integers] = []
        size = 0
        for number, term in enumerate(terms):
            for axis, key in enumerate(zip(term.features, term.categorical, strict=True)):
                stride = term.shape[1] if axis == 0 and len(term.shape) == 2 else 1
                offsets = stride * _bin_map(np.array(term.cuts[axis]), key[1], grids[key])
                self._column[number, axis], self._map_start[number, axis] = column[key], size
                maps.append(offsets)
                size += offsets.size
        self._map = np.concatenate([*maps, np.zeros(0, np.int64)])
        self._value_start = _starts([len(term.values) for term in terms])
        weighted = zip(terms, weights, strict=True)
        self._value = np.concatenate([*(w * np.array(t.values) for t, w in weighted), np.zeros(0)])

    def add_to(self, scores: Floats, X: Array, context: Context | None = None) -> None:
        """Add the weighted values of the terms to the scores, term by term."""
        (context or Context(1)).run(
            _score_rows, X.shape[0], X, self._feature, self._categorical, self._grid_start,
            self._grid, self._column, self._map_start, self._map, self._value_start, self._value,
            scores, threads=threads_for("heavy rows", X.shape[0]),
        )  # fmt: skip


def _starts(sizes: Sequence[int]) -> Integers:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _bin_map(cuts: Floats, categorical: bool, grid: Floats) -> Integers:
    """Return the bin of a term for each interval (or category) of a finer grid, then missing."""
    if categorical:
        known = np.where(np.isin(grid, cuts), np.searchsorted(cuts, grid), cuts.size)
        return np.append(known, cuts.size).astype(np.int64)
    intervals = np.searchsorted(cuts, grid, side="right")
    return np.concatenate([[0], intervals, [cuts.size + 1]]).astype(np.int64)


# -- kernels ---------------------------------------------------------------------------------


@njit(**INNER)
def _bin(x: float, categorical: bool, grid: Floats, begin: int, count: int) -> int:
    """Return the bin of x among the cuts (or categories) ``grid[begin : begin + count]``."""
    if np.isnan(x):
        return count if categorical else count + 1
    if categorical:
        x = np.floor(x)  # as trees do
    below, remaining = 0, count
    while remaining > 0:  # branch-free binary search for the number of cuts below x
        half = (remaining + 1) // 2
        below += half * (x > grid[begin + below + half - 1])
        remaining -= half
    if categorical and (below == count or grid[begin + below] != x):
        return count
    return below


@njit(cache=True, nogil=True)
def _score_rows(
    low: int, high: int, X: Array, feature: Integers, categorical: Array, grid_start: Integers,
    grid: Floats, column: Integers, map_start: Integers, bin_of: Integers, value_start: Integers,
    value: Floats, scores: Floats,
) -> None:  # fmt: skip
    """Score blocks of 256 rows, term by term."""
    bins = np.empty((feature.size, 256), np.int64)
    for first in range(low, high, 256):
        size = min(256, high - first)
        for j in range(feature.size):
            begin, count = grid_start[j], grid_start[j + 1] - grid_start[j]
            for i in range(size):
                x = np.float64(X[first + i, feature[j]])
                bins[j, i] = _bin(x, categorical[j], grid, begin, count)
        for t in range(column.shape[0]):
            bins0, bins1 = bins[column[t, 0]], bins[max(column[t, 1], 0)]
            map0, map1 = map_start[t, 0], map_start[t, 1]
            if column[t, 1] < 0:
                for i in range(size):
                    scores[first + i] += value[value_start[t] + bin_of[map0 + bins0[i]]]
            else:
                for i in range(size):
                    cell = bin_of[map0 + bins0[i]] + bin_of[map1 + bins1[i]]
                    scores[first + i] += value[value_start[t] + cell]


# -- Additive models from boosted weak rankers: tabulation, averaging and purification -----------


Key = tuple[int, ...]  # the features of a term


@dataclass(frozen=True)
class AdditiveModel:
    """A generalized additive model: a constant plus one term per feature or pair of features."""

    terms: Mapping[Key, Term] = field(default_factory=dict)
    constant: float = 0.0

    def on(self, table: Table) -> Floats:
        """Return the score of each row of a table."""
        scores = np.full(table.n_used_rows, self.constant)
        for term in self.terms.values():
            scores += term.on(table)
        return scores

    def without(self, key: Key) -> AdditiveModel:
        """Return the model without one term."""
        return AdditiveModel({k: term for k, term in self.terms.items() if k != key}, self.constant)

    def by_importance(self) -> list[Term]:
        """Return the terms in decreasing order of importance."""
        return sorted(
            self.terms.values(), key=lambda t: (-t.importance, len(t.features), t.features)
        )


def tabulate(
    weak_rankers: Iterable[tuple[WeakRanker, float]],
    table: Table,
    context: Context,
    item_weight: Floats | None = None,
) -> AdditiveModel:
    """Sum weighted trees of one feature, terms and constants in O(cells) per weak ranker.

    `item_weight` is the weight of each row of the table, for the importance of the terms.

    >>> tree = Tree((0,), (1.5,), (True,), (-1,), (-2,), (1.0, 2.0), (3, 4), (1.0,))
    >>> table = Table.build(np.array([[1.0], [2.0], [3.0]]))
    >>> tabulate([(tree, 1.0), (tree, 0.5)], table, Context(1)).terms[0,].values
    (1.5, 3.0, 1.5)
    """
    trees: dict[Key, list[tuple[Tree, float]]] = {}
    terms: dict[Key, list[tuple[Term, float]]] = {}
    constant = 0.0
    for weak_ranker, weight in weak_rankers:
        if isinstance(weak_ranker, Tree) and len(weak_ranker.features) == 1:
            trees.setdefault(weak_ranker.features, []).append((weak_ranker, weight))
        elif isinstance(weak_ranker, Term):
            terms.setdefault(weak_ranker.features, []).append((weak_ranker, weight))
        elif weak_ranker.is_constant:
            constant += weight
        else:
            raise ValueError(f"{weak_ranker} is neither a function of one feature nor a term")
    summed = {key: _sum_trees(weighted, table) for key, weighted in trees.items()}
    for key, weighted in terms.items():
        summed[key] = sum_terms([(summed[key], 1.0), *weighted] if key in summed else weighted)
    int_weight = unequal_weights(item_weight, context)
    counted = {
        key: with_counts(term, table, context, int_weight) for key, term in sorted(summed.items())
    }
    return AdditiveModel(counted, constant)


def _sum_trees(weighted: list[tuple[Tree, float]], table: Table) -> Term:
    """Return the weighted sum of trees of one feature as a curve."""
    feature = weighted[0][0].features[0]
    categorical = feature in table.bins.categories
    if categorical:
        cuts = np.asarray(table.bins.categories[feature])
        points = np.append(cuts, np.nan)
    else:
        cuts = np.unique([t for tree, _ in weighted for t in tree.threshold if np.isfinite(t)])
        last = np.nextafter(cuts[-1:], np.inf) if cuts.size else np.zeros(1)
        points = np.concatenate([cuts, last, [np.nan]])
    X = np.zeros((points.size, feature + 1))  # one row per bin
    X[:, feature] = points
    values = Forest(*map(list, zip(*weighted, strict=True))).values_at(X)
    return make_curve(feature, cuts, categorical, values)


def make_curve(feature: int, cuts: Floats, categorical: bool, values: Floats) -> Term:
    """Return a term of one feature without counts of training rows."""
    counts = (0,) * values.size
    return Term((feature,), (tuple(cuts.tolist()),), (categorical,), tuple(values.tolist()), counts)


def sum_terms(weighted: list[tuple[Term, float]]) -> Term:
    """Return the weighted sum of terms of the same features, on the union of their cuts."""
    first = weighted[0][0]
    cuts = merged_cuts([term for term, _ in weighted])
    total = None
    for term, weight in weighted:
        table = weight * (term.table if term.cuts == cuts else refined_table(term, cuts))
        total = table if total is None else total + table
    assert total is not None
    counts = first.counts if first.cuts == cuts else (0,) * total.size
    return Term(first.features, cuts, first.categorical, tuple(total.ravel().tolist()), counts)


def average_models(
    models: list[AdditiveModel], table: Table, context: Context, weight: Floats | None = None
) -> AdditiveModel:
    """Return the mean of several models, with their standard deviation as standard errors.

    A term that a model lacks counts as 0.
    """
    int_weight = unequal_weights(weight, context)
    keys = sorted({key for model in models for key in model.terms})
    terms: dict[Key, Term] = {}
    for key in keys:
        present = [model.terms[key] for model in models if key in model.terms]
        cuts = merged_cuts(present)
        tables = [refined_table(term, cuts) for term in present]
        tables += [np.zeros(tables[0].shape)] * (len(models) - len(present))
        stacked = np.stack(tables)
        mean, error = stacked.mean(axis=0), stacked.std(axis=0, ddof=1)
        averaged_term = Term(
            key, cuts, present[0].categorical, tuple(mean.ravel().tolist()), (0,) * mean.size,
            tuple(error.ravel().tolist()),
        )  # fmt: skip
        terms[key] = with_counts(averaged_term, table, context, int_weight)
    return AdditiveModel(terms, float(np.mean([model.constant for model in models])))


# -- row counts and weights of cells ---------------------------------------------------------


def unequal_weights(weight: Floats | None, context: Context) -> Integers | None:
    """Return row weights as integers; None if all are equal, over all machines."""
    if weight is None:
        return None
    smallest = all_reduce_min(lambda: weight.min(initial=np.inf), context)
    largest = all_reduce_max(lambda: weight.max(initial=-np.inf), context)
    return None if smallest >= largest else integer_weights(weight, exact_sum(weight, context))


def with_counts(
    term: Term, table: Table, context: Context, int_weight: Integers | None = None
) -> Term:
    """Return the term with the row counts, and weight shares if weighted, of a table."""
    counts, shares = cell_sums(term, table, context, None), np.zeros(0)
    if int_weight is not None:
        weights = cell_sums(term, table, context, int_weight)
        shares = weights / max(int(weights.sum()), 1)
    return replace(
        term, counts=tuple(counts.ravel().tolist()), shares=tuple(shares.ravel().tolist())
    )


def cell_sums(term: Term, table: Table, context: Context, int_weight: Integers | None) -> Integers:
    """Return the sum of integer weights over the rows of each cell; row counts if None."""
    weights = np.ones(table.n_used_rows, np.int64) if int_weight is None else int_weight
    lookups = []
    for axis, feature in enumerate(term.features):
        lookup = bins_of_codes(term.cuts[axis], term.categorical[axis], table.bins, feature)
        assert lookup is not None
        lookups.append(lookup)
    if len(lookups) == 1:
        columns = np.array(term.features)
        by_code = all_reduce_sum(
            lambda: Histograms(table, context).sums(weights, columns), context
        )[0]
        sums = np.zeros(term.shape, np.int64)
        np.add.at(sums, lookups[0], by_code)
        return sums
    codes = np.stack([
        lookup.astype(np.uint8)[table.codes[feature]]
        for lookup, feature in zip(lookups, term.features, strict=True)
    ])  # fmt: skip
    table.release(np.array(term.features))
    width = max(term.shape)
    pair = np.array([[0, 1]])
    sums = all_reduce_sum(lambda: pair_sums(codes, pair, width, weights, context)[0], context)
    return sums[: term.shape[0], : term.shape[1]]


# -- purification ----------------------------------------------------------------------------


def purify(
    model: AdditiveModel,
    table: Table,
    weight: Floats,
    context: Context,
    *,
    curves: frozenset[int] | None = None,
) -> AdditiveModel:
    """Move the main effects from the pair terms to the curves, and center all terms.

    For a pair term T with cell weights w the main effects a and b minimize
    ``sum w_ij (T_ij - a_i - b_j)²``, so that all rows and columns of the remaining term have mean 0
    with respect to w. Scores do not change except for rounding. `curves` are the features that may
    have a curve, all by default; the main effects of others stay in the pairs. O(rows + bins³) per
    pair.

    >>> X = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    >>> term = Term((0, 1), ((0.5,), (0.5,)), (False,) * 2, (0, 0, 0, 0, 4, 0, 0, 0, 0), (0,) * 9)
    >>> pure = purify(AdditiveModel({(0, 1): term}), Table.build(X), np.ones(4), Context(1))
    >>> pure.constant, pure.terms[0,].values[:2], pure.terms[0, 1].table[:2, :2].tolist()
    (1.0, (-1.0, 1.0), [[1.0, -1.0], [-1.0, 1.0]])
    """
    int_weight = integer_weights(weight, exact_sum(weight, context))
    unequal = unequal_weights(weight, context)
    main: dict[Key, list[tuple[Term, float]]] = {}
    pairs: dict[Key, Term] = {}
    constant = model.constant
    for key, term in model.terms.items():
        if len(key) == 1:
            main.setdefault(key, []).append((term, 1.0))
            continue
        weights = cell_sums(term, table, context, int_weight).astype(np.float64)
        allowed = [curves is None or feature in curves for feature in key]
        effects = _main_effects(weights, term.table, allowed)
        mean = float((weights * (term.table - effects[0][:, None] - effects[1])).sum())
        mean /= max(float(weights.sum()), 1.0)
        constant += mean
        pairs[key] = term.with_values(term.table - (effects[0][:, None] + effects[1]) - mean)
        for axis, effect in enumerate(effects):
            if allowed[axis]:
                cuts = np.array(term.cuts[axis])
                curve = make_curve(key[axis], cuts, term.categorical[axis], effect)
                main.setdefault((key[axis],), []).append((curve, 1.0))
    terms: dict[Key, Term] = {}
    for key, weighted in sorted(main.items()):
        curve = with_counts(sum_terms(weighted), table, context, unequal)
        weights = cell_sums(curve, table, context, int_weight).astype(np.float64)
        mean = float((weights * curve.table).sum() / max(float(weights.sum()), 1.0))
        constant += mean
        terms[key] = curve.with_values(curve.table - mean)
    return AdditiveModel(terms | pairs, constant)


def _main_effects(weights: Floats, table: Floats, allowed: list[bool]) -> tuple[Floats, Floats]:
    """Return the least-squares row and column effects of a table; 0 where not allowed."""
    rows, columns = weights.sum(axis=1), weights.sum(axis=0)
    zeros = np.zeros(rows.size), np.zeros(columns.size)
    if not any(allowed):
        return zeros
    if not allowed[1]:
        return (weights * table).sum(axis=1) / np.where(rows > 0, rows, 1.0), zeros[1]
    if not allowed[0]:
        return zeros[0], (weights * table).sum(axis=0) / np.where(columns > 0, columns, 1.0)
    # Eliminating the row effects leaves a positive semidefinite system for the column effects.
    inverse = np.where(rows > 0, 1.0 / np.where(rows > 0, rows, 1.0), 0.0)
    row_means = (weights * table).sum(axis=1) * inverse
    matrix = np.diag(columns)
    right = (weights * (table - row_means[:, None])).sum(axis=0)
    for i in range(rows.size):
        matrix = matrix - inverse[i] * np.multiply.outer(weights[i], weights[i])
    effect = _solve(matrix, right, columns)
    return (weights * (table - effect)).sum(axis=1) * inverse, effect


def _solve(system: Floats, right: Floats, scale: Floats) -> Floats:
    """Solve a positive semidefinite system by Gaussian elimination; 0 where a pivot vanishes."""
    size = right.size
    matrix = np.column_stack([system, right])
    has_pivot = np.zeros(size, bool)
    for p in range(size):
        has_pivot[p] = matrix[p, p] > 1e-9 * scale[p]
        if has_pivot[p]:
            factors = matrix[p + 1 :, p] / matrix[p, p]
            matrix[p + 1 :, p:] -= np.multiply.outer(factors, matrix[p, p:])
    solution = matrix[:, size].tolist()
    for p in range(size - 1, -1, -1):
        if not has_pivot[p]:
            solution[p] = 0.0
            continue
        # One by one: a sum of an array is taken in another order.
        for factor, value in zip(matrix[p, p + 1 : size].tolist(), solution[p + 1 :], strict=True):
            solution[p] -= factor * value
        solution[p] /= float(matrix[p, p])
    return np.array(solution)
