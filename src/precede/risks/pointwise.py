"""Pointwise exponential risk of a classifier: one loss per row instead of one per pair.

``R(s) = sum_i w_i exp(-y_i s_i)`` over rows of two classes, y = 1 for the second and -1 for
the first: the risk that AdaBoost minimizes. With ``F+ = sum over y = 1`` and ``F- = sum over
y = -1`` it is ``F+ + F-``, where `PairRisk` with the same loss is ``F+ · F-`` (RS09 section 5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from precede.engine.arrays import Array, Bytes, Floats, Integers
from precede.engine.exact import exact_sum, log_sum_exp
from precede.engine.execution import Context
from precede.engine.portable import exp, log
from precede.engine.query_layout import QueryLayout
from precede.judgments import Judgments, check_column
from precede.losses import Exponential, Power
from precede.risks.base import BoundLossRisk, EdgeWeights, State
from precede.risks.pair_risk import PairRisk
from precede.risks.terms import PairTerms


class PointRisk(PairRisk):
    """AdaBoost's objective: the sum of ``exp(-y f(x))`` over the rows of two classes.

    Notes
    -----
    O(n) time. Row weights multiply the losses. Judgments must have two grades, one list and
    no explicit pairs; the higher grade is y = 1.

    References
    ----------
    Rudin & Schapire, JMLR 10 (2009), section 5.

    Examples
    --------
    >>> from precede import Judgments, PointRisk
    >>> judgments = Judgments.bipartite([1, 0, 0])
    >>> round(PointRisk().value(judgments, [0.0, 0.0, 0.0]), 9)
    3.0
    >>> PointRisk().pull(judgments, [0.0, 0.0, 0.0])
    array([ 1., -1., -1.])
    """

    distributable = False
    can_split_queries = False

    def __init__(self) -> None:
        super().__init__("exponential", "linear", balance="pairs")

    def bind(
        self, judgments: Judgments | QueryLayout, context: Context | None = None
    ) -> BoundPointRisk:
        """Bind the risk to judgments of two classes."""
        if isinstance(judgments, Judgments):
            judgments = judgments.to_layout("pairs")
        return BoundPointRisk(judgments, context)

    def skew(self, judgments: Judgments, scores: ArrayLike) -> float:
        """Return the F-skew ``F+ - F-``, 0 if both classes weigh the same (RS09 eq. 15).

        >>> from precede import Judgments, PointRisk
        >>> PointRisk().skew(Judgments.bipartite([1, 0, 0]), [0.0, 0.0, 0.0])
        -1.0
        """
        bound = self.bind(judgments)
        at = check_column(scores, "scores", len(judgments))[bound.layout.order]
        return bound.skew(bound.state(at))

    def __repr__(self) -> str:
        return "PointRisk()"


class BoundPointRisk(BoundLossRisk):
    """`PointRisk` bound to a layout.

    The pull of a row is ``y_i w_i exp(-y_i s_i)``; its absolute values over the risk are AdaBoost's
    row weights.
    """

    def __init__(self, layout: QueryLayout, context: Context | None = None):
        super().__init__(layout, Exponential(), Power(1), context)
        if layout.level_start.size != 3 or layout.winner.size:
            raise ValueError(
                "PointRisk needs two classes in one list, and no listed pairs; use PairRisk for "
                "grades, queries and pairs"
            )
        self._sign = np.where(np.arange(layout.n_used_rows) < layout.level_start[1], -1, 1)
        self.terms = RowTerms(layout, self.context, self._sign)
        self._log_weight = log(layout.weight)
        self._log_total_weight = math.log(math.fsum(np.sort(layout.weight)))

    def state(self, scores: Floats) -> State:
        """Return risk and pull at these scores."""
        log_terms = self._log_weight - self._sign * scores
        log_value = log_sum_exp(log_terms)
        return State(scores, log_value, log_value, self._sign * exp(log_terms - log_value))

    def curvature(self, state: State) -> Floats:
        """Return the share of each row in the risk."""
        return np.abs(state.pull)

    def edge_weights(self, state: State, values: Bytes) -> EdgeWeights:
        """Return the weights of rows with y = 1 and value 1, y = -1 and value 1, and value 0."""
        covered = state.pull[values == 1]
        correct, wrong = exact_sum(covered[covered > 0]), -exact_sum(covered[covered < 0])
        return EdgeWeights(correct, wrong, max(0.0, 1.0 - correct - wrong))

    def extra_history(self, state: State) -> dict[str, float]:
        """Return the F-skew and the weighted classification error."""
        return {"f_skew": self.skew(state), "error": self.error(state)}

    def skew(self, state: State) -> float:
        """Return ``F+ - F-``."""
        return math.exp(state.log_value) * exact_sum(state.pull)

    def error(self, state: State) -> float:
        """Return the weighted classification error; a score of 0 counts as an error."""
        weight = self.layout.weight
        wrong = self._sign * state.scores <= 0
        return exact_sum(weight[wrong]) / exact_sum(weight)


@dataclass(frozen=True)
class RowTerms(PairTerms):
    """The rows of two classes as the terms of a risk, with margins ``y_i h(x_i)``."""

    sign: Integers

    @property
    def smoothing(self) -> float:
        """Half a row; a row of weight 2 counts as two rows."""
        weight = self.layout.weight
        return 0.5 / max(exact_sum(weight), weight.size)

    @property
    def final_margin(self) -> float:
        """Half of that for pairs, whose margin is the sum of the margins of two rows."""
        return 0.5 * super().final_margin

    def least_margin(self, values: Array) -> float:
        """Return the least margin of a row. O(n)."""
        return float((self.sign * values).min())

    def width(self, values: Array) -> float:
        """Return the greatest absolute value, the largest change of a margin by a step of 1."""
        return float(np.abs(values).max())
