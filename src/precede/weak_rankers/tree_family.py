"""Regression trees as a family of weak rankers.

A round fits ``pull / weight`` by weighted least squares, which is the best step under a quadratic
model of the risk (Zheng et al. 2007, algorithm 1). This module has the parameters, the sampling of
rows and features, and the leaf values; `precede.weak_rankers.tree_grower` grows the tree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from inspect import signature
from typing import Any

import numpy as np

from precede.engine.arrays import Bytes, Flags, Floats, Integers, Keys, Rows, Signs
from precede.engine.compiling import njit
from precede.engine.exact import all_reduce_sum, exact_sum, hash_keys
from precede.engine.execution import Context, is_small
from precede.engine.parameters import check_integer, check_range
from precede.engine.pull import HESSIANS, Pull
from precede.engine.quantization import QuantizedRows, power_factors, quantize_rows
from precede.engine.table import Table
from precede.engine.tree_histograms import RowHistograms
from precede.judgments import column_numbers, columns_in_order
from precede.weak_rankers.base import Family, SearchResult, monotone_signs
from precede.weak_rankers.regressors import RegressionSearch, check_targets
from precede.weak_rankers.tree_grower import (
    AllowedFeatures,
    GrownTree,
    Rules,
    SplitSearch,
    TreeGrower,
    leaf_values,
)
from precede.weak_rankers.trees import Tree

# In a round, rows and features are sampled up to this many times until they allow a split.
MAX_ATTEMPTS = 8
# Tables with at most this many cells are summed in wide integers: two additions per cell, but
# no packed sums to flush.
MAX_WIDE_CELLS = 1 << 19
# Gradient-based one-side sampling is not offered: it saves no more time than uniform sampling of as
# many rows, and did not rank held-out data better.
SUBSAMPLE_UNITS = ("row", "query")


class Trees(Family):
    """Regression trees with a given number of leaves, grown best leaf first.

    A round fits a tree to ``target_i = pull_i / weight_i`` by weighted least squares, where
    ``weight_i`` is the Hessian of the risk (or a bound of it) if the algorithm has one and the item
    weight 1 otherwise; the algorithm then chooses the step. A leaf has the value
    ``S(sum pull, reg_alpha) / (sum weight + reg_lambda)`` with the soft threshold S.

    Parameters
    ----------
    hessian : {"newton", "bound", "terms", "uniform"}
        Weights: the diagonal of the Hessian of the risk, a bound of it, half of the bound, or the
        item weights (see `precede.engine.pull.Pull.hessian`).
    targets : {"sum", "average"}
        Whether the pairs of a row are summed, so that rows with many pairs weigh more, or
        averaged, so that all rows weigh the same (see `precede.risks.base.BoundRisk.pair_counts`).
    num_leaves : int
        Maximum number of leaves of a tree; the leaf with the best split is split first.
    max_depth : int
        Maximum number of splits on a path from the root to a leaf; -1 for no limit.
    min_child_samples : int
        Minimum number of rows in a leaf.
    min_child_weight : float
        Minimum sum of weights in a leaf, in units of the mean weight of a row.
    reg_lambda, reg_alpha : float
        L2 and L1 penalties on leaf values, in units of the mean weight and of the mean absolute
        pull of a row. An item of weight 2 counts as two rows.
    min_split_gain : float
        Minimum decrease of the quadratic model by a split, as a share of the total absolute pull
        of all winners (no split reaches 1).
    subsample : float in (0, 1]
        Probability with which each row (or query) is sampled for a tree. Rows with equal bins in
        all features are sampled together.
    subsample_by : {"row", "query"}
        Whether rows or whole queries are sampled.
    max_features, max_features_by_split : float in (0, 1]
        Share of the features sampled for each tree, and of these for each split.
    categorical_features : list of int, optional
        Columns whose values 0, 1, 2, ... are categories; in `BoostedRanker` and `QBRank` also by
        name. A split may send any set of categories to the left; see Notes.
    cat_smooth : float
        Number of pseudo-rows of mean weight and zero pull added to each category before sorting,
        and added to `reg_lambda` when categorical splits are scored.
    monotone_constraints : list of -1, 0 and 1, or dict of column to -1 or 1, optional
        Whether scores must decrease (-1) or increase (1) with a feature, over the whole tree.
    interaction_constraints : list of lists of columns, optional
        Groups of features that may occur together on a path from the root to a leaf. Features
        in no group form an additional group.
    random_state : int
        Seed of `subsample`, `max_features` and `max_features_by_split`.

    Notes
    -----
    Growing takes O(rows · features · depth) integer additions at most. Pulls and weights are
    quantized (`precede.engine.quantization`), so sums are exact and the tree does not depend on the
    number of threads, on the order of the rows or on their distribution over machines. Leaf values
    are computed from the unquantized numbers. Memory: two bytes per cell, 36 per row, and 16 per
    bin and leaf.

    Missing values go to the side with the larger gain. If no row of a node misses the feature, they
    go to the child with more rows (to the left on a tie), in prediction and in every export.

    Categories are sorted by ``sum pull / (sum weight + cat_smooth)`` in each node. Except for the
    smoothing, the best cut of this order is the best of all partitions in two (Fisher 1958). The
    254 heaviest categories of a feature have their own bins; all others share one bin with missing
    and unseen values.

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
        """Return a search of `table` that is reused in every round."""
        check_tree_parameters(self, self.num_leaves)
        if context is not None and context.backend.is_gpu:
            from precede.weak_rankers.device_trees import DeviceTreeSearch  # noqa: PLC0415  (a subclass)

            return DeviceTreeSearch(self, table, context)
        if context is not None and context.tree_backend.is_gpu:
            from precede.weak_rankers.device_trees import MachineTreeSearch  # noqa: PLC0415  (ditto)

            return MachineTreeSearch(self, table, context)
        return TreeSearch(self, table, context or Context(1))

    def __or__(self, other: Family) -> Any:
        raise ValueError(
            "trees cannot be joined with other families: their values, and so their edges, have "
            "no common scale"
        )

    def with_categories(self, columns: list[int] | None) -> Trees:
        """Return a copy with these categorical columns."""
        family = copy(self)
        family.categorical_features = columns
        return family

    def __repr__(self) -> str:
        changed = [f"{k}={v!r}" for k, v in self.__dict__.items() if v != _DEFAULTS.get(k)]
        return f"Trees({', '.join(changed)})"


_DEFAULTS = {name: each.default for name, each in signature(Trees).parameters.items()}
# Parameters of estimators that grow trees: all but the seed, which they draw themselves.
TREE_PARAMETERS = tuple(name for name in _DEFAULTS if name != "random_state")


def check_tree_parameters(given: Any, leaves: Any) -> None:
    """Raise ValueError if tree parameters of `Trees` or of an estimator are out of range.

    `leaves` is checked in place of ``given.num_leaves``.
    """
    if given.hessian not in HESSIANS:
        raise ValueError(f"hessian={given.hessian!r} is unknown; use one of {HESSIANS}")
    check_targets(given.targets)
    check_integer("num_leaves", leaves, least=2, most=131072)
    check_integer("min_child_samples", given.min_child_samples, least=0)
    if given.max_depth != -1:
        check_integer("max_depth", given.max_depth, least=1)
    for name in ("subsample", "max_features", "max_features_by_split"):
        check_range(name, getattr(given, name), 0.0, 1.0)
    if given.subsample_by not in SUBSAMPLE_UNITS:
        raise ValueError(
            f"subsample_by={given.subsample_by!r} is unknown; use one of {SUBSAMPLE_UNITS}"
        )
    for name in ("min_child_weight", "reg_lambda", "reg_alpha", "min_split_gain", "cat_smooth"):
        if not 0 <= getattr(given, name) < float("inf"):
            raise ValueError(f"{name}={getattr(given, name)!r} is out of range; use 0 or more")


def _parse_groups(given: Any, n_features: int) -> list[frozenset[int]]:
    """Parse interaction constraints; features in no group form an additional group."""
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
    groups = [frozenset(columns_in_order([*group], None, n_features, parameter)) for group in given]
    rest = frozenset(range(n_features)) - frozenset().union(*groups)
    return [group for group in [*groups, rest] if group]


class TreeSearch(RegressionSearch):
    """Search that grows a tree for each pull, on the rows of one table."""

    def __init__(self, family: Trees, table: Table, context: Context):
        self._family, self._table, self._context = family, table, context
        self.hessian, self.targets = family.hessian, check_targets(family.targets)
        bins = table.bins
        self._features = np.flatnonzero((bins.n_bins > 1) | bins.has_missing)  # not constant
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
        self._groups = _parse_groups(family.interaction_constraints, table.n_features)
        self._build_grower(monotone[self._features], categorical[self._features])
        self._n_rows = all_reduce_sum(lambda: table.n_used_rows, context)
        self._wide = self._n_rows * max(1, self._features.size) <= MAX_WIDE_CELLS
        # A last cut of inf sends all values left that are not missing.
        cuts = [np.append(bins.cuts[feature], np.inf) for feature in self._features]
        self._last_cut = np.array([each.size - 1 for each in cuts], np.int64)
        self._cut_start = np.cumsum([0, *(self._last_cut + 1)])
        self._cuts = np.concatenate([np.zeros(0), *cuts])
        self._round = 0
        self._row_keys: Keys | None = None

    def _build_grower(self, monotone: Signs, categorical: Flags) -> None:
        """Copy the codes in row-major order and create the tree grower."""
        self._histograms = RowHistograms(self._table, self._features, self._context)
        bins = self._histograms.start, self._histograms.n_bins
        search = SplitSearch(*bins, monotone, categorical)
        self._grower = TreeGrower(self._histograms, self._code_columns(), search, self._context)

    def begin(self, rounds: int) -> None:
        """Sample rows and features as after `rounds` rounds."""
        self._round = rounds

    def best_for(self, pull: Pull, allowed: Flags | None = None) -> SearchResult | None:
        """Grow a tree for the quadratic model of the risk."""
        self._prepare_sampling(pull)
        return super().best_for(pull, allowed)

    def fit(
        self,
        pull: Floats,
        weight: Floats,
        allowed: Flags | None = None,
        *,
        rows: float | None = None,
    ) -> SearchResult | None:
        """Grow a tree for ``pull / weight``; return None if no split has a gain.

        `rows` is the number of rows to compute the mean weight from; all rows by default.
        """
        self._prepare_sampling(None)
        quantized = None
        if self._features.size:
            quantized = self._quantize(pull, weight)
        if quantized is None:
            return None
        count = rows or self._n_rows
        mean = quantized.total_weight / count
        rules = self._make_rules(quantized, mean, count)
        family = self._family
        is_random = min(family.subsample, family.max_features, family.max_features_by_split) < 1
        grown, sample = GrownTree(), None
        for attempt in range(MAX_ATTEMPTS if is_random else 1):
            sample = self._draw_rows(attempt)
            grown = self._grower.grow(
                quantized, rules, family.num_leaves, family.max_depth, rows=sample,
                allowed=self._draw_features(attempt, allowed),
            )  # fmt: skip
            if grown.splits.size:
                break
        self._round += 1
        return self._make_result(grown, quantized, rules, mean, pull, weight, sample)

    def _quantize(self, pull: Floats, weight: Floats) -> QuantizedRows | None:
        """Quantize pulls and weights; None if all pulls or all weights are 0."""
        return quantize_rows(pull, weight, self._context, wide=self._wide)

    def _make_rules(self, quantized: QuantizedRows, mean: float, rows: float) -> Rules:
        family = self._family
        return Rules(
            pull_unit=quantized.pull_unit,
            weight_unit=quantized.weight_unit / mean,
            count_bits=quantized.count_bits,
            reg_lambda=float(family.reg_lambda),
            reg_alpha=family.reg_alpha * quantized.total / rows,
            min_gain=2 * mean * family.min_split_gain,
            min_count=family.min_child_samples,
            min_weight=float(family.min_child_weight),
            cat_smooth=float(family.cat_smooth),
        )

    def _code_columns(self) -> tuple[Bytes, Integers, int]:
        """Return a flat array of codes, the offset of each feature and the step between rows."""
        if self._table.streamed:
            codes = self._histograms.codes
            return codes.reshape(-1), np.arange(self._features.size), codes.shape[1]
        codes = self._table.codes
        return codes.reshape(-1), self._features * codes.shape[1], 1

    # -- sampling --------------------------------------------------------------------------

    def _prepare_sampling(self, pull: Pull | None) -> None:
        """Hash every row, or every query, to the key by which it is sampled."""
        if self._family.subsample == 1 or self._row_keys is not None:
            return
        keys = self._table.keys(np.zeros(self._table.n_used_rows), self._context)
        if self._family.subsample_by == "query":
            if pull is None:
                raise ValueError(
                    "subsample_by='query': a pull by itself has no queries; use "
                    "subsample_by='row', or an estimator"
                )
            keys = _query_keys(keys, pull)
        self._row_keys = keys

    def _draw_rows(self, attempt: int) -> Rows | None:
        """Sample rows by a hash of their bins, the seed and the round; None for all rows."""
        if self._row_keys is None:
            return None
        hashed = hash_keys(self._row_keys, self._family.random_state, self._round, attempt)
        uniform = hashed >> np.uint64(11)  # in 0..2^53
        return np.flatnonzero(uniform < self._family.subsample * 2.0**53).astype(np.int32)

    def _draw_features(self, attempt: int, allowed: Flags | None) -> AllowedFeatures | None:
        """Return the function that selects the features of a node; None if all are allowed."""
        family = self._family
        is_random = min(family.max_features, family.max_features_by_split) < 1
        if allowed is None and not is_random and not self._groups:
            return None
        of_tree = (
            np.ones(self._features.size, np.bool_) if allowed is None else allowed[self._features]
        )
        of_tree = self._draw_share(of_tree, family.max_features, attempt, -1)
        if of_tree.all() and family.max_features_by_split == 1 and not self._groups:
            return None

        def of_node(split: int, path: frozenset[int]) -> Flags:
            candidates = of_tree
            if self._groups:
                used = {int(self._features[feature]) for feature in path}
                compatible = frozenset().union(*(group for group in self._groups if used <= group))
                candidates = candidates & np.array([int(f) in compatible for f in self._features])
            return self._draw_share(candidates, family.max_features_by_split, attempt, split + 1)

        return of_node

    def _draw_share(self, candidates: Flags, share: float, attempt: int, split: int) -> Flags:
        """Sample a share of the candidate features, at least one."""
        if share == 1:
            return candidates
        seeds = self._family.random_state, self._round, attempt * 1_000_003 + split + 7
        keys = hash_keys(self._features.astype(np.uint64), *seeds)
        columns = np.flatnonzero(candidates)
        shuffled = columns[np.argsort(keys[columns], kind="stable")]
        drawn = np.zeros(candidates.size, np.bool_)
        drawn[shuffled[: max(1, round(share * columns.size))]] = True
        return drawn

    # -- leaves ----------------------------------------------------------------------------

    def _make_result(
        self,
        grown: GrownTree,
        quantized: QuantizedRows,
        rules: Rules,
        mean: float,
        pull: Floats,
        weight: Floats,
        sample: Rows | None,
    ) -> SearchResult | None:
        """Return the tree with its leaf values, its values on all rows and its edge."""
        if not grown.splits.size:
            return None
        pulls, weights = self._leaf_sums(grown, quantized, pull, weight)
        value = leaf_values(pulls, weights / mean, rules, grown.bounds) / mean
        values = self._row_values(grown, value, sample is not None)
        edge = math.fsum(value * pulls)  # not a BLAS product, whose rounding depends on the CPU
        if sample is not None:
            edge = exact_sum(pull * values, self._context)
        if not edge > 0:
            return None
        return SearchResult(self._make_tree(grown, value, rules, mean), edge, values=values)

    def _leaf_sums(
        self, grown: GrownTree, quantized: QuantizedRows, pull: Floats, weight: Floats
    ) -> tuple[Floats, Floats]:
        """Return exact sums of pull and weight over the training rows of each leaf."""
        bits = quantized.exact_bits
        ranges = grown.leaf_ranges
        size = int(ranges[1].max())  # the last leaf may have no row on this machine
        powers = *power_factors(bits[0]), *power_factors(bits[1])
        lists = self._grower.row_lists[0], self._grower.row_lists[1]

        def sum_chunk(low: int, high: int) -> Integers:
            chunk_sums = np.zeros((ranges[0].size, 2), np.int64)
            _sum_leaves(low, high, *ranges, *lists, pull, weight, *powers, chunk_sums)
            return chunk_sums

        small = is_small("rows", size)
        sums = all_reduce_sum(
            lambda: sum(self._context.run(sum_chunk, size, small=small)), self._context
        )
        return np.ldexp(sums[:, 0], -bits[0]), np.ldexp(sums[:, 1], -bits[1])

    def _row_values(self, grown: GrownTree, value: Floats, sampled: bool) -> Floats:
        """Return the value of every row, including those the tree was not grown on."""
        values = np.empty(self._table.n_used_rows)
        if not sampled:
            given = *grown.leaf_ranges, *self._grower.row_lists, value, values
            small = is_small("rows", values.size)
            self._context.run(_fill_leaf_values, values.size, *given, small=small)
            return values
        splits = grown.splits
        feature, child = splits["feature"].copy(), np.array([splits["left"], splits["right"]])
        self._context.run(
            _predict_codes, values.size, self._histograms.codes, feature, grown.left_codes, child,
            value, values, small=is_small("heavy rows", values.size),
        )  # fmt: skip
        return values

    def _make_tree(self, grown: GrownTree, value: Floats, rules: Rules, mean: float) -> Tree:
        splits, column = grown.splits, grown.splits["feature"]
        features, cut = self._features[column], np.minimum(splits["cut"], self._last_cut[column])
        threshold = self._cuts[self._cut_start[column] + cut]
        missing_left = splits["missing_above"] == 0
        sets: list[tuple[int, ...]] = []
        if grown.categories:
            sets = [()] * splits.size
            for number, left_codes in grown.categories.items():
                threshold[number], missing_left[number] = 0.0, left_codes[255]
                binned = self._table.bins.categories[int(features[number])]
                sets[number] = tuple(int(binned[code]) for code in np.flatnonzero(left_codes))
        counts = grown.leaves["weight"] & ((1 << rules.count_bits) - 1)
        fields = {
            "split_feature": features, "threshold": threshold, "missing_left": missing_left,
            "left": splits["left"], "right": splits["right"], "value": value, "count": counts,
            "gain": splits["gain"] / (2 * mean),
        }  # fmt: skip
        tuples = {name: tuple(array.tolist()) for name, array in fields.items()}
        return Tree.unchecked(**tuples, categories=tuple(sets) if any(sets) else ())


def _query_keys(keys: Keys, pull: Pull) -> Keys:
    """Return one key for all rows of a query; rows beyond the last query keep their keys."""
    start, end = pull.query_start[:-1], int(pull.query_start[-1])
    sizes = np.diff(pull.query_start)
    sums = np.zeros(sizes.size, np.uint64)
    if end:
        sums[sizes > 0] = np.add.reduceat(keys[:end], start[sizes > 0])
    if pull.queries_span_machines:  # every machine has some rows of each query
        sums = all_reduce_sum(lambda: sums, pull.context)
    return np.concatenate([np.repeat(sums, sizes), keys[end:]])


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _sum_leaves(
    low: int, high: int, leaves: Rows, ends: Integers, source: Integers, rows0: Rows, rows1: Rows,
    pull: Floats, weight: Floats, pull_one: float, pull_other: float, weight_one: float,
    weight_other: float, sums: Integers,
) -> None:  # fmt: skip
    """Add pull and weight of the rows at positions low..high to the sums of their leaves.

    ``leaves[k]`` has the positions from ``ends[k - 1]`` to ``ends[k]`` of the row list number
    ``source[k]`` (`rows0` or `rows1`). For the factors see `power_factors`.
    """
    start = low
    for k in range(leaves.size):
        rows = rows0 if source[k] == 0 else rows1
        sum_pull, sum_weight = np.int64(0), np.int64(0)
        end = ends[k] if ends[k] < high else high
        for i in range(np.uint64(start), np.uint64(end if end > start else start)):
            row = np.uint64(rows[i])
            sum_pull += np.int64(np.rint(pull[row] * pull_one * pull_other))
            sum_weight += np.int64(np.rint(weight[row] * weight_one * weight_other))
        sums[leaves[k], 0] += sum_pull
        sums[leaves[k], 1] += sum_weight
        start = end if end > start else start


@njit(cache=True, nogil=True)
def _fill_leaf_values(
    low: int, high: int, leaves: Rows, ends: Integers, source: Integers, rows0: Rows, rows1: Rows,
    value: Floats, values: Floats,
) -> None:  # fmt: skip
    """Write the leaf values of the rows at positions low..high; see `_sum_leaves`."""
    start = low
    for k in range(leaves.size):
        rows, leaf_value = rows0 if source[k] == 0 else rows1, value[leaves[k]]
        end = ends[k] if ends[k] < high else high
        for i in range(np.uint64(start), np.uint64(end if end > start else start)):
            values[np.uint64(rows[i])] = leaf_value
        start = end if end > start else start


@njit(cache=True, nogil=True)
def _predict_codes(
    low: int, high: int, codes: Bytes, feature: Integers, left_codes: Flags,
    child: Integers, value: Floats, values: Floats,
) -> None:  # fmt: skip
    """Write the leaf values of rows low..high, found by descending the tree."""
    for row in range(low, high):
        node = np.int64(0)
        while node >= 0:
            left = left_codes[node, codes[row, feature[node]]]
            node = child[0 if left else 1, node]
        values[row] = value[-1 - node]
