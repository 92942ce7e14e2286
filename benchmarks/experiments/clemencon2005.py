"""Fast rates of the empirical ranking risk minimizer (Clémençon, Lugosi & Vayatis 2005, section 5).

    python benchmarks/experiments/clemencon2005.py       # a few minutes on two cores

X is uniform on [0, 1] and η(x) = P(Y = 1 | x) = 1 − |2x − 1|, so that η(X) is uniform and
corollary 2 applies with density 1. The class is s_t(x) = −|x − t| for t on a grid that holds the
optimal ½: a pair (x, x') changes its order once, where t passes (x + x')/2, so the class has VC
dimension 1, and all its empirical risks come from one histogram of the midpoints of the pairs. The
minimizer over all pairs is compared with the minimizer over ⌊n/2⌋ disjoint pairs, which, as section
3 says, loses the advantage of the U-statistic.
"""

import math
import sys
from datetime import date
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure import write_page
from precede import minimize_ranking_risk
from precede.bounds import fast_rate_bound, noise_constant, projection_variance_bound, vc_bound

SIZES = (50, 100, 200, 400, 800, 1600)
REPEATS = 100
CUTS = np.linspace(0.3, 0.7, 401)
DISTANCES = (0.0125, 0.025, 0.05, 0.1, 0.2)


def eta(x):
    return 1 - np.abs(2 * x - 1)


def excess_risk(cut):
    """L(s_t) − L* = 4d² − 8d³, d = |t − ½| ≤ ¼: s_t errs where the midpoint is between ½ and t."""
    d = np.abs(cut - 0.5)
    return 4 * d**2 - 8 * d**3


def projection_variance(cut, points=800):
    """Var(h) of a member, by the midpoint rule."""
    x = (np.arange(points) + 0.5) / points
    chance, order = eta(x), np.sign(eta(x)[:, None] - eta(x))
    score = -np.abs(x - cut)
    wrong = order * (np.sign(score[:, None] - score) * order < 0)
    positive, negative = wrong @ (1 - chance) / points, -wrong @ chance / points  # E(q | x, y)
    mean = (chance * positive + (1 - chance) * negative).mean()
    return (chance * positive**2 + (1 - chance) * negative**2).mean() - mean**2


def best_cut(better, worse):
    """The first t with the fewest pairs in the wrong order, and their number."""
    place = np.searchsorted(CUTS, (better + worse) / 2, side="left")  # cuts before are below
    low = better < worse  # such a pair is in order for t below its midpoint
    below, above = (np.bincount(place[side], minlength=CUTS.size + 1) for side in (low, ~low))
    wrong = np.cumsum(below)[:-1] + above.sum() - np.cumsum(above)[:-1]
    return CUTS[np.argmin(wrong)], int(wrong.min())


def one_sample(n, generator):
    """Excess risk of the minimizer over all pairs, and over disjoint pairs."""
    x = generator.random(n)
    y = generator.random(n) < eta(x)
    both = np.meshgrid(x[y], x[~y], indexing="ij")
    first, second = (np.arange(n // 2) + shift for shift in (0, n // 2))
    apart = y[first] != y[second]
    better = np.where(y[first], x[first], x[second])[apart]
    worse = np.where(y[first], x[second], x[first])[apart]
    cuts = best_cut(*(side.ravel() for side in both))[0], best_cut(better, worse)[0]
    return [excess_risk(cut) for cut in cuts]


def check_minimizer(n=60):
    """The histogram finds what `minimize_ranking_risk` finds."""
    generator = np.random.default_rng(0)
    x = generator.random(n)
    y = generator.random(n) < eta(x)
    scores = [lambda X, t=t: -np.abs(X[:, 0] - t) for t in CUTS]
    found = minimize_ranking_risk(x[:, None], y.astype(int), weak_rankers=scores, reverse=False)
    both = np.meshgrid(x[y], x[~y], indexing="ij")
    cut, wrong = best_cut(*(side.ravel() for side in both))
    assert wrong == round(found.pair_error * found.n_pairs)
    assert np.allclose(found.predict([[0.0]]), -cut)


def slope(values):
    """Exponent of n in a least-squares line through the logarithms, with its standard error."""
    design = np.stack([np.log(SIZES), np.ones(len(SIZES))], axis=1)
    answer, rest = np.linalg.lstsq(design, np.log(values), rcond=None)[:2]
    spread = float(rest[0]) / (len(SIZES) - 2) * np.linalg.inv(design.T @ design)[0, 0]
    return float(answer[0]), math.sqrt(spread)


def measure():
    rows = []
    for n in SIZES:
        generator = np.random.default_rng(n)
        runs = np.array([one_sample(n, generator) for _ in range(REPEATS)])
        rows.append((n, runs.mean(axis=0), runs.std(axis=0, ddof=1) / math.sqrt(REPEATS)))
        print(*rows[-1], file=sys.stderr, flush=True)
    return rows


def noise_table(excess, variance):
    """Proposition 4 at some members: the largest ratio of the variance to its bound."""
    lines = ["| α | c (`noise_constant`, density 1) | largest Var(h)/(c·Λ^α) |", "|--:|--:|--:|"]
    for alpha in (0.0, 0.5, 0.9, 0.99):
        c = noise_constant(alpha, density=1.0)
        bounds = [projection_variance_bound(one, c=c, alpha=alpha).value for one in excess]
        lines.append(f"| {alpha} | {c:.2f} | {np.max(variance / bounds):.3f} |")
    return lines


def page(rows, excess, variance):
    all_pairs, disjoint = (slope([row[1][k] for row in rows]) for k in (0, 1))
    power = np.polyfit(np.log(excess), np.log(variance), 1)[0]
    faster = all_pairs[0] + 2 * all_pairs[1] < disjoint[0] - 2 * disjoint[1]
    lines = [
        "# Fast rates of the minimizer of the empirical ranking risk", "",
        f"{date.today()}, output of `benchmarks/experiments/clemencon2005.py`. Clémençon, Lugosi & "
        "Vayatis (2005), section 5. X uniform on [0, 1], η(x) = 1 − |2x − 1|, scores −|x − t| for "
        f"{CUTS.size} values of t around the optimal ½ (VC dimension 1). Mean and standard error "
        f"of the excess ranking risk L(r_n) − L* over {REPEATS} samples.", "",
        "| n | all pairs (U-statistic) | standard error | ⌊n/2⌋ disjoint pairs | standard error "
        "| theorem 1, α = 1, C = 1 | proposition 2, proved |",
        "|--:|--:|--:|--:|--:|--:|--:|",
    ]  # fmt: skip
    for n, mean, error in rows:
        fast = fast_rate_bound(n, vc_dimension=1, alpha=1.0, constant=1.0).value
        slow = vc_bound(n, vc_dimension=1, excess=True).value
        lines.append(
            f"| {n} | {mean[0]:.6f} | {error[0]:.6f} | {mean[1]:.6f} | {error[1]:.6f} "
            f"| {fast:.4f} | {slow:.4f} |"
        )
    lines += [
        "",
        f"Fitted exponents of n: {all_pairs[0]:.2f} ± {all_pairs[1]:.2f} for all pairs, "
        f"{disjoint[0]:.2f} ± {disjoint[1]:.2f} for disjoint pairs (± one standard error of the "
        "fitted line). The paper's bound for η(X) with a bounded density is n^(−1+ε) for any ε > 0 "
        "(corollary 2); a first-order bound gives n^−½. For disjoint pairs the variance of a "
        "difference of risks is the chance of a pair that two rules order differently, of the "
        "order of Λ^½ here, for which the argument of theorem 1 gives n^−⅔.", "",
        f"The rate of all pairs is {'faster' if faster else 'not clearly faster'} than that of "
        "disjoint pairs (by more than two standard errors each: "
        f"{'yes' if faster else 'no'}).", "",
        "The constants of theorem 1 are not in the paper: its column shows the rate for C = 1 and "
        "is no guarantee. Proposition 2 is the bound of section 3 with proved constants "
        "(`vc_bound(n, vc_dimension=1, excess=True)`).", "",
        "## Proposition 4", "",
        f"Over t = ½ + {', '.join(map(str, DISTANCES))} Var(h_s) grows as Λ^{power:.2f} (fitted; "
        "computed by the midpoint rule). Proposition 4 bounds it by c·Λ^α; a ratio above 1 would "
        "contradict it.", "",
        *noise_table(excess, variance),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def main():
    check_minimizer()
    cuts = 0.5 + np.array(DISTANCES)
    variance = np.array([projection_variance(cut) for cut in cuts])
    text = page(measure(), excess_risk(cuts), variance)
    write_page(__file__, "clemencon2005.md", text)


if __name__ == "__main__":
    main()
