"""First calls of every estimator, on every kind of data, and what is done with the results.

Run as a program with an empty folder of kernels. Prints as JSON how many functions each call
compiled that those before it had not, and the types of the arguments of each kernel of precede.
"""

import json
import sys
import tempfile
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
from numba.core import event

import precede

ROUNDS = {"n_estimators": 3}
CONSTRAINTS = {"monotone_constraints": [1, -1, 0, 0], "interaction_constraints": [[0, 1], [2, 3]]}
FITS = {
    "RankBoost": [{}, {"select": "decrease"}, {"weak_rankers": "features"}],
    "BoostedRanker": [
        {}, {"loss": "exponential"}, {"loss": "hinge"}, {"loss": "softmax"},
        {"rank_weight": "ndcg@10"}, {"categorical_features": [3]}, CONSTRAINTS, {"n_jobs": 2},
    ],
    "GlassBoxRanker": [{"pair_estimators": 2}],
    "PushRanker": [{}],
    "QBRank": [{}],
    "AdaBoostRanker": [{}],
    "RankBoostPlus": [{}],
    "SmoothMarginRanker": [{}],
    "ConvexRiskRanker": [{}],
}  # fmt: skip


class Record(event.Listener):
    """Counts compiled functions by call, and lists the types of the arguments of kernels."""

    def __init__(self):
        self.call, self.counts, self.types = "", defaultdict(int), defaultdict(list)

    def on_start(self, event):
        kernel = event.data["dispatcher"]
        self.counts[self.call] += 1
        if kernel.__module__.startswith("precede."):
            name = f"{kernel.__module__}.{kernel.__name__}"
            self.types[name].append([str(each) for each in event.data["args"]])

    def on_end(self, event):
        pass


def kinds():
    """Rows with the arguments of `fit`, of every kind of data, by name."""
    rng = np.random.default_rng(0)
    X, y = rng.random((300, 4)), rng.integers(0, 4, 300)
    X[:, 3] = rng.integers(0, 5, 300)
    qid, long_list = np.arange(300) // 15, rng.random((70_000, 4))
    return {
        "queries": (X, {"y": y, "qid": qid}),
        "one list": (X, {"y": y > 1}),
        "pairs": (X, {"pairs": rng.permutation(300).reshape(-1, 2)}),
        "weights": (X, {"y": y, "qid": qid, "sample_weight": rng.random(300) + 0.1}),
        "long list": (long_list, {"y": long_list[:, 0] > 0.7}),
    }


def main():
    """Make all calls that are not refused."""
    record = Record()
    event.register("numba:compile", record)
    for name, variants in FITS.items():
        for number, given in enumerate(variants):
            for kind, (X, judged) in kinds().items():
                if len(X) > 300 and name not in ("RankBoost", "BoostedRanker", "GlassBoxRanker"):
                    continue
                if number and kind not in ("queries", "one list"):
                    continue
                record.call = " ".join([name, *map(str, given), kind])
                try:
                    model = getattr(precede, name)(**ROUNDS, **given).fit(X, **judged)
                except ValueError:
                    continue
                if number == 0 and kind in ("queries", "one list"):
                    use(record, model, X, judged["y"], judged.get("qid"))
    record.call = "MultilabelRanker"
    X, judged = kinds()["queries"]
    precede.MultilabelRanker(**ROUNDS).fit(X, np.eye(4, dtype=int)[judged["y"]])
    json.dump({"calls": record.counts, "types": record.types}, sys.stdout)


def use(record, model, X, y, qid):
    """Predict, evaluate, explain, report, save and load."""
    fit = record.call
    for name, call in {
        "predict": lambda: model.predict(X),
        "evaluate": lambda: (model.score(X, y, qid), precede.evaluate(y, X[:, 0], qid)),
        "explain": lambda: (model.explain(X[:5]), model.explain_pair(X, 0, 1)),
        "report": lambda: precede.Report(model, X, y, qid=qid),
        "save and load": lambda: saved(model).predict(X),
    }.items():
        record.call = f"{fit}: {name}"
        call()


def saved(model):
    """Return a model that was saved and loaded."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "model.json"))
        return precede.load(Path(folder, "model.json"))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
