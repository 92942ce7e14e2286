"""Sums over pairs for any loss, with a fast method for each form of loss.

For losers k and winners i of the same query, the risk needs

    over winners:  S_k = sum_{i above k} x_i K(s_i - s_k)      for every loser k
    over losers:   S_i = sum_{k below i} x_k K(s_i - s_k)      for every winner i

where x are the weights of the sources and K is the loss, its slope or its curvature. The levels of
a query are halved recursively. At each split every row of the upper half is above every row of the
lower half, so a split is a sum over *all* sources and targets, cheap for most forms of loss::

    levels    0 1 2 3          rows of levels 0, 1 lose against rows of levels 2, 3
             0 1 | 2 3
            0 | 1  2 | 3       with L levels a row is in log2(L) splits

Results are logarithms, because weights and prices may be extremely large or small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from precede.engine.arrays import Flags, Floats, Integers
from precede.engine.compiling import INNER, njit
from precede.engine.exact import all_reduce_max, sums_at
from precede.engine.execution import Context, is_small
from precede.engine.portable import cosines
from precede.engine.query_layout import QueryLayout
from precede.losses import PairLoss, Separable, Smooth, logarithm

Kernel = Callable[[Floats], Floats]

TILE_ROWS = 2048  # rows and columns of a tile of pairs
MAX_CELLS = 4096  # with more, the matrices between cells cost more than they save
MAX_REFINED_CELLS = 400  # cells are refined up to this number, which saves polynomials
LARGE_SPLIT_ROWS = 1 << 15  # with a split of this size, cells are refined less
MIN_RADIX_ROWS = 1 << 13  # longer splits are sorted by radix, once for both directions


class PairSums:
    """Sums over the pairs of a layout for one loss.

    The kernels K are named ``"value"`` (l), ``"slope"`` (-l'), ``"curvature"`` (l'') and
    ``"square"`` (l'²); all are non-negative.
    """

    def __init__(self, layout: QueryLayout, loss: PairLoss, context: Context | None = None):
        self.layout = layout
        self.loss = loss
        self.context = context or Context(1)
        self.is_loser = _find_losers(layout)
        # The same on all machines, which must take part in the same reductions.
        self._any_graded = bool(all_reduce_max(lambda: layout.n_graded > 0, self.context))
        self._graded: _SeparableSums | _SplitSums
        form = loss.form
        if form is not None and form.kind == "separable":
            self._graded = _SeparableSums(layout, form)
        else:
            classes = {"spline": _SplineSums, "smooth": _SmoothSums}
            cls = _TiledSums if form is None else classes[form.kind]
            self._graded = cls(layout, loss, self.context)

    def over_winners(
        self, scores: Floats, log_source: Floats, kernels: Sequence[str]
    ) -> list[Floats]:
        """Return ``log sum_{i above k} exp(log_source_i) K(s_i - s_k)`` for every row k."""
        return self._sum_pairs(scores, log_source, kernels, winners=True)

    def over_losers(
        self, scores: Floats, log_source: Floats, kernels: Sequence[str]
    ) -> list[Floats]:
        """Return ``log sum_{k below i} exp(log_source_k) K(s_i - s_k)`` for every row i."""
        return self._sum_pairs(scores, log_source, kernels, winners=False)

    @property
    def has_plain_sums(self) -> bool:
        """Whether `plain_sums` is available: no explicit pair and no separable loss."""
        return not self.layout.has_explicit_pairs and isinstance(self._graded, _SplitSums)

    def plain_sums(
        self, scores: Floats, source: Floats, kernels: Sequence[str], *, winners: bool
    ) -> Floats:
        """Return the sums, not logarithms, for sources up to about 1; only if `has_plain_sums`."""
        assert isinstance(self._graded, _SplitSums)
        if self.loss.gap:
            scores = scores - self.layout.grade
        return self._graded.plain_sums(scores, source, kernels, winners=winners)

    def squared_slopes(self, scores: Floats, log_source: Floats) -> Floats:
        """Return ``log sum_k exp(log_source_k) (d u_k / d s_i)²``, where u_k sums the losses of k.

        For a pair that is both graded and explicit the two slopes are added before squaring.
        """
        largest = all_reduce_max(lambda: log_source.max(initial=-np.inf), self.context)
        if largest == -np.inf:  # linear price
            return np.full(scores.size, -np.inf)
        graded = self._graded_sums(scores, log_source, ("square",), winners=False)[0]
        winner, loser, weight = self._explicit_pairs()
        if not winner.size:
            return graded
        grade, query = self.layout.grade, _query_of_row(self.layout)
        is_graded = (query[winner] == query[loser]) & (query[winner] >= 0)
        is_graded &= grade[winner] > grade[loser]
        if self.loss.gap:
            # A pair that is graded and explicit, or explicit several times (in adjacent entries),
            # has several margins and slopes.
            is_first = np.ones(winner.size, bool)
            is_first[1:] = (np.diff(winner) != 0) | (np.diff(loser) != 0)
            start = np.flatnonzero(is_first)
            explicit_slope = weight * self.loss.slope(self._explicit_margin(scores))
            explicit_slope = np.add.reduceat(explicit_slope, start)
            winner, loser, is_graded = winner[start], loser[start], is_graded[start]
            graded_slope = self.loss.slope(self._graded_margin(scores, winner, loser))
            # Rows without a grade have no margin in grades.
            graded_slope = np.where(is_graded, graded_slope, 0.0)
            square = explicit_slope**2 + 2 * explicit_slope * graded_slope
        else:
            square = (weight**2 + 2 * is_graded * weight) * self._kernel("square")(
                self._explicit_margin(scores)
            )
        explicit = _scatter_log(logarithm(square) + log_source[loser], winner, graded.size)
        return np.logaddexp(graded, explicit)

    def _sum_pairs(
        self, scores: Floats, log_source: Floats, kernels: Sequence[str], *, winners: bool
    ) -> list[Floats]:
        sums = self._graded_sums(scores, log_source, kernels, winners=winners)
        winner, loser, weight = self._explicit_pairs()
        if not winner.size:
            return sums
        source, target = (winner, loser) if winners else (loser, winner)
        margin = self._explicit_margin(scores)
        for j, name in enumerate(kernels):
            term = self._log_kernel(name, margin) + logarithm(weight) + log_source[source]
            sums[j] = np.logaddexp(sums[j], _scatter_log(term, target, scores.size))
        return sums

    def _graded_sums(
        self, scores: Floats, log_source: Floats, kernels: Sequence[str], *, winners: bool
    ) -> list[Floats]:
        n_graded = self.layout.n_graded
        sums = [np.full(scores.size, -np.inf) for _ in kernels]
        if self._any_graded:
            graded_scores = scores[:n_graded]
            if self.loss.gap:
                graded_scores = graded_scores - self.layout.grade[:n_graded]
            graded_sums = self._graded.sums(
                graded_scores, log_source[:n_graded], kernels, winners=winners
            )
            for result, graded in zip(sums, graded_sums, strict=True):
                result[:n_graded] = graded
        return sums

    def _explicit_pairs(self) -> tuple[Integers, Integers, Floats]:
        return self.layout.winner, self.layout.loser, self.layout.pair_weight

    def _explicit_margin(self, scores: Floats) -> Floats:
        return self.layout.explicit_pair_margins(scores, gap=self.loss.gap)

    def _graded_margin(self, scores: Floats, winner: Integers, loser: Integers) -> Floats:
        grade = self.layout.grade
        return scores[winner] - scores[loser] - (grade[winner] - grade[loser])

    def _kernel(self, name: str) -> Kernel:
        return _kernel_of(self.loss, name)

    def _log_kernel(self, name: str, margin: Floats) -> Floats:
        form = self.loss.form
        if form is not None and form.kind == "separable":
            # The logarithm itself, because margins may be beyond the range of exp.
            rate, constant = _exponent(form, name)
            return constant - rate * margin
        return logarithm(self._kernel(name)(margin))


# -- separable: sums by level ----------------------------------------------------------------


class _SeparableSums:
    """Exponential loss: one logarithmic sum per level, cumulated within each query."""

    def __init__(self, layout: QueryLayout, form: Separable):
        self._layout = layout
        self._form = form

    def sums(
        self, scores: Floats, log_source: Floats, kernels: Sequence[str], *, winners: bool
    ) -> list[Floats]:
        layout = self._layout
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
    """Return rate and logarithmic constant of a kernel of ``exp(-rate·m)``."""
    if name == "square":
        return 2 * form.rate, 2 * np.log(form.rate)
    order = {"value": 0, "slope": 1, "curvature": 2}[name]
    return form.rate, order * np.log(form.rate)


# -- other forms: sums over splits -----------------------------------------------------------


class _SplitSums:
    """Recursive splits of every query into an upper and a lower half, and sums over each split.

    A split is a row (low, middle, high) of positions: losers low..middle, winners middle..high.
    """

    def __init__(self, layout: QueryLayout, loss: PairLoss, context: Context):
        self.loss = loss
        self.context = context
        self.split, self.split_start = _halve_levels(layout.level_start, layout.query_start)
        self.small = is_small("heavy rows", layout.n_graded)
        # The same on all machines, because it determines the cells.
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
            for total in self.plain_sums(scores, source, kernels, winners=winners)
        ]

    def plain_sums(
        self, scores: Floats, source: Floats, kernels: Sequence[str], *, winners: bool
    ) -> Floats:
        raise NotImplementedError(f"{type(self).__name__} must define plain_sums")

    def _as_tiles(self) -> _TiledSums:
        """Return the same splits, summed by tiles."""
        tiles = _TiledSums.__new__(_TiledSums)
        tiles.__dict__.update(self.__dict__)
        return tiles


class _SplineSums(_SplitSums):
    """Terms ``weight·(knot - m)_+^degree``: sort, then one scan per knot.

    A scan only adds positive terms, so nothing cancels inside it; between terms of opposite sign
    the result is clipped at 0.
    """

    def __init__(self, layout: QueryLayout, loss: PairLoss, context: Context):
        super().__init__(layout, loss, context)
        self._long_splits = np.flatnonzero(self.split[:, 2] - self.split[:, 0] >= MIN_RADIX_ROWS)
        self._sorted = np.empty(0)
        self._orders: list[tuple[Integers, Integers]] = []

    def plain_sums(
        self, scores: Floats, source: Floats, kernels: Sequence[str], *, winners: bool
    ) -> Floats:
        if "square" in kernels and len(self._spline_terms()) > 1:
            # The square of a sum has products of different terms.
            return self._as_tiles().plain_sums(scores, source, kernels, winners=winners)
        totals = np.zeros((len(kernels), scores.size))
        self._sort(scores)
        for weight, knot, degree in self._spline_terms():
            monomials = [_monomial(degree, name) for name in kernels]
            powers = np.array([power for _, power in monomials])
            term_sums = np.zeros_like(totals)
            self.context.run(
                _scan_short_splits, self.split_start.size - 1, self.split_start, self.split,
                MIN_RADIX_ROWS, scores, source, winners, knot, powers, term_sums, small=self.small,
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

        orders = [order for chunk in self.context.run(sort, len(sides)) for order in chunk]
        self._sorted = scores.copy()
        self._orders = list(zip(orders[::2], orders[1::2], strict=True))

    def _spline_terms(self) -> tuple[tuple[float, float, int], ...]:
        form = self.loss.form
        assert form is not None
        assert form.kind == "spline"
        return form.terms


def _monomial(degree: int, name: str) -> tuple[float, int]:
    """Return constant and degree of a kernel of ``(knot - m)_+^degree``."""
    if name == "square":
        return float(degree**2), 2 * degree - 2
    order = {"value": 0, "slope": 1, "curvature": 2}[name]
    constant = float(np.prod(np.arange(degree, degree - order, -1)))
    return constant, max(degree - order, 0)


class _SmoothSums(_SplitSums):
    """An analytic loss: a fast multipole method with Chebyshev polynomials.

    The score axis is cut into cells of a given width. Inside a cell the sources become moments
    ``M_a = sum x_i T_a``; the interaction of two cells is a small matrix that depends only on their
    distance; a target evaluates the local polynomials of its cell. Small splits are enumerated
    instead, with K evaluated as a piecewise polynomial.
    """

    def plain_sums(
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
        if (end - origin) / form.width > MAX_CELLS:
            return self._as_tiles().plain_sums(scores, source, kernels, winners=winners)
        # Only large splits need matrices between cells; enumeration is faster with small cells.
        max_cells = MAX_REFINED_CELLS if self.largest < LARGE_SPLIT_ROWS else MAX_REFINED_CELLS // 4
        parts = next((n for n in (8, 4, 2) if n * (end - origin) / form.width <= max_cells), 1)
        form = refine_cells(form, parts)
        cells = int((end - origin) * (1.0 / form.width)) + 1  # the same rounding as in the kernels
        functions = [_kernel_of(self.loss, name) for name in kernels]
        totals = np.zeros((len(kernels), scores.size))
        is_small_split, large_splits = self._choose_method(cells, form.nodes)
        if is_small_split.any():
            coefficients = np.stack([_piecewise_coefficients(k, form, cells) for k in functions])
            self.context.run(
                _enumerate_splits, self.split_start.size - 1, self.split_start, self.split,
                is_small_split, scores, source, winners, form.width, coefficients, totals,
                small=self.small,
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
        origin, inverse_width = grid
        nodes = matrices.shape[-1]
        cells = (matrices.shape[1] + 1) // 2
        # The chunk size is fixed, so that the bits do not depend on the number of threads.
        n_sources = sources[1] - sources[0]
        n_chunks = -(-n_sources // (1 << 15))
        moments = np.zeros((n_chunks, cells, nodes))
        self.context.run(
            _rows_to_moments, n_chunks, 1 << 15, scores[sources[0] : sources[1]],
            source[sources[0] : sources[1]], origin, inverse_width, moments,
        )  # fmt: skip
        local = _moments_to_local(moments.sum(axis=0), matrices, winners)
        self.context.run(
            _local_to_rows, targets[1] - targets[0], scores[targets[0] : targets[1]], origin,
            inverse_width, local, totals[:, targets[0] : targets[1]],
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


def _moments_to_local(moments: Floats, matrices: Floats, winners: bool) -> Floats:
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


class _TiledSums(_SplitSums):
    """Any loss: dense tiles of pairs in bounded memory, equal scores merged first, O(n²)."""

    def plain_sums(
        self, scores: Floats, source: Floats, kernels: Sequence[str], *, winners: bool
    ) -> Floats:
        functions = [_kernel_of(self.loss, name) for name in kernels]
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


def _kernel_of(loss: PairLoss, name: str) -> Kernel:
    kernels: dict[str, Kernel] = {
        "value": loss.value,
        "slope": lambda margin: -loss.slope(margin),
        "curvature": loss.curvature,
        "square": lambda margin: loss.slope(margin) ** 2,
    }
    return kernels[name]


def _find_losers(layout: QueryLayout) -> Flags:
    """Return which rows are the loser of some pair."""
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
    """Return the logarithm of the sum of ``exp(log_values)`` for each target."""
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
                _translate(moments, position - origin)
            origin = position
            moments[0] += source[source_start + source_order[passed]]
            passed += 1
        if passed == 0:
            continue
        _translate(moments, target - origin)
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
def _translate(moments: Floats, by: float) -> None:
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
def _rows_to_moments(
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
def _local_to_rows(
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
