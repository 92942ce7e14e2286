"""RankBoost+ again, transcribed from C19 over explicit pairs and explicit candidates.

A ranker is a list of 0s and 1s, one for each row; as a vector over pairs it is
h(winner) - h(loser), a column of the paper's matrix R. Equation numbers are the paper's.
"""

import math
from dataclasses import dataclass, field

import numpy as np
import scipy.optimize

import naive

TIE = 2.0**-40


@dataclass
class Plus:
    """What a transcription gives: the ranker of each round, its step, E2 after it."""

    chosen: list = field(default_factory=list)
    steps: list = field(default_factory=list)
    slopes: list = field(default_factory=list)
    risk: list = field(default_factory=list)
    eta: dict = field(default_factory=dict)
    combined: list = field(default_factory=list)


def pair_mass(judgments, balance="pairs"):
    """D_1: the share of every pair in the total weight."""
    loser_weight = naive.loser_weights(judgments, balance)
    mass = np.array([p.inner * loser_weight[p.loser] for p in naive.list_pairs(judgments)])
    return mass / math.fsum(mass)


def over_pairs(judgments, ranker):
    """Turn a ranker into a vector over pairs: 1 in order, -1 reversed, 0 tied."""
    pairs = naive.list_pairs(judgments)
    return np.array([int(ranker[p.winner]) - int(ranker[p.loser]) for p in pairs])


def different(judgments, weak_rankers):
    """Numbers of the rankers that order some pair, without equal and opposite ones."""
    kept, seen = [], set()
    for number, ranker in enumerate(weak_rankers):
        column = over_pairs(judgments, ranker)
        key, opposite = tuple(column), tuple(-column)
        if column.any() and key not in seen and opposite not in seen:
            kept.append(number)
            seen.add(key)
    return kept


def stumps(X, judgments):
    """Candidates of the paper: thresholds, missing values below all others, no duplicates."""
    pairs = naive.list_pairs(judgments)
    rows = sorted({row for pair in pairs for row in (pair.winner, pair.loser)})
    listed = [stump for stump in naive.candidates(np.asarray(X)[rows]) if stump.missing == 0]
    values = [stump.values(X) for stump in listed]
    kept = different(judgments, values)
    return [listed[j] for j in kept], [values[j] for j in kept]


def rank(columns):
    return 0 if not columns else int(np.linalg.matrix_rank(np.array(columns, float).T))


def in_span(columns, column):
    return rank([*columns, column]) == rank(columns)


def f2(columns, eta, mass):
    """F2 (eqs. 22 and 23): the mean over pairs of the product of omega."""
    total = np.zeros(mass.size)
    for column, weight in zip(columns, eta, strict=True):
        log_cosh = np.logaddexp(weight, -weight) - math.log(2)
        total += np.where(column == 0, log_cosh, -weight * column)
    return math.fsum(mass * np.exp(total))


def e2(judgments, weak_rankers, weights, balance="pairs"):
    """Eq. 24 for rankers and the weights of the rounds: weights of equal rankers add up."""
    eta = {}
    for ranker, weight in zip(weak_rankers, weights, strict=True):
        eta[ranker] = eta.get(ranker, 0.0) + weight
    columns = [over_pairs(judgments, ranker) for ranker in eta]
    return f2(columns, eta.values(), pair_mass(judgments, balance))


def e2_independent(judgments, weak_rankers, weights, balance="pairs"):
    """Section 5: F2 over an independent set that grows with the rounds, scores unchanged."""
    kept, eta = [], np.zeros(0)
    for ranker, weight in zip(weak_rankers, weights, strict=True):
        column = over_pairs(judgments, ranker)
        if not in_span(kept, column):
            kept.append(column)
            eta = np.append(eta, weight)
        elif kept:
            beta = np.linalg.lstsq(np.array(kept, float).T, column.astype(float), rcond=None)[0]
            eta = eta + weight * beta
    return f2(kept, eta, pair_mass(judgments, balance))


def f2_gradient(columns, eta, mass):
    """Eq. 31 for every ranker."""
    total = np.zeros(mass.size)
    slopes = []
    for column, weight in zip(columns, eta, strict=True):
        log_cosh = np.logaddexp(weight, -weight) - math.log(2)
        total += np.where(column == 0, log_cosh, -weight * column)
        slopes.append(np.where(column == 0, math.tanh(weight), -column))
    weights = mass * np.exp(total)
    return np.array([math.fsum(weights * slope) for slope in slopes])


def least_f2(columns, mass):
    """The least F2 over all weights, by SciPy."""
    with np.errstate(over="ignore"):  # far beyond the least it may be infinite
        found = scipy.optimize.minimize(
            lambda eta: f2(columns, eta, mass), np.zeros(len(columns)), method="BFGS",
            jac=lambda eta: f2_gradient(columns, eta, mass), options={"gtol": 1e-12},
        )  # fmt: skip
    return float(found.fun), found.x


def split(column, weights):
    """epsilon+, epsilon-, epsilon0 (eq. 8)."""
    return tuple(math.fsum(weights[column == side]) for side in (1, -1, 0))


def slope(column, weights, before):
    """delta (eq. 33)."""
    right, wrong, tied = split(column, weights)
    return wrong - right + tied * math.sinh(before) / math.cosh(before)


def orders_all(column):
    """Whether a ranker orders all pairs rightly, or all wrongly."""
    return abs(column.sum()) == column.size


def step_of(column, weights, before, smoothing, rate=1.0):
    """alpha (eq. 34); a ranker that orders all pairs comes first, and its step is whole."""
    right, wrong, tied = split(column, weights)
    if orders_all(column):
        return math.copysign(math.log(1 + 1 / smoothing), right - wrong)
    up = right + tied * math.exp(-before) / (2 * math.cosh(before))
    down = wrong + tied * math.exp(before) / (2 * math.cosh(before))
    if min(up, down) < 1e-15:
        up, down = up + smoothing, down + smoothing
    return rate * 0.5 * math.log(up / down)


def updated(column, weights, before, step):
    """Eqs. 25 and 26; gives also Z."""
    omega = np.where(
        column == 0, math.cosh(step + before) / math.cosh(before), np.exp(-step * column)
    )
    total = math.fsum(weights * omega)
    return weights * omega / total, total


def algorithm_1(judgments, weak_rankers, *, rounds, balance="pairs"):
    """Algorithm 1 with eqs. 32, 34 and 26: every ranker has its weight, whatever its span."""
    columns = [over_pairs(judgments, ranker) for ranker in weak_rankers]
    weights = pair_mass(judgments, balance)
    smoothing = 0.5 / naive.pair_count(judgments)
    eta, result, risk = np.zeros(len(columns)), Plus(), 1.0
    for _ in range(rounds):
        slopes = [slope(c, weights, e) for c, e in zip(columns, eta, strict=True)]
        chosen = naive.first_of_the_best([abs(d) if abs(d) > 1e-14 else 0.0 for d in slopes], TIE)
        if chosen is None:
            break
        alpha = step_of(columns[chosen], weights, eta[chosen], smoothing)
        weights, z = updated(columns[chosen], weights, eta[chosen], alpha)
        eta[chosen] += alpha
        risk *= z
        result.chosen.append(chosen)
        result.steps.append(alpha)
        result.slopes.append(slopes[chosen])
        result.risk.append(risk)
        if orders_all(columns[chosen]):
            break
    return result


def select_independent_subset(columns, candidates, inside, order):
    """Line 15 of Algorithm 2: a maximal independent subset of R outside the span of S."""
    kept, span = [], [columns[j] for j in inside]
    for number in sorted(candidates, key=order.index):
        if not in_span(span, columns[number]):
            kept.append(number)
            span.append(columns[number])
    return kept


def algorithm_2(judgments, weak_rankers, *, rounds, order=None, learning_rate=1.0, balance="pairs"):
    """Algorithm 2, line by line; `order` is the permutation of line 15.

    A ranker of R must be better than one of S by more than rounding.
    """
    columns = [over_pairs(judgments, ranker) for ranker in weak_rankers]
    order = list(range(len(columns))) if order is None else order
    weights = pair_mass(judgments, balance)
    smoothing = 0.5 / naive.pair_count(judgments)
    outside, inside, eta = set(range(len(columns))), [], {}
    greedy, result, risk = True, Plus(), 1.0
    for _ in range(rounds):
        over_s = [abs(slope(columns[j], weights, eta[j])) for j in inside]  # line 8
        chosen = None
        if greedy:
            over_r = [abs(slope(c, weights, 0.0)) if j in outside else 0.0
                      for j, c in enumerate(columns)]  # fmt: skip  # line 10
            if max(over_r, default=0.0) > max(max(over_s, default=0.0) * (1 + TIE), 1e-14):
                chosen = naive.first_of_the_best(over_r, TIE)
                outside.discard(chosen)  # line 13
                if in_span([columns[j] for j in inside], columns[chosen]):  # line 14
                    fresh = select_independent_subset(columns, outside, inside, order)
                    inside += fresh
                    eta |= dict.fromkeys(fresh, 0.0)
                    over_s = [abs(slope(columns[j], weights, eta[j])) for j in inside]
                    greedy, chosen = False, None
        if chosen is None:  # line 23
            worth = [d if d > 1e-14 else 0.0 for d in over_s]
            index = naive.first_of_the_best(worth, TIE)
            if index is None:
                break
            chosen = inside[index]
        before = eta.get(chosen, 0.0)
        delta = slope(columns[chosen], weights, before)
        alpha = step_of(columns[chosen], weights, before, smoothing, learning_rate)
        if chosen not in eta:
            inside.append(chosen)
        eta[chosen] = before + alpha
        weights, z = updated(columns[chosen], weights, before, alpha)
        risk *= z
        result.chosen.append(chosen)
        result.steps.append(alpha)
        result.slopes.append(delta)
        result.risk.append(risk)
        if orders_all(columns[chosen]):
            break
    result.eta = eta
    return result


def optimal(judgments, weak_rankers, *, rounds, balance="pairs"):
    """All directions (section 4): the slope along beta / |beta| for candidates in the span."""
    columns = [over_pairs(judgments, ranker) for ranker in weak_rankers]
    mass = pair_mass(judgments, balance)
    smoothing = 0.5 / naive.pair_count(judgments)
    inside, eta, result = [], np.zeros(0), Plus()
    for _ in range(rounds):
        s = [columns[j] for j in inside]
        weights = mass * np.exp(_exponents(s, eta, mass.size))
        weights = weights / math.fsum(weights)
        over_s = np.array([slope(c, weights, e) for c, e in zip(s, eta, strict=True)])
        slopes, parts = [], {}
        for j, column in enumerate(columns):
            if j in inside:
                slopes.append(0.0)
            elif in_span(s, column):
                beta = np.linalg.lstsq(np.array(s, float).T, column.astype(float), rcond=None)[0]
                parts[j] = beta / np.linalg.norm(beta)
                slopes.append(float(over_s @ parts[j]))
            else:
                slopes.append(slope(column, weights, 0.0))
        most, within = max(map(abs, slopes), default=0.0), np.abs(over_s).max(initial=0.0)
        if max(most, within) <= 1e-14:
            break
        if most > within * (1 + TIE):
            chosen = naive.first_of_the_best([abs(d) for d in slopes], TIE)
            delta = slopes[chosen]
        else:
            index = naive.first_of_the_best(np.abs(over_s).tolist(), TIE)
            chosen, delta = inside[index], float(over_s[index])
        if chosen in parts:
            line = scipy.optimize.minimize_scalar(
                lambda a, d=parts[chosen], s=s, eta=eta: math.log(f2(s, eta + a * d, mass)),
                bracket=(0.0, -delta), tol=1e-12,
            )  # fmt: skip
            alpha = float(line.x)
            eta = eta + alpha * parts[chosen]
        else:
            before = eta[inside.index(chosen)] if chosen in inside else 0.0
            alpha = step_of(columns[chosen], weights, before, smoothing)
            if chosen not in inside:
                inside.append(chosen)
                eta = np.append(eta, 0.0)
            eta[inside.index(chosen)] += alpha
        result.chosen.append(chosen)
        result.combined.append(chosen in parts)
        result.steps.append(alpha)
        result.slopes.append(delta)
        result.risk.append(f2([columns[j] for j in inside], eta, mass))
        if chosen not in parts and orders_all(columns[chosen]):
            break
    result.eta = dict(zip(inside, eta, strict=True))
    return result


def _exponents(columns, eta, size):
    total = np.zeros(size)
    for column, weight in zip(columns, eta, strict=True):
        log_cosh = np.logaddexp(weight, -weight) - math.log(2)
        total += np.where(column == 0, log_cosh, -weight * column)
    return total
