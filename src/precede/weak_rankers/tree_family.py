"""Trees as a family of weak rankers, grown on our own histograms.

A round is given a pull and a weight for every row and fits ``pull / weight`` by weighted least
squares: the best step under a quadratic model of the risk (Zheng et al. 2007, algorithm 1).
`precede.weak_rankers.tree_grower` grows the tree; here are its parameters, the draws of rows and
features,
and the values of its leaves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from inspect import signature
from typing import Any

import numpy as np
from numba import njit

from precede.engine.arrays import Bytes, Flags, Floats, Integers, Keys, Rows, Signs
from precede.engine.exact import all_reduce_sum, exact_sum
from precede.engine.execution import Context, is_small
from precede.engine.hashing import hash_keys
from precede.engine.histograms.nodes import RowHistograms
from precede.engine.parameters import in_range, whole_number
from precede.engine.pull import HESSIANS, Pull
from precede.engine.quantization import QuantizedRows, factors, quantize_rows
from precede.engine.table import Table
from precede.judgments import column_numbers, columns_in_order
from precede.weak_rankers.base import Family, SearchResult, monotone_signs
from precede.weak_rankers.regressors import RegressionSearch, check_targets
from precede.weak_rankers.splits import Rules, SplitSearch, leaf_values
from precede.weak_rankers.tree_grower import Allowed, GrownTree, TreeGrower
from precede.weak_rankers.trees import Tree

__all__ = [
    "TREE_PARAMETERS",
    "TreeSearch",
    "Trees",
    "check_tree_parameters",
]


# A round in which the rows or features drawn allow no split is tried again so many times.
TRIES = 8
# Tables of at most so many cells are summed in wide integers: two additions for each cell, but
# nothing to flush.
WIDE_CELLS = 1 << 19
# How rows are drawn. Gradient-based one-side sampling was tried and is not offered: it can save no
# more than drawing as many rows evenly, and ranked validation parts of real data no better.
SUBSAMPLED = ("row", "query")


class Trees(Family):
    """Regression trees of a given number of leaves, grown leaf by leaf.

    A round fits a tree to ``target_i = pull_i / weight_i`` by weighted least squares, with
    ``weight_i`` the curvature of the risk (or a bound of it) where the algorithm has one and
    the item weight 1 otherwise; the algorithm then chooses the step. A leaf has the value
    ``S(sum pull, reg_alpha) / (sum weight + reg_lambda)``, where S moves a number towards 0.

    Parameters
    ----------
    hessian : {"newton", "bound", "terms", "uniform"}
        Weights: the diagonal of the second derivative of the risk, a bound of it, half of the
        bound, or the item weights (see `precede.engine.pull.Pull.hessian`).
    targets : {"sum", "average"}
        Whether the pairs of a row add up, so that a row of many pairs weighs much, or are
        averaged, so that all rows weigh the same (see `precede.risks.base.BoundRisk.terms`).
    num_leaves : int
        Maximum number of leaves of a tree; the leaf with the best split is split first.
    max_depth : int
        Maximum number of splits on a path from the root to a leaf; -1 for no limit.
    min_child_samples : int
        Minimum number of rows in a leaf.
    min_child_weight : float
        Minimum sum of weights in a leaf, in units of the mean weight of a row.
    reg_lambda, reg_alpha : float
        Penalties on the square and on the absolute value of a leaf, in units of the mean weight
        and of the mean absolute pull of a row. An item of weight 2 counts as two rows.
    min_split_gain : float
        Minimum decrease of the quadratic model that a split must bring, as a share of the total
        absolute pull of all winners (1 is more than any split can bring).
    subsample : float in (0, 1]
        Share of the rows (or queries) redrawn for each tree, each with this probability.
        Rows that are equal in all bins are drawn together.
    subsample_by : {"row", "query"}
        Whether rows or whole queries are drawn.
    max_features, max_features_by_split : float in (0, 1]
        Shares of the features redrawn for each tree, and of these for each split.
    categorical_features : list of int, optional
        Columns of whole numbers from 0 that name categories; in `BoostedRanker` and `QBRank`
        also by name. A split sends any set of categories to the left; see Notes.
    cat_smooth : float
        Rows of mean weight and no pull that are added to every category where categories are
        put in order, and to `reg_lambda` where splits by categories are compared.
    monotone_constraints : list of -1, 0 and 1, or dict of column to -1 or 1, optional
        Scores must fall (-1) or rise (1) with a feature, over the whole tree.
    interaction_constraints : list of lists of columns, optional
        Groups of features that may occur together on a path from the root to a leaf. Features
        that are in no group form one more group.
    random_state : int
        For `subsample`, `max_features` and `max_features_by_split`.

    Notes
    -----
    Growing takes O(rows · features · depth) at most, in additions of integers: pulls and weights
    are rounded first (`precede.engine.quantization`), so sums are exact and the tree does not
    depend
    on the number of threads, the order of the rows or how they are divided between machines.
    Values of leaves are computed from the numbers before rounding. Memory: two bytes for each
    cell, 36 for each row, and 16 for each bin and leaf.

    Missing values go to the side with the larger gain. Where no row of a node misses the feature
    they go to the child with more rows (the left one if both have the same number), in scoring
    as in every export.

    Categories are sorted by ``sum pull / (sum weight + cat_smooth)`` in every node, and the best
    cut of this order is the best of all divisions in two (Fisher 1958) but for the smoothing. The
    254 heaviest categories of a feature have bins of their own; all others, missing and new ones
    share a bin.

    Examples
    --------
    >>> from precede import RankBoost, Trees
    >>> from precede.datasets import search_results
    >>> sample = search_results(30, features=6, informative=4, per_query=30, random_state=0)
    >>> model = RankBoost(weak_rankers=Trees(num_leaves=4), n_estimators=3, learning_rate=0.3)
    >>> model.fit(sample.X, sample.y, qid=sample.qid).ensemble_.weak_rankers[0].n_leaves
    4
    """

    name = "trees"
    quadratic = True
    takes_categories = True
    distributable = True
    on_own_devices = True
    codes_only = True

    def __init__(
        self,
        *,
        hessian: str = "newton",
        targets: str = "sum",
        num_leaves: int = 31,
        max_depth: int = -1,
        min_child_samples: int = 20,
        min_child_weight: float = 1e-3,
        reg_lambda: float = 0.0,
        reg_alpha: float = 0.0,
        min_split_gain: float = 0.0,
        subsample: float = 1.0,
        subsample_by: str = "row",
        max_features: float = 1.0,
        max_features_by_split: float = 1.0,
        categorical_features: Any = None,
        cat_smooth: float = 10.0,
        monotone_constraints: Any = None,
        interaction_constraints: Any = None,
        random_state: int = 0,
    ):
        self.hessian = hessian
        self.targets = targets
        self.num_leaves = num_leaves
        self.max_depth = max_depth
        self.min_child_samples = min_child_samples
        self.min_child_weight = min_child_weight
        self.reg_lambda = reg_lambda
        self.reg_alpha = reg_alpha
        self.min_split_gain = min_split_gain
        self.subsample = subsample
        self.subsample_by = subsample_by
        self.max_features = max_features
        self.max_features_by_split = max_features_by_split
        self.categorical_features = categorical_features
        self.cat_smooth = cat_smooth
        self.monotone_constraints = monotone_constraints
        self.interaction_constraints = interaction_constraints
        self.random_state = random_state

    def start(self, table: Table, context: Context | None = None) -> TreeSearch:
        """Copy the codes of the table row by row."""
        check_tree_parameters(self, self.num_leaves)
        if context is not None and context.device is not None:
            from precede.weak_rankers.device_trees import DeviceTreeSearch  # noqa: PLC0415  (a subclass)

            return DeviceTreeSearch(self, table, context)
        if context is not None and context.own_device is not None:
            from precede.weak_rankers.device_machines import MachineTreeSearch  # noqa: PLC0415  (ditto)

            return MachineTreeSearch(self, table, context)
        return TreeSearch(self, table, context or Context(1))

    def __or__(self, other: Family) -> Any:
        raise ValueError(
            "trees cannot be joined with other families: their values, and so their edges, have "
            "no common scale"
        )

    def with_categories(self, columns: list[int] | None) -> Trees:
        """The same trees with other columns of categories."""
        made = copy(self)
        made.categorical_features = columns
        return made

    def __repr__(self) -> str:
        given = [f"{k}={v!r}" for k, v in self.__dict__.items() if v != _DEFAULTS.get(k)]
        return f"Trees({', '.join(given)})"


_DEFAULTS = {name: each.default for name, each in signature(Trees).parameters.items()}
# What estimators that grow trees have as parameters of their own: all but the seed, which they
# draw.
TREE_PARAMETERS = tuple(name for name in _DEFAULTS if name != "random_state")


def check_tree_parameters(given: Any, leaves: Any) -> None:
    """Refuse parameters of trees, those of `Trees` or of an estimator, that make no sense.

    `leaves` is what stands for `num_leaves`.
    """
    if given.hessian not in HESSIANS:
        raise ValueError(f"hessian={given.hessian!r} is unknown; use one of {HESSIANS}")
    check_targets(given.targets)
    whole_number("num_leaves", leaves, least=2, most=131072)
    whole_number("min_child_samples", given.min_child_samples, least=0)
    if given.max_depth != -1:
        whole_number("max_depth", given.max_depth, least=1)
    for name in ("subsample", "max_features", "max_features_by_split"):
        in_range(name, getattr(given, name), 0.0, 1.0)
    if given.subsample_by not in SUBSAMPLED:
        raise ValueError(f"subsample_by={given.subsample_by!r} is unknown; use one of {SUBSAMPLED}")
    for name in ("min_child_weight", "reg_lambda", "reg_alpha", "min_split_gain", "cat_smooth"):
        if not 0 <= getattr(given, name) < float("inf"):
            raise ValueError(f"{name}={getattr(given, name)!r} is out of range; use 0 or more")


def _groups(given: Any, n_features: int) -> list[frozenset[int]]:
    """Groups of features that may meet on a path; those that are in no group are one more."""
    if given is None:
        return []
    if not isinstance(given, Sequence | set | frozenset) or not all(
        isinstance(group, Sequence | set | frozenset) and not isinstance(group, str)
        for group in given
    ):
        raise ValueError(
            f"interaction_constraints={given!r}: give a list of lists of columns, for example "
            "[[0, 1], [2, 3, 4]]"
        )
    parameter = "interaction_constraints"
    groups = [frozenset(columns_in_order([*each], None, n_features, parameter)) for each in given]
    rest = frozenset(range(n_features)) - frozenset().union(*groups)
    return [group for group in [*groups, rest] if group]


class TreeSearch(RegressionSearch):
    """Grows a tree for every pull, on the rows of one table."""

    def __init__(self, family: Trees, table: Table, context: Context):
        self._family, self._table, self._context = family, table, context
        self.hessian, self.targets = family.hessian, check_targets(family.targets)
        bins = table.bins
        # Features that are constant are not looked at.
        self._features = np.flatnonzero((bins.n_bins > 1) | bins.has_missing)
        categorical = np.zeros(table.n_features, np.bool_)
        categorical[[*bins.categories]] = True
        for column in column_numbers(family.categorical_features, None, table.n_features):
            if column not in bins.categories:
                raise ValueError(
                    f"column {column} of the table is not binned as categories; build it with "
                    f"categorical=[{column}]"
                )
        monotone = monotone_signs(family.monotone_constraints, table.n_features)
        both = np.flatnonzero(categorical & (monotone != 0))
        if both.size:
            raise ValueError(
                f"column {both[0]} has categories, which have no order for monotone_constraints; "
                "give 0 for it"
            )
        self._groups = _groups(family.interaction_constraints, table.n_features)
        self._prepare(monotone[self._features], categorical[self._features])
        self._rows = all_reduce_sum(lambda: table.n_used_rows, context)
        self._wide = self._rows * max(1, self._features.size) <= WIDE_CELLS
        # After the last cut of a feature: all values that are not missing may go left.
        cuts = [np.append(bins.cuts[feature], np.inf) for feature in self._features]
        self._last_cut = np.array([each.size - 1 for each in cuts], np.int64)
        self._first_cut = np.cumsum([0, *(self._last_cut + 1)])
        self._cuts = np.concatenate([np.zeros(0), *cuts])
        self._round = 0
        self._keys: Keys | None = None

    def _prepare(self, monotone: Signs, categorical: Flags) -> None:
        """Copy the codes row by row, and get ready to grow trees on them."""
        self._histograms = RowHistograms(self._table, self._features, self._context)
        bins = self._histograms.start, self._histograms.n_bins
        search = SplitSearch(*bins, monotone, categorical)
        self._growth = TreeGrower(self._histograms, self._columns(), search, self._context)

    def begin(self, rounds: int) -> None:
        """Draw as after so many rounds."""
        self._round = rounds

    def best_for(self, pull: Pull, allowed: Flags | None = None) -> SearchResult | None:
        """Grow a tree for the quadratic model of the risk."""
        self._prepare_draws(pull)
        return super().best_for(pull, allowed)

    def fit(
        self,
        pull: Floats,
        weight: Floats,
        allowed: Flags | None = None,
        *,
        rows: float | None = None,
    ) -> SearchResult | None:
        """Grow a tree for ``pull / weight``; None where no split helps."""
        self._prepare_draws(None)
        numbers = None
        if self._features.size:
            numbers = self._packed(pull, weight)
        if numbers is None:
            return None
        count = rows or self._rows
        mean = numbers.total_weight / count
        rules = self._rules(numbers, mean, count)
        drawn = self._family
        sampled = min(drawn.subsample, drawn.max_features, drawn.max_features_by_split) < 1
        grown, inside = GrownTree(), None
        for attempt in range(TRIES if sampled else 1):
            inside = self._draw_rows(attempt)
            grown = self._growth.grow(
                numbers, rules, drawn.num_leaves, drawn.max_depth, rows=inside,
                allowed=self._draw_features(attempt, allowed),
            )  # fmt: skip
            if grown.splits.size:
                break
        self._round += 1
        return self._found(grown, numbers, rules, mean, pull, weight, inside)

    def _packed(self, pull: Floats, weight: Floats) -> QuantizedRows | None:
        """Pulls and weights as integers."""
        return quantize_rows(pull, weight, self._context, wide=self._wide)

    def _rules(self, numbers: QuantizedRows, mean: float, rows: float) -> Rules:
        family = self._family
        return Rules(
            pull_unit=numbers.pull_unit,
            weight_unit=numbers.weight_unit / mean,
            count_bits=numbers.count_bits,
            reg_lambda=float(family.reg_lambda),
            reg_alpha=family.reg_alpha * numbers.total / rows,
            min_gain=2 * mean * family.min_split_gain,
            min_count=family.min_child_samples,
            min_weight=float(family.min_child_weight),
            cat_smooth=float(family.cat_smooth),
        )

    def _columns(self) -> tuple[Bytes, Integers, int]:
        """Where the codes of the features are: an array, the first of each, and the step."""
        if self._table.streamed:
            codes = self._histograms.codes
            return codes.reshape(-1), np.arange(self._features.size), codes.shape[1]
        codes = self._table.codes
        return codes.reshape(-1), self._features * codes.shape[1], 1

    # -- draws -----------------------------------------------------------------------------

    def _prepare_draws(self, pull: Pull | None) -> None:
        """Give every row, or all rows of a query, a number to draw by."""
        if self._family.subsample == 1 or self._keys is not None:
            return
        keys = self._table.keys(np.zeros(self._table.n_used_rows), self._context)
        if self._family.subsample_by == "query":
            if pull is None:
                raise ValueError(
                    "subsample_by='query': a pull by itself has no queries; use "
                    "subsample_by='row', or an estimator"
                )
            keys = _query_keys(keys, pull)
        self._keys = keys

    def _draw_rows(self, attempt: int) -> Rows | None:
        """Rows of this round: of each a number follows from its bins, the seed and the round."""
        if self._keys is None:
            return None
        mixed = hash_keys(self._keys, self._family.random_state, self._round, attempt)
        chance = mixed >> np.uint64(11)
        return np.flatnonzero(chance < self._family.subsample * 2.0**53).astype(np.int32)

    def _draw_features(self, attempt: int, allowed: Flags | None) -> Allowed | None:
        """What the growth asks which features a node may be split on; None if it may on all."""
        family = self._family
        drawn = min(family.max_features, family.max_features_by_split) < 1
        if allowed is None and not drawn and not self._groups:
            return None
        tree = (
            np.ones(self._features.size, np.bool_) if allowed is None else allowed[self._features]
        )
        tree = self._share(tree, family.max_features, attempt, -1)
        if tree.all() and family.max_features_by_split == 1 and not self._groups:
            return None

        def of_node(split: int, path: frozenset[int]) -> Flags:
            here = tree
            if self._groups:
                used = {int(self._features[feature]) for feature in path}
                groups = [group for group in self._groups if used <= group]
                free = frozenset().union(*groups)
                here = here & np.array([int(each) in free for each in self._features])
            return self._share(here, family.max_features_by_split, attempt, split + 1)

        return of_node

    def _share(self, of: Flags, share: float, attempt: int, split: int) -> Flags:
        """Draw a share of the features that are in a set, at least one."""
        if share == 1:
            return of
        numbers = self._family.random_state, self._round, attempt * 1_000_003 + split + 7
        keys = hash_keys(self._features.astype(np.uint64), *numbers)
        among = np.flatnonzero(of)
        chosen = among[np.argsort(keys[among], kind="stable")]
        drawn = np.zeros(of.size, np.bool_)
        drawn[chosen[: max(1, round(share * among.size))]] = True
        return drawn

    # -- leaves ----------------------------------------------------------------------------

    def _found(
        self,
        grown: GrownTree,
        numbers: QuantizedRows,
        rules: Rules,
        mean: float,
        pull: Floats,
        weight: Floats,
        inside: Rows | None,
    ) -> SearchResult | None:
        """The tree with the values of its leaves, its values on all rows, and its edge."""
        if not grown.splits.size:
            return None
        pulls, weights = self._sums_of_leaves(grown, numbers, pull, weight)
        value = leaf_values(pulls, weights / mean, rules, grown.bounds) / mean
        values = self._values_of_rows(grown, value, inside is not None)
        edge = math.fsum(value * pulls)  # rounded once: a product of BLAS depends on the processor
        if inside is not None:
            edge = exact_sum(pull * values, self._context)
        if not edge > 0:
            return None
        return SearchResult(self._tree(grown, value, rules, mean), edge, values=values)

    def _sums_of_leaves(
        self, grown: GrownTree, numbers: QuantizedRows, pull: Floats, weight: Floats
    ) -> tuple[Floats, Floats]:
        """Exact sums of pull and weight over the rows of every leaf that the tree was grown on."""
        bits = numbers.exact_bits
        ranges = grown.ranges
        size = int(ranges[1].max())  # the last leaf may have no row on this machine
        powers = *factors(bits[0]), *factors(bits[1])
        lists = self._growth.lists[0], self._growth.lists[1]

        def of_rows(low: int, high: int) -> Integers:
            part = np.zeros((ranges[0].size, 2), np.int64)
            _sums_of_ranges(low, high, *ranges, *lists, pull, weight, *powers, part)
            return part

        small = is_small("rows", size)
        sums = all_reduce_sum(
            lambda: sum(self._context.run(of_rows, size, small=small)), self._context
        )
        return np.ldexp(sums[:, 0], -bits[0]), np.ldexp(sums[:, 1], -bits[1])

    def _values_of_rows(self, grown: GrownTree, value: Floats, sampled: bool) -> Floats:
        """The value of the leaf of every row, also of those that the tree was not grown on."""
        values = np.empty(self._table.n_used_rows)
        if not sampled:
            given = *grown.ranges, *self._growth.lists, value, values
            small = is_small("rows", values.size)
            self._context.run(_values_of_ranges, values.size, *given, small=small)
            return values
        splits = grown.splits
        feature, child = splits["feature"].copy(), np.array([splits["left"], splits["right"]])
        self._context.run(
            _walk, values.size, self._histograms.codes, feature, grown.sides, child, value, values,
            small=is_small("heavy rows", values.size),
        )  # fmt: skip
        return values

    def _tree(self, grown: GrownTree, value: Floats, rules: Rules, mean: float) -> Tree:
        splits, column = grown.splits, grown.splits["feature"]
        features, cut = self._features[column], np.minimum(splits["cut"], self._last_cut[column])
        threshold = self._cuts[self._first_cut[column] + cut]
        missing_left = splits["way"] == 0
        sets: list[tuple[int, ...]] = []
        if grown.categories:
            sets = [()] * splits.size
            for number, side in grown.categories.items():
                threshold[number], missing_left[number] = 0.0, side[255]
                kept = self._table.bins.categories[int(features[number])]
                sets[number] = tuple(int(kept[code]) for code in np.flatnonzero(side))
        counts = grown.leaves["weight"] & ((1 << rules.count_bits) - 1)
        fields = {
            "split_feature": features, "threshold": threshold, "missing_left": missing_left,
            "left": splits["left"], "right": splits["right"], "value": value, "count": counts,
            "gain": splits["gain"] / (2 * mean),
        }  # fmt: skip
        listed = {name: tuple(array.tolist()) for name, array in fields.items()}
        return Tree.trusted(**listed, categories=tuple(sets) if any(sets) else ())


def _query_keys(keys: Keys, pull: Pull) -> Keys:
    """The same key for all rows of a query; rows beyond the last query keep theirs."""
    start, end = pull.query_start[:-1], int(pull.query_start[-1])
    sizes = np.diff(pull.query_start)
    sums = np.zeros(sizes.size, np.uint64)
    if end:
        sums[sizes > 0] = np.add.reduceat(keys[:end], start[sizes > 0])
    if pull.shared:  # every machine has some rows of each query
        sums = all_reduce_sum(lambda: sums, pull.context)
    return np.concatenate([np.repeat(sums, sizes), keys[end:]])


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _sums_of_ranges(
    low: int, high: int, order: Rows, ends: Integers, lists: Integers, one: Rows, other: Rows,
    pull: Floats, weight: Floats, pull_one: float, pull_other: float, weight_one: float,
    weight_other: float, sums: Integers,
) -> None:  # fmt: skip
    """Exact sums of pull and weight over the rows of every leaf, at low..high of the lists."""
    at = low
    for k in range(order.size):
        rows = one if lists[k] == 0 else other
        first, second = np.int64(0), np.int64(0)
        end = ends[k] if ends[k] < high else high
        for i in range(np.uint64(at), np.uint64(end if end > at else at)):
            row = np.uint64(rows[i])
            first += np.int64(np.rint(pull[row] * pull_one * pull_other))
            second += np.int64(np.rint(weight[row] * weight_one * weight_other))
        sums[order[k], 0] += first
        sums[order[k], 1] += second
        at = end if end > at else at


@njit(cache=True, nogil=True)
def _values_of_ranges(
    low: int, high: int, order: Rows, ends: Integers, lists: Integers, one: Rows, other: Rows,
    value: Floats, values: Floats,
) -> None:  # fmt: skip
    """Write the value of its leaf for every row at low..high of the lists."""
    at = low
    for k in range(order.size):
        rows, here = one if lists[k] == 0 else other, value[order[k]]
        end = ends[k] if ends[k] < high else high
        for i in range(np.uint64(at), np.uint64(end if end > at else at)):
            values[np.uint64(rows[i])] = here
        at = end if end > at else at


@njit(cache=True, nogil=True)
def _walk(
    low: int, high: int, codes: Bytes, feature: Integers, sides: Flags,
    child: Integers, value: Floats, values: Floats,
) -> None:  # fmt: skip
    """Find the leaf of every row by its codes, and write its value."""
    for row in range(low, high):
        node = np.int64(0)
        while node >= 0:
            left = sides[node, codes[row, feature[node]]]
            node = child[0 if left else 1, node]
        values[row] = value[-1 - node]
