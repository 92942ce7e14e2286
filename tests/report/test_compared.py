"""Several candidates: differences are those of `inference.compare`, queries won are counted."""

import numpy as np
import pytest

from precede import Judgments, Report
from precede.inference import compare, holm, ranking_risk
from precede.metrics import evaluate, metric

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


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
