"""Additive models from boosted weak rankers: tabulation, averaging and purification.

`tabulate` sums all weak rankers of the same features to one term. `purify` moves the main effects
from the pair terms to the curves: the functional ANOVA decomposition with respect to the
distribution of the training rows (Hooker 2007; Lengerich et al. 2020).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numba import njit

from precede.engine.arrays import Floats, Integers
from precede.engine.exact import all_reduce_max, all_reduce_min, all_reduce_sum, exact_sum
from precede.engine.execution import Context
from precede.engine.histograms.columns import Histograms
from precede.engine.histograms.feature_pairs import pair_sums
from precede.engine.table import Table, integer_weights
from precede.weak_rankers.base import WeakRanker
from precede.weak_rankers.terms import Term, bins_of_codes, merged_cuts, refined_table
from precede.weak_rankers.trees import Forest, Tree

__all__ = ["AdditiveModel", "average_models", "purify", "tabulate"]

Key = tuple[int, ...]


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
    """Sum weighted trees of one feature, terms and constants. O(cells) per weak ranker.

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
        summed[key] = _sum_terms([(summed[key], 1.0), *weighted] if key in summed else weighted)
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
    values = np.zeros(points.size)
    Forest([tree for tree, _ in weighted], [weight for _, weight in weighted]).add_to(values, X)
    return _make_curve(feature, cuts, categorical, values)


def _make_curve(feature: int, cuts: Floats, categorical: bool, values: Floats) -> Term:
    counts = (0,) * values.size
    return Term((feature,), (tuple(cuts.tolist()),), (categorical,), tuple(values.tolist()), counts)


def _sum_terms(weighted: list[tuple[Term, float]]) -> Term:
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
    """Return row weights as integers; None if they are equal on all machines."""
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
                curve = _make_curve(key[axis], cuts, term.categorical[axis], effect)
                main.setdefault((key[axis],), []).append((curve, 1.0))
    terms: dict[Key, Term] = {}
    for key, weighted in sorted(main.items()):
        curve = with_counts(_sum_terms(weighted), table, context, unequal)
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


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _solve(system: Floats, right: Floats, scale: Floats) -> Floats:
    """Solve a positive semidefinite system by Gaussian elimination; 0 where a pivot vanishes."""
    size = right.size
    matrix, solution = system.copy(), right.copy()
    has_pivot = np.zeros(size, np.bool_)
    for p in range(size):
        has_pivot[p] = matrix[p, p] > 1e-9 * scale[p]
        if not has_pivot[p]:
            continue
        for i in range(p + 1, size):
            factor = matrix[i, p] / matrix[p, p]
            for j in range(p, size):
                matrix[i, j] -= factor * matrix[p, j]
            solution[i] -= factor * solution[p]
    for p in range(size - 1, -1, -1):
        if not has_pivot[p]:
            solution[p] = 0.0
            continue
        for j in range(p + 1, size):
            solution[p] -= matrix[p, j] * solution[j]
        solution[p] /= matrix[p, p]
    return solution
