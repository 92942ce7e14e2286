"""The top of a list with two classes: measures with intervals, and figures.

`top_of_list` computes measures; `Curve`, `strip` and `crossover` prepare the data of the drawing
functions, which draw counts rather than rates, since rates are too small at the top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from precede.engine.arrays import Flags, Floats, Integers, Json, RandomState
from precede.engine.parameters import check_integer, upper_tail
from precede.judgments import check_column, grades_of, read_sample
from precede.plots.drawing import Chart, Layer, Line, Segments
from precede.results import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "Curve",
    "TopOfList",
    "crossover",
    "draw_curves",
    "draw_strips",
    "strip",
    "top_of_list",
]

FIRST_NEGATIVE = "positives_above_first_negative"


# -- measuring -------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class TopOfList(Result):
    """Measures of the top of a list and their intervals.

    `value` and `interval` are by name. The interval of the number of positives above the first
    negative is None: it depends on a single row, for which the bootstrap is not valid.
    """

    value: dict[str, float]
    interval: dict[str, tuple[float, float] | None]
    level: float

    def rows(self) -> list[Json]:
        """Return the value of each measure, with its interval as text."""
        rows = []
        for name, value in self.value.items():
            ends = self.interval[name]
            shown = "-" if ends is None else "[{:.4f}, {:.4f}]".format(*ends)
            rows.append({"measure": name, "value": value, f"{self.level:.0%} interval": shown})
        return rows

    __repr__ = Result.__str__

    def to_dict(self) -> Json:
        """Return plain values, for JSON."""
        return {
            name: {"value": value, "interval": self.interval[name], "level": self.level}
            for name, value in self.value.items()
        }


def top_of_list(
    y: ArrayLike,
    scores: ArrayLike,
    *,
    count: Sequence[int] = (10, 100),
    fraction: Sequence[float] = (0.01, 0.1),
    power: Sequence[float] = (4,),
    level: float = 0.95,
    draws: int = 1000,
    random_state: RandomState = 0,
) -> TopOfList:
    """Measure the top of one list of two classes.

    Return the positives above the first negative, precision and recall among the first `count`
    rows and the first `fraction` of all rows, the partial area under the ROC curve up to each
    fraction of the negatives (divided by that fraction), the whole area, and Rudin's
    ``R^p = (mean_k (share of the positives not above negative k)^p)^(1/p)``.

    Parameters
    ----------
    y : array of two classes, the greater of which should rank first
    scores : array of finite numbers; a positive ranks below the negatives it is tied with
    level, draws, random_state
        Intervals are percentiles over `draws` samples, with replacement, of the positives and
        of the negatives, each as many as there are.

    Notes
    -----
    O(n log n) to sort and O(n) for each draw, which does not sort again. The values are those of
    `precede.metrics.evaluate` and `precede.bounds.push_risk`.

    References
    ----------
    Rudin, *Ranking with a P-Norm Push*, 2005, sections 2 and 5. Efron & Tibshirani, *An
    Introduction to the Bootstrap*, 1993, section 13.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 200)
    >>> seen = top_of_list(y, y + rng.normal(size=400), count=[50], fraction=[0.1])
    >>> seen.value["positives_above_first_negative"], seen.interval["auc"][0] < seen.value["auc"]
    (27.0, True)
    """
    positive = _sorted_labels(y, scores)
    measures = _measures(positive.size, count, fraction, power)
    tail = 100 * upper_tail(level)
    check_integer("draws", draws, least=2)
    generator = check_random_state(random_state)
    value = _measure(positive, np.ones(positive.size), measures)
    found = [
        list(_measure(positive, _resampled(positive, generator), measures).values())
        for _ in range(draws)
    ]
    ends = np.percentile(found, [tail, 100 - tail], axis=0).T.tolist()
    intervals = {name: (low, high) for name, (low, high) in zip(value, ends, strict=True)}
    return TopOfList(value, {**intervals, FIRST_NEGATIVE: None}, level)


def _sorted_labels(y: ArrayLike, scores: ArrayLike) -> Flags:
    """Return whether each row is a positive, from the top; in ties negatives come first."""
    labels = grades_of(read_sample(y, one_list="the top of a list")[0])[0]
    values = check_column(scores, "scores", labels.size)
    classes = np.unique(labels)
    if classes.size != 2:
        raise ValueError(f"y has {classes.size} classes; the top of a list needs two")
    positive = labels == classes[1]
    return positive[np.lexsort((positive, -values))]


def _measures(
    rows: int, count: Sequence[int], fraction: Sequence[float], power: Sequence[float]
) -> dict[str, tuple[str, float]]:
    """Return the kind and the argument of each measure; a count becomes a share of the rows."""
    for k in count:
        if not isinstance(k, int | np.integer) or k < 1:
            raise ValueError(f"count holds {k!r}; use whole numbers from 1")
    for share in fraction:
        if not 0 < share <= 1:
            raise ValueError(f"fraction holds {share!r}; use numbers above 0, up to 1")
    for p in power:
        if not 1 <= p < np.inf:
            raise ValueError(f"power holds {p!r}; use numbers from 1")
    measures = {FIRST_NEGATIVE: (FIRST_NEGATIVE, 0.0)}
    for kind in ("precision", "recall"):
        measures |= {f"{kind}@{k}": (kind, k / rows) for k in count}
        measures |= {f"{kind}@{100 * share:g}%": (kind, share) for share in fraction}
    measures |= {f"partial_auc@{share:g}": ("area", share) for share in fraction}
    measures |= {f"push_risk@{p:g}": ("push_risk", p) for p in power}
    return {**measures, "auc": ("area", 1.0)}


def _measure(
    positive: Flags, times: Floats, measures: dict[str, tuple[str, float]]
) -> dict[str, float]:
    """Compute the measures of a list in which each row occurs `times` times."""
    seen, positives_seen = np.cumsum(times), np.cumsum(times * positive)
    positives = positives_seen[-1]
    above, negatives = positives_seen[~positive], times[~positive]  # of each negative
    passed, area = np.cumsum(negatives), np.cumsum(negatives * above)

    def positives_within(cut: float) -> float:
        last = min(int(np.searchsorted(seen, cut)), seen.size - 1)
        return positives_seen[last] - positive[last] * max(seen[last] - cut, 0.0)

    def compute(kind: str, argument: float) -> float:
        if kind == FIRST_NEGATIVE:
            return above[np.argmax(negatives > 0)]
        if kind == "push_risk":
            shares = ((positives - above) / positives) ** argument
            return (np.sum(negatives * shares) / passed[-1]) ** (1.0 / argument)
        if kind == "area":  # up to a share of the negatives, the last of them in part
            most = argument * passed[-1]
            last = np.searchsorted(passed, most)
            return (area[last] - (passed[last] - most) * above[last]) / (most * positives)
        cut = max(1.0, np.ceil(argument * seen[-1] - 1e-9))
        return positives_within(cut) / (cut if kind == "precision" else positives)

    return {name: float(compute(*measure)) for name, measure in measures.items()}


def _resampled(positive: Flags, generator: np.random.RandomState) -> Floats:
    """Return how often each row occurs in a bootstrap sample, stratified by class."""
    times = np.empty(positive.size)
    for side in (True, False):
        where = np.flatnonzero(positive == side)
        drawn = generator.randint(where.size, size=where.size)
        times[where] = np.bincount(drawn, minlength=where.size)
    return times


# -- curves, strips, crossings ---------------------------------------------------------------


@dataclass(frozen=True)
class Curve:
    """True positives against false positives, in counts, from the top of the list down.

    ``positives[k]`` is the number of positives above the (k+1)-th negative; ties as for
    `top_of_list`.

    >>> Curve.of([1, 1, 0, 1, 0], [5, 4, 3, 2, 1]).positives
    array([2., 3., 3.])
    """

    positives: Floats

    @classmethod
    def of(cls, y: ArrayLike, scores: ArrayLike) -> Curve:
        """Return the curve of one ranking: O(n log n)."""
        positive = _sorted_labels(y, scores)
        above = np.cumsum(positive)[~positive]
        return cls(np.append(above, positive.sum()).astype(np.float64))

    @classmethod
    def mean(cls, curves: Sequence[Curve]) -> Curve:
        """Return the mean of several curves, up to the length of the shortest."""
        shortest = min(curve.positives.size for curve in curves)
        return cls(np.mean([curve.positives[:shortest] for curve in curves], axis=0))


def strip(y: ArrayLike, scores: ArrayLike) -> Integers:
    """Return the ranks of the positives in the list.

    >>> strip([1, 0, 1, 0], [4, 3, 2, 1])
    array([1, 3])
    """
    positive = _sorted_labels(y, scores)
    return np.flatnonzero(positive) + 1


def crossover(steeper: Curve, flatter: Curve) -> int | None:
    """Return the first count of negatives at which the steeper push has fewer positives above.

    Above it the list of the steeper push is better, below it may be worse. None if there is no
    such count.

    >>> crossover(Curve(np.array([3.0, 4.0, 4.0])), Curve(np.array([1.0, 4.0, 5.0])))
    3
    """
    size = min(steeper.positives.size, flatter.positives.size)
    behind = np.flatnonzero(steeper.positives[:size] < flatter.positives[:size])
    return int(behind[0]) + 1 if behind.size else None


def draw_curves(
    curves: Mapping[str, Curve],
    ax: Axes | None = None,
    *,
    negatives: int | None = None,
    crossovers: bool = False,
) -> Axes:
    """Draw the left end of ROC curves in counts, one line for each name.

    Parameters
    ----------
    curves : curves by name; the others are compared with the first
    negatives : number of false positives to show; by default all
    crossovers : whether to mark where each curve first falls below the first curve

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> curve = Curve.of([1, 1, 0, 1, 0], [5, 4, 3, 2, 1])
    >>> ax = draw_curves({"p = 1": curve}, negatives=2)
    >>> ax.get_xlabel()
    'negatives passed'
    """
    longest = max(curve.positives.size for curve in curves.values())
    shown = longest if negatives is None else min(negatives, longest)
    first = next(iter(curves.values()))
    lines: list[Layer] = []
    marks: list[Layer] = []
    for depth, (name, curve) in zip(_depths(len(curves)), curves.items(), strict=True):
        points = curve.positives[:shown]
        at = np.arange(1, points.size + 1)
        lines.append(Line(at, points, name, stepped=True, depth=depth))
        where = crossover(curve, first) if crossovers else None
        if where is not None and where <= shown:
            marks.append(Line([where], [points[where - 1]], marked=True, depth=depth))
    labels = ("negatives passed", "positives above")
    return Chart("top of the list", labels, [*lines, *marks], (1, max(shown, 2))).onto(ax)


def draw_strips(
    strips: Mapping[str, Integers],
    ax: Axes | None = None,
    *,
    ranks: int | None = None,
) -> Axes:
    """Draw lists: a tick for each positive, at its rank.

    `ranks` is the number of ranks to show, from the top.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> ax = draw_strips({"p = 1": strip([1, 0, 1, 0], [4, 3, 2, 1])})
    >>> ax.get_xlabel()
    'rank in the list'
    """
    return strip_chart(strips, "lists", ranks).onto(ax)


def strip_chart(strips: Mapping[str, Integers], title: str, ranks: int | None) -> Chart:
    """Return the chart of `draw_strips`, of which `title` is the text alternative."""
    layers = [
        Segments(where, [row - 0.4] * len(where), [row + 0.4] * len(where), depth=depth)
        for row, (depth, where) in enumerate(
            zip(_depths(len(strips)), strips.values(), strict=True)
        )
    ]
    limits = None if ranks is None else (0.5, ranks + 0.5)
    labels = ("rank in the list", "")
    return Chart(title, labels, layers, limits if layers else None, rows=list(strips))


def _depths(count: int) -> list[float] | list[None]:
    """Return shades from light to dark: a steeper push is darker."""
    return np.linspace(0.0, 1.0, count).tolist() if count > 1 else [None] * count
