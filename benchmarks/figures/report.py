"""Photograph the page of a report for docs/report.md, in a real browser.

Run from the root: python benchmarks/figures/report.py. It needs playwright and Chromium; the
environment variable CHROMIUM names another browser.
"""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from playwright.sync_api import Browser, sync_playwright

from precede import BoostedRanker, RankBoost, Report
from precede.datasets import search_results

FOLDER = Path(__file__).parents[2] / "docs" / "figures"
SCREEN, PHONE = {"width": 1180, "height": 800}, {"width": 390, "height": 844}


def main() -> None:
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if path is None:
        raise SystemExit("Chromium was not found; set CHROMIUM to the path of a browser")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        search, credit = Path(folder) / "search.html", Path(folder) / "credit.html"
        search_report().to_html(search)
        credit_report().to_html(credit)
        photograph(browser, search, "report.png", SCREEN)
        photograph(browser, search, "report_features.png", SCREEN, tab="features", dark=True)
        photograph(browser, search, "report_phone.png", PHONE)
        photograph(browser, credit, "report_list.png", SCREEN, tab="list")
        browser.close()


def photograph(
    browser: Browser, page: Path, name: str, size: Any, *, tab: str = "", dark: bool = False
) -> None:
    """One screen of a page; of a part, from its tabs on."""
    context = browser.new_context(viewport=size, color_scheme="dark" if dark else "light")
    opened = context.new_page()
    opened.goto(page.as_uri() + (f"#{tab}" if tab else ""))
    if tab:
        opened.evaluate("document.querySelector('[role=tablist]').scrollIntoView()")
    opened.screenshot(path=FOLDER / name)
    context.close()


def search_report() -> Report:
    """Two models of made search results, with their training data."""
    sample = search_results(180, features=8, per_query=20, informative=6, random_state=0)
    names = ["title match", "body match", "clicks", "links", "age", "length", "spam", "language"]
    X = pd.DataFrame(sample.X, columns=names)
    train = sample.qid < 90
    fitted = (X[train], sample.y[train])
    models = {
        "trees.json": BoostedRanker(n_estimators=60, num_leaves=8),
        "stumps.json": RankBoost(n_estimators=60, learning_rate=0.1, step="bound"),
    }
    for model in models.values():
        model.fit(*fitted, qid=sample.qid[train])
    held = ~train
    return Report(
        models, X[held].reset_index(drop=True), sample.y[held], qid=sample.qid[held],
        train=(*fitted, sample.qid[train]), title="Search: trees or stumps?",
    )  # fmt: skip


def credit_report() -> Report:
    """A model of made loans."""
    generator = np.random.default_rng(0)
    rows = 6000
    X = pd.DataFrame({
        "income": np.exp(generator.normal(10.4, 0.6, rows)).round(-2),
        "debt ratio": generator.beta(2, 4, rows).round(3),
        "late payments": generator.poisson(0.6, rows).astype(float),
        "year of first account": generator.integers(1980, 2020, rows).astype(float),
    })  # fmt: skip
    risk = (
        1.1 * X["late payments"] + 3 * X["debt ratio"] - 1.2 * np.log(X["income"] / 33_000)
        + 0.03 * (X["year of first account"] - 2000)
    )  # fmt: skip
    repaid = (generator.logistic(size=rows) > risk - 3.2).astype(int)
    half = np.arange(rows) < rows // 2
    model = BoostedRanker(n_estimators=60, num_leaves=8).fit(X[half], repaid[half])
    return Report(
        model, X[~half].reset_index(drop=True), repaid[~half], train=(X[half], repaid[half]),
        item="borrower", good="repaid", title="Loans",
    )  # fmt: skip


if __name__ == "__main__":
    main()
