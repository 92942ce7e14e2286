"""Quadratic models of a risk: the targets and weights that a regression learner is given.

Near some scores, ``R(s + g) <= R(s) - sum pull_i g_i + sum weight_i g_i² / 2`` for a diagonal
upper bound `weight` of the second derivative. Up to a constant this is the weighted squared
error ``sum weight_i (pull_i / weight_i - g_i)² / 2``: any learner that fits squares lowers
any risk (Zheng et al. 2007, section 2).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from precede.bound import BoundLossRisk, BoundRisk, Masses, State
from precede.exact import exact_sum
from precede.judgments import Arrangement, Judgments
from precede.losses import Power
from precede.threads import Workers

__all__ = [
    "HESSIANS",
    "TARGETS",
    "BoundScoreRisk",
    "ScoreRisk",
    "diagonal",
    "pair_totals",
    "places_of",
    "terms_of",
]

Floats = NDArray[np.float64]

HESSIANS = ("newton", "bound", "terms", "uniform")
TARGETS = ("sum", "average")
# No weight is less than this share of the mean weight: a pair beyond all doubt has a slope
# but hardly a curvature, and their ratio would be a target without measure.
LEAST = 1e-6


def diagonal(risk: Any, state: State, hessian: str) -> Floats:
    """Weights of a quadratic model of the risk, in units of its pair mass.

    ``"newton"`` is the diagonal of the second derivative. ``"bound"`` is a diagonal matrix
    above the second derivative: a pair of curvature c adds ``[[c, -c], [-c, c]]``, which is at
    most ``diag(2c, 2c)``; with a linear price and a loss that states its largest curvature
    (`most_curvature`) it holds everywhere, otherwise at these scores. ``"terms"`` counts c
    instead of 2c: for a risk of pairs alone half of "bound", and what algorithm 2 of Zheng et
    al. prints, where the target of a violated pair is its whole shortfall. ``"uniform"`` is the
    weight of the item, as in Friedman's gradient boosting, times the mean pull so that targets
    are of size 1; it stands in for the others where a loss has no curvature. O(n), beside the
    curvature of the risk.
    """
    if hessian not in HESSIANS:
        raise ValueError(f"hessian={hessian!r} is unknown; use one of {HESSIANS}")
    weight = None if hessian == "uniform" else _curvature(risk, state, hessian)
    item = risk.arrangement.weight
    rows = exact_sum(item, risk.workers)
    mean = 0.0 if weight is None else exact_sum(weight, risk.workers) / rows
    if weight is None or not 0 < mean < np.inf:
        return item * (exact_sum(np.abs(state.pull), risk.workers) / rows)
    return np.maximum(weight, LEAST * mean * item)


def _curvature(risk: Any, state: State, hessian: str) -> Floats | None:
    most = None
    if isinstance(risk, BoundLossRisk) and isinstance(risk.price, Power) and risk.price.power == 1:
        most = risk.loss.most_curvature
    factor = 2.0 if hessian == "bound" else 1.0
    try:
        if hessian == "newton":
            return risk.curvature(state)
        if hasattr(risk, "curvature_bound"):
            return risk.curvature_bound(state, factor)
        if most is None:
            return factor * risk.curvature(state)
    except NotImplementedError:
        return None
    return factor * most * pair_totals(risk.arrangement) * np.exp(-state.log_mass)


def pair_totals(arrangement: Arrangement) -> Floats:
    """Total weight of the pairs that every place takes part in: O(n + listed pairs).

    >>> pair_totals(Judgments.bipartite([1, 0, 0]).arrange())
    array([1., 1., 2.])
    """
    count = arrangement.n_graded
    total = np.zeros(arrangement.n_places)
    if count:
        start, levels = arrangement.level_start[:-1], arrangement.level_start.size - 1
        level = np.repeat(np.arange(levels), np.diff(arrangement.level_start))
        weight, outer = arrangement.weight[:count], arrangement.outer[:count]
        of_level = np.add.reduceat(outer, start), np.add.reduceat(weight, start)
        below, above = np.zeros(levels), np.zeros(levels)
        for first, last in zip(arrangement.query_start, arrangement.query_start[1:], strict=False):
            below[first + 1 : last] = np.cumsum(of_level[0][first : last - 1])
            above[first : last - 1] = np.cumsum(of_level[1][first + 1 : last][::-1])[::-1]
        total[:count] = weight * below[level] + outer * above[level]
    winner, loser = arrangement.winner, arrangement.loser
    listed = arrangement.pair_weight * arrangement.weight[winner] * arrangement.outer[loser]
    for side in (winner, loser):
        total += np.bincount(side, listed, minlength=total.size)
    return total


def terms_of(risk: Any) -> Floats:
    """How many terms of the risk every place takes part in, an item of weight 2 being two items.

    Divided by it, the sum of the gradients of a row's pairs becomes their average, "the average
    gradient values as the target value for each distinct x" (Zheng et al. 2007, section 3), and
    the weight of the row that of one pair.
    """
    if hasattr(risk, "terms"):
        return risk.terms()
    return pair_totals(risk.arrangement) / risk.arrangement.weight


# -- a risk of the user's own ----------------------------------------------------------------


class ScoreRisk:
    """A risk written by hand: any function of the scores with a derivative.

    Subclasses write `value` and `pull`, and `curvature` if they have one. They are shown
    `judgments` whose rows are the ones that take part in a comparison, in an order of the
    library's own, so anything known about the rows must come from there (grade, qid, pairs,
    weight).

    Examples
    --------
    >>> import numpy as np
    >>> from precede import BoostedRanker, ScoreRisk
    >>> class Squares(ScoreRisk):
    ...     '''Squared distance from the grades.'''
    ...     def value(self, judgments, scores):
    ...         return 0.5 * np.sum((judgments.grade - scores) ** 2)
    ...     def pull(self, judgments, scores):
    ...         return judgments.grade - scores
    >>> from precede.datasets import search_results
    >>> sample = search_results(30, features=6, informative=4, per_query=30, random_state=0)
    >>> model = BoostedRanker(loss=Squares(), n_estimators=20)
    >>> risk = model.fit(sample.X, sample.y, qid=sample.qid).history_["risk"]
    >>> bool(risk[-1] < 0.8 * risk[0])
    True
    """

    def value(self, judgments: Judgments, scores: Floats) -> float:
        """Give the risk; never negative."""
        raise NotImplementedError(f"{type(self).__name__} must define value(judgments, scores)")

    def pull(self, judgments: Judgments, scores: Floats) -> Floats:
        """Give minus the derivative of the risk by every score."""
        raise NotImplementedError(f"{type(self).__name__} must define pull(judgments, scores)")

    def curvature(self, judgments: Judgments, scores: Floats) -> Floats:
        """Give the diagonal of the second derivative, or numbers above it; optional."""
        raise NotImplementedError(f"{type(self).__name__} has no curvature(judgments, scores)")

    def bind(self, arrangement: Arrangement, workers: Workers | None = None) -> BoundScoreRisk:
        """Prepare the risk for the loop."""
        return BoundScoreRisk(self, arrangement, workers)


class BoundScoreRisk(BoundRisk):
    """A `ScoreRisk` on the places of an arrangement; half the sum of absolute pulls is its mass."""

    # How a risk written by hand behaves far away is not known: it need not even be defined there.
    negligible = 1e-12

    def __init__(self, risk: ScoreRisk, arrangement: Arrangement, workers: Workers | None = None):
        super().__init__(arrangement, workers)
        self.risk = risk
        self._judgments = places_of(arrangement)

    def state(self, scores: Floats) -> State:
        """Risk and pull at these scores."""
        value = float(self.risk.value(self._judgments, scores))
        pull = np.asarray(self.risk.pull(self._judgments, scores), np.float64)
        if not value >= 0 or pull.shape != scores.shape or not np.isfinite(pull).all():
            raise ValueError(
                f"{type(self.risk).__name__} gave a value of {value:g} and pulls of shape "
                f"{pull.shape}; a risk is not negative and has one finite pull for each row"
            )
        mass = 0.5 * exact_sum(np.abs(pull))
        log_value, log_mass = (-np.inf if x == 0 else float(np.log(x)) for x in (value, mass))
        return State(scores, log_value, log_mass, pull / mass if mass > 0 else np.zeros_like(pull))

    def curvature(self, state: State) -> Floats:
        """Divide the user's curvature by the mass."""
        bend = np.asarray(self.risk.curvature(self._judgments, state.scores), np.float64)
        return bend * np.exp(-state.log_mass)

    def masses(self, state: State, values: NDArray[np.uint8]) -> Masses:  # noqa: ARG002
        """Not known: a risk written by hand says nothing about pairs."""
        raise ValueError(f"{type(self.risk).__name__} knows no masses; use rankers='trees'")


def places_of(arrangement: Arrangement) -> Judgments:
    """The places of an arrangement as judgments of their own, rows in the order of places."""
    first = arrangement.level_start[arrangement.query_start]
    query = np.repeat(np.arange(first.size - 1), np.diff(first))
    alone = np.arange(arrangement.n_places - query.size) + first.size
    return Judgments(
        arrangement.grade,
        np.concatenate([query, alone]),
        pairs=np.stack([arrangement.winner, arrangement.loser], axis=1),
        pair_weight=arrangement.pair_weight,
        pair_margin=arrangement.pair_margin,
        weight=arrangement.weight,
    )
