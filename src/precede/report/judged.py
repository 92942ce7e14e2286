"""How good a ranking is: each metric with its interval, and the queries one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from precede import inference
from precede.boosting.monitors import pairs_in_order
from precede.engine.arrays import Floats, Integers
from precede.explain.contributions import explain
from precede.metrics import (
    Evaluation,
    Interval,
    default_metrics,
    defined_metrics,
    evaluate,
    list_metrics,
    metric,
)
from precede.metrics.registry import with_relevant
from precede.report.subject import Subject, plain_value

__all__ = ["IN_ORDER", "Measured", "ends_of", "is_better_high", "measured", "quality_facts",
           "query_facts"]  # fmt: skip

IN_ORDER = "pairs_in_order"  # 1 - pair_error: the share of the pairs of a query, ties half
_SHOWN = 10
_MOST_LISTED = 40  # rows of a query that can be opened
_MOST_EXPLAINED = 4000  # of these rows, in all
_REASONS = 3


@dataclass(frozen=True, eq=False)
class Measured:
    """Metrics over queries, the main one first: the values of each query and their mean.

    Where no metric is named, the pair error is told as the share of the pairs in order, and the
    AUC, which is the same number in a query of two grades, is left out.
    """

    names: tuple[str, ...]
    result: Evaluation
    lists: list[Integers]  # graded rows of the queries of the result

    @property
    def main(self) -> str:
        """The metric that says which query is worst."""
        return self.names[0]

    @property
    def bounds(self) -> tuple[float, float]:
        """Least and greatest value that the main metric can have."""
        return (0.0, 1.0) if self.main == IN_ORDER else metric(self.main).definition.bounds

    def values(self, name: str) -> Floats:
        """Value of each query, NaN where there is none."""
        if name == IN_ORDER:
            return 1 - self.result.per_query["pair_error"]
        return self.result.per_query[str(metric(name))]

    def mean(self, name: str) -> float:
        """Mean over the queries that have a value."""
        if name == IN_ORDER:
            return 1 - self.result.mean["pair_error"]
        return self.result.mean[str(metric(name))]

    def interval(self, name: str, level: float) -> Interval:
        """Interval of the mean, the query being the unit."""
        if name != IN_ORDER:
            return self.result.interval(name, level)
        wrong = self.result.interval("pair_error", level)
        return Interval(1 - wrong.high, 1 - wrong.low, level)

    def skipped(self, name: str) -> int:
        """Queries without a value."""
        return self.result.skipped["pair_error" if name == IN_ORDER else str(metric(name))]


def is_better_high(name: str) -> bool:
    """Whether more is better."""
    return name == IN_ORDER or metric(name).greater_is_better


def measured(subject: Subject, scores: Floats, metrics: Sequence[str] | None) -> Measured | None:
    """Measure scores over queries; None for a single list, or where there is nothing to measure."""
    if subject.is_one_list or not subject.graded.size:
        return None
    rows = subject.graded
    weight, qid = subject.judgments.weight, subject.judgments.qid
    target = (subject.grade[rows], qid[rows])  # type: ignore[index]
    weights = None if weight is None else weight[rows]
    absent = bool(np.isneginf(scores[rows]).any())
    usual = defined_metrics(*target, weights, subject.relevant, absent=absent)
    wanted = list(metrics or (name for name in usual if metric(name).name != "auc"))
    if not wanted:
        return None
    found = _evaluated(target, scores[rows], wanted, weights)
    names = [IN_ORDER if not metrics and name == "pair_error" else name for name in found.mean]
    lists = [each for each in subject.lists_by(scores) if each.size]
    return Measured(tuple(names), found, lists)


def _evaluated(
    target: tuple[Floats, Any], scores: Floats, wanted: Sequence[str], weights: Floats | None
) -> Evaluation:
    """Evaluate metrics: equal scores count half in shares of pairs, else as the worse order."""
    grades, queries = target
    pairs = [name for name in wanted if metric(name).definition.by_pairs]
    parts = [
        evaluate(grades, scores, queries, metrics=names, sample_weight=weights, ties=ties)
        for names, ties in (
            ([name for name in wanted if name not in pairs], "worst"),
            (pairs, "average"),
        )
        if names
    ]
    order = [str(metric(name)) for name in wanted]

    def joined(field: str) -> dict[str, Any]:
        held = {key: value for part in parts for key, value in getattr(part, field).items()}
        return {name: held[name] for name in order if name in held}

    return replace(
        parts[0], mean=joined("mean"), per_query=joined("per_query"), pooled=joined("pooled"),
        skipped=joined("skipped"),
    )  # fmt: skip


def quality_facts(
    subject: Subject, scores: Floats, found: Measured | None, metrics: Sequence[str] | None,
    level: float,
) -> dict[str, Any]:  # fmt: skip
    """Each metric with its interval, and what it rests on."""
    rows = _of_a_list(subject, scores, metrics, level) if found is None else _means(found, level)
    in_order = pairs_in_order(subject.judgments, scores) if _has_pairs(subject) else None
    if subject.is_listed and not metrics and in_order is not None:
        rows = [_of_listed_pairs(subject, scores, in_order, level)]
    return {
        "pairs_in_order": in_order,
        "level": level,
        "metrics": rows,
        "conventions": None if found is None else str(found.result.policy),
    }


def _has_pairs(subject: Subject) -> bool:
    layout = subject.judgments._without_ties().to_layout()
    return bool(layout.count_graded_pairs() or layout.winner.size)


def _means(found: Measured, level: float) -> list[dict[str, Any]]:
    rows = []
    for name in found.names:
        low, high, why = ends_of(partial(found.interval, name, level))
        rows.append(
            {"metric": name, "value": plain_value(float(found.mean(name))), "low": low,
             "high": high, "unit": "query", "units": found.result.n_queries - found.skipped(name),
             "skipped": found.skipped(name), "no_interval": why}
        )  # fmt: skip
    return rows


def _of_a_list(
    subject: Subject, scores: Floats, metrics: Sequence[str] | None, level: float
) -> list[dict[str, Any]]:
    """Metrics of a single list, the row being the unit: its AUC, or its pairs in order."""
    rows = subject.graded
    listed = subject.judgments.pairs is not None
    if not rows.size or np.ptp(subject.grade[rows]) == 0 or (listed and not metrics):
        return []
    y, weight = subject.grade[rows], subject.judgments.weight
    names = list(metrics or _usual_of_a_list(np.unique(y).size))
    facts = []
    for name in names:
        known = "pair_error" if name == IN_ORDER else name
        estimate = None if weight is not None else inference.of_one_list(known, y, scores[rows])
        if estimate is not None:
            value, ends = estimate.value, ends_of(partial(estimate.interval, level))
        else:
            found = evaluate(y, scores[rows], metrics=known,
                             sample_weight=None if weight is None else weight[rows])  # fmt: skip
            value = next(iter(found.mean.values()))
            why = "one list has one value and no spread"
            ends = None, None, why if weight is None else "the rows are weighted"
        low, high, why_not = ends
        if name == IN_ORDER:
            value, low, high = 1 - value, *(None if e is None else 1 - e for e in (high, low))
        facts.append(
            {"metric": name, "value": plain_value(float(value)), "low": low, "high": high,
             "unit": "row", "units": int(rows.size), "skipped": 0, "no_interval": why_not}
        )  # fmt: skip
    return facts


def _of_listed_pairs(
    subject: Subject, scores: Floats, in_order: float, level: float
) -> dict[str, Any]:
    """Share of the listed pairs in order; pairs of one item, or of one query, are dependent."""
    judgments = subject.judgments
    pairs = "comparable" if judgments.qid is None else "pooled"

    def wrong() -> Interval:
        return inference.ranking_risk(judgments, scores, pairs=pairs).interval(level)

    low, high, why = ends_of(wrong)
    return {"metric": IN_ORDER, "value": in_order, "low": None if high is None else 1 - high,
            "high": None if low is None else 1 - low, "unit": "pair", "units": judgments.n_pairs,
            "skipped": 0, "no_interval": why}  # fmt: skip


def _usual_of_a_list(classes: int) -> list[str]:
    """Metrics where none is named; of two classes, the AUC is the share of pairs in order."""
    usual = list_metrics(classes)
    if "auc" in usual:
        return [name for name in usual if name != "pair_error"]
    return [IN_ORDER if name == "pair_error" else name for name in usual]


def ends_of(interval: Callable[[], Interval]) -> tuple[float | None, float | None, str | None]:
    """The ends of an interval, or why there is none."""
    try:
        found = interval()
    except ValueError as error:
        return None, None, str(error)
    return float(found.low), float(found.high), None


# -- query by query ----------------------------------------------------------------------------


def query_facts(
    subject: Subject, found: Sequence[Measured | None], most: int, *, named: bool
) -> dict[str, Any] | None:
    """One row for each query, the worst first, at most so many; each with its list to be opened."""
    first = found[0]
    if first is None:
        return None
    known = with_relevant(default_metrics("by_query"), subject.relevant)
    usual = [IN_ORDER if name == "pair_error" else name for name in known]
    columns = list(first.names) if named else [name for name in usual if name in first.names]
    columns = columns or list(first.names)[:4]
    main = columns[0]
    sign = 1.0 if is_better_high(main) else -1.0
    order = np.argsort(sign * first.values(main), kind="stable")  # NaN, for undefined, is last
    ranks = [_ranks(subject, each.scores) for each in subject.candidates[1:]]
    shown = [first.lists[query][:_MOST_LISTED] for query in order[:most].tolist()]
    why = _why(subject, shown)
    rows = []
    for at, query in enumerate(order[:most].tolist()):
        listed, opened = first.lists[query], shown[at]
        values = {name: plain_value(float(first.values(name)[query])) for name in columns}
        others = [plain_value(float(each.values(main)[query])) for each in found[1:] if each]
        grades = [subject.grade_name(g) for g in subject.grade[opened].tolist()]
        rows.append(
            {"query": plain_value(subject.query[1][int(subject.query[0][listed[0]])]),
             "rows": int(listed.size), "pairs": _count_pairs(subject.grade[listed]),
             "values": values, "others": others, "first_grades": grades[:_SHOWN],
             "list": {"document": [subject.document(row) for row in opened.tolist()],
                      "row": opened.tolist(), "grade": grades,
                      "score": [float(f"{s:.6g}") for s in subject.scores[opened].tolist()],
                      "others": [rank[opened].tolist() for rank in ranks], "why": why[at]}}
        )  # fmt: skip
    return {"main": main, "greater_is_better": sign > 0, "columns": columns,
            "features": list(subject.names) if any(why) else [],
            "count": int(order.size), "shown": len(rows), "rows": rows}  # fmt: skip


def _why(subject: Subject, lists: list[Integers]) -> list[list[Any] | None]:
    """The features that move the score of each row most, against the mean, with their amounts.

    For so many rows of the lists, from the first on, as can be explained in a moment.
    """
    model = subject.first.model
    ends = np.cumsum([rows.size for rows in lists])
    count = int(np.searchsorted(ends, _MOST_EXPLAINED, side="right"))
    nothing: list[list[Any] | None] = [None] * (len(lists) - count)
    if model is None or not count:
        return [None] * len(lists)
    X = subject.X[np.concatenate(lists[:count])]
    try:
        parts = explain(model.ensemble_, X, names=subject.names).contributions
    except ValueError:
        return [None] * len(lists)
    away = parts - parts.mean(axis=0)
    largest = np.argsort(-np.abs(away), axis=1, kind="stable")[:, :_REASONS]
    amounts = np.take_along_axis(away, largest, axis=1).tolist()
    reasons = [
        [[j, float(f"{amount:.3g}")] for j, amount in zip(features, row, strict=True) if amount]
        for features, row in zip(largest.tolist(), amounts, strict=True)
    ]
    starts = [0, *ends[: count - 1].tolist()]
    return [reasons[a:b] for a, b in zip(starts, ends[:count].tolist(), strict=True)] + nothing


def _ranks(subject: Subject, scores: Floats) -> Integers:
    """Rank of every graded row in its query."""
    rank = np.zeros(scores.size, np.int64)
    for rows in subject.lists_by(scores):
        rank[rows] = np.arange(1, rows.size + 1)
    return rank


def _count_pairs(grades: Any) -> int:
    counts = np.unique(grades, return_counts=True)[1]
    return (int(counts.sum()) ** 2 - int(np.square(counts).sum())) // 2
