"""Stumps that vote for one class or the other: 1 above a threshold, -1 below."""

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
        _ = self.stump  # which checks its fields

    @property
    def stump(self) -> Stump:
        """The stump of which this is ``2 h - 1``."""
        return Stump(self.feature, self.threshold, self.missing)

    def __call__(self, X: Array) -> NDArray[np.int8]:
        """1 or -1 for every row."""
        return _signs(self.stump(X))

    def on(self, table: Table) -> NDArray[np.int8]:
        """Read from the codes of a table."""
        return _signs(self.stump.on(table))


def _signs(values: Bytes) -> NDArray[np.int8]:
    return 2 * values.astype(np.int8) - 1


class SignedStumps(Family):
    """All stumps as votes of 1 and -1, both directions, missing values on either side.

    "Is missing" is "is present" in the other direction.
    A risk over pairs cannot tell a vote from its stump; a risk over rows can. The edges of
    all thresholds of a feature are partial sums of one histogram. O(n) for each feature and
    round.
    """

    name = "votes"
    exhaustive = True

    def start(self, table: Table, context: Context | None = None) -> Search:
        """Prepare to search a table many times."""
        return _SignedStumpSearch(table, context or Context(1))


class _SignedStumpSearch(Search):
    def __init__(self, table: Table, context: Context):
        self._table = table
        self._histograms = Histograms(table, context)
        self._n_bins = table.bins.n_bins
        # Where every value is missing, "present or missing" is no question.
        self._missing = table.bins.has_missing & ~np.isnan(table.bins.low)

    def best(self, pull: Floats, allowed: Flags | None = None) -> SearchResult | None:
        """Give the vote of the largest absolute edge."""
        table = self._table
        integers = to_integers(pull)
        sums = self._histograms.sums(integers)
        best = _best_signed_stumps(sums, self._n_bins, self._missing, integers.sum())
        edge = np.abs(best[:, 0])
        if allowed is not None:
            edge[~allowed] = 0
        most = int(edge.max(initial=0))
        if most == 0:
            return None
        chosen = int(np.argmax(edge >= least_tied(most)))
        signed, first, missing = (int(value) for value in best[chosen])
        threshold = table.bins.cuts[chosen][first - 1] if first > 0 else -np.inf
        return SearchResult(SignedStump(chosen, float(threshold), missing), signed / SCALE)


def signed_stumps(family: Family, *, constant: bool) -> Family:
    """The family with stumps as votes, and with the constant if asked for.

    >>> from precede import Features, Stumps
    >>> signed_stumps(Stumps() | Features(), constant=True)
    SignedStumps() | Features() | Constants()
    """
    for each in family.members:
        if isinstance(each, Stumps) and each.monotone_constraints is not None:
            raise ValueError(
                f"weak_rankers={each!r}: votes go in either direction; leave the constraints out, "
                "or "
                "use RankBoost"
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
    """A stump h of weight 2a as the vote ``2 h - 1`` of weight a; other rankers as they are.

    The scores differ by the constant a, which orders nothing.

    >>> as_signed_stump(Stump(0, 0.5), 3.0)
    (SignedStump(feature=0, threshold=0.5, missing=0), 1.5)
    """
    if not isinstance(weak_ranker, Stump):
        return weak_ranker, weight
    return SignedStump(weak_ranker.feature, weak_ranker.threshold, weak_ranker.missing), weight / 2


def as_stump(weak_ranker: WeakRanker, weight: float) -> tuple[WeakRanker, float, float]:
    """A vote of weight a as the stump h of weight 2a, and by how much (a) that raises all scores.

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
    """Edge, first code above the threshold and side of the missing of each feature's best.

    The edge of a vote is twice the pull where it is 1, less the pull of all rows. The first of
    those that tie with a feature's best is taken.
    """
    best = np.zeros((n_bins.size, 3), np.int64)
    for feature in range(n_bins.size):
        sums = histograms[feature]
        present = total - sums[255]
        most = np.int64(0)
        for again in range(2):
            least = most - (most >> 40) - 256  # see `least_tied`
            above = present
            for first in range(n_bins[feature]):
                for side in range(2 if missing[feature] else 1):
                    if first == 0 and (side == 1 or not missing[feature]):
                        continue  # a constant
                    edge = 2 * (above + side * sums[255]) - total
                    if again == 0:
                        most = max(most, abs(edge))
                    elif abs(edge) >= least and best[feature, 0] == 0:
                        best[feature, 0], best[feature, 1], best[feature, 2] = edge, first, side
                above -= sums[first]
    return best
