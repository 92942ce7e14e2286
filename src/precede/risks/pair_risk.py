"""The risk of a ranking and the pull on every item, exact and without enumerating pairs.

``R(s) = sum_k v_k g( sum_{i above k} w_ik l(s_i - s_k) )``. The *pull* of an item is
``-dR/ds_i``; for any weak ranker h the slope of R along h is ``-sum_i pull_i h(x_i)``, so
the search for weak rankers needs the pull and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from precede import risks  # how to sum; loaded when it is chosen
from precede.engine.arrays import Floats
from precede.engine.execution import Context
from precede.engine.query_layout import QueryLayout
from precede.judgments import Judgments, check_column
from precede.losses import PairLoss, Price, pair_loss, price
from precede.risks.base import BoundLossRisk, EdgeWeights, Risk
from precede.risks.links import Link

if TYPE_CHECKING:
    from precede.risks.rank_weights import Weighting

__all__ = ["PairRisk"]


class PairRisk(Risk):
    """A pair loss, a price and a balance of queries: the objective of an algorithm.

    Parameters
    ----------
    loss : {"exponential", "logistic", "hinge", "squared_hinge"} or PairLoss
    price : number p for ``u^p``, "linear", "exp" or Price
    balance : {"pairs", "queries", "items"}
        Whether every pair weighs the same, or every query, or every item: a query then weighs
        as much as it has items. With a balance the price is of the mean loss of a loser:
        ``R(s) = sum_k v_k n_k g( sum_{i above k} w_ik l(s_i - s_k) / n_k )`` with
        ``n_k = sum_{i above k} w_ik``, and the weights v_k of a query are its item weights times
        ``c / sum_k v_k n_k``, where c is 1, or the number of items by weight. At scores 0 the pull
        is that of a linear price then: no price changes the shares of the queries.
    rank_weight : None, "gap", "grade_gap", "ndcg", "ndcg@10", "precision@5", RankWeight or dict
        Weights of pairs that follow the ranking; see `RankWeight`. `value` and the other methods
        take the ranks from the scores they are given. The price must be linear.

    Notes
    -----
    Time by the form of the loss, for n items: separable O(n), polynomial O(n log n), smooth
    about 15 n, others O(n²) in bounded memory. `bind` is for loops; the methods here arrange
    the judgments at every call.

    Examples
    --------
    >>> from precede import Judgments, PairRisk
    >>> judgments = Judgments.bipartite([1, 0, 0])
    >>> risk = PairRisk("exponential")
    >>> float(risk.value(judgments, [0.0, 0.0, 0.0]))
    2.0
    >>> risk.pull(judgments, [0.0, 0.0, 0.0])
    array([ 2., -1., -1.])
    """

    distributable = True

    def __init__(
        self,
        loss: str | PairLoss = "exponential",
        price: str | float | Price = "linear",
        *,
        balance: str = "pairs",
        rank_weight: Weighting = None,
    ):
        self.loss = loss
        self.price = price
        self.balance = balance
        self.rank_weight = rank_weight

    @property
    def splits_a_list(self) -> bool:
        """Whether sums by grade are all that the risk needs, as for ``exp(-m)`` and powers."""
        loss, cost = pair_loss(self.loss), price(self.price)
        separable = loss.form is not None and loss.form.kind == "separable" and not loss.gap
        split = separable and cost.power is not None and self.balance == "pairs"
        return split and self.rank_weight is None  # ranks are those of whole lists

    @property
    def link(self) -> Link | None:
        """That of ``exp(-m)`` with a price ``u^p``, or of a loss that has log-odds, unpriced."""
        loss, cost = pair_loss(self.loss), price(self.price)
        if loss.gap or cost.power is None:
            return None
        if loss.form is not None and loss.form.kind == "separable":
            return Link(loss.form.rate * (1.0 + cost.power), loss.form.rate)
        return Link(loss.log_odds) if loss.log_odds is not None and cost.power == 1 else None

    def bind(
        self, judgments: Judgments | QueryLayout, context: Context | None = None
    ) -> BoundLossRisk:
        """Prepare the risk for one set of judgments, in the order of its rows."""
        if isinstance(judgments, Judgments):
            judgments = judgments.to_layout(self.balance)
        loss, cost = pair_loss(self.loss), price(self.price)
        power_of_sum = cost.power == 1 or (cost.power is not None and not judgments.any_listed)
        separable = loss.form is not None and loss.form.kind == "separable"
        mean = self.balance != "pairs"  # without effect on a linear price
        on_device = context is not None and context.device is not None
        if self.rank_weight is not None:
            return self._bind_ranked(judgments, context or Context(1))
        if separable and power_of_sum and not loss.gap:
            exponential = risks.DeviceSeparableRisk if on_device else risks.SeparableRisk
            return exponential(judgments, loss, cost, context, mean=mean)
        if loss.pair_kernel is None or cost.power != 1 or judgments.shared:
            return risks.GeneralRisk(judgments, loss, cost, context, mean=mean)
        if loss.pair_kernel == "logistic":
            logistic = risks.DeviceLogisticRisk if on_device else risks.LogisticRisk
            return logistic(judgments, loss, cost, context)
        hinge = risks.DeviceHingeRisk if on_device else risks.HingeRisk
        return hinge(judgments, loss, cost, context)

    def _bind_ranked(self, layout: QueryLayout, context: Context) -> BoundLossRisk:
        """Prepare the risk with weights of pairs that follow the ranking."""
        loss, cost = pair_loss(self.loss), price(self.price)
        rule = risks.rank_weight(self.rank_weight)
        assert rule is not None
        weights = risks.RankWeights(rule, layout, balanced=self.balance != "pairs", context=context)
        on_device = context.device is not None
        if loss.form is None or loss.form.kind != "separable" or loss.gap:
            pairs = risks.DeviceRankedPairsRisk if on_device else risks.RankedPairsRisk
            return pairs(layout, loss, cost, weights)
        if weights.top is None:
            ranks = risks.DeviceRankedExponentialRisk if on_device else risks.RankedExponentialRisk
            return ranks(layout, loss, cost, weights)
        top = risks.DeviceTopExponentialRisk if on_device else risks.TopExponentialRisk
        return top(layout, loss, cost, weights)

    def value(self, judgments: Judgments, scores: ArrayLike) -> float:
        """Sum the price of every loser: R; infinity beyond the range of floats."""
        bound, arranged = self._at(judgments, scores)
        with np.errstate(over="ignore"):
            return float(np.exp(bound.log_value(arranged)))

    def pull(self, judgments: Judgments, scores: ArrayLike) -> Floats:
        """``-dR/ds`` for every row, in the order of the rows."""
        bound, arranged = self._at(judgments, scores)
        state = bound.state(arranged)
        return bound.to_rows(_of_mass(state.pull, state.log_gradient_sum))

    def curvature(self, judgments: Judgments, scores: ArrayLike) -> Floats:
        """``d²R/ds²``, the diagonal of the second derivative, in the order of the rows."""
        bound, arranged = self._at(judgments, scores)
        state = bound.state(arranged)
        return bound.to_rows(_of_mass(bound.curvature(state), state.log_gradient_sum))

    def edge_weights(
        self, judgments: Judgments, scores: ArrayLike, weak_ranker: ArrayLike
    ) -> EdgeWeights:
        """Give the shares of the pair mass ordered rightly, wrongly and not at all."""
        bound, arranged = self._at(judgments, scores)
        values = np.asarray(weak_ranker)
        if values.shape != (len(judgments),) or not np.isin(values, (0, 1)).all():
            raise ValueError("ranker must be 0 or 1 for every row; masses are for such rankers")
        at = values[bound.layout.order].astype(np.uint8)
        return bound.edge_weights(bound.state(arranged), at)

    def _at(self, judgments: Judgments, scores: ArrayLike) -> tuple[BoundLossRisk, Floats]:
        values = check_column(scores, "scores", len(judgments))
        bound = self.bind(judgments)
        return bound, values[bound.layout.order]

    def __repr__(self) -> str:
        ranked = "" if self.rank_weight is None else f", rank_weight={self.rank_weight!r}"
        return f"PairRisk({self.loss!r}, {self.price!r}, balance={self.balance!r}{ranked})"


def _of_mass(shares: Floats, log_gradient_sum: float) -> Floats:
    """Shares of a mass, which may be beyond the range of floats."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(shares == 0, 0.0, shares * np.exp(log_gradient_sum))
