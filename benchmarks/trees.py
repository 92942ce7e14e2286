"""Trees beside LightGBM, in one run: a round of boosting, and scoring.

    python benchmarks/trees.py [--queries 10000] [--rounds 12]

A round is everything between two trees: gradients, growing, reading the tree, the step, the
new scores. LightGBM's is `Booster.update`. Both bin the same rows with 255 bins and use the
same number of threads. The first two rounds are left out (compilation, first allocation);
rounds of the two libraries take turns, so that a busy machine is busy for both.
"""

import argparse
import os
import platform
import time

import lightgbm
import numpy as np

import precede
from measure import write_page
from precede import BoostedRanker, QBRank
from precede.boosting.history import History, Rounds
from precede.boosting.loop import _Loop
from precede.engine.training import Training
from precede.engine.workers import Workers
from precede.rankers.trees import Forest, tree_from_lightgbm
from problems import web10k

LEAVES = 31


def lightgbm_rounds(sample, objective):
    data = lightgbm.Dataset(sample.X, label=sample.y, group=np.bincount(sample.qid))
    settings = {"objective": objective, "num_leaves": LEAVES, "verbosity": -1, "max_bin": 255,
                "learning_rate": 0.1, "metric": "None", "num_threads": os.cpu_count()}  # fmt: skip
    booster = lightgbm.Booster(settings, data)
    while True:
        began = time.perf_counter()
        booster.update()
        yield time.perf_counter() - began, booster


def our_rounds(sample, estimator):
    """Rounds of the loop, as `fit` runs them."""
    judgments = precede.Judgments.graded(sample.y, sample.qid)
    workers = Workers(None)
    training = Training.prepare(
        sample.X, judgments, balance=estimator.balance, max_bins=255, workers=workers
    )
    estimator.n_features_in_ = sample.X.shape[1]
    loop = _Loop(estimator._plan(Rounds(10**6)), training, None, History(), ())
    rounds = iter(loop)
    while True:
        began = time.perf_counter()
        next(rounds)
        yield time.perf_counter() - began, loop


def bench_rounds(sample, rounds):
    shape = {"num_leaves": LEAVES, "learning_rate": 0.1}
    running = {
        "LightGBM lambdarank": lightgbm_rounds(sample, "lambdarank"),
        "LightGBM rank_xendcg": lightgbm_rounds(sample, "rank_xendcg"),
        "BoostedRanker (default: logistic)": our_rounds(sample, BoostedRanker(**shape)),
        "BoostedRanker, line search": our_rounds(sample, BoostedRanker(line_search=True, **shape)),
        "BoostedRanker, exponential": our_rounds(
            sample, BoostedRanker(loss="exponential", **shape)
        ),
        "QBRank (line search)": our_rounds(sample, QBRank(**shape)),
        "QBRank, no line search": our_rounds(sample, QBRank(line_search=False, **shape)),
    }
    seconds = {name: [] for name in running}
    for turn in range(rounds + 2):
        for name, each in running.items():
            took, _ = next(each)
            if turn >= 2:
                seconds[name].append(took)
    return seconds


def bench_scoring(sample, rows=200_000, trees=100, repeats=5):
    for _, booster in lightgbm_rounds(sample, "lambdarank"):
        if booster.current_iteration() == trees:
            break
    grown = [tree_from_lightgbm(t["tree_structure"]) for t in booster.dump_model()["tree_info"]]
    forest = Forest(grown, [1.0] * trees)
    results = {}
    for kind in ("float32", "float64"):
        X = np.ascontiguousarray(sample.X[:rows].astype(kind))
        for threads in (1, os.cpu_count()):
            with Workers(threads) as workers:
                scores = np.zeros(len(X))
                forest.add_to(scores, X, workers)
                same = np.array_equal(scores, booster.predict(X, num_threads=threads))
                ours, theirs = [], []
                for _ in range(repeats):
                    began = time.perf_counter()
                    forest.add_to(np.zeros(len(X)), X, workers)
                    ours.append(time.perf_counter() - began)
                    began = time.perf_counter()
                    booster.predict(X, num_threads=threads)
                    theirs.append(time.perf_counter() - began)
            results[f"{kind}, {threads} thread{'s' * (threads > 1)}"] = (ours, theirs, same)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=12)
    asked = parser.parse_args()
    sample = web10k(asked.queries)
    rows, features = sample.X.shape
    lines = [
        "# Trees", "",
        f"{rows:,} rows, {features} features, {asked.queries:,} queries, {LEAVES} leaves, "
        f"{os.cpu_count()} threads ({platform.processor() or platform.machine()}); LightGBM "
        f"{lightgbm.__version__}. `python benchmarks/trees.py --queries {asked.queries}`.", "",
        "## One round", "",
        "| | median ms | least ms | of lambdarank's median |", "|---|---|---|---|",
    ]  # fmt: skip
    found = bench_rounds(sample, asked.rounds)
    base = np.median(found["LightGBM lambdarank"])
    for name, took in found.items():
        middle = np.median(took)
        lines.append(
            f"| {name} | {1000 * middle:.0f} | {1000 * min(took):.0f} | {middle / base:.2f} |"
        )
    lines += ["", "## Scoring 200,000 rows with 100 trees", "",
              "| | ours, ms | LightGBM, ms | times faster | equal bits |",
              "|---|---|---|---|---|"]  # fmt: skip
    for name, (ours, theirs, same) in bench_scoring(sample).items():
        a, b = 1000 * np.median(ours), 1000 * np.median(theirs)
        lines.append(f"| {name} | {a:.0f} | {b:.0f} | {b / a:.1f} | {'yes' if same else 'no'} |")
    write_page(__file__, "trees.md", "\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
