"""Metrics, queries and the top of the list, as the library's own functions give them."""

import numpy as np
import pytest

from precede import Judgments, RankBoost, Report
from precede.boosting.monitors import pairs_in_order
from precede.inference import auc, ranking_risk
from precede.metrics import evaluate
from precede.top import top_of_list

pytestmark = pytest.mark.filterwarnings("ignore::precede.boost.SmoothedStepWarning")


def test_metrics_are_those_of_evaluate_with_its_intervals(ranked, search):
    X, y, qid = search
    model, report = ranked
    scores = model.predict(X)
    result = evaluate(y, scores, qid)
    quality = report.facts["quality"]
    assert quality["pairs_in_order"] == pairs_in_order(Judgments(y, qid), scores)
    assert [row["metric"] for row in quality["metrics"]] == list(result.mean)
    for row in quality["metrics"]:
        assert row["value"] == result.mean[row["metric"]]
        assert (row["low"], row["high"]) == tuple(result.interval(row["metric"]))
        assert row["skipped"] == result.skipped[row["metric"]]


def test_queries_are_the_worst_first_with_their_own_values(ranked, search):
    X, y, qid = search
    model, report = ranked
    scores = model.predict(X)
    queries = report.facts["queries"]
    assert queries["main"] == "ndcg@10"
    values = [row["values"]["ndcg@10"] for row in queries["rows"]]
    known = [value for value in values if value is not None]
    assert known == sorted(known)
    assert len(values) == np.unique(qid).size == queries["count"]
    for row in queries["rows"]:
        mine = qid == row["query"]
        assert row["rows"] == mine.sum()
        assert row["pairs"] == Judgments(y[mine]).n_pairs
        if row["pairs"]:
            alone = evaluate(y[mine], scores[mine], metrics=["ndcg@10", "pair_error"]).mean
            assert row["values"]["ndcg@10"] == pytest.approx(alone["ndcg@10"])
            assert row["values"]["pair_error"] == pytest.approx(alone["pair_error"])
        order = np.lexsort((y[mine], -scores[mine]))[:10]
        assert row["first_grades"] == y[mine][order].tolist()


def test_first_places_are_counted_over_queries(ranked, search):
    X, y, qid = search
    model, report = ranked
    scores = model.predict(X)
    first, best = [], []
    for query in np.unique(qid):
        mine = qid == query
        first.append(y[mine][np.lexsort((y[mine], -scores[mine]))[0]])
        best.append(y[mine].max())
    first_rank = report.facts["top"]["ranks"][0]
    assert first_rank["mean_grade"] == np.mean(first)
    assert first_rank["best_mean_grade"] == np.mean(best)
    assert first_rank["shares"]["1"] == np.mean(np.array(first) == 1)
    assert sum(first_rank["shares"].values()) == pytest.approx(1)


def test_two_classes_have_a_top_and_an_interval_of_the_auc(two_classes):
    model, X, y, report = two_classes
    scores, positive = model.predict(X), y == "yes"
    estimate = auc(positive, scores)
    rows = {row["metric"]: row for row in report.facts["quality"]["metrics"]}
    assert rows["auc"]["value"] == estimate.value
    assert (rows["auc"]["low"], rows["auc"]["high"]) == tuple(estimate.interval())
    error = ranking_risk(positive, scores, pairs="comparable")
    assert rows["pair_error"]["value"] == error.value
    top = report.facts["top"]
    seen = top_of_list(positive, scores, random_state=0)
    assert {m["measure"]: m["value"] for m in top["measures"]} == seen.value
    assert top["curve"]["positives"][0] == seen.value["positives_above_first_negative"]
    assert report.facts["data"]["classes"] == ["no", "yes"]
    assert {d["grade"] for d in top["documents"]} <= {"no", "yes"}
    assert report.facts["queries"] is None
    assert 'id="queries"' not in report.to_html()


def test_metrics_asked_for_are_shown(search):
    X, y, qid = search
    model = RankBoost(n_estimators=2, step="bound").fit(X, y, qid=qid)
    report = Report(model, X, y, qid=qid, metrics=["pair_error", "mrr"], level=0.8)
    assert [row["metric"] for row in report.facts["quality"]["metrics"]] == ["pair_error", "mrr"]
    assert report.facts["queries"]["columns"] == ["pair_error", "mrr"]
    values = [row["values"]["pair_error"] for row in report.facts["queries"]["rows"]]
    known = [value for value in values if value is not None]
    assert known == sorted(known, reverse=True)
    assert "80 % interval" in report.to_html()
