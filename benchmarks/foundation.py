"""RankBoost beside LightGBM: seconds a round, binning, memory, growth, scoring, cold start.

    python benchmarks/foundation.py            # about 12 minutes on two cores
    python benchmarks/foundation.py --quick    # small, to see that it runs

Everything is measured in one run on one machine, learner after learner in turn, three times;
the table shows medians and the spread, and ratios of medians.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np

import problems
from measure import about, append, in_a_process, middle, spread, write_page
from peers import lightgbm as peer
from peers import ours
from precede.engine.workers import Workers
from precede.judgments import Judgments
from precede.risks.pair_risk import PairRisk

HERE = Path(__file__).parent
THREADS = 2


def rounds(queries, count, repeats):
    """Seconds a round at learning rates 0.1 and 1."""
    sample = problems.web10k(queries)
    found = {"rows": len(sample.y)}
    for rate in (0.1, 1.0):
        ours.run(sample.X[:5000], sample.y[:5000], sample.qid[:5000], rounds=2, learning_rate=rate)
        runs = {"precede": [], "lambdarank": [], "rank_xendcg": []}
        for _ in range(repeats):
            data = (sample.X, sample.y, sample.qid)
            both = {"rounds": count, "learning_rate": rate}
            runs["precede"].append(ours.run(*data, **both, threads=THREADS))
            for objective in ("lambdarank", "rank_xendcg"):
                runs[objective].append(peer.run(*data, **both, objective=objective))
        found[f"rate {rate}"] = {
            name: {
                "round_ms": [float(np.mean(run["round"])) * 1e3 for run in each],
                "setup_s": [run["setup"] for run in each],
            }
            for name, each in runs.items()
        }
    return found


def logistic(rows, repeats):
    """Pull of the exponential and of the logistic loss on one query."""
    _, y = problems.one_query(rows, features=10)
    scores = np.random.default_rng(1).standard_normal(rows) * 2
    arrangement = Judgments.bipartite(y).arrange()
    found = {"rows": rows, "pairs": arrangement.count_graded_pairs()}
    bound = {name: PairRisk(name).bind(arrangement, Workers(THREADS))
             for name in ("exponential", "logistic", "hinge", "squared_hinge")}  # fmt: skip
    for name, risk in bound.items():
        risk.state(scores[arrangement.order])
        found[name] = []
    for _ in range(repeats):
        for name, risk in bound.items():
            begin = time.perf_counter()
            risk.state(scores[arrangement.order])
            found[name].append((time.perf_counter() - begin) * 1e3)
    return found


def growth(sizes, repeats):
    """Seconds of a whole fit (binning and 30 rounds) against rows."""
    seconds = {}
    for rows in sizes:
        X, y = problems.one_query(rows)
        best = []
        for _ in range(repeats):
            run = ours.run(X, y, None, rounds=30, learning_rate=0.1, threads=THREADS)
            best.append(run["total"])
        seconds[rows] = best
    logs = np.log(list(seconds)), np.log([np.median(each) for each in seconds.values()])
    return {"seconds": seconds, "slope": float(np.polyfit(*logs, 1)[0])}


def scoring(rows, stumps, repeats):
    """Rows a second through 1,000 stumps."""
    sample = problems.web10k(300)
    data = (sample.X, sample.y, sample.qid)
    both = {"rounds": stumps, "learning_rate": 0.1}
    model = ours.run(*data, **both)["model"]
    other = peer.run(*data, **both)["model"]
    X = np.tile(sample.X, (rows // len(sample.X) + 1, 1))[:rows].copy()
    ours.predict(model, X[:10], THREADS)
    found = {"precede": [], "lightgbm": [], "rows": rows, "stumps": stumps}
    for _ in range(repeats):
        begin = time.perf_counter()
        model.predict(X)
        found["precede"].append(time.perf_counter() - begin)
        begin = time.perf_counter()
        other.predict(X, num_threads=THREADS)
        found["lightgbm"].append(time.perf_counter() - begin)
    return found


MEMORY = """
import resource, sys, numpy as np
sys.path.insert(0, {here!r})
from peers import {module} as learner
X, y, qid = (np.load(f"{folder}/{{name}}.npy") for name in ("X", "y", "qid"))
learner.run(X[:3000].copy(), y[:3000], qid[:3000], rounds=2, learning_rate=0.1, **{options!r})
def now():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
before = now()
open("/proc/self/clear_refs", "w").write("5")  # start the peak again from here
learner.run(X, y, qid, rounds=10, learning_rate=0.1, **{options!r})
peak = [line for line in open("/proc/self/status") if line.startswith("VmHWM")][0]
print(int(peak.split()[1]) * 1024 - before, X.size, len(y))
"""


def memory(queries):
    """Greatest memory of a fit beyond its input, in a process of its own."""
    sample = problems.web10k(queries)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("X", "y", "qid"):
            np.save(f"{folder}/{name}.npy", getattr(sample, name))
        del sample
        for name, module, options in (
            ("precede", "ours", {"threads": THREADS}),
            ("lightgbm", "lightgbm", {}),
        ):
            code = MEMORY.format(here=str(HERE), module=module, folder=folder, options=options)
            peak, cells, rows = map(int, in_a_process(code).split())
            allowed = 1.5 * cells + 100 * rows
            found[name] = {"MB": peak / 1e6, "allowed MB": allowed / 1e6}
    return found


COLD = """
import time
begin = time.perf_counter()
from precede import RankBoost
from sklearn.datasets import load_breast_cancer
X, y = load_breast_cancer(return_X_y=True)
middle = time.perf_counter()
RankBoost(n_estimators=50, learning_rate=0.1).fit(X, y)
print(middle - begin, time.perf_counter() - middle)
"""


def cold_start():
    """First fit of a fresh process on wdbc, with an empty and with a warm cache."""
    with tempfile.TemporaryDirectory() as cache:
        found = {}
        for state in ("empty cache", "warm cache"):
            seconds = in_a_process(COLD, NUMBA_CACHE_DIR=cache).split()
            found[state] = {"import s": float(seconds[0]), "first fit s": float(seconds[1])}
    return found


def measure(quick):
    repeats = 1 if quick else 3
    parts = {
        "about": lambda: about(THREADS),
        "rounds": lambda: rounds(300 if quick else 10_000, 20 if quick else 100, repeats),
        "logistic": lambda: logistic(10**5 if quick else 10**6, 3 if quick else 9),
        "growth": lambda: growth((10**4, 10**5) if quick else
                                 (100_000, 200_000, 400_000, 800_000, 1_600_000), repeats),
        "scoring": lambda: scoring(10**5 if quick else 10**6, 1000, repeats),
        "memory": lambda: memory(300 if quick else 10_000),
        "cold start": cold_start,
    }  # fmt: skip
    found = {}
    for name, part in parts.items():
        print(f"{name} ...", file=sys.stderr, flush=True)
        found[name] = part()
    return found


def table(found):
    """The page that is kept."""
    lines = ["# RankBoost beside LightGBM", ""]
    lines += [", ".join(f"{name} {value}" for name, value in found["about"].items()), ""]
    lines += ["Medians of the repetitions, least and greatest in brackets.", ""]
    lines += [f"## One round, {found['rounds']['rows']:,} rows × 136 features", ""]
    lines += ["| learning rate | learner | ms a round | precede / learner | wanted | set-up s |",
              "|---|---|--:|--:|--:|--:|"]  # fmt: skip
    wanted = {("rate 0.1", "lambdarank"): 0.25, ("rate 0.1", "rank_xendcg"): 0.5,
              ("rate 1.0", "lambdarank"): 0.36, ("rate 1.0", "rank_xendcg"): 0.65}  # fmt: skip
    for rate in ("rate 0.1", "rate 1.0"):
        mine = middle(found["rounds"][rate]["precede"]["round_ms"])
        for name, each in found["rounds"][rate].items():
            limit = wanted.get((rate, name))
            lines.append(
                f"| {rate[5:]} | {name} | {spread(each['round_ms'])} "
                f"| {mine / middle(each['round_ms']):.2f} | {f'≤ {limit}' if limit else ''} "
                f"| {spread(each['setup_s'], 1)} |"
            )
    part = found["logistic"]
    lines += ["", f"## Pull on one query of {part['rows']:,} rows ({part['pairs']:.3g} pairs)", "",
              "| loss | ms | / exponential |", "|---|--:|--:|"]  # fmt: skip
    for name in ("exponential", "logistic", "hinge", "squared_hinge"):
        ratio = middle(part[name]) / middle(part["exponential"])
        lines.append(f"| {name} | {spread(part[name], 1)} | {ratio:.1f} |")
    lines += ["", "## Growth: a whole fit (binning and 30 rounds, 30 features) against rows", "",
              "| rows | seconds |", "|--:|--:|"]  # fmt: skip
    lines += [f"| {int(rows):,} | {spread(each, 2)} |"
              for rows, each in found["growth"]["seconds"].items()]  # fmt: skip
    lines += ["", f"Log-log slope {found['growth']['slope']:.3f} (wanted: at most 1.05)."]
    part = found["scoring"]
    lines += ["", f"## Scoring {part['rows']:,} rows with {part['stumps']:,} stumps", "",
              "| learner | seconds |", "|---|--:|",
              f"| precede | {spread(part['precede'], 2)} |",
              f"| LightGBM | {spread(part['lightgbm'], 2)} |", "",
              f"precede is {middle(part['lightgbm']) / middle(part['precede']):.1f} "
              "times as fast (wanted: at least 2)."]  # fmt: skip
    lines += ["", "## Greatest memory of a fit beyond its input", "",
              "| learner | MB | 1.5 bytes a cell + 100 bytes a row |", "|---|--:|--:|"]  # fmt: skip
    lines += [f"| {name} | {each['MB']:.0f} | {each['allowed MB']:.0f} |"
              for name, each in found["memory"].items()]  # fmt: skip
    lines += ["", "## Cold start: a fresh process, wdbc, 50 rounds", "",
              "| | import s | first fit s |", "|---|--:|--:|"]  # fmt: skip
    lines += [f"| {state} | {each['import s']:.2f} | {each['first fit s']:.2f} |"
              for state, each in found["cold start"].items()]  # fmt: skip
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    found = measure(quick)
    page = table(found)
    print(page)
    if not quick:
        append("foundation.jsonl", found)
        write_page(__file__, "foundation.md", page)


if __name__ == "__main__":
    main()
