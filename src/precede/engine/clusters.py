"""Sums over clusters of the squares of their scores, exact in any order.

The scores of a vote are s for an item a, −s for an item b and some numbers that every vote has.
The scores of a cluster, a vector z, are sums over its votes. `squares_of_clusters` returns the sum
of z zᵀ over all clusters. Scores are added as whole multiples of a power of two, and so are the
products: the result depends neither on the order of the votes nor on the number of threads.
"""

from __future__ import annotations

import math

import numpy as np

from precede.engine.arrays import Flags, Floats, Integers
from precede.engine.compiling import INNER, njit
from precede.engine.exact import sums_at
from precede.engine.execution import Context, threads_for

BITS = 51  # of the sum of a score over a cluster, exact as a floating-point number
PRODUCT_BITS = 61  # of the sum of their products


def squares_of_clusters(
    number: Integers, items: tuple[Integers, Integers], kind: Integers, table: Floats, n: int,
    weight: Floats | None = None, n_jobs: int | None = None,
) -> Floats:  # fmt: skip
    """Return the sum of z zᵀ over all clusters, for n items and then the further scores.

    Parameters
    ----------
    number : cluster of each vote, from 0
    items : items a and b of each kind of votes
    kind : kind of each vote
    table : the score s and the further scores of each kind of votes
    n : number of items
    weight : weight of each vote, optional
    n_jobs : number of threads

    Examples
    --------
    >>> import numpy as np
    >>> one = np.zeros(2, np.int64)
    >>> squares_of_clusters(one, (one[:1], one[:1] + 1), one, np.array([[0.5]]), 2).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    size = int(number.max(initial=-1)) + 1
    votes = np.bincount(number, minlength=size)
    mass = votes.astype(np.float64) if weight is None else sums_at(number, weight, size)
    most, top = float(mass.max()), np.abs(table).max(axis=0)
    unit = np.array([BITS - math.frexp(most * each)[1] if each else 0 for each in top])
    rest = 1 + 2 * BITS - PRODUCT_BITS + math.frexp(float(((mass / most) ** 2).sum()))[1]
    starts = np.append(0, np.cumsum(votes))
    order = _grouped(number, starts[:-1].copy())
    given = np.zeros(0) if weight is None else weight
    arrays = (starts, order, kind, given, np.ldexp(table, unit), *items, n)
    with Context(n_jobs) as context:
        parts = context.map(_add_squares, size, *arrays, math.ldexp(1.0, -rest),
                            threads=threads_for("pairs", len(number)))  # fmt: skip
    whole = np.sum(parts, axis=0)
    whole = whole + whole.T - np.diag(np.diag(whole))
    power = np.concatenate([np.full(n, unit[0]), unit[1:]])
    return np.ldexp(whole.astype(np.float64), rest - power[:, None] - power[None, :])


@njit(cache=True, nogil=True)
def _grouped(number: Integers, at: Integers) -> Integers:
    """Return the votes sorted by cluster; `at` is where each cluster begins."""
    order = np.empty(number.size, np.int64)
    for vote in range(number.size):
        order[at[number[vote]]] = vote
        at[number[vote]] += 1
    return order


@njit(cache=True, nogil=True)
def _add_squares(
    low: int, high: int, starts: Integers, order: Integers, kind: Integers, weight: Floats,
    table: Floats, a: Integers, b: Integers, n: int, scale: float,
) -> Integers:  # fmt: skip
    """Return the sum of squares of the scores of clusters low to high.

    The scores of a cluster are whole numbers, and so are their products times `scale`, rounded. A
    product of two different scores is added on either side of the diagonal.
    """
    size = n + table.shape[1] - 1
    sums = np.empty((size, size), np.int64)
    sums[:] = 0
    scores = np.empty(size, np.float64)
    scores[:] = 0.0
    used = np.empty(size, np.int64)
    is_used = np.empty(size, np.bool_)
    is_used[:] = False
    for cluster in range(low, high):
        votes = order[starts[cluster] : starts[cluster + 1]]
        count = _add_scores(votes, kind, weight, table, a, b, n, scores, used, is_used)
        for first in range(count):
            row = used[first]
            score, line = scores[row] * scale, sums[row]
            for second in range(first, count):
                line[used[second]] += np.int64(np.rint(score * scores[used[second]]))
        for first in range(count):
            scores[used[first]] = 0.0
            is_used[used[first]] = False
    return sums


@njit(**INNER)
def _add_scores(
    votes: Integers, kind: Integers, weight: Floats, table: Floats, a: Integers, b: Integers,
    n: int, scores: Floats, used: Integers, is_used: Flags,
) -> int:  # fmt: skip
    """Add the scores of some votes to `scores`; list where in `used`, and return how many."""
    count = 0
    for vote in votes:
        times = weight[vote] if weight.size else 1.0
        which = kind[vote]
        score = np.rint(table[which, 0] * times)
        scores[a[which]] += score
        scores[b[which]] -= score
        for item in (a[which], b[which]):
            if not is_used[item]:
                is_used[item] = True
                used[count] = item
                count += 1
        for column in range(n, scores.size):
            scores[column] += np.rint(table[which, column - n + 1] * times)
    if votes.size:
        for column in range(n, scores.size):
            used[count] = column
            count += 1
    return count
