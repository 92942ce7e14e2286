"""Where the model errs: slices of the data that are worse than the rest, and misordered pairs.

A slice is a range of a column (a quarter of its values, or one of few values) or of the lengths
of the queries. Each is compared with its complement. The p values are adjusted by Holm's rule, so
that the probability that any slice is called worse by mistake is at most 1 - level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from markupsafe import Markup
from scipy.special import stdtr, stdtrit

from precede.engine.arrays import Array, Flags, Floats, Integers, VectorLike
from precede.explain.contributions import explain_pair
from precede.explain.shapes import PAIR
from precede.inference import auc, holm, ranking_risk
from precede.judgments import columns_in_order
from precede.plots.drawing import Chart, Rule
from precede.report.document import (
    Block,
    Cell,
    Figure,
    Fold,
    Group,
    Heading,
    Paragraph,
    Section,
    Table,
    side_by_side,
)
from precede.report.quality import IN_ORDER, QueryMetrics, in_points, larger_is_better, ranges
from precede.report.queries import row_table
from precede.report.subject import ShownRow, Subject, plain_value
from precede.report.wording import (
    Value,
    Words,
    difference,
    difference_interval,
    feature_value,
    in_units,
    may_be_years,
    metric_name,
    number,
    p_cell,
    percent,
)

_FEW_VALUES = 6
_QUARTERS = (0.25, 0.5, 0.75)
_MIN_QUERIES = 8
_MIN_OF_A_CLASS = 10
_MAX_COLUMNS = 30
_MAX_CELLS = 2_000_000  # cells of the sliced columns, to bound the time
_MAX_WORST = 6
_MAX_RANGES = 12  # slices drawn


@dataclass(frozen=True)
class Slice:
    """A part of the data against the rest, with the p value of the difference."""

    by: str
    label: str
    units: int
    value: float
    low: float
    high: float
    rest: float
    difference: float
    difference_low: float
    difference_high: float
    p_value: float
    adjusted: float = math.nan


@dataclass(frozen=True)
class Slices:
    """All slices, and those that are worse than the rest beyond chance, the clearest first."""

    metric: str
    level: float
    tested: int
    worst: list[Slice]
    worse: int
    rows: list[Slice]
    unit: str

    def section(self, words: Words) -> Section:
        """Return the worst slices, a chart of those that differ most, and all of them."""
        beyond = "worse than the rest beyond chance, after Holm's adjustment for their number"
        clearest = "; the clearest come first" if self.worse > 1 else ""
        are = "is" if self.worse == 1 else "are"
        worse = f"{self.worse} {are} {beyond}{clearest}." if self.worse else f"None is {beyond}."
        caption = ("The slices that differ most from the rest, with intervals that are not "
                   "adjusted.")  # fmt: skip
        blocks: list[Block] = [
            Paragraph(f"{self.tested:,} slices were compared with the rest of the data. {worse}"),
            *([self._table(self.worst, words)] if self.worst else []),
            Figure(self.chart(), caption),
        ]
        for by in dict.fromkeys(row.by for row in self.rows):
            table = self._table([row for row in self.rows if row.by == by], words)
            blocks.append(Fold(by, [table], kind="screen"))
        if self.unit == "query":
            note = (f"A {words.query} is in the slice in which the median of its {words.items} "
                    "is.")  # fmt: skip
        else:
            note = (f"Inside a slice its {words.items} are compared with each other only. Where a "
                    "feature that the model relies on varies little, they are more alike and "
                    "harder to put in order, for any model.")  # fmt: skip
        return Section("slices", "Slices", "Slices", [*blocks, Paragraph(note, "note")])

    def _table(self, rows: Sequence[Slice], words: Words) -> Table:
        units = words.queries if self.unit == "query" else words.items
        ends = f"{percent(self.level)} interval"
        head = ["slice", units, metric_name(self.metric), "the rest", "difference", ends,
                "p, adjusted"]  # fmt: skip
        cells = [
            [f"{row.by} {row.label}", row.units, in_units(row.value, self.metric),
             in_units(row.rest, self.metric), difference(row.difference, self.metric),
             difference_interval(row.difference_low, row.difference_high, self.metric),
             p_cell(row.adjusted)]
            for row in rows
        ]  # fmt: skip
        return Table(head, cells, "name n n n n span n")

    def chart(self) -> Chart:
        """Draw the slices that differ most from the rest, the least p value first."""
        rows = sorted(self.rows, key=lambda row: row.p_value)[:_MAX_RANGES]
        rows.sort(key=lambda row: row.difference)
        layer = ranges(
            self.metric, [(r.difference, r.difference_low, r.difference_high) for r in rows]
        )
        label = in_points(f"{metric_name(self.metric)} in the slice minus the rest", self.metric)
        names = [f"{row.by} {row.label}" for row in rows]
        return Chart(label, (label, ""), [Rule(0.0), layer], rows=names)


@dataclass(frozen=True)
class _Estimate:
    """A metric on a part of the data, with its standard error."""

    value: float
    error: float
    degrees: float
    units: int


def compare_slices(
    subject: Subject, found: QueryMetrics | None, given: object, level: float, words: Words
) -> Slices | None:
    """Compare every slice with the rest; None where nothing can be sliced."""
    grades, judgments = subject.grade[subject.graded], subject.judgments
    if not grades.size or judgments.weight is not None:
        return None
    if found is None and (judgments.pairs is not None or np.ptp(grades) == 0):
        return None
    name = found.main if found else "auc" if subject.is_two_classes else IN_ORDER
    rows = []
    for by, labels, names in _coded_columns(subject, found, given, words):
        for code, label in enumerate(names):
            compared = _against_rest(subject, found, labels == code, level, by, label)
            if compared is not None:
                rows.append(compared)
    if not rows:
        return None
    adjusted = holm([row.p_value for row in rows]).tolist()
    rows = [replace(row, adjusted=p) for row, p in zip(rows, adjusted, strict=True)]
    sign = 1.0 if larger_is_better(name) else -1.0
    worse = [r for r in rows if sign * r.difference < 0 and r.adjusted <= 1 - level + 1e-12]
    worse.sort(key=lambda row: (row.adjusted, sign * row.difference))
    unit = "row" if found is None else "query"
    return Slices(name, level, len(rows), worse[:_MAX_WORST], len(worse), rows, unit)


# -- which slices ----------------------------------------------------------------------------


def _coded_columns(
    subject: Subject, found: QueryMetrics | None, given: object, words: Words
) -> list[tuple[str, Floats, list[str]]]:
    """Return name, code of every unit and names of the codes, for each column.

    A unit is a graded row of a single list, or a query, whose value is the median value or the
    most frequent label of its rows.
    """
    sliced = []
    if found is not None:
        sizes = np.array([rows.size for rows in found.lists], np.float64)
        sliced.append((f"number of {words.items}", *_binned(sizes)))
    for name, values in _sliced_columns(subject, given).items():
        if values.dtype == object:
            texts = values.astype(str)
            labels = texts[subject.graded] if found is None else _most_frequent(texts, found.lists)
            known, codes = np.unique(labels, return_inverse=True)
            sliced.append((name, codes.astype(np.float64), known.tolist()))
        else:
            at = values[subject.graded] if found is None else _medians(values, found.lists)
            sliced.append((name, *_binned(at)))
    return sliced


def _sliced_columns(subject: Subject, given: object) -> dict[str, Array]:
    """Return the requested columns by name, or those that the model uses most."""
    if isinstance(given, Mapping):
        return {str(name): _given_column(name, values, subject) for name, values in given.items()}
    if subject.X is None:
        if given is not None:
            raise ValueError(f"slices={given!r} names columns and there is no X; give a dictionary")
        return {}
    if given is not None:
        several = given if isinstance(given, list | tuple) else [given]
        columns = columns_in_order(several, subject.names, len(subject.names), "slices")
    else:
        model = subject.model
        weight = np.ones(len(subject.names)) if model is None else model.feature_importances_
        order = np.argsort(-weight, kind="stable")
        most = int(np.clip(_MAX_CELLS // subject.scores.size, 4, _MAX_COLUMNS))
        columns = [int(j) for j in order[:most] if weight[j] > 0]
    return {subject.names[j]: _named_column(subject, j) for j in columns}


def _named_column(subject: Subject, feature: int) -> Array:
    """Return a column, with the names of its categories if it has any."""
    column, model = subject.column(feature), subject.model
    known = {} if model is None else model.categories_
    names = known.get(subject.names[feature])
    if names is None:
        return column
    codes = np.where(np.isnan(column), len(names), column).astype(np.int64)
    return np.array([*map(str, names), "missing"], object)[codes]


def _given_column(name: object, values: VectorLike, subject: Subject) -> Array:
    array = np.asarray(values)
    if array.shape != subject.scores.shape:
        raise ValueError(f"slices[{name!r}] has shape {array.shape}; give one value for each row")
    if array.dtype.kind not in "biuf":
        return array.astype(object)
    if np.isinf(array).any():
        raise ValueError(f"slices[{name!r}] has infinite values; give numbers, or NaN for missing")
    return array.astype(np.float64)


def _most_frequent(texts: Array, units: Sequence[Integers]) -> Array:
    """Return the most frequent label of each unit; of several, the first in order."""
    usual = []
    for rows in units:
        names, counts = np.unique(texts[rows], return_counts=True)
        usual.append(str(names[np.argmax(counts)]))
    return np.array(usual)


def _medians(values: Floats, units: Sequence[Integers]) -> Floats:
    """Return the median of the known values of each unit, by one sort; NaN if none is known."""
    sizes = np.array([rows.size for rows in units])
    stacked, unit = values[np.concatenate(units)], np.repeat(np.arange(sizes.size), sizes)
    count = np.bincount(unit, ~np.isnan(stacked), sizes.size).astype(np.int64)
    stacked = stacked[np.lexsort((stacked, unit))]  # missing values come last in their unit
    first = np.cumsum(sizes) - sizes
    low, high = (stacked[first + np.maximum(at, 0)] for at in ((count - 1) // 2, count // 2))
    return np.where(count > 0, (low + high) / 2, np.nan)


def _binned(values: Floats) -> tuple[Floats, list[str]]:
    """Return codes of values, quarters of them if there are many, and the names of the codes."""
    known = values[~np.isnan(values)]
    distinct = np.unique(known)
    years = may_be_years(distinct)
    if distinct.size <= _FEW_VALUES:
        codes = np.searchsorted(distinct, values).astype(np.float64)
        names = [feature_value(value, years) for value in distinct.tolist()]
    else:
        cuts = np.unique(np.quantile(known, _QUARTERS, method="inverted_cdf"))
        codes = np.searchsorted(cuts, values, side="left").astype(np.float64)
        ends = [
            feature_value(float(f"{cut:.3g}") if cut != np.round(cut) else cut, years)
            for cut in cuts
        ]
        names = [f"up to {ends[0]}"]
        names += [f"above {a} and up to {b}" for a, b in pairwise(ends)]
        names.append(f"above {ends[-1]}")
        for code, inside in enumerate(np.split(distinct, np.searchsorted(distinct, cuts, "right"))):
            if inside.size == 1:  # most counts are often 0: "0" rather than "up to 0"
                names[code] = feature_value(float(inside[0]), years)
    if known.size < values.size:
        codes[np.isnan(values)] = len(names)
        names.append("missing")
    return codes, names


# -- a slice against the rest ----------------------------------------------------------------


def _against_rest(
    subject: Subject, found: QueryMetrics | None, inside: Flags, level: float, by: str, label: str
) -> Slice | None:
    """Return the metric inside and outside a slice, and the difference with its p value."""
    in_slice, rest = (
        _of_rows(subject, which) if found is None else _of_queries(found, which)
        for which in (inside, ~inside)
    )
    if in_slice is None or rest is None:
        return None
    gap, error = in_slice.value - rest.value, math.hypot(in_slice.error, rest.error)
    # Degrees of freedom by Welch and Satterthwaite.
    shares = [each.error**4 / each.degrees for each in (in_slice, rest)]
    degrees = error**4 / sum(shares) if sum(shares) > 0 else math.inf
    t = float(stdtrit(degrees, (1 + level) / 2))
    own = float(stdtrit(in_slice.degrees, (1 + level) / 2)) * in_slice.error
    least, most = (0.0, 1.0) if found is None else found.bounds
    reach = max(most - least, abs(gap))
    return Slice(
        by=by, label=label, units=in_slice.units, value=in_slice.value,
        low=max(in_slice.value - own, least), high=min(in_slice.value + own, most),
        rest=rest.value, difference=gap,
        difference_low=max(gap - t * error, -reach),
        difference_high=min(gap + t * error, reach),
        p_value=float(min(2 * stdtr(degrees, -abs(gap) / error), 1.0)),
    )  # fmt: skip


def _of_queries(found: QueryMetrics, which: Flags) -> _Estimate | None:
    values = found.values(found.main)[which]
    values = values[~np.isnan(values)]
    if values.size < _MIN_QUERIES or np.ptp(values) == 0:
        return None
    error = float(values.std(ddof=1)) / math.sqrt(values.size)
    return _Estimate(float(values.mean()), error, values.size - 1, values.size)


def _of_rows(subject: Subject, which: Flags) -> _Estimate | None:
    rows = subject.graded[which]
    grades, counts = np.unique(subject.grade[rows], return_counts=True)
    if grades.size < 2 or counts.min() < (_MIN_OF_A_CLASS if grades.size == 2 else 1):
        return None
    y, scores = subject.grade[rows], subject.scores[rows]
    if subject.is_two_classes:
        estimate = auc(y, scores)
        value = estimate.value
    else:
        estimate = ranking_risk(y, scores, pairs="comparable")
        value = 1 - estimate.value
    if estimate.std_error is None or estimate.std_error == 0:
        return None
    degrees = estimate.degrees if math.isfinite(estimate.degrees) else 1e9
    return _Estimate(float(value), float(estimate.std_error), degrees, int(rows.size))


# -- errors: the worst queries, their misordered pairs, and explanations -------------------------


_MAX_ROWS_SHOWN = 10
_MAX_CONTRIBUTIONS = 6  # contributions shown for a pair; the others are added up
_MAX_PAIRS = {True: 5, False: 2}  # pairs shown for a single list, and for each of several queries


@dataclass(frozen=True)
class Effect:
    """The contribution of a feature to the difference of two scores, and its values."""

    name: str
    contribution: float
    upper_value: Value
    lower_value: Value
    years: bool


@dataclass(frozen=True)
class WrongPair:
    """A row that ranks above one that should rank above it, and why."""

    upper: ShownRow
    lower: ShownRow
    difference: float
    features: list[Effect] | None = None
    others: float = 0.0
    other_features: int = 0
    unexplained: str | None = None

    def block(self, words: Words) -> Group:
        """Return a sentence, and the contributions of the features."""
        upper, lower = _strong(self.upper, words), _strong(self.lower, words)
        sentence = Markup("{}ranks above {}by {}, and should not.").format(
            upper, lower, number(self.difference)
        )
        blocks: list[Block] = [Paragraph(sentence)]
        if self.unexplained:
            blocks.append(Paragraph(self.unexplained, "note"))
        if self.features is not None:
            rows: list[list[object]] = [
                [each.name, _signed(each.contribution), feature_value(each.upper_value, each.years),
                 feature_value(each.lower_value, each.years)]
                for each in self.features
            ]  # fmt: skip
            if self.other_features:
                others = f"{self.other_features} other{'s' if self.other_features > 1 else ''}"
                rows.append([others, f"{self.others:+#.4g}", "", ""])
            blocks.append(Table(["because of", "adds", "upper has", "lower has"], rows))
        return Group(blocks, "pair")


def _strong(row: ShownRow, words: Words) -> Markup:
    """Return the name of a row with its class or grade and its rank."""
    name = Markup("<strong>{}</strong> ").format(row.document)
    if row.grade is None:
        return name
    grade = f"{words.grade} {row.grade}"
    if words.good and words.best is not None:
        grade = str(words.class_name(row.grade))
    return name + f"({grade}{f', rank {row.rank:,}' if row.rank else ''}) "


def _signed(contribution: float) -> Cell:
    return Cell(f"{contribution:+#.4g}", kind="n plus" if contribution > 0 else "n minus")


@dataclass(frozen=True)
class WrongQuery:
    """A query with its misordered pairs and the rows around them."""

    query: Value
    value: float | None
    rows: int
    documents: list[ShownRow]
    pairs: list[WrongPair]


@dataclass(frozen=True)
class Errors:
    """The worst queries, or the single list, and the explicit pairs furthest out of order."""

    metric: str | None
    queries: list[WrongQuery]
    listed_pairs: list[WrongPair]

    def section(self, words: Words) -> Section:
        """Return the pairs of each query with their explanation, beside the rows of the query."""
        worst = ""
        if self.metric is not None:
            worst = f", in the {words.queries} with the worst {metric_name(self.metric)}"
        blocks: list[Block] = [
            Paragraph(f"The pairs whose order is furthest from what it should be{worst}. A "
                      f"positive number speaks for the upper {words.item}.")
        ]  # fmt: skip
        for at, each in enumerate(self.queries):
            title, detail = "The list", ""
            if each.query is not None:
                title = f"{words.query.capitalize()} {each.query}"
            if self.metric is not None:
                value = in_units(each.value, self.metric)
                detail = f"{metric_name(self.metric)} {value}, {each.rows:,} {words.items}"
            pairs = [pair.block(words) for pair in each.pairs]
            both = side_by_side(pairs, [row_table(each.documents, words)])
            kind = "wrong-query" + (" screen" if at > 1 else "")
            blocks.append(Fold(title, [both], detail, kind, is_open=at < 2))
        if self.listed_pairs:
            pairs = [each.block(words) for each in self.listed_pairs]
            blocks += [Heading("Listed pairs"), *pairs]
        return Section("wrong", "What went wrong", "What went wrong", blocks)


def find_errors(subject: Subject, found: QueryMetrics | None, most: int) -> Errors | None:
    """Return the worst queries, or the single list, each with its most misordered pairs.

    The most misordered pair has the least margin. No row is shown in two pairs of a query.
    None if every pair is in order.
    """
    lists = [rows for rows in subject.lists if rows.size]
    entries = []
    if found is not None:
        values = found.values(found.main)
        order = np.argsort(values if larger_is_better(found.main) else -values, kind="stable")
        chosen = [query for query in order.tolist() if not np.isnan(values[query])]
        for query in chosen[:most]:
            entries.append(_wrong_query(subject, found.lists[query], float(values[query])))
    elif lists:
        entries.append(_wrong_query(subject, lists[0], None))
    entries = [entry for entry in entries if entry.pairs]
    listed = subject.judgments.pairs
    worst = _disjoint(_misordered_pairs(subject), _MAX_PAIRS[True]) if listed is not None else []
    if not entries and not worst:
        return None
    pairs = [_explained_pair(subject, loser, winner, {}) for winner, loser in worst]
    return Errors(None if found is None else found.main, entries, pairs)


def _wrong_query(subject: Subject, rows: Integers, value: float | None) -> WrongQuery:
    rank = {row: at for at, row in enumerate(rows.tolist(), start=1)}
    worst = _worst_pairs(subject, rows, _MAX_PAIRS[value is None])
    wrong = {row for pair in worst for row in pair}
    shown = sorted({*rows[:_MAX_ROWS_SHOWN].tolist(), *wrong}, key=rank.__getitem__)
    number, ids = subject.query
    return WrongQuery(
        query=ids[int(number[rows[0]])],
        value=value,
        rows=int(rows.size),
        documents=[subject.shown_row(row, rank[row], wrong=row in wrong) for row in shown],
        pairs=[_explained_pair(subject, loser, winner, rank) for winner, loser in worst],
    )


def _worst_pairs(subject: Subject, rows: Integers, most: int) -> list[tuple[int, int]]:
    """Return the disjoint pairs (winner, loser) of a query with the least margins.

    O(n log n) for each: in order of grade, the best loser of a row is the highest score among
    the grades below its own.
    """
    rows = rows[np.lexsort((rows, subject.grade[rows]))]
    found: list[tuple[int, int]] = []
    while len(found) < most and rows.size > 1:
        grade, score = subject.grade[rows], subject.scores[rows]
        first = np.searchsorted(grade, grade, side="left")  # all rows before it have lower grades
        highest = np.maximum.accumulate(score)
        lead = np.where(first > 0, highest[first - 1] - score, -np.inf)
        winner = int(np.argmax(lead))
        if not lead[winner] > 0:
            break
        loser = int(np.argmax(score[: first[winner]]))
        found.append((int(rows[winner]), int(rows[loser])))
        rows = np.delete(rows, [winner, loser])
    return found


def _misordered_pairs(subject: Subject) -> list[tuple[int, int]]:
    """Return the explicit pairs (winner, loser) in the wrong order, the worst first."""
    pairs = subject.judgments.pairs
    assert pairs is not None
    lead = subject.scores[pairs[:, 1]] - subject.scores[pairs[:, 0]]
    order = np.argsort(-lead, kind="stable")
    return [(int(w), int(k)) for w, k in pairs[order[lead[order] > 0]]]


def _disjoint(pairs: list[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    taken: set[int] = set()
    kept: list[tuple[int, int]] = []
    for pair in pairs:
        if len(kept) < most and not taken & set(pair):
            kept.append(pair)
            taken |= set(pair)
    return kept


def _value_of(subject: Subject, name: str, row: int, value: float) -> Value:
    """Return the value of a feature, or of both features of a pair term, as a text."""
    both = name.split(PAIR)
    if name in subject.names or len(both) != 2 or not {*both} <= {*subject.names}:
        return _with_category(subject, name, float(value))
    held = [float(subject.column(subject.names.index(each))[row]) for each in both]
    parts = zip(both, held, strict=True)
    return ", ".join(feature_value(_with_category(subject, each, value)) for each, value in parts)


def _with_category(subject: Subject, feature: str, value: float) -> Value:
    """Return the value of a feature, or the name of a category that was text."""
    model = subject.first.model
    known = () if model is None else model.categories_.get(feature, ())
    return str(known[int(value)]) if known and not np.isnan(value) else plain_value(value)


def _may_be_years(subject: Subject, name: str) -> bool:
    """Return whether a column may hold years, which are written without commas."""
    return name in subject.names and may_be_years(subject.column(subject.names.index(name)))


def _explained_pair(subject: Subject, upper: int, lower: int, rank: dict[int, int]) -> WrongPair:
    """Explain why a row ranks above one that should rank above it."""
    pair = WrongPair(
        subject.shown_row(upper, rank.get(upper)), subject.shown_row(lower, rank.get(lower)),
        float(subject.scores[upper] - subject.scores[lower]),
    )  # fmt: skip
    model = subject.first.model
    if model is None:
        return pair
    two = subject.X[[upper, lower]]
    try:
        why = explain_pair(model.ensemble_, two, 0, 1, subject.names)
    except ValueError as error:
        return replace(pair, unexplained=str(error))
    effects = [
        Effect(name, float(c), _value_of(subject, name, upper, v[0]),
               _value_of(subject, name, lower, v[1]), _may_be_years(subject, name))
        for name, c, v in zip(why.names, why.contributions, why.values, strict=True)
    ]  # fmt: skip
    rest = [each.contribution for each in effects[_MAX_CONTRIBUTIONS:]]
    return replace(
        pair, features=effects[:_MAX_CONTRIBUTIONS], others=float(sum(rest)),
        other_features=len(rest),
    )  # fmt: skip
