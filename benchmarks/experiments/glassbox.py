"""How well does a model that can be read rank, and does it find the interactions that are there?

    python benchmarks/experiments/glassbox.py [--folds 5] [--rows 10000] [--only MQ2008]
        [--interpret FOLDER] [--machine-rows 2500] [--again]

Stumps, the glass box with 0, 10 and 50 pairs, the latter also as the mean of bags, and trees, each
with the same number of rounds and its other parameters at their defaults. Five folds of MQ2008,
MovieLens, credit and synthetic data, five dealings of the queries of LightGBM's sample. Then the
explainable boosting machine of the package interpret (pointwise: it regresses on the grades, or
classifies) at its defaults, where that package is found; it takes minutes where the others take
seconds, so it learns from fewer rows of one fold, and the glass box beside it from the same rows.
Then: which pairs are detected on synthetic data, with more and more noise. Then: how long the
search for pairs takes.

Every fit is a line of `benchmarks/results/glassbox.jsonl` and is not repeated there (`--again`
begins anew); the page `benchmarks/results/glassbox.md` is written from these lines.
"""

import argparse
import json
import os
import sys
import warnings
from itertools import product
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from measure import RESULTS, about, append, write_page  # noqa: E402
from precede import BoostedRanker, GlassBoxRanker  # noqa: E402
from precede.engine.table import Table  # noqa: E402
from precede.engine.workers import Workers  # noqa: E402
from precede.metrics import evaluate  # noqa: E402
from precede.rankers.growers import Trees  # noqa: E402
from precede.rankers.interactions import interaction_strengths  # noqa: E402
from problems import credit, lightgbm_rank, movielens, mq2008  # noqa: E402

FILE = "glassbox.jsonl"
ROUNDS, RATE, BAGS = 300, 0.1, 8
STUMPS, TREES = "stumps", "trees of 31 leaves"
PAIRS_50, BAGGED = "glass box, 50 pairs", f"glass box, 50 pairs, {BAGS} bags"
MACHINE = "explainable boosting machine"
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


def credit_fold(fold):
    found = credit()
    return None if found is None else dealt((*found, None), fold)


def first_rows(data, rows):
    """About so many rows of a training set, whole queries; all of them for 0."""
    X, y, qid = data
    if not rows or len(y) <= rows:
        return data
    if qid is None:
        return X[:rows], y[:rows], None
    query = np.unique(qid, return_inverse=True)[1]
    kept = query <= np.searchsorted(np.cumsum(np.bincount(query)), rows)
    return X[kept], y[kept], qid[kept]


def sample_fold(fold):
    found = lightgbm_rank()
    if found is None:
        return None
    X, y = (np.concatenate([part[j] for part in found]) for j in (0, 1))
    qid = np.concatenate([part[2] + 10_000 * number for number, part in enumerate(found)])
    return dealt((X, y, qid), fold)


SETS = {
    "MQ2008": lambda fold: ends(mq2008(fold + 1)),
    "LightGBM sample": sample_fold,
    "MovieLens": lambda fold: ends(movielens(fold + 1)),
    "credit": credit_fold,
    "synthetic": lambda fold: dealt(synthetic(20_000, 1.0, 0), fold),
}


# -- models --------------------------------------------------------------------------------------


def ours(make):
    def fit(X, y, qid):
        model = make().fit(X, y, qid=qid)
        terms = getattr(model, "terms_", None)
        return model.predict, len(terms) if terms is not None else None

    return fit


def glass(pairs, **options):
    return ours(
        lambda: GlassBoxRanker(
            interactions=pairs, n_estimators=ROUNDS, learning_rate=RATE, **options
        )
    )


def machine(X, y, qid):
    """The explainable boosting machine at its defaults, on one core."""
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if qid is None:
            model = ExplainableBoostingClassifier(random_state=0, n_jobs=1).fit(X, y)
            return model.decision_function, len(model.term_names_)
        model = ExplainableBoostingRegressor(random_state=0, n_jobs=1).fit(X, y)
        return model.predict, len(model.term_names_)


OURS = {
    STUMPS: ours(lambda: BoostedRanker(num_leaves=2, n_estimators=ROUNDS, learning_rate=RATE)),
    "glass box, no pairs": glass(0),
    "glass box, no pairs, cyclic": glass(0, selection="cyclic"),
    "glass box, 10 pairs": glass(10),
    PAIRS_50: glass(50),
    BAGGED: glass(50, bags=BAGS),
    TREES: ours(lambda: BoostedRanker(n_estimators=ROUNDS)),
}
BESIDE = {STUMPS: OURS[STUMPS], PAIRS_50: OURS[PAIRS_50], BAGGED: OURS[BAGGED], MACHINE: machine}


# -- what is measured ----------------------------------------------------------------------------


def cpu_seconds():
    """Processor time of this process and of its children that have ended."""
    return sum(os.times()[:4])


def judged(data, scores):
    _, y, qid = data
    metric = "auc" if qid is None else "ndcg@10"
    seen = evaluate(y, scores, qid, metrics=[metric, "pair_error"]).mean
    return seen[metric], seen["pair_error"]


def known():
    """The lines of the file, one for each fit."""
    path = RESULTS / FILE
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    fields = ("kind", "set", "fold", "model", "rows", "noise", "seed")
    return [*{tuple(map(line.get, fields)): line for line in lines}.values()]


def measure(kind, models, name, fold, rows):
    """Fit and judge the models of one fold that the file does not hold yet."""
    done = {(r["model"], r["rows"]) for r in known()
            if (r["kind"], r.get("set"), r.get("fold")) == (kind, name, fold)}  # fmt: skip
    missing = {model: fit for model, fit in models.items() if (model, rows) not in done}
    parts = SETS[name](fold) if missing else None
    if parts is None:
        return
    train, test = first_rows(parts[0], rows), parts[1]
    for model, fit in missing.items():
        began = cpu_seconds()
        predict, terms = fit(*train)
        seconds = cpu_seconds() - began
        value, error = judged(test, predict(test[0]))
        line = {"kind": kind, "set": name, "fold": fold, "model": model, "rows": rows,
                "learnt": len(train[1]), "features": train[0].shape[1], "value": value,
                "error": error, "terms": terms, "seconds": seconds}  # fmt: skip
        append(FILE, line)
        print(f"{name}, fold {fold}, {model}: {value:.4f}, {seconds:.1f} s", flush=True)


def detect(seed, rows, noise):
    """Which pairs are among the five strongest, and which are kept."""
    if any((r["kind"], r.get("rows"), r.get("noise"), r.get("seed")) ==
           ("detection", rows, noise, seed) for r in known()):  # fmt: skip
        return
    X, y, qid = synthetic(rows, noise, seed)
    model = GlassBoxRanker(interactions=20, n_estimators=ROUNDS).fit(X, y, qid=qid)
    found = {t.features for t in model.terms_ if len(t.features) == 2}
    line = {"kind": "detection", "rows": rows, "noise": noise, "seed": seed,
            "strongest": len(set([*model.pair_strengths_][:5]) & set(PAIRS)),
            "kept": len(found), "right": len(found & set(PAIRS))}  # fmt: skip
    append(FILE, line)
    print(line, flush=True)


def speed(rows):
    """Seconds of the search over all pairs of 136 features, of a tree, and of a round."""
    if any(r["kind"] == "speed" and r["rows"] == rows and "round" in r for r in known()):
        return
    generator = np.random.default_rng(0)
    X = generator.normal(size=(rows, 136)).astype(np.float32)
    X[:, ::3] = np.where(generator.random((rows, 46)) < 0.8, 0, X[:, ::3])
    pull = generator.normal(size=rows) / rows
    ends = []
    grade = np.searchsorted([0.0, 1.0, 2.0], X[:, 0] + X[:, 1] + generator.normal(size=rows))
    model = BoostedRanker(n_estimators=4, callbacks=[lambda _: ends.append(cpu_seconds())])
    model.fit(X, grade, qid=np.arange(rows) // 100)
    with Workers() as workers:
        table = Table.build(X, workers=workers)
        del X
        search = Trees(num_leaves=31).start(table, workers)
        few = table.block(np.arange(1000))
        interaction_strengths(few, pull[:1000], np.ones(1000), np.arange(136), workers)
        search.fit(pull, np.ones(rows))
        began = cpu_seconds()
        for _ in range(3):
            search.fit(pull, np.ones(rows))
        tree = (cpu_seconds() - began) / 3
        began = cpu_seconds()
        interaction_strengths(table, pull, np.ones(rows), np.arange(136), workers)
        pairs = cpu_seconds() - began
    append(FILE, {"kind": "speed", "rows": rows, "tree": tree, "pairs": pairs,
                  "round": float(np.median(np.diff(ends)))})  # fmt: skip


# -- the page ------------------------------------------------------------------------------------


def table(name, lines, models):
    metric = "AUC" if name == "credit" else "NDCG@10"
    text = [
        f"| model | {metric} | less that of stumps | pair error | terms | CPU seconds |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    base = {r["fold"]: r["value"] for r in lines if r["model"] == STUMPS}
    for model in models:
        rows = [r for r in lines if r["model"] == model]
        if not rows:
            continue
        gain = np.array([r["value"] - base[r["fold"]] for r in rows])
        sure = f" ± {gain.std(ddof=1) / np.sqrt(gain.size):.4f}" if gain.size > 1 else ""
        terms = "" if rows[0]["terms"] is None else f"{mean(rows, 'terms'):.0f}"
        text.append(
            f"| {model} | {mean(rows, 'value'):.4f} | {gain.mean():+.4f}{sure} | "
            f"{mean(rows, 'error'):.4f} | {terms} | {middle(rows):.1f} |"
        )
    return "\n".join(text)


def mean(rows, field):
    return float(np.mean([row[field] for row in rows]))


def middle(rows):
    return float(np.median([row["seconds"] for row in rows]))


def verdict(lines, model):
    """What the numbers say about stumps and trees, in words."""
    value = {each: np.array([r["value"] for r in sorted(lines, key=lambda r: r["fold"])
                             if r["model"] == each])
             for each in (STUMPS, TREES, model)}  # fmt: skip
    gain, lead = value[model] - value[STUMPS], float((value[TREES] - value[STUMPS]).mean())
    sure = gain.std(ddof=1) / np.sqrt(gain.size) if gain.size > 1 else np.nan
    said = f"The {model}: " + (
        "not behind stumps"
        if gain.mean() >= 0
        else f"behind stumps by {-gain.mean():.4f} ± {sure:.4f}"
        + (" (within two standard errors)" if -gain.mean() < 2 * sure else "")
    )
    if lead <= 0:
        return said + "; trees do not lead stumps here."
    share = float(gain.mean()) / lead
    return said + (
        f"; trees lead stumps by {lead:.4f}, of which it recovers {100 * share:.0f} %"
        + (", more than half." if share >= 0.5 else ", less than half.")
    )


def beside_machine(name, lines):
    """What the numbers say about the explainable boosting machine, in words."""
    found = {r["model"]: r for r in lines}
    if MACHINE not in found:
        return f"{name}: the explainable boosting machine was not run, or not to its end: no time."
    other = found[MACHINE]
    said = [
        f"the {model} ranks "
        + ("at least as well" if found[model]["value"] >= other["value"] else "worse")
        + f" ({found[model]['value'] - other['value']:+.4f}) in "
        f"1/{other['seconds'] / found[model]['seconds']:.0f} of its time"
        for model in (PAIRS_50, BAGGED)
    ]
    return f"Beside the explainable boosting machine {'; '.join(said)}."


def detection(lines):
    text = [
        "| rows | noise | samples | true pairs among the five strongest | kept | precision | "
        "recall |",
        "|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for rows, noise in sorted({(r["rows"], r["noise"]) for r in lines}):
        here = [r for r in lines if (r["rows"], r["noise"]) == (rows, noise)]
        kept, right = (sum(r[field] for r in here) for field in ("kept", "right"))
        precision = f"{right / kept:.2f}" if kept else "no pair kept"
        text.append(
            f"| {rows:,} | {noise:g} | {len(here)} | {mean(here, 'strongest'):.1f} of 5 | "
            f"{mean(here, 'kept'):.1f} | {precision} | {mean(here, 'right') / 5:.2f} |"
        )
    return "\n".join(text)


def whole_folds(lines):
    """The lines of folds on which all models were fitted."""
    fitted = {fold: {r["model"] for r in lines if r["fold"] == fold}
              for fold in {r["fold"] for r in lines}}  # fmt: skip
    return [r for r in lines if fitted[r["fold"]] >= set(OURS)]


def sizes(lines):
    learnt = sorted({r["learnt"] for r in lines})
    span = f"{learnt[0]:,}" if len(learnt) == 1 else f"{learnt[0]:,} to {learnt[-1]:,}"
    return f"{span} training rows, {lines[0]['features']} features"


INTRODUCTION = """# A glass-box ranker beside stumps and trees

{rounds} rounds each. Means over the folds, medians of the seconds; ± is the standard error of the
mean difference over the folds (which share rows). Seconds are those of the processor, of all
threads together, for every method alike: the machine was busy with other work. {limit}The rule that
drops pairs was settled on training and validation parts alone (with five folds these are test parts
of other folds).
{processor}, {cores} cores."""

BESIDE_TEXT = """
## Beside the explainable boosting machine

interpret-core {version} at its defaults (14 outer bags, pairs five times as many as features, early
stopping), on one core; it regresses on the grades, and classifies on credit. It takes minutes where
the others take seconds. So it was run on the first fold alone, on about {rows:,} training rows
(whole queries), and the glass box beside it on the same rows; all are judged on the whole test
part. One fold has no standard error: small differences mean nothing.
"""


def page(options):
    lines, told = known(), about(Workers().jobs)
    limit = f"Training parts are cut to about {options.rows:,} rows. " if options.rows else ""
    text = [INTRODUCTION.format(rounds=ROUNDS, limit=limit, **told)]
    for name in SETS:
        here = whole_folds([r for r in lines if r["kind"] == "fold" and r["set"] == name])
        text.append(f"\n## {name}\n")
        if not here:
            text.append("Not run.")
            continue
        folds = len({r["fold"] for r in here})
        text.append(f"{sizes(here)}, {folds} folds.\n\n{table(name, here, OURS)}\n")
        text += [f"* {verdict(here, model)}" for model in (PAIRS_50, BAGGED)]
    beside = [r for r in lines if r["kind"] == "machine"]
    if any(r["model"] == MACHINE for r in beside):
        version = next(r["version"] for r in lines if r["kind"] == "interpret")
        text.append(BESIDE_TEXT.format(version=version, rows=options.machine_rows))
        for name in SETS:
            here = [r for r in beside if r["set"] == name]
            if any(r["model"] == MACHINE for r in here):
                text.append(f"\n**{name}** ({sizes(here)})\n\n{table(name, here, BESIDE)}\n")
            text.append(f"* {beside_machine(name, here)}")
    else:
        text.append("\nThe explainable boosting machine is not installed here and was not run.")
    pairs = [r for r in lines if r["kind"] == "detection"]
    if pairs:
        text.append(
            "\n## Which pairs are found\n\nTwenty features, of which five pairs interact; 20 pairs "
            f"are tried.\n\n{detection(pairs)}"
        )
    for r in (r for r in lines if r["kind"] == "speed" and "round" in r):
        text.append(
            f"\n## How long the search takes\n\n{r['rows']:,} rows of 136 features: "
            f"{r['pairs']:.2f} CPU seconds for 9,180 pairs, {r['round']:.2f} for a round of "
            "boosting with a tree of 31 leaves on lists of 100 rows, of which the tree takes "
            f"{r['tree']:.2f}. The search for pairs takes as long as {r['pairs'] / r['round']:.1f} "
            f"rounds, or as {r['pairs'] / r['tree']:.1f} searches for a tree alone."
        )
    write_page(__file__, "glassbox.md", "\n".join(text))


def interpret_found(folder):
    """Whether the package is there, perhaps in a folder of its own; notes its version."""
    if folder:
        sys.path.append(folder)
    try:
        import interpret
    except ImportError:
        return False
    if not any(r["kind"] == "interpret" for r in known()):
        append(FILE, {"kind": "interpret", "version": interpret.__version__})
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rows", type=int, default=0, help="of training parts; 0: all of them")
    parser.add_argument("--machine-rows", type=int, default=2500)
    parser.add_argument("--speed-rows", type=int, default=1_200_000)
    parser.add_argument("--only", action="append", help="a set, 'detection' or 'speed'")
    parser.add_argument("--interpret", help="folder that holds the package interpret")
    parser.add_argument("--again", action="store_true", help="begin anew")
    options = parser.parse_args()
    if options.again:
        (RESULTS / FILE).unlink(missing_ok=True)
    asked = options.only or [*SETS, "detection", "speed"]
    for name in [each for each in asked if each in SETS]:
        for fold in range(options.folds):
            measure("fold", OURS, name, fold, options.rows)
        page(options)
    if "detection" in asked:
        for case in product(range(1, options.repeats + 1), (4_000, 20_000), (0.5, 1.0, 2.0, 4.0)):
            detect(*case)
    if "speed" in asked:
        speed(options.speed_rows)
    page(options)
    if interpret_found(options.interpret):
        for name in [each for each in asked if each in SETS]:
            measure("machine", BESIDE, name, 0, options.machine_rows)
            page(options)


if __name__ == "__main__":
    main()
