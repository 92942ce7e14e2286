"""precede: RankBoost on stumps for two leaves (PushRanker for other losses), or BoostedRanker."""

import warnings

import numpy as np

from peers import Clock
from precede import BoostedRanker, PushRanker, RankBoost


def run(
    X, y, qid, *, rounds, learning_rate, leaves=2, threads=2, objective=None, **parameters
):  # fmt: skip
    warnings.simplefilter("ignore")
    clock = Clock()
    both = {
        "n_estimators": rounds,
        "learning_rate": learning_rate,
        "callbacks": [clock.tick],
        "n_jobs": threads,
        **parameters,
    }
    if leaves > 2:
        model = BoostedRanker(num_leaves=leaves, **both)
    else:
        model = (
            RankBoost(**both) if objective is None else PushRanker(price=1, loss=objective, **both)
        )
    model.fit(X, y, qid=qid)
    found = clock.result(model)
    # The time to the first stamp, less a usual round, is set-up.
    usual = float(np.median(found["round"])) if rounds > 1 else 0.0
    found["setup"] = max(0.0, found["stamps"][0] - usual)
    return found


def predict(model, X, threads=2):
    return model.set_params(n_jobs=threads).predict(X)


def staged(model, X, rounds):
    wanted = set(rounds)
    return [each for at, each in enumerate(model.staged_predict(X), 1) if at in wanted]
