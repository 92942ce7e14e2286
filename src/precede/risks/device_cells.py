"""Logistic risk of long lists on a GPU: the sums of `logistic_cells`, in the same order.

Nodes of all depths are summed together; only the last step, which adds to the rows, goes depth by
depth. Nodes with more than `MAX_CELLS_PER_NODE` cells, or with gaps between cells, are summed on
the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from precede.engine import portable
from precede.engine.arrays import Array, Flags, Floats, Integers
from precede.engine.backend import Backend
from precede.engine.cuda import tiles
from precede.engine.execution import Context
from precede.risks.logistic_cells import (
    CELLS_PER_UNIT,
    CHUNK_ROWS,
    FAR_FIELD_SIZE,
    MAX_CELLS,
    MAX_DENSE_CELLS,
    MAX_MOMENTS,
    N_TERMS,
    NEAR_CELLS,
    ORDER,
    ROWS_PER_CELL,
    LevelNodes,
    transfer_tables,
)

MAX_CELLS_PER_NODE = 4096  # the far field is summed cell by cell, which is slow for more
MAX_SHARED_CELLS = 1024  # cells whose moments fit into shared memory
EXTREMES_ROWS = 8192  # rows in which one block of threads finds the lowest and the highest score
THREADS = 256  # of a block
MAX_READER_BLOCKS = 8  # blocks of threads that share a chunk of rows in the last step


class DeviceLevelNodes:
    """Nodes of all depths on a GPU.

    Parameters
    ----------
    device : Backend
    depths : nodes of each depth
    weight : of every row, on the GPU
    """

    def __init__(self, device: Backend, depths: Sequence[LevelNodes], weight: Any):
        self._device, self._depths, self._weight = device, depths, weight
        n_groups = [np.diff(nodes.start) - 1 for nodes in depths]
        self._n_groups = np.concatenate(n_groups)
        self._depth_start = np.cumsum([0, *map(len, n_groups)])
        bounds = [nodes.bounds for nodes in depths]
        is_group = [
            np.isin(np.arange(rows.size), nodes.start[1:] - 1, invert=True)
            for rows, nodes in zip(bounds, depths, strict=True)
        ]
        self._group_start = np.concatenate(
            [rows[chosen] for rows, chosen in zip(bounds, is_group, strict=True)]
        )
        self._group_end = np.concatenate(
            [rows[1:][chosen[:-1]] for rows, chosen in zip(bounds, is_group, strict=True)]
        )
        self._first_group = np.cumsum(self._n_groups) - self._n_groups
        self._loser_factor = np.concatenate([nodes.loser_factor for nodes in depths])
        n_nodes = self._n_groups.size
        self._node_of_group = np.repeat(np.arange(n_nodes), self._n_groups)
        self._nodes_on_device = device.put(self._node_of_group)
        last = self._first_group + self._n_groups - 1
        first_row, end_row = self._group_start[self._first_group], self._group_end[last]
        self.rows = end_row - first_row
        self._put_extremes_chunks(first_row, end_row)
        side = np.flatnonzero(np.arange(self._node_of_group.size) != last[self._node_of_group])
        sides = np.column_stack(
            [self._node_of_group[side], side - self._first_group[self._node_of_group[side]]]
        )
        self._sides = device.put(sides)
        steps = portable.exp(np.array([-1.0, -(NEAR_CELLS + 1.0)]) / CELLS_PER_UNIT)
        factors = np.cumprod([steps] * N_TERMS, axis=0).T
        tables = transfer_tables()
        self._tables = [
            device.put(table)
            for table in (tables.exponentials, tables.above, tables.below, factors)
        ]
        self._chunk_rows = np.zeros(0, np.int64)

    def _put_extremes_chunks(self, first_row: Integers, end_row: Integers) -> None:
        """Cut nodes into chunks for the search of their lowest and highest score."""
        start, count = tiles([int(rows) for rows in self.rows], EXTREMES_ROWS)
        node = np.repeat(np.arange(first_row.size), np.diff([*start, count]))
        first = first_row[node] + (np.arange(count) - np.array(start)[node]) * EXTREMES_ROWS
        self._extremes_chunks = self._device.put(
            np.column_stack([first, np.minimum(first + EXTREMES_ROWS, end_row[node]), node])
        )

    def add_gradients(self, scores: Any, pull: Floats, hessian: Any, context: Context) -> Any:
        """Add gradient and Hessian of all rows; return values and gradient sums of the nodes."""
        first_cell, n_cells = self._count_cells(scores)
        sums = self._device.zeros(2, n_cells.size)
        on_device = n_cells > 0
        local = nodes = None
        if on_device.any():
            nodes = self._lay_out(first_cell, n_cells)
            local = self._local_coefficients(scores, nodes, n_cells, sums)
        for depth in range(len(self._depths)):
            self._add_to_rows(depth, scores, nodes, local, pull, hessian)
            if not on_device[self._depth_start[depth] : self._depth_start[depth + 1]].all():
                self._sum_on_cpu(depth, on_device, scores, pull, hessian, context, sums)
        return sums

    def _count_cells(self, scores: Any) -> tuple[Floats, Integers]:
        """Return first cell and number of cells of every node; 0 cells if left to the CPU."""
        n_nodes = self._n_groups.size
        extremes = self._device.put(np.repeat(np.array([~np.uint64(0), np.uint64(0)]), n_nodes))
        self._device.launch(
            "cell_ends", len(self._extremes_chunks), THREADS, self._extremes_chunks, scores,
            extremes[:n_nodes], extremes[n_nodes:],
        )  # fmt: skip
        lowest, highest = _from_ordered_bits(self._device.get(extremes)).reshape(2, n_nodes)
        with np.errstate(invalid="ignore"):
            first_cell = np.floor(lowest * CELLS_PER_UNIT)
            n_cells = np.floor(highest * CELLS_PER_UNIT) - first_cell + 1.0
            # The conditions of `_list_cells` and `_sum_node`.
            on_device = n_cells <= np.minimum(
                np.maximum(MAX_DENSE_CELLS, self.rows // ROWS_PER_CELL), MAX_CELLS_PER_NODE
            )
            on_device &= (self._n_groups <= 2) | (n_cells * self._n_groups <= MAX_CELLS)
        return first_cell, np.where(on_device, n_cells, 0.0).astype(np.int64)

    def _lay_out(self, first_cell: Floats, n_cells: Integers) -> Any:
        """Build the `CellNode` structs of the kernels; cut rows into chunks if sizes changed."""
        max_chunks = np.maximum(1, MAX_MOMENTS // np.maximum(n_cells * ORDER, 1))
        chunk_rows = np.where(n_cells > 0, np.maximum(CHUNK_ROWS, -(-self.rows // max_chunks)), 0)
        if not np.array_equal(chunk_rows, self._chunk_rows):
            self._chunk_rows = chunk_rows
            self._cut_into_chunks()
        self._chunk_cell_ends = np.cumsum(n_cells[self._node_of_chunk])
        self._chunks[:, 3] = self._chunk_cell_ends - n_cells[self._node_of_chunk]
        self._chunks_on_device = self._device.put(self._chunks)
        group_cells, side_cells = n_cells * self._n_groups, n_cells * (self._n_groups - 1)
        self._group_cells, self._side_cells = int(group_cells.sum()), int(side_cells.sum())
        nodes = np.column_stack([
            first_cell.view(np.int64), self._loser_factor.view(np.int64), n_cells, self._n_groups,
            self._first_group, np.cumsum(group_cells) - group_cells,
            np.cumsum(side_cells) - side_cells,
        ])  # fmt: skip
        return self._device.put(nodes)

    def _cut_into_chunks(self) -> None:
        """Cut every group into chunks of rows; see `logistic_cells._allocate`."""
        chunk_rows = np.maximum(self._chunk_rows, 1)[self._node_of_group]
        rows = self._group_end - self._group_start
        n_chunks = np.where(self._chunk_rows[self._node_of_group] > 0, -(-rows // chunk_rows), 0)
        start = np.concatenate([[0], np.cumsum(n_chunks)])
        group = np.repeat(np.arange(n_chunks.size), n_chunks)
        first_row = (
            self._group_start[group] + (np.arange(group.size) - start[group]) * chunk_rows[group]
        )
        end_row = np.minimum(first_row + chunk_rows[group], self._group_end[group])
        self._node_of_chunk = self._node_of_group[group]
        self._chunks = np.column_stack([first_row, end_row, group, np.zeros_like(first_row)])
        self._chunk_start = self._device.put(start)
        depth_start = self._depth_start[:-1], self._depth_start[1:]
        bounds = np.searchsorted(self._node_of_chunk, depth_start)
        self._chunks_of_depth = list(zip(*bounds.tolist(), strict=True))
        self._max_chunk_rows = int(chunk_rows.max(initial=1))

    def _local_coefficients(
        self, scores: Any, nodes: Any, n_cells: Integers, node_sums: Any
    ) -> Any:
        """Return the local coefficients of all cells; fill values and gradient sums."""
        device, empty = self._device, self._device.xp.empty
        exponentials, above, below, factors = self._tables
        n_groups, n_sides = self._node_of_group.size, len(self._sides)
        max_cells = int(n_cells.max())
        moments = empty((int(self._chunk_cell_ends[-1]), ORDER), np.float64)
        group_moments = empty((self._group_cells, ORDER), np.float64)
        side_moments = empty((2, self._side_cells, ORDER), np.float64)
        far_field = empty((2, self._side_cells, FAR_FIELD_SIZE), np.float64)
        local = empty((self._group_cells, 2 * ORDER), np.float64)
        sums = empty((self._group_cells, 2), np.float64)
        shared_cells = min(max_cells, MAX_SHARED_CELLS)
        device.launch(
            "cell_moments", len(self._chunks), 32, self._chunks_on_device, self._nodes_on_device,
            nodes, scores, self._weight, shared_cells, moments, shared=8 * ORDER * shared_cells,
        )  # fmt: skip
        n_blocks = -(-max_cells * ORDER // THREADS)
        device.launch(
            "cell_groups", (n_groups, n_blocks), THREADS, self._chunks_on_device, self._chunk_start,
            self._nodes_on_device, nodes, moments, group_moments,
        )  # fmt: skip
        stride = self._side_cells
        device.launch(
            "cell_sides", (n_cells.size, n_blocks), THREADS, nodes, group_moments,
            np.int64(stride * ORDER), side_moments,
        )  # fmt: skip
        device.launch(
            "cell_far", (n_sides, 2), THREADS, self._sides, nodes, side_moments, np.int64(stride),
            exponentials, factors, far_field,
        )  # fmt: skip
        device.launch(
            "cell_meet", (n_groups, -(-max_cells // 8)), 256, self._nodes_on_device, nodes, above,
            below, group_moments, side_moments, far_field, np.int64(stride), local, sums,
        )  # fmt: skip
        device.launch(
            "cell_sums", n_cells.size, 128, nodes, sums, np.int64(n_cells.size), node_sums
        )
        return local

    def _add_to_rows(
        self, depth: int, scores: Any, nodes: Any, local: Any, pull: Floats, hessian: Any
    ) -> None:
        """Evaluate the local polynomials at the rows of one depth."""
        if nodes is None:
            return
        first, last = self._chunks_of_depth[depth]
        if last > first:
            readers = min(MAX_READER_BLOCKS, -(-self._max_chunk_rows // THREADS))
            self._device.launch(
                "cell_read", (last - first, readers), THREADS, self._chunks_on_device[first:last],
                self._nodes_on_device, nodes, scores, self._weight, local, pull, hessian,
            )  # fmt: skip

    def _sum_on_cpu(
        self, depth: int, on_device: Flags, scores: Any, pull: Floats, hessian: Any,
        context: Context, node_sums: Any,
    ) -> None:  # fmt: skip
        """Sum the remaining nodes of one depth on the CPU."""
        device, start = self._device, int(self._depth_start[depth])
        chosen = np.flatnonzero(~on_device[start : self._depth_start[depth + 1]])
        nodes = self._depths[depth].take(chosen)
        first_row, end_row = nodes.bounds[nodes.start[:-1]], nodes.bounds[nodes.start[1:] - 1]
        rows = np.concatenate(
            [np.arange(*bounds) for bounds in zip(first_row, end_row, strict=True)]
        )
        rows_on_device, host = device.put(rows), np.zeros((4, int(end_row.max())))
        arrays = [array[rows_on_device] for array in (scores, self._weight, pull, hessian)]
        host[:, rows] = device.get(device.xp.stack(arrays))
        sums = nodes.add_gradients(host[0], host[1], host[2], host[3], context)
        pull[rows_on_device], hessian[rows_on_device] = device.put(host[2:, rows])
        node_sums[:, device.put(start + chosen)] = device.put(sums.T)


def _from_ordered_bits(keys: Array) -> Floats:
    """Invert `ordered_bits` of the kernels."""
    sign = np.uint64(1 << 63)
    return np.where(keys >= sign, keys ^ sign, ~keys).view(np.float64)
