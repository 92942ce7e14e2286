"""Changes of order between two scores, counted in O(n log n): pairs reversed, tied and split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from precede.engine.arrays import Floats, Integers
from precede.engine.compiling import njit
from precede.judgments import check_column, check_labels


@dataclass(frozen=True)
class OrderChanges:
    """Number of pairs of rows whose order differs between two scores.

    Attributes
    ----------
    pairs : number of pairs (with different labels, if labels were given)
    reversed : pairs in opposite orders
    tied : ordered pairs that became tied
    split : tied pairs that became ordered
    """

    pairs: int
    reversed: int
    tied: int
    split: int

    @property
    def changed(self) -> int:
        """Number of pairs whose order changed in any way."""
        return self.reversed + self.tied + self.split

    def __str__(self) -> str:
        share = self.changed / self.pairs if self.pairs else 0.0
        return (
            f"{self.changed:,} of {self.pairs:,} pairs ({share:.2%}) change order: "
            f"{self.reversed:,} reversed, {self.tied:,} tied, {self.split:,} split"
        )


def order_changes(before: Any, after: Any, y: Any = None) -> OrderChanges:
    """Count the pairs of rows whose order differs between two scores, exactly.

    With labels `y` only pairs with different labels are counted. O(n log n) per label.

    Examples
    --------
    >>> order_changes([1.4, 1.3, 0.2, 0.2], [1, 1, 0, 1])
    OrderChanges(pairs=6, reversed=0, tied=3, split=1)
    """
    old = check_column(before, "before", infinite=True, empty=True)
    new = check_column(after, "after", old.size, infinite=True, empty=True)
    total = _changes(old, new)
    if y is not None:
        labels = check_labels(y, "y", old.size)
        for label in np.unique(labels):
            total = total - _changes(old[labels == label], new[labels == label])
    return OrderChanges(*map(int, total))


def _changes(old: Floats, new: Floats) -> Integers:
    """Return the number of all pairs, and of reversed, tied and split pairs."""
    order = np.lexsort((new, old))
    _, group = np.unique(old[order], return_inverse=True)
    _, rank = np.unique(new[order], return_inverse=True)
    size = int(rank.max(initial=0)) + 1
    counts = np.zeros(3, np.int64)
    _count(group.astype(np.int64), rank.astype(np.int64), np.zeros(size + 1, np.int64), counts)
    return np.concatenate([[old.size * (old.size - 1) // 2], counts])


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _count(group: Integers, rank: Integers, tree: Integers, counts: Integers) -> None:
    """Count reversed, tied and split pairs.

    Rows are sorted by the old score (equal ones have the same `group`), then by the new one, whose
    rank is `rank`. `tree` is a Fenwick tree of the ranks of the rows of lower groups.
    """
    first = 0
    while first < group.size:
        last = first
        while last < group.size and group[last] == group[first]:
            last += 1
        for row in range(first, last):
            at_most = 0  # rows of lower groups whose rank is at most that of this row
            k = rank[row] + 1
            while k > 0:
                at_most += tree[k]
                k -= k & -k
            below = 0
            k = rank[row]
            while k > 0:
                below += tree[k]
                k -= k & -k
            counts[0] += first - at_most
            counts[1] += at_most - below
        first_tied = first
        for row in range(first, last):  # rows of a group are sorted by rank
            if rank[row] != rank[first_tied]:
                first_tied = row
            counts[2] += first_tied - first
        for row in range(first, last):
            k = rank[row] + 1
            while k < tree.size:
                tree[k] += 1
                k += k & -k
        first = last
