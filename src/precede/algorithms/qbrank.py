"""QBRank: preferences and absolute labels in one fit (Zheng et al. 2007, section 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from precede.algorithms.boosted import BaggedTrees
from precede.boosting.coordinate_descent import Plan
from precede.boosting.loop import Stop
from precede.losses import SquaredHinge
from precede.risks.mixture import QuadraticMixture

if TYPE_CHECKING:
    pass


class QBRank(BaggedTrees):
    """Boosted trees that learn from preferences and from absolute labels together.

    Minimizes, over pairs x above y and over labeled rows z with label l,

        R(h) = w/2 · sum max(0, h(y) - h(x) + margin)² + (1 - w)/2 · sum (l - h(z))².

    Without labels it is preference learning, without pairs gradient boosted trees. Rows may
    have grades or pairs, a label, both or neither: ``Judgments(grade=, qid=, pairs=, label=)``.
    With labels the first round is their mean, as a constant.

    Parameters
    ----------
    weight : float in [0, 1]
        w: 1 uses the pairs alone, 0 the labels alone.
    margin : "gap" or number
        By how much a winner should lead: the difference of the grades, for explicit pairs their
        `pair_margin` (see `Judgments`) or 1 where they have none; or a number for all pairs.
    balance : {"pairs", "queries", "items"}
        Whether every pair weighs the same (the paper), or every query, or every item: a query then
        weighs as much as it has items.
    rank_weight : None, "gap", "grade_gap", "ndcg", "ndcg@10", "precision@5", RankWeight or dict
        Weights of pairs that follow the ranking, recomputed from the scores of every round; see
        `RankWeight`. `history_["risk"]` is that of each round's weights.
    weak_rankers : "trees", Family or regressor
        The black box; see `BoostedRanker`.
    hessian : {"terms", "bound", "newton", "uniform"}
        Weights of the rows. "terms" is algorithm 2 as printed: every pair counts ``w``, so that
        a violated pair has targets ``±max(0, h(y) - h(x) + margin)``. "bound" counts ``2 w``, the
        paper's bound ``diag(2, 2)`` of the second derivative ``w [[1, -1], [-1, 1]]``, which
        halves those targets relative to the labels'. "newton" counts ``w`` for the pairs within
        the margin only. A label counts ``1 - w`` in all three. On pairs alone "terms" and "bound"
        are the same fit up to the line search's tolerance; with labels neither ranks
        significantly better on MQ2008 (benchmarks/results/zheng2007.md).
    targets : {"average", "sum"}
        Whether a row of many pairs gets the average of their gradients, as in the paper, or
        their sum, weighing as much as all of them. The fit ends where R does not fall along the
        tree that fits the averages best.
    learning_rate : float in (0, 1]
        The paper's shrinkage.
    line_search : bool
        Search for the step >= 0 of the least R, which then never rises; otherwise it is 1.
    step_length : float, optional
        Steps of this normalized length instead, without a learning rate; see `BoostedRanker`.
    num_leaves, max_depth, min_child_samples, min_child_weight, reg_lambda, reg_alpha, \
min_split_gain, subsample, subsample_by, max_features, max_features_by_split, \
categorical_features, cat_smooth, monotone_constraints, interaction_constraints
        The shape of a tree; see `Trees` and `BoostedRanker`.
    n_estimators, bags, max_bins, early_stopping_rounds, eval_metric, callbacks, warm_start, \
random_state, n_jobs, device, verbose
        As for `BoostedRanker`.

    Notes
    -----
    A round costs one tree (see `Trees`) and some five evaluations of R, each O(pairs) for short
    queries and O(n log n) for long ones; pairs of graded labels are never enumerated.

    References
    ----------
    Zheng, Zha, Zhang, Chapelle, Chen & Sun, *A General Boosting Method and its Application to
    Learning Ranking Functions for Web Search*, NIPS 2007, section 3, algorithm 2.

    Examples
    --------
    Grades for one half of the queries, labels for the other:

    >>> import numpy as np
    >>> from precede import Judgments, QBRank
    >>> from precede.datasets import search_results
    >>> sample = search_results(60, features=8, informative=6, per_query=40, random_state=0)
    >>> known = sample.qid < 30
    >>> both = Judgments(np.where(known, sample.y, np.nan), sample.qid,
    ...                  label=np.where(known, np.nan, sample.y))
    >>> model = QBRank(n_estimators=60).fit(sample.X, both)
    >>> round(model.score(sample.X, sample.y, sample.qid), 2)
    0.8
    """

    weight: float = 0.5
    margin: float | str = "gap"
    balance: str = "pairs"  # as printed
    hessian: str = "terms"
    targets: str = "average"
    n_estimators: int | Literal["auto"] = 300
    line_search: bool = True
    num_leaves: int | Literal["auto"] = 20
    reg_lambda: float = 0.0  # the paper's trees have no penalty

    learns_labels = True

    def check_parameters(self) -> None:
        """Raise ValueError for an invalid parameter."""
        super().check_parameters()
        number = isinstance(self.weight, int | float | np.number)
        if not number or isinstance(self.weight, bool) or not 0 <= self.weight <= 1:
            raise ValueError(f"weight={self.weight!r} is out of range; use a number from 0 to 1")
        SquaredHinge(self.margin)  # validates the margin

    def plan(self, stop: Stop) -> Plan:
        """Return the risk, the weak rankers and the step of this algorithm."""
        risk = QuadraticMixture(self.margin, float(self.weight), self.balance, self.rank_weight)
        return self._plan_with(risk, stop)
