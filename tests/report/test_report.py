"""Pages, Markdown and JSON: they agree, are safe and complete, for every estimator."""

import hashlib
import html
import json
import re
from base64 import b64encode
from html.parser import HTMLParser
from importlib import resources

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import precede
from precede import (
    AdaBoostRanker,
    BoostedRanker,
    ConvexRiskRanker,
    Judgments,
    PushRanker,
    RankBoost,
    RankBoostPlus,
    Report,
    SmoothMarginRanker,
)
from precede.boosting.monitors import pairs_in_order
from precede.metrics import evaluate
from precede.report.wording import in_units, metric_name, number

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


HOSTILE = '</script><script>alert(1)</script><img src=x onerror="alert(2)">|`*'
ESTIMATORS = [
    RankBoost, PushRanker, SmoothMarginRanker, ConvexRiskRanker, RankBoostPlus, BoostedRanker,
    AdaBoostRanker,
]  # fmt: skip


class Page(HTMLParser):
    """Elements, attributes and texts of a page, as a browser reads them."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self.scripts = [], [], []
        self._inside = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        (self.scripts if self._inside == "script" else self.texts).append(data)

    def all(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: each.__name__)
def test_every_estimator_has_a_report(estimator, search):
    X, y, qid = search
    X = np.nan_to_num(X)
    if estimator is AdaBoostRanker:
        y, qid = (y > 1).astype(int), None
    model = estimator(n_estimators=4).fit(X, y, qid=qid)
    report = Report(model, X, y, qid=qid)
    facts = report.facts
    assert facts["quality"]["pairs_in_order"] == pairs_in_order(Judgments(y, qid), model.predict(X))
    assert facts["models"][0]["estimator"] == estimator.__name__
    certificate = {each["what"]: each["value"] for each in facts["margins"]["certificate"]}
    if estimator is SmoothMarginRanker:
        assert certificate["best margin possible: at most"] == model.margin_interval_[1]
    if estimator is ConvexRiskRanker:
        assert certificate["the risk is above the least possible by at most"] == model.gap_
    trees = estimator is BoostedRanker
    assert facts["features"]["kind"] == ("effects" if trees else "shapes")
    page = Page(report.to_html())
    assert len(page.all("section")) == len([b for b in page.all("button") if "aria-controls" in b])
    assert ("queries" in {s["id"] for s in page.all("section")}) == (qid is not None)
    assert json.loads(report.to_json()) == facts
    assert estimator.__name__ in report.to_markdown()


def test_equal_inputs_give_equal_bytes(ranked, search):
    X, y, qid = search
    model, report = ranked
    again = Report(model, X, y, qid=qid, date="2024-05-01")
    assert again.to_html() == report.to_html()
    assert again.to_json() == report.to_json()
    assert "2024-05-01" in report.to_html()
    assert Report(model, X, y, qid=qid).facts["date"] is None


def test_hostile_names_are_shown_and_do_nothing(search):
    import pandas as pd

    X, y, qid = search
    frame = pd.DataFrame(X, columns=[f"{HOSTILE}{j}" for j in range(X.shape[1])])
    names = np.array([f"{HOSTILE}{each}" for each in qid], object)
    model = RankBoost(n_estimators=5, step="bound").fit(frame, y, qid=names)
    documents = [f"{HOSTILE}{row}" for row in range(len(y))]
    report = Report(
        model, frame, y, qid=names, docid=documents, title=HOSTILE, date=HOSTILE
    )  # fmt: skip
    page = Page(report.to_html())
    assert len(page.all("script")) == 2
    assert not page.all("img")
    assert not [a for _, a in page.elements if any(k.startswith("on") for k in a)]
    # The names are there for readers to see, as text.
    seen = "".join(page.texts)
    assert f"{HOSTILE}0" in seen
    assert json.loads(page.scripts[0])["title"] == HOSTILE
    markdown = report.to_markdown()
    assert "<script" not in markdown
    assert "<img" not in markdown
    for line in markdown.splitlines():
        if line.startswith("| ") and "alert" in line:
            assert r"\|" in line


def test_only_our_script_may_run_and_nothing_is_loaded(ranked):
    text = ranked[1].to_html()
    page = Page(text)
    policy = next(m["content"] for m in page.all("meta") if m.get("http-equiv"))
    script = resources.files("precede.report").joinpath("report.js").read_text(encoding="utf-8")
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert page.scripts[-1] == script
    assert policy.startswith("default-src 'none'")
    assert not re.search(r"https?://|@import|url\(", text)
    assert {link["href"] for link in page.all("link")} == {"data:,"}


def test_tabs_name_their_panels(ranked):
    page = Page(ranked[1].to_html())
    panels = {each["id"]: each for each in page.all("section")}
    tabs = [each for each in page.all("button") if each.get("role") == "tab"]
    assert {tab["aria-controls"] for tab in tabs} == set(panels)
    for tab in tabs:
        assert panels[tab["aria-controls"]]["aria-labelledby"] == tab["id"]
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(set(ids)) == len(ids)
    assert all(svg.get("aria-label") or svg.get("aria-hidden") for svg in page.all("svg"))


def test_many_queries_do_not_make_a_large_page():
    generator = np.random.default_rng(0)
    X, qid = generator.normal(size=(9000, 3)), np.repeat(np.arange(3000), 3)
    y = generator.integers(0, 2, 9000)
    model = RankBoost(n_estimators=3, step="bound").fit(X, y, qid=qid)
    report = Report(model, X, y, qid=qid, max_queries=100)
    page = report.to_html()
    assert len(page) < 1_000_000
    assert page.count('<td class="name" data-value=') == 100
    assert "The worst 100 of 3,000 queries by NDCG@10" in page
    assert len(Report(model, X, y, qid=qid).to_html()) < 3_000_000


def test_listed_pairs_alone():
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    pairs = [(3, 0), (2, 0), (3, 1), (2, 1), (1, 3)]
    model = RankBoost(n_estimators=2, step="bound").fit(X, pairs=pairs)
    report = Report(model, X, pairs=pairs)
    assert report.facts["quality"]["pairs_in_order"] == pairs_in_order(
        Judgments(pairs=pairs, n=4), model.predict(X)
    )
    assert [row["metric"] for row in report.facts["quality"]["metrics"]] == ["pairs_in_order"]
    worst = report.facts["wrong"]["listed_pairs"]
    assert [(p["upper"]["row"], p["lower"]["row"]) for p in worst] == [(3, 1)]
    assert "Listed pairs" in report.to_html()
    assert "Listed pairs" in report.to_markdown()


@pytest.mark.filterwarnings("ignore:the model was fitted with queries")
def test_data_without_a_pair_are_told_and_not_measured(ranked, search):
    X, y, qid = search
    model = ranked[0]
    for target in ({"qid": qid}, {}):
        report = Report(model, X, np.ones_like(y), **target)
        assert report.facts["quality"]["pairs_in_order"] is None
        assert report.facts["data"]["warnings"][0]["text"].startswith("no pair at all")
        assert report.facts["margins"]["distribution"] is None
        assert 'id="margins"' not in report.to_html()
        assert "no pair" in repr(report)
        assert "no pair at all" in report.to_html()
        assert "no pair at all" in report.to_markdown()
        assert report.facts["summary"]["sentences"][0].startswith("Nothing can be measured")


def test_many_grades_of_one_list_and_weights():
    generator = np.random.default_rng(1)
    X = generator.normal(size=(60, 2))
    y = X[:, 0] + generator.normal(size=60)
    weight = generator.integers(1, 4, 60)
    model = RankBoost(n_estimators=3, step="bound").fit(X, y)
    report = Report(model, X, y, sample_weight=weight)
    assert report.facts["data"]["grades"]["counts"] is None
    assert report.facts["data"]["weighted"]
    row = report.facts["quality"]["metrics"][0]
    wrong = evaluate(y, model.predict(X), metrics="pair_error", sample_weight=weight)
    assert row["metric"] == "pairs_in_order"
    assert row["value"] == 1 - wrong.mean["pair_error"]
    assert row["no_interval"] == "the rows are weighted"
    assert report.facts["list"] is None
    assert report.facts["slices"] is None
    assert "the rows are weighted" in report.to_html()
    by_query = Report(model, X, y, qid=np.arange(60) // 6)
    assert by_query.facts["first"]["shares"] is None
    assert "mean grade" in by_query.to_html()


def test_sparse_rows_give_the_same_report(search):
    X, y, qid = search
    X = np.nan_to_num(X)
    model = RankBoost(n_estimators=4, step="bound").fit(X, y, qid=qid)
    dense = Report(model, X, y, qid=qid)
    assert Report(model, scipy.sparse.csr_matrix(X), y, qid=qid).facts == dense.facts


def test_a_model_read_from_its_file_has_the_same_report(ranked, search, tmp_path):
    X, y, qid = search
    model, report = ranked
    model.save(tmp_path / "model.json")
    again = Report(precede.load(tmp_path / "model.json"), X, y, qid=qid, date="2024-05-01")
    assert again.to_html() == report.to_html()


def test_the_page_is_written(ranked, tmp_path):
    assert ranked[1].to_html(tmp_path / "report.html") is None
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == ranked[1].to_html()
    ranked[1].to_html(tmp_path / "report.htm.gz")
    for name in ("report", "report 2024.05.01", "report.v1.2"):
        ranked[1].to_html(str(tmp_path / name))


@pytest.mark.parametrize(
    ("method", "name", "told"),
    [
        ("to_html", "r.pdf", r"r.pdf: to_html writes HTML, not .pdf; .* .html, or print"),
        ("to_html", "r.JSON", r"not .json; name the file .html, or call to_json\(\)"),
    ],
)
def test_a_file_is_not_named_for_what_is_not_in_it(ranked, tmp_path, method, name, told):
    with pytest.raises(ValueError, match=told):
        getattr(ranked[1], method)(tmp_path / name)
    assert not (tmp_path / name).exists()


def test_rows_are_known_by_the_index_of_a_data_frame():
    frame = pd.DataFrame({"a": [3.0, 1.0, 2.0, 2.5]}, index=["Ann", "Bob", "Cy", "Di"])
    y, qid = [1, 0, 1, 0], [1, 1, 1, 1]
    model = RankBoost(weak_rankers="columns", n_estimators=2, nonnegative=True).fit(
        frame, y, qid=qid
    )
    assert "Di" in Report(model, frame, y, qid=qid).to_json()
    assert "Di" not in Report(model, frame, y, qid=qid, docid=list("wxyz")).to_json()


def test_notebooks_show_the_page_in_a_frame():
    X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]
    report = Report(RankBoost(n_estimators=2, step="bound").fit(X, y), X, y)
    shown = report._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert html.unescape(re.search('srcdoc="(.*?)"', shown, re.S)[1]) == report.to_html()


def test_a_least_relevant_grade_for_all_metrics():
    sample = precede.datasets.search_results(30, features=4, informative=3, random_state=0)
    y = sample.y + 1
    model = RankBoost(n_estimators=5).fit(sample.X, y, qid=sample.qid)
    scores = model.predict(sample.X)
    with pytest.warns(UserWarning, match="cannot tell rankings apart.*relevant=5 in evaluate and"):
        Report(model, sample.X, y, qid=sample.qid)
    report = Report(model, sample.X, y, qid=sample.qid, relevant=4, train=(sample.X, y, sample.qid))
    wanted = evaluate(y, scores, sample.qid, metrics=["map", "mrr"], relevant=4).mean
    for facts in (report.facts["quality"], report.facts["training"]["models"][0]):
        found = {row["metric"]: row["value"] for row in facts["metrics"]}
        assert found["map(relevant=4)"] == wanted["map"]
        assert found["mrr(relevant=4)"] == wanted["mrr"]
    assert "map(relevant=4)" in report.facts["queries"]["columns"]
    assert "MAP (grade 4 or more)" in report.to_markdown()
    named = Report(model, sample.X, y, qid=sample.qid, relevant=4, metrics="map")
    assert [row["metric"] for row in named.facts["quality"]["metrics"]] == ["map(relevant=4)"]
    with pytest.raises(ValueError, match="relevant=nan"):
        Report(model, sample.X, y, qid=sample.qid, relevant=float("nan"))


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


def test_json_and_markdown_and_the_page_agree(ranked):
    report = ranked[1]
    facts = json.loads(report.to_json())
    assert facts == report.facts
    text, page = report.to_markdown(), report.to_html()
    for row in facts["quality"]["metrics"]:
        shown, low, high = (in_units(row[key], row["metric"]) for key in ("value", "low", "high"))
        ends = f"{low} to {high}"
        over = ", mean over queries" if row["metric"] == "pairs_in_order" else ""
        line = f"| {metric_name(row['metric'])}{over} | {shown} ({ends}) |"
        assert line.replace("\u00a0", " ") in text
        assert f"<strong>{shown}</strong> <small>{ends}</small>" in page
    for sentence in facts["summary"]["sentences"] + facts["summary"]["warnings"]:
        assert sentence.replace("\u00a0", " ") in text
        assert html.escape(sentence) in page
    for row in facts["queries"]["rows"]:
        assert f"| {row['query']} | {row['rows']} | {row['pairs']:,} |" in text
    for row in facts["features"]["rows"]:
        assert f"| {row['name']} | {number(row['weight'])} |" in text
    embedded = re.search(r'<script type="application/json" id="facts">(.*?)</script>', page, re.S)
    assert json.loads(embedded[1]) == facts


def test_two_shares_of_pairs_are_told_apart(ranked):
    text = ranked[1].to_markdown()
    assert "of pairs in order above pools the pairs of all queries" in text


def charts(report):
    """Charts of the page by their text alternative."""
    return {
        name: re.findall(r"<text[^>]*>([^<]*)", inside)
        for name, inside in re.findall(r'<svg [^>]*aria-label="([^"]+)">(.*?)</svg>',
                                       report.to_html(), re.DOTALL)
    }  # fmt: skip


def test_years_have_no_comma_and_large_numbers_no_power():
    generator = np.random.default_rng(0)
    X = np.stack([generator.integers(1985, 2015, 300), generator.integers(0, 50_000, 300)], axis=1)
    y = (X[:, 0] - 2000 + (X[:, 1] - 25_000) / 2500 > 0).astype(int)
    model = RankBoost(n_estimators=20, step="bound").fit(X.astype(float), y)
    shown = charts(Report(model, X.astype(float), y))
    first, second = (shown[f"what x{j} adds to the score"] for j in range(2))
    assert "2000" in first
    assert "20,000" in second
    assert not any("e+" in text for text in first + second)


def test_the_first_chart_has_every_model_and_both_limits(ranked, search):
    X, y, qid = search
    report = Report({"new.json": ranked[0], "old.json": ranked[0]}, X, y, qid=qid)
    shown = charts(report)["mean grade of the first documents of a query"]
    assert {"random order", "best possible", "new.json", "old.json"} <= set(shown)
