"""Training data beside held-out data."""

import numpy as np
import pytest

from precede import Judgments, Report
from precede.metrics import evaluate

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


def test_both_are_measured_alike(ranked, search):
    X, y, qid = search
    model = ranked[0]
    other = np.array([f"t{each}" for each in qid], object)
    report = Report(model, X + 0.001, y, qid=qid, train=(X, y, other))
    training = report.facts["training"]
    values = {row["metric"]: row["value"] for row in training["models"][0]["metrics"]}
    assert (
        values["ndcg@10"] == evaluate(y, model.predict(X), other, metrics="ndcg@10").mean["ndcg@10"]
    )
    assert (training["shared_queries"], training["shared_rows"]) == (0, 0)
    assert "held-out queries" in report.facts["summary"]["sentences"][0]
    assert report.facts["summary"]["note"] == ""
    assert "RankBoost, training" in report.to_html()
    assert "RankBoost, training" in report.to_markdown()


def test_what_is_in_both_is_warned_of(ranked, search):
    X, y, qid = search
    model = ranked[0]
    report = Report(model, X, y, qid=qid, train=(X, Judgments(y, qid)))
    assert report.facts["training"]["shared_queries"] == np.unique(qid).size
    assert report.facts["training"]["shared_rows"] == len(X)
    assert "are in the training data too" in report.facts["summary"]["warnings"][0]
    assert "held-out" not in report.facts["summary"]["sentences"][0]


def test_a_model_that_has_learned_by_heart_is_warned_of():
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(400, 5)), generator.integers(0, 2, 400)
    from precede import BoostedRanker

    model = BoostedRanker(n_estimators=30, min_child_samples=2).fit(X[:200], y[:200])
    report = Report(model, X[200:], y[200:], train=(X[:200], y[:200]))
    assert any("training data only" in each for each in report.facts["summary"]["warnings"])


@pytest.mark.parametrize("train", [3, (1,), "abcd"])
def test_what_is_no_training_data_is_refused(ranked, search, train):
    X, y, qid = search
    with pytest.raises(ValueError, match="train must be"):
        Report(ranked[0], X, y, qid=qid, train=train)


def test_training_data_need_a_model(search):
    X, y, qid = search
    with pytest.raises(ValueError, match="train needs a model"):
        Report(scores={"a": y + 0.0}, y=y, qid=qid, train=(X, y, qid))
