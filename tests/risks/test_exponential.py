"""The exponential risk in linear time, for every kind of judgments."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import strategies as some
from precede import Judgments, PairRisk
from precede.judgments import number_queries
from precede.risks.exponential import SeparableRisk
from risks.test_pair_risk import assert_same_state, at, situations


@pytest.mark.parametrize("kind", some.KINDS)
@given(st.data())
@settings(max_examples=40)
def test_exponential_risk_of_every_kind_of_judgments(kind, data):
    made, scores, balance = data.draw(situations("1", kind))
    bound, state, expected = at(made, scores, balance, "exponential", "1")
    assert isinstance(bound, SeparableRisk)
    assert_same_state(bound, state, expected, 1e-12)


@given(situations("1"), st.sampled_from(["text", "numbers", "reversed"]))
def test_renaming_queries_changes_no_bit_of_the_exponential_risk(situation, how):
    """Queries are summed in the order of their names; the sums do not depend on it."""
    made, scores, balance = situation
    if made.qid is None:
        return
    number = number_queries(made.qid)[0]
    names = {
        "text": np.array([f"{(q * 7919) % 101:03d}" for q in number]),
        "numbers": 1000 - 3 * number,
        "reversed": -number,
    }[how]
    renamed = made._with(qid=names)
    risk = PairRisk("exponential", balance=balance)
    assert risk.value(renamed, scores) == risk.value(made, scores)
    assert_array_equal(risk.pull(renamed, scores), risk.pull(made, scores))


def test_a_loser_whose_winners_have_no_weight_adds_no_risk():
    """exp(0) is 1, but a loser without a winner is not a term of the risk."""
    made = Judgments([1, 0, 1, 0], qid=[0, 0, 1, 1], weight=[0, 1, 1, 1])
    assert PairRisk("exponential", "exp").value(made, np.zeros(4)) == pytest.approx(math.e)
