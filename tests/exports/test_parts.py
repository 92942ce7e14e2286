"""Single precision: thresholds and numbers that stay on their side."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from exports.readers import SINGLE_ROWS, fitted, stump_models
from precede.exports.parts import Parts, above, as_single, at_most

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


@given(st.floats(-1e300, 1e300), st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_rounded_thresholds_keep_every_float32_on_its_side(threshold, x):
    assert (np.float32(x) <= at_most(threshold)) == (x <= threshold) or abs(threshold) > 3.4e38
    x = float(np.float32(threshold)) if abs(threshold) < 3e38 else x  # the value next to it
    for value in (np.float32(x), np.nextafter(np.float32(x), np.float32(np.inf))):
        if abs(threshold) < 3.4e38:
            assert (value <= at_most(threshold)) == (float(value) <= threshold)
            if not 0 < value < 1.2e-38:
                assert (value < above(threshold)) == (float(value) <= threshold)


@given(st.floats(-1e38, 1e38))
def test_short_numbers_are_the_same_in_single_precision(value):
    assert np.float32(as_single(value)) == np.float32(value)
    assert len(f"{as_single(value):.17g}".rstrip("0")) <= 24


@given(stump_models(), SINGLE_ROWS)
def test_stumps_as_trees_give_the_same_scores(ensemble, rows):
    """Two trees a feature at most, each with a way down no longer than a search by halves."""
    X = np.array(rows)
    trees = Parts.of(fitted(ensemble)).trees
    assert len(trees) <= 6
    total = np.zeros(len(X))
    for nodes in trees:
        for row, x in enumerate(X):
            node = 0
            while nodes.feature[node] >= 0:
                value = x[nodes.feature[node]]
                left = (
                    nodes.missing_left[node] if np.isnan(value) else value <= nodes.threshold[node]
                )
                node = nodes.left[node] if left else nodes.right[node]
            total[row] += nodes.value[node]
    assert_allclose(total, ensemble.predict(X), atol=1e-12)
