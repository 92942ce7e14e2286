"""Tasks that `structure.py` times in two versions of the package, in turn.

    PYTHONPATH=TREE/src python benchmarks/experiments/structure_speed.py SIZE

reads names of tasks from the standard input and answers each with milliseconds, of the clock and of
all threads together.
"""

import gc
import json
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from structure_names import call, of

THREADS = 2
MANY = 40  # rounds of a fit whose rounds are short
LEAST = 0.3  # seconds of a turn, in which short tasks are done several times

SIZES = {
    "full": {"queries": 10_000, "few": 2_000, "long": 200_000, "rows": 100_000, "rounds": 10},
    "medium": {"queries": 2_000, "few": 500, "long": 200_000, "rows": 50_000, "rounds": 8},
    "small": {"queries": 300, "few": 100, "long": 50_000, "rows": 10_000, "rounds": 6},
}
FEATURES = 136  # of the data of rounds of stumps and trees; 10 elsewhere


# -- what tasks are made of ----------------------------------------------------------------------


def timed(task):
    """Seconds of the clock and of the processors."""
    begin = time.perf_counter(), time.process_time()
    task()
    return time.perf_counter() - begin[0], time.process_time() - begin[1]


def seconds(task):
    """Median seconds of a task, done until enough time has passed."""
    times = [timed(task)]
    while sum(clock for clock, _ in times) < LEAST:
        times.append(timed(task))
    return np.median(times, axis=0)


def search(queries, features=10):
    sample = call("search_results", queries, features=features, random_state=0,
                  module="precede.datasets")  # fmt: skip
    return {"X": sample.X, "y": sample.y, "qid": sample.qid}


def classes(rows):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((rows, 10))
    return {"X": X, "y": (X[:, 0] + rng.standard_normal(rows) > 0.8).astype(int)}


def labels(rows):
    X = classes(rows)["X"]
    return {"X": X, "y": (X > 0.5).astype(int)}


def fit(name, data, **given):
    """Time of a whole fit."""
    model = call(name, n_jobs=THREADS, **given)
    return partial(seconds, lambda: model.fit(**data))


def one_round(name, data, rounds, **given):
    """Median time of the rounds after the first two."""
    ends = []
    see = [lambda _: ends.append((time.perf_counter(), time.process_time()))]
    model = call(name, n_estimators=rounds, n_jobs=THREADS, callbacks=see, **given)

    def fitted():
        ends.clear()
        model.fit(**data)
        return np.median(np.diff(ends, axis=0)[1:], axis=0)

    return fitted


def pull(loss, rows, length):
    """Risk and gradient at given scores, of queries of one length."""
    rng = np.random.default_rng(2)
    grades, queries = rng.integers(0, 5, rows), np.arange(rows) // length
    layout = of(call("Judgments", grades, queries), "to_layout")()
    risk = call("PairRisk", loss).bind(layout)
    scores = 2 * rng.standard_normal(rows)[layout.order]
    return partial(seconds, lambda: risk.state(scores).pull)


# -- tasks ---------------------------------------------------------------------------------------


def listed_pairs(size):
    rng, rows = np.random.default_rng(4), size["rows"]
    X = rng.standard_normal((rows, 10))
    pairs = rng.integers(0, rows, (4 * rows, 2))
    pairs = pairs[X[pairs[:, 0], 0] > X[pairs[:, 1], 0]]
    return fit("BoostedRanker", {"X": X, "pairs": pairs}, n_estimators=size["rounds"])


def fitted_trees(size, rounds=100):
    data = search(size["rows"] // 120)
    return call("BoostedRanker", n_estimators=rounds, n_jobs=THREADS).fit(**data), data["X"]


def predict(size):
    model, X = fitted_trees(size)
    X = X[np.arange(2 * size["rows"]) % len(X)]
    return partial(seconds, lambda: model.predict(X))


def explain(size):
    model, X = fitted_trees(size)
    return partial(seconds, lambda: model.explain(X[:2000]))


def evaluate(size):
    data = search(size["rows"] // 120)
    scores = data["X"][:, 0] + data["X"][:, 1]

    def evaluated():
        found = call("evaluate", data["y"], scores, data["qid"])
        return [found.interval(name) for name in found.mean]

    return partial(seconds, evaluated)


def read(size):
    data = search(size["rows"] // 120, features=40)
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "data.letor"
    path.write_text("".join(
        f"{grade} qid:{query} " + " ".join(f"{j}:{x:.6g}" for j, x in enumerate(row, 1)) + "\n"
        for grade, query, row in zip(data["y"], data["qid"], data["X"], strict=True)
    ))  # fmt: skip
    return lambda: (folder, seconds(lambda: call("read", path, module="precede.files")))[1]


def report(size):
    data = search(size["rows"] // 120)
    model = call("RankBoost", n_estimators=20, learning_rate=0.1, n_jobs=THREADS).fit(**data)
    return partial(seconds, lambda: call("Report", model, **data).to_html())


TASKS = {
    "stump round": lambda size: one_round(
        "RankBoost", search(size["queries"], FEATURES), MANY, learning_rate=0.1),
    "tree round, 31 leaves": lambda size: one_round(
        "BoostedRanker", search(size["queries"], FEATURES), size["rounds"], num_leaves=31),
    'tree round, `rank_weight="ndcg@10"`': lambda size: one_round(
        "BoostedRanker", search(size["queries"]), size["rounds"], rank_weight="ndcg@10"),
    '`PushRanker(price=1, loss="logistic")` round': lambda size: one_round(
        "PushRanker", search(size["queries"]), size["rounds"], price=1, loss="logistic",
        learning_rate=0.1),
    "`PushRanker()` round": lambda size: one_round(
        "PushRanker", classes(size["long"]), MANY, learning_rate=0.1),
    "logistic pull, queries of 100": lambda size: pull("logistic", 100 * size["queries"], 100),
    "logistic pull, one list": lambda size: pull("logistic", size["long"], size["long"]),
    "squared hinge pull, one list": lambda size: pull("squared_hinge", size["long"], size["long"]),
    "exponential pull, queries of 100": lambda size: pull(
        "exponential", 100 * size["queries"], 100),
    "`BoostedRanker` fit, listed pairs": listed_pairs,
    "`QBRank` fit": lambda size: fit(
        "QBRank", search(size["few"]), n_estimators=size["rounds"]),
    "`ConvexRiskRanker` fit": lambda size: fit(
        "ConvexRiskRanker", classes(size["rows"]), n_estimators=size["rounds"]),
    "`GlassBoxRanker` fit": lambda size: fit(
        "GlassBoxRanker", search(size["few"]), n_estimators=20, pair_estimators=20,
        interactions=3, random_state=0),
    "`RankBoostPlus` fit": lambda size: fit(
        "RankBoostPlus", search(size["few"]), n_estimators=size["rounds"]),
    "`AdaBoostRanker` fit": lambda size: fit(
        "AdaBoostRanker", classes(size["rows"]), n_estimators=50),
    "`SmoothMarginRanker` fit": lambda size: fit(
        "SmoothMarginRanker", classes(size["rows"]), n_estimators=50),
    "`MultilabelRanker` fit": lambda size: fit(
        "MultilabelRanker", labels(size["rows"]), n_estimators=size["rounds"]),
    "predict, 100 trees": predict,
    "evaluate, with intervals": evaluate,
    "reading LETOR": read,
    "report to HTML": report,
    "explain, 100 trees, 2,000 rows": explain,
}  # fmt: skip


def main(size):
    warnings.simplefilter("ignore")
    gc.disable()  # as timeit does
    name, turn = None, None
    for line in sys.stdin:
        asked = line.strip()
        if asked != name:  # the data of one task at a time
            turn = None
            gc.collect()
            name, turn = asked, TASKS[asked](SIZES[size])
            turn()
        print(json.dumps([1e3 * each for each in turn()]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
