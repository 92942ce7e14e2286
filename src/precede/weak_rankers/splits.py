"""The best split of a node of a tree, and what it must respect.

The formula of the gain and the order in which candidates are compared are in
`precede.engine.histograms.nodes`, which has the kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precede.engine.arrays import Flags, Floats, Integers, Signs
from precede.engine.histograms.nodes import (
    RULES,
    SplitFound,
    best_split,
    left_categories,
    penalized_value,
    penalized_values,
)

__all__ = ["Node", "Rules", "Split", "SplitSearch", "leaf_value", "leaf_values"]


# Which of the 256 codes go left, by way and cut: those up to the cut, and missing values (255) with
# way 0.
_CODES = np.arange(256)
SIDES = np.broadcast_to(_CODES[:, None] >= _CODES, (2, 256, 256)).copy()
SIDES[0, :, 255], SIDES[1, :, 255] = True, False


@dataclass(frozen=True)
class Rules:
    """What a split must respect, in units of histograms.

    Attributes
    ----------
    pull_unit, weight_unit : what a 1 of the histograms stands for; weights in rows of mean weight
    count_bits : see `precede.engine.quantization`
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

    def record(self, plain: bool) -> NDArray[Any]:
        """The same for the kernels of `precede.engine.histograms.nodes`."""
        penalties = self.reg_lambda, self.reg_alpha, self.cat_smooth
        least = self.min_count, self.min_weight, self.min_gain
        return np.array([(*self.units, *penalties, *least, plain)], RULES)

    def count(self, sums: tuple[int, int]) -> int:
        """Number of rows behind the two words of some sums."""
        return sums[1] & ((1 << self.count_bits) - 1)

    def may_split(self, sums: tuple[int, int]) -> bool:
        """Whether a node with these sums has rows enough for two children."""
        return self.count(sums) >= 2 * max(self.min_count, 1)


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
    """A leaf that may be split: its rows, its sums and its best split.

    `low` and `high` are its positions among the rows, in the buffer `buffer`; `least` and `most`
    bound the value of every leaf below; `features` are those that may be split on, None for all;
    `path` are those that were split on above; `key` is the number of its histogram.
    """

    low: int
    high: int
    buffer: int
    sums: tuple[int, int]
    depth: int
    least: float
    most: float
    features: Flags | None
    path: frozenset[int] = frozenset()
    key: int = 0
    split: Split | None = None


class SplitSearch:
    """Searches histograms for the best split; holds the bins and the constraints of the features.

    Parameters
    ----------
    start, n_bins : layout of the histograms, see `precede.engine.histograms.nodes.RowHistograms`
    monotone : -1, 0 or 1 for each feature
    categorical : whether the codes of a feature are categories

    Attributes
    ----------
    ordinary : whether no feature has a direction or categories
    """

    def __init__(
        self,
        start: Integers,
        n_bins: Integers,
        monotone: Signs,
        categorical: Flags,
    ):
        self.start, self.n_bins = start, n_bins
        self.monotone, self.categorical = monotone, categorical
        self.all = np.ones(n_bins.size, np.bool_)
        self._constrained = bool(monotone.any())
        self.ordinary = not self._constrained and not categorical.any()

    def record(self, rules: Rules) -> NDArray[Any]:
        """Rules as the kernels need them."""
        return rules.record(rules.reg_alpha == 0 and not self._constrained)

    def best(self, histogram: Integers, node: Node, rules: Rules) -> Split | None:
        """Find the split of the largest gain; None if there is none that the rules allow.

        O(bins) for all features.
        """
        allowed = self.all if node.features is None else node.features
        found = best_split(
            histogram, (self.start, self.n_bins), (allowed, self.monotone, self.categorical),
            node.sums, (node.least, node.most), self.record(rules),
        )  # fmt: skip
        return self.split(found, histogram, node, rules)

    def split(
        self, found: SplitFound, histogram: Integers, node: Node, rules: Rules
    ) -> Split | None:
        """The split of a node that was found in its histogram."""
        gain, feature, cut, way, pull, weight_count = found
        if feature < 0 or not gain > rules.min_gain:
            return None
        left = pull, weight_count
        right = node.sums[0] - left[0], node.sums[1] - left[1]
        if not self.categorical[feature]:
            return Split(gain, feature, cut, way, left, right)
        first = self.start[feature]
        bins = histogram[first : first + self.n_bins[feature]]
        codes = left_categories(bins.ravel(), cut, way, self.record(rules))
        return Split(gain, feature, cut, way, left, right, codes)

    def left_codes(self, split: Split) -> Flags:
        """Whether each of the 256 codes of the split's feature goes left; 255 is for missing."""
        if split.categories is not None:
            return split.categories
        side: Flags = SIDES[split.way, split.cut]
        return side

    def direction_of(self, split: Split) -> int:
        """Direction of a split: that of its feature, or 0 if only missing values go right."""
        if not self._constrained:
            return 0
        missing_alone = split.cut + 1 == self.n_bins[split.feature]
        return 0 if missing_alone else int(self.monotone[split.feature])

    def value_of(self, sums: tuple[int, int], rules: Rules, least: float, most: float) -> float:
        """Value of a leaf with these sums."""
        pull = sums[0] * rules.pull_unit
        weight = (sums[1] >> rules.count_bits) * rules.weight_unit
        return leaf_value(pull, weight, rules, least, most)


def leaf_values(pulls: Floats, weights: Floats, rules: Rules, bounds: Floats) -> Floats:
    """Values of some leaves, each as `leaf_value` has it; `bounds` has their least and most.

    >>> rules = Rules(1.0, 1.0, 8, 1.0, 0.5, 0.0, 1, 0.0, 10.0)
    >>> leaf_values(np.array([2.5]), np.array([3.0]), rules, np.array([[-0.25, 0.25]]))
    array([0.25])
    """
    return penalized_values(pulls, weights + rules.reg_lambda, rules.reg_alpha, bounds)


def leaf_value(pull: float, weight: float, rules: Rules, least: float, most: float) -> float:
    """Value of a leaf: `pull` in its own units, `weight` in mean rows.

    >>> rules = Rules(1.0, 1.0, 8, 1.0, 0.5, 0.0, 1, 0.0, 10.0)
    >>> leaf_value(2.5, 3.0, rules, -0.25, 0.25)
    0.25
    """
    return float(penalized_value(pull, weight + rules.reg_lambda, rules.reg_alpha, least, most))
