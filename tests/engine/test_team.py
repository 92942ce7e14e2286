"""Kernels shared by threads that stay in compiled code."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from precede.engine import team
from precede.engine.execution import Context
from precede.engine.team import (
    MAX_WORDS,
    STOP,
    add,
    new_control_block,
    raise_to,
    serve,
    share,
)


@njit
def count_visits(low, high, visits, calls):
    for row in range(low, high):
        visits[row] += 1
    add(calls, 0, 1)


@njit
def fail_on_the_last(low, high, last):
    if high == last:
        raise MemoryError


@njit
def use_every_kind(low, high, floats, flag, nothing, table, both, records, total):
    for row in range(low, high):
        value = floats[0][row] + table[row % table.shape[0], 1] + both[0] * both[1]
        value += records[0].number + (1.0 if flag else 0.0)
        add(total, 0, np.int64(value) + (0 if nothing is None else 1))


def run_with_helpers(count, tasks, helpers, kernel, *arguments, jobs=1):
    """Share a kernel, `jobs` times, with threads that serve the control block."""
    control, data = new_control_block(tasks), np.zeros(MAX_WORDS, np.int64)
    threads = [
        threading.Thread(target=serve, args=(control, number), daemon=True)
        for number in range(1, helpers + 1)
    ]
    for thread in threads:
        thread.start()
    try:
        for _ in range(jobs):
            share(kernel, count, tasks, control, data, *arguments)
    finally:
        control[STOP] = 1
        for thread in threads:
            thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("helpers", [0, 1, 3, 9])
@pytest.mark.parametrize("tasks", [1, 2, 7])
def test_every_row_is_visited_once_per_job(helpers, tasks):
    visits, calls = np.zeros(100, np.int64), np.zeros(1, np.int64)
    run_with_helpers(visits.size, tasks, helpers, count_visits, visits, calls, jobs=500)
    assert (visits == 500).all()
    assert calls[0] == 500 * tasks


@given(count=st.integers(0, 50), jobs=st.integers(1, 6), threads=st.none() | st.integers(1, 9))
def test_a_context_covers_every_row_once(count, jobs, threads):
    visits, calls = np.zeros(count, np.int64), np.zeros(1, np.int64)
    with Context(jobs) as context:
        for _ in range(3):
            context.run(count_visits, count, visits, calls, threads=threads)
    assert (visits == 3).all()


def test_arguments_of_every_kind_reach_the_kernel():
    records, total = np.array([(4,)], [("number", "i8")]), np.zeros(1, np.int64)
    table = np.arange(10).reshape(5, 2).T[::-1]  # neither C nor Fortran order
    given = (np.arange(8.0), np.ones(2)), True, None, table, (2, 0.5), records, total
    run_with_helpers(8, 4, 2, use_every_kind, *given)
    rows = zip(range(8), table[[0, 1] * 4, 1].tolist(), strict=True)
    assert total[0] == sum(row + cell + 1 + 4 + 1 for row, cell in rows)


def test_one_kernel_with_arguments_of_several_types():
    for kind in (np.int64, np.int32, np.float64, np.uint8):
        visits, calls = np.zeros(10, kind), np.zeros(1, np.int64)
        run_with_helpers(10, 3, 1, count_visits, visits, calls)
        assert (visits == 1).all()


def test_a_kernel_that_fails_on_one_thread_is_an_error():
    with pytest.raises(RuntimeError, match="fail_on_the_last failed on one of several threads"):
        run_with_helpers(10, 2, 1, fail_on_the_last, 10)


def test_a_kernel_with_a_result_is_refused():
    @njit
    def count(low, high):
        return high - low

    with pytest.raises(AssertionError, match="count must return nothing"):
        share(count, 2, 2, new_control_block(2), np.zeros(MAX_WORDS, np.int64))


def test_helpers_that_come_late_or_leave_early_change_nothing(monkeypatch):
    visits, calls = np.zeros(1000, np.int64), np.zeros(1, np.int64)
    with Context(4) as context:
        for _ in range(20):
            context.run(count_visits, visits.size, visits, calls)
            time.sleep(0.02)  # long enough for helpers to leave
    assert (visits == 20).all()
    assert calls[0] == 80


def test_functions_of_python_and_kernels_take_turns():
    visits, calls = np.zeros(1000, np.int64), np.zeros(1, np.int64)
    with Context(3) as context:
        for _ in range(10):
            context.run(count_visits, visits.size, visits, calls)
            parts = context.map(lambda low, high: high - low, 30)
            assert parts == [10, 10, 10]
    assert (visits == 10).all()


def test_no_helper_is_left_behind():
    before = threading.active_count()
    with Context(4) as context:
        context.run(count_visits, 100, np.zeros(100, np.int64), np.zeros(1, np.int64))
        assert threading.active_count() == before + 3
    assert threading.active_count() == before


def test_an_exception_between_kernels_stops_the_helpers():
    def fail(low, high):
        raise KeyboardInterrupt

    before = threading.active_count()
    with Context(4) as context:
        context.run(count_visits, 100, np.zeros(100, np.int64), np.zeros(1, np.int64))
        with pytest.raises(KeyboardInterrupt):
            context.map(fail, 1)
    assert threading.active_count() == before


@pytest.mark.parametrize("threads", [1, 4])
def test_threads_share_words(threads):
    values = np.array([5, -3, 9, 2] * 100)

    @njit
    def largest(low, high, values, words):
        for row in range(low, high):
            raise_to(words, 0, values[row])
            add(words, 1, values[row])

    words = np.zeros(2, np.int64)
    with Context(threads) as context:
        context.run(largest, values.size, values, words)
    assert words.tolist() == [9, values.sum()]


def test_types_have_numbers_of_their_own():
    kinds = [(team.numba.typeof(each),) for each in (1, 1.0, True, np.zeros(1), np.zeros((1, 1)))]
    assert len({team._number_of(each) for each in kinds}) == len(kinds)


FIT = """
import os, sys, time
import numpy as np
from precede import BoostedRanker

rng = np.random.default_rng(0)
X, y = rng.random((60_000, 20)), rng.integers(0, 3, 60_000)
model = BoostedRanker(n_estimators={rounds}, n_jobs=4, verbose=0)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_control_c_ends_a_fit_on_several_threads():
    code = FIT.format(rounds=100_000) + (
        "from precede.boosting.loop import Progress\n"
        "def ready(progress):\n"
        "    if progress.round == 3:\n"
        "        print('ready', flush=True)\n"
        "model.set_params(callbacks=[ready]).fit(X, y, qid=np.arange(60_000) // 20)\n"
        "print(len(model.history_), flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert int(rest) >= 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_forked_after_a_fit_fits_as_well():
    code = FIT.format(rounds=3) + (
        "fit = lambda: model.fit(X, y, qid=np.arange(60_000) // 20).predict(X[:5]).tolist()\n"
        "here = fit()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(0 if fit() == here else 1)\n"
        "sys.exit(os.waitpid(child, 0)[1])\n"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=180, check=False)
    assert done.returncode == 0
