"""XGBoost's histogram learner, leaf by leaf as LightGBM grows."""

import numpy as np
import xgboost as library

from peers import Clock


def run(X, y, qid, *, rounds, learning_rate, leaves=2, threads=2, objective="rank:ndcg"):
    parameters = {
        "objective": objective,
        "max_leaves": leaves,
        "max_depth": 0,
        "grow_policy": "lossguide",
        "tree_method": "hist",
        "max_bin": 255,
        "eta": learning_rate,
        "nthread": threads,
        "verbosity": 0,
        "seed": 0,
    }
    clock = Clock()
    number = None if qid is None else np.unique(qid, return_inverse=True)[1]
    data = library.QuantileDMatrix(X, y, qid=number, max_bin=255, nthread=threads)
    clock.ready()

    class Ticks(library.callback.TrainingCallback):
        def after_iteration(self, *_):
            clock.tick()
            return False

    model = library.train(parameters, data, rounds, callbacks=[Ticks()])
    return clock.result(model)


def predict(model, X, threads=2):
    model.set_param({"nthread": threads})
    return model.inplace_predict(X, predict_type="margin")


def staged(model, X, rounds):
    data = library.DMatrix(X)
    return [model.predict(data, output_margin=True, iteration_range=(0, count)) for count in rounds]
