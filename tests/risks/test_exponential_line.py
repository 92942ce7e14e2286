"""Line search of the exponential risk with a push."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import naive
import strategies as some
from precede import Judgments, PairRisk
from precede.risks.exponential import PushLine


@st.composite
def lines(draw):
    """Judgments without explicit pairs, scores, a 0/1 ranker with a finite minimum, a power."""
    made = draw(some.judgments(kind=draw(st.sampled_from(["bipartite", "graded"]))))
    n = len(made)
    values = np.array(draw(st.lists(st.sampled_from([0, 1]), min_size=n, max_size=n)), np.uint8)
    kinds = {int(values[p.winner]) - int(values[p.loser]) for p in naive.list_pairs(made)}
    assume({1, -1} <= kinds)
    power = draw(st.sampled_from([2, 4, 16, 64]))
    return made, draw(some.scores(n, spread=4.0)), values, power


def line_of(made, scores, values, power, balance="pairs"):
    bound = PairRisk("exponential", power, balance=balance).bind(made)
    order = bound.layout.order
    state, at = bound.state(np.asarray(scores)[order]), values[order]
    return bound, state, at, PushLine(bound, state, at, bound.edge_weights(state, at))


@given(lines(), st.sampled_from(["pairs", "queries"]))
def test_the_step_minimizes_the_risk_along_the_line(situation, balance):
    made, scores, values, power = situation
    bound, state, at, line = line_of(made, scores, values, power, balance)
    assert line.has_minimum
    step = line.argmin()
    here = bound.log_value(state.scores + step * at)
    for other in (step - 1e-4, step + 1e-4, 0.0):
        assert here <= bound.log_value(state.scores + other * at) + 1e-13
    after = bound.state(state.scores + step * at)
    assert abs(bound.edge(after, at)) < 1e-11


@given(lines())
def test_sums_at_both_scales_agree(situation):
    """Sums relative to the level and sums relative to their own largest term."""
    from precede.risks import exponential as module

    made, scores, values, power = situation
    bound, state, at, _ = line_of(made, np.asarray(scores) / 8, values, power)
    shared = module._log_sums_at_level_scale(bound, state, at)
    own = module._log_sums_at_own_scale(bound, state, at)
    largest = np.concatenate([shared[:2].max(axis=0, keepdims=True)] * 2)
    largest = np.concatenate([largest, *[shared[2:].max(axis=0, keepdims=True)] * 2])
    seen = shared > largest - 20  # smaller sums lose digits at the scale of the level
    assert_allclose(own[seen], shared[seen], rtol=0, atol=1e-9)
    assert (own[~seen] < largest[~seen] - 19).all()


@given(st.data())
def test_with_two_classes_the_step_is_in_closed_form(data):
    n = data.draw(st.integers(4, 12))
    y = np.array(
        [1, 1, 0, 0, *data.draw(st.lists(st.integers(0, 1), min_size=n - 4, max_size=n - 4))]
    )
    scores = np.array(data.draw(some.scores(n, spread=2.0)))
    values = np.array(
        [1, 0, 1, 0, *data.draw(st.lists(st.integers(0, 1), min_size=n - 4, max_size=n - 4))],
        np.uint8,
    )
    power = data.draw(st.sampled_from([1.5, 2, 8, 64, 1000]))
    _, _, _, line = line_of(Judgments.bipartite(y), scores, values, power)
    A = [np.logaddexp.reduce(-scores[(y == 1) & (values == h)]) for h in (0, 1)]
    B = [np.logaddexp.reduce(power * scores[(y == 0) & (values == h)]) for h in (0, 1)]
    assert line.argmin() == pytest.approx(
        (A[1] + B[0] - A[0] - B[1]) / (power + 1), rel=1e-12, abs=1e-13
    )


def test_a_tiny_sum_is_not_taken_for_an_empty_one():
    """At p = 1000 a loser 2 below the top has a term of exp(-2000)."""
    y, scores = np.array([1, 1, 0, 0]), np.array([1.0, 0.0, 2.0, 0.0])
    values = np.array([1, 0, 0, 1], np.uint8)
    _, _, _, line = line_of(Judgments.bipartite(y), scores, values, 1000)
    assert line.has_minimum
    assert line.argmin() == pytest.approx((-1.0 + 2000.0 - 0.0 - 0.0) / 1001, rel=1e-12)
