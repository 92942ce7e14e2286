"""Signed stumps, compared with brute force."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
import strategies as some
from precede import Columns, Stumps
from precede.engine.table import Table
from precede.weak_rankers.columns import Constants
from precede.weak_rankers.stumps import SignedStump, SignedStumps, signed_stumps

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.steps.SmoothedStepWarning")


@given(some.tables(9), st.data())
def test_the_best_signed_stump_is_the_best_by_brute_force(X, data):
    pull = np.array(data.draw(st.lists(st.integers(-50, 50), min_size=9, max_size=9)), float)
    pull /= max(np.abs(pull).sum(), 1)
    found = SignedStumps().search(Table.build(X), pull)
    edges = [
        math.fsum(p * (2 * v - 1) for p, v in zip(pull, stump.values(X), strict=True))
        for stump in naive.candidates(X)
    ]
    if found is None:
        assert max(map(abs, edges), default=0.0) < 1e-12
    else:
        assert edges
        assert abs(found.edge) == pytest.approx(max(map(abs, edges)), abs=1e-12)
        assert found.edge == pytest.approx(float(pull @ found.weak_ranker(X)), abs=1e-12)


def test_families_with_signed_stumps():
    assert signed_stumps(Stumps(), constant=False) == SignedStumps()
    assert signed_stumps(Columns(), constant=True).families == (Columns(), Constants())
    assert SignedStump(0, 1.5)(np.array([[1.0], [2.0], [np.nan]])).tolist() == [-1, 1, -1]
