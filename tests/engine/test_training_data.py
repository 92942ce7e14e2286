"""Training data: the rows that have a pair, and the error if there are none."""

import pytest
from hypothesis import given
from numpy.testing import assert_array_equal

import naive
import strategies as some
from boosting.test_loop import prepare
from precede import Judgments
from precede.engine.execution import Context
from precede.engine.training_data import TrainingData


@given(some.problems())
def test_training_data_hold_exactly_the_rows_that_have_a_pair(problem):
    X, made = problem
    training = TrainingData.prepare(X, made, balance="pairs", max_bins=255, context=Context(1))
    involved = {row for p in naive.list_pairs(made) for row in (p.winner, p.loser)}
    assert set(training.table.order) == involved
    assert_array_equal(training.table.order, training.layout.order)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (Judgments([1, 1]), "y has only one class, 1; ranking needs at least two grades"),
        (Judgments([1, 0], qid=[0, 1]), "no query holds two rows of different grades.*check that"),
        (Judgments([1, 0], weight=[0, 0]), "every sample weight is zero"),
        (Judgments(pairs=[(0, 1)], pair_weight=[0], n=2), "no pair has a positive weight"),
    ],
)
def test_without_a_pair_the_error_names_the_reason(made, told):
    with pytest.raises(ValueError, match=told):
        prepare([[0], [1]], made)
