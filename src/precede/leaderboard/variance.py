"""The covariance of strengths when votes depend on each other."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy.sparse

from precede.engine.arrays import Floats, Integers
from precede.engine.compiling import njit
from precede.engine.exact import sums_at
from precede.engine.execution import Context, threads_for
from precede.leaderboard.likelihood import Fit, Information
from precede.leaderboard.votes import Counts

BITS = 51  # of the sum of a score over a cluster, exact as a floating-point number
PRODUCT_BITS = 61  # of the sum of their products


@dataclass(frozen=True, eq=False)
class Covariance:
    """The covariance of the strengths, then of the other effects.

    `degrees` of the t distribution are one less than the number of clusters. `inflation` is how
    many votes are worth one independent vote.
    """

    matrix: Floats
    degrees: float
    inflation: float


def sandwich(
    counts: Counts, fit: Fit, information: Information, clusters: Mapping[str, Integers],
    weight: Floats | None = None, n_jobs: int | None = None,
) -> Covariance:  # fmt: skip
    """Return H⁻¹ M H⁻¹, where M sums the squares of the scores of independent units.

    The units are the votes, or clusters of them; with two kinds of clusters M is that of the one
    plus that of the other, less that of their intersections (Cameron, Gelbach, Miller, 2011).
    G clusters determine at most G − 1 directions. So with few of them the covariance is drawn
    towards that of independent votes times the mean inflation, with the weight p / (p + G) for p
    parameters.
    """
    bread = information.inverse()
    alone = bread @ _meat_of_votes(counts, fit) @ bread
    fisher, base = (_trace(each, fit.theta.size) for each in (bread, alone))
    if not clusters:
        return Covariance(alone, math.inf, base / fisher if fisher else 1.0)
    units, total = list(clusters.values()), np.zeros_like(bread)
    if len(units) == 2:
        units.append(units[0] * (int(units[1].max(initial=0)) + 1) + units[1])
    sizes = []
    for kind, number in enumerate(units):
        meat, size = meat_of_clusters(counts, fit, number, weight, n_jobs)
        total += (-1 if kind == 2 else 1) * size / max(size - 1, 1) * meat
        sizes.append(size)
    fewest = min(sizes)
    found = bread @ total @ bread
    spread = _trace(found, fit.theta.size) / base if base else 1.0
    share = len(bread) / (len(bread) + fewest)
    found = (1 - share) * found + share * max(spread, 1.0) * alone
    return Covariance(_positive(found), float(max(fewest - 1, 1)), spread * base / fisher)


def _trace(matrix: Floats, size: int) -> float:
    return float(np.trace(matrix[:size, :size]))


def _score_table(counts: Counts, fit: Fit) -> Floats:
    """Return the score in d, in the columns of the design and in log ν, by comparison and outcome.

    The score in the strengths is that in d for a, and minus it for b.
    """
    in_d, in_ties = fit.scores(fit.log_odds(counts))
    columns = [in_d, *(in_d * column[:, None] for column in counts.design.T)]
    columns += [] if fit.log_ties is None else [in_ties]
    return np.stack(columns, axis=-1).reshape(-1, len(columns))


def _meat_of_votes(counts: Counts, fit: Fit) -> Floats:
    """Return the sum over votes of the squares of their scores."""
    n, table = fit.theta.size, _score_table(counts, fit)
    seen = np.flatnonzero(counts.weight.ravel())
    cell, rows = seen // 3, np.arange(seen.size)
    scores = scipy.sparse.hstack([
        scipy.sparse.csr_matrix(
            (np.concatenate([table[seen, 0], -table[seen, 0]]),
             (np.append(rows, rows), np.append(counts.a[cell], counts.b[cell]))),
            shape=(seen.size, n),
        ),
        scipy.sparse.csr_matrix(table[seen, 1:]),
    ], format="csr")  # fmt: skip
    weighted = scores.multiply(counts.weight.ravel()[seen, None]).tocsr()
    return np.asarray((scores.T @ weighted).todense())


def meat_of_clusters(
    counts: Counts, fit: Fit, number: Integers, weight: Floats | None, n_jobs: int | None = None
) -> tuple[Floats, int]:
    """Return the sum over clusters of the squares of their scores, and the number of clusters.

    Scores are added as whole multiples of a power of two, and so are their products: the result
    depends neither on the order of the votes nor on the number of threads.
    """
    size, n, table = int(number.max(initial=-1)) + 1, fit.theta.size, _score_table(counts, fit)
    votes = np.bincount(number, minlength=size)
    mass = votes.astype(np.float64) if weight is None else sums_at(number, weight, size)
    most = float(mass.max())
    top = np.abs(table).max(axis=0)
    unit = np.array([BITS - math.frexp(most * each)[1] if each else 0 for each in top])
    rest = 1 + 2 * BITS - PRODUCT_BITS + math.frexp(float(((mass / most) ** 2).sum()))[1]
    starts = np.append(0, np.cumsum(votes))
    order = _grouped(number, starts[:-1].copy())
    outcome = 3 * counts.cell + counts.outcome
    given = np.zeros(0) if weight is None else weight
    arrays = (starts, order, outcome, given, np.ldexp(table, unit), counts.a, counts.b, n)
    with Context(n_jobs) as context:
        parts = context.run(_add_squares, size, *arrays, math.ldexp(1.0, -rest),
                            threads=threads_for("pairs", len(number)))  # fmt: skip
    whole = np.sum(parts, axis=0)
    whole = whole + whole.T - np.diag(np.diag(whole))
    power = np.concatenate([np.full(n, unit[0]), unit[1:]])
    meat = np.ldexp(whole.astype(np.float64), rest - power[:, None] - power[None, :])
    return meat, int((votes > 0).sum())


def _positive(matrix: Floats) -> Floats:
    """Return the nearest matrix without negative eigenvalues."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    if values[0] >= 0:
        return (matrix + matrix.T) / 2
    return (vectors * np.maximum(values, 0.0)) @ vectors.T


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
    low: int, high: int, starts: Integers, order: Integers, outcome: Integers, weight: Floats,
    table: Floats, a: Integers, b: Integers, n: int, scale: float,
) -> Integers:  # fmt: skip
    """Return the sum of squares of the scores of clusters low to high.

    The scores of a cluster are whole numbers, and so are their products times `scale`, rounded. A
    product of two different scores is added on either side of the diagonal.
    """
    size = n + table.shape[1] - 1
    sums = np.empty((size, size), np.int64)
    sums[:] = 0
    work = np.empty(size, np.float64)
    work[:] = 0.0
    is_used = np.empty(size, np.bool_)
    is_used[:] = False
    used = np.empty(size, np.int64)
    for cluster in range(low, high):
        count = 0
        for at in range(starts[cluster], starts[cluster + 1]):
            vote = order[at]
            times = weight[vote] if weight.size else 1.0
            which = outcome[vote]
            one, other = a[which // 3], b[which // 3]
            score = np.rint(table[which, 0] * times)
            work[one] += score
            work[other] -= score
            if not is_used[one]:
                is_used[one] = True
                used[count] = one
                count += 1
            if not is_used[other]:
                is_used[other] = True
                used[count] = other
                count += 1
            for column in range(n, size):
                work[column] += np.rint(table[which, column - n + 1] * times)
        if starts[cluster + 1] > starts[cluster]:
            for column in range(n, size):
                used[count] = column
                count += 1
        for first in range(count):
            row = used[first]
            left, line = work[row] * scale, sums[row]
            for second in range(first, count):
                column = used[second]
                line[column] += np.int64(np.rint(left * work[column]))
        for first in range(count):
            work[used[first]] = 0.0
            is_used[used[first]] = False
    return sums
