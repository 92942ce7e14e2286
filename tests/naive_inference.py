"""Everything in `inference` and `bounds` again, by listing pairs: slow, obvious, trusted."""

import itertools
import math

import numpy as np


def error(y_i, y_j, s_i, s_j, tie):
    if y_i == y_j:
        return 0.0
    if s_i == s_j:
        return tie
    return 1.0 if (y_i > y_j) != (s_i > s_j) else 0.0


def pair_sums(y, s, tie):
    """Errors and comparable pairs over ordered pairs, and all ordered pairs."""
    wrong = comparable = total = 0.0
    for i in range(len(y)):
        for j in range(len(y)):
            if i != j:
                wrong += error(y[i], y[j], s[i], s[j], tie)
                comparable += y[i] != y[j]
                total += 1
    return wrong, comparable, total


def risk(y, s, tie=0.5, pairs="all"):
    wrong, comparable, total = pair_sums(y, s, tie)
    below = total if pairs == "all" else comparable
    return wrong / below if below else math.nan


def by_query(y, s, qid):
    for q in sorted(set(qid)):
        rows = [i for i in range(len(y)) if qid[i] == q]
        yield [y[i] for i in rows], [s[i] for i in rows]


def query_risk(y, s, qid, tie=0.5, pairs="all"):
    """Mean over queries, or the ratio of sums for pairs='pooled'."""
    if pairs == "pooled":
        sums = [pair_sums(a, b, tie) for a, b in by_query(y, s, qid)]
        return sum(x[0] for x in sums) / sum(x[1] for x in sums)
    values = [risk(a, b, tie, pairs) for a, b in by_query(y, s, qid)]
    values = [v for v in values if not math.isnan(v)]
    return sum(values) / len(values)


def jackknife(estimate, units):
    """Standard error by leaving out each unit in turn and estimating again."""
    left = [estimate([u for u in units if u is not out]) for out in units]
    n, middle = len(left), sum(left) / len(left)
    return math.sqrt((n - 1) / n * sum((v - middle) ** 2 for v in left))


def item_jackknife(y, s, tie, pairs, other=None):
    def estimate(rows):
        picked = [y[i[0]] for i in rows]
        value = risk(picked, [s[i[0]] for i in rows], tie, pairs)
        if other is not None:
            value -= risk(picked, [other[i[0]] for i in rows], tie, pairs)
        return value

    return jackknife(estimate, [[i] for i in range(len(y))])


def query_jackknife(y, s, qid, tie, pairs, other=None):
    def estimate(blocks):
        rows = [i for block in blocks for i in block]
        args = ([y[i] for i in rows], [s[i] for i in rows], [qid[i] for i in rows], tie, pairs)
        value = query_risk(*args)
        if other is not None:
            value -= query_risk(args[0], [other[i] for i in rows], *args[2:])
        return value

    blocks = []
    for q in sorted(set(qid)):
        rows = [i for i in range(len(y)) if qid[i] == q]
        sums = pair_sums([y[i] for i in rows], [s[i] for i in rows], tie)
        if sums[2 if pairs == "all" else 1]:
            blocks.append(rows)
    return jackknife(estimate, blocks)


def placements(y, s):
    """DeLong's structural components of positives and negatives."""
    top = max(y)
    positive = [v for v, label in zip(s, y, strict=True) if label == top]
    negative = [v for v, label in zip(s, y, strict=True) if label != top]

    def psi(p, n):
        return 1.0 if p > n else 0.5 if p == n else 0.0

    v10 = np.array([np.mean([psi(p, n) for n in negative]) for p in positive])
    v01 = np.array([np.mean([psi(p, n) for p in positive]) for n in negative])
    return v10, v01


def delong(y, a, b=None):
    """AUC (or difference of two) and its standard error."""
    v10, v01 = placements(y, a)
    value = v10.mean()
    if b is not None:
        w10, w01 = placements(y, b)
        value -= w10.mean()
        v10, v01 = v10 - w10, v01 - w01
    return value, math.sqrt(v10.var(ddof=1) / len(v10) + v01.var(ddof=1) / len(v01))


def bernstein_allows(truth, value, blocks, alpha):
    """Does equation (1) of the paper leave `truth` within the confidence set?"""
    t = abs(value - truth)
    below = 2 * truth * (1 - truth) + 2 * t / 3
    return t == 0 or 2 * math.exp(-blocks * t * t / below) >= alpha


def sign_flip_p(gaps):
    observed = abs(sum(gaps))
    flips = itertools.product((-1, 1), repeat=len(gaps))
    sums = [abs(sum(s * g for s, g in zip(f, gaps, strict=True))) for f in flips]
    return sum(v >= observed - 1e-12 for v in sums) / len(sums)


def holm(p_values):
    m = len(p_values)
    order = sorted(range(m), key=lambda i: p_values[i])
    adjusted, running = [0.0] * m, 0.0
    for rank, i in enumerate(order):
        running = max(running, min(1.0, (m - rank) * p_values[i]))
        adjusted[i] = running
    return adjusted


def margins(y, s, qid=None, norm=1.0):
    qid = [0] * len(y) if qid is None else qid
    return [
        (s[i] - s[k]) / norm
        for i in range(len(y))
        for k in range(len(y))
        if qid[i] == qid[k] and y[i] > y[k]
    ]


def push_risk(y, s, p, theta, norm=1.0):
    top = max(y)
    positive = [v for v, label in zip(s, y, strict=True) if label == top]
    negative = [v for v, label in zip(s, y, strict=True) if label != top]
    total = 0.0
    for n in negative:
        share = sum((v - n) / norm <= theta for v in positive) / len(positive)
        total += share**p
    return (total / len(negative)) ** (1 / p)


def stump_supremum(X, signs):
    """Every threshold between two values, missing values on either side, and the constant."""
    best = abs(sum(signs))
    for j in range(len(X[0])):
        column = [row[j] for row in X]
        present = sorted({v for v in column if not math.isnan(v)})
        for t in [-math.inf, *present[:-1], math.inf]:
            for side in (False, True):
                above = [side if math.isnan(v) else v > t for v in column]
                best = max(best, abs(sum(g for g, v in zip(signs, above, strict=True) if v)))
    return best


def least_errors(X, y, qid, listed, members, reverse):
    """Twice the errors of the best of some scores over listed pairs, and how many reach it."""
    pairs = [
        (i, k)
        for i in range(len(y))
        for k in range(len(y))
        if qid[i] == qid[k] and y[i] > y[k]  # false for NaN, a row without a grade
    ] + [tuple(pair) for pair in listed]
    found = []
    for values in members:
        for sign in (1, -1)[: 1 + reverse]:
            scores = [sign * v for v in values]
            found.append(
                sum(2 * (scores[i] < scores[k]) + (scores[i] == scores[k]) for i, k in pairs)
            )
    return min(found), found.count(min(found)), len(found), len(pairs)


def all_stumps(X, reverse=True):
    """Values of every stump that splits the rows, by feature, threshold and side of the missing.

    The last one of a feature is "is missing", where "is present" cannot be turned round.
    """
    rows = []
    for column in np.asarray(X, float).T:
        present = sorted(set(column[~np.isnan(column)]))
        if not present:
            continue
        missing = np.isnan(column).any()
        for at, cut in enumerate([None, *present[:-1]]):
            for side in (0, 1)[: 1 + missing]:
                if at == 0 and (not missing or side == 1):
                    continue  # every row on one side
                above = np.ones(len(column), bool) if cut is None else column > cut
                rows.append(np.where(np.isnan(column), side, above).astype(float).tolist())
        if missing and not reverse:
            rows.append(np.isnan(column).astype(float).tolist())
    return rows


# -- listed pairs: (winner, loser, weight, is_tie) ------------------------------------------


def listed_risk(votes, s, tie, pairs):
    """Share of the weight of the pairs that is out of order; ties count with pairs='all'."""
    wrong = total = 0.0
    for i, k, w, tied in votes:
        if pairs == "all" or not tied:
            wrong += 0.0 if tied else w * error(1, 0, s[i], s[k], tie)
            total += w
    return wrong / total if total else math.nan


def listed_error(votes, a, tie, pairs, b=None):
    """Standard error of the risk, or of the difference of two, by leaving out items.

    Pairs of the same two items have both of them in common, which the sum over items counts
    twice.
    """

    def estimate(some):
        value = listed_risk(some, a, tie, pairs)
        return value if b is None else value - listed_risk(some, b, tie, pairs)

    votes = [vote for vote in votes if pairs == "all" or not vote[3]]
    items = sorted({row for i, k, _, _ in votes for row in (i, k)})
    left = [estimate([v for v in votes if row not in v[:2]]) for row in items]
    n, middle = len(left), sum(left) / len(left)
    by_items = (n - 1) / n * sum((v - middle) ** 2 for v in left)
    total = sum(w for _, _, w, _ in votes)
    off = {}
    for i, k, w, tied in votes:
        each = 0.0
        for scores, sign in ((a, 1), (b, -1)):
            if scores is not None:
                k_p = 0.0 if tied else error(1, 0, scores[i], scores[k], tie)
                each += sign * w * (k_p - listed_risk(votes, scores, tie, pairs))
        dyad = frozenset((i, k))
        off[dyad] = off.get(dyad, 0.0) + each
    by_dyads = sum((e / total) ** 2 for e in off.values())
    return math.sqrt(max(by_items - by_dyads, by_dyads))
