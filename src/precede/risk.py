"""The risk of a ranking and the pull on every item, exact and without listing a pair.

``R(s) = sum_k v_k g( sum_{i above k} w_ik l(s_i - s_k) )``. The *pull* of an item is
``-dR/ds_i``; for any weak ranker h the slope of R along h is ``-sum_i pull_i h(x_i)``, so
the search for weak rankers needs the pull and nothing else.

Everything is kept as a share of a total whose logarithm is known: no score, however large,
overflows. Sums that cross the boundaries of runs, threads or machines are sums of integers
(see `precede.exact`): they do not depend on the order or the number of the parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.optimize
from numba import njit
from numpy.typing import ArrayLike, NDArray

from precede.exact import exact_sum, log_total
from precede.judgments import Arrangement, Judgments
from precede.losses import PairLoss, Power, Price, Separable, pair_loss, price
from precede.sums import PairSums, log_sum
from precede.threads import Workers

__all__ = [
    "BoundRisk",
    "Factors",
    "GeneralRisk",
    "Masses",
    "PairRisk",
    "SeparableRisk",
    "State",
    "check_scores",
]

Floats = NDArray[np.float64]

# A run of equal grade is cut into pieces of at most this many places, so that one query of
# a million rows keeps every thread busy.
PIECE = 1 << 15
# Below this many places a second thread costs more than it brings.
SMALL = 1 << 14
# A line search doubles its reach so many times before it takes the least to be at infinity.
DOUBLINGS = 40


@dataclass(frozen=True)
class Masses:
    """Shares of the pair mass that a two-valued ranker orders rightly, wrongly, not at all."""

    right: float
    wrong: float
    tied: float

    @property
    def edge(self) -> float:
        """``right - wrong``, the normalised slope."""
        return self.right - self.wrong


@dataclass(frozen=True)
class State:
    """What a risk knows at some scores; arrays are in the order of the arrangement's places.

    `log_value` is log R, `log_mass` the logarithm of the pair mass ``sum |g' w l'|``, and
    `pull` is the pull divided by the mass: the pull of the winners of all pairs sums to 1.
    """

    scores: Floats
    log_value: float
    log_mass: float
    pull: Floats
    parts: Any = field(default=None, repr=False)


def check_scores(scores: ArrayLike, rows: int) -> Floats:
    """Scores as an array of finite numbers, one for each row.

    >>> check_scores([1, 2], rows=2)
    array([1., 2.])
    """
    try:
        values = np.asarray(scores, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"scores must be numbers, but {error}") from error
    if values.shape != (rows,):
        raise ValueError(
            f"scores has shape {values.shape}; give one score for each of the {rows} rows"
        )
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(f"scores[{row}] is {values[row]}; scores must be finite")
    return values


class PairRisk:
    """A pair loss, a price and a balance of queries: the objective of an algorithm.

    Parameters
    ----------
    loss : {"exponential", "logistic", "hinge", "squared_hinge"} or PairLoss
    price : number p for ``u^p``, "linear", "exp" or Price
    balance : {"pairs", "queries"}
        Whether every pair weighs the same or every query does.

    Notes
    -----
    Time by the form of the loss, for n items: separable O(n), polynomial O(n log n), smooth
    about 15 n, others O(n²) in bounded memory. `bind` is for loops; the methods here arrange
    the judgments at every call.

    Examples
    --------
    >>> from precede import Judgments, PairRisk
    >>> judgments = Judgments.bipartite([1, 0, 0])
    >>> risk = PairRisk("exponential")
    >>> float(risk.value(judgments, [0.0, 0.0, 0.0]))
    2.0
    >>> risk.pull(judgments, [0.0, 0.0, 0.0])
    array([ 2., -1., -1.])
    """

    def __init__(
        self,
        loss: str | PairLoss = "exponential",
        price: str | float | Price = "linear",
        *,
        balance: str = "pairs",
    ):
        self.loss = loss
        self.price = price
        self.balance = balance

    def bind(self, judgments: Judgments | Arrangement, workers: Workers | None = None) -> BoundRisk:
        """Prepare the risk for one set of judgments, in the order of its places."""
        if isinstance(judgments, Judgments):
            judgments = judgments.arrange(self.balance)
        loss, cost = pair_loss(self.loss), price(self.price)
        power_of_sum = isinstance(cost, Power) and (cost.power == 1 or not judgments.winner.size)
        if isinstance(loss.form, Separable) and power_of_sum and not loss.gap:
            return SeparableRisk(judgments, loss, cost, workers)
        return GeneralRisk(judgments, loss, cost, workers)

    def value(self, judgments: Judgments, scores: ArrayLike) -> float:
        """Sum the price of every loser: R."""
        bound, places = self._at(judgments, scores)
        return float(np.exp(bound.log_value(places)))

    def pull(self, judgments: Judgments, scores: ArrayLike) -> Floats:
        """``-dR/ds`` for every row, in the order of the rows."""
        bound, places = self._at(judgments, scores)
        state = bound.state(places)
        return bound.to_rows(state.pull * np.exp(state.log_mass))

    def curvature(self, judgments: Judgments, scores: ArrayLike) -> Floats:
        """``d²R/ds²``, the diagonal of the second derivative, in the order of the rows."""
        bound, places = self._at(judgments, scores)
        state = bound.state(places)
        return bound.to_rows(bound.curvature(state) * np.exp(state.log_mass))

    def masses(self, judgments: Judgments, scores: ArrayLike, ranker: ArrayLike) -> Masses:
        """Give the shares of the pair mass ordered rightly, wrongly and not at all."""
        bound, places = self._at(judgments, scores)
        values = np.asarray(ranker)
        if values.shape != (len(judgments),) or not np.isin(values, (0, 1)).all():
            raise ValueError("ranker must be 0 or 1 for every row; masses are for such rankers")
        at = values[bound.arrangement.order].astype(np.uint8)
        return bound.masses(bound.state(places), at)

    def _at(self, judgments: Judgments, scores: ArrayLike) -> tuple[BoundRisk, Floats]:
        values = check_scores(scores, len(judgments))
        bound = self.bind(judgments)
        return bound, values[bound.arrangement.order]

    def __repr__(self) -> str:
        return f"PairRisk({self.loss!r}, {self.price!r}, balance={self.balance!r})"


class BoundRisk:
    """A risk bound to an arrangement: what the boosting loop works with."""

    def __init__(
        self, arrangement: Arrangement, loss: PairLoss, cost: Price, workers: Workers | None
    ):
        self.arrangement = arrangement
        self.loss = loss
        self.price = cost
        self.workers = workers or Workers(1)

    def state(self, scores: Floats) -> State:
        """Risk and pull at these scores (one per place)."""
        raise NotImplementedError(f"{type(self).__name__} must define state(scores)")

    def curvature(self, state: State) -> Floats:
        """Diagonal of the second derivative, divided by the pair mass."""
        raise NotImplementedError(f"{type(self).__name__} must define curvature(state)")

    def masses(self, state: State, values: NDArray[np.uint8]) -> Masses:
        """Shares of the pair mass that a ranker of values 0 and 1 orders rightly, ..."""
        raise NotImplementedError(f"{type(self).__name__} must define masses(state, values)")

    def log_value(self, scores: Floats) -> float:
        """Logarithm of the risk."""
        return self.state(scores).log_value

    def edge(self, state: State, values: NDArray) -> float:
        """Slope of the risk along a ranker, as a share of the pair mass (positive: falling)."""
        return exact_sum(state.pull * values)

    def line_search(
        self, state: State, values: NDArray, *, ghost: float = 0.0
    ) -> tuple[float, bool]:
        """Find the step along `values` at which the risk is least, and whether by ghosts.

        The derivative along the line is followed outwards until its sign changes, then
        bracketed (Brent). Where it never changes, the least is at infinity; then two *ghost*
        pairs of mass `ghost`, one in order and one reversed, keep the step finite. For
        values 0 and 1 this is ``log((d+ + ghost) / (d- + ghost)) / 2``.
        """
        width = float(np.max(values) - np.min(values))
        sign = 1.0 if self.edge(state, values) > 0 else -1.0

        def falling(step: float) -> float:
            at = self.state(state.scores + sign * step * values)
            return sign * self.edge(at, values) if at.log_mass > -np.inf else 0.0

        def falling_with_ghosts(step: float) -> float:
            at = self.state(state.scores + sign * step * values)
            fall = sign * self.edge(at, values) * np.exp(at.log_mass - state.log_mass)
            return fall - ghost * width * 2 * np.sinh(min(step * width, 700.0))

        step, smoothed = _zero_beyond(falling, 1.0 / width), False
        if step is None:
            step, smoothed = _zero_beyond(falling_with_ghosts, 1.0 / width), True
        # On kinks a derivative is worth its sign at best: never end higher than the start.
        step = sign * (step or 0.0)
        for _ in range(60):
            if self.log_value(state.scores + step * values) <= state.log_value:
                return step, smoothed
            step /= 2
        return 0.0, smoothed

    def to_rows(self, per_place: Floats) -> Floats:
        """Spread numbers per place over the user's rows; rows without a pair get 0."""
        rows = np.zeros(self.arrangement.n_rows)
        rows[self.arrangement.order] = per_place
        return rows


# -- exponential loss with a power as price: linear time -------------------------------------


@dataclass(frozen=True)
class SeparableParts:
    """Sums by level behind a `State` of `SeparableRisk`.

    Attributes
    ----------
    terms : ``weight·exp(-s)`` (row 0, as winner) and ``weight·exp(p·s)`` (row 1, as loser) of
        every graded place, relative to the largest of its level
    levels : six numbers for every level: the sums of the two terms (rows 0 and 1); the share
        of the pair mass that the level has as winners and as losers (2 and 3); and how the
        losers below are mixed (4 and 5): a share x of the losers below level l is
        ``levels[4, l]·x(below l-1) + levels[5, l]·x(level l-1)``
    limbs : the integers behind rows 0 and 1 of `levels`, by piece
    pair_mass : share of the pair mass of every listed pair
    """

    terms: Floats
    levels: Floats
    limbs: NDArray
    pair_mass: Floats


class SeparableRisk(BoundRisk):
    """Exponential loss, price ``u^p``: O(n) time, no pair is ever listed.

    Inside a query let ``a_i = exp(-s_i)`` and ``b_k = exp(s_k)``. With ``A(l)`` the sum of a
    over the grades above level l, a loser of level l pays ``u_k = b_k A(l)``, so

        R = sum_l A(l)^p · sum_{k in l} b_k^p.

    Winner and loser masses follow from the same sums by level. Listed pairs are added one by
    one, for p = 1 (for other prices `GeneralRisk` adds the two before the price is taken).
    """

    def __init__(
        self, arrangement: Arrangement, loss: PairLoss, cost: Price, workers: Workers | None = None
    ):
        super().__init__(arrangement, loss, cost, workers)
        if not isinstance(loss.form, Separable) or not isinstance(cost, Power):
            raise ValueError("SeparableRisk needs a separable loss and a power as price")
        self.rate = loss.form.rate
        self.power = cost.power
        self._pieces = _Pieces.cut(arrangement)
        self._small = arrangement.n_graded < SMALL
        weight = arrangement.weight[: arrangement.n_graded]
        # Weights join the exponents: a light item with a large term loses no digit to a
        # heavy one with a small term.
        even = bool((weight == 1.0).all())
        self._log_weight = np.zeros(0) if even else np.log(weight)
        first = arrangement.level_start[arrangement.query_start[:-1]]
        self._log_balance = np.log(arrangement.outer[first] / arrangement.weight[first])
        pair_weight = arrangement.pair_weight * arrangement.weight[arrangement.winner]
        with np.errstate(divide="ignore"):
            self._log_pair = np.log(pair_weight * arrangement.outer[arrangement.loser])

    def state(self, scores: Floats) -> State:
        """Risk and pull at these scores, in two passes over the places."""
        margin = self.rate * scores
        parts, log_value = self._parts(margin)
        pull = np.zeros(self.arrangement.n_places)
        pieces = self._pieces
        self.workers.run(
            _pull_of_pieces, pieces.count, pieces.start, pieces.level, parts.terms, parts.levels,
            pull, small=self._small,
        )  # fmt: skip
        if parts.pair_mass.size:
            integers = np.zeros(pull.size, np.int64)
            mass = np.rint(parts.pair_mass * 2.0**61).astype(np.int64)
            np.add.at(integers, self.arrangement.winner, mass)
            np.subtract.at(integers, self.arrangement.loser, mass)
            pull += integers * 2.0**-61
        log_mass = log_value + np.log(self.power * self.rate)
        return State(scores, log_value, log_mass, pull, parts)

    def log_value(self, scores: Floats) -> float:
        """Logarithm of the risk, without the pull."""
        return self._parts(self.rate * scores)[1]

    def curvature(self, state: State) -> Floats:
        """``winner mass + loser mass`` for p = 1 (the sum of the pair masses of an item)."""
        if self.power != 1:
            return GeneralRisk(self.arrangement, self.loss, self.price).curvature(state)
        parts, level = state.parts, self._level_of_place()
        mass = np.zeros(self.arrangement.n_places)
        scale = parts.levels[2:4] / parts.levels[:2]
        mass[: level.size] = (parts.terms * scale[:, level]).sum(axis=0)
        for side in (self.arrangement.winner, self.arrangement.loser):
            mass += np.bincount(side, parts.pair_mass, minlength=mass.size)
        return self.rate * mass

    def masses(self, state: State, values: NDArray[np.uint8]) -> Masses:
        """Shares of the pair mass ordered rightly, wrongly, not at all: O(n)."""
        parts, pieces = state.parts, self._pieces
        limbs = np.zeros((pieces.count, 4), np.int64)
        self.workers.run(
            _split_of_pieces, pieces.count, pieces.start, parts.terms, values, limbs,
            small=self._small,
        )  # fmt: skip
        right, wrong = self._query_masses(parts, limbs)
        listed = values[self.arrangement.winner].astype(np.int8) - values[self.arrangement.loser]
        right = np.append(right, parts.pair_mass[listed > 0])
        wrong = np.append(wrong, parts.pair_mass[listed < 0])
        in_order, reversed_ = exact_sum(right), exact_sum(wrong)
        return Masses(in_order, reversed_, max(0.0, 1.0 - in_order - reversed_))

    def factors(self, state: State) -> Factors:
        """Give what a search by largest decrease needs: the masses behind the pull."""
        return Factors(self, state)

    def _query_masses(self, parts: SeparableParts, limbs: NDArray) -> tuple[Floats, Floats]:
        queries = self.arrangement.query_start.size - 1
        right, wrong = np.zeros(queries), np.zeros(queries)
        self.workers.run(
            _masses_of_queries, queries, self.arrangement.query_start, self._pieces.first, limbs,
            parts.limbs, parts.levels, right, wrong, small=self._small,
        )  # fmt: skip
        return right, wrong

    def _parts(self, margin: Floats) -> tuple[SeparableParts, float]:
        pieces, run, power = self._pieces, self.workers.run, self.power
        ends = np.zeros((pieces.count, 2))
        run(
            _ends_of_pieces, pieces.count, pieces.start, margin, self._log_weight, power, ends,
            small=self._small,
        )  # fmt: skip
        low, high = pieces.ends_of_levels(ends)
        graded = self.arrangement.n_graded
        terms = np.empty((2, graded))
        limbs = np.zeros((pieces.count, 4), np.int64)
        self.workers.run(
            lambda first, last: self._fill(first, last, margin, low, high, terms, limbs),
            pieces.count,
            small=self._small,
        )
        queries = self._log_balance.size
        levels = np.zeros((6, low.size))
        log_query = np.zeros(queries)
        run(
            _levels_of_queries, queries, self.arrangement.query_start, pieces.first, limbs, low,
            high, power, self._log_balance, levels, log_query, small=self._small,
        )  # fmt: skip
        log_pair = self._log_pair - (
            margin[self.arrangement.winner] - margin[self.arrangement.loser]
        )
        log_value = log_total(np.append(log_query, log_pair))
        level_query = np.repeat(np.arange(queries), np.diff(self.arrangement.query_start))
        levels[2:4] *= np.exp(log_query - log_value)[level_query]
        parts = SeparableParts(terms, levels, limbs, np.exp(log_pair - log_value))
        return parts, log_value

    def _fill(  # the arguments are what one thread reads and writes
        self, first: int, last: int, margin: Floats, low: Floats, high: Floats, terms: Floats,
        limbs: NDArray,
    ) -> None:  # fmt: skip
        """Terms of the pieces first..last and their sums.

        NumPy takes the exponentials: it does several at a time, which compiled loops do not.
        """
        pieces, power = self._pieces, self.power
        begin, end = pieces.start[first], pieces.start[last]
        up, down = terms[0, begin:end], terms[1, begin:end]
        where = (first, last, pieces.start, pieces.level)
        _exponents(*where, margin, self._log_weight, -1.0, low, terms[0])
        np.exp(up, out=up)
        if power == 1 and not self._log_weight.size:
            _complements(*where, margin, low, high, terms)
        else:
            _exponents(*where, margin, self._log_weight, power, high, terms[1])
            np.exp(down, out=down)
        _sums_of_pieces(first, last, pieces.start, terms, limbs)

    def _level_of_place(self) -> NDArray:
        sizes = np.diff(self.arrangement.level_start)
        return np.repeat(np.arange(sizes.size), sizes)


class Factors:
    """Masses by level and pair, from which a family finds the largest decrease (RS09 eq. 5).

    Attributes
    ----------
    level_start, query_start : the runs of the arrangement
    terms, levels, pair_mass : see `SeparableParts`
    pairs : places of the winners (row 0) and losers (row 1) of the listed pairs
    """

    def __init__(self, risk: SeparableRisk, state: State):
        self._risk, self._state = risk, state
        self.level_start = risk.arrangement.level_start
        self.query_start = risk.arrangement.query_start
        self.pairs = np.stack([risk.arrangement.winner, risk.arrangement.loser])
        self.terms = state.parts.terms
        self.levels = state.parts.levels
        self.pair_mass = state.parts.pair_mass

    def decrease(self, values: NDArray) -> tuple[float, float]:
        """Edge of a ranker, and the share by which its best step lowers the risk."""
        if values.dtype == np.uint8:
            masses = self._risk.masses(self._state, values)
            return masses.edge, float((np.sqrt(masses.right) - np.sqrt(masses.wrong)) ** 2)
        edge = self._risk.edge(self._state, values)
        if edge == 0:
            return 0.0, 0.0
        step, _ = self._risk.line_search(self._state, values)
        after = self._risk.log_value(self._state.scores + step * values)
        return edge, float(-np.expm1(after - self._state.log_value))


@dataclass(frozen=True)
class _Pieces:
    """Levels cut into short runs: ``first[l]`` is the first piece of level l."""

    start: NDArray
    level: NDArray
    first: NDArray

    @property
    def count(self) -> int:
        return int(self.level.size)

    @classmethod
    def cut(cls, arrangement: Arrangement) -> _Pieces:
        sizes = np.diff(arrangement.level_start)
        per_level = -(-sizes // PIECE)
        first = np.concatenate([[0], np.cumsum(per_level)]).astype(np.int64)
        level = np.repeat(np.arange(sizes.size), per_level)
        within = np.arange(level.size) - first[level]
        start = np.append(arrangement.level_start[level] + within * PIECE, arrangement.n_graded)
        return cls(start.astype(np.int64), level.astype(np.int64), first)

    def ends_of_levels(self, ends: Floats) -> tuple[Floats, Floats]:
        """Least and greatest score of every level, from those of its pieces."""
        if self.count == self.first.size - 1:  # one piece a level: the usual case
            return np.ascontiguousarray(ends[:, 0]), np.ascontiguousarray(ends[:, 1])
        low = np.minimum.reduceat(ends[:, 0], self.first[:-1])
        return low, np.maximum.reduceat(ends[:, 1], self.first[:-1])


# -- any loss, any price ---------------------------------------------------------------------


class GeneralRisk(BoundRisk):
    """Any loss and any price, by two sweeps of pair sums (see `precede.sums`).

    First the inner sums ``u_k``, then the weights ``v_k g'(u_k)`` on the losers, then the
    sums for the winners. All in logarithms, so that ``u^64`` and ``exp(u)`` stay finite.
    """

    def __init__(
        self, arrangement: Arrangement, loss: PairLoss, cost: Price, workers: Workers | None = None
    ):
        super().__init__(arrangement, loss, cost, workers)
        self._sums = PairSums(arrangement, loss, self.workers)
        with np.errstate(divide="ignore"):
            self._log_weight = np.log(arrangement.weight)
            self._log_outer = np.log(arrangement.outer)

    def state(self, scores: Floats) -> State:
        """Risk and pull at these scores."""
        log_paid, log_slope = self._sums.over_winners(scores, self._log_weight, ("value", "slope"))
        involved = self._sums.is_loser
        log_price = np.full(scores.size, -np.inf)
        log_price[involved] = self.price.log_value(log_paid[involved])
        log_tax = np.full(scores.size, -np.inf)
        log_tax[involved] = self.price.log_slope(log_paid[involved])
        log_tax += self._log_outer
        (log_won,) = self._sums.over_losers(scores, log_tax, ("slope",))
        log_loss, log_win = log_tax + log_slope, log_won + self._log_weight
        log_value, log_mass = log_sum(log_price + self._log_outer), log_sum(log_loss)
        if log_mass == -np.inf:  # every pair is beyond its margin: nothing pulls
            return State(scores, log_value, log_mass, np.zeros(scores.size))
        pull = np.exp(log_win - log_mass) - np.exp(log_loss - log_mass)
        return State(scores, log_value, log_mass, pull, (log_paid, log_tax))

    def curvature(self, state: State) -> Floats:
        """Diagonal of the second derivative over the pair mass, by the same sweeps.

        For a loser ``g''(u) (sum w l')² + g'(u) sum w l''``; for a winner the sum over its
        losers of ``g''(u_k) (w l')² + g'(u_k) w l''``.
        """
        scores, sums, weight = state.scores, self._sums, self._log_weight
        log_paid, log_slope, log_bend = sums.over_winners(
            scores, weight, ("value", "slope", "curvature")
        )
        involved = sums.is_loser
        log_tax = np.full(scores.size, -np.inf)
        log_bow = np.full(scores.size, -np.inf)
        log_tax[involved] = self.price.log_slope(log_paid[involved])
        log_bow[involved] = self.price.log_curvature(log_paid[involved])
        log_tax += self._log_outer
        log_bow += self._log_outer
        (won_bend,) = sums.over_losers(scores, log_tax, ("curvature",))
        won_bow = sums.squared_slopes(scores, log_bow)
        terms = (
            log_tax + log_bend,
            log_bow + 2 * log_slope,
            won_bend + weight,
            won_bow + 2 * weight,
        )
        return sum((np.exp(term - state.log_mass) for term in terms), np.zeros(scores.size))

    def masses(self, state: State, values: NDArray[np.uint8]) -> Masses:
        """Shares of the pair mass ordered rightly, wrongly, not at all."""
        if state.parts is None:
            return Masses(0.0, 0.0, 0.0)
        _, log_tax = state.parts
        above = np.where(values == 1, self._log_weight, -np.inf)
        below = np.where(values == 0, self._log_weight, -np.inf)
        (up,) = self._sums.over_winners(state.scores, above, ("slope",))
        (down,) = self._sums.over_winners(state.scores, below, ("slope",))
        paid_up, paid_down = log_tax + up - state.log_mass, log_tax + down - state.log_mass
        right = exact_sum(np.exp(paid_up[values == 0]))
        wrong = exact_sum(np.exp(paid_down[values == 1]))
        return Masses(right, wrong, max(0.0, 1.0 - right - wrong))


def _zero_beyond(falling: Callable[[float], float], reach: float) -> float | None:
    """Where a falling function, positive at 0, crosses zero; None if it only tends to it."""
    for _ in range(DOUBLINGS):
        here = falling(reach)
        if here < -1e-15:
            return float(scipy.optimize.brentq(falling, 0.0, reach, xtol=1e-15 * reach))
        if abs(here) <= 1e-15:  # flat: nothing is left to gain, or nothing is left at all
            return None if here > 0 else reach
        reach *= 2
    return None


# -- kernels ---------------------------------------------------------------------------------
#
# A number x in [-1, 1] as two integers, multiples of 2^-31 and of 2^-62: 2^31 such terms add
# up without overflow.


@njit(cache=True, nogil=True)
def _ends_of_pieces(low, high, start, margin, log_weight, power, ends):
    """Least of -log(weight·exp(-s)) and greatest of log(weight·exp(p·s)) in every piece."""
    weighted = log_weight.size > 0
    for piece in range(low, high):
        least, most = np.inf, -np.inf
        if weighted:
            for place in range(start[piece], start[piece + 1]):
                least = min(least, margin[place] - log_weight[place])
                most = max(most, power * margin[place] + log_weight[place])
        else:
            for place in range(start[piece], start[piece + 1]):
                least = min(least, margin[place])
                most = max(most, margin[place])
            most *= power
        ends[piece, 0] = least
        ends[piece, 1] = most


@njit(cache=True, nogil=True)
def _exponents(first, last, start, level, margin, log_weight, factor, ends, out):
    """factor·s + log(weight) of every place, relative to the greatest of its level."""
    weighted = log_weight.size > 0
    for piece in range(first, last):
        most = ends[level[piece]] if factor > 0 else -ends[level[piece]]
        for place in range(start[piece], start[piece + 1]):
            out[place] = factor * margin[place] - most
        if weighted:
            for place in range(start[piece], start[piece + 1]):
                out[place] += log_weight[place]


@njit(cache=True, nogil=True)
def _complements(first, last, start, level, margin, low, high, terms):
    """Loser terms from winner terms: their product is the same for a whole level.

    That saves half of the exponentials, unless the product is too small to divide by. The
    choice is made level by level, so that it does not depend on who works on which.
    """
    for piece in range(first, last):
        top = high[level[piece]]
        product = np.exp(low[level[piece]] - top)
        if product > 1e-280:
            for place in range(start[piece], start[piece + 1]):
                terms[1, place] = min(product / terms[0, place], 1.0)
        else:
            for place in range(start[piece], start[piece + 1]):
                terms[1, place] = np.exp(margin[place] - top)


@njit(cache=True, nogil=True)
def _sums_of_pieces(first, last, start, terms, limbs):
    """Sums of winner and loser terms, as integers.

    Adding and subtracting 1.5·2^21 rounds a term to a multiple of 2^-31, 1.5·2^-10 what is
    left to a multiple of 2^-62. Sums of up to 2^21 such multiples are exact, so their order
    does not matter; it is twice as fast as turning every term into integers.
    """
    for piece in range(first, last):
        for side in range(2):
            high, low = 0.0, 0.0
            for place in range(start[piece], start[piece + 1]):
                term = terms[side, place]
                coarse = (term + 3145728.0) - 3145728.0
                high += coarse
                low += ((term - coarse) + 0.00146484375) - 0.00146484375
            limbs[piece, 2 * side] = np.int64(high * 2.0**31)
            limbs[piece, 2 * side + 1] = np.int64(low * 2.0**62)


@njit(cache=True, nogil=True)
def _sum_of_level(limbs, first, last, column):
    high, low = 0, 0
    for piece in range(first, last):
        high += limbs[piece, column]
        low += limbs[piece, column + 1]
    return high * 2.0**-31 + low * 2.0**-62


@njit(cache=True, nogil=True)
def _log_add(a, b):
    if a < b:
        a, b = b, a
    if b == -np.inf:
        return a
    return a + np.log1p(np.exp(b - a))


@njit(cache=True, nogil=True)
def _levels_of_queries(
    begin, end, query_start, first, limbs, low, high, power, log_balance, by_level, log_query
):
    """Masses of the levels as shares of their query, whose logarithm goes to log_query.

    Rows of by_level: winner_sum, loser_sum, winner_mass, loser_mass, carry, fresh.
    """
    for query in range(begin, end):
        bottom, top = query_start[query], query_start[query + 1]
        levels = top - bottom
        log_winner = np.empty(levels)
        above = np.full(levels + 1, -np.inf)  # log of a summed over the levels above
        for j in range(levels - 1, -1, -1):
            level = bottom + j
            by_level[0, level] = _sum_of_level(limbs, first[level], first[level + 1], 0)
            by_level[1, level] = _sum_of_level(limbs, first[level], first[level + 1], 2)
            log_winner[j] = np.log(by_level[0, level]) - low[level]
            above[j] = _log_add(above[j + 1], log_winner[j])
        below = -np.inf  # log of the taxed b summed over the levels below
        total = -np.inf
        for j in range(levels):
            level = bottom + j
            log_loser = np.log(by_level[1, level]) + high[level] + log_balance[query]
            by_level[2, level] = log_winner[j] + below
            by_level[3, level] = power * above[j + 1] + log_loser
            total = _log_add(total, by_level[2, level])
            if j < levels - 1:
                tax = log_loser
                if power != 1.0:
                    tax += (power - 1.0) * above[j + 1]
                grown = _log_add(below, tax)
                by_level[4, level + 1] = np.exp(below - grown)
                by_level[5, level + 1] = np.exp(tax - grown)
                below = grown
        for level in range(bottom, top):
            by_level[2, level] = np.exp(by_level[2, level] - total)
            by_level[3, level] = np.exp(by_level[3, level] - total)
        log_query[query] = total


@njit(cache=True, nogil=True)
def _pull_of_pieces(first, last, start, level, terms, levels, pull):
    for piece in range(first, last):
        here = level[piece]
        up, down = levels[2, here] / levels[0, here], levels[3, here] / levels[1, here]
        for place in range(start[piece], start[piece + 1]):
            pull[place] = terms[0, place] * up - terms[1, place] * down


@njit(cache=True, nogil=True)
def _split_of_pieces(first, last, start, terms, values, limbs):
    """The same sums over the places where the ranker is 1; see `_sums_of_pieces`."""
    for piece in range(first, last):
        for side in range(2):
            high, low = 0.0, 0.0
            for place in range(start[piece], start[piece + 1]):
                term = terms[side, place] * values[place]
                coarse = (term + 3145728.0) - 3145728.0
                high += coarse
                low += ((term - coarse) + 0.00146484375) - 0.00146484375
            limbs[piece, 2 * side] = np.int64(high * 2.0**31)
            limbs[piece, 2 * side + 1] = np.int64(low * 2.0**62)


@njit(cache=True, nogil=True)
def _masses_of_queries(begin, end, query_start, first, ones, limbs, levels, right, wrong):
    """Masses of the pairs (ranker 1 above 0) and (0 above 1) in every query.

    The part where the ranker is 0 is the difference of integers: no digit is lost when
    almost everything is on one side.
    """
    zeros = limbs - ones
    winner_mass, carry, fresh = levels[2], levels[4], levels[5]
    for query in range(begin, end):
        bottom, top = query_start[query], query_start[query + 1]
        low_zero, low_one = 0.0, 0.0  # shares of the losers below where the ranker is 0, 1
        in_order, reversed_ = 0.0, 0.0
        for level in range(bottom, top):
            if level > bottom:
                one = _sum_of_level(ones, first[level - 1], first[level], 2)
                zero = _sum_of_level(zeros, first[level - 1], first[level], 2)
                low_one = carry[level] * low_one + fresh[level] * one / (one + zero)
                low_zero = carry[level] * low_zero + fresh[level] * zero / (one + zero)
            one = _sum_of_level(ones, first[level], first[level + 1], 0)
            zero = _sum_of_level(zeros, first[level], first[level + 1], 0)
            in_order += winner_mass[level] * one / (one + zero) * low_zero
            reversed_ += winner_mass[level] * zero / (one + zero) * low_one
        right[query] = in_order
        wrong[query] = reversed_
