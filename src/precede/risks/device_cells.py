"""Logistic risk of long lists on a GPU: the sums of `logistic_cells`, cell by cell, in its order.

All nodes of all depths are summed together; only the rows read their sums depth by depth. Nodes
with more than `MOST` cells, or with gaps between their cells, are left to the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from precede.engine import portable
from precede.engine.arrays import Array, Flags, Floats, Integers
from precede.engine.cuda import Device, tiles
from precede.engine.execution import Context
from precede.risks.logistic_cells import (
    BLOCK,
    DENSITY,
    FAR_FIELD,
    MANY_CELLS,
    MOST_CELLS,
    MOST_MOMENTS,
    NEAR,
    NODES,
    ROWS_OF_CELL,
    TERMS,
    Nodes,
    cell_tables,
)

__all__ = ["DeviceNodes"]

# Cells of a node; the sums of the CPU would not be worse with more, but the far ones are summed
# one after the other.
MOST = 4096
# Cells whose moments a block of rows sums up in shared memory.
HELD = 1024
# Rows of a piece whose least and greatest score are found by one block of threads.
PIECE = 8192
# Threads of a block, and blocks that share the rows that are summed in order.
THREADS, READERS = 256, 8


class DeviceNodes:
    """The nodes of all depths on a device.

    Parameters
    ----------
    device : Device
    depths : the nodes of each depth
    weight : of every row, on the device
    """

    def __init__(self, device: Device, depths: Sequence[Nodes], weight: Any):
        self._device, self._depths, self._weight = device, depths, weight
        sizes = [np.diff(each.start) - 1 for each in depths]  # groups of each node
        self._groups = np.concatenate(sizes)
        self._depth_start = np.cumsum([0, *map(len, sizes)])
        bounds = [each.bounds for each in depths]
        inner = [
            np.isin(np.arange(b.size), each.start[1:] - 1, invert=True)
            for b, each in zip(bounds, depths, strict=True)
        ]
        self._low = np.concatenate([b[here] for b, here in zip(bounds, inner, strict=True)])
        self._high = np.concatenate(
            [b[1:][here[:-1]] for b, here in zip(bounds, inner, strict=True)]
        )
        self._first_group = np.cumsum(self._groups) - self._groups
        self._factor = np.concatenate([each.factor for each in depths])
        count = self._groups.size
        self._node = np.repeat(np.arange(count), self._groups)
        self._node_on_device = device.put(self._node)
        last = self._first_group + self._groups - 1
        begin, end = self._low[self._first_group], self._high[last]
        self.rows = end - begin
        self._put_pieces(begin, end)
        side = np.flatnonzero(np.arange(self._node.size) != last[self._node])
        of_side = np.column_stack([self._node[side], side - self._first_group[self._node[side]]])
        self._of_side = device.put(of_side)
        steps = portable.exp(np.array([-1.0, -(NEAR + 1.0)]) / DENSITY)
        factors = np.cumprod([steps] * TERMS, axis=0).T
        known = cell_tables()
        self._tables = [
            device.put(each) for each in (known.powers, known.above, known.below, factors)
        ]
        self._size = np.zeros(0, np.int64)

    def _put_pieces(self, begin: Integers, end: Integers) -> None:
        start, count = tiles([int(each) for each in self.rows], PIECE)
        node = np.repeat(np.arange(begin.size), np.diff([*start, count]))
        low = begin[node] + (np.arange(count) - np.array(start)[node]) * PIECE
        self._pieces = self._device.put(
            np.column_stack([low, np.minimum(low + PIECE, end[node]), node])
        )

    def add_to(self, scores: Any, pull: Floats, hessian: Any, context: Context) -> Any:
        """Add gradient and Hessian of all rows; gives values and masses of the nodes."""
        first, cells = self._cells(scores)
        found = self._device.zeros(2, cells.size)
        regular = cells > 0
        local = nodes = None
        if regular.any():
            nodes = self._layout(first, cells)
            local = self._polynomials(scores, nodes, cells, found)
        for depth in range(len(self._depths)):
            self._read(depth, scores, nodes, local, pull, hessian)
            if not regular[self._depth_start[depth] : self._depth_start[depth + 1]].all():
                self._leave_to_cpu(depth, regular, scores, pull, hessian, context, found)
        return found

    def _cells(self, scores: Any) -> tuple[Floats, Integers]:
        """Number of the first cell of every node, and how many there are; 0 if it is left out."""
        count = self._groups.size
        ends = self._device.put(np.repeat(np.array([~np.uint64(0), np.uint64(0)]), count))
        self._device.launch(
            "cell_ends",
            len(self._pieces),
            THREADS,
            self._pieces,
            scores,
            ends[:count],
            ends[count:],
        )
        least, greatest = _from_ordered_bits(self._device.get(ends)).reshape(2, count)
        with np.errstate(invalid="ignore"):
            first = np.floor(least * DENSITY)
            cells = np.floor(greatest * DENSITY) - first + 1.0
            # As `_numbers` and `_sum_node` decide it.
            regular = cells <= np.minimum(np.maximum(MANY_CELLS, self.rows // ROWS_OF_CELL), MOST)
            regular &= (self._groups <= 2) | (cells * self._groups <= MOST_CELLS)
        return first, np.where(regular, cells, 0.0).astype(np.int64)

    def _layout(self, first: Floats, cells: Integers) -> Any:
        """The `CellNode`s of the kernels; and blocks of rows, if they are not those at hand."""
        most = np.maximum(1, MOST_MOMENTS // np.maximum(cells * NODES, 1))
        size = np.where(cells > 0, np.maximum(BLOCK, -(-self.rows // most)), 0)
        if not np.array_equal(size, self._size):
            self._size = size
            self._cut_into_blocks()
        self._block_start_of_cells = np.cumsum(cells[self._node_of_block])
        self._blocks[:, 3] = self._block_start_of_cells - cells[self._node_of_block]
        self._blocks_on_device = self._device.put(self._blocks)
        of_groups, of_sides = cells * self._groups, cells * (self._groups - 1)
        self._cells_of_groups, self._cells_of_sides = int(of_groups.sum()), int(of_sides.sum())
        nodes = np.column_stack([
            first.view(np.int64), self._factor.view(np.int64), cells, self._groups,
            self._first_group, np.cumsum(of_groups) - of_groups, np.cumsum(of_sides) - of_sides,
        ])  # fmt: skip
        return self._device.put(nodes)

    def _cut_into_blocks(self) -> None:
        """Cut every group into blocks of rows; see `_room`."""
        size, rows = np.maximum(self._size, 1)[self._node], self._high - self._low
        count = np.where(self._size[self._node] > 0, -(-rows // size), 0)
        start = np.concatenate([[0], np.cumsum(count)])
        group = np.repeat(np.arange(count.size), count)
        low = self._low[group] + (np.arange(group.size) - start[group]) * size[group]
        high = np.minimum(low + size[group], self._high[group])
        self._node_of_block = self._node[group]
        self._blocks = np.column_stack([low, high, group, np.zeros_like(low)])
        self._block_start = self._device.put(start)
        depth_start = self._depth_start[:-1], self._depth_start[1:]
        of_node = np.searchsorted(self._node_of_block, depth_start)
        self._blocks_of_depth = list(zip(*of_node.tolist(), strict=True))
        self._most_rows = int(size.max(initial=1))

    def _polynomials(self, scores: Any, nodes: Any, cells: Integers, found: Any) -> Any:
        """Polynomials of all cells; `found` gets values and masses."""
        device, empty = self._device, self._device.arrays.empty
        powers, above, below, factors = self._tables
        widest, groups, sides = int(cells.max()), self._node.size, len(self._of_side)
        moments = empty((int(self._block_start_of_cells[-1]), NODES), np.float64)
        own = empty((self._cells_of_groups, NODES), np.float64)
        side = empty((2, self._cells_of_sides, NODES), np.float64)
        far_field = empty((2, self._cells_of_sides, FAR_FIELD), np.float64)
        local = empty((self._cells_of_groups, 2 * NODES), np.float64)
        sums = empty((self._cells_of_groups, 2), np.float64)
        held = min(widest, HELD)
        device.launch(
            "cell_moments", len(self._blocks), 32, self._blocks_on_device, self._node_on_device,
            nodes,
            scores, self._weight, held, moments, shared=8 * NODES * held,
        )  # fmt: skip
        wide = -(-widest * NODES // THREADS)
        device.launch(
            "cell_groups", (groups, wide), THREADS, self._blocks_on_device, self._block_start,
            self._node_on_device, nodes, moments, own,
        )  # fmt: skip
        step = self._cells_of_sides
        device.launch(
            "cell_sides", (cells.size, wide), THREADS, nodes, own, np.int64(step * NODES), side
        )
        device.launch(
            "cell_far", (sides, 2), THREADS, self._of_side, nodes, side, np.int64(step), powers,
            factors, far_field,
        )  # fmt: skip
        device.launch(
            "cell_meet", (groups, -(-widest // 8)), 256, self._node_on_device, nodes, above, below,
            own, side, far_field, np.int64(step), local, sums,
        )  # fmt: skip
        device.launch("cell_sums", cells.size, 128, nodes, sums, np.int64(cells.size), found)
        return local

    def _read(
        self, depth: int, scores: Any, nodes: Any, local: Any, pull: Floats, hessian: Any
    ) -> None:
        """Add to the rows of a depth what their cells know."""
        if nodes is None:
            return
        low, high = self._blocks_of_depth[depth]
        if high > low:
            readers = min(READERS, -(-self._most_rows // THREADS))
            self._device.launch(
                "cell_read", (high - low, readers), THREADS, self._blocks_on_device[low:high],
                self._node_on_device, nodes, scores, self._weight, local, pull, hessian,
            )  # fmt: skip

    def _leave_to_cpu(
        self, depth: int, regular: Flags, scores: Any, pull: Floats, hessian: Any, context: Context,
        found: Any,
    ) -> None:  # fmt: skip
        """Sum the other nodes of a depth on the CPU."""
        device, start = self._device, int(self._depth_start[depth])
        chosen = np.flatnonzero(~regular[start : self._depth_start[depth + 1]])
        nodes = self._depths[depth].some(chosen)
        begin, end = nodes.bounds[nodes.start[:-1]], nodes.bounds[nodes.start[1:] - 1]
        rows = np.concatenate([np.arange(*each) for each in zip(begin, end, strict=True)])
        there, here = device.put(rows), np.zeros((4, int(end.max())))
        given = [each[there] for each in (scores, self._weight, pull, hessian)]
        here[:, rows] = device.get(device.arrays.stack(given))
        sums = nodes.add_to(here[0], here[1], here[2], here[3], context)
        pull[there], hessian[there] = device.put(here[2:, rows])
        found[:, device.put(start + chosen)] = device.put(sums.T)


def _from_ordered_bits(keys: Array) -> Floats:
    """Numbers from the integers of `ordered_bits` in the kernels."""
    sign = np.uint64(1 << 63)
    return np.where(keys >= sign, keys ^ sign, ~keys).view(np.float64)
