"""The worst pair of a query, explained."""

import pytest

from precede import Judgments

pytestmark = pytest.mark.filterwarnings("ignore::precede.boost.SmoothedStepWarning")


def test_the_worst_pair_is_the_worst_of_all_and_explained(ranked, search):
    X, y, qid = search
    model, report = ranked
    scores = model.predict(X)
    wrong = report.facts["wrong"]
    listed = [row["query"] for row in report.facts["queries"]["rows"]]
    shown = [entry["query"] for entry in wrong["queries"]]
    assert shown == [query for query in listed if query in shown]
    for entry in wrong["queries"]:
        pairs = Judgments(y, qid).pairs_of(entry["query"])
        worst = max(scores[k] - scores[i] for i, k in pairs)
        first = entry["pairs"][0]
        assert first["difference"] == worst > 0
        upper, lower = first["upper"]["row"], first["lower"]["row"]
        assert y[upper] < y[lower]
        why = model.explain_pair(X, upper, lower)
        assert [f["name"] for f in first["features"]] == list(why.names[:6])
        assert [f["contribution"] for f in first["features"]] == why.contributions[:6].tolist()
        rows = [
            row for pair in entry["pairs"] for row in (pair["upper"]["row"], pair["lower"]["row"])
        ]
        assert len(set(rows)) == len(rows)
        assert set(rows) == {d["row"] for d in entry["documents"] if d["wrong"]}
