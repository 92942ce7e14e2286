"""Where the model errs: the worst queries, the pairs out of order there, and why."""

from __future__ import annotations

from typing import Any

import numpy as np

from precede.engine.arrays import Integers
from precede.explain.contributions import PAIR, explain_pair
from precede.report.judged import Measured, is_better_high
from precede.report.subject import Subject, plain_value
from precede.report.wording import feature_value, may_be_years

__all__ = ["wrong_facts"]

_SHOWN = 10
_FEATURES = 6  # of a pair; the others are added up
_PAIRS = {True: 5, False: 2}  # of a single list, of each of several queries


def wrong_facts(subject: Subject, found: Measured | None, most: int) -> dict[str, Any] | None:
    """The worst queries, or the single list, each with the pairs furthest out of order.

    A pair is the worse the further the row of lower grade ranks above, in scores: its margin
    is the least. No row is shown in two pairs of a query. None if every pair is in order.
    """
    lists = [rows for rows in subject.lists if rows.size]
    entries = []
    if found is not None:
        name = found.main
        values = found.values(name)
        order = np.argsort(values if is_better_high(name) else -values, kind="stable")
        chosen = [query for query in order.tolist() if not np.isnan(values[query])]
        for query in chosen[:most]:
            entries.append(_entry(subject, found.lists[query], name, float(values[query])))
    elif lists:
        entries.append(_entry(subject, lists[0], None, None))
    entries = [entry for entry in entries if entry["pairs"]]
    listed = subject.judgments.pairs
    worst = _greedy(_listed(subject), _PAIRS[True]) if listed is not None else []
    if not entries and not worst:
        return None
    return {
        "metric": None if found is None else found.main,
        "queries": entries,
        "listed_pairs": [_pair(subject, loser, winner, {}) for winner, loser in worst],
    }


def _entry(subject: Subject, rows: Integers, name: str | None, value: Any) -> dict[str, Any]:
    rank = {row: at for at, row in enumerate(rows.tolist(), start=1)}
    worst = _worst_pairs(subject, rows, _PAIRS[name is None])
    shown = sorted({*rows[:_SHOWN].tolist(), *(row for pair in worst for row in pair)},
                   key=rank.__getitem__)  # fmt: skip
    wrong = {row for pair in worst for row in pair}
    number, ids = subject.query
    return {
        "query": plain_value(ids[int(number[rows[0]])]),
        "value": value,
        "rows": int(rows.size),
        "documents": [{**_document(subject, row, rank), "wrong": row in wrong} for row in shown],
        "pairs": [_pair(subject, loser, winner, rank) for winner, loser in worst],
    }


def _worst_pairs(subject: Subject, rows: Integers, most: int) -> list[tuple[int, int]]:
    """Pairs (winner, loser) of a query whose loser stands furthest above, no row twice.

    O(n log n) for each: in order of grade, the best loser of a row is the highest score among
    the grades below its own.
    """
    rows = rows[np.lexsort((rows, subject.grade[rows]))]
    found: list[tuple[int, int]] = []
    while len(found) < most and rows.size > 1:
        grade, score = subject.grade[rows], subject.scores[rows]
        first = np.searchsorted(grade, grade, side="left")  # rows before it are of lower grade
        highest = np.maximum.accumulate(score)
        lead = np.where(first > 0, highest[first - 1] - score, -np.inf)
        winner = int(np.argmax(lead))
        if not lead[winner] > 0:
            break
        loser = int(np.argmax(score[: first[winner]]))
        found.append((int(rows[winner]), int(rows[loser])))
        rows = np.delete(rows, [winner, loser])
    return found


def _listed(subject: Subject) -> list[tuple[int, int]]:
    """Listed pairs (winner, loser) in the wrong order, the worst first."""
    pairs = subject.judgments.pairs
    assert pairs is not None
    lead = subject.scores[pairs[:, 1]] - subject.scores[pairs[:, 0]]
    order = np.argsort(-lead, kind="stable")
    return [(int(w), int(k)) for w, k in pairs[order[lead[order] > 0]]]


def _greedy(pairs: list[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    taken: set[int] = set()
    kept: list[tuple[int, int]] = []
    for pair in pairs:
        if len(kept) < most and not taken & set(pair):
            kept.append(pair)
            taken |= set(pair)
    return kept


def _document(subject: Subject, row: int, rank: dict[int, int]) -> dict[str, Any]:
    return {"rank": rank.get(row), "document": subject.document(row), "row": row,
            "grade": subject.grade_name(subject.grade[row].item()),
            "score": float(subject.scores[row])}  # fmt: skip


def _value(subject: Subject, name: str, row: int, value: float) -> Any:
    """The value of a feature in a row, or those of both features of a pair, as a text."""
    both = name.split(PAIR)
    if name in subject.names or len(both) != 2 or not {*both} <= {*subject.names}:
        return _named(subject, name, float(value))
    held = [float(subject.column(subject.names.index(each))[row]) for each in both]
    parts = zip(both, held, strict=True)
    return ", ".join(feature_value(_named(subject, each, value)) for each, value in parts)


def _named(subject: Subject, feature: str, value: float) -> Any:
    """The value of a feature, or the name of a category that was text."""
    model = subject.first.model
    known = () if model is None else model.categories_.get(feature, ())
    return str(known[int(value)]) if known and not np.isnan(value) else plain_value(value)


def _years(subject: Subject, name: str) -> bool:
    """Whether a column may hold years, which have no commas."""
    return name in subject.names and may_be_years(subject.column(subject.names.index(name)))


def _pair(subject: Subject, upper: int, lower: int, rank: dict[int, int]) -> dict[str, Any]:
    """Why a row ranks above one that should precede it."""
    facts: dict[str, Any] = {
        "upper": _document(subject, upper, rank),
        "lower": _document(subject, lower, rank),
        "difference": float(subject.scores[upper] - subject.scores[lower]),
        "features": None,
        "others": 0.0,
        "other_features": 0,
        "unexplained": None,
    }
    model = subject.first.model
    if model is None:
        return facts
    two = subject.X[[upper, lower]]
    try:
        why = explain_pair(model.ensemble_, two, 0, 1, subject.names)
    except ValueError as error:
        return facts | {"unexplained": str(error)}
    features = [
        {"name": name, "contribution": float(c), "upper_value": _value(subject, name, upper, v[0]),
         "lower_value": _value(subject, name, lower, v[1]), "years": _years(subject, name)}
        for name, c, v in zip(why.names, why.contributions, why.values, strict=True)
    ]  # fmt: skip
    rest = [each["contribution"] for each in features[_FEATURES:]]
    return facts | {
        "features": features[:_FEATURES],
        "others": float(sum(rest)),
        "other_features": len(rest),
    }
