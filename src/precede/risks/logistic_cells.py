"""Logistic risk of long lists: value, gradient and Hessian in one pass, in O(n).

The score axis is cut into cells. In a cell the rows of a group of grades become moments
``M_a = sum_i w_i x_i^a``, where x runs from -1 to 1 over the cell. A kernel K (the loss, its
slope or its curvature) between two cells is a polynomial in both positions,

    K(s_i - s_k) = sum_ab C_ab x_i^a x_k^b,

so moments times C are a polynomial in the other cell, from which its rows read their sums:

* *Near* cells are met one by one. C depends only on how many cells they are apart.
* *Far* cells, with margins of at least `FAR`, are met all at once. There
  ``log(1 + exp(-m)) = exp(-m) - exp(-2m)/2 + exp(-3m)/3 - ...`` needs `TERMS` terms, each the
  product of an exponential of the winner and one of the loser; their sums over all cells
  further on are carried from cell to cell. For pairs far in the wrong order,
  ``log(1 + exp(-m)) = -m + log(1 + exp(m))``.

Only the series alternates, and its terms shrink by ``exp(-FAR)``; nothing else cancels, so that
small sums keep their digits. Relative errors are some 1e-14.

A query of several grades is a tree: a node divides its levels into groups, and every pair of two
groups is summed there. Groups of several levels are nodes again, or few enough to enumerate.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numba import njit

from precede.engine.arrays import Array, Floats, Integers
from precede.engine.compiling import INNER
from precede.engine.execution import Context, is_small
from precede.engine.portable import exp, log1p
from precede.engine.portable_kernels import portable_exp
from precede.engine.query_layout import QueryLayout
from precede.losses import PairLoss, Price
from precede.risks.base import State
from precede.risks.short_queries import EnumeratedRisk, sizes_of_runs
from precede.risks.smooth_line import least_on_points
from precede.risks.sweeps import chebyshev

__all__ = ["LogisticRisk", "Nodes", "cell_tables"]


# Cells for each unit of the score, a power of two: the position of a score in its cell is exact.
DENSITY = 4.0
NODES = 9  # coefficients of a polynomial: errors of some 1e-15 on cells of this width
# Margin from which on the loss is a sum of exponentials, and how many: the next one would be
# less than 1e-15 of the sum, of the curvature too.
FAR, TERMS = 3.0, 13
NEAR = 12  # cells up to the margin FAR
# What a cell knows of all far cells: the terms from the right and from the left, the weight on
# the left, its distance, and the weight on the right.
FAR_FIELD = 2 * TERMS + 3
# Cells are counted from the lowest score, empty ones too, unless there would be more than this
# and more than one for so many rows; then only cells with a row are kept, by their number.
MANY_CELLS, ROWS_OF_CELL = 1024, 16
BLOCK = 1 << 14  # rows whose moments are added in order, whatever the number of threads
MOST_MOMENTS = 1 << 22  # numbers in the moments of all blocks together
# Cells of all groups of a node together; a node with more is summed as a tree of two groups each.
MOST_CELLS = 1 << 17
LARGE = 1 << 16  # rows of a node that all threads work on together
# What a node costs, in pairs that are enumerated meanwhile (measured, scores some 10 apart): for
# each row, and for each group that is met from above or below.
PAIRS_OF_ROW, PAIRS_OF_SIDE = 6, 10_000
# A node with many levels has one group for so many rows, but no more than MOST_GROUPS.
ROWS_OF_GROUP = 2048
MOST_GROUPS = 32


class LogisticRisk(EnumeratedRisk):
    """Logistic loss with a linear price: long lists by cells, what is left by enumeration.

    With L grades in a list of n rows O(n log L) time, and O(n log n) where scores are far apart.
    As in all layouts, `outer` must be `weight` times a factor of the query.
    """

    def __init__(
        self, layout: QueryLayout, loss: PairLoss, cost: Price, context: Context | None = None
    ):
        super().__init__(layout, loss, cost, context)
        runs, self._depths = _plan(layout)
        self._set_runs(runs)

    def _sum_graded(self, scores: Floats, pull: Floats, hessian: Floats) -> Floats:
        """Add what is enumerated, then the nodes depth by depth, where no row is in two of them."""
        weight, sums = self.layout.weight, [super()._sum_graded(scores, pull, hessian)]
        for nodes in self._depths:
            sums.append(nodes.add_to(scores, weight, pull, hessian, self.context))
        return np.concatenate(sums)

    def search_line(self, state: State, values: Array) -> tuple[float, bool]:
        """On a few points that stand for many rows where that is possible and worth it."""
        least = least_on_points(self, state, values)
        return self.line_search(state, values) if least is None else (least, False)


# -- which pairs are summed where ------------------------------------------------------------


@dataclass(frozen=True)
class Nodes:
    """Nodes that have no row in common.

    Groups of node j begin at ``bounds[start[j]]``, ``bounds[start[j] + 1]``, ..., and the last
    one ends at ``bounds[start[j + 1] - 1]``. `factor` is `outer` over `weight`.
    """

    start: Integers
    bounds: Integers
    factor: Floats

    def add_to(
        self, scores: Floats, weight: Floats, pull: Floats, hessian: Floats, context: Context
    ) -> Floats:
        """Add gradient and Hessian of all rows; gives value and mass of every node."""
        sums = np.zeros((self.factor.size, 2))
        rows = self.bounds[self.start[1:] - 1] - self.bounds[self.start[:-1]]
        small, tables = np.flatnonzero(rows < LARGE), cell_tables()
        context.run(
            _sum_nodes, small.size, small, self.start, self.bounds, self.factor, scores, weight,
            tables.powers, tables.above, tables.below, pull, hessian, sums,
            small=is_small("heavy rows", int(rows[small].sum())),
        )  # fmt: skip
        for node in np.flatnonzero(rows >= LARGE):
            bounds = self.bounds[self.start[node] : self.start[node + 1]]
            factor = self.factor[node]
            sums[node] = _sum_large_node(bounds, scores, weight, factor, pull, hessian, context)
        return sums

    def some(self, chosen: Integers) -> Nodes:
        """Some of the nodes."""
        bounds = [self.bounds[self.start[each] : self.start[each + 1]] for each in chosen]
        start = np.cumsum([0, *map(len, bounds)])
        return Nodes(start, np.concatenate(bounds), self.factor[chosen])


def _sum_large_node(
    bounds: Integers, scores: Floats, weight: Floats, factor: float, pull: Floats, hessian: Floats,
    context: Context,
) -> Floats:  # fmt: skip
    """One node by all threads: its value and mass."""
    here = scores[bounds[0] : bounds[-1]]
    ends = context.run(
        lambda low, high: (here[low:high].min(), here[low:high].max()),
        here.size,
        small=is_small("rows", here.size),
    )
    least, greatest = np.array(ends).min(axis=0)[0], np.array(ends).max(axis=0)[1]
    numbers = _numbers(here, least, greatest)
    if len(bounds) > 3 and numbers.size * (len(bounds) - 1) > MOST_CELLS:
        middle = len(bounds) // 2
        parts = [bounds[[0, middle, -1]], bounds[: middle + 1], bounds[middle:]]
        rest = scores, weight, factor, pull, hessian, context
        return np.sum([_sum_large_node(each, *rest) for each in parts if len(each) > 2], axis=0)
    blocks, block_start, moments, own, sides, far_field, local, sums = _room(bounds, numbers.size)
    tables = cell_tables()
    context.run(_moments_of_blocks, len(blocks), blocks, scores, weight, numbers, moments)
    _gather(moments, block_start, numbers, tables.powers, own, sides, far_field)
    context.run(
        _meet, len(sums), numbers, tables.above, tables.below, own, sides, far_field, local, sums,
        small=is_small("heavy rows", 8 * len(sums)),
    )  # fmt: skip
    context.run(
        _read_blocks, len(blocks), blocks, block_start, scores, weight, numbers, factor, local,
        pull, hessian,
    )  # fmt: skip
    return factor * _in_order(sums)


def _plan(layout: QueryLayout) -> tuple[Integers, list[Nodes]]:
    """Runs of levels to enumerate, and the nodes by depth."""
    level_start, query_start = layout.level_start, layout.query_start
    open_ = np.column_stack([query_start[:-1], query_start[1:]])
    runs, depths = [], []
    while len(open_):
        rows, pairs = sizes_of_runs(level_start, open_)
        # The fewest sides are two: more groups than two are for many rows.
        long = pairs > PAIRS_OF_ROW * rows + 2 * PAIRS_OF_SIDE
        cuts = [_groups(level_start, int(bottom), int(top)) for bottom, top in open_[long]]
        runs.append(open_[~long])
        if cuts:
            depths.append(_nodes([level_start[each] for each in cuts], layout))
        inner = [pair for each in cuts for pair in pairwise(each) if pair[1] - pair[0] > 1]
        open_ = np.array(inner, np.int64).reshape(-1, 2)
    return np.concatenate([np.zeros((0, 2), np.int64), *runs]), depths


def _nodes(bounds: list[Integers], layout: QueryLayout) -> Nodes:
    heaviest = [b[0] + int(np.argmax(layout.weight[b[0] : b[-1]])) for b in bounds]
    return Nodes(
        start=np.cumsum([0, *map(len, bounds)]),
        bounds=np.concatenate(bounds),
        factor=layout.loser_weight[heaviest] / layout.weight[heaviest],
    )


def _groups(level_start: Integers, bottom: int, top: int) -> Integers:
    """Levels at which the groups of a node begin, and its end: groups of about equal size."""
    start = level_start[bottom : top + 1]
    rows = start[-1] - start[0]
    most = max(2, min(MOST_GROUPS, int(rows) // ROWS_OF_GROUP))
    if top - bottom <= most:
        return np.arange(bottom, top + 1)
    middle = start[:-1] + start[1:] - 2 * start[0]
    group = middle * most // (2 * rows)
    cuts = bottom + 1 + np.flatnonzero(np.diff(group))
    return np.concatenate([[bottom], cuts, [top]])


# -- polynomials between cells ---------------------------------------------------------------


@dataclass(frozen=True)
class _Tables:
    """What the polynomials of the cells have to do with each other.

    A row of `above` or `below` belongs to one number that a cell knows of the others: the moments
    of the cells at most `NEAR` away, then the `FAR_FIELD` numbers of the far ones. The columns are
    the coefficients of the sums over the winners above a row, or the losers below it: of the value
    (in `above` only), then by turns of pull and curvature. Rows of zeros make their number a
    multiple of eight. `powers` are the coefficients of
    ``exp(-j h x / 2)`` for the cell width h and j = 1 .. `TERMS`.
    """

    powers: Floats
    above: Floats
    below: Floats


@lru_cache(maxsize=1)
def cell_tables() -> _Tables:
    """The tables, made once."""
    points, to_coefficients = chebyshev(NODES)
    to_powers = _product(_powers_of_chebyshev().T, to_coefficients)
    half = 0.5 / DENSITY
    powers = _product(exp(-half * np.outer(np.arange(1.0, TERMS + 1), points)), to_powers.T)
    apart = np.arange(-NEAR, NEAR + 1) / DENSITY
    # By cells apart, point of the source and point of the target; sources on the right are above.
    ahead = apart[:, None, None] + half * (points[None, :, None] - points[None, None, :])
    tables = []
    for sign in (1.0, -1.0):
        known = np.concatenate([_near_rows(ahead, sign, to_powers), _far_rows(powers, sign > 0)])
        tables.append(np.concatenate([known, np.zeros((-len(known) % 8, 3 * NODES))]))
    return _Tables(powers, tables[0], np.ascontiguousarray(tables[1][:, NODES:]))


def _product(one: Floats, other: Floats) -> Floats:
    """Matrix product, summed in order: that of NumPy depends on the processor."""
    found = one[..., :, :1] * other[..., :1, :]
    for j in range(1, other.shape[-2]):
        found = found + one[..., :, j : j + 1] * other[..., j : j + 1, :]
    return found


def _powers_of_chebyshev() -> Floats:
    """Coefficients of the Chebyshev polynomials, one polynomial in each row."""
    found = np.eye(NODES)
    for a in range(2, NODES):
        found[a] = 2.0 * np.roll(found[a - 1], 1) - found[a - 2]
    return found


def _near_rows(ahead: Floats, sign: float, to_powers: Floats) -> Floats:
    """Rows of the near cells; the margin is `sign` times how far the source is ahead."""
    margin = sign * ahead
    small = exp(-np.abs(margin))
    value = log1p(small) + np.maximum(-margin, 0.0)
    slope = -np.where(margin > 0, small, 1.0) / (1.0 + small)
    kernels = value, sign * slope, small / ((1.0 + small) * (1.0 + small))
    value, pull, hessian = (_product(_product(to_powers, each), to_powers.T) for each in kernels)
    return np.concatenate([value, _by_turns(pull, hessian)], axis=-1).reshape(-1, 3 * NODES)


def _far_rows(powers: Floats, above: bool) -> Floats:
    """Rows of what a cell knows of the far ones."""
    number = np.arange(1.0, TERMS + 1)[:, None]
    from_left = np.where(number % 2 == 1, 1.0, -1.0) * powers
    from_right = from_left * (-1.0) ** np.arange(NODES)
    rows = [
        np.concatenate([each / number, _by_turns(sign * each, number * each)], axis=1)
        for each, sign in ((from_right, -1.0), (from_left, 1.0))
    ]
    weight_left, distance, weight_right = np.zeros((3, 1, 3 * NODES))
    if above:  # winners far on the left: a loss of -m, a slope of 1
        weight_left[0, 1], weight_left[0, NODES] = 0.5 / DENSITY, -1.0
        distance[0, 0] = 1.0
    else:
        weight_right[0, NODES] = 1.0
    return np.concatenate([*rows, weight_left, distance, weight_right])


def _by_turns(pull: Floats, hessian: Floats) -> Floats:
    return np.stack([pull, hessian], axis=-1).reshape(*pull.shape[:-1], -1)


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _sum_nodes(
    begin: int, end: int, chosen: Integers, start: Integers, bounds: Integers, factor: Floats,
    scores: Floats, weight: Floats, powers: Floats, above: Floats, below: Floats, pull: Floats,
    hessian: Floats, sums: Floats,
) -> None:  # fmt: skip
    for at in range(begin, end):
        node = chosen[at]
        groups = bounds[start[node] : start[node + 1]]
        _sum_node(groups, scores, weight, factor[node], powers, above, below, pull, hessian,
                  sums[node])  # fmt: skip


@njit(**INNER)
def _sum_node(
    bounds: Integers, scores: Floats, weight: Floats, factor: float, powers: Floats,
    above: Floats, below: Floats, pull: Floats, hessian: Floats, total: Floats,
) -> None:  # fmt: skip
    """One node by one thread, as `_sum_large_node` does it."""
    here = scores[bounds[0] : bounds[-1]]
    numbers = _numbers(here, here.min(), here.max())
    if bounds.size > 3 and numbers.size * (bounds.size - 1) > MOST_CELLS:
        middle = bounds.size // 2
        two = np.array([bounds[0], bounds[middle], bounds[-1]])
        for part in (two, bounds[: middle + 1], bounds[middle:]):
            if part.size > 2:
                _sum_node(part, scores, weight, factor, powers, above, below, pull, hessian, total)
        return
    blocks, block_start, moments, own, sides, far_field, local, sums = _room(bounds, numbers.size)
    _moments_of_blocks(0, len(blocks), blocks, scores, weight, numbers, moments)
    _gather(moments, block_start, numbers, powers, own, sides, far_field)
    _meet(0, len(sums), numbers, above, below, own, sides, far_field, local, sums)
    _read_blocks(0, len(blocks), blocks, block_start, scores, weight, numbers, factor, local,
                 pull, hessian)  # fmt: skip
    total += factor * _in_order(sums)


@njit(cache=True, nogil=True)
def _numbers(scores: Floats, least: float, greatest: float) -> Floats:
    """Numbers of the cells, rising: all from the first to the last, or those that hold a row."""
    first = np.floor(least * DENSITY)
    cells = np.floor(greatest * DENSITY) - first + 1.0
    # A score that is no number is greater than nothing, and must find no cell out of bounds.
    if cells <= max(MANY_CELLS, scores.size // ROWS_OF_CELL):
        return first + np.arange(np.int64(cells))
    return np.unique(np.floor(scores * DENSITY))


@njit(cache=True, nogil=True)
def _room(
    bounds: Integers, cells: int,
) -> tuple[Integers, Integers, Floats, Floats, Floats, Floats, Floats, Floats]:  # fmt: skip
    """Blocks of rows, group by group, and arrays for what is known of the cells.

    `own` has the moments of every group; ``sides[0, g]`` those of all groups above group g, and
    ``sides[1, g]`` those of all groups below group g + 1. `far_field` is counted as `sides`.
    """
    groups = bounds.size - 1
    most = max(1, MOST_MOMENTS // (cells * NODES))
    size = max(BLOCK, -(-(bounds[-1] - bounds[0]) // most))
    block_start = np.zeros(groups + 1, np.int64)
    for group in range(groups):
        rows = bounds[group + 1] - bounds[group]
        block_start[group + 1] = block_start[group] + -(-rows // size)
    blocks = np.empty((block_start[-1], 2), np.int64)
    for group in range(groups):
        for block in range(block_start[group], block_start[group + 1]):
            low = bounds[group] + (block - block_start[group]) * size
            blocks[block, 0], blocks[block, 1] = low, min(low + size, bounds[group + 1])
    moments = np.zeros((len(blocks), cells, NODES))
    own = np.zeros((groups, cells, NODES))
    sides = np.zeros((2, groups - 1, cells, NODES))
    far_field = np.zeros((2, groups - 1, cells, FAR_FIELD))
    local = np.zeros((groups, cells, 2 * NODES))
    sums = np.zeros((groups * cells, 2))
    return blocks, block_start, moments, own, sides, far_field, local, sums


@njit(**INNER)
def _cell_of(number: float, numbers: Floats, without_gap: bool) -> int | np.int64:
    """Where a cell stands among `numbers`."""
    if without_gap:
        return np.int64(number - numbers[0])
    low, high = 0, numbers.size - 1
    while low < high:
        middle = (low + high) // 2
        if numbers[middle] < number:
            low = middle + 1
        else:
            high = middle
    return low


@njit(**INNER)
def _have_no_gap(numbers: Floats) -> bool:
    return numbers[-1] - numbers[0] == numbers.size - 1


@njit(cache=True, nogil=True)
def _moments_of_blocks(
    begin: int, end: int, blocks: Integers, scores: Floats, weight: Floats, numbers: Floats,
    moments: Floats,
) -> None:  # fmt: skip
    """Moments of every block."""
    without_gap = _have_no_gap(numbers)
    for block in range(begin, end):
        of_cells = moments[block]
        for item in range(blocks[block, 0], blocks[block, 1]):
            position = scores[item] * DENSITY
            number = np.floor(position)
            x = 2.0 * (position - number) - 1.0
            row = of_cells[_cell_of(number, numbers, without_gap)]
            power = weight[item]
            for a in range(NODES):
                row[a] += power
                power *= x


@njit(cache=True, nogil=True)
def _gather(
    moments: Floats, block_start: Integers, numbers: Floats, powers: Floats, own: Floats,
    sides: Floats, far_field: Floats,
) -> None:  # fmt: skip
    """Moments of the groups above and below each group, and what far cells tell of them."""
    groups = block_start.size - 1
    for group in range(groups):
        for block in range(block_start[group], block_start[group + 1]):
            own[group] += moments[block]
    for group in range(1, groups):
        sides[1, group - 1] = own[group - 1]
        if group > 1:
            sides[1, group - 1] += sides[1, group - 2]
        _carry(sides[1, group - 1], numbers, powers, far_field[1, group - 1])
    for group in range(groups - 2, -1, -1):
        sides[0, group] = own[group + 1]
        if group < groups - 2:
            sides[0, group] += sides[0, group + 1]
        _carry(sides[0, group], numbers, powers, far_field[0, group])


@njit(**INNER)
def _carry(moments: Floats, numbers: Floats, powers: Floats, far_field: Floats) -> None:
    """Sums over the cells more than `NEAR` away, from cell to cell; see `FAR_FIELD`."""
    cells = numbers.size
    other = np.empty(powers.shape)
    for a in range(NODES):
        other[:, a] = powers[:, a] * (1.0 - 2.0 * (a % 2))
    enters = cells - 1
    for cell in range(cells - 1, -1, -1):
        here = far_field[cell]
        if cell < cells - 1:
            _decay(far_field[cell + 1, :TERMS], numbers[cell + 1] - numbers[cell], here[:TERMS])
            here[FAR_FIELD - 1] = far_field[cell + 1, FAR_FIELD - 1]
        while numbers[enters] - numbers[cell] > NEAR:
            _enter(moments[enters], powers, numbers[enters] - numbers[cell], here[:TERMS])
            here[FAR_FIELD - 1] += moments[enters, 0]
            enters -= 1
    enters = 0
    for cell in range(cells):
        here = far_field[cell]
        if cell > 0:
            before, gap = far_field[cell - 1], numbers[cell] - numbers[cell - 1]
            _decay(before[TERMS : 2 * TERMS], gap, here[TERMS : 2 * TERMS])
            here[FAR_FIELD - 3] = before[FAR_FIELD - 3]
            here[FAR_FIELD - 2] = before[FAR_FIELD - 2] + before[FAR_FIELD - 3] * (gap / DENSITY)
        while numbers[cell] - numbers[enters] > NEAR:
            row, gap = moments[enters], numbers[cell] - numbers[enters]
            _enter(row, other, gap, here[TERMS : 2 * TERMS])
            here[FAR_FIELD - 3] += row[0]
            here[FAR_FIELD - 2] += (row[0] * gap - 0.5 * row[1]) / DENSITY
            enters += 1


@njit(**INNER)
def _decay(before: Floats, gap: float, here: Floats) -> None:
    """Exponentials of a cell from those of the cell before, `gap` cells away."""
    step, factor = portable_exp(-gap / DENSITY), 1.0
    for j in range(TERMS):
        factor *= step
        here[j] = before[j] * factor


@njit(cache=True, nogil=True)
def _enter(row: Floats, powers: Floats, gap: float, here: Floats) -> None:
    """Add the exponentials of the rows of a cell `gap` cells away."""
    if row[0] == 0.0:
        return
    step, factor = portable_exp(-gap / DENSITY), 1.0
    for j in range(TERMS):
        factor *= step
        total = 0.0
        for a in range(NODES):
            total += powers[j, a] * row[a]
        here[j] += total * factor


@njit(cache=True, nogil=True)
def _meet(
    begin: int, end: int, numbers: Floats, above: Floats, below: Floats, own: Floats, sides: Floats,
    far_field: Floats, local: Floats, sums: Floats,
) -> None:  # fmt: skip
    """Polynomials of the cells, counted group by group; value and mass of their losers."""
    groups, cells = local.shape[0], local.shape[1]
    known, found = np.zeros(above.shape[0]), np.empty(3 * NODES)
    for count in range(begin, end):
        group, cell = count // cells, count % cells
        here = own[group, cell]
        if here[0] == 0.0:  # no row is here
            continue
        found[:] = 0.0
        if group < groups - 1:
            _know(sides[0, group], far_field[0, group], numbers, cell, known)
            _add_rows(known, above, found)
            for a in range(NODES):
                sums[count, 0] += here[a] * found[a]
                sums[count, 1] -= here[a] * found[NODES + 2 * a]
        if group > 0:
            _know(sides[1, group - 1], far_field[1, group - 1], numbers, cell, known)
            _add_rows(known, below, found[NODES:])
        local[group, cell] = found[NODES:]


@njit(**INNER)
def _know(moments: Floats, far_field: Floats, numbers: Floats, cell: int, known: Floats) -> None:
    """What a cell knows of the others, in the order of the rows of `_Tables`."""
    known[: (2 * NEAR + 1) * NODES] = 0.0
    first = cell
    while first > 0 and numbers[cell] - numbers[first - 1] <= NEAR:
        first -= 1
    for near in range(first, numbers.size):
        gap = numbers[near] - numbers[cell]
        if not gap <= NEAR:
            break
        row = np.int64(gap + NEAR) * NODES
        for a in range(NODES):
            known[row + a] = moments[near, a]
    for far in range(FAR_FIELD):
        known[(2 * NEAR + 1) * NODES + far] = far_field[cell, far]


@njit(**INNER)
def _add_rows(known: Floats, table: Floats, found: Floats) -> None:
    """Add `known` times the table, eight rows at a time, so that `found` is seldom written."""
    for row in range(0, known.size, 8):
        a, b, c, d = known[row], known[row + 1], known[row + 2], known[row + 3]
        e, f, g, h = known[row + 4], known[row + 5], known[row + 6], known[row + 7]
        if a == b == c == d == e == f == g == h == 0.0:
            continue
        rows = table[row : row + 8]
        for j in range(found.size):
            found[j] += (
                ((a * rows[0, j] + b * rows[1, j]) + (c * rows[2, j] + d * rows[3, j]))
                + ((e * rows[4, j] + f * rows[5, j]) + (g * rows[6, j] + h * rows[7, j]))
            )  # fmt: skip


@njit(cache=True, nogil=True)
def _read_blocks(
    begin: int, end: int, blocks: Integers, block_start: Integers, scores: Floats,
    weight: Floats, numbers: Floats, factor: float, local: Floats, pull: Floats, hessian: Floats,
) -> None:  # fmt: skip
    """Add to pull and curvature of every row the polynomials of its cell.

    Even and odd powers apart: the two sums do not wait for each other.
    """
    group, without_gap = 0, _have_no_gap(numbers)
    for block in range(begin, end):
        while block >= block_start[group + 1]:
            group += 1
        of_cells = local[group]
        for item in range(blocks[block, 0], blocks[block, 1]):
            position = scores[item] * DENSITY
            number = np.floor(position)
            x = 2.0 * (position - number) - 1.0
            square = x * x
            row = of_cells[_cell_of(number, numbers, without_gap)]
            up, second = row[2 * NODES - 2], row[2 * NODES - 1]
            odd_up, odd_second = row[2 * NODES - 4], row[2 * NODES - 3]
            for a in range(NODES - 3, 0, -2):
                up = up * square + row[2 * a]
                second = second * square + row[2 * a + 1]
                odd_up = odd_up * square + row[2 * a - 2]
                odd_second = odd_second * square + row[2 * a - 1]
            up = up * square + row[0]
            second = second * square + row[1]
            own = weight[item] * factor
            pull[item] += own * (up + x * odd_up)
            hessian[item] += own * (second + x * odd_second)


@njit(cache=True, nogil=True)
def _in_order(sums: Floats) -> Floats:
    total = np.zeros(2)
    for row in range(sums.shape[0]):
        total[0] += sums[row, 0]
        total[1] += sums[row, 1]
    return total
