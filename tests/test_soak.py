"""Fit, predict, save and load again and again: memory, threads and open files stay flat.

`python tests/test_soak.py SECONDS` prints the table in benchmarks/results/soak.md.
"""

import gc
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from precede import (
    AdaBoostRanker,
    BoostedRanker,
    ConvexRisk,
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


@dataclass(frozen=True)
class Reading:
    """What the process has."""

    rounds: int
    memory: float  # MiB
    threads: int
    descriptors: int
    objects: int

    @classmethod
    def now(cls, rounds):
        gc.collect()
        resident = int((PROC / "statm").read_text().split()[1]) * PAGE
        threads, descriptors = (len(list((PROC / each).iterdir())) for each in ("task", "fd"))
        return cls(rounds, resident, threads, descriptors, len(gc.get_objects()))


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
    for estimator in (RankBoostPlus, ConvexRisk):
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
    """Readings after the warm-up and then about twenty times to the end."""
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
    return readings


def check(readings):
    first, last = readings[0], readings[-1]
    assert last.rounds >= 2
    assert last.memory - first.memory < TOLERANCE, readings
    assert last.threads == first.threads, readings
    assert last.descriptors == first.descriptors, readings
    assert last.objects - first.objects < OBJECTS, readings


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_few_rounds_leave_nothing_behind(tmp_path):
    check(soak(tmp_path, rounds=6))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_minutes_of_rounds_leave_nothing_behind(tmp_path):
    readings = soak(tmp_path, seconds=200.0)
    assert readings[-1].rounds > 40
    check(readings)


if __name__ == "__main__":
    warnings.simplefilter("ignore", UserWarning)
    with tempfile.TemporaryDirectory() as room:
        found = soak(Path(room), seconds=float(sys.argv[1]))
    print("| rounds | memory (MiB) | threads | open files | objects |\n|---:|---:|---:|---:|---:|")
    for each in found:
        print(
            f"| {each.rounds} | {each.memory:.1f} | {each.threads} | {each.descriptors} "
            f"| {each.objects} |"
        )
    check(found)
