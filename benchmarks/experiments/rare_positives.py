"""How a push trades the area under the curve for the top of the list, where positives are rare.

    python benchmarks/experiments/rare_positives.py [--splits 10] [--only credit]

Half of the rows to learn from, half to test on, stratified, several times. LightGBM's binary
objective, plain and with `scale_pos_weight`, has the same number of rounds, the same learning
rate and trees of the same size. Writes `benchmarks/results/rare_positives.md`.
"""

import argparse
import gzip
import json
import sys
import warnings
from pathlib import Path

import lightgbm
import numpy as np
from sklearn.model_selection import StratifiedShuffleSplit

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from measure import write_page  # noqa: E402
from precede import PushRanker, Trees  # noqa: E402
from precede.boosting.steps import SmoothedStepWarning  # noqa: E402
from precede.metrics import evaluate  # noqa: E402
from problems import credit  # noqa: E402

SHARED = ROOT.parent / "shared" / "data"
RESULTS = ROOT / "benchmarks" / "results"
ROUNDS, RATE = 300, 0.1
POWERS, TREE_POWERS = (1, 2, 4, 8, 16), (1, 4)


def of_rare(name):
    text = gzip.decompress((SHARED / "rare_positives" / f"{name}.csv.gz").read_bytes()).decode()
    rows = [line.strip().split(",") for line in text.splitlines() if line.strip()]
    label = np.array([row[-1].strip("'") for row in rows])
    kinds, counts = np.unique(label, return_counts=True)
    return rows, (label == kinds[counts.argmin()]).astype(int)


def mammography():
    rows, y = of_rare("mammography")
    return np.array([row[:-1] for row in rows], float), y


def oil_spill():
    rows, y = of_rare("oil-spill")
    return np.array([row[:-1] for row in rows], float), y


def german():
    """Text columns become one column for each value."""
    rows, y = of_rare("german")
    columns = []
    for cells in zip(*(row[:-1] for row in rows), strict=True):
        try:
            columns.append(np.array(cells, float))
        except ValueError:
            columns += [(np.array(cells) == value).astype(float) for value in sorted(set(cells))]
    return np.array(columns).T, y


PROBLEMS = {  # data, rows at the top that are looked at
    "credit": (credit, 100),
    "mammography": (mammography, 100),
    "german": (german, 100),
    "oil spill": (oil_spill, 20),
}


def learners(y):
    """Name to a function from training rows to a scoring function."""

    def push(power, rankers):
        def fit(X, y):
            model = PushRanker(
                price=power,
                rankers=rankers,
                n_estimators=ROUNDS,
                learning_rate=RATE,
                n_jobs=1,
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                return model.fit(X, y).predict

        return fit

    def peer(leaves, **also):
        def fit(X, y):
            settings = {"objective": "binary", "num_leaves": leaves, "learning_rate": RATE,
                        "verbosity": -1, "num_threads": 1, **also}  # fmt: skip
            booster = lightgbm.train(settings, lightgbm.Dataset(X, y), ROUNDS)
            return lambda rows: booster.predict(rows, raw_score=True)

        return fit

    ratio = (y == 0).sum() / (y == 1).sum()
    made = {f"precede, stumps, p = {p}": push(p, "stumps") for p in POWERS}
    for p in TREE_POWERS:
        made[f"precede, trees of 31 leaves, p = {p}"] = push(p, Trees(num_leaves=31))
    made["LightGBM binary, 2 leaves"] = peer(2)
    made["LightGBM binary, 2 leaves, scale_pos_weight"] = peer(2, scale_pos_weight=ratio)
    made["LightGBM binary, 31 leaves"] = peer(31)
    made["LightGBM binary, 31 leaves, scale_pos_weight"] = peer(31, scale_pos_weight=ratio)
    return made


def run(name, splits):
    make, top = PROBLEMS[name]
    made = make()
    if made is None:
        raise FileNotFoundError(name)
    X, y = made
    metrics = [f"precision@{top}", "partial_auc@0.01", "auc"]
    splitter = StratifiedShuffleSplit(splits, test_size=0.5, random_state=0)
    for number, (train, test) in enumerate(splitter.split(X, y)):
        for learner, fit in learners(y[train]).items():
            score = fit(X[train], y[train])
            seen = evaluate(y[test], score(X[test]), metrics=metrics).mean
            yield {"problem": name, "split": number, "learner": learner,
                   **{metric: seen[metric] for metric in metrics}}  # fmt: skip


def table(rows, top):
    metrics = [f"precision@{top}", "partial_auc@0.01", "auc"]
    by = {}
    for row in rows:
        by.setdefault(row["learner"], []).append([row[metric] for metric in metrics])
    base = np.array(by["precede, stumps, p = 1"])
    lines = ["| learner | " + " | ".join(metrics) + f" | {metrics[0]} minus p = 1 |",
             "|---|" + "--:|" * (len(metrics) + 1)]  # fmt: skip
    for learner, values in by.items():
        found = np.array(values)
        root = np.sqrt(len(found))
        errors = found.std(axis=0, ddof=1) / root
        cells = [f"{a:.4f} ± {b:.4f}" for a, b in zip(found.mean(axis=0), errors, strict=True)]
        difference = (found - base)[:, 0]
        cells.append(f"{difference.mean():+.4f} ± {difference.std(ddof=1) / root:.4f}")
        lines.append(f"| {learner} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--only", choices=list(PROBLEMS), action="append")
    options = parser.parse_args()
    warnings.simplefilter("ignore", SmoothedStepWarning)
    text = [
        "# Rare positives: the push beside LightGBM",
        f"\n{ROUNDS} rounds, learning rate {RATE}, {options.splits} stratified halves; mean ± "
        "standard error over the splits (which share rows, so that errors are somewhat too small); "
        "the last column is paired by split.",
    ]
    lines = []
    for name in options.only or PROBLEMS:
        try:
            rows = list(run(name, options.splits))
        except OSError:
            text.append(f"\n## {name}\n\nData absent: not run.")
            continue
        lines += rows
        text.append(f"\n## {name}\n\n{table(rows, PROBLEMS[name][1])}")
        print(text[-1], flush=True)
    write_page(__file__, "rare_positives.md", "\n".join(text))
    (RESULTS / "rare_positives.jsonl").write_text("".join(json.dumps(r) + "\n" for r in lines))


if __name__ == "__main__":
    main()
