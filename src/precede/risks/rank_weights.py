"""LambdaRank: pairs weighted by how much exchanging the two items would change the metric.

A pair of a winner i and a loser k has weight ``w_ik = (G_i - G_k) · |D_i - D_k|``, where the gain G
increases with the grade and the discount D decreases with the rank. Ranks are computed from the
scores at which a round begins and stay fixed during the round, so within a round the risk is a
convex function of the scores.

No pair is stored. In ranking order ``D_i - D_k`` has one sign above an item and the other below it,
so sums of ``w_ik a_i b_k`` over k follow from four running sums per grade: O(n·grades), or O(n
log(grades)) with a Fenwick tree. Weights with a cut-off at rank k need no sort; see
`precede.risks.top_ranks`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from precede.engine.arrays import Array, Bytes, Floats, Integer, Integers
from precede.engine.compiling import INNER, njit
from precede.engine.exact import exact_sums, log_sum_exp
from precede.engine.execution import Context, is_small
from precede.engine.kernels import shared_ranks
from precede.engine.parameters import check_integer
from precede.engine.portable import exp, exp2, log, log_of
from precede.engine.portable_kernels import portable_exp
from precede.engine.query_layout import QueryLayout
from precede.losses import PairLoss, Price, Separable
from precede.risks.base import BoundLossRisk, EdgeWeights, State, pair_totals
from precede.risks.top_ranks import DEEPEST, TopRanks, TopWeights

# Longer lists are sorted by buckets of equal width, of which there are 4 ** BUCKET_DIGIT_BITS.
MIN_BUCKET_SORT_ROWS = 1 << 12
BUCKET_DIGIT_BITS = 11
# Scores of a query further apart than this have products of exponentials beyond floats.
WIDEST = 600.0
MAX_SUMMED_GRADES = 16  # with more, a Fenwick tree is faster than a sum per grade

Gain = str | Sequence[float] | Callable[[Floats], Any]
Discount = str | Callable[[Floats], Any] | None


@dataclass(frozen=True)
class RankWeight:
    """Weights of pairs by gain and rank: ``w_ik = (G_i - G_k) · |D_i - D_k|``.

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
    >>> RankWeight() == rank_weight("ndcg")
    True
    >>> rank_weight("precision@5")
    RankWeight(gain='relevant', discount='top', k=5, blend=0.0, by_ideal=False)
    """

    gain: Gain = "exp"
    discount: Discount = "log"
    k: int | None = None
    blend: float = 0.0
    by_ideal: bool = True

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
        number = isinstance(self.blend, int | float | np.number)
        if not number or isinstance(self.blend, bool) or not 0 <= self.blend <= 1:
            raise ValueError(f"blend={self.blend!r} is out of range; use a number from 0 to 1")

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
    "ndcg": RankWeight(),
}


# Accepted values of the parameter `rank_weight`: a name, the weights, or their parameters.
Weighting = str | RankWeight | Mapping[str, Any] | None


def rank_weight(given: Weighting) -> RankWeight | None:
    """Return the weights for a name or a dict of parameters; None stands for unweighted pairs.

    ``"gap"`` is the difference of the gains ``2^g - 1``, ``"grade_gap"`` that of the grades;
    ``"ndcg"`` and ``"ndcg@10"`` are the change of NDCG if the two items are exchanged,
    ``"precision@5"`` that of precision.

    >>> rank_weight("ndcg@10") == rank_weight({"k": 10})
    True
    >>> rank_weight("ndcg@10")
    RankWeight(gain='exp', discount='log', k=10, blend=0.0, by_ideal=True)
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
        return RankWeight(**given)
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


@dataclass(frozen=True)
class RoundWeights:
    """Weights of the pairs in one round, as numbers per row and per query.

    A pair of query q weighs ``plain[q] + factor[q] (G_i - G_k) (flat + |D_i - D_k| + t)`` times its
    weight without ranks; t is `tied` of the two rows if their scores are equal, else 0.

    Attributes
    ----------
    scores : scores at the begin of the round, which define the ranks
    order : rows of every query by decreasing score
    ends : for every position of `order`, the end of its tied group
    discount, tied : mean discount of the ranks that a row shares, and mean ``|D_r - D_q|`` of two
        of these ranks; per row
    plain, factor : one number per query
    ranked : levels, discounts and `tied` in the order of `order`
    top : rows at the top, if there is a cut-off; `order`, `ends`, `ranked` are then empty
    """

    scores: Floats
    order: Integers
    ends: Integers
    discount: Floats
    tied: Floats
    plain: Floats
    factor: Floats
    ranked: tuple[Integers, Floats, Floats]
    top: TopWeights | None = None


class RankWeights:
    """`RankWeight` applied to the rows of a layout: computes the weights of a round.

    If `balanced`, the total weight of a query is the same as without weights by rank.
    """

    def __init__(self, rule: RankWeight, layout: QueryLayout, *, balanced: bool, context: Context):
        if layout.winner.size:
            raise ValueError(
                "rank_weight needs the grades of both items of a pair, but there are listed "
                "pairs, which have none; use rank_weight=None"
            )
        self.rule, self.layout, self.context = rule, layout, context
        self.balanced = balanced
        n_graded = layout.n_graded
        self.first = layout.level_start[layout.query_start]
        sizes = np.diff(self.first)
        self.flat = 1.0 if rule.discount is None else 0.0
        self.gain = rule.gains(layout.grade[:n_graded])
        self.by_rank = rule.discounts(int(sizes.max(initial=0)))
        self.small = is_small("heavy rows", n_graded)
        levels = np.arange(layout.level_start.size - 1)
        self.level = np.repeat(
            levels - np.repeat(layout.query_start[:-1], np.diff(layout.query_start)),
            np.diff(layout.level_start),
        )
        self.scale = np.ones(sizes.size)
        if rule.by_ideal and not balanced and not self.flat:
            self.scale = 1.0 / self._ideal_dcg(sizes)
        self.level_gain = self.gain[layout.level_start[:-1]]
        self.plain_totals = sums_of_queries(0.5 * pair_totals(layout)[:n_graded], self.first)
        self.top: TopRanks | None = None
        if rule.discount is not None and rule.k is not None and rule.k <= DEEPEST:
            self.top = TopRanks(layout, self.by_rank, rule.k, self.level_gain, context)

    def _ideal_dcg(self, sizes: Integers) -> Floats:
        """Return the ideal DCG ``sum G D`` of every query."""
        rank = np.repeat(self.first[1:], sizes) - np.arange(self.layout.n_graded)
        ideal = sums_of_queries(self.gain * self.by_rank[rank - 1], self.first)
        if (ideal <= 0).any():
            raise ValueError(
                f"rank_weight={self.rule!r} divides by the ideal DCG of a query, which is "
                f"{ideal.min():g} for one of them; use grades from 0, another gain, by_ideal=False "
                "or balance='items'"
            )
        return ideal

    def at(self, scores: Floats) -> RoundWeights:
        """Return the weights of a round: O(n log n), or O(n) with a cut-off."""
        n_queries = self.first.size - 1
        blend, scale = float(self.rule.blend), self.scale
        rank_scores = scores[: self.layout.n_graded].copy()
        weights = self._rank(rank_scores, np.zeros(n_queries), (1.0 - blend) * scale)
        if not self.balanced and blend == 0:
            return weights
        mean = self._query_totals(replace(weights, factor=scale)) / self.plain_totals
        if not self.balanced:
            return replace(weights, plain=blend * mean)
        inverse = np.divide(1.0 - blend, mean, out=np.zeros_like(mean), where=mean > 0)
        return replace(weights, plain=np.full(n_queries, blend), factor=inverse * scale)

    def _rank(self, scores: Floats, plain: Floats, factor: Floats) -> RoundWeights:
        """Rank the rows by these scores; return the weights."""
        n_graded, n_queries = scores.size, self.first.size - 1
        if self.top is not None:
            top, empty = self.top.at(scores), np.zeros(0, np.int64)
            return RoundWeights(
                scores, empty, empty, top.discount, top.tied, plain, factor, (empty, plain, plain),
                top,
            )  # fmt: skip
        order, ends = np.empty(n_graded, np.int64), np.empty(n_graded, np.int64)
        discount, tied = np.empty(n_graded), np.empty(n_graded)
        for query in np.flatnonzero(np.diff(self.first) > MIN_BUCKET_SORT_ROWS):
            low, high = self.first[query], self.first[query + 1]
            if not _bucket_sort(scores, low, order[low:high]):
                order[low:high] = low + np.argsort(-scores[low:high])
        ranked = np.empty(n_graded, np.int64), np.empty(n_graded), np.empty(n_graded)
        self.context.run(
            _rank_queries, n_queries, MIN_BUCKET_SORT_ROWS, self.first, scores, self.by_rank,
            self.level, order, ends, discount, tied, *ranked, small=self.small,
        )  # fmt: skip
        return RoundWeights(scores, order, ends, discount, tied, plain, factor, ranked)

    def _query_totals(self, weights: RoundWeights) -> Floats:
        """Return the weight of all pairs of every query."""
        winner, loser = self.layout.weight, self.layout.loser_weight
        if self.top is None or weights.top is None:
            return sums_of_queries(self.sum_pairs(weights, winner, loser)[0], self.first)
        sums = self.top.meet(
            weights.top, weights.scores, (weights.plain, weights.factor), winner, loser
        )
        return sums.totals[:, 0]

    def pair_weights(self, weights: RoundWeights) -> Floats:
        """Return the total weight of the pairs of every row."""
        winner, loser = self.layout.weight, self.layout.loser_weight
        if self.top is None or weights.top is None:
            won, lost = self.sum_pairs(weights, winner, loser, losers=True)
            return won + lost
        rule = weights.plain, weights.factor
        sums = self.top.meet(weights.top, weights.scores, rule, winner, loser)
        totals = np.zeros(weights.scores.size)
        self.top.spread(weights.top, sums, winner, loser, 1.0, np.ones(weights.plain.size), totals)
        return totals

    def sum_pairs(
        self, weights: RoundWeights, winner: Floats, loser: Floats, *, losers: bool = False,
        apart: Bytes | None = None,
    ) -> tuple[Floats, Floats]:  # fmt: skip
        """Sum ``w_ik winner_i loser_k`` over the losers of i, and over the winners of k.

        The second sums are computed only if `losers` is true. With `apart`, a number 0 or 1 for
        each row, only pairs with two different numbers count. `weights` must have an order.
        """
        order, n_queries = weights.order, self.first.size - 1
        sides = np.zeros(1, np.uint8) if apart is None else apart[order]
        level, discount, tied = weights.ranked
        # One pass from the top down and one from the bottom up, so that two threads share a list.
        winner_sums = np.empty((2, order.size))
        loser_sums = np.empty((2, order.size if losers else 0))
        few_grades = int(np.diff(self.layout.query_start).max(initial=0)) <= MAX_SUMMED_GRADES
        self.context.run(
            _meet_few_grades if few_grades else _meet_many_grades, 2 * n_queries, self.first,
            weights.ends, self.layout.query_start, self.level_gain, tied, weights.plain,
            weights.factor, self.flat, level, discount, winner[order], loser[order], sides, losers,
            winner_sums, loser_sums, small=self.small,
        )  # fmt: skip
        by_row = np.empty((2, order.size))
        by_row[0, order] = winner_sums[0] + winner_sums[1]
        if losers:
            by_row[1, order] = loser_sums[0] + loser_sums[1]
        return by_row[0], by_row[1]


def sums_of_queries(values: Floats, first: Integers) -> Floats:
    """Return the sum of the rows of every query in eight partial sums, row j of a query in j mod 8.

    >>> sums_of_queries(np.array([1.0, 2.0, 4.0]), np.array([0, 2, 3]))
    array([3., 4.])
    """
    sums = np.zeros(first.size - 1)
    _sum_queries(values, first, sums)
    return sums


class RankWeightedRisk(BoundLossRisk):
    """Risk of pairs with LambdaRank weights; subclasses sum over the pairs.

    Before the first `begin_round`, ranks are those of the scores at which the risk is evaluated.
    """

    def __init__(self, layout: QueryLayout, loss: PairLoss, cost: Price, weights: RankWeights):
        if cost.power != 1:
            raise ValueError(
                f"rank_weight={weights.rule!r} weighs pairs one by one, but price={cost!r} is paid "
                "for all pairs of a loser together; use price=1 ('linear'), or rank_weight=None"
            )
        super().__init__(layout, loss, cost, weights.context)
        self.weights = weights
        self._round: RoundWeights | None = None

    def begin_round(self, scores: Floats) -> bool:
        """Rank the items by these scores and fix the weights until the next round."""
        self._round = self.weights.at(scores)
        return True

    def end_round(self, scores: Floats) -> State:
        """Return only the value, because the next round begins with other weights."""
        return State(scores, self.log_value(scores), np.nan, np.zeros(0))

    def at(self, scores: Floats) -> RoundWeights:
        """Return the weights of this round, or outside of rounds those of the scores."""
        return self.weights.at(scores) if self._round is None else self._round

    def pair_totals(self, state: State) -> Floats:
        """Return the total weight of the pairs of every row in this round."""
        totals = np.zeros(self.layout.n_used_rows)
        totals[: self.layout.n_graded] = self.weights.pair_weights(self.at(state.scores))
        return totals


class RankedExponentialRisk(RankWeightedRisk):
    """Exponential loss with weights by rank: O(n log(grades)), and a sort in every round.

    With ``a_i = exp(-s_i)`` and ``b_k = exp(s_k)`` the sums over pairs are those of
    `RankWeights.meet`. `State.cache` holds the mass of every row as winner and as loser.
    """

    def __init__(self, layout: QueryLayout, loss: PairLoss, cost: Price, weights: RankWeights):
        super().__init__(layout, loss, cost, weights)
        assert isinstance(loss.form, Separable)
        self.rate = loss.form.rate

    def state(self, scores: Floats) -> State:
        """Risk and pull at these scores."""
        weights, layout = self.at(scores), self.layout
        up, down, lift, log_query = self._sums(weights, scores)
        log_value = log_sum_exp(log_query, self.context)
        pull, parts = np.zeros(layout.n_used_rows), np.zeros((2, layout.n_used_rows))
        if log_value == -np.inf:  # no pair has any weight
            return State(scores, -np.inf, -np.inf, pull, (weights, parts))
        parts[0, : up.size], parts[1, : up.size] = up, down
        parts[:, : up.size] *= self._share(lift, log_value)
        pull = parts[0] - parts[1]
        log_gradient_sum = log_value + log_of(self.rate)
        return State(scores, log_value, log_gradient_sum, pull, (weights, parts))

    def log_value(self, scores: Floats) -> float:
        """Logarithm of the risk, without the pull."""
        return log_sum_exp(self._sums(self.at(scores), scores, losers=False)[3], self.context)

    def _sums(
        self, weights: RoundWeights, scores: Floats, apart: Bytes | None = None, *,
        losers: bool = True,
    ) -> tuple[Floats, Floats, Floats, Floats]:  # fmt: skip
        """Sums over pairs of every row, as winner and as loser, and of every query.

        Those of a row are relative to exp(lift) of its query, the third array; those of
        queries are logarithms. `apart` and `losers` are as for `RankWeights.meet`.
        """
        winner, loser = self.layout.weight, self.layout.loser_weight
        first, graded = self.weights.first, self.layout.n_graded
        margin = self.rate * scores[:graded]
        if not graded:
            return margin, margin, np.zeros(0), np.zeros(0)
        low, high = (
            np.minimum.reduceat(margin, first[:-1]),
            np.maximum.reduceat(margin, first[:-1]),
        )
        wide = high - low > WIDEST
        at = margin - np.repeat(0.5 * (low + high), np.diff(first))
        term = exp(np.clip(at, -WIDEST / 2, WIDEST / 2))
        up, down = self.weights.sum_pairs(
            weights, winner[:graded] / term, loser[:graded] * term, losers=losers, apart=apart
        )
        lift = np.zeros(wide.size)
        if wide.any():
            self._meet_far_apart(weights, np.flatnonzero(wide), scores, apart, up, down, lift)
        return up, down, lift, log(sums_of_queries(up, first)) + lift

    def _meet_far_apart(
        self, weights: RoundWeights, queries: Integers, scores: Floats, apart: Bytes | None,
        up: Floats, down: Floats, lift: Floats,
    ) -> None:  # fmt: skip
        """Replace the sums of the rows of some queries, whose exponentials are beyond floats."""
        sides = np.zeros(0, np.uint8) if apart is None else apart
        ranked, layout = self.weights, self.layout
        _meet_far_apart(
            queries, ranked.first, ranked.level, self.rate * scores, weights.scores, ranked.gain,
            weights.discount, weights.tied, weights.plain, weights.factor, ranked.flat,
            layout.weight, layout.loser_weight, sides, up, down, lift,
        )  # fmt: skip

    def _share(self, lift: Floats, log_value: float) -> Floats:
        """What turns sums of rows into shares of the risk."""
        return np.repeat(exp(lift - log_value), np.diff(self.weights.first))

    def growth_rate(self, state: State) -> float:  # noqa: ARG002
        """Pair mass over risk, which is the same at all scores."""
        return self.rate

    def curvature(self, state: State) -> Floats:
        """Diagonal of the second derivative over the pair mass: the masses of a row's pairs."""
        parts: Floats = state.cache[1]
        return self.rate * (parts[0] + parts[1])

    def edge_weights(self, state: State, values: Bytes) -> EdgeWeights:
        """Shares of the pair mass ordered rightly, wrongly, not at all."""
        if state.log_value == -np.inf:  # no pair has any weight
            return EdgeWeights(0.0, 0.0, 0.0)
        up, _, lift, _ = self._sums(state.cache[0], state.scores, values, losers=False)
        up *= self._share(lift, state.log_value)
        above = values[: up.size] == 1
        right, wrong = exact_sums([up[above], up[~above]], self.context)
        return EdgeWeights(right, wrong, max(0.0, 1.0 - right - wrong))

    def exact_step(self, state: State, values: Array) -> tuple[float, bool]:
        """For values 0 and 1 ``log(d+ / d-) / 2``, by the masses of this round."""
        if values.dtype != np.uint8:
            return self.line_search(state, values)
        edge_weights = self.edge_weights(state, values)
        if min(edge_weights.correct, edge_weights.wrong) > 0:
            return 0.5 * log_of(edge_weights.correct / edge_weights.wrong) / self.rate, False
        return self.smoothed_step(state, edge_weights.correct, edge_weights.wrong), True


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _sum_queries(values: Floats, first: Integers, sums: Floats) -> None:
    partial = np.empty(8)
    for query in range(sums.size):
        start, end = first[query], first[query + 1]
        partial[:] = 0.0
        end_of_eights = end - (end - start) % 8
        for row in range(start, end_of_eights, 8):
            for j in range(8):
                partial[j] += values[row + j]
        for row in range(end_of_eights, end):
            partial[row - end_of_eights] += values[row]
        first_half = (partial[0] + partial[1]) + (partial[2] + partial[3])
        sums[query] = first_half + ((partial[4] + partial[5]) + (partial[6] + partial[7]))


@njit(cache=True, nogil=True)
def _bucket_sort(scores: Floats, start: int, order: Integers) -> bool:
    """Bucket sort rows from `start` on by decreasing score, stable: O(n).

    Scores are sorted by buckets of equal width, in two digits, then by insertion. Returns False,
    with an unusable order, if too many scores share a bucket.
    """
    count = order.size
    values = scores[start : start + count]
    low, high = values[0], values[0]
    for i in range(count):
        low, high = min(low, values[i]), max(high, values[i])
    scale = 0.0 if high == low else (4.0**BUCKET_DIGIT_BITS - 1.0) / (high - low)
    if not np.isfinite((high - low) * scale):
        return False
    shift, mask = np.uint32(BUCKET_DIGIT_BITS), np.uint32((1 << BUCKET_DIGIT_BITS) - 1)
    buckets, buckets_by_last = np.empty((2, count), np.uint32)
    by_last, sizes = np.empty(count, np.int64), np.zeros((2, 1 << BUCKET_DIGIT_BITS), np.int64)
    for i in range(count):
        buckets[i] = np.uint32((high - values[i]) * scale)
        sizes[0, buckets[i] & mask] += 1
        sizes[1, buckets[i] >> shift] += 1
    position = np.cumsum(sizes[0]) - sizes[0]
    for i in range(count):
        digit = buckets[i] & mask
        by_last[position[digit]], buckets_by_last[position[digit]] = start + i, buckets[i]
        position[digit] += 1
    position = np.cumsum(sizes[1]) - sizes[1]
    for i in range(count):
        digit = buckets_by_last[i] >> shift
        order[position[digit]] = by_last[i]
        position[digit] += 1
    return _insertion_sort(scores, order, 8 * count)


@njit(**INNER)
def _insertion_sort(scores: Floats, order: Integers, max_moves: int) -> bool:
    """Sort by insertion; return False if more than `max_moves` moves are needed."""
    sorted_scores = np.empty(order.size)
    moves = 0
    for i in range(order.size):
        row, score, j = order[i], scores[order[i]], i
        while j > 0 and sorted_scores[j - 1] < score:
            order[j], sorted_scores[j] = order[j - 1], sorted_scores[j - 1]
            j -= 1
        order[j], sorted_scores[j] = row, score
        moves += i - j
        if moves > max_moves:
            return False
    return True


@njit(cache=True, nogil=True)
def _rank_queries(
    low: int, high: int, max_rows: int, first: Integers, scores: Floats, by_rank: Floats,
    level: Integers, order: Integers, ends: Integers, discount: Floats, tied: Floats,
    ranked_level: Integers, ranked_discount: Floats, ranked_tied: Floats,
) -> None:  # fmt: skip
    """Compute the ranking order of every query, its tied groups, and the discounts of its rows.

    Queries of more than `max_rows` rows are sorted already. Discounts and ties are written by row
    and, with levels, in ranking order.
    """
    for query in range(low, high):
        start, end = first[query], first[query + 1]
        if end - start <= max_rows:
            order[start:end] = start + np.argsort(-scores[start:end])
        begin = start
        while begin < end:
            score = scores[order[begin]]
            last = begin + 1
            while last < end and scores[order[last]] == score:
                last += 1
            count = last - begin
            mean, gap = by_rank[begin - start], 0.0
            if count > 1:
                _sort_rows(order, begin, last)
                mean, gap = shared_ranks(by_rank, begin - start, last - start)
            for position in range(begin, last):
                row = order[position]
                ends[position] = last
                discount[row], tied[row] = mean, gap
                ranked_level[position] = level[row]
                ranked_discount[position], ranked_tied[position] = mean, gap
            begin = last


@njit(**INNER)
def _sort_rows(order: Integers, begin: Integer, end: Integer) -> None:
    """Sort the rows of a tied group, unless they are in order already."""
    for position in range(begin + 1, end):
        if order[position] < order[position - 1]:
            order[begin:end] = np.sort(order[begin:end])
            return


@njit(**INNER)
def _insert(tree: Floats, index: Integer, value: float, gain: float, discount: float) -> None:
    """Add an item to a Fenwick tree of sums of value times 1, G, D and G·D."""
    node = index + 1
    while node < tree.shape[0]:
        tree[node, 0] += value
        tree[node, 1] += value * gain
        tree[node, 2] += value * discount
        tree[node, 3] += value * gain * discount
        node += node & -node


@njit(cache=True, nogil=True)
def _before(tree: Floats, index: Integer) -> tuple[float, float, float, float]:
    """Sums over the items of smaller indices."""
    one, of_gain, of_discount, of_both = 0.0, 0.0, 0.0, 0.0
    node = index
    while node > 0:
        one += tree[node, 0]
        of_gain += tree[node, 1]
        of_discount += tree[node, 2]
        of_both += tree[node, 3]
        node -= node & -node
    return one, of_gain, of_discount, of_both


@njit(**INNER)
def _meeting(
    tree: Floats, index: Integer, gain: float, discount: float, sign: float, rank_sign: float,
    plain: float, factor: float, flat: float,
) -> float:  # fmt: skip
    """Sum of the weights of an item with the items of smaller indices in the tree.

    `sign` is that of G_i - G_k, `rank_sign` that of D_i - D_k.
    """
    one, of_gain, of_discount, of_both = _before(tree, index)
    apart = rank_sign * (gain * discount * one - discount * of_gain - gain * of_discount + of_both)
    apart += flat * (gain * one - of_gain)
    return plain * one + factor * max(sign * apart, 0.0)


# Below, arrays of items are in ranking order. `sides` is empty but for one entry where all pairs
# count; otherwise pairs of items of two different sides do.


@njit(cache=True, nogil=True)
def _meet_few_grades(
    low: int, high: int, first: Integers, ends: Integers, query_start: Integers, level_gain: Floats,
    tied: Floats, plain: Floats, factor: Floats, flat: float, level: Integers, discount: Floats,
    winner: Floats, loser: Floats, sides: Bytes, losers: bool, up: Floats, down: Floats,
) -> None:  # fmt: skip
    """Sums of w_ik·winner_i·loser_k by sums for every grade of what stands above, and below.

    Part 0 or 1 of the sums, by side, is of losers: for every grade the sums of value times 1, of
    the gap to the gain of the grade and of gap times D, over what was seen of lower grades. Part 2
    is of winners of higher grades. All is one loop: calls would take longer than the sums.
    """
    queries = first.size - 1
    sums = np.empty((3, np.diff(query_start).max(), 3))
    for task in range(low, high):
        query, way = task % queries, task // queries
        sign, start, end = 1.0 - 2.0 * way, first[query], first[query + 1]
        gain = level_gain[query_start[query] : query_start[query + 1]]
        share, by_rank = plain[query], factor[query]
        sums[:, : gain.size] = 0.0
        position = start if way == 0 else end - 1
        while start <= position < end:
            # A run of equal scores: what was seen so far is above it, or below it.
            one, other = position, ends[position]
            if way == 1:
                one, other = _first_of_run(ends, start, position), position + 1
            for i in range(one, other):
                own, part = level[i], 1 - sides[i] if sides.size > 1 else 0
                gaps = sums[part, own, 1]
                apart = max(sign * (sums[part, own, 2] - discount[i] * gaps), 0.0) + flat * gaps
                up[way, i] = winner[i] * (share * sums[part, own, 0] + by_rank * apart)
                if losers:
                    gaps = sums[2, own, 1]
                    apart = max(sign * (sums[2, own, 2] - discount[i] * gaps), 0.0) + flat * gaps
                    down[way, i] = loser[i] * (share * sums[2, own, 0] + by_rank * apart)
            if way == 0 and other - one > 1:
                _meet_tied(one, other, level, gain, tied[one] + flat, share, by_rank, winner, loser,
                           sides, losers, up[0], down[0])  # fmt: skip
            for i in range(one, other):
                own, part = level[i], sides[i] if sides.size > 1 else 0
                for each in range(own + 1, gain.size):
                    gap = loser[i] * (gain[each] - gain[own])
                    sums[part, each, 0] += loser[i]
                    sums[part, each, 1] += gap
                    sums[part, each, 2] += gap * discount[i]
                for each in range(own if losers else 0):
                    gap = winner[i] * (gain[own] - gain[each])
                    sums[2, each, 0] += winner[i]
                    sums[2, each, 1] += gap
                    sums[2, each, 2] += gap * discount[i]
            position = other if way == 0 else one - 1


@njit(cache=True, nogil=True)
def _meet_many_grades(
    low: int, high: int, first: Integers, ends: Integers, query_start: Integers, level_gain: Floats,
    tied: Floats, plain: Floats, factor: Floats, flat: float, level: Integers, discount: Floats,
    winner: Floats, loser: Floats, sides: Bytes, losers: bool, up: Floats, down: Floats,
) -> None:  # fmt: skip
    """The same by Fenwick trees of what stands above, and below."""
    queries, most = first.size - 1, np.diff(query_start).max() + 1
    sums_above, sums_beyond = np.empty((2, most, 4)), np.empty((most, 4))
    for task in range(low, high):
        query, way = task % queries, task // queries
        direction = 1 - 2 * way  # the sign of D_k - D_i
        start, end = first[query], first[query + 1]
        gain = level_gain[query_start[query] : query_start[query + 1]]
        share, by_rank = plain[query], factor[query]
        above, beyond = sums_above[:, : gain.size + 1], sums_beyond[: gain.size + 1]
        above[:, :, :] = 0.0  # of losers, by side
        beyond[:, :] = 0.0  # of winners, from the highest grade down
        position = start if direction > 0 else end - 1
        while start <= position < end:
            one, other = position, ends[position]
            if direction < 0:
                one, other = _first_of_run(ends, start, position), position + 1
            for i in range(one, other):
                own, look = level[i], 1 - sides[i] if sides.size > 1 else 0
                up[way, i] = winner[i] * _meeting(
                    above[look], own, gain[own], discount[i], 1.0, -direction, share, by_rank, flat
                )
                if losers:
                    down[way, i] = loser[i] * _meeting(
                        beyond, gain.size - 1 - own, gain[own], discount[i], -1.0, -direction,
                        share, by_rank, flat,
                    )  # fmt: skip
            if direction > 0 and other - one > 1:
                _meet_tied(
                    one, other, level, gain, tied[one] + flat, share, by_rank, winner, loser,
                    sides, losers, up[0], down[0],
                )  # fmt: skip
            for i in range(one, other):
                own, side = level[i], sides[i] if sides.size > 1 else 0
                _insert(above[side], own, loser[i], gain[own], discount[i])
                if losers:
                    _insert(beyond, gain.size - 1 - own, winner[i], gain[own], discount[i])
            position = other if direction > 0 else one - 1


@njit(**INNER)
def _first_of_run(ends: Integers, start: Integer, position: Integer) -> int:
    """First position of the run of equal scores that a position is in."""
    one = position
    while one > start and ends[one - 1] == ends[position]:
        one -= 1
    return one


@njit(**INNER)
def _meet_tied(
    one: int, other: int, level: Integers, gain: Floats, apart: float, plain: float, factor: float,
    winner: Floats, loser: Floats, sides: Bytes, losers: bool, up: Floats, down: Floats,
) -> None:  # fmt: skip
    """Meetings inside a run of equal scores, all `apart` the same.

    Short runs are enumerated: sums as many as there are grades would cost more.
    """
    count = other - one
    if count * count <= 16 * gain.size:
        for i in range(one, other):
            for k in range(one, other):
                if level[k] < level[i] and (sides.size == 1 or sides[k] != sides[i]):
                    met = plain + factor * (gain[level[i]] - gain[level[k]]) * apart
                    up[i] += winner[i] * loser[k] * met
                    if losers:
                        down[k] += winner[i] * loser[k] * met
        return
    # Sums over all lower levels, or all higher ones, of 1 and G.
    lower, higher = np.zeros((2, gain.size + 1, 2)), np.zeros((gain.size + 1, 2))
    for i in range(one, other):
        side = sides[i] if sides.size > 1 else 0
        lower[side, level[i] + 1, 0] += loser[i]
        lower[side, level[i] + 1, 1] += loser[i] * gain[level[i]]
        higher[level[i], 0] += winner[i]
        higher[level[i], 1] += winner[i] * gain[level[i]]
    for each in range(1, gain.size + 1):
        lower[:, each] += lower[:, each - 1]
        higher[gain.size - each] += higher[gain.size - each + 1]
    for i in range(one, other):
        look, own = 1 - sides[i] if sides.size > 1 else 0, level[i]
        sums = lower[look, own]
        met = factor * apart * (gain[own] * sums[0] - sums[1])
        up[i] += winner[i] * (plain * sums[0] + max(met, 0.0))
        if losers:
            sums = higher[own + 1]
            met = factor * apart * (sums[1] - gain[own] * sums[0])
            down[i] += loser[i] * (plain * sums[0] + max(met, 0.0))


@njit(cache=True, nogil=True)
def _meet_far_apart(
    queries: Integers, first: Integers, level: Integers, margin: Floats, ranked: Floats,
    gain: Floats, discount: Floats, tied: Floats, plain: Floats, factor: Floats, flat: float,
    winner: Floats, loser: Floats, sides: Bytes, up: Floats, down: Floats, lift: Floats,
) -> None:  # fmt: skip
    """Pairs of queries with exponentials beyond floats, one by one, relative to the largest."""
    for query in queries:
        start, end = first[query], first[query + 1]
        most = -np.inf
        up[start:end] = 0.0
        down[start:end] = 0.0
        for sweep in range(2):
            for i in range(start, end):
                for k in range(start, i):
                    if level[k] == level[i]:
                        break
                    if sides.size and sides[k] == sides[i]:
                        continue
                    apart = flat + abs(discount[i] - discount[k])
                    if ranked[i] == ranked[k]:
                        apart += tied[i]
                    met = plain[query] + factor[query] * (gain[i] - gain[k]) * apart
                    met *= winner[i] * loser[k]
                    if sweep == 0 and met > 0.0:
                        most = max(most, margin[k] - margin[i])
                    elif sweep == 1 and met > 0.0:
                        met *= portable_exp(margin[k] - margin[i] - most)
                        up[i] += met
                        down[k] += met
        lift[query] = most if most > -np.inf else 0.0
