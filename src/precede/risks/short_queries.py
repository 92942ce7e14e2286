"""Logistic and hinge risks of short queries: each pair is visited once, none is stored.

For lists of up to a few hundred items, enumerating pairs is faster than sorting or interpolating.
One pass yields value, gradient and Hessian diagonal. The rows of a query are sorted by increasing
grade, so the losers of a winner are the rows before its level, and the loop over them vectorizes::

    level      0       1      2
    rows    [a b c | d e | f g h]        losers of e: a, b, c

The unit of work is a *level range*: consecutive levels of one query, as (first level, end level).
A short query is one range; of a long one, `by_cell` and `by_order` leave parts to enumerate.

On a GPU a block of threads sums a level range. Every sum is taken in the order of the CPU, so
gradients and Hessians have the same bits.
"""

from __future__ import annotations

import numpy as np

from precede.engine.arrays import BackendArray, Floats, Integers
from precede.engine.compiling import INNER, njit
from precede.engine.exact import sums_at
from precede.engine.execution import Context, is_small
from precede.engine.portable import fmax, fmin, portable_exp, portable_log, portable_log1p
from precede.engine.query_layout import QueryLayout
from precede.risks.base import PairShape

# Beyond these limits the CPU is used, because one thread of a GPU takes some sums of a level range,
# or of the explicit pairs of a row.
MAX_RANGE_ROWS = 8192
MAX_PAIRS_PER_ROW = 1 << 16
# Memory on a GPU.
BYTES_PER_ROW, BYTES_PER_PAIR = 100, 72
# Queries of up to this many rows are kept in shared memory while their pairs are summed.
MAX_SHARED_ROWS = 1024


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
        self._small = is_small("heavy rows", int(sizes.sum()))
        self._explicit_weight = _explicit_weight(layout)

    def add_level_ranges(self, scores: Floats, pull: Floats, hessian: Floats) -> Floats:
        """Add the pairs of the level ranges; return values and gradient sums of the ranges."""
        layout, sums = self.layout, np.full((len(self._level_ranges), 2), np.nan)
        row_arrays = (scores, layout.weight, layout.loser_weight, pull, hessian)
        if self._degree == 0:
            arguments = self._level_ranges, layout.level_start, *row_arrays, sums

            def enumerate_ranges(low: int, high: int) -> None:
                _narrow_logistic_ranges(low, high, np.empty((4, self._max_rows)), *arguments)

            self.context.run(enumerate_ranges, len(sums), small=self._small)
            well_ordered = np.flatnonzero(sums[:, 0] < 0)
            if well_ordered.size:
                losses = np.empty(well_ordered.size)
                self.context.run(
                    _small_logistic_losses, well_ordered.size, self._level_ranges[well_ordered],
                    layout.level_start, self._max_rows, *row_arrays[:3], losses, small=self._small,
                )  # fmt: skip
                sums[well_ordered, 0] = losses
        remaining = np.flatnonzero(np.isnan(sums[:, 1]))  # all hinges, or wide score ranges
        if remaining.size:
            remaining_sums = np.empty((remaining.size, 2))
            self.context.run(
                _generic_ranges, remaining.size, self._level_ranges[remaining], layout.level_start,
                self._max_rows, self._degree, self._knot, *row_arrays, remaining_sums,
                small=self._small,
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
            *terms, small=is_small("exponentials", winner.size),
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
                "pair_weights", -(-self._n_ranges // 128), 128, self._n_ranges, *self._ranges,
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
            and most_rows <= MAX_RANGE_ROWS
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
                "narrow_runs", self._n_ranges, threads, *self._ranges, scores, *self._weights,
                self._range_weights, pull, hessian, sums, shared_rows, self._scratch,
                self._winner_twos, np.int64(self._rows), shared=36 * shared_rows,
            )  # fmt: skip
        self._backend.launch(
            "plain_runs", self._n_ranges, threads, *self._ranges, self._degree, self._knot,
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
            "listed_pairs", count, *self._explicit_pairs, int(self._gap), self._degree, self._knot,
            scores, terms,
        )  # fmt: skip
        self._backend.over_rows(
            "listed_rows", pull.size, np.int64(count), *self._pairs_of_row, terms, pull, hessian
        )
        return terms[:2]


def _range_sizes(layout: QueryLayout, level_ranges: Integers) -> Integers:
    """Return the number of rows of every level range."""
    row_bounds = layout.level_start[level_ranges]
    return row_bounds[:, 1] - row_bounds[:, 0]


def _explicit_weight(layout: QueryLayout) -> Floats:
    """Return the weights of the explicit pairs."""
    return layout.pair_weight * layout.weight[layout.winner] * layout.loser_weight[layout.loser]


# -- kernels ---------------------------------------------------------------------------------
#
# Loops are short and over few arrays, because the compiler does not vectorize one long loop, nor
# a division that could raise.


@njit(cache=True, nogil=True)
def _narrow_logistic_ranges(
    low: int, high: int, buffer: Floats, level_ranges: Integers, level_start: Integers,
    scores: Floats, weight: Floats, loser_weight: Floats, pull: Floats, hessian: Floats,
    sums: Floats,
) -> None:  # fmt: skip
    """Enumerate the logistic pairs of level ranges; fill value and gradient sum in `sums`.

    Ranges whose scores are too far apart for plain exponentials are skipped (their sums stay NaN).
    The value is set to -1 if the mean loss is tiny, see `_small_logistic_losses`. `buffer`
    has four rows: slope, curvature and product of ``1 + exp(-m)`` per loser, and exponentials of
    the scores. The caller allocates it, which saves compilation time.
    """
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
        if not score_range < 80.0:
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
    knot: float, scores: Floats, weight: Floats, loser_weight: Floats, pull: Floats,
    hessian: Floats, sums: Floats,
) -> None:  # fmt: skip
    """Enumerate the pairs of hinges, or of logistic losses at any distance of the scores."""
    buffer, terms = np.empty((3, max_rows)), np.empty((2, max_rows))
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


@njit(**INNER)
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


@njit(**INNER)
def _flush_logarithms(product: Floats, loser_weights: Floats, count: int) -> float:
    """Return the sum of ``weight·log(product)`` and reset the products to 1."""
    total = 0.0
    for k in range(count):  # a separate loop vectorizes
        product[k] = portable_log(product[k])
    for k in range(count):
        total += loser_weights[k] * product[k]
        product[k] = 1.0
    return total


@njit(**INNER)
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
    scores: Floats, degree: int, knot: float, level_start: Integers, first_level: int,
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
            if degree == 1:  # no curvature
                _hinge_pairs(
                    scores, n_losers, knot - winner_score, winner_weight, loser_slope, loser_loss,
                    terms,
                )  # fmt: skip
                pull[row] += winner_weight * _weighted_sum(terms[0], loser_weights, n_losers)
                continue
            if degree == 0:
                _wide_logistic_pairs(
                    scores, n_losers, winner_score, winner_weight, loser_slope, loser_curvature,
                    loser_loss, terms,
                )  # fmt: skip
            else:
                _squared_pairs(
                    scores, n_losers, knot - winner_score, winner_weight, loser_slope,
                    loser_curvature, loser_loss, terms,
                )  # fmt: skip
            pull[row] += winner_weight * _weighted_sum(terms[0], loser_weights, n_losers)
            hessian[row] += winner_weight * _weighted_sum(terms[1], loser_weights, n_losers)
    return _weighted_sum(loser_loss, loser_weights, level_start[end_level] - first_row)


@njit(**INNER)
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


@njit(**INNER)
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


@njit(**INNER)
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
        margin = margins[pair]
        if degree == 0:
            exponential = portable_exp(-abs(margin))
            slope = (exponential if margin > 0 else 1.0) / (1.0 + exponential)
            curvature = exponential / ((1.0 + exponential) * (1.0 + exponential))
            loss = portable_log1p(exponential) + fmax(-margin, 0.0)
        else:
            shortfall, is_active = fmax(knot - margin, 0.0), 1.0 if margin < knot else 0.0
            loss = shortfall if degree == 1 else shortfall * shortfall
            slope = is_active if degree == 1 else 2.0 * shortfall
            curvature = 0.0 if degree == 1 else 2.0 * is_active
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
