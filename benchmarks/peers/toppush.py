"""TopPush (Li, Jin & Zhou, *Top rank optimization in linear time*, 2014), written for comparison.

A linear score ``s = X w`` with the least ``mean_i l(max_k s_k - s_i) + strength / 2 |w|²`` over
positives i and negatives k, ``l(z) = max(0, 1 + z)²``. Because l increases, it is also the infinite
push of Agarwal (2011), ``max_k mean_i l(s_k - s_i)``, with this loss in place of the hinge.

The dual has one number for each row, a for positives and b for negatives, all at least 0 and with
equal sums: ``|X+'a - X-'b|² / (2 strength m) + sum(a² / 4 - a)`` is minimized by accelerated
projected gradients, O(rows log rows) an iteration, and ``w = (X+'a - X-'b) / (strength m)``.

Where the mean of the positives is in the convex hull of the negatives, the minimum is w = 0, for
any strength and any convex loss: the highest negative is never below the mean positive.
Such data are learned from by stopping early, so weights are returned after several iterations.
"""

import numpy as np

STOPS = (5, 10, 20, 50, 100)


def path(X, y, strength):
    """Weights after each of `STOPS` iterations."""
    positive = y == 1
    signed = X * np.where(positive, 1.0, -1.0)[:, None]
    scale = strength * positive.sum()
    length = 1.0 / (np.linalg.eigvalsh(signed.T @ signed)[-1] / scale + 0.5)
    rows = ahead = np.zeros(y.size)
    momentum, found = 1.0, []
    for iteration in range(1, STOPS[-1] + 1):
        slope = signed @ (signed.T @ ahead) / scale + np.where(positive, ahead / 2 - 1, 0.0)
        after = projected(ahead - length * slope, positive)
        if (ahead - after) @ (after - rows) > 0:  # going uphill: forget the momentum
            momentum = 1.0
        grown = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = after + (momentum - 1) / grown * (after - rows)
        rows, momentum = after, grown
        if iteration in STOPS:
            found.append(signed.T @ rows / scale)
    return found


def projected(rows, positive):
    """The nearest numbers that are not negative, with equal sums over both classes."""
    a, b = np.sort(rows[positive]), np.sort(-rows[~positive])
    shifts = np.sort(np.concatenate([a, b]))
    # Sums over a of what is above each shift, less sums over b of what is below: falling.
    count_a, count_b = np.searchsorted(a, shifts), np.searchsorted(b, shifts)
    sums_a, sums_b = np.append(0.0, np.cumsum(a)), np.append(0.0, np.cumsum(b))
    surplus = sums_a[-1] - sums_a[count_a] - (a.size - count_a) * shifts
    surplus -= count_b * shifts - sums_b[count_b]
    shift = np.interp(0.0, -surplus, shifts)
    return np.maximum(np.where(positive, rows - shift, rows + shift), 0.0)
