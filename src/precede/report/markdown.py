"""The report as Markdown: the same facts, in tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["number", "to_markdown"]

_MOST_QUERIES = 20


def number(value: Any, digits: int = 4) -> str:
    """A number for reading; nothing known is a dash.

    >>> number(0.123456), number(0.5), number(12345), number(None), number(2.0), number("a")
    ('0.1235', '0.5000', '12,345', '–', '2', 'a')
    """
    if value is None:
        return "–"
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int) or (value == int(value) and abs(value) < 1e15):
        return f"{int(value):,}"
    return f"{value:#.{digits}g}".rstrip(".")


def interval(row: dict[str, Any]) -> str:
    """Both ends, or a dash."""
    if row.get("low") is None:
        return "–"
    return f"{number(row['low'])} to {number(row['high'])}"


def to_markdown(facts: dict[str, Any]) -> str:
    """Lay out the facts of a report."""
    parts = [f"# {_safe(facts['title'])}", _head(facts), *_data(facts["data"])]
    parts += _quality(facts["quality"])
    parts += _top(facts["top"]) if facts["top"] else []
    parts += _margins(facts["margins"]) + _features(facts["features"])
    parts += _queries(facts["queries"]) if facts["queries"] else []
    parts += _wrong(facts["wrong"]) + _learning(facts["learning"]) + _making(facts["making"])
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(facts: dict[str, Any]) -> str:
    making, quality = facts["making"], facts["quality"]
    date = f", {_safe(making['date'])}" if making["date"] else ""
    share = quality["pairs_in_order"]
    text = "" if share is None else f" {number(100 * share)} % of the pairs are in order."
    return f"{_safe(making['estimator'])}, {number(making['rounds'])} rounds{date}.{text}"


def _data(data: dict[str, Any]) -> list[str]:
    rows = [("rows", data["rows"]), ("features", data["features"]), ("pairs", data["pairs"])]
    if data["queries"]:
        queries = data["queries"]
        rows += [("queries", queries["count"]), ("rows in a query, least", queries["least_rows"]),
                 ("rows in a query, median", queries["median_rows"]),
                 ("rows in a query, most", queries["most_rows"])]  # fmt: skip
    if data["listed_pairs"]:
        rows.append(("pairs listed", data["listed_pairs"]))
    rows.append(("missing cells", data["missing_cells"]))
    parts = ["## The data", _table(["what", "how many"], rows)]
    if data["grades"] and data["grades"]["counts"]:
        parts.append(_table(["grade", "rows", "share"],
                            [(g["grade"], g["rows"], g["share"])
                             for g in data["grades"]["counts"]]))  # fmt: skip
    if data["warnings"]:
        parts.append("\n".join(f"* {_warning(each)}" for each in data["warnings"]))
    return parts


def _warning(each: dict[str, Any]) -> str:
    if not each["count"]:
        return _safe(each["text"])
    names = ", ".join(map(_safe, each["names"]))
    more = ", …" if each["count"] > len(each["names"]) else ""
    return f"{number(each['count'])} {_safe(each['text'])} ({names}{more})"


def _quality(quality: dict[str, Any]) -> list[str]:
    rows = [(r["metric"], r["value"], interval(r), r["units"], r["skipped"])
            for r in quality["metrics"]]  # fmt: skip
    head = ["metric", "value", f"{100 * quality['level']:g} % interval", "units", "skipped"]
    return ["## How good it is", _table(head, rows) if rows else "Nothing could be measured."]


def _top(top: dict[str, Any]) -> list[str]:
    parts = ["## The top of the list"]
    if top["kind"] == "queries":
        rows: list[tuple[Any, ...]] = [
            (p["rank"], p["queries"], p["mean_grade"], p["best_mean_grade"]) for p in top["ranks"]
        ]
        return [*parts, _table(["rank", "queries", "mean grade", "best possible"], rows)]
    if top["kind"] == "classes":
        rows = [(m["measure"], m["value"], interval(m)) for m in top["measures"]]
        parts.append(_table(["measure", "value", "interval"], rows))
    return [*parts, _documents(top["documents"])]


def _documents(documents: Iterable[dict[str, Any]]) -> str:
    rows = [(d["rank"], d["document"], d["grade"], d["score"]) for d in documents]
    return _table(["rank", "document", "grade", "score"], rows)


def _margins(margins: dict[str, Any]) -> list[str]:
    rows: list[tuple[Any, ...]] = [(each["what"], each["value"]) for each in margins["certificate"]]
    if margins["distribution"]:
        found = margins["distribution"]
        rows += [("pairs of these data", found["pairs"]), ("least margin", found["least"]),
                 ("share of pairs not above 0", found["not_above_zero"])]  # fmt: skip
    return ["## Margins and certificate", _table(["what", "value"], rows)] if rows else []


def _features(features: dict[str, Any]) -> list[str]:
    rows = [(r["name"], r["weight"]) for r in features["rows"]]
    text = f"{number(features['used'])} features are used, {number(features['shown'])} shown."
    parts = ["## Features", text, _table(["feature", "share of the total weight"], rows)]
    pairs = [(p["name"], p["importance"]) for p in features["pairs"]]
    head = ["pair of features", "mean absolute contribution"]
    return [*parts, _table(head, pairs)] if pairs else parts


def _queries(queries: dict[str, Any]) -> list[str]:
    shown = queries["rows"][:_MOST_QUERIES]
    rows = [(r["query"], r["rows"], r["pairs"], *r["values"].values()) for r in shown]
    text = f"The worst {len(shown)} of {number(queries['count'])} by {_safe(queries['main'])}."
    return ["## Query by query", text,
            _table(["query", "rows", "pairs", *queries["columns"]], rows)]  # fmt: skip


def _wrong(wrong: dict[str, Any]) -> list[str]:
    parts = []
    for entry in wrong["queries"]:
        name = "The list" if entry["query"] is None else f"Query {_safe(entry['query'])}"
        value = "" if entry["value"] is None else f": {wrong['metric']} {number(entry['value'])}"
        parts += [f"### {name}{value}", *map(_pair, entry["pairs"])]
    if wrong["listed_pairs"]:
        parts += ["### Listed pairs", *map(_pair, wrong["listed_pairs"])]
    return ["## What went wrong", *parts] if parts else []


def _pair(pair: dict[str, Any]) -> str:
    upper, lower = pair["upper"], pair["lower"]
    head = (
        f"{_safe(upper['document'])} (grade {_safe(upper['grade'])}) ranks above "
        f"{_safe(lower['document'])} (grade {_safe(lower['grade'])}) "
        f"by {number(pair['difference'])}."
    )
    if pair["features"] is None:
        return f"{head} {_safe(pair['unexplained'])}"
    rows = [(f["name"], f["upper_value"], f["lower_value"], f"{f['contribution']:+#.4g}")
            for f in pair["features"]]  # fmt: skip
    if pair["other_features"]:
        rows.append((f"others ({pair['other_features']})", "", "", f"{pair['others']:+#.4g}"))
    return head + "\n\n" + _table(["feature", "upper", "lower", "contribution"], rows)


def _learning(learning: dict[str, Any]) -> list[str]:
    rows = [
        (chart["title"], name, _last(values))
        for chart in learning["charts"]
        for name, values in chart["curves"].items()
    ]
    return ["## Learning", _table(["column", "line", "after the last round"], rows)] if rows else []


def _last(values: Sequence[float | None]) -> float | None:
    return values[-1] if values else None


def _making(making: dict[str, Any]) -> list[str]:
    rows: list[tuple[Any, ...]] = [("algorithm", making["estimator"]), ("rounds", making["rounds"]),
                         ("stopped", making["stop_reason"]), ("seed", making["seed"])]  # fmt: skip
    rows += [("date", making["date"])] if making["date"] else []
    edits = [tuple(each[name] for name in ("term", "what", "before", "after"))
             for each in making["edits"]]  # fmt: skip
    head = ["term", "edited by hand", "pairs in order before", "after"]
    return ["## How it was made", *([_table(head, edits)] if edits else []),
            _table(["what", "value"], rows),
            _table(["parameter", "value"], [(k, str(v)) for k, v in making["parameters"].items()]),
            _table(["package", "version"], making["versions"].items())]  # fmt: skip


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [f"| {' | '.join(map(_safe, head))} |", f"|{'---|' * len(head)}"]
    for row in rows:
        cells = (_safe(cell) if isinstance(cell, str) else number(cell) for cell in row)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _safe(text: Any) -> str:
    """Text that Markdown shows as it is.

    >>> _safe("<i>")
    '&lt;i&gt;'
    """
    flat = re.sub(r"\s+", " ", str(text)).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*\[\]|])", r"\\\1", flat.replace(">", "&gt;"))
