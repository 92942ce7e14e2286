"""The named problems, every learner in turn: seconds, memory, quality, growth, the limit.

    python benchmarks/run.py                 # everything: some ten minutes on two quiet cores
    python benchmarks/run.py --quick         # small, to see that it runs; nothing is kept
    python benchmarks/run.py --only kernels  # one part, printed but not kept
    python benchmarks/run.py --again CatBoost  # rounds of one library measured anew

Everything is measured in one run on one machine, learner after learner in turn. The figures
are appended to `results/benchmarks.jsonl` with versions and machine; `table.py` makes the page
and the drawings of the last line.
"""

import argparse
import importlib
import json
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np

import problems
from measure import about, append, in_a_process, last
from precede.metrics import Evaluator
from speed import kernels

HERE = Path(__file__).parent
THREADS = 2
RATE = 0.1
# A learner that would need more seconds a round than this is left out; what it needs is what it
# took for a row of the problem before, times the rows.
PATIENCE = 4.0
# Takes minutes for the rounds that the others take seconds for; `rounds` has its time for one.
NOT_TO_QUALITY = "CatBoost PairLogit"


@dataclass(frozen=True)
class Learner:
    """A library, what it minimizes and how large its trees are."""

    peer: str
    leaves: int
    objective: str | None = None
    options: dict = field(default_factory=dict)

    def module(self):
        return importlib.import_module(f"peers.{self.peer}")

    def run(self, data, rounds, threads=THREADS):
        X, y, qid = data
        return self.module().run(
            X, y, qid, rounds=rounds, learning_rate=RATE, leaves=self.leaves, threads=threads,
            **({} if self.objective is None else {"objective": self.objective}), **self.options,
        )  # fmt: skip


STUMPS = {
    "precede RankBoost": Learner("ours", 2),
    "LightGBM lambdarank, 2 leaves": Learner("lightgbm", 2, "lambdarank"),
    "LightGBM rank_xendcg, 2 leaves": Learner("lightgbm", 2, "rank_xendcg"),
}
TREES = {
    "precede BoostedRanker": Learner("ours", 31),
    "LightGBM lambdarank": Learner("lightgbm", 31, "lambdarank"),
    "LightGBM rank_xendcg": Learner("lightgbm", 31, "rank_xendcg"),
    "XGBoost rank:ndcg": Learner("xgboost", 31, "rank:ndcg"),
    "XGBoost rank:pairwise": Learner("xgboost", 31, "rank:pairwise"),
    "CatBoost YetiRank": Learner("catboost", 31, "YetiRank"),
    "CatBoost PairLogit": Learner("catboost", 31, "PairLogit"),
}
WITH_PAIRS = {  # these list every pair: only where that can be
    "RankLib RankBoost": Learner("ranklib", 2, "RankBoost"),
    "RankLib LambdaMART": Learner("ranklib", 31, "LambdaMART"),
    "rankboostplus RBD": Learner("rankboostplus", 2, "RBD"),
}
TWO_CLASSES = {
    "precede RankBoost": Learner("ours", 2),
    "precede PushRanker, logistic": Learner("ours", 2, "logistic"),
    "LightGBM binary, 2 leaves": Learner("lightgbm", 2, "binary"),
    "scikit-learn, 2 leaves": Learner("sklearn", 2),
    "precede BoostedRanker": Learner("ours", 31),
    "LightGBM binary": Learner("lightgbm", 31, "binary"),
    "XGBoost binary:logistic": Learner("xgboost", 31, "binary:logistic"),
    "CatBoost Logloss": Learner("catboost", 31, "Logloss"),
    "scikit-learn": Learner("sklearn", 31),
}
# Problem: its learners, rounds to time, repetitions.
PLAN = {
    "web10k small": (STUMPS | TREES, 20, 3),
    "web10k medium": (STUMPS | TREES, 10, 1),
    "web10k": (STUMPS | TREES, 6, 1),
    "MQ2008": (STUMPS | TREES | WITH_PAIRS, 40, 3),
    "fraud": (TWO_CLASSES, 40, 3),
    "one query": (TWO_CLASSES, 6, 1),
}
QUICK = {
    "web10k small": (STUMPS | TREES, 3, 1),
    "fraud": (TWO_CLASSES, 3, 1),
}


# -- a round ------------------------------------------------------------------------------------


def rounds(plan):
    """Milliseconds of every round and seconds of set-up, by problem and learner."""
    found, per_row = {}, {}
    for name, (learners, count, repeats) in plan.items():
        problem = problems.named(name)
        if problem is None:
            continue
        size = len(problem.train[0])
        rows = found[name] = {"shape": list(problem.train[0].shape), "learners": {}}
        for turn in range(repeats):
            for label, learner in learners.items():
                if per_row.get(label, 0.0) * size <= 1000 * PATIENCE:
                    _one_run(rows["learners"], label, learner, problem, count, first=turn == 0)
        for label, each in rows["learners"].items():
            per_row[label] = float(np.median(each["round_ms"])) / size
        rows["left out"] = sorted(set(learners) - set(rows["learners"]))
    return found


def _one_run(rows, label, learner, problem, count, *, first):
    try:
        if first:
            tiny = tuple(None if each is None else each[:2000] for each in problem.train)
            learner.run(tiny, 2)  # compiles and allocates
        run = learner.run(problem.train, count)
    except ImportError:
        return
    print(f"  {problem.name}: {label}: {np.median(run['round']) * 1e3:.0f} ms", file=sys.stderr)
    row = rows.setdefault(label, {"round_ms": [], "setup_s": []})
    row["round_ms"] += [round(1000 * seconds, 3) for seconds in run["round"]]
    row["setup_s"].append(round(run["setup"], 3))


def again(library):
    """The last figures, with the rounds of one library measured anew."""
    found = last("benchmarks.jsonl")
    plan = {
        name: ({label: each for label, each in learners.items() if library in label}, *rest)
        for name, (learners, *rest) in PLAN.items()
    }
    fresh = rounds({name: part for name, part in plan.items() if part[0]})
    for name, part in fresh.items():
        found["rounds"][name]["learners"] |= part["learners"]
    return found | {"again": {library: about(THREADS)}}


# -- quality and scoring ------------------------------------------------------------------------


def to_quality(problem_name, count, every):
    """Seconds until the NDCG@10 of held-out queries first reaches 98 % of lambdarank's best."""
    problem = problems.named(problem_name)
    X, y, qid = problem.test
    judge = Evaluator(y, qid, metrics="ndcg@10")
    at = list(range(every, count + 1, every))
    curves = {}
    for label, learner in (STUMPS | TREES).items():
        if label == NOT_TO_QUALITY:
            continue
        run = learner.run(problem.train, count)
        values = [judge.value(s) for s in learner.module().staged(run["model"], X, at)]
        curves[label] = {"values": values, "seconds": [float(run["stamps"][t - 1]) for t in at]}
    target = 0.98 * max(curves["LightGBM lambdarank"]["values"])
    for curve in curves.values():
        reached = [at for at, value in enumerate(curve["values"]) if value >= target]
        curve["round"] = at[reached[0]] if reached else None
        curve["reached_s"] = curve["seconds"][reached[0]] if reached else None
    left_out = [NOT_TO_QUALITY]
    return {"problem": problem_name, "target": target, "curves": curves, "left out": left_out}


def scoring(rows, trees, repeats):
    """Milliseconds to score rows with as many trees; stumps ten times as many."""
    problem = problems.named("web10k small")
    X = np.tile(problem.train[0], (rows // len(problem.train[0]) + 1, 1))[:rows].copy()
    found = {"rows": rows, "trees": trees}
    for label, learner in ({k: STUMPS[k] for k in list(STUMPS)[:2]} | TREES).items():
        if label.startswith("CatBoost PairLogit") or "xendcg" in label or "pairwise" in label:
            continue  # the same trees, scored by the same code
        count = 10 * trees if learner.leaves == 2 else trees
        predict, model = learner.module().predict, learner.run(problem.train, count)["model"]
        predict(model, X[:100], THREADS)
        found[label] = []
        for _ in range(repeats):
            begin = time.perf_counter()
            predict(model, X, THREADS)
            found[label].append(1000 * (time.perf_counter() - begin))
    return found


def metrics(queries, repeats):
    """Milliseconds of ten metrics, beside ranx with its objects built."""
    from peers import ranx

    names = ["ndcg@5", "ndcg@10", "ndcg", "map", "mrr", "precision@5", "recall@10"]
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(queries), 120)
    y = rng.choice(5, size=qid.size, p=[0.6, 0.2, 0.1, 0.06, 0.04]).astype(float)
    scores = y + 2 * rng.normal(size=qid.size)
    judge = Evaluator(y, qid, metrics=names, gains="linear", no_relevant="zero")
    prepared = ranx.prepare(y, scores, qid)
    sides = {
        "precede Evaluator (one thread)": lambda: judge.evaluate(scores).mean["ndcg@10"],
        "ranx": lambda: ranx.evaluate(prepared, names)["ndcg@10"],
    }
    values = [side() for side in sides.values()]
    np.testing.assert_allclose(*values, rtol=1e-12)
    found = {name: [] for name in sides}
    for _ in range(repeats):
        for name, side in sides.items():
            begin = time.perf_counter()
            side()
            found[name].append(1000 * (time.perf_counter() - begin))
    return {"queries": queries, "metrics": names, "ms": found}


# -- memory and cold start ----------------------------------------------------------------------

MEMORY = """
import resource, sys, numpy as np
sys.path.insert(0, {here!r})
from run import STUMPS, TREES
learner = (STUMPS | TREES)[{label!r}]
data = tuple(np.load(f"{folder}/{{name}}.npy") for name in ("X", "y", "qid"))
learner.run(tuple(each[:3000].copy() for each in data), 2)
before = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
open("/proc/self/clear_refs", "w").write("5")  # start the peak again from here
learner.run(data, 5)
peak = [line for line in open("/proc/self/status") if line.startswith("VmHWM")][0]
print(int(peak.split()[1]) * 1024 - before)
"""


def memory(problem_name):
    """Greatest memory of a fit beyond its input, each learner in a process of its own."""
    X, y, qid = problems.named(problem_name).train
    found = {"problem": problem_name, "input_MB": X.nbytes / 1e6, "learners": {}}
    with tempfile.TemporaryDirectory() as folder:
        for name, each in (("X", X), ("y", y), ("qid", qid)):
            np.save(f"{folder}/{name}.npy", each)
        for label in STUMPS | TREES:
            if "xendcg" in label:
                continue
            code = MEMORY.format(here=str(HERE), label=label, folder=folder)
            found["learners"][label] = int(in_a_process(code)) / 1e6
    return found


COLD = """
import time
begin = time.perf_counter()
import sys
sys.path.insert(0, {here!r})
from sklearn.datasets import load_breast_cancer
X, y = load_breast_cancer(return_X_y=True)
middle = time.perf_counter()
{call}
print(time.perf_counter() - middle)
"""
FIRST_FITS = {
    "precede RankBoost":
        "from precede import RankBoost; RankBoost(n_estimators=50, learning_rate=0.1).fit(X, y)",
    "precede BoostedRanker":
        "from precede import BoostedRanker; BoostedRanker(n_estimators=50).fit(X, y)",
    "LightGBM binary": "from lightgbm import LGBMClassifier; "
                       "LGBMClassifier(n_estimators=50, verbosity=-1).fit(X, y)",
    "XGBoost binary:logistic": "from xgboost import XGBClassifier; "
                               "XGBClassifier(n_estimators=50).fit(X, y)",
    "CatBoost Logloss": "from catboost import CatBoostClassifier; CatBoostClassifier("
                        "iterations=50, verbose=False, allow_writing_files=False).fit(X, y)",
    "scikit-learn": "from sklearn.ensemble import HistGradientBoostingClassifier as H; "
                    "H(max_iter=50).fit(X, y)",
}  # fmt: skip


def cold_start(repeats):
    """Import of the library and first fit in a fresh process; ours with and without a cache."""
    found = {}
    for label, call in FIRST_FITS.items():
        code = COLD.format(here=str(HERE), call=call)
        with tempfile.TemporaryDirectory() as cache:
            if label.startswith("precede"):
                found[f"{label}, empty cache"] = [float(in_a_process(code, NUMBA_CACHE_DIR=cache))]
            found[label] = [
                float(in_a_process(code, NUMBA_CACHE_DIR=cache)) for _ in range(repeats)
            ]
    return found


# -- growth -------------------------------------------------------------------------------------

GROWN = {
    "precede RankBoost": STUMPS["precede RankBoost"],
    "LightGBM lambdarank, 2 leaves": STUMPS["LightGBM lambdarank, 2 leaves"],
    "precede BoostedRanker": TREES["precede BoostedRanker"],
    "LightGBM lambdarank": TREES["LightGBM lambdarank"],
}


def growth(scale):
    """Seconds of a whole fit against rows, features, rounds, queries, threads and workers."""
    axes = {
        "rows": ([scale * n for n in (1, 2, 4, 8, 16)], lambda n: (_shaped(n, 30), 20, THREADS)),
        "features": ((8, 16, 32, 64, 128), lambda n: (_shaped(4 * scale, n), 20, THREADS)),
        "rounds": ((25, 50, 100, 200), lambda n: (_shaped(2 * scale, 30), n, THREADS)),
        "queries": (_divisions(4 * scale), lambda n: (_shaped(4 * scale, 30, n), 20, THREADS)),
        "threads": ((1, 2), lambda n: (_shaped(8 * scale, 30), 20, n)),
    }
    found = {}
    for axis, (points, shape) in axes.items():
        found[axis] = {"points": list(points), **{label: [] for label in GROWN}}
        for point in points:
            data, count, threads = shape(point)
            for label, learner in GROWN.items():
                if axis == "queries" and point == 10 and label.startswith("LightGBM"):
                    found[axis][label].append(None)  # no more than 10,000 rows in a query
                    continue
                found[axis][label].append(learner.run(data, count, threads)["total"])
    found["workers"] = _workers(4 * scale)
    return found


def _divisions(rows):
    """Numbers of queries that leave each at least eight rows."""
    return [count for count in (10, 100, 1000, 10_000) if 8 * count <= rows]


def _shaped(rows, features, queries=None):
    """Rows of graded queries; 120 rows each unless their number is given."""
    rng = np.random.default_rng(0)
    queries = max(1, rows // 120) if queries is None else queries
    X = rng.standard_normal((rows, features), dtype=np.float32)
    score = X[:, :5].sum(axis=1) + 2 * rng.standard_normal(rows)
    return X, np.digitize(score, [1.0, 3.0, 5.0]), np.arange(rows) * queries // rows


def _workers(rows):
    import dask.array
    from dask.distributed import Client, LocalCluster

    from precede import RankBoost
    from precede.dask.estimators import DaskRankBoost

    X, y, qid = _shaped(rows, 30)
    options = {"n_estimators": 20, "learning_rate": RATE}
    found = {"points": [0, 1, 2], "precede RankBoost": []}
    begin = time.perf_counter()
    alone = RankBoost(n_jobs=1, **options).fit(X, y, qid=qid)
    found["precede RankBoost"].append(time.perf_counter() - begin)
    for count in (1, 2):
        with (
            LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            parts = [dask.array.from_array(each, chunks=(-(-rows // 8), *each.shape[1:]))
                     for each in (X, y, qid)]  # fmt: skip
            parts = [client.persist(part) for part in parts]
            begin = time.perf_counter()
            model = DaskRankBoost(**options)
            model.fit(parts[0], parts[1], qid=parts[2], client=client)
            found["precede RankBoost"].append(time.perf_counter() - begin)
            same = np.array_equal(model.to_local().predict(X[:1000]), alone.predict(X[:1000]))
            found["equal bits"] = found.get("equal bits", True) and bool(same)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only")
    parser.add_argument("--again", metavar="LEARNER", help="rounds of one library once more")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.again:
        append("benchmarks.jsonl", again(asked.again))
        return
    quick = asked.quick
    parts = {
        "about": lambda: about(THREADS),
        "rounds": lambda: rounds(QUICK if quick else PLAN),
        "to quality": lambda: to_quality("web10k small", 20 if quick else 150, 5),
        "scoring": lambda: scoring(20_000 if quick else 200_000, 10 if quick else 100, 3),
        "metrics": lambda: metrics(100 if quick else 5_000, 3),
        "memory": lambda: memory("web10k small" if quick else "web10k medium"),
        "cold start": lambda: cold_start(1 if quick else 3),
        "growth": lambda: growth(2_000 if quick else 20_000),
        "kernels": lambda: kernels.measure(50_000 if quick else 1_000_000, THREADS),
    }
    found = {}
    begin = time.perf_counter()
    for name, part in parts.items():
        if asked.only in (None, name):
            print(f"{name} ...", file=sys.stderr, flush=True)
            found[name] = part()
    found["minutes"] = round((time.perf_counter() - begin) / 60, 1)
    if quick or asked.only:
        print(json.dumps(found, indent=1))
    else:
        append("benchmarks.jsonl", found)


if __name__ == "__main__":
    main()
