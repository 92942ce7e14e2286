"""Tie breaking: which edges count as equal, and which of several tied candidates is chosen.

Edges tie if they differ by less than a small share of the largest: such differences are rounding,
and repeated rows and integer weights would round differently. The first of tied candidates is
chosen. Candidates are always ordered by feature, then by threshold, then missing values below the
threshold before missing values above; families of a union in the order given.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["TIE", "TIE_OF_DECREASES", "TIE_UNITS", "first_tied", "least_tied"]

# Relative difference from the largest edge up to which another edge ties with it.
TIE = 2.0**-40
# Like TIE, for decreases of the risk: squared differences of square roots are less accurate.
TIE_OF_DECREASES = 1e-9
# Tolerance for the rounding of the terms of fixed-point edges (`exact.to_integers`), in units.
TIE_UNITS = 256
# Kernels call no function of another file, so they repeat the formula of `least_tied`.
assert (TIE, TIE_UNITS) == (2.0**-40, 256), "kernels write it as most - (most >> 40) - 256"


def least_tied(most: int) -> int:
    """Return the smallest fixed-point edge that ties with the largest, `most`.

    >>> least_tied(2**61) == 2**61 - 2**21 - 256
    True
    """
    return most - (most >> 40) - TIE_UNITS


def first_tied(edges: ArrayLike, tolerance: float = TIE) -> int:
    """Return the index of the first candidate whose edge ties with the largest.

    >>> first_tied([0.5, 1.0 - 1e-14, 1.0])
    1
    """
    values = np.asarray(edges)
    return int(np.argmax(values >= values.max() * (1 - tolerance)))
