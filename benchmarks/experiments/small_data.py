"""How many queries does a good ranking take? Ours and the peers', on subsets of queries.

    python benchmarks/experiments/small_data.py run       # fits; may be stopped and started again
    python benchmarks/experiments/small_data.py report    # tables and figure of what has been run

Models, shape and the choice of rate and rounds are those of `quality.py`. From the training part of
every fold 30, 60, 120 or 250 queries are drawn, and a third as many for validation, anew with every
draw; the test part is whole. All models have the same draws. Runs are kept as JSON lines, with the
metrics of every test query.
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


# -- running -------------------------------------------------------------------------------------


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
    queries, first = np.unique(qid, return_index=True)
    has_pair = np.minimum.reduceat(y, first) < np.maximum.reduceat(y, first)
    rows = np.isin(qid, generator.permutation(queries[has_pair])[:count])
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
    write_page(__file__, "small_data.md", "\n".join(lines))
    print("\n".join(lines))


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
    parser.add_argument("what", choices=["run", "report"])
    {"run": run, "report": report}[parser.parse_args().what]()
