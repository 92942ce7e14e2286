"""How well do boosted trees rank? Ours and the peers', in one harness.

    python benchmarks/experiments/quality.py search     # variants of ours, validation only
    python benchmarks/experiments/quality.py run        # ours and the peers, with test sets
    python benchmarks/experiments/quality.py report     # tables from what has been run

Tuned models have the same folds, number of leaves, depth, rounds, learning rates, share of rows for
a tree and share of features for a split; the learning rate and the number of rounds are chosen on
the validation set by NDCG@10. Depth and features are limited in the way that all libraries have:
CatBoost draws features for every split and has a depth limit of 6 unless told otherwise. Models at
their defaults are fitted to the same training parts. Everything is fitted with several seeds, the
slow ones with fewer. Runs are kept as JSON lines, with the metrics of every test query, and not
repeated: `run` and `search` may be stopped and started again, and `report` needs neither the data
nor the libraries.
"""

import argparse
import base64
import json
import re
import sys
import time
import zlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from measure import about, write_page  # noqa: E402
from precede import BoostedRanker, Judgments, QBRank, RankWeight, SquaredHinge  # noqa: E402
from precede.inference import holm  # noqa: E402
from precede.metrics import Evaluator  # noqa: E402
from problems import lightgbm_rank, movielens, mq2008, ohsumed  # noqa: E402

RESULTS = HERE.parent / "results"
ROUNDS, EVERY, LEAVES, DEPTH, LEAST = 300, 10, 16, 6, 20
ROWS, FEATURES = 0.7, 0.5  # shares for a tree and for a split
RATES = (0.05, 0.1)
METRICS = ("ndcg@10", "map", "pair_error")
SETS = {
    "MQ2008": [(f"fold {fold}", lambda fold=fold: mq2008(fold)) for fold in range(1, 6)],
    "LightGBM sample": [("its split", lightgbm_rank)],
    "MovieLens": [(f"fold {fold}", lambda fold=fold: movielens(fold)) for fold in range(1, 6)],
    "OHSUMED": [(f"fold {fold}", lambda fold=fold: ohsumed(fold)) for fold in range(1, 6)],
}
RELEVANT = {"MovieLens": 3.0}  # four stars and more; elsewhere every grade above 0

SHAPE = {
    "n_estimators": ROUNDS,
    "num_leaves": LEAVES,
    "max_depth": DEPTH,
    "min_child_samples": LEAST,
    "subsample": ROWS,
    "max_features_by_split": FEATURES,
    "n_jobs": 1,
}
HALF = RankWeight(k=10, blend=0.5)
# What was tried for the defaults of BoostedRanker, one change at a time from trees of any depth
# whose features are drawn once, with the penalty that was the default then; weights by rank and
# losses of lists are among the models below. Drawing rows and features alone moves the validation
# NDCG@10 of MQ2008 by some 0.005, so each is fitted with several seeds and their curves are
# averaged before the best round is taken.
SEARCH_SEEDS = 3
SEARCHED = {"MovieLens": 1}  # its folds differ little; of the other sets all
BASE = "no change"
SEARCH_SHAPE = {
    "max_depth": -1,
    "max_features": FEATURES,
    "max_features_by_split": 1.0,
    "reg_lambda": 5.0,
}
BY_SPLIT = {"max_features": 1.0, "max_features_by_split": FEATURES}
VARIANTS = {
    BASE: {},
    f"depth {DEPTH}": {"max_depth": DEPTH},
    "features drawn for a split": BY_SPLIT,
    f"depth {DEPTH}, features drawn for a split": {"max_depth": DEPTH, **BY_SPLIT},
    **{f"reg_lambda {each:g}": {"reg_lambda": each} for each in (0.0, 1.0, 20.0, 80.0, 320.0)},
    **{f"{each} leaves": {"num_leaves": each} for each in (4, 8, 31)},
    **{f"min_child_samples {each}": {"min_child_samples": each} for each in (5, 50)},
    "all rows and features": {"subsample": 1.0, "max_features": 1.0},
    "subsample by query": {"subsample_by": "query"},
    "balance queries": {"balance": "queries"},
    "balance pairs": {"balance": "pairs"},
    "line search": {"line_search": True},
    "hessian bound": {"hessian": "bound", "line_search": True},
    "hessian uniform": {"hessian": "uniform", "line_search": True},
    "targets averaged": {"targets": "average", "line_search": True},
    "exponential": {"loss": "exponential"},
    "squared hinge": {"loss": "squared_hinge"},
    "squared hinge, gap": {"loss": SquaredHinge("gap")},
}


def by_query(data):
    X, y, qid = data
    order = np.argsort(qid, kind="stable")
    return np.ascontiguousarray(X[order]), y[order].astype(int), qid[order]


def sizes(qid):
    return np.unique(qid, return_counts=True)[1]


@cache
def parts_of(name, part):
    """Train, validation and test, sorted by query; None where the data are absent."""
    data = dict(SETS[name])[part]()
    return data and [by_query(each) for each in data]


# -- one function for each library: scores after every tenth round -------------------------------


def boosted(**options):
    def staged(train, others, rate, seed):
        X, y, qid = train
        shape = {**SHAPE, **options, "random_state": seed}
        model = BoostedRanker(learning_rate=rate, **shape).fit(X, y, qid=qid)
        return [list(model.staged_predict(X))[EVERY - 1 :: EVERY] for X in others]

    return staged


def qbrank(*, labels=False, **options):
    """The grades as pairs, or as pairs and as values too."""

    def staged(train, others, rate, seed):
        X, y, qid = train
        both = Judgments(grade=y.astype(float), qid=qid, label=y.astype(float) if labels else None)
        shape = {**SHAPE, **options, "random_state": seed}
        model = QBRank(learning_rate=rate, **shape).fit(X, both)
        return [list(model.staged_predict(X))[EVERY - 1 :: EVERY] for X in others]

    return staged


def lightgbm(objective):
    def staged(train, others, rate, seed):
        import lightgbm as library

        X, y, qid = train
        parameters = {
            "objective": objective, "learning_rate": rate, "num_leaves": LEAVES,
            "max_depth": DEPTH, "min_data_in_leaf": LEAST, "bagging_fraction": ROWS,
            "bagging_freq": 1, "feature_fraction_bynode": FEATURES, "verbosity": -1,
            "num_threads": 1, "seed": seed,
        }  # fmt: skip
        data = library.Dataset(X, label=y, group=sizes(qid), params={"verbosity": -1})
        model = library.train(parameters, data, ROUNDS)

        def part(X, first):
            return model.predict(X, start_iteration=first, num_iteration=EVERY, raw_score=True)

        return [summed(X, part) for X in others]

    return staged


def xgboost(objective):
    def staged(train, others, rate, seed):
        import xgboost as library

        X, y, qid = train
        parameters = {
            "objective": objective, "eta": rate, "max_leaves": LEAVES, "max_depth": DEPTH,
            "grow_policy": "lossguide", "tree_method": "hist", "subsample": ROWS,
            "colsample_bynode": FEATURES, "nthread": 1, "seed": seed,
        }  # fmt: skip
        data = library.DMatrix(X, label=y, qid=ordinals(qid))
        model = library.train(parameters, data, ROUNDS)

        def part(X, first):
            rounds = (first, first + EVERY)
            return model.predict(library.DMatrix(X), output_margin=True, iteration_range=rounds)

        return [summed(X, part) for X in others]

    return staged


def ordinals(qid):
    return np.unique(qid, return_inverse=True)[1]


def catboost(loss):
    def staged(train, others, rate, seed):
        import catboost as library

        X, y, qid = train
        model = library.CatBoost({
            "loss_function": loss, "learning_rate": rate, "iterations": ROUNDS,
            "grow_policy": "Lossguide", "max_leaves": LEAVES, "depth": DEPTH,
            "min_data_in_leaf": LEAST, "bootstrap_type": "Bernoulli", "subsample": ROWS,
            "rsm": FEATURES, "verbose": False, "thread_count": 1, "random_seed": seed,
            "allow_writing_files": False,
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


OURS = "precede BoostedRanker"
BAGGED, BAGGED_RMSE = f"{OURS}, 5 bags", f"{OURS}, query_rmse, 5 bags"
CHOICES = {  # among which "chosen on validation" chooses
    OURS: boosted(),
    f"{OURS}, exponential": boosted(loss="exponential"),
    f"{OURS}, ndcg@10": boosted(rank_weight="ndcg@10"),
    f"{OURS}, half ndcg@10, half plain": boosted(rank_weight=HALF),
    f"{OURS}, softmax": boosted(loss="softmax"),
    f"{OURS}, xendcg": boosted(loss="xendcg"),
    f"{OURS}, query_rmse": boosted(loss="query_rmse"),
}
OTHERS = {
    BAGGED: boosted(bags=5),
    BAGGED_RMSE: boosted(loss="query_rmse", bags=5),
    f"{OURS}, exponential, price 2": boosted(loss="exponential", price=2),
    "precede QBRank": qbrank(),
    "precede QBRank, targets summed": qbrank(targets="sum"),
    "precede QBRank, labels too": qbrank(labels=True, targets="sum"),
}
PEERS = {
    "LightGBM lambdarank": lightgbm("lambdarank"),
    "LightGBM rank_xendcg": lightgbm("rank_xendcg"),
    "XGBoost rank:ndcg": xgboost("rank:ndcg"),
    "XGBoost rank:pairwise": xgboost("rank:pairwise"),
    "CatBoost QueryRMSE": catboost("QueryRMSE"),
    "CatBoost QuerySoftMax": catboost("QuerySoftMax"),
    "CatBoost YetiRank": catboost("YetiRank"),
    "CatBoost PairLogit": catboost("PairLogit"),
}
TUNED = {**CHOICES, **OTHERS, **PEERS}


# -- everything at its defaults; threads and messages apart --------------------------------------


def plain_boosted(train, seed, **options):
    X, y, qid = train
    model = BoostedRanker(**options, random_state=seed, n_jobs=1).fit(X, y, qid=qid)
    chosen = {"rounds": model.n_estimators_}
    if model.selection_ is not None:
        chosen["num_leaves"] = model.selection_.parameters["num_leaves"]
    return model, chosen


def plain_lightgbm(train, seed):
    from lightgbm import LGBMRanker

    X, y, qid = train
    model = LGBMRanker(random_state=seed, n_jobs=1, verbose=-1).fit(X, y, group=sizes(qid))
    return model, {"rounds": model.n_estimators}


def plain_xgboost(train, seed):
    from xgboost import XGBRanker

    X, y, qid = train
    model = XGBRanker(random_state=seed, n_jobs=1).fit(X, y, qid=ordinals(qid))
    return model, {"rounds": model.get_booster().num_boosted_rounds()}


def plain_catboost(train, seed):
    from catboost import CatBoostRanker

    X, y, qid = train
    quiet = {"thread_count": 1, "verbose": False, "allow_writing_files": False}
    model = CatBoostRanker(random_seed=seed, **quiet).fit(X, y, group_id=qid)
    return model, {"rounds": model.tree_count_}


AUTO = {"n_estimators": "auto", "num_leaves": "auto"}
PLAIN, BY_AUTO = "precede BoostedRanker()", "precede BoostedRanker, auto"
DEFAULTS = {
    PLAIN: plain_boosted,
    BY_AUTO: lambda train, seed: plain_boosted(train, seed, **AUTO),
    "LightGBM LGBMRanker()": plain_lightgbm,
    "XGBoost XGBRanker()": plain_xgboost,
    "CatBoost CatBoostRanker()": plain_catboost,
}  # fmt: skip
# How many seeds: nothing is drawn by some at their defaults, and others are slow on MovieLens.
SEEDS = 5
DETERMINISTIC = {PLAIN, "LightGBM LGBMRanker()", "XGBoost XGBRanker()"}
SLOW = {"CatBoost CatBoostRanker()"}
LAST = {
    ("MovieLens", model) for model in (BY_AUTO, "CatBoost CatBoostRanker()", "CatBoost PairLogit")
}


# -- running -------------------------------------------------------------------------------------


def evaluator(name, data):
    _, y, qid = data
    return Evaluator(y, qid, metrics=METRICS, relevant=RELEVANT.get(name, 1.0))


def done(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def keep(path, **row):
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def best_of(name, staged, parts, seed):
    """The metrics at the best NDCG@10 on validation, what was chosen by it, and test scores."""
    train, valid, test = parts
    judge = evaluator(name, valid)
    best = None
    for rate in RATES:
        on_valid, on_test = staged(train, [valid[0], test[0]], rate, seed)
        means = [judge.evaluate(scores).mean for scores in on_valid]
        chosen = int(np.argmax([mean["ndcg@10"] for mean in means]))
        if best is None or means[chosen]["ndcg@10"] > best[0]["ndcg@10"]:
            best = means[chosen], {"rate": rate, "rounds": EVERY * (chosen + 1)}, on_test[chosen]
    return best


def as_it_is(name, fit, parts, seed):
    """The same for a model that chooses nothing on the validation set."""
    train, valid, test = parts
    model, chosen = fit(train, seed)
    mean = evaluator(name, valid).evaluate(model.predict(valid[0])).mean
    return mean, chosen, model.predict(test[0])


NEVER = 2**16 - 1  # stands for NaN


def packed(values):
    """Metrics of all queries, from 0 to 1 in steps of 1/65534, as text."""
    steps = np.where(np.isnan(values), NEVER, np.round(np.nan_to_num(values) * (NEVER - 1)))
    return base64.b64encode(zlib.compress(steps.astype("<u2").tobytes(), 9)).decode()


def unpacked(text):
    steps = np.frombuffer(zlib.decompress(base64.b64decode(text)), "<u2").astype(float)
    return np.where(steps == NEVER, np.nan, steps / (NEVER - 1))


def seeds_of(model, name):
    return 1 if model in DETERMINISTIC or (model in SLOW and name == "MovieLens") else SEEDS


def jobs():
    """(seed, set, model, part), the first seed of everything first."""
    models = [*TUNED, *DEFAULTS]
    found = [
        (seed, name, model, part)
        for seed in range(SEEDS) for name, parts in SETS.items()
        for model in models if seed < seeds_of(model, name)
        for part, _ in parts
    ]  # fmt: skip
    return sorted(found, key=lambda job: 0.5 if job[1:3] in LAST else job[0])


def run(models=("",), sets="", seeds=SEEDS, again=False):
    """Fit models in whose name one of `models` is found; those fitted before only if asked to."""
    path = RESULTS / "quality.jsonl"
    wanted = [
        job for job in jobs()
        if any(re.search(each, job[2]) for each in models) and sets in job[1] and job[0] < seeds
    ]  # fmt: skip
    if not wanted:
        raise SystemExit(f"no model matches {models}; there are {[*TUNED, *DEFAULTS]}")
    if again:
        fresh = set(wanted)
        others = [row for row in done(path) if key_of(row) not in fresh]
        path.unlink(missing_ok=True)
        for row in others:
            keep(path, **row)
    seen = {key_of(row) for row in done(path)}
    absent = {name for _, name, _, part in wanted if parts_of(name, part) is None}
    if absent:
        print(f"no data, and hence nothing to run, for {', '.join(sorted(absent))}")
    for job in wanted:
        seed, name, model, part = job
        if job in seen or name in absent:
            continue
        parts = parts_of(name, part)
        began = time.process_time()
        if model in TUNED:
            valid, chosen, scores = best_of(name, TUNED[model], parts, seed)
        else:
            valid, chosen, scores = as_it_is(name, DEFAULTS[model], parts, seed)
        found = evaluator(name, parts[2]).evaluate(scores)
        seconds = round(time.process_time() - began, 1)
        keep(path, set=name, part=part, model=model, seed=seed, **chosen, valid=valid,
             test=found.mean, cpu_seconds=seconds,
             by_query={metric: packed(found.per_query[metric]) for metric in METRICS})  # fmt: skip


def key_of(row):
    return row["seed"], row["set"], row["model"], row["part"]


def search():
    """Validation scores of every variant."""
    path = RESULTS / "quality_search.jsonl"
    for name, parts in SETS.items():
        for model, options in VARIANTS.items():
            for part, _ in parts[: SEARCHED.get(name)]:
                seen = {(row["set"], row["part"], row["model"]) for row in done(path)}
                if (name, part, model) in seen or parts_of(name, part) is None:
                    continue
                train, valid, _ = parts_of(name, part)
                rounds, mean = averaged(name, options, train, valid)
                keep(path, set=name, part=part, model=model, queries=len(sizes(valid[2])),
                     rounds=rounds, valid=mean)  # fmt: skip


def averaged(name, options, train, valid):
    """Best round of the NDCG@10 curve averaged over seeds, and the mean metrics there."""
    judge = evaluator(name, valid)
    curves = []
    for seed in range(SEARCH_SEEDS):
        [scores] = boosted(**SEARCH_SHAPE | options)(train, [valid[0]], RATES[-1], seed)
        means = [judge.evaluate(each).mean for each in scores]
        curves.append([[mean[metric] for metric in METRICS] for mean in means])
    curve = np.mean(curves, axis=0)
    best = int(curve[:, 0].argmax())
    return EVERY * (best + 1), dict(zip(METRICS, curve[best].tolist(), strict=True))


# -- tables: what was measured, differences by query, verdicts ------------------------------------

BEST_OURS, BEST_PEER = "precede, chosen on validation", "best peer, chosen on validation"
NAMES = {"ndcg@10": "NDCG@10", "map": "MAP", "pair_error": "pair error"}
COUNTS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight")


class Part(NamedTuple):
    """A model on one part of a set: means over its seeds."""

    valid: float  # NDCG@10
    test: dict  # values of the test queries, by metric
    chosen: str = ""


class Measured(NamedTuple):
    """A model on a whole set: how many seeds have every part, CPU seconds of one, its parts."""

    seeds: int | None
    seconds: float | None
    parts: dict

    def values(self, metric):
        return np.concatenate([part.test[metric] for part in self.parts.values()])


def measured(rows, name, seeds=SEEDS):
    """Every model that has run on all parts of a set, and the two choices on validation."""
    runs = {key_of(row): row for row in rows if row["set"] == name}
    found = {}
    for model in [*TUNED, *DEFAULTS]:
        of_seed = [
            [runs.get((seed, name, model, part)) for part, _ in SETS[name]]
            for seed in range(seeds)
        ]  # fmt: skip
        whole = [each for each in of_seed if all(each)]
        if whole:
            seconds = float(np.mean([sum(row["cpu_seconds"] for row in each) for each in whole]))
            of_part = zip(*whole, strict=True)
            parts = {each[0]["part"]: part_of(each) for each in of_part}
            found[model] = Measured(len(whole), seconds, parts)
    return found | {
        best: chosen_of(found, pool)
        for best, pool in ((BEST_OURS, CHOICES), (BEST_PEER, PEERS))
        if any(model in found for model in pool)
    }


def part_of(rows):
    """One part of a set, from its runs with every seed."""
    test = {m: np.mean([unpacked(row["by_query"][m]) for row in rows], axis=0) for m in METRICS}
    return Part(float(np.mean([row["valid"]["ndcg@10"] for row in rows])), test)


def chosen_of(found, pool):
    """In every part the model of the pool with the best NDCG@10 on the validation queries."""
    models = [model for model in pool if model in found]
    parts = {}
    for part in found[models[0]].parts:
        best = max(models, key=lambda model: found[model].parts[part].valid)
        parts[part] = found[best].parts[part]._replace(chosen=best)
    return Measured(None, None, parts)


class Gap(NamedTuple):
    """A model's mean, and by how much the base is above it, with standard error."""

    value: float
    mean: float
    error: float
    degrees: float

    def interval(self):
        half = float(stdtrit(self.degrees, 0.975)) * self.error
        return self.mean - half, self.mean + half

    @property
    def p_value(self):
        return float(2 * stdtr(self.degrees, -abs(self.mean) / self.error)) if self.error else 1.0

    @property
    def side(self):
        """1 or -1 where the interval leaves out 0, else 0."""
        low, high = self.interval()
        return int(low > 0) - int(high < 0)


def gap(sets, base, model, metric):
    """Over all test queries of the sets, each counted once."""
    own, other = (
        np.concatenate([found[each].values(metric) for found in sets]) for each in (base, model)
    )
    apart = (own - other)[~np.isnan(own - other)]
    error = float(apart.std(ddof=1) / np.sqrt(apart.size))
    return Gap(float(np.nanmean(other)), float(apart.mean()), error, apart.size - 1)


def mean_gap(sets, base, model, metric):
    """Over the sets, each counted once; degrees of freedom by Welch and Satterthwaite."""
    gaps = [gap([found], base, model, metric) for found in sets]
    squares = np.array([each.error**2 for each in gaps])
    parts = (squares**2 / [each.degrees for each in gaps]).sum()
    degrees = float(squares.sum() ** 2 / parts) if parts else np.inf
    error = float(np.sqrt(squares.sum()) / len(gaps))
    means = np.mean([[each.value, each.mean] for each in gaps], axis=0)
    return Gap(float(means[0]), float(means[1]), error, degrees)


def table_of(title, sets, models, base, compare=gap):
    """Metrics of every model that has run on all the sets, and differences from the base."""
    models = [model for model in models if all(model in found for found in sets)]
    if base not in models:
        return []
    single = len(sets) == 1
    heads = ["model", "seeds", *(["CPU s"] if single else [])]
    heads += [word for metric in METRICS for word in (NAMES[metric], "difference")]
    lines = [f"## {title}", "", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for model in models:
        runs = [found[model] for found in sets]
        cells = [model, ", ".join(str(run.seeds or "") for run in runs) if runs[0].seeds else ""]
        if single:
            cells.append(f"{runs[0].seconds:.0f}" if runs[0].seconds is not None else "")
        for metric in METRICS:
            found = compare(sets, base, model, metric)
            cells += [f"{found.value:.4f}", "" if model == base else told(found)]
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def told(found):
    low, high = found.interval()
    return f"{found.mean:+.4f} [{low:+.4f}, {high:+.4f}]{' *' if found.side else ''}"


def choices(name, found, best):
    """Which models were chosen on the validation parts of a set."""
    if best not in found:
        return []
    names = [part.chosen for part in found[best].parts.values()]
    counted = ", ".join(f"{each} ({names.count(each)})" for each in dict.fromkeys(names))
    return [f"* {name}, {best}: {counted}"]


def advantage(metric):
    return -1 if metric == "pair_error" else 1


def verdict(by_name, base, rivals):
    """Is the base ahead of every rival in the mean over the sets, and behind none on any set?"""
    sets = list(by_name.values())
    here = [model for model in rivals if all(model in found for found in sets)]
    if not here or any(base not in found for found in sets):
        return []
    behind = {
        metric: [m for m in here if advantage(metric) * mean_gap(sets, base, m, metric).mean <= 0]
        for metric in METRICS
    }
    wins, losses, corrected, count = by_set(by_name, base, rivals)
    met = not losses and not any(behind.values())
    absent = [model for model in rivals if model not in here]
    return [
        f"`{base}` beside {rivals_in_words(here)}: in the mean over the sets, "
        f"{'; '.join(standing(metric, here, behind[metric]) for metric in METRICS)}. "
        f"Of {count} differences by set and metric, {wins} are significant in its favor and "
        f"{len(losses)} against it{': ' + '; '.join(losses) if losses else ''} (95 % each; after "
        f"Holm's correction {corrected[0]} and {corrected[1]}). Ahead in every mean and "
        f"significantly behind nowhere: {'yes' if met else 'no'}."
        + (f" Not run on every set, and so in no mean: {', '.join(absent)}." if absent else ""),
        "",
    ]  # fmt: skip


def rivals_in_words(rivals):
    return f"`{rivals[0]}`" if len(rivals) == 1 else f"{COUNTS[len(rivals)]} peers"


def standing(metric, rivals, behind):
    """Of how many rivals the base is ahead in a metric, and of which it is not."""
    ahead = len(rivals) - len(behind)
    if len(rivals) == 1:
        return f"{NAMES[metric]} {'ahead' if ahead else 'not ahead'}"
    if not behind or not ahead:
        return f"{NAMES[metric]} ahead of {'all' if ahead else 'none'}"
    return f"{NAMES[metric]} ahead of {COUNTS[ahead]} (not of {', '.join(behind)})"


def by_set(by_name, base, rivals):
    """Significant differences by set and metric: for the base, against it, and after Holm."""
    keys = [
        (name, m, metric)
        for name, found in by_name.items() for m in rivals if m in found
        for metric in METRICS
    ]  # fmt: skip
    gaps = [gap([by_name[name]], base, m, metric) for name, m, metric in keys]
    signs = [advantage(metric) * each.side for (*_, metric), each in zip(keys, gaps, strict=True)]
    losses = [
        f"{m} in {NAMES[metric]} on {name}"
        for (name, m, metric), sign in zip(keys, signs, strict=True)
        if sign < 0
    ]
    sure = holm([each.p_value for each in gaps]) <= 0.05
    corrected = [int(sum(sure[np.array(signs) == side])) for side in (1, -1)]
    return signs.count(1), losses, corrected, len(keys)


def tuned_tables(rows, by_name):
    sets = list(by_name.values())
    models = [*CHOICES, BEST_OURS, *OTHERS, *PEERS, BEST_PEER]
    lines = ["# How well boosted trees rank", "", *about_tuned(rows, by_name), ""]
    lines += verdict(by_name, OURS, PEERS) + verdict(by_name, BEST_OURS, PEERS)
    lines += verdict(by_name, BEST_OURS, [BEST_PEER])
    lines += verdict(by_name, BAGGED, PEERS) + verdict(by_name, BAGGED_RMSE, PEERS)
    for name, found in by_name.items():
        lines += table_of(name, [found], models, OURS)
    lines += table_of("Mean over the sets", sets, models, OURS, mean_gap)
    lines += table_of("All test queries, each counted once", sets, models, OURS)
    lines += ["What was chosen on validation, and in how many parts:", ""]
    for name, found in by_name.items():
        lines += choices(name, found, BEST_OURS) + choices(name, found, BEST_PEER)
    return [*lines, "", *closing_note(sets)]


def closing_note(sets):
    """How far ours are from the peer that is best in the mean over the sets, and what was tried."""
    peers, ours = (
        [model for model in models if all(model in found for found in sets)]
        for models in (PEERS, (OURS, BEST_OURS, BAGGED, BAGGED_RMSE))
    )
    if not peers or not ours:
        return []
    lines = [
        "## How far from the target", "",
        "Differences in the mean over the sets from the peer that is best there in the metric.", "",
        f"| model | {' | '.join(NAMES[metric] for metric in METRICS)} |",
        "|---" * (len(METRICS) + 1) + "|",
    ]  # fmt: skip
    for model in ours:
        cells = []
        for metric in METRICS:
            gaps = {peer: mean_gap(sets, model, peer, metric) for peer in peers}
            best = max(peers, key=lambda peer: advantage(metric) * gaps[peer].value)
            cells.append(f"{told(gaps[best])} ({best})")
        lines.append(f"| {' | '.join([model, *cells])} |")
    return [
        *lines, "",
        "What was tried to close the gap: the losses and weights by rank in the tables; for all "
        "libraries the limit of depth and the drawing of features by split that CatBoost has "
        "(their part is in the table of the search); averages of five models fitted to bootstrap "
        f"samples of the queries (`{BAGGED}`, `{BAGGED_RMSE}`), which the peers were not given. "
        f"Not tried: a number of leaves other than {LEAVES} for all, and what CatBoost alone does, "
        "such as noise on the gains of splits.", "",
    ]  # fmt: skip


def seeds_in_words(by_name, models):
    """How many seeds the models have on each set."""
    sentences = []
    for name, found in by_name.items():
        seeds = {model: found[model].seeds for model in models if model in found}
        counts = []
        for count in sorted(set(seeds.values()), reverse=True):
            of = [model for model in seeds if seeds[model] == count]
            most = len(of) > len(seeds) / 2
            counts.append(f"{count} ({'the others' if most else ', '.join(of)})")
        if len(counts) == 1:
            counts = [f"{max(seeds.values())} (all)"]
        sentences.append(f"{name} {', '.join(counts)}")
    return f"Seeds: {'; '.join(sentences)}."


def unfinished(rows, by_name, models):
    """Models without a seed that has all parts of a set, and how far they are."""
    lines = []
    for name, found in by_name.items():
        for model in models:
            if model not in found:
                runs = [r["cpu_seconds"] for r in rows if (r["set"], r["model"]) == (name, model)]
                took = f", {np.mean(runs):.0f} CPU seconds each" if runs else ""
                lines.append(f"{model} on {name} ({len(runs)} of {len(SETS[name])} parts{took})")
    return f" Not in a table, since not all parts have run: {'; '.join(lines)}." if lines else ""


def about_tuned(rows, by_name):
    versions = about(1)
    installed = ", ".join(
        f"{name} {versions[name]}" for name in ("lightgbm", "xgboost", "catboost")
    )
    return [
        f"At most {LEAVES} leaves and depth {DEPTH}, {ROUNDS} rounds, learning rates {RATES}, "
        f"{ROWS:.0%} of the rows for a tree and {FEATURES:.0%} of the features for a split, "
        "everywhere (CatBoost has no other way to draw features); rate and rounds chosen on "
        f"validation NDCG@10. Other parameters are each library's own ({installed}). Differences "
        "are the first row minus the model, query by query, with paired 95 % intervals; a star "
        "marks those that leave out 0. NDCG and MAP: positive is better for us; pair error: "
        "negative is. Items of equal scores count as ordered in the worst way. CPU s: processor "
        "seconds of one seed with all folds, both learning rates and the choice of the round, one "
        "thread, on a machine shared with other work.", "",
        "Metrics of a query are means over seeds; slow models have fewer of them. The intervals "
        "hold the chance of the queries, and that of the seeds as far as queries differ in it. "
        + seeds_in_words(by_name, TUNED) + unfinished(rows, by_name, TUNED), "",
        f"`{BEST_OURS}` takes in every fold the variant of `BoostedRanker` with a linear price "
        "and one bag (the rows above it) that has the best validation NDCG@10; validation queries "
        "of one fold are test queries of another, so nothing is chosen for a whole set. "
        f"`{BEST_PEER}` is the same choice among the objectives of the peers that are in the "
        "table. Compare the two with each other; a single peer has had no such choice.",
    ]  # fmt: skip


def default_tables(rows, by_name):
    sets = list(by_name.values())
    lines = [
        "# Everything at its defaults", "",
        "Fitted to the same training parts, without the validation parts. "
        f'`{BY_AUTO}` is `BoostedRanker(n_estimators="auto", num_leaves="auto")`, which holds out '
        "training queries of its own. Models in which nothing is drawn have one seed. "
        + seeds_in_words(by_name, DEFAULTS) + unfinished(rows, by_name, DEFAULTS), "",
    ]  # fmt: skip
    rivals = [model for model in DEFAULTS if not model.startswith("precede")]
    for base in (model for model in DEFAULTS if model not in rivals):
        lines += verdict(by_name, base, rivals)
    for name, found in by_name.items():
        lines += table_of(f"Defaults: {name}", [found], DEFAULTS, PLAIN)
    return lines + table_of("Defaults: mean over the sets", sets, DEFAULTS, PLAIN, mean_gap)


# -- tables: the search ---------------------------------------------------------------------------


def differences(rows, model, metric="ndcg@10"):
    """Validation queries of each part that has both, and by how much it is better than the base."""
    own, other = ({(r["set"], r["part"]): r for r in rows if r["model"] == m}
                  for m in (model, BASE))  # fmt: skip
    both = [key for key in own if key in other]
    queries = np.array([own[key]["queries"] for key in both], float)
    gaps = np.array([own[key]["valid"][metric] - other[key]["valid"][metric] for key in both])
    return queries, gaps


def overall(rows, model, metric="ndcg@10"):
    """Mean difference over all validation queries, and its standard error over the parts."""
    queries, gaps = differences(rows, model, metric)
    mean = float(np.average(gaps, weights=queries))
    share = queries / queries.sum()
    spread = float((share**2 * (gaps - mean) ** 2).sum())
    return mean, (spread * len(gaps) / max(len(gaps) - 1, 1)) ** 0.5


def search_table():
    rows = done(RESULTS / "quality_search.jsonl")
    known = [name for name in VARIANTS if any(row["model"] == name for row in rows)]
    if BASE not in known:
        return []
    return [
        "# Other values of the parameters, on the validation sets", "",
        f"One change at a time from the leaves, rounds and rows above, trees of any depth, "
        f"{FEATURES:.0%} of the features drawn once for a tree and the defaults otherwise "
        f"(but `reg_lambda` {SEARCH_SHAPE['reg_lambda']:g}, in rows of mean weight). Means over "
        f"the folds of each set and {SEARCH_SEEDS} seeds, learning rate {RATES[-1]}, at the best "
        "round of the mean curve. In brackets the difference of NDCG@10 from the first line and, "
        "where there are folds, its standard error over them; the last column is the same over all "
        "validation queries.", "",
        *_variant_table(rows, known), "", _far_variants(rows, known[1:]),
    ]  # fmt: skip


def _far_variants(rows, variants):
    """Which variants differ from the base by more than two standard errors."""
    lines = []
    for word, sign in (("better", 1), ("worse", -1)):
        found = {name: overall(rows, name) for name in variants}
        far = [f"{name} ({mean:+.4f} ± {error:.4f})" for name, (mean, error) in found.items()
               if sign * mean > 2 * error]  # fmt: skip
        lines.append(f"{word}, {', '.join(far) or 'none'}")
    return (
        f"By more than two standard errors over all queries, of {len(variants)} variants: "
        f"{'; '.join(lines)}. Training parts of the folds overlap, so these errors are rough."
    )


def _variant_table(rows, models):
    names = {row["set"] for row in rows}
    sets = {name: parts for name, parts in SETS.items() if name in names}
    heads = [f"{name}: NDCG@10, MAP, pair error" for name in sets]
    lines = ["| variant | " + " | ".join(heads) + " | all queries: NDCG@10 |",
             "|---|" + "---|" * (len(sets) + 1)]  # fmt: skip
    for model in models:
        cells = [model]
        for name, parts in sets.items():
            here = [row for row in rows if row["set"] == name]
            of = [row["valid"] for row in here if row["model"] == model]
            means = [np.mean([value[m] for value in of]) for m in METRICS] if of else []
            text = ", ".join(f"{mean:.4f}" for mean in means) + _difference(here, model)
            cells.append(text + (f" [{len(of)} folds]" if 0 < len(of) < len(parts) else ""))
        lines.append("| " + " | ".join([*cells, _difference(rows, model)]) + " |")
    return lines


def _difference(rows, model):
    queries, _ = differences(rows, model)
    if model == BASE or not queries.size:
        return ""
    mean, error = overall(rows, model)
    return f" ({mean:+.4f}{f' ± {error:.4f}' if queries.size > 1 else ''})"


def report():
    rows = done(RESULTS / "quality.jsonl")
    by_name = {name: found for name in SETS if (found := measured(rows, name))}
    lines = tuned_tables(rows, by_name) + default_tables(rows, by_name) + search_table()
    write_page(__file__, "quality.md", "\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["search", "run", "report"])
    parser.add_argument("--models", nargs="+", default=[""],
                        help="run: only models whose name matches one of these")  # fmt: skip
    parser.add_argument("--sets", default="", help="run: only sets whose name contains this")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="run: at most so many seeds")
    parser.add_argument("--again", action="store_true", help="run: also those fitted before")
    given = parser.parse_args()
    if given.what == "run":
        run(given.models, given.sets, given.seeds, given.again)
    else:
        {"search": search, "report": report}[given.what]()
