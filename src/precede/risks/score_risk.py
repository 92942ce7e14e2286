"""User-defined risks: any differentiable function of the scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from precede.engine.arrays import Floats
from precede.engine.exact import exact_sum
from precede.engine.execution import Context
from precede.engine.portable import exp_of, log_of
from precede.engine.query_layout import QueryLayout
from precede.judgments import Judgments
from precede.losses import PAIR_LOSSES, PairLoss, Price
from precede.losses import price as cost
from precede.risks.base import BoundRisk, Risk, State
from precede.risks.listwise import LISTWISE, ListRisk
from precede.risks.pair_risk import PairRisk

if TYPE_CHECKING:
    from precede.risks.lambdarank import Weighting


class ScoreRisk(Risk):
    """Base class of user-defined risks: any differentiable function of the scores.

    Subclasses define `value` and `pull`, and optionally `curvature`. The `judgments` passed to them
    hold only the rows that are compared with another row, in an internal order, so all information
    about the rows must be taken from `judgments` (grade, qid, pairs, weight).

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
        """Return the risk, which must not be negative."""
        raise NotImplementedError(f"{type(self).__name__} must define value(judgments, scores)")

    def pull(self, judgments: Judgments, scores: Floats) -> Floats:
        """Return the negative gradient of the risk with respect to the scores."""
        raise NotImplementedError(f"{type(self).__name__} must define pull(judgments, scores)")

    def curvature(self, judgments: Judgments, scores: Floats) -> Floats:
        """Return the diagonal of the Hessian, or an upper bound of it; optional."""
        raise NotImplementedError(f"{type(self).__name__} has no curvature(judgments, scores)")

    def bind(self, layout: QueryLayout, context: Context | None = None) -> BoundScoreRisk:
        """Bind the risk to the rows of a layout."""
        return BoundScoreRisk(self, layout, context)


class BoundScoreRisk(BoundRisk):
    """`ScoreRisk` bound to a layout; its gradient sum is half the sum of absolute pulls."""

    def __init__(self, risk: ScoreRisk, layout: QueryLayout, context: Context | None = None):
        super().__init__(layout, context)
        self.risk = risk
        self._judgments = judgments_of_layout(layout)

    def state(self, scores: Floats) -> State:
        """Return risk and pull at these scores."""
        value = float(self.risk.value(self._judgments, scores))
        pull = np.asarray(self.risk.pull(self._judgments, scores), np.float64)
        if not value >= 0 or pull.shape != scores.shape or not np.isfinite(pull).all():
            raise ValueError(
                f"{type(self.risk).__name__} gave a value of {value:g} and pulls of shape "
                f"{pull.shape}; a risk is not negative and has one finite pull for each row"
            )
        gradient_sum = 0.5 * exact_sum(np.abs(pull))
        log_value, log_gradient_sum = (log_of(x) for x in (value, gradient_sum))
        return State(
            scores,
            log_value,
            log_gradient_sum,
            pull / gradient_sum if gradient_sum > 0 else np.zeros_like(pull),
        )

    def curvature(self, state: State) -> Floats:
        """Return the user's curvature over the gradient sum."""
        hessian = np.asarray(self.risk.curvature(self._judgments, state.scores), np.float64)
        return hessian * exp_of(-state.log_gradient_sum)


def judgments_of_layout(layout: QueryLayout) -> Judgments:
    """Return the used rows of a layout as judgments, in layout order."""
    singletons = np.arange(layout.n_used_rows - layout.n_graded) + layout.n_queries
    return Judgments(
        layout.grade,
        np.concatenate([layout.query_of_row(), singletons]),
        pairs=np.stack([layout.winner, layout.loser], axis=1),
        pair_weight=layout.pair_weight,
        pair_margin=layout.pair_margin,
        weight=layout.weight,
    )


def risk_of(
    loss: str | PairLoss | ScoreRisk,
    price: str | float | Price,
    *,
    balance: str,
    rank_weight: Weighting = None,
) -> Risk:
    """Return the risk for `loss`: a `ScoreRisk` itself, a `ListRisk` or a `PairRisk`.

    >>> risk_of("logistic", "linear", balance="pairs")
    PairRisk('logistic', 'linear', balance='pairs')
    """
    listwise = isinstance(loss, str) and loss in LISTWISE
    if isinstance(loss, str) and not listwise and loss not in PAIR_LOSSES:
        known = ", ".join(map(repr, (*PAIR_LOSSES, *LISTWISE)))
        hint = "; rank_weight='ndcg' is LambdaRank" if "lambda" in loss or "ndcg" in loss else ""
        raise ValueError(
            f"loss={loss!r} is unknown; use one of {known}, a PairLoss or a ScoreRisk{hint}"
        )
    if not listwise and not isinstance(loss, ScoreRisk):
        return PairRisk(loss, price, balance=balance, rank_weight=rank_weight)
    if rank_weight is not None:
        raise ValueError(
            f"rank_weight={rank_weight!r} weighs pairs, but loss={loss!r} has none; use a pair "
            "loss such as 'logistic', or rank_weight=None"
        )
    if isinstance(loss, ScoreRisk):
        return loss
    if cost(price).power != 1:
        raise ValueError(
            f"price={price!r} is paid by the losers of pairs, but loss={loss!r} has none; use "
            "price='linear'"
        )
    return ListRisk(str(loss), balance=balance)
