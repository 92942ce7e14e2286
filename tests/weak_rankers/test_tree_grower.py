"""Splits and growth of trees, compared with a naive grower that sums all rows for each split."""

from dataclasses import dataclass, field, replace
from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import naive_trees
from naive_trees import quantize
from precede.engine import tree_histograms
from precede.engine import tree_rows as module
from precede.engine.execution import Context
from precede.engine.table import Table
from precede.engine.tree_rows import CpuRows, Rules
from precede.weak_rankers.tree_grower import TreeGrower, Trees, leaf_value

RULES = {
    "reg_lambda": 0.0, "reg_alpha": 0.0, "min_gain": 0.0, "min_count": 1, "min_weight": 0.0,
    "cat_smooth": 0.0,
}  # fmt: skip


@dataclass
class Problem:
    """Rows to grow a tree on, with rules and constraints."""

    X: np.ndarray
    pull: np.ndarray
    weight: np.ndarray
    rules: dict = field(default_factory=dict)
    monotone: list | None = None
    categorical: frozenset = frozenset()
    groups: list | None = None
    num_leaves: int = 31
    max_depth: int = -1
    rows: np.ndarray | None = None

    def table(self):
        return Table.build(self.X, categorical=sorted(self.categorical))


def rules_of(problem, numbers):
    given = {**RULES, **problem.rules}
    given["min_count"] = max(given["min_count"], 1)
    return Rules(numbers.pull_unit, numbers.weight_unit, numbers.count_bits, **given)


def grow(problem, *, wide, context=None):
    """Return the tree of the library and its `CpuRows`, whose lists hold the rows of the leaves."""
    context = context or Context(1)
    numbers = quantize(problem.pull, problem.weight, context, wide=wide)
    table = problem.table()
    features = np.arange(table.n_features)
    monotone = np.array(problem.monotone or [0] * features.size, np.int8)
    categorical = np.isin(features, [*problem.categorical])
    tree_rows = CpuRows(table, features, monotone, categorical, context)

    def allowed(split, path):
        free = set().union(*(group for group in problem.groups if path <= group))
        return np.isin(features, [*free])

    grown = TreeGrower(tree_rows, context).grow(
        numbers, rules_of(problem, numbers), problem.num_leaves, problem.max_depth,
        rows=None if problem.rows is None else problem.rows.astype(np.int32),
        allowed=None if problem.groups is None else allowed,
    )  # fmt: skip
    return grown, tree_rows


def integers(problem, *, wide):
    """Return quantized pulls and weights as Python integers, and the rules in their units."""
    numbers = quantize(problem.pull, problem.weight, Context(1), wide=wide)
    if numbers.packed is None:
        pulls = numbers.pull.tolist()
        weights = [each >> numbers.count_bits for each in numbers.weight_count.tolist()]
    else:
        pulls = [each >> 38 for each in numbers.packed.tolist()]
        weights = [(each >> 12) % 2**26 for each in numbers.packed.tolist()]
    return pulls, weights, rules_of(problem, numbers)


def grow_slowly(problem, *, wide):
    pulls, weights, rules = integers(problem, wide=wide)
    twin = naive_trees.Grower(
        problem.table().codes.T.tolist(), pulls, weights, rules, monotone=problem.monotone,
        categorical=problem.categorical, groups=problem.groups,
    )  # fmt: skip
    return twin.grow(problem.num_leaves, problem.max_depth, problem.rows)


def assert_same_tree(problem, *, wide, context=None):
    fast, tree_rows = grow(problem, wide=wide, context=context)
    slow = grow_slowly(problem, wide=wide)
    splits = fast.splits
    assert splits["feature"].tolist() == [split.feature for split in slow.splits]
    assert splits["gain"].tolist() == [split.gain for split in slow.splits]
    assert (splits["left"].tolist(), splits["right"].tolist()) == (slow.left, slow.right)
    for split, side, twin in zip(splits, fast.left_codes, slow.splits, strict=True):
        assert twin.feature in problem.categorical or split["cut"] == twin.cut
        # Codes without a bin may go to either side.
        bins = [*range(tree_rows.search.n_bins[split["feature"]]), 255]
        expected = [code in twin.left_codes for code in bins]
        assert side[bins].tolist() == expected
    mask = (1 << integers(problem, wide=wide)[2].count_bits) - 1
    for leaf, bounds, twin in zip(fast.leaves, fast.bounds, slow.leaves, strict=True):
        rows = tree_rows.lists[leaf["source"]][leaf["low"] : leaf["high"]].tolist()
        assert rows == twin.rows  # in the same order
        assert leaf["weight"] & mask == len(twin.rows)
        assert (leaf["depth"], *bounds) == (twin.depth, twin.lower, twin.upper)
    return slow


@pytest.fixture(autouse=True)
def _blocks_of_packed_numbers(monkeypatch):
    """Use packed blocks for any number of rows; `test_nodes.py` tests sums of few rows."""
    monkeypatch.setattr(tree_histograms, "MIN_BLOCK_ROWS", 0)


# -- strategies ------------------------------------------------------------------------------

GRADED = st.integers(-3, 3).map(float)
HEAVY = st.builds(lambda x, k: x * 10.0**k, st.floats(-1, 1), st.integers(-8, 8))
ANY = st.floats(-1, 1, allow_subnormal=False)


@st.composite
def problems(draw, most_rows=12):
    n, d = draw(st.integers(1, most_rows)), draw(st.integers(1, 3))
    values = st.sampled_from([None, 0, 0, 1, 2, 3]) if draw(st.booleans()) else st.integers(0, 3)
    columns = [draw(st.lists(values, min_size=n, max_size=n)) for _ in range(d)]
    numbers = draw(st.sampled_from([GRADED, ANY, HEAVY]))
    pull = np.array(draw(st.lists(numbers, min_size=n, max_size=n)))
    weights = st.sampled_from([st.just(1.0), st.integers(0, 3).map(float), st.floats(0, 2)])
    weight = np.array(draw(st.lists(draw(weights), min_size=n, max_size=n)))
    if not (pull.any() and weight.any()):
        pull[0] = weight[0] = 1.0
    categorical = draw(st.frozensets(st.integers(0, d - 1)))
    signs = [0 if j in categorical else draw(st.integers(-1, 1)) for j in range(d)]
    groups = st.lists(st.frozensets(st.integers(0, d - 1), min_size=1), min_size=1, max_size=3)
    rules = {
        "reg_lambda": draw(st.sampled_from([0.0, 0.0, 1.5])),
        "reg_alpha": draw(st.sampled_from([0.0, 0.0, 0.3])),
        "min_gain": draw(st.sampled_from([0.0, 0.0, 0.5])),
        "min_count": draw(st.sampled_from([0, 1, 1, 2])),
        "min_weight": draw(st.sampled_from([0.0, 1e-3, 1.5])),
        "cat_smooth": draw(st.sampled_from([0.0, 1.0, 10.0])),
    }
    drawn = draw(st.none() | st.lists(st.booleans(), min_size=n, max_size=n))
    return Problem(
        np.array(columns, float).T, pull, weight, rules,
        monotone=draw(st.none() | st.just(signs)), categorical=categorical,
        groups=draw(st.none() | groups), num_leaves=draw(st.sampled_from([2, 3, 5, 31])),
        max_depth=draw(st.sampled_from([-1, -1, 1, 2, 3])),
        rows=None if drawn is None else np.flatnonzero(drawn),
    )  # fmt: skip


# -- tests -----------------------------------------------------------------------------------


@settings(max_examples=150)
@given(problems(), st.booleans())
def test_trees_equal_those_of_the_naive_grower(problem, wide):
    assert_same_tree(problem, wide=wide)


def large(seed, n=300, **options):
    """Return a problem with many leaves, ties, missing values and categories."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 9, (n, 6)).astype(float)
    X[rng.random(X.shape) < 0.15] = np.nan
    X[:, 5] = rng.permutation(n) // 2
    pull = np.where(np.isnan(X[:, 0]), 1.0, X[:, 0] - 4) * (X[:, 1] > 3) + rng.normal(0, 1, n)
    return Problem(X, pull, rng.random(n) + 0.5, categorical=frozenset({4}), **options)


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"monotone": [1, -1, 1, 0, 0, -1]},
        {"groups": [frozenset({0, 1}), frozenset({2, 3, 4}), frozenset({1, 5})]},
        {"rules": {"reg_alpha": 0.5, "min_count": 5, "reg_lambda": 2.0}},
        {"max_depth": 3},
    ],
    ids=["plain", "monotone", "groups", "penalties", "depth"],
)
def test_large_trees_equal_those_of_the_naive_grower(options, wide):
    problem = large(0, num_leaves=25, **options)
    slow = assert_same_tree(problem, wide=wide)
    assert len(slow.leaves) > 7


@pytest.mark.parametrize("jobs", [2, 4])
@pytest.mark.parametrize("wide", [True, False])
def test_threads_grow_the_tree_of_the_naive_grower(jobs, wide, tiny_thresholds, monkeypatch):
    monkeypatch.setattr(module, "MIN_CELLS_PARALLEL", 0)
    with Context(jobs) as context:
        for seed, leaves in ((1, 12), (2, 31), (3, 2)):
            problem = large(seed, n=150, num_leaves=leaves)
            assert_same_tree(problem, wide=wide, context=context)
            ordinary = replace(problem, categorical=frozenset())
            assert_same_tree(ordinary, wide=wide, context=context)


def test_a_tree_of_many_rows_is_the_same_on_several_threads():
    """Nodes large enough to be counted, partitioned and summed in chunks."""
    rng = np.random.default_rng(0)
    table = Table.build(rng.normal(size=(50_000, 12)).round(2))
    pull = np.sin(table.X[:, 0] * table.X[:, 1]) + rng.normal(size=50_000)
    trees = Trees(num_leaves=40)
    one, *others = (trees.start(table, Context(jobs)).best(pull) for jobs in (1, 2, 4))
    for other in others:
        assert other.weak_ranker == one.weak_ranker
        assert_array_equal(other.values, one.values)


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("options", [{}, {"max_depth": 3}, {"rules": {"min_count": 9}}])
def test_a_tree_grown_in_one_kernel_equals_one_grown_leaf_by_leaf(wide, options, monkeypatch):
    problems = [
        replace(large(seed, num_leaves=leaves, **options), categorical=frozenset())
        for seed, leaves in ((1, 40), (2, 7))
    ]
    in_kernel = [grow(problem, wide=wide)[0] for problem in problems]
    calls = []
    monkeypatch.setattr(CpuRows, "grow", lambda *given: calls.append(given))
    for problem, one in zip(problems, in_kernel, strict=True):
        other, _ = grow(problem, wide=wide)
        for name in ("feature", "cut", "missing_above", "gain", "left", "right"):
            assert one.splits[name].tolist() == other.splits[name].tolist()
        for name in ("low", "high", "source", "pull", "weight", "depth"):
            assert one.leaves[name].tolist() == other.leaves[name].tolist()
        assert np.array_equal(one.left_codes, other.left_codes)
        assert np.array_equal(one.bounds, other.bounds)
    assert len(calls) == len(problems)


@pytest.mark.parametrize("rows", [None, np.arange(4400)])
def test_blocks_of_packed_numbers_end_before_they_overflow(rows):
    """All rows are in one bin and pull in one direction; the first ones alone fill a word."""
    rng = np.random.default_rng(0)
    pull, weight = rng.random(9000) + 0.5, np.ones(9000)
    pull[:600] = 500.0
    weight[600:800] = 1000.0
    packed = quantize(pull, weight, Context(1)).packed
    assert packed is not None
    assert (packed[:600] >> 38).sum() > 2**25
    assert ((packed[600:800] >> 12) % 2**26).sum() > 2**26
    X = np.zeros((9000, 3))
    X[:, 1] = rng.integers(0, 3, 9000)
    X[:, 2] = np.arange(9000) // 1000
    assert_same_tree(Problem(X, pull, weight, num_leaves=3, rows=rows), wide=False)


def test_pulls_with_a_heavy_tail_are_wide():
    rng = np.random.default_rng(0)
    pull = rng.standard_cauchy(2000) ** 3
    pull[7] = 100 * np.abs(pull).sum()
    assert quantize(pull, np.ones(2000), Context(1)).packed is None
    X = rng.integers(0, 5, (2000, 2)).astype(float)
    assert_same_tree(Problem(X, pull, np.ones(2000), num_leaves=4), wide=False)


def test_the_first_of_equal_gains_is_chosen():
    """The order is by feature, threshold, missing values left before right, and leaf number."""
    X = np.array([[0, 0], [1, 1], [2, 2], [np.nan, np.nan]])
    problem = Problem(X, np.array([1.0, -1.0, -1.0, 1.0]), np.ones(4))
    split = assert_same_tree(problem, wide=True).splits[0]
    assert (split.feature, split.cut, sorted(split.left_codes)) == (0, 0, [0, 255])
    left_codes = Problem(np.array([[0], [1], [np.nan]]), np.array([1.0, -1.0, 0.0]), np.ones(3))
    for wide in (True, False):  # the missing row has no pull, so both sides are equal
        split = assert_same_tree(left_codes, wide=wide).splits[0]
        assert (split.cut, sorted(split.left_codes)) == (0, [0, 255])
    categories = Problem(
        np.array([[1], [1], [0], [0], [2]], float), np.array([-1.0, -1.0, -1.0, -1.0, 1.0]),
        np.ones(5), {"min_count": 2}, categorical=frozenset({0}), num_leaves=2,
    )  # fmt: skip
    split = assert_same_tree(categories, wide=True).splits[0]
    assert split.left_codes == {0}  # categories with the same mean are in increasing order
    halves = Problem(
        np.array([[0, 0, 1, 1], [0, 1, 0, 1]], float).T, np.array([4.0, 2.0, -2.0, -4.0]),
        np.ones(4), num_leaves=3,
    )  # fmt: skip
    slow = assert_same_tree(halves, wide=True)
    assert slow.left == [1, -1]  # leaf 0 is split, not leaf 1


@pytest.mark.parametrize(
    ("values", "left"), [([0, 1, 1, 1], False), ([0, 0, 0, 1], True), ([0, 0, 1, 1], True)]
)
def test_missing_values_that_do_not_occur_follow_the_larger_child(values, left):
    pull = np.where(np.array(values) == 1, 1.0, -2.0)
    X = np.array(values, float)[:, None]
    grown, _ = grow(Problem(X, pull, np.ones(4), num_leaves=2), wide=True)
    assert bool(grown.left_codes[0][255]) is left


@pytest.mark.parametrize(
    ("X", "pull"),
    [
        (np.zeros((5, 2)), [1.0, -1.0, 1.0, -1.0, 2.0]),  # constant
        (np.arange(1.0)[:, None], [1.0]),  # one row
        (np.array([[0.0], [1.0], [0.0], [1.0]]), [1.0, 1.0, 1.0, 1.0]),  # no gain
        (np.array([[0.0], [1.0], [0.0], [1.0]]), [1.0, 1.0, -1.0, -1.0]),  # no gain, pulls differ
    ],
)
def test_without_a_gain_there_is_one_leaf(X, pull):
    for wide in (True, False):
        slow = assert_same_tree(Problem(X, np.array(pull), np.ones(len(X))), wide=wide)
        assert len(slow.leaves) == 1


def test_a_leaf_far_from_its_mean_by_a_bound_respects_the_rules():
    """Its score is far below 0, but a forbidden split must not be preferred to it."""
    X = np.zeros((40, 3))
    X[20:, 0] = X[30:, 1] = X[39, 2] = 1
    pull = np.repeat([-10.0, 60.0, -20.0], [20, 10, 10])
    problem = Problem(X, pull, np.ones(40), {"min_count": 2}, monotone=[1, 0, 0], num_leaves=6)
    for wide in (True, False):
        slow = assert_same_tree(problem, wide=wide)
        assert [split.feature for split in slow.splits] == [0, 1]
        assert (slow.leaves[2].rows, slow.leaves[2].lower) == ([*range(30, 40)], 5.0)


# -- the best split of one node: leaf values, gains and rules ----------------------------------


FREE = -np.inf, np.inf
UNITS = {"pull_unit": 1.0, "weight_unit": 1.0, "count_bits": 8}


def rules(**options):
    return Rules(**UNITS, **{**RULES, **options})


def quadratic(value, pull, weight, given_rules):
    """Return twice the decrease of the quadratic model by a leaf value."""
    curvature = weight + given_rules.reg_lambda
    return 2 * (pull * value - given_rules.reg_alpha * np.abs(value)) - curvature * value**2


BOUNDS = st.tuples(st.floats(-3, 3), st.floats(-3, 3)).map(sorted)


@given(
    st.floats(-5, 5), st.floats(0.1, 9), st.floats(0, 2), st.floats(0, 2),
    st.just([-np.inf, np.inf]) | BOUNDS,
)  # fmt: skip
def test_a_leaf_has_the_best_value_within_its_bounds(pull, weight, penalty, alpha, bounds):
    given_rules = rules(reg_lambda=penalty, reg_alpha=alpha)
    value = leaf_value(pull, weight, given_rules, bounds)
    assert bounds[0] <= value <= bounds[1]
    best = quadratic(value, pull, weight, given_rules)
    others = np.clip(np.linspace(-60, 60, 2001), *bounds)
    assert (quadratic(others, pull, weight, given_rules) <= best + 1e-9).all()


def test_a_leaf_without_weight_and_penalty_has_the_value_0():
    assert leaf_value(3.0, 0.0, rules(), FREE) == 0.0
    assert leaf_value(3.0, 0.0, rules(reg_lambda=1.5), FREE) == 2.0


def gain_by_hand(problem, left, given_rules):
    """Return the gain of a split by its definition."""

    def score(rows):
        pull, weight = problem.pull[rows].sum(), problem.weight[rows].sum()
        value = leaf_value(pull, weight, given_rules, FREE)
        return quadratic(value, pull, weight, given_rules)

    every = np.ones(left.size, bool)
    return score(left) + score(~left) - score(every)


@pytest.mark.parametrize(
    "options", [{}, {"reg_lambda": 2.0}, {"reg_alpha": 1.0, "reg_lambda": 0.5}]
)
@pytest.mark.parametrize("seed", range(3))
def test_no_cut_has_a_larger_gain(seed, options):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 30, (120, 5)).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    problem = Problem(X, rng.normal(size=120), rng.random(120) + 0.2, options, num_leaves=2)
    split = assert_same_tree(problem, wide=True).splits[0]
    gains = [
        gain_by_hand(problem, (X[:, j] <= cut) | (np.isnan(X[:, j]) & missing), rules(**options))
        for j in range(5)
        for cut in range(30)
        for missing in (False, True)
    ]
    assert split.gain == pytest.approx(max(gains), rel=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_the_best_cut_of_the_sorted_categories_is_the_best_of_all_divisions(seed):
    """Fisher (1958), without smoothing: all sets of categories are tried."""
    rng = np.random.default_rng(seed)
    category = rng.integers(0, 8, 60)
    pull, weight = rng.normal(size=60), rng.random(60) + 0.2
    problem = Problem(
        category[:, None].astype(float), pull, weight, categorical=frozenset({0}), num_leaves=2
    )
    split = assert_same_tree(problem, wide=True).splits[0]
    names = sorted(set(category))
    subsets = chain.from_iterable(combinations(names, k) for k in range(1, len(names)))
    gains = [gain_by_hand(problem, np.isin(category, subset), rules()) for subset in subsets]
    assert split.gain == pytest.approx(max(gains), rel=1e-9)


def test_smoothing_keeps_rare_categories_from_the_ends():
    """A category of one row with a huge pull is extreme only without smoothing."""
    category = np.repeat([0.0, 1.0, 2.0], [1, 30, 30])
    pull = np.repeat([2.0, 1.0, -1.0], [1, 30, 30])
    splits = [
        grow(
            Problem(category[:, None], pull, np.ones(61), {"cat_smooth": smooth},
                    categorical=frozenset({0}), num_leaves=2), wide=True,
        )[0].splits["gain"][0]
        for smooth in (0.0, 10.0)
    ]  # fmt: skip
    assert splits[1] < splits[0]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"min_gain": 19.9}, True),
        ({"min_gain": 20.0}, False),  # 10²/10 twice, less 0: not above
        ({"min_count": 5}, True),
        ({"min_count": 6}, False),
        ({"min_weight": 2.5}, True),
        ({"min_weight": 5.1}, False),
        ({"reg_alpha": 4.9}, True),
        ({"reg_alpha": 5.0}, False),
    ],
)
def test_rules_of_a_split(options, found):
    X = np.repeat([0.0, 1.0], 5)[:, None]
    pull = np.repeat([1.0, -1.0], 5) * (2.0 if "min_gain" in options else 1.0)
    weight = np.full(10, 2.0) if "min_gain" in options else np.ones(10)
    problem = Problem(X, pull, weight, options)
    for wide in (True, False):
        assert bool(assert_same_tree(problem, wide=wide).splits) is found


def test_gains_that_are_rounding_errors_are_not_splits():
    """All rows have the same quotient; sums of thirds are not exact."""
    rng = np.random.default_rng(0)
    weight = rng.random(200)
    X = rng.integers(0, 50, (200, 3)).astype(float)
    for wide in (True, False):
        grown, _ = grow(Problem(X, weight / 3, weight, num_leaves=31), wide=wide)
        if wide:
            assert not grown.splits.size
        else:  # packed numbers are rounded to about 2^-13
            assert (grown.splits["gain"] < 1e-3 * weight.sum()).all()


def test_only_allowed_features_are_split_on():
    X = np.repeat([0.0, 1.0], 5)[:, None].repeat(3, axis=1)
    problem = Problem(X, np.repeat([1.0, -1.0], 5), np.ones(10), groups=[frozenset({2})])
    with Context(1) as context:
        grown, _ = grow(problem, wide=True, context=context)
    assert grown.splits["feature"].tolist() == [2]
