"""Listwise losses: cross entropies and squared errors within a query.

Each is a sum over queries, computed in O(n) with its exact gradient and the diagonal of its
Hessian.
"""

from __future__ import annotations

import numpy as np

from precede.engine.arrays import Floats, Integers
from precede.engine.compiling import INLINED, INNER, njit
from precede.engine.exact import exact_sum, exact_sums
from precede.engine.execution import Context, threads_for
from precede.engine.portable import (
    exp,
    exp2,
    exp_array,
    fmax,
    fmin,
    log,
    portable_log,
    portable_log1p,
)  # fmt: skip
from precede.engine.query_layout import QueryLayout
from precede.risks.base import BoundRisk, Risk, State
from precede.risks.links import Link
from precede.risks.terms import pair_totals

LISTWISE = ("softmax", "xendcg", "query_rmse", "query_cross_entropy")


class ListRisk(Risk):
    """A listwise loss, as in ``BoostedRanker(loss="softmax")``.

    With the grades g, scores s and weights w of the items of a query, and
    ``ρ_i = w_i exp(s_i) / sum_j w_j exp(s_j)``:

    =====================  =======================================================================
    "softmax"              ``-sum_i p_i log ρ_i`` with ``p_i`` proportional to ``w_i exp(g_i)``
                           (ListNet)
    "xendcg"               the same with ``p_i`` proportional to ``w_i (2^g_i - 1/2)`` (XE-NDCG)
    "query_rmse"           ``sum_i w_i (r_i - r̄)² / sum_i w_i`` with ``r_i = g_i - s_i`` and their
                           mean r̄: the squared differences of the errors of all pairs,
                           without enumerating them
    "query_cross_entropy"  ``min_b sum_i w_i (log(1 + exp(s_i + b)) - g_i (s_i + b)) / sum_i w_i``:
                           the log loss of two classes, 0 and 1, or of grades in between, after the
                           best shift b of the list
    =====================  =======================================================================

    XE-NDCG draws γ from [0, 1] for ``2^g - γ``; here γ is its expectation, 1/2, so that the fit is
    deterministic. The loss bounds NDCG for any such γ.

    "query_rmse" and "query_cross_entropy" are regression and logistic regression with an intercept
    for each query, which does not change the ranking. In a single list of two classes the latter is
    the log loss of a classifier.

    Parameters
    ----------
    kind : {"softmax", "xendcg", "query_rmse", "query_cross_entropy"}
    balance : {"pairs", "queries", "items"}
        Weight of a query: its number of pairs, 1, or its number of items.

    Notes
    -----
    O(n); the shift of "query_cross_entropy" takes a few more passes over the rows. As in pairwise
    risks, queries whose grades are all equal are ignored. An item of weight 2 counts as two items.

    References
    ----------
    Cao, Qin, Liu, Tsai & Li, *Learning to Rank: From Pairwise Approach to Listwise Approach*, ICML
    2007. Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, WWW 2021.

    Examples
    --------
    >>> from precede import BoostedRanker
    >>> from precede.datasets import search_results
    >>> sample = search_results(30, features=6, informative=4, per_query=30, random_state=0)
    >>> model = BoostedRanker(loss="softmax", n_estimators=20)
    >>> risk = model.fit(sample.X, sample.y, qid=sample.qid).history_["risk"]
    >>> bool(risk[-1] < risk[0])
    True
    """

    distributable = True

    def __init__(self, kind: str, *, balance: str = "queries"):
        if kind not in LISTWISE:
            raise ValueError(f"loss={kind!r} is unknown; use one of {', '.join(LISTWISE)}")
        self.kind = kind
        self.balance = balance

    @property
    def link(self) -> Link | None:
        """Link of logistic regression for "query_cross_entropy"; None for the others."""
        return Link(1.0) if self.kind == "query_cross_entropy" else None

    def bind(self, layout: QueryLayout, context: Context | None = None) -> BoundListRisk:
        """Bind the risk to the rows of a layout."""
        return BoundListRisk(self.kind, layout, context)

    def __repr__(self) -> str:
        return f"ListRisk({self.kind!r}, balance={self.balance!r})"


class BoundListRisk(BoundRisk):
    """`ListRisk` bound to a layout; its gradient sum is half the sum of absolute pulls.

    `State.cache` holds the curvature, divided by the gradient sum.
    """

    def __init__(self, kind: str, layout: QueryLayout, context: Context | None = None):
        super().__init__(layout, context)
        if layout.winner.size:
            raise ValueError(
                f"loss={kind!r} reads the grades of whole lists, but there are listed pairs; use "
                "a pair loss such as 'logistic'"
            )
        self.kind = kind
        graded = layout.n_graded
        self._query_start = layout.query_rows
        self._threads = threads_for("exponentials", graded)
        sizes = np.diff(self._query_start)
        totals = 0.5 * pair_totals(layout)[:graded]
        self._query_weight = (
            np.add.reduceat(totals, self._query_start[:-1]) if sizes.size else totals
        )
        self._log_total_weight = float(np.log(exact_sum(self._query_weight, self.context)))
        self._log_weight = log(layout.weight[:graded])
        self._target = layout.grade[:graded].copy()
        if kind == "query_cross_entropy":
            self._target = self._target_probabilities()
        elif kind != "query_rmse":
            self._target = self._distribution(sizes)

    def _distribution(self, sizes: Integers) -> Floats:
        """Return the target distribution p of each query."""
        layout, graded = self.layout, self.layout.n_graded
        grade, weight = layout.grade[:graded], layout.weight[:graded]
        # Grades increase within a query; relative to the largest, nothing overflows.
        max_grade = np.repeat(grade[self._query_start[1:] - 1], sizes)
        if self.kind == "softmax":
            share = weight * exp(grade - max_grade)
        else:
            if grade.min(initial=0.0) < 0:
                raise ValueError(
                    f"loss='xendcg' needs grades from 0, but there is a grade of {grade.min():g}; "
                    "use loss='softmax', or add a constant to the grades"
                )
            share = weight * (exp2(grade - max_grade) - 0.5 * exp2(-max_grade))
        total = np.add.reduceat(share, self._query_start[:-1]) if sizes.size else share
        return share / np.repeat(total, sizes)

    def _target_probabilities(self) -> Floats:
        """Return the grades as probabilities; two classes of a single list become 0 and 1."""
        grade = self.layout.grade[: self.layout.n_graded]
        out_of_range = grade[(grade < 0) | (grade > 1)]
        if out_of_range.size and self.n_queries == 1 and self.layout.level_start.size == 3:
            return (grade == grade[-1]).astype(np.float64)
        if out_of_range.size:
            raise ValueError(
                f"loss='query_cross_entropy' needs grades from 0 to 1, but there is a grade of "
                f"{out_of_range[0]:g}; divide the grades by the largest, or use loss='query_rmse'"
            )
        return grade.copy()

    def state(self, scores: Floats) -> State:
        """Return risk, pull and curvature at these scores."""
        layout, queries = self.layout, self.layout.n_queries
        pull, hessian = np.zeros(layout.n_used_rows), np.zeros(layout.n_used_rows)
        values = np.zeros(queries)
        kernel = KERNELS.get(self.kind, _softmax_cross_entropy)
        extra = [self._log_weight] if kernel is _softmax_cross_entropy else []
        self.context.run(
            kernel, queries, self._query_start, scores, layout.weight, self._target,
            self._query_weight, values, pull, hessian, *extra, threads=self._threads,
        )  # fmt: skip
        value, abs_pull_sum = exact_sums([values, np.abs(pull)], self.context)
        return self._normalized_state(scores, value, 0.5 * abs_pull_sum, pull, hessian)

    def curvature(self, state: State) -> Floats:
        """Return the diagonal of the Hessian over the gradient sum, stored in the state."""
        hessian: Floats = state.cache
        return hessian

    def _pair_counts(self) -> Floats:
        """Return 1 for each row: a listwise loss has no pairs."""
        return np.ones(self.layout.n_used_rows)


# -- kernels ---------------------------------------------------------------------------------
#
# Exponentials are computed in separate loops, which vectorize; they use the output arrays as
# scratch memory.


@njit(cache=True, nogil=True, error_model="numpy")
def _softmax_cross_entropy(
    low: int, high: int, query_start: Integers, scores: Floats, weight: Floats, target: Floats,
    query_weight: Floats, values: Floats, pull: Floats, hessian: Floats, log_weight: Floats,
) -> None:  # fmt: skip
    """Compute the cross entropy of target and softmax of each query, with derivatives."""
    for query in range(low, high):
        start, end = query_start[query], query_start[query + 1]
        terms, max_score = hessian[start:end], -np.inf
        for row in range(start, end):
            max_score = fmax(max_score, scores[row])
        for j in range(terms.size):
            terms[j] = scores[start + j] - max_score
        exp_array(terms)
        total = 0.0
        for j in range(terms.size):
            terms[j] *= weight[start + j]
            total += terms[j]
        log_total = portable_log(total) + max_score
        value = 0.0
        for row in range(start, end):
            value -= target[row] * (log_weight[row] + scores[row] - log_total)
        for row in range(start, end):
            share = hessian[row] / total
            pull[row] = query_weight[query] * (target[row] - share)
            hessian[row] = query_weight[query] * share * fmax(1.0 - share, 0.0)
        values[query] = query_weight[query] * fmax(value, 0.0)


@njit(cache=True, nogil=True)
def _squared_error(
    low: int, high: int, query_start: Integers, scores: Floats, weight: Floats, target: Floats,
    query_weight: Floats, values: Floats, pull: Floats, hessian: Floats,
) -> None:  # fmt: skip
    """Compute the variance of the errors of each query, with derivatives."""
    for query in range(low, high):
        start, end = query_start[query], query_start[query + 1]
        total_weight, mean = 0.0, 0.0
        for row in range(start, end):
            total_weight += weight[row]
            mean += weight[row] * (target[row] - scores[row])
        mean /= total_weight
        value = 0.0
        for row in range(start, end):
            residual = target[row] - scores[row] - mean
            share = query_weight[query] * weight[row] / total_weight
            value += share * residual * residual
            pull[row] = 2.0 * share * residual
            hessian[row] = 2.0 * share * (1.0 - weight[row] / total_weight)
        values[query] = value


@njit(cache=True, nogil=True, error_model="numpy")
def _log_loss(
    low: int, high: int, query_start: Integers, scores: Floats, weight: Floats, target: Floats,
    query_weight: Floats, values: Floats, pull: Floats, hessian: Floats,
) -> None:  # fmt: skip
    """Compute the mean log loss of each query after its best shift, with derivatives.

    At its optimum the shift has no effect on the gradient, but it does on the curvature.
    """
    for query in range(low, high):
        start, end = query_start[query], query_start[query + 1]
        total_weight, target_sum = 0.0, 0.0
        for row in range(start, end):
            total_weight += weight[row]
            target_sum += weight[row] * target[row]
        log_odds = portable_log(target_sum / (total_weight - target_sum))
        tails, logs = hessian[start:end], pull[start:end]
        shift = _best_shift(scores[start:end], weight[start:end], total_weight, log_odds, tails)
        _exp_minus_abs(scores[start:end], shift, tails)
        for j in range(tails.size):
            logs[j] = tails[j]
        _log1p_array(logs)
        value, variance_sum = 0.0, 0.0
        for row in range(start, end):
            at, share, tail = scores[row] + shift, weight[row] / total_weight, hessian[row]
            probability = (1.0 if at >= 0.0 else tail) / (1.0 + tail)
            value += share * (pull[row] + fmax(at, 0.0) - target[row] * at)
            pull[row] = query_weight[query] * share * (target[row] - probability)
            hessian[row] = share * tail / ((1.0 + tail) * (1.0 + tail))
            variance_sum += hessian[row]
        values[query] = query_weight[query] * fmax(value, 0.0)
        for row in range(start, end):
            others = fmax(1.0 - hessian[row] / variance_sum, 0.0) if variance_sum > 0.0 else 0.0
            hessian[row] *= query_weight[query] * others


@njit(**INLINED, error_model="numpy")
def _best_shift(
    scores: Floats, weight: Floats, total_weight: float, log_odds: float, tails: Floats
) -> float:
    """Return the shift at which the mean probability has the given log odds.

    Newton's method on the log odds, which increase by at most 1 per unit of the shift, with
    bisection whenever a step leaves the bracket. `tails` is a scratch array.
    """
    lowest, highest = np.inf, -np.inf
    for row in range(scores.size):
        lowest, highest = fmin(lowest, scores[row]), fmax(highest, scores[row])
    low, high = log_odds - highest, log_odds - lowest
    shift = low + 0.5 * (high - low)
    for _ in range(100):
        total, complement, slope = 0.0, 0.0, 0.0
        _exp_minus_abs(scores, shift, tails)
        for row in range(scores.size):
            tail = tails[row]
            major, minor = weight[row] / (1.0 + tail), weight[row] * tail / (1.0 + tail)
            above = scores[row] + shift >= 0.0
            total += major if above else minor
            complement += minor if above else major
            slope += minor / (1.0 + tail)
        previous = shift
        gap = log_odds - portable_log(total) + portable_log(complement)
        if gap > 0.0:
            low = shift
        else:
            high = shift
        shift += gap * (total / total_weight) * complement / fmax(slope, 1e-300)
        if not low <= shift <= high:
            shift = low + 0.5 * (high - low)
        if abs(shift - previous) <= 1e-9:  # the next change would be below rounding
            break
    return shift


@njit(**INNER)
def _exp_minus_abs(scores: Floats, shift: float, tails: Floats) -> None:
    """Write ``exp(-|score + shift|)`` of each row to `tails`."""
    for row in range(tails.size):
        tails[row] = -abs(scores[row] + shift)
    exp_array(tails)


@njit(**INLINED)
def _log1p_array(values: Floats) -> None:
    """Replace each x by ``log(1 + x)``."""
    for row in range(values.size):
        values[row] = portable_log1p(values[row])


KERNELS = {"query_rmse": _squared_error, "query_cross_entropy": _log_loss}
