"""Pair weights of RankBoost+, which ties keep from factorizing over winners and losers.

With weak rankers s of values 0 and 1 and accumulated coefficients eta_s, a pair weighs
``prod_s omega_s``: ``exp(-eta_s)`` if s orders it correctly, ``exp(eta_s)`` if wrongly,
``cosh(eta_s)`` if s ties it (C19 eq. 23). `PairWeights` stores one number per pair, query by
query.

On a GPU weights that do not fit are recomputed in each round from the factors of all previous
rounds, to the same bits.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from precede.engine.arrays import BackendArray, Bytes, Floats, Integers
from precede.engine.backend import Backend
from precede.engine.compiling import INNER, njit
from precede.engine.exact import exact_sum, exact_sums
from precede.engine.execution import Context, threads_for
from precede.engine.portable import exp, portable_exp
from precede.engine.query_layout import QueryLayout

# Pairs of a chunk; small enough for one query of millions of pairs to keep all threads busy. Chunks
# do not depend on the number of threads.
MAX_PAIRS_PER_CHUNK = 1 << 18
# Weak rankers whose ties are summed in one pass: eight numbers fill one or two vector registers.
RANKERS_PER_PASS = 8
# On a GPU each row stores the values of all rounds as bits of 64-bit words, as in `kernels.cu`.
ROUNDS_PER_WORD = 64


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

    Parameters
    ----------
    layout : QueryLayout
        Without explicit pairs on a GPU.
    context : Context
        The values of weak rankers and the pull are on its backend.
    memory_limit : float, optional
        On a GPU, weights that need more bytes than this, or than are free, are not stored.

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

    def __init__(self, layout: QueryLayout, context: Context, memory_limit: float | None = None):
        self._layout, self._context = layout, context
        self._graded: _CpuWeights | _GpuWeights
        if context.backend.is_gpu:
            limit = np.inf if memory_limit is None else min(memory_limit, context.backend.free())
            stored = self.bytes_needed(layout) <= limit
            self._graded = _GpuWeights(layout, context.backend, stored=stored)
        else:
            self._graded = _CpuWeights(layout, context)
        explicit = layout.pair_weight * layout.weight[layout.winner]
        self._explicit_weights = explicit * layout.loser_weight[layout.loser] / layout.total
        self.log_risk = 0.0
        self._normalize(np.zeros(layout.winner.size, np.int64))

    @staticmethod
    def bytes_needed(layout: QueryLayout) -> int:
        """Return the bytes of memory that an instance will need."""
        graded = layout.count_graded_pairs()
        # The column sums of chunks are at most a sixteenth of the pairs; see `_Chunks`.
        pairs = 8 * graded + 8 * graded // 16 + 40 * layout.winner.size
        return pairs + 8 * (7 + RANKERS_PER_PASS) * layout.n_used_rows

    def advance(self, values: BackendArray, *, before: float, step: float) -> None:
        """Add `step` to the coefficient `before` of a weak ranker (C19 eqs. 25 and 26)."""
        correct, wrong, tied = (pair_factors(before, step) / self._weight_sum).tolist()
        self._graded.multiply(values, correct, wrong, tied)
        order = self._explicit_order(values)
        self._explicit_weights *= np.array([tied, correct, wrong])[order]
        self._normalize(order)
        self.log_risk += float(np.log(self._weight_sum))

    def _explicit_order(self, values: BackendArray) -> Integers:
        """Return whether values order each explicit pair correctly (1), wrongly (-1) or not (0)."""
        if not self._explicit_weights.size:
            return np.zeros(0, np.int64)
        return values[self._layout.winner].astype(np.int64) - values[self._layout.loser]

    def _normalize(self, explicit_order: Integers) -> None:
        """Compute the total weight, and relative to it the pull and the weight of tied pairs."""
        explicit = self._explicit_weights
        total = self._graded.total + exact_sum(explicit)
        ties = self._graded.tied + exact_sum(explicit[explicit_order == 0])
        self.pull = self._graded.pull(total)
        if explicit.size:
            self.pull += self._layout.sum_explicit_shares(explicit / total)
        self._weight_sum = total  # divided out by the next factors
        self.tied = min(max(ties / total, 0.0), 1.0)

    def ties(self, weak_rankers: Sequence[BackendArray]) -> Floats:
        """Return the share of the weight of the pairs that each weak ranker ties."""
        found = []
        for first in range(0, len(weak_rankers), RANKERS_PER_PASS):
            batch = weak_rankers[first : first + RANKERS_PER_PASS]
            for values, graded in zip(batch, self._graded.ties(batch), strict=True):
                explicit = self._explicit_weights[self._explicit_order(values) == 0]
                found.append((graded + exact_sum(explicit)) / self._weight_sum)
        return np.array(found)

    def along(
        self, weak_rankers: Sequence[Bytes], before: Floats, direction: Floats, step: float
    ) -> tuple[float, float]:
        """Return the factor by which E2 changes at ``before + step·direction``, and its slope.

        On the CPU only.
        """
        assert isinstance(self._graded, _CpuWeights)
        after = before + step * direction
        table = np.array([
            step * direction,
            _log_cosh(after) - _log_cosh(before),
            direction,
            direction * np.tanh(after),
        ])  # fmt: skip
        values = np.stack(weak_rankers, axis=1)
        sums = self._graded.sums_along(values, table)
        explicit = np.zeros((2, self._explicit_weights.size))
        _explicit_terms_along(
            self._layout.winner, self._layout.loser, values, table, self._explicit_weights, explicit
        )
        factor, slope = (exact_sum(a) + exact_sum(b) for a, b in zip(sums, explicit, strict=True))
        return factor / self._weight_sum, slope / self._weight_sum


class _CpuWeights:
    """Weights of the pairs of different grades, on the threads of a context.

    Attributes
    ----------
    total, tied : weight of all pairs, and of those that the last weak ranker ties
    """

    def __init__(self, layout: QueryLayout, context: Context):
        self._context, self._parts = context, _Chunks.of(layout)
        self._weights = np.empty(int(self._parts.start[-1]))
        self._columns = np.empty(int(self._parts.column_start[-1]))
        self._threads = threads_for("pairs", self._weights.size)
        self._row_sums = np.zeros(layout.n_used_rows)
        self._column_sums = np.zeros(layout.n_used_rows)
        self._run(
            _fill_weights, layout.weight, layout.loser_weight, 1 / layout.total, self._weights
        )
        self.multiply(np.zeros(layout.n_used_rows, np.uint8), 1.0, 1.0, 1.0)

    def multiply(self, values: Bytes, correct: float, wrong: float, tied: float) -> None:
        """Multiply the weights and update the sums."""
        parts, sums = self._parts, np.zeros((2, len(self._parts.chunks)))
        one = values.astype(np.float64)
        # Factor of a pair by the value of the winner (row) and the loser (column).
        by_loser = np.stack([np.where(values, wrong, tied), np.where(values, tied, correct)])
        self._run(
            _multiply_and_sum, parts.column_start, values, one, by_loser, self._weights,
            self._row_sums, self._columns, sums,
        )  # fmt: skip
        self._column_sums[:] = 0.0
        self._context.run(
            _add_chunk_columns, parts.first.size - 1, parts.first, parts.chunks,
            parts.column_start, self._columns, self._column_sums, threads=self._threads,
        )  # fmt: skip
        self.total, self.tied = exact_sums([*sums])

    def pull(self, total: float) -> Floats:
        """Return the pull of each row, divided by the total weight."""
        return (self._row_sums - self._column_sums) / total + 0.0

    def ties(self, weak_rankers: Sequence[Bytes]) -> list[float]:
        """Return the weight of the pairs that each of up to eight weak rankers ties."""
        one = np.zeros((self._row_sums.size, RANKERS_PER_PASS))
        for j, values in enumerate(weak_rankers):
            one[:, j] = values
        sums = np.zeros((RANKERS_PER_PASS, len(self._parts.chunks)))
        self._run(_tied_weights, one, self._weights, sums)
        return exact_sums([*sums[: len(weak_rankers)]])

    def sums_along(self, values: Bytes, table: Floats) -> Floats:
        """Return the sums of each chunk for `PairWeights.along`."""
        sums = np.zeros((2, len(self._parts.chunks)))
        self._run(_sums_along, values, table, self._weights, sums)
        return sums

    def _run(self, kernel: Callable[..., None], *arguments: object) -> None:
        """Run a kernel on all chunks."""
        parts = self._parts
        self._context.run(
            kernel, len(parts.chunks), parts.chunks, parts.losers, parts.start, *arguments,
            threads=self._threads,
        )  # fmt: skip


class _GpuWeights:
    """The same on a GPU; weights that are not `stored` are recomputed whenever they are needed."""

    def __init__(self, layout: QueryLayout, backend: Backend, *, stored: bool):
        self._backend, self._stored, self._n_rows = backend, stored, layout.n_used_rows
        parts, put = _Chunks.of(layout), backend.put
        pairs, columns = int(parts.start[-1]), int(parts.column_start[-1])
        needed = 8 * (columns + (pairs if stored else 0)) + 150 * self._n_rows
        backend.check_room(needed, f"the weights of {pairs:,} pairs")
        sizes = parts.start[parts.chunks[:, 2]] - parts.start[parts.chunks[:, 1]]
        self._order = put(np.argsort(-sizes, kind="stable"))  # the longest chunks start first
        self._n_chunks, self._chunks = len(parts.chunks), put(parts.chunks.ravel())
        self._first = put(parts.first)
        self._count, self._start = put(parts.losers), put(parts.start)
        self._query = put(layout.query_of_row())
        self._weights = backend.empty(pairs if stored else 1)
        self._columns, self._column_start = backend.empty(columns), put(parts.column_start)
        self._n_rounds, self._factors = 0, list[list[float]]()
        self._value_bits = backend.zeros(0, self._n_rows, dtype=np.uint64)
        self._factor_table = backend.zeros(4)
        self._row_weights = put(layout.weight), put(layout.loser_weight), 1 / layout.total
        self._row_sums, self._row_ones = backend.zeros(self._n_rows), backend.zeros(self._n_rows)
        no_values = backend.zeros(self._n_rows, dtype=np.uint8)
        self._update_sums(no_values, (1.0, 1.0, 1.0), 2 if stored else 0)

    def multiply(self, values: BackendArray, correct: float, wrong: float, tied: float) -> None:
        """Multiply the weights and update the sums."""
        if not self._stored:
            self._record_round(values, [tied, wrong, correct, tied])
        self._update_sums(values, (tied, wrong, correct), 3 if self._stored else 0)

    def _record_round(self, values: BackendArray, factors: list[float]) -> None:
        """Record the values and factors of this round."""
        word, bit = divmod(self._n_rounds, ROUNDS_PER_WORD)
        if not bit:
            grown = self._backend.zeros(word + 1, self._n_rows, dtype=np.uint64)
            grown[:word] = self._value_bits
            self._value_bits = grown
        self._backend.over_rows("store_bit", self._n_rows, bit, values, self._value_bits[word])
        self._factors.append(factors)
        self._factor_table = self._backend.put(np.array(self._factors).ravel())
        self._n_rounds += 1

    def _weight_source(self) -> tuple[object, ...]:
        """Return the kernel arguments from which weights are read or recomputed."""
        history = self._n_rounds, self._factor_table, self._value_bits, np.int64(self._n_rows)
        return (self._weights, *history, *self._row_weights)

    def _update_sums(
        self, values: BackendArray, factors: tuple[float, float, float], mode: int
    ) -> None:
        """Compute the sums; `mode` says whether weights are read (1) and written (2)."""
        backend, chunks = self._backend, self._n_chunks
        backend.launch(
            "multiply_and_sum", chunks, 256, self._order, self._chunks, self._column_start,
            self._count, self._start, values, *factors, mode, *self._weight_source(),
            self._row_sums, self._row_ones, self._columns,
        )  # fmt: skip
        sums, ties = backend.empty(2, chunks)
        backend.launch(
            "sum_chunks", -(-chunks // 64), 64, chunks, self._chunks, values, self._row_sums,
            self._row_ones, sums, ties,
        )  # fmt: skip
        self.total, self.tied = backend.exact_sums([sums, ties])

    def pull(self, total: float) -> BackendArray:
        """Return the pull of each row, divided by the total weight."""
        pull = self._backend.zeros(self._n_rows)
        self._backend.over_rows(
            "subtract_columns", self._n_rows, self._query, self._first, self._chunks,
            self._column_start, self._columns, self._row_sums, float(total), pull,
        )  # fmt: skip
        return pull

    def ties(self, weak_rankers: Sequence[BackendArray]) -> list[float]:
        """Return the weight of the pairs that each of up to eight weak rankers ties."""
        backend, chunks = self._backend, self._n_chunks
        bits = backend.empty(self._n_rows, dtype=np.uint64)
        for bit, values in enumerate(weak_rankers):
            backend.over_rows("store_bit", self._n_rows, bit, values, bits)
        by_winner = backend.empty(RANKERS_PER_PASS, self._n_rows)
        backend.launch(
            "tied_weights", chunks, 288, self._order, self._chunks, self._count, self._start, bits,
            int(self._stored), *self._weight_source(), by_winner,
        )  # fmt: skip
        sums = backend.zeros(RANKERS_PER_PASS, chunks)
        grid = -(-chunks // 64), RANKERS_PER_PASS
        backend.launch(
            "sum_tied_weights", grid, 64, chunks, self._chunks, np.int64(self._n_rows), by_winner,
            sums,
        )  # fmt: skip
        found = []
        for j in range(0, len(weak_rankers), 2):  # two at a time
            found += backend.exact_sums([sums[j], sums[j + 1]])
        return found[: len(weak_rankers)]


class _Chunks(NamedTuple):
    """Chunks of the pairs of different grades.

    Attributes
    ----------
    losers, start : number of losers below each row, and the start of its weights
    chunks : (first row of query, winners from, to, most losers) of each chunk
    first : first chunk of each query, and the end of the last
    column_start : start of the column sums of each chunk
    """

    losers: Integers
    start: Integers
    chunks: Integers
    first: Integers
    column_start: Integers

    @classmethod
    def of(cls, layout: QueryLayout) -> _Chunks:
        """Cut the queries of a layout into chunks."""
        level_start, query_start = layout.level_start, layout.query_start
        first_level = np.repeat(query_start[:-1], np.diff(query_start))
        below = level_start[:-1] - level_start[first_level]
        count = np.zeros(layout.n_used_rows, np.int64)
        count[: layout.n_graded] = np.repeat(below, np.diff(level_start))
        start = np.concatenate([[0], np.cumsum(count)])
        chunks, first = _cut_queries(layout, count, start)
        column_start = np.concatenate([[0], np.cumsum(chunks[:, 3])])
        return cls(count, start, chunks, first.astype(np.int64), column_start)


def _log_cosh(x: Floats) -> Floats:
    return np.logaddexp(x, -x) - np.log(2.0)


def _cut_queries(
    layout: QueryLayout, count: Integers, start: Integers
) -> tuple[Integers, Integers]:
    """Return the chunks of all queries, and the first chunk of each query; see `_Chunks`."""
    bottom, top = layout.query_rows[:-1], layout.query_rows[1:]
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
    low: int, high: int, chunks: Integers, count: Integers, start: Integers, column_start: Integers,
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
