"""Standard errors, intervals and tests for rankings, without enumerating pairs.

The errors of one item against all others are a count, and all n counts come from one sort and a
Fenwick tree, O(n log n). Every estimate is a ratio Σa / Σb over independent units (items, or
queries), so one jackknife gives the standard error of all of them and of their differences. For
explicit pairs, each of which belongs to two items, the variance is the dyadic one. If the data do
not support an interval, a ValueError gives the reason.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc, ndtr, stdtr, stdtrit

from precede.engine.arrays import Array, Flags, Floats, Integers, Json, RandomState
from precede.engine.compiling import njit
from precede.engine.kernels import add_to_fenwick_tree, sum_of_fenwick_tree
from precede.engine.parameters import check_choice, upper_tail
from precede.engine.portable import fmax
from precede.judgments import (
    Judgments,
    check_column,
    check_within_queries,
    number_queries,
    qid_or_group,
    read_sample,
    refuse_weights,
    to_numbers,
)
from precede.metrics import Interval, Metric, evaluate
from precede.metrics import metric as metric_of
from precede.results import Result

__all__ = [
    "Comparison",
    "Decomposition",
    "Estimate",
    "RankComparison",
    "auc",
    "compare",
    "friedman",
    "hoeffding_decomposition",
    "holm",
    "mean_metric",
    "nemenyi",
    "of_one_list",
    "ranking_risk",
    "split_sample_risk",
]

BOOTSTRAP_RESAMPLES, QUERY_DRAWS, ITEM_DRAWS = 2000, 9999, 1999
BOOTSTRAP_ROWS = 20_000_000  # rows of all resamples together, but at least 200 resamples
QUANTITIES = {"all": "ranking risk", "comparable": "pair error", "pooled": "pooled pair error"}
PLURALS = {"item": "items", "query": "queries", "group": "groups"}
RISK_METRICS = {words.replace(" ", "_"): pairs for pairs, words in QUANTITIES.items()}
IN_ORDER = ("auc", "pairwise_accuracy")  # 1 − pair error, the AUC of two grades


class _IntervalResult(Result):
    """A result with an interval, or with the reason why it has none."""

    reason: str

    def interval(self, level: float = 0.95) -> Interval:
        """Return the interval of this level."""
        raise NotImplementedError

    def to_dict(self) -> Json:
        """Return numbers and words only, with the 95 % interval (None where there is none)."""
        return {**super().to_dict(), "interval": None if self.reason else asdict(self.interval())}

    def rows(self) -> list[Json]:
        """Return one row, with the 95 % interval as `low` and `high`."""
        row = self.to_dict()
        ends = row.pop("interval") or {"low": math.nan, "high": math.nan}
        return [{**row, "low": ends["low"], "high": ends["high"]}]


@dataclass(frozen=True)
class Estimate(_IntervalResult):
    """An estimate: its value, standard error, interval, and the data behind it.

    An undefined `std_error` is None; `reason` then says why, and `interval` raises ValueError with
    the reason. `n_pairs` is the number of unordered pairs of which the value is a share,
    `n_skipped` the number of queries without a pair or a value; if pairs were given in groups,
    `n_queries` is the number of groups. The fields after `reason` are used by `interval`.

    Examples
    --------
    >>> print(mean_metric([0.2, 0.9, 0.4, 0.7, 0.8]).interval(0.8))
    0.4001 to 0.7999 (80 %)
    """

    quantity: str
    value: float
    std_error: float | None
    method: str
    n_items: int
    n_pairs: int
    n_queries: int | None = None
    n_skipped: int = 0
    reason: str = ""
    scale: str = field(default="logit", repr=False)
    degrees: float = field(default=math.inf, repr=False)
    blocks: int = field(default=0, repr=False)
    unit: str = field(default="query", repr=False)
    replicates: Floats = field(default_factory=lambda: np.empty(0), repr=False, compare=False)

    def interval(self, level: float = 0.95) -> Interval:
        """Return the interval of this level; raise ValueError with the reason if there is none."""
        tail = upper_tail(level)
        if self.reason:
            raise ValueError(f"no interval for the {self.quantity}: {self.reason}")
        if self.method == "bernstein":
            return Interval(*_bernstein_ends(self.value, self.blocks, 2 * tail), level)
        if self.method == "bootstrap":
            low, high = np.quantile(self.replicates, [tail, 1 - tail]).tolist()
            return Interval(low, high, level)
        half = float(stdtrit(self.degrees, 1 - tail)) * float(self.std_error or math.nan)
        low, high = self.value - half, self.value + half
        if self.scale == "unit":
            low, high = max(low, 0.0), min(high, 1.0)
        elif self.scale == "logit":
            center = math.log(self.value / (1 - self.value))
            half /= self.value * (1 - self.value)
            low, high = (0.5 + 0.5 * math.tanh((center + step) / 2) for step in (-half, half))
        return Interval(low, high, level)

    def __str__(self) -> str:
        units = [f"{self.n_queries} {PLURALS[self.unit]}"] if self.n_queries is not None else []
        units += [f"{self.n_skipped} skipped"] if self.n_skipped else []
        units += [f"{self.n_items} items", f"{self.n_pairs} pairs"] if self.n_pairs else []
        counts = ", ".join(units)
        if self.reason:
            return f"{self.quantity} {self.value:.4f}, no interval: {self.reason}\n  {counts}"
        ends = self.interval()
        error = "" if self.std_error is None else f"standard error {self.std_error:.4f}, "
        shown = f"95 % interval {ends.low:.4f} to {ends.high:.4f}"
        return f"{self.quantity} {self.value:.4f}, {shown}\n  {error}{self.method}; {counts}"


@dataclass(frozen=True)
class Comparison(_IntervalResult):
    """A paired comparison of two rankers, a minus b, on the same data.

    `std_error` is that of the difference over `n_units` independent queries, items or groups; if
    it is None, `reason` says why. `p_value` is two-sided. `convention` says whether the values are
    means over queries and how equal scores count. Of a randomization test, `exchanged` says what
    is exchanged, and `n_draws` how often.

    Examples
    --------
    >>> result = compare([0, 1, 0, 1, 1, 0], [1, 4, 2, 6, 3, 5], [6, 1, 3, 2, 4, 5])
    >>> print(f"{result.difference:+.4f}, p = {result.p_value:.4f}")
    -0.4000, p = 0.0800
    """

    metric: str
    value_a: float
    value_b: float
    difference: float
    std_error: float | None
    p_value: float | None
    method: str
    unit: str
    n_units: int
    n_skipped: int = 0
    exchanged: str = ""
    n_draws: int = 0
    reason: str = ""
    convention: str = ""
    degrees: float = field(default=math.inf, repr=False)
    span: float = field(default=math.inf, repr=False)

    def interval(self, level: float = 0.95) -> Interval:
        """Return difference ± t · std_error, whichever test gave the p value; or raise.

        It ends at ± `span`, the most that two values of the metric can differ.
        """
        tail = upper_tail(level)
        if self.std_error is None:
            raise ValueError(f"no interval for the difference in {self.metric}: {self.reason}")
        half = float(stdtrit(self.degrees, 1 - tail)) * self.std_error
        most = max(self.span, abs(self.difference))
        return Interval(
            max(self.difference - half, -most), min(self.difference + half, most), level
        )

    def __str__(self) -> str:
        how = f" ({self.convention})" if self.convention else ""
        text = f"{self.metric}{how}: a {self.value_a:.4f}, b {self.value_b:.4f}\n"
        text += f"  difference {self.difference:+.4f}"
        ends = None if self.std_error is None else self.interval()
        text += f", 95 % interval {ends.low:+.4f} to {ends.high:+.4f}" if ends else ""
        text += "" if self.p_value is None else f", p = {self.p_value:.4g}"
        text += f"; no interval: {self.reason}" if self.reason else ""
        text += f"\n  {self.method}, {self.n_units} {PLURALS[self.unit]}"
        text += f", {self.n_skipped} skipped" if self.n_skipped else ""
        return text + (f", {self.exchanged}, {self.n_draws} times" if self.exchanged else "")


@dataclass(frozen=True)
class RankComparison(Result):
    """Several rankers over several data sets: Friedman's test with Nemenyi's difference.

    The best rankers come first. Average ranks further apart than `critical_difference` differ at
    the family-wise `level`; `groups` are the maximal runs not distinguished, bars of a diagram.

    Examples
    --------
    >>> table = [[0.71, 0.69, 0.60], [0.55, 0.56, 0.48], [0.80, 0.77, 0.61], [0.66, 0.64, 0.59]]
    >>> print(friedman(table, names=["plus", "continuous", "discrete"]))
    Friedman chi-square 6.5000, p = 0.03877, 4 data sets
      1.25 plus, 1.75 continuous, 3.00 discrete
      critical difference 1.6572 (95 %); not told apart: {plus, continuous}, {continuous, discrete}
    """

    names: tuple[str, ...]
    average_ranks: tuple[float, ...]
    statistic: float
    p_value: float
    critical_difference: float
    level: float
    groups: tuple[tuple[str, ...], ...]
    n_datasets: int

    def __str__(self) -> str:
        ranks = ", ".join(
            f"{r:.2f} {n}" for r, n in zip(self.average_ranks, self.names, strict=True)
        )
        alike = ", ".join("{" + ", ".join(group) + "}" for group in self.groups) or "none"
        return (
            f"Friedman chi-square {self.statistic:.4f}, p = {self.p_value:.4g}, "
            f"{self.n_datasets} data sets\n  {ranks}\n  critical difference "
            f"{self.critical_difference:.4f} ({100 * self.level:g} %); not told apart: {alike}"
        )


def ranking_risk(
    y: ArrayLike | Judgments,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    ties: str = "half",
    pairs: str = "all",
    method: str = "asymptotic",
    random_state: RandomState = None,
    group: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> Estimate:
    """Estimate the probability that two items are put in the wrong order.

    L_n = Σ_{i≠j} k_ij / (n(n − 1)), where k_ij = 1 if (y_i − y_j)(s_i − s_j) < 0, ½ (or 1) for
    equal scores of items with different labels, and 0 otherwise. The variance is that of
    Hoeffding's projection, 4·Var(ĥ)/n, with the jackknife's factor (n − 1)²/(n − 2)².
    O(n log n). Reference: Clémençon, Lugosi, Vayatis (2005), section 2 and equation (1).

    Over listed pairs p with weights w_p the risk is Σ w_p·k_p / Σ w_p. Two pairs that share an
    item are dependent, so with items as units the variance estimates Σ e_p·e_q / (Σ w)² over
    all p, q with an item in common, e_p = w_p·(k_p − risk). That is Σ_i (Σ_{p∋i} e_p)² / (Σ w)²
    less Σ_d (Σ_{p∈d} e_p)² / (Σ w)² over the different pairs d of items, which the first sum
    counts twice. The jackknife over items estimates the first sum: it divides by the weight
    that is left without item i instead of Σ w. The result is at least the last sum, which is
    its value where items have no effect. O(pairs log pairs). Reference: Aronow, Samii,
    Assenova, *Cluster-robust variance estimation for dyadic data* (2015).

    Parameters
    ----------
    y, scores : array-like of shape (n,)
        Labels (only their order matters) and scores; larger means better and ranked higher.
        `y` may be a `Judgments`, which brings its queries: graded, or with listed pairs.
    qid : array-like of shape (n,), optional
        Query of each item; then pairs stay within queries and the *query* is the independent
        unit, otherwise the item is. `group`, the sizes of the queries of rows sorted by query (as
        in LightGBM), may replace it.
    ties : {"half", "wrong"}, default "half"
        How equal scores of comparable items count. "half" is the paper's L_n: its rule puts x
        above x' iff s(x) ≥ s(x'), which errs in one of the two ordered pairs.
    pairs : {"all", "comparable", "pooled"}, default "all"
        The pairs of which the risk is a share: all (L_n), or those with different labels (the *pair
        error*). With queries both are means over queries, and "pooled" is the ratio of the sums
        over queries of errors and comparable pairs. Queries without pairs are skipped. Of listed
        pairs, "all" counts ties, which are never wrong, and the others do not.
    method : {"asymptotic", "bernstein", "bootstrap"}, default "asymptotic"
        t interval on the logit scale from the jackknife standard error (DeLong's for two grades
        and comparable pairs); equation (1) of the paper inverted, true for every distribution
        and n; or percentiles of 2000 resamples of the items, or queries.
    random_state : None, int or numpy.random.Generator
        Used by the bootstrap only.
    groups : array-like with one identifier per listed pair, then one per tie; optional
        Such as who judged the pair. The group is then the independent unit, and the risk the
        ratio of the sums over groups.

    Examples
    --------
    >>> y, scores = [0, 0, 0, 1, 1, 0, 1, 2, 2, 2], [1, 3, 2, 5, 4, 6, 7, 6, 9, 8]
    >>> print(ranking_risk(y, scores))
    ranking risk 0.0778, 95 % interval 0.0099 to 0.4163
      standard error 0.0677, asymptotic; 10 items, 45 pairs
    >>> from precede import Judgments
    >>> votes = [(0, 1), (0, 2), (3, 1), (2, 3), (3, 4), (4, 0), (2, 5), (5, 1)]
    >>> print(ranking_risk(Judgments(pairs=votes, n=6), [5.0, 0.0, 3.0, 2.0, 1.0, 4.0]))
    ranking risk 0.2500, 95 % interval 0.0297 to 0.7840
      standard error 0.1722, asymptotic; 6 items, 8 pairs
    """
    check_choice("ties", ties, ("half", "wrong"))
    check_choice("pairs", pairs, tuple(QUANTITIES))
    sample = _read(y, qid_or_group(y, qid, group), groups)
    ratio = sample.ratio(scores, pairs, 0.5 if ties == "half" else 1.0)
    return _estimate(ratio, method, random_state, quantity=QUANTITIES[pairs], unit=sample.unit)


def split_sample_risk(y: ArrayLike, scores: ArrayLike, *, ties: str = "half") -> Estimate:
    """Estimate the ranking risk from the ⌊n/2⌋ disjoint pairs of items i and ⌊n/2⌋ + i.

    L̃_n = Σ k_{i, ⌊n/2⌋+i} / ⌊n/2⌋, a mean of independent terms with the k of `ranking_risk`: the
    estimator that the paper compares L_n with. The rows must be in random order. Its standard
    error is usually larger than that of `ranking_risk`, which uses all pairs. O(n).
    Reference: Clémençon, Lugosi, Vayatis (2005), sections 3 and 5.

    Parameters
    ----------
    y, scores, ties
        As for `ranking_risk`, without queries.

    Examples
    --------
    >>> print(split_sample_risk([0, 1, 0, 1, 1, 0, 1, 0], [1, 4, 2, 6, 3, 5, 8, 7]))
    ranking risk 0.5000, 95 % interval 0.0000 to 1.0000
      standard error 0.2887, asymptotic; 8 items, 4 pairs
    """
    check_choice("ties", ties, ("half", "wrong"))
    labels = check_column(y, "y")
    values = check_column(scores, "scores", labels.size, infinite=True)
    half = labels.size // 2
    if not half:
        raise ValueError(f"y has {labels.size} items; give at least two")
    first, second = slice(0, half), slice(half, 2 * half)
    wrong = _order_errors(
        labels[first], values[first], labels[second], values[second], 0.5 if ties == "half" else 1.0
    )
    counts = {"n_items": labels.size, "n_pairs": half}
    ratio = _Ratio(wrong, np.ones(half), 1, counts, blocks=half)
    found = _estimate(ratio, "asymptotic", None, quantity="ranking risk", scale="unit")
    return replace(found, n_queries=None)


@dataclass(frozen=True)
class Decomposition(Result):
    """Hoeffding's decomposition U_n = E U_n + 2·T_n + W_n of a ranking risk.

    `value` is U_n (L_n, or Λ_n of `hoeffding_decomposition(best=...)`), `mean` its expectation,
    `projection` h at every item of the sample, `linear` T_n = mean of h, and `degenerate` W_n.

    Examples
    --------
    >>> population = [0, 0, 1, 1], [1.0, 3.0, 2.0, 4.0]
    >>> parts = hoeffding_decomposition([0, 1, 1], [3.0, 2.0, 4.0], population)
    >>> parts.projection.tolist()
    [0.125, 0.125, -0.125]
    """

    value: float
    mean: float
    linear: float
    degenerate: float
    projection: Floats = field(repr=False, compare=False)


def hoeffding_decomposition(
    y: ArrayLike,
    scores: ArrayLike,
    population: tuple[ArrayLike, ArrayLike],
    *,
    best: tuple[ArrayLike, ArrayLike] | None = None,
    ties: str = "half",
) -> Decomposition:
    """Split the ranking risk of a sample into its mean, a sum over items, and a remainder.

    With the kernel q(i, j) = k_ij of `ranking_risk`, h(i) = E q(i, X') − E q(X, X'); then
    L_n = L + 2·T_n + W_n, where T_n is the mean of h over the sample and W_n a degenerate
    U-statistic. With `best`, the kernel is k_ij of the scores less k_ij of the best scores, L_n
    and L become the excess risks Λ_n and Λ, and h becomes h_r of section 5. O((n + N)²).
    Reference: Clémençon, Lugosi, Vayatis (2005), sections 2 and 5.

    Parameters
    ----------
    y, scores : array-like of shape (n,)
        Labels and scores of the sample.
    population : (labels, scores), two array-likes of shape (N,)
        The finite population that items are drawn from, independently and with equal chances. A
        large sample from another distribution makes it a Monte-Carlo estimate.
    best : (scores of the sample, scores of the population), optional
        Those of an optimal scoring function s*.
    ties : {"half", "wrong"}, default "half"
        How equal scores of items with different labels count.

    Examples
    --------
    >>> population = [0, 0, 1, 1], [1.0, 3.0, 2.0, 4.0]
    >>> parts = hoeffding_decomposition([0, 1, 1], [3.0, 2.0, 4.0], population)
    >>> print(f"{parts.value:.4f} = {parts.mean} + 2 · {parts.linear:.4f} + {parts.degenerate:.4f}")
    0.3333 = 0.125 + 2 · 0.0417 + 0.1250
    """
    check_choice("ties", ties, ("half", "wrong"))
    tie = 0.5 if ties == "half" else 1.0
    labels = check_column(y, "y")
    if labels.size < 2:
        raise ValueError(f"y has {labels.size} items; give at least two")
    grades = check_column(population[0], "labels of the population")
    kernels = [(scores, population[1], 1.0)]
    kernels += [] if best is None else [(*best, -1.0)]
    own, mean, value = np.zeros(labels.size), 0.0, 0.0
    for of_sample, of_all, sign in kernels:
        sample_scores = check_column(of_sample, "scores", labels.size, infinite=True)
        population_scores = check_column(
            of_all, "scores of the population", grades.size, infinite=True
        )
        own += sign * _mean_errors(labels, sample_scores, grades, population_scores, tie)
        mean += sign * float(
            _mean_errors(grades, population_scores, grades, population_scores, tie).mean()
        )
        inside = float(_mean_errors(labels, sample_scores, labels, sample_scores, tie).mean())
        value += sign * inside * labels.size / (labels.size - 1)
    linear = float(np.mean(own - mean))
    return Decomposition(value, mean, linear, value - mean - 2 * linear, own - mean)


def _mean_errors(y: Floats, s: Floats, other_y: Floats, other_s: Floats, tie: float) -> Floats:
    """Return the mean error of every item against all others of a second list."""
    return np.array(
        [_order_errors(y[i], s[i], other_y, other_s, tie).mean() for i in range(y.size)]
    )


def _order_errors(y: Floats, s: Floats, other_y: Floats, other_s: Floats, tie: float) -> Floats:
    """Return k of `ranking_risk` for pairs of items, elementwise; scores may be infinite."""
    misordered = ((y > other_y) & (s < other_s)) | ((y < other_y) & (s > other_s))
    return np.where(misordered, 1.0, np.where((y != other_y) & (s == other_s), tie, 0.0))


def auc(
    y: ArrayLike,
    scores: ArrayLike,
    *,
    scale: str = "logit",
    method: str = "asymptotic",
    random_state: RandomState = None,
) -> Estimate:
    """Estimate the area under the ROC curve of two classes, with DeLong's standard error.

    AUC = P(s(X⁺) > s(X⁻)) + ½ P(s(X⁺) = s(X⁻)) = 1 − pair error, in O(n log n). (The paper's
    P(s(X) ≥ s(X') | …) counts ties as right, its 1 − L/(2p(1 − p)) half: we follow the second.)
    References: DeLong, DeLong, Clarke-Pearson (1988); CLV (2005), example 1.

    Parameters
    ----------
    y, scores : array-like of shape (n,)
        Labels with exactly two values, the larger being the positive class, or a `Judgments`
        with two grades and no queries; scores.
    scale : {"logit", "unit"}, default "logit"
        Asymptotic interval on the logit scale, which stays inside (0, 1) and follows the skew
        of a high AUC; or symmetric about the value and cut to [0, 1].
    method : {"asymptotic", "bernstein", "bootstrap"}, default "asymptotic"
        As in `ranking_risk`. Bernstein's inequality holds given the class sizes, with
        min(n⁺, n⁻) in place of ⌊n/2⌋, by the same argument on two samples.
    random_state : None, int or numpy.random.Generator
        Used by the bootstrap only.

    Examples
    --------
    >>> print(auc([0, 0, 0, 0, 1, 1, 1, 1], [1, 2, 3, 6, 4, 5, 7, 8]))
    AUC 0.8750, 95 % interval 0.1840 to 0.9954
      standard error 0.1443, asymptotic; 8 items, 16 pairs
    """
    check_choice("scale", scale, ("logit", "unit"))
    sample = _Sample.build(*read_sample(y, one_list="auc"))
    if sample.strata is None:
        grades = int(sample.grade.max()) + 1
        raise ValueError(f"auc needs two classes, y has {grades}; use ranking_risk for grades")
    # Negated scores are wrong in exactly the pairs that were right; ties stay half.
    ratio = sample.ratio(-check_column(scores, "scores", infinite=True), "comparable", 0.5)
    return _estimate(ratio, method, random_state, quantity="AUC", scale=scale)


def of_one_list(metric: str, y: ArrayLike, scores: ArrayLike) -> Estimate | None:
    """Estimate a metric of a single list, the item being the unit; None where none is known.

    >>> of_one_list("auc", [0, 1, 1], [1, 2, 3]).value, of_one_list("mrr", [0, 1], [1, 2])
    (1.0, None)
    """
    if metric == "auc":
        return auc(y, scores)
    if RISK_METRICS.get(metric) == "comparable":
        return ranking_risk(y, scores, pairs="comparable")
    return None


def mean_metric(
    values: ArrayLike,
    *,
    scale: str = "plain",
    method: str = "asymptotic",
    random_state: RandomState = None,
) -> Estimate:
    """Estimate the mean of a metric over independent queries from one value per query.

    value = mean(v) and std_error = sd(v) / √Q, with Student's t of Q − 1 degrees (1908). O(Q).

    Parameters
    ----------
    values : array-like of shape (n_queries,)
        One value per query, for example NDCG; NaN marks a query without one and is skipped.
    scale : {"plain", "unit"}, default "plain"
        "unit" cuts the interval to [0, 1], for metrics that lie there.
    method : {"asymptotic", "bernstein", "bootstrap"}, default "asymptotic"
        "bernstein" needs values within [0, 1], and then holds for every Q.
    random_state : None, int or numpy.random.Generator
        Used by the bootstrap only.

    Examples
    --------
    >>> print(mean_metric([0.2, 0.9, float("nan"), 0.7, 0.8], scale="unit"))
    mean 0.6500, 95 % interval 0.1553 to 1.0000
      standard error 0.1555, asymptotic; 4 queries, 1 skipped
    """
    check_choice("scale", scale, ("plain", "unit"))
    numbers = check_column(values, "values", missing=True)
    kept = numbers[~np.isnan(numbers)]
    if not len(kept):
        raise ValueError(f"0 values of {len(numbers)}; give finite ones, not all NaN")
    options = {"method='bernstein'": method == "bernstein", "scale='unit'": scale == "unit"}
    for option, is_given in options.items():
        if is_given and (kept.min() < 0 or kept.max() > 1):
            given = f"values from {kept.min():g} to {kept.max():g}"
            raise ValueError(f"{given}; {option} needs them in [0, 1], rescale them")
    counts = {"n_items": len(kept), "n_pairs": 0, "n_skipped": len(numbers) - len(kept)}
    ratio = _Ratio(kept, np.ones(len(kept)), 1, counts, blocks=len(kept))
    return _estimate(ratio, method, random_state, quantity="mean", scale=scale)


def compare(
    y: ArrayLike | Judgments,
    scores_a: ArrayLike,
    scores_b: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    metric: str | Metric = "ranking_risk",
    method: str = "asymptotic",
    random_state: RandomState = None,
    group: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> Comparison:
    """Compare two rankers on the same data by paired differences.

    The difference has the influence values ψᵃ − ψᵇ, unit by unit, and the standard error
    √(Var(ψᵃ − ψᵇ)/N): what both get wrong cancels (Clémençon, Lugosi, Vayatis 2005, section 2;
    for two grades DeLong's test, 1988). O(n log n), times 1999 to randomize items.

    Parameters
    ----------
    y, scores_a, scores_b : array-like of shape (n,)
        Labels, or a `Judgments` (grades with their queries, or listed pairs as in
        `ranking_risk`); the scores of the two rankers.
    qid : array-like of shape (n,), optional
        Query of each item; then the query is the independent unit, otherwise the item is.
        `group`, the sizes of the queries of rows sorted by query (as in LightGBM), may replace it.
    metric : str, default "ranking_risk"
        "ranking_risk", "pair_error", "pooled_pair_error", "pairwise_accuracy" or "auc" (of
        several grades: 1 − pair error; "auc(relevant=1)" is that of `evaluate`), in which equal
        scores count half, or any other metric of `precede.metrics.evaluate`, such as
        "ndcg@10", in which they count as the worse order, which is its default. With queries
        all are means over queries but "pooled_pair_error", which counts every pair alike. The
        result says so in its `convention`. Without `qid`, metrics other than the first five are
        compared by the bootstrap.
    method : {"asymptotic", "randomization", "bootstrap"}, default "asymptotic"
        t test on the paired differences, or a randomization test. With queries that exchanges
        the two results of a query (all 2^Q ways up to Q = 13, else 9999 at random); without,
        the two mid-ranks of an item (1999 at random): ranks, as scores share no scale.
        "bootstrap" is for one list: the standard error is that of the difference over resamples
        of the items (within each class if there are two), the same for both rankers, and the p
        value is that of a normal distribution. 2000 resamples, fewer above 10,000 items.
    random_state : None, int or numpy.random.Generator
        Used by the randomization test and the bootstrap only.
    groups : array-like with one identifier per listed pair, then one per tie; optional
        As in `ranking_risk`: the group is then the independent unit.

    Examples
    --------
    >>> y = [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]
    >>> good, poor = [1, 2, 3, 4, 7, 5, 6, 8, 9, 10], [3, 8, 1, 10, 5, 2, 9, 4, 6, 7]
    >>> print(compare(y, good, poor, metric="auc", method="randomization", random_state=0))
    auc (ties half): a 0.9200, b 0.5200
      difference +0.4000, 95 % interval -0.1783 to +0.9783, p = 0.128
      randomization, 10 items, the two mid-ranks of each item exchanged, 1999 times
    """
    check_choice("method", method, ("asymptotic", "bootstrap", "randomization"))
    qid = qid_or_group(y, qid, group)
    sample = _read(y, qid, groups)
    scores = [
        check_column(values, name, sample.n_rows, infinite=True)
        for name, values in (("scores_a", scores_a), ("scores_b", scores_b))
    ]
    name = metric if isinstance(metric, str) and metric in RISK_METRICS else str(metric_of(metric))
    simple = name in (*RISK_METRICS, *IN_ORDER)
    if name == "auc" and isinstance(sample, _ListedSample):
        simple = False
    one_list = isinstance(sample, _Sample) and not sample.queries
    if method == "bootstrap" or (one_list and not simple):
        return _bootstrapped(sample, scores, name, method, random_state)
    if not simple:
        first, second = _metric_ratios(y, scores, qid, name, sample)
    elif name in IN_ORDER:  # negated scores are wrong in exactly the pairs that were right
        first, second = (sample.ratio(-values, "comparable", 0.5) for values in scores)
    else:
        first, second = (sample.ratio(values, RISK_METRICS[name], 0.5) for values in scores)
    if sample.unit != "item" and first.n_units < 2:
        raise ValueError(f"{first.obstacle()}, or no qid to take the items as independent")
    error, degrees, reason = first.standard_error(second)
    difference = first.value - second.value
    p_value, exchanged, n_draws = None, "", 0
    if method == "randomization":
        p_value, exchanged, n_draws = _randomize(sample, (first, second), scores, random_state)
    elif error is not None:
        p_value = float(2 * stdtr(degrees, -abs(difference) / error))
    elif np.array_equal(first.numerator, second.numerator):
        p_value = 1.0
    return Comparison(
        name, first.value, second.value, difference, error, p_value, method, sample.unit,
        first.n_units,
        n_skipped=first.counts["n_skipped"], exchanged=exchanged, n_draws=n_draws, reason=reason,
        convention=_convention(name, sample.unit), degrees=degrees, span=_span(name),
    )  # fmt: skip


def _ties(name: str) -> str:
    """Return the `ties` of `Policy` for a metric: "average" (half) in shares of pairs."""
    return "average" if name in RISK_METRICS or metric_of(name).definition.by_pairs else "worst"


def _convention(name: str, unit: str) -> str:
    """Describe the units of a comparison and the convention for equal scores."""
    ties = "half" if _ties(name) == "average" else "worst"
    over = {"query": "mean over queries, ", "group": "pooled over groups, "}.get(unit, "")
    return ("pooled over queries, " if name == "pooled_pair_error" else over) + f"ties {ties}"


def _span(name: str) -> float:
    """Return the most that two values of a metric can differ."""
    least, most = (0.0, 1.0) if name in RISK_METRICS else metric_of(name).definition.bounds
    return most - least


def holm(p_values: ArrayLike) -> Floats:
    """Adjust p values for multiple comparisons by Holm's step-down rule.

    The k-th smallest of m becomes the maximum over j ≤ k of min(1, (m − j + 1)·p_(j)), in the
    order given: rejecting where it is at most α keeps the chance of any false rejection within
    α, whatever the dependence. O(m log m). Reference: Holm (1979).

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    raw = check_column(p_values, "p_values", empty=True)
    if ((raw < 0) | (raw > 1)).any():
        raise ValueError(f"p values from {raw.min():g} to {raw.max():g}; they must lie in [0, 1]")
    order = np.argsort(raw, kind="stable")
    stepped = np.minimum(1.0, raw[order] * np.arange(len(raw), 0, -1))
    return np.maximum.accumulate(stepped)[np.argsort(order)]


def friedman(
    table: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    level: float = 0.95,
    larger_is_better: bool = True,
) -> RankComparison:
    """Compare k rankers over N data sets by their ranks (Friedman's test, then Nemenyi's).

    χ² = N²(k − 1)·Σ_j (R̄_j − (k+1)/2)² / Σ_ij (r_ij − (k+1)/2)², which holds with ties and is
    12N/(k(k+1))·Σ_j (R̄_j − (k+1)/2)² without them. O(N k log k).
    References: Friedman (1937); Nemenyi (1963); Demšar, JMLR 7 (2006), section 3.2.

    Parameters
    ----------
    table, names : array-like of shape (n_datasets, n_rankers), sequence of str
        One metric value per data set and ranker; names of the rankers.
    level, larger_is_better : float, bool
        Family-wise confidence of the critical difference; False for errors and risks.

    Examples
    --------
    >>> friedman([[1, 2, 3], [1, 2, 3], [1, 3, 2], [1, 2, 3]]).average_ranks
    (1.25, 1.75, 3.0)
    """
    grid = to_numbers(table, "table")
    if grid.ndim != 2 or min(grid.shape) < 2 or np.isnan(grid).any():
        raise ValueError(f"table of shape {grid.shape}; give 2 x 2 values or more, without NaN")
    n_datasets, n_rankers = grid.shape
    labels = [f"ranker {j}" for j in range(n_rankers)] if names is None else names
    if not isinstance(labels, Sequence | np.ndarray) or isinstance(labels, str):
        raise ValueError(f"names={names!r}; give a list of names, one per column")
    if len(labels) != n_rankers:
        raise ValueError(f"{len(labels)} names for {n_rankers} rankers; give one per column")
    ranks = np.stack([_mid_ranks(-row if larger_is_better else row) for row in grid])
    middle, means = (n_rankers + 1) / 2, ranks.mean(axis=0)
    spread = float(((ranks - middle) ** 2).sum())
    if spread == 0:
        raise ValueError("every data set ties all rankers; there is nothing to compare")
    statistic = n_datasets**2 * (n_rankers - 1) * float(((means - middle) ** 2).sum()) / spread
    order = np.argsort(means, kind="stable")
    best_first, means = tuple(str(labels[j]) for j in order), means[order]
    critical = nemenyi(n_rankers, n_datasets, level=level)
    groups, reach = [], 0
    for start, mean in enumerate(means):
        stop = int(np.searchsorted(means, mean + critical * (1 + 1e-12), side="right"))
        # A run inside the one before it would be a bar below a longer bar.
        if stop > max(reach, start + 1):
            groups.append(best_first[start:stop])
        reach = max(reach, stop)
    p_value, ranked = float(chdtrc(n_rankers - 1, statistic)), tuple(means.tolist())
    found = (best_first, ranked, statistic, p_value, critical, level, tuple(groups), n_datasets)
    return RankComparison(*found)


def nemenyi(n_rankers: int, n_datasets: int, *, level: float = 0.95) -> float:
    """Return Nemenyi's critical difference of average ranks of k rankers on N data sets.

    CD = q·√(k(k+1)/(6N)), with q the quantile of the studentized range divided by √2.
    References: Nemenyi (1963); Demšar, JMLR 7 (2006), table 5.

    Examples
    --------
    >>> f"{nemenyi(4, 14):.2f}"
    '1.25'
    """
    from scipy.stats import studentized_range  # noqa: PLC0415 - slow to import, rarely needed

    whole = all(isinstance(each, int | np.integer) for each in (n_rankers, n_datasets))
    if not (whole and n_rankers >= 2 and n_datasets >= 1):
        given = f"n_rankers={n_rankers!r}, n_datasets={n_datasets!r}"
        raise ValueError(f"{given}; give at least 2 rankers and 1 data set")
    quantile = studentized_range.ppf(1 - 2 * upper_tail(level), n_rankers, np.inf) / math.sqrt(2)
    return float(quantile * math.sqrt(n_rankers * (n_rankers + 1) / (6 * n_datasets)))


@dataclass(frozen=True)
class _Ratio:
    """Σ numerator / Σ denominator over independent units, and its jackknife.

    A pair belongs to two items but to one query: leaving out a unit subtracts `share` (2 or 1)
    times its terms. `blocks` is the number of independent terms in Bernstein's inequality (0 if it
    does not apply); `strata` are DeLong's classes. `dyads` are numerators and denominators summed
    over the listed pairs of the same two items.
    """

    numerator: Floats
    denominator: Floats
    share: int
    counts: dict[str, int]
    blocks: int = 0
    strata: Integers | None = None
    redraw: Callable[[Floats], float] | None = None
    dyads: Floats | None = None

    @property
    def n_units(self) -> int:
        return len(self.numerator)

    @property
    def value(self) -> float:
        return float(self.numerator.sum() / self.denominator.sum())

    def influence(self) -> Floats:
        """Return the influence of each unit on the value, by the jackknife."""
        if self.strata is not None:
            return self.numerator / self.denominator
        left = self.denominator.sum() - self.share * self.denominator
        gap = self.numerator - self.value * self.denominator
        return self.share * (self.n_units - 1) * gap / left

    def obstacle(self) -> str:
        """Return the reason why there is no standard error; empty if there is one."""
        one, many = ("query", "queries") if self.share == 1 else ("item", "items")
        if self.n_units < 1 + self.share:
            return f"independent {many}: {self.n_units}; give at least {1 + self.share}"
        if self.strata is not None:
            lonely = np.bincount(self.strata).min() < 2
            return "one class holds a single item; DeLong needs two of each" if lonely else ""
        needed = (self.share * self.denominator >= self.denominator.sum()).any()
        return f"one {one} is part of every pair; without it none is left" if needed else ""

    def standard_error(self, other: _Ratio | None = None) -> tuple[float | None, float, str]:
        """Return the standard error (of the difference), degrees of freedom, and obstacle."""
        reason = self.obstacle()
        if reason:
            return None, math.inf, reason
        psi, scale = self.influence(), abs(self.value)
        if other is not None:
            psi, scale = psi - other.influence(), max(scale, abs(other.value))
        if self.dyads is not None:
            return self._dyadic_error(psi, other)
        parts = [psi] if self.strata is None else [psi[self.strata == s] for s in (0, 1)]
        if all(np.ptp(part) <= 1e-12 * scale for part in parts):
            remedy = "; use method='bernstein'" if other is None and self.blocks else ""
            return None, math.inf, f"all units agree, so the estimated error would be 0{remedy}"
        variances = np.array([part.var(ddof=1) / len(part) for part in parts])
        sizes = np.array([len(part) for part in parts])
        # Welch's degrees for two classes; otherwise the effective number of units, less one:
        # where a few large queries carry a ratio, Q − 1 would promise too much.
        degrees = variances.sum() ** 2 / (variances**2 / (sizes - 1)).sum()
        if self.strata is None:
            degrees = self.denominator.sum() ** 2 / (self.denominator**2).sum() - 1
        return math.sqrt(variances.sum()), float(degrees), ""

    def _dyadic_error(self, psi: Floats, other: _Ratio | None) -> tuple[float | None, float, str]:
        """Return the standard error with the pairs of items, counted twice, subtracted once."""
        assert self.dyads is not None
        numerator, weight = self.dyads
        off = numerator - self.value * weight
        if other is not None and other.dyads is not None:
            off = off - (other.dyads[0] - other.value * weight)
        if np.abs(off).max() <= 1e-12 * weight.max():
            return None, math.inf, "all pairs agree, so the estimated error would be 0"
        alone = float(np.square(off / weight.sum()).sum())
        variance = max(psi.var(ddof=1) / len(psi) - alone, alone)
        units = (each.sum() ** 2 / np.square(each).sum() for each in (self.denominator, weight))
        return math.sqrt(variance), float(min(units)) - 1, ""

    def resample(self, rng: np.random.Generator) -> Floats:
        """Return the values of bootstrap samples of the units, without undefined ones."""
        replicates, size = np.empty(BOOTSTRAP_RESAMPLES), self.n_units
        for draw in range(BOOTSTRAP_RESAMPLES):
            weight = np.bincount(rng.integers(size, size=size), minlength=size).astype(np.float64)
            again = weight @ self.numerator / (weight @ self.denominator)
            replicates[draw] = again if self.redraw is None else self.redraw(weight)
        return replicates[~np.isnan(replicates)]


def _estimate(
    ratio: _Ratio,
    method: str,
    random_state: RandomState,
    *,
    quantity: str,
    scale: str = "logit",
    unit: str = "query",
) -> Estimate:
    check_choice("method", method, ("asymptotic", "bernstein", "bootstrap"))
    error, degrees, reason = ratio.standard_error()
    replicates = np.empty(0)
    if ratio.dyads is not None and method != "asymptotic":
        why = f"method={method!r} does not cover listed pairs that share items"
        raise ValueError(f"{why}; use method='asymptotic', or give qid or groups")
    if method == "bernstein":
        reason = ""
        if not ratio.blocks:
            why = f"the {quantity} is a ratio of sums, which it does not cover"
            raise ValueError(f"method='bernstein': {why}; use pairs='all' or method='asymptotic'")
    elif method == "bootstrap" and not reason:
        replicates = ratio.resample(np.random.default_rng(random_state))
        error, lost = float(replicates.std(ddof=1)), BOOTSTRAP_RESAMPLES - len(replicates)
        if lost > 0.05 * BOOTSTRAP_RESAMPLES:
            error, reason = None, f"{lost} of {BOOTSTRAP_RESAMPLES} resamples hold no pair"
    return Estimate(
        quantity, ratio.value, error, method, **ratio.counts,
        n_queries=ratio.n_units if ratio.share == 1 else None, reason=reason, scale=scale,
        degrees=degrees, blocks=ratio.blocks, unit=unit, replicates=replicates,
    )  # fmt: skip


@dataclass(frozen=True)
class _Sample:
    """Labels grouped by query and sorted by grade, independent of the scores."""

    order: Integers
    starts: Integers
    values: Floats
    grade: Integers
    comparable: Floats
    queries: bool
    strata: Integers | None

    @property
    def unit(self) -> str:
        return "query" if self.queries else "item"

    @property
    def n_rows(self) -> int:
        return len(self.grade)

    def wrong(self, ranks: Integers) -> float:
        """Count the errors over ordered pairs, equal ranks half."""
        ones = np.ones(len(self.grade))
        return float(_item_errors(self.starts, self.grade, ranks, ones, 0.5).sum())

    @classmethod
    def build(cls, y: ArrayLike, qid: ArrayLike | None) -> _Sample:
        labels = check_column(y, "y", infinite=True, empty=True)
        query = number_queries(qid, len(labels))[0]
        grade = np.unique(labels, return_inverse=True)[1]
        order = np.lexsort((grade, query))
        grade, query = grade[order], query[order]
        opens = np.diff(query, prepend=-1) != 0
        starts = np.append(np.flatnonzero(opens), len(grade))
        group = np.cumsum(opens | (np.diff(grade, prepend=-1) != 0)) - 1
        comparable = np.diff(starts)[query] - np.bincount(group)[group]
        if not comparable.any():
            where = "" if qid is None else " within any query"
            raise ValueError(f"no pair to order: no two of {len(labels)} labels differ{where}")
        strata = grade if qid is None and grade.max() == 1 else None
        counts, queries = comparable.astype(np.float64), qid is not None
        return cls(order, starts, labels[order], grade, counts, queries, strata)

    def ranks(self, scores: ArrayLike) -> Integers:
        """Return dense ranks 1, 2, … of the scores within each query."""
        size = len(self.grade)
        values = check_column(scores, "scores", size, infinite=True)
        code = np.unique(values[self.order], return_inverse=True)[1]
        base = size * np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
        distinct, rank = np.unique(base + code, return_inverse=True)
        return rank - np.searchsorted(distinct, base) + 1

    def ratio(self, scores: ArrayLike, pairs: str, tie: float) -> _Ratio:
        ranks, size = self.ranks(scores), len(self.grade)
        errors = _item_errors(self.starts, self.grade, ranks, np.ones(size), tie)
        if self.queries:
            return self._query_ratio(errors, pairs)
        if pairs == "pooled":
            raise ValueError("pooled pairs need qid; without queries use the comparable pairs")

        def redraw(weight: Floats) -> float:
            wrong = weight @ _item_errors(self.starts, self.grade, ranks, weight, tie)
            classes = np.bincount(self.grade, weights=weight)
            # An item drawn twice forms a pair with itself that is never wrong: n(n − 1) instead
            # of (n − 1)² would center the replicates below the estimate.
            total = (size - 1) ** 2 if pairs == "all" else size**2 - (classes**2).sum()
            return float(wrong / total) if total else math.nan

        counts = {"n_items": size, "n_pairs": int(self.comparable.sum()) // 2, "n_skipped": 0}
        if pairs == "all":
            counts["n_pairs"] = size * (size - 1) // 2
            return _Ratio(errors, np.full(size, size - 1.0), 2, counts, size // 2, None, redraw)
        smaller = 0 if self.strata is None else int(np.bincount(self.grade).min())
        return _Ratio(errors, self.comparable, 2, counts, smaller, self.strata, redraw)

    def _query_ratio(self, errors: Floats, pairs: str) -> _Ratio:
        sizes = np.diff(self.starts).astype(np.float64)
        wrong = np.add.reduceat(errors, self.starts[:-1])
        total = np.add.reduceat(self.comparable, self.starts[:-1])
        total = sizes * (sizes - 1) if pairs == "all" else total
        wrong, total = wrong[total > 0], total[total > 0]
        counts = {"n_items": len(errors), "n_pairs": int(total.sum()) // 2}
        counts["n_skipped"] = len(sizes) - len(total)
        if pairs == "pooled":
            return _Ratio(wrong, total, 1, counts)
        return _Ratio(wrong / total, np.ones(len(total)), 1, counts, blocks=len(total))


@dataclass(frozen=True)
class _ListedSample:
    """Explicit pairs, ties last; items are numbered by the `rows` that take part in a pair."""

    rows: Integers
    sides: Integers  # winners and losers, as items
    weight: Floats
    tied: Flags
    unit: str
    number: Integers  # of the query or group of every pair
    n_queries: int
    n_rows: int

    @classmethod
    def build(cls, y: Judgments, groups: ArrayLike | None) -> _ListedSample:
        if y.grade is not None:
            raise ValueError("y has grades and listed pairs; give a Judgments with one of the two")
        kinds = {"pairs": (y.pairs, y.pair_weight), "ties": (y.ties, y.tie_weight)}
        listed, weights, tied = [], [], []
        for name, (given, own) in kinds.items():
            pairs = np.zeros((0, 2), np.int64) if given is None else given
            check_within_queries(y, pairs, name)
            listed.append(pairs)
            weights.append(np.ones(len(pairs)) if own is None else own)
            tied.append(np.full(len(pairs), name == "ties"))
        sides, weight = np.concatenate(listed), np.concatenate(weights)
        unit, number, queries = "item", np.zeros(len(sides), np.int64), 0
        if y.qid is not None:
            unit, number, queries = "query", y._query()[sides[:, 1]], np.unique(y._query()).size
        if groups is not None:
            if y.qid is not None:
                raise ValueError("groups given with y.qid; give one of the two as the unit")
            unit, number = "group", number_queries(groups, name="groups")[0]
            if number.size != len(sides):
                message = f"groups has {number.size} values for {len(sides)} listed pairs and ties"
                raise ValueError(f"{message}; give one for each")
        kept = weight > 0
        rows, items = np.unique(sides[kept], return_inverse=True)
        ties = np.concatenate(tied)[kept]
        if ties.all():
            raise ValueError("no pair to order: no listed pair has a positive weight")
        items = items.reshape(-1, 2).T
        return cls(rows, items, weight[kept], ties, unit, number[kept], queries, len(y))

    def ranks(self, scores: ArrayLike) -> Integers:
        """Return dense ranks 1, 2, … of the scores of the items."""
        values = check_column(scores, "scores", self.n_rows, infinite=True)
        return np.unique(values[self.rows], return_inverse=True)[1] + 1

    def errors(self, ranks: Integers, tie: float) -> Floats:
        above, below = ranks[self.sides]
        wrong = np.where(above == below, tie, above < below)
        return np.where(self.tied, 0.0, self.weight * wrong)

    def wrong(self, ranks: Integers) -> float:
        """Sum the weights of the pairs in the wrong order, equal ranks half."""
        return float(self.errors(ranks, 0.5).sum())

    def ratio(self, scores: ArrayLike, pairs: str, tie: float) -> _Ratio:
        errors = self.errors(self.ranks(scores), tie)
        counted = np.ones(self.tied.size, bool) if pairs == "all" else ~self.tied
        errors, weight, number = errors[counted], self.weight[counted], self.number[counted]
        sides = self.sides[:, counted]
        counts = {"n_items": np.unique(sides).size, "n_pairs": weight.size, "n_skipped": 0}
        if self.unit != "query" and pairs == "pooled":
            raise ValueError("pooled pairs need qid; without queries use the comparable pairs")
        if self.unit == "item":
            return self._item_ratio(sides, errors, weight, counts)
        wrong, total = _sums_at(number, errors), _sums_at(number, weight)
        wrong, total = wrong[total > 0], total[total > 0]
        counts["n_skipped"] = self.n_queries - total.size if self.unit == "query" else 0
        if pairs == "pooled" or self.unit == "group":
            return _Ratio(wrong, total, 1, counts)
        return _Ratio(wrong / total, np.ones(total.size), 1, counts, blocks=total.size)

    def _item_ratio(
        self, sides: Integers, errors: Floats, weight: Floats, counts: dict[str, int]
    ) -> _Ratio:
        rows, item = np.unique(sides, return_inverse=True)
        item = item.reshape(sides.shape)
        both = np.stack([errors, weight])
        parts = [
            _sums_at(item[0], part, len(rows)) + _sums_at(item[1], part, len(rows)) for part in both
        ]
        dyad = np.unique(np.sort(item, axis=0).T @ [item.max() + 1, 1], return_inverse=True)[1]
        dyads = np.stack([_sums_at(dyad, part) for part in both])
        return _Ratio(parts[0], parts[1], 2, counts, dyads=dyads)


def _sums_at(index: Integers, values: Floats, count: int = 0) -> Floats:
    return np.bincount(index, values, count).astype(np.float64, copy=False)


def _read(
    y: ArrayLike | Judgments, qid: ArrayLike | None, groups: ArrayLike | None
) -> _Sample | _ListedSample:
    """Read labels, or the explicit pairs of a `Judgments`, with their independent units."""
    if isinstance(y, Judgments) and any(
        pairs is not None and len(pairs) for pairs in (y.pairs, y.ties)
    ):
        refuse_weights(y.weight)
        if qid is not None:
            raise ValueError("qid is given with a Judgments: put it inside")
        return _ListedSample.build(y, groups)
    if groups is not None:
        raise ValueError(
            "groups are of listed pairs, and y lists none; use qid for graded items, or group for "
            "the sizes of queries"
        )
    return _Sample.build(*read_sample(y, qid))


def _randomize(
    sample: _Sample | _ListedSample,
    ratios: tuple[_Ratio, _Ratio],
    scores: list[Floats],
    random_state: RandomState,
) -> tuple[float, str, int]:
    """Exchange the two results of queries, or the two mid-ranks of items, and compare the gaps.

    Return the p value, a description of what was exchanged, and the number of exchanges.
    """
    rng, by_item = np.random.default_rng(random_state), sample.unit == "item"
    gaps = ratios[0].numerator - ratios[1].numerator
    ranks = [np.rint(2 * _mid_ranks(sample.ranks(values))).astype(np.int64) for values in scores]
    size = len(ranks[0]) if by_item else ratios[0].n_units

    def gap(swap: Flags) -> float:
        if not by_item:
            return abs(float(np.where(swap, gaps, -gaps).sum()))
        turned = (np.where(swap, ranks[0], ranks[1]), np.where(swap, ranks[1], ranks[0]))
        return abs(sample.wrong(turned[0]) - sample.wrong(turned[1]))

    # Equal gaps differ by rounding; they must count as equal or p is too small.
    observed = gap(np.ones(size, dtype=bool)) - 1e-12 * np.abs(gaps).sum()
    what = f"the two {'mid-ranks' if by_item else 'results'} of each {sample.unit} exchanged"
    if not by_item and size <= 13:
        every = ((np.arange(2**size)[:, None] >> np.arange(size)) & 1) == 1
        return sum(gap(swap) >= observed for swap in every) / 2**size, what, 2**size
    n_draws = ITEM_DRAWS if by_item else QUERY_DRAWS
    beyond = sum(gap(rng.integers(2, size=size) == 1) >= observed for _ in range(n_draws))
    return (1 + beyond) / (1 + n_draws), what, n_draws


def _bootstrapped(
    sample: _Sample | _ListedSample,
    both: list[Floats],
    name: str,
    method: str,
    random_state: RandomState,
) -> Comparison:
    """Compare two rankings of one list by a metric, with a bootstrap over items."""
    if not isinstance(sample, _Sample) or sample.queries:
        raise ValueError("the bootstrap compares one graded list; use method='asymptotic'")
    if method == "randomization":
        raise ValueError(f"metric={name!r} on one list needs method='bootstrap'")
    chosen = metric_of(name)
    labels = np.empty(sample.n_rows)
    labels[sample.order] = sample.values
    judged = partial(evaluate, metrics=(chosen,), max_grade=float(labels.max()), ties=_ties(name))
    values = [judged(labels, scores).mean[str(chosen)] for scores in both]
    rng, size = np.random.default_rng(random_state), sample.n_rows
    draws = int(np.clip(BOOTSTRAP_ROWS // size, 200, BOOTSTRAP_RESAMPLES))
    strata = [np.arange(size)]
    if sample.strata is not None:
        strata = [np.flatnonzero(labels == grade) for grade in np.unique(labels)]
    found, at_once = [], max(1, (1 << 20) // size)
    for done in range(0, draws, at_once):
        number = min(at_once, draws - done)
        rows = np.concatenate(
            [part[rng.integers(part.size, size=(number, part.size))] for part in strata], axis=1
        )
        query = np.repeat(np.arange(number), size)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the original list has warned
            drawn = rows.ravel()
            tables = [judged(labels[drawn], scores[drawn], query) for scores in both]
        one, other = (next(iter(table.per_query.values())) for table in tables)
        found.append(one - other)
    gaps = np.concatenate(found)
    kept, difference = gaps[~np.isnan(gaps)], values[0] - values[1]
    error, reason = (float(kept.std(ddof=1)) if kept.size > 1 else 0.0), ""
    if kept.size < 0.95 * draws:
        error, reason = 0.0, f"{draws - kept.size} of {draws} resamples leave {chosen} undefined"
    elif error == 0:
        reason = f"{chosen} differs by {difference:g} in every resample"
    p_value = None if error == 0 else float(2 * ndtr(-abs(difference) / error))
    if p_value is None and np.array_equal(sample.ranks(both[0]), sample.ranks(both[1])):
        p_value, reason = 1.0, reason or "the rankings are equal"
    return Comparison(
        str(chosen), values[0], values[1], difference, error or None, p_value, "bootstrap", "item",
        size,
        exchanged="items resampled", n_draws=draws, reason=reason,
        convention=_convention(str(chosen), "item"), span=_span(str(chosen)),
    )  # fmt: skip


def _metric_ratios(
    y: ArrayLike | Judgments,
    both: list[Floats],
    qid: ArrayLike | None,
    metric: str,
    sample: _Sample | _ListedSample,
) -> list[_Ratio]:
    if sample.unit != "query":
        raise ValueError(f"metric={metric!r} needs qid or graded items; use 'pair_error'")
    ties = _ties(metric)
    tables = [
        evaluate(y, values, qid=qid, metrics=(metric,), ties=ties).per_query for values in both
    ]
    found = [next(iter(table.values())) for table in tables]  # keys are in canonical form
    kept = ~np.isnan(found).any(axis=0)
    counts, ones = {"n_skipped": int((~kept).sum())}, np.ones(int(kept.sum()))
    return [_Ratio(np.asarray(values)[kept], ones, 1, counts) for values in found]


def _mid_ranks(values: Array) -> Floats:
    _, code, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[code]


def _bernstein_ends(value: float, blocks: int, alpha: float) -> tuple[float, float]:
    """Solve blocks·t² = ln(2/α)·(2L(1 − L) + 2t/3) with L = value ± t: two quadratics in t."""
    bound = math.log(2 / alpha)
    square, constant = blocks + 2 * bound, 2 * bound * value * (1 - value)
    middle = [bound * (sign * (1 - 2 * value) + 1 / 3) for sign in (-1, 1)]
    down, up = ((half + math.sqrt(half**2 + square * constant)) / square for half in middle)
    return max(value - down, 0.0), min(value + up, 1.0)


# Items of a query are sorted by increasing grade; a Fenwick tree adds up the scores seen so far.
#
#     grade   0 0 0 | 1 1 | 2 2 2      rising: wrong against lower grades with higher scores
#              seen -> now ->          falling: wrong against higher grades with lower scores
# All items of a grade query the tree before they are added, so that equal grades form no pairs.


def _item_errors(
    starts: Integers, grade: Integers, rank: Integers, weight: Floats, tie: float
) -> Floats:
    """Return, for each item, the weight of misordered items of other grades, ties in part."""
    errors, tree = np.zeros(grade.size), np.zeros(int(rank.max(initial=0)) + 1)
    _add_item_errors(starts, grade, rank, weight, tie, tree, errors)
    return errors


@njit(cache=True, nogil=True)
def _add_item_errors(
    starts: Integers, grade: Integers, rank: Integers, weight: Floats, tie: float, tree: Floats,
    errors: Floats,
) -> None:  # fmt: skip
    """See `_item_errors`; `tree` has a node for each rank."""
    for query in range(starts.size - 1):
        low, high = starts[query], starts[query + 1]
        for falling in range(2):
            highest = np.int64(0)
            for item in range(low, high):
                highest = fmax(highest, rank[item])
            for node in range(highest + 1):
                tree[node] = 0.0
            direction = 1 - 2 * falling
            group, seen = low if falling == 0 else high - 1, 0.0
            while low <= group < high:
                end = group
                while low <= end < high and grade[end] == grade[group]:
                    below = sum_of_fenwick_tree(tree, rank[end] - 1)
                    equal = sum_of_fenwick_tree(tree, rank[end]) - below
                    wrong = below if falling == 1 else seen - equal - below
                    errors[end] += wrong + tie * equal
                    end += direction
                for item in range(group, end, direction):
                    seen += weight[item]
                    add_to_fenwick_tree(tree, rank[item], weight[item])
                group = end
