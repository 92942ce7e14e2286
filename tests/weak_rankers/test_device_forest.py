"""Prediction of trees on an emulated device."""

import numpy as np
import pytest

from emulated_device import EmulatedDevice, needs_compiler
from precede import BoostedRanker, Stump
from precede.weak_rankers.device_trees import DeviceForest

pytestmark = needs_compiler


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5))
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, BoostedRanker(n_estimators=8).fit(X, np.nan_to_num(X[:, 1]) > 0).ensemble_


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_scores(fitted, kind):
    X, model = fitted
    device = EmulatedDevice()
    forest = DeviceForest(device, model.weak_rankers, model.weights)
    rows = X.astype(kind)
    np.testing.assert_array_equal(forest.scores(device.put(rows)).get(), model.predict(rows))
    assert forest.scores(device.put(rows[:0])).shape == (0,)


def test_other_rankers_and_many_features_are_refused(fitted):
    X, model = fitted
    device = EmulatedDevice()
    with pytest.raises(ValueError, match="only trees without categories"):
        DeviceForest(device, [Stump(0, 0.5)], [1.0])
    forest = DeviceForest(device, model.weak_rankers, model.weights)
    forest._n_features = 10_000
    with pytest.raises(ValueError, match="reads 10000 features"):
        forest.scores(device.put(X))
