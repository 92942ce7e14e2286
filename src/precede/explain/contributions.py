"""Shape functions, contributions of features to scores, and differences between two rows.

A model of stumps, features and columns is a sum of one *shape function* of each feature. A
glass-box model also has functions of two features. The values of trees of several features are
divided among these by Shapley values (`precede.explain.shapley`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import pairwise
from textwrap import fill
from typing import Any

import numpy as np
import scipy.sparse

from precede.engine.arrays import Floats, Integers
from precede.engine.execution import Context
from precede.engine.frames import is_missing, pandas_frame
from precede.engine.parameters import pluralize
from precede.explain.shapley import Nodes, Paths
from precede.judgments import feature_names
from precede.model import Ensemble
from precede.results import plain
from precede.weak_rankers.columns import LinearWeakRanker
from precede.weak_rankers.terms import Term, merged_cuts, refined_table
from precede.weak_rankers.trees import Tree

# Separates the names of the two features of a pair term.
PAIR = " x "


# -- shape functions -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ShapeFunction:
    """The contribution of one feature to the score, as a function of its value.

    Piece p covers the values above ``breakpoints[p - 1]`` and up to ``breakpoints[p]``, the
    first and the last piece being open to the left and to the right. In it the function is
    ``values[p] + slopes[p] * (x - references[p])``; for stumps all slopes are 0 and `values`
    are the steps. `missing` is the value for missing ones (NaN if the model refuses them).
    `errors`, of a model averaged over bags, are the standard errors of `values`; None otherwise.
    `categories` are the names of categories that were text: x is the number of one, or its name.

    Examples
    --------
    >>> from precede.model import Ensemble
    >>> from precede import Stump
    >>> model = Ensemble([Stump(0, 1.0), Stump(0, 3.0)], [2.0, -0.5], n_features=1)
    >>> shape = shape_function(model, 0)
    >>> print(shape)
    x0: 0 up to 1, 2 up to 3, 1.5 above; 0 if missing
    >>> shape([1.0, 1.5, float("nan")])
    array([0., 2., 0.])
    >>> shape.to_frame()
             above  up_to  value
    x0
    up to 1    NaN    1.0    0.0
    1 to 3     1.0    3.0    2.0
    above 3    3.0    NaN    1.5
    missing    NaN    NaN    0.0
    """

    name: str
    feature: int
    breakpoints: Floats
    values: Floats
    slopes: Floats
    references: Floats
    missing: float
    errors: Floats | None = None
    categories: tuple[str, ...] = ()

    @property
    def is_step(self) -> bool:
        """Whether the function is made of steps only."""
        return not np.any(self.slopes)

    @property
    def range(self) -> float:
        """Largest minus least step; infinite if the first or last piece has a slope."""
        if self.slopes[0] != 0 or self.slopes[-1] != 0:
            return math.inf
        ends = np.concatenate([self.values, self(self.breakpoints)])
        return float(ends.max()) - float(ends.min())

    def __call__(self, x: Any) -> Floats:
        """Evaluate the function at each x. O(log pieces) each."""
        x = np.asarray(self._numbers(x), np.float64)
        piece = self._pieces(x)
        slope = self.slopes[piece]
        # A flat piece must not multiply 0 by an infinite distance; halves do not overflow.
        away = np.where(slope == 0, 0.0, x / 2 - self.references[piece] / 2)
        return np.where(np.isnan(x), self.missing, self.values[piece] + 2 * slope * away)

    def _pieces(self, x: Floats) -> Integers:
        """Return the index of the piece of each x."""
        piece = np.searchsorted(self.breakpoints, x, side="left")
        return np.minimum(piece, self.breakpoints.size)  # NaN is sorted last

    def _numbers(self, x: Any) -> Any:
        """Return codes of categories given by name; unknown ones get the code after the last."""
        given = np.asarray(x)
        if not self.categories or given.dtype.kind not in "OTU":
            return x
        known = {name: number for number, name in enumerate(self.categories)}
        found = [
            math.nan if is_missing(each) else known.get(each, len(known)) if isinstance(each, str)
            else each for each in given.ravel().tolist()
        ]  # fmt: skip
        return np.reshape(np.array(found, np.float64), given.shape)

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers."""
        return plain(dict(self.__dict__))

    def to_frame(self) -> Any:
        """Return a pandas data frame: a row for each piece or category, and one for missing values.

        Where there are standard errors, they are the column `error`. Pieces with a slope have
        their value at `reference`.
        """
        columns: dict[str, Any] = {}
        if self.categories:
            pieces = self._pieces(np.arange(len(self.categories) + 1.0))
            index = [*self.categories, "other", "missing"]
        else:
            pieces = np.arange(self.values.size)
            index = bin_labels(self.breakpoints)
            columns["above"] = [math.nan, *self.breakpoints, math.nan]
            columns["up_to"] = [*self.breakpoints, math.nan, math.nan]
        columns["value"] = [*self.values[pieces], self.missing]
        if not self.is_step:
            columns["slope"] = [*self.slopes, math.nan]
            columns["reference"] = [*self.references, math.nan]
        if self.errors is not None:
            columns["error"] = [*self.errors[pieces], math.nan]
        return pandas_frame(columns, index=index).rename_axis(self.name)

    def __str__(self) -> str:
        steps = [
            f"{v:.4g} up to {b:.4g}" for v, b in zip(self.values, self.breakpoints, strict=False)
        ]
        last = f"{self.values[-1]:.4g} {'above' if steps else 'everywhere'}"
        if self.categories:
            values = self(np.arange(len(self.categories) + 1.0))
            *steps, last = [f"{v:.4g} {name}" for v, name in
                            zip(values, [*self.categories, "other"], strict=True)]  # fmt: skip
        shown = [*steps[:6], "..."] if len(steps) > 7 else steps
        text = ", ".join([*shown, last])
        if not self.is_step:
            text = pluralize(self.values.size, "linear piece")
        missing = f"{self.missing:.4g} if missing"
        if math.isnan(self.missing):
            missing = "no missing values"
        line = f"{self.name}: {text}; {missing}"
        return fill(
            line, 80, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )


def bin_labels(cuts: Floats) -> list[str]:
    """Describe each bin between cuts; the last one holds missing values.

    >>> bin_labels(np.array([0.5, 2.0]))
    ['up to 0.5', '0.5 to 2', 'above 2', 'missing']
    """
    if not len(cuts):
        return ["any", "missing"]
    texts = [f"{cut:.4g}" for cut in cuts]
    inner = [f"{a} to {b}" for a, b in pairwise(texts)]
    return [f"up to {texts[0]}", *inner, f"above {texts[-1]}", "missing"]


def shape_function(
    ensemble: Ensemble,
    feature: int,
    names: Sequence[str] | None = None,
    categories: Mapping[str, Sequence[Any]] | None = None,
) -> ShapeFunction:
    """Return the function of one feature in an additive model.

    For stumps, features and columns (which read one feature each), and for the curves of a
    glass-box model, whose pair terms are left out. A model with trees of several features, or
    with user-defined rankers, is refused: it has no such function, or none that is known.
    `categories`, by the name of their feature, are kept with the function if all of them are text.
    O(rounds) once for a model, then O(pieces).
    """
    name = feature_names(names, ensemble.n_features)[feature]
    known = tuple((categories or {}).get(name, ()))
    if not all(isinstance(each, str) for each in known):
        known = ()  # a number could be a category or a code
    curves = [(term, w) for term, w in ensemble.terms() if term.features == (feature,)]
    if curves:
        return replace(_curve(ensemble, curves, name), categories=known)
    mine = [(line, w) for line, w in _lines_of(ensemble) if line.feature == feature]
    thresholds, steps, missing = steps_of(ensemble, feature)
    ends = [end for line, _ in mine for end in line.ends or ()]
    breakpoints = np.union1d(thresholds, ends) if ends else thresholds
    references = np.concatenate([breakpoints[:1] if breakpoints.size else [0.0], breakpoints])
    # The first piece ends at its reference; all others begin there.
    below = np.searchsorted(thresholds, references, side="right")
    below[0] = 0
    values, slopes = steps[below], np.zeros(references.size)
    for line, weight in mine:
        value, slope = _line(line, references)
        values, slopes = values + weight * value, slopes + weight * slope
        if line.ends is None:
            missing = math.nan
    return ShapeFunction(
        name, feature, breakpoints, values, slopes, references, missing, categories=known
    )


def _lines_of(ensemble: Ensemble) -> list[tuple[LinearWeakRanker, float]]:
    """Return the linear rankers of a model without trees or rankers of unknown kinds."""
    lines = []
    for weak_ranker, weight in [*ensemble.trees(), *ensemble._others]:
        if (line := weak_ranker.as_linear()) is not None:
            lines.append((line, weight))
        elif not weak_ranker.is_constant:
            raise ValueError(
                f"the model holds a ranker of kind {weak_ranker.name!r}, which has no known "
                "function of "
                "one feature; use explain(X) instead"
            )
    return lines


def _curve(ensemble: Ensemble, parts: list[tuple[Term, float]], name: str) -> ShapeFunction:
    """Return the sum of the curves of a feature in a model of terms, as steps."""
    if not all(
        weak_ranker.is_constant or weak_ranker.as_term() is not None
        for weak_ranker in ensemble.weak_rankers
    ):
        raise ValueError("the model holds terms and other rankers; use explain(X) instead")
    feature = parts[0][0].features[0]
    ends: list[float] = []
    for term, _ in parts:  # a category reaches half a unit to either side
        cuts = np.array(term.cuts[0])
        ends += [*(cuts - 0.5), *(cuts + 0.5)] if term.categorical[0] else list(cuts)
    breakpoints = np.unique(np.array(ends))
    inside = breakpoints[:-1] / 2 + breakpoints[1:] / 2
    last = np.maximum(np.nextafter(breakpoints[-1:], np.inf), breakpoints[-1:] + 1)
    at = np.concatenate([breakpoints[:1], inside, last]) if breakpoints.size else np.zeros(1)
    X = np.zeros((at.size + 1, ensemble.n_features))
    X[:, feature] = [*at, np.nan]
    values = np.zeros(at.size + 1)
    errors = np.zeros(at.size)
    for term, weight in parts:
        values += weight * term(X)
        if term.errors:
            errors = np.hypot(errors, weight * np.array(term.errors)[term.bins(0, at)])
    references = np.concatenate([breakpoints[:1] if breakpoints.size else [0.0], breakpoints])
    return ShapeFunction(
        name, feature, breakpoints, values[:-1], np.zeros(at.size), references,
        float(values[-1]), errors if any(term.errors for term, _ in parts) else None,
    )  # fmt: skip


def steps_of(ensemble: Ensemble, feature: int) -> tuple[Floats, Floats, float]:
    """Return thresholds of the stumps of a feature, the values between them, and if missing."""
    tables = ensemble._tables
    index = np.flatnonzero(tables.feature == feature)
    if not index.size:
        return np.zeros(0), np.zeros(1), 0.0
    used = int(index[0])
    begin, end = int(tables.start[used]), int(tables.start[used + 1])
    thresholds = tables.threshold[begin:end]
    steps = tables.value[begin + used : end + used + 1]
    finite = np.isfinite(thresholds)
    first = int(np.count_nonzero(thresholds == -np.inf))  # no value lies below it
    return thresholds[finite], steps[first : first + finite.sum() + 1], float(tables.missing[used])


def _line(line: LinearWeakRanker, references: Floats) -> tuple[Floats, Floats]:
    """Return the value at the reference and the slope of a line, piece by piece."""
    if line.ends is None:
        return line.at(references), np.ones(references.size)
    low, high = line.ends
    half_width = high / 2 - low / 2  # the width itself may overflow
    inside = (references >= low) & (references < high)
    inside[0] = False  # the first piece ends at the lowest of all ends
    return line.at(references), np.where(inside, 0.5 / half_width, 0.0)


# -- Functions of two features in a glass-box model ----------------------------------------------


@dataclass(frozen=True, eq=False)
class PairFunction:
    """The interaction of two features: their joint contribution beyond those of each alone.

    ``values[a, b]`` is for bin a of the first feature and bin b of the second; ``counts[a, b]``
    training rows are behind it. Bin b of an ordered feature holds the values above ``cuts[b - 1]``
    and up to ``cuts[b]``, of a feature of categories the category ``cuts[b]``; the last bin is for
    missing values and for other categories. `errors` are the standard errors of the values of a
    model averaged over bags; None otherwise. `categories` are the names of categories that were
    text, of which ``cuts`` are the numbers.

    Examples
    --------
    >>> cells = (1, -1, 0, -1, 1, 0, 0, 0, 0)
    >>> term = Term((0, 1), ((0.0,), (0.0,)), (False, False), cells, (9,) * 9)
    >>> surface = pair_function(term, ["a", "b", "c"])
    >>> print(surface)
    a x b: 3 x 3 cells from -1 to 1
    >>> surface([-1.0, 1.0], [1.0, 1.0])
    array([-1.,  1.])
    """

    names: tuple[str, str]
    features: tuple[int, int]
    cuts: tuple[Floats, Floats]
    categorical: tuple[bool, bool]
    values: Floats
    counts: Integers
    errors: Floats | None
    categories: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    @property
    def name(self) -> str:
        """The names of both features."""
        return PAIR.join(self.names)

    def __call__(self, first: Any, second: Any) -> Floats:
        """Evaluate the function at each pair of values."""
        parts = zip((first, second), self.cuts, self.categorical, strict=True)
        return self.values[tuple(_bins(x, cuts, named) for x, cuts, named in parts)]

    def labels(self, axis: int) -> list[str]:
        """Describe each bin of one of the features.

        >>> term = Term((0, 1), ((0.5,), (3,)), (False, True), (0,) * 6, (1,) * 6)
        >>> function = pair_function(term, ["a", "b"])
        >>> function.labels(0) + function.labels(1)
        ['up to 0.5', 'above 0.5', 'missing', '3', 'other']
        """
        cuts, known = self.cuts[axis], self.categories[axis]
        if self.categorical[axis]:
            return [*(known[int(cut)] if known else f"{cut:.4g}" for cut in cuts), "other"]
        return bin_labels(cuts)

    def to_frame(self) -> Any:
        """Return the values as a pandas data frame: bins of the first feature by the second's."""
        frame = pandas_frame(self.values, index=self.labels(0)).set_axis(self.labels(1), axis=1)
        return frame.rename_axis(index=self.names[0], columns=self.names[1])

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers."""
        return plain(dict(self.__dict__))

    def __str__(self) -> str:
        size = PAIR.join(map(str, self.values.shape))
        return f"{self.name}: {size} cells from {self.values.min():.4g} to {self.values.max():.4g}"


def pair_function(
    term: Term, names: list[str], categories: Mapping[str, Sequence[Any]] | None = None
) -> PairFunction:
    """Return the function of a pair term; `categories` by feature name, where they were text."""
    one, other = term.features
    known = categories or {}
    return PairFunction(
        (names[one], names[other]),
        (one, other),
        (np.array(term.cuts[0]), np.array(term.cuts[1])),
        (term.categorical[0], term.categorical[1]),
        term.table.copy(),
        term.count,
        np.array(term.errors).reshape(term.shape) if term.errors else None,
        (tuple(map(str, known.get(names[one], ()))), tuple(map(str, known.get(names[other], ())))),
    )


def _bins(x: Any, cuts: Floats, named: bool) -> Integers:
    values = np.atleast_1d(np.asarray(x, np.float64))
    empty = (0.0,) * (cuts.size + (1 if named else 2))
    return Term((0,), (tuple(cuts),), (named,), empty, (0,) * len(empty)).bins(0, values)


# -- contributions ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Explanation:
    """Contributions of the features to the scores of some rows.

    The contributions of a row, added in the order of the features, then the baseline, then
    `rounding`, give its score to the last bit: ``total() == scores``, and `scores` is what
    `predict` returns. (A nonzero score smaller than the rounding errors of its contributions is
    only reproduced up to these.) For stumps without a background these are the additions that
    `predict` makes, and `rounding` is 0. Otherwise it is the difference in rounding
    from `predict`: some units in the last place of the largest contribution.

    `method` is the kind of contributions:

    * ``"additive"``: the value of each shape function, the baseline being the constant of the
      model;
    * ``"path"``: the same, and for trees Shapley values in which absent features follow the
      training rows down the tree; the baseline includes the mean of the trees over these;
    * ``"background"``: Shapley values in which absent features come from the rows of the
      background, whose mean score is the baseline.

    The value of a pair term of a glass-box model is divided equally between its two features.
    """

    names: tuple[str, ...]
    baseline: float
    contributions: Floats
    rounding: Floats
    scores: Floats
    data: Floats
    method: str

    def __len__(self) -> int:
        return len(self.scores)

    def total(self) -> Floats:
        """Add contributions, baseline and rounding of each row, from left to right."""
        return _sum_left_to_right(self.contributions, self.baseline) + self.rounding

    def importances(self) -> Floats:
        """Return the mean absolute contribution of each feature over these rows."""
        return np.abs(self.contributions).mean(axis=0)

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers."""
        return plain(dict(self.__dict__))

    def to_frame(self) -> Any:
        """Return the contributions as a pandas data frame with a column for each feature."""
        columns = dict(zip(self.names, self.contributions.T, strict=True))
        return pandas_frame(columns)

    def __str__(self) -> str:
        mean = self.importances()
        order = np.argsort(-mean, kind="stable")[:10]
        width = max((len(self.names[j]) for j in order), default=0)
        lines = [f"  {self.names[j]:<{width}}  {mean[j]:.4g}" for j in order if mean[j] > 0]
        head = f"{len(self)} rows, baseline {self.baseline:.4g}; mean absolute contributions:"
        return "\n".join([head, *lines])

    __repr__ = __str__


def explain(
    ensemble: Ensemble,
    X: Any,
    *,
    names: Sequence[str] | None = None,
    background: Any = None,
    context: Context | None = None,
) -> Explanation:
    """Divide the score of each row among the features; see `Explanation` for what holds.

    Stumps, features and columns cost O(log pieces) a cell. Trees cost O(leaves · depth²) a
    row, and with a background as much again for each of its rows.

    References
    ----------
    Lundberg et al., *From local explanations to global understanding with explainable AI for
    trees*, Nature Machine Intelligence 2020 (the values; the quadrature is our own route to
    them).

    Examples
    --------
    >>> import numpy as np
    >>> from precede.model import Ensemble
    >>> from precede import Stump
    >>> model = Ensemble([Stump(0, 1.0), Stump(1, 0.0)], [2.0, -0.5], n_features=2)
    >>> explain(model, np.array([[5.0, 5.0]])).contributions
    array([[ 2. , -0.5]])
    """
    context = context or Context(1)
    X = _dense(X)
    Z = None if background is None else _dense(background)
    for rows in (X, X if Z is None else Z):
        ensemble.check_width(rows)
    parts = _ExplainedParts.of(ensemble)
    contributions = parts.additive(X)
    baseline = parts.constant
    if Z is not None:
        means = [math.fsum(column) / len(Z) for column in parts.additive(Z).T.tolist()]
        contributions -= np.array(means)
        baseline = math.fsum([baseline, *means])
    baseline += parts.share_pairs(contributions, X, Z)
    method = "additive" if Z is None else "background"
    if parts.trees:
        paths = Paths(parts.trees, use_cover=Z is None)
        contributions += paths.values(X, Z, context)
        baseline += paths.expectation() if Z is None else parts.mean_of_trees(Z)
        method = "path" if Z is None else method
    scores = ensemble.predict(X, context)
    rounding = _exact_rounding(contributions, baseline, scores)
    named = tuple(feature_names(names, X.shape[1]))
    return Explanation(named, baseline, contributions, rounding, scores, X, method)


@dataclass(frozen=True)
class _ExplainedParts:
    """The rankers of an ensemble, grouped by how they are explained."""

    ensemble: Ensemble
    constant: float
    single: list[tuple[Any, float]]
    trees: list[tuple[Nodes, float]]
    terms: list[tuple[Term, float]]

    @classmethod
    def of(cls, ensemble: Ensemble) -> _ExplainedParts:
        constants: list[float] = []
        single: list[tuple[Any, float]] = []
        trees = [(nodes_of(tree), weight) for tree, weight in ensemble.trees()]
        for weak_ranker, weight in ensemble._others:
            if weak_ranker.is_constant:
                constants.append(weight)
            elif weak_ranker.only_feature is not None:
                single.append((weak_ranker, weight))
            else:
                raise ValueError(
                    f"a ranker of kind {weak_ranker.name!r} cannot be explained: it does not say "
                    "which "
                    "one feature it reads (a field named 'feature')"
                )
        return cls(ensemble, math.fsum(constants), single, trees, ensemble.terms())

    def mean_of_trees(self, Z: Floats) -> float:
        """Return the mean over rows of the sum of the trees."""
        trees = self.ensemble.trees()
        return math.fsum(w * math.fsum(tree(Z).tolist()) / len(Z) for tree, w in trees)

    def additive(self, X: Floats) -> Floats:
        """Evaluate the functions of single features, a column for each feature."""
        values = np.zeros(X.shape)
        for feature in self.ensemble._tables.feature.tolist():
            thresholds, steps, missing = steps_of(self.ensemble, feature)
            column = X[:, feature]
            below = np.minimum(np.searchsorted(thresholds, column, side="left"), thresholds.size)
            values[:, feature] = np.where(np.isnan(column), missing, steps[below])
        for weak_ranker, weight in self.single:
            values[:, weak_ranker.feature] += weight * weak_ranker(X)
        for term, weight in self.terms:
            if len(term.features) == 1:
                values[:, term.features[0]] += weight * term(X)
        return values

    def share_pairs(self, contributions: Floats, X: Floats, Z: Floats | None) -> float:
        """Divide the pair terms equally between their features; return their mean over Z.

        With a background the share of a feature is the mean of its increments before and after the
        other one is known, over all rows of Z: O(rows + cells).
        """
        baseline = []
        for term, weight in self.terms:
            if len(term.features) == 1:
                continue
            one, other = term.features
            table, bins_of_rows = (
                weight * term.table,
                [term.bins(a, X[:, f]) for a, f in enumerate((one, other))],
            )
            value = table[bins_of_rows[0], bins_of_rows[1]]
            first = second = np.zeros(len(X))
            if Z is not None:
                share = np.zeros(term.shape)
                np.add.at(
                    share, tuple(term.bins(a, Z[:, f]) for a, f in enumerate((one, other))), 1
                )
                share /= len(Z)
                mean = math.fsum((share * table).ravel().tolist())
                baseline.append(mean)
                first = (table * share.sum(axis=0)).sum(axis=1)[bins_of_rows[0]]
                second = (table * share.sum(axis=1)[:, None]).sum(axis=0)[bins_of_rows[1]]
                value = value - mean
            contributions[:, one] += 0.5 * (value + (first - second))
            contributions[:, other] += 0.5 * (value - (first - second))
        return math.fsum(baseline)


def nodes_of(tree: Tree) -> Nodes:
    """Return the nodes of a tree: its splits, then its leaves."""
    splits, leaves = len(tree.split_feature), len(tree.value)
    nothing = [0] * leaves
    left, right = (
        np.array([*(child if child >= 0 else splits - 1 - child for child in side), *nothing])
        for side in (tree.left, tree.right)
    )
    cover = np.array([*([0.0] * splits), *map(float, tree.count)])
    for split in range(splits - 1, -1, -1):  # children come after their parents
        cover[split] = cover[left[split]] + cover[right[split]]
    return Nodes(
        np.array([*tree.split_feature, *([-1] * leaves)]),
        np.array([*tree.threshold, *nothing], np.float64),
        left,
        right,
        np.array([*tree.missing_left, *nothing], np.bool_),
        np.array([*([0.0] * splits), *tree.value]),
        cover,
        (*tree.categories, *([()] * leaves)) if any(tree.categories) else (),
    )


def _dense(X: Any) -> Floats:
    return np.asarray(X.toarray() if scipy.sparse.issparse(X) else X, np.float64)


def _sum_left_to_right(contributions: Floats, baseline: float) -> Floats:
    last = np.full((len(contributions), 1), baseline)
    return np.cumsum(np.hstack([contributions, last]), axis=1)[:, -1]


def _exact_rounding(contributions: Floats, baseline: float, scores: Floats) -> Floats:
    """Return the number that, added after the baseline, gives the exact score of each row.

    Where the contributions cancel to a score smaller than their rounding errors, there may be no
    such number; one contribution is then changed in its last bits so that they cancel exactly,
    or as nearly as floating point allows.
    """
    total = _sum_left_to_right(contributions, baseline)
    rounding = scores - total
    open_ = np.isfinite(scores) & (total + rounding != scores)
    for row in np.flatnonzero(open_):
        terms = contributions[row]
        last = int(np.flatnonzero(terms)[-1])
        before = _sum_left_to_right(terms[None, :last], 0.0)[0]
        terms[last] = -(before + baseline)
        total = _sum_left_to_right(terms[None], baseline)[0]
        rounding[row] = scores[row] - total
    return rounding


# -- pairs -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PairExplanation:
    """Explanation why row `upper` ranks above row `lower`, feature by feature.

    `contributions` are in the order of `names`: the largest in size first, those of no effect
    left out. Added in this order, then `rounding`, they give `difference` to the last bit,
    which is ``scores[0] - scores[1]``. Positive ones favor `upper`. For trees they are
    Shapley values with `lower` as the background, so a feature in which the rows agree has
    none. Pair terms of a glass-box model have separate contributions, under the names of both
    features; `second_values` then holds the values of the second one, NaN elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> from precede.model import Ensemble
    >>> from precede import Stump
    >>> model = Ensemble([Stump(0, 1.0), Stump(1, 0.0)], [2.0, 0.5], n_features=2)
    >>> explain_pair(model, np.array([[5.0, -1.0], [0.0, 3.0]]), 0, 1)
    row 0 ranks above row 1: 2 against 0.5, a difference of 1.5
      feature  row 0  row 1  contribution
      x0           5      0            +2
      x1          -1      3          -0.5
    """

    upper: int
    lower: int
    scores: tuple[float, float]
    names: tuple[str, ...]
    contributions: Floats
    values: Floats  # for each name, the feature's value in the upper and the lower row
    rounding: float
    second_values: Floats | None = None
    labels: tuple[str, str] | None = None  # labels of the two rows in the index of a data frame
    # Displayed values: numbers, or texts of categories and of both features of a pair.
    shown: tuple[tuple[Any, Any], ...] = ()

    @property
    def difference(self) -> float:
        """Score of the upper row minus score of the lower one."""
        return self.scores[0] - self.scores[1]

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers, with an entry for each feature that matters."""
        features = [
            {"name": name, "contribution": c, "upper_value": v[0], "lower_value": v[1]}
            for name, c, v in zip(self.names, self.contributions, self.values, strict=True)
        ]
        if self.second_values is not None:
            for explained, more in zip(features, self.second_values, strict=True):
                explained |= {"upper_second_value": more[0], "lower_second_value": more[1]}
        return plain(
            {
                "upper": self.upper,
                "lower": self.lower,
                **({} if self.labels is None else {"labels": list(self.labels)}),
                "scores": self.scores,
                "difference": self.difference,
                "rounding": self.rounding,
                "features": features,
            }
        )

    def to_frame(self) -> Any:
        """Return a pandas data frame: a row for each feature, the largest contribution first.

        Categories that were text, and the two values of a pair, are texts.
        """
        upper, lower = (f"row {row}" for row in self._rows())
        columns: dict[str, Any] = {
            upper: [one for one, _ in self.shown], lower: [other for _, other in self.shown]
        }  # fmt: skip
        columns["contribution"] = self.contributions
        return pandas_frame(columns, index=list(self.names)).rename_axis("feature")

    def _sentence(self) -> str:
        side = "above" if self.difference > 0 else "below" if self.difference < 0 else "level with"
        upper, lower = self._rows()
        return (
            f"row {upper} ranks {side} row {lower}: {self.scores[0]:.4g} against "
            f"{self.scores[1]:.4g}, a difference of {self.difference:.4g}"
        )

    def _rows(self) -> tuple[str, str]:
        return self.labels or (str(self.upper), str(self.lower))

    def _cells(self) -> list[list[str]]:
        head = ["feature", *(f"row {row}" for row in self._rows()), "contribution"]
        rows = [
            [name, _text(v[0]), _text(v[1]), f"{c:+.4g}"]
            for name, c, v in zip(self.names, self.contributions, self.shown, strict=True)
        ]
        return [head, *rows]

    def __str__(self) -> str:
        cells = self._cells()
        widths = [max(len(row[j]) for row in cells) for j in range(4)]
        lines = [
            f"  {row[0]:<{widths[0]}}  " + "  ".join(f"{row[j]:>{widths[j]}}" for j in (1, 2, 3))
            for row in cells
        ]
        return "\n".join([self._sentence(), *lines])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *rows = [[escape(cell) for cell in row] for row in self._cells()]
        body = "".join(f"<tr><td>{'</td><td>'.join(row)}</td></tr>" for row in rows)
        titles = f"<tr><th>{'</th><th>'.join(head)}</th></tr>"
        return f"<p>{escape(self._sentence())}</p><table>{titles}{body}</table>"


def explain_pair(
    ensemble: Ensemble,
    X: Any,
    i: int,
    k: int,
    names: Sequence[str] | None = None,
    labels: Sequence[Any] | None = None,
    categories: Mapping[str, Sequence[Any]] | None = None,
) -> PairExplanation:
    """Explain why row i ranks above row k; see `PairExplanation`. O(features), and the trees.

    `labels` are names of the rows, to be shown in place of their numbers; `categories` those of
    categories, by the name of their feature.
    """
    n = X.shape[0]
    for row in (i, k):
        if isinstance(row, bool) or not isinstance(row, int | np.integer) or not -n <= row < n:
            raise ValueError(f"there is no row {row!r}; X has {n} rows, from 0 to {n - 1}")
    i, k = int(i) % n, int(k) % n
    both = _dense(X[[i, k]])
    pairs = [(term, w) for term, w in ensemble.terms() if len(term.features) == 2]
    rest = [
        (weak_ranker, weight)
        for weak_ranker, weight in ensemble.parts()
        if (term := weak_ranker.as_term()) is None or len(term.features) == 1
    ]
    single = Ensemble([r for r, _ in rest], [w for _, w in rest], ensemble.n_features)
    explained = explain(single, both[:1], names=names, background=both[1:])
    upper, lower = (float(score) for score in ensemble.predict(both))
    shares = [*explained.contributions[0], *(w * float(np.subtract(*r(both))) for r, w in pairs)]
    first = [*range(ensemble.n_features), *(r.features[0] for r, _ in pairs)]
    second = [-1] * ensemble.n_features + [r.features[1] for r, _ in pairs]
    order = np.argsort(-np.abs(shares), kind="stable")
    order = order[np.array(shares)[order] != 0]
    terms = np.array(shares)[None, order]
    rounding = float(_exact_rounding(terms, 0.0, np.array([upper - lower]))[0])
    named = tuple(
        explained.names[first[j]] + (PAIR + explained.names[second[j]] if second[j] >= 0 else "")
        for j in order
    )
    values = both[:, [first[j] for j in order]].T
    others = None
    if pairs:
        others = np.array([both[:, second[j]] if second[j] >= 0 else [np.nan] * 2 for j in order])
        others = others.reshape(len(order), 2)
    called = None if labels is None else (str(labels[i]), str(labels[k]))
    read = [
        [[_value(x, (categories or {}).get(explained.names[f], ())) for x in both[:, f]]
         for f in (first[j], second[j]) if f >= 0] for j in order
    ]  # fmt: skip
    shown = tuple(
        (each[0][0], each[0][1]) if len(each) == 1
        else (", ".join(_text(one) for one, _ in each), ", ".join(_text(two) for _, two in each))
        for each in read
    )  # fmt: skip
    return PairExplanation(
        i, k, (upper, lower), named, terms[0], values, rounding, others, called, shown
    )


def _value(x: float, categories: Sequence[Any]) -> Any:
    """Return a number, or the name of a category."""
    return str(categories[int(x)]) if len(categories) and not math.isnan(x) else float(x)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"


def feature_index(feature: Any, names: Sequence[str] | None, n_features: int) -> int:
    """Return the index of a feature given by its index or its name.

    >>> feature_index("length", ["title", "length"], 2)
    1
    """
    if isinstance(feature, str):
        known = feature_names(names, n_features)
        if feature not in known:
            raise ValueError(f"there is no feature {feature!r}; there are {', '.join(known[:10])}")
        return known.index(feature)
    whole = isinstance(feature, int | np.integer) and not isinstance(feature, bool)
    if not whole or not -n_features <= feature < n_features:
        raise ValueError(f"there is no feature {feature!r}; use a name or 0 to {n_features - 1}")
    return int(feature) % n_features


# -- Additive models as tables: a term for each feature and each pair of features -----------------


def additive_terms(ensemble: Ensemble) -> tuple[list[Term], float]:
    """Return tables that add up to the scores of a model, ordered by feature, and a constant.

    For stumps, terms, trees of one feature each, and constants. Trees of several features, straight
    lines and user-defined rankers are refused. The sum equals `predict` up to rounding. O(rounds).

    >>> from precede import Stump
    >>> terms, constant = additive_terms(Ensemble([Stump(0, 1.0), Stump(0, 3.0)], [2.0, -0.5], 1))
    >>> terms[0].cuts, terms[0].values
    (((1.0, 3.0),), (0.0, 2.0, 1.5, 0.0))
    """
    found: dict[tuple[int, ...], list[Term]] = {}
    constants: list[float] = []
    for feature in ensemble._tables.feature.tolist():
        thresholds, steps, missing = steps_of(ensemble, feature)
        found[feature,] = [_curve_of_trees(feature, thresholds, False, np.append(steps, missing))]
    for weak_ranker, weight in ensemble.parts():
        term, tree = weak_ranker.as_term(), weak_ranker.as_tree()
        if weak_ranker.is_constant:
            constants.append(weight)
        elif term is not None:
            found.setdefault(term.features, []).append(_scaled(term, weight))
        elif tree is not None and len(tree.features) <= 1:
            if tree.features:
                found.setdefault(tree.features, []).append(_scaled(_term_of_tree(tree), weight))
            else:
                constants.append(weight * tree.value[0])
        elif weak_ranker.as_stump() is None:
            raise ValueError(
                f"the model holds a ranker of kind {weak_ranker.name!r} that is not a table of "
                "one or "
                "two features; use GlassBoxRanker, or RankBoost with weak_rankers='stumps'"
            )
    return [_merged_terms(found[key]) for key in sorted(found)], math.fsum(constants)


def _curve_of_trees(feature: int, cuts: Floats, named: bool, values: Floats) -> Term:
    cells = tuple(values.tolist())
    return Term((feature,), (tuple(cuts.tolist()),), (named,), cells, (0,) * len(cells))


def _scaled(term: Term, weight: float) -> Term:
    return term if weight == 1.0 else term.with_values(weight * term.table)


def _term_of_tree(tree: Tree) -> Term:
    """Return a tree of one feature as a table of its value in every bin."""
    (feature,) = tree.features
    named = any(tree.categories)
    if named and not all(tree.categories):
        raise ValueError(f"a tree splits feature {feature} by thresholds and by categories")
    if named:
        cuts = np.unique([float(c) for each in tree.categories for c in each])
        at = np.append(cuts, np.nan)
    else:
        cuts = np.unique([t for t in tree.threshold if math.isfinite(t)])
        last = np.nextafter(cuts[-1:], np.inf) if cuts.size else np.zeros(1)
        at = np.concatenate([cuts, last, [np.nan]])
    X = np.zeros((at.size, feature + 1))
    X[:, feature] = at
    return _curve_of_trees(feature, cuts, named, tree(X))


def _merged_terms(terms: list[Term]) -> Term:
    """Add terms of the same features, on the union of their cuts."""
    first = terms[0]
    if len(terms) == 1:
        return first
    if any(term.categorical != first.categorical for term in terms):
        raise ValueError(
            f"the model reads feature {first.features[0]} as a number and as categories; "
            "give categorical_features"
        )
    cuts = merged_cuts(terms)
    total = sum(refined_table(term, cuts) for term in terms)
    cells = tuple(np.ravel(total).tolist())
    return Term(first.features, cuts, first.categorical, cells, (0,) * len(cells))
