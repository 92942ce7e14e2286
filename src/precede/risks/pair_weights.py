"""Pair weights of RankBoost+, which ties keep from factorizing over winners and losers.

With weak rankers s of values 0 and 1 and accumulated coefficients eta_s, a pair weighs
``prod_s omega_s``: ``exp(-eta_s)`` if s orders it correctly, ``exp(eta_s)`` if wrongly,
``cosh(eta_s)`` if s ties it (C19 eq. 23). `PairWeights` stores one number per pair, query by
query.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from precede.engine.arrays import Bytes, Floats, Integers
from precede.engine.compiling import INNER, njit
from precede.engine.exact import SCALE, exact_sum
from precede.engine.execution import Context, is_small
from precede.engine.portable import exp, portable_exp
from precede.engine.query_layout import QueryLayout

# Pairs of a chunk; small enough for one query of millions of pairs to keep all threads busy. Chunks
# do not depend on the number of threads.
MAX_PAIRS_PER_CHUNK = 1 << 18
# Weak rankers whose ties are summed in one pass: eight numbers fill one or two vector registers.
RANKERS_PER_PASS = 8


def free_memory() -> int:
    """Return the bytes of memory available to this process; 4 GiB if unknown.

    >>> free_memory() > 0
    True
    """
    known = []
    with contextlib.suppress(OSError, ValueError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        known += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")]
    if not known and hasattr(os, "sysconf"):
        with contextlib.suppress(OSError, ValueError):
            known.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with contextlib.suppress(OSError, ValueError):  # a container may have a lower limit
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii"))
        known.append(limit - int(Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii")))
    return max(1, min(known, default=4 << 30))


def pair_factors(before: float, step: float) -> Floats:
    """Return the factors of the weights of correct, wrong and tied pairs for a step (C19 eq. 25).

    The last, ``cosh(before + step) / cosh(before)``, is computed without cancellation or overflow.

    >>> pair_factors(0.0, 0.0)
    array([1., 1., 1.])
    """
    outward, shift = (step if before >= 0 else -step), 2 * abs(before)
    correct, wrong, a, b, c = exp(np.array([-step, step, outward, -outward - shift, -shift]))
    return np.array([correct, wrong, (a + b) / (1 + c)])


class PairWeights:
    """One weight for each pair, stored query by query.

    ::

        grades of a query     0 0 0 | 1 1 | 2
        weights of row 3      w w w                  its losers are the rows below its level
        weights of row 4      w w w
        weights of row 5      w w w   w w

    The weights of each winner are contiguous, one winner after the other. A round multiplies the
    weights by the factor for correct, wrong or tied pairs and takes row and column sums, in one
    pass over memory.

    Attributes
    ----------
    pull : normalized pull of each row; over all pairs, the contributions of the winners sum to 1
    log_risk : logarithm of E2, the mean of ``prod_s omega_s`` over pairs
    tied : share of the weight of the pairs that the last weak ranker ties

    Notes
    -----
    Eight bytes per pair; O(pairs) for each `advance`, and for each eight weak rankers of `ties`.
    Sums inside a chunk have a fixed order, sums over chunks are sums of integers.
    """

    def __init__(self, layout: QueryLayout, context: Context):
        self._layout, self._context = layout, context
        self._count, self._start = _count_losers(layout)
        self._weights = np.empty(int(self._start[-1]))
        self._chunks, self._first_chunk = _make_chunks(layout, self._count, self._start)
        self._column_start = np.concatenate([[0], np.cumsum(self._chunks[:, 3])])
        self._columns = np.empty(int(self._column_start[-1]))
        self._small = is_small("pairs", self._weights.size)
        explicit = layout.pair_weight * layout.weight[layout.winner]
        self._explicit_weights = explicit * layout.loser_weight[layout.loser] / layout.total
        self.pull = np.zeros(layout.n_used_rows)
        self.log_risk = 0.0
        self.tied = 1.0
        self._weight_sum = 1.0  # divided out by the next factors
        self._run_on_chunks(
            _fill_weights, self._chunks, self._count, self._start, layout.weight,
            layout.loser_weight, 1 / layout.total, self._weights,
        )  # fmt: skip
        self._multiply(np.zeros(layout.n_used_rows, np.uint8), 1.0, 1.0, 1.0)

    @staticmethod
    def bytes_needed(layout: QueryLayout) -> int:
        """Return the bytes of memory that an instance will need."""
        graded = layout.count_graded_pairs()
        # The column sums of chunks are at most a sixteenth of the pairs; see `_make_chunks`.
        pairs = 8 * graded + 8 * graded // 16 + 40 * layout.winner.size
        return pairs + 8 * (7 + RANKERS_PER_PASS) * layout.n_used_rows

    def advance(self, values: Bytes, *, before: float, step: float) -> None:
        """Add `step` to the coefficient `before` of a weak ranker (C19 eqs. 25 and 26)."""
        factors = pair_factors(before, step) / self._weight_sum
        self._multiply(values, *factors.tolist())
        self.log_risk += float(np.log(self._weight_sum))

    def _multiply(self, values: Bytes, correct: float, wrong: float, tied: float) -> None:
        """Multiply the weights and update the sums."""
        layout, chunks = self._layout, self._chunks
        row = np.zeros(layout.n_used_rows)
        column = np.zeros(layout.n_used_rows)
        sums = np.zeros((2, len(chunks)))
        one = values.astype(np.float64)
        # Factor of a pair by the value of the winner (row) and the loser (column).
        by_loser = np.stack([np.where(values, wrong, tied), np.where(values, tied, correct)])
        self._run_on_chunks(
            _multiply_and_sum, chunks, self._column_start, self._count, self._start, values, one,
            by_loser, self._weights, row, self._columns, sums,
        )  # fmt: skip
        self._context.run(
            _add_chunk_columns, self._first_chunk.size - 1, self._first_chunk, chunks,
            self._column_start, self._columns, column, small=self._small,
        )  # fmt: skip
        total, ties = exact_sum(sums[0]), exact_sum(sums[1])
        explicit_pull = np.zeros(row.size)
        if self._explicit_weights.size:
            above, below = values[layout.winner], values[layout.loser]
            self._explicit_weights *= np.where(
                above == below, tied, np.where(above > below, correct, wrong)
            )
            total += exact_sum(self._explicit_weights)
            ties += exact_sum(self._explicit_weights[above == below])
            integers = np.zeros(row.size, np.int64)
            # Normalized, because weights could overflow the integers after a large step.
            _add_explicit_pairs(
                layout.winner, layout.loser, self._explicit_weights / total, integers
            )
            explicit_pull = integers / SCALE
        self._weight_sum = total
        self.pull = (row - column) / total + explicit_pull
        self.tied = min(max(ties / total, 0.0), 1.0)

    def ties(self, weak_rankers: Sequence[Bytes]) -> Floats:
        """Return the share of the weight of the pairs that each weak ranker ties."""
        found = []
        for first in range(0, len(weak_rankers), RANKERS_PER_PASS):
            batch = weak_rankers[first : first + RANKERS_PER_PASS]
            one = np.zeros((self._layout.n_used_rows, RANKERS_PER_PASS))
            for j, values in enumerate(batch):
                one[:, j] = values
            sums = np.zeros((RANKERS_PER_PASS, len(self._chunks)))
            self._run_on_chunks(
                _tied_weights, self._chunks, self._count, self._start, one, self._weights, sums
            )
            for j, values in enumerate(batch):
                same = values[self._layout.winner] == values[self._layout.loser]
                found.append(
                    (exact_sum(sums[j]) + exact_sum(self._explicit_weights[same]))
                    / self._weight_sum
                )
        return np.array(found)

    def along(
        self, weak_rankers: Sequence[Bytes], before: Floats, direction: Floats, step: float
    ) -> tuple[float, float]:
        """Return the factor by which E2 changes at ``before + step·direction``, and its slope."""
        after = before + step * direction
        table = np.array([
            step * direction,
            _log_cosh(after) - _log_cosh(before),
            direction,
            direction * np.tanh(after),
        ])  # fmt: skip
        values = np.stack(weak_rankers, axis=1)
        sums = np.zeros((2, len(self._chunks)))
        self._run_on_chunks(
            _sums_along, self._chunks, self._count, self._start, values, table, self._weights, sums
        )
        explicit = np.zeros((2, self._explicit_weights.size))
        _explicit_terms_along(
            self._layout.winner, self._layout.loser, values, table, self._explicit_weights, explicit
        )
        factor, slope = (exact_sum(a) + exact_sum(b) for a, b in zip(sums, explicit, strict=True))
        return factor / self._weight_sum, slope / self._weight_sum

    def _run_on_chunks(self, kernel: object, *arguments: object) -> None:
        self._context.run(kernel, len(self._chunks), *arguments, small=self._small)  # type: ignore[arg-type]


def _log_cosh(x: Floats) -> Floats:
    return np.logaddexp(x, -x) - np.log(2.0)


def _count_losers(layout: QueryLayout) -> tuple[Integers, Integers]:
    """Return the number of losers below each row, and the start of its weights."""
    level_start, query_start = layout.level_start, layout.query_start
    first_level = np.repeat(query_start[:-1], np.diff(query_start))
    below = level_start[:-1] - level_start[first_level]
    count = np.zeros(layout.n_used_rows, np.int64)
    count[: layout.n_graded] = np.repeat(below, np.diff(level_start))
    return count, np.concatenate([[0], np.cumsum(count)])


def _make_chunks(
    layout: QueryLayout, count: Integers, start: Integers
) -> tuple[Integers, Integers]:
    """Cut queries into chunks; each is (first row of query, winners from, to, most losers).

    Returns also the first chunk of each query, and the end.
    """
    query_bounds = layout.level_start[layout.query_start]
    bottom, top = query_bounds[:-1], query_bounds[1:]
    # Rows of the lowest level win no pair; the highest row has the most losers.
    low = layout.level_start[layout.query_start[:-1] + 1]
    one_chunk_each = np.stack([bottom, low, top, count[top - 1]], axis=1).reshape(-1, 4)
    # Each chunk has separate column sums, which must stay few compared with its pairs.
    size = np.maximum(MAX_PAIRS_PER_CHUNK, 16 * one_chunk_each[:, 3])
    large = start[top] - start[bottom] > size
    if not large.any():
        return one_chunk_each, np.arange(bottom.size + 1)
    chunks_of_query = [one_chunk_each[q : q + 1] for q in range(bottom.size)]
    for query in np.flatnonzero(large):
        first, position, end, _ = one_chunk_each[query].tolist()
        bounds = [position]
        while position < end:
            position = int(np.searchsorted(start[: end + 1], start[position] + size[query]))
            bounds.append(min(position, end))
        chunks_of_query[query] = np.array(
            [(first, a, b, count[b - 1]) for a, b in pairwise(bounds)]
        )
    first_chunk = np.concatenate([[0], np.cumsum([len(part) for part in chunks_of_query])])
    return np.concatenate(chunks_of_query), first_chunk


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _fill_weights(
    low: int, high: int, chunks: Integers, count: Integers, start: Integers, weight: Floats,
    loser_weight: Floats, share: float, weights: Floats,
) -> None:  # fmt: skip
    for chunk in range(low, high):
        bottom, begin, end = chunks[chunk, 0], chunks[chunk, 1], chunks[chunk, 2]
        for item in range(begin, end):
            row = weights[start[item] : start[item] + count[item]]
            for k in range(row.size):
                row[k] = weight[item] * loser_weight[bottom + k] * share


@njit(cache=True, nogil=True)
def _multiply_and_sum(
    low: int, high: int, chunks: Integers, column_start: Integers, count: Integers, start: Integers,
    values: Bytes, one: Floats, by_loser: Floats, weights: Floats, row_sums: Floats,
    columns: Floats, sums: Floats,
) -> None:  # fmt: skip
    """Multiply the weights of chunks and compute the sums of rows, columns and ties."""
    for chunk in range(low, high):
        bottom, begin, end = chunks[chunk, 0], chunks[chunk, 1], chunks[chunk, 2]
        column = columns[column_start[chunk] : column_start[chunk + 1]]
        column[:] = 0.0
        weight_sum, ties = 0.0, 0.0
        for item in range(begin, end):
            losers = count[item]
            row = weights[start[item] : start[item] + losers]
            factor = by_loser[values[item], bottom : bottom + losers]
            for k in range(losers):
                row[k] *= factor[k]
            for k in range(losers):
                column[k] += row[k]
            total = _sum(row)
            above = _dot(row, one[bottom : bottom + losers])
            row_sums[item] = total
            weight_sum += total
            ties += above if values[item] == 1 else total - above
        sums[0, chunk] = weight_sum
        sums[1, chunk] = ties


@njit(**INNER)
def _sum(row: Floats) -> float:
    """Sum with four accumulators, which hides the latency of additions."""
    one, two, three, four = 0.0, 0.0, 0.0, 0.0
    whole = row.size - row.size % 4
    for k in range(0, whole, 4):
        one += row[k]
        two += row[k + 1]
        three += row[k + 2]
        four += row[k + 3]
    for k in range(whole, row.size):
        one += row[k]
    return (one + two) + (three + four)


@njit(**INNER)
def _dot(row: Floats, other: Floats) -> float:
    one, two, three, four = 0.0, 0.0, 0.0, 0.0
    whole = row.size - row.size % 4
    for k in range(0, whole, 4):
        one += row[k] * other[k]
        two += row[k + 1] * other[k + 1]
        three += row[k + 2] * other[k + 2]
        four += row[k + 3] * other[k + 3]
    for k in range(whole, row.size):
        one += row[k] * other[k]
    return (one + two) + (three + four)


@njit(cache=True, nogil=True)
def _add_chunk_columns(
    low: int, high: int, first_chunk: Integers, chunks: Integers, column_start: Integers,
    columns: Floats, column_sums: Floats,
) -> None:  # fmt: skip
    """Add the column sums of the chunks of each query, in order."""
    for query in range(low, high):
        for chunk in range(first_chunk[query], first_chunk[query + 1]):
            bottom = chunks[chunk, 0]
            column = columns[column_start[chunk] : column_start[chunk + 1]]
            for k in range(column.size):
                column_sums[bottom + k] += column[k]


@njit(cache=True, nogil=True)
def _add_explicit_pairs(
    winner: Integers, loser: Integers, share: Floats, integers: Integers
) -> None:
    """Add explicit pairs as integers, so that their order does not matter."""
    for pair in range(winner.size):
        whole = np.int64(np.rint(share[pair] * SCALE))
        integers[winner[pair]] += whole
        integers[loser[pair]] -= whole


@njit(cache=True, nogil=True)
def _tied_weights(
    low: int, high: int, chunks: Integers, count: Integers, start: Integers, one: Floats,
    weights: Floats, sums: Floats,
) -> None:  # fmt: skip
    """Sum the weights of the pairs tied by each of eight weak rankers."""
    above = np.empty(8)
    for chunk in range(low, high):
        bottom, begin, end = chunks[chunk, 0], chunks[chunk, 1], chunks[chunk, 2]
        tied = np.zeros(8)
        for item in range(begin, end):
            row = weights[start[item] : start[item] + count[item]]
            above[:] = 0.0
            total = 0.0
            for k in range(row.size):
                weight = row[k]
                total += weight
                values = one[bottom + k]
                for j in range(8):
                    above[j] += weight * values[j]
            values = one[item]
            for j in range(8):
                tied[j] += values[j] * above[j] + (1.0 - values[j]) * (total - above[j])
        for j in range(8):
            sums[j, chunk] = tied[j]


@njit(**INNER)
def _exponent_and_slope(above: Bytes, below: Bytes, table: Floats) -> tuple[float, float]:
    """Return exponent and slope of a pair along a direction; `table` as in `PairWeights.along`."""
    exponent, slope = 0.0, 0.0
    for s in range(table.shape[1]):
        if above[s] == below[s]:
            exponent += table[1, s]
            slope += table[3, s]
        elif above[s] > below[s]:
            exponent -= table[0, s]
            slope -= table[2, s]
        else:
            exponent += table[0, s]
            slope += table[2, s]
    return exponent, slope


@njit(cache=True, nogil=True)
def _sums_along(
    low: int, high: int, chunks: Integers, count: Integers, start: Integers, values: Bytes,
    table: Floats, weights: Floats, sums: Floats,
) -> None:  # fmt: skip
    for chunk in range(low, high):
        bottom, begin, end = chunks[chunk, 0], chunks[chunk, 1], chunks[chunk, 2]
        total, slope_sum = 0.0, 0.0
        for item in range(begin, end):
            row = weights[start[item] : start[item] + count[item]]
            for k in range(row.size):
                exponent, slope = _exponent_and_slope(values[item], values[bottom + k], table)
                weight = row[k] * portable_exp(exponent)
                total += weight
                slope_sum += weight * slope
        sums[0, chunk] = total
        sums[1, chunk] = slope_sum


@njit(cache=True, nogil=True)
def _explicit_terms_along(
    winner: Integers, loser: Integers, values: Bytes, table: Floats, weights: Floats, sums: Floats
) -> None:
    for pair in range(winner.size):
        exponent, slope = _exponent_and_slope(values[winner[pair]], values[loser[pair]], table)
        sums[0, pair] = weights[pair] * portable_exp(exponent)
        sums[1, pair] = sums[0, pair] * slope
