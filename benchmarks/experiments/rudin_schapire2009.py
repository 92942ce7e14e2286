"""Rudin & Schapire 2009: theorem 6, lemma 20, AdaBoost and RankBoost as one, and on new rows.

    python benchmarks/experiments/rudin_schapire2009.py [--only "section 10"]        # minutes

Writes tables to benchmarks/results/rudin_schapire2009.md and three figures to docs/figures. wdbc
comes with scikit-learn; pima and credit are read from ../shared/data and left out where absent.
"""

import argparse
import copy
import sys
import time
import warnings
from datetime import date
from pathlib import Path

import matplotlib as mpl
import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedShuffleSplit

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from measure import read_page, write_page  # noqa: E402
from precede import (  # noqa: E402
    AdaBoostRanker,
    RankBoost,
    SmoothMarginRanker,
    best_margin,
    margins,
)
from precede.margin import progress_ratio  # noqa: E402
from problems import credit  # noqa: E402

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
    best = best_margin(X, y, qid=qid, weak_rankers="columns")
    begin = time.process_time()
    model = SmoothMarginRanker(weak_rankers="columns", n_estimators=rounds, tol=1e-6, n_jobs=1)
    model.fit(X, y, qid=qid)
    seconds = time.process_time() - begin
    stuck = RankBoost(weak_rankers="columns", n_estimators=3000, n_jobs=1).fit(X, y, qid=qid)
    rank = [margins(_first(stuck, t), X, y, qid=qid).minimum for t in TURNS]
    history = model.history_
    reached = int(np.argmax(history["lower"] >= best - 1e-3)) + 1
    lines = [
        "## Theorem 6", "",
        f"The 8 × 8 problem; best margin {best:.6f} by linear programmes. Coordinate descent "
        f"RankBoost after 3,000 rounds: {rank[-1]:.6f}. SmoothMarginRanker came within 0.001 of "
        "the best "
        f"margin after {reached:,} rounds; {rounds:,} rounds took {seconds:.1f} s of one core.", "",
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


POWERS = (64, 256, 1024, 4096)  # rounds at which averages have just been tried


def averages():
    """How much wider the certified interval would be without averages of the distributions."""
    X, y = np.vstack([CYCLING, 1 - CYCLING]), np.repeat([1, 0], 8)
    problems = {"the 8 × 8 problem": (X, y, np.tile(np.arange(8), 2), "columns")}
    problems |= {name: (*read(), None, "stumps") for name, read in SEPARABLE.items()}
    lines = [
        "## Averages of distributions in the certified interval", "",
        "Width of the interval without the averages, divided by its width with them.", "",
        "| problem | " + " | ".join(f"{rounds:,} rounds" for rounds in POWERS) + " |",
        "|---|" + "--:|" * len(POWERS),
    ]  # fmt: skip
    for name, (X, y, qid, weak_rankers) in problems.items():
        model = SmoothMarginRanker(
            weak_rankers=weak_rankers, n_estimators=POWERS[-1], tol=1e-9, n_jobs=1
        )
        history = model.fit(X, y, qid=qid).history_
        plain = np.minimum.accumulate(history["best_edge"]) - history["lower"]
        ratio = plain / (history["upper"] - history["lower"])
        lines.append(f"| {name} | " + " | ".join(f"{ratio[t - 1]:.2f}" for t in POWERS) + " |")
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
    axis.plot(t, history["margin"][t - 1], color="#1f6fb2", label="SmoothMarginRanker")
    axis.plot(t, history["smooth_margin"][t - 1], color="#1f6fb2", linestyle=":",
              label="its smooth margin")  # fmt: skip
    axis.plot(TURNS, rank, color="#c0392b", label="coordinate descent RankBoost")
    axis.axhline(best, color="black", linewidth=0.8, linestyle="--", label="best margin, 3/8")
    axis.set(xscale="log", xlabel="rounds", ylabel="margin")
    axis.set(ylim=(0.25, 0.5), xlim=(10, len(history)))
    axis.legend(frameon=False, loc="upper right")
    save(figure, "theorem_6.png")


# -- lemma 20 --------------------------------------------------------------------------------

TIED = 0.01  # of figure 2
EDGES, SHARES = (0.1, 0.3, 0.5, 0.7, 0.9), (0.0, 0.25, 0.5, 0.75, 0.95)
STEEP, WRONG = 0.25, (1e-1, 1e-2, 1e-3, 1e-6, 1e-9, 1e-12)


def promised(edge):
    """Share of tied pairs up to which lemma 20 and theorem 7 hold."""
    return 2 / 3 * (1 - edge) * (1 - edge**2)


def lemma_20(points=60):
    """Figure 2 as a table and a figure, and B on a grid inside and outside the condition."""
    edges = np.linspace(0.005, 0.995, points)
    shares = np.linspace(0, 0.99, points)
    inside, outside = [], []
    for r in edges:
        for g in shares * r:
            for part in np.linspace(0, 0.995, points):
                d0 = part * (1 - r)
                (inside if d0 < promised(r) else outside).append(
                    (progress_ratio(r, g, d0), r, g, d0)
                )
    least = min(inside)
    lines = [
        "## Lemma 20 and figure 2", "",
        "B(r, g, d₀) is the share of α(r − g)/s by which a round with edge r raises the smooth "
        "margin g when a share d₀ of the pair weights is tied. Lemma 20: B > ½ where "
        f"d₀ < ⅔(1 − r)(1 − r²). On a grid of {len(inside) + len(outside):,} points, "
        f"{len(inside):,} satisfy the condition, and the least B among them is ½ + "
        f"{least[0] - 0.5:.1e}. {sum(b <= 0.5 for b, *_ in outside):,} of the others are at or "
        "below ½, and their infimum is 0: as d₋ = (1 − r − d₀)/2 tends to 0 at g = 0, the step α "
        "grows without bound, while −ln τ tends to −ln(1 − r), so that B falls as 1/ln(1/d₋). At "
        f"r = {STEEP:g} and g = 0:", "",
        "| d₋ | " + " | ".join(f"{wrong:g}" for wrong in WRONG) + " |",
        "|---|" + "--:|" * len(WRONG),
        "| B | " + " | ".join(
            f"{progress_ratio(STEEP, 0.0, 1 - STEEP - 2 * wrong):.4f}" for wrong in WRONG
        ) + " |", "",
        f"B for d₀ = {TIED}, the value of figure 2 (a dash: outside the condition):", "",
        "| r | " + " | ".join(f"g = {share:g} r" for share in SHARES) + " |",
        "|--:|" + "--:|" * len(SHARES),
    ]  # fmt: skip
    for r in EDGES:
        cells = [
            f"{progress_ratio(r, share * r, TIED):.4f}" if promised(r) > TIED else "–"
            for share in SHARES
        ]
        lines.append(f"| {r:g} | " + " | ".join(cells) + " |")
    draw_lemma_20(edges, shares)
    return [*lines, "", "![B for a share of 0.01 tied](../../docs/figures/lemma_20.png)"]


def draw_lemma_20(edges, shares):
    pyplot = plt()
    figure = pyplot.figure(figsize=(5.6, 4.2), layout="constrained")
    axis = figure.add_subplot(projection="3d")
    edges = edges[promised(edges) > TIED]
    r = np.repeat(edges[:, None], shares.size, axis=1)
    g = r * shares
    height = np.vectorize(progress_ratio)(r, g, TIED)
    axis.plot_surface(r, g, height, cmap="viridis", linewidth=0, antialiased=True)
    axis.set(xlabel="r", ylabel="g", zlabel="B", zlim=(0.5, height.max()))
    axis.view_init(elev=22, azim=-125)
    save(figure, "lemma_20.png")


# -- section 5 -------------------------------------------------------------------------------


def wdbc():
    X, y = load_breast_cancer(return_X_y=True)
    return X[:, [1, 4, 8]], y


def pima():
    table = np.genfromtxt(PIMA, delimiter=",")
    return table[:, :-1], table[:, -1].astype(int)


def curves(model, X, y, own_intercept):
    """Both losses, AUC, F-skew and misclassification after the rounds that are drawn.

    RankBoost has the intercept of corollary 13 at every round; AdaBoost what it has learned.
    """
    sign = np.where(y == 1, 1, -1)
    shift, found = 0.0, []
    parts = zip(
        model.ensemble_.weak_rankers, model.ensemble_.weights, model.staged_predict(X), strict=True
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


CONVERGED = 0.001  # a loss so close to its least is as good as there
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
             "coordinate descent RankBoost (in this section: RankBoost) with the intercept of "
             "corollary 13 at every round. Mean losses of a row "
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
        lines += ["", who_is_ahead(both), ""]
    return lines


def who_is_ahead(both):
    """The paper's remark on early stopping, held against the rounds before both have converged."""
    losses = np.array([values[0] for values in both.values()])
    early = (losses > losses[:, -1:].min() * (1 + CONVERGED)).any(axis=0)
    text = [
        "The paper remarks, without figures, that AdaBoost tends to converge faster for "
        "classification and RankBoost for ranking. AdaBoost's loss is within "
        f"{100 * CONVERGED:g} % of its least value after "
        + " and ".join(f"{_converged(values[0]):,} rounds of {who}" for who, values in both.items())
        + f". In the {int(early.sum())} rounds drawn before both are (log-spaced),"
    ]
    counts = {}
    for name, better in (("AdaBoost's loss", -1), ("misclassified", -1), ("AUC", 1)):
        j = NAMES.index(name)
        ahead = better * np.round(both["AdaBoost"][j] - both["RankBoost"][j], 9)[early]
        ada, rank = counts[name] = int((ahead > 0).sum()), int((ahead < 0).sum())
        what = {"misclassified": "misclassification"}.get(name, name)
        text.append(f"{what} is better for AdaBoost in {ada} and for RankBoost in {rank};")
    told = {True: "agrees with", False: "contradicts"}
    ada, rank = counts["misclassified"]
    text.append(f"this {told[ada > rank]} the remark for classification")
    ada, rank = counts["AUC"]
    return " ".join([*text, f"and {told[rank > ada]} it for ranking."])


def _converged(loss):
    """First round drawn from which on the loss is close to its last value."""
    far = np.flatnonzero(loss > loss[-1] * (1 + CONVERGED))
    return int(DRAWN[far[-1] + 1]) if far.size else int(DRAWN[0])


# -- section 10 ------------------------------------------------------------------------------

SPLITS, LENGTHS, CREDIT_ROWS = 30, (100, 1000), 4000
LEARNERS = {
    "RankBoost (5)": lambda rounds: RankBoost(select="decrease", n_estimators=rounds, n_jobs=1),
    "AdaBoost": lambda rounds: AdaBoostRanker(n_estimators=rounds, n_jobs=1),
    "smooth margin": lambda rounds: SmoothMarginRanker(n_estimators=rounds, tol=1e-9, n_jobs=1),
}
PAIRED = (
    ("smooth margin", "RankBoost (5)"),
    ("AdaBoost", "RankBoost (5)"),
    ("smooth margin", "AdaBoost"),
)


def all_of_wdbc():
    return load_breast_cancer(return_X_y=True)


def wine():
    X, y = load_wine(return_X_y=True)
    return X, (y == 1).astype(int)


def digits():
    X, y = load_digits(return_X_y=True)
    return X[(y == 3) | (y == 8)], (y[(y == 3) | (y == 8)] == 8).astype(int)


def sums():
    X = np.random.default_rng(0).normal(size=(400, 10))
    return X, (X.sum(axis=1) > 0).astype(int)


# All pairs of the training halves can be separated, so that equation (12) takes over.
SEPARABLE = {
    "wdbc": all_of_wdbc,
    "wine, the second class against the others": wine,
    "digits, 8 against 3": digits,
    "the sign of a sum of ten normal variables": sums,
}


def some_of_credit():
    found = credit()
    if found is None:
        return None
    X, y = found
    rows = np.random.default_rng(0).permutation(y.size)[:CREDIT_ROWS]
    return X[rows], y[rows]


def tested(X, y, rounds):
    """Learner, split, (pair error, misclassified, training margin, rounds by equation 12)."""
    found = np.zeros((len(LEARNERS), SPLITS, 4))
    halves = StratifiedShuffleSplit(SPLITS, test_size=0.5, random_state=0).split(X, y)
    for split, (train, test) in enumerate(halves):
        for row, make in enumerate(LEARNERS.values()):
            model = make(rounds).fit(X[train], y[train])
            found[row, split] = (
                1 - roc_auc_score(y[test], model.predict(X[test])),
                np.mean(model.classify(X[test]) != y[test]),
                margins(model, X[train], y[train]).minimum,
                np.sum(model.history_["smooth_margin"][:-1] > 0) if row == 2 else 0,
            )
    return found


def section_10():
    problems = {**SEPARABLE, "pima": pima if PIMA.exists() else lambda: None,
                f"credit, {CREDIT_ROWS:,} rows": some_of_credit}  # fmt: skip
    lines = [
        "## Test errors of the three algorithms (section 10)", "",
        "The paper proposes this comparison and does not make it. Stumps, full steps, "
        f"{SPLITS} stratified random halves to learn from, the other half to test on. Pair error: "
        "one minus the area under the ROC curve; misclassified: RankBoost and smooth margin "
        "ranking with the intercept of corollary 13. RankBoost (5) chooses rankers by equation "
        "(5). Smooth margin ranking keeps the round of the largest margin; until the smooth "
        "margin is positive its rounds are those of coordinate descent RankBoost, and the tables "
        "say how many of its rounds, on average, took their step from equation (12). Where none "
        "did, it is coordinate descent RankBoost. Differences are paired by split, with the "
        "numbers of splits in which the first has the smaller and the larger error. The halves "
        "share rows, so the splits are not independent, and no test of significance is made.", "",
    ]  # fmt: skip
    for name, read in problems.items():
        made = read()
        lines += [f"### {name}", ""]
        if made is None:
            lines += ["Data absent: not run.", ""]
            continue
        found = {rounds: dict(zip(LEARNERS, tested(*made, rounds), strict=True))
                 for rounds in LENGTHS}  # fmt: skip
        lines += [*means_table(found), "", *differences_table(found), ""]
    return lines


def means_table(found):
    lines = ["| rounds | learner | pair error | misclassified | least margin, training rows "
             "| splits separated | rounds by equation (12) |",
             "|--:|---|--:|--:|--:|--:|--:|"]  # fmt: skip
    for rounds, by_learner in found.items():
        for learner, values in by_learner.items():
            *means, by_12 = values.mean(axis=0)
            cells = " | ".join(f"{mean:.4f}" for mean in means)
            separated = f"{int((values[:, 2] > 0).sum())} of {SPLITS}"
            own = f"{by_12:.0f}" if learner == "smooth margin" else "–"
            lines.append(f"| {rounds:,} | {learner} | {cells} | {separated} | {own} |")
    return lines


def differences_table(found):
    """Mean paired differences, and in how many splits they are negative and positive."""
    lines = ["| rounds | difference | pair error | smaller : larger | misclassified "
             "| smaller : larger |", "|--:|---|--:|--:|--:|--:|"]  # fmt: skip
    for rounds, by_learner in found.items():
        for one, other in PAIRED:
            cells = []
            for j in (0, 1):
                difference = np.round(by_learner[one][:, j] - by_learner[other][:, j], 12)
                below, above = int((difference < 0).sum()), int((difference > 0).sum())
                cells += [f"{difference.mean():+.4f}", f"{below} : {above}"]
            lines.append(f"| {rounds:,} | {one} − {other} | " + " | ".join(cells) + " |")
    return lines


def _show(name, value):
    return f"{value:.2g}" if name == "F-skew" else f"{value:.5f}"


def draw_equivalence(found):
    pyplot = plt()
    shown = [0, 2, 3, 4]
    figure, axes = pyplot.subplots(
        len(found), 4, figsize=(10.2, 2.3 * len(found) + 0.5), layout="constrained", squeeze=False
    )
    colors = {"AdaBoost": "#1f6fb2", "RankBoost": "#c0392b"}
    for row, (name, both) in zip(axes, found.items(), strict=True):
        for axis, j in zip(row, shown, strict=True):
            for who, values in both.items():
                axis.plot(DRAWN, values[j], color=colors[who], label=who, linewidth=1.1)
            axis.set(xscale="log", title=NAMES[j])
            if NAMES[j] == "F-skew":
                axis.axhline(0, color="black", linewidth=0.5)
                axis.set_yscale("symlog", linthresh=0.01)
        row[0].set_ylabel(name)
    for axis in axes[-1]:
        axis.set_xlabel("rounds")
    axes[0][1].legend(frameon=False)
    save(figure, "equivalence.png")


SECTIONS = {"theorem 6": theorem_6, "averages": averages, "lemma 20": lemma_20,
            "equivalence": equivalence, "section 10": section_10}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=list(SECTIONS), help="replace this section alone")
    only = parser.parse_args().only
    warnings.simplefilter("ignore")
    RESULTS.mkdir(exist_ok=True)
    FIGURES.mkdir(exist_ok=True)
    page = read_page("rudin_schapire2009.md") if only else ""
    kept = ["## " + part.strip() for part in page.split("\n## ")[1:]]
    parts = [
        kept[place] if only and name != only else "\n".join(make()).strip()
        for place, (name, make) in enumerate(SECTIONS.items())
    ]
    text = "\n\n".join(["# Rudin & Schapire 2009", f"{date.today()}.", *parts])
    write_page(__file__, "rudin_schapire2009.md", text)
    print(text)


if __name__ == "__main__":
    main()
