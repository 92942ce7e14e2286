"""Decision stumps: all thresholds of a feature at once, and only the features that can win."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numba import njit

from precede.engine.arrays import Array, Bytes, Flags, Floats, Integers, Signs
from precede.engine.compiling import INNER
from precede.engine.exact import SCALE, all_reduce_sum
from precede.engine.execution import Context, is_small
from precede.engine.histograms.columns import ABREAST, BINS, Histograms, best_cuts, search_in_turn
from precede.engine.pull import Factors, decreases
from precede.engine.table import MISSING, Bins, FeatureBins, Table, choose_cuts
from precede.engine.ties import TIE_OF_DECREASES, first_tied, least_tied
from precede.weak_rankers.base import Family, Search, SearchResult, WeakRanker, directions

__all__ = ["Stump", "StumpSearch", "Stumps"]


# Features looked at together where every look is a journey to other machines.
APART = 64
# No bound on an edge exceeds this, however long the pull has been drifting.
MOST = 1 << 62


@dataclass(frozen=True)
class Stump(WeakRanker):
    """``h(x) = 1 if x[feature] > threshold else 0``, and `missing` where x is NaN.

    Infinite thresholds tell missing values from present ones: ``Stump(feature, -inf)`` is 1
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

    def __post_init__(self) -> None:
        if self.missing not in (0, 1) or np.isnan(self.threshold):
            raise ValueError(
                f"a stump needs a threshold and 0 or 1 for missing values, not {self.threshold} "
                f"and {self.missing}"
            )

    def as_stump(self) -> Stump:
        """Itself."""
        return self

    def __call__(self, X: Array) -> Bytes:
        """1 above the threshold, 0 below, `missing` for NaN."""
        # float32 would be compared with the threshold rounded to float32.
        column = X[:, self.feature].astype(np.float64)
        return np.where(np.isnan(column), self.missing, column > self.threshold).astype(np.uint8)

    def on(self, table: Table) -> Bytes:
        """Read from the codes, where the threshold is a cut; from the raw column otherwise."""
        if not self.is_cut(table):
            column = table.column(self.feature)
            above = column > self.threshold
            return np.where(np.isnan(column), self.missing, above).astype(np.uint8)
        codes = np.asarray(table.codes[self.feature])
        above = codes >= self.first_code(table)  # true of the missing, whose code is the largest
        if not self.missing:
            above &= codes != MISSING
        table.release(np.array([self.feature]))
        return above.view(np.uint8)

    def first_code(self, table: Table) -> int:
        """Lowest code above the threshold; the number of bins if no present value is."""
        cuts = table.bins.cuts[self.feature]
        beyond = self.threshold == np.inf
        return int(np.searchsorted(cuts, self.threshold, side="right")) + beyond

    def is_cut(self, table: Table) -> bool:
        """Whether the codes of the feature alone tell on which side of the threshold a row is."""
        return not np.isfinite(self.threshold) or self.threshold in table.bins.cuts[self.feature]


class Stumps(Family):
    """One feature against one threshold, in both directions, missing values on either side.

    Features with missing values also have "is present" and "is missing", which differ from each
    other by a sign and a constant.

    All thresholds of a feature are searched at once: their edges are the partial sums of the
    histogram of the pull over its bins. The search is *lazy*: between two rounds no edge can
    move by more than half the total change of the pull, so a feature whose last best edge
    plus the drift since cannot win is not looked at. The choice is the same to the bit.

    O(n) for each feature looked at; at most ``max_bins - 1`` thresholds a feature.

    Parameters
    ----------
    thresholds : {"bins", "all"}
        "bins" searches the cuts of the binned features, at most ``max_bins - 1`` quantiles of
        each; "all" searches every threshold between two distinct values, so that certificates
        hold for all stumps. A feature of d distinct values then takes about d/254 bytes a row
        and time in proportion; X must be in memory, and not on a cluster or a GPU.
    lazy : bool
        Whether to skip features that cannot win.
    monotone_constraints : list of -1, 0 and 1, or dict of column number to -1 or 1, optional
        Scores must fall (-1) or rise (1) with a feature: only stumps whose edge has this sign are
        searched, and so every weight has it. Missing values have no direction: a constraint orders
        present values only, and rows without a value may rank above all others or below. Under
        constraints `exhaustive` is false, because the largest absolute edge may be left out.

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
        self, *, thresholds: str = "bins", lazy: bool = True, monotone_constraints: Any = None
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

    def with_directions(self, given: Any) -> Stumps:
        """The same family under monotone constraints."""
        return Stumps(thresholds=self.thresholds, lazy=self.lazy, monotone_constraints=given)

    def start(self, table: Table, context: Context | None = None) -> StumpSearch:
        """Prepare to search a table many times."""
        signs = directions(self.monotone_constraints, table.n_features)
        if self.thresholds == "all":
            if context is not None and context.device is not None:
                raise ValueError(f"device='cuda' searches bins, not {self!r}; use device='cpu'")
            return _SearchOfAll(table, context or Context(1), lazy=self.lazy, signs=signs)
        if context is not None and context.device is not None:
            from precede.weak_rankers.device_stumps import DeviceStumpSearch  # noqa: PLC0415  (a subclass)

            return DeviceStumpSearch(table, context, signs=signs)
        return StumpSearch(table, context or Context(1), lazy=self.lazy, signs=signs)

    def __repr__(self) -> str:
        parts = [] if self.thresholds == "bins" else [f"thresholds={self.thresholds!r}"]
        parts += [] if self.lazy else ["lazy=False"]
        if self.monotone_constraints is not None:
            parts.append(f"monotone_constraints={self.monotone_constraints!r}")
        return f"Stumps({', '.join(parts)})"


class StumpSearch(Search):
    """Lazy exact search over all stumps of a table.

    `evaluated` counts the features looked at so far, for the curious and for benchmarks.
    """

    def __init__(
        self, table: Table, context: Context, *, lazy: bool = True, signs: Signs | None = None
    ):
        self._signs = None if signs is None or not signs.any() else signs.astype(np.int64)
        self._table = table
        self._context = context
        self._bins = Histograms(table, context)
        self._lazy = lazy
        self._rising = False
        features = table.n_features
        self._n_bins = table.bins.n_bins
        # A feature without any value has no stump "is present".
        self._missing = table.bins.has_missing & ~np.isnan(table.bins.low)
        self._integers = np.zeros(table.n_used_rows, np.int64)
        # What is known of each feature: its best stump (signed edge, first code above the
        # threshold, side of the missing) when last looked at, and how far edges may have
        # moved since.
        self._best = np.zeros((features, 3), np.int64)
        self._slack = np.full(features, MOST)
        self._last = 0  # the largest edge of the last round
        self._drift = 0  # of the last round, where several machines meet
        self._room = np.empty((ABREAST, BINS), np.int64)
        self._small = is_small("cells", table.n_used_rows * features)
        self.evaluated = 0

    def restrict_to_positive(self) -> StumpSearch:
        """Search only the stumps of a positive edge; call it before the first search."""
        if self._signs is not None:
            if self._signs.min() < 0:
                raise ValueError(
                    "nonnegative=True lets scores rise with every feature, but "
                    "monotone_constraints ask them to fall with one; leave one of the two out"
                )
            self._signs = None
        self._rising = True
        return self

    def best(self, pull: Floats, allowed: Flags | None = None) -> SearchResult | None:
        """Give the stump of the largest absolute edge, or of the largest if positive_only."""
        parts = self._context.run(
            _quantize, pull.size, pull, self._integers, small=is_small("rows", pull.size)
        )
        changed = np.array(parts).sum(axis=0)
        if not self._context.is_distributed:
            bound = self._bounds(int(changed.max()), allowed)
            most = self._look(bound)
        else:
            bound, most = self._look_together(changed, allowed)
        if most <= 0:
            return None
        winner = self._winner(bound, most)
        signed, first, missing = (int(value) for value in self._best[winner])
        return SearchResult(self._stump(winner, first, missing), signed / SCALE)

    def _bounds(self, drift: int, allowed: Flags | None) -> Integers:
        """Let edges drift: the most that each feature can have now, -1 if it is not allowed."""
        bound = _bounds(drift if self._lazy else MOST, self._best, self._slack)
        if allowed is not None:
            bound[~allowed] = -1
        return bound

    def _look(self, bound: Integers) -> int:
        """Look at features by falling bound while one that is left could win or tie."""
        streamed, order = self._table.streamed, _by_bound(bound)
        if not streamed and self._signs is None and (self._small or self._context.jobs == 1):
            most, count = search_in_turn(
                self._table.codes, self._integers, self._n_bins, self._missing, bound, order,
                self._best, self._slack, self._rising, self._room,
            )  # fmt: skip
            self.evaluated += count
            return int(most)
        most, looked = 0, 0
        # The best edge seldom grows, so whatever could beat the last one is looked at in one
        # go; the rest, a few at a time. (From disk all of them are read a few at a time.)
        least = ABREAST * self._context.jobs
        width = least if streamed else max(least, int(np.sum(bound >= self._last)))
        while looked < order.size and bound[order[looked]] >= least_tied(most):
            batch = order[looked : looked + width]
            width = least
            most = self._keep(batch, self._picked(batch, -1), most)
            looked += batch.size
        self._last = most
        return most

    # -- several machines ------------------------------------------------------------------

    def _look_together(self, changed: Integers, allowed: Flags | None) -> tuple[Integers, int]:
        """As `_look`, where other machines hold some of the pulls; gives the bounds as well.

        How far edges have drifted is known only when all have met. So that they meet once, the
        histograms of the features that could win if this drift were like the last one travel
        with it; others follow where that was too small a guess.
        """
        likely = self._likely(allowed)
        pick = partial(_drift_and_best, self._pick(likely, -1))
        self._drift, best = all_reduce_sum(
            lambda: (changed, self._histograms(likely)), self._context, pick
        )
        bound = self._bounds(self._drift, allowed)
        most = self._keep(likely, best, 0)
        left = _by_bound(bound)
        left, first = left[~np.isin(left, likely)], 0
        while first < left.size and bound[left[first]] >= least_tied(most):
            batch = left[first : first + APART]
            most = self._keep(batch, self._picked(batch, -1), most)
            first += batch.size
        self._last = most
        return bound, most

    def _likely(self, allowed: Flags | None) -> Integers:
        """Features that could win if edges drifted half as much again as in the last round."""
        drift = self._drift + self._drift // 2 if self._lazy else MOST
        bound = _bounds(drift, self._best, self._slack.copy())
        if allowed is not None:
            bound[~allowed] = -1
        return _by_bound(bound)[: max(APART, int(np.sum(bound >= self._last)))]

    def _keep(self, features: Integers, best: Integers, most: int) -> int:
        """Remember what was found of some features; the largest edge so far."""
        self._best[features] = best
        self._slack[features] = 0
        self.evaluated += features.size
        return max(most, int(np.abs(best[:, 0]).max(initial=0)))

    def _winner(self, bound: Integers, most: int) -> int:
        """First feature that ties with the largest edge; its stump is left in `_best`."""
        # Every feature that could tie with the best has been looked at: its slack is 0.
        least = least_tied(most)
        tied = (self._slack == 0) & (bound >= 0) & (np.abs(self._best[:, 0]) >= least)
        winner = int(np.flatnonzero(tied)[0])
        if abs(int(self._best[winner, 0])) < most:  # it won by a tie: find its first such stump
            self._best[winner] = self._picked(np.array([winner]), least)[0]
        return winner

    def _picked(self, features: Integers, least: int) -> Integers:
        """Best stumps of some features, from the pulls of all machines."""
        return all_reduce_sum(
            lambda: self._histograms(features), self._context, self._pick(features, least)
        )

    def _pick(self, features: Integers, least: int) -> Callable[..., Integers]:
        """Function that finds the best stump of each feature in their histograms."""
        known = self._n_bins[features], self._missing[features]
        if self._signs is not None:
            return partial(_pick_of_signs, *known, self._signs[features], least)
        return partial(_pick_of_features, *known, self._rising, least)

    def _histograms(self, features: Integers) -> Integers:
        return self._bins.sums(self._integers, features)

    def best_decrease(self, factors: Factors, allowed: Flags | None = None) -> SearchResult | None:
        """Give the stump that lowers the exponential risk most, over all thresholds exactly."""
        signs = np.ones(self._n_bins.size, np.int64) if self._rising else self._signs
        share = partial(decreases, smoothing=factors.smoothing, bound=factors.bound)
        choose = partial(_largest_decrease, self._n_bins, allowed, share, signs)
        chosen = all_reduce_sum(lambda: self._decreases(factors), self._context, choose)
        if chosen is None:
            return None
        (feature, first, side), edge, decrease = chosen
        return SearchResult(self._stump(feature, first, side), edge, decrease)

    def _decreases(self, factors: Factors) -> Integers:
        """Masses of the pairs that every stump orders rightly and wrongly."""
        table = self._table
        sums = np.zeros((table.n_features, 2, 2, 258), np.int64)
        width = ABREAST * self._context.jobs if table.streamed else table.n_features
        for first in range(0, table.n_features, width):
            part = slice(first, first + width)
            self._context.run(
                _decreases_of_features, len(sums[part]), table.codes[part], self._n_bins[part],
                self._missing[part], factors.level_start, factors.query_start, factors.terms,
                factors.levels, factors.pairs, factors.pair_mass, sums[part], small=self._small,
            )  # fmt: skip
            table.release(np.arange(table.n_features)[part])
        return sums

    def _stump(self, feature: int, first: int, missing: int) -> Stump:
        """Make the stump that is 1 from code `first` up."""
        ends = [-np.inf, *self._table.bins.cuts[feature], np.inf]
        return Stump(feature, float(ends[first]), missing)


class _SearchOfAll(StumpSearch):
    """Search over every threshold: a feature takes one column for every 254 of its cuts."""

    def __init__(self, table: Table, context: Context, *, lazy: bool, signs: Signs):
        columns: list[FeatureBins] = []
        of: list[int] = []
        for feature in range(table.n_features):
            values = table.column(feature)
            cuts, ends = choose_cuts(values, None, values.size + 1)
            for first in range(0, max(cuts.size, 1), MISSING - 1):
                columns.append(FeatureBins(cuts[first : first + MISSING - 1], *ends))
                of.append(feature)
        self._of = np.array(of, np.int64)
        codes = np.empty((len(of), table.n_used_rows), np.uint8)
        for feature in range(table.n_features):
            values = table.column(feature)
            for column in np.flatnonzero(self._of == feature).tolist():
                columns[column].encode(values, codes[column])
        wide = Table(table.X, codes, Bins.of(columns), table.order)
        super().__init__(wide, context, lazy=lazy, signs=signs[self._of])

    def best(self, pull: Floats, allowed: Flags | None = None) -> SearchResult | None:
        """Return the stump of the largest absolute edge, or of the largest if positive_only."""
        return super().best(pull, None if allowed is None else allowed[self._of])

    def best_decrease(self, factors: Factors, allowed: Flags | None = None) -> SearchResult | None:
        """Return the stump that lowers the exponential risk most."""
        return super().best_decrease(factors, None if allowed is None else allowed[self._of])

    def _stump(self, feature: int, first: int, missing: int) -> Stump:
        found = super()._stump(feature, first, missing)
        return Stump(int(self._of[feature]), found.threshold, missing)


def _bounds(drift: int, best: Integers, slack: Integers) -> Integers:
    """Let edges drift; gives the most that the best edge of each feature can be."""
    # The least is taken before adding: the slack of a feature never looked at is MOST already.
    np.minimum(slack, MOST - drift, out=slack)
    slack += drift
    # What is stored may be the first of those that tie with the best: see `best_cuts`.
    edge = np.abs(best[:, 0])
    edge += (edge >> 39) + 512
    return np.minimum(slack, MOST - edge) + edge


def _by_bound(bound: Integers) -> Integers:
    """Features that are allowed, by falling bound."""
    order = np.argsort(-bound, kind="stable")
    return order[bound[order] >= 0]


def _drift_and_best(
    pick: Callable[[Integers], Integers],
    sums: tuple[Integers, Integers],
) -> tuple[int, Integers]:
    """How far edges may have drifted, and the best stumps, from the sums of all machines."""
    changed, histograms = sums
    return int(changed.max()), pick(histograms)


def _pick_of_features(
    n_bins: Integers,
    missing: Flags,
    positive_only: bool,
    least: int,
    histograms: Integers,
) -> Integers:
    """Best stump of each feature; see `best_cuts`."""
    return best_cuts(histograms, n_bins, missing, positive_only, least)


def _pick_of_signs(
    n_bins: Integers,
    missing: Flags,
    signs: Integers,
    least: int,
    histograms: Integers,
) -> Integers:
    """Best stump of each feature whose edge has the sign of the feature, where it has one."""
    best = best_cuts(histograms, n_bins, missing, False, least)
    bound = np.flatnonzero(signs)
    if bound.size:  # a stump of a negative edge is one of a positive edge of the opposite pull
        turned = histograms[bound] * signs[bound, None]
        found = best_cuts(turned, n_bins[bound], missing[bound], True, least)
        found[:, 0] *= signs[bound]
        best[bound] = found
    return best


def _largest_decrease(
    n_bins: Integers,
    allowed: Flags | None,
    share: Callable[[Floats, Floats], Floats],
    signs: Integers | None,
    sums: Integers,
) -> tuple[tuple[int, int, int], float, float] | None:
    """Feature, first code above the threshold and side of the missing; edge; decrease."""
    if allowed is not None:
        sums = np.where(allowed[:, None, None, None], sums, 0)
    right, wrong = sums[:, :, 0] / SCALE, sums[:, :, 1] / SCALE
    gain = share(right, wrong)
    if signs is not None:
        ways = signs[:, None, None]
        gain = np.where((ways == 0) | (ways * (right - wrong) > 0), gain, 0.0)
    # In both directions "is missing" is "is present" again.
    both = np.arange(gain.shape[0]) if signs is None else np.flatnonzero(signs == 0)
    gain[both, 1, n_bins[both]] = 0
    decrease = gain.transpose(0, 2, 1)  # features, thresholds, side of the missing
    if decrease.max() <= 0:
        return None
    best = first_tied(decrease, TIE_OF_DECREASES)
    feature, first, side = (int(i) for i in np.unravel_index(best, decrease.shape))
    edge = float(right[feature, side, first] - wrong[feature, side, first])
    return (feature, first, side), edge, float(decrease[feature, first, side])


assert MISSING == 255, "the kernels below write the code of missing values as 255"


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _quantize(low: int, high: int, pull: Floats, integers: Integers) -> tuple[int, int]:
    """Pulls as integers; returns how much was added and taken since the last round."""
    up, down = 0, 0
    for row in range(low, high):
        now = np.int64(np.rint(pull[row] * 2305843009213693952.0))
        change = now - integers[row]
        if change > 0:
            up += change
        else:
            down -= change
        integers[row] = now
    return up, down


@njit(cache=True, nogil=True)
def _decreases_of_features(
    low: int, high: int, codes: Bytes, n_bins: Integers, missing: Flags, level_start: Integers,
    query_start: Integers, terms: Floats, levels: Floats, pairs: Integers, pair_mass: Floats,
    sums: Integers,
) -> None:  # fmt: skip
    """Masses of rightly and wrongly ordered pairs for every threshold of every feature.

    sums[feature, side of the missing, right or wrong, first code that is 1].
    """
    for feature in range(low, high):
        for side in range(2 if missing[feature] else 1):
            right, wrong = sums[feature, side, 0], sums[feature, side, 1]
            key = _keys(codes[feature], n_bins[feature], side, missing[feature])
            for query in range(query_start.size - 1):
                bottom, top = query_start[query], query_start[query + 1]
                _decreases_of_query(key, level_start, bottom, top, terms, levels, right, wrong)
            for pair in range(pair_mass.size):
                above, below = key[pairs[0, pair]], key[pairs[1, pair]]
                mass = np.int64(np.rint(pair_mass[pair] * 2305843009213693952.0))
                if above > below:
                    right[below + 1] += mass
                    right[above + 1] -= mass
                elif above < below:
                    wrong[above + 1] += mass
                    wrong[below + 1] -= mass
            _accumulate(right, missing[feature] and side == 0)
            _accumulate(wrong, missing[feature] and side == 0)


@njit(cache=True, nogil=True)
def _keys(codes: Bytes, bins: int, side: int, missing: bool) -> Integers:
    """Codes with the missing ones moved below all others (0) or above (bins)."""
    key = np.empty(codes.size, np.int64)
    for row in range(codes.size):
        if codes[row] == 255:
            key[row] = 0 if side == 0 else bins
        else:
            key[row] = codes[row] + (1 if missing and side == 0 else 0)
    return key


@njit(**INNER)
def _accumulate(steps: Integers, shifted: bool) -> None:
    """Turn steps into values; index j becomes `the first code that is 1`."""
    running = np.int64(0)
    for j in range(steps.size):
        running += steps[j]
        steps[j] = running
    if shifted:  # keys were one above the codes
        for j in range(steps.size - 1):
            steps[j] = steps[j + 1]
        steps[steps.size - 1] = 0
    else:
        steps[0] = 0


@njit(**INNER)
def _mix(zero: Floats, one: Floats, down: Floats, total: float, carry: float, fresh: float) -> None:
    """Let the losers of one more level count among those below.

    Both sides are summed from their own end: a side that is empty is exactly 0.
    """
    part = 0.0
    for j in range(down.size - 1):
        part += down[j]
        zero[j] = carry * zero[j] + fresh * part / total
    part = 0.0
    for j in range(down.size - 2, -1, -1):
        part += down[j + 1]
        one[j] = carry * one[j] + fresh * part / total


@njit(**INNER)
def _match(
    in_order: Floats, reversed_: Floats, zero: Floats, one: Floats, up: Floats, scale: float
) -> None:
    """Let the winners of one level meet the losers below, threshold by threshold."""
    part = 0.0
    for j in range(up.size - 1):
        part += up[j]
        reversed_[j] += scale * part * one[j]
    part = 0.0
    for j in range(up.size - 2, -1, -1):
        part += up[j + 1]
        in_order[j] += scale * part * zero[j]


@njit(**INNER)
def _occurring(keys: Integers) -> tuple[Integers, Integers, int]:
    """Number the keys that occur from 0 up: slot of each key, key of each slot, and how many."""
    slot = np.full(257, -1, np.int64)
    present = np.empty(257, np.int64)
    for key in keys:
        slot[key] = 0
    count = 0
    for key in range(257):
        if slot[key] == 0:
            slot[key] = count
            present[count] = key
            count += 1
    return slot, present, count


@njit(**INNER)
def _decreases_of_query(
    key: Integers, level_start: Integers, bottom: int, top: int, terms: Floats, levels: Floats,
    right: Integers, wrong: Integers,
) -> None:  # fmt: skip
    """Add one query's masses, as steps over thresholds.

    Between two neighboring keys of the query nothing changes, so only the keys that occur
    in it are thresholds: at threshold j the ranker is 1 on the keys after the j-th. Going up
    the levels, `zero` and `one` are the shares of the losers below where it is 0 and 1.
    """
    winner_sum, loser_sum, winner_mass, _, carry, fresh = levels
    slot, present, count = _occurring(key[level_start[bottom] : level_start[top]])
    if count < 2:
        return
    zero, one = np.zeros(count), np.zeros(count)
    in_order, reversed_ = np.zeros(count), np.zeros(count)
    up, down = np.zeros(count), np.zeros(count)
    for level in range(bottom, top):
        if level > bottom:  # `down` still holds the losers of the level before
            _mix(zero, one, down, loser_sum[level - 1], carry[level], fresh[level])
        up[:] = 0.0
        down[:] = 0.0
        for row in range(level_start[level], level_start[level + 1]):
            up[slot[key[row]]] += terms[0, row]
            down[slot[key[row]]] += terms[1, row]
        if level > bottom:
            _match(in_order, reversed_, zero, one, up, winner_mass[level] / winner_sum[level])
    before_right, before_wrong = np.int64(0), np.int64(0)
    for j in range(count):
        now_right, now_wrong = np.int64(0), np.int64(0)
        if j < count - 1:
            now_right = np.int64(np.rint(in_order[j] * 2305843009213693952.0))
            now_wrong = np.int64(np.rint(reversed_[j] * 2305843009213693952.0))
        # The ranker of threshold j is 1 from key present[j] + 1 up.
        right[present[j] + 1] += now_right - before_right
        wrong[present[j] + 1] += now_wrong - before_wrong
        before_right, before_wrong = now_right, now_wrong
