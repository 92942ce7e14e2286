"""LightGBM with the same bins, rounds, learning rate and threads; stumps are two leaves."""

import time

import lightgbm as lgb
import numpy as np


def run(X, y, qid, *, rounds, learning_rate, objective="lambdarank", leaves=2, threads=2):
    parameters = {
        "objective": objective,
        "num_leaves": leaves,
        "learning_rate": learning_rate,
        "max_bin": 255,
        "num_threads": threads,
        "min_data_in_leaf": 1,
        "verbosity": -1,
        "seed": 0,
    }
    begin = time.perf_counter()
    sizes = None if qid is None else np.unique(qid, return_counts=True)[1]
    data = lgb.Dataset(X, y, group=sizes, params=parameters).construct()
    setup = time.perf_counter() - begin
    stamps = []
    model = lgb.train(
        parameters, data, rounds, callbacks=[lambda _: stamps.append(time.perf_counter())]
    )
    return {
        "model": model,
        # The first stamp includes the initialisation of the booster.
        "round": np.diff(stamps),
        "setup": setup,
        "total": time.perf_counter() - begin,
    }
