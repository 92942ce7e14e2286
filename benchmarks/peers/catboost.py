"""CatBoost, growing leaf by leaf (Lossguide) so that trees have the same number of leaves.

Its callback is called after every round and its pool is quantized before, as the others'
data are. `boosting_type="Plain"` is what it takes by itself for rows as many as these.
"""

import catboost as library

from peers import Clock


def run(X, y, qid, *, rounds, learning_rate, leaves=2, threads=2, objective="YetiRank"):
    model = library.CatBoost(
        {
            "loss_function": objective,
            "iterations": rounds,
            "learning_rate": learning_rate,
            "grow_policy": "Lossguide",
            "max_leaves": leaves,
            "max_depth": 16,
            "border_count": 254,
            "boosting_type": "Plain",
            "thread_count": threads,
            "random_seed": 0,
            "verbose": False,
            "allow_writing_files": False,
        }
    )
    clock = Clock()
    pool = library.Pool(X, label=y, group_id=qid)
    pool.quantize(border_count=254)
    clock.ready()

    class Ticks:
        def after_iteration(self, _):
            clock.tick()
            return True

    model.fit(pool, callbacks=[Ticks()])
    return clock.result(model)


def predict(model, X, threads=2):
    return model.predict(X, prediction_type="RawFormulaVal", thread_count=threads)


def staged(model, X, rounds):
    return [model.predict(X, prediction_type="RawFormulaVal", ntree_end=count) for count in rounds]
