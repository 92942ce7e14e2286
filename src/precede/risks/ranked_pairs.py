"""Risks with LambdaRank weights: each pair is visited once, none is stored.

As in `precede.risks.short_queries`, the losers of a winner are the rows before its level, and its
winners those after it. With a cut-off at rank k only rows within the first k ranks have a discount,
and only their pairs are enumerated: O(k) pairs per row.

Tied rows share their ranks. In the first round all rows are tied, so all of them have a discount,
and enumerating their pairs would take quadratic time. A large *tied group* (rows whose scores were
equal when they were ranked) is therefore divided into *subgroups* whose current scores are equal as
well. All pairs of a subgroup with one row have the same margin, and their weights ``G_i - G_k`` are
summed level by level. This takes O(n) per subgroup, and there are at most as many subgroups as the
last weak ranker has values::

    score when ranked     0   0   0   0   0   0   0       one tied group
    current score         0   0  .3  .3  .3  .7  .7       three subgroups

On a GPU a block of threads sums a query, in the order of the CPU, so all results have the same
bits. Rounds that begin with large tied groups are summed on the CPU.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from precede.engine.arrays import Array, BackendArray, Bytes, Flags, Floats, Integer, Integers
from precede.engine.backend import CPU, Backend
from precede.engine.compiling import INNER, njit
from precede.engine.exact import all_reduce_max, all_reduce_sum, exact_sums
from precede.engine.execution import is_small
from precede.engine.portable import exp, fmin, log_of, portable_exp, portable_log1p
from precede.engine.query_layout import QueryLayout
from precede.losses import PairLoss, Price, Separable
from precede.risks.base import BoundLossRisk, EdgeWeights, State, pair_shape
from precede.risks.lambdarank import RankWeight, RankWeights, RoundWeights
from precede.risks.line_search import smoothed_step

# Degree of losses ``exp(-rate m)``, beside those of `PairShape`.
EXPONENTIAL = 3
# Problems with more pairs are refused; a fit would take days.
MAX_PAIRS_PER_ROW = 50_000
# Tied groups of more rows are divided into subgroups, in lists of more than LONG_LIST_ROWS rows.
LONG_LIST_ROWS, MAX_ENUMERATED_TIES = 1024, 64
MAX_PAIRS_PER_CALL = 1 << 27  # pairs of subgroups and rows; one or two seconds
MAX_EXP_RANGE = 80.0  # range of scores up to which logistic losses are computed from exponentials
# Range of rate times scores up to which sums of exponentials are not scaled.
MAX_UNSCALED_RANGE, MAX_EXPONENT = 600.0, 700.0
# On a GPU every row is compared with all others of its query.
MAX_QUERY_ROWS = 8192
BYTES_PER_ROW = 200


@dataclass
class _PairSums:
    """Sums over the pairs of every query (value, gradient) and of every row (pull, Hessian).

    Those of a query and its rows are divided by ``exp(log_scale)``.
    """

    by_query: BackendArray
    pull: BackendArray
    hessian: BackendArray
    log_scale: BackendArray


class RankedPairsRisk(BoundLossRisk):
    """Exponential, logistic or hinge loss, linear price, weights by rank.

    O(pairs) time, O(n) memory. Before the first `begin_round`, ranks are those of the scores at
    which the risk is evaluated. `State.cache` holds the Hessian diagonal, divided by the gradient
    sum as the pull is. A GPU is used unless a query has more than `MAX_QUERY_ROWS` rows.
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
        sizes = np.diff(weights.first)
        self._max_rows = int(sizes.max(initial=0))
        self._long_queries = np.flatnonzero(sizes > LONG_LIST_ROWS).tolist()
        self._query_of_row = np.repeat(np.arange(sizes.size), sizes)
        self._small = is_small("heavy rows", layout.n_graded)
        self._sparse = weights.ignores_undiscounted_pairs
        if not self._sparse:
            self._refuse_many_pairs()
        fits = 0 < self._max_rows <= MAX_QUERY_ROWS
        if self.context.backend.is_gpu and fits and not self.context.is_distributed:
            self.backend = self.context.backend
            self._put_on_gpu()

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
        if backend.is_gpu and self._may_have_tied_groups(weights):
            cpu_weights = self.weights.rank(backend.get(scores), CPU)
            if self._tied_subgroups(cpu_weights, cpu_weights.scores):
                backend, weights = CPU, cpu_weights
        if not self.weights.needs_totals:
            return weights
        totals = self._sums_of_weights(weights, degree=1)
        return self.weights.scaled(weights, backend.get(totals.by_query[0]), backend)

    def _may_have_tied_groups(self, weights: RoundWeights) -> bool:
        """Return whether a long list has many rows with a discount; copies a number per query."""
        if not self._long_queries or not self._sparse:
            return False
        xp, get = self.backend.xp, self.backend.get
        discounted = xp.cumsum(weights.discount > 0, dtype=np.int64)
        counts = np.diff(get(discounted[self._last_rows]), prepend=0)
        return bool(counts[self._long_queries].max() > MAX_ENUMERATED_TIES)

    def _sums_of_weights(self, weights: RoundWeights, degree: int) -> _PairSums:
        """Return sums over pairs whose loss is 1: hinges of degree 1 or 2 at equal scores."""
        backend = self._backend_of(weights.scores)
        equal_scores = backend.zeros(weights.scores.size)
        return self._sum_pairs(weights, equal_scores, slopes=degree == 2, shape=(degree, 1.0))

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
        backend = self._backend_of(state.scores)
        scores, ones = backend.get(state.scores), backend.get(values) == 1
        shares = []
        for winners in (ones, ~ones):
            weight = np.where(winners, self.layout.weight, 0.0)
            loser_weight = np.where(winners, 0.0, self.layout.loser_weight)
            sums = self._sums_at(
                scores, slopes=True, value=False, row_weights=(weight, loser_weight)
            )
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

    # -- sums over pairs -------------------------------------------------------------------

    def _sums_at(
        self, scores: BackendArray, *, slopes: bool, value: bool = True,
        row_weights: tuple[Floats, Floats] | None = None,
    ) -> _PairSums:  # fmt: skip
        """Return the sums at these scores, on the backend that ranked the rows of this round."""
        weights = self._weights_at(scores)
        backend, n_graded = self._backend_of(weights.scores), self.layout.n_graded
        graded_scores = self._move(scores[:n_graded], backend)
        if self.loss.gap:
            graded_scores = graded_scores - self._copy_on(
                backend, "grade", lambda: self.layout.grade[:n_graded]
            )
        return self._sum_pairs(
            weights, graded_scores, slopes=slopes, value=value, row_weights=row_weights
        )

    def _move(self, array: BackendArray, backend: Backend) -> BackendArray:
        """Return an array on the CPU or on the GPU of this risk."""
        return backend.put(array) if backend.is_gpu else self.backend.get(array)

    def _rescale(self, sums: _PairSums) -> float:
        """Divide all sums by one exponential, ``exp(c)`` with the largest scale; return c."""
        if self._shape[0] != EXPONENTIAL:
            return 0.0
        backend = self._backend_of(sums.by_query)
        log_scale = backend.get(sums.log_scale)
        has_pairs = backend.get(sums.by_query).max(axis=0) > 0
        largest = float(
            all_reduce_max(lambda: log_scale[has_pairs].max(initial=-np.inf), self.context)
        )
        if largest == -np.inf or (largest == 0 and not log_scale.any()):
            return 0.0
        ratio = np.zeros(log_scale.size)
        ratio[has_pairs] = exp(log_scale[has_pairs] - largest)
        sums.by_query *= backend.put(ratio)
        if sums.pull.size:
            by_row = backend.put(ratio[self._query_of_row])
            sums.pull *= by_row
            sums.hessian *= by_row
        return largest

    def _sum_pairs(
        self, weights: RoundWeights, scores: BackendArray, *, slopes: bool, value: bool = True,
        shape: tuple[int, float] | None = None, row_weights: tuple[Floats, Floats] | None = None,
    ) -> _PairSums:  # fmt: skip
        """Sum over pairs: the value of queries if `value`, gradient and Hessian if `slopes`.

        `row_weights` are the weights of the rows as winners and as losers.
        """
        backend, n_queries = self._backend_of(weights.scores), self.weights.first.size - 1
        n_rows = self.layout.n_used_rows if slopes else 0
        sums = _PairSums(
            backend.zeros(2, n_queries), backend.zeros(n_rows), backend.zeros(n_rows),
            backend.zeros(n_queries),
        )  # fmt: skip
        shape = shape or self._shape
        if backend.is_gpu:
            self._sum_on_gpu(sums, weights, scores, shape, row_weights, value=value)
        else:
            row_weights = row_weights or (self.layout.weight, self.layout.loser_weight)
            self._sum_on_cpu(sums, weights, scores, shape, row_weights, value=value)
        return sums

    def _put_on_gpu(self) -> None:
        layout, backend = self.layout, self.backend
        backend.check_room(BYTES_PER_ROW * layout.n_graded, "the pulls of all pairs")
        self._gpu_bounds = backend.put(layout.query_start), backend.put(layout.level_start)
        self._last_rows = backend.put(self.weights.first[1:] - 1)
        self._gpu_gain = backend.put(self.weights.gain)
        self._gpu_weights = backend.put(layout.weight), backend.put(layout.loser_weight)
        self._scratch = backend.zeros(2, layout.n_graded), backend.zeros(4, layout.n_graded)

    def _sum_on_gpu(
        self, sums: _PairSums, weights: RoundWeights, scores: BackendArray,
        shape: tuple[int, float], row_weights: tuple[Floats, Floats] | None, *, value: bool,
    ) -> None:  # fmt: skip
        put, slopes = self.backend.put, int(sums.pull.size > 0)
        given = self._gpu_weights
        if row_weights is not None:
            given = put(row_weights[0]), put(row_weights[1])
        self.backend.launch(
            "ranked_pairs", self.weights.first.size - 1, 128, *self._gpu_bounds,
            np.int64(self.layout.n_graded), shape[0], float(shape[1]), int(self._sparse),
            float(self.weights.flat), scores, weights.scores, self._gpu_gain, weights.discount,
            weights.tied, *given, weights.plain, weights.factor, int(value), slopes,
            *self._scratch, sums.pull, sums.hessian, sums.by_query, sums.log_scale,
        )  # fmt: skip

    def _sum_on_cpu(
        self, sums: _PairSums, weights: RoundWeights, scores: Floats, shape: tuple[int, float],
        row_weights: tuple[Floats, Floats], *, value: bool,
    ) -> None:  # fmt: skip
        layout, ranked = self.layout, self.weights
        enumerated, subgroups_of = None, self._tied_subgroups(weights, scores)
        if subgroups_of:
            enumerated = weights.discount > 0
            tied = [rows for subgroups in subgroups_of.values() for rows in subgroups]
            enumerated[np.concatenate(tied)] = False
        self.context.run(
            _sum_queries, ranked.first.size - 1, layout.level_start, layout.query_start,
            self._max_rows, *shape, self._sparse, scores, weights.scores, ranked.gain,
            weights.discount, weights.tied, weights.plain, weights.factor, ranked.flat,
            *row_weights, value, enumerated, sums.pull, sums.hessian, sums.by_query,
            sums.log_scale, small=self._small,
        )  # fmt: skip
        if enumerated is not None:
            self._add_tied_groups(
                sums, weights, scores, shape, (*row_weights, enumerated), subgroups_of
            )

    def _add_tied_groups(
        self, sums: _PairSums, weights: RoundWeights, scores: Floats, shape: tuple[int, float],
        row_arrays: tuple[Floats, Floats, Flags], subgroups_of: dict[int, list[Integers]],
    ) -> None:  # fmt: skip
        """Add the pairs of tied groups, in calls short enough that Ctrl-C is handled between them.

        `row_arrays` are the weights of rows as winners and as losers, and whether they are
        enumerated.
        """
        ranked, layout = self.weights, self.layout
        for query, subgroups in subgroups_of.items():
            first_level, end_level = layout.query_start[query : query + 2]
            n_rows = ranked.first[query + 1] - ranked.first[query]
            n_calls = 1 + len(subgroups) * n_rows // MAX_PAIRS_PER_CALL
            for call in np.array_split(np.arange(len(subgroups)), n_calls):
                rows = [subgroups[index] for index in call]
                _sum_subgroups(
                    np.cumsum([0, *map(len, rows)]), np.concatenate(rows), first_level, end_level,
                    layout.level_start, *shape, sums.log_scale[query], scores, weights.scores,
                    ranked.gain, weights.discount, weights.tied, weights.factor[query], *row_arrays,
                    sums.pull, sums.hessian, sums.by_query[:, query],
                )  # fmt: skip

    def _tied_subgroups(self, weights: RoundWeights, scores: Floats) -> dict[int, list[Integers]]:
        """Return the subgroups of large tied groups that have a discount, by query."""
        subgroups_of = {
            query: self._subgroups_of_query(query, weights, scores)
            for query in self._long_queries
            if self._sparse
        }
        most = max(map(len, subgroups_of.values()), default=0)
        if most > MAX_PAIRS_PER_ROW:
            raise ValueError(
                f"rank_weight={self.weights.rule!r} goes through all pairs of {most} rows that "
                "have equal scores where a round begins and different ones after it; use rankers "
                "of few values, such as trees"
            )
        return {query: subgroups for query, subgroups in subgroups_of.items() if subgroups}

    def _subgroups_of_query(
        self, query: int, weights: RoundWeights, scores: Floats
    ) -> list[Integers]:
        """Return the rows of every subgroup of a query."""
        low, high = self.weights.first[query : query + 2]
        rows = low + np.flatnonzero(weights.discount[low:high] > 0)
        if rows.size <= MAX_ENUMERATED_TIES:
            return []
        rows = rows[np.lexsort((scores[rows], weights.scores[rows]))]
        groups = np.split(rows, 1 + np.flatnonzero(np.diff(weights.scores[rows])))
        return [
            rows
            for group in groups
            if group.size > MAX_ENUMERATED_TIES
            for rows in np.split(group, 1 + np.flatnonzero(np.diff(scores[group])))
        ]


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
#
# `items` has a row for each quantity of the items of a query: inputs, then sums. `work` has a row
# for each quantity of the pairs of one item. Loops are short and over few arrays, because the
# compiler does not vectorize one long loop, nor a division that could raise.

_SCORE, _INVERSE, _RANK_SCORE, _GAIN, _DISCOUNT, _TIED = range(6)
_LOSER_WEIGHT, _WINNER_WEIGHT, _ENUMERATED, _LOSER_SLOPE, _WINNER_SLOPE, _HESSIAN = range(6, 12)
_WEIGHT, _SLOPE, _CURVATURE, _LOSS = range(4)
# Kinds of losses. Logistic: all margins far in order (``1 + exp(-m)`` would lose the digits of the
# exponential), scores close together, or any scores; hinge; squared hinge; exponential.
_SMALL, _NARROW, _WIDE, _HINGE, _SQUARED, _EXPONENTIAL = range(6)


@njit(cache=True, nogil=True)
def _sum_queries(
    low: int, high: int, level_start: Integers, query_start: Integers, max_rows: int, degree: int,
    knot: float, sparse: bool, scores: Floats, rank_scores: Floats, gain: Floats, discount: Floats,
    tied: Floats, plain: Floats, factor: Floats, flat: float, weight: Floats, loser_weight: Floats,
    with_value: bool, enumerated: Flags | None, pull: Floats, hessian: Floats, sums: Floats,
    log_scale: Floats,
) -> None:  # fmt: skip
    """Fill value and gradient sum of every query in `sums`; add to `pull` and `hessian`.

    With an empty `pull` only values are computed. `knot` is the rate of an exponential loss, whose
    sums are divided by ``exp(log_scale)`` of the query. `enumerated` flags the rows with a discount
    outside of tied groups; None without tied groups.
    """
    items, work = np.empty((12, max_rows)), np.empty((4, max_rows))
    with_slopes = pull.size > 0
    for query in range(low, high):
        first_level, end_level = query_start[query], query_start[query + 1]
        first_row, end_row = level_start[first_level], level_start[end_level]
        items[_RANK_SCORE, : end_row - first_row] = rank_scores[first_row:end_row]
        items[_GAIN, : end_row - first_row] = gain[first_row:end_row]
        items[_DISCOUNT, : end_row - first_row] = discount[first_row:end_row]
        items[_TIED, : end_row - first_row] = tied[first_row:end_row]
        items[_LOSER_WEIGHT, : end_row - first_row] = loser_weight[first_row:end_row]
        items[_WINNER_WEIGHT, : end_row - first_row] = weight[first_row:end_row]
        items[_LOSER_SLOPE:, : end_row - first_row] = 0.0
        kind = _read_scores(scores, first_row, end_row, degree, items)
        plain_weight, rank_factor = plain[query], factor[query]
        if degree == EXPONENTIAL:
            log_scale[query] = _find_scale(
                level_start, first_level, end_level, plain_weight, rank_factor, flat, knot, items
            )
            for k in range(end_row - first_row):
                exponent = knot * scores[first_row + k]
                items[_SCORE, k] = exponent - 0.5 * log_scale[query]
                items[_INVERSE, k] = -exponent - 0.5 * log_scale[query]
        only_enumerated = sparse and _is_sparse(items[_DISCOUNT, : end_row - first_row])
        for k in range(end_row - first_row):
            items[_ENUMERATED, k] = 1.0 if items[_DISCOUNT, k] > 0.0 else 0.0
            if (
                enumerated is not None
                and not enumerated[first_row + k]
                and items[_ENUMERATED, k] > 0.0
            ):
                items[_ENUMERATED, k], only_enumerated = 0.0, True
        value, weight_sum = _sum_query(
            level_start, first_level, end_level, only_enumerated, kind, with_slopes, with_value,
            plain_weight, rank_factor, flat, knot, items, work,
        )  # fmt: skip
        if kind == _NARROW and with_value and value < 1e-6 * weight_sum:
            value, _ = _sum_query(
                level_start, first_level, end_level, only_enumerated, _SMALL, False, True,
                plain_weight, rank_factor, flat, knot, items, work,
            )  # fmt: skip
        sums[0, query] = value
        if with_slopes:
            sums[1, query] = _add_query_gradients(first_row, end_row, items, pull, hessian)


@njit(**INNER)
def _read_scores(
    scores: Floats, first_row: Integer, end_row: Integer, degree: int, items: Floats
) -> int:
    """Store scores, or their exponentials if close together; return the kind of the loss."""
    lowest, highest = scores[first_row], scores[first_row]
    for row in range(first_row, end_row):
        lowest, highest = min(lowest, scores[row]), max(highest, scores[row])
    if degree > 0 or highest - lowest >= MAX_EXP_RANGE:
        items[_SCORE, : end_row - first_row] = scores[first_row:end_row]
        return _WIDE + degree
    center = 0.5 * (highest + lowest)
    for row in range(first_row, end_row):
        items[_SCORE, row - first_row] = portable_exp(scores[row] - center)
    for k in range(end_row - first_row):
        items[_INVERSE, k] = np.divide(1.0, items[_SCORE, k])
    return _NARROW


@njit(**INNER)
def _find_scale(
    level_start: Integers, first_level: Integer, end_level: Integer, plain: float, factor: float,
    flat: float, rate: float, items: Floats,
) -> float:  # fmt: skip
    """Return the largest exponent of a pair with a weight if sums could overflow, else 0."""
    first_row, n_rows = level_start[first_level], level_start[end_level] - level_start[first_level]
    scores = items[_SCORE, :n_rows]
    if rate * (scores.max() - scores.min()) <= MAX_UNSCALED_RANGE:
        return 0.0
    largest = -np.inf
    for level in range(first_level + 1, end_level):
        low, high = level_start[level] - first_row, level_start[level + 1] - first_row
        for i in range(low, high):
            for k in range(low):
                exponent = rate * (scores[k] - scores[i])
                if exponent > largest:
                    gap = abs(items[_DISCOUNT, i] - items[_DISCOUNT, k]) + flat
                    if items[_RANK_SCORE, i] == items[_RANK_SCORE, k]:
                        gap += items[_TIED, i]
                    weight = plain + factor * (items[_GAIN, i] - items[_GAIN, k]) * gap
                    if weight * items[_WINNER_WEIGHT, i] * items[_LOSER_WEIGHT, k] > 0.0:
                        largest = exponent
    return largest if largest > -np.inf else 0.0


@njit(**INNER)
def _is_sparse(discount: Floats) -> bool:
    """Return whether less than half of the rows have a discount."""
    count = 0
    for value in discount:
        count += value > 0.0
    return 2 * count < discount.size


@njit(**INNER)
def _add_query_gradients(
    first_row: Integer, end_row: Integer, items: Floats, pull: Floats, hessian: Floats
) -> float:
    """Add the gradients and Hessians of a query to its rows; return the gradient sum."""
    gradient_sum = 0.0
    for k in range(end_row - first_row):
        gradient_sum += items[_LOSER_SLOPE, k]
        pull[first_row + k] += items[_WINNER_SLOPE, k] - items[_LOSER_SLOPE, k]
        hessian[first_row + k] += items[_HESSIAN, k]
    return gradient_sum


@njit(**INNER)
def _sum_query(
    level_start: Integers, first_level: Integer, end_level: Integer, sparse: bool, kind: int,
    with_slopes: bool, with_value: bool, plain: float, factor: float, flat: float, knot: float,
    items: Floats, work: Floats,
) -> tuple[float, float]:  # fmt: skip
    """Return the value of a query and the weight of its pairs.

    If `sparse`, only rows flagged as enumerated are paired with all others, as winners and as
    losers; a pair of two such rows is counted for its winner. Otherwise all winners are paired with
    their losers.
    """
    first_row, n_rows = level_start[first_level], level_start[end_level] - level_start[first_level]
    value, weight_sum = 0.0, 0.0
    for level in range(first_level, end_level):
        low, high = level_start[level] - first_row, level_start[level + 1] - first_row
        for i in range(low, high):
            if sparse and items[_ENUMERATED, i] == 0.0:
                continue
            own_weight = items[_WINNER_WEIGHT, i]
            if own_weight > 0.0 and low > 0:
                loss, weight = _sum_pairs_of_row(
                    i, 0, low, 1.0, own_weight, kind, with_slopes, with_value, plain, factor, flat,
                    knot, items, work,
                )  # fmt: skip
                value, weight_sum = value + loss, weight_sum + weight
            own_weight = items[_LOSER_WEIGHT, i]
            if sparse and own_weight > 0.0 and high < n_rows:
                loss, weight = _sum_pairs_of_row(
                    i, high, n_rows, -1.0, own_weight, kind, with_slopes, with_value, plain, factor,
                    flat, knot, items, work,
                )  # fmt: skip
                value, weight_sum = value + loss, weight_sum + weight
    return value, weight_sum


@njit(**INNER)
def _sum_pairs_of_row(
    i: Integer, low: Integer, high: Integer, sign: float, own_weight: float, kind: int,
    with_slopes: bool, with_value: bool, plain: float, factor: float, flat: float, knot: float,
    items: Floats, work: Floats,
) -> tuple[float, float]:  # fmt: skip
    """Sum the pairs of row i with rows low..high, which lose against it (sign 1) or win (sign -1).

    Returns loss and weight of the pairs.
    """
    count = high - low
    weight, slope, curvature, loss = work[_WEIGHT], work[_SLOPE], work[_CURVATURE], work[_LOSS]
    weights = items[_LOSER_WEIGHT if sign > 0.0 else _WINNER_WEIGHT, low:high]
    _pair_weights(
        items[_RANK_SCORE, low:high], items[_GAIN, low:high], items[_DISCOUNT, low:high], weights,
        items[_RANK_SCORE, i], items[_GAIN, i], items[_DISCOUNT, i], items[_TIED, i], flat,
        own_weight * plain, sign * own_weight * factor, weight,
    )  # fmt: skip
    if sign < 0.0:
        _skip_enumerated(items[_ENUMERATED, low:high], weight)
    if kind <= _NARROW or kind == _EXPONENTIAL:
        of_row = items[_INVERSE if sign > 0.0 else _SCORE, i]
        scores = items[_SCORE if sign > 0.0 else _INVERSE, low:high]
        if kind == _EXPONENTIAL:
            _exponential_terms(scores, of_row, knot, weight, slope, curvature, loss)
        elif with_slopes:
            _narrow_logistic_slopes(scores, of_row, weight, slope, curvature)
        if with_value and kind <= _NARROW:
            _narrow_logistic_losses(scores, of_row, weight, kind, loss)
    elif kind == _WIDE:
        _wide_logistic_terms(
            items[_SCORE, low:high], items[_SCORE, i], sign, weight, slope, curvature, loss
        )
    elif kind == _HINGE:
        scores = items[_SCORE, low:high]
        _hinge_terms(scores, items[_SCORE, i], sign, knot, weight, slope, curvature, loss)
    else:
        scores = items[_SCORE, low:high]
        _squared_hinge_terms(scores, items[_SCORE, i], sign, knot, weight, slope, curvature, loss)
    if with_slopes:
        _add_to(slope, items[_LOSER_SLOPE if sign > 0.0 else _WINNER_SLOPE, low:high])
        _add_to(curvature, items[_HESSIAN, low:high])
        items[_WINNER_SLOPE if sign > 0.0 else _LOSER_SLOPE, i] += _sum(slope, count)
        items[_HESSIAN, i] += _sum(curvature, count)
    if not with_value:
        return 0.0, 0.0
    return _sum(loss, count), _sum(weight, count)


@njit(**INNER)
def _skip_enumerated(enumerated: Floats, weight: Floats) -> None:
    """Set the weights of enumerated rows to 0; their pairs are counted for the winner."""
    for k in range(enumerated.size):
        weight[k] = 0.0 if enumerated[k] > 0.0 else weight[k]


@njit(cache=True, nogil=True)
def _sum_subgroups(
    subgroup_start: Integers, members: Integers, first_level: int, end_level: int,
    level_start: Integers, degree: int, knot: float, log_scale: float, scores: Floats,
    rank_scores: Floats, gain: Floats, discount: Floats, tied: Floats, factor: float,
    winner: Floats, loser: Floats, enumerated: Flags, pull: Floats, hessian: Floats, total: Floats,
) -> None:  # fmt: skip
    """Add the pairs of some subgroups: value and gradient sum to `total`, gradients to the rows.

    As winners the rows of a subgroup are paired with all rows that are not enumerated, as losers
    with those without a discount. Rows of `sums`, by level: weight of the subgroup, then slope and
    curvature of the rows paired with it; then both with differences of gains.
    """
    gains, sums = gain[level_start[first_level:end_level]], np.empty((3, end_level - first_level))
    for step in range(2 * (subgroup_start.size - 1)):
        sign = 1.0 - 2.0 * (step % 2)
        rows = members[subgroup_start[step // 2] : subgroup_start[step // 2 + 1]]
        weights, other_weights = (winner, loser) if sign > 0.0 else (loser, winner)
        sums[:] = 0.0
        _sum_by_level(rows, level_start, first_level, weights, sums[0])
        _sum_gain_gaps(gains, sums[0], -sign)
        for level in range(first_level, end_level):
            if sums[0, level - first_level] > 0.0:
                _sum_pairs_of_level(
                    rows[0], level_start[level], level_start[level + 1], sign, degree, knot,
                    log_scale, scores, rank_scores, discount, tied, factor, other_weights,
                    enumerated, pull, hessian, sums[:, level - first_level], total,
                )  # fmt: skip
        if pull.size:
            _sum_gain_gaps(gains, sums[1], sign)
            _sum_gain_gaps(gains, sums[2], sign)
            _add_level_gradients(rows, level_start, first_level, weights, sign, sums, pull, hessian)


@njit(**INNER)
def _sum_pairs_of_level(
    member: Integer, first_row: Integer, end_row: Integer, sign: float, degree: int, knot: float,
    log_scale: float, scores: Floats, rank_scores: Floats, discount: Floats, tied: Floats,
    factor: float, other_weights: Floats, enumerated: Flags, pull: Floats, hessian: Floats,
    sums: Floats, total: Floats,
) -> None:  # fmt: skip
    """Add the pairs of rows first..last of a level with a subgroup, of which `member` is a row."""
    value, slopes, curvatures = 0.0, 0.0, 0.0
    for k in range(first_row, end_row):
        if enumerated[k] or (sign < 0.0 and discount[k] > 0.0):
            continue
        tie_gap = tied[member] if rank_scores[member] == rank_scores[k] else 0.0
        weight = other_weights[k] * factor * (abs(discount[member] - discount[k]) + tie_gap)
        margin = sign * (scores[member] - scores[k])
        loss, slope, curvature = _pair_loss(margin, degree, knot, log_scale)
        value += weight * loss
        slopes += weight * slope
        curvatures += weight * curvature
        if pull.size:
            pull[k] -= sign * sums[0] * (weight * slope)
            hessian[k] += sums[0] * (weight * curvature)
    total[0] += sums[0] * value
    total[1] += sums[0] * slopes
    sums[1], sums[2] = slopes, curvatures


@njit(**INNER)
def _sum_by_level(
    rows: Integers, level_start: Integers, first_level: Integer, weights: Floats, sums: Floats
) -> None:
    """Sum the weights of the rows of a subgroup by level."""
    level = first_level
    for row in rows:
        while row >= level_start[level + 1]:
            level += 1
        sums[level - first_level] += weights[row]


@njit(**INNER)
def _add_level_gradients(
    rows: Integers, level_start: Integers, first_level: Integer, weights: Floats, sign: float,
    sums: Floats, pull: Floats, hessian: Floats,
) -> None:  # fmt: skip
    """Add slopes and curvatures by level to the rows of a subgroup."""
    level = first_level
    for row in rows:
        while row >= level_start[level + 1]:
            level += 1
        pull[row] += sign * weights[row] * sums[1, level - first_level]
        hessian[row] += weights[row] * sums[2, level - first_level]


@njit(**INNER)
def _sum_gain_gaps(gain: Floats, sums: Floats, direction: float) -> None:
    """Replace sums x of levels by ``sum_j |G_l - G_j| x_j`` over levels j below, or above.

    `direction` is 1 for levels below, -1 for levels above. Only gains are subtracted, so no digits
    are lost.
    """
    total, gap_sum = 0.0, 0.0
    for j in range(gain.size):
        level = j if direction > 0.0 else gain.size - 1 - j
        if j > 0:
            gap_sum += abs(gain[level] - gain[level - 1 if direction > 0.0 else level + 1]) * total
        total += sums[level]
        sums[level] = gap_sum


@njit(**INNER)
def _pair_loss(
    margin: float, degree: int, knot: float, log_scale: float
) -> tuple[float, float, float]:
    """Return loss, negative slope and curvature at a margin."""
    if degree == EXPONENTIAL:
        loss = portable_exp(fmin(-knot * margin - log_scale, MAX_EXPONENT))
        return loss, knot * loss, knot * knot * loss
    if degree == 0:
        exponential = portable_exp(-abs(margin))
        slope = (exponential if margin > 0.0 else 1.0) / (1.0 + exponential)
        curvature = exponential / ((1.0 + exponential) * (1.0 + exponential))
        return portable_log1p(exponential) + (0.0 if margin > 0.0 else -margin), slope, curvature
    shortfall = knot - margin
    if shortfall <= 0.0:
        return 0.0, 0.0, 0.0
    return (shortfall, 1.0, 0.0) if degree == 1 else (shortfall * shortfall, 2.0 * shortfall, 2.0)


@njit(**INNER)
def _add_to(values: Floats, target: Floats) -> None:
    for k in range(target.size):
        target[k] += values[k]


@njit(**INNER)
def _pair_weights(
    rank_scores: Floats, gains: Floats, discounts: Floats, weights: Floats, rank_score: float,
    gain: float, discount: float, tied: float, flat: float, plain: float, factor: float,
    weight: Floats,
) -> None:  # fmt: skip
    """Compute the weights of the pairs of one row with others."""
    for k in range(weights.size):
        discount_gap = abs(discount - discounts[k]) + flat
        weight[k] = discount_gap + (tied if rank_scores[k] == rank_score else 0.0)
    for k in range(weights.size):
        weight[k] = weights[k] * (plain + factor * (gain - gains[k]) * weight[k])


@njit(**INNER)
def _narrow_logistic_slopes(
    exp_scores: Floats, factor: float, weight: Floats, slope: Floats, curvature: Floats
) -> None:
    """Compute logistic slopes; ``exp_scores·factor`` is exp(-m) for a margin m."""
    for k in range(exp_scores.size):
        wrong = exp_scores[k] * factor
        right = np.divide(1.0, 1.0 + wrong)  # probability of the right order
        slope[k] = weight[k] * (wrong * right)
        curvature[k] = slope[k] * right


@njit(**INNER)
def _narrow_logistic_losses(
    exp_scores: Floats, factor: float, weight: Floats, kind: int, loss: Floats
) -> None:
    if kind == _SMALL:
        for k in range(exp_scores.size):
            loss[k] = weight[k] * portable_log1p(exp_scores[k] * factor)
        return
    for k in range(exp_scores.size):
        loss[k] = 1.0 + exp_scores[k] * factor
    for k in range(exp_scores.size):
        loss[k] = weight[k] * _logarithm(loss[k])


@njit(**INNER)
def _logarithm(x: float) -> float:
    """Return the logarithm of a finite number of at least 1; vectorizes.

    ``x = 2^n (1 + f)`` with 1 + f near 1, and ``log(1 + f) = 2 atanh(s)`` for ``s = f / (2 + f)``,
    whose series in s² is short for |s| < 0.172.
    """
    bits = np.float64(x).view(np.int64)
    # Bits of sqrt(1/2): larger mantissas belong to the next power of two.
    exponent = (bits - 4604544271217802189) >> 52
    f = np.int64(bits - (exponent << 52)).view(np.float64) - 1.0
    # A number below 2^51 added to the bits of 1.5 · 2^52 is added to the float as well.
    n = np.int64(exponent + 4843621399236968448).view(np.float64) - 6755399441055744.0
    s = np.divide(f, 2.0 + f)
    z = s * s
    square, fourth = z * z, (z * z) * (z * z)
    # Independent partial sums, which overlap.
    first = (1 / 3 + z * (1 / 5)) + square * (1 / 7 + z * (1 / 9))
    second = (1 / 11 + z * (1 / 13)) + square * (1 / 15 + z * (1 / 17))
    series = first + fourth * (second + fourth * (1 / 19 + z * (1 / 21)))
    return n * 0.6931471805599453 + 2.0 * (s + s * (z * series))


@njit(**INNER)
def _wide_logistic_terms(
    scores: Floats, own_score: float, sign: float, weight: Floats, slope: Floats, curvature: Floats,
    loss: Floats,
) -> None:  # fmt: skip
    """Compute logistic losses of scores too far apart for plain exponentials."""
    for k in range(scores.size):
        margin = sign * (own_score - scores[k])
        exponential = portable_exp(-abs(margin))
        slope[k] = weight[k] * ((exponential if margin > 0 else 1.0) / (1.0 + exponential))
        curvature[k] = weight[k] * (exponential / ((1.0 + exponential) * (1.0 + exponential)))
        loss[k] = weight[k] * (portable_log1p(exponential) + max(-margin, 0.0))


@njit(**INNER)
def _exponential_terms(
    exponents: Floats, of_row: float, rate: float, weight: Floats, slope: Floats,
    curvature: Floats, loss: Floats,
) -> None:  # fmt: skip
    """Compute exponential losses ``exp(exponents + of_row)``; larger ones have no weight."""
    for k in range(exponents.size):
        loss[k] = weight[k] * portable_exp(fmin(exponents[k] + of_row, MAX_EXPONENT))
    for k in range(exponents.size):
        slope[k] = rate * loss[k]
        curvature[k] = rate * slope[k]


@njit(**INNER)
def _hinge_terms(
    scores: Floats, own_score: float, sign: float, knot: float, weight: Floats, slope: Floats,
    curvature: Floats, loss: Floats,
) -> None:  # fmt: skip
    """Compute hinge losses."""
    for k in range(scores.size):
        shortfall = knot - sign * (own_score - scores[k])
        loss[k] = shortfall if shortfall > 0.0 else 0.0
    for k in range(scores.size):
        slope[k] = weight[k] if loss[k] > 0.0 else 0.0
    for k in range(scores.size):
        loss[k] *= weight[k]
        curvature[k] = 0.0


@njit(**INNER)
def _squared_hinge_terms(
    scores: Floats, own_score: float, sign: float, knot: float, weight: Floats, slope: Floats,
    curvature: Floats, loss: Floats,
) -> None:  # fmt: skip
    """Compute squared hinge losses."""
    for k in range(scores.size):
        shortfall = knot - sign * (own_score - scores[k])
        slope[k] = 2.0 * shortfall if shortfall > 0.0 else 0.0
    for k in range(scores.size):
        loss[k] = weight[k] * (0.25 * slope[k] * slope[k])
        curvature[k] = 2.0 * weight[k] if slope[k] > 0.0 else 0.0
    for k in range(scores.size):
        slope[k] *= weight[k]


@njit(**INNER)
def _sum(values: Floats, count: Integer) -> float:
    """Return the sum in eight partial sums, whose additions overlap."""
    a, b, c, d, e, f, g, h = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    whole = count - count % 8
    for k in range(0, whole, 8):
        a += values[k]
        b += values[k + 1]
        c += values[k + 2]
        d += values[k + 3]
        e += values[k + 4]
        f += values[k + 5]
        g += values[k + 6]
        h += values[k + 7]
    for k in range(whole, count):
        a += values[k]
    return ((a + b) + (c + d)) + ((e + f) + (g + h))
