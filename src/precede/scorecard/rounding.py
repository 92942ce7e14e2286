"""What rounding does to an order: pairs reversed, tied and split, without listing them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from precede.engine.arrays import Floats, Integers
from precede.judgments import check_column, check_labels

__all__ = ["OrderChanges", "order_changes"]


@dataclass(frozen=True)
class OrderChanges:
    """How the order of pairs of rows changes from one score to another.

    Attributes
    ----------
    pairs : number of pairs (of different labels, if labels were given)
    reversed : pairs in the opposite order
    tied : pairs in some order that are tied now
    split : tied pairs that are in some order now
    """

    pairs: int
    reversed: int
    tied: int
    split: int

    @property
    def changed(self) -> int:
        """All of them."""
        return self.reversed + self.tied + self.split

    def __str__(self) -> str:
        share = self.changed / self.pairs if self.pairs else 0.0
        return (
            f"{self.changed:,} of {self.pairs:,} pairs ({share:.2%}) change order: "
            f"{self.reversed:,} reversed, {self.tied:,} tied, {self.split:,} split"
        )


def order_changes(before: Any, after: Any, y: Any = None) -> OrderChanges:
    """Count the pairs of rows whose order differs between two scores, exactly.

    With labels `y` only pairs of different labels count. O(n log n) for each label.

    Examples
    --------
    >>> order_changes([1.4, 1.3, 0.2, 0.2], [1, 1, 0, 1])
    OrderChanges(pairs=6, reversed=0, tied=3, split=1)
    """
    one = check_column(before, "before", infinite=True, empty=True)
    other = check_column(after, "after", one.size, infinite=True, empty=True)
    total = _changes(one, other)
    if y is not None:
        labels = check_labels(y, "y", one.size)
        for label in np.unique(labels):
            total = total - _changes(one[labels == label], other[labels == label])
    return OrderChanges(*map(int, total))


def _changes(one: Floats, other: Floats) -> Integers:
    """Pairs in all, reversed, tied and split."""
    order = np.lexsort((other, one))
    _, group = np.unique(one[order], return_inverse=True)
    _, row = np.unique(other[order], return_inverse=True)
    size = int(row.max(initial=0)) + 1
    counts = np.zeros(3, np.int64)
    _count(group.astype(np.int64), row.astype(np.int64), np.zeros(size + 1, np.int64), counts)
    return np.concatenate([[one.size * (one.size - 1) // 2], counts])


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _count(group: Integers, rank: Integers, tree: Integers, counts: Integers) -> None:
    """Rows in rising order of the first score; `tree` holds how many rows below have each rank.

    A binary indexed tree: entry k is the sum over the ranks of one block that ends at k.
    """
    first = 0
    while first < group.size:
        last = first
        while last < group.size and group[last] == group[first]:
            last += 1
        for row in range(first, last):
            upto = 0  # rows below whose rank is at most that of this one
            k = rank[row] + 1
            while k > 0:
                upto += tree[k]
                k -= k & -k
            under = 0
            k = rank[row]
            while k > 0:
                under += tree[k]
                k -= k & -k
            counts[0] += first - upto
            counts[1] += upto - under
        run = first
        for row in range(first, last):  # in a group rows are in the order of their ranks
            if rank[row] != rank[run]:
                run = row
            counts[2] += run - first
        for row in range(first, last):
            k = rank[row] + 1
            while k < tree.size:
                tree[k] += 1
                k += k & -k
        first = last
