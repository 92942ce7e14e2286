"""An algorithm of your own, in one file: boosting the pairwise logistic loss.

An algorithm is four choices: a risk, a family of weak rankers, a step, and when to stop.
"""

from precede import BaseRanker, PairRisk
from precede.boosting import LineSearch, Plan
from precede.datasets import search_results
from precede.testing import check_algorithm
from precede.weak_rankers import family


class LogisticBoost(BaseRanker):
    """Steepest descent on the mean of log(1 + exp(-(s_i - s_k))) over pairs."""

    def __init__(
        self,
        *,
        weak_rankers="stumps",
        n_estimators=100,
        learning_rate=1.0,
        balance="pairs",
        max_bins=255,
        max_features=1.0,
        early_stopping_rounds=None,
        eval_metric=None,
        callbacks=None,
        warm_start=False,
        random_state=None,
        n_jobs=None,
        verbose=0,
    ):
        self.weak_rankers = weak_rankers
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.balance = balance
        self.max_bins = max_bins
        self.max_features = max_features
        self.early_stopping_rounds = early_stopping_rounds
        self.eval_metric = eval_metric
        self.callbacks = callbacks
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def plan(self, stop):
        return Plan(
            risk=PairRisk("logistic", balance=self.balance),
            weak_rankers=family(self.weak_rankers),
            step=LineSearch(),
            stop=stop,
            learning_rate=self.learning_rate,
            draw=self.feature_draw(),
        )


check_algorithm(LogisticBoost(n_estimators=8))

sample = search_results(20, features=4, informative=2, per_query=20, random_state=0)
model = LogisticBoost(n_estimators=20).fit(sample.X, sample.y, qid=sample.qid)
print(f"score {model.score(sample.X, sample.y, sample.qid):.3f}")
