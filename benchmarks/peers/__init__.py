"""One file for each library, the same functions in each.

``run(X, y, qid, *, rounds, learning_rate, leaves, threads, objective)`` trains and gives a
dict: ``model``, ``setup`` (seconds before the first round: binning), ``stamps`` (seconds since
the start at the end of every round), ``round`` (seconds of every round but the first) and
``total``. ``staged(model, X, rounds)`` gives the scores after each of the named rounds and
``predict(model, X, threads)`` those of the whole model. Every library gets the same bins,
rounds, learning rate, leaves and threads; whatever else it is told stands in its file. ranx
has no learner, only ``evaluate``.
"""

import time

import numpy as np


class Clock:
    """Stamps of a training: of its start, its set-up and every round."""

    def __init__(self):
        self.begin = time.perf_counter()
        self.setup = 0.0
        self.stamps = []

    def now(self):
        return time.perf_counter() - self.begin

    def ready(self):
        self.setup = self.now()

    def tick(self, *_):
        self.stamps.append(self.now())

    def result(self, model):
        stamps = np.asarray(self.stamps)
        return {
            "model": model,
            "setup": self.setup,
            "stamps": stamps,
            "round": np.diff(stamps),
            "total": self.now(),
        }


def group_sizes(qid):
    """Rows of every query, rows being sorted by query."""
    return np.unique(qid, return_counts=True)[1]
