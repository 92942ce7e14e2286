"""RankBoost, coordinate descent RankBoost (RB-D) and RB-C: one estimator, two switches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from precede.boosting.coordinate_descent import Plan
from precede.boosting.loop import Callback, Stop
from precede.boosting.steps import BoundStep, ExactStep
from precede.engine.arrays import RandomState
from precede.engine.parameters import check_bool
from precede.estimator import BaseRanker
from precede.risks.base import Risk
from precede.risks.pair_risk import PairRisk
from precede.weak_rankers.base import Family

if TYPE_CHECKING:
    from precede.risks.lambdarank import Weighting


_STEPS = {"exact": ExactStep, "bound": BoundStep}


class RankBoost(BaseRanker):
    """Boosting that minimizes the exponential loss over pairs, without enumerating pairs.

    Minimizes the mean over crucial pairs (i above k) of ``exp(-(f(x_i) - f(x_k)))`` with
    ``f = sum_t step_t h_t``, one weak ranker a round.

    ================================= ============ ===========
    algorithm                         `select`     `step`
    ================================= ============ ===========
    RankBoost (Freund et al. 2003)    "decrease"   "exact"
    coordinate descent RankBoost      "slope"      "exact"
    RB-C (Connamacher et al. 2019)    "slope"      "bound"
    ================================= ============ ===========

    All three are as printed in the papers; the default is coordinate descent RankBoost. For the
    quality of the ranking alone, start with `BoostedRanker`.

    Parameters
    ----------
    balance : {"pairs", "queries", "items"}
        Whether every pair weighs the same (the papers), or every query, or every item: a query then
        weighs as much as it has items.
    rank_weight : None, "gap", "grade_gap", "ndcg", "ndcg@10", "precision@5", RankWeight or dict
        Weights of pairs that follow the ranking, recomputed from the scores of every round; see
        `RankWeight`. With ``select="slope"`` only. `history_["risk"]` is that of each round's
        weights.
    weak_rankers : {"stumps", "features", "columns"} or Family
        Weak rankers: thresholds on features, features scaled to [0, 1], or columns of X as
        they are. Families are joined by ``|``.
    select : {"slope", "decrease"}
        Choose the weak ranker along which the risk falls most steeply, or the one whose full step
        lowers it most.
    step : {"exact", "bound"}
        ``log(d+ / d-) / 2`` from the masses of the pairs in order and reversed, or
        ``log((1 + r) / (1 - r)) / 2`` from the edge ``r = d+ - d-``, which is more conservative.
    nonnegative : bool
        Only take forward steps, along weak rankers with a positive edge, as Rudin & Schapire do;
        the family is then not closed under complements unless it contains them. With stumps
        or features the score never falls when a feature grows; with stumps a missing value may
        count for or against a row. Such steps may stop short of the least risk, even of the least
        over non-negative weights (Connamacher et al., lemma 3).
    n_estimators : int or "auto"
        Number of rounds. "auto" chooses them on queries (rows of a single list) that are held out,
        the fewest within one standard error of the best, and then fits all rows; `selection_` has
        the numbers. The first `eval_metric` is monitored, on the first `eval_set` if there is one.
    learning_rate : float in (0, 1]
        Every step is multiplied by it. The algorithms of the papers take full steps, 1.0;
        smaller steps, such as 0.1, usually rank new data better, and need more rounds.
    max_bins : int from 2 to 255
        Maximum number of bins of a feature; one with fewer distinct values is kept exact.
    max_features : float in (0, 1]
        Share of the features that may be used in a round, drawn again each time.
    monotone_constraints : list of -1, 0 and 1, or dict of column to -1 or 1, optional
        With stumps, the score must fall (-1) or rise (1) with a feature; columns by number or
        name. A constraint orders present values only; missing ones may count either way.
    early_stopping_rounds : int, optional
        Stop when the first metric of the first `eval_set` has not improved for this many
        rounds, and keep the best.
    eval_metric : str, function or list of them, optional
        Such as "ndcg@10"; a function takes (y, scores, qid) and returns (name, value,
        greater_is_better). The default is the share of pairs in order.
    callbacks : list of functions, optional
        Each is called with a `Progress` after every round; one that returns True ends the fit.
    warm_start : bool
        Continue from the last fit, with a larger `n_estimators`; the model is that of one
        longer fit.
    random_state : int or RandomState, optional
        For `max_features` below 1; everything else is deterministic.
    n_jobs : int, optional
        Threads; None means every core. The model is the same to the bit for any number.
    device : {"cpu", "cuda"}
        Device on which stumps or trees are searched; the model is the same to the bit. "cuda" needs
        an NVIDIA GPU and the extra ``precede[cuda13]`` or ``precede[cuda12]``, and
        ``select="slope"``. Without explicit pairs whole rounds are done on the device, except for
        queries of very many grades and long queries with `rank_weight`.
    verbose : int
        1 shows a progress bar.

    Notes
    -----
    A round costs O(n) for the gradient and O(n) for each feature that is searched; the search skips
    features that cannot win (see `Stumps`). `select="decrease"` costs O(n) for every
    feature. Memory is one byte a cell and about 150 bytes a row. The order of the rows, the
    number of threads and the names of the queries do not affect the model.

    References
    ----------
    Rudin & Schapire, *Margin-based Ranking and an Equivalence between AdaBoost and
    RankBoost*, JMLR 2009, section 4.1. Connamacher, Pancha, Liu & Ray, *RankBoost+*, 2019,
    section 2.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from precede import RankBoost
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RankBoost(step="bound", n_estimators=200).fit(X[::2], y[::2])
    >>> round(model.score(X[1::2], y[1::2]), 2)  # area under the ROC curve on the other half
    0.99
    """

    balance: str = "pairs"  # as printed
    rank_weight: Weighting = None
    weak_rankers: str | Family = "stumps"
    select: str = "slope"
    step: str = "exact"
    nonnegative: bool = False
    n_estimators: int | Literal["auto"] = 300
    learning_rate: float = 1.0  # as printed
    max_bins: int = 255
    max_features: float = 1.0
    monotone_constraints: Sequence[int] | Mapping[int | str, int] | None = None
    early_stopping_rounds: int | None = None
    eval_metric: object = None
    callbacks: Sequence[Callback] | None = None
    warm_start: bool = False
    random_state: RandomState = None
    n_jobs: int | None = None
    device: str = "cpu"
    verbose: int = 0

    selectable = ("n_estimators",)

    def risk(self) -> Risk:
        """Return the exponential loss over pairs."""
        return PairRisk("exponential", balance=self.balance, rank_weight=self.rank_weight)

    def plan(self, stop: Stop) -> Plan:
        """Return the risk, the weak rankers and the step of this algorithm."""
        return Plan(
            risk=self.risk(),
            weak_rankers=self.weak_rankers_to_search(),
            step=_STEPS[self.step](),
            stop=stop,
            select=self.select,
            learning_rate=self.learning_rate,
            draw=self.feature_draw(),
            nonnegative=self.nonnegative,
        )

    def check_parameters(self) -> None:
        """Raise ValueError for an invalid parameter."""
        super().check_parameters()
        if self.select not in ("slope", "decrease"):
            raise ValueError(f"select={self.select!r} is unknown; use 'slope' or 'decrease'")
        if self.step not in _STEPS:
            raise ValueError(f"step={self.step!r} is unknown; use 'exact' or 'bound'")
        if self.select == "decrease" and self.rank_weight is not None:
            raise ValueError(
                f"rank_weight={self.rank_weight!r} needs select='slope': the largest decrease is "
                "known for plain pairs only"
            )
        check_bool("nonnegative", self.nonnegative)
