"""Contributions of features to scores, and differences between two rows.

Functions of single features contribute their values. Functions of two features and trees are
divided among their features by Shapley values (`precede.explain.shapley`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse

from precede.decomposition import Decomposition, Nodes
from precede.engine.arrays import Floats, Json, MatrixLike
from precede.engine.execution import Context
from precede.engine.frames import pandas_frame
from precede.explain.shapes import PAIR
from precede.explain.shapley import Paths
from precede.judgments import feature_names
from precede.model import Ensemble
from precede.results import Result, plain
from precede.weak_rankers.terms import Term

if TYPE_CHECKING:
    import pandas as pd


# -- contributions ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Explanation(Result):
    """Contributions of the features to the scores of some rows.

    The contributions of a row, added in the order of the features, then the baseline, then
    `rounding`, give its score to the last bit: ``total() == scores``, and `scores` is what
    `predict` returns. (A nonzero score smaller than the rounding errors of its contributions is
    only reproduced up to these.) For stumps without a background `predict` makes the same
    additions, and `rounding` is 0. Otherwise `rounding` is the difference of the rounding errors
    from those of `predict`: some units in the last place of the largest contribution.

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

    def to_frame(self) -> pd.DataFrame:
        """Return the contributions as a pandas data frame with a column for each feature."""
        return pandas_frame(dict(zip(self.names, self.contributions.T, strict=True)))

    def summary(self) -> str:
        """Return the number of rows and the baseline."""
        return f"{len(self)} rows, baseline {self.baseline:.4g}; mean absolute contributions:"

    def _cells(self) -> list[list[str]]:
        """Return the features of the largest contributions."""
        mean = self.importances()
        order = np.argsort(-mean, kind="stable")[:10]
        rows = [[self.names[j], f"{mean[j]:.4g}"] for j in order if mean[j] > 0]
        return [["feature", "contribution"], *rows]

    __repr__ = Result.__str__


def explain(
    ensemble: Ensemble,
    X: MatrixLike,
    *,
    names: Sequence[str] | None = None,
    background: MatrixLike | None = None,
    context: Context | None = None,
) -> Explanation:
    """Divide the score of each row among the features; see `Explanation` for the guarantees.

    Stumps, features and columns cost O(log pieces) per cell. Trees cost O(leaves · depth²) per
    row, and with a background as much for each pair of a row and a row of the background.

    References
    ----------
    Lundberg et al., *From local explanations to global understanding with explainable AI for
    trees*, Nature Machine Intelligence 2020 (the values; their computation by quadrature is ours).

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
    ensemble.check_width(X)
    if Z is not None:
        ensemble.check_width(Z)
    parts = ensemble.decomposition
    contributions = _additive_contributions(parts, X)
    baseline = parts.constant
    if Z is not None:
        columns = _additive_contributions(parts, Z).T.tolist()
        means = [math.fsum(column) / len(Z) for column in columns]
        contributions -= np.array(means)
        baseline = math.fsum([baseline, *means])
    baseline += _share_pairs(parts, contributions, X, Z)
    method = "additive" if Z is None else "background"
    if parts.trees:
        paths = Paths([(Nodes.of_tree(t), w) for t, w in parts.trees], use_cover=Z is None)
        contributions += paths.values(X, Z, context)
        if Z is None:
            method = "path"
            baseline += paths.expectation()
        else:
            means = [w * math.fsum(tree(Z).tolist()) / len(Z) for tree, w in parts.trees]
            baseline += math.fsum(means)
    scores = ensemble.predict(X, context)
    rounding = _exact_rounding(contributions, baseline, scores)
    named = tuple(feature_names(names, X.shape[1]))
    return Explanation(named, baseline, contributions, rounding, scores, X, method)


def _additive_contributions(parts: Decomposition, X: Floats) -> Floats:
    """Evaluate the functions of single features, a column for each feature."""
    values = np.zeros(X.shape)
    for steps in parts.steps:
        values[:, steps.feature] = steps(X[:, steps.feature])
    for weak_ranker, weight in parts.others:
        if weak_ranker.is_constant:
            continue
        if weak_ranker.only_feature is None:
            raise ValueError(
                f"a ranker of kind {weak_ranker.name!r} cannot be explained: it does not say which "
                "one feature it reads (a field named 'feature')"
            )
        values[:, weak_ranker.only_feature] += weight * weak_ranker(X)
    for term, weight in parts.terms:
        if len(term.features) == 1:
            values[:, term.features[0]] += weight * term(X)
    return values


def _share_pairs(parts: Decomposition, contributions: Floats, X: Floats, Z: Floats | None) -> float:
    """Divide the pair terms equally between their features; return their mean over Z.

    With a background the contribution of a feature is the mean increment when it becomes known,
    before or after the other one, over all rows of Z: O(rows + cells).
    """
    baseline = []
    for term, weight in parts.terms:
        if len(term.features) == 1:
            continue
        table, (row, column) = weight * term.table, term.cells(X)
        value = table[row, column]
        first = second = np.zeros(len(X))
        if Z is not None:
            share = np.zeros(term.shape)
            np.add.at(share, term.cells(Z), 1)
            share /= len(Z)
            mean = math.fsum((share * table).ravel().tolist())
            baseline.append(mean)
            first = (table * share.sum(axis=0)).sum(axis=1)[row]
            second = (table * share.sum(axis=1)[:, None]).sum(axis=0)[column]
            value = value - mean
        one, other = term.features
        contributions[:, one] += 0.5 * (value + (first - second))
        contributions[:, other] += 0.5 * (value - (first - second))
    return math.fsum(baseline)


def _dense(X: MatrixLike) -> Floats:
    return np.asarray(X.toarray() if scipy.sparse.issparse(X) else X, np.float64)


def _sum_left_to_right(contributions: Floats, baseline: float) -> Floats:
    last = np.full((len(contributions), 1), baseline)
    return np.cumsum(np.hstack([contributions, last]), axis=1)[:, -1]


def _exact_rounding(contributions: Floats, baseline: float, scores: Floats) -> Floats:
    """Return the number that, added after the baseline, gives the exact score of each row.

    Where the contributions cancel to a score smaller than their rounding errors, there may be no
    such number; the last nonzero contribution is then changed in its last bits, in place, so that
    they cancel exactly, or as nearly as floating point allows.
    """
    total = _sum_left_to_right(contributions, baseline)
    rounding = scores - total
    inexact = np.isfinite(scores) & (total + rounding != scores)
    for row in np.flatnonzero(inexact):
        terms = contributions[row]
        last = int(np.flatnonzero(terms)[-1])
        before = _sum_left_to_right(terms[None, :last], 0.0)[0]
        terms[last] = -(before + baseline)
        total = _sum_left_to_right(terms[None], baseline)[0]
        rounding[row] = scores[row] - total
    return rounding


# -- pairs -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PairExplanation(Result):
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
    shown: tuple[tuple[str | float, str | float], ...] = ()

    @property
    def difference(self) -> float:
        """Score of the upper row minus score of the lower one."""
        return self.scores[0] - self.scores[1]

    def to_dict(self) -> Json:
        """Return plain lists and numbers, with an entry for each feature with a contribution."""
        return plain(
            {
                "upper": self.upper,
                "lower": self.lower,
                **({} if self.labels is None else {"labels": list(self.labels)}),
                "scores": self.scores,
                "difference": self.difference,
                "rounding": self.rounding,
                "features": self.rows(),
            }
        )

    def rows(self) -> list[Json]:
        """Return the contribution and the values of each feature with a contribution."""
        rows: list[Json] = [
            {"name": name, "contribution": c, "upper_value": v[0], "lower_value": v[1]}
            for name, c, v in zip(self.names, self.contributions, self.values, strict=True)
        ]
        if self.second_values is not None:
            for row, more in zip(rows, self.second_values, strict=True):
                row |= {"upper_second_value": more[0], "lower_second_value": more[1]}
        return rows

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas data frame: a row for each feature, the largest contribution first.

        Categories that were text, and the two values of a pair, are texts.
        """
        upper, lower = (f"row {row}" for row in self._row_names())
        columns = {
            upper: [one for one, _ in self.shown], lower: [other for _, other in self.shown]
        }  # fmt: skip
        columns["contribution"] = [*self.contributions]
        return pandas_frame(columns, index=list(self.names)).rename_axis("feature")

    def summary(self) -> str:
        """Return which row ranks above the other, and their scores."""
        side = "above" if self.difference > 0 else "below" if self.difference < 0 else "level with"
        upper, lower = self._row_names()
        return (
            f"row {upper} ranks {side} row {lower}: {self.scores[0]:.4g} against "
            f"{self.scores[1]:.4g}, a difference of {self.difference:.4g}"
        )

    def _row_names(self) -> tuple[str, str]:
        return self.labels or (str(self.upper), str(self.lower))

    def _cells(self) -> list[list[str]]:
        head = ["feature", *(f"row {row}" for row in self._row_names()), "contribution"]
        rows = [
            [name, _text(v[0]), _text(v[1]), f"{c:+.4g}"]
            for name, c, v in zip(self.names, self.contributions, self.shown, strict=True)
        ]
        return [head, *rows]

    __repr__ = Result.__str__


def explain_pair(
    ensemble: Ensemble,
    X: MatrixLike,
    i: int,
    k: int,
    names: Sequence[str] | None = None,
    labels: Sequence[object] | None = None,
    categories: Mapping[str, Sequence[str | float]] | None = None,
) -> PairExplanation:
    """Explain why row i ranks above row k; see `PairExplanation`. O(features), and the trees.

    `labels` are names of the rows, to be shown in place of their numbers, and `categories` the
    names of categories by the name of their feature.
    """
    n = X.shape[0]
    for row in (i, k):
        if isinstance(row, bool) or not isinstance(row, int | np.integer) or not -n <= row < n:
            raise ValueError(f"there is no row {row!r}; X has {n} rows, from 0 to {n - 1}")
    i, k = int(i) % n, int(k) % n
    both = _dense(X[[i, k]])
    pairs = [(term, w) for term, w in ensemble.decomposition.terms if len(term.features) == 2]
    rest = [
        (weak_ranker, weight)
        for weak_ranker, weight in ensemble.parts()
        if not isinstance(term := weak_ranker.equivalent(), Term) or len(term.features) == 1
    ]
    single = Ensemble([r for r, _ in rest], [w for _, w in rest], ensemble.n_features)
    explained = explain(single, both[:1], names=names, background=both[1:])
    upper, lower = (float(score) for score in ensemble.predict(both))
    shares = np.array(
        [*explained.contributions[0], *(w * float(np.subtract(*term(both))) for term, w in pairs)]
    )
    order = np.argsort(-np.abs(shares), kind="stable")
    order = order[shares[order] != 0]
    contributions = shares[None, order]
    rounding = float(_exact_rounding(contributions, 0.0, np.array([upper - lower]))[0])
    all_features = [*((j,) for j in range(ensemble.n_features)), *(t.features for t, _ in pairs)]
    features = [all_features[j] for j in order]
    others = None
    if pairs:
        others = np.array([both[:, f[1]] if len(f) > 1 else [np.nan] * 2 for f in features])
        others = others.reshape(len(order), 2)

    def shown(row: Floats, which: tuple[int, ...]) -> str | float:
        known = [(categories or {}).get(explained.names[f], ()) for f in which]
        read = [_value(row[f], each) for f, each in zip(which, known, strict=True)]
        return read[0] if len(read) == 1 else ", ".join(map(_text, read))

    return PairExplanation(
        i, k, (upper, lower),
        tuple(PAIR.join(explained.names[f] for f in each) for each in features),
        contributions[0], both[:, [each[0] for each in features]].T, rounding, others,
        None if labels is None else (str(labels[i]), str(labels[k])),
        tuple((shown(both[0], each), shown(both[1], each)) for each in features),
    )  # fmt: skip


def _value(x: float, categories: Sequence[str | float]) -> str | float:
    """Return a number, or the name of a category."""
    return str(categories[int(x)]) if len(categories) and not math.isnan(x) else float(x)


def _text(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"
