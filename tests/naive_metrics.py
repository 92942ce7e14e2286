"""The metrics again, slow and obvious: plain loops, one query at a time.

`value(name, grades, scores, **conventions)` ranks the items of one query, breaks ties as told and
reads the metric off the list, which ends before items of score -inf. Under ties="average" it takes
the mean over every order of the tied items, by listing the orders. None stands for a query without
a value.
"""

import itertools
import math
from statistics import correlation, fmean

import numpy as np

NAMES = [
    "ndcg", "ndcg@1", "ndcg@3", "ndcg@40%", "dcg", "dcg@2", "map", "map@2", "map@50%", "mrr",
    "mrr@2", "err", "err@2", "precision@3", "precision@9", "precision@34%", "recall@2",
    "recall@1%", "auc", "pair_error", "pairwise_accuracy", "kendall_tau", "partial_auc@0.1",
    "partial_auc@0.35", "partial_auc@1", "positives_above_first_negative",
    "precision_at_percent@1", "precision_at_percent@37.5", "precision_at_percent@100", "spearman",
]  # fmt: skip

DEFAULTS = {
    "gains": "exp",
    "ties": "worst",
    "no_relevant": "skip",
    "relevant": 1,
    "max_grade": None,
    "map_over": "relevant",
    "weights": None,
}


def value(name, grades, scores, **conventions):
    c = DEFAULTS | conventions
    if c["max_grade"] is None:
        c["max_grade"] = max(grades)
    if c["weights"] is None:
        c["weights"] = [1.0] * len(grades)
    base, _, cutoff = name.partition("@")
    if degenerate(base, cutoff, grades, c):
        if base in ("ndcg", "map", "mrr", "err", "precision", "recall"):
            return {"skip": None, "zero": 0.0, "one": 1.0}[c["no_relevant"]]
        return None
    if base == "precision_at_percent":
        return precision_at_percent(grades, scores, float(cutoff), c["ties"])
    if base == "spearman":
        return spearman(grades, scores)
    returned = [score > -math.inf for score in scores]
    lists = [read(base, cutoff, order, grades, c, returned)
             for order in orders(grades, scores, c["ties"])]  # fmt: skip
    return fmean(lists)


def orders(grades, scores, ties):
    """List the rankings (rows from the top down) among which the policy averages."""
    rows = range(len(scores))
    if ties == "order":
        return [sorted(rows, key=lambda i: (-scores[i], i))]
    if ties == "worst":
        return [sorted(rows, key=lambda i: (-scores[i], grades[i]))]
    blocks = [[i for i in rows if scores[i] == s] for s in sorted(set(scores), reverse=True)]
    choices = itertools.product(*(itertools.permutations(block) for block in blocks))
    return [list(itertools.chain(*choice)) for choice in choices]


def gain(grade, gains):
    if gains == "exp":
        return 2.0**grade - 1
    if gains == "clipped":
        return max(grade, 0)
    return grade if gains == "linear" else gains[int(grade)]


def chance(grade, max_grade):
    return 0.0 if grade <= 0 else (2.0**grade - 1) / 2.0**max_grade


def positions(cutoff, n):
    if not cutoff:
        return n
    if cutoff.endswith("%"):
        # Whole thousandths of a percent, so that no rounding enters.
        thousandths = round(float(cutoff[:-1]) * 1000)
        return max(1, -(-thousandths * n // 100_000))
    return int(cutoff)


def ideal_dcg(grades, gains, depth):
    best = sorted(grades, reverse=True)
    return sum(gain(g, gains) / math.log2(i + 2) for i, g in enumerate(best[:depth]))


def degenerate(base, cutoff, grades, c):
    n_relevant = sum(g >= c["relevant"] for g in grades)
    if base == "ndcg":
        return ideal_dcg(grades, c["gains"], positions(cutoff, len(grades))) <= 0
    if base == "err":
        return all(g <= 0 for g in grades)
    if base in ("map", "mrr", "precision", "recall"):
        return n_relevant == 0
    if base in ("partial_auc", "positives_above_first_negative"):
        return n_relevant in (0, len(grades))
    if base in ("precision_at_percent", "spearman", "dcg"):
        return base != "dcg" and len(set(grades)) == 1
    kind = [g >= c["relevant"] for g in grades] if base == "auc" else grades
    return weight_of_pairs(kind, c["weights"]) == 0


def weight_of_pairs(kind, weights):
    pairs = itertools.combinations(range(len(kind)), 2)
    return sum(weights[i] * weights[k] for i, k in pairs if kind[i] != kind[k])


def read(base, cutoff, order, grades, c, returned):
    """Read a metric off a list; metrics of positions do not see what was not returned."""
    if base in ("ndcg", "dcg", "map", "mrr", "err", "precision", "recall"):
        order = [i for i in order if returned[i]]
    return READERS[base](order, grades, cutoff, c)


def dcg(order, grades, cutoff, c):
    depth = positions(cutoff, len(grades))
    return sum(gain(grades[i], c["gains"]) / math.log2(p + 2) for p, i in enumerate(order[:depth]))


def ndcg(order, grades, cutoff, c):
    best = ideal_dcg(grades, c["gains"], positions(cutoff, len(grades)))
    return dcg(order, grades, cutoff, c) / best


def average_precision(order, grades, cutoff, c):
    depth = positions(cutoff, len(grades))
    found, total = 0, 0.0
    for rank, i in enumerate(order[:depth], start=1):
        if grades[i] >= c["relevant"]:
            found += 1
            total += found / rank
    n_relevant = sum(g >= c["relevant"] for g in grades)
    return total / (min(n_relevant, depth) if c["map_over"] == "reachable" else n_relevant)


def reciprocal_rank(order, grades, cutoff, c):
    for rank, i in enumerate(order[: positions(cutoff, len(grades))], start=1):
        if grades[i] >= c["relevant"]:
            return 1 / rank
    return 0.0


def expected_reciprocal_rank(order, grades, cutoff, c):
    looking, total = 1.0, 0.0
    for rank, i in enumerate(order[: positions(cutoff, len(grades))], start=1):
        stop = chance(grades[i], c["max_grade"])
        total += looking * stop / rank
        looking *= 1 - stop
    return total


def precision(order, grades, cutoff, c):
    depth = positions(cutoff, len(grades))
    return sum(grades[i] >= c["relevant"] for i in order[:depth]) / depth


def recall(order, grades, cutoff, c):
    depth = positions(cutoff, len(grades))
    found = sum(grades[i] >= c["relevant"] for i in order[:depth])
    return found / sum(g >= c["relevant"] for g in grades)


def pair_sums(order, kind, weights):
    right = wrong = 0.0
    for above, below in itertools.combinations(order, 2):
        if kind[above] > kind[below]:
            right += weights[above] * weights[below]
        elif kind[above] < kind[below]:
            wrong += weights[above] * weights[below]
    return right, wrong


def auc(order, grades, cutoff, c):
    right, wrong = pair_sums(order, [g >= c["relevant"] for g in grades], c["weights"])
    return right / (right + wrong)


def pair_error(order, grades, cutoff, c):
    right, wrong = pair_sums(order, grades, c["weights"])
    return wrong / (right + wrong)


def pairwise_accuracy(order, grades, cutoff, c):
    return 1 - pair_error(order, grades, cutoff, c)


def kendall_tau(order, grades, cutoff, c):
    right, wrong = pair_sums(order, grades, c["weights"])
    every = weight_of_pairs(list(range(len(order))), c["weights"])
    return (right - wrong) / math.sqrt((right + wrong) * every)


def partial_auc(order, grades, cutoff, c):
    """Integrate the staircase: the true positive rate while the false positive rate is small."""
    is_positive = [grades[i] >= c["relevant"] for i in order]
    n_positive = sum(is_positive)
    n_negative = len(order) - n_positive
    limit, area, seen, above = float(cutoff), 0.0, 0, 0
    for positive in is_positive:
        if positive:
            above += 1
            continue
        start, stop = seen / n_negative, (seen + 1) / n_negative
        area += max(0.0, min(stop, limit) - start) * above / n_positive
        seen += 1
    return area / limit


def positives_above_first_negative(order, grades, cutoff, c):
    count = 0
    for i in order:
        if grades[i] < c["relevant"]:
            break
        count += 1
    return count


def precision_at_percent(grades, scores, percent, ties, qid=None):
    """Sort every pair (of one query) by its gap and read the top of that list."""
    pairs = []
    for i, k in itertools.combinations(range(len(grades)), 2):
        if grades[i] == grades[k] or (qid is not None and qid[i] != qid[k]):
            continue
        better, worse = (i, k) if grades[i] > grades[k] else (k, i)
        if scores[better] == scores[worse]:
            right = {"worst": 0.0, "average": 0.5, "order": float(better < worse)}[ties]
        else:
            right = float(scores[better] > scores[worse])
        pairs.append((abs(scores[i] - scores[k]), right))
    wanted = max(1, -(-round(percent * 1000) * len(pairs) // 100_000))
    # In the worst case the wrong pairs come first among equals.
    pairs.sort(key=lambda pair: (-pair[0], pair[1]))
    if ties == "worst":
        return sum(right for _, right in pairs[:wanted]) / wanted
    cut = pairs[wanted - 1][0]
    sure = [right for gap, right in pairs if gap > cut]
    shared = [right for gap, right in pairs if gap == cut]
    return (sum(sure) + (wanted - len(sure)) * fmean(shared)) / wanted


def spearman(grades, scores):
    """Correlation of ranks; equal numbers share the mean of their ranks."""

    def mean_ranks(values):
        return [fmean(r for r, v in enumerate(sorted(values)) if v == each) for each in values]

    one, other = mean_ranks(grades), mean_ranks(scores)
    return correlation(one, other) if len(set(other)) > 1 else 0.0


READERS = {
    "ndcg": ndcg,
    "dcg": dcg,
    "map": average_precision,
    "mrr": reciprocal_rank,
    "err": expected_reciprocal_rank,
    "precision": precision,
    "recall": recall,
    "auc": auc,
    "pair_error": pair_error,
    "pairwise_accuracy": pairwise_accuracy,
    "kendall_tau": kendall_tau,
    "partial_auc": partial_auc,
    "positives_above_first_negative": positives_above_first_negative,
}


def example():
    """Grades, scores and queries at random."""
    rng = np.random.default_rng(9)
    y, scores = rng.integers(0, 3, 60), rng.normal(size=60)
    return y, scores, np.repeat(np.arange(12), 5)
