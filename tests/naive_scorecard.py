"""Scorecards from their definitions: every pair, every bin, every row."""

import math

import numpy as np


def order_changes(before, after, y=None):
    """Pairs, reversed, tied and split, by looking at every pair."""
    counts = [0, 0, 0, 0]
    for i in range(len(before)):
        for k in range(i):
            if y is not None and y[i] == y[k]:
                continue
            one, other = np.sign(before[i] - before[k]), np.sign(after[i] - after[k])
            counts[0] += 1
            counts[1] += one * other < 0
            counts[2] += one != 0 and other == 0
            counts[3] += one == 0 and other != 0
    return tuple(map(int, counts))


def stability(expected, actual):
    """PSI of two lists of bins."""
    bins = sorted({*expected, *actual}, key=str)
    total = 0.0
    for label in bins:
        e = (expected.count(label) + 0.5) / (len(expected) + len(bins) / 2)
        a = (actual.count(label) + 0.5) / (len(actual) + len(bins) / 2)
        total += (a - e) * math.log(a / e)
    return total


def costs(points, goods, cost_of_bad, cost_of_good):
    """Cost of accepting from each of the points on, and of rejecting all."""
    cuts = [*sorted(set(points)), math.inf]
    found = []
    for cut in cuts:
        bad = sum(p >= cut and not g for p, g in zip(points, goods, strict=True))
        good = sum(p < cut and g for p, g in zip(points, goods, strict=True))
        found.append((cost_of_bad * bad + cost_of_good * good) / len(points))
    return found
