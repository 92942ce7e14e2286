"""The report as Markdown, beside JSON and the page."""

import html
import json
import re

import pytest

from precede.report.wording import in_units, metric_name, number

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


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
