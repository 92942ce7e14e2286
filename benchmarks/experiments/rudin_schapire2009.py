"""Rudin & Schapire 2009: theorem 6 seen, and AdaBoost and RankBoost as one.

    python benchmarks/experiments/rudin_schapire2009.py        # about a minute on two cores

Writes tables to benchmarks/results/rudin_schapire2009.md and two figures to docs/figures. wdbc
comes with scikit-learn; pima is read from ../shared/data and left out where it is absent.
"""

import copy
import sys
import time
import warnings
from datetime import date
from pathlib import Path

import matplotlib as mpl
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score

from precede import AdaBoostRanker, RankBoost, SmoothMargin, best_margin, margins

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from measure import write_page  # noqa: E402

RESULTS, FIGURES = ROOT / "benchmarks" / "results", ROOT / "docs" / "figures"
PIMA = ROOT.parent / "shared" / "data" / "pima" / "pima-indians-diabetes.csv"
ROUNDS = 10_000
SHOWN = (1, 10, 100, 1000, 10_000)
# Rounds that are drawn.
DRAWN = np.unique(np.concatenate([np.geomspace(1, ROUNDS, 120).astype(int), SHOWN]))
TURNS = np.unique(np.geomspace(3, 3000, 60).astype(int))
# Rudin, Daubechies & Schapire 2004: which of eight pairs (rows) eight rankers put in order.
CYCLING = np.array([
    [0, 1, 1, 1, 1, 0, 0, 1], [0, 1, 1, 0, 0, 1, 1, 1], [1, 0, 1, 1, 1, 0, 1, 1],
    [1, 0, 1, 1, 0, 1, 1, 1], [1, 0, 1, 0, 1, 1, 1, 0], [1, 1, 0, 1, 1, 1, 1, 0],
    [1, 1, 0, 1, 1, 1, 0, 1], [1, 1, 1, 1, 0, 0, 1, 0],
])  # fmt: skip


def plt():
    mpl.use("agg")
    import matplotlib.pyplot

    mpl.rcParams.update({"font.size": 9, "axes.spines.top": False,
                         "axes.spines.right": False})  # fmt: skip
    return matplotlib.pyplot


def save(figure, name):
    figure.savefig(FIGURES / name, dpi=110)


# -- theorem 6 -------------------------------------------------------------------------------


def theorem_6(rounds=100_000):
    X, y = np.vstack([CYCLING, 1 - CYCLING]), np.repeat([1, 0], 8)
    qid = np.tile(np.arange(8), 2)
    best = best_margin(X, y, qid=qid, rankers="columns")
    begin = time.process_time()
    model = SmoothMargin(rankers="columns", n_estimators=rounds, tolerance=1e-6, n_jobs=1)
    model.fit(X, y, qid=qid)
    seconds = time.process_time() - begin
    stuck = RankBoost(rankers="columns", n_estimators=3000, n_jobs=1).fit(X, y, qid=qid)
    rank = [margins(_first(stuck, t), X, y, qid=qid).minimum for t in TURNS]
    history = model.history_
    reached = int(np.argmax(history["lower"] >= best - 1e-3)) + 1
    lines = [
        "## Theorem 6", "",
        f"The 8 × 8 problem; best margin {best:.6f} by linear programmes. RankBoost after 3,000 "
        f"rounds: {rank[-1]:.6f}. SmoothMargin came within 0.001 of the best margin after "
        f"{reached:,} rounds; {rounds:,} rounds took {seconds:.1f} s of one core.", "",
        "| rounds | margin | smooth margin | certified interval | width |", "|--:|--:|--:|---|--:|",
    ]  # fmt: skip
    for t in (100, 1000, 10_000, 100_000):
        row = history[t - 1]
        lines.append(
            f"| {t:,} | {row['margin']:.5f} | {row['smooth_margin']:.5f} | "
            f"[{row['lower']:.5f}, {row['upper']:.5f}] | {row['upper'] - row['lower']:.5f} |"
        )
    draw_theorem_6(history, rank, best)
    return lines


def _first(model, rounds):
    part = copy.copy(model)
    part.ensemble_ = model.ensemble_.first(int(rounds))
    return part


def draw_theorem_6(history, rank, best):
    pyplot = plt()
    figure, axis = pyplot.subplots(figsize=(6.2, 3.4), layout="constrained")
    t = np.unique(np.geomspace(10, len(history), 150).astype(int))
    axis.fill_between(t, history["lower"][t - 1], history["upper"][t - 1], color="#cfe3f2",
                      label="certified interval")  # fmt: skip
    axis.plot(t, history["margin"][t - 1], color="#1f6fb2", label="SmoothMargin")
    axis.plot(t, history["smooth_margin"][t - 1], color="#1f6fb2", linestyle=":",
              label="its smooth margin")  # fmt: skip
    axis.plot(TURNS, rank, color="#c0392b", label="RankBoost")
    axis.axhline(best, color="black", linewidth=0.8, linestyle="--", label="best margin, 3/8")
    axis.set(xscale="log", xlabel="rounds", ylabel="margin")
    axis.set(ylim=(0.25, 0.5), xlim=(10, len(history)))
    axis.legend(frameon=False, loc="upper right")
    save(figure, "theorem_6.png")


# -- section 5 -------------------------------------------------------------------------------


def wdbc():
    X, y = load_breast_cancer(return_X_y=True)
    return X[:, [1, 4, 8]], y


def pima():
    table = np.genfromtxt(PIMA, delimiter=",")
    return table[:, :-1], table[:, -1].astype(int)


def curves(model, X, y, own_intercept):
    """Both losses, AUC, F-skew and misclassification after the rounds that are drawn.

    RankBoost has the intercept of corollary 13 at every round; AdaBoost what it has learnt.
    """
    sign = np.where(y == 1, 1, -1)
    shift, found = 0.0, []
    parts = zip(
        model.ensemble_.rankers, model.ensemble_.weights, model.staged_predict(X), strict=True
    )
    for t, (ranker, weight, scores) in enumerate(parts, 1):
        if own_intercept:
            shift -= weight / 2 if hasattr(ranker, "threshold") else 0.0
        if t not in DRAWN:
            continue
        plus, minus = np.exp(-scores[y == 1]).sum(), np.exp(scores[y == 0]).sum()
        if not own_intercept:
            shift = 0.5 * np.log(plus / minus)
        F = scores + shift
        plus, minus = plus * np.exp(-shift), minus * np.exp(shift)
        error = np.mean(sign * F <= 0)
        product = plus * minus / ((y == 1).sum() * (y == 0).sum())
        auc = roc_auc_score(y, np.round(scores, 9))
        found.append(((plus + minus) / y.size, product, auc, plus - minus, error))
    return np.array(found).T


NAMES = ("AdaBoost's loss", "RankBoost's loss", "AUC", "F-skew", "misclassified")


def equivalence(max_bins=8):
    problems = {"wdbc, 3 features": wdbc}
    if PIMA.exists():
        problems["pima"] = pima
    found = {}
    for name, read in problems.items():
        X, y = read()
        settings = {"n_estimators": ROUNDS, "max_bins": max_bins}
        found[name] = {
            "AdaBoost": curves(AdaBoostRanker(**settings).fit(X, y), X, y, True),
            "RankBoost": curves(RankBoost(**settings).fit(X, y), X, y, False),
        }
    draw_equivalence(found)
    lines = ["## AdaBoost and RankBoost are one (section 5)", "",
             f"Stumps at most {max_bins - 1} a feature; AdaBoost with the constant classifier, "
             "RankBoost with the intercept of corollary 13 at every round. Mean losses of a row "
             "and of a pair; everything on the training rows.", ""]  # fmt: skip
    for name, both in found.items():
        lines += [f"### {name}", "",
                  "| rounds | " + " | ".join(f"{n}: AdaBoost | RankBoost" for n in NAMES) + " |",
                  "|--:|" + "--:|" * (2 * len(NAMES))]  # fmt: skip
        for t in SHOWN:
            cells = [
                _show(n, each[j][np.searchsorted(DRAWN, t)])
                for j, n in enumerate(NAMES)
                for each in both.values()
            ]
            lines.append(f"| {t:,} | " + " | ".join(cells) + " |")
        lines.append("")
    return lines


def _show(name, value):
    return f"{value:.2g}" if name == "F-skew" else f"{value:.5f}"


def draw_equivalence(found):
    pyplot = plt()
    shown = [0, 2, 3, 4]
    figure, axes = pyplot.subplots(
        len(found), 4, figsize=(10.2, 2.3 * len(found) + 0.5), layout="constrained", squeeze=False
    )
    colours = {"AdaBoost": "#1f6fb2", "RankBoost": "#c0392b"}
    for row, (name, both) in zip(axes, found.items(), strict=True):
        for axis, j in zip(row, shown, strict=True):
            for who, values in both.items():
                axis.plot(DRAWN, values[j], color=colours[who], label=who, linewidth=1.1)
            axis.set(xscale="log", title=NAMES[j])
            if NAMES[j] == "F-skew":
                axis.axhline(0, color="black", linewidth=0.5)
                axis.set_yscale("symlog", linthresh=0.01)
        row[0].set_ylabel(name)
    for axis in axes[-1]:
        axis.set_xlabel("rounds")
    axes[0][1].legend(frameon=False)
    save(figure, "equivalence.png")


def main():
    warnings.simplefilter("ignore")
    RESULTS.mkdir(exist_ok=True)
    FIGURES.mkdir(exist_ok=True)
    lines = ["# Rudin & Schapire 2009", "", f"{date.today()}.", ""]
    lines += [*theorem_6(), "", *equivalence()]
    text = "\n".join(lines).rstrip() + "\n"
    write_page(__file__, "rudin_schapire2009.md", text)
    print(text)


if __name__ == "__main__":
    main()
