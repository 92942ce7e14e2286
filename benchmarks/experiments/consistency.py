"""Consistency of ConvexRiskRanker (corollary 1 of CLV05): excess ranking risk against the sample
size.

    python benchmarks/experiments/consistency.py   # some minutes

Corollary 1 asks for a radius B_n that tends to infinity with B² φ'(B)/√n tending to 0, and for a
rich class. The radius here solves B² φ'(B) = n^0.4 (`precede.bounds.consistent_radius`). The
problem is `precede.datasets.uniform_regression` with one feature, two classes, and Bayes ranking
risk 1/12 (example 1 of the paper); the excess risk is computed from the true regression function
on fresh points, not from labels.
"""

import math
import sys
import warnings
from datetime import date
from itertools import pairwise
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure import write_page
from precede import ConvexRiskRanker
from precede.bounds import consistent_radius
from precede.datasets import excess_ranking_risk, uniform_regression

LOSSES = ("exponential", "logistic", "hinge")
SIZES = (100, 400, 1600, 6400)
REPEATS = 10
TEST_POINTS = 3000


def excess(loss, n, seed):
    """Excess ranking risk and certified gap of one fit."""
    train = uniform_regression(n, features=1, random_state=seed)
    test = uniform_regression(TEST_POINTS, features=1, random_state=10_000 + seed)
    model = ConvexRiskRanker(
        loss=loss,
        radius=consistent_radius(n, loss),
        tol=0.1 / math.sqrt(n),
        n_estimators=5000,
    )
    model.fit(train.X, train.y)
    return excess_ranking_risk(model.predict(test.X), test.truth), model.gap_


def binned():
    """Excess risk of the true regression function, averaged over 255 cells of equal width."""
    test = uniform_regression(TEST_POINTS, features=1, random_state=10_000)
    cell = np.floor(255 * test.X[:, 0]).astype(int)
    mean = np.bincount(cell, test.truth, 255) / np.maximum(np.bincount(cell, minlength=255), 1)
    return excess_ranking_risk(mean[cell], test.truth)


def measure():
    """One row for each loss and size: radius, mean, its standard error, largest gap."""
    rows = []
    for loss in LOSSES:
        for n in SIZES:
            runs = np.array([excess(loss, n, seed) for seed in range(REPEATS)])
            mean, error = runs[:, 0].mean(), runs[:, 0].std(ddof=1) / math.sqrt(REPEATS)
            rows.append((loss, n, consistent_radius(n, loss), mean, error, runs[:, 1].max()))
            print(*rows[-1], file=sys.stderr, flush=True)
    return rows


def verdict(rows, loss):
    """Whether the mean excess falls at every step, and by how much, from the numbers."""
    means, errors = zip(*(row[3:5] for row in rows if row[0] == loss), strict=True)
    steps = zip(pairwise(means), pairwise(errors), strict=True)
    least = min((a - b) / math.hypot(*error) for (a, b), error in steps)
    falls = all(a > b for a, b in pairwise(means))
    how = "falls at every step" if falls else "does not fall at every step"
    return (
        f"* {loss}: the mean excess {how}, from {means[0]:.4f} at n = {SIZES[0]} to "
        f"{means[-1]:.4f} at n = {SIZES[-1]} (a factor of {means[0] / means[-1]:.1f}); the least "
        f"of the {len(means) - 1} steps is {least:.1f} standard errors of the difference."
    )


def page(rows):
    lines = [
        "# Consistency of ConvexRiskRanker: excess ranking risk against the sample size", "",
        f"{date.today()}, output of `benchmarks/experiments/consistency.py`. Corollary 1 of "
        "Clémençon, Lugosi & Vayatis (2005): the minimizer of the convex risk over F_B is "
        "consistent if B → ∞, B²φ'(B)/√n → 0 and the class is rich (the least convex risk in F_B "
        "tends to the least there is).", "",
        "*Radius.* B solves B²φ'(B) = n^0.4, so that B²φ'(B)/√n = n^−0.1 falls for every loss.", "",
        "*Class.* Sums of stumps of one feature, for two classes on the line. They approach any "
        "function of x, and for the exponential and the logistic loss the best f(x, x') is "
        "s(x) − s(x') with s = ½ logit η or logit η: the class is rich. For the hinge the best "
        "f(x, x') is the sign of η(x) − η(x'), which is no difference of scores: the class is not "
        "rich, corollary 1 does not apply, and the hinge is here for comparison. At most 255 bins "
        "a feature are used; the regression function averaged over 255 cells has excess risk "
        f"{binned():.1e}.", "",
        f"*Data.* `uniform_regression(n, features=1)`: Bayes ranking risk 1/12 = 0.0833; a score "
        f"at random has excess risk 1/6 = 0.1667. Mean and standard error of {REPEATS} samples, "
        f"excess on {TEST_POINTS} fresh points; the gap is certified below 0.1/√n. Every fit "
        "within this gap counts as the minimizer, and two of them differ in their excess risk: "
        "SciPy's SLSQP, which corrects the weights, rounds differently with another BLAS or "
        "another number of its threads (one here).", "",
        "| loss | n | radius B | B²φ'(B)/√n | excess risk | standard error | largest gap |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]  # fmt: skip
    lines += [
        f"| {loss} | {n} | {radius:.2f} | {n**-0.1:.3f} | {mean:.4f} | {error:.4f} | {gap:.4f} |"
        for loss, n, radius, mean, error, gap in rows
    ]
    lines += ["", *(verdict(rows, loss) for loss in LOSSES)]
    return "\n".join(lines) + "\n"


def main():
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        write_page(__file__, "consistency.md", page(measure()))


if __name__ == "__main__":
    main()
