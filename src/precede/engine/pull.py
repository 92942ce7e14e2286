"""What passes from a risk to the search for weak rankers.

A risk gives the *pull* on every row, the negative of its gradient, and on demand a quadratic
model: near some scores ``R(s + g) <= R(s) - sum pull_i g_i + sum weight_i g_i² / 2`` for a
diagonal upper bound `weight` of the Hessian. Up to a constant this is the weighted squared error
``sum weight_i (pull_i / weight_i - g_i)² / 2``: any learner that fits squares lowers any risk
(Zheng et al. 2007, section 2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from precede.engine.arrays import Array, Floats, Integers
from precede.engine.exact import exact_sum
from precede.engine.execution import Context

__all__ = ["ALL_IN_ORDER", "HESSIANS", "Factors", "Pull", "decreases"]

HESSIANS = ("newton", "bound", "terms", "uniform")
# No weight is less than this share of the mean weight: a pair beyond all doubt has a slope
# but hardly a curvature, and their ratio would be a target without measure.
LEAST = 1e-6
# From this edge on no mass is reversed, but for rounding.
ALL_IN_ORDER = 1 - 1e-15


@dataclass(frozen=True)
class Pull:
    """The negative gradient of a risk, as a share of its mass, and what else it can tell.

    Attributes
    ----------
    values : the pull on every row; those of the winners of all pairs sum to 1
    item_weight : weight of every row; an item of weight 2 is two items
    curvature : function of a kind of Hessian ("newton", "bound", "terms") that gives its
        diagonal over the mass, or None where the risk has none
    terms : function that gives how many terms of the risk every row takes part in
    query_start : first row of every query, and the end of the last; rows beyond are in none
    workers : threads, and the other machines
    shared : whether other machines hold some of the rows of the queries
    item_total : function that gives the sum of `item_weight` over all machines, where that is
        known already
    """

    values: Floats
    item_weight: Floats
    curvature: Callable[[str], Floats | None]
    terms: Callable[[], Floats]
    query_start: Integers
    context: Context
    shared: bool = False
    item_total: Callable[[], float] | None = None

    def edge(self, values: Array) -> float:
        """Slope of the risk along a ranker, as a share of the mass (positive: falling)."""
        return exact_sum(self.values * values, self.context)

    @property
    def rows(self) -> float:
        """How many rows there are, an item of weight 2 being two."""
        if self.item_total is not None:
            return self.item_total()
        return exact_sum(self.item_weight, self.context)

    def hessian(self, kind: str) -> Floats:
        """Weights of a quadratic model of the risk, in units of its mass.

        ``"newton"`` is the diagonal of the Hessian. ``"bound"`` is a diagonal matrix above the
        Hessian: a pair of curvature c adds ``[[c, -c], [-c, c]]``, which is at most
        ``diag(2c, 2c)``; with a linear price and a loss that states its largest curvature
        (`most_curvature`) it holds everywhere, otherwise at these scores. ``"terms"`` counts c
        instead of 2c: for a risk of pairs alone half of "bound", and what algorithm 2 of Zheng
        et al. prints, where the target of a violated pair is its whole shortfall.
        ``"uniform"`` is the weight of the item, as in Friedman's gradient boosting, times the
        mean pull so that targets are of size 1; it stands in for the others where a risk has
        no curvature. O(n), beside the curvature of the risk.
        """
        if kind not in HESSIANS:
            raise ValueError(f"hessian={kind!r} is unknown; use one of {HESSIANS}")
        weight = None if kind == "uniform" else self.curvature(kind)
        mean = 0.0 if weight is None else exact_sum(weight, self.context) / self.rows
        if weight is None or not 0 < mean < np.inf:
            total = exact_sum(np.abs(self.values), self.context)
            return self.item_weight * (total / self.rows)
        least = LEAST * mean * self.item_weight
        return np.maximum(weight, least, out=least)


class Factors(Protocol):
    """What a search by largest decrease is told, beside the pull (RS09 eq. 5).

    Attributes
    ----------
    level_start, query_start : the runs of the layout
    terms, levels, pair_mass : masses of the rows, the levels and the listed pairs
    pairs : rows of the winners (row 0) and losers (row 1) of the listed pairs
    smoothing : the smoothing mass of a step that would be infinite
    bound : whether the step will be that of the upper bound instead of the exact one
    """

    level_start: Integers
    query_start: Integers
    terms: Floats
    levels: Floats
    pairs: Integers
    pair_mass: Floats
    smoothing: float
    bound: bool

    def decrease(self, values: Array) -> tuple[float, float]:
        """Edge of a ranker, and the share by which its step lowers the risk."""
        ...


def decreases(
    right: Floats | float, wrong: Floats | float, smoothing: float, *, bound: bool = False
) -> Floats:
    """Share by which the step along a two-valued ranker lowers the exponential risk.

    After the exact step the risk is ``d0 + 2 sqrt(d+ d-)`` of what it was, so the decrease is
    ``(sqrt(d+) - sqrt(d-))²`` (RS09 eq. 5). Where one of the masses is 0 the step is smoothed
    by the mass e, and of the other, d, the share ``1 - sqrt(e / (d + e))`` is gone. With `bound`
    it is the decrease after the step ``log((1 + r) / (1 - r)) / 2`` for the edge r.

    >>> float(decreases(0.5, 0.5, 0.01)), round(float(decreases(0.75, 0.0, 0.25)), 9)
    (0.0, 0.375)
    """
    most, least = np.maximum(right, wrong), np.minimum(right, wrong)
    if bound:
        edge = most - least
        more = np.where(edge >= ALL_IN_ORDER, 2 * smoothing, 0.0)
        left = np.sqrt((1 - edge + more) / (1 + edge + more))  # exp(-step)
        return 2 * edge / (1 + edge + more) / (1 + left) * (most - least / left)
    exact = (np.sqrt(most) - np.sqrt(np.maximum(least, 0.0))) ** 2
    left = np.sqrt(smoothing / (most + smoothing))
    # 1 - left, without cancellation
    return np.where(least > 0, exact, most * (most / (most + smoothing)) / (1.0 + left))
