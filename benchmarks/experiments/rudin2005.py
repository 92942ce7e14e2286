"""Ranking with a p-norm push: the five settings of R05 section 5 and the limits of section 6.

    python benchmarks/experiments/rudin2005.py [--splits 30]

Writes `benchmarks/results/rudin2005.md` and figures to `docs/figures`. The data sets
stay where they are; settings whose data are absent are left out and said so.
"""

import argparse
import sys
import warnings
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

from precede import PushRanker
from precede.algorithms.push import SmallSampleWarning
from precede.boost import SmoothedStepWarning
from precede.metrics import evaluate
from precede.top import Curve, crossover, draw_curves, draw_strips, strip

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from measure import read_page, write_page  # noqa: E402

SHARED = ROOT.parent / "shared" / "data"
RESULTS, FIGURES = ROOT / "benchmarks" / "results", ROOT / "docs" / "figures"
POWERS = (1, 2, 4, 8, 16, 64)
ROUNDS = 200  # "fixed at 200 for all experiments"
THRESHOLDS = [  # of pima, feature by feature, as R05 lists them
    (2, 3, 6, 7), (100, 130, 150, 160), (60, 65, 72, 90), (1, 10, 20, 30),
    (30, 50, 80, 100), (30, 32, 35, 37), (0.1, 0.2, 0.3, 0.5), (30, 33, 36, 40),
]  # fmt: skip


def scaled(X):
    """Every feature in [-1, 1], by its range over all rows (the paper does not say which)."""
    low, high = X.min(axis=0), X.max(axis=0)
    return 2 * (X - low) / (high - low) - 1


def pima():
    data = np.loadtxt(SHARED / "pima" / "pima-indians-diabetes.csv", delimiter=",")
    return data[:, :8], data[:, 8].astype(int)


def pima_real():
    X, y = pima()
    return scaled(X), y


def pima_thresholds():
    X, y = pima()
    columns = [X[:, j] > cut for j, cuts in enumerate(THRESHOLDS) for cut in cuts]
    return np.array(columns, float).T, y


def wdbc_malignant():
    X, benign = load_breast_cancer(return_X_y=True)
    return scaled(X[:, :6]), 1 - benign


def wdbc_benign():
    X, malignant_first = wdbc_malignant()
    return X, 1 - malignant_first


def tic_tac_toe():
    text = (SHARED / "tictactoe" / "tic-tac-toe.data").read_text()
    rows = [line.split(",") for line in text.split()]
    X = np.array([["oxb".index(cell) for cell in row[:9]] for row in rows], float)
    return scaled(X), np.array([row[9] == "positive" for row in rows]).astype(int)


def housing():
    data = np.loadtxt(SHARED / "boston" / "housing.data")
    return scaled(np.delete(data, 3, axis=1)), data[:, 3].astype(int)


SETTINGS = {  # name: data, rows to train on, paper's figure, negatives shown
    "pima, real features": (pima_real, 300, 2, 30),
    "pima, thresholds": (pima_thresholds, 300, 3, 30),
    # The paper does not say which class stands first.
    "wdbc, malignant first": (wdbc_malignant, 369, 4, 15),
    "wdbc, benign first": (wdbc_benign, 369, 4, 15),
    "tic-tac-toe": (tic_tac_toe, 500, 5, 40),
    "housing": (housing, 300, 6, 60),
    "pima, 50 rows": (pima_real, 50, 7, 40),
}


def one_split(X, y, train_size, seed):
    """Scores of every p on the rows trained on and on the others."""
    rng = np.random.default_rng(seed)
    while True:  # a training set without both classes teaches nothing
        order = rng.permutation(len(y))
        train, test = order[:train_size], order[train_size:]
        if 0 < y[train].sum() < train_size and 0 < y[test].sum() < len(test):
            break
    found = {}
    for p in POWERS:
        model = PushRanker(price=p, rankers="columns", n_estimators=ROUNDS, n_jobs=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SmoothedStepWarning)
            warnings.simplefilter("ignore", SmallSampleWarning)
            model.fit(X[train], y[train])
        found[p] = {
            "train": (y[train], model.predict(X[train])),
            "test": (y[test], model.predict(X[test])),
        }
    return found


def measured(y, scores):
    names = ["positives_above_first_negative", "partial_auc@0.1", "auc"]
    seen = evaluate(y, scores, metrics=names).mean
    return {"R_max": seen[names[0]], "partial": seen[names[1]], "auc": seen[names[2]]}


def run(name, splits):
    make, train_size, _, _ = SETTINGS[name]
    try:
        X, y = make()
    except OSError:
        return None
    rows, curves, last = [], {p: {"train": [], "test": []} for p in POWERS}, None
    for seed in range(splits):
        last = one_split(X, y, train_size, seed)
        for p, sides in last.items():
            for side, (labels, scores) in sides.items():
                curves[p][side].append(Curve.of(labels, scores))
                rows.append({"setting": name, "split": seed, "p": p, "side": side,
                             **measured(labels, scores)})  # fmt: skip
    return rows, curves, last


def draw(name, curves, last):
    shown = SETTINGS[name][3]
    figure, axes = plt.subplots(
        2, 2, figsize=(10, 6.4), height_ratios=[3, 1.3], layout="constrained"
    )
    for column, side in enumerate(("train", "test")):
        means = {f"p = {p}": Curve.mean(curves[p][side]) for p in POWERS}
        ax = draw_curves(means, axes[0, column], negatives=shown, crossovers=True)
        ax.set_title(f"{name}: {side}, mean of {len(curves[1][side])} splits", fontsize="medium")
        strips = {f"p = {p}": strip(*last[p][side]) for p in (1, 8, 64)}
        draw_strips(strips, axes[1, column], places=3 * shown).set_title(
            "positives in the list of the last split", fontsize="small"
        )
    path = FIGURES / (
        "rudin2005_" + name.replace(", ", "_").replace(" ", "_").replace("-", "") + ".png"
    )
    figure.savefig(path, dpi=80)
    plt.close(figure)


def table(rows, measure, digits):
    lines = ["| | " + " | ".join(f"p = {p}" for p in POWERS) + " |", "|---|" + "--:|" * len(POWERS)]
    for side in ("train", "test"):
        cells = []
        for p in POWERS:
            values = np.array([r[measure] for r in rows if r["p"] == p and r["side"] == side])
            error = values.std(ddof=1) / np.sqrt(values.size)
            cells.append(f"{values.mean():.{digits}f} ± {error:.{digits}f}")
        lines.append(f"| {side} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def gain(rows, measure="R_max"):
    """Mean paired difference p = 64 minus p = 1 on the rows held out, and its standard error."""
    by = {(r["p"], r["split"]): r[measure] for r in rows if r["side"] == "test"}
    splits = sorted({split for _, split in by})
    difference = np.array([by[64, s] - by[1, s] for s in splits])
    return difference.mean(), difference.std(ddof=1) / np.sqrt(difference.size)


def crossings(curves):
    """Where p = 64 first falls below p = 1, on the mean test curves."""
    where = crossover(Curve.mean(curves[64]["test"]), Curve.mean(curves[1]["test"]))
    return "never" if where is None else f"at negative {where}"


def section(name, splits):
    """One setting: its tables, and what they come to."""
    _, train_size, figure, _ = SETTINGS[name]
    text = [f"## {name} ({train_size} training rows, figure {figure} of the paper)"]
    found = run(name, splits)
    if found is None:
        return "\n".join([*text, "\nData absent: not run."])
    rows, curves, last = found
    draw(name, curves, last)
    mean, error = gain(rows)
    measures = (
        ("R_max", "R_max", 1),
        ("partial AUC, first tenth of the negatives", "partial", 3),
        ("AUC", "auc", 3),
    )
    text += [f"\n{title}\n\n{table(rows, key, digits)}" for title, key, digits in measures]
    text.append(
        f"\nOn new rows p = 64 has {mean:+.1f} ± {error:.1f} positives above the first negative "
        f"compared with p = 1; its mean curve falls below that of p = 1 {crossings(curves)}."
    )
    return "\n".join(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=30)
    parser.add_argument("--only", choices=list(SETTINGS), help="replace this section alone")
    options = parser.parse_args()
    mpl.use("agg")
    kept = {}
    if options.only:
        for part in read_page("rudin2005.md").split("\n## ")[1:]:
            kept[part.split(" (")[0]] = "## " + part.strip()
    for name in [options.only] if options.only else SETTINGS:
        kept[name] = section(name, options.splits)
        print(kept[name], flush=True)
    head = (
        "# Ranking with a p-norm push: the paper's settings\n\n"
        f"Exponential loss, {ROUNDS} rounds, {options.splits} random splits; mean ± standard error "
        "over the splits. R_max is the number of positives above the first negative. Real "
        "features are scaled to [-1, 1] over all rows."
    )
    text = "\n\n".join([head, *(kept[name] for name in SETTINGS if name in kept)])
    write_page(__file__, "rudin2005.md", text)


if __name__ == "__main__":
    main()
