"""Squared hinges over pairs plus squared errors over absolute labels: the risk of `QBRank`.

``R(h) = w/2 · sum max(0, h(y) - h(x) + margin)² + (1 - w)/2 · sum (l - h(z))²`` (Zheng et al.
2007, section 3), with its pull, its Hessian and the paper's bound of the Hessian.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from precede.engine.arrays import BackendArray, Floats
from precede.engine.exact import all_reduce_all, exact_sum, exact_sums
from precede.engine.execution import Context
from precede.engine.portable import exp_of, log_of
from precede.engine.query_layout import QueryLayout
from precede.losses import SquaredHinge
from precede.risks.base import BoundLossRisk, Risk, State
from precede.risks.pair_risk import PairRisk
from precede.risks.terms import pair_totals

if TYPE_CHECKING:
    from precede.risks.lambdarank import Weighting


# A row that occurs only in pairs of weight 0 has no terms.
MIN_TERMS = 1e-300
# Memory on a GPU for labels, weights and states.
BYTES_PER_ROW = 64


@dataclass(frozen=True)
class QuadraticMixture(Risk):
    """The risk of `QBRank`: squared hinges over pairs and squared errors over labels."""

    margin: float | str
    weight: float
    balance: str
    rank_weight: Weighting = None

    distributable = True  # not annotated, so not a dataclass field

    def bind(self, layout: QueryLayout, context: Context | None = None) -> MixtureRisk:
        """Bind the risk to the rows of a layout."""
        return MixtureRisk(self, layout, context)


class Labels(NamedTuple):
    """Label of each row (0 if missing), whether it is known (1.0 or 0.0), and its weight."""

    label: BackendArray
    known: BackendArray
    weight: BackendArray


class MixtureRisk(BoundLossRisk):
    """`QuadraticMixture` bound to a layout; its gradient sum is half the sum of absolute pulls."""

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
        self._pair_share = mixture.weight
        self._pair_totals = pair_totals(layout)
        self._label_weight = exact_sum(weight, context)
        terms = mixture.weight * layout.total + self._label_weight
        if terms <= 0:
            raise ValueError(
                f"weight={mixture.weight:g} leaves nothing to learn from: there are "
                f"{'no pairs' if layout.total <= 0 else 'no labels'} of positive weight"
            )
        self._log_total_weight = float(np.log(terms))
        self.backend = self._pairs.backend
        if self.backend.is_gpu:
            self.backend.check_room(BYTES_PER_ROW * layout.n_used_rows, "the pulls of all labels")
            self._labels_on_gpu = Labels(*map(self.backend.put, self._labels))

    def _labels_for(self, scores: BackendArray) -> Labels:
        """Return the labels, on the backend of the scores."""
        return self._labels_on_gpu if self._backend_of(scores).is_gpu else self._labels

    def begin_round(self, scores: Floats, *, value: bool = True) -> State | None:  # noqa: ARG002
        """Fix the rank weights of the pairs."""
        pairs = self._pairs.begin_round(scores)
        return None if pairs is None else self._add_labels(scores, pairs)

    def state(self, scores: Floats) -> State:
        """Return risk and pull at these scores."""
        return self._add_labels(scores, self._pairs.state(scores))

    def _add_labels(self, scores: Floats, pairs: State) -> State:
        """Return the state of the mixture for that of the pairs."""
        label, known, weight = self._labels_for(scores)
        residual = known * (label - scores)
        pair_mass = 0.5 * self._pair_share * exp_of(pairs.log_gradient_sum)
        pull = pair_mass * pairs.pull + weight * residual
        value = 0.5 * self._pair_share * exp_of(pairs.log_value)
        squares, abs_pull_sum = exact_sums(
            [weight * (residual * residual), np.abs(pull)], self.context
        )
        value += 0.5 * squares
        gradient_sum = 0.5 * abs_pull_sum
        log_value, log_gradient_sum = (log_of(x) for x in (value, gradient_sum))
        return State(
            scores,
            log_value,
            log_gradient_sum,
            pull / gradient_sum if gradient_sum > 0 else pull,
            pairs,
        )

    def curvature(self, state: State) -> Floats:
        """Return the diagonal of the Hessian over the gradient sum."""
        pairs, hessian = state.cache, self._labels_for(state.scores).weight.copy()
        if pairs.log_gradient_sum > -np.inf:
            hessian += (
                0.5
                * self._pair_share
                * exp_of(pairs.log_gradient_sum)
                * self._pairs.curvature(pairs)
            )
        return hessian * exp_of(-state.log_gradient_sum)

    def _curvature_bound(self, state: State, factor: float = 2.0) -> Floats:
        """Return ``factor·w`` for each pair, within its margin or not, and ``1 - w`` for a label.

        With 2 it is the paper's ``diag(2, 2)``, which bounds the Hessian; with 1, the weights of
        algorithm 2.
        """
        totals, labels = self._pairs.pair_totals(state.cache), self._labels_for(state.scores)
        return (factor * self._pair_share * totals + labels.weight) * exp_of(
            -state.log_gradient_sum
        )

    def _pair_counts(self) -> Floats:
        """Return the number of pairs of each row, plus 1 for its label."""
        return np.maximum(self._pair_totals / self.layout.weight + self._labels.known, MIN_TERMS)

    def offset(self, state: State) -> float:
        """Return the weighted mean error of the labels; 0 once any score is nonzero."""
        if self._label_weight <= 0:
            return 0.0
        if not all_reduce_all(lambda: not state.scores.any(), self.context):
            return 0.0
        label, _, weight = self._labels_for(state.scores)
        return exact_sum(weight * (label - state.scores), self.context) / self._label_weight
