"""Decision stumps (values 0 and 1), signed stumps (-1 and 1), and their exact search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from precede.engine.arrays import Array, BackendArray, Bytes, Flags, Floats, Integers, Signs
from precede.engine.compiling import INNER, njit
from precede.engine.exact import (
    SCALE,
    TIE_OF_DECREASES,
    all_reduce_sum,
    first_tied,
    least_tied,
    least_tied_kernel,
    to_integers,
)
from precede.engine.execution import Context, threads_for
from precede.engine.histograms import (
    BINS,
    GROUP_SIZE,
    GpuHistograms,
    Histograms,
    best_cuts,
    search_by_bound,
)
from precede.engine.pull import Factors, decreases
from precede.engine.table import MISSING, Bins, FeatureBins, Table, choose_cuts
from precede.engine.team import add
from precede.weak_rankers.base import (
    Family,
    MonotoneConstraints,
    Search,
    SearchResult,
    Union,
    WeakRanker,
    monotone_signs,
)
from precede.weak_rankers.columns import Constants

# Number of features whose histograms are sent in one message if the rows are distributed.
FEATURES_PER_MESSAGE = 64
# Bounds on edges saturate at this value to avoid integer overflow.
MAX_BOUND = 1 << 62


@dataclass(frozen=True)
class Stump(WeakRanker):
    """``h(x) = 1 if x[feature] > threshold else 0``, and `missing` where x is NaN.

    Infinite thresholds separate missing values from present ones: ``Stump(feature, -inf)`` is 1
    where a value is present, ``Stump(feature, inf, missing=1)`` where it is missing.

    >>> import numpy as np
    >>> X = np.array([[0.2], [0.7], [np.nan]])
    >>> Stump(0, 0.5, missing=1)(X)
    array([0, 1, 1], dtype=uint8)
    >>> Stump(0, np.inf, missing=1)(X)
    array([0, 0, 1], dtype=uint8)
    """

    feature: int
    threshold: float
    missing: int = 0

    name: ClassVar[str] = "stump"
    codes_only: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.missing not in (0, 1) or np.isnan(self.threshold):
            raise ValueError(
                f"a stump needs a threshold and 0 or 1 for missing values, not {self.threshold} "
                f"and {self.missing}"
            )

    def __call__(self, X: Array) -> Bytes:
        """Return 1 above the threshold, 0 below, `missing` for NaN."""
        # NumPy would round the threshold to float32 to compare it with a float32 column.
        column = X[:, self.feature].astype(np.float64)
        return np.where(np.isnan(column), self.missing, column > self.threshold).astype(np.uint8)

    def on(self, table: Table) -> Bytes:
        """Return the values, from the codes if the threshold is a cut, else from the raw column."""
        if not self.is_cut(table):
            column = table.column(self.feature)
            above = column > self.threshold
            return np.where(np.isnan(column), self.missing, above).astype(np.uint8)
        codes = np.asarray(table.codes[self.feature])
        above = codes >= self.first_code(table)  # includes MISSING, the largest code
        if not self.missing:
            above &= codes != MISSING
        table.release(np.array([self.feature]))
        return above.view(np.uint8)

    def first_code(self, table: Table) -> int:
        """Return the lowest code above the threshold; the number of bins if there is none."""
        cuts = table.bins.cuts[self.feature]
        is_infinite = self.threshold == np.inf
        return int(np.searchsorted(cuts, self.threshold, side="right")) + is_infinite

    def is_cut(self, table: Table) -> bool:
        """Whether the codes of the feature determine on which side of the threshold a row is."""
        return not np.isfinite(self.threshold) or self.threshold in table.bins.cuts[self.feature]


class Stumps(Family):
    """All stumps: one feature against one threshold, with missing values on either side.

    Features with missing values also have the stumps "is present" and "is missing", which differ
    from each other by a sign and a constant.

    All thresholds of a feature are searched at once: their edges are the partial sums of the
    histogram of the pull over its bins. The search is *lazy*: between two rounds no edge can
    change by more than half the total change of the pull, so a feature is skipped if its last
    best edge plus the drift since then cannot win. The result is the same, bit for bit.

    O(n) for each feature that is evaluated; at most ``max_bins - 1`` thresholds per feature.

    Parameters
    ----------
    thresholds : {"bins", "all"}
        "bins" searches the cuts of the binned features, at most ``max_bins - 1`` quantiles of
        each; "all" searches every threshold between two distinct values, so that certificates
        hold for all stumps. A feature with d distinct values then takes about d/254 bytes per row
        and proportional time; X must be in memory, not on a cluster or a GPU.
    lazy : bool
        Whether to skip features that cannot win.
    monotone_constraints : list of -1, 0 and 1, or dict of column number to -1 or 1, optional
        Scores must decrease (-1) or increase (1) with a feature: only stumps whose edge has this
        sign are searched, so every weight has this sign. Constraints apply to present values only:
        rows with a missing value may rank above or below all others. With constraints,
        `exhaustive` is False, because the largest absolute edge may be excluded.

    Examples
    --------
    >>> from precede import RankBoost, Stumps
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [1, 0, 1, 0]
    >>> falling = Stumps(monotone_constraints=[-1])
    >>> model = RankBoost(weak_rankers=falling, step="bound", n_estimators=5).fit(X, y)
    >>> int(model.predict(X).argmax())
    0
    """

    name = "stumps"
    exhaustive = True
    distributable = True
    codes_only = True
    thresholds: str

    def __init__(
        self,
        *,
        thresholds: str = "bins",
        lazy: bool = True,
        monotone_constraints: MonotoneConstraints = None,
    ):
        if thresholds not in ("bins", "all"):
            raise ValueError(f"thresholds={thresholds!r} is unknown; use 'bins' or 'all'")
        self.thresholds = thresholds
        self.lazy = lazy
        self.monotone_constraints = monotone_constraints
        if monotone_constraints is not None:
            self.exhaustive = False
        if thresholds == "all":
            self.distributable = self.codes_only = False

    def with_monotone_constraints(self, given: MonotoneConstraints) -> Stumps:
        """Return the family under monotone constraints."""
        return Stumps(thresholds=self.thresholds, lazy=self.lazy, monotone_constraints=given)

    def start(self, table: Table, context: Context | None = None) -> StumpSearch:
        """Return a search of `table` that is reused in every round."""
        context = context or Context(1)
        signs = monotone_signs(self.monotone_constraints, table.n_features)
        if self.thresholds == "bins":
            return StumpSearch(table, context, lazy=self.lazy, signs=signs)
        if context.backend.is_gpu:
            raise ValueError(f"device='cuda' searches bins, not {self!r}; use device='cpu'")
        return _AllThresholdsSearch(table, context, lazy=self.lazy, signs=signs)

    def __repr__(self) -> str:
        parts = [] if self.thresholds == "bins" else [f"thresholds={self.thresholds!r}"]
        parts += [] if self.lazy else ["lazy=False"]
        if self.monotone_constraints is not None:
            parts.append(f"monotone_constraints={self.monotone_constraints!r}")
        return f"Stumps({', '.join(parts)})"


class StumpSearch(Search):
    """Lazy exact search over all stumps of a table.

    On a GPU no feature is skipped: summing all of them is faster than determining which ones could
    win. If the pulls are on the CPU, the values of the stump are returned on the CPU.

    Attributes
    ----------
    evaluated : int
        Number of features evaluated so far, over all rounds.
    """

    def __init__(
        self, table: Table, context: Context, *, lazy: bool = True, signs: Signs | None = None
    ):
        # The sign that edges of each feature must have, 0 for either; None if all are 0.
        self._signs = None if signs is None or not signs.any() else signs.astype(np.int64)
        self.backend = context.backend
        self._table = table
        self._context = context
        self._histogram_builder = Histograms(table, context)
        self._lazy = lazy
        features = table.n_features
        self._n_bins = table.bins.n_bins
        # A feature without any value has no stump "is present".
        self._missing = table.bins.has_missing & ~np.isnan(table.bins.low)
        self._integers = np.zeros(table.n_used_rows, np.int64)
        # The best stump of each feature when it was last evaluated (signed edge, first code above
        # the threshold, side of missing values), and how much the edges may have changed since.
        self._best = np.zeros((features, 3), np.int64)
        self._slack = np.full(features, MAX_BOUND)
        self._last_best_edge = 0
        self._last_drift = 0  # used only if the rows are distributed
        self._histogram_buffer = np.empty((GROUP_SIZE, BINS), np.int64)
        cells = table.n_used_rows * features
        self._threads = min(context.jobs, threads_for("cells", cells))
        self.evaluated = 0
        if self.backend.is_gpu:
            self._gpu_histograms = GpuHistograms(self.backend, table)
            put, missing = self.backend.put, self._missing.astype(np.uint8)
            self._gpu_features = put(self._n_bins), put(missing)
            self._gpu_all = put(np.ones(features, np.uint8))

    def restrict_to_positive(self) -> StumpSearch:
        """Search only stumps with a positive edge; must be called before the first search."""
        if self._signs is not None and self._signs.min() < 0:
            raise ValueError(
                "nonnegative=True lets scores rise with every feature, but monotone_constraints "
                "ask them to fall with one; leave one of the two out"
            )
        self._signs = np.ones(self._n_bins.size, np.int64)
        return self

    def best(self, pull: Floats, allowed: Flags | None = None) -> SearchResult | None:
        """Return the stump with the largest absolute edge, or the largest edge if restricted."""
        if self.backend.is_gpu:
            return self._best_on_gpu(pull, allowed)
        change, threads = np.zeros(2, np.int64), threads_for("rows", pull.size)
        given = pull, self._integers, change
        self._context.run(_quantize, pull.size, *given, threads=threads)
        if not self._context.is_distributed:
            bound = self._edge_bounds(int(change.max()), allowed)
            best_edge = self._evaluate_features(bound)
        else:
            bound, best_edge = self._evaluate_distributed(change, allowed)
        if best_edge <= 0:
            return None
        winner = self._first_tied_feature(bound, best_edge)
        edge, first_code, missing = (int(value) for value in self._best[winner])
        return SearchResult(self._stump(winner, first_code, missing), edge / SCALE)

    def _best_on_gpu(self, pull: BackendArray, allowed: Flags | None) -> SearchResult | None:
        backend, features = self.backend, self._n_bins.size
        sums = self._gpu_histograms.sums(backend.put(pull))
        best = backend.empty(features, 3, dtype=np.int64)
        stump = backend.empty(4, dtype=np.int64)
        flags = self._gpu_all if allowed is None else backend.put(allowed.astype(np.uint8))
        backend.launch(
            "stump_search", features, 256, features, *self._gpu_features, self._gpu_signs,
            flags, sums, best, sums[-1:], stump,
        )  # fmt: skip
        values = self._gpu_histograms.values(stump)
        feature, edge, first_code, missing = backend.get(stump).tolist()
        self.evaluated += features
        if feature < 0:
            return None
        values = values if backend.holds(pull) else backend.get(values)
        return SearchResult(self._stump(feature, first_code, missing), edge / SCALE, values=values)

    @cached_property
    def _gpu_signs(self) -> BackendArray:
        signs = np.zeros(self._n_bins.size) if self._signs is None else self._signs
        return self.backend.put(signs.astype(np.int8))

    def _edge_bounds(self, drift: int, allowed: Flags | None) -> Integers:
        """Add the drift to the slacks; return a bound on each feature's edge, -1 if not allowed."""
        bound = _edge_bounds(drift if self._lazy else MAX_BOUND, self._best, self._slack)
        if allowed is not None:
            bound[~allowed] = -1
        return bound

    def _evaluate_features(self, bound: Integers) -> int:
        """Evaluate features by decreasing bound while one could win; return the best edge."""
        streamed, order = self._table.streamed, _order_by_bound(bound)
        positive_only = self._signs is not None and bool((self._signs == 1).all())
        same_sign = positive_only or self._signs is None
        if not streamed and same_sign and self._threads == 1:
            best_edge, count = search_by_bound(
                self._table.codes, self._integers, self._n_bins, self._missing, bound, order,
                self._best, self._slack, positive_only, self._histogram_buffer,
            )  # fmt: skip
            self.evaluated += count
            return int(best_edge)
        best_edge, done = 0, 0
        # The best edge rarely grows between rounds, so the first batch holds all features that
        # could exceed the last best edge. From disk, every batch is small.
        min_width = GROUP_SIZE * self._context.jobs
        width = (
            min_width if streamed else max(min_width, int(np.sum(bound >= self._last_best_edge)))
        )
        while done < order.size and bound[order[done]] >= least_tied(best_edge):
            batch = order[done : done + width]
            width = min_width
            best_edge = self._record(batch, self._best_stumps(batch, -1), best_edge)
            done += batch.size
        self._last_best_edge = best_edge
        return best_edge

    # -- distributed rows --------------------------------------------------------------------

    def _evaluate_distributed(
        self, change: Integers, allowed: Flags | None
    ) -> tuple[Integers, int]:
        """Like `_evaluate_features` for distributed rows; return the bounds and the best edge.

        The drift is known only after an all-reduce. The same all-reduce therefore carries the
        histograms of the features that could win if the drift were similar to the last one; more
        features follow only if that guess was too low.
        """
        likely = self._likely_winners(allowed)
        select = partial(_drift_and_best, self._stump_selector(likely, -1))
        self._last_drift, best = all_reduce_sum(
            lambda: (change, self._histograms(likely)), self._context, select
        )
        bound = self._edge_bounds(self._last_drift, allowed)
        best_edge = self._record(likely, best, 0)
        remaining = _order_by_bound(bound)
        remaining, done = remaining[~np.isin(remaining, likely)], 0
        while done < remaining.size and bound[remaining[done]] >= least_tied(best_edge):
            batch = remaining[done : done + FEATURES_PER_MESSAGE]
            best_edge = self._record(batch, self._best_stumps(batch, -1), best_edge)
            done += batch.size
        self._last_best_edge = best_edge
        return bound, best_edge

    def _likely_winners(self, allowed: Flags | None) -> Integers:
        """Return the features that could win if edges drifted by 1.5 times the last drift."""
        drift = self._last_drift + self._last_drift // 2 if self._lazy else MAX_BOUND
        bound = _edge_bounds(drift, self._best, self._slack.copy())
        if allowed is not None:
            bound[~allowed] = -1
        count = max(FEATURES_PER_MESSAGE, int(np.sum(bound >= self._last_best_edge)))
        return _order_by_bound(bound)[:count]

    def _record(self, features: Integers, best: Integers, best_edge: int) -> int:
        """Store the best stumps of some features; return the largest edge so far."""
        self._best[features] = best
        self._slack[features] = 0
        self.evaluated += features.size
        return max(best_edge, int(np.abs(best[:, 0]).max(initial=0)))

    def _first_tied_feature(self, bound: Integers, best_edge: int) -> int:
        """Return the first feature that ties with the best edge; `_best` then has its stump."""
        # Every feature that could tie with the best has been evaluated: its slack is 0.
        min_edge = least_tied(best_edge)
        tied = (self._slack == 0) & (bound >= 0) & (np.abs(self._best[:, 0]) >= min_edge)
        winner = int(np.flatnonzero(tied)[0])
        if abs(int(self._best[winner, 0])) < best_edge:  # a tie: find its first such stump
            self._best[winner] = self._best_stumps(np.array([winner]), min_edge)[0]
        return winner

    def _best_stumps(self, features: Integers, min_edge: int) -> Integers:
        """Return the best stump of some features, from the pulls of all machines."""
        return all_reduce_sum(
            lambda: self._histograms(features),
            self._context,
            self._stump_selector(features, min_edge),
        )

    def _stump_selector(self, features: Integers, min_edge: int) -> Callable[..., Integers]:
        """Return a function that finds the best stump of each feature in their histograms."""
        signs = None if self._signs is None else self._signs[features]
        bins = self._n_bins[features], self._missing[features]
        return partial(_best_with_signs, *bins, signs, min_edge)

    def _histograms(self, features: Integers) -> Integers:
        return self._histogram_builder.sums(self._integers, features)

    def best_decrease(self, factors: Factors, allowed: Flags | None = None) -> SearchResult | None:
        """Return the stump with the largest decrease of the exponential risk, exactly."""
        if self.backend.is_gpu:
            raise ValueError(
                "select='decrease' is searched on the CPU; use select='slope', or device='cpu'"
            )
        decrease_of = partial(decreases, smoothing=factors.smoothing, bound=factors.bound)
        choose = partial(_largest_decrease, self._n_bins, allowed, decrease_of, self._signs)
        chosen = all_reduce_sum(lambda: self._pair_masses(factors), self._context, choose)
        if chosen is None:
            return None
        (feature, first_code, side), edge, decrease = chosen
        return SearchResult(self._stump(feature, first_code, side), edge, decrease)

    def _pair_masses(self, factors: Factors) -> Integers:
        """Return the masses of the concordant and discordant pairs of every stump."""
        table = self._table
        sums = np.zeros((table.n_features, 2, 2, 258), np.int64)
        width = GROUP_SIZE * self._context.jobs if table.streamed else table.n_features
        for first in range(0, table.n_features, width):
            chunk = slice(first, first + width)
            self._context.run(
                _pair_masses_of_features, len(sums[chunk]), table.codes[chunk],
                self._n_bins[chunk], self._missing[chunk], factors.level_start,
                factors.query_start, factors.terms, factors.levels, factors.pairs,
                factors.pair_mass, sums[chunk], threads=self._threads,
            )  # fmt: skip
            table.release(np.arange(table.n_features)[chunk])
        return sums

    def _stump(self, feature: int, first_code: int, missing: int) -> Stump:
        return stump_from_code(self._table.bins, feature, first_code, missing)


class _AllThresholdsSearch(StumpSearch):
    """Search over every threshold; a feature is encoded as one column per 254 of its cuts."""

    def __init__(self, table: Table, context: Context, *, lazy: bool, signs: Signs):
        columns: list[FeatureBins] = []
        features: list[int] = []
        for feature in range(table.n_features):
            values = table.column(feature)
            cuts, value_range = choose_cuts(values, None, values.size + 1)
            for first in range(0, max(cuts.size, 1), MISSING - 1):
                columns.append(FeatureBins(cuts[first : first + MISSING - 1], *value_range))
                features.append(feature)
        self._feature_of_column = np.array(features, np.int64)
        codes = np.empty((len(features), table.n_used_rows), np.uint8)
        for feature in range(table.n_features):
            values = table.column(feature)
            for column in np.flatnonzero(self._feature_of_column == feature).tolist():
                columns[column].encode(values, codes[column])
        expanded = Table(table.X, codes, Bins.of(columns), table.order)
        super().__init__(expanded, context, lazy=lazy, signs=signs[self._feature_of_column])

    def best(self, pull: Floats, allowed: Flags | None = None) -> SearchResult | None:
        """Return the stump with the largest absolute edge, or the largest edge if restricted."""
        return super().best(pull, None if allowed is None else allowed[self._feature_of_column])

    def best_decrease(self, factors: Factors, allowed: Flags | None = None) -> SearchResult | None:
        """Return the stump with the largest decrease of the exponential risk."""
        columns = None if allowed is None else allowed[self._feature_of_column]
        return super().best_decrease(factors, columns)

    def _stump(self, feature: int, first_code: int, missing: int) -> Stump:
        found = super()._stump(feature, first_code, missing)
        return replace(found, feature=int(self._feature_of_column[feature]))


def stump_from_code(bins: Bins, feature: int, first_code: int, missing: int = 0) -> Stump:
    """Return the stump that is 1 for codes from `first_code` up; see `Stump.first_code`."""
    thresholds = [-np.inf, *bins.cuts[feature], np.inf]
    return Stump(feature, float(thresholds[first_code]), missing)


def _edge_bounds(drift: int, best: Integers, slack: Integers) -> Integers:
    """Add the drift to `slack`, in place; return an upper bound on each feature's best edge."""
    # Clip before adding, to avoid overflow: a feature never evaluated has slack MAX_BOUND.
    np.minimum(slack, MAX_BOUND - drift, out=slack)
    slack += drift
    # The stored edge may be below the best by the tolerance of ties: see `best_cuts`.
    edge = np.abs(best[:, 0])
    edge += (edge >> 39) + 512
    return np.minimum(slack, MAX_BOUND - edge) + edge


def _order_by_bound(bound: Integers) -> Integers:
    """Return the allowed features by decreasing bound."""
    order = np.argsort(-bound, kind="stable")
    return order[bound[order] >= 0]


def _drift_and_best(
    select: Callable[[Integers], Integers],
    sums: tuple[Integers, Integers],
) -> tuple[int, Integers]:
    """Return the drift and the best stumps, from the sums over all machines."""
    change, histograms = sums
    return int(change.max()), select(histograms)


def _best_with_signs(
    n_bins: Integers,
    missing: Flags,
    signs: Integers | None,
    min_edge: int,
    histograms: Integers,
) -> Integers:
    """Return the best stump of each feature whose edge has the sign required for the feature."""
    best = best_cuts(histograms, n_bins, missing, False, min_edge)
    if signs is not None:  # a negative edge is a positive edge for the negated pull
        constrained = np.flatnonzero(signs)
        oriented = histograms[constrained] * signs[constrained, None]
        found = best_cuts(oriented, n_bins[constrained], missing[constrained], True, min_edge)
        found[:, 0] *= signs[constrained]
        best[constrained] = found
    return best


def _largest_decrease(
    n_bins: Integers,
    allowed: Flags | None,
    decrease_of: Callable[[Floats, Floats], Floats],
    signs: Integers | None,
    sums: Integers,
) -> tuple[tuple[int, int, int], float, float] | None:
    """Return (feature, first code above the threshold, side of missing values), edge, decrease."""
    if allowed is not None:
        sums = np.where(allowed[:, None, None, None], sums, 0)
    concordant, discordant = sums[:, :, 0] / SCALE, sums[:, :, 1] / SCALE
    gain = decrease_of(concordant, discordant)
    if signs is not None:
        sign = signs[:, None, None]
        gain = np.where((sign == 0) | (sign * (concordant - discordant) > 0), gain, 0.0)
    # Without a sign constraint "is missing" is equivalent to "is present": keep only the latter.
    free = np.arange(gain.shape[0]) if signs is None else np.flatnonzero(signs == 0)
    gain[free, 1, n_bins[free]] = 0
    decrease = gain.transpose(0, 2, 1)  # features, thresholds, side of missing values
    if decrease.max() <= 0:
        return None
    best = first_tied(decrease, TIE_OF_DECREASES)
    feature, first_code, side = (int(i) for i in np.unravel_index(best, decrease.shape))
    edge = float(concordant[feature, side, first_code] - discordant[feature, side, first_code])
    return (feature, first_code, side), edge, float(decrease[feature, first_code, side])


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _quantize(low: int, high: int, pull: Floats, integers: Integers, changes: Integers) -> None:
    """Convert pulls to integers, in place; add up the total increase and the total decrease."""
    increase, decrease = np.int64(0), np.int64(0)
    for row in range(low, high):
        new = np.int64(np.rint(pull[row] * SCALE))
        change = new - integers[row]
        if change > 0:
            increase += change
        else:
            decrease -= change
        integers[row] = new
    add(changes, 0, increase)
    add(changes, 1, decrease)


@njit(cache=True, nogil=True)
def _pair_masses_of_features(
    low: int, high: int, codes: Bytes, n_bins: Integers, missing: Flags, level_start: Integers,
    query_start: Integers, terms: Floats, levels: Floats, pairs: Integers, pair_mass: Floats,
    sums: Integers,
) -> None:  # fmt: skip
    """Sum the masses of concordant and discordant pairs for every threshold of every feature.

    ``sums[feature, side of missing values, 0 concordant or 1 discordant, first code that is 1]``
    is first filled with the differences between consecutive thresholds. A pair with keys a < b is
    separated by the thresholds whose first key is in a + 1, ..., b::

        first key       a    a+1   ...   b    b+1
        difference      0   +mass   0    0   -mass
        mass            0    mass  ...  mass   0
    """
    for feature in range(low, high):
        for side in range(2 if missing[feature] else 1):
            concordant, discordant = sums[feature, side, 0], sums[feature, side, 1]
            key = _keys(codes[feature], n_bins[feature], side, missing[feature])
            for query in range(query_start.size - 1):
                bottom, top = query_start[query], query_start[query + 1]
                _pair_masses_of_query(
                    key, level_start, bottom, top, terms, levels, concordant, discordant
                )
            for pair in range(pair_mass.size):
                winner_key, loser_key = key[pairs[0, pair]], key[pairs[1, pair]]
                mass = np.int64(np.rint(pair_mass[pair] * SCALE))
                if winner_key > loser_key:
                    concordant[loser_key + 1] += mass
                    concordant[winner_key + 1] -= mass
                elif winner_key < loser_key:
                    discordant[winner_key + 1] += mass
                    discordant[loser_key + 1] -= mass
            _cumulative_sums(concordant, missing[feature] and side == 0)
            _cumulative_sums(discordant, missing[feature] and side == 0)


@njit(cache=True, nogil=True)
def _keys(codes: Bytes, bins: int, side: int, missing: bool) -> Integers:
    """Return the codes, with missing values moved below all others (0) or above them (`bins`)."""
    key = np.empty(codes.size, np.int64)
    for row in range(codes.size):
        if codes[row] == MISSING:
            key[row] = 0 if side == 0 else bins
        else:
            key[row] = codes[row] + (1 if missing and side == 0 else 0)
    return key


@njit(**INNER)
def _cumulative_sums(differences: Integers, shifted: bool) -> None:
    """Replace differences by their cumulative sums, indexed by the first code that is 1."""
    total = np.int64(0)
    for j in range(differences.size):
        total += differences[j]
        differences[j] = total
    if shifted:  # keys are codes + 1
        for j in range(differences.size - 1):
            differences[j] = differences[j + 1]
        differences[differences.size - 1] = 0
    else:
        differences[0] = 0


@njit(**INNER)
def _add_losers(
    at_zero: Floats,
    at_one: Floats,
    losers: Floats,
    total: float,
    old_share: float,
    new_share: float,
) -> None:
    """Add the losers of one level to the shares of losers at 0 and 1, for every threshold.

    Each side is summed from its own end, so that an empty side is exactly 0.
    """
    partial_sum = 0.0
    for j in range(losers.size - 1):
        partial_sum += losers[j]
        at_zero[j] = old_share * at_zero[j] + new_share * partial_sum / total
    partial_sum = 0.0
    for j in range(losers.size - 2, -1, -1):
        partial_sum += losers[j + 1]
        at_one[j] = old_share * at_one[j] + new_share * partial_sum / total


@njit(**INNER)
def _add_winners(
    concordant: Floats, discordant: Floats, at_zero: Floats, at_one: Floats, winners: Floats,
    scale: float,
) -> None:  # fmt: skip
    """Add the pair masses of the winners of one level and all losers below, for every threshold."""
    partial_sum = 0.0
    for j in range(winners.size - 1):
        partial_sum += winners[j]
        discordant[j] += scale * partial_sum * at_one[j]
    partial_sum = 0.0
    for j in range(winners.size - 2, -1, -1):
        partial_sum += winners[j + 1]
        concordant[j] += scale * partial_sum * at_zero[j]


@njit(**INNER)
def _compact_keys(keys: Integers) -> tuple[Integers, Integers, int]:
    """Number the keys that occur from 0 up; return slot of key, key of slot, number of slots."""
    slot = np.full(257, -1, np.int64)
    key_of_slot = np.empty(257, np.int64)
    for key in keys:
        slot[key] = 0
    count = 0
    for key in range(257):
        if slot[key] == 0:
            slot[key] = count
            key_of_slot[count] = key
            count += 1
    return slot, key_of_slot, count


@njit(**INNER)
def _pair_masses_of_query(
    key: Integers, level_start: Integers, bottom: int, top: int, terms: Floats, levels: Floats,
    concordant: Integers, discordant: Integers,
) -> None:  # fmt: skip
    """Add one query's pair masses, as differences between consecutive thresholds.

    Only keys that occur in the query change its pair masses. Threshold j lies between the j-th
    such key and the next: the stump is 1 on the keys after the j-th. Levels are visited in
    increasing order; `at_zero` and `at_one` are the shares of the losers below where it is 0 and 1.
    """
    winner_sum, loser_sum, winner_mass, _, old_share, new_share = levels
    slot, key_of_slot, count = _compact_keys(key[level_start[bottom] : level_start[top]])
    if count < 2:
        return
    at_zero, at_one = np.zeros(count), np.zeros(count)
    concordant_mass, discordant_mass = np.zeros(count), np.zeros(count)
    winners, losers = np.zeros(count), np.zeros(count)
    for level in range(bottom, top):
        if level > bottom:  # `losers` still holds the losers of the previous level
            _add_losers(
                at_zero, at_one, losers, loser_sum[level - 1], old_share[level], new_share[level]
            )
        winners[:] = 0.0
        losers[:] = 0.0
        for row in range(level_start[level], level_start[level + 1]):
            winners[slot[key[row]]] += terms[0, row]
            losers[slot[key[row]]] += terms[1, row]
        if level > bottom:
            scale = winner_mass[level] / winner_sum[level]
            _add_winners(concordant_mass, discordant_mass, at_zero, at_one, winners, scale)
    last_concordant, last_discordant = np.int64(0), np.int64(0)
    for j in range(count):
        new_concordant, new_discordant = np.int64(0), np.int64(0)
        if j < count - 1:
            new_concordant = np.int64(np.rint(concordant_mass[j] * SCALE))
            new_discordant = np.int64(np.rint(discordant_mass[j] * SCALE))
        # The stump of threshold j is 1 from key key_of_slot[j] + 1 up.
        concordant[key_of_slot[j] + 1] += new_concordant - last_concordant
        discordant[key_of_slot[j] + 1] += new_discordant - last_discordant
        last_concordant, last_discordant = new_concordant, new_discordant


# -- signed stumps, for classification -----------------------------------------------------------


@dataclass(frozen=True)
class SignedStump(WeakRanker):
    """``h(x) = 1 if x[feature] > threshold else -1``; for NaN 1 if `missing` is 1, else -1.

    >>> import numpy as np
    >>> SignedStump(0, 0.5)(np.array([[0.2], [0.7], [np.nan]]))
    array([-1,  1, -1], dtype=int8)
    """

    feature: int
    threshold: float
    missing: int = 0

    name: ClassVar[str] = "vote"

    def __post_init__(self) -> None:
        _ = self.stump  # validates the fields

    @property
    def stump(self) -> Stump:
        """The stump h with ``2 h - 1`` equal to this weak ranker."""
        return Stump(self.feature, self.threshold, self.missing)

    def __call__(self, X: Array) -> NDArray[np.int8]:
        """Return 1 or -1 for every row."""
        return _to_signs(self.stump(X))

    def on(self, table: Table) -> NDArray[np.int8]:
        """Return 1 or -1 for every row of a table."""
        return _to_signs(self.stump.on(table))


def _to_signs(values: Bytes) -> NDArray[np.int8]:
    return 2 * values.astype(np.int8) - 1


class SignedStumps(Family):
    """All stumps with values 1 and -1, in both directions, missing values on either side.

    For a pair risk a signed stump is equivalent to twice its stump; for a pointwise risk it is not,
    because it also differs by a constant. The edges of all thresholds of a feature are partial sums
    of one histogram. "Is missing" is the opposite of "is present" and is not searched. O(n) per
    feature and round.
    """

    name = "votes"
    exhaustive = True

    def start(self, table: Table, context: Context | None = None) -> Search:
        """Return a search of `table` that is reused in every round."""
        return _SignedStumpSearch(table, context or Context(1))


class _SignedStumpSearch(Search):
    def __init__(self, table: Table, context: Context):
        self._table = table
        self._histograms = Histograms(table, context)
        self._n_bins = table.bins.n_bins
        # A feature without any value has no stump "is present".
        self._missing = table.bins.has_missing & ~np.isnan(table.bins.low)

    def best(self, pull: Floats, allowed: Flags | None = None) -> SearchResult | None:
        """Return the signed stump with the largest absolute edge."""
        table = self._table
        integers = to_integers(pull)
        sums = self._histograms.sums(integers)
        best = _best_signed_stumps(sums, self._n_bins, self._missing, integers.sum())
        edge = np.abs(best[:, 0])
        if allowed is not None:
            edge[~allowed] = 0
        best_edge = int(edge.max(initial=0))
        if best_edge == 0:
            return None
        feature = int(np.argmax(edge >= least_tied(best_edge)))
        signed_edge, first, missing = (int(value) for value in best[feature])
        stump = stump_from_code(table.bins, feature, first, missing)
        signed_stump = SignedStump(feature, stump.threshold, missing)
        return SearchResult(signed_stump, signed_edge / SCALE)


def signed_stumps(family: Family, *, constant: bool) -> Family:
    """Return the family with stumps replaced by signed stumps, plus the constant if requested.

    >>> from precede import Features, Stumps
    >>> signed_stumps(Stumps() | Features(), constant=True)
    SignedStumps() | Features() | Constants()
    """
    for each in family.members:
        if isinstance(each, Stumps) and each.monotone_constraints is not None:
            raise ValueError(
                f"weak_rankers={each!r}: votes go in either direction; leave the constraints out, "
                "or use RankBoost"
            )
    if any(each.thresholds == "all" for each in family.members):
        raise ValueError(
            f"weak_rankers={family!r}: votes have the thresholds of bins; use 'stumps'"
        )
    members = [SignedStumps() if isinstance(each, Stumps) else each for each in family.members]
    if constant:
        members.append(Constants())
    return members[0] if len(members) == 1 else Union(*members)


def as_signed_stump(weak_ranker: WeakRanker, weight: float) -> tuple[WeakRanker, float]:
    """Return a stump h of weight 2a as the signed stump ``2 h - 1`` of weight a.

    Other weak rankers are returned unchanged. The scores differ by the constant a.

    >>> as_signed_stump(Stump(0, 0.5), 3.0)
    (SignedStump(feature=0, threshold=0.5, missing=0), 1.5)
    """
    if not isinstance(weak_ranker, Stump):
        return weak_ranker, weight
    return SignedStump(weak_ranker.feature, weak_ranker.threshold, weak_ranker.missing), weight / 2


def as_stump(weak_ranker: WeakRanker, weight: float) -> tuple[WeakRanker, float, float]:
    """Return a signed stump of weight a as a stump of weight 2a, and the constant a it adds.

    >>> as_stump(SignedStump(0, 0.5), 1.5)
    (Stump(feature=0, threshold=0.5, missing=0), 3.0, 1.5)
    """
    if not isinstance(weak_ranker, SignedStump):
        return weak_ranker, weight, 0.0
    return weak_ranker.stump, 2 * weight, weight


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _best_signed_stumps(
    histograms: Integers, n_bins: Integers, missing: Flags, total: int
) -> Integers:
    """Return the best stump of each feature: edge, first code above the threshold, missing side.

    The edge of a signed stump is twice the pull where it is 1, minus the pull of all rows. The
    first pass finds the best edge, the second the first stump that ties with it.
    """
    best = np.zeros((n_bins.size, 3), np.int64)
    for feature in range(n_bins.size):
        sums = histograms[feature]
        present = total - sums[MISSING]
        best_edge = np.int64(0)
        for pass_number in range(2):
            min_edge = least_tied_kernel(best_edge)
            above = present
            for first in range(n_bins[feature]):
                for side in range(2 if missing[feature] else 1):
                    if first == 0 and (side == 1 or not missing[feature]):
                        continue  # a constant
                    edge = 2 * (above + side * sums[MISSING]) - total
                    if pass_number == 0:
                        best_edge = max(best_edge, abs(edge))
                    elif abs(edge) >= min_edge and best[feature, 0] == 0:
                        best[feature, 0], best[feature, 1], best[feature, 2] = edge, first, side
                above -= sums[first]
    return best
