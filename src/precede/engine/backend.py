"""Backends: the memory that holds the arrays of a fit, and the operations on them.

A fit runs on one `Backend`, its `Context.backend`: `CPU` (NumPy, compiled kernels, the threads of
the context) or a `precede.engine.cuda.CudaBackend` (CuPy, the kernels of `kernels.cu`). Each object
that computes something, such as a bound risk or a search for weak rankers, has an attribute
`backend`: `Context.backend`, or `CPU` if it has no kernels for a GPU. Arrays are copied only where
two objects with different backends meet.

`BACKENDS` maps the names that users give as `device` to backends. Another implementation, such as
the emulated GPU of the tests, is added to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from types import ModuleType
from typing import ClassVar

import numpy as np
from numpy.typing import DTypeLike

from precede.engine.arrays import Array, BackendArray, Floats, Integers, Keys, MatrixLike, Rows
from precede.engine.compiling import njit
from precede.engine.exact import hash_with_seeds
from precede.engine.execution import Context, threads_for

# The code of CUDA in `__dlpack_device__`.
DLPACK_CUDA = 2

# Numbers of thread blocks, or of threads of a block, in each dimension.
Grid = int | tuple[int, ...]


class Backend:
    """Arrays and elementary operations on them; see the module docstring.

    Sums of floating-point numbers are computed by `precede.engine.exact.exact_sums`, on the backend
    that holds them.

    Attributes
    ----------
    xp : module
        Array namespace: NumPy, or CuPy, which has the same functions.
    is_gpu : bool
        Whether arrays are in the memory of a GPU, where only the kernels of `kernels.cu` run.
    name : str
        Name of the hardware, for messages.
    count : int
        Number of devices of this kind that the process can use.
    """

    xp: ModuleType
    is_gpu: ClassVar[bool] = False
    name: str = ""
    count: int = 1

    def holds(self, array: BackendArray) -> bool:
        """Return whether an array is in the memory of this backend."""
        return isinstance(array, self.xp.ndarray)

    def put(self, array: BackendArray) -> BackendArray:
        """Return a NumPy array in the memory of this backend; no copy if it is there already."""
        raise NotImplementedError

    def get(self, array: BackendArray) -> Array:
        """Return an array of this backend as a NumPy array; a NumPy array unchanged."""
        raise NotImplementedError

    def zeros(self, *shape: int, dtype: DTypeLike = np.float64) -> BackendArray:
        """Return an array of zeros."""
        return self.xp.zeros(shape, dtype)

    def empty(self, *shape: int, dtype: DTypeLike = np.float64) -> BackendArray:
        """Return an uninitialized array."""
        return self.xp.empty(shape, dtype)

    def zero_rows(self, count: int, context: Context) -> BackendArray:  # noqa: ARG002
        """Return a zero for each row, written by the threads that share the rows."""
        return self.zeros(count)

    def at_least(
        self,
        values: BackendArray,
        weight: BackendArray,
        share: float,
        context: Context,  # noqa: ARG002
    ) -> BackendArray:
        """Return the values, each raised to at least ``share * weight``."""
        return np.maximum(values, share * weight)

    def advance(
        self, scores: BackendArray, values: BackendArray, weight: float, context: Context
    ) -> None:
        """Add ``weight * values`` to the scores in place."""
        raise NotImplementedError

    def divide(
        self, arrays: tuple[BackendArray, BackendArray], divisor: float, context: Context
    ) -> None:
        """Divide two arrays of equal size by a number in place."""
        raise NotImplementedError

    def draw(self, keys: BackendArray, seeds: Keys, threshold: float) -> BackendArray:
        """Return the rows whose keys, hashed with `seeds` to 53 bits, are below the threshold."""
        raise NotImplementedError

    def sort_levels(self, key: Keys, level: Integers, context: Context) -> Integers:
        """Return a stable sort by `key` of the rows of each level, as a NumPy array.

        The levels of the rows increase.
        """
        raise NotImplementedError

    def has_room(self, needed: int) -> bool:  # noqa: ARG002
        """Return whether `needed` bytes of memory are known to be free."""
        return True

    def check_room(self, needed: int, what: str) -> None:
        """Raise ValueError if `needed` bytes of memory, for `what`, are not free."""

    def use(self, number: int) -> None:
        """Make device `number` current for this thread."""

    # -- on a GPU only ---------------------------------------------------------------------

    def launch(
        self, kernel: str, grid: Grid, block: Grid, *arguments: object, shared: int = 0
    ) -> None:
        """Launch a kernel; Python integers are passed as 32 bits, NumPy's with their own size."""
        raise NotImplementedError

    def over_rows(self, kernel: str, count: int, *arguments: object) -> None:
        """Launch a kernel whose threads share ``range(count)``; `count` is its first argument."""
        raise NotImplementedError

    def exact_sums(self, arrays: Sequence[BackendArray]) -> list[float]:
        """Return the exact sum of each array; see `precede.engine.exact.exact_sums`."""
        raise NotImplementedError

    def sums_and_largest(
        self, arrays: Sequence[BackendArray], *, absolute: bool = False
    ) -> list[tuple[float, float]]:
        """Return the exact sum and the largest absolute value of one or two arrays of equal size.

        With `absolute`, the absolute values of the first array are summed.
        """
        raise NotImplementedError

    def adopt(self, value: BackendArray) -> BackendArray:
        """Wrap an array of another library on the same GPU without copying."""
        raise NotImplementedError

    def adopt_matrix(self, array: MatrixLike) -> BackendArray:
        """Wrap a foreign GPU array; raise ValueError if it is not a matrix of numbers."""
        found = self.adopt(array)
        if found.ndim != 2 or found.dtype.kind not in "fiub":
            raise ValueError(
                f"X is an array of shape {found.shape} and type {found.dtype} on a GPU; give a "
                "matrix of numbers"
            )
        return found

    def free(self) -> int:
        """Return the free memory in bytes."""
        raise NotImplementedError


class CpuBackend(Backend):
    """NumPy arrays; loops over rows run on the threads of a context."""

    xp = np
    name = "CPU"

    def put(self, array: BackendArray) -> BackendArray:
        """Return the array."""
        return array

    def get(self, array: BackendArray) -> Array:
        """Return the array."""
        return array

    def zero_rows(self, count: int, context: Context) -> Floats:
        """Return a zero for each row, written by the threads that share the rows."""
        threads = threads_for("rows", count)
        if min(threads, context.jobs) == 1:  # without compiling a kernel, here and below
            return np.zeros(count)
        rows = np.empty(count)
        context.run(_clear, count, rows, threads=threads)
        return rows

    def at_least(self, values: Floats, weight: Floats, share: float, context: Context) -> Floats:
        """Return the values, each raised to at least ``share * weight``."""
        threads = threads_for("rows", values.size)
        if min(threads, context.jobs) == 1:
            return super().at_least(values, weight, share, context)
        raised = np.empty(values.size)
        context.run(_raise, values.size, values, weight, share, raised, threads=threads)
        return raised

    def advance(
        self, scores: BackendArray, values: BackendArray, weight: float, context: Context
    ) -> None:
        """Add ``weight * values`` to the scores in place."""
        threads = threads_for("rows", scores.size)
        if min(threads, context.jobs) == 1:
            scores += np.multiply(values, weight, dtype=np.float64)
        else:
            context.run(_advance, scores.size, scores, values, weight, threads=threads)

    def divide(
        self, arrays: tuple[BackendArray, BackendArray], divisor: float, context: Context
    ) -> None:
        """Divide two arrays of equal size by a number in place."""
        threads = threads_for("rows", arrays[0].size)
        if min(threads, context.jobs) == 1:
            for array in arrays:
                np.divide(array, divisor, out=array)
        else:
            context.run(_divide, arrays[0].size, *arrays, divisor, threads=threads)

    def draw(self, keys: BackendArray, seeds: Keys, threshold: float) -> Rows:
        """Return the rows whose keys, hashed with `seeds` to 53 bits, are below the threshold."""
        uniform = hash_with_seeds(keys, seeds) >> np.uint64(11)
        return np.flatnonzero(uniform < threshold).astype(np.int32)

    def sort_levels(self, key: Keys, level: Integers, context: Context) -> Integers:
        """Return a stable sort by `key` of the rows of each level, whose levels increase."""

        def start_of_level(row: int) -> int:
            return int(np.searchsorted(level, level[row])) if row < level.size else row

        def sort(low: int, high: int) -> Integers:
            rows = slice(start_of_level(low), start_of_level(high))
            return rows.start + np.lexsort((key[rows], level[rows]))

        threads = threads_for("rows", level.size)
        return np.concatenate(context.map(sort, level.size, threads=threads))


CPU = CpuBackend()


@lru_cache
def _open_cuda(number: int | None = None) -> Backend:  # noqa: ARG001  (the key)
    from precede.engine.cuda import CudaBackend  # noqa: PLC0415  (only on a GPU)

    return CudaBackend()


# By the name of the device: the function that opens its backend. Its argument is the number of the
# device for a process that uses several, since kernels are loaded per device.
BACKENDS: dict[str, Callable[[int | None], Backend]] = {
    "cpu": lambda number: CPU,  # noqa: ARG005
    "cuda": _open_cuda,
}


def check_device(device: str) -> None:
    """Raise ValueError if there is no backend of this name."""
    if device not in BACKENDS:
        raise ValueError(f"device={device!r} is unknown; use one of {tuple(BACKENDS)}")


def open_backend(device: str, number: int | None = None) -> Backend:
    """Return the backend of a device, which is opened at the first use.

    >>> open_backend("cpu") is CPU
    True
    """
    check_device(device)
    return BACKENDS[device](number)


def open_backend_of_worker(device: str, rank: int) -> Backend:
    """Return the backend of one of several workers and make its device current for this thread.

    If a process sees several GPUs, they are assigned to workers round-robin by rank.

    >>> open_backend_of_worker("cpu", 3) is CPU
    True
    """
    backend = open_backend(device)
    number = rank % backend.count
    backend.use(number)
    return open_backend(device, number)


def on_gpu(value: object) -> bool:
    """Return whether an array is in GPU memory: CuPy, PyTorch or any other library's.

    >>> on_gpu(np.zeros(3))
    False
    """
    if isinstance(value, np.ndarray):
        return False
    if hasattr(value, "__cuda_array_interface__"):
        return True
    device = getattr(value, "__dlpack_device__", None)
    return device is not None and device()[0] == DLPACK_CUDA


# -- kernels -------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _clear(low: int, high: int, values: Floats) -> None:
    """Set the rows low..high to 0."""
    for row in range(low, high):
        values[row] = 0.0


@njit(cache=True, nogil=True)
def _raise(
    low: int, high: int, values: Floats, weight: Floats, share: float, raised: Floats
) -> None:
    """Write the values of the rows low..high, each raised to at least ``share * weight``."""
    for row in range(low, high):
        least = share * weight[row]
        raised[row] = least if values[row] < least else values[row]


@njit(cache=True, nogil=True)
def _advance(low: int, high: int, scores: Floats, values: Array, weight: float) -> None:
    """Add ``weight * values`` to the scores of the rows low..high."""
    for row in range(low, high):
        scores[row] += np.float64(values[row]) * weight


@njit(cache=True, nogil=True, error_model="numpy")
def _divide(low: int, high: int, first: Floats, second: Floats, divisor: float) -> None:
    """Divide the rows low..high of two arrays."""
    for row in range(low, high):
        first[row] /= divisor
        second[row] /= divisor
