"""Algorithm 2 of Zheng et al. (2007), transcribed step by step, and an exact black box for it."""

import itertools
import math

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

import naive_trees


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
    for x, y, both, gap in naive_trees.pairs_of(judgments, "pairs"):
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
    pairs = naive_trees.pairs_of(judgments, "pairs")
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
