"""The report as Markdown, beside JSON and the page."""

import json
import re

import pytest

from precede.report.markdown import number

pytestmark = pytest.mark.filterwarnings("ignore::precede.boost.SmoothedStepWarning")


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
