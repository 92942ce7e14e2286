"""`Report`: the facts, computed once, and the page, the Markdown and the JSON made of them."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Sequence
from html import escape
from importlib import resources
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from numpy.typing import ArrayLike

from precede.engine.parameters import upper_tail, whole_number
from precede.estimator import BaseRanker
from precede.model import write_file
from precede.report import described, drawing, inside, judged, markdown, wrong
from precede.report.subject import Subject

__all__ = ["Report"]


class Report:
    """What a fitted model is, how good it is on some rows, and where it errs.

    Parameters
    ----------
    model : fitted ranker
    X : array, data frame or sparse matrix
    y : array of grades or of two classes, or Judgments
    qid : array of query identifiers, optional
    pairs, pair_weight, sample_weight : as in ``fit``, optional
    docid : names of the rows, optional; the default is the index of a pandas data frame, or else
        the number of the row, from 0
    metrics : names of metrics, the one that says which query is worst first; optional
    level : of the intervals
    max_queries : rows of the table of queries, of which the worst are kept
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
    metrics and margins; a thousand samples of one list of two classes (a hundred from 100,000
    rows on) are drawn for the intervals at its top, with a fixed seed.

    Examples
    --------
    >>> from precede import RankBoost, Report
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]
    >>> report = Report(RankBoost(n_estimators=2, step="bound").fit(X, y), X, y)
    >>> report
    Report(RankBoost of 2 rounds on 4 rows: 0.875 of the pairs in order)
    >>> report.to_markdown().splitlines()[0]
    '# RankBoost on 4 rows'
    """

    def __init__(
        self,
        model: BaseRanker,
        X: Any,
        y: Any = None,
        *,
        qid: ArrayLike | None = None,
        pairs: ArrayLike | None = None,
        pair_weight: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        docid: ArrayLike | None = None,
        metrics: Sequence[str] | str | None = None,
        level: float = 0.95,
        max_queries: int = 1000,
        max_wrong: int = 10,
        max_features: int = 20,
        title: str | None = None,
        date: str | None = None,
    ):
        upper_tail(level)  # refuses what is no level
        limits = {"max_queries": max_queries, "max_wrong": max_wrong, "max_features": max_features}
        for name, value in limits.items():
            whole_number(name, value, least=1)
        subject = Subject.of(
            model, X, y, documents=docid, qid=qid, pairs=pairs, pair_weight=pair_weight,
            sample_weight=sample_weight,
        )  # fmt: skip
        wanted = [metrics] if isinstance(metrics, str) else metrics
        result = judged.evaluated(subject, wanted)
        kind, rows = type(model).__name__, subject.scores.size
        self.facts: dict[str, Any] = {
            "title": f"{kind} on {rows:,} rows" if title is None else str(title),
            "data": described.data_facts(subject),
            "quality": judged.quality_facts(subject, result, level),
            "top": judged.top_facts(subject, level),
            "margins": inside.margin_facts(subject),
            "features": inside.feature_facts(subject, max_features),
            "queries": judged.query_facts(subject, result, wanted, max_queries),
            "wrong": wrong.wrong_facts(subject, result, max_wrong),
            "learning": inside.learning_facts(subject),
            "making": described.making_facts(subject, None if date is None else str(date)),
        }

    def __repr__(self) -> str:
        making, share = self.facts["making"], self.facts["quality"]["pairs_in_order"]
        text = "no pair" if share is None else f"{share:.4g} of the pairs in order"
        rows = self.facts["data"]["rows"]
        return f"Report({making['estimator']} of {making['rounds']} rounds on {rows} rows: {text})"

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
        return markdown.to_markdown(self.facts)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """One page that needs nothing else: written, whole or not at all, to `path`.

        Without a path the text is returned.
        """
        text = _page(self.facts)
        if path is None:
            return text
        write_file(path, text.encode("utf-8"))
        return None


# -- the page --------------------------------------------------------------------------------


def _page(facts: dict[str, Any]) -> str:
    """Fill the template; every text is escaped by it, and only our own script may run."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"number": markdown.number, "interval": markdown.interval}
    script = _part("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return environment.from_string(_part("report.html.j2")).render(
        facts=facts,
        figures=_figures(facts),
        style=Markup(_part("report.css")),
        script=Markup(script),
        digest=digest,
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


def _figures(facts: dict[str, Any]) -> dict[str, Any]:
    return {
        "top": _top_figures(facts["top"]),
        "margins": _margin_figure(facts["margins"]["distribution"]),
        "shapes": [_shape_figure(row) for row in facts["features"]["rows"]],
        "pairs": [_pair_figure(pair) for pair in facts["features"]["pairs"]],
        "learning": [
            _learning_figure(chart, facts["learning"]) for chart in facts["learning"]["charts"]
        ],
    }


def _top_figures(top: dict[str, Any] | None) -> list[Markup]:
    if top is None or top["kind"] == "list":
        return []
    if top["kind"] == "classes":
        curve = top["curve"]
        points = _stairs(curve["negatives"], curve["positives"])
        return [
            drawing.strip_chart(
                top["strip"]["shown"], top["strip"]["positives"],
                title="ranks of the positives at the top of the list", label="rank in the list",
            ),
            drawing.line_chart(
                {"positives": points}, title="positives found against negatives passed",
                labels=("negatives passed", "positives above"),
            ),
        ]  # fmt: skip
    ranks = top["ranks"]
    if not ranks[0]["shares"]:
        curves = {
            "model": [(p["rank"], p["mean_grade"]) for p in ranks],
            "best possible": [(p["rank"], p["best_mean_grade"]) for p in ranks],
        }
        title = "mean grade at each rank"
        return [drawing.line_chart(curves, title=title, labels=("rank", "mean grade"))]
    title = "share of each grade at each rank"
    return [drawing.grades_chart(ranks, list(ranks[0]["shares"]), title=title, label="rank")]


def _stairs(x: list[float], y: list[float]) -> list[tuple[float, float]]:
    """Corners of a line that keeps each value up to the next point."""
    ends = [*x[1:], x[-1]]
    return [corner for a, b, v in zip(x, ends, y, strict=True) for corner in ((a, v), (b, v))]


def _margin_figure(found: dict[str, Any] | None) -> Markup:
    if found is None:
        return Markup("")
    points = list(zip(found["theta"], found["share"], strict=True))
    title = "share of the pairs with a margin of at most each value"
    labels = ("margin", "share of the pairs")
    return drawing.area_chart(points, title=title, labels=labels, marks=[(0.0, "0")])


def _shape_figure(row: dict[str, Any]) -> Markup:
    shape = row["shape"]
    if shape is None:
        return Markup("")
    points = list(zip(shape["x"], shape["y"], strict=True))
    bars = (shape["edges"], shape["counts"]) if sum(shape["counts"]) else None
    title = f"what {row['name']} adds to the score"
    labels = (row["name"], "contribution to the score")
    return drawing.line_chart({row["name"]: points}, title=title, labels=labels, bars=bars,
                              zero=True)  # fmt: skip


def _pair_figure(pair: dict[str, Any]) -> Markup:
    one, other = pair["features"]
    return drawing.heat_chart(
        pair["values"], pair["counts"], pair["labels"],
        title=f"what {one} and {other} add to the score together", labels=(one, other),
    )  # fmt: skip


def _learning_figure(chart: dict[str, Any], learning: dict[str, Any]) -> Markup:
    curves = {
        name: [(at, v) for at, v in zip(learning["at"], values, strict=True) if v is not None]
        for name, values in chart["curves"].items()
    }
    best = learning["best"]
    name = "kept" if best == learning["kept"] else "best"
    marks = [] if best is None else [(float(best), f"{name}: {best}")]
    log = inside.log_scale([value for values in chart["curves"].values() for value in values])
    title = f"{chart['title']} round by round"
    labels = ("round", chart["title"])
    return drawing.line_chart(curves, title=title, labels=labels, log=log, marks=marks)
