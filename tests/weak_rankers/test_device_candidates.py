"""Candidate stumps of RankBoost+ on an emulated device, compared with those of the CPU."""

import numpy as np
import pytest

from emulated_device import EmulatedDevice, needs_compiler
from precede import Judgments, Stumps
from precede.engine.execution import Context
from precede.engine.table import Table
from precede.weak_rankers import device_stumps
from precede.weak_rankers.candidates import Candidates, LinearSpan
from precede.weak_rankers.device_stumps import DeviceCandidates, DeviceSpan

pytestmark = needs_compiler


@pytest.mark.parametrize("most", [3, 5000])
@pytest.mark.parametrize("few", [0, 1000])
def test_edges_values_and_vectors(monkeypatch, most, few):
    monkeypatch.setattr(device_stumps, "MAX_SHARED_WIDTH", few)
    rng = np.random.default_rng(most)
    X = rng.normal(size=(500, 3))
    X[rng.random(X.shape) < 0.1] = np.nan
    layout = Judgments(rng.integers(0, 3, 500), rng.integers(0, 9, 500)).to_layout("pairs")
    table, device = Table.build(X, order=layout.order), EmulatedDevice()
    here = Candidates(table, layout, Stumps(), Context(1))
    there = DeviceCandidates(table, layout, Stumps(), Context(1, device))
    pull = rng.normal(size=table.n_used_rows) / 1000
    np.testing.assert_array_equal(there.edges(device.put(pull)), here.edges(pull))
    spans = LinearSpan(layout, most), DeviceSpan(device, layout, most)
    assert spans[0]._sketched == (most == 3)
    for number in (0, len(here) // 2, len(here) - 1):
        values = here.values(number)
        np.testing.assert_array_equal(there.values(number).get(), values)
        vectors = [
            span.vector(each)
            for span, each in zip(spans, (values, there.values(number)), strict=True)
        ]
        np.testing.assert_array_equal(vectors[0], vectors[1])
