"""Kernels that kernels of several other modules call."""

from __future__ import annotations

import numpy as np

from precede.engine.arrays import Array, Bytes, Flags, Floats, Integer, Integers
from precede.engine.compiling import INNER, njit
from precede.engine.portable_kernels import portable_exp


@njit(**INNER)
def exp_array(values: Floats) -> None:
    """Replace values by their exponentials; a loop over a single array is vectorized."""
    for row in range(values.size):
        values[row] = portable_exp(values[row])


@njit(cache=True, nogil=True)
def add_to_fenwick_tree(tree: Array, node: Integer, amount: float) -> None:
    """Add an amount to a node, counted from 1, of a Fenwick tree."""
    while node < tree.size:
        tree[node] += amount
        node += node & -node


@njit(cache=True, nogil=True)
def sum_of_fenwick_tree(tree: Array, node: Integer) -> Integer:
    """Return the sum of the amounts added to nodes 1, ..., `node`."""
    total = tree[0]  # always 0, of the type of the tree
    while node > 0:
        total += tree[node]
        node -= node & -node
    return total


@njit(**INNER)
def shared_ranks(by_rank: Floats, begin: Integer, end: Integer) -> tuple[float, float]:
    """Return the mean discount of the ranks begin..end, and the mean |D_r - D_q| of two of them.

    Ranks start at 0. The discounts `by_rank` decrease and are 0 from its end on.
    """
    count = end - begin
    last = by_rank[end - 1] if end <= by_rank.size else 0.0
    if by_rank[begin] == last:
        return last, 0.0
    total, gap = 0.0, 0.0
    for rank in range(begin, end if end < by_rank.size else by_rank.size):
        total += by_rank[rank]
        gap += (count - 1 - 2 * (rank - begin)) * by_rank[rank]
    return total / count, 2.0 * gap / (count * (count - 1.0))


@njit(cache=True, nogil=True)
def predict_codes(
    low: int, high: int, codes: Bytes, feature: Integers, left_codes: Flags, child: Integers,
    value: Floats, values: Floats,
) -> None:  # fmt: skip
    """Write the leaf values of rows low..high, found by descending a tree.

    `codes` has one row for each feature; `left_codes` says whether each code goes left.
    """
    for row in range(low, high):
        node = np.int64(0)
        while node >= 0:
            left = left_codes[node, codes[feature[node], row]]
            node = child[0 if left else 1, node]
        values[row] = value[-1 - node]
