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

from precede.engine.arrays import Flags, Floats, Integer, Integers, Signs

__all__ = ["Node", "Rules", "Split", "SplitSearch", "leaf_value"]


# Gains below this share of the worth of the children are rounding.
ROUNDING = 2.0**-36
CODES = np.arange(256)


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

    @property
    def units(self) -> tuple[float, float, int]:
        """What the kernels need to read histograms."""
        return self.pull_unit, self.weight_unit, self.count_bits

    def count(self, sums: tuple[int, int]) -> int:
        """Number of rows behind the two words of some sums."""
        return sums[1] & ((1 << self.count_bits) - 1)

    def may_split(self, sums: tuple[int, int]) -> bool:
        """Whether a node with these sums has rows enough for two children."""
        return self.count(sums) >= 2 * max(self.min_count, 1)

    @property
    def penalties(self) -> tuple[float, float, float]:
        """What the kernels need to weigh leaves."""
        return self.reg_lambda, self.reg_alpha, self.cat_smooth


@dataclass(frozen=True, slots=True)
class Split:
    """A split of a node.

    Attributes
    ----------
    gain : by how much the worth of the children exceeds that of the node
    feature : column of the codes
    cut : greatest code that goes left; of categories, position in their order
    way : 0 if missing values go with what is up to the cut, 1 otherwise
    left_sums, right_sums : the two words of the sums of the children
    categories : of a split by categories, which of the 256 codes go left
    """

    gain: float
    feature: int
    cut: int
    way: int
    left_sums: tuple[int, int]
    right_sums: tuple[int, int]
    categories: Flags | None = None


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
    features: Flags | None
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
        monotone: Signs,
        categorical: Flags,
    ):
        self._start, self._n_bins = start, n_bins
        self._monotone, self.categorical = monotone, categorical
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
            node.histogram, self._start, self._n_bins, features, self._monotone, self.categorical,
            plain, node.sums, (node.least, node.most), rules.units, rules.penalties,
            rules.min_count, rules.min_weight,
        )  # fmt: skip
        if feature < 0 or not gain > rules.min_gain:
            return None
        left = pull, weight_count
        right = node.sums[0] - left[0], node.sums[1] - left[1]
        if not self.categorical[feature]:
            return Split(gain, feature, cut, way, left, right)
        first = self._start[feature]
        bins = node.histogram[first : first + self._n_bins[feature]]
        codes = _left_categories(bins, cut, way, rules.units, rules.cat_smooth)
        return Split(gain, feature, cut, way, left, right, codes)

    def left_codes(self, split: Split) -> Flags:
        """Whether each of the 256 codes of the split's feature goes left; 255 is for missing."""
        if split.categories is not None:
            return split.categories
        codes = split.cut >= CODES
        codes[255] = split.way == 0
        return codes

    def direction_of(self, split: Split) -> int:
        """Direction of a split: that of its feature, or 0 if only missing values go right."""
        missing_alone = split.cut + 1 == self._n_bins[split.feature]
        return 0 if missing_alone else int(self._monotone[split.feature])

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

assert ROUNDING == 2.0**-36, "kernels write it out"


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
    bounds: tuple[float, float], sign: int,
) -> float:  # fmt: skip
    """Worth of two children; -inf if they are against the direction of the feature."""
    one = _value(left, left_weight, alpha, bounds[0], bounds[1])
    other = _value(right, right_weight, alpha, bounds[0], bounds[1])
    if (sign > 0 and one > other) or (sign < 0 and one < other):
        return -np.inf
    return _worth(left, left_weight, alpha, one) + _worth(right, right_weight, alpha, other)


@njit(cache=True, nogil=True, error_model="numpy")
def _scores(
    pulls: Floats, weights: Floats, parent: Floats, shift: Floats, plain: bool, penalty: float,
    alpha: float, bounds: tuple[float, float], sign: int, ordered: int, scores: Floats,
) -> float:  # fmt: skip
    """Worth of the children of some cuts; gives the greatest, -inf if there is none.

    A worth may be negative: bounds can keep a leaf far from its mean.
    `pulls` and `weights` are left of the cuts; `shift` (those of missing values) is added. The
    first `ordered` cuts have values on both sides; beyond them missing values are alone on the
    right, and have no direction.
    """
    pull, total, more, heavier = parent[0], parent[1], shift[0], shift[1]
    if plain:  # the processor takes several cuts at a time
        for i in range(pulls.size):
            left, weight = pulls[i] + more, weights[i] + heavier
            right, other = pull - left, total - weight
            scores[i] = left * left / (weight + penalty) + right * right / (other + penalty)
    else:
        for i in range(pulls.size):
            left, weight = pulls[i] + more, weights[i] + heavier
            scores[i] = _pair_worth(
                left, weight + penalty, pull - left, total - weight + penalty, alpha, bounds,
                sign if i < ordered else 0,
            )  # fmt: skip
    # In four strands, which do not wait for each other.
    a, b, c, d = -np.inf, -np.inf, -np.inf, -np.inf
    whole = pulls.size - pulls.size % 4
    for i in range(0, whole, 4):
        a = scores[i] if scores[i] > a else a
        b = scores[i + 1] if scores[i + 1] > b else b
        c = scores[i + 2] if scores[i + 2] > c else c
        d = scores[i + 3] if scores[i + 3] > d else d
    for i in range(whole, pulls.size):
        a = scores[i] if scores[i] > a else a
    a = b if b > a else a
    c = d if d > c else c
    return c if c > a else a


@njit(cache=True, nogil=True, error_model="numpy")
def _range(
    weights: Floats, counts: Integers, parent: Floats, shift: Floats, penalty: float,
    min_count: int, min_weight: float,
) -> tuple[int, int]:  # fmt: skip
    """The cuts that leave enough rows and weight on both sides: both grow from left to right.

    No side may have neither weight nor penalty.
    """
    low, high = 0, weights.size
    lightest = max(min_weight, 0.0 if penalty > 0.0 else 5e-324)
    while low < high and (counts[low] + shift[2] < min_count or weights[low] + shift[1] < lightest):
        low += 1
    while low < high and (
        parent[2] - (counts[high - 1] + shift[2]) < min_count
        or parent[1] - (weights[high - 1] + shift[1]) < lightest
    ):
        high -= 1
    return low, high


@njit(cache=True, nogil=True)
def _read(
    words: Integers, units: tuple[float, float, int], numbers: Floats
) -> None:  # fmt: skip
    """Pull, weight and count behind the two words of a sum."""
    numbers[0] = np.float64(words[0]) * units[0]
    numbers[1] = np.float64(words[1] >> units[2]) * units[1]
    numbers[2] = np.float64(words[1] & ((np.int64(1) << units[2]) - 1))


@njit(cache=True, nogil=True)
def _cumulate(
    bins: Integers, units: tuple[float, float, int], pulls: Floats, weights: Floats,
    counts: Integers, last: Integers,
) -> int:  # fmt: skip
    """Sums up to every bin that is not empty; gives their number.

    The last cut, which leaves missing values alone, is after the last bin of all.
    """
    pull, weight_count, kept = np.int64(0), np.int64(0), 0
    pull_unit, weight_unit, count_bits = units
    mask = (np.int64(1) << count_bits) - 1
    for i in range(bins.shape[0]):
        here = bins[i, 1]
        if here != 0:
            pull += bins[i, 0]
            weight_count += here
            pulls[kept] = np.float64(pull) * pull_unit
            weights[kept] = np.float64(weight_count >> count_bits) * weight_unit
            counts[kept] = weight_count & mask
            last[kept] = i
            kept += 1
    if kept > 0:
        last[kept - 1] = bins.shape[0] - 1
    return kept


@njit(cache=True, nogil=True, error_model="numpy")
def _sorted_categories(
    bins: Integers, units: tuple[float, float, int], smooth: float, order: Integers
) -> int:
    """Categories that occur, by rising smoothed mean of the pull; gives their number."""
    key, numbers = np.empty(bins.shape[0]), np.empty(3)
    count = 0
    for code in range(bins.shape[0]):
        if bins[code, 1] != 0:
            _read(bins[code], units, numbers)
            weight = numbers[1] + smooth
            mean = numbers[0] / weight if weight > 0 else 0.0
            i = count
            while i > 0 and key[i - 1] > mean:
                key[i], order[i] = key[i - 1], order[i - 1]
                i -= 1
            key[i], order[i] = mean, code
            count += 1
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def _in_order(
    bins: Integers, units: tuple[float, float, int], smooth: float, order: Integers
) -> Integers:
    """Bins of the categories that occur, in the order of `_sorted_categories`."""
    sorted_bins = np.empty((_sorted_categories(bins, units, smooth, order), 2), np.int64)
    for i in range(sorted_bins.shape[0]):
        sorted_bins[i, 0], sorted_bins[i, 1] = bins[order[i], 0], bins[order[i], 1]
    return sorted_bins


@njit(cache=True, nogil=True, error_model="numpy")
def _left_categories(
    bins: Integers, cut: int, way: int, units: tuple[float, float, int], smooth: float
) -> Flags:
    """Which codes go left: the first ``cut + 1`` categories (way 1), or the others (way 0)."""
    order = np.empty(256, np.int64)
    count = _sorted_categories(bins, units, smooth, order)
    left = np.zeros(256, np.bool_)
    for i in range(count):
        left[order[i]] = (i <= cut) == (way == 1)
    return left


@njit(cache=True, nogil=True, error_model="numpy")
def _best_cut(
    bins: Integers, missing: Floats, parent: Floats, best: float, plain: bool, penalty: float,
    alpha: float, bounds: tuple[float, float], sign: int, units: tuple[float, float, int],
    min_count: int, min_weight: float, work: Floats, counts: Integers, last: Integers,
) -> tuple[float, int, int]:  # fmt: skip
    """Worth, cut and way of the first best cut of one feature; `best` if none is better.

    Missing values go right (scores in work[2]), then left (work[3]), if there are any.
    """
    kept = _cumulate(bins, units, work[0], work[1], counts, last)
    pulls, weights, counts = work[0, :kept], work[1, :kept], counts[:kept]
    shift, ends = np.zeros(3), np.zeros((2, 2), np.int64)
    top = -np.inf
    for side in range(1 if missing[2] == 0 else 2):
        if side == 1:
            shift = missing
        low, high = _range(weights, counts, parent, shift, penalty, min_count, min_weight)
        found = _scores(pulls[low:high], weights[low:high], parent, shift, plain, penalty, alpha,
                        bounds, sign, kept - 1 - low, work[2 + side, low:high])  # fmt: skip
        top = found if found > top else top
        ends[side, 0], ends[side, 1] = low, high
    if not top > best:
        return best, -1, 0
    for i in range(kept):
        if ends[1, 0] <= i < ends[1, 1] and work[3, i] == top:
            return top, last[i], 0
        if ends[0, 0] <= i < ends[0, 1] and work[2, i] == top:
            if missing[2] == 0:  # missing values go where more rows go
                return top, last[i], 1 if 2.0 * counts[i] < parent[2] else 0
            return top, last[i], 1
    return best, -1, 0


@njit(cache=True, nogil=True)
def _sums_up_to(bins: Integers, cut: int) -> tuple[Integer, Integer]:
    pull, weight_count = np.int64(0), np.int64(0)
    for i in range(cut + 1):
        pull += bins[i, 0]
        weight_count += bins[i, 1]
    return pull, weight_count


@njit(cache=True, nogil=True, error_model="numpy")
def _best_split(
    histogram: Integers, start: Integers, n_bins: Integers, features: Flags, monotone: Signs,
    categorical: Flags, plain: bool, sums: tuple[int, int], bounds: tuple[float, float],
    units: tuple[float, float, int], penalties: tuple[float, float, float], min_count: int,
    min_weight: float,
) -> tuple[float, int, int, int, int, int]:  # fmt: skip
    """Gain, feature, cut, way and sums on the left of the best split; a feature of -1 for none."""
    penalty, alpha, smooth = penalties
    parent, missing, words = np.empty(3), np.empty(3), np.empty(2, np.int64)
    words[0], words[1] = sums
    _read(words, units, parent)
    own = parent[0] * parent[0] / (parent[1] + penalty)
    if not plain:
        value = _value(parent[0], parent[1] + penalty, alpha, bounds[0], bounds[1])
        own = _worth(parent[0], parent[1] + penalty, alpha, value)
    work, counts, last = np.empty((4, 256)), np.empty(256, np.int64), np.empty(256, np.int64)
    order = np.empty(256, np.int64)
    best, chosen, cut, way = own, -1, -1, 0
    for j in range(n_bins.size):
        if features[j]:
            bins = histogram[start[j] : start[j] + n_bins[j]]
            more = penalty
            if categorical[j]:
                bins = _in_order(bins, units, smooth, order)
                more = penalty + smooth
            _read(histogram[start[j] + n_bins[j]], units, missing)
            top, at, side = _best_cut(
                bins, missing, parent, best, plain, more, alpha, bounds, monotone[j], units,
                max(min_count, 1), min_weight, work, counts, last,
            )  # fmt: skip
            if at >= 0:
                best, chosen, cut, way = top, j, at, side
    if chosen < 0 or not best - own > 2.0**-36 * abs(best):
        return 0.0, -1, -1, 0, 0, 0
    bins = histogram[start[chosen] : start[chosen] + n_bins[chosen]]
    if categorical[chosen]:
        bins = _in_order(bins, units, smooth, order)
    here = histogram[start[chosen] + n_bins[chosen]]  # of missing values
    pull, weight_count = _sums_up_to(bins, cut)
    if way == 0:
        pull, weight_count = pull + here[0], weight_count + here[1]
    if categorical[chosen] and way == 0:  # the others go left, and these right
        pull, weight_count = sums[0] - pull, sums[1] - weight_count
    return best - own, chosen, cut, way, pull, weight_count
