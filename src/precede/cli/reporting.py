"""Reports, written as pages, Markdown or JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import Any

from precede.cli.sources import features_for
from precede.estimator import BaseRanker
from precede.files.tables import Data
from precede.model import write_file
from precede.report.page import Report

__all__ = ["style_of", "write"]

_STYLES = {".htm": "html", ".html": "html", ".json": "json", ".md": "markdown"}


def style_of(output: str, style: str | None) -> str:
    """What to write, from the name of the file where nothing is said; else a page.

    >>> style_of("report.md", None), style_of("-", None), style_of("-", "json")
    ('markdown', 'html', 'json')
    """
    suffix = PurePath(output).suffix.lower()
    if style is None and suffix and suffix not in _STYLES:
        raise ValueError(
            f"{output}: reports are written as .html, .md or .json; name such a file, or give --as"
        )
    chosen = style or _STYLES.get(suffix, "html")
    if chosen not in _STYLES.values():
        raise ValueError(f"{chosen!r} is not a format of reports; use html, markdown or json")
    return chosen


def write(model: BaseRanker, data: Data, output: str, *, style: str, **options: Any) -> Report:
    """Make the report of a model on some data and write it."""
    report = Report(model, features_for(model, data), data.judgments, docid=data.docid, **options)
    made: dict[str, Callable[[], str | None]] = {
        "html": report.to_html, "json": report.to_json, "markdown": report.to_markdown
    }  # fmt: skip
    text = made[style]()
    write_file(output, (text or "").encode("utf-8"))
    return report
