"""Sums with the same bits for any order of the terms and any number of threads."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precede.engine.exact import exact_sum, sums_at
from precede.engine.execution import MIN_PARALLEL_WORK, Context


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40), st.randoms())
def test_exact_sum_does_not_depend_on_the_order(values, random):
    shuffled = list(values)
    random.shuffle(shuffled)
    assert exact_sum(np.array(shuffled)) == exact_sum(np.array(values))


@given(st.lists(st.floats(width=64), max_size=40), st.integers(2, 5))
def test_exact_sum_does_not_depend_on_the_number_of_threads(values, jobs):
    with pytest.MonkeyPatch.context() as patch, Context(jobs) as context:
        patch.setitem(MIN_PARALLEL_WORK, "rows", 1)
        values = np.array(values, float)
        np.testing.assert_equal(exact_sum(values, context), exact_sum(values))


@given(st.lists(st.floats(-1e6, 1e6), max_size=40))
def test_exact_sum_is_the_sum(values):
    largest = max(map(abs, values), default=0.0)
    error = len(values) * largest * 2.0**-52
    assert abs(exact_sum(np.array(values, float)) - math.fsum(values)) <= error


def test_a_sum_that_overflows_is_infinite_without_a_warning():
    values = np.array([8.988465674311579e307, 8.98846567431158e307])
    with pytest.MonkeyPatch.context() as patch, Context(2) as context:
        patch.setitem(MIN_PARALLEL_WORK, "rows", 1)
        assert exact_sum(values, context) == exact_sum(values) == np.inf


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(-1e300, 1e300)), max_size=30), st.randoms())
def test_sums_at_an_index_are_exact_sums_in_any_order(given, random):
    """Each to the precision of its own values, however large those of others are."""
    shuffled = list(given)
    random.shuffle(shuffled)
    found, again = (
        sums_at(np.array([i for i, _ in each], int), np.array([v for _, v in each], float), 4)
        for each in (given, shuffled)
    )
    assert found.tobytes() == again.tobytes()
    assert found.tolist() == [
        exact_sum(np.array([v for i, v in given if i == k])) for k in range(4)
    ]


def test_a_sum_that_is_not_finite_leaves_the_others_alone():
    values = np.array([np.inf, 1.0, np.nan, 2.0, 1.0, 5e-324])
    found = sums_at(np.array([0, 0, 1, 1, 2, 3]), values, 5)
    np.testing.assert_equal(found, [np.inf, np.nan, 1.0, 5e-324, 0.0])
