"""How well do boosted trees rank? Ours and the peers', in one harness.

    python benchmarks/experiments/quality.py search     # variants of ours, validation only
    python benchmarks/experiments/quality.py run        # ours and the peers, with test sets
    python benchmarks/experiments/quality.py report     # tables from what has been run

Every model has the same folds, number of leaves, rounds, learning rates and shares of rows and
features for a tree; the learning rate and the number of rounds are chosen on the validation
set by NDCG@10. Runs are kept as JSON lines and not repeated; scores of the test sets stay in
a folder of their own that is not part of the repository.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from measure import write_page  # noqa: E402
from precede import BoostedRanker, Judgments, QBRank, SquaredHinge  # noqa: E402
from precede.inference import compare  # noqa: E402
from precede.metrics import Evaluator  # noqa: E402
from problems import lightgbm_rank, movielens, mq2008  # noqa: E402

RESULTS = HERE.parent / "results"
SCORES = HERE / "scores"  # ignored by git
ROUNDS, EVERY, LEAVES, LEAST = 300, 10, 16, 20
ROWS, FEATURES = 0.7, 0.5  # shares for a tree
RATES = (0.05, 0.1)
METRICS = ("ndcg@10", "map", "pair_error")
SETS = {
    "MQ2008": [(f"fold {fold}", lambda fold=fold: mq2008(fold)) for fold in range(1, 6)],
    "LightGBM sample": [("its split", lightgbm_rank)],
    "MovieLens": [(f"fold {fold}", lambda fold=fold: movielens(fold)) for fold in range(1, 6)],
}
RELEVANT = {"MovieLens": 3.0}  # four stars and more; elsewhere every grade above 0

SHAPE = {
    "n_estimators": ROUNDS,
    "num_leaves": LEAVES,
    "min_child_samples": LEAST,
    "subsample": ROWS,
    "max_features": FEATURES,
    "random_state": 0,
    "n_jobs": 1,
}
# What is tried for the defaults of BoostedRanker: first the penalty, everything else as it is;
# then, with the penalty chosen, one change at a time. Drawing rows and features alone moves the
# validation NDCG@10 of MQ2008 by some 0.005, so each is fitted with several seeds and their
# curves are averaged before the best round is taken.
SEEDS = 3
SEARCHED = {"MovieLens": 1}  # its folds differ little; of the other sets all
PENALTIES = (0.0, 1.0, 5.0, 20.0, 80.0, 320.0)
VARIANTS = {
    "balance queries": {"balance": "queries"},
    "balance pairs": {"balance": "pairs"},
    "min_child_weight 1": {"min_child_weight": 1.0},
    "min_child_weight 5": {"min_child_weight": 5.0},
    "line search": {"line_search": True},
    "hessian bound": {"hessian": "bound", "line_search": True},
    "hessian uniform": {"hessian": "uniform", "line_search": True},
    "targets averaged": {"targets": "average", "line_search": True},
    "exponential": {"loss": "exponential"},
    "squared hinge": {"loss": "squared_hinge"},
    "squared hinge, gap": {"loss": SquaredHinge("gap")},
    "exponential, price 2": {"loss": "exponential", "price": 2},
}


def by_query(data):
    X, y, qid = data
    order = np.argsort(qid, kind="stable")
    return np.ascontiguousarray(X[order]), y[order].astype(int), qid[order]


def sizes(qid):
    return np.unique(qid, return_counts=True)[1]


# -- one function for each library: scores after every tenth round -------------------------------


def boosted(**options):
    def staged(train, others, rate):
        X, y, qid = train
        model = BoostedRanker(learning_rate=rate, **{**SHAPE, **options}).fit(X, y, qid=qid)
        return [list(model.staged_predict(X))[EVERY - 1 :: EVERY] for X in others]

    return staged


def qbrank(*, labels=False, **options):
    """The grades as pairs, or as pairs and as values too."""

    def staged(train, others, rate):
        X, y, qid = train
        both = Judgments(grade=y.astype(float), qid=qid, label=y.astype(float) if labels else None)
        model = QBRank(learning_rate=rate, **SHAPE, **options).fit(X, both)
        return [list(model.staged_predict(X))[EVERY - 1 :: EVERY] for X in others]

    return staged


def lightgbm(objective):
    def staged(train, others, rate):
        import lightgbm as library

        X, y, qid = train
        parameters = {
            "objective": objective, "learning_rate": rate, "num_leaves": LEAVES,
            "min_data_in_leaf": LEAST, "bagging_fraction": ROWS, "bagging_freq": 1,
            "feature_fraction": FEATURES, "verbosity": -1, "num_threads": 1, "seed": 0,
        }  # fmt: skip
        data = library.Dataset(X, label=y, group=sizes(qid), params={"verbosity": -1})
        model = library.train(parameters, data, ROUNDS)

        def part(X, first):
            return model.predict(X, start_iteration=first, num_iteration=EVERY, raw_score=True)

        return [summed(X, part) for X in others]

    return staged


def xgboost(objective):
    def staged(train, others, rate):
        import xgboost as library

        X, y, qid = train
        parameters = {
            "objective": objective, "eta": rate, "max_leaves": LEAVES, "max_depth": 0,
            "grow_policy": "lossguide", "tree_method": "hist", "subsample": ROWS,
            "colsample_bytree": FEATURES, "nthread": 1, "seed": 0,
        }  # fmt: skip
        data = library.DMatrix(X, label=y, qid=np.unique(qid, return_inverse=True)[1])
        model = library.train(parameters, data, ROUNDS)

        def part(X, first):
            rounds = (first, first + EVERY)
            return model.predict(library.DMatrix(X), output_margin=True, iteration_range=rounds)

        return [summed(X, part) for X in others]

    return staged


def catboost(loss):
    def staged(train, others, rate):
        import catboost as library

        X, y, qid = train
        model = library.CatBoost({
            "loss_function": loss, "learning_rate": rate, "iterations": ROUNDS,
            "grow_policy": "Lossguide", "max_leaves": LEAVES, "min_data_in_leaf": LEAST,
            "bootstrap_type": "Bernoulli", "subsample": ROWS, "rsm": FEATURES, "verbose": False,
            "thread_count": 1, "random_seed": 0, "allow_writing_files": False,
        })  # fmt: skip
        model.fit(library.Pool(X, label=y, group_id=qid))
        return [list(model.staged_predict(X, eval_period=EVERY)) for X in others]

    return staged


def summed(X, part):
    """Running sums of ten trees at a time; constants do not matter."""
    scores, total = [], np.zeros(len(X))
    for first in range(0, ROUNDS, EVERY):
        total = total + part(X, first)
        scores.append(total)
    return scores


MODELS = {
    "precede BoostedRanker": boosted(),
    "precede BoostedRanker, exponential, price 2": boosted(loss="exponential", price=2),
    "precede QBRank": qbrank(),
    "precede QBRank, targets summed": qbrank(targets="sum"),
    "precede QBRank, labels too": qbrank(labels=True, targets="sum"),
    "LightGBM lambdarank": lightgbm("lambdarank"),
    "LightGBM rank_xendcg": lightgbm("rank_xendcg"),
    "XGBoost rank:ndcg": xgboost("rank:ndcg"),
    "XGBoost rank:pairwise": xgboost("rank:pairwise"),
    "CatBoost YetiRank": catboost("YetiRank"),
    "CatBoost PairLogit": catboost("PairLogit"),
}
OURS = "precede BoostedRanker"


# -- running -------------------------------------------------------------------------------------


def evaluator(name, data):
    _, y, qid = data
    return Evaluator(y, qid, metrics=METRICS, relevant=RELEVANT.get(name, 1.0))


def done(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def keep(path, **row):
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def best_of(name, staged, parts, rates):
    """The learning rate and round of the best NDCG@10 on validation, and the test scores."""
    train, valid, test = parts
    judge = evaluator(name, valid)
    best = None
    for rate in rates:
        on_valid, on_test = staged(train, [valid[0], test[0]], rate)
        means = [judge.evaluate(scores).mean for scores in on_valid]
        chosen = int(np.argmax([mean["ndcg@10"] for mean in means]))
        if best is None or means[chosen]["ndcg@10"] > best[0]["ndcg@10"]:
            best = means[chosen], rate, EVERY * (chosen + 1), on_test[chosen]
    return best


def search():
    """Validation scores of every penalty, then of every variant with the penalty chosen."""
    path = RESULTS / "quality_search.jsonl"
    try_all(path, {penalty_name(each): {"reg_lambda": each} for each in PENALTIES})
    penalty = chosen_penalty(done(path))
    for name, options in VARIANTS.items():
        try_all(path, {name: {"reg_lambda": penalty, **options}})


def penalty_name(penalty):
    return f"reg_lambda {penalty:g}"


def try_all(path, variants):
    seen = {(row["set"], row["part"], row["model"]) for row in done(path)}
    for name, parts in SETS.items():
        for part, read in parts[: SEARCHED.get(name)]:
            waiting = {key: each for key, each in variants.items() if (name, part, key) not in seen}
            data = read() if waiting else None
            if data is None:
                continue
            train, valid, _ = (by_query(each) for each in data)
            queries = len(sizes(valid[2]))
            for model, options in waiting.items():
                rounds, mean = averaged(name, options, train, valid)
                keep(path, set=name, part=part, model=model, reg_lambda=options["reg_lambda"],
                     queries=queries, rounds=rounds, valid=mean)  # fmt: skip


def differences(rows, model, base, metric="ndcg@10"):
    """Validation queries of each part that has both, and by how much the model is better there."""
    own, other = ({(r["set"], r["part"]): r for r in rows if r["model"] == m}
                  for m in (model, base))  # fmt: skip
    both = [key for key in own if key in other]
    queries = np.array([own[key]["queries"] for key in both], float)
    gaps = np.array([own[key]["valid"][metric] - other[key]["valid"][metric] for key in both])
    return queries, gaps


def overall(rows, model, base, metric="ndcg@10"):
    """Mean difference over all validation queries, and its standard error over the parts."""
    queries, gaps = differences(rows, model, base, metric)
    mean = float(np.average(gaps, weights=queries))
    share = queries / queries.sum()
    spread = float((share**2 * (gaps - mean) ** 2).sum())
    return mean, (spread * len(gaps) / max(len(gaps) - 1, 1)) ** 0.5


def best_penalty(rows):
    """The penalty with the best NDCG@10 over all validation queries."""
    base = penalty_name(PENALTIES[0])
    return max(PENALTIES, key=lambda each: overall(rows, penalty_name(each), base)[0])


def chosen_penalty(rows):
    """The smallest penalty within one standard error of the best."""
    best = penalty_name(best_penalty(rows))
    for penalty in PENALTIES:
        mean, error = overall(rows, penalty_name(penalty), best)
        if mean >= -error:
            break
    return penalty


def averaged(name, options, train, valid):
    """Best round of the NDCG@10 curve averaged over seeds, and the mean metrics there."""
    judge = evaluator(name, valid)
    curves = []
    for seed in range(SEEDS):
        [scores] = boosted(**options, random_state=seed)(train, [valid[0]], RATES[-1])
        means = [judge.evaluate(each).mean for each in scores]
        curves.append([[mean[metric] for metric in METRICS] for mean in means])
    curve = np.mean(curves, axis=0)
    best = int(curve[:, 0].argmax())
    return EVERY * (best + 1), dict(zip(METRICS, curve[best].tolist(), strict=True))


def run(models="", again=False):
    """Fit every model whose name contains `models`; those fitted before only if asked to."""
    path = RESULTS / "quality.jsonl"
    SCORES.mkdir(exist_ok=True)
    wanted = {name: staged for name, staged in MODELS.items() if models in name}
    if not wanted:
        raise SystemExit(f"--models {models!r} is part of no name; there are {list(MODELS)}")
    if again:
        others = [row for row in done(path) if row["model"] not in wanted]
        path.unlink(missing_ok=True)
        for row in others:
            keep(path, **row)
    seen = {(row["set"], row["part"], row["model"]) for row in done(path)}
    for name, parts in SETS.items():
        for part, read in parts:
            data = read()
            if data is None:
                continue
            data = [by_query(each) for each in data]
            for model, staged in wanted.items():
                if (name, part, model) in seen:
                    continue
                began = time.perf_counter()
                valid, rate, rounds, scores = best_of(name, staged, data, RATES)
                np.save(SCORES / f"{name} {part} {model}.npy".replace(":", "_"), scores)
                test = evaluator(name, data[2]).evaluate(scores).mean
                seconds = round(time.perf_counter() - began, 1)
                keep(path, set=name, part=part, model=model, rate=rate, rounds=rounds,
                     valid=valid, test=test, seconds=seconds)  # fmt: skip


# -- tables --------------------------------------------------------------------------------------


def pooled(name):
    """Grades and queries of all test sets, and the scores of every model on them."""
    grades, queries, scores = [], [], {model: [] for model in MODELS}
    for number, (part, read) in enumerate(SETS[name]):
        _, y, qid = by_query(read()[2])
        grades.append(y)
        queries.append(qid + number * 10**7)
        for model, found in scores.items():
            file = SCORES / f"{name} {part} {model}.npy".replace(":", "_")
            if found is not None and file.exists():
                found.append(np.load(file))
            else:
                scores[model] = None
    scores = {model: np.concatenate(found) for model, found in scores.items() if found}
    return np.concatenate(grades), np.concatenate(queries), scores


def together():
    """All sets as one: every query counts once, whichever set it is of."""
    parts = {name: pooled(name) for name in SETS}
    models = [model for model in MODELS if all(model in part[2] for part in parts.values())]
    qid = np.concatenate([part[1] + j * 10**9 for j, part in enumerate(parts.values())])
    grades = {
        "map": np.concatenate([y >= RELEVANT.get(name, 1.0) for name, (y, _, _) in parts.items()]),
        "others": np.concatenate([y for y, _, _ in parts.values()]),
    }
    scores = {m: np.concatenate([part[2][m] for part in parts.values()]) for m in models}
    return grades, qid, scores


def by_set(name):
    y, qid, scores = pooled(name)
    return {"map": y >= RELEVANT.get(name, 1.0), "others": y}, qid, scores


def versus(metric, grades, qid, one, other):
    y = grades.get(metric, grades["others"]).astype(int)
    return compare(y, one, other, qid, metric=metric)


def table_of(name, grades, qid, scores):
    if OURS not in scores:
        return []
    lines = [f"## {name}", "", "| model | NDCG@10 | difference | MAP | difference | pair error | "
             "difference |", "|---|---|---|---|---|---|---|"]  # fmt: skip
    for model, own in scores.items():
        cells = [model]
        for metric in METRICS:
            found = versus(metric, grades, qid, scores[OURS], own)
            cells.append(f"{found.value_b:.4f}")
            if model == OURS:
                cells.append("")
                continue
            low, high = found.interval(0.95)
            mark = " *" if low > 0 or high < 0 else ""
            cells.append(f"{found.difference:+.4f} [{low:+.4f}, {high:+.4f}]{mark}")
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def search_table():
    rows = done(RESULTS / "quality_search.jsonl")
    chosen, best = penalty_name(chosen_penalty(rows)), penalty_name(best_penalty(rows))
    mean, error = overall(rows, chosen, best)
    default = penalty_name(BoostedRanker().reg_lambda)
    distance = f" ({mean:+.4f} ± {error:.4f})" if chosen != best else ""
    lines = [
        "## How the defaults were chosen, on the validation sets", "",
        f"Means over the folds of each set and {SEEDS} seeds, learning rate {RATES[-1]}, at the "
        "best round of the averaged curve. `reg_lambda` is in rows of mean weight. In brackets "
        "the difference of NDCG@10 from the first line and, where there are folds, its standard "
        "error over them; the last column is the same over all validation queries.", "",
        *_variant_table(rows, [penalty_name(each) for each in PENALTIES]), "",
        f"Over all queries {best} has the best NDCG@10; the smallest penalty within one standard "
        f"error of it is {chosen}{distance}. The default of `BoostedRanker` is "
        f"{'the same' if default == chosen else default + ', which is another'}.", "",
        f"One change at a time from {chosen}:", "",
        *_variant_table(rows, [chosen, *(v for v in VARIANTS if _known(rows, v))]), "",
    ]  # fmt: skip
    return [*lines, _better_variants(rows, chosen)]


def _known(rows, model):
    return any(row["model"] == model for row in rows)


def _better_variants(rows, chosen):
    """Which variants are better than the penalty chosen by more than two standard errors."""
    found = {name: overall(rows, name, chosen) for name in VARIANTS if _known(rows, name)}
    if not found:
        return "No variant has been tried."
    better = [
        f"{name} ({mean:+.4f} ± {error:.4f})"
        for name, (mean, error) in found.items()
        if mean > 2 * error
    ]
    if better:
        return "Better than it by more than two standard errors: " + ", ".join(better) + "."
    return "None is better than it by more than two standard errors over all queries."


def _variant_table(rows, models):
    heads = [f"{name}: NDCG@10, MAP, pair error" for name in SETS]
    lines = ["| variant | " + " | ".join(heads) + " | all queries: NDCG@10 |",
             "|---|" + "---|" * (len(SETS) + 1)]  # fmt: skip
    for model in models:
        cells = [model]
        for name, parts in SETS.items():
            here = [row for row in rows if row["set"] == name]
            of = [row["valid"] for row in here if row["model"] == model]
            means = [np.mean([value[m] for value in of]) for m in METRICS] if of else []
            text = ", ".join(f"{mean:.4f}" for mean in means) + _difference(here, model, models[0])
            cells.append(text + (f" [{len(of)} folds]" if 0 < len(of) < len(parts) else ""))
        lines.append("| " + " | ".join([*cells, _difference(rows, model, models[0])]) + " |")
    return lines


def _difference(rows, model, base):
    queries, _ = differences(rows, model, base)
    if model == base or not queries.size:
        return ""
    mean, error = overall(rows, model, base)
    return f" ({mean:+.4f}{f' ± {error:.4f}' if queries.size > 1 else ''})"


def report():
    head = [
        "# How well boosted trees rank", "",
        f"{LEAVES} leaves, {ROUNDS} rounds, learning rates {RATES}, {ROWS:.0%} of the rows and "
        f"{FEATURES:.0%} of the features for a tree, everywhere; rate and rounds chosen on "
        "validation NDCG@10. Other parameters are each library's own. Differences are "
        f"`{OURS}` minus the model, over all test queries, with paired 95 % intervals by "
        "query; a star marks those that leave out 0. NDCG and MAP: positive is better for us; "
        "pair error: negative is.", "",
    ]  # fmt: skip
    lines = head + [line for name in SETS for line in table_of(name, *by_set(name))]
    lines += table_of("All three: every test query counts once", *together()) + search_table()
    write_page(__file__, "quality.md", "\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["search", "run", "report"])
    parser.add_argument("--models", default="", help="run: only models whose name contains this")
    parser.add_argument("--again", action="store_true", help="run: also those fitted before")
    given = parser.parse_args()
    if given.what == "run":
        run(given.models, given.again)
    else:
        {"search": search, "report": report}[given.what]()
