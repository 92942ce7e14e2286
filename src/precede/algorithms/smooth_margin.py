"""Smooth margin ranking: boosting for a large margin, with bounds on the best margin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import scipy.optimize
from sklearn.exceptions import ConvergenceWarning

from precede.boosting.coordinate_descent import NOTHING_LEFT, Plan
from precede.boosting.loop import Callback, History, Result, RoundValues, Stop
from precede.boosting.steps import ExactStep, Step, StepRule
from precede.engine.arrays import Array, Floats, Integers
from precede.engine.compiling import njit
from precede.engine.exact import all_reduce_min, all_reduce_sum
from precede.engine.execution import Context
from precede.engine.parameters import check_bool, check_range
from precede.engine.portable import fmin, log_of
from precede.engine.query_layout import QueryLayout
from precede.estimator import BaseRanker, FitContext, Saved
from precede.judgments import Judgments
from precede.margin import net_weights, refuse_ties, smooth_step, weight_norm
from precede.model import Ensemble, number
from precede.risks.base import BoundRisk, State
from precede.risks.line_search import last_step
from precede.risks.pair_risk import PairRisk
from precede.risks.terms import least_margin, level_extrema
from precede.weak_rankers.base import (
    Family,
    Search,
    SearchResult,
    WeakRanker,
    family,
    require_exhaustive,
)

# Maximum step of a line search relative to the norm of the weights; a weak ranker that orders every
# pair would have an infinite step.
MAX_STEP_RATIO = 10.0
# The search returns a weak ranker within 2^-40 of the best, and pulls are rounded to 2^-61.
EDGE_ROUNDING = 2.0**-39
PULL_ROUNDING = 2.0**-60


def _read_interval(ends: list[float], name: str) -> tuple[float, float]:
    """Return an interval from a model file."""
    if not isinstance(ends, list) or len(ends) != 2:
        raise ValueError(f"{name} of the model is not a pair of numbers")
    return number(ends[0], name), number(ends[1], name)


class SmoothMarginRanker(BaseRanker):
    """Boosting for a large margin over all pairs, with an interval around the best margin.

    Maximizes the *smooth margin* ``G = -log(sum over pairs of exp(-(f_i - f_k))) / norm``, which
    is below the margin ``min over pairs of (f_i - f_k) / norm`` and tends to it as the norm
    ``sum_j |weight_j|`` grows. As long as G is not positive the rounds are those of coordinate
    descent RankBoost.

    Every round certifies an interval that contains the best margin of all weighted sums of the weak
    rankers: for any distribution over the pairs the largest edge is an upper bound, and the margin
    of the model is a lower bound. Theorem 8 of the paper proves that the
    margin converges to the best one where the condition of theorem 7 holds in every round
    (``history_["progress_condition"]``); the interval holds in any case.

    Parameters
    ----------
    weak_rankers : {"stumps", "features", "columns"} or Family
        Weak rankers. For values 0 and 1 the step has a closed form; others take a line search.
        The interval needs a search that never misses the largest edge: families that are not
        `exhaustive`, such as trees, raise an error. "stumps" have their thresholds at the cuts of
        the bins, and the interval is that of the best margin of these stumps;
        ``Stumps(thresholds="all")`` searches, and certifies, all stumps.
    step : {"approximate", "exact"}
        For values 0 and 1: the closed form of equation (12), which is smooth margin ranking, or
        the step at which G is largest along the weak ranker, a line search on equation (10).
    nonnegative : bool
        Use only non-negative weights, as the paper does: the best margin and its interval are then
        those of the weak rankers without their complements.
    n_estimators : int
        Maximum number of rounds.
    tol : float
        Stop when the model separates the pairs and the certified interval is this narrow. If no
        round separates them, all `n_estimators` rounds are used, unless a round proves that no
        weighted sum separates them.
    max_bins, eval_metric, callbacks, warm_start, n_jobs, verbose
        As for `RankBoost`. Metrics of an `eval_set` are recorded; the interval determines when to
        stop. The progress bar shows the interval. A warm start continues from the weights and the
        interval of the last fit.

    Attributes
    ----------
    margin_ : float
        Minimum of ``(f(x_i) - f(x_k)) / norm`` over the pairs of the training rows.
    margin_interval_ : (float, float)
        Contains the best margin of any weighted sum of the searched weak rankers: with
        "stumps" those of at most ``max_bins - 1`` thresholds for each feature. The lower end is
        `margin_` if that is positive; if the pairs cannot be separated the best margin is 0.
    history_ : History
        After every round ``["margin"]``, ``["smooth_margin"]``, ``["lower"]`` and ``["upper"]``
        (the interval); for the pair weights before it ``["best_edge"]``, the largest edge of any
        weak ranker, and ``["progress_condition"]``: whether theorem 7 guarantees progress (G not
        negative, ``d0 < 2/3 (1 - r) (1 - r²)``, values 0 and 1).

    Notes
    -----
    *The norm.* The weight of a weak ranker is its net weight, the sum over the rounds that chose
    it. A negative weight stands for the complement ``1 - h``; in the paper the complement is a
    separate coordinate, and weights on both cancel in the scores but not in the norm. With net
    weights the margin is as large or larger, and theorem 7 still holds. Weak rankers that agree (or
    are complements) on all training rows share one weight, because ties always go to the first of
    them.

    *The interval.* Any distribution d over the pairs bounds the best margin by its largest
    absolute edge, ``max_j |d'M_j|``. The bound uses the distribution of every round and, whenever
    the number of rounds has doubled, the average since the last doubling, weighted by the steps;
    averages give tighter bounds, by a factor of 1.07 to 1.8 on four separable data sets.

    *The model* is that of the round with the largest margin, which may be before the last;
    `history_` holds all rounds. A round costs as much as one of `RankBoost`, plus O(n) for the
    margin; pairs are not enumerated. With weighted pairs the sum is weighted by
    ``w / min(1, min w)``, so that G stays below the margin, which does not depend on weights.

    References
    ----------
    Rudin & Schapire, *Margin-based Ranking and an Equivalence between AdaBoost and RankBoost*,
    JMLR 2009, section 4.2, equations (6) to (12).

    Examples
    --------
    >>> import numpy as np
    >>> from precede import SmoothMarginRanker, best_margin
    >>> X = np.random.default_rng(0).normal(size=(40, 3))
    >>> y = (X.sum(axis=1) > 0).astype(int)
    >>> model = SmoothMarginRanker(tol=0.005).fit(X, y)
    >>> low, high = model.margin_interval_
    >>> bool(high - low <= 0.005), bool(low <= best_margin(X, y) <= high)
    (True, True)
    """

    weak_rankers: str | Family = "stumps"
    step: str = "approximate"
    nonnegative: bool = False
    n_estimators: int = 10_000
    max_bins: int = 255
    tol: float = 0.01
    eval_metric: object = None
    callbacks: Sequence[Callback] | None = None
    warm_start: bool = False
    n_jobs: int | None = None
    verbose: int = 0

    resumes_from = ("log_risk", "margin", "lower", "upper")
    takes_init_score = False  # the margin is that of the weak rankers alone
    saved_attributes = MappingProxyType(
        {"margin_": Saved(number), "margin_interval_": Saved(_read_interval)}
    )

    def plan(self, stop: Stop) -> Plan:
        """Return the risk, the weak rankers and the step of this algorithm."""
        return Plan(
            risk=PairRisk("exponential", "linear", balance="pairs"),
            weak_rankers=require_exhaustive(
                self.weak_rankers, "an interval around the best margin"
            ),
            step=SmoothMarginStep(exact=self.step == "exact"),
            stop=stop | NarrowInterval(self.tol),
            nonnegative=self.nonnegative,
        )

    def judgments_to_learn(self, judgments: Judgments) -> Judgments:
        """Return the judgments; raise ValueError for pairs judged as ties."""
        refuse_ties(judgments)
        return judgments

    def check_parameters(self) -> None:
        """Raise ValueError for an invalid parameter."""
        super().check_parameters()
        check_range("tol", self.tol, 0.0, 1.0)
        check_bool("nonnegative", self.nonnegative)
        if self.step not in ("approximate", "exact"):
            raise ValueError(f"step={self.step!r} is unknown; use 'approximate' or 'exact'")

    def _search_settings(self) -> tuple[Family, int, bool]:
        return family(self.weak_rankers), self.max_bins, bool(self.nonnegative)

    def before_rounds(self, task: FitContext) -> None:
        """Raise ValueError if the interval of the model to continue from would not hold."""
        searched = getattr(self, "_searched_", self._search_settings())
        if self._continues and task.checkpoint is None and searched != self._search_settings():
            raise ValueError(
                "warm_start=True with other weak_rankers, max_bins or nonnegative than the last "
                "fit: the interval certified so far would not hold; set warm_start=False"
            )

    def boost(self, task: FitContext) -> Result:
        """Keep the rounds up to the one of the largest margin, if the pairs were separated."""
        result = super().boost(task)
        history = result.history
        if not len(history) or history[-1]["lower"] <= 0:
            return result
        best = int(np.nanargmax(history["margin"])) + 1  # may be a round before a warm start
        return replace(result, ensemble=result.ensemble.first(best), scores=None)

    def after_rounds(self, result: Result, task: FitContext) -> None:
        """Set the margin and the interval of the best margin."""
        history = result.history
        low, high = (history[-1]["lower"], history[-1]["upper"]) if len(history) else (0.0, 0.0)
        self.n_estimators_ = self.best_iteration_ = len(self.ensemble_)
        self._searched_ = self._search_settings()
        self.margin_ = _margin(self.ensemble_, task)
        low = self.margin_ if low > 0 else low  # without the rounding errors of the rounds
        if result.reason == NOTHING_LEFT and low <= 0:  # proved by the last pair weights
            high = 0.0
        self.margin_interval_ = (low, high)

    def warn_of_result(self, result: Result, task: FitContext) -> None:
        """Warn if pairs are not separated or the interval is too wide."""
        context, (low, high) = task.training.context, self.margin_interval_
        if low <= 0:
            why = "the weak rankers cannot separate the pairs" if high <= 0 else (
                f"no weights found in {len(self.history_)} rounds separate all pairs, and the "
                f"best margin of the weak rankers is at most {high:.3g}"
            )  # fmt: skip
            why += self._searched_thresholds()
            model = (
                "the model is that of coordinate descent RankBoost. Raise n_estimators"
                if len(self.ensemble_)
                else "the model has no rounds and scores every row alike. Check whether the "
                "features are constant"
            )
            context.warn(
                f"{why}; {model}, give richer rankers, or use RankBoost for data that are not "
                "separable",
                ConvergenceWarning,
            )
        elif high - low > self.tol and result.reason.endswith(" rounds"):
            context.warn(
                f"the best margin lies in [{low:.6g}, {high:.6g}] after {len(self.history_)} "
                f"rounds{self._searched_thresholds()}, wider than the tolerance "
                f"{self.tol:g}; raise n_estimators or tol",
                ConvergenceWarning,
            )

    def check_model(self) -> None:
        """Set the settings of the search from the parameters."""
        self._searched_ = self._search_settings()

    def _searched_thresholds(self) -> str:
        """Return a remark about thresholds that were not searched, or an empty string."""
        if any(each.thresholds == "bins" for each in family(self.weak_rankers).members):
            return (
                f" (stumps at no more than {self.max_bins - 1} quantiles of a feature; "
                "weak_rankers=Stumps(thresholds='all') has all of them)"
            )
        return ""


def _margin(ensemble: Ensemble, task: FitContext) -> float:
    """Return the margin of the model on the training rows; 0 without weights."""
    norm = weight_norm(ensemble)
    scores = np.zeros(task.training.table.n_used_rows)
    for weak_ranker, weight in net_weights(ensemble).items():
        scores += weight * weak_ranker.on(task.training.table)
    margin = least_margin(task.training.layout, scores, task.training.context)
    return margin / norm if norm > 0 else 0.0


@dataclass(frozen=True)
class NarrowInterval(Stop):
    """Stop when the interval of the best margin is narrow enough."""

    tol: float

    def reason(self, history: History) -> str | None:
        """Return a reason once the pairs are separated and the interval is narrow enough."""
        low, high = (history[-1]["lower"], history[-1]["upper"]) if len(history) else (0.0, 1.0)
        if low <= 0 or high - low > self.tol:
            return None
        return "the best margin is known within the tolerance"


class SmoothMarginStep(StepRule):
    """Step of RS09 eq. (12); keeps the weights, their norm and the interval of the best margin.

    With `exact`, and for weak rankers with values other than 0 and 1, it is the step of eq. (10).
    An instance is used for one fit.
    """

    warns_if_smoothed = False

    def __init__(self, *, exact: bool = False):
        self.exact = exact

    def start(self, search: Search, ensemble: Ensemble, history: History) -> None:  # noqa: ARG002
        """Continue the interval of an earlier fit."""
        self._search = search
        self._weights: dict[WeakRanker, float] = {}
        self._norm = 0.0
        last = history[-1] if len(history) else {}
        self._lower, self._upper = last.get("lower", 0.0), last.get("upper", math.inf)
        self._round = 0
        # The average of the pulls restarts after every round that is a power of two.
        self._average_start = 1 << len(history).bit_length() - 1 if len(history) else 0
        self._pulls, self._steps = np.zeros(0), 0.0
        self._log_scale = math.nan
        self._round_columns: RoundValues = {}

    def replay(
        self, risk: BoundRisk, scores: Floats, weak_ranker: WeakRanker, weight: float
    ) -> None:
        """Repeat the updates of weights, norm and average pull of an earlier round.

        O(n) only for the rounds since the average restarted.
        """
        if not self._pulls.size:
            self._pulls = np.zeros(scores.size)
        if self._round >= self._average_start:
            self._update_weights(weak_ranker, weight, risk.state(scores).pull)
        else:
            self._update_weights(weak_ranker, weight, None)
        self._round += 1
        if _is_power_of_two(self._round):
            self._begin_average()

    def step(self, risk: BoundRisk, state: State, found: SearchResult, values: Array) -> Step:
        """Return the closed form for binary values, or search; RankBoost's step while G <= 0."""
        if math.isnan(self._log_scale):
            self._log_scale = _log_scale(risk.layout, risk.context)
            self._rows = all_reduce_sum(lambda: state.pull.size, risk.context)
        if not self._pulls.size:
            self._pulls = np.zeros(state.pull.size)
        smooth = self._smooth_margin(state.log_value)
        self._certify(found.edge, self._rows)
        binary = values.dtype == np.uint8
        promised = False
        if smooth <= 0:
            step = ExactStep().step(risk, state, found, values)
            if not binary:  # ordering all pairs does not imply the best margin
                step = Step(step.size, step.smoothed)
        elif binary and not self.exact:
            step, promised = self._closed_form_step(risk, state, smooth, found, values)
        else:
            step = Step(self._line_search(risk, state, found, values))
        if step.perfect:
            step = Step(last_step(risk, state, values, step.size), perfect=True, unshrunk=True)
        self._round_columns = {"best_edge": abs(found.edge), "progress_condition": promised}
        self._update_weights(found.weak_ranker, step.size, state.pull)
        return step

    def record(self, risk: BoundRisk, state: State) -> RoundValues:
        """Return margins and interval after the round."""
        self._round += 1
        margin = least_margin(risk.layout, state.scores, risk.context)
        margin = margin / self._norm if self._norm else 0.0
        self._lower = max(self._lower, margin)
        if _is_power_of_two(self._round):
            self._certify_average()
        return {
            "margin": margin,
            "smooth_margin": self._smooth_margin(state.log_value),
            **self._round_columns,
            "lower": self._lower,
            "upper": self._upper,
        }

    def _smooth_margin(self, log_value: float, norm: float | None = None) -> float:
        norm = self._norm if norm is None else norm
        return -(log_value + self._log_scale) / norm if norm > 0 else -math.inf

    def _closed_form_step(
        self, risk: BoundRisk, state: State, smooth: float, found: SearchResult, values: Array
    ) -> tuple[Step, bool]:
        """Return the step of RS09 eq. (12), and whether theorem 7 guarantees progress."""
        edge_weights = risk.edge_weights(state, values)
        sign = 1.0 if edge_weights.edge > 0 else -1.0
        wrong, right = sorted((edge_weights.correct, edge_weights.wrong))
        tied, edge = edge_weights.tied, right - wrong
        if wrong == 0 and smooth * tied == 0:  # G has no maximum
            return ExactStep().step(risk, state, found, values), False
        size = smooth_step(right, wrong, tied, smooth)
        promised = smooth < edge < 1 and tied < 2 / 3 * (1 - edge) * (1 - edge * edge)
        return Step(sign * max(size, 0.0)), promised

    def _line_search(
        self, risk: BoundRisk, state: State, found: SearchResult, values: Array
    ) -> float:
        """Maximize G along the weak ranker (RS09 eq. 10); G is quasi-concave along lines."""
        sign = 1.0 if found.edge > 0 else -1.0
        before = self._weights.get(found.weak_ranker, 0.0)

        def slope_at(step: float) -> float:
            at = risk.state(state.scores + sign * step * values)
            here = before + sign * step
            norm = self._norm - abs(before) + abs(here)
            grows = 1.0 if sign * here >= 0 else -1.0
            return sign * risk.edge(at, values) - grows * self._smooth_margin(at.log_value, norm)

        longest = MAX_STEP_RATIO * self._norm
        reach = min(1.0 / risk.terms.width(values), longest)
        while slope_at(reach) > 0:
            if reach >= longest:
                return sign * longest
            reach = min(2 * reach, longest)
        if slope_at(0.0) <= 0:
            return 0.0
        return sign * float(scipy.optimize.brentq(slope_at, 0.0, reach, xtol=1e-12 * reach))

    def _update_weights(self, weak_ranker: WeakRanker, step: float, pull: Floats | None) -> None:
        """Add `step` to the weight of a weak ranker, and its pull to the average unless None."""
        before = self._weights.get(weak_ranker, 0.0)
        self._weights[weak_ranker] = before + step
        self._norm += abs(before + step) - abs(before)
        if pull is not None:
            self._pulls += abs(step) * pull
            self._steps += abs(step)

    def _certify(self, edge: float, rows: int) -> None:
        bound = abs(edge) * (1 + EDGE_ROUNDING) + rows * PULL_ROUNDING
        self._upper = min(self._upper, bound)

    def _certify_average(self) -> None:
        """Bound the best margin by the average pull since the last restart."""
        if self._steps > 0:
            found = self._search.best(self._pulls / self._steps)
            self._certify(0.0 if found is None else found.edge, self._rows)
        self._begin_average()

    def _begin_average(self) -> None:
        self._pulls[:], self._steps = 0.0, 0.0
        self._norm = math.fsum(map(abs, self._weights.values()))


def _is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


def _log_scale(layout: QueryLayout, context: Context) -> float:
    """Return the log of the factor that scales the least pair weight to 1, if below 1."""
    if layout.queries_span_machines:
        lightest = level_extrema(layout, layout.weight, context)[0]
        below = np.minimum.accumulate(level_extrema(layout, layout.loser_weight, context)[0])
        return -log_of(min(1.0, float((lightest[1:] * below[:-1]).min())))
    least = float(
        _least_pair_weight(
            layout.level_start, layout.query_start, layout.weight, layout.loser_weight
        )
    )
    listed = layout.pair_weight * layout.weight[layout.winner]
    listed = listed * layout.loser_weight[layout.loser]
    least = min(1.0, least, float(listed.min(initial=np.inf)))
    return -log_of(all_reduce_min(lambda: least, context))


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _least_pair_weight(
    level_start: Integers, query_start: Integers, weight: Floats, loser_weight: Floats
) -> float:
    """Return the least product of the weights of a winner and a loser of a pair."""
    least = np.inf
    for query in range(query_start.size - 1):
        below = np.inf  # the least weight of a loser in the levels below
        for level in range(query_start[query], query_start[query + 1]):
            winner, loser = np.inf, np.inf
            for row in range(level_start[level], level_start[level + 1]):
                winner, loser = fmin(winner, weight[row]), fmin(loser, loser_weight[row])
            if level > query_start[query]:
                least = fmin(least, winner * below)
            below = fmin(below, loser)
    return least
