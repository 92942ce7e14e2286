"""Leaderboards again, vote by vote: a general optimizer, finite differences, all subsets."""

import itertools
import math

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtr


def log_chance(vote, theta, effects, log_ties):
    """Log of the probability of a vote (a, b, outcome, weight, x), without its weight."""
    a, b, outcome, _, x = vote
    d = theta[a] - theta[b] + float(np.dot(effects, x))
    parts = {"a": d / 2, "b": -d / 2}
    if log_ties is not None:
        parts["tie"] = log_ties
    total = np.logaddexp.reduce(list(parts.values()))
    if outcome == "tie" and log_ties is None:
        return (parts["a"] + parts["b"]) / 2 - total
    return parts[outcome] - total


def unpacked(z, n, effects, davidson):
    return z[:n], z[n : n + effects], z[n + effects] if davidson else None


def objective(z, votes, n, effects, davidson, ridge):
    theta, gamma, log_ties = unpacked(z, n, effects, davidson)
    value = sum(vote[3] * log_chance(vote, theta, gamma, log_ties) for vote in votes)
    return -value + ridge / 2 * float(np.dot(theta, theta))


def has_both(votes, davidson):
    kinds = {vote[2] == "tie" for vote in votes if vote[3] > 0}
    return davidson and kinds == {True, False}


def fit(votes, n, *, effects=0, davidson=True, ridge=0.0):
    """Strengths with mean 0, effects and log ν (None without)."""
    davidson = has_both(votes, davidson)
    start = np.zeros(n + effects + davidson)

    def penalized(z):  # a hair of curvature along the constant, which changes nothing else
        return objective(z, votes, n, effects, davidson, ridge) + 0.5 * z[:n].sum() ** 2

    for _ in range(3):  # each from where the last one lost its way to rounding
        start = minimize(penalized, start, method="BFGS", jac="3-point", options={"gtol": 1e-9}).x
    return unpacked(start, n, effects, davidson)


def score(vote, z, n, effects, davidson, step=1e-5):
    """Derivatives of the log-likelihood of a vote, weight included, by central differences."""
    found = np.zeros(len(z))
    for k in range(len(z)):
        for sign in (1, -1):
            moved = z.copy()
            moved[k] += sign * step
            found[k] += sign * vote[3] * log_chance(vote, *unpacked(moved, n, effects, davidson))
    return found / (2 * step)


def sandwich(votes, clusters, estimates, n, *, effects=0):
    """H⁻ M H⁻ with the squares of the scores of clusters, times G / (G − 1), not drawn in.

    A row of weight w without clusters is w votes.
    """
    theta, gamma, log_ties = estimates
    z = np.concatenate([theta, gamma, [] if log_ties is None else [log_ties]])
    davidson = log_ties is not None
    scores = [score(vote, z, n, effects, davidson) for vote in votes]
    hessian = np.zeros((len(z), len(z)))
    for k in range(len(z)):
        for sign in (1, -1):
            moved = z.copy()
            moved[k] += sign * 1e-4
            hessian[k] -= sign * sum(score(v, moved, n, effects, davidson) for v in votes) / 2e-4
    bread = np.linalg.pinv(hessian, rcond=1e-7)
    if clusters is None:
        meat = sum(np.outer(s, s) / vote[3] for s, vote in zip(scores, votes, strict=True))
        return bread @ meat @ bread
    sums = {}
    for s, cluster in zip(scores, clusters, strict=True):
        sums[cluster] = sums.get(cluster, 0.0) + s
    groups = len(sums)
    return bread @ (groups / (groups - 1) * sum(np.outer(s, s) for s in sums.values())) @ bread


def connected(votes, n):
    """Whether in every division into two sets each has beaten, or tied, the other."""
    for size in range(1, n):
        for chosen in itertools.combinations(range(n), size):
            inside = set(chosen)
            won = any(
                (a in inside) != (b in inside)
                and (outcome == "tie" or ({"a": a, "b": b}[outcome] in inside))
                for a, b, outcome, weight, _ in votes if weight > 0
            )  # fmt: skip
            if not won:
                return False
    return True


def tiers(above):
    """Tier by the longest chain above."""

    def tier(item):
        return 1 + max(
            [tier(other) for other in range(len(above)) if above[other][item]], default=0
        )

    return [tier(item) for item in range(len(above))]


def cycle_p_value(margins, squares):
    """The least p value of a cycle of majorities, over all cycles of items.

    `margins` and `squares` are dictionaries of pairs (a, b), a < b: wins less losses, and the sum
    of their squares over clusters.
    """
    items = sorted({item for pair in margins for item in pair})
    best = 1.0
    for size in range(3, len(items) + 1):
        for order in itertools.permutations(items, size):
            ratios = []
            for one, other in zip(order, [*order[1:], order[0]], strict=True):
                pair = (min(one, other), max(one, other))
                sign = 1 if one < other else -1
                margin = sign * margins.get(pair, 0)
                ratios.append(margin / math.sqrt(squares[pair]) if margin > 0 else 0.0)
            if min(ratios) > 0:
                best = min(best, 2 * len(margins) * ndtr(-min(ratios)))
    return float(min(best, 1.0))
