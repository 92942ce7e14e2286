"""Margins again, by plain enumeration: every pair is listed, every ranker is a column."""

import decimal
import math
from decimal import Decimal

import numpy as np
import scipy.optimize

import naive


def pair_columns(judgments, weak_rankers):
    """M: one row for each crucial pair, one column for each ranker given as a list of values."""
    pairs = naive.list_pairs(judgments)
    return np.array(
        [[values[p.winner] - values[p.loser] for values in weak_rankers] for p in pairs], float
    ).reshape(len(pairs), len(weak_rankers))


def best_margin(judgments, weak_rankers, *, nonnegative=False):
    """Greatest least margin of any weights of absolute sum 1, over all pairs and all rankers."""
    matrix = pair_columns(judgments, weak_rankers)
    if not nonnegative:
        matrix = np.hstack([matrix, -matrix])
    rows, count = matrix.shape
    whole = np.hstack([matrix, -np.ones((rows, 1))])
    answer = scipy.optimize.linprog(
        [0.0] * count + [-1.0],
        A_ub=np.vstack([-whole, [1.0] * count + [0.0]]),
        b_ub=[0.0] * rows + [1.0],
        bounds=[(0, None)] * (count + 1),
    )
    assert answer.status == 0, answer.message
    return -answer.fun


def smooth_margin(judgments, weak_rankers, rounds, *, nonnegative=False, tie=2.0**-40):
    """RS09 figure 1 with equation (12), over lists: chosen rankers, steps, G before each round."""
    pairs = naive.list_pairs(judgments)
    weight = naive.loser_weights(judgments)
    initial = [pair.inner * weight[pair.loser] for pair in pairs]
    least = min(1.0, *initial)
    log_initial = [math.log(w / least) for w in initial]
    half_a_pair = 0.5 / naive.pair_count(judgments)
    scores, net = [0.0] * len(judgments), [0.0] * len(weak_rankers)
    chosen, steps, smooth = [], [], []
    for _ in range(rounds):
        mass = naive._normalized(log_initial, pairs, scores)
        split = [naive.split_mass(pairs, mass, values) for values in weak_rankers]
        worth = [r - w if nonnegative else abs(r - w) for r, w, _ in split]
        j = naive.first_of_the_best([w if w > 1e-15 else 0.0 for w in worth], tie)
        if j is None:
            break
        right, wrong, tied = split[j]
        norm = math.fsum(map(abs, net))
        g = -naive._log_risk(log_initial, pairs, scores) / norm if norm > 0 else -math.inf
        sign = 1.0 if right > wrong else -1.0
        right, wrong = max(right, wrong), min(right, wrong)
        if wrong == 0 and tied <= 1e-15:
            chosen.append(j)
            steps.append(None)  # one ranker is perfect
            break
        if g > 0 and wrong > 0:  # equation (12) as it is printed
            root = math.sqrt(g * g * tied * tied + (1 + g) * (1 - g) * 4 * right * wrong)
            step = math.log((-g * tied + root) / ((1 + g) * 2 * wrong))
        elif g > 0:  # its limit for d- = 0
            step = math.log((1 - g) * right / (g * tied))
        elif wrong > 0:
            step = 0.5 * math.log(right / wrong)
        else:
            step = 0.5 * math.log((right + half_a_pair) / (wrong + half_a_pair))
        for row, value in enumerate(weak_rankers[j]):
            scores[row] += sign * step * value
        net[j] += sign * step
        chosen.append(j)
        steps.append(sign * step)
        smooth.append(g)
    return chosen, steps, smooth


def progress_ratio(edge, smooth, tied):
    """B(r, g, d0) of RS09 section 7, with 50 digits and equation (12) as it is printed."""
    with decimal.localcontext(naive.DIGITS):
        r, g, d0 = (Decimal(number) for number in (edge, smooth, tied))
        right, wrong = (1 + r - d0) / 2, (1 - r - d0) / 2
        root = (g**2 * d0**2 + (1 + g) * (1 - g) * 4 * right * wrong).sqrt()
        step = ((-g * d0 + root) / ((1 + g) * 2 * wrong)).ln()
        tau = right * (-step).exp() + wrong * step.exp() + d0
        return (-tau.ln() / step - g) / (r - g)
