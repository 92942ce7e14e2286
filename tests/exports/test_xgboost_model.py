"""Models that XGBoost reads."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_array_equal

from exports.readers import SINGLE_ROWS, booster_of, close, fitted, in_single, stump_models
from precede.exports.parts import Parts
from precede.exports.search_engines import xgboost_dump_text
from precede.exports.xgboost_model import xgboost_text

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


@settings(max_examples=20)
@given(stump_models(), SINGLE_ROWS)
def test_xgboost_predicts_the_same(ensemble, rows):
    X, parts = np.array(rows), Parts.of(fitted(ensemble, ["a", "b", "c"]))
    xgboost, booster = booster_of(xgboost_text(parts))
    data = xgboost.DMatrix(X, feature_names=["a", "b", "c"])
    close(booster.predict(data), ensemble.predict(X), ensemble)
    # What it dumps, and what it saves again, is what we write.
    dumped = [json.loads(tree) for tree in booster.get_dump(dump_format="json")]
    assert in_single(dumped) == in_single(json.loads(xgboost_dump_text(parts, missing="zero")))
    again = xgboost.Booster()
    again.load_model(booster.save_raw("json"))
    assert_array_equal(again.predict(data), booster.predict(data))
