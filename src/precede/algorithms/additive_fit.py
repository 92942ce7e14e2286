"""Fit of an additive (glass-box) model: trial, curves, pairs, tables.

1. The trial fits part of the rows. Curves are boosted, one small tree of a single feature per
   round; the strengths of pairs of features are computed from the gradient at these scores; the
   strongest pairs are boosted. The held-out rows determine whether curves are boosted cyclically,
   the number of rounds of pairs, and which pairs decrease the risk. With few rows the trial is a
   cross-validation.
2. Curves and the selected pairs are boosted on all rows.
3. Sums of trees and terms become tables, which are purified.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from precede.boosting.coordinate_descent import CoordinateDescent, Plan
from precede.boosting.holdout import Resampler, align_curves, mean_and_error
from precede.boosting.loop import (
    ENDED_BY_USER,
    INTERRUPTED,
    EarlyStopping,
    History,
    Result,
    Rounds,
    Stop,
    run_rounds,
)
from precede.boosting.monitors import Monitor, MonitoredMetric, share_in_order
from precede.boosting.steps import QuadraticStep
from precede.engine.arrays import Flags, Floats, Integers
from precede.engine.backend import CPU
from precede.engine.portable import exp, exp_of
from precede.engine.query_layout import TrainingData
from precede.risks.base import BoundRisk, Risk
from precede.weak_rankers.base import Family, SearchResult, WeakRanker
from precede.weak_rankers.interactions import Grid, PairTerms, interaction_strengths
from precede.weak_rankers.terms import AdditiveModel, Term, average_models, purify, tabulate
from precede.weak_rankers.tree_grower import Trees

Pair = tuple[int, int]

# Early stopping of the trial of pairs, in rounds.
PATIENCE = 50
# A pair must decrease the held-out risk by this many standard errors, because many pairs are tried
# (the normal quantile at 1 - 0.05 / 50 is 3.1).
MIN_STANDARD_ERRORS = 3.0
# Number of blocks of held-out rows for the standard error.
BLOCKS = 10
# With fewer rows than this, every part of the rows is held out once.
MAX_ROWS_FOR_ALL_SPLITS = 50_000
# Cyclic boosting needs at least this product of rounds per feature and learning rate; with less,
# curves are underfitted (2 gives 1 - exp(-2) = 86 % of a full step).
MIN_TURNS = 2.0
# Column of the history of a trial.
HELD_OUT = "held_out risk"


@dataclass(frozen=True)
class FittedAdditiveModel:
    """Result of `AdditiveFit.run`.

    Attributes
    ----------
    model : the terms
    result : the boosting rounds
    strengths : strength of each scored pair, strongest first
    dropped : tried pairs that did not decrease the held-out risk
    rounds, pair_rounds : numbers of rounds of curves and of pairs
    cyclic : whether curves were boosted cyclically
    """

    model: AdditiveModel
    result: Result
    strengths: dict[Pair, float]
    dropped: list[Pair]
    rounds: int
    pair_rounds: int
    cyclic: bool


@dataclass(frozen=True)
class _TrialOutcome:
    """Choices of the trial: `tried` pairs were evaluated, `pairs` are to be fitted."""

    cyclic: bool
    pair_rounds: int
    strengths: dict[Pair, float]
    pairs: list[Pair]
    tried: list[Pair]


@dataclass(frozen=True)
class AdditiveFit:
    """Settings of a fit of an additive model.

    Attributes
    ----------
    rows : training rows
    risk : risk to minimize
    trees : family of the curves; constrained to one feature per tree
    pair_terms : returns the family of pair terms for a list of pairs and a grid
    pair_bins : maximum number of bins of the grid
    rounds, pair_rounds : maximum numbers of rounds of curves and of pairs
    learning_rate : learning rate of both
    cyclic : whether features are boosted in turn, rather than the best feature in every round; None
        leaves the choice to the trial (False without a trial)
    heredity : see `GlassBoxRanker`
    held_out : share of held-out rows in the trial
    bags : number of bootstrap samples; 1 is the fit to all rows
    seed : seed of all draws
    unpaired : features that may not be in a pair
    run_stage : runs the rounds of a trainer on all rows
    monitors, early_stopping : of the fit to all rows
    """

    rows: Resampler
    risk: Risk
    trees: Trees
    pair_terms: Callable[[list[Pair], Grid], PairTerms]
    pair_bins: int
    rounds: int
    pair_rounds: int
    learning_rate: float
    cyclic: bool | None
    heredity: str | None
    held_out: float
    bags: int
    seed: int
    unpaired: frozenset[int]
    run_stage: Callable[[CoordinateDescent, History], Result] = run_rounds
    monitors: Sequence[Monitor] = ()
    early_stopping: EarlyStopping | None = None

    @property
    def training(self) -> TrainingData:
        """Training data of the rows."""
        return self.rows.training

    def run(
        self, pairs: int | list[Pair], *, curves: frozenset[int] | None = None, checked: bool = True
    ) -> FittedAdditiveModel:
        """Fit the terms.

        `pairs` are the pairs, or the number of strongest pairs to choose; `curves` the features
        that may have a curve, all by default; `checked` whether there is a trial on held-out rows.
        Ctrl-C ends the fit with the rounds on all rows done so far; before the first of them it is
        raised.
        """
        plan = self._run_trial(pairs) if checked else None
        if plan is None:
            plan = _TrialOutcome(bool(self.cyclic), self.pair_rounds, {}, [], [])
        return replace(self, cyclic=plan.cyclic)._fit_all_rows(plan, pairs, curves)

    def _fit_all_rows(
        self, plan: _TrialOutcome, pairs: int | list[Pair], curves: frozenset[int] | None
    ) -> FittedAdditiveModel:
        """Fit all rows with the choices of the trial."""
        result = self._boost_all_rows(self.trees, self.rounds, within=curves)
        model = self._tables(result)
        if not plan.tried and result.reason not in ENDED_BY_USER:
            plan = self._choose_pairs(plan, pairs, model, self.training)
        main, family = len(result.history), self._family(plan.pairs)
        if plan.pairs and plan.pair_rounds and result.reason not in ENDED_BY_USER:
            for monitor in self.monitors:  # early stopping has removed rounds
                monitor.restart(model)
            result = self._boost_all_rows(family, plan.pair_rounds, model, result.history)
            model = _add_models(model, self._tables(result))
        rounds = len(result.history) - main
        model = self._purify(model, curves)
        if self.bags > 1 and result.reason not in ENDED_BY_USER:
            try:
                model = self._average_bags(main, rounds, family, curves)
            except KeyboardInterrupt:
                self.training.context.warn(
                    "interrupted: the model is that of all rows, not a mean over samples, "
                    "and has no standard errors"
                )
                result = replace(result, reason=INTERRUPTED)
        dropped = [pair for pair in plan.tried if pair not in plan.pairs]
        return FittedAdditiveModel(
            model, result, plan.strengths, dropped, main, rounds, plan.cyclic
        )

    # -- stages ----------------------------------------------------------------------------

    def _boost_all_rows(
        self,
        family: Family,
        rounds: int,
        model: AdditiveModel | None = None,
        history: History | None = None,
        *,
        within: frozenset[int] | None = None,
    ) -> Result:
        """Boost a family from a model, after the rounds of a history; keep the best round."""
        history = history or History()
        done = len(history)
        stop: Stop = Rounds(done + rounds)
        if self.early_stopping is not None:
            stop = stop | self.early_stopping
        trainer = self._trainer(family, stop, self.training, model, within)
        trainer.monitors, trainer.n_earlier_rounds = self.monitors, done
        result = self.run_stage(trainer, history)
        if self.early_stopping is None or len(result.history) == done:
            return result
        best = max(self.early_stopping.best_round(result.history), done)
        first = result.ensemble.first(best - done)
        return replace(result, ensemble=first, history=result.history[:best])

    def _trainer(
        self,
        family: Family,
        stop: Stop,
        training: TrainingData,
        model: AdditiveModel | None,
        within: frozenset[int] | None,
    ) -> _StageTrainer:
        """Return a trainer that starts from the scores of a model, with features `within`."""
        count, allowed = training.table.n_features, None
        if within is not None:
            allowed = np.array([feature in within for feature in range(count)])
        cyclic = self.cyclic and family is self.trees
        draw = _cycle_features(count, allowed) if cyclic else lambda: None
        plan = Plan(
            self.risk, family, QuadraticStep(), stop, learning_rate=self.learning_rate, draw=draw
        )
        return _StageTrainer(plan, training, model, allowed)

    def _family(self, pairs: list[Pair]) -> PairTerms:
        """Return the family of these pairs, on the grid of all rows."""
        training = self.training
        features = np.array(sorted({feature for pair in pairs for feature in pair}), np.int64)
        weight = training.layout.weight
        grid = Grid.build(training.table, features, self.pair_bins, training.context, weight)
        return self.pair_terms(pairs, grid)

    def _tables(self, result: Result) -> AdditiveModel:
        training, parts = self.training, result.ensemble.parts()
        return tabulate(parts, training.table, training.context, training.layout.weight)

    def _purify(self, model: AdditiveModel, curves: frozenset[int] | None) -> AdditiveModel:
        training = self.training
        weight = training.layout.weight
        return purify(model, training.table, weight, training.context, curves=curves)

    def _average_bags(
        self, rounds: int, pair_rounds: int, pairs: PairTerms, curves: frozenset[int] | None
    ) -> AdditiveModel:
        """Return the average of fits to bootstrap samples.

        Each stage is truncated at the best round on the out-of-bag rows, unless `held_out` is 0.
        """
        models = []
        for draw in np.random.RandomState(self.seed).randint(2**31 - 1, size=self.bags).tolist():
            part, rest = self.rows.bootstrap(draw)
            monitored = self.held_out > 0 and rest is not None
            trial = _HeldOutFit(self, part, rest if rest is not None else part)
            stages = (self.trees, max(rounds, 1), curves), (pairs, pair_rounds, None)
            for family, max_rounds, within in stages:
                if max_rounds:
                    stage = trial.stage(
                        self, family, Rounds(max_rounds), monitored=monitored, within=within
                    )
                    trial.add_stage(stage, _best_round([stage.risks]) if monitored else max_rounds)
            models.append(self._purify(trial.model, curves))
        training = self.training
        return average_models(models, training.table, training.context, training.layout.weight)

    # -- trial -----------------------------------------------------------------------------

    def _run_trial(self, pairs: int | list[Pair]) -> _TrialOutcome | None:
        """Choose the number of rounds and the pairs on held-out rows.

        Return None if nothing is held out, if no split has pairs of rows on both sides, or if there
        is nothing to choose.
        """
        if self.held_out <= 0 or (not pairs and self.cyclic is not None):
            return None
        parts = self.rows.holdout_splits(self.held_out, MAX_ROWS_FOR_ALL_SPLITS)
        trials = [_HeldOutFit(self, *each) for each in parts]
        if not trials:
            return None
        plan = _TrialOutcome(self._choose_cyclic(trials), 0, {}, [], [])
        if not pairs:
            return plan
        chosen = [self._choose_pairs(plan, pairs, trial.model, trial.part) for trial in trials]
        tried = sorted({pair for each in chosen for pair in each.pairs})
        plan = replace(plan, strengths=_mean_strengths([each.strengths for each in chosen]))
        if not tried:
            return plan
        stop = Rounds(self.pair_rounds) | EarlyStopping(HELD_OUT, PATIENCE, greater_is_better=False)
        stages = [
            trial.stage(self, self._family(each.pairs), stop)
            for trial, each in zip(trials, chosen, strict=True)
        ]
        rounds = _best_round([stage.risks for stage in stages])
        for trial, stage in zip(trials, stages, strict=True):
            trial.add_stage(stage, rounds)
        kept = _select_pairs(trials, tried) if rounds else []
        if isinstance(pairs, int):
            kept = kept[:pairs]
        # Count only the rounds of the selected pairs.
        rounds = round(sum(trial.rounds_of(kept) for trial in trials) / len(trials))
        return replace(plan, pair_rounds=rounds, pairs=sorted(kept), tried=tried)

    def _choose_cyclic(self, trials: list[_HeldOutFit]) -> bool:
        """Boost the curves of the trials; return whether features are boosted cyclically.

        If `cyclic` is None, both are tried and the one with the smaller ranking error on held-out
        rows is chosen.
        """
        options = [self.cyclic]
        if self.cyclic is None:
            turns = self.rounds / self.training.table.n_features
            options = [False, True] if turns * self.learning_rate >= MIN_TURNS else [False]
        found = []
        for cyclic in options:
            fit = replace(self, cyclic=cyclic)
            stages = [
                trial.stage(fit, fit.trees, Rounds(fit.rounds), monitored=False) for trial in trials
            ]
            error = 0.0
            if len(options) > 1:
                error = sum(
                    trial.ranking_error(each) for trial, each in zip(trials, stages, strict=True)
                )
            found.append((error, bool(cyclic), stages))
        _, chosen, stages = min(found, key=lambda each: each[:2])
        for trial, stage in zip(trials, stages, strict=True):
            trial.add_stage(stage, self.rounds)
        return chosen

    # -- pairs -----------------------------------------------------------------------------

    def _choose_pairs(
        self,
        plan: _TrialOutcome,
        pairs: int | list[Pair],
        model: AdditiveModel,
        training: TrainingData,
    ) -> _TrialOutcome:
        """Return the plan with the given pairs, or the strongest on the gradient of a model."""
        if not isinstance(pairs, int):
            return replace(plan, pairs=pairs, tried=pairs)
        strengths = self._strengths(model, training) if pairs else {}
        found = self._strongest(strengths, model, pairs)
        return replace(plan, strengths=strengths, pairs=found, tried=found)

    def _strengths(self, model: AdditiveModel, training: TrainingData) -> dict[Pair, float]:
        """Return the strengths of all pairs, strongest first."""
        bins = training.table.bins
        useful = np.flatnonzero((bins.n_bins > 1) | bins.has_missing)
        features = np.array([j for j in useful.tolist() if j not in self.unpaired], np.int64)
        if features.size < 2:
            return {}
        bound = self.risk.bind(training.layout, training.context)
        pull = bound.pull_of(bound.state(scores_of(model, training)))
        found = interaction_strengths(
            training.table, pull.values, pull.hessian(self.trees.hessian), features,
            training.context, reg_lambda=self.trees.reg_lambda,
            min_weight=max(self.trees.min_child_samples, self.trees.min_child_weight),
            item_weight=training.layout.weight,
        )  # fmt: skip
        return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))

    def _strongest(
        self, strengths: dict[Pair, float], model: AdditiveModel, count: int
    ) -> list[Pair]:
        main = {key[0] for key in model.terms if len(key) == 1}
        enough = {None: 0, "weak": 1, "strong": 2}[self.heredity]
        good = [
            pair
            for pair, strength in strengths.items()
            if strength > 0 and sum(feature in main for feature in pair) >= enough
        ]
        return good[:count]


class _HeldOutFit:
    """Fit to part of the rows, evaluated on the others.

    Attributes
    ----------
    model : the terms so far
    stage_terms : terms of the last stage added
    """

    def __init__(self, fit: AdditiveFit, part: Resampler, held: Resampler):
        self.part, self.held = part.training, held.training
        self._bind, self._held_resampler = fit.risk.bind, held
        self._risk = self._bind(self.held.layout, self.held.context)
        self._log_scale = self._risk.log_value(np.zeros(self.held.table.n_used_rows))
        self.model = self.stage_terms = AdditiveModel()
        self._stage_rankers: list[WeakRanker] = []
        self._blocks: list[tuple[Integers, BoundRisk]] | None = None

    def risk(self, scores: Floats) -> float:
        """Return the held-out risk relative to that of constant scores."""
        return exp_of(self._risk.log_value(scores) - self._log_scale)

    def risks(self, scores: Floats) -> Floats:
        """Return the risk of each block of held-out rows, on the same scale."""
        if self._blocks is None:  # a cached_property may hold a lock while machines wait
            blocks = self._held_resampler.blocks(BLOCKS)
            self._blocks = [(rows, self._bind(each, self.held.context)) for rows, each in blocks]
        logs = [bound.log_value(scores[rows]) for rows, bound in self._blocks]
        return exp(np.array(logs) - self._log_scale)

    def stage(
        self, fit: AdditiveFit, family: Family, stop: Stop, *, monitored: bool = True,
        within: frozenset[int] | None = None,
    ) -> _Stage:  # fmt: skip
        """Boost a family, starting from the model; optionally monitor held-out rows."""
        monitor = Monitor(
            "held_out", self.held.table, {"risk": MonitoredMetric(self.risk, False)},
            self.held.init_score,
        )  # fmt: skip
        trainer = fit._trainer(family, stop, self.part, self.model, within)
        risks = []
        if monitored:
            monitor.restart(self.model)
            risks.append(self.risk(monitor.scores))
            trainer.monitors = [monitor]
        result = run_rounds(trainer, interruptible=False)
        if monitored and len(result.history):
            risks += result.history[HELD_OUT].tolist()
        return _Stage(result, np.array(risks))

    def _terms(self, stage: _Stage, rounds: int | None = None) -> AdditiveModel:
        parts = [*stage.result.ensemble.parts()][:rounds]
        weight = self.part.layout.weight
        return tabulate(parts, self.part.table, self.part.context, weight)

    def ranking_error(self, stage: _Stage) -> float:
        """Return the share of misordered pairs of held-out rows after a stage."""
        scores = scores_of(_add_models(self.model, self._terms(stage)), self.held)
        return 1.0 - share_in_order(self.held.layout, scores, self.held.context)

    def add_stage(self, stage: _Stage, rounds: int) -> None:
        """Add the first rounds of a stage to the model."""
        self.stage_terms = self._terms(stage, rounds)
        self.model = _add_models(self.model, self.stage_terms)
        self._stage_rankers = stage.result.ensemble.weak_rankers[:rounds]

    def rounds_of(self, pairs: list[Pair]) -> int:
        """Return the number of rounds of the last stage that belong to these pairs."""
        return sum(
            isinstance(each, Term) and each.features in pairs for each in self._stage_rankers
        )


@dataclass(frozen=True)
class _Stage:
    """Stage of a trial: its rounds, and the held-out risk before and after each of them."""

    result: Result
    risks: Floats


def _best_round(curves: list[Floats]) -> int:
    """Return the round of the minimum mean of the curves, extended by their last values."""
    return int(np.argmin(align_curves(curves).sum(axis=0)))


def _mean_strengths(strengths: list[dict[Pair, float]]) -> dict[Pair, float]:
    """Return the mean strengths, strongest first."""
    pairs = sorted({pair for each in strengths for pair in each})
    found = {pair: sum(e.get(pair, 0.0) for e in strengths) / len(strengths) for pair in pairs}
    return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))


def _select_pairs(trials: list[_HeldOutFit], tried: list[Pair]) -> list[Pair]:
    """Return the pairs that most trials chose and that decrease the held-out risk; best first.

    This is backward elimination, least important pair first: a pair is kept if the held-out risk
    without it is higher by more than `MIN_STANDARD_ERRORS` standard errors.
    """
    values = [
        {key: term.on(trial.held.table) for key, term in trial.stage_terms.terms.items()}
        for trial in trials
    ]
    scores = [scores_of(trial.model, trial.held) for trial in trials]
    common = [p for p in tried if 2 * sum(p in each for each in values) > len(trials)]
    for k, each in enumerate(values):
        for pair in each.keys() - set(common):
            scores[k] = scores[k] - each[pair]
    risk = [trial.risks(each) for trial, each in zip(trials, scores, strict=True)]
    importance = {
        pair: sum(
            t.stage_terms.terms[pair].importance for t in trials if pair in t.stage_terms.terms
        )
        for pair in common
    }
    gain: dict[Pair, float] = {}
    for pair in sorted(common, key=lambda pair: (importance[pair], pair)):
        among = [k for k in range(len(trials)) if pair in values[k]]
        without = {k: trials[k].risks(scores[k] - values[k][pair]) for k in among}
        worse = np.concatenate([without[k] - risk[k] for k in among])
        mean, error = mean_and_error(worse) if worse.size else (0.0, 0.0)  # no pair is held out
        if mean > MIN_STANDARD_ERRORS * error:
            gain[pair] = float(worse.sum())
            continue
        for k in among:
            scores[k], risk[k] = scores[k] - values[k][pair], without[k]
    return sorted(gain, key=lambda pair: (-gain[pair], pair))


class _StageTrainer(CoordinateDescent):
    """Coordinate descent from the scores of a model, restricted to some features.

    `n_earlier_rounds` of the history belong to earlier stages.
    """

    def __init__(
        self, plan: Plan, training: TrainingData, model: AdditiveModel | None, within: Flags | None
    ):
        super().__init__(plan, training)
        self._within, self.n_earlier_rounds = within, 0
        if model is not None:
            self.backend, self.scores = CPU, scores_of(model, training)
            self.state = self.risk.state(self.scores)

    def _check_device(self) -> None:
        """Accept any family: pair terms are fitted on the CPU, curves on the device."""

    def _search_best(self, allowed: Flags | None) -> SearchResult | None:
        if self._within is not None:
            allowed = self._within if allowed is None else allowed & self._within
        return super()._search_best(allowed)

    def interrupt(self, history: History) -> str:
        """Remove the weak ranker of an unfinished round."""
        self.ensemble = self.ensemble.first(len(history) - self.n_earlier_rounds)
        return f"the model has the {len(history)} rounds done so far"


def _cycle_features(count: int, allowed: Flags | None) -> Callable[[], Flags]:
    """Return a function that allows one feature at a time, in turn."""
    features = np.arange(count) if allowed is None else np.flatnonzero(allowed)
    turn = 0

    def draw() -> Flags:
        nonlocal turn
        only = np.zeros(count, np.bool_)
        only[features[turn % features.size]] = True
        turn += 1
        return only

    return draw


def scores_of(model: AdditiveModel, training: TrainingData) -> Floats:
    """Return the scores of training rows under a model, including `init_score`."""
    scores, start = model.on(training.table), training.init_score
    return scores if start is None else scores + start


def _add_models(one: AdditiveModel, other: AdditiveModel) -> AdditiveModel:
    """Return the sum of two models with different terms."""
    return AdditiveModel({**one.terms, **other.terms}, one.constant + other.constant)
