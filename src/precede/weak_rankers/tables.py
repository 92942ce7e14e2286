"""From the rounds of a fit to tables: sums of trees and terms, purified.

`tabulate` adds up all rankers of the same features. `purify` moves what is a function of one
feature out of the pair terms, so that main effects live in the curves alone: the functional
ANOVA decomposition on the distribution of the training rows (Hooker 2007; Lengerich et al. 2020).
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
from precede.weak_rankers.terms import Term, bins_of_codes, joined_cuts, spread
from precede.weak_rankers.trees import Forest, Tree

__all__ = ["Additive", "averaged", "purify", "tabulate"]

Key = tuple[int, ...]


@dataclass(frozen=True)
class Additive:
    """A sum of terms of different features, and a constant."""

    terms: Mapping[Key, Term] = field(default_factory=dict)
    constant: float = 0.0

    def on(self, table: Table) -> Floats:
        """Score of each row of a table."""
        scores = np.full(table.n_used_rows, self.constant)
        for term in self.terms.values():
            scores += term.on(table)
        return scores

    def without(self, key: Key) -> Additive:
        """All terms but one."""
        return Additive({k: term for k, term in self.terms.items() if k != key}, self.constant)

    def by_importance(self) -> list[Term]:
        """The terms, the most important first."""
        return sorted(
            self.terms.values(), key=lambda t: (-t.importance, len(t.features), t.features)
        )


def tabulate(
    weak_rankers: Iterable[tuple[WeakRanker, float]],
    table: Table,
    context: Context,
    item_weight: Floats | None = None,
) -> Additive:
    """Add up weighted trees of one feature, terms and constants. O(cells) for each ranker.

    `item_weight` is one number for each row of the table, for the importance of the terms.

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
    made = {key: _sum_of_trees(parts, table) for key, parts in trees.items()}
    for key, found in terms.items():
        made[key] = _sum_of_terms([(made[key], 1.0), *found] if key in made else found)
    whole = whole_weights(item_weight, context)
    counted = {key: recounted(term, table, context, whole) for key, term in sorted(made.items())}
    return Additive(counted, constant)


def _sum_of_trees(parts: list[tuple[Tree, float]], table: Table) -> Term:
    """The curve that trees of one feature add up to."""
    feature = parts[0][0].features[0]
    named = feature in table.bins.categories
    if named:
        cuts = np.asarray(table.bins.categories[feature])
        rows = np.append(cuts, np.nan)
    else:
        cuts = np.unique([t for tree, _ in parts for t in tree.threshold if np.isfinite(t)])
        last = np.nextafter(cuts[-1:], np.inf) if cuts.size else np.zeros(1)
        rows = np.concatenate([cuts, last, [np.nan]])
    X = np.zeros((rows.size, feature + 1))
    X[:, feature] = rows
    values = np.zeros(rows.size)
    Forest([tree for tree, _ in parts], [weight for _, weight in parts]).add_to(values, X)
    return _curve(feature, cuts, named, values)


def _curve(feature: int, cuts: Floats, named: bool, values: Floats) -> Term:
    nothing = (0,) * values.size
    return Term((feature,), (tuple(cuts.tolist()),), (named,), tuple(values.tolist()), nothing)


def _sum_of_terms(parts: list[tuple[Term, float]]) -> Term:
    """Terms of the same features as one, on the cuts of all of them."""
    first = parts[0][0]
    cuts = joined_cuts([term for term, _ in parts])
    total = None
    for term, weight in parts:
        here = weight * (term.table if term.cuts == cuts else spread(term, cuts))
        total = here if total is None else total + here
    assert total is not None
    counts = first.counts if first.cuts == cuts else (0,) * total.size
    return Term(first.features, cuts, first.categorical, tuple(total.ravel().tolist()), counts)


def averaged(
    models: list[Additive], table: Table, context: Context, weight: Floats | None = None
) -> Additive:
    """Mean of several models, with the standard deviation over them as the standard error."""
    whole = whole_weights(weight, context)
    keys = sorted({key for model in models for key in model.terms})
    terms: dict[Key, Term] = {}
    for key in keys:
        found = [model.terms[key] for model in models if key in model.terms]
        cuts = joined_cuts(found)
        tables = [spread(term, cuts) for term in found]
        tables += [np.zeros(tables[0].shape)] * (len(models) - len(found))
        stacked = np.stack(tables)
        mean, error = stacked.mean(axis=0), stacked.std(axis=0, ddof=1)
        made = Term(
            key, cuts, found[0].categorical, tuple(mean.ravel().tolist()), (0,) * mean.size,
            tuple(error.ravel().tolist()),
        )  # fmt: skip
        terms[key] = recounted(made, table, context, whole)
    return Additive(terms, float(np.mean([model.constant for model in models])))


# -- counting --------------------------------------------------------------------------------


def whole_weights(weight: Floats | None, context: Context) -> Integers | None:
    """Weights of rows as integers; None where those of all machines are equal."""
    if weight is None:
        return None
    ends = (
        all_reduce_min(lambda: weight.min(initial=np.inf), context),
        all_reduce_max(lambda: weight.max(initial=-np.inf), context),
    )
    return None if ends[0] >= ends[1] else integer_weights(weight, exact_sum(weight, context))


def recounted(term: Term, table: Table, context: Context, whole: Integers | None = None) -> Term:
    """The term with the number of rows of a table behind each cell, and their share of a weight."""
    counts, shares = cell_sums(term, table, context, None), np.zeros(0)
    if whole is not None:
        weights = cell_sums(term, table, context, whole)
        shares = weights / max(int(weights.sum()), 1)
    return replace(
        term, counts=tuple(counts.ravel().tolist()), shares=tuple(shares.ravel().tolist())
    )


def cell_sums(term: Term, table: Table, context: Context, whole: Integers | None) -> Integers:
    """Sums of integers of the rows over the cells of a term; their number without integers."""
    numbers = np.ones(table.n_used_rows, np.int64) if whole is None else whole
    lookups = []
    for axis, feature in enumerate(term.features):
        lookup = bins_of_codes(term.cuts[axis], term.categorical[axis], table.bins, feature)
        assert lookup is not None
        lookups.append(lookup)
    if len(lookups) == 1:
        columns = np.array(term.features)
        by_code = all_reduce_sum(
            lambda: Histograms(table, context).sums(numbers, columns), context
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
    sums = all_reduce_sum(lambda: pair_sums(codes, pair, width, numbers, context)[0], context)
    return sums[: term.shape[0], : term.shape[1]]


# -- purification ----------------------------------------------------------------------------


def purify(
    model: Additive,
    table: Table,
    weight: Floats,
    context: Context,
    *,
    curves: frozenset[int] | None = None,
) -> Additive:
    """Move what is a function of one feature from the pairs to the curves; center all terms.

    For a pair term T with cell weights w the curves a and b minimize
    ``sum w_ij (T_ij - a_i - b_j)²``, so that no row and no column of what is left has a mean but
    0 (with respect to w). Curves are then centered. Scores stay the same but for rounding. `curves`
    are the features that may have a curve; the others keep their main effects in the pairs.
    O(rows) and O(bins³) for each pair.

    >>> X = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    >>> term = Term((0, 1), ((0.5,), (0.5,)), (False,) * 2, (0, 0, 0, 0, 4, 0, 0, 0, 0), (0,) * 9)
    >>> pure = purify(Additive({(0, 1): term}), Table.build(X), np.ones(4), Context(1))
    >>> pure.constant, pure.terms[0,].values[:2], pure.terms[0, 1].table[:2, :2].tolist()
    (1.0, (-1.0, 1.0), [[1.0, -1.0], [-1.0, 1.0]])
    """
    whole = integer_weights(weight, exact_sum(weight, context))
    uneven = whole_weights(weight, context)
    added: dict[Key, list[tuple[Term, float]]] = {}
    pairs: dict[Key, Term] = {}
    constant = model.constant
    for key, term in model.terms.items():
        if len(key) == 1:
            added.setdefault(key, []).append((term, 1.0))
            continue
        share = cell_sums(term, table, context, whole).astype(np.float64)
        allowed = [curves is None or feature in curves for feature in key]
        effects = _main_effects(share, term.table, allowed)
        middle = float((share * (term.table - effects[0][:, None] - effects[1])).sum())
        middle /= max(float(share.sum()), 1.0)
        constant += middle
        left = term.table - (effects[0][:, None] + effects[1]) - middle
        pairs[key] = term.with_values(left)
        for axis, effect in enumerate(effects):
            if allowed[axis]:
                part = _curve(key[axis], np.array(term.cuts[axis]), term.categorical[axis], effect)
                added.setdefault((key[axis],), []).append((part, 1.0))
    terms: dict[Key, Term] = {}
    for key, parts in sorted(added.items()):
        curve = recounted(_sum_of_terms(parts), table, context, uneven)
        share = cell_sums(curve, table, context, whole).astype(np.float64)
        middle = float((share * curve.table).sum() / max(float(share.sum()), 1.0))
        constant += middle
        terms[key] = curve.with_values(curve.table - middle)
    return Additive(terms | pairs, constant)


def _main_effects(share: Floats, table: Floats, allowed: list[bool]) -> tuple[Floats, Floats]:
    """The best functions of the rows and of the columns, those that are allowed."""
    rows, columns = share.sum(axis=1), share.sum(axis=0)
    nothing = np.zeros(rows.size), np.zeros(columns.size)
    if not any(allowed):
        return nothing
    if not allowed[1]:
        return (share * table).sum(axis=1) / np.where(rows > 0, rows, 1.0), nothing[1]
    if not allowed[0]:
        return nothing[0], (share * table).sum(axis=0) / np.where(columns > 0, columns, 1.0)
    # Rows eliminated: columns solve a positive semidefinite system.
    inverse = np.where(rows > 0, 1.0 / np.where(rows > 0, rows, 1.0), 0.0)
    middle = (share * table).sum(axis=1) * inverse
    system = np.diag(columns)
    right = (share * (table - middle[:, None])).sum(axis=0)
    for i in range(rows.size):
        system = system - inverse[i] * np.multiply.outer(share[i], share[i])
    effect = _solve(system, right, columns)
    return (share * (table - effect)).sum(axis=1) * inverse, effect


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _solve(system: Floats, right: Floats, scale: Floats) -> Floats:
    """Solution of a positive semidefinite system by Gauss; 0 where a pivot vanishes."""
    size = right.size
    matrix, answer = system.copy(), right.copy()
    kept = np.zeros(size, np.bool_)
    for p in range(size):
        kept[p] = matrix[p, p] > 1e-9 * scale[p]
        if not kept[p]:
            continue
        for i in range(p + 1, size):
            factor = matrix[i, p] / matrix[p, p]
            for j in range(p, size):
                matrix[i, j] -= factor * matrix[p, j]
            answer[i] -= factor * answer[p]
    for p in range(size - 1, -1, -1):
        if not kept[p]:
            answer[p] = 0.0
            continue
        for j in range(p + 1, size):
            answer[p] -= matrix[p, j] * answer[j]
        answer[p] /= matrix[p, p]
    return answer
