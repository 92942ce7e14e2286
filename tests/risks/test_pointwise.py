"""AdaBoost's objective: a sum over rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import naive
import strategies as some
from precede import PairRisk, PointRisk

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


@given(some.judgments(kind="bipartite", most=10), st.data())
def test_the_point_risk_is_a_sum_over_rows(made, data):
    scores = data.draw(some.scores(len(made)))
    weight = np.array(naive.item_weights(made))
    y = np.where(made.grade == made.grade.max(), 1, -1)
    terms = weight * np.exp(-y * scores)
    assert PointRisk().value(made, scores) == pytest.approx(terms.sum())
    assert_allclose(PointRisk().pull(made, scores), y * terms, rtol=1e-9)
    assert_allclose(PointRisk().curvature(made, scores), terms, rtol=1e-9)
    assert PointRisk().skew(made, scores) == pytest.approx(
        (y * terms).sum(), abs=1e-9 * terms.sum()
    )
    plus, minus = terms[y == 1].sum(), terms[y == -1].sum()
    assert PairRisk().value(made, scores) == pytest.approx(plus * minus)  # RS09 eq. (14)
    values = np.arange(len(y)) % 2
    edge_weights = PointRisk().edge_weights(made, scores, values)
    assert edge_weights.correct == pytest.approx(
        terms[(values == 1) & (y == 1)].sum() / terms.sum()
    )
    assert edge_weights.wrong == pytest.approx(terms[(values == 1) & (y == -1)].sum() / terms.sum())
