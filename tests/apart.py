"""Fits and predictions in processes of their own: python tests/apart.py MODE prints JSON.

Tests start this file, so that what goes wrong (a process that hangs, threads that stay) ends with
it. The data are large enough for every algorithm to use threads.
"""

import hashlib
import json
import multiprocessing
import os
import random
import signal
import sys
import warnings
from pathlib import Path

import numpy as np

WAIT = 150  # seconds for a process that takes two or three


def problem(rows=33_000, features=16):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, features)).astype(np.float32)
    X[rng.random(rows) < 0.1, 1] = np.nan
    y = (X[:, 0] + X[:, 2] + rng.standard_normal(rows) > 0.5).astype(int)
    return X, y, np.arange(rows) // 20


def models(n_jobs):
    from precede import BoostedRanker, PushRanker, RankBoost

    return {
        "stumps": RankBoost(n_estimators=2, n_jobs=n_jobs),
        "push": PushRanker(n_estimators=1, n_jobs=n_jobs),
        "trees": BoostedRanker(n_estimators=2, num_leaves=4, n_jobs=n_jobs),
    }


def work(n_jobs=2):
    """Fit and predict; the digests of the scores."""
    X, y, qid = problem()
    return {
        name: hashlib.sha256(model.fit(X, y, qid=qid).predict(X).tobytes()).hexdigest()
        for name, model in models(n_jobs).items()
    }


# -- processes -------------------------------------------------------------------------------


def _answer(pipe):
    pipe.send(work())


def in_process(method):
    """The work in another process."""
    context = multiprocessing.get_context(method)
    here, there = context.Pipe()
    process = context.Process(target=_answer, args=(there,), daemon=True)
    process.start()
    answer = here.recv() if here.poll(WAIT) else "it hangs"
    if answer != "it hangs":
        process.join(WAIT)
    return answer


def in_a_fork():
    """The work in a fork of a process that has done it before and does it again."""
    return [work(), in_process("fork"), work()]


def in_loky():
    """The work by joblib's workers, two at once."""
    from joblib import Parallel, delayed

    return Parallel(n_jobs=2, timeout=WAIT)(delayed(work)() for _ in range(2))


# -- settings --------------------------------------------------------------------------------


def everything():
    """Every estimator, on few rows."""
    from precede import (
        AdaBoostRanker,
        BoostedRanker,
        ConvexRiskRanker,
        MultilabelRanker,
        PushRanker,
        QBRank,
        RankBoost,
        RankBoostPlus,
        SmoothMarginRanker,
    )

    X, y, qid = problem(200, 3)
    graded = [
        RankBoost, PushRanker, RankBoostPlus, ConvexRiskRanker, BoostedRanker, QBRank,
    ]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two rounds are few
        for estimator in graded:
            estimator(n_estimators=2).fit(X, y, qid=qid).predict(X)
        for estimator in (AdaBoostRanker, SmoothMarginRanker):
            estimator(n_estimators=2).fit(X, y).predict(X)
        MultilabelRanker(n_estimators=2).fit(X, np.stack([y, 1 - y], axis=1)).predict(X)


def settings():
    """What belongs to the caller, as text."""
    import locale

    import numba
    from threadpoolctl import threadpool_info

    return {
        "pools": sorted((each["filepath"], each["num_threads"]) for each in threadpool_info()),
        "numba": numba.get_num_threads(),
        "environment": dict(os.environ),
        "errors": np.geterr(),
        "numpy draws": hashlib.sha256(
            np.random.get_state()[1].tobytes()  # noqa: NPY002  (the state that is everybody's)
        ).hexdigest(),
        "draws": hashlib.sha256(repr(random.getstate()).encode()).hexdigest(),
        "filters": repr(warnings.filters),
        "interrupt": repr(signal.getsignal(signal.SIGINT)),
        "folder": str(Path.cwd()),
        "locale": locale.setlocale(locale.LC_ALL),
    }


def around_fits():
    """Settings before and after; limits that the caller has set must stay as well."""
    from threadpoolctl import threadpool_limits

    found = []
    everything()  # imports and compiles: that may add libraries
    settings()  # as does asking numba for its threads
    for limit in (None, 1):
        with threadpool_limits(limit):
            before = settings()
            everything()
            work(None)
            found.append((before, settings()))
    return found


def threads_of_one_job():
    """How many threads the process has before, during and after fits with n_jobs=1."""
    tasks = Path("/proc/self/task")
    learners = models(1).values()  # imports libraries, which may have threads of their own
    before = len(list(tasks.iterdir()))
    seen = []
    X, y, qid = problem()
    for model in learners:
        model.set_params(callbacks=[lambda _: seen.append(len(list(tasks.iterdir())))])
        model.fit(X, y, qid=qid).predict(X)
    return {"before": before, "during": seen, "after": len(list(tasks.iterdir()))}


def jobs():
    """How many threads there are by default, as the environment and the affinity allow."""
    import sklearn.utils.validation  # noqa: F401  (loads OpenMP, as every fit does)

    from precede.engine.execution import count_jobs

    return count_jobs(None)


MODES = {
    "fork": in_a_fork,
    "others": lambda: [in_process("forkserver"), in_process("spawn"), *in_loky()],
    "settings": around_fits,
    "one job": threads_of_one_job,
    "jobs": jobs,
}

if __name__ == "__main__":
    print(json.dumps(MODES[sys.argv[1]]()))
