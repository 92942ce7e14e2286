"""scikit-learn's histogram gradient boosting: two classes only, no ranking loss.

It has no callback: the rounds are grown one by one with `warm_start`, which bins the rows
once but allocates anew; so its rounds are timed as one whole fit less a fit of one round.
"""

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from peers import Clock


def run(X, y, qid, *, rounds, learning_rate, leaves=2, threads=2, objective="log_loss"):
    if qid is not None:
        raise ValueError("scikit-learn's boosting knows no queries")

    def fitted(count):
        model = HistGradientBoostingClassifier(
            loss=objective,
            max_iter=count,
            learning_rate=learning_rate,
            max_leaf_nodes=leaves,
            max_bins=255,
            early_stopping=False,
            random_state=0,
        )
        with threadpool_limits(threads):
            clock = Clock()
            model.fit(X, y)
            return model, clock.now()

    _, one = fitted(1)
    model, total = fitted(rounds)
    usual = (total - one) / (rounds - 1)
    stamps = one + usual * np.arange(rounds)
    return {
        "model": model,
        "setup": max(0.0, one - usual),
        "stamps": stamps,
        "round": np.diff(stamps),
        "total": total,
    }


def predict(model, X, threads=2):
    with threadpool_limits(threads):
        return model.decision_function(X)


def staged(model, X, rounds):
    wanted = set(rounds)
    scores = model.staged_decision_function(X)
    return [each for at, each in enumerate(scores, 1) if at in wanted]
