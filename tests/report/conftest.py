"""Models and reports that the tests of reports share."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer

from precede import RankBoost, Report
from precede.datasets import search_results


@pytest.fixture(scope="module")
def search():
    sample = search_results(14, features=6, per_query=10, informative=4, random_state=3)
    X, y, qid = sample.X.astype(np.float64), sample.y.copy(), sample.qid
    X[::9, 1] = np.nan
    X[:, 5] = 7.0
    y[qid == 2] = 1  # a query without a pair
    return X, y, np.array([f"q{k:02d}" for k in qid], object)


@pytest.fixture(scope="module")
def ranked(search):
    X, y, qid = search
    model = RankBoost(n_estimators=12, learning_rate=0.5).fit(
        X, y, qid=qid, eval_set=(X, y), eval_qid=[qid]
    )
    return model, Report(model, X, y, qid=qid, date="2024-05-01")


@pytest.fixture(scope="module")
def two_classes():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[::4, :6], pd.Categorical.from_codes(y[::4], ["no", "yes"], ordered=True)
    model = RankBoost(n_estimators=6, step="bound").fit(X, y)
    return model, X, y, Report(model, X, y)
