"""The interface between a risk and the search for weak rankers.

A risk provides its negative gradient with respect to the scores, the *pull*, and on demand a
quadratic model ``R(s + g) <= R(s) - sum pull_i g_i + sum weight_i g_i² / 2`` with a diagonal upper
bound `weight` of the Hessian. Up to a constant this is the weighted squared error
``sum weight_i (pull_i / weight_i - g_i)² / 2``, so any least-squares learner decreases any risk
(Zheng et al. 2007, section 2). RS09 is Rudin and Schapire (2009).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from precede.engine.arrays import Array, Floats, Integers
from precede.engine.backend import CPU
from precede.engine.exact import exact_sum
from precede.engine.execution import Context

HESSIANS = ("newton", "bound", "terms", "uniform")
# Hessians are clipped below at this share of their mean: confidently ordered pairs have a near-zero
# Hessian, and pull / Hessian must stay bounded.
MIN_HESSIAN_SHARE = 1e-6
# With a larger edge all pairs are ordered correctly, up to rounding: the exact step is infinite.
PERFECT_EDGE = 1 - 1e-15


@dataclass(frozen=True)
class Pull:
    """The negative gradient of a risk with respect to the scores, and its Hessian.

    Both are divided by the gradient sum, see `precede.risks.base`.

    Attributes
    ----------
    values : pull on each row; the pulls of the winners of all pairs sum to 1
    item_weight : weight of each row; an item of weight 2 counts as two items
    curvature : function that returns the diagonal Hessian of a kind ("newton", "bound", "terms")
        over the gradient sum, or None if the risk has none
    pair_counts : function that returns the number of pairs of each row
    query_start : first row of each query, and the end of the last; later rows are in no query
    context : threads and other machines
    queries_span_machines : whether queries are distributed over several machines
    item_total : function that returns the sum of `item_weight` over all machines, if known
    """

    values: Floats
    item_weight: Floats
    curvature: Callable[[str], Floats | None]
    pair_counts: Callable[[], Floats]
    query_start: Integers
    context: Context
    queries_span_machines: bool = False
    item_total: Callable[[], float] | None = None

    def edge(self, values: Array) -> float:
        """Return the edge of a weak ranker: minus the slope of the risk over the gradient sum."""
        return exact_sum(self.values * values, self.context)

    @property
    def n_items(self) -> float:
        """Number of items on all machines: the total item weight."""
        if self.item_total is not None:
            return self.item_total()
        return exact_sum(self.item_weight, self.context)

    def hessian(self, kind: str) -> Floats:
        """Return the diagonal Hessian of a quadratic model of the risk, over the gradient sum.

        * ``"newton"``: the diagonal of the Hessian.
        * ``"bound"``: a diagonal upper bound of the Hessian. A pair of curvature c adds
          ``[[c, -c], [-c, c]]``, which is at most ``diag(2c, 2c)``. It holds for all scores with a
          linear price and a loss with `most_curvature`, otherwise at the current scores.
        * ``"terms"``: c instead of 2c, which is half of "bound" for a risk of pairs alone, as in
          algorithm 2 of Zheng et al.: the target of a violated pair is its whole shortfall.
        * ``"uniform"``: the item weight, as in Friedman's gradient boosting, times the mean pull,
          so that targets are of size 1. Also used for risks without curvature.

        O(n), in addition to `curvature`.
        """
        if kind not in HESSIANS:
            raise ValueError(f"hessian={kind!r} is unknown; use one of {HESSIANS}")
        weight = None if kind == "uniform" else self.curvature(kind)
        mean = 0.0 if weight is None else exact_sum(weight, self.context) / self.n_items
        if weight is None or not 0 < mean < np.inf:
            total = exact_sum(np.abs(self.values), self.context)
            return self.item_weight * (total / self.n_items)
        backend = self.context.backend if self.context.backend.holds(weight) else CPU
        return backend.at_least(weight, self.item_weight, MIN_HESSIAN_SHARE * mean, self.context)


@dataclass(frozen=True)
class Factors:
    """Input of a search by largest decrease of the risk (RS09 eq. 5).

    The gradient of a pair is a product of one factor per row, so sums by level suffice.

    Attributes
    ----------
    level_start, query_start : see `QueryLayout`
    terms, levels, pair_mass : see `precede.risks.by_level.SeparableCache`
    pairs : winners (row 0) and losers (row 1) of the explicit pairs
    smoothing : smoothing weight of a step that would be infinite
    bound : whether the step minimizes the upper bound instead of the risk
    decrease : function that returns the edge of a weak ranker, given its values, and the relative
        decrease of the risk by its step
    """

    level_start: Integers
    query_start: Integers
    terms: Floats
    levels: Floats
    pairs: Integers
    pair_mass: Floats
    smoothing: float
    bound: bool
    decrease: Callable[[Array], tuple[float, float]]


def decreases(
    correct: Floats | float, wrong: Floats | float, smoothing: float, *, bound: bool = False
) -> Floats:
    """Return the relative decrease of the exponential risk by the step along a two-valued ranker.

    The exact step multiplies the risk by ``d0 + 2 sqrt(d+ d-)``, where d+ = `correct`,
    d- = `wrong` and d0 are the weights of the pairs it orders correctly, wrongly and not at all. So
    the decrease is ``(sqrt(d+) - sqrt(d-))²`` (RS09 eq. 5). If one weight is 0, the step is
    smoothed by the weight e, and the other weight d decreases by ``d (1 - sqrt(e / (d + e)))``.
    With `bound` the step is ``log((1 + r) / (1 - r)) / 2`` for the edge r.

    >>> float(decreases(0.5, 0.5, 0.01)), round(float(decreases(0.75, 0.0, 0.25)), 9)
    (0.0, 0.375)
    """
    larger, smaller = np.maximum(correct, wrong), np.minimum(correct, wrong)
    if bound:
        edge = larger - smaller
        extra = np.where(edge >= PERFECT_EDGE, 2 * smoothing, 0.0)
        factor = np.sqrt((1 - edge + extra) / (1 + edge + extra))  # exp(-step)
        return 2 * edge / (1 + edge + extra) / (1 + factor) * (larger - smaller / factor)
    exact = (np.sqrt(larger) - np.sqrt(np.maximum(smaller, 0.0))) ** 2
    factor = np.sqrt(smoothing / (larger + smoothing))
    # larger * (1 - factor), without cancellation
    return np.where(smaller > 0, exact, larger * (larger / (larger + smoothing)) / (1.0 + factor))
