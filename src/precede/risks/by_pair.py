"""Sums over pairs by enumeration: each pair is visited once, none is stored.

For lists of up to a few hundred items, enumerating pairs is faster than sorting or interpolating.
One pass yields value, gradient and Hessian diagonal. The rows of a query are sorted by increasing
grade, so the losers of a winner are the rows before its level, and the loop over them vectorizes::

    level      0       1      2
    rows    [a b c | d e | f g h]        losers of e: a, b, c

Plain pairs are summed by *level range*: consecutive levels of one query, as (first level, end
level). A short query is one range; of a long one, `by_cell` and `by_order` leave parts to
enumerate.

Pairs with weights by rank (`precede.risks.lambdarank`) are summed by query. With a cut-off at rank
k only rows within the first k ranks have a discount, and only their pairs are enumerated: O(k)
pairs per row. Tied rows share their ranks. In the first round all rows are tied, so all of them
have a discount, and enumerating their pairs would take quadratic time. A large *tied group* (rows
whose scores were equal when they were ranked) is therefore divided into *subgroups* whose current
scores are equal as well. All pairs of a subgroup with one row have the same margin, and their
weights ``G_i - G_k`` are summed level by level. This takes O(n) per subgroup, and there are at most
as many subgroups as the last weak ranker has values::

    score when ranked     0   0   0   0   0   0   0       one tied group
    current score         0   0  .3  .3  .3  .7  .7       three subgroups

On a GPU a block of threads sums a level range or a query. Every sum is taken in the order of the
CPU, so gradients and Hessians have the same bits; tied groups are summed on the CPU.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from precede.engine.arrays import BackendArray, Flags, Floats, Integer, Integers
from precede.engine.backend import CPU, Backend
from precede.engine.compiling import INLINED, INNER, njit
from precede.engine.exact import sums_at
from precede.engine.execution import Context, threads_for
from precede.engine.portable import fmax, fmin, portable_exp, portable_log, portable_log1p
from precede.engine.query_layout import QueryLayout
from precede.risks.base import PairShape

# Beyond these limits pairs are summed on the CPU, because a single thread of a GPU takes some sums
# of a level range or a query, and those of the explicit pairs of a row.
MAX_GPU_ROWS = 8192
MAX_PAIRS_PER_ROW = 1 << 16
# Memory on a GPU; `BYTES_PER_RANKED_ROW` with weights by rank.
BYTES_PER_ROW, BYTES_PER_PAIR, BYTES_PER_RANKED_ROW = 100, 72, 200
# Queries of up to this many rows are kept in shared memory while their pairs are summed.
MAX_SHARED_ROWS = 1024

# Degree of losses ``exp(-rate m)``, beside those of `PairShape`.
EXPONENTIAL = 3
# Tied groups of more rows are divided into subgroups, in lists of more than LONG_LIST_ROWS rows.
LONG_LIST_ROWS, MAX_ENUMERATED_TIES = 1024, 64
# More subgroups of a query are refused; a fit would take days.
MAX_SUBGROUPS = 50_000
MAX_PAIRS_PER_CALL = 1 << 27  # pairs of subgroups and rows; one or two seconds
MAX_EXP_RANGE = 80.0  # range of scores up to which logistic losses are computed from exponentials
# Range of rate times scores up to which sums of exponentials are not scaled.
MAX_UNSCALED_RANGE, MAX_EXPONENT = 600.0, 700.0


class RangeSums:
    """Sums over the pairs of level ranges, and over explicit pairs, on the threads of a context."""

    def __init__(
        self, layout: QueryLayout, shape: PairShape, level_ranges: Integers, context: Context
    ):
        self.layout, self.context = layout, context
        self._degree, self._knot, self._gap = shape
        self._level_ranges = level_ranges
        sizes = _range_sizes(layout, level_ranges)
        self._max_rows = int(sizes.max(initial=0))
        self._threads = threads_for("heavy rows", int(sizes.sum()))
        self._explicit_weight = _explicit_weight(layout)

    def add_level_ranges(self, scores: Floats, pull: Floats, hessian: Floats) -> Floats:
        """Add the pairs of the level ranges; return values and gradient sums of the ranges."""
        layout, sums = self.layout, np.full((len(self._level_ranges), 2), np.nan)
        row_arrays = (scores, layout.weight, layout.loser_weight, pull, hessian)
        if self._degree == 0 and len(sums):  # without level ranges nothing is compiled
            self.context.run(
                _narrow_logistic_ranges, len(sums), self._level_ranges, layout.level_start,
                self._max_rows, *row_arrays, sums, threads=self._threads,
            )  # fmt: skip
            well_ordered = np.flatnonzero(sums[:, 0] < 0)
            if well_ordered.size:
                losses = np.empty(well_ordered.size)
                self.context.run(
                    _small_logistic_losses, well_ordered.size, self._level_ranges[well_ordered],
                    layout.level_start, self._max_rows, *row_arrays[:3], losses,
                    threads=self._threads,
                )  # fmt: skip
                sums[well_ordered, 0] = losses
        remaining = np.flatnonzero(np.isnan(sums[:, 1]))  # all hinges, or wide score ranges
        if remaining.size:
            remaining_sums = np.empty((remaining.size, 2))
            self.context.run(
                _generic_ranges, remaining.size, self._level_ranges[remaining], layout.level_start,
                self._max_rows, self._degree, None if self._degree == 0 else self._knot,
                *row_arrays, remaining_sums, threads=self._threads,
            )  # fmt: skip
            sums[remaining] = remaining_sums
        return np.ascontiguousarray(sums.T)

    def add_explicit_pairs(self, scores: Floats, pull: Floats, hessian: Floats) -> Floats:
        """Add the explicit pairs; return the value and the gradient of each."""
        winner, loser = self.layout.winner, self.layout.loser
        margin = self.layout.explicit_pair_margins(scores, gap=self._gap)
        terms = np.empty((3, winner.size))
        self.context.run(
            _explicit_pairs, winner.size, self._degree, self._knot, margin, self._explicit_weight,
            *terms, threads=threads_for("exponentials", winner.size),
        )  # fmt: skip
        for side, sign in ((winner, 1.0), (loser, -1.0)):
            pull += sign * sums_at(side, terms[1], pull.size)
            hessian += sums_at(side, terms[2], hessian.size)
        return terms[:2]


class GpuRangeSums:
    """The same sums on the GPU of a context."""

    def __init__(
        self, layout: QueryLayout, shape: PairShape, level_ranges: Integers, context: Context
    ):
        self._backend, self._rows = context.backend, layout.n_used_rows
        put, rows = self._backend.put, self._rows
        needed = BYTES_PER_ROW * rows + BYTES_PER_PAIR * layout.winner.size
        self._backend.check_room(needed, "the pulls of all pairs")
        self._degree, self._knot, self._gap = shape
        self._max_rows = int(_range_sizes(layout, level_ranges).max(initial=0))
        self._n_ranges = len(level_ranges)
        self._ranges = put(level_ranges), put(layout.level_start)
        self._weights = put(layout.weight), put(layout.loser_weight)
        self._scratch = self._backend.zeros(4, rows)
        self._winner_twos = self._backend.zeros(rows, dtype=np.int32)
        self._range_weights = self._backend.zeros(self._n_ranges)
        if self._n_ranges:
            self._backend.launch(
                "range_weights", -(-self._n_ranges // 128), 128, self._n_ranges, *self._ranges,
                *self._weights, self._range_weights,
            )  # fmt: skip
        if layout.winner.size:
            self._put_explicit_pairs(layout)

    @staticmethod
    def has_kernels(layout: QueryLayout, level_ranges: Integers) -> bool:
        """Return whether these pairs can be summed on a GPU."""
        sides = layout.winner, layout.loser
        most_pairs = max(int(np.bincount(side).max(initial=0)) for side in sides)
        most_rows = int(_range_sizes(layout, level_ranges).max(initial=0))
        return (
            not layout.queries_span_machines
            and most_rows <= MAX_GPU_ROWS
            and most_pairs <= MAX_PAIRS_PER_ROW
        )

    def _put_explicit_pairs(self, layout: QueryLayout) -> None:
        """Copy the explicit pairs, and for every row the pairs that it wins and loses."""
        put, margin, rows = self._backend.put, layout.pair_margin, np.arange(self._rows + 1)
        margin = np.ones(layout.winner.size) if margin is None else margin
        pairs = layout.winner, layout.loser, _explicit_weight(layout), margin
        self._explicit_pairs = [put(array) for array in pairs]
        self._pairs_of_row = []
        for side in (layout.winner, layout.loser):
            order = np.argsort(side, kind="stable")
            self._pairs_of_row += [put(np.searchsorted(side[order], rows)), put(order)]

    def add_level_ranges(
        self, scores: BackendArray, pull: BackendArray, hessian: BackendArray
    ) -> BackendArray:
        """Add the pairs of the level ranges; return values and gradient sums of the ranges."""
        sums = self._backend.xp.full((2, self._n_ranges), np.nan)
        if not self._n_ranges:
            return sums
        threads = 128 if self._max_rows <= 256 else 256
        if self._degree == 0:
            shared_rows = min(self._max_rows, MAX_SHARED_ROWS)
            self._backend.launch(
                "narrow_logistic_ranges", self._n_ranges, threads, *self._ranges, scores,
                *self._weights, self._range_weights, pull, hessian, sums, shared_rows,
                self._scratch, self._winner_twos, np.int64(self._rows), shared=36 * shared_rows,
            )  # fmt: skip
        self._backend.launch(
            "generic_ranges", self._n_ranges, threads, *self._ranges, self._degree, self._knot,
            scores, *self._weights, pull, hessian, sums, self._scratch, np.int64(self._rows),
        )  # fmt: skip
        return sums

    def add_explicit_pairs(
        self, scores: BackendArray, pull: BackendArray, hessian: BackendArray
    ) -> BackendArray:
        """Add the explicit pairs; return the value and the gradient of each."""
        count = self._explicit_pairs[0].size
        terms = self._backend.empty(3, count)
        self._backend.over_rows(
            "explicit_pairs", count, *self._explicit_pairs, int(self._gap), self._degree,
            self._knot, scores, terms,
        )  # fmt: skip
        self._backend.over_rows(
            "add_explicit_pairs", pull.size, np.int64(count), *self._pairs_of_row, terms, pull,
            hessian,
        )  # fmt: skip
        return terms[:2]


def _range_sizes(layout: QueryLayout, level_ranges: Integers) -> Integers:
    """Return the number of rows of every level range."""
    row_bounds = layout.level_start[level_ranges]
    return row_bounds[:, 1] - row_bounds[:, 0]


def _explicit_weight(layout: QueryLayout) -> Floats:
    """Return the weights of the explicit pairs."""
    return layout.pair_weight * layout.weight[layout.winner] * layout.loser_weight[layout.loser]


@dataclass(frozen=True)
class RoundWeights:
    """Weights of the pairs in one round, on the backend of the scores that define the ranks.

    A pair of query q weighs ``plain[q] + factor[q] (G_i - G_k) (flat + |D_i - D_k| + t)`` times its
    weight without ranks; t is `tied` of the two rows if their scores are equal, else 0.

    Attributes
    ----------
    scores : scores at the start of the round, which define the ranks
    discount, tied : mean discount of the ranks that a row shares, and mean ``|D_r - D_q|`` of two
        of these ranks; per row
    plain, factor : one number per query
    """

    scores: BackendArray
    discount: BackendArray
    tied: BackendArray
    plain: BackendArray
    factor: BackendArray


@dataclass
class RankedTotals:
    """Sums over the pairs of every query (value, gradient sum) and of every row (pull, Hessian).

    Those of a query and its rows are divided by ``exp(log_scale)`` of the query.
    """

    by_query: BackendArray
    pull: BackendArray
    hessian: BackendArray
    log_scale: BackendArray


class RankedSums:
    """Sums over pairs with weights by rank.

    Parameters
    ----------
    layout, context
    gain : gain of every row
    flat : what is added to the difference of two discounts
    logistic : whether the loss is logistic; its kernel has no other losses
    sparse : whether pairs of two rows without a discount have no weight

    Attributes
    ----------
    backend : the GPU of the context, if it has kernels for these queries
    """

    def __init__(
        self, layout: QueryLayout, gain: Floats, flat: float, context: Context, *,
        logistic: bool, sparse: bool,
    ):  # fmt: skip
        self._layout, self._context = layout, context
        self._gain, self._flat, self._logistic, self._sparse = gain, flat, logistic, sparse
        self._first = layout.query_rows
        sizes = np.diff(self._first)
        self._max_rows = int(sizes.max(initial=0))
        self._long_queries = np.flatnonzero(sizes > LONG_LIST_ROWS).tolist()
        self._threads = threads_for("heavy rows", layout.n_graded)
        self.backend: Backend = CPU
        fits = 0 < self._max_rows <= MAX_GPU_ROWS
        if context.backend.is_gpu and fits and not context.is_distributed:
            self.backend = context.backend
            self._put_on_gpu()

    def sum(
        self, weights: RoundWeights, scores: BackendArray, shape: tuple[int, float], *,
        slopes: bool, value: bool = True, winners: BackendArray | None = None,
    ) -> RankedTotals:  # fmt: skip
        """Sum over pairs: the value of queries if `value`, gradient and Hessian if `slopes`.

        `shape` is the degree of the loss, and the knot of a hinge or the rate of an exponential;
        beside that of the loss itself, a hinge of knot 1 may be summed at equal scores.
        With `winners`, a flag of each row, only pairs of a flagged winner and another loser count.
        """
        backend = self.backend if self.backend.holds(scores) else CPU
        row_weights = self._layout.weight, self._layout.loser_weight
        if backend.is_gpu:
            row_weights = self._gpu_weights
        if winners is not None:
            row_weights = row_weights[0] * winners, row_weights[1] * ~winners
        n_queries, n_rows = self._first.size - 1, self._layout.n_used_rows if slopes else 0
        sums = RankedTotals(
            backend.zeros(2, n_queries), backend.zeros(n_rows), backend.zeros(n_rows),
            backend.zeros(n_queries),
        )  # fmt: skip
        if backend.is_gpu:
            self._sum_on_gpu(sums, weights, scores, shape, row_weights, value=value)
        else:
            self._sum_on_cpu(sums, weights, scores, shape, row_weights, value=value)
        return sums

    def _put_on_gpu(self) -> None:
        layout, backend = self._layout, self.backend
        backend.check_room(BYTES_PER_RANKED_ROW * layout.n_graded, "the pulls of all pairs")
        self._gpu_bounds = backend.put(layout.query_start), backend.put(layout.level_start)
        self._last_rows = backend.put(self._first[1:] - 1)
        self._gpu_gain = backend.put(self._gain)
        self._gpu_weights = backend.put(layout.weight), backend.put(layout.loser_weight)
        self._scratch = backend.zeros(2, layout.n_graded), backend.zeros(4, layout.n_graded)

    def _sum_on_gpu(
        self, sums: RankedTotals, weights: RoundWeights, scores: BackendArray,
        shape: tuple[int, float], row_weights: tuple[BackendArray, BackendArray], *, value: bool,
    ) -> None:  # fmt: skip
        slopes = int(sums.pull.size > 0)
        self.backend.launch(
            "sum_ranked_queries", self._first.size - 1, 128, *self._gpu_bounds,
            np.int64(self._layout.n_graded), shape[0], float(shape[1]), int(self._sparse),
            self._flat, scores, weights.scores, self._gpu_gain, weights.discount,
            weights.tied, *row_weights, weights.plain, weights.factor, int(value), slopes,
            *self._scratch, sums.pull, sums.hessian, sums.by_query, sums.log_scale,
        )  # fmt: skip

    def _sum_on_cpu(
        self, sums: RankedTotals, weights: RoundWeights, scores: Floats, shape: tuple[int, float],
        row_weights: tuple[Floats, Floats], *, value: bool,
    ) -> None:  # fmt: skip
        layout = self._layout
        enumerated, subgroups_of = None, self._tied_subgroups(weights, scores)
        if subgroups_of:
            enumerated = weights.discount > 0
            tied = [rows for subgroups in subgroups_of.values() for rows in subgroups]
            enumerated[np.concatenate(tied)] = False
        self._context.run(
            _sum_queries, self._first.size - 1, layout.level_start, layout.query_start,
            self._max_rows, shape[0], None if self._logistic else shape[1], self._sparse, scores,
            weights.scores, self._gain, weights.discount, weights.tied, weights.plain,
            weights.factor, self._flat, *row_weights, value, enumerated, sums.pull, sums.hessian,
            sums.by_query, sums.log_scale, threads=self._threads,
        )  # fmt: skip
        if enumerated is not None:
            self._add_tied_groups(
                sums, weights, scores, shape, (*row_weights, enumerated), subgroups_of
            )

    def _add_tied_groups(
        self, sums: RankedTotals, weights: RoundWeights, scores: Floats, shape: tuple[int, float],
        row_arrays: tuple[Floats, Floats, Flags], subgroups_of: dict[int, list[Integers]],
    ) -> None:  # fmt: skip
        """Add the pairs of tied groups, in calls short enough that Ctrl-C is handled between them.

        `row_arrays` are the weights of rows as winners and as losers, and whether they are
        enumerated.
        """
        layout = self._layout
        for query, subgroups in subgroups_of.items():
            first_level, end_level = layout.query_start[query : query + 2]
            n_rows = self._first[query + 1] - self._first[query]
            n_calls = 1 + len(subgroups) * n_rows // MAX_PAIRS_PER_CALL
            for call in np.array_split(np.arange(len(subgroups)), n_calls):
                rows = [subgroups[index] for index in call]
                _sum_subgroups(
                    np.cumsum([0, *map(len, rows)]), np.concatenate(rows), first_level, end_level,
                    layout.level_start, *shape, sums.log_scale[query], scores, weights.scores,
                    self._gain, weights.discount, weights.tied, weights.factor[query], *row_arrays,
                    sums.pull, sums.hessian, sums.by_query[:, query],
                )  # fmt: skip

    def may_have_tied_groups(self, weights: RoundWeights) -> bool:
        """Return whether a long list has many rows with a discount; copies a number per query."""
        if not self._long_queries or not self._sparse:
            return False
        xp, get = self.backend.xp, self.backend.get
        discounted = xp.cumsum(weights.discount > 0, dtype=np.int64)
        counts = np.diff(get(discounted[self._last_rows]), prepend=0)
        return bool(counts[self._long_queries].max() > MAX_ENUMERATED_TIES)

    def has_tied_groups(self, weights: RoundWeights) -> bool:
        """Return whether a round begins with large tied groups, given its weights on the CPU."""
        return bool(self._tied_subgroups(weights, weights.scores))

    def _tied_subgroups(self, weights: RoundWeights, scores: Floats) -> dict[int, list[Integers]]:
        """Return the subgroups of large tied groups that have a discount, by query."""
        subgroups_of = {
            query: self._subgroups_of_query(query, weights, scores)
            for query in self._long_queries
            if self._sparse
        }
        most = max(map(len, subgroups_of.values()), default=0)
        if most > MAX_SUBGROUPS:
            raise ValueError(
                f"rank_weight goes through all pairs of {most} rows that have equal scores where a "
                "round begins and different ones after it; use rankers of few values, such as trees"
            )
        return {query: subgroups for query, subgroups in subgroups_of.items() if subgroups}

    def _subgroups_of_query(
        self, query: int, weights: RoundWeights, scores: Floats
    ) -> list[Integers]:
        """Return the rows of every subgroup of a query."""
        low, high = self._first[query : query + 2]
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


# -- kernels ---------------------------------------------------------------------------------
#
# Loops are short and over few arrays, because the compiler does not vectorize one long loop, nor
# a division that could raise.


@njit(cache=True, nogil=True)
def _narrow_logistic_ranges(
    low: int, high: int, level_ranges: Integers, level_start: Integers, max_rows: int,
    scores: Floats, weight: Floats, loser_weight: Floats, pull: Floats, hessian: Floats,
    sums: Floats,
) -> None:  # fmt: skip
    """Enumerate the logistic pairs of level ranges; fill value and gradient sum in `sums`.

    Ranges whose scores are too far apart for plain exponentials are skipped (their sums stay NaN).
    The value is set to -1 if the mean loss is tiny, see `_small_logistic_losses`.
    """
    # Slope, curvature and product of 1 + exp(-m) per loser, and exponentials of the scores.
    buffer = np.empty((4, max_rows))
    exp_scores = buffer[3]
    for index in range(low, high):
        first_level, end_level = level_ranges[index, 0], level_ranges[index, 1]
        first_row, end_row = level_start[first_level], level_start[end_level]
        n_rows = end_row - first_row
        loser_weights = loser_weight[first_row:end_row]
        lowest, highest = scores[first_row], scores[first_row]
        for row in range(first_row, end_row):
            lowest, highest = fmin(lowest, scores[row]), fmax(highest, scores[row])
        score_range, center = highest - lowest, 0.5 * (highest + lowest)
        if not score_range < MAX_EXP_RANGE:
            continue
        range_scores = scores[first_row:end_row]
        for k in range(n_rows):  # a separate loop vectorizes
            exp_scores[k] = portable_exp(range_scores[k] - center)
        for k in range(n_rows):
            buffer[0, k] = 0.0
            buffer[1, k] = 0.0
            buffer[2, k] = 1.0
        value, pair_weight = _narrow_logistic_pairs(
            exp_scores, score_range, level_start, first_level, end_level, weight, loser_weights,
            buffer, pull, hessian,
        )  # fmt: skip
        sums[index, 1] = _add_loser_gradients(
            loser_weights, buffer, pull[first_row:end_row], hessian[first_row:end_row]
        )
        sums[index, 0] = -1.0 if value < 1e-6 * pair_weight else value


@njit(cache=True, nogil=True)
def _generic_ranges(
    low: int, high: int, level_ranges: Integers, level_start: Integers, max_rows: int, degree: int,
    knot: float | None, scores: Floats, weight: Floats, loser_weight: Floats, pull: Floats,
    hessian: Floats, sums: Floats,
) -> None:  # fmt: skip
    """Enumerate the pairs of hinges, or of logistic losses at any distance of the scores.

    `knot` is None for logistic losses, so that numba prunes the hinges, and vice versa.
    """
    # Slope, curvature and loss of each loser, then slope and curvature of the pairs of a winner.
    buffer = np.empty((5, max_rows))
    terms = buffer[3:]
    for index in range(low, high):
        first_level, end_level = level_ranges[index, 0], level_ranges[index, 1]
        first_row, end_row = level_start[first_level], level_start[end_level]
        range_scores, loser_weights = scores[first_row:end_row], loser_weight[first_row:end_row]
        for k in range(end_row - first_row):
            buffer[0, k] = 0.0
            buffer[1, k] = 0.0
            buffer[2, k] = 0.0
        sums[index, 0] = _generic_pairs(
            range_scores, degree, knot, level_start, first_level, end_level, weight, loser_weights,
            buffer, terms, pull, hessian,
        )  # fmt: skip
        sums[index, 1] = _add_loser_gradients(
            loser_weights, buffer, pull[first_row:end_row], hessian[first_row:end_row]
        )


@njit(**INNER)
def _add_loser_gradients(
    loser_weights: Floats, buffer: Floats, pull: Floats, hessian: Floats
) -> float:
    """Add the losers' gradients and Hessians; return the gradient sum."""
    gradient_sum = 0.0
    for k in range(loser_weights.size):
        gradient_sum += loser_weights[k] * buffer[0, k]
        pull[k] -= loser_weights[k] * buffer[0, k]
        hessian[k] += loser_weights[k] * buffer[1, k]
    return gradient_sum


@njit(cache=True, nogil=True)
def _small_logistic_losses(
    low: int, high: int, level_ranges: Integers, level_start: Integers, max_rows: int,
    scores: Floats, weight: Floats, loser_weight: Floats, losses: Floats,
) -> None:  # fmt: skip
    """Compute the logistic losses of level ranges whose mean loss is tiny.

    For these ``1 + exp(-m)`` would round away most digits of the exponential, or all of them.
    """
    exp_scores = np.empty(max_rows)
    for index in range(low, high):
        first_level, end_level = level_ranges[index, 0], level_ranges[index, 1]
        first_row, end_row = level_start[first_level], level_start[end_level]
        lowest, highest = scores[first_row], scores[first_row]
        for row in range(first_row, end_row):
            lowest, highest = fmin(lowest, scores[row]), fmax(highest, scores[row])
        for row in range(first_row, end_row):
            exp_scores[row - first_row] = portable_exp(scores[row] - 0.5 * (highest + lowest))
        value = 0.0
        for level in range(first_level + 1, end_level):
            for row in range(level_start[level], level_start[level + 1]):
                loss = 0.0
                for k in range(level_start[level] - first_row):
                    loss += loser_weight[first_row + k] * portable_log1p(
                        exp_scores[k] / exp_scores[row - first_row]
                    )
                value += weight[row] * loss
        losses[index] = value


@njit(**INLINED)
def _narrow_logistic_pairs(
    exp_scores: Floats, score_range: float, level_start: Integers, first_level: int, end_level: int,
    weight: Floats, loser_weights: Floats, buffer: Floats, pull: Floats, hessian: Floats,
) -> tuple[float, float]:  # fmt: skip
    """Enumerate the logistic pairs of a level range from exponentials of its scores.

    Two winners of equal weight share one division. ``log(1 + exp(-m))`` summed over winners is the
    logarithm of a product, of which `max_factors` factors stay within the range of a float. Returns
    the value and the weight of all pairs.
    """
    first_row, end_row = level_start[first_level], level_start[end_level]
    max_factors = np.int64(690.0 / (score_range + 0.7)) - 1
    zero = np.int64(0)  # a plain 0 would cost numba more rounds of type inference
    value, n_factors = 0.0, zero
    pair_weight, loser_weight_sum, n_losers = 0.0, 0.0, zero
    level, row = first_level, level_start[first_level + 1]
    while True:
        winner_weight = weight[row] if row < end_row else 0.0
        if n_factors >= max_factors or (n_factors > 0 and winner_weight != weight[row - 1]):
            value += weight[row - 1] * _flush_logarithms(
                buffer[2], loser_weights, end_row - first_row
            )
            n_factors = zero
        if row == end_row:
            return value, pair_weight
        if row == level_start[level + 1]:
            level += 1
            for k in range(n_losers, row - first_row):
                loser_weight_sum += loser_weights[k]
            n_losers = row - first_row
        has_second = row + 1 < level_start[level + 1] and weight[row + 1] == winner_weight
        second_exp = exp_scores[row + 1 - first_row] if has_second else np.inf
        slope, curvature, second_slope, second_curvature = _add_two_winners(
            exp_scores, n_losers, exp_scores[row - first_row], second_exp, winner_weight,
            loser_weights, buffer,
        )  # fmt: skip
        pair_weight += winner_weight * loser_weight_sum
        pull[row] += winner_weight * slope
        hessian[row] += winner_weight * curvature
        if has_second:
            pair_weight += winner_weight * loser_weight_sum
            pull[row + 1] += winner_weight * second_slope
            hessian[row + 1] += winner_weight * second_curvature
        row += 1 + has_second
        n_factors += 1 + has_second


@njit(**INLINED)
def _flush_logarithms(product: Floats, loser_weights: Floats, count: int) -> float:
    """Return the sum of ``weight·log(product)`` and reset the products to 1."""
    total = 0.0
    for k in range(count):  # a separate loop vectorizes
        product[k] = portable_log(product[k])
    for k in range(count):
        total += loser_weights[k] * product[k]
        product[k] = 1.0
    return total


@njit(**INLINED)
def _add_two_winners(
    exp_scores: Floats, n_losers: int, first_exp: float, second_exp: float, winner_weight: float,
    loser_weights: Floats, buffer: Floats,
) -> tuple[float, float, float, float]:  # fmt: skip
    """Add the pairs of two winners of equal weight; `second_exp` is infinite if there is only one.

    Returns slope and curvature of the first winner, then of the second.
    """
    loser_slope, loser_curvature, product = buffer[0], buffer[1], buffer[2]
    first_inverse, second_inverse = 1.0 / first_exp, 1.0 / second_exp
    first_slope, first_curvature, second_slope, second_curvature = 0.0, 0.0, 0.0, 0.0
    for k in range(n_losers):
        first_wrong, second_wrong = exp_scores[k] * first_inverse, exp_scores[k] * second_inverse
        first_odds, second_odds = 1.0 + first_wrong, 1.0 + second_wrong
        odds_product = first_odds * second_odds
        product[k] *= odds_product
        inverse = np.divide(1.0, odds_product)
        first_right, second_right = inverse * second_odds, inverse * first_odds
        first_wrong, second_wrong = first_wrong * first_right, second_wrong * second_right
        first_term, second_term = first_wrong * first_right, second_wrong * second_right
        loser_slope[k] += winner_weight * (first_wrong + second_wrong)
        loser_curvature[k] += winner_weight * (first_term + second_term)
        first_slope += loser_weights[k] * first_wrong
        first_curvature += loser_weights[k] * first_term
        second_slope += loser_weights[k] * second_wrong
        second_curvature += loser_weights[k] * second_term
    return first_slope, first_curvature, second_slope, second_curvature


@njit(**INNER)
def _generic_pairs(
    scores: Floats, degree: int, knot: float | None, level_start: Integers, first_level: int,
    end_level: int, weight: Floats, loser_weights: Floats, buffer: Floats, terms: Floats,
    pull: Floats, hessian: Floats,
) -> float:  # fmt: skip
    """Enumerate hinge pairs, or logistic pairs too far apart for plain exponentials."""
    first_row = level_start[first_level]
    loser_slope, loser_curvature, loser_loss = buffer[0], buffer[1], buffer[2]
    for level in range(first_level + 1, end_level):
        n_losers = level_start[level] - first_row
        for row in range(level_start[level], level_start[level + 1]):
            winner_weight, winner_score = weight[row], scores[row - first_row]
            if knot is None:
                _wide_logistic_pairs(
                    scores, n_losers, winner_score, winner_weight, loser_slope, loser_curvature,
                    loser_loss, terms,
                )  # fmt: skip
            if knot is not None:
                if degree == 1:
                    _hinge_pairs(
                        scores, n_losers, knot - winner_score, winner_weight, loser_slope,
                        loser_loss, terms,
                    )  # fmt: skip
                else:
                    _squared_pairs(
                        scores, n_losers, knot - winner_score, winner_weight, loser_slope,
                        loser_curvature, loser_loss, terms,
                    )  # fmt: skip
            pull[row] += winner_weight * _weighted_sum(terms[0], loser_weights, n_losers)
            if degree != 1:  # a hinge has no curvature
                hessian[row] += winner_weight * _weighted_sum(terms[1], loser_weights, n_losers)
    return _weighted_sum(loser_loss, loser_weights, level_start[end_level] - first_row)


@njit(**INLINED)
def _hinge_pairs(
    scores: Floats, n_losers: int, knot_less_winner: float, winner_weight: float,
    loser_slope: Floats, loser_loss: Floats, terms: Floats,
) -> None:  # fmt: skip
    slope, hinge = terms[0], terms[1]
    for k in range(n_losers):
        shortfall = knot_less_winner + scores[k]
        hinge[k] = shortfall if shortfall > 0.0 else 0.0
    for k in range(n_losers):
        slope[k] = 1.0 if hinge[k] > 0.0 else 0.0
    for k in range(n_losers):
        loser_loss[k] += winner_weight * hinge[k]
    for k in range(n_losers):
        loser_slope[k] += winner_weight * slope[k]


@njit(**INLINED)
def _squared_pairs(
    scores: Floats, n_losers: int, knot_less_winner: float, winner_weight: float,
    loser_slope: Floats, loser_curvature: Floats, loser_loss: Floats, terms: Floats,
) -> None:  # fmt: skip
    slope, curvature = terms[0], terms[1]
    for k in range(n_losers):
        shortfall = 2.0 * (knot_less_winner + scores[k])
        slope[k] = shortfall if shortfall > 0.0 else 0.0
    for k in range(n_losers):
        curvature[k] = 2.0 if slope[k] > 0.0 else 0.0
    for k in range(n_losers):
        loser_loss[k] += 0.25 * winner_weight * slope[k] * slope[k]
    for k in range(n_losers):
        loser_slope[k] += winner_weight * slope[k]
    for k in range(n_losers):
        loser_curvature[k] += winner_weight * curvature[k]


@njit(**INLINED)
def _wide_logistic_pairs(
    scores: Floats, n_losers: int, winner_score: float, winner_weight: float, loser_slope: Floats,
    loser_curvature: Floats, loser_loss: Floats, terms: Floats,
) -> None:  # fmt: skip
    for k in range(n_losers):
        margin = winner_score - scores[k]
        exponential = portable_exp(-abs(margin))
        slope = (exponential if margin > 0 else 1.0) / (1.0 + exponential)
        curvature = exponential / ((1.0 + exponential) * (1.0 + exponential))
        loser_loss[k] += winner_weight * (portable_log1p(exponential) + fmax(-margin, 0.0))
        loser_slope[k] += winner_weight * slope
        loser_curvature[k] += winner_weight * curvature
        terms[0, k], terms[1, k] = slope, curvature


@njit(cache=True, nogil=True)
def _explicit_pairs(
    low: int, high: int, degree: int, knot: float, margins: Floats, weight: Floats,
    value: Floats, gradient: Floats, hessian: Floats,
) -> None:  # fmt: skip
    """Compute weighted loss, slope and curvature of explicit pairs."""
    for pair in range(low, high):
        loss, slope, curvature = _pair_loss(margins[pair], degree, knot, 0.0)
        value[pair] = weight[pair] * loss
        gradient[pair] = weight[pair] * slope
        hessian[pair] = weight[pair] * curvature


@njit(**INNER)
def _weighted_sum(values: Floats, weights: Floats, count: int) -> float:
    """Return ``sum weight·value`` in eight partial sums, whose additions overlap."""
    a, b, c, d, e, f, g, h = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    whole = count - count % 8
    for k in range(0, whole, 8):
        a += weights[k] * values[k]
        b += weights[k + 1] * values[k + 1]
        c += weights[k + 2] * values[k + 2]
        d += weights[k + 3] * values[k + 3]
        e += weights[k + 4] * values[k + 4]
        f += weights[k + 5] * values[k + 5]
        g += weights[k + 6] * values[k + 6]
        h += weights[k + 7] * values[k + 7]
    for k in range(whole, count):
        a += weights[k] * values[k]
    return ((a + b) + (c + d)) + ((e + f) + (g + h))


# -- kernels for pairs with weights by rank ----------------------------------------------------
#
# `items` has a row for each quantity of the items of a query: inputs, then sums. `work` has a row
# for each quantity of the pairs of one item. Loops are short and over few arrays, because the
# compiler does not vectorize one long loop, nor a division that could raise.

_SCORE, _INVERSE, _RANK_SCORE, _GAIN, _DISCOUNT, _TIED = range(6)
_LOSER_WEIGHT, _WINNER_WEIGHT, _ENUMERATED, _LOSER_SLOPE, _WINNER_SLOPE, _HESSIAN = range(6, 12)
_WEIGHT, _SLOPE, _CURVATURE, _LOSS = range(4)
# Kinds of losses. Logistic: all margins far in order (``1 + exp(-m)`` would lose the digits of the
# exponential), scores close together, or any scores; hinge; squared hinge; exponential. `knot` is
# None for logistic losses, so that numba prunes all others; hinges are then of knot 1 at equal
# scores, whose losses are 1.
_SMALL, _NARROW, _WIDE, _HINGE, _SQUARED, _EXPONENTIAL = range(6)


@njit(cache=True, nogil=True)
def _sum_queries(
    low: int, high: int, level_start: Integers, query_start: Integers, max_rows: int, degree: int,
    knot: float | None, sparse: bool, scores: Floats, rank_scores: Floats, gain: Floats,
    discount: Floats, tied: Floats, plain: Floats, factor: Floats, flat: float, weight: Floats,
    loser_weight: Floats, with_value: bool, enumerated: Flags | None, pull: Floats, hessian: Floats,
    sums: Floats, log_scale: Floats,
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
        _read_rows(
            first_row, end_row, rank_scores, gain, discount, tied, loser_weight, weight, items
        )
        kind = _read_scores(scores, first_row, end_row, degree, items)
        plain_weight, rank_factor = plain[query], factor[query]
        if knot is not None and degree == EXPONENTIAL:
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
        slopes = with_slopes
        # A value that is small beside its terms is computed again, by another formula. (This is a
        # loop because a second call would be compiled separately.)
        while True:
            sums[0, query], weight_sum = _sum_query(
                level_start, first_level, end_level, only_enumerated, kind, slopes, with_value,
                plain_weight, rank_factor, flat, knot, items, work,
            )  # fmt: skip
            if not (kind == _NARROW and with_value and sums[0, query] < 1e-6 * weight_sum):
                break
            kind, slopes = _SMALL, False
        if with_slopes:
            sums[1, query] = _add_query_gradients(first_row, end_row, items, pull, hessian)


@njit(**INLINED)
def _read_rows(
    first_row: Integer, end_row: Integer, rank_scores: Floats, gain: Floats, discount: Floats,
    tied: Floats, loser_weight: Floats, weight: Floats, items: Floats,
) -> None:  # fmt: skip
    """Store what is known of the rows of a query; set their gradients and Hessians to 0."""
    for k in range(end_row - first_row):  # (slices take a second to compile)
        row = first_row + k
        items[_RANK_SCORE, k], items[_GAIN, k] = rank_scores[row], gain[row]
        items[_DISCOUNT, k], items[_TIED, k] = discount[row], tied[row]
        items[_LOSER_WEIGHT, k], items[_WINNER_WEIGHT, k] = loser_weight[row], weight[row]
        for item in range(_LOSER_SLOPE, items.shape[0]):
            items[item, k] = 0.0


@njit(**INLINED)
def _read_scores(
    scores: Floats, first_row: Integer, end_row: Integer, degree: int, items: Floats
) -> int:
    """Store scores, or their exponentials if close together; return the kind of the loss."""
    lowest, highest = scores[first_row], scores[first_row]
    for row in range(first_row, end_row):
        lowest, highest = fmin(lowest, scores[row]), fmax(highest, scores[row])
    if degree > 0 or highest - lowest >= MAX_EXP_RANGE:
        for row in range(first_row, end_row):
            items[_SCORE, row - first_row] = scores[row]
        return _WIDE + degree
    center = 0.5 * (highest + lowest)
    for row in range(first_row, end_row):
        items[_SCORE, row - first_row] = portable_exp(scores[row] - center)
    for k in range(end_row - first_row):
        items[_INVERSE, k] = np.divide(1.0, items[_SCORE, k])
    return _NARROW


@njit(**INLINED)
def _find_scale(
    level_start: Integers, first_level: Integer, end_level: Integer, plain: float, factor: float,
    flat: float, rate: float, items: Floats,
) -> float:  # fmt: skip
    """Return the largest exponent of a pair with a weight if sums could overflow, else 0."""
    first_row, n_rows = level_start[first_level], level_start[end_level] - level_start[first_level]
    lowest, highest = np.inf, -np.inf
    for k in range(n_rows):
        lowest, highest = fmin(lowest, items[_SCORE, k]), fmax(highest, items[_SCORE, k])
    if rate * (highest - lowest) <= MAX_UNSCALED_RANGE:
        return 0.0
    largest = -np.inf
    for level in range(first_level + 1, end_level):
        low, high = level_start[level] - first_row, level_start[level + 1] - first_row
        for i in range(low, high):
            for k in range(low):
                exponent = rate * (items[_SCORE, k] - items[_SCORE, i])
                if exponent > largest:
                    gap = abs(items[_DISCOUNT, i] - items[_DISCOUNT, k]) + flat
                    if items[_RANK_SCORE, i] == items[_RANK_SCORE, k]:
                        gap += items[_TIED, i]
                    weight = plain + factor * (items[_GAIN, i] - items[_GAIN, k]) * gap
                    if weight * items[_WINNER_WEIGHT, i] * items[_LOSER_WEIGHT, k] > 0.0:
                        largest = exponent
    return largest if largest > -np.inf else 0.0


@njit(**INLINED)
def _is_sparse(discount: Floats) -> bool:
    """Return whether less than half of the rows have a discount."""
    count = 0
    for value in discount:
        count += value > 0.0
    return 2 * count < discount.size


@njit(**INLINED)
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


@njit(**INLINED)
def _sum_query(
    level_start: Integers, first_level: Integer, end_level: Integer, sparse: bool, kind: int,
    with_slopes: bool, with_value: bool, plain: float, factor: float, flat: float,
    knot: float | None, items: Floats, work: Floats,
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
            for side in range(2 if sparse else 1):  # as a winner, as a loser
                begin, end, own_weight = low - low, low, items[_WINNER_WEIGHT, i]
                if side == 1:
                    begin, end, own_weight = high, n_rows, items[_LOSER_WEIGHT, i]
                if own_weight > 0.0 and begin < end:
                    loss, weight = _sum_pairs_of_row(
                        i, begin, end, 1.0 - 2.0 * side, own_weight, kind, with_slopes, with_value,
                        plain, factor, flat, knot, items, work,
                    )  # fmt: skip
                    value, weight_sum = value + loss, weight_sum + weight
    return value, weight_sum


@njit(**INLINED)
def _sum_pairs_of_row(
    i: Integer, low: Integer, high: Integer, sign: float, own_weight: float, kind: int,
    with_slopes: bool, with_value: bool, plain: float, factor: float, flat: float,
    knot: float | None, items: Floats, work: Floats,
) -> tuple[float, float]:  # fmt: skip
    """Sum the pairs of row i with rows low..high, which lose against it (sign 1) or win (sign -1).

    Returns loss and weight of the pairs.
    """
    count = high - low
    weight = work[_WEIGHT]
    weights = items[_LOSER_WEIGHT if sign > 0.0 else _WINNER_WEIGHT, low:high]
    _pair_weights(
        items[_RANK_SCORE, low:high], items[_GAIN, low:high], items[_DISCOUNT, low:high], weights,
        items[_RANK_SCORE, i], items[_GAIN, i], items[_DISCOUNT, i], items[_TIED, i], flat,
        own_weight * plain, sign * own_weight * factor, weight,
    )  # fmt: skip
    if sign < 0.0:
        _skip_enumerated(items[_ENUMERATED, low:high], weight)
    _fill_terms(i, low, high, sign, kind, with_slopes, with_value, knot, items, weight, work)
    if with_slopes:
        _add_to(work[_SLOPE], items[_LOSER_SLOPE if sign > 0.0 else _WINNER_SLOPE, low:high])
        _add_to(work[_CURVATURE], items[_HESSIAN, low:high])
        items[_WINNER_SLOPE if sign > 0.0 else _LOSER_SLOPE, i] += _sum(work[_SLOPE], count)
        items[_HESSIAN, i] += _sum(work[_CURVATURE], count)
    if not with_value:
        return 0.0, 0.0
    return _sum(work[_LOSS], count), _sum(weight, count)


@njit(**INNER)
def _fill_terms(
    i: Integer, low: Integer, high: Integer, sign: float, kind: int, with_slopes: bool,
    with_value: bool, knot: float | None, items: Floats, weight: Floats, work: Floats,
) -> None:  # fmt: skip
    """Compute slopes, curvatures and losses of the pairs of row i with rows low..high."""
    slope, curvature, loss = work[_SLOPE], work[_CURVATURE], work[_LOSS]
    if knot is None:
        if kind <= _NARROW:
            of_row = items[_INVERSE if sign > 0.0 else _SCORE, i]
            scores = items[_SCORE if sign > 0.0 else _INVERSE, low:high]
            if with_slopes:
                _narrow_logistic_slopes(scores, of_row, weight, slope, curvature)
            if with_value:
                _narrow_logistic_losses(scores, of_row, weight, kind, loss)
        elif kind == _WIDE:
            scores = items[_SCORE, low:high]
            _wide_logistic_terms(scores, items[_SCORE, i], sign, weight, slope, curvature, loss)
        else:
            for k in range(high - low):
                slope[k] = curvature[k] = 2.0 * weight[k]
                loss[k] = weight[k]
    if knot is not None:
        scores = items[_SCORE if sign > 0.0 or kind != _EXPONENTIAL else _INVERSE, low:high]
        if kind == _HINGE:
            _hinge_terms(scores, items[_SCORE, i], sign, knot, weight, slope, curvature, loss)
        elif kind == _SQUARED:
            _squared_hinge_terms(
                scores, items[_SCORE, i], sign, knot, weight, slope, curvature, loss
            )
        else:
            of_row = items[_INVERSE if sign > 0.0 else _SCORE, i]
            _exponential_terms(scores, of_row, knot, weight, slope, curvature, loss)


@njit(**INLINED)
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


@njit(**INLINED)
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


@njit(**INLINED)
def _narrow_logistic_slopes(
    exp_scores: Floats, factor: float, weight: Floats, slope: Floats, curvature: Floats
) -> None:
    """Compute logistic slopes; ``exp_scores·factor`` is exp(-m) for a margin m."""
    for k in range(exp_scores.size):
        wrong = exp_scores[k] * factor
        right = np.divide(1.0, 1.0 + wrong)  # probability of the right order
        slope[k] = weight[k] * (wrong * right)
        curvature[k] = slope[k] * right


@njit(**INLINED)
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


@njit(**INLINED)
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


@njit(**INLINED)
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
