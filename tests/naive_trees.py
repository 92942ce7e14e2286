"""Trees again, slow and obvious: twins of trees.py, splits.py, growth.py and score_risk.py."""

import math
from dataclasses import dataclass, field

import naive
from precede.engine.histograms.nodes import ROUNDING


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


# -- growing ---------------------------------------------------------------------------------
#
# The twin of splits.py and growth.py. Rows are lists of numbers; every candidate is evaluated
# by looking at all rows of the node. Pulls and weights are Python integers, and every gain is
# the formula of splits.py in floats, so results are equal, not close.

MISSING = 255


@dataclass
class GrownTree:
    """Splits in the order in which they were made, and the leaves."""

    splits: list = field(default_factory=list)
    left: list = field(default_factory=list)
    right: list = field(default_factory=list)
    leaves: list = field(default_factory=list)


@dataclass
class Candidate:
    feature: int
    cut: int  # -1 for categories
    left_codes: frozenset
    left_rows: list
    right_rows: list
    sign: int
    gain: float = math.nan


@dataclass
class Leaf:
    rows: list
    depth: int = 0
    least: float = -math.inf
    most: float = math.inf
    used: frozenset = frozenset()
    split: Candidate | None = None


class Grower:
    """All that a tree is grown from.

    `codes` holds one list of codes for each row; `pulls` and `weights` are integers; `rules` is
    a `precede.weak_rankers.splits.Rules`; `groups` are sets of features that may meet on a path,
    None
    for all.
    """

    def __init__(self, codes, pulls, weights, rules, *, monotone=None, categorical=(), groups=None):
        self.codes, self.pulls, self.weights, self.rules = codes, pulls, weights, rules
        self.features = range(len(codes[0]))
        self.n_bins = [1 + max((row[j] for row in codes if row[j] != MISSING), default=0)
                       for j in self.features]  # fmt: skip
        self.monotone = monotone or [0] * len(codes[0])
        self.categorical, self.groups = categorical, groups

    # -- amounts -----------------------------------------------------------------------------

    def amounts(self, rows):
        """Pull, weight and number of rows, in floats of the units of the rules."""
        pull = float(sum(self.pulls[row] for row in rows)) * self.rules.pull_unit
        weight = float(sum(self.weights[row] for row in rows)) * self.rules.weight_unit
        return pull, weight, float(len(rows))

    def value(self, pull, curvature, leaf):
        size = max(abs(pull) - self.rules.reg_alpha, 0.0)
        value = math.copysign(size, 1 if pull > 0 else -1) / curvature if curvature > 0 else 0.0
        return min(max(value, leaf.least), leaf.most)

    def value_of(self, rows, leaf):
        pull, weight, _ = self.amounts(rows)
        return self.value(pull, weight + self.rules.reg_lambda, leaf)

    def worth(self, pull, curvature, leaf):
        if self.rules.reg_alpha == 0 and not any(self.monotone):
            return pull * pull / curvature if curvature else math.nan
        value = self.value(pull, curvature, leaf)
        return 2.0 * (pull * value - self.rules.reg_alpha * abs(value)) - curvature * value * value

    # -- splits ------------------------------------------------------------------------------

    def score(self, leaf, known, missing, feature, sign):
        """Worth of two children, `known` and `missing` being the rows of the one; None: forbidden.

        The amounts of the one child are those of its known rows plus those of the missing ones,
        and the amounts of the other are what is left of the node's.
        """
        rules = self.rules
        penalty = rules.reg_lambda + (rules.cat_smooth if feature in self.categorical else 0.0)
        one = [a + b for a, b in zip(self.amounts(known), self.amounts(missing), strict=True)]
        other = [a - b for a, b in zip(self.amounts(leaf.rows), one, strict=True)]
        lighter = min(one[1], other[1])
        if min(one[2], other[2]) < max(rules.min_count, 1):
            return None
        if lighter < rules.min_weight or not lighter + penalty > 0:
            return None
        if sign:
            values = [self.value(each[0], each[1] + penalty, leaf) for each in (one, other)]
            if sign * values[0] > sign * values[1]:
                return None
        worth = [self.worth(each[0], each[1] + penalty, leaf) for each in (one, other)]
        return worth[0] + worth[1]

    def candidates(self, leaf, feature):
        """Every split by a feature with its score, in the order in which ties are broken."""
        code = {row: self.codes[row][feature] for row in leaf.rows}
        occurring = sorted(set(code.values()) - {MISSING})
        missing = [row for row in leaf.rows if code[row] == MISSING]
        if feature in self.categorical:
            occurring = self.sorted_categories(leaf, feature, occurring)
        for end, last in enumerate(occurring):
            chosen = frozenset(occurring[: end + 1])
            known = [row for row in leaf.rows if code[row] in chosen]
            joined = [True, False] if missing else [2 * len(known) >= len(leaf.rows)]
            for with_missing in joined:
                alone = last == occurring[-1] and not with_missing
                sign = 0 if alone else self.monotone[feature]
                score = self.score(leaf, known, missing if with_missing else [], feature, sign)
                if score is None:
                    continue
                if feature in self.categorical:
                    # Missing values go right; the child without them goes left.
                    left = frozenset(occurring) - chosen if with_missing else chosen
                    cut = -1
                else:
                    # Where missing values are alone, all others go left, those not here too.
                    cut = self.n_bins[feature] - 1 if alone else last
                    left = frozenset(range(cut + 1)) | ({MISSING} if with_missing else set())
                left_rows = [row for row in leaf.rows if code[row] in left]
                right_rows = [row for row in leaf.rows if code[row] not in left]
                yield score, Candidate(feature, cut, left, left_rows, right_rows, sign)

    def sorted_categories(self, leaf, feature, occurring):
        """Categories by rising mean pull, with `cat_smooth` rows that have none; ties by number."""
        mean = {}
        for code in occurring:
            rows = [row for row in leaf.rows if self.codes[row][feature] == code]
            pull, weight, _ = self.amounts(rows)
            weight += self.rules.cat_smooth
            mean[code] = pull / weight if weight > 0 else 0.0
        return sorted(occurring, key=lambda code: (mean[code], code))

    def allowed(self, leaf):
        if self.groups is None:
            return set(self.features)
        return set().union(*(group for group in self.groups if leaf.used <= group))

    def best_split(self, leaf):
        """The first of the candidates with the largest gain; None if no gain is large enough."""
        pull, weight, _ = self.amounts(leaf.rows)
        own = self.worth(pull, weight + self.rules.reg_lambda, leaf)
        best, chosen = own, None
        for feature in sorted(self.allowed(leaf)):
            for score, candidate in self.candidates(leaf, feature):
                if score > best:
                    best, chosen = score, candidate
        if chosen is None or not best - own > ROUNDING * abs(best):
            return None
        chosen.gain = best - own
        return chosen if chosen.gain > self.rules.min_gain else None

    # -- trees -------------------------------------------------------------------------------

    def look(self, leaf, max_depth):
        enough = len(leaf.rows) >= 2 * max(self.rules.min_count, 1)
        if enough and (max_depth < 0 or leaf.depth < max_depth):
            leaf.split = self.best_split(leaf)
        return leaf

    def children(self, leaf, split):
        """Two leaves, with bounds halfway between their values if the feature has a direction."""
        bounds = [(leaf.least, leaf.most), (leaf.least, leaf.most)]
        if split.sign:
            values = [self.value_of(rows, leaf) for rows in (split.left_rows, split.right_rows)]
            between = 0.5 * (values[0] + values[1])
            bounds = [(leaf.least, between), (between, leaf.most)][:: split.sign]
        used = leaf.used | {split.feature}
        sides = zip((split.left_rows, split.right_rows), bounds, strict=True)
        return [Leaf(rows, leaf.depth + 1, *limits, used) for rows, limits in sides]

    def grow(self, num_leaves, max_depth=-1, rows=None):
        """Split the leaf with the largest gain (the first of them) as long as there is one."""
        rows = list(range(len(self.codes))) if rows is None else list(rows)
        tree = GrownTree(leaves=[self.look(Leaf(rows), max_depth)])
        above = [None]  # the split above each leaf: its list of children and its number
        while len(tree.leaves) < num_leaves:
            open_leaves = [k for k, leaf in enumerate(tree.leaves) if leaf.split]
            if not open_leaves:
                break
            number = max(open_leaves, key=lambda k: tree.leaves[k].split.gain)  # the first
            split, at, new = tree.leaves[number].split, len(tree.splits), len(tree.leaves)
            left, right = self.children(tree.leaves[number], split)
            if above[number]:
                side, parent = above[number]
                side[parent] = at
            tree.splits.append(split)
            tree.left.append(-1 - number)
            tree.right.append(-1 - new)
            above[number] = (tree.left, at)
            above.append((tree.right, at))
            tree.leaves[number] = self.look(left, max_depth)
            tree.leaves.append(self.look(right, max_depth))
        return tree
