"""Markdown renderer of a report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from precede.report.wording import (
    class_name,
    difference,
    difference_interval,
    feature_value,
    in_units,
    interval,
    measure_name,
    metric_name,
    number,
    p_value,
    rounded,
    share,
    shown_interval,
    shown_value,
)

_MAX_QUERIES = 20


def to_markdown(facts: dict[str, Any]) -> str:
    """Render the facts of a report as Markdown."""
    words = facts["words"]
    parts = [f"# {_escaped(facts['title'])}", *([_escaped(facts["date"])] if facts["date"] else [])]
    parts += [_escaped(each) for each in facts["summary"]["sentences"]]
    parts += ["\n".join(f"* {_escaped(each)}" for each in facts["summary"]["warnings"])]
    parts += [_escaped(facts["summary"]["note"])]
    parts += _quality(facts) + _comparison(facts["comparison"])
    parts += _first(facts["first"]) + _list(facts["list"], words)
    parts += _documents(facts)
    parts += _slices(facts["slices"], words)
    parts += _queries(facts["queries"], words) + _wrong(facts)
    parts += _features(facts["features"]) + _margins(facts["margins"])
    parts += _learning(facts["learning"]) + _data(facts) + _making(facts)
    return "\n\n".join(part for part in parts if part) + "\n"


def _quality(facts: dict[str, Any]) -> list[str]:
    quality, train = facts["quality"], facts["training"]
    if not quality["metrics"]:
        return []
    ends = f"{100 * quality['level']:g} % interval"
    head = ["metric", *(text for each in facts["models"] for text in (each["name"], ends))]
    head += [f"{each['name']}, training" for each in train["models"]] if train else []
    rows = []
    for at, row in enumerate(quality["metrics"]):
        mean = row["metric"] == "pairs_in_order" and row["unit"] == "query"
        over = f", mean over {facts['words']['queries']}" if mean else ""
        cells = [metric_name(row["metric"]) + over]
        for each in facts["models"]:
            mine = each["quality"]["metrics"][at]
            cells += [shown_value(mine), shown_interval(mine)]
        for each in train["models"] if train else []:
            known = [r for r in each["metrics"] if r["metric"] == row["metric"]]
            cells.append(shown_value(known[0]) if known else "–")
        rows.append([*cells, number(row["units"])])
    unit = quality["metrics"][0]["unit"]
    why = sorted({row["no_interval"] for row in quality["metrics"] if row["no_interval"]})
    words = facts["words"] | {"pairs": "pairs"}
    head.append(words[{"query": "queries", "pair": "pairs"}.get(unit, "items")])
    notes = [f"No interval: {each}." for each in why]
    if unit == "query" and quality["pairs_in_order"] is not None:
        queries = facts["words"]["queries"]
        notes.insert(0, f"Means over {queries}. The {share(quality['pairs_in_order'])} of pairs in "
                        f"order above pools the pairs of all {queries}, so that long ones count "
                        "more.")  # fmt: skip
    return ["## How good it is", _table(head, rows), *map(_escaped, notes)]


def _comparison(compared: dict[str, Any] | None) -> list[str]:
    if compared is None:
        return []
    rows = []
    for row in compared["rows"]:
        for k, each in enumerate(row["differences"]):
            p = "–" if each["p_value"] is None else p_value(each["p_value"])[2:].replace("= ", "")
            won = f"{row['won']}, {row['lost']}, {row['tied']}" if row["won"] is not None else ""
            name = each["metric"]
            ends = difference_interval(each["low"], each["high"], name)
            rows.append([row["name"] if k == 0 else "", metric_name(name),
                         difference(each["difference"], name), ends, p,
                         won if k == 0 else ""])  # fmt: skip
    head = ["against", "metric", "difference", f"{100 * compared['level']:g} % interval", "p",
            "won, lost, tied"]  # fmt: skip
    others = compared["rows"][0]["name"] if len(compared["rows"]) == 1 else "the others"
    return [f"## {_escaped(compared['first'])} against {_escaped(others)}", _table(head, rows)]


def _first(first: dict[str, Any] | None) -> list[str]:
    if first is None:
        return []
    models = first["models"]
    rows = [(k, *(mean[k - 1] for mean in models.values()), first["best"][k - 1])
            for k in first["ranks"]]  # fmt: skip
    return ["## Mean grade of the first k", _table(["k", *models, "best possible"], rows)]


def _list(found: dict[str, Any] | None, words: dict[str, Any]) -> list[str]:
    if found is None:
        return []
    good = words["good"] or str(found["good"])
    rows = [(f"{100 * d['depth']:g} %", share(d["gain"]), interval(d, share), share(d["best"]),
             f"{d['lift']:.2f}") for d in found["depths"]]  # fmt: skip
    part, rare = ("last", f"not {good}") if found["below"] else ("first", good)
    head = [f"{part} part of the list", f"gain: of all {rare}", "interval", "best possible", "lift"]
    others = [("KS", rounded(value), interval(found["separation"])) if k == 0 else
              (f"KS of {name}", rounded(value), "")
              for k, (name, value) in enumerate(found["separation"]["values"].items())]  # fmt: skip
    others += [(measure_name(m["measure"], good), number(m["value"]), interval(m, number))
               for m in found["top"]]  # fmt: skip
    return ["## The list", _table(head, rows), _table(["measure", "value", "interval"], others)]


def _grade_word(facts: dict[str, Any]) -> str:
    return "class" if facts["data"]["classes"] else "grade"


def _documents(facts: dict[str, Any]) -> list[str]:
    words, found = facts["words"], facts["list"]
    rows = [(d["rank"], str(d["document"]), class_name(d["grade"], found, words), d["score"])
            for d in facts["documents"]]  # fmt: skip
    return [_table(["rank", words["item"], _grade_word(facts), "score"], rows)] if rows else []


def _slices(slices: dict[str, Any] | None, words: dict[str, str]) -> list[str]:
    if slices is None:
        return []
    worse = "1 is" if slices["worse"] == 1 else f"{slices['worse'] or 'none'} are"
    text = f"{slices['tested']} slices were compared with the rest; {worse} worse " \
           "beyond chance, after Holm's adjustment."  # fmt: skip
    rows = [(f"{r['by']} {r['label']}", r["units"], in_units(r["value"], slices["metric"]),
             in_units(r["rest"], slices["metric"]),
             p_value(r["adjusted"])[2:].replace("= ", "")) for r in slices["worst"]]  # fmt: skip
    units = words["queries" if slices["unit"] == "query" else "items"]
    head = ["slice", units, metric_name(slices["metric"]), "the rest", "p, adjusted"]
    return ["## Slices", text, *([_table(head, rows)] if rows else [])]


def _queries(queries: dict[str, Any] | None, words: dict[str, str]) -> list[str]:
    if queries is None:
        return []
    shown = queries["rows"][:_MAX_QUERIES]
    rows = [
        (
            str(r["query"]),
            r["rows"],
            r["pairs"],
            *(in_units(value, name) for name, value in r["values"].items()),
        )
        for r in shown
    ]
    main = metric_name(queries["main"])
    text = f"The worst {len(shown)} of {number(queries['count'])} by {_escaped(main)}."
    head = [words["query"], words["items"], "pairs", *map(metric_name, queries["columns"])]
    return [f"## {words['queries'].capitalize()} one by one", text, _table(head, rows)]


def _row_text(document: dict[str, Any], facts: dict[str, Any]) -> str:
    """Describe a row by its name and its grade or class, if any."""
    grade, found, words = document["grade"], facts["list"], facts["words"]
    name = _escaped(document["document"])
    if grade is None:
        return name
    if found is not None and words["good"]:
        return f"{name} ({_escaped(class_name(grade, found, words))})"
    return f"{name} ({_grade_word(facts)} {_escaped(grade)})"


def _wrong(facts: dict[str, Any]) -> list[str]:
    wrong, words = facts["wrong"], facts["words"]
    if wrong is None:
        return []
    parts = ["## What went wrong"]
    for entry in wrong["queries"]:
        known = f"{words['query'].capitalize()} {_escaped(entry['query'])}"
        name = "The list" if entry["query"] is None else known
        value = ""
        if entry["value"] is not None:
            value = f": {metric_name(wrong['metric'])} {in_units(entry['value'], wrong['metric'])}"
        parts += [f"### {name}{value}", *(_pair(pair, facts) for pair in entry["pairs"])]
    if wrong["listed_pairs"]:
        parts += ["### Listed pairs", *(_pair(pair, facts) for pair in wrong["listed_pairs"])]
    return parts


def _pair(pair: dict[str, Any], facts: dict[str, Any]) -> str:
    upper, lower = (_row_text(pair[side], facts) for side in ("upper", "lower"))
    head = f"{upper} ranks above {lower} by {number(pair['difference'])}, and should not."
    if pair["features"] is None:
        return f"{head} {_escaped(pair['unexplained'] or '')}".strip()
    rows = [(f["name"], feature_value(f["upper_value"], f["years"]),
             feature_value(f["lower_value"], f["years"]), f"{f['contribution']:+#.4g}")
            for f in pair["features"]]  # fmt: skip
    if pair["other_features"]:
        rows.append((f"others ({pair['other_features']})", "", "", f"{pair['others']:+#.4g}"))
    return head + "\n\n" + _table(["feature", "upper", "lower", "contribution"], rows)


def _features(features: dict[str, Any] | None) -> list[str]:
    if features is None or not features["rows"]:
        return []
    rows = [(r["name"], r["weight"], *_ends(r["curve"])) for r in features["rows"]]
    text = f"{number(features['used'])} features are used, {number(features['shown'])} shown."
    head = ["feature", "share of the total weight", "least it adds", "most it adds"]
    parts = ["## Features", text, _table(head, rows)]
    pairs = [(p["name"], p["importance"]) for p in features["pairs"]]
    head = ["pair of features", "mean absolute contribution"]
    return [*parts, _table(head, pairs)] if pairs else parts


def _ends(curve: dict[str, Any] | None) -> tuple[Any, Any]:
    return (None, None) if curve is None else (min(curve["y"]), max(curve["y"]))


def _margins(margins: dict[str, Any] | None) -> list[str]:
    if margins is None:
        return []
    rows: list[tuple[Any, ...]] = [(each["what"], each["value"]) for each in margins["certificate"]]
    if margins["distribution"]:
        rows.append(("least margin", margins["distribution"]["least"]))
    return ["## Margins and certificate", _table(["what", "value"], rows)] if rows else []


def _learning(learning: dict[str, Any] | None) -> list[str]:
    rows = [
        (chart["title"], name, values[-1] if values else None)
        for chart in (learning["charts"] if learning else [])
        for name, values in chart["curves"].items()
    ]
    return ["## Learning", _table(["column", "line", "after the last round"], rows)] if rows else []


def _data(facts: dict[str, Any]) -> list[str]:
    data, words, found = facts["data"], facts["words"], facts["list"]
    rows = [
        (words["items"], data["rows"]),
        ("features", data["features"]),
        ("pairs", data["pairs"]),
    ]
    if data["queries"]:
        queries, size = data["queries"], f"{words['items']} in a {words['query']}"
        rows += [(words["queries"], queries["count"]), (f"{size}, least", queries["least_rows"]),
                 (f"{size}, median", queries["median_rows"]),
                 (f"{size}, most", queries["most_rows"])]  # fmt: skip
    if data["listed_pairs"]:
        rows.append(("pairs listed", data["listed_pairs"]))
    rows.append(("missing cells", data["missing_cells"]))
    parts = ["## The data", _table(["what", "how many"], rows)]
    if data["grades"] and data["grades"]["counts"]:
        counts = [(class_name(g["grade"], found, words), g["rows"], share(g["share"]))
                  for g in data["grades"]["counts"]]  # fmt: skip
        parts.append(_table([_grade_word(facts), words["items"], "share"], counts))
    if data["warnings"]:
        parts.append("\n".join(f"* {_warning(each)}" for each in data["warnings"]))
    return parts


def _warning(each: dict[str, Any]) -> str:
    if not each["count"]:
        return _escaped(each["text"])
    names = ", ".join(map(_escaped, each["names"]))
    more = ", …" if each["count"] > len(each["names"]) else ""
    return f"{number(each['count'])} {_escaped(each['text'])} ({names}{more})"


def _making(facts: dict[str, Any]) -> list[str]:
    parts = []
    for model in facts["models"]:
        making = model["making"]
        if making is None:
            continue
        rows = [("algorithm", making["estimator"]), ("rounds", making["rounds"]),
                ("stopped", making["stop_reason"]), ("seed", making["seed"])]  # fmt: skip
        edits = [tuple(each[name] for name in ("term", "what", "before", "after"))
                 for each in making["edits"]]  # fmt: skip
        head = ["term", "edited by hand", "pairs in order before", "after"]
        parameters = [(k, str(v)) for k, v in making["parameters"].items()]
        parts += [
            f"## How {_escaped(model['name'])} was made",
            *([_table(head, edits)] if edits else []),
            _table(["what", "value"], rows),
            _table(["parameter", "value"], parameters),
        ]
    return [*parts, _table(["package", "version"], facts["versions"].items())]


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [f"| {' | '.join(map(_escaped, head))} |", f"|{'---|' * len(head)}"]
    for row in rows:
        cells = (_escaped(cell) if isinstance(cell, str) else number(cell) for cell in row)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _escaped(text: Any) -> str:
    """Escape text for Markdown.

    >>> _escaped("<i>")
    '&lt;i&gt;'
    """
    flat = re.sub(r"\s+", " ", str(text)).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*\[\]|])", r"\\\1", flat.replace(">", "&gt;"))
