"""The page in a real browser: tabs, sorting, filtering, themes, paper; nothing is loaded."""

import json
import os
import shutil

import numpy as np
import pytest

from precede import RankBoost, Report
from precede.datasets import search_results

pytestmark = pytest.mark.filterwarnings("ignore::precede.boost.SmoothedStepWarning")

HOSTILE = '</script><script>document.title="taken"</script><img src=x onerror="alert(1)">'


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    with sync_api.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A report with hostile names, and where it is."""
    import pandas as pd

    sample = search_results(15, features=5, per_query=9, informative=4, random_state=1)
    frame = pd.DataFrame(sample.X, columns=[f"f{j} {HOSTILE}" for j in range(5)])
    qid = np.array([f"q{k:02d} {HOSTILE if k == 7 else ''}" for k in sample.qid], object)
    model = RankBoost(n_estimators=15, learning_rate=0.5).fit(frame, sample.y, qid=qid)
    report = Report(model, frame, sample.y, qid=qid, title=f"Title {HOSTILE}")
    path = tmp_path_factory.mktemp("report") / "report.html"
    report.to_html(path)
    return report, path


@pytest.fixture
def page(browser, made):
    """The page, watched: any error in the console or request but the page itself fails."""
    context = browser.new_context(viewport={"width": 1100, "height": 800}, color_scheme="light")
    context.set_default_timeout(120_000)  # milliseconds
    tab = context.new_page()
    troubles, requests = [], []
    tab.on("console", lambda message: troubles.append(message.text))
    tab.on("pageerror", lambda error: troubles.append(str(error)))
    tab.on("dialog", lambda dialog: (troubles.append("a dialog"), dialog.dismiss()))
    tab.on("request", lambda request: requests.append(request.url))
    tab.goto(made[1].as_uri())
    yield tab
    assert troubles == []
    addresses = {url.split("#")[0] for url in requests if not url.startswith("blob:")}
    assert addresses - {"data:,"} == {made[1].as_uri()}
    context.close()


def visible_panels(page):
    return page.eval_on_selector_all(
        "section", "all => all.filter(e => e.offsetParent !== null).map(e => e.id)"
    )


def queries_shown(page):
    return page.eval_on_selector_all(
        "#query-table tbody tr", "all => all.filter(e => !e.hidden).map(e => e.cells[0].innerText)"
    )


def test_tabs_by_mouse_and_keyboard(page):
    tabs = page.get_by_role("tab")
    panels = [tab.get_attribute("aria-controls") for tab in tabs.all()]
    assert len(panels) == 9
    assert visible_panels(page) == ["quality"]
    for tab, panel in zip(tabs.all(), panels, strict=True):
        tab.click()
        assert visible_panels(page) == [panel]
        assert tab.get_attribute("aria-selected") == "true"
    page.keyboard.press("ArrowRight")  # round to the first
    assert visible_panels(page) == [panels[0]]
    page.keyboard.press("End")
    assert visible_panels(page) == [panels[-1]]
    page.keyboard.press("ArrowLeft")
    assert visible_panels(page) == [panels[-2]]
    page.keyboard.press("Home")
    assert page.evaluate("document.activeElement.id") == "tab-quality"
    assert page.locator("[role=tab][tabindex='0']").count() == 1


def test_an_address_opens_its_tab(page, made):
    page.goto(made[1].as_uri() + "#margins")
    page.reload()
    assert visible_panels(page) == ["margins"]


def test_names_are_text_and_no_script_of_theirs_runs(page):
    assert page.title() == f"Title {HOSTILE}"
    assert page.locator("h1").inner_text() == f"Title {HOSTILE}"
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2


def test_sorting(page, made):
    rows = made[0].facts["queries"]["rows"]
    page.click("#tab-queries")
    assert queries_shown(page)[0] == rows[0]["query"].strip()
    head = page.locator("#query-table th", has_text="pairs")
    head.locator("button").first.click()
    assert head.first.get_attribute("aria-sort") == "ascending"
    counts = page.eval_on_selector_all(
        "#query-table tbody tr", "all => all.map(e => Number(e.cells[2].dataset.value))"
    )
    assert counts == sorted(row["pairs"] for row in rows)
    head.locator("button").first.click()
    assert head.first.get_attribute("aria-sort") == "descending"
    page.locator("#query-table th button", has_text="query").focus()
    page.keyboard.press("Enter")
    assert queries_shown(page) == sorted(row["query"].strip() for row in rows)


def test_filtering(page, made):
    rows = made[0].facts["queries"]["rows"]
    page.click("#tab-queries")
    page.get_by_label("Query contains").fill("Q1")
    wanted = [row["query"].strip() for row in rows if row["query"].startswith("q1")]
    assert sorted(queries_shown(page)) == sorted(wanted)
    assert page.locator("#query-count").inner_text() == f"{len(wanted)} of {len(rows)} shown"
    page.get_by_label("Query contains").fill("")
    values = [row["values"]["ndcg@10"] for row in rows]
    most = float(np.median([value for value in values if value is not None]))
    page.get_by_label("ndcg@10 at most").fill(str(most))
    wanted = [v for v in values if v is not None and v <= most]
    assert len(queries_shown(page)) == len(wanted) < len(rows)
    page.get_by_label("ndcg@10 at most").fill("")
    assert len(queries_shown(page)) == len(rows)


def test_shape_functions_one_after_the_other(page, made):
    names = [row["name"] for row in made[0].facts["features"]["rows"]]
    page.click("#tab-features")

    def shown():
        found = page.locator(".shape:visible figcaption strong")
        assert found.count() == 1
        return found.inner_text()

    assert shown() == names[0]
    page.get_by_role("button", name="Next").click()
    assert shown() == names[1]
    page.get_by_role("button", name="Previous").click()
    page.get_by_role("button", name="Previous").click()
    assert shown() == names[-1]
    page.locator(".picker button").nth(1).click()
    assert shown() == names[1]
    assert page.locator(".picker [aria-pressed=true]").count() == 1


def colours(page):
    """Ink and paper, as three numbers each."""
    return page.evaluate(
        """() => ["color", "backgroundColor"].map(
            name => getComputedStyle(document.body)[name].match(/\\d+/g).slice(0, 3).map(Number))"""
    )


def contrast(ink, paper):
    def light(colour):
        parts = np.array(colour) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    high, low = sorted([light(ink), light(paper)], reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_light_and_dark(page):
    ink, paper = colours(page)
    assert sum(paper) > sum(ink)
    assert contrast(ink, paper) > 7
    page.get_by_role("button", name="Dark").click()
    ink, paper = colours(page)
    assert sum(paper) < sum(ink)
    assert contrast(ink, paper) > 7
    page.get_by_role("button", name="Light").click()
    assert sum(colours(page)[1]) > 700
    page.emulate_media(color_scheme="dark")
    assert sum(colours(page)[1]) > 700  # the choice stands
    page.reload()
    assert sum(colours(page)[1]) < 100


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_can_be_read(page, theme):
    page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
    names = ["ink", "soft", "accent", "second", "warn", "bad"]
    papers = {"paper": names, "card": names, "wash": ["ink", "soft", "accent"],
              "warn-wash": ["ink", "warn"], "bad-wash": ["ink", "soft"]}  # fmt: skip
    value = "name => getComputedStyle(document.documentElement).getPropertyValue('--' + name)"
    for paper, inks in papers.items():
        for ink in inks:
            two = [
                [int(page.evaluate(value, name).strip()[k : k + 2], 16) for k in (1, 3, 5)]
                for name in (ink, paper)
            ]
            assert contrast(*two) >= 4.5, (theme, ink, paper)


def test_a_phone_needs_no_sideways_scrolling(page):
    page.set_viewport_size({"width": 360, "height": 700})
    for tab in page.get_by_role("tab").all():
        tab.click()
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 360, tab.inner_text()


def test_paper_shows_every_part(page, made):
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert len(visible_panels(page)) == 9
    assert page.locator(".shape:visible").count() == made[0].facts["features"]["shown"]
    assert not page.locator("[role=tablist]").is_visible()
    assert page.locator(".pair:visible").count() == page.locator(".pair").count()
    assert len(page.pdf()) > 10_000
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 2


def test_the_facts_can_be_kept(page, made):
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as JSON").click()
    with open(download.value.path(), encoding="utf-8") as file:
        assert json.load(file) == made[0].facts


def test_without_scripts_everything_is_there(browser, made):
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(made[1].as_uri())
    assert tab.locator("section:visible").count() == 9
    assert not tab.locator("[role=tablist]").is_visible()
    context.close()
