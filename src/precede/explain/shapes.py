"""Shape functions: the contribution of one feature, or of two, as a function of their values.

A model of stumps, features and columns is a sum of one *shape function* of each feature. A
glass-box model also has functions of two features.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from precede.decomposition import Decomposition
from precede.engine.arrays import Array, Floats, Integers, Json, VectorLike
from precede.engine.frames import is_missing, pandas_frame
from precede.engine.parameters import pluralize
from precede.judgments import feature_names
from precede.model import Ensemble
from precede.results import Result, shown
from precede.weak_rankers.columns import LinearWeakRanker
from precede.weak_rankers.terms import Term, make_curve, sum_terms
from precede.weak_rankers.trees import Tree

if TYPE_CHECKING:
    import pandas as pd

# Separates the names of the two features of a pair term.
PAIR = " x "


# -- functions of one feature ----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ShapeFunction(Result):
    """The contribution of one feature to the score, as a function of its value.

    Piece p covers the values above ``breakpoints[p - 1]`` and up to ``breakpoints[p]``, the
    first and the last piece being open to the left and to the right. In it the function is
    ``values[p] + slopes[p] * (x - references[p])``; for stumps all slopes are 0 and `values`
    are the steps. `missing` is the value for missing values (NaN if the model refuses them).
    `errors` are the standard errors of `values`, for a model averaged over bags; None otherwise.
    `categories` are the names of categories that were text; x is then a code or a name.

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

    def __call__(self, x: VectorLike) -> Floats:
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

    def _numbers(self, x: VectorLike) -> Array:
        """Return codes of categories given by name; unknown ones get the code after the last."""
        given = np.asarray(x)
        if not self.categories or given.dtype.kind not in "OTU":
            return given
        known = {name: number for number, name in enumerate(self.categories)}
        found = [
            math.nan if is_missing(each) else known.get(each, len(known)) if isinstance(each, str)
            else each for each in given.ravel().tolist()
        ]  # fmt: skip
        return np.reshape(np.array(found, np.float64), given.shape)

    def rows(self) -> list[Json]:
        """Return a row for each piece or category, and one for missing values.

        Where there are standard errors, they are in `error`. Pieces with a slope have their value
        at `reference`.
        """
        columns: dict[str, list[str | float]] = {"bin": [*bin_labels(self.breakpoints)]}
        pieces = np.arange(self.values.size)
        if self.categories:
            columns = {"bin": [*self.categories, "other", "missing"]}
            pieces = self._pieces(np.arange(len(self.categories) + 1.0))
        else:
            columns["above"] = [math.nan, *self.breakpoints, math.nan]
            columns["up_to"] = [*self.breakpoints, math.nan, math.nan]
        columns["value"] = [*self.values[pieces], self.missing]
        if not self.is_step:
            columns["slope"] = [*self.slopes, math.nan]
            columns["reference"] = [*self.references, math.nan]
        if self.errors is not None:
            columns["error"] = [*self.errors[pieces], math.nan]
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def to_frame(self) -> pd.DataFrame:
        """Return `rows` as a pandas data frame, whose index are the pieces or categories."""
        return super().to_frame().set_index("bin").rename_axis(self.name)

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


def bin_labels(cuts: Floats, digits: int = 4) -> list[str]:
    """Describe each bin between cuts; the last one holds missing values.

    >>> bin_labels(np.array([0.5, 2.0]))
    ['up to 0.5', '0.5 to 2', 'above 2', 'missing']
    """
    if not len(cuts):
        return ["any", "missing"]
    texts = [f"{cut:.{digits}g}" for cut in cuts]
    inner = [f"{a} to {b}" for a, b in pairwise(texts)]
    return [f"up to {texts[0]}", *inner, f"above {texts[-1]}", "missing"]


def shape_function(
    ensemble: Ensemble,
    feature: int,
    names: Sequence[str] | None = None,
    categories: Mapping[str, Sequence[str | float]] | None = None,
) -> ShapeFunction:
    """Return the function of one feature in an additive model.

    It adds up the stumps, linear functions and curves of the feature; pair terms of a glass-box
    model are left out. A model with trees, or with user-defined weak rankers, is refused: it has
    no such function, or none that is known. `categories`, by the name of their feature, are kept
    with the function if all of them are text. O(rounds) once for a model, then O(pieces).
    """
    name = feature_names(names, ensemble.n_features)[feature]
    known = (categories or {}).get(name, ())
    texts = tuple(each for each in known if isinstance(each, str))
    parts = ensemble.decomposition
    for weak_ranker, _ in [*parts.trees, *parts.unknown]:
        raise ValueError(
            f"the model holds a ranker of kind {weak_ranker.name!r}, which has no known function "
            "of one feature; use explain(X) instead"
        )
    steps = parts.steps_of(feature).finite()
    lines = [(line, weight) for line, weight in parts.lines if line.feature == feature]
    curves = [(term, weight) for term, weight in parts.terms if term.features == (feature,)]
    ends = [steps.thresholds, *(np.array(line.ends or ()) for line, _ in lines)]
    for term, _ in curves:  # a category reaches half a unit to either side
        cuts = np.array(term.cuts[0])
        ends += [cuts - 0.5, cuts + 0.5] if term.categorical[0] else [cuts]
    breakpoints = np.unique(np.concatenate(ends))
    inside = np.append(breakpoints, np.inf)  # a value of each piece: its upper end
    # The first piece ends at its reference; all others begin there.
    references = np.append(breakpoints[:1], breakpoints) if breakpoints.size else np.zeros(1)
    values, slopes, missing = steps(inside), np.zeros(inside.size), steps.missing
    for line, weight in lines:
        value, slope = _line_at(line, references)
        values, slopes = values + weight * value, slopes + weight * slope
        missing += weight * (math.nan if line.ends is None else 0.0)
    errors = None
    for term, weight in curves:
        values = values + weight * term.table[term.bins(0, inside)]
        missing += weight * float(term.table[-1])
        if term.errors:
            error = weight * np.array(term.errors)[term.bins(0, inside)]
            errors = np.hypot(0.0 if errors is None else errors, error)
    return ShapeFunction(
        name, feature, breakpoints, values, slopes, references, missing, errors,
        texts if len(texts) == len(known) else (),
    )  # fmt: skip


def _line_at(line: LinearWeakRanker, references: Floats) -> tuple[Floats, Floats]:
    """Return the value at the reference and the slope of a line, piece by piece."""
    if line.ends is None:
        return line.at(references), np.ones(references.size)
    low, high = line.ends
    half_width = high / 2 - low / 2  # the width itself may overflow
    inside = (references >= low) & (references < high)
    inside[0] = False  # the first piece ends at the lowest of all ends
    return line.at(references), np.where(inside, 0.5 / half_width, 0.0)


def feature_index(feature: object, names: Sequence[str] | None, n_features: int) -> int:
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
    if whole and -n_features <= feature < n_features:  # type: ignore[operator]
        return int(feature) % n_features  # type: ignore[call-overload]
    raise ValueError(f"there is no feature {feature!r}; use a name or 0 to {n_features - 1}")


# -- functions of two features ---------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PairFunction(Result):
    """The interaction of two features: their joint contribution beyond those of each alone.

    ``values[a, b]`` is the value in bin a of the first feature and bin b of the second, which holds
    ``counts[a, b]`` training rows. Bin b of a numeric feature holds the values above
    ``cuts[b - 1]`` and up to ``cuts[b]``, of a categorical one the category ``cuts[b]``; the last
    bin is for missing values and for other categories. `errors` are the standard errors of the
    values, for a model averaged over bags; None otherwise. `categories` are the names of
    categories that were text, whose codes are in `cuts`.

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

    def __call__(self, first: VectorLike, second: VectorLike) -> Floats:
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

    def to_frame(self) -> pd.DataFrame:
        """Return the values as a pandas data frame: bins of the first feature by the second's."""
        frame = pandas_frame(self.values, index=self.labels(0)).set_axis(self.labels(1), axis=1)
        return frame.rename_axis(index=self.names[0], columns=self.names[1])

    def _cells(self) -> list[list[str]]:
        rows = zip(self.labels(0), self.values, strict=True)
        return [[self.name, *self.labels(1)], *([label, *map(shown, row)] for label, row in rows)]

    def __str__(self) -> str:
        size = PAIR.join(map(str, self.values.shape))
        return f"{self.name}: {size} cells from {self.values.min():.4g} to {self.values.max():.4g}"


def pair_function(
    term: Term, names: list[str], categories: Mapping[str, Sequence[str | float]] | None = None
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


def _bins(x: VectorLike, cuts: Floats, named: bool) -> Integers:
    values = np.atleast_1d(np.asarray(x, np.float64))
    empty = (0.0,) * (cuts.size + (1 if named else 2))
    return Term((0,), (tuple(cuts),), (named,), empty, (0,) * len(empty)).bins(0, values)


# -- additive models as tables ---------------------------------------------------------------


def additive_terms(parts: Decomposition) -> tuple[list[Term], float]:
    """Return tables that add up to the scores of a model, ordered by feature, and a constant.

    The model may hold stumps, terms, trees of one feature each, and constants. Trees of several
    features, straight lines and user-defined rankers are refused. The sum equals `predict` up to
    rounding. O(rounds).

    >>> from precede import Stump
    >>> parts = Decomposition.of([(Stump(0, 1.0), 2.0), (Stump(0, 3.0), -0.5)])
    >>> terms, constant = additive_terms(parts)
    >>> terms[0].cuts, terms[0].values
    (((1.0, 3.0),), (0.0, 2.0, 1.5, 0.0))
    """
    found: dict[tuple[int, ...], list[tuple[Term, float]]] = {}
    for each in parts.steps:
        steps = each.finite()
        values = np.append(steps.values, steps.missing)
        found[each.feature,] = [(make_curve(each.feature, steps.thresholds, False, values), 1.0)]
    constants = [parts.constant]
    for tree, weight in parts.trees:
        if not tree.features:
            constants.append(weight * tree.value[0])
        elif len(tree.features) == 1:
            found.setdefault(tree.features, []).append((_term_of_tree(tree), weight))
    tables = [(tree, w) for tree, w in parts.trees if len(tree.features) > 1]
    for weak_ranker, _ in [*tables, *parts.lines, *parts.unknown]:
        raise ValueError(
            f"the model holds a ranker of kind {weak_ranker.name!r} that is not a table of one or "
            "two features; use GlassBoxRanker, or RankBoost with weak_rankers='stumps'"
        )
    for term, weight in parts.terms:
        found.setdefault(term.features, []).append((term, weight))
    for (feature, *_), terms in found.items():
        if any(term.categorical != terms[0][0].categorical for term, _ in terms):
            raise ValueError(
                f"the model reads feature {feature} as a number and as categories; "
                "give categorical_features"
            )
    return [sum_terms(found[key]) for key in sorted(found)], math.fsum(constants)


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
    return make_curve(feature, cuts, named, tree(X))
