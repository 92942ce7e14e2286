"""Quality of rankings: metrics with intervals, and comparisons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from markupsafe import Markup

from precede import inference
from precede.boosting.monitors import pairs_in_order
from precede.engine.arrays import Array, Floats, Integers
from precede.judgments import Judgments
from precede.metrics import (
    Evaluation,
    Interval,
    Metric,
    defined_metrics,
    evaluate,
    list_metrics,
    metric,
)
from precede.plots.drawing import Chart, Ranges, Rule
from precede.report.document import Block, Bullets, Cell, Figure, Heading, Paragraph, Section, Table
from precede.report.subject import Candidate, Subject
from precede.report.wording import (
    Words,
    difference,
    difference_interval,
    in_units,
    interval,
    is_share,
    metric_name,
    p_cell,
    percent,
    rounded,
    share,
)

IN_ORDER = "pairs_in_order"  # 1 - pair_error: share of the pairs of a query in order, ties half


@dataclass(frozen=True, eq=False)
class QueryMetrics:
    """Metrics of one ranking over queries, the main one first, by query and on average.

    Among the default metrics, the pair error is shown as the share of the pairs in order, and the
    AUC, the same number in a query of two grades, is left out.
    """

    names: tuple[str, ...]
    result: Evaluation
    lists: list[Integers]  # graded rows of each evaluated query

    @property
    def main(self) -> str:
        """The metric by which queries are sorted."""
        return self.names[0]

    @property
    def bounds(self) -> tuple[float, float]:
        """Least and greatest value that the main metric can have."""
        return (0.0, 1.0) if self.main == IN_ORDER else metric(self.main).definition.bounds

    def values(self, name: str) -> Floats:
        """Return the value of each query, NaN where it is undefined."""
        found = self.result.per_query[_evaluated_name(name)]
        return 1 - found if name == IN_ORDER else found

    def mean(self, name: str) -> float:
        """Return the mean over the queries that have a value."""
        found = self.result.mean[_evaluated_name(name)]
        return 1 - found if name == IN_ORDER else found

    def interval(self, name: str, level: float) -> Interval:
        """Return the confidence interval of the mean, with queries as independent units."""
        found = self.result.interval(_evaluated_name(name), level)
        return Interval(1 - found.high, 1 - found.low, level) if name == IN_ORDER else found

    def skipped(self, name: str) -> int:
        """Return the number of queries without a value."""
        return self.result.skipped[_evaluated_name(name)]


def _evaluated_name(name: str) -> str:
    """Return the name of the metric that is evaluated: pairs in order are 1 - pair_error."""
    return "pair_error" if name == IN_ORDER else str(metric(name))


def larger_is_better(name: str) -> bool:
    """Return whether larger values are better."""
    return name == IN_ORDER or metric(name).greater_is_better


def is_auc(name: str) -> bool:
    """Return whether a metric is the AUC, for any grade from which items are relevant.

    >>> is_auc("auc"), is_auc("auc(relevant=1)"), is_auc(IN_ORDER)
    (True, True, False)
    """
    return name != IN_ORDER and metric(name).name == "auc"


def query_metrics(
    subject: Subject, scores: Floats, metrics: Sequence[str] | None
) -> QueryMetrics | None:
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
    return QueryMetrics(tuple(names), found, lists)


def _evaluated(
    target: tuple[Floats, Array], scores: Floats, wanted: Sequence[str], weights: Floats | None
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

    def joined(attribute: str) -> dict[str, Any]:
        held = {key: value for part in parts for key, value in getattr(part, attribute).items()}
        return {name: held[name] for name in order if name in held}

    return replace(
        parts[0], mean=joined("mean"), per_query=joined("per_query"), pooled=joined("pooled"),
        skipped=joined("skipped"),
    )  # fmt: skip


# The ends of an interval; None and the reason if it is undefined.
Ends = tuple[float | None, float | None, str | None]


@dataclass(frozen=True)
class MetricValue:
    """A metric with its interval, or the reason why there is none."""

    metric: str
    value: float | None
    low: float | None
    high: float | None
    unit: str  # the independent unit: "query", "row" or "pair"
    units: int
    skipped: int = 0
    no_interval: str | None = None

    @property
    def shown(self) -> str:
        """Value in its units."""
        return in_units(self.value, self.metric)

    @property
    def shown_interval(self) -> str:
        """Interval in the units of the value."""
        return interval(self.low, self.high, share if is_share(self.metric) else rounded)


@dataclass(frozen=True)
class Quality:
    """Metrics of one ranking, the main one first."""

    name: str
    pairs_in_order: float | None
    level: float
    metrics: list[MetricValue]
    conventions: str | None

    @property
    def main(self) -> MetricValue | None:
        """The main metric."""
        return self.metrics[0] if self.metrics else None

    def of(self, name: str) -> MetricValue | None:
        """Return a metric by name."""
        return next((each for each in self.metrics if each.metric == name), None)


def quality_of(
    subject: Subject, candidate: Candidate, found: QueryMetrics | None,
    metrics: Sequence[str] | None, level: float,
) -> Quality:  # fmt: skip
    """Return each metric of a candidate with its interval."""
    if found is None:
        rows = _single_list_metrics(subject, candidate.scores, metrics, level)
    else:
        rows = _means(found, level)
    layout = subject.judgments._without_ties().to_layout()
    has_pairs = layout.count_graded_pairs() > 0 or layout.winner.size > 0
    in_order = pairs_in_order(subject.judgments, candidate.scores) if has_pairs else None
    if subject.is_listed and not metrics and in_order is not None:
        rows = [_explicit_pair_metrics(subject, candidate.scores, in_order, level)]
    conventions = None if found is None else str(found.result.policy)
    return Quality(candidate.name, in_order, level, rows, conventions)


def _means(found: QueryMetrics, level: float) -> list[MetricValue]:
    rows = []
    for name in found.names:
        low, high, why = ends_or_reason(partial(found.interval, name, level))
        mean, skipped = finite(found.mean(name)), found.skipped(name)
        units = found.result.n_queries - skipped
        rows.append(MetricValue(name, mean, low, high, "query", units, skipped, why))
    return rows


def _single_list_metrics(
    subject: Subject, scores: Floats, metrics: Sequence[str] | None, level: float
) -> list[MetricValue]:
    """Return metrics of a single list, with rows as independent units."""
    rows = subject.graded
    listed = subject.judgments.pairs is not None
    if not rows.size or np.ptp(subject.grade[rows]) == 0 or (listed and not metrics):
        return []
    y, weight = subject.grade[rows], subject.judgments.weight
    names = list(metrics or _default_list_metrics(np.unique(y).size))
    found = []
    for name in names:
        known, target = _of_two_classes("pair_error" if name == IN_ORDER else name, y)
        estimate = None
        if weight is None:
            estimate = inference.of_one_list(known, target, scores[rows])
        if estimate is not None:
            value, ends = estimate.value, ends_or_reason(partial(estimate.interval, level))
        else:
            result = evaluate(target, scores[rows], metrics=known,
                              sample_weight=None if weight is None else weight[rows])  # fmt: skip
            value = next(iter(result.mean.values()))
            why = "one list has one value and no spread"
            ends = None, None, why if weight is None else "the rows are weighted"
        low, high, why_not = ends
        if name == IN_ORDER:
            value, low, high = 1 - value, *(None if e is None else 1 - e for e in (high, low))
        found.append(MetricValue(name, finite(value), low, high, "row", rows.size, 0, why_not))
    return found


def _of_two_classes(name: str, y: Floats) -> tuple[str, Floats]:
    """Return an AUC from a given grade as the AUC of two classes; others with the grades."""
    least = metric(name).relevant if is_auc(name) else None
    if least is None or not y.min() < least <= y.max():
        return name, y
    return "auc", (y >= least).astype(np.float64)


def _explicit_pair_metrics(
    subject: Subject, scores: Floats, in_order: float, level: float
) -> MetricValue:
    """Return the share of explicit pairs in order; pairs of an item or a query are dependent."""
    judgments = subject.judgments
    pairs = "comparable" if judgments.qid is None else "pooled"

    def right() -> Interval:
        wrong = inference.ranking_risk(judgments, scores, pairs=pairs).interval(level)
        return Interval(1 - wrong.high, 1 - wrong.low, level)

    low, high, why = ends_or_reason(right)
    return MetricValue(IN_ORDER, in_order, low, high, "pair", judgments.n_pairs, 0, why)


def _default_list_metrics(classes: int) -> list[str]:
    """Return the default metrics; for two classes, the AUC is the share of pairs in order."""
    usual = list_metrics(classes)
    if "auc" in usual:
        return [name for name in usual if name != "pair_error"]
    return [IN_ORDER if name == "pair_error" else name for name in usual]


def ends_or_reason(compute: Callable[[], Interval]) -> Ends:
    """Return the ends of an interval, or the reason why it is undefined."""
    try:
        found = compute()
    except ValueError as error:
        return None, None, str(error)
    return float(found.low), float(found.high), None


def finite(value: float) -> float | None:
    """Return a finite number, else None."""
    return float(value) if np.isfinite(value) else None


# -- comparison of several rankings: paired differences with intervals, queries won and lost -----


@dataclass(frozen=True)
class Difference:
    """The difference of a metric between two rankings, or the reason why there is none."""

    metric: str
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    reason: str | None = None
    units: int | None = None
    unit: str | None = None


@dataclass(frozen=True)
class Against:
    """The first ranking against another: differences, first minus other, and queries won.

    `adjusted` is the p value of the main metric, adjusted for the number of others.
    """

    name: str
    won: int | None
    lost: int | None
    tied: int | None
    differences: list[Difference]
    adjusted: float | None = None


@dataclass(frozen=True)
class Comparison:
    """The first ranking against each of the others."""

    first: str
    main: str
    level: float
    rows: list[Against]
    better_high: bool

    def chart(self) -> Chart:
        """Draw the differences of the main metric with their intervals."""
        rows = [row for row in self.rows if row.differences[0].difference is not None]
        main = [row.differences[0] for row in rows]
        layer = ranges(self.main, [(d.difference, d.low, d.high) for d in main])
        label = in_points(f"difference in {metric_name(self.main)}", self.main)
        title = f"{label}, {self.first} minus the other"
        names = [f"against {row.name}" for row in rows]
        return Chart(title, (label, ""), [Rule(0.0), layer] if rows else [], rows=names)

    def blocks(self, words: Words, unit: str, *, by_query: bool) -> list[Block]:
        """Return the chart, all differences, and how they were computed."""
        level, rows = percent(self.level), []
        for row in self.rows:
            for at, each in enumerate(row.differences):
                ends = difference_interval(each.low, each.high, each.metric)
                cells = [row.name if at == 0 else "", metric_name(each.metric),
                         difference(each.difference, each.metric),
                         Cell(ends, tip=each.reason or ""), p_cell(each.p_value)]  # fmt: skip
                won = f"{row.won:,}, {row.lost:,}, {row.tied:,}" if row.won is not None else ""
                rows.append([*cells, *([won if at == 0 else ""] if by_query else [])])
        head = ["against", "metric", "difference", f"{level} interval", "p"]
        head += [f"{words.queries} won, lost, tied"] if by_query else []
        kinds = "name name n span n" + (" name" if by_query else "")
        several = len(self.rows) > 1
        paired = words.queries if by_query else "pairs" if unit == "pair" else words.items
        won = f"Won and lost are by {metric_name(self.main)}. " if by_query else ""
        adjusted = f"Here p values are not adjusted; in the text above they are, for " \
                   f"{len(self.rows)} comparisons." if several else ""  # fmt: skip
        side = "Right" if self.better_high else "Left"
        caption = f"{side} of 0, {self.first} is better. The lines are {level} intervals."
        return [
            Heading(f"{self.first} against {'the others' if several else self.rows[0].name}"),
            Figure(self.chart(), caption),
            Table(head, rows, kinds),
            Paragraph(f"Differences are {self.first} minus the other, paired on the same {paired}: "
                      f"what both get wrong cancels. {won}{adjusted}", "note"),
        ]  # fmt: skip


def ranges(name: str, rows: Sequence[tuple[float | None, float | None, float | None]]) -> Ranges:
    """Return a layer of differences with their intervals, in points for percentages."""
    scale = 100.0 if is_share(name) else 1.0
    middle, low, high = (
        [None if each is None else scale * each for each in column]
        for column in zip(*rows, strict=True)
    ) if rows else ([], [], [])  # fmt: skip
    return Ranges(range(len(rows)), middle, low, high)


def in_points(text: str, name: str) -> str:
    """Return the label of an axis of differences of a metric."""
    return f"{text}, points" if is_share(name) else text


def compare(
    subject: Subject, found: Sequence[QueryMetrics | None], names: Sequence[str], level: float
) -> Comparison | None:
    """Compare the first candidate with each of the others.

    The p values of the main metric are adjusted for the number of others by Holm's rule.
    """
    others = subject.candidates[1:]
    if not others or not names:
        return None
    rows = []
    for at, other in enumerate(others, start=1):
        differences = [_difference(subject, name, at, level) for name in names]
        rows.append(Against(other.name, *_won_and_lost(found, at), differences))
    found_p = {k: p for k, row in enumerate(rows) if (p := row.differences[0].p_value) is not None}
    for k, p in zip(found_p, inference.holm([*found_p.values()]).tolist(), strict=True):
        rows[k] = replace(rows[k], adjusted=p)
    return Comparison(subject.first.name, names[0], level, rows, larger_is_better(names[0]))


def _difference(subject: Subject, name: str, at: int, level: float) -> Difference:
    if subject.judgments.weight is not None:
        return Difference(name, reason="the rows are weighted")
    flipped, rows = name == IN_ORDER, subject.graded
    target: Floats | Judgments = subject.grade[rows]
    qid = subject.judgments.qid
    wanted: Metric | str = "pair_error" if flipped else name
    if subject.is_listed:
        wanted = "pair_error" if qid is None else "pooled_pair_error"
        rows, target, qid = np.arange(subject.scores.size), subject.judgments, None
    elif qid is not None and metric(wanted).name == "auc":  # as in `evaluate`, not of all grades
        auc = metric(wanted)
        wanted = replace(auc, relevant=1 if auc.relevant is None else auc.relevant)
    try:
        result = inference.compare(
            target, subject.first.given_scores[rows], subject.candidates[at].given_scores[rows],
            None if qid is None else qid[rows], metric=wanted, random_state=0,
        )  # fmt: skip
    except ValueError as error:
        return Difference(name, reason=str(error))
    low, high, why = ends_or_reason(partial(result.interval, level))
    sign = -1.0 if flipped else 1.0
    if flipped and low is not None and high is not None:
        low, high = -high, -low
    gap = finite(sign * result.difference + 0.0)
    return Difference(name, gap, low, high, result.p_value, why, result.n_units, result.unit)


def _won_and_lost(
    found: Sequence[QueryMetrics | None], at: int
) -> tuple[int | None, int | None, int | None]:
    """Count the queries in which the first candidate is better, worse or equal."""
    first, other = found[0], found[at]
    if first is None or other is None:
        return None, None, None
    sign = 1.0 if larger_is_better(first.main) else -1.0
    gap = sign * (first.values(first.main) - other.values(first.main))
    gap = gap[~np.isnan(gap)]
    return int((gap > 0).sum()), int((gap < 0).sum()), int((gap == 0).sum())


def in_order_chart(models: Sequence[Quality]) -> Chart:
    """Draw the share of the pairs in order, by model, with its interval; chance is a half."""
    rows = [(model.name, row) for model in models for row in model.metrics
            if row.metric == IN_ORDER]  # fmt: skip
    layer = Ranges(range(len(rows)), [row.value for _, row in rows],
                   [row.low for _, row in rows], [row.high for _, row in rows])  # fmt: skip
    return Chart(
        "share of the pairs in order, with intervals", ("share of the pairs in order", ""),
        [Rule(0.5), layer] if rows else [], rows=[name for name, _ in rows], percent=(True, False),
    )  # fmt: skip


# -- the section ---------------------------------------------------------------------------------


def quality_section(
    models: Sequence[Quality], training: Training | None, comparison: Comparison | None,
    first: Sequence[Block], words: Words, *, by_query: bool,
) -> Section | None:  # fmt: skip
    """Return the metrics of all models, their differences, and the blocks of the first ranks."""
    quality = models[0]
    if quality.main is None and quality.pairs_in_order is None:
        return None
    if quality.main is None:
        in_order = share(quality.pairs_in_order)
        blocks: list[Block] = [Paragraph(f"{in_order} of the pairs are in order.")]
    else:
        blocks = _metric_blocks(models, training, words, by_query=by_query)
    if comparison is not None and quality.main is not None:
        blocks += comparison.blocks(words, quality.main.unit, by_query=by_query)
    blocks += first
    return Section("quality", "How good", "How good it is", blocks)


def _metric_blocks(
    models: Sequence[Quality], training: Training | None, words: Words, *, by_query: bool
) -> list[Block]:
    """Return the table of metrics, and notes on it."""
    quality = models[0]
    main = quality.metrics[0]
    units = {"query": words.queries, "pair": "pairs"}.get(main.unit, words.items)
    trained = [] if training is None else training.models
    head = ["metric", *(f"{each.name}, {percent(quality.level)} interval" for each in models),
            *(f"{each.name}, training" for each in trained), units]  # fmt: skip
    rows = []
    for row in quality.metrics:
        over = f", mean over {words.queries}" * (row.metric == IN_ORDER and row.unit == "query")
        same = " = pairs in order" * (is_auc(row.metric) and words.best is not None)
        fitted = [each.of(row.metric) for each in trained]
        rows.append([f"{metric_name(row.metric)}{over}{same}",
                     *(_metric_cell(each.of(row.metric)) for each in models),
                     *("–" if each is None else each.shown for each in fitted),
                     row.units])  # fmt: skip
    kinds = ["head", *["span"] * len(models), *["n"] * (len(trained) + 1)]
    blocks: list[Block] = [
        Table(head, rows, " ".join(kinds)),
        Paragraph(_convention(quality, words, by_query=by_query), "note"),
    ]
    reasons = [row.no_interval for row in quality.metrics if row.no_interval]
    if reasons:
        blocks += [Paragraph("No interval:", "note"), Bullets(reasons)]
    if training is not None:
        blocks.append(Paragraph(training.shown(words, by_query=by_query), "note"))
    return blocks


def _metric_cell(row: MetricValue | None) -> Cell:
    if row is None:
        return Cell("–")
    ends = "" if row.low is None else row.shown_interval
    return Cell(row.shown, detail=ends, tip=row.no_interval or "")


def _convention(quality: Quality, words: Words, *, by_query: bool) -> str:
    """Describe what the metrics are means of, and how equal scores count."""
    main = quality.metrics[0]
    if main.unit == "pair":
        same = words.query if by_query else words.item
        return (f"Listed pairs. Pairs of the same {same} are not independent; the interval allows "
                "for that. Equal scores count half.")  # fmt: skip
    if main.unit == "row":
        return f"One list; the {words.item} is the unit of the intervals. Equal scores count half."
    skipped = f"; {main.skipped:,} without a value are left out" if main.skipped else ""
    pooled = ""
    if quality.pairs_in_order is not None:
        pooled = (f"The {share(quality.pairs_in_order)} of pairs in order above pools the pairs of "
                  f"all {words.queries}, so that long ones count more; the mean over "
                  f"{words.queries} counts each alike. ")  # fmt: skip
    return Markup("{}. {}Equal scores count as half in pairs and as the worse order elsewhere "
                  "(<code>{}</code>).").format(
        f"Means over {words.queries}, which are the units of the intervals{skipped}", pooled,
        quality.conventions,
    )  # fmt: skip


@dataclass(frozen=True)
class Training:
    """Metrics on the training rows, and the queries and rows shared with the report."""

    rows: int
    queries: int | None
    models: list[Quality]
    shared_queries: int
    shared_rows: int

    def shown(self, words: Words, *, by_query: bool) -> str:
        """Describe the training rows, and how many of them are in the report too."""
        of_queries = f" of {self.queries:,} {words.queries}" if self.queries else ""
        shared = f"No {words.query if by_query else 'row of features'} is in both."
        if self.shared_queries or self.shared_rows:
            shared = (f"{self.shared_queries:,} {words.queries} and {self.shared_rows:,} rows of "
                      "features are in both.")  # fmt: skip
        return f"Training data: {self.rows:,} {words.items}{of_queries}. {shared}"
