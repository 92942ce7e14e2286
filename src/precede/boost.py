"""The loop that every algorithm shares: pull, search, step, until a rule says stop.

An algorithm is a `Plan`: a risk, a family of rankers, a way to choose among them, a rule for
the step. Nothing here knows of scikit-learn, and nothing here knows which loss it minimises.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from precede.bound import BoundRisk, State, ghost_mass
from precede.exact import exact_sum
from precede.judgments import Arrangement, Judgments
from precede.line import PushLine
from precede.model import Ensemble
from precede.quadratic import diagonal
from precede.rankers import Family, Found, Search
from precede.risk import PairRisk
from precede.separable import SeparableRisk
from precede.smooth_line import SmoothLine
from precede.table import Table
from precede.threads import Workers

__all__ = [
    "BoundStep",
    "ExactStep",
    "History",
    "LineSearch",
    "Monitor",
    "NoProgress",
    "NormalizedStep",
    "Plan",
    "Progress",
    "QuadraticStep",
    "Result",
    "Rounds",
    "SecantStep",
    "SmoothedStepWarning",
    "Step",
    "StepRule",
    "Stop",
    "Training",
    "Worsening",
    "advance",
    "run",
    "why_no_pair",
]

Floats = NDArray[np.float64]

# `SecantStep` evaluates the risk at most so often, and goes no further than this.
EVALUATIONS = 12
LONGEST_STEP = 8.0
# It ends where the slope is at most this share of the slope at 0.
FLAT = 0.01
# Below this many places a second thread costs more than it brings.
SMALL = 1 << 16
# Why a fit ends when the search comes back with nothing: only an exhaustive one can be sure.
NOTHING_LEFT = "no weak ranker improves the risk"
NOTHING_FOUND = "the search found no weak ranker that improves the risk"


class SmoothedStepWarning(UserWarning):
    """A ranker made no mistake, so the exact step was infinite and has been made finite."""


# -- what is trained on ----------------------------------------------------------------------


@dataclass(frozen=True)
class Training:
    """A table and an arrangement of the same places: the data as the loop sees it."""

    table: Table
    arrangement: Arrangement
    workers: Workers

    @classmethod
    def prepare(
        cls,
        X: Any,
        judgments: Judgments,
        *,
        balance: str,
        max_bins: int,
        workers: Workers,
        labelled: bool = False,
    ) -> Training:
        """Sort, bin, and put the rows of each level in an order of their own.

        Rows that take part in no comparison, and have no label where labels are learnt, are
        left out altogether: they change nothing.
        """
        arrangement = judgments.arrange(balance, labelled=labelled)
        if arrangement.total <= 0 and not (labelled and arrangement.n_places):
            raise ValueError(why_no_pair(judgments))
        table = Table.build(
            X,
            order=arrangement.order,
            weight=arrangement.weight,
            max_bins=max_bins,
            workers=workers,
        )
        keys = table.keys(arrangement.weight, workers)
        if arrangement.label is not None:  # rows that differ in their labels alone have an order
            keys ^= np.nan_to_num(arrangement.label, nan=0.5).view(np.uint64) * np.uint64(3)
        arrangement, old = arrangement.reorder(keys)
        return cls(table.reorder(old), arrangement, workers)


def why_no_pair(judgments: Judgments) -> str:
    """Say what is the matter with judgments that hold no pair."""
    if judgments.weight is not None and not judgments.weight.any():
        return "there is no pair to learn from: every sample weight is zero"
    if judgments.grade is None:
        return "there is no pair to learn from: no pair has a positive weight"
    distinct = np.unique(judgments.grade[~np.isnan(judgments.grade)])
    if distinct.size == 1:
        return (
            f"there is no pair to learn from: y has only one class, {distinct[0]:g}; "
            "ranking needs at least two grades"
        )
    return (
        "there is no pair to learn from: no query holds two rows of different grades and "
        "positive weight; check that qid groups the rows you mean to compare"
    )


# -- steps -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """A step along a ranker; `perfect` when that ranker alone puts every pair in order."""

    size: float
    smoothed: bool = False
    perfect: bool = False
    whole: bool = False  # taken as it is, without the learning rate


class StepRule:
    """How far to go along the ranker that was chosen.

    A rule that needs to know more than a round may keep it between `start` and the last
    `seen`; such a rule serves one fit.
    """

    # Whether the user is told of a step that was smoothed.
    warns: ClassVar[bool] = True

    def start(self, search: Search, ensemble: Ensemble, history: History) -> None:
        """Called once before the first round, with the rounds of an earlier fit."""

    def again(self, risk: BoundRisk, scores: Floats, ranker: Any, weight: float) -> None:
        """Called after `start` for each of those rounds, with the scores before it."""

    def step(self, risk: BoundRisk, state: State, found: Found, values: NDArray) -> Step:
        """Give the step; `values` are those of the ranker, uint8 when they are 0 and 1."""
        raise NotImplementedError(f"{type(self).__name__} must define step(...)")

    def seen(self, risk: BoundRisk, state: State) -> dict[str, Any]:  # noqa: ARG002
        """What else the history should hold of a round, at the scores after it."""
        return {}


class ExactStep(StepRule):
    """The step at which the risk is least along the ranker.

    For the exponential loss and values 0 and 1 it is ``log(d+ / d-) / 2`` (RS09 eq. 4), where
    d+ and d- are the masses of the pairs in order and reversed; with the price ``u^p`` and two
    classes it is ``log(d+ / d-) / (p + 1)``, with grades or queries a search on the masses of
    levels (see `PushLine`). When d- is 0 the step would be infinite; it is smoothed as
    ``log((d+ + e) / (d- + e)) / (p + 1)`` with e half the mass of a pair (see
    `BoundRisk.smoothed_step` for other losses and prices). Anything else is a line search.
    """

    def step(self, risk: BoundRisk, state: State, found: Found, values: NDArray) -> Step:
        """Closed form where there is one, a search on masses or on the line otherwise."""
        if not isinstance(risk, SeparableRisk) or values.dtype != np.uint8:
            return LineSearch().step(risk, state, found, values)
        masses = risk.masses(state, values)
        right, wrong = masses.right, masses.wrong
        if risk.power > 1:
            line = PushLine(risk, state, values, masses)
            if line.bounded:
                return Step(line.least())
            right, wrong = (right, 0.0) if right > wrong else (0.0, wrong)
        if min(right, wrong) > 0:
            return Step(float(np.log(right / wrong)) / (1 + risk.power) / risk.rate)
        return _finite(risk, risk.smoothed_step(state, right, wrong), values)


class BoundStep(StepRule):
    """``log((1 + r) / (1 - r)) / 2`` for an edge r: least of an upper bound (C19's RB-C).

    Valid for rankers with values in [0, 1] and the exponential loss.
    """

    def step(self, risk: BoundRisk, state: State, found: Found, values: NDArray) -> Step:
        """Take the step from the edge alone."""
        if values.dtype != np.uint8 and (values.min() < 0 or values.max() > 1):
            raise ValueError(
                f"step='bound' needs rankers with values in [0, 1], but {found.ranker} has "
                f"values from {values.min():g} to {values.max():g}; use step='exact' or "
                "rankers='features'"
            )
        edge = risk.edge(state, values)
        infinite = abs(edge) >= 1 - 1e-15
        ghost = 2 * ghost_mass(risk.arrangement) if infinite else 0.0
        size = 0.5 * float(np.log((1 + edge + ghost) / (1 - edge + ghost)))
        return _finite(risk, size, values) if infinite else Step(size)


class LineSearch(StepRule):
    """The least risk along the ranker, by a search on the derivative; any risk, any values."""

    def step(
        self,
        risk: BoundRisk,
        state: State,
        found: Found,  # noqa: ARG002
        values: NDArray,
    ) -> Step:
        """Search the line: on a few points that stand for many rows, or on all rows."""
        if values.dtype == np.uint8 and SmoothLine.fits(risk, state):
            sign = 1.0 if risk.edge(state, values) > 0 else -1.0
            if not risk.falls_for_ever(sign * values):
                least = SmoothLine(risk, state, values).least()  # type: ignore[arg-type]
                if least is not None:
                    return Step(least)
        size, smoothed = risk.line_search(state, values)
        return _finite(risk, size, values) if smoothed else Step(size)


def _finite(risk: BoundRisk, size: float, values: NDArray) -> Step:
    """A step that would be infinite: of a perfect ranker, or smoothed."""
    # The values alone put every pair in order, without a tie.
    perfect = risk.least_margin(np.sign(size) * values) > 0
    return Step(size, not perfect, perfect)


class NormalizedStep(StepRule):
    """Steps of one small length in the norm of the quadratic model, or none at all.

    ``s_k = length / ||g_k||`` with ``||g||² = sum_i W_i g(x_i)² / n``, taken where it does not
    raise the risk; otherwise the step is 0 (Zheng et al. 2007, appendix: the length is their
    s²). Theorem 1 bounds the risk along such a run, see `precede.bounds.convergence_bound`; the
    history holds the lengths taken as ``"normalized_step"``. One evaluation of the risk.

    >>> NormalizedStep(0.1)
    NormalizedStep(0.1, hessian='bound')
    """

    def __init__(self, length: float, *, hessian: str = "bound"):
        if not isinstance(length, int | float | np.number) or not 0 < length < np.inf:
            raise ValueError(f"step_length={length!r} is out of range; use a number above 0")
        self.length = float(length)
        self.hessian = hessian
        self._taken = 0.0

    def step(self, risk: BoundRisk, state: State, found: Found, values: NDArray) -> Step:
        """Scale the ranker to the length; the family holds its multiples, negative ones too."""
        weight = diagonal(risk, state, self.hessian)
        square = exact_sum(weight * np.square(values, dtype=np.float64), risk.workers)
        norm = float(np.sqrt(square / values.size) * np.exp(0.5 * state.log_mass))
        size = (1.0 if found.edge > 0 else -1.0) * self.length / norm
        rises = risk.log_value(state.scores + size * values) > state.log_value
        self._taken = 0.0 if rises else self.length
        return Step(0.0 if rises else size, whole=True)

    def seen(self, risk: BoundRisk, state: State) -> dict[str, Any]:  # noqa: ARG002
        """The length of the step that was taken."""
        return {"normalized_step": self._taken}

    def __repr__(self) -> str:
        return f"NormalizedStep({self.length:g}, hessian={self.hessian!r})"


class QuadraticStep(StepRule):
    """The step 1: the ranker was fitted to a quadratic model of the risk and is the step."""

    def step(
        self,
        risk: BoundRisk,  # noqa: ARG002
        state: State,  # noqa: ARG002
        found: Found,  # noqa: ARG002
        values: NDArray,  # noqa: ARG002
    ) -> Step:
        """Take the step as it is."""
        return Step(1.0)


class SecantStep(StepRule):
    """The least risk along a ranker fitted to a quadratic model, in few evaluations.

    Such a ranker is of about the right size, so the search begins at 1. It goes to the least
    point of the cubic through the values and slopes of the risk at two steps, one on either side
    of the least point once there are such, until the slope is at most a hundredth of what it was
    at 0: for a risk that is nearly quadratic between the two, within about 1 % of the best step
    and 0.01 % of the greatest fall. The step is at most 8, never one that raises the risk, and
    found in at most 12 evaluations of the risk; should they not suffice (on kinks) it is the
    best of those tried.
    """

    def step(
        self,
        risk: BoundRisk,
        state: State,
        found: Found,
        values: NDArray,
    ) -> Step:
        """Follow the least points of cubics."""
        sign, at_zero = (1.0 if found.edge > 0 else -1.0), abs(found.edge)
        start = _Probe(0.0, at_zero, 0.0)
        before, low, high, best = None, start, None, start
        size = 1.0
        for _ in range(EVALUATIONS):
            at = risk.state(state.scores + sign * size * values)
            fall = sign * risk.edge(at, values) * np.exp(at.log_mass - state.log_mass)
            gained = -np.expm1(at.log_value - state.log_value)  # share of the risk
            here = _Probe(size, fall, gained * np.exp(state.log_value - state.log_mass))
            best = max(best, here, key=lambda probe: probe.gained)
            if here.gained >= 0 and (
                abs(fall) <= FLAT * at_zero or (fall > 0 and size >= LONGEST_STEP)
            ):
                return Step(sign * size)
            if fall > 0 and here.gained >= low.gained:
                before, low = low, here
            else:  # beyond the least point, or beyond one of several
                high = here
            size = _next_step(before or start, low, high)
        return Step(sign * best.size)


class _Probe(NamedTuple):
    """A step, minus the slope of the risk there, and by how much the risk has fallen."""

    size: float
    fall: float
    gained: float


def _next_step(before: _Probe, low: _Probe, high: _Probe | None) -> float:
    """Least point of the cubic through two probes; inside the bracket, or not too far ahead."""
    one, other = (before, low) if high is None else (low, high)
    length = other.size - one.size
    # The fall is q(u) = C + B u + A u² at u = (step - one) / length, and its integral is known.
    bend = 3.0 * (one.fall + other.fall) - 6.0 * (other.gained - one.gained) / length
    slope = other.fall - one.fall - bend
    root = slope**2 - 4.0 * bend * one.fall
    share = 2.0 * one.fall / (np.sqrt(root) - slope) if root > 0 and slope**2 < np.inf else np.inf
    if high is not None:
        inside = share if 0 < share < 1 else one.fall / (one.fall - min(other.fall, 0.0))
        return one.size + length * min(max(inside, 0.05), 0.95)
    ahead = one.size + length * share if share > 1 else np.inf
    return min(ahead, 4 * low.size, LONGEST_STEP)


# -- history, progress, stopping -------------------------------------------------------------


class History(Sequence):
    """What happened, round by round; read it by round or by column.

    >>> history = History([{"risk": 1.0}, {"risk": 0.5}])
    >>> history["risk"], history[-1]
    (array([1. , 0.5]), {'risk': 0.5})
    """

    def __init__(self, rounds: Iterable[dict[str, Any]] = ()):
        self._rounds = [dict(values) for values in rounds]

    def __len__(self) -> int:
        return len(self._rounds)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            if self._rounds and key not in self._rounds[-1]:
                raise KeyError(f"no column {key!r}; there are {list(self._rounds[-1])}")
            # Rounds of an earlier fit may not have known an evaluation set of a later one.
            return np.array([values.get(key, np.nan) for values in self._rounds])
        return History(self._rounds[key]) if isinstance(key, slice) else self._rounds[key]

    def append(self, **values: Any) -> None:
        """Add a round."""
        self._rounds.append(values)

    @property
    def columns(self) -> list[str]:
        """Names of what is recorded."""
        return list(self._rounds[-1]) if self._rounds else []

    def to_lines(self) -> str:
        """JSON lines, one for each round."""
        return "".join(json.dumps(values) + "\n" for values in self._rounds)

    def __repr__(self) -> str:
        return f"History({len(self)} rounds of {self.columns})"


class Stop:
    """When to end; ``a | b`` ends when either says so."""

    def reason(self, history: History) -> str | None:
        """Say why to stop now, or None to go on."""
        raise NotImplementedError(f"{type(self).__name__} must define reason(history)")

    def __or__(self, other: Stop) -> Stop:
        return _Either(self, other)


@dataclass(frozen=True)
class _Either(Stop):
    one: Stop
    other: Stop

    def reason(self, history: History) -> str | None:
        return self.one.reason(history) or self.other.reason(history)


@dataclass(frozen=True)
class Rounds(Stop):
    """Stop after a number of rounds."""

    most: int

    def reason(self, history: History) -> str | None:
        """Compare the number of rounds."""
        return f"{self.most} rounds" if len(history) >= self.most else None


@dataclass(frozen=True)
class NoProgress(Stop):
    """Stop when a round lowers log risk by less than `tolerance`; 0 never stops."""

    tolerance: float = 0.0

    def reason(self, history: History) -> str | None:
        """Compare the last two rounds."""
        if self.tolerance <= 0 or len(history) < 2:
            return None
        fall = history[-2]["log_risk"] - history[-1]["log_risk"]
        return "no more progress" if fall < self.tolerance else None


@dataclass(frozen=True)
class Worsening(Stop):
    """Stop when a column of the history has not improved for `patience` rounds."""

    column: str
    patience: int
    greater_is_better: bool

    def best_round(self, history: History) -> int:
        """Number of rounds after which the column was best; the first of equals."""
        if self.column not in history.columns:  # rounds of an earlier fit, and none of this one
            return len(history)
        values = history[self.column] if self.greater_is_better else -history[self.column]
        if np.isnan(values).all():  # nothing to compare: the last is as good as any
            return len(history)
        return int(np.nanargmax(values)) + 1

    def reason(self, history: History) -> str | None:
        """Count the rounds since the best."""
        if not len(history) or len(history) - self.best_round(history) < self.patience:
            return None
        return f"{self.column} has not improved for {self.patience} rounds"


@dataclass
class Monitor:
    """A data set looked at after every round: its table, its scores so far, its metrics."""

    name: str
    table: Table
    metrics: dict[str, Callable[[Floats], float]]
    scores: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.scores = np.zeros(self.table.n_places)

    def advance(self, ranker: Any, weight: float) -> None:
        """Add one ranker to the scores."""
        self.scores += weight * ranker.on(self.table)

    def shrink(self, factor: float) -> None:
        """Multiply the scores."""
        self.scores *= factor

    def look(self) -> dict[str, float]:
        """Values of the metrics, under "<name> <metric>"."""
        return {
            f"{self.name} {metric}": float(value(self.scores))
            for metric, value in self.metrics.items()
        }


@dataclass(frozen=True)
class Progress:
    """What a callback is shown after a round. A callback that returns True stops the loop."""

    round: int
    history: History
    ensemble: Ensemble


@dataclass(frozen=True)
class Plan:
    """An algorithm: what to minimise, with which rankers, chosen how, by which step.

    `select` is "slope" (steepest descent, RS09 eq. 3) or "decrease" (largest decrease,
    RS09 eq. 5). `draw` gives the features allowed in a round, or None for all. `nonnegative`
    allows only rankers of a positive edge, so that every step and every weight is positive.
    """

    risk: PairRisk
    rankers: Family
    step: StepRule
    stop: Stop
    select: str = "slope"
    learning_rate: float = 1.0
    draw: Callable[[], NDArray[np.bool_] | None] = lambda: None
    nonnegative: bool = False
    callbacks: Sequence[Callable[[Progress], Any]] = ()


@dataclass
class Result:
    """What the loop leaves: the model, the story, the last state and why it ended."""

    ensemble: Ensemble
    history: History
    state: State
    reason: str


# -- the loop --------------------------------------------------------------------------------


def run(
    plan: Plan,
    training: Training,
    *,
    ensemble: Ensemble | None = None,
    history: History | None = None,
    monitors: Sequence[Monitor] = (),
    resumed: bool = False,
) -> Result:
    """Boost until the plan says stop; `ensemble` and `history` are continued if given.

    With ``resumed=True`` they must be of these very data: the risk is compared to the bit.
    Ctrl-C ends the loop and keeps the rounds done so far.
    """
    loop = _Loop(plan, training, ensemble, history, monitors)
    if resumed:
        loop.check_history()
    try:
        for _ in loop:
            pass
    except KeyboardInterrupt:
        loop.interrupt()
    return Result(loop.ensemble, loop.history, loop.state, loop.reason)


class _Loop:
    def __init__(
        self,
        plan: Plan,
        training: Training,
        ensemble: Ensemble | None,
        history: History | None,
        monitors: Sequence[Monitor],
    ):
        self.plan, self.training, self.monitors = plan, training, monitors
        self.risk = plan.risk.bind(training.arrangement, training.workers)
        self.search: Search = plan.rankers.start(training.table, training.workers)
        if plan.nonnegative:
            self.search = self.search.rising()
            _check_nonnegative(ensemble)
        self.ensemble = Ensemble([], [], training.table.n_features)
        self.history = History(history or ())
        self.scores = np.zeros(training.table.n_places)
        self.reason = ""
        self._warned = False
        plan.step.start(self.search, ensemble or self.ensemble, self.history)
        for ranker, weight in zip(*_parts(ensemble), strict=True):
            plan.step.again(self.risk, self.scores, ranker, weight)
            self._add(ranker, weight, ranker.on(training.table))
        self.state = self.risk.state(self.scores)

    def __iter__(self) -> Iterator[None]:
        if len(self.history) and self.history[-1].get("perfect"):
            self.reason = "one ranker puts every pair in order"
            return
        while not self._stopped():
            began = time.perf_counter()
            found = self._choose()
            if found is None:
                sure = self.plan.rankers.exhaustive or self.state.log_mass == -np.inf
                self.reason = NOTHING_LEFT if sure else NOTHING_FOUND
                return
            values = found.values
            if values is None:
                values = found.ranker.on(self.training.table)
            step = self.plan.step.step(self.risk, self.state, found, values)
            self._warn(step, found)
            weight = step.size if step.whole else self.plan.learning_rate * step.size
            if self.plan.nonnegative and weight <= 0:  # the edge was nothing but rounding
                self.reason = NOTHING_LEFT
                return
            self._add(found.ranker, weight, values)
            self.state = self.risk.state(self.scores)
            self._record(found, weight, step, time.perf_counter() - began)
            yield
            if self._told_to_stop():
                self.reason = "a callback said so"
                return
            if step.perfect:
                self.reason = "one ranker puts every pair in order"
                return

    def check_history(self) -> None:
        """Refuse a history that is not the one of these data."""
        if not len(self.history):
            return
        was, now = self.history[-1].get("log_risk"), self._log_risk()
        if was != now:
            raise ValueError(
                f"after {len(self.history)} rounds the logarithm of the risk is {now!r} here and "
                f"{was!r} in the checkpoint: it was made from other data; remove it or give "
                "another path"
            )

    def _log_risk(self) -> float:
        return self.risk.log_mean_payment(self.state.log_value)

    def interrupt(self) -> None:
        """Keep whole rounds only."""
        rounds = len(self.history)
        self.ensemble = self.ensemble.first(rounds)
        self.reason = "interrupted"
        self.training.workers.warn(f"interrupted: the model has the {rounds} rounds done so far")

    def _stopped(self) -> bool:
        self.reason = self.plan.stop.reason(self.history) or ""
        return bool(self.reason)

    def _told_to_stop(self) -> bool:
        """Show every callback the round; all of them see it, whatever the first one says."""
        progress = Progress(len(self.history), self.history, self.ensemble)
        return any([callback(progress) is True for callback in self.plan.callbacks])

    def _choose(self) -> Found | None:
        if self.state.log_mass == -np.inf:  # every pair is beyond its margin
            return None
        allowed = self.plan.draw()
        found = self._best(allowed)
        if found is None and allowed is not None:  # none of those drawn is of any use
            found = self._best(None)
        return found

    def _best(self, allowed: NDArray[np.bool_] | None) -> Found | None:
        if self.plan.select == "decrease":
            if not isinstance(self.risk, SeparableRisk) or self.risk.power != 1:
                raise ValueError(
                    "select='decrease' is for the exponential loss without a push; "
                    "use select='slope'"
                )
            return self.search.best_decrease(self.risk.factors(self.state), allowed)
        return self.search.best_at(self.risk, self.state, allowed)

    def _add(self, ranker: Any, weight: float, values: NDArray) -> None:
        self.training.workers.run(
            advance, self.scores.size, self.scores, values, weight, small=self.scores.size < SMALL
        )
        for monitor in self.monitors:
            monitor.advance(ranker, weight)
        self.ensemble.append(ranker, weight)

    def _record(self, found: Found, weight: float, step: Step, seconds: float) -> None:
        log_risk = self._log_risk()
        seen: dict[str, float] = {}
        for monitor in self.monitors:
            seen |= monitor.look()
        self.history.append(
            risk=float(np.exp(log_risk)),
            log_risk=log_risk,
            edge=found.edge,
            step=weight,
            smoothed=step.smoothed,
            perfect=step.perfect,
            seconds=seconds,
            **self.plan.step.seen(self.risk, self.state),
            **seen,
        )

    def _warn(self, step: Step, found: Found) -> None:
        if step.smoothed and self.plan.step.warns and not self._warned:
            self._warned = True
            self.training.workers.warn(
                f"{found.ranker} orders no pair wrongly but ties some, so its exact step is "
                "infinite; it was made finite by half a pair on each side (said once; see "
                "history_['smoothed'])",
                SmoothedStepWarning,
            )


def _check_nonnegative(ensemble: Ensemble | None) -> None:
    """Refuse to continue a model with negative weights under the promise of none."""
    least = min(_parts(ensemble)[1], default=0.0)
    if least < 0:
        raise ValueError(
            f"nonnegative=True, but the model to go on with has a weight of {least:g}; set "
            "warm_start=False or nonnegative=False"
        )


def _parts(ensemble: Ensemble | None) -> tuple[list, list]:
    return ([], []) if ensemble is None else (ensemble.rankers, ensemble.weights)


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def advance(low, high, scores, values, weight):
    """Add ``weight·values`` to the scores of the places low..high."""
    for place in range(low, high):
        scores[place] += weight * values[place]
