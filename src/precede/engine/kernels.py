"""Kernels that several other modules call."""

from __future__ import annotations

import numpy as np

from precede.engine.arrays import Array, Bytes, Flags, Floats, Integer, Integers
from precede.engine.compiling import INNER, njit


@njit(**INNER)
def add_to_fenwick_tree(tree: Floats, node: Integer, amount: float) -> None:
    """Add an amount to a node, counted from 1, of a Fenwick tree."""
    while node < tree.size:
        tree[node] += amount
        node += node & -node


@njit(**INNER)
def sum_of_fenwick_tree(tree: Array, node: Integer) -> float:
    """Return the sum of the amounts added to nodes 1, ..., `node`."""
    total = tree[0]  # always 0
    while node > 0:
        total += tree[node]
        node -= node & -node
    return total


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
