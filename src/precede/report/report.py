"""`Report`: facts computed once and written as an HTML page, Markdown or JSON."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from html import escape
from importlib import resources
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup
from numpy.typing import ArrayLike

from precede.engine.arrays import Floats, Integers
from precede.engine.parameters import check_integer, upper_tail
from precede.estimator import BaseRanker
from precede.files.streams import suffix_of
from precede.metrics.registry import check_grade, with_relevant
from precede.model import write_file
from precede.report import wording
from precede.report.data import (
    data_facts,
    fit_facts,
    training_facts,
    training_subject,
    version_facts,
)
from precede.report.figures import figures_of
from precede.report.markdown import to_markdown
from precede.report.model import feature_facts, learning_facts, margin_facts
from precede.report.quality import (
    comparison_facts,
    first_facts,
    list_facts,
    listed_rows,
    measured,
    quality_facts,
    query_facts,
)
from precede.report.slices import error_facts, slice_facts
from precede.report.subject import Subject, named_models
from precede.report.summary import summary_facts
from precede.report.wording import Words

# Formats by file suffix.
STYLES = {".htm": "html", ".html": "html", ".json": "json", ".md": "markdown"}


class Report:
    """Report on the quality of models on some rows, their comparison, errors and explanations.

    Parameters
    ----------
    model : fitted ranker, several in a list or by name in a dictionary, or None
        The report is about the first; the others are compared with it.
    X : array, data frame or sparse matrix; may be left out if there are only scores
    y : array of grades or of two classes, or Judgments
    scores : scores of the rows from elsewhere by name, ``{"lightgbm": s}``, optional
        They are compared with the model, or are what the report is about if there is none.
    order : names of the models and of the scores in the order to show them, optional
        The first is what the report is about. Without, the models come first.
    train : the rows of the fit, ``(X, y)`` or ``(X, y, qid)``, optional
        Shown next to the others; rows or queries found in both are reported.
    slices : columns by name or number, or a dictionary of one value for each row; optional
        Columns that define slices. By default, those that the model uses most. Queries are
        also sliced by their length. The worst are reported, adjusted for their number.
    item, good, query : words for a row, for the class that should rank first and for a query;
        ``item="borrower", good="repaid"``
    qid : array of query identifiers, optional; `group`, the sizes of the queries in the order of
        the rows, may replace it
    pairs, pair_weight, sample_weight : as in ``fit``, optional
    docid : names of the rows, optional; the default is the index of a pandas data frame, or else
        the number of the row, from 0
    metrics : names of metrics, the one that says which query is worst first; optional
    relevant : the least relevant grade, for metrics that ask and do not say it themselves, as
        ``"map(relevant=4)"`` does; optional
    level : of the intervals
    max_queries : rows of the table of queries, of which the worst are kept; each can be opened
    max_wrong : queries shown with the documents that went wrong
    max_features : features shown, the most important first
    title, date : shown as they are; without a date equal inputs give equal bytes

    Attributes
    ----------
    facts : dict
        Everything in the report as plain numbers, texts, lists and dictionaries.

    Notes
    -----
    Numbers describe these rows: on the rows of the fit they flatter the model. O(n log n) for
    metrics and margins; up to 500 samples of one list of two classes are drawn for the intervals of
    its curves, and a thousand for its top (fewer of long lists), with a fixed seed. Effects of
    features in trees move at most 2000 rows.

    Examples
    --------
    >>> from precede import RankBoost, Report
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]
    >>> report = Report(RankBoost(n_estimators=2, step="bound").fit(X, y), X, y)
    >>> report
    Report(RankBoost on 4 rows: 87.5 % of the pairs in order)
    >>> report.to_markdown().splitlines()[0]
    '# RankBoost on 4 rows'
    >>> Report(scores={"mine": [1, 2, 3, 4], "other": [4, 3, 2, 1]}, y=y)
    Report(mine and other on 4 rows: 75.0 % of the pairs in order)
    """

    def __init__(
        self,
        model: BaseRanker | Sequence[BaseRanker] | Mapping[str, BaseRanker] | None = None,
        X: Any = None,
        y: Any = None,
        *,
        scores: Mapping[str, ArrayLike] | ArrayLike | None = None,
        order: Sequence[str] | None = None,
        train: Any = None,
        slices: Any = None,
        item: str | None = None,
        good: str | None = None,
        query: str | None = None,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        pairs: ArrayLike | None = None,
        pair_weight: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        docid: ArrayLike | None = None,
        metrics: Sequence[str] | str | None = None,
        relevant: float | None = None,
        level: float = 0.95,
        max_queries: int = 1000,
        max_wrong: int = 10,
        max_features: int = 20,
        title: str | None = None,
        date: str | None = None,
    ):
        upper_tail(level)  # raises ValueError unless it is a level
        if relevant is not None:
            check_grade("relevant", relevant)
        limits = {"max_queries": max_queries, "max_wrong": max_wrong, "max_features": max_features}
        for name, value in limits.items():
            check_integer(name, value, least=1)
        subject = Subject.of(
            named_models(model), scores, X, y, documents=docid, order=order, qid=qid,
            group=group, pairs=pairs, pair_weight=pair_weight, sample_weight=sample_weight,
            relevant=relevant,
        )  # fmt: skip
        words = Words.of(item, good, query, one_list=subject.is_one_list)
        named = [metrics] if isinstance(metrics, str) else metrics
        self.facts: dict[str, Any] = collect(
            subject, words, train=training_subject(train, model, relevant), slices=slices,
            metrics=with_relevant(named, relevant) if named and relevant is not None else named,
            level=level, limits=limits,
        )  # fmt: skip
        names = wording.listed([each.name for each in subject.candidates])
        about = f"{names} on {words.count_items(subject.scores.size)}"
        self.facts["title"] = about if title is None else str(title)
        self.facts["date"] = None if date is None else str(date)

    def __repr__(self) -> str:
        names = wording.listed([each["name"] for each in self.facts["models"]])
        share = self.facts["quality"]["pairs_in_order"]
        text = "no pair" if share is None else f"{100 * share:.1f} % of the pairs in order"
        return f"Report({names} on {self.facts['data']['rows']} rows: {text})"

    def _repr_html_(self) -> str:
        """Return the page in an iframe, for notebooks."""
        page = escape(_page(self.facts), quote=True)
        style = "width: 100%; height: 640px; border: 1px solid #ccc"
        return f'<iframe srcdoc="{page}" style="{style}" title="report"></iframe>'

    def to_json(self) -> str:
        """Return the facts as JSON."""
        return json.dumps(self.facts, ensure_ascii=False, allow_nan=False, indent=1) + "\n"

    def to_markdown(self) -> str:
        """Return the report as Markdown: the page as text, with tables in place of charts."""
        return to_markdown(_page(self.facts))

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """Write a self-contained page to `path`, atomically.

        Without a path the text is returned. Names of other formats (.md, .json, .pdf) are refused.
        """
        if path is None:
            return _page(self.facts)
        _check_suffix(path)
        text = _page(self.facts)
        write_file(path, text.encode("utf-8"))
        return None


def _check_suffix(path: str | os.PathLike[str]) -> None:
    """Raise ValueError if the suffix is that of another format."""
    suffix = suffix_of(path)
    methods = {".json": "call to_json()", ".md": "call to_markdown()",
               ".pdf": "print the page from a browser"}  # fmt: skip
    if suffix in methods:
        raise ValueError(
            f"{os.fspath(path)}: to_html writes HTML, not {suffix}; name the file .html, or "
            f"{methods[suffix]}"
        )


# -- the page --------------------------------------------------------------------------------


@lru_cache
def _template() -> Template:
    """Return the compiled template, cached since compiling is slower than rendering."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "number": wording.number, "interval": wording.interval, "rounded": wording.rounded,
        "signed": wording.signed, "p_value": wording.p_value, "metric": wording.metric_name,
        "feature_value": wording.feature_value, "share": wording.share,
        "shown_value": wording.shown_value, "shown_interval": wording.shown_interval,
        "in_units": wording.in_units, "difference": wording.difference,
    }  # fmt: skip
    return environment.from_string(_part("report.html.j2"))


def _page(facts: dict[str, Any]) -> str:
    """Render the template, which escapes every text and allows only its own script."""
    script = _part("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return _template().render(
        facts=facts,
        figures=figures_of(facts),
        style=Markup(_part("report.css")),
        script=Markup(script),
        digest=digest,
        number=wording.number,
        class_name=wording.class_name,
        measure_name=wording.measure_name,
        difference_interval=wording.difference_interval,
        is_share=wording.is_share,
        data_json=_embedded(facts),
    )


def _part(name: str) -> str:
    return resources.files("precede.report").joinpath(name).read_text(encoding="utf-8")


def _embedded(facts: dict[str, Any]) -> Markup:
    """Return JSON that is safe inside a <script> element."""
    text = json.dumps(facts, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


# -- Facts ---------------------------------------------------------------------------------------


def collect(
    subject: Subject, words: Words, *, train: Subject | None, slices: Any,
    metrics: Sequence[str] | None, level: float, limits: dict[str, int],
) -> dict[str, Any]:  # fmt: skip
    """Compute all facts of a report."""
    found = [measured(subject, each.returned, metrics) for each in subject.candidates]
    models: list[dict[str, Any]] = []
    for each, result in zip(subject.candidates, found, strict=True):
        models.append({
            "name": each.name,
            "estimator": None if each.model is None else type(each.model).__name__,
            "quality": quality_facts(subject, each.scores, result, metrics, level),
            "making": None if each.model is None else fit_facts(each.model),
        })  # fmt: skip
    quality = models[0]["quality"]
    names = [row["metric"] for row in quality["metrics"]]
    facts: dict[str, Any] = {
        "title": "",
        "date": None,
        "words": words.to_dict(),
        "summary": None,
        "quality": quality,
        "models": models,
        "training": training_facts(subject, train, metrics, level),
        "comparison": comparison_facts(subject, found, names, level),
        "first": first_facts(subject, level),
        "list": list_facts(subject, level),
        "documents": listed_rows(subject),
        "slices": slice_facts(subject, found[0], slices, level, words),
        "queries": query_facts(subject, found, limits["max_queries"], named=bool(metrics)),
        "wrong": error_facts(subject, found[0], limits["max_wrong"]),
        "features": feature_facts(subject, limits["max_features"], level),
        "margins": margin_facts(subject),
        "learning": learning_facts(subject),
        "data": data_facts(subject, words),
        "ties": _tied(subject, subject.scores),
        "versions": version_facts(),
    }
    facts["summary"] = summary_facts(facts, words)
    return facts


def _tied(subject: Subject, scores: Floats) -> float | None:
    """Return the share of tied scores among pairs of one query and different grades."""
    rows = subject.graded
    if not rows.size:
        return None
    number, grade = subject.query[0][rows], subject.grade[rows]

    def pairs(cell: Integers) -> int:
        """Count the pairs of rows in the same cell."""
        counts = np.unique(cell, return_counts=True)[1].astype(np.int64)
        return int((counts * (counts - 1) // 2).sum())

    def within(cell: Integers, values: Any) -> Integers:
        """Return the cells subdivided by a value of their rows."""
        distinct, at = np.unique(values, return_inverse=True)
        return cell.astype(np.int64) * distinct.size + at

    every = pairs(number) - pairs(within(number, grade))
    tied = within(number, scores[rows])
    tied = np.unique(tied, return_inverse=True)[1]  # consecutive numbers again
    return (pairs(tied) - pairs(within(tied, grade))) / every if every else None
