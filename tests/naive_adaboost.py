"""AdaBoost again, over an explicit list of classifiers with values 1 and -1."""

import math

import naive


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
