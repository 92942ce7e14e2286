"""Queries divided into halves of their levels, and sums over pairs by tiles, for any loss.

For losers k and winners i of the same query, a risk needs

    over winners:  S_k = sum_{i above k} x_i K(s_i - s_k)      for every loser k
    over losers:   S_i = sum_{k below i} x_k K(s_i - s_k)      for every winner i

where x are the weights of the sources and K is the loss, its slope or its curvature. The levels of
a query are halved recursively. At each split every row of the upper half is above every row of the
lower half, so a split is a sum over *all* sources and targets, cheap for most forms of loss::

    levels    0 1 2 3          rows of levels 0, 1 lose against rows of levels 2, 3
             0 1 | 2 3
            0 | 1  2 | 3       with L levels a row is in log2(L) splits
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from precede.engine.arrays import Floats, Integers
from precede.engine.compiling import njit
from precede.engine.exact import all_reduce_max
from precede.engine.execution import Context, threads_for
from precede.engine.query_layout import QueryLayout
from precede.losses import PairLoss, logarithm

Kernel = Callable[[Floats], Floats]

TILE_ROWS = 2048  # rows and columns of a tile of pairs


class SplitSums:
    """Sums over the splits of all queries, for any loss: dense tiles of pairs, O(n²).

    A split is a row (low, middle, high) of positions: losers low..middle, winners middle..high.
    Subclasses have faster sums for a form of the loss.
    """

    def __init__(self, layout: QueryLayout, loss: PairLoss, context: Context):
        self.loss = loss
        self.context = context
        self.split, self.split_start = _halve_levels(layout.level_start, layout.query_start)
        self.threads = threads_for("heavy rows", layout.n_graded)
        # The same on all machines, because it determines the cells.
        sizes = self.split[:, 2] - self.split[:, 0]
        self.largest = int(all_reduce_max(lambda: sizes.max(initial=0), context))

    def sums(
        self, scores: Floats, log_source: Floats, kernels: Sequence[str], *, winners: bool
    ) -> list[Floats]:
        """Return the logarithms of the sums of each kernel by row, given those of the sources."""
        largest = all_reduce_max(lambda: log_source.max(initial=-np.inf), self.context)
        if largest == -np.inf:
            return [np.full(scores.size, -np.inf) for _ in kernels]
        source = np.exp(log_source - largest)
        return [
            logarithm(total) + largest
            for total in self.plain_sums(scores, source, kernels, winners=winners)
        ]

    def plain_sums(
        self, scores: Floats, source: Floats, kernels: Sequence[str], *, winners: bool
    ) -> Floats:
        """Return the sums of each kernel by row, for sources up to about 1.

        Here by tiles in bounded memory, with equal scores merged first.
        """
        functions = [kernel_of(self.loss, name) for name in kernels]
        totals = np.zeros((len(kernels), scores.size))
        for low, middle, high in self.split:
            upper, lower = slice(middle, high), slice(low, middle)
            sources, targets = (upper, lower) if winners else (lower, upper)
            source_scores, source_index = np.unique(scores[sources], return_inverse=True)
            source_sums = np.bincount(source_index, source[sources]).astype(np.float64)
            target_scores, target_index = np.unique(scores[targets], return_inverse=True)
            for j, kernel in enumerate(functions):
                target_sums = _sum_in_tiles(
                    kernel, source_scores, source_sums, target_scores, 1.0 if winners else -1.0
                )
                totals[j, targets] += target_sums[target_index]
        return totals


def _sum_in_tiles(
    kernel: Kernel, source: Floats, weight: Floats, target: Floats, sign: float
) -> Floats:
    total = np.zeros(target.size)
    for first_target in range(0, target.size, TILE_ROWS):
        rows = target[first_target : first_target + TILE_ROWS, None]
        for first_source in range(0, source.size, TILE_ROWS):
            columns = source[None, first_source : first_source + TILE_ROWS]
            total[first_target : first_target + TILE_ROWS] += (
                kernel(sign * (columns - rows)) @ weight[first_source : first_source + TILE_ROWS]
            )
    return total


def kernel_of(loss: PairLoss, name: str) -> Kernel:
    """Return the kernel of a name, see `precede.risks.pair_sums.PairSums`."""
    kernels: dict[str, Kernel] = {
        "value": loss.value,
        "slope": lambda margin: -loss.slope(margin),
        "curvature": loss.curvature,
        "square": lambda margin: loss.slope(margin) ** 2,
    }
    return kernels[name]


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _halve_levels(level_start: Integers, query_start: Integers) -> tuple[Integers, Integers]:
    """Halve the levels of every query down to single levels; L levels have L - 1 splits."""
    queries = query_start.size - 1
    splits = np.empty((level_start.size - 1 - queries, 3), np.int64)
    start = np.zeros(queries + 1, np.int64)
    stack = np.empty((level_start.size + 1, 2), np.int64)
    count = 0
    for query in range(queries):
        stack[0, 0], stack[0, 1] = query_start[query], query_start[query + 1]
        depth = 1
        while depth > 0:
            depth -= 1
            first_level, end_level = stack[depth, 0], stack[depth, 1]
            if end_level - first_level < 2:
                continue
            middle_level = (first_level + end_level) // 2
            splits[count, 0] = level_start[first_level]
            splits[count, 1] = level_start[middle_level]
            splits[count, 2] = level_start[end_level]
            count += 1
            stack[depth, 0], stack[depth, 1] = first_level, middle_level
            stack[depth + 1, 0], stack[depth + 1, 1] = middle_level, end_level
            depth += 2
        start[query + 1] = count
    return splits, start
