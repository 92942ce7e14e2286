"""`Report`: facts computed once and written as an HTML page, Markdown or JSON."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from functools import cached_property
from html import escape
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from precede.engine.arrays import Floats, Integers, Json, MatrixLike, VectorLike
from precede.engine.parameters import check_integer, upper_tail
from precede.estimator import BaseRanker
from precede.files.streams import suffix_of
from precede.metrics.registry import check_grade, with_relevant
from precede.model import write_file
from precede.report import wording
from precede.report.data import (
    Data,
    Making,
    data_of,
    making_section,
    training_of,
    training_subject,
    versions,
)
from precede.report.document import Block, Document, Heading
from precede.report.model import Features, Learning, Margins, features_of, learning_of, margins_of
from precede.report.one_list import OneList, one_list
from precede.report.quality import (
    Comparison,
    Quality,
    Training,
    compare,
    quality_of,
    quality_section,
    query_metrics,
)
from precede.report.queries import (
    FirstRanks,
    Queries,
    first_ranks,
    first_rows,
    queries_of,
    row_table,
)
from precede.report.slices import Errors, Slices, compare_slices, find_errors
from precede.report.subject import ShownRow, Subject, named_models
from precede.report.summary import Summary, first_screen, summarize
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
        They are compared with the model; without a model, the report is about the first of them.
    order : names of the models and of the scores in the order to show them, optional
        The report is about the first. By default the models precede the scores.
    train : the rows of the fit, ``(X, y)`` or ``(X, y, qid)``, optional
        Metrics on them are shown too; rows or queries found in both data sets are reported.
    slices : columns by name or number, or a dictionary of arrays with one value per row; optional
        Columns that define slices, by default those that the model uses most. Queries are also
        sliced by their length. The worst slices are reported, adjusted for the number of slices.
    item, good, query : words for a row, for the class that should rank first and for a query;
        ``item="borrower", good="repaid"``
    qid : array of query identifiers, optional; `group`, the sizes of the queries in the order of
        the rows, may replace it
    pairs, pair_weight, sample_weight : as in ``fit``, optional
    docid : names of the rows, optional; the default is the index of a pandas data frame, or else
        the number of the row, from 0
    metrics : names of metrics, optional; the first one determines which queries are the worst
    relevant : the least relevant grade, for metrics that depend on it and do not name it, as
        ``"map(relevant=4)"`` does; optional
    level : level of the intervals
    max_queries : number of queries in the table of queries, the worst ones
    max_wrong : number of queries of which misordered documents are shown
    max_features : number of features shown, the most important ones
    title, date : texts, not interpreted; without a date equal inputs give equal bytes

    Attributes
    ----------
    facts : dict
        Everything in the report as plain numbers, texts, lists and dictionaries.

    Notes
    -----
    Numbers describe these rows; on the rows of the fit they are too favorable. O(n log n) for
    metrics and margins; up to 500 bootstrap samples of one list of two classes are drawn for the
    intervals of its curves, and a thousand for its top (fewer of long lists), with a fixed seed.
    Effects of features in trees are computed on at most 2000 rows.

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
        X: MatrixLike = None,
        y: VectorLike = None,
        *,
        scores: Mapping[str, ArrayLike] | ArrayLike | None = None,
        order: Sequence[str] | None = None,
        train: object = None,
        slices: object = None,
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
        names = wording.listed([each.name for each in subject.candidates])
        about = f"{names} on {words.count_items(subject.scores.size)}"
        self._facts = collect(
            subject, words, train=training_subject(train, model, relevant), slices=slices,
            metrics=with_relevant(named, relevant) if named and relevant is not None else named,
            level=level, limits=limits, title=about if title is None else str(title),
            date=None if date is None else str(date),
        )  # fmt: skip
        self.facts: Json = self._facts.to_dict()

    def __repr__(self) -> str:
        names = wording.listed([each.name for each in self._facts.models])
        share = self._facts.quality.pairs_in_order
        text = "no pair" if share is None else f"{100 * share:.1f} % of the pairs in order"
        return f"Report({names} on {self._facts.data.rows} rows: {text})"

    def _repr_html_(self) -> str:
        """Return the page in an iframe, for notebooks."""
        page = escape(self._page(), quote=True)
        style = "width: 100%; height: 640px; border: 1px solid #ccc"
        return f'<iframe srcdoc="{page}" style="{style}" title="report"></iframe>'

    def to_json(self) -> str:
        """Return the facts as JSON."""
        return json.dumps(self.facts, ensure_ascii=False, allow_nan=False, indent=1) + "\n"

    def to_markdown(self) -> str:
        """Return the report as Markdown: the page as text, with tables in place of charts."""
        return self._facts.document().markdown()

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """Write a self-contained page to `path`, atomically.

        Without a path the text is returned. Names of other formats (.md, .json, .pdf) are refused.
        """
        if path is None:
            return self._page()
        _check_suffix(path)
        write_file(path, self._page().encode("utf-8"))
        return None

    def _page(self) -> str:
        facts = self._facts
        return facts.document().html(self.facts, facts.versions["precede"])


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


# -- facts ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ModelFacts:
    """A ranking: its metrics, and the fit of its model, if any."""

    name: str
    estimator: str | None
    quality: Quality
    making: Making | None


@dataclass(frozen=True)
class Facts:
    """Everything in a report; parts without content are None or empty."""

    title: str
    date: str | None
    words: Words
    models: Sequence[ModelFacts]
    training: Training | None
    comparison: Comparison | None
    first: FirstRanks | None
    list: OneList | None
    documents: Sequence[ShownRow]
    slices: Slices | None
    queries: Queries | None
    wrong: Errors | None
    features: Features | None
    margins: Margins | None
    learning: Learning | None
    data: Data
    ties: float | None
    versions: Mapping[str, str]

    @property
    def quality(self) -> Quality:
        """The metrics of the ranking that the report is about."""
        return self.models[0].quality

    @cached_property
    def summary(self) -> Summary:
        """Sentences and warnings."""
        return summarize(self)

    def to_dict(self) -> Json:
        """Return plain numbers, texts, lists and dictionaries."""
        derived = {"words": self.words.to_dict(), "quality": self.quality, "summary": self.summary}
        return _plain({**vars(self), **derived})

    def document(self) -> Document:
        """Return the first screen and a section for each part with content."""
        models, words = [each.quality for each in self.models], self.words
        names, by_query = [each.name for each in models], self.data.queries is not None
        made = {each.name: each.making for each in self.models if each.making is not None}
        several = len(models) > 1
        first: list[Block] = []
        if self.first is not None:
            first += self.first.blocks(words, f" of {names[0]}" if several else "")
        if self.documents and self.list is None:
            first += [Heading(f"The first {words.items}"), row_table(self.documents, words)]
        sections = [
            quality_section(
                models, self.training, self.comparison, first, words, by_query=by_query
            ),
            self.list.section(models, self.documents, words) if self.list else None,
            self.slices.section(words) if self.slices else None,
            self.queries.section(names, words) if self.queries else None,
            self.wrong.section(words) if self.wrong else None,
            self.features.section(words, several=several, by_query=by_query)
            if self.features else None,
            self.margins.section(words) if self.margins else None,
            self.learning.section() if self.learning else None,
            self.data.section(words),
            making_section(made, self.versions),
        ]  # fmt: skip
        shown = [each for each in sections if each is not None]
        return Document(self.title, self.date, first_screen(self), shown)


def collect(
    subject: Subject, words: Words, *, train: Subject | None, slices: object,
    metrics: Sequence[str] | None, level: float, limits: Mapping[str, int],
    title: str, date: str | None,
) -> Facts:  # fmt: skip
    """Compute all facts of a report."""
    found = [query_metrics(subject, each.given_scores, metrics) for each in subject.candidates]
    models = []
    for each, result in zip(subject.candidates, found, strict=True):
        quality, model = quality_of(subject, each, result, metrics, level), each.model
        making = None if model is None else Making.of(model)
        kind = None if model is None else type(model).__name__
        models.append(ModelFacts(each.name, kind, quality, making))
    names = [row.metric for row in models[0].quality.metrics]
    of_list = one_list(subject, level)
    grade = "grade" if subject.classes is None else "class"
    words = replace(words, grade=grade, best=None if of_list is None else of_list.good)
    return Facts(
        title=title,
        date=date,
        words=words,
        models=models,
        training=training_of(subject, train, metrics, level),
        comparison=compare(subject, found, names, level),
        first=first_ranks(subject, level),
        list=of_list,
        documents=first_rows(subject),
        slices=compare_slices(subject, found[0], slices, level, words),
        queries=queries_of(subject, found, limits["max_queries"], named=bool(metrics)),
        wrong=find_errors(subject, found[0], limits["max_wrong"]),
        features=features_of(subject, limits["max_features"], level),
        margins=margins_of(subject),
        learning=learning_of(subject),
        data=data_of(subject, words),
        ties=_tied_share(subject),
        versions=versions(),
    )


def _plain(value: object) -> Any:
    """Return dataclasses as dictionaries and arrays as lists; NaN and infinities are None."""
    if isinstance(value, str | int | None):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if is_dataclass(value):
        value = vars(value)
    assert isinstance(value, Mapping)
    return {str(name): _plain(each) for name, each in value.items()}


def _tied_share(subject: Subject) -> float | None:
    """Return the share of equal scores among the pairs of one query and different grades."""
    rows = subject.graded
    if not rows.size:
        return None
    number, grade = subject.query[0][rows], subject.grade[rows]

    def pairs(cell: Integers) -> int:
        """Count the pairs of rows in the same cell."""
        counts = np.unique(cell, return_counts=True)[1].astype(np.int64)
        return int((counts * (counts - 1) // 2).sum())

    def within(cell: Integers, values: Floats) -> Integers:
        """Return the cells subdivided by a value of their rows."""
        distinct, at = np.unique(values, return_inverse=True)
        return cell.astype(np.int64) * distinct.size + at

    every = pairs(number) - pairs(within(number, grade))
    tied = within(number, subject.scores[rows])
    tied = np.unique(tied, return_inverse=True)[1]  # consecutive numbers again
    return (pairs(tied) - pairs(within(tied, grade))) / every if every else None
