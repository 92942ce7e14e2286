"""Terms and interactions again, slow and obvious: the twins of terms.py and interactions.py."""

import itertools
import math


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
