"""An additive model as tables: a term for each feature, and for each pair that interacts."""

from __future__ import annotations

import math

import numpy as np

from precede.engine.arrays import Floats
from precede.explain.contributions import steps_of
from precede.model import Ensemble
from precede.weak_rankers.terms import Term, merged_cuts, refined_table
from precede.weak_rankers.trees import Tree

__all__ = ["additive_terms"]


def additive_terms(ensemble: Ensemble) -> tuple[list[Term], float]:
    """Tables that add up to the scores of a model, ordered by their features, and a constant.

    For stumps, terms, trees of one feature each, and constants. Trees of several features, straight
    lines and rankers of your own are refused. The sum agrees with `predict` to rounding. O(rounds).

    >>> from precede import Stump
    >>> terms, constant = additive_terms(Ensemble([Stump(0, 1.0), Stump(0, 3.0)], [2.0, -0.5], 1))
    >>> terms[0].cuts, terms[0].values
    (((1.0, 3.0),), (0.0, 2.0, 1.5, 0.0))
    """
    found: dict[tuple[int, ...], list[Term]] = {}
    constants: list[float] = []
    for feature in ensemble._tables.feature.tolist():
        thresholds, steps, missing = steps_of(ensemble, feature)
        found[feature,] = [_curve(feature, thresholds, False, np.append(steps, missing))]
    for weak_ranker, weight in ensemble.parts():
        term, tree = weak_ranker.as_term(), weak_ranker.as_tree()
        if weak_ranker.is_constant:
            constants.append(weight)
        elif term is not None:
            found.setdefault(term.features, []).append(_times(term, weight))
        elif tree is not None and len(tree.features) <= 1:
            if tree.features:
                found.setdefault(tree.features, []).append(_times(_of_tree(tree), weight))
            else:
                constants.append(weight * tree.value[0])
        elif weak_ranker.as_stump() is None:
            raise ValueError(
                f"the model holds a ranker of kind {weak_ranker.name!r} that is not a table of "
                "one or "
                "two features; use GlassBoxRanker, or RankBoost with weak_rankers='stumps'"
            )
    return [_joined(found[key]) for key in sorted(found)], math.fsum(constants)


def _curve(feature: int, cuts: Floats, named: bool, values: Floats) -> Term:
    cells = tuple(values.tolist())
    return Term((feature,), (tuple(cuts.tolist()),), (named,), cells, (0,) * len(cells))


def _times(term: Term, weight: float) -> Term:
    return term if weight == 1.0 else term.with_values(weight * term.table)


def _of_tree(tree: Tree) -> Term:
    """A tree of one feature, read off at every bin."""
    (feature,) = tree.features
    named = any(tree.categories)
    if named and not all(tree.categories):
        raise ValueError(f"a tree splits feature {feature} by thresholds and by categories")
    if named:
        cuts = np.unique([float(c) for each in tree.categories for c in each])
        at = np.append(cuts, np.nan)
    else:
        cuts = np.unique([t for t in tree.threshold if math.isfinite(t)])
        last = np.nextafter(cuts[-1:], np.inf) if cuts.size else np.zeros(1)
        at = np.concatenate([cuts, last, [np.nan]])
    X = np.zeros((at.size, feature + 1))
    X[:, feature] = at
    return _curve(feature, cuts, named, tree(X))


def _joined(terms: list[Term]) -> Term:
    """Terms of the same features as one, on the cuts of all of them."""
    first = terms[0]
    if len(terms) == 1:
        return first
    if any(term.categorical != first.categorical for term in terms):
        raise ValueError(
            f"the model reads feature {first.features[0]} as a number and as categories; "
            "give categorical_features"
        )
    cuts = merged_cuts(terms)
    total = sum(refined_table(term, cuts) for term in terms)
    cells = tuple(np.ravel(total).tolist())
    return Term(first.features, cuts, first.categorical, cells, (0,) * len(cells))
