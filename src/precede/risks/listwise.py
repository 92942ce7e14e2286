"""Losses of whole lists: cross entropies, and squares within a query.

Each is a sum over queries that takes O(n), with its exact gradient and the diagonal of its Hessian.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from precede.engine.arrays import Bytes, Floats, Integers
from precede.engine.compiling import INNER
from precede.engine.exact import exact_sum, exact_sums
from precede.engine.execution import Context, is_small
from precede.engine.portable import exp, exp2, log, log_of
from precede.engine.portable_kernels import portable_exp, portable_log, portable_log1p
from precede.engine.query_layout import QueryLayout
from precede.risks.base import BoundRisk, EdgeWeights, Risk, State, pair_totals
from precede.risks.links import Link

__all__ = ["LISTWISE", "BoundListRisk", "ListRisk"]

LISTWISE = ("softmax", "xendcg", "query_rmse", "query_cross_entropy")


class ListRisk(Risk):
    """A loss of whole lists: the risk behind ``BoostedRanker(loss="softmax")`` and the like.

    With the grades g, scores s and weights w of the items of a query, and
    ``ρ_i = w_i exp(s_i) / sum_j w_j exp(s_j)``:

    =====================  =======================================================================
    "softmax"              ``-sum_i p_i log ρ_i`` with ``p_i`` proportional to ``w_i exp(g_i)``
                           (ListNet)
    "xendcg"               the same with ``p_i`` proportional to ``w_i (2^g_i - 1/2)`` (XE-NDCG)
    "query_rmse"           ``sum_i w_i (r_i - r̄)² / sum_i w_i`` with ``r_i = g_i - s_i`` and their
                           mean r̄: squared differences of the errors of all pairs, none of which
                           is listed
    "query_cross_entropy"  ``min_b sum_i w_i (log(1 + exp(s_i + b)) - g_i (s_i + b)) / sum_i w_i``:
                           the log loss of two classes, 0 and 1, or of grades in between, after the
                           best shift b of the list
    =====================  =======================================================================

    XE-NDCG draws a number γ from [0, 1] for ``2^g - γ``; here it is its expectation, 1/2, so that
    the fit is deterministic. It bounds NDCG for any such γ.

    "query_rmse" and "query_cross_entropy" are regression and logistic regression with an intercept
    for each query, which does not change the ranking. In a single list of two classes the latter is
    the log loss of a classifier.

    Parameters
    ----------
    kind : {"softmax", "xendcg", "query_rmse", "query_cross_entropy"}
    balance : {"pairs", "queries", "items"}
        What the loss of a query is multiplied by: its number of pairs, 1, or its number of items.

    Notes
    -----
    O(n); the shift of "query_cross_entropy" takes a few more passes over the rows. As in risks of
    pairs, queries whose grades are all equal take no part. An item of weight 2 is two items.

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
        """That of logistic regression for "query_cross_entropy"; the others have none."""
        return Link(1.0) if self.kind == "query_cross_entropy" else None

    def bind(self, layout: QueryLayout, context: Context | None = None) -> BoundListRisk:
        """Prepare the risk for the loop."""
        return BoundListRisk(self.kind, layout, context)

    def __repr__(self) -> str:
        return f"ListRisk({self.kind!r}, balance={self.balance!r})"


class BoundListRisk(BoundRisk):
    """`ListRisk` on the rows of a layout; half the sum of absolute pulls is its mass.

    `State.parts` holds the curvature, divided by the mass as the pull is.
    """

    negligible = 1e-12

    def __init__(self, kind: str, layout: QueryLayout, context: Context | None = None):
        super().__init__(layout, context)
        if layout.winner.size:
            raise ValueError(
                f"loss={kind!r} reads the grades of whole lists, but there are listed pairs; use "
                "a pair loss such as 'logistic'"
            )
        self.kind = kind
        graded = layout.n_graded
        self._first = layout.level_start[layout.query_start]
        self._small = is_small("exponentials", graded)
        sizes = np.diff(self._first)
        totals = 0.5 * pair_totals(layout)[:graded]
        self._weight_of_query = np.add.reduceat(totals, self._first[:-1]) if sizes.size else totals
        self._log_queries = float(np.log(exact_sum(self._weight_of_query, self.context)))
        self._log_weight = log(layout.weight[:graded])
        self._target = layout.grade[:graded].copy()
        if kind == "query_cross_entropy":
            self._target = self._chances()
        elif kind != "query_rmse":
            self._target = self._distribution(sizes)

    def _distribution(self, sizes: Integers) -> Floats:
        """The distribution p of every query."""
        layout, graded = self.layout, self.layout.n_graded
        grade, weight = layout.grade[:graded], layout.weight[:graded]
        # Grades rise within a query; relative to the largest nothing overflows.
        top = np.repeat(grade[self._first[1:] - 1], sizes)
        if self.kind == "softmax":
            share = weight * exp(grade - top)
        else:
            if grade.min(initial=0.0) < 0:
                raise ValueError(
                    f"loss='xendcg' needs grades from 0, but there is a grade of {grade.min():g}; "
                    "use loss='softmax', or add a constant to the grades"
                )
            share = weight * (exp2(grade - top) - 0.5 * exp2(-top))
        total = np.add.reduceat(share, self._first[:-1]) if sizes.size else share
        return share / np.repeat(total, sizes)

    def _chances(self) -> Floats:
        """The grades, which must be chances; two other classes of one list are 0 and 1."""
        grade = self.layout.grade[: self.layout.n_graded]
        wrong = grade[(grade < 0) | (grade > 1)]
        if wrong.size and self.queries == 1 and self.layout.level_start.size == 3:
            return (grade == grade[-1]).astype(np.float64)
        if wrong.size:
            raise ValueError(
                f"loss='query_cross_entropy' needs grades from 0 to 1, but there is a grade of "
                f"{wrong[0]:g}; divide the grades by the largest, or use loss='query_rmse'"
            )
        return grade.copy()

    def state(self, scores: Floats) -> State:
        """Risk, pull and curvature at these scores."""
        layout, queries = self.layout, self._first.size - 1
        pull, hessian = np.zeros(layout.n_used_rows), np.zeros(layout.n_used_rows)
        values = np.zeros(queries)
        kernel = KERNELS.get(self.kind, _entropies_of_queries)
        more = [self._log_weight] if kernel is _entropies_of_queries else []
        self.context.run(
            kernel, queries, self._first, scores, layout.weight, self._target,
            self._weight_of_query, values, pull, hessian, *more, small=self._small,
        )  # fmt: skip
        value, twice = exact_sums([values, np.abs(pull)], self.context)
        mass = 0.5 * twice
        log_value, log_gradient_sum = (-np.inf if x <= 0 else log_of(x) for x in (value, mass))
        if mass <= 0:
            return State(
                scores, log_value, log_gradient_sum, np.zeros_like(pull), np.zeros_like(hessian)
            )
        return State(scores, log_value, log_gradient_sum, pull / mass, hessian / mass)

    def curvature(self, state: State) -> Floats:
        """Diagonal of the second derivative over the mass: known with the state."""
        hessian: Floats = state.parts
        return hessian

    def terms(self) -> Floats:
        """One term for every row."""
        return np.ones(self.layout.n_used_rows)

    def log_mean_payment(self, log_value: float) -> float:
        """Logarithm of the mean loss of a query, by the weights of the queries."""
        return log_value - self._log_queries

    def edge_weights(self, state: State, values: Bytes) -> EdgeWeights:  # noqa: ARG002
        """Not known: a list is no set of pairs."""
        raise ValueError(f"loss={self.kind!r} has no masses; use weak_rankers='trees'")


# -- kernels ---------------------------------------------------------------------------------


# Loops over one array take several numbers at a time: exponentials have loops of their own, in
# arrays that are filled with results later.


@njit(cache=True, nogil=True, error_model="numpy")
def _entropies_of_queries(
    low: int, high: int, first: Integers, scores: Floats, weight: Floats, target: Floats,
    of_query: Floats, values: Floats, pull: Floats, hessian: Floats, log_weight: Floats,
) -> None:  # fmt: skip
    """Cross entropy of target and softmax of every query, with its derivatives."""
    for query in range(low, high):
        start, end = first[query], first[query + 1]
        terms, most = hessian[start:end], scores[start:end].max()
        for j in range(terms.size):
            terms[j] = scores[start + j] - most
        _exps(terms)
        total = 0.0
        for j in range(terms.size):
            terms[j] *= weight[start + j]
            total += terms[j]
        log_total = portable_log(total) + most
        value = 0.0
        for row in range(start, end):
            value -= target[row] * (log_weight[row] + scores[row] - log_total)
        for row in range(start, end):
            share = hessian[row] / total
            pull[row] = of_query[query] * (target[row] - share)
            hessian[row] = of_query[query] * share * max(1.0 - share, 0.0)
        values[query] = of_query[query] * max(value, 0.0)


@njit(cache=True, nogil=True)
def _squares_of_queries(
    low: int, high: int, first: Integers, scores: Floats, weight: Floats, target: Floats,
    of_query: Floats, values: Floats, pull: Floats, hessian: Floats,
) -> None:  # fmt: skip
    """Mean squared distance of the errors of every query from their mean, with its derivatives."""
    for query in range(low, high):
        start, end = first[query], first[query + 1]
        items, mean = 0.0, 0.0
        for row in range(start, end):
            items += weight[row]
            mean += weight[row] * (target[row] - scores[row])
        mean /= items
        value = 0.0
        for row in range(start, end):
            away = target[row] - scores[row] - mean
            share = of_query[query] * weight[row] / items
            value += share * away * away
            pull[row] = 2.0 * share * away
            hessian[row] = 2.0 * share * (1.0 - weight[row] / items)
        values[query] = value


@njit(cache=True, nogil=True, error_model="numpy")
def _chances_of_queries(
    low: int, high: int, first: Integers, scores: Floats, weight: Floats, target: Floats,
    of_query: Floats, values: Floats, pull: Floats, hessian: Floats,
) -> None:  # fmt: skip
    """Mean log loss of every query after its best shift, with its derivatives.

    The derivative of the shift itself does not matter at its best, but for the curvature.
    """
    for query in range(low, high):
        start, end = first[query], first[query + 1]
        items, wanted = 0.0, 0.0
        for row in range(start, end):
            items += weight[row]
            wanted += weight[row] * target[row]
        log_odds = portable_log(wanted / (items - wanted))
        tails, logs = hessian[start:end], pull[start:end]
        shift = _best_shift(scores[start:end], weight[start:end], items, log_odds, tails)
        _fill_tails(scores[start:end], shift, tails)
        for j in range(tails.size):
            logs[j] = tails[j]
        _logs(logs)
        value, spread = 0.0, 0.0
        for row in range(start, end):
            at, share, tail = scores[row] + shift, weight[row] / items, hessian[row]
            chance = (1.0 if at >= 0.0 else tail) / (1.0 + tail)
            value += share * (pull[row] + max(at, 0.0) - target[row] * at)
            pull[row] = of_query[query] * share * (target[row] - chance)
            hessian[row] = share * tail / ((1.0 + tail) * (1.0 + tail))
            spread += hessian[row]
        values[query] = of_query[query] * max(value, 0.0)
        for row in range(start, end):
            others = max(1.0 - hessian[row] / spread, 0.0) if spread > 0.0 else 0.0
            hessian[row] *= of_query[query] * others


@njit(**INNER, error_model="numpy")
def _best_shift(
    scores: Floats, weight: Floats, items: float, log_odds: float, tails: Floats
) -> float:
    """The shift after which the mean chance has the given log odds.

    Newton's method on the log odds, which rise by at most 1 for each unit of the shift, in a
    bracket that halves where a step leaves it. `tails` is room for a number of each row.
    """
    low, high = log_odds - scores.max(), log_odds - scores.min()
    shift = low + 0.5 * (high - low)
    for _ in range(100):
        total, rest, slope = 0.0, 0.0, 0.0
        _fill_tails(scores, shift, tails)
        for row in range(scores.size):
            tail = tails[row]
            likely, unlikely = weight[row] / (1.0 + tail), weight[row] * tail / (1.0 + tail)
            above = scores[row] + shift >= 0.0
            total += likely if above else unlikely
            rest += unlikely if above else likely
            slope += unlikely / (1.0 + tail)
        before = shift
        short = log_odds - portable_log(total) + portable_log(rest)
        if short > 0.0:
            low = shift
        else:
            high = shift
        shift += short * (total / items) * rest / max(slope, 1e-300)
        if not low <= shift <= high:
            shift = low + 0.5 * (high - low)
        if abs(shift - before) <= 1e-9:  # the next step would be below rounding
            break
    return shift


@njit(**INNER)
def _fill_tails(scores: Floats, shift: float, tails: Floats) -> None:
    """``exp(-|score + shift|)`` of every row."""
    for row in range(tails.size):
        tails[row] = -abs(scores[row] + shift)
    _exps(tails)


@njit(**INNER)
def _exps(values: Floats) -> None:
    for row in range(values.size):
        values[row] = portable_exp(values[row])


@njit(**INNER)
def _logs(values: Floats) -> None:
    """``log(1 + x)`` of every number."""
    for row in range(values.size):
        values[row] = portable_log1p(values[row])


KERNELS = {"query_rmse": _squares_of_queries, "query_cross_entropy": _chances_of_queries}
