"""Scoring trees, and setting up a fit, beside LightGBM, XGBoost and CatBoost.

    python benchmarks/speed/scoring.py            # some minutes
    python benchmarks/speed/scoring.py --quick    # small, to see that it runs

Scoring: every library grows 100 trees of at most 31 leaves, leaf by leaf, on the same rows, and
scores the same array; CatBoost also with its symmetric trees of 32 leaves. Ours are LightGBM's
trees, and their scores must equal LightGBM's to the bit. Set-up: `Training.prepare` (queries of 100
rows in five grades) beside the construction of LightGBM's `Dataset`, 255 bins each. All take turns
in one process with as many threads; conversions of the array are part of the time.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import catboost
import lightgbm
import numpy as np
import xgboost

from measure import about, middle, spread, write_page
from precede.engine.execution import Context
from precede.engine.query_layout import TrainingData
from precede.judgments import Judgments
from precede.weak_rankers.trees import Forest, tree_from_lightgbm

FEATURES, TREES, LEAVES, GROWN_ON = 136, 100, 31, 20_000
BATCHES = (1, 10, 1000)


def table(rows):
    """Numbers on several scales; every fifth column is rounded, every tenth an integer."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, FEATURES), dtype=np.float32)
    X[:, ::5] = X[:, ::5].round(1)
    X[:, 1::10] = np.floor(np.exp(1 + X[:, 1::10]))
    X[:, 2::10] = np.exp(3 * X[:, 2::10])
    score = X[:, 3::10].sum(axis=1) + np.sin(2 * X[:, 4]) * X[:, 6] + rng.standard_normal(rows)
    return X, (score > np.quantile(score, 0.8)).astype(int)


def grow(X, y, threads):
    """A scoring function of (X) for each library, and the trees of LightGBM."""
    common = {"objective": "binary", "num_leaves": LEAVES, "verbosity": -1, "num_threads": threads}
    light = lightgbm.train(common, lightgbm.Dataset(X, y), TREES)
    leafwise = {"objective": "binary:logistic", "tree_method": "hist", "nthread": threads,
                "grow_policy": "lossguide", "max_leaves": LEAVES, "max_depth": 0}  # fmt: skip
    extreme = xgboost.train(leafwise, xgboost.DMatrix(X, y), TREES)
    plain = {"iterations": TREES, "thread_count": threads, "verbose": 0,
             "allow_writing_files": False}  # fmt: skip
    cat = catboost.CatBoostClassifier(grow_policy="Lossguide", max_leaves=LEAVES, **plain)
    symmetric = catboost.CatBoostClassifier(depth=5, **plain)
    for model in (cat, symmetric):
        model.fit(X, y)
    raw = {"prediction_type": "RawFormulaVal", "thread_count": threads}
    peers = {
        "LightGBM": lambda Z: light.predict(Z, raw_score=True, num_threads=threads),
        "XGBoost": lambda Z: extreme.inplace_predict(Z, predict_type="margin"),
        "CatBoost, leaf by leaf": lambda Z: cat.predict(Z, **raw),
        "CatBoost, symmetric": lambda Z: symmetric.predict(Z, **raw),
    }
    trees = [tree_from_lightgbm(each["tree_structure"]) for each in light.dump_model()["tree_info"]]
    return peers, trees


def in_turn(calls, repeats):
    """Milliseconds of every call, one after the other, again and again."""
    found = {name: [] for name in calls}
    for call in calls.values():
        call()  # compile, and start threads
    for _ in range(repeats):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            found[name].append(1e3 * (time.perf_counter() - begin))
    return found


def scoring(rows, repeats, context):
    X, y = table(rows)
    peers, trees = grow(X[:GROWN_ON], y[:GROWN_ON], context.jobs)
    forest = Forest(trees, [1.0] * len(trees))

    def ours(Z):
        scores = np.zeros(len(Z))
        forest.add_to(scores, Z, context)
        return scores

    functions = {"precede": ours, **peers}
    found = {}
    for dtype in (np.float32, np.float64):
        Z = X.astype(dtype)
        if not np.array_equal(ours(Z), peers["LightGBM"](Z)):
            raise RuntimeError("the scores differ from LightGBM's")
        calls = {name: lambda f=f, Z=Z: f(Z) for name, f in functions.items()}
        found[f"{rows:,} rows, {np.dtype(dtype)}"] = in_turn(calls, repeats)
    for few in BATCHES:
        Z = X[:few].copy()
        calls = {name: lambda f=f, Z=Z: f(Z) for name, f in functions.items()}
        found[f"{few:,} rows, float32"] = in_turn(calls, 10 * repeats)
    return found


def set_up(rows, repeats, context):
    X, _ = table(rows)
    grade = np.random.default_rng(1).integers(0, 5, rows)
    judgments = Judgments.graded(grade, np.arange(rows) // 100)
    settings = {"max_bin": 255, "num_threads": context.jobs, "verbosity": -1}
    calls = {
        "precede": lambda: TrainingData.prepare(
            X, judgments, balance="pairs", max_bins=255, context=context
        ),
        "LightGBM": lambda: lightgbm.Dataset(X, grade, params=settings).construct(),
    }
    return {f"set-up of {rows:,} rows, float32": in_turn(calls, repeats)}


def page(found, machine):
    lines = [
        "# Scoring trees and setting up a fit",
        "",
        ", ".join(f"{name} {value}" for name, value in machine.items()) + ".",
        f"{TREES} trees of {LEAVES} leaves, {FEATURES} features. Milliseconds, in turn: median "
        "(least to greatest). The ratio is precede's median by the peer's: below 1 precede is "
        "faster.",
    ]
    for title, times in found.items():
        digits = 1 if middle(times["precede"]) >= 10 else 3
        lines += ["", f"## {title}", "", "| | ms | ratio |", "|---|--:|--:|"]
        for name, each in times.items():
            ratio = "" if name == "precede" else f"{middle(times['precede']) / middle(each):.2f}"
            lines.append(f"| {name} | {spread(each, digits)} | {ratio} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    with Context(given.threads) as context:
        found = scoring(GROWN_ON if given.quick else 200_000, given.repeats, context)
        found |= set_up(50_000 if given.quick else 1_200_000, 3, context)
    text = page(found, about(given.threads))
    print(text)
    if not given.quick:
        write_page(__file__, "scoring.md", text)


if __name__ == "__main__":
    main()
