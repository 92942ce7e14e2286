"""Fits on a GPU beside the same fits on the CPU: time, set-up, and the digests of both models.

    python benchmarks/speed/gpu.py           # some 5 minutes on an H200 with 16 cores
    python benchmarks/speed/gpu.py --quick   # small, to see that it runs; nothing is kept

Times of rounds are those of `history_["seconds"]`, which ends when the device has answered. The
page is `results/gpu.md`.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import cupy
import numpy as np

from measure import about, middle, spread, write_page
from precede import BoostedRanker, Judgments, PairRisk, QBRank, RankBoost, RankBoostPlus
from precede.engine.backend import open_backend as open_device
from precede.engine.cuda import Batch, GpuRows, Work
from precede.engine.execution import Context
from precede.engine.histograms import GpuHistograms, TripleHistograms, pair_words, triple_cover
from precede.engine.quantization import plan_quantization
from precede.engine.table import Table
from precede.engine.tree_rows import Node, Rules
from precede.risks.pair_weights import PairWeights
from precede.weak_rankers.interactions import interaction_strengths
from problems.synthetic import one_query, web10k

ROUNDS, FITS, CPU_ROUNDS = 20, 3, 5


def even(rows, queries, features=136):
    """Graded queries of one size, a fifth of the features with eight values, a seventh mostly 0."""
    rng = np.random.default_rng(0)
    X = rng.random((rows, features), dtype=np.float32)
    X[:, ::5] = np.floor(8 * X[:, ::5])
    X[:, 1::7] = np.where(X[:, 1::7] < 0.7, 0, X[:, 1::7])
    score = X[:, 0] + 2 * X[:, 2] * X[:, 3] + X[:, 4] - X[:, 6] + 0.5 * rng.standard_normal(rows)
    y = np.searchsorted(np.quantile(score, [0.52, 0.84, 0.97, 0.99]), score)
    return X, y, np.arange(rows) * queries // rows


def uneven(queries):
    sample = web10k(queries)
    return sample.X, sample.y, sample.qid


def one_list(rows):
    return *one_query(rows), None


def problems(quick):
    """Name, target in ms, parameters and data, which are made when they are needed."""
    part = 100 if quick else 1
    rows, queries = 1_200_000 // part, 10_000 // part
    cache = {}

    def data(make, *sizes):
        def made():
            if make not in cache:
                cache.clear()
                cache[make] = make(*sizes)
            return cache[make]

        return made

    same = data(even, rows, queries)
    return [
        ("1.2 M x 136, 10,000 queries of 120, logistic, 31 leaves", 6, {}, same),
        ("the same, 255 leaves", 20, {"num_leaves": 255}, same),
        ("the same, squared hinge, 31 leaves", None, {"loss": "squared_hinge"}, same),
        ("the same, exponential loss, 31 leaves", None, {"loss": "exponential"}, same),
        ("the same, logistic with weights by rank, \"ndcg@10\", 31 leaves", None,
         {"rank_weight": "ndcg@10"}, same),
        ("the same, exponential loss with weights by rank, \"ndcg@10\", 31 leaves", None,
         {"loss": "exponential", "rank_weight": "ndcg@10"}, same),
        ("the same, logistic, half of the rows drawn for each tree, 31 leaves", None,
         {"subsample": 0.5, "random_state": 0}, same),
        ("the same, QBRank with averaged targets and line search, 31 leaves", None,
         {"estimator": QBRank, "num_leaves": 31}, same),
        ("the same, RankBoost with stumps", 1.5, {"estimator": RankBoost}, same),
        ("the same, RankBoost+, 44 million pairs", None, {"estimator": RankBoostPlus}, same),
        ("about 1.2 M x 136, 10,000 queries of all lengths, logistic, 31 leaves", 6, {},
         data(uneven, queries)),
        ("the same, RankBoost+, some 60 million pairs", 10, {"estimator": RankBoostPlus},
         data(uneven, queries)),
        ("one list of two classes, 10 M x 30, logistic, 31 leaves", 40, {},
         data(one_list, 10_000_000 // part)),
        ("the same, squared hinge, 31 leaves", None, {"loss": "squared_hinge"},
         data(one_list, 10_000_000 // part)),
    ]  # fmt: skip


def digest(ensemble):
    text = json.dumps(ensemble.to_dict(), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def fit(data, device, rounds, estimator=BoostedRanker, **given):
    """Milliseconds of the rounds but the first, seconds of set-up, and the model."""
    X, y, qid = data
    model = estimator(n_estimators=rounds + 1, device=device, **given)
    begin = time.perf_counter()
    model.fit(X, y, qid=qid)
    seconds = model.history_["seconds"]
    set_up = time.perf_counter() - begin - seconds.sum()
    return 1000 * seconds[1:], set_up, model.ensemble_


def lines_of_fits(quick):
    for name, target, given, make in problems(quick):
        data = make()
        fit(data, "cuda", ROUNDS, **given)  # compiles, and lets clocks rise
        several = [fit(data, "cuda", ROUNDS, **given) for _ in range(FITS)]
        there, set_up = (
            np.concatenate([one[0] for one in several]),
            middle([one[1] for one in several]),
        )
        model = several[-1][2]
        fit(data, "cpu", 1, **given)
        here, cpu_set_up, other = fit(data, "cpu", CPU_ROUNDS, **given)
        digests = digest(model.first(CPU_ROUNDS + 1)), digest(other)
        print(name, middle(there), middle(here), digests, flush=True)
        yield {
            "name": name, "target": target, "gpu": there, "cpu": here, "set_up": set_up,
            "cpu_set_up": cpu_set_up, "digests": digests,
        }  # fmt: skip


def timed(work, repeats=20):
    """Median milliseconds of what a function starts on the device."""
    work()
    found = []
    for _ in range(repeats):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        work()
        end.record()
        end.synchronize()
        found.append(cupy.cuda.get_elapsed_time(begin, end))
    return middle(found)


def bandwidth():
    """Bytes per second of a copy on the device, read and written."""
    one = cupy.zeros(1 << 30, cupy.uint8)
    other = cupy.empty_like(one)
    return 2 * one.size / timed(lambda: cupy.copyto(other, one)) * 1000


def kernels(quick):
    """Name, milliseconds, bytes that must be moved, and a count of what is done."""
    rows, queries = (12_000, 100) if quick else (1_200_000, 10_000)
    X, y, qid = even(rows, queries)
    device, features = open_device("cuda"), X.shape[1]
    with Context(None, device) as context:
        table = Table.build(X, context=context)
        none = np.zeros(features, np.int8)
        there = GpuRows(table, np.arange(features), none, none.astype(bool), context)
        rng = np.random.default_rng(0)
        pull, weight = device.put(rng.standard_normal(rows)), device.put(rng.random(rows))
        numbers = plan_quantization(pull, weight, context).apply(pull, weight, device, context)
        rules = Rules(1.0, 1.0, numbers.count_bits, 0.0, 0.0, 0.0, 1, 0.0, 0.0)
        for share in (1, 4, 16, 64):
            chosen = np.sort(rng.permutation(rows)[: rows // share]).astype(np.int32)
            there.begin_tree(numbers, rules, chosen, 2)
            there.total(Node(0, chosen.size, 0, slot=0))
            batch = Batch(device, [Work(sum_high=chosen.size)], there.width // 32)
            cells = chosen.size * features
            moved = chosen.size * (there.width + 12) + 2 * there.width * 256 * 16
            name = "histogram of all rows" if share == 1 else f"histogram of 1/{share} of them"
            yield (
                name,
                timed(lambda batch=batch: (there._partition(batch), there._fill(batch))),
                moved,
                cells,
                "cells",
            )
        layout = Judgments(y, qid).to_layout("items")
        risk = PairRisk("logistic", balance="items").bind(layout, context)
        scores = device.put(rng.standard_normal(rows))
        pairs = layout.count_graded_pairs()
        milliseconds = timed(lambda: risk.state(scores))
        yield "logistic pulls of all pairs", milliseconds, 40 * rows, pairs, "pairs"
        yield from kernels_of_stumps(device, context, table, layout)


def kernels_of_stumps(device, context, table, layout):
    """The same of RankBoost and RankBoost+."""
    rng, rows, features = np.random.default_rng(0), table.n_used_rows, table.n_features
    columns = GpuHistograms(device, table)
    pull = device.put(rng.standard_normal(rows) / rows)
    moved = rows * (-(-features // 32) * 32 + 8)
    yield (
        "histogram for stumps", timed(lambda: columns.sums(pull)), moved, rows * features, "cells"
    )  # fmt: skip
    risk = PairRisk("exponential").bind(layout, context)
    scores = device.put(rng.standard_normal(rows))
    milliseconds = timed(lambda: risk.state(scores))
    yield "exponential pulls", milliseconds, 16 * rows, rows, "rows"
    values = device.put(rng.integers(0, 2, rows).astype(np.uint8))
    pairs = layout.count_graded_pairs()
    for kept in (True, False):
        weights = PairWeights(layout, context, None if kept else 0)._graded
        for _ in range(10):
            weights.multiply(values, 1.0, 1.0, 1.0)
        again = (values, (1.0, 1.0, 1.0), 3 if kept else 0)
        milliseconds = timed(lambda weights=weights, again=again: weights._update_sums(*again))
        name = "weights of pairs, kept" if kept else "weights of pairs, made anew after 10 rounds"
        yield name, milliseconds, 16 * pairs if kept else 10 * rows, pairs, "pairs"


HEADER = """# Fits on a GPU

{device}, driver {driver}, CUDA {cuda}; {processor}, {cores} cores; Python {python}, CuPy
{cupy}, NumPy {numpy}, numba {numba}; {date}, commit {commit}. Synthetic data. Milliseconds of a
round: the median of {fits} fits of {rounds} rounds, and in brackets the least and the greatest; \
on the
CPU, with all cores, of one fit of {cpu_rounds}. Set-up in seconds is everything else in `fit`: \
checks, sorting, binning,
and copying to the device. The digest is of the first {models} rankers.

| work | target, ms | GPU, ms | set-up, s | CPU, ms | set-up, s | digest on the GPU | on the CPU |
|---|---|---|---|---|---|---|---|
"""
LIMITS = """
## How far from the limits

A copy within the memory of the device moves {copy:.2f} TB/s, read and written. The table compares
kernels with the time in which their input and output could be moved at this speed.

| kernel | ms | least bytes, MB | at full bandwidth, ms | times longer | rate |
|---|---|---|---|---|---|
"""
SCORING = """
## Scoring

{rows} rows of 136 numbers of single precision, which are on the device already, by 100 trees of 31
leaves: {gpu:.1f} ms (target 60 ms{missed}); the CPU with all cores, estimated from a hundredth of
the rows, {cpu:.0f} ms. The scores are {same}. To read the rows once would take {least:.1f} ms.
"""
DETECTION = """
## Pairs of features

Strengths of the interactions of all {pairs} pairs of 136 features, {rows} rows, with the bins of
the grid: {gpu:.0f} ms (target 2000 ms{missed}), of which {fill:.0f} ms are the sums over all cells;
the CPU with all cores {cpu:.0f} ms. The strengths are {same}.
"""
ANEW = """
## Weights that are not kept

RankBoost+ on one list of two classes, {rows} rows of 30 features, {pairs} pairs, whose weights
would take {memory:.0f} GB: they are made anew in every round. Round {first} takes {early:.0f} ms
and round {last} {late:.0f} ms. On the data of the first lines models with and without kept weights
are {same} ({digests}).
"""
NOTES = """
Histograms are limited by additions in shared memory, of which every cell needs two (for stumps,
three), not by bandwidth. In small nodes, clearing the {clear:.1f} MB of a histogram and starting
the kernels weigh most. Times of pulls and of weights of pairs include the few numbers that come
back.

Models of the GPU and of the CPU are {equal}.
"""


def page(fits, found, copy, scoring, detection, anew):
    facts = about("all") | {
        "device": open_device("cuda").name, "driver": driver(), "cupy": cupy.__version__,
        "cuda": cupy.cuda.runtime.runtimeGetVersion(), "rounds": ROUNDS, "fits": FITS,
        "cpu_rounds": CPU_ROUNDS, "models": CPU_ROUNDS + 1,
    }  # fmt: skip
    text = HEADER.format(**facts)
    for each in fits:
        met = each["target"] is None or middle(each["gpu"]) <= each["target"]
        target = "" if each["target"] is None else f"{each['target']}{'' if met else ' (missed)'}"
        text += (
            f"| {each['name']} | {target} | {spread(each['gpu'], 2)} | {each['set_up']:.2f} | "
            f"{spread(each['cpu'], 0)} | {each['cpu_set_up']:.2f} | `{each['digests'][0]}` | "
            f"`{each['digests'][1]}` |\n"
        )
    text += LIMITS.format(copy=copy / 1e12)
    for name, milliseconds, moved, count, unit in found:
        least = 1000 * moved / copy
        text += (
            f"| {name} | {milliseconds:.3f} | {moved / 1e6:.1f} | {least:.3f} | "
            f"{milliseconds / least:.1f} | {count / milliseconds / 1e6:.1f} G {unit}/s |\n"
        )
    same = all(one == other for one, other in (each["digests"] for each in fits))
    equal = "equal to the bit in every line" if same else "NOT equal in every line: a fault"
    rows, gpu, cpu, scores, size = scoring
    text += NOTES.format(equal=equal, clear=160 * 256 * 16 / 1e6)
    text += SCORING.format(
        rows=f"{rows:,}", gpu=gpu, cpu=cpu, least=1000 * size / copy,
        missed="" if gpu <= 60 else ", missed",
        same="equal to the bit" if scores else "NOT equal: a fault",
    )  # fmt: skip
    equal = detection["there"] == detection["here"]
    text += DETECTION.format(
        **detection, pairs=f"{len(detection['here']):,}",
        missed="" if detection["gpu"] <= 2000 else ", missed",
        same="equal to the bit" if equal else "NOT equal: a fault",
    )  # fmt: skip
    one, other = anew["digests"]
    anew = anew | {"digests": f"`{one}` and `{other}`"}
    return text + ANEW.format(
        **anew, same="equal to the bit" if one == other else "NOT equal: a fault"
    )


def lines_of_scoring(quick):
    """Scoring of rows that are on the device already, beside the CPU."""
    rows = 100_000 if quick else 10_000_000
    X, y, qid = even(rows // 100, 1000 if not quick else 10)
    model = BoostedRanker(n_estimators=100, n_jobs=None).fit(X, y, qid=qid)
    many = cupy.concatenate([cupy.asarray(X)] * 100)
    there = timed(lambda: model.predict(many), 5)
    model.predict(X)  # compiles
    begin = time.perf_counter()
    here = model.predict(X)
    cpu = 1000 * (time.perf_counter() - begin) * 100
    same = bool((model.predict(many[: len(X)]).get() == here).all())
    return rows, there, cpu, same, many.nbytes


def lines_of_detection(quick):
    """Detection of pairs on the device, beside the CPU."""
    rows = 12_000 if quick else 1_200_000
    X, *_ = even(rows, 100)
    rng, device = np.random.default_rng(1), open_device("cuda")
    found = {"rows": f"{rows:,}"}
    for name, using, repeats in (("cpu", None, 2), ("gpu", device, 4)):
        with Context(None, using) as context:
            table = Table.build(X, context=context)
            pull, weight = rng.standard_normal(rows), np.ones(rows)
            product = X[:, 2].astype(np.float64) * X[:, 3] - 0.25
            given = table, product, weight, np.arange(X.shape[1]), context
            seconds = []
            for _ in range(repeats):
                begin = time.perf_counter()
                strengths = interaction_strengths(*given)
                seconds.append(time.perf_counter() - begin)
            found[name] = 1000 * middle(seconds[1:])
            found["here" if using is None else "there"] = strengths
    codes = (rng.integers(0, 16, (X.shape[1], rows))).astype(np.uint8)
    words = pair_words(pull, weight, Context(1)).words
    triples = TripleHistograms(codes, words, Context(1, device))
    found["fill"] = timed(lambda: triples.sums(triple_cover(X.shape[1])), 5)
    return found


def lines_of_anew(quick):
    """RankBoost+ whose weights do not fit into the memory of the device."""
    rows, rounds = (2150, 5) if quick else (215_000, 10)
    X, y = one_query(rows)
    times, *_ = fit((X, y, None), "cuda", rounds, RankBoostPlus, memory_limit=1000)
    pairs = int(y.sum()) * int((1 - y).sum())
    same = even(*((12_000, 100) if quick else (1_200_000, 10_000)))
    models = [
        fit(same, "cuda", CPU_ROUNDS, RankBoostPlus, memory_limit=limit)[2]
        for limit in ("auto", 1000)
    ]
    return {
        "rows": f"{rows:,}", "pairs": f"{pairs:,}", "memory": 8 * pairs / 1e9, "first": 2,
        "last": rounds + 1, "early": times[0], "late": times[-1],
        "digests": [*map(digest, models)],
    }  # fmt: skip


def driver():
    found = subprocess.run(
        ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return found.stdout.split("\n")[0].strip()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    fits, found = list(lines_of_fits(quick)), list(kernels(quick))
    text = page(
        fits, found, bandwidth(), lines_of_scoring(quick), lines_of_detection(quick),
        lines_of_anew(quick),
    )  # fmt: skip
    print(text)
    if not quick:
        write_page(__file__, "gpu.md", text)


if __name__ == "__main__":
    main()
