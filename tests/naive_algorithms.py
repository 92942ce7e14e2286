"""Algorithms of the papers again, over explicit lists of pairs and of candidates."""

import itertools
import math
from dataclasses import dataclass, field

import numpy as np
import scipy.optimize

import naive

# ----------------------------------------------------------------------------------------------
# AdaBoost again, over an explicit list of classifiers with values 1 and -1.


def adaboost(y, classifiers, weight, rounds, tie=2.0**-40):
    """Freund & Schapire's algorithm: classifiers by number, steps, and F of every row.

    `y` is 1 or -1. Where a classifier makes no mistake half a row is added to both sides.
    """
    rows = [i for i, w in enumerate(weight) if w > 0]
    F = [0.0] * len(y)
    chosen, steps = [], []
    for _ in range(rounds):
        exponents = [math.log(weight[i]) - y[i] * F[i] for i in rows]
        largest = max(exponents)
        terms = [math.exp(e - largest) for e in exponents]
        d = [term / math.fsum(terms) for term in terms]
        edges = [
            math.fsum(p * y[i] * h[i] for p, i in zip(d, rows, strict=True)) for h in classifiers
        ]
        j = naive.first_of_the_best([abs(e) if abs(e) > 1e-12 else 0.0 for e in edges], tie)
        if j is None:
            break
        right = math.fsum(p for p, i in zip(d, rows, strict=True) if y[i] * classifiers[j][i] > 0)
        wrong = math.fsum(p for p, i in zip(d, rows, strict=True) if y[i] * classifiers[j][i] < 0)
        perfect = min(right, wrong) == 0
        smoothing = 0.5 / max(len(rows), math.fsum(weight)) if perfect else 0.0
        step = 0.5 * math.log((right + smoothing) / (wrong + smoothing))
        F = [f + step * h for f, h in zip(F, classifiers[j], strict=True)]
        chosen.append(j)
        steps.append(step)
        if perfect:
            break
    return chosen, steps, F


# ----------------------------------------------------------------------------------------------
# RankBoost+ again, transcribed from C19 over explicit pairs and explicit candidates.
#
# A ranker is a list of 0s and 1s, one for each row; as a vector over pairs it is
# h(winner) - h(loser), a column of the paper's matrix R. Equation numbers are the paper's.


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


# ----------------------------------------------------------------------------------------------
# Ranking with a convex push, transcribed from R05 figure 1: pairs listed, lines searched.


def paid(judgments, scores, loss):
    """The losses of every loser: u_k, and the derivative of each of its terms by the margin."""
    by_loser = {}
    for pair in naive.list_pairs(judgments):
        margin = scores[pair.winner] - scores[pair.loser]
        by_loser.setdefault(pair.loser, []).append((pair, margin))
    value, slope = loss
    return {
        k: (
            math.fsum(pair.inner * value(m) for pair, m in terms),
            [(pair, pair.inner * slope(m)) for pair, m in terms],
        )
        for k, terms in by_loser.items()
    }


def objective(judgments, scores, loss, price, balance="pairs"):
    """sum_k v_k g(u_k); balanced, sum_k v_k n_k g(u_k / n_k)."""
    loser_weight, above = (
        naive.loser_weights(judgments, balance),
        naive.divisors(judgments, balance),
    )
    return math.fsum(
        loser_weight[k] * above[k] * price[0](u / above[k])
        for k, (u, _) in paid(judgments, scores, loss).items()
    )


def slope_along(judgments, scores, values, loss, price, balance="pairs"):
    """Derivative of the objective along a ranker (R05, before equation 2)."""
    loser_weight, above = (
        naive.loser_weights(judgments, balance),
        naive.divisors(judgments, balance),
    )
    return math.fsum(
        loser_weight[k] * price[1](u / above[k]) * term * (values[pair.winner] - values[pair.loser])
        for k, (u, terms) in paid(judgments, scores, loss).items()
        for pair, term in terms
    )


def least_along(judgments, scores, values, loss, price, balance="pairs"):
    """Step at which the derivative is 0, by bisection; the caller knows that there is one."""

    def at(step):
        moved = [s + step * v for s, v in zip(scores, values, strict=True)]
        return slope_along(judgments, moved, values, loss, price, balance)

    reach = 1.0 if at(0.0) < 0 else -1.0
    while (at(reach) < 0) == (reach > 0):
        reach *= 2
    return scipy.optimize.brentq(at, 0.0, reach, xtol=1e-14, rtol=1e-14)


def smoothed_step(judgments, scores, values, loss, price, *, gap=False, balance="pairs"):
    """Step along a ranker that reverses no pair, or orders none; None for any other ranker.

    Half a pair, e, is in order and decays at the rate of the loss, -l'(0) / l(0); another is
    reversed by the whole width of the ranker and grows at the rate M / R of the risk. `loss` and
    `price` are those of `naive`, in decimals.
    """
    pairs = naive.list_pairs(judgments)
    sides = [float(values[pair.winner]) - float(values[pair.loser]) for pair in pairs]
    if min(sides) < 0 < max(sides) or not any(sides):
        return None
    rows = {row for pair in pairs for row in (pair.winner, pair.loser)}
    width = max(float(values[row]) for row in rows) - min(float(values[row]) for row in rows)
    found = naive.risk(judgments, scores, loss, price, gap=gap, balance=balance)
    with naive.decimal.localcontext(naive.DIGITS):
        pulled = zip(found.pull, values, strict=True)
        ordered = sum(pull * naive.Decimal(float(value)) for pull, value in pulled)
        ordered = float(ordered / found.mass) / width
        zero = naive.Decimal(0)
        rates = float(-loss[1](zero) / loss[0](zero) + found.mass / found.value)
    half_a_pair = 0.5 / naive.pair_count(judgments)
    return math.copysign(math.log1p(abs(ordered) / half_a_pair) / rates / width, ordered)


def convex_push(judgments, weak_rankers, *, rounds, loss, price, balance="pairs"):
    """Chosen rankers, their steps and the objective after every round."""
    scores = [0.0] * len(judgments)
    chosen, steps, objectives = [], [], []
    for _ in range(rounds):
        slopes = [
            abs(slope_along(judgments, scores, h, loss, price, balance)) for h in weak_rankers
        ]
        best = naive.first_of_the_best(slopes, 2.0**-40)
        step = least_along(judgments, scores, weak_rankers[best], loss, price, balance)
        scores = [s + step * v for s, v in zip(scores, weak_rankers[best], strict=True)]
        chosen.append(best)
        steps.append(step)
        objectives.append(objective(judgments, scores, loss, price, balance))
    return chosen, steps, objectives


EXPONENTIAL = (lambda m: math.exp(-m), lambda m: -math.exp(-m))
LOGISTIC = (lambda m: math.log1p(math.exp(-m)), lambda m: -1 / (1 + math.exp(m)))
SQUARED_HINGE = (lambda m: max(0.0, 1 - m) ** 2, lambda m: -2 * max(0.0, 1 - m))


def power(p):
    return (lambda u: u**p, lambda u: p * u ** (p - 1))


EXP = (math.exp, math.exp)
QUADRATIC = (lambda u: u + u * u, lambda u: 1 + 2 * u)


# ----------------------------------------------------------------------------------------------
# AdaBoost.MH and AdaBoost.MR again: every row, every pair, every stump, every set of votes.


def multilabel_candidates(X, labels):
    """Values of every ranker of item and label: all constants, then all stumps, with all votes."""
    X = [list(row) for row in X]
    ones = [[1] * len(X)]
    signs = [[2 * v - 1 for v in stump.values(X)] for stump in naive.candidates(X)]
    return [
        [[v * vote for vote in votes] for v in values]
        for values in (*ones, *signs)
        for votes in itertools.product((1, -1), repeat=labels)
    ]


def multilabel_terms(Y, weight, method, across, balance):
    """Pairs of rows ((item, label), (item, label) or None, sign) with their weights."""
    rows = [(i, label) for i, row in enumerate(Y) for label in range(len(row)) if weight[i] > 0]
    if method == "MH":
        return [((i, label), None, 1 if Y[i][label] else -1, weight[i]) for i, label in rows]
    present = [row for row in rows if Y[row[0]][row[1]]]
    absent = [row for row in rows if not Y[row[0]][row[1]]]
    found = []
    for one, other in itertools.product(present, absent):
        if across:
            found.append((one, other, 1, weight[one[0]] * weight[other[0]]))
        elif one[0] == other[0]:
            own = sum(Y[one[0]]) * (len(Y[0]) - sum(Y[one[0]]))
            found.append((one, other, 1, weight[one[0]] / (own if balance == "items" else 1)))
    return found


def multilabel_loss(terms_, scores):
    """Sum of the exponential losses."""
    return math.fsum(
        w * math.exp(-sign * (scores[a[0]][a[1]] - (scores[b[0]][b[1]] if b else 0.0)))
        for a, b, sign, w in terms_
    )


def multilabel_edge(terms_, scores, weak_rankers):
    """Largest absolute edge of any ranker, for weights of the terms that sum to 1."""
    mass = [
        w * math.exp(-sign * (scores[a[0]][a[1]] - (scores[b[0]][b[1]] if b else 0.0)))
        for a, b, sign, w in terms_
    ]
    total = math.fsum(mass)
    return max(
        abs(math.fsum(
            m * sign * (h[a[0]][a[1]] - (h[b[0]][b[1]] if b else 0))
            for m, (a, b, sign, _) in zip(mass, terms_, strict=True)
        )) / total
        for h in weak_rankers
    )  # fmt: skip
