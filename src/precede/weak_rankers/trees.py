"""Regression trees as weak rankers: plain numbers, wherever they were grown.

A `Tree` is saved as JSON and scored by a kernel of ours, so a fitted model needs the library
that grew it no more. `precede.weak_rankers.tree_family` grows them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from reprlib import repr as shown
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from numba import njit
from numpy.typing import NDArray

from precede.engine.arrays import Array, Bytes, Flags, Floats, Integers
from precede.engine.compiling import INNER
from precede.engine.execution import Context, is_small
from precede.engine.portable_kernels import fmax, fmin
from precede.engine.table import MISSING, MOST_CATEGORIES, Bins, Table
from precede.weak_rankers.base import WeakRanker

__all__ = [
    "MOST_FEATURES",
    "Forest",
    "Tree",
    "listed",
    "numbers_of",
    "tree_from_lightgbm",
    "tree_from_sklearn",
]


# Rows scored at a time: their values of the features in use stay near the processor.
BLOCK = 64
# Trees of so many leaves are scored as the bits of one word; larger ones are walked down.
WORD = 64
# A de Bruijn sequence: multiplied by 2^k its upper six bits differ for every k.
DE_BRUIJN = 0x022FDD63CC95386D
# Rows whose codes are in memory at a time, of a table on disk.
ROWS_FROM_DISK = 1 << 20
# Numbers beyond these are mistakes, or files that mean harm.
MOST_FEATURES = 1 << 26
MOST_ROWS = 2**53


# -- the ranker ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tree(WeakRanker):
    """A binary regression tree: plain numbers, one entry for each split or leaf.

    Split j sends a row to ``left[j]`` if ``x[split_feature[j]] <= threshold[j]``, to
    ``right[j]`` otherwise; a missing value goes left if ``missing_left[j]``. A child of 0 or
    more is a split, a negative child c is leaf ``-1 - c``. Splits are numbered so that
    children come after their parents; split 0 is the root.

    Attributes
    ----------
    split_feature, threshold, missing_left, left, right : one entry for each split
    value, count : value of each leaf, and how many training rows it holds
    gain : what each split gained while growing
    categories : empty, or for each split the categories that go left (empty: by threshold).
        A row whose value is none of them, missing or negative goes right.

    Notes
    -----
    O(depth) for a row.

    Examples
    --------
    >>> import numpy as np
    >>> from precede import Tree
    >>> tree = Tree((0,), (1.5,), (True,), (-1,), (-2,), (10.0, 20.0), (3, 4), (1.0,))
    >>> tree(np.array([[1.0], [2.0], [np.nan]]))
    array([10., 20., 10.])
    """

    split_feature: tuple[int, ...]
    threshold: tuple[float, ...]
    missing_left: tuple[bool, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    value: tuple[float, ...]
    count: tuple[int, ...]
    gain: tuple[float, ...]
    categories: tuple[tuple[int, ...], ...] = ()

    name: ClassVar[str] = "tree"
    checks_fields: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for field in ("split_feature", "left", "right", "count"):
            object.__setattr__(self, field, numbers_of(getattr(self, field), int, field))
        for field in ("threshold", "value", "gain"):
            object.__setattr__(self, field, numbers_of(getattr(self, field), float, field))
        flags = numbers_of(self.missing_left, int, "missing_left")
        object.__setattr__(self, "missing_left", tuple(bool(flag) for flag in flags))
        sets = tuple(numbers_of(each, int, "categories") for each in listed(self.categories))
        object.__setattr__(self, "categories", sets)
        self._check_shape()
        self._check_numbers()

    @classmethod
    def trusted(cls, **fields: Any) -> Tree:
        """A tree of tuples whose types and shape need no check, because they were made here.

        All fields are given. Checking takes as long as growing a small tree.
        """
        tree = object.__new__(cls)
        for name, value in fields.items():
            object.__setattr__(tree, name, value)
        tree._check_numbers()
        return tree

    def _check_shape(self) -> None:
        """Refuse anything but a tree: every split and leaf is reached once, from above."""
        splits = len(self.split_feature)
        sizes = {len(getattr(self, f)) for f in ("threshold", "missing_left", "left", "right",
                                                 "gain")}  # fmt: skip
        if sizes != {splits} or len(self.value) != splits + 1 or len(self.count) != splits + 1:
            raise ValueError("a tree needs one entry for each split, and one leaf more than splits")
        if self.categories and len(self.categories) != splits:
            raise ValueError("a tree needs one set of categories for each split, or none at all")
        children = sorted([*self.left, *self.right])
        wanted = [*range(-splits - 1, 0), *range(1, splits)] if splits else []
        upwards = any(
            0 <= child <= j for j in range(splits) for child in (self.left[j], self.right[j])
        )
        if children != wanted or upwards:
            raise ValueError("a tree must reach every split and every leaf once, from above")

    def _check_numbers(self) -> None:
        """Refuse numbers that no training could have left."""
        if not all(map(math.isfinite, self.value)):
            raise ValueError("a leaf of a tree has a value that is not finite")
        if not all(map(math.isfinite, self.gain)):
            raise ValueError("a split of a tree has a gain that is not finite")
        if not all(0 <= count <= MOST_ROWS for count in self.count):
            raise ValueError("a leaf of a tree holds an impossible number of rows")
        if not all(0 <= feature <= MOST_FEATURES for feature in self.split_feature):
            raise ValueError("a tree names a feature that is negative or too large")
        for each in self.categories:
            if each and not 0 <= min(each) <= max(each) < MOST_CATEGORIES:
                raise ValueError(
                    f"a tree names a category that is negative or above {MOST_CATEGORIES - 1}; "
                    "number categories 0, 1, 2, ..."
                )

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return len(self.value)

    @cached_property
    def features(self) -> tuple[int, ...]:
        """Features that the tree reads, in rising order."""
        return tuple(sorted(set(self.split_feature)))

    @cached_property
    def depth(self) -> int:
        """Number of splits on the longest way down."""
        depth = [0] * len(self.split_feature)
        for j in range(len(depth) - 1, -1, -1):
            depth[j] = 1 + max(depth[c] if c >= 0 else 0 for c in (self.left[j], self.right[j]))
        return depth[0] if depth else 0

    def as_tree(self) -> Tree:
        """Itself."""
        return self

    def __call__(self, X: Array) -> Floats:
        """Value of each row."""
        return self._values(X, np.arange(X.shape[0]))

    def on(self, table: Table) -> Floats:
        """Value of each row: from the codes where they tell which way it goes.

        They do if all thresholds are cuts of the table, and all categories have bins there.

        Otherwise from the raw rows, without copying them; a table that holds none raises
        ValueError. O(depth) for each row.
        """
        if not self.split_feature:
            return np.full(table.n_used_rows, self.value[0])
        sides = self._left_codes(table.bins)
        if sides is None:
            return self._values(table.rows() if table.X is None else table.X, table.order)
        values = np.empty(table.n_used_rows)
        feature, *_, child, value, _, _ = self._arrays
        features = np.array(self.features)
        # From disk the codes of some rows at a time.
        width = ROWS_FROM_DISK if table.streamed else max(1, values.size)
        for low in range(0, values.size, width):
            high = min(low + width, values.size)
            _values_of_codes(low, high, table.codes, feature, sides, child, value, values)
            table.release(features)
        return values

    def _left_codes(self, bins: Bins) -> Flags | None:
        """Which of the 256 codes each split sends left; None if codes cannot tell.

        A value is at most ``cuts[b]`` if its code is at most b. A category without a bin is in no
        set of those that have one, and goes right like missing values.
        """
        if self.features[-1] >= bins.n_features:
            return None
        sides = np.zeros((len(self.split_feature), MISSING + 1), np.bool_)
        sets = self.categories or ((),) * len(sides)
        for j, (feature, threshold, named) in enumerate(
            zip(self.split_feature, self.threshold, sets, strict=True)
        ):
            kept, cuts = bins.categories.get(feature), bins.cuts[feature]
            if bool(named) != (kept is not None):
                return None
            if kept is not None:
                sides[j, : kept.size] = np.isin(kept, named)
                if np.count_nonzero(sides[j]) < len(set(named)):
                    return None
                continue
            last = int(np.searchsorted(cuts, threshold))
            if threshold == np.inf:
                last = MISSING - 1
            elif last == cuts.size or cuts[last] != threshold:
                return None
            sides[j, : last + 1] = True
            sides[j, MISSING] = self.missing_left[j]
        return sides

    def _values(self, X: Any, order: Integers) -> Floats:
        values = np.empty(order.size)
        if not self.split_feature:
            values[:] = self.value[0]
            return values
        if self.features[-1] >= X.shape[1]:
            raise ValueError(f"a tree reads feature {self.features[-1]} of {X.shape[1]}")
        arrays = self._arrays
        if scipy.sparse.issparse(X):  # the columns in use alone, as a dense table
            X = X[:, list(self.features)].toarray()
            position = np.searchsorted(self.features, arrays[0])
            arrays = (position.astype(np.int64), *arrays[1:])
        _values_of_rows(X, order, values, *arrays)
        return values

    @cached_property
    def _arrays(self) -> tuple[Array, ...]:
        start, bits = _bitsets(self.categories, len(self.split_feature))
        return (
            np.array(self.split_feature, np.int64),
            np.array(self.threshold),
            np.array(self.missing_left, np.bool_),
            np.array([self.left, self.right], np.int64),
            np.array(self.value),
            start,
            bits,
        )

    def check_features(self, n_features: int) -> None:
        """Raise ValueError if it reads a feature that is not one of so many."""
        if max(self.features, default=0) >= n_features:
            raise ValueError(
                f"a {self.name} uses feature {max(self.features)}, but there are {n_features}"
            )

    def importances(self) -> dict[int, float]:
        """How far the tree moves scores apart, shared among its features by gain."""
        weight = np.array(self.count, float)
        if not self.gain or weight.sum() == 0:
            return {}
        # By powers of two, which round nothing and keep squares and sums from overflowing.
        unit = int(np.frexp(np.abs(self.value).max())[1])
        value = np.ldexp(self.value, -unit)
        mean = (weight * value).sum() / weight.sum()
        spread = math.ldexp(math.sqrt((weight * (value - mean) ** 2).sum() / weight.sum()), unit)
        gain = np.maximum(np.array(self.gain), 0.0)
        gain = np.ldexp(gain, -int(np.frexp(gain.max())[1]))
        total = gain.sum()
        share = gain / total if total > 0 else np.full(gain.size, 1 / gain.size)
        found: dict[int, float] = {}
        for feature, part in zip(self.split_feature, share, strict=True):
            found[feature] = found.get(feature, 0.0) + spread * float(part)
        return found

    def __str__(self) -> str:
        return f"Tree({self.n_leaves} leaves of features {', '.join(map(str, self.features))})"


def listed(values: Any, what: str = "tree") -> tuple[Any, ...]:
    """A tuple of what a file lists for a tree, or for something else."""
    if not isinstance(values, list | tuple | np.ndarray):
        raise ValueError(f"a {what} is made of lists, not {shown(values)}")
    return tuple(values)


def numbers_of(values: Any, kind: type, name: str, what: str = "tree") -> tuple[Any, ...]:
    """A tuple of int or float; spelled-out infinities are numbers, anything else is refused."""
    return tuple(_one_number(value, kind, name, what) for value in listed(values, what))


def _one_number(value: Any, kind: type, name: str, what: str) -> Any:
    if isinstance(value, str) and value in ("inf", "-inf") and kind is float:
        return float(value)
    good: Any = int | np.integer | np.bool_ if kind is int else int | float | np.number
    if not isinstance(value, good) or value != value:  # noqa: PLR0124  (NaN)
        raise ValueError(f"{name} of a {what} holds {shown(value)}, a wrong kind of value")
    try:
        return kind(value)
    except OverflowError as error:
        raise ValueError(f"{name} of a {what} holds too large a number") from error


def _bitsets(
    categories: tuple[tuple[int, ...], ...], splits: int
) -> tuple[Integers, NDArray[np.uint32]]:
    """Sets of categories as bits; ``start[j] == start[j + 1]`` for a split by threshold."""
    words = [np.zeros(max(each, default=-1) // 32 + 1, np.uint32) for each in categories]
    for word, each in zip(words, categories, strict=True):
        for category in each:
            word[category // 32] |= np.uint32(1 << (category % 32))
    sizes = [word.size for word in words] if words else [0] * splits
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return start, np.concatenate([*words, np.zeros(0, np.uint32)])


# -- many trees at once ----------------------------------------------------------------------


class Forest:
    """Trees with their weights, laid out for scoring many rows.

    Trees of at most 64 leaves take O(leaves) for a row and a tree, but many rows at a time and
    without a branch, which is several times faster than walking down. If one of the trees is
    larger, all are walked down, in O(depth). The scores have the same bits either way.

    >>> import numpy as np
    >>> tree = Tree((0,), (1.5,), (True,), (-1,), (-2,), (10.0, 20.0), (3, 4), (1.0,))
    >>> scores = np.zeros(2)
    >>> Forest([tree, tree], [1.0, 0.5]).add_to(scores, np.array([[1.0], [2.0]]))
    >>> scores
    array([15., 30.])
    """

    def __init__(self, trees: list[Tree], weights: list[float]) -> None:
        self.features = np.array(sorted({f for tree in trees for f in tree.features}), np.int64)
        small = all(tree.n_leaves <= WORD for tree in trees)
        layout = _Masks if small else _Nodes
        self._layout: _Masks | _Nodes = layout(trees, weights, self.features)

    def add_to(self, scores: Floats, X: Array, context: Context | None = None) -> None:
        """Add the weighted trees to the scores, in their order."""
        kernel = _score_by_masks if isinstance(self._layout, _Masks) else _score_by_walks
        arrays = self._layout.arrays(single=X.dtype == np.float32)
        (context or Context(1)).run(
            kernel, X.shape[0], X, self.features, *arrays, scores,
            small=is_small("heavy rows", X.shape[0]),
        )  # fmt: skip


class _Masks:
    """Splits as masks of the leaves that they rule out.

    Leaves are numbered from left to right. A split that sends a row right rules out the leaves on
    its left; the row's leaf is the first one that no split rules out. The order of the splits does
    not matter: those that send missing values left come first, then those that send them right,
    then those by categories. The first two kinds are padded to multiples of four.

    References
    ----------
    C. Lucchese, F. M. Nardini, S. Orlando, R. Perego, N. Tonellotto & R. Venturini (2015).
    QuickScorer: a fast algorithm to rank documents with additive ensembles of regression trees.
    SIGIR.
    """

    def __init__(self, trees: list[Tree], weights: list[float], features: Integers) -> None:
        kinds = [_kinds_of_splits(tree) for tree in trees]
        sizes = np.array([np.bincount(kind, minlength=3) for kind in kinds]).reshape(-1, 3)
        sizes[:, :2] += -sizes[:, :2] % 4
        ends = np.cumsum(sizes).reshape(-1, 3)
        self._start = np.column_stack([ends[:, 0] - sizes[:, 0], ends])
        total = int(sizes.sum())
        self._feature = np.zeros(total, np.int32)
        self._threshold = np.full(total, np.inf)
        self._mask = np.full(total, (1 << WORD) - 1, np.uint64)
        self._value = np.zeros((len(trees), WORD))
        slot = np.array([(DE_BRUIJN << bit) % (1 << WORD) >> WORD - 6 for bit in range(WORD)])
        sets: list[tuple[int, ...]] = [()] * total
        for number, (tree, weight) in enumerate(zip(trees, weights, strict=True)):
            leaf, masks = _left_to_right(tree)
            for kind, start in enumerate(self._start[number, :3].tolist()):
                chosen = np.flatnonzero(kinds[number] == kind)
                at = slice(start, start + chosen.size)
                self._feature[at] = np.searchsorted(features, np.array(tree.split_feature)[chosen])
                self._threshold[at] = np.array(tree.threshold)[chosen]
                self._mask[at] = np.array(masks, np.uint64)[chosen]
                if kind == 2:
                    sets[at] = [tree.categories[split] for split in chosen]
            self._value[number, slot[leaf]] = weight * np.array(tree.value)
        self._single = _rounded_down(self._threshold)
        self._sets = _bitsets(tuple(sets), total)

    def arrays(self, *, single: bool) -> tuple[Array, ...]:
        """What the kernel takes, for values of single or double precision."""
        threshold = self._single if single else self._threshold
        return self._start, self._feature, threshold, self._mask, self._value, *self._sets


class _Nodes:
    """Splits and leaves as nodes, to be walked down by a block of rows at a time.

    Leaves lead to themselves, so all rows take the same number of steps and the processor has no
    branch to guess.
    """

    def __init__(self, trees: list[Tree], weights: list[float], features: Integers) -> None:
        sizes = [2 * tree.n_leaves - 1 for tree in trees]
        self._start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        total = int(self._start[-1])
        self._depth = np.array([tree.depth for tree in trees], np.int64)
        self._feature = np.zeros(total, np.int32)
        self._threshold = np.full(total, np.inf)
        self._child = np.zeros((total, 2), np.int32)
        self._missing = np.zeros(total, np.uint8)  # which child takes a missing value
        self._value = np.zeros(total)
        sets: list[tuple[int, ...]] = []
        for tree, weight, start in zip(trees, weights, self._start, strict=False):
            self._lay_out(tree, weight, int(start), features)
            sets += tree.categories or [()] * len(tree.split_feature)
            sets += [()] * tree.n_leaves
        self._single = _rounded_down(self._threshold)
        self._any_set = any(sets)
        self._sets = _bitsets(tuple(sets), total)

    def _lay_out(self, tree: Tree, weight: float, start: int, features: Integers) -> None:
        splits = len(tree.split_feature)
        inner, leaves = slice(start, start + splits), slice(start + splits, start + 2 * splits + 1)
        self._feature[inner] = np.searchsorted(features, tree.split_feature)
        self._threshold[inner] = tree.threshold
        for side, children in enumerate((tree.left, tree.right)):
            self._child[inner, side] = [c if c >= 0 else splits - 1 - c for c in children]
        self._child[leaves] = np.arange(splits, 2 * splits + 1)[:, None]
        self._missing[inner] = 1 - np.array(tree.missing_left, np.uint8)
        self._value[leaves] = weight * np.array(tree.value)

    def arrays(self, *, single: bool) -> tuple[Any, ...]:
        """What the kernel takes, for values of single or double precision."""
        threshold = self._single if single else self._threshold
        return (
            self._start, self._depth, self._feature, threshold, self._child, self._missing,
            self._value, self._any_set, *self._sets,
        )  # fmt: skip


def _kinds_of_splits(tree: Tree) -> Integers:
    """0 for a split that sends missing values left, 1 if right, 2 if it asks for categories."""
    kinds = 1 - np.array(tree.missing_left, np.int64)
    kinds[[bool(each) for each in tree.categories]] = 2
    return kinds


def _left_to_right(tree: Tree) -> tuple[list[int], list[int]]:
    """Position of each leaf, from left to right, and for each split the leaves not on its left."""
    splits = len(tree.split_feature)
    # Splits first, then leaves: a child that is negative counts from the end.
    size = [1] * (splits + tree.n_leaves)
    for j in reversed(range(splits)):
        size[j] = size[tree.left[j]] + size[tree.right[j]]
    first = [0] * len(size)
    masks = []
    for j in range(splits):
        first[tree.left[j]] = first[j]
        first[tree.right[j]] = first[j] + size[tree.left[j]]
        masks.append((1 << WORD) - 1 - (1 << first[tree.right[j]]) + (1 << first[j]))
    return first[: -tree.n_leaves - 1 : -1], masks


def _rounded_down(threshold: Floats) -> NDArray[np.float32]:
    """Thresholds that tell numbers of single precision apart as the given ones do."""
    with np.errstate(all="ignore"):
        rounded = threshold.astype(np.float32)
        return np.where(rounded > threshold, np.nextafter(rounded, np.float32(-np.inf)), rounded)


# -- from others -----------------------------------------------------------------------------


def tree_from_lightgbm(structure: dict[str, Any]) -> Tree:
    """Turn LightGBM's dump of a tree (``tree_info[t]["tree_structure"]``) into a `Tree`.

    Where training saw no missing value LightGBM takes a missing one for 0, and so do we.

    >>> tree_from_lightgbm({"leaf_value": 0.5}).value
    (0.5,)
    """
    splits: dict[int, dict[str, Any]] = {}
    leaves: dict[int, dict[str, Any]] = {}
    waiting = [structure]
    while waiting:
        node = waiting.pop()
        if "split_index" in node:
            splits[node["split_index"]] = node
            waiting += [node["left_child"], node["right_child"]]
        else:
            leaves[node.get("leaf_index", 0)] = node
    inner = [splits[j] for j in sorted(splits)]
    loser_weight = [leaves[j] for j in sorted(leaves)]
    sets = tuple(_categories_of(node) for node in inner)
    return Tree(
        split_feature=tuple(node["split_feature"] for node in inner),
        threshold=tuple(0.0 if sets[j] else node["threshold"] for j, node in enumerate(inner)),
        missing_left=tuple(_missing_left(node) for node in inner),
        left=tuple(_child(node["left_child"]) for node in inner),
        right=tuple(_child(node["right_child"]) for node in inner),
        value=tuple(float(node["leaf_value"]) for node in loser_weight),
        count=tuple(int(node.get("leaf_count", 0)) for node in loser_weight),
        gain=tuple(float(node["split_gain"]) for node in inner),
        categories=sets if any(sets) else (),
    )


def _child(node: dict[str, Any]) -> int:
    return node["split_index"] if "split_index" in node else -1 - node["leaf_index"]


def _categories_of(node: dict[str, Any]) -> tuple[int, ...]:
    if node["decision_type"] != "==":
        return ()
    return tuple(sorted(int(category) for category in str(node["threshold"]).split("||")))


def _missing_left(node: dict[str, Any]) -> bool:
    if node["decision_type"] == "==":
        return False
    if node["missing_type"] == "Zero":
        raise ValueError("zero_as_missing=True is not supported; use NaN for missing values")
    if node["missing_type"] == "NaN":
        return bool(node["default_left"])
    return bool(node["threshold"] >= 0)


def tree_from_sklearn(regressor: Any) -> Tree:
    """Turn a fitted scikit-learn `DecisionTreeRegressor` into a `Tree`.

    >>> from sklearn.tree import DecisionTreeRegressor
    >>> fitted = DecisionTreeRegressor(max_depth=1).fit([[0.0], [1.0]], [5.0, 7.0])
    >>> tree_from_sklearn(fitted)(np.array([[0.2], [0.8]]))
    array([5., 7.])
    """
    grown = regressor.tree_
    inner = np.flatnonzero(grown.children_left >= 0)
    loser_weight = np.flatnonzero(grown.children_left < 0)
    number = np.empty(grown.node_count, np.int64)
    number[inner], number[loser_weight] = np.arange(inner.size), -1 - np.arange(loser_weight.size)
    weight = grown.weighted_n_node_samples * grown.impurity
    left, right = grown.children_left[inner], grown.children_right[inner]
    return Tree(
        split_feature=tuple(grown.feature[inner].tolist()),
        # scikit-learn compares float32 values; ours are compared as they are.
        threshold=tuple(grown.threshold[inner].tolist()),
        missing_left=tuple(grown.missing_go_to_left[inner].astype(bool).tolist()),
        left=tuple(number[left].tolist()),
        right=tuple(number[right].tolist()),
        value=tuple(grown.value[loser_weight, 0, 0].tolist()),
        count=tuple(grown.n_node_samples[loser_weight].tolist()),
        gain=tuple((weight[inner] - weight[left] - weight[right]).tolist()),
    )


# -- kernels ---------------------------------------------------------------------------------


@njit(**INNER)
def _goes_right(
    x: float, threshold: float, missing_right: bool, set_first: int, set_last: int,
    bits: NDArray[np.uint32],
) -> int:  # fmt: skip
    """Which way a value goes; a split with bits sends the categories in them left."""
    if set_first < set_last:
        if not x >= 0.0 or x >= 32.0 * (set_last - set_first):
            return 1
        category = np.int64(x)
        word = bits[set_first + category // 32]
        return 0 if (word >> np.uint32(category % 32)) & np.uint32(1) else 1
    if np.isnan(x):
        return 1 if missing_right else 0
    return 1 if x > threshold else 0


@njit(cache=True, nogil=True)
def _values_of_rows(
    X: Array, order: Integers, values: Floats, feature: Integers, threshold: Floats,
    missing_left: Flags, child: Integers, value: Floats, set_start: Integers,
    bits: NDArray[np.uint32],
) -> None:  # fmt: skip
    for position in range(order.size):
        row, node = order[position], 0
        while node >= 0:
            side = _goes_right(
                np.float64(X[row, feature[node]]), threshold[node], not missing_left[node],
                set_start[node], set_start[node + 1], bits,
            )  # fmt: skip
            node = child[side, node]
        values[position] = value[-1 - node]


@njit(cache=True, nogil=True)
def _values_of_codes(
    low: int, high: int, codes: Bytes, feature: Integers,
    sides: Flags, child: Integers, value: Floats, values: Floats,
) -> None:  # fmt: skip
    for position in range(low, high):
        node = np.int64(0)
        while node >= 0:
            left = sides[node, codes[feature[node], position]]
            node = child[0 if left else 1, node]
        values[position] = value[-1 - node]


@njit(cache=True, nogil=True)
def _score_by_masks(
    low: int, high: int, X: Array, features: Integers, start: Integers,
    feature: NDArray[np.int32], threshold: Array, mask: NDArray[np.uint64], value: Floats,
    set_start: Integers, bits: NDArray[np.uint32], scores: Floats,
) -> None:  # fmt: skip
    """Block of rows by block of rows, tree by tree."""
    x = np.empty((fmax(features.size, 1), BLOCK), threshold.dtype)
    alive = np.empty(BLOCK, np.uint64)  # the leaves that no split has ruled out yet
    for first in range(low, high, BLOCK):
        rows = fmin(BLOCK, high - first)
        for row in range(rows):
            for j in range(features.size):
                x[j, row] = X[first + row, features[j]]
        for tree in range(start.shape[0]):
            _rule_out(x, rows, start[tree], feature, threshold, mask, alive)
            for at in range(start[tree, 2], start[tree, 3]):
                for row in range(rows):
                    if _goes_right(
                        np.float64(x[feature[at], row]), 0.0, True, set_start[at],
                        set_start[at + 1], bits,
                    ):  # fmt: skip
                        alive[row] &= mask[at]
            leaf = value[tree]
            for row in range(rows):
                lowest = alive[row] & (~alive[row] + np.uint64(1))
                scores[first + row] += leaf[(lowest * np.uint64(DE_BRUIJN)) >> np.uint64(WORD - 6)]


@njit(**INNER)
def _rule_out(
    x: Array, rows: int, start: Integers, feature: NDArray[np.int32],
    threshold: Array, mask: NDArray[np.uint64], alive: NDArray[np.uint64],
) -> None:  # fmt: skip
    """Leaves that the splits by threshold of one tree leave over; four splits at a time."""
    every = ~np.uint64(0)
    for row in range(rows):
        alive[row] = every
    # Names for all that the inner loops read: only then does the compiler see that they may run
    # several rows at a time.
    for at in range(start[0], start[1], 4):  # NaN > t is false: missing values go left
        x0, x1, x2, x3 = x[feature[at]], x[feature[at + 1]], x[feature[at + 2]], x[feature[at + 3]]
        t0, t1, t2, t3 = threshold[at], threshold[at + 1], threshold[at + 2], threshold[at + 3]
        m0, m1, m2, m3 = mask[at], mask[at + 1], mask[at + 2], mask[at + 3]
        for row in range(rows):
            a = m0 if x0[row] > t0 else every
            b = m1 if x1[row] > t1 else every
            c = m2 if x2[row] > t2 else every
            d = m3 if x3[row] > t3 else every
            alive[row] &= (a & b) & (c & d)
    for at in range(start[1], start[2], 4):  # NaN <= t is false too: here they go right
        x0, x1, x2, x3 = x[feature[at]], x[feature[at + 1]], x[feature[at + 2]], x[feature[at + 3]]
        t0, t1, t2, t3 = threshold[at], threshold[at + 1], threshold[at + 2], threshold[at + 3]
        m0, m1, m2, m3 = mask[at], mask[at + 1], mask[at + 2], mask[at + 3]
        for row in range(rows):
            a = every if x0[row] <= t0 else m0
            b = every if x1[row] <= t1 else m1
            c = every if x2[row] <= t2 else m2
            d = every if x3[row] <= t3 else m3
            alive[row] &= (a & b) & (c & d)


@njit(cache=True, nogil=True)
def _score_by_walks(
    low: int, high: int, X: Array, features: Integers, start: Integers, depth: Integers,
    feature: NDArray[np.int32], threshold: Array, child: NDArray[np.int32],
    missing: Bytes, value: Floats, any_set: bool, set_start: Integers,
    bits: NDArray[np.uint32], scores: Floats,
) -> None:  # fmt: skip
    """Block of rows by block of rows, tree by tree, level by level."""
    x = np.empty((fmax(features.size, 1), BLOCK), threshold.dtype)
    node = np.empty(BLOCK, np.int32)
    for first in range(low, high, BLOCK):
        rows = fmin(BLOCK, high - first)
        plain = not any_set
        for row in range(rows):
            for j in range(features.size):
                x[j, row] = X[first + row, features[j]]
                plain = plain and x[j, row] == x[j, row]
        for tree in range(start.size - 1):
            begin = start[tree]
            splits = (start[tree + 1] - begin) // 2
            node[:] = 0
            for taken in range(0, depth[tree], 8):
                if taken > 0 and node[:rows].min() >= splits:  # every row is in a leaf
                    break
                steps = fmin(8, depth[tree] - taken)
                if plain:
                    _walk(x, rows, steps, feature[begin:], threshold[begin:], child[begin:], node)
                else:
                    _walk_any(
                        x, rows, steps, feature[begin:], threshold[begin:], child[begin:],
                        missing[begin:], set_start[begin:], bits, node,
                    )  # fmt: skip
            for row in range(rows):
                scores[first + row] += value[begin + node[row]]


@njit(**INNER)
def _walk(
    x: Array, rows: int, steps: int, feature: NDArray[np.int32], threshold: Array,
    child: NDArray[np.int32], node: NDArray[np.int32],
) -> None:  # fmt: skip
    """Some steps down for every row; no value is missing."""
    for _ in range(steps):
        for row in range(rows):
            at = node[row]
            node[row] = child[at, np.int64(x[feature[at], row] > threshold[at])]


@njit(**INNER)
def _walk_any(
    x: Array, rows: int, steps: int, feature: NDArray[np.int32], threshold: Array,
    child: NDArray[np.int32], missing: Bytes, set_start: Integers,
    bits: NDArray[np.uint32], node: NDArray[np.int32],
) -> None:  # fmt: skip
    for _ in range(steps):
        for row in range(rows):
            at = node[row]
            side = _goes_right(
                np.float64(x[feature[at], row]), threshold[at], missing[at] == 1, set_start[at],
                set_start[at + 1], bits,
            )  # fmt: skip
            node[row] = child[at, side]
