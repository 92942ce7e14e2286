"""Ranking metrics: per query first, mean second, every convention stated.

A `Metric` is a value that prints and parses as itself, a `Policy` holds the conventions, an
`Evaluation` carries both beside the numbers. The formulas are in ``docs/metrics.md``.

Each query is sorted once, and every kind of metric has a kernel that reads it off the sorted
queries. Equal scores form *blocks*. Under ``ties="average"`` a block is read by the closed form
of its expectation over all orders; under the other policies ties are broken first and a block is
one item.
"""

from __future__ import annotations

import difflib
import html
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Protocol, cast

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from precede.engine.arrays import Floats, Integer, Integers
from precede.engine.frames import pandas_frame
from precede.engine.parameters import check_choice, upper_tail
from precede.engine.workers import warn_caller
from precede.judgments import (
    Judgments,
    check_column,
    check_weights,
    check_within_queries,
    judgments_to_fit,
    number_queries,
    qid_of_groups,
    read_target,
    warn_of_lost_queries,
)

__all__ = [
    "PRESETS", "REGISTRY", "Definition", "Evaluation", "Evaluator", "Interval", "Metric", "Policy",
    "Scorer", "default_metrics", "defined_metrics", "evaluate", "list_metrics", "listed_metrics",
    "make_scorer", "metric", "precision_at_percent", "register_metric", "weigh_pairs",
]  # fmt: skip

# What the kernel computes: codes before _AUC read positions, the others compare items.
_DCG, _PRECISION, _HITS, _AP, _RR, _ERR = range(6)
_AUC, _PARTIAL_AUC, _TOP, _RIGHT, _WRONG, _TAU, _PERCENT, _RHO = range(6, 14)
# Rows of the table of items, and columns of the table of metrics.
_RANK, _GAIN, _CHANCE, _RELEVANT, _WEIGHT = range(5)
_CODE, _K, _IS_PERCENT, _FILL, _ROW = range(5)
# Metrics that ask which items are relevant; the first four read positions, and say nothing where
# all items are.
_OF_POSITIONS = (_PRECISION, _HITS, _AP, _RR)
_OF_RELEVANCE = (*_OF_POSITIONS, _AUC, _PARTIAL_AUC, _TOP)
_MOST_ALIKE = 0.9  # share of queries with nothing but relevant items from which users are warned

# How a metric is written, {0} being its name.
_WHOLE, _CUT = "{0}, {0}@10 or {0}@5%", "{0}@10 or {0}@5%"


@dataclass(frozen=True)
class Definition:
    """All that the package knows about a metric; `REGISTRY` holds one for each name.

    Parameters
    ----------
    name : str
    meaning : str
        What it is, in a few words.
    needs : "relevant", "pair" or "nothing"
        What a query must hold for the metric to be defined: a relevant item (otherwise
        ``Policy.no_relevant`` decides), a pair of different grades (otherwise it is skipped).
    code : int
        Which computation of the kernel it is.
    written : str
        How it is written, ``{0}`` being the name.
    most : float, optional
        The greatest cut-off, of metrics whose cut-off is no number of positions.
    divisor : "ideal", "relevant", "one", "defined" or "tau"
        What the sum over a query is divided by: its value in the ideal order, the number of
        relevant items, 1, 1 where defined, or Kendall's √(comparable · all pairs).
    greater_is_better : bool
    default : str, optional
        As it is written in lists of default metrics; without it, it is in none.
    uses : tuple of "evaluate", "by_query", "compare", "list", "classes"
        In which of these lists it is: what `evaluate` computes, the columns of a report's table
        of queries, what the command line compares, what is computed for a single list, and what
        for a single list of two classes only.
    by_pairs : bool
        Whether it is a share of pairs, so that it is pooled over queries as well.
    of_listed_pairs : bool
        Whether listed pairs have it.
    function : callable, optional
        ``function(grades, depth)`` of the grades of a query from the top and the cut-off in
        positions, for metrics that the kernel does not compute.
    """

    name: str
    meaning: str
    needs: str
    code: int
    written: str = "{0}"
    most: float | None = None
    divisor: str = "ideal"
    greater_is_better: bool = True
    default: str | None = None
    uses: tuple[str, ...] = ("evaluate",)
    by_pairs: bool = False
    of_listed_pairs: bool = False
    function: Callable[[Floats, int], float] | None = None

    @property
    def reads_positions(self) -> bool:
        """Whether a cut-off counts positions."""
        return self.written in (_WHOLE, _CUT)

    @property
    def reads_relevance(self) -> bool:
        """Whether its value depends on which grades are relevant."""
        return self.function is None and self.code in _OF_RELEVANCE


# Lists of default metrics are in this order.
REGISTRY = {
    each.name: each
    for each in (
        Definition(
            "ndcg", "discounted gain, as a share of the best order's", "relevant", _DCG, _WHOLE,
            default="ndcg@10", uses=("evaluate", "by_query", "compare"),
        ),
        Definition(
            "map", "average precision", "relevant", _AP, _WHOLE,
            default="map", uses=("evaluate", "by_query"),
        ),
        Definition(
            "mrr", "reciprocal rank of the first relevant item", "relevant", _RR, _WHOLE,
            default="mrr", uses=("evaluate", "by_query"),
        ),
        Definition(
            "err", "expected reciprocal rank", "relevant", _ERR, _WHOLE,
            divisor="defined", default="err@10",
        ),
        Definition(
            "precision", "share of relevant items at the top", "relevant", _PRECISION, _CUT,
            divisor="defined", default="precision@5",
        ),
        Definition(
            "auc", "area under the ROC curve", "pair", _AUC,
            default="auc", uses=("evaluate", "list", "classes"), by_pairs=True,
        ),
        Definition(
            "pair_error", "share of pairs in the wrong order", "pair", _WRONG,
            greater_is_better=False, default="pair_error",
            uses=("evaluate", "by_query", "compare", "list"), by_pairs=True, of_listed_pairs=True,
        ),
        Definition(
            "precision_at_percent", "share in order of the pairs furthest apart", "pair", _PERCENT,
            "{0}@10, a percentage of at most 100", 100, default="precision_at_percent@10",
        ),
        Definition("dcg", "discounted gain", "nothing", _DCG, _WHOLE, divisor="one"),
        Definition("kendall_tau", "Kendall's tau-b", "pair", _TAU, divisor="tau"),
        Definition(
            "pairwise_accuracy", "share of pairs in order", "pair", _RIGHT,
            by_pairs=True, of_listed_pairs=True,
        ),
        Definition(
            "partial_auc", "area under the left end of the ROC curve", "pair", _PARTIAL_AUC,
            "{0}@0.1, a fraction of at most 1", 1,
        ),
        Definition(
            "positives_above_first_negative", "relevant items above the first other", "pair", _TOP,
            divisor="defined",
        ),
        Definition(
            "recall", "share of the relevant items found", "relevant", _HITS, _CUT,
            divisor="relevant",
        ),
        Definition("spearman", "Spearman's rank correlation", "pair", _RHO, divisor="defined"),
    )
}  # fmt: skip


def register_metric(
    name: str,
    function: Callable[[Floats, int], float],
    *,
    meaning: str = "",
    needs: str = "relevant",
    greater_is_better: bool = True,
    cut_off: bool = True,
    default: str | None = None,
    uses: tuple[str, ...] = ("evaluate",),
) -> Definition:
    """Add a metric of your own, known by name wherever metrics are named.

    That is `evaluate`, `precede.inference.compare`, ``eval_metric``, reports and the command
    line's functions; with a `default` it is in the lists named in `uses` (see `Definition`).

    Parameters
    ----------
    name : str
        Lower case, as in ``name`` or ``name@10``.
    function : callable
        ``function(grades, depth)`` gives the value of a query from its grades, the top of the
        list first, and the cut-off in positions (their number where there is none). Equal
        scores are put in order first, so that ``ties="average"`` is refused.
    needs : "relevant", "pair" or "nothing"
        What a query must hold; the function is not asked about other queries.
    cut_off : bool
        Whether ``name@10`` and ``name@5%`` may be written.

    Examples
    --------
    >>> top = register_metric("first_grade", lambda grades, depth: grades[0], needs="nothing",
    ...                       cut_off=False, meaning="grade of the first item")
    >>> evaluate([0, 2, 1], [0.1, 0.5, 0.9], metrics="first_grade").mean
    {'first_grade': 1.0}
    >>> del REGISTRY["first_grade"]
    """
    if not isinstance(name, str) or not name.isidentifier() or name != name.lower():
        raise ValueError(f"name={name!r}; give a word in lower case, such as 'my_metric'")
    if name in REGISTRY:
        raise ValueError(f"{name} is a metric already; give it another name")
    if not callable(function):
        raise ValueError(f"function={function!r}; give a function of (grades, depth)")
    codes = {"relevant": _HITS, "pair": _RIGHT, "nothing": _HITS}
    check_choice("needs", needs, codes)
    defined = Definition(
        name, meaning, needs, codes[needs], _WHOLE if cut_off else "{0}",
        divisor="one" if needs == "nothing" else "defined", greater_is_better=greater_is_better,
        default=default, uses=uses, function=function,
    )  # fmt: skip
    REGISTRY[name] = defined
    if default is not None and metric(default).name != name:
        del REGISTRY[name]
        raise ValueError(f"default={default!r} is another metric than {name!r}")
    return defined


def default_metrics(use: str = "evaluate") -> tuple[str, ...]:
    """Return the metrics computed where none is named, as they are written.

    >>> default_metrics("compare")
    ('ndcg@10', 'pair_error')
    """
    known = REGISTRY.values()
    return tuple(each.default for each in known if each.default is not None and use in each.uses)


def list_metrics(classes: int) -> tuple[str, ...]:
    """Return the metrics of a single list with so many different grades.

    >>> list_metrics(2), list_metrics(3)
    (('auc', 'pair_error'), ('pair_error',))
    """
    of_two = () if classes == 2 else default_metrics("classes")
    return tuple(name for name in default_metrics("list") if name not in of_two)


def listed_metrics() -> tuple[str, ...]:
    """Return the names of the metrics that listed pairs have."""
    return tuple(sorted((n for n, each in REGISTRY.items() if each.of_listed_pairs), reverse=True))


_TIES, _MAP_OVER = ("worst", "average", "order"), ("relevant", "reachable")
_NO_RELEVANT = {"skip": math.nan, "zero": 0.0, "one": 1.0}
_LEAST = 5e-324  # the least gap between two different scores
SHORT = 200  # up to so many items counting who stands above is faster than sorting


@dataclass(frozen=True)
class Metric:
    """A metric as a value: it prints and parses as itself.

    The cut-off `k` is a number of positions (``ndcg@10``), a fraction of the negatives
    (``partial_auc@0.1``), a percentage of the pairs (``precision_at_percent@10``) or, if
    `percent`, a percentage of the query's items, rounded up (``precision@1%``). `relevant` is the
    least relevant grade, where it is not that of the `Policy` (``map@10(relevant=4)``).

    >>> str(Metric("precision", 1, percent=True)), metric("NDCG@10") == Metric("ndcg", 10)
    ('precision@1%', True)
    >>> str(Metric("map", 10, relevant=4))
    'map@10(relevant=4)'
    """

    name: str
    k: int | float | None = None
    percent: bool = False
    relevant: float | None = None

    def __post_init__(self) -> None:
        if self.name not in REGISTRY:
            known = sorted(REGISTRY)
            close = " or ".join(difflib.get_close_matches(str(self.name), known, n=3, cutoff=0.5))
            hint = f"did you mean {close}? " if close else ""
            raise ValueError(f"unknown metric {self.name!r}: {hint}known are {', '.join(known)}")
        if self.k is not None and not isinstance(self.k, (int, float, np.number)):
            raise ValueError(
                f"k={self.k!r} of {self.name} is no number: give 10 for {self.name}@10"
            )
        if self.k is not None and math.isfinite(self.k):
            object.__setattr__(self, "k", _shortest(self.k))
        if self.relevant is not None:
            if not self.definition.reads_relevance:
                raise ValueError(
                    f"{self.name} does not ask which grades are relevant: leave it out"
                )
            _check_grade("relevant", self.relevant)
            object.__setattr__(self, "relevant", _shortest(self.relevant))
        if not self._well_formed():
            write = self.definition.written.format(self.name)
            raise ValueError(f"{self} is not well formed: write {write}")

    def _well_formed(self) -> bool:
        if self.k is None:
            return not self.percent and self.definition.written in ("{0}", _WHOLE)
        if self.definition.reads_positions:
            return 0 < self.k <= 100 if self.percent else isinstance(self.k, int) and self.k > 0
        return not self.percent and 0 < self.k <= (self.definition.most or 0)

    def __str__(self) -> str:
        cut = "" if self.k is None else f"@{self.k!r}{'%' * self.percent}"
        return f"{self.name}{cut}" + (
            "" if self.relevant is None else f"(relevant={self.relevant!r})"
        )

    @property
    def definition(self) -> Definition:
        """What `REGISTRY` holds about the metric."""
        return REGISTRY[self.name]

    @property
    def greater_is_better(self) -> bool:
        """Whether a larger value is a better ranking."""
        return self.definition.greater_is_better


def metric(text: str | Metric) -> Metric:
    """Parse a metric from its printed form: ``name``, ``name@k`` or ``name@k%``.

    ``(relevant=4)`` behind it says that grades from 4 are relevant, for metrics that ask. Upper
    and lower case are one; a `Metric` is returned as it is.

    >>> metric("recall@0.5%"), metric("pair_error").greater_is_better
    (Metric(name='recall', k=0.5, percent=True, relevant=None), False)
    >>> metric("map(relevant=4)").relevant
    4
    """
    if isinstance(text, Metric):
        return text
    written, bracket, inside = "".join(str(text).lower().split()).partition("(")
    name, at, cutoff = written.partition("@")
    try:
        number = float(cutoff.removesuffix("%")) if at else None
    except ValueError:
        raise ValueError(f"{text!r} has no number after the @: write it like ndcg@10") from None
    least = None
    if bracket:
        try:
            least = float(inside.removeprefix("relevant=").removesuffix(")"))
        except ValueError:
            least = math.nan
        if not inside.startswith("relevant=") or not inside.endswith(")") or math.isnan(least):
            raise ValueError(f"{text!r} is not well formed: write it like map@10(relevant=4)")
    return Metric(name, number, percent=cutoff.endswith("%"), relevant=least)


def _shortest(number: int | float) -> int | float:
    """10.0 and 10 are one number and must print alike."""
    return int(number) if number == int(number) else float(number)


def _check_grade(name: str, given: Any) -> None:
    if not isinstance(given, (int, float, np.number)) or not math.isfinite(given):
        raise ValueError(f"{name}={given!r} must be a finite number: give a grade")


_parsed = metric  # for functions that have a parameter called metric


@dataclass(frozen=True)
class Policy:
    """The conventions a number depends on, kept beside the number.

    gains : "exp", "linear" or array
        Gain of a grade g in dcg and ndcg: 2^g − 1, g itself, or ``gains[g]`` for whole g ≥ 0.
    ties : "worst", "average" or "order"
        How items with equal scores are ranked: worst grade first; every order equally likely
        (the exact expected value of the metric); or as the rows come.
    no_relevant : "skip", "zero" or "one"
        What a query with nothing relevant is worth to ndcg, map, mrr, err, precision, recall.
    relevant, max_grade : float
        The least relevant grade, of metrics that do not say it themselves. In err, grade g
        satisfies with chance (2^g − 1) / 2^max_grade, by default the largest of y.
    map_over : "relevant" or "reachable"
        Whether map@k divides by the number R of relevant items or by min(R, k).

    >>> print(PRESETS["sklearn"])
    gains=linear ties=average no_relevant=zero relevant=1 max_grade=None map_over=relevant
    """

    gains: Any = "exp"
    ties: str = "worst"
    no_relevant: str = "skip"
    relevant: float = 1.0
    max_grade: float | None = None
    map_over: str = "relevant"

    def __post_init__(self) -> None:
        choices = {"ties": _TIES, "no_relevant": tuple(_NO_RELEVANT), "map_over": _MAP_OVER}
        if isinstance(self.gains, str):
            choices["gains"] = ("exp", "linear")
        else:
            table = check_column(self.gains, "gains")
            falls = np.flatnonzero(np.diff(table) < 0)
            if falls.size:
                raise ValueError(f"gains[{falls[0] + 1}] is below gains[{falls[0]}]: sort them")
            object.__setattr__(self, "gains", tuple(table.tolist()))
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name}={getattr(self, name)!r} is not one of {allowed}")
        for name, given in (("relevant", self.relevant), ("max_grade", self.max_grade or 0)):
            _check_grade(name, given)

    def __str__(self) -> str:
        values = asdict(self).items()
        return " ".join(f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in values)


PRESETS = {
    "lightgbm": Policy(gains="exp", ties="order", no_relevant="one", map_over="reachable"),
    "sklearn": Policy(gains="linear", ties="average", no_relevant="zero"),
    "trec": Policy(gains="linear", ties="order", no_relevant="zero"),
}


@dataclass(frozen=True)
class Interval:
    """An interval of numbers, both ends included, with its nominal level.

    >>> print(Interval(0.25, 0.5, 0.95), 0.3 in Interval(0.25, 0.5, 0.95))
    0.2500 to 0.5000 (95 %) True
    """

    low: float
    high: float
    level: float

    def __contains__(self, number: float) -> bool:
        return self.low <= number <= self.high

    def __iter__(self) -> Iterator[float]:
        return iter((self.low, self.high))

    def __str__(self) -> str:
        return f"{self.low:.4f} to {self.high:.4f} ({100 * self.level:g} %)"


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Metrics of one ranking: their means, their values per query, and the conventions.

    `mean` holds, by the printed form of a metric, the mean over the queries not skipped;
    `per_query` its values, aligned with the ids `queries`, NaN where skipped; `skipped` how
    many those are. `pooled` holds auc, pair_error, pairwise_accuracy and precision_at_percent,
    where asked for, as the share among all pairs within queries, so that a query counts by its
    pairs. `weights` are the queries' weights in the mean; `policy` has its `max_grade` filled in.

    >>> print(evaluate([1, 0, 0, 2, 1, 0], [3, 2, 1, 0, 5, 4], [7, 7, 8, 8, 9, 9], metrics="mrr"))
    metric     mean  95% interval        queries  skipped
    mrr      0.8333  [0.1162, 1.5504]          3        0
    gains=exp ties=worst no_relevant=skip relevant=1 max_grade=2 map_over=relevant
    """

    mean: dict[str, float]
    per_query: dict[str, Floats]
    pooled: dict[str, float]
    queries: NDArray[Any]
    weights: Floats
    skipped: dict[str, int]
    policy: Policy

    @property
    def n_queries(self) -> int:
        """Number of queries, skipped ones included."""
        return int(self.queries.size)

    def interval(self, name: str | Metric, level: float = 0.95) -> Interval:
        """Return Student's interval mean ± t·e for a metric, the query being the unit.

        e is the jackknife's, e² = Var(ψ)/n with ψ_q = (n − 1)·w_q·(v_q − mean)/(Σw − w_q) over
        the n queries with a value and a weight; t has (Σw²)²/Σw⁴ − 1 degrees of freedom, as many
        as e² is worth (Satterthwaite). Equal weights give `inference.mean_metric`.
        """
        key = str(metric(name))
        if key not in self.per_query:
            raise ValueError(f"{key} was not evaluated; evaluated are {', '.join(self.mean)}")
        mean, used = self.mean[key], ~np.isnan(self.per_query[key]) & (self.weights > 0)
        values, weights = self.per_query[key][used], self.weights[used]
        squares = np.square(weights / weights.max())
        effective = squares.sum() ** 2 / np.square(squares).sum()
        if effective < 1.1:
            raise ValueError(f"{key} has {effective:.3g} effective queries: give two or more")
        if np.ptp(values) <= 1e-12 * abs(mean):
            raise ValueError(f"{key} is {mean:g} in every query, its error would be 0: add queries")
        psi = (values.size - 1) * weights * (values - mean) / (weights.sum() - weights)
        error = psi.std(ddof=1) / math.sqrt(values.size)
        reach = float(stdtrit(effective - 1, 1 - upper_tail(level)) * error)
        return Interval(mean - reach, mean + reach, level)

    def _rows(self) -> list[list[str]]:
        """Return the table that `__str__` and `_repr_html_` lay out."""
        rows = [["metric", "mean", "95% interval", "queries", "skipped"]]
        for key, mean in self.mean.items():
            try:
                interval = "[{:.4f}, {:.4f}]".format(*self.interval(key))
            except ValueError:
                interval = "-"
            skipped = self.skipped[key]
            rows.append([key, f"{mean:.4f}", interval, f"{self.n_queries - skipped}", f"{skipped}"])
        return rows

    def __str__(self) -> str:
        rows = self._rows()
        width = max(len(row[0]) for row in rows)
        lines = [f"{a:<{width}} {b:>8}  {c:<18}  {d:>7}  {e:>7}" for a, b, c, d, e in rows]
        return "\n".join([*lines, str(self.policy)])

    def _repr_html_(self) -> str:
        body = "".join(f"<tr><td>{'</td><td>'.join(row)}</td></tr>" for row in self._rows())
        return f"<table><caption>{html.escape(str(self.policy))}</caption>{body}</table>"

    def to_frame(self, *, by_query: bool = False, level: float = 0.95) -> Any:
        """Return a pandas data frame: a row for each metric, or, `by_query`, for each query.

        >>> result = evaluate([1, 0, 0, 2], [3, 2, 1, 0], [7, 7, 8, 8], metrics=["mrr", "auc"])
        >>> list(result.to_frame().columns), result.to_frame(by_query=True).loc[8, "mrr"]
        (['mean', 'low', 'high', 'queries', 'skipped'], np.float64(0.5))
        """
        if by_query:
            return pandas_frame(self.per_query, index=self.queries.tolist()).rename_axis("qid")
        rows = []
        for key, mean in self.mean.items():
            try:
                low, high = self.interval(key, level)
            except ValueError:
                low = high = math.nan
            skipped = self.skipped[key]
            rows.append({"mean": mean, "low": low, "high": high,
                         "queries": self.n_queries - skipped, "skipped": skipped})  # fmt: skip
        return pandas_frame(rows, index=list(self.mean)).rename_axis("metric")

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings and lists, None standing for a skipped query."""
        plain = {name: dict(getattr(self, name)) for name in ("mean", "pooled", "skipped")}
        lists = {key: values.tolist() for key, values in self.per_query.items()}
        plain["per_query"] = {k: [None if math.isnan(v) else v for v in lists[k]] for k in lists}
        plain |= {"queries": self.queries.tolist(), "weights": self.weights.tolist()}
        return plain | {"policy": asdict(self.policy)}


class Evaluator:
    """Grades and queries made ready once, to evaluate many vectors of scores.

    What depends on the grades alone is computed here. A call of `evaluate` then costs O(n log n)
    for n rows and O(n) memory; but ``precision_at_percent`` reads a query some ten times (at
    most 200), and ``err`` with ``ties="average"`` takes O(m·min(m, k)) for m equal scores.

    Parameters
    ----------
    y, qid : arrays of shape (n,)
        Grades (any finite numbers, larger is better) and query ids (of any type, in any order;
        None makes one query of all rows). `y` may be a `Judgments` that holds all this. If it
        lists pairs, pairwise_accuracy and pair_error are computed, over these pairs and those of
        the grades together; a pair must lie within a query, and ties are left out.
    metrics, preset : str, Metric or an iterable of them; {"lightgbm", "sklearn", "trec"}
        What to compute, by default `default_metrics`; the library whose conventions (`PRESETS`)
        to start from.
    sample_weight : array of shape (n,), optional
        Item weights; a query counts in every mean by the mean weight of its items. In auc,
        pair_error, pairwise_accuracy, kendall_tau a pair, too, counts by its weights' product
        (times its own weight if it is listed).
    group : array-like of query sizes, optional
        In place of `qid`, for rows sorted by query (as in LightGBM).
    **options
        Fields of `Policy`: gains, ties, no_relevant, relevant, max_grade, map_over.

    Examples
    --------
    >>> judge = Evaluator([0, 1, 2, 0, 1], ["a", "a", "b", "b", "b"], metrics=["mrr", "auc"])
    >>> judge.value([0.1, 0.2, 0.3, 0.9, 0.1]), judge.evaluate([1, 2, 3, 1, 2]).mean
    (0.75, {'mrr': 1.0, 'auc': 1.0})
    """

    def __init__(
        self,
        y: ArrayLike | Judgments,
        qid: ArrayLike | None = None,
        *,
        metrics: str | Metric | Iterable[str | Metric] = "default",
        preset: str | None = None,
        sample_weight: ArrayLike | None = None,
        group: ArrayLike | None = None,
        **options: Any,
    ) -> None:
        if group is not None:
            qid = qid_of_groups(group, qid, len(cast(Sized, y)))
        self._listed = read_listed(y)
        if isinstance(metrics, str) and metrics == "default":
            metrics = default_metrics() if self._listed is None else listed_metrics()
        grade, qid, sample_weight = read_target(y, qid, sample_weight, listed=True)
        grades = check_column(grade, "y")
        given = np.ones(grades.size) if sample_weight is None else sample_weight
        weights = check_weights(given, "sample_weight", grades.size)
        if not weights.any():
            raise ValueError("sample_weight is 0 in every row: give more than 0 to some row")
        several = (metrics,) if isinstance(metrics, (str, Metric)) else metrics
        if not isinstance(several, Iterable):
            raise ValueError(f"metrics={metrics!r}: name one or more, such as 'ndcg@10'")
        self.metrics = tuple(dict.fromkeys(map(metric, several)))
        if not self.metrics:
            raise ValueError("metrics is empty: name at least one, such as 'ndcg@10'")
        for each in self.metrics:
            if self._listed is not None and not each.definition.of_listed_pairs:
                given = f"{each} reads grades and would ignore the {self._listed.size} listed pairs"
                raise ValueError(f"{given}: use {' or '.join(listed_metrics())}, or pass y.grade")
        self.policy = _resolve(preset, options, float(grades.max()))
        number, self.queries = number_queries(qid, grades.size)
        rows, sizes = np.argsort(number, kind="stable"), np.bincount(number)
        self._starts = np.append(0, np.cumsum(sizes))
        keys = (grades[rows], np.repeat(np.arange(sizes.size), sizes))
        inner = np.lexsort(keys if sample_weight is None else (weights[rows], *keys))
        if self.policy.ties != "order":
            # With rows in order of grade, a stable sort by score alone puts the worst grade
            # first among ties, and the answer cannot depend on the order of the rows.
            rows, inner = rows[inner], np.arange(rows.size)
        self._rows = rows
        self._grades = grades[rows]
        self._items = _make_items(self._grades, self.metrics, self.policy)
        rises = np.cumsum(np.append(0, np.diff(grades[rows][inner]) != 0))
        self._items[_RANK, inner] = rises - np.repeat(rises[self._starts[:-1]], sizes)
        self._items[_WEIGHT] = weights[rows]
        self._pairs = _count_pairs(rises, self._starts)
        self._weights = np.add.reduceat(weights[rows], self._starts[:-1]) / sizes
        self._weights.flags.writeable = self.queries.flags.writeable = False
        self._discounts = 1.0 / np.log2(np.arange(2.0, sizes.max() + 2.0))
        self._plan = self._make_plan()
        self._graded_scale = self._scale = self._make_scale()
        if self._listed is not None:
            self._scale = self._scale + self._listed.sums(None, sizes.size)[:, None]
        self._check_defined()
        self._warn_of_relevance()

    def evaluate(self, scores: ArrayLike) -> Evaluation:
        """Evaluate every metric on these scores, one per row of `y`."""
        table = self._measure(scores, len(self.metrics))
        per_query = {str(each): table[i] for i, each in enumerate(self.metrics)}
        pairs = {str(each): i for i, each in enumerate(self.metrics) if each.definition.by_pairs}
        mean = {key: _mean(values, self._weights) for key, values in per_query.items()}
        pooled = {key: _mean(table[i], self._scale[:, i]) for key, i in pairs.items()}
        pooled |= self._pooled_precision(scores)
        skipped = {key: int(np.isnan(values).sum()) for key, values in per_query.items()}
        found = (mean, per_query, pooled, self.queries, self._weights, skipped, self.policy)
        return Evaluation(*found)

    def _pooled_precision(self, scores: ArrayLike) -> dict[str, float]:
        """Return precision_at_percent over the pairs of all queries of positive weight."""
        cuts = {str(each): each.k for each in self.metrics if each.definition.code == _PERCENT}
        if not cuts:
            return {}
        kept = np.repeat(self._weights > 0, np.diff(self._starts))
        starts = np.append(0, np.cumsum(np.diff(self._starts)[self._weights > 0]))
        column = check_column(scores, "scores", self._rows.size)[self._rows][kept]
        ties = _TIES.index(self.policy.ties)
        ranked = Ranked(column, starts, self._items[:1, kept], ties)
        known = (ranked.scores, ranked.row(_RANK).astype(np.intp), starts)
        pairs = self._pairs[self._weights > 0]
        return {
            key: float(_right_shares(*known, pairs, float(k or 0), ties, pooled=True)[0])
            for key, k in cuts.items()
        }

    def value(self, scores: ArrayLike) -> float:
        """Return the mean of the first metric and compute no other."""
        return _mean(self._measure(scores, 1)[0], self._weights)

    def _measure(self, scores: ArrayLike, count: int) -> Floats:
        """Return the values of the first metrics, one row each."""
        column = check_column(scores, "scores", self._rows.size)
        ties = _TIES.index(self.policy.ties)
        ranked = Ranked(column[self._rows], self._starts, self._items, ties)
        table = self._table(ranked, self._plan[:count], self._graded_scale.T)
        if self._listed is not None:
            self._add_listed(table, column)
        for i, each in enumerate(self.metrics[:count]):
            if each.definition.function is not None:
                table[i] = self._by_function(each, column[self._rows], table[i])
        table.flags.writeable = False
        return table

    def _table(self, ranked: Ranked, plan: Floats, totals: Floats) -> Floats:
        """Return the values of the metrics of a plan, one row each, with these denominators."""
        table = np.repeat(plan[:, _FILL, None], self._starts.size - 1, axis=1)
        for values, row, total in zip(table, plan, totals, strict=False):
            found = ranked.measure(row, total, self._discounts, self._pairs)
            np.divide(found, total, out=values, where=total > 0)
        return table

    def _by_function(self, each: Metric, scores: Floats, values: Floats) -> Floats:
        """Return the values of a metric that has a function; undefined ones stay as they are."""
        function = each.definition.function
        assert function is not None
        if self.policy.ties == "average":
            raise ValueError(f"{each} is no mean over the orders of ties: pass ties='worst'")
        values, column = values.copy(), self.metrics.index(each)
        for query in np.flatnonzero(self._scale[:, column] > 0):
            rows = slice(self._starts[query], self._starts[query + 1])
            grades = self._grades[rows][np.argsort(-scores[rows], kind="stable")]
            depth = grades.size if each.k is None else int(each.k)
            if each.percent and each.k is not None:
                depth = int(_share(each.k, grades.size))
            values[query] = float(function(grades, min(depth, grades.size)))
        return values

    def _add_listed(self, table: Floats, scores: Floats) -> None:
        """Turn the shares among graded pairs into shares among graded and listed pairs."""
        assert self._listed is not None
        wrong = self._listed.wrong(scores, self.policy.ties)
        for i, each in enumerate(self.metrics[: len(table)]):
            missed = wrong if each.definition.code == _WRONG else 1.0 - wrong
            graded = np.nan_to_num(table[i]) * self._graded_scale[:, i]
            total = self._scale[:, i]
            summed = graded + self._listed.sums(missed, total.size)
            table[i] = np.divide(summed, total, out=np.full(total.size, np.nan), where=total > 0)

    def _make_plan(self) -> Floats:
        """Return what the kernel is told of each metric, one row each."""
        known = [each.definition for each in self.metrics]
        cuts = [min(each.k or 100, 2**53) for each in self.metrics]  # all positions: 100 %
        percents = [each.percent or each.k is None for each in self.metrics]
        empty = _NO_RELEVANT[self.policy.no_relevant]
        fills = [empty if each.needs == "relevant" else math.nan for each in known]
        relevance = [self._row_of(each) for each in self.metrics]
        return np.column_stack([[each.code for each in known], cuts, percents, fills, relevance])

    def _make_scale(self) -> Floats:
        """Return the denominators: mostly numerators of the ideal ranking; ≤ 0 if undefined."""
        plan, starts = self._plan.copy(), self._starts
        plan[plan[:, _CODE] == _WRONG, _CODE] = _RIGHT
        ranked = Ranked(self._items[_RANK], starts, self._items, 0)
        scale = self._table(ranked, plan, np.ones((len(plan), starts.size - 1))).T.copy()
        squares = np.add.reduceat(self._items[_WEIGHT], starts[:-1]) ** 2
        all_pairs = (squares - np.add.reduceat(self._items[_WEIGHT] ** 2, starts[:-1])) / 2
        for i, each in enumerate(self.metrics):
            divisor = each.definition.divisor
            if each.definition.code == _AP and self.policy.map_over == "relevant":
                divisor = "relevant"
            if divisor == "defined":
                scale[:, i] = scale[:, i] > 0
            elif divisor == "relevant":
                scale[:, i] = np.add.reduceat(self._items[self._row_of(each)], starts[:-1])
            elif divisor == "tau":
                scale[:, i] = np.sqrt(scale[:, i] * all_pairs)
            elif divisor == "one":
                scale[:, i] = 1.0
        return scale

    def _row_of(self, each: Metric) -> int:
        """Return the row of the items that says which are relevant to a metric."""
        return (
            _RELEVANT
            if each.relevant is None
            else 5 + _thresholds(self.metrics).index(each.relevant)
        )

    def _warn_of_relevance(self) -> None:
        """Warn of metrics that are the same for every order of nearly every query.

        What counts are queries of several grades, whose items a greater `relevant` tells apart.
        """
        names_of: dict[int, list[str]] = {}
        for each in self.metrics:
            if each.definition.reads_relevance and each.definition.code in _OF_POSITIONS:
                names_of.setdefault(self._row_of(each), []).append(str(each))
        first, highest = self._starts[:-1], f"{self._grades.max():g}"
        several = (np.maximum.reduceat(self._items[_RANK], first) > 0) & (self._weights > 0)
        for row, names in names_of.items():
            share = (
                np.mean(np.minimum.reduceat(self._items[row], first)[several])
                if several.any()
                else 0
            )
            if share >= _MOST_ALIKE:
                warn_caller(
                    f"every item is relevant in {100 * share:.0f} % of the queries with different "
                    f"grades, so that {', '.join(names)} cannot tell rankings apart; the grades go "
                    f"from {self._grades.min():g} to {highest}: say from which one on an item is "
                    f"relevant, as in '{names[0].partition('(')[0]}(relevant={highest})' or "
                    f"relevant={highest}",
                    once=True,
                )

    def _check_defined(self) -> None:
        """Raise if a metric would have no query to average, which depends on y alone."""
        for i, each in enumerate(self.metrics):
            usable = (self._scale[:, i] > 0) | ~np.isnan(self._plan[i, _FILL])
            if not np.any(usable & (self._weights > 0)):
                what = "pair" if each.definition.needs == "pair" else "relevant item"
                why = f"{each} is undefined: no query of positive weight holds a {what}"
                raise ValueError(f"{why}; check qid and relevant=, or pass no_relevant='zero'")


def evaluate(y: Any, scores: ArrayLike, qid: Any = None, **options: Any) -> Evaluation:
    """Evaluate a ranking: each metric per query first, then the mean over queries.

    A larger score stands higher; `y`, `qid` and the options are those of `Evaluator`.
    >>> evaluate([0, 1, 0], [5, 5, 5], metrics=["auc", "recall@1"], ties="average").mean
    {'auc': 0.5, 'recall@1': 0.3333333333333333}
    """
    return Evaluator(y, qid, **options).evaluate(scores)


def defined_metrics(y: Any, qid: Any, weight: Any = None) -> list[str]:
    """Return the default metrics, without those that these grades leave undefined.

    >>> "ndcg@10" in defined_metrics([1, 0, 2], [7, 7, 7])
    True
    """
    defined = []
    for name in default_metrics():
        try:
            with warnings.catch_warnings(action="ignore"):  # the evaluation itself will warn
                Evaluator(y, qid, metrics=name, sample_weight=weight)
        except ValueError:
            continue
        defined.append(name)
    return defined


def precision_at_percent(
    y: Any,
    scores: ArrayLike,
    qid: Any = None,
    *,
    percent: float,
    pooled: bool = False,
    ties: str = "worst",
) -> float:
    """Share in the right order among the `percent` % of pairs whose scores differ most.

    Pairs join rows of one query and different grades. With ``pooled=True`` the pairs of all
    queries form one list, sorted by |h(x) − h(y)|, as in table 1 of Zheng et al. (2007): long
    queries and queries with large gaps dominate its top. With ``pooled=False`` each query has
    its own list, and the result is the mean over queries. Both are in the `Evaluation` of
    ``evaluate(..., metrics="precision_at_percent@10")``, as `pooled` and `mean`. O(n log n) time
    and some ten passes over the rows; no pair is listed.

    >>> y, scores, qid = [1, 0, 1, 0, 0], [9, 1, 2, 3, 4], ["a", "a", "b", "b", "b"]
    >>> precision_at_percent(y, scores, qid, percent=50, pooled=True)  # gaps 8 (right), 2 (wrong)
    0.5
    >>> precision_at_percent(y, scores, qid, percent=50)  # 1 in query a, 0 in query b
    0.5
    >>> precision_at_percent(y, scores, qid, percent=10, pooled=True)
    1.0
    """
    name = str(Metric("precision_at_percent", percent))
    result = evaluate(y, scores, qid, metrics=name, ties=ties)
    return (result.pooled if pooled else result.mean)[name]


class Scoring(Protocol):
    """A fitted estimator of any library that scores rows."""

    def predict(self, X: Any) -> Any:
        """Score every row."""


class Scorer:
    """A metric as scikit-learn's tools call it; `make_scorer` makes one."""

    def __init__(self, metric: Any, options: dict[str, Any]) -> None:
        from sklearn.utils.metadata_routing import MetadataRequest  # noqa: PLC0415  (slow)

        self._metric, self._options = metric, options
        self._request = MetadataRequest(owner=self)
        self.set_score_request(qid=True)

    def __call__(
        self,
        estimator: Scoring,
        X: Any,
        y: Any,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return the metric of the estimator's scores of X, negated if less is better."""
        scores = estimator.predict(X)
        judgments, _ = judgments_to_fit(len(scores), y, qid=qid, sample_weight=sample_weight)
        warn_of_lost_queries(estimator, judgments)
        if isinstance(self._metric, Metric):
            value = Evaluator(judgments, metrics=self._metric, **self._options).value(scores)
            greater = self._metric.greater_is_better
        else:
            _, value, greater = self._metric(judgments.grade, scores, judgments.qid)
        return float(value) if greater else -float(value)

    def set_score_request(self, **requests: bool | str | None) -> Scorer:
        """Say which of `qid` and `sample_weight` to ask for under metadata routing.

        As scikit-learn has it: True asks for it, False does not, None refuses it, and a text is
        the name under which it is passed.
        """
        for name, request in requests.items():
            if name not in ("qid", "sample_weight"):
                raise TypeError(f"a scorer takes qid and sample_weight, not {name}")
            self._request.score.add_request(param=name, alias=request)
        return self

    def get_metadata_routing(self) -> Any:
        """Return what is asked for, as a `MetadataRequest` of scikit-learn."""
        return self._request

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self._options.items())
        given = repr(str(self._metric)) if isinstance(self._metric, Metric) else repr(self._metric)
        return f"make_scorer({given}{options})"


def make_scorer(metric: str | Metric | Callable[..., Any], **options: Any) -> Scorer:
    """Return a metric as a scorer for `GridSearchCV`, `cross_validate` and the like.

    Scorers are better the greater they are: metrics of which less is better, such as
    ``pair_error``, are negated. Queries reach a scorer in one of two ways: inside a `Judgments`
    as `y`, or as `qid` under scikit-learn's metadata routing, which the scorer asks for unless
    ``set_score_request(qid=False)`` says otherwise. A model that was fitted with queries and is
    scored without gives a warning. As costly as `Evaluator`, which is made for every call.

    Parameters
    ----------
    metric : str, Metric or callable
        As in ``eval_metric``: a function takes (y, scores, qid) and returns
        (name, value, greater_is_better).
    **options
        `preset` and the fields of `Policy`, for named metrics.

    Examples
    --------
    >>> from sklearn.model_selection import GroupKFold, cross_val_score
    >>> from precede import Judgments, RankBoost
    >>> from precede.datasets import search_results
    >>> sample = search_results(30, features=4, informative=2, per_query=20, random_state=0)
    >>> y = Judgments(sample.y, sample.qid)  # sliced by the folds, queries and all
    >>> ranker = RankBoost(n_estimators=5, learning_rate=1.0)
    >>> found = cross_val_score(ranker, sample.X, y, groups=sample.qid,
    ...                         cv=GroupKFold(3), scoring=make_scorer("ndcg@10"))
    >>> found.round(2)
    array([0.53, 0.42, 0.36])
    """
    if isinstance(metric, str | Metric):
        named = dict(options)
        _resolve(named.pop("preset", None), named, float(options.get("max_grade") or 0.0))
        return Scorer(_parsed(metric), options)
    if not callable(metric):
        raise ValueError(f"metric={metric!r}: give a name such as 'ndcg@10', or a function")
    if options:
        raise ValueError(f"{', '.join(options)} given beside a function; options are for names")
    return Scorer(metric, {})


def _resolve(preset: str | None, options: dict[str, Any], largest: float) -> Policy:
    """Return the policy asked for, with the maximum grade filled in."""
    if preset is not None and preset not in PRESETS:
        raise ValueError(f"unknown preset {preset!r}: known are {', '.join(PRESETS)}")
    known = [each.name for each in fields(Policy)]
    for name in options.keys() - known:
        every = ", ".join(["metrics", "preset", "sample_weight", *known])
        raise ValueError(f"unknown option {name}={options[name]!r}: known are {every}")
    policy = replace(PRESETS[preset] if preset else Policy(), **options)
    if policy.max_grade is not None and policy.max_grade < largest:
        raise ValueError(f"max_grade={policy.max_grade:g} is below a grade of y, {largest:g}")
    return replace(policy, max_grade=largest if policy.max_grade is None else policy.max_grade)


@dataclass(frozen=True)
class ListedPairs:
    """The listed pairs of a `Judgments`: rows, weights with those of the items, queries.

    Sorted by query and weight, so that sums do not depend on the order of the list.
    """

    winner: Integers
    loser: Integers
    weight: Floats
    query: Integers

    @property
    def size(self) -> int:
        """How many pairs there are."""
        return int(self.winner.size)

    def wrong(self, scores: Floats, ties: str) -> Floats:
        """Return 1 for pairs out of order, 0 for those in order; equal scores by the policy."""
        above, below = scores[self.winner], scores[self.loser]
        equal: Any = self.winner > self.loser  # under "order" the earlier row ranks above
        if ties != "order":
            equal = 1.0 if ties == "worst" else 0.5
        return np.where(above == below, equal, above < below).astype(np.float64)

    def sums(self, values: Floats | None, queries: int) -> Floats:
        """Sum weight·values over the pairs of every query; no values are ones."""
        each = self.weight if values is None else self.weight * values
        return np.bincount(self.query, each, minlength=queries).astype(np.float64, copy=False)


def read_listed(y: Any) -> ListedPairs | None:
    """Return the listed pairs of a `Judgments`, without its ties; None if it lists none."""
    if not isinstance(y, Judgments) or y.pairs is None or not len(y.pairs):
        return None
    check_within_queries(y, y.pairs, "pairs")
    winner, loser = y.pairs.T
    weight = np.ones(winner.size) if y.pair_weight is None else y.pair_weight
    if y.weight is not None:
        weight = weight * y.weight[winner] * y.weight[loser]
    query = y._query()[loser]
    order = np.lexsort((weight, query))
    return ListedPairs(winner[order], loser[order], weight[order], query[order])


def _make_items(grades: Floats, metrics: tuple[Metric, ...], policy: Policy) -> Floats:
    """Return the table of items with the gain, chance and relevance of their grades."""
    thresholds = _thresholds(metrics)
    items = np.zeros((5 + len(thresholds), grades.size))
    for row, least in enumerate(thresholds, start=5):
        items[row] = grades >= least
    if any(each.definition.code == _DCG for each in metrics):
        items[_GAIN] = _gains(grades, policy.gains)
    top = max(policy.max_grade or 0.0, 0.0)  # grades of 0 or less satisfy nobody
    items[_CHANCE] = np.exp2(np.maximum(grades, 0.0) - top) - np.exp2(-top)
    items[_RELEVANT] = grades >= policy.relevant
    return items


def _count_pairs(rises: Integers, starts: Integers) -> Integers:
    """Return the number of pairs of different grades in every query.

    `rises` are numbers that grow with the grade, rows standing by query and grade.
    """
    fresh = np.append(True, np.diff(rises) != 0)
    fresh[starts[:-1]] = True
    first = np.flatnonzero(fresh)
    sizes = np.diff(np.append(first, rises.size))
    alike = np.add.reduceat(sizes * sizes, np.searchsorted(first, starts[:-1]))
    return (np.diff(starts) ** 2 - alike) // 2


def _thresholds(metrics: tuple[Metric, ...]) -> list[float]:
    """Return the least relevant grades that metrics bring themselves, each once."""
    return sorted({each.relevant for each in metrics if each.relevant is not None})


def _gains(grades: Floats, gains: Any) -> Floats:
    if gains == "exp" and grades.max() > 1000:
        raise ValueError(f"2^g − 1 overflows for grade {grades.max():g}: pass gains='linear'")
    if isinstance(gains, str):
        return np.exp2(grades) - 1.0 if gains == "exp" else grades
    wrong = (grades < 0) | (grades >= len(gains)) | (grades != np.floor(grades))
    if wrong.any():
        raise ValueError(f"grade {grades[wrong][0]:g} has no entry in the {len(gains)} gains")
    return np.asarray(gains)[grades.astype(np.intp)]


def _mean(values: Floats, weights: Floats) -> float:
    """Return the mean of the values that are not NaN; sums are exact, so no order matters."""
    weights, values = weights[~np.isnan(values)], values[~np.isnan(values)]
    return math.fsum((values * weights).tolist()) / math.fsum(weights.tolist())


class Ranked:
    """The items of all queries, each query from its highest score down.

    `blocks` holds the start of every block, then the number of items, and `block_start` the
    first block of every query, then the number of blocks:
        scores 9 7 7 7 4:  blocks 0 1 4 5 under ties="average", 0 1 2 3 4 5 otherwise.
    Rows of the table of items and what several metrics read are computed when asked for.
    """

    def __init__(self, scores: Floats, starts: Integers, items: Floats, ties: int) -> None:
        order = _descending(scores, starts)
        self.starts, self.sizes, self.ties = starts, np.diff(starts), ties
        self.scores = scores[order]
        self.blocks, self.block_start = np.arange(scores.size + 1), starts
        if ties == 1:
            fresh = np.append(True, self.scores[1:] != self.scores[:-1])
            fresh[starts[:-1]] = True
            self.blocks = np.append(np.flatnonzero(fresh), scores.size)
            self.block_start = np.searchsorted(self.blocks, starts)
        self._order, self._items = order, items
        self._rows: dict[int, Floats] = {}
        self._pairs: dict[int, tuple[Floats, Floats]] = {}

    def row(self, row: int) -> Floats:
        """Return a row of the table of items, in this order."""
        if row not in self._rows:
            self._rows[row] = self._items[row][self._order]
        return self._rows[row]

    def measure(self, plan: Floats, total: Floats, discounts: Floats, pairs: Integers) -> Floats:
        """Return the numerators of a metric, a row of the plan; totals are its denominators."""
        code, k, row = int(plan[_CODE]), float(plan[_K]), int(plan[_ROW])
        values = np.zeros(self.sizes.size)
        where = (self.blocks, self.block_start, self.starts)
        if code < _AUC:
            depth = (
                np.full(self.sizes.size, int(k)) if not plan[_IS_PERCENT] else _share(k, self.sizes)
            )
            self._read_list(code, row, np.minimum(depth, self.sizes), discounts, values)
            return values / depth if code == _PRECISION else values
        if code in (_PARTIAL_AUC, _TOP):
            relevant = self.row(row)
            negatives = np.ones(self.sizes.size)
            if code == _PARTIAL_AUC:
                negatives = k * (self.sizes - np.add.reduceat(relevant, self.starts[:-1]))
            _positives_above(relevant, *where, negatives, values)
            return values
        if code == _PERCENT:
            ranks = self.row(_RANK).astype(np.intp)
            return _right_shares(self.scores, ranks, self.starts, pairs, k, self.ties)
        if code == _RHO:
            _rank_correlations(self.scores, self.row(_RANK).astype(np.intp), self.starts, values)
            return values
        right, wrong = self.split_pairs(row if code == _AUC else _RANK)
        if code == _TAU:
            return right - wrong
        tied = np.maximum(0.0, total - right - wrong) if self.ties == 1 else 0.0
        return (wrong if code == _WRONG else right) + 0.5 * tied

    def _read_list(
        self, code: int, row: int, depth: Integers, discounts: Floats, values: Floats
    ) -> None:
        """Write the numerators of a metric that reads the first `depth` positions."""
        where = (self.blocks, self.block_start, self.starts, depth)
        if code == _DCG:
            _discounted(self.row(_GAIN), *where, discounts, values)
        elif code == _ERR:
            _cascade(self.row(_CHANCE), *where, values)
        elif code == _AP:
            _precisions(self.row(row), *where, values)
        elif code == _RR:
            _first_hit(self.row(row), *where, values)
        else:
            _discounted(self.row(row), *where, np.ones(discounts.size), values)

    def split_pairs(self, row: int) -> tuple[Floats, Floats]:
        """Return the weights of the pairs in the right and in the wrong order, by query."""
        if row not in self._pairs:
            right, wrong = np.empty(self.sizes.size), np.empty(self.sizes.size)
            _split_pairs(
                self.scores, self.row(row).astype(np.intp), self.row(_WEIGHT), self.starts,
                _LEAST if self.ties == 1 else 0.0, right, wrong,
            )  # fmt: skip
            self._pairs[row] = right, wrong
        return self._pairs[row]


def weigh_pairs(
    scores: Floats, starts: Integers, ranks: Integers, weights: Floats
) -> tuple[Floats, Floats]:
    """Return the weights of the pairs in order and out of order in every query; ties are neither.

    Ranks of a query are 0, 1, 2, ...; a pair weighs the product of the weights. O(n log n).

    >>> every = weigh_pairs(np.array([3.0, 1.0, 2.0]), np.array([0, 3]), np.arange(3), np.ones(3))
    >>> [each.tolist() for each in every]
    [[1.0], [2.0]]
    """
    items = np.zeros((5, scores.size))
    items[_RANK], items[_WEIGHT] = ranks, weights
    return Ranked(scores, starts, items, 1).split_pairs(_RANK)


def _share(percent: float, count: Any) -> Any:
    """Return percent of counts, rounded up and at least 1."""
    # The factor keeps 16.1 % of 1000, which is 161.00000000000003, from becoming 162.
    return np.maximum(1, np.ceil(percent * count / 100.0 * (1.0 - 1e-12)).astype(np.int64))


def _descending(scores: Floats, starts: Integers) -> Integers:
    """Return the stable order of falling scores within queries."""
    order = np.empty(scores.size, np.intp)
    _order_short(scores, starts, order)
    for query in np.flatnonzero(np.diff(starts) > SHORT):
        first, last = starts[query], starts[query + 1]
        order[first:last] = first + np.argsort(-scores[first:last], kind="stable")
    return order


def _right_shares(
    scores: Floats, ranks: Integers, starts: Integers, pairs: Integers, percent: float, ties: int,
    pooled: bool = False,
) -> Floats:  # fmt: skip
    """Return the share in the right order among the widest percent of the pairs.

    Of every query, which holds so many `pairs` of different ranks, or of all of them together.
    """
    groups = np.array([0, starts.size - 1]) if pooled else np.arange(starts.size)
    high, low = scores[starts[:-1]], scores[starts[1:] - 1]
    halve = np.logical_or.reduceat(0.5 * high - 0.5 * low > 8e307, groups[:-1])
    if halve.any():  # or the widest gap would be infinite
        factor = np.repeat(np.where(halve, 0.5, 1.0), np.diff(groups))
        scores = scores * np.repeat(factor, np.diff(starts))
        high, low = high * factor, low * factor
    pairs = np.add.reduceat(pairs, groups[:-1])
    wanted, ends = _share(percent, pairs), np.zeros(3)
    shares = np.maximum.reduceat(high - low, groups[:-1])
    _share_of_groups(
        scores, ranks, starts, groups, pairs, wanted, ties, ends, ends.view(np.int64), shares
    )
    return shares


# Kernels. They divide as NumPy does: positions and numbers of items are above 0.


@njit(cache=True, nogil=True)
def _order_short(scores: Floats, starts: Integers, order: Integers) -> None:
    """Write the stable order of falling scores of queries of up to 200 items.

    Counting who stands above is quick there: several at a time, if unsigned.
    """
    for query in range(starts.size - 1):
        first, size = starts[query], np.uint64(starts[query + 1] - starts[query])
        if size > np.uint64(200):
            continue
        here = scores[first : starts[query + 1]]
        for i in range(size):
            rank = np.intp(0)
            for j in range(i):
                rank += np.intp(here[j] >= here[i])
            for j in range(i + np.uint64(1), size):
                rank += np.intp(here[j] > here[i])
            order[first + rank] = first + np.intp(i)


@njit(cache=True, nogil=True)
def _sum_of(values: Floats, first: Integer, last: Integer) -> float:
    """Sum the values of a block of tied items."""
    total = 0.0
    for i in range(first, last):
        total += values[i]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _discounted(
    gains: Floats, blocks: Integers, block_start: Integers, starts: Integers, depth: Integers,
    discounts: Floats, values: Floats,
) -> None:  # fmt: skip
    """Write Σ gain·discount of every query; a tied item gains the mean of its block."""
    for query in range(starts.size - 1):
        begin, end = starts[query], starts[query] + depth[query]
        total = 0.0
        for block in range(block_start[query], block_start[query + 1]):
            first, last = blocks[block], blocks[block + 1]
            if first >= end:
                break
            gain = _sum_of(gains, first, last) / (last - first)
            for i in range(first, min(last, end)):
                total += gain * discounts[i - begin]
        values[query] = total


@njit(cache=True, nogil=True, error_model="numpy")
def _precisions(
    relevant: Floats, blocks: Integers, block_start: Integers, starts: Integers, depth: Integers,
    values: Floats,
) -> None:  # fmt: skip
    """Write Σ over relevant positions of (relevant items so far) / position, of every query.

    In a block of m, r of them relevant, offset j is relevant with chance r/m, and if it is, the
    j items of the block before it hold j·(r−1)/(m−1) more on average.
    """
    for query in range(starts.size - 1):
        begin, end = starts[query], starts[query] + depth[query]
        total, above = 0.0, 0.0
        for block in range(block_start[query], block_start[query + 1]):
            first, last = blocks[block], blocks[block + 1]
            if first >= end:
                break
            inside = _sum_of(relevant, first, last)
            if inside == 0:
                continue
            more = (inside - 1.0) / max(last - first - 1, 1)
            for i in range(first, min(last, end)):
                chance = inside / (last - first)
                total += chance * (above + 1.0 + (i - first) * more) / (i - begin + 1)
            above += inside
        values[query] = total


@njit(cache=True, nogil=True, error_model="numpy")
def _first_hit(
    relevant: Floats, blocks: Integers, block_start: Integers, starts: Integers, depth: Integers,
    values: Floats,
) -> None:  # fmt: skip
    """Write the (expected) reciprocal rank of the first relevant item, 0 beyond depth."""
    for query in range(starts.size - 1):
        begin, end = starts[query], starts[query] + depth[query]
        total, missed = 0.0, 1.0  # missed: the chance that no hit came yet
        for block in range(block_start[query], block_start[query + 1]):
            first, last = blocks[block], blocks[block + 1]
            if first >= end or missed == 0.0:
                break
            inside = _sum_of(relevant, first, last)
            for i in range(first, min(last, end)):
                hit = min(1.0, inside / (last - i))
                total += missed * hit / (i - begin + 1)
                missed *= 1.0 - hit
        values[query] = total


@njit(cache=True, nogil=True, error_model="numpy")
def _cascade(
    chances: Floats, blocks: Integers, block_start: Integers, starts: Integers, depth: Integers,
    values: Floats,
) -> None:  # fmt: skip
    """Write Σ 1/position · chance that the reader, unsatisfied so far, stops there.

    The chance P_j of passing j random items of a block is the mean over j-subsets of Π(1 − chance):
    item by item, P_j ← (n−j)/n · P_j + j/n · (1 − chance_n) · P_{j−1}, convex and hence stable.
    """
    for query in range(starts.size - 1):
        begin, end = starts[query], starts[query] + depth[query]
        total, alive = 0.0, 1.0
        for block in range(block_start[query], block_start[query + 1]):
            first, last = blocks[block], blocks[block + 1]
            if first >= end:
                break
            if last - first == 1:
                total += alive * chances[first] / (first - begin + 1)
                alive *= 1.0 - chances[first]
                continue
            reach = min(last, end) - first
            passing = np.zeros(reach + 1)
            passing[0] = 1.0
            for n in range(1, last - first + 1):
                stay = 1.0 - chances[first + n - 1]
                for j in range(min(n, reach), 0, -1):
                    passing[j] = ((n - j) * passing[j] + j * stay * passing[j - 1]) / n
            for j in range(1, reach + 1):
                total += alive * (passing[j - 1] - passing[j]) / (first - begin + j)
            alive *= passing[reach]
        values[query] = total


@njit(cache=True, nogil=True, error_model="numpy")
def _positives_above(
    relevant: Floats, blocks: Integers, block_start: Integers, starts: Integers, negatives: Floats,
    values: Floats,
) -> None:  # fmt: skip
    """Write Σ of positives above each of the first (so many) negatives, the last in part."""
    for query in range(starts.size - 1):
        total, above, left = 0.0, 0.0, negatives[query]
        for block in range(block_start[query], block_start[query + 1]):
            first, last = blocks[block], blocks[block + 1]
            positive = _sum_of(relevant, first, last)
            negative = int(last - first - positive)
            for i in range(1, negative + 1):
                # Of p positives tied with q negatives, p·i/(q+1) stand above the i-th on average.
                total += min(max(left, 0.0), 1.0) * (above + positive * i / (negative + 1))
                left -= 1.0
            above += positive
        values[query] = total


@njit(cache=True, nogil=True)
def _rank_correlations(scores: Floats, ranks: Integers, starts: Integers, values: Floats) -> None:
    """Write the correlation of mean ranks of scores and of grades; 0 without a spread."""
    for query in range(starts.size - 1):
        begin, end = starts[query], starts[query + 1]
        size, middle = end - begin, 0.5 * (end - begin - 1)
        below = np.zeros(size + 1)  # ranks of a query: 0, 1, 2, ...
        for i in range(begin, end):
            below[ranks[i] + 1] += 1.0
        for rank in range(1, size + 1):
            below[rank] += below[rank - 1]
        product, of_scores, of_grades = 0.0, 0.0, 0.0
        first = begin
        while first < end:
            last = first + 1
            while last < end and scores[last] == scores[first]:
                last += 1
            up = middle - 0.5 * (first + last - 1 - 2 * begin)
            for i in range(first, last):
                grade = 0.5 * (below[ranks[i]] + below[ranks[i] + 1] - 1.0) - middle
                product += up * grade
                of_scores += up * up
                of_grades += grade * grade
            first = last
        spread = of_scores * of_grades
        values[query] = product / np.sqrt(spread) if spread > 0 else 0.0


@njit(cache=True, nogil=True)
def _split_pairs(
    scores: Floats, ranks: Integers, weights: Floats, starts: Integers, gap: float, rights: Floats,
    wrongs: Floats,
) -> None:  # fmt: skip
    """Write Σ w_i·w_k over pairs, i above k by at least gap: rank_i > rank_k, then the reverse."""
    longest = 0
    for query in range(starts.size - 1):
        longest = max(longest, starts[query + 1] - starts[query])
    tree, mass = np.empty(longest + 1), np.empty(longest)  # ranks of a query: 0, 1, 2, ...
    for query in range(starts.size - 1):
        rights[query], wrongs[query] = _split_query(
            scores, ranks, weights, starts[query], starts[query + 1], gap, tree, mass
        )


@njit(cache=True, nogil=True)
def _split_query(
    scores: Floats, ranks: Integers, weights: Floats, begin: Integer, end: Integer, gap: float,
    tree: Floats, mass: Floats,
) -> tuple[float, float]:  # fmt: skip
    """Sums of `_split_pairs` of one query.

    Items far enough above k only grow in number; a Fenwick tree holds their weights by rank.
    """
    highest = 0
    for k in range(begin, end):
        highest = max(highest, ranks[k])
    for rank in range(highest + 1):
        tree[rank + 1] = 0.0
        mass[rank] = 0.0
    above, right, wrong = 0.0, 0.0, 0.0
    i = begin
    for k in range(begin, end):
        while i < k and scores[i] - scores[k] >= gap:
            above += weights[i]
            mass[ranks[i]] += weights[i]
            node = ranks[i] + 1
            while node <= highest + 1:
                tree[node] += weights[i]
                node += node & -node
            i += 1
        lower, node = 0.0, ranks[k]
        while node > 0:
            lower += tree[node]
            node -= node & -node
        wrong += weights[k] * lower
        right += weights[k] * (above - lower - mass[ranks[k]])
    return right, wrong


@njit(cache=True, nogil=True)
def _count_apart(
    scores: Floats, ranks: Integers, starts: Integers, group: Integers, gap: float,
    above_by_rank: Integers,
) -> int:  # fmt: skip
    """Count the pairs of different rank whose scores differ by at least gap, in O(n)."""
    total = 0
    for query in range(group[0], group[1]):
        for k in range(starts[query], starts[query + 1]):
            above_by_rank[ranks[k]] = 0
        above = starts[query]
        for k in range(starts[query], starts[query + 1]):
            while above < k and scores[above] - scores[k] >= gap:
                above_by_rank[ranks[above]] += 1
                above += 1
            total += above - starts[query] - above_by_rank[ranks[k]]
    return total


@njit(cache=True, nogil=True)
def _count_right(
    scores: Floats, ranks: Integers, starts: Integers, group: Integers, gap: float, tree: Floats,
    ones: Floats, mass: Floats,
) -> float:  # fmt: skip
    """Count the pairs in the right order whose scores differ by at least gap."""
    right = 0.0
    for query in range(group[0], group[1]):
        right += _split_query(
            scores, ranks, ones, starts[query], starts[query + 1], gap, tree, mass
        )[0]
    return right


@njit(cache=True, nogil=True, error_model="numpy")
def _share_of_groups(
    scores: Floats, ranks: Integers, starts: Integers, groups: Integers, all_pairs: Integers,
    all_wanted: Integers, ties: int, ends: Floats, bits: Integers, shares: Floats,
) -> None:  # fmt: skip
    """Write the share in the right order of the wanted widest of all pairs of each group.

    The widest gaps come in `shares`. Bracket the gap that cuts off the wanted pairs: low < high,
    count(low) ≥ wanted > count(high), with equality or no number between. It is exact: rounding
    is monotone, and non-negative floats are ordered like their `bits`.
    """
    counts, ones = np.empty(ranks.size, np.intp), np.ones(ranks.size)
    tree, mass = np.empty(ranks.size + 1), np.empty(ranks.size)
    for g in range(groups.size - 1):
        group = groups[g : g + 2]
        most, wanted, least, turn = all_pairs[g], all_wanted[g], 0, 0
        ends[0], ends[1] = 0.0, shares[g]  # low, high, middle
        bits[1] += 1
        while most > wanted and bits[1] - bits[0] > 1:
            if turn % 3 == 0:  # where a straight line through both counts meets the wanted one
                ends[2] = ends[0] + (ends[1] - ends[0]) * ((most - wanted + 0.5) / (most - least))
            elif turn % 3 == 1:
                ends[2] = ends[0] + (ends[1] - ends[0]) * 0.5
            else:  # half of the numbers between: at most 64 such turns
                bits[2] = bits[0] + ((bits[1] - bits[0]) >> 1)
            bits[2] = min(max(bits[2], bits[0] + 1), bits[1] - 1)
            count = _count_apart(scores, ranks, starts, group, ends[2], counts)
            if count >= wanted:
                ends[0], most = ends[2], count
            else:
                ends[1], least = ends[2], count
            turn += 1
        right = _count_right(scores, ranks, starts, group, ends[0], tree, ones, mass)
        if ties == 1 and ends[0] == 0:
            apart = _count_apart(scores, ranks, starts, group, 5e-324, counts)
            right += 0.5 * (all_pairs[g] - apart)
        if most > wanted:
            # Pairs at the cut have one gap: an even share is taken, or the wrong ones first.
            sure = _count_right(scores, ranks, starts, group, ends[1], tree, ones, mass)
            if ties == 0:
                right = sure + max(0.0, wanted - least - (most - least - (right - sure)))
            else:
                right = sure + (wanted - least) * (right - sure) / (most - least)
        shares[g] = right / wanted
