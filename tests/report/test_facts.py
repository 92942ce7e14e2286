"""All facts together: plain data, the same for equal inputs."""

import json

import pytest

from precede import Report

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")

PARTS = {
    "title", "date", "words", "summary", "quality", "models", "training", "comparison", "first",
    "list", "documents", "slices", "queries", "wrong", "features", "margins", "learning", "data",
    "ties", "versions",
}  # fmt: skip


def test_every_part_is_there_and_plain(ranked, two_classes):
    for report in (ranked[1], two_classes[3]):
        assert set(report.facts) == PARTS
        assert json.loads(json.dumps(report.facts, allow_nan=False)) == report.facts
        assert report.facts["quality"] == report.facts["models"][0]["quality"]


def test_scores_have_the_same_parts():
    assert set(Report(scores={"a": [1.0, 2.0]}, y=[0, 1]).facts) == PARTS
