"""A risk bound to a layout: what the boosting loop works with, whatever the loss.

Everything is kept as a share of a total whose logarithm is known: no score, however large,
overflows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.optimize
from numba import njit

from precede.engine.arrays import Array, Bytes, Floats, Integers
from precede.engine.exact import all_reduce_max, all_reduce_sum, exact_sum, log_totals, sums_at
from precede.engine.execution import Context
from precede.engine.portable import exp_of, log, log_of
from precede.engine.portable_kernels import fmax, fmin
from precede.engine.pull import ALL_IN_ORDER, Factors, Pull
from precede.engine.query_layout import QueryLayout
from precede.losses import PairLoss, Price
from precede.risks.links import Link

__all__ = [
    "BoundLossRisk",
    "BoundRisk",
    "EdgeWeights",
    "Risk",
    "State",
    "bound_step",
    "decay_rate",
    "ends_of_levels",
    "least_margin",
    "pair_totals",
    "smoothing_mass",
    "zero_between",
]


# A line search doubles its reach so many times before it gives up: no change of sign is found
# where mistakes weigh less than rounding.
DOUBLINGS = 40
LARGEST_STEP = 1e300
# A loss whose slope is exactly 0 this many times its own scale beyond 0 ends somewhere, as a
# hinge does. A tail as thin as that of the normal distribution has not underflowed by then.
SCALES_TO_END = 16.0


@dataclass(frozen=True)
class EdgeWeights:
    """Shares of the pair mass that a two-valued ranker orders rightly, wrongly, not at all."""

    right: float
    wrong: float
    tied: float

    @property
    def edge(self) -> float:
        """``right - wrong``, the normalized slope."""
        return self.right - self.wrong


@dataclass(frozen=True)
class State:
    """What a risk knows at some scores; arrays are in the order of the layout.

    `log_value` is log R, `log_gradient_sum` the logarithm of the pair mass ``sum |g' w l'|``, and
    `pull` is the pull divided by the mass: the pull of the winners of all pairs sums to 1.
    """

    scores: Floats
    log_value: float
    log_gradient_sum: float
    pull: Floats
    parts: Any = field(default=None, repr=False)


class Risk:
    """What an algorithm minimizes: a function of the scores, before it is bound to any rows.

    Attributes
    ----------
    distributable : bool
        Whether the bound risk adds up over the rows of all machines, each of which holds whole
        queries; otherwise it may be minimized on one machine only.
    link : Link or None
        How scores become the probabilities of two classes; None if they do not.
    """

    distributable: bool = False

    @property
    def link(self) -> Link | None:
        """How scores become the probabilities of two classes; None if they do not."""
        return None

    @property
    def splits_a_list(self) -> bool:
        """Whether the rows of one query may be divided between machines as well."""
        return False

    def bind(self, layout: QueryLayout, context: Context | None = None) -> BoundRisk:
        """Prepare the risk for one set of judgments."""
        raise NotImplementedError(f"{type(self).__name__} must define bind(layout, workers)")


class BoundRisk:
    """A risk bound to a layout: what the boosting loop works with.

    Subclasses define `state`, and `curvature` and `edge_weights` where they have them; nothing here
    asks for a loss. Risks that have one are `BoundLossRisk`.
    """

    # Whether the risk may be flat from some step on rather than fall for ever.
    flattens: bool = False
    # Whether the risk has kinks, at which coordinate descent can stall above the least.
    kinked: bool = False
    # Rate ``-l'(0) / l(0)`` at which the loss of a pair decays.
    decay: float = 1.0
    # Whether scores may be on the device of the workers, and pulls are then there as well.
    on_device: bool = False
    # Whether `exact_step` and `search_line` take such scores; otherwise rules that need them keep
    # the scores on the CPU.
    steps_on_device: bool = False
    # Share of the first slope below which a line is not followed further; none by default.
    negligible: float = -1.0

    def __init__(self, layout: QueryLayout, context: Context | None):
        self.layout = layout
        self.context = context or Context(1)
        queries = layout.query_start.size - 1
        # Of all machines; of a query whose levels they share all of them know.
        self.queries = queries
        if not layout.shared:
            self.queries = all_reduce_sum(lambda: queries, self.context)
        self._item_total: float | None = None

    def begin_round(self, scores: Floats) -> bool:  # noqa: ARG002
        """Fix what a round takes from the scores it begins at, such as weights by rank.

        The loop calls it before every round. Until the next call the risk is one and the same
        function of the scores. Returns whether it is another one than before, so that states
        must be computed anew; by default nothing changes.
        """
        return False

    def first_state(self, scores: Floats, *, value: bool) -> State:  # noqa: ARG002
        """State at the scores at which a round begins; nobody asks for `log_value` unless `value`.

        A risk that is dear to evaluate may then leave it out: it is not a number.
        """
        return self.state(scores)

    def end_round(self, scores: Floats) -> State:
        """State at the scores after a round.

        The next round begins with it, unless `begin_round` says that states must be computed
        anew; then only its value is ever looked at, and `pull` may be empty.
        """
        return self.state(scores)

    def state(self, scores: Floats) -> State:
        """Risk and pull at these scores (one per row)."""
        raise NotImplementedError(f"{type(self).__name__} must define state(scores)")

    def curvature(self, state: State) -> Floats:
        """Diagonal of the second derivative, divided by the pair mass."""
        raise NotImplementedError(f"{type(self).__name__} must define curvature(state)")

    def curvature_bound(self, state: State, factor: float = 2.0) -> Floats:
        """Diagonal matrix above the Hessian for a factor of 2, divided by the pair mass."""
        return factor * self.curvature(state)

    def terms(self) -> Floats:
        """How many terms of the risk every row takes part in, an item of weight 2 being two items.

        Divided by it, the sum of the gradients of a row's pairs becomes their average, "the
        average gradient values as the target value for each distinct x" (Zheng et al. 2007,
        section 3), and the weight of the row that of one pair.
        """
        return pair_totals(self.layout) / self.layout.weight

    def offset(self, state: State) -> float:  # noqa: ARG002
        """What to add to all scores before the first round; pairs do not ask for anything."""
        return 0.0

    def observed(self, state: State) -> dict[str, float]:  # noqa: ARG002
        """What else the history should hold of a round; nothing by default."""
        return {}

    def factors(self, state: State, *, bound: bool = False) -> Factors | None:  # noqa: ARG002
        """What a search by largest decrease needs; None where there is no such search.

        `bound` says that the step will be `bound_step` instead of the exact one.
        """
        return None

    def pull_of(self, state: State) -> Pull:
        """What a search for rankers is shown of this risk: its negative gradient, and a model."""

        def curvature(kind: str) -> Floats | None:
            try:
                if kind == "newton":
                    return self.curvature(state)
                return self.curvature_bound(state, 2.0 if kind == "bound" else 1.0)
            except NotImplementedError:
                return None

        layout = self.layout
        query_start = layout.level_start[layout.query_start]
        return Pull(
            state.pull, layout.weight, curvature, self.terms, query_start, self.context,
            shared=layout.shared, item_total=self._weight_of_items,
        )  # fmt: skip

    def _weight_of_items(self) -> float:
        """Weight of all rows of all machines; summed once."""
        if self._item_total is None:
            self._item_total = exact_sum(self.layout.weight, self.context)
        return self._item_total

    def edge_weights(self, state: State, values: Bytes) -> EdgeWeights:
        """Shares of the pair mass that a ranker of values 0 and 1 orders rightly, ..."""
        raise NotImplementedError(f"{type(self).__name__} must define masses(state, values)")

    def log_value(self, scores: Floats) -> float:
        """Logarithm of the risk."""
        return self.state(scores).log_value

    def log_mean_payment(self, log_value: float) -> float:
        """Logarithm of the risk on the scale that `history_` shows; as it is if none is known."""
        return log_value

    def edge(self, state: State, values: Array) -> float:
        """Slope of the risk along a ranker, as a share of the pair mass (positive: falling)."""
        return exact_sum(state.pull * values, self.context)

    @property
    def smoothing(self) -> float:
        """Smoothing mass: half a pair's share; see `smoothed_step`."""
        return smoothing_mass(self.layout)

    def least_margin(self, values: Array) -> float:
        """Least margin that the values alone give to any term of the risk: O(n)."""
        return least_margin(self.layout, values, self.context)

    def falls_for_ever(self, values: Array) -> bool:  # noqa: ARG002
        """Whether the risk is known to keep falling along the values, however long the step."""
        return False

    def growth(self, state: State) -> float:
        """Pair mass over risk: ``p·rate`` for ``exp(-rate·m)`` and the price ``u^p``."""
        return exp_of(state.log_gradient_sum - state.log_value)

    def smoothed_step(
        self, state: State, right: float, wrong: float, *, width: float = 1.0,
        smoothing: float | None = None,
    ) -> float:  # fmt: skip
        """Give a finite step along a ranker that reverses no pair, or puts none in order.

        ``log((d+ + e) / (d- + e)) / ((c + κ) width)``, where one of the masses d+ and d- is 0
        and e is the smoothing mass, half a pair, added to both. A pair in order decays at the rate
        ``c = -l'(0) / l(0)`` of the loss; the reversed one grows at the rate at which this risk
        does, ``κ = M / R`` with M the pair mass and R the risk; `width` is the greatest less
        the least value of the ranker. For ``exp(-m)`` and ``u^p`` it is the closed form
        ``log((d+ + e) / (d- + e)) / (1 + p)``. The step is at most ``log(1 + 1/e) / (c width)``
        for any loss and price.
        """
        smoothing = self.smoothing if smoothing is None else smoothing
        logarithm = log_of((right + smoothing) / (wrong + smoothing))
        size = logarithm / (self.decay + self.growth(state))
        # Values of the smallest numbers there are would need a step beyond the largest.
        return (
            size / width if abs(size) < LARGEST_STEP * width else math.copysign(LARGEST_STEP, size)
        )

    @property
    def settled_margin(self) -> float:
        """Least margin after the last step of a fit that ends with every pair in order.

        ``log(1 + 1/e)`` with e the smoothing mass: more than the logarithm of any ratio of rows of
        two classes, so that no intercept of `precede.risks.links` outweighs it.
        """
        return log_of(1.0 + 1.0 / self.smoothing)

    def last_step(self, state: State, values: Array, size: float) -> float:
        """Step along values that order every pair by themselves, after which a fit ends.

        The risk is least at infinity. The step is at least `size`, and so long that the least
        margin is at least `settled_margin`, also where earlier rounds reversed pairs.
        """
        margin = self.least_margin(math.copysign(1.0, size) * values)
        needed = self.settled_margin - min(self.least_margin(state.scores), 0.0)
        reach = needed / margin if needed < LARGEST_STEP * margin else LARGEST_STEP
        return math.copysign(max(abs(size), reach), size)

    def exact_step(self, state: State, values: Array) -> tuple[float, bool]:
        """Step along `values` at which the risk is least, and whether it was smoothed.

        A closed form where a risk has one; otherwise `search_line`.
        """
        return self.search_line(state, values)

    def search_line(self, state: State, values: Array) -> tuple[float, bool]:
        """As `line_search`, on fewer points where a risk knows how."""
        return self.line_search(state, values)

    def line_search(
        self, state: State, values: Array, *, smoothing: float | None = None
    ) -> tuple[float, bool]:
        """Find the step along `values` at which the risk is least, and whether it was smoothed.

        The derivative along the line is followed outwards until its sign changes, then
        bracketed (Brent). Where the values reverse no pair the least is at infinity, and the
        step is `smoothed_step` with ``d+ = |edge| / width``; likewise where the mistakes weigh
        so little that no change of sign is found.
        """
        edge, width = self.edge(state, values), self.width(values)
        if edge == 0 or width == 0:  # a constant moves no margin, whatever rounding leaves
            return 0.0, False
        sign = 1.0 if edge > 0 else -1.0

        def falling(step: float) -> float:
            at = self.state(state.scores + sign * step * values)
            return sign * self.edge(at, values) if at.log_gradient_sum > -np.inf else 0.0

        size = None
        if not self.falls_for_ever(sign * values):
            with np.errstate(over="ignore", invalid="ignore"):  # a price may grow beyond numbers
                size = _zero_beyond(
                    falling, 1.0 / width, self.negligible * abs(edge), flat_is_least=self.flattens
                )
        if size is None:
            edge_weights = (edge / width, 0.0) if edge > 0 else (0.0, -edge / width)
            return self.smoothed_step(state, *edge_weights, width=width, smoothing=smoothing), True
        # On kinks a derivative is worth its sign at best: never end higher than the start.
        step = sign * size
        for _ in range(60):
            if self.log_value(state.scores + step * values) <= state.log_value:
                return step, False
            step /= 2
        return 0.0, False

    def width(self, values: Array) -> float:
        """Greatest less least of the values of a ranker."""
        ends = all_reduce_max(
            lambda: np.array([values.max(), -float(values.min())], np.float64), self.context
        )
        return float(ends[0] + ends[1])

    def to_rows(self, per_row: Floats) -> Floats:
        """Spread numbers per row over the user's rows; rows without a pair get 0."""
        rows = np.zeros(self.layout.n_rows)
        rows[self.layout.order] = per_row
        return rows


class BoundLossRisk(BoundRisk):
    """A bound risk made of a loss of margins and a price.

    With `mean` a loser k is charged for the mean of its losses in place of their sum, and counts as
    many times as it weighs: ``v_k n_k g(u_k / n_k)`` with n_k the weight of those above it. At
    scores 0 the pull is then that of a linear price, whatever the price.
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
        self.decay, self.flattens = decay_rate(loss)
        self.kinked = loss.smoothed(1.0) is not None
        self.mean = mean and cost.power != 1  # the mean of a linear price is the sum
        self._scale: tuple[float, float] | None = None

    def totals(self, state: State) -> Floats:  # noqa: ARG002
        """Total weight of the pairs that every row takes part in; see `pair_totals`."""
        return pair_totals(self.layout)

    def falls_for_ever(self, values: Array) -> bool:
        """Whether the risk keeps falling along the values, which reverse no pair: O(n).

        Decided by comparing the values of every pair, never by a slope that vanishes. Losses
        that end, such as hinges, stop falling at a finite step.
        """
        return not self.flattens and self.least_margin(values) >= 0

    def curvature_bound(self, state: State, factor: float = 2.0) -> Floats:
        """From the largest curvature of the loss, at all scores; without one, at these scores.

        With a price above linear at these scores too. The term ``G(u)`` of a loser has the Hessian
        ``G'' a a' + G' sum_i w_i l''_i e_i e_i'``, where a is the gradient of u and ``e_i`` is 1 at
        the winner i and -1 at the loser. ``(a'x)² <= sum|a_j| · sum|a_j| x_j²`` and sum|a_j| is
        twice ``S = sum w |l'|``, the share of the loser, so a diagonal of ``2 G'' S |a_j|`` bounds
        the first part, and 2 for every e_i the second.
        """
        if self.price.power != 1:
            return factor * self.half_bound(state)
        if self.loss.most_curvature is None:
            return factor * self.curvature(state)
        most = self.loss.most_curvature
        return factor * most * self.totals(state) * exp_of(-state.log_gradient_sum)

    def half_bound(self, state: State) -> Floats:
        """Half of `curvature_bound` for a price above linear."""
        raise NotImplementedError(f"{type(self).__name__} must define half_bound(state)")

    def log_mean_payment(self, log_value: float) -> float:
        """Logarithm of the risk on the scale of a single pair; no price makes it overflow.

        The payment that, made by all losers alike, would cost as much as what they pay, over
        the same for a loss of 1 a pair: ``g⁻¹(sum v_k g(u_k) / sum v_k)`` divided by
        ``g⁻¹(sum v_k g(n_k) / sum v_k)``, with n_k the weight of those above k; with `mean`,
        ``g⁻¹(sum v_k n_k g(u_k / n_k) / sum v_k n_k)``. For ``g(u) = u`` it is the mean loss of a
        pair; for ``u^p``, the exponential loss and two classes it is R05's
        ``F_p^(1/p) / (I K^(1/p))``.
        """
        if self.price.power == 1:
            return log_value - float(np.log(self.layout.total))
        log_losers, log_unit = self.payment_scale()
        return self.price.log_inverse(log_value - log_losers) - log_unit

    def log_divisors(self) -> Floats:
        """Logarithms of what the losses of every row are divided by: n_k with `mean`, else 1."""
        above = self.layout.weight_above() if self.mean else np.zeros(0)
        log_above = np.zeros(self.layout.n_used_rows)
        log_above[np.flatnonzero(above)] = log(above[above > 0])
        return log_above

    def payment_scale(self) -> tuple[float, float]:
        """Logarithms of the weight of all losers, and of their mean payment for a loss of 1."""
        if self._scale is None:
            above = self.layout.weight_above()
            losers = above > 0
            log_above = np.log(above[losers])
            log_outer = np.log(self.layout.loser_weight[losers])
            if self.mean:
                log_outer, log_above = log_outer + log_above, np.zeros_like(log_above)
            log_price = self.price.log_value(log_above) + log_outer
            log_losers, log_value = log_totals([log_outer, log_price], self.context)
            self._scale = log_losers, self.price.log_inverse(log_value - log_losers)
        return self._scale


def pair_totals(layout: QueryLayout) -> Floats:
    """Total weight of the pairs that every row takes part in: O(n + listed pairs).

    >>> from precede import Judgments
    >>> pair_totals(Judgments.bipartite([1, 0, 0]).to_layout())
    array([1., 1., 2.])
    """
    count = layout.n_graded
    total = np.zeros(layout.n_used_rows)
    if count:
        levels = layout.level_start.size - 1
        level = np.repeat(np.arange(levels), np.diff(layout.level_start))
        weight, loser_weight = layout.weight[:count], layout.loser_weight[:count]
        of_level = layout.loser_weights_of_levels(), layout.weights_of_levels()
        below, above = np.zeros(levels), np.zeros(levels)
        _sums_below_and_above(layout.query_start, *of_level, below, above)
        total[:count] = weight * below[level] + loser_weight * above[level]
    winner, loser = layout.winner, layout.loser
    listed = layout.pair_weight * layout.weight[winner] * layout.loser_weight[loser]
    for side in (winner, loser):
        total += sums_at(side, listed, total.size)
    return total


def smoothing_mass(layout: QueryLayout) -> float:
    """Mass that is added to d+ and d- to keep a step finite: half a pair.

    Pairs are counted by weight, so that a row of weight 2 is two rows. Halting, an infinite
    weight and a large constant all break the theory (C19 appendix B).
    """
    return 0.5 / layout.pair_count


def bound_step(edge: float, smoothing: float) -> tuple[float, bool]:
    """``log((1 + r) / (1 - r)) / 2`` for an edge r, and whether it was made finite.

    Where all of the mass is in order, or all of it reversed, twice the smoothing mass is added on
    both sides.

    >>> bound_step(0.0, 0.1)
    (0.0, False)
    """
    infinite = abs(edge) >= ALL_IN_ORDER
    more = 2 * smoothing if infinite else 0.0
    return 0.5 * log_of((1 + edge + more) / (1 - edge + more)), infinite


def decay_rate(loss: PairLoss) -> tuple[float, bool]:
    """Rate ``-l'(0) / l(0)`` of a loss, 1 where that is undefined, and whether the loss ends.

    A loss *ends* when it is flat beyond some margin, as hinges are.

    >>> from precede.losses import Exponential, Hinge
    >>> decay_rate(Exponential()), decay_rate(Hinge(2.0))
    ((1.0, False), (0.5, True))
    """
    value, slope = float(loss.value(np.zeros(1))[0]), float(loss.slope(np.zeros(1))[0])
    if not (value > 0 and slope < 0):
        return 1.0, True
    rate = -slope / value
    if loss.form is not None and loss.form.ends:
        return rate, True
    return rate, not loss.slope(np.array([SCALES_TO_END / rate]))[0] < 0


def least_margin(layout: QueryLayout, scores: Array, context: Context | None = None) -> float:
    """Least ``s_i - s_k`` over all crucial pairs; one score for each row. O(n).

    >>> import numpy as np
    >>> from precede import Judgments
    >>> least_margin(Judgments([0, 2, 1]).to_layout(), np.array([0.0, 0.5, 2.0]))
    0.5
    """
    context = context or Context(1)
    if layout.shared:
        low, high = ends_of_levels(layout, scores, context)
        return float((low[1:] - np.maximum.accumulate(high)[:-1]).min())
    pairs = layout.level_start, layout.query_start, layout.winner, layout.loser
    return -float(all_reduce_max(lambda: -_least_margin(*pairs, scores), context))


def ends_of_levels(layout: QueryLayout, values: Array, context: Context) -> tuple[Floats, Floats]:
    """Least and greatest value of every level that several machines share.

    >>> import numpy as np
    >>> from precede import Judgments
    >>> ends_of_levels(Judgments([0, 1, 1]).to_layout(), np.array([0.5, 1.0, 3.0]), Context(1))
    (array([0.5, 1. ]), array([0.5, 3. ]))
    """

    def ends() -> Floats:
        runs = [
            values[first:last] for first, last in pairwise(layout.level_start)
        ]  # some may be empty here
        return np.array([[run.max(initial=-np.inf), -run.min(initial=np.inf)] for run in runs])

    found = all_reduce_max(ends, context)
    return -found[:, 1], found[:, 0].copy()


def _zero_beyond(
    falling: Callable[[float], float], reach: float, least: float, *, flat_is_least: bool = False
) -> float | None:
    """Where a falling function, positive at 0, crosses zero; None if nowhere in reach.

    The search goes no further than where the function is `least` or less in size.
    """
    for _ in range(DOUBLINGS):
        here = falling(reach)
        if here < -1e-15:
            return zero_between(falling, 0.0, reach, 1e-15 * reach)
        if abs(here) <= 1e-15 and flat_is_least:  # nothing is left to gain
            return reach
        if abs(here) <= least:
            return None
        reach *= 2
    return None


def zero_between(function: Callable[[float], float], low: float, high: float, near: float) -> float:
    """Where a function that changes its sign between two points crosses zero.

    By Brent's method; halving where that is slow, as it is where the function leaves zero as a
    cube does: the slope of a squared hinge to the power of two beyond the last margin.

    >>> round(zero_between(lambda x: (x - 2.0) ** 3, 0.0, 3.0, 1e-12), 3)
    2.0
    """
    root, search = scipy.optimize.brentq(
        function, low, high, xtol=near, full_output=True, disp=False
    )
    return float(
        root if search.converged else scipy.optimize.bisect(function, low, high, xtol=near)
    )


# -- kernels ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _sums_below_and_above(
    query_start: Integers, losers: Floats, winners: Floats, below: Floats, above: Floats
) -> None:
    """Sums over the levels below and above each level of the same query."""
    for query in range(query_start.size - 1):
        first, last = query_start[query], query_start[query + 1]
        for level in range(first + 1, last):
            below[level] = below[level - 1] + losers[level - 1]
        for level in range(last - 2, first - 1, -1):
            above[level] = above[level + 1] + winners[level + 1]


@njit(cache=True, nogil=True)
def _least_margin(
    level_start: Integers, query_start: Integers, winner: Integers, loser: Integers, scores: Floats
) -> float:
    """Least difference over crucial pairs: every level against the best of those below."""
    least = np.inf
    for query in range(query_start.size - 1):
        highest = -np.inf
        for level in range(query_start[query], query_start[query + 1]):
            low, high = np.inf, -np.inf
            for row in range(level_start[level], level_start[level + 1]):
                low = fmin(low, scores[row])
                high = fmax(high, scores[row])
            least = fmin(least, low - highest)
            highest = fmax(highest, high)
    for pair in range(winner.size):
        least = fmin(least, scores[winner[pair]] - scores[loser[pair]])
    return least
