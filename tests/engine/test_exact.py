"""Exact sums, tie breaking and hashes: the same bits for any order and number of threads."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from precede.engine.exact import (
    TIE,
    TIE_OF_DECREASES,
    TIE_UNITS,
    exact_sum,
    first_tied,
    hash_keys,
    hash_seeds,
    least_tied,
    least_tied_kernel,
    splitmix64,
    sums_at,
)
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


# -- tie breaking -----------------------------------------------------------------------------


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


# -- hashes -----------------------------------------------------------------------------------


MASK = 2**64 - 1


def splitmix(key):
    """Apply the finalizer of splitmix64 with Python integers."""
    key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    key = (key ^ (key >> 27)) * 0x94D049BB133111EB & MASK
    return key ^ (key >> 31)


def test_the_first_number_of_splitmix64():
    """For the state 0, as printed by the reference implementation."""
    assert int(hash_keys(np.zeros(1, np.uint64), 0)[0]) == 0xE220A8397B1DCDAF


def test_keys_equal_those_of_a_loop_in_python():
    keys = np.random.default_rng(0).integers(0, 2**64, 50, np.uint64)
    assert splitmix64(keys).tolist() == [splitmix(int(key)) for key in keys]
    numbers = 7, 0, 2**40
    wanted = []
    for key in keys.tolist():
        mixed = key
        for number in numbers:
            mixed = splitmix((mixed + (number + 1) * 0x9E3779B97F4A7C15) & MASK)
        wanted.append(mixed)
    before = keys.copy()
    assert hash_keys(keys, *numbers).tolist() == wanted
    np.testing.assert_array_equal(keys, before)
    assert hash_seeds(0, 1).tolist() == [0x9E3779B97F4A7C15, 2 * 0x9E3779B97F4A7C15 & MASK]


def test_hashes_of_consecutive_keys_are_uniform():
    """Hashes of the keys 0, 1, 2, ... are uniform (Kolmogorov-Smirnov)."""
    chance = (hash_keys(np.arange(100_000, dtype=np.uint64), 3, 1) >> np.uint64(11)) / 2.0**53
    ends = np.sort(chance)
    gap = np.abs(ends - (np.arange(ends.size) + 0.5) / ends.size).max()
    assert gap < 1.95 / np.sqrt(ends.size)  # p = 0.001
    other = (hash_keys(np.arange(100_000, dtype=np.uint64), 3, 2) >> np.uint64(11)) / 2.0**53
    assert abs(np.corrcoef(chance, other)[0, 1]) < 0.01
