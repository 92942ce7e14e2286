"""The authors' RankBoost+ code, if `rankboost` is installed; it lists every pair.

Nothing of it is part of precede. Without it `run` raises `ImportError`, and the benchmark
leaves the line out. Written from its README and not tried yet.
"""

import numpy as np

from peers import Clock


def run(X, y, qid, *, rounds, learning_rate, leaves=2, threads=2, objective="RBD"):  # noqa: ARG001
    import importlib

    learner = getattr(
        importlib.import_module(f"rankboost.algorithms.{objective.lower()}"), objective
    )
    clock = Clock()
    pairs = listed(y, qid)
    clock.ready()
    model = learner(1)
    model.fit(X, pairs)
    one = clock.now()
    model = learner(rounds)
    begin = clock.now()
    model.fit(X, pairs)
    total = clock.now() - begin
    stamps = one + (total - (one - clock.setup)) / (rounds - 1) * np.arange(rounds)
    return {"model": model, "setup": clock.setup, "stamps": stamps, "round": np.diff(stamps),
            "total": clock.setup + total}  # fmt: skip


def listed(y, qid):
    """Every pair of a query, the better item first."""
    found = []
    for query in np.unique(qid):
        rows = np.flatnonzero(qid == query)
        above, below = np.nonzero(y[rows][:, None] > y[rows])
        found.append(np.stack([rows[above], rows[below]], axis=1))
    return np.concatenate(found)
