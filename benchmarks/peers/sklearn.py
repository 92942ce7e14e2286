"""scikit-learn's histogram gradient boosting: two classes only, no ranking loss.

It has no callback, but tells the seconds of every round, to the millisecond, when it is verbose.
"""

import contextlib
import io
import re

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from peers import Clock

TOLD = re.compile(r"^\[\d+/\d+\].* in ([\d.]+)s", re.M)


def run(X, y, qid, *, rounds, learning_rate, leaves=2, threads=2, objective="log_loss"):
    if qid is not None:
        raise ValueError("scikit-learn's boosting knows no queries")
    model = HistGradientBoostingClassifier(
        loss=objective,
        max_iter=rounds,
        learning_rate=learning_rate,
        max_leaf_nodes=leaves,
        max_bins=255,
        early_stopping=False,
        random_state=0,
        verbose=2,
    )
    told = io.StringIO()
    with threadpool_limits(threads), contextlib.redirect_stdout(told):
        clock = Clock()
        model.fit(X, y)
        total = clock.now()
    seconds = np.array([float(text) for text in TOLD.findall(told.getvalue())])
    setup = max(0.0, total - seconds.sum())
    return {
        "model": model,
        "setup": setup,
        "stamps": setup + np.cumsum(seconds),
        "round": seconds[1:],
        "total": total,
    }


def predict(model, X, threads=2):
    with threadpool_limits(threads):
        return model.decision_function(X)


def staged(model, X, rounds):
    wanted = set(rounds)
    scores = model.staged_decision_function(X)
    return [each for at, each in enumerate(scores, 1) if at in wanted]
