"""Growing trees: leaves, penalties, splits, and any regressor."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

import naive_trees
from precede import BoostedRanker, Judgments, Trees, load
from precede.engine.table import Table
from precede.rankers.regressors import Regressors
from rankers.test_trees import SAMPLE


def training_table(seed=0, n=300):
    generator = np.random.default_rng(seed)
    X = generator.normal(0, 1, (n, 4))
    pull = generator.normal(0, 1, n) + X[:, 0]
    pull -= pull.mean()
    return Table.build(X), pull / np.maximum(pull, 0).sum()


def test_the_output_read_from_the_scores_is_that_of_the_tree():
    table, pull = training_table()
    search = Trees(min_child_samples=3).start(table)
    for _ in range(40):  # scores of LightGBM's own pile up meanwhile
        found = search.best(pull)
        np.testing.assert_array_equal(found.values, found.ranker.on(table))
        pull = pull - 0.02 * pull.std() * found.values / found.values.std()


def test_leaves_hold_weighted_means_of_the_targets():
    table, pull = training_table()
    weight = np.random.default_rng(1).random(len(pull)) + 0.5
    found = Trees(num_leaves=6, reg_lambda=0.0).start(table).fit(pull, weight)
    for value in set(found.ranker.value):
        inside = found.values == value
        assert value == pytest.approx(pull[inside].sum() / weight[inside].sum(), rel=1e-5)
    assert sum(found.ranker.count) == len(pull)


def skewed(seed=0):
    """Queries of very different length: some rows take part in many pairs, most in few."""
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
    for tree in model.ensemble_.rankers:
        pull, weight = naive_trees.logistic(judgments, scores, balance)
        rows = item[np.array(weight) > 0].sum()
        values = tree(X)
        for value in tree.value:
            inside = np.flatnonzero(values == value)
            assert inside.size
            expected = naive_trees.leaf_value(inside, pull, weight, rows, reg_lambda)
            assert value == pytest.approx(expected, rel=1e-5)
        scores = scores + values
    assert model.n_estimators_ == 4


@pytest.mark.parametrize("balance", ["items", "pairs", "queries"])
def test_the_least_weight_of_a_leaf_counts_rows_of_mean_weight(balance):
    """One split on one feature: none is made just above the most that a split can leave."""
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
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-5, atol=1e-6)


def test_the_first_split_is_the_best_by_brute_force():
    table, pull = training_table(n=120)
    weight = np.random.default_rng(1).random(len(pull)) + 0.5
    family = Trees(num_leaves=2, min_child_samples=1)
    found = family.start(table).fit(pull, weight).ranker
    X = table.X

    def gain(feature, threshold):
        left = X[:, feature] <= threshold
        parts = [(pull[side].sum() ** 2) / weight[side].sum() for side in (left, ~left)]
        return sum(parts)

    cuts = [(f, t) for f in range(4) for t in np.unique(X[:, f])[:-1]]
    best = max(cuts, key=lambda cut: gain(*cut))
    assert gain(*best) == pytest.approx(gain(found.split_feature[0], found.threshold[0]), rel=1e-6)


@pytest.mark.parametrize(
    "options", [{}, {"subsample": 0.6, "max_features": 0.5, "random_state": 3}]
)
def test_threads_and_the_order_of_rows_leave_no_trace(options):
    models = []
    for jobs, seed in ((1, None), (2, 0), (3, 1)):
        order = np.arange(len(SAMPLE.y))
        if seed is not None:
            order = np.random.default_rng(seed).permutation(order)
        model = BoostedRanker(n_estimators=15, min_child_samples=5, n_jobs=jobs, **options)
        models.append(model.fit(SAMPLE.X[order], SAMPLE.y[order], qid=SAMPLE.qid[order]))
    assert models[0].ensemble_.rankers == models[1].ensemble_.rankers == models[2].ensemble_.rankers
    assert models[0].ensemble_.weights == models[1].ensemble_.weights == models[2].ensemble_.weights


def test_monotone_constraints_and_categories_reach_the_learner():
    generator = np.random.default_rng(0)
    X = np.column_stack([generator.normal(0, 1, 2000), generator.integers(0, 9, 2000)])
    y = (X[:, 0] ** 2 + (X[:, 1] % 2) * 2 + generator.normal(0, 0.3, 2000)).round()
    model = BoostedRanker(
        n_estimators=20, categorical_features=[1], monotone_constraints=[1, 0]
    ).fit(X, y)
    assert any(any(tree.categories) for tree in model.ensemble_.rankers)
    line = np.column_stack([np.linspace(-3, 3, 200), np.zeros(200)])
    assert (np.diff(model.predict(line)) >= 0).all()
    assert (np.diff(BoostedRanker(n_estimators=20).fit(X, y).predict(line)) < 0).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"categorical_features": [9]}, "column 9"),
        ({"categorical_features": [0]}, "number its categories"),
        ({"monotone_constraints": [1]}, "for each of the 8 features"),
        ({"monotone_constraints": [2] * 8}, "-1, 0 or 1"),
        ({"num_leaves": 1}, "num_leaves=1"),
        ({"hessian": "gauss"}, "hessian='gauss'"),
        ({"subsample": 0.0}, "subsample=0.0"),
        ({"reg_lambda": -1.0}, "reg_lambda=-1.0"),
        ({"rankers": 3}, "rankers=3"),
        ({"loss": "huber"}, "loss='huber'"),
    ],
)
def test_senseless_options_are_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        BoostedRanker(n_estimators=2, **options).fit(SAMPLE.X, SAMPLE.y, qid=SAMPLE.qid)


def test_a_table_without_a_split_ends_the_fit():
    model = BoostedRanker(n_estimators=5, min_child_samples=1).fit(np.ones((6, 2)), [0, 1] * 3)
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
    assert dense.ensemble_.rankers == sparse.ensemble_.rankers
    np.testing.assert_array_equal(sparse.predict(scipy.sparse.csr_array(X)), dense.predict(X))


def test_any_regressor_is_a_black_box(tmp_path):
    model = BoostedRanker(rankers=LinearRegression(), n_estimators=4).fit(
        SAMPLE.X, SAMPLE.y, qid=SAMPLE.qid
    )
    assert (np.diff(model.history_["log_risk"]) < 0).all()
    with pytest.raises(ValueError, match="LinearRegression is not plain numbers"):
        model.save(tmp_path / "model.json")
    tree = DecisionTreeRegressor(max_leaf_nodes=8, random_state=0)
    model = BoostedRanker(rankers=tree, n_estimators=4).fit(SAMPLE.X, SAMPLE.y, qid=SAMPLE.qid)
    model.save(tmp_path / "model.json")
    with pytest.warns(UserWarning, match="rankers"):
        again = load(tmp_path / "model.json")
    np.testing.assert_array_equal(again.predict(SAMPLE.X), model.predict(SAMPLE.X))
    with pytest.raises(ValueError, match="lacks fit or predict"):
        Regressors(3)
