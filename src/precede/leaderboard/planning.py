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
from precede.leaderboard.likelihood import Fit, Information, fit_strengths
from precede.leaderboard.pairs import PairTable
from precede.rank_sets import Ranks
from precede.votes import Counts

MOST_CANDIDATES = 400  # pairs to choose from
MOST_OPEN = 4000  # pairs not settled that a choice considers
PRIOR = 4.0  # variance of the strengths, for planning only


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
) -> list[tuple[int, int, float]]:
    """Return k pairs of items, and the number of ranks that each is expected to rule out.

    `information` is that of a vote on each pair of items. Each pair is chosen as if those before
    had been compared, and none twice. `fresh` breaks ties: items with few votes come first.
    """
    covariance, critical = ranks.covariance.copy(), ranks.critical(level)
    information, fresh = information.copy(), fresh.copy()
    batch = float(max(k, 8))
    found = []
    for _ in range(k):
        now = Ranks(ranks.theta, covariance, ranks.degrees)
        one, other, gain = _best(now, information, goal, critical, batch, fresh)
        found.append((one, other, gain))
        side = covariance[:, one] - covariance[:, other]
        weight = information[one, other]
        covariance -= np.outer(side, side) * (weight / (1 + weight * (side[one] - side[other])))
        fresh[[one, other]] += 1
        information[one, other] = information[other, one] = 0.0
    return found


def _best(
    now: Ranks, information: Floats, goal: str, critical: float, batch: float, fresh: Floats
) -> tuple[int, int, float]:
    upper, lower = _open_pairs(now, goal, critical)
    one, other = _candidates(now, upper, lower)
    gap = np.abs(now.theta[upper] - now.theta[lower])[:, None]
    error = now.errors[upper, lower][:, None]
    V = now.covariance
    reach = V[np.ix_(upper, one)] - V[np.ix_(upper, other)]
    reach -= V[np.ix_(lower, one)] - V[np.ix_(lower, other)]
    weight = batch * information[one, other]
    lost = reach**2 * (weight / (1 + weight * now.errors[one, other] ** 2))
    left = np.sqrt(np.maximum(error**2 - lost, 0.0))
    move = np.sqrt(np.minimum(lost, error**2))
    with np.errstate(divide="ignore", invalid="ignore"):
        settled = ndtr((gap - critical * left) / move) + ndtr((-gap - critical * left) / move)
    gain = np.where(move > 0, settled, gap > critical * left).sum(axis=0)
    gain -= (gap > critical * error).sum()
    # Where no vote settles anything soon, those that narrow the open differences most come first.
    score = gain + 1e-3 * (lost / error**2).mean(axis=0)
    order = np.lexsort((other, one, fresh[one] + fresh[other], -np.round(score, 9)))
    best = order[0]
    return int(one[best]), int(other[best]), float(gain[best] / batch)


def _open_pairs(now: Ranks, goal: str, critical: float) -> tuple[Integers, Integers]:
    """Return the pairs of the goal that are not settled; if all are, those closest to it."""
    upper, lower = now.pairs_of(goal)
    ratio = now.ratios[upper, lower]
    order = np.argsort(ratio, kind="stable")[:MOST_OPEN]
    count = max(int((ratio[order] <= critical).sum()), 1)
    return upper[order[:count]], lower[order[:count]]


def _candidates(now: Ranks, upper: Integers, lower: Integers) -> tuple[Integers, Integers]:
    """Return pairs that may be compared: of the items of open pairs, the most uncertain first."""
    items = np.unique(np.append(upper, lower))
    error = now.errors[np.ix_(items, items)]
    one, other = np.triu_indices(items.size, 1)
    count = np.bincount(np.searchsorted(items, np.append(upper, lower)), minlength=items.size)
    score = error[one, other] * np.sqrt(count[one] + count[other])
    kept = np.argsort(-np.round(score, 12), kind="stable")[:MOST_CANDIDATES]
    return items[one[kept]], items[other[kept]]
