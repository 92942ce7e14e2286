"""Fits of every algorithm, and what is done with them, that print what they compile.

Run as a program after `precede warmup`, or after one of its steps with the name of an algorithm, of
which it makes fits alone. The data are others than those of the warm-up: in size, in types, in the
number of columns and of queries.
"""

import sys
import warnings

import numpy as np
from numba.core import event

import precede

GIVEN = {
    "RankBoost": [
        {}, {"select": "decrease"}, {"weak_rankers": "features"}, {"weak_rankers": "trees"},
        {"nonnegative": True}, {"rank_weight": "ndcg@10"}, {"rank_weight": "ndcg"},
        {"rank_weight": "precision@3"}, {"balance": "items"}, {"max_features": 0.5},
        {"monotone_constraints": {0: 1}}, {"n_jobs": 1}, {"n_jobs": 3},
    ],
    "PushRanker": [
        {}, {"price": "exp"}, {"price": 16}, {"price": 1, "loss": "logistic"},
        {"price": 1, "loss": "squared_hinge"}, {"loss": "logistic"}, {"scope": "global"},
    ],
    "BoostedRanker": [
        {}, {"loss": "exponential"}, {"loss": "hinge"}, {"loss": "squared_hinge"},
        {"loss": "softmax"}, {"loss": "xendcg"}, {"loss": "query_rmse"},
        {"loss": "query_cross_entropy"}, {"rank_weight": "ndcg@10"}, {"rank_weight": "gap"},
        {"rank_weight": "ndcg@10", "loss": "exponential"}, {"categorical_features": [4]},
        {"monotone_constraints": [1, -1, 0, 0, 0]}, {"subsample": 0.6}, {"max_features": 0.6},
        {"interaction_constraints": [[0, 1], [2, 3, 4]]}, {"line_search": True}, {"bags": 2},
        {"num_leaves": 4}, {"n_jobs": 3}, {"hessian": "bound"},
    ],
    "QBRank": [{}, {"rank_weight": "ndcg@10"}, {"margin": 1.0}, {"subsample": 0.5}],
    "GlassBoxRanker": [
        {}, {"loss": "exponential"}, {"categorical_features": [4]}, {"bags": 2},
        {"monotone_constraints": [1, -1, 0, 0, 0]}, {"interactions": 0},
    ],
    "SmoothMarginRanker": [{}, {"weak_rankers": "features"}, {"nonnegative": True}],
    "ConvexRiskRanker": [{}, {"loss": "logistic"}, {"loss": "hinge"}, {"weak_rankers": "features"}],
    "RankBoostPlus": [{}],
    "AdaBoostRanker": [{}, {"weak_rankers": "features"}, {"n_jobs": 3}],
}  # fmt: skip


class Count(event.Listener):
    """Prints the name of each kernel that is compiled, and by which call."""

    call = ""

    def on_start(self, event):
        kernel = event.data["dispatcher"]
        print(f"{self.call}: {kernel.__module__}.{kernel.__name__}{event.data['args']}")

    def on_end(self, event):
        pass


def kinds():
    """Rows with the arguments of `fit`, of every kind of data, by name."""
    rng = np.random.default_rng(1)
    X, y = rng.random((240, 5)), rng.integers(0, 4, 240)
    X[:, 4] = rng.integers(0, 4, 240)
    qid, pairs = np.sort(rng.integers(0, 12, 240)), rng.permutation(240).reshape(-1, 2)
    missing = np.where(rng.random(X.shape) < 0.1, np.nan, X)
    large, of_query = rng.random((30_000, 5)), np.arange(30_000) // 30
    large[:, 4] = np.floor(9 * large[:, 4])
    grades = rng.integers(0, 3, 30_000)
    return {
        "queries": (X, {"y": y, "qid": qid}),
        "missing values": (missing, {"y": y, "qid": qid}),
        "weights": (X, {"y": y, "qid": qid, "sample_weight": rng.random(240) + 0.1}),
        "two classes": (X, {"y": (y > 1).astype(int)}),
        "one list": (missing, {"y": y.astype(float)}),
        "pairs": (X, {"pairs": pairs}),
        "queries and pairs": (X, {"y": y, "qid": qid, "pairs": pairs}),
        "single precision": (missing.astype(np.float32), {"y": y > 1}),
        "text": (np.asfortranarray(X), {"y": y, "qid": qid.astype(str)}),
        "integers": ((9 * X).astype(int), {"y": y > 1}),
        "watched": (X, {"y": y, "qid": qid, "eval_set": [(X, y)], "eval_qid": [qid]}),
        "many queries": (large, {"y": grades, "qid": of_query}),
        "long list": (large, {"y": grades > 1}),
    }


def use(model, X, y, qid, *, report):
    """Predict, evaluate and explain."""
    model.explain(X[:9])
    model.explain_pair(X, 0, 1)
    model.score(X, y, qid)
    precede.evaluate(y, model.predict(X), qid)
    if report:
        precede.Report(model, X, y, qid=qid)


def main(names):
    """Fit and use all that does not refuse its data."""
    count = Count()
    event.register("numba:compile", count)
    fits = 0
    for name in names or GIVEN:
        for given in GIVEN[name]:
            for kind, (X, judged) in kinds().items():
                slow = name in ("SmoothMarginRanker", "ConvexRiskRanker", "RankBoostPlus") or (
                    kind == "long list"
                    and (given == {"loss": "logistic"} or "rank_weight" in given)
                )
                if (slow and len(X) > 240) or (names and "eval_set" in judged):
                    continue
                count.call = f"{name} {given} on {kind}"
                try:
                    model = getattr(precede, name)(n_estimators=4, **given).fit(X, **judged)
                except ValueError:
                    continue
                fits += 1
                if names:
                    continue
                model.predict(X)
                if kind in ("queries", "two classes"):
                    use(model, X, judged["y"], judged.get("qid"), report=not given)
    if not names:
        count.call = "many cells"  # of which threads share the rows
        X = np.random.default_rng(2).random((70_000, 130))
        precede.BoostedRanker(n_estimators=2, n_jobs=3).fit(X, X[:, 0] > 0.7)
    print(f"{fits} fits")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1:])
