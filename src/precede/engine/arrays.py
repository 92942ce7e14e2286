"""Type aliases, used in annotations throughout the package.

Kernels are annotated too: numba ignores the annotations, mypy checks them. A scalar argument of a
kernel is an `int`, `float` or `bool`, or an `Integer` if callers pass both `int` and `np.int64`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]  # any type: labels, identifiers and features as passed by the user
Bytes = NDArray[np.uint8]  # codes of bins, characters
Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Keys = NDArray[np.uint64]  # hashes of rows and queries
Objects = NDArray[np.object_]
Records = NDArray[np.void]  # of a structured type
Rows = NDArray[np.int32]  # row indices
Signs = NDArray[np.int8]  # -1, 0 or 1

Integer = Any  # int or np.int64: equivalent for numba, different types for mypy
Record = Any  # an element of `Records`, whose fields are attributes in kernels
BackendArray = Any  # an array of the backend of the fit: NumPy's, or CuPy's on a GPU

# Input of users, checked and converted where it enters the package.
MatrixLike = Any  # features: an array, a sparse matrix, a data frame, or an array on a GPU
VectorLike = Any  # one value per row, query or pair: an array, a list, a series
RandomState = int | np.random.RandomState | np.random.Generator | None

Json = dict[str, Any]  # an object as it is read from or written to JSON
