"""How a glass-box model is fitted: a trial, then curves, then pairs, then tables.

1. The trial fits a part of the rows. Curves are boosted, every round a small tree of one feature;
   pairs of features are scored on the gradient that the curves leave; the strongest pairs are
   boosted. The other rows say how many rounds are best, and which pairs lower the risk.
2. Curves and the remaining pairs are boosted on all rows.
3. Sums of trees and terms become tables, which are purified.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from precede.boosting.coordinate_descent import CoordinateDescent, Plan
from precede.boosting.history import History, Monitor, Progress, Rounds, Stop, Worsening
from precede.boosting.loop import Result, drive
from precede.boosting.steps import QuadraticStep
from precede.engine.arrays import Flags, Floats, Integers
from precede.engine.training import Training
from precede.rankers.base import Family, Found
from precede.rankers.growers import Trees
from precede.rankers.interactions import Grid, PairTerms, interaction_strengths
from precede.rankers.tables import Additive, averaged, purify, tabulate
from precede.risks.base import BoundRisk, Risk
from precede.risks.score_risk import places_of

__all__ = ["Fitted", "GlassFit", "Pair"]

Pair = tuple[int, int]
Driver = Callable[[CoordinateDescent, History], Result]

# Rounds without a lower risk on the held-out rows after which the trial of the pairs ends.
PATIENCE = 30
# With fewer queries than this, rows are held out instead of queries.
FEWEST_QUERIES = 10
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
    """

    model: Additive
    result: Result
    strengths: dict[Pair, float]
    dropped: list[Pair]
    rounds: int
    pair_rounds: int


@dataclass(frozen=True)
class _Plan:
    """What a trial has found out: numbers of rounds, strengths, pairs to fit and pairs tried."""

    rounds: int
    pair_rounds: int
    strengths: dict[Pair, float]
    pairs: list[Pair]
    tried: list[Pair]


@dataclass(frozen=True)
class GlassFit:
    """One fit of a glass-box model.

    Attributes
    ----------
    training : the rows
    risk : what is minimised
    trees : grows the curves; constrained to one feature for each tree
    pair_terms : makes a family of pair terms of a list of pairs and a grid
    pair_bins : most bins of the grid
    balance : of the risk
    rounds, pair_rounds : most rounds of each stage
    learning_rate : of both
    cyclic : whether curves take turns; otherwise the best feature is chosen in every round
    heredity : see `GlassBoxRanker`
    held_out : share of the rows on which pairs are tried
    bags : number of bootstrap samples
    seed : of all draws
    unpaired : features that may not be in a pair
    """

    training: Training
    risk: Risk
    trees: Trees
    pair_terms: Callable[[list[Pair], Grid], PairTerms]
    pair_bins: int
    balance: str
    rounds: int
    pair_rounds: int
    learning_rate: float
    cyclic: bool
    heredity: str | None
    held_out: float
    bags: int
    seed: int
    unpaired: frozenset[int]

    def run(
        self,
        pairs: int | list[Pair],
        driver: Driver,
        watch: Worsening | None,
        monitors: Sequence[Monitor] = (),
        *,
        curves: frozenset[int] | None = None,
        checked: bool = True,
    ) -> Fitted:
        """Fit the terms.

        `pairs` are the pairs, or how many of the strongest to take; `curves` the features that
        may have a curve, all by default; `checked` says whether pairs are tried on held-out rows.
        `driver` runs a method in sight of the user, `watch` ends it early.
        """
        plan = self._trial(pairs) if checked else None
        if plan is None:
            plan = _Plan(self.rounds, self.pair_rounds, {}, [], [])
        stop: Stop = Rounds(plan.rounds)
        method = self._method(self.trees, stop if watch is None else stop | watch, None, curves)
        method.monitors = monitors
        result = _best(driver(method, History()), watch, 0)
        model = self._tables(result, self.training)
        if not plan.tried:
            plan = self._chosen(plan, pairs, model, self.training)
        main, family = len(result.history), self._family(plan.pairs)
        if plan.pairs and plan.pair_rounds:
            for monitor in monitors:  # an early stop has taken rounds back
                monitor.scores = model.on(monitor.table)
            result, model = self._add_pairs(
                result, model, family, driver, watch, monitors, rounds=plan.pair_rounds
            )
        rounds = len(result.history) - main
        model = self._bagged(main, rounds, family, curves) if self.bags else self._pure(model, curves)
        dropped = [pair for pair in plan.tried if pair not in plan.pairs]
        return Fitted(model, result, plan.strengths, dropped, main, rounds)

    # -- stages ----------------------------------------------------------------------------

    def _method(
        self, family: Family, stop: Stop, scores: Floats | None, within: frozenset[int] | None,
        training: Training | None = None,
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
        weight = training.arrangement.weight
        grid = Grid.build(training.table, features, self.pair_bins, training.workers, weight)
        return self.pair_terms(pairs, grid)

    def _tables(self, result: Result, training: Training) -> Additive:
        parts = zip(result.ensemble.rankers, result.ensemble.weights, strict=True)
        return tabulate(parts, training.table, training.workers)

    def _add_pairs(
        self, before: Result, model: Additive, family: PairTerms, driver: Driver,
        watch: Worsening | None, monitors: Sequence[Monitor], *, rounds: int,
    ) -> tuple[Result, Additive]:  # fmt: skip
        """Boost pairs on top of a model."""
        done = len(before.history)
        stop: Stop = Rounds(done + rounds)
        method = self._method(
            family, stop if watch is None else stop | watch,
            model.on(self.training.table), None,
        )  # fmt: skip
        method.monitors, method.before = monitors, done
        result = _best(driver(method, before.history), watch, done)
        return result, _sum(model, self._tables(result, self.training))

    def _pure(self, model: Additive, curves: frozenset[int] | None) -> Additive:
        training = self.training
        weight = training.arrangement.weight
        return purify(model, training.table, weight, training.workers, curves=curves)

    def _bagged(
        self, rounds: int, pair_rounds: int, family: PairTerms, curves: frozenset[int] | None
    ) -> Additive:
        """The mean over fits of bootstrap samples."""
        generator = np.random.default_rng(self.seed)
        found = []
        for _ in range(self.bags):
            part = self._resampled(generator)
            stop = Rounds(max(rounds, 1))
            drawn = self._tables(drive(self._method(self.trees, stop, None, curves, part)), part)
            if pair_rounds:
                scores = drawn.on(part.table)
                method = self._method(family, Rounds(pair_rounds), scores, None, part)
                drawn = _sum(drawn, self._tables(drive(method), part))
            found.append(self._pure(drawn, curves))
        return averaged(found, self.training.table, self.training.workers)

    # -- trial -----------------------------------------------------------------------------

    def _trial(self, pairs: int | list[Pair]) -> _Plan | None:
        """Fit a part of the rows and look at the others: how many rounds, and which pairs.

        None where nothing is held out, or one of the parts would have no pair of rows.
        """
        parts = self._parted() if self.held_out > 0 else None
        if parts is None:
            return None
        part, held = parts
        bound = self.risk.bind(held.arrangement, held.workers)
        nothing = Additive()
        model, rounds = self._stage(self.trees, nothing, part, held, bound, self.rounds)
        chosen = self._chosen(_Plan(max(rounds, 1), 0, {}, [], []), pairs, model, part)
        if not chosen.pairs:
            return chosen
        family = self._family(chosen.pairs)
        found, rounds = self._stage(family, model, part, held, bound, self.pair_rounds)
        kept = self._useful(found, held, model.on(held.table), bound.log_value)
        return replace(chosen, pairs=kept, pair_rounds=rounds)

    def _stage(
        self, family: Family, model: Additive, part: Training, held: Training, bound: BoundRisk,
        rounds: int,
    ) -> tuple[Additive, int]:  # fmt: skip
        """Terms added to a model, and their number of rounds: best on the held-out rows."""
        monitor = Monitor("held_out", held.table, {"risk": bound.log_value})
        monitor.scores = model.on(held.table)
        least = bound.log_value(monitor.scores)
        stop = Rounds(rounds) | Worsening(HELD_OUT, PATIENCE, greater_is_better=False)
        method = self._method(family, stop, model.on(part.table), None, part)
        method.monitors = [monitor]
        result = drive(method)
        risks = result.history[HELD_OUT] if len(result.history) else np.zeros(0)
        best = int(np.argmin(risks)) + 1 if risks.size else 0
        best = best if best and risks[best - 1] < least else 0
        return self._tables(replace(result, ensemble=result.ensemble.first(best)), part), best

    # -- pairs -----------------------------------------------------------------------------

    def _chosen(
        self, plan: _Plan, pairs: int | list[Pair], model: Additive, training: Training
    ) -> _Plan:
        """The plan with the strongest pairs on the gradient of a model, or with those given."""
        if not isinstance(pairs, int):
            return replace(plan, pairs=pairs, tried=pairs)
        strengths = self._strengths(model, training) if pairs else {}
        found = self._strongest(strengths, model, pairs)
        return replace(plan, strengths=strengths, pairs=found, tried=found)

    def _strengths(self, model: Additive, training: Training) -> dict[Pair, float]:
        """Strengths of all pairs, the strongest first."""
        bins = training.table.bins
        useful = np.flatnonzero((bins.n_bins > 1) | bins.has_missing)
        features = np.array([j for j in useful.tolist() if j not in self.unpaired], np.int64)
        if features.size < 2:
            return {}
        bound = self.risk.bind(training.arrangement, training.workers)
        pull = bound.pull_of(bound.state(model.on(training.table)))
        found = interaction_strengths(
            training.table, pull.values, pull.hessian(self.trees.hessian), features,
            training.workers, reg_lambda=self.trees.reg_lambda,
            min_weight=max(self.trees.min_child_samples, self.trees.min_child_weight),
            item_weight=training.arrangement.weight,
        )  # fmt: skip
        return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))

    def _strongest(self, strengths: dict[Pair, float], model: Additive, count: int) -> list[Pair]:
        main = {key[0] for key in model.terms if len(key) == 1}
        enough = {None: 0, "weak": 1, "strong": 2}[self.heredity]
        good = [
            pair
            for pair, strength in strengths.items()
            if strength > 0 and sum(feature in main for feature in pair) >= enough
        ]
        return good[:count]

    def _useful(
        self, found: Additive, held: Training, base: Floats, risk: Callable[[Floats], float]
    ) -> list[Pair]:
        """Pairs without which the risk on held-out rows is higher, the least useful removed first."""
        values = {key: term.on(held.table) for key, term in found.terms.items() if len(key) == 2}
        scores = base + sum(values.values())
        order = sorted(values, key=lambda key: (found.terms[key].importance, key))
        kept = []
        least = risk(scores)
        for key in order:
            without = scores - values[key]
            now = risk(without)
            if now <= least:
                scores, least = without, now
            else:
                kept.append(key)
        return sorted(kept)

    # -- parts of the rows -----------------------------------------------------------------

    def _parted(self) -> tuple[Training, Training] | None:
        """Two parts of the rows, by query where there are enough; None where one has no pair.

        The draw depends on the order of the queries and of the rows in the arrangement alone.
        """
        arrangement = self.training.arrangement
        generator = np.random.default_rng(self.seed)
        queries = arrangement.query_start.size - 1
        if queries >= FEWEST_QUERIES:
            group = _queries_of(self.training)
            count = int(group.max()) + 1
            chosen = np.zeros(count, bool)
            chosen[generator.permutation(count)[: max(1, round(self.held_out * count))]] = True
            held = chosen[group]
        else:
            held = generator.random(arrangement.n_places) < self.held_out
        parts = [self._part(np.flatnonzero(side)) for side in (~held, held)]
        one, other = parts
        return None if one is None or other is None else (one, other)

    def _part(self, places: Integers, weight: Floats | None = None) -> Training | None:
        """Some places, perhaps with other weights, as a training set; None without a pair."""
        training = self.training
        judgments = places_of(training.arrangement)
        if weight is not None:
            judgments = judgments._with(weight=weight)
        judgments = judgments[places]
        arrangement = judgments.arrange(self.balance)
        if arrangement.total <= 0:
            return None
        table = training.table.block(places[arrangement.order])
        return Training.ordered(table, arrangement, training.workers)

    def _resampled(self, generator: np.random.Generator) -> Training:
        """A bootstrap sample of the queries, or of the rows, by weights drawn from Poisson's law."""
        arrangement = self.training.arrangement
        places = np.arange(arrangement.n_places)
        group = places
        if arrangement.query_start.size - 1 >= FEWEST_QUERIES:
            group = _queries_of(self.training)
        while True:  # a sample without any pair is possible, but rare
            times = generator.poisson(1.0, int(group.max()) + 1)[group]
            found = self._part(places[times > 0], arrangement.weight * times)
            if found is not None:
                return found


class _Onward(CoordinateDescent):
    """Coordinate descent from given scores, within some features.

    `before` is the number of rounds of the history that are not of this method.
    """

    def __init__(
        self, plan: Plan, training: Training, scores: Floats | None, within: Flags | None
    ):
        super().__init__(plan, training)
        self._within, self.before = within, 0
        if scores is not None:
            self.scores = scores.copy()
            self.state = self.risk.state(self.scores)

    def _best(self, allowed: Flags | None) -> Found | None:
        if self._within is not None:
            allowed = self._within if allowed is None else allowed & self._within
        return super()._best(allowed)

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


def _best(result: Result, watch: Worsening | None, before: int) -> Result:
    """The rounds up to the best one, if a metric is watched; `before` are of earlier stages."""
    if watch is None or len(result.history) == before:
        return result
    best = max(watch.best_round(result.history), before)
    return replace(
        result, ensemble=result.ensemble.first(best - before), history=result.history[:best]
    )


def _sum(one: Additive, other: Additive) -> Additive:
    """Two models with different terms as one."""
    return Additive({**one.terms, **other.terms}, one.constant + other.constant)


def _queries_of(training: Training) -> Integers:
    """Number of the query of each place; places that only listed pairs know are one each."""
    arrangement = training.arrangement
    first = arrangement.level_start[arrangement.query_start]
    query = np.repeat(np.arange(first.size - 1), np.diff(first))
    alone = np.arange(arrangement.n_places - query.size) + first.size - 1
    return np.concatenate([query, alone]).astype(np.int64)
