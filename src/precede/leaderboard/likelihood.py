"""Bradley-Terry strengths by Newton's method, with ties and further effects.

The comparison of a and b has the log-odds d = θ_a − θ_b + x·γ, where x holds the sign of the side
shown first and the differences of the controls. A tie is half a win for each side, or has its own
probability (Davidson, 1970):

    P(a) = e^{d/2} / D,   P(b) = e^{−d/2} / D,   P(tie) = ν / D,   D = e^{d/2} + e^{−d/2} + ν.

Without ties both are the model of Bradley and Terry, whose Hessian in θ is the Laplacian of the
graph of comparisons.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.linalg import splu

from precede.engine.arrays import Floats, Integers
from precede.engine.exact import exact_sum, sums_at
from precede.votes import Counts

TOLERANCE = 1e-10  # of a Newton step
MOST_STEPS = 100
LARGEST = 30.0  # effects that grow beyond are infinite
DENSE = 0.05  # share of nonzeros above which a dense factorization is faster


@dataclass(frozen=True, eq=False)
class Fit:
    """Maximum-likelihood estimates.

    `theta` are the strengths, with mean 0; `gamma` the effects of the columns of the design;
    `log_ties` is log ν, None for a model without ν.
    """

    theta: Floats
    gamma: Floats
    log_ties: float | None

    def log_odds(self, counts: Counts) -> Floats:
        """Return d of every comparison."""
        return self.theta[counts.a] - self.theta[counts.b] + counts.design @ self.gamma

    def probabilities(self, log_odds: Floats) -> Floats:
        """Return the probabilities of a, of b and of a tie; shape (..., 3)."""
        high = np.abs(log_odds) / 2  # the larger of the exponents, so that none overflows
        one, other = np.exp(log_odds / 2 - high), np.exp(-log_odds / 2 - high)
        tie = np.zeros_like(high) if self.log_ties is None else np.exp(self.log_ties - high)
        return np.stack([one, other, tie], axis=-1) / (one + other + tie)[..., None]

    def scores(self, log_odds: Floats) -> tuple[Floats, Floats]:
        """Return the derivatives of the log-likelihood of each outcome in d and in log ν.

        Both have the shape (..., 3).
        """
        p = self.probabilities(log_odds)
        in_d = np.array([0.5, -0.5, 0.0]) - 0.5 * (p[..., :1] - p[..., 1:2])
        in_ties = np.array([0.0, 0.0, 1.0]) - p[..., 2:]
        return in_d, in_ties

    def curvature(self, log_odds: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the negative second derivatives, in d twice, in d and log ν, in log ν twice."""
        p = self.probabilities(log_odds)
        lead = p[..., 0] - p[..., 1]
        return ((p[..., 0] + p[..., 1] - lead**2) / 4, -lead * p[..., 2] / 2,
                p[..., 2] * (1 - p[..., 2]))  # fmt: skip


class Information:
    """The negative Hessian: a Laplacian in θ, bordered by the columns of the other effects.

    Without a ridge it is singular: a constant added to all strengths changes nothing. Solutions
    then have strengths with mean 0.
    """

    def __init__(self, counts: Counts, fit: Fit, ridge: float):
        self.n, self.ridge = fit.theta.size, ridge
        votes = counts.weight.sum(axis=1)
        dd, dt, tt = (votes * each for each in fit.curvature(fit.log_odds(counts)))
        self._factor(counts.a, counts.b, dd)
        columns = [dd * x for x in counts.design.T] + ([] if fit.log_ties is None else [dt])
        border = [sums_at(counts.a, c, self.n) - sums_at(counts.b, c, self.n) for c in columns]
        self.border = np.array(border).reshape(-1, self.n).T
        corner = [[exact_sum(x * c) for c in columns] for x in counts.design.T]
        if fit.log_ties is not None:
            corner.append([*(exact_sum(x * dt) for x in counts.design.T), exact_sum(tt)])
        self._inside = self._solve(self.border)
        self.schur = (
            np.array(corner).reshape(len(columns), len(columns)) - self.border.T @ self._inside
        )

    def _factor(self, a: Integers, b: Integers, weight: Floats) -> None:
        """Factor the Laplacian, without its last item if it is singular."""
        key, where = np.unique(a * self.n + b, return_inverse=True)
        edge = sums_at(where, weight, key.size)
        one, other = np.divmod(key, self.n)
        degree = sums_at(np.append(one, other), np.append(edge, edge), self.n) + self.ridge
        every = np.arange(self.n)
        matrix = scipy.sparse.csc_matrix(
            (np.concatenate([-edge, -edge, degree]),
             (np.concatenate([one, other, every]), np.concatenate([other, one, every]))),
            shape=(self.n, self.n),
        )  # fmt: skip
        self._kept = self.n if self.ridge else self.n - 1
        matrix = matrix[: self._kept, : self._kept]
        if matrix.nnz > DENSE * self.n**2:
            dense = cho_factor(matrix.toarray(), lower=True) if self._kept else None
            self._factored = lambda b: cho_solve(dense, b) if self._kept else b
        else:
            options = {"SymmetricMode": True, "DiagPivotThresh": 0.0}
            factors = splu(matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", options=options)
            self._factored = factors.solve

    def _solve(self, right: Floats) -> Floats:
        found = np.zeros_like(right)
        if right.size:
            found[: self._kept] = self._factored(right[: self._kept])
        return found if self.ridge else found - found.mean(axis=0)

    def solve(self, theta: Floats, others: Floats) -> tuple[Floats, Floats]:
        """Solve for the strengths and the other effects; right sides may have several columns."""
        if not others.shape[0]:
            return self._solve(theta), others
        found = np.linalg.solve(self.schur, others - self._inside.T @ theta)
        return self._solve(theta) - self._inside @ found, found

    def inverse(self) -> Floats:
        """Return the inverse of the whole matrix, on strengths with mean 0 if singular."""
        q = self.border.shape[1]
        right = np.eye(self.n + q)
        if not self.ridge:
            right[: self.n, : self.n] -= 1 / self.n
        inverse = np.concatenate(self.solve(right[: self.n], right[self.n :]))
        return (inverse + inverse.T) / 2


def fit_strengths(
    counts: Counts, n: int, *, davidson: bool, ridge: float = 0.0,
    start: Fit | None = None, names: tuple[str, ...] = (),
) -> Fit:  # fmt: skip
    """Maximize the likelihood, less ridge / 2 · Σ θ².

    The penalty does not apply to the other effects. `names` has the names of the columns of the
    design, for error messages.
    """
    weight = counts.weight
    ties = exact_sum(weight[:, 2])
    if davidson and ties:
        decisive = exact_sum(weight[:, :2].ravel())
        if not decisive:
            raise ValueError("all votes are ties: no item is above another; add decisive votes")
        first: float | None = float(np.log(2 * ties / decisive))
    else:
        first = None
        half = weight[:, 2:] / 2
        weight = np.concatenate([weight[:, :2] + half, np.zeros_like(half)], axis=1)
    counts = replace(counts, weight=weight)
    fit = start or Fit(np.zeros(n), np.zeros(counts.design.shape[1]), first)
    if first is None or fit.log_ties is None:  # the start may have been fitted with or without ties
        fit = replace(fit, log_ties=first)
    value = _log_likelihood(counts, fit, ridge)
    for _ in range(MOST_STEPS):
        step = _newton_step(counts, fit, ridge)
        size = 1.0
        while True:
            tried = Fit(
                fit.theta + size * step[0], fit.gamma + size * step[1],
                None if fit.log_ties is None else fit.log_ties + size * float(step[2][0]),
            )  # fmt: skip
            new = _log_likelihood(counts, tried, ridge)
            if new >= value - 1e-9 * abs(value) or size < 1e-6:
                break
            size /= 2
        fit, value = tried, new
        _refuse_infinite(fit, names)
        if max(np.abs(each).max(initial=0.0) for each in step) * size < TOLERANCE:
            return fit
    raise ValueError(f"the strengths did not converge in {MOST_STEPS} steps of Newton's method")


def _newton_step(counts: Counts, fit: Fit, ridge: float) -> tuple[Floats, Floats, Floats]:
    log_odds = fit.log_odds(counts)
    in_d, in_ties = fit.scores(log_odds)
    pull = (counts.weight * in_d).sum(axis=1)
    gradient = sums_at(counts.a, pull, fit.theta.size) - sums_at(counts.b, pull, fit.theta.size)
    others = [np.array([exact_sum(x * pull) for x in counts.design.T])]
    if fit.log_ties is not None:
        others.append(np.array([exact_sum((counts.weight * in_ties).ravel())]))
    information = Information(counts, fit, ridge)
    try:
        theta, rest = information.solve(gradient - ridge * fit.theta, np.concatenate(others))
    except np.linalg.LinAlgError as error:
        raise ValueError(
            "the controls cannot be told apart from each other or from the items; leave one out"
        ) from error
    columns = counts.design.shape[1]
    # A constant added to all strengths changes nothing: do not drift by rounding.
    return theta - theta.mean(), rest[:columns], rest[columns:]


def _log_likelihood(counts: Counts, fit: Fit, ridge: float) -> float:
    log_odds = fit.log_odds(counts)
    p = fit.probabilities(log_odds)
    seen = counts.weight > 0
    with np.errstate(divide="ignore"):  # a step too far has probability 0
        terms = counts.weight[seen] * np.log(p[seen])
    return exact_sum(terms) - ridge / 2 * exact_sum(fit.theta**2)


def _refuse_infinite(fit: Fit, names: tuple[str, ...]) -> None:
    far = np.flatnonzero(np.abs(fit.gamma) > LARGEST)
    if far.size:
        raise ValueError(
            f"the effect of {names[far[0]]!r} is infinite: it alone decides votes, or does not "
            "vary within pairs; leave it out"
        )
