"""Every kernel beside the memory bandwidth of the machine: how far from the limit are we?

    python benchmarks/run.py --only kernels

The limit of a kernel is the time to move, once, the bytes that it cannot do without: what it
reads and what it writes, no scratch. The bandwidth is the best of several copies of a large
array by as many threads. A kernel at 10 of the limit computes, or goes over its data several
times; the column says what is done.
"""

import time

import numpy as np
from numba import njit

from precede import RankBoost
from precede.engine.execution import Context
from precede.engine.table import Table
from precede.judgments import Judgments
from precede.metrics import Evaluator
from precede.risks.pair_risk import PairRisk
from precede.weak_rankers.stumps import Stumps
from precede.weak_rankers.trees import Forest, tree_from_lightgbm

FEATURES, LEAVES, TREES, STUMPS = 30, 31, 20, 200
LOSSES = ("exponential", "logistic", "hinge", "squared_hinge")


def measure(rows, threads):
    """Bandwidth, and for each kernel its bytes and its best milliseconds."""
    with Context(threads) as context:
        found = {"rows": rows, "bandwidth_GB_s": bandwidth(context), "kernels": {}}
        for name, size, call in _kernels(rows, context):
            call()
            found["kernels"][name] = {
                "MB": size / 1e6,
                "ms": [1000 * _seconds(call) for _ in range(5)],
            }
    return found


def bandwidth(context, megabytes=512, repeats=7):
    """GB a second read and written by a copy, the best of several."""
    source = np.ones(megabytes * 2**20 // 8)
    target = np.zeros_like(source)
    copy = lambda: context.run(_copy, source.size, source, target)  # noqa: E731
    copy()
    return 2 * source.nbytes / min(_seconds(copy) for _ in range(repeats)) / 1e9


def _seconds(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _kernels(rows, context):
    """Name, bytes that must move, and the call."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, FEATURES), dtype=np.float32)
    score = X[:, :10].sum(axis=1) + 3 * rng.standard_normal(rows)
    y = (score > np.quantile(score, 0.9)).astype(int)
    table = Table.build(X, context=context)
    yield (
        "binning (sorts every column)",
        5 * X.size,
        lambda: Table.build(X, context=context),
    )
    pull = rng.standard_normal(rows) / rows
    search = Stumps(lazy=False).start(table, context)
    yield "stump search, all features", X.size + 8 * rows, lambda: search.best(pull)
    yield from _pulls(rows, y, rng, context)
    yield from _scoring(X, y, context)
    qid = np.arange(rows) // 100
    judge = Evaluator(y, qid, metrics="ndcg@10")
    scores = score.astype(float)
    yield "ndcg@10, queries of 100 (one thread; sorts)", 16 * rows, lambda: judge.value(scores)
    judge_all = Evaluator(y, metrics="auc")
    yield "auc, one query (one thread; sorts)", 16 * rows, lambda: judge_all.value(scores)


def _pulls(rows, y, rng, context):
    """Pull of one query of two classes, and of queries of 100 graded rows."""
    scores = 2 * rng.standard_normal(rows)
    one = Judgments.bipartite(y).to_layout()
    grade = rng.integers(0, 5, rows)
    many = Judgments.graded(grade, np.arange(rows) // 100).to_layout()
    for shape, layout in (("one query", one), ("queries of 100", many)):
        at = scores[layout.order]
        for loss in LOSSES:
            risk = PairRisk(loss).bind(layout, context)
            yield f"pull, {loss}, {shape}", 16 * rows, lambda r=risk, s=at: r.state(s)


def _scoring(X, y, context):
    import lightgbm

    part = slice(0, 20_000)
    model = RankBoost(n_estimators=STUMPS, learning_rate=0.1, n_jobs=1).fit(X[part], y[part])
    moved = 4 * X.size + 8 * len(X)
    yield f"scoring, {STUMPS} stumps", moved, lambda: model.ensemble_.predict(X, context)
    settings = {"objective": "binary", "num_leaves": LEAVES, "verbosity": -1}
    booster = lightgbm.train(settings, lightgbm.Dataset(X[part], y[part]), TREES)
    grown = [tree_from_lightgbm(t["tree_structure"]) for t in booster.dump_model()["tree_info"]]
    forest = Forest(grown, [1.0] * TREES)
    yield (
        f"scoring, {TREES} trees of {LEAVES} leaves", moved,
        lambda: forest.add_to(np.zeros(len(X)), X, context),
    )  # fmt: skip


@njit(nogil=True)
def _copy(low, high, source, target):
    for at in range(low, high):
        target[at] = source[at]
