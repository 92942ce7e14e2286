"""RankBoost, coordinate descent RankBoost (RB-D) and RB-C as options of one estimator."""

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
    ``f = sum_t step_t h_t``, adding one weak ranker per round.

    ================================= ============ ===========
    algorithm                         `select`     `step`
    ================================= ============ ===========
    RankBoost (Freund et al. 2003)    "decrease"   "exact"
    coordinate descent RankBoost      "slope"      "exact"
    RB-C (Connamacher et al. 2019)    "slope"      "bound"
    ================================= ============ ===========

    All three are as in the papers; the default is coordinate descent RankBoost. If only the quality
    of the ranking matters, start with `BoostedRanker`.

    Parameters
    ----------
    balance : {"pairs", "queries", "items"}
        Whether every pair weighs the same (the papers), or every query, or every item: a query then
        weighs as much as it has items.
    rank_weight : None, "gap", "grade_gap", "ndcg", "ndcg@10", "precision@5", RankWeight or dict
        Weights of pairs that depend on the ranking, recomputed from the scores of every round; see
        `RankWeight`. Requires ``select="slope"``. `history_["risk"]` is that of each round's
        weights.
    weak_rankers : {"stumps", "features", "columns"} or Family
        Weak rankers: thresholds on features, features scaled to [0, 1], or the raw columns of X.
        ``|`` gives the union of families.
    select : {"slope", "decrease"}
        Choose the weak ranker along which the risk decreases most steeply, or the one whose full
        step decreases it most.
    step : {"exact", "bound"}
        ``log(d+ / d-) / 2`` from the weights of the pairs ordered correctly and wrongly, or
        ``log((1 + r) / (1 - r)) / 2`` from the edge ``r = d+ - d-``, which is more conservative.
    nonnegative : bool
        Only take steps along weak rankers with a positive edge, as Rudin & Schapire do; the family
        is then not closed under complements unless it contains them. With stumps or features the
        score never decreases when a feature increases; with stumps a missing value may count for
        or against a row. Such steps may end above the minimum of the risk, even above the minimum
        over non-negative weights (Connamacher et al., lemma 3).
    n_estimators : int or "auto"
        Number of rounds. "auto" chooses it on held-out queries (rows of a single list): the fewest
        rounds within one standard error of the best. All rows are then fitted; `selection_` has
        the numbers. The first `eval_metric` is monitored, on the first `eval_set` if there is one.
    learning_rate : float in (0, 1]
        Every step is multiplied by it. The algorithms of the papers take full steps, 1.0; smaller
        steps, such as 0.1, usually rank new data better but need more rounds.
    max_bins : int from 2 to 255
        Maximum number of bins of a feature; features with fewer distinct values are exact.
    max_features : float in (0, 1]
        Share of the features that may be used in a round, drawn anew in every round.
    monotone_constraints : list of -1, 0 and 1, or dict of column to -1 or 1, optional
        With stumps, the score must decrease (-1) or increase (1) with a feature; columns by number
        or name. Constraints apply to present values only; missing values may rank either way.
    early_stopping_rounds : int, optional
        Stop when the first metric of the first `eval_set` has not improved for this many
        rounds, and keep the rounds up to the best.
    eval_metric : str, function or list of them, optional
        Such as "ndcg@10"; a function takes (y, scores, qid) and returns (name, value,
        greater_is_better). The default is the share of pairs in order.
    callbacks : list of functions, optional
        Each is called with a `Progress` after every round; one that returns True ends the fit.
    warm_start : bool
        Continue from the last fit, with a larger `n_estimators`; the model is that of one
        longer fit.
    random_state : int or RandomState, optional
        Used if `max_features` is below 1; everything else is deterministic.
    n_jobs : int, optional
        Number of threads; None means all cores. The model is the same to the bit for any number.
    device : {"cpu", "cuda"}
        Device on which stumps or trees are searched; the model is the same to the bit. "cuda" needs
        an NVIDIA GPU and the extra ``precede[cuda13]`` or ``precede[cuda12]``, and
        ``select="slope"``. Without explicit pairs whole rounds run on the device, except for
        queries of very many grades and long queries with `rank_weight`.
    verbose : int
        1 shows a progress bar.

    Notes
    -----
    A round costs O(n) for the gradient and O(n) for each feature that is searched; the search skips
    features that cannot win (see `Stumps`). `select="decrease"` costs O(n) for every feature.
    Memory is one byte per cell and about 150 bytes per row. The order of the rows, the number of
    threads and the names of the queries do not affect the model.

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
