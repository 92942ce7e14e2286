"""Terms: scoring from raw values, codes and by the kernel; validation."""

import math

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from naive_trees import term_value
from precede.engine.execution import Context
from precede.engine.table import Table
from precede.model import Ensemble
from precede.results import plain
from precede.weak_rankers.base import weak_ranker_from_dict
from precede.weak_rankers.terms import Term, TermTables, bins_of_codes

NUMBERS = st.floats(-5, 5).map(lambda x: round(x, 1))


@st.composite
def terms(draw, features=3):
    used = draw(st.lists(st.integers(0, features - 1), min_size=1, max_size=2, unique=True))
    named = [draw(st.booleans()) for _ in used]
    cuts = [
        sorted(draw(st.sets(st.integers(0, 6).map(float) if n else NUMBERS, max_size=4)))
        for n in named
    ]
    cells = math.prod(len(c) + (1 if n else 2) for c, n in zip(cuts, named, strict=True))
    values = draw(st.lists(NUMBERS, min_size=cells, max_size=cells))
    counts = draw(st.lists(st.integers(0, 9), min_size=cells, max_size=cells))
    return Term(tuple(used), tuple(map(tuple, cuts)), tuple(named), tuple(values), tuple(counts))


ROWS = st.lists(
    st.lists(st.one_of(NUMBERS, st.integers(-1, 7).map(float), st.just(math.nan)),
             min_size=3, max_size=3), min_size=1, max_size=20,
)  # fmt: skip


@given(st.lists(terms(), min_size=1, max_size=4), ROWS)
def test_scores_equal_those_of_the_naive_lookup(found, rows):
    X = np.array(rows)
    weights = [1.0, -0.5, 2.0, 1.5][: len(found)]
    total = np.zeros(len(X))
    for term, weight in zip(found, weights, strict=True):
        slow = np.array([term_value(term, row) for row in rows])
        assert_array_equal(term(X), slow)
        total = total + weight * slow
    assert_array_equal(Ensemble(found, weights, 3).predict(X), total)
    with Context(3) as context:
        scores = np.zeros(len(X))
        TermTables(found, weights).add_to(scores, np.asfortranarray(X), context)
    assert_array_equal(scores, total)


@given(terms())
def test_a_term_survives_plain_data(term):
    assert weak_ranker_from_dict(plain(term.to_dict())) == term
    again = Ensemble.from_dict(Ensemble([term], [2.0], 3).to_dict())
    assert again.weak_rankers == [term]


def test_values_from_codes_are_those_from_rows():
    generator = np.random.default_rng(0)
    X = np.column_stack([generator.normal(size=300), generator.integers(0, 9, 300)])
    X[::7] = np.nan
    table = Table.build(X, categorical=[1])
    cuts = tuple(table.bins.cuts[0][[3, 50, 200]]), (2.0, 5.0)
    term = Term((0, 1), cuts, (False, True), tuple(generator.normal(size=15)), (1,) * 15)
    assert_array_equal(term.on(table), term(X))
    between = float(table.bins.cuts[0][3] / 2 + table.bins.cuts[0][4] / 2)
    finer = Term((0,), ((between,),), (False,), (1.0, 2.0, 3.0), (1,) * 3)
    assert bins_of_codes((between,), False, table.bins, 0) is None
    assert_array_equal(finer.on(table), finer(X))


def test_sparse_rows_are_read():
    term = Term((0, 2), ((0.5,), (1.5,)), (False, False), tuple(range(9)), (1,) * 9)
    X = np.array([[0.0, 9, 2], [1, 9, 0], [0, 0, 0]])
    assert_array_equal(term(scipy.sparse.csr_matrix(X)), term(X))


GOOD = dict(features=(0,), cuts=((1.0,),), categorical=(False,), values=(1, 2, 3), counts=(1, 1, 1))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"features": ()}, "one feature or two"),
        ({"features": (0, 0), "cuts": ((), ()), "categorical": (0, 0)}, "twice"),
        ({"features": (-1,)}, "negative"),
        ({"cuts": ((2.0, 1.0),)}, "must rise"),
        ({"cuts": ((math.inf,),)}, "not finite"),
        ({"values": (1, 2)}, "3 cells"),
        ({"values": (1, 2, math.inf)}, "not finite"),
        ({"values": (1, 2, "x")}, "a wrong kind of value"),
        ({"values": 3}, "made of lists"),
        ({"counts": (1, 1, -1)}, "impossible number"),
        ({"errors": (1.0,)}, "3 cells"),
        ({"categorical": (True,), "cuts": ((0.5,),), "values": (1, 2), "counts": (1, 1)}, "whole"),
    ],
)
def test_invalid_terms_are_rejected(change, told):
    Term(**GOOD)
    with pytest.raises(ValueError, match=told):
        Term(**GOOD | change)


def test_a_model_file_with_a_term_of_a_missing_feature_is_rejected():
    fields = Ensemble([Term(**GOOD)], [1.0], 1).to_dict()
    fields["weak_rankers"][0]["features"] = [7]
    with pytest.raises(ValueError, match="uses feature 7"):
        Ensemble.from_dict(fields)
