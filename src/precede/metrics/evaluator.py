"""Evaluation of rankings: `Evaluator`, `evaluate`, and scorers for scikit-learn.

Metrics are computed per query, then averaged. An `Evaluation` holds the numbers with the metrics
and the `Policy` behind them. The formulas are in ``docs/metrics.md``.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from precede.engine.arrays import Array, Flags, Floats, Integers, Json, MatrixLike, VectorLike
from precede.engine.execution import warn_caller
from precede.engine.frames import pandas_frame
from precede.engine.parameters import Argument, ParameterWarning, upper_tail
from precede.judgments import (
    Judgments,
    check_column,
    check_scores,
    check_weights,
    check_within_queries,
    number_queries,
    qid_or_group,
    read_grades,
    read_judgments,
    warn_of_lost_queries,
)
from precede.metrics.ranked import (
    CHANCE,
    GAIN,
    N_ITEM_ROWS,
    RANK,
    RELEVANT,
    WEIGHT,
    Ranked,
    Reading,
    discounted_gain,
    right_shares,
    share_of,
)
from precede.metrics.registry import (
    NO_RELEVANT,
    Metric,
    Policy,
    default_metrics,
    listed_metrics,
    resolve,
    with_relevant,
)
from precede.metrics.registry import metric as metric_of
from precede.results import Result, plain

if TYPE_CHECKING:
    import pandas as pd
    from sklearn.utils.metadata_routing import MetadataRequest

# A metric of the user: (y, scores, qid) to (name, value, greater_is_better).
MetricFunction = Callable[[Array | None, Floats, Array | None], tuple[str, float, bool]]

_MAX_SHARE_ALL_RELEVANT = 0.9  # warn from this share of queries with relevant items only


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
class Evaluation(Result):
    """Metrics of one ranking: their means, their values per query, and the conventions.

    `mean` holds, by the printed form of a metric, the mean over the queries not skipped;
    `per_query` its values, aligned with the ids `queries`, NaN where skipped; `skipped` the number
    of queries skipped. `pooled` holds auc, pair_error, pairwise_accuracy and precision_at_percent,
    where requested, as the share among all pairs within queries, so that a query counts by its
    pairs. `weights` are the queries' weights in the mean; `policy` has its `max_grade` filled in.

    >>> print(evaluate([1, 0, 0, 2, 1, 0], [3, 2, 1, 0, 5, 4], [7, 7, 8, 8, 9, 9], metrics="mrr"))
    gains=exp ties=worst no_relevant=skip relevant=1 max_grade=2 map_over=relevant; 95 % intervals
      metric    mean     low  high  queries  skipped
      mrr     0.8333  0.1162     1        3        0
    """

    mean: dict[str, float]
    per_query: dict[str, Floats]
    pooled: dict[str, float]
    queries: Array
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
        as e² is worth (Satterthwaite). Equal weights give `inference.mean_metric`. The interval
        ends where the metric does (`Definition.bounds`), at 0 and 1 for most.
        """
        key = str(metric_of(name))
        if key not in self.per_query:
            raise ValueError(f"{key} was not evaluated; the metrics are {', '.join(self.mean)}")
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
        # Negative grades may take a gain out of the usual range; the values are always inside.
        least, most = metric_of(name).definition.bounds
        least, most = min(least, float(values.min())), max(most, float(values.max()))
        return Interval(max(mean - reach, least), min(mean + reach, most), level)

    def summary(self) -> str:
        """Return the conventions."""
        return f"{self.policy}; 95 % intervals"

    def rows(self, level: float = 0.95) -> list[Json]:
        """Return a row for each metric: mean, interval, and the numbers of queries."""
        rows = []
        for key, mean in self.mean.items():
            try:
                low, high = self.interval(key, level)
            except ValueError:
                low = high = math.nan
            skipped = self.skipped[key]
            rows.append({"metric": key, "mean": mean, "low": low, "high": high,
                         "queries": self.n_queries - skipped, "skipped": skipped})  # fmt: skip
        return rows

    def to_frame(self, *, by_query: bool = False, level: float = 0.95) -> pd.DataFrame:
        """Return a pandas data frame: a row for each metric, or, `by_query`, for each query.

        >>> result = evaluate([1, 0, 0, 2], [3, 2, 1, 0], [7, 7, 8, 8], metrics=["mrr", "auc"])
        >>> list(result.to_frame().columns), float(result.to_frame(by_query=True).loc[8, "mrr"])
        (['mean', 'low', 'high', 'queries', 'skipped'], 0.5)
        """
        if by_query:
            return pandas_frame(self.per_query, index=self.queries.tolist()).rename_axis("qid")
        return pandas_frame(self.rows(level)).set_index("metric")

    def to_dict(self) -> Json:
        """Return plain numbers, strings and lists, None standing for a skipped query."""
        per_query, policy = plain(self.per_query, spell=False), plain(asdict(self.policy))
        return {**super().to_dict(), "per_query": per_query, "policy": policy}


class Evaluator:
    """Grades and queries prepared once, to evaluate many vectors of scores.

    Sums that depend on the grades only are computed here. A call of `evaluate` then costs
    O(n log n) for n rows and O(n) memory; but ``precision_at_percent`` reads a query some ten
    times (at most 200), and ``err`` with ``ties="average"`` takes O(m·min(m, k)) for m equal
    scores.

    Parameters
    ----------
    y, qid : arrays of shape (n,)
        Grades (any finite numbers, larger is better) and query ids (of any type, in any order;
        None makes one query of all rows). `y` may be a `Judgments` that holds all this. If it
        lists pairs, pairwise_accuracy and pair_error are computed, over these pairs and those of
        the grades together; a pair must lie within a query, and ties are left out.
    metrics, preset : str, Metric or an iterable of them; {"lightgbm", "sklearn", "trec"}
        The metrics, by default `default_metrics`; the library whose conventions (`PRESETS`) are
        the default of the options.
    sample_weight : array of shape (n,), optional
        Item weights; a query counts in every mean by the mean weight of its items. In auc,
        pair_error, pairwise_accuracy and kendall_tau a pair counts by the product of its items'
        weights (times its own weight if it is listed).
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
        qid = qid_or_group(y, qid, group)
        self._listed = read_listed(y)
        if isinstance(metrics, str) and metrics == "default":
            metrics = default_metrics() if self._listed is None else listed_metrics()
        grade, qid, sample_weight = read_grades(y, qid, sample_weight, listed=True)
        grades = check_column(grade, "y")
        given = np.ones(grades.size) if sample_weight is None else sample_weight
        weights = check_weights(given, "sample_weight", grades.size)
        if not weights.any():
            raise ValueError("sample_weight is 0 in every row: give more than 0 to some row")
        self.metrics = _read_metrics(metrics, self._listed)
        self.policy = resolve(preset, options, float(grades.max()))
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
        self._items[RANK, inner] = rises - np.repeat(rises[self._starts[:-1]], sizes)
        self._items[WEIGHT] = weights[rows]
        self._pairs = _count_pairs(rises, self._starts)
        self._weights = np.add.reduceat(weights[rows], self._starts[:-1]) / sizes
        self._weights.flags.writeable = self.queries.flags.writeable = False
        self._readings = self._make_readings()
        self._scale = np.column_stack([each.totals for each in self._readings])
        if self._listed is not None:
            self._scale += self._listed.sums(None, sizes.size)[:, None]
        self._check_defined()
        self._warn_of_relevance()

    def evaluate(self, scores: ArrayLike) -> Evaluation:
        """Evaluate every metric on these scores, one per row of `y`.

        A row of score −inf was not returned. It is never found, but counts in the ideal DCG and
        in the number of relevant items; for metrics of pairs such rows are equals at the end.
        """
        table = self._measure(scores, len(self.metrics))
        per_query = {str(each): table[i] for i, each in enumerate(self.metrics)}
        pairs = {str(each): i for i, each in enumerate(self.metrics) if each.definition.by_pairs}
        mean = {key: _mean(values, self._weights) for key, values in per_query.items()}
        pooled = {key: _mean(table[i], self._scale[:, i]) for key, i in pairs.items()}
        pooled |= self._pooled_precision(scores)
        skipped = {key: int(np.isnan(values).sum()) for key, values in per_query.items()}
        return Evaluation(
            mean, per_query, pooled, self.queries, self._weights, skipped, self.policy
        )

    def _pooled_precision(self, scores: ArrayLike) -> dict[str, float]:
        """Return precision_at_percent over the pairs of all queries of positive weight."""
        cuts = {str(each): each.k for each in self.metrics if each.name == "precision_at_percent"}
        if not cuts:
            return {}
        kept = np.repeat(self._weights > 0, np.diff(self._starts))
        starts = np.append(0, np.cumsum(np.diff(self._starts)[self._weights > 0]))
        column = self._column(scores)[self._rows][kept]
        ranked = Ranked(column, starts, self._items[:1, kept], self.policy.ties)
        known = (ranked.scores, ranked.row(RANK).astype(np.intp), starts)
        pairs = self._pairs[self._weights > 0]
        return {
            key: float(right_shares(*known, pairs, float(k or 0), ranked.ties, pooled=True)[0])
            for key, k in cuts.items()
        }

    def value(self, scores: ArrayLike) -> float:
        """Return the mean of the first metric and compute no other."""
        return _mean(self._measure(scores, 1)[0], self._weights)

    def _measure(self, scores: ArrayLike, count: int) -> Floats:
        """Return the values of the first metrics, one row each."""
        column = self._column(scores)
        ranked = Ranked(column[self._rows], self._starts, self._items, self.policy.ties)
        table = np.empty((count, self._starts.size - 1))
        for i, each in enumerate(self.metrics[:count]):
            reading = self._readings[i]
            found = each.definition.numerator(ranked, reading)
            table[i] = self._fill(each)
            np.divide(found, reading.totals, out=table[i], where=reading.totals > 0)
        if self._listed is not None:
            self._add_listed(table, column)
        for i, each in enumerate(self.metrics[:count]):
            if each.definition.function is not None:
                table[i] = self._by_function(each, column[self._rows], table[i])
        table.flags.writeable = False
        return table

    def _column(self, scores: ArrayLike) -> Floats:
        """Return the scores as numbers, −inf where a row was not returned."""
        column = check_scores(scores, "scores", self._rows.size)
        absent = np.isneginf(column)
        if absent.any():
            for each in self.metrics:
                if each.definition.needs_all_scores:
                    raise ValueError(
                        f"{each} needs the scores of all rows, and scores[{absent.argmax()}] is "
                        "-inf (not returned): leave the metric or these rows out"
                    )
        return column

    def _by_function(self, each: Metric, scores: Floats, values: Floats) -> Floats:
        """Return `values` with those of a user-defined function where the metric is defined."""
        function = each.definition.function
        assert function is not None
        if self.policy.ties == "average":
            raise ValueError(f"{each} has no mean over the orders of ties: pass ties='worst'")
        values, column = values.copy(), self.metrics.index(each)
        for query in np.flatnonzero(self._scale[:, column] > 0):
            rows = slice(self._starts[query], self._starts[query + 1])
            grades = self._grades[rows][np.argsort(-scores[rows], kind="stable")]
            depth = grades.size if each.k is None else int(each.k)
            if each.percent and each.k is not None:
                depth = int(share_of(each.k, grades.size))
            values[query] = float(function(grades, min(depth, grades.size)))
        return values

    def _add_listed(self, table: Floats, scores: Floats) -> None:
        """Turn shares of the graded pairs into shares of the graded and the listed pairs."""
        assert self._listed is not None
        wrong = self._listed.wrong(scores, self.policy.ties)
        for i, each in enumerate(self.metrics[: len(table)]):
            missed = 1.0 - wrong if each.greater_is_better else wrong
            graded = np.nan_to_num(table[i]) * self._readings[i].totals
            total = self._scale[:, i]
            summed = graded + self._listed.sums(missed, total.size)
            table[i] = np.divide(summed, total, out=np.full(total.size, np.nan), where=total > 0)

    def _fill(self, each: Metric) -> float:
        """Return the value of a metric in queries where it is undefined."""
        needs_relevant = each.definition.needs == "relevant"
        return NO_RELEVANT[self.policy.no_relevant] if needs_relevant else math.nan

    def _make_readings(self) -> list[Reading]:
        """Return the `Reading` of each metric; without a cut-off it is 100 % of a list."""
        discounts = 1.0 / np.log2(np.arange(2.0, np.diff(self._starts).max() + 2.0))
        ideal = Ranked(self._items[RANK], self._starts, self._items, "worst")
        readings = []
        for each in self.metrics:
            k, percent = float(min(each.k or 100, 2**53)), each.percent or each.k is None
            reading = Reading(k, percent, self._row_of(each), discounts, self._pairs)
            readings.append(replace(reading, totals=self._totals(each, ideal, reading)))
        return readings

    def _totals(self, each: Metric, ideal: Ranked, reading: Reading) -> Floats:
        """Return the denominators: mostly numerators of the ideal ranking; ≤ 0 if undefined."""
        divisor, first = each.definition.divisor, self._starts[:-1]
        if divisor == "map_over":
            divisor = "relevant" if self.policy.map_over == "relevant" else "ideal"
        if divisor == "one":
            return np.ones(first.size)
        if divisor == "relevant":
            return np.add.reduceat(self._items[reading.relevant], first)
        best = (each.definition.ideal or each.definition.numerator)(ideal, reading)
        if divisor == "defined":
            return (best > 0).astype(np.float64)
        if divisor == "tau":
            weight = self._items[WEIGHT]
            squares = np.add.reduceat(weight, first) ** 2 - np.add.reduceat(weight**2, first)
            return np.sqrt(best * (squares / 2))
        return best

    def _row_of(self, each: Metric) -> int:
        """Return the row of the table of items that flags those relevant to a metric."""
        if each.relevant is None:
            return RELEVANT
        return N_ITEM_ROWS + _thresholds(self.metrics).index(each.relevant)

    def _warn_of_relevance(self) -> None:
        """Warn of metrics that are the same for every order of nearly every query.

        Only queries of several grades count: a greater `relevant` would separate their items.
        """
        names_of: dict[int, list[str]] = {}
        for each in self.metrics:
            if each.definition.reads_relevance and each.definition.needs == "relevant":
                names_of.setdefault(self._row_of(each), []).append(str(each))
        first, highest = self._starts[:-1], f"{self._grades.max():g}"
        several = (np.maximum.reduceat(self._items[RANK], first) > 0) & (self._weights > 0)
        for row, names in names_of.items():
            all_relevant = np.minimum.reduceat(self._items[row], first)[several]
            share = all_relevant.mean() if several.any() else 0.0
            if share >= _MAX_SHARE_ALL_RELEVANT:
                warning = ParameterWarning(
                    f"every item is relevant in {100 * share:.0f} % of the queries with different "
                    f"grades, so that {', '.join(names)} cannot tell rankings apart; the grades go "
                    f"from {self._grades.min():g} to {highest}: say from which one on an item is "
                    f"relevant, as in '{names[0].partition('(')[0]}(relevant={highest})', or by ",
                    Argument("relevant", highest, f"relevant={highest} in evaluate and Report"),
                )
                warn_caller(warning, once=True)

    def _check_defined(self) -> None:
        """Raise if a metric would have no query to average, which depends on y alone."""
        for i, each in enumerate(self.metrics):
            usable = (self._scale[:, i] > 0) | (not math.isnan(self._fill(each)))
            if not np.any(usable & (self._weights > 0)):
                what = "pair" if each.definition.needs == "pair" else "relevant item"
                why = f"{each} is undefined: no query of positive weight holds a {what}"
                filled = ", or pass no_relevant='zero'" if what == "relevant item" else ""
                raise ValueError(f"{why}; check qid and relevant={filled}")


def evaluate(
    y: ArrayLike | Judgments, scores: ArrayLike, qid: VectorLike = None, **options: Any
) -> Evaluation:
    """Evaluate a ranking: each metric per query first, then the mean over queries.

    A larger score ranks higher; `y`, `qid` and the options are those of `Evaluator`.
    >>> evaluate([0, 1, 0], [5, 5, 5], metrics=["auc", "recall@1"], ties="average").mean
    {'auc': 0.5, 'recall@1': 0.3333333333333333}
    """
    return Evaluator(y, qid, **options).evaluate(scores)


def defined_metrics(
    y: ArrayLike | Judgments,
    qid: VectorLike,
    weight: VectorLike = None,
    relevant: float | None = None,
    *,
    absent: bool = False,
) -> list[str]:
    """Return the default metrics, without those that these grades leave undefined.

    `relevant` is the least relevant grade, for the metrics that depend on it; `absent` says
    whether some rows have the score −inf.

    >>> "ndcg@10" in defined_metrics([1, 0, 2], [7, 7, 7])
    True
    """

    def is_defined(names: str | list[str]) -> bool:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the evaluation itself will warn
                Evaluator(y, qid, metrics=names, sample_weight=weight)
        except ValueError:
            return False
        return True

    names = with_relevant(default_metrics(), relevant)
    if absent:
        names = [name for name in names if not metric_of(name).definition.needs_all_scores]
    return names if is_defined(names) else [name for name in names if is_defined(name)]


def precision_at_percent(
    y: ArrayLike | Judgments,
    scores: ArrayLike,
    qid: VectorLike = None,
    *,
    percent: float,
    pooled: bool = False,
    ties: str = "worst",
) -> float:
    """Return the share in the right order among the `percent` % of pairs whose scores differ most.

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
        """Number of pairs."""
        return int(self.winner.size)

    def wrong(self, scores: Floats, ties: str) -> Floats:
        """Return 1 for pairs out of order, 0 for those in order; equal scores by the policy."""
        above, below = scores[self.winner], scores[self.loser]
        equal: Flags | float = self.winner > self.loser  # under "order" the earlier row ranks above
        if ties != "order":
            equal = 1.0 if ties == "worst" else 0.5
        return np.where(above == below, equal, above < below).astype(np.float64)

    def sums(self, values: Floats | None, queries: int) -> Floats:
        """Sum weight·values over the pairs of every query; values default to 1."""
        each = self.weight if values is None else self.weight * values
        return np.bincount(self.query, each, minlength=queries).astype(np.float64, copy=False)


def read_listed(y: ArrayLike | Judgments) -> ListedPairs | None:
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


def _read_metrics(
    metrics: str | Metric | Iterable[str | Metric], listed: ListedPairs | None
) -> tuple[Metric, ...]:
    """Parse the metrics, without duplicates; raise if one is undefined for listed pairs."""
    several = (metrics,) if isinstance(metrics, (str, Metric)) else metrics
    if not isinstance(several, Iterable):
        raise ValueError(f"metrics={metrics!r}: name one or more, such as 'ndcg@10'")
    parsed = tuple(dict.fromkeys(map(metric_of, several)))
    if not parsed:
        raise ValueError("metrics is empty: name at least one, such as 'ndcg@10'")
    for each in parsed:
        if listed is not None and not each.definition.of_listed_pairs:
            given = f"{each} reads grades and would ignore the {listed.size} listed pairs"
            raise ValueError(f"{given}: use {' or '.join(listed_metrics())}, or pass y.grade")
    return parsed


def _make_items(grades: Floats, metrics: tuple[Metric, ...], policy: Policy) -> Floats:
    """Return the table of items with the gain, chance and relevance of their grades."""
    thresholds = _thresholds(metrics)
    items = np.zeros((N_ITEM_ROWS + len(thresholds), grades.size))
    for row, least in enumerate(thresholds, start=N_ITEM_ROWS):
        items[row] = grades >= least
    if any(each.definition.numerator is discounted_gain for each in metrics):
        items[GAIN] = _gains(grades, policy.gains)
    top = max(policy.max_grade or 0.0, 0.0)  # grades of 0 or less have probability 0
    items[CHANCE] = np.exp2(np.maximum(grades, 0.0) - top) - np.exp2(-top)
    items[RELEVANT] = grades >= policy.relevant
    return items


def _count_pairs(rises: Integers, starts: Integers) -> Integers:
    """Return the number of pairs of different grades in every query.

    Rows are sorted by query and grade; `rises` are numbers that increase with the grade.
    """
    fresh = np.append(True, np.diff(rises) != 0)
    fresh[starts[:-1]] = True
    first = np.flatnonzero(fresh)
    sizes = np.diff(np.append(first, rises.size))
    alike = np.add.reduceat(sizes * sizes, np.searchsorted(first, starts[:-1]))
    return (np.diff(starts) ** 2 - alike) // 2


def _thresholds(metrics: tuple[Metric, ...]) -> list[float]:
    """Return the distinct least relevant grades given by the metrics."""
    return sorted({each.relevant for each in metrics if each.relevant is not None})


def _gains(grades: Floats, gains: str | tuple[float, ...]) -> Floats:
    if gains == "exp" and grades.max() > 1000:
        raise ValueError(f"2^g − 1 overflows for grade {grades.max():g}: pass gains='linear'")
    if isinstance(gains, str):
        linear = np.maximum(grades, 0.0) if gains == "clipped" else grades
        return np.exp2(grades) - 1.0 if gains == "exp" else linear
    wrong = (grades < 0) | (grades >= len(gains)) | (grades != np.floor(grades))
    if wrong.any():
        raise ValueError(f"grade {grades[wrong][0]:g} has no entry in the {len(gains)} gains")
    return np.asarray(gains)[grades.astype(np.intp)]


def _mean(values: Floats, weights: Floats) -> float:
    """Return the mean of the values that are not NaN; sums are exact, so no order matters."""
    weights, values = weights[~np.isnan(values)], values[~np.isnan(values)]
    return math.fsum((values * weights).tolist()) / math.fsum(weights.tolist())


# -- scorers for scikit-learn --------------------------------------------------------------------


class Scoring(Protocol):
    """A fitted estimator of any library that scores rows."""

    def predict(self, X: MatrixLike) -> Floats:
        """Score every row."""


class Scorer:
    """A metric with the interface of a scikit-learn scorer; see `make_scorer`."""

    def __init__(self, metric: Metric | MetricFunction, options: dict[str, Any]) -> None:
        from sklearn.utils.metadata_routing import MetadataRequest  # noqa: PLC0415  (slow)

        self._metric, self._options = metric, options
        self._request = MetadataRequest(owner=self)
        self.set_score_request(qid=True)

    def __call__(
        self,
        estimator: Scoring,
        X: MatrixLike,
        y: ArrayLike | Judgments,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return the metric of the estimator's scores of X, negated if less is better."""
        scores = estimator.predict(X)
        judgments, _ = read_judgments(len(scores), y, qid=qid, sample_weight=sample_weight)
        warn_of_lost_queries(estimator, judgments)
        if isinstance(self._metric, Metric):
            value = Evaluator(judgments, metrics=self._metric, **self._options).value(scores)
            greater = self._metric.greater_is_better
        else:
            _, value, greater = self._metric(judgments.grade, scores, judgments.qid)
        return float(value) if greater else -float(value)

    def set_score_request(self, **requests: bool | str | None) -> Scorer:
        """Set which of `qid` and `sample_weight` to request under metadata routing.

        As in scikit-learn: True requests it, False does not, None makes passing it an error, and a
        string is the name under which it is passed.
        """
        for name, request in requests.items():
            if name not in ("qid", "sample_weight"):
                more = "; folds cannot slice sizes of queries, so give qid" * (name == "group")
                raise TypeError(f"a scorer takes qid and sample_weight, not {name}{more}")
            self._request.score.add_request(param=name, alias=request)
        return self

    def get_metadata_routing(self) -> MetadataRequest:
        """Return the `MetadataRequest` of scikit-learn."""
        return self._request

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self._options.items())
        given = repr(str(self._metric)) if isinstance(self._metric, Metric) else repr(self._metric)
        return f"make_scorer({given}{options})"


def make_scorer(metric: str | Metric | MetricFunction, **options: Any) -> Scorer:
    """Return a metric as a scorer for `GridSearchCV`, `cross_validate` and the like.

    Scorers are better the greater they are: metrics of which less is better, such as
    ``pair_error``, are negated. Queries reach a scorer in one of two ways: inside a `Judgments`
    as `y`, or as `qid` under scikit-learn's metadata routing, which the scorer requests unless
    ``set_score_request(qid=False)`` is called. Scoring a model that was fitted with queries
    without them gives a warning. As costly as `Evaluator`, which is created for every call.

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
    >>> weak_ranker = RankBoost(n_estimators=5, learning_rate=1.0)
    >>> found = cross_val_score(weak_ranker, sample.X, y, groups=sample.qid,
    ...                         cv=GroupKFold(3), scoring=make_scorer("ndcg@10"))
    >>> found.shape, bool(found.mean() > 0.4)
    ((3,), True)
    """
    if isinstance(metric, str | Metric):
        named = dict(options)
        resolve(named.pop("preset", None), named, float(options.get("max_grade") or 0.0))
        return Scorer(metric_of(metric), options)
    if not callable(metric):
        raise ValueError(f"metric={metric!r}: give a name such as 'ndcg@10', or a function")
    if options:
        raise ValueError(f"{', '.join(options)} given with a function; options are for names")
    return Scorer(metric, {})
