"""Fit, predict, save and load again and again: memory, threads and open files do not grow.

The rounds run in a process of their own. What other tests left behind in this one (an idle pool of
workers, a cluster that is being closed) may go away at any time and would hide what was added.
"""

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pytest

from precede import (
    AdaBoostRanker,
    BoostedRanker,
    ConvexRiskRanker,
    DiskTable,
    PushRanker,
    RankBoost,
    RankBoostPlus,
    load,
    write_table,
)
from precede.files import Data, read, write

PROC = Path("/proc/self")
PAGE = 4096 / 2**20  # of memory, in MiB

pytestmark = pytest.mark.skipif(not PROC.exists(), reason="memory is read from /proc")

# A round of the loop works on tables of 1.1 MiB. If one of them stayed, memory would grow by a
# mebibyte a round; what the allocator keeps in reserve varies by a few mebibytes in all, however
# many rounds there are. Twelve are more than the one and less than a leak in twenty rounds.
TOLERANCE = 12.0
# Objects that Python counts. A leak of a single one in each round is seen in 200 rounds; caches
# of a fixed size (regular expressions, warnings) fill up in the first ones.
OBJECTS = 200
PATIENCE = 60.0  # seconds until a thread that has ended must be gone


@dataclass(frozen=True)
class Reading:
    """What the process has."""

    rounds: int
    memory: float  # MiB
    threads: int
    descriptors: int
    objects: int

    @classmethod
    def now(cls, rounds, first=None):
        gc.collect()
        threads, descriptors = entries("task"), entries("fd")
        # The system lists a thread for a while after it was joined.
        end = time.monotonic() + PATIENCE
        while first is not None and threads > first.threads and time.monotonic() < end:
            time.sleep(0.01)
            threads = entries("task")
        resident = int((PROC / "statm").read_text().split()[1]) * PAGE
        return cls(rounds, resident, threads, descriptors, len(gc.get_objects()))


def entries(name):
    return len(list((PROC / name).iterdir()))


def problem(rows=18_000, features=8):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, features))
    y = (X[:, 0] + rng.standard_normal(rows) > 0.5).astype(int)
    return X, y, np.arange(rows) // 30


def one_round(folder, X, y, qid):
    """Everything that a long-lived process does with this library."""
    path = folder / "model.json"
    small = slice(0, 1500)
    models = [
        RankBoost(n_estimators=4, n_jobs=2),
        PushRanker(n_estimators=2, n_jobs=2),
        BoostedRanker(n_estimators=3, n_jobs=2),
    ]
    for model in models:
        model.fit(X, y, qid=qid)
        model.save(path)
        again = load(path)
        assert np.array_equal(again.predict(X), model.predict(X))
        again.explain(X[:50])
    for estimator in (RankBoostPlus, ConvexRiskRanker):
        estimator(n_estimators=2).fit(X[small], y[small], qid=qid[small]).predict(X)
    AdaBoostRanker(n_estimators=3).fit(X, y).predict_proba(X)
    RankBoost(n_estimators=2).fit(X[small], y[small], checkpoint=folder / "checkpoint")
    (folder / "checkpoint").unlink()
    write(folder / "rows.svm", Data(X[small], y=y[small], feature_names=list("12345678")))
    read(folder / "rows.svm", n_jobs=2)
    write_table(folder / "table", [(X[small], y[small], qid[small])])
    RankBoost(n_estimators=2).fit(DiskTable(folder / "table"))
    for bad in ("no model", "{", '{"format": 1}'):
        path.write_text(bad)
        with pytest.raises(ValueError, match="model"):
            load(path)
    with pytest.raises(ValueError, match="y has"):
        RankBoost().fit(X, y[:5])


def soak(folder, *, rounds=0, seconds=0.0, warm_up=4):
    """Readings after the warm-up, then after every round or about twenty times, and at the end."""
    data = problem()
    for _ in range(warm_up):
        one_round(folder, *data)
    began = last = time.monotonic()
    readings, done = [Reading.now(0)], 0
    while done < rounds or time.monotonic() - began < seconds:
        one_round(folder, *data)
        done += 1
        if rounds or time.monotonic() - last > seconds / 20:
            last = time.monotonic()
            readings.append(Reading.now(done))
    return [*readings, Reading.now(done, readings[0])]


def check(readings):
    first, last = readings[0], readings[-1]
    assert last.memory - first.memory < TOLERANCE, readings
    assert last.threads <= first.threads, readings
    assert last.descriptors <= first.descriptors, readings
    assert last.objects - first.objects < OBJECTS, readings


def soaked(**limits):
    """Readings of a process of its own.

    Its threads allocate from one arena: how many arenas the allocator opens depends on which
    threads happen to meet, and each keeps some memory in reserve.
    """
    done = subprocess.run(
        [sys.executable, __file__, json.dumps(limits)],
        env={**os.environ, "MALLOC_ARENA_MAX": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return [Reading(**each) for each in json.loads(done.stdout)]


def test_a_few_rounds_leave_nothing_behind():
    readings = soaked(rounds=6)
    assert [each.rounds for each in readings] == [*range(7), 6]
    check(readings)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_many_rounds_leave_nothing_behind():
    check(soaked(rounds=60))


if __name__ == "__main__":
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", UserWarning)
    with tempfile.TemporaryDirectory() as room:
        found = soak(Path(room), **json.loads(sys.argv[1]))
    print(json.dumps([asdict(each) for each in found]))
