"""Zheng et al. 2007, section 4, again on MQ2008.

    python benchmarks/experiments/zheng2007.py

The split of the paper: L1 holds queries whose documents all have one grade (labelled data
without a preference), the others are split by query into L2 (training) and L3 (test), with
preferences P2 and P3 inside their queries. Here the parts of MQ2008 give five such splits: L1
and L2 come from the three training parts and the validation part, L3 from the test part.

The queries of one grade in MQ2008 are all of grade 0, while the paper's L1 holds ideal results
too. So half of the other training queries, drawn at random, join L1 with the documents of one
of their grades alone, drawn as well.

Six fits: gradient boosting on L1, L2 and both, RankSVM on P2, QBRank on P2 and on P2 with L1.
All have 20 leaves, shrinkage 0.05 and, for QBRank, w = 0.5 and a margin of the gap of the
grades; the number of rounds is the one of the best DCG-5 on a tenth of the training queries.
"""

import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.svm import LinearSVC  # noqa: E402

from precede import Judgments, QBRank  # noqa: E402
from precede.metrics import Evaluator  # noqa: E402
from problems import FOLDS, mq2008  # noqa: E402

ROUNDS, EVERY = 200, 10
PERCENTS = tuple(range(10, 101, 10))
GAINS = (0.0, 3.0, 10.0)  # of grades 0, 1, 2
WAYS = {
    "": {},
    ", w = 0.9": {"weight": 0.9},
    ", targets summed": {"targets": "sum"},
    ", targets summed, w = 0.9": {"targets": "sum", "weight": 0.9},
}
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
    metrics = ["dcg@5", *(f"precision_at_percent@{k}" for k in PERCENTS)]
    found = {}
    for fold in FOLDS:
        train, held, test = parts(fold)
        judge = Evaluator(held[1], held[2], metrics=("dcg@5",), gains=GAINS, ties="average")
        final = Evaluator(test[1], test[2], metrics=metrics, gains=GAINS, ties="average")
        for name, make in fits(train):
            best = max(make(), key=lambda score: judge.value(score(held[0])))
            evaluation = final.evaluate(best(test[0]))
            row = found.setdefault(name, {metric: [] for metric in metrics})
            for metric in metrics:
                row[metric].append(evaluation.per_query[metric])
            print(fold, name, f"{evaluation.mean['dcg@5']:.3f}", flush=True)
    write({name: {m: np.concatenate(v) for m, v in row.items()} for name, row in found.items()})


def difference(one, other):
    """Mean and standard error of the paired difference over queries."""
    gap = one - other
    gap = gap[~np.isnan(gap)]
    return gap.mean(), gap.std(ddof=1) / np.sqrt(gap.size)


def write(found):
    base = found["QBRank on P2"]
    _, y, qid = parts(1)[0]
    grades = np.unique(y[single(y, qid)], return_counts=True)
    told = ", ".join(f"{n} of grade {g}" for g, n in zip(*grades, strict=True))
    lines = [
        "# Zheng et al. 2007 on MQ2008", "",
        "Five splits; means over all test queries with preferences. DCG-5 with gains "
        f"{GAINS} for the grades 0, 1, 2 (the paper does not print its gains), and its paired "
        "difference from QBRank on P2 with the standard error over queries. Equal scores count as "
        "the mean over their orders.", "",
        f"L1 of the first split holds {told}; L2 {int((~single(y, qid)).sum())} rows.", "",
        "| | DCG-5 | difference from QBRank on P2 |", "|---|---|---|",
    ]  # fmt: skip
    for name, row in found.items():
        mean, error = difference(row["dcg@5"], base["dcg@5"])
        told = "" if name == "QBRank on P2" else f"{mean:+.3f} ± {error:.3f}"
        lines.append(f"| {name} | {np.nanmean(row['dcg@5']):.3f} | {told} |")
    lines += ["", "What L1 adds to P2 (DCG-5, paired):", "", "| | difference |", "|---|---|"]
    for said in WAYS:
        mean, error = difference(
            found[f"QBRank on P2 and L1{said}"]["dcg@5"], found[f"QBRank on P2{said}"]["dcg@5"]
        )
        lines.append(f"| QBRank{said} | {mean:+.3f} ± {error:.3f} |")
    shown = ("QBRank on P2", "GBT on L2", "RankSVM on P2", "QBRank on P2 and L1")
    lines += ["", "Precision at K % (the paper's table 1), mean over queries:", "",
              "| K | " + " | ".join(shown) + " |", "|---|" + "---|" * len(shown)]  # fmt: skip
    for k in PERCENTS:
        cells = [f"{np.nanmean(found[name][f'precision_at_percent@{k}']):.4f}" for name in shown]
        lines.append(f"| {k} % | " + " | ".join(cells) + " |")
    print("\n".join(lines))
    path = HERE.parent / "results" / "zheng2007.md"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
