"""Short queries: enumerated sums, compared with the general ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from precede import Judgments
from precede.risks.pair_risk import PairRisk
from precede.risks.pair_sums import GeneralRisk
from precede.risks.short_queries import EnumeratedRisk


@given(st.data(), st.sampled_from(["logistic", "hinge", "squared_hinge", "gap"]),
       st.sampled_from(["pairs", "queries"]))  # fmt: skip
@settings(max_examples=200)
def test_enumerated_sums_equal_the_general_ones(data, name, balance):
    from precede import Linear, SquaredHinge
    from precede.losses import pair_loss

    judgments = data.draw(strategies.judgments())
    loss = SquaredHinge("gap") if name == "gap" else name
    spread = data.draw(st.sampled_from([1.0, 8.0, 150.0]))
    layout = judgments.to_layout(balance)
    if not layout.n_used_rows:
        return
    scores = data.draw(strategies.scores(layout.n_used_rows, spread=spread))
    quick = PairRisk(loss).bind(layout)
    plain_ = GeneralRisk(layout, pair_loss(loss), Linear())
    assert isinstance(quick, EnumeratedRisk)
    ours, theirs = quick.state(scores), plain_.state(scores)
    for field in ("log_value", "log_gradient_sum", "pull"):
        np.testing.assert_allclose(
            getattr(ours, field), getattr(theirs, field), rtol=1e-9, atol=1e-10
        )
    np.testing.assert_allclose(
        quick.curvature(ours), plain_.curvature(theirs), rtol=1e-7, atol=1e-9
    )


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge"])
def test_other_prices_use_the_general_sums(loss):
    assert isinstance(PairRisk(loss, 2).bind(Judgments([0, 1])), GeneralRisk)


@pytest.mark.parametrize("margin", [5.0, 20.0, 30.0, 36.0, 37.5, 60.0, 79.0, 200.0])
@pytest.mark.parametrize("grades", [[0, 1], [0, 0, 1, 1, 2]])
def test_losses_of_pairs_far_in_order_keep_their_digits(grades, margin):
    """Beyond a margin of 37, ``1 + exp(-m)`` rounds to 1."""
    judgments = Judgments(grades)
    scores = margin * np.array(grades, float)
    gaps = [scores[i] - scores[k] for i, a in enumerate(grades) for k, b in enumerate(grades)
            if a > b]  # fmt: skip
    layout = judgments.to_layout()
    state = PairRisk("logistic").bind(layout).state(scores[layout.order])
    expected = np.log(np.sum(np.log1p(np.exp(-np.array(gaps)))))
    np.testing.assert_allclose(state.log_value, expected, rtol=1e-9)
