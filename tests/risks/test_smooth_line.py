"""Line search of smooth losses on Chebyshev points."""

import numpy as np
import pytest

from precede import Judgments, PairRisk
from precede.risks.base import State
from precede.risks.smooth_line import ChebyshevLineSearch


def many_rows(levels, weighted, rows=30_000):
    rng = np.random.default_rng(levels)
    scores = rng.normal(0, 1.5, rows)
    grade = np.digitize(scores + rng.normal(0, 2, rows), [0.5, 1.5, 3.0][: levels - 1])
    weight = rng.uniform(0.1, 3, rows) if weighted else None
    values = (0.5 * scores + rng.normal(0, 1, rows) > 0).astype(np.uint8)
    return Judgments(grade, weight=weight), scores, values


@pytest.mark.parametrize("levels", [2, 4])
@pytest.mark.parametrize("power", [1, 4, 16])
@pytest.mark.parametrize(
    ("weighted", "balance"), [(False, "pairs"), (True, "pairs"), (True, "items")]
)
def test_the_step_on_points_is_that_on_rows(levels, power, weighted, balance):
    made, scores, values = many_rows(levels, weighted)
    bound = PairRisk("logistic", power, balance=balance).bind(made)
    order = bound.layout.order
    state, at = bound.state(scores[order]), values[order]
    assert ChebyshevLineSearch.applies(bound, state)
    step = ChebyshevLineSearch(bound, state, at).minimize()
    expected, smoothed = bound.brent_line_search(state, at)
    assert not smoothed
    assert step == pytest.approx(expected, abs=1e-9)


def test_points_apply_to_one_large_query_and_smooth_losses_only():
    made, scores, _ = many_rows(2, False, rows=12_000)
    several = Judgments(made.grade, qid=np.arange(12_000) % 3)
    listed = Judgments(made.grade, pairs=[(0, 1)])
    for loss, price, judged, fits in [
        ("logistic", 4, made, True),
        ("logistic", "exp", made, False),
        ("logistic", 1e6, made, False),
        ("hinge", 4, made, False),
        ("logistic", 4, several, False),
        ("logistic", 4, listed, False),
    ]:
        bound = PairRisk(loss, price).bind(judged)
        state = State(scores[bound.layout.order], 0.0, 0.0, scores)
        assert ChebyshevLineSearch.applies(bound, state) == fits, (loss, price)


def test_no_reversed_pair_no_minimum_on_points():
    """The weak ranker is 1 for some winners and no loser: the minimum is at infinity."""
    made, scores, _ = many_rows(2, False)
    bound = PairRisk("logistic", 1).bind(made)
    order = bound.layout.order
    values = ((made.grade == 1) & (scores > 0)).astype(np.uint8)[order]
    state = bound.state(scores[order])
    step = ChebyshevLineSearch(bound, state, values).minimize()
    assert step is None
