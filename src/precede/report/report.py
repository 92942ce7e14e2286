"""`Report`: the facts, computed once, and the page, the Markdown and the JSON made of them."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from html import escape
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from precede.engine.arrays import Array, Floats, Integers
from precede.engine.frames import row_labels
from precede.engine.parameters import upper_tail, check_integer
from precede.estimator import BaseRanker
from precede.files.streams import suffix_of
from precede.judgments import (
    Judgments,
    check_column,
    check_scores,
    feature_names,
    judgments_to_fit,
    number_queries,
    warn_of_lost_queries,
)
from precede.metrics.registry import check_grade, with_relevant
from precede.model import plain, write_file
from precede.report import document, wording
from precede.report.data import (
    data_facts,
    making_facts,
    training_facts,
    training_subject,
    version_facts,
)
from precede.report.figures import figures_of
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
from precede.report.slices import slice_facts, wrong_facts
from precede.report.summary import summary_facts
from precede.report.wording import Words

if TYPE_CHECKING:
    from typing_extensions import Self


# What is written to a file, by its suffix.
STYLES = {".htm": "html", ".html": "html", ".json": "json", ".md": "markdown", ".pdf": "pdf"}


class Report:
    """How good models are on some rows, which is better, where they err and why.

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
        Parts of the data to look at. Without, the columns that the model uses most. Queries are
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
        upper_tail(level)  # refuses what is no level
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
        """The page in a frame of its own, for notebooks."""
        page = escape(_page(self.facts), quote=True)
        style = "width: 100%; height: 640px; border: 1px solid #ccc"
        return f'<iframe srcdoc="{page}" style="{style}" title="report"></iframe>'

    def to_json(self) -> str:
        """The facts as JSON text."""
        return json.dumps(self.facts, ensure_ascii=False, allow_nan=False, indent=1) + "\n"

    def to_markdown(self) -> str:
        """The facts in tables."""
        return document.to_markdown(self.facts)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """One page that needs nothing else: written, whole or not at all, to `path`.

        Without a path the text is returned. Names of other formats (.pdf, .md, .json) are refused.
        """
        if path is None:
            return _page(self.facts)
        _check_suffix(path, "html")
        text = _page(self.facts)
        write_file(path, text.encode("utf-8"))
        return None

    def to_pdf(self, path: str | os.PathLike[str]) -> None:
        """The page on paper, printed by Chromium, Chrome or Edge; ImportError where there is none.

        The environment variable CHROMIUM names one that is not on the path.
        """
        _check_suffix(path, "pdf")
        write_pdf(_page(self.facts), path)


def _check_suffix(path: str | os.PathLike[str], style: str) -> None:
    """Refuse a name that says that something else is in the file."""
    suffix = suffix_of(path)
    if STYLES.get(suffix, style) == style:
        return
    made = {"html": "to_html(path)", "pdf": "to_pdf(path)", "json": "to_json()",
            "markdown": "to_markdown()"}  # fmt: skip
    raise ValueError(
        f"{os.fspath(path)}: to_{style} writes {style.upper()}, not {suffix}; name the file "
        f".{style}, or call {made[STYLES[suffix]]}"
    )


# -- the page --------------------------------------------------------------------------------


@lru_cache
def _template() -> Template:
    """The template, compiled once: this takes longer than to fill it."""
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
    """Fill the template; every text is escaped by it, and only our own script may run."""
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
    """JSON that cannot end the element it stands in."""
    text = json.dumps(facts, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


# -- All facts of a report, each part computed by its own module ---------------------------------


def collect(
    subject: Subject, words: Words, *, train: Subject | None, slices: Any,
    metrics: Sequence[str] | None, level: float, limits: dict[str, int],
) -> dict[str, Any]:  # fmt: skip
    """Compute everything that the report tells."""
    found = [measured(subject, each.returned, metrics) for each in subject.candidates]
    models: list[dict[str, Any]] = []
    for each, result in zip(subject.candidates, found, strict=True):
        models.append({
            "name": each.name,
            "estimator": None if each.model is None else type(each.model).__name__,
            "quality": quality_facts(subject, each.scores, result, metrics, level),
            "making": None if each.model is None else making_facts(each.model),
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
        "wrong": wrong_facts(subject, found[0], limits["max_wrong"]),
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
    """Share of the pairs of different grades, of one query, whose scores are equal."""
    rows = subject.graded
    if not rows.size:
        return None
    number, grade = subject.query[0][rows], subject.grade[rows]

    def pairs(cell: Integers) -> int:
        """Pairs of rows in the same cell."""
        counts = np.unique(cell, return_counts=True)[1].astype(np.int64)
        return int((counts * (counts - 1) // 2).sum())

    def within(cell: Integers, values: Any) -> Integers:
        """Cells divided by the values of their rows."""
        distinct, at = np.unique(values, return_inverse=True)
        return cell.astype(np.int64) * distinct.size + at

    every = pairs(number) - pairs(within(number, grade))
    tied = within(number, scores[rows])
    tied = np.unique(tied, return_inverse=True)[1]  # small numbers again
    return (pairs(tied) - pairs(within(tied, grade))) / every if every else None


# -- What a report is about: models or scores, and rows whose order is known ---------------------


@dataclass(frozen=True, eq=False)
class Candidate:
    """Something that ranks: its name, its scores of the rows, and the model that gave them.

    Rows that were not returned have the score −inf in `returned`, by which metrics go, and one
    below all others in `scores`, by which rows are listed.
    """

    name: str
    scores: Floats
    model: BaseRanker | None = None
    returned: Floats = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "returned", self.scores)
        absent = np.isneginf(self.scores)
        if absent.any():
            lowest = np.min(self.scores, where=~absent, initial=0.0)
            scores = np.where(absent, np.nextafter(lowest, -np.inf), self.scores)
            object.__setattr__(self, "scores", scores)


@dataclass(frozen=True, eq=False)
class Subject:
    """The candidates, the rows they are judged on, and what is known of these.

    The first candidate is what the report is about; the others are compared with it. `X` are the
    features as the first model reads them, None where there are none. `classes` are the two
    classes, if the rows are a single list of two. `relevant` is the least relevant grade, for
    metrics that ask.
    """

    candidates: tuple[Candidate, ...]
    X: Any
    judgments: Judgments
    classes: Array | None
    names: tuple[str, ...]
    documents: tuple[str, ...] | None
    relevant: float | None = None

    @classmethod
    def of(
        cls,
        models: Mapping[str, BaseRanker],
        scores: Any,
        X: Any,
        y: Any,
        *,
        documents: Any = None,
        order: Sequence[str] | None = None,
        relevant: float | None = None,
        **target: Any,
    ) -> Self:
        """Check everything once."""
        given = _given_scores(scores, models)
        if not models and not given:
            raise ValueError("there is nothing to report on; give a fitted model, or scores={...}")
        if y is None and target.get("pairs") is None:
            raise ValueError("a report needs y: grades, two classes or Judgments; or pairs")
        if X is None and models:
            raise ValueError("X is None, and the model needs it to score; scores=... alone do not")
        read = [model._validated(X, reset=False) for model in models.values()]
        features = read[0] if read else _features(X)
        rows = features.shape[0] if features is not None else len(_rows(y, given))
        candidates = [
            Candidate(name, _predicted(model, X, rows), model) for name, model in models.items()
        ]
        candidates += [
            Candidate(name, check_scores(each, f"scores[{name!r}]", rows))
            for name, each in given.items()
        ]
        candidates = _ordered(candidates, order)
        judgments, classes = judgments_to_fit(rows, y, **target)
        for model in models.values():
            warn_of_lost_queries(model, judgments)
        known = [getattr(model, "feature_names_in_", None) for model in models.values()]
        width = 0 if features is None else features.shape[1]
        named = feature_names(known[0] if known else _columns(X), width)
        documents = row_labels(X) if documents is None else documents
        return cls(tuple(candidates), features, judgments, classes, tuple(named),
                   _documents(documents, rows), relevant)  # fmt: skip

    @property
    def first(self) -> Candidate:
        """What the report is about."""
        return self.candidates[0]

    @property
    def scores(self) -> Floats:
        """Scores of the first candidate."""
        return self.first.scores

    @property
    def model(self) -> BaseRanker | None:
        """The model of the first candidate that has one."""
        return next((each.model for each in self.candidates if each.model is not None), None)

    @cached_property
    def query(self) -> tuple[Integers, list[Any]]:
        """Number of the query of every row, and the identifier of every number."""
        if self.judgments.qid is None:
            return np.zeros(self.scores.size, np.int64), [None]
        number, ids = number_queries(self.judgments.qid)
        return number.astype(np.int64), [plain_value(each) for each in ids.tolist()]

    @property
    def is_one_list(self) -> bool:
        """Whether there are no queries."""
        return self.judgments.qid is None

    @property
    def is_listed(self) -> bool:
        """Whether all that is known are listed pairs."""
        return self.judgments.pairs is not None and not self.graded.size

    @cached_property
    def grade(self) -> Floats:
        """Grade of every row, NaN where there is none or the row does not count."""
        grade = self.judgments.grade
        known = np.full(self.scores.size, np.nan) if grade is None else grade.copy()
        if self.judgments.weight is not None:
            known[self.judgments.weight == 0] = np.nan
        return known

    @cached_property
    def graded(self) -> Integers:
        """Rows with a grade that counts."""
        return np.flatnonzero(~np.isnan(self.grade))

    @cached_property
    def lists(self) -> list[Integers]:
        """Graded rows of each query from the top; of equal scores the worse grade is first."""
        return self.lists_by(self.scores)

    def lists_by(self, scores: Floats) -> list[Integers]:
        """Graded rows of each query in the order of some scores, as in `lists`."""
        rows, number = self.graded, self.query[0]
        order = np.lexsort((rows, self.grade[rows], -scores[rows], number[rows]))
        ends = np.searchsorted(number[rows][order], np.arange(1, len(self.query[1])))
        return np.split(rows[order], ends)

    @cached_property
    def is_two_classes(self) -> bool:
        """Whether the rows are one list of two grades."""
        return self.is_one_list and np.unique(self.grade[self.graded]).size == 2

    def column(self, feature: int) -> Floats:
        """One feature of every row."""
        return dense(self.X[:, [feature]]).ravel()

    @cached_property
    def _lowest(self) -> float:
        return float(np.nanmin(self.judgments.grade))  # type: ignore[arg-type]

    def document(self, row: int) -> str:
        """Name of a row, or its number."""
        return str(row) if self.documents is None else self.documents[row]

    def grade_name(self, grade: float) -> Any:
        """A grade as the user wrote it: classes keep their names."""
        if math.isnan(grade):
            return None
        if self.classes is not None:
            name = plain_value(self.classes[int(grade > self._lowest)].item())
            return int(name) if isinstance(name, float) and name == int(name) else name
        return int(grade) if grade == int(grade) else float(grade)


def named_models(models: Any) -> dict[str, BaseRanker]:
    """Models by name: one, several or none; those without a name have that of their kind."""
    if models is None:
        return {}
    if isinstance(models, Mapping):
        named = {str(name): each for name, each in models.items()}
    else:
        several = list(models) if isinstance(models, list | tuple) else [models]
        named = {}
        for each in several:
            kind = type(each).__name__
            count = sum(name.split(" ")[0] == kind for name in named)
            named[f"{kind} {count + 1}" if count else kind] = each
    for each in named.values():
        if not isinstance(each, BaseRanker):
            raise ValueError(
                f"a report needs fitted rankers of precede, not {type(each).__name__}; give what "
                "others predict as scores={'name': scores}"
            )
        check_is_fitted(each)
    return named


def dense(X: Any) -> Floats:
    """Rows as an array, whether they are sparse or not."""
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X, np.float64)


def _rows(y: Any, scores: Mapping[str, Any]) -> Any:
    """What has as many entries as there are rows, where there are no features."""
    return next(iter(scores.values())) if y is None else y


def _given_scores(scores: Any, models: Mapping[str, Any]) -> dict[str, Any]:
    if scores is None:
        return {}
    if not isinstance(scores, Mapping):
        return {"scores": scores}
    named = {str(name): each for name, each in scores.items()}
    twice = [name for name in named if name in models]
    if twice:
        raise ValueError(f"a model and scores are both called {twice[0]!r}; rename one of them")
    return named


def _ordered(candidates: list[Candidate], order: Sequence[str] | None) -> list[Candidate]:
    """The candidates by name, each once."""
    named = {each.name: each for each in candidates}
    if order is None:
        return candidates
    if isinstance(order, str) or sorted(map(str, order)) != sorted(named):
        raise ValueError(f"order={order!r} must list every name once: {list(named)}")
    return [named[str(name)] for name in order]


def _predicted(model: BaseRanker, X: Any, rows: int) -> Floats:
    scores = model.predict(X)
    if scores.ndim != 1:
        raise ValueError(
            f"{type(model).__name__} gives a row {scores.shape[1]} scores, one for each label; "
            "a report needs a model that gives one"
        )
    return check_column(scores, "scores", rows)


def _features(X: Any) -> Any:
    """Features that no model reads, as numbers; None if there are none."""
    if X is None or hasattr(X, "tocsc"):
        return X
    try:
        table = np.asarray(X, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"X holds what is not a number ({error}); leave it out") from error
    if table.ndim != 2:
        raise ValueError(f"X has {table.ndim} dimensions; give rows and columns")
    return table


def _columns(X: Any) -> Any:
    columns = getattr(X, "columns", None)
    return None if columns is None else [str(each) for each in columns]


def _documents(given: ArrayLike | None, rows: int) -> tuple[str, ...] | None:
    if given is None:
        return None
    names = tuple(map(str, np.asarray(given, object).tolist()))
    if len(names) != rows:
        raise ValueError(f"docid has {len(names)} names and X has {rows} rows; give one per row")
    return names


def plain_value(value: Any) -> Any:
    """A number or a text, for JSON: whatever else becomes text, NaN and infinities None.

    >>> plain_value(3), plain_value(float("nan")), plain_value((1, 2))
    (3, None, '(1, 2)')
    """
    return str(value) if isinstance(value, list | tuple | dict) else plain(value, spell=False)


def thinned(size: int, most: int) -> Integers:
    """Indices of at most `most` of `size` points, evenly spaced, both ends among them.

    >>> thinned(10, 4).tolist(), thinned(3, 4).tolist()
    ([0, 3, 6, 9], [0, 1, 2])
    """
    if size <= most:
        return np.arange(size)
    return np.unique(np.round(np.linspace(0, size - 1, most)).astype(np.int64))


# -- The page on paper: Chromium turns it into a PDF file ----------------------------------------


_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome",
          "microsoft-edge", "msedge")  # fmt: skip
_PATHS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
)
_SECONDS = 120


def find_chromium() -> str | None:
    """The browser that CHROMIUM names, or one with a usual name or path; None without."""
    given = os.environ.get("CHROMIUM")
    if given:
        return shutil.which(given)
    found = (shutil.which(name) for name in _NAMES)
    return next(filter(None, found), next((path for path in _PATHS if Path(path).exists()), None))


def write_pdf(page: str, path: str | os.PathLike[str]) -> None:
    """Print a page into a file, whole or not at all; ImportError where there is no browser."""
    browser = find_chromium()
    if browser is None:
        given = os.environ.get("CHROMIUM")
        found = f"CHROMIUM={given!r} is not a program" if given else "none was found"
        raise ImportError(
            f"a PDF file needs Chromium, Chrome or Edge, and {found}; install one, set "
            "CHROMIUM to its path, or write the report as .html and print it from a browser"
        )
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder) / "report.html", Path(folder) / "report.pdf"
        source.write_text(page, encoding="utf-8")
        command = [
            browser, "--headless", "--disable-gpu", "--no-first-run", "--no-pdf-header-footer",
            f"--user-data-dir={Path(folder) / 'profile'}", f"--print-to-pdf={made}",
            *(["--no-sandbox"] if _is_root() else []), source.as_uri(),
        ]  # fmt: skip
        try:
            done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
        except subprocess.TimeoutExpired as error:
            raise ValueError(f"{browser} did not print within {_SECONDS} s; try .html") from error
        if not made.exists() or not made.stat().st_size:
            message = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
            raise ValueError(f"{browser} wrote no PDF: {' '.join(message) or 'no message'}")
        write_file(path, made.read_bytes())


def _is_root() -> bool:
    """Chromium refuses its sandbox to root; the page is our own and loads nothing."""
    return hasattr(os, "geteuid") and os.geteuid() == 0
