"""A risk of your own, in one file: listwise softmax, boosted with trees.

Inside a query let p_i be the share of item i in sum exp(s); the risk is the cross-entropy
between the shares of the gains 2^grade - 1 and p. A risk is a value, a pull (minus the
derivative) and, if you have it, a curvature; trees, steps, stopping and saving come with it.
"""

import numpy as np

from precede import BoostedRanker, ScoreRisk
from precede.datasets import search_results


class ListwiseSoftmax(ScoreRisk):
    """R(s) = -sum over queries of sum_i t_i log p_i, with t the shares of the gains."""

    def _shares(self, judgments, scores):
        _, query = np.unique(judgments.qid, return_inverse=True)
        gain = 2.0**judgments.grade - 1
        highest = np.full(query.max() + 1, -np.inf)
        np.maximum.at(highest, query, scores)
        share = np.exp(scores - highest[query])
        return gain / np.bincount(query, gain)[query], share / np.bincount(query, share)[query]

    def value(self, judgments, scores):
        wanted, share = self._shares(judgments, scores)
        return -np.sum(wanted * np.log(share))

    def pull(self, judgments, scores):
        wanted, share = self._shares(judgments, scores)
        return wanted - share

    def curvature(self, judgments, scores):
        _, share = self._shares(judgments, scores)
        return share * (1 - share)


sample = search_results(40, features=6, informative=4, per_query=25, random_state=0)
model = BoostedRanker(loss=ListwiseSoftmax(), n_estimators=30, line_search=True)
model.fit(sample.X, sample.y, qid=sample.qid)
risk = model.history_["risk"]
assert (np.diff(risk) <= 0).all()  # never rises with a line search
score = model.score(sample.X, sample.y, sample.qid)
print(f"risk {risk[0]:.2f} to {risk[-1]:.2f}, score {score:.3f}")
