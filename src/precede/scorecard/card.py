"""A scorecard: integer points for every bin of an additive model."""

from __future__ import annotations

import csv
import io
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from precede.engine.arrays import Array, Floats, Integers
from precede.engine.frames import pandas_frame
from precede.engine.parameters import check_choice, in_range, whole_number
from precede.explain.additive import additive_terms
from precede.explain.contributions import PAIR
from precede.exports.parts import term_nodes
from precede.exports.source import python_text, python_tree
from precede.exports.sql import sql_text
from precede.judgments import check_labels, feature_names
from precede.model import Ensemble, write_file
from precede.scorecard.calibration import LogOdds, fit_log_odds, is_good
from precede.scorecard.rounding import OrderChanges, order_changes
from precede.weak_rankers.columns import Constant
from precede.weak_rankers.terms import Term

if TYPE_CHECKING:
    from precede.estimator import BaseRanker

__all__ = ["Reason", "Scorecard"]

MISSING, OTHER = "missing", "other or missing"


@dataclass(frozen=True)
class Reason:
    """Why a row has fewer points than the reference.

    Attributes
    ----------
    name : the feature, or the two features of a pair
    bin : the bin that the row falls into
    points : how many points it has less than the reference
    text : what to print
    """

    name: str
    bin: str
    points: float
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, eq=False)
class Scorecard:
    """Integer points for every bin of a model, which add up to a score with a scale.

    A row has ``points = base + sum over terms of the points of its bin``. They are rounded from
    ``base_score + pdo / log(2) · (log-odds - log(base_odds))``: a row whose odds of being good are
    `base_odds` to 1 has `base_score` points, and `points_to_double_odds` (pdo) more points are
    twice the odds. The log-odds come from a logistic regression of the outcome on the score of
    the model (`log_odds`), since a ranking score has no scale of its own. The worst bin of each
    term has 0 points, and so has a bin for missing values that no row has reached (see `of`).

    Made by `of`. Attributes: `base`, `terms` (tables of points), `log_odds`, `rounding` (how many
    pairs of rows change their order by rounding: of all rows, and of good and bad ones).

    Examples
    --------
    >>> import numpy as np
    >>> from precede import RankBoost
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 4, size=(400, 2)).astype(float)
    >>> y = rng.random(400) < 1 / (1 + np.exp(-(X[:, 0] - X[:, 1])))
    >>> model = RankBoost(n_estimators=10).fit(X[:200], y[:200])
    >>> card = Scorecard.of(
    ...     model, X[200:], y[200:], good=True, base_score=600, base_odds=10, unseen="worst"
    ... )
    >>> int(card.points([[3, 0]])[0] - card.points([[0, 3]])[0])
    104
    >>> print(card.reasons([[0, 0]])[0][0])
    x0: up to 1.5
    """

    model: BaseRanker = field(repr=False)
    terms: tuple[Term, ...] = field(repr=False)
    base: int
    log_odds: LogOdds
    base_score: float
    base_odds: float
    points_to_double_odds: float
    texts: Mapping[str, str] = field(repr=False)
    mean_points: tuple[float, ...] = field(repr=False)
    cells: tuple[tuple[Integers, Integers], ...] = field(repr=False)  # rows and good ones
    rounding: tuple[OrderChanges, OrderChanges] = field(repr=False)

    @classmethod
    def of(
        cls,
        model: BaseRanker,
        X: Any,
        y: Any,
        *,
        good: Any = None,
        base_score: float = 600,
        base_odds: float = 50,
        points_to_double_odds: float = 20,
        texts: Mapping[str, str] | None = None,
        unseen: str | None = None,
    ) -> Scorecard:
        """Make a scorecard of a fitted model, with the odds of some rows.

        Parameters
        ----------
        model : fitted `GlassBoxRanker`, or any model of stumps or of trees of one feature
        X, y : rows and labels of two classes, best other than those of the fit
        good : the label of good rows, which get more points; required, because 1 may stand for a
            loan repaid or for a default
        base_score, base_odds, points_to_double_odds : the scale
        texts : what to print as a reason, for the name of a feature or pair ("age x income")
        unseen : {"worst", "mean", "model"}, optional
            Points of a bin for missing values, or for categories that are not listed, if neither
            a training row (where the model has counts) nor a row of X is in it, so that its value
            in the model is no evidence: 0 points as in the worst bin, the mean points of the
            term over the rows of X, or what the model says. Bins that `GlassBoxRanker.set_value`
            has set always keep their value. The default is "worst", with a warning where the
            model gives more than the mean.
        """
        check_is_fitted(model)
        check_choice("unseen", unseen or "worst", ("worst", "mean", "model"))
        in_range("base_odds", base_odds, 0, 1e9)
        in_range("points_to_double_odds", points_to_double_odds, 0, 1e9)
        in_range("base_score", base_score, -1e9, 1e9)
        tables, constant = additive_terms(model.ensemble_)
        goods = is_good(y, good)
        rows = model._validated(X, reset=False)
        scores = model.ensemble_.predict(rows)
        log_odds = fit_log_odds(scores, goods)
        _refuse_reversed(log_odds, y, goods)
        factor = points_to_double_odds / math.log(2)
        items = [_positions(term, rows) for term in tables]
        counted = [_counted(*each, goods) for each in zip(tables, items, strict=True)]
        names = [_name(model, term) for term in tables]
        unknown = [name for name in texts or {} if name not in names]
        if unknown:
            raise ValueError(f"texts= names {unknown[0]!r}; the terms are {', '.join(names)}")
        rounded, favored, rest = [], [], constant
        for name, term, item, (count, _) in zip(names, tables, items, counted, strict=True):
            gain = log_odds.slope * term.table
            free = _without_rows(model, name, term, count)
            mean = float(gain[item].mean())
            if (factor * (gain[free] - mean) >= 1).any():
                favored.append(name)
            least = float(gain.min() if unseen == "model" else gain[~free].min())
            if unseen != "model":
                gain[free] = mean if unseen == "mean" else least
            rest += least / log_odds.slope
            rounded.append(term.with_values(np.rint(factor * (gain - least))))
        if favored and unseen is None:
            _warn_of_unseen(favored)
        base = int(np.rint(base_score + factor * (log_odds(rest) - math.log(base_odds))))
        points = [term.table[row] for term, row in zip(rounded, items, strict=True)]
        total = base + np.sum([*points, np.zeros(len(goods))], axis=0)
        upwards = np.sign(log_odds.slope) * scores
        return cls(
            model, tuple(rounded), base, log_odds, base_score, base_odds, points_to_double_odds,
            dict(texts or {}), tuple(float(each.mean()) for each in points),
            tuple(counted), (order_changes(upwards, total), order_changes(upwards, total, goods)),
        )  # fmt: skip

    # -- scoring ---------------------------------------------------------------------------

    def points(self, X: Any) -> Integers:
        """Points of each row. O(terms) for a row."""
        return self.base + self._parts(X).sum(axis=1).astype(np.int64)

    def probability(self, points: Any) -> Floats:
        """Probability of being good that points stand for."""
        factor = self.points_to_double_odds / math.log(2)
        away = (np.asarray(points, np.float64) - self.base_score) / factor
        return expit(away + math.log(self.base_odds))

    def reasons(self, X: Any, n: int = 4, *, reference: str = "best") -> list[list[Reason]]:
        """The terms that cost each row most points, at most n, the most expensive first.

        `reference` is what a row is compared with: "best", the most points that a term gives, or
        "mean", its mean over the rows that the scorecard was made with. Terms that cost nothing
        are left out; terms that cost the same come in the order of the scorecard.
        """
        whole_number("n", n, least=1)
        check_choice("reference", reference, ("best", "mean"))
        most = [float(term.table.max()) for term in self.terms]
        against = np.array(most if reference == "best" else self.mean_points)
        parts, rows = self._parts(X), self._rows(X)
        cost = against - parts
        order = np.argsort(-cost, axis=1, kind="stable")[:, :n]
        names = [_name(self.model, term) for term in self.terms]
        labels = [self._labels(term) for term in self.terms]
        cells = np.stack(
            [*(np.ravel_multi_index(_positions(term, rows), term.shape) for term in self.terms),
             np.zeros(len(cost), np.int64)], axis=1,
        )  # fmt: skip

        def reason(row: int, t: int) -> Reason:
            label = labels[t][cells[row, t]]
            text = self.texts.get(names[t], f"{names[t]}: {label}")
            return Reason(names[t], label, float(cost[row, t]), text)

        return [
            [reason(row, t) for t in listed if cost[row, t] > 0]
            for row, listed in enumerate(order.tolist())
        ]

    def _labels(self, term: Term) -> list[str]:
        """Text of every cell, cells that the table shows as one having one text."""
        found = [""] * math.prod(term.shape)
        for run in _runs(term):
            text = self._label(term, run[0], run[-1])
            for cell in run:
                found[int(np.ravel_multi_index(cell, term.shape))] = text
        return found

    def _rows(self, X: Any) -> Array:
        return self.model._validated(X, reset=False)

    def _parts(self, X: Any) -> Floats:
        rows = self._rows(X)
        return np.stack([*(term(rows) for term in self.terms), np.zeros(rows.shape[0])], axis=1)[
            :, : len(self.terms)
        ]

    # -- reading ---------------------------------------------------------------------------

    def rows(self) -> list[dict[str, Any]]:
        """The scorecard as a list: a base, and for every bin its points, rows and share of good.

        Neighboring bins of a feature that have the same points are one.
        """
        listed: list[dict[str, Any]] = [
            {"term": "base", "bin": "", "points": self.base, "rows": self.log_odds.rows,
             "good_rate": self.log_odds.goods / self.log_odds.rows}
        ]  # fmt: skip
        for term, (count, goods) in zip(self.terms, self.cells, strict=True):
            for cells in _runs(term):
                rows = sum(int(count[cell]) for cell in cells)
                good = sum(int(goods[cell]) for cell in cells)
                listed.append({
                    "term": _name(self.model, term),
                    "bin": self._label(term, cells[0], cells[-1]),
                    "points": int(term.table[cells[0]]),
                    "rows": rows,
                    "good_rate": good / rows if rows else math.nan,
                })  # fmt: skip
        return listed

    def to_frame(self) -> Any:
        """The scorecard as a pandas data frame; see `rows`."""
        return pandas_frame(self.rows())

    def _label(
        self, term: Term, first: tuple[int, ...], last: tuple[int, ...] | None = None
    ) -> str:
        """Text of a bin, or of the bins from one to another."""
        names = _names(self.model)
        parts = []
        for axis, feature in enumerate(term.features):
            low, high = first[axis], (last or first)[axis]
            text = _bin_label(term, axis, low, high, self.categories_.get(names[feature]))
            parts.append(text if len(term.features) == 1 else f"{names[feature]} {text}")
        return "; ".join(parts)

    def __str__(self) -> str:
        low = self.base + sum(int(term.table.min()) for term in self.terms)
        high = self.base + sum(int(term.table.max()) for term in self.terms)
        slope = self.log_odds
        return (
            f"scorecard of {len(self.terms)} terms, {low} to {high} points\n"
            f"  {self.base_score:g} points are odds of {self.base_odds:g} to 1; "
            f"{self.points_to_double_odds:g} more double them\n"
            f"  log-odds = {slope.intercept:.4g} {'-' if slope.slope < 0 else '+'} "
            f"{abs(slope.slope):.4g} (± {slope.slope_error:.2g}) · score, from {slope.rows:,} "
            f"rows, {slope.goods:,} of them good\n"
            f"  rounding: {self.rounding[1]}"
        )

    # -- files -----------------------------------------------------------------------------

    # What exports ask of a model: a scorecard is a model of terms whose values are its points.

    @property
    def ensemble_(self) -> Ensemble:
        """The points as a model of terms and a constant."""
        weights = [*([1.0] * len(self.terms)), float(self.base)]
        return Ensemble([*self.terms, Constant()], weights, self.model.ensemble_.n_features)

    @property
    def feature_names_in_(self) -> list[str]:
        """Names of the features."""
        return _names(self.model)

    @property
    def categories_(self) -> dict[str, list[Any]]:
        """Categories that were text in the fit."""
        return dict(self.model.categories_)

    def export(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write the scorecard, atomically: ``.csv``, ``.sql`` or ``.py`` by the suffix.

        CSV holds `rows`. SQL is a SELECT statement that gives every row of a table its points
        (options as for ``precede.export(..., "sql")``; the column is called points). Python is a
        module that needs no package: ``score(row)`` gives points, ``reasons(row, n)`` texts.
        """
        suffix = PurePath(path).suffix.lower()
        if suffix not in (".csv", ".sql", ".py"):
            raise ValueError(f"{os.fspath(path)}: use a name that ends in .csv, .sql or .py")
        if options and suffix != ".sql":
            raise ValueError(f"a {suffix} file has no options, but {', '.join(options)} is given")
        if suffix == ".csv":
            text = self._csv()
        elif suffix == ".sql":
            text = sql_text(self, **{"name": "points", **options})  # type: ignore[arg-type]
        else:
            text = python_text(self) + self._python_reasons()  # type: ignore[arg-type]
        write_file(path, text.encode("utf-8"))

    def _csv(self) -> str:
        written = io.StringIO()
        rows = self.rows()
        writer = csv.DictWriter(written, [*rows[0]], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return written.getvalue()

    def _python_reasons(self) -> str:
        names = [_name(self.model, term) for term in self.terms]
        best = [float(term.table.max()) for term in self.terms]
        texts, trees = [], []
        for name, term in zip(names, self.terms, strict=True):
            found, numbers = [self.texts.get(name, "")], np.zeros(term.shape)
            if name not in self.texts:  # as in `reasons`: the name and the bin
                runs = _runs(term)
                found = [f"{name}: {self._label(term, run[0], run[-1])}" for run in runs]
                for number, run in enumerate(runs):
                    for cell in run:
                        numbers[cell] = number
            texts.append(found)
            trees.append(
                python_tree(term_nodes(replace(term, values=tuple(numbers.ravel().tolist()))))
            )
        return REASONS.format(names=names, texts=texts, bins=f"[{', '.join(trees)}]", best=best)


REASONS = '''

# What each term is called, what to print where it costs points (trees say which of the texts),
# and its most points
TERMS = {names}
TEXTS = {texts}
BINS = {bins}
BEST = {best}


def parts(row):
    """Points of each term, in the order of TERMS."""
    row = numbers(row)
    return [leaf(nodes, row) for nodes in TREES]


def reasons(row, n=4):
    """Texts of the terms that cost most points against the best, at most n."""
    cost = [most - got for most, got in zip(BEST, parts(row))]
    order = sorted(range(len(cost)), key=lambda t: (-cost[t], t))
    row = numbers(row)
    return [TEXTS[t][int(leaf(BINS[t], row))] for t in order[:n] if cost[t] > 0]
'''


def _refuse_reversed(log_odds: LogOdds, y: Any, goods: Array) -> None:
    """A ranker ranks the larger label first; the odds must agree with it."""
    given = check_labels(y, "y")
    labels = np.unique(given).tolist()
    upwards = bool(given[goods][0] == labels[1])
    if (log_odds.slope > 0) != upwards:
        raise ValueError(
            f"on these rows a higher score is less often {labels[1]!r} (slope of the log-odds "
            f"{log_odds.slope:.3g}), but the model ranks {labels[1]!r} first; check the "
            "labels, and that the model is better than chance"
        )


def _without_rows(model: BaseRanker, name: str, term: Term, count: Integers) -> Array:
    """Cells for missing values that no row has reached, less those that were set by hand."""
    last = [np.arange(size) == size - 1 for size in term.shape]
    missing = np.logical_or.outer(*last) if len(last) == 2 else last[0]
    found = missing & (count == 0) & (term.count == 0)
    for edit in getattr(model, "edits_", ()):
        if edit["term"] == name and edit["edit"] == "set_value":
            found[tuple(edit["bin"])] = False
    return found


def _warn_of_unseen(names: Sequence[str]) -> None:
    warnings.warn(
        f"no row has a missing value (or an unlisted category) of {', '.join(names)}, but the "
        "model gives it more points than the mean, which nothing supports; it gets 0 points, like "
        "the worst bin. Give unseen='worst' to agree, 'mean' for average points, or 'model' to "
        "keep what the model says",
        stacklevel=3,
    )


def _names(model: BaseRanker) -> list[str]:
    return feature_names(getattr(model, "feature_names_in_", None), model.ensemble_.n_features)


def _name(model: BaseRanker, term: Term) -> str:
    names = _names(model)
    return PAIR.join(names[feature] for feature in term.features)


def _positions(term: Term, X: Array) -> tuple[Integers, ...]:
    dense = X.toarray() if hasattr(X, "toarray") else X
    return tuple(term.bins(axis, dense[:, f]) for axis, f in enumerate(term.features))


def _counted(term: Term, row: tuple[Integers, ...], goods: Array) -> tuple[Integers, Integers]:
    """Rows, and good ones, in every cell."""
    flat = np.ravel_multi_index(row, term.shape)
    size = math.prod(term.shape)
    return (
        np.bincount(flat, minlength=size).reshape(term.shape),
        np.bincount(flat[goods], minlength=size).reshape(term.shape),
    )


def _runs(term: Term) -> list[list[tuple[int, ...]]]:
    """Cells of a term; neighbors of an ordered feature with the same points together."""
    cells = [cell for cell in np.ndindex(*term.shape)]
    if len(term.shape) == 2 or term.categorical[0]:
        return [[cell] for cell in cells]
    runs: list[list[tuple[int, ...]]] = []
    for cell in cells[:-1]:
        if runs and term.table[runs[-1][-1]] == term.table[cell]:
            runs[-1].append(cell)
        else:
            runs.append([cell])
    return [*runs, [cells[-1]]]


def _bin_label(term: Term, axis: int, low: int, high: int, categories: Sequence[Any] | None) -> str:
    cuts = term.cuts[axis]
    if term.categorical[axis]:
        if low == len(cuts):
            return OTHER
        return f"{cuts[low]:g}" if categories is None else str(categories[int(cuts[low])])
    if low == len(cuts) + 1:
        return MISSING
    if low == 0:
        return f"up to {cuts[high]:.6g}" if high < len(cuts) else "any value"
    return (
        f"{cuts[low - 1]:.6g} to {cuts[high]:.6g}"
        if high < len(cuts)
        else f"above {cuts[low - 1]:.6g}"
    )
