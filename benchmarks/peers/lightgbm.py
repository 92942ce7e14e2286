"""LightGBM; stumps are trees of two leaves."""

import lightgbm as library

from peers import Clock, group_sizes


def run(X, y, qid, *, rounds, learning_rate, leaves=2, threads=2, objective="lambdarank"):
    parameters = {
        "objective": objective,
        "num_leaves": leaves,
        "learning_rate": learning_rate,
        "max_bin": 255,
        "num_threads": threads,
        "min_data_in_leaf": 1 if leaves == 2 else 20,
        "verbosity": -1,
        "seed": 0,
    }
    clock = Clock()
    sizes = None if qid is None else group_sizes(qid)
    data = library.Dataset(X, y, group=sizes, params=parameters).construct()
    clock.ready()
    model = library.train(parameters, data, rounds, callbacks=[clock.tick])
    return clock.result(model)


def predict(model, X, threads=2):
    return model.predict(X, raw_score=True, num_threads=threads)


def staged(model, X, rounds):
    return [model.predict(X, raw_score=True, num_iteration=count) for count in rounds]
