"""RankLib, Solr and dumps: scores as search engines read them."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import format_readers as read
from exports.readers import SINGLE_ROWS, agreeable_models, close, fitted, run_python, stump_models
from precede import Stump
from precede.exports.parts import Parts
from precede.exports.search_engines import ranklib_text, solr_text, xgboost_dump_text
from precede.exports.source import python_text
from precede.exports.xgboost_model import xgboost_text
from precede.model import Ensemble
from precede.weak_rankers.columns import Column, Constant, Feature

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


@given(stump_models(), SINGLE_ROWS)
def test_ranklib_without_missing_values(ensemble, rows):
    X = np.nan_to_num(np.array(rows))
    text = ranklib_text(Parts.of(fitted(ensemble)), missing="zero")
    close(read.ranklib(text, X), ensemble.predict(X), ensemble)


@given(st.booleans().flatmap(agreeable_models), SINGLE_ROWS)
def test_readers_that_take_0_for_missing_get_what_agrees_with_it(ensemble, rows):
    """A stump that sends missing values elsewhere than 0 is refused; without one all is well."""
    X, parts = np.array(rows), Parts.of(fitted(ensemble))
    readers = {
        ranklib_text: read.ranklib,
        xgboost_dump_text: lambda text, X: read.xgboost_dump(text, X, parts.names, missing=False),
    }
    elsewhere = [r for r in ensemble.weak_rankers if r.missing != (r.threshold < 0)]
    for write, reader in readers.items():
        if elsewhere:
            with pytest.raises(ValueError, match="takes them for 0"):
                write(parts)
        else:
            close(reader(write(parts), X), ensemble.predict(X), ensemble)


@given(stump_models(), SINGLE_ROWS)
def test_the_dump_of_xgboost(ensemble, rows):
    X, parts = np.array(rows), Parts.of(fitted(ensemble))
    text = xgboost_dump_text(parts, missing="zero")
    scores = read.xgboost_dump(text, X, parts.names, missing=True)
    close(scores, ensemble.predict(X), ensemble)


@given(stump_models(), SINGLE_ROWS)
def test_solr_keeps_missing_values(ensemble, rows):
    X = np.array(rows)
    # Below 1e-6 in size, adding 1e-6 in single precision reaches not every number.
    X = np.where(np.abs(X) < 1e-4, 0.0, X)
    ensemble = Ensemble(
        [Stump(r.feature, r.threshold if abs(r.threshold) > 1e-4 else 0.0, r.missing)
         for r in ensemble.weak_rankers], ensemble.weights, 3,
    )  # fmt: skip
    parts = Parts.of(fitted(ensemble, ["a", "b", "c"]))
    close(read.solr(solr_text(parts), X), ensemble.predict(X), ensemble)
    filled = np.nan_to_num(X)
    old = solr_text(parts, missing="zero", name="mine")
    assert "missing" not in old
    assert json.loads(old)["name"] == "mine"
    close(read.solr(old, filled), ensemble.predict(filled), ensemble)


def test_solr_reads_thresholds_back_exactly():
    """Including those next to the values of the data: whole numbers, tenths, millions."""
    for value in (0.0, 1.0, 0.1, -7.0, 12345.0, 1e7, 0.001, 31.5, -0.25):
        stump = Ensemble([Stump(0, value)], [1.0], 1)
        text = solr_text(Parts.of(fitted(stump)))
        x = np.float32(value)
        near = np.array(
            [x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(-np.inf))]
        )
        assert_array_equal(read.solr(text, near[:, None]), stump.predict(near[:, None]))


def test_solr_holds_columns_as_a_linear_model():
    ensemble = Ensemble([Column(0), Column(2), Column(0)], [0.5, -2.0, 0.25], 3)
    X = np.array([[1.0, 9.0, 3.0], [-2.0, 9.0, 0.5]])
    text = solr_text(Parts.of(fitted(ensemble)))
    assert json.loads(text)["params"]["weights"] == {"x0": 0.75, "x2": -2.0}
    assert_allclose(read.solr(text, X[:, [0, 2]]), ensemble.predict(X))


@pytest.mark.parametrize("write", [ranklib_text, xgboost_dump_text, solr_text, xgboost_text])
def test_formats_of_trees_refuse_lines(write):
    ensemble = Ensemble([Stump(0, 0.0), Feature(1, 0.0, 1.0)], [1.0, 1.0], 2)
    with pytest.raises(ValueError, match="straight lines; use format='onnx'"):
        write(Parts.of(fitted(ensemble)))


def test_what_is_refused_is_named():
    parts = Parts.of(fitted(Ensemble([Stump(1, -0.5)], [1.0], 2), ["title", "age"]))
    with pytest.raises(ValueError, match=r"missing values of 'age' as below -0\.5, but RankLib"):
        ranklib_text(parts)
    parts = Parts.of(fitted(Ensemble([Stump(1, 2.0, missing=1)], [1.0], 2), ["title", "age"]))
    with pytest.raises(ValueError, match="'age' as above 2, but the plugin takes them for 0"):
        xgboost_dump_text(parts)


def test_a_model_of_constants_and_of_nothing():
    for ensemble in (Ensemble([Constant()], [0.5], 2), Ensemble([], [], 2)):
        parts, X = Parts.of(fitted(ensemble)), np.zeros((3, 2))
        expected = ensemble.predict(X)
        assert_allclose(read.ranklib(ranklib_text(parts), X), expected)
        assert_allclose(read.solr(solr_text(parts), X), expected)
        names = parts.names
        assert_allclose(
            read.xgboost_dump(xgboost_dump_text(parts), X, names, missing=True), expected
        )


def test_names_are_written_harmlessly():
    names = ["a<b & c", "two\nlines */ '\"\\"]
    ensemble = Ensemble([Stump(0, 0.5), Stump(1, 0.5)], [1.0, 2.0], 2)
    X = np.array([[1.0, 0.0], [1.0, 1.0]])
    parts = Parts.of(fitted(ensemble, names))
    assert_allclose(read.ranklib(ranklib_text(parts), X), [1.0, 3.0])
    assert_allclose(read.solr(solr_text(parts), X), [1.0, 3.0])
    module = run_python(python_text(fitted(ensemble, names)))
    assert module["NAMES"] == names
    assert module["scores"](X.tolist()) == [1.0, 3.0]
