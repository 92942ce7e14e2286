"""Threads, forks and other processes: the same bits, nothing that hangs, no setting changed."""

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import joblib
import numba
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_limits

import apart
from precede import AdaBoostRanker, BoostedRanker, PushRanker, RankBoost, load
from precede.engine import execution
from precede.engine.execution import MAX_JOBS, Context, count_jobs

THREADS = 8
HERE = Path(__file__).parent


def in_a_process(mode, **environment):
    done = subprocess.run(
        [sys.executable, HERE / "apart.py", mode],
        env={**os.environ, **environment},
        capture_output=True, text=True, check=False, timeout=3 * apart.WAIT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


# -- threads of the caller -------------------------------------------------------------------


def all_at_once(function, count=THREADS):
    """Answers of as many calls, which all begin together."""
    together = threading.Barrier(count)

    def call(number):
        together.wait()
        return function(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(call, range(count)))


def estimators(n_jobs):
    return [
        RankBoost(n_estimators=5, n_jobs=n_jobs),
        PushRanker(n_estimators=3, n_jobs=n_jobs),
        BoostedRanker(n_estimators=3, n_jobs=n_jobs),
        AdaBoostRanker(n_estimators=3, n_jobs=n_jobs),
    ]


def fitted(model, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((3000, 6))
    y = (X[:, 0] + rng.standard_normal(3000) > 0).astype(int)
    qid = None if isinstance(model, AdaBoostRanker) else np.arange(3000) // 20
    return model.fit(X, y, qid=qid), X


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_predictions_at_once_are_those_made_alone(tmp_path, n_jobs):
    """Also the first ones of a model, which lay out its tables."""
    for model in estimators(n_jobs):
        known, X = fitted(model)
        X = np.tile(X, (3, 1))  # enough rows for threads
        alone = known.predict(X)
        known.save(tmp_path / "model.json")
        again = load(tmp_path / "model.json")
        for scores in all_at_once(lambda _, again=again, X=X: again.predict(X)):
            assert_array_equal(scores, alone)
        parts = all_at_once(lambda number, again=again, X=X: again.predict(X[number::THREADS]))
        for number, scores in enumerate(parts):
            assert_array_equal(scores, alone[number::THREADS])


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_fits_at_once_are_those_made_alone(tiny_thresholds, n_jobs):
    def scores(number):
        model = estimators(n_jobs)[number % 4]
        model, X = fitted(model, seed=number)
        return model.predict(X)

    alone = [scores(number) for number in range(THREADS)]
    for mine, other in zip(all_at_once(scores), alone, strict=True):
        assert_array_equal(mine, other)


# -- processes -------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that can fork")
@pytest.mark.parametrize("mode", ["fork", "others"])
def test_other_processes_fit_and_predict_the_same_bits(mode):
    """After a fork too, which only the thread that forks survives."""
    expected = apart.work()
    found = in_a_process(mode)
    assert len(found) >= 3
    for each in found:
        assert each == expected


@pytest.mark.parametrize("most", [0, 1, 2])
def test_a_fit_goes_on_with_the_threads_that_can_be_started(tiny_thresholds, monkeypatch, most):
    """Without memory for another thread: the same bits, and nobody waits for it."""
    expected = [fitted(model)[0].ensemble_.to_dict() for model in estimators(1)]
    start, running = threading.Thread.start, []

    def scarce(thread):
        if thread.name.startswith("precede"):
            if sum(each.is_alive() for each in running) >= most:
                raise RuntimeError("can't start new thread")
            running.append(thread)
        start(thread)

    found = []

    def fit():
        found.extend(fitted(model)[0].ensemble_.to_dict() for model in estimators(4))

    beside = threading.Thread(target=fit, daemon=True)
    monkeypatch.setattr(threading.Thread, "start", scarce)
    beside.start()
    beside.join(timeout=apart.WAIT)
    assert not beside.is_alive()
    assert found == expected
    assert bool(running) == (most > 0)


# -- limits ----------------------------------------------------------------------------------


def test_one_job_starts_no_thread(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a thread was started")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(AssertionError, match="started"):  # the trap works
        Context(2).run(lambda low, high: None, 10)
    X, y, qid = apart.problem()
    for model in apart.models(1).values():
        model.fit(X, y, qid=qid).predict(X)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted in /proc")
def test_one_job_starts_no_thread_of_a_library_either():
    found = in_a_process("one job")
    assert len(found["during"]) == 5
    assert max(*found["during"], found["after"]) <= found["before"]


@pytest.mark.parametrize("variable", ["NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "LOKY_MAX_CPU_COUNT"])
def test_the_environment_limits_the_threads(variable):
    assert in_a_process("jobs", **{variable: "1"}) == 1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs affinities")
def test_the_affinity_limits_the_threads():
    mine = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(mine)})
        assert count_jobs(None) == count_jobs(-1) == count_jobs(-2) == 1
        assert count_jobs(3) == 3  # who asks for three gets three
    finally:
        os.sched_setaffinity(0, mine)


def test_the_quota_of_a_container_limits_the_threads(monkeypatch):
    monkeypatch.setattr(joblib, "cpu_count", lambda: 1)
    execution._processors.cache_clear()
    try:
        assert count_jobs(None) == 1
    finally:
        execution._processors.cache_clear()


def test_threadpoolctl_and_numba_limit_the_threads(monkeypatch):
    with threadpool_limits(1):
        assert count_jobs(None) == 1
    with threadpool_limits(1, user_api="openmp"):
        assert count_jobs(-1) == 1
    free = count_jobs(None)
    with threadpool_limits(1, user_api="blas"):  # no work of ours is BLAS's
        assert count_jobs(None) == free
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 1)
    assert count_jobs(None) == 1


@pytest.mark.parametrize("n_jobs", [MAX_JOBS + 1, 10**9, 10**100])
def test_more_threads_than_any_machine_has_are_refused(n_jobs):
    with pytest.raises(ValueError, match="more than 4096 threads; use -1"):
        count_jobs(n_jobs)


def test_nothing_of_the_caller_is_changed():
    """Thread limits, environment, warnings, errors, random draws, signals: all as before."""
    for before, after in in_a_process("settings"):
        assert before["pools"]
        assert after == before
