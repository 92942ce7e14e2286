"""A pair loss of your own, in one file: the smoothed hinge."""

import numpy as np

from precede import PairLoss, PairRisk
from precede.datasets import search_results
from precede.judgments import Judgments
from precede.testing import check_loss


class SmoothHinge(PairLoss):
    """l(m) = 0 for m >= 1, (1 - m)²/2 for 0 < m < 1, 1/2 - m for m <= 0."""

    def value(self, margin):
        return np.where(margin > 0, np.maximum(1 - margin, 0) ** 2 / 2, 0.5 - margin)

    def slope(self, margin):  # never positive
        return -np.clip(1 - margin, 0, 1)

    def curvature(self, margin):  # an upper bound of the second derivative; optional
        return np.ones_like(margin)


check_loss(SmoothHinge())  # slope against differences, convexity, pickling, sums

sample = search_results(5, features=4, informative=2, per_query=20, random_state=0)
risk = PairRisk(SmoothHinge(), price=4)  # works at once with every price and every kind of pairs
print(f"risk {risk.value(Judgments.graded(sample.y, sample.qid), sample.truth):.4g}")
