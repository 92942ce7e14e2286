"""Sums over pairs for any loss, by its form, without enumerating pairs.

For losers k and winners i of the same query, the risk needs

    over winners:  S_k = sum_{i above k} x_i K(s_i - s_k)      for every loser k
    over losers:   S_i = sum_{k below i} x_k K(s_i - s_k)      for every winner i

where K is the loss, its slope or its curvature. Levels of a query are split in halves again
and again: at each split every row of the upper half is above every row of the lower
half, so a split is a sum over *all* sources and targets, which the form of the loss makes
cheap. With L levels a row takes part in log2(L) splits.

Results are logarithms, because weights and prices may be astronomically large or small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numba import njit

from precede.engine.arrays import Flags, Floats, Integers
from precede.engine.compiling import INNER
from precede.engine.exact import all_reduce_max, sums_at
from precede.engine.execution import Context, is_small
from precede.engine.portable import cosines
from precede.engine.query_layout import QueryLayout
from precede.losses import PairLoss, Separable, Smooth, logarithm

__all__ = ["PairSums", "chebyshev", "finer", "order_of"]

Kernel = Callable[[Floats], Floats]

TILE = 2048  # side of the tiles in which a loss without a form is summed
# Beyond this many cells of the score axis interpolation is no longer worth its matrices.
MOST_CELLS = 4096
# Up to this many cells their matrices cost less than the polynomials they save.
FEW_CELLS = 400
LARGE = 1 << 15  # a split of so many rows is interpolated
LONG = 1 << 13  # a split of so many rows is sorted digit by digit, once for both directions


class PairSums:
    """Sums over the pairs of a layout for one loss.

    The kernels K are named ``"value"`` (l), ``"slope"`` (-l'), ``"curvature"`` (l'') and
    ``"square"`` (l'²); all are non-negative.
    """

    def __init__(self, layout: QueryLayout, loss: PairLoss, context: Context | None = None):
        self.layout = layout
        self.loss = loss
        self.context = context or Context(1)
        self.is_loser = _losers(layout)
        # Of all machines, which must ask each other for the same sums.
        self._any_graded = bool(all_reduce_max(lambda: layout.n_graded > 0, self.context))
        self._graded: _Separable | _Blocks
        form = loss.form
        if form is not None and form.kind == "separable":
            self._graded = _Separable(layout, form)
        else:
            blocks = {"spline": _SplineBlocks, "smooth": _SmoothBlocks}
            by_form = _Tiles if form is None else blocks[form.kind]
            self._graded = by_form(layout, loss, self.context)

    def over_winners(
        self, scores: Floats, log_source: Floats, kernels: Sequence[str]
    ) -> list[Floats]:
        """``log sum_{i above k} exp(log_source_i) K(s_i - s_k)`` for every row k."""
        return self._over(scores, log_source, kernels, winners=True)

    def over_losers(
        self, scores: Floats, log_source: Floats, kernels: Sequence[str]
    ) -> list[Floats]:
        """``log sum_{k below i} exp(log_source_k) K(s_i - s_k)`` for every row i."""
        return self._over(scores, log_source, kernels, winners=False)

    @property
    def by_levels_only(self) -> bool:
        """Whether there is no listed pair, and the sums are plain numbers before their log."""
        return not self.layout.any_listed and isinstance(self._graded, _Blocks)

    def linear(
        self, scores: Floats, source: Floats, kernels: Sequence[str], *, winners: bool
    ) -> Floats:
        """The sums themselves, where `by_levels_only`; sources should be at most 1 or so."""
        assert isinstance(self._graded, _Blocks)
        if self.loss.gap:
            scores = scores - self.layout.grade
        return self._graded.linear(scores, source, kernels, winners=winners)

    def squared_slopes(self, scores: Floats, log_source: Floats) -> Floats:
        """``log sum_k exp(log_source_k) (d/ds_i of what k pays because of i)²``.

        A pair that is both graded and listed pays twice before the square is taken.
        """
        largest = all_reduce_max(lambda: log_source.max(initial=-np.inf), self.context)
        if largest == -np.inf:  # a linear price: nothing is squared
            return np.full(scores.size, -np.inf)
        graded = self._graded_sums(scores, log_source, ("square",), winners=False)[0]
        winner, loser, weight = self._listed()
        if not winner.size:
            return graded
        grade, query = self.layout.grade, _query_of_row(self.layout)
        both = (query[winner] == query[loser]) & (query[winner] >= 0)
        both &= grade[winner] > grade[loser]
        if self.loss.gap:
            # The margins of such a pair differ, and so do the slopes, as do those of a pair
            # listed with several margins, whose entries are neighbors.
            first = np.ones(winner.size, bool)
            first[1:] = (np.diff(winner) != 0) | (np.diff(loser) != 0)
            start = np.flatnonzero(first)
            ours = weight * self.loss.slope(self._listed_margin(scores))
            ours = np.add.reduceat(ours, start)
            winner, loser, both = winner[start], loser[start], both[start]
            theirs = self.loss.slope(self._graded_margin(scores, winner, loser))
            theirs = np.where(both, theirs, 0.0)  # rows without a grade have no gap
            square = ours**2 + 2 * ours * theirs
        else:
            square = (weight**2 + 2 * both * weight) * self._kernel("square")(
                self._listed_margin(scores)
            )
        listed = _scatter_log(logarithm(square) + log_source[loser], winner, graded.size)
        return np.logaddexp(graded, listed)

    def _over(
        self, scores: Floats, log_source: Floats, kernels: Sequence[str], *, winners: bool
    ) -> list[Floats]:
        sums = self._graded_sums(scores, log_source, kernels, winners=winners)
        winner, loser, weight = self._listed()
        if not winner.size:
            return sums
        source, target = (winner, loser) if winners else (loser, winner)
        margin = self._listed_margin(scores)
        for j, name in enumerate(kernels):
            term = self._log_kernel(name, margin) + logarithm(weight) + log_source[source]
            sums[j] = np.logaddexp(sums[j], _scatter_log(term, target, scores.size))
        return sums

    def _graded_sums(
        self, scores: Floats, log_source: Floats, kernels: Sequence[str], *, winners: bool
    ) -> list[Floats]:
        count = self.layout.n_graded
        sums = [np.full(scores.size, -np.inf) for _ in kernels]
        if self._any_graded:
            graded = scores[:count]
            if self.loss.gap:
                graded = graded - self.layout.grade[:count]
            found = self._graded.sums(graded, log_source[:count], kernels, winners=winners)
            for whole, part in zip(sums, found, strict=True):
                whole[:count] = part
        return sums

    def _listed(self) -> tuple[Integers, Integers, Floats]:
        return self.layout.winner, self.layout.loser, self.layout.pair_weight

    def _listed_margin(self, scores: Floats) -> Floats:
        return self.layout.listed_margin(scores, gap=self.loss.gap)

    def _graded_margin(self, scores: Floats, winner: Integers, loser: Integers) -> Floats:
        grade = self.layout.grade
        return scores[winner] - scores[loser] - (grade[winner] - grade[loser])

    def _kernel(self, name: str) -> Kernel:
        return _kernel_of(self.loss, name)

    def _log_kernel(self, name: str, margin: Floats) -> Floats:
        form = self.loss.form
        if form is not None and form.kind == "separable":  # margins beyond the range of exp
            rate, constant = _exponent(form, name)
            return constant - rate * margin
        return logarithm(self._kernel(name)(margin))


# -- separable: sums by level ----------------------------------------------------------------


class _Separable:
    """Exponential loss: one logarithmic sum per level, cumulated inside each query."""

    def __init__(self, layout: QueryLayout, form: Separable):
        self._arrangement = layout
        self._form = form

    def sums(
        self, scores: Floats, log_source: Floats, kernels: Sequence[str], *, winners: bool
    ) -> list[Floats]:
        layout = self._arrangement
        sign = -1.0 if winners else 1.0
        results = []
        for name in kernels:
            rate, constant = _exponent(self._form, name)
            by_row = _log_sums_of_levels(
                log_source + sign * rate * scores,
                layout.level_start,
                layout.query_start,
                winners,
            )
            results.append(by_row - sign * rate * scores + constant)
        return results


def _exponent(form: Separable, name: str) -> tuple[float, float]:
    """Rate and logarithmic constant of each kernel of ``exp(-rate·m)``."""
    if name == "square":
        return 2 * form.rate, 2 * np.log(form.rate)
    order = {"value": 0, "slope": 1, "curvature": 2}[name]
    return form.rate, order * np.log(form.rate)


# -- the other forms: sums over splits -------------------------------------------------------


class _Blocks:
    """Splits of every query into an upper and a lower half, and sums over each split.

    A split is a row (low, middle, high) of positions: losers low..middle, winners middle..high.
    """

    def __init__(self, layout: QueryLayout, loss: PairLoss, context: Context):
        self.loss = loss
        self.context = context
        self.split, self.split_start = _splits(layout.level_start, layout.query_start)
        self.small = is_small("heavy rows", layout.n_graded)
        # Of all machines: it decides how finely the scores are cut.
        sizes = self.split[:, 2] - self.split[:, 0]
        self.largest = int(all_reduce_max(lambda: sizes.max(initial=0), context))

    def sums(
        self, scores: Floats, log_source: Floats, kernels: Sequence[str], *, winners: bool
    ) -> list[Floats]:
        largest = all_reduce_max(lambda: log_source.max(initial=-np.inf), self.context)
        if largest == -np.inf:
            return [np.full(scores.size, -np.inf) for _ in kernels]
        source = np.exp(log_source - largest)
        return [
            logarithm(total) + largest
            for total in self.linear(scores, source, kernels, winners=winners)
        ]

    def linear(
        self, scores: Floats, source: Floats, kernels: Sequence[str], *, winners: bool
    ) -> Floats:
        raise NotImplementedError(f"{type(self).__name__} must define linear")

    def _as_tiles(self) -> _Tiles:
        """The same splits, summed without a form."""
        tiles = _Tiles.__new__(_Tiles)
        tiles.__dict__.update(self.__dict__)
        return tiles


class _SplineBlocks(_Blocks):
    """Terms ``weight·(knot - m)_+^degree``: sort, then one sweep for each knot.

    A sweep only ever adds positive terms, so nothing cancels inside it; between terms of
    opposite sign the result is kept from falling below 0 by rounding.
    """

    def __init__(self, layout: QueryLayout, loss: PairLoss, context: Context):
        super().__init__(layout, loss, context)
        self._long = np.flatnonzero(self.split[:, 2] - self.split[:, 0] >= LONG)
        self._sorted = np.empty(0)
        self._orders: list[tuple[Integers, Integers]] = []

    def linear(
        self, scores: Floats, source: Floats, kernels: Sequence[str], *, winners: bool
    ) -> Floats:
        if "square" in kernels and len(self._terms()) > 1:
            # The square of a sum needs the products of its terms: leave it to the tiles.
            return self._as_tiles().linear(scores, source, kernels, winners=winners)
        totals = np.zeros((len(kernels), scores.size))
        self._sort(scores)
        for weight, knot, degree in self._terms():
            shapes = [_monomial(degree, name) for name in kernels]
            powers = np.array([power for _, power in shapes])
            part = np.zeros_like(totals)
            self.context.run(
                _polynomial_of_queries, self.split_start.size - 1, self.split_start, self.split,
                LONG, scores, source, winners, knot, powers, part, small=self.small,
            )  # fmt: skip
            for split, orders in zip(self.split[self._long], self._orders, strict=True):
                _polynomial_of_split(split, *orders, scores, source, winners, knot, powers, part)
            totals += weight * part * np.array([[constant] for constant, _ in shapes])
        return np.maximum(totals, 0.0)

    def _sort(self, scores: Floats) -> None:
        """Sort the two sides of every long split, unless that has just been done.

        The sums over winners and over losers need the same order, one after the other. The
        array may hold other scores than before, so they are compared.
        """
        if not self._long.size or np.array_equal(scores, self._sorted):
            return
        sides = [
            side for low, middle, high in self.split[self._long]
            for side in ((low, middle), (middle, high))
        ]  # fmt: skip

        def sort(first: int, last: int) -> list[Integers]:
            return [order_of(scores[low:high]) for low, high in sides[first:last]]

        orders = [order for part in self.context.run(sort, len(sides)) for order in part]
        self._sorted = scores.copy()
        self._orders = list(zip(orders[::2], orders[1::2], strict=True))

    def _terms(self) -> tuple[tuple[float, float, int], ...]:
        form = self.loss.form
        assert form is not None
        assert form.kind == "spline"
        return form.terms


def _monomial(degree: int, name: str) -> tuple[float, int]:
    """Constant and degree of each kernel of ``(knot - m)_+^degree``."""
    if name == "square":
        return float(degree**2), 2 * degree - 2
    order = {"value": 0, "slope": 1, "curvature": 2}[name]
    constant = float(np.prod(np.arange(degree, degree - order, -1)))
    return constant, max(degree - order, 0)


class _SmoothBlocks(_Blocks):
    """An analytic loss: sources and targets meet at Chebyshev polynomials of cells.

    The score axis is cut into cells of a given width. Inside a cell the sources become
    moments ``M_a = sum x_i T_a``; a pair of cells is a small matrix that depends only on
    how far apart they are; a target reads its sum off the polynomials of its cell. Splits
    too small for that are enumerated, with K read from a piecewise polynomial.
    """

    def linear(
        self, scores: Floats, source: Floats, kernels: Sequence[str], *, winners: bool
    ) -> Floats:
        form = self.loss.form
        assert form is not None
        assert form.kind == "smooth"
        ends = all_reduce_max(
            lambda: np.array([scores.max(initial=-np.inf), -scores.min(initial=np.inf)]),
            self.context,
        )
        origin, end = -float(ends[1]), float(ends[0])
        if (end - origin) / form.width > MOST_CELLS:
            return self._as_tiles().linear(scores, source, kernels, winners=winners)
        # Matrices between cells are for large splits alone; enumeration is better off with more.
        few = FEW_CELLS if self.largest < LARGE else FEW_CELLS // 4
        parts = next((p for p in (8, 4, 2) if p * (end - origin) / form.width <= few), 1)
        form = finer(form, parts)
        cells = int((end - origin) * (1.0 / form.width)) + 1  # as the kernels have it
        functions = [_kernel_of(self.loss, name) for name in kernels]
        totals = np.zeros((len(kernels), scores.size))
        small, large = self._by_size(cells, form.nodes)
        if small.any():
            near = np.stack([_piecewise(k, form, cells) for k in functions])
            self.context.run(
                _enumerated_queries, self.split_start.size - 1, self.split_start, self.split,
                small, scores, source, winners, form.width, near, totals, small=self.small,
            )  # fmt: skip
        if large.size:
            far = np.stack([_cell_matrices(k, form, cells) for k in functions])
            where = (origin, 1.0 / form.width)
            for low, middle, high in self.split[large]:
                split = (low, middle, high)
                self._interpolated(scores, source, split, winners, where, far, totals)
        return totals

    def _by_size(self, cells: int, nodes: int) -> tuple[Flags, Integers]:
        """Which splits to enumerate and which to interpolate, by a count of operations."""
        losers = self.split[:, 1] - self.split[:, 0]
        winners = self.split[:, 2] - self.split[:, 1]
        interpolated = (losers + winners) * 3.0 * nodes + float(cells) ** 2 * nodes**2 + 2e4
        small = losers * winners * float(nodes) < interpolated
        return small, np.flatnonzero(~small)

    def _interpolated(
        self, scores: Floats, source: Floats, split: tuple[int, int, int], winners: bool,
        where: tuple[float, float], far: Floats, totals: Floats,
    ) -> None:  # fmt: skip
        low, middle, high = split
        from_, to = ((middle, high), (low, middle)) if winners else ((low, middle), (middle, high))
        origin, density = where
        nodes = far.shape[-1]
        cells = (far.shape[1] + 1) // 2
        # Moments are added in blocks of fixed size, in order: any number of threads gives
        # the same bits.
        size = from_[1] - from_[0]
        blocks = -(-size // (1 << 15))
        moments = np.zeros((blocks, cells, nodes))
        self.context.run(
            _moments_of_blocks, blocks, 1 << 15, scores[from_[0] : from_[1]],
            source[from_[0] : from_[1]], origin, density, moments,
        )  # fmt: skip
        local = _meet(moments.sum(axis=0), far, winners)
        self.context.run(
            _read_locals, to[1] - to[0], scores[to[0] : to[1]], origin, density, local,
            totals[:, to[0] : to[1]],
        )  # fmt: skip


def finer(form: Smooth, parts: int) -> Smooth:
    """Cells cut into `parts`, with the fewer polynomials each that are as exact.

    Interpolation on a cell errs like ``rho^-nodes``, where ``rho - 1/rho`` is in proportion to
    ``1 / width``; the nodes declared are taken to reach 1e-15 on the width declared.

    >>> from precede.losses import Smooth
    >>> finer(Smooth(width=1.0, nodes=14), parts=8)
    Smooth(width=0.125, nodes=8)
    """
    if parts == 1:
        return form
    digits = 15 * np.log(10)
    rho = np.exp(digits / form.nodes)
    nodes = digits / np.arcsinh(parts * (rho - 1 / rho) / 2)
    return Smooth(form.width / parts, int(np.ceil(nodes)))


def _cell_matrices(kernel: Kernel, form: Smooth, cells: int) -> Floats:
    """Chebyshev coefficients of ``K(x - y)`` for cells 1-cells .. cells-1 apart."""
    points, to_coefficients = chebyshev(form.nodes)
    half = form.width / 2
    apart = np.arange(1 - cells, cells) * form.width
    margin = apart[:, None, None] + half * (points[None, :, None] - points[None, None, :])
    return to_coefficients @ kernel(margin) @ to_coefficients.T


def _piecewise(kernel: Kernel, form: Smooth, cells: int) -> Floats:
    """Chebyshev coefficients of ``K(m)`` on cells that cover every possible margin."""
    points, to_coefficients = chebyshev(form.nodes)
    center = (np.arange(-cells - 1, cells + 1) + 0.5) * form.width
    return kernel(center[:, None] + form.width / 2 * points[None, :]) @ to_coefficients.T


def chebyshev(nodes: int) -> tuple[Floats, Floats]:
    """Chebyshev points, and the matrix from values there to coefficients."""
    number = np.outer(np.arange(nodes), 2 * np.arange(nodes) + 1)
    matrix = cosines(number, 2 * nodes) * 2.0 / nodes
    matrix[0] /= 2
    return cosines(number[1], 2 * nodes), matrix


def _meet(moments: Floats, far: Floats, winners: bool) -> Floats:
    """Local coefficients of every cell from the moments of all cells, kernel by kernel.

    ``far[j, cells - 1 + c - c']`` holds the coefficients (a of the winner's cell c, b of the
    loser's cell c').
    """
    cells = moments.shape[0]
    full = np.flatnonzero(np.any(moments != 0, axis=1))
    local = np.zeros((far.shape[0], *moments.shape))
    for cell in range(cells):
        apart = cells - 1 + (full - cell if winners else cell - full)
        matrices = far[:, apart]
        along = "jcab,ca->jb" if winners else "jcab,cb->ja"
        local[:, cell] = np.einsum(along, matrices, moments[full])
    return local


class _Tiles(_Blocks):
    """Any loss at all: exact tiles in bounded memory, equal scores merged first, O(n²)."""

    def linear(
        self, scores: Floats, source: Floats, kernels: Sequence[str], *, winners: bool
    ) -> Floats:
        functions = [_kernel_of(self.loss, name) for name in kernels]
        totals = np.zeros((len(kernels), scores.size))
        for low, middle, high in self.split:
            above, below = slice(middle, high), slice(low, middle)
            giving, taking = (above, below) if winners else (below, above)
            level, where = np.unique(scores[giving], return_inverse=True)
            mass = np.bincount(where, source[giving]).astype(np.float64)
            target, back = np.unique(scores[taking], return_inverse=True)
            for j, kernel in enumerate(functions):
                found = _tiled(kernel, level, mass, target, 1.0 if winners else -1.0)
                totals[j, taking] += found[back]
        return totals


def _tiled(kernel: Kernel, source: Floats, mass: Floats, target: Floats, sign: float) -> Floats:
    total = np.zeros(target.size)
    for first in range(0, target.size, TILE):
        rows = target[first : first + TILE, None]
        for second in range(0, source.size, TILE):
            columns = source[None, second : second + TILE]
            total[first : first + TILE] += (
                kernel(sign * (columns - rows)) @ mass[second : second + TILE]
            )
    return total


def _kernel_of(loss: PairLoss, name: str) -> Kernel:
    kernels: dict[str, Kernel] = {
        "value": loss.value,
        "slope": lambda margin: -loss.slope(margin),
        "curvature": loss.curvature,
        "square": lambda margin: loss.slope(margin) ** 2,
    }
    return kernels[name]


def _losers(layout: QueryLayout) -> Flags:
    """Which rows have somebody who should rank above them."""
    loses = np.zeros(layout.n_used_rows, bool)
    loses[: layout.n_graded] = True
    for level in layout.query_start[1:] - 1:
        loses[layout.level_start[level] : layout.level_start[level + 1]] = False
    loses[layout.loser] = True
    return loses


def _query_of_row(layout: QueryLayout) -> Integers:
    first = layout.level_start[layout.query_start]
    query = np.repeat(np.arange(first.size - 1), np.diff(first))
    return np.concatenate([query, np.full(layout.n_used_rows - query.size, -1)])


def _scatter_log(log_values: Floats, target: Integers, size: int) -> Floats:
    """Logarithms of the sums of ``exp(log_values)`` that fall on each target."""
    largest = np.full(size, -np.inf)
    np.maximum.at(largest, target, log_values)
    base = np.where(np.isfinite(largest), largest, 0.0)
    total = sums_at(target, np.exp(log_values - base[target]), size)
    return logarithm(total) + base


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _log_sums_of_levels(
    values: Floats, level_start: Integers, query_start: Integers, winners: bool,
) -> Floats:  # fmt: skip
    """For each row, log of the sum of exp(values) over the levels above it (or below)."""
    result = np.full(level_start[-1], -np.inf)
    for query in range(query_start.size - 1):
        bottom, top = query_start[query], query_start[query + 1]
        running = -np.inf
        for j in range(top - bottom):
            level = top - 1 - j if winners else bottom + j
            first, last = level_start[level], level_start[level + 1]
            largest = -np.inf
            for row in range(first, last):
                result[row] = running
                largest = max(largest, values[row])
            if largest == -np.inf:
                continue
            total = 0.0
            for row in range(first, last):
                total += np.exp(values[row] - largest)
            here = largest + np.log(total)
            if running == -np.inf:
                running = here
            elif here > running:
                running = here + np.log1p(np.exp(running - here))
            else:
                running = running + np.log1p(np.exp(here - running))
    return result


@njit(cache=True, nogil=True)
def _splits(level_start: Integers, query_start: Integers) -> tuple[Integers, Integers]:
    """Halve the levels of every query down to single levels; L levels give L - 1 splits."""
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
            bottom, top = stack[depth, 0], stack[depth, 1]
            if top - bottom < 2:
                continue
            middle = (bottom + top) // 2
            splits[count, 0] = level_start[bottom]
            splits[count, 1] = level_start[middle]
            splits[count, 2] = level_start[top]
            count += 1
            stack[depth, 0], stack[depth, 1] = bottom, middle
            stack[depth + 1, 0], stack[depth + 1, 1] = middle, top
            depth += 2
        start[query + 1] = count
    return splits, start


@njit(cache=True, nogil=True)
def _polynomial_of_queries(
    begin: int, end: int, split_start: Integers, split: Integers, most: int, scores: Floats,
    source: Floats, winners: bool, knot: float, degrees: Integers, totals: Floats,
) -> None:  # fmt: skip
    """Sums over every split of fewer than `most` rows of the queries begin..end."""
    for row in range(split_start[begin], split_start[end]):
        low, middle, high = split[row, 0], split[row, 1], split[row, 2]
        if high - low < most:
            below, above = np.argsort(scores[low:middle]), np.argsort(scores[middle:high])
            _polynomial_of_split(
                split[row], below, above, scores, source, winners, knot, degrees, totals
            )


@njit(cache=True, nogil=True)
def _polynomial_of_split(
    split: Integers, below: Integers, above: Integers, scores: Floats, source: Floats,
    winners: bool, knot: float, degrees: Integers, totals: Floats,
) -> None:  # fmt: skip
    """Add sum_i x_i (t_k - a_i)_+^degree over one split, whose sides have been sorted.

    ::

        sources   a0    a1  a2          a3        a4       (sorted)
        targets         t0      t1  t2       t3            (sorted)

    Going right, moments M_j = sum x_i (t - a_i)^j of the sources passed so far follow from
    the ones before by the binomial theorem; every term is positive, so nothing cancels. The knot is
    subtracted from the winners in both directions, so that both agree on pairs near it.
    """
    low, middle = split[0], split[1]
    if winners:
        sign, by_give, by_take, first, offset = 1.0, above, below, middle, low
        of_source, of_target = knot, 0.0
    else:  # from the other end, all signs turned
        sign, by_give, by_take, first, offset = -1.0, below[::-1], above[::-1], low, middle
        of_source, of_target = 0.0, knot
    moment = np.zeros(degrees.max() + 1)
    at = 0.0
    passed = 0
    for k in by_take:
        target = sign * (scores[offset + k] - of_target)
        while passed < by_give.size:
            point = sign * (scores[first + by_give[passed]] - of_source)
            if not point < target:
                break
            if passed > 0:
                _advance(moment, point - at)
            at = point
            moment[0] += source[first + by_give[passed]]
            passed += 1
        if passed == 0:
            continue
        _advance(moment, target - at)
        at = target
        for j in range(degrees.size):
            totals[j, offset + k] += moment[degrees[j]]


@njit(cache=True, nogil=True)
def order_of(values: Floats) -> Integers:
    """Positions by rising value, equal ones as they stand: digits of eleven bits, lowest first.

    Of positive numbers the bits rise with the value; of negative ones they fall.
    """
    keys = np.empty(values.size, np.uint64)
    bits = values.view(np.uint64)
    top = np.uint64(1) << np.uint64(63)
    counts = np.zeros((6, 2048), np.int64)
    for row in range(values.size):
        key = ~bits[row] if bits[row] & top else bits[row] | top
        keys[row] = key
        for digit in range(6):
            counts[digit, (key >> np.uint64(11 * digit)) & np.uint64(2047)] += 1
    order, other = np.arange(values.size), np.empty(values.size, np.int64)
    for digit in range(6):
        if counts[digit].max() == values.size:  # the same digit everywhere
            continue
        start = np.cumsum(counts[digit]) - counts[digit]
        shift = np.uint64(11 * digit)
        for each in order:
            bucket = (keys[each] >> shift) & np.uint64(2047)
            other[start[bucket]] = each
            start[bucket] += 1
        order, other = other, order
    return order


@njit(**INNER)
def _advance(moment: Floats, by: float) -> None:
    """(t + by - a)^j from (t - a)^0 .. (t - a)^j, highest first."""
    for j in range(moment.size - 1, 0, -1):
        binomial = 1.0
        power = 1.0
        total = 0.0
        for m in range(j, -1, -1):  # terms C(j, m) by^(j-m) M_m
            total += binomial * power * moment[m]
            power *= by
            binomial = binomial * m / (j - m + 1)
        moment[j] = total


@njit(cache=True, nogil=True)
def _enumerated_queries(
    begin: int, end: int, split_start: Integers, split: Integers, small: Flags,
    scores: Floats, source: Floats, winners: bool, width: float, near: Floats, totals: Floats,
) -> None:  # fmt: skip
    """Plain enumeration of the small splits, K read from a piecewise polynomial."""
    kernels, cells, nodes = near.shape
    middle_cell = cells // 2
    for row in range(split_start[begin], split_start[end]):
        if not small[row]:
            continue
        low, middle, high = split[row, 0], split[row, 1], split[row, 2]
        for winner in range(middle, high):
            for loser in range(low, middle):
                margin = scores[winner] - scores[loser]
                cell = int(np.floor(margin / width))
                x = 2.0 * (margin / width - cell) - 1.0
                give, take = (winner, loser) if winners else (loser, winner)
                if source[give] == 0.0:
                    continue
                for j in range(kernels):
                    after, now = 0.0, 0.0
                    for a in range(nodes - 1, 0, -1):
                        after, now = now, 2.0 * x * now - after + near[j, cell + middle_cell, a]
                    value = x * now - after + near[j, cell + middle_cell, 0]
                    totals[j, take] += source[give] * value


@njit(cache=True, nogil=True)
def _moments_of_blocks(
    begin: int, end: int, block: int, scores: Floats, source: Floats, origin: float,
    density: float, moments: Floats,
) -> None:  # fmt: skip
    nodes = moments.shape[2]
    for number in range(begin, end):
        for item in range(number * block, min((number + 1) * block, scores.size)):
            position = (scores[item] - origin) * density
            cell = int(position)
            x = 2.0 * (position - cell) - 1.0
            before, now = source[item], source[item] * x
            row = moments[number, cell]
            row[0] += before
            for a in range(1, nodes):
                row[a] += now
                before, now = now, 2.0 * x * now - before


@njit(cache=True, nogil=True)
def _read_locals(
    begin: int, end: int, scores: Floats, origin: float, density: float, local: Floats,
    totals: Floats,
) -> None:  # fmt: skip
    kernels, _, nodes = local.shape
    for item in range(begin, end):
        position = (scores[item] - origin) * density
        cell = int(position)
        x = 2.0 * (position - cell) - 1.0
        twice = 2.0 * x
        j = 0
        while j + 1 < kernels:  # two at a time: neither waits for the other
            row, other = local[j, cell], local[j + 1, cell]
            after, now, after2, now2 = 0.0, 0.0, 0.0, 0.0
            for a in range(nodes - 1, 0, -1):
                after, now = now, twice * now - after + row[a]
                after2, now2 = now2, twice * now2 - after2 + other[a]
            totals[j, item] += x * now - after + row[0]
            totals[j + 1, item] += x * now2 - after2 + other[0]
            j += 2
        if j < kernels:
            row = local[j, cell]
            after, now = 0.0, 0.0
            for a in range(nodes - 1, 0, -1):
                after, now = now, twice * now - after + row[a]
            totals[j, item] += x * now - after + row[0]
