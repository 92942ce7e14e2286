"""Functions of two features: values, labels and plain data."""

import json
import math

import numpy as np
from hypothesis import given
from numpy.testing import assert_array_equal

from precede.explain.contributions import pair_function
from precede.weak_rankers.terms import Term
from weak_rankers.test_terms import ROWS, terms


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
