"""Decomposition of a fitted model into step functions, trees, terms, lines and a constant.

Scoring, explanations, exports and scorecards all read a model as its `Decomposition`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from precede.engine.arrays import Flags, Floats, Integers
from precede.weak_rankers.base import WeakRanker
from precede.weak_rankers.columns import LinearWeakRanker
from precede.weak_rankers.stumps import Stump
from precede.weak_rankers.terms import Term
from precede.weak_rankers.trees import Tree


@dataclass(frozen=True)
class Decomposition:
    """A weighted sum of weak rankers, grouped by kind.

    `predict` adds the step functions, then the trees, the terms and the other weak rankers, each
    in the order given here.

    Attributes
    ----------
    stumps, trees, terms : weak rankers with their weights, in the order of the rounds
    others : the other weak rankers, with the weights of equal ones added up

    Examples
    --------
    >>> from precede.weak_rankers.columns import Constant
    >>> stumps = [(Stump(0, 0.5), 2.0), (Stump(0, 1.5), -1.0)]
    >>> parts = Decomposition.of([*stumps, (Constant(), 3.0)])
    >>> parts.steps[0](np.array([0.0, 1.0, 2.0]))
    array([0., 2., 1.])
    >>> parts.constant
    3.0
    """

    stumps: tuple[tuple[Stump, float], ...]
    trees: tuple[tuple[Tree, float], ...]
    terms: tuple[tuple[Term, float], ...]
    others: tuple[tuple[WeakRanker, float], ...]

    @classmethod
    def of(cls, weighted: Iterable[tuple[WeakRanker, float]]) -> Decomposition:
        """Decompose a weighted sum of weak rankers. O(weak rankers)."""
        stumps, trees, terms = [], [], []
        others: dict[WeakRanker, float] = {}
        for weak_ranker, weight in weighted:
            known = weak_ranker.equivalent()
            if isinstance(known, Stump):
                stumps.append((known, weight))
            elif isinstance(known, Tree):
                trees.append((known, weight))
            elif isinstance(known, Term):
                terms.append((known, weight))
            else:
                others[known] = others.get(known, 0.0) + weight
        return cls(tuple(stumps), tuple(trees), tuple(terms), tuple(others.items()))

    @cached_property
    def steps(self) -> tuple[Steps, ...]:
        """The sum of the stumps of each feature, by feature."""
        by_feature: dict[int, list[tuple[Stump, float]]] = {}
        for stump, weight in self.stumps:
            by_feature.setdefault(stump.feature, []).append((stump, weight))
        return tuple(Steps.of(by_feature[feature]) for feature in sorted(by_feature))

    def steps_of(self, feature: int) -> Steps:
        """Return the step function of one feature; 0 everywhere if no stump reads it."""
        flat = Steps(feature, np.zeros(0), np.zeros(1), 0.0)
        return next((each for each in self.steps if each.feature == feature), flat)

    @property
    def lines(self) -> list[tuple[LinearWeakRanker, float]]:
        """The linear functions of one feature, with their weights."""
        return [(line, w) for line, w in self.others if isinstance(line, LinearWeakRanker)]

    @property
    def constant(self) -> float:
        """The sum of the constant weak rankers."""
        return math.fsum(w for weak_ranker, w in self.others if weak_ranker.is_constant)

    @property
    def unknown(self) -> list[tuple[WeakRanker, float]]:
        """The weak rankers, defined by users, that are none of the above."""
        return [
            (weak_ranker, weight)
            for weak_ranker, weight in self.others
            if not weak_ranker.is_constant and not isinstance(weak_ranker, LinearWeakRanker)
        ]

    def nodes(self) -> list[Nodes]:
        """Return the trees, then the terms, as trees in arrays with the weights in their leaves."""
        trees = [Nodes.of_tree(tree).times(weight) for tree, weight in self.trees]
        return [*trees, *(Nodes.of_term(term).times(weight) for term, weight in self.terms)]

    def nodes_of_stumps(self) -> list[Nodes]:
        """Return at most two trees for each feature, one for each direction of missing values."""
        groups: dict[tuple[int, int], list[tuple[Stump, float]]] = {}
        for stump, weight in self.stumps:
            groups.setdefault((stump.feature, stump.missing), []).append((stump, weight))
        return [
            Nodes.of_steps(Steps.of(groups[key]), missing_left=key[1] == 0)
            for key in sorted(groups)
        ]


@dataclass(frozen=True, eq=False)
class Steps:
    """The weighted sum of the stumps of one feature: a step function.

    The value of x is ``values[c]`` if c of the increasing `thresholds` are below x; that of NaN is
    `missing`.
    """

    feature: int
    thresholds: Floats
    values: Floats
    missing: float

    @classmethod
    def of(cls, stumps: Sequence[tuple[Stump, float]]) -> Steps:
        """Add up stumps of one feature."""
        jumps: dict[float, list[float]] = {}
        for stump, weight in stumps:
            jumps.setdefault(stump.threshold, []).append(weight)
        thresholds = sorted(jumps)
        return cls(
            stumps[0][0].feature,
            np.array(thresholds),
            np.cumsum([0.0, *(math.fsum(jumps[threshold]) for threshold in thresholds)]),
            math.fsum(weight * stump.missing for stump, weight in stumps),
        )

    def __call__(self, x: Floats) -> Floats:
        """Return the value of each x."""
        below = np.searchsorted(self.thresholds, x, side="left")
        known = self.values[np.minimum(below, self.thresholds.size)]  # NaN is sorted last
        return np.where(np.isnan(x), self.missing, known)

    def finite(self) -> Steps:
        """Return the function without infinite thresholds; it is equal for all finite values."""
        finite = np.isfinite(self.thresholds)
        first = np.count_nonzero(self.thresholds == -np.inf)
        values = self.values[first : first + np.count_nonzero(finite) + 1]
        return replace(self, thresholds=self.thresholds[finite], values=values)


# -- trees in arrays -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Nodes:
    """A binary tree in arrays, node 0 being the root.

    ``feature[n]`` is -1 at a leaf. At a split a row goes to ``left[n]`` if its value is at most
    ``threshold[n]``, to ``right[n]`` if it is above; a missing value goes left if
    ``missing_left[n]``. ``value[n]`` is the value of a leaf. ``cover[n]`` is the number (or weight)
    of training rows in the node; None if unknown. ``categories`` is empty, or holds for each
    node the categories that go left; all other values then go right.
    """

    feature: Integers
    threshold: Floats
    left: Integers
    right: Integers
    missing_left: Flags
    value: Floats
    cover: Floats | None = None
    categories: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def of_tree(cls, tree: Tree) -> Nodes:
        """Return the splits of a tree, then its leaves."""
        splits, leaves = len(tree.split_feature), len(tree.value)
        nothing = [0] * leaves
        left, right = (
            np.array([*(child if child >= 0 else splits - 1 - child for child in side), *nothing])
            for side in (tree.left, tree.right)
        )
        cover = np.array([*([0.0] * splits), *map(float, tree.count)])
        for split in range(splits - 1, -1, -1):  # children come after their parents
            cover[split] = cover[left[split]] + cover[right[split]]
        return cls(
            np.array([*tree.split_feature, *([-1] * leaves)]),
            np.array([*tree.threshold, *nothing], np.float64),
            left,
            right,
            np.array([*tree.missing_left, *nothing], np.bool_),
            np.array([*([0.0] * splits), *tree.value]),
            cover,
            (*tree.categories, *([()] * leaves)) if any(tree.categories) else (),
        )

    @classmethod
    def of_term(cls, term: Term) -> Nodes:
        """Return a term as a tree that splits by its first feature first.

        Missing values are split off before all others, unless the term has the same value for them
        as for 0: then they go where 0 goes.
        """
        builder = _TermBuilder(term)
        builder.add(term.table, 0)
        return builder.nodes()

    @classmethod
    def of_steps(cls, steps: Steps, *, missing_left: bool) -> Nodes:
        """Return a step function as a balanced tree; its value of missing values is not used."""
        builder = _NodesBuilder()

        def grow(first: int, last: int) -> int:
            if first == last:
                return builder.leaf(float(steps.values[first]))
            middle = (first + last) // 2
            node = builder.split(steps.feature, float(steps.thresholds[middle]), missing_left)
            return builder.join(node, grow(first, middle), grow(middle + 1, last))

        grow(0, len(steps.thresholds))
        return builder.nodes()

    @classmethod
    def of_constant(cls, value: float) -> Nodes:
        """Return a leaf."""
        builder = _NodesBuilder()
        builder.leaf(value)
        return builder.nodes()

    def times(self, weight: float) -> Nodes:
        """Return the tree with its values multiplied by `weight`."""
        return replace(self, value=weight * self.value)

    def is_leaf(self, node: int) -> bool:
        """Return whether a node is a leaf."""
        return bool(self.feature[node] < 0)

    def categories_of(self, node: int) -> tuple[int, ...]:
        """Return the categories that go left at a node; none if it splits by a threshold."""
        return self.categories[node] if self.categories else ()


class _NodesBuilder:
    """Builder of `Nodes`: a node is added before its children."""

    def __init__(self) -> None:
        self._feature: list[int] = []
        self._number: list[float] = []  # threshold or value
        self._missing_left: list[bool] = []
        self._categories: list[tuple[int, ...]] = []
        self._children: dict[int, tuple[int, int]] = {}

    def leaf(self, value: float) -> int:
        """Add a leaf and return its index."""
        return self.split(-1, value)

    def split(
        self,
        feature: int,
        threshold: float,
        missing_left: bool = False,
        categories: tuple[int, ...] = (),
    ) -> int:
        """Add a split and return its index."""
        self._feature.append(feature)
        self._number.append(threshold)
        self._missing_left.append(missing_left)
        self._categories.append(categories)
        return len(self._feature) - 1

    def join(self, node: int, left: int, right: int) -> int:
        """Set the children of a split and return its index."""
        self._children[node] = left, right
        return node

    def nodes(self) -> Nodes:
        """Return the tree."""
        feature, number = np.array(self._feature), np.array(self._number)
        children = [self._children.get(node, (-1, -1)) for node in range(feature.size)]
        left, right = np.array(children).T
        return Nodes(
            feature,
            np.where(feature < 0, 0.0, number),
            left,
            right,
            np.array(self._missing_left),
            np.where(feature < 0, number, 0.0),
            None,
            tuple(self._categories) if any(self._categories) else (),
        )


class _TermBuilder(_NodesBuilder):
    """Builder of the tree of a term; each method adds a subtree and returns its root."""

    def __init__(self, term: Term):
        super().__init__()
        self._term = term

    def add(self, table: Floats, axis: int) -> int:
        """Add the cells of the features from `axis` on."""
        if np.min(table) == np.max(table):
            return self.leaf(float(np.ravel(table)[0]))
        if self._term.categorical[axis]:
            return self._add_categories(table, axis, list(range(len(table) - 1)), other=True)
        last = len(table) - 2
        at_zero = int(self._term.bins(axis, np.zeros(1))[0])
        if np.array_equal(table[-1], table[at_zero]):
            return self._add_bins(table, axis, 0, last, zero=True)
        node = self.split(self._term.features[axis], math.inf)
        known = self._add_bins(table, axis, 0, last, zero=False)
        return self.join(node, known, self.add(table[-1], axis + 1))

    def _add_bins(self, table: Floats, axis: int, first: int, last: int, *, zero: bool) -> int:
        """Add bins of a numeric feature; with `zero`, missing values go where 0 goes."""
        inside = table[first : last + 1]
        if first == last or np.min(inside) == np.max(inside):
            return self.add(inside[0], axis + 1)
        middle = (first + last) // 2
        cut = self._term.cuts[axis][middle]
        node = self.split(self._term.features[axis], cut, zero and cut >= 0)
        left = self._add_bins(table, axis, first, middle, zero=zero)
        return self.join(node, left, self._add_bins(table, axis, middle + 1, last, zero=zero))

    def _add_categories(self, table: Floats, axis: int, bins: list[int], *, other: bool) -> int:
        """Add the bins of categories, and with `other` that of all other values."""
        used = [*bins, *([len(table) - 1] if other else [])]
        if len(used) == 1 or np.min(table[used]) == np.max(table[used]):
            return self.add(table[used[0]], axis + 1)
        half = max(1, len(bins) // 2)
        categories = tuple(int(self._term.cuts[axis][b]) for b in bins[:half])
        node = self.split(self._term.features[axis], 0.0, categories=categories)
        left = self._add_categories(table, axis, bins[:half], other=False)
        return self.join(node, left, self._add_categories(table, axis, bins[half:], other=other))
