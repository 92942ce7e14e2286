"""The largest gaps that the benchmarks showed, before and after they were closed.

    python benchmarks/gaps.py /path/to/an/older/checkout     # some four minutes

Runs this checkout and the older one in turn, each in processes of its own, twice, and
writes `results/gaps.md`. What is measured: the pull of hinge losses in one long list (the
kernel farthest from the memory's limit), a round of 31-leaf trees beside LightGBM's lambdarank
(which was ahead), and the second derivative of the exponential risk
with a price, which had no form of its own.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from measure import about, middle, spread, write_page

HERE = Path(__file__).resolve().parent
THREADS, REPEATS = 2, 2

CODE = """
import json, sys, time
import numpy as np
sys.path.insert(0, {here!r})
from precede import BoostedRanker, Judgments, PairRisk
from precede.threads import Workers
import problems

def best(call, repeats=7):
    call()
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        seconds.append(1000 * (time.perf_counter() - begin))
    return float(np.median(seconds))

found = {{}}
rows = 1_000_000
_, y = problems.one_query(rows, features=10)
scores = 2 * np.random.default_rng(1).standard_normal(rows)
one = Judgments.bipartite(y).arrange()
with Workers({threads}) as workers:
    for loss in ("hinge", "squared_hinge", "logistic"):
        risk = PairRisk(loss).bind(one, workers)
        at = scores[one.order]
        found[f"pull, {{loss}}, one list of a million rows, ms"] = best(lambda: risk.state(at))
    grade = np.random.default_rng(2).integers(0, 5, rows)
    many = Judgments.graded(grade, np.arange(rows) // 100).arrange()
    risk = PairRisk("exponential", 2).bind(many, workers)
    state = risk.state(scores[many.order])
    found["second derivative, exponential, price 2, queries of 100, ms"] = best(
        lambda: risk.curvature(state), 3
    )
sample = problems.web10k(10_000)
stamps = []
BoostedRanker(
    n_estimators=12, num_leaves=31, learning_rate=0.1, n_jobs={threads},
    callbacks=[lambda _: stamps.append(time.perf_counter())],
).fit(sample.X, sample.y, qid=sample.qid)
found["round of 31 leaves, 1.2 million rows, ms"] = 1000 * float(np.median(np.diff(stamps)[1:]))
import lightgbm
stamps.clear()
sizes = np.bincount(sample.qid)
lightgbm.train(
    {{"objective": "lambdarank", "num_leaves": 31, "learning_rate": 0.1, "verbosity": -1,
      "num_threads": {threads}}},
    lightgbm.Dataset(sample.X, sample.y, group=sizes), 12,
    callbacks=[lambda _: stamps.append(time.perf_counter())],
)
found["the same of LightGBM lambdarank, ms"] = 1000 * float(np.median(np.diff(stamps)[1:]))
print(json.dumps(found))
"""


def measured(checkout):
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(here=str(HERE), threads=THREADS)],
        env={**os.environ, "PYTHONPATH": str(Path(checkout) / "src")},
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout)


def main():
    older = Path(sys.argv[1]).resolve()
    runs = {"before": [], "after": []}
    for _ in range(REPEATS):
        runs["before"].append(measured(older))
        runs["after"].append(measured(HERE.parent))
    commit = subprocess.run(["git", "describe", "--always"], cwd=older, check=True,
                            capture_output=True, text=True).stdout.strip()  # fmt: skip
    machine = ", ".join(f"{name} {value}" for name, value in about(THREADS).items())
    lines = ["# Gaps closed", "", f"{machine}; before: {commit}.", "",
             "Both checkouts in turn, twice, each figure a median itself; least and greatest in "
             "brackets.", "",
             "| | before | after | times faster |", "|---|--:|--:|--:|"]  # fmt: skip
    for name in runs["after"][0]:
        before, after = ([run[name] for run in runs[side]] for side in ("before", "after"))
        ratio = middle(before) / middle(after)
        lines.append(f"| {name} | {spread(before)} | {spread(after)} | {ratio:.1f} |")
    write_page(__file__, "gaps.md", "\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
