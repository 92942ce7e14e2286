"""Margins of a ranking: their distribution, their norm, and the best margin possible.

The margin of a crucial pair is ``(f(x_i) - f(x_k)) / norm``, where f is a weighted sum of weak
rankers and `norm` the sum of its absolute weights; the margin of f is the least of them (RS09
section 2). Pairs are never enumerated: the least margin follows from the least score of each
level and the greatest score below it, the distribution from a sort.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import scipy.optimize
import scipy.sparse
from numpy.typing import ArrayLike

from precede.engine.arrays import Array, Floats, Integers, Json, MatrixLike, VectorLike
from precede.engine.compiling import njit
from precede.engine.execution import Context
from precede.engine.kernels import add_to_fenwick_tree, sum_of_fenwick_tree
from precede.engine.portable import log_of
from precede.engine.query_layout import QueryLayout, TrainingData
from precede.judgments import (
    Judgments,
    check_column,
    number_queries,
    read_judgments,
    read_sample,
    to_numbers,
)
from precede.model import Ensemble
from precede.results import Result, plain
from precede.risks.terms import least_margin
from precede.weak_rankers.base import Family, WeakRanker, require_exhaustive

if TYPE_CHECKING:
    from precede.estimator import BaseRanker

__all__ = [
    "MARGIN_GRID",
    "MarginDistribution",
    "best_margin",
    "margin_distribution",
    "margins",
    "margins_of_predictions",
    "net_weights",
    "progress_ratio",
    "smooth_step",
    "weight_norm",
]


# Margins of a score in [0, 1] lie in (0, 1]. The grid is fixed before any data is seen, as a
# union bound requires, and dense enough to lose at most a factor √2 in the margin.
MARGIN_GRID = tuple(2.0 ** (-k / 2) for k in range(15))
# `best_margin` refuses larger linear programs.
MAX_LP_ROWS = 20_000
# Tolerance on the edge of rankers left out of the linear program.
LP_TOLERANCE = 1e-10


# -- the norm --------------------------------------------------------------------------------


def net_weights(ensemble: Ensemble) -> dict[WeakRanker, float]:
    """Return the weight of every distinct ranker, summed over rounds, without the constant.

    >>> from precede import Stump
    >>> model = Ensemble([Stump(0, 0.5), Stump(1, 2.0), Stump(0, 0.5)], [1.0, 0.5, -0.25], 2)
    >>> list(net_weights(model).values())
    [0.75, 0.5]
    """
    rounds: dict[WeakRanker, list[float]] = {}
    for weak_ranker, weight in ensemble.parts():
        if not weak_ranker.is_constant:
            rounds.setdefault(weak_ranker, []).append(weight)
    return {weak_ranker: math.fsum(weights) for weak_ranker, weights in rounds.items()}


def weight_norm(ensemble: Ensemble) -> float:
    """Return the sum of the absolute net weights, by which margins are normalized.

    A ranker counts once, in however many rounds and with whatever signs it was chosen: ``h`` with
    weight -1 is the complement ``1 - h`` with weight 1 up to a constant, and giving weight to
    both would only lower the margin. The constant ranker orders no pair and does not count.

    >>> from precede import Stump
    >>> weight_norm(Ensemble([Stump(0, 0.5), Stump(0, 0.5)], [1.0, -0.25], 1))
    0.75
    """
    return math.fsum(map(abs, net_weights(ensemble).values()))


# -- margins of a ranking --------------------------------------------------------------------


@dataclass(frozen=True)
class MarginDistribution(Result):
    """Distribution of the margins (s_i − s_k)/norm of all crucial pairs.

    `n_pairs` is the number of crucial pairs (same query, i of higher grade than k), `minimum` the
    margin of the ranking, and `at(theta)` the share of pairs with a margin of at most theta. `span`
    is the range of the scores divided by the norm: at most 1 for rankers in [0, 1].

    Examples
    --------
    >>> margins = margin_distribution([0, 1, 1, 2], [0.1, 0.2, 0.6, 0.9])
    >>> print(margins)
    5 crucial pairs of 4 items, least margin 0.1000, 0.0 % not above 0
    >>> margins.at([0.25, 0.5])
    array([0.2, 0.6])
    """

    n_items: int
    n_pairs: int
    minimum: float
    norm: float
    _starts: Integers = field(repr=False, compare=False)
    _grades: Integers = field(repr=False, compare=False)
    _scores: Floats = field(repr=False, compare=False)
    _listed: Floats = field(repr=False, compare=False)
    span: float = field(repr=False, compare=False)

    @property
    def crucial_share(self) -> float:
        """Share of ordered pairs that are crucial: the empirical E, at most ½."""
        return self.n_pairs / (self.n_items * (self.n_items - 1))

    def at(self, theta: VectorLike) -> VectorLike:
        """Return P_S{margin ≤ θ} for one θ or an array of them, O(n log n) each."""
        wanted = np.asarray(theta, dtype=np.float64)
        if np.isnan(wanted).any():
            raise ValueError("theta holds NaN; give margins as numbers")
        known = (self._starts, self._grades, self._scores, self.norm)
        tree = np.zeros(int(self._grades.max(initial=0)) + 2)
        counts = [
            _count_small(*known, float(one), tree)
            + np.searchsorted(self._listed, one, side="right")
            for one in wanted.ravel()
        ]
        shares = np.array(counts, dtype=np.float64).reshape(wanted.shape) / self.n_pairs
        return float(shares) if wanted.ndim == 0 else shares

    def summary(self) -> str:
        """Return the counts, the least margin and the share of pairs in the wrong order."""
        head = f"{self.n_pairs} crucial pairs of {self.n_items} items, least margin "
        return f"{head}{self.minimum:.4f}, {100 * self.at(0.0):.1f} % not above 0"

    __str__ = summary

    def rows(self) -> list[Json]:
        """Return the distribution on the fixed grid of margins."""
        grid = [0.0, *sorted(MARGIN_GRID)]
        return [
            {"theta": at, "share": share} for at, share in zip(grid, self.at(grid), strict=True)
        ]

    def to_dict(self) -> Json:
        """Return counts, the least margin, and the distribution on the fixed grid of margins."""
        return {
            **super().to_dict(),
            "at": {str(row["theta"]): row["share"] for row in plain(self.rows())},
        }


def margin_distribution(
    y: ArrayLike, scores: ArrayLike, qid: ArrayLike | None = None, *, norm: float = 1.0
) -> MarginDistribution:
    """Sort the items once to evaluate P_S{margin ≤ θ} for any θ without enumerating pairs.

    The margin of a crucial pair is (s_i − s_k)/norm for grade_i > grade_k in the same query.
    O(n log n) once and for each θ. Reference: Rudin, Schapire, JMLR 10 (2009), sections 2, 3.

    Parameters
    ----------
    y, scores : array-like of shape (n,)
        Grades (only their order matters), or a graded `Judgments` with its queries; finite
        scores.
    qid : array-like of shape (n,), optional
        Query of each item; pairs are formed within queries.
    norm : float, default 1.0
        Sum of the absolute weights, which makes the score a convex combination of rankers.

    Examples
    --------
    >>> margin_distribution([0, 0, 1, 1], [1.0, 3.0, 2.0, 5.0], norm=4.0).minimum
    -0.25
    """
    y, qid = read_sample(y, qid)
    grades = check_column(y, "y")
    values = check_column(scores, "scores", len(grades))
    if not norm > 0:
        raise ValueError(f"norm={norm!r}; give the positive sum of absolute weights")
    query = number_queries(qid, len(grades))[0]
    return _distribution(Judgments(grades, query), values, float(norm))


def _distribution(judgments: Judgments, scores: Floats, norm: float) -> MarginDistribution:
    """Sort the items of every query by score, with the number of their level as grade."""
    layout = judgments.to_layout()
    at = scores[layout.order]
    graded = layout.n_graded
    level_sizes, level_counts = np.diff(layout.level_start), np.diff(layout.query_start)
    query_of_level = np.repeat(np.arange(level_counts.size), level_counts)
    codes = np.repeat(np.arange(level_sizes.size) - layout.query_start[query_of_level], level_sizes)
    query = np.repeat(query_of_level, level_sizes)
    order = np.lexsort((at[:graded], query))
    starts = layout.level_start[layout.query_start]
    listed = np.sort(at[layout.winner] - at[layout.loser]) / norm
    pairs = layout.count_graded_pairs() + listed.size
    if not pairs:
        raise ValueError("no crucial pair: no two grades differ within a query; check y and qid")
    return MarginDistribution(
        len(judgments), pairs, least_margin(layout, at) / norm, norm,
        starts, codes[order].astype(np.int64), at[:graded][order], listed,
        float(np.ptp(at)) / norm,
    )  # fmt: skip


def margins(
    model: BaseRanker,
    X: MatrixLike,
    y: VectorLike = None,
    *,
    qid: ArrayLike | None = None,
    pairs: ArrayLike | None = None,
) -> MarginDistribution:
    """Return the distribution of the margins of a fitted model over the crucial pairs of data.

    Scores are divided by `weight_norm` of the model, so that with rankers in [0, 1] every
    margin lies in [-1, 1]. Pairs of positive weight count once each, whatever their weight.

    Parameters
    ----------
    model : fitted estimator, with `predict` and `ensemble_`
    X : array, data frame or sparse matrix
    y : array of grades, or Judgments
    qid : array of query identifiers, optional
    pairs : array of shape (m, 2) of rows (winner, loser), optional

    Notes
    -----
    O(n log n) once, and for each θ.

    References
    ----------
    Rudin & Schapire, JMLR 10 (2009), section 2.

    Examples
    --------
    >>> from precede import RankBoost, margins
    >>> X = [[0.0, 3.0], [1.0, 1.0], [2.0, 0.0], [1.0, 4.0], [3.0, 2.0], [2.0, 2.0]]
    >>> y = [0, 0, 0, 1, 1, 1]
    >>> model = RankBoost(n_estimators=20, step="bound", learning_rate=1.0).fit(X, y)
    >>> print(margins(model, X, y))
    9 crucial pairs of 6 items, least margin 0.4866, 0.0 % not above 0
    """
    scores = np.asarray(model.predict(X), np.float64)
    return margins_of_predictions(model, scores, _judgments(y, qid, pairs, len(scores)))


def margins_of_predictions(
    model: BaseRanker, scores: Floats, judgments: Judgments
) -> MarginDistribution:
    """Return `margins` for scores that were already predicted."""
    refuse_ties(judgments)
    norm = weight_norm(model.ensemble_)
    if norm == 0:
        raise ValueError("the model has no ranker with a weight, so no margin; fit more rounds")
    if scores.shape != (len(judgments),):
        raise ValueError(f"X has {scores.size} rows and y has {len(judgments)}; give one per row")
    return _distribution(judgments, scores, norm)


# -- the best margin possible ----------------------------------------------------------------


def best_margin(
    X: ArrayLike,
    y: VectorLike = None,
    *,
    qid: ArrayLike | None = None,
    pairs: ArrayLike | None = None,
    weak_rankers: str | Family = "stumps",
    max_bins: int = 255,
    nonnegative: bool = False,
) -> float:
    """Return the best margin of any weighted sum of the weak rankers, by linear programs (HiGHS).

    The greatest r such that some f = Σ λ_j h_j with Σ|λ_j| ≤ 1 has ``f(x_i) - f(x_k) >= r``
    for every crucial pair; 0 where the rankers cannot separate the pairs. For small problems,
    and to check `SmoothMarginRanker`, whose interval holds for problems of any size.

    Parameters
    ----------
    X : array of shape (n, features)
    y : array of n grades, or Judgments
    qid : array of n query identifiers, optional
    pairs : array of shape (m, 2) of rows (winner, loser), optional
    weak_rankers : {"stumps", "features", "columns"} or Family
        "stumps" have their thresholds at the cuts of the bins; with
        ``Stumps(thresholds="all")`` the result is the best margin of all stumps.
    max_bins : int from 2 to 255
        A feature of more distinct values is cut at ``max_bins - 1`` of its quantiles, and the
        best margin of stumps is that of these cuts.
    nonnegative : bool
        Whether all λ_j must be at least 0, as in the paper.

    Notes
    -----
    Column generation: weak rankers are added to the linear program one at a time, each having the
    largest edge for the dual solution; when no edge exceeds the value of the program, the value is
    the best margin to within 1e-9. The program has O(n) rows, not one for each pair.

    References
    ----------
    Rudin & Schapire, JMLR 10 (2009), section 4.2; Demiriz, Bennett & Shawe-Taylor, *Linear
    Programming Boosting via Column Generation*, Machine Learning 46 (2002).

    Examples
    --------
    >>> from precede import best_margin
    >>> X = [[0.0, 3.0], [1.0, 1.0], [2.0, 0.0], [1.0, 4.0], [3.0, 2.0], [2.0, 2.0]]
    >>> round(best_margin(X, [0, 0, 0, 1, 1, 1]), 6)
    0.5

    Of 1,000 distinct values, 254 quantiles miss the threshold that separates the pairs.

    >>> import numpy as np
    >>> from precede import Stumps
    >>> X = np.arange(1000.0)[:, None]
    >>> y = (X[:, 0] >= 503).astype(int)
    >>> best_margin(X, y), best_margin(X, y, weak_rankers=Stumps(thresholds="all"))
    (0.0, 1.0)
    """
    table = to_numbers(X, "X")
    if table.ndim != 2:
        raise ValueError(
            f"X has shape {table.shape}; give one row per item, one column per feature"
        )
    judgments = _judgments(y, qid, pairs, len(table))
    weak = require_exhaustive(weak_rankers, "the best margin")
    with Context(1) as context:
        training = TrainingData.prepare(
            table, judgments, balance="pairs", max_bins=max_bins, context=context
        )
        layout = training.layout
        if layout.n_used_rows + layout.winner.size > MAX_LP_ROWS:
            raise ValueError(
                f"{layout.n_used_rows + layout.winner.size} rows and pairs are too many "
                f"for a linear programme (at most {MAX_LP_ROWS}); fit SmoothMarginRanker and read "
                "margin_interval_"
            )
        search = weak.start(training.table, context)
        search = search.restrict_to_positive() if nonnegative else search
        program = _LinearProgram(layout, nonnegative=nonnegative)
        while True:
            value, pull = program.solve()
            found = search.best(pull)
            if found is None or abs(found.edge) <= value + LP_TOLERANCE:
                return value
            if not program.add(found.weak_ranker, found.weak_ranker.on(training.table)):
                return value


def smooth_step(right: float, wrong: float, tied: float, smooth: float) -> float:
    """Return the step of smooth margin ranking along a ranker of values 0 and 1 (RS09 eq. 12).

    α = ln[ 2(1 − g)d₊ / (g d₀ + √(g²d₀² + 4(1 − g²)d₊d₋)) ] for the smooth margin g and the
    shares d₊, d₋, d₀ of the pair weights that the ranker puts in order, reverses and ties: the
    paper's equation with the fraction inverted, so that d₋ = 0 is no special case.

    Examples
    --------
    >>> round(smooth_step(0.7, 0.2, 0.1, smooth=0.3), 6)
    0.274849
    >>> smooth_step(0.7, 0.0, 0.3, smooth=0.0)         # nothing holds it back
    inf
    """
    pulled = smooth * tied
    root = math.sqrt(pulled * pulled + (1 - smooth) * (1 + smooth) * 4 * right * wrong)
    if pulled + root == 0:
        return math.inf if right > 0 else -math.inf
    return log_of(2 * (1 - smooth) * right / (pulled + root))


def progress_ratio(edge: float, smooth: float, tied: float) -> float:
    """Return the increase of the smooth margin by one step, relative to ``α (r - g) / s``.

    B(r, g, d₀) = (−ln τ / α − g) / (r − g), where τ = d₊e^(−α) + d₋e^α + d₀ and α is
    `smooth_step`: a step α to the norm s raises the smooth margin g by B·α(r − g)/s. Lemma 20
    states B > ½ where d₀ < ⅔(1 − r)(1 − r²), and theorem 7 follows from it.

    Parameters
    ----------
    edge : float
        r = d₊ − d₋, between 0 and 1.
    smooth : float
        g, at least 0 and below the edge. B tends to ½ as g tends to r; within 1e-8 of it
        rounding is all that is left.
    tied : float
        d₀, at least 0 and below 1 − r. It need not satisfy the condition of the lemma.

    References
    ----------
    Rudin & Schapire, JMLR 10 (2009), lemma 20 and figure 2.

    Examples
    --------
    >>> round(progress_ratio(0.5, 0.1, 0.01), 4)
    0.5231
    """
    if not 0 < edge < 1 or not 0 <= smooth < edge or not 0 <= tied < 1 - edge:
        given = f"edge={edge!r}, smooth={smooth!r}, tied={tied!r}"
        raise ValueError(f"{given}; give 0 <= smooth < edge < 1 and 0 <= tied < 1 - edge")
    right, wrong = (1 + edge - tied) / 2, (1 - edge - tied) / 2
    step = smooth_step(right, wrong, tied, smooth)
    # τ - 1 without cancellation, for the small steps where the smooth margin is near the edge
    fall = -math.log1p(right * math.expm1(-step) + wrong * math.expm1(step))
    return (fall / step - smooth) / (edge - smooth)


def _judgments(
    y: VectorLike, qid: ArrayLike | None, pairs: ArrayLike | None, rows: int
) -> Judgments:
    judgments = read_judgments(rows, y, qid=qid, pairs=pairs)[0]
    refuse_ties(judgments)
    return judgments  # unchanged: rows of weight 0 are left out


def refuse_ties(judgments: Judgments) -> None:
    """Raise ValueError for judged ties, which count in both directions: no margin is positive."""
    if judgments.ties is not None and len(judgments.ties):
        raise ValueError(
            f"the Judgments hold {len(judgments.ties)} ties, and a tie has no margin: one of its "
            "two directions is never positive; leave the ties out, or learn with RankBoost"
        )


class _LinearProgram:
    """Maximize r such that the scores of every pair differ by at least r, over some rankers.

    Let ``u_l`` be at least every score below level l of a query. The rows of the program, each at
    most 0 (the last at most 1):

        f_k - u_{l+1}       item k of level l, unless it is the top
        u_l - u_{l+1}       levels between bottom and top
        r + u_l - f_i       item i of level l, unless it is the bottom
        r + f_k - f_i       listed pairs
        sum |weight|

    The dual solution is a distribution over pairs; summed for each item it is a pull.
    """

    def __init__(self, layout: QueryLayout, *, nonnegative: bool = False):
        self._items, self._fixed = _structure(layout)
        self._nonnegative = nonnegative
        self._columns: list[Floats] = []
        self._rankers: set[WeakRanker] = set()

    def add(self, weak_ranker: WeakRanker, values: Array) -> bool:
        """Add a ranker, unless it is present."""
        if weak_ranker in self._rankers:
            return False
        self._rankers.add(weak_ranker)
        self._columns.append(self._items @ values.astype(np.float64))
        return True

    def solve(self) -> tuple[float, Floats]:
        """Return the best margin of the rankers so far, and the pull of the dual solution."""
        rows, free = self._fixed.shape
        columns = np.array(self._columns).reshape(-1, rows).T
        signed = columns if self._nonnegative else np.hstack([columns, -columns])
        count = signed.shape[1]
        norm = np.concatenate([np.ones(count), np.zeros(free)])
        matrix = scipy.sparse.vstack(
            [scipy.sparse.hstack([scipy.sparse.csr_array(signed), self._fixed]), norm[None, :]]
        )
        cost = np.zeros(count + free)
        cost[-1] = -1.0  # r comes last
        limits = np.append(np.zeros(rows), 1.0)
        bounds = [(0.0, None)] * count + [(None, None)] * (free - 1) + [(0.0, None)]
        answer = scipy.optimize.linprog(
            cost, A_ub=matrix.tocsc(), b_ub=limits, bounds=bounds, method="highs-ds",
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )  # fmt: skip
        if answer.status != 0:
            raise RuntimeError(f"the linear programme was not solved: {answer.message}")
        duals = -answer.ineqlin.marginals[:rows]
        return max(0.0, float(-answer.fun)), np.asarray(-(self._items.T @ duals))


def _structure(
    layout: QueryLayout,
) -> tuple[scipy.sparse.csr_array, scipy.sparse.csr_array]:
    """Return the rows of the program: coefficients of the items' scores, and of u and r."""
    graded = layout.n_graded
    sizes = np.diff(layout.level_start)
    level = np.repeat(np.arange(sizes.size), sizes)
    bottom = np.zeros(sizes.size + 1, bool)
    bottom[layout.query_start[:-1]] = True
    bottom[-1] = True
    top = bottom[1:]
    below, above = np.flatnonzero(~top[level]), np.flatnonzero(~bottom[:-1][level])
    between = np.flatnonzero(~top & ~bottom[:-1])
    winner, loser = layout.winner, layout.loser
    starts = np.cumsum([0, below.size, between.size, above.size, winner.size])
    chain, up, listed = (np.arange(starts[j], starts[j + 1]) for j in (1, 2, 3))
    items = _sparse(
        [(np.arange(below.size), below, 1.0), (up, above, -1.0), (listed, loser, 1.0),
         (listed, winner, -1.0)],
        (int(starts[-1]), max(layout.n_used_rows, graded)),
    )  # fmt: skip
    last = sizes.size
    rate = np.zeros(up.size, np.int64) + last, np.zeros(listed.size, np.int64) + last
    fixed = _sparse(
        [(np.arange(below.size), level[below] + 1, -1.0), (chain, between, 1.0),
         (chain, between + 1, -1.0), (up, level[above], 1.0), (up, rate[0], 1.0),
         (listed, rate[1], 1.0)],
        (int(starts[-1]), last + 1),
    )  # fmt: skip
    return items, fixed


def _sparse(
    parts: list[tuple[Array, Array, float]], shape: tuple[int, int]
) -> scipy.sparse.csr_array:
    row = np.concatenate([part[0] for part in parts])
    column = np.concatenate([part[1] for part in parts])
    value = np.concatenate([np.full(part[0].size, part[2]) for part in parts])
    return scipy.sparse.csr_array((value, (row, column)), shape)


# -- kernels ---------------------------------------------------------------------------------

# Items of a query are sorted by increasing score; a Fenwick tree over grades holds those in reach.
#
#     score   . . . . k . . . . i . . .     as i moves right, items too far below it leave on
#             gone ---| within θ, or above  the left; of the rest, those of lower grade than i
#                                           make crucial pairs with it of margin at most θ


@njit(cache=True, nogil=True)
def _count_small(
    starts: Integers, grade: Integers, score: Floats, norm: float, theta: float, tree: Floats
) -> float:
    """Count crucial pairs with (s_i − s_k)/norm ≤ theta.

    `tree` is a Fenwick tree of zeros over all grades; it is zero again on return.
    """
    pairs = 0.0
    for query in range(starts.size - 1):
        first, end = starts[query], starts[query + 1]
        for item in range(first, end):
            add_to_fenwick_tree(tree, grade[item] + 1, 1.0)
        for item in range(first, end):
            while first < end and (score[item] - score[first]) / norm > theta:
                add_to_fenwick_tree(tree, grade[first] + 1, -1.0)
                first += 1
            pairs += sum_of_fenwick_tree(tree, grade[item])
        for item in range(first, end):
            add_to_fenwick_tree(tree, grade[item] + 1, -1.0)
    return pairs
