"""Ranking with a convex push, transcribed from R05 figure 1: pairs listed, lines searched."""

import math

import scipy.optimize

import naive


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
