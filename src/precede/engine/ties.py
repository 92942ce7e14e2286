"""The rule for ties: what counts as equal, and which of several equal candidates is chosen.

Edges that differ by less than a small share of the largest are equal: what is left is rounding,
and it would come out differently where rows are repeated instead of weighted. Of candidates that
tie the first wins, and candidates are always listed in the same order: by feature, then by
threshold, then with missing values below before missing values above; families of a union in the
order in which they are named.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["TIE", "TIE_OF_DECREASES", "TIE_UNITS", "first_tied", "least_tied"]

# Share of the largest edge within which another edge ties with it.
TIE = 2.0**-40
# The same for decreases of the risk: squares of differences of square roots are less exact.
TIE_OF_DECREASES = 1e-9
# For edges kept as integers (`exact.to_integers`), units that the terms may have been rounded by.
TIE_UNITS = 256
# Kernels call no function of another file, so they write the rule of `least_tied` out.
assert (TIE, TIE_UNITS) == (2.0**-40, 256), "kernels write it as most - (most >> 40) - 256"


def least_tied(most: int) -> int:
    """Least edge, as an integer, that ties with the largest.

    >>> least_tied(2**61) == 2**61 - 2**21 - 256
    True
    """
    return most - (most >> 40) - TIE_UNITS


def first_tied(worth: ArrayLike, tolerance: float = TIE) -> int:
    """Number of the first candidate whose worth ties with the largest.

    >>> first_tied([0.5, 1.0 - 1e-14, 1.0])
    1
    """
    values = np.asarray(worth)
    return int(np.argmax(values >= values.max() * (1 - tolerance)))
