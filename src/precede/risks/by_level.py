"""Exponential loss with price ``u^p``: risk, search by largest decrease and exact step, in O(n).

Sums over chunks, threads or machines are sums of integers (see `precede.engine.exact`), so results
do not depend on their order or number. On a GPU a warp processes a chunk of a level, and a thread
the levels of a query; sums over levels are taken in the order of the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from precede.engine.arrays import Array, BackendArray, Bytes, Floats, Integers
from precede.engine.backend import CPU, Backend
from precede.engine.compiling import INLINED, INNER, njit
from precede.engine.exact import (
    all_reduce_all,
    all_reduce_max,
    all_reduce_sum,
    exact_sum,
    exact_sums,
    from_fixed_point,
    log_sum_exp,
    sums_at,
)
from precede.engine.execution import Context, threads_for
from precede.engine.portable import (
    exp,
    exp_array,
    expm1_of,
    fmax,
    fmin,
    log,
    log_array,
    log_of,
    portable_exp,
    portable_log,
    portable_log1p,
)
from precede.engine.pull import Factors, decreases
from precede.engine.query_layout import QueryLayout
from precede.losses import PairLoss, Price, Separable
from precede.risks.base import BoundLossRisk, EdgeWeights, LossShape, State, cut_into_chunks
from precede.risks.line_search import bound_step, line_search, smoothed_step

# Rows of a chunk; small enough for one query of a million rows to keep all threads busy.
MAX_ROWS_PER_CHUNK = 1 << 15
# Rows whose terms are computed and summed together, so that they stay in the CPU cache.
ROWS_PER_BATCH = 4096
# On a GPU: rows of a chunk, levels of a query (one thread goes through them), warps of a block of
# threads, and memory.
GPU_CHUNK_ROWS, MAX_LEVELS_PER_QUERY, WARPS_PER_BLOCK = 512, 1024, 8
BYTES_PER_ROW, BYTES_PER_LEVEL = 64, 160
# Sums are stored in multiples of 2^-62 of the largest term of a level. If the correct or the wrong
# pairs weigh less than this, few digits are left and the line search evaluates the rows.
MIN_WEIGHT = 2.0**-20
MAX_ITERATIONS = 200  # of the Newton search of `PushLine`


@dataclass(frozen=True)
class SeparableCache:
    """Intermediate sums of `SeparableRisk` at some scores, kept in its `State`.

    Attributes
    ----------
    terms : array of shape (2, n_graded)
        ``weight·exp(-s)`` (row 0, as winner) and ``weight·exp(p·s)`` (row 1, as loser), each
        divided by the largest term of its level.
    levels : array of shape (6, n_levels)
        ::

            0  winner_sum     sum of the winner terms of the level
            1  loser_sum      sum of the loser terms of the level
            2  winner_weight  share of the gradient sum: pairs whose winner is in the level
            3  loser_weight   share of the gradient sum: pairs whose loser is in the level
            4  old_share      share of the levels below l - 1 among the losers below level l
            5  new_share      share of level l - 1 among the losers below level l

        A weighted mean x over the losers below level l is updated level by level by
        ``x(l) = old_share[l]·x(l - 1) + new_share[l]·(mean over level l - 1)``.
    words : array of shape (n_levels, 4)
        Rows 0 and 1 of `levels` as high and low integer words; see `precede.engine.exact`.
    pair_mass : share of the gradient sum of each explicit pair
    extremes : array of shape (2, n_levels)
        Least ``s - log(weight)`` and greatest ``p·s + log(weight)`` of each level, which the
        terms are relative to.
    """

    terms: BackendArray
    levels: BackendArray
    words: BackendArray
    pair_mass: Floats
    extremes: BackendArray


class SeparableRisk(BoundLossRisk):
    """Exponential loss with price ``u^p``, in O(n) time.

    Inside a query let ``a_i = exp(-s_i)`` and ``b_k = exp(s_k)``. With ``A(l)`` the sum of a
    over the grades above level l, a loser k of level l has the loss sum ``u_k = b_k A(l)``, so

        R = sum_l A(l)^p · sum_{k in l} b_k^p.

    The gradients of winners and losers follow from the same sums by level. With `mean` a loser of
    level l has the additional weight ``n(l)^(1-p)``. Explicit pairs are added one by one, for p = 1
    only: other prices apply to the sum of graded and explicit pairs, see `TwoPassRisk`.
    """

    def __init__(
        self, layout: QueryLayout, loss: PairLoss, cost: Price, context: Context | None = None,
        *, mean: bool = False,
    ):  # fmt: skip
        super().__init__(layout, loss, cost, context, mean=mean)
        if not isinstance(loss.form, Separable) or cost.power is None:
            raise ValueError("SeparableRisk needs a separable loss and a power as price")
        self.rate = loss.form.rate
        self.power = cost.power
        self.loss_shape = replace(LossShape.of(loss), growth=self.power * self.rate)
        self.sums = LevelSums(layout, self.rate, self.power, self._log_balance(), self.context)
        if self.context.backend.is_gpu and GpuLevelSums.has_kernels(layout, self.context):
            self.backend = self.context.backend
            self._gpu_sums = GpuLevelSums(self.sums, self.backend)

    def _log_balance(self) -> Floats:
        """Return the log of loser weight over item weight by level, less the divisor of `mean`."""
        layout = self.layout
        log_balance = np.zeros(int(layout.query_start[-1]))
        if layout.queries_span_machines:  # only an unbalanced query is shared by machines
            return log_balance
        first = layout.level_start[:-1]
        of_query = first[layout.query_start[:-1]]
        factor = layout.loser_weight[of_query] / layout.weight[of_query]
        if (factor != 1).any():  # else avoid compiling the logarithm
            log_balance = np.repeat(log(factor), np.diff(layout.query_start))
        if self.mean:
            log_balance += (1.0 - self.power) * self.log_divisors()[first]
        return log_balance

    def _sums_at(self, scores: BackendArray) -> LevelSums | GpuLevelSums:
        """Return the sums of the backend that holds the scores."""
        return self._gpu_sums if self._backend_of(scores).is_gpu else self.sums

    def state(self, scores: BackendArray) -> State:
        """Return risk and pull at these scores, in two passes over the rows."""
        sums = self._sums_at(scores)
        cache, log_risk = sums.compute(scores)
        pull = sums.pulls(cache)
        log_value = float(sums.backend.get(log_risk))
        log_gradient_sum = log_value + log_of(self.power * self.rate)
        return State(scores, log_value, log_gradient_sum, pull, cache)

    def log_value(self, scores: BackendArray) -> float:
        """Return the logarithm of the risk, without computing the pull."""
        sums = self._sums_at(scores)
        return float(sums.backend.get(sums.compute(scores)[1]))

    def curvature(self, state: State) -> BackendArray:
        """Return the diagonal of the Hessian over the gradient sum, in O(n).

        It is ``p`` times the gradients of the pairs that a row loses, plus those of the pairs it
        wins, plus, because the price is curved,
        ``p (p - 1) a_i² sum_{l below} A(l)^(p-2) sum_{k in l} b_k^p``.
        """
        sums = self._sums_at(state.scores)
        return sums.hessian(state.cache, self.power, state.log_value)

    def _half_curvature_bound(self, state: State) -> BackendArray:
        """Return ``p`` times the pair gradients of each row: ``G'' S`` is ``(p - 1) G'``."""
        return self.power * self._sums_at(state.scores).hessian(state.cache, 1.0)

    def edge_weights(self, state: State, values: BackendArray) -> EdgeWeights:
        """Return the weights of the pairs ordered correctly, wrongly or tied, in O(n)."""
        sums, cache = self._sums_at(state.scores), state.cache
        parts = sums.ordered_weights(cache, sums.sums_of_ones(cache, values), values)
        correct, wrong = exact_sums(parts, self.sums.query_context, few=True)
        return EdgeWeights(correct, wrong, max(0.0, 1.0 - correct - wrong))

    def factors(self, state: State, *, bound: bool = False) -> Factors | None:
        """Return the sums for a search by largest decrease; None for p other than 1."""
        if self.power != 1:
            return None
        layout, cache = self.layout, state.cache
        return Factors(
            layout.level_start, layout.query_start, cache.terms, cache.levels,
            np.stack([layout.winner, layout.loser]), cache.pair_mass, self.terms.smoothing, bound,
            lambda values: self._decrease(state, values, bound),
        )  # fmt: skip

    def _decrease(self, state: State, values: Array, bound: bool) -> tuple[float, float]:
        """Return the edge of a weak ranker and the relative decrease of the risk by its step."""
        smoothing = self.terms.smoothing
        if values.dtype == np.uint8:
            weights = self.edge_weights(state, values)
            share = decreases(weights.correct, weights.wrong, smoothing, bound=bound)
            return weights.edge, float(share)
        edge = self.edge(state, values)
        if edge == 0:
            return 0.0, 0.0
        if bound:  # values are from 0 to 1, so edges beyond 1 are rounding
            step, _ = bound_step(min(max(edge, -1.0), 1.0), smoothing)
        else:
            step, _ = line_search(self, state, values)
        log_value = self.log_value(state.scores + step * values)
        return edge, -expm1_of(log_value - state.log_value)

    def exact_step(self, state: State, values: BackendArray) -> tuple[float, bool] | None:
        """Return the exact step for values 0 and 1, by a closed form or from sums by level."""
        if values.dtype != np.uint8:
            return None
        edge_weights = self.edge_weights(state, values)
        correct, wrong = edge_weights.correct, edge_weights.wrong
        if self.power > 1:
            if min(correct, wrong) < MIN_WEIGHT:
                return None
            sums, cache = self._sums_at(state.scores), state.cache
            arrays = cache.words, cache.extremes, sums.sums_of_ones(cache, values)
            log_sums = log_sums_by_value(self.sums, *map(self.backend.get, arrays))
            return PushLine(self.sums, log_sums, self.n_queries).argmin(), False
        if min(correct, wrong) > 0:
            return log_of(correct / wrong) / (1 + self.power) / self.rate, False
        return smoothed_step(self, state, correct, wrong), True


class LevelSums:
    """Sums over the rows of each level, on the threads of a context."""

    backend: Backend = CPU

    def __init__(
        self, layout: QueryLayout, rate: float, power: float, log_balance: Floats, context: Context
    ):
        self.layout, self.rate, self.power, self.context = layout, rate, power, context
        self.log_balance = log_balance
        self.chunks = LevelChunks.cut(layout)
        self.threads = threads_for("exponentials", layout.n_graded)
        weight = layout.weight[: layout.n_graded]
        # Weights are added to the exponents, so that a light item with a large term keeps its
        # digits next to a heavy item with a small one.
        unweighted = all_reduce_all(lambda: bool((weight == 1.0).all()), self.context)
        self.log_weight = np.zeros(0) if unweighted else log(weight)
        levels = np.diff(layout.query_start)
        self.query_of_level = np.repeat(np.arange(levels.size), levels)
        # Sums over queries are all-reduced, unless all machines share one query: its sums by
        # level have been all-reduced already.
        self.query_context = None if layout.queries_span_machines else self.context
        pair_weight = layout.pair_weight * layout.weight[layout.winner]
        self._log_pair = log(pair_weight * layout.loser_weight[layout.loser])

    def compute(self, scores: Floats) -> tuple[SeparableCache, float]:
        """Return the sums and the logarithm of the risk."""
        scores = scores if self.rate == 1 else self.rate * scores
        chunks, run, power = self.chunks, self.context.run, self.power
        chunk_extremes = np.zeros((chunks.count, 2))
        log_weight = self.log_weight if self.log_weight.size else None
        run(
            _chunk_extremes, chunks.count, chunks.start, scores, power, chunk_extremes, log_weight,
            threads=self.threads,
        )  # fmt: skip
        extremes = self.max_over_chunks(chunk_extremes)
        low, high = -extremes[:, 0], np.ascontiguousarray(extremes[:, 1])
        terms = np.empty((2, self.layout.n_graded))
        words = np.zeros((chunks.count, 4), np.int64)
        run(
            _chunk_terms, chunks.count, chunks.start, chunks.level, scores, self.log_weight,
            power, low, high, terms, words, threads=self.threads,
        )  # fmt: skip
        words = self.sum_over_chunks(words)
        queries = self.layout.n_queries
        levels = np.zeros((6, low.size))
        log_query = np.zeros(queries)
        run(
            _fill_levels_of_queries, queries, self.layout.query_start, words, low, high, power,
            self.log_balance, levels, np.empty(low.size), log_query, threads=self.threads,
        )  # fmt: skip
        log_all, log_pair = log_query, self._log_pair
        if log_pair.size:
            log_pair = log_pair - (scores[self.layout.winner] - scores[self.layout.loser])
            log_all = np.append(log_query, log_pair)
        log_value = log_sum_exp(log_all, self.query_context)
        levels[2:4] *= exp(log_query - log_value)[self.query_of_level]
        extremes = np.stack([low, high])
        cache = SeparableCache(terms, levels, words, exp(log_pair - log_value), extremes)
        return cache, log_value

    def pulls(self, cache: SeparableCache) -> Floats:
        """Return the pull of each row."""
        layout, chunks = self.layout, self.chunks
        pull = np.empty(layout.n_used_rows)
        pull[layout.n_graded :] = 0.0
        self.context.run(
            _chunk_pulls, chunks.count, chunks.start, chunks.level, cache.terms, cache.levels,
            pull, threads=self.threads,
        )  # fmt: skip
        if cache.pair_mass.size:
            pull += layout.sum_explicit_shares(cache.pair_mass)
        return pull

    def hessian(
        self, cache: SeparableCache, loser_factor: float, log_value: float | None = None
    ) -> Floats:
        """Return the gradient of each row as winner, plus `loser_factor` times that as loser.

        Given the logarithm of the risk, the curvature of the price is added.
        """
        chunks, layout = self.chunks, self.layout
        price_curvature = np.zeros(cache.levels.shape[1])
        if self.power != 1 and log_value is not None:
            self.context.run(
                _price_curvatures_of_queries, layout.n_queries, layout.query_start, cache.levels,
                *cache.extremes, self.power, self.log_balance, log_value, price_curvature,
                threads=self.threads,
            )  # fmt: skip
        hessian = np.zeros(layout.n_used_rows)
        self.context.run(
            _chunk_hessians, chunks.count, chunks.start, chunks.level, cache.terms, cache.levels,
            price_curvature, loser_factor, hessian, threads=self.threads,
        )  # fmt: skip
        for side in (layout.winner, layout.loser):
            hessian += sums_at(side, cache.pair_mass, hessian.size)
        return self.rate * hessian

    def sums_of_ones(self, cache: SeparableCache, values: Bytes) -> Integers:
        """Return the sums by level, as integer words, of the terms of rows with value 1."""
        chunks = self.chunks
        words = np.zeros((chunks.count, 4), np.int64)
        self.context.run(
            _sum_chunk_terms, chunks.count, chunks.start, cache.terms, values, words,
            threads=self.threads,
        )  # fmt: skip
        return self.sum_over_chunks(words)

    def ordered_weights(
        self, cache: SeparableCache, ones: Integers, values: Bytes
    ) -> tuple[Floats, Floats]:
        """Return weights whose sums are those of the pairs ordered correctly and wrongly.

        `ones` is the result of `sums_of_ones` for these values.
        """
        queries = self.layout.n_queries
        correct, wrong = np.zeros(queries), np.zeros(queries)
        self.context.run(
            _ordered_weights_of_queries, queries, self.layout.query_start, ones,
            cache.words - ones, cache.levels, correct, wrong, threads=self.threads,
        )  # fmt: skip
        if cache.pair_mass.size:
            order = values[self.layout.winner].astype(np.int8) - values[self.layout.loser]
            correct = np.append(correct, cache.pair_mass[order > 0])
            wrong = np.append(wrong, cache.pair_mass[order < 0])
        return correct, wrong

    def sum_over_chunks(self, by_chunk: Integers) -> Integers:
        """Sum integers over the chunks of each level, on all machines."""
        sums = self.chunks.by_level(np.add, by_chunk, 0)
        if not self.layout.queries_span_machines:
            return sums
        return np.asarray(all_reduce_sum(lambda: sums, self.context))

    def max_over_chunks(self, by_chunk: Floats) -> Floats:
        """Return the maximum over the chunks of each level, on all machines."""
        maxima = self.chunks.by_level(np.maximum, by_chunk, -np.inf)
        if not self.layout.queries_span_machines:
            return maxima
        return np.asarray(all_reduce_max(lambda: maxima, self.context))


class GpuLevelSums:
    """The same sums on a GPU, of the same bits; without explicit pairs."""

    def __init__(self, sums: LevelSums, backend: Backend):
        layout, put = sums.layout, backend.put
        self.backend, self.rate, self.power = backend, float(sums.rate), float(sums.power)
        self._rows, self._levels = layout.n_used_rows, sums.query_of_level.size
        self._queries = layout.n_queries
        needed = BYTES_PER_ROW * self._rows + BYTES_PER_LEVEL * self._levels
        backend.check_room(needed, "the pulls of all rows")
        chunks = LevelChunks.cut(layout, GPU_CHUNK_ROWS)
        self._chunks = chunks.count, put(chunks.start), put(chunks.level)
        self._query_start, self._query_of_level = put(layout.query_start), put(sums.query_of_level)
        self._balance = put(sums.log_balance)
        self._is_weighted = int(sums.log_weight.size > 0)
        self._log_weight = put(sums.log_weight if self._is_weighted else np.zeros(1))

    @staticmethod
    def has_kernels(layout: QueryLayout, context: Context) -> bool:
        """Return whether the levels of a layout can be summed on the GPU of the context."""
        levels = int(np.diff(layout.query_start).max(initial=0))
        split = context.is_distributed or layout.queries_span_machines
        return not split and not layout.has_explicit_pairs and levels <= MAX_LEVELS_PER_QUERY

    def _over_chunks(self, kernel: str, *arguments: object) -> None:
        blocks = -(-self._chunks[0] // WARPS_PER_BLOCK)
        self.backend.launch(kernel, blocks, 32 * WARPS_PER_BLOCK, *self._chunks, *arguments)

    def _over_queries(self, kernel: str, *arguments: object) -> None:
        arguments = self._queries, self._query_start, *arguments
        self.backend.launch(kernel, -(-self._queries // 64), 64, *arguments)

    def compute(self, scores: BackendArray) -> tuple[SeparableCache, BackendArray]:
        """Return the sums and the logarithm of the risk."""
        backend, empty, levels = self.backend, self.backend.empty, self._levels
        extremes = backend.zeros(levels, 2, dtype=np.uint64)
        words = backend.zeros(levels, 4, dtype=np.int64)
        terms, by_level = empty(2, self._rows), empty(6, levels)
        log_query, log_value = empty(self._queries), empty(1)
        inputs = (
            self.rate, self.power, self._is_weighted, scores, self._log_weight, extremes
        )  # fmt: skip
        self._over_chunks("level_extremes", *inputs)
        self._over_chunks("level_terms", *inputs, np.int64(self._rows), terms, words)
        level_extremes = empty(2, levels)
        self._over_queries(
            "fill_levels", words, extremes, self.power, self._balance, np.int64(levels), by_level,
            level_extremes, log_query,
        )  # fmt: skip
        backend.launch("log_sum_exp", 1, 1024, self._queries, log_query, log_value)
        backend.over_rows(
            "scale_levels", levels, self._query_of_level, log_query, log_value, by_level
        )
        cache = SeparableCache(terms, by_level, words, np.zeros(0), level_extremes)
        return cache, log_value.reshape(())

    def pulls(self, cache: SeparableCache) -> BackendArray:
        """Return the pull of each row."""
        pull = self.backend.empty(self._rows)
        sizes = np.int64(self._levels), np.int64(self._rows)
        self._over_chunks("level_pulls", sizes[0], cache.levels, sizes[1], cache.terms, pull)
        return pull

    def hessian(
        self, cache: SeparableCache, loser_factor: float, log_value: float | None = None
    ) -> BackendArray:
        """Return the gradient of each row as winner, plus `loser_factor` times that as loser."""
        levels = np.int64(self._levels)
        price_curvature = self.backend.zeros(self._levels)
        if self.power != 1 and log_value is not None:
            self._over_queries(
                "price_curvatures", levels, cache.levels, cache.extremes, self.power,
                self._balance, float(log_value), self.backend.zeros(self._levels), price_curvature,
            )  # fmt: skip
        hessian = self.backend.empty(self._rows)
        self._over_chunks(
            "level_hessians", levels, cache.levels, np.int64(self._rows), cache.terms,
            price_curvature, float(loser_factor), self.rate, hessian,
        )  # fmt: skip
        return hessian

    def sums_of_ones(self, cache: SeparableCache, values: BackendArray) -> BackendArray:
        """Return the sums by level, as integer words, of the terms of rows with value 1."""
        ones = self.backend.zeros(self._levels, 4, dtype=np.int64)
        values = self.backend.put(values)
        self._over_chunks("sum_ones", np.int64(self._rows), cache.terms, values, ones)
        return ones

    def ordered_weights(
        self, cache: SeparableCache, ones: BackendArray, values: BackendArray  # noqa: ARG002
    ) -> Sequence[BackendArray]:  # fmt: skip
        """Return weights whose sums are those of the pairs ordered correctly and wrongly."""
        correct, wrong = self.backend.empty(2, self._queries)
        levels = np.int64(self._levels)
        self._over_queries(
            "ordered_weights", ones, cache.words, levels, cache.levels, correct, wrong
        )
        return correct, wrong


class LogLevelSums:
    """Logarithmic sums over pairs for the exponential loss: a sum by level, cumulated by query."""

    def __init__(self, layout: QueryLayout, form: Separable):
        self._layout = layout
        self._form = form

    def sums(
        self, scores: Floats, log_source: Floats, kernels: Sequence[str], *, winners: bool
    ) -> list[Floats]:
        """Return the logarithms of the sums of each kernel by row, given those of the sources."""
        layout = self._layout
        sign = -1.0 if winners else 1.0
        results = []
        for name in kernels:
            rate, constant = exponent(self._form, name)
            by_row = _log_sums_by_row(
                log_source + sign * rate * scores,
                layout.level_start,
                layout.query_start,
                winners,
            )
            results.append(by_row - sign * rate * scores + constant)
        return results


def exponent(form: Separable, name: str) -> tuple[float, float]:
    """Return rate and logarithmic constant of a kernel of ``exp(-rate·m)``."""
    if name == "square":
        return 2 * form.rate, 2 * np.log(form.rate)
    order = {"value": 0, "slope": 1, "curvature": 2}[name]
    return form.rate, order * np.log(form.rate)


@dataclass(frozen=True)
class LevelChunks:
    """Levels cut into chunks of rows, for parallel work.

    Attributes
    ----------
    start : first row of each chunk, and the end of the last
    level : level of each chunk
    first : first chunk of each level, and the end of the last
    single : whether each level is one chunk
    """

    start: Integers
    level: Integers
    first: Integers
    single: bool

    @property
    def count(self) -> int:
        """Number of chunks."""
        return int(self.level.size)

    @classmethod
    def cut(cls, layout: QueryLayout, size: int | None = None) -> LevelChunks:
        """Cut the levels of a layout into chunks of at most `size` rows."""
        size = size or MAX_ROWS_PER_CHUNK
        bounds = layout.level_start
        start, _, level = cut_into_chunks(bounds[:-1], bounds[1:], size)
        first = np.searchsorted(level, np.arange(bounds.size))
        single = bool((np.diff(first) == 1).all())
        return cls(np.append(start, layout.n_graded), level, first, single)

    def by_level(self, combine: np.ufunc, by_chunk: Array, empty: float) -> Array:
        """Reduce the rows of an array over the chunks of each level; `empty` if it has none."""
        if self.single:
            return by_chunk
        size = np.diff(self.first)
        result = np.full((size.size, by_chunk.shape[1]), empty, by_chunk.dtype)
        if self.count:
            result[size > 0] = combine.reduceat(by_chunk, self.first[:-1][size > 0], axis=0)
        return result


class PushLine:
    """The risk along a weak ranker h with values 0 and 1, as a function of the step.

    h splits the winner sum ``A = sum exp(-s_i)`` and the loser sum ``B = sum exp(p s_k)`` of each
    level into the sums A0, A1, B0, B1 over the rows where h is 0 and 1. Along the line the risk is

        F(step) = sum_l (A0(above l) + A1(above l) exp(-step))^p (B0(l) + B1(l) exp(p step)).

    With two classes and one query the minimum is at ``log(A1 B0 / (A0 B1)) / (p + 1)``; otherwise
    Newton's method inside a bracket finds the minimum of log F, which is convex.

    Parameters
    ----------
    sums : LevelSums of a risk without explicit pairs
    log_sums : array of shape (4, n_levels)
        Logarithms of A0, A1, B0 and B1 by level.
    n_queries : number of queries on all machines

    Notes
    -----
    O(levels) per step. Results do not depend on the order of rows or queries.
    """

    def __init__(self, sums: LevelSums, log_sums: Floats, n_queries: int):
        self._sums, self._log_sums = sums, log_sums
        self._query_start = sums.layout.query_start
        self._has_two_levels = n_queries == 1 and self._query_start[-1] == 2
        # Logarithms of A0 and A1 summed over the levels above each level.
        self._above = np.full((2, self._log_sums.shape[1]), -np.inf)
        sums.context.run(
            _sums_above, self._query_start.size - 1, self._query_start, self._log_sums, self._above,
            threads=sums.threads,
        )  # fmt: skip

    def argmin(self) -> float:
        """Return the step that minimizes the risk."""
        if self._has_two_levels:
            # Level 0 holds the losers, level 1 the winners.
            (lose0, lose1), (win0, win1) = self._log_sums[2:, 0], self._log_sums[:2, 1]
            step = float(win1 + lose0 - win0 - lose1) / (self._sums.power + 1)
        else:
            step = self._search()
        return step / self._sums.rate

    def _search(self) -> float:
        """Minimize log F by Newton's method inside a shrinking bracket."""
        low, high, step = -np.inf, np.inf, 0.0
        for _ in range(MAX_ITERATIONS):
            slope, curvature = self._derivatives(step)
            if slope == 0:
                break
            if slope < 0:
                low = step
            else:
                high = step
            new_step = step - slope / curvature if curvature > 0 else np.inf * -slope
            # Limit the change: where log F is nearly flat, Newton's step would be far too long.
            max_change = 8.0 / self._sums.power
            new_step = min(max(new_step, step - max_change), step + max_change)
            if not low < new_step < high:
                new_step = 0.5 * (low + high)
            if abs(new_step - step) <= 4e-16 * max(1e-3, abs(step)) or new_step in (low, high):
                break
            step = new_step
        return step

    def _derivatives(self, step: float) -> tuple[float, float]:
        """Return the first and second derivative of ``log F / p`` at a step."""
        power = self._sums.power
        levels = self._log_sums.shape[1]
        log_term, slope, curvature = np.full(levels, -np.inf), np.zeros(levels), np.zeros(levels)
        self._sums.context.run(
            _log_terms_and_derivatives, levels, self._log_sums, self._above, step,
            float(power), log_term, slope, curvature, threads=self._sums.threads,
        )  # fmt: skip
        share = exp(log_term - all_reduce_max(log_term.max, self._sums.query_context))
        total, slope_sum = exact_sums([share, share * slope], self._sums.query_context)
        mean = slope_sum / total
        total_curvature = exact_sum(
            share * (curvature + power * (slope - mean) ** 2), self._sums.query_context
        )
        return mean, total_curvature / total


def log_sums_by_value(sums: LevelSums, words: Integers, extremes: Floats, ones: Integers) -> Floats:
    """Return the logarithms of A0, A1, B0, B1 (rows) by level, from the sums of a state.

    `ones` are the sums over the rows where h is 1, as integer words.
    """
    logs = np.empty((4, extremes.shape[1]))
    for row, part in enumerate((words - ones, ones)):
        logs[[row, row + 2]] = log(from_fixed_point((part[:, 0::2], part[:, 1::2])).T)
    logs[:2] -= extremes[0]
    logs[2:] += extremes[1] + sums.log_balance
    return logs


# -- kernels ---------------------------------------------------------------------------------
#
# Sums of numbers in [-1, 1] are stored as a high and a low word, in multiples of 2^-31 and of
# 2^-62; see `precede.engine.exact`.


@njit(cache=True, nogil=True)
def _chunk_extremes(
    low: int, high: int, start: Integers, scores: Floats, power: float, extremes: Floats,
    log_weight: Floats | None,
) -> None:  # fmt: skip
    """Compute the greatest log(weight·exp(-s)) and log(weight·exp(p·s)) of each chunk."""
    for chunk in range(low, high):
        least, most = np.inf, -np.inf
        for row in range(start[chunk], start[chunk + 1]):
            if log_weight is None:
                least = fmin(least, scores[row])
                most = fmax(most, power * scores[row])
            else:
                least = fmin(least, scores[row] - log_weight[row])
                most = fmax(most, power * scores[row] + log_weight[row])
        extremes[chunk, 0] = -least
        extremes[chunk, 1] = most


@njit(cache=True, nogil=True, error_model="numpy")
def _chunk_terms(
    first: int, last: int, start: Integers, level: Integers, scores: Floats, log_weight: Floats,
    power: float, low: Floats, high: Floats, terms: Floats, words: Integers,
) -> None:  # fmt: skip
    """Compute the terms of the chunks first..last and their sums, in cache-sized batches."""
    weighted = log_weight.size > 0
    while first < last:
        stop = first + 1
        while stop < last and start[stop + 1] - start[first] <= ROWS_PER_BATCH:
            stop += 1
        begin, end = start[first], start[stop]
        for chunk in range(first, stop):
            least, most = low[level[chunk]], high[level[chunk]]
            for row in range(start[chunk], start[chunk + 1]):
                terms[0, row] = least - scores[row]
                terms[1, row] = power * scores[row] - most
        if weighted:
            for row in range(begin, end):
                terms[0, row] += log_weight[row]
                terms[1, row] += log_weight[row]
        exp_array(terms[0, begin:end])
        if power == 1.0 and not weighted:
            _divide_for_loser_terms(first, stop, start, level, low, high, terms)
        else:
            exp_array(terms[1, begin:end])
        _sum_chunk_terms(first, stop, start, terms, None, words)
        first = stop


@njit(**INLINED, error_model="numpy")
def _divide_for_loser_terms(
    first: int, last: int, start: Integers, level: Integers, low: Floats, high: Floats,
    terms: Floats,
) -> None:  # fmt: skip
    """Compute loser terms from winner terms, whose product is constant within a level.

    This saves half of the exponentials, unless the product is too small to divide by. The choice
    depends on the level alone, not on how it is cut into chunks.
    """
    for chunk in range(first, last):
        begin, end = start[chunk], start[chunk + 1]
        product = portable_exp(low[level[chunk]] - high[level[chunk]])
        if product > 1e-280:
            for row in range(begin, end):
                terms[1, row] = fmin(product / terms[0, row], 1.0)
        else:
            exp_array(terms[1, begin:end])


@njit(cache=True, nogil=True)
def _sum_chunk_terms(
    first: int, last: int, start: Integers, terms: Floats, values: Bytes | None, words: Integers
) -> None:
    """Sum winner and loser terms, of rows with value 1 if there are values, into integer words.

    Adding and subtracting 1.5·2^21 rounds a term to a multiple of 2^-31; adding and subtracting
    1.5·2^-10 rounds the remainder to a multiple of 2^-62. Sums of up to 2^21 such multiples are
    exact, so their order does not matter. Twice as fast as converting each term to integers.
    """
    for chunk in range(first, last):
        winner_sum, winner_rest, loser_sum, loser_rest = 0.0, 0.0, 0.0, 0.0
        for row in range(start[chunk], start[chunk + 1]):
            win, lose = terms[0, row], terms[1, row]
            if values is not None:
                win, lose = win * values[row], lose * values[row]
            win_coarse, lose_coarse = (win + 3145728.0) - 3145728.0, (lose + 3145728.0) - 3145728.0
            winner_sum += win_coarse
            winner_rest += ((win - win_coarse) + 0.00146484375) - 0.00146484375
            loser_sum += lose_coarse
            loser_rest += ((lose - lose_coarse) + 0.00146484375) - 0.00146484375
        words[chunk, 0], words[chunk, 1] = (
            np.int64(winner_sum * 2.0**31),
            np.int64(winner_rest * 2.0**62),
        )
        words[chunk, 2], words[chunk, 3] = (
            np.int64(loser_sum * 2.0**31),
            np.int64(loser_rest * 2.0**62),
        )


@njit(**INLINED)
def _words_to_float(words: Integers, level: int, column: int) -> float:
    return words[level, column] * 2.0**-31 + words[level, column + 1] * 2.0**-62


@njit(**INNER)
def _logaddexp(a: float, b: float) -> float:
    if a < b:
        a, b = b, a
    if b == -np.inf:
        return a
    return a + portable_log1p(portable_exp(b - a))


@njit(cache=True, nogil=True, error_model="numpy")
def _fill_levels_of_queries(
    begin: int, end: int, query_start: Integers, words: Integers, low: Floats, high: Floats,
    power: float, log_balance: Floats, by_level: Floats, log_winners: Floats, log_query: Floats,
) -> None:  # fmt: skip
    """Fill `by_level` (see `SeparableCache.levels`), with rows 2 and 3 relative to the query.

    The logarithm of each query's risk is written to `log_query`. Logarithms are taken before the
    loop over queries and exponentials after it, in loops that vectorize. `log_winners` is a
    scratch array with one entry per level.
    """
    first, last = query_start[begin], query_start[end]
    log_winner = log_winners[first:last]
    for level in range(first, last):
        by_level[0, level] = _words_to_float(words, level, 0)
        by_level[1, level] = _words_to_float(words, level, 2)
    log_array(by_level[0, first:last], log_winner)
    log_array(by_level[1, first:last], by_level[4, first:last])
    for level in range(first, last):
        log_winner[level - first] -= low[level]
        by_level[3, level] = 0.0
    for query in range(begin, end):
        bottom, top = query_start[query], query_start[query + 1]
        log_query[query] = _fill_levels_of_query(
            bottom, top, log_winner[bottom - first : top - first], high, power, log_balance,
            by_level,
        )  # fmt: skip
    for row in range(2, 6):
        exp_array(by_level[row, first:last])


@njit(**INLINED)
def _fill_levels_of_query(
    bottom: int, top: int, log_winner: Floats, high: Floats, power: float, log_balance: Floats,
    by_level: Floats,
) -> float:  # fmt: skip
    """Write the logarithms of rows 2 to 5 of `by_level`; return the logarithm of the risk.

    On entry row 4 holds the logarithms of the loser sums.
    """
    above = -np.inf  # log sum of the winner terms above
    if power != 1.0:
        for level in range(top - 1, bottom - 1, -1):
            by_level[3, level] = above
            above = _logaddexp(above, log_winner[level - bottom])
    below, total = -np.inf, -np.inf  # log sums: losers below times price slope; all pairs
    log_old_share, log_new_share = -np.inf, -np.inf
    for level in range(bottom, top):
        log_loser = by_level[4, level] + high[level] + log_balance[level]
        by_level[4, level], by_level[5, level] = log_old_share, log_new_share
        by_level[2, level] = log_winner[level - bottom] + below
        total = _logaddexp(total, by_level[2, level])
        log_weighted_loser = log_loser
        if power == 1.0:
            # Sum upwards and downwards in one loop: the two sums are independent.
            mirror = top - 1 - (level - bottom)
            by_level[3, mirror] += above
            by_level[3, level] += log_loser
            if level < top - 1:
                above = _logaddexp(above, log_winner[mirror - bottom])
        else:
            log_weighted_loser += (power - 1.0) * by_level[3, level]
            by_level[3, level] = power * by_level[3, level] + log_loser
        if level < top - 1:
            merged = _logaddexp(below, log_weighted_loser)
            log_old_share, log_new_share = below - merged, log_weighted_loser - merged
            below = merged
    for level in range(bottom, top):
        by_level[2, level] -= total
        by_level[3, level] -= total
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _chunk_pulls(
    first: int, last: int, start: Integers, level: Integers, terms: Floats, levels: Floats,
    pull: Floats,
) -> None:  # fmt: skip
    for chunk in range(first, last):
        at = level[chunk]
        winner_factor, loser_factor = levels[2, at] / levels[0, at], levels[3, at] / levels[1, at]
        for row in range(start[chunk], start[chunk + 1]):
            pull[row] = terms[0, row] * winner_factor - terms[1, row] * loser_factor


@njit(cache=True, nogil=True)
def _price_curvatures_of_queries(
    begin: int, end: int, query_start: Integers, by_level: Floats, low: Floats, high: Floats,
    power: float, log_balance: Floats, log_value: float, price_curvature: Floats,
) -> None:  # fmt: skip
    """Compute ``(p - 1) a² C / R`` of each level, the contribution of the curved price.

    a is the winner sum of the level and C the sum over the losers below, see
    `SeparableRisk.curvature`. At most p - 1, because a level is only part of ``A(l)``.
    """
    for query in range(begin, end):
        bottom, top = query_start[query], query_start[query + 1]
        above = np.full(top - bottom + 1, -np.inf)  # log sum of the winner terms above
        for j in range(top - bottom - 1, -1, -1):
            log_winner = portable_log(by_level[0, bottom + j]) - low[bottom + j]
            above[j] = _logaddexp(above[j + 1], log_winner)
        below = -np.inf
        for j in range(top - bottom):
            level = bottom + j
            log_winner = portable_log(by_level[0, level]) - low[level]
            price_curvature[level] = (power - 1.0) * portable_exp(
                2.0 * log_winner + below - log_value
            )
            if j < top - bottom - 1:
                log_loser = portable_log(by_level[1, level]) + high[level] + log_balance[level]
                below = _logaddexp(below, log_loser + (power - 2.0) * above[j + 1])


@njit(cache=True, nogil=True)
def _chunk_hessians(
    first: int, last: int, start: Integers, level: Integers, terms: Floats, levels: Floats,
    price_curvature: Floats, power: float, hessian: Floats,
) -> None:  # fmt: skip
    for chunk in range(first, last):
        at = level[chunk]
        winner_factor, loser_factor = levels[2, at] / levels[0, at], levels[3, at] / levels[1, at]
        quadratic = price_curvature[at] / (levels[0, at] * levels[0, at])
        for row in range(start[chunk], start[chunk + 1]):
            hessian[row] = (
                terms[0, row] * (winner_factor + quadratic * terms[0, row])
                + power * loser_factor * terms[1, row]
            )


@njit(cache=True, nogil=True, error_model="numpy")
def _ordered_weights_of_queries(
    begin: int, end: int, query_start: Integers, ones: Integers, zeros: Integers, levels: Floats,
    correct: Floats, wrong: Floats,
) -> None:  # fmt: skip
    """Sum the weights of correctly (1 above 0) and wrongly (0 above 1) ordered pairs by query.

    Sums over rows with value 0 come from differences of integers, which lose no digit when almost
    all of the weight is on one side.
    """
    winner_weight, old_share, new_share = levels[2], levels[4], levels[5]
    for query in range(begin, end):
        bottom, top = query_start[query], query_start[query + 1]
        zeros_below, ones_below = 0.0, 0.0  # shares of the losers below
        correct_sum, wrong_sum = 0.0, 0.0
        for level in range(bottom, top):
            if level > bottom:
                one = _words_to_float(ones, level - 1, 2)
                zero = _words_to_float(zeros, level - 1, 2)
                ones_below = old_share[level] * ones_below + new_share[level] * one / (one + zero)
                zeros_below = old_share[level] * zeros_below + new_share[level] * zero / (
                    one + zero
                )
            one = _words_to_float(ones, level, 0)
            zero = _words_to_float(zeros, level, 0)
            correct_sum += winner_weight[level] * one / (one + zero) * zeros_below
            wrong_sum += winner_weight[level] * zero / (one + zero) * ones_below
        correct[query] = correct_sum
        wrong[query] = wrong_sum


@njit(cache=True, nogil=True)
def _log_sums_by_row(
    values: Floats, level_start: Integers, query_start: Integers, winners: bool,
) -> Floats:  # fmt: skip
    """Return, for each row, log of the sum of exp(values) over the levels above (or below)."""
    result = np.full(level_start[-1], -np.inf)
    for query in range(query_start.size - 1):
        first_level, end_level = query_start[query], query_start[query + 1]
        log_sum = -np.inf
        for j in range(end_level - first_level):
            level = end_level - 1 - j if winners else first_level + j
            first_row, end_row = level_start[level], level_start[level + 1]
            largest = -np.inf
            for row in range(first_row, end_row):
                result[row] = log_sum
                largest = max(largest, values[row])
            if largest == -np.inf:
                continue
            total = 0.0
            for row in range(first_row, end_row):
                total += np.exp(values[row] - largest)
            log_level = largest + np.log(total)
            if log_sum == -np.inf:
                log_sum = log_level
            elif log_level > log_sum:
                log_sum = log_level + np.log1p(np.exp(log_sum - log_level))
            else:
                log_sum = log_sum + np.log1p(np.exp(log_level - log_sum))
    return result


@njit(cache=True, nogil=True)
def _sums_above(begin: int, end: int, query_start: Integers, logs: Floats, above: Floats) -> None:
    """Compute the logarithms of the winner sums over the levels above each level."""
    for query in range(begin, end):
        for level in range(query_start[query + 1] - 2, query_start[query] - 1, -1):
            for side in range(2):
                above[side, level] = _logaddexp(above[side, level + 1], logs[side, level + 1])


@njit(cache=True, nogil=True)
def _log_terms_and_derivatives(
    begin: int, end: int, logs: Floats, above: Floats, step: float, power: float, log_term: Floats,
    slope: Floats, curvature: Floats,
) -> None:  # fmt: skip
    """Compute the terms of log F by level, and the derivatives of their logarithms over p."""
    for level in range(begin, end):
        if above[0, level] == -np.inf and above[1, level] == -np.inf:
            continue  # highest level of the query
        winners = _logaddexp(above[0, level], above[1, level] - step)
        losers = _logaddexp(logs[2, level], logs[3, level] + power * step)
        winner_ones = portable_exp(above[1, level] - step - winners)
        loser_ones = portable_exp(logs[3, level] + power * step - losers)
        log_term[level] = power * winners + losers
        slope[level] = loser_ones - winner_ones
        curvature[level] = power * loser_ones * (1.0 - loser_ones) + winner_ones * (
            1.0 - winner_ones
        )
