"""Decompose a fitted model into the parts of serving formats: trees, lines, a constant."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from precede.engine.parameters import Argument, ParameterError
from precede.explain.contributions import nodes_of
from precede.explain.shapley import Nodes
from precede.judgments import feature_names
from precede.model import Ensemble
from precede.weak_rankers.base import WeakRanker
from precede.weak_rankers.columns import LinearWeakRanker
from precede.weak_rankers.terms import Term

if TYPE_CHECKING:
    from precede.estimator import BaseRanker

LARGEST = float(np.finfo(np.float32).max)
SMALLEST = np.finfo(np.float32).tiny


@dataclass(frozen=True)
class Parts:
    """``score(x) = constant + sum of trees + sum of weight · line(x[feature])``.

    `trees` carry the weights in their leaves. All stumps of a feature become at most two
    trees, one for each side that missing values go to, whatever the number of rounds. `lines`
    are features (clipped to [0, 1]) and columns, with their weights.
    """

    names: tuple[str, ...]
    trees: tuple[Nodes, ...]
    lines: tuple[tuple[LinearWeakRanker, float], ...]
    constant: float
    title: str
    probability: str

    @classmethod
    def of(cls, model: BaseRanker) -> Parts:
        """Decompose a fitted model; refuse user-defined weak rankers."""
        ensemble: Ensemble = model.ensemble_
        trees = [*_of_stumps(ensemble)]
        lines: dict[LinearWeakRanker, float] = {}
        constants: list[float] = []
        for weak_ranker, weight in ensemble.parts():
            if (tree := weak_ranker.as_tree()) is not None:
                trees.append(nodes_of(tree).times(weight))
            elif (term := weak_ranker.as_term()) is not None:
                trees.append(term_nodes(term).times(weight))
            elif (line := weak_ranker.as_linear()) is not None:
                lines[line] = lines.get(line, 0.0) + weight
            elif weak_ranker.is_constant:
                constants.append(weight)
            elif weak_ranker.as_stump() is None:
                raise _unknown(weak_ranker)
        names = feature_names(getattr(model, "feature_names_in_", None), ensemble.n_features)
        return cls(
            tuple(names),
            tuple(trees),
            tuple(lines.items()),
            math.fsum(constants),
            f"precede {type(model).__name__}, {len(ensemble)} rounds",
            probability_of(model),
        )

    def all_trees(self) -> list[Nodes]:
        """Return the trees, with a leaf for the constant if needed; at least one."""
        leaf = _leaf(self.constant)
        return [*self.trees, leaf] if self.constant != 0 or not self.trees else [*self.trees]

    def is_linear(self) -> bool:
        """Return whether the score is a weighted sum of raw features, and nothing else."""
        columns = [line.ends is None for line, _ in self.lines]
        return bool(columns) and all(columns) and not self.trees and self.constant == 0

    def refuse_lines(self, format_: str) -> None:
        """Say why a format of trees alone cannot hold the model, if so."""
        if self.lines:
            kind = self.lines[0][0].name
            raise ParameterError(
                f"{format_} holds trees only, but the model has rankers of kind {kind!r}, straight "
                "lines; use ", Argument("format", "onnx"), ", 'python' or 'c', or fit with "
                "weak_rankers='stumps'",
            )  # fmt: skip


def probability_of(model: BaseRanker) -> str:
    """Return the formula of probabilities for the end of a title; empty without one."""
    if getattr(model, "link_", None) is None:
        return ""
    formula = f"1 / (1 + exp(-{model.link_!r} * (score + {model.intercept_!r})))"
    return f"; probability of the second class: {formula}"


def _unknown(weak_ranker: WeakRanker) -> ValueError:
    return ValueError(
        f"a ranker of kind {weak_ranker.name!r} cannot be exported: no format knows it; save the "
        "model "
        "as JSON and serve it with precede"
    )


def refuse_other_missing(
    trees: Iterable[Nodes], names: tuple[str, ...], reader: str, among: Container[str] | None = None
) -> None:
    """Refuse trees that treat missing values and zeros differently, for formats that do not.

    With `among`, only those features are read as 0.
    """
    for nodes in trees:
        for feature, threshold, left in zip(
            nodes.feature.tolist(),
            nodes.threshold.tolist(),
            nodes.missing_left.tolist(),
            strict=True,
        ):
            if feature < 0 or (among is not None and names[feature] not in among):
                continue
            if left != (threshold >= 0):
                here, there = ("below", "above") if left else ("above", "below")
                raise ParameterError(
                    f"the model counts missing values of {names[feature]!r} as {here} "
                    f"{threshold:.6g}, but {reader} takes them for 0, which is {there}; if all "
                    "features are there when serving, or 0 is what you mean, pass ",
                    Argument("missing", "zero"),
                )


def refuse_categories(nodes: Nodes, format_: str) -> None:
    """Refuse splits by category, which few formats write in one way."""
    if nodes.categories and any(nodes.categories):
        raise ParameterError(
            f"{format_} cannot hold splits by category here; use ",
            Argument("format", "python"),
            " or 'c', or fit without categorical_features",
        )


# -- stumps as trees -------------------------------------------------------------------------


def _of_stumps(ensemble: Ensemble) -> list[Nodes]:
    """Return at most two trees for each feature: missing values below all thresholds or above."""
    jumps: dict[tuple[int, int], dict[float, list[float]]] = {}
    for stump, weight in ensemble.stumps():
        at = jumps.setdefault((stump.feature, stump.missing), {})
        at.setdefault(stump.threshold, []).append(weight)
    trees = []
    for (feature, missing), at in sorted(jumps.items()):
        thresholds = sorted(at)
        values = np.cumsum([0.0, *(math.fsum(at[t]) for t in thresholds)])
        trees.append(steps_tree(feature, thresholds, values.tolist(), missing_left=missing == 0))
    return trees


def steps_tree(
    feature: int, thresholds: list[float], values: list[float], missing_left: bool
) -> Nodes:
    """Return a step function as a balanced tree: value j where j thresholds are below."""
    rows: list[list[Any]] = []

    def grow(first: int, last: int) -> int:
        index = len(rows)
        rows.append([-1, 0.0, -1, -1, False, values[first]])
        if first < last:
            middle = (first + last) // 2
            left, right = grow(first, middle), grow(middle + 1, last)
            rows[index] = [feature, thresholds[middle], left, right, missing_left, 0.0]
        return index

    grow(0, len(thresholds))
    split_on, threshold, left, right, goes_left, value = map(np.array, zip(*rows, strict=True))
    return Nodes(split_on, threshold, left, right, goes_left, value)


def _leaf(value: float) -> Nodes:
    return steps_tree(0, [], [value], missing_left=True)


# -- terms as trees --------------------------------------------------------------------------


def term_nodes(term: Term) -> Nodes:
    """Return a term as a tree that splits on its first feature first.

    Missing values are split off before all others, unless they have the value of 0: then they go
    where 0 goes.
    """
    tree = _TermTree(term)
    tree.grow(term.table, 0)
    columns = list(zip(*tree.rows, strict=True))
    split_on, threshold, left, right, goes_left, value = map(np.array, columns[:6])
    sets = tuple(columns[6]) if any(columns[6]) else ()
    return Nodes(split_on, threshold, left, right, goes_left, value, None, sets)


class _TermTree:
    """Builder of the tree of a term; each method adds a subtree and returns its root's index."""

    def __init__(self, term: Term):
        self._term = term
        self.rows: list[list[Any]] = []

    def grow(self, table: NDArray[Any], axis: int) -> int:
        """Add the subtree over the cells of the features from `axis` on."""
        term = self._term
        if (leaf := self._add_leaf(table)) is not None:
            return leaf
        if term.categorical[axis]:
            return self._add_category_bins(table, axis, list(range(len(table) - 1)), other=True)
        at_zero = int(term.bins(axis, np.zeros(1))[0])
        if np.array_equal(table[-1], table[at_zero]):
            return self._add_ordered_bins(table, axis, 0, len(table) - 2, zero=True)
        index = self._add_split(axis, math.inf)
        self.rows[index][2] = self._add_ordered_bins(table, axis, 0, len(table) - 2, zero=False)
        self.rows[index][3] = self.grow(table[-1], axis + 1)
        return index

    def _add_leaf(self, table: NDArray[Any]) -> int | None:
        """Add a leaf if all cells share one value, else return None."""
        if np.min(table) != np.max(table):
            return None
        self.rows.append([-1, 0.0, -1, -1, False, float(np.ravel(table)[0]), ()])
        return len(self.rows) - 1

    def _add_split(
        self, axis: int, cut: float, missing_left: bool = False, categories: tuple[int, ...] = ()
    ) -> int:
        self.rows.append([self._term.features[axis], cut, -1, -1, missing_left, 0.0, categories])
        return len(self.rows) - 1

    def _add_ordered_bins(
        self, table: NDArray[Any], axis: int, first: int, last: int, *, zero: bool
    ) -> int:
        """Add bins first..last of a feature; with `zero`, missing values go where 0 goes."""
        if (leaf := self._add_leaf(table[first : last + 1])) is not None:
            return leaf
        if first == last:
            return self.grow(table[first], axis + 1)
        middle = (first + last) // 2
        cut = self._term.cuts[axis][middle]
        index = self._add_split(axis, cut, zero and cut >= 0)
        self.rows[index][2] = self._add_ordered_bins(table, axis, first, middle, zero=zero)
        self.rows[index][3] = self._add_ordered_bins(table, axis, middle + 1, last, zero=zero)
        return index

    def _add_category_bins(
        self, table: NDArray[Any], axis: int, bins: list[int], *, other: bool
    ) -> int:
        """Add the bins of categories, and that of other values if present."""
        used = [*bins, *([len(table) - 1] if other else [])]
        if (leaf := self._add_leaf(table[used])) is not None:
            return leaf
        if len(used) == 1:
            return self.grow(table[used[0]], axis + 1)
        half = max(1, len(bins) // 2)
        categories = tuple(int(self._term.cuts[axis][b]) for b in bins[:half])
        index = self._add_split(axis, 0.0, categories=categories)
        self.rows[index][2] = self._add_category_bins(table, axis, bins[:half], other=False)
        self.rows[index][3] = self._add_category_bins(table, axis, bins[half:], other=other)
        return index


def side_by_side(nodes: Nodes) -> Nodes:
    """Return the tree with its nodes in breadth-first order, so that siblings are adjacent.

    XGBoost takes the node after the left child for the right one, whatever the file says.
    """
    order = [0]
    for node in order:  # grows while it is read
        if nodes.feature[node] >= 0:
            order += [int(nodes.left[node]), int(nodes.right[node])]
    index = np.empty(len(order), np.int64)
    index[order] = np.arange(len(order))
    leaf = nodes.feature[order] < 0
    return Nodes(
        nodes.feature[order],
        nodes.threshold[order],
        np.where(leaf, -1, index[nodes.left[order]]),
        np.where(leaf, -1, index[nodes.right[order]]),
        nodes.missing_left[order],
        nodes.value[order],
        None if nodes.cover is None else nodes.cover[order],
        tuple(nodes.categories[node] for node in order) if nodes.categories else (),
    )


# -- single precision ------------------------------------------------------------------------


def as_single(value: float) -> float:
    """Return a float32 in few digits that read back equal in single and double precision.

    >>> as_single(1 / 3)
    0.33333334
    """
    return float(str(np.float32(min(max(value, -LARGEST), LARGEST))))


def at_most(threshold: float) -> np.float32:
    """Return the largest float32 t with ``x <= t`` exactly if ``x <= threshold``, for float32 x.

    Rounding to nearest could move the threshold across a value. Infinite thresholds become
    the largest finite numbers; so -3.4028235e38 itself counts as missing.

    >>> bool(float(at_most(0.1)) <= 0.1 < float(np.nextafter(at_most(0.1), np.float32(1))))
    True
    """
    bounded = min(max(threshold, -LARGEST), LARGEST)
    single = np.float32(bounded)
    if float(single) > bounded:
        single = np.nextafter(single, np.float32(-np.inf))
    return single


def above(threshold: float) -> np.float32:
    """Return the float32 t with ``x < t`` exactly if ``x <= threshold``, for float32 x.

    Never a subnormal number, which some machines take for 0: positive values below 1.2e-38
    count as 0.

    >>> float(above(1.0))
    1.0000001192092896
    """
    with np.errstate(over="ignore"):  # overflows to infinity
        after = np.nextafter(at_most(threshold), np.float32(np.inf))
    if 0 < after < SMALLEST:
        return SMALLEST
    return min(after, np.float32(LARGEST))
