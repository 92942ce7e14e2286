"""What a report is about: what is refused, and one prediction for everything."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import precede
from precede import Judgments, RankBoost, Report, margins

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 1.0}, "level=1.0"),
        ({"max_queries": 0}, "max_queries"),
        ({"docid": ["a"]}, "docid has 1 names"),
        ({"metrics": ["nonsense"]}, "nonsense"),
        ({"order": ["other"]}, "must list every name once"),
        ({"order": ["RankBoost", "RankBoost"]}, "must list every name once"),
        ({"order": "RankBoost"}, "must list every name once"),
    ],
)
def test_bad_options_are_refused(ranked, search, options, message):
    X, y, qid = search
    with pytest.raises(ValueError, match=message):
        Report(ranked[0], X, y, qid=qid, **options)


def test_what_is_no_fitted_ranker_is_refused(search):
    X, y, qid = search
    with pytest.raises(NotFittedError):
        Report(RankBoost(), X, y, qid=qid)
    with pytest.raises(ValueError, match="not int"):
        Report(3, X, y)
    with pytest.raises(ValueError, match="nothing to report on"):
        Report(None, X, y)
    with pytest.raises(ValueError, match="a report needs y"):
        Report(RankBoost(n_estimators=1, step="bound").fit(X, y, qid=qid), X)
    with pytest.raises(ValueError, match="have 3 rows"):
        Report(RankBoost(n_estimators=1, step="bound").fit(X, y, qid=qid), X, Judgments([0, 1, 2]))
    labels = np.stack([y > 0, y > 1, y > 2], axis=1).astype(int)
    several = precede.MultilabelRanker(n_estimators=1).fit(np.nan_to_num(X), labels)
    with pytest.raises(ValueError, match="gives a row 3 scores"):
        Report(several, np.nan_to_num(X), labels)


def test_the_model_predicts_once(monkeypatch):
    X, y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 0, 1, 0, 1])
    model = RankBoost(n_estimators=3, step="bound").fit(X, y)
    calls = []
    predict = RankBoost.predict
    monkeypatch.setattr(
        RankBoost, "predict", lambda self, given: calls.append(1) or predict(self, given)
    )
    report = Report(model, X, y)
    assert calls == [1]
    assert report.facts["margins"]["distribution"]["least"] == margins(model, X, y).minimum
