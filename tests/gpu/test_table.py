"""Tables that are binned on a device, beside those of the CPU: the same bits."""

import numpy as np
import pytest

from precede import BoostedRanker
from precede.engine.execution import Context
from precede.engine.table import Table


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", ["C", "F"])
@pytest.mark.parametrize("max_bins", [2, 63, 255])
@pytest.mark.parametrize("weighted", [False, True])
def test_cuts_codes_and_order(device, dtype, layout, max_bins, weighted):
    rng = np.random.default_rng(max_bins)
    rows = 200_000
    X = rng.normal(size=(rows, 40))
    X[:, 1] = rng.integers(-2, 3, rows)
    X[:, 2] = np.where(rng.random(rows) < 0.7, 0.0, X[:, 2])
    X[:, 3] = np.nan
    X[:, 4] = 7.0
    X[:, 5] = rng.integers(0, 256, rows)
    X[:, 6] = rng.integers(0, 257, rows)
    X[:, 7:20][rng.random((rows, 13)) < 0.05] = np.nan
    X = np.array(X, dtype, order=layout)
    order = rng.permutation(rows)[:150_000]
    weight = rng.choice([0.1, 1.0, 40.0], order.size) if weighted else np.ones(order.size)
    given = {"order": order, "weight": weight, "max_bins": max_bins}
    context = Context(1, device)
    here, there = Table.build(X, **given), Table.build(X, **given, context=context)
    assert device.holds(there._stored_codes)
    for one, other in zip(here.bins.cuts, there.bins.cuts, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(here.bins.has_missing, there.bins.has_missing)
    np.testing.assert_array_equal(here.codes, there.codes)
    keys = here.keys(given["weight"], Context(1))
    np.testing.assert_array_equal(keys, there.keys(given["weight"], context))
    run = np.sort(rng.integers(0, 30, order.size))
    for key in (keys, keys % np.uint64(50)):  # equal keys stay in their order
        np.testing.assert_array_equal(np.lexsort((key, run)), device.sort_levels(key, run, context))


@pytest.mark.parametrize("kind", ["cupy", "torch", "dlpack"])
def test_rows_on_the_device(device, kind):
    """They are binned where they are; targets there are copied."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100_000, 5)).astype(np.float32)
    y, qid = rng.integers(0, 3, len(X)), np.arange(len(X)) // 100
    here = BoostedRanker(n_estimators=3).fit(X, y, qid=qid)
    there = device.put(X)
    if kind != "cupy":
        torch = pytest.importorskip("torch")
        there = torch.from_numpy(X).cuda()
    if kind == "dlpack":
        there = OfOthers(there)
    model = BoostedRanker(n_estimators=3, device="cuda")
    model.fit(there, device.put(y), qid=device.put(qid))
    assert here.ensemble_.to_dict() == model.ensemble_.to_dict()
    np.testing.assert_array_equal(device.get(model.predict(there)), here.predict(X))


class OfOthers:
    """An array that knows nothing but DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **given):
        return self.array.__dlpack__(**given)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()
