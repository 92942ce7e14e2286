"""Compiling ahead of time."""

import os
import subprocess
import sys

import pytest

from cli.session import objects, run
from precede.cli import warmup

# Counts what a session compiles that should find everything compiled.
LATER = """
import numpy as np, precede
from numba.core import event
class Count(event.Listener):
    def on_start(self, event): print("compiled", event.data["dispatcher"].__name__)
    def on_end(self, event): pass
event.register("numba:compile", Count())
rng = np.random.default_rng(1)
X, qid = rng.normal(size=(200, 3)), np.repeat(np.arange(10), 20)
y = rng.integers(0, 4, 200)
for name in ("RankBoost", "BoostedRanker", "PushRanker"):
    model = getattr(precede, name)(n_estimators=4).fit(X, y, qid=qid)
    precede.evaluate(y, model.predict(X), qid)
    model.score(X, y, qid)
    model.explain(X)
    precede.Report(model, X, y, qid=qid)
X, qid = rng.normal(size=(100_000, 6)), np.repeat(np.arange(5_000), 20)
precede.BoostedRanker(n_estimators=4).fit(X, rng.integers(0, 4, 100_000), qid=qid)
"""


def test_every_step_is_told():
    found = objects(run("warmup", "--json")[0])
    assert [row["step"] for row in found] == list(warmup.STEPS)
    assert all(row["seconds"] >= 0 for row in found)
    assert "compiled code is kept in" in run("warmup")[1]


@pytest.mark.slow
def test_nothing_is_left_to_compile(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run(
        [sys.executable, "-m", "precede.cli", "warmup"], env=environment, check=True,
        capture_output=True,
    )  # fmt: skip
    assert any(tmp_path.rglob("*.nbc"))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LATER], env=environment, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == ""
