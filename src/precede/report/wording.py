"""Words for items and queries, and formatting of numbers, in reports."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from precede.engine.arrays import Json
from precede.metrics import REGISTRY

Value = str | int | float | bool | None  # a value that JSON has

# Written as percentages, like the metrics that are shares of pairs.
_SHARES = ("pairs_in_order", "precision_at_percent")


@dataclass(frozen=True)
class Words:
    """Words for an item, a query, a good item and a grade.

    `good` is used alone or before the item: "repaid", "relevant". `best` is the grade of the
    class that should rank first, if the rows are one list of two classes.
    """

    item: str = "row"
    query: str = "query"
    good: str | None = None
    grade: str = "grade"
    best: Value = None

    @classmethod
    def of(cls, item: object, good: object, query: object, *, one_list: bool) -> Words:
        """Return the given words; by default documents if there are queries, else rows."""
        default = "row" if one_list else "document"
        known = _word("item", item), _word("query", query), _word("good", good)
        return cls(known[0] or default, known[1] or "query", known[2])

    @property
    def items(self) -> str:
        """Plural of the item."""
        return plural(self.item)

    @property
    def queries(self) -> str:
        """Plural of the query."""
        return plural(self.query)

    @property
    def good_class(self) -> str:
        """Word for the class that should rank first, or its name."""
        return self.good or str(self.best)

    def count_items(self, count: int) -> str:
        """Format a number of items.

        >>> Words("borrower").count_items(2000), Words("borrower").count_items(1)
        ('2,000 borrowers', '1 borrower')
        """
        return f"{count:,} {self.item if count == 1 else self.items}"

    def count_queries(self, count: int) -> str:
        """Format a number of queries."""
        return f"{count:,} {self.query if count == 1 else self.queries}"

    def class_name(self, grade: Value) -> Value:
        """Name a class by the word for the good one, if any; other grades are returned unchanged.

        >>> words = Words(good="repaid", best=1)
        >>> words.class_name(1), words.class_name(0), Words(good="repaid").class_name(2)
        ('repaid', 'not repaid', 2)
        """
        if self.best is None or self.good is None or grade is None:
            return grade
        return self.good if grade == self.best else f"not {self.good}"

    def to_dict(self) -> Json:
        """Return the words as a dictionary."""
        return {"item": self.item, "items": self.items, "query": self.query,
                "queries": self.queries, "good": self.good}  # fmt: skip


def _word(name: str, value: object) -> str | None:
    """Return a word that was given, if any."""
    if value is None or (isinstance(value, str) and value.strip()):
        return value
    raise ValueError(f"{name}={value!r} is not a word; give one, such as 'borrower'")


def listed(names: Sequence[str]) -> str:
    """Join names for a sentence.

    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def plural(noun: str) -> str:
    """Return the plural of a noun.

    >>> plural("query"), plural("borrower"), plural("search"), plural("day"), plural("person")
    ('queries', 'borrowers', 'searches', 'days', 'people')
    """
    if noun == "person":
        return "people"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")


def number(value: object, digits: int = 4) -> str:
    """Format a number; None is a dash.

    >>> number(0.123456), number(0.5), number(12345), number(None), number(2.0), number("a")
    ('0.1235', '0.5000', '12,345', '–', '2', 'a')
    """
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        return str(value)
    if not isinstance(value, int) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) or (value == int(value) and abs(value) < 1e15):
        return f"{int(value):,}"
    if 1000 <= abs(value) < 1e9:
        return f"{value:,.1f}"
    return f"{value:#.{digits}g}".rstrip(".")


def feature_value(value: Value, years: bool = True) -> str:
    """Format the value of a feature; possible years have no comma unless `years` is False.

    >>> feature_value(1998.0), feature_value(12000), feature_value(0.25), feature_value(None)
    ('1998', '12,000', '0.25', 'missing')
    >>> feature_value(1998.0, years=False)
    '1,998'
    """
    if value is None:
        return "missing"
    if isinstance(value, str) or abs(value) >= 1000 or value == int(value):
        year = years and not isinstance(value, str) and may_be_years([value])
        return str(int(value)) if year else number(value)
    return f"{value:.4g}"


def may_be_years(values: ArrayLike) -> bool:
    """Return whether all numbers except NaN are integers in the range of years.

    >>> may_be_years([1998.0, float("nan"), 2015.0]), may_be_years([1998.0, 12.0])
    (True, False)
    """
    known = np.asarray(values, np.float64)
    known = known[~np.isnan(known)]
    return bool(((known >= 1500) & (known <= 2100) & (known == np.round(known))).all())


def rounded(value: float | None) -> str:
    """Format a metric with three decimals.

    >>> rounded(0.74251), rounded(None)
    ('0.743', '–')
    """
    return "–" if value is None else f"{value:.3f}"


def signed(value: float | None) -> str:
    """Format a difference of metrics.

    >>> signed(0.0121), signed(-0.5), signed(0.0)
    ('+0.012', '−0.500', '0.000')
    """
    return "–" if value is None else _with_sign(value, 3)


def _with_sign(value: float, digits: int) -> str:
    """Format a number with its sign, without one if it is rounded to 0."""
    text = f"{value:+.{digits}f}".replace("-", "−")
    return text if text.strip("+−0.") else text[1:]


def p_value(value: float | None) -> str:
    """Format a p value.

    >>> p_value(0.0312), p_value(1e-9), p_value(None)
    ('p = 0.031', 'p < 0.001', 'no p value')
    """
    if value is None:
        return "no p value"
    return "p < 0.001" if value < 0.001 else f"p = {value:.2g}" if value < 0.995 else "p = 1"


def p_cell(value: float | None) -> str:
    """Format a p value in a column of p values.

    >>> p_cell(0.0312), p_cell(1e-9), p_cell(None)
    ('0.031', '< 0.001', '–')
    """
    return "–" if value is None else p_value(value)[2:].replace("= ", "")


def interval(low: float | None, high: float | None, form: Callable[[float], str] = rounded) -> str:
    """Format both ends of an interval, or a dash.

    >>> interval(0.25, 0.5), interval(None, None)
    ('0.250 to 0.500', '–')
    """
    return "–" if low is None or high is None else f"{form(low)} to {form(high)}"


def metric_name(name: str) -> str:
    """Return the display name of a metric.

    >>> metric_name("ndcg@10"), metric_name("auc"), metric_name("pair_error")
    ('NDCG@10', 'AUC', 'pairs out of order')
    >>> metric_name("map(relevant=4)")
    'MAP (grade 4 or more)'
    """
    name, bracket, inside = name.partition("(relevant=")
    if bracket:
        return f"{metric_name(name)} (grade {inside.removesuffix(')')} or more)"
    base, at, rest = name.partition("@")
    label = REGISTRY[base].label if base in REGISTRY else ""
    if "{k}" in label:
        return label.format(k=rest)
    return (label or (base.upper() if len(base) <= 4 else base.replace("_", " "))) + at + rest


def measure_name(name: str, good: str) -> str:
    """Return the display name of a measure of the top of a list.

    >>> measure_name("positives_above_first_negative", "repaid"), measure_name("push_risk@4", "x")
    ('repaid above the first that is not', 'push risk, p = 4')
    >>> measure_name("partial_auc@0.01", "x").replace("\u00a0", " ")
    'partial AUC, first 1 % of the others'
    """
    base, _, rest = name.partition("@")
    if base == "positives_above_first_negative":
        return f"{good} above the first that is not"
    if base == "partial_auc":
        return f"partial AUC, first {100 * float(rest):g}\u00a0% of the others"
    return f"push risk, p = {rest}" if base == "push_risk" else metric_name(name)


def share(value: float | None, digits: int = 1) -> str:
    """Format a share as a percentage, with a non-breaking space.

    >>> share(0.8611).replace("\u00a0", " "), share(None)
    ('86.1 %', '–')
    """
    return "–" if value is None else f"{100 * value:.{digits}f}\u00a0%"


def percent(level: float) -> str:
    """Format the level of an interval.

    >>> percent(0.95)
    '95 %'
    """
    return f"{100 * level:g} %"


def is_share(name: str) -> bool:
    """Return whether a metric is a share of pairs.

    >>> is_share("auc"), is_share("precision_at_percent@10"), is_share("ndcg@10")
    (True, True, False)
    """
    base = name.partition("@")[0].partition("(")[0]
    return base in _SHARES or (base in REGISTRY and REGISTRY[base].by_pairs)


def in_units(value: float | None, name: str) -> str:
    """Format a metric: shares of pairs as percentages, others with three decimals.

    >>> in_units(0.8611, "ndcg@10"), in_units(0.8611, "auc").replace("\u00a0", " ")
    ('0.861', '86.1 %')
    """
    return (share if is_share(name) else rounded)(value)


def difference(value: float | None, name: str) -> str:
    """Format a difference of a metric, of percentages in percentage points.

    >>> difference(0.0121, "ndcg@10"), difference(-0.0121, "auc").replace("\u00a0", " ")
    ('+0.012', '−1.2 points')
    """
    if value is None or not is_share(name):
        return signed(value)
    return f"{_with_sign(100 * value, 1)}\u00a0points"


def difference_interval(low: float | None, high: float | None, name: str) -> str:
    """Format the interval of a difference, or a dash.

    >>> difference_interval(-0.01, 0.0225, "auc").replace("\u00a0", " ")
    '−1.0 to +2.2 points'
    """
    if low is None or high is None:
        return "–"
    first = _with_sign(100 * low, 1) if is_share(name) else signed(low)
    return f"{first} to {difference(high, name)}"
