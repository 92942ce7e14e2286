"""Functions of one feature and of two, and additive models as tables."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from exports.readers import FINITE, FOUR, only, stump_models
from precede import BoostedRanker, GlassBoxRanker, Stump, Tree
from precede.datasets import search_results
from precede.explain.shapes import additive_terms, feature_index, pair_function, shape_function
from precede.model import Ensemble
from precede.weak_rankers.columns import Column, Constant, Feature
from precede.weak_rankers.terms import Term
from test_model import ensembles
from weak_rankers.test_terms import ROWS, terms

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


@given(ensembles(), st.integers(0, 2), st.lists(st.floats(-3, 3), max_size=10))
def test_a_shape_function_is_what_the_feature_adds(ensemble, feature, values):
    x = np.array([*values, -1.0, 0.0, 0.1, 0.5, 2.0, 1e300, -1e300, np.nan])
    shape = shape_function(ensemble, feature)
    X = np.zeros((len(x), 3))
    X[:, feature] = x
    expected = np.zeros(len(x))
    for ranker, weight in zip(ensemble.weak_rankers, ensemble.weights, strict=True):
        if getattr(ranker, "feature", None) == feature:
            expected += weight * ranker(X)
    scale = np.where(np.abs(x) > 1e3, np.abs(x), 1.0)
    scale[np.isnan(x)] = 1.0
    assert_allclose(shape(x) / scale, expected / scale, atol=1e-12)


@given(st.lists(st.tuples(st.floats(-3, 3), st.sampled_from([-math.inf, 0.0, 0.1, 2.0]))))
def test_steps_of_stumps_are_the_contributions_to_the_bit(parts):
    ensemble = Ensemble([Stump(0, t) for _, t in parts], [w for w, _ in parts], 1)
    x = np.array([-5.0, 0.0, 0.05, 0.1, 2.0, 3.0, np.nan])
    shape = shape_function(ensemble, 0)
    assert shape.is_step
    assert_array_equal(shape(x), ensemble.predict(x[:, None]))
    assert len(shape.values) == len(shape.breakpoints) + 1
    assert np.all(np.isfinite(shape.breakpoints))


def test_a_shape_of_lines_and_steps():
    ensemble = Ensemble([Feature(0, 1.0, 3.0), Stump(0, 2.0, missing=1)], [2.0, 1.0], 1)
    shape = shape_function(ensemble, 0)
    assert_array_equal(shape.breakpoints, [1.0, 2.0, 3.0])
    assert_array_equal(shape.values, [0.0, 0.0, 2.0, 3.0])
    assert_array_equal(shape.slopes, [0.0, 1.0, 1.0, 0.0])
    assert shape.missing == 1.0
    assert shape.range == 3.0
    assert "4 linear pieces" in str(shape)
    assert shape_function(Ensemble([Column(0)], [1.0], 1), 0).range == math.inf
    assert np.isnan(shape_function(Ensemble([Column(0)], [1.0], 1), 0).missing)


def test_a_shape_is_a_data_frame():
    """Every piece with its ends, and what is added there, at a reference if there is a slope."""
    model = Ensemble([Stump(0, 1.0), Stump(0, 3.0), Column(1)], [2.0, -0.5, 2.0], n_features=2)
    frame = shape_function(model, 0, ["age", "debt"]).to_frame()
    assert frame.index.name == "age"
    assert list(frame.index) == ["up to 1", "1 to 3", "above 3", "missing"]
    assert frame["value"].tolist() == [0.0, 2.0, 1.5, 0.0]
    assert frame["up_to"].tolist()[:2] == frame["above"].tolist()[1:3] == [1.0, 3.0]
    line = shape_function(model, 1)
    assert str(line) == "x1: 1 linear piece; no missing values"
    assert line.to_frame()["slope"].tolist()[0] == 2.0


def test_categories_that_were_text_are_named_in_a_shape():
    colors = np.random.default_rng(0).choice(["red", "blue", "green"], 300)
    X = pd.DataFrame({"color": pd.Categorical(colors)})
    y = np.select([colors == "red", colors == "blue"], [2, 1], 0)
    model = GlassBoxRanker(n_estimators=5, validation_fraction=0, bags=2).fit(X, y)
    shape = model.shape_function("color")
    frame = shape.to_frame()
    assert list(frame.index) == ["blue", "green", "red", "other", "missing"]
    assert list(frame.columns) == ["value", "error"]
    assert frame["value"].tolist() == [*shape([0, 1, 2, 3]), shape.missing]
    assert_array_equal(shape(["red", "blue", None, "mauve"]), shape([2, 0, np.nan, 3]))
    scores = model.predict(X)
    assert_allclose(shape(colors) - shape(colors[0]), scores - scores[0], rtol=0, atol=1e-12)
    assert str(shape).startswith(f"color: {frame.value['blue']:.4g} blue, ")
    assert max(map(len, str(shape).splitlines())) <= 80
    assert json.loads(json.dumps(shape.to_dict()))["categories"] == ["blue", "green", "red"]


def test_categories_without_a_curve_have_their_names():
    generator = np.random.default_rng(0)
    X = pd.DataFrame({"color": pd.Categorical(generator.choice(["red", "blue"], 200)), "x": 0.0})
    X["x"] = generator.normal(size=200)
    model = GlassBoxRanker(n_estimators=3, validation_fraction=0, interactions=0)
    shape = model.fit(X, (X.x > 0).to_numpy().astype(int)).shape_function("color")
    assert shape.range == 0
    assert shape(["red", "blue"]).tolist() == [0.0, 0.0]
    assert list(shape.to_frame().index) == ["blue", "red", "other", "missing"]


def test_numbers_of_categories_are_not_taken_for_their_values():
    """A number says which category it is, so such shapes do not show the values."""
    stars = np.random.default_rng(0).choice([1, 2, 3], 300)
    X = pd.DataFrame({"stars": pd.Categorical(stars)})
    model = GlassBoxRanker(n_estimators=5, validation_fraction=0).fit(X, stars % 3)
    shape = model.shape_function("stars")
    assert shape.categories == ()
    assert "up to 0.5" in str(shape)


def test_a_feature_of_the_widest_range_has_a_shape():
    shape = shape_function(Ensemble([Feature(0, -1.7e308, 1.7e308)], [1.0], 1), 0)
    assert_allclose(shape([-1.7e308, 0.0, 1.7e308]), [0.0, 0.5, 1.0])


def test_a_feature_that_is_not_used_is_flat():
    shape = shape_function(Ensemble([Stump(1, 0.0)], [1.0], 2), 0, ["a", "b"])
    assert str(shape) == "a: 0 everywhere; 0 if missing"
    assert_array_equal(shape([3.0, np.nan]), [0.0, 0.0])


def test_a_long_shape_is_told_shortly():
    ensemble = Ensemble([Stump(0, float(t)) for t in range(20)], [1.0] * 20, 1)
    assert str(shape_function(ensemble, 0)).count(" up to ") == 6


def test_curves_are_shape_functions_and_pairs_stay_out_of_them():
    curve = Term((0,), ((1.0, 2.0),), (False,), (5.0, 6.0, 7.0, 8.0), (1,) * 4)
    named = Term((1,), ((0.0, 2.0),), (True,), (1.0, 2.0, 3.0), (1,) * 3, (0.1, 0.2, 0.3))
    pair = Term((0, 2), ((), ()), (False, False), (1.0,) * 4, (1,) * 4)
    ensemble = Ensemble([curve, named, pair, Constant()], [1.0, 2.0, 1.0, 3.0], 3)
    shape = shape_function(ensemble, 0)
    assert_array_equal(shape([1.0, 1.5, 9.0, math.nan]), [5, 6, 7, 8])
    assert shape.errors is None
    categories = shape_function(ensemble, 1)
    assert_array_equal(categories([0.0, 1.0, 2.0, 7.0, -1.0, math.nan]), [2, 6, 4, 6, 6, 6])
    assert_allclose(categories.errors, [0.6, 0.2, 0.6, 0.4, 0.6])
    assert_array_equal(shape_function(ensemble, 2)([0.0, 1.0]), [0, 0])
    mixed_shape = shape_function(Ensemble([curve, Stump(0, 1.5)], [1.0, 10.0], 3), 0)
    assert_array_equal(mixed_shape([1.0, 1.2, 1.6, 9.0, math.nan]), [5, 6, 16, 17, 8])


def test_a_model_of_trees_has_no_shape_functions():
    sample = search_results(10, features=4, per_query=10, informative=4, random_state=0)
    model = BoostedRanker(n_estimators=2).fit(sample.X, sample.y, qid=sample.qid)
    with pytest.raises(ValueError, match="of kind 'tree'"):
        model.shape_function(0)


def test_features_by_number():
    assert feature_index(-1, None, 3) == 2
    assert feature_index("x1", None, 3) == 1
    for wrong in (3, -4, 1.0, True, None):
        with pytest.raises(ValueError, match="use a name or 0 to 2"):
            feature_index(wrong, None, 3)


# -- functions of two features ---------------------------------------------------------------


@given(terms().filter(lambda term: len(term.features) == 2), ROWS)
def test_a_surface_gives_the_values_of_its_term(term, rows):
    X = np.array(rows)
    surface = pair_function(term, ["a", "b", "c"])
    one, other = term.features
    assert_array_equal(surface(X[:, one], X[:, other]), term(X))
    assert [len(surface.labels(axis)) for axis in (0, 1)] == list(term.shape)
    told = json.loads(json.dumps(surface.to_dict()))
    assert told["names"] == ["abc"[one], "abc"[other]]


def test_labels_say_what_a_bin_holds():
    term = Term((0, 1), ((1.0, 2.5), ()), (False, False), (0,) * 8, (1,) * 8, (0.5,) * 8)
    surface = pair_function(term, ["a", "b"])
    assert surface.labels(0) == ["up to 1", "1 to 2.5", "above 2.5", "missing"]
    assert surface.labels(1) == ["any", "missing"]
    assert surface.name == "a x b"
    assert_array_equal(surface.errors, np.full((4, 2), 0.5))
    assert surface(math.nan, 1.0)[0] == 0


def test_a_surface_is_a_data_frame():
    term = Term((0, 1), ((0.5,), (0, 1)), (False, True), tuple(range(9)), (1,) * 9)
    frame = pair_function(term, ["age", "job"], {"job": ["cook", "nurse"]}).to_frame()
    assert list(frame.index) == ["up to 0.5", "above 0.5", "missing"]
    assert list(frame.columns) == ["cook", "nurse", "other"]
    assert (frame.index.name, frame.columns.name) == ("age", "job")
    assert frame.loc["above 0.5", "nurse"] == 4


# -- additive models as tables ---------------------------------------------------------------


NAMED = Tree(
    (3, 3), (0.0, 0.0), (False, False), (-1, -2), (1, -3), (0.5, 0.25, -1.0), (1, 1, 1), (1.0, 1.0),
    ((0, 2), (5,)),
)  # fmt: skip
CURVED = Tree(
    (1, 1),
    (0.5, np.inf),
    (False, False),
    (-1, -2),
    (1, -3),
    (0.5, 0.25, -1.0),
    (1,) * 3,
    (1.0,) * 2,
)


@given(stump_models(FINITE | st.just(np.inf)), st.lists(terms(), max_size=3), FOUR)
def test_tables_add_up_to_the_scores(stumps, found, rows):
    flags = {f: n for t in found for f, n in zip(t.features, t.categorical, strict=True)}
    found = [t for t in found if all(flags[f] == n for f, n in zip(t.features, t.categorical,
                                                                   strict=True))]  # fmt: skip
    weak_rankers = [r for r in stumps.weak_rankers if not flags.get(r.feature)]
    weak_rankers += [*found, NAMED, Constant()]
    if not flags.get(1):
        weak_rankers.append(CURVED)
    ensemble = Ensemble(weak_rankers, [0.5 + j for j in range(len(weak_rankers))], 4)
    tables, constant = tables_of(ensemble)
    assert len({term.features for term in tables}) == len(tables)
    X = np.array([*rows, [0.0, np.inf, -np.inf, 5.0], [np.nan] * 4])
    total = constant + sum((term(X) for term in tables), np.zeros(len(X)))
    assert_allclose(total, ensemble.predict(X), rtol=1e-12, atol=1e-10)


@given(ensembles())
def test_stumps_and_constants_alone(ensemble):
    ensemble = only(ensemble, (Stump, Constant))
    X = np.array([[-2.0, 0.0, 0.1], [0.5, 7.0, np.nan], [-np.inf, np.inf, 2.0]])
    tables, constant = additive_terms(ensemble.decomposition)
    total = constant + sum((term(X) for term in tables), np.zeros(3))
    finite = np.isfinite(X).all(axis=1) | np.isnan(X).any(axis=1)
    assert_allclose(total[finite], ensemble.predict(X)[finite], atol=1e-12)


def tables_of(ensemble):
    return additive_terms(ensemble.decomposition)


def test_what_is_no_table_is_refused():
    both = Tree(
        (0, 1), (0.0, 0.0), (True, True), (1, -2), (-1, -3), (1.0,) * 3, (1,) * 3, (1.0,) * 2
    )
    for ranker in (both, Feature(0, 0.0, 1.0)):
        with pytest.raises(ValueError, match=f"kind '{ranker.name}' that is not a table"):
            tables_of(Ensemble([ranker], [1.0], 2))
    number = Term((0,), ((1.0,),), (False,), (1.0,) * 3, (1,) * 3)
    named = Term((0,), ((1.0,),), (True,), (1.0,) * 2, (1,) * 2)
    with pytest.raises(ValueError, match="feature 0 as a number and as categories"):
        tables_of(Ensemble([number, named], [1.0, 1.0], 1))
    mixed = Tree((0, 0), (0.0, 1.0), (True, True), (-1, -2), (1, -3), (1.0,) * 3, (1,) * 3,
                 (1.0,) * 2, ((1,), ()))  # fmt: skip
    with pytest.raises(ValueError, match="by thresholds and by categories"):
        tables_of(Ensemble([mixed], [1.0], 1))
