"""The base of all bound risks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive_trees
import strategies
from precede import Judgments, PairRisk
from precede.risks.base import State
from precede.risks.terms import pair_totals


def test_state_is_a_frozen_value():
    state = PairRisk("exponential").bind(Judgments([1, 0])).state(np.zeros(2))
    assert isinstance(state, State)
    with pytest.raises(AttributeError):
        state.log_value = 1.0


@given(strategies.judgments(), st.sampled_from(["pairs", "queries"]))
def test_pair_totals_equal_a_list_of_pairs(judgments, balance):
    layout = judgments.to_layout(balance)
    expected = np.array(naive_trees.pair_totals(judgments, balance))
    found = np.zeros(len(judgments))
    found[layout.order] = pair_totals(layout)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
