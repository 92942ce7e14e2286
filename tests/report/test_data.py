"""What a report says of the data and the parameters."""

import re

import numpy as np
import pytest

from precede import Judgments, RankBoost, Report

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


def test_the_data_are_counted(ranked, search):
    X, y, qid = search
    data = ranked[1].facts["data"]
    assert (data["rows"], data["features"]) == X.shape
    assert data["pairs"] == Judgments(y, qid).n_pairs
    sizes = np.unique(qid, return_counts=True)[1]
    assert data["queries"] == {
        "count": sizes.size, "least_rows": sizes.min(), "median_rows": np.median(sizes),
        "most_rows": sizes.max(),
    }  # fmt: skip
    assert {g["grade"]: g["rows"] for g in data["grades"]["counts"]} == {
        int(v): int((y == v).sum()) for v in np.unique(y)
    }
    assert data["missing_cells"] == np.isnan(X).sum()
    assert [m["name"] for m in data["missing"]] == ["x1"]


def test_warnings_name_what_is_wrong(ranked, search):
    _, y, qid = search
    alike = [query for query in np.unique(qid) if np.ptp(y[qid == query]) == 0]
    columns, queries = sorted(ranked[1].facts["data"]["warnings"], key=lambda each: each["text"])
    assert columns == {"text": "column with one value throughout", "count": 1, "names": ["x5"]}
    assert queries["text"].endswith("without a pair to compare")
    assert queries["names"] == alike
    assert "q02" in alike


def test_more_warnings():
    X = np.array([[0.0, np.nan], [1.0, np.nan], [2.0, np.nan], [3.0, np.nan]])
    model = RankBoost(n_estimators=1, step="bound").fit(X, [0, 0, 1, 1])
    judgments = Judgments([0, 1, np.nan, 1], weight=[1, 1, 1, 0])
    found = Report(model, X, judgments, docid=list("abcd")).facts["data"]["warnings"]
    assert [(w["text"], w["names"]) for w in found] == [
        ("column without any value", ["x1"]),
        ("row without a grade, left out", ["c"]),
        ("row of weight 0, left out", ["d"]),
    ]


def test_parameters_do_not_tell_addresses(search):
    X, y, qid = search

    def watch(progress):
        return False

    class Odd:
        def __call__(self, progress):
            return False

    model = RankBoost(n_estimators=2, callbacks=[watch, Odd()]).fit(X, y, qid=qid)
    told = Report(model, X, y, qid=qid).facts["models"][0]["making"]["parameters"]["callbacks"]
    assert "watch" in told[0]
    assert not any(re.search("0x", each) for each in told)
