"""Regression trees as a family of weak rankers, grown best leaf first.

A round fits ``pull / weight`` by weighted least squares, which is the best step under a quadratic
model of the risk (Zheng et al. 2007, algorithm 1). `Trees` has the parameters, `TreeSearch` samples
rows and features and sets the leaf values, and `TreeGrower` chooses which node is split. How a node
is split, the gain of a split and the order in which ties are broken are described in
`precede.engine.tree_histograms`.

Growth is best-first, so that the leaves to split are known only one after another, but the split
of a leaf does not depend on the other leaves. On a GPU, nodes that are likely to be split are
therefore split ahead, in one batch. On several machines each has the lists of its own rows; the
machines' histograms of the smaller child are combined on one machine, which keeps the histograms
of all leaves and returns the best splits.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from precede.engine.arrays import (
    BackendArray,
    Flags,
    Floats,
    Integers,
    Keys,
    Records,
    Signs,
)
from precede.engine.exact import all_reduce_sum, exact_sum, hash_keys, hash_seeds, sum_parts
from precede.engine.execution import Context
from precede.engine.parameters import check_integer, check_range
from precede.engine.pull import HESSIANS, Pull
from precede.engine.quantization import QuantizedRows, plan_quantization
from precede.engine.table import Table
from precede.engine.tree_histograms import LEAF, SPLIT, penalized_value, penalized_values
from precede.engine.tree_rows import (
    LEFT_CODES,
    CpuRows,
    Node,
    Rules,
    Split,
    SplitSearch,
    TreeRows,
    find_splits,
)
from precede.judgments import column_numbers, columns_in_order
from precede.weak_rankers.base import Family, MonotoneConstraints, SearchResult, monotone_signs
from precede.weak_rankers.regressors import RegressionSearch, check_targets
from precede.weak_rankers.trees import Tree

# In a round, rows and features are sampled up to this many times until they allow a split.
MAX_ATTEMPTS = 8
# Tables with at most this many cells are summed in wide integers: two additions per cell, but
# no packed sums to flush.
MAX_WIDE_CELLS = 1 << 19
# Gradient-based one-side sampling is not offered: it saves no more time than uniform sampling of as
# many rows, and did not rank held-out data better.
SUBSAMPLE_UNITS = ("row", "query")
# Fewest nodes that are split ahead in a batch, unless only one split is left.
MIN_BATCH = 8


@dataclass(kw_only=True, eq=False, repr=False)
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

    hessian: str = "newton"
    targets: str = "sum"
    num_leaves: int = 31
    max_depth: int = -1
    min_child_samples: int = 20
    min_child_weight: float = 1e-3
    reg_lambda: float = 0.0
    reg_alpha: float = 0.0
    min_split_gain: float = 0.0
    subsample: float = 1.0
    subsample_by: str = "row"
    max_features: float = 1.0
    max_features_by_split: float = 1.0
    categorical_features: Sequence[int] | None = None
    cat_smooth: float = 10.0
    monotone_constraints: MonotoneConstraints = None
    interaction_constraints: Sequence[Sequence[int]] | None = None
    random_state: int = 0

    def start(self, table: Table, context: Context | None = None) -> TreeSearch:
        """Return a search of `table` that is reused in every round."""
        check_tree_parameters(self, self.num_leaves)
        return TreeSearch(self, table, context or Context(1))

    def __or__(self, other: Family) -> NoReturn:
        raise ValueError(
            "trees cannot be joined with other families: their values, and so their edges, have "
            "no common scale"
        )

    def __repr__(self) -> str:
        defaults = {each.name: each.default for each in fields(self)}
        given = {name: repr(value) for name, value in self.__dict__.items()}
        changed = [f"{k}={v}" for k, v in given.items() if v != repr(defaults.get(k))]
        return f"Trees({', '.join(changed)})"


# Parameters of estimators that grow trees: all but the seed, which they draw themselves.
TREE_PARAMETERS = tuple(each.name for each in fields(Trees) if each.name != "random_state")


def check_tree_parameters(given: Any, leaves: object) -> None:
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


def _parse_groups(given: object, n_features: int) -> list[frozenset[int]]:
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
    """Search that grows a tree for each pull, on the rows of one table.

    If the pulls are on the CPU, the values of the tree are returned on the CPU.
    """

    def __init__(self, family: Trees, table: Table, context: Context):
        self._family, self._table, self._context = family, table, context
        self.backend = context.backend
        self.hessian, self.targets = family.hessian, check_targets(family.targets)
        bins = table.bins
        self._features = np.flatnonzero((bins.n_bins > 1) | bins.has_missing)  # not constant
        monotone, categorical = self._constraints()
        self._groups = _parse_groups(family.interaction_constraints, table.n_features)
        rows = tree_rows(table, self._features, monotone, categorical, context)
        if not context.is_distributed:
            rows.check_room(self._max_leaves())
        self._tree_rows, self._grower = rows, TreeGrower(rows, context)
        self._n_rows = all_reduce_sum(lambda: table.n_used_rows, context)
        self._wide = self._n_rows * max(1, self._features.size) <= MAX_WIDE_CELLS
        # A last cut of inf sends all values left that are not missing.
        cuts = [np.append(bins.cuts[feature], np.inf) for feature in self._features]
        self._last_cut = np.array([each.size - 1 for each in cuts], np.int64)
        self._cut_start = np.cumsum([0, *(self._last_cut + 1)])
        self._cuts = np.concatenate([np.zeros(0), *cuts])
        self._round = 0
        self._row_keys: BackendArray | None = None

    def _constraints(self) -> tuple[Signs, Flags]:
        """Return the monotone constraint of each feature, and whether it is categorical."""
        family, table = self._family, self._table
        categorical = np.zeros(table.n_features, np.bool_)
        categorical[[*table.bins.categories]] = True
        for column in column_numbers(family.categorical_features, None, table.n_features):
            if not categorical[column]:
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
        return monotone[self._features], categorical[self._features]

    def _max_leaves(self) -> int:
        """Return an upper bound on the leaves of a tree."""
        family, rows = self._family, self._table.n_used_rows
        by_depth = 2**family.max_depth if 0 < family.max_depth < 32 else family.num_leaves
        by_rows = rows // max(family.min_child_samples, 1)
        return max(1, min(family.num_leaves, by_depth, by_rows))

    def begin(self, rounds: int) -> None:
        """Sample rows and features as after `rounds` rounds."""
        self._round = rounds

    def best_for(self, pull: Pull, allowed: Flags | None = None) -> SearchResult | None:
        """Grow a tree for the quadratic model of the risk."""
        self._prepare_sampling(pull)
        return super().best_for(pull, allowed)

    def fit(
        self,
        pull: BackendArray,
        weight: BackendArray,
        allowed: Flags | None = None,
        *,
        rows: float | None = None,
    ) -> SearchResult | None:
        """Grow a tree for ``pull / weight``; return None if no split has a gain.

        `rows` is the number of rows to compute the mean weight from; all rows by default.
        """
        self._prepare_sampling(None)
        if not self._features.size:
            return None
        context, backend = self._context, self._tree_rows.backend
        on_cpu = not self.backend.holds(pull)
        pull, weight = self.backend.put(pull), self.backend.put(weight)
        quantization = plan_quantization(pull, weight, context, wide=self._wide)
        if quantization is None:
            return None
        there = backend.put(pull), backend.put(weight)
        quantized = quantization.apply(*there, backend, context)
        rules, mean = self._make_rules(quantized, rows or self._n_rows)
        grown, sampled = self._grow(quantized, rules, allowed)
        self._round += 1
        if not grown.splits.size:
            return None
        bits = quantized.exact_bits
        sums = all_reduce_sum(
            lambda: self._tree_rows.leaf_sums(grown.leaves, *there, bits), context
        )
        pulls, weights = np.ldexp(sums[:, 0], -bits[0]), np.ldexp(sums[:, 1], -bits[1])
        value = leaf_values(pulls, weights / mean, rules, grown.bounds) / mean
        values = self._values(grown, value, sampled)
        edge = math.fsum(value * pulls)  # not a BLAS product, whose rounding depends on the CPU
        if sampled:
            edge = exact_sum(pull * values, context)
        if not edge > 0:
            return None
        values = self.backend.get(values) if on_cpu else values
        return SearchResult(self._make_tree(grown, value, rules, mean), edge, values=values)

    def _make_rules(self, quantized: QuantizedRows, rows: float) -> tuple[Rules, float]:
        """Return the rules of splits, and the mean weight of a row."""
        family, mean = self._family, quantized.total_weight / rows
        rules = Rules(
            pull_unit=quantized.pull_unit,
            weight_unit=quantized.weight_unit / mean,
            count_bits=quantized.count_bits,
            reg_lambda=float(family.reg_lambda),
            reg_alpha=family.reg_alpha * quantized.total / rows,
            cat_smooth=float(family.cat_smooth),
            min_count=max(family.min_child_samples, 1),
            min_weight=float(family.min_child_weight),
            min_gain=2 * mean * family.min_split_gain,
        )
        return rules, mean

    def _grow(
        self, quantized: QuantizedRows, rules: Rules, allowed: Flags | None
    ) -> tuple[GrownTree, bool]:
        """Grow a tree on a sample; return it, and whether some rows are not in the sample."""
        family = self._family
        is_random = min(family.subsample, family.max_features, family.max_features_by_split) < 1
        for attempt in range(MAX_ATTEMPTS if is_random else 1):
            sample = self._draw_rows(attempt)
            grown = self._grower.grow(
                quantized, rules, family.num_leaves, family.max_depth, rows=sample,
                allowed=self._draw_features(attempt, allowed),
            )  # fmt: skip
            if grown.splits.size:
                break
        return grown, sample is not None

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
        self._row_keys = self._tree_rows.backend.put(keys)

    def _draw_rows(self, attempt: int) -> BackendArray | None:
        """Sample rows by a hash of their bins, the seed and the round; None for all rows."""
        if self._row_keys is None:
            return None
        seeds = hash_seeds(self._family.random_state, self._round, attempt)
        threshold = self._family.subsample * 2.0**53
        return self._tree_rows.backend.draw(self._row_keys, seeds, threshold)

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

    # -- the tree --------------------------------------------------------------------------

    def _values(self, grown: GrownTree, value: Floats, sampled: bool) -> BackendArray:
        """Return the value of every row, including those the tree was not grown on."""
        rows = self._tree_rows
        if sampled:
            values = rows.predict(grown.splits, grown.left_codes, value)
        else:
            values = rows.leaf_values(grown.leaves, value)
        return values if self.backend.is_gpu else rows.backend.get(values)

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


# -- Growth of one tree, best leaf first ---------------------------------------------------------

# Function (number of the parent's split or -1, features of the splits above) -> mask of the
# features that a node may be split on.
AllowedFeatures = Callable[[int, frozenset[int]], Flags | None]


def tree_rows(
    table: Table, features: Integers, monotone: Signs, categorical: Flags, context: Context
) -> TreeRows:
    """Return the rows of a table, to grow trees on some features where the context says."""
    if context.tree_backend.is_gpu:
        from precede.engine.cuda import GpuRows  # noqa: PLC0415  (only on a GPU)

        return GpuRows(table, features, monotone, categorical, context)
    return CpuRows(table, features, monotone, categorical, context)


def leaf_values(pulls: Floats, weights: Floats, rules: Rules, bounds: Floats) -> Floats:
    """Return the values of many leaves (see `leaf_value`); `bounds` has shape (leaves, 2).

    >>> rules = Rules(1.0, 1.0, 8, 1.0, 0.5, 10.0, 1, 0.0, 0.0)
    >>> leaf_values(np.array([2.5]), np.array([3.0]), rules, np.array([[-0.25, 0.25]]))
    array([0.25])
    """
    return penalized_values(pulls, weights + rules.reg_lambda, rules.reg_alpha, bounds)


def leaf_value(pull: float, weight: float, rules: Rules, bounds: tuple[float, float]) -> float:
    """Return the penalized value of a leaf; `weight` is in units of the mean weight of a row.

    >>> rules = Rules(1.0, 1.0, 8, 1.0, 0.5, 10.0, 1, 0.0, 0.0)
    >>> leaf_value(2.5, 3.0, rules, (-0.25, 0.25))
    0.25
    """
    return float(penalized_value(pull, weight + rules.reg_lambda, rules.reg_alpha, *bounds))


@dataclass(frozen=True)
class GrownTree:
    """The structure of a tree, without leaf values.

    Attributes
    ----------
    splits : array of `precede.engine.tree_histograms.SPLIT`, in the order in which they were
        made; children are numbered as in `precede.weak_rankers.trees.Tree`
    leaves : array of `precede.engine.tree_histograms.LEAF`
    bounds : lower and upper bound of each leaf's value
    categories : for each categorical split, by its number, whether each of the 256 codes goes left
    """

    splits: Records
    leaves: Records
    bounds: Floats
    categories: dict[int, Flags] = field(default_factory=dict)

    @cached_property
    def left_codes(self) -> Flags:
        """Whether each of the 256 codes goes left, for each split; 255 is for missing values."""
        left_codes: Flags = LEFT_CODES[self.splits["missing_above"], self.splits["cut"]]
        for number, codes in self.categories.items():
            left_codes[number] = codes
        return left_codes


class PartialTree:
    """A tree during growth; children are numbered as in `GrownTree`."""

    def __init__(self, root: Node):
        self.leaves, self.splits = [root], list[Split]()
        self._left, self._right = list[int](), list[int]()
        # The split above each leaf, and whether the leaf is its right child.
        self._parents = [(-1, False)]

    def replace_leaf(self, number: int) -> None:
        """Replace a leaf by its split; the left child takes its number, the right a new one."""
        split, children = self.leaves[number].chosen
        new_split, new_leaf = len(self.splits), len(self.leaves)
        self.splits.append(split)
        self._left.append(-1 - number)
        self._right.append(-1 - new_leaf)
        above, is_right = self._parents[number]
        if above >= 0:
            (self._right if is_right else self._left)[above] = new_split
        self.leaves[number] = children[0]
        self.leaves.append(children[1])
        self._parents[number] = new_split, False
        self._parents.append((new_split, True))

    def to_grown_tree(self) -> GrownTree:
        """Convert to arrays."""
        splits, leaves = np.zeros(len(self.splits), SPLIT), np.zeros(len(self.leaves), LEAF)
        for name in ("feature", "cut", "missing_above", "gain"):
            splits[name] = [getattr(split, name) for split in self.splits]
        splits["left"], splits["right"] = self._left, self._right
        for name in ("source", "low", "high", "depth"):
            leaves[name] = [getattr(leaf, name) for leaf in self.leaves]
        leaves["pull"], leaves["weight"] = np.array([leaf.sums for leaf in self.leaves]).T
        bounds = np.array([leaf.bounds for leaf in self.leaves])
        codes = {k: split.categories for k, split in enumerate(self.splits)}
        categories = {k: left for k, left in codes.items() if left is not None}
        return GrownTree(splits, leaves, bounds, categories)


class TreeGrower:
    """Best-first growth of trees on the rows of one table.

    Parameters
    ----------
    rows : TreeRows
        What partitions the rows of nodes and searches them.
    context : Context
        Threads and machines.
    """

    def __init__(self, rows: TreeRows, context: Context):
        self._tree_rows, self._context = rows, context

    def grow(
        self,
        quantized: QuantizedRows,
        rules: Rules,
        num_leaves: int,
        max_depth: int,
        *,
        rows: BackendArray | None = None,
        allowed: AllowedFeatures | None = None,
    ) -> GrownTree:
        """Split the leaf with the largest gain until `num_leaves` is reached or no split is left.

        `rows` are the numbers of the rows to grow on, all by default; `allowed` returns the
        features that a node may be split on. O(rows · features · depth) at most, half of it for
        balanced splits.
        """
        self._rules, self._max_depth, self._allowed = rules, max_depth, allowed
        self._next_key = 1
        self._ahead = dict[int, Node]()  # nodes split ahead of their turn, by their keys
        self._free_slots, self._n_slots = list[int](), 0
        size = self._tree_rows.begin_tree(quantized, rules, rows, num_leaves)
        root = self._make_root(size)
        if allowed is None and not self._context.is_distributed:
            grown = self._tree_rows.grow(root, num_leaves, max_depth)
            if grown is not None:
                leaves, splits = grown
                return GrownTree(splits, leaves, np.full((leaves.size, 2), root.bounds))
        return self._grow_best_first(root, num_leaves)

    def _grow_best_first(self, root: Node, num_leaves: int) -> GrownTree:
        tree = PartialTree(root)
        heap = list[tuple[float, int]]()  # gain of the split, negated, and number of each leaf
        _push(root, 0, heap)
        while heap and len(tree.leaves) < num_leaves:
            leaf = tree.leaves[heap[0][1]]
            if leaf.children is None:
                self._split([leaf, *self._likely_next(tree, heap, num_leaves)], tree, num_leaves)
            _, number = heapq.heappop(heap)
            self._ahead.pop(leaf.key, None)
            tree.replace_leaf(number)
            _push(tree.leaves[number], number, heap)
            _push(tree.leaves[-1], len(tree.leaves) - 1, heap)
        return tree.to_grown_tree()

    def _make_root(self, size: int) -> Node:
        rows, features = self._tree_rows, None
        if self._allowed is not None:
            features = self._allowed(-1, frozenset())
        root = Node(0, size, 0, features=features)
        if self._context.is_distributed:
            combine = _CombineRoot(rows.search, self._rules, root)
            root.sums, root.split = self._context.reduce_on_root(
                lambda: rows.histogram(root), combine
            )
            return root
        root.slot = self._take_slot()
        root.sums = rows.total(root)
        root.search = self._may_split(root)
        if root.search:
            rows.search_root(root)
        return root

    def _likely_next(
        self, tree: PartialTree, heap: list[tuple[float, int]], num_leaves: int
    ) -> list[Node]:
        """Return nodes that are likely to be split after the leaf on top of the heap.

        These have the largest gains among the other leaves and the children of nodes that are
        split ahead.
        """
        rows, left = self._tree_rows, num_leaves - len(tree.leaves)
        if rows.max_batch == 1 or left == 1 or self._context.is_distributed:
            return []
        if self._allowed is not None:  # its features depend on the number of the split
            return []
        nodes = [tree.leaves[number] for _, number in heap[1:]]
        for node in self._ahead.values():
            nodes += [
                child for child in node.chosen[1]
                if child.split is not None and child.depth + 3 < rows.n_lists
            ]  # fmt: skip
        count = min(max(left - len(self._ahead), MIN_BATCH), rows.max_batch) - 1
        likely = [node for node in nodes if node.children is None]
        chosen = heapq.nsmallest(count, likely, key=_negative_gain)
        room = self._n_slots + len(chosen) + 1 - len(self._free_slots)
        return chosen if rows.has_room(room) else []

    def _split(self, nodes: list[Node], tree: PartialTree, num_leaves: int) -> None:
        """Split nodes; search the children too if further splits may follow."""
        more_splits = len(tree.leaves) + 1 < num_leaves
        for node in nodes:
            node.children = self._make_children(node, len(tree.splits))
            for child in node.children:
                child.search = more_splits and self._may_split(child)
        if self._context.is_distributed:
            self._split_on_machines(nodes[0])
            return
        for node in nodes:
            smaller, larger = self._rules.smaller_first(node.chosen[1])
            smaller.slot, larger.slot = self._take_slot(), node.slot
            self._ahead[node.key] = node
        self._tree_rows.split_nodes(nodes)
        for node in nodes:
            self._free_slots += [child.slot for child in node.chosen[1] if child.split is None]

    def _split_on_machines(self, node: Node) -> None:
        """Split a node, each machine its own rows."""
        left, right = node.chosen[1]
        left.high = right.low = self._tree_rows.partition(node)
        leaves = self._rules.smaller_first((left, right))
        if leaves[0].search or leaves[1].search:
            combine = _CombineChildren(self._tree_rows.search, self._rules, node.key, leaves)
            leaves[0].split, leaves[1].split = self._context.reduce_on_root(
                lambda: self._tree_rows.histogram(leaves[0]), combine
            )

    def _make_children(self, node: Node, number: int) -> tuple[Node, Node]:
        """Create the children of a node, which is split `number`.

        If distributed, the boundary between their rows is not known before the partition.
        """
        split, path, features = node.split, node.path, None
        assert split is not None
        if self._allowed is not None:
            path = path | {split.feature}
            features = self._allowed(number, path)
        bounds, depth = self._child_bounds(node, split), node.depth + 1
        lists = self._tree_rows.n_lists
        # The ranges of all nodes above stay valid, except in the last two lists.
        source = depth if depth < lists - 2 else lists - 2 + depth % 2
        middle = node.low + self._rules.count(split.left_sums)
        key, self._next_key = self._next_key, self._next_key + 2
        left, right = split.left_sums, split.right_sums
        return (
            Node(node.low, middle, source, left, depth, bounds[0], features, path, key),
            Node(middle, node.high, source, right, depth, bounds[1], features, path, key + 1),
        )

    def _child_bounds(
        self, node: Node, split: Split
    ) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return the bounds of the leaf values below each child.

        A split on a monotone feature bounds the leaves of both sides by the midpoint of its
        children's values, so that later splits below cannot violate the constraint.
        """
        sign, rules = self._tree_rows.search.monotone_sign(split), self._rules
        if sign == 0:
            return node.bounds, node.bounds
        midpoint, (lower, upper) = 0.0, node.bounds
        for pull, weight_count in (split.left_sums, split.right_sums):
            weight = (weight_count >> rules.count_bits) * rules.weight_unit
            midpoint += leaf_value(pull * rules.pull_unit, weight, rules, node.bounds)
        midpoint *= 0.5
        if sign > 0:
            return (lower, midpoint), (midpoint, upper)
        return (midpoint, upper), (lower, midpoint)

    def _may_split(self, node: Node) -> bool:
        deep = self._max_depth > 0 and node.depth >= self._max_depth
        return not deep and self._rules.may_split(node.sums)

    def _take_slot(self) -> int:
        """Take a free slot of the pool of histograms."""
        if self._free_slots:
            return self._free_slots.pop()
        self._n_slots += 1
        return self._n_slots - 1


def _negative_gain(node: Node) -> float:
    assert node.split is not None
    return -node.split.gain


def _push(node: Node, number: int, heap: list[tuple[float, int]]) -> None:
    if node.split is not None:
        heapq.heappush(heap, (-node.split.gain, number))


# -- histograms of several machines, on the root ------------------------------------------------


@dataclass(frozen=True)
class _CombineRoot:
    """Sum the machines' histograms of the root node; return its sums and its best split."""

    search: SplitSearch
    rules: Rules
    root: Node

    def __call__(
        self, histograms: Sequence[Integers], leaf_histograms: dict[int, Integers]
    ) -> tuple[tuple[int, int], Split | None]:
        histogram = sum_parts(histograms)
        # The bins of one feature hold all rows.
        pull, weight_count = histogram[: self.search.start[1]].sum(axis=0)
        sums = int(pull), int(weight_count)
        leaf_histograms.clear()
        if not self.rules.may_split(sums):
            return sums, None
        leaf_histograms[self.root.key] = histogram
        root = replace(self.root, sums=sums, search=True)
        self.search.find(histogram, root, self.rules)
        return sums, root.split


@dataclass(frozen=True)
class _CombineChildren:
    """Sum the machines' histograms of the smaller child; return the best splits of both children.

    The histograms of leaves that have a split are kept under the keys of the leaves.
    """

    search: SplitSearch
    rules: Rules
    parent: int
    leaves: tuple[Node, Node]  # the smaller first

    def __call__(
        self, histograms: Sequence[Integers], leaf_histograms: dict[int, Integers]
    ) -> list[Split | None]:
        smaller, larger = sum_parts(histograms), leaf_histograms.pop(self.parent)
        larger -= smaller
        leaves = [replace(leaf) for leaf in self.leaves]
        find_splits(0, 2, self.search, self.rules, leaves, (smaller, larger))
        for leaf, histogram in zip(leaves, (smaller, larger), strict=True):
            if leaf.split is not None:
                leaf_histograms[leaf.key] = histogram
        return [leaf.split for leaf in leaves]


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
