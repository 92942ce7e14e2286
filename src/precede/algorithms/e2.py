"""E2, the exponential loss of RankBoost+, for ensembles of binary weak rankers (C19)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray

from precede.engine.arrays import Array, Bytes, Floats, MatrixLike
from precede.engine.execution import Context
from precede.engine.query_layout import QueryLayout, why_no_pair
from precede.estimator import BaseRanker
from precede.judgments import Judgments
from precede.model import Ensemble
from precede.risks.pair_weights import PairWeights, free_memory
from precede.weak_rankers.base import WeakRanker
from precede.weak_rankers.candidates import LinearSpan

# Coefficients of a linear combination below this are rounding errors.
COEFFICIENT_ROUNDING = 1e-9
# If absolute steps add up to more than this, the weight of a pair may underflow to 0 and stay 0.
MAX_TOTAL_STEP = 300.0


def e2_loss(
    model: BaseRanker | Ensemble,
    X: MatrixLike,
    judgments: Judgments,
    *,
    balance: str = "pairs",
    independent: bool = False,
    n_jobs: int | None = None,
) -> float:
    """Return E2 of an ensemble of weak rankers with values 0 and 1 (C19 eqs. 22 to 24).

    This is the mean over crucial pairs of ``prod_s omega_s``. For a weak ranker s of total weight
    eta_s, omega_s is ``exp(-eta_s)`` on pairs in order, ``exp(eta_s)`` on reversed pairs and
    ``cosh(eta_s)`` on tied pairs. It is an upper bound of the share of misordered pairs with ties
    counting half (proposition 2), and of E1, the plain exponential loss.

    Parameters
    ----------
    model : fitted estimator (`RankBoost`, `RankBoostPlus`, ...) or Ensemble
        All its weak rankers must take the values 0 and 1 on `X`: stumps, or binary columns.
        Weights of equal weak rankers are added up.
    X : array, data frame or sparse matrix
    judgments : Judgments
    balance : {"pairs", "queries", "items"}
        Weighting of queries, as in `RankBoost`.
    independent : bool
        E2 is a function of the weights, not of the scores: two weighted sums with the same scores
        can differ in E2. With True the scores are first rewritten as a weighted sum of the weak
        rankers that were linearly independent (as vectors over pairs) of all earlier ones when they
        entered the ensemble. The paper evaluates RB-D and RB-C this way (section 5). It makes no
        difference for `RankBoostPlus`.
    n_jobs : int, optional
        Number of threads; the result does not depend on it.

    Notes
    -----
    Returns ``inf`` if E2 exceeds the largest floating-point number. Takes O(pairs) time for each
    distinct weak ranker, 8 bytes for each pair (there is no matrix of pairs times weak rankers) and
    one byte for each row and weak ranker. ``independent=True`` adds O(n r²) for every weak ranker
    that depends on the r kept so far.

    References
    ----------
    Connamacher, Pancha, Liu & Ray, *RankBoost+: an improvement to RankBoost*, Machine
    Learning, 2019.

    Examples
    --------
    >>> from precede import Judgments, RankBoost, RankBoostPlus, e2_loss
    >>> X, y = [[0, 1], [1, 0], [1, 1], [2, 0], [2, 1]], [0, 1, 0, 1, 2]
    >>> judgments = Judgments(y)
    >>> plus = RankBoostPlus(n_estimators=4).fit(X, y)
    >>> float(round(plus.history_["risk"][-1], 4)), round(e2_loss(plus, X, judgments), 4)
    (0.712, 0.712)
    >>> model = RankBoost(n_estimators=4, step="bound", learning_rate=1.0)
    >>> round(e2_loss(model.fit(X, y), X, judgments), 4)
    0.9925
    """
    with Context(n_jobs) as context:
        pairs = _Pairs(model, X, judgments, balance, independent, context)
        for _ in pairs.steps():
            pass
        return pairs.value()


def staged_e2_loss(
    model: BaseRanker | Ensemble,
    X: MatrixLike,
    judgments: Judgments,
    *,
    balance: str = "pairs",
    independent: bool = False,
    n_jobs: int | None = None,
) -> Floats:
    """Return E2 after each weak ranker of an ensemble: `e2_loss` over the boosting rounds.

    A round adds one weak ranker, except a round of ``RankBoostPlus(search="optimal")`` along a
    combination, which adds several. Parameters and memory are those of `e2_loss`. O(pairs) for
    each round, as long as the absolute steps add up to at most 300; O(pairs · weak rankers) after.

    Returns
    -------
    array with one value for each weak ranker of the ensemble, in order

    Examples
    --------
    >>> from precede import Judgments, RankBoost, staged_e2_loss
    >>> X, y = [[0, 1], [1, 0], [1, 1], [2, 0], [2, 1]], [0, 1, 0, 1, 2]
    >>> model = RankBoost(n_estimators=4, step="bound", learning_rate=1.0).fit(X, y)
    >>> staged_e2_loss(model, X, Judgments(y)).round(3)
    array([0.781, 0.872, 0.817, 0.993])
    """
    with Context(n_jobs) as context:
        pairs = _Pairs(model, X, judgments, balance, independent, context)
        weights, total_step, stages = PairWeights(pairs.layout, context), 0.0, []
        for changes in pairs.steps():
            for weak_ranker, before, step in changes:
                total_step += abs(step)
                if total_step <= MAX_TOTAL_STEP:
                    weights.advance(pairs.values[weak_ranker], before=before, step=step)
            exact = total_step <= MAX_TOTAL_STEP
            stages.append(float(np.exp(weights.log_risk)) if exact else pairs.value())
    return np.array(stages)


class _Pairs:
    """Pairs of judgments, with values and accumulated weights of the weak rankers."""

    def __init__(
        self, model: BaseRanker | Ensemble, X: MatrixLike, judgments: Judgments, balance: str,
        independent: bool, context: Context,
    ):  # fmt: skip
        self._ensemble, rows = _check_input(model, X, judgments)
        self._context = context
        layout = judgments.to_layout(balance)
        if layout.total <= 0:
            raise ValueError(why_no_pair(judgments))
        _check_memory(layout)
        rows = rows[layout.order]
        values = {
            weak_ranker: _binary_values(weak_ranker, rows)
            for weak_ranker in dict.fromkeys(self._ensemble.weak_rankers)
        }
        self.layout, old = layout.reorder(_keys(values.values(), layout))
        self.values = {weak_ranker: each[old] for weak_ranker, each in values.items()}
        self._eta = dict.fromkeys(self.values, 0.0)
        self._parts = _IndependentRankers(self.layout, self.values) if independent else None

    def steps(self) -> Iterator[list[tuple[WeakRanker, float, float]]]:
        """Yield the weight changes of each weak ranker: weak ranker, old weight, change."""
        for weak_ranker, weight in self._ensemble.parts():
            parts = self._parts.of(weak_ranker) if self._parts else [(weak_ranker, 1.0)]
            changes = [(part, self._eta[part], weight * share) for part, share in parts]
            for part, before, step in changes:
                self._eta[part] = before + step
            yield changes

    def value(self) -> float:
        """Return E2 for the weights so far, by its definition."""
        used = {weak_ranker: eta for weak_ranker, eta in self._eta.items() if eta != 0}
        eta = np.array(list(used.values()))
        if not eta.size:
            return 1.0
        start = PairWeights(self.layout, self._context)
        values = [self.values[weak_ranker] for weak_ranker in used]
        return start.along(values, np.zeros(eta.size), eta, 1.0)[0]


def _check_input(
    model: BaseRanker | Ensemble, X: MatrixLike, judgments: Judgments
) -> tuple[Ensemble, Array]:
    """Validate the input; return the ensemble and the rows as an array."""
    ensemble = getattr(model, "ensemble_", model)
    if not isinstance(ensemble, Ensemble):
        raise ValueError(
            f"{type(model).__name__} has no ensemble of weak rankers; give a fitted estimator "
            "such as RankBoost, or an Ensemble"
        )
    if not isinstance(judgments, Judgments):
        raise ValueError(
            f"judgments is {type(judgments).__name__}; give Judgments, for instance "
            "Judgments(y, qid)"
        )
    rows: MatrixLike = (
        np.asarray(X) if isinstance(model, Ensemble) else model._validated(X, reset=False)
    )
    rows = rows.toarray() if scipy.sparse.issparse(rows) else rows  # weak rankers read columns
    ensemble.check_width(rows)
    if len(rows) != len(judgments):
        raise ValueError(
            f"X has {len(rows)} rows and judgments have {len(judgments)}; give one judgment a row"
        )
    return ensemble, rows


def _check_memory(layout: QueryLayout) -> None:
    needed, free = 2 * PairWeights.bytes_needed(layout), free_memory()
    if needed > free:
        raise ValueError(
            f"E2 keeps a weight for each pair and needs about {needed / 1e9:.3g} GB, but "
            f"{free / 1e9:.3g} GB are free; use fewer rows or shorter queries"
        )


def _binary_values(weak_ranker: WeakRanker, rows: Array) -> Bytes:
    """Return the values of a weak ranker; raise ValueError unless they are 0 and 1."""
    values = np.asarray(weak_ranker(rows))
    other = values[(values != 0) & (values != 1)]
    if other.size:
        raise ValueError(
            f"{weak_ranker} takes the value {other[0]:.6g}: E2 is defined for weak rankers with "
            "values 0 and 1 (fit with weak_rankers='stumps'); for real-valued rankers use "
            "PairRisk('exponential'), which is E1"
        )
    return values.astype(np.uint8)


def _keys(values: Iterable[Bytes], layout: QueryLayout) -> NDArray[np.uint64]:
    """Return sort keys of the rows, so that E2 does not depend on row order."""
    generator = np.random.default_rng(0)
    keys = layout.weight.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for each in values:
        keys ^= each * generator.integers(0, 2**64, dtype=np.uint64)
    return keys


class _IndependentRankers:
    """Weak rankers as linear combinations of those that are linearly independent over pairs."""

    def __init__(self, layout: QueryLayout, values: dict[WeakRanker, Bytes]):
        self._span = LinearSpan(layout, min(len(values), layout.n_used_rows))
        self._values = values
        self._kept: list[WeakRanker] = []
        self._parts: dict[WeakRanker, list[tuple[WeakRanker, float]]] = {}

    def of(self, weak_ranker: WeakRanker) -> list[tuple[WeakRanker, float]]:
        """Return the combination that equals a weak ranker; keep the latter if independent."""
        if weak_ranker not in self._parts:
            rest = self._span.residual(self._span.vector(self._values[weak_ranker]))
            if rest.any():
                self._span.add(rest)
                self._kept.append(weak_ranker)
                self._parts[weak_ranker] = [(weak_ranker, 1.0)]
            else:
                self._parts[weak_ranker] = self._combination(weak_ranker)
        return self._parts[weak_ranker]

    def _combination(self, weak_ranker: WeakRanker) -> list[tuple[WeakRanker, float]]:
        if not self._kept:  # the weak ranker ties every pair
            return []
        known = [self._values[each] for each in self._kept]
        solution = coefficients(self._span, known, [self._values[weak_ranker]])[:, 0]
        shares = zip(self._kept, solution.tolist(), strict=True)
        return [(each, share) for each, share in shares if share != 0]


def coefficients(span: LinearSpan, known: Sequence[Bytes], wanted: Sequence[Bytes]) -> Floats:
    """Return the coefficients, one column each, of weak rankers in the span of `known`."""
    left, right = (
        np.stack([span.centered(values) for values in each], axis=1) for each in (known, wanted)
    )
    solution = scipy.linalg.lstsq(left, right)[0]
    solution[np.abs(solution) < COEFFICIENT_ROUNDING] = 0.0
    return solution
