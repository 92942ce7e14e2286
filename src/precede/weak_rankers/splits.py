"""Search for the best split of a tree node, subject to penalties and constraints.

The kernels, the formula of the gain and the order in which ties are broken are in
`precede.engine.histograms.nodes`.
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


# LEFT_CODES[missing_above, cut, code]: whether a bin code goes left. Codes up to the cut do;
# missing values (code 255) do if missing_above is 0.
_CODES = np.arange(256)
LEFT_CODES = np.broadcast_to(_CODES[:, None] >= _CODES, (2, 256, 256)).copy()
LEFT_CODES[0, :, 255], LEFT_CODES[1, :, 255] = True, False


@dataclass(frozen=True)
class Rules:
    """Penalties and limits of splits, and the units of the quantized histograms.

    Attributes
    ----------
    pull_unit, weight_unit : value of one quantization step; weights are in units of the mean
        weight of a row
    count_bits : number of low bits that hold the row count, see `precede.engine.quantization`
    reg_lambda, reg_alpha : L2 and L1 penalties on leaf values
    min_gain : gain that a split must exceed
    min_count, min_weight : minimum number of rows and minimum weight of a child
    cat_smooth : pseudo-rows of mean weight and zero pull added to each category before sorting,
        and to `reg_lambda` when categorical splits are scored
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
        """Units by which the kernels convert quantized sums."""
        return self.pull_unit, self.weight_unit, self.count_bits

    def record(self, plain: bool) -> NDArray[Any]:
        """Return the rules as a structured array for `precede.engine.histograms.nodes`."""
        penalties = self.reg_lambda, self.reg_alpha, self.cat_smooth
        limits = self.min_count, self.min_weight, self.min_gain
        return np.array([(*self.units, *penalties, *limits, plain)], RULES)

    def count(self, sums: tuple[int, int]) -> int:
        """Return the number of rows encoded in quantized sums."""
        return sums[1] & ((1 << self.count_bits) - 1)

    def may_split(self, sums: tuple[int, int]) -> bool:
        """Whether a node with these sums has enough rows for two children."""
        return self.count(sums) >= 2 * max(self.min_count, 1)


@dataclass(frozen=True, slots=True)
class Split:
    """A split of a node.

    Attributes
    ----------
    gain : leaf scores of the two children minus that of the node
    feature : column of the codes
    cut : largest code that goes left; for a categorical split, a position in the sorted categories
    missing_above : 0 if missing values go to the side of the codes up to `cut`, 1 otherwise
    left_sums, right_sums : quantized sums (pull, weight and count) of the children
    categories : for a categorical split, whether each of the 256 codes goes left
    """

    gain: float
    feature: int
    cut: int
    missing_above: int
    left_sums: tuple[int, int]
    right_sums: tuple[int, int]
    categories: Flags | None = None


@dataclass(slots=True)
class Node:
    """A node of the growing tree, with its best split.

    Attributes
    ----------
    low, high, buffer : its rows are ``low..high`` of the row list number `buffer`
    sums : quantized sums of pull, and of weight and count
    depth : number of splits above
    lower, upper : bounds of all leaf values below, from monotone constraints
    features : whether each feature may be split on; None for all
    path : features of the splits above
    key : identifier of the node, by which its histogram is stored
    split : best split; None if there is none, or if it was not searched
    """

    low: int
    high: int
    buffer: int
    sums: tuple[int, int]
    depth: int
    lower: float
    upper: float
    features: Flags | None
    path: frozenset[int] = frozenset()
    key: int = 0
    split: Split | None = None


class SplitSearch:
    """Search of histograms for the best split of a node.

    Parameters
    ----------
    start, n_bins : layout of the histograms, see `precede.engine.histograms.nodes.RowHistograms`
    monotone : monotone constraint of each feature: -1, 0 or 1
    categorical : whether each feature is categorical

    Attributes
    ----------
    unconstrained : whether no feature is categorical or has a monotone constraint
    all_features : mask that allows all features
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
        self.all_features = np.ones(n_bins.size, np.bool_)
        self._has_monotone = bool(monotone.any())
        self.unconstrained = not self._has_monotone and not categorical.any()

    def record(self, rules: Rules) -> NDArray[Any]:
        """Return the rules as a structured array for the kernels."""
        return rules.record(rules.reg_alpha == 0 and not self._has_monotone)

    def best(self, histogram: Integers, node: Node, rules: Rules) -> Split | None:
        """Return the split with the largest gain, or None if the rules allow none. O(bins)."""
        allowed = self.all_features if node.features is None else node.features
        found = best_split(
            histogram, (self.start, self.n_bins), (allowed, self.monotone, self.categorical),
            node.sums, (node.lower, node.upper), self.record(rules),
        )  # fmt: skip
        return self.make_split(found, histogram, node, rules)

    def make_split(
        self, found: SplitFound, histogram: Integers, node: Node, rules: Rules
    ) -> Split | None:
        """Convert the result of a kernel to a `Split`; None if its gain is too small."""
        gain, feature, cut, missing_above, pull, weight_count = found
        if feature < 0 or not gain > rules.min_gain:
            return None
        left = pull, weight_count
        right = node.sums[0] - left[0], node.sums[1] - left[1]
        if not self.categorical[feature]:
            return Split(gain, feature, cut, missing_above, left, right)
        first = self.start[feature]
        bins = histogram[first : first + self.n_bins[feature]]
        codes = left_categories(bins.ravel(), cut, missing_above, self.record(rules))
        return Split(gain, feature, cut, missing_above, left, right, codes)

    def left_codes(self, split: Split) -> Flags:
        """Return whether each of the 256 codes goes left; code 255 is for missing values."""
        if split.categories is not None:
            return split.categories
        codes: Flags = LEFT_CODES[split.missing_above, split.cut]
        return codes

    def monotone_sign(self, split: Split) -> int:
        """Return the monotone constraint of a split; 0 if only missing values go right."""
        if not self._has_monotone:
            return 0
        only_missing_right = split.cut + 1 == self.n_bins[split.feature]
        return 0 if only_missing_right else int(self.monotone[split.feature])

    def node_value(self, sums: tuple[int, int], rules: Rules, lower: float, upper: float) -> float:
        """Return the value of a leaf with these quantized sums."""
        pull = sums[0] * rules.pull_unit
        weight = (sums[1] >> rules.count_bits) * rules.weight_unit
        return leaf_value(pull, weight, rules, lower, upper)


def leaf_values(pulls: Floats, weights: Floats, rules: Rules, bounds: Floats) -> Floats:
    """Return the values of many leaves (see `leaf_value`); `bounds` has shape (leaves, 2).

    >>> rules = Rules(1.0, 1.0, 8, 1.0, 0.5, 0.0, 1, 0.0, 10.0)
    >>> leaf_values(np.array([2.5]), np.array([3.0]), rules, np.array([[-0.25, 0.25]]))
    array([0.25])
    """
    return penalized_values(pulls, weights + rules.reg_lambda, rules.reg_alpha, bounds)


def leaf_value(pull: float, weight: float, rules: Rules, lower: float, upper: float) -> float:
    """Return the penalized value of a leaf; `weight` is in units of the mean weight of a row.

    >>> rules = Rules(1.0, 1.0, 8, 1.0, 0.5, 0.0, 1, 0.0, 10.0)
    >>> leaf_value(2.5, 3.0, rules, -0.25, 0.25)
    0.25
    """
    return float(penalized_value(pull, weight + rules.reg_lambda, rules.reg_alpha, lower, upper))
