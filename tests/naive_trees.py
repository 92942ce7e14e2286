"""Trees, QBRank and additive terms again: every row, every pair, every split."""

import itertools
import math
from dataclasses import dataclass, field

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

import naive
from precede.engine.execution import Context
from precede.engine.quantization import plan_quantization
from precede.engine.tree_histograms import ROUNDING

# ----------------------------------------------------------------------------------------------
# Naive versions of trees.py, tree_rows.py, tree_grower.py and of the logistic and QBRank risks.


def tree_value(tree, row):
    """Return the value of one row, split by split."""
    if not tree.split_feature:
        return tree.value[0]
    node = 0
    while node >= 0:
        x = float(row[tree.split_feature[node]])
        left_set = tree.categories[node] if tree.categories else ()
        if left_set:
            left = math.isfinite(x) and x >= 0 and int(x) in left_set
        elif math.isnan(x):
            left = tree.missing_left[node]
        else:
            left = x <= tree.threshold[node]
        node = tree.left[node] if left else tree.right[node]
    return tree.value[-1 - node]


def pairs_of(judgments, balance):
    """Return (winner, loser, weight, gap) of every crucial pair."""
    loser_weight = naive.loser_weights(judgments, balance)
    return [
        (pair.winner, pair.loser, pair.inner * loser_weight[pair.loser], pair.gap)
        for pair in naive.list_pairs(judgments)
    ]


def pair_totals(judgments, balance):
    """Return the total weight of the pairs of each row."""
    total = [0.0] * len(judgments)
    for i, k, w, _ in pairs_of(judgments, balance):
        total[i] += w
        total[k] += w
    return total


def logistic(judgments, scores, balance):
    """Return pull and Hessian diagonal of the logistic risk, summed pair by pair."""
    pull, newton = [0.0] * len(judgments), [0.0] * len(judgments)
    for i, k, w, _ in pairs_of(judgments, balance):
        wrong = 1 / (1 + math.exp(scores[i] - scores[k]))
        pull[i] += w * wrong
        pull[k] -= w * wrong
        for row in (i, k):
            newton[row] += w * wrong * (1 - wrong)
    return pull, newton


def leaf_value(leaf_rows, pull, weight, n_rows, reg_lambda):
    """Return the value of a leaf with some of `n_rows` rows."""
    mean = sum(weight) / n_rows
    return sum(pull[row] for row in leaf_rows) / (
        sum(weight[row] for row in leaf_rows) + reg_lambda * mean
    )


def mixture(judgments, scores, *, weight, margin, balance="pairs"):
    """Return value, pull, Hessian diagonal, its bound and the term weights of QBRank's risk."""
    n = len(judgments)
    item = [1.0] * n if judgments.weight is None else list(judgments.weight)
    value, pull, newton, bound, terms = 0.0, [0.0] * n, [0.0] * n, [0.0] * n, [0.0] * n
    for i, k, w, gap in pairs_of(judgments, balance):
        pair_margin = gap if margin == "gap" else margin
        hinge = max(0.0, scores[k] - scores[i] + pair_margin)
        value += weight / 2 * w * hinge**2
        pull[i] += weight * w * hinge
        pull[k] -= weight * w * hinge
        for row in (i, k):
            newton[row] += weight * w * (hinge > 0)
            bound[row] += 2 * weight * w
            terms[row] += weight * w
    for row in range(n):
        if judgments.label is not None and not math.isnan(judgments.label[row]):
            residual = judgments.label[row] - scores[row]
            value += (1 - weight) / 2 * item[row] * residual**2
            pull[row] += (1 - weight) * item[row] * residual
            newton[row] += (1 - weight) * item[row]
            bound[row] += (1 - weight) * item[row]
            terms[row] += (1 - weight) * item[row]
    return value, pull, newton, bound, terms


# -- growing ---------------------------------------------------------------------------------


def quantize(pull, weight, context=None, *, wide=False):
    """Return quantized rows; None if all pulls or weights are 0."""
    context = context or Context(1)
    plan = plan_quantization(pull, weight, context, wide=wide)
    return None if plan is None else plan.apply(pull, weight, context.tree_backend, context)


# Naive version of tree_rows.py and tree_grower.py: each candidate is evaluated over all rows of the
# node. Pulls and weights are Python integers and gains use the same floating-point formula, so
# that results are equal, not only close.

MISSING = 255


@dataclass
class GrownTree:
    """Splits in the order in which they were made, their children, and the leaves."""

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
    lower: float = -math.inf
    upper: float = math.inf
    used: frozenset = frozenset()
    split: Candidate | None = None


class Grower:
    """Naive tree grower.

    `codes` has one list of codes per row; `pulls` and `weights` are integers; `rules` is a
    `precede.engine.tree_rows.Rules`; `groups` are the interaction constraints, if any.
    """

    def __init__(self, codes, pulls, weights, rules, *, monotone=None, categorical=(), groups=None):
        self.codes, self.pulls, self.weights, self.rules = codes, pulls, weights, rules
        self.features = range(len(codes[0]))
        self.n_bins = [1 + max((row[j] for row in codes if row[j] != MISSING), default=0)
                       for j in self.features]  # fmt: skip
        self.monotone = monotone or [0] * len(codes[0])
        self.categorical, self.groups = categorical, groups

    # -- sums --------------------------------------------------------------------------------

    def sums(self, rows):
        """Return sums of pull and weight, in the units of the rules, and the number of rows."""
        pull = float(sum(self.pulls[row] for row in rows)) * self.rules.pull_unit
        weight = float(sum(self.weights[row] for row in rows)) * self.rules.weight_unit
        return pull, weight, float(len(rows))

    def value(self, pull, curvature, leaf):
        size = max(abs(pull) - self.rules.reg_alpha, 0.0)
        value = math.copysign(size, 1 if pull > 0 else -1) / curvature if curvature > 0 else 0.0
        return min(max(value, leaf.lower), leaf.upper)

    def value_of(self, rows, leaf):
        pull, weight, _ = self.sums(rows)
        return self.value(pull, weight + self.rules.reg_lambda, leaf)

    def leaf_score(self, pull, curvature, leaf):
        if self.rules.reg_alpha == 0 and not any(self.monotone):
            return pull * pull / curvature if curvature else math.nan
        value = self.value(pull, curvature, leaf)
        return 2.0 * (pull * value - self.rules.reg_alpha * abs(value)) - curvature * value * value

    # -- splits ------------------------------------------------------------------------------

    def score(self, leaf, known, missing, feature, sign):
        """Return the sum of the leaf scores of two children; None if the rules forbid the split.

        One child has the rows `known` and `missing`, the other the remaining rows; its sums are
        those of the node minus those of the first child, as in the kernels.
        """
        rules = self.rules
        penalty = rules.reg_lambda + (rules.cat_smooth if feature in self.categorical else 0.0)
        first = [a + b for a, b in zip(self.sums(known), self.sums(missing), strict=True)]
        second = [a - b for a, b in zip(self.sums(leaf.rows), first, strict=True)]
        lighter = min(first[1], second[1])
        if min(first[2], second[2]) < rules.min_count:
            return None
        if lighter < rules.min_weight or not lighter + penalty > 0:
            return None
        if sign:
            values = [self.value(each[0], each[1] + penalty, leaf) for each in (first, second)]
            if sign * values[0] > sign * values[1]:
                return None
        leaf_score = [self.leaf_score(each[0], each[1] + penalty, leaf) for each in (first, second)]
        return leaf_score[0] + leaf_score[1]

    def candidates(self, leaf, feature):
        """Yield score and candidate of each split by a feature, in the order of tie-breaking."""
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
                    # If only missing values go right, codes that do not occur in the node go left.
                    cut = self.n_bins[feature] - 1 if alone else last
                    left = frozenset(range(cut + 1)) | ({MISSING} if with_missing else set())
                left_rows = [row for row in leaf.rows if code[row] in left]
                right_rows = [row for row in leaf.rows if code[row] not in left]
                yield score, Candidate(feature, cut, left, left_rows, right_rows, sign)

    def sorted_categories(self, leaf, feature, occurring):
        """Sort categories by smoothed mean pull, ties by number."""
        mean = {}
        for code in occurring:
            rows = [row for row in leaf.rows if self.codes[row][feature] == code]
            pull, weight, _ = self.sums(rows)
            weight += self.rules.cat_smooth
            mean[code] = pull / weight if weight > 0 else 0.0
        return sorted(occurring, key=lambda code: (mean[code], code))

    def allowed(self, leaf):
        if self.groups is None:
            return set(self.features)
        return set().union(*(group for group in self.groups if leaf.used <= group))

    def best_split(self, leaf):
        """Return the first candidate with the largest gain; None if no gain is large enough."""
        pull, weight, _ = self.sums(leaf.rows)
        own = self.leaf_score(pull, weight + self.rules.reg_lambda, leaf)
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

    def with_best_split(self, leaf, max_depth):
        enough = len(leaf.rows) >= 2 * self.rules.min_count
        if enough and (max_depth < 0 or leaf.depth < max_depth):
            leaf.split = self.best_split(leaf)
        return leaf

    def children(self, leaf, split):
        """Return two leaves; a monotone split bounds them by the midpoint of their values."""
        bounds = [(leaf.lower, leaf.upper), (leaf.lower, leaf.upper)]
        if split.sign:
            values = [self.value_of(rows, leaf) for rows in (split.left_rows, split.right_rows)]
            midpoint = 0.5 * (values[0] + values[1])
            bounds = [(leaf.lower, midpoint), (midpoint, leaf.upper)][:: split.sign]
        used = leaf.used | {split.feature}
        sides = zip((split.left_rows, split.right_rows), bounds, strict=True)
        return [Leaf(rows, leaf.depth + 1, *limits, used) for rows, limits in sides]

    def grow(self, num_leaves, max_depth=-1, rows=None):
        """Split the first leaf with the largest gain until `num_leaves` or no split is left."""
        rows = list(range(len(self.codes))) if rows is None else list(rows)
        tree = GrownTree(leaves=[self.with_best_split(Leaf(rows), max_depth)])
        above = [None]  # for each leaf, the list of children and the number of its parent
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
            tree.leaves[number] = self.with_best_split(left, max_depth)
            tree.leaves.append(self.with_best_split(right, max_depth))
        return tree


# ----------------------------------------------------------------------------------------------
# Algorithm 2 of Zheng et al. (2007), transcribed step by step, and an exact black box for it.


class Stump(RegressorMixin, BaseEstimator):
    """The regression stump of least weighted squared error, by trying every split.

    Splits whose errors differ by rounding only count as equal, and the first one wins, so the
    order of the rows does not matter.
    """

    def fit(self, X, y, sample_weight):
        X = np.asarray(X, float)
        best = None
        for feature in range(X.shape[1]):
            for cut in sorted(set(X[:, feature]))[:-1]:
                left = X[:, feature] <= cut
                sides = [_mean_and_gain(y[side], sample_weight[side]) for side in (left, ~left)]
                gain = sides[0][1] + sides[1][1]
                if best is None or gain > best[0] * (1 + 1e-7):
                    best = gain, feature, cut, sides[0][0], sides[1][0]
        if best is None:
            mean = _mean_and_gain(y, sample_weight)[0]
            best = 0.0, 0, math.inf, mean, mean
        self.feature_, self.cut_, self.left_, self.right_ = best[1:]
        return self

    def predict(self, X):
        return np.where(np.asarray(X)[:, self.feature_] <= self.cut_, self.left_, self.right_)


def _mean_and_gain(y, weight):
    """Mean of a side, and by how much it lowers the squared error."""
    total, sum_ = math.fsum(weight), math.fsum(weight * y)
    return sum_ / total, sum_**2 / total


def training_set(judgments, h, *, weight, margin):
    """Step 1: the examples (row, target, weight, how often) for the base regressor."""
    item = [1.0] * len(h) if judgments.weight is None else list(judgments.weight)
    examples = []
    for x, y, both, gap in pairs_of(judgments, "pairs"):
        tau = gap if margin == "gap" else margin
        short = max(0.0, h[y] - h[x] + tau)
        examples.append((x, short, weight, both / item[x]))
        examples.append((y, -short, weight, both / item[y]))
    if judgments.label is not None:
        for z, label in enumerate(judgments.label):
            if not math.isnan(label) and item[z] > 0:
                examples.append((z, label - h[z], 1 - weight, 1.0))
    return examples


def averaged(examples, judgments):
    """The remark after the algorithm: one example for each row, with the average target."""
    found = {}
    for row, target, weight, times in examples:
        entry = found.setdefault(row, [[], [], []])
        entry[0].append(times * weight * target)
        entry[1].append(times * weight)
        entry[2].append(times)
    item = np.ones(len(judgments)) if judgments.weight is None else judgments.weight
    rows = [row for row in sorted(found) if sum(found[row][1]) > 0]
    targets = [sum(found[row][0]) / sum(found[row][1]) for row in rows]
    weights = [item[row] * sum(found[row][1]) / sum(found[row][2]) for row in rows]
    return rows, np.array(targets), np.array(weights)


def line_search(judgments, h, g, *, weight, margin):
    """The least point s >= 0 of R along g, exactly: R is a parabola between kinks."""
    kinks, item = [], [1.0] * len(h) if judgments.weight is None else list(judgments.weight)
    pairs = pairs_of(judgments, "pairs")
    for x, y, _, gap in pairs:
        tau = gap if margin == "gap" else margin
        if g[x] != g[y]:
            kinks.append((h[y] - h[x] + tau) / (g[x] - g[y]))

    def slope(s):  # dR/ds
        total = 0.0
        for x, y, both, gap in pairs:
            tau = gap if margin == "gap" else margin
            short = max(0.0, h[y] - h[x] + tau + s * (g[y] - g[x]))
            total += weight * both * short * (g[y] - g[x])
        for z, label in enumerate(judgments.label if judgments.label is not None else []):
            if not math.isnan(label):
                total -= (1 - weight) * item[z] * (label - h[z] - s * g[z]) * g[z]
        return total

    edges = [0.0, *sorted({kink for kink in kinks if kink > 0})]
    for low, high in itertools.pairwise([*edges, edges[-1] + 1e6]):
        before, after = slope(low), slope(high)
        if before <= 0 <= after and before < after:
            return low - before * (high - low) / (after - before)
    return 0.0


def qbrank(X, judgments, regressor, *, weight, margin, shrinkage, rounds, search):
    """Scores of all rows after the given number of rounds of algorithm 2."""
    h, item = np.zeros(len(judgments)), judgments.weight
    item = np.ones(len(h)) if item is None else item
    if judgments.label is not None and weight < 1:  # the initial guess: the mean of the labels
        known = ~np.isnan(judgments.label) & (item > 0)
        if known.any():
            h += np.average(judgments.label[known], weights=item[known])
    for _ in range(rounds):
        examples = training_set(judgments, h, weight=weight, margin=margin)
        rows, targets, weights = averaged(examples, judgments)
        g = regressor.fit(X[rows], targets, sample_weight=weights).predict(X)
        s = line_search(judgments, h, g, weight=weight, margin=margin) if search else 1.0
        h = h + shrinkage * s * g
    return h


# ----------------------------------------------------------------------------------------------
# Terms and interactions again, slow and obvious: the twins of terms.py and interactions.py.


def bin_of(cuts, named, x):
    """Number of the bin of one value."""
    if named:
        whole = x if math.isnan(x) else math.floor(x)
        return cuts.index(whole) if whole in cuts else len(cuts)
    return len(cuts) + 1 if math.isnan(x) else sum(cut < x for cut in cuts)


def term_value(term, row):
    """Value of one row, looked up cell by cell."""
    cell = 0
    for axis, feature in enumerate(term.features):
        here = bin_of(list(term.cuts[axis]), term.categorical[axis], float(row[feature]))
        cell = cell * term.shape[axis] + here
    return term.values[cell]


def divisions(size, named):
    """All ways to cut the bins of a feature for a strength: sets of bins on one side."""
    if named:
        return [{code} for code in range(size)]
    return [set(range(last + 1)) for last in range(size)]


def strength(rows, sizes, named, penalty, least):
    """The strongest contrast of four quadrants; rows are (bin, bin, pull, weight)."""
    best = 0.0
    for one, other in itertools.product(*map(divisions, sizes, named)):
        pulls, weights = [0.0] * 4, [0.0] * 4
        for a, b, pull, weight in rows:
            quadrant = 2 * (a not in one) + (b not in other)
            pulls[quadrant] += pull
            weights[quadrant] += weight
        if min(weights) < least or min(weights) + penalty <= 0:
            continue
        mean = [p / (w + penalty) for p, w in zip(pulls, weights, strict=True)]
        contrast = mean[0] - mean[1] - mean[2] + mean[3]
        best = max(best, contrast**2 / sum(1 / (w + penalty) for w in weights))
    return best


def worth(rows, penalty):
    pull, weight = sum(row[2] for row in rows), sum(row[3] for row in rows)
    return pull**2 / (weight + penalty) if weight + penalty > 0 else 0.0


def splits(size):
    """Sets of bins of an ordered feature on one side, the last bin (missing) on either."""
    for last in range(size - 1):
        yield set(range(last + 1))
        if last < size - 2:
            yield {*range(last + 1), size - 1}


def best_half(rows, axis, size, penalty, least):
    """Worth of the best division of some rows by one feature, or of all of them together."""
    best = worth(rows, penalty)
    for side in splits(size):
        one = [row for row in rows if row[axis] in side]
        other = [row for row in rows if row[axis] not in side]
        if min(len(one), len(other)) >= least:
            best = max(best, worth(one, penalty) + worth(other, penalty))
    return best


def best_gain(rows, sizes, penalty, least):
    """Gain of the best function of four cells: one feature is cut, then the other on each side."""
    best = own = worth(rows, penalty)
    for first in (0, 1):
        for side in splits(sizes[first]):
            one = [row for row in rows if row[first] in side]
            other = [row for row in rows if row[first] not in side]
            if min(len(one), len(other)) >= least:
                halves = [
                    best_half(half, 1 - first, sizes[1 - first], penalty, least)
                    for half in (one, other)
                ]
                best = max(best, sum(halves))
    return best - own
