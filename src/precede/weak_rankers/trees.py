"""Regression trees as weak rankers, and fast scoring of many trees.

A `Tree` consists of plain numbers: it is saved as JSON and scored without the library that grew
it. `precede.weak_rankers.tree_grower` grows trees.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from reprlib import repr as shown
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from precede.engine.arrays import (
    Array,
    BackendArray,
    Bytes,
    Flags,
    Floats,
    Integers,
    Json,
    MatrixLike,
)
from precede.engine.backend import Backend
from precede.engine.compiling import INLINED, INNER, njit
from precede.engine.execution import Context, threads_for
from precede.engine.kernels import predict_codes
from precede.engine.portable import fmax, fmin
from precede.engine.table import MAX_CATEGORIES, MISSING, Bins, Table
from precede.weak_rankers.base import WeakRanker

if TYPE_CHECKING:
    from sklearn.tree import DecisionTreeRegressor


Number = TypeVar("Number", int, float)

# Rows scored together, so that their feature values stay in the cache.
ROWS_PER_BLOCK = 64
# Trees with at most this many leaves are scored by bit masks; larger ones by descent.
MASK_BITS = 64
# A de Bruijn sequence: the upper six bits of its product with 2^k are different for each k.
DE_BRUIJN = 0x022FDD63CC95386D
# Rows of an on-disk table whose codes are in memory at a time.
DISK_CHUNK_ROWS = 1 << 20
# Larger numbers are rejected as a mistake or a malicious model file.
MAX_FEATURES = 1 << 26
MAX_ROWS = 2**53
# On a GPU: bytes of shared memory for the rows of a thread block (so that two fit on a
# multiprocessor), and maximum and minimum number of rows of a thread block.
GPU_SHARED_BYTES, MAX_BLOCK_ROWS, MIN_BLOCK_ROWS = 100 * 1024, 256, 32
# A node on a GPU, as in `kernels.cu`: the threshold of a split or the weighted value of a leaf
# (feature -1), the split's feature and children, and whether missing values go right.
GPU_NODE = np.dtype([("number", "f8"), ("feature", "i4"), ("left", "i4"), ("right", "i4"),
                     ("missing", "i4")])  # fmt: skip


# -- one tree --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tree(WeakRanker):
    """A binary regression tree.

    Split j sends a row to ``left[j]`` if ``x[split_feature[j]] <= threshold[j]``, to
    ``right[j]`` otherwise; a missing value goes left if ``missing_left[j]``. A non-negative child
    is a split, a negative child c is leaf ``-1 - c``. Split 0 is the root, and children are
    numbered after their parents. Prediction takes O(depth) per row.

    Attributes
    ----------
    split_feature, threshold, missing_left, left, right : one entry per split
    value, count : value and number of training rows of each leaf
    gain : gain of each split
    categories : empty, or for each split the categories that go left (an empty set means a split
        by threshold). Values in no set, missing and negative values go right.

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
    codes_only: ClassVar[bool] = True
    checks_fields: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for field in ("split_feature", "left", "right", "count"):
            object.__setattr__(self, field, as_numbers(getattr(self, field), int, field))
        for field in ("threshold", "value", "gain"):
            object.__setattr__(self, field, as_numbers(getattr(self, field), float, field))
        flags = as_numbers(self.missing_left, int, "missing_left")
        object.__setattr__(self, "missing_left", tuple(bool(flag) for flag in flags))
        sets = tuple(as_numbers(each, int, "categories") for each in as_tuple(self.categories))
        object.__setattr__(self, "categories", sets)
        self._check_shape()
        self._check_numbers()

    @classmethod
    def unchecked(cls, **fields: object) -> Tree:
        """Create a tree from all its fields without checking their types and the structure.

        For trees made by this package: checking takes as long as growing a small tree.
        """
        tree = object.__new__(cls)
        for name, value in fields.items():
            object.__setattr__(tree, name, value)
        tree._check_numbers()
        return tree

    def _check_shape(self) -> None:
        """Raise ValueError unless each split and leaf is the child of one earlier split."""
        splits = len(self.split_feature)
        sizes = {len(getattr(self, f)) for f in ("threshold", "missing_left", "left", "right",
                                                 "gain")}  # fmt: skip
        if sizes != {splits} or len(self.value) != splits + 1 or len(self.count) != splits + 1:
            raise ValueError("a tree needs one entry for each split, and one leaf more than splits")
        if self.categories and len(self.categories) != splits:
            raise ValueError("a tree needs one set of categories for each split, or none at all")
        children = sorted([*self.left, *self.right])
        expected = [*range(-splits - 1, 0), *range(1, splits)] if splits else []
        upwards = any(
            0 <= child <= j for j in range(splits) for child in (self.left[j], self.right[j])
        )
        if children != expected or upwards:
            raise ValueError("a tree must reach every split and every leaf once, from above")

    def _check_numbers(self) -> None:
        """Raise ValueError if a number is not finite or out of range."""
        if not all(map(math.isfinite, self.value)):
            raise ValueError("a leaf of a tree has a value that is not finite")
        if not all(map(math.isfinite, self.gain)):
            raise ValueError("a split of a tree has a gain that is not finite")
        if not all(0 <= count <= MAX_ROWS for count in self.count):
            raise ValueError("a leaf of a tree holds an impossible number of rows")
        if not all(0 <= feature <= MAX_FEATURES for feature in self.split_feature):
            raise ValueError("a tree names a feature that is negative or too large")
        for each in self.categories:
            if each and not 0 <= min(each) <= max(each) < MAX_CATEGORIES:
                raise ValueError(
                    f"a tree names a category that is negative or above {MAX_CATEGORIES - 1}; "
                    "number categories 0, 1, 2, ..."
                )

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return len(self.value)

    @cached_property
    def features(self) -> tuple[int, ...]:
        """Features used by the splits, in increasing order."""
        return tuple(sorted(set(self.split_feature)))

    @cached_property
    def depth(self) -> int:
        """Number of splits on the longest path from the root."""
        depth = [0] * len(self.split_feature)
        for j in range(len(depth) - 1, -1, -1):
            depth[j] = 1 + max(depth[c] if c >= 0 else 0 for c in (self.left[j], self.right[j]))
        return depth[0] if depth else 0

    def __call__(self, X: Array) -> Floats:
        """Return the value of each row."""
        return self._values(X, np.arange(X.shape[0]))

    def on(self, table: Table) -> Floats:
        """Return the value of each row of a table.

        Reads the codes if all thresholds are cuts of the table and all categories have bins.
        Otherwise reads the raw rows without copying them, and raises ValueError if the table has
        none. O(depth) per row.
        """
        if not self.split_feature:
            return np.full(table.n_used_rows, self.value[0])
        left_codes = self._left_codes(table.bins)
        if left_codes is None:
            return self._values(table.rows() if table.X is None else table.X, table.order)
        values = np.empty(table.n_used_rows)
        feature, *_, child, value, _, _ = self._arrays
        features = np.array(self.features)
        chunk = DISK_CHUNK_ROWS if table.streamed else max(1, values.size)
        for low in range(0, values.size, chunk):
            high = min(low + chunk, values.size)
            predict_codes(low, high, table.codes, feature, left_codes, child, value, values)
            table.release(features)
        return values

    def _left_codes(self, bins: Bins) -> Flags | None:
        """Return whether each split sends each of the 256 codes left.

        Return None if the codes do not determine this.

        A value is at most ``cuts[b]`` if its code is at most b. If all categories of the left sets
        have bins, a category without a bin is in no left set and goes right like missing values.
        """
        if self.features[-1] >= bins.n_features:
            return None
        goes_left = np.zeros((len(self.split_feature), MISSING + 1), np.bool_)
        sets = self.categories or ((),) * len(goes_left)
        for j, (feature, threshold, left_set) in enumerate(
            zip(self.split_feature, self.threshold, sets, strict=True)
        ):
            binned, cuts = bins.categories.get(feature), bins.cuts[feature]
            if bool(left_set) != (binned is not None):
                return None
            if binned is not None:
                goes_left[j, : binned.size] = np.isin(binned, left_set)
                if np.count_nonzero(goes_left[j]) < len(set(left_set)):
                    return None
                continue
            last = int(np.searchsorted(cuts, threshold))
            if threshold == np.inf:
                last = MISSING - 1
            elif last == cuts.size or cuts[last] != threshold:
                return None
            goes_left[j, : last + 1] = True
            goes_left[j, MISSING] = self.missing_left[j]
        return goes_left

    def _values(self, X: MatrixLike, order: Integers) -> Floats:
        values = np.empty(order.size)
        if not self.split_feature:
            values[:] = self.value[0]
            return values
        if self.features[-1] >= X.shape[1]:
            raise ValueError(f"a tree reads feature {self.features[-1]} of {X.shape[1]}")
        arrays = self._arrays
        if scipy.sparse.issparse(X):  # make only the used columns dense
            X = X[:, list(self.features)].toarray()
            position = np.searchsorted(self.features, arrays[0])
            arrays = (position.astype(np.int64), *arrays[1:])
        _predict_rows(X, order, values, *arrays)
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
        """Raise ValueError if a split uses a feature beyond `n_features`."""
        if max(self.features, default=0) >= n_features:
            raise ValueError(
                f"a {self.name} uses feature {max(self.features)}, but there are {n_features}"
            )

    def importances(self) -> dict[int, float]:
        """Return the standard deviation of the values, divided among the features by gain."""
        weight = np.array(self.count, float)
        if not self.gain or weight.sum() == 0:
            return {}
        # Scaling by powers of two is exact, and prevents overflow of squares and sums.
        exponent = int(np.frexp(np.abs(self.value).max())[1])
        value = np.ldexp(self.value, -exponent)
        mean = (weight * value).sum() / weight.sum()
        variance = (weight * (value - mean) ** 2).sum() / weight.sum()
        deviation = math.ldexp(math.sqrt(variance), exponent)
        gain = np.maximum(np.array(self.gain), 0.0)
        gain = np.ldexp(gain, -int(np.frexp(gain.max())[1]))
        total = gain.sum()
        shares = gain / total if total > 0 else np.full(gain.size, 1 / gain.size)
        importances: dict[int, float] = {}
        for feature, share in zip(self.split_feature, shares, strict=True):
            importances[feature] = importances.get(feature, 0.0) + deviation * float(share)
        return importances

    def __str__(self) -> str:
        return f"Tree({self.n_leaves} leaves of features {', '.join(map(str, self.features))})"


def as_tuple(values: object, what: str = "tree") -> tuple[object, ...]:
    """Convert a list read from a model file; raise ValueError if it is not a list."""
    if not isinstance(values, list | tuple | np.ndarray):
        raise ValueError(f"a {what} is made of lists, not {shown(values)}")
    return tuple(values)


def as_numbers(
    values: object, kind: type[Number], name: str, what: str = "tree"
) -> tuple[Number, ...]:
    """Convert a list to a tuple of int or float; "inf" and "-inf" are the only strings allowed."""
    return tuple(_as_number(value, kind, name, what) for value in as_tuple(values, what))


def _as_number(value: object, kind: type[Number], name: str, what: str) -> Number:
    if isinstance(value, str) and value in ("inf", "-inf") and kind is float:
        return kind(value)
    allowed = (int, np.integer, np.bool_) if kind is int else (int, float, np.number)
    if not isinstance(value, allowed) or value != value:  # noqa: PLR0124  (NaN)
        raise ValueError(f"{name} of a {what} holds {shown(value)}, a wrong kind of value")
    try:
        return kind(value)
    except OverflowError as error:
        raise ValueError(f"{name} of a {what} holds too large a number") from error


def _bitsets(
    categories: tuple[tuple[int, ...], ...], splits: int
) -> tuple[Integers, NDArray[np.uint32]]:
    """Return the category sets as bits: split j has the words ``start[j]..start[j + 1]``.

    A split by threshold has none.
    """
    bitsets = [np.zeros(max(left_set, default=-1) // 32 + 1, np.uint32) for left_set in categories]
    for bitset, left_set in zip(bitsets, categories, strict=True):
        for category in left_set:
            bitset[category // 32] |= np.uint32(1 << (category % 32))
    sizes = [bitset.size for bitset in bitsets] if bitsets else [0] * splits
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return start, np.concatenate([*bitsets, np.zeros(0, np.uint32)])


# -- many trees ------------------------------------------------------------------------------


class Forest:
    """Weighted trees, laid out for scoring many rows.

    Trees with at most 64 leaves take O(leaves) per row, but vectorized over rows and without
    branches, which is several times faster than descending the trees. If one tree is larger, all
    trees are descended, in O(depth) per row. Both layouts give the same scores to the bit.

    >>> import numpy as np
    >>> tree = Tree((0,), (1.5,), (True,), (-1,), (-2,), (10.0, 20.0), (3, 4), (1.0,))
    >>> scores = np.zeros(2)
    >>> Forest([tree, tree], [1.0, 0.5]).add_to(scores, np.array([[1.0], [2.0]]))
    >>> scores
    array([15., 30.])
    """

    def __init__(self, trees: list[Tree], weights: list[float]) -> None:
        self.features = np.array(sorted({f for tree in trees for f in tree.features}), np.int64)
        small = all(tree.n_leaves <= MASK_BITS for tree in trees)
        layout = _MaskLayout if small else _NodeLayout
        self._layout: _MaskLayout | _NodeLayout = layout(trees, weights, self.features)

    def add_to(self, scores: Floats, X: Array, context: Context | None = None) -> None:
        """Add the weighted values of the trees to the scores, tree by tree."""
        kernel = _score_by_masks if isinstance(self._layout, _MaskLayout) else _score_by_descent
        arrays = self._layout.arrays(single=X.dtype == np.float32)
        (context or Context(1)).run(
            kernel, X.shape[0], X, self.features, *arrays, scores,
            threads=threads_for("heavy rows", X.shape[0]),
        )  # fmt: skip

    def values_at(self, X: Floats) -> Floats:
        """Return the scores of a few rows; where possible, without compiling the kernels."""
        if isinstance(self._layout, _MaskLayout):
            return self._layout.scores(X[:, self.features])
        scores = np.zeros(len(X))
        self.add_to(scores, X)
        return scores


class _MaskLayout:
    """Splits as bit masks of leaves (QuickScorer).

    Leaves are numbered from left to right. A split that sends a row right excludes the leaves on
    its left; the row's leaf is the first one that no split excludes. The splits of a tree may be
    evaluated in any order, and are sorted by kind::

        | missing values left | missing values right | categorical |
        start[t, 0]           start[t, 1]            start[t, 2]   start[t, 3]

    The first two kinds are padded to multiples of four.

    References
    ----------
    C. Lucchese, F. M. Nardini, S. Orlando, R. Perego, N. Tonellotto & R. Venturini (2015).
    QuickScorer: a fast algorithm to rank documents with additive ensembles of regression trees.
    SIGIR.
    """

    def __init__(self, trees: list[Tree], weights: list[float], features: Integers) -> None:
        kinds = [_split_kinds(tree) for tree in trees]
        sizes = np.array([np.bincount(kind, minlength=3) for kind in kinds]).reshape(-1, 3)
        sizes[:, :2] += -sizes[:, :2] % 4
        ends = np.cumsum(sizes).reshape(-1, 3)
        self._start = np.column_stack([ends[:, 0] - sizes[:, 0], ends])
        total = int(sizes.sum())
        self._feature = np.zeros(total, np.int32)
        self._threshold = np.full(total, np.inf)
        self._mask = np.full(total, (1 << MASK_BITS) - 1, np.uint64)
        self._value = np.zeros((len(trees), MASK_BITS))
        # Column of the value of a leaf, by its position, which is the lowest set bit of a mask.
        slot = np.array(
            [(DE_BRUIJN << k) % (1 << MASK_BITS) >> MASK_BITS - 6 for k in range(MASK_BITS)]
        )
        sets: list[tuple[int, ...]] = [()] * total
        for number, (tree, weight) in enumerate(zip(trees, weights, strict=True)):
            leaf, masks = _leaf_masks(tree)
            for kind, start in enumerate(self._start[number, :3].tolist()):
                chosen = np.flatnonzero(kinds[number] == kind)
                target = slice(start, start + chosen.size)
                split_feature = np.array(tree.split_feature)[chosen]
                self._feature[target] = np.searchsorted(features, split_feature)
                self._threshold[target] = np.array(tree.threshold)[chosen]
                self._mask[target] = np.array(masks, np.uint64)[chosen]
                if kind == 2:
                    sets[target] = [tree.categories[split] for split in chosen]
            self._value[number, slot[leaf]] = weight * np.array(tree.value)
        self._threshold32 = _round_down(self._threshold)
        self._sets = _bitsets(tuple(sets), total)

    def arrays(self, *, single: bool) -> tuple[Array | None, ...]:
        """Return the arguments of the kernel, for rows of single or double precision."""
        threshold = self._threshold32 if single else self._threshold
        start, bits = self._sets
        return (
            self._start, self._feature, threshold, self._mask, self._value, start,
            bits if bits.size else None,
        )  # fmt: skip

    def scores(self, X: Floats) -> Floats:
        """Return the scores of a few rows of the used features, as `_score_by_masks`."""
        scores, (set_start, bits) = np.zeros(len(X)), self._sets
        every = np.uint64((1 << MASK_BITS) - 1)
        for tree, (first, missing_right, categorical, end) in enumerate(self._start.tolist()):
            splits = np.arange(first, end)[:, None]
            x = X.T[self._feature[first:end]]
            goes_right = x > self._threshold[splits]
            goes_right |= (splits >= missing_right) & np.isnan(x)
            for at in range(categorical, end):
                in_set = np.unpackbits(
                    bits[set_start[at] : set_start[at + 1]].view(np.uint8), bitorder="little"
                )
                values = x[at - first]
                listed = (values >= 0) & (values < in_set.size)
                index = np.where(listed, values, 0).astype(np.int64)
                goes_right[at - first] = ~(listed & (in_set[index] == 1))
            alive = np.bitwise_and.reduce(
                np.where(goes_right, self._mask[splits], every), axis=0, initial=every
            )
            lowest = alive & (~alive + np.uint64(1))
            scores += self._value[tree][(lowest * np.uint64(DE_BRUIJN)) >> np.uint64(MASK_BITS - 6)]
        return scores


class _NodeLayout:
    """Splits and leaves as nodes, descended by a block of rows at a time.

    Leaves are their own children, so that all rows take the same number of steps without branches.
    """

    def __init__(self, trees: list[Tree], weights: list[float], features: Integers) -> None:
        sizes = [2 * tree.n_leaves - 1 for tree in trees]
        self._start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        total = int(self._start[-1])
        self._depth = np.array([tree.depth for tree in trees], np.int64)
        self._feature = np.zeros(total, np.int32)
        self._threshold = np.full(total, np.inf)
        self._child = np.zeros((total, 2), np.int32)
        self._missing_right = np.zeros(total, np.uint8)
        self._value = np.zeros(total)
        sets: list[tuple[int, ...]] = []
        for tree, weight, start in zip(trees, weights, self._start, strict=False):
            self._lay_out(tree, weight, int(start), features)
            sets += tree.categories or [()] * len(tree.split_feature)
            sets += [()] * tree.n_leaves
        self._threshold32 = _round_down(self._threshold)
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
        self._missing_right[inner] = 1 - np.array(tree.missing_left, np.uint8)
        self._value[leaves] = weight * np.array(tree.value)

    def arrays(self, *, single: bool) -> tuple[object, ...]:
        """Return the arguments of the kernel, for rows of single or double precision."""
        threshold = self._threshold32 if single else self._threshold
        return (
            self._start, self._depth, self._feature, threshold, self._child, self._missing_right,
            self._value, self._any_set, *self._sets,
        )  # fmt: skip


def _split_kinds(tree: Tree) -> Integers:
    """Return 0 for splits with missing values left, 1 for right, 2 for categorical splits."""
    kinds = 1 - np.array(tree.missing_left, np.int64)
    kinds[[bool(left_set) for left_set in tree.categories]] = 2
    return kinds


def _leaf_masks(tree: Tree) -> tuple[list[int], list[int]]:
    """Return each leaf's position from left to right, and each split's mask of kept leaves."""
    splits = len(tree.split_feature)
    # Splits first, then leaves backwards, so that negative children index from the end.
    size = [1] * (splits + tree.n_leaves)
    for j in reversed(range(splits)):
        size[j] = size[tree.left[j]] + size[tree.right[j]]
    first = [0] * len(size)
    masks = []
    for j in range(splits):
        first[tree.left[j]] = first[j]
        first[tree.right[j]] = first[j] + size[tree.left[j]]
        masks.append((1 << MASK_BITS) - 1 - (1 << first[tree.right[j]]) + (1 << first[j]))
    return first[: -tree.n_leaves - 1 : -1], masks


def _round_down(threshold: Floats) -> NDArray[np.float32]:
    """Return float32 thresholds that compare with every float32 value as the given ones do."""
    with np.errstate(all="ignore"):
        rounded = threshold.astype(np.float32)
        return np.where(rounded > threshold, np.nextafter(rounded, np.float32(-np.inf)), rounded)


# -- scoring on a GPU, with the same bits as on the CPU --------------------------------------


class GpuForest:
    """Trees with their weights, laid out for prediction on a GPU.

    Parameters
    ----------
    backend : Backend
    trees, weights : trees without categories, and their weights
    """

    def __init__(self, backend: Backend, trees: Sequence[Tree], weights: Sequence[float]):
        self._backend, self._trees = backend, len(trees)
        features = np.array(sorted({f for tree in trees for f in tree.features}), np.int64)
        parts = [_gpu_nodes(*each, features) for each in zip(trees, weights, strict=True)]
        self._n_features = features.size
        self._features = backend.put(features)
        self._start = backend.put(np.cumsum([0, *map(len, parts)]))
        self._nodes = backend.put(np.concatenate([np.zeros(0, GPU_NODE), *parts]).view(np.uint8))

    def scores(self, X: BackendArray) -> BackendArray:
        """Return the scores of the rows of an array on the GPU, in O(depth) per tree and row."""
        single = X.dtype == np.float32
        X = self._backend.xp.ascontiguousarray(X, np.float32 if single else np.float64)
        row_bytes = X.dtype.itemsize * (self._n_features | 1)  # odd: avoids bank conflicts
        rows = min(MAX_BLOCK_ROWS, GPU_SHARED_BYTES // row_bytes // 32 * 32)
        if rows < MIN_BLOCK_ROWS:
            raise ValueError(
                f"the model reads {self._n_features} features, too many for scoring on a GPU; copy "
                "X to the CPU"
            )
        scores = self._backend.zeros(X.shape[0])
        if X.shape[0]:
            self._backend.launch(
                "score_singles" if single else "score_doubles", -(-X.shape[0] // rows), rows,
                np.int64(X.shape[0]), np.int64(X.shape[1]), X, self._n_features, self._features,
                self._trees, self._start, self._nodes, scores, shared=rows * row_bytes,
            )  # fmt: skip
        return scores


def _gpu_nodes(tree: Tree, weight: float, features: Integers) -> NDArray[np.void]:
    """Return the splits of a tree, then its leaves, as an array of `GPU_NODE`."""
    splits = len(tree.split_feature)
    nodes = np.zeros(2 * splits + 1, GPU_NODE)
    nodes["feature"] = -1
    nodes["feature"][:splits] = np.searchsorted(features, tree.split_feature)
    nodes["number"][:splits] = tree.threshold
    nodes["number"][splits:] = weight * np.array(tree.value)
    for side in ("left", "right"):
        nodes[side][:splits] = [c if c >= 0 else splits - 1 - c for c in getattr(tree, side)]
    nodes["missing"][:splits] = [not left for left in tree.missing_left]
    return nodes


# -- conversion from other libraries ---------------------------------------------------------


def tree_from_lightgbm(structure: Json) -> Tree:
    """Convert LightGBM's dump of a tree (``tree_info[t]["tree_structure"]``) to a `Tree`.

    Like LightGBM, treats missing values as 0 if there were none in training.

    >>> tree_from_lightgbm({"leaf_value": 0.5}).value
    (0.5,)
    """
    splits: dict[int, Json] = {}
    leaves: dict[int, Json] = {}
    stack = [structure]
    while stack:
        node = stack.pop()
        if "split_index" in node:
            splits[node["split_index"]] = node
            stack += [node["left_child"], node["right_child"]]
        else:
            leaves[node.get("leaf_index", 0)] = node
    inner = [splits[j] for j in sorted(splits)]
    outer = [leaves[j] for j in sorted(leaves)]
    sets = tuple(_left_categories(node) for node in inner)
    return Tree(
        split_feature=tuple(node["split_feature"] for node in inner),
        threshold=tuple(0.0 if sets[j] else node["threshold"] for j, node in enumerate(inner)),
        missing_left=tuple(_missing_left(node) for node in inner),
        left=tuple(_child(node["left_child"]) for node in inner),
        right=tuple(_child(node["right_child"]) for node in inner),
        value=tuple(float(node["leaf_value"]) for node in outer),
        count=tuple(int(node.get("leaf_count", 0)) for node in outer),
        gain=tuple(float(node["split_gain"]) for node in inner),
        categories=sets if any(sets) else (),
    )


def _child(node: Json) -> int:
    return node["split_index"] if "split_index" in node else -1 - node["leaf_index"]


def _left_categories(node: Json) -> tuple[int, ...]:
    if node["decision_type"] != "==":
        return ()
    return tuple(sorted(int(category) for category in str(node["threshold"]).split("||")))


def _missing_left(node: Json) -> bool:
    if node["decision_type"] == "==":
        return False
    if node["missing_type"] == "Zero":
        raise ValueError("zero_as_missing=True is not supported; use NaN for missing values")
    if node["missing_type"] == "NaN":
        return bool(node["default_left"])
    return bool(node["threshold"] >= 0)


def tree_from_sklearn(regressor: DecisionTreeRegressor) -> Tree:
    """Convert a fitted scikit-learn `DecisionTreeRegressor` to a `Tree`.

    >>> from sklearn.tree import DecisionTreeRegressor
    >>> fitted = DecisionTreeRegressor(max_depth=1).fit([[0.0], [1.0]], [5.0, 7.0])
    >>> tree_from_sklearn(fitted)(np.array([[0.2], [0.8]]))
    array([5., 7.])
    """
    nodes = regressor.tree_
    inner = np.flatnonzero(nodes.children_left >= 0)
    leaves = np.flatnonzero(nodes.children_left < 0)
    number = np.empty(nodes.node_count, np.int64)
    number[inner], number[leaves] = np.arange(inner.size), -1 - np.arange(leaves.size)
    impurity = nodes.weighted_n_node_samples * nodes.impurity
    left, right = nodes.children_left[inner], nodes.children_right[inner]
    return Tree(
        split_feature=tuple(nodes.feature[inner].tolist()),
        # scikit-learn rounds values to float32 before the comparison; a `Tree` does not.
        threshold=tuple(nodes.threshold[inner].tolist()),
        missing_left=tuple(nodes.missing_go_to_left[inner].astype(bool).tolist()),
        left=tuple(number[left].tolist()),
        right=tuple(number[right].tolist()),
        value=tuple(nodes.value[leaves, 0, 0].tolist()),
        count=tuple(nodes.n_node_samples[leaves].tolist()),
        gain=tuple((impurity[inner] - impurity[left] - impurity[right]).tolist()),
    )


# -- kernels ---------------------------------------------------------------------------------


@njit(**INNER)
def _goes_right(
    x: float, threshold: float, missing_right: bool, set_first: int, set_last: int,
    bits: NDArray[np.uint32],
) -> int:  # fmt: skip
    """Return 1 if a value goes right, else 0; a split with bits sends their categories left."""
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
def _predict_rows(
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
def _score_by_masks(
    low: int, high: int, X: Array, features: Integers, start: Integers,
    feature: NDArray[np.int32], threshold: Array, mask: NDArray[np.uint64], value: Floats,
    set_start: Integers, bits: NDArray[np.uint32] | None, scores: Floats,
) -> None:  # fmt: skip
    """Score blocks of rows, tree by tree, with the layout `_MaskLayout`.

    `bits` is None without categorical splits, so that numba prunes these.
    """
    x = np.empty((fmax(features.size, 1), ROWS_PER_BLOCK), threshold.dtype)
    alive = np.empty(ROWS_PER_BLOCK, np.uint64)  # leaves that no split has excluded yet
    for first in range(low, high, ROWS_PER_BLOCK):
        rows = fmin(ROWS_PER_BLOCK, high - first)
        for row in range(rows):
            for j in range(features.size):
                x[j, row] = X[first + row, features[j]]
        for tree in range(start.shape[0]):
            _exclude_leaves(x, rows, start[tree], feature, threshold, mask, alive)
            if bits is not None:
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
                scores[first + row] += leaf[
                    (lowest * np.uint64(DE_BRUIJN)) >> np.uint64(MASK_BITS - 6)
                ]


@njit(**INLINED)
def _exclude_leaves(
    x: Array, rows: int, start: Integers, feature: NDArray[np.int32],
    threshold: Array, mask: NDArray[np.uint64], alive: NDArray[np.uint64],
) -> None:  # fmt: skip
    """Set `alive` to the leaves kept by all threshold splits of a tree, four splits at a time."""
    every = ~np.uint64(0)
    for row in range(rows):
        alive[row] = every
    # The inner loops vectorize only if everything they read is a local variable.
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
    for at in range(start[1], start[2], 4):  # NaN <= t is false: missing values go right
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
def _score_by_descent(
    low: int, high: int, X: Array, features: Integers, start: Integers, depth: Integers,
    feature: NDArray[np.int32], threshold: Array, child: NDArray[np.int32],
    missing_right: Bytes, value: Floats, any_set: bool, set_start: Integers,
    bits: NDArray[np.uint32], scores: Floats,
) -> None:  # fmt: skip
    """Score blocks of rows, tree by tree and level by level, with the layout `_NodeLayout`."""
    x = np.empty((fmax(features.size, 1), ROWS_PER_BLOCK), threshold.dtype)
    node = np.empty(ROWS_PER_BLOCK, np.int32)
    for first in range(low, high, ROWS_PER_BLOCK):
        rows = fmin(ROWS_PER_BLOCK, high - first)
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
                    _descend(
                        x, rows, steps, feature[begin:], threshold[begin:], child[begin:], node
                    )
                else:
                    _descend_any(
                        x, rows, steps, feature[begin:], threshold[begin:], child[begin:],
                        missing_right[begin:], set_start[begin:], bits, node,
                    )  # fmt: skip
            for row in range(rows):
                scores[first + row] += value[begin + node[row]]


@njit(**INNER)
def _descend(
    x: Array, rows: int, steps: int, feature: NDArray[np.int32], threshold: Array,
    child: NDArray[np.int32], node: NDArray[np.int32],
) -> None:  # fmt: skip
    """Descend `steps` levels for every row; without missing values and categorical splits."""
    for _ in range(steps):
        for row in range(rows):
            at = node[row]
            node[row] = child[at, np.int64(x[feature[at], row] > threshold[at])]


@njit(**INNER)
def _descend_any(
    x: Array, rows: int, steps: int, feature: NDArray[np.int32], threshold: Array,
    child: NDArray[np.int32], missing_right: Bytes, set_start: Integers,
    bits: NDArray[np.uint32], node: NDArray[np.int32],
) -> None:  # fmt: skip
    """Descend `steps` levels for every row; for all kinds of values and splits."""
    for _ in range(steps):
        for row in range(rows):
            at = node[row]
            side = _goes_right(
                np.float64(x[feature[at], row]), threshold[at], missing_right[at] == 1,
                set_start[at], set_start[at + 1], bits,
            )  # fmt: skip
            node[row] = child[at, side]
