"""An algorithm of your own, in one file: boosting the pairwise logistic loss.

An algorithm is four choices: a risk, a family of weak rankers, a step, and when to stop.
"""

from precede import BaseRanker, PairRisk
from precede.boosting import ExactStep, Plan
from precede.datasets import search_results
from precede.testing import check_algorithm
from precede.weak_rankers import Family, family


class LogisticBoost(BaseRanker):
    """Steepest descent on the mean of log(1 + exp(-(s_i - s_k))) over pairs."""

    weak_rankers: str | Family = "stumps"
    n_estimators: int = 100
    learning_rate: float = 1.0
    balance: str = "pairs"
    max_bins: int = 255
    max_features: float = 1.0
    early_stopping_rounds: int | None = None
    eval_metric: str | None = None
    callbacks: list | None = None
    warm_start: bool = False
    random_state: int | None = None
    n_jobs: int | None = None
    verbose: int = 0

    def plan(self, stop):
        return Plan(
            risk=PairRisk("logistic", balance=self.balance),
            weak_rankers=family(self.weak_rankers),
            step=ExactStep(),
            stop=stop,
            learning_rate=self.learning_rate,
            draw=self.feature_draw(),
        )


check_algorithm(LogisticBoost(n_estimators=8))

sample = search_results(20, features=4, informative=2, per_query=20, random_state=0)
model = LogisticBoost(n_estimators=20).fit(sample.X, sample.y, qid=sample.qid)
print(f"score {model.score(sample.X, sample.y, sample.qid):.3f}")
