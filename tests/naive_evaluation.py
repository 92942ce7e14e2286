"""Metrics, intervals and margins again, by plain enumeration of items, pairs and orders."""

import decimal
import itertools
import math
from decimal import Decimal
from statistics import correlation, fmean

import numpy as np
import scipy.optimize

import naive

# ----------------------------------------------------------------------------------------------
# Everything in `inference` and `bounds` again, by listing pairs: slow, obvious, trusted.


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


# ----------------------------------------------------------------------------------------------
# The metrics again, slow and obvious: plain loops, one query at a time.
#
# `value(name, grades, scores, **conventions)` ranks the items of one query, breaks ties as told
# and reads the metric off the list, which ends before items of score -inf. Under ties="average" it
# takes the mean over every order of the tied items, by listing the orders. None stands for a query
# without a value.


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


def order_sums(order, kind, weights):
    right = wrong = 0.0
    for above, below in itertools.combinations(order, 2):
        if kind[above] > kind[below]:
            right += weights[above] * weights[below]
        elif kind[above] < kind[below]:
            wrong += weights[above] * weights[below]
    return right, wrong


def auc(order, grades, cutoff, c):
    right, wrong = order_sums(order, [g >= c["relevant"] for g in grades], c["weights"])
    return right / (right + wrong)


def pair_error(order, grades, cutoff, c):
    right, wrong = order_sums(order, grades, c["weights"])
    return wrong / (right + wrong)


def pairwise_accuracy(order, grades, cutoff, c):
    return 1 - pair_error(order, grades, cutoff, c)


def kendall_tau(order, grades, cutoff, c):
    right, wrong = order_sums(order, grades, c["weights"])
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


# ----------------------------------------------------------------------------------------------
# Margins again, by plain enumeration: every pair is listed, every ranker is a column.


def pair_columns(judgments, weak_rankers):
    """M: one row for each crucial pair, one column for each ranker given as a list of values."""
    pairs = naive.list_pairs(judgments)
    return np.array(
        [[values[p.winner] - values[p.loser] for values in weak_rankers] for p in pairs], float
    ).reshape(len(pairs), len(weak_rankers))


def best_margin(judgments, weak_rankers, *, nonnegative=False):
    """Greatest least margin of any weights of absolute sum 1, over all pairs and all rankers."""
    matrix = pair_columns(judgments, weak_rankers)
    if not nonnegative:
        matrix = np.hstack([matrix, -matrix])
    rows, count = matrix.shape
    whole = np.hstack([matrix, -np.ones((rows, 1))])
    answer = scipy.optimize.linprog(
        [0.0] * count + [-1.0],
        A_ub=np.vstack([-whole, [1.0] * count + [0.0]]),
        b_ub=[0.0] * rows + [1.0],
        bounds=[(0, None)] * (count + 1),
    )
    assert answer.status == 0, answer.message
    return -answer.fun


def smooth_margin(judgments, weak_rankers, rounds, *, nonnegative=False, tie=2.0**-40):
    """RS09 figure 1 with equation (12), over lists: chosen rankers, steps, G before each round."""
    pairs = naive.list_pairs(judgments)
    weight = naive.loser_weights(judgments)
    initial = [pair.inner * weight[pair.loser] for pair in pairs]
    least = min(1.0, *initial)
    log_initial = [math.log(w / least) for w in initial]
    half_a_pair = 0.5 / naive.pair_count(judgments)
    scores, net = [0.0] * len(judgments), [0.0] * len(weak_rankers)
    chosen, steps, smooth = [], [], []
    for _ in range(rounds):
        mass = naive._normalized(log_initial, pairs, scores)
        split = [naive.split_mass(pairs, mass, values) for values in weak_rankers]
        worth = [r - w if nonnegative else abs(r - w) for r, w, _ in split]
        j = naive.first_of_the_best([w if w > 1e-15 else 0.0 for w in worth], tie)
        if j is None:
            break
        right, wrong, tied = split[j]
        norm = math.fsum(map(abs, net))
        g = -naive._log_risk(log_initial, pairs, scores) / norm if norm > 0 else -math.inf
        sign = 1.0 if right > wrong else -1.0
        right, wrong = max(right, wrong), min(right, wrong)
        if wrong == 0 and tied <= 1e-15:
            chosen.append(j)
            steps.append(None)  # one ranker is perfect
            break
        if g > 0 and wrong > 0:  # equation (12) as it is printed
            root = math.sqrt(g * g * tied * tied + (1 + g) * (1 - g) * 4 * right * wrong)
            step = math.log((-g * tied + root) / ((1 + g) * 2 * wrong))
        elif g > 0:  # its limit for d- = 0
            step = math.log((1 - g) * right / (g * tied))
        elif wrong > 0:
            step = 0.5 * math.log(right / wrong)
        else:
            step = 0.5 * math.log((right + half_a_pair) / (wrong + half_a_pair))
        for row, value in enumerate(weak_rankers[j]):
            scores[row] += sign * step * value
        net[j] += sign * step
        chosen.append(j)
        steps.append(sign * step)
        smooth.append(g)
    return chosen, steps, smooth


def progress_ratio(edge, smooth, tied):
    """B(r, g, d0) of RS09 section 7, with 50 digits and equation (12) as it is printed."""
    with decimal.localcontext(naive.DIGITS):
        r, g, d0 = (Decimal(number) for number in (edge, smooth, tied))
        right, wrong = (1 + r - d0) / 2, (1 - r - d0) / 2
        root = (g**2 * d0**2 + (1 + g) * (1 - g) * 4 * right * wrong).sqrt()
        step = ((-g * d0 + root) / ((1 + g) * 2 * wrong)).ln()
        tau = right * (-step).exp() + wrong * step.exp() + d0
        return (-tau.ln() / step - g) / (r - g)
