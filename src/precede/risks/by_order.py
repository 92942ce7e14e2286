"""Sums over pairs for hinges and splines: sort once, then scan moments along the scores.

A *split* has losers with sorted scores u, and winners with sorted values v: their scores minus the
knot of the hinge. The pairs with v < u have a positive loss::

    winners   v0   v1       v2        v3
    losers       u0    u1        u2                 u1 pairs with v0, v1;  v1 with u1, u2

    sum_{v < u} w (u - v)^j  for every loser,     sum_{u > v} w (u - v)^j  for every winner.

Both follow from the moments of the sources passed so far, about the last one,

    M_j = sum_i w_i (a - a_i)^j,     M_j(t) = sum_m C(j, m) (t - a)^(j - m) M_m,

which only add positive terms, so nothing cancels. The scan is blocked: each side of a split is cut
into chunks of ``2^CHUNK_BITS`` rows, and a target adds the moments of its chunk and the *carry*::

    sorted rows   [  chunk 0  |  chunk 1  |  chunk 2  ]
    moments       of the rows up to each row of the chunk
    carry               0 -------> c1 -------> c2         moments of all chunks before

Chunks are independent, and sums depend neither on the number of threads nor on whether a GPU
computes them.

A query with several grades is halved by levels until few enough pairs are left to enumerate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from precede.engine.arrays import BackendArray, Floats, Integers
from precede.engine.backend import Backend
from precede.engine.compiling import INNER, njit
from precede.engine.execution import Context, threads_for
from precede.engine.query_layout import QueryLayout
from precede.losses import PairLoss, Polynomial, Spline
from precede.risks.base import PairShape, count_rows_and_pairs, cut_into_chunks
from precede.risks.splits import SplitSums

CHUNK_BITS = 9  # does not depend on the number of threads, so that sums do not either
# Up to this many pairs per row, enumerating is faster than sorting (measured). The second limit
# holds for lists of more than LONG_LIST_ROWS rows, because one thread enumerates a list.
MAX_PAIRS_PER_ROW, MAX_PAIRS_PER_LONG_LIST_ROW, LONG_LIST_ROWS = 100, 16, 8192
MIN_RADIX_ROWS = 1 << 12  # shorter arrays are sorted by comparison
LONG_SPLIT_ROWS = 1 << 13  # `SplineSums` sorts longer splits once for both directions, by radix
# On a GPU: memory; threads of the block that handles a chunk, or the carry of a side; and chunks
# whose moments one block of threads computes, one thread each.
BYTES_PER_SPLIT_ROW, THREADS, CHUNKS_PER_BLOCK = 100, 128, 32


class OrderSums:
    """Sums over the pairs of long lists for a hinge or squared hinge, by scans in score order.

    O(n log n + n log L) time for L grades in a list of n rows, and O(n) memory. Pairs inside the
    `level_ranges` are left out; `precede.risks.by_pair` enumerates them.
    """

    def __init__(self, layout: QueryLayout, shape: PairShape, context: Context):
        self._layout, self._context = layout, context
        self._degree, self._knot, _ = shape
        self.level_ranges, self._depths = _plan(layout)
        self._gpu_splits: GpuSplits | None = None

    def copy_to(self, backend: Backend) -> None:
        """Copy the splits to a GPU."""
        if self._depths:
            self._gpu_splits = GpuSplits(backend, self._depths, self._layout)

    def add_gradients(
        self, backend: Backend, scores: BackendArray, pull: BackendArray, hessian: BackendArray
    ) -> list[BackendArray]:
        """Add the splits from the innermost to the outermost; return values and gradient sums."""
        if not self._depths:
            return []
        if backend.is_gpu:
            assert self._gpu_splits is not None
            shape = self._degree, self._knot
            return [self._gpu_splits.add_gradients(scores, *shape, pull, hessian)]
        scores = scores + 0.0  # -0 becomes 0; radix sort would put it before 0
        sums, sorted_rows = [], None
        for splits in self._depths:
            sorted_rows = splits.sort(scores, sorted_rows, self._context)
            sums.append(self._add_splits(splits, *sorted_rows, pull, hessian).T)
        return sums

    def _add_splits(
        self, splits: LevelSplits, order: Integers, sorted_scores: Floats, pull: Floats,
        hessian: Floats,
    ) -> Floats:  # fmt: skip
        """Add the pairs of disjoint splits, whose sides are sorted.

        Returns the value and the gradient sum of each chunk.
        """
        chunks, sides = splits.chunks, splits.sides
        moments, carry = np.empty((order.size, 3)), np.zeros((len(chunks), 3))
        sums, threads = np.zeros((len(chunks), 2)), threads_for("heavy rows", splits.rows)
        weights = self._layout.weight, self._layout.loser_weight
        self._context.run(
            _scan_chunks, len(chunks), chunks, order, sorted_scores, self._knot, *weights, moments,
            threads=threads,
        )  # fmt: skip
        _carry_moments(sides, chunks, sorted_scores, self._knot, moments, carry)
        self._context.run(
            _add_row_gradients, len(chunks), chunks, sides, order, sorted_scores, CHUNK_BITS,
            self._knot, self._degree, moments, carry, *weights, pull, hessian, sums,
            threads=threads,
        )  # fmt: skip
        return sums


@dataclass(frozen=True)
class LevelSplits:
    """Splits of one depth, which have no row in common.

    Attributes
    ----------
    sides : first row, end row, first chunk and end chunk of the losers of the first split, of its
        winners, of the losers of the second split, ...
    chunks : first row, end row and side of every chunk
    inner_bounds : row between the two sides of an inner split that make up a side; -1 if none
    """

    sides: Integers
    chunks: Integers
    inner_bounds: Integers

    @property
    def rows(self) -> int:
        """Number of rows in all splits."""
        return int((self.sides[:, 1] - self.sides[:, 0]).sum())

    def sort(
        self, scores: Floats, inner: tuple[Integers, Floats] | None, context: Context
    ) -> tuple[Integers, Floats]:
        """Sort every side by increasing score; return the order, stable, and the sorted scores.

        `inner` is the result for the inner splits, whose sorted sides are merged.
        """
        order, sorted_scores = np.empty(scores.size, np.int64), np.empty(scores.size)

        def sort(first: int, last: int) -> None:
            for (first_row, end_row), inner_bound in zip(
                self.sides[first:last, :2], self.inner_bounds[first:last], strict=True
            ):
                if inner_bound >= 0 and inner is not None:
                    _merge(first_row, inner_bound, end_row, *inner, order, sorted_scores)
                    continue
                side_scores = scores[first_row:end_row]
                if side_scores.size >= MIN_RADIX_ROWS:
                    side_order = radix_argsort(side_scores)
                else:
                    side_order = np.argsort(side_scores, kind="stable")
                order[first_row:end_row] = side_order + first_row
                sorted_scores[first_row:end_row] = side_scores[side_order]

        context.map(sort, len(self.sides), threads=threads_for("heavy rows", self.rows))
        return order, sorted_scores


class GpuSplits:
    """Splits of all depths, innermost first, on a GPU."""

    def __init__(self, backend: Backend, depths: Sequence[LevelSplits], layout: QueryLayout):
        assert CHUNK_BITS <= 9, "kernels have no room for longer chunks"
        self._backend, self._rows, put = backend, layout.n_graded, backend.put
        backend.check_room(BYTES_PER_SPLIT_ROW * self._rows, "the pulls of long lists")
        self._weights = put(layout.weight), put(layout.loser_weight)
        self._depths = []
        for splits in depths:
            # Rows between the sides are numbered too, so that sorting leaves them in place.
            bounds = np.unique(splits.sides[:, :2])
            side = np.searchsorted(bounds, np.arange(self._rows), side="right")
            side = side.astype(np.min_scalar_type(bounds.size))
            self._depths.append(tuple(map(put, (side, splits.sides, splits.chunks))))

    def add_gradients(
        self, scores: BackendArray, degree: int, knot: float, pull: BackendArray,
        hessian: BackendArray,
    ) -> BackendArray:  # fmt: skip
        """Add gradient and Hessian of all rows; return values and gradient sums of the chunks."""
        backend, argsort = self._backend, self._backend.xp.argsort
        keys = backend.empty(self._rows, dtype=np.uint64)
        backend.over_rows("score_keys", self._rows, scores, keys)
        by_score, sums = argsort(keys), []
        for side, sides, chunks in self._depths:
            order = by_score[argsort(side[by_score])]
            loss = float(knot), degree
            sums.append(self._add_splits(order, sides, chunks, scores, loss, pull, hessian))
        return backend.xp.concatenate(sums, axis=1)

    def _add_splits(
        self, order: BackendArray, sides: BackendArray, chunks: BackendArray, scores: BackendArray,
        loss: tuple[float, int], pull: BackendArray, hessian: BackendArray,
    ) -> BackendArray:  # fmt: skip
        """Add the pairs of disjoint splits, whose sides are sorted; `loss` is knot and degree."""
        backend, empty = self._backend, self._backend.empty
        n_chunks, knot = len(chunks), loss[0]
        sorted_scores, weight = empty(2, self._rows)
        moments, carry = empty(self._rows, 3), empty(n_chunks, 3)
        sums = empty(2, n_chunks)
        backend.launch(
            "sort_rows", n_chunks, THREADS, chunks, order, scores, *self._weights, sorted_scores,
            weight,
        )  # fmt: skip
        backend.launch(
            "scan_chunks", -(-n_chunks // CHUNKS_PER_BLOCK), CHUNKS_PER_BLOCK, n_chunks, chunks,
            sorted_scores, weight, knot, moments,
        )  # fmt: skip
        backend.launch(
            "carry_moments", len(sides), THREADS, sides, chunks, sorted_scores, knot, moments, carry
        )
        backend.launch(
            "add_row_gradients", n_chunks, THREADS, sides, chunks, order, sorted_scores, weight,
            CHUNK_BITS, *loss, moments, carry, pull, hessian, sums,
        )  # fmt: skip
        return sums


class SplineSums(SplitSums):
    """Sums over pairs for terms ``weight·(knot - m)_+^degree``: sort, then one scan per knot.

    A scan only adds positive terms, so nothing cancels inside it; between terms of opposite sign
    the result is clipped at 0.
    """

    def __init__(self, layout: QueryLayout, loss: PairLoss, context: Context):
        super().__init__(layout, loss, context)
        self._long_splits = np.flatnonzero(self.split[:, 2] - self.split[:, 0] >= LONG_SPLIT_ROWS)
        self._sorted = np.empty(0)
        self._orders: list[tuple[Integers, Integers]] = []

    def plain_sums(
        self, scores: Floats, source: Floats, kernels: Sequence[str], *, winners: bool
    ) -> Floats:
        """Return the sums of each kernel by row, for sources up to about 1."""
        if "square" in kernels and len(self._spline_terms()) > 1:
            # The square of a sum has products of different terms.
            return super().plain_sums(scores, source, kernels, winners=winners)
        totals = np.zeros((len(kernels), scores.size))
        self._sort(scores)
        for weight, knot, degree in self._spline_terms():
            monomials = [_monomial(degree, name) for name in kernels]
            powers = np.array([power for _, power in monomials])
            term_sums = np.zeros_like(totals)
            self.context.run(
                _scan_short_splits, self.split_start.size - 1, self.split_start, self.split,
                LONG_SPLIT_ROWS, scores, source, winners, knot, powers, term_sums,
                threads=self.threads,
            )  # fmt: skip
            for split, orders in zip(self.split[self._long_splits], self._orders, strict=True):
                _scan_split(split, *orders, scores, source, winners, knot, powers, term_sums)
            totals += weight * term_sums * np.array([[constant] for constant, _ in monomials])
        return np.maximum(totals, 0.0)

    def _sort(self, scores: Floats) -> None:
        """Sort the two sides of every long split, unless these scores are sorted already.

        The sums over winners and over losers need the same order. The array may be reused for other
        scores, so they are compared with a copy.
        """
        if not self._long_splits.size or np.array_equal(scores, self._sorted):
            return
        sides = [
            side for low, middle, high in self.split[self._long_splits]
            for side in ((low, middle), (middle, high))
        ]  # fmt: skip

        def sort(first: int, last: int) -> list[Integers]:
            return [radix_argsort(scores[low:high]) for low, high in sides[first:last]]

        orders = [order for chunk in self.context.map(sort, len(sides)) for order in chunk]
        self._sorted = scores.copy()
        self._orders = list(zip(orders[::2], orders[1::2], strict=True))

    def _spline_terms(self) -> tuple[tuple[float, float, int], ...]:
        assert isinstance(self.loss.form, Polynomial | Spline)
        return self.loss.form.terms


def _monomial(degree: int, name: str) -> tuple[float, int]:
    """Return constant and degree of a kernel of ``(knot - m)_+^degree``."""
    if name == "square":
        return float(degree**2), 2 * degree - 2
    order = {"value": 0, "slope": 1, "curvature": 2}[name]
    constant = float(np.prod(np.arange(degree, degree - order, -1)))
    return constant, max(degree - order, 0)


def _plan(layout: QueryLayout) -> tuple[Integers, list[LevelSplits]]:
    """Return the level ranges to enumerate, and the splits by depth, innermost first."""
    level_start, query_start = layout.level_start, layout.query_start
    open_ranges = np.column_stack([query_start[:-1], query_start[1:]])
    level_ranges: list[Integers] = []
    depths: list[Integers] = []
    while len(open_ranges):
        rows, pairs = count_rows_and_pairs(level_start, open_ranges)
        # The rows of an inner split are sorted in any case.
        max_pairs = 0 if depths else MAX_PAIRS_PER_LONG_LIST_ROW
        is_long = (pairs > MAX_PAIRS_PER_ROW * rows) | (
            (rows > LONG_LIST_ROWS) & (pairs > max_pairs * rows)
        )
        level_ranges.append(open_ranges[~is_long])
        first_level, end_level = open_ranges[is_long].T
        middle_level = (first_level + end_level) // 2
        if middle_level.size:
            depths.append(level_start[np.column_stack([first_level, middle_level, end_level])])
        halves = np.column_stack([first_level, middle_level, middle_level, end_level])
        halves = halves.reshape(-1, 2)
        open_ranges = halves[halves[:, 1] - halves[:, 0] > 1]
    inner_rows, splits = np.zeros((0, 3), np.int64), []
    for split_rows in reversed(depths):
        splits.append(_make_splits(split_rows, inner_rows))
        inner_rows = split_rows
    return np.concatenate([np.zeros((0, 2), np.int64), *level_ranges]), splits


def _make_splits(split_rows: Integers, inner_rows: Integers) -> LevelSplits:
    """Build the splits from rows (first loser, first winner, end) in increasing order."""
    side_bounds = np.column_stack(
        [split_rows[:, 0], split_rows[:, 1], split_rows[:, 1], split_rows[:, 2]]
    ).reshape(-1, 2)
    first_row, end_row = side_bounds.T
    chunks = np.column_stack(cut_into_chunks(first_row, end_row, 1 << CHUNK_BITS))
    first_chunk = np.searchsorted(chunks[:, 2], np.arange(len(side_bounds) + 1))
    middle_of = {(first, end): middle for first, middle, end in inner_rows.tolist()}
    inner_bounds = [middle_of.get((first, end), -1) for first, end in side_bounds.tolist()]
    sides = np.column_stack([side_bounds, first_chunk[:-1], first_chunk[1:]])
    return LevelSplits(sides, chunks, np.array(inner_bounds))


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _merge(
    first_row: int, middle_row: int, end_row: int, from_order: Integers, from_scores: Floats,
    order: Integers, sorted_scores: Floats,
) -> None:  # fmt: skip
    """Merge two sorted ranges of rows; rows of the first come first among equal scores."""
    left, right = first_row, middle_row
    for position in range(first_row, end_row):
        take_left = right == end_row or (
            left < middle_row and from_scores[left] <= from_scores[right]
        )
        taken = left if take_left else right
        order[position], sorted_scores[position] = from_order[taken], from_scores[taken]
        left, right = left + take_left, right + (not take_left)


@njit(cache=True, nogil=True)
def _scan_chunks(
    begin: int, end: int, chunks: Integers, order: Integers, sorted_scores: Floats, knot: float,
    weight: Floats, loser_weight: Floats, moments: Floats,
) -> None:  # fmt: skip
    """Compute, for each row of a chunk, the moments about it of the rows up to it.

    Winners are scanned from the left, losers from the right.
    """
    for chunk in range(begin, end):
        first, last = chunks[chunk, 0], chunks[chunk, 1]
        winners = chunks[chunk, 2] % 2 == 1
        m0, m1, m2 = 0.0, 0.0, 0.0
        previous = sorted_scores[first] - knot if winners else sorted_scores[last - 1]
        for count in range(last - first):
            position = first + count if winners else last - 1 - count
            point = sorted_scores[position] - knot if winners else sorted_scores[position]
            by = point - previous if winners else previous - point
            m2 += by * (2.0 * m1 + by * m0)
            m1 += by * m0
            m0 += weight[order[position]] if winners else loser_weight[order[position]]
            moments[position, 0], moments[position, 1], moments[position, 2] = m0, m1, m2
            previous = point


@njit(cache=True, nogil=True)
def _carry_moments(
    sides: Integers, chunks: Integers, sorted_scores: Floats, knot: float, moments: Floats,
    carry: Floats,
) -> None:  # fmt: skip
    """Compute the moments of all chunks before each chunk, about the nearest of their rows."""
    for side in range(sides.shape[0]):
        winners = side % 2 == 1
        m0, m1, m2, previous = 0.0, 0.0, 0.0, 0.0
        for number in range(1, sides[side, 3] - sides[side, 2]):
            if winners:
                chunk = sides[side, 2] + number
                edge = chunks[chunk, 0] - 1
                point = sorted_scores[edge] - knot
                by = point - previous
            else:
                chunk = sides[side, 3] - 1 - number
                edge = chunks[chunk, 1]
                point = sorted_scores[edge]
                by = previous - point
            by = by if number > 1 else 0.0
            m2 += by * (2.0 * m1 + by * m0)
            m1 += by * m0
            m0 += moments[edge, 0]
            m1 += moments[edge, 1]
            m2 += moments[edge, 2]
            carry[chunk, 0], carry[chunk, 1], carry[chunk, 2] = m0, m1, m2
            previous = point


@njit(cache=True, nogil=True)
def _add_row_gradients(
    begin: int, end: int, chunks: Integers, sides: Integers, order: Integers, sorted_scores: Floats,
    chunk_bits: int, knot: float, degree: int, moments: Floats, carry: Floats, weight: Floats,
    loser_weight: Floats, pull: Floats, hessian: Floats, sums: Floats,
) -> None:  # fmt: skip
    """Add gradient and Hessian of every row; fill value and gradient sum of the losers."""
    for chunk in range(begin, end):
        low, high, side = chunks[chunk, 0], chunks[chunk, 1], chunks[chunk, 2]
        winners, source_side = side % 2 == 1, sides[side ^ 1]
        first, last = source_side[0], source_side[1]
        boundary = _first_paired(sorted_scores, first, last, sorted_scores[low], winners, knot)
        value, gradient_sum = 0.0, 0.0
        for position in range(low, high):
            row = order[position]
            target = sorted_scores[position] - knot if winners else sorted_scores[position]
            if winners:
                while boundary < last and not sorted_scores[boundary] > target:
                    boundary += 1
                if boundary == last:
                    break
                source_chunk = (boundary - first) >> chunk_bits
                source, by = boundary, sorted_scores[boundary] - target
                edge = first + ((source_chunk + 1) << chunk_bits)
                edge_distance = sorted_scores[edge] - target if edge < last else -1.0
            else:
                while boundary < last and sorted_scores[boundary] - knot < target:
                    boundary += 1
                if boundary == first:
                    continue
                source_chunk = (boundary - 1 - first) >> chunk_bits
                source, by = boundary - 1, target - (sorted_scores[boundary - 1] - knot)
                edge = first + (source_chunk << chunk_bits) - 1
                edge_distance = target - (sorted_scores[edge] - knot) if edge >= first else -1.0
            m0, m1, m2 = _translate(moments[source], by)
            if edge_distance >= 0.0:
                carried = _translate(carry[source_side[2] + source_chunk], edge_distance)
                m0, m1, m2 = m0 + carried[0], m1 + carried[1], m2 + carried[2]
            slope = m0 if degree == 1 else 2.0 * m1
            curvature = 0.0 if degree == 1 else 2.0 * m0
            row_weight = weight[row] if winners else loser_weight[row]
            hessian[row] += row_weight * curvature
            if winners:
                pull[row] += row_weight * slope
            else:
                pull[row] -= row_weight * slope
                gradient_sum += row_weight * slope
                value += row_weight * (m1 if degree == 1 else m2)
        sums[chunk, 0], sums[chunk, 1] = value, gradient_sum


@njit(**INNER)
def _first_paired(
    sorted_scores: Floats, first: int, last: int, score: float, winners: bool, knot: float
) -> int:
    """Return the first loser above a winner's value, or the first winner not below a loser."""
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        value = sorted_scores[middle]
        is_before = not value > score - knot if winners else value - knot < score
        if is_before:
            low = middle + 1
        else:
            high = middle
    return low


@njit(**INNER)
def _translate(moments: Floats, by: float) -> tuple[float, float, float]:
    """Translate moments to a point `by` further on."""
    m0, m1, m2 = moments[0], moments[1], moments[2]
    return m0, m1 + by * m0, m2 + by * (2.0 * m1 + by * m0)


@njit(cache=True, nogil=True)
def _scan_short_splits(
    begin: int, end: int, split_start: Integers, split: Integers, max_rows: int, scores: Floats,
    source: Floats, winners: bool, knot: float, degrees: Integers, totals: Floats,
) -> None:  # fmt: skip
    """Add the sums over splits of fewer than `max_rows` rows of the queries begin..end."""
    for row in range(split_start[begin], split_start[end]):
        low, middle, high = split[row, 0], split[row, 1], split[row, 2]
        if high - low < max_rows:
            lower_order = np.argsort(scores[low:middle])
            upper_order = np.argsort(scores[middle:high])
            _scan_split(
                split[row], lower_order, upper_order, scores, source, winners, knot, degrees, totals
            )


@njit(cache=True, nogil=True)
def _scan_split(
    split: Integers, lower_order: Integers, upper_order: Integers, scores: Floats, source: Floats,
    winners: bool, knot: float, degrees: Integers, totals: Floats,
) -> None:  # fmt: skip
    """Add sum_i x_i (t_k - a_i)_+^degree over one split, whose sides are sorted.

    ::

        sources   a0    a1  a2          a3        a4       (sorted)
        targets         t0      t1  t2       t3            (sorted)

    From left to right, the moments M_j = sum x_i (t - a_i)^j of the sources passed so far follow
    from the previous ones by the binomial theorem; every term is positive, so nothing cancels. The
    knot is subtracted from the winners in both directions, so that both agree on pairs near it.
    """
    low, middle = split[0], split[1]
    if winners:
        sign, source_start, target_start = 1.0, middle, low
        source_order, target_order = upper_order, lower_order
        source_shift, target_shift = knot, 0.0
    else:  # from right to left
        sign, source_start, target_start = -1.0, low, middle
        source_order, target_order = lower_order[::-1], upper_order[::-1]
        source_shift, target_shift = 0.0, knot
    moments = np.zeros(degrees.max() + 1)
    origin = 0.0
    passed = 0
    for k in target_order:
        target = sign * (scores[target_start + k] - target_shift)
        while passed < source_order.size:
            position = sign * (scores[source_start + source_order[passed]] - source_shift)
            if not position < target:
                break
            if passed > 0:
                _translate_powers(moments, position - origin)
            origin = position
            moments[0] += source[source_start + source_order[passed]]
            passed += 1
        if passed == 0:
            continue
        _translate_powers(moments, target - origin)
        origin = target
        for j in range(degrees.size):
            totals[j, target_start + k] += moments[degrees[j]]


@njit(cache=True, nogil=True)
def radix_argsort(values: Floats) -> Integers:
    """Argsort by increasing value, stable: radix sort with digits of eleven bits, lowest first.

    The bits of positive floats increase with the value; those of negative floats decrease.
    """
    keys = np.empty(values.size, np.uint64)
    bits = values.view(np.uint64)
    sign_bit = np.uint64(1) << np.uint64(63)
    counts = np.zeros((6, 2048), np.int64)
    for row in range(values.size):
        key = ~bits[row] if bits[row] & sign_bit else bits[row] | sign_bit
        keys[row] = key
        for digit in range(6):
            counts[digit, (key >> np.uint64(11 * digit)) & np.uint64(2047)] += 1
    order, next_order = np.arange(values.size), np.empty(values.size, np.int64)
    for digit in range(6):
        if counts[digit].max() == values.size:  # constant digit
            continue
        start = np.cumsum(counts[digit]) - counts[digit]
        shift = np.uint64(11 * digit)
        for index in order:
            bucket = (keys[index] >> shift) & np.uint64(2047)
            next_order[start[bucket]] = index
            start[bucket] += 1
        order, next_order = next_order, order
    return order


@njit(**INNER)
def _translate_powers(moments: Floats, by: float) -> None:
    """Translate moments by `by`: (t + by - a)^j from (t - a)^0 .. (t - a)^j, highest first."""
    for j in range(moments.size - 1, 0, -1):
        binomial = 1.0
        power = 1.0
        total = 0.0
        for m in range(j, -1, -1):  # terms C(j, m) by^(j-m) M_m
            total += binomial * power * moments[m]
            power *= by
            binomial = binomial * m / (j - m + 1)
        moments[j] = total
