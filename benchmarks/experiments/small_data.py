"""How many queries does a good ranking take? Ours and the peers', on subsets of queries.

    python benchmarks/experiments/small_data.py search    # variants of ours, test parts unread
    python benchmarks/experiments/small_data.py run       # ours and the peers, with test parts
    python benchmarks/experiments/small_data.py report    # tables and figure of what has been run

Models, shape and the choice of rate and rounds of `run` are those of `quality.py`. From the
training part of every fold 30, 60, 120 or 250 queries are drawn, and a third as many for
validation, anew with every draw; the test part is whole. `search` fits `BoostedRanker` with one
change at a time from its defaults to queries drawn from the training and validation parts, and
judges it on the others of these. All models have the same draws. Runs are kept as JSON lines, and
`search` and `run` may be stopped and started again.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from scipy.special import stdtrit

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from quality import (  # noqa: E402
    METRICS,
    OURS,
    PEERS,
    RESULTS,
    SETS,
    TUNED,
    best_of,
    done,
    evaluator,
    keep,
    key_of,
    measured,
    packed,
    parts_of,
    table_of,
    verdict,
)

from measure import write_page  # noqa: E402
from precede import BoostedRanker, RankWeight  # noqa: E402

FIGURE = HERE.parents[1] / "docs" / "figures" / "small_data.svg"
COUNTS = {
    "OHSUMED": (30, 60),
    "MQ2008": (30, 60, 120, 250),
    "LightGBM sample": (30, 60, 120),
    "MovieLens": (30, 60, 120, 250),
}
DRAWS = 5
MODELS = [
    OURS,
    f"{OURS}, query_rmse",
    "LightGBM lambdarank",
    "XGBoost rank:ndcg",
    "CatBoost QueryRMSE",
    "CatBoost YetiRank",
]

# What is tried for the defaults of BoostedRanker, on how many queries, in how many draws.
SEARCHED = {
    "OHSUMED": (30, 60),
    "MQ2008": (60, 350),
    "LightGBM sample": (60, 150),
    "MovieLens": (60, 550),
}
SEARCH_DRAWS, MOST_HELD = 5, 350
BASE = "no change"
DRAWN = {"subsample": 0.7, "max_features_by_split": 0.5}
VARIANTS = {
    BASE: {},
    **{f"{each} leaves": {"num_leaves": each} for each in (4, 6, 16, 31)},
    **{f"reg_lambda {each}": {"reg_lambda": each} for each in (5, 20, 80)},
    "31 leaves, reg_lambda 5": {"num_leaves": 31, "reg_lambda": 5},
    "min_child_samples 40": {"min_child_samples": 40},
    "100 rounds": {"n_estimators": 100},
    "half of the features by split": {"max_features_by_split": 0.5},
    "70% of the rows, half of the features by split": DRAWN,
    **{f"rank_weight {each}": {"rank_weight": each}
       for each in ("gap", "grade_gap", "ndcg", "ndcg@10")},
    "rank_weight ndcg without a floor": {"rank_weight": RankWeight()},
    **{f"loss {each}": {"loss": each} for each in ("query_rmse", "xendcg", "exponential")},
    "5 bags": {"bags": 5},
}  # fmt: skip


# -- running -------------------------------------------------------------------------------------


def search():
    path = RESULTS / "small_data_search.jsonl"
    seen = {(row["set"], row["queries"], row["draw"], row["model"]) for row in done(path)}
    for draw in range(SEARCH_DRAWS):
        for name, counts in SEARCHED.items():
            for count in counts:
                todo = [m for m in VARIANTS if (name, count, draw, m) not in seen]
                data = learnable(name, draw) if todo else None
                for model in todo if data else []:
                    (X, y, qid), held = split(data, count, draw)
                    fit = BoostedRanker(**VARIANTS[model], random_state=draw, n_jobs=1)
                    scores = fit.fit(X, y, qid=qid).predict(held[0])
                    keep(path, set=name, queries=count, draw=draw, model=model,
                         mean=evaluator(name, held).evaluate(scores).mean)  # fmt: skip


def learnable(name, draw):
    """Training and validation parts of a fold, another with every draw; None if absent."""
    folds = [part for part, _ in SETS[name]]
    parts = parts_of(name, folds[draw % len(folds)])
    return parts and tuple(np.concatenate(pair) for pair in zip(*parts[:2], strict=True))


def split(data, count, seed):
    """Rows of `count` queries that have a pair, and of others to judge on."""
    X, y, qid = data
    drawn = np.random.default_rng([seed, count]).permutation(queries_with_pairs(y, qid))
    rows = [np.isin(qid, some) for some in (drawn[:count], drawn[count : count + MOST_HELD])]
    return [(X[each], y[each], qid[each]) for each in rows]


def queries_with_pairs(y, qid):
    order = np.argsort(qid, kind="stable")
    queries, first = np.unique(qid[order], return_index=True)
    grades = y[order]
    return queries[np.minimum.reduceat(grades, first) < np.maximum.reduceat(grades, first)]


def run():
    path = RESULTS / "small_data.jsonl"
    seen = {(row["queries"], *key_of(row)) for row in done(path)}
    for draw in range(DRAWS):
        for name, counts in COUNTS.items():
            for count in counts:
                for part, _ in SETS[name]:
                    if (whole := parts_of(name, part)) is None:
                        continue
                    parts = drawn(whole, count, draw)
                    for model in MODELS:
                        if (count, draw, name, model, part) not in seen:
                            keep(path, **fitted(name, count, part, model, draw, parts))


def fitted(name, count, part, model, draw, parts):
    """What is kept of a model: its choice, and the metrics of every test query."""
    began = time.process_time()
    valid, chosen, scores = best_of(name, TUNED[model], parts, draw)
    found = evaluator(name, parts[2]).evaluate(scores)
    by_query = {metric: packed(found.per_query[metric]) for metric in METRICS}
    return dict(
        set=name, queries=count, part=part, model=model, seed=draw, **chosen, valid=valid,
        test=found.mean, cpu_seconds=round(time.process_time() - began, 1), by_query=by_query,
    )  # fmt: skip


def drawn(parts, count, seed):
    """Train with `count` queries, validation with a third as many, the whole test part."""
    train, valid, test = parts
    generator = np.random.default_rng([seed, count])
    return some_queries(train, count, generator), some_queries(valid, count // 3, generator), test


def some_queries(data, count, generator):
    """Rows of `count` queries, drawn from those that have a pair."""
    X, y, qid = data
    rows = np.isin(qid, generator.permutation(queries_with_pairs(y, qid))[:count])
    return X[rows], y[rows], qid[rows]


# -- tables and figure -----------------------------------------------------------------------------


def report():
    rows = done(RESULTS / "small_data.jsonl")
    by_size = {
        f"{name}, {count} queries": found
        for name, counts in COUNTS.items() for count in counts
        if (found := of_size(rows, name, count))
    }  # fmt: skip
    draw_figure(rows)
    lines = [
        "# How many queries does a good ranking take?", "",
        "Shape, rates and rounds as in [quality](quality.md), chosen on a third as many validation "
        f"queries; {DRAWS} draws of the training and validation queries in every fold, all test "
        "queries. Values of a test query are means over the draws; differences are the first row "
        "minus the model, with paired 95 % intervals over the queries, which hold the draws only "
        "as far as queries differ in them.", "",
        f"![NDCG@10 against the number of training queries](../../docs/figures/{FIGURE.name})", "",
        "Bands are 95 % intervals over the draws.", "",
        *verdict(by_size, OURS, [model for model in MODELS if model in PEERS]),
    ]  # fmt: skip
    for size, found in by_size.items():
        lines += table_of(size, [found], MODELS, OURS)
    lines += search_table(done(RESULTS / "small_data_search.jsonl"))
    write_page(__file__, "small_data.md", "\n".join(lines))
    print("\n".join(lines))


def search_table(rows):
    """Differences of every variant from the defaults, each set and size counted once."""
    if not rows:
        return []
    lines = [
        "## Other values of the parameters", "",
        "`BoostedRanker` with one change from its defaults, on queries of the training and "
        f"validation parts; {SEARCH_DRAWS} draws of each number of queries: "
        + "; ".join(f"{name} {', '.join(map(str, each))}" for name, each in SEARCHED.items())
        + ". Differences from the first line in the mean over sets and numbers of queries, with "
        "standard errors over the draws.", "",
        f"| variant | {' | '.join(METRICS)} |", "|---" * (1 + len(METRICS)) + "|",
    ]  # fmt: skip
    for model in VARIANTS:
        cells = [differs(rows, model, metric) for metric in METRICS]
        lines += [f"| {' | '.join([model, *cells])} |"] if all(cells) else []
    return [*lines, ""]


def differs(rows, model, metric):
    """Mean difference of a variant from the base and its error; empty where it has not run."""
    own, base = (
        {(r["set"], r["queries"], r["draw"]): r["mean"][metric] for r in rows if r["model"] == m}
        for m in (model, BASE)
    )
    means, squares = [], []
    for name, counts in SEARCHED.items():
        for count in counts:
            keys = [(name, count, draw) for draw in range(SEARCH_DRAWS)]
            apart = [own[key] - base[key] for key in keys if key in own and key in base]
            if len(apart) < 2:
                return ""
            means.append(np.mean(apart))
            squares.append(np.var(apart, ddof=1) / len(apart))
    if model == BASE:
        return f"{np.mean([*base.values()]):.4f}"
    return f"{np.mean(means):+.4f} ± {np.sqrt(np.sum(squares)) / len(squares):.4f}"


def of_size(rows, name, count):
    """Every model that has run on all parts of a set, with that many training queries."""
    here = [row for row in rows if row["queries"] == count]
    return {model: each for model, each in measured(here, name, DRAWS).items() if model in MODELS}


def draw_figure(rows):
    """NDCG@10 of the test queries against the number of training queries, set by set."""
    import matplotlib as mpl

    mpl.use("agg")
    mpl.rcParams["svg.hashsalt"] = "precede"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(9, 6.5), layout="constrained")
    for axis, (name, counts) in zip(axes.flat, COUNTS.items(), strict=True):
        for number, model in enumerate(MODELS):
            found = [(count, *over_draws(rows, name, count, model)) for count in counts]
            if known := [each for each in found if each[1] is not None]:
                count, mean, half = np.array(known).T
                axis.plot(count, mean, marker="o", markersize=3, color=f"C{number}", label=model)
                axis.fill_between(count, mean - half, mean + half, color=f"C{number}", alpha=0.12)
        axis.set(title=name, xscale="log", xlabel="training queries", ylabel="NDCG@10")
        axis.set_xticks(counts, map(str, counts))
        axis.minorticks_off()
    axes[0, 0].legend(fontsize=7)
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, metadata={"Date": None})
    plt.close(figure)


def over_draws(rows, name, count, model):
    """Mean over the draws of the NDCG@10 of all test queries, and half its interval."""
    of_draw = {}
    for row in rows:
        if (row["set"], row["queries"], row["model"]) == (name, count, model):
            of_draw.setdefault(row["seed"], []).append(row["test"]["ndcg@10"])
    values = [np.mean(each) for each in of_draw.values() if len(each) == len(SETS[name])]
    if len(values) < 2:
        return None, None
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return np.mean(values), float(stdtrit(len(values) - 1, 0.975)) * error


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["search", "run", "report"])
    {"search": search, "run": run, "report": report}[parser.parse_args().what]()
