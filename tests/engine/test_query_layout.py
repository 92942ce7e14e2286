"""The rows that have a pair, components of the pairs, and kernels without numba."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_array_equal

import naive
import strategies as some
from boosting.test_loop import prepare
from precede import Judgments, PairRisk
from precede.engine.execution import Context
from precede.engine.query_layout import TrainingData


def graded_and_paired(seed=0, rows=200):
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, rows, (12, 2))
    return Judgments(
        rng.integers(0, 3, rows), rng.integers(0, 30, rows), pairs=pairs[pairs[:, 0] != pairs[:, 1]]
    )


def test_no_pair_crosses_two_components():
    judgments = graded_and_paired()
    layout = judgments.to_layout()
    component = layout.components()
    assert 1 < np.unique(component).size < 30
    query = judgments.qid[layout.order]
    graded = np.arange(layout.n_used_rows) < layout.n_graded
    for q in np.unique(query[graded]):
        assert np.unique(component[graded & (query == q)]).size == 1
    assert np.array_equal(component[layout.winner], component[layout.loser])


def test_risks_of_components_add_up():
    judgments = graded_and_paired(1)
    scores = np.random.default_rng(0).normal(size=len(judgments))
    risk = PairRisk("logistic")
    layout = judgments.to_layout()
    component = layout.components()
    parts = [layout.order[component == each] for each in np.unique(component)]
    total = sum(risk.value(judgments[rows], scores[rows]) for rows in parts)
    np.testing.assert_allclose(total, risk.value(judgments, scores), rtol=1e-12)


FIT = """
import json
from precede import RankBoost
from precede.datasets import search_results
s = search_results(6, features=3, informative=2, per_query=8, random_state=0)
for select in ("slope", "decrease"):
    m = RankBoost(select=select, step="bound", n_estimators=4).fit(s.X, s.y, qid=s.qid)
    print(json.dumps([[r.to_dict() for r in m.ensemble_.weak_rankers], m.ensemble_.weights]))
"""


def test_kernels_are_correct_python_too():
    """Without numba the same code finds the same stumps, with weights equal up to rounding."""

    def fitted(**environment):
        lines = subprocess.run(
            [sys.executable, "-c", FIT],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        return [json.loads(line) for line in lines]

    for (weak_rankers, weights), (plain_rankers, plain_weights) in zip(
        fitted(), fitted(NUMBA_DISABLE_JIT="1"), strict=True
    ):
        assert weak_rankers == plain_rankers
        np.testing.assert_allclose(weights, plain_weights, rtol=1e-12)


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
