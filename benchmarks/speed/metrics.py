"""Time precede.metrics against its peers on one table, and check that the values agree.

Run ``python benchmarks/speed/metrics.py``; it rewrites ``benchmarks/results/metrics.md`` (some five
minutes, most of them for ranx). ``--quick`` is small, to see that it runs, and writes nothing.
Contestants take turns, so that other work on the machine disturbs all of them alike, and each is
given by its best turn, in wall-clock and in processor seconds. The first call, which compiles, is
a column of its own; compiled code of precede goes to a fresh directory, so that it is a cold one.
"""

import argparse
import os
import platform
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ["NUMBA_CACHE_DIR"] = tempfile.mkdtemp()

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure import write_page
from precede.metrics import Evaluator, evaluate

PEERS = ("numpy", "numba", "ranx", "ir-measures", "lightgbm", "scikit-learn")
TEN = [
    "ndcg@5", "ndcg@10", "ndcg", "map", "map@10", "mrr", "precision@5", "precision@10",
    "recall@10", "recall@50",
]  # fmt: skip
THEIR_TEN = ["nDCG@5", "nDCG@10", "nDCG", "AP", "AP@10", "RR", "P@5", "P@10", "R@10", "R@50"]
DEFAULT = [
    "ndcg@10", "map", "mrr", "err@10", "precision@5", "auc", "pair_error",
    "precision_at_percent@10",
]  # fmt: skip


@dataclass
class Contestant:
    label: str
    source: str
    threads: int
    function: Any
    first: float = 0.0
    wall: float = float("inf")
    processor: float = float("inf")
    answer: Any = None


def race(contestants, rounds):
    for each in contestants:
        start = time.perf_counter()
        each.answer = each.function()
        each.first = time.perf_counter() - start
    for _ in range(rounds):
        for each in contestants:
            wall, processor = time.perf_counter(), time.process_time()
            each.function()
            each.wall = min(each.wall, time.perf_counter() - wall)
            each.processor = min(each.processor, time.process_time() - processor)
    return contestants


def make_table(n_queries, n_items):
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(n_queries), n_items)
    y = rng.choice(5, size=qid.size, p=[0.6, 0.2, 0.1, 0.06, 0.04]).astype(float)
    return y, y + 2 * rng.normal(size=qid.size), qid


def as_dicts(table):
    """Return grades and scores as the dictionaries of dictionaries that peers read."""
    y, scores, qid = table
    item = np.arange(qid.size) - np.searchsorted(qid, qid)
    grades, run = {}, {}
    columns = (qid.tolist(), item.tolist(), y.astype(int).tolist(), scores.tolist())
    for query, item, grade, score in zip(*columns, strict=True):
        grades.setdefault(f"q{query}", {})[f"d{item:04d}"] = grade
        run.setdefault(f"q{query}", {})[f"d{item:04d}"] = score
    return grades, run


def race_ten(table):
    import ir_measures
    import numba
    import ranx

    y, scores, qid = table
    options = {"metrics": TEN, "gains": "linear", "no_relevant": "zero"}
    raw = Contestant("precede `evaluate`", "raw arrays", 1, lambda: evaluate(*table, **options))
    race([raw], 1)  # compiles, so before anything else of ours
    judge = Evaluator(y, qid, **options)
    ready = Contestant("precede `Evaluator`", "ready", 1, lambda: judge.evaluate(scores))
    grades, run = as_dicts(table)
    start = time.perf_counter()
    qrels, ranx_run = ranx.Qrels(grades), ranx.Run(run)
    building = time.perf_counter() - start
    peer = Contestant(
        "ranx", "`Qrels`, `Run`", numba.get_num_threads(),
        lambda: ranx.evaluate(qrels, ranx_run, TEN),
    )  # fmt: skip
    measures = [ir_measures.parse_measure(name) for name in THEIR_TEN]
    theirs = ir_measures.evaluator(measures, grades)
    trec = Contestant("ir-measures", "dicts", 1, lambda: theirs.calc_aggregate(run))
    compiling = raw.first
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        race([ready, raw, peer, trec], 6)
    race([ready, raw], 1)
    raw.first = compiling
    by_name = {str(key): value for key, value in trec.answer.items()}
    for name, other in zip(TEN, THEIR_TEN, strict=True):
        np.testing.assert_allclose(ready.answer.mean[name], peer.answer[name], rtol=1e-12)
        # trec_eval keeps scores in single precision, which ties a few pairs in a million.
        np.testing.assert_allclose(ready.answer.mean[name], by_name[other], rtol=1e-4)
    return [ready, raw, peer, trec], building


def race_ndcg(table, shape):
    import lightgbm
    from sklearn.metrics import ndcg_score

    y, scores, qid = table
    judge = Evaluator(y, qid, metrics="ndcg@10", preset="lightgbm")
    linear = Evaluator(y, qid, metrics="ndcg@10", preset="sklearn").value(scores)
    contestants = [Contestant("precede `value`", "ready", 1, lambda: judge.value(scores))]
    data = lightgbm.Dataset(
        np.zeros((y.size, 1)), label=y, group=np.bincount(qid), init_score=scores
    )
    parameters = {"objective": "lambdarank", "metric": "ndcg", "eval_at": [10], "verbose": -1}
    booster = lightgbm.Booster(parameters | {"num_threads": 1}, data)
    contestants.append(Contestant("LightGBM `eval_train`", "ready", 1, booster.eval_train))
    matrices = y.reshape(shape), scores.reshape(shape)
    for label, ignore in (("", False), (", ignore_ties", True)):
        contestants.append(
            Contestant(
                f"scikit-learn `ndcg_score`{label}", "matrix", 1,
                lambda ignore=ignore: ndcg_score(*matrices, k=10, ignore_ties=ignore),
            )
        )  # fmt: skip
    race(contestants, 5)
    np.testing.assert_allclose(contestants[0].answer, contestants[1].answer[0][2], rtol=1e-12)
    np.testing.assert_allclose(linear, contestants[2].answer, rtol=1e-12)
    return contestants


def race_rest(table, long):
    y, scores, qid = table
    contestants = []
    for ties in ("worst", "average"):
        judge = Evaluator(y, qid, metrics=DEFAULT, ties=ties)
        label = f"precede `Evaluator`, eight metrics, ties={ties}"
        contestants.append(
            Contestant(label, "ready", 1, lambda judge=judge: judge.evaluate(scores))
        )
    rng = np.random.default_rng(1)
    many = rng.normal(size=long)
    noisy = many + rng.normal(size=many.size)
    for name in ("pair_error", "precision_at_percent@10"):
        judge = Evaluator(many, metrics=name)
        label = f"precede `{name}`, one query of {long:,} items"
        contestants.append(Contestant(label, "ready", 1, lambda judge=judge: judge.value(noisy)))
    return race(contestants, 3)


def lines_of(contestants, *, compare):
    head = "| what | from | threads | first call (s) | later calls (s) | processor (s) |"
    rule = "|---|---|--:|--:|--:|--:|"
    lines = [head + " times precede |" * compare, rule + "--:|" * compare]
    reference = contestants[0].wall
    for each in contestants:
        line = f"| {each.label} | {each.source} | {each.threads} | {each.first:.3f} "
        line += f"| {each.wall:.4f} | {each.processor:.4f} |"
        lines.append(line + f" {each.wall / reference:.1f} |" * compare)
    if compare:
        faster = [each.label for each in contestants if each.wall < reference]
        lines += ["", f"Faster than the first row: {', '.join(faster) or 'none'}."]
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--items", type=int, default=120)
    parser.add_argument("--quick", action="store_true", help="small; writes nothing")
    asked = parser.parse_args()
    shape = (100, 20) if asked.quick else (asked.queries, asked.items)
    table = make_table(*shape)
    ten, building = race_ten(table)
    ndcg = race_ndcg(table, shape)
    rest = race_rest(table, 10_000 if asked.quick else 1_000_000)
    found = ", ".join(f"{name} {version(name)}" for name in PEERS)
    load = os.getloadavg()[0]
    text = [
        "# Metrics: time against peers",
        "",
        f"{shape[0]:,} queries of {shape[1]} items, grades 0 to 4, no tied scores.",
        "Contestants took turns; the best turn of each is given. Their values were checked to "
        "agree in the same run: to 1e-12, and to 1e-4 for ir-measures (trec_eval keeps scores in "
        "single precision).",
        "",
        f"Python {platform.python_version()}, {found}; {os.cpu_count()} cores, load {load:.1f}.",
        "The first call of precede `evaluate` compiles everything, its cache of compiled code "
        "being empty. A later process loads it from disk.",
        "",
        f"Ten metrics: {', '.join(TEN)}.",
        "",
        *lines_of(ten, compare=True),
        "",
        f"Building ranx's `Qrels` and `Run` from dictionaries took another {building:.1f} s.",
        "",
        "One metric, ndcg@10:",
        "",
        *lines_of(ndcg, compare=True),
        "",
        f"Without peers; the eight metrics are {', '.join(DEFAULT)}, and a million items make "
        "5·10^11 pairs:",
        "",
        *lines_of(rest, compare=False),
        "",
    ]
    if not asked.quick:
        write_page(__file__, "metrics.md", "\n".join(text))
    print("\n".join(text))


if __name__ == "__main__":
    main()
