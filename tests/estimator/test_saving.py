"""Models that are written, copied and read back."""

import json
import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from precede import RankBoost, load
from samples import CONFIGURATIONS, data, same_model

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


def test_models_saved_before_queries_were_kept_are_read(tmp_path):
    X, y, qid = data()
    path = tmp_path / "model.json"
    RankBoost(n_estimators=2).fit(X, y, qid=qid).save(path)
    fields = json.loads(path.read_text())
    assert fields.pop("queries") is True
    path.write_text(json.dumps(fields))
    model = load(path)
    assert not model.has_queries_
    assert model.score(X, y) > 0.5  # and nothing is said, for nothing is known


@pytest.mark.parametrize("name", ["model.onnx", "model.PKL", "ranker.py"])
def test_models_are_not_named_for_what_is_not_in_the_file(tmp_path, name):
    X, y, qid = data()
    model = RankBoost(n_estimators=2).fit(X, y, qid=qid)
    with pytest.raises(
        ValueError, match=r"saved as JSON, not as \.\w+; .*\.json; .*(precede.export|pickles)"
    ):
        model.save(tmp_path / name)
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("model", CONFIGURATIONS, ids=repr)
def test_clones_and_pickles_are_equal(model):
    X, y, qid = data()
    assert clone(model).get_params() == model.get_params()
    fitted = clone(model).fit(X, y, qid=qid)
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(again.predict(X), fitted.predict(X))
    same_model(again, fitted)
    assert not hasattr(clone(fitted), "ensemble_")


def test_a_fitted_model_does_not_keep_the_data():
    """A pickle is small, however many rows there were."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 10))
    model = RankBoost(n_estimators=3).fit(X, X[:, 0] > rng.standard_normal(20_000))
    assert len(pickle.dumps(model)) < 10_000
    before = set(vars(model))
    model.score(X, X[:, 1] > 0)
    assert set(vars(model)) == before
