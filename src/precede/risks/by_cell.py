"""Sums over pairs for analytic losses in O(n): fast multipole methods in one dimension.

`CellSums` is for the logistic loss with a linear price, `SmoothSums` for any analytic loss, and
`ChebyshevLine` for line searches. What follows is about the first.

The score axis is cut into cells. For a target cell T, other cells are near or far::

      far        |<-- NEAR_CELLS -->|   T   |<-- NEAR_CELLS -->|        far
    --+----+----+----+----+----+----+----+----+----+----+----+----+----+----+--> score
      exponentials     moments of each cell, one matrix        exponentials
      shifted from     per distance between two cells          shifted from
      cell to cell                                             cell to cell

Every kernel K (loss, slope and curvature) is summed in four steps:

1. *Rows to moments* (P2M): ``M_a = sum_i w_i x_i^a`` per cell, where x in [-1, 1] is the position
   inside the cell.
2. *Near field* (M2L): between two cells K is a polynomial in both positions, obtained from its
   values at Chebyshev points, ``K(s_i - s_k) = sum_ab C_ab x_i^a x_k^b``. C depends only on the
   distance of the cells. Moments times C are the *local coefficients* of the target cell.
3. *Far field*: for margins of at least `FAR_MARGIN` the series
   ``log(1 + exp(-m)) = exp(-m) - exp(-2m)/2 + exp(-3m)/3 - ...`` needs `N_TERMS` terms, each a
   function of the winner times one of the loser. Their sums over all cells further away are
   shifted from cell to cell. For reversed pairs ``log(1 + exp(-m)) = -m + log(1 + exp(m))``.
4. *Local to rows* (L2P): each row evaluates the local polynomial of its cell.

Only the series alternates, and its terms shrink by ``exp(-FAR_MARGIN)``; nothing else cancels, so
small sums keep their digits. Relative errors are about 1e-14.

A query with several grades is a tree: a node divides its levels into groups and sums the pairs of
rows in different groups. Groups of several levels are nodes again, or are enumerated.

On a GPU the nodes of all depths are summed together, in the same order; only the last step goes
depth by depth. Nodes with more than `MAX_GPU_CELLS` cells, or with gaps between cells, are summed
on the CPU.

References: Greengard & Rokhlin, *A Fast Algorithm for Particle Simulations*, J. Comput. Phys. 1987;
Fong & Darve, *The Black-Box Fast Multipole Method*, J. Comput. Phys. 2009 (Chebyshev points).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise

import numpy as np

from precede.engine.arrays import Array, BackendArray, Bytes, Flags, Floats, Integers
from precede.engine.backend import Backend
from precede.engine.compiling import INLINED, INNER, interpreted, njit
from precede.engine.exact import all_reduce_max, exact_sum, min_and_max
from precede.engine.execution import Context, threads_for
from precede.engine.portable import cosines, exp, log1p, portable_exp
from precede.engine.query_layout import QueryLayout
from precede.losses import Smooth
from precede.risks.base import BoundLossRisk, State, count_rows_and_pairs, cut_into_chunks
from precede.risks.line_search import find_root, has_infinite_minimizer
from precede.risks.splits import Kernel, SplitSums, kernel_of

# A power of two, so that the position of a score in its cell is exact.
CELLS_PER_UNIT = 4.0
ORDER = 9  # coefficients per polynomial: errors of about 1e-15 on cells of this width
# Margin from which on the loss is summed as a series, and its terms: the next term would be less
# than 1e-15 of the sum, also for the curvature.
FAR_MARGIN, N_TERMS = 3.0, 13
NEAR_CELLS = 12  # distance in cells that corresponds to FAR_MARGIN
# Far-field sums of a cell: exponentials from the right, exponentials from the left, weight on the
# left, weight times distance on the left, weight on the right.
FAR_FIELD_SIZE = 2 * N_TERMS + 3
LEFT_WEIGHT, LEFT_DISTANCE, RIGHT_WEIGHT = range(2 * N_TERMS, FAR_FIELD_SIZE)
# Empty cells are kept if there are at most MAX_DENSE_CELLS cells, or one per ROWS_PER_CELL rows.
MAX_DENSE_CELLS, ROWS_PER_CELL = 1024, 16
CHUNK_ROWS = 1 << 14  # does not depend on the number of threads, so that sums do not either
MAX_MOMENTS = 1 << 22  # numbers in the moments of all chunks of a node
MAX_CELLS = 1 << 17  # cells times groups of a node; a node with more is halved recursively
# For other analytic losses: with more than MAX_SMOOTH_CELLS cells, the matrices between them cost
# more than they save. Up to MAX_REFINED_CELLS, or a quarter of that with a split of at least
# LARGE_SPLIT_ROWS rows, smaller cells are faster, because they need fewer coefficients.
MAX_SMOOTH_CELLS, MAX_REFINED_CELLS, LARGE_SPLIT_ROWS = 4096, 400, 1 << 15
SMOOTH_CHUNK_ROWS = 1 << 15
# Of a line search on points: with more points of the losers, or fewer rows per level, a search on
# the rows is as fast. The step is doubled at most MAX_DOUBLINGS times.
MAX_POINTS, MIN_ROWS_PER_LEVEL, MAX_DOUBLINGS = 6000, 5000, 24
MIN_SHARED_ROWS = 1 << 16  # larger nodes are summed one after the other, by all threads
# So are up to this many smaller nodes, for which compiling `_sum_nodes` would take too long.
MAX_INTERPRETED_NODES = 8
# Cost of a node in enumerated pairs (measured for scores within a range of about 10): per row, and
# per group and side.
PAIRS_PER_ROW, PAIRS_PER_SIDE = 6, 10_000
ROWS_PER_GROUP = 2048  # of a node with many levels
MAX_GROUPS = 32
# On a GPU: cells of a node (its far field is summed cell by cell), and cells whose moments fit into
# shared memory.
MAX_GPU_CELLS, MAX_SHARED_CELLS = 4096, 1024
# Rows in which one block of threads finds the lowest and the highest score, threads of a block, and
# blocks that share a chunk of rows in the last step.
EXTREMES_ROWS, THREADS, MAX_BLOCKS_PER_CHUNK = 8192, 256, 8


class CellSums:
    """Sums over the pairs of long lists for the logistic loss, by cells of the score axis.

    O(n log L) time for L grades in a list of n rows; O(n log n) where scores are far apart.
    `loser_weight` must be `weight` times a constant of the query, as in all layouts. Pairs inside
    the `level_ranges` are left out; `precede.risks.by_pair` enumerates them.
    """

    def __init__(self, layout: QueryLayout, context: Context):
        self._weight, self._context = layout.weight, context
        self.level_ranges, self._depths = _plan(layout)
        self._gpu_nodes: GpuNodes | None = None

    def copy_to(self, backend: Backend) -> None:
        """Copy the nodes to a GPU."""
        if self._depths:
            self._gpu_nodes = GpuNodes(backend, self._depths, backend.put(self._weight))

    def add_gradients(
        self, backend: Backend, scores: BackendArray, pull: BackendArray, hessian: BackendArray
    ) -> list[BackendArray]:
        """Add the nodes by depth (those of one depth share no row); return their sums."""
        if not backend.is_gpu:
            arguments = scores, self._weight, pull, hessian, self._context
            return [nodes.add_gradients(*arguments).T for nodes in self._depths]
        if self._gpu_nodes is None:
            return []
        return [self._gpu_nodes.add_gradients(scores, pull, hessian, self._context)]


# -- nodes -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class LevelNodes:
    """Nodes of one depth, which have no row in common.

    Groups of node j begin at rows ``bounds[start[j]]``, ``bounds[start[j] + 1]``, ..., and the last
    one ends at ``bounds[start[j + 1] - 1]``. `loser_factor` is `loser_weight` over `weight`.
    """

    start: Integers
    bounds: Integers
    loser_factor: Floats

    def add_gradients(
        self, scores: Floats, weight: Floats, pull: Floats, hessian: Floats, context: Context
    ) -> Floats:
        """Add gradient and Hessian of all rows; return value and gradient sum of every node."""
        sums = np.zeros((self.loser_factor.size, 2))
        rows = self.bounds[self.start[1:] - 1] - self.bounds[self.start[:-1]]
        is_small, tables = rows < MIN_SHARED_ROWS, transfer_tables()
        if np.count_nonzero(is_small) <= MAX_INTERPRETED_NODES:
            is_small[:] = False
        else:
            small = np.flatnonzero(is_small)
            context.run(
                _sum_nodes, small.size, small, self.start, self.bounds, self.loser_factor, scores,
                weight, tables.exponentials, tables.above, tables.below, pull, hessian, sums,
                threads=threads_for("heavy rows", int(rows[small].sum())),
            )  # fmt: skip
        for node in np.flatnonzero(~is_small):
            bounds = self.bounds[self.start[node] : self.start[node + 1]]
            loser_factor = self.loser_factor[node]
            sums[node] = _sum_node_in_parallel(
                bounds, scores, weight, loser_factor, pull, hessian, context
            )
        return sums

    def take(self, chosen: Integers) -> LevelNodes:
        """Return the chosen nodes."""
        bounds = [self.bounds[self.start[node] : self.start[node + 1]] for node in chosen]
        start = np.cumsum([0, *map(len, bounds)])
        return LevelNodes(start, np.concatenate(bounds), self.loser_factor[chosen])


def _sum_node_in_parallel(
    bounds: Integers, scores: Floats, weight: Floats, loser_factor: float, pull: Floats,
    hessian: Floats, context: Context,
) -> Floats:  # fmt: skip
    """Sum one node by all threads; return its value and gradient sum."""
    node_scores = scores[bounds[0] : bounds[-1]]
    lowest, highest = min_and_max(node_scores, context)
    cell_ids = interpreted(_list_cells)(node_scores, lowest, highest)
    if len(bounds) > 3 and cell_ids.size * (len(bounds) - 1) > MAX_CELLS:
        middle = len(bounds) // 2
        halves = [bounds[[0, middle, -1]], bounds[: middle + 1], bounds[middle:]]
        arguments = scores, weight, loser_factor, pull, hessian, context
        return np.sum(
            [_sum_node_in_parallel(half, *arguments) for half in halves if len(half) > 2], axis=0
        )
    chunks, chunk_start, moments, group_moments, side_moments, far_field, local, sums = interpreted(
        _allocate
    )(bounds, cell_ids.size)
    tables = transfer_tables()
    threads = threads_for("heavy rows", node_scores.size)
    arrays = scores, weight, cell_ids, moments
    context.run(_rows_to_moments, len(chunks), chunks, *arrays, threads=threads)
    interpreted(_sum_sides)(
        moments, chunk_start, cell_ids, tables.exponentials, group_moments, side_moments, far_field
    )
    context.run(
        _moments_to_local, len(sums), cell_ids, tables.above, tables.below, group_moments,
        side_moments, far_field, local, sums, threads=threads_for("heavy rows", 8 * len(sums)),
    )  # fmt: skip
    context.run(
        _local_to_rows, len(chunks), chunks, chunk_start, scores, weight, cell_ids, loser_factor,
        local, pull, hessian, threads=threads,
    )  # fmt: skip
    return np.asarray(loser_factor * sums.cumsum(axis=0)[-1])  # one by one, unlike `sum`


class GpuNodes:
    """Nodes of all depths on a GPU; `weight` is that of every row, on the GPU."""

    def __init__(self, backend: Backend, depths: Sequence[LevelNodes], weight: BackendArray):
        self._backend, self._depths, self._weight = backend, depths, weight
        self._depth_start = np.cumsum([0, *(nodes.loser_factor.size for nodes in depths)])
        self._loser_factor = np.concatenate([nodes.loser_factor for nodes in depths])
        bounds = [
            nodes.bounds[first:end] for nodes in depths for first, end in pairwise(nodes.start)
        ]
        self._group_start = np.concatenate([each[:-1] for each in bounds])
        self._group_end = np.concatenate([each[1:] for each in bounds])
        self._n_groups = np.array([each.size - 1 for each in bounds])
        self._first_group = np.cumsum(self._n_groups) - self._n_groups
        first_row = np.array([each[0] for each in bounds])
        end_row = np.array([each[-1] for each in bounds])
        self.rows = end_row - first_row
        # Chunks of rows in which the lowest and the highest score of a node are found.
        chunks = cut_into_chunks(first_row, end_row, EXTREMES_ROWS)
        self._extremes_chunks = backend.put(np.column_stack(chunks))
        self._node_of_group = np.repeat(np.arange(len(bounds)), self._n_groups)
        self._nodes_on_gpu = backend.put(self._node_of_group)
        # Every node has a side between two groups.
        sides = [(node, side) for node, each in enumerate(bounds) for side in range(each.size - 2)]
        self._sides = backend.put(np.array(sides, np.int64))
        steps = exp(np.array([-1.0, -(NEAR_CELLS + 1.0)]) / CELLS_PER_UNIT)
        factors = np.cumprod([steps] * N_TERMS, axis=0).T
        tables = transfer_tables()
        self._tables = [
            backend.put(table)
            for table in (tables.exponentials, tables.above, tables.below, factors)
        ]
        self._chunk_rows = np.zeros(0, np.int64)

    def add_gradients(
        self, scores: BackendArray, pull: BackendArray, hessian: BackendArray, context: Context
    ) -> BackendArray:
        """Add gradient and Hessian of all rows; return values and gradient sums of the nodes."""
        first_cell, n_cells = self._count_cells(scores)
        sums = self._backend.zeros(2, n_cells.size)
        on_gpu = n_cells > 0
        if on_gpu.any():
            nodes = self._build_nodes(first_cell, n_cells)
            local = self._local_coefficients(scores, nodes, n_cells, sums)
        for depth in range(len(self._depths)):
            if on_gpu.any():
                self._add_to_rows(depth, scores, nodes, local, pull, hessian)
            if not on_gpu[self._depth_start[depth] : self._depth_start[depth + 1]].all():
                self._sum_on_cpu(depth, on_gpu, scores, pull, hessian, context, sums)
        return sums

    def _count_cells(self, scores: BackendArray) -> tuple[Floats, Integers]:
        """Return first cell and number of cells of every node; 0 cells if left to the CPU."""
        n_nodes = self._n_groups.size
        extremes = self._backend.put(np.repeat(np.array([~np.uint64(0), np.uint64(0)]), n_nodes))
        self._backend.launch(
            "node_extremes", len(self._extremes_chunks), THREADS, self._extremes_chunks, scores,
            extremes[:n_nodes], extremes[n_nodes:],
        )  # fmt: skip
        lowest, highest = _from_ordered_bits(self._backend.get(extremes)).reshape(2, n_nodes)
        with np.errstate(invalid="ignore"):
            first_cell = np.floor(lowest * CELLS_PER_UNIT)
            n_cells = np.floor(highest * CELLS_PER_UNIT) - first_cell + 1.0
            # The conditions of `_list_cells` and `_sum_node`.
            on_gpu = n_cells <= np.minimum(
                np.maximum(MAX_DENSE_CELLS, self.rows // ROWS_PER_CELL), MAX_GPU_CELLS
            )
            on_gpu &= (self._n_groups <= 2) | (n_cells * self._n_groups <= MAX_CELLS)
        return first_cell, np.where(on_gpu, n_cells, 0.0).astype(np.int64)

    def _build_nodes(self, first_cell: Floats, n_cells: Integers) -> BackendArray:
        """Build the `CellNode` structs of the kernels; cut rows into chunks if sizes changed."""
        max_chunks = np.maximum(1, MAX_MOMENTS // np.maximum(n_cells * ORDER, 1))
        chunk_rows = np.where(n_cells > 0, np.maximum(CHUNK_ROWS, -(-self.rows // max_chunks)), 0)
        if not np.array_equal(chunk_rows, self._chunk_rows):
            self._chunk_rows = chunk_rows
            self._cut_into_chunks()
        self._chunk_cell_ends = np.cumsum(n_cells[self._node_of_chunk])
        self._chunks[:, 3] = self._chunk_cell_ends - n_cells[self._node_of_chunk]
        self._chunks_on_gpu = self._backend.put(self._chunks)
        group_cells, side_cells = n_cells * self._n_groups, n_cells * (self._n_groups - 1)
        self._group_cells, self._side_cells = int(group_cells.sum()), int(side_cells.sum())
        nodes = np.column_stack([
            first_cell.view(np.int64), self._loser_factor.view(np.int64), n_cells, self._n_groups,
            self._first_group, np.cumsum(group_cells) - group_cells,
            np.cumsum(side_cells) - side_cells,
        ])  # fmt: skip
        return self._backend.put(nodes)

    def _cut_into_chunks(self) -> None:
        """Cut every group into chunks of rows; see `_allocate`."""
        rows = self._chunk_rows[self._node_of_group]
        end_row = np.where(rows > 0, self._group_end, self._group_start)
        first, end, group = cut_into_chunks(self._group_start, end_row, np.maximum(rows, 1))
        self._node_of_chunk = self._node_of_group[group]
        self._chunks = np.column_stack([first, end, group, np.zeros_like(first)])
        self._chunk_start = self._backend.put(
            np.searchsorted(group, np.arange(self._node_of_group.size + 1))
        )
        depth_start = self._depth_start[:-1], self._depth_start[1:]
        bounds = np.searchsorted(self._node_of_chunk, depth_start)
        self._chunks_of_depth = list(zip(*bounds.tolist(), strict=True))
        self._max_chunk_rows = int(rows.max(initial=1))

    def _local_coefficients(
        self, scores: BackendArray, nodes: BackendArray, n_cells: Integers, node_sums: BackendArray
    ) -> BackendArray:
        """Return the local coefficients of all cells; fill values and gradient sums."""
        backend, empty = self._backend, self._backend.empty
        exponentials, above, below, factors = self._tables
        n_groups, n_sides = self._node_of_group.size, len(self._sides)
        max_cells = int(n_cells.max())
        moments = empty(int(self._chunk_cell_ends[-1]), ORDER)
        group_moments = empty(self._group_cells, ORDER)
        side_moments = empty(2, self._side_cells, ORDER)
        far_field = empty(2, self._side_cells, FAR_FIELD_SIZE)
        local = empty(self._group_cells, 2 * ORDER)
        sums = empty(self._group_cells, 2)
        shared_cells = min(max_cells, MAX_SHARED_CELLS)
        backend.launch(
            "rows_to_moments", len(self._chunks), 32, self._chunks_on_gpu, self._nodes_on_gpu,
            nodes, scores, self._weight, shared_cells, moments, shared=8 * ORDER * shared_cells,
        )  # fmt: skip
        n_blocks = -(-max_cells * ORDER // THREADS)
        backend.launch(
            "sum_group_moments", (n_groups, n_blocks), THREADS, self._chunks_on_gpu,
            self._chunk_start, self._nodes_on_gpu, nodes, moments, group_moments,
        )  # fmt: skip
        stride = self._side_cells
        backend.launch(
            "sum_side_moments", (n_cells.size, n_blocks), THREADS, nodes, group_moments,
            np.int64(stride * ORDER), side_moments,
        )  # fmt: skip
        backend.launch(
            "sum_far_field", (n_sides, 2), THREADS, self._sides, nodes, side_moments,
            np.int64(stride), exponentials, factors, far_field,
        )  # fmt: skip
        backend.launch(
            "moments_to_local", (n_groups, -(-max_cells // 8)), 256, self._nodes_on_gpu, nodes,
            above, below, group_moments, side_moments, far_field, np.int64(stride), local, sums,
        )  # fmt: skip
        backend.launch(
            "sum_nodes", n_cells.size, 128, nodes, sums, np.int64(n_cells.size), node_sums
        )
        return local

    def _add_to_rows(
        self, depth: int, scores: BackendArray, nodes: BackendArray, local: BackendArray,
        pull: BackendArray, hessian: BackendArray,
    ) -> None:  # fmt: skip
        """Evaluate the local polynomials at the rows of one depth."""
        first, last = self._chunks_of_depth[depth]
        if last > first:
            blocks = min(MAX_BLOCKS_PER_CHUNK, -(-self._max_chunk_rows // THREADS))
            self._backend.launch(
                "local_to_rows", (last - first, blocks), THREADS, self._chunks_on_gpu[first:last],
                self._nodes_on_gpu, nodes, scores, self._weight, local, pull, hessian,
            )  # fmt: skip

    def _sum_on_cpu(
        self, depth: int, on_gpu: Flags, scores: BackendArray, pull: BackendArray,
        hessian: BackendArray, context: Context, node_sums: BackendArray,
    ) -> None:  # fmt: skip
        """Sum the remaining nodes of one depth on the CPU."""
        backend, start = self._backend, int(self._depth_start[depth])
        chosen = np.flatnonzero(~on_gpu[start : self._depth_start[depth + 1]])
        nodes = self._depths[depth].take(chosen)
        first_row, end_row = nodes.bounds[nodes.start[:-1]], nodes.bounds[nodes.start[1:] - 1]
        rows = np.concatenate(
            [np.arange(*bounds) for bounds in zip(first_row, end_row, strict=True)]
        )
        rows_on_gpu, host = backend.put(rows), np.zeros((4, int(end_row.max())))
        arrays = [array[rows_on_gpu] for array in (scores, self._weight, pull, hessian)]
        host[:, rows] = backend.get(backend.xp.stack(arrays))
        sums = nodes.add_gradients(host[0], host[1], host[2], host[3], context)
        pull[rows_on_gpu], hessian[rows_on_gpu] = backend.put(host[2:, rows])
        node_sums[:, backend.put(start + chosen)] = backend.put(sums.T)


def _from_ordered_bits(keys: Array) -> Floats:
    """Invert `ordered_bits` of the kernels."""
    sign = np.uint64(1 << 63)
    return np.where(keys >= sign, keys ^ sign, ~keys).view(np.float64)


def _plan(layout: QueryLayout) -> tuple[Integers, list[LevelNodes]]:
    """Return the level ranges to enumerate, and the nodes by depth."""
    level_start, query_start = layout.level_start, layout.query_start
    open_ranges = np.column_stack([query_start[:-1], query_start[1:]])
    level_ranges, depths = [], []
    while len(open_ranges):
        rows, pairs = count_rows_and_pairs(level_start, open_ranges)
        # Two groups have two sides; nodes with more groups have enough rows in any case.
        is_long = pairs > PAIRS_PER_ROW * rows + 2 * PAIRS_PER_SIDE
        groupings = [
            _group_levels(level_start, int(first_level), int(end_level))
            for first_level, end_level in open_ranges[is_long]
        ]
        level_ranges.append(open_ranges[~is_long])
        if groupings:
            depths.append(_make_nodes([level_start[grouping] for grouping in groupings], layout))
        groups = [group for each in groupings for group in pairwise(each)]
        inner_ranges = [group for group in groups if group[1] - group[0] > 1]
        open_ranges = np.array(inner_ranges, np.int64).reshape(-1, 2)
    return np.concatenate([np.zeros((0, 2), np.int64), *level_ranges]), depths


def _make_nodes(bounds: list[Integers], layout: QueryLayout) -> LevelNodes:
    heaviest = [node[0] + int(np.argmax(layout.weight[node[0] : node[-1]])) for node in bounds]
    return LevelNodes(
        start=np.cumsum([0, *map(len, bounds)]),
        bounds=np.concatenate(bounds),
        loser_factor=layout.loser_weight[heaviest] / layout.weight[heaviest],
    )


def _group_levels(level_start: Integers, first_level: int, end_level: int) -> Integers:
    """Divide levels into groups of similar size; return their first levels and the end."""
    row_start = level_start[first_level : end_level + 1]
    rows = row_start[-1] - row_start[0]
    n_groups = max(2, min(MAX_GROUPS, int(rows) // ROWS_PER_GROUP))
    if end_level - first_level <= n_groups:
        return np.arange(first_level, end_level + 1)
    twice_middle = row_start[:-1] + row_start[1:] - 2 * row_start[0]
    group = twice_middle * n_groups // (2 * rows)
    cuts = first_level + 1 + np.flatnonzero(np.diff(group))
    return np.concatenate([[first_level], cuts, [end_level]])


# -- transfer matrices -----------------------------------------------------------------------


@dataclass(frozen=True)
class _TransferTables:
    """Matrices that turn moments and far-field sums into local coefficients.

    A row of `above` or `below` belongs to one source of a cell: the moments of the cells at most
    `NEAR_CELLS` away, then its `FAR_FIELD_SIZE` far-field sums. Columns are the local coefficients
    of sums over the winners above a row, or the losers below it: of the value (`above` only), then
    alternately of gradient and Hessian. Zero rows pad to a multiple of eight. `exponentials` are
    the coefficients of ``exp(-j h x / 2)`` for the cell width h and j = 1 .. `N_TERMS`.
    """

    exponentials: Floats
    above: Floats
    below: Floats


@lru_cache(maxsize=1)
def transfer_tables() -> _TransferTables:
    """Return the tables, computed once."""
    points, to_coefficients = chebyshev(ORDER)
    to_monomial = _matmul(_chebyshev_to_monomial().T, to_coefficients)
    half_width = 0.5 / CELLS_PER_UNIT
    exponentials = _matmul(
        exp(-half_width * np.outer(np.arange(1.0, N_TERMS + 1), points)), to_monomial.T
    )
    distance = np.arange(-NEAR_CELLS, NEAR_CELLS + 1) / CELLS_PER_UNIT
    # Source minus target, by distance of the cells, point of the source and point of the target.
    difference = distance[:, None, None] + half_width * (
        points[None, :, None] - points[None, None, :]
    )
    tables = []
    for sign in (1.0, -1.0):
        near = _near_field_rows(difference, sign, to_monomial)
        far = _far_field_rows(exponentials, sign > 0)
        padding = np.zeros((-(len(near) + len(far)) % 8, 3 * ORDER))
        tables.append(np.concatenate([near, far, padding]))
    return _TransferTables(exponentials, tables[0], np.ascontiguousarray(tables[1][:, ORDER:]))


def _matmul(left: Floats, right: Floats) -> Floats:
    """Multiply matrices, summing in a fixed order; NumPy's order depends on the processor."""
    product = left[..., :, :1] * right[..., :1, :]
    for j in range(1, right.shape[-2]):
        product = product + left[..., :, j : j + 1] * right[..., j : j + 1, :]
    return product


def _chebyshev_to_monomial() -> Floats:
    """Return the monomial coefficients of the Chebyshev polynomials, one per row."""
    coefficients = np.eye(ORDER)
    for a in range(2, ORDER):
        coefficients[a] = 2.0 * np.roll(coefficients[a - 1], 1) - coefficients[a - 2]
    return coefficients


def _near_field_rows(difference: Floats, sign: float, to_monomial: Floats) -> Floats:
    """Return the near-field rows; the margin is `sign` times (source - target)."""
    margin = sign * difference
    exponential = exp(-np.abs(margin))
    value = log1p(exponential) + np.maximum(-margin, 0.0)
    slope = -np.where(margin > 0, exponential, 1.0) / (1.0 + exponential)
    kernels = value, sign * slope, exponential / ((1.0 + exponential) * (1.0 + exponential))
    value, pull, hessian = (
        _matmul(_matmul(to_monomial, kernel), to_monomial.T) for kernel in kernels
    )
    return np.concatenate([value, _interleave(pull, hessian)], axis=-1).reshape(-1, 3 * ORDER)


def _far_field_rows(exponentials: Floats, above: bool) -> Floats:
    """Return the far-field rows."""
    number = np.arange(1.0, N_TERMS + 1)[:, None]
    from_left = np.where(number % 2 == 1, 1.0, -1.0) * exponentials
    from_right = from_left * (-1.0) ** np.arange(ORDER)
    rows = [
        np.concatenate([series / number, _interleave(sign * series, number * series)], axis=1)
        for series, sign in ((from_right, -1.0), (from_left, 1.0))
    ]
    left_weight, left_distance, right_weight = np.zeros((3, 1, 3 * ORDER))
    if above:  # winners far on the left have loss -m
        left_weight[0, 1], left_weight[0, ORDER] = 0.5 / CELLS_PER_UNIT, -1.0
        left_distance[0, 0] = 1.0
    else:
        right_weight[0, ORDER] = 1.0
    return np.concatenate([*rows, left_weight, left_distance, right_weight])


def _interleave(pull: Floats, hessian: Floats) -> Floats:
    return np.stack([pull, hessian], axis=-1).reshape(*pull.shape[:-1], -1)


# -- any analytic loss ----------------------------------------------------------------------


class SmoothSums(SplitSums):
    """Sums over pairs for an analytic loss: a multipole method with Chebyshev polynomials.

    The score axis is cut into cells of a given width. Inside a cell the sources become moments
    ``M_a = sum x_i T_a``; the interaction of two cells is a small matrix that depends only on their
    distance; a target evaluates the local polynomials of its cell. Small splits are enumerated
    instead, with K evaluated as a piecewise polynomial.
    """

    def plain_sums(
        self, scores: Floats, source: Floats, kernels: Sequence[str], *, winners: bool
    ) -> Floats:
        """Return the sums of each kernel by row, for sources up to about 1."""
        form = self.loss.form
        assert isinstance(form, Smooth)
        ends = all_reduce_max(
            lambda: np.array([scores.max(initial=-np.inf), -scores.min(initial=np.inf)]),
            self.context,
        )
        origin, end = -float(ends[1]), float(ends[0])
        if (end - origin) / form.width > MAX_SMOOTH_CELLS:
            return super().plain_sums(scores, source, kernels, winners=winners)
        # Only large splits need matrices between cells; enumeration is faster with small cells.
        max_cells = MAX_REFINED_CELLS if self.largest < LARGE_SPLIT_ROWS else MAX_REFINED_CELLS // 4
        parts = next((n for n in (8, 4, 2) if n * (end - origin) / form.width <= max_cells), 1)
        form = refine_cells(form, parts)
        cells = int((end - origin) * (1.0 / form.width)) + 1  # the same rounding as in the kernels
        functions = [kernel_of(self.loss, name) for name in kernels]
        totals = np.zeros((len(kernels), scores.size))
        is_small_split, large_splits = self._choose_method(cells, form.nodes)
        if is_small_split.any():
            coefficients = np.stack([_piecewise_coefficients(k, form, cells) for k in functions])
            self.context.run(
                _enumerate_splits, self.split_start.size - 1, self.split_start, self.split,
                is_small_split, scores, source, winners, form.width, coefficients, totals,
                threads=self.threads,
            )  # fmt: skip
        if large_splits.size:
            matrices = np.stack([_cell_matrices(k, form, cells) for k in functions])
            grid = (origin, 1.0 / form.width)
            for low, middle, high in self.split[large_splits]:
                split = (low, middle, high)
                self._add_interpolated(scores, source, split, winners, grid, matrices, totals)
        return totals

    def _choose_method(self, cells: int, nodes: int) -> tuple[Flags, Integers]:
        """Choose the splits to enumerate and those to interpolate, by operation counts."""
        losers = self.split[:, 1] - self.split[:, 0]
        winners = self.split[:, 2] - self.split[:, 1]
        cost = (losers + winners) * 3.0 * nodes + float(cells) ** 2 * nodes**2 + 2e4
        is_small_split = losers * winners * float(nodes) < cost
        return is_small_split, np.flatnonzero(~is_small_split)

    def _add_interpolated(
        self, scores: Floats, source: Floats, split: tuple[int, int, int], winners: bool,
        grid: tuple[float, float], matrices: Floats, totals: Floats,
    ) -> None:  # fmt: skip
        """Add the sums of one split: moments, local coefficients, evaluation."""
        low, middle, high = split
        sources, targets = (
            ((middle, high), (low, middle)) if winners else ((low, middle), (middle, high))
        )
        cells, nodes = (matrices.shape[1] + 1) // 2, matrices.shape[-1]
        rows = slice(*sources)
        moments = chebyshev_moments(scores[rows], source[rows], grid, (cells, nodes), self.context)
        local = _transfer_moments(moments, matrices, winners)
        self.context.run(
            _evaluate_chebyshev, targets[1] - targets[0], scores[targets[0] : targets[1]], *grid,
            local, totals[:, targets[0] : targets[1]],
        )  # fmt: skip


def refine_cells(form: Smooth, parts: int) -> Smooth:
    """Divide cells into `parts`; return the width and the fewer nodes that are as accurate.

    The interpolation error on a cell is ``rho^-nodes``, where ``rho - 1/rho`` is proportional to
    ``1 / width``; the declared nodes are assumed to reach 1e-15 on the declared width.

    >>> from precede.losses import Smooth
    >>> refine_cells(Smooth(width=1.0, nodes=14), parts=8)
    Smooth(width=0.125, nodes=8)
    """
    if parts == 1:
        return form
    log_accuracy = 15 * np.log(10)
    rho = np.exp(log_accuracy / form.nodes)
    nodes = log_accuracy / np.arcsinh(parts * (rho - 1 / rho) / 2)
    return Smooth(form.width / parts, int(np.ceil(nodes)))


def _cell_matrices(kernel: Kernel, form: Smooth, cells: int) -> Floats:
    """Return Chebyshev coefficients of ``K(x - y)`` for cells 1-cells .. cells-1 apart."""
    points, to_coefficients = chebyshev(form.nodes)
    half_width = form.width / 2
    distance = np.arange(1 - cells, cells) * form.width
    margin = distance[:, None, None] + half_width * (points[None, :, None] - points[None, None, :])
    return to_coefficients @ kernel(margin) @ to_coefficients.T


def _piecewise_coefficients(kernel: Kernel, form: Smooth, cells: int) -> Floats:
    """Return Chebyshev coefficients of ``K(m)`` on cells that cover every possible margin."""
    points, to_coefficients = chebyshev(form.nodes)
    center = (np.arange(-cells - 1, cells + 1) + 0.5) * form.width
    return kernel(center[:, None] + form.width / 2 * points[None, :]) @ to_coefficients.T


def chebyshev(nodes: int) -> tuple[Floats, Floats]:
    """Return the Chebyshev points, and the matrix from values at them to coefficients."""
    index = np.outer(np.arange(nodes), 2 * np.arange(nodes) + 1)
    matrix = cosines(index, 2 * nodes) * 2.0 / nodes
    matrix[0] /= 2
    return cosines(index[1], 2 * nodes), matrix


def chebyshev_moments(
    scores: Floats, source: Floats, grid: tuple[float, float], shape: tuple[int, int],
    context: Context,
) -> Floats:  # fmt: skip
    """Return the moments of the sources, of shape (cells, nodes).

    `grid` is the origin of the cells and their inverse width.
    """
    n_chunks = -(-scores.size // SMOOTH_CHUNK_ROWS)
    moments = np.zeros((n_chunks, *shape))
    context.run(
        _chebyshev_moments, n_chunks, SMOOTH_CHUNK_ROWS, scores, source, *grid, moments,
    )  # fmt: skip
    return np.asarray(moments.sum(axis=0))


def _transfer_moments(moments: Floats, matrices: Floats, winners: bool) -> Floats:
    """Compute the local coefficients of every cell from the moments of all cells, for each kernel.

    ``matrices[j, cells - 1 + c - c']`` holds the coefficients (a of the winner's cell c, b of the
    loser's cell c').
    """
    cells = moments.shape[0]
    occupied = np.flatnonzero(np.any(moments != 0, axis=1))
    local = np.zeros((matrices.shape[0], *moments.shape))
    for cell in range(cells):
        distance = cells - 1 + (occupied - cell if winners else cell - occupied)
        cell_matrices = matrices[:, distance]
        subscripts = "jcab,ca->jb" if winners else "jcab,cb->ja"
        local[:, cell] = np.einsum(subscripts, cell_matrices, moments[occupied])
    return local


# -- line search -----------------------------------------------------------------------------


class ChebyshevLine:
    """Slope of a smooth risk along a weak ranker of values 0 and 1, as a function of the step.

    Within a cell of the score axis a smooth function is determined by its values at a few Chebyshev
    points, so a million rows that share a grade and a value of the weak ranker are replaced by a
    few hundred points with (signed) weights. It takes O(n) to compute the weights and O(points²)
    per step, for one query with few grades and many rows; check `applies` first. The points
    reproduce the sums over rows to about ten digits.
    """

    def __init__(self, risk: BoundLossRisk, scores: Floats, values: Bytes):
        self._risk, self._values = risk, values
        layout, power, form = risk.layout, risk.price.power, risk.loss.form
        assert power is not None
        assert isinstance(form, Smooth)
        scores = scores - layout.grade if risk.loss.gap else scores
        form = _halve_cells(form)
        # u^p varies p times as fast as u, so the losers need finer cells.
        self._power, self._refinement = power, max(1, int(np.ceil(power * form.width / 2)))
        self._winners = _Grid.cover(scores, form.width, form.nodes)
        self._losers = _Grid.cover(scores, form.width / self._refinement, form.nodes)
        weight = layout.weight / layout.weight.max()
        loser_weight = layout.loser_weight / layout.loser_weight.max()
        if risk.mean:
            log_factor = (1.0 - power) * risk.log_divisors()
            last_loser = layout.level_start[-2] - 1
            loser_weight = loser_weight * np.exp(log_factor - log_factor[last_loser])
        levels = [slice(first, end) for first, end in pairwise(layout.level_start)]
        winner_weights = [
            self._point_weights(scores, weight, self._winners, rows) for rows in levels[:0:-1]
        ]
        # Cumulated from the top: the winners of a level are all levels above it.
        self._winner_weights = list(accumulate(winner_weights))[::-1]
        self._loser_weights = [
            self._point_weights(scores, loser_weight, self._losers, rows) for rows in levels[:-1]
        ]
        self._unshifted = self._shifted_kernels(0.0)[0]

    @staticmethod
    def applies(risk: BoundLossRisk, scores: Floats) -> bool:
        """Return whether the search on points applies and is faster than on rows."""
        layout, form, power = risk.layout, risk.loss.form, risk.price.power
        if not isinstance(form, Smooth) or power is None or layout.has_explicit_pairs:
            return False
        levels = layout.level_start.size - 1
        if risk.n_queries != 1 or layout.n_graded < MIN_ROWS_PER_LEVEL * levels:
            return False
        span = float(np.ptp(scores)) + (float(np.ptp(layout.grade)) if risk.loss.gap else 0.0)
        form = _halve_cells(form)
        refinement = max(1.0, power * form.width / 2)
        return (span / form.width + 1) * form.nodes * refinement <= MAX_POINTS

    def minimize(self) -> float | None:
        """Return the step that minimizes the risk, to about nine digits; None if infinite."""
        at_zero = self._slope(0.0)
        if at_zero == 0:
            return 0.0
        step = -0.25 if at_zero > 0 else 0.25
        for _ in range(MAX_DOUBLINGS):
            slope = self._slope(step)
            if abs(slope) <= 1e-14 * abs(at_zero):  # only rounding errors are left
                return None
            if slope * at_zero < 0:
                low, high = sorted((0.0, step))
                return find_root(self._slope, low, high, 1e-11)
            step *= 2
        return None

    def _slope(self, step: float) -> float:
        """Return the derivative of the risk by the step, up to a positive factor."""
        (up, up_slope), (down, down_slope) = (
            self._shifted_kernels(step),
            self._shifted_kernels(-step),
        )
        total, loss_sums, slopes = 0.0, [], []
        for weights in self._winner_weights:
            ones, zeros = weights[1], weights[0]
            # For losers with value 0 the winners with value 1 move up; for losers with value 1
            # the winners with value 0 move down.
            loss_sums.append((_apply(self._unshifted, zeros) + _apply(up, ones),
                         _apply(self._unshifted, ones) + _apply(down, zeros)))  # fmt: skip
            slopes.append((_apply(up_slope, ones), -_apply(down_slope, zeros)))
        largest = max(float(sums.max()) for pair in loss_sums for sums in pair)
        for pair, slope, weights_below in zip(loss_sums, slopes, self._loser_weights, strict=True):
            for value in (0, 1):
                price_slope = np.maximum(pair[value] / largest, 0.0) ** (self._power - 1)
                total += float((weights_below[value] * price_slope * slope[value]).sum())
        return total

    def _shifted_kernels(self, shift: float) -> tuple[Array, Array]:
        """Return the loss and its slope between cells, for margins increased by `shift`.

        Entry ``[l, w, i, j]``: point i of the winners' cell w and point j of the losers' cell l.
        """
        winners, losers = self._winners, self._losers
        points, _ = chebyshev(winners.nodes)
        first_distance = -self._refinement * (winners.cells - 1)
        offset = (np.arange(first_distance, losers.cells) + 0.5) * losers.width - winners.width / 2
        loser_position = offset[:, None] + losers.width / 2 * points[None, :]
        margin = winners.width / 2 * points[None, :, None] - loser_position[:, None, :] + shift
        loss = self._risk.loss
        return (
            _toeplitz_view(loss.value(margin), winners.cells, losers.cells, self._refinement),
            _toeplitz_view(loss.slope(margin), winners.cells, losers.cells, self._refinement),
        )

    def _point_weights(self, scores: Floats, weight: Floats, grid: _Grid, rows: slice) -> Floats:
        """Return the weights of the points of a level, of shape (ranker values, cells, nodes)."""
        scores, weight, values = scores[rows], weight[rows], self._values[rows]
        shape, place = (grid.cells, grid.nodes), (grid.origin, 1.0 / grid.width)
        moments = [
            chebyshev_moments(scores[at], weight[at], place, shape, self._risk.context)
            for at in (values == 0, values == 1)
        ]
        return np.stack(moments) @ chebyshev(grid.nodes)[1]


@dataclass(frozen=True)
class _Grid:
    """Cells of equal width from an origin, with Chebyshev points in each."""

    origin: float
    width: float
    cells: int
    nodes: int

    @classmethod
    def cover(cls, scores: Floats, width: float, nodes: int) -> _Grid:
        """Return the cells that cover the scores; the last one is found as in the kernels."""
        origin, end = float(scores.min()), float(scores.max())
        return cls(origin, width, int((end - origin) * (1.0 / width)) + 1, nodes)


def chebyshev_line_search(
    risk: BoundLossRisk, state: State, values: Array
) -> tuple[float, bool] | None:
    """Return the step along a weak ranker of values 0 and 1, see `BoundRisk.exact_step`.

    None where the method does not apply or finds no minimum; the rows must then be searched.
    """
    scores, values = risk.backend.get(state.scores), risk.backend.get(values)
    if values.dtype != np.uint8 or not ChebyshevLine.applies(risk, scores):
        return None
    sign = 1.0 if exact_sum(risk.backend.get(state.pull) * values, risk.context) > 0 else -1.0
    if has_infinite_minimizer(risk, sign * values):
        return None
    step = ChebyshevLine(risk, scores, values).minimize()
    return None if step is None else (step, False)


def _halve_cells(form: Smooth) -> Smooth:
    """Halve the cell width; fewer cells need fewer points, more cells fewer nodes each."""
    return refine_cells(form, parts=2)


def _toeplitz_view(values: Array, winner_cells: int, loser_cells: int, refinement: int) -> Array:
    """View entries that depend on the distance of two cells by (loser cell, winner cell, i, j).

    All pairs of cells at one distance share a matrix, as in a Toeplitz matrix.
    """
    step = values.strides[0]
    return np.lib.stride_tricks.as_strided(
        values[refinement * (winner_cells - 1) :],
        (loser_cells, winner_cells, *values.shape[1:]),
        (step, -refinement * step, *values.strides[1:]),
        writeable=False,
    )


def _apply(kernel: Array, weights: Floats) -> Floats:
    """Sum over the winners' points for every point of the losers."""
    return np.einsum("lwij,wi->lj", kernel, weights)


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _sum_nodes(
    begin: int, end: int, chosen: Integers, start: Integers, bounds: Integers, loser_factor: Floats,
    scores: Floats, weight: Floats, exponentials: Floats, above: Floats, below: Floats,
    pull: Floats, hessian: Floats, sums: Floats,
) -> None:  # fmt: skip
    for index in range(begin, end):
        node = chosen[index]
        node_bounds = bounds[start[node] : start[node + 1]]
        _sum_node(
            node_bounds, scores, weight, loser_factor[node], exponentials, above, below, pull,
            hessian, sums[node],
        )  # fmt: skip


@njit(**INNER)
def _sum_node(
    bounds: Integers, scores: Floats, weight: Floats, loser_factor: float, exponentials: Floats,
    above: Floats, below: Floats, pull: Floats, hessian: Floats, total: Floats,
) -> None:  # fmt: skip
    """Sum one node by one thread; see `_sum_node_in_parallel`."""
    node_scores = scores[bounds[0] : bounds[-1]]
    cell_ids = _list_cells(node_scores, node_scores.min(), node_scores.max())
    if bounds.size > 3 and cell_ids.size * (bounds.size - 1) > MAX_CELLS:
        middle = bounds.size // 2
        halves = np.array([bounds[0], bounds[middle], bounds[-1]])
        for part in (halves, bounds[: middle + 1], bounds[middle:]):
            if part.size > 2:
                _sum_node(
                    part, scores, weight, loser_factor, exponentials, above, below, pull, hessian,
                    total,
                )  # fmt: skip
        return
    chunks, chunk_start, moments, group_moments, side_moments, far_field, local, sums = _allocate(
        bounds, cell_ids.size
    )
    _rows_to_moments(0, len(chunks), chunks, scores, weight, cell_ids, moments)
    _sum_sides(moments, chunk_start, cell_ids, exponentials, group_moments, side_moments, far_field)
    _moments_to_local(
        0, len(sums), cell_ids, above, below, group_moments, side_moments, far_field, local, sums
    )
    _local_to_rows(
        0, len(chunks), chunks, chunk_start, scores, weight, cell_ids, loser_factor, local, pull,
        hessian,
    )  # fmt: skip
    value, gradient_sum = 0.0, 0.0
    for index in range(len(sums)):
        value += sums[index, 0]
        gradient_sum += sums[index, 1]
    total[0] += loser_factor * value
    total[1] += loser_factor * gradient_sum


@njit(cache=True, nogil=True)
def _list_cells(scores: Floats, lowest: float, highest: float) -> Floats:
    """Return the cell ids in increasing order: from first to last, or only cells with a row."""
    first_cell = np.floor(lowest * CELLS_PER_UNIT)
    n_cells = np.floor(highest * CELLS_PER_UNIT) - first_cell + 1.0
    # With NaN scores the comparison is false, so that no index is out of bounds.
    if n_cells <= max(MAX_DENSE_CELLS, scores.size // ROWS_PER_CELL):
        return first_cell + np.arange(np.int64(n_cells))
    return np.unique(np.floor(scores * CELLS_PER_UNIT))


@njit(cache=True, nogil=True)
def _allocate(
    bounds: Integers, n_cells: int,
) -> tuple[Integers, Integers, Floats, Floats, Floats, Floats, Floats, Floats]:  # fmt: skip
    """Cut groups into chunks of rows and allocate the arrays of a node.

    `group_moments` are per group; ``side_moments[0, g]`` are the sums over all groups above group
    g, and ``side_moments[1, g]`` over all groups below group g + 1. `far_field` is indexed the same
    way.
    """
    n_groups = bounds.size - 1
    max_chunks = max(1, MAX_MOMENTS // (n_cells * ORDER))
    chunk_rows = max(CHUNK_ROWS, -(-(bounds[-1] - bounds[0]) // max_chunks))
    chunk_start = np.zeros(n_groups + 1, np.int64)
    for group in range(n_groups):
        rows = bounds[group + 1] - bounds[group]
        chunk_start[group + 1] = chunk_start[group] + -(-rows // chunk_rows)
    chunks = np.empty((chunk_start[-1], 2), np.int64)
    for group in range(n_groups):
        for chunk in range(chunk_start[group], chunk_start[group + 1]):
            first_row = bounds[group] + (chunk - chunk_start[group]) * chunk_rows
            chunks[chunk, 0] = first_row
            chunks[chunk, 1] = min(first_row + chunk_rows, bounds[group + 1])
    moments = np.zeros((len(chunks), n_cells, ORDER))
    group_moments = np.zeros((n_groups, n_cells, ORDER))
    side_moments = np.zeros((2, n_groups - 1, n_cells, ORDER))
    far_field = np.zeros((2, n_groups - 1, n_cells, FAR_FIELD_SIZE))
    local = np.zeros((n_groups, n_cells, 2 * ORDER))
    sums = np.zeros((n_groups * n_cells, 2))
    return chunks, chunk_start, moments, group_moments, side_moments, far_field, local, sums


@njit(**INNER)
def _cell_index(cell_id: float, cell_ids: Floats, contiguous: bool) -> int | np.int64:
    """Return the index of a cell in `cell_ids`."""
    if contiguous:
        return np.int64(cell_id - cell_ids[0])
    low, high = 0, cell_ids.size - 1
    while low < high:
        middle = (low + high) // 2
        if cell_ids[middle] < cell_id:
            low = middle + 1
        else:
            high = middle
    return low


@njit(**INNER)
def _is_contiguous(cell_ids: Floats) -> bool:
    return cell_ids[-1] - cell_ids[0] == cell_ids.size - 1


@njit(cache=True, nogil=True)
def _rows_to_moments(
    begin: int, end: int, chunks: Integers, scores: Floats, weight: Floats, cell_ids: Floats,
    moments: Floats,
) -> None:  # fmt: skip
    """Compute the moments of every chunk of rows (P2M)."""
    contiguous = _is_contiguous(cell_ids)
    for chunk in range(begin, end):
        chunk_moments = moments[chunk]
        for row in range(chunks[chunk, 0], chunks[chunk, 1]):
            scaled = scores[row] * CELLS_PER_UNIT
            cell_id = np.floor(scaled)
            x = 2.0 * (scaled - cell_id) - 1.0
            cell_moments = chunk_moments[_cell_index(cell_id, cell_ids, contiguous)]
            power = weight[row]
            for a in range(ORDER):
                cell_moments[a] += power
                power *= x


@njit(cache=True, nogil=True)
def _sum_sides(
    moments: Floats, chunk_start: Integers, cell_ids: Floats, exponentials: Floats,
    group_moments: Floats, side_moments: Floats, far_field: Floats,
) -> None:  # fmt: skip
    """Sum the moments over the groups above and below each group, and their far field."""
    n_groups = chunk_start.size - 1
    for group in range(n_groups):
        for chunk in range(chunk_start[group], chunk_start[group + 1]):
            group_moments[group] += moments[chunk]
    for group in range(1, n_groups):
        side_moments[1, group - 1] = group_moments[group - 1]
        if group > 1:
            side_moments[1, group - 1] += side_moments[1, group - 2]
        _far_field_sums(side_moments[1, group - 1], cell_ids, exponentials, far_field[1, group - 1])
    for group in range(n_groups - 2, -1, -1):
        side_moments[0, group] = group_moments[group + 1]
        if group < n_groups - 2:
            side_moments[0, group] += side_moments[0, group + 1]
        _far_field_sums(side_moments[0, group], cell_ids, exponentials, far_field[0, group])


@njit(cache=True, nogil=True)
def _far_field_sums(
    moments: Floats, cell_ids: Floats, exponentials: Floats, far_field: Floats
) -> None:
    """Sum over the cells more than `NEAR_CELLS` away, shifting the sums from cell to cell.

    The layout of a row of `far_field` is described at `FAR_FIELD_SIZE`.
    """
    n_cells = cell_ids.size
    for from_left in range(2):
        # `towards` the sources that are added up; from the left the odd powers change their sign.
        towards, first_term = 1 - 2 * from_left, N_TERMS * from_left
        sign, first_cell = float(towards), (n_cells - 1) * (1 - from_left)
        entering = first_cell
        for i in range(n_cells):
            cell = first_cell - towards * i
            previous = cell + towards if i > 0 else cell
            gap = abs(cell_ids[cell] - cell_ids[previous])
            if i > 0:
                step, decay = portable_exp(-gap / CELLS_PER_UNIT), 1.0
                for j in range(first_term, first_term + N_TERMS):
                    decay *= step
                    far_field[cell, j] = far_field[previous, j] * decay
                if from_left == 0:
                    far_field[cell, RIGHT_WEIGHT] = far_field[previous, RIGHT_WEIGHT]
                else:
                    weight = far_field[previous, LEFT_WEIGHT]
                    far_field[cell, LEFT_WEIGHT] = weight
                    moved = weight * (gap / CELLS_PER_UNIT)
                    far_field[cell, LEFT_DISTANCE] = far_field[previous, LEFT_DISTANCE] + moved
            while abs(cell_ids[entering] - cell_ids[cell]) > NEAR_CELLS:
                weight = moments[entering, 0]
                if weight != 0.0:
                    gap = abs(cell_ids[entering] - cell_ids[cell])
                    _add_exponentials(
                        moments, entering, exponentials, sign, gap, far_field, cell, first_term
                    )
                    if from_left == 0:
                        far_field[cell, RIGHT_WEIGHT] += weight
                    else:
                        distance = (weight * gap - 0.5 * moments[entering, 1]) / CELLS_PER_UNIT
                        far_field[cell, LEFT_WEIGHT] += weight
                        far_field[cell, LEFT_DISTANCE] += distance
                entering -= towards


@njit(**INLINED)
def _add_exponentials(
    moments: Floats, entering: int, exponentials: Floats, sign: float, gap: float,
    far_field: Floats, cell: int, first_term: int,
) -> None:  # fmt: skip
    """Add the exponential sums of a cell `gap` cells away."""
    step, decay = portable_exp(-gap / CELLS_PER_UNIT), 1.0
    for j in range(N_TERMS):
        decay *= step
        total, power = 0.0, 1.0
        for a in range(ORDER):
            total += exponentials[j, a] * power * moments[entering, a]
            power *= sign
        far_field[cell, first_term + j] += total * decay


@njit(cache=True, nogil=True)
def _moments_to_local(
    begin: int, end: int, cell_ids: Floats, above: Floats, below: Floats, group_moments: Floats,
    side_moments: Floats, far_field: Floats, local: Floats, sums: Floats,
) -> None:  # fmt: skip
    """Compute the local coefficients of cells (M2L), and value and gradient sum of their losers.

    `begin` and `end` count the cells of group 0, then those of group 1, ...
    """
    n_groups, n_cells = local.shape[0], local.shape[1]
    room = np.empty(above.shape[0] + 3 * ORDER)  # (each form of allocation is compiled)
    for a in range(room.size):
        room[a] = 0.0
    coefficients, sources = room[: 3 * ORDER], room[3 * ORDER :]
    for index in range(begin, end):
        group, cell = index // n_cells, index % n_cells
        cell_moments = group_moments[group, cell]
        if cell_moments[0] == 0.0:  # no row in this cell
            continue
        for a in range(coefficients.size):
            coefficients[a] = 0.0
        for below_group in range(2):  # sources in the groups above, then in those below
            side = group - below_group
            if side < 0 or side == n_groups - 1:
                continue
            _gather_sources(
                side_moments[below_group, side], far_field[below_group, side], cell_ids, cell,
                sources,
            )  # fmt: skip
            table = above if below_group == 0 else below
            _add_product(sources, table, coefficients[ORDER * below_group :])
            for a in range(ORDER * (1 - below_group)):
                sums[index, 0] += cell_moments[a] * coefficients[a]
                sums[index, 1] -= cell_moments[a] * coefficients[ORDER + 2 * a]
        for a in range(2 * ORDER):
            local[group, cell, a] = coefficients[ORDER + a]


@njit(**INLINED)
def _gather_sources(
    moments: Floats, far_field: Floats, cell_ids: Floats, cell: int, sources: Floats
) -> None:
    """Gather the near-field moments and far-field sums of a cell, in the order of the tables."""
    for a in range((2 * NEAR_CELLS + 1) * ORDER):
        sources[a] = 0.0
    first_near = cell
    while first_near > 0 and cell_ids[cell] - cell_ids[first_near - 1] <= NEAR_CELLS:
        first_near -= 1
    for near in range(first_near, cell_ids.size):
        gap = cell_ids[near] - cell_ids[cell]
        if not gap <= NEAR_CELLS:
            break
        position = np.int64(gap + NEAR_CELLS) * ORDER
        for a in range(ORDER):
            sources[position + a] = moments[near, a]
    for far in range(FAR_FIELD_SIZE):
        sources[(2 * NEAR_CELLS + 1) * ORDER + far] = far_field[cell, far]


@njit(**INLINED)
def _add_product(sources: Floats, table: Floats, coefficients: Floats) -> None:
    """Add `sources` times the table, eight rows at a time to save writes of `coefficients`."""
    for row in range(0, sources.size, 8):
        a, b, c, d = sources[row], sources[row + 1], sources[row + 2], sources[row + 3]
        e, f, g, h = sources[row + 4], sources[row + 5], sources[row + 6], sources[row + 7]
        if a == b == c == d == e == f == g == h == 0.0:
            continue
        rows = table[row : row + 8]
        for j in range(coefficients.size):
            coefficients[j] += (
                ((a * rows[0, j] + b * rows[1, j]) + (c * rows[2, j] + d * rows[3, j]))
                + ((e * rows[4, j] + f * rows[5, j]) + (g * rows[6, j] + h * rows[7, j]))
            )  # fmt: skip


@njit(cache=True, nogil=True)
def _local_to_rows(
    begin: int, end: int, chunks: Integers, chunk_start: Integers, scores: Floats, weight: Floats,
    cell_ids: Floats, loser_factor: float, local: Floats, pull: Floats, hessian: Floats,
) -> None:  # fmt: skip
    """Evaluate the local polynomials at every row and add to gradient and Hessian (L2P).

    Even and odd powers are evaluated separately, so that the two chains of operations overlap.
    """
    group, contiguous = 0, _is_contiguous(cell_ids)
    for chunk in range(begin, end):
        while chunk >= chunk_start[group + 1]:
            group += 1
        group_local = local[group]
        for row in range(chunks[chunk, 0], chunks[chunk, 1]):
            scaled = scores[row] * CELLS_PER_UNIT
            cell_id = np.floor(scaled)
            x = 2.0 * (scaled - cell_id) - 1.0
            square = x * x
            cell_local = group_local[_cell_index(cell_id, cell_ids, contiguous)]
            gradient, curvature = cell_local[2 * ORDER - 2], cell_local[2 * ORDER - 1]
            odd_gradient, odd_curvature = cell_local[2 * ORDER - 4], cell_local[2 * ORDER - 3]
            for a in range(ORDER - 3, 0, -2):
                gradient = gradient * square + cell_local[2 * a]
                curvature = curvature * square + cell_local[2 * a + 1]
                odd_gradient = odd_gradient * square + cell_local[2 * a - 2]
                odd_curvature = odd_curvature * square + cell_local[2 * a - 1]
            gradient = gradient * square + cell_local[0]
            curvature = curvature * square + cell_local[1]
            row_weight = weight[row] * loser_factor
            pull[row] += row_weight * (gradient + x * odd_gradient)
            hessian[row] += row_weight * (curvature + x * odd_curvature)


@njit(cache=True, nogil=True)
def _enumerate_splits(
    begin: int, end: int, split_start: Integers, split: Integers, is_small_split: Flags,
    scores: Floats, source: Floats, winners: bool, width: float, coefficients: Floats,
    totals: Floats,
) -> None:  # fmt: skip
    """Enumerate the small splits, with K evaluated as a piecewise polynomial (Clenshaw)."""
    kernels, n_cells, nodes = coefficients.shape
    zero_cell = n_cells // 2
    for row in range(split_start[begin], split_start[end]):
        if not is_small_split[row]:
            continue
        low, middle, high = split[row, 0], split[row, 1], split[row, 2]
        for winner in range(middle, high):
            for loser in range(low, middle):
                margin = scores[winner] - scores[loser]
                cell = int(np.floor(margin / width))
                x = 2.0 * (margin / width - cell) - 1.0
                from_row, to_row = (winner, loser) if winners else (loser, winner)
                if source[from_row] == 0.0:
                    continue
                for j in range(kernels):
                    b2, b1 = 0.0, 0.0
                    for a in range(nodes - 1, 0, -1):
                        b2, b1 = b1, 2.0 * x * b1 - b2 + coefficients[j, cell + zero_cell, a]
                    value = x * b1 - b2 + coefficients[j, cell + zero_cell, 0]
                    totals[j, to_row] += source[from_row] * value


@njit(cache=True, nogil=True)
def _chebyshev_moments(
    begin: int, end: int, chunk_rows: int, scores: Floats, source: Floats, origin: float,
    inverse_width: float, moments: Floats,
) -> None:  # fmt: skip
    """Compute the Chebyshev moments of chunks of rows."""
    nodes = moments.shape[2]
    for chunk in range(begin, end):
        for row in range(chunk * chunk_rows, min((chunk + 1) * chunk_rows, scores.size)):
            position = (scores[row] - origin) * inverse_width
            cell = int(position)
            x = 2.0 * (position - cell) - 1.0
            previous, current = source[row], source[row] * x
            cell_moments = moments[chunk, cell]
            cell_moments[0] += previous
            for a in range(1, nodes):
                cell_moments[a] += current
                previous, current = current, 2.0 * x * current - previous


@njit(cache=True, nogil=True)
def _evaluate_chebyshev(
    begin: int, end: int, scores: Floats, origin: float, inverse_width: float, local: Floats,
    totals: Floats,
) -> None:  # fmt: skip
    """Evaluate the local polynomials at every row (Clenshaw)."""
    kernels, _, nodes = local.shape
    for row in range(begin, end):
        position = (scores[row] - origin) * inverse_width
        cell = int(position)
        x = 2.0 * (position - cell) - 1.0
        twice = 2.0 * x
        j = 0
        while j + 1 < kernels:  # two at a time, so that their operations overlap
            local_1, local_2 = local[j, cell], local[j + 1, cell]
            b2, b1, c2, c1 = 0.0, 0.0, 0.0, 0.0
            for a in range(nodes - 1, 0, -1):
                b2, b1 = b1, twice * b1 - b2 + local_1[a]
                c2, c1 = c1, twice * c1 - c2 + local_2[a]
            totals[j, row] += x * b1 - b2 + local_1[0]
            totals[j + 1, row] += x * c1 - c2 + local_2[0]
            j += 2
        if j < kernels:
            local_1 = local[j, cell]
            b2, b1 = 0.0, 0.0
            for a in range(nodes - 1, 0, -1):
                b2, b1 = b1, twice * b1 - b2 + local_1[a]
            totals[j, row] += x * b1 - b2 + local_1[0]
