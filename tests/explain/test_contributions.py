"""Explanations add up to the score exactly and say what the model does."""

import json
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from explain.test_shapley import trees
from naive_explain import mixed, shapley
from precede import RankBoost, Stump, Stumps, WeakRanker
from precede.datasets import search_results
from precede.explain import explain, explain_pair, shape_function
from precede.model import Ensemble
from precede.weak_rankers.columns import Column, Constant, Features
from precede.weak_rankers.terms import Term
from precede.weak_rankers.trees import Tree
from test_model import ensembles, some_rows
from weak_rankers.test_terms import ROWS as TERM_ROWS
from weak_rankers.test_terms import terms

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


def rows_for(ensemble, rows):
    """Rows that the rankers accept: columns refuse missing values."""
    X = np.array(rows)
    return np.nan_to_num(X) if any(isinstance(r, Column) for r in ensemble.weak_rankers) else X


def assert_adds_up(told, scores):
    assert_array_equal(told.scores, scores)
    for row, rounding, score in zip(told.contributions, told.rounding, scores, strict=True):
        total = 0.0
        for term in (*row.tolist(), told.baseline, float(rounding)):
            total += term
        largest = max(np.abs(row).max(initial=0), abs(told.baseline))
        # Terms that cancel down to less than their own last places cannot say it exactly.
        faint = 0 < abs(score) < 2.0**-53 * largest
        assert abs(total - score) <= (2.0**-52 * largest if faint else 0.0)
        assert abs(rounding) <= 1e-14 * largest


# -- adding up -------------------------------------------------------------------------------


@given(ensembles(), some_rows)
def test_contributions_add_up_to_the_score_exactly(ensemble, rows):
    X = rows_for(ensemble, rows)
    assert_adds_up(explain(ensemble, X), ensemble.predict(X))


@given(ensembles(), some_rows)
def test_stumps_and_one_constant_need_no_rounding(ensemble, rows):
    kept = [(r, w) for r, w in zip(ensemble.weak_rankers, ensemble.weights, strict=True)
            if isinstance(r, Stump)]  # fmt: skip
    ensemble = Ensemble([*(r for r, _ in kept), Constant()], [*(w for _, w in kept), 0.3], 3)
    told = explain(ensemble, np.array(rows))
    assert_array_equal(told.rounding, 0.0)
    assert_adds_up(told, ensemble.predict(np.array(rows)))


@given(ensembles(), some_rows, some_rows)
def test_and_so_they_do_against_a_background(ensemble, rows, others):
    X, Z = rows_for(ensemble, rows), rows_for(ensemble, others)
    told = explain(ensemble, X, background=Z)
    assert_adds_up(told, ensemble.predict(X))
    assert told.baseline == pytest.approx(ensemble.predict(Z).mean(), abs=1e-12)


@given(
    st.lists(st.floats(-1e6, 1e6) | st.floats(-1e-12, 1e-12), min_size=1, max_size=8),
    st.integers(0, 7),
)
def test_they_add_up_even_if_they_nearly_cancel(weights, turned):
    """Weights of all sizes, some of them the last one turned round and shaken a little."""
    weights = [*weights, -math.fsum(weights) * (1 + turned * 2.0**-52)]
    ensemble = Ensemble([Stump(f, 0.0) for f in range(len(weights))], weights, len(weights))
    X = np.ones((1, len(weights)))
    told = explain(ensemble, X)
    assert_adds_up(told, ensemble.predict(X))
    largest = max(map(abs, weights))
    assert_allclose(told.contributions[0], weights, rtol=0, atol=largest * 1e-14)


@given(ensembles(), some_rows)
def test_contributions_are_the_shares_of_the_rankers(ensemble, rows):
    X = rows_for(ensemble, rows)
    expected, constant = np.zeros(X.shape), 0.0
    for ranker, weight in zip(ensemble.weak_rankers, ensemble.weights, strict=True):
        if isinstance(ranker, Constant):
            constant += weight
        else:
            expected[:, ranker.feature] += weight * ranker(X)
    told = explain(ensemble, X)
    assert_allclose(told.contributions, expected, atol=1e-12)
    assert told.baseline == pytest.approx(constant, abs=1e-12)


@given(ensembles(), some_rows, some_rows)
def test_against_a_background_they_are_shapley_values(ensemble, rows, others):
    X, Z = rows_for(ensemble, rows[:1]), rows_for(ensemble, others)

    def worth(known):
        return np.mean(ensemble.predict(np.array([mixed(X[0], z, known) for z in Z])))

    told = explain(ensemble, X, background=Z)
    assert_allclose(told.contributions[0], shapley(worth, 3), atol=1e-11)


def test_a_score_that_is_not_a_number_stays_one():
    told = explain(Ensemble([Column(0), Stump(1, 0.0)], [1.0, 1.0], 2), np.array([[np.nan, 1.0]]))
    assert np.isnan(told.scores[0])
    assert_array_equal(told.contributions, [[np.nan, 1.0]])


@dataclass(frozen=True)
class Product(WeakRanker):
    """Two features at once, of which nothing is known."""

    name: ClassVar[str] = "product"

    def __call__(self, X):
        return X[:, 0] * X[:, 1]


@dataclass(frozen=True)
class Square(WeakRanker):
    feature: int

    name: ClassVar[str] = "square"

    def __call__(self, X):
        return X[:, self.feature] ** 2


def test_rankers_of_strangers():
    X = np.array([[2.0, 3.0]])
    with pytest.raises(ValueError, match="'product' cannot be explained"):
        explain(Ensemble([Product()], [1.0], 2), X)
    with pytest.raises(ValueError, match="'square', which has no known function"):
        shape_function(Ensemble([Square(0)], [1.0], 2), 0)
    told = explain(Ensemble([Square(0), Stump(1, 0.0)], [1.0, 1.0], 2), X)
    assert_array_equal(told.contributions, [[4.0, 1.0]])


# -- trees ----------------------------------------------------------------------------------


def as_tree(nodes):
    """The same tree as a ranker: splits first, in the order in which they are met."""
    order, waiting = [], [0]
    while waiting:
        node = waiting.pop(0)
        order.append(node)
        if nodes.feature[node] >= 0:
            waiting += [nodes.left[node], nodes.right[node]]
    splits = [node for node in order if nodes.feature[node] >= 0]
    leaves = [node for node in order if nodes.feature[node] < 0]
    number = {node: j for j, node in enumerate(splits)}
    number |= {node: -1 - j for j, node in enumerate(leaves)}
    return Tree(
        tuple(int(nodes.feature[n]) for n in splits),
        tuple(float(nodes.threshold[n]) for n in splits),
        tuple(bool(nodes.missing_left[n]) for n in splits),
        tuple(number[nodes.left[n]] for n in splits),
        tuple(number[nodes.right[n]] for n in splits),
        tuple(float(nodes.value[n]) for n in leaves),
        tuple(int(nodes.cover[n]) for n in leaves),
        (1.0,) * len(splits),
        tuple(nodes.categories[n] for n in splits) if any(nodes.categories) else (),
    )


FOUR = st.lists(
    st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0, math.nan]), min_size=4, max_size=4),
    min_size=1, max_size=4,
)  # fmt: skip


@given(st.lists(trees(), min_size=1, max_size=3), ensembles(4), FOUR, FOUR)
def test_trees_and_the_rest_add_up_exactly(grown, ensemble, rows, others):
    ensemble = Ensemble(
        [*ensemble.weak_rankers, *map(as_tree, grown)],
        [*ensemble.weights, *(0.1 * (1 + j) for j in range(len(grown)))],
        4,
    )
    X, Z = rows_for(ensemble, rows), rows_for(ensemble, others)
    scores = ensemble.predict(X)
    for told in (explain(ensemble, X), explain(ensemble, X, background=Z)):
        assert_adds_up(told, scores)

    def worth(known):
        return np.mean(ensemble.predict(np.array([mixed(X[0], z, known) for z in Z])))

    assert_allclose(told.contributions[0], shapley(worth, 4), atol=1e-11)
    assert explain(ensemble, X).method == "path"
    pair = explain_pair(ensemble, np.vstack([X[:1], Z[:1]]), 0, 1)
    alike = {f"x{j}" for j in range(4) if np.array_equal(X[0, j], Z[0, j], equal_nan=True)}
    assert not alike & set(pair.names)


# -- pairs -----------------------------------------------------------------------------------


@given(ensembles(), some_rows, st.integers(0, 7), st.integers(0, 7))
def test_a_pair_adds_up_to_the_difference_exactly(ensemble, rows, i, k):
    X = rows_for(ensemble, rows)
    i, k = i % len(X), k % len(X)
    told = explain_pair(ensemble, X, i, k)
    scores = ensemble.predict(X)
    assert told.difference == scores[i] - scores[k]
    total = 0.0
    for term in (*told.contributions.tolist(), told.rounding):
        total += term
    assert total == told.difference
    assert abs(told.rounding) <= 1e-14 * max([*map(abs, told.contributions), *map(abs, scores)])
    sizes = np.abs(told.contributions)
    assert np.all(sizes[:-1] >= sizes[1:])
    assert np.all(sizes > 0)


def test_features_in_which_two_rows_agree_say_nothing():
    ensemble = Ensemble([Stump(0, 0.0), Stump(1, 0.0)], [1.0, 2.0], 2)
    told = explain_pair(ensemble, np.array([[1.0, 1.0], [1.0, -1.0]]), 1, 0)
    assert told.names == ("x1",)
    assert "row 1 ranks below row 0" in str(told)
    assert "ranks level with" in str(explain_pair(ensemble, np.ones((2, 2)), 0, 1))
    assert "<td>x1</td>" in told._repr_html_()
    assert json.loads(json.dumps(told.to_dict()))["features"][0] == {
        "name": "x1", "contribution": -2.0, "upper_value": -1.0, "lower_value": 1.0,
    }  # fmt: skip


@pytest.mark.parametrize("row", [2, -3, 0.0, True, "a"])
def test_rows_that_are_not_there_are_refused(row):
    ensemble = Ensemble([Stump(0, 0.0)], [1.0], 1)
    with pytest.raises(ValueError, match="there is no row"):
        explain_pair(ensemble, np.zeros((2, 1)), 0, row)


# -- the estimator's face --------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    sample = search_results(30, features=6, informative=3, per_query=12, random_state=0)
    family = Stumps() | Features()
    model = RankBoost(weak_rankers=family, n_estimators=60).fit(sample.X, sample.y, qid=sample.qid)
    return model, sample.X


@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_array], ids=["dense", "sparse"])
def test_a_fitted_model_explains_itself(fitted, make):
    model, X = fitted
    told = model.explain(make(X))
    assert_adds_up(told, model.predict(X))
    assert told.method == "additive"
    for j in range(X.shape[1]):
        column = X[:, j].astype(np.float64)
        assert_allclose(told.contributions[:, j], model.shape_function(j)(column), atol=1e-12)
    against = model.explain(make(X), background=make(X))
    assert against.method == "background"
    assert_allclose(against.contributions.mean(axis=0), 0, atol=1e-12)
    assert json.loads(json.dumps(against.to_dict()))["baseline"] == against.baseline
    assert str(told).startswith(f"{len(X)} rows, baseline 0")
    assert_allclose(told.importances(), np.abs(told.contributions).mean(axis=0))


def test_names_go_in_and_out():
    frame = pd.DataFrame({"title": [0.0, 1.0, 2.0, 3.0], "length": [3.0, 1.0, 2.0, 9.0]})
    model = RankBoost(n_estimators=3).fit(frame, [0, 0, 1, 1])
    assert model.explain(frame).names == ("title", "length")
    assert model.shape_function("title").name == "title"
    assert model.shape_function("title").feature == 0
    assert model.explain_pair(frame, 3, 0).names[0] == "title"
    with pytest.raises(ValueError, match="no feature 'body'; there are title, length"):
        model.shape_function("body")


# -- terms -----------------------------------------------------------------------------------


@given(st.lists(terms(), min_size=1, max_size=3), TERM_ROWS, TERM_ROWS)
def test_shapley_values_of_terms_are_those_of_the_definition(found, rows, background):
    X, Z = np.array(rows[:3]), np.array(background[:4])
    ensemble = Ensemble([*found, Constant()], [*[1.0, -0.5, 2.0][: len(found)], 0.25], 3)
    told = explain(ensemble, X, background=Z)
    assert_adds_up_nearly(told, ensemble.predict(X))
    for row, contributions in zip(X, told.contributions, strict=True):

        def worth(known, row=row):
            return np.mean([ensemble.predict(mixed(row, z, known)[None])[0] for z in Z])

        assert_allclose(contributions, shapley(worth, 3), atol=1e-12)
    plain = explain(ensemble, X)
    assert plain.baseline == 0.25
    assert_adds_up_nearly(plain, ensemble.predict(X))


def assert_adds_up_nearly(told, scores):
    assert_array_equal(told.scores, scores)
    assert_allclose(told.total(), scores, atol=1e-13)
    assert np.abs(told.rounding).max() < 1e-13


@given(st.lists(terms(), min_size=1, max_size=3, unique_by=lambda term: term.features), TERM_ROWS)
def test_pairs_of_rows_are_explained_with_pair_terms_named(found, rows):
    X = np.array([*rows, *rows[:1]])
    ensemble = Ensemble(found, [1.0] * len(found), 3)
    told = explain_pair(ensemble, X, 0, len(X) // 2, ["a", "b", "c"])
    assert_allclose(told.contributions.sum() + told.rounding, told.difference, atol=1e-13)
    for name, contribution in zip(told.names, told.contributions, strict=True):
        parts = tuple("abc".index(each) for each in name.split(" x "))
        mine = [t for t in found if t.features == parts]
        if len(parts) == 2:
            values = mine[0](X[[0, len(X) // 2]])
            assert_allclose(contribution, values[0] - values[1], atol=1e-13)
    assert told.to_dict()["difference"] == told.difference
    assert str(told)


def test_rows_of_a_data_frame_are_known_by_their_index():
    frame = pd.DataFrame({"a": [3.0, 1.0, 2.0], "b": [0.0, 1.0, 0.5]}, index=["Ann", "Bob", "Cy"])
    model = RankBoost(n_estimators=3, step="bound").fit(frame, [1, 0, 0])
    told = model.explain_pair(frame, 0, 1)
    assert str(told).startswith("row Ann ranks above row Bob: ")
    assert told.to_dict()["labels"] == ["Ann", "Bob"]
    assert told.to_frame().columns.tolist() == ["row Ann", "row Bob", "contribution"]
    assert told.to_frame().loc["a", "row Ann"] == 3.0
    assert "row 0 ranks above row 1" in str(model.explain_pair(frame.reset_index(drop=True), 0, 1))
    assert "labels" not in model.explain_pair(frame.reset_index(drop=True), 0, 1).to_dict()


def test_contributions_are_a_data_frame():
    X = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "b": [3.0, 1.0, 2.0, 0.0]})
    explained = RankBoost(n_estimators=3).fit(X, [0, 1, 0, 1]).explain(X)
    frame = explained.to_frame()
    assert list(frame.columns) == ["a", "b"]
    assert np.array_equal(frame.to_numpy(), explained.contributions)


def test_categories_and_both_values_of_a_pair_are_read_as_texts():
    cells = tuple(map(float, range(9)))
    pair = Term((0, 1), ((0.0, 1.0), (1.5,)), (True, False), cells, (1,) * 9)
    curve = Term((0,), ((0.0, 1.0),), (True,), (1.0, 2.0, 3.0), (1,) * 3)
    model = Ensemble([pair, curve, Stump(1, 3.0)], [1.0] * 3, 2)
    X = np.array([[0.0, 2.0], [1.0, np.nan], [np.nan, 4.0]])
    names, known = ["color", "size"], {"color": ["red", "blue"]}
    why = explain_pair(model, X, 0, 1, names, categories=known)
    told = dict(zip(why.names, why.shown, strict=True))
    assert told == {"color x size": ("red, 2", "blue, nan"), "color": ("red", "blue")}
    why = explain_pair(model, X, 0, 2, names, categories=known)
    frame = why.to_frame()
    assert list(frame.loc["color x size"])[:2] == ["red, 2", "nan, 4"]
    assert list(frame.loc["size"])[:2] == [2.0, 4.0]
    assert "red, 2" in str(why)
    assert "<td>red, 2</td><td>nan, 4</td>" in why._repr_html_()
    plain = explain_pair(model, X, 0, 2, names)
    assert dict(zip(plain.names, plain.shown, strict=True))["color x size"] == ("0, 2", "nan, 4")
