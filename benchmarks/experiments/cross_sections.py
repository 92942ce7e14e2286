"""One long list with real-valued targets: precede beside XGBoost with 200 sampled pairs an item.

    python benchmarks/experiments/cross_sections.py [--rows 20000] [--repeats 3]

A cross-section (all stocks on one date, all borrowers of one month) has as many grades as rows.
XGBoost's `mean` pair method samples 200 pairs for each row; precede sums over all pairs, or has a
loss without pairs. Every model has trees of the same size, the same rate and number of rounds.
Writes `benchmarks/results/cross_sections.md`.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import xgboost

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from measure import middle, write_page  # noqa: E402
from precede import BoostedRanker  # noqa: E402
from precede.metrics import evaluate  # noqa: E402

ROUNDS, RATE, LEAVES, PAIRS, THREADS = 50, 0.1, 31, 200, 2
OURS = {
    "precede, query_rmse": {"loss": "query_rmse"},
    "precede, softmax": {"loss": "softmax"},
    "precede, exponential": {"loss": "exponential"},
    "precede, exponential, grade_gap": {"loss": "exponential", "rank_weight": "grade_gap"},
    "precede, logistic": {"loss": "logistic"},
}


def cross_section(rows, seed):
    """A list to learn from and one to test on: a weak signal under heavy-tailed noise."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(2 * rows, 20)).astype(np.float32)
    signal = X[:, 0] + np.abs(X[:, 1]) + X[:, 2] * X[:, 3] + (X[:, 4] > 1)
    y = signal + 2 * random.standard_t(4, 2 * rows)
    return X[:rows], y[:rows], X[rows:], y[rows:]


def ours(X, y, **settings):
    model = BoostedRanker(
        n_estimators=ROUNDS, learning_rate=RATE, num_leaves=LEAVES, n_jobs=THREADS, **settings
    )
    return model.fit(X, y).predict


def theirs(X, y):
    parameters = {
        "objective": "rank:pairwise", "lambdarank_pair_method": "mean",
        "lambdarank_num_pair_per_sample": PAIRS, "max_leaves": LEAVES, "max_depth": 0,
        "grow_policy": "lossguide", "tree_method": "hist", "max_bin": 255, "eta": RATE,
        "nthread": THREADS, "verbosity": 0, "seed": 0,
    }  # fmt: skip
    data = xgboost.QuantileDMatrix(X, y, qid=np.zeros(len(y), int), max_bin=255)
    model = xgboost.train(parameters, data, ROUNDS)
    return lambda test: model.inplace_predict(test, predict_type="margin")


def measured(rows, repeats):
    """Seconds and rank correlations on the other list, by method, one of each for a repeat."""
    fits = {f"XGBoost, mean, {PAIRS} pairs": theirs}
    fits |= {name: lambda X, y, own=own: ours(X, y, **own) for name, own in OURS.items()}
    small = cross_section(300, 99)
    found = {}
    for fit in fits.values():
        fit(*small[:2])  # compiles
    for seed in range(repeats):
        X, y, test, truth = cross_section(rows, seed)
        for name, fit in fits.items():
            began = time.perf_counter()
            predict = fit(X, y)
            seconds = time.perf_counter() - began
            rho = evaluate(truth, predict(test), metrics="spearman").mean["spearman"]
            found.setdefault(name, []).append((seconds, rho))
    return found


def page(found, rows, repeats):
    lines = [
        "# Cross-sections: one long list with real-valued targets", "",
        f"{rows} rows to learn from and as many to test on, 20 features, {ROUNDS} trees of "
        f"{LEAVES} leaves, learning rate {RATE:g}, {THREADS} threads; medians of {repeats} "
        "data sets, drawn with other seeds. `spearman` is on the rows to test on.", "",
        "| method | seconds | spearman | least to greatest |", "|---|---|---|---|",
    ]  # fmt: skip
    middles = {}
    for name, runs in found.items():
        seconds, rhos = zip(*runs, strict=True)
        middles[name] = middle(seconds), middle(rhos)
        lines.append(
            f"| {name} | {middle(seconds):.2f} | {middle(rhos):.4f} | "
            f"{min(rhos):.4f} to {max(rhos):.4f} |"
        )
    peer, *own = middles
    best = max(own, key=lambda name: middles[name][1])
    gained = [
        ours_[1] - theirs_[1] for ours_, theirs_ in zip(found[best], found[peer], strict=True)
    ]
    lines += [
        "",
        f"The best of ours by median is {best}: {middles[best][1] - middles[peer][1]:+.4f} beside "
        f"XGBoost ({min(gained):+.4f} to {max(gained):+.4f} over the data sets), in "
        f"{middles[best][0] / middles[peer][0]:.2f} times its time.",
    ]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    found = measured(given.rows, given.repeats)
    text = page(found, given.rows, given.repeats)
    print(text)
    write_page(__file__, "cross_sections.md", text)


if __name__ == "__main__":
    main()
