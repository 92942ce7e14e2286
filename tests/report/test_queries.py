"""The first ranks: what is reached is never above the best possible."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precede import Report

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


@pytest.mark.filterwarnings("ignore:every item is relevant")
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(-2, 2)),
                min_size=3, max_size=40))  # fmt: skip
def test_best_possible_is_never_below(rows):
    y, qid, scores = map(np.array, zip(*rows, strict=True))
    first = Report(scores={"a": scores, "b": -scores}, y=y, qid=qid, max_queries=1).facts["first"]
    for values in first["models"].values():
        assert (np.array(values) <= np.array(first["best"]) + 1e-12).all()
    assert (first["chance"] <= np.array(first["best"]) + 1e-12).all()


def test_means_are_over_the_first_k():
    y, qid = np.array([2, 0, 1, 0, 1]), np.array([1, 1, 1, 2, 2])
    scores = np.array([1.0, 3, 2, 2, 1])
    first = Report(scores={"a": scores}, y=y, qid=qid).facts["first"]
    # Of the query of two rows, k = 3 is its whole list.
    assert first["models"]["a"] == pytest.approx([0.0, (0.5 + 0.5) / 2, (1 + 0.5) / 2])
    assert first["best"] == pytest.approx([1.5, (1.5 + 0.5) / 2, (1 + 0.5) / 2])
    assert first["chance"] == pytest.approx((1 + 0.5) / 2)
    assert first["shares"][0]["shares"] == {"0": 1.0, "1": 0.0, "2": 0.0}
