"""Weights by rank again, pair by pair: every pair of ranks that ties allow is looked at."""

import math
from collections import defaultdict
from itertools import product

import numpy as np

import naive

GAINS = {
    "exp": lambda g: 2.0**g - 1.0,
    "linear": lambda g: g,
    "relevant": lambda g: float(g >= 1),
}


def discount(rule, rank):
    if rule.k is not None and rank > rule.k:
        return 0.0
    return 1.0 / math.log2(1.0 + rank) if rule.discount == "log" else 1.0 / rule.k


def queries_of(judgments):
    """Rows that compete in every query: those with a grade, a weight and a pair."""
    ids = [0] * len(judgments) if judgments.qid is None else list(judgments.qid)
    members = defaultdict(set)
    for pair in naive.list_pairs(judgments):
        members[ids[pair.winner]] |= {pair.winner, pair.loser}
    return members


def expected_gap(rule, scores, members, i, k):
    """Floor and mean of |D_r - D_q| over the ranks r of i and q of k in all orders of ties."""
    if rule.discount is None:
        return 1.0

    def ranks(row):
        above = sum(scores[other] > scores[row] for other in members)
        return range(above + 1, above + 1 + sum(scores[other] == scores[row] for other in members))

    both = [
        abs(discount(rule, r) - discount(rule, q)) for r, q in product(ranks(i), ranks(k)) if r != q
    ]
    return rule.floor + math.fsum(both) / len(both)


def ideal(rule, judgments, members):
    gains = sorted((GAINS[rule.gain](judgments.grade[row]) for row in members), reverse=True)
    return math.fsum(g * discount(rule, r) for r, g in enumerate(gains, 1))


def weighted_pairs(judgments, rule, ranked_by, balance="pairs"):
    """(winner, loser, weight) of all pairs in a round that begins at the scores `ranked_by`."""
    loser_weight = naive.loser_weights(judgments, balance)
    ids = [0] * len(judgments) if judgments.qid is None else list(judgments.qid)
    gain, by_query = GAINS[rule.gain], defaultdict(list)
    for pair in naive.list_pairs(judgments):
        by_query[ids[pair.winner]].append(pair)
    found = []
    for query, members in queries_of(judgments).items():
        scale = 1.0
        if rule.by_ideal and rule.discount is not None and balance == "pairs":
            scale = 1.0 / ideal(rule, judgments, members)
        plain = [pair.inner * loser_weight[pair.loser] for pair in by_query[query]]
        gaps = [
            (gain(judgments.grade[pair.winner]) - gain(judgments.grade[pair.loser]))
            * expected_gap(rule, ranked_by, members, pair.winner, pair.loser)
            * scale
            for pair in by_query[query]
        ]
        of_plain = math.fsum(plain)
        of_gaps = math.fsum(p * g for p, g in zip(plain, gaps, strict=True))
        mean = of_gaps / of_plain
        for pair, p, g in zip(by_query[query], plain, gaps, strict=True):
            if balance == "pairs":
                weight = rule.blend * mean + (1 - rule.blend) * g
            else:
                weight = rule.blend + ((1 - rule.blend) * g / mean if mean > 0 else 0.0)
            found.append((pair.winner, pair.loser, p * weight))
    return found


def risk(judgments, rule, scores, loss, *, ranked_by=None, balance="pairs", gap=False):
    """Value, mass, pull and curvature; `loss` is a PairLoss."""
    n, ranked_by = len(judgments), scores if ranked_by is None else ranked_by
    value, mass, pull, curvature = 0.0, 0.0, np.zeros(n), np.zeros(n)
    for i, k, weight in weighted_pairs(judgments, rule, ranked_by, balance):
        margin = np.array([scores[i] - scores[k]])
        if gap:
            margin = margin - (judgments.grade[i] - judgments.grade[k])
        slope = weight * float(loss.slope(margin)[0])
        second = weight * float(loss.curvature(margin)[0])
        value += weight * float(loss.value(margin)[0])
        mass -= slope
        pull[[i, k]] += [-slope, slope]
        curvature[[i, k]] += second
    return value, mass, pull, curvature
