"""scikit-learn regressors as weak rankers."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

from precede import BoostedRanker, Stumps, Tree, load
from precede.engine.table import Table
from precede.weak_rankers.regressors import FittedRegressor, Regressors, check_targets, learner
from weak_rankers.test_trees import SAMPLE


def test_any_regressor_is_a_black_box(tmp_path):
    model = BoostedRanker(weak_rankers=LinearRegression(), n_estimators=4).fit(
        SAMPLE.X, SAMPLE.y, qid=SAMPLE.qid
    )
    assert (np.diff(model.history_["log_risk"]) < 0).all()
    with pytest.raises(ValueError, match="LinearRegression is not plain numbers"):
        model.save(tmp_path / "model.json")
    tree = DecisionTreeRegressor(max_leaf_nodes=8, random_state=0)
    model = BoostedRanker(weak_rankers=tree, n_estimators=4).fit(SAMPLE.X, SAMPLE.y, qid=SAMPLE.qid)
    model.save(tmp_path / "model.json")
    with pytest.warns(UserWarning, match="weak_rankers"):
        again = load(tmp_path / "model.json")
    np.testing.assert_array_equal(again.predict(SAMPLE.X), model.predict(SAMPLE.X))
    with pytest.raises(ValueError, match="lacks fit or predict"):
        Regressors(3)


def test_a_regressor_is_fitted_to_the_quotient_by_weighted_least_squares():
    rng = np.random.default_rng(0)
    X, pull, weight = rng.normal(size=(50, 3)), rng.normal(size=50), rng.random(50) + 0.1
    found = Regressors(LinearRegression()).start(Table.build(X)).fit(pull, weight)
    expected = LinearRegression().fit(X, pull / weight, sample_weight=weight).predict(X)
    np.testing.assert_allclose(found.values, expected, rtol=1e-9)
    assert isinstance(found.weak_ranker, FittedRegressor)
    assert found.edge == pytest.approx(pull @ expected)
    with pytest.raises(ValueError, match="max_features below 1 is not for regressors"):
        Regressors(LinearRegression()).start(Table.build(X)).best(
            pull, np.array([True, False, True])
        )


def test_a_regressor_that_does_not_help_is_not_found():
    X = np.ones((4, 1))  # a constant: its edge is 0
    search = Regressors(LinearRegression()).start(Table.build(X))
    assert search.best(np.array([1.0, -1.0, 1.0, -1.0])) is None


def test_a_tree_of_scikit_learn_becomes_a_tree():
    regressor = DecisionTreeRegressor(max_leaf_nodes=4, random_state=0)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)).astype(np.float32).astype(float)
    found = Regressors(regressor).search(Table.build(X), rng.normal(size=60))
    assert isinstance(found.weak_ranker, Tree)
    assert found.weak_ranker.n_leaves == 4


def test_names_families_and_regressors_are_learners():
    stumps = Stumps()
    assert learner(stumps) is stumps
    assert repr(learner("stumps")) == "Stumps()"
    made = learner(LinearRegression(), hessian="bound", targets="average")
    assert (made.hessian, made.targets, made.quadratic) == ("bound", "average", True)
    with pytest.raises(ValueError, match="targets='mean' is unknown; use one of"):
        check_targets("mean")
