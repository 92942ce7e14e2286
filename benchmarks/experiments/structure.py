"""Speed before and after the package was split into folders, in one run, taking turns.

    python benchmarks/experiments/structure.py                # 1.2 million rows: two quiet cores
    python benchmarks/experiments/structure.py --size small   # 60,000 rows: a busy machine

Two processes, one for each version, are asked in turn for the same task, each several times;
the page shows medians and the ratio after / before. The first answer (compilation, first
allocation) is not counted. Writes `results/structure.md`.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from measure import ROOT, about, middle, source_at, spread, write_page

FLAT = "2ebfdb6"  # the last commit with one flat folder of modules
THREADS = 2
MOST = 1.05  # no task may take more than this share of its time before
WANTED = 5.0  # times faster: the logistic pull on short queries

SIZES = {
    "full": {"queries": 10_000, "features": 136, "push": 10_000, "short": 10_000, "rows": 100_000,
             "rounds": 10},
    "medium": {"queries": 10_000, "features": 136, "push": 1_000, "short": 10_000, "rows": 50_000,
               "rounds": 10},
    "small": {"queries": 500, "features": 136, "push": 500, "short": 10_000, "rows": 20_000,
              "rounds": 6},
}  # fmt: skip


# -- tasks, in the process of one version: seconds of one turn -----------------------------------


def _seconds(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _round(model):
    """Median seconds of the rounds after the first two."""
    return float(np.median(model.history_["seconds"][2:]))


def _search(size, features=None):
    from precede.datasets import search_results

    return search_results(size["queries"], features=features or size["features"], random_state=0)


def stump_round(size):
    from precede import RankBoost

    sample = _search(size)
    model = RankBoost(n_estimators=size["rounds"], learning_rate=0.1, n_jobs=THREADS)
    return lambda: _round(model.fit(sample.X, sample.y, qid=sample.qid))


def _short_queries(size):
    rng = np.random.default_rng(2)
    rows = 100 * size["short"]
    return rng.integers(0, 5, rows), np.arange(rows) // 100, 2 * rng.standard_normal(rows)


def logistic_pull(size):
    from precede import Judgments, PairRisk

    grade, query, scores = _short_queries(size)
    layout = Judgments.graded(grade, query).to_layout()
    risk = PairRisk("logistic").bind(layout)
    at = scores[layout.order]
    return lambda: _seconds(lambda: risk.state(at).pull)


def push_round(size):
    from precede import PushRanker

    sample = _search(size | {"queries": size["push"]}, features=10)
    model = PushRanker(
        price=1, loss="logistic", n_estimators=size["rounds"], learning_rate=0.1, n_jobs=THREADS
    )
    return lambda: _round(model.fit(sample.X, sample.y, qid=sample.qid))


def convex_fit(size):
    from precede import ConvexRiskRanker

    rng = np.random.default_rng(3)
    X = rng.standard_normal((size["rows"], 10))
    y = (X[:, 0] + rng.standard_normal(size["rows"]) > 0.8).astype(int)
    model = ConvexRiskRanker(n_estimators=size["rounds"], n_jobs=THREADS)
    return lambda: _seconds(lambda: model.fit(X, y))


def report(size):
    from precede import RankBoost, Report

    sample = _search(size | {"queries": size["rows"] // 120}, features=10)
    model = RankBoost(n_estimators=20, n_jobs=THREADS).fit(sample.X, sample.y, qid=sample.qid)
    return lambda: _seconds(lambda: Report(model, sample.X, sample.y, qid=sample.qid).to_html())


TASKS = {
    "stump round, ms": stump_round,
    "logistic pull, queries of 100, ms": logistic_pull,
    '`PushRanker(loss="logistic")` round, ms': push_round,
    "`ConvexRiskRanker` fit, ms": convex_fit,
    "report, ms": report,
}


def serve(size):
    """Answer every line on the standard input, the name of a task, with its milliseconds."""
    warnings.simplefilter("ignore")
    name, turn = None, None
    for line in sys.stdin:
        asked = line.strip()
        if asked != name:  # the data of one task at a time
            turn = None
            name, turn = asked, TASKS[asked](size)
            turn()
        print(json.dumps(1e3 * turn()), flush=True)


# -- taking turns --------------------------------------------------------------------------------


class Version:
    """A process that imports one version of the package."""

    def __init__(self, source, size):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", size],
            env={**os.environ, "PYTHONPATH": str(source)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, task):
        self.process.stdin.write(task + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{task} failed; its message is above")
        return json.loads(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measured(sources, size, repeats):
    versions = {side: Version(source, size) for side, source in sources.items()}
    found = {}
    for task in TASKS:
        found[task] = {side: [] for side in versions}
        for _ in range(repeats):
            for side, version in versions.items():
                found[task][side].append(version.ask(task))
        print(task, found[task], file=sys.stderr)
    for version in versions.values():
        version.close()
    return found


def verdict(task, ratio):
    if task.startswith("logistic pull"):
        reached = 1 / ratio >= WANTED
        return f"{1 / ratio:.1f} times faster; wanted {WANTED:g}: {'yes' if reached else 'NO'}"
    return "yes" if ratio <= MOST else "NO"


def page(found, commit, name, repeats):
    size, machine = SIZES[name], about(THREADS)
    stumps, push = (f"{120 * size[key]:,} rows in {size[key]:,} queries" for key in
                    ("queries", "push"))  # fmt: skip
    lines = [
        "# Speed before and after the folders", "",
        ", ".join(f"{key} {value}" for key, value in machine.items()) + ".", "",
        f"Before: commit {commit}. Two processes in turn, {repeats} answers each after one that is "
        f"not counted; medians, least and greatest in brackets. Rounds: about {stumps}, "
        f"{size['features']} features, for RankBoost; {push}, 10 features, for the push. "
        f"Logistic pull: {size['short']:,} queries of "
        f"100 rows. `ConvexRiskRanker`: {size['rows']:,} rows of two classes, {size['rounds']} "
        "rounds. "
        f"Report: about {size['rows']:,} rows in queries.", "",
        "| | before | after | after / before | wanted: at most 1.05 |", "|---|--:|--:|--:|---|",
    ]  # fmt: skip
    ratios = {}
    for task, each in found.items():
        ratio = ratios[task] = middle(each["after"]) / middle(each["before"])
        lines.append(f"| {task} | {spread(each['before'], 1)} | {spread(each['after'], 1)} | "
                     f"{ratio:.2f} | {verdict(task, ratio)} |")  # fmt: skip
    slower = [task for task, ratio in ratios.items() if ratio > MOST]
    lines += ["", f"Slower by more than 5 %: {', '.join(slower) or 'none'}."]
    if machine["load"] > machine["cores"]:
        lines += ["", f"The machine was busy (load {machine['load']} on {machine['cores']} cores): "
                  "differences of some percent are within its noise."]  # fmt: skip
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", default=FLAT)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--serve", choices=SIZES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(SIZES[options.serve])
        return
    with source_at(options.before) as before:
        sources = {"before": before, "after": ROOT / "src"}
        found = measured(sources, options.size, options.repeats)
    text = page(found, options.before, options.size, options.repeats)
    print(text)
    write_page(__file__, "structure.md", text)


if __name__ == "__main__":
    main()
