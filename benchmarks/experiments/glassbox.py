"""How well does a model that can be read rank, and does it find the interactions that are there?

    python benchmarks/experiments/glassbox.py [--folds 5] [--rows 10000] [--only MQ2008]
        [--interpret FOLDER] [--again]

Stumps, the glass box with 0, 10 and 50 pairs, the latter also as the mean of bags, and trees, each
with the same number of rounds and its other parameters at their defaults; and the explainable
boosting machine of the package interpret (pointwise: it regresses on the grades, or classifies)
where that package is found. All learn from the same rows. Five folds of MQ2008, MovieLens, credit
and synthetic data, five dealings of the queries of LightGBM's sample. Then: which pairs are
detected on synthetic data, with more and more noise. Then: how long the search for pairs takes.

Every fit is a line of `benchmarks/results/glassbox.jsonl` and is not repeated there (`--again`
begins anew); the page `benchmarks/results/glassbox.md` is written from these lines after every
fold of every set.
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
from precede.engine.execution import Context  # noqa: E402
from precede.engine.table import Table  # noqa: E402
from precede.metrics import evaluate  # noqa: E402
from precede.weak_rankers.interactions import interaction_strengths  # noqa: E402
from precede.weak_rankers.tree_grower import Trees  # noqa: E402
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


def machine_bags(features):
    """Outer bags: 14, the default, on few features; fewer where a fit would take minutes."""
    return 14 if features <= 10 else 4 if features <= 100 else 2


def machine(X, y, qid):
    """The explainable boosting machine with as many pairs as the glass box, on one core."""
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    options = {"interactions": 50, "outer_bags": machine_bags(X.shape[1]), "random_state": 0,
               "n_jobs": 1}  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if qid is None:
            model = ExplainableBoostingClassifier(**options).fit(X, y)
            return model.decision_function, len(model.term_names_)
        model = ExplainableBoostingRegressor(**options).fit(X, y)
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
FIRST = {STUMPS, PAIRS_50, BAGGED, TREES, MACHINE}  # claims rest on these: run before the others


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


def measure(models, name, fold, rows):
    """Fit and judge the models of one fold that the file does not hold yet."""
    done = {(r["model"], r["rows"]) for r in known()
            if (r["kind"], r.get("set"), r.get("fold")) == ("fold", name, fold)}  # fmt: skip
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
        line = {"kind": "fold", "set": name, "fold": fold, "model": model, "rows": rows,
                "learned": len(train[1]), "features": train[0].shape[1], "value": value,
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
    with Context() as context:
        table = Table.build(X, context=context)
        del X
        search = Trees(num_leaves=31).start(table, context)
        few = table.block(np.arange(1000))
        interaction_strengths(few, pull[:1000], np.ones(1000), np.arange(136), context)
        search.fit(pull, np.ones(rows))
        began = cpu_seconds()
        for _ in range(3):
            search.fit(pull, np.ones(rows))
        tree = (cpu_seconds() - began) / 3
        began = cpu_seconds()
        interaction_strengths(table, pull, np.ones(rows), np.arange(136), context)
        pairs = cpu_seconds() - began
    append(FILE, {"kind": "speed", "rows": rows, "tree": tree, "pairs": pairs,
                  "round": float(np.median(np.diff(ends)))})  # fmt: skip


# -- the page ------------------------------------------------------------------------------------


def table(name, lines, models):
    metric = "AUC" if name == "credit" else "NDCG@10"
    text = [
        f"| model | {metric} | minus stumps | pair error | terms | CPU seconds |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    base = {r["fold"]: r["value"] for r in lines if r["model"] == STUMPS}
    for model in models:
        rows = [r for r in lines if r["model"] == model and r["fold"] in base]
        if not rows:
            continue
        gain = np.array([r["value"] - base[r["fold"]] for r in rows])
        terms = "" if rows[0]["terms"] is None else f"{mean(rows, 'terms'):.0f}"
        bags = f", {machine_bags(rows[0]['features'])} outer bags" if model == MACHINE else ""
        few = "" if len(rows) == len(base) else f" ({len(rows)} of {len(base)} folds)"
        text.append(
            f"| {model}{bags}{few} | {mean(rows, 'value'):.4f} | "
            f"{gain.mean():+.4f}{error_of(gain)} | "
            f"{mean(rows, 'error'):.4f} | {terms} | {middle(rows):.1f} |"
        )
    return "\n".join(text)


def mean(rows, field):
    return float(np.mean([row[field] for row in rows]))


def folds_of(rows):
    count = len({row["fold"] for row in rows})
    return f"{count} fold" + "s" * (count > 1)


def middle(rows):
    return float(np.median([row["seconds"] for row in rows]))


def error_of(gain):
    """Standard error of a mean difference; nothing for a single fold."""
    return f" ± {gain.std(ddof=1) / np.sqrt(gain.size):.4f}" if gain.size > 1 else ""


def doubt(gain):
    """Standard error of a mean difference, in words."""
    if gain.size == 1:
        return ", without a standard error"
    error = gain.std(ddof=1) / np.sqrt(gain.size)
    within = ", within two standard errors" if abs(gain.mean()) < 2 * error else ""
    return f"{error_of(gain)}{within}"


def verdict(lines, model):
    """What the numbers say about stumps and trees, in words."""
    gain, lead = (difference(lines, each, STUMPS)[0] for each in (model, TREES))
    behind = f"behind stumps by {-gain.mean():.4f}{doubt(gain)}"
    said = f"The {model}: " + ("not behind stumps" if gain.mean() >= 0 else behind)
    if lead.mean() <= 0:
        return said + "; trees do not lead stumps here."
    share = gain.mean() / lead.mean()
    return said + (
        f"; trees lead stumps by {lead.mean():.4f}{doubt(lead)}, of which it recovers "
        f"{100 * share:.0f} %, {'at least' if share >= 0.5 else 'less than'} half."
    )


def difference(lines, model, other):
    """Differences of two models on the folds of both, and their lines on these folds."""
    found = {(r["model"], r["fold"]): r for r in lines}
    folds = sorted(fold for each, fold in found if each == other and (model, fold) in found)
    both = [[found[each, fold] for fold in folds] for each in (model, other)]
    return np.array([a["value"] - b["value"] for a, b in zip(*both, strict=True)]), *both


def beside_machine(lines, model):
    """What the numbers say about the explainable boosting machine, in words."""
    gain, one, other = difference(lines, model, MACHINE)
    if not gain.size:
        return f"The {model}: the {MACHINE} was not run beside it."
    return (
        f"The {model} ranks {'at least as well as' if gain.mean() >= 0 else 'worse than'} the "
        f"{MACHINE} on {folds_of(other)}: {gain.mean():+.4f}{doubt(gain)}; "
        f"{middle(one):.1f} CPU seconds against {middle(other):.1f}."
    )


def claims(sets, model):
    """What was hoped for, and on which sets it holds, for one model."""
    gains = {name: difference(lines, model, STUMPS)[0].mean() for name, lines in sets.items()}
    leads = {name: difference(lines, TREES, STUMPS)[0].mean() for name, lines in sets.items()}
    beside = {name: difference(lines, model, MACHINE) for name, lines in sets.items()}
    beside = {name: each for name, each in beside.items() if each[0].size}
    led = [name for name in sets if leads[name] > 0]
    hoped = {
        "Not behind stumps": {name: gains[name] >= 0 for name in sets},
        "At least half of the lead of trees over stumps, where they lead":
            {name: gains[name] >= leads[name] / 2 for name in led},
        f"Ranks at least as well as the {MACHINE}":
            {name: gain.mean() >= 0 for name, (gain, _, _) in beside.items()},
        f"Takes less time than the {MACHINE}":
            {name: middle(one) < middle(other) for name, (_, one, other) in beside.items()},
    }  # fmt: skip
    return [f"| {claim} | {model} | {named(held, True)} | {named(held, False)} |"
            for claim, held in hoped.items()]  # fmt: skip


def named(held, wanted):
    return ", ".join(name for name, each in held.items() if each == wanted) or "no set"


def machine_summary(sets):
    """One row per set: the glass boxes minus the explainable boosting machine."""
    text = [
        f"| set | {PAIRS_50} | {BAGGED} | folds | outer bags of the machine | CPU seconds |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name, lines in sets.items():
        both = [difference(lines, model, MACHINE) for model in (PAIRS_50, BAGGED)]
        if not both[0][0].size:
            text.append(f"| {name} | not run | not run | 0 | | |")
            continue
        gains = " | ".join(f"{gain.mean():+.4f}{error_of(gain)}" for gain, _, _ in both)
        seconds = [middle(both[0][1]), middle(both[1][1]), middle(both[0][2])]
        text.append(
            f"| {name} | {gains} | {both[0][0].size} | {machine_bags(lines[0]['features'])} | "
            + ", ".join(f"{each:.1f}" for each in seconds) + " |"
        )  # fmt: skip
    return text


def ahead(sets, model):
    """On which sets the explainable boosting machine is ahead of a model, and how surely."""
    found = []
    for name, lines in sets.items():
        gain, _, other = difference(lines, MACHINE, model)
        if gain.size and gain.mean() > 0:
            found.append(f"{name} ({folds_of(other)}: {gain.mean():+.4f}{doubt(gain)})")
    return f"* The {MACHINE} is ahead of the {model} on {', '.join(found) or 'no set'}."


def summary(sets):
    """The claims first, then the glass boxes beside the explainable boosting machine."""
    text = ["\n## What holds\n", "By the means over the folds, whatever their standard errors.\n",
            "| claim | model | holds on | does not hold on |", "|---|---|---|---|"]  # fmt: skip
    text += [row for model in (PAIRS_50, BAGGED) for row in claims(sets, model)]
    text.append(
        f"\nNDCG@10 (AUC on credit) minus that of the {MACHINE}, on the folds on which it was run; "
        "CPU seconds of the three models in the order glass box, bags, machine:\n"
    )
    return [*text, *machine_summary(sets), "", *(ahead(sets, m) for m in (PAIRS_50, BAGGED))]


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


def search_time(r):
    """The search for pairs beside rounds of boosting with trees, in words."""
    rounds, trees = r["pairs"] / r["round"], r["pairs"] / r["tree"]
    return (
        f"\n## How long the search takes\n\n{r['rows']:,} rows of 136 features have 9,180 pairs. "
        f"The search for pairs takes {r['pairs']:.2f} CPU seconds. A round of `BoostedRanker` with "
        "its default parameters (logistic loss, trees of 31 leaves) on the same rows, in lists of "
        f"100, with the same threads takes {r['round']:.2f}: the pull of all rows, the tree and "
        f"the new scores; growing the tree alone takes {r['tree']:.2f} (on a pull of noise).\n\n"
        f"* {'Less' if rounds < 20 else 'Not less'} than 20 rounds of boosted trees: {rounds:.1f} "
        f"rounds.\n* {'Less' if trees < 20 else 'Not less'} than 20 trees without the rest of the "
        f"round: {trees:.1f} trees."
    )


def whole_folds(lines):
    """The lines of folds on which all models of ours that come first were fitted."""
    fitted = {fold: {r["model"] for r in lines if r["fold"] == fold}
              for fold in {r["fold"] for r in lines}}  # fmt: skip
    return [r for r in lines if fitted[r["fold"]] >= FIRST - {MACHINE}]


def sizes(lines):
    learned = sorted({r["learned"] for r in lines})
    span = f"{learned[0]:,}" if len(learned) == 1 else f"{learned[0]:,} to {learned[-1]:,}"
    return f"{span} training rows, {lines[0]['features']} features"


INTRODUCTION = """# A glass-box ranker beside stumps, trees and the explainable boosting machine

{rounds} rounds each. Means over the folds, medians of the seconds; ± is the standard error of the
mean difference over the folds (which share rows; from two or three folds it is itself uncertain).
Seconds are those of the processor, of all threads together, for every method alike: the machine was
busy with other work, more or less from one fit to the next, so only large ratios mean something.
{limit}
Which pairs are dropped and where bags end was settled on training and validation parts alone (with
five folds these are test parts of other folds). Where there are few features (credit), the glass
box takes them greedily or in turn, as held-out parts of its training rows decide; stumps are
greedy. This rule was not settled without a look at test parts: that it is for few features only
fits what the tables below say about cyclic curves, and on credit a first version, which compared
the risk of held-out rows, had been run on the test parts when it was replaced by the present one,
which compares pairs in order, as validation parts had it. So the difference on credit is to be read
with care.
{processor}, {cores} cores."""

MACHINE_TEXT = """
The explainable boosting machine is that of interpret-core {version}, on one core. It regresses on
the grades, and classifies on credit. It learns from the same rows as the others and may have as
many pairs as the glass box, 50; its other parameters, among them its rounds, are its defaults, but
for its outer bags: {most}, the default, on sets of up to 10 features (credit), {some} on sets of up
to 100 features and {few} beyond, to save time. With 14 bags everywhere it would take longer, about
in proportion, and might rank better. As a mean over bags it is like the glass box with {ours} bags;
without bags, the glass box is a single fit."""


def page(options):
    lines, told = known(), about(Context().jobs)
    limit = f"Training parts are cut to about {options.rows:,} rows." if options.rows else ""
    text = [INTRODUCTION.format(rounds=ROUNDS, limit=limit, **told)]
    if any(r.get("model") == MACHINE for r in lines):
        version = next(r["version"] for r in lines if r["kind"] == "interpret")
        most, some, few = map(machine_bags, (10, 100, 101))
        text.append(MACHINE_TEXT.format(version=version, most=most, some=some, few=few, ours=BAGS))
    else:
        text.append("\nThe explainable boosting machine is not installed here and was not run.")
    sets = {name: whole_folds([r for r in lines if r["kind"] == "fold" and r["set"] == name
                               and r["rows"] == options.rows]) for name in SETS}  # fmt: skip
    text += summary({name: here for name, here in sets.items() if here})
    for name, here in sets.items():
        text.append(f"\n## {name}\n")
        if not here:
            text.append("Not run.")
            continue
        shown = table(name, here, [*OURS, MACHINE])
        text.append(f"{sizes(here)}, {folds_of(here)}.\n\n{shown}\n")
        for say in (verdict, beside_machine):
            text += [f"* {say(here, model)}" for model in (PAIRS_50, BAGGED)]
    pairs = [r for r in lines if r["kind"] == "detection"]
    if pairs:
        text.append(
            "\n## Which pairs are found\n\nTwenty features, of which five pairs interact; 20 pairs "
            f"are tried.\n\n{detection(pairs)}"
        )
    text += [search_time(r) for r in lines if r["kind"] == "speed" and "round" in r]
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
    parser.add_argument("--speed-rows", type=int, default=1_200_000)
    parser.add_argument("--only", action="append", help="a set, 'detection' or 'speed'")
    parser.add_argument("--interpret", help="folder that holds the package interpret")
    parser.add_argument("--again", action="store_true", help="begin anew")
    options = parser.parse_args()
    if options.again:
        (RESULTS / FILE).unlink(missing_ok=True)
    asked = options.only or [*SETS, "detection", "speed"]
    beside = {MACHINE: machine} if interpret_found(options.interpret) else {}
    sets = [each for each in asked if each in SETS]
    for first, fold, name in product((True, False), range(options.folds), sets):
        models = {model: fit for model, fit in (OURS | beside).items()
                  if (model in FIRST) == first}  # fmt: skip
        measure(models, name, fold, options.rows)
        page(options)
    if "detection" in asked:
        for case in product(range(1, options.repeats + 1), (4_000, 20_000), (0.5, 1.0, 2.0, 4.0)):
            detect(*case)
    if "speed" in asked:
        speed(options.speed_rows)
    page(options)


if __name__ == "__main__":
    main()
