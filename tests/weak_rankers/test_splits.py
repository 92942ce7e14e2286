"""The best split of one node: leaf values, gains and rules (whole trees: test_tree_grower.py)."""

from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precede.engine.execution import Context
from precede.engine.tree_rows import Rules
from precede.weak_rankers.tree_grower import leaf_value
from weak_rankers.test_tree_grower import RULES, Problem, assert_same_tree, grow

UNITS = {"pull_unit": 1.0, "weight_unit": 1.0, "count_bits": 8}


def rules(**options):
    return Rules(**UNITS, **{**RULES, **options})


def quadratic(value, pull, weight, given_rules):
    """Return twice the decrease of the quadratic model by a leaf value."""
    curvature = weight + given_rules.reg_lambda
    return 2 * (pull * value - given_rules.reg_alpha * np.abs(value)) - curvature * value**2


FREE = -np.inf, np.inf
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
