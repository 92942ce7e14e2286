"""The terms of a risk: the pairs of a layout, their number, weights and margins."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from precede.engine.arrays import Array, BackendArray, Floats, Integers
from precede.engine.compiling import njit
from precede.engine.exact import all_reduce_max, sums_at
from precede.engine.execution import Context
from precede.engine.portable import fmax, fmin, log_of
from precede.engine.query_layout import QueryLayout


@dataclass(frozen=True)
class PairTerms:
    """The pairs of a layout, as step rules see them: their number and their margins."""

    layout: QueryLayout
    context: Context

    @property
    def smoothing(self) -> float:
        """Weight added to d+ and d- to keep a step finite: half a pair.

        Pairs are counted by weight: a row of weight 2 counts as two rows. The alternatives
        (halting, an infinite weight, a large constant) all break the theory (Connamacher et al.
        2019, appendix B).
        """
        return 0.5 / self.layout.pair_count

    @property
    def final_margin(self) -> float:
        """Least margin after the last step of a fit that ends with every pair in order.

        ``log(1 + 1/e)`` with e the smoothing weight: more than the log ratio of the sizes of two
        classes, so that the intercept (`fit_intercept`) does not outweigh it.
        """
        return log_of(1.0 + 1.0 / self.smoothing)

    def least_margin(self, values: BackendArray) -> float:
        """Return the least margin of any term when scored by the values alone. O(n)."""
        return least_margin(self.layout, self.context.backend.get(values), self.context)

    def width(self, values: Array) -> float:
        """Return the largest change of a margin by a step of 1: the range of the values."""
        extremes = all_reduce_max(
            lambda: np.array([float(values.max()), -float(values.min())]), self.context
        )
        return float(extremes[0] + extremes[1])


def pair_totals(layout: QueryLayout) -> Floats:
    """Return the total weight of the pairs of each row. O(n + explicit pairs).

    >>> from precede import Judgments
    >>> pair_totals(Judgments.bipartite([1, 0, 0]).to_layout())
    array([1., 1., 2.])
    """
    count = layout.n_graded
    total = np.zeros(layout.n_used_rows)
    if count:
        levels, level = layout.level_start.size - 1, layout.level_of_row()
        weight, loser_weight = layout.weight[:count], layout.loser_weight[:count]
        of_level = layout.loser_weights_of_levels(), layout.weights_of_levels()
        below, above = np.zeros(levels), np.zeros(levels)
        _sums_below_and_above(layout.query_start, *of_level, below, above)
        total[:count] = weight * below[level] + loser_weight * above[level]
    winner, loser = layout.winner, layout.loser
    explicit = layout.pair_weight * layout.weight[winner] * layout.loser_weight[loser]
    for side in (winner, loser):
        total += sums_at(side, explicit, total.size)
    return total


def least_margin(layout: QueryLayout, scores: Array, context: Context | None = None) -> float:
    """Return the least margin ``s_i - s_k`` of all pairs; `scores` has one for each row. O(n).

    >>> import numpy as np
    >>> from precede import Judgments
    >>> least_margin(Judgments([0, 2, 1]).to_layout(), np.array([0.0, 0.5, 2.0]))
    0.5
    """
    context = context or Context(1)
    if layout.queries_span_machines:
        low, high = level_extrema(layout, scores, context)
        return float((low[1:] - np.maximum.accumulate(high)[:-1]).min())
    pairs = layout.level_start, layout.query_start, layout.winner, layout.loser
    return -float(all_reduce_max(lambda: -_least_margin(*pairs, scores), context))


def level_extrema(layout: QueryLayout, values: Array, context: Context) -> tuple[Floats, Floats]:
    """Return the least and the greatest value of each level, over all machines.

    >>> import numpy as np
    >>> from precede import Judgments
    >>> level_extrema(Judgments([0, 1, 1]).to_layout(), np.array([0.5, 1.0, 3.0]), Context(1))
    (array([0.5, 1. ]), array([0.5, 3. ]))
    """

    def local_extrema() -> Floats:
        levels = [values[first:last] for first, last in pairwise(layout.level_start)]
        # A level may be empty on this machine.
        return np.array([[v.max(initial=-np.inf), -v.min(initial=np.inf)] for v in levels])

    extrema = all_reduce_max(local_extrema, context)
    return -extrema[:, 1], extrema[:, 0].copy()


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _sums_below_and_above(
    query_start: Integers, losers: Floats, winners: Floats, below: Floats, above: Floats
) -> None:
    """Sum `losers` over the levels below, and `winners` over those above, within each query."""
    for query in range(query_start.size - 1):
        first, last = query_start[query], query_start[query + 1]
        for level in range(first + 1, last):
            below[level] = below[level - 1] + losers[level - 1]
        for level in range(last - 2, first - 1, -1):
            above[level] = above[level + 1] + winners[level + 1]


@njit(cache=True, nogil=True)
def _least_margin(
    level_start: Integers, query_start: Integers, winner: Integers, loser: Integers, scores: Floats
) -> float:
    """Compare the least score of each level with the greatest score of the levels below."""
    least = np.inf
    for query in range(query_start.size - 1):
        highest = -np.inf
        for level in range(query_start[query], query_start[query + 1]):
            low, high = np.inf, -np.inf
            for row in range(level_start[level], level_start[level + 1]):
                low = fmin(low, scores[row])
                high = fmax(high, scores[row])
            least = fmin(least, low - highest)
            highest = fmax(highest, high)
    for pair in range(winner.size):
        least = fmin(least, scores[winner[pair]] - scores[loser[pair]])
    return least
