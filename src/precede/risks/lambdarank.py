"""LambdaRank: pairs weighted by how much exchanging the two items would change the metric.

A pair of a winner i and a loser k has weight ``w_ik = (G_i - G_k) · |D_i - D_k|``, where the gain G
increases with the grade and the discount D decreases with the rank; a floor may be added to the
difference of the discounts. Ranks are computed from the
scores at which a round begins and stay fixed during the round, so within a round the risk is a
convex function of the scores. This module computes gains, discounts and the risk;
`precede.risks.by_pair` sums over the pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from precede.engine.arrays import Array, BackendArray, Bytes, Floats, Integer, Integers
from precede.engine.backend import CPU, Backend
from precede.engine.compiling import INLINED, INNER, njit
from precede.engine.exact import all_reduce_max, all_reduce_sum, exact_sums
from precede.engine.execution import Context, threads_for
from precede.engine.parameters import check_integer
from precede.engine.portable import exp, exp2, fmin, log, log_of
from precede.engine.query_layout import QueryLayout
from precede.losses import PairLoss, Price, Separable
from precede.risks.base import BoundLossRisk, EdgeWeights, State, pair_shape
from precede.risks.by_pair import EXPONENTIAL, RankedSums, RankedTotals, RoundWeights
from precede.risks.line_search import smoothed_step
from precede.risks.terms import pair_totals

# The first ranks of a list are found by insertion if there are at most this many, else by sorting.
MAX_INSERTED_RANKS = 64
# Problems with more pairs are refused; a fit would take days.
MAX_PAIRS_PER_ROW = 50_000

# Floor of "ndcg". On subsets of 30 and 60 queries of three real data sets it was ahead of
# LambdaRank's 0 by 0.003 in NDCG@10, 0.002 in MAP and 0.003 in pair error.
NDCG_FLOOR = 0.3

Gain = str | Sequence[float] | Callable[[Floats], ArrayLike]
Discount = str | Callable[[Floats], ArrayLike] | None


@dataclass(frozen=True)
class RankWeight:
    """Weights of pairs by gain and rank: ``w_ik = (G_i - G_k) · (floor + |D_i - D_k|)``.

    Parameters
    ----------
    gain : {"exp", "linear", "relevant"}, sequence or function
        G of a grade g: ``2^g - 1``, g itself, or 1 for grades from 1 and 0 below; ``gain[g]`` for
        integer grades from 0; or a function of an array of grades. It must not decrease with the
        grade.
    discount : {"log", "top"}, function or None
        D of a rank r = 1, 2, ...: ``1 / log2(1 + r)``; ``1 / k`` for the first k; or a
        non-increasing function of an array of ranks. None ignores the ranks: ``w_ik = G_i - G_k``.
    k : int, optional
        D is 0 beyond rank k.
    blend : float from 0 to 1
        Share of unweighted pairs in the total weight of each query.
    by_ideal : bool
        Whether the weights of a query are divided by its ideal ``sum G D``, as in LambdaRank.
    floor : float
        Weight of a difference of gains whatever the ranks, at least 0. LambdaRank has 0, which
        leaves pairs far down the list without a weight.

    Notes
    -----
    Items with equal scores share their ranks: weights are the expected ones if every order of
    tied items is equally likely. Between items of different scores that is the mean discount of
    the ranks each is tied over; between tied items, the mean of ``|D_r - D_q|`` over two of their
    ranks. So the first round, where all scores are equal, does not depend on the order of the
    rows. Ranks count rows, whatever their weights, except rows of weight 0, which are ignored.

    With ``balance="pairs"`` the weights are used unchanged. With ``"queries"`` and ``"items"``
    they are scaled in each query to the total weight that the balance defines.

    References
    ----------
    Burges, Ragno & Le, *Learning to Rank with Nonsmooth Cost Functions*, NIPS 2006 (LambdaRank).

    Examples
    --------
    >>> RankWeight(floor=0.3) == rank_weight("ndcg")
    True
    >>> rank_weight("precision@5")
    RankWeight(gain='relevant', discount='top', k=5, blend=0.0, by_ideal=False, floor=0.0)
    """

    gain: Gain = "exp"
    discount: Discount = "log"
    k: int | None = None
    blend: float = 0.0
    by_ideal: bool = True
    floor: float = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.gain, str) and self.gain not in ("exp", "linear", "relevant"):
            raise ValueError(
                f"gain={self.gain!r} is unknown; use 'exp', 'linear', 'relevant', a list or a "
                "function of grades"
            )
        if isinstance(self.discount, str) and self.discount not in ("log", "top"):
            raise ValueError(
                f"discount={self.discount!r} is unknown; use 'log', 'top', None or a function of "
                "ranks"
            )
        if self.k is not None:
            check_integer("k", self.k, least=1)
        elif self.discount == "top":
            raise ValueError("discount='top' needs k, the number of ranks at the top")
        if not (_is_number(self.blend) and 0 <= self.blend <= 1):
            raise ValueError(f"blend={self.blend!r} is out of range; use a number from 0 to 1")
        if not (_is_number(self.floor) and 0 <= self.floor < np.inf):
            raise ValueError(f"floor={self.floor!r} is out of range; use a number from 0")
        if self.floor > 0 and self.discount is None:
            raise ValueError(
                f"floor={self.floor!r} is added to the gap of two discounts, and discount=None has "
                "none; leave floor out"
            )

    def gains(self, grades: Floats) -> Floats:
        """Return the gain of every grade.

        >>> RankWeight("linear").gains(np.array([0.0, 2.0]))
        array([0., 2.])
        """
        if isinstance(self.gain, str):
            with np.errstate(over="ignore"):
                gains = {
                    "exp": lambda: exp2(grades) - 1.0,
                    "linear": lambda: grades + 0.0,
                    "relevant": lambda: (grades >= 1).astype(np.float64),
                }[self.gain]()
        elif callable(self.gain):
            gains = np.asarray(self.gain(grades), np.float64)
        else:
            gains = _look_up_gains(np.asarray(self.gain, np.float64), grades)
        if gains.shape != grades.shape or not np.isfinite(gains).all():
            largest = f"{grades.max():g}" if grades.size else "none"
            raise ValueError(
                f"gain={self.gain!r} does not give a finite number for each grade (the largest is "
                f"{largest}); use gain='linear' or a function of grades"
            )
        order = np.argsort(grades, kind="stable")
        decreases = (np.diff(gains[order]) < 0) & (np.diff(grades[order]) > 0)
        if decreases.any():
            raise ValueError(
                f"gain={self.gain!r} falls between grades; give one that rises with the grade"
            )
        return gains

    def discounts(self, count: int) -> Floats:
        """Return the discounts of the ranks 1 to `count`.

        >>> RankWeight(k=2).discounts(3).round(3)
        array([1.   , 0.631, 0.   ])
        """
        ranks = np.arange(1.0, count + 1.0)
        if self.discount is None:
            return np.zeros(count)
        if self.discount == "log":
            discounts = log_of(2.0) / log(1.0 + ranks)
        elif self.discount == "top":
            assert self.k is not None
            discounts = np.full(count, 1.0 / self.k)
        else:
            assert callable(self.discount)
            discounts = np.asarray(self.discount(ranks), np.float64)
        valid = discounts.shape == ranks.shape and bool(np.isfinite(discounts).all())
        if not valid or (np.diff(discounts) > 0).any() or (discounts < 0).any():
            raise ValueError(
                f"discount={self.discount!r} must give every rank a finite number from 0 that "
                "never rises with the rank"
            )
        return discounts if self.k is None else np.where(ranks <= self.k, discounts, 0.0)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _look_up_gains(table: Floats, grades: Floats) -> Floats:
    integers = grades.astype(np.int64)
    if (integers != grades).any() or (grades < 0).any() or (grades >= table.size).any():
        raise ValueError(
            f"gain lists {table.size} numbers, for the whole grades from 0 to {table.size - 1}, "
            "but there are other grades; use a function of grades"
        )
    return table[integers]


_RULES_BY_NAME = {
    "gap": RankWeight(discount=None, by_ideal=False),
    "grade_gap": RankWeight("linear", discount=None, by_ideal=False),
    "ndcg": RankWeight(floor=NDCG_FLOOR),
}


# Accepted values of the parameter `rank_weight`: a name, the weights, or their parameters.
Weighting = str | RankWeight | Mapping[str, object] | None


def rank_weight(given: Weighting) -> RankWeight | None:
    """Return the weights for a name or a dict of parameters; None stands for unweighted pairs.

    ``"gap"`` is the difference of the gains ``2^g - 1``, ``"grade_gap"`` that of the grades;
    ``"ndcg@10"`` is the change of NDCG@10 if the two items are exchanged, ``"precision@5"`` that of
    precision, ``"ndcg"`` that of NDCG with a floor for pairs far down the list.

    >>> rank_weight("ndcg@10") == rank_weight({"k": 10})
    True
    >>> rank_weight("ndcg@10")
    RankWeight(gain='exp', discount='log', k=10, blend=0.0, by_ideal=True, floor=0.0)
    """
    if given is None or isinstance(given, RankWeight):
        return given
    if isinstance(given, Mapping):
        known = {each.name for each in fields(RankWeight)}
        if unknown := [name for name in given if name not in known]:
            raise ValueError(
                f"rank_weight={given!r}: RankWeight has no parameter {unknown[0]!r}; it has "
                f"{', '.join(sorted(known))}"
            )
        return RankWeight(**given)  # type: ignore[arg-type]
    if isinstance(given, str):
        name, separator, depth_text = given.partition("@")
        depth = int(depth_text) if depth_text.isdecimal() and int(depth_text) > 0 else None
        if not separator and name in _RULES_BY_NAME:
            return _RULES_BY_NAME[name]
        if name == "ndcg" and depth is not None:
            return RankWeight(k=depth)
        if name == "precision" and depth is not None:
            return RankWeight("relevant", "top", depth, by_ideal=False)
    raise ValueError(
        f"rank_weight={given!r} is unknown; use None, 'gap', 'grade_gap', 'ndcg', 'ndcg@10', "
        "'precision@5' or a RankWeight"
    )


class RankWeights:
    """`RankWeight` applied to the rows of a layout: computes the weights of a round.

    If `balanced`, the total weight of a query is the same as without weights by rank.

    Attributes
    ----------
    first : first row of every query, and the end of the last
    gain : gain of every row
    by_rank : discounts of the first ranks; those of the others are 0
    flat : what is added to the difference of two discounts: the floor, or 1 without discounts
    """

    def __init__(self, rule: RankWeight, layout: QueryLayout, *, balanced: bool, context: Context):
        if layout.winner.size:
            raise ValueError(
                "rank_weight needs the grades of both items of a pair, but there are listed "
                "pairs, which have none; use rank_weight=None"
            )
        self.rule, self.layout, self.context = rule, layout, context
        self.balanced = balanced
        self.first = layout.query_rows
        sizes = np.diff(self.first)
        self.flat = 1.0 if rule.discount is None else float(rule.floor)
        self.gain = rule.gains(layout.grade[: layout.n_graded])
        discounts = rule.discounts(int(sizes.max(initial=0)))
        self.by_rank = discounts[: np.count_nonzero(discounts)]
        self._scale = np.ones(sizes.size)
        if rule.by_ideal and not balanced and rule.discount is not None:
            self._scale = 1.0 / self._ideal_dcg(discounts)
        self._plain_totals = _sums_of_queries(
            0.5 * pair_totals(layout)[: layout.n_graded], self.first
        )
        self._threads = threads_for("heavy rows", layout.n_graded)
        self._on_gpu: tuple[BackendArray, ...] = ()

    def _ideal_dcg(self, discounts: Floats) -> Floats:
        """Return the ideal DCG ``sum G D`` of every query."""
        rank = np.repeat(self.first[1:], np.diff(self.first)) - np.arange(self.layout.n_graded)
        ideal = _sums_of_queries(self.gain * discounts[rank - 1], self.first)
        if (ideal <= 0).any():
            raise ValueError(
                f"rank_weight={self.rule!r} divides by the ideal DCG of a query, which is "
                f"{ideal.min():g} for one of them; use grades from 0, another gain, by_ideal=False "
                "or balance='items'"
            )
        return ideal

    @property
    def ignores_undiscounted_pairs(self) -> bool:
        """Whether pairs of two rows without a discount have no weight."""
        rule = self.rule
        return rule.k is not None and rule.blend == 0 and self.flat == 0

    @property
    def needs_totals(self) -> bool:
        """Whether the weights of a round depend on the total weights of the queries."""
        return self.balanced or self.rule.blend > 0

    def rank(self, scores: BackendArray, backend: Backend) -> RoundWeights:
        """Return the weights of a round that begins at these scores, before `scaled`."""
        rank_scores = scores[: self.layout.n_graded].copy()
        discount, tied = backend.zeros(rank_scores.size), backend.zeros(rank_scores.size)
        if not backend.is_gpu:
            self.context.run(
                _rank_queries, self.first.size - 1, self.first, rank_scores,
                self._best_first(rank_scores), self.by_rank, discount, tied, threads=self._threads,
            )  # fmt: skip
            plain = np.zeros(self.first.size - 1)
            return RoundWeights(rank_scores, discount, tied, plain, self._scale)
        if not self._on_gpu:
            arrays = self.first, self.by_rank, self._scale, self._plain_totals
            self._on_gpu = tuple(backend.put(array) for array in arrays)
        first, by_rank, scale, _ = self._on_gpu
        backend.launch(
            "rank_queries", self.first.size - 1, 128, first, rank_scores, by_rank,
            self.by_rank.size, discount, tied,
        )  # fmt: skip
        return RoundWeights(rank_scores, discount, tied, backend.zeros(self.first.size - 1), scale)

    def _best_first(self, scores: Floats) -> Floats | None:
        """Return the scores of every query, negated and sorted; None if few ranks have a discount.

        The kernel finds few ranks by insertion.
        """
        if self.by_rank.size <= MAX_INSERTED_RANKS:
            return None
        negated = -scores
        for low, high in pairwise(self.first.tolist()):
            negated[low:high].sort()
        return negated

    def scaled(self, weights: RoundWeights, totals: BackendArray, backend: Backend) -> RoundWeights:
        """Return the weights of a round with the blend, and the balance of the queries.

        `totals` are the weights of all pairs of every query by `weights`, on the same backend.
        """
        scale, plain_totals = self._scale, self._plain_totals
        if backend.is_gpu:
            scale, plain_totals = self._on_gpu[2:]
        mean, blend = totals / plain_totals, float(self.rule.blend)
        if not self.balanced:
            return replace(weights, plain=blend * mean, factor=(1.0 - blend) * scale)
        where = backend.xp.where
        inverse = where(mean > 0, (1.0 - blend) / where(mean > 0, mean, 1.0), 0.0)
        return replace(weights, plain=backend.xp.full(mean.shape, blend), factor=inverse * scale)


def _sums_of_queries(values: Floats, first: Integers) -> Floats:
    """Return the sum of the rows of every query.

    >>> _sums_of_queries(np.array([1.0, 2.0, 4.0]), np.array([0, 2, 3]))
    array([3., 4.])
    """
    sums = np.zeros(first.size - 1)
    _sum_rows_of_queries(values, first, sums)
    return sums


class LambdaRankRisk(BoundLossRisk):
    """Exponential, logistic or hinge loss, linear price, weights by rank.

    O(pairs) time, O(n) memory. Before the first `begin_round`, ranks are those of the scores at
    which the risk is evaluated. `State.cache` holds the Hessian diagonal, divided by the gradient
    sum as the pull is.
    """

    def __init__(self, layout: QueryLayout, loss: PairLoss, cost: Price, weights: RankWeights):
        rule = weights.rule
        if cost.power != 1:
            raise ValueError(
                f"rank_weight={rule!r} weighs pairs one by one, but price={cost!r} is paid "
                "for all pairs of a loser together; use price=1 ('linear'), or rank_weight=None"
            )
        super().__init__(layout, loss, cost, weights.context)
        self._shape = _shape(loss, rule)
        self.weights = weights
        self._round: RoundWeights | None = None
        sparse = weights.ignores_undiscounted_pairs
        if not sparse:
            self._refuse_many_pairs()
        self._sums = RankedSums(
            layout, weights.gain, weights.flat, self.context, logistic=self._shape[0] == 0,
            sparse=sparse,
        )  # fmt: skip
        self.backend = self._sums.backend

    def _refuse_many_pairs(self) -> None:
        layout = self.layout
        counts = np.array([layout.count_graded_pairs(), layout.n_used_rows], np.float64)
        pairs, rows = all_reduce_sum(lambda: counts, self.context)
        if pairs > MAX_PAIRS_PER_ROW * rows:
            raise ValueError(
                f"rank_weight={self.weights.rule!r} goes through all {pairs:.3g} pairs in every "
                "round; use a cut-off such as 'ndcg@10' without a blend"
            )

    # -- weights of a round ----------------------------------------------------------------

    def begin_round(self, scores: BackendArray, *, value: bool = True) -> State:
        """Rank the items by these scores and fix the weights until the next round."""
        self._round = self._rank(scores)
        return self._compute_state(scores, value=value)

    def _weights_at(self, scores: BackendArray) -> RoundWeights:
        """Return the weights of this round, or outside of rounds those of the scores."""
        return self._rank(scores) if self._round is None else self._round

    def _rank(self, scores: BackendArray) -> RoundWeights:
        """Return the weights of a round, on the backend that will sum its pairs."""
        backend = self._backend_of(scores)
        weights = self.weights.rank(scores, backend)
        if backend.is_gpu and self._sums.may_have_tied_groups(weights):
            cpu_weights = self.weights.rank(backend.get(scores), CPU)
            if self._sums.has_tied_groups(cpu_weights):
                backend, weights = CPU, cpu_weights
        if not self.weights.needs_totals:
            return weights
        totals = self._sums_of_weights(weights, degree=1)
        return self.weights.scaled(weights, totals.by_query[0], backend)

    def _sums_of_weights(self, weights: RoundWeights, degree: int) -> RankedTotals:
        """Return sums over pairs whose loss is 1: hinges of degree 1 or 2 at equal scores."""
        backend = self._backend_of(weights.scores)
        equal_scores = backend.zeros(weights.scores.size)
        return self._sums.sum(weights, equal_scores, (degree, 1.0), slopes=degree == 2)

    def pair_totals(self, state: State) -> BackendArray:
        """Return the total weight of the pairs of every row in this round."""
        sums = self._sums_of_weights(self._weights_at(state.scores), degree=2)
        return self._move(0.5 * sums.hessian, self._backend_of(state.scores))

    # -- the risk --------------------------------------------------------------------------

    def log_value(self, scores: BackendArray) -> float:
        """Return the logarithm of the risk."""
        sums = self._sums_at(scores, slopes=False)
        log_scale = self._rescale(sums)
        (value,) = exact_sums([sums.by_query[0]], self.context)
        return log_of(value) + log_scale if value > 0 else -np.inf

    def state(self, scores: BackendArray) -> State:
        """Compute risk, pull and Hessian diagonal at these scores in one pass."""
        return self._compute_state(scores, value=True)

    def _compute_state(self, scores: BackendArray, *, value: bool) -> State:
        """Compute the state; without `value` skip the logarithms, which take most of the time."""
        backend = self._backend_of(scores)
        sums = self._sums_at(scores, slopes=True, value=value)
        log_scale = self._rescale(sums)
        total, gradient_sum = exact_sums([*sums.by_query], self.context)
        pull, hessian = self._move(sums.pull, backend), self._move(sums.hessian, backend)
        state = self._normalized_state(scores, total, gradient_sum, pull, hessian)
        known = value or gradient_sum <= 0
        return replace(
            state,
            log_value=state.log_value + log_scale if known else np.nan,
            log_gradient_sum=state.log_gradient_sum + log_scale,
        )

    def curvature(self, state: State) -> BackendArray:
        """Return the Hessian diagonal over the gradient sum, computed with the state."""
        return state.cache

    def edge_weights(self, state: State, values: Bytes) -> EdgeWeights:
        """Return the weights of the pairs ordered correctly, wrongly or tied by values 0 and 1."""
        if state.log_gradient_sum == -np.inf:
            return EdgeWeights(0.0, 0.0, 0.0)
        backend = self._backend_of(self._weights_at(state.scores).scores)
        ones = self._move(values, backend) == 1
        shares = []
        for winners in (ones, ~ones):
            sums = self._sums_at(state.scores, slopes=True, value=False, winners=winners)
            share = self.backend.get(sums.by_query[1])
            log_scale = self.backend.get(sums.log_scale)[share > 0] - state.log_gradient_sum
            share[share > 0] *= exp(log_scale)
            shares.append(share)
        correct, wrong = exact_sums(shares, self.context)
        return EdgeWeights(correct, wrong, max(0.0, 1.0 - correct - wrong))

    def exact_step(self, state: State, values: Array) -> tuple[float, bool] | None:
        """Return ``log(d+ / d-) / (2 rate)`` for the exponential loss and values 0 and 1."""
        degree, rate = self._shape
        if degree != EXPONENTIAL or values.dtype != np.uint8:
            return None
        edge_weights = self.edge_weights(state, values)
        if min(edge_weights.correct, edge_weights.wrong) > 0:
            return 0.5 * log_of(edge_weights.correct / edge_weights.wrong) / rate, False
        return smoothed_step(self, state, edge_weights.correct, edge_weights.wrong), True

    def _sums_at(
        self, scores: BackendArray, *, slopes: bool, value: bool = True,
        winners: BackendArray | None = None,
    ) -> RankedTotals:  # fmt: skip
        """Return the sums at these scores, on the backend that ranked the rows of this round."""
        weights = self._weights_at(scores)
        backend, n_graded = self._backend_of(weights.scores), self.layout.n_graded
        graded_scores = self._move(scores[:n_graded], backend)
        if self.loss.gap:
            graded_scores = graded_scores - self._copy_on(
                backend, "grade", lambda: self.layout.grade[:n_graded]
            )
        return self._sums.sum(
            weights, graded_scores, self._shape, slopes=slopes, value=value, winners=winners
        )

    def _move(self, array: BackendArray, backend: Backend) -> BackendArray:
        """Return an array on the CPU or on the GPU of this risk."""
        return backend.put(array) if backend.is_gpu else self.backend.get(array)

    def _rescale(self, sums: RankedTotals) -> float:
        """Divide all sums by one exponential, ``exp(c)`` with the largest scale; return c."""
        if self._shape[0] != EXPONENTIAL:
            return 0.0
        backend = self._backend_of(sums.by_query)
        has_pairs = sums.by_query.max(axis=0) > 0
        log_scale = backend.get(backend.xp.where(has_pairs, sums.log_scale, -np.inf))
        largest = float(all_reduce_max(lambda: log_scale.max(initial=-np.inf), self.context))
        ratio, finite = np.zeros(log_scale.size), log_scale > -np.inf
        if largest == -np.inf or (largest == 0 and not log_scale[finite].any()):
            return 0.0
        ratio[finite] = exp(log_scale[finite] - largest)
        by_query = backend.put(ratio)
        sums.by_query *= by_query
        if sums.pull.size:
            query_of_row = self._copy_on(backend, "query of row", self.layout.query_of_row)
            sums.pull *= by_query[query_of_row]
            sums.hessian *= by_query[query_of_row]
        return largest


def _shape(loss: PairLoss, rule: RankWeight) -> tuple[int, float]:
    """Return the degree of a loss, and the knot of a hinge or the rate of an exponential."""
    if isinstance(loss.form, Separable):
        return EXPONENTIAL, float(loss.form.rate)
    shape = pair_shape(loss)
    if shape is None:
        raise ValueError(
            f"rank_weight={rule!r} is for the exponential, the logistic and the two hinge losses, "
            f"not for {loss!r}; use one of them, or rank_weight=None"
        )
    return shape.degree, shape.knot


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _sum_rows_of_queries(values: Floats, first: Integers, sums: Floats) -> None:
    """Sum the rows of every query in eight partial sums, whose additions overlap."""
    partial = np.empty(8)
    for query in range(sums.size):
        start = first[query]
        for j in range(8):
            partial[j] = 0.0
        for row in range(start, first[query + 1]):
            partial[(row - start) & 7] += values[row]
        first_half = (partial[0] + partial[1]) + (partial[2] + partial[3])
        sums[query] = first_half + ((partial[4] + partial[5]) + (partial[6] + partial[7]))


@njit(cache=True, nogil=True)
def _rank_queries(
    low: int, high: int, first: Integers, scores: Floats, sorted_scores: Floats | None,
    by_rank: Floats, discount: Floats, tied: Floats,
) -> None:  # fmt: skip
    """Compute discounts of the rows at the first ranks of every query, which tied rows share.

    `sorted_scores` are the negated scores of every query, in order; None to find the first ranks.
    """
    # Negative scores at the first ranks; discount and `tied` of the ties that begin at a rank.
    best, shared = np.empty(by_rank.size), np.empty((2, by_rank.size))
    for query in range(low, high):
        start, end = first[query], first[query + 1]
        depth = fmin(by_rank.size, end - start)
        if depth == 0:
            continue
        _find_best(start, end, depth, scores, sorted_scores, best)
        begin = np.int64(0)  # (for a plain 0 numba would compile the callee once more)
        while begin < depth:
            last = begin + 1
            while last < depth and best[last] == best[begin]:
                last += 1
            if last == depth:  # further rows may be tied
                last = begin
                for row in range(start, end):
                    last += -scores[row] == best[begin]
            shared[0, begin], shared[1, begin] = _shared_ranks(by_rank, begin, last)
            begin = last
        for row in range(start, end):
            if -scores[row] <= best[depth - 1]:
                rank = _rank_of(-scores[row], best, depth)
                discount[row], tied[row] = shared[0, rank], shared[1, rank]


@njit(**INLINED)
def _rank_of(score: float, best: Floats, depth: Integer) -> Integer:
    """Return the first of the increasing scores that is not below a score, by a binary search."""
    rank, last = np.int64(0), depth - 1
    while rank < last:
        middle = (rank + last) // 2
        if best[middle] < score:
            rank = middle + 1
        else:
            last = middle
    return rank


@njit(**INNER)
def _find_best(
    start: Integer, end: Integer, depth: Integer, scores: Floats, sorted_scores: Floats | None,
    best: Floats,
) -> None:  # fmt: skip
    """Store the `depth` largest scores of rows start..end, negated, in increasing order."""
    for rank in range(depth):
        best[rank] = np.inf
        if sorted_scores is not None:
            best[rank] = sorted_scores[start + rank]
    if sorted_scores is None:
        for row in range(end - 1, start - 1, -1):  # high grades first, which are often best
            score = -scores[row]
            if score < best[depth - 1]:
                rank = depth - 1
                while rank > 0 and best[rank - 1] > score:
                    best[rank] = best[rank - 1]
                    rank -= 1
                best[rank] = score


@njit(**INLINED)
def _shared_ranks(by_rank: Floats, begin: Integer, end: Integer) -> tuple[float, float]:
    """Return the mean discount of the ranks begin..end, and the mean |D_r - D_q| of two of them.

    Ranks start at 0. The discounts `by_rank` decrease and are 0 from its end on.
    """
    count = end - begin
    last = by_rank[end - 1] if end <= by_rank.size else 0.0
    if by_rank[begin] == last:
        return last, 0.0
    total, gap = 0.0, 0.0
    for rank in range(begin, end if end < by_rank.size else by_rank.size):
        total += by_rank[rank]
        gap += (count - 1 - 2 * (rank - begin)) * by_rank[rank]
    return total / count, 2.0 * gap / (count * (count - 1.0))
