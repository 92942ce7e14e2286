"""The interface between a risk and the boosting loop.

A `Risk` is an objective R(s), a function of the scores. `Risk.bind` ties it to the rows of a
`QueryLayout` and returns a `BoundRisk`. In each round the boosting loop

1. calls `begin_round`, which fixes weights that depend on the current ranking;
2. takes the `State` at the current scores: the risk, the pull and cached intermediate sums;
3. passes `pull_of` (or `factors`) to the search for a weak ranker;
4. chooses the step along the values of that weak ranker from `edge`, `edge_weights`, `exact_step`
   or a line search.

The *gradient sum* M is the sum over all pairs of ``|dR / d margin|``, ``sum |g' w l'|``. The pull,
the curvature and the weights of pairs are stored divided by M, and R and M as logarithms, so that
no score overflows. Risks that are not sums over pairs define M by the pulls of rows instead, such
as half the sum of their absolute values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from precede.engine.arrays import Array, BackendArray, Bytes, Floats, Integers
from precede.engine.backend import CPU, Backend
from precede.engine.exact import all_reduce_sum, exact_sum, log_sum_exps
from precede.engine.execution import Context
from precede.engine.portable import exp_of, log, log_of
from precede.engine.pull import Factors, Pull
from precede.engine.query_layout import QueryLayout
from precede.losses import PairLoss, Polynomial, Price, Softplus
from precede.risks.links import Link
from precede.risks.terms import PairTerms, pair_totals

# A loss is taken to have a flat tail, as a hinge has, if its slope is exactly 0 at this multiple of
# ``l(0) / -l'(0)``. Even the tail of a normal distribution has not underflowed by then.
FLAT_TAIL_SCALES = 16.0


@dataclass(frozen=True)
class EdgeWeights:
    """Weights d+, d-, d0 of the pairs that a 0/1 weak ranker orders correctly, wrongly or ties.

    The weight of a pair is its share of the gradient sum, so the three sum to 1.
    """

    correct: float
    wrong: float
    tied: float

    @property
    def edge(self) -> float:
        """``correct - wrong``, minus the slope of the risk over the gradient sum."""
        return self.correct - self.wrong


@dataclass(frozen=True)
class State:
    """A bound risk at some scores; arrays are in the order of the layout.

    `log_value` is log R and `log_gradient_sum` log M. `pull` is ``-dR/ds / M``: over all pairs, the
    contributions of the winners sum to 1 and those of the losers to -1. `cache` holds intermediate
    results that other methods of the same risk reuse.
    """

    scores: Floats
    log_value: float
    log_gradient_sum: float
    pull: Floats
    cache: Any = field(default=None, repr=False)


@dataclass(frozen=True)
class LossShape:
    """How a pair loss l behaves away from 0, which steps along a weak ranker depend on.

    Attributes
    ----------
    decay : rate ``-l'(0) / l(0)`` at which the loss decays, 1 if undefined
    has_flat_tail : whether the loss is constant beyond some margin, as hinges are
    has_kink : whether the loss has a kink, at which coordinate descent can stall
    growth : ratio of gradient sum and risk if constant: ``p·rate`` for ``exp(-rate·m)`` and ``u^p``

    >>> from precede.losses import Exponential, Hinge
    >>> LossShape.of(Exponential())
    LossShape(decay=1.0, has_flat_tail=False, has_kink=False, growth=None)
    >>> LossShape.of(Hinge(2.0))
    LossShape(decay=0.5, has_flat_tail=True, has_kink=True, growth=None)
    """

    decay: float
    has_flat_tail: bool
    has_kink: bool
    growth: float | None = None

    @classmethod
    def of(cls, loss: PairLoss) -> LossShape:
        """Return the shape of a loss, found at a few margins."""
        value, slope = float(loss.value(np.zeros(1))[0]), float(loss.slope(np.zeros(1))[0])
        has_kink = loss.smoothed(1.0) is not None
        if not (value > 0 and slope < 0):
            return cls(1.0, True, has_kink)
        rate = -slope / value
        is_flat = loss.form is not None and loss.form.ends
        if not is_flat:
            is_flat = not loss.slope(np.array([FLAT_TAIL_SCALES / rate]))[0] < 0
        return cls(rate, is_flat, has_kink)


class Risk:
    """The objective of an algorithm: a function of the scores, not yet bound to any rows.

    Attributes
    ----------
    distributable : bool
        Whether the risk can be minimized on several machines, each of which holds whole queries.
    link : Link or None
        Link from scores to the probabilities of two classes, if there is one.
    """

    distributable: bool = False

    @property
    def link(self) -> Link | None:
        """Link from scores to the probabilities of two classes, if there is one."""
        return None

    @property
    def can_split_queries(self) -> bool:
        """Whether the rows of one query may be distributed over several machines."""
        return False

    def bind(self, layout: QueryLayout, context: Context | None = None) -> BoundRisk:
        """Bind the risk to the rows of a layout."""
        raise NotImplementedError(f"{type(self).__name__} must define bind(layout, context)")


class BoundRisk:
    """A risk bound to the rows of a layout; see the module docstring.

    Subclasses define `state`, and `curvature` and `edge_weights` if they have them. This class does
    not assume a pair loss; `BoundLossRisk` does.
    """

    # How the loss of a pair behaves, None if the risk is not a sum of pair losses.
    loss_shape: LossShape | None = None
    # The backend of the scores and the pulls: `CPU`, or the GPU of the context if the risk has
    # kernels for these rows. Scores on the CPU are accepted too; the CPU then computes.
    backend: Backend = CPU

    def __init__(self, layout: QueryLayout, context: Context | None):
        self.layout = layout
        self.context = context or Context(1)
        self.terms = PairTerms(layout, self.context)
        # Over all machines. A shared query is present on each of them and counted once.
        self.n_queries = layout.n_queries
        if not layout.queries_span_machines:
            self.n_queries = all_reduce_sum(lambda: layout.n_queries, self.context)
        self._log_total_weight = 0.0
        self._item_weight_total: float | None = None
        self._copies: dict[str, BackendArray] = {}

    def _backend_of(self, scores: BackendArray) -> Backend:
        """Return the backend that computes at these scores: the one that holds them."""
        return self.backend if self.backend.holds(scores) else CPU

    def _copy_on(self, backend: Backend, name: str, compute: Callable[[], Array]) -> BackendArray:
        """Return an array that never changes on a backend; a GPU keeps its copy under `name`."""
        if not backend.is_gpu:
            return compute()
        if name not in self._copies:
            self._copies[name] = backend.put(compute())
        return self._copies[name]

    def begin_round(self, scores: Floats, *, value: bool = True) -> State | None:  # noqa: ARG002
        """Fix the weights that depend on the scores at the start of a round, such as rank weights.

        Until the next call the risk is a fixed function of the scores. Returns the state if that
        function changed, which by default it never does; its `log_value` may be NaN unless `value`.
        """
        return None

    def state(self, scores: Floats) -> State:
        """Return risk and pull at these scores, one per row."""
        raise NotImplementedError(f"{type(self).__name__} must define state(scores)")

    def curvature(self, state: State) -> Floats:
        """Return the diagonal of the Hessian, divided by the gradient sum."""
        raise NotImplementedError(f"{type(self).__name__} must define curvature(state)")

    def _curvature_bound(self, state: State, factor: float = 2.0) -> Floats:
        """Return a diagonal over the gradient sum; with a `factor` of 2 it bounds the Hessian."""
        return factor * self.curvature(state)

    def _pair_counts(self) -> Floats:
        """Return the number of terms (pairs) of the risk that each row is part of.

        An item of weight 2 counts as two items. Dividing by them turns the sum of the gradients of
        a row's pairs into their mean, "the average gradient values as the target value for each
        distinct x" (Zheng et al. 2007, section 3).
        """
        return pair_totals(self.layout) / self.layout.weight

    def offset(self, state: State) -> float:  # noqa: ARG002
        """Return the initial constant score at scores 0; pairs do not depend on it."""
        return 0.0

    def extra_history(self, state: State) -> dict[str, float]:  # noqa: ARG002
        """Return additional entries of `history_` for a round."""
        return {}

    def factors(self, state: State, *, bound: bool = False) -> Factors | None:  # noqa: ARG002
        """Return the sums for a search by largest decrease; None if the risk has no such search.

        `bound` says that the step will be `bound_step` instead of the exact one.
        """
        return None

    def pull_of(self, state: State) -> Pull:
        """Return the pull and the quadratic model for the search for a weak ranker."""

        def curvature(kind: str) -> Floats | None:
            try:
                if kind == "newton":
                    return self.curvature(state)
                return self._curvature_bound(state, 2.0 if kind == "bound" else 1.0)
            except NotImplementedError:
                return None

        layout, backend = self.layout, self._backend_of(state.scores)
        weight = self._copy_on(backend, "weight", lambda: layout.weight)
        return Pull(
            state.pull, weight, curvature,
            lambda: self._copy_on(backend, "pair counts", self._pair_counts), layout.query_rows,
            self.context, queries_span_machines=layout.queries_span_machines,
            item_total=self._total_item_weight,
        )  # fmt: skip

    def _normalized_state(
        self, scores: BackendArray, value: float, gradient_sum: float, pull: BackendArray,
        hessian: BackendArray,
    ) -> State:  # fmt: skip
        """Return the state for a risk, its gradient sum, and sums over pairs by row.

        Pull and Hessian are divided by the gradient sum in place; `State.cache` is the Hessian.
        """
        backend = self._backend_of(scores)
        log_value = -np.inf if value <= 0 else log_of(value)
        if gradient_sum <= 0:  # such as if every pair is beyond its margin
            zeros = backend.zeros(pull.size), backend.zeros(pull.size)
            return State(scores, log_value, -np.inf, *zeros)
        backend.divide((pull, hessian), gradient_sum, self.context)
        return State(scores, log_value, log_of(gradient_sum), pull, hessian)

    def _total_item_weight(self) -> float:
        """Return the weight of all rows of all machines, computed once."""
        if self._item_weight_total is None:
            self._item_weight_total = exact_sum(self.layout.weight, self.context)
        return self._item_weight_total

    def edge_weights(self, state: State, values: Bytes) -> EdgeWeights:
        """Return the weights of the pairs ordered correctly, wrongly or tied by values 0 and 1."""
        raise NotImplementedError(f"{type(self).__name__} must define edge_weights(state, values)")

    def log_value(self, scores: Floats) -> float:
        """Return the logarithm of the risk."""
        return self.state(scores).log_value

    def log_mean_loss(self, log_value: float) -> float:
        """Convert the logarithm of the risk to that of a mean loss, the scale of `history_`."""
        return log_value - self._log_total_weight

    def edge(self, state: State, values: Array) -> float:
        """Return minus the slope of the risk along a weak ranker, over the gradient sum."""
        return exact_sum(state.pull * values, self.context)

    def exact_step(self, state: State, values: Array) -> tuple[float, bool] | None:  # noqa: ARG002
        """Return the step that minimizes the risk, and whether it was smoothed, by a closed form.

        None if there is none; the step must then be searched, see `precede.risks.line_search`.
        """
        return None


class BoundLossRisk(BoundRisk):
    """A bound risk with a pair loss and a price.

    With `mean` the price applies to the mean loss of a loser k instead of the sum:
    ``v_k n_k g(u_k / n_k)`` with n_k the weight of the items above k. At scores 0 the pull is then
    that of a linear price, whatever the price.
    """

    def __init__(
        self, layout: QueryLayout, loss: PairLoss, cost: Price, context: Context | None,
        *, mean: bool = False,
    ):  # fmt: skip
        if layout.pair_margin is not None and not loss.gap:
            raise ValueError(
                f"the judgments have a margin for each pair (pair_margin), which {loss!r} does not "
                "use; use QBRank(margin='gap'), or loss=SquaredHinge('gap') or Hinge('gap') where "
                "there is a choice of losses, or leave pair_margin out"
            )
        super().__init__(layout, context)
        self.loss = loss
        self.price = cost
        self.loss_shape = LossShape.of(loss)
        self.mean = mean and cost.power != 1  # no difference for a linear price
        self._log_total_weight = -np.inf if layout.total <= 0 else float(np.log(layout.total))
        self._mean_loss_scale: tuple[float, float] | None = None

    def pair_totals(self, state: State) -> BackendArray:
        """Return the total weight of the pairs of each row; see the function `pair_totals`."""
        backend = self._backend_of(state.scores)
        return self._copy_on(backend, "pair totals", lambda: pair_totals(self.layout))

    def _curvature_bound(self, state: State, factor: float = 2.0) -> Floats:
        """Return a diagonal over the gradient sum; with a `factor` of 2 it bounds the Hessian.

        The bound holds at all scores if the price is linear and the loss has a largest curvature;
        otherwise at these scores. The term ``G(u)`` of a loser has the Hessian
        ``G'' a a' + G' sum_i w_i l''_i e_i e_i'``, where a is the gradient of u and ``e_i`` is 1 at
        the winner i and -1 at the loser. ``(a'x)² <= sum|a_j| · sum|a_j| x_j²`` and sum|a_j| is
        ``2 S`` with ``S = sum w |l'|``, so a diagonal of ``2 G'' S |a_j|`` bounds the first part,
        and 2 for every e_i the second.
        """
        if self.price.power != 1:
            return factor * self._half_curvature_bound(state)
        if self.loss.most_curvature is None:
            return factor * self.curvature(state)
        most = self.loss.most_curvature
        return factor * most * self.pair_totals(state) * exp_of(-state.log_gradient_sum)

    def _half_curvature_bound(self, state: State) -> Floats:
        """Return half of `_curvature_bound` for a price other than linear."""
        raise NotImplementedError(f"{type(self).__name__} must define _half_curvature_bound(state)")

    def log_mean_loss(self, log_value: float) -> float:
        """Convert the logarithm of the risk to that of a mean loss per pair, without overflow.

        The generalized mean ``g⁻¹(sum v_k g(u_k) / sum v_k)`` of the loss sums of the losers,
        divided by its value for a loss of 1 per pair, ``g⁻¹(sum v_k g(n_k) / sum v_k)``, with n_k
        the weight of the items above k; with `mean`,
        ``g⁻¹(sum v_k n_k g(u_k / n_k) / sum v_k n_k)``. For ``g(u) = u`` it is the mean loss of a
        pair; for ``u^p``, the exponential loss and two classes it is ``F_p^(1/p) / (I K^(1/p))`` of
        Rudin (2005).
        """
        if self.price.power == 1:
            return super().log_mean_loss(log_value)
        log_losers, log_unit = self.mean_loss_scale()
        return self.price.log_inverse(log_value - log_losers) - log_unit

    def log_divisors(self) -> Floats:
        """Return the log divisor of the loss sum of each row: log n_k with `mean`, else 0."""
        above = self.layout.weight_above() if self.mean else np.zeros(0)
        log_above = np.zeros(self.layout.n_used_rows)
        log_above[np.flatnonzero(above)] = log(above[above > 0])
        return log_above

    def mean_loss_scale(self) -> tuple[float, float]:
        """Return the logs of the weight of all losers and of the mean for a loss of 1 per pair."""
        if self._mean_loss_scale is None:
            above = self.layout.weight_above()
            losers = above > 0
            log_above = np.log(above[losers])
            log_loser_weight = np.log(self.layout.loser_weight[losers])
            if self.mean:
                log_loser_weight, log_above = log_loser_weight + log_above, np.zeros_like(log_above)
            log_price = self.price.log_value(log_above) + log_loser_weight
            log_losers, log_value = log_sum_exps([log_loser_weight, log_price], self.context)
            self._mean_loss_scale = log_losers, self.price.log_inverse(log_value - log_losers)
        return self._mean_loss_scale


class PairShape(NamedTuple):
    """A loss with compiled kernels.

    Attributes
    ----------
    degree : 0 for the logistic loss, 1 for the hinge and 2 for the squared hinge
    knot : margin from which on a hinge is 0
    gap : whether the margin of a pair is reduced by its difference of grades
    """

    degree: int
    knot: float
    gap: bool


def pair_shape(loss: PairLoss) -> PairShape | None:
    """Return the degree and knot of a loss, or None if it has no kernels.

    >>> from precede.losses import Exponential, Hinge
    >>> pair_shape(Exponential()), pair_shape(Hinge("gap"))
    (None, PairShape(degree=1, knot=0.0, gap=True))
    """
    form = loss.form
    if isinstance(form, Softplus):
        return PairShape(0, 0.0, loss.gap)
    if isinstance(form, Polynomial) and form.degree in {1, 2}:
        return PairShape(form.degree, float(form.knot), loss.gap)
    return None


def cut_into_chunks(
    first: Integers, end: Integers, rows: int | Integers
) -> tuple[Integers, Integers, Integers]:
    """Cut ranges of rows into chunks; return first row, end row and range of each chunk.

    `rows` is the number of rows of a chunk, for each range or for all of them; the last chunk of a
    range may have fewer.

    >>> cut_into_chunks(np.array([0, 5]), np.array([5, 6]), 3)
    (array([0, 3, 5]), array([3, 5, 6]), array([0, 0, 1]))
    """
    n_chunks = -(-(end - first) // rows)
    within = np.repeat(np.arange(first.size), n_chunks)
    number = np.arange(within.size) - (np.cumsum(n_chunks) - n_chunks)[within]
    of_chunk = np.broadcast_to(rows, first.shape)[within]
    start = first[within] + number * of_chunk
    return start, np.minimum(start + of_chunk, end[within]), within


def count_rows_and_pairs(level_start: Integers, level_ranges: Integers) -> tuple[Floats, Floats]:
    """Return the number of rows and of pairs of disjoint level ranges in increasing order."""
    row_start = level_start.astype(np.float64)
    first_row, end_row = row_start[level_ranges[:, 0]], row_start[level_ranges[:, 1]]
    # n rows in levels of n_l rows have (n² - sum n_l²) / 2 pairs.
    squares = np.concatenate([[0.0], np.cumsum(np.diff(row_start) ** 2)])
    within = squares[level_ranges[:, 1]] - squares[level_ranges[:, 0]]
    return end_row - first_row, ((end_row - first_row) ** 2 - within) / 2
