"""Generalized additive ranker: a sum of functions of one and of two features."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, overload

import numpy as np
from sklearn.isotonic import IsotonicRegression
from sklearn.utils.validation import check_is_fitted

from precede.algorithms.additive_fit import AdditiveFit, FittedAdditiveModel, Pair, scores_of
from precede.algorithms.boosted import TreeRanker
from precede.boosting.callbacks import ProgressBar
from precede.boosting.coordinate_descent import CoordinateDescent
from precede.boosting.holdout import Resampler
from precede.boosting.loop import ENDED_BY_USER, INTERRUPTED, History, Result, run_rounds
from precede.engine.arrays import Floats, Json, MatrixLike, VectorLike
from precede.engine.parameters import check_integer, check_range
from precede.estimator import FitContext, Saved
from precede.estimator.saving import of_type
from precede.explain.shapes import (
    PAIR,
    PairFunction,
    ShapeFunction,
    feature_index,
    pair_function,
)
from precede.judgments import feature_names
from precede.losses import PairLoss, Price
from precede.model import Ensemble, number
from precede.risks.base import Risk
from precede.risks.score_risk import ScoreRisk, risk_of
from precede.weak_rankers.columns import Constant
from precede.weak_rankers.interactions import Grid, PairTerms
from precede.weak_rankers.terms import Term

if TYPE_CHECKING:
    from typing_extensions import Self


# A term: its name, its column by number or name, or two columns.
TermName = int | str | Sequence[int | str]
SELECTIONS = ("auto", "greedy", "cyclic")
HEREDITIES = (None, "weak", "strong")
# With fewer queries than this, rows are resampled instead of queries.
MIN_QUERIES_AS_UNITS = 10
# Maximum number of pairs whose strengths are stored with the model.
MAX_STRENGTHS = 1000


@dataclass(frozen=True)
class TermSummary:
    """One term of a fitted model.

    Attributes
    ----------
    name : name of the feature, or of both
    features : one column or two
    importance : mean absolute contribution to the scores of the training rows, by their weights
    shape : number of bins of each feature, one of them for missing values
    """

    name: str
    features: tuple[int, ...]
    importance: float
    shape: tuple[int, ...]


def _read_strengths(rows: list[tuple[int, int, float]], name: str) -> dict[Pair, float]:
    """Return the strengths of pairs from a model file."""
    _check_pairs(rows, name, 3)
    return {(j, k): number(value, "strength") for j, k, value in rows}


def _strengths_as_rows(strengths: dict[Pair, float]) -> list[list[float]]:
    return [[*pair, value] for pair, value in strengths.items()]


def _read_pairs(rows: list[Pair], name: str) -> list[Pair]:
    """Return pairs of columns from a model file."""
    _check_pairs(rows, name, 2)
    return [(j, k) for j, k in rows]


def _check_pairs(rows: Sequence[Sequence[float]], name: str, width: int) -> None:
    """Raise ValueError unless rows of a model file begin with two columns."""
    if not isinstance(rows, list) or not all(
        isinstance(row, list) and len(row) == width and all(type(each) is int for each in row[:2])
        for row in rows
    ):
        raise ValueError(f"{name!r} of the model are not rows of pairs of columns")


def _read_edits(edits: list[Json], name: str) -> list[Json]:
    """Return edits from a model file."""
    if not isinstance(edits, list) or not all(isinstance(each, dict) for each in edits):
        raise ValueError(f"the {name} of the model are not a list of objects")
    return edits


class GlassBoxRanker(TreeRanker):
    """A sum of functions of one or two features, for any risk of the scores.

    The model is ``f(x) = c + sum_j f_j(x_j) + sum_jk f_jk(x_j, x_k)``: one table for each
    feature, and one for each pair of features that interact. It is fitted in stages: boosted
    trees of one feature each; detection of pairs on the remaining gradient; boosted functions of
    the best pairs; purification, after which no pair term has a main effect (functional ANOVA on
    the training rows).

    Parameters
    ----------
    loss, price, balance
        The risk; see `BoostedRanker`.
    interactions : int or list of pairs
        Number of strongest pairs to try; or the pairs themselves, by number or name.
    selection : {"auto", "greedy", "cyclic"}
        Whether a round boosts the feature that decreases the risk most, or features are boosted in
        turn. "auto" tries both if there are enough rounds (`n_estimators` is at least
        ``2 / learning_rate`` times the number of features), and chooses the one that orders more
        pairs of held-out rows correctly; otherwise, and without trials, it is "greedy".
    heredity : {None, "weak", "strong"}
        Whether a pair may be chosen only if one ("weak") or both ("strong") of its features have
        a curve.
    validation_fraction : float in [0, 1)
        Share of the queries (of the rows, if there are fewer than ten queries) that a trial fit
        holds out. A pair is kept if it decreases the held-out risk by more than three standard
        errors (over ten blocks of held-out rows), and the number of rounds of pairs is the best on
        held-out rows. With fewer than 50,000 rows every such share is held out once, and the
        results of the trials are combined. The model itself is then fitted to all rows. 0 means no
        trial: all pairs and all rounds are kept.
    max_terms : int, optional
        Keep only this many terms, the most important ones, and refit; `sparsity_cost_` compares the
        risks.
    n_estimators, pair_estimators : int
        Number of rounds of the curves, which add a tree of one feature each, and maximum number of
        rounds of the pairs; their best number is chosen on held-out rows.
    learning_rate : float in (0, 1]
        Every step is multiplied by it.
    num_leaves, min_child_samples, min_child_weight, reg_lambda, hessian, cat_smooth
        Limits of trees and cells; see `BoostedRanker`.
    categorical_features : list of column numbers or names, optional
        See `BoostedRanker`.
    pair_bins : int
        Maximum number of bins of a feature in pair terms, in addition to that of missing values.
    bags : int
        1 is one fit to all rows; a larger number is that of bootstrap samples (of queries, of rows,
        or of explicit pairs if there are no grades and the pairs do not fall into groups). The
        tables are then means over models of the samples, and have standard errors. The number of
        rounds of each sample, at most that of the model, is the best for its out-of-bag rows,
        unless `validation_fraction` is 0. Each sample takes one more fit.
    monotone_constraints : list of -1, 0 and 1, or dict of column to -1 or 1, optional
        Scores must decrease (-1) or increase (1) with a feature. Such a feature has a curve, but is
        in no pair.
    random_state : int or RandomState, optional
        For the choice of the held-out rows and of the bootstrap samples.
    device : {"cpu", "cuda"}
        Device on which curves are boosted and pairs are detected, as for `BoostedRanker`. Pair
        terms are fitted on the CPU.
    max_bins, early_stopping_rounds, eval_metric, callbacks, n_jobs, verbose
        As for `RankBoost`. Both stages stop early.

    Attributes
    ----------
    terms_ : list of TermSummary
        The terms, most important first.
    intercept_term_ : float
        The constant c.
    cyclic_ : bool
        Whether the features were boosted in turn, by `selection` or chosen by the trials.
    pair_strengths_ : dict
        Strength of the interaction of pairs of columns, strongest first (a thousand at most).
    dropped_pairs_ : list
        Pairs that were tried and dropped.
    sparsity_cost_ : dict or None
        With `max_terms`: number of terms and risk before and after.
    edits_ : list of dict
        Manual changes of the terms, in order.

    Notes
    -----
    The detection of pairs takes one addition per row and three pairs. Scoring a row takes one
    lookup per term and does not depend on the number of rounds. The model does not depend on the
    number of threads or on the order of the rows.

    References
    ----------
    Lou, Caruana, Gehrke & Hooker, *Accurate intelligible models with pairwise interactions*, KDD
    2013. Lucchese, Nardini, Orlando, Perego & Veneri, *ILMART: interpretable ranking with
    constrained LambdaMART*, SIGIR 2022. Lengerich, Tan, Chang, Hooker & Caruana, *Purifying
    interaction effects with the functional ANOVA*, AISTATS 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from precede import GlassBoxRanker
    >>> X = np.random.default_rng(0).uniform(-1, 1, (2000, 4))
    >>> y = 2 * X[:, 0] + np.sign(X[:, 1] * X[:, 2]) > 0  # good if both are positive or neither
    >>> model = GlassBoxRanker(interactions=1, n_estimators=50).fit(X, y)
    >>> [term.name for term in model.terms_[:2]]
    ['x1 x x2', 'x0']
    """

    loss: str | PairLoss | ScoreRisk = "logistic"
    price: str | float | Price = "linear"
    interactions: int | Sequence[Sequence[int | str]] = 50
    selection: str = "auto"
    heredity: str | None = None
    validation_fraction: float = 0.2
    max_terms: int | None = None
    n_estimators: int = 300
    pair_estimators: int = 300
    # With 300 rounds of two leaves, the setting of benchmarks/results/glassbox.md.
    learning_rate: float = 0.1
    num_leaves: int = 2
    pair_bins: int = 32

    resumable = False
    saved_attributes = MappingProxyType(
        {
            "pair_strengths_": Saved(_read_strengths, _strengths_as_rows),
            "dropped_pairs_": Saved(_read_pairs),
            "sparsity_cost_": Saved(of_type(dict, type(None))),
            "edits_": Saved(_read_edits),
            "cyclic_": Saved(of_type(bool)),
        }
    )

    def check_parameters(self) -> None:
        """Raise ValueError for an invalid parameter."""
        super().check_parameters()
        if self.selection not in SELECTIONS:
            raise ValueError(f"selection={self.selection!r} is unknown; use one of {SELECTIONS}")
        if self.heredity not in HEREDITIES:
            raise ValueError(f"heredity={self.heredity!r} is unknown; use one of {HEREDITIES}")
        check_integer("pair_estimators", self.pair_estimators, least=1)
        check_integer("pair_bins", self.pair_bins, least=2, most=64)
        if self.max_terms is not None:
            check_integer("max_terms", self.max_terms, least=1)
        if self.validation_fraction != 0:
            check_range("validation_fraction", self.validation_fraction, 0.0, 0.5)
        self._pairs()

    def _pairs(self) -> int | list[Pair]:
        """Return `interactions` as a number or as pairs of columns."""
        given = self.interactions
        if isinstance(given, int | np.integer) and not isinstance(given, bool):
            check_integer("interactions", int(given), least=0)
            return int(given)
        wrong = f"interactions={given!r}: give a number, or pairs of columns such as [(0, 1)]"
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise ValueError(wrong)
        found = set()
        for each in given:
            if isinstance(each, str) or not isinstance(each, Sequence) or len(each) != 2:
                raise ValueError(wrong)
            if not hasattr(self, "n_features_in_"):
                continue  # on a cluster, before the rows are read
            columns = self._columns(each, "interactions")
            pair = sorted({*columns})
            if len(pair) != 2:
                raise ValueError(f"interactions names the pair {each!r} of one column")
            found.add((pair[0], pair[1]))
        fixed = sorted({f for pair in found for f in pair} & self._unpaired())
        if fixed:
            raise ValueError(
                f"column {fixed[0]} has a direction in monotone_constraints, which a pair could "
                "break; take it out of interactions, or give it no direction"
            )
        return sorted(found)

    def _unpaired(self) -> frozenset[int]:
        """Return the monotone features, which are in no pairs."""
        given = self._monotone_constraints()
        if given is None:
            return frozenset()
        items = given.items() if isinstance(given, Mapping) else enumerate(given)
        return frozenset(int(column) for column, sign in items if sign != 0)

    # -- fitting ---------------------------------------------------------------------------

    def boost(self, task: FitContext) -> Result:
        """Boost curves, then pairs; with `max_terms`, boost the most important terms again."""

        def run_stage(trainer: CoordinateDescent, history: History) -> Result:
            if done := len(history):  # the second stage
                name, rounds = f"{type(self).__name__}, pairs", done + self.pair_estimators
                with ProgressBar(name, rounds=rounds, done=done, verbose=self.verbose) as bar:
                    return run_rounds(trainer, history, bar.callbacks(self.callbacks))
            with task.callbacks(self) as callbacks:
                return run_rounds(trainer, history, callbacks)

        stops_early = self.early_stopping_rounds is not None
        fit = self._additive_fit(task)
        found = replace(
            fit, run_stage=run_stage, monitors=task.monitors,
            early_stopping=self._early_stopping(task) if stops_early else None,
        ).run(self._pairs())  # fmt: skip
        self.pair_strengths_ = dict([*found.strengths.items()][:MAX_STRENGTHS])
        self.dropped_pairs_ = found.dropped
        self.cyclic_ = found.cyclic
        self.sparsity_cost_: Json | None = None
        ended = found.result.reason in ENDED_BY_USER
        too_many = self.max_terms is not None and len(found.model.terms) > self.max_terms
        if too_many and not ended:
            found = self._refit_sparse(fit, found, task)
        return replace(found.result, ensemble=_ensemble(found, task), scores=None)

    def after_rounds(self, result: Result, task: FitContext) -> None:  # noqa: ARG002
        """Count the rounds of the history: the terms are sums over rounds."""
        self.n_estimators_ = self.best_iteration_ = len(result.history)
        self.edits_: list[Json] = []

    def _additive_fit(self, task: FitContext) -> AdditiveFit:
        trees = self._trees()
        trees.interaction_constraints = [[j] for j in range(self.n_features_in_)]
        seed = self.draw_seed()

        def pair_terms(pairs: list[Pair], grid: Grid) -> PairTerms:
            return PairTerms(
                pairs, grid=grid, hessian=self.hessian,
                min_child_samples=self.min_child_samples, min_child_weight=self.min_child_weight,
                reg_lambda=self.reg_lambda, cat_smooth=self.cat_smooth,
            )  # fmt: skip

        rows = Resampler.of_fit(self, task, seed=seed, min_queries=MIN_QUERIES_AS_UNITS)
        return AdditiveFit(
            rows=rows,
            risk=self.risk(),
            trees=trees,
            pair_terms=pair_terms,
            pair_bins=self.pair_bins,
            rounds=self.n_estimators,
            pair_rounds=self.pair_estimators,
            learning_rate=self.learning_rate,
            cyclic=None if self.selection == "auto" else self.selection == "cyclic",
            heredity=self.heredity,
            held_out=self.validation_fraction,
            bags=self.bags,
            seed=seed,
            unpaired=self._unpaired(),
        )

    def risk(self) -> Risk:
        """Return the risk of the loss and the price."""
        return risk_of(self.loss, self.price, balance=self.balance)

    def _refit_sparse(
        self, fit: AdditiveFit, found: FittedAdditiveModel, task: FitContext
    ) -> FittedAdditiveModel:
        """Refit with the most important terms only, and record the cost."""
        assert self.max_terms is not None
        chosen = [term.features for term in found.model.by_importance()[: self.max_terms]]
        curves = frozenset(features[0] for features in chosen if len(features) == 1)
        pairs = sorted((features[0], features[1]) for features in chosen if len(features) == 2)
        fit = replace(
            fit, rounds=max(found.rounds, 1), pair_rounds=max(found.pair_rounds, 1),
            cyclic=found.cyclic, run_stage=partial(run_rounds, interruptible=False),
        )  # fmt: skip
        training = task.training
        try:
            again = fit.run(pairs, curves=curves, checked=False)
        except KeyboardInterrupt:
            training.context.warn(
                f"interrupted: the model keeps its {len(found.model.terms)} terms, more than "
                f"max_terms={self.max_terms}"
            )
            return replace(found, result=replace(found.result, reason=INTERRUPTED))
        bound = fit.risk.bind(training.layout, training.context)

        def risk(each: FittedAdditiveModel) -> float:
            log_value = bound.log_value(scores_of(each.model, training))
            return float(np.exp(bound.log_mean_loss(log_value)))

        self.sparsity_cost_ = {
            "terms_before": len(found.model.terms),
            "terms_after": len(again.model.terms),
            "risk_before": risk(found),
            "risk_after": risk(again),
        }
        return again

    # -- terms -----------------------------------------------------------------------------

    @property
    def terms_(self) -> list[TermSummary]:
        """Terms of the model, most important first."""
        check_is_fitted(self)
        found = [
            TermSummary(self._name(term.features), term.features, term.importance, term.shape)
            for term in _terms(self.ensemble_)
        ]
        return sorted(found, key=lambda term: (-term.importance, len(term.features), term.features))

    @property
    def intercept_term_(self) -> float:
        """The constant of the model."""
        check_is_fitted(self)
        parts = self.ensemble_.parts()
        return float(sum(weight for weak_ranker, weight in parts if weak_ranker.is_constant))

    def first_rounds(self, rounds: int) -> Ensemble:
        """Raise ValueError: the tables are sums over all rounds."""
        raise ValueError(
            f"num_iteration={rounds}: the rounds of a glass box are added up in its tables, so the "
            "model has no first rounds; leave num_iteration out, or fit fewer rounds"
        )

    def staged_predict(self, X: MatrixLike) -> Iterator[Floats]:
        """Yield the scores after each term, most important first, and after the constant."""
        return super().staged_predict(X)

    def contributions(self, X: MatrixLike) -> Floats:
        """Return the contribution of each term, in the order of ``ensemble_.weak_rankers``.

        The last column is the constant. Added from left to right, the columns give the scores to
        the last bit.
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        return np.stack([weight * each(X) for each, weight in self.ensemble_.parts()], axis=1)

    @overload
    def shape_function(self, feature: int | str) -> ShapeFunction: ...

    @overload
    def shape_function(
        self, feature: tuple[int | str, int | str] | list[int] | list[str]
    ) -> PairFunction: ...

    def shape_function(self, feature: TermName) -> ShapeFunction | PairFunction:
        """Return the curve of a feature, or the function of a pair of features.

        A pair is given as two features, ``("age", "income")``, or by the name of its term.
        """
        check_is_fitted(self)
        names = feature_names(self._feature_names, self.n_features_in_)
        if isinstance(feature, int | np.integer | str) and (
            feature in names or feature not in [term.name for term in self.terms_]
        ):
            return super().shape_function(feature)
        term = _terms(self.ensemble_)[self._index(feature)]
        return pair_function(term, names, self.categories_)

    def _name(self, features: tuple[int, ...]) -> str:
        names = feature_names(self._feature_names, self.n_features_in_)
        return PAIR.join(names[feature] for feature in features)

    def _index(self, term: TermName) -> int:
        """Return the index of a term, given by its name, a column, or a pair of columns."""
        indices = {each.features: index for index, each in enumerate(_terms(self.ensemble_))}
        known = [self._name(features) for features in indices]
        if isinstance(term, str) and term in known:
            if known.count(term) > 1:  # a feature has the name of a pair
                raise ValueError(f"two terms are called {term!r}; give columns by number")
            return known.index(term)
        wanted = term if isinstance(term, tuple | list) else (term,)
        columns = (feature_index(each, self._feature_names, self.n_features_in_) for each in wanted)
        found = tuple(sorted(columns))
        if found not in indices:
            raise ValueError(
                f"there is no term of {self._name(found)}; there are {', '.join(known[:10])}"
            )
        return indices[found]

    # -- editing ---------------------------------------------------------------------------

    def edit(
        self,
        feature: int | str,
        *,
        monotone: str,
        X: MatrixLike = None,
        y: VectorLike = None,
        qid: VectorLike = None,
    ) -> Self:
        """Replace the curve of a feature by the closest monotone one.

        The new curve is the closest monotone one by least squares over the training rows (isotonic
        regression); the value of missing values does not change. With rows `X`, `y` and `qid` the
        share of their pairs in order, before and after, is recorded in `edits_`.

        >>> model = GlassBoxRanker(interactions=0, min_child_samples=1, validation_fraction=0)
        >>> model = model.fit([[0.0], [1.0], [2.0], [3.0]], [0, 2, 1, 3])
        >>> curve = model.edit(0, monotone="increasing").shape_function(0)
        >>> bool((np.diff(curve.values) >= 0).all())
        True
        """
        check_is_fitted(self)
        if monotone not in ("increasing", "decreasing"):
            raise ValueError(f"monotone={monotone!r} is unknown; use 'increasing' or 'decreasing'")
        index = self._index(feature)
        term = _terms(self.ensemble_)[index]
        if len(term.features) == 2:
            raise ValueError(f"{self._name(term.features)} is a pair; edit one feature's curve")
        if term.categorical[0]:
            raise ValueError(f"{self._name(term.features)} has categories, which have no order")
        table = term.table.copy()
        weight = np.maximum(term.cell_weight[:-1], 1e-9)
        table[:-1] = IsotonicRegression(increasing=monotone == "increasing").fit_transform(
            np.arange(table.size - 1), table[:-1], sample_weight=weight
        )
        change: Json = {"edit": "monotone", "direction": monotone}
        shared = [each.name for each in self.terms_
                  if len(each.features) == 2 and term.features[0] in each.features]  # fmt: skip
        if shared:
            warnings.warn(
                f"the curve of {self._name(term.features)} is {monotone} now, but pair terms of "
                f"the feature may not be: {', '.join(shared)}; drop() takes them out",
                stacklevel=2,
            )
        return self._replace_term(index, term.with_values(table), change, X, y, qid)

    def set_value(
        self,
        term: TermName,
        bin: int | Sequence[int],
        value: float,
        *,
        X: MatrixLike = None,
        y: VectorLike = None,
        qid: VectorLike = None,
    ) -> Self:
        """Set one cell of a term.

        `term` is a name, a column or a pair of columns; `bin` is the number of the bin, or two
        numbers for a pair. The last bin of a feature, -1, is that of missing values. The other
        parameters are those of `edit`.
        """
        check_is_fitted(self)
        index = self._index(term)
        old = _terms(self.ensemble_)[index]
        cell = tuple(bin) if isinstance(bin, tuple | list) else (bin,)
        good = len(cell) == len(old.shape) and all(
            isinstance(b, int | np.integer) and -size <= b < size
            for b, size in zip(cell, old.shape, strict=False)
        )
        if not good:
            raise ValueError(f"bin={bin!r} is not a cell of {self._name(old.features)}, which has "
                             f"{PAIR.join(map(str, old.shape))} bins")  # fmt: skip
        if not np.isfinite(value):
            raise ValueError(f"value={value!r} is not finite")
        cell = tuple(int(b) % size for b, size in zip(cell, old.shape, strict=True))
        table = old.table.copy()
        edit = {"edit": "set_value", "bin": list(cell), "old": float(table[cell]),
                "new": float(value)}  # fmt: skip
        table[cell] = value
        return self._replace_term(index, old.with_values(table), edit, X, y, qid)

    def drop(
        self, term: TermName, *, X: MatrixLike = None, y: VectorLike = None, qid: VectorLike = None
    ) -> Self:
        """Remove a term from the model; the other parameters are those of `edit`."""
        check_is_fitted(self)
        return self._replace_term(self._index(term), None, {"edit": "drop"}, X, y, qid)

    def _replace_term(
        self,
        index: int,
        new: Term | None,
        edit: Json,
        X: MatrixLike,
        y: VectorLike,
        qid: VectorLike,
    ) -> Self:
        """Replace a term, or remove it if `new` is None, and record the edit."""
        if (X is None) != (y is None):
            raise ValueError("X and y must be given together")
        before = None if X is None else self.score(X, y, qid)
        weak_rankers, weights = list(self.ensemble_.weak_rankers), list(self.ensemble_.weights)
        edit = {"term": self._name(_terms(self.ensemble_)[index].features), **edit}
        if new is None:
            del weak_rankers[index], weights[index]
        else:
            weak_rankers[index] = new
        self.ensemble_ = Ensemble(weak_rankers, weights, self.ensemble_.n_features)
        after = None if X is None else self.score(X, y, qid)
        rows = None if X is None else int(np.shape(X)[0])
        record = {**edit, "rows": rows, "score_before": before, "score_after": after}
        self.edits_ = [*self.edits_, record]
        return self

    # -- saving ----------------------------------------------------------------------------

    def check_model(self) -> None:
        """Raise ValueError unless the model is a sum of terms and a constant."""
        parts = self.ensemble_.decomposition
        if parts.stumps or parts.trees or parts.lines or parts.unknown:
            raise ValueError("a glass-box model is made of terms alone")
        self.n_estimators_ = len(self.history_)


def _terms(ensemble: Ensemble) -> list[Term]:
    return [weak_ranker for weak_ranker in ensemble.weak_rankers if not weak_ranker.is_constant]  # type: ignore[misc]


def _ensemble(found: FittedAdditiveModel, task: FitContext) -> Ensemble:
    """Return the terms by importance, then the constant."""
    terms = found.model.by_importance()
    made = Ensemble([*terms], [1.0] * len(terms), task.training.table.n_features)
    if found.model.constant != 0:
        made.append(Constant(), found.model.constant)
    return made
