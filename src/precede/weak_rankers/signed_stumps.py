"""Stumps with values 1 above a threshold and -1 below, for classification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from precede.engine.arrays import Array, Bytes, Flags, Floats, Integers
from precede.engine.exact import SCALE, to_integers
from precede.engine.execution import Context
from precede.engine.histograms.columns import Histograms
from precede.engine.table import MISSING, Table
from precede.engine.ties import least_tied
from precede.weak_rankers.base import Family, Search, SearchResult, Union, WeakRanker
from precede.weak_rankers.columns import Constants
from precede.weak_rankers.stumps import Stump, Stumps

__all__ = ["SignedStump", "SignedStumps", "as_signed_stump", "as_stump", "signed_stumps"]


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
        return _signs(self.stump(X))

    def on(self, table: Table) -> NDArray[np.int8]:
        """Return 1 or -1 for every row of a table."""
        return _signs(self.stump.on(table))


def _signs(values: Bytes) -> NDArray[np.int8]:
    return 2 * values.astype(np.int8) - 1


class SignedStumps(Family):
    """All stumps with values 1 and -1, in both directions, missing values on either side.

    For a pair risk a signed stump is equivalent to twice its stump; for a pointwise risk it is
    not. The edges of all thresholds of a feature are partial sums of one histogram. "Is missing"
    is the opposite of "is present" and is not searched. O(n) per feature and round.
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
        threshold = table.bins.cuts[feature][first - 1] if first > 0 else -np.inf
        return SearchResult(SignedStump(feature, float(threshold), missing), signed_edge / SCALE)


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
    votes = [SignedStumps() if isinstance(each, Stumps) else each for each in family.members]
    if constant:
        votes.append(Constants())
    return votes[0] if len(votes) == 1 else Union(*votes)


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


assert MISSING == 255, "the kernel below writes the code of missing values as 255"


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _best_signed_stumps(
    histograms: Integers, n_bins: Integers, missing: Flags, total: int
) -> Integers:
    """Return edge, first code above the threshold and side of missing of each feature's best stump.

    The edge of a signed stump is twice the pull where it is 1, minus the pull of all rows. The
    first pass finds the best edge, the second the first stump that ties with it.
    """
    best = np.zeros((n_bins.size, 3), np.int64)
    for feature in range(n_bins.size):
        sums = histograms[feature]
        present = total - sums[255]
        best_edge = np.int64(0)
        for pass_number in range(2):
            min_edge = best_edge - (best_edge >> 40) - 256  # see `least_tied`
            above = present
            for first in range(n_bins[feature]):
                for side in range(2 if missing[feature] else 1):
                    if first == 0 and (side == 1 or not missing[feature]):
                        continue  # a constant
                    edge = 2 * (above + side * sums[255]) - total
                    if pass_number == 0:
                        best_edge = max(best_edge, abs(edge))
                    elif abs(edge) >= min_edge and best[feature, 0] == 0:
                        best[feature, 0], best[feature, 1], best[feature, 2] = edge, first, side
                above -= sums[first]
    return best
