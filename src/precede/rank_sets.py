"""What strengths and their covariance say of ranks.

All statements about ranks hold together with the level given. The differences of all pairs of
items are studentized, and their largest has a critical value c that a Gaussian multiplier bootstrap
finds (Fan, Lou, Wang, Yu, arXiv 2211.11957): multipliers N(0, 1) of the clusters' scores are draws
from the normal distribution with the sandwich covariance. Item i is *surely above* j if
θ_i − θ_j > c · se(θ_i − θ_j). As standard errors of differences obey the triangle inequality, this
is a partial order. At least as many items are above an item as are surely above it, and the same
below, which bounds its rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components, shortest_path
from scipy.special import ndtr, stdtrit

from precede.engine.arrays import Flags, Floats, Integers
from precede.engine.parameters import upper_tail
from precede.results import Result

DRAWS = 4000  # of the multiplier bootstrap; fewer of many items
MOST_CELLS = 1 << 30  # draws times pairs of items


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
        normal = rng.standard_normal((draws, n)) @ root
        found = np.empty(draws)
        at_once = max(1, (1 << 18) // n**2)
        for first in range(0, draws, at_once):
            z = normal[first : first + at_once]
            gaps = (z[:, :, None] - z[:, None, :]) * inverse
            found[first : first + at_once] = gaps.max(axis=(1, 2))
        if np.isfinite(self.degrees):
            found *= np.sqrt(self.degrees / rng.chisquare(self.degrees, draws))
        return np.sort(found)

    @cached_property
    def order(self) -> Integers:
        """The items by decreasing strength; items of unknown strength come last."""
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


@dataclass(frozen=True)
class Transitivity(Result):
    """A test of whether the pairs can be put in one order at all.

    `p_value` is the least level at which the majorities that are significant, all pairs together,
    form a cycle; `cycle` lists its items, each of which beats the next, and the last the first.
    `n_cycles` of `n_triangles` of items that were all compared have cyclic majorities, which
    chance alone often produces.
    """

    n_pairs: int
    n_triangles: int
    n_cycles: int
    p_value: float
    cycle: tuple[str, ...]

    def __str__(self) -> str:
        text = f"{self.n_cycles} of {self.n_triangles} triples of items have cyclic majorities; "
        if not self.cycle:
            return text + "there is no cycle at any level"
        cycle = " > ".join([*self.cycle, self.cycle[0]])
        return text + f"the most significant cycle has p = {self.p_value:.3g}: {cycle}"


def cyclic_majorities(
    won: Integers, ratio: Floats, pairs: int, items: Sequence[str]
) -> Transitivity:
    """Look for cycles of majorities.

    `won` has rows (winner, loser), one for each pair of items with a majority, `ratio` is its size
    in standard errors, and `pairs` the number of pairs that were compared: by Bonferroni's
    inequality they hold together.
    """
    n, (upper, lower) = len(items), won.T
    majority = np.zeros((n, n))
    majority[upper, lower] = 1
    compared = majority + majority.T
    triangles, cycles = (np.trace(each @ each @ each) for each in (compared, majority))
    p_value, cycle = 1.0, []
    order = np.argsort(-ratio, kind="stable")
    if _is_cyclic(won, n):
        low, high = 0, order.size  # how many of the first majorities have no cycle, and have one
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if _is_cyclic(won[order[:middle]], n) else (middle, high)
        p_value = min(1.0, float(2 * pairs * ndtr(-ratio[order[high - 1]])))
        cycle = _closed(won[order[: high - 1]], won[order[high - 1]], n)
    return Transitivity(
        pairs,
        round(triangles / 6),
        round(cycles / 3),
        p_value,
        tuple(items[each] for each in cycle),
    )


def _graph(won: Integers, n: int) -> scipy.sparse.csr_matrix:
    return scipy.sparse.csr_matrix((np.ones(len(won)), (won[:, 0], won[:, 1])), (n, n))


def _is_cyclic(won: Integers, n: int) -> bool:
    return bool(connected_components(_graph(won, n), connection="strong")[0] < n)


def _closed(won: Integers, last: Integers, n: int) -> list[int]:
    """Return the shortest cycle that the last majority closes."""
    first, item = (int(each) for each in last)
    before = shortest_path(_graph(won, n), unweighted=True, indices=item, return_predecessors=True)[
        1
    ]
    path, at = [], first
    while at != item:
        path.append(at)
        at = int(before[at])
    return [first, item, *path[:0:-1]]


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
