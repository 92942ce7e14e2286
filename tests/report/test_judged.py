"""Metrics, queries and the top of the list, as the library's own functions give them."""

import numpy as np
import pytest

from precede import Judgments, RankBoost, Report
from precede.boosting.monitors import pairs_in_order
from precede.inference import auc
from precede.metrics import evaluate
from precede.top import top_of_list

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


def test_metrics_are_those_of_evaluate_with_its_intervals(ranked, search):
    X, y, qid = search
    model, report = ranked
    scores = model.predict(X)
    result = evaluate(y, scores, qid)
    half = evaluate(y, scores, qid, metrics="pair_error", ties="average")
    assert half.mean["pair_error"] < result.mean["pair_error"]  # there are equal scores
    quality = report.facts["quality"]
    assert quality["pairs_in_order"] == pairs_in_order(Judgments(y, qid), scores)
    names = {"pair_error": "pairs_in_order"}
    told = [names.get(name, name) for name in result.mean if name != "auc"]
    assert [row["metric"] for row in quality["metrics"]] == told
    for row in quality["metrics"]:
        if row["metric"] == "pairs_in_order":
            low, high = half.interval("pair_error")
            assert row["value"] == 1 - half.mean["pair_error"]
            assert (row["low"], row["high"]) == (1 - high, 1 - low)
            continue
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
            alone = evaluate(y[mine], scores[mine], metrics="ndcg@10").mean
            assert row["values"]["ndcg@10"] == pytest.approx(alone["ndcg@10"])
            in_order = pairs_in_order(Judgments(y[mine]), scores[mine])
            assert row["values"]["pairs_in_order"] == pytest.approx(in_order)
        order = np.lexsort((y[mine], -scores[mine]))[:10]
        assert row["first_grades"] == y[mine][order].tolist()
        order = np.lexsort((y[mine], -scores[mine]))[:40]
        assert row["list"]["row"] == np.flatnonzero(mine)[order].tolist()
        assert row["list"]["grade"] == y[mine][order].tolist()


def test_an_opened_query_tells_what_moved_each_score(ranked, search):
    X, _, _ = search
    model, report = ranked
    queries = report.facts["queries"]
    told = model.explain(X).contributions
    shown = [row for entry in queries["rows"] for row in entry["list"]["row"]]
    away = told - told[shown].mean(axis=0)
    for entry in queries["rows"]:
        for row, why in zip(entry["list"]["row"], entry["list"]["why"], strict=True):
            largest = np.sort(np.abs(away[row]))[::-1]
            for (feature, amount), size in zip(why, largest, strict=False):
                assert amount == pytest.approx(away[row, feature], rel=5e-3)
                assert abs(amount) == pytest.approx(size, rel=5e-3)
    assert queries["features"] == [f"x{j}" for j in range(X.shape[1])]


def test_first_places_are_counted_over_queries(ranked, search):
    X, y, qid = search
    model, report = ranked
    scores = model.predict(X)
    first, best = [], []
    for query in np.unique(qid):
        mine = qid == query
        first.append(y[mine][np.lexsort((y[mine], -scores[mine]))[0]])
        best.append(y[mine].max())
    told = report.facts["first"]
    assert told["models"]["RankBoost"][0] == np.mean(first)
    assert told["best"][0] == np.mean(best)
    place = told["shares"][0]
    assert place["shares"]["1"] == np.mean(np.array(first) == 1)
    assert sum(place["shares"].values()) == pytest.approx(1)


def test_two_classes_have_a_top_and_an_interval_of_the_auc(two_classes):
    model, X, y, report = two_classes
    scores, positive = model.predict(X), y == "yes"
    estimate = auc(positive, scores)
    rows = {row["metric"]: row for row in report.facts["quality"]["metrics"]}
    assert rows["auc"]["value"] == estimate.value
    assert (rows["auc"]["low"], rows["auc"]["high"]) == tuple(estimate.interval())
    assert list(rows) == ["auc"]
    found = report.facts["list"]
    seen = top_of_list(positive, scores, random_state=0).value
    top = {m["measure"]: m["value"] for m in found["top"]}
    assert top.items() <= seen.items()
    assert "positives_above_first_negative" in top
    assert report.facts["data"]["classes"] == ["no", "yes"]
    assert {d["grade"] for d in report.facts["documents"]} <= {"no", "yes"}
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
