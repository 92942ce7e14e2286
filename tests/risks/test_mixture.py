"""The risk of QBRank, compared with its sum term by term."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_trees
import strategies
from algorithms.test_qbrank import labeled
from precede.risks.mixture import QuadraticMixture


@given(st.data(), st.sampled_from([0.0, 0.3, 1.0]), st.sampled_from(["gap", 1.0, 0.2]),
       st.sampled_from(["pairs", "queries", "items"]))  # fmt: skip
@settings(max_examples=150)
def test_the_mixture_equals_its_sum_term_by_term(data, weight, margin, balance):
    judgments = data.draw(labeled(margins=margin == "gap"))
    layout = judgments.to_layout(balance, labeled=True)
    rows = data.draw(strategies.scores(len(judgments), spread=3.0))
    mixture = QuadraticMixture(margin, weight, balance)
    expected = naive_trees.mixture(
        judgments, list(rows), weight=weight, margin=margin, balance=balance
    )
    if expected[3] == [0.0] * len(judgments):
        with pytest.raises(ValueError, match="leaves nothing to learn from"):
            mixture.bind(layout)
        return
    risk = mixture.bind(layout)
    state = risk.state(rows[layout.order])
    scale = np.exp(state.log_gradient_sum)
    np.testing.assert_allclose(np.exp(state.log_value), expected[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(risk.to_rows(state.pull * scale) if scale else 0.0,
                               expected[1], rtol=1e-9, atol=1e-9)  # fmt: skip
    if scale:
        for found, wanted in (
            (risk.curvature(state), expected[2]),
            (risk.curvature_bound(state), expected[3]),
            (risk.curvature_bound(state, 1.0), expected[4]),
        ):
            np.testing.assert_allclose(risk.to_rows(found * scale), wanted, rtol=1e-9, atol=1e-9)
