"""Tie breaking of integers and floats."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import naive
from precede.engine.exact import (
    TIE,
    TIE_OF_DECREASES,
    TIE_UNITS,
    first_tied,
    least_tied,
    least_tied_kernel,
)


@given(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=8), st.data())
def test_the_first_tied_candidate_is_that_of_the_naive_twin(worth, data):
    # Values close to the largest, some of which tie with it.
    near = data.draw(st.lists(st.sampled_from([2.0**-45, 2.0**-41, 2.0**-39, 1e-3]), max_size=4))
    values = [*(max(worth) * (1 - by) for by in near), *worth]
    for tolerance in (TIE, TIE_OF_DECREASES):
        assert first_tied(values, tolerance) == naive.first_of_the_best(values, tolerance)


@given(st.integers(0, 2**62))
def test_integers_tie_as_numbers_do_but_for_rounding(most):
    least = least_tied(most)
    assert most - least >= TIE_UNITS
    assert abs((most - least - TIE_UNITS) - most * TIE) <= 1
    assert least_tied_kernel(np.int64(most)) == least
