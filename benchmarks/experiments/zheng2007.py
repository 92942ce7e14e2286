"""Zheng et al. 2007, section 4, again on MQ2008: figure 1 and table 1.

    python benchmarks/experiments/zheng2007.py [--splits 5]

The page is written anew after every split.

The split of the paper: L1 holds queries whose documents all have one grade (labeled data
without a preference), the others are split by query into L2 (training) and L3 (test), with
preferences P2 and P3 inside their queries. Here the parts of MQ2008 give five such splits: L1
and L2 come from the three training parts and the validation part, L3 from the test part.

The queries of one grade in MQ2008 are all of grade 0, while the paper's L1 holds ideal results
too. So half of the other training queries, drawn at random, join L1 with the documents of one
of their grades alone, drawn as well.

Six fits: gradient boosting on L1, L2 and both, RankSVM on P2, QBRank on P2 and on P2 with L1.
All have 20 leaves, shrinkage 0.05 and, for QBRank, w = 0.5 and a margin of the gap of the
grades. Figure 1 shows DCG-5 on L3 round by round; for the tables the number of rounds is the
one of the best DCG-5 on a tenth of the training queries, which are held out.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.svm import LinearSVC  # noqa: E402

from measure import write_page  # noqa: E402
from precede import Judgments, QBRank  # noqa: E402
from precede.metrics import Evaluator  # noqa: E402
from problems import FOLDS, mq2008  # noqa: E402

FIGURE = HERE.parents[1] / "docs" / "figures" / "zheng2007_dcg.svg"
ROUNDS, EVERY = 100, 10
PERCENTS = tuple(range(10, 101, 10))
GAINS = (0.0, 3.0, 10.0)  # of grades 0, 1, 2
WAYS = {
    "": {},
    ", hessian='bound'": {"hessian": "bound"},
    ", targets summed": {"targets": "sum"},
}
IN_FIGURE = (
    "GBT on L1", "GBT on L2", "GBT on L1 and L2", "QBRank on P2", "QBRank on P2 and L1",
)  # fmt: skip
IN_TABLE = ("QBRank on P2", "GBT on L2", "RankSVM on P2", "QBRank on P2 and L1")
TABLE_1 = {  # as printed: QBRank, GBT, RankSVM
    10: (0.9446, 0.9328, 0.8524), 20: (0.903, 0.8939, 0.8152), 30: (0.8611, 0.8557, 0.7839),
    40: (0.8246, 0.8199, 0.7578), 50: (0.7938, 0.7899, 0.7357), 60: (0.7673, 0.7637, 0.7151),
    70: (0.7435, 0.7399, 0.6957), 80: (0.7218, 0.7176, 0.6779), 90: (0.7015, 0.6977, 0.6615),
    100: (0.6834, 0.6803, 0.6465),
}  # fmt: skip
FINDINGS = (
    ("single-labeled data help GBT", "GBT on L1 and L2", "GBT on L2"),
    ("single-labeled data help QBRank", "QBRank on P2 and L1", "QBRank on P2"),
    ("QBRank on preferences beats GBT on their labels", "QBRank on P2", "GBT on L2"),
    ("QBRank beats RankSVM", "QBRank on P2", "RankSVM on P2"),
    ("QBRank with labels beats RankSVM", "QBRank on P2 and L1", "RankSVM on P2"),
)
SHAPE = {"n_estimators": ROUNDS, "num_leaves": 20, "learning_rate": 0.05, "n_jobs": 1}


def parts(fold):
    """X, y, qid of training (L1 and L2 together), of held-out queries and of L3."""
    train, valid, test = mq2008(fold)
    X, y, qid = (np.concatenate([a, b]) for a, b in zip(train, valid, strict=True))
    queries = np.unique(qid)
    held = np.isin(qid, np.random.default_rng(fold).permutation(queries)[: queries.size // 10])
    train = reduced(X[~held], y[~held], qid[~held], np.random.default_rng(fold))
    return train, (X[held], y[held], qid[held]), with_pairs(test)


def reduced(X, y, qid, rng):
    """Half of the queries with pairs keep the documents of one grade only."""
    mixed = np.unique(qid[~single(y, qid)])
    kept = np.ones(y.size, bool)
    for query in rng.permutation(mixed)[: mixed.size // 2]:
        rows = qid == query
        kept[rows] = y[rows] == rng.choice(np.unique(y[rows]))
    return X[kept], y[kept], qid[kept]


def single(y, qid):
    """Which rows belong to queries of one grade."""
    _, number = np.unique(qid, return_inverse=True)
    most, least = np.full(number.max() + 1, -np.inf), np.full(number.max() + 1, np.inf)
    np.maximum.at(most, number, y)
    np.minimum.at(least, number, y)
    return (most == least)[number]


def with_pairs(data):
    X, y, qid = data
    kept = ~single(y, qid)
    return X[kept], y[kept], qid[kept]


def rank_svm(X, y, qid, costs=(1e-4, 1e-3, 1e-2)):
    """A linear machine on differences of pairs, at most 40,000 of them."""
    pairs = np.concatenate([
        rows[np.argwhere(y[rows][:, None] > y[rows])]
        for rows in (np.flatnonzero(qid == query) for query in np.unique(qid))
    ])  # fmt: skip
    rng = np.random.default_rng(0)
    pairs = pairs[rng.permutation(len(pairs))[:40_000]]
    scale = StandardScaler().fit(X)
    rows = scale.transform(X)
    sign = np.where(rng.random(len(pairs)) < 0.5, 1, -1)
    differences = sign[:, None] * (rows[pairs[:, 0]] - rows[pairs[:, 1]])
    for cost in costs:
        machine = LinearSVC(C=cost, fit_intercept=False, dual=False).fit(differences, sign)
        yield lambda X, machine=machine: scale.transform(X) @ machine.coef_[0]


def fits(train):
    """Name and generator of scoring functions, the best of which is chosen on held-out queries."""
    X, y, qid = train
    of_l1 = single(y, qid)
    label = y.astype(float)
    nothing = np.full(y.size, np.nan)
    pairs = np.where(of_l1, np.nan, label)

    def boosted(judgments, **options):
        rows = ~np.isnan(judgments.grade) | ~np.isnan(judgments.label)
        model = QBRank(**SHAPE, **options).fit(X[rows], judgments[np.flatnonzero(rows)])
        for rounds in range(EVERY, ROUNDS + 1, EVERY):
            yield model.ensemble_.first(rounds).predict

    def labels(rows):
        return Judgments(nothing, qid, label=np.where(rows, label, np.nan))

    yield "GBT on L1", lambda: boosted(labels(of_l1), weight=0.0)
    yield "GBT on L2", lambda: boosted(labels(~of_l1), weight=0.0)
    yield "GBT on L1 and L2", lambda: boosted(labels(of_l1 | ~of_l1), weight=0.0)
    yield "RankSVM on P2", lambda: rank_svm(X[~of_l1], y[~of_l1], qid[~of_l1])
    for said, options in WAYS.items():
        yield (
            f"QBRank on P2{said}",
            lambda o=options: boosted(Judgments(pairs, qid, label=nothing), **o),
        )
        yield (
            f"QBRank on P2 and L1{said}",
            lambda o=options: boosted(
                Judgments(pairs, qid, label=np.where(of_l1, label, np.nan)), **o
            ),
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--splits", type=int, default=len(FOLDS), help="how many of the five")
    metrics = ["dcg@5", *(f"precision_at_percent@{k}" for k in PERCENTS)]
    found = {}
    for fold in list(FOLDS)[: parser.parse_args().splits]:
        train, held, test = parts(fold)
        judge = Evaluator(held[1], held[2], metrics=("dcg@5",), gains=GAINS, ties="average")
        final = Evaluator(test[1], test[2], metrics=metrics, gains=GAINS, ties="average")
        course = Evaluator(test[1], test[2], metrics="dcg@5", gains=GAINS, ties="average")
        for name, make in fits(train):
            scorers = list(make())
            best = max(scorers, key=lambda score: judge.value(score(held[0])))
            kinds = ("course", "chosen", "dcg", "pooled", "mean")
            row = found.setdefault(name, {kind: [] for kind in kinds})
            row["chosen"].append(EVERY * (1 + scorers.index(best)))
            evaluation = final.evaluate(best(test[0]))
            row["dcg"].append(evaluation.per_query["dcg@5"])
            for kind in ("pooled", "mean"):
                row[kind].append([getattr(evaluation, kind)[metric] for metric in metrics[1:]])
            if name in IN_FIGURE:
                each = [course.evaluate(s(test[0])).per_query["dcg@5"] for s in scorers]
                row["course"].append(each)
            print(fold, name, f"{evaluation.mean['dcg@5']:.3f}", flush=True)
        write({name: joined(row) for name, row in found.items()})


def joined(row):
    """The splits of a method as one: DCG-5 of all queries, and its mean by rounds."""
    course = np.concatenate(row["course"], axis=1).mean(1) if row["course"] else None
    return {**row, "dcg": np.concatenate(row["dcg"]), "course": course}


def difference(one, other):
    """Mean and standard error of the paired difference over queries."""
    gap = one - other
    gap = gap[~np.isnan(gap)]
    return gap.mean(), gap.std(ddof=1) / np.sqrt(gap.size)


def verdict(mean, error):
    """What a paired difference says of a finding that it should be positive."""
    if abs(mean) <= 2 * error:
        return "not decided: within two standard errors of 0"
    return "found here too" if mean > 0 else "**reversed here**"


def write(found):
    sections = (sets, findings, gains_of_methods, figure_1, table_1)
    lines = ["# Zheng et al. 2007 on MQ2008", ""]
    for section in sections:
        lines += [*section(found), ""]
    print("\n".join(lines))
    write_page(__file__, "zheng2007.md", "\n".join(lines[:-1]))


def sets(found):
    """How the data were made, and how large they are."""
    splits = len(found["QBRank on P2"]["chosen"])
    yield (
        "Figure 1 and table 1 of the paper on other data: its 4,898 queries of a commercial search "
        "engine are not public. L1 and L2 come from the training and validation parts of MQ2008, "
        f"L3 from the test part (queries with preferences only): {splits} of its five splits."
    )
    yield ""
    yield (
        "**How L1 was made.** In the paper L1 holds the queries whose documents all have one "
        "label, good ones included. The training queries of MQ2008 whose documents all have one "
        f"grade have grade {natural()} only. Therefore half of the training queries with "
        "preferences, drawn at random, were reduced to the documents of one of their grades, "
        "drawn at random, and moved to L1; their other documents were dropped. The pairs lost "
        "in this way are lost to P2 and L2 as well."
    )
    yield ""
    yield "| split | L1: queries | rows by grade | L2: queries | rows | pairs (P2) | L3: queries |"
    yield "|---|---|---|---|---|---|---|"
    for fold in list(FOLDS)[:splits]:
        (_, y, qid), _, test = parts(fold)
        alone = single(y, qid)
        grades = zip(*np.unique(y[alone], return_counts=True), strict=True)
        told = ", ".join(f"{n} of {grade}" for grade, n in grades)
        pairs = Judgments(y[~alone], qid[~alone]).n_pairs
        yield (
            f"| {fold} | {np.unique(qid[alone]).size} | {told} | {np.unique(qid[~alone]).size} "
            f"| {int((~alone).sum())} | {pairs} | {np.unique(test[2]).size} |"
        )
    yield ""
    yield (
        f"Trees of 20 leaves, shrinkage 0.05, {ROUNDS} rounds, w = 0.5 and τ the gap of the grades "
        "unless said otherwise. DCG-5 has the gains "
        f"{GAINS} for the grades 0, 1, 2 (the paper does not print its gains); equal scores count "
        "as the mean over their orders. Standard errors are over the "
        f"{found['QBRank on P2']['dcg'].size} test queries; they do not include the draw of L1."
    )


def natural():
    """Grades of the queries of one grade, as they are in MQ2008."""
    grades = set()
    for fold in FOLDS:
        for _, y, qid in mq2008(fold)[:2]:
            grades |= set(y[single(y, qid)].tolist())
    return ", ".join(f"{grade:g}" for grade in sorted(grades))


def findings(found):
    """Every finding of the paper beside the paired difference here."""
    yield "## What the paper finds, and what is found here"
    yield ""
    yield "| finding of the paper | compared | difference in DCG-5 | |"
    yield "|---|---|---|---|"
    for said, one, other in FINDINGS:
        mean, error = difference(found[one]["dcg"], found[other]["dcg"])
        yield f"| {said} | {one}, {other} | {mean:+.3f} ± {error:.3f} | {verdict(mean, error)} |"


def gains_of_methods(found):
    """DCG-5 of all methods, and what L1 adds in every variant."""
    base = found["QBRank on P2"]["dcg"]
    yield "## DCG-5 with the number of rounds chosen on held-out queries"
    yield ""
    yield "| | DCG-5 | difference from QBRank on P2 | rounds chosen, split by split |"
    yield "|---|---|---|---|"
    for name, row in found.items():
        mean, error = difference(row["dcg"], base)
        told = "" if name == "QBRank on P2" else f"{mean:+.3f} ± {error:.3f}"
        chosen = "" if "SVM" in name else ", ".join(map(str, row["chosen"]))
        yield f"| {name} | {np.nanmean(row['dcg']):.3f} | {told} | {chosen} |"
    yield ""
    yield "What L1 adds to P2 (DCG-5, paired):"
    yield ""
    yield "| | difference |"
    yield "|---|---|"
    for said in WAYS:
        one, other = (found[f"QBRank on P2{more}{said}"]["dcg"] for more in (" and L1", ""))
        mean, error = difference(one, other)
        yield f"| QBRank{said} | {mean:+.3f} ± {error:.3f} |"
    mean, error = difference(
        found["QBRank on P2 and L1"]["dcg"], found["QBRank on P2 and L1, hessian='bound'"]["dcg"]
    )
    yield ""
    yield (
        'Algorithm 2 as printed (`hessian="terms"`, the default: a violated pair has targets ±m '
        'and weight w) against the bound diag(2, 2) of section 3 (`hessian="bound"`: ±m/2 and 2w), '
        f"on P2 and L1: {mean:+.3f} ± {error:.3f} DCG-5."
    )


def figure_1(found):
    """DCG-5 by rounds, as a figure and as a table."""
    rounds = np.arange(EVERY, ROUNDS + 1, EVERY)
    draw(found, rounds)
    svm = np.nanmean(found["RankSVM on P2"]["dcg"])
    yield "## Figure 1: DCG-5 on L3 against rounds"
    yield ""
    yield f"![DCG-5 against rounds](../../docs/figures/{FIGURE.name})"
    yield ""
    yield f"RankSVM on P2 has {svm:.3f}."
    yield ""
    yield "| rounds | " + " | ".join(IN_FIGURE) + " |"
    yield "|---|" + "---|" * len(IN_FIGURE)
    for j in range(0, rounds.size, 2) if rounds.size % 2 else range(1, rounds.size, 2):
        cells = [f"{found[name]['course'][j]:.3f}" for name in IN_FIGURE]
        yield f"| {rounds[j]} | " + " | ".join(cells) + " |"
    yield ""
    for name in ("QBRank on P2", "QBRank on P2 and L1"):
        course = found[name]["course"]
        best = int(course.argmax())
        yield (
            f"{name} is best after {rounds[best]} of {ROUNDS} rounds ({course[best]:.3f}; "
            f"{course[-1]:.3f} at the end)."
        )


def draw(found, rounds):
    """Write the figure, to equal bytes every time."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "precede"
    figure, axis = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    for name, marker in zip(IN_FIGURE, "osv^D", strict=True):
        axis.plot(rounds, found[name]["course"], marker=marker, markersize=3, label=name)
    svm = np.nanmean(found["RankSVM on P2"]["dcg"])
    axis.axhline(svm, color="gray", linestyle="--", label="RankSVM on P2")
    axis.set_xlabel("rounds")
    axis.set_ylabel("DCG-5 on L3")
    axis.legend()
    figure.savefig(FIGURE, metadata={"Date": None})
    plt.close(figure)


def table_1(found):
    """Precision at K %, pooled as in the paper and as a mean over queries."""
    yield "## Table 1: precision at K %"
    yield ""
    for kind, said in (
        (
            "pooled",
            "All pairs of P3 in one list, sorted by the difference of their scores, as in the "
            "paper (`precision_at_percent` with `pooled=True`), mean of the splits; the "
            "paper's numbers are for its own data:",
        ),
        ("mean", "Every query a list of its own, mean over queries (`pooled=False`):"),
    ):
        values = {name: np.mean(found[name][kind], axis=0) for name in IN_TABLE}
        paper = kind == "pooled"
        columns = [*IN_TABLE, *(["paper: QBRank", "paper: GBT", "paper: RankSVM"] * paper)]
        yield said
        yield ""
        yield "| K | " + " | ".join(columns) + " |"
        yield "|---|" + "---|" * len(columns)
        for j, k in enumerate(PERCENTS):
            cells = [values[name][j] for name in IN_TABLE] + list(TABLE_1[k] * paper)
            yield f"| {k} % | " + " | ".join(f"{cell:.4f}" for cell in cells) + " |"
        yield ""
        above = sum(
            values["QBRank on P2"][j] > max(values["GBT on L2"][j], values["RankSVM on P2"][j])
            for j in range(len(PERCENTS))
        )
        yield (
            f"QBRank on P2 is above both GBT on L2 and RankSVM on P2 at {above} of the "
            f"{len(PERCENTS)} values of K (in the paper at all ten)."
        )
        yield ""


if __name__ == "__main__":
    main()
