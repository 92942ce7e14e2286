"""Trees: rounds, set-up, memory, scoring and growth beside LightGBM, round by round in turn.

    python benchmarks/speed/trees.py           # some 12 minutes on two quiet cores
    python benchmarks/speed/trees.py --quick   # small, to see that it runs; nothing is kept

Bins, leaves, learning rate and threads are the same. After every few rounds of ours LightGBM does
as many on the same data, so both meet the same noise; the first of them is not counted, because
in a fit a round follows another and finds its data in the caches. The page is `results/trees.md`.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import lightgbm
import numpy as np

from measure import about, in_a_process, middle, write_page
from precede import BoostedRanker
from problems.real import credit, mq2008
from problems.synthetic import one_query, web10k

HERE = Path(__file__).resolve().parents[1]
THREADS = 2
RATE = 0.05
# A library does its rounds in so many blocks, one round after the other as in a fit: after a pause
# the caches have been emptied by others. Between blocks there is a pause, because threads of OpenMP
# go on spinning for a while after their work, on the processors that the other library is about to
# use. The first round of a block is not counted.
BLOCKS, PAUSE = 4, 0.02
TARGETS = {
    ("1.2 M x 136, 31 leaves", "lambdarank"): 0.6,
    ("1.2 M x 136, 31 leaves", "rank_xendcg"): 0.85,
    ("1.2 M x 136, 255 leaves", "lambdarank"): 0.7,
    ("234 k x 136", "lambdarank"): 0.75,
    ("35 k x 136", "lambdarank"): 0.75,
    ("MQ2008 fold 1", "lambdarank"): 1.0,
    ("one list, 1 M x 30", "binary"): 1.0,
    ("one list, 75 k x 10", "binary"): 1.5,
}


def peer(data, objective, leaves):
    """LightGBM ready to do rounds, and the seconds of its set-up."""
    X, y, qid = data
    parameters = {
        "objective": objective, "num_leaves": leaves, "learning_rate": RATE, "max_bin": 255,
        "num_threads": THREADS, "verbosity": -1,
    }  # fmt: skip
    sizes = None if qid is None else np.unique(qid, return_counts=True)[1]
    begin = time.perf_counter()
    rows = lightgbm.Dataset(X, y, group=sizes, params=parameters).construct()
    return lightgbm.Booster(parameters, rows), time.perf_counter() - begin


def rounds(data, objectives, leaves, count):
    """Milliseconds of every round of ours and of each objective, and seconds of set-up."""
    X, y, qid = data
    alone = BoostedRanker(n_estimators=1, num_leaves=leaves, n_jobs=THREADS)
    begin = time.perf_counter()
    alone.fit(X, y, qid=qid)
    first = time.perf_counter() - begin - alone.history_["seconds"].sum()
    peers = {name: peer(data, name, leaves) for name in objectives}
    found = {name: [] for name in objectives}
    aside, done, in_a_row = [], [], count // BLOCKS

    def others(_):
        done.append(True)
        if len(done) % in_a_row:
            return
        begun = time.perf_counter()
        for name, (booster, _) in peers.items():
            time.sleep(PAUSE)
            for number in range(in_a_row):
                begin = time.perf_counter()
                booster.update()
                if number:
                    found[name].append(1000 * (time.perf_counter() - begin))
        time.sleep(PAUSE)
        aside.append(time.perf_counter() - begun)

    model = BoostedRanker(
        n_estimators=count, num_leaves=leaves, learning_rate=RATE, n_jobs=THREADS,
        callbacks=[others],
    )  # fmt: skip
    begin = time.perf_counter()
    model.fit(X, y, qid=qid)
    seconds = model.history_["seconds"]
    set_up = time.perf_counter() - begin - sum(aside) - seconds.sum()
    found["precede"] = [1000 * each for k, each in enumerate(seconds) if k % in_a_row]
    return {
        "ms": found,
        "in_a_row": in_a_row,
        # The faster of two on both sides, where there are two.
        "set_up": {"precede": min(first, set_up), "LightGBM": min(s for _, s in peers.values())},
    }


MEMORY = """
import resource, sys, numpy as np
sys.path.insert(0, {here!r})
from speed.trees import BoostedRanker, THREADS, peer
data = tuple(np.load(f"{folder}/{{name}}.npy") for name in ("X", "y", "qid"))
def fit(data):
    if {ours}:
        BoostedRanker(n_estimators=5, n_jobs=THREADS).fit(data[0], data[1], qid=data[2])
    else:
        booster, _ = peer(data, "lambdarank", 31)
        for _ in range(5):
            booster.update()
fit(tuple(each[:3000].copy() for each in data))
before = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
open("/proc/self/clear_refs", "w").write("5")  # start the peak again from here
fit(data)
peak = [line for line in open("/proc/self/status") if line.startswith("VmHWM")][0]
print(int(peak.split()[1]) * 1024 - before)
"""


def memory(data):
    """Greatest memory in MB of a fit beyond its input, each in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        for name, each in zip(("X", "y", "qid"), data, strict=True):
            np.save(f"{folder}/{name}.npy", each)
        return {
            name: int(in_a_process(MEMORY.format(here=str(HERE), folder=folder, ours=ours))) / 1e6
            for name, ours in (("precede", True), ("LightGBM", False))
        }


def scoring(data, rows, trees, repeats):
    """Milliseconds to score rows with trees of 31 leaves, library after library in turn."""
    import catboost
    import xgboost

    X, y, qid = data
    part = slice(0, min(len(y), 60_000))
    sizes = np.unique(qid[part], return_counts=True)[1]
    judged = np.tile(X, (rows // len(X) + 1, 1))[:rows].copy()
    ours = BoostedRanker(n_estimators=trees, n_jobs=THREADS).fit(X[part], y[part], qid=qid[part])
    booster, _ = peer(tuple(each[part] for each in data), "lambdarank", 31)
    for _ in range(trees):
        booster.update()
    matrix = xgboost.DMatrix(X[part], y[part])
    matrix.set_group(sizes)
    boosted = xgboost.train(
        {"objective": "rank:ndcg", "max_leaves": 31, "max_depth": 0, "grow_policy": "lossguide",
         "tree_method": "hist", "nthread": THREADS}, matrix, trees,
    )  # fmt: skip
    cat = catboost.CatBoost(
        {"loss_function": "RMSE", "iterations": trees, "num_leaves": 31, "depth": 12,
         "grow_policy": "Lossguide", "thread_count": THREADS, "verbose": False,
         "allow_writing_files": False},
    ).fit(X[part], y[part])  # fmt: skip
    sides = {
        "precede": lambda: ours.predict(judged),
        "LightGBM": lambda: booster.predict(judged, raw_score=True, num_threads=THREADS),
        "XGBoost": lambda: boosted.inplace_predict(judged),
        "CatBoost": lambda: cat.predict(judged, thread_count=THREADS),
    }
    found = {name: [] for name in sides}
    for turn in range(repeats + 1):
        for name, side in sides.items():
            begin = time.perf_counter()
            side()
            if turn:
                found[name].append(1000 * (time.perf_counter() - begin))
    return found


def growth(sizes, count):
    """Seconds of whole fits for rising numbers of queries, and the slope in rows, log to log."""
    seconds, rows = [], []
    for queries in sizes:
        sample = web10k(queries)
        begin = time.perf_counter()
        BoostedRanker(n_estimators=count, n_jobs=THREADS).fit(sample.X, sample.y, qid=sample.qid)
        seconds.append(time.perf_counter() - begin)
        rows.append(len(sample.y))
    slope = float(np.polyfit(np.log(rows), np.log(seconds), 1)[0])
    return {"rows": rows, "seconds": seconds, "slope": slope}


def problems(quick):
    """Name: data, objectives of LightGBM, leaves, rounds."""
    ranked, count = ["lambdarank", "rank_xendcg"], 8 if quick else 20
    large = web10k(600 if quick else 10_000)
    large = large.X, large.y, large.qid
    yield "1.2 M x 136, 31 leaves", large, ranked, 31, count
    yield "1.2 M x 136, 255 leaves", large, ["lambdarank"], 255, 12
    for name, queries, times in (("234 k x 136", 1950, 1), ("35 k x 136", 290, 2)):
        sample = web10k(queries // 10 if quick else queries)
        yield name, (sample.X, sample.y, sample.qid), ranked, 31, times * count
    real = mq2008(1)
    if real is not None:
        X, y, qid = real[0]
        order = np.argsort(qid, kind="stable")
        yield "MQ2008 fold 1", (X[order], y[order], qid[order]), ranked, 31, 5 * count
    X, y = one_query(20_000 if quick else 1_000_000)
    yield "one list, 1 M x 30", (X, y, None), ["binary"], 31, count
    found = credit()
    if found is not None:
        X, y = found
        half = np.random.default_rng(0).permutation(y.size)[: y.size // 2]
        yield "one list, 75 k x 10", (X[half], y[half], None), ["binary"], 31, 5 * count


def page(machine, found, set_up, space, scored, grown):
    lines = [
        "# Trees: beside LightGBM in one run", "",
        f"{machine['date']}, {machine['processor']}, {machine['threads']} threads, load "
        f"{machine['load']} at the start; commit {machine['commit']}, LightGBM "
        f"{machine['lightgbm']}, XGBoost {machine['xgboost']}, CatBoost {machine['catboost']}. "
        f"Medians. The libraries take turns, {BLOCKS} times, with pauses of "
        f"{1000 * PAUSE:.0f} ms; each does some rounds in a row, the first of which is not "
        "counted. A ratio below 1 means that precede is faster or smaller.", "",
        "| round | in a row | objective of LightGBM | precede ms | LightGBM ms | ratio | target | "
        "reached |",
        "|---|---:|---|---:|---:|---:|---:|---|",
    ]  # fmt: skip
    for name, one in found.items():
        ours = middle(one["ms"]["precede"])
        for objective, values in one["ms"].items():
            if objective == "precede":
                continue
            theirs, target = middle(values), TARGETS.get((name, objective))
            ratio = ours / theirs
            reached = "" if target is None else ("yes" if ratio <= target else "no")
            lines.append(
                f"| {name} | {one['in_a_row']} | {objective} | {ours:.1f} | {theirs:.1f} | "
                f"{ratio:.2f} | {target or ''} | {reached} |"
            )
    ratio = set_up["precede"] / set_up["LightGBM"]
    use = space["precede"] / space["LightGBM"]
    ms = {name: middle(values) for name, values in scored.items()}
    fastest = min((name for name in ms if name != "precede"), key=ms.get)
    speed = ms["precede"] / ms[fastest]
    lines += [
        "", "| work | precede | peer | ratio | target | reached |", "|---|---:|---:|---:|---:|---|",
        f"| set-up, 1.2 M x 136 (Dataset construction), s | {set_up['precede']:.2f} | "
        f"{set_up['LightGBM']:.2f} | {ratio:.2f} | 0.5 | {'yes' if ratio <= 0.5 else 'no'} |",
        f"| peak memory of a fit beyond its input, MB | {space['precede']:.0f} | "
        f"{space['LightGBM']:.0f} | {use:.2f} | 0.8 | {'yes' if use <= 0.8 else 'no'} |",
        f"| scoring 200 k x 136, 100 trees of 31 leaves, ms ({fastest} is the fastest peer) | "
        f"{ms['precede']:.0f} | {ms[fastest]:.0f} | {speed:.2f} | 1.0 | "
        f"{'yes' if speed <= 1 else 'no'} |",
        f"| slope of whole fits in rows, log to log | {grown['slope']:.2f} | | | 1.05 | "
        f"{'yes' if grown['slope'] <= 1.05 else 'no'} |", "",
        "Scoring, ms: " + ", ".join(f"{name} {value:.0f}" for name, value in ms.items()) + ".", "",
        "Whole fits: " + ", ".join(
            f"{rows:,} rows {seconds:.1f} s"
            for rows, seconds in zip(grown["rows"], grown["seconds"], strict=True)
        ) + ".",
    ]  # fmt: skip
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    machine = about(THREADS)
    sample = web10k(30)
    for qid in (sample.qid, None):  # compile
        BoostedRanker(n_estimators=2).fit(
            sample.X, sample.y > 2 if qid is None else sample.y, qid=qid
        )
    found, first = {}, None
    for name, data, objectives, leaves, count in problems(quick):
        first = first or data
        found[name] = rounds(data, objectives, leaves, count)
        print(name, {key: round(middle(v), 2) for key, v in found[name]["ms"].items()}, flush=True)
    space = memory(first)
    scored = scoring(first, 20_000 if quick else 200_000, 100, 2 if quick else 7)
    grown = growth([30, 60, 120] if quick else [312, 625, 1250, 2500, 5000, 10_000], 10)
    text = page(machine, found, next(iter(found.values()))["set_up"], space, scored, grown)
    print(text)
    if not quick:
        write_page(__file__, "trees.md", text)


if __name__ == "__main__":
    main()
