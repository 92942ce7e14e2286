"""Covariance of the strengths, and what it says of ranks.

All statements about ranks hold together with the level given. The differences of all pairs of
items are studentized, and their largest has a critical value c that a Gaussian multiplier bootstrap
finds (Fan, Lou, Wang, Yu, arXiv 2211.11957): multipliers N(0, 1) of the clusters' scores are draws
from the normal distribution with the sandwich covariance. Item i is *surely above* j if
θ_i − θ_j > c · se(θ_i − θ_j). As standard errors of differences obey the triangle inequality, this
is a partial order. At least as many items are above an item as are surely above it, and the same
below, which bounds its rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse
from scipy.special import stdtrit

from precede.engine.arrays import Flags, Floats, Integers
from precede.engine.parameters import upper_tail
from precede.leaderboard.likelihood import Fit, Information
from precede.leaderboard.votes import Counts

DRAWS = 4000  # of the multiplier bootstrap; fewer of many items
MOST_CELLS = 1 << 30  # draws times pairs of items


@dataclass(frozen=True, eq=False)
class Covariance:
    """The covariance of the strengths, then of the other effects.

    `degrees` of the t distribution are one less than the number of clusters. `inflation` is how
    many dependent votes are worth one independent vote.
    """

    matrix: Floats
    degrees: float
    inflation: float


def sandwich(
    counts: Counts, fit: Fit, information: Information, clusters: Mapping[str, Integers],
    weight: Floats | None, offset: Floats | None = None,
) -> Covariance:  # fmt: skip
    """Return H⁻¹ M H⁻¹, where M sums the squares of the scores of independent units.

    The units are the votes, or clusters of them; with two kinds of clusters M is that of the one
    plus that of the other, less that of their intersections (Cameron, Gelbach, Miller, 2011).
    G clusters determine at most G − 1 directions. So with few of them the covariance is drawn
    towards that of independent votes, times the mean inflation, with the weight p / (p + G) for p
    parameters.
    """
    bread = information.inverse()
    log_odds = fit.log_odds(counts) + (0.0 if offset is None else offset)
    in_d, in_ties = fit.scores(log_odds)
    fisher = float(np.trace(bread[: fit.theta.size, : fit.theta.size]))
    alone = bread @ _meat_of_votes(counts, fit, in_d, in_ties) @ bread
    base = float(np.trace(alone[: fit.theta.size, : fit.theta.size]))
    if not clusters:
        return Covariance(alone, np.inf, base / fisher if fisher else 1.0)
    total, groups = np.zeros_like(bread), []
    for sign, number in _units(clusters):
        meat, size = _meat_of_clusters(counts, fit, (in_d, in_ties), number, weight)
        total += sign * size / max(size - 1, 1) * meat
        groups.append(size)
    fewest = min(groups)
    found = bread @ total @ bread
    spread = float(np.trace(found[: fit.theta.size, : fit.theta.size])) / base if base else 1.0
    share = len(bread) / (len(bread) + fewest)
    found = (1 - share) * found + share * max(spread, 1.0) * alone
    return Covariance(
        _positive(found), float(max(fewest - 1, 1)), max(spread, 1e-9) * base / fisher
    )


def _units(clusters: Mapping[str, Integers]) -> list[tuple[int, Integers]]:
    """Return the clusters whose meats are added and subtracted."""
    units = [(1, number) for number in clusters.values()]
    if len(units) == 2:
        (_, one), (_, other) = units
        units.append((-1, one * (int(other.max(initial=0)) + 1) + other))
    return units


def _meat_of_votes(counts: Counts, fit: Fit, in_d: Floats, in_ties: Floats) -> Floats:
    rows, which = np.nonzero(counts.weight)
    scores = _score_rows(counts, fit, rows, in_d[rows, which], in_ties[rows, which])
    weighted = scores.multiply(counts.weight[rows, which][:, None]).tocsr()
    return np.asarray((scores.T @ weighted).todense())


def _meat_of_clusters(
    counts: Counts, fit: Fit, scores: tuple[Floats, Floats], number: Integers,
    weight: Floats | None,
) -> tuple[Floats, int]:  # fmt: skip
    """Return the sum over clusters of the squares of their scores, and their number."""
    found, index = np.unique(number, return_inverse=True)
    given = np.ones(index.size) if weight is None else weight
    each = [part[counts.cell, counts.outcome] * given for part in scores]
    rows = _score_rows(counts, fit, counts.cell, *each)
    pick = scipy.sparse.csr_matrix(
        (np.ones(index.size), (index, np.arange(index.size))), shape=(found.size, index.size)
    )
    sums = (pick @ rows).tocsr()
    return np.asarray((sums.T @ sums).todense()), found.size


def _score_rows(
    counts: Counts, fit: Fit, cell: Integers, in_d: Floats, in_ties: Floats
) -> scipy.sparse.csr_matrix:
    """Return the derivatives of the log-likelihood of votes in all parameters, one row each."""
    n, rows = fit.theta.size, np.arange(cell.size)
    parts = [scipy.sparse.csr_matrix(
        (np.concatenate([in_d, -in_d]),
         (np.append(rows, rows), np.append(counts.a[cell], counts.b[cell]))),
        shape=(cell.size, n),
    )]  # fmt: skip
    if counts.design.shape[1]:
        parts.append(scipy.sparse.csr_matrix(in_d[:, None] * counts.design[cell]))
    if fit.log_ties is not None:
        parts.append(scipy.sparse.csr_matrix(in_ties[:, None]))
    return scipy.sparse.hstack(parts, format="csr")


def _positive(matrix: Floats) -> Floats:
    """Return the nearest matrix without negative eigenvalues."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    if values[0] >= 0:
        return (matrix + matrix.T) / 2
    return (vectors * np.maximum(values, 0.0)) @ vectors.T


@dataclass(frozen=True, eq=False)
class Ranks:
    """Strengths with their covariance, and all statements about their order.

    Items without a strength are infinite or NaN in `theta` and not in `covariance`. `bounds` are
    the ratios of pairs with such an item, 0 where nothing can be said.
    """

    theta: Floats
    covariance: Floats
    degrees: float
    bounds: Floats | None = None
    random_state: int = 0

    @cached_property
    def known(self) -> Integers:
        """The items with a strength."""
        return np.flatnonzero(np.isfinite(self.theta))

    @cached_property
    def errors(self) -> Floats:
        """Standard errors of the differences of the known items; 0 on the diagonal."""
        own = np.diag(self.covariance)
        return np.sqrt(np.maximum(own[:, None] + own[None, :] - 2 * self.covariance, 0.0))

    @cached_property
    def ratios(self) -> Floats:
        """Studentized differences θ_i − θ_j of all pairs of items."""
        gap = self.theta[self.known][:, None] - self.theta[self.known][None, :]
        found = np.divide(gap, self.errors, out=np.zeros_like(gap), where=self.errors > 0)
        if self.bounds is None:
            return found
        whole = self.bounds.copy()
        whole[np.ix_(self.known, self.known)] = found
        return whole

    @cached_property
    def largest(self) -> Floats:
        """Draws of the largest studentized difference, sorted."""
        n = self.known.size
        if n < 2:
            return np.zeros(1)
        draws = int(np.clip(MOST_CELLS // n**2, 200, DRAWS))
        rng = np.random.default_rng(self.random_state)
        values, vectors = np.linalg.eigh(self.covariance)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))).T
        inverse = np.divide(1.0, self.errors, out=np.zeros_like(self.errors), where=self.errors > 0)
        found = np.empty(draws)
        for draw in range(draws):
            z = rng.standard_normal(n) @ root
            found[draw] = ((z[:, None] - z[None, :]) * inverse).max()
        if np.isfinite(self.degrees):
            found *= np.sqrt(self.degrees / rng.chisquare(self.degrees, draws))
        return np.sort(found)

    @cached_property
    def order(self) -> Integers:
        """The items, the strongest first; those of which nothing is known last."""
        return np.argsort(np.where(np.isnan(self.theta), np.inf, -self.theta), kind="stable")

    def critical(self, level: float) -> float:
        """Return c: all differences are within c standard errors with this level."""
        upper_tail(level)  # raises ValueError unless it is a level
        return float(np.quantile(self.largest, level, method="higher"))

    def surely_above(self, level: float) -> Flags:
        """Return whether the item of the row is surely above that of the column."""
        above = self.ratios > self.critical(level)
        if self.bounds is None:
            return above
        steps = above.astype(np.float64)  # two items without a strength are compared by a third
        return above | (steps @ steps > 0)

    def rank_sets(self, level: float) -> tuple[Integers, Integers]:
        """Return the highest and the lowest rank of each item, from 1."""
        above = self.surely_above(level)
        high = 1 + above.sum(axis=0)
        return high, self.theta.size - above.sum(axis=1)

    def tiers(self, level: float) -> Integers:
        """Return the tier of each item: 1 if no item is surely above, else 1 below the lowest.

        Every item of a tier has an item of the tier before surely above it. Items of which nothing
        is known have tier 0.
        """
        above = self.surely_above(level)
        tier = np.ones(self.theta.size, np.int64)
        for item in self.order:  # an item above comes first
            tier[item] = 1 + tier[above[:, item]].max(initial=0)
        tier[np.isnan(self.theta)] = 0
        return tier

    def pairs_of(self, goal: str) -> tuple[Integers, Integers]:
        """Return the pairs (upper, lower) of items whose order settles a goal."""
        order = self.order
        first = first_of(goal, order.size)
        if first is None:
            upper, lower = np.triu_indices(order.size, 1)
        else:
            upper = np.repeat(np.arange(first), order.size - first)
            lower = np.tile(np.arange(first, order.size), first)
        return order[upper], order[lower]

    def confidence(self, goal: str) -> float:
        """Return the largest level with which a goal is settled, 0 if there is none."""
        upper, lower = self.pairs_of(goal)
        if not upper.size:
            return 1.0
        least = self.ratios[upper, lower].min()
        return float(np.searchsorted(self.largest, least)) / self.largest.size

    def half_width(self, level: float) -> float:
        """Return how many standard errors an interval of one strength reaches to each side."""
        return float(stdtrit(self.degrees, 1 - upper_tail(level)))


def first_of(goal: str, items: int) -> int | None:
    """Return how many first items a goal sets apart; None for the whole order.

    >>> first_of("first", 9), first_of("top@5", 9), first_of("order", 9)
    (1, 5, None)
    """
    if goal == "first":
        return min(1, items)
    if goal == "order":
        return None
    kind, _, number = str(goal).partition("@")
    if kind != "top" or not number.isdigit() or not int(number):
        raise ValueError(f"goal={goal!r} is unknown; use 'first', 'top@5' (any number) or 'order'")
    return min(int(number), items)
