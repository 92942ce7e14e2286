"""How a push trades the area under the curve for the top of the list, where positives are rare.

    python benchmarks/experiments/rare_positives.py [--splits 10] [--only credit] [--learner trees]

Half of the rows to learn from, half to test on, stratified, several times. LightGBM's binary
objective, plain and with `scale_pos_weight`, has the same number of rounds, the same learning
rate and trees of the same size. TopPush (see `peers/toppush.py`), which is also the infinite push,
is linear in the features, next to our linear rankers, or in thresholds of them, next to our stumps;
its strength of regularization and its number of iterations are chosen on a quarter of the training
rows. Writes `benchmarks/results/rare_positives.md` from all rows of `rare_positives.jsonl`, of
which those of the problems and learners named are measured anew (all by default, none with --page);
the page says with which commit of the library every row was measured.
"""

import argparse
import gzip
import json
import subprocess
import sys
import warnings
from pathlib import Path

import lightgbm
import numpy as np
from sklearn.model_selection import StratifiedShuffleSplit, train_test_split

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from measure import write_page  # noqa: E402
from peers import toppush  # noqa: E402
from precede import PushRanker, Trees  # noqa: E402
from precede.boosting.steps import SmoothedStepWarning  # noqa: E402
from precede.metrics import evaluate  # noqa: E402
from problems import credit  # noqa: E402

SHARED = ROOT.parent / "shared" / "data"
RESULTS = ROOT / "benchmarks" / "results"
ROUNDS, RATE = 300, 0.1
POWERS, TREE_POWERS, FEATURE_POWERS = (1, 2, 4, 8, 16, 64), (1, 4), (1, 16)
STRENGTHS, CUTS = (0.001, 0.01, 0.1), 16


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


def columns_of(X, *, cuts):
    """A function from rows to columns for a linear model: standardized, or 0 and 1 by thresholds.

    Missing values become the median of the training rows.
    """
    usual = np.nanmedian(X, axis=0)

    def filled(rows):
        return np.where(np.isnan(rows), usual, rows)

    if not cuts:
        spread = filled(X).std(axis=0)
        center, spread = filled(X).mean(axis=0), np.where(spread > 0, spread, 1.0)
        return lambda rows: (filled(rows) - center) / spread
    shares = np.linspace(0, 1, cuts + 2)[1:-1]
    thresholds = [np.unique(np.quantile(column, shares)) for column in filled(X).T]

    def above(rows):
        sides = [np.greater.outer(column, cut) for column, cut in
                 zip(filled(rows).T, thresholds, strict=True)]  # fmt: skip
        return np.concatenate(sides, axis=1).astype(float)

    center = above(X).mean(axis=0)
    return lambda rows: above(rows) - center


def top_push(cuts):
    """TopPush with the strength and number of iterations that are best on a quarter of the rows."""

    def fit(X, y):
        columns = columns_of(X, cuts=cuts)
        Z = columns(X)
        inside, outside = train_test_split(
            np.arange(y.size), test_size=0.25, stratify=y, random_state=0
        )
        best = (-1.0, 0.0, 0)
        for strength in STRENGTHS:
            for stop, weights in enumerate(toppush.path(Z[inside], y[inside], strength)):
                seen = evaluate(y[outside], Z[outside] @ weights, metrics="partial_auc@0.01")
                best = max(best, (seen.mean["partial_auc@0.01"], strength, stop))
        found = toppush.path(Z, y, best[1])
        return lambda rows: columns(rows) @ found[best[2]]

    return fit


def learners(y):
    """Name to a function from training rows to a scoring function."""

    def push(power, weak_rankers):
        def fit(X, y):
            model = PushRanker(
                price=power,
                weak_rankers=weak_rankers,
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
    for p in FEATURE_POWERS:
        made[f"precede, features, p = {p}"] = push(p, "features")
    made["TopPush, linear"] = top_push(0)
    made[f"TopPush, {CUTS} thresholds of each feature"] = top_push(CUTS)
    made["LightGBM binary, 2 leaves"] = peer(2)
    made["LightGBM binary, 2 leaves, scale_pos_weight"] = peer(2, scale_pos_weight=ratio)
    made["LightGBM binary, 31 leaves"] = peer(31)
    made["LightGBM binary, 31 leaves, scale_pos_weight"] = peer(31, scale_pos_weight=ratio)
    return made


def of_library():
    """The last commit that changed the library."""
    words = ["git", "log", "-1", "--format=%h", "--", "src"]
    return subprocess.run(
        words, check=True, capture_output=True, text=True, cwd=ROOT
    ).stdout.strip()


def run(name, splits, wanted):
    """Rows of the learners that are wanted, split after split."""
    if not any(map(wanted, learners(np.arange(2)))):
        return
    make, top = PROBLEMS[name]
    made = make()
    if made is None:
        raise FileNotFoundError(name)
    X, y = made
    metrics, commit = [f"precision@{top}", "partial_auc@0.01", "auc"], of_library()
    splitter = StratifiedShuffleSplit(splits, test_size=0.5, random_state=0)
    for number, (train, test) in enumerate(splitter.split(X, y)):
        for learner, fit in learners(y[train]).items():
            if not wanted(learner):
                continue
            score = fit(X[train], y[train])
            seen = evaluate(y[test], score(X[test]), metrics=metrics).mean
            yield {"problem": name, "split": number, "learner": learner, "commit": commit,
                   **{metric: seen[metric] for metric in metrics}}  # fmt: skip


def table(rows, top):
    metrics = [f"precision@{top}", "partial_auc@0.01", "auc"]
    by = {}
    order = list(learners(np.arange(2)))
    for row in sorted(rows, key=lambda row: (order.index(row["learner"]), row["split"])):
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


TOP_PUSH = (
    "\nTopPush (Li, Jin & Zhou 2014) charges for the highest negative only: the limit of the push "
    "as p grows, and the infinite push of Agarwal (2011), here with the squared hinge and a linear "
    f"model; {STRENGTHS} as strengths and {toppush.STOPS} iterations are tried on a quarter of the "
    "training rows. Where the mean positive is in the convex hull of the negatives, its minimum is "
    "no model at all, and it learns by stopping early."
)


def measured(rows):
    """At which commits of the library the learners were measured, and which were not."""
    by = {}
    for row in rows:
        by.setdefault(row["commit"], {})[row["learner"]] = None
    absent = [
        name for name in learners(np.arange(2)) if not any(name in each for each in by.values())
    ]
    said = [f"{commit} ({'; '.join(found)})" for commit, found in by.items()]
    at = next(iter(by)) if len(by) == 1 else ", ".join(said)
    return f"Measured with the library of commit {at}." + (
        f" Not run: {'; '.join(absent)}." if absent else ""
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--only", choices=list(PROBLEMS), action="append")
    parser.add_argument("--learner", action="append")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", SmoothedStepWarning)

    def wanted(problem, learner):
        return not options.page and (
            problem in (options.only or PROBLEMS)
            and any(part in learner for part in options.learner or [""])
        )

    path = RESULTS / "rare_positives.jsonl"
    kept = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    text = [
        "# Rare positives: the push, LightGBM and TopPush",
        f"\n{ROUNDS} rounds, learning rate {RATE}, {options.splits} stratified halves; mean ± "
        "standard error over the splits (which share rows, so that errors are somewhat too small); "
        "the last column is paired by split.",
    ]
    lines = []
    for name in PROBLEMS:
        rows = [row for row in kept if row["problem"] == name and not wanted(name, row["learner"])]
        try:
            rows += run(name, options.splits, lambda learner, name=name: wanted(name, learner))
        except OSError:
            rows = []
        lines += rows
        shown = "Data absent: not run."
        if rows:
            shown = f"{table(rows, PROBLEMS[name][1])}\n\n{measured(rows)}"
        text.append(f"\n## {name}\n\n{shown}")
        print(text[-1], flush=True)
    text.append(TOP_PUSH)
    write_page(__file__, "rare_positives.md", "\n".join(text))
    path.write_text("".join(json.dumps(row) + "\n" for row in lines))


if __name__ == "__main__":
    main()
