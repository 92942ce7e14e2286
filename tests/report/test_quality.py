"""Metrics, comparisons and training data, as the library's own functions give them."""

import numpy as np
import pytest

from precede import Judgments, RankBoost, Report
from precede.boosting.monitors import pairs_in_order
from precede.inference import auc, compare, holm, ranking_risk
from precede.metrics import evaluate, metric
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


@pytest.fixture(scope="module")
def three(ranked, search):
    X, y, qid = search
    generator = np.random.default_rng(0)
    scores = {"noise": generator.normal(size=len(y)), "close": ranked[0].predict(X) + 1e-9 * y}
    return scores, Report(ranked[0], X, y, qid=qid, scores=scores)


def test_differences_are_paired_and_adjusted(three, ranked, search):
    X, y, qid = search
    scores, report = three
    own = ranked[0].predict(X)
    compared = report.facts["comparison"]
    assert compared["first"] == "RankBoost"
    assert [row["name"] for row in compared["rows"]] == ["noise", "close"]
    p_values = []
    for row in compared["rows"]:
        for each in row["differences"]:
            name = "pair_error" if each["metric"] == "pairs_in_order" else each["metric"]
            found = compare(y, own, scores[row["name"]], qid, metric=metric(name))
            sign = -1 if each["metric"] == "pairs_in_order" else 1
            assert each["difference"] == pytest.approx(sign * found.difference)
            if found.std_error is not None:
                ends = sorted(sign * end for end in found.interval())
                assert [each["low"], each["high"]] == pytest.approx(ends)
            assert each["p_value"] == found.p_value
        p_values.append(row["differences"][0]["p_value"])
    assert [row["adjusted"] for row in compared["rows"]] == holm(p_values).tolist()


def test_queries_won_and_lost(three, ranked, search):
    X, y, qid = search
    scores, report = three
    own, noise = (
        evaluate(y, each, qid, metrics="ndcg@10").per_query["ndcg@10"]
        for each in (ranked[0].predict(X), scores["noise"])
    )
    row = report.facts["comparison"]["rows"][0]
    with np.errstate(invalid="ignore"):
        assert row["won"] == (own > noise).sum()
        assert row["lost"] == (own < noise).sum()
        assert row["tied"] == (own == noise).sum()


def test_an_opened_query_has_the_ranks_of_the_others(three, search):
    _, y, qid = search
    scores, report = three
    entry = report.facts["queries"]["rows"][0]
    mine = np.flatnonzero(qid == entry["query"])
    order = mine[np.lexsort((y[mine], -scores["noise"][mine]))].tolist()
    ranks = [order.index(row) + 1 for row in entry["list"]["row"]]
    assert entry["list"]["others"][0] == ranks


def test_the_page_and_markdown_show_all(three):
    report = three[1]
    page, text = report.to_html(), report.to_markdown()
    assert "RankBoost against the others" in page
    assert "won, lost, tied" in text
    for name in ("noise", "close"):
        assert name in page
        assert name in text


def test_models_in_a_list_and_by_name(ranked, search):
    X, y, qid = search
    model = ranked[0]
    names = [each["name"] for each in Report([model, model], X, y, qid=qid).facts["models"]]
    assert names == ["RankBoost", "RankBoost 2"]
    report = Report({"new": model, "old": model}, X, y, qid=qid)
    row = report.facts["comparison"]["rows"][0]
    assert (row["won"], row["lost"]) == (0, 0)
    assert row["differences"][0]["difference"] == 0
    assert "cannot be told apart from old" in report.facts["summary"]["sentences"][1]


def test_scores_alone(search):
    _, y, qid = search
    report = Report(scores={"a": y + 0.0, "b": -y + 0.0}, y=y, qid=qid)
    assert report.facts["features"] is None
    assert report.facts["quality"]["pairs_in_order"] == 1
    assert "better than b" in report.facts["summary"]["sentences"][1]
    page = report.to_html()
    for part in ("features", "margins", "learning", "making", "wrong"):
        assert f'id="{part}"' not in page
    with pytest.raises(ValueError, match="scores\\['a'\\]"):
        Report(scores={"a": [1.0]}, y=y, qid=qid)


def test_one_list_is_compared_by_the_auc(two_classes):
    model, X, y, _ = two_classes
    other = X[:, 0]
    report = Report(model, X, y, scores={"first column": other})
    positive = y == "yes"
    found = compare(positive, model.predict(X), other, metric="auc")
    each = report.facts["comparison"]["rows"][0]["differences"][0]
    assert (each["metric"], each["difference"]) == ("auc", found.difference)
    assert each["p_value"] == found.p_value
    assert report.facts["comparison"]["rows"][0]["won"] is None


def test_weighted_rows_are_not_compared(ranked, search):
    X, y, qid = search
    weight = np.repeat(1.0, len(y))
    report = Report(ranked[0], X, y, qid=qid, sample_weight=weight, scores={"a": X[:, 0] * 0})
    assert "the rows are weighted" in report.facts["summary"]["sentences"][1]
    with pytest.raises(ValueError, match="both called 'RankBoost'"):
        Report(ranked[0], X, y, qid=qid, scores={"RankBoost": y + 0.0})


def test_differences_are_those_of_the_means_shown(search):
    """Also of pairs in order, whose mean over queries is not their share among all pairs."""
    X, y, qid = search
    scores = {"one": np.nan_to_num(X[:, 0]), "other": np.nan_to_num(X[:, 1])}
    for metrics in (None, ["pair_error"]):
        facts = Report(scores=scores, y=y, qid=qid, metrics=metrics).facts
        one, other = (each["quality"]["metrics"] for each in facts["models"])
        differences = facts["comparison"]["rows"][0]["differences"]
        for mine, its, each in zip(one, other, differences, strict=True):
            assert each["metric"] == mine["metric"]
            assert each["difference"] == pytest.approx(mine["value"] - its["value"], abs=1e-12)


@pytest.mark.parametrize("queries", [False, True])
def test_listed_pairs_have_intervals_and_are_compared(queries):
    generator = np.random.default_rng(1)
    a, b = generator.normal(size=(2, 60))
    qid = np.repeat(np.arange(6), 10)
    sides = np.array([generator.choice(10, 2, replace=False) + 10 * (k % 6) for k in range(150)])
    noisy = a + generator.normal(size=60)
    up = noisy[sides[:, 0]] > noisy[sides[:, 1]]
    pairs = np.where(up[:, None], sides, sides[:, ::-1])
    given = {"qid": qid} if queries else {}
    report = Report(scores={"a": a, "b": b}, pairs=pairs, item="answer", **given)
    judged = Judgments(pairs=pairs, n=60, **given)
    kind, name = ("pooled", "pooled_pair_error") if queries else ("comparable", "pair_error")
    risk, gap = ranking_risk(judged, a, pairs=kind), compare(judged, a, b, metric=name)
    [row] = report.facts["quality"]["metrics"]
    assert (
        row["value"] == report.facts["quality"]["pairs_in_order"] == pytest.approx(1 - risk.value)
    )
    assert (row["low"], row["high"]) == (1 - risk.interval().high, 1 - risk.interval().low)
    [told] = report.facts["comparison"]["rows"][0]["differences"]
    assert told["difference"] == pytest.approx(-gap.difference)
    assert (told["low"], told["high"]) == (-gap.interval().high, -gap.interval().low)
    assert told["p_value"] == gap.p_value
    sentence = report.facts["summary"]["sentences"][0]
    assert sentence.startswith("On 150 pairs of answers a puts")
    page = report.to_html()
    assert "share of the pairs in order, with intervals" in page  # the chart of the first screen
    assert "are not independent; the interval allows for that" in page


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
