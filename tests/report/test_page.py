"""A report says what the library's own functions say, safely, for every estimator."""

import hashlib
import json
import re
from base64 import b64encode
from html.parser import HTMLParser
from importlib import resources

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import NotFittedError
from typer.testing import CliRunner

import precede
from precede import (
    AdaBoostRanker,
    BoostedRanker,
    ConvexRisk,
    Judgments,
    PushRanker,
    RankBoost,
    RankBoostPlus,
    Report,
    SmoothMargin,
    margins,
)
from precede.boosting.monitors import pairs_in_order
from precede.datasets import search_results
from precede.inference import auc, ranking_risk
from precede.metrics import evaluate
from precede.report.drawing import ticks
from precede.report.markdown import number
from precede.top import top_of_list

pytestmark = pytest.mark.filterwarnings("ignore::precede.boost.SmoothedStepWarning")

HOSTILE = '</script><script>alert(1)</script><img src=x onerror="alert(2)">|`*'
ESTIMATORS = [
    RankBoost, PushRanker, SmoothMargin, ConvexRisk, RankBoostPlus, BoostedRanker, AdaBoostRanker,
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


@pytest.fixture(scope="module")
def search():
    sample = search_results(14, features=6, per_query=10, informative=4, random_state=3)
    X, y, qid = sample.X.astype(np.float64), sample.y.copy(), sample.qid
    X[::9, 1] = np.nan
    X[:, 5] = 7.0
    y[qid == 2] = 1  # a query without a pair
    return X, y, np.array([f"q{k:02d}" for k in qid], object)


@pytest.fixture(scope="module")
def ranked(search):
    X, y, qid = search
    model = RankBoost(n_estimators=12, learning_rate=0.5).fit(
        X, y, qid=qid, eval_set=(X, y), eval_qid=[qid]
    )
    return model, Report(model, X, y, qid=qid, date="2024-05-01")


@pytest.fixture(scope="module")
def two_classes():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[::4, :6], np.where(y[::4] == 1, "yes", "no")
    model = RankBoost(n_estimators=6, step="bound").fit(X, y)
    return model, X, y, Report(model, X, y)


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
    place = report.facts["top"]["places"][0]
    assert place["mean_grade"] == np.mean(first)
    assert place["best_mean_grade"] == np.mean(best)
    assert place["shares"]["1"] == np.mean(np.array(first) == 1)
    assert sum(place["shares"].values()) == pytest.approx(1)


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


def test_margins_shapes_and_importances_are_those_of_the_model(ranked, search):
    X, y, qid = search
    model, report = ranked
    found = margins(model, X, y, qid=qid)
    told = report.facts["margins"]["distribution"]
    assert (told["pairs"], told["least"], told["norm"]) == (
        found.n_pairs, found.minimum, found.norm)  # fmt: skip
    assert told["not_above_zero"] == found.at(0.0)
    features = report.facts["features"]
    weights = model.feature_importances_
    assert [row["weight"] for row in features["rows"]] == sorted(weights[weights > 0])[::-1]
    for row in features["rows"]:
        shape, function = row["shape"], model.shape_function(row["feature"])
        middle = [(a + b) / 2 for a, b in zip(shape["x"][::2], shape["x"][1::2], strict=True)]
        assert_allclose(function(middle), np.array(shape["y"][::2]) + shape["offset"], atol=1e-12)
        assert sum(shape["counts"]) + shape["beyond"] == np.sum(~np.isnan(X[:, row["feature"]]))


def test_learning_curves_are_the_history(ranked):
    model, report = ranked
    learning = report.facts["learning"]
    charts = {chart["title"]: chart["curves"] for chart in learning["charts"]}
    assert charts["risk"]["risk"] == model.history_["risk"].tolist()
    assert charts["pairs_in_order"]["valid_0"] == model.evals_result_["valid_0"]["pairs_in_order"]
    assert learning["charts"][0]["title"] == "pairs_in_order"
    assert "seconds" not in charts


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
    assert facts["making"]["estimator"] == estimator.__name__
    certificate = {each["what"]: each["value"] for each in facts["margins"]["certificate"]}
    if estimator is SmoothMargin:
        assert certificate["best margin possible: at most"] == model.margin_interval_[1]
    if estimator is ConvexRisk:
        assert certificate["the risk is above the least possible by at most"] == model.gap_
    assert bool(facts["features"]["no_shapes"]) == (estimator is BoostedRanker)
    page = Page(report.to_html())
    assert len(page.all("section")) == (8 if qid is None else 9)
    assert json.loads(report.to_json()) == facts
    assert estimator.__name__ in report.to_markdown()


def test_json_and_markdown_and_the_page_agree(ranked):
    report = ranked[1]
    facts = json.loads(report.to_json())
    assert facts == report.facts
    text, page = report.to_markdown(), report.to_html()
    for row in facts["quality"]["metrics"]:
        ends = f"{number(row['low'])} to {number(row['high'])}"
        assert f"| {row['metric']} | {number(row['value'])} | {ends} |" in text
        assert f'<td class="n">{number(row["value"])}</td><td class="span">{ends}</td>' in page
    for row in facts["queries"]["rows"]:
        assert f"| {row['query']} | {row['rows']} | {row['pairs']:,} |" in text
    for row in facts["features"]["rows"]:
        assert f"| {row['name']} | {number(row['weight'])} |" in text
    embedded = re.search(r'<script type="application/json" id="facts">(.*?)</script>', page, re.S)
    assert json.loads(embedded[1]) == facts


def test_equal_inputs_give_equal_bytes(ranked, search):
    X, y, qid = search
    model, report = ranked
    again = Report(model, X, y, qid=qid, date="2024-05-01")
    assert again.to_html() == report.to_html()
    assert again.to_json() == report.to_json()
    assert "2024-05-01" in report.to_html()
    assert Report(model, X, y, qid=qid).facts["making"]["date"] is None


def test_parameters_do_not_tell_addresses(search):
    X, y, qid = search

    def watch(progress):
        return False

    class Odd:
        def __call__(self, progress):
            return False

    model = RankBoost(n_estimators=2, callbacks=[watch, Odd()]).fit(X, y, qid=qid)
    told = Report(model, X, y, qid=qid).facts["making"]["parameters"]["callbacks"]
    assert "watch" in told[0]
    assert not any(re.search("0x", each) for each in told)


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
    assert "The worst 100 of 3,000 queries by ndcg@10" in page
    assert len(Report(model, X, y, qid=qid).to_html()) < 3_000_000


def test_listed_pairs_alone():
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    pairs = [(3, 0), (2, 0), (3, 1), (2, 1), (1, 3)]
    model = RankBoost(n_estimators=2, step="bound").fit(X, pairs=pairs)
    report = Report(model, X, pairs=pairs)
    assert report.facts["quality"]["pairs_in_order"] == pairs_in_order(
        Judgments(pairs=pairs, n=4), model.predict(X)
    )
    assert report.facts["quality"]["metrics"] == []
    worst = report.facts["wrong"]["listed_pairs"]
    assert [(p["upper"]["row"], p["lower"]["row"]) for p in worst] == [(3, 1)]
    assert "Listed pairs" in report.to_html()
    assert "Listed pairs" in report.to_markdown()


def test_data_without_a_pair_are_told_and_not_measured(ranked, search):
    X, y, qid = search
    model = ranked[0]
    for target in ({"qid": qid}, {}):
        report = Report(model, X, np.ones_like(y), **target)
        assert report.facts["quality"]["pairs_in_order"] is None
        assert report.facts["data"]["warnings"][0]["text"].startswith("no pair at all")
        assert report.facts["margins"]["distribution"] is None
        assert "no pair" in repr(report)
        assert "no pair at all" in report.to_html()
        assert "no pair at all" in report.to_markdown()


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
    assert (
        row["value"]
        == evaluate(y, model.predict(X), metrics="pair_error", sample_weight=weight).mean[
            "pair_error"
        ]
    )
    assert row["no_interval"] == "the rows are weighted"
    assert report.facts["top"]["kind"] == "list"
    assert "the rows are weighted" in report.to_html()
    by_query = Report(model, X, y, qid=np.arange(60) // 6)
    assert by_query.facts["top"]["places"][0]["shares"] is None
    assert "mean grade" in by_query.to_html()


def test_sparse_rows_give_the_same_report(search):
    X, y, qid = search
    X = np.nan_to_num(X)
    model = RankBoost(n_estimators=4, step="bound").fit(X, y, qid=qid)
    dense = Report(model, X, y, qid=qid)
    assert Report(model, scipy.sparse.csr_matrix(X), y, qid=qid).facts == dense.facts


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


def test_a_model_read_from_its_file_has_the_same_report(ranked, search, tmp_path):
    X, y, qid = search
    model, report = ranked
    model.save(tmp_path / "model.json")
    again = Report(precede.load(tmp_path / "model.json"), X, y, qid=qid, date="2024-05-01")
    assert again.to_html() == report.to_html()


def test_the_page_is_written(ranked, tmp_path):
    assert ranked[1].to_html(tmp_path / "report.html") is None
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == ranked[1].to_html()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 1.0}, "level=1.0"),
        ({"max_queries": 0}, "max_queries"),
        ({"docid": ["a"]}, "docid has 1 names"),
        ({"metrics": ["nonsense"]}, "nonsense"),
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
    with pytest.raises(ValueError, match="have 3 rows"):
        Report(RankBoost(n_estimators=1, step="bound").fit(X, y, qid=qid), X, Judgments([0, 1, 2]))
    labels = np.stack([y > 0, y > 1, y > 2], axis=1).astype(int)
    several = precede.MultilabelBoost(n_estimators=1).fit(np.nan_to_num(X), labels)
    with pytest.raises(ValueError, match="gives a row 3 scores"):
        Report(several, np.nan_to_num(X), labels)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3, 4), (1e-9, 2e-9), (0, 1e12), (5, 5)])
def test_ticks_are_round_and_inside(low, high):
    found = ticks(low, high)
    assert 1 <= len(found) <= 12
    assert all(low - 1e-9 * abs(low) <= tick <= high * (1 + 1e-9) for tick in found)


def test_extreme_values_can_be_drawn():
    X = np.array([[-1.7e308], [0.0], [5e-324], [1.7e308]])
    model = RankBoost(n_estimators=2, step="bound").fit(X, [0, 1, 1, 1])
    report = Report(model, X, [0, 1, 1, 1])
    assert report.facts["features"]["rows"][0]["shape"] is None
    assert "too large, or too close" in report.to_html()
    page = Report(model, X / 1e8, [0, 1, 1, 1]).to_html()
    assert 'class="shape"' in page
    assert "nan" not in re.sub(r"<script.*?</script>", "", page, flags=re.S).lower()


def test_the_command_writes_what_the_class_writes(ranked, search, tmp_path):
    from precede.cli.commands import app
    from precede.files.tables import Data, write

    X, y, qid = search
    ranked[0].save(tmp_path / "model.json")
    names = [f"x{j}" for j in range(X.shape[1])]
    write(tmp_path / "data.csv", Data(X, y=y.astype(float), qid=qid, feature_names=names))
    arguments = ["report", str(tmp_path / "model.json"), str(tmp_path / "data.csv")]
    run = CliRunner().invoke(app, [*arguments, "-o", "-", "--json"])
    assert run.exit_code == 0, run.output
    facts = json.loads(run.stdout)
    mine = Report(ranked[0], X, y, qid=qid).facts
    assert facts["quality"] == mine["quality"]
    assert facts["queries"] == mine["queries"]
    for name, begins in {"r.html": "<!doctype html>", "r.md": "# Held out", "r.json": "{"}.items():
        told = [*arguments, "-o", str(tmp_path / name), "--title", "Held out", "--json"]
        run = CliRunner().invoke(app, told)
        assert run.exit_code == 0, run.output
        assert json.loads(run.stdout)["file"] == str(tmp_path / name)
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert text.startswith(begins)
        assert "Held out" in text
    run = CliRunner().invoke(app, [*arguments, "--as", "pdf"])
    assert run.exit_code == 1
    assert "use html, markdown or json" in run.stderr
