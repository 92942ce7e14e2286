"""How a glass-box model is fitted: a trial, then curves, then pairs, then tables.

1. The trial fits a part of the rows. Curves are boosted, every round a small tree of one feature;
   pairs of features are scored on the gradient that the curves leave; the strongest pairs are
   boosted. The other rows say how curves should be boosted, how many rounds of pairs are best, and
   which pairs lower the risk. Where there are few rows, all parts take turns, as in
   cross-validation.
2. Curves and the remaining pairs are boosted on all rows.
3. Sums of trees and terms become tables, which are purified.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from precede.boosting.coordinate_descent import CoordinateDescent, Plan
from precede.boosting.history import EarlyStopping, History, Monitor, Rounds, Stop
from precede.boosting.loop import INTERRUPTED, Result, run_rounds
from precede.boosting.monitors import share_in_order
from precede.boosting.resampling import Resampler
from precede.boosting.steps import QuadraticStep
from precede.engine.arrays import Flags, Floats, Integers
from precede.engine.portable import exp, exp_of
from precede.engine.training_data import TrainingData
from precede.risks.base import BoundRisk, Risk
from precede.weak_rankers.base import Family, SearchResult
from precede.weak_rankers.interactions import Grid, PairTerms, interaction_strengths
from precede.weak_rankers.tables import AdditiveModel, average_models, purify, tabulate
from precede.weak_rankers.tree_family import Trees

__all__ = ["AdditiveFit", "Fitted", "Pair", "scores_of"]

Pair = tuple[int, int]
Driver = Callable[[CoordinateDescent, History], Result]

# Rounds without a lower risk on the held-out rows after which the trial of the pairs ends.
PATIENCE = 50
# A pair must lower the risk of held-out rows by this many standard errors: many pairs are tried.
# (3.1 is the normal quantile of 0.05 / 50.)
SURE = 3.0
# The held-out rows of a trial are divided into this many blocks, whose spread gives the standard
# error.
BLOCKS = 10
# With fewer rows than this, all parts of the rows take turns in being held out.
MANY_ROWS = 50_000
# Features may take turns if each has so many of them, times the learning rate: with fewer, curves
# are left unfinished (after two, 1 - exp(-2) = 86 % of a step is taken).
ENOUGH = 2.0
# The column of the history of the trial.
HELD_OUT = "held_out risk"


@dataclass(frozen=True)
class Fitted:
    """What a fit gives.

    Attributes
    ----------
    model : the terms
    result : the rounds that led there
    strengths : the strength of each pair that was scored, the strongest first
    dropped : pairs that were tried and did not lower the risk on held-out rows
    rounds, pair_rounds : how many of the rounds were of curves and of pairs
    cyclic : whether the curves took turns
    """

    model: AdditiveModel
    result: Result
    strengths: dict[Pair, float]
    dropped: list[Pair]
    rounds: int
    pair_rounds: int
    cyclic: bool


@dataclass(frozen=True)
class _Plan:
    """What a trial has found out.

    Whether curves take turns, rounds of pairs, strengths, pairs to fit and pairs tried.
    """

    cyclic: bool
    pair_rounds: int
    strengths: dict[Pair, float]
    pairs: list[Pair]
    tried: list[Pair]


@dataclass(frozen=True)
class AdditiveFit:
    """One fit of a glass-box model.

    Attributes
    ----------
    rows : what is fitted
    risk : what is minimized
    trees : grows the curves; constrained to one feature for each tree
    pair_terms : makes a family of pair terms of a list of pairs and a grid
    pair_bins : most bins of the grid
    rounds, pair_rounds : most rounds of each stage
    learning_rate : of both
    cyclic : whether curves take turns; otherwise the best feature is chosen in every round. None
        lets the trial decide; without a trial it is False
    heredity : see `GlassBoxRanker`
    held_out : share of the rows on which pairs are tried
    bags : number of bootstrap samples
    seed : of all draws
    unpaired : features that may not be in a pair
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

    @property
    def training(self) -> TrainingData:
        """The rows as the loop sees them."""
        return self.rows.training

    def run(
        self,
        pairs: int | list[Pair],
        driver: Driver,
        early_stopping: EarlyStopping | None,
        monitors: Sequence[Monitor] = (),
        *,
        curves: frozenset[int] | None = None,
        checked: bool = True,
    ) -> Fitted:
        """Fit the terms.

        `pairs` are the pairs, or how many of the strongest to take; `curves` the features that
        may have a curve, all by default; `checked` says whether pairs are tried on held-out rows.
        `driver` runs a method in sight of the user, `worsening` ends it early. Ctrl-C ends the
        fit with the rounds of all rows done so far; before the first of them it is raised.
        """
        plan = self._trial(pairs) if checked else None
        if plan is None:
            plan = _Plan(bool(self.cyclic), self.pair_rounds, {}, [], [])
        fit = replace(self, cyclic=plan.cyclic)
        return fit._follow(plan, pairs, driver, early_stopping, monitors, curves)

    def _follow(
        self, plan: _Plan, pairs: int | list[Pair], driver: Driver,
        early_stopping: EarlyStopping | None,
        monitors: Sequence[Monitor], curves: frozenset[int] | None,
    ) -> Fitted:  # fmt: skip
        """Fit all rows as planned."""
        stop: Stop = Rounds(self.rounds)
        trainer = self._trainer(
            self.trees, stop if early_stopping is None else stop | early_stopping, None, curves
        )
        trainer.monitors = monitors
        result = _best(driver(trainer, History()), early_stopping, 0)
        model = self._tables(result, self.training)
        if not plan.tried and result.reason != INTERRUPTED:
            plan = self._chosen(plan, pairs, model, self.training)
        main, family = len(result.history), self._family(plan.pairs)
        if plan.pairs and plan.pair_rounds and result.reason != INTERRUPTED:
            for monitor in monitors:  # an early stop has taken rounds back
                monitor.restart(model)
            result, model = self._add_pairs(
                result, model, family, driver, early_stopping, monitors, rounds=plan.pair_rounds
            )
        rounds = len(result.history) - main
        model = self._pure(model, curves)
        if self.bags and result.reason != INTERRUPTED:
            try:
                model = self._bagged(main, rounds, family, curves)
            except KeyboardInterrupt:
                self.training.context.warn(
                    "interrupted: the model is that of all rows, not a mean over samples, "
                    "and has no standard errors"
                )
                result = replace(result, reason=INTERRUPTED)
        dropped = [pair for pair in plan.tried if pair not in plan.pairs]
        return Fitted(model, result, plan.strengths, dropped, main, rounds, plan.cyclic)

    # -- stages ----------------------------------------------------------------------------

    def _trainer(
        self, family: Family, stop: Stop, scores: Floats | None, within: frozenset[int] | None,
        training: TrainingData | None = None,
    ) -> _Onward:  # fmt: skip
        training = training or self.training
        count = training.table.n_features
        allowed = None
        if within is not None:
            allowed = np.array([feature in within for feature in range(count)])
        cyclic = self.cyclic and family is self.trees
        draw = _turns(count, allowed) if cyclic else lambda: None
        plan = Plan(
            self.risk, family, QuadraticStep(), stop, learning_rate=self.learning_rate, draw=draw
        )
        return _Onward(plan, training, scores, allowed)

    def _family(self, pairs: list[Pair]) -> PairTerms:
        """Terms of these pairs, on one grid for all parts of the rows."""
        training = self.training
        features = np.array(sorted({feature for pair in pairs for feature in pair}), np.int64)
        weight = training.layout.weight
        grid = Grid.build(training.table, features, self.pair_bins, training.context, weight)
        return self.pair_terms(pairs, grid)

    def _tables(self, result: Result, training: TrainingData) -> AdditiveModel:
        parts = zip(result.ensemble.weak_rankers, result.ensemble.weights, strict=True)
        return tabulate(parts, training.table, training.context, training.layout.weight)

    def _add_pairs(
        self, before: Result, model: AdditiveModel, family: PairTerms, driver: Driver,
        early_stopping: EarlyStopping | None, monitors: Sequence[Monitor], *, rounds: int,
    ) -> tuple[Result, AdditiveModel]:  # fmt: skip
        """Boost pairs on top of a model."""
        done = len(before.history)
        stop: Stop = Rounds(done + rounds)
        trainer = self._trainer(
            family, stop if early_stopping is None else stop | early_stopping,
            scores_of(model, self.training), None,
        )  # fmt: skip
        trainer.monitors, trainer.before = monitors, done
        result = _best(driver(trainer, before.history), early_stopping, done)
        return result, _sum(model, self._tables(result, self.training))

    def _pure(self, model: AdditiveModel, curves: frozenset[int] | None) -> AdditiveModel:
        training = self.training
        weight = training.layout.weight
        return purify(model, training.table, weight, training.context, curves=curves)

    def _bagged(
        self, rounds: int, pair_rounds: int, pairs: PairTerms, curves: frozenset[int] | None
    ) -> AdditiveModel:
        """The mean over fits of bootstrap samples.

        Each stage ends at the round that is best for the rows that are not in the sample, unless
        no rows are to be held out.
        """
        found = []
        for draw in np.random.RandomState(self.seed).randint(2**31 - 1, size=self.bags).tolist():
            part, rest = self.rows.bootstrap(draw)
            monitored = self.held_out > 0 and rest is not None
            trial = _Trial(self, part, rest if rest is not None else part)
            stages = (self.trees, max(rounds, 1), curves), (pairs, pair_rounds, None)
            for family, most, within in stages:
                if most:
                    stage = trial.stage(
                        self, family, Rounds(most), monitored=monitored, within=within
                    )
                    trial.keep(stage, _least([stage.risks]) if monitored else most)
            found.append(self._pure(trial.model, curves))
        training = self.training
        return average_models(found, training.table, training.context, training.layout.weight)

    # -- trial -----------------------------------------------------------------------------

    def _trial(self, pairs: int | list[Pair]) -> _Plan | None:
        """Fit parts of the rows and look at the others: how many rounds, and which pairs.

        None where nothing is held out, or a part would have no pair of rows, or nothing is to be
        decided.
        """
        decided = not pairs and self.cyclic is not None
        held_out = self.held_out > 0 and not decided
        parts = self.rows.holdout_splits(self.held_out, MANY_ROWS) if held_out else []
        trials = [_Trial(self, *each) for each in parts]
        if not trials:
            return None
        plan = _Plan(self._try_curves(trials), 0, {}, [], [])
        if not pairs:
            return plan
        chosen = [self._chosen(plan, pairs, trial.model, trial.part) for trial in trials]
        tried = sorted({pair for each in chosen for pair in each.pairs})
        plan = replace(plan, strengths=_mean([each.strengths for each in chosen]))
        if not tried:
            return plan
        stop = Rounds(self.pair_rounds) | EarlyStopping(HELD_OUT, PATIENCE, greater_is_better=False)
        stages = [
            trial.stage(self, self._family(each.pairs), stop)
            for trial, each in zip(trials, chosen, strict=True)
        ]
        rounds = _least([stage.risks for stage in stages])
        for trial, stage in zip(trials, stages, strict=True):
            trial.keep(stage, rounds)
        kept = _useful(trials, tried) if rounds else []
        if isinstance(pairs, int):
            kept = kept[:pairs]
        # The pairs that are dropped leave their rounds to nobody.
        rounds = round(sum(trial.rounds_of(kept) for trial in trials) / len(trials))
        return replace(plan, pair_rounds=rounds, pairs=sorted(kept), tried=tried)

    def _try_curves(self, trials: list[_Trial]) -> bool:
        """Boost the curves of the trials; whether features take turns.

        If that is to be decided, both are tried, and the trials keep what puts more pairs of
        held-out rows in order.
        """
        ways = [self.cyclic]
        if self.cyclic is None:
            turns = self.rounds / self.training.table.n_features
            ways = [False, True] if turns * self.learning_rate >= ENOUGH else [False]
        found = []
        for cyclic in ways:
            fit = replace(self, cyclic=cyclic)
            stages = [
                trial.stage(fit, fit.trees, Rounds(fit.rounds), monitored=False) for trial in trials
            ]
            wrong = 0.0
            if len(ways) > 1:
                wrong = sum(trial.wrong(each) for trial, each in zip(trials, stages, strict=True))
            found.append((wrong, bool(cyclic), stages))
        _, chosen, stages = min(found, key=lambda each: each[:2])
        for trial, stage in zip(trials, stages, strict=True):
            trial.keep(stage, self.rounds)
        return chosen

    # -- pairs -----------------------------------------------------------------------------

    def _chosen(
        self, plan: _Plan, pairs: int | list[Pair], model: AdditiveModel, training: TrainingData
    ) -> _Plan:
        """The plan with the strongest pairs on the gradient of a model, or with those given."""
        if not isinstance(pairs, int):
            return replace(plan, pairs=pairs, tried=pairs)
        strengths = self._strengths(model, training) if pairs else {}
        found = self._strongest(strengths, model, pairs)
        return replace(plan, strengths=strengths, pairs=found, tried=found)

    def _strengths(self, model: AdditiveModel, training: TrainingData) -> dict[Pair, float]:
        """Strengths of all pairs, the strongest first."""
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


class _Trial:
    """A fit of one part of the rows, looked at from the others.

    Attributes
    ----------
    model : the terms so far
    found : terms of the last stage that was kept
    """

    def __init__(self, fit: AdditiveFit, part: Resampler, held: Resampler):
        self.part, self.held = part.training, held.training
        self._bind, self._share = fit.risk.bind, held
        self._risk = self._bind(self.held.layout, self.held.context)
        self._unit = self._risk.log_value(np.zeros(self.held.table.n_used_rows))
        self.model = self.found = AdditiveModel()
        self._kept: list[Any] = []
        self._blocks: list[tuple[Integers, BoundRisk]] | None = None

    def risk(self, scores: Floats) -> float:
        """The risk of the held-out rows, as a share of that of equal scores."""
        return exp_of(self._risk.log_value(scores) - self._unit)

    def risks(self, scores: Floats) -> Floats:
        """The risk of each block of the held-out rows, on the same scale."""
        if self._blocks is None:  # machines meet here: no lock of a cached property may be held
            blocks = self._share.blocks(BLOCKS)
            self._blocks = [(rows, self._bind(each, self.held.context)) for rows, each in blocks]
        logs = [bound.log_value(scores[rows]) for rows, bound in self._blocks]
        return exp(np.array(logs) - self._unit)

    def stage(
        self, fit: AdditiveFit, family: Family, stop: Stop, *, monitored: bool = True,
        within: frozenset[int] | None = None,
    ) -> _Stage:  # fmt: skip
        """Boost a family on top of the model; held-out rows may be monitored."""
        monitor = Monitor("held_out", self.held.table, {"risk": self.risk}, self.held.init_score)
        trainer = fit._trainer(family, stop, scores_of(self.model, self.part), within, self.part)
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
        ensemble = stage.result.ensemble
        parts = [*zip(ensemble.weak_rankers, ensemble.weights, strict=True)][:rounds]
        weight = self.part.layout.weight
        return tabulate(parts, self.part.table, self.part.context, weight)

    def wrong(self, stage: _Stage) -> float:
        """The share of pairs of held-out rows that are out of order after a stage."""
        scores = scores_of(_sum(self.model, self._terms(stage)), self.held)
        return 1.0 - share_in_order(self.held.layout, scores, self.held.context)

    def keep(self, stage: _Stage, rounds: int) -> None:
        """Add the first rounds of a stage to the model."""
        self.found = self._terms(stage, rounds)
        self.model = _sum(self.model, self.found)
        self._kept = stage.result.ensemble.weak_rankers[:rounds]

    def rounds_of(self, pairs: list[Pair]) -> int:
        """How many rounds of the last stage that are kept are of these pairs."""
        return sum(weak_ranker.features in pairs for weak_ranker in self._kept)


@dataclass(frozen=True)
class _Stage:
    """A stage of a trial: its rounds, and the risk of held-out rows before and after each."""

    result: Result
    risks: Floats


def _least(curves: list[Floats]) -> int:
    """The round at which the mean of some curves is least; a curve that ends stays where it is."""
    longest = max(curve.size for curve in curves)
    total = np.zeros(longest)
    for curve in curves:
        total += np.concatenate([curve, np.full(longest - curve.size, curve[-1])])
    return int(np.argmin(total))


def _mean(strengths: list[dict[Pair, float]]) -> dict[Pair, float]:
    """Mean strengths, the strongest first."""
    pairs = sorted({pair for each in strengths for pair in each})
    found = {pair: sum(e.get(pair, 0.0) for e in strengths) / len(strengths) for pair in pairs}
    return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))


def _useful(trials: list[_Trial], tried: list[Pair]) -> list[Pair]:
    """Pairs that most trials chose and without which held-out rows are worse off; best first.

    Blocks of held-out rows must be worse off by more than `SURE` standard errors on average. The
    least important pairs are taken out first, and stay out.
    """
    values = [
        {key: term.on(trial.held.table) for key, term in trial.found.terms.items()}
        for trial in trials
    ]
    scores = [scores_of(trial.model, trial.held) for trial in trials]
    common = [p for p in tried if 2 * sum(p in each for each in values) > len(trials)]
    for k, each in enumerate(values):
        for pair in each.keys() - set(common):
            scores[k] = scores[k] - each[pair]
    risk = [trial.risks(each) for trial, each in zip(trials, scores, strict=True)]
    importance = {
        pair: sum(t.found.terms[pair].importance for t in trials if pair in t.found.terms)
        for pair in common
    }
    gain: dict[Pair, float] = {}
    for pair in sorted(common, key=lambda pair: (importance[pair], pair)):
        among = [k for k in range(len(trials)) if pair in values[k]]
        without = {k: trials[k].risks(scores[k] - values[k][pair]) for k in among}
        worse = np.concatenate([without[k] - risk[k] for k in among])
        if worse.sum() > SURE * _doubt(worse):
            gain[pair] = float(worse.sum())
            continue
        for k in among:
            scores[k], risk[k] = scores[k] - values[k][pair], without[k]
    return sorted(gain, key=lambda pair: (-gain[pair], pair))


def _doubt(values: Floats) -> float:
    """Standard error of a sum; 0 of a single value."""
    return float(np.sqrt(values.size) * values.std(ddof=1)) if values.size > 1 else 0.0


class _Onward(CoordinateDescent):
    """Coordinate descent from given scores, within some features.

    `before` is the number of rounds of the history that are not of this method.
    """

    def __init__(
        self, plan: Plan, training: TrainingData, scores: Floats | None, within: Flags | None
    ):
        super().__init__(plan, training)
        self._within, self.before = within, 0
        if scores is not None:
            self.scores = scores.copy()
            self.state = self.risk.state(self.scores)

    def _check_device(self) -> None:
        """Curves and the detection of pairs use a device; terms of pairs are fitted on the CPU."""

    def _search_best(self, allowed: Flags | None) -> SearchResult | None:
        if self._within is not None:
            allowed = self._within if allowed is None else allowed & self._within
        return super()._search_best(allowed)

    def interrupt(self, history: History) -> str:
        """Leave out a ranker whose round was not finished."""
        self.ensemble = self.ensemble.first(len(history) - self.before)
        return f"the model has the {len(history)} rounds done so far"


def _turns(count: int, allowed: Flags | None) -> Callable[[], Flags]:
    """One feature after the other."""
    features = np.arange(count) if allowed is None else np.flatnonzero(allowed)
    turn = 0

    def draw() -> Flags:
        nonlocal turn
        only = np.zeros(count, np.bool_)
        only[features[turn % features.size]] = True
        turn += 1
        return only

    return draw


def _best(result: Result, early_stopping: EarlyStopping | None, before: int) -> Result:
    """The rounds up to the best one, if a metric is monitored; `before` are of earlier stages."""
    if early_stopping is None or len(result.history) == before:
        return result
    best = max(early_stopping.best_round(result.history), before)
    return replace(
        result, ensemble=result.ensemble.first(best - before), history=result.history[:best]
    )


def scores_of(model: AdditiveModel, training: TrainingData) -> Floats:
    """Scores of rows under a model, on top of those that they started from."""
    scores, start = model.on(training.table), training.init_score
    return scores if start is None else scores + start


def _sum(one: AdditiveModel, other: AdditiveModel) -> AdditiveModel:
    """Two models with different terms as one."""
    return AdditiveModel({**one.terms, **other.terms}, one.constant + other.constant)
