"""Rounds, whole fits and set-up on 2, 4, 8 and 16 threads, beside LightGBM in one run.

    python benchmarks/speed/cores.py           # some four minutes on 16 cores, five on two
    python benchmarks/speed/cores.py --quick   # small, to see that it runs; nothing is kept

Bins, leaves, learning rate and threads are the same. Fits of the libraries take turns. The page,
`results/cores.md`, has a section for each number of cores of the machine; a run replaces that of
its machine.
"""

import argparse
import os
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import lightgbm
import numpy as np

from measure import RESULTS, about, middle, read_page, spread, write_page
from precede import BoostedRanker, RankBoost
from problems.real import mq2008_parts
from problems.synthetic import one_query

THREADS = (2, 4, 8, 16)
RATE = 0.1
ROUNDS, SKIPPED, TURNS = 10, 2, 2  # rounds of a fit, of which the first do not count; fits
# What the time by that of LightGBM may be, by number of threads.
TARGETS = {
    ("31 leaves, 1.2 M x 136", "lambdarank"): {2: 0.6, 8: 0.75, 16: 0.8},
    ("31 leaves, 1.2 M x 136", "rank_xendcg"): {2: 0.85, 8: 0.75, 16: 0.85},
    ("255 leaves, 1.2 M x 136", "lambdarank"): {2: 0.6, 8: 0.75, 16: 0.8},
    ("31 leaves, 35 k x 136", "lambdarank"): {2: 0.75, 8: 0.9, 16: 1.0},
    ("31 leaves, one list, 1 M x 30", "binary"): {2: 0.9, 8: 0.9, 16: 1.0},
    ("MQ2008 fold 1, 100 rounds", "lambdarank"): {2: 0.9},
    ("MQ2008 fold 1, 100 rounds", "rank_xendcg"): {2: 1.1},
    ("set-up, 1.2 M x 136", "Dataset"): {2: 0.45, 8: 0.45, 16: 0.5},
}
GAINS = {8: 3, 16: 5}  # wanted: rounds of stumps on so many threads, by those on two
OVERSUBSCRIBED = 1.3  # wanted: at most this, four threads on two processors by two threads


def even(rows, queries, features=136):
    """Graded queries of one size, a fifth of the features with eight values, a seventh mostly 0."""
    rng = np.random.default_rng(0)
    X = rng.random((rows, features), dtype=np.float32)
    X[:, ::5] = np.floor(8 * X[:, ::5])
    X[:, 1::7] = np.where(X[:, 1::7] < 0.7, 0, X[:, 1::7])
    score = X[:, 0] + 2 * X[:, 2] * X[:, 3] + X[:, 4] - X[:, 6] + 0.5 * rng.standard_normal(rows)
    y = np.searchsorted(np.quantile(score, [0.52, 0.84, 0.97, 0.99]), score)
    return X, y, np.arange(rows) * queries // rows


def problems(quick):
    """Name, data, leaves, objectives of LightGBM and rounds."""
    share = 50 if quick else 1
    large = even(1_200_000 // share, 10_000 // share)
    yield "31 leaves, 1.2 M x 136", large, 31, ("lambdarank", "rank_xendcg"), ROUNDS
    yield "255 leaves, 1.2 M x 136", large, 255, ("lambdarank",), ROUNDS
    del large
    small = even(35_000 // share, 292 // share)
    yield "31 leaves, 35 k x 136", small, 31, ("lambdarank",), 5 * ROUNDS
    one_list = *one_query(1_000_000 // share), None
    yield "31 leaves, one list, 1 M x 30", one_list, 31, ("binary",), ROUNDS
    real = mq2008_parts()
    if real is not None:
        objectives = "lambdarank", "rank_xendcg"
        yield "MQ2008 fold 1, 100 rounds", real[0], 31, objectives, 100


def ours(data, leaves, threads, rounds, estimator=BoostedRanker):
    """Milliseconds of every round, and seconds of the fit."""
    X, y, qid = data
    given = {"num_leaves": leaves} if estimator is BoostedRanker else {}
    begin = time.perf_counter()
    model = estimator(n_estimators=rounds, learning_rate=RATE, n_jobs=threads, **given)
    model.fit(X, y, qid=qid)
    return 1000 * np.asarray(model.history_["seconds"]), time.perf_counter() - begin


def binned(data, threads):
    """The rows as LightGBM bins them, and the seconds that takes."""
    X, y, qid = data
    sizes = None if qid is None else np.unique(qid, return_counts=True)[1]
    given = {"max_bin": 255, "num_threads": threads, "verbosity": -1}
    begin = time.perf_counter()
    rows = lightgbm.Dataset(X, y, group=sizes, params=given).construct()
    return rows, time.perf_counter() - begin


def theirs(rows, leaves, threads, rounds, objective):
    """Milliseconds of every round of LightGBM, and seconds of all of them."""
    begin, found = time.perf_counter(), []
    booster = lightgbm.Booster({
        "objective": objective, "num_leaves": leaves, "learning_rate": RATE, "max_bin": 255,
        "num_threads": threads, "verbosity": -1,
    }, rows)  # fmt: skip
    for _ in range(rounds):
        start = time.perf_counter()
        booster.update()
        found.append(1000 * (time.perf_counter() - start))
    return np.array(found), time.perf_counter() - begin


def measured(data, leaves, objectives, rounds, threads):
    """Milliseconds of rounds, and seconds of set-ups and of fits, of every learner."""
    names = ("precede", *objectives)
    ms, fits = ({name: [] for name in names} for _ in range(2))
    rows, set_up = binned(data, threads)
    set_ups = {"precede": [], "Dataset": [set_up]}
    for _ in range(TURNS):
        found, seconds = ours(data, leaves, threads, rounds)
        ms["precede"] += found[SKIPPED:].tolist()
        fits["precede"].append(seconds)
        set_ups["precede"].append(seconds - found.sum() / 1000)
        for name in objectives:
            found, seconds = theirs(rows, leaves, threads, rounds, name)
            ms[name] += found[SKIPPED:].tolist()
            fits[name].append(set_up + seconds)
    return ms, set_ups, fits


def line(name, threads, found, peer, own="precede", digits=0):
    """Line of the table: the times of a learner and of a peer, and their ratio."""
    ratio, target = middle(found[own]) / middle(found[peer]), TARGETS.get((name, peer), {})
    wanted = ""
    if threads in target:
        met = ratio <= target[threads]
        wanted = f"≤ {target[threads]}: {'met' if met else '**missed**'}"
    return (
        f"| {name} | {threads} | {spread(found[own], digits)} | {peer} | "
        f"{spread(found[peer], digits)} | {ratio:.2f} | {wanted} |\n"
    )


def compared(quick, cores):
    """Lines of all problems on all numbers of threads."""
    for name, data, leaves, objectives, rounds in problems(quick):
        ours(data, leaves, 2, 2)  # compiles
        for threads in (each for each in THREADS if each <= cores):
            ms, set_ups, fits = measured(data, leaves, objectives, rounds, threads)
            whole = name.startswith("MQ2008")
            in_ms = {key: [1000 * each for each in times] for key, times in fits.items()}
            for peer in objectives:
                print(name, threads, peer, middle(ms["precede"]), middle(ms[peer]), flush=True)
                yield line(name, threads, in_ms if whole else ms, peer, digits=1)
            if name.startswith("31 leaves, 1.2"):
                in_ms = {key: [1000 * each for each in times] for key, times in set_ups.items()}
                yield line("set-up, 1.2 M x 136", threads, in_ms, "Dataset")


def gains(quick, cores):
    """Lines of rounds of stumps, and by how much more threads are faster than two."""
    data = even(*((24_000, 200) if quick else (1_200_000, 10_000)))
    ours(data, 2, 2, 2, RankBoost)
    times = {}
    for threads in (each for each in THREADS if each <= cores):
        found = [ours(data, 2, threads, 3 * ROUNDS, RankBoost)[0][SKIPPED:] for _ in range(TURNS)]
        times[threads] = np.concatenate(found)
        gain = middle(times[2]) / middle(times[threads])
        wanted = ""
        if threads in GAINS:
            wanted = f"≥ {GAINS[threads]}: {'met' if gain >= GAINS[threads] else '**missed**'}"
        yield f"| {threads} | {spread(times[threads], 1)} | {gain:.1f} | {wanted} |\n"


def oversubscribed(quick):
    """Sentence: four threads on two processors beside two threads on the same."""
    data, mine = even(*((24_000, 200) if quick else (240_000, 2000))), os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, set(sorted(mine)[:2]))
        ours(data, 31, 2, 2)
        found = {n: np.concatenate([ours(data, 31, n, ROUNDS)[0][SKIPPED:] for _ in range(TURNS)])
                 for n in (2, 4)}  # fmt: skip
    finally:
        os.sched_setaffinity(0, mine)
    ratio = middle(found[4]) / middle(found[2])
    return (
        f"On two processors, 240 k x 136, 31 leaves: {spread(found[4], 1)} ms on four threads, "
        f"{spread(found[2], 1)} on two, {ratio:.2f} times as long (wanted: at most "
        f"{OVERSUBSCRIBED}, {'met' if ratio <= OVERSUBSCRIBED else '**missed**'}).\n"
    )


TITLE = """# Threads

Milliseconds of a round, or of a whole fit where the line says rounds: median, and in brackets the
least and the greatest, of {turns} fits in turn; the ratio is the time of precede by that of
LightGBM, so below 1 precede is faster. 1.2 M x 136: 10,000 queries of 120, five grades. Each
section has the commit that it was measured at.
"""
SECTION = """
## A machine with {cores} cores

{processor}; {date}, commit {commit}, Python {python}, NumPy {numpy}, numba {numba}, LightGBM
{lightgbm}.

| work | threads | precede | LightGBM | | ratio | wanted |
|---|--:|--:|---|--:|--:|---|
{lines}
RankBoost with stumps, 1.2 M x 136:

| threads | ms of a round | times as fast as two | wanted |
|--:|--:|--:|---|
{gains}
{oversubscribed}"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick, cores = parser.parse_args().quick, len(os.sched_getaffinity(0))
    lines, gained = "".join(compared(quick, cores)), "".join(gains(quick, cores))
    facts = about(cores) | {"cores": cores}
    section = SECTION.format(
        **facts, lines=lines, gains=gained, oversubscribed=oversubscribed(quick)
    )
    print(section)
    if quick:
        return
    kept = read_page("cores.md") if (RESULTS / "cores.md").exists() else ""
    sections = {
        int(each[1]): each[0].rstrip() + "\n"
        for each in re.finditer(r"\n## A machine with (\d+) cores\n.*?(?=\n## |\Z)", kept, re.S)
    } | {cores: section}
    text = TITLE.format(turns=TURNS) + "".join(sections[n] for n in sorted(sections))
    write_page(__file__, "cores.md", text)


if __name__ == "__main__":
    main()
