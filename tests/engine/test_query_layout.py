"""Chunks of rows: no pair crosses two chunks, and sums over chunks add up to the same bits."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from precede import Judgments, PairRisk
from precede.datasets import search_results
from precede.engine.exact import to_integers
from precede.engine.table import Table


def graded_and_paired(seed=0, rows=200):
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, rows, (12, 2))
    return Judgments(
        rng.integers(0, 3, rows), rng.integers(0, 30, rows), pairs=pairs[pairs[:, 0] != pairs[:, 1]]
    )


@pytest.mark.parametrize("rows", [1, 20, 60, 1000])
def test_no_pair_crosses_two_chunks(rows):
    judgments = graded_and_paired()
    layout = judgments.to_layout()
    chunks = layout.chunks(rows)
    assert np.array_equal(np.sort(np.concatenate(chunks)), np.arange(layout.n_used_rows))
    number = np.empty(layout.n_used_rows, int)
    for c, chunk in enumerate(chunks):
        number[chunk] = c
    query = judgments.qid[layout.order]
    graded = np.arange(layout.n_used_rows) < layout.n_graded
    for q in np.unique(query[graded]):
        assert np.unique(number[graded & (query == q)]).size == 1
    assert np.array_equal(number[layout.winner], number[layout.loser])


def test_the_number_of_chunks_follows_from_their_size():
    sample = search_results(40, features=2, informative=1, per_query=10, random_state=0)
    layout = Judgments.graded(sample.y, sample.qid).to_layout()
    assert len(layout.chunks(1)) == layout.query_start.size - 1
    assert len(layout.chunks(10**6)) == 1


def test_histograms_of_chunks_add_up_to_the_same_bits():
    sample = search_results(40, features=5, informative=2, per_query=12, random_state=0)
    layout = Judgments.graded(sample.y, sample.qid).to_layout()
    table = Table.build(sample.X, order=layout.order)
    pull = PairRisk().bind(layout).state(sample.truth[layout.order]).pull
    integers = to_integers(pull)
    whole = table.integer_histogram(integers)
    parts = [table.block(chunk).integer_histogram(integers[chunk]) for chunk in layout.chunks(50)]
    assert len(parts) > 3
    assert np.array_equal(sum(parts), whole)


def test_risks_of_chunks_add_up():
    judgments = graded_and_paired(1)
    scores = np.random.default_rng(0).normal(size=len(judgments))
    risk = PairRisk("logistic")
    layout = judgments.to_layout()
    parts = [layout.order[chunk] for chunk in layout.chunks(30)]
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
