"""Scores of arrays on a device beside those of the CPU: the same bits."""

import numpy as np
import pytest

from precede import BoostedRanker, RankBoost


@pytest.mark.parametrize("leaves", [2, 31, 200])
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64])
def test_scores_are_equal_to_the_bit(device, leaves, kind):
    rng = np.random.default_rng(leaves)
    X = (3 * rng.normal(size=(5000, 40))).astype(kind)
    if kind != np.int64:
        X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nan_to_num(X[:, 0]) + rng.normal(size=5000) > 0
    model = BoostedRanker(num_leaves=leaves, n_estimators=20, min_child_samples=2).fit(X, y)
    there = device.put(X)
    found = model.predict(there)
    assert device.holds(found)
    np.testing.assert_array_equal(found.get(), model.predict(X))
    np.testing.assert_array_equal(
        model.predict(there[::3], num_iteration=7).get(), model.predict(X[::3], num_iteration=7)
    )
    assert model.predict(there[:0]).shape == (0,)


def test_arrays_of_others_are_scored_without_a_copy(device):
    torch = pytest.importorskip("torch")
    X = np.random.default_rng(0).normal(size=(500, 3))
    model = BoostedRanker(n_estimators=5).fit(X, X[:, 0] > 0)
    there = torch.from_numpy(X).cuda()
    assert device.adopt(there).data.ptr == there.data_ptr()
    np.testing.assert_array_equal(model.predict(there).get(), model.predict(X))


def test_what_cannot_be_scored_there_is_refused(device):
    X = np.random.default_rng(0).normal(size=(500, 3))
    model = RankBoost(n_estimators=5).fit(X, X[:, 0] > 0)
    with pytest.raises(ValueError, match="only trees without categories"):
        model.predict(device.put(X))
    trees = BoostedRanker(n_estimators=5).fit(X, X[:, 0] > 0)
    with pytest.raises(ValueError, match="X has 2 features"):
        trees.predict(device.put(X[:, :2]))
    with pytest.raises(ValueError, match="give a matrix of numbers"):
        trees.predict(device.put(X[:, 0]))
