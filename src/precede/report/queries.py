"""The first ranks, and queries one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from markupsafe import Markup

from precede.engine.arrays import Floats, Integers
from precede.explain.contributions import explain
from precede.inference import mean_metric
from precede.metrics import default_metrics
from precede.metrics.registry import with_relevant
from precede.plots.drawing import Band, Blocks, Chart, Layer, Line
from precede.report.document import (
    Block,
    Cell,
    Figure,
    Heading,
    Html,
    Paragraph,
    Section,
    Table,
    unseen,
)
from precede.report.quality import IN_ORDER, QueryMetrics, ends_or_reason, finite, larger_is_better
from precede.report.subject import ShownRow, Subject
from precede.report.wording import Value, Words, in_units, is_share, metric_name, number, percent

_MAX_RANKS = 10
_MAX_LISTED = 40  # rows shown of one query
_MAX_EXPLAINED = 4000  # rows explained, of all queries together
_MAX_CONTRIBUTIONS = 3
_MAX_PRINTED = 20  # rows of the table of queries on paper and in Markdown
_FEW_GRADES = 6  # of which shares are shown


# -- the first ranks of queries, or the first rows of a single list ------------------------------


@dataclass(frozen=True)
class RankShares:
    """Shares of the grades at a rank, over the queries that are that long."""

    rank: int
    queries: int
    shares: dict[str, float]


@dataclass(frozen=True)
class FirstRanks:
    """Mean grade of the first k rows of queries: of the models, by chance and at best."""

    ranks: list[int]
    models: dict[str, list[float]]
    low: list[float | None]
    high: list[float | None]
    best: list[float]
    chance: float
    shares: list[RankShares] | None

    def chart(self, words: Words) -> Chart:
        """Draw the mean grade of the first k rows."""
        at = self.ranks
        layers: list[Layer] = []
        low, high = ([end for end in ends if end is not None] for ends in (self.low, self.high))
        if len(low) == len(high) == len(at):
            layers.append(Band(at, low, high))
        layers.append(Line([at[0], at[-1]], [self.chance] * 2, "random order", -1))
        layers.append(Line(at, self.best, "best possible", -2))
        layers += [Line(at, means, name, k, marked=len(at) < 20)
                   for k, (name, means) in enumerate(self.models.items())]  # fmt: skip
        title = f"mean grade of the first {words.items} of a {words.query}"
        labels = (f"k, number of {words.items} from the top", "mean grade of the first k")
        return Chart(title, labels, layers, x_ticks=[(k, str(k)) for k in at])

    def first_screen(self, words: Words, level: float) -> tuple[Block, Figure]:
        """Return the means as a table for screen readers, and as a chart."""
        head = ["k", *self.models, "best possible"]
        rows = list(zip(self.ranks, *self.models.values(), self.best, strict=True))
        caption = (f"The higher a line, the better what a reader of the first k {words.items} "
                   f"finds. The band is a {percent(level)} interval over "
                   f"{words.queries}.")  # fmt: skip
        table = Table(head, rows, " ".join(["n"] * len(head)))
        means = unseen(Heading("Mean grade of the first k"), table)
        return means, Figure(self.chart(words), caption)

    def blocks(self, words: Words, of_first: str) -> list[Block]:
        """Return the shares of the grades at each rank."""
        if not self.shares:
            return []
        caption = "Which grades stand at each rank: the stronger the colour, the better the grade."
        return [Figure(self._shares_chart(self.shares, words), caption,
                       heading=f"The first ranks{of_first}")]  # fmt: skip

    def _shares_chart(self, ranks: Sequence[RankShares], words: Words) -> Chart:
        """Draw stacked shares of the grades at each rank, the best grade darkest and lowest."""
        grades = list(ranks[0].shares)[::-1]
        boxes, values, tips = [], [], []
        for each in ranks:
            foot = 0.0
            for k, grade in enumerate(grades):
                part = each.shares[grade]
                if part > 0:
                    boxes.append((each.rank - 0.4, each.rank + 0.4, foot, foot + part))
                    values.append(_shade(k, len(grades)))
                    tips.append(f"rank {each.rank}: {part:.0%} grade {grade}")
                foot += part
        keys = [(f'class="grade" fill-opacity="{_shade(k, len(grades)):.2f}"', f"grade {grade}")
                for k, grade in enumerate(grades)]  # fmt: skip
        title = f"share of each grade at each rank, over {words.queries}"
        return Chart(
            title, ("rank", f"share of the {words.queries}"), [Blocks(boxes, values, tips)],
            (0.5, len(ranks) + 0.5), (0, 1), percent=(False, True),
            x_ticks=[(each.rank, str(each.rank)) for each in ranks], keys=keys,
        )  # fmt: skip


def _shade(at: int, count: int) -> float:
    """Return the opacity of a grade: the best is opaque, the worst pale."""
    return 1.0 if count < 2 else 0.12 + 0.88 * (1 - at / (count - 1)) ** 1.3


def first_ranks(subject: Subject, level: float) -> FirstRanks | None:
    """Return the mean grade of the first k rows of queries.

    Sorting by grade maximizes the mean over the first k rows for every k, so that no model exceeds
    "best possible"; this would not hold for the mean at rank k alone.
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
    intervals = [
        ends_or_reason(partial(mean_metric(column).interval, level))[:2] for column in first.T
    ]
    every = np.concatenate(grades)
    least, most = float(every.min()), float(every.max())
    return FirstRanks(
        ranks=list(range(1, depth + 1)),
        models={name: values.mean(axis=0).tolist() for name, values in reached.items()},
        low=[None if low is None else max(low, least) for low, _ in intervals],
        high=[None if high is None else min(high, most) for _, high in intervals],
        best=best.mean(axis=0).tolist(),
        chance=float(np.mean([each.mean() for each in grades])),
        shares=_shares(subject, grades, depth),
    )


def _mean_of_first(grades: list[Floats], depth: int) -> Floats:
    """Return the mean grade of the first k rows (or of all, if fewer) of each query, k = 1, ...."""
    means = np.empty((len(grades), depth))
    for query, each in enumerate(grades):
        sums = np.cumsum(each[:depth])
        reached = np.minimum(np.arange(1, depth + 1), each.size)
        means[query] = sums[reached - 1] / reached
    return means


def _shares(subject: Subject, grades: list[Floats], depth: int) -> list[RankShares] | None:
    """Return the shares of few grades at each rank, and the number of queries that long."""
    values = np.unique(subject.grade[subject.graded])
    if values.size > _FEW_GRADES:
        return None
    names = [str(subject.grade_name(value)) for value in values.tolist()]
    found = []
    for rank in range(depth):
        here = np.array([each[rank] for each in grades if each.size > rank])
        shares = [float(np.mean(here == value)) for value in values]
        found.append(RankShares(rank + 1, here.size, dict(zip(names, shares, strict=True))))
    return found


def first_rows(subject: Subject) -> list[ShownRow]:
    """Return the first rows of a single list."""
    if not subject.is_one_list or not subject.graded.size:
        return []
    shown = subject.lists[0][:_MAX_RANKS].tolist()
    return [subject.shown_row(row, rank) for rank, row in enumerate(shown, start=1)]


def row_table(rows: Sequence[ShownRow], words: Words) -> Table:
    """Return a table of rows, in which those of a pair out of order are marked."""
    cells = [
        [each.rank, Cell(each.document, unseen=" (in a pair out of order)" if each.wrong else ""),
         words.class_name(each.grade), each.score]
        for each in rows
    ]  # fmt: skip
    marked = [k for k, each in enumerate(rows) if each.wrong]
    return Table(["rank", words.item, words.grade, "score"], cells, "n name n n", marked)


# -- query by query ----------------------------------------------------------------------------


Reasons = list[list[tuple[int, float]]]  # features and amounts of the contributions of each row


@dataclass(frozen=True)
class OpenedQuery:
    """The first rows of a query, with their ranks by the other candidates and contributions."""

    document: list[str]
    row: list[int]
    grade: list[Value]
    score: list[float]
    others: list[list[int]]
    why: Reasons | None


@dataclass(frozen=True)
class QueryRow:
    """A query: its size, its metrics, and its rows."""

    query: Value
    rows: int
    pairs: int
    values: dict[str, float | None]
    others: list[float | None]
    first_grades: Sequence[Value]
    list: OpenedQuery

    def cells(self, main: str) -> Sequence[object]:
        """Return the cells of its row in the table of queries."""
        dots = "…" if self.rows > len(self.first_grades) else ""
        grades = "".join(f"{grade} " for grade in self.first_grades) + dots
        return [
            Cell(self.query, key=str(self.query), kind="name"), Cell(self.rows, key=self.rows),
            Cell(self.pairs, key=self.pairs),
            *(_value_cell(name, value) for name, value in self.values.items()),
            *(_value_cell(main, value) for value in self.others), grades,
        ]  # fmt: skip


def _value_cell(name: str, value: float | None) -> Cell:
    scale = 100 if is_share(name) else 1
    return Cell(in_units(value, name), key="" if value is None else scale * value)


@dataclass(frozen=True)
class Queries:
    """Queries, the worst first."""

    main: str
    greater_is_better: bool
    columns: list[str]
    features: list[str]
    count: int
    shown: int
    rows: list[QueryRow] = field(repr=False)

    def section(self, models: Sequence[str], words: Words) -> Section:
        """Return a table of queries, which can be sorted, filtered and opened."""
        main = metric_name(self.main)
        blocks: list[Block] = []
        if self.shown < self.count:
            blocks.append(Paragraph(
                Markup("The worst {} of {} {} by {}; the others are left out to keep the page "
                       "small (<code>max_queries</code> sets how many are kept).").format(
                    number(self.shown), number(self.count), words.queries, main
                ), "note",
            ))  # fmt: skip
        others = [f"{main} of {name}" for name in models[1:] if self.rows and self.rows[0].others]
        head = [words.query, words.items, "pairs", *map(metric_name, self.columns), *others]
        kinds = " ".join(["open", *["n"] * (len(head) - 1), "grades"])
        blocks += [
            Html(_CONTROLS.format(main, ", in %" if is_share(self.main) else "")),
            Table([*head, "grades from the top"], [row.cells(self.main) for row in self.rows],
                  kinds, sorted_by=3, ascending=self.greater_is_better, most=_MAX_PRINTED),
        ]  # fmt: skip
        if self.shown > _MAX_PRINTED:
            blocks.append(Paragraph(f"The worst {_MAX_PRINTED}; the page on a screen has "
                                    f"{self.shown:,}.", "note on-paper"))  # fmt: skip
        queries = words.queries.capitalize()
        return Section("queries", queries, f"{queries} one by one", blocks)


_CONTROLS = Markup("""\
<p class="note needs-script">Open one to see its list.</p>
<div class="controls needs-script">
<label>Name contains<input type="search" id="query-name" autocomplete="off"></label>
<label>{} at most{}<input type="number" id="query-limit" step="any"></label>
<span class="soft" role="status" id="query-count"></span></div>
""")


def queries_of(
    subject: Subject, found: Sequence[QueryMetrics | None], most: int, *, named: bool
) -> Queries | None:
    """Return a row for each query with its items, the worst queries first, at most `most`."""
    first = found[0]
    if first is None:
        return None
    columns = _query_columns(subject, first, named=named)
    main = columns[0]
    sign = 1.0 if larger_is_better(main) else -1.0
    order = np.argsort(sign * first.values(main), kind="stable")  # NaN, for undefined, is last
    chosen = order[:most].tolist()
    ranks = [_ranks(subject, each.scores) for each in subject.candidates[1:]]
    shown = [first.lists[query][:_MAX_LISTED] for query in chosen]
    why = _row_contributions(subject, shown)
    rows = []
    for query, opened, reasons in zip(chosen, shown, why, strict=True):
        listed = first.lists[query]
        grades = [subject.grade_name(grade) for grade in subject.grade[opened].tolist()]
        rows.append(QueryRow(
            query=subject.query[1][int(subject.query[0][listed[0]])],
            rows=int(listed.size),
            pairs=_count_pairs(subject.grade[listed]),
            values={name: finite(first.values(name)[query]) for name in columns},
            others=[finite(each.values(main)[query]) for each in found[1:] if each],
            first_grades=grades[:_MAX_RANKS],
            list=OpenedQuery(
                [subject.document(row) for row in opened.tolist()], opened.tolist(), grades,
                [float(f"{score:.6g}") for score in subject.scores[opened].tolist()],
                [rank[opened].tolist() for rank in ranks], reasons,
            ),
        ))  # fmt: skip
    features = list(subject.names) if any(why) else []
    return Queries(main, sign > 0, columns, features, int(order.size), len(rows), rows)


def _query_columns(subject: Subject, first: QueryMetrics, *, named: bool) -> list[str]:
    """Return the metrics shown of each query, the one that sorts them first."""
    if named:
        return list(first.names)
    found = with_relevant(default_metrics("by_query"), subject.relevant)
    usual = [IN_ORDER if name == "pair_error" else name for name in found]
    return [name for name in usual if name in first.names] or list(first.names)[:4]


def _row_contributions(subject: Subject, lists: list[Integers]) -> list[Reasons | None]:
    """Return the largest contributions to the score of each row, relative to the mean.

    Only the first rows of the lists are explained, to bound the time.
    """
    model = subject.first.model
    ends = np.cumsum([rows.size for rows in lists])
    count = int(np.searchsorted(ends, _MAX_EXPLAINED, side="right"))
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
        [(j, float(f"{amount:.3g}")) for j, amount in zip(features, row, strict=True) if amount]
        for features, row in zip(largest.tolist(), amounts, strict=True)
    ]
    starts = [0, *ends[: count - 1].tolist()]
    explained = [reasons[a:b] for a, b in zip(starts, ends[:count].tolist(), strict=True)]
    return [*explained, *[None] * (len(lists) - count)]


def _ranks(subject: Subject, scores: Floats) -> Integers:
    """Return the rank of every graded row in its query."""
    rank = np.zeros(scores.size, np.int64)
    for rows in subject.lists_by(scores):
        rank[rows] = np.arange(1, rows.size + 1)
    return rank


def _count_pairs(grades: Floats) -> int:
    counts = np.unique(grades, return_counts=True)[1]
    return (int(counts.sum()) ** 2 - int(np.square(counts).sum())) // 2
