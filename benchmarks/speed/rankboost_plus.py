"""RankBoost+: time and memory, on MQ2008 and on millions of pairs.

    python benchmarks/speed/rankboost_plus.py                   # some minutes on two free cores
    python benchmarks/speed/rankboost_plus.py --queries 1000    # a smaller set shaped like WEB10K
    python benchmarks/speed/rankboost_plus.py --quick           # small, to see that it runs

On a shared machine the clock measures the others as well, so times are CPU seconds (those of all
threads together), ratios are taken inside one run and the variants take turns. Greatest memory
is that of a process of its own, with the input.

The authors' code is not run here. AUTHORS holds figures measured once with it, on another machine
of this kind, and they are labeled as such on the page.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from datetime import date
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import problems
from measure import write_page
from precede import Judgments, RankBoost, RankBoostPlus

HERE = Path(__file__).resolve().parents[1]
RESULTS = HERE / "results"
THREADS = 2
# The authors' code, measured once: rows x features, pairs, stumps, ms of a round of RB-C and of
# RankBoost+, peak memory.
AUTHORS = (
    ("500 × 5", 10_000, 1_275, 2.2, 8.4, "154 MB"),
    ("1000 × 10", 30_000, 2_550, 13.3, 35.9, "665 MB"),
    ("2000 × 20", 50_000, 5_100, 50.3, 88.1, "2.1 GB"),
)


def fitted(data, rounds, make=RankBoostPlus, **options):
    X, y, qid = data
    begin, cpu = time.perf_counter(), time.process_time()
    model = make(n_estimators=rounds, n_jobs=THREADS, **options).fit(X, y, qid=qid)
    cpu, seconds = time.process_time() - cpu, time.perf_counter() - begin
    found = {"fit s": seconds, "fit CPU s": cpu, "risk": float(model.history_["risk"][-1])}
    if make is RankBoostPlus:
        found["weak_rankers"] = int(model.history_["weak_rankers"][-1])
    return found


VARIANTS = {
    "RB-C": {"make": RankBoost, "step": "bound"},
    "efficient": {},
    "optimal": {"search": "optimal"},
}


def mq2008(rounds, repeats):
    """All variants on MQ2008 fold 1, in turns; None where the data are absent."""
    parts = problems.mq2008(1)
    if parts is None:
        return None
    train, found = parts[0], {name: [] for name in VARIANTS}
    for repeat in range(repeats + 1):
        for name, options in VARIANTS.items():
            run = fitted(train, rounds if repeat else 3, **options)
            if repeat:  # the first only compiles
                found[name].append(run)
    return {"variants": found, "rounds": rounds, "pairs": Judgments(*train[1:]).n_pairs}


LARGE = """
import json, resource, sys
sys.path[:0] = [{here!r}, {here!r} + "/speed"]
import rankboost_plus as bench, problems
small = problems.web10k(20, features=136)
bench.fitted((small.X, small.y, small.qid), 3, **{options!r})
sample = problems.web10k({queries})
found = bench.fitted((sample.X, sample.y, sample.qid), {rounds}, **{options!r})
found["rows"], found["rounds"] = len(sample.y), {rounds}
found["pairs"] = bench.Judgments(sample.y, sample.qid).n_pairs
found["peak GB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
print(json.dumps(found))
"""


def large(queries, rounds, **options):
    """Queries shaped like WEB10K, in a process of its own."""
    code = LARGE.format(here=str(HERE), queries=queries, rounds=rounds, options=options)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def measure(quick, queries):
    about = {
        "date": str(date.today()),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "threads": THREADS,
        "load at the start": round(os.getloadavg()[0], 2),
        **{name: version(name) for name in ("precede", "numpy", "numba")},
    }
    rounds = 5 if quick else 20
    return {
        "about": about,
        "mq2008": mq2008(20 if quick else 100, 1 if quick else 3),
        "large": large(queries, rounds),
    }


def table_mq2008(part):
    unit = np.median([run["fit CPU s"] for run in part["variants"]["RB-C"]])
    lines = [f"## MQ2008, fold 1: {part['pairs']:,} pairs, {part['rounds']} rounds", "",
             f"Medians of {len(part['variants']['RB-C'])} repetitions, least and greatest fit in "
             "brackets; whole fits, binning "
             "included. The variants took turns.", "",
             "| variant | fit, CPU s | CPU ms a round | CPU time / RB-C | loss at the end |",
             "|---|--:|--:|--:|--:|"]  # fmt: skip
    for name, runs in part["variants"].items():
        cpu = [run["fit CPU s"] for run in runs]
        middle = float(np.median(cpu))
        loss = "E1" if name == "RB-C" else "E2"
        lines.append(
            f"| {name} | {middle:.2f} ({min(cpu):.2f} to {max(cpu):.2f}) "
            f"| {middle * 1e3 / part['rounds']:.2f} | {middle / unit:.1f} "
            f"| {loss} = {runs[0]['risk']:.6f} |"
        )
    return [*lines, ""]


def table_authors(part):
    pairs, stumps, ms = AUTHORS[-1][1], AUTHORS[-1][2], AUTHORS[-1][4]
    lines = ["## The authors' code", "",
             "**Not run here.** Measured once, separately, with the code that the authors publish "
             "(2019, two threads, on another machine of this kind that was also shared); wall "
             "clock, so orders of magnitude alone can be compared.", "",
             "| rows × features | pairs | stumps | RB-C, ms a round | RankBoost+, ms a round | "
             "RankBoost+ / RB-C | peak |", "|---|--:|--:|--:|--:|--:|--:|"]  # fmt: skip
    for shape, n_pairs, n_stumps, rbc, plus, peak in AUTHORS:
        lines.append(
            f"| {shape} | {n_pairs:,} | {n_stumps:,} | {rbc} | {plus} | {plus / rbc:.1f} | {peak} |"
        )
    if part is None:
        return [*lines, ""]
    ours = part["variants"]["efficient"]
    each = float(np.median([run["fit CPU s"] for run in ours])) * 1e3 / part["rounds"]
    return [*lines, "",
            f"It keeps a matrix of pairs × stumps. With {pairs:,} pairs and {stumps:,} stumps a "
            f"round of RankBoost+ took it {ms:.0f} ms; here, with {part['pairs']:,} pairs and all "
            f"thresholds of 46 features (at most 254 each), a round takes {each:.2f} ms of CPU "
            "time.", ""]  # fmt: skip


def table(found):
    lines = ["# RankBoost+: time and memory", "",
             ", ".join(f"{name} {value}" for name, value in found["about"].items()), "",
             "The machine was shared with other work while this ran, so times are CPU time of all "
             "threads together, and only ratios within this page are to be trusted.",
             ""]  # fmt: skip
    part = found["mq2008"]
    if part is not None:
        lines += table_mq2008(part)
    run = found["large"]
    lines += ["## Shaped like WEB10K", "",
              "| rows | pairs | rounds | fit, CPU s | CPU ms a round | peak GB |",
              "|--:|--:|--:|--:|--:|--:|",
              f"| {run['rows']:,} | {run['pairs']:,} | {run['rounds']} "
              f"| {run['fit CPU s']:.1f} | {run['fit CPU s'] * 1e3 / run['rounds']:.0f} "
              f"| {run['peak GB']:.2f} |"]  # fmt: skip
    lines += ["", "Whole fits over the rounds, binning included.", ""]
    return "\n".join([*lines, *table_authors(part)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--queries", type=int, help="of the set shaped like WEB10K (10,000)")
    options = parser.parse_args()
    found = measure(options.quick, options.queries or (200 if options.quick else 10_000))
    page = table(found)
    print(page)
    if not options.quick:
        write_page(__file__, "rankboost_plus.md", page)
        with open(RESULTS / "rankboost_plus.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
