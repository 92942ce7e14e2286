"""Exact minimization of the empirical ranking risk, the share of pairs in the wrong order.

Section 3 of Clémençon, Lugosi & Vayatis (2005): among a class of scoring functions take the one
with the fewest discordant pairs. Every member is evaluated, in integers, without enumerating pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from precede.engine.arrays import Array, Flags, Floats, Integers, MatrixLike, VectorLike
from precede.judgments import Judgments, check_column, number_queries, read_judgments, to_numbers
from precede.margin import margin_distribution
from precede.weak_rankers.columns import Column, Constant
from precede.weak_rankers.stumps import Stump

Score = Callable[[Array], Array]

# A margin of at most this is a misordered pair.
LARGEST_NEGATIVE = float(np.nextafter(0.0, -1.0))


@dataclass(frozen=True)
class RiskMinimizer:
    """Member of a class with minimal empirical ranking risk.

    The score is ``sign * weak_ranker(X)``. `risk` is L_n, the share of all pairs in the wrong order
    with tied scores counting half; `pair_error` is the same share of the `n_pairs` crucial pairs
    (those with an order). `n_members` scores were compared; `n_minimizers` of them have this risk.

    Examples
    --------
    >>> found = minimize_ranking_risk([[1.0], [2.0], [3.0], [4.0]], [0, 1, 0, 1])
    >>> found.predict([[2.0], [3.5]])
    array([1., 1.])
    >>> found.rule([[2.0]], [[1.0]])
    array([1])
    """

    weak_ranker: Score
    sign: int
    risk: float
    pair_error: float
    n_pairs: int
    n_members: int
    n_minimizers: int

    def predict(self, X: ArrayLike) -> Floats:
        """Score rows; larger is better."""
        return self.sign * np.asarray(self.weak_ranker(to_numbers(X, "X")), np.float64)

    def rule(self, X: ArrayLike, other: ArrayLike) -> Integers:
        """Compare row by row: 1 where X ranks at least as high as the other row, else -1."""
        return np.where(self.predict(X) >= self.predict(other), 1, -1)


def minimize_ranking_risk(
    X: MatrixLike,
    y: VectorLike = None,
    *,
    qid: VectorLike = None,
    pairs: VectorLike = None,
    weak_rankers: str | Sequence[Score] = "stumps",
    reverse: bool = True,
) -> RiskMinimizer:
    """Find the scoring function with the fewest pairs in the wrong order, exactly.

    r_n = argmin L_n(r), L_n = 1/(n(n − 1)) Σ_{i≠j} 1[(y_i − y_j)·r(x_i, x_j) < 0] over the rules
    r(x, x') = 2·1[s(x) ≥ s(x')] − 1, so that a tie in s counts half an error for each unordered
    pair. Every member of the class is evaluated and counts are integers: the minimum is exact.
    Reference: Clémençon, Lugosi & Vayatis (2005), section 3.

    Parameters
    ----------
    X : array-like of shape (n, d)
    y : array-like of n grades, or Judgments without weights
    qid : array-like of n query identifiers, optional
        Pairs are formed within queries and have equal weights.
    pairs : array-like of shape (m, 2) of rows (winner, loser), optional
        Explicit pairs, each counting as one.
    weak_rankers : {"stumps", "columns"} or a sequence of functions of X, default "stumps"
        All stumps at all thresholds (no binning; missing values on either side, and missing against
        present values), the columns of X as scores, or scoring functions, which include
        `WeakRanker` objects.
    reverse : bool, default True
        Whether the class contains −s for every s. If so, 1[x is missing] is not a separate stump,
        because −1[x is present] gives the same ranking.

    Returns
    -------
    RiskMinimizer
        The first among ties: lowest column (or position in the sequence), then lowest threshold,
        missing values below, sign +1 before −1. `n_minimizers` is the number of ties.

    Notes
    -----
    For a stump the risk is linear in its values, so that all thresholds of a feature come from one
    sort and a cumulative sum of pairs won minus pairs lost, O(d·n log n) in total. Other scores
    take O(n log n) each.

    Examples
    --------
    >>> from precede import minimize_ranking_risk
    >>> X, y = [[1.0, 5.0], [2.0, 1.0], [3.0, 2.0], [4.0, 0.0]], [0, 0, 1, 1]
    >>> found = minimize_ranking_risk(X, y)
    >>> found.weak_ranker, found.risk, found.n_minimizers
    (Stump(feature=0, threshold=2.5, missing=0), 0.0, 1)
    >>> minimize_ranking_risk(X, y, weak_rankers="columns").weak_ranker
    Column(feature=0)
    """
    table = to_numbers(X, "X")
    if table.ndim != 2 or not table.size:
        raise ValueError(f"X has shape {table.shape}; give a row for each item and some columns")
    if np.isinf(table).any():
        raise ValueError("X holds infinity; give finite numbers, or NaN where a value is missing")
    sample = _Pairs(_judgments(y, qid, pairs, len(table)))
    if isinstance(weak_rankers, str) and weak_rankers == "stumps":
        members = _stumps(table, sample, reverse)
    else:
        members = (
            (np.array([sample.errors(_values(score, table, number))]), [score].__getitem__)
            for number, score in enumerate(_scores(weak_rankers, table))
        )
    return _best_member(members, sample, reverse)


def _judgments(y: VectorLike, qid: VectorLike, pairs: VectorLike, rows: int) -> Judgments:
    y = read_judgments(rows, y, qid=qid, pairs=pairs)[0]
    for name in ("weight", "pair_weight"):
        given = getattr(y, name)
        if given is not None and (given != 1).any():
            raise ValueError(f"y has a {name}, but here all pairs count alike; leave it out")
    return y


class _Pairs:
    """Crucial pairs of graded and explicit judgments, counted without enumeration."""

    def __init__(self, judgments: Judgments):
        listed = judgments.pairs
        self._listed = np.zeros((0, 2), np.int64) if listed is None else listed
        grade = judgments.grade
        self._graded = np.flatnonzero(~np.isnan(grade)) if grade is not None else np.zeros(0, int)
        self._grade = grade[self._graded] if grade is not None else np.zeros(0)
        query = number_queries(judgments.qid, len(judgments))[0][self._graded]
        self._query = np.unique(query, return_inverse=True)[1].astype(np.int64)
        self.net = np.zeros(len(judgments), np.int64)  # pairs won minus pairs lost
        self.net[self._graded] = self._net_of_grades()
        np.add.at(self.net, self._listed[:, 0], 1)
        np.add.at(self.net, self._listed[:, 1], -1)
        sizes = np.bincount(self._query)
        self.n_all = int((sizes * (sizes - 1) // 2).sum()) + len(self._listed)
        self.n_crucial = self._n_graded + len(self._listed)
        if not self.n_crucial:
            raise ValueError("no pair to order: no two grades differ within a query; check y")

    def _net_of_grades(self) -> Integers:
        order = np.lexsort((self._grade, self._query))
        grade, query = self._grade[order], self._query[order]
        size = len(order)
        new_query = np.diff(query, prepend=-1) != 0
        new_level = new_query | (np.diff(grade, prepend=np.nan) != 0)
        first, last = (_bounds(new, size) for new in (new_query, new_level))
        below, above = last[0] - first[0], first[1] - last[1]
        self._n_graded = int(below.sum())
        net = np.empty(size, np.int64)
        net[order] = below - above
        return net

    def errors(self, scores: Floats) -> int:
        """Return twice the number of errors: twice the misordered pairs plus the tied ones."""
        gap = scores[self._listed[:, 0]] - scores[self._listed[:, 1]]
        found = 2 * int((gap < 0).sum()) + int((gap == 0).sum())
        if self._n_graded:
            margins = margin_distribution(self._grade, scores[self._graded], self._query)
            found += round(float(margins.at([LARGEST_NEGATIVE, 0.0]).sum()) * self._n_graded)
        return found


def _bounds(new: Flags, size: int) -> tuple[Integers, Integers]:
    """Return the start and the end of the run of every position."""
    starts = np.append(np.flatnonzero(new), size)
    run = np.cumsum(new) - 1
    return starts[run], starts[run + 1]


def _stumps(
    table: Array, sample: _Pairs, reverse: bool
) -> Iterator[tuple[Integers, Callable[[int], Score]]]:
    """Yield for each feature the errors of its stumps, and a function from position to stump.

    A stump h has ``2·errors = pairs - Σ net_i h(x_i)``, because a pair adds 1 to the sum if it
    is in order, -1 if it is reversed and 0 if it is tied.
    """
    for feature in range(table.shape[1]):
        column = table[:, feature]
        absent = np.isnan(column)
        order = np.argsort(column[~absent], kind="stable")
        values, net = column[~absent][order], sample.net[~absent][order]
        ends = np.flatnonzero(values[1:] > values[:-1])
        low, high = values[ends], values[ends + 1]
        middle = low / 2 + high / 2
        cuts = np.where((low <= middle) & (middle < high), middle, low)
        above = int(net.sum()) - np.cumsum(net)[ends]
        missing = np.zeros(cuts.size, np.int64)
        if absent.any() and not absent.all():
            # Every threshold with both sides of missing values, between the stumps "is present" and
            # "is missing".
            lost = sample.net[absent].sum()
            both = np.stack([above, above + lost], axis=1).ravel()
            above = np.concatenate([[net.sum()], both, [lost]])[: both.size + 2 - reverse]
            missing = np.concatenate([[0], np.tile([0, 1], cuts.size), [1]])
            cuts = np.concatenate([[-np.inf], np.repeat(cuts, 2), [np.inf]])
        yield sample.n_crucial - above, partial(_stump, feature, cuts, missing)


def _stump(feature: int, cuts: Floats, missing: Integers, position: int) -> Stump:
    return Stump(feature, float(cuts[position]), int(missing[position]))


def _scores(weak_rankers: str | Sequence[Score], table: Array) -> list[Score]:
    if isinstance(weak_rankers, str):
        if weak_rankers != "columns":
            raise ValueError(
                f"weak_rankers={weak_rankers!r}; use 'stumps', 'columns' or a sequence of "
                "functions of X"
            )
        return [Column(feature) for feature in range(table.shape[1])]
    scores = list(weak_rankers)
    if not scores or not all(map(callable, scores)):
        raise ValueError(
            f"weak_rankers={weak_rankers!r}; use 'stumps', 'columns' or a sequence of functions "
            "of X"
        )
    return scores


def _values(score: Score, table: Array, number: int) -> Floats:
    return check_column(score(table), f"score {number} ({score!r})", len(table))


def _best_member(
    members: Iterable[tuple[Integers, Callable[[int], Score]]], sample: _Pairs, reverse: bool
) -> RiskMinimizer:
    """Return the first member with the fewest errors, and the number of such members."""
    best: tuple[int, Score, int] | None = None
    counts: list[tuple[int, int]] = []
    total = 0
    for errors, member in members:
        if not errors.size:
            continue
        both = np.stack([errors, 2 * sample.n_crucial - errors][: 1 + reverse], axis=1).ravel()
        position, total = int(np.argmin(both)), total + both.size
        fewest = int(both[position])
        counts.append((fewest, int((both == fewest).sum())))
        if best is None or fewest < best[0]:
            index, is_reversed = divmod(position, 1 + reverse)
            best = (fewest, member(index), -1 if is_reversed else 1)
    if best is None:  # all features are constant
        best, total = (sample.n_crucial, Constant(), 1), 1
        counts.append((sample.n_crucial, 1))
    fewest, weak_ranker, sign = best
    return RiskMinimizer(
        weak_ranker, sign, fewest / (2 * sample.n_all), fewest / (2 * sample.n_crucial),
        sample.n_crucial, total, sum(count for errors, count in counts if errors == fewest),
    )  # fmt: skip
