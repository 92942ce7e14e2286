"""How far a board can be trusted: cycles, votes that decide the first place, resampled clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from precede.engine.arrays import Floats, Integers, Json
from precede.engine.exact import sums_at
from precede.leaderboard.likelihood import Fit, Information, fit_strengths
from precede.leaderboard.pairs import without_strength
from precede.rank_sets import Transitivity, cyclic_majorities
from precede.results import Result
from precede.votes import Counts, Votes

MOST_ROUNDS = 60  # of removals
SLIGHT_RIDGE = 1e-8  # keeps strengths finite when votes are removed


# -- transitivity ---------------------------------------------------------------------------------


def find_cycles(votes: Votes, counts: Counts, clusters: Mapping[str, Integers]) -> Transitivity:
    """Test the majorities of all pairs of items for cycles.

    The majority of a pair has the ratio Σ_c m_c / √(Σ_c m_c²), where m_c is the number of wins less
    losses in cluster c, or the vote of an independent voter: a test of m = 0, normal for many
    clusters. With two kinds of clusters the smaller ratio counts. By Bonferroni's inequality all
    pairs hold together.
    """
    n = len(votes.items)
    key, pair = np.unique(counts.a * n + counts.b, return_inverse=True)
    weight = np.ones(len(votes)) if votes.weight is None else votes.weight
    sign, of_vote = np.array([1.0, -1.0, 0.0])[counts.row % 3][counts.kind], pair[counts.row // 3]
    of_vote = of_vote[counts.kind]
    margin = sums_at(of_vote, weight * sign, key.size)
    ratio = margin / np.sqrt(np.maximum(sums_at(of_vote, weight * sign**2, key.size), 1e-300))
    for number in clusters.values():
        groups, which = np.unique(number * key.size + of_vote, return_inverse=True)
        inside = sums_at(which.astype(np.int64), weight * sign, groups.size)
        spread = np.sqrt(np.maximum(sums_at(groups % key.size, inside**2, key.size), 1e-300))
        ratio = np.where(np.abs(margin / spread) < np.abs(ratio), margin / spread, ratio)
    one, other = np.divmod(key, n)
    won = np.where((margin > 0)[:, None], np.stack([one, other], 1), np.stack([other, one], 1))
    return cyclic_majorities(won[margin != 0], np.abs(ratio)[margin != 0], key.size, votes.items)


# -- fragility -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fragility(Result):
    """How few votes, if left out, change the first place.

    Fewer may do: the votes are chosen by their influence on the difference of two strengths, and
    the change is confirmed by a fit without them. `removed` lists them by pair and outcome.
    """

    first: str
    new_first: str
    n_removed: int
    n_votes: int
    removed: tuple[tuple[str, str, str, int], ...]

    def summary(self) -> str:
        """Return the sentence above the table."""
        if not self.n_removed:
            return f"no removal of votes was found that takes the first place from {self.first}"
        share = 100 * self.n_removed / self.n_votes
        return (
            f"without {self.n_removed} of {self.n_votes} votes ({share:.3g} %), {self.new_first} "
            f"would be first instead of {self.first}"
        )

    def rows(self) -> list[Json]:
        """Return the votes that are left out."""
        names = ("a", "b", "outcome", "votes")
        return [dict(zip(names, row, strict=True)) for row in self.removed]


def find_fragility(
    counts: Counts, fit: Fit, items: Sequence[str], ridge: float, *, davidson: bool
) -> Fragility:
    """Remove the votes of the largest influence on the lead, for each of the closest rivals."""
    ridge = max(ridge, SLIGHT_RIDGE)
    order = np.argsort(-fit.theta, kind="stable")
    first, best = int(order[0]), None
    for rival in order[1:4].tolist():
        taken = _taken_votes(counts, fit, (first, rival), ridge, davidson)
        if taken is None:
            continue
        if best is None or len(taken) < len(best):
            best = taken
    total = int(counts.weight.sum())
    if best is None:
        return Fragility(items[first], items[first], 0, total, ())
    left = _refit(counts, fit, best, ridge, davidson)
    cells, many = np.unique(best, return_counts=True)
    words = ("a", "b", "tie")
    removed = [(items[counts.a[cell // 3]], items[counts.b[cell // 3]], words[cell % 3], int(count))
               for cell, count in zip(cells, many, strict=True)]  # fmt: skip
    removed.sort(key=lambda row: -row[3])
    return Fragility(
        items[first], items[int(np.argmax(left.theta))], len(best), total, tuple(removed)
    )


def _taken_votes(
    counts: Counts, fit: Fit, pair: tuple[int, int], ridge: float, davidson: bool
) -> Integers | None:
    """Return cells (3 · comparison + outcome) of votes to remove, None if none were found.

    Votes are removed by their influence until the first place changes; then the shortest
    beginning of this list that changes it is sought.
    """
    taken: list[int] = []
    now = fit
    for _ in range(MOST_ROUNDS):
        gap = now.theta[pair[0]] - now.theta[pair[1]]
        if int(np.argmax(now.theta)) != pair[0]:
            break
        more = _most_influential(_without(counts, taken), now, pair, ridge, max(gap, 1e-12))
        if not more:
            return None
        taken += more
        if len(taken) > counts.weight.sum() / 2:
            return None
        now = _refit(counts, fit, np.array(taken), ridge, davidson)
    else:
        return None
    low, high = 0, len(taken)
    while high - low > 1:
        middle = (low + high) // 2
        left = _refit(counts, fit, np.array(taken[:middle]), ridge, davidson)
        low, high = (middle, high) if int(np.argmax(left.theta)) == pair[0] else (low, middle)
    return np.array(taken[:high])


def _most_influential(
    counts: Counts, fit: Fit, pair: tuple[int, int], ridge: float, gap: float
) -> list[int]:
    """Return the cells of the votes whose removal closes the gap, to first order."""
    right = np.zeros(fit.theta.size)
    right[pair[0]], right[pair[1]] = 1.0, -1.0
    information = Information(counts, fit, ridge)
    others = information.border.shape[1]
    theta, rest = information.solve(right, np.zeros(others))
    in_d, in_ties = fit.scores(fit.log_odds(counts))
    columns = counts.design.shape[1]
    along = theta[counts.a] - theta[counts.b] + counts.design @ rest[:columns]
    influence = along[:, None] * in_d
    if fit.log_ties is not None:
        influence = influence + rest[columns] * in_ties
    influence = np.where(counts.weight >= 1, influence, 0.0).ravel()
    order = np.argsort(-influence, kind="stable")
    order = order[influence[order] > 0]
    available = np.floor(counts.weight.ravel()[order])
    closed = np.cumsum(available * influence[order])
    found: list[int] = []
    for at, cell in enumerate(order):
        before = closed[at - 1] if at else 0.0
        if before >= gap:
            break
        needed = int(np.ceil((gap - before) / influence[cell]))
        found += [int(cell)] * int(min(needed, available[at]))
    return found


def _without(counts: Counts, taken: Sequence[int]) -> Counts:
    weight = counts.weight.ravel().copy()
    np.subtract.at(weight, np.array(taken, np.int64), 1.0)
    return replace(counts, weight=np.maximum(weight, 0.0).reshape(-1, 3))


def _refit(counts: Counts, fit: Fit, taken: Integers, ridge: float, davidson: bool) -> Fit:
    left = _without(counts, taken.tolist())
    return fit_strengths(left, fit.theta.size, davidson=davidson, ridge=ridge, start=fit)


# -- bootstrap -------------------------------------------------------------------------------------


def bootstrap_covariance(
    votes: Votes, counts: Counts, fit: Fit, clusters: Mapping[str, Integers], *,
    davidson: bool, ridge: float, resamples: int, random_state: int,
) -> Floats:  # fmt: skip
    """Return the covariance of the parameters over resamples of votes, or of clusters.

    With two kinds of clusters, a vote counts the product of how often its two clusters are drawn.
    """
    rng = np.random.default_rng(random_state)
    weight = np.ones(len(votes)) if votes.weight is None else votes.weight
    found, n = [], fit.theta.size
    for _ in range(resamples):
        if clusters:
            times = weight
            for number in clusters.values():
                size = int(number.max()) + 1
                times = times * rng.multinomial(size, np.full(size, 1 / size))[number]
            drawn = counts.with_weight(times)
        else:
            total = counts.weight.sum()
            share = counts.weight.ravel() / total
            again = rng.multinomial(round(total), share).astype(np.float64)
            drawn = replace(counts, weight=again.reshape(-1, 3))
        if not ridge and without_strength(drawn, votes.items, davidson=davidson)[1]:
            continue
        each = fit_strengths(drawn, n, davidson=davidson, ridge=ridge, start=fit)
        ties = [] if each.log_ties is None else [each.log_ties]
        found.append(np.concatenate([each.theta, each.gamma, ties]))
    if len(found) < 0.9 * resamples:
        raise ValueError(
            f"{resamples - len(found)} of {resamples} resamples leave an item without a strength, "
            "so the bootstrap has no variance; use intervals='sandwich'"
        )
    return np.cov(np.array(found), rowvar=False)
