"""The covariance of strengths when votes depend on each other."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy.sparse

from precede.engine.arrays import Floats, Integers
from precede.engine.clusters import squares_of_clusters
from precede.leaderboard.likelihood import Fit, Information
from precede.votes import Counts


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
    bread, table = information.inverse(), _score_table(counts, fit)
    alone = bread @ _meat_of_votes(counts, table, fit.theta.size) @ bread
    fisher, base = (_trace(each, fit.theta.size) for each in (bread, alone))
    if not clusters:
        return Covariance((alone + alone.T) / 2, math.inf, base / fisher if fisher else 1.0)
    units, total = list(clusters.values()), np.zeros_like(bread)
    if len(units) == 2:
        units.append(units[0] * (int(units[1].max(initial=0)) + 1) + units[1])
    sizes = []
    for kind, number in enumerate(units):
        size = int((np.bincount(number) > 0).sum())
        meat = squares_of_clusters(
            number, (counts.a[counts.row // 3], counts.b[counts.row // 3]), counts.kind,
            table[counts.row], fit.theta.size, weight, n_jobs,
        )  # fmt: skip
        total += (-1 if kind == 2 else 1) * size / max(size - 1, 1) * meat
        sizes.append(size)
    fewest = min(sizes)
    found = bread @ total @ bread
    spread = _trace(found, fit.theta.size) / base if base else 1.0
    share = len(bread) / (len(bread) + fewest)
    found = (1 - share) * found + share * max(spread, 1.0) * alone
    found = _positive(found) if len(units) > 2 else (found + found.T) / 2
    return Covariance(found, float(max(fewest - 1, 1)), spread * base / fisher)


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


def _meat_of_votes(counts: Counts, table: Floats, n: int) -> Floats:
    """Return the sum over votes of the squares of their scores."""
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


def _positive(matrix: Floats) -> Floats:
    """Return the nearest symmetric matrix without negative eigenvalues."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    if values[0] < 0:
        matrix = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return (matrix + matrix.T) / 2
