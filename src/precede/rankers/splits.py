"""The best split of a node of a tree, from the histograms of its rows.

A leaf with pulls P and weights W in total (W in rows of mean weight) has the value

    v = S(P, alpha) / (W + lambda),   S(P, a) = sign(P) max(|P| - a, 0),

clipped to the bounds that monotone constraints have left, and the worth ``2 (P v - alpha |v|) -
(W + lambda) v²``, twice what it takes off the quadratic model of the risk (for alpha = 0 and no
bounds ``P² / (W + lambda)``). The gain of a split is the worth of the two children less that of
the node.

Candidates are compared in one order: by feature, by threshold, with missing values on the left
before missing values on the right. A later one must have a greater gain to be chosen. Gains are
functions of integer sums, so they have the same bits on any number of threads and machines.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["Node", "Rules", "Split", "SplitSearch", "leaf_value"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Gains below this share of the worth of the children are rounding.
ROUNDING = 2.0**-36


@dataclass(frozen=True)
class Rules:
    """What a split must respect, in units of histograms.

    Attributes
    ----------
    pull_unit, weight_unit : what a 1 of the histograms stands for; weights in rows of mean weight
    count_bits : see `precede.engine.packing`
    reg_lambda, reg_alpha : penalties on the square and on the size of a leaf's value
    min_gain : least gain
    min_count, min_weight : least number of rows and least weight of a child
    cat_smooth : rows of mean weight without a pull that are added to a category where categories
        are put in order, and to the penalty of children that are sets of categories
    """

    pull_unit: float
    weight_unit: float
    count_bits: int
    reg_lambda: float
    reg_alpha: float
    min_gain: float
    min_count: int
    min_weight: float
    cat_smooth: float

    def count(self, sums: tuple[int, int]) -> int:
        """Number of rows behind the two words of some sums."""
        return sums[1] & ((1 << self.count_bits) - 1)

    def may_split(self, sums: tuple[int, int]) -> bool:
        """Whether a node with these sums has rows enough for two children."""
        return self.count(sums) >= 2 * max(self.min_count, 1)


@dataclass(frozen=True)
class Split:
    """A split of a node: which codes of a feature go left, and what is there.

    Attributes
    ----------
    gain : by how much the worth of the children exceeds that of the node
    feature : column of the codes
    cut : greatest code that goes left; -1 for a split by categories
    left_codes : whether each of the 256 codes goes left; code 255 is that of missing values
    left_sums, right_sums : the two words of the sums of the children
    """

    gain: float
    feature: int
    cut: int
    left_codes: NDArray[np.bool_]
    left_sums: tuple[int, int]
    right_sums: tuple[int, int]


@dataclass(slots=True)
class Node:
    """A leaf that may be split: its rows, its sums, its histogram and its best split.

    `low` and `high` are its positions among the rows, in the buffer `buffer`; `least` and `most`
    bound the value of every leaf below; `features` are those that may be split on, None for all.
    """

    low: int
    high: int
    buffer: int
    sums: tuple[int, int]
    depth: int
    least: float
    most: float
    features: NDArray[np.bool_] | None
    histogram: Integers | None = None
    split: Split | None = None


class SplitSearch:
    """Searches histograms for the best split; holds the bins and the constraints of the features.

    Parameters
    ----------
    start, n_bins : layout of the histograms, see `precede.engine.histogram.RowHistograms`
    monotone : -1, 0 or 1 for each feature
    categorical : whether the codes of a feature are categories
    """

    def __init__(
        self,
        start: Integers,
        n_bins: Integers,
        monotone: NDArray[np.int8],
        categorical: NDArray[np.bool_],
    ):
        self._start, self._n_bins = start, n_bins
        self.monotone, self.categorical = monotone, categorical
        self._all = np.ones(n_bins.size, np.bool_)
        self._constrained = bool(monotone.any())

    def best(self, node: Node, rules: Rules) -> Split | None:
        """Find the split of the largest gain; None if there is none that the rules allow.

        O(bins) for all features.
        """
        assert node.histogram is not None
        features = self._all if node.features is None else node.features
        plain = rules.reg_alpha == 0 and not self._constrained
        gain, feature, cut, way, pull, weight_count = _best_split(
            node.histogram, self._start, self._n_bins, features, self.monotone, self.categorical,
            plain, node.sums[0], node.sums[1], node.least, node.most, rules.pull_unit,
            rules.weight_unit, rules.count_bits, rules.reg_lambda, rules.reg_alpha,
            rules.min_count, rules.min_weight, rules.cat_smooth, ROUNDING,
        )  # fmt: skip
        if feature < 0 or not gain > rules.min_gain:
            return None
        left = int(pull), int(weight_count)
        right = node.sums[0] - left[0], node.sums[1] - left[1]
        if self.categorical[feature]:
            codes = _left_categories(
                node.histogram, self._start[feature], self._n_bins[feature], cut, way,
                rules.pull_unit, rules.weight_unit, rules.count_bits, rules.cat_smooth,
            )  # fmt: skip
            return Split(float(gain), int(feature), -1, codes, left, right)
        codes = np.arange(256) <= cut
        codes[255] = way == 0
        return Split(float(gain), int(feature), int(cut), codes, left, right)


    def value_of(self, sums: tuple[int, int], rules: Rules, least: float, most: float) -> float:
        """Value of a leaf with these sums."""
        pull = sums[0] * rules.pull_unit
        weight = (sums[1] >> rules.count_bits) * rules.weight_unit
        return leaf_value(pull, weight, rules, least, most)


def leaf_value(pull: float, weight: float, rules: Rules, least: float, most: float) -> float:
    """Value of a leaf, by the formula above: `pull` in its own units, `weight` in mean rows.

    >>> rules = Rules(1.0, 1.0, 8, 1.0, 0.5, 0.0, 1, 0.0, 10.0)
    >>> leaf_value(2.5, 3.0, rules, -0.25, 0.25)
    0.25
    """
    return float(_value(pull, weight + rules.reg_lambda, rules.reg_alpha, least, most))


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True, error_model="numpy")
def _value(pull: float, curvature: float, alpha: float, least: float, most: float) -> float:
    size = max(abs(pull) - alpha, 0.0)
    value = (size if pull > 0 else -size) / curvature if curvature > 0 else 0.0
    return min(max(value, least), most)


@njit(cache=True, nogil=True, error_model="numpy")
def _worth(pull: float, curvature: float, alpha: float, value: float) -> float:
    return 2.0 * (pull * value - alpha * abs(value)) - curvature * value * value


@njit(cache=True, nogil=True, error_model="numpy")
def _pair_worth(
    left: float, left_weight: float, right: float, right_weight: float, alpha: float,
    least: float, most: float, sign: int,
) -> float:  # fmt: skip
    """Worth of two children; -1 if they are against the direction of the feature."""
    one = _value(left, left_weight, alpha, least, most)
    other = _value(right, right_weight, alpha, least, most)
    if (sign > 0 and one > other) or (sign < 0 and one < other):
        return -1.0
    return _worth(left, left_weight, alpha, one) + _worth(right, right_weight, alpha, other)


@njit(cache=True, nogil=True, error_model="numpy")
def _score(
    count: int, sums: Floats, parent: Floats, shift: Floats, plain: bool, alpha: float,
    penalty: float, least: float, most: float, sign: int, min_count: float, min_weight: float,
    scores: Floats,
) -> None:  # fmt: skip
    """Worth of the children of every cut; -1 where a rule forbids it.

    `sums` are pull, weight and rows left of the cuts; `shift` (those of missing values) is added.
    """
    for i in range(count):
        left, weight, rows = sums[0, i] + shift[0], sums[1, i] + shift[1], sums[2, i] + shift[2]
        right, other, rest = parent[0] - left, parent[1] - weight, parent[2] - rows
        lighter = min(weight, other)
        allowed = min(rows, rest) >= min_count and lighter >= min_weight and lighter + penalty > 0.0
        if plain:
            worth = left * left / (weight + penalty) + right * right / (other + penalty)
        else:
            worth = _pair_worth(
                left, weight + penalty, right, other + penalty, alpha, least, most, sign
            )
        scores[i] = worth if allowed else -1.0


@njit(cache=True, nogil=True)
def _cumulate(
    histogram: Integers, first: int, bins: int, order: Integers, pull_unit: float,
    weight_unit: float, count_bits: int, sums: Floats, last: Integers,
) -> int:  # fmt: skip
    """Sums up to every bin that is not empty, in the given order; gives their number."""
    pull, weight_count, kept = np.int64(0), np.int64(0), 0
    mask = (np.int64(1) << count_bits) - 1
    for i in range(bins):
        code = order[i]
        pull += histogram[first + code, 0]
        here = histogram[first + code, 1]
        weight_count += here
        sums[0, kept] = np.float64(pull) * pull_unit
        sums[1, kept] = np.float64(weight_count >> count_bits) * weight_unit
        sums[2, kept] = np.float64(weight_count & mask)
        last[kept] = i
        kept += np.int64((here & mask) != 0)
    return kept


@njit(cache=True, nogil=True, error_model="numpy")
def _sorted_categories(
    histogram: Integers, first: int, bins: int, pull_unit: float, weight_unit: float,
    count_bits: int, smooth: float, order: Integers,
) -> int:  # fmt: skip
    """Categories that occur, by rising smoothed mean of the pull; gives their number."""
    key = np.empty(bins)
    mask = (np.int64(1) << count_bits) - 1
    count = 0
    for code in range(bins):
        here = histogram[first + code, 1]
        if here & mask == 0:
            continue
        weight = np.float64(here >> count_bits) * weight_unit + smooth
        mean = np.float64(histogram[first + code, 0]) * pull_unit
        mean = mean / weight if weight > 0 else 0.0
        i = count
        while i > 0 and key[i - 1] > mean:
            key[i], order[i] = key[i - 1], order[i - 1]
            i -= 1
        key[i], order[i] = mean, code
        count += 1
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def _left_categories(
    histogram: Integers, first: int, bins: int, cut: int, way: int, pull_unit: float,
    weight_unit: float, count_bits: int, smooth: float,
) -> NDArray[np.bool_]:  # fmt: skip
    """Which codes go left: the first ``cut + 1`` categories (way 1), or the others (way 0)."""
    order = np.empty(256, np.int64)
    count = _sorted_categories(
        histogram, first, bins, pull_unit, weight_unit, count_bits, smooth, order
    )
    left = np.zeros(256, np.bool_)
    for i in range(count):
        left[order[i]] = (i <= cut) == (way == 1)
    return left


@njit(cache=True, nogil=True, error_model="numpy")
def _best_split(
    histogram: Integers, start: Integers, n_bins: Integers, features: NDArray[np.bool_],
    monotone: NDArray[np.int8], categorical: NDArray[np.bool_], plain: bool, pull: int,
    weight_count: int, least: float, most: float, pull_unit: float, weight_unit: float,
    count_bits: int, penalty: float, alpha: float, min_count: int, min_weight: float,
    smooth: float, rounding: float,
) -> tuple[float, int, int, int, int, int]:  # fmt: skip
    """Gain, feature, cut, way (1: missing values right) and sums on the left of the best split."""
    mask = (np.int64(1) << count_bits) - 1
    parent = np.empty(3)
    parent[0] = np.float64(pull) * pull_unit
    parent[1] = np.float64(weight_count >> count_bits) * weight_unit
    parent[2] = np.float64(weight_count & mask)
    own = parent[0] * parent[0] / (parent[1] + penalty)
    if not plain:
        value = _value(parent[0], parent[1] + penalty, alpha, least, most)
        own = _worth(parent[0], parent[1] + penalty, alpha, value)
    fewest = np.float64(max(min_count, 1))
    sums, scores = np.empty((3, 256)), np.empty((2, 256))
    nothing, missing = np.zeros(3), np.empty(3)
    rising, order = np.arange(256), np.empty(256, np.int64)
    last = np.empty(256, np.int64)
    best, chosen, cut, way = own, -1, -1, 0
    for j in range(n_bins.size):
        if not features[j]:
            continue
        first, bins = start[j], n_bins[j]
        here = histogram[first + bins]
        missing[0] = np.float64(here[0]) * pull_unit
        missing[1] = np.float64(here[1] >> count_bits) * weight_unit
        missing[2] = np.float64(here[1] & mask)
        more = penalty
        count = bins
        if categorical[j]:
            count = _sorted_categories(
                histogram, first, bins, pull_unit, weight_unit, count_bits, smooth, order
            )
            more = penalty + smooth
        kept = _cumulate(
            histogram, first, count, order if categorical[j] else rising, pull_unit, weight_unit,
            count_bits, sums, last,
        )  # fmt: skip
        _score(kept, sums, parent, nothing, plain, alpha, more, least, most, monotone[j], fewest,
               min_weight, scores[1])  # fmt: skip
        if missing[2] > 0:
            _score(kept, sums, parent, missing, plain, alpha, more, least, most, monotone[j],
                   fewest, min_weight, scores[0])  # fmt: skip
            for i in range(kept):
                if scores[0, i] > best:
                    best, chosen, cut, way = scores[0, i], j, last[i], 0
                if scores[1, i] > best:
                    best, chosen, cut, way = scores[1, i], j, last[i], 1
        else:  # missing values go where more rows go
            for i in range(kept):
                if scores[1, i] > best:
                    best, chosen, cut = scores[1, i], j, last[i]
                    way = np.int64(2.0 * sums[2, i] < parent[2])
    if chosen < 0 or not best - own > rounding * best:
        return 0.0, -1, -1, 0, 0, 0
    first, bins = start[chosen], n_bins[chosen]
    left, left_count = np.int64(0), np.int64(0)
    if categorical[chosen]:
        _sorted_categories(histogram, first, bins, pull_unit, weight_unit, count_bits, smooth, order)
    else:
        order[:] = rising
    for i in range(cut + 1):
        left += histogram[first + order[i], 0]
        left_count += histogram[first + order[i], 1]
    if categorical[chosen]:
        if way == 0:  # the others go left, and these right with what is missing
            left = pull - left - histogram[first + bins, 0]
            left_count = weight_count - left_count - histogram[first + bins, 1]
    elif way == 0:
        left += histogram[first + bins, 0]
        left_count += histogram[first + bins, 1]
    return best - own, chosen, cut, way, left, left_count
