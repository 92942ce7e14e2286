"""Scorecard: integer points for each bin of an additive model."""

from __future__ import annotations

import csv
import io
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from precede.decomposition import Decomposition, Nodes
from precede.engine.arrays import Flags, Floats, Integers, Json, MatrixLike, VectorLike
from precede.engine.parameters import check_choice, check_integer, check_range
from precede.explain.shapes import PAIR, additive_terms
from precede.exports.base import ExportedModel
from precede.exports.source import python_text, python_tree
from precede.exports.sql import sql_text
from precede.judgments import check_labels, feature_names
from precede.model import write_file
from precede.results import Result, plain
from precede.scorecard.monitoring import LogOdds, fit_log_odds, is_good
from precede.scorecard.points import OrderChanges, order_changes
from precede.weak_rankers.columns import Constant
from precede.weak_rankers.terms import Term

if TYPE_CHECKING:
    from precede.estimator import BaseRanker

MISSING, OTHER = "missing", "other or missing"


@dataclass(frozen=True)
class Reason:
    """A term that explains why a row has fewer points than the reference.

    Attributes
    ----------
    name : the feature, or the two features of a pair
    bin : label of the row's bin
    points : points lost compared with the reference
    text : text to print
    """

    name: str
    bin: str
    points: float
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, eq=False)
class Scorecard(Result):
    """Integer points for each bin of a model, whose sum is a score on a scale of odds.

    A row has ``points = base + sum over terms of the points of its bin``, rounded from
    ``base_score + pdo / log(2) · (log-odds - log(base_odds))``: odds of `base_odds` to 1 of being
    good are `base_score` points, and `points_to_double_odds` (pdo) more points double the odds.
    The log-odds come from a logistic regression of the outcome on the score of the model
    (`log_odds`), because a ranking score has no scale. The worst bin of each term has 0 points, and
    by default so has a bin for missing values without rows (see `of`).

    Created by `of`. Attributes: `base`, `terms` (tables of points), `log_odds`, `rounding` (pairs
    of rows whose order is changed by rounding: of all pairs, and of pairs of a good and a bad row).

    Examples
    --------
    >>> import numpy as np
    >>> from precede import RankBoost
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 4, size=(400, 2)).astype(float)
    >>> y = rng.random(400) < 1 / (1 + np.exp(-(X[:, 0] - X[:, 1])))
    >>> model = RankBoost(n_estimators=10, learning_rate=0.1).fit(X[:200], y[:200])
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
    cells: tuple[tuple[Integers, Integers], ...] = field(repr=False)  # counts of all and good rows
    rounding: tuple[OrderChanges, OrderChanges] = field(repr=False)

    @classmethod
    def of(
        cls,
        model: BaseRanker,
        X: MatrixLike,
        y: VectorLike,
        *,
        good: object = None,
        base_score: float = 600,
        base_odds: float = 50,
        points_to_double_odds: float = 20,
        texts: Mapping[str, str] | None = None,
        unseen: str | None = None,
    ) -> Scorecard:
        """Create a scorecard from a fitted model, calibrated on labeled rows.

        Parameters
        ----------
        model : fitted `GlassBoxRanker`, or any model of stumps or of trees of one feature
        X, y : rows and labels of two classes, preferably held-out
        good : label of the good rows, which get more points; required, because 1 may stand for a
            loan repaid or for a default
        base_score, base_odds, points_to_double_odds : scale of the points
        texts : text of a reason by the name of the feature or pair ("age x income")
        unseen : {"worst", "mean", "model"}, optional
            Points of a bin for missing values or unlisted categories that has no training row
            (if the model has counts) and no row of X, so that no data support its value in the
            model: 0 as in the worst bin, the mean points of the term over X, or the value of the
            model. Bins set by `GlassBoxRanker.set_value` always keep their value. The default is
            "worst", with a warning if the model gives such a bin more than the mean.
        """
        check_is_fitted(model)
        check_choice("unseen", unseen or "worst", ("worst", "mean", "model"))
        check_range("base_odds", base_odds, 0, 1e9)
        check_range("points_to_double_odds", points_to_double_odds, 0, 1e9)
        check_range("base_score", base_score, -1e9, 1e9)
        tables, constant = additive_terms(model.ensemble_.decomposition)
        goods = is_good(y, good)
        rows = model._validated(X, reset=False)
        scores = model.ensemble_.predict(rows)
        log_odds = fit_log_odds(scores, goods)
        _check_direction(log_odds, y, goods)
        factor = points_to_double_odds / math.log(2)
        cells = [term.cells(rows) for term in tables]
        counts = [_count_cells(*each, goods) for each in zip(tables, cells, strict=True)]
        names = [_term_name(model, term) for term in tables]
        unknown = [name for name in texts or {} if name not in names]
        if unknown:
            raise ValueError(f"texts= names {unknown[0]!r}; the terms are {', '.join(names)}")
        rounded, favored, base_value = [], [], constant
        for name, term, cell, (count, _) in zip(names, tables, cells, counts, strict=True):
            log_odds_part = log_odds.slope * term.table
            empty = _empty_cells(model, name, term, count)
            mean = float(log_odds_part[cell].mean())
            if (factor * (log_odds_part[empty] - mean) >= 1).any():
                favored.append(name)
            supported = log_odds_part if unseen == "model" else log_odds_part[~empty]
            worst = float(supported.min())
            if unseen != "model":
                log_odds_part[empty] = mean if unseen == "mean" else worst
            base_value += worst / log_odds.slope
            rounded.append(term.with_values(np.rint(factor * (log_odds_part - worst))))
        if favored and unseen is None:
            _warn_of_unseen(favored)
        base = int(np.rint(base_score + factor * (log_odds(base_value) - math.log(base_odds))))
        points = [term.table[cell] for term, cell in zip(rounded, cells, strict=True)]
        total = base + np.sum([*points, np.zeros(len(goods))], axis=0)
        exact = np.sign(log_odds.slope) * scores
        return cls(
            model, tuple(rounded), base, log_odds, base_score, base_odds, points_to_double_odds,
            dict(texts or {}), tuple(float(each.mean()) for each in points),
            tuple(counts), (order_changes(exact, total), order_changes(exact, total, goods)),
        )  # fmt: skip

    # -- scoring ---------------------------------------------------------------------------

    def points(self, X: MatrixLike) -> Integers:
        """Return the points of each row. O(terms) per row."""
        return self.base + self._term_points(X).sum(axis=1).astype(np.int64)

    def probability(self, points: VectorLike) -> Floats:
        """Return the probability of being good for a number of points."""
        factor = self.points_to_double_odds / math.log(2)
        relative = (np.asarray(points, np.float64) - self.base_score) / factor
        return expit(relative + math.log(self.base_odds))

    def reasons(self, X: MatrixLike, n: int = 4, *, reference: str = "best") -> list[list[Reason]]:
        """Return the terms by which each row loses most points, at most n in decreasing order.

        `reference` is the maximum of each term ("best") or its mean over the rows of the scorecard
        ("mean"). Terms without a loss are left out; ties are in the order of the scorecard.
        """
        check_integer("n", n, least=1)
        check_choice("reference", reference, ("best", "mean"))
        best_points = [float(term.table.max()) for term in self.terms]
        reference_points = np.array(best_points if reference == "best" else self.mean_points)
        loss = reference_points - self._term_points(X)
        order = np.argsort(-loss, axis=1, kind="stable")[:, :n]
        rows = self.model._validated(X, reset=False)
        names = [_term_name(self.model, term) for term in self.terms]
        labels, bins = [], []
        for term in self.terms:
            texts, label_of_cell = self._cell_labels(term)
            labels.append(texts)
            bins.append(label_of_cell[term.cells(rows)])

        def reason(row: int, t: int) -> Reason:
            label = labels[t][bins[t][row]]
            text = self.texts.get(names[t], f"{names[t]}: {label}")
            return Reason(names[t], label, float(loss[row, t]), text)

        return [
            [reason(row, t) for t in largest if loss[row, t] > 0]
            for row, largest in enumerate(order.tolist())
        ]

    def _cell_labels(self, term: Term) -> tuple[list[str], Integers]:
        """Return the labels of the bins in `rows`, and the index of the label of each cell."""
        merged, label_of_cell = _merge_cells(term), np.zeros(term.shape, np.int64)
        for number, cells in enumerate(merged):
            for cell in cells:
                label_of_cell[cell] = number
        return [self._label(term, cells) for cells in merged], label_of_cell

    def _term_points(self, X: MatrixLike) -> Floats:
        """Return the points of each row in each term."""
        rows = self.model._validated(X, reset=False)
        points = np.zeros((rows.shape[0], len(self.terms)))
        for t, term in enumerate(self.terms):
            points[:, t] = term(rows)
        return points

    # -- reading ---------------------------------------------------------------------------

    def rows(self) -> list[Json]:
        """Return the base, and points, row count and share of good rows of each bin.

        Neighboring bins of a feature with the same points are merged.
        """
        table: list[Json] = [
            {"term": "base", "bin": "", "points": self.base, "rows": self.log_odds.rows,
             "good_rate": self.log_odds.goods / self.log_odds.rows}
        ]  # fmt: skip
        for term, (count, goods) in zip(self.terms, self.cells, strict=True):
            for cells in _merge_cells(term):
                rows = sum(int(count[cell]) for cell in cells)
                good = sum(int(goods[cell]) for cell in cells)
                table.append({
                    "term": _term_name(self.model, term),
                    "bin": self._label(term, cells),
                    "points": int(term.table[cells[0]]),
                    "rows": rows,
                    "good_rate": good / rows if rows else math.nan,
                })  # fmt: skip
        return table

    def to_dict(self) -> Json:
        """Return the scale of the points and the rows of the table as plain data."""
        known = {"log_odds": asdict(self.log_odds), "rows": plain(self.rows())}
        return {**super().to_dict(), **known}

    def _label(self, term: Term, merged: Sequence[tuple[int, ...]]) -> str:
        """Return the label of merged neighboring cells."""
        names = _feature_names(self.model)
        labels = []
        for axis, feature in enumerate(term.features):
            low, high = merged[0][axis], merged[-1][axis]
            label = _bin_label(term, axis, low, high, self.model.categories_.get(names[feature]))
            labels.append(label if len(term.features) == 1 else f"{names[feature]} {label}")
        return "; ".join(labels)

    def __str__(self) -> str:
        low = self.base + sum(int(term.table.min()) for term in self.terms)
        high = self.base + sum(int(term.table.max()) for term in self.terms)
        fit = self.log_odds
        return (
            f"scorecard of {len(self.terms)} terms, {low} to {high} points\n"
            f"  {self.base_score:g} points are odds of {self.base_odds:g} to 1; "
            f"{self.points_to_double_odds:g} more double them\n"
            f"  log-odds = {fit.intercept:.4g} {'-' if fit.slope < 0 else '+'} "
            f"{abs(fit.slope):.4g} (± {fit.slope_error:.2g}) · score, from {fit.rows:,} "
            f"rows, {fit.goods:,} of them good\n"
            f"  rounding: {self.rounding[1]}"
        )

    # -- files -----------------------------------------------------------------------------

    @property
    def _exported(self) -> ExportedModel:
        """The terms and the base as a model that predicts points."""
        return ExportedModel(
            Decomposition.of([*((term, 1.0) for term in self.terms), (Constant(), self.base)]),
            tuple(_feature_names(self.model)),
            f"precede Scorecard, {len(self.terms)} terms",
            categories=self.model.categories_,
        )

    def export(self, path: str | os.PathLike[str], **options: object) -> None:
        """Write the scorecard atomically to a ``.csv``, ``.sql`` or ``.py`` file.

        CSV has the contents of `rows`. SQL is a SELECT statement that computes the column "points"
        (options as for ``precede.export(..., "sql")``). Python is a module without dependencies:
        ``score(row)`` returns points, ``reasons(row, n)`` texts.
        """
        suffix = PurePath(path).suffix.lower()
        if suffix not in (".csv", ".sql", ".py"):
            raise ValueError(f"{os.fspath(path)}: use a name that ends in .csv, .sql or .py")
        if options and suffix != ".sql":
            raise ValueError(f"a {suffix} file has no options, but {', '.join(options)} is given")
        if suffix == ".csv":
            text = self._csv()
        elif suffix == ".sql":
            text = sql_text(self._exported, **{"name": "points", **options})  # type: ignore[arg-type]
        else:
            text = python_text(self._exported) + self._python_reasons()
        write_file(path, text.encode("utf-8"))

    def _csv(self) -> str:
        text = io.StringIO()
        rows = self.rows()
        writer = csv.DictWriter(text, [*rows[0]], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()

    def _python_reasons(self) -> str:
        """Return the Python source of the reason codes.

        For each term it has a list of texts, and a tree that returns the index of a row's text.
        """
        names = [_term_name(self.model, term) for term in self.terms]
        best = [float(term.table.max()) for term in self.terms]
        texts, trees = [], []
        for name, term in zip(names, self.terms, strict=True):
            labels, label_of_cell = self._cell_labels(term)
            if name in self.texts:
                texts.append([self.texts[name]])
                label_of_cell[:] = 0
            else:
                texts.append([f"{name}: {label}" for label in labels])
            numbered = term.with_values(label_of_cell.astype(np.float64))
            trees.append(python_tree(Nodes.of_term(numbered)))
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


def _check_direction(log_odds: LogOdds, y: VectorLike, goods: Flags) -> None:
    """Raise ValueError unless the larger label, which a ranker ranks first, has higher scores."""
    given = check_labels(y, "y")
    labels = np.unique(given).tolist()
    larger_is_good = bool(given[goods][0] == labels[1])
    if (log_odds.slope > 0) != larger_is_good:
        raise ValueError(
            f"on these rows a higher score is less often {labels[1]!r} (slope of the log-odds "
            f"{log_odds.slope:.3g}), but the model ranks {labels[1]!r} first; check the "
            "labels, and that the model is better than chance"
        )


def _empty_cells(model: BaseRanker, name: str, term: Term, count: Integers) -> Flags:
    """Return a mask of the cells for missing values without rows that were not set by hand."""
    is_last = [np.arange(size) == size - 1 for size in term.shape]
    missing = np.logical_or.outer(*is_last) if len(is_last) == 2 else is_last[0]
    empty = missing & (count == 0) & (term.count == 0)
    for edit in getattr(model, "edits_", ()):
        if edit["term"] == name and edit["edit"] == "set_value":
            empty[tuple(edit["bin"])] = False
    return empty


def _warn_of_unseen(names: Sequence[str]) -> None:
    warnings.warn(
        f"no row has a missing value (or an unlisted category) of {', '.join(names)}, but the "
        "model gives it more points than the mean, which nothing supports; it gets 0 points, like "
        "the worst bin. Give unseen='worst' to agree, 'mean' for average points, or 'model' to "
        "keep what the model says",
        stacklevel=3,
    )


def _feature_names(model: BaseRanker) -> list[str]:
    return feature_names(getattr(model, "feature_names_in_", None), model.ensemble_.n_features)


def _term_name(model: BaseRanker, term: Term) -> str:
    names = _feature_names(model)
    return PAIR.join(names[feature] for feature in term.features)


def _count_cells(
    term: Term, cells: tuple[Integers, ...], goods: Flags
) -> tuple[Integers, Integers]:
    """Return the number of rows, and of good rows, in each cell."""
    flat = np.ravel_multi_index(cells, term.shape)
    size = math.prod(term.shape)
    return (
        np.bincount(flat, minlength=size).reshape(term.shape),
        np.bincount(flat[goods], minlength=size).reshape(term.shape),
    )


def _merge_cells(term: Term) -> list[list[tuple[int, ...]]]:
    """Return the cells of a term, with neighbors of equal points of a numeric feature grouped."""
    cells = list(np.ndindex(*term.shape))
    if len(term.shape) == 2 or term.categorical[0]:
        return [[cell] for cell in cells]
    groups: list[list[tuple[int, ...]]] = []
    for cell in cells[:-1]:
        if groups and term.table[groups[-1][-1]] == term.table[cell]:
            groups[-1].append(cell)
        else:
            groups.append([cell])
    return [*groups, [cells[-1]]]


def _bin_label(
    term: Term, axis: int, low: int, high: int, categories: Sequence[str | float] | None
) -> str:
    """Return the label of the merged bins from `low` to `high` of one feature."""
    cuts = term.cuts[axis]
    if term.categorical[axis]:
        if low == len(cuts):
            return OTHER
        return f"{cuts[low]:g}" if categories is None else str(categories[int(cuts[low])])
    if low == len(cuts) + 1:
        return MISSING
    if low == 0:
        return f"up to {cuts[high]:.6g}" if high < len(cuts) else "any value"
    if high < len(cuts):
        return f"{cuts[low - 1]:.6g} to {cuts[high]:.6g}"
    return f"above {cuts[low - 1]:.6g}"
