"""User-defined risks."""

import numpy as np
import pytest

from algorithms.test_boosted import SAMPLE
from precede import BoostedRanker, Logistic, ScoreRisk


class ByHand(ScoreRisk):
    """The logistic risk by enumeration."""

    def _margins(self, judgments, scores):
        grade, qid = judgments.grade, judgments.qid
        pair = (grade[:, None] > grade) & (qid[:, None] == qid)
        return pair, np.where(pair, scores[:, None] - scores, 0.0)

    def value(self, judgments, scores):
        pair, margin = self._margins(judgments, scores)
        return float(Logistic().value(margin)[pair].sum())

    def pull(self, judgments, scores):
        pair, margin = self._margins(judgments, scores)
        force = np.where(pair, -Logistic().slope(margin), 0.0)
        return force.sum(1) - force.sum(0)

    def curvature(self, judgments, scores):
        pair, margin = self._margins(judgments, scores)
        second = np.where(pair, Logistic().curvature(margin), 0.0)
        return second.sum(1) + second.sum(0)


@pytest.mark.parametrize("line_search", [True, False])
def test_a_risk_by_hand_is_boosted_as_ours_is(line_search):
    options = {"n_estimators": 6, "line_search": line_search}
    ours = BoostedRanker(balance="pairs", **options).fit(SAMPLE.X, SAMPLE.y, qid=SAMPLE.qid)
    theirs = BoostedRanker(loss=ByHand(), **options).fit(SAMPLE.X, SAMPLE.y, qid=SAMPLE.qid)
    np.testing.assert_allclose(
        ours.predict(SAMPLE.X), theirs.predict(SAMPLE.X), rtol=1e-4, atol=1e-4
    )


class Negative(ByHand):
    def value(self, judgments, scores):
        return -1.0


class Short(ByHand):
    def pull(self, judgments, scores):
        return np.zeros(3)


@pytest.mark.parametrize("risk", [Negative(), Short()])
def test_a_risk_that_makes_no_sense_is_refused(risk):
    with pytest.raises(ValueError, match="a risk is not negative"):
        BoostedRanker(loss=risk, n_estimators=2).fit(SAMPLE.X, SAMPLE.y, qid=SAMPLE.qid)
