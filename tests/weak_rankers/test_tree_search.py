"""Trees as a family: search, sampling, constraints, reproducibility."""

import dataclasses
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import naive_trees
from precede import BoostedRanker, Judgments, QBRank, RankBoost, Stumps, Trees, load
from precede.engine import tree_histograms
from precede.engine.exact import exact_sum
from precede.engine.execution import Context
from precede.engine.pull import Pull
from precede.engine.table import Table
from precede.engine.tree_rows import Rules
from precede.weak_rankers import tree_grower
from weak_rankers.test_tree_grower import Problem, integers, problems
from weak_rankers.test_trees import SAMPLE

DATA = {"X": SAMPLE.X, "y": SAMPLE.y, "qid": SAMPLE.qid}


@pytest.fixture(params=["wide", "packed"])
def form(request, monkeypatch):
    """Use wide and packed integers for tables of any size."""
    if request.param == "packed":
        monkeypatch.setattr(tree_grower, "MAX_WIDE_CELLS", -1)
        monkeypatch.setattr(tree_histograms, "MIN_BLOCK_ROWS", 0)
    return request.param


def training_table(seed=0, n=300):
    generator = np.random.default_rng(seed)
    X = generator.normal(0, 1, (n, 4))
    pull = generator.normal(0, 1, n) + X[:, 0]
    pull -= pull.mean()
    return Table.build(X), pull / np.maximum(pull, 0).sum()


def test_the_output_read_from_the_scores_is_that_of_the_tree():
    table, pull = training_table()
    search = Trees(min_child_samples=3).start(table)
    for _ in range(40):
        found = search.best(pull)
        np.testing.assert_array_equal(found.values, found.weak_ranker.on(table))
        pull = pull - 0.02 * pull.std() * found.values / found.values.std()


def test_leaves_hold_weighted_means_of_the_targets():
    table, pull = training_table()
    weight = np.random.default_rng(1).random(len(pull)) + 0.5
    found = Trees(num_leaves=6, reg_lambda=0.0).start(table).fit(pull, weight)
    for value in set(found.weak_ranker.value):
        inside = found.values == value
        assert value == pytest.approx(pull[inside].sum() / weight[inside].sum(), rel=1e-12)
    assert sum(found.weak_ranker.count) == len(pull)


def skewed(seed=0):
    """Return queries of very different lengths: some rows are in many pairs, most in few."""
    generator = np.random.default_rng(seed)
    qid = np.repeat(np.arange(12), [90, 40, *([6] * 10)])
    X = generator.integers(0, 5, (len(qid), 2)).astype(float)
    grade = (X[:, 0] + generator.normal(0, 1.5, len(qid)) > 2.5).astype(float)
    return X, grade, qid, generator.integers(1, 4, len(qid)).astype(float)


@pytest.mark.parametrize("balance", ["items", "pairs", "queries"])
@pytest.mark.parametrize("reg_lambda", [0.0, 5.0, 80.0])
def test_the_penalty_counts_rows_of_mean_weight(balance, reg_lambda):
    """In every round a leaf has the value sum(pull) / (sum(weight) + lambda · mean weight)."""
    X, grade, qid, item = skewed()
    judgments = Judgments(grade, qid, weight=item)
    model = BoostedRanker(
        balance=balance, reg_lambda=reg_lambda, n_estimators=4, learning_rate=1.0, num_leaves=3,
        min_child_samples=0,
    ).fit(X, judgments)  # fmt: skip
    scores = np.zeros(len(X))
    for tree in model.ensemble_.weak_rankers:
        pull, weight = naive_trees.logistic(judgments, scores, balance)
        rows = item[np.array(weight) > 0].sum()
        values = tree(X)
        for value in tree.value:
            inside = np.flatnonzero(values == value)
            assert inside.size
            expected = naive_trees.leaf_value(inside, pull, weight, rows, reg_lambda)
            assert value == pytest.approx(expected, rel=1e-10)
        scores = scores + values
    assert model.n_estimators_ == 4


@pytest.mark.filterwarnings("ignore:the model has no rounds")  # leaves may be too light
@pytest.mark.parametrize("balance", ["items", "pairs", "queries"])
def test_the_least_weight_of_a_leaf_counts_rows_of_mean_weight(balance):
    """With one feature and one split, a minimum above the best possible one allows no split."""
    X, grade, qid, item = skewed(1)
    X, judgments = X[:, :1], Judgments(grade, qid, weight=item)
    _, weight = naive_trees.logistic(judgments, np.zeros(len(X)), balance)
    weight = np.array(weight) / (sum(weight) / item[np.array(weight) > 0].sum())
    most = max(min(weight[X[:, 0] <= cut].sum(), weight[X[:, 0] > cut].sum()) for cut in range(4))
    options = {"balance": balance, "num_leaves": 2, "n_estimators": 1, "min_child_samples": 0}
    for least, rounds in ((0.999 * most, 1), (1.001 * most, 0)):
        model = BoostedRanker(min_child_weight=least, **options).fit(X, judgments)
        assert model.n_estimators_ == rounds


@pytest.mark.parametrize("balance", ["items", "pairs", "queries"])
@pytest.mark.parametrize("hessian", ["newton", "bound", "uniform"])
def test_an_item_of_weight_two_is_two_items_under_a_penalty(balance, hessian):
    X, grade, qid, item = skewed(2)
    item = item - 1  # 0, 1 and 2
    rows = np.repeat(np.arange(len(X)), item.astype(int))
    options = {
        "balance": balance, "hessian": hessian, "reg_lambda": 5.0, "min_child_weight": 3.0,
        "min_child_samples": 0, "n_estimators": 10, "learning_rate": 0.5, "num_leaves": 4,
    }  # fmt: skip
    weighted = BoostedRanker(**options).fit(X, grade, qid=qid, sample_weight=item)
    repeated = BoostedRanker(**options).fit(X[rows], grade[rows], qid=qid[rows])
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-9, atol=1e-9)


def test_the_first_split_is_the_best_by_brute_force():
    table, pull = training_table(n=120)
    weight = np.random.default_rng(1).random(len(pull)) + 0.5
    family = Trees(num_leaves=2, min_child_samples=1)
    found = family.start(table).fit(pull, weight).weak_ranker
    X = table.X

    def gain(feature, threshold):
        left = X[:, feature] <= threshold
        parts = [(pull[side].sum() ** 2) / weight[side].sum() for side in (left, ~left)]
        return sum(parts)

    cuts = [(f, t) for f in range(4) for t in np.unique(X[:, f])[:-1]]
    best = max(cuts, key=lambda cut: gain(*cut))
    assert gain(*best) == pytest.approx(gain(found.split_feature[0], found.threshold[0]), rel=1e-6)


# -- comparison with the naive grower --------------------------------------------------------


def naive_tree_of(problem, family, rows=None):
    """Return the tree of the naive grower, with exact leaf values."""
    n = len(problem.pull)
    mean = exact_sum(problem.weight) / n
    wide = tree_grower.MAX_WIDE_CELLS > 0
    pulls, weights, units = integers(problem, wide=wide)
    rules = Rules(
        pull_unit=units.pull_unit,
        weight_unit=units.weight_unit / mean,
        count_bits=units.count_bits,
        reg_lambda=family.reg_lambda,
        reg_alpha=family.reg_alpha * exact_sum(np.abs(problem.pull)) / n,
        min_gain=2 * mean * family.min_split_gain,
        min_count=max(family.min_child_samples, 1),
        min_weight=family.min_child_weight,
        cat_smooth=family.cat_smooth,
    )
    grower = naive_trees.Grower(
        problem.table().codes.T.tolist(), pulls, weights, rules, monotone=problem.monotone,
        categorical=problem.categorical, groups=problem.groups,
    )  # fmt: skip
    grown = grower.grow(family.num_leaves, family.max_depth, rows)
    values = []
    for leaf in grown.leaves:
        pull = sum(map(Fraction, problem.pull[leaf.rows].tolist()), Fraction(0))
        weight = sum(map(Fraction, problem.weight[leaf.rows].tolist()), Fraction(0))
        curvature = float(weight / Fraction(mean)) + family.reg_lambda
        values.append(grower.value(float(pull), curvature, leaf) / mean)
    return grown, values


def family_of(problem, **options):
    return Trees(
        num_leaves=problem.num_leaves, max_depth=problem.max_depth,
        min_child_samples=problem.rules["min_count"], min_child_weight=problem.rules["min_weight"],
        reg_lambda=problem.rules["reg_lambda"], reg_alpha=problem.rules["reg_alpha"],
        min_split_gain=problem.rules["min_gain"] / 10, cat_smooth=problem.rules["cat_smooth"],
        monotone_constraints=problem.monotone, interaction_constraints=problem.groups,
        categorical_features=sorted(problem.categorical), **options,
    )  # fmt: skip


def assert_same_as_naive(problem, family, rows=None, search=None):
    table = problem.table()
    search = search or family.start(table)
    found = search.fit(problem.pull, problem.weight)
    grown, values = naive_tree_of(problem, family, rows)
    leaf = walk(grown, table.codes.T)
    edge = sum(Fraction(p) * Fraction(values[k]) for p, k in zip(problem.pull, leaf, strict=True))
    if found is None:
        scale = np.abs(problem.pull).sum() * max(map(abs, values))
        assert not grown.splits or edge <= 1e-12 * scale
        return
    tree = found.weak_ranker
    assert list(tree.split_feature) == [split.feature for split in grown.splits]
    assert (list(tree.left), list(tree.right)) == (grown.left, grown.right)
    assert list(tree.count) == [len(each.rows) for each in grown.leaves]
    for j, split in enumerate(grown.splits):
        feature, bins = split.feature, table.bins
        if feature in problem.categorical:
            expected = {int(bins.categories[feature][code]) for code in split.left_codes}
            assert set(tree.categories[j]) == expected
        else:
            ends = [*bins.cuts[feature], np.inf]
            assert tree.threshold[j] == ends[split.cut]
            assert tree.missing_left[j] == (naive_trees.MISSING in split.left_codes)
    scale = max(map(abs, values))
    np.testing.assert_allclose(tree.value, values, rtol=1e-11, atol=1e-11 * scale)
    np.testing.assert_array_equal(found.values, np.array(tree.value)[leaf])
    np.testing.assert_array_equal(found.values, tree(problem.X))
    assert found.edge == pytest.approx(float(edge), rel=1e-9, abs=1e-12 * scale)


def walk(grown, codes):
    """Return the leaf number of each row, by its codes."""
    leaves = []
    for row in codes.tolist():
        node = 0 if grown.splits else -1
        while node >= 0:
            split = grown.splits[node]
            side = grown.left if row[split.feature] in split.left_codes else grown.right
            node = side[node]
        leaves.append(-1 - node)
    return leaves


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(problem=problems())
def test_trees_equal_those_of_the_naive_grower(problem, form):
    problem = dataclasses.replace(problem, groups=with_the_rest(problem), rows=None)
    assert_same_as_naive(problem, family_of(problem))


def with_the_rest(problem):
    """Return the groups as the family sees them: the other features form one more."""
    if problem.groups is None:
        return None
    rest = frozenset(range(problem.X.shape[1])) - frozenset().union(*problem.groups)
    return [*problem.groups, *([rest] if rest else [])]


@pytest.mark.parametrize("seed", range(5))
def test_a_tree_grown_on_a_sample_equals_that_of_the_naive_grower(seed, form):
    """Leaf values are computed from the sampled rows, and apply to all rows."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 6, (80, 4)).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    problem = Problem(
        X, rng.normal(size=80), rng.random(80) + 0.1, num_leaves=9, categorical=frozenset({3}),
        monotone=[1, 0, -1, 0],
    )  # fmt: skip
    family = Trees(
        num_leaves=9, min_child_samples=2, subsample=0.6, categorical_features=[3], cat_smooth=1.0,
        monotone_constraints=[1, 0, -1, 0], random_state=seed,
    )  # fmt: skip
    search = family.start(problem.table())
    search._prepare_sampling(None)
    rows = search._draw_rows(0)
    assert 0 < rows.size < 80
    assert_same_as_naive(problem, family, rows.tolist(), search)


# -- sampling --------------------------------------------------------------------------------


DRAWS = [
    {},
    {"subsample": 0.6},
    {"subsample": 0.5, "subsample_by": "query"},
    {"max_features": 0.5},
    {"max_features_by_split": 0.4},
    {"subsample": 0.7, "max_features": 0.6, "max_features_by_split": 0.5},
]


def same(*models):
    for model in models[1:]:
        assert model.ensemble_.weak_rankers == models[0].ensemble_.weak_rankers
        assert model.ensemble_.weights == models[0].ensemble_.weights
    return models[0]


@pytest.mark.parametrize("options", DRAWS, ids=str)
def test_models_do_not_depend_on_threads_and_the_order_of_rows(options, form, tiny_thresholds):
    models = []
    for jobs, seed in ((1, None), (2, 0), (4, 1)):
        order = np.arange(len(SAMPLE.y))
        if seed is not None:
            order = np.random.default_rng(seed).permutation(order)
        model = BoostedRanker(
            n_estimators=6, min_child_samples=5, n_jobs=jobs, random_state=3, **options
        )
        models.append(model.fit(SAMPLE.X[order], SAMPLE.y[order], qid=SAMPLE.qid[order]))
    assert same(*models).n_estimators_ == 6


@pytest.mark.parametrize("options", DRAWS[1:], ids=str)
def test_samples_differ_between_rounds_and_seeds(options):
    models = [
        BoostedRanker(n_estimators=3, random_state=seed, **options).fit(**DATA) for seed in (0, 1)
    ]
    whole = BoostedRanker(n_estimators=3).fit(**DATA)
    firsts = [model.ensemble_.weak_rankers[0] for model in [*models, whole]]
    assert len(set(firsts)) == 3


def test_a_share_of_the_rows_is_drawn_equal_rows_together():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 40, (4000, 2)).astype(float)
    table = Table.build(X)
    search = Trees(subsample=0.3, min_child_samples=1, random_state=5).start(table)
    pull = rng.normal(size=4000)
    drawn = []
    for _ in range(12):
        search._prepare_sampling(None)
        rows = search._draw_rows(0)
        assert sum(search.best(pull).weak_ranker.count) == rows.size
        inside = np.zeros(4000, bool)
        inside[rows] = True
        drawn.append(inside)
        _, number = np.unique(X, axis=0, return_inverse=True)
        assert all(len(set(inside[number == k])) == 1 for k in range(0, number.max(), 50))
    # 1600 different rows: a share has a deviation of 0.012.
    shares = [each.mean() for each in drawn]
    assert all(abs(share - 0.3) < 0.06 for share in shares)
    assert abs(np.mean(shares) - 0.3) < 0.02
    both = np.mean([(one & other).mean() for one, other in pairwise(drawn)])
    assert abs(both - 0.09) < 0.02  # rounds are independent


def test_whole_queries_are_drawn():
    """Each query is sampled as a whole, whatever its length."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(3, 30, 60)
    start = np.concatenate([[0], np.cumsum(sizes)])
    table = Table.build(rng.normal(size=(start[-1] + 5, 3)))  # five rows are in no query
    search = Trees(subsample=0.4, subsample_by="query").start(table)
    with pytest.raises(ValueError, match="subsample_by='query': a pull by itself"):
        search.best(rng.normal(size=table.n_used_rows))
    pull = Pull(np.zeros(0), np.zeros(0), lambda _: None, lambda: np.zeros(0), start, Context(1))
    search._prepare_sampling(pull)
    counts = []
    for rounds in range(20):
        search.begin(rounds)
        inside = np.zeros(table.n_used_rows, bool)
        inside[search._draw_rows(0)] = True
        assert all(len(set(inside[a:b])) == 1 for a, b in pairwise(start))
        counts.append(inside[start[:-1]].mean())
    assert abs(np.mean(counts) - 0.4) < 0.06


def test_features_are_drawn_for_a_tree_and_for_a_split():
    X = np.random.default_rng(0).normal(size=(600, 10))
    y = X.sum(axis=1).round()
    for model in (
        BoostedRanker(n_estimators=12, max_features=0.3, random_state=0, min_child_samples=5),
        BoostedRanker(n_estimators=12, weak_rankers=Trees(max_features=0.3, min_child_samples=5)),
    ):
        used = [set(tree.split_feature) for tree in model.fit(X, y).ensemble_.weak_rankers]
        assert all(len(each) <= 3 for each in used)
        assert set().union(*used) == set(range(10))
    model = BoostedRanker(n_estimators=4, max_features_by_split=0.1, min_child_samples=5)
    model.set_params(random_state=1).fit(X, y)
    used = [set(tree.split_feature) for tree in model.ensemble_.weak_rankers]
    assert all(len(each) > 3 for each in used)  # another one for every split


def test_samples_that_allow_no_split_are_drawn_again():
    """Only one of twenty features allows a split."""
    X = np.zeros((60, 20))
    X[:, 7] = np.arange(60)
    X[0] = 1.0 - X[0]  # no feature is constant
    search = Trees(max_features=0.05, min_child_samples=5).start(Table.build(X))
    pull = np.where(np.arange(60) < 30, 1.0, -1.0)
    found = [search.best(pull) for _ in range(20)]
    grown = [each for each in found if each is not None]
    assert all(each.weak_ranker.split_feature[0] == 7 for each in grown)
    assert 3 <= len(grown) <= 17  # 1 - 0.95^8 = 34 percent


# -- resumed fits ----------------------------------------------------------------------------


@pytest.mark.parametrize("options", DRAWS, ids=str)
@pytest.mark.parametrize("estimator", [BoostedRanker, QBRank])
def test_a_fit_is_resumed_to_an_equal_model_whatever_it_draws(options, estimator, tmp_path):
    label = SAMPLE.y + 1.0  # QBRank begins with a constant
    data = {"X": SAMPLE.X, "y": Judgments(SAMPLE.y, SAMPLE.qid, label=label)}
    if estimator is BoostedRanker:
        data = DATA
    shape = {"n_estimators": 6, "num_leaves": 6, "random_state": 4, **options}
    whole = estimator(**shape).fit(**data)
    for rounds in (1, 4):
        path = tmp_path / f"{rounds}.json"
        stopped = estimator(**shape, callbacks=[lambda done, last=rounds: done.round == last])
        assert stopped.fit(**data, checkpoint=path).n_estimators_ == rounds
        same(whole, estimator(**shape).fit(**data, checkpoint=path))
        warm = estimator(**{**shape, "n_estimators": rounds}, warm_start=True).fit(**data)
        same(whole, warm.set_params(n_estimators=6).fit(**data))


def test_trees_that_other_algorithms_draw_are_resumed(tmp_path):
    trees = Trees(num_leaves=4, subsample=0.5, max_features_by_split=0.5, random_state=2)
    shape = {"weak_rankers": trees, "n_estimators": 5, "learning_rate": 0.3}
    stopped = RankBoost(**shape, callbacks=[lambda done: done.round == 2])
    stopped.fit(**DATA, checkpoint=tmp_path / "fit.json")
    whole = RankBoost(**shape).fit(**DATA)
    same(whole, RankBoost(**shape).fit(**DATA, checkpoint=tmp_path / "fit.json"))
    assert len({tree.count for tree in whole.ensemble_.weak_rankers}) == 5


@pytest.mark.parametrize("share", ["subsample", "max_features", "max_features_by_split"])
@pytest.mark.parametrize("seed", [None, np.random.RandomState(0)])
def test_a_fit_that_draws_by_chance_has_no_checkpoint(share, seed, tmp_path):
    for estimator in (BoostedRanker, QBRank):
        model = estimator(n_estimators=2, random_state=seed, **{share: 0.5})
        assert not model.can_resume
        with pytest.raises(ValueError, match=f"with {share} below 1 only a number"):
            model.fit(**DATA, checkpoint=tmp_path / "fit.json")
        assert model.set_params(random_state=0).can_resume


# -- constraints -----------------------------------------------------------------------------


def violations(score, X, monotone):
    """Return rows along which the score violates the monotone constraint of a feature."""
    found = []
    for feature, sign in enumerate(monotone):
        if not sign:
            continue
        known = np.unique(X[~np.isnan(X[:, feature]), feature])
        line = np.sort(np.concatenate([[-1e6], known, (known[1:] + known[:-1]) / 2, [1e6]]))
        for row in X[:25]:
            rows = np.tile(row, (line.size, 1))
            rows[:, feature] = line
            if (np.diff(sign * score(rows)) < 0).any():
                found.append((feature, row.tolist()))
    return found


def adversarial(seed, n=250):
    """Return pulls against the constraints, with missing values, interactions and heavy rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).round(1)
    X[:, 3] = rng.integers(0, 5, n)
    monotone = [int(sign) for sign in rng.permutation([1, -1, rng.integers(-1, 2), 0])]
    pull = rng.normal(size=n) * 10 ** rng.uniform(-2, 2, n)
    pull += rng.choice([-3, 3]) * np.sin(3 * X[:, 0]) * X[:, 1] - 2 * X @ np.array(monotone)
    X[rng.random(X.shape) < rng.choice([0.0, 0.2])] = np.nan
    pull[np.isnan(X[:, 0])] += rng.choice([-9, 0, 9])
    return X, pull, rng.random(n) ** 4 + 1e-3, monotone


@given(st.integers(0, 2**32 - 1))
def test_no_tree_violates_a_direction(seed):
    X, pull, weight, monotone = adversarial(seed)
    shape = {"num_leaves": 60, "min_child_samples": 1, "min_child_weight": 0.0}
    table = Table.build(X)
    found = Trees(**shape, monotone_constraints=monotone).start(table).fit(pull, weight)
    if found is not None:
        assert violations(found.weak_ranker, X, monotone) == []
    free = Trees(**shape).start(table).fit(pull, weight)
    assert violations(free.weak_ranker, X, monotone) != []  # the data provoke violations


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"reg_alpha": 0.01, "max_features_by_split": 0.5, "subsample": 0.7},
        {"loss": "exponential"},
    ],
    ids=["plain", "drawn", "exponential"],
)
def test_no_model_violates_a_direction(seed, options):
    X, pull, _, monotone = adversarial(seed)
    y, qid = (pull > 0) + (pull > 3), np.arange(len(X)) // 25
    shape = {"n_estimators": 12, "min_child_samples": 1, "learning_rate": 0.7, "random_state": 0}
    model = BoostedRanker(**shape, **options, monotone_constraints=monotone).fit(X, y, qid=qid)
    assert model.n_estimators_ == 12
    assert violations(model.predict, X, monotone) == []
    free = BoostedRanker(**shape, **options).fit(X, y, qid=qid)
    assert violations(free.predict, X, monotone) != []


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("grade", [-5.0, 5.0])
def test_missing_values_are_not_constrained(sign, grade):
    """They may rank lowest or highest, whatever the constraint."""
    X = np.linspace(0, 1, 200)[:, None]
    X[::4] = np.nan
    y = np.where(np.isnan(X[:, 0]), grade, sign * X[:, 0])
    model = BoostedRanker(n_estimators=20, monotone_constraints=[sign], min_child_samples=5)
    scores = model.fit(X, y).predict(X)
    missing = np.isnan(X[:, 0])
    assert (np.diff(sign * scores[~missing]) >= 0).all()
    if grade > 0:
        assert scores[missing].min() > scores[~missing].max()
    else:
        assert scores[missing].max() < scores[~missing].min()


def test_values_beyond_those_of_a_node_are_not_taken_for_missing():
    """A node has only rows whose first feature is 0 or missing; then 2 must not go with missing."""
    X = np.array([[0, 1], [0, 1], [np.nan, 1], [np.nan, 1], [0, 0], [1, 0], [2, 0], [2, 0]])
    pull = np.array([5.0, 5.0, 9.0, 9.0, -6.0, -6.0, -6.0, -6.0])
    for signs in ([0, 0], [1, 0], [-1, 0]):
        family = Trees(num_leaves=3, min_child_samples=1, monotone_constraints=signs)
        tree = family.search(Table.build(X), pull).weak_ranker
        assert tree.split_feature == (1, 0)
        assert tree.threshold[1] == np.inf
        low, high, missing = tree(np.array([[0.0, 1.0], [2.0, 1.0], [np.nan, 1.0]]))
        assert low == high < missing


def test_directions_by_number_and_by_name():
    """A dict may name its columns in any order."""
    frame = pd.DataFrame(SAMPLE.X.astype(float), columns=list("abcdefgh"))
    shape = {"n_estimators": 4, "num_leaves": 31, "min_child_samples": 5, "reg_lambda": 5.0}
    signs = [0, -1, 0, 0, 1, 0, 1, 0]
    given_ways = [signs, {6: 1, 1: -1, 4: 1}, {"e": 1, "g": 1, "b": -1}, {"g": 1, 1: -1, "e": 1},
                  np.array(signs)]  # fmt: skip
    models = [
        BoostedRanker(**shape, monotone_constraints=given).fit(frame, SAMPLE.y, qid=SAMPLE.qid)
        for given in given_ways
    ]
    model = same(*models)
    assert violations(model.ensemble_.predict, frame.to_numpy(), signs) == []
    free = BoostedRanker(**shape).fit(frame, SAMPLE.y, qid=SAMPLE.qid)
    assert free.ensemble_.weak_rankers != model.ensemble_.weak_rankers
    family = Trees(min_child_samples=5, reg_lambda=5.0, monotone_constraints={6: 1, 1: -1, 4: 1})
    by_family = BoostedRanker(weak_rankers=family, n_estimators=4).fit(
        frame, SAMPLE.y, qid=SAMPLE.qid
    )
    same(model, by_family)
    with pytest.raises(ValueError, match="gives a column twice, by number and by name"):
        BoostedRanker(monotone_constraints={"b": 1, 1: 1}).fit(frame, SAMPLE.y, qid=SAMPLE.qid)
    with pytest.raises(ValueError, match="monotone_constraints names column 'z'; the columns are"):
        BoostedRanker(monotone_constraints={"z": 1}).fit(frame, SAMPLE.y, qid=SAMPLE.qid)


def test_constraints_are_saved_and_checked_by_a_checkpoint(tmp_path):
    """Columns are saved by name or by number, although keys in JSON are strings."""
    frame = pd.DataFrame(SAMPLE.X.astype(float), columns=list("abcdefgh"))
    data = {"X": frame, "y": SAMPLE.y, "qid": SAMPLE.qid}
    groups = [["a", "b"], ["c", "d", "e"]]
    model = BoostedRanker(
        n_estimators=2, monotone_constraints={"c": 1, "a": -1}, interaction_constraints=groups
    )
    model.fit(**data, checkpoint=tmp_path / "fit.json").save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert again.monotone_constraints == {"c": 1, "a": -1}
    assert again.interaction_constraints == groups
    same(model, again, again.fit(**data))
    model.set_params(monotone_constraints={"c": 1, "a": 1})
    with pytest.raises(ValueError, match="monotone_constraints"):
        model.fit(**data, checkpoint=tmp_path / "fit.json")
    model.set_params(monotone_constraints={2: 1, 0: -1}).fit(**data).save(tmp_path / "model.json")
    assert load(tmp_path / "model.json").monotone_constraints == {2: 1, 0: -1}


def paths(tree):
    """Return the set of features on the path to each leaf."""
    stack, found = [(0, frozenset())], []
    while stack:
        node, used = stack.pop()
        if node < 0:
            found.append(used)
        else:
            used |= {tree.split_feature[node]}
            stack += [(tree.left[node], used), (tree.right[node], used)]
    return found


@pytest.mark.parametrize("options", [{}, {"max_features_by_split": 0.5, "random_state": 0}])
def test_features_of_different_groups_are_never_on_one_path(options):
    frame = pd.DataFrame(SAMPLE.X.astype(float), columns=list("abcdefgh"))
    shape = {"n_estimators": 15, "min_child_samples": 3, **options}
    groups = [{0, 1, 2}, {2, 3}, {4, 5, 6, 7}]  # the last one has the features in no group
    models = [
        BoostedRanker(**shape, interaction_constraints=given).fit(frame, SAMPLE.y, qid=SAMPLE.qid)
        for given in ([[0, 1, 2], [2, 3]], [["a", "b", "c"], ("d", "c")], [{"a", 1, 2}, {3, "c"}])
    ]
    found = [path for tree in same(*models).ensemble_.weak_rankers for path in paths(tree)]
    assert all(any(path <= group for group in groups) for path in found)
    assert any(len(path) > 1 for path in found)
    free = BoostedRanker(**shape).fit(frame, SAMPLE.y, qid=SAMPLE.qid)
    assert not all(
        any(path <= group for group in groups)
        for tree in free.ensemble_.weak_rankers
        for path in paths(tree)
    )


# -- other parameters and inputs -------------------------------------------------------------


def test_monotone_constraints_and_categories_are_used():
    generator = np.random.default_rng(0)
    X = np.column_stack([generator.normal(0, 1, 2000), generator.integers(0, 9, 2000)])
    y = (X[:, 0] ** 2 + (X[:, 1] % 2) * 2 + generator.normal(0, 0.3, 2000)).round()
    model = BoostedRanker(
        n_estimators=20, categorical_features=[1], monotone_constraints=[1, 0]
    ).fit(X, y)
    assert any(any(tree.categories) for tree in model.ensemble_.weak_rankers)
    line = np.column_stack([np.linspace(-3, 3, 200), np.zeros(200)])
    assert (np.diff(model.predict(line)) >= 0).all()
    assert (np.diff(BoostedRanker(n_estimators=20).fit(X, y).predict(line)) < 0).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"categorical_features": [9]}, "categorical_features names column 9"),
        ({"categorical_features": [0]}, "number its categories"),
        ({"categorical_features": [0], "monotone_constraints": {0: 1}}, "column 0"),
        ({"monotone_constraints": [1]}, "for each of the 8 features"),
        ({"monotone_constraints": [2] * 8}, "-1, 0 or 1"),
        ({"monotone_constraints": [0.5] * 8}, r"0\.5.*give -1, 0 or 1"),
        ({"monotone_constraints": 1}, "monotone_constraints=1: give -1, 0 or 1"),
        ({"monotone_constraints": {0: 2}}, r"\{0: 2\}: give -1, 0 or 1"),
        ({"monotone_constraints": {8: 1}}, "monotone_constraints names column 8, but there are 8"),
        ({"monotone_constraints": {"x": 1}}, "names column 'x', but X has no column names"),
        ({"interaction_constraints": 3}, "interaction_constraints=3: give a list of lists"),
        ({"interaction_constraints": [0, 1]}, r"=\[0, 1\]: give a list of lists"),
        ({"interaction_constraints": "ab"}, "='ab': give a list of lists"),
        ({"interaction_constraints": [[8]]}, "interaction_constraints names column 8"),
        ({"interaction_constraints": [["x"]]}, "interaction_constraints names column 'x'"),
        ({"num_leaves": 1}, "num_leaves=1"),
        ({"max_depth": 0}, "max_depth=0"),
        ({"hessian": "gauss"}, "hessian='gauss'"),
        ({"subsample": 0.0}, "subsample=0.0"),
        ({"subsample_by": "item"}, "subsample_by='item' is unknown; use one of .*'query'"),
        ({"max_features_by_split": 1.5}, "max_features_by_split=1.5"),
        ({"reg_lambda": -1.0}, "reg_lambda=-1.0"),
        ({"reg_alpha": float("nan")}, "reg_alpha=nan"),
        ({"min_split_gain": -1}, "min_split_gain=-1"),
        ({"cat_smooth": -0.5}, "cat_smooth=-0.5"),
        ({"weak_rankers": 3}, "weak_rankers=3"),
        ({"loss": "huber"}, "loss='huber'"),
        (
            {"weak_rankers": "stumps", "categorical_features": [0]},
            r"categorical_features=\[0\] is for trees, and "
            r"weak_rankers='stumps'.*weak_rankers='trees'",
        ),
        (
            {"weak_rankers": Stumps(), "monotone_constraints": [1] * SAMPLE.X.shape[1]},
            "monotone_constraints=.* is for trees.*weak_rankers='trees'",
        ),
    ],
)
def test_invalid_options_are_rejected_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        BoostedRanker(n_estimators=2, **options).fit(SAMPLE.X, SAMPLE.y, qid=SAMPLE.qid)


def test_a_table_without_a_split_ends_the_fit():
    model = BoostedRanker(n_estimators=5, min_child_samples=1)
    with pytest.warns(UserWarning, match="the model has no rounds"):
        model.fit(np.ones((6, 2)), [0, 1] * 3)
    assert model.n_estimators_ == 0
    assert model.stop_reason_ == "the search found no weak ranker that improves the risk"
    np.testing.assert_array_equal(model.predict(np.ones((2, 2))), [0.0, 0.0])


def test_sparse_rows_grow_the_same_trees():
    X = np.where(np.abs(SAMPLE.X) > 0.8, SAMPLE.X, 0.0).astype(float)
    dense = BoostedRanker(n_estimators=6).fit(X, SAMPLE.y, qid=SAMPLE.qid)
    sparse = BoostedRanker(n_estimators=6).fit(
        scipy.sparse.csr_array(X), SAMPLE.y, qid=SAMPLE.qid,
        eval_set=(scipy.sparse.csr_array(X), SAMPLE.y), eval_qid=SAMPLE.qid,
    )  # fmt: skip
    assert dense.ensemble_.weak_rankers == sparse.ensemble_.weak_rankers
    np.testing.assert_array_equal(sparse.predict(scipy.sparse.csr_array(X)), dense.predict(X))
