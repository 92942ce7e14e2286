"""Definitions, names and conventions of metrics: `Definition`, `Metric` and `Policy`."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from precede.engine.arrays import Floats, VectorLike
from precede.engine.parameters import check_choice
from precede.judgments import check_column
from precede.metrics import ranked

# Notations of a metric, {0} being its name: with an optional and with a required cut-off.
_WHOLE, _CUT = "{0}, {0}@10 or {0}@5%", "{0}@10 or {0}@5%"


@dataclass(frozen=True)
class Definition:
    """Definition of a metric; `REGISTRY` holds one for each name.

    Parameters
    ----------
    name : str
    meaning : str
        What it is, in a few words.
    needs : "relevant", "pair" or "nothing"
        What a query must hold for the metric to be defined: a relevant item (otherwise
        ``Policy.no_relevant`` decides), a pair of different grades (otherwise it is skipped).
    numerator : callable
        The function of `precede.metrics.ranked` that computes its sum for each query.
    label : str, optional
        Its name in reports, ``{k}`` being the cut-off.
    written : str
        The notations that are allowed, ``{0}`` being the name.
    most : float, optional
        The greatest cut-off, of metrics whose cut-off is not a number of positions.
    divisor : "ideal", "relevant", "map_over", "one", "defined" or "tau"
        The divisor of the sum over a query: its value in the ideal order, the number of relevant
        items, one of these two according to ``Policy.map_over``, 1, 1 where defined, or
        Kendall's √(comparable · all pairs).
    ideal : callable, optional
        The numerator in the ideal order, if it is not `numerator`.
    greater_is_better : bool
    default : str, optional
        Its notation in lists of default metrics; None if it is in none of them.
    uses : tuple of "evaluate", "by_query", "compare", "list", "classes"
        The lists of default metrics that it is in: those of `evaluate`, of the columns of a
        report's table of queries, of comparisons by the command line, of a single list, and of
        a single list of two classes only.
    by_pairs : bool
        Whether it is a share of pairs, so that it is pooled over queries as well.
    of_listed_pairs : bool
        Whether it is defined for listed pairs.
    reads_relevance : bool
        Whether its value depends on which grades are relevant.
    needs_all_scores : bool
        Whether it is undefined if items have no score because they were not returned.
    function : callable, optional
        ``function(grades, depth)`` of the grades of a query from the top and the cut-off in
        positions, for metrics of the user.
    bounds : tuple of two numbers
        The least and the greatest value it can have; intervals are cut off there.
    """

    name: str
    meaning: str
    needs: str
    numerator: ranked.Numerator
    written: str = "{0}"
    most: float | None = None
    label: str = ""
    divisor: str = "ideal"
    ideal: ranked.Numerator | None = None
    greater_is_better: bool = True
    default: str | None = None
    uses: tuple[str, ...] = ("evaluate",)
    by_pairs: bool = False
    of_listed_pairs: bool = False
    reads_relevance: bool = False
    needs_all_scores: bool = False
    function: Callable[[Floats, int], float] | None = None
    bounds: tuple[float, float] = (0.0, 1.0)

    @property
    def reads_positions(self) -> bool:
        """Whether a cut-off counts positions."""
        return self.written in (_WHOLE, _CUT)


# Lists of default metrics are in this order.
REGISTRY = {
    each.name: each
    for each in (
        Definition(
            "ndcg", "discounted gain, as a share of the best order's", "relevant",
            ranked.discounted_gain, _WHOLE,
            default="ndcg@10", uses=("evaluate", "by_query", "compare"),
        ),
        Definition(
            "map", "average precision", "relevant", ranked.average_precision, _WHOLE,
            divisor="map_over", reads_relevance=True,
            default="map", uses=("evaluate", "by_query"),
        ),
        Definition(
            "mrr", "reciprocal rank of the first relevant item", "relevant",
            ranked.reciprocal_rank, _WHOLE,
            reads_relevance=True, default="mrr", uses=("evaluate", "by_query"),
        ),
        Definition(
            "err", "expected reciprocal rank", "relevant", ranked.expected_reciprocal_rank, _WHOLE,
            divisor="defined", default="err@10",
        ),
        Definition(
            "precision", "share of relevant items at the top", "relevant", ranked.precision, _CUT,
            divisor="defined", reads_relevance=True, default="precision@5",
        ),
        Definition(
            "auc", "area under the ROC curve", "pair", ranked.relevant_in_order,
            reads_relevance=True, by_pairs=True,
            default="auc", uses=("evaluate", "list", "classes"),
        ),
        Definition(
            "pair_error", "share of pairs in the wrong order", "pair", ranked.pairs_out_of_order,
            label="pairs out of order", ideal=ranked.pairs_in_order, greater_is_better=False,
            by_pairs=True, of_listed_pairs=True,
            default="pair_error", uses=("evaluate", "by_query", "compare", "list"),
        ),
        Definition(
            "precision_at_percent", "share in order of the pairs furthest apart", "pair",
            ranked.widest_pairs_in_order, "{0}@10, a percentage of at most 100", 100,
            label="pairs in order, of the {k} % furthest apart", needs_all_scores=True,
            default="precision_at_percent@10",
        ),
        Definition(
            "dcg", "discounted gain", "nothing", ranked.discounted_gain, _WHOLE,
            divisor="one", bounds=(0.0, math.inf),
        ),
        Definition(
            "kendall_tau", "Kendall's tau-b", "pair", ranked.net_pairs_in_order,
            label="Kendall's tau", divisor="tau", bounds=(-1.0, 1.0),
        ),
        Definition(
            "pairwise_accuracy", "share of pairs in order", "pair", ranked.pairs_in_order,
            label="pairs in order", by_pairs=True, of_listed_pairs=True,
        ),
        Definition(
            "partial_auc", "area under the left end of the ROC curve", "pair",
            ranked.partial_area, "{0}@0.1, a fraction of at most 1", 1,
            reads_relevance=True,
        ),
        Definition(
            "positives_above_first_negative", "relevant items above the first other", "pair",
            ranked.above_first_negative,
            divisor="defined", reads_relevance=True, bounds=(0.0, math.inf),
        ),
        Definition(
            "recall", "share of the relevant items found", "relevant", ranked.hits, _CUT,
            divisor="relevant", reads_relevance=True,
        ),
        Definition(
            "spearman", "Spearman's rank correlation", "pair", ranked.rank_correlation,
            divisor="defined", bounds=(-1.0, 1.0),
        ),
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
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Definition:
    """Register a user-defined metric, which can then be used by name everywhere.

    That is `evaluate`, `precede.inference.compare`, ``eval_metric``, reports and the command
    line's functions; with a `default` it is in the lists named in `uses` (see `Definition`).

    Parameters
    ----------
    name : str
        Lower case, as in ``name`` or ``name@10``.
    function : callable
        ``function(grades, depth)`` returns the value of a query from its grades, the top of the
        list first, and the cut-off in positions (the number of grades where there is none). Ties
        are broken first, so that ``ties="average"`` is refused.
    needs : "relevant", "pair" or "nothing"
        What a query must hold; the function is not called for other queries.
    cut_off : bool
        Whether ``name@10`` and ``name@5%`` may be written.
    bounds : tuple of two numbers
        The least and the greatest value it can have: intervals are cut off there.

    Examples
    --------
    >>> top = register_metric("first_grade", lambda grades, depth: grades[0], needs="nothing",
    ...                       cut_off=False, meaning="grade of the first item")
    >>> from precede.metrics import evaluate
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
    check_choice("needs", needs, ("relevant", "pair", "nothing"))
    ends = [each for each in bounds if isinstance(each, int | float)] if bounds else []
    if len(ends) != 2 or not ends[0] < ends[1]:
        raise ValueError(f"bounds={bounds!r}; give the least and the greatest value, as in (0, 1)")
    defined = Definition(
        name, meaning, needs, ranked.pairs_in_order if needs == "pair" else ranked.hits,
        _WHOLE if cut_off else "{0}",
        divisor="one" if needs == "nothing" else "defined", greater_is_better=greater_is_better,
        default=default, uses=uses, needs_all_scores=True, function=function,
        bounds=(float(ends[0]), float(ends[1])),
    )  # fmt: skip
    REGISTRY[name] = defined
    if default is not None and metric(default).name != name:
        del REGISTRY[name]
        raise ValueError(f"default={default!r} is another metric than {name!r}")
    return defined


def default_metrics(use: str = "evaluate") -> tuple[str, ...]:
    """Return the notations of the default metrics.

    >>> default_metrics("compare")
    ('ndcg@10', 'pair_error')
    """
    known = REGISTRY.values()
    return tuple(each.default for each in known if each.default is not None and use in each.uses)


def list_metrics(classes: int) -> tuple[str, ...]:
    """Return the metrics of a single list with this number of grades.

    >>> list_metrics(2), list_metrics(3)
    (('auc', 'pair_error'), ('pair_error',))
    """
    of_two = () if classes == 2 else default_metrics("classes")
    return tuple(name for name in default_metrics("list") if name not in of_two)


def listed_metrics() -> tuple[str, ...]:
    """Return the names of the metrics that are defined for listed pairs."""
    return tuple(sorted((n for n, each in REGISTRY.items() if each.of_listed_pairs), reverse=True))


@dataclass(frozen=True)
class Metric:
    """A metric with its cut-off; `metric` parses the text that `str` returns.

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
            raise ValueError(f"unknown metric {self.name!r}: {hint}use one of {', '.join(known)}")
        if self.k is not None and not isinstance(self.k, (int, float, np.number)):
            raise ValueError(
                f"k={self.k!r} of {self.name} is not a number: give 10 for {self.name}@10"
            )
        if self.k is not None and math.isfinite(self.k):
            object.__setattr__(self, "k", _whole_as_int(self.k))
        if self.relevant is not None:
            if not self.definition.reads_relevance:
                raise ValueError(
                    f"{self.name} does not ask which grades are relevant: leave it out"
                )
            check_grade("relevant", self.relevant)
            object.__setattr__(self, "relevant", _whole_as_int(self.relevant))
        if not self._is_well_formed():
            write = self.definition.written.format(self.name)
            raise ValueError(f"{self} is not well formed: write {write}")

    def _is_well_formed(self) -> bool:
        if self.k is None:
            return not self.percent and self.definition.written in ("{0}", _WHOLE)
        if self.definition.reads_positions:
            return 0 < self.k <= 100 if self.percent else isinstance(self.k, int) and self.k > 0
        return not self.percent and 0 < self.k <= (self.definition.most or 0)

    def __str__(self) -> str:
        cut = "" if self.k is None else f"@{self.k!r}{'%' * self.percent}"
        relevant = "" if self.relevant is None else f"(relevant={self.relevant!r})"
        return f"{self.name}{cut}{relevant}"

    @property
    def definition(self) -> Definition:
        """Definition of the metric in `REGISTRY`."""
        return REGISTRY[self.name]

    @property
    def greater_is_better(self) -> bool:
        """Whether a larger value is a better ranking."""
        return self.definition.greater_is_better


def metric(text: str | Metric) -> Metric:
    """Parse a metric from its printed form: ``name``, ``name@k`` or ``name@k%``.

    A suffix ``(relevant=4)`` says that grades from 4 are relevant, for metrics that depend on it.
    Case does not matter; a `Metric` is returned unchanged.

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


def with_relevant(names: Iterable[str | Metric], grade: float | None) -> list[str]:
    """Return the texts of metrics, with the least relevant grade added where they name none.

    Metrics that do not depend on relevance are unchanged; without a grade, all are.

    >>> with_relevant(["map", "mrr(relevant=5)", "ndcg@10"], 4)
    ['map(relevant=4)', 'mrr(relevant=5)', 'ndcg@10']
    """
    if grade is None:
        return [str(name) for name in names]
    found = []
    for each in map(metric, names):
        is_unnamed = each.relevant is None and each.definition.reads_relevance
        found.append(str(replace(each, relevant=grade) if is_unnamed else each))
    return found


def _whole_as_int(number: int | float) -> int | float:
    """Return whole numbers as int: 10.0 and 10 must print alike."""
    return int(number) if number == int(number) else float(number)


def check_grade(name: str, given: object) -> None:
    """Raise ValueError unless `given` is a finite number."""
    if not isinstance(given, (int, float, np.number)) or not math.isfinite(given):
        raise ValueError(f"{name}={given!r} must be a finite number: give a grade")


# -- conventions that the value of a metric depends on, and those of other libraries --------------


TIES, MAP_OVER = ("worst", "average", "order"), ("relevant", "reachable")
NO_RELEVANT = {"skip": math.nan, "zero": 0.0, "one": 1.0}


@dataclass(frozen=True)
class Policy:
    """The conventions a number depends on, kept with the number.

    gains : "exp", "linear", "clipped" or array
        Gain of a grade g in dcg and ndcg: 2^g − 1, g itself, max(g, 0), or ``gains[g]`` for whole
        g ≥ 0.
    ties : "worst", "average" or "order"
        How items with equal scores are ranked: worst grade first; every order equally likely
        (the exact expected value of the metric); or in the order of the rows.
    no_relevant : "skip", "zero" or "one"
        The value of a query without a relevant item: skipped, 0 or 1. For ndcg, map, mrr, err,
        precision and recall.
    relevant, max_grade : float
        The least relevant grade, of metrics that do not name it. In err, an item of grade g
        satisfies the reader with probability (2^g − 1) / 2^max_grade; by default `max_grade` is
        the largest grade of y.
    map_over : "relevant" or "reachable"
        Whether map@k divides by the number R of relevant items or by min(R, k).

    >>> print(PRESETS["sklearn"])
    gains=linear ties=average no_relevant=zero relevant=1 max_grade=None map_over=relevant
    """

    gains: str | VectorLike = "exp"
    ties: str = "worst"
    no_relevant: str = "skip"
    relevant: float = 1.0
    max_grade: float | None = None
    map_over: str = "relevant"

    def __post_init__(self) -> None:
        choices = {"ties": TIES, "no_relevant": tuple(NO_RELEVANT), "map_over": MAP_OVER}
        if isinstance(self.gains, str):
            choices["gains"] = ("exp", "linear", "clipped")
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
            check_grade(name, given)

    def __str__(self) -> str:
        values = asdict(self).items()
        return " ".join(f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in values)


PRESETS = {
    "lightgbm": Policy(gains="exp", ties="order", no_relevant="one", map_over="reachable"),
    "sklearn": Policy(gains="linear", ties="average", no_relevant="zero"),
    "trec": Policy(gains="clipped", ties="order", no_relevant="zero"),
}


def resolve(preset: str | None, options: dict[str, Any], largest: float) -> Policy:
    """Return the requested policy, with the maximum grade filled in."""
    if preset is not None and preset not in PRESETS:
        raise ValueError(f"unknown preset {preset!r}: use one of {', '.join(PRESETS)}")
    known = [each.name for each in fields(Policy)]
    for name in options.keys() - known:
        every = ", ".join(["metrics", "preset", "sample_weight", *known])
        raise ValueError(f"unknown option {name}={options[name]!r}: use one of {every}")
    policy = replace(PRESETS[preset] if preset else Policy(), **options)
    if policy.max_grade is not None and policy.max_grade < largest:
        raise ValueError(f"max_grade={policy.max_grade:g} is below a grade of y, {largest:g}")
    return replace(policy, max_grade=largest if policy.max_grade is None else policy.max_grade)
