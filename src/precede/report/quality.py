"""Quality of rankings: metrics with intervals, queries, comparisons and the top of lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from precede import inference
from precede.boosting.monitors import pairs_in_order
from precede.engine.arrays import Flags, Floats, Integers
from precede.explain.contributions import explain
from precede.inference import mean_metric
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
from precede.plots import calibration_info
from precede.report.subject import Candidate, Subject, plain_value, thinned
from precede.risks.links import probability
from precede.top import strip, top_of_list

IN_ORDER = "pairs_in_order"  # 1 - pair_error: share of the pairs of a query in order, ties half
_MAX_RANKS = 10
_MAX_LISTED = 40  # rows shown of one query
_MAX_EXPLAINED = 4000  # rows explained, of all queries together
_MAX_CONTRIBUTIONS = 3


@dataclass(frozen=True, eq=False)
class Measured:
    """Metrics over queries, the main one first: the values of each query and their mean.

    Among the default metrics, the pair error is shown as the share of the pairs in order, and the
    AUC, the same number in a query of two grades, is left out.
    """

    names: tuple[str, ...]
    result: Evaluation
    lists: list[Integers]  # graded rows of each evaluated query

    @property
    def main(self) -> str:
        """Metric by which queries are sorted."""
        return self.names[0]

    @property
    def bounds(self) -> tuple[float, float]:
        """Least and greatest value that the main metric can have."""
        return (0.0, 1.0) if self.main == IN_ORDER else metric(self.main).definition.bounds

    def values(self, name: str) -> Floats:
        """Return the value of each query, NaN where it is undefined."""
        if name == IN_ORDER:
            return 1 - self.result.per_query["pair_error"]
        return self.result.per_query[str(metric(name))]

    def mean(self, name: str) -> float:
        """Return the mean over the queries that have a value."""
        if name == IN_ORDER:
            return 1 - self.result.mean["pair_error"]
        return self.result.mean[str(metric(name))]

    def interval(self, name: str, level: float) -> Interval:
        """Return the confidence interval of the mean, with queries as independent units."""
        if name != IN_ORDER:
            return self.result.interval(name, level)
        wrong = self.result.interval("pair_error", level)
        return Interval(1 - wrong.high, 1 - wrong.low, level)

    def skipped(self, name: str) -> int:
        """Return the number of queries without a value."""
        return self.result.skipped["pair_error" if name == IN_ORDER else str(metric(name))]


def larger_is_better(name: str) -> bool:
    """Return whether larger values are better."""
    return name == IN_ORDER or metric(name).greater_is_better


def measured(subject: Subject, scores: Floats, metrics: Sequence[str] | None) -> Measured | None:
    """Evaluate scores over queries; None for a single list, or if no metric is defined."""
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
    """Return each metric with its interval, and the data behind it."""
    rows = (
        _single_list_metrics(subject, scores, metrics, level)
        if found is None
        else _means(found, level)
    )
    in_order = pairs_in_order(subject.judgments, scores) if _has_pairs(subject) else None
    if subject.is_listed and not metrics and in_order is not None:
        rows = [_explicit_pair_metrics(subject, scores, in_order, level)]
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


def _single_list_metrics(
    subject: Subject, scores: Floats, metrics: Sequence[str] | None, level: float
) -> list[dict[str, Any]]:
    """Return metrics of a single list, with rows as independent units."""
    rows = subject.graded
    listed = subject.judgments.pairs is not None
    if not rows.size or np.ptp(subject.grade[rows]) == 0 or (listed and not metrics):
        return []
    y, weight = subject.grade[rows], subject.judgments.weight
    names = list(metrics or _default_list_metrics(np.unique(y).size))
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


def _explicit_pair_metrics(
    subject: Subject, scores: Floats, in_order: float, level: float
) -> dict[str, Any]:
    """Return the share of explicit pairs in order; pairs of an item or a query are dependent."""
    judgments = subject.judgments
    pairs = "comparable" if judgments.qid is None else "pooled"

    def wrong() -> Interval:
        return inference.ranking_risk(judgments, scores, pairs=pairs).interval(level)

    low, high, why = ends_of(wrong)
    return {"metric": IN_ORDER, "value": in_order, "low": None if high is None else 1 - high,
            "high": None if low is None else 1 - low, "unit": "pair", "units": judgments.n_pairs,
            "skipped": 0, "no_interval": why}  # fmt: skip


def _default_list_metrics(classes: int) -> list[str]:
    """Return the default metrics; for two classes, the AUC is the share of pairs in order."""
    usual = list_metrics(classes)
    if "auc" in usual:
        return [name for name in usual if name != "pair_error"]
    return [IN_ORDER if name == "pair_error" else name for name in usual]


def ends_of(interval: Callable[[], Interval]) -> tuple[float | None, float | None, str | None]:
    """Return the ends of an interval, or the reason why it is undefined."""
    try:
        found = interval()
    except ValueError as error:
        return None, None, str(error)
    return float(found.low), float(found.high), None


# -- query by query ----------------------------------------------------------------------------


def query_facts(
    subject: Subject, found: Sequence[Measured | None], most: int, *, named: bool
) -> dict[str, Any] | None:
    """Return a row for each query with its items, the worst queries first, at most `most`."""
    first = found[0]
    if first is None:
        return None
    known = with_relevant(default_metrics("by_query"), subject.relevant)
    usual = [IN_ORDER if name == "pair_error" else name for name in known]
    columns = list(first.names) if named else [name for name in usual if name in first.names]
    columns = columns or list(first.names)[:4]
    main = columns[0]
    sign = 1.0 if larger_is_better(main) else -1.0
    order = np.argsort(sign * first.values(main), kind="stable")  # NaN, for undefined, is last
    ranks = [_ranks(subject, each.scores) for each in subject.candidates[1:]]
    shown = [first.lists[query][:_MAX_LISTED] for query in order[:most].tolist()]
    why = _row_contributions(subject, shown)
    rows = []
    for at, query in enumerate(order[:most].tolist()):
        listed, opened = first.lists[query], shown[at]
        values = {name: plain_value(float(first.values(name)[query])) for name in columns}
        others = [plain_value(float(each.values(main)[query])) for each in found[1:] if each]
        grades = [subject.grade_name(g) for g in subject.grade[opened].tolist()]
        rows.append(
            {"query": plain_value(subject.query[1][int(subject.query[0][listed[0]])]),
             "rows": int(listed.size), "pairs": _count_pairs(subject.grade[listed]),
             "values": values, "others": others, "first_grades": grades[:_MAX_RANKS],
             "list": {"document": [subject.document(row) for row in opened.tolist()],
                      "row": opened.tolist(), "grade": grades,
                      "score": [float(f"{s:.6g}") for s in subject.scores[opened].tolist()],
                      "others": [rank[opened].tolist() for rank in ranks], "why": why[at]}}
        )  # fmt: skip
    return {"main": main, "greater_is_better": sign > 0, "columns": columns,
            "features": list(subject.names) if any(why) else [],
            "count": int(order.size), "shown": len(rows), "rows": rows}  # fmt: skip


def _row_contributions(subject: Subject, lists: list[Integers]) -> list[list[Any] | None]:
    """Return the largest contributions to the score of each row, relative to the mean.

    Only the first rows of the lists are explained, to bound the time.
    """
    model = subject.first.model
    ends = np.cumsum([rows.size for rows in lists])
    count = int(np.searchsorted(ends, _MAX_EXPLAINED, side="right"))
    nothing: list[list[Any] | None] = [None] * (len(lists) - count)
    if model is None or not count:
        return [None] * len(lists)
    X = subject.X[np.concatenate(lists[:count])]
    try:
        parts = explain(model.ensemble_, X, names=subject.names).contributions
    except ValueError:
        return [None] * len(lists)
    away = parts - parts.mean(axis=0)
    largest = np.argsort(-np.abs(away), axis=1, kind="stable")[:, :_MAX_CONTRIBUTIONS]
    amounts = np.take_along_axis(away, largest, axis=1).tolist()
    reasons = [
        [[j, float(f"{amount:.3g}")] for j, amount in zip(features, row, strict=True) if amount]
        for features, row in zip(largest.tolist(), amounts, strict=True)
    ]
    starts = [0, *ends[: count - 1].tolist()]
    return [reasons[a:b] for a, b in zip(starts, ends[:count].tolist(), strict=True)] + nothing


def _ranks(subject: Subject, scores: Floats) -> Integers:
    """Return the rank of every graded row in its query."""
    rank = np.zeros(scores.size, np.int64)
    for rows in subject.lists_by(scores):
        rank[rows] = np.arange(1, rows.size + 1)
    return rank


def _count_pairs(grades: Any) -> int:
    counts = np.unique(grades, return_counts=True)[1]
    return (int(counts.sum()) ** 2 - int(np.square(counts).sum())) // 2


# -- Comparison of several rankings: paired differences with intervals, queries won and lost -----


def comparison_facts(
    subject: Subject, found: Sequence[Measured | None], names: Sequence[str], level: float
) -> dict[str, Any] | None:
    """Compare the first candidate with each of the others; differences are first minus other.

    The p values of the main metric are adjusted for the number of others by Holm's rule.
    """
    others = subject.candidates[1:]
    if not others or not names:
        return None
    rows = []
    for at, other in enumerate(others, start=1):
        differences = [_difference(subject, name, at, level) for name in names]
        rows.append({"name": other.name, **_won_and_lost(found, at), "differences": differences})
    known = [row for row in rows if row["differences"][0]["p_value"] is not None]
    adjusted = inference.holm([row["differences"][0]["p_value"] for row in known])
    for row in rows:
        row["adjusted"] = None
    for row, p in zip(known, adjusted.tolist(), strict=True):
        row["adjusted"] = p
    return {"first": subject.first.name, "main": names[0], "level": level, "rows": rows,
            "better_high": larger_is_better(names[0])}  # fmt: skip


def _difference(subject: Subject, name: str, at: int, level: float) -> dict[str, Any]:
    facts: dict[str, Any] = {"metric": name, "difference": None, "low": None, "high": None,
                             "p_value": None, "reason": None}  # fmt: skip
    if subject.judgments.weight is not None:
        return facts | {"reason": "the rows are weighted"}
    flipped, rows = name == IN_ORDER, subject.graded
    target: Any = subject.grade[rows]
    qid = subject.judgments.qid
    wanted: Any = metric("pair_error" if flipped else name)
    if subject.is_listed:
        wanted = "pair_error" if qid is None else "pooled_pair_error"
        rows, target, qid = np.arange(subject.scores.size), subject.judgments, None
    elif qid is not None and wanted.name == "auc":  # as in `evaluate`, not of all pairs of grades
        wanted = replace(wanted, relevant=1 if wanted.relevant is None else wanted.relevant)
    try:
        result = inference.compare(
            target, subject.first.returned[rows], subject.candidates[at].returned[rows],
            None if qid is None else qid[rows], metric=wanted, random_state=0,
        )  # fmt: skip
    except ValueError as error:
        return facts | {"reason": str(error)}
    low, high, why = ends_of(partial(result.interval, level))
    sign = -1.0 if flipped else 1.0
    ends: Any = sorted(sign * end for end in (low, high) if end is not None) or [None, None]
    return facts | {
        "difference": plain_value(sign * result.difference + 0.0), "low": ends[0], "high": ends[1],
        "p_value": result.p_value, "reason": why, "units": result.n_units, "unit": result.unit,
    }  # fmt: skip


def _won_and_lost(found: Sequence[Measured | None], at: int) -> dict[str, Any]:
    """Count the queries in which the first candidate is better, worse or equal."""
    first, other = found[0], found[at]
    if first is None or other is None:
        return {"won": None, "lost": None, "tied": None}
    sign = 1.0 if larger_is_better(first.main) else -1.0
    gap = sign * (first.values(first.main) - other.values(first.main))
    gap = gap[~np.isnan(gap)]
    return {
        "won": int((gap > 0).sum()),
        "lost": int((gap < 0).sum()),
        "tied": int((gap == 0).sum()),
    }


# -- The top: the first ranks of queries, or the first rows of a single list ----------------------


_FEW_GRADES = 6


def first_facts(subject: Subject, level: float) -> dict[str, Any] | None:
    """Return the mean grade of the first k rows of queries, for the models, chance and the ideal.

    Means over the first k rows, not at rank k alone, are maximal for every k if rows are sorted by
    grade, so that no model exceeds "best possible".
    """
    lists = [rows for rows in subject.lists if rows.size]
    if subject.is_one_list or not lists:
        return None
    grades = [subject.grade[rows] for rows in lists]
    depth = min(_MAX_RANKS, max(each.size for each in grades))
    best = _mean_of_first([-np.sort(-each) for each in grades], depth)
    reached = {
        each.name: _mean_of_first(
            [subject.grade[rows] for rows in subject.lists_by(each.scores) if rows.size], depth
        )
        for each in subject.candidates
    }
    first = reached[subject.first.name]
    intervals = [ends_of(partial(mean_metric(column).interval, level))[:2] for column in first.T]
    every = np.concatenate(grades)
    least, most = float(every.min()), float(every.max())
    return {
        "ranks": list(range(1, depth + 1)),
        "models": {name: values.mean(axis=0).tolist() for name, values in reached.items()},
        "low": [None if low is None else max(low, least) for low, _ in intervals],
        "high": [None if high is None else min(high, most) for _, high in intervals],
        "best": best.mean(axis=0).tolist(),
        "chance": float(np.mean([each.mean() for each in grades])),
        "shares": _shares(subject, grades, depth),
    }


def _mean_of_first(grades: list[Floats], depth: int) -> Floats:
    """Return the mean grade of the first k rows (or of all, if fewer) of each query, k = 1, ...."""
    means = np.empty((len(grades), depth))
    for query, each in enumerate(grades):
        sums = np.cumsum(each[:depth])
        reached = np.minimum(np.arange(1, depth + 1), each.size)
        means[query] = sums[reached - 1] / reached
    return means


def _shares(subject: Subject, grades: list[Floats], depth: int) -> list[dict[str, Any]] | None:
    """Return the shares of few grades at each rank, and the number of queries that long."""
    values = np.unique(subject.grade[subject.graded])
    if values.size > _FEW_GRADES:
        return None
    facts = []
    for rank in range(depth):
        grades_at_rank = np.array([each[rank] for each in grades if each.size > rank])
        shares = {
            str(subject.grade_name(v)): float(np.mean(grades_at_rank == v)) for v in values.tolist()
        }
        facts.append({"rank": rank + 1, "queries": int(grades_at_rank.size), "shares": shares})
    return facts


def listed_rows(subject: Subject) -> list[dict[str, Any]]:
    """Return the first rows of a single list."""
    if not subject.is_one_list or not subject.graded.size:
        return []
    return [
        {"rank": rank, "document": subject.document(row), "row": row,
         "grade": subject.grade_name(subject.grade[row].item()),
         "score": float(subject.scores[row])}
        for rank, row in enumerate(subject.lists[0][:_MAX_RANKS].tolist(), start=1)
    ]  # fmt: skip


# -- One list of two classes: ROC and precision-recall curves, gains and lift, KS, calibration ---
#
# Positives are the rows of the class that should rank first. All curves follow from two counts, the
# positives and the negatives above each threshold; rows of equal score pass a threshold together.


_GRID_POINTS = 60  # points on the curves of bootstrapped lists
_MAX_POINTS = 300
_MAX_RESAMPLED_ROWS = 20_000_000  # maximum number of resampled rows, over all bootstrap samples
_DEPTHS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_LONG_LIST = 100_000  # fewer bootstrap samples are drawn of longer lists


@dataclass(frozen=True, eq=False)
class Thresholds:
    """Positives and negatives above each threshold, from nothing to the whole list.

    >>> found = Thresholds.of(np.array([True, False, True]), np.array([3.0, 2.0, 2.0]))
    >>> found.positives.tolist(), found.negatives.tolist()
    ([0.0, 1.0, 2.0], [0.0, 0.0, 1.0])
    """

    positives: Floats
    negatives: Floats

    @classmethod
    def of(cls, positive: Flags, scores: Floats) -> Thresholds:
        """Count positives and negatives above the distinct scores: O(n log n)."""
        order = np.argsort(-scores, kind="stable")
        return cls.counted(positive[order], _ends(scores[order]), None)

    @classmethod
    def counted(cls, positive: Flags, ends: Integers, times: Floats | None) -> Thresholds:
        """Return the counts at the last row of each tie, each row counting `times` times."""
        ones = np.ones(positive.size) if times is None else times
        up, down = (np.cumsum(np.where(which, ones, 0.0))[ends] for which in (positive, ~positive))
        return cls(np.concatenate([[0.0], up]), np.concatenate([[0.0], down]))

    @property
    def recall(self) -> Floats:
        """Share of the positives that are above: the true positive rate."""
        return self.positives / self.positives[-1]

    @property
    def fall_out(self) -> Floats:
        """Share of the negatives that are above: the false positive rate."""
        return self.negatives / self.negatives[-1]

    @property
    def depth(self) -> Floats:
        """Share of the list that is above."""
        return (self.positives + self.negatives) / (self.positives[-1] + self.negatives[-1])

    @property
    def precision(self) -> Floats:
        """Share of positives among the rows above; at depth 0, that of the first threshold."""
        above = self.positives + self.negatives
        shares = self.positives / np.maximum(above, 1e-300)
        shares[above == 0] = shares[np.argmax(above > 0)]
        return shares

    def roc(self, at: Floats) -> Floats:
        """Return the recall at some fall-outs, interpolated linearly across ties."""
        return np.interp(at, self.fall_out, self.recall)

    def precision_at(self, recall: Floats) -> Floats:
        """Return the precision at the first threshold that reaches each recall."""
        index = np.searchsorted(self.recall, recall - 1e-12, side="left")
        return self.precision[np.minimum(index, self.precision.size - 1)]

    def gain(self, depth: Floats) -> Floats:
        """Return the recall at some depths; equal scores are in random order."""
        return np.interp(depth, self.depth, self.recall)

    def reverse(self) -> Thresholds:
        """Return the counts of the reversed list, with the negatives as positives."""
        return Thresholds(
            self.negatives[-1] - self.negatives[::-1], self.positives[-1] - self.positives[::-1]
        )

    def separation(self) -> float:
        """Return the Kolmogorov-Smirnov statistic, max |recall − fall-out|."""
        return float(np.max(np.abs(self.recall - self.fall_out)))


def _ends(scores: Floats) -> Integers:
    """Return the last position of each tie of sorted scores."""
    return np.append(np.flatnonzero(np.diff(scores)), scores.size - 1)


def list_facts(subject: Subject, level: float) -> dict[str, Any] | None:
    """Return curves and measures of every candidate, with bootstrap intervals for the first."""
    rows = subject.graded
    if not subject.is_two_classes or subject.judgments.pairs is not None:
        return None
    positive = subject.grade[rows] == subject.grade[rows].max()
    found = {each.name: Thresholds.of(positive, each.scores[rows]) for each in subject.candidates}
    draws = int(np.clip(_MAX_RESAMPLED_ROWS // rows.size, 50, 500))
    samples = _resampled(positive, subject.scores[rows], draws)
    share = float(positive.mean())
    top = _top(subject, positive, level)
    # Where most rows are positive, the list is read from its end, to find the negatives.
    below = share > 0.5
    rare, turned = (found, samples) if not below else (
        {name: each.reverse() for name, each in found.items()}, [s.reverse() for s in samples]
    )  # fmt: skip
    depths = _by_depth(rare, turned, level, 1 - share if below else share, rows.size)
    known = set() if below else {f"precision@{each['rows']}" for each in depths}
    return {
        "positives": int(positive.sum()),
        "rows": int(rows.size),
        "share": share,
        "below": below,
        "good": subject.grade_name(float(subject.grade[rows].max())),
        "draws": draws,
        "weights_ignored": subject.judgments.weight is not None,
        "roc": _curves(found, samples, level, _roc_points, Thresholds.roc),
        "precision_recall": _curves(found, samples, level, _pr_points, Thresholds.precision_at),
        "gains": _curves(rare, turned, level, _gain_points, Thresholds.gain),
        "depths": depths,
        "separation": _separation(found, samples, level),
        "top": [each for each in top if each["measure"] not in known],
        "strip": _strip(positive, subject.scores[rows]),
        "calibration": _calibrations(subject, positive),
    }


def _resampled(positive: Flags, scores: Floats, draws: int) -> list[Thresholds]:
    """Return bootstrap samples, stratified by class, with a fixed seed."""
    order = np.argsort(-scores, kind="stable")
    positive, ends = positive[order], _ends(scores[order])
    generator, classes = np.random.default_rng(0), [positive, ~positive]
    samples = []
    for _ in range(draws):
        times = np.empty(positive.size)
        for which in classes:
            size = int(which.sum())
            times[which] = np.bincount(generator.integers(size, size=size), minlength=size)
        samples.append(Thresholds.counted(positive, ends, times))
    return samples


Points = tuple[Floats, Floats]


def _roc_points(found: Thresholds) -> Points:
    return found.fall_out, found.recall


def _pr_points(found: Thresholds) -> Points:
    return found.recall, found.precision


def _gain_points(found: Thresholds) -> Points:
    return found.depth, found.recall


def _curves(
    found: dict[str, Thresholds], samples: list[Thresholds], level: float,
    points: Callable[[Thresholds], Points], at: Callable[[Thresholds, Floats], Floats],
) -> dict[str, Any]:  # fmt: skip
    """Return the curve of each candidate, and pointwise intervals for the first."""
    grid = np.linspace(0, 1, _GRID_POINTS + 1)
    if at is Thresholds.precision_at:
        grid = grid[1:]  # no row is above recall 0
    low, high = _ends_of([at(each, grid) for each in samples], level)
    curves = {}
    for name, each in found.items():
        x, y = points(each)
        which = thinned(x.size, _MAX_POINTS)
        curves[name] = {"x": _short(x[which]), "y": _short(y[which])}
    return {"curves": curves, "grid": _short(grid), "low": _short(low), "high": _short(high)}


def _short(values: Floats) -> list[float]:
    return [float(f"{value:.5g}") for value in values.tolist()]


def _ends_of(values: list[Any], level: float) -> tuple[Any, Any]:
    tail = (1 - level) / 2
    low, high = np.quantile(np.asarray(values), [tail, 1 - tail], axis=0)
    return low, high


def _by_depth(
    found: dict[str, Thresholds], samples: list[Thresholds], level: float, share: float, rows: int
) -> list[dict[str, Any]]:
    """Return gain and lift at some depths of the list."""
    depths = np.array([d for d in _DEPTHS if d * rows >= 5] or [1.0])
    low, high = _ends_of([each.gain(depths) for each in samples], level)
    first, *others = (each.gain(depths) for each in found.values())
    best = np.minimum(depths / share, 1.0)
    return [
        {"depth": float(depth), "rows": round(float(depth) * rows),
         "gain": float(first[k]), "low": float(low[k]), "high": float(high[k]),
         "lift": float(first[k] / depth), "best": float(best[k]),
         "share": float(first[k] * share / depth), "others": [float(gain[k]) for gain in others]}
        for k, depth in enumerate(depths.tolist())
    ]  # fmt: skip


def _separation(
    found: dict[str, Thresholds], samples: list[Thresholds], level: float
) -> dict[str, Any]:
    low, high = _ends_of([each.separation() for each in samples], level)
    return {"values": {name: each.separation() for name, each in found.items()},
            "low": float(low), "high": float(high)}  # fmt: skip


def _top(subject: Subject, positive: Flags, level: float) -> list[dict[str, Any]]:
    """Return measures of the top of the list, with bootstrap intervals."""
    rows = subject.graded
    draws = 1000 if rows.size <= _LONG_LIST else 100
    counts = [k for k in (10, 100) if k < rows.size]
    seen = top_of_list(positive, subject.scores[rows], count=counts, level=level, draws=draws,
                       random_state=0)  # fmt: skip
    return [
        {"measure": name, "value": value, "low": None if ends is None else ends[0],
         "high": None if ends is None else ends[1]}
        for name, value in seen.value.items() for ends in [seen.interval[name]]
        if not _is_shown_elsewhere(name)
    ]  # fmt: skip


def _is_shown_elsewhere(name: str) -> bool:
    """Return whether a measure is the AUC or a gain, both of which are shown elsewhere."""
    return name == "auc" or name.startswith("recall") or name.endswith("%")


def _strip(positive: Flags, scores: Floats) -> dict[str, Any]:
    """Return the ranks of the positives among the first 50 to 400 rows."""
    where = strip(positive, scores)
    shown = int(min(positive.size, max(50, 2 * where.size), 400))
    return {"ranks": shown, "positives": where[where <= shown].tolist()}


def _calibrations(subject: Subject, positive: Flags) -> dict[str, Any]:
    """Return the calibration of candidates that predict probabilities."""
    facts = {}
    for each in subject.candidates:
        chances = _probabilities(each)
        if chances is not None:
            info = calibration_info(positive.astype(float), chances[subject.graded])
            facts[each.name] = info.to_dict()
    return facts


def _probabilities(candidate: Candidate) -> Floats | None:
    """Return predicted probabilities; scores without a model are used if all are in [0, 1]."""
    scores, model = candidate.scores, candidate.model
    if model is None:
        fits = scores.min() >= 0 and scores.max() <= 1 and np.unique(scores).size > 2
        return scores if fits else None
    if getattr(model, "classes_", None) is None or not hasattr(model, "predict_proba"):
        return None
    # As in predict_proba, without predicting again.
    return probability(scores + float(model.intercept_ or 0.0), float(model.link_ or 0.0))
