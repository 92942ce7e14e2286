"""Shapley values of trees.

For a set S of features let v(S) be the expected value of a tree when the features in S are
those of the row and the others are unknown. The Shapley value of feature j is the mean increment
of v when j becomes known, over all orders of the features. For one leaf with value v this is

    phi_j = v (o_j - z_j) ∫₀¹ prod_{k != j} (z_k (1 - t) + o_k t) dt,

where k runs over the features on the path to the leaf, o_k is 1 if the row satisfies all
conditions of the path on feature k, else 0, and z_k is the same for a background row, or the
share of training rows that follow the path at the splits by k. (An order of the features is an
arrival time t for each, uniform on [0, 1].) The integrand is a polynomial, for which Gaussian
quadrature is exact, and no factor is negative, so nothing cancels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from precede.decomposition import Nodes
from precede.engine.arrays import Flags, Floats, Integer, Integers
from precede.engine.compiling import INLINED, njit
from precede.engine.execution import Context, threads_for
from precede.engine.portable import fmax

__all__ = ["Paths"]

# Rows whose conditions are evaluated before their values are computed.
ROWS_PER_BLOCK = 256


class Paths:
    """The paths to all leaves of some trees: for each leaf, a condition on each of its features.

    The conditions of leaf l are those from ``start[l]`` to ``start[l + 1]``. Condition c holds if
    the value of feature ``feature[c]`` is above ``low[c]`` and at most ``high[c]``, or if it is
    missing and ``absent[c]``; ``share[c]`` is the share of training rows that follow the path at
    the splits by this feature. For splits by category, ``members[first[c]:first[c + 1]]`` flags
    which of the categories 0, 1, 2, ... satisfy it, and ``outside[c]`` whether all other values do.
    """

    def __init__(self, trees: Sequence[tuple[Nodes, float]], *, use_cover: bool):
        start, conditions, value = [0], [], []
        for nodes, weight in trees:
            for leaf, path_conditions in _leaf_conditions(nodes, use_cover=use_cover):
                conditions += list(path_conditions.items())
                start.append(len(conditions))
                value.append(weight * float(nodes.value[leaf]))
        self.start = np.array(start, np.int64)
        self.value = np.array(value, np.float64)
        self.feature = np.array([feature for feature, _ in conditions], np.int64)
        self.low = np.array([condition.low for _, condition in conditions], np.float64)
        self.high = np.array([condition.high for _, condition in conditions], np.float64)
        self.absent = np.array([condition.absent for _, condition in conditions], np.bool_)
        self.share = np.array([condition.share for _, condition in conditions], np.float64)
        self.outside = np.array([condition.outside for _, condition in conditions], np.bool_)
        sizes = [condition.members.size for _, condition in conditions]
        self.first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        members = [condition.members for _, condition in conditions]
        self.members = np.concatenate([*members, np.zeros(0, np.bool_)])
        most = int(np.diff(self.start).max(initial=0))
        self._points, self._weights = _quadrature(most)
        self._beta = _beta(most)

    def expectation(self) -> float:
        """Return the mean value over the training rows, computed from the shares."""
        total = 0.0
        for leaf, value in enumerate(self.value.tolist()):
            total += value * float(np.prod(self.share[self.start[leaf] : self.start[leaf + 1]]))
        return total

    def values(self, X: Floats, Z: Floats | None, context: Context) -> Floats:
        """Return the Shapley values of each row of X, unknown features being drawn from rows of Z.

        Without Z unknown features follow the training rows. Time O(rows of X · rows of Z ·
        leaves · depth²) at most, since most leaves are unreachable for most pairs of rows;
        memory one byte for each row of Z and each condition. The result does not depend on the
        number of threads.
        """
        out = np.zeros(X.shape)
        background = self._satisfied(X[:0] if Z is None else Z)
        work = X.shape[0] * max(len(background), 1) * self.value.size
        context.map(
            self._add_to, X.shape[0], X, background, out, threads=threads_for("heavy rows", work)
        )
        return out

    def _add_to(self, begin: int, end: int, X: Floats, background: Flags, out: Floats) -> None:
        """Add the values of the rows begin..end."""
        most = self._points.shape[0]
        room, which = np.empty((3, most + 1)), np.empty(most, np.int64)
        for first in range(begin, end, ROWS_PER_BLOCK):
            rows = slice(first, min(first + ROWS_PER_BLOCK, end))
            _add_shapley(
                self._satisfied(X[rows]), background, self.start, self.feature, self.share,
                self.value, self._points, self._weights, self._beta, room, which, out[rows],
            )  # fmt: skip

    def _satisfied(self, X: Floats) -> Flags:
        """Return whether each row satisfies each condition."""
        satisfied = np.empty((len(X), self.feature.size), np.bool_)
        _evaluate_conditions(
            X, self.feature, self.low, self.high, self.absent, self.outside, self.first,
            self.members, satisfied,
        )  # fmt: skip
        return satisfied


@dataclass(frozen=True, eq=False)
class _Condition:
    """The condition of the path to a leaf on one feature."""

    low: float = -np.inf
    high: float = np.inf
    absent: bool = True
    share: float = 1.0
    outside: bool = True
    members: Flags = field(default_factory=lambda: np.zeros(0, np.bool_))

    def by_threshold(self, threshold: float, *, left: bool, missing_left: bool) -> _Condition:
        """Return the condition after a split by threshold."""
        absent = self.absent and missing_left == left
        if left:
            return replace(self, high=min(self.high, threshold), absent=absent)
        return replace(self, low=max(self.low, threshold), absent=absent)

    def by_category(self, categories: tuple[int, ...], *, left: bool) -> _Condition:
        """Return the condition after a split that sends `categories` left, other values right."""
        size = max(self.members.size, max(categories) + 1)
        before = np.full(size, self.outside)
        before[: self.members.size] = self.members
        named = np.zeros(size, np.bool_)
        named[list(categories)] = True
        return replace(
            self,
            members=before & (named if left else ~named),
            outside=self.outside and not left,
            absent=self.absent and not left,
        )


def _leaf_conditions(nodes: Nodes, *, use_cover: bool) -> list[tuple[int, dict[int, _Condition]]]:
    """Return each leaf with the conditions of its path, by feature."""
    found = []
    stack: list[tuple[int, dict[int, _Condition]]] = [(0, {})]
    while stack:
        node, conditions = stack.pop()
        if nodes.is_leaf(node):
            found.append((node, conditions))
            continue
        feature, categories = int(nodes.feature[node]), nodes.categories_of(node)
        threshold, missing_left = float(nodes.threshold[node]), bool(nodes.missing_left[node])
        before = conditions.get(feature, _Condition())
        for child, left in ((int(nodes.right[node]), False), (int(nodes.left[node]), True)):
            if categories:
                condition = before.by_category(categories, left=left)
            else:
                condition = before.by_threshold(threshold, left=left, missing_left=missing_left)
            if use_cover:
                condition = replace(condition, share=condition.share * _share(nodes, node, child))
            stack.append((child, {**conditions, feature: condition}))
    return found


def _share(nodes: Nodes, node: int, child: int) -> float:
    """Return the share of the training rows of a node that go to a child; ½ if it has none."""
    assert nodes.cover is not None
    total = float(nodes.cover[int(nodes.left[node])]) + float(nodes.cover[int(nodes.right[node])])
    return float(nodes.cover[child]) / total if total > 0 else 0.5


def _quadrature(most: int) -> tuple[Floats, Floats]:
    """Return Gauss-Legendre points and weights on [0, 1]: row m is exact up to degree m - 1."""
    points, weights = np.zeros((most + 1, (most + 1) // 2)), np.zeros((most + 1, (most + 1) // 2))
    for m in range(1, most + 1):
        size = (m + 1) // 2
        x, w = np.polynomial.legendre.leggauss(size)
        points[m, :size], weights[m, :size] = (x + 1) / 2, w / 2
    return points, weights


def _beta(most: int) -> Floats:
    """Return the integrals ∫₀¹ t^a (1 - t)^b dt = a! b! / (a + b + 1)!, for a + b below `most`."""
    table = np.zeros((most + 1, most + 1))
    for a in range(most):
        for b in range(most - a):
            table[a, b] = 1 / ((a + b + 1) * math.comb(a + b, a))
    return table


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _evaluate_conditions(
    X: Floats, feature: Integers, low: Floats, high: Floats, absent: Flags, outside: Flags,
    first: Integers, members: Flags, satisfied: Flags,
) -> None:  # fmt: skip
    """Evaluate all conditions on all rows."""
    for row in range(X.shape[0]):
        for c in range(feature.size):
            x, accepted = X[row, feature[c]], outside[c]
            if x >= 0.0 and x < float(first[c + 1] - first[c]):
                accepted = members[first[c] + np.int64(x)]
            if not low[c] < x <= high[c]:
                accepted = False
            if np.isnan(x):
                accepted = absent[c]
            satisfied[row, c] = accepted


@njit(cache=True, nogil=True)
def _add_shapley(
    satisfied: Flags, background: Flags, start: Integers, feature: Integers, share: Floats,
    value: Floats, points: Floats, weights: Floats, beta: Floats, room: Floats, which: Integers,
    out: Floats,
) -> None:  # fmt: skip
    """Add the Shapley values of all leaves for some rows, for each background row.

    `satisfied` and `background` tell which conditions the rows satisfy.
    """
    one, zero, before, n_others = room[0], room[1], room[2], background.shape[0]
    rounds = fmax(n_others, 1)
    for row in range(satisfied.shape[0]):
        for other in range(rounds):
            for leaf in range(value.size):
                # Collect the conditions on which the row and the background differ.
                count: Integer = np.int64(0)  # a plain 0 would have its callees compiled twice
                reachable = True
                for c in range(start[leaf], start[leaf + 1]):
                    z = share[c]
                    if n_others > 0:
                        z = 1.0 if background[other, c] else 0.0
                    if not satisfied[row, c] and z == 0.0:
                        reachable = False
                        break
                    if satisfied[row, c] and z == 1.0:
                        continue
                    one[count], zero[count], which[count] = satisfied[row, c], z, feature[c]
                    count += 1
                if not reachable or count == 0:
                    continue
                scale = value[leaf] / rounds
                if n_others > 0:
                    _add_leaf_exact(row, count, one, which, scale, beta, out)
                else:
                    _add_leaf(row, count, one, zero, which, before, scale, points, weights, out)


@njit(**INLINED)
def _add_leaf_exact(
    row: int, count: int, one: Floats, which: Integers, scale: float, beta: Floats, out: Floats
) -> None:
    """Add the values of one leaf where each factor is t (row) or 1 - t (background)."""
    ours = 0
    for j in range(count):
        ours += one[j] == 1.0
    for j in range(count):
        if one[j] == 1.0:
            out[row, which[j]] += scale * beta[ours - 1, count - ours]
        else:
            out[row, which[j]] -= scale * beta[ours, count - ours - 1]


@njit(**INLINED)
def _add_leaf(
    row: int, count: int, one: Floats, zero: Floats, which: Integers, before: Floats, scale: float,
    points: Floats, weights: Floats, out: Floats,
) -> None:  # fmt: skip
    """Add the values of one leaf by quadrature; prefix and suffix products omit one factor."""
    for q in range((count + 1) // 2):
        t = points[count, q]
        before[0] = 1.0
        for j in range(count):
            before[j + 1] = before[j] * (zero[j] * (1.0 - t) + one[j] * t)
        after = scale * weights[count, q]
        for j in range(count - 1, -1, -1):
            out[row, which[j]] += (one[j] - zero[j]) * before[j] * after
            after *= zero[j] * (1.0 - t) + one[j] * t
