"""Which pairs to compare next.

Another vote on (a, b) of information w changes the covariance V of the strengths to

    V − w · V e eᵀ V / (1 + w · eᵀ V e),   e = e_a − e_b,

and the estimates by a normal draw whose covariance is what V loses. So the probability that a pair
which is not settled now will be settled by some votes on (a, b) is known in advance, and with it
the expected number of ranks that an item may still have.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from precede.engine.arrays import Floats, Integers
from precede.engine.parameters import pluralize
from precede.leaderboard.likelihood import Fit, Information, fit_strengths
from precede.rank_sets import Ranks
from precede.votes import Counts, PairTable

MOST_CANDIDATES = 400  # pairs to choose from
MOST_OPEN = 4000  # pairs not settled that a choice considers
LOOK_AHEAD = 8  # votes on a pair whose effect is compared
PRIOR = 4.0  # variance of the strengths, for planning only

Pairs = tuple[Integers, Integers]


def planned(table: PairTable, tie: float | None, inflation: float, n: int) -> tuple[Ranks, Floats]:
    """Return strengths of all items under the prior, and the information of a vote on each pair.

    Ties count half here. Dependent votes have 1 / inflation of the information.
    """
    every = table.weight.sum(axis=1)
    wins = table.weight[:, :2] + table.weight[:, 2:] / 2
    weight = np.column_stack([wins, np.zeros(every.size)]) / max(inflation, 1.0)
    none = np.zeros(0, np.int64)
    counts = Counts(table.a, table.b, np.zeros((every.size, 0)), weight, none, none)
    fit = fit_strengths(counts, n, davidson=False, ridge=1 / PRIOR)
    covariance = Information(counts, fit, 1 / PRIOR).inverse()
    model = Fit(fit.theta, fit.gamma, None if tie is None else float(np.log(tie)))
    information = model.curvature(fit.theta[:, None] - fit.theta[None, :])[0]
    return Ranks(fit.theta, covariance, np.inf), information / max(inflation, 1.0)


def next_pairs(
    ranks: Ranks, information: Floats, goal: str, k: int, *, level: float, fresh: Floats
) -> list[tuple[int, int]]:
    """Return k pairs of items to compare.

    `information` is that of a vote on each pair of items. Each pair is chosen as if those before
    had been compared, and none twice if there are enough. `fresh` breaks ties: items with few votes
    come first.
    """
    if not ranks.pairs_of(goal)[0].size:
        raise ValueError(
            f"goal={goal!r} sets none of {pluralize(ranks.theta.size, 'item')} apart; use "
            "goal='order'"
        )
    covariance, critical = ranks.covariance.copy(), ranks.critical(level)
    information, fresh = information.copy(), fresh.copy()
    found = []
    for _ in range(k):
        now = Ranks(ranks.theta, covariance, ranks.degrees)
        open_pairs, candidates = _pairs_to_consider(now, information, goal, critical, k)
        one, other = _best(
            now, information, candidates, open_pairs, critical, max(k, LOOK_AHEAD), fresh
        )
        found.append((one, other))
        side = covariance[:, one] - covariance[:, other]
        weight = information[one, other]
        covariance -= np.outer(side, side) * (weight / (1 + weight * (side[one] - side[other])))
        fresh[[one, other]] += 1
        information[one, other] = information[other, one] = 0.0
    return found


def _pairs_to_consider(
    now: Ranks, information: Floats, goal: str, critical: float, k: int
) -> tuple[Pairs, Pairs]:
    """Return the pairs of the goal that are not settled, or the closest; and those to choose from.

    The latter are all pairs of the items of the former, and of the pairs that are nearly open if
    these are few; the most uncertain of them.
    """
    upper, lower = now.pairs_of(goal)
    order = np.argsort(now.ratios[upper, lower], kind="stable")[:MOST_OPEN]
    upper, lower = upper[order], lower[order]
    count = max(int((now.ratios[upper, lower] <= critical).sum()), 1)
    near = np.append(upper[: max(count, 2 * k)], lower[: max(count, 2 * k)])
    items, occurs = np.unique(near, return_counts=True)
    one, other = np.triu_indices(items.size, 1)
    score = now.errors[items[one], items[other]] * np.sqrt(occurs[one] + occurs[other])
    is_new = information[items[one], items[other]] > 0
    score = np.where(is_new | ~is_new.any(), score, 0.0)
    kept = np.argsort(-np.round(score, 12), kind="stable")[:MOST_CANDIDATES]
    kept = kept[(score[kept] > 0) | (score.max() == 0)]
    return (upper[:count], lower[:count]), (items[one[kept]], items[other[kept]])


def _best(
    now: Ranks, information: Floats, candidates: Pairs, open_pairs: Pairs, critical: float,
    votes: int, fresh: Floats,
) -> tuple[int, int]:  # fmt: skip
    """Return the candidate of which some votes are expected to settle the most open pairs."""
    (one, other), (upper, lower) = candidates, open_pairs
    gap = np.abs(now.theta[upper] - now.theta[lower])[:, None]
    error, V = now.errors[upper, lower][:, None], now.covariance
    reach = V[np.ix_(upper, one)] - V[np.ix_(upper, other)]
    reach -= V[np.ix_(lower, one)] - V[np.ix_(lower, other)]
    weight = votes * information[one, other]
    lost = reach**2 * (weight / (1 + weight * now.errors[one, other] ** 2))
    left = critical * np.sqrt(np.maximum(error**2 - lost, 0.0))
    move = np.sqrt(np.minimum(lost, error**2))
    with np.errstate(divide="ignore", invalid="ignore"):
        settled = ndtr((gap - left) / move) + ndtr((-gap - left) / move)
    gain = np.where(move > 0, settled, gap > left).sum(axis=0)
    # Where no vote settles anything soon, those that narrow the open differences most come first.
    score = gain + 1e-3 * (lost / error**2).mean(axis=0)
    order = np.lexsort((other, one, fresh[one] + fresh[other], -np.round(score, 9)))
    return int(one[order[0]]), int(other[order[0]])
