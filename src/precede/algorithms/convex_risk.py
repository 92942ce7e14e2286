"""Convex risk minimization in an l1 ball, with a certificate (CLV05 section 4)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import cast

import numpy as np
import scipy.optimize
from sklearn.exceptions import ConvergenceWarning

from precede.boosting.holdout import Resampler, mean_and_error
from precede.boosting.loop import (
    INTERRUPTED,
    Callback,
    History,
    NoProgress,
    Result,
    Round,
    Trainer,
    run_rounds,
)
from precede.boosting.monitors import Monitor, pairs_in_order
from precede.engine.arrays import Array, Bytes, Flags, Floats, Integers, RandomState
from precede.engine.compiling import njit
from precede.engine.exact import (
    SCALE,
    all_reduce_max,
    all_reduce_sum,
    exact_sum,
    exact_sums,
    to_integers,
)
from precede.engine.histograms import Histograms, suffix_sums
from precede.engine.query_layout import TrainingData
from precede.engine.table import MISSING
from precede.estimator import BaseRanker, FitContext, Saved
from precede.losses import PairLoss, pair_loss, value_at_zero
from precede.model import Ensemble, spelled
from precede.risks.base import Risk
from precede.risks.pair_risk import PairRisk
from precede.weak_rankers.base import Family, SearchResult, WeakRanker, family, require_exhaustive
from precede.weak_rankers.stumps import Stump

# After this many pairwise steps all weights are optimized jointly, as pairwise steps zigzag; only
# for models of limited size, as the cost is cubic.
CORRECT_EVERY = 15
MAX_CORRECTED_RANKERS = 150
WITHIN_TOLERANCE = "the gap is within the tolerance"
ROUNDS_USED_UP = "the rounds are used up"
NO_STEP = "the step is below rounding"
# Weights below this share of the radius are set to 0.
NEGLIGIBLE_SHARE = 1e-12
# Initial smoothing width of a kink of the loss; halved as the gap decreases.
FIRST_SMOOTHING = 0.5


def _read_path(path: list[dict[str, float]], name: str) -> list[dict[str, float]]:
    """Return a path of radii from a model file."""
    if not isinstance(path, list) or not all(isinstance(step, dict) for step in path):
        raise ValueError(f"the {name} of the model is not a list of steps")
    return [{key: spelled(step[key], key) for key in step} for step in path]


class ConvexRiskRanker(BaseRanker):
    """Minimize a convex ranking risk over all ``sum_j w_j h_j`` with ``sum_j |w_j| <= radius``.

    The risk is the mean over crucial pairs of the cost ``phi(-(f(x_i) - f(x_k)))``, where
    ``phi(-m) = loss(m) / loss(0)`` is any convex pair loss scaled to be 1 at margin 0: for the
    three costs of the paper ``exp(x)``, ``log2(1 + exp(x))`` and ``(1 + x)_+``. (CLV05 average
    over all ordered pairs; pairs of equal grade then add a constant.)

    The algorithm is the conditional gradient method with pairwise steps: a round moves weight from
    the worst weak ranker of the model to the best one of the model, or towards the best weak ranker
    of the family, whichever slope is steeper. The model thus stays in the ball, and useless weak
    rankers are removed. The duality gap ``<gradient, f - vertex>`` bounds the excess of the risk
    over its minimum: `gap_` is a certificate, not an estimate.

    Parameters
    ----------
    loss : {"exponential", "logistic", "hinge", "squared_hinge"} or PairLoss
        Any convex loss that is positive at margin 0. For a loss with a kink, other than the hinge,
        the certified gap may not close; a warning then says so.
    radius : float, or "cv"
        Radius of the ball. "cv" chooses it from `radii` by the share of misordered pairs in
        cross-validation by queries (or by rows, without queries).
    radii : increasing list of floats, optional
        The path for ``radius="cv"``; each solution starts from the previous one.
    cv : int
        Number of folds.
    weak_rankers : {"stumps", "features", "columns"} or Family
        The gap is certified only if the search never misses the best vertex, so families that
        are not `exhaustive` raise an error. (Trees have no scale either: without a bound on their
        leaf values the radius would have no meaning. Use `BoostedRanker` for trees.)
    n_estimators : int
        Maximum number of rounds; there is a warning if the tolerance was not reached.
    tol : float
        Stop when the certified gap is at most this.
    eval_metric
        As for `RankBoost`; recorded in the history. There is no early stopping: the gap determines
        when to stop.
    balance, max_bins, callbacks, random_state, n_jobs, verbose
        As for `RankBoost`; `random_state` shuffles the folds.

    Attributes
    ----------
    gap_ : float
        The mean cost of the model exceeds the minimum in the ball by at most this, where the weak
        rankers are those of the binned features (see `max_bins`).
    radius_ : float
    path_ : list of dict
        For each radius: mean and standard error of the share of misordered pairs.
    n_estimators_, best_iteration_ : int
        Number of weak rankers in the model: rounds also move weights and remove weak rankers.
        `staged_predict` adds them one by one.
    history_ : History
        ``history_["gap"]``, ``["risk"]`` (the mean cost), ``["norm"]``, ``["active"]``.

    Notes
    -----
    A round costs one search, O(n) for the gradient, O(n) for each feature in the model, and a
    line search of about ten evaluations of the risk. The hinge has a kink: it is replaced by
    `SmoothedHinge` over a width that is halved as the gap decreases, and the gap of the original
    problem is bounded by ``R(f) - R_smooth(f) + gap_smooth``. From time to time SciPy's SLSQP
    optimizes all weights jointly; its rounding depends on BLAS and the number of its threads, so
    fits on different machines may differ, within the gap. `n_jobs` does not affect the model.

    References
    ----------
    Clémençon, Lugosi & Vayatis, *Ranking and Scoring Using Empirical Risk Minimization*,
    COLT 2005, section 4.

    Examples
    --------
    >>> from precede import ConvexRiskRanker
    >>> from precede.datasets import two_normals
    >>> sample = two_normals(300, random_state=0)
    >>> model = ConvexRiskRanker(loss="logistic", radius=2.0, tol=0.01)
    >>> model = model.fit(sample.X, sample.y)
    >>> bool(model.gap_ <= 0.01), bool(sum(map(abs, model.ensemble_.weights)) <= 2.0)
    (True, True)
    """

    loss: str | PairLoss = "exponential"
    radius: float | str = 4.0
    radii: Sequence[float] | None = None
    cv: int = 5
    balance: str = "pairs"  # as printed
    weak_rankers: str | Family = "stumps"
    n_estimators: int = 2000
    max_bins: int = 255
    tol: float = 1e-3
    eval_metric: object = None
    callbacks: Sequence[Callback] | None = None
    random_state: RandomState = None
    n_jobs: int | None = None
    verbose: int = 0

    resumable = False  # a round changes earlier weights
    takes_init_score = False
    saved_attributes = MappingProxyType({
        "gap_": Saved(), "radius_": Saved(), "path_": Saved(_read_path),
    })  # fmt: skip

    def risk(self) -> Risk:
        """Return the loss over pairs."""
        return PairRisk(self.loss, balance=self.balance)

    def boost(self, task: FitContext) -> Result:
        """Solve for increasing radii with warm starts; show progress for the last one."""
        radii = self._radii()
        self.path_ = self._cross_validated(task, radii) if self.radius == "cv" else []
        if self.path_:
            errors = [step["error"] for step in self.path_]
            radii = radii[: int(np.argmin(errors)) + 1]
        self.radius_ = float(radii[-1])
        trainer = _ConditionalGradient(self, task.training, self.radius_, task.monitors)
        for radius in radii[:-1]:
            result = trainer.solve(radius, self.tol)
            if result.reason == INTERRUPTED:
                break
        else:
            with task.callbacks(self) as callbacks:
                result = trainer.solve(self.radius_, self.tol, callbacks)
        self.gap_ = trainer.gap
        return result

    def after_rounds(self, result: Result, task: FitContext) -> None:  # noqa: ARG002
        """Count weak rankers instead of rounds, which change earlier weights."""
        self.n_estimators_ = self.best_iteration_ = len(result.ensemble)

    def warn_of_result(self, result: Result, task: FitContext) -> None:
        """Warn if the tolerance was not reached."""
        super().warn_of_result(result, task)
        cure = {
            ROUNDS_USED_UP: "raise n_estimators or tol",
            NO_STEP: "no step lowers the risk, as happens at a kink of the loss: raise tol, "
            "or smooth the loss",
        }.get(result.reason)
        if cure is not None and self.gap_ > self.tol:
            task.training.context.warn(
                f"the gap is {self.gap_:.3g} after {len(result.history)} rounds, above the "
                f"tolerance {self.tol:g}; {cure}",
                ConvergenceWarning,
            )

    def first_rounds(self, rounds: int) -> Ensemble:
        """Raise ValueError: rounds change the weights of earlier ones."""
        raise ValueError(
            f"num_iteration={rounds}: a round of ConvexRiskRanker changes the weights of earlier "
            "ones, so the model has no first rounds; leave num_iteration out"
        )

    def _radii(self) -> list[float]:
        if self.radius != "cv":
            return [float(self.radius)]
        radii = np.geomspace(0.5, 32.0, 7) if self.radii is None else self.radii
        return [float(radius) for radius in radii]

    def check_parameters(self) -> None:
        """Raise ValueError for an invalid parameter."""
        super().check_parameters()
        value_at_zero(pair_loss(self.loss))
        require_exhaustive(self.weak_rankers, "the gap of ConvexRiskRanker")
        given: Sequence[float] = [cast(float, self.radius)]
        if self.radius == "cv":
            given = self._radii() if self.radii is None else self.radii
        good = isinstance(given, list | tuple | np.ndarray) and len(given) > 0
        if not (good and all(map(_is_positive, given)) and all(a < b for a, b in pairwise(given))):
            raise ValueError(
                f"radius={self.radius!r}, radii={self.radii!r}: use a positive number, or "
                "'cv' with increasing positive radii"
            )
        if not 0 < self.tol < np.inf:
            raise ValueError(f"tol={self.tol!r} is out of range; use more than 0")

    def _cross_validated(self, task: FitContext, radii: list[float]) -> list[dict[str, float]]:
        """Return the ranking error on held-out folds for each radius, with warm starts."""
        errors: list[list[float]] = []
        X = task.X
        _ = X[:1]  # raises for a DiskTable, whose rows cannot be selected
        parts = Resampler.of_fit(self, task, seed=self.draw_seed()).folds(self.cv)
        for learn, held in parts:
            trainer = _ConditionalGradient(self, learn.training, radii[-1], [])
            row = []
            for radius in radii:
                ensemble = trainer.solve(radius, 10 * self.tol, interruptible=False).ensemble
                row.append(1 - pairs_in_order(held.judgments, ensemble.predict(X[held.rows])))
            errors.append(row)
        if not errors:
            raise ValueError(
                f"no fold of cv={self.cv} has pairs on both sides; use fewer folds, or a number "
                "as radius"
            )
        path = []
        for radius, values in zip(radii, np.transpose(errors), strict=True):
            error, spread = mean_and_error(values)
            spread = spread if values.size > 1 else math.nan
            path.append({"radius": radius, "error": error, "standard_error": spread})
        return path


@dataclass(frozen=True)
class _Component:
    """Signed weak ranker of the model, or the slack (None), with its edge and weight."""

    weak_ranker: WeakRanker | None
    sign: float
    edge: float
    weight: float


class _ConditionalGradient(Trainer):
    """Conditional gradient with pairwise steps, continued from radius to radius.

    The model is a point of the ball: weights ``w_h`` and a slack ``radius - sum |w_h|``, the
    weight of the zero function. `gap` is the certificate of the last point at which weak rankers
    were searched; a round begins with a search and ends the fit if the gap is within the
    tolerance. `final_radius` is the last radius of the path.
    """

    def __init__(
        self,
        settings: ConvexRiskRanker,
        training: TrainingData,
        final_radius: float,
        monitors: Sequence[Monitor],
    ):
        self._training, self.monitors, self.context = training, monitors, training.context
        self._max_rounds = settings.n_estimators
        self.stop = NoProgress(0.0)  # never stops: `boost_round` limits the searches
        self._loss = pair_loss(settings.loss)
        # Smoothing width of the kink; None for smooth losses.
        width = FIRST_SMOOTHING * value_at_zero(self._loss)
        self._smoothing = None if self._loss.smoothed(width) is None else width
        self._search = family(settings.weak_rankers).start(training.table, training.context)
        self._bind()
        self._unsmoothed_risk = PairRisk(self._loss).bind(training.layout, training.context)
        self._cost_scale = 1.0 / (value_at_zero(self._loss) * training.layout.total)
        self._weights: dict[WeakRanker, float] = {}
        self._weights_after_round: dict[WeakRanker, float] = {}
        self._scores = np.zeros(training.table.n_used_rows)
        self._pairwise_steps = 0
        self._final_radius = final_radius
        self.gap = np.inf
        self._radius = final_radius
        self.state = self._risk.state(self._scores)

    def solve(
        self, radius: float, tol: float, callbacks: Sequence[Callback] = (), *,
        interruptible: bool = True,
    ) -> Result:  # fmt: skip
        """Run rounds in the ball of a radius, from the last point on, and certify the result."""
        self._radius, self._tolerance, self._tries = radius, tol, 0
        self.ensemble = self._model()
        return run_rounds(self, callbacks=callbacks, interruptible=interruptible)

    def _model(self) -> Ensemble:
        """Return the ensemble of nonzero weights, in order of insertion."""
        kept = {weak_ranker: weight for weak_ranker, weight in self._weights.items() if weight != 0}
        norm = math.fsum(map(abs, kept.values()))
        # Stay in the ball despite rounding, in whatever order the weights are summed.
        room = self._radius * (1 - 2.0**-46)
        shrink = room / norm if norm > room else 1.0
        weights = [shrink * weight for weight in kept.values()]
        return Ensemble(list(kept), weights, self._training.table.n_features)

    def boost_round(self) -> Round | str:
        """Search, certify the gap, and take a step if it exceeds the tolerance."""
        while self._tries < self._max_rounds:
            self._tries += 1
            found = self._search.best(self.state.pull)
            self._certify(found)
            if self.gap <= self._tolerance or (found is None and self._smoothing is None):
                return WITHIN_TOLERANCE
            if found is not None:
                return self._record(found)
            # Solved for this smoothing width; `_certify` has halved it.
        self._certify(self._search.best(self.state.pull))
        return WITHIN_TOLERANCE if self.gap <= self._tolerance else ROUNDS_USED_UP

    def interrupt(self, history: History) -> str:  # noqa: ARG002
        """Restore the weights of the last finished round; certify them for the final radius."""
        self._radius, self._weights = self._final_radius, dict(self._weights_after_round)
        self._scores = np.zeros(self._scores.size)
        for weak_ranker, weight in self._weights.items():
            self._scores += weight * weak_ranker.on(self._training.table)
        self.state = self._risk.state(self._scores)
        self._certify(self._search.best(self.state.pull))
        self.ensemble = self._model()
        return f"the model is certified to a gap of {self.gap:.3g}"

    def _record(self, found: SearchResult) -> Round:
        moved = self._take_step(found)
        # A full step leaves weights of 0, which would block pairwise steps.
        self._weights = {weak_ranker: w for weak_ranker, w in self._weights.items() if w != 0}
        self.state = self._risk.state(self._scores)
        self._weights_after_round, self.ensemble = dict(self._weights), self._model()
        cost = self._mean_cost()
        columns = {
            "risk": cost,
            "log_risk": float(np.log(cost)) if cost > 0 else -np.inf,
            "gap": self.gap,
            "edge": found.edge,
            "step": moved,
            "norm": math.fsum(map(abs, self._weights.values())),
            "active": len(self._weights),
        }
        return Round(
            columns, stop_reason=NO_STEP if moved == 0.0 and self._smoothing is None else ""
        )

    def _bind(self) -> None:
        smooth = None if self._smoothing is None else self._loss.smoothed(self._smoothing)
        self._risk = PairRisk(smooth or self._loss).bind(
            self._training.layout, self._training.context
        )

    def _certify(self, found: SearchResult | None) -> None:
        """Bound the excess of the mean cost over its minimum in the ball.

        The best vertex has the slope ``radius·|edge|``; ties in the search are within 2^-40.
        """
        best = 0.0 if found is None else abs(found.edge) * (1 + 2.0**-39)
        current = exact_sum(self.state.pull * self._scores, self._training.context)
        mass = np.exp(self.state.log_gradient_sum) * self._cost_scale
        gap = max(0.0, mass * (self._radius * best - current))
        if self._smoothing is None:
            self.gap = float(gap)
            return
        smooth = np.exp(self.state.log_value) * self._cost_scale
        self.gap = float(self._mean_cost() - smooth + gap)
        if gap < 0.5 * (self.gap - gap):  # mostly due to smoothing
            self._smoothing /= 2
            self._bind()
            self.state = self._risk.state(self._scores)

    def _mean_cost(self) -> float:
        if self._smoothing is None:
            return float(np.exp(self.state.log_value) * self._cost_scale)
        return float(np.exp(self._unsmoothed_risk.log_value(self._scores)) * self._cost_scale)

    def _take_step(self, found: SearchResult) -> float:
        """Take one step; return the weight that was moved.

        It is a pairwise step from the worst to the best component of the model if its slope is
        steeper than that towards the best vertex, otherwise a step towards that vertex. (Pairwise
        steps to new vertices would move ever smaller weights among similar weak rankers.)
        """
        components = self._components()
        worst = min(components, key=lambda component: component.edge)
        best = max(components, key=lambda component: component.edge)
        current = exact_sum(self.state.pull * self._scores, self._training.context)
        pairwise_slope = self._radius * (best.edge - worst.edge)
        vertex_slope = self._radius * abs(found.edge) - current
        if pairwise_slope <= 0 or pairwise_slope < vertex_slope:
            return self._vertex_step(found)
        self._pairwise_steps += 1
        if self._pairwise_steps % CORRECT_EVERY == 0 and len(components) <= MAX_CORRECTED_RANKERS:
            return self._optimize_weights(components) or self._pairwise_step(worst, best)
        return self._pairwise_step(worst, best)

    def _optimize_weights(self, components: list[_Component]) -> float:
        """Optimize the weights of all weak rankers of the model jointly (SLSQP).

        Return the weight moved, or 0 if the risk could not be lowered.
        """
        radius = self._radius
        kept = [component for component in components if component.weak_ranker is not None]
        weak_rankers = [
            component.weak_ranker for component in kept if component.weak_ranker is not None
        ]
        sign = np.array([component.sign for component in kept])
        before = np.array([component.weight for component in kept]) / radius
        values = np.stack([weak_ranker.on(self._training.table) for weak_ranker in weak_rankers])

        def cost(share: Floats) -> tuple[float, Floats]:
            at = self._risk.state(_weighted_sum(values, sign * share * radius))
            mass = np.exp(at.log_gradient_sum) * self._cost_scale
            slope = -mass * radius * sign * self._products(values, at.pull)
            return float(np.exp(at.log_value) * self._cost_scale), slope

        answer = scipy.optimize.minimize(
            cost, before, jac=True, method="SLSQP", bounds=[(0.0, 1.0)] * len(kept),
            constraints={"type": "ineq", "fun": lambda share: 1.0 - share.sum(),
                         "jac": lambda share: -np.ones_like(share)},
            options={"maxiter": 30, "ftol": 1e-12},
        )  # fmt: skip
        share = np.where(answer.x > NEGLIGIBLE_SHARE, answer.x, 0.0)
        share /= max(1.0, share.sum())
        if cost(share)[0] >= cost(before)[0] * (1 - 1e-12):
            return 0.0
        for component, new, old in zip(kept, share, before, strict=True):
            self._add_weight(component, float(radius * (new - old)))
            if new == 0 and component.weak_ranker is not None:
                del self._weights[component.weak_ranker]
        self._scores = _weighted_sum(values, sign * share * radius)
        return float(radius * np.abs(share - before).sum())

    def _products(self, values: Array, pull: Floats) -> Floats:
        """Return the dot product of every row of values with the pull, by integer sums."""
        context = self._training.context
        largest = all_reduce_max(lambda: np.abs(values).max(axis=1).astype(np.float64), context)
        exponent = np.frexp(largest)[1]
        sums = all_reduce_sum(
            lambda: _products(values, pull * SCALE, np.ldexp(1.0, -exponent)), context
        )
        return np.ldexp(sums / SCALE, exponent)

    def _pairwise_step(self, worst: _Component, best: _Component) -> float:
        """Move weight from one component of the model to another."""
        direction = self._values(best) - self._values(worst)
        moved = self._line_search(direction, worst.weight)
        self._add_weight(best, moved)
        self._add_weight(worst, -moved)
        if (
            worst.weight - moved <= NEGLIGIBLE_SHARE * self._radius
            and worst.weak_ranker is not None
        ):
            del self._weights[worst.weak_ranker]
        self._scores += moved * direction
        return moved

    def _vertex_step(self, found: SearchResult) -> float:
        """Move towards a vertex of the ball, shrinking all weights proportionally."""
        radius = self._radius
        vertex = _Component(found.weak_ranker, 1.0 if found.edge > 0 else -1.0, found.edge, 0.0)
        direction = radius * self._values(vertex) - self._scores
        share = self._line_search(direction, 1.0)
        self._weights = {h: (1 - share) * weight for h, weight in self._weights.items()}
        for monitor in self.monitors:
            monitor.shrink(1 - share)
        self._scores *= 1 - share
        self._add_weight(vertex, share * radius)
        self._scores += share * radius * self._values(vertex)
        return share * radius

    def _components(self) -> list[_Component]:
        """Return the components of the model: weak rankers, and the slack of edge 0."""
        slack = self._radius - math.fsum(map(abs, self._weights.values()))
        components = []
        if slack > NEGLIGIBLE_SHARE * self._radius:
            components.append(_Component(None, 0.0, 0.0, slack))
        weak_rankers = list(self._weights)
        edges = _edges(self._training, weak_rankers, self.state.pull)
        for weak_ranker, edge in zip(weak_rankers, edges, strict=True):
            weight = self._weights[weak_ranker]
            sign = 1.0 if weight > 0 else -1.0
            components.append(_Component(weak_ranker, sign, sign * float(edge), abs(weight)))
        return components

    def _values(self, component: _Component) -> Floats:
        if component.weak_ranker is None:
            return np.zeros(self._scores.size)
        return component.sign * component.weak_ranker.on(self._training.table).astype(np.float64)

    def _line_search(self, direction: Floats, longest: float) -> float:
        """Return the step from 0 to `longest` that minimizes the risk."""

        def slope_at(step: float) -> float:
            at = self._risk.state(self._scores + step * direction)
            if at.log_gradient_sum == -np.inf:
                return 0.0
            return exact_sum(at.pull * direction, self._training.context)

        if longest == 0 or slope_at(longest) >= 0:
            return longest
        if exact_sum(self.state.pull * direction, self._training.context) <= 0:
            return 0.0
        return float(
            scipy.optimize.brentq(slope_at, 0.0, longest, xtol=1e-13 * longest, rtol=1e-12)
        )

    def _add_weight(self, component: _Component, weight: float) -> None:
        if component.weak_ranker is None:
            return
        signed = component.sign * weight
        self._weights[component.weak_ranker] = (
            self._weights.get(component.weak_ranker, 0.0) + signed
        )
        for monitor in self.monitors:
            monitor.advance(component.weak_ranker, signed)


def _is_positive(radius: float) -> bool:
    number = isinstance(radius, int | float | np.number) and not isinstance(radius, bool)
    return number and 0 < radius < np.inf


def _edges(training: TrainingData, weak_rankers: list[WeakRanker], pull: Floats) -> Floats:
    """Return the edges of weak rankers; stumps of one feature share a histogram."""
    table, context = training.table, training.context
    edges = np.zeros(len(weak_rankers))
    known = [weak_ranker.equivalent() for weak_ranker in weak_rankers]
    views = {j: h for j, h in enumerate(known) if isinstance(h, Stump) and h.is_cut(table)}
    stumps, kept = list(views), list(views.values())
    if stumps:
        features = np.unique([stump.feature for stump in kept])
        combine = partial(
            _edges_of_stumps,
            np.searchsorted(features, [stump.feature for stump in kept]),
            np.array([stump.first_code(table) for stump in kept]),
            np.array([stump.missing for stump in kept], bool),
        )
        edges[stumps] = all_reduce_sum(
            lambda: Histograms(table, context).sums(to_integers(pull), features), context, combine
        )
    others = sorted(set(range(len(weak_rankers))) - set(stumps))
    if others:
        edges[others] = exact_sums([pull * weak_rankers[j].on(table) for j in others], context)
    return edges


def _edges_of_stumps(
    row: Integers,
    first: Integers,
    missing: Flags,
    histogram: Integers,
) -> Floats:
    """Return the edges of stumps from the histograms of all workers, one row a feature."""
    return (
        suffix_sums(histogram)[row, first] + np.where(missing, histogram[row, MISSING], 0)
    ) / SCALE


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _weighted_sum(values: Bytes, weights: Floats) -> Floats:
    """Return the weighted sum of the rows."""
    total = np.zeros(values.shape[1])
    for row in range(values.shape[0]):
        weight = weights[row]
        for item in range(values.shape[1]):
            total[item] += weight * values[row, item]
    return total


@njit(cache=True, nogil=True)
def _products(values: Bytes, pull: Floats, unit: Floats) -> Integers:
    """Return integer dot products of the rows, scaled to [-1, 1] by `unit`, with the pull."""
    result = np.zeros(values.shape[0], np.int64)
    for row in range(values.shape[0]):
        total = np.int64(0)
        for item in range(values.shape[1]):
            total += np.int64(np.rint(values[row, item] * unit[row] * pull[item]))
        result[row] = total
    return result
