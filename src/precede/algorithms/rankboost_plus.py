"""RankBoost+ (C19): the loss of a tied pair is the mean of its losses in both orders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import scipy.optimize

from precede.algorithms.e2 import coefficients
from precede.boosting.coordinate_descent import NOTHING_LEFT
from precede.boosting.loop import PERFECT, Callback, History, Round, Stop, Trainer
from precede.engine.arrays import BackendArray, Bytes, Floats, Integers, MatrixLike
from precede.engine.compiling import njit
from precede.engine.exact import TIE, first_tied
from precede.engine.portable import exp, tanh
from precede.estimator import BaseRanker, FitContext, Saved
from precede.estimator.saving import of_type
from precede.model import Ensemble
from precede.risks.line_search import bound_step, last_step
from precede.risks.links import Link
from precede.risks.pair_risk import PairRisk
from precede.risks.pair_weights import PairWeights, free_memory, pair_factors
from precede.weak_rankers.base import Family, family
from precede.weak_rankers.candidates import PRIME, Candidates, LinearSpan

# Slopes below this are rounding errors.
SLOPE_ROUNDING = 1e-14
# Maximum rounding error of a tie mass in one round.
TIE_MASS_ROUNDING = 1e-12
# Share of the free memory that memory_limit="auto" allows.
MAX_MEMORY_SHARE = 0.75


class RankBoostPlus(BaseRanker):
    """RankBoost+: minimizes the exponential loss E2, in which a tie is half right, half wrong.

    E2 is the mean over crucial pairs of ``prod_s omega_s``, where a weak ranker s of values 0
    and 1 and of accumulated weight eta_s has ``omega_s = exp(-eta_s)`` on pairs that it
    orders correctly, ``exp(eta_s)`` on pairs that it reverses and ``cosh(eta_s)``, the average
    of the two, on pairs that it ties. It bounds the training error with ties counting half,
    and every round lowers it: after rounds of slopes delta_t and full steps
    ``E2 = prod_t sqrt(1 - delta_t²) <= exp(-sum_t delta_t² / 2)``.

    A round takes the weak ranker of the largest absolute slope
    ``delta = d- - d+ + d0 tanh(eta)`` (d+, d-, d0: weights of the pairs that it orders
    correctly, wrongly, not at all) and adds ``-artanh(delta)`` to its weight. The weak rankers
    of the model are kept linearly independent over pairs.

    Parameters
    ----------
    balance : {"pairs", "queries", "items"}
        Whether every pair weighs the same (the paper), or every query, or every item: a query then
        weighs as much as it has items.
    weak_rankers : {"stumps", "columns"}
        Thresholds on features, with missing values below all others, or columns of X whose
        values are 0 and 1. Weak rankers that order the training pairs in the same way, or in the
        opposite way, count once.
    search : {"efficient", "optimal"}
        "efficient" is the paper's Algorithm 2: a weak ranker that is a linear combination of
        those in the model is never chosen. "optimal" also considers such combinations, which
        costs much more and changes little; for small data.
    n_estimators : int
        Number of rounds.
    learning_rate : float in (0, 1]
        Every step is multiplied by it; the paper takes full steps (1).
    max_bins : int from 2 to 255
        Maximum number of bins of a feature.
    memory_limit : "auto", number of bytes, or None
        A fit keeps a weight for every pair, 8 bytes each. If it needs more than the limit
        ("auto": three quarters of the free memory; None: no limit), it raises ValueError before
        anything is allocated.
    device : {"cpu", "cuda"}
        Device of the weights of pairs; the model is the same to the bit. "cuda" needs an NVIDIA GPU
        and the extra ``precede[cuda13]`` or ``precede[cuda12]``, grades and
        ``search="efficient"``. Weights beyond `memory_limit` (of GPU memory) are recomputed in
        every round, which takes O(pairs · rounds).
    early_stopping_rounds, eval_metric, callbacks, warm_start, n_jobs, verbose
        As for `RankBoost`.

    Attributes
    ----------
    history_ : History
        ``history_["risk"]`` is E2 and ``["e1"]`` the plain exponential loss of the same
        model; ``["edge"]`` is ``-delta``, ``["bound"]`` theorem 2's bound on the training
        error (NaN with a learning rate or a step along a combination, which the theorem does not
        cover), ``["weak_rankers"]`` the number of distinct weak rankers.
    memory_ : int
        Predicted memory of the fit in bytes.

    Notes
    -----
    A round costs O(pairs) for the weights and O(n) for each feature, and O(pairs) for each
    eight weak rankers of the model that could be chosen again (bounds rule out most of them).
    The model does not depend on the order of the rows or on the number of threads.

    If one weak ranker orders every pair, its weight would be infinite: it gets a large finite one
    and the fit ends. A weak ranker that reverses no pair but ties some has a finite step. On
    separable data E2 may tend to 0; its logarithm is recorded.

    References
    ----------
    Connamacher, Pancha, Liu & Ray, *RankBoost+: an improvement to RankBoost*, Machine
    Learning, 2019.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from precede import RankBoostPlus
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RankBoostPlus(n_estimators=50).fit(X[::2], y[::2])
    >>> round(model.score(X[1::2], y[1::2]), 2)  # area under the ROC curve on the other half
    0.99
    >>> bool(model.history_["risk"][-1] < model.history_["bound"][-1])
    True
    """

    balance: str = "pairs"  # as printed
    weak_rankers: str | Family = "stumps"
    search: str = "efficient"
    n_estimators: int = 300
    learning_rate: float = 1.0
    max_bins: int = 255
    early_stopping_rounds: int | None = None
    eval_metric: object = None
    callbacks: Sequence[Callback] | None = None
    warm_start: bool = False
    memory_limit: str | float | None = "auto"
    n_jobs: int | None = None
    device: str = "cpu"
    verbose: int = 0

    resumes_from = ("log_risk", "bound", "perfect", "parts")
    takes_init_score = False

    saved_attributes = MappingProxyType({
        "memory_": Saved(of_type(int)), "n_estimators_": Saved(of_type(int)),
    })  # fmt: skip

    # -- fitting ---------------------------------------------------------------------------

    def trainer(
        self, task: FitContext, stop: Stop, ensemble: Ensemble | None, history: History
    ) -> Trainer:
        """Return coordinate descent on E2, and set the predicted memory."""
        # Searches that can be resumed add one weak ranker a round.
        if task.checkpoint is not None and any(
            each["parts"] != number for number, each in enumerate(history, 1)
        ):
            raise ValueError(
                f"{task.checkpoint.path}: 'parts' does not count the rounds; the file was changed, "
                "so remove it or give another path"
            )
        trainer = _E2Trainer(self, task, stop, ensemble, history)
        self.memory_ = trainer.memory
        return trainer

    def why_not_resumable(self) -> str:
        """Return why no checkpoint is possible with these parameters; "" if one is."""
        if self.search == "optimal":
            return "search='optimal' cannot be resumed; leave checkpoint out"
        return super().why_not_resumable()

    def link(self) -> Link | None:
        """Return None: the minimum of E2 is not at a multiple of the log-odds."""
        return None

    def first_rounds(self, rounds: int) -> Ensemble:
        """Return the model after its first rounds, which may add several weak rankers each."""
        return self.ensemble_.first(int(self.history_[rounds - 1]["parts"]))

    def staged_predict(self, X: MatrixLike) -> Iterator[Floats]:
        """Yield the scores after each round of the model."""
        ends = {each["parts"] for each in self.history_[: self.n_estimators_]}
        staged = enumerate(super().staged_predict(X), 1)
        return (scores for number, scores in staged if number in ends)

    def check_model(self) -> None:
        """Raise ValueError unless the history counts weak rankers."""
        if not all(isinstance(each.get("parts"), int) for each in self.history_):
            raise ValueError("the parts of the model are not whole numbers")

    # -- checks ----------------------------------------------------------------------------

    def check_parameters(self) -> None:
        """Raise ValueError for an invalid parameter."""
        super().check_parameters()
        if self.search not in ("efficient", "optimal"):
            raise ValueError(f"search={self.search!r} is unknown; use 'efficient' or 'optimal'")
        limit = self.memory_limit
        number = isinstance(limit, int | float | np.number) and not isinstance(limit, bool)
        if not (limit is None or limit == "auto" or (number and float(limit) > 0)):
            raise ValueError(
                f"memory_limit={limit!r} is unknown; use 'auto', a number of bytes, or None for "
                "no limit"
            )
        if self.device != "cpu" and self.search == "optimal":
            raise ValueError(
                f"device={self.device!r} is for search='efficient'; search='optimal' needs "
                "device='cpu'"
            )

    def _bytes_allowed(self, free: Callable[[], float]) -> float | None:
        """Return `memory_limit` as a number, given a function that counts the free bytes."""
        if self.memory_limit == "auto":
            return MAX_MEMORY_SHARE * free()
        return None if self.memory_limit is None else float(self.memory_limit)

    def _predict_memory(self, task: FitContext, candidates: int) -> int:
        """Return the bytes that the fit needs; raise ValueError if they exceed the limit."""
        layout, rows = task.training.layout, task.training.layout.n_used_rows
        max_vectors = min(self.n_estimators, candidates)
        needed = LinearSpan.bytes_needed(rows, max_vectors)
        if self.search == "optimal":
            needed += 8 * candidates * LinearSpan.width_needed(rows, max_vectors)
            needed += 8 * rows * (max_vectors + 8)
        needed += PairWeights.bytes_needed(layout)
        if task.training.context.backend.is_gpu:
            return needed  # weights that do not fit on the device are recomputed
        limit = self._bytes_allowed(free_memory)
        if limit is not None and needed > limit:
            pairs = layout.count_graded_pairs() + layout.winner.size
            raise ValueError(
                f"RankBoostPlus keeps a weight for each of the {pairs:,} pairs and needs about "
                f"{needed / 1e9:.3g} GB, more than memory_limit={self.memory_limit!r} "
                f"({limit / 1e9:.3g} GB); raise the limit, use fewer rows or shorter queries, "
                "or RankBoost, which keeps no pairs"
            )
        return needed


@dataclass
class _ModelRankers:
    """Weak rankers of the model: candidate numbers, weights, and bounds on their tie mass."""

    number: list[int] = field(default_factory=list)
    eta: Floats = field(default_factory=lambda: np.zeros(0))
    low: Floats = field(default_factory=lambda: np.zeros(0))
    high: Floats = field(default_factory=lambda: np.zeros(0))

    def __len__(self) -> int:
        return len(self.number)

    def append(self, number: int) -> None:
        """Append a candidate with weight 0 and trivial bounds on its tie mass."""
        self.number.append(number)
        self.eta = np.append(self.eta, 0.0)
        self.low = np.append(self.low, 0.0)
        self.high = np.append(self.high, 1.0)


@dataclass(frozen=True)
class _Direction:
    """Direction of a round, with the slope of log E2.

    A weak ranker of the model (`used`, its index); or a new candidate with its residual modulo the
    span of the model; or the coefficients of a candidate in that span.
    """

    edge: float
    used: int = -1
    new: int = -1
    rest: Integers | None = None
    combination: Floats | None = None


@dataclass
class _Combinations:
    """Candidates in the span of the model and their coefficients, for the optimal search."""

    rest: Integers
    candidates: list[int] = field(default_factory=list)
    parts: list[Floats] = field(default_factory=list)


class _E2Trainer(Trainer):
    """Coordinate descent on E2 over linearly independent weak rankers."""

    def __init__(
        self,
        settings: RankBoostPlus,
        task: FitContext,
        stop: Stop,
        ensemble: Ensemble | None,
        history: History,
    ):
        training = task.training
        self._settings, self._training = settings, training
        self.stop, self.context = stop, training.context
        self.monitors = task.monitors
        layout, table, context = training.layout, training.table, training.context
        device = context.device
        if device is not None and layout.has_explicit_pairs:
            raise ValueError(
                "device='cuda' is for grades; listed pairs are weighed on the CPU: use device='cpu'"
            )
        self._candidates = Candidates(table, layout, family(settings.weak_rankers), context)
        self.memory = settings._predict_memory(task, len(self._candidates))
        self._is_available = np.ones(len(self._candidates), bool)
        max_vectors = min(settings.n_estimators, len(self._candidates))
        self._span = LinearSpan(layout, max_vectors, context.backend)
        self._used = _ModelRankers()
        self._index: dict[int, int] = {}
        backend = context.backend
        limit = settings._bytes_allowed(backend.free) if backend.is_gpu else None
        self._weights = PairWeights(layout, context, limit)
        self._e1 = PairRisk("exponential", balance=settings.balance).bind(layout, context)
        self._scores = self._initial_scores()
        self.ensemble = Ensemble([], [], table.n_features)
        self._bound = float(history[-1]["bound"]) if len(history) else 1.0
        self._combinations = None
        if settings.search == "optimal":
            vectors = [self._residual(j) for j in range(len(self._candidates))]
            self._combinations = _Combinations(np.array(vectors).reshape(-1, self._span.width))
        if ensemble is not None:
            self._replay(ensemble)
            self._check_history(history)
        self.state = self._e1.state(self._scores)

    def _initial_scores(self) -> BackendArray:
        """Return the scores before the first round, on the backend of the risk."""
        return self._e1.backend.put(np.zeros(self._training.table.n_used_rows))

    def _replay(self, ensemble: Ensemble) -> None:
        """Repeat the rounds of an earlier fit."""
        for weak_ranker, weight in ensemble.parts():
            number = self._candidates.number(weak_ranker)
            if number < 0:
                raise ValueError(
                    f"the model to continue from has {weak_ranker}, which these data do not offer; "
                    "continue with the same data, or set warm_start=False"
                )
            if number not in self._index:
                self._append_candidate(number, self._residual(number))
            self._add_weight(self._index[number], weight)

    def _check_history(self, history: History) -> None:
        """Raise ValueError if the history was recorded on other data."""
        now = self._weights.log_risk
        was = history[-1]["log_risk"] if len(history) else 0.0
        if was != now:
            raise ValueError(
                "the rounds to continue from were learned from other data: E2 is "
                f"{np.exp(now):.6g} here and was {np.exp(was):.6g}; continue with the same data, "
                "or fit again"
            )

    # -- rounds ----------------------------------------------------------------------------

    def boost_round(self) -> Round | str:
        """Step along the weak ranker, or combination of weak rankers, of the steepest slope."""
        direction = self._choose()
        if abs(direction.edge) <= SLOPE_ROUNDING:
            return NOTHING_LEFT
        step, perfect = self._step_along(direction)
        self.state = self._e1.state(self._scores)
        return self._record(direction, step, perfect)

    def interrupt(self, history: History) -> str:
        """Remove the weak rankers of an unfinished round."""
        parts = int(history[-1]["parts"]) if len(history) else 0
        self.ensemble = self.ensemble.first(parts)
        self._scores = self._initial_scores()
        for weak_ranker, weight in self.ensemble.parts():
            self._add_to_scores(weak_ranker.on(self._training.table), weight)
        self.state = self._e1.state(self._scores)
        return super().interrupt(history)

    def _record(self, direction: _Direction, step: float, perfect: bool) -> Round:
        log_total = float(np.log(self._training.layout.total))
        # Theorem 2 holds for full steps along one weak ranker.
        holds = direction.combination is None and self._settings.learning_rate == 1
        self._bound = self._bound * float(np.exp(-0.5 * direction.edge**2)) if holds else np.nan
        columns = {
            "risk": float(np.exp(self._weights.log_risk)),
            "log_risk": self._weights.log_risk,
            "e1": float(np.exp(self.state.log_value - log_total)),
            "edge": direction.edge,
            "step": step,
            "bound": self._bound,
            "weak_rankers": len(self._used),
            "parts": len(self.ensemble),
            "perfect": perfect,
        }
        return Round(columns, stop_reason=PERFECT if perfect else "")

    # -- choice of the direction -----------------------------------------------------------

    def _choose(self) -> _Direction:
        edges = self._candidates.edges(self._weights.pull)
        model_edges = edges[self._used.number]
        if self._combinations is not None:
            return self._best_direction(edges, model_edges)
        slopes = np.where(self._is_available, np.abs(edges), 0.0)
        exact = np.full(model_edges.size, np.nan)
        while True:
            steepest = float(slopes.max(initial=0.0))
            self._evaluate_slopes(model_edges, exact, steepest)
            in_model = float(np.nanmax(np.abs(exact), initial=0.0))
            if steepest <= max(in_model * (1 + TIE), SLOPE_ROUNDING):
                return self._best_in_model(exact, in_model)
            number = first_tied(slopes)
            rest = self._residual(number)
            if rest.any():
                return _Direction(float(edges[number]), new=number, rest=rest)
            # In the span of the model. Algorithm 2 selects a maximal independent subset of the
            # candidates in any order; in the order of slopes, most are never examined.
            self._is_available[number] = False
            slopes[number] = 0.0

    def _best_in_model(self, exact: Floats, steepest: float) -> _Direction:
        """Return the steepest weak ranker of the model, given the slopes and their maximum."""
        if steepest <= SLOPE_ROUNDING:
            return _Direction(0.0)
        index = first_tied(np.nan_to_num(np.abs(exact)))
        return _Direction(float(exact[index]), used=index)

    def _evaluate_slopes(self, model_edges: Floats, exact: Floats, steepest: float) -> None:
        """Compute the exact slope of every weak ranker of the model that could beat `steepest`.

        The slope is ``edge - d0 tanh(eta)``; bounds on d0 rule out most of them.
        """
        used = self._used
        if not len(used):
            return
        tanh_eta = tanh(used.eta)
        # Tied pairs do not contribute to the edge.
        high = np.minimum(used.high, 1 - np.abs(model_edges) + TIE_MASS_ROUNDING)
        reach = np.maximum(
            np.abs(model_edges - used.low * tanh_eta), np.abs(model_edges - high * tanh_eta)
        )
        reach[~np.isnan(exact)] = -1.0
        while True:
            best = max(steepest, float(np.nanmax(np.abs(exact), initial=0.0)))
            indices = np.argsort(-reach, kind="stable")[:8]
            if reach[indices[0]] < max(best * (1 - 2 * TIE), 0.5 * SLOPE_ROUNDING):
                return
            # Eight cost as much as one, and tighter bounds avoid later evaluations.
            indices = indices[reach[indices] >= 0]
            tied = self._weights.ties([self._values(int(index)) for index in indices])
            exact[indices] = model_edges[indices] - tied * tanh_eta[indices]
            reach[indices] = -1.0
            used.low[indices] = tied - TIE_MASS_ROUNDING
            used.high[indices] = tied + TIE_MASS_ROUNDING

    def _best_direction(self, edges: Floats, model_edges: Floats) -> _Direction:
        """Return the steepest direction: in the model, a candidate, or a combination."""
        combinations = self._combinations
        assert combinations is not None
        tied = self._weights.ties([self._values(index) for index in range(len(self._used))])
        exact = model_edges - tied * tanh(self._used.eta)
        slope = np.where(self._is_available, edges, 0.0)
        for number, parts in zip(combinations.candidates, combinations.parts, strict=True):
            slope[number] = parts @ exact[: parts.size] / np.linalg.norm(parts)
        slopes = np.abs(slope)
        steepest = float(slopes.max(initial=0.0))
        in_model = float(np.abs(exact).max(initial=0.0))
        if steepest <= max(in_model * (1 + TIE), SLOPE_ROUNDING):
            return self._best_in_model(exact, in_model)
        number = first_tied(slopes)
        if number not in combinations.candidates:
            return _Direction(float(slope[number]), new=number, rest=self._residual(number))
        parts = combinations.parts[combinations.candidates.index(number)]
        return _Direction(float(slope[number]), combination=parts / np.linalg.norm(parts))

    # -- steps -----------------------------------------------------------------------------

    def _step_along(self, direction: _Direction) -> tuple[float, bool]:
        """Take the step; return its size and whether the weak ranker is perfect."""
        rate = self._settings.learning_rate
        if direction.combination is not None:
            step = rate * self._line_search(direction)
            for part in np.flatnonzero(direction.combination):
                self._add_weight(int(part), step * float(direction.combination[part]))
            return step, False
        index = direction.used
        if direction.rest is not None:
            index = self._append_candidate(direction.new, direction.rest)
        size, infinite = bound_step(direction.edge, self._e1.terms.smoothing)
        step = rate * size
        values = self._values(index)
        # The weight of a tied or reversed pair may be lost in the rounding of the slope.
        perfect = infinite and self._e1.terms.least_margin(np.sign(step) * values) > 0
        if perfect:
            step = last_step(self._e1, self.state, values, step)
        before = float(self._used.eta[index])
        self._add_weight(index, step)
        self._update_tie_bounds(index, direction.edge, before, step)
        return step, perfect

    def _append_candidate(self, number: int, rest: Integers) -> int:
        """Add a candidate to the model, with weight 0."""
        row, pivot = self._span.add(rest)
        self._is_available[number] = False
        self._used.append(number)
        self._index[number] = len(self._used) - 1
        if self._combinations is not None:
            self._extend_combinations(row, pivot)
        return len(self._used) - 1

    def _add_weight(self, index: int, step: float) -> None:
        """Add `step` to the weight of a weak ranker of the model."""
        number, values = self._used.number[index], self._values(index)
        self._weights.advance(values, before=float(self._used.eta[index]), step=step)
        self._used.eta[index] += step
        weak_ranker = self._candidates.weak_ranker(number)
        self._add_to_scores(values, step)
        for monitor in self.monitors:
            monitor.advance(weak_ranker, step)
        self.ensemble.append(weak_ranker, step)

    def _add_to_scores(self, values: BackendArray, step: float) -> None:
        """Add a weak ranker to the scores, on the backend of the risk."""
        if not self._e1.backend.is_gpu:
            values = self.context.backend.get(values)
        self._e1.backend.advance(self._scores, values, step, self.context)

    def _update_tie_bounds(self, index: int, edge: float, before: float, step: float) -> None:
        """Update the bounds on the tie masses of the weak rankers of the model.

        Every pair weight was multiplied by one of three factors. A sum of weights therefore changed
        at most by the largest factor, and at most by the total variation of all weights.
        """
        factor = pair_factors(before, step)
        falls, rises = exp(np.array([-step, step]))
        factor /= 0.5 * ((1 + edge) * falls + (1 - edge) * rises)
        tied = self._weights.tied / factor[2]
        plain = edge + tied * float(tanh(np.array([before]))[0])  # d+ - d-
        mass = np.array([(1 - tied + plain) / 2, (1 - tied - plain) / 2, tied])
        moved = 0.5 * float(np.sum(mass * np.abs(factor - 1)))
        smallest, largest = float(factor.min()), float(factor.max())
        used, known = self._used, self._weights.tied
        used.low = np.maximum(used.low * smallest, used.low - moved) - TIE_MASS_ROUNDING
        used.high = np.minimum(used.high * largest, used.high + moved) + TIE_MASS_ROUNDING
        used.low[index], used.high[index] = known - TIE_MASS_ROUNDING, known + TIE_MASS_ROUNDING

    def _values(self, index: int) -> Bytes:
        """Return the values of a weak ranker of the model."""
        return self._candidates.values(self._used.number[index])

    def _residual(self, number: int) -> Integers:
        """Return the residual of a candidate modulo the span of the model."""
        return self._span.residual(self._span.vector(self._candidates.values(number)))

    # -- combinations ----------------------------------------------------------------------

    def _extend_combinations(self, row: Integers, pivot: int) -> None:
        """Find the candidates that are now in the span of the model."""
        combinations = self._combinations
        assert combinations is not None
        _eliminate_all(combinations.rest, row, pivot)
        in_span = np.array(~combinations.rest.any(axis=1))
        in_span[self._used.number] = False
        in_span[combinations.candidates] = False
        fresh = np.flatnonzero(in_span)
        if not fresh.size:
            return
        known = [self._values(index) for index in range(len(self._used))]
        wanted = [self._candidates.values(int(number)) for number in fresh]
        solution = coefficients(self._span, known, wanted)
        combinations.candidates += fresh.tolist()
        combinations.parts += list(solution.T)

    def _line_search(self, direction: _Direction) -> float:
        """Return the step along a combination that minimizes E2."""
        assert direction.combination is not None
        weights, indices = self._weights, np.flatnonzero(direction.combination)
        values = [self._values(int(index)) for index in indices]
        before = self._used.eta[indices]
        coefficients = direction.combination[indices] * np.sign(direction.edge)
        smoothing = self._e1.terms.smoothing

        def slope(step: float, smoothed: bool) -> float:
            rising = weights.along(values, before, coefficients, step)[1]
            return rising + (2 * smoothing * np.sinh(step) if smoothed else 0.0)

        for smoothed in (False, True):  # smoothed, the minimum is finite
            reach = 1.0
            while reach < 64 and slope(reach, smoothed) <= SLOPE_ROUNDING:
                reach *= 2
            if slope(reach, smoothed) > SLOPE_ROUNDING:
                root = scipy.optimize.brentq(slope, 0.0, reach, (smoothed,), xtol=1e-14)
                return float(np.sign(direction.edge) * root)
        return float(np.sign(direction.edge) * reach)


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _eliminate_all(rest: Integers, row: Integers, pivot: int) -> None:
    """Eliminate the pivot from every vector, modulo the prime."""
    for j in range(rest.shape[0]):
        factor = rest[j, pivot]
        if factor != 0:
            for k in range(row.size):
                rest[j, k] = (rest[j, k] - factor * row[k]) % PRIME
