"""Pairs and absolute labels in one risk: squared hinges over pairs, squares over labels.

``R(h) = w/2 · sum max(0, h(y) - h(x) + margin)² + (1 - w)/2 · sum (l - h(z))²`` (Zheng et al.
2007, section 3), with its pull, its second derivative and the paper's bound of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from precede import risks  # the one on a device is loaded when it is chosen
from precede.engine.arrays import Bytes, Floats
from precede.engine.exact import exact_sum, exact_sums
from precede.engine.execution import Context
from precede.engine.portable import exp_of, log_of
from precede.engine.query_layout import QueryLayout
from precede.losses import SquaredHinge
from precede.risks.base import BoundLossRisk, EdgeWeights, Risk, State, pair_totals
from precede.risks.pair_risk import PairRisk

if TYPE_CHECKING:
    from precede.risks.rank_weights import Weighting

__all__ = ["Labels", "MixtureRisk", "QuadraticMixture"]


# A row that only pairs of weight 0 know has no terms at all.
LEAST_TERMS = 1e-300


@dataclass(frozen=True)
class QuadraticMixture(Risk):
    """R of `QBRank`: squared hinges over pairs and squares over labels."""

    margin: float | str
    weight: float
    balance: str
    rank_weight: Weighting = None

    distributable = True  # no annotation: no field of the dataclass

    def bind(self, layout: QueryLayout, context: Context | None = None) -> MixtureRisk:
        """Prepare the risk for one set of judgments."""
        on_device = context is not None and context.device is not None
        mixture = risks.DeviceMixtureRisk if on_device else MixtureRisk
        return mixture(self, layout, context)


class Labels(NamedTuple):
    """The labels of all rows (0 where there is none), 1 where there is one, and their weights."""

    label: Any
    known: Any
    weight: Any


class MixtureRisk(BoundLossRisk):
    """`QuadraticMixture` on the rows of a layout; its mass is that of the pulls."""

    def __init__(
        self, mixture: QuadraticMixture, layout: QueryLayout, context: Context | None = None
    ):
        self._pairs = PairRisk(
            SquaredHinge(mixture.margin), balance=mixture.balance, rank_weight=mixture.rank_weight
        ).bind(layout, context)
        super().__init__(layout, self._pairs.loss, self._pairs.price, context)
        label = layout.label
        label = np.full(layout.n_used_rows, np.nan) if label is None else label
        known = ~np.isnan(label)
        weight = (1 - mixture.weight) * np.where(known, layout.weight, 0.0)
        self._labels = Labels(np.where(known, label, 0.0), known.astype(np.float64), weight)
        self._share = mixture.weight  # of the pairs
        self._totals = pair_totals(layout)
        self._label_total = exact_sum(weight, context)
        terms = mixture.weight * layout.total + self._label_total
        if terms <= 0:
            raise ValueError(
                f"weight={mixture.weight:g} leaves nothing to learn from: there are "
                f"{'no pairs' if layout.total <= 0 else 'no labels'} of positive weight"
            )
        self._log_terms = float(np.log(terms))

    def _labels_at(self, scores: Any) -> Labels:  # noqa: ARG002
        """The labels, where the scores are."""
        return self._labels

    def begin_round(self, scores: Floats) -> bool:
        """Let the pairs begin the round."""
        return self._pairs.begin_round(scores)

    def state(self, scores: Floats) -> State:
        """Risk, pull and curvature at these scores."""
        pairs, (label, known, weight) = self._pairs.state(scores), self._labels_at(scores)
        short = known * (label - scores)
        pair_mass = 0.5 * self._share * exp_of(pairs.log_gradient_sum)
        pull = pair_mass * pairs.pull + weight * short
        value = 0.5 * self._share * exp_of(pairs.log_value)
        squares, pulls = exact_sums([weight * (short * short), np.abs(pull)], self.context)
        value += 0.5 * squares
        mass = 0.5 * pulls
        log_value, log_gradient_sum = (log_of(x) for x in (value, mass))
        return State(scores, log_value, log_gradient_sum, pull / mass if mass > 0 else pull, pairs)

    def log_mean_payment(self, log_value: float) -> float:
        """R over the weight of all its terms."""
        return log_value - self._log_terms

    def curvature(self, state: State) -> Floats:
        """Diagonal of the second derivative: pairs within their margin, and labels."""
        pairs, hessian = state.parts, self._labels_at(state.scores).weight.copy()
        if pairs.log_gradient_sum > -np.inf:
            hessian += (
                0.5 * self._share * exp_of(pairs.log_gradient_sum) * self._pairs.curvature(pairs)
            )
        return hessian * exp_of(-state.log_gradient_sum)

    def curvature_bound(self, state: State, factor: float = 2.0) -> Floats:
        """``factor·w`` for every pair, within its margin or not, and ``1 - w`` for a label.

        With 2 it is the paper's ``diag(2, 2)``, above the second derivative; with 1 they are
        the weights of algorithm 2.
        """
        totals, labels = self._pairs.totals(state.parts), self._labels_at(state.scores)
        return (factor * self._share * totals + labels.weight) * exp_of(-state.log_gradient_sum)

    def terms(self) -> Floats:
        """Pairs of a row, and one more for its label; an item of weight 2 is two items."""
        return np.maximum(self._totals / self.layout.weight + self._labels.known, LEAST_TERMS)

    def offset(self, state: State) -> float:
        """What to add to all scores so that the labels are met on average."""
        if self._label_total <= 0:
            return 0.0
        label, _, weight = self._labels_at(state.scores)
        return exact_sum(weight * (label - state.scores), self.context) / self._label_total

    def edge_weights(self, state: State, values: Bytes) -> EdgeWeights:  # noqa: ARG002
        """Not known: labels have no order."""
        raise ValueError("QBRank has no masses; use weak_rankers='trees'")
