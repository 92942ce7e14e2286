"""AdaBoost.MH and AdaBoost.MR again: every row, every pair, every stump, every set of votes."""

import itertools
import math

import naive


def candidates(X, labels):
    """Values of every ranker of item and label: all constants, then all stumps, with all votes."""
    X = [list(row) for row in X]
    ones = [[1] * len(X)]
    signs = [[2 * v - 1 for v in stump.values(X)] for stump in naive.candidates(X)]
    return [
        [[v * vote for vote in votes] for v in values]
        for values in (*ones, *signs)
        for votes in itertools.product((1, -1), repeat=labels)
    ]


def terms(Y, weight, method, across, balance):
    """Pairs of rows ((item, label), (item, label) or None, sign) with their weights."""
    rows = [(i, label) for i, row in enumerate(Y) for label in range(len(row)) if weight[i] > 0]
    if method == "MH":
        return [((i, label), None, 1 if Y[i][label] else -1, weight[i]) for i, label in rows]
    present = [row for row in rows if Y[row[0]][row[1]]]
    absent = [row for row in rows if not Y[row[0]][row[1]]]
    found = []
    for one, other in itertools.product(present, absent):
        if across:
            found.append((one, other, 1, weight[one[0]] * weight[other[0]]))
        elif one[0] == other[0]:
            own = sum(Y[one[0]]) * (len(Y[0]) - sum(Y[one[0]]))
            found.append((one, other, 1, weight[one[0]] / (own if balance == "items" else 1)))
    return found


def loss(terms_, scores):
    """Sum of the exponential losses."""
    return math.fsum(
        w * math.exp(-sign * (scores[a[0]][a[1]] - (scores[b[0]][b[1]] if b else 0.0)))
        for a, b, sign, w in terms_
    )


def largest_edge(terms_, scores, weak_rankers):
    """Largest absolute edge of any ranker, for weights of the terms that sum to 1."""
    mass = [
        w * math.exp(-sign * (scores[a[0]][a[1]] - (scores[b[0]][b[1]] if b else 0.0)))
        for a, b, sign, w in terms_
    ]
    total = math.fsum(mass)
    return max(
        abs(math.fsum(
            m * sign * (h[a[0]][a[1]] - (h[b[0]][b[1]] if b else 0))
            for m, (a, b, sign, _) in zip(mass, terms_, strict=True)
        )) / total
        for h in weak_rankers
    )  # fmt: skip
