"""How well does a model that can be read rank, and does it find the interactions that are there?

    python benchmarks/experiments/glassbox.py [--folds 5] [--only MQ2008] [--rows 30000]

Stumps, the glass box with 0, 10 and 50 pairs, and trees, each with the same number of rounds and
its other parameters at their defaults; and the explainable boosting machine of the package
interpret (pointwise: it regresses on the grades, or classifies), where that is installed. Five
folds of MQ2008, MovieLens, credit and synthetic data, five dealings of the queries of LightGBM's
sample. Then: which pairs are detected on synthetic data, with more and more noise. Then: how long
the search for pairs takes. Writes `benchmarks/results/glassbox.md`.
"""

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from measure import about, write_page  # noqa: E402
from precede import BoostedRanker, GlassBoxRanker  # noqa: E402
from precede.engine.table import Table  # noqa: E402
from precede.engine.workers import Workers  # noqa: E402
from precede.metrics import evaluate  # noqa: E402
from precede.rankers.growers import Trees  # noqa: E402
from precede.rankers.interactions import interaction_strengths  # noqa: E402
from problems import credit, lightgbm_rank, movielens, mq2008  # noqa: E402

ROUNDS, RATE = 300, 0.1
PAIRS = ((0, 1), (2, 3), (4, 5), (0, 6), (7, 8))  # that interact in the synthetic data
FEATURES = 20
TRIANGLE = [(a, b) for a in range(FEATURES) for b in range(a + 1, FEATURES)]


# -- data ----------------------------------------------------------------------------------------


def synthetic(rows, noise, seed):
    """Grades from main effects and five interactions of different kinds, in lists of twenty."""
    generator = np.random.default_rng(seed)
    X = generator.uniform(-1, 1, (rows, FEATURES))
    score = X[:, 0] + np.sin(3 * X[:, 1]) + np.abs(X[:, 2]) + (X[:, 9] > 0.2)
    score += 1.5 * np.sign(X[:, 0] * X[:, 1])  # good if both or neither
    score += 2.0 * X[:, 2] * X[:, 3]
    score += 1.5 * ((X[:, 4] > 0) & (X[:, 5] > 0.3))
    score += np.where(X[:, 0] > 0.3, X[:, 6], -X[:, 6])
    score += 1.5 * np.exp(-4 * (X[:, 7] - X[:, 8]) ** 2)
    score += noise * generator.normal(size=rows)
    y = np.searchsorted(np.quantile(score, [0.5, 0.75, 0.9, 0.97]), score)
    return X, y, np.arange(rows) // 20


def dealt(data, fold, folds=5):
    """Queries (or rows, without queries) dealt into parts, of which one is the test."""
    X, y, qid = data
    group = np.arange(len(y)) if qid is None else np.unique(qid, return_inverse=True)[1]
    part = np.random.default_rng(0).permutation(group.max() + 1)[group] % folds
    rows = part != fold, part == fold
    return [(X[r], y[r], None if qid is None else qid[r]) for r in rows]


def ends(found):
    return None if found is None else (found[0], found[2])


def credit_fold(fold, rows):
    found = credit()
    if found is None:
        return None
    X, y = found
    if rows:
        X, y = X[:rows], y[:rows]
    return dealt((X, y, None), fold)


def sample_fold(fold):
    found = lightgbm_rank()
    if found is None:
        return None
    X, y = (np.concatenate([part[j] for part in found]) for j in (0, 1))
    qid = np.concatenate([part[2] + 10_000 * number for number, part in enumerate(found)])
    return dealt((X, y, qid), fold)


def sets(rows):
    return {
        "MQ2008": lambda fold: ends(mq2008(fold + 1)),
        "LightGBM sample": sample_fold,
        "MovieLens": lambda fold: ends(movielens(fold + 1)),
        "credit": lambda fold: credit_fold(fold, rows),
        "synthetic": lambda fold: dealt(synthetic(20_000, 1.0, 0), fold),
    }


# -- models --------------------------------------------------------------------------------------


def ours(make):
    def fit(X, y, qid):
        model = make().fit(X, y, qid=qid)
        terms = getattr(model, "terms_", None)
        return model.predict, len(terms) if terms is not None else None

    return fit


def glass(pairs):
    return ours(lambda: GlassBoxRanker(interactions=pairs, n_estimators=ROUNDS, learning_rate=RATE))


def machine(X, y, qid):
    """The explainable boosting machine, at its defaults."""
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if qid is None:
            model = ExplainableBoostingClassifier(random_state=0).fit(X, y)
            return model.decision_function, len(model.term_names_)
        model = ExplainableBoostingRegressor(random_state=0).fit(X, y)
        return model.predict, len(model.term_names_)


def models():
    made = {
        "stumps": ours(
            lambda: BoostedRanker(num_leaves=2, n_estimators=ROUNDS, learning_rate=RATE)
        ),
        "glass box, no pairs": glass(0),
        "glass box, 10 pairs": glass(10),
        "glass box, 50 pairs": glass(50),
        "trees of 31 leaves": ours(lambda: BoostedRanker(n_estimators=ROUNDS)),
    }
    try:
        import interpret  # noqa: F401
    except ImportError:
        return made
    return {**made, "explainable boosting machine": machine}


# -- what is measured ----------------------------------------------------------------------------


def judged(data, scores):
    _, y, qid = data
    metric = "auc" if qid is None else "ndcg@10"
    seen = evaluate(y, scores, qid, metrics=[metric, "pair_error"]).mean
    return seen[metric], seen["pair_error"]


def run(name, folds, rows):
    found = {}
    for fold in range(folds):
        parts = sets(rows)[name](fold)
        if parts is None:
            return None
        train, test = parts
        for model, fit in models().items():
            began = time.perf_counter()
            predict, terms = fit(*train)
            seconds = time.perf_counter() - began
            value, error = judged(test, predict(test[0]))
            found.setdefault(model, []).append((value, error, terms, seconds))
            print(f"{name}, fold {fold}, {model}: {value:.4f}, {seconds:.1f} s", flush=True)
    return found


def table(name, found):
    metric = "AUC" if name == "credit" else "NDCG@10"
    lines = [
        f"| model | {metric} | less that of stumps | pair error | terms | seconds |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    base = np.array([row[0] for row in found["stumps"]])
    for model, rows in found.items():
        value, error = (np.array([row[j] for row in rows]) for j in (0, 1))
        terms = "" if rows[0][2] is None else f"{np.mean([row[2] for row in rows]):.0f}"
        spread = (value - base).std(ddof=1) / np.sqrt(len(rows)) if len(rows) > 1 else np.nan
        lines.append(
            f"| {model} | {value.mean():.4f} | {(value - base).mean():+.4f} ± {spread:.4f} | "
            f"{error.mean():.4f} | {terms} | {np.median([row[3] for row in rows]):.1f} |"
        )
    return "\n".join(lines)


def verdict(found):
    """What the numbers say about the claims, in words."""
    mean = {model: float(np.mean([row[0] for row in rows])) for model, rows in found.items()}
    seconds = {model: float(np.median([r[3] for r in rows])) for model, rows in found.items()}
    pairs, stumps, trees = mean["glass box, 50 pairs"], mean["stumps"], mean["trees of 31 leaves"]
    said = [
        "The glass box with 50 pairs is "
        + ("not behind stumps" if pairs >= stumps else f"behind stumps by {stumps - pairs:.4f}")
    ]
    if trees > stumps:
        share = (pairs - stumps) / (trees - stumps)
        said.append(
            f"trees lead stumps by {trees - stumps:.4f}, of which it recovers "
            f"{100 * share:.0f} %" + ("" if share >= 0.5 else ", less than half")
        )
    else:
        said.append("trees do not lead stumps here")
    machine_ = "explainable boosting machine"
    if machine_ in mean:
        better = "at least as good as" if pairs >= mean[machine_] else "behind"
        ratio = seconds[machine_] / seconds["glass box, 50 pairs"]
        said.append(
            f"it is {better} the explainable boosting machine, in {1 / ratio:.2f} times its time"
        )
    return "; ".join(said) + "."


def detection(repeats):
    """Precision and recall of the five strongest pairs, and of the pairs that are kept."""
    lines = [
        "| rows | noise | true pairs among the five strongest | kept | precision | recall |",
        "|--:|--:|--:|--:|--:|--:|",
    ]
    for rows in (4_000, 20_000):
        for noise in (0.5, 1.0, 2.0, 4.0):
            strongest, kept, right = [], [], []
            for seed in range(repeats):
                X, y, qid = synthetic(rows, noise, seed + 1)
                model = GlassBoxRanker(interactions=20, n_estimators=ROUNDS).fit(X, y, qid=qid)
                found = {t.features for t in model.terms_ if len(t.features) == 2}
                strongest.append(len(set([*model.pair_strengths_][:5]) & set(PAIRS)))
                kept.append(len(found))
                right.append(len(found & set(PAIRS)))
            precision = f"{sum(right) / sum(kept):.2f}" if sum(kept) else "no pair kept"
            lines.append(
                f"| {rows:,} | {noise:g} | {np.mean(strongest):.1f} of 5 | "
                f"{np.mean(kept):.1f} | {precision} | {np.mean(right) / 5:.2f} |"
            )
            print(lines[-1], flush=True)
    return "\n".join(lines)


def speed(rows):
    """Seconds of the search over all pairs of 136 features, and of a tree on the same rows."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(rows, 136)).astype(np.float32)
    X[:, ::3] = np.where(generator.random((rows, 46)) < 0.8, 0, X[:, ::3])
    pull = generator.normal(size=rows) / rows
    with Workers() as workers:
        table = Table.build(X, workers=workers)
        del X
        search = Trees(num_leaves=31).start(table, workers)
        few = table.block(np.arange(1000))
        interaction_strengths(few, pull[:1000], np.ones(1000), np.arange(136), workers)
        search.fit(pull, np.ones(rows))
        began = time.perf_counter()
        for _ in range(3):
            search.fit(pull, np.ones(rows))
        tree = (time.perf_counter() - began) / 3
        began = time.perf_counter()
        interaction_strengths(table, pull, np.ones(rows), np.arange(136), workers)
        pairs = time.perf_counter() - began
    return (
        f"{rows:,} rows of 136 features: {pairs:.2f} s for 9,180 pairs, {tree:.2f} s for a "
        f"tree of 31 leaves; the search takes as long as {pairs / tree:.1f} trees."
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rows", type=int, default=0, help="of credit; all of them by default")
    parser.add_argument("--speed-rows", type=int, default=1_200_000)
    parser.add_argument("--only", action="append")
    options = parser.parse_args()
    told = about(Workers().jobs)
    text = [
        "# A glass-box ranker beside stumps and trees",
        f"\n{ROUNDS} rounds, {options.folds} folds; means over the folds, medians of the seconds; "
        "± is the standard error of the mean difference over the folds (which share rows). "
        + ("" if not options.rows else f"Credit: the first {options.rows:,} rows. ")
        + (
            ""
            if len(models()) == 6
            else "The package interpret is not installed here, so the "
            "explainable boosting machine was not run. "
        )
        + f"{told['processor']}, {told['cores']} cores, load {told['load']} at the start: where "
        "the machine was busy, seconds are too many.",
    ]
    for name in options.only or sets(options.rows):
        found = run(name, options.folds, options.rows)
        if found is None:
            text.append(f"\n## {name}\n\nData absent: not run.")
            continue
        text.append(f"\n## {name}\n\n{table(name, found)}\n\n{verdict(found)}")
        print(text[-1], flush=True)
    text.append(
        "\n## Which pairs are found\n\nTwenty features, of which five pairs interact; 20 pairs are "
        f"tried. Means over {options.repeats} samples.\n\n{detection(options.repeats)}"
    )
    text.append(f"\n## How long the search takes\n\n{speed(options.speed_rows)}")
    write_page(__file__, "glassbox.md", "\n".join(text))


if __name__ == "__main__":
    main()
