"""Drawings: round ticks, extreme values."""

import re

import numpy as np
import pytest

from precede import RankBoost, Report
from precede.report.drawing import ticks

pytestmark = pytest.mark.filterwarnings("ignore::precede.boost.SmoothedStepWarning")


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3, 4), (1e-9, 2e-9), (0, 1e12), (5, 5)])
def test_ticks_are_round_and_inside(low, high):
    found = ticks(low, high)
    assert 1 <= len(found) <= 12
    assert all(low - 1e-9 * abs(low) <= tick <= high * (1 + 1e-9) for tick in found)


def test_extreme_values_can_be_drawn():
    X = np.array([[-1.7e308], [0.0], [5e-324], [1.7e308]])
    model = RankBoost(n_estimators=2, step="bound").fit(X, [0, 1, 1, 1])
    report = Report(model, X, [0, 1, 1, 1])
    assert report.facts["features"]["rows"][0]["shape"] is None
    assert "too large, or too close" in report.to_html()
    page = Report(model, X / 1e8, [0, 1, 1, 1]).to_html()
    assert 'class="shape"' in page
    assert "nan" not in re.sub(r"<script.*?</script>", "", page, flags=re.S).lower()
