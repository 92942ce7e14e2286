"""Trees and quadratic models again, slow and obvious: the twins of trees.py, quadratic.py."""

import math

import naive


def tree_value(tree, row):
    """Follow one row down a tree, split by split."""
    if not tree.split_feature:
        return tree.value[0]
    node = 0
    while node >= 0:
        x = float(row[tree.split_feature[node]])
        named = tree.categories[node] if tree.categories else ()
        if named:
            left = math.isfinite(x) and x >= 0 and int(x) in named
        elif math.isnan(x):
            left = tree.missing_left[node]
        else:
            left = x <= tree.threshold[node]
        node = tree.left[node] if left else tree.right[node]
    return tree.value[-1 - node]


def pairs_of(judgments, balance):
    """Every pair (winner, loser, weight, gap), listed one by one."""
    n = len(judgments)
    weight = [1.0] * n if judgments.weight is None else list(judgments.weight)
    qid = [0] * n if judgments.qid is None else list(judgments.qid)
    found = [
        (pair.winner, pair.loser, pair.inner * weight[pair.loser], pair.gap)
        for pair in naive.list_pairs(judgments)
    ]
    if balance != "pairs":
        total, items = {}, {}
        for _, k, w, _ in found:
            total[qid[k]] = total.get(qid[k], 0.0) + w
        for row in {row for i, k, _, _ in found for row in (i, k)}:
            items[qid[row]] = items.get(qid[row], 0.0) + weight[row]
        share = {q: (items[q] if balance == "items" else 1.0) / total[q] for q in total}
        found = [(i, k, w * share[qid[k]], gap) for i, k, w, gap in found]
    return found


def pair_totals(judgments, balance):
    """Total weight of the pairs of every row."""
    total = [0.0] * len(judgments)
    for i, k, w, _ in pairs_of(judgments, balance):
        total[i] += w
        total[k] += w
    return total


def logistic(judgments, scores, balance):
    """Pull and diagonal of the second derivative of the logistic risk, pair by pair."""
    pull, newton = [0.0] * len(judgments), [0.0] * len(judgments)
    for i, k, w, _ in pairs_of(judgments, balance):
        wrong = 1 / (1 + math.exp(scores[i] - scores[k]))
        pull[i] += w * wrong
        pull[k] -= w * wrong
        for row in (i, k):
            newton[row] += w * wrong * (1 - wrong)
    return pull, newton


def leaf_value(inside, pull, weight, rows, reg_lambda):
    """Value of a leaf that holds the rows `inside`; `rows` is how many rows there are in all."""
    mean = sum(weight) / rows
    return sum(pull[row] for row in inside) / (
        sum(weight[row] for row in inside) + reg_lambda * mean
    )


def mixture(judgments, scores, *, weight, margin, balance="pairs"):
    """Value, pull, diagonal, bound and weights of the terms of QBRank's risk, one by one."""
    n = len(judgments)
    item = [1.0] * n if judgments.weight is None else list(judgments.weight)
    value, pull, newton, bound, terms = 0.0, [0.0] * n, [0.0] * n, [0.0] * n, [0.0] * n
    for i, k, w, gap in pairs_of(judgments, balance):
        asked = gap if margin == "gap" else margin
        short = max(0.0, scores[k] - scores[i] + asked)
        value += weight / 2 * w * short**2
        pull[i] += weight * w * short
        pull[k] -= weight * w * short
        for row in (i, k):
            newton[row] += weight * w * (short > 0)
            bound[row] += 2 * weight * w
            terms[row] += weight * w
    for row in range(n):
        if judgments.label is not None and not math.isnan(judgments.label[row]):
            off = judgments.label[row] - scores[row]
            value += (1 - weight) / 2 * item[row] * off**2
            pull[row] += (1 - weight) * item[row] * off
            newton[row] += (1 - weight) * item[row]
            bound[row] += (1 - weight) * item[row]
            terms[row] += (1 - weight) * item[row]
    return value, pull, newton, bound, terms
