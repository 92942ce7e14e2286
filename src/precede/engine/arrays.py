"""Names for the types of arrays, used in annotations throughout the package.

Kernels are annotated with them too: numba ignores annotations, so they are documentation that
mypy checks. A scalar argument of a kernel is an `int`, `float` or `bool`, or an `Integer` where it
is an `int` at one time and an `np.int64` at another.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Array", "Bytes", "Flags", "Floats", "Integer", "Integers", "Keys", "Objects", "Rows", "Signs",
]  # fmt: skip

Array = NDArray[Any]  # of any type: labels, identifiers and features as users give them
Bytes = NDArray[np.uint8]  # codes of bins, characters
Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Keys = NDArray[np.uint64]  # of rows and queries, mixed as if at random
Objects = NDArray[np.object_]
Rows = NDArray[np.int32]  # numbers of rows
Signs = NDArray[np.int8]  # -1, 0 or 1

Integer = Any  # int or np.int64, which numba does not tell apart but mypy does
