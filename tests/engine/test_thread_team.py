"""Every task is run exactly once, whatever the number of threads and however late they join."""

import threading

import numpy as np
import pytest
from numba import njit

from precede.engine.execution import add, load, new_control_block, sched_yield, store


@njit(nogil=True)
def run_tasks(control, runs):
    while True:
        word = load(control, 0)
        if (word & 0xFFFF) >= ((word >> 16) & 0xFFFF):
            return
        word = add(control, 0, 1)
        number, tasks = word & 0xFFFF, (word >> 16) & 0xFFFF
        if number >= tasks:
            return
        runs[word >> 32, number] += 1
        add(control, 8, 1)


@njit(nogil=True)
def lead(control, runs, tasks):
    for phase in range(runs.shape[0]):
        store(control, 8, 0)
        store(control, 0, (phase << 32) | (tasks << 16))
        run_tasks(control, runs)
        while load(control, 8) < tasks:
            sched_yield()


@njit(nogil=True)
def help_leader(control, runs):
    while load(control, 16) == 0:
        run_tasks(control, runs)
        sched_yield()


@pytest.mark.parametrize("helpers", [0, 1, 3])
@pytest.mark.parametrize("tasks", [0, 1, 7])
def test_every_task_of_every_phase_is_run_once(helpers, tasks):
    control, runs = new_control_block(), np.zeros((3000, 7), np.int64)
    threads = [threading.Thread(target=help_leader, args=(control, runs)) for _ in range(helpers)]
    for thread in threads:
        thread.start()
    lead(control, runs, tasks)
    control[16] = 1
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert (runs[:, :tasks] == 1).all()
    assert not runs[:, tasks:].any()


def test_a_helper_that_joins_after_the_last_task_returns_at_once():
    control, runs = new_control_block(), np.zeros((5, 2), np.int64)
    lead(control, runs, 2)
    control[16] = 1
    help_leader(control, runs)
    assert (runs == 1).all()
