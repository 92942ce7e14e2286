"""Pairwise ranking risk: a pair loss, a price and a balance of queries.

``R(s) = sum_k v_k g( sum_{i above k} w_ik l(s_i - s_k) )`` with loss l, price g, and weights v and
w. The *pull* of an item is ``-dR/ds_i``; the slope of R along a weak ranker h is
``-sum_i pull_i h(x_i)``, so the search for weak rankers needs only the pull.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from precede import risks  # modules are loaded when `bind` chooses one
from precede.engine.arrays import Floats
from precede.engine.execution import Context
from precede.engine.query_layout import QueryLayout
from precede.judgments import Judgments, check_column
from precede.losses import PairLoss, Price, Separable, pair_loss, price
from precede.risks.base import BoundLossRisk, EdgeWeights, Risk, pair_shape
from precede.risks.links import Link

if TYPE_CHECKING:
    from precede.risks.lambdarank import Weighting


class PairRisk(Risk):
    """A pair loss, a price and a balance of queries: the objective of an algorithm.

    Parameters
    ----------
    loss : {"exponential", "logistic", "hinge", "squared_hinge"} or PairLoss
    price : number p for ``u^p``, "linear", "exp" or Price
    balance : {"pairs", "queries", "items"}
        Weight of a query: its number of pairs, 1, or its number of items. With "queries" and
        "items" the price applies to the mean loss of a loser:
        ``R(s) = sum_k v_k n_k g( sum_{i above k} w_ik l(s_i - s_k) / n_k )`` with
        ``n_k = sum_{i above k} w_ik``, and the weights v_k of a query are its item weights times
        ``c / sum_k v_k n_k``, where c is 1 or the total item weight. At scores 0 the pull is then
        that of a linear price, so that no price changes the weights of the queries.
    rank_weight : None, "gap", "grade_gap", "ndcg", "ndcg@10", "precision@5", RankWeight or dict
        Pair weights that depend on the current ranking; see `RankWeight`. `value` and the other
        methods rank by the scores they are given. The price must be linear.

    Notes
    -----
    Time by the form of the loss, for n items: separable O(n), spline O(n log n), smooth
    about 15 n, others O(n²) in bounded memory. The methods of this class bind the risk at each
    call; to evaluate it repeatedly, call `bind` once.

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
    def can_split_queries(self) -> bool:
        """Whether the rows of one query may be distributed: sums by level suffice for the risk."""
        loss, cost = pair_loss(self.loss), price(self.price)
        separable = isinstance(loss.form, Separable) and not loss.gap
        split = separable and cost.power is not None and self.balance == "pairs"
        return split and self.rank_weight is None  # ranks need whole queries

    @property
    def link(self) -> Link | None:
        """Link of ``exp(-m)`` with price ``u^p``, or of a loss with log-odds and a linear price."""
        loss, cost = pair_loss(self.loss), price(self.price)
        if loss.gap or cost.power is None:
            return None
        if isinstance(loss.form, Separable):
            return Link(loss.form.rate * (1.0 + cost.power), loss.form.rate)
        return Link(loss.log_odds) if loss.log_odds is not None and cost.power == 1 else None

    def bind(
        self, judgments: Judgments | QueryLayout, context: Context | None = None
    ) -> BoundLossRisk:
        """Bind the risk to judgments, with the fastest implementation for its loss and price."""
        if isinstance(judgments, Judgments):
            judgments = judgments.to_layout(self.balance)
        loss, cost = pair_loss(self.loss), price(self.price)
        power_of_sum = cost.power == 1 or (
            cost.power is not None and not judgments.has_explicit_pairs
        )
        mean = self.balance != "pairs"
        if self.rank_weight is not None:
            return self._bind_ranked(judgments, context or Context(1))
        if isinstance(loss.form, Separable) and power_of_sum and not loss.gap:
            return risks.SeparableRisk(judgments, loss, cost, context, mean=mean)
        if pair_shape(loss) is None or cost.power != 1 or judgments.queries_span_machines:
            return risks.TwoPassRisk(judgments, loss, cost, context, mean=mean)
        return risks.OnePassRisk(judgments, loss, cost, context)

    def _bind_ranked(self, layout: QueryLayout, context: Context) -> BoundLossRisk:
        """Bind the risk with pair weights that depend on the ranking."""
        loss, cost = pair_loss(self.loss), price(self.price)
        rule = risks.rank_weight(self.rank_weight)
        assert rule is not None
        weights = risks.RankWeights(rule, layout, balanced=self.balance != "pairs", context=context)
        return risks.LambdaRankRisk(layout, loss, cost, weights)

    def value(self, judgments: Judgments, scores: ArrayLike) -> float:
        """Return R, the sum of the prices of all losers; inf if it overflows."""
        bound, sorted_scores = self._bind_at(judgments, scores)
        with np.errstate(over="ignore"):
            return float(np.exp(bound.log_value(sorted_scores)))

    def pull(self, judgments: Judgments, scores: ArrayLike) -> Floats:
        """Return ``-dR/ds``, in the order of the rows."""
        bound, sorted_scores = self._bind_at(judgments, scores)
        state = bound.state(sorted_scores)
        return bound.layout.to_rows(_unnormalize(state.pull, state.log_gradient_sum))

    def curvature(self, judgments: Judgments, scores: ArrayLike) -> Floats:
        """Return ``d²R/ds²``, the diagonal of the Hessian, in the order of the rows."""
        bound, sorted_scores = self._bind_at(judgments, scores)
        state = bound.state(sorted_scores)
        return bound.layout.to_rows(_unnormalize(bound.curvature(state), state.log_gradient_sum))

    def edge_weights(
        self, judgments: Judgments, scores: ArrayLike, weak_ranker: ArrayLike
    ) -> EdgeWeights:
        """Return the weights of the pairs ordered correctly, wrongly or tied by values 0 and 1."""
        bound, sorted_scores = self._bind_at(judgments, scores)
        values = np.asarray(weak_ranker)
        if values.shape != (len(judgments),) or not np.isin(values, (0, 1)).all():
            raise ValueError(
                "ranker must be 0 or 1 for every row; edge weights are for such rankers"
            )
        sorted_values = values[bound.layout.order].astype(np.uint8)
        return bound.edge_weights(bound.state(sorted_scores), sorted_values)

    def _bind_at(self, judgments: Judgments, scores: ArrayLike) -> tuple[BoundLossRisk, Floats]:
        values = check_column(scores, "scores", len(judgments))
        bound = self.bind(judgments)
        return bound, values[bound.layout.order]

    def __repr__(self) -> str:
        ranked = "" if self.rank_weight is None else f", rank_weight={self.rank_weight!r}"
        return f"PairRisk({self.loss!r}, {self.price!r}, balance={self.balance!r}{ranked})"


def _unnormalize(shares: Floats, log_gradient_sum: float) -> Floats:
    """Multiply shares by the gradient sum; the product may overflow to infinity."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(shares == 0, 0.0, shares * np.exp(log_gradient_sum))
