"""Tune a ranker with Optuna: whole queries are held out, and unpromising trials are pruned.

Each trial draws two parameters, fits and reports its metric after every round; a trial
that falls behind is pruned through a callback, which ends its fit.
"""

import numpy as np

from precede import BoostedRanker
from precede.datasets import search_results
from precede.metrics import evaluate

try:
    import optuna
except ImportError:
    optuna = None

TRIALS = 6


def split(sample, queries):
    rows = np.isin(sample.qid, queries)
    return sample.X[rows], sample.y[rows], sample.qid[rows]


def objective(trial, sample):
    X, y, qid = split(sample, range(40))
    X_valid, y_valid, qid_valid = split(sample, range(40, 60))

    def report(progress):
        value = progress.history[-1]["valid_0 ndcg@10"]
        trial.report(value, progress.round)
        return trial.should_prune()  # True ends the fit

    model = BoostedRanker(
        learning_rate=trial.suggest_float("learning_rate", 0.02, 0.3, log=True),
        loss=trial.suggest_categorical("loss", ["exponential", "logistic"]),
        n_estimators=15,
        early_stopping_rounds=5,
        eval_metric="ndcg@10",
        callbacks=[report],
    )
    model.fit(X, y, qid=qid, eval_set=(X_valid, y_valid), eval_qid=qid_valid)
    if trial.should_prune():
        raise optuna.TrialPruned
    return evaluate(y_valid, model.predict(X_valid), qid_valid, metrics="ndcg@10").mean["ndcg@10"]


def main():
    if optuna is None:
        print("this example needs optuna: pip install optuna")
        return
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sample = search_results(60, features=10, informative=6, per_query=20, random_state=0)
    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=0),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=2),
    )
    study.optimize(lambda trial: objective(trial, sample), n_trials=TRIALS)
    print(f"best ndcg@10 {study.best_value:.4f} with {study.best_params}")


if __name__ == "__main__":
    main()
