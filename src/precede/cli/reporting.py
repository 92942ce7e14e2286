"""Reports, written as pages, PDF, Markdown or JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from precede.cli.options import Reading
from precede.cli.sources import features_for, file_names, read_candidates
from precede.files.streams import suffix_of
from precede.model import write_file
from precede.report.page import STYLES, Report

__all__ = ["make", "style_of", "write"]


def style_of(output: str, style: str | None) -> str:
    """What to write, from the name of the file where nothing is said; else a page.

    >>> style_of("report.md", None), style_of("-", None), style_of("-", "json")
    ('markdown', 'html', 'json')
    """
    suffix = suffix_of(output)
    if style is None and suffix and suffix not in STYLES:
        raise ValueError(
            f"{output}: reports are written as .html, .pdf, .md or .json; name such a file, or "
            "give --as"
        )
    chosen = style or STYLES.get(suffix, "html")
    if chosen not in STYLES.values():
        raise ValueError(f"{chosen!r} is not a format of reports; use html, pdf, markdown or json")
    if STYLES.get(suffix, chosen) != chosen:
        raise ValueError(
            f"{output}: --as {chosen} does not go with {suffix}; leave --as out, or name another "
            "file"
        )
    if chosen == "pdf" and output == "-":
        raise ValueError("a PDF is not written to standard output; name a file with -o")
    return chosen


def make(sources: list[str], path: str, train: str | None, reading: Reading,
         **options: Any) -> Report:  # fmt: skip
    """The report of models, scores and runs on some data; the first is what it is about."""
    models, scores, task = read_candidates(sources, path, reading)
    data = task.data
    first = next(iter(models.values()), None)
    if data is None:
        return Report(scores=scores, y=task.y, qid=task.qid, **options)
    if first is None:
        return Report(scores=scores, y=data.judgments, docid=data.docid, **options)
    fitted_on = None
    if train is not None:
        rows = reading.knowing(first).read(train, beside=False)
        fitted_on = (features_for(first, rows), rows.judgments)
    order = list(dict.fromkeys(file_names(sources)))
    return Report(models, features_for(first, data), data.judgments, scores=scores, order=order,
                  train=fitted_on, docid=data.docid, **options)  # fmt: skip


def write(report: Report, output: str, style: str) -> None:
    """Write a report to a file or to standard output."""
    if style == "pdf":
        report.to_pdf(output)
        return
    made: dict[str, Callable[[], str | None]] = {
        "html": report.to_html,
        "json": report.to_json,
        "markdown": report.to_markdown,
    }
    write_file(output, (made[style]() or "").encode("utf-8"))
