"""Tasks are done once each, however many threads take them and whoever comes late."""

import threading

import numpy as np
import pytest
from numba import njit

from precede.engine.thread_team import add, give_way, load, new_control_block, store


@njit(nogil=True)
def take(post, done):
    while True:
        word = load(post, 0)
        if (word & 0xFFFF) >= ((word >> 16) & 0xFFFF):
            return
        word = add(post, 0, 1)
        number, tasks = word & 0xFFFF, (word >> 16) & 0xFFFF
        if number >= tasks:
            return
        done[word >> 32, number] += 1
        add(post, 8, 1)


@njit(nogil=True)
def lead(post, done, tasks):
    for phase in range(done.shape[0]):
        store(post, 8, 0)
        store(post, 0, (phase << 32) | (tasks << 16))
        take(post, done)
        while load(post, 8) < tasks:
            give_way()


@njit(nogil=True)
def follow(post, done):
    while load(post, 16) == 0:
        take(post, done)
        give_way()


@pytest.mark.parametrize("helpers", [0, 1, 3])
@pytest.mark.parametrize("tasks", [0, 1, 7])
def test_every_task_of_every_phase_is_done_once(helpers, tasks):
    post, done = new_control_block(), np.zeros((3000, 7), np.int64)
    threads = [threading.Thread(target=follow, args=(post, done)) for _ in range(helpers)]
    for thread in threads:
        thread.start()
    lead(post, done, tasks)
    post[16] = 1
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert (done[:, :tasks] == 1).all()
    assert not done[:, tasks:].any()


def test_who_comes_after_the_work_is_done_leaves_at_once():
    post, done = new_control_block(), np.zeros((5, 2), np.int64)
    lead(post, done, 2)
    post[16] = 1
    follow(post, done)
    assert (done == 1).all()
