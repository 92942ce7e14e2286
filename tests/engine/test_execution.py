"""Threads: their number, chunks of work, errors."""

import threading

import numba
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precede.engine.execution import Context, count_jobs


@pytest.mark.parametrize(("n_jobs", "expected"), [(1, 1), (3, 3), (17, 17)])
def test_a_number_of_jobs_is_a_number_of_threads(n_jobs, expected):
    assert count_jobs(n_jobs) == expected


def test_none_and_minus_one_mean_every_core_numba_may_use():
    cores = numba.config.NUMBA_NUM_THREADS
    assert count_jobs(None) == count_jobs(-1) == cores
    assert count_jobs(-2) == max(1, cores - 1)
    assert count_jobs(-1000) == 1


@pytest.mark.parametrize("n_jobs", [0, 1.5, True, False])
def test_invalid_numbers_of_threads_are_refused(n_jobs):
    with pytest.raises(ValueError, match=rf"n_jobs={n_jobs!r}.*-1 for all cores"):
        count_jobs(n_jobs)


@given(st.integers(0, 100), st.integers(1, 9))
def test_ranges_cover_everything_once(count, jobs):
    ranges = Context(jobs).split(count)
    assert [i for low, high in ranges for i in range(low, high)] == list(range(count))
    assert len(ranges) <= jobs


@pytest.mark.parametrize("jobs", [1, 2, 7])
def test_results_are_in_order(jobs):
    with Context(jobs) as context:
        parts = context.map(lambda low, high, shift: list(range(low + shift, high + shift)), 20, 5)
    assert [x for part in parts for x in part] == list(range(5, 25))


def test_small_work_stays_in_the_calling_thread():
    with Context(4) as context:
        parts = context.map(lambda low, high: threading.current_thread(), 100, threads=1)
    assert parts == [threading.current_thread()]


def test_large_work_is_split_into_chunks():
    with Context(3) as context:
        parts = context.map(lambda low, high: (low, high), 9)
    assert parts == [(0, 3), (3, 6), (6, 9)]


def test_an_error_in_a_thread_reaches_the_caller():
    def fail(low, high):
        if low > 0:
            raise OSError("the second part failed")

    with Context(2) as context, pytest.raises(OSError, match="the second part failed"):
        context.map(fail, 10)


def test_no_thread_is_left_behind():
    with Context(3) as context:
        found = context.map(lambda low, high: threading.current_thread(), 9)
        assert set(found) - {threading.current_thread()}
    assert not any(each.is_alive() for each in found if each is not threading.current_thread())


def test_a_context_can_be_entered_again():
    context = Context(2)
    for _ in range(2):
        with context:
            assert len(context.map(lambda low, high: None, 4)) == 2
