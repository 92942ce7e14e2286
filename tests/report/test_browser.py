"""The page in a real browser: tabs, sorting, filtering, themes, paper; nothing is loaded."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from precede import BoostedRanker, RankBoost, Report
from precede.datasets import search_results
from precede.report import report as report_module

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")

HOSTILE = '</script><script>document.title="taken"</script><img src=x onerror="alert(1)">'


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = report_module.find_chromium()
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
    assert len(panels) == page.locator("section").count() >= 8
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
    page.get_by_label("Name contains").fill("Q1")
    wanted = [row["query"].strip() for row in rows if row["query"].startswith("q1")]
    assert sorted(queries_shown(page)) == sorted(wanted)
    assert page.locator("#query-count").inner_text() == f"{len(wanted)} of {len(rows)} shown"
    page.get_by_label("Name contains").fill("")
    values = [row["values"]["ndcg@10"] for row in rows]
    most = float(np.median([value for value in values if value is not None]))
    page.get_by_label("NDCG@10 at most").fill(str(most))
    wanted = [v for v in values if v is not None and v <= most]
    assert len(queries_shown(page)) == len(wanted) < len(rows)
    page.get_by_label("NDCG@10 at most").fill("")
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


def colors(page):
    """Ink and paper, as three numbers each."""
    return page.evaluate(
        """() => ["color", "backgroundColor"].map(
            name => getComputedStyle(document.body)[name].match(/\\d+/g).slice(0, 3).map(Number))"""
    )


def contrast(ink, paper):
    def light(color):
        parts = np.array(color) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    high, low = sorted([light(ink), light(paper)], reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_light_and_dark(page):
    ink, paper = colors(page)
    assert sum(paper) > sum(ink)
    assert contrast(ink, paper) > 7
    page.get_by_role("button", name="Dark").click()
    ink, paper = colors(page)
    assert sum(paper) < sum(ink)
    assert contrast(ink, paper) > 7
    page.get_by_role("button", name="Light").click()
    assert sum(colors(page)[1]) > 700
    page.emulate_media(color_scheme="dark")
    assert sum(colors(page)[1]) > 700  # the choice stands
    page.reload()
    assert sum(colors(page)[1]) < 100


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


def test_any_query_can_be_opened(page, made):
    rows = made[0].facts["queries"]["rows"]
    page.click("#tab-queries")
    for at in (0, len(rows) // 2, len(rows) - 1):
        button = page.locator(f"tr[data-at='{at}'] .open")
        button.click()
        assert button.get_attribute("aria-expanded") == "true"
        shown = page.eval_on_selector_all(
            ".opened tbody tr", "all => all.map(e => [e.cells[1].innerText, e.cells[2].innerText])"
        )
        listed = rows[at]["list"]
        wanted = zip(map(str, listed["document"]), map(str, listed["grade"]), strict=True)
        assert shown == [list(each) for each in wanted]
        assert page.locator(".opened td.name").nth(1).inner_text().startswith("f")  # the reasons
        button.click()
        assert page.locator(".opened").count() == 0
    page.locator("tr[data-at='0'] .open").focus()
    page.keyboard.press("Enter")
    assert page.locator(".opened").count() == 1
    page.locator("#query-table th button").first.click()  # sorting closes it
    assert page.locator(".opened").count() == 0


def test_a_phone_needs_no_sideways_scrolling(page):
    page.set_viewport_size({"width": 360, "height": 700})
    for tab in page.get_by_role("tab").all():
        tab.click()
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 360, tab.inner_text()


def test_a_phone_shows_which_tables_scroll(page):
    page.set_viewport_size({"width": 360, "height": 700})
    page.click("#tab-queries")
    wide = page.locator("#queries .scroll")
    assert wide.evaluate("e => e.scrollWidth > e.clientWidth")
    assert "scroll sideways" in wide.evaluate("e => getComputedStyle(e, '::before').content")
    page.set_viewport_size({"width": 1600, "height": 700})
    assert wide.evaluate("e => getComputedStyle(e, '::before').content") == "none"


def test_the_first_screen_of_a_phone_has_sentences(page, made):
    page.set_viewport_size({"width": 390, "height": 800})
    sentence = page.locator(".sentences p").first
    assert sentence.inner_text() == made[0].facts["summary"]["sentences"][0]
    box = sentence.bounding_box()
    assert box["y"] + box["height"] < 800
    assert page.locator(".first svg").bounding_box()["width"] <= 390


@pytest.mark.parametrize("width", [360, 1100])
def test_no_text_of_a_chart_is_clipped_or_covered(page, width):
    page.set_viewport_size({"width": width, "height": 800})
    for tab in page.get_by_role("tab").all():
        tab.click()
        faults = page.evaluate(
            """() => [...document.querySelectorAll("svg[role=img]")]
                .filter(e => e.getBoundingClientRect().width)
                .flatMap(svg => {
                  const frame = svg.getBoundingClientRect();
                  const boxes = [...svg.querySelectorAll("text")]
                    .map(e => [e.textContent, e.getBoundingClientRect()]);
                  const out = b => b.left < frame.left - 1 || b.right > frame.right + 1
                    || b.top < frame.top - 1 || b.bottom > frame.bottom + 1;
                  return boxes.filter(([, b]) => out(b))
                    .map(([text]) => "clipped: " + text)
                    .concat(boxes.flatMap(([text, a], k) => boxes.slice(k + 1)
                      .filter(([, b]) => a.left < b.right - 1 && b.left < a.right - 1
                        && a.top < b.bottom - 4 && b.top < a.bottom - 4)
                      .map(([other]) => text + " covers " + other)));
                })"""
        )
        assert faults == [], tab.inner_text()


def test_paper_shows_every_part(page, made):
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert len(visible_panels(page)) == page.locator("section").count()
    assert page.locator(".shape:visible").count() == min(made[0].facts["features"]["shown"], 9)
    assert not page.locator("[role=tablist]").is_visible()
    assert page.locator(".pair:visible").count() > 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 1100
    assert len(page.pdf()) > 10_000
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 2


def test_queries_of_several_models_fit_on_paper(browser, tmp_path):
    sample = search_results(15, features=5, per_query=25, random_state=1)
    names = ("boosted.json", "stumps.json", "lightgbm.txt")
    scores = {name: sample.X[:, j] for j, name in enumerate(names)}
    Report(scores=scores, y=sample.y, qid=sample.qid).to_html(tmp_path / "report.html")
    tab = browser.new_page(viewport={"width": 695, "height": 1000})  # A4 without its margins
    tab.goto((tmp_path / "report.html").as_uri())
    tab.emulate_media(media="print")
    tab.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert tab.evaluate("document.querySelector('#query-table').offsetWidth") <= 695
    tab.close()


def test_the_facts_can_be_kept(page, made):
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as JSON").click()
    with open(download.value.path(), encoding="utf-8") as file:
        assert json.load(file) == made[0].facts


def test_without_scripts_everything_is_there(browser, made):
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(made[1].as_uri())
    assert tab.locator("section:visible").count() == tab.locator("section").count()
    assert not tab.locator("[role=tablist]").is_visible()
    context.close()


def pages_of(pdf):
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


@pytest.mark.shared
def test_mq2008_is_printed_on_eight_pages_at_most(browser, tmp_path):
    path = Path(__file__).resolve().parents[3] / "shared" / "data" / "mq2008" / "mq2008.npz"
    if not path.exists():
        pytest.skip("MQ2008 is not on this machine")
    data = np.load(path, allow_pickle=False)
    train, test = np.isin(data["part"], (1, 2, 3)), data["part"] == 5
    X, y, qid = (data[name][train] for name in ("X", "y", "qid"))
    trees = BoostedRanker(n_estimators=20).fit(X, y, qid=qid)
    stumps = RankBoost(n_estimators=20, learning_rate=0.5).fit(X, y, qid=qid)
    held = [data[name][test] for name in ("X", "y", "qid")]
    Report([trees, stumps], *held[:2], qid=held[2], train=(X, y, qid)).to_html(tmp_path / "r.html")
    tab = browser.new_page()
    tab.goto((tmp_path / "r.html").as_uri())
    assert 2 <= pages_of(tab.pdf(format="A4")) <= 8
    tab.close()


def test_a_pdf_file_is_written(made, tmp_path):
    if report_module.find_chromium() is None:
        pytest.skip("no Chromium on this machine")
    made[0].to_pdf(tmp_path / "report.pdf")
    written = (tmp_path / "report.pdf").read_bytes()
    assert written.startswith(b"%PDF")
    assert 1 <= pages_of(written) <= 8
